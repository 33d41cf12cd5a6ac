"""The classifier that every device runs on its own record.

Learned from the panel, broadcast, public.
"""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from ldp_jax.core import validate
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, Array
from ldp_jax.servers.parts.confusion import ScoredPanel
from ldp_jax.servers.parts.rows import DenseRows, Rows
from ldp_jax.servers.parts.self_training import FoldedLabels, Lesson, regression

RIDGES = (2.0, 0.4, 0.08, 0.016, 0.0032)
"""Weights of half the squared norm beside the summed loss: a panel is small, and its records have
length 1.
"""

# Columns of a design are padded to a multiple of it, so that regressions on like panels share a
# program.
_WIDTH = 96


class DeviceClassifier(NamedTuple):
    """A multinomial logistic regression; made by :func:`device_classifier`.

    Attributes:
      weights: float32 [d, C], for records scaled to length 1
        (:func:`~ldp_jax.servers.parts.rows.feature_rows`).
      panel_scores: float32 [panel, C], log posteriors of the panel's records by models that have
        not seen them.
    """

    weights: Float[Array, "d classes"]
    bias: Float[Array, " classes"]
    panel_scores: Float[Array, "panel classes"]
    ridge: float

    __repr__ = by_shapes

    def scores(self, rows: Rows | DenseRows) -> Float[Array, "n classes"]:
        """Log-scores of classes, as devices make them of their records.

        ``ValueError`` for another dimension.
        """
        if rows.shape[1] != self.weights.shape[0]:
            raise ValueError(
                f"rows must have {self.weights.shape[0]} features, as the panel, "
                f"got {rows.shape[1]}"
            )
        return _scores(rows, self.weights, self.bias)

    def scored(self, known: FoldedLabels) -> ScoredPanel:
        """The panel as the classifier finds it; ``known`` are its labels among all users."""
        return ScoredPanel(self.panel_scores, known.labels[known.nodes], known.keep)


@jax.jit
def _scores(rows: Rows | DenseRows, weights: Array, bias: Array) -> Array:
    return rows.times(weights) + bias


def device_classifier(
    rows: Rows | DenseRows, panel: FoldedLabels, *, room: int | None = None
) -> DeviceClassifier:
    """Step 2 of local prediction: f, from the panel's records and labels alone.

    The ridge is chosen out of fold, as
    :func:`~ldp_jax.servers.parts.self_training.features_posterior` does. The mean of the folds'
    weights is broadcast; each of them has seen all the panel but its fold. ``rows`` are the panel's
    records, ``panel`` labels of these, all of them known; panels of no more than ``room`` rows
    share a program. ``ValueError`` for no labels, or of another number than rows.

    >>> y = np.arange(20) % 2
    >>> rows = DenseRows(np.eye(2, dtype=np.float32)[y])
    >>> labels = np.where(np.arange(20) == 0, 1, y)  # the first label is wrong
    >>> found = device_classifier(
    ...     rows, FoldedLabels(labels, 2, np.arange(20) // 2 % 2, 2)
    ... )
    >>> int(found.panel_scores[0].argmax())  # by a model that has not seen it
    0
    >>> two = DenseRows(np.float32([[0.9, 0.1], [0.1, 0.9]]))  # of two devices
    >>> found.scores(two).argmax(1).tolist()
    [0, 1]
    """
    labels = panel.labels
    if rows.shape[0] != len(labels):
        raise ValueError(f"rows must be of the panel's {len(labels)} members, got {rows.shape[0]}")
    if not len(labels):
        raise ValueError(
            "labels must be of at least one member of the panel, got none to learn from"
        )
    validate.integer_in(2, num_classes=panel.num_classes)
    validate.integer_in(2, num_folds=panel.num_folds)
    scores, ridge, weights = regression(rows, Lesson.of(panel), ridges=RIDGES, room=room)
    mean = np.asarray(weights).reshape(len(weights), panel.num_folds, -1).mean(1)  # on the host
    slopes, bias = jax.device_put((mean[:-1], mean[-1]))
    return DeviceClassifier(slopes, bias, scores, ridge)


def panel_regression(
    design: Float[AnyArray, "n width"], known: FoldedLabels
) -> Float[Array, "n classes"]:
    """Log posteriors of a logistic regression on dense public columns.

    A labelled node's is out of fold. Columns should be of like size, such as 1 / sqrt(width).
    """
    design = np.asarray(design, np.float32)
    missing = -design.shape[1] % _WIDTH
    rows = DenseRows(np.pad(design, ((0, 0), (0, missing))))
    log_p, *_ = regression(rows, Lesson.of(known), ridges=RIDGES, by_weights=True)
    return log_p


def count_regression(
    log_q: Float[AnyArray, "n classes"],
    reports: Int[AnyArray, "n groups"],
    known: FoldedLabels,
    reported: np.ndarray,
) -> Float[Array, "n classes"]:
    """The log posterior of a logistic regression on log q and noisy counts.

    A labelled user's is out of fold.

    Where friends share what features say as well (a house, a subject), the evidence of
    :mod:`ldp_jax.servers.parts.count_evidence` repeats the features. A regression on both weighs
    them by labels, but has many more unknowns:
    :func:`~ldp_jax.servers.parts.label_odds.log_odds` decides. ``log_q`` of a labelled user is by a
    model that has not seen the label; groups that were not asked for are columns of 0. Labels of
    the silent are not read, and their posterior is q.

    >>> y = np.arange(200) % 2
    >>> noise = np.random.default_rng(0).integers(-3, 4, (200, 2))
    >>> reports = np.stack([8 * y, 8 - 8 * y], 1) + noise
    >>> q, labels = (
    ...     np.full((200, 2), np.log(0.5), np.float32),
    ...     np.where(np.arange(200) < 60, y, -1),
    ... )
    >>> known = FoldedLabels(labels, 2, np.arange(200) // 2 % 3, 3)
    >>> bool(
    ...     (
    ...         count_regression(q, reports, known, np.ones(200, bool)).argmax(1)
    ...         == y
    ...     ).all()
    ... )
    True
    """
    columns = np.concatenate([np.asarray(log_q), np.asarray(reports)], 1).astype(np.float64)
    seen = columns[reported]
    columns = np.where(
        reported[:, None], (columns - seen.mean(0)) / np.maximum(seen.std(0), 1e-6), 0.0
    )
    found = panel_regression(columns, known._replace(labels=np.where(reported, known.labels, -1)))
    return jax.device_put(np.where(reported[:, None], found, log_q))
