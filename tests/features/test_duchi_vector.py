"""The hypercube mechanism against enumeration of its 2^d x 2^d table; the rest is in the contract
suite.
"""

import itertools
import math
from fractions import Fraction

import jax
import numpy as np
import pytest

from ldp_jax import verification
from ldp_jax.core import random_words
from ldp_jax.features.duchi import against_threshold
from ldp_jax.features.duchi_vector import DuchiVector, _constants
from tests import stats
from tests.contract.checks import assert_fits

densities = jax.jit(jax.vmap(lambda m, y, x: m.log_density(y, x), in_axes=(None, 0, None)))
draw = jax.jit(jax.vmap(lambda m, key, x: m.privatize(key, x), in_axes=(None, 0, None)))


def signs(dim):
    """All vectors of signs, in the order of their binary code (1 for +1, the first coordinate
    first).
    """
    return np.array(list(itertools.product((-1.0, 1.0), repeat=dim)))


def table(epsilon, x):
    """P(s | x) of every s by summing over every v: the definition, with no Poisson-binomial in
    it.
    """
    corners = signs(len(x))
    to_corner = np.prod((1 + corners * x) / 2, 1)
    weight = np.where(corners @ corners.T > 0, np.exp(epsilon), 1.0)
    return to_corner @ (weight / weight.sum(1, keepdims=True))


def record(dim):
    return np.resize(np.array([0.25, -0.75, 1.0, 0.5, -0.125], np.float32), dim)


@pytest.mark.parametrize(("dim", "epsilon"), [(1, 1.0), (4, 0.01)])
def test_density_and_moments_are_those_of_the_enumerated_table(dim, epsilon):
    """float64; the smallest defect is 1e-9 of a probability, a mean or a variance."""
    with jax.enable_x64(True):
        m = DuchiVector(epsilon, dim)
        corners = signs(dim)
        corner, _ = m.critical_points()
        np.testing.assert_array_equal((corner > 0).sum(1), np.arange(dim + 1))
        np.testing.assert_array_equal(np.abs(corner), 1.0)
        beyond = np.array([3.0, -2.0, np.nan, 0.5])[:dim]
        inside = np.array([1.0, -1.0, 0.0, 0.5])[:dim]
        for moment in (m.mean, m.variance, lambda x: densities(m, corners, x)):
            np.testing.assert_array_equal(moment(beyond), moment(inside))
        np.testing.assert_array_equal(m.mean(beyond), inside)
        for x in (record(dim).astype(float), np.zeros(dim), np.ones(dim)):
            mass = np.exp(np.asarray(densities(m, corners, x)))
            np.testing.assert_allclose(mass, table(epsilon, x), rtol=1e-9)
            np.testing.assert_allclose(mass.sum(), 1.0, rtol=1e-12)
            estimates = np.asarray(m.estimate(corners))
            mean = mass @ estimates
            np.testing.assert_allclose(mean, x, atol=1e-9 * np.abs(estimates).max())
            np.testing.assert_allclose(m.mean(x), x, rtol=0)
            variance = mass @ estimates**2 - x**2
            np.testing.assert_allclose(m.variance(x), variance, rtol=1e-9, atol=1e-9)


def test_ties_are_drawn_once_more():
    """At epsilon 90 ties are drawn once more: nothing but the open half-space, each vector alike.

    G test of 100 000 draws: detects a total variation of 0.013. No other vector than one of signs
    is possible.
    """
    dim = 4
    keys = jax.random.split(jax.random.key(4), 100_000)
    y = np.asarray(draw(DuchiVector(90.0, dim), keys, np.ones(dim, np.float32)))
    found, counts = np.unique(y, axis=0, return_counts=True)
    possible = signs(dim)[signs(dim).sum(1) > 0]
    np.testing.assert_array_equal(found, possible)
    stats.assert_g(counts, np.full(len(possible), 1 / len(possible)))
    bad = np.float32([[1.0, -1.0, 0.0, 1.0], [1.0, -1.0, np.nan, 1.0], [2.0, 1.0, 1.0, 1.0]])
    assert np.isneginf(densities(DuchiVector(1.0, dim), bad, record(dim))).all()


