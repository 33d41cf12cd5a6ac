"""Cora, Citeseer and Pubmed from the files of ``kimiyoung/planetoid``: ``ind.<name>.*``.

Seven of the eight files are pickles. They are read after their sha256 matched, by an unpickler that knows lists,
dicts and inert stand-ins for the classes of NumPy and SciPy; an array is made of its bytes after their check.
"""

import io
import math
import pickle
from collections import defaultdict
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse

from ldp_jax.datasets._arrays import checked_csr, csr_arrays, simple_edges, whole_numbers

_VALIDATION_NODES = 500  # the public split: as many nodes after the training nodes
_CODES = frozenset(
    f"{kind}{size}" for kind, sizes in (("iu", "1248"), ("f", "248")) for kind in kind for size in sizes
)


class _Matrix:
    """What a pickled ``scipy.sparse.csr_matrix`` becomes: its state, none of its code."""


class _Type:
    """What a pickled ``numpy.dtype`` becomes; NumPy's own follows a damaged state out of its memory."""

    def __init__(self, code: str, align: object = 0, copy: object = 0) -> None:
        if code not in _CODES:
            raise pickle.UnpicklingError("pickle asks for an array of something other than plain numbers")
        self.code = code
        self.order = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.order, subtype, names, fields, *_ = state
        if self.order not in ("<", ">", "=", "|") or (subtype, names, fields) != (None, None, None):
            raise pickle.UnpicklingError("pickle asks for an array of something other than plain numbers")

    def numbers(self, raw: object, count: int) -> np.ndarray:
        """``count`` numbers from exactly their bytes; a string is how Python 2 wrote bytes."""
        data = raw.encode("latin1") if isinstance(raw, str) else raw
        dtype = np.dtype(self.order + self.code)
        if not isinstance(data, bytes) or len(data) != count * dtype.itemsize:
            raise ValueError(f"an array must have the bytes of {count} numbers")
        return np.frombuffer(data, dtype)


class _Array:
    """What a pickled ``numpy.ndarray`` becomes: shape, type and bytes."""

    state: Any = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def numpy(self) -> np.ndarray:
        """The array, checked."""
        if not isinstance(self.state, tuple) or len(self.state) != 5:
            raise ValueError("an array must have a shape, a type and bytes")
        _, shape, kind, fortran, raw = self.state
        if type(shape) is not tuple or len(shape) > 2 or any(type(axis) is not int or axis < 0 for axis in shape):
            raise ValueError("an array must have at most two axes")
        if not isinstance(kind, _Type):
            raise ValueError("an array must have a type")
        return kind.numbers(raw, math.prod(shape)).reshape(shape, order="F" if fortran else "C")


def _rebuild(cls: type, base: type, state: object) -> _Matrix:
    """The one use of ``copyreg._reconstructor`` in these files."""
    if cls is not _Matrix or base is not object or state is not None:
        raise pickle.UnpicklingError(f"pickle asks to rebuild {cls.__name__}, which no such file needs")
    return _Matrix()


def _rebuild_array(cls: type, shape: object, code: object) -> _Array:
    """NumPy's ``_reconstruct``, which would allocate any shape: an array is made of its bytes later."""
    if cls is not _Array:
        raise pickle.UnpicklingError("pickle asks to rebuild something other than an array")
    return _Array()


def _scalar(kind: _Type, raw: object) -> int | float:
    return kind.numbers(raw, 1)[0].item()


