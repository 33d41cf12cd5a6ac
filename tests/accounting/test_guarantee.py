"""Guarantees, budgets and their sums: rounded to the safe side, against fractions; and what they
refuse.
"""

import dataclasses
import itertools
import math
import sys
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from ldp_jax.accounting import composition
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
    sequential,
)
from ldp_jax.accounting.ledger import Ledger
from ldp_jax.core.rounding import add_up, digits_down, digits_up, rounded_down, rounded_up, share
from tests.accounting.parts import least_at_or_above, proved

EPSILONS = st.floats(0.0, 1e300)
SMALL = st.floats(0.0, 20.0)


@given(st.lists(EPSILONS, max_size=8), st.integers(1, 50))
@example([0.1, 0.2], 1)  # 0.3 to nearest is below
@example([0.1], 3)
@example([5e-324, 1.0], 1)
@example([1.0, 2.0**-53, 2.0**-105], 1)
def test_a_sum_is_the_least_float_at_or_above_the_truth(epsilons, times):
    assert (
        add_up([*epsilons, math.inf], times)
        == add_up([1e308], 10)
        == add_up([1.0], 10**400)
        == math.inf
    )
    assert proved(1.0, 0.7).repeated(3).delta == 1.0
    exact = times * sum(map(Fraction, epsilons), Fraction(0))
    assert least_at_or_above(add_up(epsilons, times), exact)


def test_sums_and_shares_refuse_what_is_no_loss_and_no_count(untyped):
    for bad in (-0.5, math.nan, "1", True, None, 1j, np.True_, 10**400):
        with pytest.raises(ValueError, match="epsilon must be"):
            add_up([1.0, bad])
    for times in (2.5, 2.0, 0, -1, True, "2", None, math.inf, np.True_, np.float64(2.0)):
        for call in (proved(0.5).repeated, lambda t: add_up([0.5], t)):
            with pytest.raises(ValueError, match="times must be a whole number >= 1"):
                call(times)
        with pytest.raises(ValueError, match="parts must be a whole number >= 1"):
            share(0.5, times)


@given(SMALL, st.integers(1, 2000))
@example(1.0, 20)
@example(5e-324, 3)
def test_shares_are_together_within_the_whole(epsilon, parts):
    assert share(math.inf, parts) == math.inf
    each = share(epsilon, parts)
    assert (
        Fraction(each) * parts
        <= Fraction(epsilon)
        < Fraction(math.nextafter(each, math.inf)) * parts
    )
    assert add_up([each], parts) <= epsilon


@given(st.floats(5e-324, sys.float_info.max))
@example(1e-320)
@example(sys.float_info.max)
@example(0.99999949999)
@example(1e-5)
def test_printed_numbers(value):
    """Six digits on the safe side, up to 1e-12."""
    up, down, exact = Fraction(digits_up(value)), Fraction(digits_down(value)), Fraction(value)
    assert up >= exact * (1 - Fraction(1, 10**12))
    assert down <= exact * (1 + Fraction(1, 10**12))
    assert exact * (1 - Fraction(1, 10**5)) < down <= up < exact * (1 + Fraction(1, 10**5))
    for text in (digits_up(value), digits_down(value)):
        assert len(text.split("e")[0].replace(".", "").lstrip("0")) <= 6
        assert len(text) <= 13
    for value, up, down in (
        (1.0000000000000002, "1", "1"),  # 0.1 + 0.9, within 1e-12
        (1.00000000001, "1.00001", "1"),  # a nearest-digit printer says 1
        (0.12345649, "0.123457", "0.123456"),
        (0.99999999, "1", "0.999999"),
        (1e-6, "1e-06", "1e-06"),
        (1.2345678e-7, "1.23457e-07", "1.23456e-07"),
        (1234567.0, "1.23457e+06", "1.23456e+06"),
        (0.0, "0", "0"),
        (math.inf, "inf", "inf"),
    ):
        assert (digits_up(value), digits_down(value)) == (up, down)


