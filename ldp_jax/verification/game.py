"""The evidence of draws alone: lower bounds on epsilon, from games that tell two records apart.

Many adjacent pairs of records are looked at in many views of a report. Rounds of draws choose
suspects, events that come more often under one record than epsilon allows; draws that have chosen
nothing bound their probabilities.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy import special, stats

from ldp_jax.core import random, validate
from ldp_jax.core.flags import standard_flags
from ldp_jax.core.mechanism import HasDensity, Randomizer, check_budget
from ldp_jax.core.types import PRNGKey, Report, Values
from ldp_jax.verification import statistics
from ldp_jax.verification._programs import (
    count_of,
    generator,
    logs_each,
    lost,
    report_each,
    take,
)
from ldp_jax.verification.records import pairs_of
from ldp_jax.verification.statistics import SIGNIFICANCE
from ldp_jax.verification.views import (
    RESOLUTION,
    ROUNDING,
    Viewer,
    Views,
    leaves_of,
    rounded,
)

_PAIRS = 512  # of records, in the first round
_FEWEST = 16  # pairs of the first round, however many draws each takes
_FEWER = 8  # times fewer pairs in each further round
_FINALISTS = 4  # pairs about which a suspect may be
_SUSPECTS = 32
_DEVIATIONS = 5.0  # by which counts are taken to be off where the largest bound is looked for
_LEAST = 12  # reports of a window
_TAILS = 1024  # thresholds of a view
_NUMBERS = 1 << 25  # of all reports of one record

Rank = Callable[..., np.ndarray]
"""How suspicious events are, by how many reports of either record were in them."""


class LowerBound(NamedTuple):
    """The outcome of a distinguishing game.

    Attributes:
      epsilon: no smaller epsilon is true of this sampler, with the confidence asked for; 0 where
        nothing was shown. Of the last bits of a report, what float32 may cause is taken off.
      limit: the largest value that so many trials could have shown.
      event: the chosen set of reports, in words.
      share: how often the event's record was in it, among trials that did not choose it; and the
        other record.
      pairs: how many pairs of records were looked at, in how many ``views``.
    """

    epsilon: float
    limit: float
    event: str
    share: float
    share_other: float
    trials: int
    pairs: int = 1
    views: int = 0


class Event(NamedTuple):
    """Reports about a pair of records whose ``view`` is in [low, high).

    ``forward`` is whether they speak for the first record of the pair; ``score`` is how suspicious
    they are. Of a view that is a bit, ``low`` is the bit.
    """

    score: float
    pair: int
    view: str
    low: float
    high: float
    forward: bool

    def __str__(self) -> str:
        record = "record x" if self.forward else "record x_other"
        if self.high == self.low:
            return f"{self.view} is {self.low:.0f}, for {record}"
        if self.high == math.inf:
            return f"{self.view} >= {self.low:.6g}, for {record}"
        if self.low == -math.inf:
            return f"{self.view} < {self.high:.6g}, for {record}"
        return f"{self.low:.6g} <= {self.view} < {self.high:.6g}, for {record}"


class _Pairs(NamedTuple):
    """Stacked pairs of adjacent records, whose they are, and where each pair is not alike."""

    owners: tuple[np.ndarray, ...]
    x: Any
    other: Any
    differing: np.ndarray

    @classmethod
    def of(cls, owners: tuple[np.ndarray, ...], x: Values, other: Values) -> "_Pairs":
        """The place where the numbers of two records are farthest apart."""
        first, second = (
            np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves_of(side)], 1)
            for side in (x, other)
        )
        away = np.abs(first.astype(np.float64) - second)
        return cls(owners, x, other, away.argmax(1))

    @property
    def alike(self) -> bool:
        """Whether all pairs are of a record and itself."""
        sides = [jax.tree.leaves(side) for side in (self.x, self.other)]
        return all(np.array_equal(*leaves) for leaves in zip(*sides, strict=True))


@standard_flags()
def epsilon_lower_bound(
    mechanism: Randomizer,
    key: PRNGKey,
    trials: int = 200_000,
    confidence: float = 1 - SIGNIFICANCE,
    *,
    x: Values | None = None,
    x_other: Values | None = None,
    delta: float = 0.0,
) -> LowerBound:
    r"""A lower bound on the epsilon of a sampler, from draws of two records.

    By default the records are the extremes of the domain.

    Half of the draws choose the event of largest :math:`\log((P - \delta)/P')` among windows of all
    sizes in the views of a report (:mod:`ldp_jax.verification.views`) and in the declared loss. The
    others bound both probabilities by Clopper and Pearson, whatever the
    views are worth. 2e5 trials see 5 % at epsilon 1. The last bits of a float32 report are rounded
    away: :func:`~ldp_jax.verification.float_audit` measures them.

    >>> from ldp_jax.features import Duchi
    >>> bound = epsilon_lower_bound(Duchi(1.0), jax.random.key(0))
    >>> 0.95 < bound.epsilon <= 1.0
    True
    """
    validate.integer_in(1000, trials=trials)
    validate.in_range(0.0, 1.0, confidence=confidence)
    validate.in_range(0.0, 1.0, delta=delta)
    check_budget(mechanism)  # before the key is used
    domain = mechanism.domain()
    first, second = domain.extremes()
    first = first if x is None else domain.given(x)
    second = second if x_other is None else domain.given(x_other)
    pair = _Pairs.of(_whose(domain, 1), *map(_one, (first, second)))
    validate.require(not pair.alike, "x and x_other must be two records, got one twice")
    choose_key, decide_key = random.split(key)
    half = trials // 2
    chosen = _reports(mechanism, choose_key, pair, half)
    viewer = _viewer_of(mechanism, chosen[0])
    fresh = _reports(mechanism, decide_key, pair, trials - half)
    look = partial(_views, mechanism, viewer, pair)
    views = [[look(side) for side in reports] for reports in (chosen, fresh)]
    return play(views[0], views[1], confidence, delta=delta)


def play(
    chosen: Sequence[Views],
    fresh: Sequence[Views],
    confidence: float,
    *,
    delta: float = 0.0,
) -> LowerBound:
    """The game about one pair of records: views of their reports choose an event.

    Those of ``fresh`` reports alone bound its probabilities.
    """
    alpha = (1 - confidence) / 2
    n = chosen[0].values.shape[1]
    rank = partial(_likely_bound, n=n, z=float(stats.norm.isf(alpha)), delta=delta)
    suspect = most_suspicious(chosen, 1, [rank])[0].events(1)[0]
    found = _bounded(suspect, fresh, alpha, delta)
    asked = len(fresh[0].names) + len(fresh[0].bit_names)
    return found._replace(trials=n + found.trials, views=asked)


@standard_flags()
def largest_lower_bound(
    mechanism: Randomizer,
    key: PRNGKey,
    trials: int = 200_000,
    confidence: float = 1 - SIGNIFICANCE,
    *,
    delta: float = 0.0,
    records: Values | None = None,
) -> LowerBound:
    """The largest of lower bounds on epsilon, over natural and random pairs of records.

    Rounds of ``trials`` / 2 draws ask up to 512 pairs, then an eighth of them, then four: the
    extremes, and those with the most suspicious window in any view. Of these, ``trials`` / 4 draws
    of each record choose at most 32 events; ``trials`` / 2 others bound their probabilities, each
    with an equal share of 1 - ``confidence``. Stacked ``records`` of the caller's are asked, too.
    Of reports of many numbers fewer are drawn, 2^25 numbers in all.

    >>> from ldp_jax.features import Duchi
    >>> 0.9 < largest_lower_bound(
    ...     Duchi(1.0), jax.random.key(0), 50_000
    ... ).epsilon <= 1.0
    True
    """
    validate.integer_in(1000, trials=trials)
    check_budget(mechanism)
    claim = mechanism.guarantee().epsilon
    trials = affordable(mechanism, trials)
    rounds = round_sizes(trials, claim)
    pair_key, train_key, *keys = random.split(key, 2 + _FINALISTS)
    drawn = pairs_of(mechanism.domain(), generator(pair_key), rounds[0][0], records)
    pairs = _Pairs.of(*drawn)
    viewer = None
    for (_, each), round_key in zip(rounds, random.split(train_key, len(rounds)), strict=True):
        reports = _reports(mechanism, round_key, pairs, each)
        viewer = viewer or _viewer_of(mechanism, reports[0])
        rank = partial(_suspicion, claim=claim, spare=delta * each)
        views = [_views(mechanism, viewer, pairs, side) for side in reports]
        scores = most_suspicious(views, len(pairs.differing), [rank])[0].score.max(0)
        scores[0] = np.inf  # the extremes are always kept
        kept = max(_FINALISTS, len(scores) // _FEWER)
        pairs = take(pairs, np.argsort(-scores, kind="stable")[:kept])
    assert viewer is not None
    alpha = (1 - confidence) / (2 * _SUSPECTS)
    bounds = []
    asked = 0
    for place in range(_FINALISTS):
        choose_key, decide_key = random.split(keys[place])
        pair = take(pairs, slice(place, place + 1))
        look = partial(_views, mechanism, viewer, pair)
        views = [look(side) for side in _reports(mechanism, choose_key, pair, trials // 4)]
        ranks = [
            partial(_suspicion, claim=claim, spare=delta * (trials // 4)),
            partial(_likely_bound, n=trials // 4, z=_DEVIATIONS, delta=delta),
        ]
        most = _SUSPECTS // (2 * _FINALISTS)
        suspects = [e for by in most_suspicious(views, 1, ranks) for e in by.events(most)]
        fresh = [look(side) for side in _reports(mechanism, decide_key, pair, trials // 2)]
        asked = len(fresh[0].names) + len(fresh[0].bit_names)
        bounds += [_bounded(event, fresh, alpha, delta) for event in suspects]
    largest = max(bounds, key=lambda bound: bound.epsilon)
    return largest._replace(trials=trials, pairs=rounds[0][0], views=asked)


def affordable(mechanism: Any, trials: int) -> int:
    """So many of the trials that their numbers fit into memory, but 1 000."""
    shape = jax.eval_shape(mechanism.privatize, jax.random.key(0), mechanism.domain().typical())
    numbers = sum(leaf.size for leaf in jax.tree.leaves(shape))
    numbers = max(numbers, getattr(mechanism.codomain(), "dim", 1))
    return min(trials, max(1000, _NUMBERS // numbers))


def round_sizes(trials: int, claim: float) -> list[tuple[int, int]]:
    """How many pairs each round asks, and by how many reports of each record.

    A report that its record alone gives is worth e^claim that both give, so fewer pairs are asked
    where more is claimed.
    """
    needed = 20 * (1 + math.exp(min(claim, 20.0)))
    pairs = int(np.clip(trials / 4 / needed, _FEWEST, _PAIRS))
    sizes = []
    while pairs > _FINALISTS:
        sizes.append((pairs, max(1, trials // (4 * pairs))))
        pairs = max(_FINALISTS, pairs // _FEWER)
    return sizes


def smallest_leaks(trials: int, claim: float, confidence: float) -> tuple[float, float, int]:
    """The least masses of reports that their record alone gives and the game finds.

    The first is about every pair of records, or one that the last round asks; the second about one
    of the pairs of the first round, whose number is the third. 1 where none is found.
    """
    decided = trials // 2
    alpha = (1 - confidence) / (2 * _SUSPECTS)
    hits = np.unique(np.geomspace(1, decided, 400).astype(int))
    low, _ = statistics.clopper_pearson(hits, decided, alpha)
    _, high = statistics.clopper_pearson(0, decided, alpha)
    shown = hits[low > math.exp(min(claim, 700.0)) * high]
    pairs, each = round_sizes(trials, claim)[0]
    chosen = math.log(pairs * each) / math.log1p(math.exp(-claim))
    mass = float(shown[0]) / decided if len(shown) else 1.0
    return mass, min(1.0, max(mass, chosen / each)), pairs


# --- Reports of pairs -----------------------------------------------------------------------------


def _whose(domain: Any, count: int) -> tuple[np.ndarray, ...]:
    """Owners of lists that are nobody's in particular; () where records have none."""
    return (np.full(count, domain.own, np.int32),) if domain.users else ()


