"""The evidence of draws alone: lower bounds on epsilon, from games that tell two records apart.

Many adjacent pairs of records are looked at in many views of a report. Rounds of draws choose
suspects, events that come more often under one record than epsilon allows; draws that have chosen
nothing bound their probabilities.
"""

import dataclasses
import itertools
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
from ldp_jax.core.spaces import ByCoordinate, Reports
from ldp_jax.core.types import PRNGKey, Report, Values
from ldp_jax.edges.lists import NeighbourList
from ldp_jax.verification import statistics
from ldp_jax.verification._programs import (
    is_float,
    logs_each,
    lost,
    pairs_of,
    raw,
    repeated,
    report_each,
    take,
)
from ldp_jax.verification.statistics import SIGNIFICANCE

RESOLUTION = 1e-4
"""Numbers of a continuum are rounded to this share of their usual size: a float32 sampler's last
bits tell the record.
"""

LAST = 8
"""The last bits of a float32 number, of which small differences of numbers are zeros."""

ROUNDING = 1.0
"""The loss in one of the last bits, in nats, that float32 rounding may cause."""

_COLUMNS = 32  # numbers of a report that are looked at
_PAIRED = 4  # numbers of which all pairs are
_WITH_BITS = 8  # numbers whose bits are
_NAN = float(np.finfo(np.float64).max)
_INFINITE = _NAN / 2
_EXACT_STEPS = 2.0**53  # float64 holds every whole number below
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
        nothing was shown. The share that float32 may cause in a report's last bits is taken off.
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
    they are. If the view is a bit, ``low`` is the bit.
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

        def numbers(side: Values) -> np.ndarray:
            return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves_of(side)], 1)

        away = np.abs(numbers(x).astype(np.float64) - numbers(other))
        return cls(owners, x, other, away.argmax(1))


# --- Views ----------------------------------------------------------------------------------------


class Views(NamedTuple):
    """Numbers and bits of stacked reports [n] by which two records may be told apart, by name.

    Numbers are float64, without NaN.
    """

    numbers: dict[str, np.ndarray]
    bits: dict[str, np.ndarray]

    @property
    def n(self) -> int:
        """How many reports there are."""
        return len(next(iter(self.numbers.values())))


@dataclasses.dataclass(frozen=True)
class Viewer:
    """Which numbers of a report are looked at: at most 32, chosen at random once.

    ``scales`` [chosen, 2] have a step to which each is rounded and what lies in the middle of the
    usual ones; ``whole`` [arrays, 2] have those of all numbers of an array of the report.
    """

    codomain: Any
    chosen: np.ndarray
    scales: np.ndarray
    whole: np.ndarray
    with_bits: bool

    @classmethod
    def of(cls, codomain: Reports, y: Report) -> "Viewer":
        """A viewer of such reports, by stacked ones of any records; it depends on no key."""
        rng = np.random.default_rng(0)  # no privacy depends on it
        numbers, floats = _numbers(codomain, y)
        chosen = np.sort(rng.permutation(numbers.shape[1])[:_COLUMNS])
        reals = codomain.continuous
        scales = [_scale(numbers[:, column], reals and bool(floats[column])) for column in chosen]
        whole = [_scale(part, reals) for part in _parts(codomain, y)]
        return cls(codomain, chosen, np.array(scales), np.array(whole), with_bits=reals)

    def views(self, y: Report, differing: np.ndarray | None = None) -> Views:
        """The views of stacked reports; ``differing`` [n] is where the two records are not alike.

        The number at that place is a view, if reports have as many numbers as records.
        """
        numbers, _ = _numbers(self.codomain, y)
        found = {}
        columns = []
        for column, (step, middle) in zip(self.chosen, self.scales, strict=True):
            number = rounded(numbers[:, column], step)
            columns.append(number)
            found[f"number {column}"] = number
            if len(columns) <= _PAIRED:
                found[f"|number {column} - {middle:.4g}|"] = np.abs(number - middle)
        if len(columns) > 1:
            found |= _of_all(np.stack(columns, 1))

        bits = {}
        paired = list(zip(self.chosen, columns, strict=True))[:_PAIRED]
        for (i, one), (j, other) in itertools.combinations(paired, 2):
            with np.errstate(invalid="ignore", over="ignore"):
                found[f"difference of {i} and {j}"] = one - other
                found[f"product of {i} and {j}"] = one * other
            bits[f"{i} equals {j}"] = one == other

        if differing is not None:
            found |= self._where_they_differ(y, columns[0], differing)
        if self.with_bits:
            bits |= _bits(y)

        # The infinities are far out, and NaN beyond them.
        ordered = partial(np.nan_to_num, nan=_NAN, posinf=_INFINITE, neginf=-_INFINITE)
        return Views({name: ordered(column) for name, column in found.items()}, bits)

    def _where_they_differ(
        self, y: Report, first: np.ndarray, differing: np.ndarray
    ) -> dict[str, np.ndarray]:
        found = {}
        for part, (step, middle) in zip(_parts(self.codomain, y), self.whole, strict=True):
            if part.shape[1] <= max(1, differing.max()):
                continue
            one = rounded(part[np.arange(len(part)), differing], step)
            high = one > middle
            found["the number that differs"] = one
            found["the first number if that is high"] = np.where(high, first, -_INFINITE)
            found["the first number if that is low"] = np.where(high, -_INFINITE, first)
        return found


