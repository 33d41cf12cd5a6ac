"""Spaces of one number: intervals, finite sets, and mixtures of both."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import validate
from ldp_jax.core.quadrature import panel_rule
from ldp_jax.core.spaces.line import line
from ldp_jax.core.spaces.space import (
    Enumerated,
    Log,
    NotApplicable,
    Records,
    Reports,
    as_records,
    clip,
    infinite,
    listed,
    shown,
)
from ldp_jax.core.types import Array, Scalar

PLACES = (0.65625, 0.125, 1.0, 0.375, 0.0)
"""Shares of an interval, exact in float32, of which typical records are made."""


@dataclasses.dataclass(frozen=True, repr=False)
class Interval(Records, Reports):
    """The numbers in [lower, upper].

    Attributes:
      lower: may be ``-inf``.
      upper: may be ``inf``.
      breaks: for a codomain, the points where the density of a report jumps or bends, as a function of the
        record; with the ends they are where the largest privacy loss is looked for.

    >>> Interval(-1.0, 1.0).contains([0.5, 2.0]).tolist(), Interval(-1.0, 1.0)
    ([True, False], Interval(-1, 1))
    """

    lower: Scalar
    upper: Scalar
    breaks: Callable[[Any], Array] | None = None

    def __repr__(self) -> str:
        return f"Interval({shown(self.lower)}, {shown(self.upper)})"

    @property
    def continuous(self) -> bool:
        """True."""
        return True

    @property
    def branches(self) -> tuple[Reports, ...]:
        """Itself."""
        return (self,)

    def contains(self, values: Any, *, rounding: int = 0) -> np.ndarray:
        """Which are finite and between the ends."""
        y, lower, upper = np.asarray(values), float(self.lower), float(self.upper)
        slack = rounding * np.spacing(np.float32(upper)) if math.isfinite(upper) else 0.0
        return np.isfinite(y) & (y >= lower - slack) & (y <= upper + slack)

    # --- Records

    def _width(self) -> float:
        if infinite(self.lower) or infinite(self.upper):
            raise NotApplicable(f"records must have a lower and an upper end, got {self}")
        return float(self.upper) - float(self.lower)

    def clip(self, x: Any) -> Array:
        """The nearest number of the interval; NaN goes to the centre."""
        return clip(x, float(self.lower), float(self.upper))

    def extremes(self) -> tuple[Any, Any]:
        """The two ends."""
        self._width()
        return np.float32(self.lower), np.float32(self.upper)

    def typical(self) -> Any:
        """A number at two thirds of the interval, exact in float32 for ends that are whole numbers."""
        return np.float32(self.lower + np.float32(PLACES[0]) * self._width())

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Uniform numbers."""
        return (float(self.lower) + self._width() * rng.random((n,))).astype(np.float32)

    def neighbours(self, rng: np.random.Generator, n: int) -> tuple[Any, Any]:
        """Uniform pairs, in float64."""
        self._width()
        x, other = jnp.asarray(rng.uniform(float(self.lower), float(self.upper), (2, n)))
        return x, other

    def grid(self, count: int) -> Array:
        """Equally spaced, with both ends."""
        self._width()
        return jnp.linspace(self.lower, self.upper, count)

    def share(self, x: Any) -> np.ndarray:
        """The distance from the lower end, in widths."""
        x = np.asarray(x).astype(np.float64)
        return np.clip((x - float(self.lower)) / self._width(), 0, 1 - 2.0**-53)

    # --- Reports

    def breaks_of(self, records: Any) -> Any:
        """The breaks of stacked records; they themselves where none are declared."""
        if self.breaks is None:
            return records
        return np.ravel(jax.vmap(self.breaks)(records))

    def _reach(self, breaks: Any) -> tuple[Any, Any]:
        """The ends; a point well beyond the outermost break where there is none."""
        far = 1.0 + 2.0 * np.abs(breaks).max()
        lower, upper = np.asarray(self.lower), np.asarray(self.upper)
        return np.where(np.isinf(lower), -far, lower), np.where(np.isinf(upper), far, upper)

    def critical_reports(self, records: Any) -> Any:
        """Both sides of every break of every record, the ends, and a point between any two neighbours of these."""
        breaks = np.asarray(self.breaks_of(records))
        lower, upper = self._reach(breaks)
        nudge = 1e-12 * np.maximum(1.0, np.abs(breaks))
        points = np.concatenate([breaks - nudge, breaks, breaks + nudge, lower[None], upper[None]])
        points = np.unique(np.clip(points, lower, upper))
        return np.concatenate([points, (points[1:] + points[:-1]) / 2])

    def search(self, rng: np.random.Generator, known: Any, n: int) -> Any:
        """Uniform between the least and the largest."""
        return jnp.asarray(rng.uniform(float(known.min()), float(known.max()), n))

    def far(self, known: Any) -> Any | None:
        """Ten and a thousand times as far as the farthest, on the sides without an end."""
        reach = float(np.abs(known).max())
        sides = [sign for sign, end in ((-1.0, self.lower), (1.0, self.upper)) if infinite(end)]
        return reach * np.array([sign * times for sign in sides for times in (10.0, 1e3)]) if sides else None

    def quadrature(self, records: Any, log_density: Log, *, panels: int = 64, order: int = 8) -> tuple[Any, Any]:
        """Gauss-Legendre between breaks; where there is no end, panels that double until nothing is left."""
        cuts = np.asarray(self.breaks_of(records))
        lower, upper = self._reach(cuts)
        tails = []
        for sign, end, start in ((-1.0, self.lower, lower), (1.0, self.upper, upper)):
            if infinite(end):
                count, logs = 1, lambda at: float(np.squeeze(log_density(np.reshape(at, 1))))
                while logs(start + sign * 2.0**count) - logs(start) > -50.0:
                    count += 1
                tails.append(start + sign * (2.0 ** np.arange(0, count + 1) - 1))
        edges = np.unique(np.concatenate([np.clip(cuts, lower, upper), lower[None], upper[None], *tails]))
        return panel_rule(edges, order, panels)

    def line(self, x: Any, log_density: Log) -> tuple[Any, float, np.ndarray]:
        """The distribution function of the reports about ``x``, from their density.

        Returns:
          The function, not normalised, with its grid as ``.keywords["xp"]``; the mass that float32 may misplace;
          the breaks between the ends.
        """
        return line(self, x, log_density)

    def cells(self, x: Any, log_density: Log) -> tuple[np.ndarray, Callable[[Any], np.ndarray]]:
        """Quartiles; the two sides and the rest where float32 would misplace reports of a narrow high piece."""
        cdf, misplaced, edges = self.line(x, log_density)
        total = cdf(edges[-1])
        if total and misplaced / total < 1e-4:
            grid = cdf.keywords["xp"]
            cuts = np.interp(total * np.array([0.25, 0.5, 0.75]), cdf(grid), grid)
        else:
            ends = edges[1:-1]
            cuts = ends + 1e-6 * (1 + np.abs(ends)) * np.array([-1.0, 1.0])
        mass = np.diff(np.concatenate([[0.0], cdf(cuts), [total]]))
        return mass, lambda y: np.searchsorted(cuts, np.asarray(y, np.float64), "right")

    def volume(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Four float32 spacings."""
        y = np.asarray(y)
        reach = float(np.abs(y).max())
        spacing = 4 * np.spacing(np.maximum(np.abs(y), np.float32(min(1.0, reach)))).astype(np.float64)
        return spacing, np.zeros(y.shape, bool)

    def continuum(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """All."""
        return np.ones(len(y), bool), np.asarray(y)


@dataclasses.dataclass(frozen=True, repr=False)
class Finite(Enumerated):
    """A finite set of numbers; others are rounded to the nearest. Known ones are kept in rising order.

    Raises:
      ValueError: for no numbers, or one that is given twice or is NaN.

    >>> Finite(tuple(range(129)))
    Finite(0, 1, 2, ..., 128)
    >>> Finite((1.0, -1.0)).values
    (-1.0, 1.0)
    """

    values: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        if not len(self.values):
            raise ValueError("values must be at least one number, got none")
        if not all(map(validate.concrete, self.values)):
            return
        ordered = tuple(sorted(self.values))
        if not (np.diff(np.asarray(ordered, np.float64)) > 0).all():
            raise ValueError(f"values must be distinct numbers, got {listed(self.values)}")
        object.__setattr__(self, "values", ordered)

    def __repr__(self) -> str:
        return f"Finite({listed(self.values)})"

    @property
    def branches(self) -> tuple[Reports, ...]:
        """Itself."""
        return (self,)

    @property
    def atoms(self) -> tuple[Any, ...]:
        """The numbers."""
        return self.values

    def members(self) -> Any:
        """[n] numbers."""
        return jnp.asarray(self.values, jnp.result_type(float))

    def __len__(self) -> int:
        return len(self.values)

    def place(self, values: Any) -> np.ndarray:
        """By equality, in the precision of the values that are asked."""
        y = np.asarray(values)
        known = np.asarray(self.values, np.float64 if y.dtype.kind in "biu" else y.dtype)
        at = np.clip(np.searchsorted(known, y), 0, len(known) - 1)
        return np.where(known[at] == y, at, -1)

    def clip(self, x: Any) -> Array:
        """The nearest number; NaN goes to the middle one, the lower of two."""
        x, values = as_records(x), jnp.asarray(self.values, jnp.result_type(float))
        x = jnp.where(jnp.isnan(x), values[(len(self.values) - 1) // 2], x)
        nearest = jnp.rint(jnp.interp(x, values, jnp.arange(len(self.values), dtype=values.dtype)))
        return values[nearest.astype(jnp.int32)]

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Uniform among the numbers."""
        return rng.choice(np.asarray(self.values, np.float32), n)

    def neighbours(self, rng: np.random.Generator, n: int) -> tuple[Any, Any]:
        """Any two."""
        x, other = jnp.asarray(rng.choice(np.asarray(self.values, np.float64), (2, n)))
        return x, other

    def share(self, x: Any) -> np.ndarray:
        """The place in the order, over how many there are."""
        return np.searchsorted(np.asarray(self.values), np.asarray(x)) / len(self.values)

    def search(self, rng: np.random.Generator, known: Any, n: int) -> Any:
        """Uniform among the known ones."""
        return jnp.asarray(rng.choice(np.asarray(known), n))

    def cells(self, x: Any, log_density: Log) -> tuple[np.ndarray, Callable[[Any], np.ndarray]]:
        """A cell a number."""
        cuts = np.asarray(self.values, np.float64)
        return np.exp(log_density(cuts)), lambda y: np.searchsorted(cuts, np.asarray(y, np.float64), "left")


@dataclasses.dataclass(frozen=True)
class Mixture(Reports):
    """Pairs (branch, value): an integer that says which of ``parts`` the value comes from."""

    parts: tuple[Interval | Finite, ...]

    @property
    def branches(self) -> tuple[Reports, ...]:
        """The parts."""
        return self.parts

    @property
    def continuous(self) -> bool:
        """Whether any part is."""
        return any(part.continuous for part in self.parts)

    def _by_part(self, found: list[Any]) -> tuple[Any, Any]:
        branches = [np.full(len(value), branch) for branch, value in enumerate(found)]
        return np.concatenate(branches), np.concatenate(found)

    def contains(self, values: Any, *, rounding: int = 0) -> np.ndarray:
        """Which have a branch that there is, and a value of its part."""
        branch, value = np.asarray(values[0]), np.asarray(values[1])
        inside = np.isin(branch, np.arange(len(self.parts)))
        for place, part in enumerate(self.parts):
            inside = inside & ((branch != place) | part.contains(value, rounding=rounding))
        return inside

    def critical_reports(self, records: Any) -> Any:
        """Those of each part."""
        return self._by_part([part.critical_reports(records) for part in self.parts])

    def search(self, rng: np.random.Generator, known: Any, n: int) -> Any:
        """Branches and values drawn uniformly."""
        branch, value = (np.asarray(leaf) for leaf in known)
        chosen = rng.integers(0, len(self.parts), n)
        y = np.empty(n)
        for place, part in enumerate(self.parts):
            mine = value[branch == place]
            uniform = rng.uniform(mine.min(), mine.max(), n)
            y = np.where(chosen == place, uniform if part.continuous else rng.choice(mine, n), y)
        return jnp.asarray(chosen), jnp.asarray(y)

    def far(self, known: Any) -> Any | None:
        """Those of each part without an end."""
        found = [part.far(known[1][known[0] == place]) for place, part in enumerate(self.parts)]
        if all(each is None for each in found):
            return None
        return self._by_part([np.zeros(0) if each is None else each for each in found])

    def _log_of(self, place: int, log_density: Log) -> Log:
        """The log density of values of one branch."""

        def one(values: Any) -> Any:
            values = np.asarray(values, np.float64)
            return log_density((np.full(values.shape, place), values))

        return one

    def quadrature(self, records: Any, log_density: Log, *, panels: int = 64, order: int = 8) -> tuple[Any, Any]:
        """The rules of all parts."""
        rules = [
            part.quadrature(records, self._log_of(place, log_density), panels=panels, order=order)
            for place, part in enumerate(self.parts)
        ]
        return self._by_part([value for value, _ in rules]), np.concatenate([weight for _, weight in rules])

    def cells(self, x: Any, log_density: Log) -> tuple[np.ndarray, Callable[[Any], np.ndarray]]:
        """The cells of all parts."""
        found = [part.cells(x, self._log_of(place, log_density)) for place, part in enumerate(self.parts)]
        starts = np.cumsum([0, *(len(mass) for mass, _ in found)])

        def cell(y: Any) -> np.ndarray:
            branch, value = np.asarray(y[0]), np.asarray(y[1], np.float64)
            return np.select(
                [branch == place for place in range(len(found))],
                [start + place(value) for start, (_, place) in zip(starts, found, strict=False)],
            )

        return np.concatenate([mass for mass, _ in found]), cell

    def _finite(self, branch: Any) -> np.ndarray:
        return np.isin(branch, [place for place, part in enumerate(self.parts) if not part.continuous])

    def volume(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """That of the part that each value comes from."""
        spacing, _ = Interval(-math.inf, math.inf).volume(y[1])
        atom = self._finite(y[0])
        return np.where(atom, 1.0, spacing), atom

    def continuum(self, y: Any) -> tuple[np.ndarray, np.ndarray] | None:
        """Values of the branches that are intervals."""
        return (~self._finite(y[0]), np.asarray(y[1])) if self.continuous else None
