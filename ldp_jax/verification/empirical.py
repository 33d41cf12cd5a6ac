"""Is it the law that is drawn? Fits at one record, at many, report by report and in windows.

Distribution functions of many records at once are made from the density alone.
"""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from ldp_jax.core import random, validate
from ldp_jax.core.flags import standard_flags
from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.mechanism import HasCoordinates, Randomizer
from ldp_jax.core.quadrature import unit_rule
from ldp_jax.core.spaces import Enumerated, Finite, NotApplicable
from ldp_jax.core.spaces.space import Cells
from ldp_jax.core.types import Array, PRNGKey, Report, Scalar, Values
from ldp_jax.edges.lists import stacked
from ldp_jax.edges.spaces import Lists
from ldp_jax.verification import statistics
from ldp_jax.verification._laws import law_of, volume_of
from ldp_jax.verification._programs import (
    Exact,
    View,
    count_of,
    draws,
    in_blocks,
    is_float,
    logs_each,
    logs_of,
    lost,
    pairs_of,
    privatize_stacked,
    raw,
    records_of,
    repeated,
    report_each,
    take,
    wide,
)
from ldp_jax.verification.exact import coordinate_laws, spaces
from ldp_jax.verification.statistics import SIGNIFICANCE, Fit, tail_fit

_JOINT_CELLS = 4096  # beyond, a vector is tested one random coordinate a user instead of whole
_TOTAL = 1e-4  # how far the mass of a density may be from 1, by quadrature
_SHARES = 32  # cells of a number's law

_ALL = 128  # members of a space that are all asked
_COORDINATES = 256  # laws that are integrated, where each coordinate of a record has one
_FEWEST = 8  # records, however many coordinates they have
_DRAWS = 100  # of a record, at least
_MOST_DRAWS = 1 << 24  # of all members of a small space


