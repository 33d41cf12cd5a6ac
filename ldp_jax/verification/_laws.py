"""How the reports of each space are integrated and counted.

Finite matrices, lines, and products of lines.
"""

import abc
import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import spaces
from ldp_jax.core.quadrature import panel_rule, subdivide
from ldp_jax.core.spaces import NotApplicable, ReportLaw, Reports
from ldp_jax.core.spaces.space import Cells, Log, Rule, Volume, spacings
from ldp_jax.core.types import Report, Values
from ldp_jax.edges.spaces import NumberReports
from ldp_jax.verification._programs import count_of, lost

_MOST_REPORTS = 4_000_000
_MOST_LISTED = 2**18  # of whole numbers in reports about a list
_MOST_CELLS = 4096
_MISPLACED = 1e-4  # the most of a law's mass that float64 may misplace where it is integrated
_NOTHING = 40.0  # e^-40 of a density is left out of an integral


def law_of(space: Reports) -> Any:
    """The law of a space of reports; a :class:`~ldp_jax.core.spaces.ReportLaw` is its own."""
    if isinstance(space, ReportLaw):
        return space
    for kind, law in _LAWS.items():
        if isinstance(space, kind):
            return law(space)
    raise NotApplicable(
        "mechanism must report one number, or have a coordinate(j), its law, or reports of a "
        f"space that says how verification integrates them (see ReportLaw): {space}"
    )


def volume_of(space: Any, y: Report) -> Volume:
    """Four float32 spacings of each real number of stacked reports, and which are atoms."""
    if isinstance(space, ReportLaw):
        return space.volume(y)
    n = count_of(y)
    if isinstance(space, spaces.Subset):
        width, atom = volume_of(space.inner, y.values)
        volume = width.reshape(n, -1).prod(1)
        atoms = np.asarray(atom.reshape(n, -1).all(1))
        return volume, atoms
    if len(space.branches) > 1:
        finite = [place for place, part in enumerate(space.branches) if not part.continuous]
        atom = np.isin(y[0], finite)
        return np.where(atom, 1.0, spacings(y[1])), atom
    shape = np.shape(y) if space.branches else (n,)
    if not space.continuous:
        return np.ones(shape), np.ones(shape, bool)
    if space.branches:
        return spacings(y), np.zeros(shape, bool)
    leaves = [np.asarray(leaf).reshape(n, -1) for leaf in jax.tree.leaves(y)]
    numbers = np.concatenate(leaves, 1)
    width = spacings(numbers)
    if isinstance(space, spaces.Sphere):  # of all numbers but the largest, over the slope there
        most = np.abs(numbers).argmax(1)[:, None]
        slope = 1 / np.abs(np.take_along_axis(numbers, most, 1)).astype(np.float64)
        np.put_along_axis(width, most, slope, 1)
    return np.nanprod(width, 1), np.zeros(n, bool)  # of what is not sent there is NaN


def refuse_narrow(misplaced: float) -> None:
    """``NotApplicable`` where float64 may misplace too much of a law.

    Four spacings of the densest report.
    """
    if misplaced > _MISPLACED:
        raise NotApplicable(
            "pieces of the law are of few float64 spacings, which misplace up to "
            f"{misplaced:.2g} of its mass"
        )


def refuse_many(count: int, most: int, what: str) -> None:
    """``NotApplicable`` where there are more than can be asked."""
    if count > most:
        raise NotApplicable(f"{what} are too many to count: test a smaller dim, or fewer groups")


class Law:
    """Defaults of all laws; :class:`~ldp_jax.core.spaces.ReportLaw` says what the methods are."""

    def __init__(self, space: Any) -> None:
        self.space = space

    def critical_reports(self, records: Values) -> Report:
        """Reports at the records themselves, at the middles between them, and beyond."""
        x = np.asarray(records, np.float64)
        dim = x.shape[-1]
        middles = (x[:, None] + x[None]).reshape(-1, dim) / 2
        places = np.concatenate([x, middles, 3 * x, 10 * x])
        inside = places[self.space.contains(places)]
        if not len(inside):
            raise NotApplicable(
                f"records of {dim} numbers do not say where reports of {self.space} lose most"
            )
        return np.unique(inside, axis=0)


