"""Mechanisms on neighbour lists: their loss per bit, the joint law of their reports, what tells two lists apart."""

import itertools
import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.domains import Interval, NotApplicable
from ldp_jax.edges import LapReport, ListReport, LocalLap, NeighbourList
from ldp_jax.edges.neighbour_lists import ListMechanism
from ldp_jax.mechanism import check_single
from ldp_jax.types import Array, PRNGKey
from ldp_jax.verification import statistics
from ldp_jax.verification.statistics import Fit

KINDS = (ListMechanism, LocalLap)
_MOST_NODES = 64  # of which all degrees and critical reports are enumerated
_MOST_CELLS = 4096  # of a joint law
_SEARCH = 4096  # random pairs of lists in the cross-check
_ORDER = 16  # Gauss-Legendre points of a piece of the noisy degree
_TOTAL = 1e-4  # how far the mass of a density may be from 1, by quadrature
_FAR = 1e3


class ListLoss(NamedTuple):
    """The largest loss found, and where; lists as tuples of nodes, a report as (degree, list or noisy bits)."""

    epsilon: float
    x: Any
    x_other: Any
    y: Any
    searched: float


def listed(nodes: Any, n: int) -> NeighbourList:
    """Some nodes as a list of capacity n."""
    ids = np.full(n, n, np.int32)
    ids[: len(nodes)] = np.sort(np.asarray(nodes, np.int32))
    return NeighbourList(ids, np.int32(len(nodes)))


def nodes_of(neighbours: NeighbourList) -> tuple[int, ...]:
    """A list as a tuple."""
    return tuple(np.asarray(neighbours.ids)[: int(neighbours.count)].tolist())


def as_list(x: Any) -> NeighbourList:
    """A record given by its caller."""
    ids, count = NeighbourList(*x)
    return NeighbourList(np.asarray(ids, np.int32), np.int32(count))


def neighbours(m: Any) -> tuple[NeighbourList, NeighbourList]:
    """Lists of user 0, of about half of the others, that differ in one bit, of a pair that she owns."""
    n = m.domain().n
    flipped = min(2, n - 1)
    same = [node for node in range(1, n) if node != flipped][: (n - 1) // 2]
    return listed(same, n), listed([*same, flipped] if n > 1 else same, n)


@partial(jax.jit, static_argnames="n")
def draws(key: PRNGKey, m: Any, x: NeighbourList, own: Any, n: int) -> Any:
    """n reports of one list, a key of its own each."""
    return jax.vmap(lambda one: m.privatize(one, x, own))(jax.random.split(key, n))


@jax.jit
def _logs(m: Any, y: Any, x: NeighbourList, own: Any) -> Array:
    return jax.vmap(lambda report: m.log_density(report, x, own))(y)


@jax.jit
def _losses(m: Any, y: Any, x: NeighbourList, other: NeighbourList, own: Any) -> Array:
    """|log p(y | x) - log p(y | x')| of many triples; 0 where neither is possible."""

    def one(y: Any, x: NeighbourList, other: NeighbourList, own: Any) -> Array:
        a, b = m.log_density(y, x, own), m.log_density(y, other, own)
        neither = jnp.isneginf(a) & jnp.isneginf(b)
        return jnp.abs(jnp.where(neither, 0.0, a) - jnp.where(neither, 0.0, b))

    return jax.vmap(one)(y, x, other, own)


# --- Exact -----------------------------------------------------------------------------------------------------


def supremum(m: Any) -> ListLoss:
    """The largest loss over lists that differ in one bit, at the critical reports and by a random search."""
    check_single(m)
    n = m.domain().n
    if not 1 < n <= _MOST_NODES:
        raise NotApplicable(
            f"ask a mechanism of 2 to {_MOST_NODES} nodes, got n = {n}: its law has n - 1 as a number"
        )
    triples = [_critical(m, n), _searched(m, n)]
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), m)
        losses = [np.asarray(_losses(wide, *triple)) for triple in triples]
    largest = [float(part.max()) for part in losses]
    which = int(math.isnan(largest[1]) or largest[1] > largest[0] * (1 + 1e-9))  # NaN is not hidden
    y, x, other, _ = jax.tree.map(lambda leaf: leaf[int(losses[which].argmax())], triples[which])
    bits = nodes_of(y.neighbours) if isinstance(y, ListReport) else tuple(y.values.tolist())
    return ListLoss(largest[which], nodes_of(x), nodes_of(other), (float(y.degree), bits), largest[1])


