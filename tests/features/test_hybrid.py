"""The hybrid mechanism's threshold and coin."""

import jax
import numpy as np
import pytest

from ldp_jax.core import random_words
from ldp_jax.features import Duchi, Hybrid, Piecewise
from ldp_jax.features.hybrid import THRESHOLD
from tests import stats


def test_the_threshold_is_the_published_one():
    """eq. 7 of Wang et al., ICDE 2019: where mixing begins to pay; 0.61 there, 0.610986 in full."""
    root = 6353**2 - 405**2 * 241
    assert root > 0
    cube = lambda sign: (6353 + sign * 405 * np.sqrt(241)) ** (1 / 3)
    assert pytest.approx(np.log((-5 + 2 * cube(-1) + 2 * cube(1)) / 27), abs=0.001) == THRESHOLD


def test_it_mixes_above_the_threshold_alone():
    """Up to it Duchi's variance; above, one that is the same for every record and below both
    mechanisms' worst.
    """
    x = np.linspace(-1, 1, 5, dtype=np.float32)
    variances = jax.jit(lambda e: [make(e).variance(x) for make in (Hybrid, Duchi, Piecewise)])
    for epsilon in (0.6, 0.62, 3.0):
        m = Hybrid(epsilon)
        variance, duchi, piecewise = map(np.asarray, variances(epsilon))
        if epsilon <= 0.61:
            assert m.beta == 0
            np.testing.assert_allclose(variance, duchi, rtol=1e-6)
        else:
            assert m.beta == pytest.approx(-np.expm1(-epsilon / 2), rel=1e-6)
            np.testing.assert_allclose(variance, variance[0], rtol=2e-5)
            assert variance.max() < min(duchi.max(), piecewise.max())


def test_neither_branch_is_lost():
    """Branch 0 at the largest epsilon: one 64-bit number in 5e8, none of the 2^23 uniforms of
    before.
    """
    m = Hybrid(40.0)
    assert float(m._rest) == pytest.approx(np.exp(-20.0), rel=1e-5)
    assert not random_words.bernoulli_from_words(np.zeros(2, np.uint32), m.beta, m._rest)
    density = jax.jit(lambda x: m.log_density((0, 1.0), x))(np.float32(0.0))
    assert density == pytest.approx(-20.0 - np.log(2.0), rel=1e-5)
    assert jax.jit(Hybrid(0.5).privatize)(jax.random.key(0), np.float32(0.2)).branch == 0


def test_draws_of_each_branch_have_its_law():
    """10 000 draws: in neither branch a mean that is off by 0.1 passes; coins share no word with
    reports.
    """
    m = Hybrid(1.0)
    x = np.full(10_000, 0.6, np.float32)
    y = jax.jit(m.draw)(jax.random.key(0), x)
    branch, value = map(np.asarray, (y.branch, y.value))
    stats.assert_share((branch == 1).sum(), len(x), 1 - np.exp(-0.5))
    stats.assert_share((value[branch == 0] > 0).sum(), (branch == 0).sum(), sign_of(0.6, 1.0))
    of_piecewise = value[branch == 1]
    error = np.sqrt(float(m.piecewise.variance(0.6)) / len(of_piecewise))
    assert abs(of_piecewise.mean() - 0.6) < stats.SIGMAS * error


def sign_of(x, epsilon):
    """The chance that Duchi's sign is 1."""
    return 0.5 + 0.5 * x * np.tanh(epsilon / 2)


def test_a_branch_that_does_not_exist_is_impossible():
    """Whatever its value, which is possible in either branch."""
    m = Hybrid(1.0)
    density = jax.jit(lambda branch, value: m.log_density((branch, value), 0.3))
    ends = m.duchi.codomain().values
    assert np.isfinite([density(0, ends[1]), density(1, 0.3)]).all()
    assert np.isneginf([density(branch, v) for branch in (-1, 2, 7) for v in (ends[1], 0.3)]).all()
    # Of a branch that does, the estimate is that of its mechanism.
    branch = np.array([0, 1, 1])
    value = np.float32([1.0, 1.0, 0.3])
    wanted = [1 / np.tanh(0.5), 1.0, 0.3]
    np.testing.assert_allclose(m.estimate((branch, value)), wanted, rtol=1e-6)
