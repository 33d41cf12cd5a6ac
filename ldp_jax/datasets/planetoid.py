"""Cora, Citeseer and Pubmed from the files of ``kimiyoung/planetoid``: ``ind.<name>.*``.

Seven of the eight are pickles, opened after their sha256 matched, by an unpickler that knows few types.
"""

import io
import pickle
from collections import defaultdict
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse

from ldp_jax.datasets._arrays import csr_arrays, simple_edges, whole_numbers

_VALIDATION_NODES = 500  # the public split: as many nodes after the training nodes


class _Matrix:
    """A pickled ``scipy.sparse.csr_matrix``: its state, none of its code."""

    def csr(self) -> scipy.sparse.csr_array:
        state = vars(self)
        shape = state.get("_shape", state.get("shape"))
        return scipy.sparse.csr_array((state["data"], state["indices"], state["indptr"]), shape=shape)


def _rebuild(cls: type, base: type, state: object) -> _Matrix:
    """The one use of ``copyreg._reconstructor`` in these files."""
    if cls is not _Matrix or base is not object or state is not None:
        raise pickle.UnpicklingError(f"pickle asks to rebuild {cls.__name__}, which no such file needs")
    return _Matrix()


_ARRAY, _SCALAR = np.zeros(0).__reduce__()[0], np.float64(0).__reduce__()[0]

_ADMITTED: Mapping[tuple[str, str], object] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _ARRAY,
    ("numpy.core.multiarray", "scalar"): _SCALAR,
    ("scipy.sparse.csr", "csr_matrix"): _Matrix,
    ("copy_reg", "_reconstructor"): _rebuild,
    ("__builtin__", "object"): object,
    ("__builtin__", "int"): int,
    ("__builtin__", "list"): list,
    ("__builtin__", "dict"): dict,
    ("collections", "defaultdict"): defaultdict,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"pickle asks for {module}.{name}, which no such file needs") from None


def unpickle(data: bytes) -> Any:
    """One pickled file, written by Python 2; its bytes were checked against their sha256."""
    return _Unpickler(io.BytesIO(data), fix_imports=False, encoding="latin1").load()


def parse(files: Mapping[str, bytes], *, dataset: str) -> dict[str, np.ndarray]:
    """The arrays of the uniform format, with the public ``split`` (1 train, 2 validation, 3 test, 0 none).

    The test nodes stand in ``tx`` and ``ty`` in the order of ``test.index``; ids that this index leaves out
    (isolated nodes of Citeseer) have neither features nor a label and get zeros and class 0.
    """
    parts = {part: unpickle(files[f"ind.{dataset}.{part}"]) for part in ("y", "tx", "ty", "allx", "ally", "graph")}
    test = whole_numbers(files[f"ind.{dataset}.test.index"])
    allx, tx = parts["allx"].csr(), parts["tx"].csr()
    labelled, known, n = len(parts["y"]), allx.shape[0], int(test.max()) + 1
    stacked = scipy.sparse.vstack([allx, tx]).tocoo()
    node_of_row = np.concatenate([np.arange(known), test])
    x = scipy.sparse.coo_array((stacked.data, (node_of_row[stacked.row], stacked.col)), shape=(n, allx.shape[1]))
    y = np.zeros(n, np.int32)
    y[node_of_row] = np.concatenate([parts["ally"], parts["ty"]]).argmax(1)
    split = np.zeros(n, np.int8)
    split[:labelled] = 1
    split[labelled : labelled + _VALIDATION_NODES] = 2
    split[test] = 3
    lists = parts["graph"].values()
    ends = np.repeat(list(parts["graph"]), list(map(len, lists))), list(chain(*lists))
    return {"edges": simple_edges(np.stack(ends, 1)), **csr_arrays(x), "y": y, "split": split}
