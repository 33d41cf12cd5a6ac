"""Reports whose law is the same all round the record's direction: on the unit sphere, and in the whole space."""

import abc
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from ldp_jax.core.quadrature import panel_rule, subdivide
from ldp_jax.core.spaces.space import Log, NotApplicable, Reports, as_records
from ldp_jax.core.types import Array

_LARGE = 1e18  # its square is a float32
_WHOLE = 1 - 2.0**-19  # a length above is the radius: float32 rounds a vector of length 1 to less
_MOST_CELLS = 4096
_NOTHING = 40.0  # e^-40 of a density is left out of an integral
_FAR = 2.0**10


def polar(x: Any, radius: float = 1.0) -> tuple[Array, Array]:
    """Lengths [...] of vectors [..., dim], in units of ``radius`` and at most 1; and their directions [..., dim].

    Total: a coordinate that is NaN is 0, and a vector of zeros has the direction of the first axis. A length within
    2e-6 of 1 is 1, as float32 rounds.

    >>> length, direction = polar(jnp.array([[3.0, 4.0], [0.0, 0.0], [0.0, -0.5]]))
    >>> length.tolist(), direction.round(3).tolist()
    ([1.0, 0.0, 0.5], [[0.6..., 0.8...], [1.0, 0.0], [0.0, -1.0]])
    """
    x = as_records(x)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        x = x.astype(jnp.float32)
    x = jnp.where(jnp.isnan(x), 0.0, jnp.clip(x, -_LARGE, _LARGE))
    most = jnp.abs(x).max(-1, keepdims=True)
    scaled = x / jnp.where(most > 0, most, 1.0)
    size = jnp.sqrt((scaled**2).sum(-1, keepdims=True))
    first = jnp.zeros_like(x).at[..., 0].set(1.0)
    direction = jnp.where(most > 0, scaled / jnp.where(most > 0, size, 1.0), first)
    length = (most * size / radius)[..., 0]
    return jnp.where(length > _WHOLE, 1.0, length).astype(x.dtype), direction


