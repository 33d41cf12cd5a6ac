"""The probabilities that a sampler really gives, in whole numbers.

By bisection of the words that it draws.
"""

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import integer_tables, random, validate
from ldp_jax.core.flags import standard_flags
from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.mechanism import HasCoordinates, Randomizer
from ldp_jax.core.spaces import NotApplicable, Reports, SparseReport
from ldp_jax.core.types import Array, PRNGKey, Record, Report
from ldp_jax.verification._programs import (
    Exact,
    draws_of,
    log_grid,
    records_of,
    repeated,
    report_words,
    take,
)
from ldp_jax.verification.exact import (
    HasInverse,
    HasTable,
    HasWordRuns,
    HasWords,
    adjacency,
    check_numbers,
    coordinate_laws,
    spaces,
)
from ldp_jax.verification.statistics import Fit

ROUNDING = 1e-5
"""The loss that float32 arithmetic of a probability may add, in nats. A side that is lost costs far
more.
"""

_RANDOM = 1 << 14  # words that check that nothing lies between two thresholds
_CELLS = 4096
_LAWS = 8  # of a vector's coordinates, whose tables are asked by words
_TRIALS = 1 << 20
_WORDS = 2  # of a number that a sampler draws

_Masses = dict[int, Fraction]  # the mass of each outcome under one record


class ArithmeticLoss(NamedTuple):
    r"""The loss of a sampler's arithmetic.

    Attributes:
      epsilon: the largest log ratio of drawn probabilities, rounded up; ``inf`` where a side is
        lost.
      x: the record of the larger probability; ``x_other`` that of the smaller one.
      y: the report, as a place in the codomain.
      off: the largest \|log\| of a drawn probability over the claimed one.
    """

    epsilon: float
    x: Record | None = None
    x_other: Record | None = None
    y: int | None = None
    off: float = 0.0

    def keeps(self, epsilon: float) -> bool:
        """Whether the drawn probabilities keep a claim, up to :data:`ROUNDING`."""
        return self.epsilon <= epsilon + ROUNDING


@standard_flags()
def arithmetic(mechanism: Exact | HasCoordinates) -> ArithmeticLoss:
    """The privacy loss of the probabilities that ``privatize`` draws, in whole random words.

    A finite report is a step function of its words. Steps are found by bisection from probes at
    both ends, at powers of two, on a grid and at the claimed masses; 16 384 random words look for
    others. Pairs (branch, value) are asked for their finite parts, vectors for the laws of their
    coordinates. The words of a table must give both ends of the domain their very masses, also
    within a vector; runs of words are asked at both ends
    (:class:`~ldp_jax.verification.HasWordRuns`). ``NotApplicable`` for vectors drawn
    together, reports of a continuum, no step function of the words, or a sampler that does not
    follow its table.

    >>> from ldp_jax.features import Duchi
    >>> found = arithmetic(Duchi(1.0))
    >>> round(found.epsilon, 4), found.keeps(1.0)
    (1.0, True)
    """
    if isinstance(mechanism, HasCoordinates):
        return _of_coordinates(mechanism)
    if isinstance(mechanism, HasTable):
        return _of_table(mechanism, mechanism)
    if isinstance(mechanism, HasWordRuns):
        return _of_runs(mechanism)
    if all(part.atoms is None for part in spaces(mechanism)[1].branches):
        raise NotApplicable(
            f"the reports of {type(mechanism).__name__} are not finitely many numbers: "
            "ask float_audit"
        )
    check_numbers(mechanism)
    domain = mechanism.domain()
    records = np.asarray(domain.critical_records()).astype(np.float32)
    claimed = _claimed(mechanism, records)
    found = _Steps(mechanism, records, claimed).masses()
    logs = []
    for row in claimed:
        possible = np.flatnonzero(row > 0).tolist()
        logs.append({y: math.log(row[y]) for y in possible})
    different = ~np.eye(len(records), dtype=bool)
    pairs = np.argwhere(adjacency(domain, records) & different)
    return _compared(found, logs, records.tolist(), pairs.tolist())


def _claimed(mechanism: Exact, records: np.ndarray) -> np.ndarray:
    """Masses of the density [records, outcomes]; NaN of a continuum."""
    codomain = mechanism.codomain()
    columns = []
    with float64_on_cpu():
        for branch, part in enumerate(codomain.branches):
            if part.atoms is None:
                columns.append(np.full((len(records), 1), np.nan))
                continue
            y = values = np.asarray(part.atoms, np.float64)
            if codomain.branches != (codomain,):
                y = np.full(len(values), branch), values
            columns.append(np.exp(log_grid(mechanism, y, records.astype(np.float64))))
    return np.concatenate(columns, 1)


