r"""The reports of one device, its memory, and the rest of its budget.

**Guarantee.** Each (table, user, round, field) is one release, at the loss of the table's own
integers. Each (question, user) is one release per bit of a list, for all K counts together. Both
are exact, towards anyone who cannot tell keyed BLAKE2b from uniform words. A list that differs in d
neighbours loses d times as much. Both ends report a pair, unless the question has ``owners``: then
its one owner does, and the other end's report says nothing of it
(:meth:`Question.relationship <ldp_jax.deployment.Question.relationship>`). Releases add up over
tables, questions, pseudonyms, rounds and fields. A report that would exceed the budget is refused
before the record is looked at. So is a second report of a field, whatever the record: two records
under the same words would lose more than two epsilons. A retry takes no record
(:meth:`Session.resend`).

**Memory.** All this holds as long as the memory is kept: store :meth:`Session.to_bytes` before
bytes are sent. It is ASCII, with a tag that nobody can make without the device's secret ("ldp-lists
1" where the budget is of lists)::

    "ldp-session 2\n" | device name, 16 hexadecimal digits, "\n"
                      | tag, 64 hexadecimal digits, "\n" | JSON

    key = the first 32 bytes of BLAKE2b keyed with the secret, of "ldp_jax 2 memory"
    tag = BLAKE2b with a digest of 32 bytes, keyed with key, of all but the tag and its newline

Damaged, foreign and edited memory is refused. A whole older copy is *not* distinguished from the
newest: keep :attr:`Session.counter` elsewhere and give it to :meth:`Session.from_bytes` as
``at_least``. No counter shows two sessions that go on from one copy at the same time.
"""

import contextlib
import functools
import hmac
import json
import math
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, NoReturn, SupportsIndex

import numpy as np

from ldp_jax.accounting.guarantee import RECORD, Budget, Guarantee, Unit
from ldp_jax.core.checksum import as_bytes
from ldp_jax.core.integer_tables import WORDS, Table
from ldp_jax.core.public_bounds import check_step
from ldp_jax.core.public_bounds import scaled as from_bounds
from ldp_jax.core.rounding import log_up, rounded_down, rounded_up
from ldp_jax.core.validate import number, require, unmasked, whole
from ldp_jax.deployment import wire
from ldp_jax.deployment.codecs import Codec, FieldReports, NeighbourReports, codec_of, itself
from ldp_jax.deployment.device import Device
from ldp_jax.deployment.neighbours import NeighbourQuestion

Number = int | float | np.integer | np.floating
Vector = np.ndarray | Sequence[Number]

_KINDS: dict[Unit, type[Codec]] = {kind.unit: kind for kind in (FieldReports, NeighbourReports)}
_REASON = (
    "integer masses; the words are a keyed hash's, uniform to whoever lacks the device's secret"
)
_FIRST = 0  # the round under whose words a permanent answer is drawn
_ALONE = "a session is neither pickled nor copied, or its budget is spent twice: use to_bytes()"
# The message names no type: the type that NumPy finds depends on how large other numbers are.
_NO_NUMBERS = "records must be real numbers"
_FAR = 1e9  # numbers beyond are as far out as those at it: every domain lies far within


class BudgetError(ValueError):
    """A report would lose more than the device accepts, or more than it has left."""


class ReplayError(ValueError):
    """A field of this table, user and round was reported before.

    :meth:`Session.resend` gives the same bytes.
    """


