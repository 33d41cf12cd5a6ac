"""Few posteriors weighed against each other on few labels: convex problems, in float64 on the host."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from scipy.special import log_softmax

from ldp_jax.core import validate
from ldp_jax.core.label_channel import other_share
from ldp_jax.core.types import Array
from ldp_jax.pipeline.self_training import FoldedLabels

_STEPS, _LITTLE = 50, 1e-10  # of Newton's method at most; the least gain of one, of the loss

_Scores = Float[Array | np.ndarray, "n classes j"]
_Weights = Sequence[float] | Float[np.ndarray, " j"]


def combine(log_scores: _Scores, weights: Float[Array | np.ndarray, " j"]) -> Float[np.ndarray, "n classes"]:
    """The log posterior of weighted scores; float32."""
    return log_softmax(np.asarray(log_scores) @ np.asarray(weights), axis=1).astype(np.float32)


def likeliest(
    log_scores: _Scores, labels: Int[Array | np.ndarray, " n"], candidates: Float[Array | np.ndarray, "k j"]
) -> Float[np.ndarray, " j"]:
    """The candidate weights under which labels are likeliest; the first where there is no label.

    >>> scores = np.log([[[0.9, 0.5], [0.1, 0.5]]])
    >>> [likeliest(scores, np.array([label]), np.eye(2)).tolist() for label in (0, 1, -1)]
    [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    """
    labels, candidates = np.asarray(labels), np.asarray(candidates)
    known = np.flatnonzero(labels >= 0)
    scores = np.asarray(log_scores, np.float64)[known]
    losses = [-log_softmax(scores @ one, axis=1)[np.arange(len(known)), labels[known]].sum() for one in candidates]
    return candidates[int(np.argmin(losses))]


def stack(
    log_scores: _Scores,
    labels: Int[Array | np.ndarray, " n"],
    towards: _Weights = (0.0, 1.0, 1.0),
    *,
    ridge: float = 20.0,
) -> Float[np.ndarray, " j"]:
    r"""Step 10 of piloted counts: weights of a conditional logit, one for each score, the same for all classes.

    Minimises :math:`-\sum_i \log p(y_i) + \frac{\rho}{2} \lVert w - w_0 \rVert^2` by Newton's method. With few
    labels the weights stay at ``towards``. ``log_scores`` are of each class by each source: log q, log f, l;
    ``labels`` -1 for rows that are not asked; the ridge rho > 0 pulls ``towards`` what is right if all models are.

    >>> stack(np.zeros((4, 2, 3)), np.array([0, 1, -1, -1])).tolist()
    [0.0, 1.0, 1.0]
    """
    return weigh(log_scores, labels, np.asarray(towards)[None], ridge=ridge)[1]


def weigh(
    log_scores: _Scores,
    labels: Int[Array | np.ndarray, " n"],
    candidates: Float[np.ndarray, "k j"],
    *,
    ridge: float = 20.0,
) -> tuple[Float[np.ndarray, "n classes"], Float[np.ndarray, " j"]]:
    """The log posterior and weights of :func:`stack`, pulled towards the :func:`likeliest` of few candidates."""
    validate.positive(ridge=ridge)
    labels = np.asarray(labels)
    known = np.flatnonzero(labels >= 0)
    mine = np.asarray(log_scores)[known]
    towards = likeliest(mine, labels[known], candidates)
    weights = _fitted(_Labelled(mine, labels[known]), towards, ridge).astype(np.float32)
    return combine(log_scores, weights), weights


def stack_out_of_fold(
    log_scores: _Scores, known: FoldedLabels, towards: _Weights, *, ridge: float = 20.0
) -> tuple[Float[np.ndarray, "n classes"], Float[np.ndarray, " j"]]:
    """:func:`stack` with weights >= 0, and the log posterior that it gives: of a labelled node out of fold.

    Sources of a labelled node must not have seen its label. It is weighed by what labels of other folds say, any
    other node by the weights that all labels give, which are returned.

    >>> y = np.arange(40) % 2
    >>> right = np.log([[0.8, 0.2], [0.2, 0.8]])[y]
    >>> both, labels = np.stack([right, right[:, ::-1]], -1), np.where(np.arange(40) < 30, y, -1)
    >>> known = FoldedLabels(labels, 2, np.arange(40) // 10 % 3, 3)
    >>> log_p, weights = stack_out_of_fold(both, known, (0.5, 0.5), ridge=3.0)
    >>> weights.astype(float).round(1).tolist()  # the contrary is left out, not turned round
    [1.7, 0.0]
    >>> bool((log_p.argmax(1) == y).all())
    True
    """
    validate.positive(ridge=ridge)
    log_scores, towards, nodes = np.asarray(log_scores), np.asarray(towards, np.float64), known.nodes
    fold = np.asarray(known.fold)
    taught = _Labelled(log_scores[nodes], known.labels[nodes], known.keep)
    # The last one is taught by all; one part of the scores is there at a time.
    parts = (taught.where(fold[nodes] != one) for one in range(known.num_folds + 1))
    weights = np.stack([_fitted(part, towards, ridge, least=0.0) for part in parts]).astype(np.float32)
    own = np.where(known.labels >= 0, fold, known.num_folds)
    return log_softmax(np.einsum("ncj,nj->nc", log_scores, weights[own]), axis=1).astype(np.float32), weights[-1]


class _Labelled:
    """Scores [m, C, J] of labelled rows, less their mean over classes, and labels that are true with ``keep``."""

    def __init__(self, scores: np.ndarray, labels: np.ndarray, keep: float = 1.0):
        scores = np.asarray(scores, np.float64)
        self.scores, self.labels, self.keep = scores - scores.mean(1, keepdims=True), labels, keep

    def where(self, which: np.ndarray) -> "_Labelled":
        return _Labelled(self.scores[which], self.labels[which], self.keep)

    def posteriors(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log posteriors, those of the labels, and log-likelihoods of the labels as they are reported."""
        log_p = log_softmax(self.scores @ weights, axis=1)
        mine = log_p[np.arange(len(self.labels)), self.labels]
        if self.keep == 1.0:
            return log_p, mine, mine
        other = other_share(self.keep, log_p.shape[1])
        return log_p, mine, np.logaddexp(np.log(other), np.log(self.keep - other) + mine)

    def loss(self, weights: np.ndarray) -> float:
        return -float(self.posteriors(weights)[2].sum())

    def slopes(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The gradient and Hessian of the loss."""
        log_p, mine, reported = self.posteriors(weights)
        p = np.exp(log_p)
        mean = np.einsum("ncj,nc->nj", self.scores, p)
        away = self.scores[np.arange(len(self.labels)), self.labels] - mean
        true = np.exp(np.log(self.keep - other_share(self.keep, p.shape[1])) + mine - reported)  # given the report
        flat = self.scores.reshape(-1, len(weights))
        curved = flat.T @ (flat * (true[:, None] * p).reshape(-1, 1))
        curved -= (true[:, None] * mean).T @ mean + ((true * (1.0 - true))[:, None] * away).T @ away
        return -(true[:, None] * away).sum(0), curved


def _fitted(known: _Labelled, towards: np.ndarray, ridge: float, least: float = -np.inf) -> np.ndarray:
    """Newton's method from ``towards``; projected (Bertsekas 1982) to weights of at least ``least``."""
    weights = towards = np.asarray(towards, np.float64)

    def loss(tried: np.ndarray) -> float:
        return known.loss(tried) + 0.5 * ridge * float(((tried - towards) ** 2).sum())

    value = loss(weights)
    for _ in range(_STEPS):
        gradient, hessian = known.slopes(weights)
        gradient, hessian = gradient + ridge * (weights - towards), hessian + ridge * np.eye(len(weights))
        free = (weights > least) | (gradient < 0)  # a weight that stays at its bound takes no part
        step = np.zeros_like(weights)
        step[free] = np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
        # A step that does not help is halved until it does.
        tried = ((one, loss(one)) for one in (np.maximum(weights - step * 0.5**k, least) for k in range(8)))
        better, found = next(((one, now) for one, now in tried if now < value), (weights, value))
        gained, weights, value = value - found, better, found
        if gained <= _LITTLE * abs(value):
            break
    return weights
