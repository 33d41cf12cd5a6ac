"""A ledger keeps to its budgets, and cannot be talked down."""

import contextlib
import dataclasses
import itertools
import math
from fractions import Fraction
from typing import NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from ldp_jax.accounting.gaussian import GaussianCurve
from ldp_jax.accounting.guarantee import (
    EDGE_CENTRAL,
    NEIGHBOUR_LIST,
    RECORD,
    RELATIONSHIP,
    Budget,
    Guarantee,
    PipelineGuarantee,
    Unit,
    metric,
)
from ldp_jax.accounting.ledger import BudgetExceededError, Ledger, Release
from ldp_jax.core.checksum import sealed
from ldp_jax.core.rounding import add_up, digits_down
from tests.accounting.parts import proved


def test_ten_times_a_tenth_fits_one_and_an_eleventh_is_named():
    ledger = Ledger(Budget(1.0))
    for step in range(10):
        ledger = ledger.spend(f"step {step}", proved(0.1))
    assert ledger.remaining(RECORD).epsilon == 0.0
    words = (
        r"'the straw' \(epsilon 0.1, delta 1e-09\) .*per record: epsilon 1 is spent, epsilon 0, "
    )
    with pytest.raises(BudgetExceededError, match=words):
        ledger.spend("the straw", proved(0.1, delta=1e-9))
    with pytest.raises(ValueError, match="does not fit"):  # it is a ValueError too
        ledger.spend("little", proved(1e-8))


def test_the_message_says_what_is_spent_and_what_remains():
    ledger = Ledger(Budget(2.0, delta=1e-5)).spend("first", proved(0.75, delta=4e-6))
    for more in (proved(1.5), proved(0.1, delta=7e-6)):
        with pytest.raises(
            BudgetExceededError, match="'second'.* delta 4e-06 is spent, .* remains"
        ):
            ledger.spend("second", more)
    ledger = Ledger([LISTS, EDGES])
    for lists, edges, unit in ((1.1, 1.0, "neighbour-list"), (1.0, 2.1, "relationship")):
        with pytest.raises(BudgetExceededError, match=f"does not fit the budget per {unit}"):
            ledger.spend("graph", whole_graph(lists, edges))


