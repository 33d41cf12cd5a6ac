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
    generator,
    log_grid,
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
from ldp_jax.verification.records import repeated_records
from ldp_jax.verification.statistics import Fit

ROUNDING = 1e-5
"""The loss that float32 arithmetic of a probability may add, in nats. A side that is lost costs far
more.
"""

_RANDOM = 1 << 14  # words that check that nothing lies between two thresholds
_CELLS = 4096
_LAWS = 8  # of a vector's coordinates, whose tables are asked by words
_TRIALS = 1 << 20
_FEW = 16  # numbers by which the words of a table are found among others

_Masses = dict[int, Fraction]  # the mass of each outcome under one record


class ArithmeticLoss(NamedTuple):
    r"""The loss of a sampler's arithmetic.

    Attributes:
      epsilon: the largest log ratio of drawn probabilities, rounded up; ``inf`` where a side is
        lost.
      x: the record of the larger probability; ``x_other`` that of the smaller one.
      y: the report, as a place in the codomain.
      off: the largest \|log\| of a drawn probability over the claimed one.
      cells: how many sets of words were told apart.
    """

    epsilon: float
    x: Record | None
    x_other: Record | None
    y: int | None
    off: float
    cells: int

    def keeps(self, epsilon: float) -> bool:
        """Whether the drawn probabilities keep a claim, up to :data:`ROUNDING`."""
        return self.epsilon <= epsilon + ROUNDING


@standard_flags()
def arithmetic(mechanism: Exact | HasCoordinates) -> ArithmeticLoss:
    """The privacy loss of the probabilities that ``privatize`` draws, in whole random words.

    A finite report is a step function of its words. Steps are found by bisection from probes at
    both ends, at powers of two, on a grid and at the claimed masses; 16 384 random words look for
    others. Pairs (branch, value) are asked for their finite parts, vectors for the laws of their
    coordinates. Of tables the words must give both ends of the domain their very masses, also
    within a vector; runs of words are asked at both ends
    (:class:`~ldp_jax.verification.protocols.HasWordRuns`). ``NotApplicable`` for vectors drawn
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
    records = np.asarray(mechanism.domain().critical_records()).astype(np.float32)
    claimed = _claimed(mechanism, records)
    found, cells = _Steps(mechanism, records, claimed).masses()
    logs = [{int(y): math.log(row[y]) for y in np.flatnonzero(row > 0)} for row in claimed]
    pairs = np.argwhere(adjacency(mechanism.domain(), records) & ~np.eye(len(records), dtype=bool))
    return _compared(found, logs, records.tolist(), pairs.tolist(), cells)


def _claimed(mechanism: Exact, records: np.ndarray) -> np.ndarray:
    """Masses of the density [records, outcomes]; NaN of a continuum."""
    codomain = mechanism.codomain()
    columns = []
    with float64_on_cpu():
        for branch, part in enumerate(codomain.branches):
            if part.atoms is None:
                columns.append(np.full((len(records), 1), np.nan))
                continue
            values = np.asarray(part.atoms, np.float64)
            y = (
                values
                if codomain.branches == (codomain,)
                else (np.full(len(values), branch), values)
            )
            columns.append(np.exp(log_grid(mechanism, y, records.astype(np.float64))))
    return np.concatenate(columns, 1)


def _compared(
    laws: list[_Masses],
    logs: list[dict[int, float]],
    records: Sequence[Record],
    pairs: Sequence[Sequence[int]],
    cells: int,
) -> ArithmeticLoss:
    """The largest ratio of masses over pairs of records, and the distance to claimed logarithms."""
    asked = itertools.product(sorted(set().union(*laws)), pairs)
    ratios = (
        (_ratio(laws[high].get(y), laws[low].get(y)), high, low, y) for y, (high, low) in asked
    )
    ratio, high, low, y = max(ratios, key=operator.itemgetter(0))
    off = 0.0
    for law, claimed in zip(laws, logs, strict=True):
        for place, log in claimed.items():
            mass = law.get(place)
            off = max(
                off,
                abs(math.log(mass.numerator) - math.log(mass.denominator) - log)
                if mass
                else math.inf,
            )
    loss = integer_tables.log_up(ratio) if isinstance(ratio, Fraction) else math.inf
    return ArithmeticLoss(loss, records[high], records[low], y, off, cells)


def _ratio(mass: Fraction | None, other: Fraction | None) -> Fraction | float:
    """Infinite where the other record alone cannot give a report, 0 where this one cannot."""
    if not mass:
        return Fraction(0)
    return mass / other if other else math.inf


def _of_table(m: Any, sampler: Any) -> ArithmeticLoss:
    """The table's loss, where a sampler gives reports of both ends their masses in the table."""
    table = m.table()
    records = np.array(m.domain().extremes(), np.float32)
    found, cells = _Steps(sampler, records, _claimed(m, records), words=1).masses()
    if found != [_row(table, float(record)) for record in records]:
        raise NotApplicable(
            f"{type(sampler).__name__} draws other probabilities than its table has"
        )
    return ArithmeticLoss(table.epsilon, None, None, None, 0.0, cells)


