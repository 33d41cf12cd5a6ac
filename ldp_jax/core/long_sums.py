"""Sums of float32 rows by segment whose rounding does not grow with the length of a segment.

A scatter adds one row after another: a sum of 5e6 equal numbers is off by 4 % of itself. XLA's own
reductions are made in parts already; scatters are not, nor are NumPy's sums along a leading axis of
float32.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core.types import AnyArray, Array

BLOCK = 32
"""A segment of at most so many consecutive rows is added up in one go, as a scatter does it."""


def room(rows: int) -> list[int]:
    """Return how many parts the rows have, how many parts those have, and so on.

    >>> room(64), room(65), room(10_000)
    ([], [3], [313, 10])
    """
    found = []
    while rows > 2 * BLOCK:
        rows = -(-rows // BLOCK)
        found.append(rows)
    return found


def _not_constant(ids: AnyArray) -> Array:
    """Keep the compiler from folding a constant graph, which may take minutes."""
    return jax.lax.optimization_barrier(jnp.asarray(ids))


def sorted_order(ids: AnyArray) -> Array:
    """Return the order that sorts rows by segment."""
    return jnp.argsort(_not_constant(ids), stable=True)


def places(ids: AnyArray, segments: int) -> list[Array]:
    """Return where each row is added, and then each part, for :func:`fold`.

    ``ids`` that are no segment are dropped. Rows of one segment should follow each other. In any
    other order the sums are right, and may round more.
    """
    # Block k of rows has a part: of the segment that block k - 1 began with. Shorter segments have
    # no part.
    parts = room(len(ids))
    ids = _not_constant(ids)
    nowhere = segments + sum(parts)
    ids = jnp.where((ids >= 0) & (ids < segments), ids, nowhere)
    found = []
    first = segments
    for count in parts:
        block = jnp.arange(len(ids), dtype=ids.dtype) // BLOCK
        start = BLOCK * (block - 1)
        before = ids.at[start].get(mode="fill", fill_value=-1, wrap_negative_indices=False)
        found.append(jnp.where(ids == before, first + block, ids))
        owner = BLOCK * (jnp.arange(count, dtype=ids.dtype) - 1)
        ids = ids.at[owner].get(mode="fill", fill_value=nowhere, wrap_negative_indices=False)
        first += count
    return [*found, ids]


def places_in_any_order(ids: AnyArray, segments: int) -> list[Array]:
    """Return :func:`places` of rows whose segments come in any order, by sorting them."""
    order = sorted_order(ids)
    at, *parts = places(jnp.asarray(ids)[order], segments)
    return [jnp.zeros_like(at).at[order].set(at, unique_indices=True), *parts]


def add(total: Array, at: AnyArray, rows: Array, *, in_order: bool = False) -> Array:
    """Scatter rows; those of no place are dropped. Places ``in_order`` do not decrease."""
    return total.at[at].add(
        rows, mode="drop", indices_are_sorted=in_order, wrap_negative_indices=False
    )


def with_room(total: Array, parts: Sequence[Array]) -> Array:
    """Append zeros for the parts to sums [segments, ...]."""
    missing = sum(map(len, parts))
    other_axes = [(0, 0)] * (total.ndim - 1)
    return jnp.pad(total, [(0, missing), *other_axes])


def fold(total: Array, segments: int, parts: Sequence[Array]) -> Array:
    """Add the parts of ``total`` [segments + room, ...] up, after all rows have been added."""
    first = segments
    for at in parts:
        total = add(total, at, jax.lax.slice_in_dim(total, first, first + len(at)))
        first += len(at)
    return total[:segments]


def segment_sum(rows: Array, ids: AnyArray, segments: int, *, any_order: bool = False) -> Array:
    """Sum the rows of each segment, [segments, ...]; differentiable in both modes.

    Its rounding is at most that of 64 additions a level, of which n rows have about log(n) /
    log(32).

    >>> many, one = jnp.full(10_000, 0.1), np.zeros(10_000, np.int32)
    >>> float(abs(segment_sum(many, one, 1)[0] / 1e3 - 1)) < 1e-6
    True
    """
    placed = places_in_any_order if any_order else places
    at, *parts = placed(ids, segments)
    start = jnp.zeros_like(rows, shape=(segments, *rows.shape[1:]))
    total = add(with_room(start, parts), at, rows)
    return fold(total, segments, parts)


def column_means(values: np.ndarray) -> np.ndarray:
    """Return the mean of each column on the host, in float32 or float64.

    NumPy adds up float32 rows one after another: of 10^7 equal ones the mean is off by 9 %.

    >>> column_means(np.full((2, 1), 0.5, np.float32))
    array([0.5], dtype=float32)
    """
    return values.mean(0, dtype=np.float64).astype(np.result_type(values, np.float32))
