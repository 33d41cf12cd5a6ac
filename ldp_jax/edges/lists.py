"""Neighbour lists and the reports about them."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core.list_ids import host_ids, ids_of
from ldp_jax.core.shown import by_shapes, shape_of
from ldp_jax.core.types import AnyArray, Array, Scalar


class NeighbourList(NamedTuple):
    """The neighbours of one user.

    The capacity is a shape of compiled programs, and public. Mechanisms pass any list on the host
    through :meth:`of`.

    ``ids``, int32 [capacity], are sorted and distinct, n where there is none; ``count``, int32, is
    how many are.
    """

    ids: AnyArray
    count: Scalar

    def __repr__(self) -> str:
        return f"NeighbourList(ids={shape_of(self.ids)})"  # how many there are is private, too

    @classmethod
    def of(cls, ids: object, n: int) -> "NeighbourList":
        """The list of capacity n of some ids on the host, whatever they are: NumPy arrays, alone.

        Repeats, and all but whole numbers in [0, n), are dropped without a warning; ``TypeError``
        for the row of a matrix, booleans alone. (A JAX array of 32 bits would take 2^32 + 3 for 3:
        give lists that may hold such ids to this function, before ``vmap`` or ``jit``.)

        >>> NeighbourList.of([3, 10**12, 1, -1, 2**63, float("nan"), 1.5, None, 1], n=5)
        NeighbourList(ids=int32[5])
        """
        known = np.unique(host_ids(ids, n))
        count = np.int32(np.count_nonzero(known < n))
        padded = np.full(n, n, np.int32)
        padded[:count] = known[:count]
        return cls(padded, count)


class ListReport(NamedTuple):
    """One user's noisy degree, NaN where the mechanism sends none, and noisy list."""

    degree: Scalar
    neighbours: NeighbourList

    __repr__ = by_shapes


class LapReport(NamedTuple):
    """One user's noisy degree, any real number, and noisy bits float32 [n], NaN if not owned."""

    degree: Scalar
    values: AnyArray

    __repr__ = by_shapes


def to_list(bits: Array) -> NeighbourList:
    """Make a list of capacity n of bits [n]."""
    n = bits.shape[-1]
    ids = jnp.sort(jnp.where(bits, jnp.arange(n, dtype=jnp.int32), n))
    return NeighbourList(ids, bits.sum(-1).astype(jnp.int32))


def to_bits(neighbours: NeighbourList, n: int) -> Array:
    """Make bits [n] of a list; repeats and all but ids in [0, n) are dropped."""
    ids = neighbours.ids
    if not isinstance(ids, jax.Array):
        ids = NeighbourList.of(ids, n).ids
    return jnp.zeros(n, bool).at[ids_of(jnp, ids, n)].set(True, mode="drop")


def nodes_of(neighbours: NeighbourList) -> tuple[int, ...]:
    """List the neighbours on the host as a tuple."""
    return tuple(np.asarray(neighbours.ids)[: int(neighbours.count)].tolist())


def stacked(lists: Sequence[NeighbourList]) -> NeighbourList:
    """Stack lists of one capacity on the host."""
    return NeighbourList(*(np.stack(leaves) for leaves in zip(*lists, strict=True)))
