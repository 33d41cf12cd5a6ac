"""Spaces of records and reports, which know what verification asks of them."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.types import Array, Record, Scalar

_FAR = 1e9
"""Where numbers of the host are cut before they become float32: beyond every domain."""


def as_records(x: Any) -> Array:
    """Records as an array of the device; the one place where numbers of the host become float32.

    They may be of any size and kind, Python integers without end included: they are clipped to +-1e9 first (every
    domain lies far within), in a precision that holds them, and no floating-point flag is seen. Arrays of the
    device and traced ones stay as they are.

    >>> as_records([10**400, -(2**63), 1e300, 0.5]).tolist()
    [1000000000.0, -1000000000.0, 1000000000.0, 0.5]
    """
    if isinstance(x, jax.Array):
        return x
    with np.errstate(all="ignore"):
        if isinstance(x, (bool, int, float)) and not isinstance(x, np.generic):
            return jnp.asarray(_near(x))  # weakly typed, as every Python number
        array = np.asarray(x)
        if array.dtype == object:
            array = np.array([_near(value) for value in array.ravel().tolist()], np.float64).reshape(array.shape)
        if array.dtype != np.float32:
            if array.dtype.itemsize <= 8:
                array = array.astype(np.float64)
            array = np.clip(array, -_FAR, _FAR).astype(jnp.result_type(float))
        return jnp.asarray(array)


def _near(x: Any) -> float:
    """A Python number within +-1e9; NaN as it is."""
    return float(x) if x != x else float(max(-_FAR, min(_FAR, x)))


def clip(x: Record, lower: float = -1.0, upper: float = 1.0) -> Array:
    """Bring any number into [lower, upper]; NaN goes to the centre.

    >>> clip(jnp.array([3.0, -jnp.inf, jnp.nan])).tolist()
    [1.0, -1.0, 0.0]
    """
    x = as_records(x)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        x = x.astype(jnp.float32)
    return jnp.where(jnp.isnan(x), (lower + upper) / 2, jnp.clip(x, lower, upper))


@dataclasses.dataclass(frozen=True)
class Interval:
    """The numbers in [lower, upper].

    Attributes:
      lower: may be ``-inf``.
      upper: may be ``inf``.
      breaks: for a codomain, the points where the density of a report jumps or bends, as a function of the
        record; with the ends they are where the largest privacy loss is looked for.
    """

    lower: Scalar
    upper: Scalar
    breaks: Callable[[Any], Array] | None = None


@dataclasses.dataclass(frozen=True)
class Finite:
    """A finite set of numbers."""

    values: tuple[Scalar, ...]


@dataclasses.dataclass(frozen=True)
class Mixture:
    """Pairs (branch, value): an integer that says which of ``parts`` the value comes from."""

    parts: tuple[Interval | Finite, ...]


@dataclasses.dataclass(frozen=True)
class Box:
    """Vectors of ``dim`` numbers, each in [lower, upper]."""

    dim: int
    lower: float = -1.0
    upper: float = 1.0


@dataclasses.dataclass(frozen=True)
class Product:
    """Vectors of ``dim`` values, each from ``inner``."""

    dim: int
    inner: Finite


@dataclasses.dataclass(frozen=True)
class Subset:
    """k sorted, distinct coordinates of ``dim``, each with a value from ``inner``."""

    dim: int
    k: int
    inner: Interval | Finite | Mixture


Domain = Interval | Finite | Mixture | Box | Product | Subset
