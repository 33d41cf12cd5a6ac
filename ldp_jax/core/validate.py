"""Checks of parameters: a ``ValueError`` on concrete values, silence on tracers.

Arguments come by keyword, so that the message names the one at fault. Data are never checked: a
mechanism is total on data. Neither JAX nor NumPy is imported before a value needs it.
"""

import math
import operator
import sys
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeVar

from ldp_jax.core.shown import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np

_T = TypeVar("_T")
_CATEGORIES = (
    "got categories: astype(int) takes what they are called, and .cat.codes (of Arrow .indices) "
    "counts them from 0"
)


def concrete(value: object) -> bool:
    """Whether ``value`` is known now, rather than traced."""
    jax = sys.modules.get("jax")  # without which there are no tracers
    return jax is None or not isinstance(value, jax.core.Tracer)


def require(holds: object, rule: str, *got: object) -> None:
    """Raise ``ValueError`` unless a rule holds; the message shows what was given instead.

    >>> require(False, "radius must be > 0", -1.0)
    Traceback (most recent call last):
    ValueError: radius must be > 0, got -1.0
    """
    if holds:
        return
    texts = []
    for value in got:
        try:
            text = shown(value)
        except ValueError:  # Python prints no integer of more than 4300 digits
            text = "an integer of thousands of digits"
        texts.append(text if len(text) <= 100 else f"{text[:97]}...")
    raise ValueError(f"{rule}, got {' and '.join(texts)}" if texts else rule)


def real(name: str, value: object) -> "np.ndarray":
    """Return one or many real numbers as an array; anything else is a ``ValueError``."""
    import numpy as np

    require(
        not isinstance(value, (bool, str, np.bool_)) and value is not None,
        f"{name} must be a number",
        value,
    )
    by_place(**{name: value})
    array = _filled(name, value)
    if isinstance(value, int) and array.dtype == object:  # beyond 64 bits
        require(abs(value) < 2**1023, f"{name} must be a number of float64", value)
        array = np.asarray(float(value))
    require(
        np.issubdtype(array.dtype, np.number) and not np.iscomplexobj(array),
        f"{name} must be real numbers, not {array.dtype}",
        value,
    )
    return array


def _each(
    values: dict[str, object], fits: "Callable[[np.ndarray], np.ndarray]", wanted: str
) -> None:
    """Refuse concrete values that hold a number that does not fit; NaN fits no comparison."""
    for name, value in values.items():
        if concrete(value):
            array = real(name, value)
            got = array if array.ndim else array.item()
            require(fits(array).all(), f"{name} must be {wanted}", got)


def positive(**kwargs: object) -> None:
    """Refuse what is not finite and > 0."""
    _each(kwargs, lambda array: (array > 0) & (array < math.inf), "finite and > 0")


def in_order(given: _T, name: str) -> "_T | np.ndarray":
    """:func:`unmasked` rows of nodes; ``ValueError`` for a pandas table of named rows."""
    unnamed(**{name: given})
    return unmasked(given)


def unnamed(**kwargs: object) -> None:
    """Refuse a pandas table or series whose rows have names or are in another order."""
    for name, given in kwargs.items():
        _check_index(given, name, "datasets.read_records(..., nodes=names) finds rows by name")


def by_place(**kwargs: object) -> None:
    """Refuse a pandas table or series whose rows have names, where places alone are read."""
    for name, given in kwargs.items():
        require(
            _in_places(given),
            f"{name} must be in order, and the index of this {type(given).__name__} is not 0, 1, "
            "...: align it, then to_numpy() takes its rows as they stand",
        )


def aligned(**kwargs: Any) -> None:
    """Refuse pandas tables and series that have rows of other names, or in another order."""
    named = {name: given.index for name, given in kwargs.items() if hasattr(given, "iloc")}
    first, *others = named or {"": None}
    for other in others:
        require(
            named[first].equals(named[other]),
            f"{other} must have the rows of {first}, and their indexes differ: align them, or give "
            "to_numpy() of both",
        )


def _check_index(given: Any, name: str, by_name: str) -> None:
    require(
        _in_places(given),
        f"{name} must be in the order of nodes, and the index of this {type(given).__name__} "
        f"is not 0, 1, ...: {by_name}, to_numpy() takes them as they stand",
    )


def _in_places(given: Any) -> bool:
    """Whether the rows of a pandas table are numbered; anything else has places alone."""
    import numpy as np

    return not hasattr(given, "iloc") or np.array_equal(given.index, np.arange(len(given.index)))


