"""Few posteriors weighed against each other on few labels."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from ldp_jax import _validate
from ldp_jax.types import Array

__all__ = ["combine", "stack"]


def __dir__() -> list[str]:
    return __all__


@jax.jit
def combine(log_scores: Float[Array, "n classes j"], weights: Float[Array, " j"]) -> Float[Array, "n classes"]:
    """The log posterior of weighted scores."""
    return jax.nn.log_softmax(log_scores @ weights)


def stack(
    log_scores: Float[Array, "n classes j"],
    labels: Int[Array, " n"],
    towards: Any = (0.0, 1.0, 1.0),
    *,
    ridge: float = 20.0,
    steps: int = 15,
) -> Float[Array, " j"]:
    r"""Step 10 of piloted counts: weights of a conditional logit, one for each score, the same for all classes.

    Minimises :math:`-\sum_i \log p(y_i) + \frac{\rho}{2} \lVert w - w_0 \rVert^2` by Newton's method: a
    convex problem of few unknowns. With few labels the weights stay at ``towards``.

    Args:
      log_scores: of each class by each source: log q, log f, l.
      labels: int [n], -1 for rows that are not asked.
      towards: the weights that the ridge pulls to: what would be right if all the models were.
      ridge: rho > 0.
      steps: of Newton's method, static.

    >>> scores = jnp.zeros((4, 2, 3))
    >>> stack(scores, jnp.array([0, 1, -1, -1])).tolist()
    [0.0, 1.0, 1.0]
    """
    _validate.positive(ridge=ridge)
    towards = jnp.asarray(towards, jnp.float32)
    return _stack(log_scores, jnp.asarray(labels), towards, jnp.float32(ridge), steps=steps)


@partial(jax.jit, static_argnames="steps")
def _stack(log_scores: Array, labels: Array, towards: Array, ridge: Array, *, steps: int) -> Array:
    known = (labels >= 0).astype(jnp.float32)
    z = log_scores - log_scores.mean(1, keepdims=True)

    def loss(weights: Array) -> Array:
        each = jnp.take_along_axis(jax.nn.log_softmax(z @ weights), jnp.maximum(labels, 0)[:, None], 1)[:, 0]
        return 0.5 * ridge * ((weights - towards) ** 2).sum() - (known * each).sum()

    def newton(weights: Array, _: None) -> tuple[Array, None]:
        step = jnp.linalg.solve(jax.hessian(loss)(weights), jax.grad(loss)(weights))
        # A step that does not help is halved until it does; 0 at the optimum.
        tried = weights - step * 0.5 ** jnp.arange(8.0)[:, None]
        values = jax.vmap(loss)(tried)
        best = tried[values.argmin()]
        return jnp.where(values.min() < loss(weights), best, weights), None

    return jax.lax.scan(newton, towards, None, length=steps)[0]
