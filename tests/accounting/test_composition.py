"""What several releases cost together, against closed forms, enumeration and 60 digits."""

import decimal
import itertools
import math
from decimal import Decimal
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from ldp_jax.accounting import composition
from ldp_jax.accounting.gaussian import GaussianCurve
from ldp_jax.accounting.guarantee import (
    NEIGHBOUR_LIST,
    RELATIONSHIP,
    Guarantee,
    PipelineGuarantee,
    Unit,
)
from ldp_jax.accounting.ledger import Ledger
from ldp_jax.core.rounding import add_up
from tests.accounting.parts import least_at_or_above, proved

EPSILONS = st.floats(0.0, 20.0)


DELTAS = st.floats(0.0, 0.1)


def hockey_stick(p, q, epsilon):
    return float(np.maximum(np.asarray(p) - math.exp(epsilon) * np.asarray(q), 0.0).sum())


def binary(epsilon, delta=0.0):
    """The mechanism that is worst at (epsilon, delta): randomised response, betraying its input
    with mass delta.
    """
    keep = (1.0 - delta) / (1.0 + math.exp(-epsilon))
    flip = (1.0 - delta) / (1.0 + math.exp(epsilon))
    return np.array([delta, keep, flip, 0.0]), np.array([0.0, flip, keep, delta])


def product(laws):
    table = np.ones(1)
    for law in laws:
        table = np.outer(table, law).ravel()
    return table


@given(st.lists(st.tuples(EPSILONS, DELTAS), min_size=1, max_size=6))
def test_parallel_takes_the_largest(pairs):
    largest = composition.parallel(*(Guarantee(*pair) for pair in pairs))
    assert (largest.epsilon, largest.delta) == tuple(map(max, zip(*pairs, strict=True)))


@pytest.mark.parametrize("compose", [composition.sequential, composition.parallel])
def test_composition_keeps_the_weaker_status_and_arithmetic(compose):
    exact = proved(1.0, arithmetic="exact")
    chain = Guarantee(
        0.5, arithmetic="exact", status="in the limit", reason="the chain is run for a while"
    )
    nothing = Guarantee(0.1, status="none", reason="eq. 7 does not hold", adjacency="one bit")
    other = Guarantee(0.2, status="proved", reason="another proof")
    for parts, arithmetic, status, reason in (
        ((exact, exact), "exact", "proved", "a proof"),
        ((exact, chain), "exact", "in the limit", chain.reason),
        ((exact, other), "ideal", "proved", "a proof; another proof"),
        ((exact, Guarantee(0.2)), "ideal", "none", ""),
        ((exact, nothing, chain, exact, nothing), "ideal", "none", nothing.reason),
    ):
        total = compose(*parts)
        assert (total.arithmetic, total.status, total.reason) == (arithmetic, status, reason)
    # One part alone compares any two.
    assert total.adjacency == "one bit; any two records of one user"


def test_a_relationship_costs_both_ends_or_its_owner():
    first = Guarantee(1.0, delta=1e-6, unit=NEIGHBOUR_LIST)
    other = Guarantee(0.5, delta=1e-7, unit=NEIGHBOUR_LIST)
    for ends, epsilon, delta in (((first, other), 1.5, 1.1e-6), ((first,), 1.0, 1e-6)):
        edge = composition.relationship(*ends)
        assert (edge.unit, edge.epsilon) == (RELATIONSHIP, epsilon)
        assert edge.delta == pytest.approx(delta)


def test_joint_sums_units_for_an_adjacency_in_words():
    words = "two graphs that differ in a user's record and one bit of their list"
    parts = Guarantee(1.0, delta=1e-6), Guarantee(0.5, unit=NEIGHBOUR_LIST), Guarantee(0.25)
    total = composition.joint(*parts, adjacency=words)
    assert (total.epsilon, total.delta, total.adjacency) == (1.75, 1e-6, words)
    assert str(total.unit) == "neighbour-list + record"
    # Sixty parts have more orders than can be tried.
    parts = [Guarantee(0.01, 1e-6, Unit(f"unit {i}"), "two") for i in range(60)]
    total = composition.joint(*parts, adjacency="all")
    assert total.delta == pytest.approx(1e-6 * math.expm1(0.6) / math.expm1(0.01), rel=1e-12)
    total = composition.joint(Guarantee(math.inf, 0.5), parts[0], adjacency="both")
    assert total.delta == pytest.approx(1e-6 + math.exp(0.01) * 0.5)
    # Beyond e^1500 no delta is small.
    large = [Guarantee(1600.0, 1e-300, Unit(f"unit {i}"), "two") for i in range(2)]
    assert composition.joint(*large, adjacency="both").delta == 1.0
    assert composition.joint(large[0], parts[0], adjacency="both").delta < 1.1e-6


