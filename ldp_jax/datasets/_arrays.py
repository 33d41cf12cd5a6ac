"""Small steps from the raw public formats to the arrays of the uniform one."""

import re
import warnings
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, DTypeLike

from ldp_jax.core.validate import complete, require

Files: TypeAlias = dict[str, bytes]
"""The bytes of files by name."""

Arrays: TypeAlias = dict[str, np.ndarray]
"""Arrays by name, those of the uniform format or of a file."""


def whole_numbers(data: bytes) -> np.ndarray:
    """Whole numbers between white space, int64, without a Python object for each.

    ValueError for others.
    """
    if not data.strip():
        return np.zeros(0, np.int64)
    with warnings.catch_warnings():
        # This is how older NumPy says that it stopped midway.
        warnings.simplefilter("error", DeprecationWarning)
        try:
            numbers = np.fromstring(data, np.int64, sep=" ")
        except DeprecationWarning as error:
            raise ValueError(str(error)) from error
    limits = np.iinfo(np.int64)  # where NumPy stops, in silence, with what is beyond them
    require(
        ((numbers > limits.min) & (numbers < limits.max)).all(),
        f"whole numbers must be in ({limits.min}, {limits.max})",
    )
    return numbers


def table(text: bytes, name: str, of: str, width: int, *, shown: bool = True) -> np.ndarray:
    """Lines of ``width`` whole numbers with commas between them; int64 [lines, width].

    Empty lines do not count.

    ``ValueError`` for the first line (the n-th ``of``) that holds anything else, or a number of
    more than 18 digits; it shows the line where ``shown``: not where lines are private.
    """
    line = rb"\s*+" + rb",".join([rb"[ \t]*+[+-]?\d{1,18}[ \t]*+"] * width) + rb"\r?(?:\n|\Z)"
    matched = re.compile(rb"(?>%s)*+\s*+" % line).match(text)
    assert matched is not None  # it matches nothing at the least
    end = matched.end()
    if end < len(text):
        number = 1 + sum(1 for good in text[:end].split(b"\n") if good.strip())
        got = "something else"
        if shown:
            bad = text[end:].split(b"\n", 1)[0]
            got = repr(bad[:200].decode("latin1"))
        raise ValueError(
            f"each line of {name} must hold {width} whole numbers with commas between, "
            f"got {got} for {of} {number}"
        )
    return whole_numbers(text.replace(b",", b" ")).reshape(-1, width)


def distinct(codes: np.ndarray) -> np.ndarray:
    """Whole numbers from 0, sorted, each once.

    ``np.unique`` may hash them, a hundred times as slowly.
    """
    codes = np.sort(codes)
    return codes[np.diff(codes, prepend=-1) > 0]


def simple_edges(pairs: ArrayLike) -> np.ndarray:
    """Undirected simple edges, each once with u < v, sorted, int32.

    Direction, repeats and self-loops go.
    """
    pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
    low = pairs.min(1)
    high = pairs.max(1)
    bad = pairs[(low < 0) | (high >= 2**31)][:1].tolist()
    require(not bad, f"edges must join node ids in [0, 2**31), got {bad}")
    code = distinct((low << 32 | high)[low != high])
    return np.stack([code >> 32, code & 0xFFFFFFFF], 1).astype(np.int32)


def largest_connected(adjacency: scipy.sparse.sparray) -> np.ndarray:
    """The nodes of the largest connected component, ascending; of two, that of the least node."""
    # Slow to import, and few formats need it.
    from scipy.sparse.csgraph import connected_components

    _, component = connected_components(adjacency, directed=False)
    return np.flatnonzero(component == np.bincount(component).argmax())


def integers(field: str, array: ArrayLike, dtype: type[np.integer]) -> np.ndarray:
    """An array of whole numbers in a narrower type that holds them; messages show no entry."""
    array = complete(**{field: array})
    require(np.issubdtype(array.dtype, np.integer), f"{field} must be integers, got {array.dtype}")
    limits = np.iinfo(dtype)
    require(
        not array.size or limits.min <= array.min() <= array.max() <= limits.max,
        f"{field} must fit in {np.dtype(dtype)}",
    )
    return array.astype(dtype)


def csr_arrays(x: scipy.sparse.sparray | np.ndarray, kind: DTypeLike = np.float32) -> Arrays:
    """The four ``x_`` arrays of a sparse matrix: sorted rows, no stored zeros."""
    x = scipy.sparse.csr_array(x, copy=True)
    x.sum_duplicates()
    x.eliminate_zeros()
    return {
        "x_indptr": x.indptr.astype(np.int32),
        "x_indices": x.indices.astype(np.int32),
        "x_values": x.data.astype(kind),
        "x_shape": np.array(x.shape, np.int64),
    }


def attribute_arrays(lists: Sequence[Sequence[int]], num_features: int) -> Arrays:
    """The four ``x_`` arrays of attributes: 1 where a node has one, however often it is listed."""
    rows = [sorted({int(j) for j in row}) for row in lists]
    columns = np.array([j for row in rows for j in row], np.int64)
    require(
        ((columns >= 0) & (columns < num_features)).all(),
        f"features must be in [0, {num_features}), and some are not",
    )
    starts = np.cumsum([0, *map(len, rows)])
    ones = np.ones(len(columns), np.float32)
    shape = (len(rows), num_features)
    return csr_arrays(scipy.sparse.csr_array((ones, columns, starts), shape=shape))