def unmasked(given: _T, name: str = "records") -> "_T | np.ndarray":
    """Replace absent numbers by NaN: masked ones, ``pandas.NA`` and Arrow nulls, but not None.

    An array that lacks nothing comes back as it is, on the device too. ``TypeError`` for a list of
    masked arrays or numbers, whose masks NumPy would drop or warn of; and for categories, which are
    values to one reader and codes to another.

    >>> import numpy as np
    >>> unmasked(np.ma.array([1, 2], mask=[False, True])).tolist()
    [1.0, nan]
    """
    import numpy as np

    def hidden(one: object) -> bool:
        inner = isinstance(one, list | tuple) and any(map(hidden, one))
        return inner or isinstance(one, np.ma.MaskedArray)

    if isinstance(given, list | tuple) and hidden(given):
        raise TypeError(
            f"{name} must be numbers, got a list with what NumPy masks: give one masked array"
        )
    if are_categories(given):
        raise TypeError(f"{name} must be numbers, {_CATEGORIES}")
    array: Any = given
    if isinstance(array, np.ma.MaskedArray):
        if not np.ma.is_masked(array):
            return np.ma.getdata(array)
        kind = np.float64 if array.dtype.kind in "biuf" else object
        array = np.ma.filled(array.astype(kind), np.nan)
    elif hasattr(array, "__array__") and not any(
        is_of(library, array) for library in ("numpy", "jax", "jaxlib")
    ):
        array = np.asarray(array)  # a table or a column of another library
    if isinstance(array, np.ndarray) and array.dtype == object:
        none = np.array([one is None for one in array.ravel()], bool).reshape(array.shape)
        return np.where(_unknown(array) & ~none, np.nan, array)
    return array


def are_categories(given: Any) -> bool:
    """Return whether a column of pandas or Arrow, or one of a table, holds codes of categories."""
    kinds = [getattr(given, "dtype", None), getattr(given, "type", None)]
    if hasattr(given, "columns"):
        kinds = [
            *getattr(given, "dtypes", ()),
            *getattr(getattr(given, "schema", None), "types", ()),
        ]
    inner = (getattr(kind, "pyarrow_dtype", kind) for kind in kinds)
    return any(hasattr(kind, "categories") or hasattr(kind, "index_type") for kind in inner)


def complete(**kwargs: object) -> "np.ndarray":
    """Return one argument as an array; ``ValueError`` where any of it is absent or NaN.

    For ids, edges, weights and counts, which mean nothing where they are absent. Categories are
    refused, too.

    >>> import numpy as np
    >>> complete(ids=np.ma.array([1, 2], mask=[False, False])).tolist()
    [1, 2]
    >>> complete(ids=np.ma.array([1, 2], mask=[False, True]))
    Traceback (most recent call last):
    ValueError: ids must all be there, and some are masked, missing or NaN: leave those out
    """
    import numpy as np

    ((name, value),) = kwargs.items()
    array = _filled(name, value)
    absent = array.dtype.kind == "f" and np.isnan(array).any()
    if array.dtype == object:
        absent = _unknown(array).any()
    require(
        not absent,
        f"{name} must all be there, and some are masked, missing or NaN: leave those out",
    )
    return array


def _filled(name: str, value: object) -> "np.ndarray":
    """An array of what is not traced, as :func:`unmasked`; a ``ValueError`` names the argument."""
    import numpy as np

    try:
        return np.asarray(unmasked(value, name))
    except TypeError as error:
        raise ValueError(str(error)) from None


def numbers(**kwargs: object) -> "np.ndarray":
    """Return one argument as float64 on the host, NaN where a number is absent.

    ``ValueError`` for words, times, complex numbers, and whole numbers from 2^53 on, which float64
    may make equal.

    >>> numbers(scores=[2**53 - 1, 1]).dtype.name
    'float64'
    >>> numbers(scores=[2**53, 1])
    Traceback (most recent call last):
    ValueError: scores must be whole numbers below 2^53, from where on float64 does not tell ...
    """
    import numpy as np

    ((name, value),) = kwargs.items()
    array = _filled(name, value)
    if array.dtype == object and all(isinstance(one, Real) for one in array.flat):
        array = np.array(array.tolist()).reshape(array.shape)
    require(
        array.dtype.kind in "biuf" or array.dtype.name.startswith("bfloat"),
        f"{name} must be real numbers, got {array.dtype}",
    )
    wide = array.astype(np.float64)
    require(
        array.dtype.kind not in "iu" or (np.abs(wide) < 2.0**53).all(),
        f"{name} must be whole numbers below 2^53, from where on float64 does not tell them apart: "
        "give their ranks, or subtract a public offset",
    )
    return wide


