"""What several releases cost together, against closed forms, enumeration, quadrature and dp_accounting."""

import contextlib
import dataclasses
import itertools
import math
import subprocess
import sys
import warnings
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given
from scipy import integrate, stats

from ldp_jax import accounting
from ldp_jax.accounting import BudgetExceededError, GaussianCurve, Ledger, Release
from ldp_jax.guarantee import (
    EDGE_CENTRAL,
    NEIGHBOUR_LIST,
    RECORD,
    RELATIONSHIP,
    Budget,
    Guarantee,
    PipelineGuarantee,
    Unit,
    add_up,
    digits_down,
    metric,
)

EPSILONS = st.floats(0.0, 20.0)
DELTAS = st.floats(0.0, 0.1)
SMALL = st.floats(0.0, 1.0)


@pytest.fixture(scope="module")
def pld():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("dp_accounting", exc_type=ImportError)
        from dp_accounting.pld import privacy_loss_distribution, privacy_loss_mechanism
    return privacy_loss_mechanism, privacy_loss_distribution


def proved(epsilon, delta=0.0, **more):
    return Guarantee(epsilon, delta, status="proved", reason="a proof", **more)


def hockey_stick(p, q, epsilon):
    return float(np.maximum(np.asarray(p) - math.exp(epsilon) * np.asarray(q), 0.0).sum())


def binary(epsilon, delta=0.0):
    """The mechanism that is worst at (epsilon, delta): randomised response, betraying its input with mass delta."""
    keep = (1.0 - delta) / (1.0 + math.exp(-epsilon))
    flip = (1.0 - delta) / (1.0 + math.exp(epsilon))
    return np.array([delta, keep, flip, 0.0]), np.array([0.0, flip, keep, delta])


def product(laws):
    table = np.ones(1)
    for law in laws:
        table = np.outer(table, law).ravel()
    return table


# --- composition ---------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(EPSILONS, DELTAS), min_size=1, max_size=6))
def test_sequential_adds_and_parallel_takes_the_largest(pairs):
    guarantees = [Guarantee(epsilon, delta) for epsilon, delta in pairs]
    total, largest = accounting.sequential(*guarantees), accounting.parallel(*guarantees)
    assert total.epsilon == pytest.approx(sum(epsilon for epsilon, _ in pairs), rel=1e-12)
    assert total.delta == pytest.approx(sum(delta for _, delta in pairs), rel=1e-12)
    assert (largest.epsilon, largest.delta) == (max(e for e, _ in pairs), max(d for _, d in pairs))
    assert largest.epsilon <= total.epsilon
    assert largest.delta <= total.delta


@pytest.mark.parametrize("compose", [accounting.sequential, accounting.parallel])
def test_composition_keeps_the_weaker_status_and_arithmetic(compose):
    exact = proved(1.0, arithmetic="exact")
    chain = Guarantee(0.5, arithmetic="exact", status="in the limit", reason="the chain is run for a while")
    nothing = Guarantee(0.1, status="none", reason="eq. 7 does not hold", adjacency="one bit")
    assert compose(exact, exact).arithmetic == "exact"
    assert compose(exact, exact).adjacency == exact.adjacency
    assert compose(exact, chain).status == "in the limit"
    assert compose(exact, chain).reason == chain.reason
    total = compose(exact, nothing, chain, exact, nothing)
    assert (total.arithmetic, total.status, total.reason) == ("ideal", "none", nothing.reason)
    assert total.adjacency == "any two records of one user; one bit"
    with pytest.raises(ValueError, match="one unit, got record, relationship"):
        compose(exact, Guarantee(1.0, unit=RELATIONSHIP))
    with pytest.raises(ValueError, match="at least one"):
        compose()


@given(EPSILONS, EPSILONS, DELTAS, DELTAS)
def test_two_releases_are_within_their_sum(first, second, delta_1, delta_2):
    """Enumerated at the worst mechanisms: the sum holds; and a twin that takes the largest alone does not."""
    total = accounting.sequential(Guarantee(first, delta_1), Guarantee(second, delta_2))
    p, q = (product(laws) for laws in zip(binary(first, delta_1), binary(second, delta_2), strict=True))
    assert hockey_stick(p, q, total.epsilon) <= total.delta + 1e-12
    if min(first, second) > 0.01 and max(delta_1, delta_2) < 1e-4:
        wrong = accounting.parallel(Guarantee(first, delta_1), Guarantee(second, delta_2))
        assert hockey_stick(p, q, wrong.epsilon) > wrong.delta or max(first, second) > 5


def test_sampling_coordinates_does_not_amplify():
    """k of d bits, each by randomised response, the chosen ones reported: enumerated over the whole cube."""
    epsilon, k, dim = 0.7, 2, 4
    total = accounting.sampled(Guarantee(epsilon), k, dim)
    one = binary(epsilon)
    cube = list(itertools.product([0, 1], repeat=dim))
    subsets = list(itertools.combinations(range(dim), k))

    def law(x):
        return np.concatenate([product([one[x[i]] for i in subset]) for subset in subsets]) / len(subsets)

    laws = [law(x) for x in cube]
    worst = max(np.max(np.log(p[p > 0] / q[p > 0])) for p in laws for q in laws)
    assert worst == pytest.approx(total.epsilon, rel=1e-12)
    assert worst > k / dim * k * epsilon  # "amplified by k / d" would be wrong
    assert "4 coordinates" in total.adjacency
    assert accounting.sampled(Guarantee(0.1, delta=1e-7), 5, 5).delta == pytest.approx(5e-7)


@pytest.mark.parametrize(("k", "dim"), [(0, 3), (4, 3), (True, 3), (1.5, 3), (1, 0)])
def test_sampled_refuses_a_count_that_is_none(k, dim, untyped):
    with pytest.raises(ValueError, match=r"(k|dim) must be a whole number"):
        accounting.sampled(Guarantee(1.0), k, dim)


def test_a_relationship_costs_both_ends_or_its_owner():
    first = Guarantee(1.0, delta=1e-6, unit=NEIGHBOUR_LIST)
    second = Guarantee(0.5, delta=1e-7, unit=NEIGHBOUR_LIST)
    both, owner = accounting.relationship(first, second), accounting.relationship(first)
    assert (both.epsilon, both.delta, both.unit) == (1.5, pytest.approx(1.1e-6), RELATIONSHIP)
    assert (owner.epsilon, owner.delta, owner.unit) == (1.0, 1e-6, RELATIONSHIP)
    assert "both its ends" in both.adjacency
    assert "its owner alone" in owner.adjacency
    for unit in (RECORD, RELATIONSHIP, EDGE_CENTRAL, metric(1.0)):
        with pytest.raises(ValueError, match="needs the unit neighbour-list"):
            accounting.relationship(first, Guarantee(1.0, unit=unit))


