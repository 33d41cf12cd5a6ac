"""Counts as columns of a logistic regression: no law of counts, and so no law of counts that is wrong.

The evidence of :mod:`ldp_jax.pipeline.counts` takes a user's groups for independent given her class. Where friends
share what features say as well (a house, a subject), they are not: evidence then repeats the features, and is too
sure of itself. A regression on both weighs them by labels. It has many more unknowns than the law, so that with few
labels the law may be better; :func:`~ldp_jax.pipeline.stack.likeliest` decides.
"""

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from ldp_jax.core.types import Array
from ldp_jax.pipeline.device_classifier import panel_regression


def count_regression(
    log_q: Float[Array | np.ndarray, "n classes"],
    reports: Int[Array | np.ndarray, "n groups"],
    labels: Int[np.ndarray, " n"],
    reported: Bool[np.ndarray, " n"],
    fold: Int[Array | np.ndarray, " n"],
    *,
    num_folds: int,
) -> Float[Array, "n classes"]:
    """The log posterior of a logistic regression on log q and noisy counts; of a labelled user out of fold.

    Columns are standardised over those who reported; the ridge is chosen out of fold.

    Args:
      log_q: from public features alone, of a labelled user by a model that has not seen her label.
      reports: noisy counts; groups that were not asked for are columns of 0.
      labels: -1 for none.
      reported: who did. Labels of others are not read, and their posterior is q.
      fold: of each user, in [0, F).
      num_folds: F.

    >>> y = np.arange(200) % 2
    >>> reports = np.stack([8 * y, 8 - 8 * y], 1) + np.random.default_rng(0).integers(-3, 4, (200, 2))
    >>> q, labels = np.full((200, 2), np.log(0.5), np.float32), np.where(np.arange(200) < 60, y, -1)
    >>> found = count_regression(q, reports, labels, np.ones(200, bool), np.arange(200) // 2 % 3, num_folds=3)
    >>> bool((found.argmax(1) == y).all())
    True
    """
    columns = np.concatenate([np.asarray(log_q), np.asarray(reports)], 1).astype(np.float64)
    seen = columns[reported]
    columns = (columns - seen.mean(0)) / np.maximum(seen.std(0), 1e-6)
    found = panel_regression(
        np.where(reported[:, None], columns, 0.0).astype(np.float32),
        np.where(reported, labels, -1),
        fold,
        num_classes=log_q.shape[1],
        num_folds=num_folds,
    )
    return jax.device_put(np.where(reported[:, None], found, log_q))