def labels(given: object) -> "np.ndarray":
    """Return classes as whole numbers, -1 for None, NaN and what is masked.

    Booleans and other values stay as they are.

    ``ValueError`` for categories, whose codes and whose names may be different classes.

    >>> labels([1, None, 0]).tolist(), labels(["red", None]).dtype.kind
    ([1, -1, 0], 'O')
    """
    import numpy as np

    require(not are_categories(given), f"labels must be whole numbers, {_CATEGORIES}")
    if isinstance(given, np.ma.MaskedArray):
        given = np.where(np.ma.getmaskarray(given), np.array(None), np.ma.getdata(given))
    array = np.asarray(given)
    strange = (bool, np.bool_, complex, np.complexfloating)  # int() takes the real part
    if array.dtype.kind not in "fO" or any(isinstance(one, strange) for one in array.ravel()):
        return array
    filled = np.where(_unknown(array), -1, array)
    try:
        with np.errstate(invalid="ignore"):  # beyond 64 bits: not whole, as the comparison finds
            whole = filled.astype(np.int64)
    except (OverflowError, TypeError, ValueError):
        return array
    return whole if (whole == filled).all() else array


def _unknown(array: "np.ndarray") -> "np.ndarray":
    """Which entries of any array are None, NaN or ``pandas.NA``."""
    import numpy as np

    return np.vectorize(_is_unknown, otypes=[bool])(array)


def _is_unknown(label: object) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas.NA is neither
        return True
    except ValueError:  # an array within an array
        return False


def node_labels(given: object) -> "np.ndarray":
    """:func:`labels` of all nodes in their order.

    ``ValueError`` for a pandas series of named values.
    """
    _check_index(given, "labels", "reindex(names).to_numpy() brings them into that order")
    return labels(given)


def in_range(lower: float, upper: float, *, open_lower: bool = False, **kwargs: object) -> None:
    """Refuse what is outside [lower, upper], or (lower, upper] with ``open_lower``."""
    above = operator.gt if open_lower else operator.ge
    wanted = f"in {'(' if open_lower else '['}{lower}, {upper}]"
    _each(kwargs, lambda array: above(array, lower) & (array <= upper), wanted)


def number(
    lower: float,
    upper: float = math.inf,
    *,
    open_lower: bool = False,
    open_upper: bool = False,
    **kwargs: Any,
) -> float:
    """Return one finite number in a range as a Python float; anything else is a ``ValueError``.

    Text, booleans, stacks, tracers and numbers beyond float64 are refused.

    >>> number(0.0, 1.0, open_upper=True, delta=1.0)
    Traceback (most recent call last):
    ValueError: delta must be in [0, 1), got 1.0
    """
    ((name, value),) = kwargs.items()
    if upper == math.inf:
        wanted = f"finite and {'>' if open_lower else '>='} {lower:g}"
    else:
        left = "(" if open_lower else "["
        right = ")" if open_upper else "]"
        wanted = f"in {left}{lower:g}, {upper:g}{right}"
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    require(
        not (isinstance(value, (bool, complex, str, bytes, bytearray)) or kind in tuple("bcSU")),
        f"{name} must be a number",
        value,
    )
    try:
        one = float(value)
    except OverflowError:
        one = math.inf
    except (TypeError, ValueError):
        require(False, f"{name} must be one concrete number", value)
        raise
    above = one > lower if open_lower else one >= lower
    below = one < upper if open_upper else one <= upper
    require(math.isfinite(one) and above and below, f"{name} must be {wanted}", value)
    return one


def integer_in(lower: int, upper: int | None = None, **kwargs: object) -> None:
    """Refuse what is not a whole number in [lower, upper]; booleans and 2.0 are none."""
    for name, value in kwargs.items():
        whole(lower, upper, **{name: value})


def whole(lower: int, upper: int | None = None, **kwargs: object) -> int:
    """One whole number in [lower, upper], as a Python integer.

    >>> whole(1, 4, k=5)
    Traceback (most recent call last):
    ValueError: k must be a whole number in [1, 4], got 5
    """
    ((name, value),) = kwargs.items()
    wanted = f"in [{lower}, {upper}]" if upper is not None else f">= {lower}"
    count = lower - 1
    if isinstance(value, Integral) and not isinstance(value, bool):
        count = operator.index(value)
    require(
        lower <= count and (upper is None or count <= upper),
        f"{name} must be a whole number {wanted}",
        value,
    )
    return count


