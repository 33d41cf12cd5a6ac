"""Rows of any number, asked in blocks of one shape: one compiled program serves them all."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

SIZE = 8192
"""Rows of a block."""


def in_blocks(ask: Callable[[Any], Any], rows: Any) -> Any:
    """What ``ask`` says of stacked rows, NumPy arrays; the last block is filled up with its own rows once more.

    >>> in_blocks(jax.jit(lambda row: row + 1), np.arange(3)).tolist()
    [1, 2, 3]
    """
    rows = jax.tree.map(np.asarray, rows)
    count = len(jax.tree.leaves(rows)[0])

    def block(leaf: Any, start: int) -> Any:
        part = leaf[start : start + SIZE]
        return part if len(part) == SIZE else np.resize(part, (SIZE, *leaf.shape[1:]))

    take = lambda start: jax.tree.map(lambda leaf: block(leaf, start), rows)
    found = [jax.tree.map(np.asarray, ask(take(start))) for start in range(0, max(count, 1), SIZE)]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:count], *found)


def anew(program: Any) -> Any:
    """A compiled function that is traced once more, whatever it remembers.

    >>> calls = []
    >>> double = jax.jit(lambda x: (calls.append(x), 2 * x)[1])
    >>> double(1).item(), double(2).item(), anew(double)(3).item(), len(calls)
    (2, 4, 6, 2)
    """
    function = program.__wrapped__
    return jax.jit(functools.wraps(function)(lambda *args: function(*args)))
