"""Few posteriors weighed against each other on few labels.

Convex problems, in float64 on the host.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import scipy.optimize
from jaxtyping import Float, Int
from scipy.special import log_softmax
from threadpoolctl import threadpool_limits

from ldp_jax.core import validate
from ldp_jax.core.label_channel import other_share
from ldp_jax.core.types import AnyArray
from ldp_jax.servers.parts.self_training import FoldedLabels

one_thread = threadpool_limits.wrap(limits=1, user_api="blas")
"""For linear algebra of few columns, whose threads would wait for each other most of the time."""

# To the optimum: the least gain of a step, and the slope there.
_CLOSE = {"ftol": 1e-12, "gtol": 1e-7}

_Scores = Float[AnyArray, "n classes j"]
_Weights = Sequence[float] | Float[np.ndarray, " j"]


def combine(log_scores: _Scores, weights: Float[AnyArray, " j"]) -> Float[np.ndarray, "n classes"]:
    """The log posterior of weighted scores; float32."""
    return log_softmax(np.asarray(log_scores) @ np.asarray(weights), axis=1).astype(np.float32)


@one_thread
def stack(
    log_scores: _Scores,
    labels: Int[AnyArray, " n"],
    towards: _Weights = (0.0, 1.0, 1.0),
    *,
    ridge: float = 20.0,
) -> Float[np.ndarray, " j"]:
    r"""Step 10 of piloted counts.

    Weights of a conditional logit, one for each score, the same for all classes.

    Minimises :math:`-\sum_i \log p(y_i) + \frac{\rho}{2} \lVert w - w_0 \rVert^2`. With few labels
    the weights stay at ``towards``. ``log_scores`` are of each class by each source: log q, log f,
    l; ``labels`` -1 for rows that are not asked; the ridge rho > 0 pulls ``towards`` what is right
    if all models are.

    >>> stack(np.zeros((4, 2, 3)), np.array([0, 1, -1, -1])).tolist()
    [0.0, 1.0, 1.0]
    """
    validate.positive(ridge=ridge)
    labels = np.asarray(labels)
    known = np.flatnonzero(labels >= 0)
    return _fitted(np.asarray(log_scores)[known], labels[known], towards, ridge)


@one_thread
def stack_out_of_fold(
    log_scores: _Scores, known: FoldedLabels, towards: _Weights, *, ridge: float = 20.0
) -> tuple[Float[np.ndarray, "n classes"], Float[np.ndarray, " j"]]:
    """:func:`stack` with weights >= 0, and the log posterior that it gives.

    A labelled node's is out of fold. Sources of a labelled node must not have seen its label. It is
    weighed by what labels of other folds say, any other node by the weights that all labels give,
    which are returned.

    >>> y = np.arange(40) % 2
    >>> right = np.log([[0.8, 0.2], [0.2, 0.8]])[y]
    >>> both, labels = (
    ...     np.stack([right, right[:, ::-1]], -1),
    ...     np.where(np.arange(40) < 30, y, -1),
    ... )
    >>> known = FoldedLabels(labels, 2, np.arange(40) // 10 % 3, 3)
    >>> log_p, weights = stack_out_of_fold(both, known, (0.5, 0.5), ridge=3.0)
    >>> weights.astype(float).round(
    ...     1
    ... ).tolist()  # the contrary is left out, not turned round
    [1.7, 0.0]
    >>> bool((log_p.argmax(1) == y).all())
    True
    """
    validate.positive(ridge=ridge)
    log_scores = np.asarray(log_scores)
    nodes = known.nodes
    fold = np.asarray(known.fold)
    fitted = partial(_fitted, towards=towards, ridge=ridge, keep=known.keep, least=0.0)
    each = []
    for left_out in range(known.num_folds + 1):  # the last one is taught by all
        taught = nodes[fold[nodes] != left_out]
        each.append(fitted(log_scores[taught], known.labels[taught]))
    weights = np.stack(each)
    own = np.where(known.labels >= 0, fold, known.num_folds)
    scores = np.einsum("ncj,nj->nc", log_scores, weights[own])
    return log_softmax(scores, axis=1).astype(np.float32), weights[-1]


def _fitted(
    scores: np.ndarray,
    labels: np.ndarray,
    towards: _Weights,
    ridge: float,
    *,
    keep: float = 1.0,
    least: float = -np.inf,
) -> np.ndarray:
    """The best weights >= ``least`` by scores [m, C, J] and labels that are true with ``keep``.

    Float32.
    """
    scores = np.asarray(scores, np.float64)
    towards = np.asarray(towards, np.float64)
    here = np.arange(len(labels))
    scores = scores - scores.mean(1, keepdims=True)
    own = scores[here, labels]

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        log_p = log_softmax(scores @ weights, axis=1)
        slope = np.einsum("ncj,nc->nj", scores, np.exp(log_p)) - own
        log_reported = log_p[here, labels]
        true = 1.0
        away = weights - towards
        if keep < 1.0:  # the channel's part: P(report), and P(label is true | report)
            other = other_share(keep, log_p.shape[1])
            log_true = np.log(keep - other) + log_reported
            log_reported = np.logaddexp(np.log(other), log_true)
            true = np.exp(log_true - log_reported)[:, None]
        value = 0.5 * ridge * float(away @ away) - float(log_reported.sum())
        return value, (true * slope).sum(0) + ridge * away

    bounds = scipy.optimize.Bounds(least, np.inf)
    found = scipy.optimize.minimize(
        loss, towards, jac=True, method="L-BFGS-B", bounds=bounds, options=_CLOSE
    )
    return found.x.astype(np.float32)
