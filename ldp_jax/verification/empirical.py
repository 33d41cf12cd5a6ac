"""Is it the law that is drawn? Fits at one record, at many, of graphs, and of single reports."""

import dataclasses
import itertools
import math
from typing import Any

import jax
import numpy as np
from scipy import stats

from ldp_jax.core import random, validate
from ldp_jax.core.flags import standard_flags
from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.mechanism import HasCoordinates, HasDensity, Randomizer
from ldp_jax.core.spaces import Enumerated, NotApplicable
from ldp_jax.core.spaces.space import Cells, Log
from ldp_jax.core.types import PRNGKey, PRNGKeys, Report, Values
from ldp_jax.edges import ListReport, Population
from ldp_jax.edges.lists import stacked
from ldp_jax.edges.spaces import ListReports, Lists
from ldp_jax.graph.graphs import GraphSet
from ldp_jax.verification import statistics
from ldp_jax.verification._laws import law_of
from ldp_jax.verification._programs import (
    Exact,
    View,
    count_of,
    draws,
    generator,
    is_float,
    logs_each,
    logs_of,
    lost,
    privatize_stacked,
    raw,
    repeated,
    report_each,
    take,
    wide,
)
from ldp_jax.verification.exact import spaces
from ldp_jax.verification.records import pairs_of, records_of
from ldp_jax.verification.statistics import SIGNIFICANCE, Fit

_JOINT_CELLS = 4096  # beyond, a vector is tested one random coordinate a user instead of whole
_TOTAL = 1e-4  # how far the mass of a density may be from 1, by quadrature
_SHARES = 32  # cells of a number's law