class _Sent(NamedTuple):
    """One number that a vector's mechanism sends, of a record whose coordinates are all alike."""

    mechanism: Any
    law: Any
    place: int

    def privatize(self, key: PRNGKey, x: Record) -> Report:
        """The number in this place."""
        y = self.mechanism.privatize(key, jnp.full(self.mechanism.domain().dim, x))
        return (y.values if isinstance(y, SparseReport) else y)[self.place]

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
    each = []
    for number, (law, at) in enumerate(laws):
        if not isinstance(law, HasTable):
            each.append(arithmetic(law))
        elif number in asked:
            each.append(_of_table(law, _Sent(mechanism, law, at[0])))
        else:
            each.append(ArithmeticLoss(law.table().epsilon, None, None, None, 0.0, 0))
    if len(each) == 1:
        return each[0]._replace(epsilon=sent * each[0].epsilon, off=sent * each[0].off)
    every = [found for (_, at), found in zip(laws, each, strict=True) for _ in at]
    epsilon, off = (
        math.fsum(sorted((getattr(found, field) for found in every), reverse=True)[:sent])
        for field in ("epsilon", "off")
    )
    return ArithmeticLoss(epsilon, None, None, None, off, sum(found.cells for found in every))


def _of_runs(m: HasWordRuns) -> ArithmeticLoss:
    """Masses of each report of one number, from both ends of every run of words."""
    runs = m.word_runs()
    records = list(dict.fromkeys(itertools.chain(*runs.pairs)))
    laws: list[_Masses] = [{} for _ in records]
    for record, law in zip(records, laws, strict=True):
        first, last = (np.asarray(_report(m, words, record)) for words in (runs.first, runs.last))
        if (first != last).any():
            raise ValueError("from_words changes between two thresholds: its words are no table")
        for y, share in zip(first.tolist(), runs.share, strict=True):
            law[y] = law.get(y, Fraction(0)) + share
    logs = [
        dict(
            zip(
                law,
                _log_likelihood(m, np.array(list(law), np.float32), record).tolist(),
                strict=True,
            )
        )
        for record, law in zip(records, laws, strict=True)
    ]
    pairs = [tuple(map(records.index, pair)) for one in runs.pairs for pair in (one, one[::-1])]
    return _compared(laws, logs, records, pairs, len(runs.share))


