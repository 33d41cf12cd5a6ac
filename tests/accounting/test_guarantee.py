"""Guarantees, budgets and their sums: rounded to the safe side, against fractions; and what they refuse."""

import dataclasses
import math
import pickle
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

EPSILONS = st.floats(0.0, 1e300)
SMALL = st.floats(0.0, 20.0)


def proved(epsilon, delta=0.0, **more):
    return Guarantee(epsilon, delta, status="proved", reason="a proof", **more)


def least_at_or_above(value, exact):
    return Fraction(value) >= exact and (value == 0.0 or Fraction(math.nextafter(value, 0.0)) < exact)


# --- sums ----------------------------------------------------------------------------------------------------


@given(st.lists(EPSILONS, max_size=8), st.integers(1, 50))
@example([0.1, 0.2], 1)  # 0.3 to nearest is below
@example([0.1], 3)
@example([5e-324, 1.0], 1)
@example([1.0, 2.0**-53, 2.0**-105], 1)
def test_a_sum_is_the_least_float_at_or_above_the_truth(epsilons, times):
    exact = times * sum(map(Fraction, epsilons), Fraction(0))
    assert least_at_or_above(add_up(epsilons, times), exact)


def test_nearest_is_too_little_in_many_random_sums():
    """So the test above sees a sum that is rounded to nearest: 28 of these 200."""
    pairs = np.random.default_rng(0).uniform(0.0, 4.0, (200, 2)).tolist()
    below = sum(Fraction(a + b) < Fraction(a) + Fraction(b) for a, b in pairs)
    assert below == 28
    assert all(Fraction(add_up(pair)) >= Fraction(pair[0]) + Fraction(pair[1]) for pair in pairs)


@given(st.lists(st.tuples(SMALL, st.floats(0.0, 0.3)), min_size=1, max_size=6), st.integers(1, 9))
def test_compositions_of_guarantees_are_never_below_the_exact_sum(pairs, times):
    """``+``, sums of many and repetition; ideal arithmetic and exact alike."""
    for arithmetic in ("ideal", "exact"):
        parts = [Guarantee(*pair, arithmetic=arithmetic) for pair in pairs]
        epsilon = sum((Fraction(e) for e, _ in pairs), Fraction(0))
        delta = sum((Fraction(d) for _, d in pairs), Fraction(0))
        total, chain = sequential(*parts), parts[0]
        for part in parts[1:]:
            chain = chain + part
        assert least_at_or_above(total.epsilon, epsilon)
        assert total.delta == 1.0 or least_at_or_above(total.delta, delta)
        assert Fraction(chain.epsilon) >= epsilon
        assert chain.delta == 1.0 or Fraction(chain.delta) >= delta
        assert chain.epsilon <= total.epsilon * (1 + 1e-15)
        again = parts[0].repeated(times)
        assert least_at_or_above(again.epsilon, times * Fraction(pairs[0][0]))
        assert again.delta == 1.0 or least_at_or_above(again.delta, times * Fraction(pairs[0][1]))
        pipeline = PipelineGuarantee.of(parts, protected=["x"], unprotected=[])
        assert (pipeline[RECORD].epsilon, pipeline[RECORD].delta) == (total.epsilon, total.delta)


def test_sums_beyond_float64_are_infinite():
    assert add_up([1e308], 10) == math.inf
    assert add_up([1.0], 10**400) == math.inf
    assert add_up([math.inf, 0.0]) == math.inf
    assert add_up([]) == 0.0
    assert proved(1e308).repeated(10).epsilon == math.inf
    assert (proved(math.inf) + proved(1.0)).epsilon == math.inf
    assert proved(1.0, 0.7).repeated(3).delta == 1.0


@pytest.mark.parametrize("bad", [-0.5, math.nan, "1", True, None, 1j, np.True_, 10**400])
def test_sums_refuse_what_is_no_loss(bad, untyped):
    with pytest.raises(ValueError, match="epsilon must be"):
        add_up([1.0, bad])


