r"""States and results as bytes.

A server that was killed goes on from them, and a result can be read years later.

::

    "ldp-saved 1\n" | JSON in ASCII, keys in order | "\n" | arrays, little-endian, C order
    | checksum (8 bytes)

Nothing is unpickled. A class is named by module and name, and only dataclasses and named tuples are
rebuilt: those of this library, and those that the reader names. The checksum is that of
:mod:`ldp_jax.core.checksum`.
"""

import dataclasses
import hashlib
import importlib
import json
import math
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

import ldp_jax
from ldp_jax.core import validate
from ldp_jax.core.checksum import as_bytes, sealed
from ldp_jax.graph import graphs

_START = b"ldp-saved 1\n"
_TAG_BYTES = 8
_PLAIN = (type(None), bool, int, str)
_KEYS = "threefry2x32"
_GRAPH = type(graphs.from_edges([], num_nodes=1))  # of another library, and in many results


def to_bytes(tree: Any) -> bytes:
    """Bytes of a tree of arrays, keys, numbers, text, tuples, lists and dicts.

    Dataclasses and named tuples of these are taken, too.

    ``TypeError`` for anything else, such as a function.

    >>> from_bytes(to_bytes({"x": np.arange(3), "name": "a"}))["x"].tolist()
    [0, 1, 2]
    """
    arrays: list[np.ndarray] = []
    header = {**versions(), "tree": _written(tree, arrays)}
    text = json.dumps(header, sort_keys=True).encode("ascii")
    body = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    return sealed(_START + text + b"\n" + body)


def versions() -> dict[str, str]:
    """The versions of this library and of JAX."""
    return {"jax": jax.__version__, "ldp_jax": ldp_jax.__version__}


def fingerprint(tree: Any) -> str:
    """64 hexadecimal digits that tell trees apart, by :func:`to_bytes` without versions."""
    arrays: list[np.ndarray] = []
    text = json.dumps(_written(tree, arrays), sort_keys=True)
    found = hashlib.sha256(text.encode("ascii"))
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def from_bytes(data: bytes, types: Iterable[type] = ()) -> Any:
    """The tree that :func:`to_bytes` wrote.

    ``types`` are classes outside this library that it may hold.

    ``ValueError`` for damaged bytes, another version, a class that is neither of this library nor
    named, or fields that the class does not have.
    """
    data = as_bytes(data)
    rule = f"these bytes are no saved state of this version: expected {_START!r} at their start"
    validate.require(data.startswith(_START), rule)
    whole = data[:-_TAG_BYTES]
    rule = "a damaged state: its checksum is not that of its bytes"
    validate.require(sealed(whole) == data, rule)
    text, _, body = whole[len(_START) :].partition(b"\n")
    known = {_name_of(one): one for one in (_GRAPH, *types)}

    def tree(node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        if "class" in node:
            values = {field: tree(value) for field, value in node["fields"].items()}
            name = node["class"]
            return _rebuilt(known.get(name) or _own_class(name), values)
        ((kind, value),) = node.items()
        if kind == "float":
            return float(value)
        if kind in ("key", "device", "host"):
            array = _read(body, value)
            if kind == "host":
                return array
            placed = jax.device_put(array)
            if kind == "device":
                return placed
            return jax.random.wrap_key_data(placed, impl=_KEYS)
        if kind == "dict":
            return {tree(key): tree(one) for key, one in value}
        validate.require(kind in ("tuple", "list"), f"a damaged state: it holds a {kind!r}")
        made = [tree(one) for one in value]
        return tuple(made) if kind == "tuple" else made

    return tree(json.loads(text.decode("ascii"))["tree"])


def _written(node: Any, arrays: list[np.ndarray]) -> Any:
    """A tree as JSON; ``arrays`` takes its arrays, in order."""
    if isinstance(node, _PLAIN):
        return node
    if isinstance(node, float):
        return node if math.isfinite(node) else {"float": repr(node)}
    if isinstance(node, jax.Array) and jax.dtypes.issubdtype(node.dtype, jax.dtypes.prng_key):
        return {"key": _placed(np.asarray(jax.random.key_data(node)), arrays)}
    if isinstance(node, (np.ndarray, np.generic, jax.Array)):
        where = "device" if isinstance(node, jax.Array) else "host"
        return {where: _placed(np.asarray(node), arrays)}
    if isinstance(node, dict):
        return {"dict": [_written(list(pair), arrays)["list"] for pair in node.items()]}
    names = getattr(node, "_fields", None) if isinstance(node, tuple) else None
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        names = [field.name for field in dataclasses.fields(node)]
    if names is not None:
        fields = {name: _written(getattr(node, name), arrays) for name in names}
        return {"class": _name_of(type(node)), "fields": fields}
    if isinstance(node, (tuple, list)):
        return {type(node).__name__: [_written(one, arrays) for one in node]}
    raise TypeError(f"what is saved must hold arrays, numbers and text, got {type(node).__name__}")


def _name_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _placed(array: np.ndarray, arrays: list[np.ndarray]) -> dict[str, Any]:
    """An array's description; the array itself is kept for the body, in its place."""
    if array.dtype.kind not in "biuf":
        raise TypeError(f"a state must hold arrays of numbers, got {array.dtype}")
    dtype = array.dtype.newbyteorder("<")
    start = sum(before.nbytes for before in arrays)
    arrays.append(array.astype(dtype))
    return {"dtype": dtype.str, "shape": list(array.shape), "start": start}


def _read(body: bytes, described: dict[str, Any]) -> np.ndarray:
    """The array that a description places in the body."""
    dtype = np.dtype(described["dtype"])
    shape = tuple(described["shape"])
    validate.require(dtype.kind in "biuf", f"a damaged state: an array of {dtype}")
    size = math.prod(shape) * dtype.itemsize
    start = described["start"]
    part = body[start : start + size]
    whole = start >= 0 and len(part) == size
    validate.require(whole, "a damaged state: it holds fewer arrays than it names")
    return np.frombuffer(part, dtype).reshape(shape).copy()


def _rebuilt(kind: Any, values: dict[str, Any]) -> Any:
    """The object of a class and its fields."""
    is_tuple = issubclass(kind, tuple)
    wanted = kind._fields if is_tuple else [field.name for field in dataclasses.fields(kind)]
    rule = f"the state is of another version: {kind.__name__} has other fields"
    validate.require(set(wanted) == set(values), rule)
    if is_tuple:
        return kind(**values)
    # As trees are rebuilt: the constructor has checked the arguments when the object was made.
    made = object.__new__(kind)
    for field, value in values.items():
        object.__setattr__(made, field, value)
    return made


def _own_class(name: str) -> Any:
    """A dataclass or named tuple of this library."""
    module, _, path = name.partition(":")
    own = module.split(".")[0] == "ldp_jax" and "." not in path
    rule = f"the state holds a {name}, which is not of this library: name it in types"
    validate.require(own, rule)
    found = getattr(importlib.import_module(module), path, None)
    known = False
    if isinstance(found, type):
        is_tuple = issubclass(found, tuple) and hasattr(found, "_fields")
        known = is_tuple or dataclasses.is_dataclass(found)
    validate.require(known, f"the state holds a {name}, which this version does not have")
    return found
