"""Spaces of vectors: boxes of records, products of finite sets, and sampled coordinates."""

import abc
import dataclasses
import itertools
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ldp_jax.core.shown import by_shapes
from ldp_jax.core.spaces.numbers import PLACES, Finite, Interval, Mixture
from ldp_jax.core.spaces.space import NotApplicable, Records, Reports, each_vector
from ldp_jax.core.types import AnyArray, Array, Values, Y

_MOST_RECORDS = 4_000_000


@dataclasses.dataclass(frozen=True)
class Box(Records[Values]):
    """Vectors of ``dim`` numbers, each in [lower, upper]."""

    dim: int
    lower: float = -1.0
    upper: float = 1.0

    @property
    def side(self) -> Interval:
        """One coordinate."""
        return Interval(self.lower, self.upper)

    def contains(self, values: Values, *, rounding: int = 0) -> np.ndarray:
        """Whether values are vectors [dim] with all coordinates between the ends."""
        return each_vector(values, self.dim, partial(self.side.contains, rounding=rounding))

    def clip(self, x: Values) -> Array:
        """Coordinate by coordinate; NaN goes to the centre."""
        return self.side.clip(x)

    def extremes(self) -> tuple[np.ndarray, np.ndarray]:
        """Two opposite corners."""
        return np.full(self.dim, self.lower, np.float32), np.full(self.dim, self.upper, np.float32)

    def typical(self) -> np.ndarray:
        """Coordinates of several kinds, the ends among them."""
        place = np.resize(np.array(PLACES, np.float32), self.dim)
        return (self.lower + place * (self.upper - self.lower)).astype(np.float32)

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Uniform vectors."""
        return self.side.sample(rng, n * self.dim).reshape(n, self.dim)

    def grid(self, count: int) -> Array:
        """Along the diagonal."""
        return jnp.broadcast_to(self.side.grid(count)[:, None], (count, self.dim))

    def critical_records(self) -> np.ndarray:
        """All vectors of ends and centres."""
        places = (self.lower, (self.lower + self.upper) / 2, self.upper)
        if 3**self.dim > _MOST_RECORDS:
            raise NotApplicable(f"3^{self.dim} records are too many: ask a smaller dim")
        return np.array(list(itertools.product(places, repeat=self.dim)))


@dataclasses.dataclass(frozen=True)
class ByCoordinate(Reports[Y]):
    """Reports that hold values of some or all of ``dim`` coordinates of a vector; abstract."""

    dim: int

    @property
    @abc.abstractmethod
    def sent(self) -> int:
        """How many coordinates a report holds."""

    @abc.abstractmethod
    def entries(self, y: Y) -> tuple[np.ndarray, Values]:
        """The coordinates of stacked reports [n, sent], and their values."""

    @abc.abstractmethod
    def of_entries(self, indices: np.ndarray, values: Values) -> Y:
        """The stacked reports of coordinates [n, sent] in order, and their values."""


@dataclasses.dataclass(frozen=True)
class Product(ByCoordinate[Values]):
    """Vectors of ``dim`` values, each from ``inner``."""

    dim: int
    inner: Finite

    @property
    def sent(self) -> int:
        """All coordinates."""
        return self.dim

    def entries(self, y: Values) -> tuple[np.ndarray, Values]:
        """All coordinates, and the values."""
        return np.broadcast_to(np.arange(self.dim), np.shape(y)), y

    def of_entries(self, indices: np.ndarray, values: Values) -> Values:
        """The values."""
        return values

    def contains(self, values: Values, *, rounding: int = 0) -> np.ndarray:
        """Whether values are vectors [dim] of values of ``inner``."""
        return each_vector(values, self.dim, partial(self.inner.contains, rounding=rounding))


class SparseReport(NamedTuple):
    """k sorted, distinct coordinates, int32, and the inner mechanism's reports of them [k]."""

    indices: AnyArray
    values: Any

    __repr__ = by_shapes


@dataclasses.dataclass(frozen=True)
class Subset(ByCoordinate[SparseReport]):
    """Reports of k sorted, distinct coordinates of ``dim``, each with a value from ``inner``."""

    dim: int
    k: int
    inner: Interval | Finite | Mixture

    @property
    def sent(self) -> int:
        """How many coordinates a report holds."""
        return self.k

    @property
    def continuous(self) -> bool:
        """Whether values are."""
        return self.inner.continuous

    def entries(self, y: SparseReport) -> tuple[np.ndarray, Values]:
        """The coordinates of stacked reports [n, sent], and their values."""
        return np.asarray(y.indices), y.values

    def of_entries(self, indices: np.ndarray, values: Values) -> SparseReport:
        """Stacked coordinates [n, k] in order, and their values."""
        return SparseReport(np.asarray(indices, np.int32), values)

    def contains(self, values: SparseReport, *, rounding: int = 0) -> np.ndarray:
        """Whether coordinates are sorted, distinct and below ``dim``, and values of ``inner``."""
        at, inner = SparseReport(*values)  # and nothing else
        sorted_below = lambda at: (np.diff(at, prepend=-1) > 0) & (at < self.dim)
        possible = self.inner.contains(inner, rounding=rounding).all(-1)
        return each_vector(at, self.k, sorted_below) & possible
