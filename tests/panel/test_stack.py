"""Weights of posteriors: the optimum of their loss, kept near where they start by few labels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.panel.stack import combine, stack


def scores(n=600, seed=0):
    """Three sources on three classes: noise, a posterior that is half as sure as it should be, and a right one."""
    rng = np.random.default_rng(seed)
    right, half = rng.normal(0, 1, (n, 3)), rng.normal(0, 1, (n, 3))
    p = np.exp(right + half)
    y = (p.cumsum(1) > rng.random((n, 1)) * p.sum(1, keepdims=True)).argmax(1)
    return jnp.asarray(np.stack([rng.normal(0, 1, (n, 3)), half / 2, right], -1), jnp.float32), jnp.asarray(y)


def test_the_gradient_is_zero_where_the_weights_are():
    z, y = scores()
    y = y.at[300:].set(-1)
    weights = stack(z, y)

    def loss(w):
        each = jnp.take_along_axis(combine(z, w), jnp.maximum(y, 0)[:, None], 1)[:, 0]
        return 10.0 * ((w - jnp.array([0.0, 1.0, 1.0])) ** 2).sum() - jnp.where(y >= 0, each, 0.0).sum()

    assert float(jnp.abs(jax.grad(loss)(weights)).max()) < 1e-2 * float(jnp.abs(jax.grad(loss)(jnp.zeros(3))).max())


def test_many_labels_find_the_weights_and_few_keep_them():
    z, y = scores(6000)
    np.testing.assert_allclose(stack(z, y), [0.0, 2.0, 1.0], atol=0.2)
    few = stack(z, jnp.where(jnp.arange(len(y)) < 5, y, -1))
    np.testing.assert_allclose(few, [0.0, 1.0, 1.0], atol=0.3)
    assert stack(z, jnp.full(len(y), -1)).tolist() == [0.0, 1.0, 1.0]


def test_extreme_evidence_stays_finite():
    z = scores()[0].at[0].set(jnp.array([[-1e3, 0.0, 1e3]] * 3))
    assert np.isfinite(np.asarray(stack(z, scores()[1]))).all()


def test_a_ridge_that_is_none_is_refused():
    with pytest.raises(ValueError, match="ridge must be finite and > 0"):
        stack(*scores(10), ridge=0.0)
