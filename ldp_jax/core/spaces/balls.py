"""Balls of vectors, and reports that are vectors of real numbers."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from ldp_jax.core.spaces.space import Records, Reports, each_vector, floats, real, shown
from ldp_jax.core.types import Array, Scalar, Values

_INSIDE = 1 - 2.0**-20
"""A shortened vector is this much of the radius, so that rounding does not make it longer."""


def bounded(x: Values) -> Array:
    """Vectors as floats whose squares float32 holds; a coordinate that is NaN is 0."""
    x = floats(x)
    return jnp.where(jnp.isnan(x), 0.0, jnp.clip(x, -1e18, 1e18))


def lengths(x: np.ndarray) -> np.ndarray:
    """The Euclidean lengths [..., 1] of vectors [..., dim], float64."""
    return np.sqrt((real(x).astype(np.float64) ** 2).sum(-1, keepdims=True))


def shortened(x: Values, radius: Scalar) -> Array:
    """Shorten vectors [..., dim] to a length of at most ``radius``, which may be traced.

    A coordinate that is NaN is 0.

    >>> shortened([[3.0, 4.0], [0.5, float("nan")]], 1.0).round(3).tolist()
    [[0.6..., 0.8...], [0.5, 0.0]]
    """
    x = bounded(x)
    most = jnp.abs(x).max(-1, keepdims=True)
    most = jnp.where(most > 0, most, 1.0)
    unit = x / most
    squared = (unit**2).sum(-1, keepdims=True)
    positive = squared > 0  # slopes are 0 at 0
    root = jnp.where(positive, jnp.sqrt(jnp.where(positive, squared, 1.0)), 0.0)
    end = jnp.asarray(radius, x.dtype)
    # Vectors along axes and diagonals are shortened without a rounded sum: compiled as they are
    # eagerly.
    inside = unit * (end * _INSIDE / jnp.where(root > 0, root, 1.0))
    return jnp.where(most * root > end, inside, x)


@dataclasses.dataclass(frozen=True, repr=False)
class Ball(Records[Values]):
    """Vectors of ``dim`` numbers whose Euclidean length is at most ``radius``, which may be traced.

    >>> Ball(2, 1.5).contains([[0.9, 1.2], [1.0, 1.2]]).tolist(), Ball(2, 1.5)
    ([True, False], Ball(2, 1.5))
    """

    dim: int
    radius: Scalar = 1.0

    def __repr__(self) -> str:
        return f"Ball({self.dim}, {shown(self.radius)})"

    def contains(self, values: Values, *, rounding: int = 0) -> np.ndarray:
        """Whether values are vectors [dim] of at most that length, up to float32 rounding."""
        slack = (1 + rounding) * float(np.finfo(np.float32).eps)
        most = float(self.radius) * (1 + slack)
        return each_vector(values, self.dim, lambda x: lengths(x) <= most)

    def clip(self, x: Values) -> Array:
        """The vector itself, or one in its direction inside the sphere.

        A coordinate that is NaN is 0.
        """
        return shortened(x, self.radius)

    def extremes(self) -> tuple[np.ndarray, np.ndarray]:
        """Both ends of a diameter."""
        end = np.zeros(self.dim, np.float32)
        end[0] = self.radius
        if float(end[0]) > float(self.radius):
            end[0] = np.nextafter(end[0], np.float32(0.0))
        return -end, end

    def typical(self) -> np.ndarray:
        """Half-way to the boundary, in no direction of an axis."""
        direction = np.arange(1.0, self.dim + 1)
        half_way = 0.5 * float(self.radius) * direction / np.linalg.norm(direction)
        return half_way.astype(np.float32)

    def centre(self) -> np.ndarray:
        """The origin."""
        return np.zeros(self.dim, np.float32)

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Uniform directions and uniform lengths."""
        direction = rng.normal(size=(n, self.dim))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        length = float(self.radius) * rng.random((n, 1))
        return (length * direction).astype(np.float32)

    def grid(self, count: int) -> np.ndarray:
        """Along a diameter."""
        x = np.zeros((count, self.dim))
        x[:, 0] = np.linspace(-float(self.radius), float(self.radius), count)
        return x

    def critical_records(self) -> np.ndarray:
        """The centre, and both ends of the first two axes: other directions are these, turned."""
        axes = float(self.radius) * np.eye(self.dim)[:2]
        return np.concatenate([np.zeros((1, self.dim)), axes, -axes])


@dataclasses.dataclass(frozen=True)
class Vectors(Reports[Values]):
    """Vectors of ``dim`` real numbers, which are independent of each other given the record."""

    dim: int

    continuous = True

    def contains(self, values: Values, *, rounding: int = 0) -> np.ndarray:
        """Whether values are vectors [dim] of finite numbers."""
        return each_vector(values, self.dim, np.isfinite)


@dataclasses.dataclass(frozen=True, repr=False)
class Disc(Reports[Values]):
    """The points of the plane within ``radius``, for densities that have a peak at the record.

    >>> Disc(0.5).contains([[0.3, 0.4], [0.5, 0.1]]).tolist()
    [True, False]
    """

    radius: Scalar

    def __repr__(self) -> str:
        return f"Disc({shown(self.radius)})"

    continuous = True

    def contains(self, values: Values, *, rounding: int = 0) -> np.ndarray:
        """Whether values are points of the disc."""
        return Ball(2, self.radius).contains(values, rounding=rounding)