def test_a_ledger_never_changes_and_none_over_its_budget_can_be_made():
    budgets = [Budget(1.0)]
    empty = Ledger(budgets)
    budgets.append(Budget(5.0, unit=RELATIONSHIP))
    spent = empty.spend("x", proved(0.5))
    assert (empty.budgets, empty.releases, len(spent.releases)) == ((Budget(1.0),), (), 1)
    nothing = empty.spent(RECORD)
    assert (nothing.epsilon, nothing.delta, nothing.status) == (0.0, 0.0, "proved")
    assert spent == empty.spend("x", proved(0.5))
    assert hash(spent) == hash(empty.spend("x", proved(0.5)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        spent.releases = ()
    release = Release("x", proved(0.75))
    ledger = Ledger(None, [release, release])
    for make in (
        lambda: spent.spend("'x'", proved(0.75)),
        lambda: Ledger(Budget(1.0), [release, release]),
        lambda: dataclasses.replace(ledger, budget=Budget(1.0)),
    ):
        with pytest.raises(BudgetExceededError, match="'x'"):
            make()


def test_units_have_their_own_budgets():
    ledger = Ledger([Budget(1.0), Budget(2.0, unit=NEIGHBOUR_LIST)])
    ledger = ledger.spend("x", proved(1.0)).spend("edges", proved(2.0, unit=NEIGHBOUR_LIST))
    assert [ledger.remaining(unit).epsilon for unit in (RECORD, NEIGHBOUR_LIST)] == [0.0, 0.0]
    with pytest.raises(
        BudgetExceededError, match="'graph' .* per edge-central, which has no budget"
    ):
        ledger.spend("graph", proved(0.1, unit=EDGE_CENTRAL))


def test_nan_and_negative_budgets_are_refused_however_they_are_made():
    for epsilon, delta in ((math.nan, 0.0), (-1.0, 0.0), (1.0, math.nan), (1.0, -0.1)):
        limit = Budget(1.0)
        broken = proved(1.0)
        for made in (limit, broken):
            object.__setattr__(made, "epsilon", epsilon)
            object.__setattr__(made, "delta", delta)
        for call in (
            lambda limit=limit: Ledger(limit),
            lambda broken=broken: Ledger(Budget(1.0)).spend("x", broken),
            lambda broken=broken: Ledger().spend("x", broken),
        ):
            with pytest.raises(ValueError, match="epsilon|delta"):
                call()


def test_what_proves_nothing_fits_no_budget():
    unproven = Guarantee(0.1, status="none", reason="eq. 7 does not hold")
    edges = (per(NEIGHBOUR_LIST), Guarantee(1.0, unit=RELATIONSHIP))
    for budget, cost, words in (
        (1.0, unproven, r"proves nothing about record.*eq\. 7"),
        (1.0, Guarantee(0.1), "proves nothing about record.*: no proof was given"),
        ([LISTS, EDGES], PipelineGuarantee(edges, ("edges",)), "nothing about relationship"),
        (1.0, proved(math.inf), r"'x' \(epsilon inf\)"),
    ):
        with pytest.raises(BudgetExceededError, match=words):
            Ledger(budget).spend("x", cost)
    assert "none: eq. 7 does not hold" in Ledger().spend("x", unproven).explain()
    chain = Guarantee(0.1, status="in the limit", reason="the chain is run for a while")
    assert Ledger(Budget(1.0)).spend("x", chain).spent(RECORD).status == "in the limit"


def test_gaussian_releases_compose_before_they_are_converted():
    """k of them cost the epsilon of mu sqrt(k) at the budget's delta, less than any sum."""
    curve = GaussianCurve.of(1.0, 20.0)
    budget = Budget(2.0, delta=1e-6)
    ledger = Ledger(budget)
    k = 16
    for step in range(k):
        ledger = ledger.spend(f"round {step}", curve)
    spent = ledger.spent(RECORD)
    assert spent.epsilon == pytest.approx(curve.repeated(k).epsilon(1e-6), rel=1e-12)
    assert spent.delta == 1e-6
    assert spent.epsilon < 0.5 * k * curve.epsilon(1e-6)
    assert GaussianCurve(curve.mu * math.sqrt(k)).delta(spent.epsilon) <= 1e-6
    with pytest.raises(BudgetExceededError, match=r"'too much' \(mu 0.5\)"):
        ledger.spend("too much", GaussianCurve(0.5))


def test_pure_and_gaussian_parts_add_and_share_the_delta():
    curve = GaussianCurve(0.1)
    ledger = Ledger(Budget(3.0, delta=1e-5)).spend("noise", curve)
    assert ledger.spent(RECORD).epsilon == curve.epsilon(1e-5)
    ledger = ledger.spend("pure", proved(1.0)).spend("approximate", proved(0.5, delta=6e-6))
    spent = ledger.spent(RECORD)
    assert spent.epsilon == pytest.approx(1.5 + curve.epsilon(4e-6), rel=1e-9)
    assert spent.delta == pytest.approx(1e-5, rel=1e-12)
    for full, cost in ((ledger, proved(0.1, delta=4e-6)), (Ledger(Budget(3.0)), curve)):
        with pytest.raises(BudgetExceededError, match="needs a delta, and none is left"):
            full.spend("all of it", cost)
    named = Ledger(Budget(3.0, delta=1e-5)).spend("noise", curve, delta=1e-6).spend("more", curve)
    assert named.spent(RECORD).epsilon == pytest.approx(curve.repeated(2).epsilon(1e-6), rel=1e-12)
    assert named.remaining(RECORD).delta == pytest.approx(9e-6)
    with pytest.raises(BudgetExceededError, match="does not fit"):
        named.spend("beyond", curve, delta=1e-4)


def test_a_record_only_needs_a_delta_for_a_curve():
    noise = GaussianCurve(0.1)
    ledger = Ledger().spend("noise", noise, delta=1e-6, unit=NEIGHBOUR_LIST)
    ledger = ledger.spend("x", proved(40.0))
    assert ledger.spent(NEIGHBOUR_LIST).delta == 1e-6
    assert ledger.spent(RECORD).epsilon == 40.0
    assert ledger.spent(EDGE_CENTRAL).epsilon == 0.0
    assert "no budget: a record only" in ledger.explain()


def test_an_exposed_field_stays_exposed():
    ledger = Ledger().spend("edges", proved(1.0, unit=NEIGHBOUR_LIST), protects=("edges",))
    ledger = ledger.spend(
        "features", proved(0.5), protects=("features",), exposes=("edges", "splits")
    )
    total = ledger.spend("labels", proved(0.25), protects=("labels", "features")).total()
    assert (total.protected, total.unprotected) == (("features", "labels"), ("edges", "splits"))
    assert (total[RECORD].epsilon, total[NEIGHBOUR_LIST].epsilon) == (0.75, 1.0)
    assert list(Ledger().total()) == []


@settings(max_examples=12)
@given(st.floats(0.5, 5.0), st.lists(st.floats(0.0, 0.4), min_size=1, max_size=8))
def test_what_remains_is_rounded_down(limit, epsilons):
    """And what is printed to remain is there."""
    ledger = Ledger(limit)
    for index, epsilon in enumerate(epsilons):
        with contextlib.suppress(BudgetExceededError):
            ledger = ledger.spend(str(index), proved(epsilon))
    left = Fraction(ledger.remaining(RECORD).epsilon)
    assert left == 0 or left + Fraction(ledger.spent(RECORD).epsilon) <= Fraction(limit)
    left = float(digits_down(ledger.remaining(RECORD).epsilon))
    assert ledger.spend("rest", proved(left)).spent(RECORD).epsilon <= limit * (1 + 1e-9)


LISTS = Budget(1.0, unit=NEIGHBOUR_LIST)
EDGES = Budget(2.0, unit=RELATIONSHIP)
OTHERS = map(Unit, ("record + relationship", "household"))
UNITS = [RECORD, metric(1.0), NEIGHBOUR_LIST, RELATIONSHIP, EDGE_CENTRAL, *OTHERS]
RECORDS_ALONE, EDGES_ALONE = {0, 1}, {2, 3, 4}  # the others speak of both


def per(unit, epsilon=0.5, **more):
    return proved(epsilon, unit=unit, adjacency="two inputs", **more)


def whole_graph(lists=1.0, edges=2.0, **more):
    """As privatize_graph says it."""
    parts = [per(NEIGHBOUR_LIST, lists), per(RELATIONSHIP, edges)]
    return PipelineGuarantee.of(
        parts, **{"protected": ["edges"], "unprotected": ["number of nodes"], **more}
    )


def test_a_pipeline_is_spent_whole():
    ledger = Ledger([LISTS, EDGES]).spend("graph", whole_graph(0.5, 1.0))
    for unit, epsilon in ((NEIGHBOUR_LIST, 0.5), (RELATIONSHIP, 1.0)):
        assert ledger.spent(unit).epsilon == ledger.remaining(unit).epsilon == epsilon
        assert ledger.total()[unit].epsilon == epsilon
    assert (ledger.total().protected, ledger.total().unprotected) == (
        ("edges",),
        ("number of nodes",),
    )
    ledger = ledger.spend("again", whole_graph(0.5, 1.0), protects=["edges"], exposes=["labels"])
    assert ledger.remaining(RELATIONSHIP).epsilon == 0.0
    assert ledger.total().unprotected == ("number of nodes", "labels")
    lines = ledger.explain().splitlines()
    assert [line.split("  ")[0] for line in lines[1:5]] == ["graph", "", "again", ""]
    with pytest.raises(BudgetExceededError, match="'third'.*per neighbour-list.*does not fit"):
        ledger.spend("third", whole_graph(0.1, 0.1))


class Result(NamedTuple):
    """What a pipeline returns: something, and what it cost."""

    z: float
    guarantee: Guarantee | PipelineGuarantee


def test_a_result_is_spent_by_what_it_says_it_cost(untyped):
    ledger = Ledger([LISTS, EDGES])
    pipeline = Result(0.0, whole_graph())
    assert ledger.spend("graph", pipeline) == ledger.spend("graph", pipeline.guarantee)
    alone = Result(0.0, proved(0.75))
    assert Ledger(1.0).spend("x", alone, protects=["x"]).total().protected == ("x",)
    assert Ledger(1.0).spend("x", alone).spent(RECORD).epsilon == 0.75
    with pytest.raises(BudgetExceededError, match="does not fit"):
        Ledger(0.5).spend("x", alone)


def test_every_pair_of_units():
    """Where both have a budget, one goes alone only if it speaks of other data; without a budget,
    never.
    """
    for kept, said in itertools.permutations(range(len(UNITS)), 2):
        free = {kept, said} & RECORDS_ALONE and {kept, said} & EDGES_ALONE
        kept, said = UNITS[kept], UNITS[said]
        both = Ledger([Budget(1.0, unit=kept), Budget(1.0, unit=said)])
        if free:
            ledger = both.spend("x", per(said))
            assert (ledger.spent(said).epsilon, ledger.spent(kept).epsilon) == (0.5, 0.0)
        else:
            with pytest.raises(BudgetExceededError, match="does not say what it costs per "):
                both.spend("x", per(said))
        together = PipelineGuarantee((per(said), per(kept)), ("x",))
        assert both.spend("x", together).spent(kept).epsilon == 0.5
        with pytest.raises(BudgetExceededError, match="which has no budget"):
            Ledger(Budget(1.0, unit=kept)).spend("x", per(said))
        assert Ledger().spend("x", per(said)).spent(kept).epsilon == 0.0  # a record only


def test_metric_privacy_is_one_unit_whose_rate_is_its_loss():
    """Two losses of 0.3 and 0.6 per unit of distance are 0.9; a budget of another rate bounds
    them.
    """
    ledger = Ledger(Budget(1.0, unit=metric(2.0)))
    for name, rate in (("near", 0.3), ("far", 0.6)):
        ledger = ledger.spend(name, proved(rate, unit=metric(rate)))
    spent = ledger.spent(metric(0.3))
    assert spent.unit.rate == spent.epsilon == add_up([0.3, 0.6])
    assert str(ledger.total()).count("epsilon 0.9 per metric(0.9)") == 1
    assert "metric(0.9): spent epsilon 0.9 " in ledger.explain()
    with pytest.raises(BudgetExceededError, match=r"per metric\(1\): epsilon 0.9 is spent"):
        ledger.spend("third", proved(0.3, unit=metric(0.3)))
    assert Ledger.from_bytes(ledger.to_bytes()).explain() == ledger.explain()


def test_edges_that_have_a_budget_are_not_used_in_the_clear():
    ledger = Ledger([Budget(1.0), LISTS])
    fields = {"protected": ("features",), "unprotected": ("edges", "labels")}
    embedding = PipelineGuarantee((proved(0.5),), **fields)
    as_record = {"protects": ["edges"]}
    for cost, more, words in (
        (proved(0.5), {"protects": ["features"], "exposes": ["edges"]}, "uses edges in the clear"),
        (embedding, {}, "do not name them among what it exposes"),
        (proved(0.5), as_record, "does not say what it costs per neighbour-list"),
    ):
        with pytest.raises(BudgetExceededError, match=words):
            ledger.spend("x", cost, **more)
    assert Ledger(1.0).spend("embedding", embedding).total() == embedding
    assert Ledger(1.0).spend("x", proved(0.5), **as_record).spent(RECORD).epsilon == 0.5


def test_a_ledger_is_written_and_read():
    flock = proved(math.inf, unit=Unit("flock"), adjacency="two flocks of Gänse")
    pipeline = PipelineGuarantee((proved(0.1, unit=metric(0.3)), flock), ("features",), ("edges",))
    exact = proved(1 / 3, 1e-7, arithmetic="exact")
    ledger = Ledger().spend("first", exact, protects=["labels"]).spend("2", pipeline)
    noise = {"delta": 1e-6, "unit": NEIGHBOUR_LIST, "adjacency": "two lists"}
    ledger = ledger.spend("noise", GaussianCurve.of(1.0, 12.0), **noise)
    budget = [Budget(1.0, 1e-6), Budget(2.5, unit=RELATIONSHIP)]
    curve = Ledger().spend("curve", GaussianCurve(1.0), delta=np.float64(1e-6))
    for one in (ledger, Ledger(), Ledger(budget), Ledger(1.0).spend("noise", proved(0.5)), curve):
        again = Ledger.from_bytes(one.to_bytes())
        assert again == one
        assert again.explain() == one.explain()
    data = Ledger(1.0).spend("noise", proved(0.5)).to_bytes()
    nobody = sealed(Ledger().to_bytes()[:-8].replace(b'"releases": []', b'"releases": [5]'))
    changed = data.replace(b"0.5", b"0.4"), sealed(data[:-8].replace(b"0.5", b"1.5"))
    for part in (b"", data[:-1], *changed, nobody):
        with pytest.raises(ValueError, match="ledger"):
            Ledger.from_bytes(part)