class Session:
    """The only way to report: draws reports, remembers what was released, and keeps the budget.

    The memory holds outputs, never records. Every check depends on what is asked, user, round,
    field and budget alone; numbers are reported as the table clips them, and whatever is no other
    node's id is dropped from a list. So no error says anything of a record. Safe to share between
    threads; a fork of the process reports nothing. ``user``, ``round`` and ``field`` are integers
    in [0, 2^64), [0, 2^32) and [0, 2^32).

    Args:
      device: whose reports these are.
      budget: the largest epsilon that all releases together may lose, finite and > 0: a number for
        records, or a :class:`~ldp_jax.accounting.guarantee.Budget` of records or neighbour lists,
        without delta. A device that reports both has a session of each, and gives both to
        :func:`ldp_jax.deployment.report_class` of a class of record and list.
      key: 32 bytes that the collector shares (:attr:`Device.shared_key`), for checksums that nobody
        else can make; or None, for plain ones. The memory does not keep it.

    >>> from ldp_jax.core.integer_tables import integer_masses
    >>> from ldp_jax.deployment import decode
    >>> masses = integer_masses(
    ...     np.array([[0.75, 0.25], [0.25, 0.75]]), 1.0986122886681098
    ... )
    >>> table = Table("warner", masses, np.float32([-0.5, 1.5]), "category")
    >>> session = Session(Device.from_secret(bytes(range(32))), budget=2.0)
    >>> sent = session.report(table, 1, user=7, round=0)
    >>> decode(sent, table).output.tolist()
    [1]
    >>> session.report(table, 0, user=7, round=0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ldp_jax.deployment.session.ReplayError: 1 fields of user 7, round 0 were reported before: ...
    >>> session.resend(table, user=7, round=0) == sent
    True
    >>> print(session.spent().epsilon)
    1.0986122886681098
    """

    def __init__(self, device: Device, *, budget: object, key: bytes | None = None) -> None:
        self._device = device
        self._budget, unit = _checked_budget(budget)
        self._kind = _KINDS[unit]
        self._key = None if key is None else wire.entropy("key", key)
        own = key is not None and hmac.compare_digest(key, device.secret)
        rule = "key is the device's secret, which undoes the noise: share device.shared_key"
        require(not own, rule)
        # The ratio of masses by digest; outputs by (digest, user, round) and by field.
        self._losses: dict[bytes, Fraction] = {}
        self._released: dict[tuple[bytes, int, int], dict[int, int]] = {}
        self._counter = 0
        self._spent = Fraction(0)
        self._lock = threading.Lock()
        self._process = os.getpid()

    @property
    def device(self) -> Device:
        """The device that reports."""
        return self._device

    @property
    def budget(self) -> float:
        """The largest epsilon that all releases together may lose."""
        return self._budget

    @property
    def remaining(self) -> float:
        """The rest of the budget, rounded down."""
        return rounded_down(Fraction(self._budget) - self._spent)

    @property
    def counter(self) -> int:
        """How many releases were ever made. Kept elsewhere, it finds rolled-back memory."""
        return self._counter

    def __reduce__(self) -> NoReturn:
        raise TypeError(_ALONE)

    def __repr__(self) -> str:
        return f"Session({self._device!r}, {self._counter} releases)"

    def report(
        self,
        table: Table,
        x: Number,
        *,
        user: SupportsIndex,
        round: SupportsIndex,
        field: SupportsIndex = 0,
    ) -> bytes:
        """The report of one number, 36 bytes.

        Raises:
          ValueError: if user, round or field is out of its range; TypeError if x is not a real
            number.
          ReplayError, BudgetError: if the field was reported before, or the table loses too much,
            whatever x is.
        """
        fields = [wire.checked_field(field)]
        return self._release(FieldReports(table), fields, lambda: _numbers(x, ()), user, round)

    def report_many(
        self, table: Table, xs: Vector, *, user: SupportsIndex, round: SupportsIndex
    ) -> bytes:
        """The report of every coordinate of a vector [d]: d releases, all or none; 36 d bytes."""
        dim = _length(xs)
        record = lambda: _numbers(xs, (dim,))
        return self._release(FieldReports(table), range(dim), record, user, round)

    def report_sampled(
        self,
        table: Table,
        xs: Vector,
        k: SupportsIndex,
        *,
        user: SupportsIndex,
        round: SupportsIndex,
    ) -> bytes:
        """The reports of k of d coordinates, drawn without regard to xs: k releases, 36 k bytes.

        ``ValueError`` if k is not in [1, d], and :class:`ReplayError` if anything of the round was
        reported before.
        """
        who = wire.checked_user(user)
        when = wire.checked_round(round)
        dim = _length(xs)
        codec = FieldReports(table)
        many = whole(1, dim, k=k)
        fields = self._device.sample(codec.table, dim, many, user=who, round=when)
        record = lambda: _numbers(xs, (dim,))[fields]
        return self._release(codec, fields, record, who, when, alone=True)

    def report_permanently(
        self,
        table: Table,
        x: Number,
        *,
        user: SupportsIndex,
        round: SupportsIndex,
        field: SupportsIndex = 0,
    ) -> bytes:
        """Report one output in every round; only the first report costs anything.

        The output is drawn when it is first asked for, under the random bits of round 0. The table,
        or candidate set, must not change.

        >>> from ldp_jax.deployment import alphabet_table, decode
        >>> table = alphabet_table(1.0, 3, 3)
        >>> session = Session(Device.new(), budget=1.0)
        >>> where = [(2, 0), (2, 1), (0, 2), (1, 3)]
        >>> sent = [
        ...     session.report_permanently(table, x, user=7, round=t) for x, t in where
        ... ]
        >>> (
        ...     len({decode(one, table).output.tolist()[0] for one in sent}),
        ...     session.counter,
        ... )
        (1, 1)
        """
        label = wire.checked_round(round)  # before anything is spent
        with contextlib.suppress(ReplayError):  # it was drawn before
            self.report(table, x, user=user, round=_FIRST, field=field)
        return self._resend(FieldReports(table), user, _FIRST, field, label)

    def report_neighbours(
        self, question: NeighbourQuestion, neighbours: Iterable[object], *, user: SupportsIndex
    ) -> bytes:
        """The answer to a question about neighbours, with noise; 32 + 4 K bytes.

        A :class:`~ldp_jax.deployment.Question` asks how many are in each of K public groups,
        :class:`~ldp_jax.deployment.Pairs` who they are, a bit each.

        Neighbours are ids, in whatever can be iterated; other things, ``user`` and repeats are
        dropped, and where the question has ``owners``, neighbours whose pair is not the user's to
        report. Errors are as of :meth:`report`, with a ``TypeError`` for a row of booleans.
        ``user`` is an integer in [0, n), of a node that is not silent.

        >>> from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST
        >>> from ldp_jax.deployment import Question, decode
        >>> asked = Question(
        ...     0, groups=[0, 0, 1, 1, -1], num_groups=2, epsilon=1.0, most=20
        ... )
        >>> budget = Budget(1.5, unit=NEIGHBOUR_LIST)
        >>> session = Session(Device.from_secret(bytes(range(32))), budget=budget)
        >>> sent = session.report_neighbours(asked, [1, 2, 4], user=0)
        >>> len(sent), decode(sent, asked).output.shape
        (40, (1, 2))
        """
        codec = NeighbourReports(question)
        fields = range(codec.question.numbers)
        return self._release(codec, fields, lambda: neighbours, user, None)

    def resend(
        self,
        asked: Table | NeighbourQuestion,
        *,
        user: SupportsIndex,
        round: SupportsIndex | None = None,
        field: SupportsIndex | None = None,
    ) -> bytes:
        """The bytes of an earlier report, of one field or of a whole round; they cost nothing.

        ``round`` and ``field`` are of a table's report. ``ValueError`` if there was none, or an
        argument is wrong.
        """
        whole_report = field is None or not isinstance(asked, NeighbourQuestion)
        require(whole_report, "field must be None, as counts are sent whole", field)
        return self._resend(codec_of(asked), user, round, field)

    def _resend(
        self,
        codec: Codec,
        user: SupportsIndex,
        round: SupportsIndex | None,
        field: SupportsIndex | None,
        label: int | None = None,
    ) -> bytes:
        """The bytes may carry the number of another round, ``label``."""
        who = codec.user(user)
        when = codec.round(round)
        where = None if field is None else wire.checked_field(field)
        with self._lock:
            known = self._released.get((codec.digest, who, when), {})
            fields = [field for field in sorted(known) if where in (None, field)]
            require(fields, f"nothing to resend for user {who}, round {when}")
            label = when if label is None else label
            return codec.pack(fields, [known[f] for f in fields], who, label, self._key)

    def _release(
        self,
        codec: Codec,
        fields: Sequence[int],
        record: Callable[[], object],
        user: SupportsIndex,
        round: SupportsIndex | None,
        *,
        alone: bool = False,
        lists: "Session | None" = None,
    ) -> bytes:
        """Check, and only then look at the record: so no refusal can depend on it.

        ``lists`` is the device's session of neighbour lists, of a report that reads one, too.
        """
        kind = self._kind
        payers: list[Session] = [self]
        if lists is not None:
            fits = lists._kind is NeighbourReports and lists.device.name == self.device.name
            require(fits, "lists must be a session of neighbour lists of the same device")
            payers.append(lists)
        # A fork has the budget once more, and the same words.
        if any(os.getpid() != one._process for one in payers):
            raise TypeError(_ALONE)
        if not isinstance(codec, kind):
            raise ValueError(f"a {codec.of} needs a budget of {codec.unit}s, not of {kind.unit}s")
        who = codec.user(user)
        when = codec.round(round)
        key = (codec.digest, who, when)
        with contextlib.ExitStack() as locked:
            for one in payers:
                locked.enter_context(one._lock)
            known = self._released.get(key, {})
            before = list(known) if alone else [field for field in fields if field in known]
            if before:
                raise ReplayError(
                    f"{codec.times(before)} {codec.each}s of user {who}, round {when} were "
                    "reported before: resend() gives those bytes"
                )
            times = codec.times(fields)
            for one in payers:
                if one._spent + _cost(codec.loss, times) > Fraction(one._budget):
                    epsilon = _epsilon(codec.loss)
                    raise BudgetError(
                        f"{times} {codec.each}s of a {codec.of} that loses epsilon {epsilon} each "
                        f"do not fit: {one.remaining} of {one._budget} is left"
                    )
            outputs = codec.draw(self._device, fields, record(), who, when)
            sent = codec.pack(fields, outputs, who, when, self._key)
            held = {**known, **dict(zip(fields, outputs.tolist(), strict=True))}
            for one in payers:
                one._pay(codec.loss, times)  # first: whatever interrupts this, nothing is unpaid
                one._losses[codec.digest] = codec.loss
                one._released[key] = held
        return sent

    def spent(self, user: SupportsIndex | None = None) -> Guarantee:
        """The cost of all releases, or of those of one user or pseudonym, rounded up."""
        who = None if user is None else wire.checked_user(user)
        kind = self._kind
        total = Fraction(0)
        releases = 0
        with self._lock:
            for (digest, whose, _), held in self._released.items():
                if who in (None, whose):
                    times = kind.times(held)
                    total += _cost(self._losses[digest], times)
                    releases += times
        whose = kind.adjacency.format("one device" if who is None else "one user")
        return _exact(total, kind.unit, f"{whose}; releases: {releases}")

    def _pay(self, loss: Fraction, times: int) -> None:
        self._spent += _cost(loss, times)
        self._counter += times

    def to_bytes(self) -> bytes:
        """The memory, to be stored before reports are sent.

        It holds neither the secret nor any record.
        """
        with self._lock:
            memory = {
                "budget": self._budget,
                "losses": [
                    [digest.hex(), *loss.as_integer_ratio()]
                    for digest, loss in self._losses.items()
                ],
                "released": [
                    [digest.hex(), user, round, *self._kind.row(held)]
                    for (digest, user, round), held in self._released.items()
                ],
            }
        head = self._kind.memory + self._device.name.encode() + b"\n"
        body = json.dumps(memory, separators=(",", ":")).encode()
        return head + self._device.memory_tag(head + body) + b"\n" + body

    @classmethod
    def from_bytes(
        cls, device: Device, data: bytes, *, at_least: SupportsIndex = 0, key: bytes | None = None
    ) -> "Session":
        """Go on where :meth:`to_bytes` left off, within the same budget.

        ``at_least`` is the newest :attr:`counter` that is known from elsewhere. Without it a whole
        older copy is taken for the newest, and what it forgot can be released again. ``ValueError``
        if the memory is damaged, edited, another device's, of another version, or rolled back
        behind ``at_least``; or if key is invalid.
        """
        data = as_bytes(data)
        unit = next((unit for unit, kind in _KINDS.items() if data.startswith(kind.memory)), RECORD)
        session = cls(device, budget=Budget(math.ulp(0.0), unit=unit), key=key)
        least = whole(0, 2**64 - 1, at_least=at_least)
        kind = session._kind
        # The start, the device's name and a newline; a tag of 64 digits and a newline; the memory.
        end = len(kind.memory) + 17
        head = data[:end]
        tag = data[end : end + 65]
        body = data[end + 65 :]
        own = head == kind.memory + device.name.encode() + b"\n"
        rule = "no session's memory of this device: another device's, of another version, or cut"
        require(own, rule)
        whole_memory = hmac.compare_digest(tag, device.memory_tag(head + body) + b"\n")
        rule = "no session's memory: damaged or edited, its tag is not this device's"
        require(whole_memory, rule)
        try:
            memory = json.loads(body)
            session._budget, _ = _checked_budget(memory["budget"])
            for digest, high, low in memory["losses"]:
                loss = Fraction(whole(1, kind.most, mass=high), whole(1, kind.most, mass=low))
                require(loss >= 1, "an impossible loss")
                session._losses[bytes.fromhex(digest)] = loss
            for digest, user, round, *row in memory["released"]:
                name = bytes.fromhex(digest)
                held = kind.held(row)
                release = (name, wire.checked_user(user), wire.checked_round(round))
                session._released[release] = held
                session._pay(session._losses[name], kind.times(held))
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise ValueError(f"no session's memory: {error}") from error
        # Bytes that nothing was read from, a repeat, or another spelling.
        rule = "no session's memory: it is not written as to_bytes() writes it"
        require(session.to_bytes() == data, rule)
        rule = f"rolled back: memory of {session.counter} releases of {least}"
        require(session.counter >= least, rule)
        return session