_ADMITTED: Mapping[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("numpy.core.multiarray", "_reconstruct"): _rebuild_array,
    ("numpy._core.multiarray", "_reconstruct"): _rebuild_array,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy._core.multiarray", "scalar"): _scalar,
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


class _Unpickler(pickle._Unpickler):  # the one in Python: in C, a memo number of 2^31 allocates as many places
    # Its argument is a size that is allocated before it is compared with the file; no file of Python 2 has it.
    dispatch = {code: load for code, load in pickle._Unpickler.dispatch.items() if code != pickle.BYTEARRAY8[0]}

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


def _array(value: Any, where: str, axes: int) -> np.ndarray:
    try:
        if not isinstance(value, _Array):
            raise ValueError("it holds something else")
        array = value.numpy()
        if array.ndim != axes:
            raise ValueError(f"it must have {axes} axes, got shape {array.shape}")
    except ValueError as error:
        raise ValueError(f"{where} is no array of numbers: {error}") from error
    return array


def _matrix(data: bytes, where: str) -> scipy.sparse.csr_array:
    value = unpickle(data, where)
    if not isinstance(value, _Matrix):
        raise ValueError(f"{where} is no sparse matrix")
    state = vars(value)
    arrays = [_array(state.get(field), f"{where} ({field})", 1) for field in ("data", "indices", "indptr")]
    shape = state.get("_shape", state.get("shape"))
    if type(shape) is not tuple or any(type(size) is not int or abs(size) >= 2**63 for size in shape):
        raise ValueError(f"{where} must have a shape of two sizes")
    return checked_csr(*arrays, shape=shape, part=f"{where} ", entries="data")


def _one_hot(data: bytes, where: str) -> np.ndarray:
    labels = _array(unpickle(data, where), where, 2)
    if not labels.shape[1]:
        raise ValueError(f"{where} must have a class")
    return labels


def _adjacency(data: bytes, where: str) -> np.ndarray:
    """The pairs of a dict of lists of neighbours."""
    graph = unpickle(data, where)
    lists = list(graph.values()) if isinstance(graph, dict) else [None]
    if any(type(row) is not list for row in lists):
        raise ValueError(f"{where} must be a dict of lists of node ids")
    lengths = [len(row) for row in lists]
    if sum(lengths) > len(data):  # one list under many nodes: each number of its own takes a byte at the least
        raise ValueError(f"{where} must have a list of its own for every node")
    if any(type(node) is not int or not 0 <= node < 2**31 for node in chain(graph, *lists)):
        raise ValueError(f"{where} must be a dict of lists of node ids, whole numbers in [0, 2**31)")
    nodes = np.fromiter(graph, np.int64, len(graph))
    return np.stack([np.repeat(nodes, lengths), np.fromiter(chain(*lists), np.int64, sum(lengths))], 1)


def parse(files: Mapping[str, bytes], *, dataset: str) -> dict[str, np.ndarray]:
    """The arrays of the uniform format, with the public ``split`` (1 train, 2 validation, 3 test, 0 none).

    The test nodes stand in ``tx`` and ``ty`` in the order of ``test.index``; ids that this index leaves out
    (isolated nodes of Citeseer) have neither features nor a label and get zeros and class 0.

    Args:
      files: the checked bytes of ``ind.<dataset>.{y,tx,ty,allx,ally,graph,test.index}``, by name.
      dataset: ``cora``, ``citeseer`` or ``pubmed``.

    Raises:
      ValueError: naming the file; never a label or an attribute.
    """
    name = f"ind.{dataset}."
    allx, tx = (_matrix(files[name + part], name + part) for part in ("allx", "tx"))
    y_train, ally, ty = (_one_hot(files[name + part], name + part) for part in ("y", "ally", "ty"))
    pairs = _adjacency(files[f"{name}graph"], f"{name}graph")
    test = whole_numbers(files[f"{name}test.index"])

    labelled, known = len(y_train), allx.shape[0]
    if len(test) != tx.shape[0] or len(test) != len(ty) or known != len(ally):
        raise ValueError(
            f"test.index, tx, ty must have equal lengths and allx, ally too, "
            f"got {len(test)}, {tx.shape[0]}, {len(ty)} and {known}, {len(ally)}"
        )
    if allx.shape[1] != tx.shape[1] or ally.shape[1] != ty.shape[1] or labelled > known:
        raise ValueError("allx and tx must have as many columns, ally and ty too, and y at most the rows of ally")
    if test.min() < known or len(np.unique(test)) != len(test):
        raise ValueError(f"test.index must name each node once, none below {known}, got {int(test.min())}")
    n = int(test.max()) + 1
    if n > 2 * (known + len(test)):  # before arrays of that length are made
        raise ValueError(
            f"test.index must leave out fewer nodes than allx and tx have ({known + len(test)}), got node {n - 1}"
        )
    stacked = scipy.sparse.vstack([allx, tx]).tocoo()
    node_of_row = np.concatenate([np.arange(known), test])
    x = scipy.sparse.coo_array((stacked.data, (node_of_row[stacked.row], stacked.col)), shape=(n, allx.shape[1]))
    y = np.zeros(n, np.int32)
    y[node_of_row] = np.concatenate([ally, ty]).argmax(1)
    split = np.zeros(n, np.int8)
    split[:labelled] = 1
    split[labelled : labelled + _VALIDATION_NODES] = 2
    split[test] = 3
    return {"edges": simple_edges(pairs), **csr_arrays(x), "y": y, "split": split}