@pytest.mark.parametrize("degree", [1, 2, 5, 9])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (0.3, 1e-6), (0.0, 1e-3), (2.0, 1e-9), (60.0, 1e-300)])
def test_a_whole_list_is_the_chain_of_its_bits(epsilon, delta, degree):
    bit = Guarantee(epsilon, delta, unit=NEIGHBOUR_LIST)
    whole = accounting.whole_list(bit, degree)
    assert whole.epsilon == pytest.approx(degree * epsilon, rel=1e-15)
    chained = min(1.0, sum(delta * math.exp(i * epsilon) for i in range(degree)))
    assert whole.delta == pytest.approx(chained, rel=1e-9)
    assert whole.delta >= min(1.0, degree * delta) * (1 - 1e-12)
    if degree == 1:
        assert whole == bit
    else:
        assert f"at most {degree} bits" in whole.adjacency
        with pytest.raises(ValueError, match="do not add"):
            whole + bit


def test_a_whole_list_never_overflows_and_never_promises_more_than_nothing():
    assert accounting.whole_list(Guarantee(1.0, delta=1e-6, unit=NEIGHBOUR_LIST), 10**6).delta == 1.0
    assert accounting.whole_list(Guarantee(math.inf, delta=0.1, unit=NEIGHBOUR_LIST), 3).delta == 1.0
    assert accounting.whole_list(Guarantee(1e-320, delta=1e-3, unit=NEIGHBOUR_LIST), 10).delta == pytest.approx(
        0.01
    )
    with pytest.raises(ValueError, match="needs the unit neighbour-list, got record"):
        accounting.whole_list(Guarantee(1.0), 3)
    with pytest.raises(ValueError, match="degree must be a whole number"):
        accounting.whole_list(Guarantee(1.0, unit=NEIGHBOUR_LIST), 0)


def test_group_delta_is_needed():
    """Gaussian noise at the (eps, delta) of one bit: k bits keep to the group's pair, and are far within it."""
    curve, k = GaussianCurve(0.5), 6
    bit = curve.guarantee(1e-6, NEIGHBOUR_LIST)
    whole = accounting.whole_list(bit, k)
    assert GaussianCurve(0.5 * k).delta(whole.epsilon) <= whole.delta


def test_joint_sums_units_for_an_adjacency_in_words():
    words = "two graphs that differ in a user's record and one bit of her list"
    total = accounting.joint(
        Guarantee(1.0, delta=1e-6), Guarantee(0.5, unit=NEIGHBOUR_LIST), Guarantee(0.25), adjacency=words
    )
    assert (total.epsilon, total.delta, total.adjacency) == (1.75, 1e-6, words)
    assert str(total.unit) == "neighbour-list + record"
    with pytest.raises(ValueError, match="do not add"):
        total + Guarantee(1.0)
    with pytest.raises(ValueError, match="per unit of distance"):
        accounting.joint(Guarantee(1.0), Guarantee(1.0, unit=metric(2.0)), adjacency=words)
    with pytest.raises(ValueError, match="adjacency must say"):
        accounting.joint(Guarantee(1.0), adjacency=" ")
    with pytest.raises(ValueError, match="at least one"):
        accounting.joint(adjacency=words)


def test_joint_deltas_chain_because_one_release_may_carry_both():
    """p0 -> p1 by one unit, p1 -> p2 by the other, each at its own pair: the plain sum of deltas is exceeded."""
    epsilon, delta = 1.0, 0.05
    p0, p1 = np.array([0.9, 0.1]), np.array([(0.9 - delta) / math.e, 1.0 - (0.9 - delta) / math.e])
    p2 = np.array([(p1[0] - delta) / math.e, 1.0 - (p1[0] - delta) / math.e])
    assert hockey_stick(p0, p1, epsilon) == pytest.approx(delta)
    assert hockey_stick(p1, p2, epsilon) == pytest.approx(delta)
    parts = Guarantee(epsilon, delta), Guarantee(epsilon, delta, unit=NEIGHBOUR_LIST)
    total = accounting.joint(*parts, adjacency="record and one bit")
    assert total.delta == pytest.approx(delta + math.e * delta)
    assert hockey_stick(p0, p2, total.epsilon) == pytest.approx(total.delta)
    assert hockey_stick(p0, p2, total.epsilon) > 2 * delta
    uneven = accounting.joint(parts[0], Guarantee(3.0, 0.01, unit=RELATIONSHIP), adjacency="both")
    assert uneven.delta == pytest.approx(min(0.05 + math.e * 0.01, 0.01 + math.exp(3) * 0.05))


def test_personal_totals():
    table = np.array([[0.5, 1.0, 0.0], [0.25, 1.0, 2.0]], np.float32)
    totals, guarantee = accounting.per_user(table, releases=2, unit=NEIGHBOUR_LIST)
    assert totals.dtype == np.float64
    np.testing.assert_allclose(totals, [1.5, 4.0, 4.0], rtol=1e-15)
    assert (guarantee.epsilon, guarantee.unit) == (4.0, NEIGHBOUR_LIST)
    assert "own total" in guarantee.adjacency
    np.testing.assert_array_equal(accounting.per_user(table[0]).totals, [0.5, 1.0, 0.0])
    with pytest.raises(ValueError, match="read-only"):
        totals[0] = 0.0
    table[0, 0] = 100.0
    assert totals[0] == 1.5


@pytest.mark.parametrize(
    "epsilons",
    [[1.0, math.nan], [math.inf], [-0.1, 1.0], [], [[]], 1.0, np.zeros((2, 2, 2)), ["1"], [True], [1j]],
)
def test_personal_totals_refuse_what_is_no_budget(epsilons):
    with pytest.raises(ValueError, match="epsilons must be"):
        accounting.per_user(epsilons)


def test_personal_totals_refuse_counts_and_units():
    with pytest.raises(ValueError, match="releases must be a whole number"):
        accounting.per_user([1.0], releases=0)
    with pytest.raises(ValueError, match="no adjacency of its own"):
        accounting.per_user([1.0], unit=metric(1.0))


# --- Kairouz, Oh and Viswanath -------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.5, 6.0])
@pytest.mark.parametrize(("k", "delta_0"), [*((k, 0.0) for k in range(1, 9)), *((k, 1e-3) for k in range(1, 7))])
def test_advanced_is_k_fold_randomised_response(k, epsilon, delta_0):
    """All 4^k outputs enumerated: the pair holds, and 1e-6 less epsilon does not."""
    p, q = (product([law] * k) for law in binary(epsilon, delta_0))
    least = 1.0 - (1.0 - delta_0) ** k
    for delta in (least + 1e-9, least + 1e-4, least + 0.03, least + 0.2, 0.7):
        total = accounting.advanced(Guarantee(epsilon, delta_0), k, delta)
        assert total.epsilon <= add_up([epsilon], k)
        assert total.delta == delta
        assert hockey_stick(p, q, total.epsilon) <= delta + 1e-12
        if total.epsilon > 0.0:
            assert hockey_stick(p, q, total.epsilon - 1e-6) > delta - 1e-12
            slope = hockey_stick(p, q, total.epsilon - 1e-3) - hockey_stick(p, q, total.epsilon)
            assert slope > 0.0