def guarantee(table: Table, k: SupportsIndex = 1) -> Guarantee:
    """The cost of one report of k fields: k times the table's epsilon, rounded up."""
    many = whole(1, WORDS - 1, k=k)
    words = "any two records of one user"
    if many > 1:
        words += f", {many} fields of each reported"
    return _exact(_cost(itself(table, Table).loss, many), RECORD, words)


def _exact(total: Fraction, unit: Unit, words: str) -> Guarantee:
    cost = rounded_up(total)
    return Guarantee(
        cost, unit=unit, adjacency=words, arithmetic="exact", status="proved", reason=_REASON
    )


def _checked_budget(budget: object) -> tuple[float, Unit]:
    """A finite epsilon > 0, and its unit."""
    if not isinstance(budget, Budget):
        return number(0.0, open_lower=True, budget=budget), RECORD
    rule = "budget must be of records or neighbour-lists, no delta"
    require(budget.unit in _KINDS and not budget.delta, rule, budget)
    return number(0.0, open_lower=True, budget=budget.epsilon), budget.unit


@functools.lru_cache(maxsize=64)
def _epsilon(loss: Fraction) -> float:
    """A privacy loss, rounded up; cached, since the logarithm takes as long as a report."""
    return log_up(loss)


def _cost(loss: Fraction, times: int) -> Fraction:
    """Epsilon of ``times`` releases: the logarithm is rounded up to a float, the rest is exact."""
    return times * Fraction(_epsilon(loss))


