"""Gradient descent on the Poincaré ball, as ``optax.GradientTransformation``.

Parameters are pytrees of points [..., n], gradients those of a loss with respect to coordinates. An
update is a tangent vector: ``update`` needs the points, and :func:`apply_updates`, not optax's,
adds it.
"""

from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree

from ldp_jax.core import validate
from ldp_jax.core.types import Array, Scalar
from ldp_jax.hyperbolic import poincare
from ldp_jax.hyperbolic.numerics import check_curvature, gap

LearningRate: TypeAlias = Scalar | Callable[[Array], Array]
"""A number, or a function of the number of updates so far."""


def apply_updates(points: PyTree, updates: PyTree, c: Scalar = 1.0) -> PyTree:
    """Points after their updates: the exponential map, leaf by leaf."""
    check_curvature(c)
    return jax.tree.map(lambda x, v: poincare._exp_map(x, v, c), points, updates)


def riemannian_sgd(learning_rate: LearningRate, c: Scalar = 1.0) -> optax.GradientTransformation:
    r"""Steps of :math:`-\eta \lambda_x^{-2}` times the gradient along geodesics.

    Reference: Bonnabel, IEEE TAC 2013; Nickel & Kiela 2017, eq. 4 and 5 (along straight lines).
    """
    if not callable(learning_rate):
        validate.positive(learning_rate=learning_rate)
    check_curvature(c)

    def init(params: PyTree) -> optax.ScaleByScheduleState:
        return optax.ScaleByScheduleState(jnp.zeros((), jnp.int32))

    def update(updates: PyTree, state: PyTree, params: PyTree = None) -> tuple[PyTree, PyTree]:
        if params is None:
            raise ValueError("params must be given to update: the points that the gradients are at")
        rate = learning_rate(state.count) if callable(learning_rate) else learning_rate
        step = lambda gradient, x: -rate * (0.25 * gap(x, c) ** 2 * gradient)
        steps = jax.tree.map(step, updates, params)
        return steps, optax.ScaleByScheduleState(state.count + 1)

    return optax.GradientTransformation(init, update)
