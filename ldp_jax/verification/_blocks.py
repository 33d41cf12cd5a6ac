"""Rows of any number, asked in blocks of one shape: one compiled program serves them all."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

SIZE = 8192
"""Rows of a block."""


def block_of(rows: Any, start: int = 0) -> Any:
    """The block of stacked rows that begins at ``start``, filled up with its own rows."""

    def part(leaf: Any) -> Any:
        some = np.asarray(leaf)[start : start + SIZE]
        return some if len(some) == SIZE else np.resize(some, (SIZE, *some.shape[1:]))

    return jax.tree.map(part, rows)


def take(stacked: Any, place: Any) -> Any:
    """Some of stacked values, as NumPy arrays.

    >>> take((np.arange(3), np.arange(3) + 5), 1)
    (np.int64(1), np.int64(6))
    """
    return jax.tree.map(lambda leaf: np.asarray(leaf)[place], stacked)


def in_blocks(ask: Callable[[Any], Any], rows: Any) -> Any:
    """The answers of ``ask`` to stacked rows, as NumPy arrays.

    >>> in_blocks(jax.jit(lambda row: row + 1), np.arange(3)).tolist()
    [1, 2, 3]
    """
    rows = jax.tree.map(np.asarray, rows)
    count = len(jax.tree.leaves(rows)[0])
    found = [jax.tree.map(np.asarray, ask(block_of(rows, start))) for start in range(0, max(count, 1), SIZE)]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:count], *found)


def retraced(program: Any) -> Any:
    """A compiled function that is traced once more, whatever was traced before.

    >>> calls = []
    >>> double = jax.jit(lambda x: (calls.append(x), 2 * x)[1])
    >>> double(1).item(), double(2).item(), retraced(double)(3).item(), len(calls)
    (2, 4, 6, 2)
    """
    function = program.__wrapped__
    return jax.jit(functools.wraps(function)(lambda *args: function(*args)))
