"""Vectors, on the sphere or in space, whose law is the same all round the record's direction."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np

from ldp_jax.core.spaces.balls import Vectors, bounded, lengths
from ldp_jax.core.spaces.space import Reports, each_vector
from ldp_jax.core.types import Array, ArrayLike, Scalar, Values

_WHOLE = 1 - 2.0**-19  # a length above is the radius: float32 rounds a vector of length 1 to less


def polar(x: Values, radius: float = 1.0) -> tuple[Array, Array]:
    """Return lengths [...] of vectors [..., dim], at most 1 of ``radius``, and directions.

    A coordinate that is NaN is 0, a length within 2e-6 of 1 is 1, and zeros have the direction of
    the first axis.

    >>> length, direction = polar(jnp.array([[3.0, 4.0], [0.0, 0.0], [0.0, -0.5]]))
    >>> length.tolist(), direction.round(3).tolist()
    ([1.0, 0.0, 0.5], [[0.6..., 0.8...], [1.0, 0.0], [0.0, -1.0]])
    """
    x = bounded(x)
    most = jnp.abs(x).max(-1, keepdims=True)
    scaled = x / jnp.where(most > 0, most, 1.0)
    size = jnp.sqrt((scaled**2).sum(-1, keepdims=True))
    first = jnp.zeros_like(x).at[..., 0].set(1.0)
    unit = scaled / jnp.where(most > 0, size, 1.0)
    direction = jnp.where(most > 0, unit, first)
    length = (most * size / radius)[..., 0]
    length = jnp.where(length > _WHOLE, 1.0, length)
    return length.astype(x.dtype), direction


@dataclasses.dataclass(frozen=True)
class Around(Reports[Values]):
    """Vectors whose law is the same all round the record's direction; abstract.

    It depends on the component along that direction, and on the length across it. The density may
    jump where the component along is plus or minus ``cut``. Records [d] go through ``projection``
    [dim, d] first.
    """

    dim: int
    cut: Scalar = 0.0
    projection: ArrayLike | None = dataclasses.field(default=None, compare=False, repr=False)

    continuous = True


@dataclasses.dataclass(frozen=True)
class Sphere(Around):
    """Unit vectors of ``dim`` >= 2 numbers; densities are with respect to the surface.

    >>> Sphere(2).contains(np.float32([[0.6, 0.8], [1.0, 1.0]])).tolist()
    [True, False]
    """

    def contains(self, values: Values, *, rounding: int = 0) -> np.ndarray:
        """Whether values are vectors [dim] of length 1, up to float32 roundings."""
        slack = (4 + rounding) * float(np.finfo(np.float32).eps) * math.sqrt(self.dim)
        return each_vector(values, self.dim, lambda y: np.abs(lengths(y) - 1) <= slack)


@dataclasses.dataclass(frozen=True)
class Turned(Around):
    """Vectors of ``dim`` >= 2 real numbers."""

    def contains(self, values: Values, *, rounding: int = 0) -> np.ndarray:
        """Whether values are vectors [dim] of finite numbers."""
        return Vectors(self.dim).contains(values)