def leaves_of(y: Report) -> list[np.ndarray]:
    """The leaves of stacked reports, [n, ...]; a neighbour list is one, as bits int8 [n, nodes]."""
    found = []
    for part in jax.tree.leaves(y, is_leaf=lambda part: isinstance(part, NeighbourList)):
        if not isinstance(part, NeighbourList):
            found.append(np.asarray(part))
            continue
        ids = np.asarray(part.ids)
        nodes = ids.shape[1]
        # A column for numbers that are no nodes is left out.
        bits = np.zeros((len(ids), nodes + 1), np.int8)
        np.put_along_axis(bits, np.clip(ids, 0, nodes), 1, 1)
        found.append(bits[:, :nodes])
    return found


def _parts(codomain: Any, y: Report) -> list[np.ndarray]:
    """The arrays of a report, float64 [n, width]; of sampled coordinates NaN where not sent."""
    found = [leaf.reshape(len(leaf), -1).astype(np.float64) for leaf in leaves_of(y)]
    if isinstance(codomain, ByCoordinate) and codomain.sent < codomain.dim:
        indices, values = codomain.entries(y)
        for leaf in jax.tree.leaves(values):
            dense = np.full((len(indices), codomain.dim), np.nan)
            np.put_along_axis(dense, np.asarray(indices), np.asarray(leaf, np.float64), 1)
            found.append(dense)
    return found


def _numbers(codomain: Any, y: Report) -> tuple[np.ndarray, np.ndarray]:
    """All numbers of stacked reports, float64 [n, c], and which of them are of a floating type."""
    parts = _parts(codomain, y)
    floats = [is_float(leaf) for leaf in leaves_of(y)]
    floats += [True] * (len(parts) - len(floats))
    each = [np.full(part.shape[1], kind) for part, kind in zip(parts, floats, strict=True)]
    return np.concatenate(parts, 1), np.concatenate(each)


def _scale(numbers: np.ndarray, reals: bool) -> tuple[float, float]:
    """The step to which numbers are rounded, 0 for whole ones, and a number in their middle."""
    usual = numbers[np.isfinite(numbers)]
    if not len(usual):
        return 0.0, 0.0
    middle = float(np.median(np.unique(usual)))
    if not reals:
        return 0.0, middle
    size = float(np.quantile(np.abs(usual), 0.9))
    return RESOLUTION * size, middle


def rounded(column: np.ndarray, step: float) -> np.ndarray:
    """Numbers to a step; as they are where it is 0."""
    if step <= 0:
        return column
    with np.errstate(over="ignore"):  # a number so far out has no digits below a step
        steps = np.round(column / step)
        return np.where(np.abs(steps) < _EXACT_STEPS, steps * step, column)


def _of_all(numbers: np.ndarray) -> dict[str, np.ndarray]:
    """Statistics of the numbers of each report."""
    there = np.isfinite(numbers)
    known = np.where(there, numbers, 0.0)
    return {
        "sum": known.sum(1),
        "size": np.sqrt((known**2).sum(1)),
        "largest": np.where(there, numbers, -_INFINITE).max(1),
        "smallest": np.where(there, numbers, _INFINITE).min(1),
        "zeros": (known == 0).sum(1).astype(np.float64),
        "sign of the product": np.sign(known).prod(1),
    }


