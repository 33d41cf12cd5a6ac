"""Frozen dataclasses that are pytrees: the form of every mechanism.

A tree is rebuilt through ``object.__new__``: the constructor, which
``jax.tree_util.register_dataclass`` calls with tracers and placeholders, runs once, where a person
calls it, and may check its arguments.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, dataclass_transform

import jax
import numpy as np

from ldp_jax.core import validate
from ldp_jax.core.shown import by_shapes

_T = TypeVar("_T")
_Fields = tuple[object, ...]
_NUMBERS = (bool, int, float, complex, str, bytes, list, tuple, np.generic, np.ndarray, jax.Array)
"""The types of numbers, or of what is meant so."""


def static(**kwargs: Any) -> Any:
    """Declare a hashable field that fixes a shape, a loop length or a Python branch."""
    return dataclasses.field(metadata={"static": True}, **kwargs)


def digest(tree: Any) -> bytes:
    """Hash a tree of concrete leaves, to the last bit; 16 bytes, the same in every process."""
    leaves, structure = jax.tree.flatten(tree)
    found = hashlib.blake2b(repr(structure).encode(), digest_size=16)
    for leaf in map(np.asarray, leaves):
        found.update(f"{leaf.dtype}{leaf.shape}".encode())
        found.update(np.ascontiguousarray(leaf).reshape(-1).view(np.uint8).data)
    return found.digest()


@dataclass_transform(frozen_default=True, field_specifiers=(static,))
def pytree(cls: type[_T]) -> type[_T]:
    """Make ``cls`` a frozen dataclass that is a pytree.

    Fields made by :func:`static` are its structure.

    ``==`` compares structure and leaves to one ``bool``; ``repr`` is one line, with the shapes of
    arrays.
    """

    def __eq__(self: object, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        mine, structure = jax.tree.flatten(self)
        theirs, other_structure = jax.tree.flatten(other)
        # A leaf that is no concrete array raises here; array_equal alone would call it unequal.
        return structure == other_structure and all(
            np.array_equal(np.asarray(one), np.asarray(other))
            for one, other in zip(mine, theirs, strict=True)
        )

    def __hash__(self: object) -> int:
        return hash(jax.tree.structure(self))

    cls.__eq__ = __eq__
    cls.__hash__ = __hash__
    if "__repr__" not in cls.__dict__:
        cls.__repr__ = by_shapes
    data = dataclasses.dataclass(frozen=True, eq=False)(cls)
    fields = dataclasses.fields(data)  # pyrefly: ignore[bad-argument-type]
    leaves = tuple(f.name for f in fields if not f.metadata.get("static"))
    statics = tuple(f.name for f in fields if f.metadata.get("static"))

    def flatten(self: object) -> tuple[_Fields, _Fields]:
        children = tuple(getattr(self, name) for name in leaves)
        return children, tuple(getattr(self, name) for name in statics)

    names = (*leaves, *statics)
    keys = [jax.tree_util.GetAttrKey(name) for name in leaves]

    def flatten_with_keys(self: object) -> tuple[list[tuple[Any, object]], _Fields]:
        children, aux = flatten(self)
        return list(zip(keys, children, strict=True)), aux

    def unflatten(aux: _Fields, children: Iterable[object]) -> object:
        self = object.__new__(data)
        for name, value in zip(names, (*children, *aux), strict=True):
            object.__setattr__(self, name, value)
        return self

    jax.tree_util.register_pytree_with_keys(data, flatten_with_keys, unflatten, flatten)
    return data


@dataclass_transform(frozen_default=True, field_specifiers=(static,))
def mechanism(cls: type[_T]) -> type[_T]:
    """Make ``cls`` a :func:`pytree` whose leaves are parameters: numbers, tracers or stacks.

    A number becomes a Python float, a stack a float32 array; tracers and trees stay as they are.
    The class may define ``_check(self)``, called once after construction, never while a tree is
    rebuilt.

    >>> from ldp_jax.features import Laplace
    >>> jax.tree.leaves(Laplace(1.0))
    [1.0]
    >>> jax.vmap(Laplace)(jax.numpy.array([0.5, 2.0])).epsilon.shape
    (2,)
    """

    def __post_init__(self: Any) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            tracer = isinstance(value, jax.core.Tracer)
            if field.metadata.get("static") or tracer or not isinstance(value, _NUMBERS):
                continue
            array = validate.real(f"{type(self).__name__}: {field.name}", value)
            leaf = float(array) if array.ndim == 0 else jax.numpy.asarray(array, np.float32)
            object.__setattr__(self, field.name, leaf)
        check: Callable[[], None] | None = getattr(self, "_check", None)
        if check is not None:
            check()

    setattr(cls, "__post_init__", __post_init__)  # noqa: B010
    return pytree(cls)
