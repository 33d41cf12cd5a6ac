"""Cora, Citeseer and Pubmed from the files of ``kimiyoung/planetoid``: ``ind.<name>.*``.

Seven of the eight are pickles. Nothing of them is run: the reader makes numbers, lists and
dictionaries alone, and arrays of plain numbers from their bytes. Files of a name are opened after
their sha256 matched.
"""

import io
import pickle
import pickletools
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from ldp_jax.datasets._arrays import (
    Arrays,
    Files,
    csr_arrays,
    integers,
    simple_edges,
    whole_numbers,
)
from ldp_jax.datasets._format import checked_csr

PARTS = ("y", "tx", "ty", "allx", "ally", "graph", "test.index")
_VALIDATION_NODES = 500  # the public split: as many nodes after the training nodes


class _Type:
    """A pickled ``numpy.dtype`` of plain numbers."""

    def __init__(self, kind: str, *_: object) -> None:
        if not (isinstance(kind, str) and re.fullmatch(r"b1|[iuf][1248]", kind)):
            raise pickle.UnpicklingError("pickle asks for an array that is not of plain numbers")
        self.kind = np.dtype(kind)

    def __setstate__(self, state: tuple) -> None:
        self.kind = self.kind.newbyteorder(">" if state[1] == ">" else "<")

    def read(self, raw: bytes | str) -> np.ndarray:
        if isinstance(raw, str):
            raw = raw.encode("latin1")
        return np.frombuffer(raw, self.kind)


class _Array:
    """A pickled ``numpy.ndarray``: its numbers, none of NumPy's code for pickles."""

    values = np.zeros(0)

    def __setstate__(self, state: tuple) -> None:
        _, shape, kind, fortran, raw = state
        self.values = kind.read(raw).reshape(shape, order="F" if fortran else "C")


class _Matrix:
    """A pickled ``scipy.sparse.csr_matrix``: its state, none of its code."""

    def csr(self) -> scipy.sparse.csr_array:
        state = vars(self)
        shape = state.get("_shape", state.get("shape"))
        indptr, indices, data = (state[part].values for part in ("indptr", "indices", "data"))
        return checked_csr(indptr, indices, data, np.array(shape))


def _rebuild(wanted: type, cls: type, *_: object) -> object:
    """A new ``wanted``, the only class that a pickle may ask to rebuild at this place."""
    if cls is not wanted:
        raise pickle.UnpicklingError(
            f"pickle asks to rebuild {cls.__name__}, which no such file needs"
        )
    return wanted()


_ADMITTED: Mapping[tuple[str, str], object] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("numpy.core.multiarray", "_reconstruct"): partial(_rebuild, _Array),
    ("numpy.core.multiarray", "scalar"): lambda kind, raw: kind.read(raw)[0],
    ("scipy.sparse.csr", "csr_matrix"): _Matrix,
    ("copy_reg", "_reconstructor"): partial(_rebuild, _Matrix),
    ("__builtin__", "object"): object,
    ("__builtin__", "int"): int,
    ("__builtin__", "list"): list,
    ("__builtin__", "dict"): dict,
    ("collections", "defaultdict"): defaultdict,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        if (module, name) not in _ADMITTED:
            asked = f"pickle asks for {module}.{name}, which no such file needs"
            raise pickle.UnpicklingError(asked)
        return _ADMITTED[module, name]


def unpickle(data: bytes) -> Any:
    """One pickled file, written by Python 2."""
    for opcode, argument, _ in pickletools.genops(data):
        # Others may claim memory for what is not there.
        place = argument if opcode.name.endswith("PUT") else 0
        if opcode.proto > 2 or not isinstance(place, int) or place > len(data):
            raise pickle.UnpicklingError(
                "pickle must be of protocol 2 or lower, as Python 2 writes them"
            )
    return _Unpickler(io.BytesIO(data), encoding="latin1").load()


def parse(files: Files, *, dataset: str) -> Arrays:
    """The arrays of the uniform format, with the public ``split``.

    It is 1 for training, 2 for validation, 3 for test nodes, and 0 for others. The test nodes stand
    in ``tx`` and ``ty`` in the order of ``test.index``; ids that this index leaves out (isolated
    nodes of Citeseer) have neither features nor a label and get zeros and class 0.
    """
    return _arrays(*_parts(files, dataset), unlabelled=0)


def parse_users(files: Files, *, dataset: str, max_bytes: int) -> Arrays:
    """:func:`parse` of files that no digest pins: a node without a label has class -1."""
    try:
        parts, test = _parts(files, dataset)
        hot = np.concatenate([parts["ally"].values, parts["ty"].values])
        rows = parts["allx"].csr().shape[0], parts["tx"].csr().shape[0]
        placed = np.concatenate([np.arange(rows[0]), test])
        good = {
            "as many rows of features as of labels, and a line of test.index for each test row": (
                rows == (len(parts["ally"].values), len(parts["ty"].values))
                and rows[1] == len(test) > 0
            ),
            "each node once in test.index, and none beside those before": (
                placed.min() >= 0 and len(np.unique(placed)) == len(placed)
            ),
            f"ids in test.index whose features fit in {max_bytes} bytes": (
                8 * placed.max() < max_bytes
            ),
            "rows of 0 and of at most one 1 as labels": (
                np.isin(hot, (0, 1)).all() and hot.sum(1).max() <= 1
            ),
        }
        missing = [what for what, holds in good.items() if not holds]
        arrays = None if missing else _arrays(parts, test, unlabelled=-1)
    except Exception as error:  # a damaged pickle makes anything
        raise ValueError(
            f"ind.{dataset}.* must be the files of Planetoid, pickles of Python 2 with arrays of "
            f"numbers, and reading them raised {type(error).__name__}"
        ) from None
    if arrays is None:
        raise ValueError(f"ind.{dataset}.* must hold {missing[0]}, and do not")
    return arrays


def _parts(files: Files, dataset: str) -> tuple[dict[str, Any], np.ndarray]:
    parts = {part: unpickle(files[f"ind.{dataset}.{part}"]) for part in PARTS[:-1]}
    return parts, whole_numbers(files[f"ind.{dataset}.test.index"])


def _arrays(parts: Mapping[str, Any], test: np.ndarray, *, unlabelled: int) -> Arrays:
    allx = parts["allx"].csr()
    tx = parts["tx"].csr()
    labelled = len(parts["y"].values)
    known = allx.shape[0]
    n = int(test.max()) + 1
    stacked = scipy.sparse.vstack([allx, tx]).tocoo()
    node_of_row = np.concatenate([np.arange(known), test])
    places = (node_of_row[stacked.row], stacked.col)
    x = scipy.sparse.coo_array((stacked.data, places), shape=(n, allx.shape[1]))

    hot = np.concatenate([parts["ally"].values, parts["ty"].values])
    y = np.full(n, unlabelled, np.int32)
    y[node_of_row] = np.where(hot.any(1), hot.argmax(1), unlabelled)
    split = np.zeros(n, np.int8)
    split[:labelled] = 1
    split[labelled : labelled + _VALIDATION_NODES] = 2
    split[test] = 3

    lists = parts["graph"]
    pairs = [(node, other) for node in lists for other in lists[node]]
    edges = integers("graph", np.array(pairs or np.zeros((0, 2), int)), np.int64)
    return {"edges": simple_edges(edges), **csr_arrays(x), "y": y, "split": split}