# --- A finite matrix ------------------------------------------------------------------------------


class Matrix(Law):
    """Members that can be listed: each has weight 1 and a cell of its own."""

    def members(self, most: int = _MOST_REPORTS) -> Report:
        return jax.tree.map(np.asarray, self.space.members())

    def place(self, y: Report) -> np.ndarray:
        return self.space.place(y)

    def critical_reports(self, records: Values) -> Report:
        return self.members()

    def quadrature(
        self, records: Values, log_density: Log, *, panels: int = 64, order: int = 8
    ) -> Rule:
        members = self.members()
        return members, np.ones(len(jax.tree.leaves(members)[0]))

    def cells(self, x: Values, log_density: Log) -> Cells:
        return np.exp(np.asarray(log_density(self.members(_MOST_CELLS)))), self.place


class Words(Matrix):
    def members(self, most: int = _MOST_REPORTS) -> np.ndarray:
        values = np.asarray(self.space.inner.values, np.float64)
        size = len(values)
        refuse_many(size**self.space.dim, most, f"{size}^{self.space.dim} reports")
        return np.array(list(itertools.product(values, repeat=self.space.dim)))

    def place(self, y: Report) -> np.ndarray:
        inner = self.space.inner
        each = inner.place(y)
        word = each @ len(inner) ** np.arange(self.space.dim)[::-1]
        return np.where((each >= 0).all(-1), word, -1)


# --- A line ---------------------------------------------------------------------------------------


