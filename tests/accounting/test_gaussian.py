"""Curves of Gaussian noise, against quadrature, many digits and dp_accounting."""

import itertools
import math
import warnings
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given
from scipy import integrate

from ldp_jax.accounting import gaussian
from ldp_jax.accounting.gaussian import GaussianCurve
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RECORD, Guarantee, metric
from tests.accounting.parts import least_at_or_above

MUS = (1e-3, 0.3, 0.999, 1.0, 2.0, 20.0)


def test_delta_is_the_hockey_stick_of_two_gaussians():
    """Quadrature of max(0, phi(x - mu) - e^eps phi(x)), which starts where the loss reaches
    epsilon.
    """
    epsilons = (0.0, 0.01, 0.6, 1.0, 2.3, 10.0, 60.0)  # of 0.6 and 2.3 the tail begins near 0
    for mu, epsilon in itertools.product(MUS, epsilons):
        start = epsilon / mu + mu / 2.0
        if start - mu > 30.0:
            continue

        def gap(x, mu=mu, epsilon=epsilon):
            return (math.exp(-((x - mu) ** 2) / 2) - math.exp(epsilon - x**2 / 2)) / math.sqrt(
                2 * math.pi
            )

        points = np.linspace(start, max(start, mu) + 12.0, 30)
        oracle = sum(integrate.quad(gap, a, b, epsabs=0)[0] for a, b in itertools.pairwise(points))
        assert GaussianCurve(mu).delta(epsilon) == pytest.approx(oracle, rel=1e-9)


def test_delta_in_many_digits():
    """Theorem 8 as printed, in 400 digits."""
    mpmath = pytest.importorskip("mpmath")
    losses = (0.0, 1e-12, 1e-6, 1e-3, 0.1, 1.0, 5.0, 50.0, 100.0, 500.0, 5000.0)
    with mpmath.workdps(400):
        for mu, epsilon in itertools.product((1e-8, 0.1, 0.99, 1.0, 1.5, 100.0), losses):
            m = mpmath.mpf(mu)
            e = mpmath.mpf(epsilon)
            oracle = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
            found = GaussianCurve(mu).delta(epsilon)
            assert abs(found / oracle - 1) < 5e-13 if oracle > 1e-290 else found <= 1e-289


def test_delta_takes_arrays_and_extremes():
    epsilon = np.array([[0.0, 1.0, 500.0], [1e9, math.inf, 1e-300]])
    for mu in (0.0, 1e-300, 1e-9, 0.5, 1.0, 3.0, 1e5, 1e200):
        curve = GaussianCurve(mu)
        delta = curve.delta(epsilon)
        assert delta.shape == (2, 3)
        assert delta.dtype == np.float64
        assert ((delta >= 0.0) & (delta <= 1.0)).all()
        assert curve.delta(np.array(1.0)).shape == ()
        # Sums of other shapes: a last digit may differ.
        alone = [curve.delta(float(e)) for e in epsilon.ravel()]
        np.testing.assert_allclose(delta.ravel(), alone, rtol=1e-12, atol=0.0)
    assert GaussianCurve(0.0).epsilon(1e-9) == 0.0
    assert GaussianCurve(1e200).epsilon(1e-9) == math.inf
    line = GaussianCurve(1.3).delta(np.linspace(0.0, 40.0, 4001))
    assert (np.diff(line) < 0.0).all()


def test_delta_agrees_with_dp_accounting():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("dp_accounting", exc_type=ImportError)
        from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

        made = [from_gaussian_mechanism(s, value_discretization_interval=1e-3) for s in (2.0, 0.8)]
        composed = made[0].self_compose(4).compose(made[1])
        curve = GaussianCurve(0.5).repeated(4) + GaussianCurve(1.25)
        for epsilon in (0.5, 1.0, 4.0):
            theirs = composed.get_delta_for_epsilon(epsilon)  # rounded up on their grid
            assert curve.delta(epsilon) <= theirs * (1 + 1e-9) + 1e-12
            assert curve.delta(epsilon) == pytest.approx(theirs, rel=2e-2, abs=1e-9)


def test_epsilon_inverts_delta_on_the_safe_side():
    for mu, delta in itertools.product(MUS, (1e-300, 1e-6, 0.9)):
        curve = GaussianCurve(mu)
        epsilon = curve.epsilon(delta)
        assert curve.delta(epsilon) <= delta
        if epsilon > 0.0:
            assert curve.delta(epsilon * (1.0 - 1e-8)) > delta * (1.0 - 1e-11)
            assert curve.delta(epsilon * (1.0 - 1e-4)) > delta


def test_calibration_round_trip():
    """The noise is enough, and 1e-6 less is not; 1e-11 less is not either, up to the 1e-12 kept for
    rounding.
    """
    for epsilon, delta, sensitivity in itertools.product(
        (0.0, 1e-3, 0.5, 50.0), (1e-12, 1e-5, 0.1), (1.0, 3.7e-4, 250.0)
    ):
        sigma = gaussian.gaussian_sigma(epsilon, delta, sensitivity)
        assert sensitivity / sigma <= gaussian.gaussian_mu(epsilon, delta)
        assert GaussianCurve.of(sensitivity, sigma).delta(epsilon) <= delta
        assert GaussianCurve.of(sensitivity, sigma * (1.0 - 1e-6)).delta(epsilon) > delta
        assert GaussianCurve.of(sensitivity, sigma * (1.0 - 1e-11)).delta(epsilon) > delta
        assert GaussianCurve.of(sensitivity, sigma).epsilon(delta) == pytest.approx(
            epsilon, rel=1e-8, abs=1e-11
        )


def test_a_curve_as_a_guarantee():
    curve = GaussianCurve.of(1.0, 2.0)
    guarantee = curve.guarantee(1e-6)
    assert (guarantee.epsilon, guarantee.delta) == (curve.epsilon(1e-6), 1e-6)
    assert (guarantee.unit, guarantee.status, guarantee.arithmetic) == (RECORD, "proved", "ideal")
    assert curve.guarantee(1e-6, NEIGHBOUR_LIST).adjacency.endswith("one bit")
    assert curve.guarantee(1e-6, metric(2.0), "two points").adjacency == "two points"


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
    mu = gaussian.gaussian_mu(epsilon, 1e-6)
    sigma = gaussian.gaussian_sigma(epsilon, 1e-6, sensitivity)
    assert Fraction(sensitivity) <= Fraction(sigma) * Fraction(mu)


def test_what_is_beyond_float64_is_infinite_and_minus_zero_is_zero():
    assert Guarantee(1.0, 1e-6).repeated(10**400).epsilon == math.inf
    assert math.copysign(1.0, GaussianCurve(-0.0).mu) == 1.0