@given(SMALL, st.integers(1, 2000))
@example(1.0, 20)
@example(5e-324, 3)
def test_shares_are_together_within_the_whole(epsilon, parts):
    each = share(epsilon, parts)
    assert Fraction(each) * parts <= Fraction(epsilon) < Fraction(math.nextafter(each, math.inf)) * parts
    assert add_up([each], parts) <= epsilon


def test_a_published_epsilon_is_kept_by_its_coordinates():
    """1 / 20 to nearest, 20 times, is above 1."""
    assert Fraction(1.0 / 20) * 20 > 1
    assert add_up([share(1.0, 20)], 20) == 1.0
    assert share(math.inf, 3) == math.inf


@pytest.mark.parametrize("times", [2.5, 2.0, 0, -1, True, "2", None, math.inf, np.True_, np.float64(2.0)])
def test_only_whole_numbers_of_times(times, untyped):
    for call in (proved(0.5).repeated, lambda t: add_up([0.5], t)):
        with pytest.raises(ValueError, match="times must be a whole number >= 1"):
            call(times)
    with pytest.raises(ValueError, match="parts must be a whole number >= 1"):
        share(0.5, times)


# --- printing ------------------------------------------------------------------------------------------------


@given(st.floats(5e-324, sys.float_info.max))
@example(1e-320)
@example(5e-324)
@example(sys.float_info.max)
@example(999999.5)
@example(0.99999949999)
@example(1.0000000000000002)
@example(1e-5)
@example(123456.0)
@example(1234567.0)
def test_what_is_printed_is_six_digits_on_the_safe_side(value):
    up, down, exact = Fraction(digits_up(value)), Fraction(digits_down(value)), Fraction(value)
    assert up >= exact * (1 - Fraction(1, 10**12))
    assert down <= exact * (1 + Fraction(1, 10**12))
    assert exact * (1 - Fraction(1, 10**5)) < down <= up < exact * (1 + Fraction(1, 10**5))
    for text in (digits_up(value), digits_down(value)):
        assert len(text.split("e")[0].replace(".", "").lstrip("0")) <= 6
        assert len(text) <= 13


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (1.0, "1", "1"),
        (0.1, "0.1", "0.1"),
        (1.0000000000000002, "1", "1"),  # 0.1 + 0.9, within 1e-12
        (1.0000000000009, "1", "1"),
        (1.00000000001, "1.00001", "1"),  # a nearest-digit printer says 1
        (1.00000149, "1.00001", "1"),
        (0.12345649, "0.123457", "0.123456"),
        (0.99999999, "1", "0.999999"),
        (99999.97, "100000", "99999.9"),
        (1e-6, "1e-06", "1e-06"),
        (1.2345678e-7, "1.23457e-07", "1.23456e-07"),
        (0.0001, "0.0001", "0.0001"),
        (1234567.0, "1.23457e+06", "1.23456e+06"),
        (1e-320, "9.99989e-321", "9.99988e-321"),
        (0.0, "0", "0"),
        (math.inf, "inf", "inf"),
    ],
)
def test_printed_numbers(value, up, down):
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
    assert str(Budget(1.99999999, 1e-6)) == "at most epsilon 1.99999, delta 1e-06 per record"


# --- what a guarantee is ---------------------------------------------------------------------------------------


def test_nothing_is_proved_without_a_reason():
    assert Guarantee(0.1).status == "none"
    assert "none" in str(Guarantee(0.1))
    for status in ("proved", "in the limit"):
        for reason in ("", "  \n"):
            with pytest.raises(ValueError, match=f"reason must say .* why the status is '{status}'"):
                Guarantee(0.1, status=status, reason=reason)
        assert Guarantee(0.1, status=status, reason="eq. 3").status == status
    with pytest.raises(ValueError, match="reason must say"):
        dataclasses.replace(Guarantee(0.1), status="proved")


