"""Compute the results of many users a block at a time, so that they fit a processor's cache."""

import math
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import jax
import jax.numpy as jnp

from ldp_jax.core.types import Array, Scalar

_T = TypeVar("_T")
_IN_CACHE = 2**17
"""Numbers of results, of four bytes, beside which a core's cache holds a few of their making."""


def by_blocks(part: Callable[[Scalar, int], _T], count: int, block: int | None = None) -> _T:
    """Compute ``part(start, size)`` of each block, within compiled code.

    The result is a tree of arrays [count, ...]. ``size`` is at most ``block``. By default a CPU
    takes as many as fit its cache, and an accelerator all. The last blocks may overlap, so that all
    have one size: ``part`` is a function of the place.
    """
    made = jax.eval_shape(lambda: part(0, min(1, count)))
    if block is None:
        each = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(made))
        block = max(1, _IN_CACHE // max(1, each)) if jax.default_backend() == "cpu" else count
    blocks = max(1, math.ceil(count / block))
    size = math.ceil(count / blocks)
    if blocks == 1:
        return part(0, size)

    def put(i: Array, whole: _T) -> _T:
        start = jnp.minimum(i * size, count - size)
        update = partial(jax.lax.dynamic_update_slice_in_dim, allow_negative_indices=False)
        put_one = lambda leaf, new: update(leaf, new, start, 0)
        return jax.tree.map(put_one, whole, part(start, size))

    def empty(leaf: jax.ShapeDtypeStruct) -> Array:
        zeros = jnp.zeros((count, *leaf.shape[1:]), leaf.dtype)
        kind = leaf.manual_axis_type
        if not kind:
            return zeros
        return jax.lax.pcast(zeros, tuple(kind.varying), to="varying")  # within ``shard_map``

    return jax.lax.fori_loop(0, blocks, put, jax.tree.map(empty, made))