def as_numbers(x: object) -> np.ndarray:
    """Numbers as float32, clipped in float64 to [-1e9, 1e9]; NaN where they are masked.

    ``TypeError`` for anything but real numbers; ``ValueError`` for sequences of different lengths,
    as in NumPy.
    """
    with np.errstate(all="ignore"):
        return np.asarray(np.clip(_wide(x), -_FAR, _FAR), np.float32)


def _wide(x: object) -> np.ndarray:
    """Numbers in float64, of any size."""
    with np.errstate(all="ignore"):
        numbers = np.asarray(unmasked(x))
        if numbers.dtype == object:  # integers beyond 64 bits, or no numbers
            flat = [_float(number) for number in numbers.ravel().tolist()]
            numbers = np.array(flat).reshape(numbers.shape)
        if numbers.dtype.kind not in "biuf":
            raise TypeError(_NO_NUMBERS)
        return numbers.astype(np.float64)


def scaled(
    x: object, lower: float | int, upper: float | int, *, start: float = -1.0, stop: float = 1.0
) -> np.ndarray:
    """Map a record of any shape from public bounds to a table's domain, float32.

    The domain is [-1, 1] of a grid and [0, 1] of bins. Bounds are taken off in float64, as the
    server does; what is outside is clipped, and NaN goes to the centre. ``ValueError`` for bounds
    that are not finite or do not rise, or that float32 cannot resolve where x is of it;
    ``TypeError`` for a record that is not made of real numbers.

    >>> scaled(1_700_000_045, 1_700_000_000, 1_700_000_060).item()
    0.5
    """
    low = number(-math.inf, lower_bound=lower)
    high = number(low, open_lower=True, upper_bound=upper)
    kind = getattr(x, "dtype", None)
    check_step(kind if isinstance(kind, np.dtype) else np.float64, low, high)
    record = _wide(x)
    return from_bounds(record.reshape(-1, 1), low, high, start, stop).reshape(record.shape)


def _float(number: object) -> float:
    """One number of any size as a float; no refusal may say how large it is."""
    one = np.asarray(number)[()]
    hidden = isinstance(number, np.ma.MaskedArray) or isinstance(one, np.timedelta64)
    if hidden or not isinstance(one, (int, float, np.integer, np.floating, np.bool_)):
        raise TypeError(_NO_NUMBERS)
    try:
        return float(one)
    except OverflowError:
        return math.inf if one > 0 else -math.inf


def _length(xs: Any) -> int:
    """How many numbers a vector has, without a look at them."""
    try:
        many = len(xs)
    except TypeError:
        many = 0
    require(1 <= many < WORDS, "xs must be a vector of at least one number")
    return many


def _numbers(x: object, shape: tuple[int, ...]) -> np.ndarray:
    """The numbers of a record [n] that must have a shape: () for one number."""
    record = as_numbers(x)
    wanted = "a vector of numbers" if shape else "one number (report_many takes a vector)"
    rule = f"the record must be {wanted}, got shape {record.shape}"
    require(record.shape == shape, rule)
    return record.reshape(-1)
