"""Draws from words: exact probabilities at the extremes, at thresholds and one word beside them."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import _random
from tests import stats


def split(number, count=2):
    """A whole number below 2^(32 count) as words."""
    return np.array([(number >> (32 * (count - 1 - k))) & (2**32 - 1) for k in range(count)], np.uint32)


def join(words):
    total = 0
    for word in np.asarray(words):
        total = (total << 32) + int(word)
    return total


P = [2.0**-64, 1e-19, 3e-15, 2.0**-41, 1e-9, 1 / (1 + math.exp(22.9)), 1e-3, 1 / 3, 0.5, 1 - 2.0**-24]


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("p", P)
def test_a_threshold_is_the_probability_rounded_up(p, count):
    """Whole-number arithmetic: ceil(p 2^(32 count)) of the float32, and so the event's exact probability."""
    p = np.float32(p)
    numerator, denominator = float(p).as_integer_ratio()
    exact = -(-(numerator << (32 * count)) // denominator)
    assert join(_random.threshold(p, count)) == exact
    at = jnp.asarray(np.stack([split(w, count) for w in (0, exact - 1, exact, 2 ** (32 * count) - 1)], 1))
    np.testing.assert_array_equal(_random.bernoulli_from_words(at, p), [True, True, False, False])


def test_neither_side_of_an_event_is_lost():
    """P = 1 - e^-40 is 1 in float32: with its rest, word 0 to 78 still say no, in eager and compiled form."""
    rest = np.float32(math.exp(-40.0))
    p = np.float32(1.0) - rest
    assert p == 1
    last = join(_random.threshold(rest)) - 1
    assert last == math.ceil(float(rest) * 2**64) - 1
    at = jnp.asarray(np.stack([split(w) for w in (0, last, last + 1, 2**64 - 1)], 1))
    for run in (_random.bernoulli_from_words, jax.jit(_random.bernoulli_from_words)):
        np.testing.assert_array_equal(run(at, p, rest), [False, False, True, True])
        np.testing.assert_array_equal(run(at, rest, p), [True, True, False, False])
        np.testing.assert_array_equal(run(at, p), True)


def test_impossible_and_certain_events():
    at = jnp.asarray(np.stack([split(w) for w in (0, 2**64 - 1)], 1))
    for p, happens in ((0.0, False), (-1.0, False), (math.nan, False), (1.0, True), (2.0, True)):
        np.testing.assert_array_equal(_random.bernoulli_from_words(at, p), happens)
        np.testing.assert_array_equal(_random.bernoulli_from_words(at, p, 1 - p), happens)


@pytest.mark.parametrize("p", [1e-5, 0.3, 0.9])
def test_draws_have_their_share(p):
    """1e6 draws: a share that is off by 0.005 at 0.3 is seen, by 3e-5 at 1e-5."""
    n = 1_000_000
    drawn = _random.bernoulli(jax.random.key(0), jnp.full(n, p), jnp.full(n, 1 - p))
    stats.assert_share(drawn.sum(), n, p)


@pytest.mark.usefixtures("untyped")
def test_other_keys_are_refused():
    with pytest.raises(ValueError, match="threefry"):
        _random.bernoulli(jax.random.key(0, impl="rbg"), 0.5)
