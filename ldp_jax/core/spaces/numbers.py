"""Spaces of one number: intervals, finite sets, and mixtures of both."""

import dataclasses
import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from ldp_jax.core import validate
from ldp_jax.core.spaces.space import (
    Enumerated,
    NotApplicable,
    Records,
    Reports,
    clip,
    listed,
    shown,
)
from ldp_jax.core.types import Array, Record, Scalar, Values

PLACES = (0.65625, 0.125, 1.0, 0.375, 0.0)
"""Shares of an interval, exact in float32, of which typical records are made."""


@dataclasses.dataclass(frozen=True, repr=False)
class Interval(Records[Values], Reports[Values]):
    """The numbers in [lower, upper]; either end may be infinite.

    A codomain's ``breaks`` are where the density about a record jumps or bends, and the loss may be
    largest.

    >>> Interval(-1.0, 1.0).contains([0.5, 2.0]).tolist(), Interval(-1.0, 1.0)
    ([True, False], Interval(-1, 1))
    """

    lower: Scalar
    upper: Scalar
    breaks: Callable[[Record], Array] | None = None

    def __repr__(self) -> str:
        return f"Interval({shown(self.lower)}, {shown(self.upper)})"

    continuous = True

    @property
    def branches(self) -> tuple[Reports, ...]:
        """The space itself."""
        return (self,)

    def contains(self, values: Values, *, rounding: int = 0) -> np.ndarray:
        """Whether values are finite and between the ends."""
        y = np.asarray(values)
        lower = float(self.lower)
        upper = float(self.upper)
        slack = rounding * np.spacing(np.float32(upper)) if math.isfinite(upper) else 0.0
        return np.isfinite(y) & (y >= lower - slack) & (y <= upper + slack)

    # --- Records

    def _width(self) -> float:
        width = float(self.upper) - float(self.lower)
        if not math.isfinite(width):
            raise NotApplicable(f"records must have a lower and an upper end, got {self}")
        return width

    def clip(self, x: Values) -> Array:
        """The nearest number of the interval; NaN goes to the centre."""
        return clip(x, float(self.lower), float(self.upper))

    def extremes(self) -> tuple[np.float32, np.float32]:
        """The two ends."""
        self._width()
        return np.float32(self.lower), np.float32(self.upper)

    def typical(self) -> np.float32:
        """A number at two thirds of the interval, exact in float32 for whole ends."""
        return np.float32(self.lower + np.float32(PLACES[0]) * self._width())

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Uniform numbers."""
        return (float(self.lower) + self._width() * rng.random((n,))).astype(np.float32)

    def grid(self, count: int) -> Array:
        """Equally spaced, with both ends."""
        self._width()
        return jnp.linspace(self.lower, self.upper, count)

    def share(self, x: Values) -> np.ndarray:
        """The distance from the lower end, in widths."""
        above = np.asarray(x).astype(np.float64) - float(self.lower)
        return np.clip(above / self._width(), 0, 1 - 2.0**-53)


@dataclasses.dataclass(frozen=True, repr=False)
class Finite(Enumerated[Values]):
    """A finite set of numbers; others are rounded to the nearest.

    Known ones are kept in rising order.

    >>> Finite(tuple(range(129)))
    Finite(0, 1, 2, ..., 128)
    >>> Finite((1.0, -1.0)).values
    (-1.0, 1.0)
    """

    values: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        validate.require(len(self.values), "values must be at least one number, got none")
        if not all(map(validate.concrete, self.values)):
            return
        ordered = tuple(sorted(self.values))
        validate.require(
            (np.diff(np.asarray(ordered, np.float64)) > 0).all(),
            f"values must be distinct numbers, got {listed(self.values)}",
        )
        object.__setattr__(self, "values", ordered)

    def __repr__(self) -> str:
        return f"Finite({listed(self.values)})"

    @property
    def branches(self) -> tuple[Reports, ...]:
        """The space itself."""
        return (self,)

    @property
    def atoms(self) -> tuple[Scalar, ...]:
        """The numbers."""
        return self.values

    def members(self) -> Array:
        """[n] numbers."""
        return jnp.asarray(self.values, jnp.result_type(float))

    def _numbers(self, kind: DTypeLike) -> np.ndarray:
        return np.asarray(self.values, kind)

    def _pick(self, place: int | np.ndarray, kind: DTypeLike = np.float32) -> Values:
        return self._numbers(kind)[place]

    def __len__(self) -> int:
        return len(self.values)

    def share(self, x: Values) -> np.ndarray:
        """The place in the order, over how many there are."""
        return np.searchsorted(np.asarray(self.values), np.asarray(x)) / len(self.values)


@dataclasses.dataclass(frozen=True)
class Mixture(Reports[tuple[Values, Values]]):
    """Pairs (branch, value): an integer that says which of ``parts`` the value comes from."""

    parts: tuple[Interval | Finite, ...]

    @property
    def branches(self) -> tuple[Interval | Finite, ...]:
        """The parts."""
        return self.parts

    @property
    def continuous(self) -> bool:
        """Whether any part is."""
        return any(part.continuous for part in self.parts)

    def contains(self, values: tuple[Values, Values], *, rounding: int = 0) -> np.ndarray:
        """Whether pairs have a valid branch, and a value of its part."""
        branch = np.asarray(values[0])
        value = np.asarray(values[1])
        inside = np.isin(branch, np.arange(len(self.parts)))
        for place, part in enumerate(self.parts):
            inside = inside & ((branch != place) | part.contains(value, rounding=rounding))
        return inside
