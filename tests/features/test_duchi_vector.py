"""The hypercube mechanism against enumeration of its 2^d x 2^d table; the rest is in the contract suite."""

import itertools
import math
from fractions import Fraction
from functools import partial

import jax
import numpy as np
import pytest

from ldp_jax.core import random_words
from ldp_jax.features import Duchi
from ldp_jax.features.duchi_vector import DuchiVector, _constants
from tests import stats

densities = jax.jit(jax.vmap(lambda m, y, x: m.log_density(y, x), in_axes=(None, 0, None)))
pairwise = jax.jit(
    jax.vmap(jax.vmap(lambda m, y, x: m.log_density(y, x), in_axes=(None, 0, None)), in_axes=(None, None, 0))
)
draw = jax.jit(jax.vmap(lambda m, key, x: m.privatize(key, x), in_axes=(None, 0, None)))


def signs(dim):
    """All vectors of signs, in the order of their binary code (1 for +1, the first coordinate first)."""
    return np.array(list(itertools.product((-1.0, 1.0), repeat=dim)))


def table(epsilon, x, *, ties_in_both=False):
    """P(s | x) of every s by summing over every v: the definition, with no Poisson-binomial in it."""
    corners = signs(len(x))
    to_corner = np.prod((1 + corners * x) / 2, 1)
    dot = corners @ corners.T
    if ties_in_both:  # e^eps/(1 + e^eps) to the closed half-space of v, the rest to the other, also closed
        closed = (dot[0] >= 0).sum()
        odds = np.exp(epsilon)
        return to_corner @ ((odds * (dot >= 0) + (dot <= 0)) / (1 + odds) / closed)
    weight = np.where(dot > 0, np.exp(epsilon), 1.0)
    return to_corner @ (weight / weight.sum(1, keepdims=True))


def record(dim):
    return np.resize(np.array([0.25, -0.75, 1.0, 0.5, -0.125], np.float32), dim)


@pytest.mark.parametrize(("dim", "epsilon"), [(1, 1.0), (2, 8.0), (3, 0.01), (4, 1.0), (5, 8.0), (6, 1.0)])
def test_density_and_moments_are_those_of_the_enumerated_table(dim, epsilon):
    """float64; the smallest defect is 1e-9 of a probability, a mean or a variance."""
    with jax.enable_x64(True):
        m, corners = DuchiVector(epsilon, dim), signs(dim)
        for x in (record(dim).astype(float), np.zeros(dim), np.ones(dim)):
            mass = np.exp(np.asarray(densities(m, corners, x)))
            np.testing.assert_allclose(mass, table(epsilon, x), rtol=1e-9)
            np.testing.assert_allclose(mass.sum(), 1.0, rtol=1e-12)
            estimates = np.asarray(m.estimate(corners))
            mean = mass @ estimates
            np.testing.assert_allclose(mean, x, atol=1e-9 * np.abs(estimates).max())
            np.testing.assert_allclose(m.mean(x), x, rtol=0)
            np.testing.assert_allclose(m.variance(x), mass @ estimates**2 - x**2, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("dim", "epsilon"), [(2, 0.1), (3, 5.0), (4, 1.0), (5, 1.0)])
def test_largest_loss_is_epsilon(dim, epsilon):
    """Over all reports and all records in {-1, 0, 1}^d, float64. By symmetry one report would do; all are taken."""
    with jax.enable_x64(True):
        grid = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=dim)))
        logs = np.asarray(pairwise(DuchiVector(epsilon, dim), signs(dim), grid))
    np.testing.assert_allclose((logs.max(0) - logs.min(0)).max(), epsilon, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("dim", "loss"), [(3, 1.0), (4, math.log1p(math.e))])
def test_ties_in_both_half_spaces_lose_more_than_epsilon(dim, loss):
    """The form first published, by enumeration at epsilon 1: odd d has no ties and loses eps."""
    masses = np.array([table(1.0, corner, ties_in_both=True) for corner in signs(dim)])
    np.testing.assert_allclose(np.log(masses.max(0) / masses.min(0)).max(), loss, atol=1e-12)