@pytest.mark.parametrize("dim", [100, 101])
def test_moments_of_a_wide_record(dim):
    """Means within five standard errors, all d of them; detects an estimate off by 10 standard
    errors (0.3).
    """
    m = DuchiVector(2.0, dim)
    n = 20_000
    x = np.linspace(-1, 1, dim, dtype=np.float32)
    np.testing.assert_array_equal(m.mean(x), x)
    assert_fits(verification.draws_have_moments(m, jax.random.key(5), x, trials=n))
    # The number of agreements with the record: all coordinates together.
    corner = np.where(np.arange(dim) % 3 == 0, 1.0, -1.0).astype(np.float32)
    y = np.asarray(draw(m, jax.random.split(jax.random.key(6), n), corner))
    above = ((y * corner).sum(1) > 0).sum()
    share = (2**dim - (math.comb(dim, dim // 2) if dim % 2 == 0 else 0)) / 2 ** (dim + 1)
    stats.assert_share(above, n, share * math.exp(2.0) / (1 + share * math.expm1(2.0)))


def test_density_of_a_wide_record_is_exact_in_the_tails():
    """float32 against float64; at the two ends the masses are 0 and 1. Smallest defect: 4e-7 of d
    log 2.
    """
    dim = 500
    y = np.where(np.arange(dim) % 2 == 0, 1.0, -1.0).astype(np.float32)
    records = np.float32([1.0, -1.0, 0.9, -0.9, 0.3, -0.1, 0.0])[:, None] * y
    evaluate = jax.jit(jax.vmap(lambda m, y, x: m.log_density(y, x), in_axes=(None, None, 0)))

    def both(epsilon, y, x):
        m = DuchiVector(epsilon, len(y))
        single = np.asarray(evaluate(m, y, x), np.float64)
        with jax.enable_x64(True):
            return single, np.asarray(evaluate(m, y.astype(float), x.astype(float)))

    ones = np.ones(60, np.float32)
    far = np.stack([-0.9 * ones, -ones])  # P(A > d/2) = 1e-41 times e^100 is not small
    single, exact = both(100.0, ones, far)
    assert exact[0] - exact[1] > 1.0
    np.testing.assert_allclose(single[0], exact[0], rtol=1e-6)
    for epsilon in (1e-8, 1.0, 100.0):
        single, exact = both(epsilon, y, records)
        np.testing.assert_allclose(single, exact, rtol=4e-7)
        np.testing.assert_allclose(exact[0] - exact[1], epsilon, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dim", [1, 4, 60])
def test_the_mixture_that_is_drawn_keeps_epsilon(dim):
    """P(s on the record's side) / P(s beyond) of the 64-bit threshold itself: at most epsilon to
    1e-6 of it.

    Reached to 1e-3 below epsilon 35; at 100 no report is impossible, and the loss is below that of
    one word.
    """
    for epsilon in (1e-6, 0.1, 1.0, 16.64, 17.0, 30.0, 35.0, 60.0, 100.0):
        m = DuchiVector(epsilon, dim)
        whole, rest = (np.float32(value) for value in m._whole_cube())
        rarer = random_words.threshold(min(whole, rest)).tolist()
        mass = rarer[0] * 2**32 + rarer[1]
        anywhere = mass if whole <= 0.5 else 2**64 - mass
        assert 0 < anywhere < 2**64
        share = Fraction(_constants(dim)[0])
        loss = math.log1p(Fraction(2**64 - anywhere, anywhere) / share)
        assert loss <= epsilon * (1 + 1e-6)
        assert loss >= min(epsilon * (1 - 1e-3), 44.0)


def test_the_sign_against_a_record_has_its_mass_in_64_bits():
    """Of 0 it is one half to the last bit; of drawn sizes within rounding of float32; at 100 it is
    some.
    """
    assert np.asarray(against_threshold(jax.numpy.float32(1.0), 100.0)).any()
    sizes = np.float32([0.0, 1.0, *np.random.default_rng(0).random(300)])
    for epsilon in (0.1, 1.0, 6.0):
        high, low = map(np.asarray, against_threshold(jax.numpy.asarray(sizes), epsilon))
        found = [int(a) << 32 | int(b) for a, b in zip(high, low, strict=True)]
        assert found[0] == 2**63
        wanted = (1 - sizes.astype(np.float64) * np.tanh(epsilon / 2)) / 2
        np.testing.assert_allclose(np.array(found, float) / 2.0**64, wanted, rtol=1e-6)