def _compared(
    laws: list[_Masses],
    logs: list[dict[int, float]],
    records: Sequence[Record],
    pairs: Sequence[Sequence[int]],
) -> ArithmeticLoss:
    """The largest ratio of masses over pairs of records, and the distance to claimed logarithms."""
    ratios = []
    for y, (high, low) in itertools.product(sorted(set().union(*laws)), pairs):
        mass = laws[high].get(y)
        other = laws[low].get(y)
        ratio = Fraction(0)
        if mass:  # infinite where the other record cannot give a report
            ratio = mass / other if other else math.inf
        ratios.append((ratio, high, low, y))
    ratio, high, low, y = max(ratios, key=operator.itemgetter(0))

    off = 0.0
    for law, claimed in zip(laws, logs, strict=True):
        for place, log in claimed.items():
            mass = law.get(place)
            off = max(off, abs(math.log(mass) - log) if mass else math.inf)
    loss = integer_tables.log_up(ratio) if isinstance(ratio, Fraction) else math.inf
    return ArithmeticLoss(loss, records[high], records[low], y, off)


def _of_table(m: Any, sampler: Any) -> ArithmeticLoss:
    """The table's loss, where a sampler gives both ends the reports that the table has.

    All words that it draws are alike: those on either side of each step, and random ones.
    """
    table = m.table()
    ends = np.array(m.domain().extremes(), np.float32)
    draws = draws_of(sampler, ends[0])
    steps = np.cumsum(table.masses, 1, dtype=np.uint64)
    beside = np.unique(np.append(steps - np.uint64(1), steps))
    rng = np.random.default_rng(0)  # no privacy depends on it
    anywhere = rng.integers(0, 2**32, _RANDOM)
    some = np.append(beside[beside < 2**32], anywhere).astype(np.uint32)

    words = np.tile(some, len(ends))
    x = np.repeat(ends, len(some))
    alike = [np.broadcast_to(words, (*draw.shape, len(words))).T for draw in draws]
    sent = _outcomes(sampler)(report_words(sampler, x, alike))
    known = table.report(x, words, words)
    if any(draw.bits != 32 for draw in draws) or (sent != known).any():
        raise NotApplicable(
            f"{type(sampler).__name__} draws other probabilities than its table has"
        )
    return ArithmeticLoss(table.epsilon)


class _Sent(NamedTuple):
    """One number that a vector's mechanism sends, of a record whose coordinates are all alike."""

    mechanism: Any
    law: Any
    place: int

    def privatize(self, key: PRNGKey, x: Record) -> Report:
        """The number in this place."""
        record = jnp.full(self.mechanism.domain().dim, x)
        y = self.mechanism.privatize(key, record)
        numbers = y.values if isinstance(y, SparseReport) else y
        return numbers[self.place]

    def codomain(self) -> Reports:
        """That of the law."""
        return self.law.codomain()


def _of_coordinates(mechanism: HasCoordinates) -> ArithmeticLoss:
    """Coordinates that are sent and lose most, added up."""
    laws = coordinate_laws(mechanism)
    sent = mechanism.codomain().sent
    if len(laws) > 1 and sent < mechanism.codomain().dim:
        raise NotApplicable("coordinates that are sampled must have one law")
    asked = np.linspace(0, len(laws) - 1, min(len(laws), _LAWS)).astype(int)
    every = []
    for number, (law, at) in enumerate(laws):
        if not isinstance(law, HasTable):
            found = arithmetic(law)
        elif number in asked:
            found = _of_table(law, _Sent(mechanism, law, at[0]))
        else:
            found = ArithmeticLoss(law.table().epsilon)
        every += [found] * len(at)
    most = lambda losses: math.fsum(sorted(losses, reverse=True)[:sent])
    epsilon = most(found.epsilon for found in every)
    return ArithmeticLoss(epsilon, off=most(found.off for found in every))