def test_a_guarantee_prints_its_reason_and_the_numbers_rounded_up():
    text = str(proved(1.00000149, 1.23456001e-7))
    assert text == (
        "epsilon 1.00001, delta 1.23457e-07 per record "
        "(any two records of one user; ideal arithmetic; proved: a proof)"
    )
    assert str(Guarantee(1e-320)).startswith("epsilon 9.99989e-321 per record")
    assert str(proved(0.1) + proved(0.9)).startswith("epsilon 1 per record")
    assert str(metric(1.00000149)) == "metric(1.00001)"
    half = proved(0.5, unit=metric(0.5))
    for twice in (half + half, half.repeated(2), sequential(half, half)):
        assert str(twice).startswith("epsilon 1 per metric(1) (two records at distance 1;")
    assert str(Budget(1.0, unit=metric(0.5))) == "at most epsilon 1 per metric(1)"
    assert str(Budget(1.99999999, 1e-6)) == "at most epsilon 1.99999, delta 1e-06 per record"


def test_nothing_is_proved_without_a_reason(untyped):
    assert Guarantee(0.1).status == "none"
    assert "none" in str(Guarantee(0.1))
    for status in ("proved", "in the limit"):
        for reason in ("", "  \n"):
            with pytest.raises(ValueError, match=f"reason must say why the status is '{status}'"):
                Guarantee(0.1, status=status, reason=reason)
        assert Guarantee(0.1, status=status, reason="eq. 3").status == status
    assert Guarantee(1.0, unit=metric(2.0)).adjacency == "two records at distance 1"
    for make, words in (
        (lambda: dataclasses.replace(Guarantee(0.1), status="proved"), "reason must say"),
        (lambda: Guarantee(1.0, unit=Unit("household")), "adjacency must say"),
        *(
            (lambda bad=bad: Guarantee(1.0, status=bad), "status must be one of")
            for bad in ("Proved", None)
        ),
        (lambda: Guarantee(1.0, arithmetic="float"), "arithmetic must be one of"),
        *(
            (lambda bad=bad: Unit(bad), "name of a unit must be a word")
            for bad in ("", " ", None, 3)
        ),
        *((lambda bad=bad: metric(bad), "rate must be") for bad in (-1.0, math.nan, "1", True)),
        *(
            (lambda bad=bad: Unit(*bad), "write metric")
            for bad in (("metric",), ("household", 1.0))
        ),
    ):
        with pytest.raises(ValueError, match=words):
            make()


def test_local_and_central_guarantees_never_add(untyped):
    """By +, a pipeline's sum, disjoint users, several units or a ledger; alike ones keep their
    trust.
    """
    local, central = proved(1.0), proved(1.0, trust="central")
    edge, bit = proved(0.5, unit=EDGE_CENTRAL), proved(0.5, unit=NEIGHBOUR_LIST)
    sums = (
        lambda *parts: parts[0] + parts[1],
        sequential,
        lambda *parts: PipelineGuarantee.of(parts, protected=["x"], unprotected=[])[RECORD],
        composition.parallel,
        lambda *parts: composition.joint(*parts, adjacency="two records"),
        lambda *parts: Ledger().spend("a", parts[0]).spend("b", parts[1]).spent(RECORD),
    )
    for add in sums:
        assert add(local, local).trust == "local"
        assert add(central, central).trust == "central"
        for pair in ((local, central), (central, local)):
            with pytest.raises(ValueError, match="local and central guarantees do not add"):
                add(*pair)
        with pytest.raises(ValueError, match="local and shuffled guarantees do not add"):
            add(proved(1.0, trust="shuffled"), local)
    with pytest.raises(ValueError, match="local and central guarantees do not add"):
        composition.joint(edge, bit, adjacency="two graphs")
    assert composition.joint(edge, central, adjacency="two graphs").trust == "central"
    assert central.repeated(3).trust == "central"
    both = PipelineGuarantee.of([edge, bit], protected=["edges"], unprotected=[])
    assert {unit: one.trust for unit, one in both.items()} == {
        EDGE_CENTRAL: "central",
        NEIGHBOUR_LIST: "local",
    }


