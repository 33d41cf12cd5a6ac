"""Balls of vectors, and reports that are vectors of real numbers."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from ldp_jax.core.quadrature import panel_rule
from ldp_jax.core.spaces.space import Log, NotApplicable, Records, Reports, as_records, shown
from ldp_jax.core.types import Array, Scalar

_LARGE = 1e18  # its square is a float32
_INSIDE = 1 - 2.0**-20  # of a shortened vector, so that its length is at most the radius after rounding
_MOST_CELLS = 4096
_NOTHING = 40.0  # e^-40 of a density is left out of an integral
_FAR = 2.0**40
_RULES = {1: (8, 2048), 2: (8, 64), 3: (16, 6)}
"""Points of a panel, and panels, by how many numbers are integrated together: 1e-15 of a Gaussian."""


def shortened(x: Any, radius: Any) -> Array:
    """Vectors [..., dim] of a length of at most ``radius``, which may be traced; a coordinate that is NaN is 0.

    >>> shortened(jnp.array([3.0, 4.0]), 1.0).round(3).tolist(), shortened([0.5, float("nan")], 1.0).tolist()
    ([0.6..., 0.8...], [0.5, 0.0])
    """
    x = as_records(x)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        x = x.astype(jnp.float32)
    x = jnp.where(jnp.isnan(x), 0.0, jnp.clip(x, -_LARGE, _LARGE))
    most = jnp.abs(x).max(-1, keepdims=True)
    most = jnp.where(most > 0, most, 1.0)
    unit = x / most
    squared = (unit**2).sum(-1, keepdims=True)
    root = jnp.where(squared > 0, jnp.sqrt(jnp.where(squared > 0, squared, 1.0)), 0.0)  # slopes of 0 at 0
    end = jnp.asarray(radius, x.dtype)
    # Vectors along axes and diagonals are shortened without a rounded sum: compiled as they are eagerly.
    return jnp.where(most * root > end, unit * (end * _INSIDE / jnp.where(root > 0, root, 1.0)), x)


@dataclasses.dataclass(frozen=True, repr=False)
class Ball(Records):
    """Vectors of ``dim`` numbers whose Euclidean length is at most ``radius``, which may be traced.

    >>> Ball(2, 1.5).contains([[0.9, 1.2], [1.0, 1.2]]).tolist(), Ball(2, 1.5)
    ([True, False], Ball(2, 1.5))
    """

    dim: int
    radius: Scalar = 1.0

    def __repr__(self) -> str:
        return f"Ball({self.dim}, {shown(self.radius)})"

    def contains(self, values: Any, *, rounding: int = 0) -> np.ndarray:
        """Which are vectors [dim] of at most that length, up to float32 rounding of their coordinates."""
        x = np.asarray(values, np.float64)
        if x.shape[-1:] != (self.dim,):
            return np.zeros(x.shape[:1], bool)
        most = float(self.radius) * (1 + (1 + rounding) * float(np.finfo(np.float32).eps))
        return np.asarray(np.sqrt((x**2).sum(-1)) <= most)

    def clip(self, x: Any) -> Array:
        """The vector itself, or one in its direction inside the sphere; a coordinate that is NaN is 0."""
        return shortened(x, self.radius)

    def extremes(self) -> tuple[np.ndarray, np.ndarray]:
        """Both ends of a diameter."""
        end, radius = np.zeros(self.dim, np.float32), np.float32(self.radius)
        end[0] = radius if float(radius) <= float(self.radius) else np.nextafter(radius, np.float32(0.0))
        return -end, end

    def typical(self) -> np.ndarray:
        """Half-way to the boundary, in no direction of an axis."""
        direction = np.arange(1.0, self.dim + 1)
        return (0.5 * float(self.radius) * direction / np.linalg.norm(direction)).astype(np.float32)

    def centre(self) -> np.ndarray:
        """The origin."""
        return np.zeros(self.dim, np.float32)

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Uniform directions and uniform lengths."""
        x = rng.normal(size=(n, self.dim))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        return (float(self.radius) * rng.random((n, 1)) * x).astype(np.float32)

    def grid(self, count: int) -> np.ndarray:
        """Along a diameter."""
        x = np.zeros((count, self.dim))
        x[:, 0] = np.linspace(-float(self.radius), float(self.radius), count)
        return x

    def critical_records(self) -> np.ndarray:
        """The centre, and both ends of the first two axes: other directions are these, turned."""
        axes = float(self.radius) * np.eye(self.dim)[:2]
        return np.concatenate([np.zeros((1, self.dim)), axes, -axes])

    def outside(self) -> tuple[np.ndarray, Any]:
        """Vectors that are longer, infinite or not numbers, and what they are taken for."""
        values = (np.nan, np.inf, -np.inf, 1e30, -7.0 * float(self.radius))
        rows = [np.full(self.dim, value) for value in values]
        rows.append(np.where(np.arange(self.dim) == 0, np.nan, 2.0 * float(self.radius)))
        bad = np.stack(rows).astype(np.float32)
        return bad, np.asarray(self.clip(bad))