def _stack(lists: Any) -> NeighbourList:
    return NeighbourList(*(np.stack(leaves) for leaves in zip(*lists, strict=True)))


def _critical(m: Any, n: int) -> Any:
    """Lists of every degree with one node more; the bit sent and not sent, at every critical noisy degree."""
    triples = []
    for degree in range(n - 1):
        x, other = (listed(range(1, 1 + count), n) for count in (degree, degree + 1))
        triples += [(y, x, other) for y in _critical_reports(m, n, degree, (x, other))]
    y, x, other = zip(*triples, strict=True)
    reports = jax.tree.map(lambda *leaves: np.stack(leaves), *y)
    return reports, _stack(x), _stack(other), np.zeros(len(triples), np.int32)


def _critical_reports(m: Any, n: int, degree: int, lists: Any) -> list[Any]:
    if isinstance(m, LocalLap):
        sent = np.asarray(m.privatize(jax.random.key(0), lists[0]).values, np.float64)
        places = [-_FAR, degree, degree + 0.5, degree + 1, _FAR]
        values = [np.where(np.arange(n) == degree + 1, v, sent) for v in (-_FAR, 0.0, 0.5, 1.0, _FAR)]
        values = [np.where(np.isnan(sent), np.nan, value) for value in values]
        return [LapReport(np.float64(t), value) for t, value in itertools.product(places, values)]
    return [ListReport(np.float64(t), y) for t, y in itertools.product(_critical_degrees(m), lists)]


def _critical_degrees(m: Any) -> np.ndarray:
    """Atoms, both sides of every break, and between them."""
    codomain = m.codomain().degree
    if codomain is None:
        return np.array([np.nan])
    if codomain.atoms is not None:
        return np.asarray(codomain.atoms, np.float64)
    between = codomain.branches[1]
    breaks = np.asarray(between.breaks(0), np.float64)
    points = np.concatenate([breaks - 1e-9, breaks, breaks + 1e-9, (breaks[1:] + breaks[:-1]) / 2])
    return np.unique(np.clip(points, float(between.lower), float(between.upper)))


def _searched(m: Any, n: int) -> Any:
    """Random lists of random users that differ in a random bit, with reports drawn from one of them."""
    rng = np.random.default_rng(0)  # no privacy depends on it
    rows = np.arange(_SEARCH)
    own, flipped = rng.integers(0, n, _SEARCH), rng.integers(0, n - 1, _SEARCH)
    flipped = flipped + (flipped >= own)
    x = rng.random((_SEARCH, n)) < rng.random((_SEARCH, 1))
    x[rows, own] = False
    other = x.copy()
    other[rows, flipped] ^= True
    lists = [NeighbourList(np.sort(np.where(b, np.arange(n), n), 1).astype(np.int32), b.sum(1)) for b in (x, other)]
    keys = jax.random.split(jax.random.key(0), _SEARCH)
    drawn = jax.jit(jax.vmap(lambda m, key, x, own: m.privatize(key, x, own), in_axes=(None, 0, 0, 0)))
    y = jax.tree.map(
        lambda leaf: np.asarray(leaf, np.float64) if np.asarray(leaf).dtype == np.float32 else np.asarray(leaf),
        drawn(m, keys, lists[0], own),
    )
    return y, *lists, own


# --- By draws --------------------------------------------------------------------------------------------------


