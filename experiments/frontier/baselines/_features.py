"""What baselines take from features and labels, which are public: a posterior, groups, and a held-out part."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from experiments.frontier.baselines._released import Asked
from ldp_jax.core.types import Array
from ldp_jax.learning.training import Examples
from ldp_jax.pipeline.rows import Rows
from ldp_jax.pipeline.self_training import features_posterior, folds

FOLDS = 5
"""Of the features' logistic regression, and of labels, of which one part in so many chooses and stops."""

_LAST: list[Any] = []
"""The last features, labels and their posterior: one split is asked by a dozen baselines."""


class Parts(NamedTuple):
    """Labels that are trained on, and others that choose and stop."""

    train: Examples
    validation: Examples


def posterior(asked: Asked) -> Array:
    """Log posterior of logistic regression, out of fold where labelled, or class shares; float32 [n, C]."""
    features, labels, num_classes = asked.rows, asked.labels, asked.classes
    for known, given, found in _LAST:
        if known is features and np.array_equal(given, labels) and found.shape[1] == num_classes:
            return found
    if features is None:
        share = np.bincount(labels[labels >= 0], minlength=num_classes) / max((labels >= 0).sum(), 1)
        log_q = jnp.tile(jnp.log(jnp.maximum(jnp.asarray(share, jnp.float32), 1e-6)), (len(labels), 1))
    else:
        fold = folds(jax.random.key(0), labels, FOLDS)
        log_q = features_posterior(features, labels, fold, num_classes=num_classes, num_folds=FOLDS).log_q
    _LAST[:] = [(features, labels.copy(), log_q)]
    return log_q


def groups(log_q: Float[Array | np.ndarray, "n classes"], labels: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """The class that is broadcast of each node: their label, else the likeliest."""
    return np.where(labels >= 0, labels, np.asarray(log_q).argmax(1)).astype(np.int32)


def parts(key: Any, labels: Int[np.ndarray, " n"]) -> Parts:
    """A fifth of the labels of each class is held out; all are in both parts where there are fewer than five."""
    fold = np.asarray(folds(key, labels, FOLDS))
    known = np.flatnonzero(labels >= 0).astype(np.int32)
    held = fold[known] == 0
    pieces = [known[~held], known[held]] if 0 < held.sum() < len(known) else [known, known]
    return Parts(*(Examples(index, labels[index]) for index in pieces))


def standardised(columns: Any) -> np.ndarray:
    """Columns of mean 0 and deviation 1 over all users; a constant column is 0. float32."""
    columns = np.asarray(columns, np.float64)
    return ((columns - columns.mean(0)) / np.maximum(columns.std(0), 1e-6)).astype(np.float32)


def regression(
    key: Any, columns: Float[np.ndarray, "n d"], labels: Int[np.ndarray, " n"], num_classes: int
) -> Float[np.ndarray, "n classes"]:
    """Log posterior of a logistic regression on standardised columns, its ridge chosen out of fold."""
    columns = standardised(columns)
    n, d = columns.shape
    row, column = np.repeat(np.arange(n, dtype=np.int32), d), np.tile(np.arange(d, dtype=np.int32), n)
    rows = Rows(*map(jnp.asarray, (row, column, columns.ravel())), shape=(n, d))
    fold = folds(key, labels, FOLDS)
    found = features_posterior(rows, labels, fold, num_classes=num_classes, num_folds=FOLDS)
    return np.asarray(found.log_q)
