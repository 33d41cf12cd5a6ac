"""Guarantees, budgets and their sums: rounded to the safe side, against fractions; and what they
refuse.
"""

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
    for beyond in (
        add_up([*epsilons, math.inf], times),
        add_up([1e308], 10),
        add_up([1.0], 10**400),
    ):
        assert beyond == math.inf
    assert proved(1.0, 0.7).repeated(3).delta == 1.0
    exact = times * sum(map(Fraction, epsilons), Fraction(0))
    assert least_at_or_above(add_up(epsilons, times), exact)


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
    up = Fraction(digits_up(value)) / Fraction(value)
    down = Fraction(digits_down(value)) / Fraction(value)
    much = Fraction(1, 10**5)
    little = Fraction(1, 10**12)
    assert 1 - little <= up < 1 + much
    assert 1 - much < down <= min(up, 1 + little)
    for text in (digits_up(value), digits_down(value)):
        assert len(text.split("e")[0].replace(".", "").lstrip("0")) <= 6
        assert len(text) <= 13


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (1.0000000000000002, "1", "1"),  # 0.1 + 0.9, within 1e-12
        (1.00000000001, "1.00001", "1"),  # a nearest-digit printer says 1
        (0.12345649, "0.123457", "0.123456"),
        (1.2345678e-7, "1.23457e-07", "1.23456e-07"),
        (1234567.0, "1.23457e+06", "1.23456e+06"),
        (0.0, "0", "0"),
        (math.inf, "inf", "inf"),
    ],
)
def test_numbers_print_on_the_safe_side(value, up, down):
    assert (digits_up(value), digits_down(value)) == (up, down)


def test_sums_of_metric_privacy_have_the_rate_of_their_epsilon():
    half = proved(0.5, unit=metric(0.5))
    for twice in (half + half, half.repeated(2), sequential(half, half)):
        assert twice.unit.rate == twice.epsilon == 1.0
    assert str(Budget(1.0, unit=metric(0.5))) == "at most epsilon 1 per metric(1)"


def test_nothing_is_proved_by_default():
    assert Guarantee(0.1).status == "none"
    assert "none" in str(Guarantee(0.1))
    assert Guarantee(1.0, unit=metric(2.0)).adjacency == "two records at distance 1"


def test_local_and_central_guarantees_never_add(untyped):
    """By +, a pipeline's sum, disjoint users, several units or a ledger; alike ones keep their
    trust.
    """
    local, central, shuffled = (proved(1.0, trust=t) for t in ("local", "central", "shuffled"))
    edge, bit = (proved(0.5, unit=unit) for unit in (EDGE_CENTRAL, NEIGHBOUR_LIST))
    sums = (
        lambda *parts: parts[0] + parts[1],
        sequential,
        lambda *parts: PipelineGuarantee.of(parts, protected=["x"], unprotected=[])[RECORD],
        composition.parallel,
        lambda *parts: composition.joint(*parts, adjacency="two records"),
        lambda *parts: Ledger().spend("a", parts[0]).spend("b", parts[1]).spent(RECORD),
    )
    for add in sums:
        for one, other in itertools.product((local, central, shuffled), repeat=2):
            if one is other:
                assert add(one, other).trust == one.trust
                continue
            with pytest.raises(ValueError, match="guarantees do not add"):
                add(one, other)
    with pytest.raises(ValueError, match="local and central guarantees do not add"):
        composition.joint(edge, bit, adjacency="two graphs")
    assert composition.joint(edge, central, adjacency="two graphs").trust == "central"
    assert central.repeated(3).trust == "central"
    both = PipelineGuarantee.of([edge, bit], protected=["edges"], unprotected=[])
    assert [one.trust for one in both.values()] == ["central", "local"]


def test_the_trust_is_said_in_words():
    for words, fields in (
        ("trusted curator", {"trust": "central"}),
        ("trusted curator", {"unit": EDGE_CENTRAL}),
        ("trusted shuffler", {"trust": "shuffled"}),
    ):
        assert words in str(proved(1.0, **fields))
    assert "trusted" not in str(proved(1.0))


def test_numbers_are_kept_as_floats_on_the_safe_side(untyped):
    """Up for what is promised, down for what is allowed; -0 is 0."""
    third = np.longdouble(1) / 3
    for value, exact in (
        *((one, Fraction(one)) for one in (Fraction(1, 3), 2**53 + 1, 7, Fraction(1, 10**400))),
        *((one, Fraction(*one.as_integer_ratio())) for one in (np.float32(0.1), third)),
        (np.int64(3), Fraction(3)),
    ):
        promised = Guarantee(value).epsilon
        allowed = Budget(value).epsilon
        assert type(promised) is type(allowed) is float
        assert least_at_or_above(promised, exact)
        assert Fraction(allowed) <= exact < Fraction(math.nextafter(allowed, math.inf))
        assert rounded_up(exact) == promised
        assert rounded_down(exact) == allowed
    for made in (Guarantee(-0.0, -0.0), Budget(-0.0, -0.0)):
        assert math.copysign(1.0, made.epsilon) == math.copysign(1.0, made.delta) == 1.0
    assert Guarantee(1.0) == Guarantee(np.float64(1.0)) == Guarantee(1)


def test_a_pipeline_adds_unit_by_unit():
    parts = [Guarantee(1.0), Guarantee(2.0, unit=RELATIONSHIP), Guarantee(0.5)]
    spent = PipelineGuarantee.of(parts, protected=["x"], unprotected=[])
    assert {unit: spent[unit].epsilon for unit in spent} == {RECORD: 1.5, RELATIONSHIP: 2.0}
