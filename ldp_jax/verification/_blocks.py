"""Rows of any number, asked in blocks of one shape: one compiled program serves them all."""

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
    take = lambda start: jax.tree.map(
        lambda leaf: np.resize(leaf[start : start + SIZE], (SIZE, *leaf.shape[1:])), rows
    )
    found = [jax.tree.map(np.asarray, ask(take(start))) for start in range(0, max(count, 1), SIZE)]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:count], *found)
