"""Gradient descent on the Poincaré ball, as ``optax.GradientTransformation``.

Parameters are pytrees of points [..., n], gradients those of a loss with respect to coordinates. An update is a
tangent vector: ``update`` needs the points, and :func:`apply_updates`, not optax's, adds it.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree

from ldp_jax.core import validate
from ldp_jax.core.types import Array, Scalar
from ldp_jax.hyperbolic import poincare
from ldp_jax.hyperbolic.numerics import check_curvature, dot, gap

LearningRate: TypeAlias = Scalar | Callable[[Array], Array]
"""A number, or a function of the number of updates so far."""


class SGDState(NamedTuple):
    """The number of updates; int32."""

    count: Array


class AdamState(NamedTuple):
    """Moments of the Riemannian gradient.

    Attributes:
      count: the number of updates; int32.
      first: the mean gradient, a tangent vector carried along with its point.
      second: the mean squared length of the gradient in the metric, [..., 1].
    """

    count: Array
    first: PyTree
    second: PyTree


def _riemannian_gradient(gradients: PyTree, points: PyTree, c: Scalar = 1.0) -> PyTree:
    r"""Gradients in the metric: :math:`\lambda_x^{-2}` times those with respect to the coordinates."""
    check_curvature(c)
    return jax.tree.map(lambda g, x: 0.25 * gap(x, c) ** 2 * g, gradients, points)


def apply_updates(points: PyTree, updates: PyTree, c: Scalar = 1.0) -> PyTree:
    """Points after their updates: the exponential map, leaf by leaf."""
    check_curvature(c)
    return jax.tree.map(lambda x, v: poincare._exp_map(x, v, c), points, updates)


def _rate(learning_rate: LearningRate, count: Array) -> Scalar:
    return learning_rate(count) if callable(learning_rate) else learning_rate


def _check_rate(learning_rate: LearningRate) -> None:
    if not callable(learning_rate):
        validate.positive(learning_rate=learning_rate)


def _points(params: PyTree) -> PyTree:
    if params is None:
        raise ValueError("params must be given to update: the points that the gradients are at")
    return params


def riemannian_sgd(learning_rate: LearningRate, c: Scalar = 1.0) -> optax.GradientTransformation:
    r"""Steps of :math:`-\eta \, \mathrm{grad}` along geodesics.

    Reference: Bonnabel, Stochastic gradient descent on Riemannian manifolds (IEEE TAC 2013); Nickel & Kiela 2017,
    eq. 4 and 5 (along straight lines).
    """
    _check_rate(learning_rate)
    check_curvature(c)

    def init(params: PyTree) -> SGDState:
        return SGDState(jnp.zeros((), jnp.int32))

    def update(updates: PyTree, state: PyTree, params: PyTree = None) -> tuple[PyTree, SGDState]:
        rate = _rate(learning_rate, state.count)
        steps = _riemannian_gradient(updates, _points(params), c)
        return jax.tree.map(lambda v: -rate * v, steps), SGDState(state.count + 1)

    return optax.GradientTransformation(init, update)


def riemannian_adam(
    learning_rate: LearningRate, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, c: Scalar = 1.0
) -> optax.GradientTransformation:
    """Adam on the ball: one second moment a point, the first moment carried along by parallel transport.

    ``eps`` is added to the root of the second moment.

    Reference: Bécigneul & Ganea, Riemannian adaptive optimization methods (ICLR 2019), algorithm 1.
    """
    _check_rate(learning_rate)
    check_curvature(c)
    validate.number(0.0, 1.0, open_upper=True, b1=b1)
    validate.number(0.0, 1.0, open_upper=True, b2=b2)
    validate.positive(eps=eps)

    def init(params: PyTree) -> AdamState:
        first = jax.tree.map(jnp.zeros_like, params)
        return AdamState(jnp.zeros((), jnp.int32), first, jax.tree.map(lambda x: x[..., :1] * 0, params))

    def update(updates: PyTree, state: PyTree, params: PyTree = None) -> tuple[PyTree, AdamState]:
        points, count = _points(params), state.count + 1
        rate = _rate(learning_rate, state.count)
        steps = _riemannian_gradient(updates, points, c)
        first = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.first, steps)
        squared = lambda g, x: dot(g, g) * (2.0 / gap(x, c)) ** 2
        second = jax.tree.map(lambda m, g, x: b2 * m + (1 - b2) * squared(g, x), state.second, steps, points)
        done = count.astype(jnp.float32)
        scale = lambda m, s: (m / (1 - b1**done)) / (jnp.sqrt(s / (1 - b2**done)) + eps)
        updates = jax.tree.map(lambda m, s: -rate * scale(m, s), first, second)
        moved = apply_updates(points, updates, c)
        carried = jax.tree.map(lambda x, y, m: poincare._transport(x, y, m, c), points, moved, first)
        return updates, AdamState(count, carried, second)

    return optax.GradientTransformation(init, update)
