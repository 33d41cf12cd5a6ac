"""Riemannian descent against float64, step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ldp_jax.hyperbolic.optimizers import apply_updates, riemannian_sgd
from tests.hyperbolic import reference as ref

C = 0.5
TARGETS = ref.points(np.random.default_rng(0), (4,), 3, 3.0, C)
START = ref.points(np.random.default_rng(1), (4,), 3, 2.0, C)


def slope64(x):
    """Of half the squared distance to the target: minus the logarithm, here as coordinates'
    gradient.
    """
    return -ref.log(x, TARGETS, C) * (2 / ref.gap(x, C)) ** 2


def steps(optimizer, count):
    """The points after each step; the gradient is given, so that a mistake is the optimiser's."""

    @jax.jit
    def step(gradient, state, points):
        updates, state = optimizer.update(gradient, state, points)
        return apply_updates(points, updates, C), state

    points = jnp.asarray(START)
    state = optimizer.init(jnp.asarray(START))
    found = []
    for _ in range(count):
        points, state = step(slope64(points).astype(np.float32), state, points)
        found.append(np.asarray(points))
    return found, state


def test_sgd_goes_along_geodesics():
    found, state = steps(riemannian_sgd(0.3, C), 4)
    x = ref.wide(START)
    for after in found:
        x = ref.exp(x, 0.3 * ref.log(x, TARGETS, C), C)
        np.testing.assert_allclose(after, x, atol=3e-6)
    assert int(state.count) == 4
    # Each step leaves 0.7 of the distance.
    left = ref.close_distance(found[-1], TARGETS, C) / ref.close_distance(START, TARGETS, C)
    np.testing.assert_allclose(left, 0.7**4, rtol=1e-4)


def test_a_schedule_and_trees_of_points():
    optimizer = riemannian_sgd(lambda count: jnp.where(count < 1, 0.0, 1.0))
    points = {"a": jnp.zeros(2), "b": (jnp.full((3, 2), 0.1),)}
    state = optimizer.init(points)
    assert isinstance(optimizer, optax.GradientTransformation)
    ones = jax.tree.map(jnp.ones_like, points)
    update = jax.jit(optimizer.update)
    updates, state = update(ones, state, points)
    assert not any(np.asarray(leaf).any() for leaf in jax.tree.leaves(updates))
    updates, state = update(ones, state, points)
    np.testing.assert_allclose(updates["a"], -0.25)
    np.testing.assert_allclose(updates["b"][0], -0.25 * 0.98**2, rtol=1e-6)