_ALL = 128  # members of a space that are all asked
_COORDINATES = 256  # laws that are integrated, where each coordinate of a record has one
_FEWEST = 8  # records, however many coordinates they have
_DRAWS = 100  # of a record, at least
_MOST_DRAWS = 1 << 24  # of all members of a small space
_LEVELS = 8  # of what a user may report about a graph


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
        return fit_of(
            mechanism, pick_key, record, draws(mechanism, draw_key, record, trials), significance
        )
    n = domain.users
    fits = []
    keys = [draw_key, *(random.split(pick_key, n - 1) if n > 1 else ())]
    for own, user_key in enumerate(keys):
        count, share = (
            (trials, significance / 2)
            if own == 0
            else (max(100, trials // n), significance / (2 * n))
        )
        view = View(mechanism, np.int32(own))
        mine = domain.seen_by(own, record)
        fits.append(fit_of(view, user_key, mine, draws(view, user_key, mine, count), share))
    return _worst(fits)._replace(smallest_defect=fits[0].smallest_defect, draws=trials)


def _worst(fits: list[Fit]) -> Fit:
    return max(
        fits,
        key=lambda fit: (not fit.fits, fit.statistic / fit.threshold if fit.threshold else 0.0),
    )


def fit_of(mechanism: Exact, key: PRNGKey, x: Values, y: Report, significance: float) -> Fit:
    """Stacked reports of one record against its law; the key picks a coordinate of each vector."""
    trials = count_of(y)
    codomain = mechanism.codomain()
    impossible = Fit(False, "impossible reports", math.inf, 0.0, 1 / trials, trials)
    if not codomain.contains(jax.tree.map(np.asarray, y), rounding=2).all():
        return impossible._replace(test=statistics.OUTSIDE)
    if not codomain.continuous and not np.isfinite(logs_of(mechanism, y, x)).all():
        return impossible
    if isinstance(mechanism, HasCoordinates):
        each = [cells_of(mechanism.coordinate(j), x_j) for j, x_j in enumerate(np.asarray(x))]
        return _vectors(each, mechanism, y, key, significance)
    on_line = codomain.branches == (codomain,) and codomain.continuous
    mass, cell = cells_of(mechanism, x, **({"shares": _SHARES} if on_line else {}))
    if not abs(mass.sum() - 1) <= _TOTAL:  # NaN is refused
        return _not_one(float(mass.sum()), trials)
    place = np.asarray(cell(y))
    if (place < 0).any():
        return impossible
    counts = np.bincount(place, minlength=len(mass))
    fit = statistics.g_test(counts, mass, significance=significance)
    if on_line and len(mass) < 4:
        return fit._replace(test=f"{fit.test} of whole pieces, too narrow for float32")
    return fit


def _not_one(total: float, trials: int) -> Fit:
    return Fit(False, "density of total mass 1", total, 1.0, _TOTAL, trials)


def _vectors(
    each: list[Cells], mechanism: HasCoordinates, y: Report, key: PRNGKey, significance: float
) -> Fit:
    """A G test of coordinates and cells; ``each`` has the cells of every coordinate."""
    codomain = mechanism.codomain()
    k = codomain.sent
    indices, values = codomain.entries(y)
    n = len(indices)
    bins = max(len(mass) for mass, _ in each)
    code = np.zeros(
        indices.shape, np.int64
    )  # the cell of every value, by the coordinate that it belongs to
    for j, (_, cell) in enumerate(each):
        mine = indices == j
        code[mine] = cell(take(values, mine))
    mass = np.stack([np.pad(mass, (0, bins - len(mass))) for mass, _ in each])
    if np.abs(mass.sum(1) - 1).max() > _TOTAL:
        return _not_one(float(mass.sum(1).max()), n)
    subsets = math.comb(codomain.dim, k)
    if subsets * bins**k <= _JOINT_CELLS:
        chosen = np.array(list(itertools.combinations(range(codomain.dim), k)))
        name = codomain.dim ** np.arange(k)[::-1]  # combinations come in this order
        place = np.searchsorted(chosen @ name, indices @ name)
        probability = np.full(subsets, 1 / subsets)
        for position in range(k):
            place = place * bins + code[:, position]
            rows = np.repeat(mass[chosen[:, position]], bins**position, 0)
            probability = (probability[:, None] * rows).ravel()
    else:
        pick = generator(key).integers(0, k, n)
        row = np.arange(n)
        place = indices[row, pick] * bins + code[row, pick]
        probability = mass.ravel() / codomain.dim
    counts = np.bincount(place, minlength=len(probability))
    return statistics.g_test(counts, probability, significance=significance)


# --- Laws as cells --------------------------------------------------------------------------------


def _wide_law(mechanism: HasDensity, x: Values) -> Log:
    """log p of stacked reports about ``x`` in float64; to be called with x64 enabled."""
    mechanism = wide(mechanism)
    x = wide(x)
    return lambda y: logs_of(mechanism, wide(y), x)


def cells_of(mechanism: Exact, x: Values, **how: int) -> Cells:
    """The masses of finitely many cells of the reports, and which cell a report is in."""
    with float64_on_cpu():  # breaks too: float32 would misplace those of a narrow piece
        return law_of(mechanism.codomain()).cells(wide(x), _wide_law(mechanism, x), **how)


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
    words = np.asarray(jax.random.key_data(random.split(draw_key, count * each)))
    y = report_each(words, mechanism, many, *([np.repeat(owners, each)] if users else []))
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
    return _worst(fits)._replace(smallest_defect=region, draws=count * each, records=count)


def _records(
    mechanism: Randomizer, key: PRNGKey, given: Values | None
) -> tuple[Report, np.ndarray, bool]:
    """Stacked records, whose each is (int32 [m]), and whether there are no others."""
    domain: Any = mechanism.domain()
    few = isinstance(domain, Lists) and 2 ** (domain.users - 1) <= _ALL
    if isinstance(domain, Lists) and few:
        x = domain.every()
    elif isinstance(domain, Enumerated) and len(domain) <= _ALL:
        x = jax.tree.map(np.asarray, domain.grid(_ALL))
    else:
        dim = mechanism.codomain().dim if isinstance(mechanism, HasCoordinates) else 1
        few = False
        count = min(_ALL, max(_FEWEST, _COORDINATES // dim))
        x = records_of(domain, generator(key), count, given)
    count = count_of(x)
    owners = np.arange(count, dtype=np.int32) % max(domain.users, 1)
    if domain.users:
        x = stacked([domain.seen_by(int(own), take(x, place)) for place, own in enumerate(owners)])
    return x, owners, bool(few or (isinstance(domain, Enumerated) and count == len(domain)))


def _each_report(mechanism: Exact, x: Values, y: Report, significance: float) -> Fit:
    """Reports of one record: each cell against its mass by a binomial tail on either side."""
    mass, cell = cells_of(mechanism, x)
    place = cell(y)
    count = np.bincount(place[place >= 0], minlength=len(mass))
    n = len(place)
    mass = np.clip(mass, 0.0, 1.0)
    tail = float(
        np.minimum(stats.binom.sf(count - 1, n, mass), stats.binom.cdf(count, n, mass)).min()
    )
    return statistics.tail_fit("each report", tail, significance / (2 * len(mass)), 0.0, n)


# --- Whole graphs ---------------------------------------------------------------------------------


def matches_graphs(mechanism: Any, key: PRNGKey, *, trials: int, significance: float) -> Fit:
    """Whether a sampler of whole graphs draws what ``log_density`` says of each user.

    16 graphs are asked in each reporting, from no edge to all: every user of copies that are drawn
    at once, and of one graph that is drawn alone. ``records`` says how many users these are. Pairs
    of users must report independently. ``NotApplicable`` where reports are no lists.
    """
    codomain = mechanism.codomain()
    if not isinstance(codomain, ListReports):
        raise NotApplicable(f"a graph is no reports that are lists: got reports in {codomain}")
    n = codomain.n
    rng = generator(key)
    low, high = np.indices((n, n))
    density = np.linspace(0.0, 1.0, 12)[:, None, None]
    motifs = [low + high == 1, low == 0, high == low + 1, high < 3]
    edges = np.concatenate([motifs, rng.random((12, n, n)) < density]) & (low < high)
    lists = (edges | edges.transpose(0, 2, 1)).reshape(-1, n)
    reportings = getattr(mechanism, "reportings", ())
    modes = [dataclasses.replace(mechanism, reporting=mode) for mode in reportings] or [mechanism]
    asked = len(modes) * (len(lists) + n)
    copies = max(_DRAWS, trials // asked)
    fits = []
    together, alone = (lists, 1), (lists[n : 2 * n], copies)
    for mode, (true, calls) in itertools.product(modes, (together, alone)):
        key, draw_key = random.split(key)
        reports = _reports_of_graphs(mode, random.split(draw_key, calls), true, copies // calls)
        found = [_levels(mode, true, reports, user) for user in range(len(true))]
        for level, mass in found:
            counts = np.bincount(level, minlength=len(mass))
            fits.append(statistics.g_test(counts, mass, significance=significance / 2 / asked))

        joint, expected = np.zeros((2, (_LEVELS + 1) ** 2))
        order = rng.permuted(np.arange(len(true)).reshape(-1, n), axis=1)
        for one, other in order[:, : n // 2 * 2].reshape(-1, 2):
            place = [found[user][0] for user in (one, other)]
            np.add.at(joint, np.ravel_multi_index(place, (_LEVELS + 1, _LEVELS + 1)), 1)
            expected += np.outer(found[one][1], found[other][1]).ravel()
        fits.append(statistics.g_test(joint, expected, significance=significance / 4 / len(modes)))
    return _worst(fits)._replace(smallest_defect=1 / asked, draws=asked * copies, records=asked)


def _reports_of_graphs(mechanism: Any, keys: PRNGKeys, true: np.ndarray, copies: int) -> ListReport:
    """The stacked reports of all users of copies of graphs, whose lists are bits [users, n].

    One call a key draws so many copies.
    """
    true = np.tile(true, (copies, 1))
    n = true.shape[1]
    user, friend = np.nonzero(true)
    graph = np.arange(len(true)) // n
    no_labels = np.zeros(len(true) // n, int)
    whole = Population.of(GraphSet.from_edges(n * graph[user] + friend, user, graph, no_labels))
    degrees = []
    bits = []
    for key in keys:
        drawn = mechanism.sample_graph(key, whole, math.inf)
        pair = drawn.reporter, drawn.reported - n * graph[drawn.reporter]
        place = np.ravel_multi_index(pair, true.shape)  # which raises for users of another graph
        bits.append(np.bincount(place, minlength=true.size).reshape(true.shape) == 1)
        degrees.append(drawn.degree)
    return ListReport(np.concatenate(degrees), mechanism.domain().of_bits(np.concatenate(bits)))


def _levels(
    mechanism: Any, true: np.ndarray, reports: ListReport, user: int
) -> tuple[np.ndarray, np.ndarray]:
    """The levels of a user's reports, and their masses: likelier reports are of a lower level.

    All have about one mass but the last, whose reports are impossible.
    """
    view = View(mechanism, np.int32(user % true.shape[1]))
    y = take(reports, slice(user, None, len(true)))
    mass, cell = cells_of(view, take(mechanism.domain().of_bits(true), user))
    order = np.argsort(-mass, kind="stable")
    level = np.zeros(len(mass), int)
    level[order] = _LEVELS * (np.cumsum(mass[order]) - mass[order] / 2) / mass.sum()
    level[mass == 0] = _LEVELS
    drawn = np.where(view.codomain().contains(y), level[cell(y)], _LEVELS)
    return drawn, np.bincount(level, mass, minlength=_LEVELS + 1)


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
    _, x, other = pairs_of(domain, generator(record_key), trials)
    y = privatize_stacked(draw_key, mechanism, x)
    ends = [
        jax.tree.map(lambda leaf, of: leaf.astype(of.dtype), repeated(end, trials), x)
        for end in domain.extremes()
    ]
    mine = logs_each(mechanism, y, x)
    largest = -np.inf
    for against in (other, *ends):
        loss = lost(mine, logs_each(mechanism, y, against))
        # A report that its own record cannot give by the density is matches_density's to refuse.
        loss = np.where(np.isneginf(mine) | ~domain.adjacent(x, against), 0.0, loss)
        largest = max(largest, float(np.nan_to_num(loss, nan=np.inf).max()))
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
    leaves = [np.ascontiguousarray(leaf) for leaf in jax.tree.leaves(y)]
    trials = count_of(y)
    narrow = [leaf.dtype for leaf in leaves if is_float(leaf) and leaf.dtype.itemsize < 4]
    if narrow:
        raise NotApplicable(
            f"reports of {narrow[0]} repeat by rounding: what a float32 may weigh is no bound of "
            "theirs"
        )
    rows = np.concatenate([_words(leaf.reshape(trials, -1)) for leaf in leaves], 1)
    whole = (
        rows.view([("", np.uint32)] * rows.shape[1]).ravel() if rows.shape[1] > 1 else rows[:, 0]
    )
    _, first, count = np.unique(whole, return_index=True, return_counts=True)
    often = np.argsort(-count, kind="stable")[:_MOST]
    mass = _mass(mechanism, take(y, first[often]), x)
    chance = stats.binom.sf(count[often] - 1, trials, np.clip(mass, 0.0, 1.0))
    return statistics.tail_fit(
        "distinct reports", float(chance.min()), significance / len(count), 30 / trials, trials
    )


def _words(leaf: np.ndarray) -> np.ndarray:
    """The bits of each number in one uint32 word, or in two."""
    bits = raw(leaf)
    return bits.astype(np.uint32) if bits.dtype.itemsize < 4 else bits.view(np.uint32)


def _mass(mechanism: Exact, y: Report, x: Values) -> np.ndarray:
    """The most that a report may weigh."""
    codomain = mechanism.codomain()
    # Rounding may have put a report just beyond the break that it was drawn on the other side of.
    nudges = (-2, -1, 0, 1, 2) if codomain.continuous else (0,)
    beside = [
        jax.tree.map(lambda leaf, by=by: _nudged(leaf, by) if by else leaf, y) for by in nudges
    ]
    logs = np.max([np.asarray(logs_of(mechanism, at, x), np.float64) for at in beside], 0)
    volume, atom = law_of(codomain).volume(y)
    return np.exp(logs) * volume * (1 + 1e-4) + np.where(atom, 0.0, _UNIFORM)


def _nudged(leaf: np.ndarray, by: int) -> np.ndarray:
    return leaf + by * np.spacing(np.abs(leaf)) if np.issubdtype(leaf.dtype, np.floating) else leaf
