"""Small steps from the raw public formats to the arrays of the uniform one."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse


def whole_numbers(data: bytes) -> np.ndarray:
    r"""Whole numbers between white space, int64, without a Python object for each.

    Raises:
      ValueError: where anything else stands between them.

    >>> whole_numbers(b"3 1\n20").tolist()
    [3, 1, 20]
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # how older NumPy says that it stopped midway
        try:
            return np.fromstring(data, np.int64, sep=" ")
        except DeprecationWarning as error:
            raise ValueError(str(error)) from error


def distinct(codes: np.ndarray) -> np.ndarray:
    """Whole numbers from 0, sorted, each once; ``np.unique`` may hash them, which takes a hundred times as long.

    >>> distinct(np.array([3, 0, 3])).tolist()
    [0, 3]
    """
    codes = np.sort(codes)
    return codes[np.diff(codes, prepend=-1) > 0]


def simple_edges(pairs: Any) -> np.ndarray:
    """Undirected simple edges, each once with u < v, sorted, int32: direction, repeats and self-loops go.

    >>> simple_edges([[1, 0], [0, 1], [2, 2], [1, 2]]).tolist()
    [[0, 1], [1, 2]]
    """
    pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
    low, high = pairs.min(1), pairs.max(1)
    if len(pairs) and (low.min() < 0 or high.max() >= 2**31):
        bad = pairs[(low < 0) | (high >= 2**31)][0]
        raise ValueError(f"edges must join node ids in [0, 2**31), got {tuple(bad.tolist())}")
    code = distinct((low << 32 | high)[low != high])
    return np.stack([code >> 32, code & 0xFFFFFFFF], 1).astype(np.int32)


def csr_arrays(x: Any) -> dict[str, np.ndarray]:
    """The four ``x_`` arrays of a sparse matrix: rows sorted, no stored zeros."""
    x = scipy.sparse.csr_array(x)
    x.sum_duplicates()
    x.eliminate_zeros()
    return {
        "x_indptr": x.indptr.astype(np.int32),
        "x_indices": x.indices.astype(np.int32),
        "x_values": x.data.astype(np.float32),
        "x_shape": np.array(x.shape, np.int64),
    }


def attribute_arrays(lists: Sequence[Sequence[int]], num_features: int) -> dict[str, np.ndarray]:
    """The four ``x_`` arrays of lists of attributes: 1 where a node has one, however often it is listed.

    >>> attribute_arrays([[2, 0, 2], []], 3)["x_indices"].tolist()
    [0, 2]
    """
    rows = [sorted({int(j) for j in row}) for row in lists]
    for node, row in enumerate(rows):
        if row and not 0 <= row[0] <= row[-1] < num_features:
            bad = row[0] if row[0] < 0 else row[-1]
            raise ValueError(f"features of node {node} must be in [0, {num_features}), got {bad}")
    return {
        "x_indptr": np.cumsum([0, *map(len, rows)]).astype(np.int32),
        "x_indices": np.array([j for row in rows for j in row], np.int32),
        "x_values": np.ones(sum(map(len, rows)), np.float32),
        "x_shape": np.array([len(rows), num_features], np.int64),
    }
