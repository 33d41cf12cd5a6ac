"""Few posteriors weighed against each other on few labels."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ldp_jax.core import validate
from ldp_jax.core.label_channel import log_reported
from ldp_jax.core.types import Array

__all__ = ["combine", "likeliest", "stack", "stack_out_of_fold"]


def __dir__() -> list[str]:
    return __all__


_SOURCES = 10
"""Sources are padded to a multiple of it, so that stacks of few share a program."""


@jax.jit
def combine(log_scores: Float[Array, "n classes j"], weights: Float[Array, " j"]) -> Float[Array, "n classes"]:
    """The log posterior of weighted scores."""
    return jax.nn.log_softmax(log_scores @ weights)


@jax.jit
def likeliest(
    log_scores: Float[Array, "n classes j"], labels: Int[Array, " n"], candidates: Float[Array, "k j"]
) -> Float[Array, " j"]:
    """Of few candidate weights those under which labels are likeliest; the first where there is no label.

    >>> scores = jnp.log(jnp.array([[[0.9, 0.5], [0.1, 0.5]]]))
    >>> [likeliest(scores, jnp.array([label]), jnp.eye(2)).tolist() for label in (0, 1, -1)]
    [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    """

    def log_loss(weights: Array) -> Array:
        each = jnp.take_along_axis(combine(log_scores, weights), jnp.maximum(labels, 0)[:, None], 1)[:, 0]
        return -jnp.where(labels >= 0, each, 0.0).sum()

    return candidates[jax.lax.map(log_loss, candidates).argmin()]


def stack(
    log_scores: Float[Array, "n classes j"],
    labels: Int[Array, " n"],
    towards: Any = (0.0, 1.0, 1.0),
    *,
    ridge: float = 20.0,
    steps: int = 15,
    non_negative: bool = False,
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
      non_negative: whether weights must be >= 0, so that no source is believed the wrong way round; static. The
        method is then projected Newton (Bertsekas 1982).

    >>> scores = jnp.zeros((4, 2, 3))
    >>> stack(scores, jnp.array([0, 1, -1, -1])).tolist()
    [0.0, 1.0, 1.0]
    """
    validate.positive(ridge=ridge)
    towards = jnp.asarray(towards, jnp.float32)
    numbers = (towards, jnp.float32(ridge))
    return _stack(log_scores, jnp.asarray(labels), *numbers, steps=steps, non_negative=non_negative)


def stack_out_of_fold(
    log_scores: Float[Array, "n classes j"],
    labels: Int[Array | np.ndarray, " n"],
    fold: Int[Array, " n"],
    towards: Any,
    *,
    num_folds: int,
    ridge: float = 20.0,
    steps: int = 15,
    keep: float = 1.0,
) -> tuple[Float[Array, "n classes"], Float[Array, " j"]]:
    """:func:`stack` with weights >= 0, and the log posterior that it gives: of a labelled node out of fold.

    Args:
      log_scores: see :func:`stack`; of a labelled node by sources that have not seen its label.
      labels: int [n], -1 for none.
      fold: of each node: a labelled one is weighed by what the labels of other folds say.
      towards: see :func:`stack`.
      num_folds: F.
      ridge: see :func:`stack`.
      steps: see :func:`stack`.
      keep: the probability that a label is the true one (:mod:`~ldp_jax.pipeline.private_labels`).

    Returns:
      The log posterior, and the weights that all labels give, by which nodes without a label are weighed.

    >>> y = np.arange(40) % 2
    >>> right = jnp.log(jnp.array([[0.8, 0.2], [0.2, 0.8]]))[y]
    >>> both, labels = jnp.stack([right, right[:, ::-1]], -1), np.where(np.arange(40) < 30, y, -1)
    >>> fold = jnp.arange(40) // 10 % 3
    >>> log_p, weights = stack_out_of_fold(both, labels, fold, (0.5, 0.5), num_folds=3, ridge=3.0)
    >>> np.asarray(weights, float).round(1).tolist()  # the contrary is left out, not turned round
    [1.7, 0.0]
    >>> bool((log_p.argmax(1) == y).all())
    True
    """
    validate.positive(ridge=ridge)
    labels = np.asarray(labels)
    panel = np.flatnonzero(labels >= 0)
    count = log_scores.shape[-1]
    room = -count % _SOURCES  # a source of zeros keeps the weight 0
    log_scores = jnp.pad(log_scores, ((0, 0), (0, 0), (0, room)))
    numbers = (jnp.pad(jnp.asarray(towards, jnp.float32), (0, room)), jnp.float32(ridge))
    told = None if keep == 1.0 else jnp.float32(keep)
    weights = _folded(
        log_scores[panel], labels[panel], fold[panel], *numbers, told, num_folds=num_folds, steps=steps
    )
    own = jnp.where(jnp.asarray(labels) >= 0, fold, num_folds)
    return _each_by_its_own(log_scores, weights, own), weights[-1, :count]


@partial(jax.jit, static_argnames=("num_folds", "steps"))
def _folded(
    log_scores: Array,
    labels: Any,
    fold: Array,
    towards: Array,
    ridge: Array,
    keep: Array | None,
    *,
    num_folds: int,
    steps: int,
) -> Array:
    """Weights [F + 1, j]: without the labels of each fold, then with all."""
    shown = jnp.where(fold == jnp.arange(num_folds + 1)[:, None], -1, labels)
    fit = partial(_stack, log_scores, towards=towards, ridge=ridge, steps=steps, non_negative=True, keep=keep)
    return jax.lax.map(fit, shown)


@jax.jit
def _each_by_its_own(log_scores: Array, weights: Array, own: Array) -> Array:
    return jax.nn.log_softmax(jnp.einsum("ncj,nj->nc", log_scores, weights[own]))


@partial(jax.jit, static_argnames=("steps", "non_negative"))
def _stack(
    log_scores: Array,
    labels: Array,
    towards: Array,
    ridge: Array,
    *,
    steps: int,
    non_negative: bool,
    keep: Array | None = None,
) -> Array:
    known = (labels >= 0).astype(jnp.float32)
    z = log_scores - log_scores.mean(1, keepdims=True)

    def loss(weights: Array) -> Array:
        log_p = jax.nn.log_softmax(z @ weights)
        log_p = log_p if keep is None else log_reported(log_p, keep)
        each = jnp.take_along_axis(log_p, jnp.maximum(labels, 0)[:, None], 1)[:, 0]
        return 0.5 * ridge * ((weights - towards) ** 2).sum() - (known * each).sum()

    def newton(weights: Array, _: None) -> tuple[Array, None]:
        hessian, gradient = jax.hessian(loss)(weights), jax.grad(loss)(weights)
        if non_negative:  # a weight that stays at its bound takes no part
            free = (weights > 0) | (gradient < 0)
            hessian = jnp.where(free[:, None] & free, hessian, jnp.eye(len(weights)))
            gradient = jnp.where(free, gradient, 0.0)
        step = jnp.linalg.solve(hessian, gradient)
        # A step that does not help is halved until it does; 0 at the optimum.
        tried = weights - step * 0.5 ** jnp.arange(8.0)[:, None]
        if non_negative:
            tried = jnp.maximum(tried, 0.0)
        values = jax.vmap(loss)(tried)
        best = tried[values.argmin()]
        return jnp.where(values.min() < loss(weights), best, weights), None

    return jax.lax.scan(newton, towards, None, length=steps)[0]