def fit(m: Any, key: PRNGKey, x: NeighbourList, trials: int, significance: float) -> Fit:
    """G tests of whole reports of every user, all about the list ``x`` of user 0, with their places changed.

    User i's list has i's place and user 0's exchanged. User 0 has ``trials`` draws and half of the significance,
    the others as much together; the smallest defect is user 0's, another's about sqrt(n) times as large.
    """
    n = m.domain().n
    user_key, key = jax.random.split(key)
    fits = [_fit(m, user_key, x, 0, trials, significance / 2)]
    for own, user_key in zip(range(1, n), jax.random.split(key, n - 1) if n > 1 else (), strict=True):
        nodes = [0 if node == own else node for node in nodes_of(x)]
        fits.append(_fit(m, user_key, listed(nodes, n), own, max(100, trials // n), significance / (2 * n)))
    worst = max(fits, key=lambda fit: (not fit.fits, fit.statistic / fit.threshold if fit.threshold else 0.0))
    return worst._replace(smallest_defect=fits[0].smallest_defect, draws=trials)


def _fit(m: Any, key: PRNGKey, x: NeighbourList, own: int, trials: int, significance: float) -> Fit:
    """A G test of whole reports of one user: every list with a cell of its degree, or quartiles of all numbers."""
    y = jax.tree.map(np.asarray, draws(key, m, x, own, trials))
    if not _possible(m, y, own):
        return Fit(False, "impossible reports", math.inf, 0.0, 1 / trials, trials)
    mass, cell = _numbers(m, y, x, own) if isinstance(m, LocalLap) else _patterns(m, y, x, own)
    if abs(mass.sum() - 1) > _TOTAL:
        return Fit(False, "density of total mass 1", float(mass.sum()), 1.0, _TOTAL, trials)
    return statistics.g_test(np.bincount(cell, minlength=mass.size), mass.ravel(), significance=significance)


def _possible(m: Any, y: Any, own: int) -> bool:
    """Whether reports are of the codomain; lists sorted, distinct, padded, and without the user herself."""
    codomain = m.codomain(own)
    n, degree = codomain.n, np.asarray(y.degree)
    if isinstance(y, LapReport):
        return bool(np.isfinite(degree).all() and (np.isnan(y.values) == np.isnan(y.values[0])).all())
    ids, count = y.neighbours
    inside = np.arange(n) < count[:, None]
    ordered = (np.diff(ids, axis=1) > 0) | ~inside[:, 1:]
    lists = bool(
        (ordered.all() and ((ids >= 0) & (ids < n) & (ids != own) == inside).all()) and (ids[~inside] == n).all()
    )
    if codomain.degree is None:
        return lists and bool(np.isnan(degree).all())
    if codomain.degree.atoms is not None:
        return lists and bool(np.isin(degree, np.asarray(codomain.degree.atoms)).all())
    return lists and bool(((degree >= 0) & (degree <= float(codomain.degree.parts[1].upper))).all())


def _patterns(m: Any, y: Any, x: NeighbourList, own: int) -> tuple[np.ndarray, np.ndarray]:
    """The mass of each (cell of the degree, list), and where each report is."""
    n, codomain = m.codomain(own).n, m.codomain(own).degree
    finite = codomain is not None and codomain.atoms is not None
    most = 0 if codomain is None or finite else int(codomain.parts[1].upper)
    cells = 1 if codomain is None else len(codomain.atoms) if finite else 2 * (most + 1)
    if cells << (n - 1) > _MOST_CELLS:
        raise NotApplicable(f"{cells} x 2^{n - 1} reports are too many to count: test a smaller n")
    others = [node for node in range(n) if node != own]
    patterns = [[node for place, node in enumerate(others) if code >> place & 1] for code in range(1 << (n - 1))]
    lists = _stack([listed(nodes, n) for nodes in patterns])
    degrees, weights, owner = _rule(codomain)
    reports = ListReport(
        np.repeat(degrees, len(patterns)), jax.tree.map(lambda leaf: np.tile(leaf.T, len(degrees)).T, lists)
    )
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), m)
        density = np.exp(np.asarray(_logs(wide, reports, x, own))).reshape(len(degrees), len(patterns))
    mass = np.zeros((cells, len(patterns)))
    np.add.at(mass, owner, weights[:, None] * density)
    if codomain is None:
        place = np.zeros(len(y.degree), np.int64)
    elif finite:
        place = np.searchsorted(np.asarray(codomain.atoms), y.degree)
    else:
        place = np.where(y.degree <= 0, 0, np.where(y.degree >= most, cells - 1, 1 + np.floor(2 * y.degree)))
    bits = np.zeros((len(y.degree), n + 1), np.int64)
    np.put_along_axis(bits, y.neighbours.ids, 1, 1)
    return mass, place.astype(np.int64) * len(patterns) + bits[:, others] @ (1 << np.arange(n - 1))


def _rule(codomain: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Noisy degrees, their weights, and the cell of each: atoms first and last, Gauss-Legendre between breaks."""
    if codomain is None:
        return np.array([np.nan]), np.ones(1), np.zeros(1, np.int64)
    if codomain.atoms is not None:
        values = np.asarray(codomain.atoms, np.float64)
        return values, np.ones(len(values)), np.arange(len(values))
    low, high = codomain.branches[0].values
    breaks = np.asarray(codomain.branches[1].breaks(0), np.float64)
    at, weight = np.polynomial.legendre.leggauss(_ORDER)
    half = np.diff(breaks)[:, None] / 2
    degrees = (breaks[:-1, None] + half * (1 + at)).ravel()
    owner = np.repeat(np.arange(1, len(breaks)), _ORDER)
    return (
        np.concatenate([[low], degrees, [high]]),
        np.concatenate([[1.0], (half * weight).ravel(), [1.0]]),
        np.concatenate([[0], owner, [len(breaks)]]),
    )


def _numbers(m: LocalLap, y: LapReport, x: NeighbourList, own: int) -> tuple[np.ndarray, np.ndarray]:
    """The mass of each combination of quartiles of a report's numbers, which are independent, and where each is.

    A number's own law is a slice of the density through the record: a product, whose slices say all.
    """
    owned = np.flatnonzero(~np.isnan(y.values[0]))
    bits = np.isin(np.arange(m.codomain().n), nodes_of(x)).astype(np.float64)
    counted = bits[owned] if m.reporting == "half" else bits
    centre = np.concatenate([[counted.sum()], bits[owned]])
    if 4 ** len(centre) > _MOST_CELLS:
        raise NotApplicable(f"4^{len(centre)} cells are too many to count: test a smaller n")

    def logs(rows: np.ndarray) -> np.ndarray:
        values = np.full((len(rows), len(bits)), np.nan)
        values[:, owned] = rows[:, 1:]
        return np.asarray(_logs(wide, LapReport(rows[:, 0], values), x, own))

    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), m)
        peak = logs(centre[None])[0]
        mass, place = np.ones(1), np.zeros(len(y.degree), np.int64)
        for number, (middle, drawn) in enumerate(zip(centre, [y.degree, *y.values[:, owned].T], strict=True)):

            def slice_of(values: np.ndarray, number: int = number) -> np.ndarray:
                rows = np.repeat(centre[None], len(values), 0)
                rows[:, number] = values
                return logs(rows) - peak * (1 - 1 / len(centre))

            cdf, _, edges = Interval(-math.inf, math.inf).line(middle, slice_of)
            grid, total = cdf.keywords["xp"], cdf(edges[-1])
            cuts = np.interp(total * np.array([0.25, 0.5, 0.75]), cdf(grid), grid)
            quarters = np.diff(np.concatenate([[0.0], cdf(cuts), [total]]))
            mass = (mass[:, None] * quarters).ravel()
            place = 4 * place + np.searchsorted(cuts, drawn, "right")
    return mass, place


def scores(reports: list[Any], x: NeighbourList, x_other: NeighbourList) -> dict[str, Any]:
    """Numbers that may tell two lists apart without their density: the noisy degree and the bit that differs."""
    differ = sorted(set(nodes_of(x)) ^ set(nodes_of(x_other)))
    if not differ:
        raise ValueError("x and x_other are the same list")
    node = differ[0]
    degree = [np.nan_to_num(np.asarray(y.degree, np.float64)) for y in reports]
    if isinstance(reports[0], LapReport):
        value = [np.nan_to_num(np.asarray(y.values, np.float64)[:, node]) for y in reports]
        return {"degree": degree, "bit": value, "degree + bit": [d + v for d, v in zip(degree, value, strict=True)]}
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