def _of_runs(m: HasWordRuns) -> ArithmeticLoss:
    """Masses of each report of one number, from both ends of every run of words."""
    runs = m.word_runs()
    records = list(dict.fromkeys(itertools.chain(*runs.pairs)))
    laws: list[_Masses] = [{} for _ in records]
    logs = []
    for record, law in zip(records, laws, strict=True):
        first = np.asarray(_report(m, runs.first, record))
        last = np.asarray(_report(m, runs.last, record))
        if (first != last).any():
            raise ValueError("from_words changes between two thresholds: its words are no table")
        for y, share in zip(first.tolist(), runs.share, strict=True):
            law[y] = law.get(y, Fraction(0)) + share
        values = _log_likelihood(m, np.array(list(law), np.float32), record)
        logs.append(dict(zip(law, values.tolist(), strict=True)))

    pairs = []
    for one, other in runs.pairs:
        x, x_other = records.index(one), records.index(other)
        pairs += [(x, x_other), (x_other, x)]
    return _compared(laws, logs, records, pairs)


def check_runs(m: Any) -> None:
    """``NotApplicable`` where ``privatize`` sends other numbers than ``from_words`` does."""
    runs = m.word_runs()
    x = take(m.domain().grid(1), 0)
    draw, *more = draws_of(m, x)
    if more or draw.shape[:1] != runs.first.shape[:1]:
        raise NotApplicable("privatize must draw the words of its runs, and no others")
    sent = []
    for words in (runs.first, runs.last):
        count = words.shape[1]
        alike = np.broadcast_to(words.T[..., None], (count, *draw.shape))
        sent.append(m.codomain().numbers(report_words(m, repeated(x, count), [alike])))
    for record in set(itertools.chain(*runs.pairs)):
        wanted = [_report(m, words, record) for words in (runs.first, runs.last)]
        if (np.stack(sent) == np.stack(wanted)[..., None]).all():
            return
    raise NotApplicable("privatize sends other numbers than from_words makes of its words")


@jax.jit
def _report(m: HasWordRuns, words: Array, record: Record) -> Array:
    return m.from_words(words, record)


@jax.jit
def _log_likelihood(m: HasWordRuns, y: Array, record: Record) -> Array:
    return m.log_likelihood(y, record)


# --- Tables, word by word -------------------------------------------------------------------------


@standard_flags()
def follows_table(mechanism: Any, key: PRNGKey, *, trials: int = _TRIALS) -> Fit:
    """Whether each report is the one that a mechanism's table has for the words that were drawn.

    Devices look it up by :meth:`~ldp_jax.core.integer_tables.Table.report`.

    >>> from ldp_jax.features import GridSquareWave
    >>> follows_table(
    ...     GridSquareWave(1.0, 17), jax.random.key(0), trials=10_000
    ... ).fits
    True
    """
    validate.integer_in(1000, trials=trials)
    record_key, word_key = random.split(key)
    x = records_of(spaces(mechanism)[0], random.generator(record_key), trials, again=True)
    requests = draws_of(mechanism, x[0])
    if len(requests) != 1 or math.prod(requests[0].shape) > 2:
        raise ValueError("a table takes one word a report, and one to round to a grid")
    rng = random.generator(word_key)
    shape = (trials, *requests[0].shape)
    words = rng.integers(0, 1 << 32, shape, np.uint64).astype(np.uint32)
    sent = report_words(mechanism, x, [words])
    flat = words.reshape(trials, -1)
    known = mechanism.table().report(x, flat[:, 0], flat[:, -1])
    wrong = int((sent != known).sum())
    return Fit(wrong == 0, "reports unlike the table's", float(wrong), 0.0, 13.8 / trials, trials)


# --- What float32 gives away ----------------------------------------------------------------------


class FloatAudit(NamedTuple):
    """The leak of a sampler's float32 arithmetic about two records.

    Attributes:
      impossible: the mass, under the first record, of reports that the second cannot give.
      impossible_other: the mass, under the second, of reports that the first cannot give.
      largest_loss: the largest absolute log ratio of masses of reports that both give; ``nan`` for
        none.
      reports: how many different reports the first record can give.
    """

    impossible: float
    impossible_other: float
    largest_loss: float
    reports: int