def _line(log_density: Log, base: np.ndarray, number: int, places: np.ndarray) -> np.ndarray:
    """log p along one number through ``base``."""
    rows = np.tile(base, (len(places), 1))
    rows[:, number] = places
    return np.asarray(log_density(rows), np.float64)


_SCALES = 2.0 ** np.arange(-40.0, 41.0)
_PLACES = np.concatenate([-_SCALES[::-1], [0.0], _SCALES])
_COARSE = np.concatenate([-(2.0 ** np.arange(6, -7, -1)), [0.0], 2.0 ** np.arange(-6, 7)])


def _ends(log_density: Log, base: np.ndarray, number: int) -> tuple[float, float, float]:
    """Where one number has all but e^-40 of its density, and where its density is largest."""
    places = _PLACES
    for _ in range(2):  # over all sizes, then near what was found
        logs = _line(log_density, base, number, places)
        if np.isnan(logs).any() or not np.isfinite(logs.max()):
            raise NotApplicable("the density could not be followed along an axis")
        kept = np.flatnonzero(logs > logs.max() - _NOTHING)
        first, last = max(kept[0] - 1, 0), min(kept[-1] + 1, len(places) - 1)
        if kept[0] == 0 or kept[-1] == len(places) - 1:
            raise NotApplicable("the density has no end that could be found")
        found = float(places[first]), float(places[last]), float(places[logs.argmax()])
        places = np.linspace(found[0], found[1], 4001)[1:-1]
        places = np.concatenate([[found[0]], places, [found[1]]])
    return found