def check_runs(m: Any) -> None:
    """``NotApplicable`` where ``privatize`` sends other numbers than ``from_words`` does."""
    runs = m.word_runs()
    x = take(m.domain().grid(1), 0)
    draw, *more = draws_of(m, x)
    if more or draw.shape[:1] != runs.first.shape[:1]:
        raise NotApplicable("privatize must draw the words of its runs, and no others")
    words = [
        np.broadcast_to(w.T[..., None], (w.shape[1], *draw.shape)) for w in (runs.first, runs.last)
    ]
    asked = repeated(x, runs.first.shape[1])
    sent = [m.codomain().numbers(report_words(m, asked, [one])) for one in words]
    wanted = [
        [np.asarray(_report(m, w, record))[:, None] for w in (runs.first, runs.last)]
        for record in set(itertools.chain(*runs.pairs))
    ]
    if not any(all((a == b).all() for a, b in zip(sent, one, strict=True)) for one in wanted):
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

    Rows are found by the client's rule, and outputs by a search of cumulative masses in 64 bits.

    >>> from ldp_jax.features import GridSquareWave
    >>> follows_table(
    ...     GridSquareWave(1.0, 17), jax.random.key(0), trials=10_000
    ... ).fits
    True
    """
    validate.integer_in(1000, trials=trials)
    record_key, word_key = random.split(key)
    x = repeated_records(spaces(mechanism)[0], generator(record_key), trials)
    requests = draws_of(mechanism, x[0])
    if len(requests) != 1 or math.prod(requests[0].shape) > 2:
        raise ValueError("a table takes one word a report, and one to round to a grid")
    rng = generator(word_key)
    words = rng.integers(0, 1 << 32, (trials, *requests[0].shape), np.uint64).astype(np.uint32)
    sent = report_words(mechanism, x, [words])
    wrong = int((sent != _table_report(mechanism.table(), x, words.reshape(trials, -1))).sum())
    return Fit(wrong == 0, "reports unlike the table's", float(wrong), 0.0, 13.8 / trials, trials)


def _table_report(table: integer_tables.Table, x: np.ndarray, words: np.ndarray) -> np.ndarray:
    row, part = integer_tables.split(np, x, table.inputs, table.encoding)
    row = row + integer_tables.rounds_up(words[:, -1], part)
    first = np.arange(table.inputs, dtype=np.uint64)[:, None] * np.uint64(2**32)
    cumulative = np.cumsum(table.masses, 1, dtype=np.uint64) + first
    asked = words[:, 0] + row.astype(np.uint64) * np.uint64(2**32)
    return np.searchsorted(cumulative.ravel(), asked, "right") - row * table.outputs


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
        return _audit(*(_row(mechanism.table(), record) for record in (x, x_other)))
    if not isinstance(mechanism, (HasInverse, HasWords)):
        raise NotApplicable(f"{type(mechanism).__name__} has no from_uniform: it draws otherwise")
    check_numbers(mechanism)
    records = np.array([x, x_other], np.float32)
    if isinstance(mechanism, HasWords):
        return _audit(*_Steps(mechanism, records, _claimed(mechanism, records)).masses()[0])
    total = 2**23
    u = (np.arange(total, dtype=np.float32) + np.float32(0.5)) / np.float32(total)
    (ours, mine), (theirs, others) = (
        np.unique(np.asarray(_from_uniform(mechanism, u, record)), return_counts=True)
        for record in records
    )
    shared, at, at_other = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    losses = np.abs(np.log(mine[at]) - np.log(others[at_other]))
    return FloatAudit(
        float(1.0 - mine[at].sum() / total),
        float(1.0 - others[at_other].sum() / total),
        float(losses.max()) if len(shared) else math.nan,
        len(ours),
    )


@jax.jit
def _from_uniform(mechanism: HasInverse, u: Array, x: Record) -> Array:
    return mechanism.from_uniform(u, x)


def _audit(mine: _Masses, others: _Masses) -> FloatAudit:
    both = [(mine[y], others[y]) for y in mine if mine[y] and others.get(y)]
    lost, lost_other = (float(1 - sum(side)) for side in zip(*both, strict=True))
    loss = integer_tables.log_up(max(max(a / b, b / a) for a, b in both))
    return FloatAudit(lost, lost_other, loss, sum(mass > 0 for mass in mine.values()))


def _row(table: integer_tables.Table, x: float) -> _Masses:
    """A record's masses over 2^55: two neighbouring rows, mixed as the rounding mixes them."""
    row, part = (int(one) for one in integer_tables.split(np, x, table.inputs, table.encoding))
    whole = 2**23
    above = min(row + 1, table.inputs - 1)
    mixed = (
        (whole - part) * int(a) + part * int(b)
        for a, b in zip(*table.masses[[row, above]], strict=True)
    )
    return {y: Fraction(mass, whole * integer_tables.WORDS) for y, mass in enumerate(mixed)}


# --- Steps of the words ---------------------------------------------------------------------------


class _Line(NamedTuple):
    """Words of a record along one axis, the draw that changes.

    The others, a whole number a draw, stay.
    """

    row: int
    axis: int
    others: tuple[int, ...]

    def at(self, number: int) -> tuple[int, tuple[int, ...]]:
        """The record, and the words with this number on the axis."""
        return self.row, (*self.others[: self.axis], number, *self.others[self.axis + 1 :])


