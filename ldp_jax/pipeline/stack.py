"""Few posteriors weighed against each other on few labels."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ldp_jax.core import validate
from ldp_jax.core.types import Array
from ldp_jax.pipeline.rows import part_size, room_for
from ldp_jax.pipeline.self_training import FoldedLabels

_SOURCES = 10
"""Sources are padded to a multiple of it, so that stacks of few share a program."""

_STEPS = 15
"""Of Newton's method."""

_T = TypeVar("_T")
_Weights = tuple[float, ...] | list[float] | Float[np.ndarray, " j"]


class _Labelled(NamedTuple):
    """The rows that have a label, the first ``count``; the others are padding, so that panels share a program."""

    log_scores: Array | np.ndarray
    labels: Array | np.ndarray
    fold: Array | np.ndarray
    count: Array | np.int32

    @classmethod
    def of(cls, log_scores: Array | np.ndarray, labels: np.ndarray, fold: Array | np.ndarray) -> "_Labelled":
        panel = np.flatnonzero(labels >= 0)
        lacking = room_for(len(labels)) - len(panel)

        def padded(values: np.ndarray) -> np.ndarray:
            return np.pad(values[panel], ((0, lacking), *((0, 0),) * (values.ndim - 1)))

        labels, fold = np.asarray(labels, np.int32), np.asarray(fold, np.int32)
        return cls(padded(np.asarray(log_scores)), padded(labels), padded(fold), np.int32(len(panel)))

    def summed(self, function: Callable[..., _T], start: _T) -> _T:
        """The sum of ``function(scores, labels, fold, known)`` over the rows in use, a part of them at a time."""
        size = part_size(len(self.labels))

        def add(at: Array, total: _T) -> _T:
            arrays = (jax.lax.dynamic_slice_in_dim(values, at * size, size) for values in self[:3])
            known = at * size + jnp.arange(size) < self.count
            return jax.tree.map(jnp.add, total, function(*arrays, known))

        return jax.lax.fori_loop(0, -(-self.count // size), add, start)


@jax.jit
def combine(
    log_scores: Float[Array | np.ndarray, "n classes j"], weights: Float[Array | np.ndarray, " j"]
) -> Float[Array, "n classes"]:
    """The log posterior of weighted scores."""
    return jax.nn.log_softmax(log_scores @ weights)


@jax.jit
def likeliest(
    log_scores: Float[Array | np.ndarray, "n classes j"],
    labels: Int[Array | np.ndarray, " n"],
    candidates: Float[Array | np.ndarray, "k j"],
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
    log_scores: Float[Array | np.ndarray, "n classes j"],
    labels: Int[Array | np.ndarray, " n"],
    towards: _Weights = (0.0, 1.0, 1.0),
    *,
    ridge: float = 20.0,
) -> Float[Array, " j"]:
    r"""Step 10 of piloted counts: weights of a conditional logit, one for each score, the same for all classes.

    Minimises :math:`-\sum_i \log p(y_i) + \frac{\rho}{2} \lVert w - w_0 \rVert^2` by Newton's method: a
    convex problem of few unknowns. With few labels the weights stay at ``towards``.

    Args:
      log_scores: of each class by each source: log q, log f, l.
      labels: int [n], -1 for rows that are not asked.
      towards: the weights that the ridge pulls to: what would be right if all the models were.
      ridge: rho > 0.

    >>> scores = jnp.zeros((4, 2, 3))
    >>> stack(scores, jnp.array([0, 1, -1, -1])).tolist()
    [0.0, 1.0, 1.0]
    """
    return weigh(log_scores, labels, np.asarray(towards)[None], ridge=ridge)[1]


def weigh(
    log_scores: Float[Array | np.ndarray, "n classes j"],
    labels: Int[Array | np.ndarray, " n"],
    candidates: Float[np.ndarray, "k j"],
    *,
    ridge: float = 20.0,
) -> tuple[Float[Array, "n classes"], Float[Array, " j"]]:
    """The log posterior and weights of :func:`stack`, pulled towards the :func:`likeliest` of few candidates."""
    validate.positive(ridge=ridge)
    labels = np.asarray(labels)
    known = _Labelled.of(log_scores, labels, np.zeros_like(labels))
    return _weighed(known, log_scores, np.asarray(candidates, np.float32), np.float32(ridge))


@jax.jit
def _weighed(known: _Labelled, log_scores: Array, candidates: Array, ridge: Array) -> tuple[Array, Array]:
    rows = jnp.arange(len(known.labels)) < known.count
    towards = likeliest(known.log_scores, jnp.where(rows, known.labels, -1), candidates)
    weights = _stack(known, jnp.int32(-1), towards, ridge, jnp.float32(1.0), non_negative=False)
    return combine(log_scores, weights), weights


def stack_out_of_fold(
    log_scores: Float[Array | np.ndarray, "n classes j"],
    known: FoldedLabels,
    towards: _Weights,
    *,
    ridge: float = 20.0,
) -> tuple[Float[Array, "n classes"], Float[Array, " j"]]:
    """:func:`stack` with weights >= 0, and the log posterior that it gives: of a labelled node out of fold.

    Sources of a labelled node must not have seen its label. It is weighed by what labels of other folds say.

    Returns:
      The log posterior, and the weights that all labels give, by which nodes without a label are weighed.

    >>> y = np.arange(40) % 2
    >>> right = jnp.log(jnp.array([[0.8, 0.2], [0.2, 0.8]]))[y]
    >>> both, labels = jnp.stack([right, right[:, ::-1]], -1), np.where(np.arange(40) < 30, y, -1)
    >>> known = FoldedLabels(labels, 2, np.arange(40) // 10 % 3, 3)
    >>> log_p, weights = stack_out_of_fold(both, known, (0.5, 0.5), ridge=3.0)
    >>> np.asarray(weights, float).round(1).tolist()  # the contrary is left out, not turned round
    [1.7, 0.0]
    >>> bool((log_p.argmax(1) == y).all())
    True
    """
    validate.positive(ridge=ridge)
    log_scores = np.asarray(log_scores)
    count = log_scores.shape[-1]
    room = -count % _SOURCES  # a source of zeros keeps the weight 0
    log_scores = np.pad(log_scores, ((0, 0), (0, 0), (0, room)))
    towards = np.pad(np.asarray(towards, np.float32), (0, room))
    own = np.where(known.labels >= 0, known.fold, known.num_folds).astype(np.int32)
    labelled = _Labelled.of(log_scores, known.labels, known.fold)
    numbers = (towards, np.float32(ridge), np.float32(known.keep))
    log_p, weights = _folded(labelled, log_scores, own, *numbers, num_folds=known.num_folds)
    return log_p, jax.device_put(np.asarray(weights)[:count])


@partial(jax.jit, static_argnames="num_folds")
def _folded(
    known: _Labelled, log_scores: Array, own: Array, towards: Array, ridge: Array, keep: Array, *, num_folds: int
) -> tuple[Array, Array]:
    """Everybody by the weights without the labels of their fold, and the weights that all labels give."""

    def fit(without: Array) -> Array:
        return _stack(known, without, towards, ridge, keep, non_negative=True)

    weights = jax.lax.map(fit, jnp.arange(num_folds + 1))
    return jax.nn.log_softmax(jnp.einsum("ncj,nj->nc", log_scores, weights[own])), weights[-1]


def _stack(
    known: _Labelled, without: Array, towards: Array, ridge: Array, keep: Array, *, non_negative: bool
) -> Array:
    """Newton's method on the labels of all folds but ``without``; projected (Bertsekas 1982) to weights >= 0."""
    j = len(towards)
    other = (1.0 - keep) / (known.log_scores.shape[1] - 1)

    def centred(scores: Array) -> Array:
        return scores - scores.mean(1, keepdims=True)

    def log_p_of(weights: Array, z: Array, labels: Array) -> tuple[Array, Array]:
        """Log posteriors of a part's rows, and of their labels as they are reported."""
        log_p = jax.nn.log_softmax(z @ weights)
        each = jnp.take_along_axis(log_p, labels[:, None], 1)[:, 0]
        return log_p, jnp.logaddexp(jnp.log(other), jnp.log(keep - other) + each)

    def losses(tried: Array) -> Array:
        def part(scores: Array, labels: Array, fold: Array, counts: Array) -> Array:
            counts = counts & (fold != without)
            each = jax.vmap(lambda weights: log_p_of(weights, centred(scores), labels)[1])(tried)
            return -jnp.where(counts, each, 0.0).sum(1)

        penalty = 0.5 * ridge * ((tried - towards) ** 2).sum(1)
        return penalty + known.summed(part, jnp.zeros(len(tried)))

    def slopes(weights: Array) -> tuple[Array, Array]:
        def part(scores: Array, labels: Array, fold: Array, counts: Array) -> tuple[Array, Array]:
            z, counts = centred(scores), counts & (fold != without)
            log_p, reported = log_p_of(weights, z, labels)
            p, mine = jnp.exp(log_p), jnp.take_along_axis(log_p, labels[:, None], 1)[:, 0]
            mean = jnp.einsum("ncj,nc->nj", z, p)
            away = jnp.take_along_axis(z, labels[:, None, None], 1)[:, 0] - mean
            true = jnp.where(counts, jnp.exp(jnp.log(keep - other) + mine - reported), 0.0)  # given the report
            curved = (
                jnp.einsum("ncj,nck->jk", z, (true[:, None] * p)[..., None] * z) - (true[:, None] * mean).T @ mean
            )
            return -(true[:, None] * away).sum(0), curved - ((true * (1.0 - true))[:, None] * away).T @ away

        gradient, hessian = known.summed(part, (jnp.zeros(j), jnp.zeros((j, j))))
        return gradient + ridge * (weights - towards), hessian + ridge * jnp.eye(j)

    def newton(weights: Array, _: None) -> tuple[Array, None]:
        gradient, hessian = slopes(weights)
        if non_negative:  # a weight that stays at its bound takes no part
            free = (weights > 0) | (gradient < 0)
            hessian = jnp.where(free[:, None] & free, hessian, jnp.eye(j))
            gradient = jnp.where(free, gradient, 0.0)
        step = jnp.linalg.solve(hessian, gradient)
        # A step that does not help is halved until it does; 0 at the optimum.
        tried = weights - step * 0.5 ** jnp.arange(8.0)[:, None]
        if non_negative:
            tried = jnp.maximum(tried, 0.0)
        values = losses(jnp.concatenate([tried, weights[None]]))
        best = tried[values[:-1].argmin()]
        return jnp.where(values[:-1].min() < values[-1], best, weights), None

    return jax.lax.scan(newton, towards, None, length=_STEPS)[0]