@standard_flags()
def float_audit(mechanism: Exact, x: float, x_other: float) -> FloatAudit:
    """Push all 2^23 float32 uniforms through a sampler that draws one of them, for two records.

    Tables are read over all 2^32 words; few reports of a 64-bit word are counted over all 2^64, by
    bisection. ``ValueError`` for a mechanism without ``from_uniform``, ``from_word64`` or
    ``table``, and a stack.

    >>> from ldp_jax.features import GridSquareWave
    >>> float_audit(GridSquareWave(1.0), -1.0, 1.0).impossible
    0.0
    """
    if isinstance(mechanism, HasTable):
        table = mechanism.table()
        return _audit(_row(table, x), _row(table, x_other))
    if not isinstance(mechanism, (HasInverse, HasWords)):
        raise NotApplicable(f"{type(mechanism).__name__} has no from_uniform: it draws otherwise")
    check_numbers(mechanism)
    records = np.array([x, x_other], np.float32)
    if isinstance(mechanism, HasWords):
        claimed = _claimed(mechanism, records)
        return _audit(*_Steps(mechanism, records, claimed).masses())

    total = 2**23
    u = (np.arange(total, dtype=np.float32) + np.float32(0.5)) / np.float32(total)
    (reports, counts), (other_reports, other_counts) = (
        np.unique(np.asarray(_from_uniform(mechanism, u, record)), return_counts=True)
        for record in records
    )
    _, at, at_other = np.intersect1d(
        reports, other_reports, assume_unique=True, return_indices=True
    )
    count, other_count = counts[at], other_counts[at_other]  # of reports that both give
    losses = np.abs(np.log(count) - np.log(other_count))
    return FloatAudit(
        float(1.0 - count.sum() / total),
        float(1.0 - other_count.sum() / total),
        float(losses.max()) if len(losses) else math.nan,
        len(reports),
    )


@jax.jit
def _from_uniform(mechanism: HasInverse, u: Array, x: Record) -> Array:
    return mechanism.from_uniform(u, x)


def _audit(mine: _Masses, others: _Masses) -> FloatAudit:
    both = [(mine[y], others[y]) for y in mine if mine[y] and others.get(y)]
    lost, lost_other = (float(1 - sum(side)) for side in zip(*both, strict=True))
    ratio = max(max(a / b, b / a) for a, b in both)
    reports = sum(mass > 0 for mass in mine.values())
    return FloatAudit(lost, lost_other, integer_tables.log_up(ratio), reports)


def _row(table: integer_tables.Table, x: float) -> _Masses:
    """A record's masses over 2^55: two neighbouring rows, mixed as the rounding mixes them."""
    row, part = map(int, integer_tables.split(np, x, table.inputs, table.encoding))
    whole = 2**23
    above = min(row + 1, table.inputs - 1)
    found = {}
    for y, (a, b) in enumerate(zip(*table.masses[[row, above]], strict=True)):
        mixed = (whole - part) * int(a) + part * int(b)
        found[y] = Fraction(mixed, whole * integer_tables.WORDS)
    return found


# --- Steps of the words ---------------------------------------------------------------------------


