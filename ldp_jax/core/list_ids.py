"""The ids in a neighbour list: anything else is dropped, and nothing of it is seen. No JAX."""

import numbers
import warnings
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

_BOOLEAN = (bool, np.bool_)
_ROW = (
    "neighbours are ids, and these are booleans: of a row of an adjacency matrix give "
    "numpy.flatnonzero(row); the ids 0 and 1 are integers"
)


def ids_of(xp: ModuleType, values: Any, n: int) -> Any:
    """Return numbers as int32, and n for what is no whole number in [0, n).

    ``xp`` is NumPy or ``jax.numpy``. ``TypeError`` for booleans, whatever they are.
    """
    if values.dtype.kind == "b":
        raise TypeError(_ROW)
    if values.dtype.name.startswith(("float", "bfloat")):
        kind = np.float64 if xp is np else xp.promote_types(values.dtype, np.float32)
        wide = values.astype(kind)
        known = (wide >= 0) & (wide < n) & (wide == xp.floor(wide))
    elif values.dtype.kind in "iu":
        kind = np.int64 if xp is np or values.dtype.itemsize == 8 else np.int32
        wide = values.astype(kind)
        known = (wide >= 0) & (wide < n)  # an unsigned number of that width becomes negative
    else:
        return xp.full(values.shape, n, np.int32)
    ids = xp.where(known, wide, 0).astype(np.int32)
    return xp.where(known, ids, np.int32(n))


def host_ids(ids: Any, n: int) -> np.ndarray:
    """Return :func:`ids_of` of numbers of the host, int32 with one axis, without any warning.

    ``TypeError`` where all are booleans, the row of a matrix; one among numbers is no id.
    """
    if isinstance(ids, np.ma.MaskedArray):
        ids = ids.compressed()  # what is masked is not there
    if isinstance(ids, Iterable) and not (isinstance(ids, Sequence) or hasattr(ids, "__array__")):
        ids = list(ids)  # of a set, NumPy would make one thing
    # A warning or an error would say what a record holds.
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            values = np.ravel(np.asarray(ids))
        except Exception:  # ragged, or objects that raise what they like
            values = np.array([*ids, None], object)[:-1]
        # NumPy turns [3, "x"] into words, [3, 1j] into complex numbers, [3, True] into whole ones.
        if isinstance(ids, Sequence) and not isinstance(ids, (str, bytes, bytearray)):
            one_kind = values.dtype.kind in "iufO" or values.dtype.name.startswith("bfloat")
            if not one_kind or any(isinstance(one, _BOOLEAN) for one in ids):
                values = np.ravel(np.asarray(ids, object))
        if values.dtype.kind == "O":
            if values.size and all(isinstance(one, _BOOLEAN) for one in values):
                raise TypeError(_ROW)
            values = np.array([_one_id(value, n) for value in values], np.int32)
        return ids_of(np, values, n)


def _one_id(value: object, n: int) -> int:
    """An id among things of several kinds, n for anything else."""
    try:
        if not isinstance(value, numbers.Real) or isinstance(value, (bool, np.timedelta64)):
            return n
        number: Any = value
        known = 0 <= number < n and int(number) == number
        return int(number) if known else n
    except (ArithmeticError, ValueError, TypeError):
        return n
