"""What several papers' experiments share: fingerprints of data, a baseline of labels alone, standard columns."""

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax import datasets
from ldp_jax.graph import propagation
from ldp_jax.learning import metrics


def fingerprint(data: datasets.Dataset) -> str:
    """Short sha256 of a data set's arrays."""
    digest = hashlib.sha256()
    bounds = np.array([data.lower, data.upper], np.float64)
    for array in (bounds, data.edges, data.x.indptr, data.x.indices, data.x.data, data.y):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:10]


class LabelPropagation(NamedTuple):
    """PageRank of the training labels: its scores, and the first alpha and r that do best in validation."""

    test: float
    validation: float
    alpha: float
    r: float


def label_propagation(
    op: propagation.Operator,
    train: Any,
    validation: Any,
    test: Any,
    *,
    alphas: Sequence[float],
    rs: Sequence[float],
    tol: float,
    classes: int,
) -> LabelPropagation:
    """What a graph says of the classes of its nodes without any feature and without training.

    Args:
      op: the graph.
      train: :class:`ldp_jax.learning.training.Examples`.
      validation: likewise.
      test: likewise.
      alphas: decay factors to choose from.
      rs: convolution coefficients to choose from, each with each alpha.
      tol: relative error of the propagation.
      classes: how many there are.
    """
    grid = [(alpha, r) for alpha in alphas for r in rs]
    columns = jnp.asarray(grid, jnp.float32).T
    validations, tests = _label_propagation(
        op, train, validation, test, *columns, jnp.float32(tol), classes=classes
    )
    best = int(np.argmax(validations))
    return LabelPropagation(float(tests[best]), float(validations[best]), *grid[best])


@partial(jax.jit, static_argnames="classes")
def _label_propagation(
    op: Any, train: Any, validation: Any, test: Any, alphas: Any, rs: Any, tol: Any, *, classes: int
) -> Any:
    """Validation and test accuracy for each alpha and r."""
    known = jnp.zeros((op.num_nodes, classes)).at[train.index, train.label].set(1.0)

    def one(pair: Any) -> Any:
        alpha, r = pair
        scores = propagation.ppr(op, known, alpha, r, tol)
        return tuple(metrics.accuracy(scores[part.index], part.label) for part in (validation, test))

    return jax.lax.map(one, (alphas, rs))


def standardized(z: Any) -> Any:
    """Every column to mean 0 and standard deviation 1; a constant column to 0.

    On the host in float64: XLA's float32 column sums depend on how many threads share them, which trained rows
    then show in points.
    """
    host = np.asarray(z)
    out = np.empty_like(host)
    for start in range(0, host.shape[1], _COLUMNS):
        block = host[:, start : start + _COLUMNS].astype(np.float64)
        centred = block - block.mean(0)
        deviation = np.sqrt((centred**2).mean(0))
        constant = deviation <= 1e-6 * np.abs(block).max(0)  # float32 noise around one value is no signal
        out[:, start : start + _COLUMNS] = np.where(constant, 0.0, centred / np.where(constant, 1.0, deviation))
    return jnp.asarray(out)


_COLUMNS = 512
"""Columns that are standardised at a time: float64 copies stay small."""