@dataclasses.dataclass(frozen=True)
class _Around(Reports):
    """Vectors whose law about a record depends on two numbers; abstract.

    They are the component ``along`` the record's direction and the length ``across`` it. The density may jump where
    the component along is plus or minus ``cut``. Records of another length are first multiplied with ``projection``
    [dim, d], where there is one.
    """

    dim: int
    cut: Any = 0.0
    projection: Any = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def continuous(self) -> bool:
        """True."""
        return True

    @abc.abstractmethod
    def _slices(self, direction: np.ndarray, log_density: Log, panels: int, order: int) -> tuple[Any, Any]:
        """A rule over along [n] and across [n], weights [n] of whole slices; and edges of its coarse cells."""

    def _steps(self) -> np.ndarray:
        """The places along the direction where the density may jump."""
        cut = float(self.cut)
        return np.array([-cut, cut]) if cut else np.zeros(1)

    def critical_reports(self, records: Any) -> np.ndarray:
        """In the direction of each record and against it, before and beyond the cut."""
        directions = np.unique(self._directions(records), axis=0)
        return np.concatenate([size * side * directions for size in self._sizes() for side in (1.0, -1.0)])

    @abc.abstractmethod
    def _sizes(self) -> tuple[float, ...]:
        """Lengths of critical reports."""

    def search(self, rng: np.random.Generator, known: Any, n: int) -> Array:
        """Uniform directions, lengths of known ones."""
        y = rng.normal(size=(n, self.dim))
        y /= np.linalg.norm(y, axis=1, keepdims=True)
        return jnp.asarray(y * rng.choice(np.linalg.norm(np.asarray(known), axis=1), (n, 1)))

    def quadrature(self, records: Any, log_density: Log, *, panels: int = 8, order: int = 8) -> tuple[Any, Any]:
        """Slices across the record's direction, each by 2 (dim - 1) points around it.

        Of each slice the rule is right for polynomials of degree 3: mass, mean and variance. Fourth moments, which
        say how precise a variance of draws is, come out larger than they are.

        Raises:
          NotApplicable: for records in several directions.
        """
        direction = self._direction(records)
        along, across, weight = self._slices(direction, log_density, min(panels, 8), order)[0]
        basis = _complement(direction)
        turns = np.concatenate([basis, -basis])
        y = along[:, None, None] * direction + across[:, None, None] * turns
        return y.reshape(-1, self.dim), np.repeat(weight / len(turns), len(turns))

    def _directions(self, records: Any) -> np.ndarray:
        records = np.asarray(records, np.float64)
        if self.projection is not None:
            records = records @ np.asarray(self.projection, np.float64).T
        return np.asarray(polar(records)[1], np.float64)

    def _direction(self, records: Any) -> np.ndarray:
        directions = self._directions(records)
        if np.abs(np.abs(directions @ directions[0]) - 1).max() > 1e-9:
            raise NotApplicable("the law is the same around one direction alone: ask one record")
        return directions[0]

    def cells(self, x: Any, log_density: Log) -> tuple[np.ndarray, Callable[[Any], np.ndarray]]:
        """Ranges along and across the record's direction, and the orthants of what is across.

        Raises:
          NotApplicable: for too many numbers.
        """
        direction = self._direction(np.asarray(x)[None])
        basis = _complement(direction)
        (along, across, weight), edges = self._slices(direction, log_density, 8, 8)
        bins = tuple(len(edge) + 1 for edge in edges)
        orthants = 2 ** len(basis)
        if math.prod(bins) * orthants > _MOST_CELLS:
            raise NotApplicable(f"2^{len(basis)} orthants are too many to count: test a smaller dim")
        ranges = lambda a, b: np.ravel_multi_index(
            (np.searchsorted(edges[0], a, "right"), np.searchsorted(edges[1], b, "right")), bins
        )
        logs = log_density(along[:, None] * direction + across[:, None] * basis[0])
        mass = np.bincount(
            ranges(along, across), weight * np.exp(np.asarray(logs, np.float64)), minlength=math.prod(bins)
        )

        def cell(y: Any) -> np.ndarray:
            y = np.asarray(y, np.float64)
            rest = y @ basis.T
            sides = (rest > 0) @ (1 << np.arange(len(basis)))
            return ranges(y @ direction, np.linalg.norm(rest, axis=1)) * orthants + sides

        return np.repeat(mass / orthants, orthants), cell

    def volume(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Four float32 spacings of each number."""
        spacing = 4 * np.spacing(np.abs(np.asarray(y, np.float32))).astype(np.float64)
        return spacing.prod(-1), np.zeros(len(spacing), bool)


@dataclasses.dataclass(frozen=True)
class Sphere(_Around):
    """Unit vectors of ``dim`` >= 2 numbers; densities are with respect to the surface.

    >>> Sphere(2).contains(np.float32([[0.6, 0.8], [1.0, 1.0]])).tolist()
    [True, False]
    """

    def contains(self, values: Any, *, rounding: int = 0) -> np.ndarray:
        """Which are vectors [dim] of length 1, up to float32 roundings."""
        y = np.asarray(values, np.float64)
        if y.shape[-1:] != (self.dim,):
            return np.zeros(y.shape[:1], bool)
        slack = (4 + rounding) * float(np.finfo(np.float32).eps) * math.sqrt(self.dim)
        return np.asarray(np.abs(np.sqrt((y**2).sum(-1)) - 1) <= slack)

    def _sizes(self) -> tuple[float, ...]:
        return (1.0,)

    def _slices(self, direction: np.ndarray, log_density: Log, panels: int, order: int) -> tuple[Any, Any]:
        corners = np.unique(np.arccos(np.clip(np.concatenate([[-1.0, 1.0], self._steps()]), -1, 1)))
        angle, weight = panel_rule(corners, order, panels)
        weight = weight * _surface(self.dim - 1) * np.sin(angle) ** (self.dim - 2)
        coarse = np.cos(subdivide(corners, 4)[1:-1])[::-1]
        return (np.cos(angle), np.sin(angle), weight), (coarse, np.zeros(0))

    def volume(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Four float32 spacings of each number but the largest, over the slope of the surface there."""
        y = np.asarray(y, np.float32)
        spacing = 4 * np.spacing(np.abs(y)).astype(np.float64)
        most = np.expand_dims(np.argmax(np.abs(y), -1), -1)
        np.put_along_axis(spacing, most, 1 / np.abs(np.take_along_axis(y, most, -1)).astype(np.float64), -1)
        return spacing.prod(-1), np.zeros(len(spacing), bool)


@dataclasses.dataclass(frozen=True)
class Turned(_Around):
    """Vectors of ``dim`` >= 2 real numbers, whose law is the same all round the record's direction."""

    def contains(self, values: Any, *, rounding: int = 0) -> np.ndarray:
        """Which are vectors [dim] of finite numbers."""
        y = np.asarray(values)
        if y.shape[-1:] != (self.dim,):
            return np.zeros(y.shape[:1], bool)
        return np.asarray(np.isfinite(y).all(-1))

    def _sizes(self) -> tuple[float, ...]:
        cut = float(self.cut) or 1.0
        return 0.0, 0.5 * cut, 1.001 * cut, 2.0 * cut, 10.0 * cut

    def far(self, known: Any) -> np.ndarray:
        """Known ones, very far out."""
        return _FAR * np.asarray(known, np.float64)

    def _reach(self, direction: np.ndarray, log_density: Log) -> tuple[float, float]:
        """How far along, both ways, and across the direction a density is followed."""
        rays = np.stack([direction, -direction, _complement(direction)[0]])
        start = 1.001 * np.abs(self._steps()).max()
        tried = start * rays[:2] if start else np.zeros((1, self.dim))
        peak = float(np.asarray(log_density(np.concatenate([tried, np.zeros((1, self.dim))]))).max())
        reach = [0.0, 0.0]
        size = 1e-3 + start
        while not all(reach):
            logs = np.asarray(log_density(size * rays), np.float64)
            peak = max(peak, float(logs.max()))
            if size > 1e9 or np.isnan(peak):
                raise NotApplicable("the density has no end that could be found")
            for which, found in enumerate((logs[:2].max(), logs[2])):
                if not reach[which] and found < peak - _NOTHING:
                    reach[which] = size
            size *= 1.25
        return reach[0], reach[1]

    def _slices(self, direction: np.ndarray, log_density: Log, panels: int, order: int) -> tuple[Any, Any]:
        far, wide = self._reach(direction, log_density)
        corners = np.unique(np.concatenate([[-far, far], self._steps()]))
        along, weight = panel_rule(corners, order, panels)
        across, thin = panel_rule(np.array([0.0, wide]), order, panels)
        thin = thin * _surface(self.dim - 1) * across ** (self.dim - 2)
        pairs = np.meshgrid(along, across, indexing="ij")
        coarse = subdivide(corners, 4)[1:-1], subdivide(np.array([0.0, wide / 4]), 4)[1:]
        return (pairs[0].ravel(), pairs[1].ravel(), np.outer(weight, thin).ravel()), coarse


def _surface(dim: int) -> float:
    """The surface of the unit sphere of ``dim`` numbers; two points for one."""
    return 2 * math.pi ** (dim / 2) / math.gamma(dim / 2)


def _complement(direction: np.ndarray) -> np.ndarray:
    """An orthonormal basis [dim - 1, dim] of what is across a direction: a reflection takes an axis to it."""
    axis = int(np.abs(direction).argmin())
    mirror = direction - np.eye(len(direction))[axis]
    turn = np.eye(len(direction)) - 2 * np.outer(mirror, mirror) / (mirror @ mirror)
    return np.delete(turn, axis, axis=0)
