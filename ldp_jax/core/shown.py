"""Show what kind of values an object holds, without records, neighbour lists and keys. No JAX."""

import dataclasses
import numbers
from collections.abc import Sized
from typing import Any

_LONGEST = 200


def shown(value: object) -> str:
    """Show numbers, texts and objects of this library; of anything else the type and shape.

    >>> import numpy as np
    >>> (
    ...     shown(0.5),
    ...     shown(np.zeros((2, 3), np.float32)),
    ...     shown([0.1, 0.2]),
    ...     shown(b"secret"),
    ... )
    ('0.5', 'float32[2, 3]', 'list[2]', 'bytes')
    """
    plain = value is None or isinstance(value, (str, numbers.Number))
    own = type(value).__module__.startswith("ldp_jax") and not isinstance(value, type)
    if not (plain or own):
        return shape_of(value)
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def shape_of(value: object) -> str:
    """Return the type and the shape of a value.

    >>> shape_of(0.5), shape_of({"ana": 31})
    ('float', 'dict[1]')
    """
    kind = type(value).__name__
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"{getattr(value, 'dtype', kind)}{list(shape)}"
    uncounted = isinstance(value, (str, bytes, bytearray)) or hasattr(value, "_fields")
    if uncounted or not isinstance(value, Sized):
        return kind
    return f"{kind}[{len(value)}]"


def by_shapes(self: Any) -> str:
    """The ``__repr__`` of a NamedTuple or a dataclass: each field by :func:`shown`.

    Fields with ``repr=False`` are left out.
    """
    names = getattr(self, "_fields", None)
    if names is None:
        names = [field.name for field in dataclasses.fields(self) if field.repr]
    fields = (f"{name}={shown(getattr(self, name))}" for name in names)
    return f"{type(self).__name__}({', '.join(fields)})"


class Hidden:
    """A private argument that is passed on as it is, and shows its type and shape alone.

    >>> Hidden([31, 45]), Hidden([31, 45]).value
    (<list[2]>, [31, 45])
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"<{shape_of(self.value)}>"

    def __deepcopy__(self, memo: object) -> "Hidden":
        """Itself: clones of an estimator hold the same data, by which their reports are told."""
        return self


class HiddenArgument:
    """An attribute that the instance keeps as :class:`Hidden`, and that is read as it was given."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        if self.name not in vars(instance):
            raise AttributeError(f"{type(instance).__name__} has no {self.name}")
        held = vars(instance)[self.name]
        return held.value if isinstance(held, Hidden) else held

    def __set__(self, instance: object, value: Any) -> None:
        plain = value is None or isinstance(value, Hidden)
        vars(instance)[self.name] = value if plain else Hidden(value)