def _bits(y: Report) -> dict[str, np.ndarray]:
    """The bits of the first floating numbers of stacked reports, and their parities with the next.

    The last bits of float32 numbers are named so.
    """
    floats = [leaf for leaf in leaves_of(y) if is_float(leaf)]
    columns = [column for leaf in floats for column in raw(leaf).reshape(len(leaf), -1).T]
    found = {}
    for number, column in enumerate(columns[:_WITH_BITS]):
        kind = column.dtype
        width = 23 if kind.itemsize == 4 else 8 * kind.itemsize - 6
        bits = [(column >> kind.type(place)) & 1 == 1 for place in range(width)]
        for place, bit in enumerate(bits):
            last = "last " if place < LAST else ""
            found[f"{last}bit {place} of {number}"] = bit
            if place + 1 < width:
                parity = bit ^ bits[place + 1]
                found[f"{last}bits {place} and {place + 1} of {number}"] = parity
    return found


# --- Games ----------------------------------------------------------------------------------------


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
    sizes in the views of a report and in the declared loss. The
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

    domain: Any = mechanism.domain()
    first, second = domain.extremes()
    if x is not None:
        first = domain.given(x)
    if x_other is not None:
        second = domain.given(x_other)
    sides = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    differ = any(not np.array_equal(*leaves) for leaves in sides)
    validate.require(differ, "x and x_other must be two records, got one twice")
    owners = (np.full(1, domain.own, np.int32),) if domain.users else ()
    pair = _Pairs.of(owners, repeated(first, 1), repeated(second, 1))

    half = trials // 2
    choose_key, decide_key = random.split(key)
    viewer, chosen = _viewed(mechanism, choose_key, pair, half)
    _, fresh = _viewed(mechanism, decide_key, pair, trials - half, viewer)
    return play(chosen, fresh, confidence, delta=delta)


