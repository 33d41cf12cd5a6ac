"""Spaces of neighbour lists, and of the reports about one: what verification asks of them."""

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core.spaces import Finite, Interval, Mixture, NotApplicable, Records, ReportLaw
from ldp_jax.core.spaces.line import line, spacings
from ldp_jax.core.spaces.space import Log
from ldp_jax.edges.lists import LapReport, ListReport, NeighbourList, listed, nodes_of, stacked, to_bits, to_list

_MOST_CELLS = 4096  # of a joint law
_ORDER = 16  # Gauss-Legendre points of a piece of the noisy degree
_FAR = 1e3
_PLACES = (-_FAR, 0.0, 0.5, 1.0, _FAR)  # where the loss of a noisy bit may be largest

Degrees = Finite | Interval | Mixture | None
"""Noisy degrees; a mixture is of atoms and what is between them; None where none is sent."""


@dataclasses.dataclass(frozen=True)
class Lists(Records):
    """The neighbour lists of a user among ``n`` nodes; two are adjacent where they differ in one bit.

    Attributes:
      n: nodes.
      own: the user, who is in none of the lists.

    >>> lists = Lists(5)
    >>> lists.extremes()
    (NeighbourList(2 of 5: [1, 3]), NeighbourList(3 of 5: [1, 2, 3]))
    """

    n: int
    own: int = 0

    @property
    def users(self) -> int:
        """As many as nodes."""
        return self.n

    @property
    def others(self) -> list[int]:
        """All nodes but the user."""
        return [node for node in range(self.n) if node != self.own]

    def seen_by(self, own: int, x: NeighbourList) -> NeighbourList:
        """A list with the places of two users exchanged, so that it is ``own``'s."""
        swap = {self.own: own, own: self.own}
        return listed([swap.get(node, node) for node in nodes_of(x)], self.n)

    def given(self, x: Any) -> NeighbourList:
        """Whole numbers."""
        ids, count = NeighbourList(*x)
        return NeighbourList(np.asarray(ids, np.int32), np.int32(count))

    def contains(self, values: Any, *, rounding: int = 0) -> np.ndarray:
        """Which are sorted, distinct, padded with n and without the user."""
        ids, count = (np.asarray(leaf) for leaf in NeighbourList(*values))
        inside = np.arange(self.n) < count[:, None]
        ordered = ((ids[:, 1:] > ids[:, :-1]) | ~inside[:, 1:]).all(1)
        known = (((ids >= 0) & (ids < self.n) & (ids != self.own)) == inside).all(1)
        return ordered & known & (inside | (ids == self.n)).all(1)

    def clip(self, x: Any) -> NeighbourList:
        """The list of the ids that are other nodes, each once."""
        x = NeighbourList(*x)

        def one(ids: Any) -> NeighbourList:
            bits = to_bits(NeighbourList(ids, None), self.n)
            return to_list(bits & (jnp.arange(self.n) != self.own))

        ids = jnp.asarray(x.ids)
        return one(ids) if ids.ndim == 1 else jax.vmap(one)(ids)

    def extremes(self) -> tuple[NeighbourList, NeighbourList]:
        """Lists of about half of the others, that differ in the second of them (a pair that user 0 owns)."""
        others = self.others
        flipped = others[:2][-1:]
        same = [node for node in others if node not in flipped][: (self.n - 1) // 2]
        return listed(same, self.n), listed([*same, *flipped], self.n)

    def typical(self) -> NeighbourList:
        """The longer one of the extremes."""
        return self.extremes()[1]

    def centre(self) -> NeighbourList:
        """The typical one: an id that is none is dropped, and no list is in the middle of all."""
        return self.typical()

    def sample(self, rng: np.random.Generator, n: int) -> NeighbourList:
        """Lists of all degrees: each has a share of the others of its own."""
        return self._random(rng, np.full(n, self.own))[0]

    def _random(self, rng: np.random.Generator, own: np.ndarray, flipped: Any = None) -> list[NeighbourList]:
        """A random list of each user and, of ``flipped`` nodes, the same with that bit changed."""
        rows = np.arange(len(own))
        x = rng.random((len(own), self.n)) < rng.random((len(own), 1))
        x[rows, own] = False
        found = [x]
        if flipped is not None:
            found.append(x.copy())
            found[1][rows, flipped] ^= True
        nodes = np.arange(self.n)
        ids = [np.sort(np.where(b, nodes, self.n), 1).astype(np.int32) for b in found]
        return [NeighbourList(each, b.sum(1, dtype=np.int32)) for each, b in zip(ids, found, strict=True)]

    def grid(self, count: int) -> NeighbourList:
        """Lists of equally spaced degrees, of the first other nodes."""
        degrees = np.unique(np.linspace(0, self.n - 1, count).astype(int))
        return stacked([listed(self.others[:degree], self.n) for degree in degrees])

    def critical_records(self) -> NeighbourList:
        """A list of every degree."""
        return self.grid(self.n)

    def critical_pairs(self) -> list[tuple[NeighbourList, NeighbourList]]:
        """A list of every degree, and the same with one node more."""
        lists = [listed(self.others[:degree], self.n) for degree in range(self.n)]
        return list(itertools.pairwise(lists))

    def adjacent(self, x: Any, other: Any) -> np.ndarray:
        """Which pairs differ in one bit."""
        return (self._bits(x) != self._bits(other)).sum(1) == 1

    def _bits(self, lists: Any) -> np.ndarray:
        ids = np.asarray(NeighbourList(*lists).ids)
        bits = np.zeros((len(ids), self.n + 1), bool)
        np.put_along_axis(bits, ids, True, 1)
        return bits[:, : self.n]

    def neighbours(self, rng: np.random.Generator, n: int) -> tuple[NeighbourList, NeighbourList]:
        """Random lists, and the same with a random bit changed."""
        _, x, other = self._flipped(rng, np.full(n, self.own))
        return x, other

    def neighbours_of_all(
        self, rng: np.random.Generator, n: int
    ) -> tuple[np.ndarray, NeighbourList, NeighbourList]:
        """The same of random users, and whose they are."""
        return self._flipped(rng, rng.integers(0, self.n, n))

    def _flipped(self, rng: np.random.Generator, own: np.ndarray) -> Any:
        if self.n < 2:
            raise NotApplicable("a user alone has one list")
        flipped = rng.integers(0, self.n - 1, len(own))
        return own, *self._random(rng, own, flipped + (flipped >= own))

    def outside(self) -> tuple[NeighbourList, NeighbourList]:
        """Lists of NaN, of infinities, of numbers that are no nodes, of the user herself, unsorted and repeated."""
        rows = [
            *([value] * self.n for value in (np.nan, np.inf, -np.inf, 1e30, -7.0, self.n + 0.5, 0.5, self.own)),
            range(self.n)[::-1],
            [self.others[-1] if self.n > 1 else 0] * self.n,
        ]
        bad = NeighbourList(np.array([list(row) for row in rows], np.float32), np.full(len(rows), -1, np.int32))
        return bad, jax.tree.map(np.asarray, self.clip(bad))


@dataclasses.dataclass(frozen=True)
class ListReports(ReportLaw):
    """The reports about a list that are a noisy degree and a list.

    Attributes:
      n: nodes.
      degree: the noisy degrees; a mixture is of atoms and what is between them; None where none is sent.
      bit: what is sent of one bit.
      own: whose reports they are, in none of the lists.
    """

    n: int
    degree: Degrees
    bit: Finite | Interval
    own: int = 0

    @property
    def continuous(self) -> bool:
        """Whether the noisy degree is."""
        return self.degree is not None and self.degree.continuous

    @property
    def _lists(self) -> Lists:
        return Lists(self.n, self.own)

    def contains(self, values: Any, *, rounding: int = 0) -> np.ndarray:
        """Which have a list, and a degree that is possible, or NaN where none is sent."""
        y = ListReport(*values)
        lists, degree = self._lists.contains(y.neighbours), np.asarray(y.degree)
        if self.degree is None:
            return lists & np.isnan(degree)
        if self._most is None:
            return lists & np.isin(degree, np.asarray(self.degree.atoms))
        return lists & (degree >= 0) & (degree <= self._most)

    def around(self, x: NeighbourList, other: NeighbourList, draw: Callable[[], Any]) -> list[ListReport]:
        """Reports where the loss between two lists that differ in one bit may be largest.

        Every critical degree, with the bit and without. ``draw`` gives a report of ``x``, where more is needed.
        """
        return [
            ListReport(np.float64(t), y) for t, y in itertools.product(critical_degrees(self.degree), (x, other))
        ]

    def plain(self, y: ListReport) -> tuple[float, tuple[int, ...]]:
        """A report as its degree and its nodes."""
        return float(y.degree), nodes_of(y.neighbours)

    def critical_reports(self, records: Any) -> ListReport:
        """Every critical degree with each of the lists themselves."""
        degrees = critical_degrees(self.degree)
        return _with_each(degrees, NeighbourList(*records))

    def search(self, rng: np.random.Generator, known: Any, n: int) -> ListReport:
        """Random lists with known degrees."""
        degrees = rng.choice(np.asarray(ListReport(*known).degree), n)
        return ListReport(jnp.asarray(degrees), jax.tree.map(jnp.asarray, self._lists.sample(rng, n)))

    def _patterns(self, cells: int) -> NeighbourList:
        """All lists, in the order of their codes: a bit a node."""
        if cells << (self.n - 1) > _MOST_CELLS:
            raise NotApplicable(f"{cells} x 2^{self.n - 1} reports are too many to count: test a smaller n")
        others = self._lists.others
        codes = range(1 << (self.n - 1))
        return stacked(
            [listed([node for place, node in enumerate(others) if code >> place & 1], self.n) for code in codes]
        )

    @property
    def _most(self) -> int | None:
        """The largest degree of a continuum; None for others."""
        return None if self.degree is None or self.degree.atoms is not None else int(_breaks(self.degree)[-1])

    @property
    def _degree_cells(self) -> int:
        """How many cells of the degree there are: numbers, or both ends and the halves between them."""
        if self.degree is None:
            return 1
        return len(self.degree.atoms or ()) if self._most is None else 2 * (self._most + 1)

    def quadrature(self, records: Any, log_density: Log, *, panels: int = 64, order: int = 8) -> tuple[Any, Any]:
        """Every list with each degree of a rule: atoms, and Gauss-Legendre between breaks."""
        lists = self._patterns(self._degree_cells)
        degrees, weights, _ = _rule(self.degree)
        return _with_each(degrees, lists), np.repeat(weights, len(lists.count))

    def cells(self, x: Any, log_density: Log) -> tuple[np.ndarray, Callable[[Any], np.ndarray]]:
        """Every list with each cell of the degree: its numbers, or both ends and the halves between them."""
        lists, cells, others = self._patterns(self._degree_cells), self._degree_cells, self._lists.others
        degrees, weights, owner = _rule(self.degree)
        count = len(lists.count)
        density = np.exp(np.asarray(log_density(_with_each(degrees, lists)))).reshape(len(degrees), count)
        mass = np.zeros((cells, count))
        np.add.at(mass, owner, weights[:, None] * density)

        def cell(y: Any) -> np.ndarray:
            degree = np.asarray(y.degree)
            if self.degree is None:
                place = np.zeros(len(degree), np.int64)
            elif self._most is None:
                place = np.searchsorted(np.asarray(self.degree.atoms), degree)
            else:
                place = np.where(
                    degree <= 0, 0, np.where(degree >= self._most, cells - 1, 1 + np.floor(2 * degree))
                )
            bits = self._lists._bits(y.neighbours)[:, others].astype(np.int64)
            return place.astype(np.int64) * count + bits @ (1 << np.arange(self.n - 1))

        return mass.ravel(), cell

    def volume(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Four float32 spacings of the degree, where it is between the ends."""
        degree = np.asarray(ListReport(*y).degree)
        if self._most is None:
            return super().volume(y)
        spacing = spacings(degree)
        atom = (degree <= 0) | (degree >= self._most)
        return np.where(atom, 1.0, spacing), atom

    def scores(self, reports: list[Any], x: NeighbourList, x_other: NeighbourList) -> dict[str, Any]:
        """The noisy degree, the bit that differs, and each among the reports with the other."""
        node, degree = _differing(x, x_other), _degrees_of(reports)
        bit = [(np.asarray(y.neighbours.ids) == node).any(1) for y in reports]
        low, high = (float(end([d.min() for d in degree] + [d.max() for d in degree])) for end in (min, max))
        both = list(zip(degree, bit, strict=True))
        return {
            "degree": degree,
            "bit": [b.astype(np.float64) for b in bit],
            "degree if reported": [np.where(b, d, low - 1) for d, b in both],
            "degree if reported, else more": [np.where(b, d, high + 1) for d, b in both],
            "degree if not reported": [np.where(b, low - 1, d) for d, b in both],
            "degree if not reported, else more": [np.where(b, high + 1, d) for d, b in both],
        }


@dataclasses.dataclass(frozen=True)
class LapReports(ReportLaw):
    """The reports about a list that are a noisy degree and noisy bits: real numbers.

    Attributes:
      n: nodes.
      owned: the nodes whose bits are sent; NaN stands for the others.
      counted: the nodes that the degree is of.
    """

    n: int
    owned: tuple[int, ...]
    counted: tuple[int, ...]

    @property
    def continuous(self) -> bool:
        """True."""
        return True

    @property
    def _mine(self) -> np.ndarray:
        return np.isin(np.arange(self.n), self.owned)

    def contains(self, values: Any, *, rounding: int = 0) -> np.ndarray:
        """Which have a finite degree, a number of each owned bit, and nothing of the others."""
        y = LapReport(*values)
        return np.isfinite(np.asarray(y.degree)) & (np.isnan(np.asarray(y.values)) != self._mine).all(1)

    def around(self, x: NeighbourList, other: NeighbourList, draw: Callable[[], Any]) -> list[LapReport]:
        """Reports where the loss between two lists that differ in one bit may be largest.

        A drawn report of ``x``, with both sides of what the two records have and places between and far away
        instead of its degree and of the bit.
        """
        sent = np.asarray(draw().values, np.float64)
        degree, node = len(nodes_of(x)), _differing(x, other)
        degrees = [-_FAR, degree, degree + 0.5, degree + 1, _FAR]
        values = [np.where(np.arange(self.n) == node, v, sent) for v in _PLACES]
        values = [np.where(np.isnan(sent), np.nan, value) for value in values]
        return [LapReport(np.float64(t), value) for t, value in itertools.product(degrees, values)]

    def plain(self, y: LapReport) -> tuple[float, tuple[float, ...]]:
        """A report as its degree and its noisy bits."""
        return float(y.degree), tuple(np.asarray(y.values).tolist())

    def critical_reports(self, records: Any) -> LapReport:
        """Of each record: its own bits and any one of them, or its degree, elsewhere."""
        found = []
        for place in range(len(records[1])):
            x = NeighbourList(*(leaf[place] for leaf in map(np.asarray, records)))
            exact = LapReport(None, np.where(self._mine, np.isin(np.arange(self.n), nodes_of(x)), np.nan))
            for node in self.owned:
                other = listed(sorted({*nodes_of(x)} ^ {node}), self.n)
                found += self.around(x, other, lambda exact=exact: exact)
        return jax.tree.map(lambda *leaves: np.stack(leaves), *found)

    def search(self, rng: np.random.Generator, known: Any, n: int) -> LapReport:
        """Uniform numbers over the range of the known ones."""
        known = LapReport(*(np.asarray(leaf) for leaf in known))
        degree = rng.uniform(known.degree.min(), known.degree.max(), n)
        sent = known.values[:, list(self.owned)]
        values = rng.uniform(sent.min(initial=0.0), sent.max(initial=0.0), (n, self.n))
        return LapReport(jnp.asarray(degree), jnp.asarray(np.where(self._mine, values, np.nan)))

    def quadrature(self, records: Any, log_density: Log, *, panels: int = 64, order: int = 8) -> tuple[Any, Any]:
        """None: numbers are integrated one at a time (:meth:`cells`)."""
        raise NotApplicable(f"{1 + len(self.owned)} numbers of a continuum are too many to integrate together")

    def cells(self, x: Any, log_density: Log) -> tuple[np.ndarray, Callable[[Any], np.ndarray]]:
        """The combinations of quartiles of a report's numbers, which are independent.

        A number's own law is a slice of the density through the record: a product, whose slices say all.
        """
        owned = list(self.owned)
        bits = np.isin(np.arange(self.n), nodes_of(x)).astype(np.float64)
        centre = np.concatenate([[bits[list(self.counted)].sum()], bits[owned]])
        if 4 ** len(centre) > _MOST_CELLS:
            raise NotApplicable(f"4^{len(centre)} cells are too many to count: test a smaller n")

        def logs(rows: np.ndarray) -> np.ndarray:
            values = np.full((len(rows), self.n), np.nan)
            values[:, owned] = rows[:, 1:]
            return np.asarray(log_density(LapReport(rows[:, 0], values)))

        peak = logs(centre[None])[0]
        mass, cuts = np.ones(1), []
        for number, middle in enumerate(centre):

            def slice_of(values: np.ndarray, number: int = number) -> np.ndarray:
                rows = np.repeat(centre[None], len(values), 0)
                rows[:, number] = values
                return logs(rows) - peak * (1 - 1 / len(centre))

            cdf, _, edges = line(Interval(-math.inf, math.inf), middle, slice_of)
            grid, total = cdf.keywords["xp"], cdf(edges[-1])
            cuts.append(np.interp(total * np.array([0.25, 0.5, 0.75]), cdf(grid), grid))
            quarters = np.diff(np.concatenate([[0.0], cdf(cuts[-1]), [total]]))
            mass = (mass[:, None] * quarters).ravel()

        def cell(y: Any) -> np.ndarray:
            place = np.zeros(len(y.degree), np.int64)
            for cut, drawn in zip(cuts, [y.degree, *np.asarray(y.values)[:, owned].T], strict=True):
                place = 4 * place + np.searchsorted(cut, drawn, "right")
            return place

        return mass, cell

    def volume(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Four float32 spacings of each number."""
        y = LapReport(*y)
        numbers = np.column_stack([y.degree, np.asarray(y.values)[:, list(self.owned)]])
        return spacings(numbers).prod(1), np.zeros(len(numbers), bool)

    def scores(self, reports: list[Any], x: NeighbourList, x_other: NeighbourList) -> dict[str, Any]:
        """The noisy degree, the noisy bit that differs, and their sum."""
        node, degree = _differing(x, x_other), _degrees_of(reports)
        value = [np.nan_to_num(np.asarray(y.values, np.float64)[:, node]) for y in reports]
        return {"degree": degree, "bit": value, "degree + bit": [d + v for d, v in zip(degree, value, strict=True)]}


def critical_degrees(degrees: Degrees) -> np.ndarray:
    """Atoms, both sides of every break, and between them; NaN where none is sent."""
    if degrees is None:
        return np.array([np.nan])
    if degrees.atoms is not None:
        return np.asarray(degrees.atoms, np.float64)
    breaks = _breaks(degrees)
    points = np.concatenate([breaks - 1e-9, breaks, breaks + 1e-9, (breaks[1:] + breaks[:-1]) / 2])
    return np.unique(np.clip(points, breaks[0], breaks[-1]))


def _breaks(degrees: Any) -> np.ndarray:
    """Where the law of a mixture's noisy degree may bend, both ends among them."""
    return np.asarray(degrees.branches[1].breaks(0), np.float64)


def _rule(degrees: Degrees) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Noisy degrees, their weights, and the cell of each: atoms first and last, Gauss-Legendre between breaks."""
    if degrees is None:
        return np.array([np.nan]), np.ones(1), np.zeros(1, np.int64)
    if degrees.atoms is not None:
        values = np.asarray(degrees.atoms, np.float64)
        return values, np.ones(len(values)), np.arange(len(values))
    breaks = _breaks(degrees)
    at, weight = np.polynomial.legendre.leggauss(_ORDER)
    half = np.diff(breaks)[:, None] / 2
    middle = (breaks[:-1, None] + half * (1 + at)).ravel()
    owner = np.repeat(np.arange(1, len(breaks)), _ORDER)
    return (
        np.concatenate([breaks[:1], middle, breaks[-1:]]),
        np.concatenate([[1.0], (half * weight).ravel(), [1.0]]),
        np.concatenate([[0], owner, [len(breaks)]]),
    )


def _with_each(degrees: np.ndarray, lists: NeighbourList) -> ListReport:
    """Every degree with each of stacked lists, the lists running faster."""
    many = jax.tree.map(lambda leaf: np.tile(np.asarray(leaf).T, len(degrees)).T, lists)
    return ListReport(np.repeat(degrees, len(lists.count)), many)


def _differing(x: NeighbourList, other: NeighbourList) -> int:
    """The first node that is in one list alone."""
    differ = sorted(set(nodes_of(x)) ^ set(nodes_of(other)))
    if not differ:
        raise ValueError("x and x_other are the same list")
    return differ[0]


def _degrees_of(reports: list[Any]) -> list[np.ndarray]:
    return [np.nan_to_num(np.asarray(y.degree, np.float64)) for y in reports]