class Line(Law):
    """Numbers of an interval, cut at the breaks of the records."""

    def _breaks(self, records: Values) -> np.ndarray:
        """The breaks of stacked records; they themselves where none are declared."""
        declared = self.space.breaks
        if declared is None:
            return np.asarray(records)
        return np.ravel(jax.vmap(declared)(records))

    def _reach(self, breaks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ends; a point well beyond the outermost break where one is infinite."""
        far = 1.0 + 2.0 * np.abs(breaks).max()
        lower = np.asarray(self.space.lower)
        upper = np.asarray(self.space.upper)
        first = np.where(np.isinf(lower), -far, lower)
        last = np.where(np.isinf(upper), far, upper)
        return first, last

    def critical_reports(self, records: Values) -> np.ndarray:
        """Both sides of every break of every record, the ends, and a point between any two."""
        breaks = self._breaks(records)
        lower, upper = self._reach(breaks)
        nudge = 1e-12 * np.maximum(1.0, np.abs(breaks))
        points = np.concatenate([breaks - nudge, breaks, breaks + nudge, lower[None], upper[None]])
        points = np.unique(np.clip(points, lower, upper))
        middles = (points[1:] + points[:-1]) / 2
        return np.concatenate([points, middles])

    def quadrature(
        self, records: Values, log_density: Log, *, panels: int = 64, order: int = 8
    ) -> Rule:
        return panel_rule(self._edges(records, log_density), order, panels)

    def _edges(self, records: Values, log_density: Log) -> np.ndarray:
        """The breaks and the ends; towards an infinite end panels double until nothing is left."""
        cuts = self._breaks(records)
        lower, upper = self._reach(cuts)
        edges = [np.clip(cuts, lower, upper), lower[None], upper[None]]
        at = lambda place: float(np.squeeze(log_density(np.reshape(place, 1))))
        for sign, start, end in ((-1.0, lower, self.space.lower), (1.0, upper, self.space.upper)):
            if not math.isinf(float(end)):
                continue
            log_start = at(start)
            count = 1
            while at(start + sign * 2.0**count) - log_start > -50.0:
                count += 1
            distance = 2.0 ** np.arange(0, count + 1) - 1
            edges.append(start + sign * distance)
        return np.unique(np.concatenate(edges))

    def cells(self, x: Values, log_density: Log, shares: int = 4) -> Cells:
        """So many of about one mass; three, if float32 misplaces the reports of a narrow piece."""
        records = jnp.asarray(x)[None]
        edges = self._edges(records, log_density)
        breaks = np.unique(np.clip(self._breaks(records), edges[0], edges[-1]))
        outermost = breaks[[0, -1]]
        beside = outermost + 1e-6 * (1 + np.abs(outermost)) * np.array([-1.0, 1.0])
        beside = beside[(beside > edges[0]) & (beside < edges[-1])]

        fine = subdivide(np.union1d(edges, beside), 64)
        for refinements in (2, 1, 0):
            points, weights = panel_rule(fine, 8)
            density = np.exp(np.asarray(log_density(points), np.float64))
            each = (weights * density).reshape(-1, 8).sum(1)
            if refinements:  # where most of the mass is in few panels
                heavy = np.flatnonzero(each > each.sum() / 64)
                fine = np.union1d(fine, np.linspace(fine[heavy], fine[heavy + 1], 17))
        below = np.append(0.0, np.cumsum(each))

        spacing = np.spacing(np.float32(np.abs(breaks).max()))
        misplaced = float(density.max() * spacing)
        refuse_narrow(4 * 2.0**-29 * misplaced)

        cuts = beside
        if misplaced < 1e-4 * below[-1]:
            wanted = below[-1] * np.arange(1, shares) / shares
            cuts = np.unique(fine[np.searchsorted(below, wanted)])
        below_cuts = below[np.searchsorted(fine, cuts)]
        mass = np.diff(below_cuts, prepend=0.0, append=below[-1])
        return mass, lambda y: np.searchsorted(cuts, np.asarray(y, np.float64), "right")


class Parts(Law):
    def __init__(self, space: spaces.Mixture) -> None:
        super().__init__(space)
        self.parts = [law_of(part) for part in space.parts]

    def _joined(self, found: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        branches = [np.full(len(value), branch) for branch, value in enumerate(found)]
        return np.concatenate(branches), np.concatenate(found)

    def critical_reports(self, records: Values) -> Report:
        return self._joined([part.critical_reports(records) for part in self.parts])

    def _logs(self, log_density: Log) -> list[Log]:
        def log_of_part(place: int, values: Values) -> np.ndarray:
            branch = np.full(np.shape(values), place)
            return log_density((branch, np.asarray(values, np.float64)))

        return [partial(log_of_part, place) for place in range(len(self.parts))]

    def quadrature(
        self, records: Values, log_density: Log, *, panels: int = 64, order: int = 8
    ) -> Rule:
        logs = zip(self.parts, self._logs(log_density), strict=True)
        rules = [part.quadrature(records, log, panels=panels, order=order) for part, log in logs]
        points, weights = zip(*rules, strict=True)
        return self._joined(points), np.concatenate(weights)

    def cells(self, x: Values, log_density: Log) -> Cells:
        logs = zip(self.parts, self._logs(log_density), strict=True)
        found = [part.cells(x, log) for part, log in logs]
        masses, cells_within = zip(*found, strict=True)
        starts = np.cumsum([0, *map(len, masses)])[:-1]

        def cell(y: Report) -> np.ndarray:
            branch, value = map(np.asarray, y)
            chosen = [branch == place for place in range(len(masses))]
            each = zip(starts, cells_within, strict=True)
            return np.select(chosen, [start + within(value) for start, within in each])

        return np.concatenate(masses), cell


# --- A product ------------------------------------------------------------------------------------

# Points of a panel, and panels of an axis, by how many numbers are integrated together: 1e-15 of a
# Gaussian
_RULES = {1: (8, 2048), 2: (8, 64), 3: (16, 6)}
_SCALES = 2.0 ** np.arange(-40.0, 41.0)
_PLACES = np.concatenate([-_SCALES[::-1], [0.0], _SCALES])
_FEW = 2.0 ** np.arange(-6.0, 7.0)
_COARSE = np.concatenate([-_FEW[::-1], [0.0], _FEW])


class Independent(Law):
    """Vectors of independent numbers.

    Along an axis the density is, up to a factor, that of one number.
    """

    def _mode(self, log_density: Log) -> tuple[np.ndarray, np.ndarray]:
        """Where the density is largest [dim], and the ends [dim, 2] of all but e^-40 of it."""
        dim = self.space.dim
        base = np.zeros(dim)
        ends = np.zeros((dim, 2))
        if np.isneginf(log_density(base[None])[0]) and dim in _RULES:
            places = _rows([_COARSE] * dim)
            base = places[np.argmax(log_density(places))]
        for number in range(dim):
            ends[number, 0], ends[number, 1], base[number] = _ends(log_density, base, number)
        return base, ends

    def quadrature(
        self, records: Values, log_density: Log, *, panels: int = 64, order: int = 8
    ) -> Rule:
        if len(np.asarray(records)) > 1:
            raise NotApplicable("vectors are integrated about one record, or between two")
        dim = self.space.dim
        mode, ends = self._mode(log_density)
        cuts = np.column_stack([ends, mode])
        return self._rule(cuts, np.zeros(dim), list(range(dim)))

    def _rule(self, cuts: np.ndarray, base: np.ndarray, numbers: list[int]) -> Rule:
        """Over some numbers, the others as in ``base``.

        ``cuts`` [dim, k] are ends, and where it may bend.
        """
        refuse_many(len(numbers), len(_RULES), f"{len(numbers)} real numbers, integrated together,")
        order, panels = _RULES[len(numbers)]
        lines = []
        for number in numbers:
            edges = np.unique(cuts[number])
            lines.append(panel_rule(edges, order, math.ceil(panels / (len(edges) - 1))))
        places, weights = (_rows(each) for each in zip(*lines, strict=True))
        y = np.tile(base, (len(places), 1))
        y[:, numbers] = places
        return y, weights.prod(1)

    def between(self, log_density: Log, other: Log) -> Rule:
        """A rule for max(0, p - a q), any a, over the numbers whose laws differ.

        The rest is divided out.
        """
        base, ends = self._mode(log_density)
        other_base, other_ends = self._mode(other)
        lower = np.minimum(ends[:, 0], other_ends[:, 0])
        upper = np.maximum(ends[:, 1], other_ends[:, 1])
        both = np.stack([lower, upper], 1)

        differ = []
        rest = 1.0
        for number in range(self.space.dim):
            points, weights = panel_rule(both[number], *_RULES[1])
            mine = _along(log_density, base, number, points)
            theirs = _along(other, base, number, points)
            least = max(mine.max(), theirs.max()) - _NOTHING
            loss = lost(mine, theirs)[np.maximum(mine, theirs) > least]
            if not np.isfinite(loss).all() or np.ptp(loss) > 1e-9:
                differ.append(number)
                continue
            at_mode = _along(log_density, base, number, base[[number]])
            rest *= float(weights @ np.exp(mine - at_mode))
        if not differ:
            return base[None], np.ones(1)
        y, weights = self._rule(np.column_stack([both, base, other_base]), base, differ)
        return y, weights * rest

    def cells(self, x: Values, log_density: Log) -> Cells:
        refuse_many(4**self.space.dim, _MOST_CELLS, f"4^{self.space.dim} cells")
        base, ends = self._mode(log_density)
        mass = np.ones(1)
        cuts = []
        for number in range(self.space.dim):
            cut, quarters = self._quarters(log_density, base, number, ends[number])
            mass = (mass[:, None] * quarters).ravel()
            cuts.append(cut)

        def cell(y: Report) -> np.ndarray:
            found = np.zeros(len(y), np.int64)
            for cut, drawn in zip(cuts, np.asarray(y, np.float64).T, strict=True):
                found = (len(cut) + 1) * found + np.searchsorted(cut, drawn, "right")
            return found

        return mass, cell

    def _axis(self, ends: np.ndarray) -> np.ndarray:
        """Equidistant places of one number."""
        return np.linspace(ends[0], ends[1], 20_001)

    def _quarters(
        self, log_density: Log, base: np.ndarray, number: int, ends: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The quartiles of one number, and the masses between them."""
        places = self._axis(ends)
        logs = _along(log_density, base, number, places)
        law = np.exp(logs - logs.max())
        law = law / law.sum()
        least = np.searchsorted(np.cumsum(law), [0.25, 0.5, 0.75])
        cut = np.unique(places[least]) + (places[1] - places[0]) / 2
        return cut, np.bincount(np.searchsorted(cut, places), law, len(cut) + 1)


class OfLists(Independent):
    """Independent numbers in reports about a neighbour list: real ones, or whole ones of a span."""

    def critical_reports(self, records: Values) -> Report:
        _, degrees = jax.tree.leaves(records)
        return self.space.of_numbers(self.space.critical_numbers(int(np.max(degrees))))

    def _mode(self, log_density: Log) -> tuple[np.ndarray, np.ndarray]:
        if self.space.continuous:
            return super()._mode(log_density)
        dim = self.space.dim
        ends = np.tile(np.float64(self.space.span), (dim, 1))
        return np.zeros(dim), ends

    def _axis(self, ends: np.ndarray) -> np.ndarray:
        if self.space.continuous:
            return super()._axis(ends)
        return np.arange(ends[0], ends[1] + 1)

    def quadrature(
        self, records: Values, log_density: Log, *, panels: int = 64, order: int = 8
    ) -> Rule:
        dim = self.space.dim
        if self.space.continuous:
            raise NotApplicable(f"{dim} real numbers are too many to integrate together")
        low, high = self.space.span
        size = high - low + 1
        refuse_many(size**dim, _MOST_LISTED, f"{size}^{dim} reports")
        y = _rows([np.arange(low, high + 1.0)] * dim)
        return self.space.of_numbers(y), np.ones(len(y))

    def cells(self, x: Values, log_density: Log) -> Cells:
        mass, cell = super().cells(x, lambda rows: log_density(self.space.of_numbers(rows)))
        return mass, lambda y: cell(self.space.numbers(y))


def _rows(axes: Sequence[np.ndarray]) -> np.ndarray:
    """The points [n, axes] of a grid, the last axis fastest."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))


def _along(log_density: Log, base: np.ndarray, number: int, places: np.ndarray) -> np.ndarray:
    rows = np.tile(base, (len(places), 1))
    rows[:, number] = places
    return np.asarray(log_density(rows), np.float64)


def _ends(log_density: Log, base: np.ndarray, number: int) -> tuple[float, float, float]:
    """Where one number has all but e^-40 of its density, and where its density is largest."""
    places = _PLACES
    low = high = mode = 0.0
    for _ in range(2):  # over all sizes, then near what was found
        logs = _along(log_density, base, number, places)
        if np.isnan(logs).any() or not np.isfinite(logs.max()):
            raise NotApplicable("the density could not be followed along an axis")
        inside = np.flatnonzero(logs > logs.max() - _NOTHING)
        if inside[0] == 0 or inside[-1] == len(places) - 1:
            raise NotApplicable("the density has no end that could be found")
        low = float(places[inside[0] - 1])
        high = float(places[inside[-1] + 1])
        mode = float(places[logs.argmax()])
        places = np.linspace(low, high, 4001)

    # Rules are cut at the mode, where a density may bend.
    width = high - low
    reach = width / 4000
    while reach > 1e-13 * width:
        near = mode + reach * np.linspace(-1.0, 1.0, 17)
        mode = float(near[_along(log_density, base, number, near).argmax()])
        reach = reach / 8
    return low, high, mode


# --- Polar coordinates ----------------------------------------------------------------------------

_ENDS = 4.0 ** -np.arange(6.0, 0.0, -1)
# Panels of the way from the record to the rim: a metric may spread what coordinates crowd at either
# end
_SHARES = np.concatenate([[0.0], _ENDS, [0.5], 1 - _ENDS[::-1], [1.0]])
_QUARTER = np.pi / 2 * np.concatenate([[0.0], 1 - 2 * _ENDS[:0:-1], [1.0]])
# Panels of the angle from the record's direction: across it the way of a record near the rim bends
_TURNS = np.concatenate(
    [_QUARTER, np.pi - _QUARTER[-2::-1], np.pi + _QUARTER[1:], 2 * np.pi - _QUARTER[-2::-1]]
)
_RINGS = _SHARES[[0, 3, 5, 6, 7, 8, 9, 11, 14]]
_SECTORS = np.pi / 4 * np.arange(9)  # ends of the cells of a disc, by share and angle


class Peak(Law):
    """A disc, in polar coordinates about the record, along which a peak there is smooth."""

    def _way(self, x: np.ndarray, turn: np.ndarray) -> np.ndarray:
        """The distance from x to the rim, by the angle from the direction of x."""
        size = float(np.hypot(*x))
        along = size * np.cos(turn)
        inside = max(float(self.space.radius) ** 2 - size**2, 0.0)
        return np.sqrt(along**2 + inside) - along

    def _polar(self, x: np.ndarray, order: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        turn, turn_weight = panel_rule(_TURNS, order)
        share, share_weight = panel_rule(_SHARES, order)
        way = self._way(x, turn)
        angle = math.atan2(x[1], x[0]) + turn
        heading = np.stack([np.cos(angle), np.sin(angle)], -1)
        distance = way[:, None] * share
        y = x + distance[..., None] * heading[:, None]
        weights = turn_weight[:, None] * share_weight * share * way[:, None] ** 2
        cells = _cell_of(turn[:, None], share)
        return y.reshape(-1, 2), weights.ravel(), cells.ravel()

    def quadrature(
        self, records: Values, log_density: Log, *, panels: int = 64, order: int = 8
    ) -> Rule:
        """Good to 1e-9 of an exponential law in the hyperbolic metric, up to a radius of 8."""
        x = np.asarray(records, np.float64)
        if len(x) > 1:
            raise NotApplicable("a disc is integrated about one record")
        return self._polar(x[0], 12)[:2]

    def cells(self, x: Values, log_density: Log) -> Cells:
        """Eight sectors about the record, each in eight rings by the share of the way to the rim.

        Good to 1e-5.
        """
        x = np.asarray(x, np.float64)
        y, weights, cells = self._polar(x, 6)
        mass = np.bincount(cells, weights * np.exp(np.asarray(log_density(y))))

        def cell(y: Report) -> np.ndarray:
            step = np.asarray(y, np.float64) - x
            angle = np.arctan2(step[:, 1], step[:, 0])
            turn = (angle - math.atan2(x[1], x[0])) % (2 * np.pi)
            share = np.hypot(*step.T) / np.maximum(self._way(x, turn), 1e-300)
            return _cell_of(turn, share)

        return mass, cell


def _cell_of(turn: np.ndarray, share: np.ndarray) -> np.ndarray:
    sector = np.searchsorted(_SECTORS[1:-1], turn, "right")
    ring = np.searchsorted(_RINGS[1:-1], share, "right")
    return sector * (len(_RINGS) - 1) + ring


Slices = tuple[tuple[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""A rule over along [n] and across [n], weights [n] of whole slices; and edges of its coarse
cells.
"""


class Round(Law, abc.ABC):
    """Laws of the component along the record's direction and of the length across it."""

    sizes: tuple[float, ...] = (1.0,)

    @abc.abstractmethod
    def _slices(self, direction: np.ndarray, log_density: Log, panels: int, order: int) -> Slices:
        """The slices of the law about a direction."""

    def _steps(self) -> np.ndarray:
        """Where along the direction the density may jump."""
        cut = float(self.space.cut)
        return np.array([-cut, cut]) if cut else np.zeros(1)

    def critical_reports(self, records: Values) -> np.ndarray:
        """In the direction of each record and against it, before and beyond the cut."""
        directions = np.unique(self._directions(records), axis=0)
        along = [size * side for size in self.sizes for side in (1.0, -1.0)]
        return np.concatenate([place * directions for place in along])

    def quadrature(
        self, records: Values, log_density: Log, *, panels: int = 8, order: int = 8
    ) -> Rule:
        """Slices across the record's direction, each by 2 (dim - 1) points.

        Right for polynomials of degree 3.
        """
        direction = self._direction(records)
        rule, _ = self._slices(direction, log_density, min(panels, 8), order)
        along, across, weight = rule
        basis = _complement(direction)
        turns = np.concatenate([basis, -basis])
        y = along[:, None, None] * direction + across[:, None, None] * turns
        weights = np.repeat(weight / len(turns), len(turns))
        return y.reshape(-1, self.space.dim), weights

    def _directions(self, records: Values) -> np.ndarray:
        x = np.asarray(records, np.float64)
        if self.space.projection is not None:
            x = x @ np.asarray(self.space.projection, np.float64).T
        size = np.linalg.norm(x, axis=-1, keepdims=True)
        first_axis = np.eye(x.shape[-1])[0]
        return np.where(size > 0, x / np.where(size > 0, size, 1.0), first_axis)

    def _direction(self, records: Values) -> np.ndarray:
        directions = self._directions(records)
        cosines = directions @ directions[0]
        if np.abs(np.abs(cosines) - 1).max() > 1e-9:
            raise NotApplicable("the law is the same around one direction alone: ask one record")
        return directions[0]

    def cells(self, x: Values, log_density: Log) -> Cells:
        """Ranges along and across the record's direction, and the orthants of what is across."""
        direction = self._direction(np.asarray(x)[None])
        basis = _complement(direction)
        (along, across, weight), edges = self._slices(direction, log_density, 8, 8)
        bins = tuple(len(edge) + 1 for edge in edges)
        orthants = 2 ** len(basis)
        refuse_many(math.prod(bins) * orthants, _MOST_CELLS, f"2^{len(basis)} orthants")

        def place(along: np.ndarray, across: np.ndarray) -> np.ndarray:
            row = np.searchsorted(edges[0], along, "right")
            column = np.searchsorted(edges[1], across, "right")
            return np.ravel_multi_index((row, column), bins)

        y = along[:, None] * direction + across[:, None] * basis[0]
        density = np.exp(np.asarray(log_density(y), np.float64))
        mass = np.bincount(place(along, across), weight * density, minlength=math.prod(bins))

        def cell(y: Report) -> np.ndarray:
            y = np.asarray(y, np.float64)
            rest = y @ basis.T
            sides = (rest > 0) @ (1 << np.arange(len(basis)))
            return place(y @ direction, np.linalg.norm(rest, axis=1)) * orthants + sides

        return np.repeat(mass / orthants, orthants), cell


class OnSphere(Round):
    def _slices(self, direction: np.ndarray, log_density: Log, panels: int, order: int) -> Slices:
        cosines = np.concatenate([[-1.0, 1.0], self._steps()])
        corners = np.unique(np.arccos(np.clip(cosines, -1, 1)))
        angle, weight = panel_rule(corners, order, panels)
        dim = self.space.dim
        weight = weight * _surface(dim - 1) * np.sin(angle) ** (dim - 2)
        coarse = np.cos(subdivide(corners, 4)[1:-1])[::-1]
        return (np.cos(angle), np.sin(angle), weight), (coarse, np.zeros(0))


class InSpace(Round):
    def __init__(self, space: spaces.Turned) -> None:
        super().__init__(space)
        cut = float(space.cut) or 1.0
        self.sizes = 0.0, 0.5 * cut, 1.001 * cut, 2.0 * cut, 10.0 * cut

    def _slices(self, direction: np.ndarray, log_density: Log, panels: int, order: int) -> Slices:
        basis = np.vstack([direction, _complement(direction)])
        turned = lambda rows: log_density(rows @ basis)
        centre = np.zeros(len(basis))
        low, high, _ = _ends(turned, centre, 0)
        _, wide, _ = _ends(turned, centre, 1)
        far = max(-low, high)

        corners = np.unique(np.concatenate([[-far, far], self._steps()]))
        along, weight = panel_rule(corners, order, panels)
        across, thin = panel_rule((0.0, wide), order, panels)
        dim = self.space.dim
        thin = thin * _surface(dim - 1) * across ** (dim - 2)
        weights = np.outer(weight, thin).ravel()
        along, across = (each.ravel() for each in np.meshgrid(along, across, indexing="ij"))
        edges_along = subdivide(corners, 4)[1:-1]
        edges_across = subdivide((0.0, wide / 4), 4)[1:]
        return (along, across, weights), (edges_along, edges_across)


def _surface(dim: int) -> float:
    """The surface of the unit sphere of ``dim`` numbers; two points for one."""
    return 2 * math.pi ** (dim / 2) / math.gamma(dim / 2)


def _complement(direction: np.ndarray) -> np.ndarray:
    """An orthonormal basis [dim - 1, dim] across a direction, by a reflection of the axes."""
    axis = int(np.abs(direction).argmin())
    mirror = direction - np.eye(len(direction))[axis]
    turn = np.eye(len(direction)) - 2 * np.outer(mirror, mirror) / (mirror @ mirror)
    return np.delete(turn, axis, axis=0)


_LAWS: dict[type, type[Law]] = {
    spaces.Enumerated: Matrix,
    spaces.Product: Words,
    spaces.Interval: Line,
    spaces.Mixture: Parts,
    NumberReports: OfLists,
    spaces.Vectors: Independent,
    spaces.Disc: Peak,
    spaces.Sphere: OnSphere,
    spaces.Turned: InSpace,
}
