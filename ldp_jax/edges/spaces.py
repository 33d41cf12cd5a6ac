"""Spaces of neighbour lists, and of the reports about one: what verification asks of them."""

import abc
import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core.quadrature import panel_rule
from ldp_jax.core.spaces import (
    Finite,
    Interval,
    Mixture,
    NotApplicable,
    Records,
    ReportLaw,
    Reports,
)
from ldp_jax.core.spaces.space import Cells, Log, Rule, Volume, each_vector, spacings
from ldp_jax.core.types import Array, Values, Y
from ldp_jax.edges.lists import (
    LapReport,
    ListReport,
    NeighbourList,
    nodes_of,
    stacked,
    to_bits,
    to_list,
)

ONE_BIT = "two neighbour lists that differ in one bit"
"""The pairs of lists that are adjacent, in words."""

_MOST_CELLS = 4096  # of a joint law
_MOST_NODES = 64  # of which lists of all degrees are enumerated
_ORDER = 16  # Gauss-Legendre points of a piece of the noisy degree
_FAR = 1e3  # a noisy number beyond all that is true

Degrees = Finite | Mixture | None
"""Noisy degrees; a mixture is of atoms and what is between them; None where none is sent."""


@dataclasses.dataclass(frozen=True)
class Lists(Records[NeighbourList]):
    """The neighbour lists of a user among ``n`` nodes, adjacent where they differ in one bit.

    >>> lists = Lists(5)
    >>> [one.ids.tolist() for one in lists.extremes()]
    [[1, 3, 5, 5, 5], [1, 2, 3, 5, 5]]
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
        return NeighbourList.of([swap.get(node, node) for node in nodes_of(x)], self.n)

    def given(self, x: NeighbourList) -> NeighbourList:
        """Whole numbers."""
        ids, count = NeighbourList(*x)
        return NeighbourList(np.asarray(ids, np.int32), np.int32(count))

    def contains(self, values: NeighbourList, *, rounding: int = 0) -> np.ndarray:
        """Which are sorted, distinct, padded with n and without the user."""
        ids, count = (np.asarray(leaf) for leaf in NeighbourList(*values))
        known = (ids >= 0) & (ids < self.n) & (ids != self.own) & (ids == np.floor(ids))
        known = np.where(known, ids, self.n).astype(np.int32)
        meant = self.of_bits(self.bits(NeighbourList(known, count)))
        return np.asarray((meant.ids == ids).all(1) & (meant.count == count))

    def clip(self, x: NeighbourList) -> NeighbourList:
        """The list of the ids that are other nodes, each once."""

        def one(ids: Array) -> NeighbourList:
            bits = to_bits(NeighbourList(ids, 0), self.n)
            return to_list(bits & (jnp.arange(self.n) != self.own))

        ids = jnp.asarray(NeighbourList(*x).ids)
        if ids.ndim == 1:
            return one(ids)
        return jax.vmap(one)(ids)

    def extremes(self) -> tuple[NeighbourList, NeighbourList]:
        """Lists of about half of the others that differ in the second, a pair that user 0 owns."""
        others = self.others
        flipped = others[:2][-1:]
        same = [node for node in others if node not in flipped][: (self.n - 1) // 2]
        return NeighbourList.of(same, self.n), NeighbourList.of([*same, *flipped], self.n)

    def typical(self) -> NeighbourList:
        """The longer one of the extremes."""
        return self.extremes()[1]

    def centre(self) -> NeighbourList:
        """The typical one: an id that is none is dropped, and no list is in the middle of all."""
        return self.typical()

    def sample(self, rng: np.random.Generator, n: int) -> NeighbourList:
        """Lists of all degrees: each has a share of the others of its own."""
        return self.of_bits(self._random(rng, np.full(n, self.own)))

    def _random(self, rng: np.random.Generator, own: np.ndarray) -> np.ndarray:
        bits = rng.random((len(own), self.n)) < rng.random((len(own), 1))
        bits[np.arange(len(own)), own] = False
        return bits

    def of_bits(self, bits: np.ndarray) -> NeighbourList:
        """Stacked lists by their bits [m, n]."""
        ids = np.sort(np.where(bits, np.arange(self.n), self.n), 1).astype(np.int32)
        return NeighbourList(ids, bits.sum(1, dtype=np.int32))

    def grid(self, count: int) -> NeighbourList:
        """Lists of equally spaced degrees, of the first other nodes."""
        degrees = np.unique(np.linspace(0, self.n - 1, count).astype(int))
        return stacked([NeighbourList.of(self.others[:degree], self.n) for degree in degrees])

    def critical_records(self) -> NeighbourList:
        """A list of every degree, each of the one before and a node more."""
        if not 1 < self.n <= _MOST_NODES:
            raise NotApplicable(f"ask a mechanism of 2 to {_MOST_NODES} nodes, got n = {self.n}")
        return self.grid(self.n)

    @property
    def adjacency(self) -> str:
        """In the words of a guarantee per bit."""
        return ONE_BIT

    def adjacent(self, x: NeighbourList, other: NeighbourList) -> np.ndarray:
        """Which pairs differ in one bit."""
        return (self.bits(x) != self.bits(other)).sum(1) == 1

    def every(self) -> NeighbourList:
        """All lists, stacked, in the order of their codes: a bit for each of the others."""
        codes = np.arange(1 << (self.n - 1))
        bits = np.zeros((len(codes), self.n), bool)
        bits[:, self.others] = codes[:, None] >> np.arange(self.n - 1) & 1
        return self.of_bits(bits)

    def bits(self, lists: NeighbourList) -> np.ndarray:
        """Stacked lists as bits [m, n]."""
        ids = np.asarray(NeighbourList(*lists).ids)
        bits = np.zeros((len(ids), self.n + 1), bool)
        np.put_along_axis(bits, ids, True, 1)
        return bits[:, : self.n]

    def neighbours(self, rng: np.random.Generator, n: int) -> tuple[NeighbourList, NeighbourList]:
        """Random lists, and the same with a random bit changed."""
        return self.neighbours_of(rng, np.full(n, self.own))

    def neighbours_of(
        self, rng: np.random.Generator, own: np.ndarray
    ) -> tuple[NeighbourList, NeighbourList]:
        """The same, a list of each user."""
        if self.n < 2:
            raise NotApplicable("a user alone has one list")
        node = rng.integers(0, self.n - 1, len(own))
        node = node + (node >= own)
        bits = self._random(rng, own)
        other = bits.copy()
        other[np.arange(len(own)), node] ^= True
        return self.of_bits(bits), self.of_bits(other)

    def outside(self) -> tuple[NeighbourList, NeighbourList]:
        """Lists of NaN, infinities, numbers that are no nodes, the user; repeated and unsorted."""
        last = (self.others or [0])[-1]
        values = [np.nan, np.inf, -np.inf, 1e30, -7.0, self.n + 0.5, 0.5, self.own]
        repeated = [[value] * self.n for value in values]
        rows = np.array([*repeated, range(self.n)[::-1], [last] * self.n], np.float32)
        bad = NeighbourList(rows, np.full(len(rows), -1, np.int32))
        return bad, jax.tree.map(np.asarray, self.clip(bad))


@dataclasses.dataclass(frozen=True)
class ListReports(ReportLaw[ListReport, NeighbourList]):
    """Reports that are a noisy degree and a list; ``bit`` is what is sent of one bit."""

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

    def contains(self, values: ListReport, *, rounding: int = 0) -> np.ndarray:
        """Which have a list, and a degree that is possible, or NaN where none is sent."""
        y = ListReport(*values)
        degree = np.asarray(y.degree)
        if self._most is not None:
            possible = (degree >= 0) & (degree <= self._most)
        elif self.degree is None:
            possible = np.isnan(degree)
        else:
            possible = np.isin(degree, critical_degrees(self.degree))
        return self._lists.contains(y.neighbours) & possible

    def critical_reports(self, records: NeighbourList) -> ListReport:
        """Critical degrees, each with every list."""
        return _with_each(critical_degrees(self.degree), records)

    def _every(self, cells: int) -> NeighbourList:
        if cells << (self.n - 1) > _MOST_CELLS:
            raise NotApplicable(
                f"{cells} x 2^{self.n - 1} reports are too many to count: test a smaller n"
            )
        return self._lists.every()

    @property
    def _most(self) -> int | None:
        """The largest degree of a continuum; None for others."""
        if self.degree is None or self.degree.atoms is not None:
            return None
        return int(_breaks(self.degree)[-1])

    def quadrature(
        self,
        records: NeighbourList,
        log_density: Log,
        *,
        panels: int = 64,
        order: int = 8,
    ) -> Rule:
        """Every list with each degree of a rule: atoms, and Gauss-Legendre between breaks."""
        degrees, weights, owner, _ = _rule(self.degree)
        lists = self._every(int(owner[-1]) + 1)
        return _with_each(degrees, lists), np.repeat(weights, len(lists.ids))

    def cells(self, x: NeighbourList, log_density: Log) -> Cells:
        """Every list with each cell of the degree: an atom, or what is between two breaks."""
        degrees, weights, owner, starts = _rule(self.degree)
        cells = int(owner[-1]) + 1
        lists = self._every(cells)
        count = len(lists.ids)
        density = np.exp(np.asarray(log_density(_with_each(degrees, lists)))).reshape(-1, count)
        mass = np.zeros((cells, count))
        np.add.at(mass, owner, weights[:, None] * density)

        def cell(y: ListReport) -> np.ndarray:
            place = np.searchsorted(starts, np.asarray(y.degree), "right")
            bits = self._lists.bits(y.neighbours)[:, self._lists.others].astype(np.int64)
            code = bits @ (1 << np.arange(self.n - 1))
            return place * count + code

        return mass.ravel(), cell

    def volume(self, y: ListReport) -> Volume:
        """Four float32 spacings of the degree, where it is between the ends."""
        degree = np.asarray(ListReport(*y).degree)
        if self._most is None:
            return super().volume(y)
        atom = (degree <= 0) | (degree >= self._most)
        return np.where(atom, 1.0, spacings(degree)), atom


class NumberReports(Reports[Y]):
    """Reports about a list that hold independent numbers of a known law; abstract."""

    @abc.abstractmethod
    def numbers(self, y: Y) -> np.ndarray:
        """The numbers of stacked reports, [n, dim]."""

    @abc.abstractmethod
    def of_numbers(self, rows: np.ndarray) -> Y:
        """The stacked reports of such numbers."""

    @abc.abstractmethod
    def critical_numbers(self, most: int) -> np.ndarray:
        """Numbers [rows, dim] where the loss about at most ``most`` nodes may be largest."""


@dataclasses.dataclass(frozen=True)
class LapReports(NumberReports[LapReport]):
    """Reports that are a noisy degree and noisy bits of ``owned`` nodes; NaN for the others."""

    n: int
    owned: tuple[int, ...]

    continuous = True

    @property
    def dim(self) -> int:
        """One degree, and the bits."""
        return 1 + len(self.owned)

    def numbers(self, y: LapReport) -> np.ndarray:
        """The degree, then the bits."""
        y = LapReport(*y)
        return np.column_stack([y.degree, np.asarray(y.values)[:, list(self.owned)]])

    def of_numbers(self, rows: np.ndarray) -> LapReport:
        """NaN for nodes that are not owned."""
        values = np.full((len(rows), self.n), np.nan)
        values[:, list(self.owned)] = rows[:, 1:]
        return LapReport(rows[:, 0], values)

    def contains(self, values: LapReport, *, rounding: int = 0) -> np.ndarray:
        """Which have a finite degree, a number of each owned bit, and nothing of the others."""
        y = LapReport(*values)
        mine = np.isin(np.arange(self.n), self.owned)
        sent = ~np.isnan(np.asarray(y.values))
        return np.isfinite(np.asarray(y.degree)) & (sent == mine).all(1)

    def critical_numbers(self, most: int) -> np.ndarray:
        """Every critical degree, with all bits critical alike: those that are the same cancel."""
        both = itertools.product(critical_numbers(most), critical_numbers(1))
        return np.array([[degree, *[bit] * len(self.owned)] for degree, bit in both])


@dataclasses.dataclass(frozen=True)
class CountReports(NumberReports[Values]):
    """Reports that are ``dim`` noisy counts: whole numbers of a ``span``."""

    dim: int
    span: tuple[int, int]

    def numbers(self, y: Values) -> np.ndarray:
        """The counts."""
        return np.asarray(y, np.float64)

    def of_numbers(self, rows: np.ndarray) -> Values:
        """The counts."""
        return rows

    def contains(self, values: Values, *, rounding: int = 0) -> np.ndarray:
        """Which are ``dim`` whole numbers of the span."""
        low, high = self.span
        possible = lambda y: (y >= low) & (y <= high) & (y == np.round(y))
        return each_vector(values, self.dim, possible)

    def critical_numbers(self, most: int) -> np.ndarray:
        """All counts alike, at both ends and near possible counts: equal true ones cancel."""
        low, high = self.span
        near = np.arange(max(low, -2), min(high, most + 2) + 1)
        ends = [low, low + 1, high - 1, high]
        return np.repeat(np.unique([*near, *ends])[:, None], self.dim, 1)


def critical_numbers(most: int) -> np.ndarray:
    """Where the loss of a noisy number of 0 to ``most`` may be largest: near it and far away."""
    return np.array([-_FAR, *np.arange(0, most + 0.5, 0.5), _FAR])


def critical_degrees(degrees: Degrees) -> np.ndarray:
    """Atoms, both sides of every break, and between them; NaN where none is sent."""
    if degrees is None:
        return np.array([np.nan])
    if degrees.atoms is not None:
        return np.asarray(degrees.atoms, np.float64)
    breaks = _breaks(degrees)
    between = (breaks[1:] + breaks[:-1]) / 2
    points = np.concatenate([breaks - 1e-9, breaks, breaks + 1e-9, between])
    return np.unique(np.clip(points, breaks[0], breaks[-1]))


def _breaks(degrees: Any) -> np.ndarray:
    """Where the law of a mixture's noisy degree may bend, both ends among them."""
    return np.asarray(degrees.branches[1].breaks(0), np.float64)


def _rule(degrees: Degrees) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Noisy degrees, their weights, the cell of each, and where cells but the first begin.

    Between the breaks of a continuum the rule is Gauss-Legendre's; both ends are atoms.
    """
    if degrees is None or degrees.atoms is not None:
        values = critical_degrees(degrees)
        return values, np.ones(len(values)), np.arange(len(values)), values[1:]
    breaks = _breaks(degrees)
    inside, weights = panel_rule(breaks, _ORDER)
    values = np.concatenate([breaks[:1], inside, breaks[-1:]])
    weights = np.concatenate([[1.0], weights, [1.0]])
    points = [1, *[_ORDER] * (len(breaks) - 1), 1]
    owner = np.repeat(np.arange(len(points)), points)
    starts = np.concatenate([[np.nextafter(breaks[0], np.inf)], breaks[1:]])
    return values, weights, owner, starts


def _with_each(degrees: np.ndarray, lists: NeighbourList) -> ListReport:
    """Every degree with each of stacked lists, the lists running faster."""
    many = jax.tree.map(lambda leaf: np.tile(np.asarray(leaf).T, len(degrees)).T, lists)
    return ListReport(np.repeat(degrees, len(lists.ids)), many)