def test_the_trust_is_said_in_words_and_fits_the_unit(untyped):
    assert "trusted curator" in str(proved(1.0, trust="central"))
    assert "trusted curator" in str(proved(1.0, unit=EDGE_CENTRAL))
    assert "trusted shuffler" in str(proved(1.0, trust="shuffled"))
    assert "trusted" not in str(proved(1.0))
    for unit, trust in itertools.product((NEIGHBOUR_LIST, RELATIONSHIP), ("central", "shuffled")):
        with pytest.raises(ValueError, match=f"trust must be 'local' per {unit}"):
            proved(1.0, unit=unit, trust=trust)
    with pytest.raises(
        ValueError, match="trust must be one of local, shuffled, central; got 'global'"
    ):
        proved(1.0, trust="global")


BAD = [
    math.nan,
    -1.0,
    -5e-324,
    "1",
    True,
    None,
    1j,
    [1.0],
    np.True_,
    np.nan,
    np.array([1.0]),
    10**400,
    -(10**400),
]


@pytest.mark.parametrize("make", [Guarantee, Budget])
def test_numbers_that_are_none_are_refused(make, untyped):
    for bad in BAD:
        with pytest.raises(ValueError, match=r"epsilon.* must be"):
            make(bad)
    for bad in (*BAD, 1.5, math.inf):
        with pytest.raises(ValueError, match=r"delta.* must be"):
            make(1.0, bad)
    with pytest.raises(ValueError, match="unit must be a Unit"):
        make(1.0, unit="record")
    assert Guarantee(math.inf, 1.0).epsilon == math.inf
    with pytest.raises(ValueError, match="budget's epsilon per record must be finite"):
        Budget(math.inf)
    with pytest.raises(ValueError, match="budget's delta per relationship must be in"):
        Budget(1.0, 1.0, RELATIONSHIP)


def test_numbers_are_kept_as_floats_on_the_safe_side(untyped):
    """Up for what is promised, down for what is allowed; -0 is 0."""
    third = Fraction(1, 3)
    odd = 2**53 + 1
    for value in (
        third,
        odd,
        np.float32(0.1),
        np.int64(3),
        np.longdouble(1) / 3,
        7,
        Fraction(1, 10**400),
    ):
        exact = (
            Fraction(*value.as_integer_ratio())
            if hasattr(value, "as_integer_ratio")
            else Fraction(int(value))
        )
        promised, allowed = Guarantee(value).epsilon, Budget(value).epsilon
        assert type(promised) is type(allowed) is float
        assert least_at_or_above(promised, exact)
        assert Fraction(allowed) <= exact < Fraction(math.nextafter(allowed, math.inf))
        assert rounded_up(exact) == promised
        assert rounded_down(exact) == allowed
    for made in (Guarantee(-0.0, -0.0), Budget(-0.0, -0.0)):
        assert math.copysign(1.0, made.epsilon) == math.copysign(1.0, made.delta) == 1.0
    assert Guarantee(1.0) == Guarantee(np.float64(1.0)) == Guarantee(1)


def test_a_budget_is_no_guarantee(untyped):
    assert Budget(1.0) != Guarantee(1.0)
    for add in (lambda: Budget(1.0) + Guarantee(1.0), lambda: Guarantee(1.0) + Budget(1.0)):
        with pytest.raises(TypeError):
            add()


def test_a_pipeline_names_each_unit_once(untyped):
    for make, words in (
        (
            lambda: PipelineGuarantee((Guarantee(1.0), Guarantee(2.0))),
            "each unit once, got record 2 times",
        ),
        (lambda: PipelineGuarantee((1.0,)), "must be Guarantees"),
        (
            lambda: PipelineGuarantee((), ("edges", "labels"), ("edges",)),
            "protected and unprotected: edges",
        ),
        *(
            (lambda bad=bad: PipelineGuarantee((), bad), "protected must be a sequence")
            for bad in ("edges", [3])
        ),
        (
            lambda: PipelineGuarantee.of([], protected=[], unprotected=["edges", ""]),
            "unprotected must be a sequence",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            make()
    parts = [Guarantee(1.0), Guarantee(2.0, unit=RELATIONSHIP), Guarantee(0.5)]
    spent = PipelineGuarantee.of(parts, protected=["x"], unprotected=[])
    assert {unit: spent[unit].epsilon for unit in spent} == {RECORD: 1.5, RELATIONSHIP: 2.0}