def test_one_coordinate_is_duchi():
    m, one = DuchiVector(1.3, 1), Duchi(1.3)
    for x in np.float32([-1.0, -0.3, 0.0, 0.8]):
        for y in (-1.0, 1.0, 0.5):
            np.testing.assert_allclose(m.log_density(np.array([y]), x[None]), one.log_density(y, x), rtol=1e-6)
        np.testing.assert_allclose(m.variance(x), one.variance(x), rtol=1e-6)
    np.testing.assert_allclose(m.estimate(1.0), one.estimate(1.0), rtol=1e-6)


@pytest.mark.parametrize("dim", [3, 4])
def test_draws_fit_the_density(dim):
    """G test over all 2^d reports, 100 000 draws: detects a total variation of 0.013 (16 cells)."""
    x, code = record(dim), 1 << np.arange(dim)[::-1]
    y = np.asarray(draw(DuchiVector(1.0, dim), jax.random.split(jax.random.key(dim), 100_000), x))
    assert y.dtype == np.float32
    stats.assert_g(np.bincount((y > 0) @ code, minlength=2**dim), table(1.0, x.astype(float)))


@pytest.mark.parametrize("dim", [100, 101])
def test_moments_of_a_wide_record(dim):
    """Means within five standard errors, all d of them; detects an estimate off by 10 standard errors (0.3)."""
    m, n = DuchiVector(2.0, dim), 20_000
    x = np.linspace(-1, 1, dim, dtype=np.float32)
    values = np.asarray(m.estimate(draw(m, jax.random.split(jax.random.key(5), n), x)), np.float64)
    variance = np.asarray(m.variance(x), np.float64)
    # A sign times B: its square is constant, so the fourth central moment follows from the mean.
    gain = float(np.abs(values).max())
    p = (1 + x / gain) / 2
    fourth = p * (gain - x) ** 4 + (1 - p) * (gain + x) ** 4
    stats.assert_moments(values, x, variance, fourth, rounding=1e-3)
    # The number of agreements with the record: all coordinates together.
    corner = np.where(np.arange(dim) % 3 == 0, 1.0, -1.0).astype(np.float32)
    y = np.asarray(draw(m, jax.random.split(jax.random.key(6), n), corner))
    above = ((y * corner).sum(1) > 0).sum()
    share = (2**dim - (math.comb(dim, dim // 2) if dim % 2 == 0 else 0)) / 2 ** (dim + 1)
    stats.assert_share(above, n, share * math.exp(2.0) / (1 + share * math.expm1(2.0)))


def test_density_of_a_wide_record_is_exact_in_the_tails():
    """float32 against float64; at the two ends the masses are 0 and 1. Smallest defect: 4e-7 of d log 2."""
    dim = 500
    y = np.where(np.arange(dim) % 2 == 0, 1.0, -1.0).astype(np.float32)
    records = np.stack([y, -y, 0.9 * y, -0.9 * y, 0.3 * y, -0.1 * y, 0 * y])
    evaluate = jax.jit(jax.vmap(lambda m, y, x: m.log_density(y, x), in_axes=(None, None, 0)))
    for epsilon in (1e-8, 1.0, 88.0, 100.0):
        single = np.asarray(evaluate(DuchiVector(epsilon, dim), y, records), np.float64)
        with jax.enable_x64(True):
            exact = np.asarray(evaluate(DuchiVector(epsilon, dim), y.astype(float), records.astype(float)))
        np.testing.assert_allclose(single, exact, rtol=4e-7)
        np.testing.assert_allclose(exact[0] - exact[1], epsilon, rtol=1e-9, atol=1e-12)


def test_a_tail_that_float32_cannot_hold_still_counts():
    """P(A > d/2) = 1e-41 times e^100 is not small: the tail is carried scaled."""
    m, y = DuchiVector(100.0, 60), np.ones(60, np.float32)
    x = np.float32(-0.9) * y
    with jax.enable_x64(True):
        exact = float(m.log_density(y.astype(float), x.astype(float)))
        opposite = float(m.log_density(y.astype(float), -y.astype(float)))
    assert exact - opposite > 1.0
    np.testing.assert_allclose(m.log_density(y, x), exact, rtol=1e-6)


def test_what_is_no_vector_of_signs_is_impossible():
    m, x = DuchiVector(1.0, 3), np.zeros(3, np.float32)
    for y in ([1.0, -1.0, 0.0], [1.0, -1.0, np.nan], [2.0, 1.0, 1.0]):
        assert np.isneginf(m.log_density(np.float32(y), x))


@jax.jit
def density_and_slopes(epsilon, x, y):
    """log p(y | x) with its slope in epsilon, and its gradient in x."""
    density = lambda epsilon, x: DuchiVector(epsilon, len(y)).log_density(y, x)
    return jax.value_and_grad(density)(epsilon, x), jax.grad(density, 1)(epsilon, x)


@partial(jax.jit, static_argnums=1)
def variance_and_slopes(epsilon, dim):
    spread, slope = jax.value_and_grad(lambda e: DuchiVector(e, dim).variance(0.5))(epsilon)
    return spread, slope, jax.grad(lambda e: DuchiVector(e, dim).estimate(1.0))(epsilon)


@pytest.mark.parametrize(("dim", "epsilon"), [(1, 1.0), (5, 1e-8), (64, 88.0)])
def test_everything_is_finite(epsilon, dim):
    """Values and gradients in epsilon, of the density at corners, of the variance and of the estimate."""
    y = np.ones(dim, np.float32)
    for x in (y, -y, 0 * y):
        assert np.isfinite(density_and_slopes(epsilon, x, y)[0]).all()
    assert np.isfinite(density_and_slopes(epsilon, -y, y)[1]).all()
    spread, slope, of_estimate = variance_and_slopes(epsilon, dim)
    assert np.isfinite(spread)
    if epsilon > 1e-6:  # below, the slope of 1/epsilon^2 is 1e24 and more: finite, but tells nothing
        assert np.isfinite(slope)
    assert np.isfinite(of_estimate)


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 60])
def test_the_mixture_that_is_drawn_keeps_epsilon(dim):
    """P(s on the record's side) / P(s beyond) of the 64-bit threshold itself: at most epsilon to 1e-6 of it.

    Reached to 1e-3 below epsilon 35; at 100 no report is impossible, and the loss is below that of one word.
    """
    for epsilon in (1e-6, 0.1, 1.0, 16.64, 17.0, 30.0, 35.0, 60.0, 100.0):
        m = DuchiVector(epsilon, dim)
        whole, rest = (np.float32(value) for value in m._whole_cube())
        rarer = random_words.threshold(min(whole, rest)).tolist()
        mass = rarer[0] * 2**32 + rarer[1]
        anywhere = mass if whole <= 0.5 else 2**64 - mass
        assert 0 < anywhere < 2**64
        share = Fraction(_constants(dim).share)
        loss = math.log1p(Fraction(2**64 - anywhere, anywhere) / share)
        assert loss <= epsilon * (1 + 1e-6)
        assert loss >= min(epsilon * (1 - 1e-3), 44.0)


def test_ties_are_drawn_once_more():
    """At a large epsilon nothing but the open half-space is drawn, each vector alike; 50 000 draws."""
    dim = 4
    keys = jax.random.split(jax.random.key(20), 50_000)
    y = np.asarray(draw(DuchiVector(90.0, dim), keys, np.ones(dim, np.float32)))
    dot = y.sum(1)
    assert (dot > 0).all()
    counts = np.bincount(((y > 0) @ (1 << np.arange(dim))).astype(int), minlength=2**dim)
    possible = signs(dim).sum(1) > 0
    assert _constants(dim).candidates > 1
    stats.assert_g(counts[counts > 0], np.full(possible.sum(), 1 / possible.sum()))


@pytest.mark.parametrize("dim", [32, 33, 65])
def test_every_sign_of_a_packed_record_is_used(dim):
    """Words are cut at 32 signs: means of all coordinates, and no coordinate twice; 20 000 draws, 5 sigma."""
    x = np.where(np.arange(dim) % 2 == 0, 1.0, -1.0).astype(np.float32)
    m = DuchiVector(3.0, dim)
    y = np.asarray(draw(m, jax.random.split(jax.random.key(21), 20_000), x), np.float64)
    gain = float(m.estimate(1.0))
    np.testing.assert_allclose(y.mean(0), x / gain, atol=5 / np.sqrt(20_000))
    pairs = (y.T @ y) / len(y) - np.eye(dim)
    assert np.abs(pairs).max() < 0.5