def first_fraction(values: "np.ndarray", of: str) -> str:
    """Which of some values is the first that is no whole number, for the end of a message.

    >>> import numpy as np
    >>> first_fraction(np.array([1.0, 0.5]), "graph")
    ': 0.5 for graph 1'
    """
    import numpy as np

    if values.ndim != 1 or not np.issubdtype(values.dtype, np.floating):
        return ""
    found = np.flatnonzero(~(values == np.floor(values)))
    if not len(found):
        return ""
    first = found[0]
    return f": {values[first]} for {of} {first}"


def known(labels: object, mask: object = None, classes: int | None = None) -> None:
    """Refuse unknown labels (-1) and labels beyond ``classes``, where ``mask`` is not 0.

    >>> import numpy as np
    >>> known(np.array([0, -1]), np.array([1, 0]))
    >>> known(np.array([0, -1]))
    Traceback (most recent call last):
    ValueError: labels must be known, and some are -1: leave those out
    """
    if concrete(labels) and concrete(mask):
        counted = complete(labels=labels)
        if mask is not None:
            counted = counted[complete(mask=mask) != 0]
        require(
            counted.dtype.kind in "biuf",
            f"labels must be whole numbers, got {counted.dtype}: "
            "np.unique(labels, return_inverse=True) numbers them",
        )
        require((counted >= 0).all(), "labels must be known, and some are -1: leave those out")
        if classes is not None:
            ids(classes, "one of the columns of scores", labels=counted)


def mask(n: int, default: bool = True, /, **kwargs: object) -> "np.ndarray":
    """Return a checked mask bool [n] of users; None stands for ``default`` everywhere."""
    import numpy as np

    ((name, value),) = kwargs.items()
    unnamed(**kwargs)
    array = np.full(n, default) if value is None else complete(**kwargs)
    require(array.shape == (n,) and array.dtype == bool, f"{name} must be bool [{n}]", array)
    return array


def ids(size: int | None = None, of: str = "", **kwargs: object) -> None:
    """Refuse concrete arrays of anything but whole numbers in [0, size), which ``of`` describes.

    >>> ids(2, "one of the nodes", senders=[0, 2])
    Traceback (most recent call last):
    ValueError: senders must be in [0, 2), one of the nodes, got 2 at place 1
    """
    import numpy as np

    for name, value in kwargs.items():
        if not concrete(value):
            continue
        array = complete(**{name: value})
        if not array.size:
            continue
        require(array.dtype.kind in "iu", f"{name} must be integers, got {array.dtype}")
        if array.min() < 0 or (size is not None and array.max() >= size):
            wrong = array < 0 if size is None else (array < 0) | (array >= size)
            place = tuple(np.argwhere(wrong)[0].tolist())
            where = f" at place {', '.join(map(str, place))}" if place else ""
            wanted = ">= 0" if size is None else f"in [0, {size})"
            wanted += f", {of}" if of else ""
            raise ValueError(f"{name} must be {wanted}, got {array[place]}{where}")


def pairs(size: int | None = None, of: str = "", /, **kwargs: object) -> "np.ndarray":
    """Return pairs of whole numbers in [0, size), checked as by :func:`ids`, as int64 [m, 2].

    A pair is a row, also of [2, 2]; those that are two edges by column alone are refused.
    """
    import numpy as np

    ((name, value),) = kwargs.items()
    wanted = f"{name} must be integers [m, 2]"
    require(
        not (hasattr(value, "n_node") or hasattr(value, "adjacency")),
        f"{wanted}, got a graph: graph.graphs.to_edges(it) gives them",
    )
    array = complete(**kwargs)
    if array.size == 0:
        return np.zeros((0, 2), np.int64)
    require(
        array.ndim == 2 and array.shape[1] == 2 and array.dtype.kind in "iu",
        f"{wanted}, got {array.dtype} of shape {array.shape}",
    )
    ids(2**63 if size is None else size, of, **kwargs)
    require(
        array.shape != (2, 2) or two_edges(array) or not two_edges(array.T),
        f"{wanted}, a pair a row, and are two edges by column alone: give {name}.T",
    )
    return array.astype(np.int64)