@pytest.mark.parametrize("k", [2, 5, 8])
def test_advanced_meets_the_corners_of_the_theorem(k):
    """Theorem 3.3 as printed: ((k - 2i) eps, delta_i)."""
    epsilon = 0.4
    for i in range(1, k // 2 + 1):
        terms = (
            math.comb(k, l) * (math.exp((k - l) * epsilon) - math.exp((k - 2 * i + l) * epsilon)) for l in range(i)
        )
        delta = sum(terms) / (1.0 + math.exp(epsilon)) ** k
        found = accounting.advanced(Guarantee(epsilon), k, delta).epsilon
        assert found == pytest.approx((k - 2 * i) * epsilon, abs=1e-7)


@given(st.floats(1e-6, 5.0), st.integers(1, 3000), st.floats(1e-15, 0.5))
def test_advanced_is_never_worse_than_basic_and_falls_with_delta(epsilon, k, delta):
    total = accounting.advanced(Guarantee(epsilon), k, delta)
    assert 0.0 <= total.epsilon <= add_up([epsilon], k)
    assert accounting.advanced(Guarantee(epsilon), k, min(0.9, 2 * delta)).epsilon <= total.epsilon


def test_advanced_at_its_ends():
    assert accounting.advanced(Guarantee(0.125), 50, 0.0).epsilon == 6.25
    assert accounting.advanced(Guarantee(0.0), 50, 0.1).epsilon == 0.0
    assert accounting.advanced(Guarantee(700.0), 3, 1e-9).epsilon <= 2100.0
    # many small losses are a Gaussian: mu = eps sqrt(k)
    many = accounting.advanced(Guarantee(1e-3), 10**6, 1e-6).epsilon
    assert many == pytest.approx(GaussianCurve(1.0).epsilon(1e-6), rel=1e-3)
    for delta in (-0.1, 1.0, math.nan, math.inf, 1e-4):
        with pytest.raises(ValueError, match="delta must be"):
            accounting.advanced(Guarantee(0.1, delta=1e-4), 2, delta)
    with pytest.raises(ValueError, match="epsilon of guarantee must be finite"):
        accounting.advanced(Guarantee(math.inf), 2, 0.1)
    with pytest.raises(ValueError, match="per unit of distance"):
        accounting.advanced(Guarantee(1.0, unit=metric(1.0)), 2, 0.1)


# --- Gaussian noise ------------------------------------------------------------------------------------------

MUS = [1e-3, 0.05, 0.3, 0.999, 1.0, 1.001, 2.0, 5.0, 20.0]


@pytest.mark.parametrize("mu", MUS)
def test_delta_is_the_hockey_stick_of_two_gaussians(mu):
    """Quadrature of max(0, phi(x - mu) - e^eps phi(x)), which starts where the loss reaches epsilon."""
    for epsilon in (0.0, 0.01, 0.5, 1.0, 3.0, 10.0, 60.0):
        start = epsilon / mu + mu / 2.0
        if start - mu > 30.0:
            continue

        def gap(x, epsilon=epsilon):
            return stats.norm.pdf(x - mu) - math.exp(epsilon + stats.norm.logpdf(x))

        end = max(start, mu) + 12.0
        points = np.linspace(start, end, 30)
        oracle = sum(integrate.quad(gap, a, b, epsabs=0)[0] for a, b in itertools.pairwise(points))
        assert GaussianCurve(mu).delta(epsilon) == pytest.approx(oracle, rel=1e-9)


@pytest.mark.parametrize("mu", [1e-8, 1e-4, 0.1, 0.99, 1.0, 1.5, 10.0, 100.0])
def test_delta_in_many_digits(mu):
    """Theorem 8 as printed, in 400 digits."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(400):
        for epsilon in (0.0, 1e-12, 1e-6, 1e-3, 0.1, 1.0, 5.0, 50.0, 100.0, 500.0, 5000.0):
            m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
            oracle = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
            if oracle > 1e-290:
                assert abs(GaussianCurve(mu).delta(epsilon) / oracle - 1) < 5e-13
            else:
                assert GaussianCurve(mu).delta(epsilon) <= 1e-289


def test_delta_at_zero_is_total_variation():
    for mu in MUS:
        assert GaussianCurve(mu).delta(0.0) == pytest.approx(math.erf(mu / math.sqrt(8.0)), rel=1e-12)


def test_delta_takes_arrays_and_extremes():
    epsilon = np.array([[0.0, 1.0, 500.0], [1e9, math.inf, 1e-300]])
    for mu in (0.0, 1e-300, 1e-9, 0.5, 1.0, 3.0, 1e5, 1e200):
        curve = GaussianCurve(mu)
        delta = curve.delta(epsilon)
        assert delta.shape == (2, 3)
        assert delta.dtype == np.float64
        assert ((delta >= 0.0) & (delta <= 1.0)).all()
        assert curve.delta(np.array(1.0)).shape == ()
        alone = [curve.delta(float(e)) for e in epsilon.ravel()]  # sums of other shapes: a last digit may differ
        np.testing.assert_allclose(delta.ravel(), alone, rtol=1e-12, atol=0.0)
    assert GaussianCurve(0.0).epsilon(1e-9) == 0.0
    assert GaussianCurve(1e200).epsilon(1e-9) == math.inf
    line = GaussianCurve(1.3).delta(np.linspace(0.0, 40.0, 4001))
    assert (np.diff(line) < 0.0).all()


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
def test_delta_agrees_with_dp_accounting(mu, pld):
    mechanism, distribution = pld
    loss = mechanism.GaussianPrivacyLoss(1.0 / mu)
    for epsilon in (0.0, 0.1, 1.0, 4.0):
        assert GaussianCurve(mu).delta(epsilon) == pytest.approx(loss.get_delta_for_epsilon(epsilon), rel=1e-7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        composed = distribution.from_gaussian_mechanism(1.0 / mu, value_discretization_interval=1e-3)
        composed = composed.self_compose(4)
        other = distribution.from_gaussian_mechanism(2.0, value_discretization_interval=1e-3)
        composed = composed.compose(other)
        curve = GaussianCurve(mu).repeated(4) + GaussianCurve(0.5)
        for epsilon in (0.5, 1.0, 4.0):
            theirs = composed.get_delta_for_epsilon(epsilon)  # rounded up on their grid
            assert curve.delta(epsilon) <= theirs * (1 + 1e-9) + 1e-12
            assert curve.delta(epsilon) == pytest.approx(theirs, rel=2e-2, abs=1e-9)


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-12, 1e-6, 1e-3, 0.1, 0.9])
def test_epsilon_inverts_delta_on_the_safe_side(mu, delta):
    curve = GaussianCurve(mu)
    epsilon = curve.epsilon(delta)
    assert curve.delta(epsilon) <= delta
    if epsilon > 0.0:
        assert curve.delta(epsilon * (1.0 - 1e-8)) > delta * (1.0 - 1e-11)
        assert curve.delta(epsilon * (1.0 - 1e-4)) > delta
    else:
        assert curve.delta(0.0) <= delta


@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.03, 0.5, 1.0, 5.0, 20.0, 50.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-5, 1e-3, 0.1])
def test_calibration_round_trip(epsilon, delta):
    """The noise is enough, and 1e-6 less is not; 1e-11 less is not either, up to the 1e-12 kept for rounding."""
    for sensitivity in (1.0, 3.7e-4, 250.0):
        sigma = accounting.gaussian_sigma(epsilon, delta, sensitivity)
        assert sensitivity / sigma <= accounting.gaussian_mu(epsilon, delta)
        assert GaussianCurve.of(sensitivity, sigma).delta(epsilon) <= delta
        assert GaussianCurve.of(sensitivity, sigma * (1.0 - 1e-6)).delta(epsilon) > delta
        assert GaussianCurve.of(sensitivity, sigma * (1.0 - 1e-11)).delta(epsilon) > delta
        assert GaussianCurve.of(sensitivity, sigma).epsilon(delta) == pytest.approx(epsilon, rel=1e-8, abs=1e-11)


@given(st.floats(1e-3, 50.0), st.floats(-12.0, -1.0))
def test_calibration_anywhere(epsilon, exponent):
    delta = 10.0**exponent
    mu = accounting.gaussian_mu(epsilon, delta)
    assert GaussianCurve(mu).delta(epsilon) <= delta < GaussianCurve(mu * (1.0 + 1e-6)).delta(epsilon)


def test_the_classic_calibration_wastes_noise_and_then_breaks_its_promise():
    """sqrt(2 ln(1.25 / delta)) / eps: proved for eps < 1, where it is too much; from 6.8 to 9.7 on, too little."""

    def classic(epsilon, delta):
        return math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon

    for delta in (1e-9, 1e-5, 1e-2):
        for epsilon in (0.01, 0.1, 0.5, 0.99, 3.0):
            assert classic(epsilon, delta) > accounting.gaussian_sigma(epsilon, delta)
        for epsilon in (11.0, 15.0, 30.0):
            assert classic(epsilon, delta) < accounting.gaussian_sigma(epsilon, delta)
            assert GaussianCurve(1.0 / classic(epsilon, delta)).delta(epsilon) > 1.5 * delta
    assert GaussianCurve(1.0 / classic(5.0, 0.3)).delta(5.0) > 0.3


@given(st.lists(st.floats(0.0, 5.0), min_size=1, max_size=6))
def test_curves_compose_by_their_squares(mus):
    curves = [GaussianCurve(mu) for mu in mus]
    total = curves[0].compose(*curves[1:])
    assert total.mu == pytest.approx(math.sqrt(sum(mu**2 for mu in mus)), rel=1e-14)
    summed = curves[0]
    for curve in curves[1:]:
        summed = summed + curve
    assert summed.mu == pytest.approx(total.mu, rel=1e-14)
    assert curves[0].repeated(9).mu == pytest.approx(3 * mus[0], rel=1e-14)


def test_composition_of_curves_is_that_of_a_vector():
    """Two releases are one of a vector: the quadrature over the plane of both noises."""
    first, second, epsilon = 0.7, 1.1, 0.8

    grid = np.linspace(-9.0, 11.0, 2001)
    x, y = np.meshgrid(grid, grid)
    p = stats.norm.pdf(x - first) * stats.norm.pdf(y - second)
    oracle = np.maximum(p - math.exp(epsilon) * stats.norm.pdf(x) * stats.norm.pdf(y), 0.0).sum() * 0.01**2
    assert (GaussianCurve(first) + GaussianCurve(second)).delta(epsilon) == pytest.approx(oracle, rel=1e-4)
    wrong = GaussianCurve(max(first, second))  # a twin that forgets one release
    assert wrong.delta(epsilon) < 0.8 * oracle


def test_a_curve_as_a_guarantee():
    curve = GaussianCurve.of(1.0, 2.0)
    guarantee = curve.guarantee(1e-6)
    assert (guarantee.epsilon, guarantee.delta, guarantee.unit) == (curve.epsilon(1e-6), 1e-6, RECORD)
    assert (guarantee.status, guarantee.arithmetic) == ("proved", "ideal")
    assert curve.guarantee(1e-6, NEIGHBOUR_LIST).adjacency.endswith("one bit")
    assert curve.guarantee(1e-6, metric(2.0), "two points at distance 1").adjacency == "two points at distance 1"
    with pytest.raises(ValueError, match="say in words"):
        curve.guarantee(1e-6, metric(2.0))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, "1", True, None])
def test_no_number_out_of_range_passes(bad, untyped):
    for call in (
        lambda: GaussianCurve(bad),
        lambda: GaussianCurve.of(bad, 1.0),
        lambda: GaussianCurve.of(1.0, bad),
        lambda: GaussianCurve(1.0).epsilon(bad),
        lambda: GaussianCurve(1.0).guarantee(bad),
        lambda: GaussianCurve(1.0).repeated(bad),
        lambda: accounting.gaussian_sigma(bad, 1e-5),
        lambda: accounting.gaussian_sigma(1.0, bad),
        lambda: accounting.gaussian_sigma(1.0, 1e-5, bad),
        lambda: accounting.gaussian_mu(bad, 1e-5),
        lambda: Ledger().spend("x", GaussianCurve(1.0), delta=bad) if bad is not None else GaussianCurve(bad),
    ):
        with pytest.raises(ValueError, match=r"(mu|sensitivity|sigma|delta|epsilon|times) must be"):
            call()


def test_ranges_of_the_gaussian_functions():
    curve = GaussianCurve(1.0)
    for delta in (0.0, 1.0, 1.5):
        with pytest.raises(ValueError, match="delta must be"):
            curve.epsilon(delta)
        with pytest.raises(ValueError, match="delta must be"):
            accounting.gaussian_mu(1.0, delta)
    for epsilon in (-1e-9, math.nan):
        with pytest.raises(ValueError, match="epsilon must be >= 0"):
            curve.delta(epsilon)
        with pytest.raises(ValueError, match="epsilon must be >= 0"):
            curve.delta(np.array([1.0, epsilon]))
    with pytest.raises(ValueError, match=r"epsilon must be in \[0, 1e\+09\]"):
        accounting.gaussian_mu(1e10, 1e-5)
    with pytest.raises(ValueError, match="sigma must be finite and > 0"):
        GaussianCurve.of(1.0, 0.0)
    with pytest.raises(ValueError, match="sensitivity must be finite and > 0"):
        accounting.gaussian_sigma(1.0, 1e-5, 0.0)


# --- the ledger ----------------------------------------------------------------------------------------------


def test_ten_times_a_tenth_fits_one_and_an_eleventh_is_named():
    ledger = Ledger(Budget(1.0))
    for step in range(10):
        ledger = ledger.spend(f"step {step}", proved(0.1))
    assert ledger.remaining(RECORD).epsilon == 0.0
    with pytest.raises(BudgetExceededError) as caught:
        ledger.spend("the straw", proved(0.1, delta=1e-9))
    text = str(caught.value)
    for part in ("'the straw'", "epsilon 0.1, delta 1e-09", "epsilon 1 is spent", "epsilon 0, ", "per record"):
        assert part in text
    with pytest.raises(ValueError, match="does not fit"):  # it is a ValueError too
        ledger.spend("little", proved(1e-8))


def test_the_message_says_what_is_spent_and_what_remains():
    ledger = Ledger(Budget(2.0, delta=1e-5)).spend("first", proved(0.75, delta=4e-6))
    with pytest.raises(BudgetExceededError) as caught:
        ledger.spend("second", proved(1.5))
    assert str(caught.value) == (
        "release 'second' (epsilon 1.5) does not fit the budget per record: epsilon 0.75, delta 4e-06 is spent, "
        "epsilon 1.25, delta 6e-06 remains of epsilon 2, delta 1e-05; with it the total would be "
        "epsilon 2.25, delta 4e-06"
    )
    with pytest.raises(BudgetExceededError, match="delta 4e-06 is spent"):
        ledger.spend("third", proved(0.1, delta=7e-6))


def test_a_ledger_never_changes():
    empty = Ledger(Budget(1.0))
    spent = empty.spend("x", proved(0.5))
    assert empty.releases == ()
    assert len(spent.releases) == 1
    with pytest.raises(BudgetExceededError):
        spent.spend("y", proved(0.75))
    assert spent == empty.spend("x", proved(0.5))
    assert hash(spent) == hash(empty.spend("x", proved(0.5)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        spent.releases = ()
    budgets = [Budget(1.0)]
    ledger = Ledger(budgets)
    budgets.append(Budget(5.0, unit=RELATIONSHIP))
    assert ledger.budgets == (Budget(1.0),)


def test_no_ledger_over_its_budget_can_be_made():
    release = Release("x", proved(0.75))
    with pytest.raises(BudgetExceededError, match="'x'"):
        Ledger(Budget(1.0), [release, release])
    ledger = Ledger(None, [release, release])
    with pytest.raises(BudgetExceededError, match="'x'"):
        dataclasses.replace(ledger, budget=Budget(1.0))


def test_units_have_their_own_budgets():
    ledger = Ledger([Budget(1.0), Budget(2.0, unit=NEIGHBOUR_LIST)])
    ledger = ledger.spend("x", proved(1.0)).spend("edges", proved(2.0, unit=NEIGHBOUR_LIST))
    assert (ledger.remaining(RECORD).epsilon, ledger.remaining(NEIGHBOUR_LIST).epsilon) == (0.0, 0.0)
    text = "release 'graph' .epsilon 0.1. is per edge-central, which has no budget.*per record, neighbour-list"
    with pytest.raises(BudgetExceededError, match=text):
        ledger.spend("graph", proved(0.1, unit=EDGE_CENTRAL))
    with pytest.raises(ValueError, match="no budget per relationship"):
        ledger.remaining(RELATIONSHIP)
    with pytest.raises(ValueError, match="each unit once, got record 2 times"):
        Ledger([Budget(1.0), Budget(2.0)])


@pytest.mark.parametrize("budget", [(math.inf, 0.0), (1.0, 1.0)])
def test_no_infinite_budget(budget):
    with pytest.raises(ValueError, match="budget's (epsilon|delta) per record must be"):
        Ledger(Budget(*budget))


def test_nan_and_negative_budgets_are_refused_however_they_are_made():
    for epsilon, delta in ((math.nan, 0.0), (-1.0, 0.0), (1.0, math.nan), (1.0, -0.1)):
        limit, broken = Budget(1.0), proved(1.0)
        for made in (limit, broken):
            object.__setattr__(made, "epsilon", epsilon)
            object.__setattr__(made, "delta", delta)
        with pytest.raises(ValueError, match="budget's (epsilon|delta)"):
            Ledger(limit)
        with pytest.raises(ValueError, match="epsilon|delta"):
            Ledger(Budget(1.0)).spend("x", broken)
        with pytest.raises(ValueError, match="epsilon|delta"):
            Ledger().spend("x", broken)


def test_what_proves_nothing_fits_no_budget():
    unproven = Guarantee(0.1, status="none", reason="eq. 7 does not hold")
    with pytest.raises(BudgetExceededError, match=r"proves nothing about record.*eq\. 7"):
        Ledger(Budget(1.0)).spend("x", unproven)
    assert "none: eq. 7 does not hold" in Ledger().spend("x", unproven).explain()
    with pytest.raises(BudgetExceededError, match=r"'x' \(epsilon inf\)"):
        Ledger(Budget(1.0)).spend("x", proved(math.inf))
    chain = Guarantee(0.1, status="in the limit", reason="the chain is run for a while")
    assert Ledger(Budget(1.0)).spend("x", chain).spent(RECORD).status == "in the limit"


def test_gaussian_releases_compose_before_they_are_converted():
    """k of them cost the epsilon of mu sqrt(k) at the budget's delta, less than any sum."""
    curve, budget = GaussianCurve.of(1.0, 20.0), Budget(2.0, delta=1e-6)
    ledger, k = Ledger(budget), 16
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
    with pytest.raises(BudgetExceededError, match="needs a delta, and none is left"):
        ledger.spend("all of it", proved(0.1, delta=4e-6))
    with pytest.raises(BudgetExceededError, match="needs a delta, and none is left"):
        Ledger(Budget(3.0)).spend("noise", curve)
    named = Ledger(Budget(3.0, delta=1e-5)).spend("noise", curve, delta=1e-6).spend("more", curve)
    assert named.spent(RECORD).epsilon == pytest.approx(curve.repeated(2).epsilon(1e-6), rel=1e-12)
    assert named.remaining(RECORD).delta == pytest.approx(9e-6)
    with pytest.raises(BudgetExceededError, match="does not fit"):
        named.spend("beyond", curve, delta=1e-4)


def test_the_sum_of_pure_and_gaussian_holds():
    """Randomised response beside Gaussian noise: the hockey-stick divergence of both at the ledger's epsilon."""
    curve, pure = GaussianCurve(0.8), 0.6
    spent = Ledger().spend("bit", proved(pure)).spend("noise", curve, delta=1e-3).spent(RECORD)
    keep = 1.0 / (1.0 + math.exp(-pure))
    flip = 1.0 - keep
    # the loss of the response is +-pure with mass keep, flip
    delta = keep * curve.delta(spent.epsilon - pure) + flip * curve.delta(spent.epsilon + pure)
    assert delta <= spent.delta
    assert curve.delta(spent.epsilon - pure) == pytest.approx(1e-3, rel=1e-9)


def test_a_record_only_needs_a_delta_for_a_curve():
    with pytest.raises(ValueError, match="'noise': with no budget to take it from, a curve needs a delta"):
        Ledger().spend("noise", GaussianCurve(0.1))
    ledger = Ledger().spend("noise", GaussianCurve(0.1), delta=1e-6, unit=NEIGHBOUR_LIST).spend("x", proved(40.0))
    assert ledger.spent(NEIGHBOUR_LIST).delta == 1e-6
    assert ledger.spent(RECORD).epsilon == 40.0
    assert ledger.spent(EDGE_CENTRAL).epsilon == 0.0
    assert "no budget: a record only" in ledger.explain()


def test_what_is_said_twice_or_not_at_all_is_refused():
    ledger = Ledger()
    for extra in ({"delta": 1e-6}, {"unit": RECORD}, {"adjacency": "words"}):
        with pytest.raises(ValueError, match="says its own delta, unit and adjacency"):
            ledger.spend("x", proved(1.0), **extra)
    with pytest.raises(ValueError, match="says its own delta, unit and adjacency"):
        Release("x", proved(1.0), RELATIONSHIP, "words")
    with pytest.raises(ValueError, match="protects must be a sequence of field names, got the string 'edges'"):
        ledger.spend("x", proved(1.0), protects="edges")
    with pytest.raises(ValueError, match="both protects and exposes edges"):
        ledger.spend("x", proved(1.0), protects=["edges"], exposes=["edges"])
    with pytest.raises(ValueError, match="name must say"):
        ledger.spend(" ", proved(1.0))
    with pytest.raises(ValueError, match="say in words"):
        ledger.spend("x", GaussianCurve(1.0), delta=1e-6, unit=metric(1.0))


def test_an_exposed_field_stays_exposed():
    ledger = (
        Ledger()
        .spend("edges", proved(1.0, unit=NEIGHBOUR_LIST), protects=("edges",))
        .spend("features", proved(0.5), protects=("features",), exposes=("edges", "splits"))
        .spend("labels", proved(0.25), protects=("labels", "features"))
    )
    total = ledger.total()
    assert total.protected == ("features", "labels")
    assert total.unprotected == ("edges", "splits")
    assert (total[RECORD].epsilon, total[NEIGHBOUR_LIST].epsilon) == (0.75, 1.0)
    assert list(Ledger().total()) == []


def test_explain_is_aligned_and_rounds_against_the_claim():
    ledger = Ledger([Budget(1.0, delta=1e-6), Budget(2.0, unit=NEIGHBOUR_LIST)])
    ledger = ledger.spend("features of all users", proved(0.12345649), protects=("features",), exposes=("labels",))
    ledger = ledger.spend("edges", proved(2.0, unit=NEIGHBOUR_LIST), protects=("edges",))
    ledger = ledger.spend("more", proved(0.5))
    text = ledger.explain()
    assert str(ledger) == text
    lines = text.splitlines()
    column = lines[0].index("unit")
    assert [line[column:].split("  ")[0] for line in lines[1:4]] == ["record", "neighbour-list", "record"]
    assert lines[1].count("epsilon 0.123457") == 2  # its cost, and the total so far: up
    assert "epsilon 0.623457" in lines[3]  # the running total, up
    assert "  of a budget of epsilon 1, delta 1e-06; epsilon 0.376543, delta 1e-06 remains" in lines  # down
    assert "neighbour-list: spent epsilon 2 (ideal arithmetic; proved)" in lines
    assert "  of a budget of epsilon 2; epsilon 0 remains" in lines
    assert lines[-1] == "protected: features, edges; NOT protected: labels"
    assert not any(line != line.rstrip() for line in lines)
    assert Ledger(Budget(1.0)).explain().splitlines()[0] == "record: spent epsilon 0 (ideal arithmetic; proved)"


@given(st.lists(st.floats(0.0, 0.4), min_size=1, max_size=8))
def test_what_is_printed_to_remain_is_there(epsilons):
    ledger = Ledger(Budget(1.0))
    for index, epsilon in enumerate(epsilons):
        try:
            ledger = ledger.spend(str(index), proved(epsilon))
        except BudgetExceededError:
            assert ledger.spent(RECORD).epsilon + epsilon > 1.0
    left = float(digits_down(ledger.remaining(RECORD).epsilon))
    assert ledger.spend("rest", proved(left)).spent(RECORD).epsilon <= 1.0 + 1e-9


def test_accounting_loads_no_jax():
    code = "import sys; from ldp_jax import accounting; print('jax' in sys.modules or 'jaxlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "False"


# --- budgets that cannot be talked down ------------------------------------------------------------------------

LISTS, EDGES = Budget(1.0, unit=NEIGHBOUR_LIST), Budget(2.0, unit=RELATIONSHIP)
UNITS = [
    RECORD,
    metric(1.0),
    metric(2.0),
    NEIGHBOUR_LIST,
    RELATIONSHIP,
    EDGE_CENTRAL,
    Unit("neighbour-list of 3 bits"),
    Unit("record + relationship"),
    Unit("household"),
]
RECORDS_ALONE, EDGES_ALONE = {0, 1, 2}, {3, 4, 5, 6}  # the others speak of both


def per(unit, epsilon=0.5, **more):
    return proved(epsilon, unit=unit, adjacency="two inputs", **more)


def whole_graph(lists=1.0, edges=2.0, **more):
    """As privatize_graph says it."""
    parts = [per(NEIGHBOUR_LIST, lists), per(RELATIONSHIP, edges)]
    return PipelineGuarantee.of(parts, **{"protected": ["edges"], "unprotected": ["number of nodes"], **more})


def test_a_pipeline_is_spent_whole():
    ledger = Ledger([LISTS, EDGES]).spend("graph", whole_graph(0.5, 1.0))
    assert (ledger.spent(NEIGHBOUR_LIST).epsilon, ledger.spent(RELATIONSHIP).epsilon) == (0.5, 1.0)
    assert (ledger.remaining(NEIGHBOUR_LIST).epsilon, ledger.remaining(RELATIONSHIP).epsilon) == (0.5, 1.0)
    total = ledger.total()
    assert (total.protected, total.unprotected) == (("edges",), ("number of nodes",))
    assert {unit: total[unit].epsilon for unit in total} == {NEIGHBOUR_LIST: 0.5, RELATIONSHIP: 1.0}
    ledger = ledger.spend("again", whole_graph(0.5, 1.0), protects=["edges"], exposes=["labels"])
    assert ledger.remaining(RELATIONSHIP).epsilon == 0.0
    assert ledger.total().unprotected == ("number of nodes", "labels")
    lines = ledger.explain().splitlines()
    assert [line.split("  ")[0] for line in lines[1:5]] == ["graph", "", "again", ""]
    assert "relationship: spent epsilon 2 (ideal arithmetic; proved)" in lines
    with pytest.raises(BudgetExceededError, match="'third'.*epsilon 0.1 per neighbour-list and .* does not fit"):
        ledger.spend("third", whole_graph(0.1, 0.1))
    assert Ledger(1.0).spend("x", PipelineGuarantee.of([proved(1.0)], protected=["x"], unprotected=[])).budgets == (
        Budget(1.0),
    )


def test_each_unit_of_a_pipeline_has_to_fit():
    for lists, edges, unit in ((1.1, 1.0, "neighbour-list"), (1.0, 2.1, "relationship")):
        with pytest.raises(BudgetExceededError, match=f"does not fit the budget per {unit}"):
            Ledger([LISTS, EDGES]).spend("graph", whole_graph(lists, edges))
    unproved = PipelineGuarantee((per(NEIGHBOUR_LIST), Guarantee(1.0, unit=RELATIONSHIP)), ("edges",))
    with pytest.raises(BudgetExceededError, match="proves nothing about relationship.*no proof was given"):
        Ledger([LISTS, EDGES]).spend("graph", unproved)


def test_a_lone_list_cannot_hide_what_a_relationship_costs():
    """DPRR(0.1, 0.9) alone, where full lists cost 2 an edge: relationships would have spent 0."""
    ledger = Ledger([LISTS, EDGES])
    lone = (
        "'lists' .epsilon 1. does not say what it costs per relationship, .*PipelineGuarantee that states what it"
    )
    with pytest.raises(BudgetExceededError, match=lone + ".* per neighbour-list and relationship.*privatize_graph"):
        ledger.spend("lists", per(NEIGHBOUR_LIST, 1.0), protects=["edges"])
    with pytest.raises(BudgetExceededError, match="per neighbour-list"):
        ledger.spend("edges", per(RELATIONSHIP, 2.0))
    with pytest.raises(BudgetExceededError, match="per relationship"):
        ledger.spend("noise", GaussianCurve(0.1), unit=NEIGHBOUR_LIST)
    alone = Ledger(LISTS).spend("lists", per(NEIGHBOUR_LIST, 1.0))
    assert alone.remaining(NEIGHBOUR_LIST).epsilon == 0.0
    assert Ledger(LISTS).spend("graph", whole_graph()).spent(RELATIONSHIP).epsilon == 2.0  # of no budget: recorded
    assert Ledger(EDGES).spend("graph", whole_graph()).spent(NEIGHBOUR_LIST).epsilon == 1.0
    with pytest.raises(BudgetExceededError, match="has no budget; there are budgets per record$"):
        Ledger(1.0).spend("graph", whole_graph())


@pytest.mark.parametrize(("kept", "said"), [*itertools.permutations(range(len(UNITS)), 2)])
def test_every_pair_of_units(kept, said):
    """Where both have a budget, one goes alone only if it speaks of other data; without a budget, never."""
    free = {kept, said} & RECORDS_ALONE and {kept, said} & EDGES_ALONE
    both = Ledger([Budget(1.0, unit=UNITS[kept]), Budget(1.0, unit=UNITS[said])])
    if free:
        ledger = both.spend("x", per(UNITS[said]))
        assert (ledger.spent(UNITS[said]).epsilon, ledger.spent(UNITS[kept]).epsilon) == (0.5, 0.0)
    else:
        with pytest.raises(
            BudgetExceededError, match="does not say what it costs per .*pass one PipelineGuarantee"
        ):
            both.spend("x", per(UNITS[said]))
    together = PipelineGuarantee.of([per(UNITS[said]), per(UNITS[kept])], protected=["x"], unprotected=[])
    assert both.spend("x", together).spent(UNITS[kept]).epsilon == 0.5
    with pytest.raises(BudgetExceededError, match="which has no budget"):
        Ledger(Budget(1.0, unit=UNITS[kept])).spend("x", per(UNITS[said]))
    assert Ledger().spend("x", per(UNITS[said])).spent(UNITS[kept]).epsilon == 0.0  # a record only


def test_edges_that_have_a_budget_are_not_used_in_the_clear():
    ledger = Ledger([Budget(1.0), LISTS])
    with pytest.raises(
        BudgetExceededError, match="uses edges in the clear, and there is a budget per neighbour-list"
    ):
        ledger.spend("features", proved(0.5), protects=["features"], exposes=["edges"])
    embedding = PipelineGuarantee.of([proved(0.5)], protected=["features"], unprotected=["edges", "labels"])
    with pytest.raises(BudgetExceededError, match="do not name them among what it exposes"):
        ledger.spend("embedding", embedding)
    assert Ledger(1.0).spend("embedding", embedding).total() == embedding
    with pytest.raises(BudgetExceededError, match="does not say what it costs per neighbour-list"):
        ledger.spend("list as a record", proved(0.5), protects=["edges"])
    assert Ledger(1.0).spend("list as a record", proved(0.5), protects=["edges"]).spent(RECORD).epsilon == 0.5


def test_a_pipeline_says_its_own_fields():
    for protects in (["labels"], ["edges", "labels"]):
        with pytest.raises(ValueError, match="its guarantee protects edges, not"):
            Ledger().spend("graph", whole_graph(), protects=protects)
    with pytest.raises(ValueError, match="both protects and exposes edges"):
        Ledger().spend("graph", whole_graph(), exposes=["edges"])
    for extra in ({"delta": 1e-6}, {"unit": RECORD}, {"adjacency": "words"}):
        with pytest.raises(ValueError, match="a PipelineGuarantee says its own delta, unit and adjacency"):
            Ledger().spend("graph", whole_graph(), **extra)
    with pytest.raises(ValueError, match="a PipelineGuarantee of no unit"):
        Ledger().spend("nothing", PipelineGuarantee(()))


def test_only_a_budget_is_a_budget(untyped):
    assert Ledger(1.0).budgets == Ledger(1).budgets == Ledger(np.float32(1.0)).budgets == (Budget(1.0),)
    assert Ledger(()).budgets == Ledger([]).budgets == Ledger().budgets == ()
    for promise in (Guarantee(1.0), proved(1.0), [proved(1.0)], whole_graph(), GaussianCurve(1.0)):
        with pytest.raises(ValueError, match=r"must be a Budget, got a \w+.*write Budget"):
            Ledger(promise)
    for bad in ("1.0", True, math.nan, -1.0, 10**400, 1j, [None], object()):
        with pytest.raises(ValueError, match="budget's epsilon per record must be"):
            Ledger(bad)
    for bad in (1.0, None, "x", Budget(1.0)):
        with pytest.raises(ValueError, match="must cost a Guarantee, a PipelineGuarantee or a GaussianCurve"):
            Ledger().spend("x", bad)
    for bad in ("", " ", None, 3):
        with pytest.raises(ValueError, match="name must say"):
            Ledger().spend(bad, Guarantee(1.0))


def test_what_was_not_proved_says_so():
    with pytest.raises(BudgetExceededError, match="proves nothing about record.*: no proof was given"):
        Ledger(1.0).spend("x", Guarantee(0.1))


# --- sums that are never below the truth -------------------------------------------------------------------------

MANY = st.lists(st.tuples(EPSILONS, DELTAS), min_size=1, max_size=4)


def least_at_or_above(value, exact):
    return Fraction(value) >= exact and (value == 0.0 or Fraction(math.nextafter(value, 0.0)) < exact)


@given(MANY, st.integers(1, 40))
def test_every_sum_of_losses_is_rounded_up(pairs, k):
    exact = sum((Fraction(epsilon) for epsilon, _ in pairs), Fraction(0))
    lists = [Guarantee(epsilon, unit=NEIGHBOUR_LIST) for epsilon, _ in pairs]
    units = [Guarantee(epsilon, unit=Unit(f"unit {i}"), adjacency="two") for i, (epsilon, _) in enumerate(pairs)]
    assert least_at_or_above(accounting.sequential(*lists).epsilon, exact)
    assert least_at_or_above(accounting.joint(*units, adjacency="both").epsilon, exact)
    first = lists[0]
    assert least_at_or_above(accounting.whole_list(first, k).epsilon, k * Fraction(first.epsilon))
    assert least_at_or_above(accounting.sampled(first, k, 40).epsilon, k * Fraction(first.epsilon))
    ends = accounting.relationship(first, lists[-1])
    assert least_at_or_above(ends.epsilon, Fraction(first.epsilon) + Fraction(lists[-1].epsilon))
    ledger = Ledger()
    for guarantee in lists:
        ledger = ledger.spend("list", guarantee)
    assert least_at_or_above(ledger.spent(NEIGHBOUR_LIST).epsilon, exact)
    totals = accounting.per_user(np.array([[epsilon] for epsilon, _ in pairs]), releases=k).totals
    assert k * exact <= Fraction(totals[0]) <= k * exact * (1 + Fraction(16, 2**52))
    basic = accounting.advanced(first, k, 0.0).epsilon
    assert least_at_or_above(basic, k * Fraction(first.epsilon))


@given(MANY, st.integers(1, 30))
def test_chained_deltas_are_rounded_up(pairs, k):
    """Against 60 digits of the sums as they are written; and no more than 1e-15 of it above."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        (epsilon, delta), size = pairs[0], mpmath.mpf(1)
        exact = min(size, mpmath.mpf(delta) * mpmath.fsum(mpmath.exp(i * mpmath.mpf(epsilon)) for i in range(k)))
        found = accounting.whole_list(Guarantee(epsilon, delta, unit=NEIGHBOUR_LIST), k).delta
        assert exact <= found <= exact * (1 + mpmath.mpf(1e-15)) + 5e-324
        units = [Guarantee(*pair, unit=Unit(f"unit {i}"), adjacency="two") for i, pair in enumerate(pairs)]

        def chained(order):
            total, before = mpmath.mpf(0), mpmath.mpf(0)
            for part in order:
                total += mpmath.exp(before) * part.delta
                before += part.epsilon
            return min(size, total)

        best = min(map(chained, itertools.permutations([unit for unit in units if unit.delta > 0.0])))
        joint = accounting.joint(*units, adjacency="both").delta
        assert best * (1 - mpmath.mpf(1e-40)) <= joint <= best * (1 + mpmath.mpf(1e-12)) + 5e-324


def test_many_units_are_joined_at_once():
    """Sixty parts have more orders than can be tried."""
    parts = [Guarantee(0.01, 1e-6, Unit(f"unit {i}"), "two") for i in range(60)]
    total = accounting.joint(*parts, adjacency="all")
    assert total.delta == pytest.approx(1e-6 * math.expm1(0.6) / math.expm1(0.01), rel=1e-12)
    assert accounting.joint(Guarantee(math.inf, 0.5), parts[0], adjacency="both").delta == pytest.approx(
        1e-6 + math.exp(0.01) * 0.5
    )


@given(st.lists(st.floats(1e-100, 1e100), min_size=1, max_size=5), st.integers(1, 1000))
@example([0.1, 0.2], 1)
@example([3.0, 4.0], 1)
def test_curves_are_rounded_up(mus, times):
    curves = [GaussianCurve(mu) for mu in mus]
    for found, square in (
        (curves[0].compose(*curves[1:]).mu, sum((Fraction(mu) ** 2 for mu in mus), Fraction(0))),
        (curves[0].repeated(times).mu, times * Fraction(mus[0]) ** 2),
    ):
        assert Fraction(found) ** 2 >= square > Fraction(math.nextafter(found, 0.0)) ** 2
    assert least_at_or_above(GaussianCurve.of(mus[0], float(times)).mu, Fraction(mus[0]) / times)


@given(st.floats(1e-3, 50.0), st.floats(1e-3, 1e3))
def test_the_noise_that_is_given_out_is_enough_exactly(epsilon, sensitivity):
    mu, sigma = accounting.gaussian_mu(epsilon, 1e-6), accounting.gaussian_sigma(epsilon, 1e-6, sensitivity)
    assert Fraction(sensitivity) <= Fraction(sigma) * Fraction(mu)


@given(st.floats(0.0, 5.0), st.lists(SMALL, max_size=5))
def test_what_remains_is_rounded_down(limit, losses):
    ledger = Ledger(limit)
    for loss in losses:
        with contextlib.suppress(BudgetExceededError):
            ledger = ledger.spend("x", proved(loss))
    left = Fraction(ledger.remaining(RECORD).epsilon)
    assert left == 0 or left + Fraction(ledger.spent(RECORD).epsilon) <= Fraction(limit)


def test_numbers_of_personal_budgets_prove_nothing():
    assert accounting.per_user([1.0, 2.0]).guarantee.status == "none"
    guarantee = accounting.per_user([0.5, 1.0], status="proved", reason="a proof").guarantee
    assert (guarantee.status, guarantee.reason) == ("proved", "a proof")
    with pytest.raises(ValueError, match="reason must say"):
        accounting.per_user([0.5, 1.0], status="proved")


HUGE = 10**400


def test_numbers_beyond_float64_are_a_clear_error(untyped):
    for call in (
        lambda: GaussianCurve(HUGE),
        lambda: GaussianCurve.of(HUGE, 1.0),
        lambda: GaussianCurve.of(1.0, 5e-324),
        lambda: GaussianCurve(1.0).repeated(HUGE**2),
        lambda: GaussianCurve(1e300).compose(GaussianCurve(1e300)),
        lambda: accounting.gaussian_sigma(HUGE, 1e-6),
        lambda: accounting.gaussian_sigma(1.0, 1e-300, 1e308) and accounting.gaussian_sigma(1e-9, 1e-300, 1e308),
        lambda: accounting.advanced(Guarantee(1.0), HUGE, 0.1),
        lambda: accounting.advanced(Guarantee(1.0), 10**12, 0.1),  # would fill the memory
        lambda: accounting.sampled(Guarantee(1.0), HUGE, 3),
    ):
        with pytest.raises(ValueError, match=r"(mu|sensitivity|sensitivity / mu|epsilon|times|k) must be"):
            call()
    assert accounting.whole_list(Guarantee(1.0, 1e-6, unit=NEIGHBOUR_LIST), HUGE).epsilon == math.inf
    for bad in ("1", b"1", True, None, 1j, [True], [1, "2"], HUGE):
        with pytest.raises(ValueError, match="epsilon must be"):
            GaussianCurve(1.0).delta(bad)
    with pytest.raises(ValueError, match="mu must be a number"):
        GaussianCurve(b"1")
    assert math.copysign(1.0, GaussianCurve(-0.0).mu) == 1.0