@dataclasses.dataclass(frozen=True)
class Vectors(Reports):
    """Vectors of ``dim`` real numbers, which are independent of each other given the record.

    So that a density can be looked at one number at a time: along a line parallel to an axis it is, up to a
    factor, the density of that number.
    """

    dim: int

    @property
    def continuous(self) -> bool:
        """True."""
        return True

    @property
    def independent(self) -> bool:
        """True."""
        return True

    def contains(self, values: Any, *, rounding: int = 0) -> np.ndarray:
        """Which are vectors [dim] of finite numbers."""
        y = np.asarray(values)
        if y.shape[-1:] != (self.dim,):
            return np.zeros(y.shape[:1], bool)
        return np.asarray(np.isfinite(y).all(-1))

    def critical_reports(self, records: Any) -> np.ndarray:
        """The records themselves, the middles between them, and places beyond.

        Raises:
          NotApplicable: where records have another number of coordinates.
        """
        x = np.asarray(records, np.float64)
        if x.shape[-1] != self.dim:
            raise NotApplicable(
                f"records of {x.shape[-1]} numbers do not say where reports of {self.dim} lose most"
            )
        middles = (x[:, None] + x[None]).reshape(-1, self.dim) / 2
        return np.unique(np.concatenate([x, middles, 3 * x, 10 * x]), axis=0)

    def search(self, rng: np.random.Generator, known: Any, n: int) -> Array:
        """Uniform over the box of known ones."""
        known = np.asarray(known, np.float64)
        return jnp.asarray(rng.uniform(known.min(0), known.max(0), (n, self.dim)))

    def far(self, known: Any) -> np.ndarray:
        """Known ones, very far out."""
        return _FAR * np.asarray(known, np.float64)

    def _mode(self, log_density: Log) -> tuple[np.ndarray, np.ndarray]:
        """Where the density is largest [dim], and the ends [dim, 2] of what is not nothing of it."""
        base, ends = np.zeros(self.dim), np.zeros((self.dim, 2))
        if np.isneginf(log_density(base[None])[0]) and self.dim in _RULES:  # impossible: look for what is not
            places = np.stack(np.meshgrid(*[_COARSE] * self.dim, indexing="ij"), -1).reshape(-1, self.dim)
            base = places[np.argmax(log_density(places))]
        for number in range(self.dim):
            ends[number, 0], ends[number, 1], base[number] = _ends(log_density, base, number)
        return base, ends

    def quadrature(self, records: Any, log_density: Log, *, panels: int = 64, order: int = 8) -> tuple[Any, Any]:
        """A tensor rule of one to three numbers, over what is not nothing of the first record's density.

        Raises:
          NotApplicable: for more numbers, or several records.
        """
        if len(np.asarray(records)) > 1:
            raise NotApplicable("vectors are integrated about one record, or between two")
        _, ends = self._mode(log_density)
        return self._rule(ends, np.zeros(self.dim), list(range(self.dim)))

    def _rule(self, ends: np.ndarray, base: np.ndarray, numbers: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Reports and weights over some of the numbers, the others as in ``base``."""
        if len(numbers) not in _RULES:
            raise NotApplicable(
                f"{len(numbers)} real numbers are too many to integrate together: ask a smaller dim"
            )
        lines = [panel_rule(ends[number], *_RULES[len(numbers)]) for number in numbers]
        places = np.meshgrid(*(line[0] for line in lines), indexing="ij")
        weights = np.meshgrid(*(line[1] for line in lines), indexing="ij")
        y = np.tile(base, (places[0].size, 1))
        y[:, numbers] = np.stack([place.ravel() for place in places], 1)
        return y, np.prod([weight.ravel() for weight in weights], 0)

    def between(self, log_density: Log, other: Log) -> tuple[Any, Any]:
        """A rule over the numbers whose laws differ; what the others weigh is divided out.

        Raises:
          NotApplicable: where more than three numbers differ.
        """
        base, ends = self._mode(log_density)
        _, other_ends = self._mode(other)
        both = np.stack([np.minimum(ends[:, 0], other_ends[:, 0]), np.maximum(ends[:, 1], other_ends[:, 1])], 1)
        differ, rest = [], 1.0
        for number in range(self.dim):
            line, weights = panel_rule(both[number], *_RULES[1])
            mine, theirs = (_line(log, base, number, line) for log in (log_density, other))
            neither = np.isneginf(mine) & np.isneginf(theirs)
            ratio = np.subtract(mine, theirs, out=np.zeros_like(mine), where=~neither)
            seen = np.maximum(mine, theirs) > max(mine.max(), theirs.max()) - _NOTHING
            if not np.isfinite(ratio[seen]).all() or np.ptp(ratio[seen]) > 1e-9:
                differ.append(number)
            else:
                rest *= float(weights @ np.exp(mine - _line(log_density, base, number, base[[number]])))
        if not differ:
            return base[None], np.ones(1)
        y, weights = self._rule(both, base, differ)
        return y, weights * rest

    def cells(self, x: Any, log_density: Log) -> tuple[np.ndarray, Callable[[Any], np.ndarray]]:
        """The combinations of quartiles of each number.

        Raises:
          NotApplicable: for too many numbers.
        """
        if 4**self.dim > _MOST_CELLS:
            raise NotApplicable(f"4^{self.dim} cells are too many to count: test a smaller dim")
        base, ends = self._mode(log_density)
        mass, cuts = np.ones(1), []
        for number in range(self.dim):
            line = np.linspace(ends[number, 0], ends[number, 1], 20_001)
            law = np.exp(_line(log_density, base, number, line) - _line(log_density, base, number, base[[number]]))
            below = np.concatenate([[0.0], np.cumsum((law[1:] + law[:-1]) / 2)])
            cut = np.interp([0.25, 0.5, 0.75], below / below[-1], line)
            quarters = np.diff(np.concatenate([[0.0], np.interp(cut, line, below / below[-1]), [1.0]]))
            mass = (mass[:, None] * quarters).ravel()
            cuts.append(cut)

        def cell(y: Any) -> np.ndarray:
            found = np.zeros(len(y), np.int64)
            for cut, drawn in zip(cuts, np.asarray(y, np.float64).T, strict=True):
                found = 4 * found + np.searchsorted(cut, drawn, "right")
            return found

        return mass, cell

    def volume(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Four float32 spacings of each number."""
        return _spacings(y)


def _spacings(y: Any) -> tuple[np.ndarray, np.ndarray]:
    spacing = 4 * np.spacing(np.abs(np.asarray(y, np.float32))).astype(np.float64)
    return spacing.prod(-1), np.zeros(len(spacing), bool)


_SECTORS, _RINGS, _SIDE = 8, 6, 12
"""Cells of a disc, by the angle about the record and by the share of the way to the rim; points of each."""


@dataclasses.dataclass(frozen=True, repr=False)
class Disc(Reports):
    """The points of the plane within ``radius`` of the origin, for densities that have a peak at the record.

    They are integrated in polar coordinates about the record, along which such a peak is smooth.

    >>> Disc(0.5).contains([[0.3, 0.4], [0.5, 0.1]]).tolist()
    [True, False]
    """

    radius: Scalar

    def __repr__(self) -> str:
        return f"Disc({shown(self.radius)})"

    @property
    def continuous(self) -> bool:
        """True."""
        return True

    def contains(self, values: Any, *, rounding: int = 0) -> np.ndarray:
        """Which are points of the disc."""
        return Ball(2, self.radius).contains(values, rounding=rounding)

    def critical_reports(self, records: Any) -> np.ndarray:
        """The records themselves, the middles between them, and places on the rim."""
        x = np.asarray(records, np.float64)
        middles = (x[:, None] + x[None]).reshape(-1, 2) / 2
        turn = 2 * np.pi * np.arange(16) / 16
        rim = float(self.radius) * np.stack([np.cos(turn), np.sin(turn)], 1) * (1 - 1e-12)
        return np.unique(np.concatenate([x, middles, rim]), axis=0)

    def search(self, rng: np.random.Generator, known: Any, n: int) -> Array:
        """Uniform over the disc."""
        turn = rng.uniform(0, 2 * np.pi, n)
        length = float(self.radius) * np.sqrt(rng.random(n))
        return jnp.asarray(length[:, None] * np.stack([np.cos(turn), np.sin(turn)], 1))

    def _way(self, x: np.ndarray, turn: np.ndarray) -> np.ndarray:
        """How far it is from x to the rim, by the angle from the direction of x."""
        size = float(np.hypot(*x))
        along = size * np.cos(turn)
        return np.sqrt(np.maximum(along**2 + max(float(self.radius) ** 2 - size**2, 0.0), 0.0)) - along

    def _polar(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Reports, weights and cells of a rule about x: sectors of the angle, and rings of the way to the rim."""
        # Of a record on the rim the jumps are at ends of panels.
        turn, turn_weight = panel_rule((0.0, 2 * np.pi), _SIDE, 4 * _SECTORS)
        share, share_weight = panel_rule((0.0, 1.0), _SIDE, 2 * _RINGS)
        way = self._way(x, turn)
        angle = math.atan2(x[1], x[0]) + turn
        y = x + (way[:, None] * share)[..., None] * np.stack([np.cos(angle), np.sin(angle)], -1)[:, None]
        weights = turn_weight[:, None] * share_weight * share * way[:, None] ** 2
        sector, ring = (
            (np.arange(len(turn)) * _SECTORS) // len(turn),
            (np.arange(len(share)) * _RINGS) // len(share),
        )
        cells = sector[:, None] * _RINGS + ring
        return y.reshape(-1, 2), weights.ravel(), np.broadcast_to(cells, weights.shape).ravel()

    def quadrature(self, records: Any, log_density: Log, *, panels: int = 64, order: int = 8) -> tuple[Any, Any]:
        """A polar rule about the record.

        Raises:
          NotApplicable: for several records.
        """
        x = np.asarray(records, np.float64)
        if len(x) > 1:
            raise NotApplicable("a disc is integrated about one record")
        y, weights, _ = self._polar(x[0])
        return y, weights

    def cells(self, x: Any, log_density: Log) -> tuple[np.ndarray, Callable[[Any], np.ndarray]]:
        """Eight sectors about the record, each in six rings by the share of the way to the rim."""
        x = np.asarray(x, np.float64)
        y, weights, cells = self._polar(x)
        mass = np.bincount(cells, weights * np.exp(np.asarray(log_density(y))), _SECTORS * _RINGS)

        def cell(y: Any) -> np.ndarray:
            step = np.asarray(y, np.float64) - x
            turn = (np.arctan2(step[:, 1], step[:, 0]) - math.atan2(x[1], x[0])) % (2 * np.pi)
            share = np.hypot(*step.T) / np.maximum(self._way(x, turn), 1e-300)
            sector = np.minimum((turn / (2 * np.pi) * _SECTORS).astype(np.int64), _SECTORS - 1)
            return sector * _RINGS + np.minimum((share * _RINGS).astype(np.int64), _RINGS - 1)

        return mass, cell

    def volume(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Four float32 spacings of each coordinate."""
        return _spacings(y)