def test_a_sum_is_as_weak_as_its_weakest_part_and_says_why():
    first, second = proved(0.1), Guarantee(0.2, status="proved", reason="another proof")
    assert (first + second).reason == "a proof; another proof"
    assert (first + first).reason == "a proof"
    assert (first + Guarantee(0.2)).status == "none"
    assert (first + Guarantee(0.2)).reason == ""
    nothing = Guarantee(0.2, status="none", reason="eq. 7 fails")
    assert (nothing + first).reason == (first + nothing).reason == "eq. 7 fails"


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        (RECORD, "any two records of one user"),
        (NEIGHBOUR_LIST, "two neighbour lists of one user that differ in one bit"),
        (RELATIONSHIP, "two graphs that differ in one edge"),
        (EDGE_CENTRAL, "two graphs that differ in one edge"),
        (metric(2.0), "two records at distance 1"),
    ],
)
def test_the_words_are_the_unit_s_own(unit, words):
    assert Guarantee(1.0, unit=unit).adjacency == words
    assert Guarantee(1.0, unit=unit, adjacency="two things").adjacency == "two things"


def test_local_and_central_guarantees_never_add(untyped):
    """By +, a pipeline's sum, disjoint users, several units or a ledger; alike ones keep their trust."""
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
    assert {unit: one.trust for unit, one in both.items()} == {EDGE_CENTRAL: "central", NEIGHBOUR_LIST: "local"}


def test_the_trust_is_said_in_words_and_fits_the_unit(untyped):
    assert "trusted curator" in str(proved(1.0, trust="central"))
    assert "trusted curator" in str(proved(1.0, unit=EDGE_CENTRAL))
    assert "trusted shuffler" in str(proved(1.0, trust="shuffled"))
    assert "trusted" not in str(proved(1.0))
    for unit in (NEIGHBOUR_LIST, RELATIONSHIP):
        with pytest.raises(ValueError, match=f"trust must be 'local' per {unit}"):
            proved(1.0, unit=unit, trust="central")
        with pytest.raises(ValueError, match=f"trust must be 'local' per {unit}"):
            proved(1.0, unit=unit, trust="shuffled")
    with pytest.raises(ValueError, match="trust must be one of local, shuffled, central; got 'global'"):
        proved(1.0, trust="global")


def test_a_unit_of_one_s_own_needs_words():
    with pytest.raises(ValueError, match="adjacency must say"):
        Guarantee(1.0, unit=Unit("household"))
    assert Guarantee(1.0, unit=Unit("household"), adjacency="two households").unit.name == "household"


BAD = [math.nan, -1.0, -5e-324, "1", True, None, 1j, [1.0], np.True_, np.nan, np.array([1.0]), 10**400, -(10**400)]


@pytest.mark.parametrize("make", [Guarantee, Budget])
@pytest.mark.parametrize("bad", BAD, ids=lambda bad: str(bad)[:12])
def test_numbers_that_are_none_are_refused(make, bad, untyped):
    with pytest.raises(ValueError, match=r"epsilon.* must be"):
        make(bad)
    with pytest.raises(ValueError, match=r"delta.* must be"):
        make(1.0, bad)


@pytest.mark.parametrize("make", [Guarantee, Budget])
def test_ranges_of_delta_units_and_infinity(make, untyped):
    with pytest.raises(ValueError, match=r"delta.* must be in \[0, 1"):
        make(1.0, 1.5)
    with pytest.raises(ValueError, match=r"delta.* must be in \[0, 1"):
        make(1.0, math.inf)
    with pytest.raises(ValueError, match="unit must be a Unit"):
        make(1.0, unit="record")
    if make is Budget:
        with pytest.raises(ValueError, match="budget's epsilon per record must be finite"):
            Budget(math.inf)
        with pytest.raises(ValueError, match="budget's delta per relationship must be in"):
            Budget(1.0, 1.0, RELATIONSHIP)
    else:
        assert Guarantee(math.inf, 1.0).epsilon == math.inf