class _Steps:
    """Reports, as whole numbers, of some records under words of the verifier's choice."""

    def __init__(
        self, mechanism: Exact, records: np.ndarray, claimed: np.ndarray, words: int = 2
    ) -> None:
        """Trace the sampler once, for all records.

        The masses that are claimed say where steps may be.

        A draw of many words is several numbers of so many ``words``, as a coin and a value from one
        key are of two. A number of one word is taken for a table's, whose steps depend on no other.
        """
        rows = np.nan_to_num(claimed)
        self.likely = {
            Fraction(c)
            for row in (*rows, *rows[:, ::-1])
            for c in (np.cumsum(row) - row / 2).tolist()
        }
        self.draws = draws_of(mechanism, records[0])
        self.mechanism = mechanism
        self.records = records
        self.outcome = _outcomes(mechanism)
        self.axes = [
            (place, min(words, math.prod(draw.shape) - first) * draw.bits)
            for place, draw in enumerate(self.draws)
            for first in range(0, math.prod(draw.shape), words)
        ]
        self.alone = words == 1
        self.bits = [bits for _, bits in self.axes]
        self.rng = np.random.default_rng(0)  # no privacy depends on it

    def report(self, rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Outcomes [n] of records under random words [n, axes], the most significant first."""
        words = []
        for place, draw in enumerate(self.draws):
            parts = []
            for column, (of, bits) in zip(numbers.T, self.axes, strict=True):
                if of == place:
                    parts += [
                        column >> np.uint64(shift)
                        for shift in range(bits - draw.bits, -1, -draw.bits)
                    ]
            words.append(
                np.stack(parts, 1).astype(f"uint{draw.bits}").reshape(len(rows), *draw.shape)
            )
        return self.outcome(report_words(self.mechanism, self.records[rows], words))

    def ask(self, points: list[tuple[int, tuple[int, ...]]]) -> np.ndarray:
        rows, numbers = zip(*points, strict=True)
        return self.report(np.array(rows), np.array(numbers, np.uint64))

    def anywhere(self) -> tuple[int, ...]:
        top = np.array([(1 << bits) - 1 for bits in self.bits], np.uint64)
        return tuple(self.rng.integers(0, top, dtype=np.uint64, endpoint=True).tolist())

    def cuts(self) -> list[list[set[int]]]:
        """Where the report steps: a set of whole numbers for each record and draw."""
        axes = self._moving() if self.alone else range(len(self.bits))
        every = range(len(self.bits))
        others = [
            tuple(0 for _ in every),
            tuple((1 << b) - 1 for b in self.bits),
            tuple(1 << (b - 1) for b in self.bits),
        ]
        # A step along one axis may show only at some places of the others.
        alone = self.alone or len(self.bits) == 1
        others = others[:1] if alone else [*others, *(self.anywhere() for _ in range(3))]
        found: list[list[set[int]]] = [[set() for _ in every] for _ in self.records]
        lines = [
            _Line(row, axis, o) for row in range(len(self.records)) for axis in axes for o in others
        ]
        near = sorted({f for share in self.likely for f in (share, 1 - share) if 0 <= f < 1})
        probes = [
            sorted({*_probes(bits), *(int(f * (1 << bits)) for f in near)}) for bits in self.bits
        ]
        points = [(line, number) for line in lines for number in probes[line.axis]]
        seen = self.ask([line.at(number) for line, number in points])
        step = [
            i for i in np.flatnonzero(np.diff(seen)).tolist() if points[i][0] is points[i + 1][0]
        ]
        ends = [[points[i][1], points[i + 1][1]] for i in step]
        while any(high - low > 1 for low, high in ends):
            middle = [(low + high) // 2 for low, high in ends]
            now = self.ask(
                [points[i][0].at(number) for i, number in zip(step, middle, strict=True)]
            )
            for i, pair, number, value in zip(step, ends, middle, now, strict=True):
                pair[0 if value == seen[i] else 1] = number
        for i, (_, high) in zip(step, ends, strict=True):
            found[points[i][0].row][points[i][0].axis].add(high)
        return found

    def _moving(self) -> list[int]:
        """The axes along which a report changes between the claimed steps.

        Those of one word that a table reads.
        """
        shares = sorted(self.likely)
        few = [shares[at] for at in np.linspace(0, len(shares) - 1, _FEW).astype(int)]
        axes = np.arange(len(self.bits))
        numbers = np.zeros((len(axes), _FEW, len(axes)), np.uint64)
        numbers[axes, :, axes] = [[int(share * (1 << bits)) for share in few] for bits in self.bits]
        numbers = numbers.reshape(-1, len(axes))
        moves = np.zeros(len(axes), bool)
        for row in range(len(self.records)):
            seen = self.report(np.full(len(numbers), row), numbers).reshape(-1, _FEW)
            moves |= (seen != seen[:, :1]).any(1)
        return np.flatnonzero(moves).tolist() or axes.tolist()

    def masses(self) -> tuple[list[_Masses], int]:
        """The exact mass of each outcome under each record.

        And how many sets of words were told apart.
        """
        found = []
        count = 0
        for row, cuts in enumerate(self.cuts()):
            starts = [[0, *sorted(places)] for places in cuts]
            if math.prod(map(len, starts)) > _CELLS:
                raise NotApplicable(
                    f"more than {_CELLS} sets of words report differently: no step function"
                )
            ends = [[*start[1:], 1 << bits] for start, bits in zip(starts, self.bits, strict=True)]
            sizes = [
                [b - a for a, b in zip(*pair, strict=True)]
                for pair in zip(starts, ends, strict=True)
            ]
            outcomes = self.ask([(row, cell) for cell in itertools.product(*starts)])
            masses: dict[int, int] = {}
            for value, parts in zip(outcomes.tolist(), itertools.product(*sizes), strict=True):
                masses[value] = masses.get(value, 0) + math.prod(parts)
            self._check(row, starts, outcomes)
            found.append(
                {value: Fraction(mass, 1 << sum(self.bits)) for value, mass in masses.items()}
            )
            count += len(outcomes)
        return found, count

    def _check(self, row: int, starts: list[list[int]], outcomes: np.ndarray) -> None:
        """Random words, and words beside the steps, report what their cell does."""
        near = [
            _Line(row, axis, self.anywhere()).at(place + by)[1]
            for axis, start in enumerate(starts)
            if len(start) > 1 or not self.alone
            for place in start
            for by in (-1, 0, 1)
            if 0 <= place + by < 1 << self.bits[axis]
        ]
        near = np.array(near, np.uint64).reshape(-1, len(starts))
        random = [self.rng.integers(0, 1 << bits, _RANDOM, np.uint64) for bits in self.bits]
        numbers = np.concatenate([near, np.stack(random, 1)])
        columns = [
            np.searchsorted(np.array(start, np.uint64), column, "right") - 1
            for start, column in zip(starts, numbers.T, strict=True)
        ]
        cell = np.zeros(len(numbers), np.int64)
        for column, start in zip(columns, starts, strict=True):
            cell = cell * len(start) + column
        if (self.report(np.full(len(cell), row), numbers) != outcomes[cell]).any():
            raise NotApplicable(
                "the report is no step function of its words: a set of them reports otherwise"
            )


def _outcomes(mechanism: Randomizer) -> Callable[[Report], np.ndarray]:
    """A report as a whole number.

    Its place among the atoms of all branches, a continuum being one of them.
    """
    parts = mechanism.codomain().branches
    starts = np.cumsum([0, *(1 if part.atoms is None else len(part.atoms) for part in parts)])

    def outcome(y: Report) -> np.ndarray:
        branch, value = y if isinstance(y, tuple) else (np.zeros(len(y), np.int32), y)
        found = np.full(len(value), -1)
        for b, part in enumerate(parts):
            place = (
                0
                if part.atoms is None
                else np.searchsorted(np.asarray(part.atoms, np.float32), value)
            )
            found = np.where(branch == b, starts[b] + place, found)
        return found

    return outcome


def _probes(bits: int) -> list[int]:
    """Whole numbers below 2^bits: both ends, powers of two from both, and a grid."""
    top = (1 << bits) - 1
    powers = [1 << j for j in range(bits)]
    grid = [(top * k) // 512 for k in range(513)]
    return sorted({0, top, *powers, *(p - 1 for p in powers), *(top - p for p in powers), *grid})