class _Steps:
    """Reports, as whole numbers, of some records under words of the verifier's choice."""

    def __init__(self, mechanism: Exact, records: np.ndarray, claimed: np.ndarray) -> None:
        """Trace the sampler once, for all records.

        The masses that are claimed say where steps may be. A draw of many words is several numbers
        of two, as a coin and a value from one key are.
        """
        rows = np.nan_to_num(claimed)
        rows = np.concatenate([rows, rows[:, ::-1]])
        middles = np.cumsum(rows, 1) - rows / 2
        self.likely = set(map(Fraction, middles.ravel().tolist()))
        self.mechanism = mechanism
        self.records = records
        self.outcome = _outcomes(mechanism)
        self.draws = draws_of(mechanism, records[0])
        self.axes = []  # the draw that an axis is of, and its bits
        for place, draw in enumerate(self.draws):
            words = math.prod(draw.shape)
            for first in range(0, words, _WORDS):
                self.axes.append((place, min(_WORDS, words - first) * draw.bits))
        self.bits = [bits for _, bits in self.axes]
        self.tops = np.array([(1 << bits) - 1 for bits in self.bits], np.uint64)
        self.rng = np.random.default_rng(0)  # no privacy depends on it

    def report(self, rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Outcomes [n] of records under random words [n, axes], the most significant first."""
        words = []
        for place, draw in enumerate(self.draws):
            parts = []
            for column, (of, bits) in zip(numbers.T, self.axes, strict=True):
                if of == place:
                    shifts = range(bits - draw.bits, -1, -draw.bits)
                    parts += [column >> np.uint64(shift) for shift in shifts]
            drawn = np.stack(parts, 1).astype(f"uint{draw.bits}")
            words.append(drawn.reshape(len(rows), *draw.shape))
        return self.outcome(report_words(self.mechanism, self.records[rows], words))

    def anywhere(self, count: int) -> np.ndarray:
        """Random words [count, axes]."""
        shape = count, len(self.tops)
        return self.rng.integers(0, self.tops, shape, np.uint64, endpoint=True)

    def cuts(self) -> list[list[set[int]]]:
        """Where the report steps: a set of whole numbers for each record and axis."""
        # A step along one axis may show only at some places of the others.
        corners = np.stack([np.zeros_like(self.tops), self.tops, self.tops // 2 + 1])
        others = np.concatenate([corners, self.anywhere(3)])
        if len(self.bits) == 1:
            others = others[:1]
        row, other = np.indices((len(self.records), len(others))).reshape(2, -1)
        near = {f for share in self.likely for f in (share, 1 - share) if 0 <= f < 1}
        found: list[list[set[int]]] = [[set() for _ in self.bits] for _ in self.records]
        for axis, bits in enumerate(self.bits):
            likely = [int(f * (1 << bits)) for f in near]
            probes = np.array(sorted({*_probes(bits), *likely}), np.uint64)

            def ask(line: np.ndarray, numbers: np.ndarray, axis: int = axis) -> np.ndarray:
                words = others[other[line]]
                words[:, axis] = numbers
                return self.report(row[line], words)

            lines = np.arange(len(row))
            seen = ask(np.repeat(lines, len(probes)), np.tile(probes, len(lines)))
            seen = seen.reshape(len(lines), -1)
            line, step = np.nonzero(np.diff(seen))
            low = probes[step]
            high = probes[step + 1]
            while (high - low > 1).any():
                middle = low + (high - low) // np.uint64(2)
                before = ask(line, middle) == seen[line, step]
                low = np.where(before, middle, low)
                high = np.where(before, high, middle)
            for record, place in zip(row[line].tolist(), high.tolist(), strict=True):
                found[record][axis].add(place)
        return found

    def masses(self) -> list[_Masses]:
        """The exact mass of each outcome under each record."""
        found = []
        for row, cuts in enumerate(self.cuts()):
            starts = [[0, *sorted(places)] for places in cuts]
            if math.prod(map(len, starts)) > _CELLS:
                raise NotApplicable(
                    f"more than {_CELLS} sets of words report differently: no step function"
                )
            cells = np.array(list(itertools.product(*starts)), np.uint64)
            outcomes = self.report(np.full(len(cells), row), cells)
            self._check(row, starts, outcomes)

            widths = []
            for each, bits in zip(starts, self.bits, strict=True):
                ends = [*each[1:], 1 << bits]
                widths.append([end - start for start, end in zip(each, ends, strict=True)])
            masses: dict[int, int] = {}
            for value, sides in zip(outcomes.tolist(), itertools.product(*widths), strict=True):
                masses[value] = masses.get(value, 0) + math.prod(sides)
            total = 1 << sum(self.bits)
            found.append({value: Fraction(mass, total) for value, mass in masses.items()})
        return found

    def _check(self, row: int, starts: list[list[int]], outcomes: np.ndarray) -> None:
        """Random words, and words beside the steps, report what their cell does."""
        asked = [self.anywhere(_RANDOM)]
        for axis, start in enumerate(starts):
            places = [0, *(place - by for place in start[1:] for by in (1, 0))]
            words = self.anywhere(len(places))
            words[:, axis] = places
            asked.append(words)
        numbers = np.concatenate(asked)
        cell = np.zeros(len(numbers), np.int64)
        for column, start in zip(numbers.T, starts, strict=True):
            place = np.searchsorted(np.array(start, np.uint64), column, "right") - 1
            cell = cell * len(start) + place
        reports = self.report(np.full(len(cell), row), numbers)
        if (reports != outcomes[cell]).any():
            raise NotApplicable(
                "the report is no step function of its words: a set of them reports otherwise"
            )


def _outcomes(mechanism: Randomizer) -> Callable[[Report], np.ndarray]:
    """A report as a whole number.

    Its place among the atoms of all branches, a continuum being one of them.
    """
    parts = mechanism.codomain().branches

    def outcome(y: Report) -> np.ndarray:
        branch, value = y if isinstance(y, tuple) else (np.zeros(len(y), np.int32), y)
        found = np.full(len(value), -1)
        start = 0
        for number, part in enumerate(parts):
            place = 0
            size = 1
            if part.atoms is not None:
                place = np.searchsorted(np.asarray(part.atoms, np.float32), value)
                size = len(part.atoms)
            found = np.where(branch == number, start + place, found)
            start += size
        return found

    return outcome


def _probes(bits: int) -> list[int]:
    """Whole numbers below 2^bits: both ends, powers of two from both, and a grid."""
    top = (1 << bits) - 1
    probes = [0, top]
    for power in (1 << place for place in range(bits)):
        probes += [power, power - 1, top - power]
    probes += [(top * k) // 512 for k in range(513)]
    return sorted(set(probes))