def _one(record: Values) -> Values:
    """A record as one that is stacked."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[None], record)


def _reports(mechanism: Any, key: PRNGKey, pairs: _Pairs, each: int) -> tuple[Report, Report]:
    """``each`` reports of either record of every pair, stacked pair after pair."""
    many = take(pairs, np.repeat(np.arange(len(pairs.differing)), each))
    words = [jax.random.key_data(random.split(k, len(many.differing))) for k in random.split(key)]
    return (
        report_each(words[0], mechanism, many.x, *many.owners),
        report_each(words[1], mechanism, many.other, *many.owners),
    )


# --- Events ---------------------------------------------------------------------------------------


class Found(NamedTuple):
    """The most suspicious event of each view [views] and pair; arrays [views, pairs]."""

    names: list[str]
    score: np.ndarray
    low: np.ndarray
    high: np.ndarray
    forward: np.ndarray

    def events(self, most: int) -> list[Event]:
        """The most suspicious ones, at most one of each view and pair."""
        order = np.argsort(-self.score, axis=None, kind="stable")[:most]
        found = []
        for view, pair in zip(*np.unravel_index(order, self.score.shape), strict=True):
            numbers = (float(array[view, pair]) for array in (self.score, self.low, self.high))
            score, low, high = numbers
            forward = bool(self.forward[view, pair])
            found.append(Event(score, int(pair), self.names[view], low, high, forward))
        return found


def _viewer_of(mechanism: Any, reports: Report) -> Viewer:
    """By some reports of any records; which numbers are looked at does not depend on a key."""
    rng = np.random.default_rng(0)  # no privacy depends on it
    return Viewer.of(mechanism.codomain(), reports, rng)


def _views(mechanism: Any, viewer: Viewer, pairs: _Pairs, reports: Report) -> Views:
    """The views of stacked reports, as many of each pair, and the declared loss."""
    each = count_of(reports) // len(pairs.differing)
    found = viewer.views(reports, np.repeat(pairs.differing, each))
    claim = float(mechanism.guarantee().epsilon)
    if not isinstance(mechanism, HasDensity):
        return found
    sides = pairs.x, pairs.other
    logs = [logs_each(mechanism, reports, x, *pairs.owners) for x in sides]
    loss = np.nan_to_num(lost(*np.asarray(logs, np.float64)))
    step = RESOLUTION * max(1.0, claim)
    values = np.concatenate([found.values, rounded(loss, step)[None]])
    return found._replace(names=[*found.names, "declared loss"], values=values)


def most_suspicious(views: Sequence[Views], pairs: int, ranks: Sequence[Rank]) -> list[Found]:
    """The most suspicious event of each view, about each of so many pairs, by each of ``ranks``."""
    mine, others = views
    each = mine.values.shape[1] // pairs
    rows: list[list[Best]] = [[] for _ in ranks]
    for one, other in zip(mine.values, others.values, strict=True):
        ordered = Ordered.of(one.reshape(pairs, each), other.reshape(pairs, each))
        for row, rank in zip(rows, ranks, strict=True):
            row.append(windows(ordered, rank))
    for name, one, other in zip(mine.bit_names, mine.bits, others.bits, strict=True):
        ones, other_ones = (side.reshape(pairs, each).sum(1) for side in (one, other))
        for row, rank in zip(rows, ranks, strict=True):
            row.append(_of_bit(ones, other_ones, each, partial(rank, allowed=allowed_in(name))))
    names = mine.names + mine.bit_names
    return [Found(names, *map(np.stack, zip(*row, strict=True))) for row in rows]


def allowed_in(view: str) -> float:
    """The loss in a view that float32 rounding may cause."""
    return ROUNDING if view.startswith("last bit") else 0.0


def count(event: Event, views: Views) -> int:
    """How many reports are in an event."""
    if event.view in views.names:
        value = views.values[views.names.index(event.view)]
        return int(((value >= event.low) & (value < event.high)).sum())
    return int((views.bits[views.bit_names.index(event.view)] == bool(event.low)).sum())


Best = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Scores, lower and upper ends and directions [pairs] of the most suspicious event of each pair."""


