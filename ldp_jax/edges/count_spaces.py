"""Reports that are a few noisy counts of neighbours: what verification asks of them."""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ldp_jax.core.spaces import NotApplicable, ReportLaw
from ldp_jax.core.spaces.space import Log
from ldp_jax.edges.lists import NeighbourList, nodes_of

_MOST = 2**18  # reports that are listed
_FAR = 1e3


@dataclasses.dataclass(frozen=True)
class CountReports(ReportLaw):
    """``size`` noisy counts.

    Attributes:
      size: how many.
      span: the smallest and the largest whole number; None for real numbers.
    """

    size: int
    span: tuple[int, int] | None

    @property
    def continuous(self) -> bool:
        """Whether they are real numbers."""
        return self.span is None

    def contains(self, values: Any, *, rounding: int = 0) -> np.ndarray:
        """Which are finite, and whole numbers of the span."""
        y = np.asarray(values)
        if self.span is None:
            return np.asarray(np.isfinite(y).all(1))
        return ((y >= self.span[0]) & (y <= self.span[1]) & (y == np.round(y))).all(1)

    def around(self, x: NeighbourList, other: NeighbourList, draw: Callable[[], Any]) -> list[np.ndarray]:
        """Reports where the loss between two lists that differ in one bit may be largest.

        A drawn report of ``x`` with each of its numbers at both ends, and near the counts that a list may have.
        """
        sent = np.asarray(draw(), np.float64)
        most = max(len(nodes_of(x)), len(nodes_of(other)))
        ends = (-_FAR, _FAR) if self.span is None else self.span
        near = range(-2, most + 3) if self.span is not None else np.arange(-1, most + 1.5, 0.5)
        values = sorted(
            {*map(float, ends), *(float(end) + step for end in ends for step in (-1, 1)), *map(float, near)}
        )
        kept = [value for value in values if self.span is None or self.span[0] <= value <= self.span[1]]
        return [
            np.where(np.arange(self.size) == place, value, sent)
            for place, value in itertools.product(range(self.size), kept)
        ]

    def plain(self, y: Any) -> tuple[float, ...]:
        """A report as its numbers."""
        return tuple(np.asarray(y).tolist())

    def critical_reports(self, records: Any) -> np.ndarray:
        """Every number near the counts of the longest list, and both ends."""
        first = NeighbourList(*(leaf[0] for leaf in map(np.asarray, records)))
        longest = NeighbourList(*(leaf[np.asarray(records[1]).argmax()] for leaf in map(np.asarray, records)))
        return np.stack(self.around(first, longest, lambda: np.zeros(self.size)))

    def search(self, rng: np.random.Generator, known: Any, n: int) -> np.ndarray:
        """Numbers over the range of the known ones."""
        known = np.asarray(known, np.float64)
        low, high = known.min(), known.max()
        if self.span is None:
            return rng.uniform(low, high, (n, self.size))
        return rng.integers(int(low), int(high) + 1, (n, self.size)).astype(np.float64)

    def quadrature(self, records: Any, log_density: Log, *, panels: int = 64, order: int = 8) -> tuple[Any, Any]:
        """Every report of whole numbers, with weight 1.

        Raises:
          NotApplicable: for real numbers, or too many reports.
        """
        if self.span is None:
            raise NotApplicable(f"{self.size} real numbers are too many to integrate together")
        low, high = self.span
        if (high - low + 1) ** self.size > _MOST:
            raise NotApplicable(f"{high - low + 1}^{self.size} reports are too many to list: ask fewer groups")
        line = np.arange(low, high + 1.0)
        y = np.stack(np.meshgrid(*[line] * self.size, indexing="ij"), -1).reshape(-1, self.size)
        return y, np.ones(len(y))

    def cells(self, x: Any, log_density: Log) -> tuple[np.ndarray, Callable[[Any], np.ndarray]]:
        """The combinations of ten cells of each number, which are independent given the list.

        A number's own law is a slice of the density through zeros: a product, whose slices say all.

        Raises:
          NotApplicable: for too many numbers.
        """
        if 10**self.size > 10_000:
            raise NotApplicable(f"10^{self.size} cells are too many to count: ask fewer groups")
        mass, cuts = np.ones(1), []
        for number in range(self.size):
            line, weight = self._line()
            rows = np.zeros((len(line), self.size))
            rows[:, number] = line
            logs = np.asarray(log_density(rows), np.float64)
            law = np.exp(logs - logs.max()) * weight
            law = law / law.sum()
            below = np.cumsum(law)
            cut = np.unique(line[np.searchsorted(below, np.arange(1, 10) / 10)])
            if self.span is None:  # between two places of the line
                cut = cut + (line[1] - line[0]) / 2
            place = np.searchsorted(cut, line, "left")
            mass = (mass[:, None] * np.bincount(place, law, len(cut) + 1)).ravel()
            cuts.append(cut)

        def cell(y: Any) -> np.ndarray:
            found = np.zeros(len(y), np.int64)
            for cut, drawn in zip(cuts, np.asarray(y, np.float64).T, strict=True):
                found = (len(cut) + 1) * found + np.searchsorted(cut, drawn, "left")
            return found

        return mass, cell

    def _line(self) -> tuple[np.ndarray, float]:
        """Places of one number, and what a density there is multiplied with."""
        if self.span is not None:
            return np.arange(self.span[0], self.span[1] + 1.0), 1.0
        line = np.linspace(-500.0, 500.0, 1_000_001)
        return line, line[1] - line[0]

    def volume(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Four float32 spacings of each real number; 1 of whole ones."""
        if self.span is not None:
            return super().volume(y)
        spacing = 4 * np.spacing(np.abs(np.asarray(y, np.float32))).astype(np.float64)
        return spacing.prod(1), np.zeros(len(spacing), bool)

    def scores(self, reports: list[Any], x: NeighbourList, x_other: NeighbourList) -> dict[str, Any]:
        """Each number, and their sum."""
        y = [np.asarray(each, np.float64) for each in reports]
        found: dict[str, Any] = {f"count {place}": [each[:, place] for each in y] for place in range(self.size)}
        return {**found, "sum": [each.sum(1) for each in y]}
