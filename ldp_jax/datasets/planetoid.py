"""Cora, Citeseer and Pubmed from the files of ``kimiyoung/planetoid``: ``ind.<name>.*``.

Seven of the eight files are pickles. They are read only after their sha256 matched (the caller passes
checked bytes), and through an unpickler that knows numpy arrays, the adjacency dict and one inert stand-in
for scipy's matrix class: no other name can be looked up, let alone called.
"""

import io
import pickle
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse

from ldp_jax.datasets._arrays import csr_arrays, simple_edges, whole_numbers

_VALIDATION_NODES = 500  # the public split: as many nodes after the training nodes


class _Matrix:
    """What a pickled ``scipy.sparse.csr_matrix`` becomes: its state, none of its code."""


def _rebuild(cls: type, base: type, state: object) -> _Matrix:
    """The one use of ``copyreg._reconstructor`` in these files."""
    if cls is not _Matrix or base is not object or state is not None:
        raise pickle.UnpicklingError(f"pickle asks to rebuild {cls.__name__}, which no such file needs")
    return _Matrix()


# The module numpy.core went; what it held is reached without naming where it is now.
_ARRAY = np.empty(0).__reduce__()[0]
_SCALAR = np.float64(0).__reduce__()[0]

_ADMITTED: Mapping[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _ARRAY,
    ("numpy._core.multiarray", "_reconstruct"): _ARRAY,
    ("numpy.core.multiarray", "scalar"): _SCALAR,
    ("numpy._core.multiarray", "scalar"): _SCALAR,
    ("scipy.sparse.csr", "csr_matrix"): _Matrix,
    ("scipy.sparse._csr", "csr_matrix"): _Matrix,
    ("copyreg", "_reconstructor"): _rebuild,
    ("builtins", "object"): object,
    ("builtins", "int"): int,
    ("builtins", "list"): list,
    ("builtins", "dict"): dict,
    ("collections", "defaultdict"): defaultdict,
}


_NAMES_OF_PYTHON_2 = {"__builtin__": "builtins", "copy_reg": "copyreg"}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Only what is admitted."""
        module = _NAMES_OF_PYTHON_2.get(module, module)
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"pickle asks for {module}.{name}, which no such file needs") from None


def unpickle(data: bytes, where: str) -> Any:
    """Read one pickled file of Planetoid.

    Args:
      data: its bytes, checked against the published sha256 before this call.
      where: its name, for the message.

    Raises:
      ValueError: for a pickle that is cut short or asks for anything but arrays, lists and dicts.
    """
    try:
        return _Unpickler(io.BytesIO(data), encoding="latin1").load()
    except Exception as error:  # a broken pickle may raise anything
        raise ValueError(f"{where} is no pickle of arrays: {error}") from error


def _matrix(data: bytes, where: str) -> scipy.sparse.csr_array:
    state = vars(unpickle(data, where))
    shape = state.get("_shape", state.get("shape"))
    return scipy.sparse.csr_array((state["data"], state["indices"], state["indptr"]), shape=shape)


def parse(files: Mapping[str, bytes], *, dataset: str) -> dict[str, np.ndarray]:
    """The arrays of the uniform format, with the public ``split`` (1 train, 2 validation, 3 test, 0 none).

    The test nodes stand in ``tx`` and ``ty`` in the order of ``test.index``; ids that this index leaves out
    (isolated nodes of Citeseer) have neither features nor a label and get zeros and class 0.

    Args:
      files: the checked bytes of ``ind.<dataset>.{y,tx,ty,allx,ally,graph,test.index}``, by name.
      dataset: ``cora``, ``citeseer`` or ``pubmed``.
    """

    def part(suffix: str) -> tuple[bytes, str]:
        name = f"ind.{dataset}.{suffix}"
        return files[name], name

    labelled = len(np.asarray(unpickle(*part("y"))))
    allx, tx = _matrix(*part("allx")), _matrix(*part("tx"))
    ally, ty = np.asarray(unpickle(*part("ally"))), np.asarray(unpickle(*part("ty")))
    graph = unpickle(*part("graph"))
    test = whole_numbers(part("test.index")[0])

    known = allx.shape[0]
    n = max(known, int(test.max()) + 1)
    if len(test) != tx.shape[0] or len(test) != len(ty) or known != len(ally):
        raise ValueError(
            f"test.index, tx, ty must have equal lengths and allx, ally too, "
            f"got {len(test)}, {tx.shape[0]}, {len(ty)} and {known}, {len(ally)}"
        )
    if test.min() < known or len(np.unique(test)) != len(test):
        raise ValueError(f"test.index must name each node once, none below {known}, got {int(test.min())}")
    stacked = scipy.sparse.vstack([allx, tx]).tocoo()
    node_of_row = np.concatenate([np.arange(known), test])
    x = scipy.sparse.coo_array((stacked.data, (node_of_row[stacked.row], stacked.col)), shape=(n, allx.shape[1]))
    y = np.zeros(n, np.int32)
    y[node_of_row] = np.concatenate([ally, ty]).argmax(1)
    split = np.zeros(n, np.int8)
    split[:labelled] = 1
    split[labelled : labelled + _VALIDATION_NODES] = 2
    split[test] = 3
    pairs = [(int(node), int(other)) for node, others in graph.items() for other in others]
    return {"edges": simple_edges(pairs), **csr_arrays(x), "y": y, "split": split}