@pytest.mark.parametrize(("k", "delta_0"), [(1, 0.0), (8, 0.0), (6, 1e-3)])
def test_advanced_is_k_fold_randomised_response(k, delta_0):
    """All 4^k outputs enumerated: the pair holds, and 1e-6 less epsilon does not."""
    least = 1.0 - (1.0 - delta_0) ** k
    for epsilon, more in itertools.product((0.05, 0.5, 6.0), (1e-9, 1e-4, 0.03, 0.2)):
        p, q, delta = *(product([law] * k) for law in binary(epsilon, delta_0)), least + more
        total = composition.advanced(Guarantee(epsilon, delta_0), k, delta)
        assert total.epsilon <= add_up([epsilon], k)
        assert total.delta == delta
        assert hockey_stick(p, q, total.epsilon) <= delta + 1e-12
        assert total.epsilon == 0.0 or hockey_stick(p, q, total.epsilon - 1e-6) > delta - 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_advanced_is_the_least_epsilon_of_drawn_releases(seed):
    """Odd and even numbers of releases, deltas up to 0.36; a corner that is left out is seen."""
    rng = np.random.default_rng(seed)
    for k in range(1, 13):
        epsilon = rng.uniform(0.02, 2.0)
        delta = rng.uniform(0.0, 0.6) ** 2
        losses = (k - 2 * np.arange(k + 1)) * epsilon
        p = np.array(
            [math.comb(k, wrong) * math.exp((k - wrong) * epsilon) for wrong in range(k + 1)]
        )
        p /= (1 + math.exp(epsilon)) ** k
        lost = lambda least: float(p @ np.maximum(0.0, -np.expm1(least - losses)))  # noqa: B023
        found = composition.advanced(Guarantee(epsilon), k, delta).epsilon
        assert lost(found) <= delta * (1 + 1e-9)
        assert found == 0.0 or lost(found - 1e-6) > delta


@pytest.mark.parametrize(
    ("epsilon", "k", "delta"),
    [
        (50.0, 10, 1e-12),
        (0.01, 3, 1e-15),
        (0.00661, 1, 1.6e-22),
        (1e-16, 100, 1e-20),
        (1e-17, 1, 1e-25),
    ],
)
def test_advanced_holds_to_the_last_bit(epsilon, k, delta):
    """In 60 digits, where half a unit of epsilon in the last place, or of its logarithms, is much
    of delta.
    """
    with decimal.localcontext(prec=60):
        total = Decimal(composition.advanced(Guarantee(epsilon), k, delta).epsilon)
        true = Decimal(epsilon).exp()
        all_of = (1 + Decimal(epsilon).exp()) ** k
        p = [math.comb(k, wrong) * true ** (k - wrong) / all_of for wrong in range(k + 1)]
        losses = [one - total.exp() * other for one, other in zip(p, reversed(p), strict=True)]
        assert max(sum(losses[:most]) for most in range(k + 2)) <= Decimal(delta)


@pytest.mark.parametrize(
    ("delta_0", "k"), [(0.00045009262882758996, 2), (0.00010185725434629114, 5)]
)
def test_advanced_states_no_less_than_its_releases_have(delta_0, k):
    """In fractions: what float64 takes for 1 - (1 - delta_0)^k, or 1e-12 less, is granted and is
    below it.
    """
    true = 1 - (1 - Fraction(delta_0)) ** k
    granted = -math.expm1(k * math.log1p(-delta_0))
    assert granted < true
    for delta in (granted, granted * (1 - 9e-13)):
        total = composition.advanced(Guarantee(0.1, delta_0), k, delta)
        assert true <= Fraction(total.delta) <= true * (1 + Fraction(1, 10**14))


