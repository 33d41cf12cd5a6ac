"""Sums of float32 rows by segment whose rounding does not grow with the length of a segment.

A scatter adds one row after another: a sum of 5e6 equal numbers is off by 4 % of itself. XLA's own reductions are
made in parts already; scatters are not, nor are NumPy's sums along a leading axis of float32.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core.types import Array

BLOCK = 32
"""A segment of at most so many consecutive rows is added up in one go, as a scatter does it."""


def room(rows: int) -> list[int]:
    """How many parts there may be of so many rows, of so many parts, and so on, until they are few.

    >>> room(64), room(65), room(10_000)
    ([], [3], [313, 10])
    """
    found = []
    while rows > 2 * BLOCK:
        rows = -(-rows // BLOCK)
        found.append(rows)
    return found


def places(ids: Array | np.ndarray, segments: int) -> list[Array]:
    """Where each row is added, and then each part, for :func:`fold`; ``ids`` that are no segment are dropped.

    Rows of one segment should follow each other. In any other order the sums are right, and may round more.
    """
    # Block k of rows has a part: of the segment that block k - 1 began with. Shorter segments have no part.
    parts = room(len(ids))
    ids = jnp.asarray(ids)
    nowhere = segments + sum(parts)
    ids = jnp.where((ids >= 0) & (ids < segments), ids, nowhere)
    found, first = [], segments
    for count in parts:
        block = jnp.arange(len(ids), dtype=ids.dtype) // BLOCK
        before = ids.at[BLOCK * (block - 1)].get(mode="fill", fill_value=-1, wrap_negative_indices=False)
        found.append(jnp.where(ids == before, first + block, ids))
        owner = BLOCK * (jnp.arange(count, dtype=ids.dtype) - 1)
        ids = ids.at[owner].get(mode="fill", fill_value=nowhere, wrap_negative_indices=False)
        first += count
    return [*found, ids]


def add(total: Array, at: Array, rows: Array) -> Array:
    """Scatter rows; those of no place are dropped."""
    return total.at[at].add(rows, mode="drop", wrap_negative_indices=False)


def fold(total: Array, segments: int, parts: Sequence[Array]) -> Array:
    """The sums, after rows have been added to ``total`` [segments + room, ...]; ``parts`` follow their places."""
    first = segments
    for at in parts:
        total = add(total, at, jax.lax.slice_in_dim(total, first, first + len(at)))
        first += len(at)
    return total[:segments]


def segment_sum(rows: Array, ids: Array | np.ndarray, segments: int) -> Array:
    """The sum of the rows of each segment, [segments, ...]; differentiable in both modes.

    Its rounding is at most that of 64 additions a level, of which n rows have about log(n) / log(32).

    >>> many = jnp.full(1_000_000, 0.1)
    >>> float(abs(segment_sum(many, np.zeros(1_000_000, np.int32), 1)[0] / 1e5 - 1)) < 1e-6
    True
    """
    at, *parts = places(ids, segments)
    total = jnp.zeros_like(rows, shape=(segments + sum(map(len, parts)), *rows.shape[1:]))
    return fold(add(total, at, rows), segments, parts)
