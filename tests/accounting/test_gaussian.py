"""Curves of Gaussian noise, against quadrature, many digits and dp_accounting."""

import itertools
import math
import warnings
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given
from scipy import integrate, stats

from ldp_jax.accounting import composition, gaussian
from ldp_jax.accounting.gaussian import GaussianCurve
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RECORD, Guarantee, metric
from ldp_jax.accounting.ledger import Ledger


@pytest.fixture(scope="module")
def pld():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("dp_accounting", exc_type=ImportError)
        from dp_accounting.pld import privacy_loss_distribution, privacy_loss_mechanism
    return privacy_loss_mechanism, privacy_loss_distribution


def proved(epsilon, delta=0.0, **more):
    return Guarantee(epsilon, delta, status="proved", reason="a proof", **more)


def least_at_or_above(value, exact):
    return Fraction(value) >= exact and (value == 0.0 or Fraction(math.nextafter(value, 0.0)) < exact)


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
        sigma = gaussian.gaussian_sigma(epsilon, delta, sensitivity)
        assert sensitivity / sigma <= gaussian.gaussian_mu(epsilon, delta)
        assert GaussianCurve.of(sensitivity, sigma).delta(epsilon) <= delta
        assert GaussianCurve.of(sensitivity, sigma * (1.0 - 1e-6)).delta(epsilon) > delta
        assert GaussianCurve.of(sensitivity, sigma * (1.0 - 1e-11)).delta(epsilon) > delta
        assert GaussianCurve.of(sensitivity, sigma).epsilon(delta) == pytest.approx(epsilon, rel=1e-8, abs=1e-11)


@given(st.floats(1e-3, 50.0), st.floats(-12.0, -1.0))
def test_calibration_anywhere(epsilon, exponent):
    delta = 10.0**exponent
    mu = gaussian.gaussian_mu(epsilon, delta)
    assert GaussianCurve(mu).delta(epsilon) <= delta < GaussianCurve(mu * (1.0 + 1e-6)).delta(epsilon)


def test_the_classic_calibration_wastes_noise_and_then_breaks_its_promise():
    """sqrt(2 ln(1.25 / delta)) / eps: proved for eps < 1, where it is too much; from 6.8 to 9.7 on, too little."""

    def classic(epsilon, delta):
        return math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon

    for delta in (1e-9, 1e-5, 1e-2):
        for epsilon in (0.01, 0.1, 0.5, 0.99, 3.0):
            assert classic(epsilon, delta) > gaussian.gaussian_sigma(epsilon, delta)
        for epsilon in (11.0, 15.0, 30.0):
            assert classic(epsilon, delta) < gaussian.gaussian_sigma(epsilon, delta)
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

    grid = np.linspace(-9.0, 11.0, 1001)
    x, y = np.meshgrid(grid, grid)
    p = stats.norm.pdf(x - first) * stats.norm.pdf(y - second)
    oracle = np.maximum(p - math.exp(epsilon) * stats.norm.pdf(x) * stats.norm.pdf(y), 0.0).sum() * 0.02**2
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


CALLS = {
    "mu": lambda bad: GaussianCurve(bad),
    "sensitivity of": lambda bad: GaussianCurve.of(bad, 1.0),
    "sigma": lambda bad: GaussianCurve.of(1.0, bad),
    "delta": lambda bad: GaussianCurve(1.0).epsilon(bad),
    "delta of guarantee": lambda bad: GaussianCurve(1.0).guarantee(bad),
    "times": lambda bad: GaussianCurve(1.0).repeated(bad),
    "epsilon": lambda bad: gaussian.gaussian_sigma(bad, 1e-5),
    "delta of sigma": lambda bad: gaussian.gaussian_sigma(1.0, bad),
    "sensitivity": lambda bad: gaussian.gaussian_sigma(1.0, 1e-5, bad),
    "epsilon of mu": lambda bad: gaussian.gaussian_mu(bad, 1e-5),
    "epsilon of delta": lambda bad: GaussianCurve(1.0).delta(bad),
}
OUTSIDE = {
    "delta": (0.0, 1.0, 1.5),
    "delta of guarantee": (0.0, 1.0),
    "delta of sigma": (0.0, 1.0),
    "sigma": (0.0,),
    "sensitivity": (0.0,),
    "epsilon of mu": (1e10,),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_number_out_of_range_passes(name, untyped):
    word = name.split()[0].rstrip("s") if name != "times" else name
    for bad in (math.nan, -1.0, "1", True, None, *OUTSIDE.get(name, ())):
        with pytest.raises(ValueError, match=rf"{word}.* must be"):
            CALLS[name](bad)
    if not name.startswith("epsilon"):
        with pytest.raises(ValueError, match=rf"{word} must be"):
            CALLS[name](math.inf)
    with pytest.raises(ValueError, match="delta must be"):
        Ledger().spend("x", GaussianCurve(1.0), delta=math.nan)


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
    mu, sigma = gaussian.gaussian_mu(epsilon, 1e-6), gaussian.gaussian_sigma(epsilon, 1e-6, sensitivity)
    assert Fraction(sensitivity) <= Fraction(sigma) * Fraction(mu)


HUGE = 10**400


def test_numbers_beyond_float64_are_a_clear_error(untyped):
    for call in (
        lambda: GaussianCurve(HUGE),
        lambda: GaussianCurve.of(HUGE, 1.0),
        lambda: GaussianCurve.of(1.0, 5e-324),
        lambda: GaussianCurve(1.0).repeated(HUGE**2),
        lambda: GaussianCurve(1e300).compose(GaussianCurve(1e300)),
        lambda: gaussian.gaussian_sigma(HUGE, 1e-6),
        lambda: gaussian.gaussian_sigma(1.0, 1e-300, 1e308) and gaussian.gaussian_sigma(1e-9, 1e-300, 1e308),
        lambda: composition.advanced(Guarantee(1.0), HUGE, 0.1),
        lambda: composition.advanced(Guarantee(1.0), 10**12, 0.1),  # would fill the memory
        lambda: composition.sampled(Guarantee(1.0), HUGE, 3),
    ):
        with pytest.raises(ValueError, match=r"(mu|sensitivity|sensitivity / mu|epsilon|times|k) must be"):
            call()
    assert composition.whole_list(Guarantee(1.0, 1e-6, unit=NEIGHBOUR_LIST), HUGE).epsilon == math.inf
    for bad in ("1", b"1", True, None, 1j, [True], [1, "2"], HUGE):
        with pytest.raises(ValueError, match="epsilon must be"):
            GaussianCurve(1.0).delta(bad)
    with pytest.raises(ValueError, match="mu must be a number"):
        GaussianCurve(b"1")
    assert math.copysign(1.0, GaussianCurve(-0.0).mu) == 1.0