def test_advanced_at_its_ends():
    assert composition.advanced(Guarantee(0.125), 50, 0.0).epsilon == 6.25
    assert composition.advanced(Guarantee(0.0), 50, 0.1).epsilon == 0.0
    assert composition.advanced(Guarantee(700.0), 3, 1e-9).epsilon <= 2100.0
    # many small losses are a Gaussian: mu = eps sqrt(k)
    many = composition.advanced(Guarantee(1e-3), 10**6, 1e-6).epsilon
    assert many == pytest.approx(GaussianCurve(1.0).epsilon(1e-6), rel=1e-3)
    # Masses by sums of logarithms, from 1 on: gammaln of 10^6 is rounded by 2e-9.
    lost = np.arange(10**6 + 1, dtype=np.longdouble)
    log_p = np.append(
        0, np.cumsum(np.log(10**6 - lost[:-1]) - np.log(lost[1:]) - np.longdouble(1e-3))
    )
    p = np.exp(log_p - log_p.max())
    delta = (
        p * np.maximum(0, -np.expm1(many - (10**6 - 2 * lost) * np.longdouble(1e-3)))
    ).sum() / p.sum()
    assert 1 - 1e-6 < delta / 1e-6 <= 1


MANY = st.lists(st.tuples(EPSILONS, DELTAS), min_size=1, max_size=4)


@given(MANY, st.integers(1, 40))
def test_every_sum_of_losses_is_rounded_up(pairs, k):
    exact, delta = (sum(map(Fraction, column), Fraction(0)) for column in zip(*pairs, strict=True))
    lists = [Guarantee(*pair, unit=NEIGHBOUR_LIST, arithmetic="exact") for pair in pairs]
    pure = [Guarantee(epsilon, unit=NEIGHBOUR_LIST) for epsilon, _ in pairs]
    units = [
        Guarantee(epsilon, unit=Unit(f"unit {i}"), adjacency="two")
        for i, (epsilon, _) in enumerate(pairs)
    ]
    first = pure[0]
    again = lists[0].repeated(k)
    ledger = Ledger()
    total = composition.sequential(*lists)
    chain = lists[0]
    for part in lists[1:]:
        chain = chain + part
    for guarantee in pure:
        ledger = ledger.spend("list", guarantee)
    pipeline = PipelineGuarantee.of(lists, protected=["x"], unprotected=[])[NEIGHBOUR_LIST]
    once = Fraction(first.epsilon)
    sums = [(total.epsilon, exact), (pipeline.epsilon, exact)]
    sums.append((composition.joint(*units, adjacency="both").epsilon, exact))
    sums.append((ledger.spent(NEIGHBOUR_LIST).epsilon, exact))
    sums += [(one.epsilon, k * once) for one in (again, composition.sampled(first, k, 40))]
    sums.append((composition.advanced(first, k, 0.0).epsilon, k * once))
    edge = composition.relationship(first, pure[-1])
    sums.append((edge.epsilon, once + Fraction(pure[-1].epsilon)))
    deltas = [
        (total.delta, delta),
        (pipeline.delta, delta),
        (again.delta, k * Fraction(pairs[0][1])),
    ]
    for found, truth in [*sums, *(pair for pair in deltas if pair[0] < 1.0)]:
        assert least_at_or_above(found, truth)
    assert exact <= Fraction(chain.epsilon) <= Fraction(total.epsilon) * (1 + Fraction(1, 10**15))
    assert chain.delta == 1.0 or Fraction(chain.delta) >= delta


@given(MANY)
def test_chained_deltas_are_rounded_up(pairs):
    """Against 60 digits of the sums as they are written; and no more than 1e-15 of it above."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        units = [
            Guarantee(*pair, unit=Unit(f"unit {i}"), adjacency="two")
            for i, pair in enumerate(pairs)
        ]

        def chained(order):
            total = mpmath.mpf(0)
            before = mpmath.mpf(0)
            for part in order:
                total += mpmath.exp(before) * part.delta
                before += part.epsilon
            return min(mpmath.mpf(1), total)

        best = min(
            map(chained, itertools.permutations([unit for unit in units if unit.delta > 0.0]))
        )
        joint = composition.joint(*units, adjacency="both").delta
        assert best * (1 - mpmath.mpf(1e-40)) <= joint <= best * (1 + mpmath.mpf(1e-12)) + 5e-324