def test_words_that_are_none_are_refused(untyped):
    for name, bad in (("status", "Proved"), ("status", None), ("arithmetic", "float")):
        with pytest.raises(ValueError, match=f"{name} must be one of"):
            Guarantee(1.0, **{name: bad, "reason": "because"})
    for bad in ("", " ", None, 3):
        with pytest.raises(ValueError, match="name of a unit must be a word"):
            Unit(bad)
    for bad in (0.0, -1.0, math.nan, math.inf, "1", True):
        with pytest.raises(ValueError, match="rate must be"):
            metric(bad)


def test_numbers_are_kept_as_floats_on_the_safe_side(untyped):
    """Up for what is promised, down for what is allowed; -0 is 0."""
    third, odd = Fraction(1, 3), 2**53 + 1
    for value in (third, odd, np.float32(0.1), np.int64(3), np.longdouble(1) / 3, 7, Fraction(1, 10**400)):
        exact = Fraction(*value.as_integer_ratio()) if hasattr(value, "as_integer_ratio") else Fraction(int(value))
        promised, allowed = Guarantee(value).epsilon, Budget(value).epsilon
        assert type(promised) is type(allowed) is float
        assert least_at_or_above(promised, exact)
        assert Fraction(allowed) <= exact < Fraction(math.nextafter(allowed, math.inf))
        assert rounded_up(exact) == promised
        assert rounded_down(exact) == allowed
    for made in (Guarantee(-0.0, -0.0), Budget(-0.0, -0.0)):
        assert math.copysign(1.0, made.epsilon) == math.copysign(1.0, made.delta) == 1.0
    assert Guarantee(1.0) == Guarantee(np.float64(1.0)) == Guarantee(1)


def test_guarantees_and_budgets_are_values():
    for made in (proved(0.5), Budget(0.5, 1e-6), metric(2.0)):
        assert pickle.loads(pickle.dumps(made)) == made
        assert hash(made) == hash(dataclasses.replace(made))
        with pytest.raises(dataclasses.FrozenInstanceError):
            made.epsilon = 0.0


def test_a_budget_is_no_guarantee(untyped):
    assert not isinstance(Budget(1.0), Guarantee)
    assert Budget(1.0) != Guarantee(1.0)
    with pytest.raises(TypeError):
        Budget(1.0) + Guarantee(1.0)
    with pytest.raises(TypeError):
        Guarantee(1.0) + Budget(1.0)


# --- pipelines -------------------------------------------------------------------------------------------------


def test_a_pipeline_names_each_unit_once(untyped):
    with pytest.raises(ValueError, match="each unit once, got record 2 times"):
        PipelineGuarantee((Guarantee(1.0), Guarantee(2.0)))
    with pytest.raises(ValueError, match="must be Guarantees"):
        PipelineGuarantee((1.0,))
    for name in ("protected", "unprotected"):
        for bad in ("edges", ["edges", ""], [3]):
            with pytest.raises(ValueError, match=f"{name} must be a sequence of field names"):
                PipelineGuarantee((), **{name: bad})
            with pytest.raises(ValueError, match=f"{name} must be a sequence of field names"):
                PipelineGuarantee.of([], **{"protected": [], "unprotected": [], name: bad})
    with pytest.raises(ValueError, match="protected and unprotected: edges"):
        PipelineGuarantee((), ("edges", "labels"), ("edges",))
    spent = PipelineGuarantee.of(
        [Guarantee(1.0), Guarantee(2.0, unit=RELATIONSHIP), Guarantee(0.5)], protected=["x"], unprotected=[]
    )
    assert {unit: spent[unit].epsilon for unit in spent} == {RECORD: 1.5, RELATIONSHIP: 2.0}