def play(
    chosen: Sequence[Views],
    fresh: Sequence[Views],
    confidence: float,
    *,
    delta: float = 0.0,
) -> LowerBound:
    """The game about one pair of records: views of their reports choose an event.

    Only views of ``fresh`` reports bound its probabilities.
    """
    alpha = (1 - confidence) / 2
    n = chosen[0].n
    rank = partial(_likely_bound, n=n, z=float(stats.norm.isf(alpha)), delta=delta)
    (events,) = most_suspicious(chosen, 1, [rank])
    found = _bounded(events[0], fresh, alpha, delta)
    return found._replace(trials=n + found.trials)


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
    extremes, and those with the most suspicious window in any view. For these pairs, ``trials`` / 4
    draws of each record choose at most 32 events; ``trials`` / 2 others bound their probabilities,
    each with an equal share of 1 - ``confidence``. Stacked ``records`` of the caller's are asked,
    too. Fewer reports of many numbers are drawn, 2^25 numbers in all.

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
    asked = rounds[0][0]
    pair_key, train_key, *keys = random.split(key, 2 + _FINALISTS)
    pairs = _Pairs.of(*pairs_of(mechanism.domain(), random.generator(pair_key), asked, records))

    viewer = None
    round_keys = random.split(train_key, len(rounds))
    for (_, each), round_key in zip(rounds, round_keys, strict=True):
        viewer, views = _viewed(mechanism, round_key, pairs, each, viewer)
        rank = partial(_suspicion, claim=claim, spare=delta * each)
        scores = np.zeros(len(pairs.differing))
        for event in most_suspicious(views, len(scores), [rank])[0]:
            scores[event.pair] = max(scores[event.pair], event.score)
        scores[0] = np.inf  # the extremes are always kept
        kept = max(_FINALISTS, len(scores) // _FEWER)
        pairs = take(pairs, np.argsort(-scores, kind="stable")[:kept])

    alpha = (1 - confidence) / (2 * _SUSPECTS)
    few = trials // 4
    ranks = [
        partial(_suspicion, claim=claim, spare=delta * few),
        partial(_likely_bound, n=few, z=_DEVIATIONS, delta=delta),
    ]
    bounds = []
    for place in range(_FINALISTS):
        pair = take(pairs, slice(place, place + 1))
        choose_key, decide_key = random.split(keys[place])
        _, chosen = _viewed(mechanism, choose_key, pair, few, viewer)
        _, fresh = _viewed(mechanism, decide_key, pair, trials // 2, viewer)
        for events in most_suspicious(chosen, 1, ranks):
            suspects = events[: _SUSPECTS // (2 * _FINALISTS)]
            bounds += [_bounded(event, fresh, alpha, delta) for event in suspects]
    largest = max(bounds, key=lambda bound: bound.epsilon)
    return largest._replace(trials=trials, pairs=asked)


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
    mass = float(shown[0]) / decided if len(shown) else 1.0

    pairs, each = round_sizes(trials, claim)[0]
    chosen = math.log(pairs * each) / math.log1p(math.exp(-claim))
    mass_of_one_pair = min(1.0, max(mass, chosen / each))
    return mass, mass_of_one_pair, pairs


# --- Reports of pairs -----------------------------------------------------------------------------


def _reports(mechanism: Any, key: PRNGKey, pairs: _Pairs, each: int) -> tuple[Report, Report]:
    """``each`` reports of either record of every pair, stacked pair after pair."""
    many = take(pairs, np.repeat(np.arange(len(pairs.differing)), each))
    words, other_words = (
        jax.random.key_data(random.split(record_key, len(many.differing)))
        for record_key in random.split(key)
    )
    reports = report_each(words, mechanism, many.x, *many.owners)
    other_reports = report_each(other_words, mechanism, many.other, *many.owners)
    return reports, other_reports


# --- Events ---------------------------------------------------------------------------------------


def _viewed(
    mechanism: Any, key: PRNGKey, pairs: _Pairs, each: int, viewer: Viewer | None = None
) -> tuple[Viewer, list[Views]]:
    """The views of ``each`` reports of either record of every pair, and the declared loss.

    The viewer of the first reports looks at all.
    """
    reports = _reports(mechanism, key, pairs, each)
    viewer = viewer or Viewer.of(mechanism.codomain(), reports[0])
    step = RESOLUTION * max(1.0, float(mechanism.guarantee().epsilon))
    found = []
    for side in reports:
        views = viewer.views(side, np.repeat(pairs.differing, each))
        if isinstance(mechanism, HasDensity):
            logs = [logs_each(mechanism, side, x, *pairs.owners) for x in (pairs.x, pairs.other)]
            loss = np.nan_to_num(lost(*np.asarray(logs, np.float64)))
            views.numbers["declared loss"] = rounded(loss, step)
        found.append(views)
    return viewer, found


def most_suspicious(views: Sequence[Views], pairs: int, ranks: Sequence[Rank]) -> list[list[Event]]:
    """The most suspicious event of each view about each of so many pairs, by each of ``ranks``.

    The events of a rank begin with those of the largest score.
    """
    mine, others = views
    each = mine.n // pairs
    found: list[list[Event]] = [[] for _ in ranks]

    def add(view: str, best: Callable[[Rank], Best]) -> None:
        for events, rank in zip(found, ranks, strict=True):
            for pair, (score, low, high, forward) in enumerate(zip(*best(rank), strict=True)):
                window = float(low), float(high)
                events.append(Event(float(score), pair, view, *window, bool(forward)))

    for name, numbers in mine.numbers.items():
        other_numbers = others.numbers[name].reshape(pairs, each)
        ordered = Ordered.of(numbers.reshape(pairs, each), other_numbers)
        add(name, partial(windows, ordered))
    for name, bits in mine.bits.items():
        ones = bits.reshape(pairs, each).sum(1)
        other_ones = others.bits[name].reshape(pairs, each).sum(1)
        add(name, partial(_of_bit, ones, other_ones, each, allowed_in(name)))
    return [sorted(events, key=lambda event: -event.score) for events in found]


def allowed_in(view: str) -> float:
    """The loss in a view that float32 rounding may cause."""
    return ROUNDING if view.startswith("last bit") else 0.0


def count(event: Event, views: Views) -> int:
    """How many reports are in an event."""
    if event.view in views.bits:
        inside = views.bits[event.view] == bool(event.low)
    else:
        value = views.numbers[event.view]
        inside = (value >= event.low) & (value < event.high)
    return int(inside.sum())


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
        each = mine.shape[1]
        both = np.concatenate([mine, others], 1)
        order = np.argsort(both, axis=1)
        value = np.take_along_axis(both, order, 1)
        value = np.pad(value, ((0, 0), (0, 1)), constant_values=np.inf)
        ours = np.pad(np.cumsum(order < each, 1), ((0, 0), (1, 0)))

        new = np.ones(value.shape, bool)
        new[:, 1:] = value[:, 1:] != value[:, :-1]
        start = np.where(new, np.arange(2 * each + 1), 0)
        return cls(value, np.maximum.accumulate(start, 1), ours)


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
        begins = start[:, :-width:width][:, : ends.shape[1]]
        found += _spans(view, begins, ends, rank)
    return _most(found)


def _spans(view: Ordered, begin: np.ndarray, end: np.ndarray, rank: Rank) -> list[Best]:
    """The most suspicious window from ``begin`` to ``end`` [pairs, windows], for either record."""
    row = np.arange(len(begin))
    ours_until = partial(np.take_along_axis, view.ours, axis=1)
    mine = ours_until(end) - ours_until(begin)
    others = end - begin - mine
    asked = mine + others >= _LEAST
    found = []
    for one, other, forward in ((mine, others, True), (others, mine, False)):
        score = np.full(mine.shape, -np.inf)
        score[asked] = rank(one[asked], other[asked])
        best = row, score.argmax(1)
        first = begin[best]
        low = np.where(first > 0, view.value[row, first], -np.inf)
        high = view.value[row, end[best]]
        found.append((score[best], low, high, np.full(len(row), forward)))
    return found


def _of_bit(mine: np.ndarray, others: np.ndarray, each: int, allowed: float, rank: Rank) -> Best:
    """A bit that is 1, or 0, by how often it is 1 [pairs]."""
    found = []
    for bit, one, other in ((1.0, mine, others), (0.0, each - mine, each - others)):
        bits = np.full(len(mine), bit)
        for hits, misses, forward in ((one, other, True), (other, one, False)):
            score = rank(hits, misses, allowed=allowed)
            found.append((score, bits, bits, np.full(len(mine), forward)))
    return _most(found)


def _most(found: list[Best]) -> Best:
    """For each pair the event of the largest score."""
    score, low, high, forward = map(np.stack, zip(*found, strict=True))
    best = score.argmax(0), np.arange(score.shape[1])
    return score[best], low[best], high[best], forward[best]


# --- How suspicious -------------------------------------------------------------------------------


def _suspicion(
    hits: np.ndarray, others: np.ndarray, *, claim: float, spare: float, allowed: float = 0.0
) -> np.ndarray:
    """Minus the logarithm of Chernoff's bound of how rarely a true claim gives such counts.

    ``spare`` reports are what delta allows.
    """
    hits = np.maximum(hits - spare, 0.0)
    total = hits + others
    shares = np.stack([hits, others]) / np.maximum(total, 1)
    likely = special.entr(shares).sum(0)
    loss = claim + allowed
    odds = np.exp(min(loss, 700.0))
    spent = hits * np.log1p(np.exp(-loss)) + others * np.log1p(odds)
    tail = spent - total * likely
    return np.where(hits > others * odds, tail, 0.0)


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
    variance = share * (1 - share) / n + z**2 / (4 * n**2)
    width = z * np.sqrt(variance)
    shrinkage = 1 + z**2 / n
    return (middle - width) / shrinkage, (middle + width) / shrinkage


def _bounded(event: Event, views: Sequence[Views], alpha: float, delta: float) -> LowerBound:
    """The bound that an event shows by reports of both records that chose nothing."""
    mine, theirs = views if event.forward else views[::-1]
    hits = count(event, mine)
    others = count(event, theirs)
    n = views[0].n
    value = _bound(hits, others, n, alpha, delta) - allowed_in(event.view)
    limit = _bound(n, 0, n, alpha, delta)
    asked = len(views[0].numbers) + len(views[0].bits)
    shares = hits / n, others / n
    return LowerBound(max(0.0, value), limit, str(event), *shares, n, views=asked)


def _bound(hits: int, others: int, n: int, alpha: float, delta: float) -> float:
    low, _ = statistics.clopper_pearson(hits, n, alpha)
    _, high = statistics.clopper_pearson(others, n, alpha)
    if low <= delta:
        return -math.inf
    return float(np.log((low - delta) / high))