def two_edges(ends: "np.ndarray") -> set[tuple[int, int]] | None:
    """Return the rows of [2, 2] as undirected edges; None where one is a loop or a repeat."""
    found = {(min(pair), max(pair)) for pair in ends.tolist()}
    return found if len(found) == 2 and all(low < high for low, high in found) else None


def one_of(choices: tuple[str, ...], **kwargs: object) -> None:
    """Refuse a name that is not among ``choices``; the message lists them."""
    for name, value in kwargs.items():
        require(value in choices, f"{name} must be one of {', '.join(choices)}; got {shown(value)}")


def shaped(*axes: int | str, **kwargs: Any) -> None:
    """Refuse arrays of another shape; an axis that has a name may have any length from 1 on.

    >>> import numpy as np
    >>> shaped("n", 2, points=np.zeros((3, 2)))
    >>> shaped("n", 2, points=np.zeros(3))
    Traceback (most recent call last):
    ValueError: points must have shape [n, 2], got [3]
    """
    import numpy as np

    for name, value in kwargs.items():
        shape = np.shape(value)
        fits = len(shape) == len(axes)
        for axis, size in zip(axes, shape, strict=False):
            fits &= size > 0 if isinstance(axis, str) else size == axis
        if not fits:
            text = ", ".join(map(str, axes))
            raise ValueError(f"{name} must have shape [{text}], got {list(shape)}")


def threefry(key: Any, axes: int = 0) -> None:
    """Refuse all but one typed ``threefry2x32`` key, or an array of them with some ``axes``.

    Under ``vmap`` the ``rbg`` generators draw all noise from the first user's key.
    """
    import jax

    dtype = getattr(key, "dtype", None)
    typed = dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)
    kind = type(key).__name__
    if not typed and str(dtype) == "uint32" and key.shape[-1:] == (2,):
        kind = "an old-style key, as jax.random.PRNGKey(seed) makes it"
    require(typed, f"key must be a typed key as jax.random.key(seed) makes it, got {kind}")
    generator = str(jax.random.key_impl(key))
    require(generator == "threefry2x32", f"key must be a threefry2x32 key, got {generator}")
    wanted = "an array of keys [runs]" if axes else "one key"
    hint = "jax.random.split makes them" if axes else "use jax.vmap, with a key for each"
    require(len(key.shape) == axes, f"key must be {wanted}, got keys of shape {key.shape}: {hint}")


def host_key(key: Any, call: str) -> None:
    """Refuse what :func:`threefry` refuses, and a traced key of a ``call`` on the host."""
    threefry(key)
    require(
        concrete(key),
        f"key must be concrete: {call} is called in a Python loop, outside jit, vmap and grad",
    )


def is_of(library: str, value: object) -> bool:
    """Whether an object is of a library, or of a class that is derived from one of its classes.

    >>> is_of("builtins", 1), is_of("numpy", 1)
    (True, False)
    """
    return any(base.__module__.partition(".")[0] == library for base in type(value).__mro__)


def names(given: "Iterable") -> list:
    """Names of nodes as a list; ``ValueError`` where one is None, NaN, NA or masked.

    >>> names(("ana", None))
    Traceback (most recent call last):
    ValueError: nodes must name each node, and some names are missing or masked
    """
    import numpy as np

    listed = list(getattr(given, "to_pylist", lambda: given)())  # Arrow's own scalars equal no name
    require(
        not any(name is np.ma.masked or _is_unknown(name) for name in listed),
        "nodes must name each node, and some names are missing or masked",
    )
    return listed


def finite_array(*shape: int | str, **kwargs: object) -> "np.ndarray":
    """One argument as finite numbers in float64, of a shape in which free axes are letters.

    >>> finite_array(2, "k", rows=[[1, 2, 3], [4, 5, 6]]).shape
    (2, 3)
    >>> finite_array(3, "k", rows=[[1, 2, 3], [4, 5, 6]])
    Traceback (most recent call last):
    ValueError: rows must be finite numbers [3, k], got shape (2, 3)
    """
    import numpy as np

    ((name, _),) = kwargs.items()
    by_place(**kwargs)
    array = numbers(**kwargs)
    wanted = ", ".join(map(str, shape))
    require(
        len(shape) == array.ndim
        and all(
            isinstance(axis, str) or axis == size
            for axis, size in zip(shape, array.shape, strict=True)
        ),
        f"{name} must be finite numbers [{wanted}], got shape {array.shape}",
    )
    count = (~np.isfinite(array)).sum()
    require(not count, f"{name} must be finite numbers [{wanted}], and {count} are not")
    return array