@standard_flags()
def matches_density(
    mechanism: Exact,
    key: PRNGKey,
    x: Values | None = None,
    *,
    trials: int = 200_000,
    significance: float = SIGNIFICANCE,
) -> Fit:
    """Whether ``privatize`` draws what ``log_density`` says at one record.

    A G test of the cells of their space: 32 of a number, 3 where a piece of its law is of few
    float32 spacings (``NotApplicable``: of few float64 spacings). Vectors are asked whole or, where
    these cells are too many, by one random coordinate a user; neighbour lists of every user, of
    whom user 0 has ``trials`` draws and half of the significance.

    >>> from ldp_jax.features import SquareWave
    >>> matches_density(SquareWave(1.0), jax.random.key(0)).fits
    True
    """
    validate.integer_in(100, trials=trials)
    domain: Any = mechanism.domain()
    record = domain.typical() if x is None else domain.given(x)
    draw_key, pick_key = random.split(key)
    if not domain.users:
        y = draws(mechanism, draw_key, record, trials)
        return fit_of(mechanism, pick_key, record, y, significance)

    n = domain.users
    keys = [draw_key]
    if n > 1:
        keys.extend(random.split(pick_key, n - 1))
    fits = []
    for own, user_key in enumerate(keys):
        count = trials
        share = significance / 2
        if own:
            count = max(100, trials // n)
            share = significance / (2 * n)
        view = View(mechanism, np.int32(own))
        mine = domain.seen_by(own, record)
        y = draws(view, user_key, mine, count)
        fits.append(fit_of(view, user_key, mine, y, share))
    return worst(fits)._replace(smallest_defect=fits[0].smallest_defect, draws=trials)


def worst(fits: list[Fit]) -> Fit:
    """One that does not fit, if there is one; else the one that is nearest to its threshold."""
    near = lambda fit: fit.statistic / fit.threshold if fit.threshold else 0.0
    return max(fits, key=lambda fit: (not fit.fits, near(fit)))


def fit_of(mechanism: Exact, key: PRNGKey, x: Values, y: Report, significance: float) -> Fit:
    """Stacked reports of one record against its law; the key picks a coordinate of each vector."""
    trials = count_of(y)
    codomain = mechanism.codomain()
    impossible = Fit(False, "impossible reports", math.inf, 0.0, 1 / trials, trials)
    if not codomain.contains(jax.tree.map(np.asarray, y), rounding=2).all():
        return impossible._replace(test=statistics.OUTSIDE)
    if not codomain.continuous and not np.isfinite(logs_of(mechanism, y, x)).all():
        return impossible

    on_line = codomain.branches == (codomain,) and codomain.continuous
    if isinstance(mechanism, HasCoordinates):
        totals, mass, place = _cells_of_coordinates(mechanism, key, x, y)
    else:
        how = {"shares": _SHARES} if on_line else {}
        mass, cell = cells_of(mechanism, x, **how)
        totals = mass.sum(keepdims=True)
        place = np.asarray(cell(y))
    off = np.abs(totals - 1)
    if not off.max() <= _TOTAL:  # NaN is refused
        total = float(totals[off.argmax()])
        return Fit(False, "density of total mass 1", total, 1.0, _TOTAL, trials)
    if (place < 0).any():
        return impossible

    counts = np.bincount(place, minlength=len(mass))
    fit = statistics.g_test(counts, mass, significance=significance)
    if on_line and len(mass) < 4:
        return fit._replace(test=f"{fit.test} of whole pieces, too narrow for float32")
    return fit


def _cells_of_coordinates(
    mechanism: HasCoordinates, key: PRNGKey, x: Values, y: Report
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Total masses of coordinates, masses of cells of vectors, and the cells of stacked reports.

    Whole vectors where these cells are few; else one random coordinate of each.
    """
    codomain = mechanism.codomain()
    dim, k = codomain.dim, codomain.sent
    indices, values = codomain.entries(y)
    each = [cells_of(mechanism.coordinate(j), x_j) for j, x_j in enumerate(np.asarray(x))]
    bins = max(len(mass) for mass, _ in each)
    mass = np.stack([np.pad(mass, (0, bins - len(mass))) for mass, _ in each])
    # The cell of every value, by the coordinate that it belongs to.
    code = np.zeros(indices.shape, np.int64)
    for j, (_, cell) in enumerate(each):
        mine = indices == j
        code[mine] = cell(take(values, mine))
    subsets = math.comb(dim, k)
    if subsets * bins**k > _JOINT_CELLS:
        row = np.arange(len(indices))
        pick = random.generator(key).integers(0, k, len(row))
        place = indices[row, pick] * bins + code[row, pick]
        return mass.sum(1), mass.ravel() / dim, place
    chosen = np.array(list(itertools.combinations(range(dim), k)))
    name = dim ** np.arange(k)[::-1]  # combinations come in this order
    place = np.searchsorted(chosen @ name, indices @ name)
    probability = np.full(subsets, 1 / subsets)
    for position in range(k):
        place = place * bins + code[:, position]
        coordinate = chosen[:, position]
        rows = np.repeat(mass[coordinate], bins**position, 0)
        probability = (probability[:, None] * rows).ravel()
    return mass.sum(1), probability, place


def cells_of(mechanism: Exact, x: Values, **how: int) -> Cells:
    """The masses of finitely many cells of the reports, and which cell a report is in."""
    with float64_on_cpu():  # breaks too: float32 would misplace those of a narrow piece
        m = wide(mechanism)
        record = wide(x)
        log_density = lambda y: logs_of(m, wide(y), record)
        return law_of(mechanism.codomain()).cells(record, log_density, **how)


# --- Many records ---------------------------------------------------------------------------------


@standard_flags()
def matches_everywhere(
    mechanism: Exact,
    key: PRNGKey,
    *,
    trials: int = 200_000,
    significance: float = SIGNIFICANCE,
    records: Values | None = None,
) -> Fit:
    """Whether ``privatize`` draws what ``log_density`` says, at all records or at many.

    All of at most 128 members are asked (categories; lists of up to eight nodes, their owners in
    turn), else 128 records: the caller's ``records`` and natural ones, at most half of all, and
    random ones; of vectors of independent coordinates 8 to 128, 256 laws in all. Records share the
    trials, but for categories, whose reports are also counted one by one. A region of the share
    ``smallest_defect`` is found.

    >>> from ldp_jax.features import GeneralizedRR
    >>> fit = matches_everywhere(
    ...     GeneralizedRR(1.0, 10), jax.random.key(0), trials=4_000
    ... )
    >>> fit.fits, fit.records, fit.smallest_defect
    (True, 10, 0.1)
    """
    validate.integer_in(100, trials=trials)
    validate.threefry(key)
    record_key, draw_key, pick_key = random.split(key, 3)
    x, owners, all_of_them = _records(mechanism, record_key, records)
    users = bool(mechanism.domain().users)
    count = len(owners)
    categories = all_of_them and not users
    each = max(_DRAWS, trials // count)
    if categories:
        each = max(each, min(trials, _MOST_DRAWS // count))

    many = jax.tree.map(lambda leaf: np.repeat(leaf, each, 0), x)
    own = [np.repeat(owners, each)] if users else []
    words = np.asarray(jax.random.key_data(random.split(draw_key, count * each)))
    y = report_each(words, mechanism, many, *own)

    share = significance / ((1 + categories) * count)
    fits = []
    for place, pick in enumerate(random.split(pick_key, count)):
        record = take(x, place)
        reports = take(y, slice(place * each, (place + 1) * each))
        view = View(mechanism, owners[place]) if users else mechanism
        fits.append(fit_of(view, pick, record, reports, share))
        if categories:
            fits.append(_each_report(mechanism, record, reports, share))
    random_ones = count - count // 2  # at least: natural ones lie where they lie
    region = 1 / count if all_of_them else 1 - SIGNIFICANCE ** (1 / random_ones)
    return worst(fits)._replace(smallest_defect=region, draws=count * each, records=count)


def _records(
    mechanism: Randomizer, key: PRNGKey, given: Values | None
) -> tuple[Report, np.ndarray, bool]:
    """Stacked records, whose each is (int32 [m]), and whether there are no others."""
    domain: Any = mechanism.domain()
    all_of_them = True
    if isinstance(domain, Lists) and 2 ** (domain.users - 1) <= _ALL:
        x = domain.every()
    elif isinstance(domain, Enumerated) and len(domain) <= _ALL:
        x = jax.tree.map(np.asarray, domain.grid(_ALL))
    else:
        dim = mechanism.codomain().dim if isinstance(mechanism, HasCoordinates) else 1
        count = min(_ALL, max(_FEWEST, _COORDINATES // dim))
        x = records_of(domain, random.generator(key), count, given)
        all_of_them = False

    owners = np.arange(count_of(x), dtype=np.int32) % max(domain.users, 1)
    if domain.users:
        x = stacked([domain.seen_by(int(own), take(x, place)) for place, own in enumerate(owners)])
    return x, owners, all_of_them


def _each_report(mechanism: Exact, x: Values, y: Report, significance: float) -> Fit:
    """Reports of one record: each cell against its mass by a binomial tail on either side."""
    mass, cell = cells_of(mechanism, x)
    place = cell(y)
    count = np.bincount(place[place >= 0], minlength=len(mass))
    n = len(place)
    mass = np.clip(mass, 0.0, 1.0)
    as_many = stats.binom.sf(count - 1, n, mass)
    as_few = stats.binom.cdf(count, n, mass)
    rarest = float(np.minimum(as_many, as_few).min())
    return tail_fit("each report", rarest, significance / (2 * len(mass)), 0.0, n)


# --- Single reports ---

REPORTS = 1 << 20
ROUNDING = 1e-3
"""How far the loss of a report may be from the claim by its own rounding, relative and absolute."""

_UNIFORM = 2.0**-23  # the mass of one float32 uniform: what a report of a continuum has at least
_MOST = 4096  # reports, the most frequent, whose mass is asked


@standard_flags()
def reported_losses(mechanism: Exact, key: PRNGKey, *, trials: int = REPORTS) -> Fit:
    """Whether no report that is drawn loses more than the guarantee, by the density.

    The report of each random record is asked against another one and against both ends of the
    domain.

    >>> from ldp_jax.features import Laplace
    >>> reported_losses(Laplace(1.0), jax.random.key(0), trials=10_000).fits
    True
    """
    validate.integer_in(1000, trials=trials)
    record_key, draw_key = random.split(key)
    domain, _ = spaces(mechanism)
    claim = mechanism.guarantee().epsilon
    _, x, other = pairs_of(domain, random.generator(record_key), trials)
    y = privatize_stacked(draw_key, mechanism, x)
    compared = [other]
    for end in domain.extremes():
        ends = repeated(end, trials)
        compared.append(jax.tree.map(lambda leaf, of: leaf.astype(of.dtype), ends, x))

    mine = logs_each(mechanism, y, x)
    largest = -np.inf
    for against in compared:
        loss = lost(mine, logs_each(mechanism, y, against))
        # A report that its own record cannot give by the density is matches_density's to refuse.
        unasked = np.isneginf(mine) | ~domain.adjacent(x, against)
        loss = np.nan_to_num(np.where(unasked, 0.0, loss), nan=np.inf)
        largest = max(largest, float(loss.max()))
    limit = claim * (1 + ROUNDING) + ROUNDING
    return Fit(largest <= limit, "losses of drawn reports", largest, limit, 13.8 / trials, trials)


@standard_flags()
def distinct_reports(
    mechanism: Exact,
    key: PRNGKey,
    x: Values | None = None,
    *,
    trials: int = REPORTS,
    significance: float = SIGNIFICANCE,
) -> Fit:
    """Whether no single report of one record comes more often than its law and float32 allow.

    A report of a continuum has a mass of 2^-23 and of the four float32 spacings around it; vectors
    are whole.

    >>> from ldp_jax.features import SquareWave
    >>> distinct_reports(SquareWave(1.0), jax.random.key(0), trials=100_000).fits
    True
    """
    validate.integer_in(1000, trials=trials)
    domain, _ = spaces(mechanism)
    record = domain.typical() if x is None else domain.given(x)
    return counted(mechanism, record, draws(mechanism, key, record, trials), significance)


def counted(mechanism: Exact, x: Values, y: Report, significance: float) -> Fit:
    """The same of stacked reports of a record."""
    codomain = mechanism.codomain()
    trials = count_of(y)
    words = []
    for leaf in map(np.asarray, jax.tree.leaves(y)):
        if is_float(leaf) and leaf.dtype.itemsize < 4:
            raise NotApplicable(
                f"reports of {leaf.dtype} repeat by rounding: what a float32 may weigh is no bound "
                "of theirs"
            )
        bits = raw(leaf).reshape(trials, -1)
        if bits.dtype.itemsize < 4:
            bits = bits.astype(np.uint32)
        words.append(bits.view(np.uint32))
    rows = np.concatenate(words, 1)
    whole = rows[:, 0]
    if rows.shape[1] > 1:
        whole = rows.view([("", np.uint32)] * rows.shape[1]).ravel()
    _, first, count = np.unique(whole, return_index=True, return_counts=True)
    often = np.argsort(-count, kind="stable")[:_MOST]
    asked = take(y, first[often])

    def nudged(leaf: np.ndarray, by: int) -> np.ndarray:
        return leaf + by * np.spacing(np.abs(leaf)) if is_float(leaf) else leaf

    # Rounding may have put a report just beyond the break that it was drawn on the other side of.
    steps = (-2, -1, 1, 2) if codomain.continuous else ()
    logs = [logs_of(mechanism, asked, x)]
    for by in steps:
        beside = jax.tree.map(partial(nudged, by=by), asked)
        logs.append(logs_of(mechanism, beside, x))
    densest = np.exp(np.max(np.asarray(logs, np.float64), 0))
    volume, atom = volume_of(codomain, asked)
    mass = densest * volume * (1 + 1e-4) + np.where(atom, 0.0, _UNIFORM)
    chance = stats.binom.sf(count[often] - 1, trials, np.clip(mass, 0.0, 1.0))
    share = significance / len(count)
    return tail_fit("distinct reports", float(chance.min()), share, 30 / trials, trials)


# --- Places in the law ----------------------------------------------------------------------------

_NODES, _WEIGHTS = unit_rule(8)
_TAILS = np.append(0.0, 3.0 ** np.arange(-8.0, 17.0))  # ends of panels, beyond the last break
_BLOCK = 4096  # reports at once
_ROWS = 1 << 16  # reports of one call

Ends = tuple[tuple[bool, bool], ...]
"""Which ends of each part are infinite."""


class Numbers(NamedTuple):
    """Records and reports of a mechanism on one number."""

    mechanism: Exact
    x: np.ndarray
    y: Report
    beside: tuple[np.ndarray, np.ndarray] | None = None
    """For the numbers of a vector: another coordinate of each, and the rank of the vector's sum in
    [0, 1).
    """


def by_law(
    mechanism: HasCoordinates, x: np.ndarray, y: Report
) -> list[tuple[Numbers, np.ndarray, np.ndarray]]:
    """Records [n, dim] and their reports by the law of a coordinate.

    Each comes with its user and its coordinate.
    """
    indices, values = mechanism.codomain().entries(y)
    n, dim = x.shape
    rank = np.argsort(np.argsort(x.sum(1))) / n
    found = []
    for law, at in coordinate_laws(mechanism):
        user, place = np.nonzero(np.isin(indices, at))
        coordinate = indices[user, place]
        # Another one, and each pair in turn.
        away = 1 + (user * 7919 + coordinate) % max(dim - 1, 1)
        beside = x[user, (coordinate + away) % dim], rank[user]
        given = Numbers(law, x[user, coordinate], take(values, (user, place)), beside)
        found.append((given, user, coordinate))
    return found


def positions(given: Numbers, key: PRNGKey) -> tuple[np.ndarray, float]:
    """Each report's place in its record's law, in [0, 1), and the mass float32 may misplace."""
    # Atoms are spread over their mass, and other numbers over one float32 spacing to either side,
    # by ``key``.
    mechanism, x, y, _ = given
    spread = random.generator(key).random(len(x))
    parts = mechanism.codomain().branches
    if not parts:
        raise NotApplicable("reports must be one number each")

    def infinite(part: Any) -> tuple[bool, bool]:
        if part.atoms is not None:
            return False, False
        return math.isinf(float(part.lower)), math.isinf(float(part.upper))

    ends = tuple(map(infinite, parts))
    branch, value = y if isinstance(y, tuple) else (np.zeros(len(x), np.int32), y)
    with float64_on_cpu():
        m = wide(mechanism)
        rows = (np.float64(x), np.asarray(branch, np.int32), np.float64(value), spread)
        atoms = tuple(
            None if part.atoms is None else np.asarray(part.atoms, np.float64)
            for part in m.codomain().branches
        )
        ask = lambda block: _positions(m, *block, atoms, ends)
        place, misplaced = in_blocks(ask, rows, _ROWS)
    return place, float(np.max(misplaced))


@partial(jax.jit, static_argnames="ends")
def _positions(
    mechanism: Exact,
    x: Array,
    branch: Array,
    value: Array,
    spread: Array,
    atoms: tuple[Array | None, ...],
    ends: Ends,
) -> tuple[Array, Array]:
    def one(row: tuple[Array, Array, Array, Array]) -> tuple[Scalar, Scalar]:
        x, branch, value, spread = row
        before = 0.0
        found = 0.0
        off = 0.0
        for number, (values, infinite) in enumerate(zip(atoms, ends, strict=True)):

            def log(values: Array, number: int = number) -> Array:
                """log p of values of this part."""
                of_part = jnp.full(values.shape, number, jnp.int32), values
                report = of_part if len(atoms) > 1 else values
                return jax.vmap(mechanism.log_density, (0, None))(report, x)

            if values is not None:
                mass = jnp.exp(log(values))
                below = jnp.where(values < value, mass, 0.0).sum()
                equal = jnp.where(values == value, mass, 0.0).sum()
                here = below + spread * equal
                total = mass.sum()
                misplaced = 0.0
            else:
                part = mechanism.codomain().branches[number]
                here, total, misplaced = _interval(part, infinite, log, value, x, spread)
            found = jnp.where(branch == number, before + here, found)
            off = jnp.where(branch == number, misplaced, off)
            before = before + total
        return found / before, off

    return jax.lax.map(one, (x, branch, value, spread), batch_size=_BLOCK)


def _interval(
    part: Any,
    infinite: tuple[bool, bool],
    log: Callable[[Array], Array],
    y: Array,
    x: Array,
    spread: Array,
) -> tuple[Array, Array, Array]:
    """The distribution function near y, the whole, and what float32 may misplace."""
    breaks = jnp.sort(jnp.atleast_1d(part.breaks(x))) if part.breaks is not None else x[None]
    lower = jnp.asarray(part.lower, x.dtype)
    upper = jnp.asarray(part.upper, x.dtype)
    inside = jnp.clip(breaks, lower, upper)
    largest = jnp.maximum(jnp.abs(y), jnp.abs(inside).max())
    step = 2.0**-23 * largest
    y = jnp.clip(y + (2 * spread - 1) * step, lower, upper)
    left = inside[0] - _TAILS[::-1] if infinite[0] else lower[None]
    right = inside[-1] + _TAILS if infinite[1] else upper[None]
    at = jnp.concatenate([left, inside, right])

    def mass(until: Array) -> Array:
        """The mass from the beginning of each panel to some place in it, of all panels."""
        width = until - at[:-1]
        points = at[:-1, None] + width[:, None] * _NODES
        density = jnp.exp(log(points.ravel()).reshape(points.shape))
        return (density @ _WEIGHTS * width).sum()

    middles = (at[1:] + at[:-1]) / 2
    densest = jnp.exp(log(jnp.concatenate([inside, middles]))).max()
    below = mass(jnp.clip(y, at[:-1], at[1:]))
    total = mass(at[1:])
    return below, total, 4 * step * densest


# --- Windows of records ---------------------------------------------------------------------------

_BLURRED = 0.5  # of the mass, misplaced by float32: beyond, no window is crowded that is not


@standard_flags()
def record_windows(
    mechanism: Exact, key: PRNGKey, *, trials: int = REPORTS, significance: float = SIGNIFICANCE
) -> Fit:
    """Whether reports follow their law in every window of the records, however narrow.

    The position of a report in the law of its record is uniform. Windows of records, half of which
    are natural ones, by cells of positions are counted at all scales; one crowded cell is enough.
    Vectors are cut by the coordinate, by another one, and by their sum. ``NotApplicable`` where
    float32 may misplace half of a law's mass.

    >>> from ldp_jax.features import Duchi
    >>> record_windows(Duchi(1.0), jax.random.key(0), trials=65_536).fits
    True
    """
    validate.integer_in(65_536, trials=trials)
    draw_key, spread_key = random.split(key)
    record_key, draw_key = random.split(draw_key)
    x = records_of(spaces(mechanism)[0], random.generator(record_key), trials, again=True)
    apart = isinstance(mechanism, HasCoordinates)
    if not apart and isinstance(x, tuple):
        raise NotApplicable(
            f"records must be numbers, categories or vectors, got {mechanism.domain()}"
        )
    if not apart and np.ndim(x) != 1:
        raise NotApplicable(
            f"the coordinates of {type(mechanism).__name__} are not independent given the record"
        )

    y = privatize_stacked(draw_key, mechanism, x)
    parts = [Numbers(mechanism, x, y)]
    if apart:
        parts = [given for given, _, _ in by_law(mechanism, x, y)]
    share = []
    place = []
    off = 0.0
    for given, part_key in zip(parts, random.split(spread_key, len(parts)), strict=True):
        found, misplaced = positions(given, part_key)
        share.append(_shares(given))
        place.append(found)
        off = max(off, misplaced)
    if off > _BLURRED:
        raise NotApplicable(
            f"float32 may misplace {min(off, 1.0):.2g} of a law's mass: windows would show nothing"
        )
    shares = np.concatenate(share, 1)
    places = np.concatenate(place)
    fits = [_scan(each, places, off, significance / len(shares)) for each in shares]
    return max(fits, key=lambda fit: (not fit.fits, fit.statistic))


def _shares(given: Numbers) -> np.ndarray:
    """Places [1 or 3, n] of records in their domain: alone, another coordinate and the sum."""
    domain = given.mechanism.domain()
    alone = domain.share(given.x)
    if alone is None:
        raise NotApplicable(f"records of {domain} have no order to cut into windows")
    if given.beside is None:
        return alone[None]
    other, total = given.beside
    return np.stack([alone, np.asarray(domain.share(other)), total])


def _scan(share: np.ndarray, place: np.ndarray, off: float, significance: float) -> Fit:
    """Crowded cells of (window of records, cell of positions), at every scale."""
    n = len(share)
    inside = (place >= -1e-6) & (place <= 1 + 1e-6)  # NaN is not
    if not inside.all():
        return Fit(False, "windows (a report beyond its law)", np.inf, 0.0, 1 / n, n)
    place = np.clip(place, 0, 1 - 2.0**-53)
    most = int(np.log2(n))
    scales = [(i, j) for i in range(most) for j in range(1, most - i + 1)]
    tests = sum(2.0 ** (i + j) for i, j in scales)
    worst = 1.0
    for i, j in scales:
        window = (share * 2.0**i).astype(np.int64)
        cell = (place * 2.0**j).astype(np.int64)
        code = (window << j) | cell
        count = np.bincount(code)
        held = np.bincount(window)
        crowded = np.flatnonzero(count > 1)
        probability = np.minimum(1.0, 2.0**-j + off)
        expected = held[crowded >> j] * probability
        tails = stats.poisson.sf(count[crowded] - 1, expected)
        worst = min(worst, float(tails.min(initial=1.0)))
    return tail_fit("windows", worst, significance / tests, 64 / n, n)


# --- Independent coordinates ----------------------------------------------------------------------

_SPARE = 64  # reports beyond as many as coordinates, by which their rank is full
_PAIRS = 1024  # coordinates of which all pairs are asked
_WORDS = 2048  # of three to five coordinates
_LENGTHS = (3, 4, 5)
_LISTED = 8  # coordinates of which all such words are asked
_WHOLE = 64  # words of all coordinates but one
_REPORTS = 16_384  # of which words are formed
_CHUNK = 4_096  # reports whose words are held at once


@standard_flags()
def independent_coordinates(
    mechanism: Randomizer, key: PRNGKey, *, trials: int = 50_000, significance: float = SIGNIFICANCE
) -> Fit:
    """Whether coordinates are independent: all pairs, words of three to five, parities of any.

    The place u of each value in its law is uniform. Sums of two and of more places, with either
    sign, are uniform modulo one if they are independent, and so is the parity of their halves: the
    mean of exp(2 pi i sum(u)) and that of the product of the sides of 1/2 are near zero, by
    Hoeffding. All words of at most eight coordinates are asked, else 2 048 random ones, and those
    of all coordinates and of all but one. Where all coordinates are sent, the sides as bits also
    have full rank over GF(2).

    >>> from ldp_jax.features import LaplaceVector
    >>> independent_coordinates(
    ...     LaplaceVector(1.0, dim=5), jax.random.key(0), trials=5_000
    ... ).fits
    True
    """
    validate.integer_in(1000, trials=trials)
    domain: Any = mechanism.domain()
    if getattr(domain, "dim", 1) < 2:
        raise NotApplicable(
            f"mechanism must be one on vectors of 2 and more coordinates, got {domain}"
        )
    draw_key, spread_key, word_key = random.split(key, 3)
    rng = random.generator(word_key)
    chosen = np.sort(rng.permutation(domain.dim)[:_PAIRS])
    place = _places(mechanism, draw_key, spread_key, trials)[:, chosen]
    words = _words(len(chosen), rng)
    pair_mean, pair_count = _pair_means(place)
    word_mean, word_count = _word_means(place, words)
    mean = np.append(pair_mean, word_mean)
    count = np.append(pair_count, word_count)

    limit = math.log(4 * len(mean) / significance)
    excess = count * mean**2 / 4
    largest = float(excess.max(initial=0.0))
    whole = not np.isnan(place).any()
    fits = largest <= limit and not (whole and _dependent(place > 0.5))
    return Fit(fits, "coordinates", largest, limit, 2 * math.sqrt(limit / trials), trials)


def _places(
    mechanism: Randomizer, draw_key: PRNGKey, spread_key: PRNGKey, trials: int
) -> np.ndarray:
    """Where each coordinate of each report lies in its law, float32 [trials, dim]; else NaN."""
    domain: Any = mechanism.domain()
    if isinstance(mechanism, HasCoordinates):
        record_key, draw_key = random.split(draw_key)
        x = records_of(domain, random.generator(record_key), trials, again=True)
        given = by_law(mechanism, x, privatize_stacked(draw_key, mechanism, x))
        place = np.full((trials, domain.dim), np.nan, np.float32)
        keys = random.split(spread_key, len(given))
        for (one, user, coordinate), key in zip(given, keys, strict=True):
            place[user, coordinate] = positions(one, key)[0]
        return place
    if getattr(mechanism.codomain(), "inner", None) == Finite((-1.0, 1.0)):
        # About the centre each sign is fair, and anywhere in its half.
        signs = draws(mechanism, draw_key, domain.centre(), trials)
        spread = random.generator(spread_key).random(signs.shape, np.float32)
        return (spread + (signs > 0)) / 2
    raise NotApplicable(f"the coordinates of {type(mechanism).__name__} have no law of their own")


def _words(dim: int, rng: np.random.Generator) -> np.ndarray:
    """Signs of the coordinates in each word, float32 [dim, words]; those of the others are 0."""
    if dim <= _LISTED:
        every = np.array(list(itertools.product((0, 1, -1), repeat=dim)))
        first = every[np.arange(len(every)), (every != 0).argmax(1)]
        sizes = np.abs(every).sum(1)
        chosen = every[(first == 1) & np.isin(sizes, _LENGTHS)]
    else:
        sizes = rng.choice(_LENGTHS, (_WORDS, 1))
        ranks = rng.random((_WORDS, dim)).argsort(1).argsort(1)
        chosen = np.where(ranks < sizes, rng.choice((1, -1), ranks.shape), 0)
    words = chosen.T.astype(np.float32)
    all_of_them = np.ones((dim, 1), np.float32)
    all_but_one = (all_of_them - np.eye(dim, dtype=np.float32))[:, :_WHOLE]
    return np.concatenate([words, all_of_them, all_but_one], 1)


def _pair_means(place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sizes of the means of all pairs' characters, and of how many reports each is one."""
    there = ~np.isnan(place)
    known = np.nan_to_num(place)
    character = np.exp(2j * np.pi * known)
    turn = np.where(there, character, 0).astype(np.complex64)
    side = np.where(there, np.sign(known - 0.5), 0).astype(np.float32)
    present = there.astype(np.float32)

    pairs = np.triu_indices(place.shape[1], 1)
    count = np.maximum((present.T @ present)[pairs], 1.0)
    sums = [turn.T @ turn, turn.T @ turn.conj(), side.T @ side]
    means = [np.abs(each[pairs]) / count for each in sums]
    return np.concatenate(means), np.tile(count, 3)


def _word_means(place: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same of words, by the first reports."""
    there = ~np.isnan(place[:_REPORTS])
    known = np.nan_to_num(place[:_REPORTS])
    absolute = np.abs(words)
    total = np.zeros((3, words.shape[1]))
    count = np.zeros(words.shape[1])
    for start in range(0, len(known), _CHUNK):
        rows = slice(start, start + _CHUNK)
        sent = there[rows].astype(np.float32) @ absolute == absolute.sum(0)
        turn = np.float32(2 * np.pi) * (known[rows] @ words)
        odd = (known[rows] > 0.5).astype(np.float32) @ absolute % 2
        for row, part in enumerate((np.cos(turn), np.sin(turn), 1 - 2 * odd)):
            total[row] += (part * sent).sum(0)
        count += sent.sum(0)

    turned = np.hypot(total[0], total[1])
    sums = np.append(turned, np.abs(total[2]))
    counts = np.tile(count, 2)
    return sums / np.maximum(counts, 1), counts


def _dependent(bits: np.ndarray) -> bool:
    """Whether a product of some signs is always the same: less than full rank over GF(2)."""
    packed = []
    for row in bits[: bits.shape[1] + _SPARE]:
        digits = "".join("1" if bit else "0" for bit in row)
        packed.append(int(digits + "1", 2))
    rank = 0
    width = bits.shape[1] + 1
    for place in range(width):
        pivot = next((row for row in packed if row >> place & 1), None)
        if pivot is not None:
            rank += 1
            packed = [row ^ pivot if row >> place & 1 else row for row in packed]
    return rank < width
