"""Dropout of wide inputs: the share that is dropped, from bits that are threefry's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.learning.models._dropout import Dropout

RATE = 0.6
APPLIED = jax.jit(
    lambda key, x, rate: Dropout(rate).apply({}, x, True, rngs={"dropout": key}), static_argnums=2
)


def test_a_share_is_dropped_and_what_is_kept_makes_up_for_it():
    """Of 120 000 values in a row block each, independent: a share off by 0.7 points, or pairs that
    go together.
    """
    x = jnp.ones((400, 1200))
    y = np.asarray(APPLIED(jax.random.key(1), x, RATE))
    kept = y > 0
    np.testing.assert_allclose(y[kept], 1 / (1 - RATE), rtol=1e-4)
    blocks = kept.reshape(4, -1)
    deviation = np.sqrt(RATE * (1 - RATE) / blocks.shape[1])
    assert np.abs(blocks.mean(1) - (1 - RATE)).max() < 5 * deviation
    correlation = np.corrcoef(
        np.concatenate([blocks, np.roll(blocks, 1, 1), np.roll(blocks, 1200, 1)])
    )
    assert np.abs(correlation - np.eye(12)).max() < 5.4 / np.sqrt(blocks.shape[1])
    again = np.asarray(APPLIED(jax.random.key(2), x, RATE)) > 0
    assert np.abs(np.corrcoef(kept.ravel(), again.ravel())[0, 1]) < 5.4 / np.sqrt(kept.size)


@pytest.mark.parametrize("shape", [(6, 2, 4), (0, 3)])
def test_any_shape(shape):
    x = 1.0 + jax.random.uniform(jax.random.key(0), shape)
    y = np.asarray(APPLIED(jax.random.key(3), x, 0.25))
    np.testing.assert_allclose(y, np.where(y > 0, x / 0.75, 0.0), rtol=1e-6)
    np.testing.assert_array_equal(APPLIED(jax.random.key(3), x, 0.0), x)
    np.testing.assert_array_equal(Dropout(0.25).apply({}, x, False), x)


def test_slopes_and_many_keys():
    x = jax.random.normal(jax.random.key(4), (6, 5))
    keys = jax.random.split(jax.random.key(5), 3)
    slopes = jax.vmap(lambda key: jax.grad(lambda x: APPLIED(key, x, RATE).sum())(x))(keys)
    for key, slope in zip(keys, slopes, strict=True):
        np.testing.assert_array_equal(slope, APPLIED(key, jnp.ones_like(x), RATE))