class Ordered(NamedTuple):
    """The numbers of a view of both records' reports about each pair, in rising order.

    Attributes:
      value: the numbers [pairs, n], and infinity.
      start: the place of the first of the numbers that equal each [pairs, n + 1].
      ours: how many reports of the first record come before each [pairs, n + 1].
    """

    value: np.ndarray
    start: np.ndarray
    ours: np.ndarray

    @classmethod
    def of(cls, mine: np.ndarray, others: np.ndarray) -> "Ordered":
        """From the numbers of either record's reports [pairs, each]."""
        pairs, each = mine.shape
        both = np.concatenate([mine, others], 1)
        order = np.argsort(both, axis=1)
        value = np.pad(np.take_along_axis(both, order, 1), ((0, 0), (0, 1)), constant_values=np.inf)
        ours = np.pad(np.cumsum(order < each, 1), ((0, 0), (1, 0)))
        new = np.ones(value.shape, bool)
        new[:, 1:] = value[:, 1:] != value[:, :-1]
        start = np.maximum.accumulate(np.where(new, np.arange(2 * each + 1), 0), 1)
        return cls(value, start, ours)


def windows(view: Ordered, rank: Rank) -> Best:
    """The most suspicious of windows of all dyadic numbers of reports, and of thresholds."""
    start = view.start
    last = start.shape[1] - 1
    thresholds = start[:, :: max(1, last // _TAILS)]
    found = [
        *_spans(view, np.zeros_like(thresholds), thresholds, rank),
        *_spans(view, thresholds, np.full_like(thresholds, last), rank),
    ]
    for width in 2 ** np.arange(int(math.log2(last))):
        ends = start[:, width::width]
        found += _spans(view, start[:, :-width:width][:, : ends.shape[1]], ends, rank)
    return _most(found)


def _spans(view: Ordered, begin: np.ndarray, end: np.ndarray, rank: Rank) -> list[Best]:
    """The most suspicious window from ``begin`` to ``end`` [pairs, windows], for either record."""
    row = np.arange(len(begin))
    a = np.take_along_axis(view.ours, end, 1) - np.take_along_axis(view.ours, begin, 1)
    b = end - begin - a
    asked = a + b >= _LEAST
    found = []
    for one, other, forward in ((a, b, True), (b, a, False)):
        score = np.full(a.shape, -np.inf)
        score[asked] = rank(one[asked], other[asked])
        at = score.argmax(1)
        first, last = begin[row, at], end[row, at]
        low = np.where(first > 0, view.value[row, first], -np.inf)
        found.append((score[row, at], low, view.value[row, last], np.full(len(row), forward)))
    return found


def _of_bit(mine: np.ndarray, others: np.ndarray, each: int, rank: Rank) -> Best:
    """A bit that is 1, or 0, by how often it is 1 [pairs]."""
    found = []
    for bit, one, other in ((1.0, mine, others), (0.0, each - mine, each - others)):
        bits = np.full(len(mine), bit)
        found.append((rank(one, other), bits, bits, np.full(len(mine), True)))
        found.append((rank(other, one), bits, bits, np.full(len(mine), False)))
    return _most(found)


def _most(found: list[Best]) -> Best:
    """For each pair the event of the largest score."""
    score, low, high, forward = map(np.stack, zip(*found, strict=True))
    best = score.argmax(0)
    row = np.arange(score.shape[1])
    return score[best, row], low[best, row], high[best, row], forward[best, row]


# --- How suspicious -------------------------------------------------------------------------------


def _suspicion(
    hits: np.ndarray, others: np.ndarray, *, claim: float, spare: float, allowed: float = 0.0
) -> np.ndarray:
    """Minus the logarithm of Chernoff's bound of how rarely a true claim gives such counts.

    ``spare`` reports are what delta allows.
    """
    hits = np.maximum(hits - spare, 0.0)
    total = hits + others
    loss = claim + allowed
    shares = np.stack([hits, others]) / np.maximum(total, 1)
    likely = special.entr(shares).sum(0)
    spent = hits * np.log1p(np.exp(-loss)) + others * np.log1p(np.exp(min(loss, 700.0)))
    tail = spent - total * likely
    return np.where(hits > others * np.exp(min(loss, 700.0)), tail, 0.0)


def _likely_bound(
    hits: np.ndarray, others: np.ndarray, *, n: int, z: float, delta: float, allowed: float = 0.0
) -> np.ndarray:
    """Wilson's bounds of both probabilities, which are near those of Clopper and Pearson."""
    low, _ = _wilson(np.asarray(hits, np.float64), n, z)
    _, high = _wilson(np.asarray(others, np.float64), n, z)
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(low - delta, 0.0) / high) - allowed


def _wilson(hits: np.ndarray, n: int, z: float) -> tuple[np.ndarray, np.ndarray]:
    share = hits / n
    middle = share + z**2 / (2 * n)
    width = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return (middle - width) / (1 + z**2 / n), (middle + width) / (1 + z**2 / n)


def _bounded(event: Event, views: Sequence[Views], alpha: float, delta: float) -> LowerBound:
    """What an event shows by reports of both records that chose nothing."""
    hits, others = (count(event, side) for side in (views if event.forward else views[::-1]))
    n = views[0].values.shape[1]
    value = _bound(hits, others, n, alpha, delta) - allowed_in(event.view)
    limit = float(_bound(n, 0, n, alpha, delta))
    return LowerBound(max(0.0, float(value)), limit, str(event), hits / n, others / n, n)


def _bound(hits: int, others: int, n: int, alpha: float, delta: float) -> float:
    low, _ = statistics.clopper_pearson(hits, n, alpha)
    _, high = statistics.clopper_pearson(others, n, alpha)
    return float(np.log((low - delta) / high)) if low > delta else -math.inf
