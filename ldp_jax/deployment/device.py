r"""The user's device: integer tables, the operating system's entropy, a budget of its own. No floating-point noise.

A device holds 32 secret bytes and the server's :class:`Table`; a :class:`Session` turns records into report bytes
(:mod:`ldp_jax.deployment.wire`), remembers what it has released, and releases no more than the device accepts.

**Words.** Field f of a (table, user, round) is reported with two 32-bit words of its own: one picks the output, one
rounds the record to the grid. They are bytes 8 (f mod 8) to 8 (f mod 8) + 7 of the 64 bytes of BLAKE2b keyed with
the secret, of ::

    "ldp_jax 1 words." | SHA-256 of the table (32 bytes) | user (8) | round (4) | floor(f / 8) (4)

The table's SHA-256 is of its bytes without their checksum, and with "ldp-table 1" for their first line. Every
part has a fixed length, integers and words are little-endian, so that no two fields share words. Nothing of the
record enters. The coordinates of :meth:`Session.report_sampled` come from 16 words at a time of ::

    "ldp_jax 1 sample" | SHA-256 of the table (32) | user (8) | round (4) | k (4) | d (4) | counter (4)

by Floyd's algorithm: for j = d - k, ..., d - 1 take t uniform in 0, ..., j (a word w below the largest multiple of
j + 1 up to 2^32 gives w mod (j + 1); others are skipped) and add t to the set, or j where t is in it already. (The
derivation of words is as old as the library: a device that is updated draws what it drew before.)

A device that holds a neighbour list has a session of another kind for it, with words, a budget and a memory of its
own: :mod:`ldp_jax.deployment.lists`.

**What is guaranteed.** Each (table, user, round, field) is one release, at the loss of the table's own integers:
exact, because the probabilities are integers over 2^32, towards anyone who cannot tell keyed BLAKE2b from uniform
words. Releases add up (:meth:`Session.spent`), and the session refuses whatever would exceed its budget, before it
looks at a record: over all tables, pseudonyms, rounds and fields together, because a server that sees one device
under two pseudonyms sees both releases. Averaging repeated reports gains nothing: asking again gives the same
bytes. Two reports of *different* records under the same words would lose more than two epsilons, so a session
refuses to report a field twice, whatever the record: what it raises must not depend on a record either. A retry
takes no record (:meth:`Session.resend`).

**Memory.** All this holds as long as the session's memory is kept: store :meth:`Session.to_bytes` before bytes
are sent, and use one session a device, which refuses to be copied; a new :class:`Session` knows of no earlier
release. The memory is ASCII, with a tag that nobody can make without the device's secret ::

    "ldp-session 2\n" | device name, 16 hexadecimal digits, "\n" | tag, 64 hexadecimal digits, "\n" | JSON

    key = the first 32 bytes of BLAKE2b keyed with the secret, of "ldp_jax 2 memory"
    tag = BLAKE2b with a digest of 32 bytes, keyed with key, of everything but the tag and its newline

Damaged, foreign and edited memory is refused. A whole older copy is *not* told apart from the newest by its bytes:
it was true once. Keep :attr:`Session.counter` elsewhere (a key store, a file that no backup restores) and give it
to :meth:`Session.from_bytes` as ``at_least``: then memory with fewer releases is refused. What no counter shows is
two sessions that go on from one copy at the same time, or an old copy that has meanwhile made as many releases.
"""

import abc
import dataclasses
import functools
import hmac
import json
import math
import os
import struct
import threading
from collections.abc import Callable, Sequence
from fractions import Fraction
from hashlib import blake2b
from typing import Any, ClassVar, NoReturn, SupportsIndex, TypeVar

import numpy as np

from ldp_jax.accounting.guarantee import RECORD, Budget, Guarantee, Unit
from ldp_jax.core.integer_tables import WORDS, Table
from ldp_jax.core.rounding import log_up, rounded_down, rounded_up
from ldp_jax.core.validate import whole
from ldp_jax.deployment import wire
from ldp_jax.deployment._numbers import as_numbers

__all__ = ["BudgetError", "Device", "Memory", "Number", "ReplayError", "Session", "guarantee", "itself"]


def __dir__() -> list[str]:
    return __all__


Number = int | float | np.integer | np.floating
_T = TypeVar("_T")

_WORDS = b"ldp_jax 1 words."
_SAMPLE = b"ldp_jax 1 sample"
_COUNTS = b"ldp_jax 1 counts"
_NAME = b"ldp_jax 1 device"
_MEMORY = b"ldp_jax 2 memory"
_SHARED = b"ldp_jax 2 shared"
_OLD_FORMAT = b'{"format":"ldp-session 1"'
_PER_HASH = 8  # fields whose words come from one hash
_COUNTS_PER_HASH = 4
_REASON = "integer masses; the words are a keyed hash's, uniform to whoever lacks the device's secret"


def itself(given: _T, kind: type[_T]) -> _T:
    """A public object made anew of its fields: what it is charged for, named by and drawn from is one thing.

    A subclass, or a number that somebody kept in the object, has no say in what it loses.

    Raises:
      TypeError: for another kind of object.
    """
    if not isinstance(given, kind):
        raise TypeError(f"expected a {kind.__name__}, got {type(given).__name__}")
    return _made_anew(given, kind)


@functools.lru_cache(maxsize=64)
def _made_anew(given: Any, kind: Any) -> Any:
    return kind(**{field.name: getattr(given, field.name) for field in dataclasses.fields(kind)})


class BudgetError(ValueError):
    """A report would lose more than the device accepts, or more than it has left."""


class ReplayError(ValueError):
    """A field of this table, user and round was reported before: :meth:`Session.resend` gives the same bytes."""


@dataclasses.dataclass(frozen=True, eq=False)
class Device:
    """A device's secret, from which all its random words come.

    Attributes:
      secret: 32 bytes of entropy, to be kept in the platform's key store. Whoever has them can undo the noise. It
        is never printed and refuses to be pickled or copied.

    Raises:
      ValueError: for anything but 32 bytes that can be entropy.

    >>> Device.new()
    Device()
    >>> Device.from_secret(b"seed")
    Traceback (most recent call last):
        ...
    ValueError: a secret is 32 bytes of entropy, got 4 bytes
    """

    secret: bytes = dataclasses.field(repr=False)

    def __post_init__(self) -> None:
        wire.entropy("secret", self.secret)

    @classmethod
    def new(cls) -> "Device":
        """A device with a secret from the operating system."""
        return cls(os.urandom(wire.SECRET_BYTES))

    @classmethod
    def from_secret(cls, secret: bytes) -> "Device":
        """The device whose 32 bytes ``secret`` were stored."""
        return cls(secret)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a device is neither pickled nor copied: keep its secret in a key store")

    @property
    def name(self) -> str:
        """16 hexadecimal digits that tell devices apart and say nothing of their secrets."""
        return self._hash(_NAME)[:8].hex()

    @property
    def shared_key(self) -> bytes:
        """32 bytes to share with the collector, once and in confidence, for keyed checksums.

        They are the first of BLAKE2b keyed with the secret, of "ldp_jax 2 shared": they say nothing of the secret
        or of any word, and need not be stored on the device.
        """
        return self._hash(_SHARED)[: wire.SECRET_BYTES]

    def memory_tag(self, memory: bytes) -> bytes:
        """64 hexadecimal digits that this device alone can make for these bytes, as the module says."""
        key = self._hash(_MEMORY)[: wire.SECRET_BYTES]
        return blake2b(memory, key=key, digest_size=32).hexdigest().encode()

    def words(self, table: Table, fields: np.ndarray | Sequence[int], *, user: int, round: int) -> np.ndarray:
        """The random words of some fields: with them and a report, its record can be bounded. They stay here.

        Args:
          table: the mechanism.
          fields: integers [n] in [0, 2^32).
          user: in [0, 2^64).
          round: in [0, 2^32).

        Returns:
          uint32 [n, 2]: the word that picks the output, and the one that rounds to the grid.
        """
        start = _WORDS + table.digest + struct.pack("<QI", user, round)
        block, place = np.divmod(np.asarray(fields, np.int64), _PER_HASH)
        if len(block) == 1:
            needed, at = block, np.zeros(1, np.intp)
        else:
            needed, at = np.unique(block, return_inverse=True)
        stream = b"".join([self._hash(start + number.to_bytes(4, "little")) for number in needed.tolist()])
        return np.frombuffer(stream, "<u4").reshape(-1, _PER_HASH, 2)[at, place].astype(np.uint32)

    def sample(self, table: Table, dim: int, k: int, *, user: int, round: int) -> list[int]:
        """k of ``dim`` coordinates, each subset equally likely, ascending; the same for the same arguments."""
        start = _SAMPLE + table.digest + struct.pack("<QIII", user, round, k, dim)
        words: list[int] = []
        counter = 0
        chosen: set[int] = set()
        for last in range(dim - k if k < dim else dim, dim):
            while True:
                if not words:
                    words = list(struct.unpack("<16I", self._hash(start + counter.to_bytes(4, "little"))))[::-1]
                    counter += 1
                word = words.pop()
                if word < WORDS - WORDS % (last + 1):
                    break
            at = word % (last + 1)
            chosen.add(last if at in chosen else at)
        return sorted(chosen) if k < dim else list(range(dim))

    def count_words(self, question: bytes, num_groups: int, *, user: int, round: int) -> np.ndarray:
        """The random words of a report on neighbours, as :mod:`ldp_jax.deployment.lists` derives them.

        Args:
          question: its digest, 32 bytes.
          num_groups: K.
          user: in [0, 2^64).
          round: in [0, 2^32).

        Returns:
          uint32 [4, K]: of each count a sign, and a number below 2^96, most significant word first. They stay here.
        """
        start = _COUNTS + question + struct.pack("<QI", user, round)
        blocks = range(-(-num_groups // _COUNTS_PER_HASH))
        stream = b"".join([self._hash(start + number.to_bytes(4, "little")) for number in blocks])
        return np.frombuffer(stream, "<u4").reshape(-1, 4)[:num_groups].T.astype(np.uint32)

    def _hash(self, message: bytes) -> bytes:
        return blake2b(message, key=self.secret).digest()


class Memory(abc.ABC):
    """What one device has released, at what loss, and what its budget has left: what both kinds of session share.

    Safe to share between threads. A subclass says what is released: :class:`Session` and
    :class:`~ldp_jax.deployment.lists.ListSession` do, and have the arguments documented there.
    """

    _format: ClassVar[bytes]  # what a stored memory begins with
    _unit: ClassVar[Unit]  # what the budget is about
    _of: ClassVar[str]  # what has a loss: a table, a question
    _each: ClassVar[str]  # what costs it once
    _adjacency: ClassVar[str]  # of whose histories a guarantee is
    _masses: ClassVar[int]  # masses are below it

    @abc.abstractmethod
    def _held(self, row: list[Any]) -> Any:
        """What a memory's row holds of one release, checked."""

    @abc.abstractmethod
    def _row(self, held: Any) -> list[Any]:
        """The reverse of :meth:`_held`, for JSON."""

    @abc.abstractmethod
    def _many(self, held: Any) -> int:
        """How many times the loss was paid."""

    def __init__(self, device: Device, *, budget: Any, key: bytes | None = None) -> None:
        self._device = device
        self._budget = _checked_budget(budget, self._unit)
        self._key = None if key is None else wire.entropy("key", key)
        if key is not None and hmac.compare_digest(key, device.secret):
            raise ValueError("key is the device's secret, which undoes the noise: share device.shared_key")
        self._losses: dict[bytes, Fraction] = {}  # by the digest of what was used: a ratio of masses
        self._released: dict[tuple[bytes, int, int], Any] = {}  # by digest, user and round
        self._counter = 0
        self._spent = Fraction(0)
        self._lock = threading.Lock()

    @property
    def device(self) -> Device:
        """Whose reports these are."""
        return self._device

    @property
    def budget(self) -> float:
        """The largest epsilon that all releases together may lose."""
        return self._budget

    @property
    def remaining(self) -> float:
        """What the budget has left, rounded down."""
        left = Fraction(self._budget) - self._spent
        return rounded_down(left)

    @property
    def counter(self) -> int:
        """How many releases were ever made: it grows with each. Kept elsewhere, it finds rolled-back memory."""
        return self._counter

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session is neither pickled nor copied, or its budget is spent twice: use to_bytes()")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._device!r}, {self._counter} releases)"

    def spent(self, user: SupportsIndex | None = None) -> Guarantee:
        """What releases cost together (sequential composition over all of them), rounded up.

        Args:
          user: of one user or pseudonym; None for all of the device, which is what the budget bounds.

        Raises:
          ValueError: if user is not an integer in [0, 2^64).
        """
        who = None if user is None else wire.checked_user(user)
        with self._lock:
            releases = [
                (key[0], self._many(held)) for key, held in self._released.items() if who is None or key[1] == who
            ]
            total = sum((_cost(self._losses[digest], n) for digest, n in releases), Fraction(0))
        whose = "one device" if who is None else "one user"
        return Guarantee(
            rounded_up(total),
            unit=self._unit,
            adjacency=f"{self._adjacency.format(whose)}; releases: {sum(n for _, n in releases)}",
            arithmetic="exact",
            status="proved",
            reason=_REASON,
        )

    def to_bytes(self) -> bytes:
        """The memory, to be stored before reports are sent. It holds neither the secret nor any record."""
        with self._lock:
            memory = {
                "budget": self._budget,
                "losses": [[digest.hex(), *loss.as_integer_ratio()] for digest, loss in self._losses.items()],
                "released": [
                    [digest.hex(), user, round, *self._row(held)]
                    for (digest, user, round), held in self._released.items()
                ],
            }
        return _sealed(self._device, self._format, json.dumps(memory, separators=(",", ":")).encode())

    def _restore(self, data: bytes, at_least: SupportsIndex) -> None:
        """Take up what :meth:`to_bytes` wrote; ``from_bytes`` of a subclass says what is refused."""
        known = whole(0, 2**64 - 1, at_least=at_least)
        body = _opened(self._device, self._format, data)
        try:
            memory = json.loads(body)
            self._budget = _checked_budget(memory["budget"], self._unit)
            self._fill(memory["losses"], memory["released"])
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise ValueError(f"no session's memory: {error}") from error
        if self.to_bytes() != data:  # bytes that nothing was read from, a repeat, or another spelling
            raise ValueError("no session's memory: it is not written as to_bytes() writes it")
        if self.counter < known:
            raise ValueError(
                f"rolled back: this memory knows of {self.counter} releases where at least {known} were made"
            )

    def _fill(self, losses: Any, released: Any) -> None:
        """Take up what a memory holds."""
        for digest, high, low in losses:
            name, most = bytes.fromhex(digest), self._masses - 1
            loss = Fraction(whole(1, most, mass=high), whole(1, most, mass=low))
            if len(name) != 32 or name in self._losses or loss < 1:
                raise ValueError(f"a {self._of} twice, or a loss that none has")
            self._losses[name] = loss
        for digest, user, round, *row in released:
            key = (bytes.fromhex(digest), wire.checked_user(user), wire.checked_round(round))
            if key[0] not in self._losses or key in self._released:
                raise ValueError(f"a release of no known {self._of}, or twice the same")
            held = self._released[key] = self._held(row)
            self._pay(self._losses[key[0]], self._many(held))

    def _check_budget(self, loss: Fraction, times: int) -> None:
        """Refuse what the device would not pay for; under the lock.

        Args:
          loss: a ratio of the masses that are sampled from; nothing that they say of themselves.
          times: how often it is paid.
        """
        epsilon = _epsilon(loss)
        if epsilon > self._budget:
            raise BudgetError(
                f"refused, whatever it is called: this {self._of} loses epsilon {epsilon} a {self._each}, and the "
                f"device accepts {self._budget} in all"
            )
        if self._spent + _cost(loss, times) > Fraction(self._budget):
            raise BudgetError(
                f"{times} {self._each}s at epsilon {epsilon} each do not fit: the device accepts {self._budget} in "
                f"all and has {self.remaining} left"
            )

    def _pay(self, loss: Fraction, times: int) -> None:
        self._counter += times
        self._spent += _cost(loss, times)


class Session(Memory):
    """Reports of one device, the memory of what has been released, and its budget: the only way to report.

    The memory holds outputs, never records: nothing that the server has not been sent. Every check depends on
    (table, user, round, field) and on the budget alone, and numbers of any size, infinite or NaN, are reported as
    the table clips them (a missing record is NaN); so no error says anything about a record. Safe to share between
    threads.

    ``user``, ``round`` and ``field`` are integers in [0, 2^64), [0, 2^32) and [0, 2^32).

    Args:
      device: whose reports these are.
      budget: the largest epsilon that all releases of the device together may lose, finite and > 0: a number, or a
        :class:`~ldp_jax.accounting.guarantee.Budget` of records without delta. The cost of a report is computed
        from the masses of the table that it uses; what a table is called or a server says of it is never asked. The
        memory keeps the budget.
      key: 32 bytes that the collector shares (:attr:`Device.shared_key`), for checksums that nobody else can make;
        or None, for plain ones that protect from accident alone. The memory does not keep it.

    Raises:
      ValueError: for a budget or a key that is none.

    >>> from ldp_jax.core.integer_tables import integer_masses
    >>> from ldp_jax.deployment import decode
    >>> masses = integer_masses(np.array([[0.75, 0.25], [0.25, 0.75]]), 1.0986122886681098)
    >>> table = Table("warner", masses, np.float32([-0.5, 1.5]), "category")
    >>> session = Session(Device.from_secret(bytes(range(32))), budget=2.0)
    >>> sent = session.report(table, 1, user=7, round=0)
    >>> decode(sent, table).output.tolist()
    [1]
    >>> session.report(table, 0, user=7, round=0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ldp_jax.deployment.device.ReplayError: 1 fields of user 7, round 0 were reported before: ...
    >>> session.resend(table, user=7, round=0) == sent
    True
    >>> print(session.spent().epsilon)
    1.0986122886681098
    >>> session.report(table, 0, user=8, round=0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ldp_jax.deployment.device.BudgetError: 1 fields at epsilon 1.0986122886681098 each do not fit: ...
    """

    _format = b"ldp-session 2\n"
    _unit = RECORD
    _of, _each = "table", "field"
    _adjacency = "any two histories of {}"
    _masses = WORDS

    def _held(self, row: list[Any]) -> dict[int, int]:
        fields, outputs = row
        held = {wire.checked_field(f): whole(0, 2**16 - 1, output=y) for f, y in zip(fields, outputs, strict=True)}
        if not held or len(held) != len(fields):
            raise ValueError("a release of nothing, or a field twice")
        return held

    def _row(self, held: dict[int, int]) -> list[Any]:
        return [list(held), list(held.values())]

    def _many(self, held: dict[int, int]) -> int:
        return len(held)

    def report(
        self, table: Table, x: Number, *, user: SupportsIndex, round: SupportsIndex, field: SupportsIndex = 0
    ) -> bytes:
        """The report of one number.

        Returns:
          36 bytes.

        Raises:
          ValueError: if user, round or field is not an integer in its range.
          TypeError: if x is not a real number.
          ReplayError: if the field was reported before, whatever the record.
          BudgetError: if the table loses more than the device accepts or has left, whatever the record.
        """
        who, when, where = wire.checked_user(user), wire.checked_round(round), wire.checked_field(field)
        return self._release(table, lambda: _number(x), [where], who, when)

    def report_many(
        self,
        table: Table,
        xs: np.ndarray | Sequence[Number],
        *,
        user: SupportsIndex,
        round: SupportsIndex,
    ) -> bytes:
        """The report of every coordinate of a vector, each with words of its own: d releases.

        Args:
          table: the mechanism of each coordinate.
          xs: [d] numbers, of fields 0 to d - 1.
          user: who.
          round: when.

        Returns:
          36 d bytes, by field.

        Raises:
          ValueError: if user or round is out of its range or xs is no vector.
          TypeError: if xs holds anything but real numbers.
          ReplayError: if any of the fields was reported before; nothing is released then.
          BudgetError: if all d together lose more than the device accepts or has left; nothing is released then.
        """
        who, when = wire.checked_user(user), wire.checked_round(round)
        many = _length(xs)
        return self._release(table, lambda: _vector(xs, many), list(range(many)), who, when)

    def report_sampled(
        self,
        table: Table,
        xs: np.ndarray | Sequence[Number],
        k: SupportsIndex,
        *,
        user: SupportsIndex,
        round: SupportsIndex,
    ) -> bytes:
        """The reports of k coordinates drawn without replacement: k releases. Which ones says nothing of xs.

        Args:
          table: the mechanism of each coordinate.
          xs: [d] numbers, of fields 0 to d - 1.
          k: how many of them, 1 to d.
          user: who.
          round: when.

        Returns:
          36 k bytes, by field.

        Raises:
          ValueError: if user, round or k is out of its range or xs is no vector.
          TypeError: if xs holds anything but real numbers.
          ReplayError: if anything of this table, user and round was reported before.
          BudgetError: if k releases lose more than the device accepts or has left.
        """
        who, when = wire.checked_user(user), wire.checked_round(round)
        dim = _length(xs)
        many = whole(1, dim, k=k)
        table = itself(table, Table)
        fields = self._device.sample(table, dim, many, user=who, round=when)
        return self._release(table, lambda: _vector(xs, dim)[fields], fields, who, when, alone=True)

    def resend(
        self,
        table: Table,
        *,
        user: SupportsIndex,
        round: SupportsIndex,
        field: SupportsIndex | None = None,
        as_round: SupportsIndex | None = None,
    ) -> bytes:
        """The bytes of an earlier report, for a retry: of one field, or of all fields of a round, by field.

        It costs nothing: the collector has, or was sent, the same outputs.

        Args:
          table: that the report was made by.
          user: who.
          round: when it was made.
          field: which one; None for all.
          as_round: the round's number that the bytes carry, by default ``round``: for an answer that is kept
            (:mod:`ldp_jax.deployment.permanent`).

        Raises:
          ValueError: if there was none, or an argument is out of its range.
        """
        who, when = wire.checked_user(user), wire.checked_round(round)
        where = None if field is None else wire.checked_field(field)
        label = when if as_round is None else wire.checked_round(as_round)
        table = itself(table, Table)
        with self._lock:
            known = self._released.get((table.digest, who, when), {})
            fields = sorted(known) if where is None else [where] * (where in known)
            if not fields:
                raise ValueError(f"nothing to resend for user {who}, round {when}")
            return wire.pack(table, fields, [known[f] for f in fields], who, label, self._key)

    @classmethod
    def from_bytes(
        cls, device: Device, data: bytes, *, at_least: SupportsIndex = 0, key: bytes | None = None
    ) -> "Session":
        """Go on where :meth:`to_bytes` left off, within the same budget.

        Args:
          device: whose memory it is.
          data: the memory.
          at_least: the newest :attr:`counter` that is known from elsewhere. Without it a whole older copy is taken
            for the newest, and what it forgot can be released again.
          key: as for a new session.

        Raises:
          ValueError: if the memory is damaged, edited, another device's, of another version, or rolled back behind
            ``at_least``: with it words could be used twice, and the budget be spent twice. Or if key is none.
        """
        session = cls(device, budget=math.ulp(0.0), key=key)
        session._restore(data, at_least)
        return session

    def _release(
        self,
        table: Table,
        record: Callable[[], np.ndarray],
        fields: list[int],
        user: int,
        round: int,
        *,
        alone: bool = False,
    ) -> bytes:
        """Check, and only then look at the record: so no refusal can depend on it."""
        table = itself(table, Table)
        key = (table.digest, user, round)
        with self._lock:
            known = self._released.get(key, {})
            again = len(known) if alone else sum(field in known for field in fields)
            if again:
                raise ReplayError(
                    f"{again} fields of user {user}, round {round} were reported before: resend() gives those bytes"
                )
            loss = table.loss
            self._check_budget(loss, len(fields))
            records = record()
            words = self._device.words(table, np.array(fields, np.int64), user=user, round=round)
            outputs = table.report(records, words[:, 0], words[:, 1])
            sent = wire.pack(table, fields, outputs, user, round, self._key)
            self._losses[key[0]] = loss
            self._released.setdefault(key, {}).update(zip(fields, outputs.tolist(), strict=True))
            self._pay(loss, len(fields))
        return sent


def guarantee(table: Table, k: SupportsIndex = 1) -> Guarantee:
    """What one report of k fields costs: k times the table's epsilon, rounded up.

    Raises:
      ValueError: if k is not an integer >= 1.
    """
    many = whole(1, WORDS - 1, k=k)
    fields = "" if many == 1 else f", {many} fields of each reported"
    return Guarantee(
        rounded_up(_cost(itself(table, Table).loss, many)),
        adjacency=f"any two records of one user{fields}",
        arithmetic="exact",
        status="proved",
        reason=_REASON,
    )


def _checked_budget(budget: Any, unit: Unit) -> float:
    """A finite epsilon > 0 of a unit: a number or a budget."""
    if isinstance(budget, Budget) and (budget.unit != unit or budget.delta):
        raise ValueError(f"budget must be of {unit}s and without delta, as the loss here is; got {budget}")
    epsilon = budget.epsilon if isinstance(budget, Budget) else budget
    if isinstance(epsilon, (int, float, np.integer, np.floating)) and not isinstance(epsilon, bool):
        try:
            value = float(epsilon)
        except OverflowError:
            value = math.inf
        if 0.0 < value < math.inf:
            return value
    raise ValueError(f"budget must be a finite epsilon > 0, got {type(budget).__name__}: {epsilon!r:.40}")


@functools.lru_cache(maxsize=64)
def _epsilon(loss: Fraction) -> float:
    """A privacy loss, rounded up; sixty digits of a logarithm take as long as the rest of a report."""
    return log_up(loss)


def _cost(loss: Fraction, times: int) -> Fraction:
    """Epsilon of ``times`` releases: the logarithm is rounded up to a float, the rest is exact."""
    return times * Fraction(_epsilon(loss))


def _sealed(device: Device, start: bytes, body: bytes) -> bytes:
    head = start + device.name.encode() + b"\n"
    return head + device.memory_tag(head + body) + b"\n" + body


def _opened(device: Device, start: bytes, data: bytes) -> bytes:
    """The body of a memory that this device has written."""
    if data.startswith(_OLD_FORMAT):
        raise ValueError(
            "this memory is of version 1, which anybody could edit: begin anew, with a new device; with the old "
            "secret words would be used twice"
        )
    size = len(start) + 17
    head, tag, body = data[:size], data[size : size + 65], data[size + 65 :]
    if not head.startswith(start):
        raise ValueError(f"no session's memory: expected it to begin with {start!r}")
    if head[len(start) :] != device.name.encode() + b"\n":
        raise ValueError("no session's memory of this device: another device's, or damaged")
    if not hmac.compare_digest(tag, device.memory_tag(head + body) + b"\n"):
        raise ValueError("no session's memory: damaged or edited, its tag is not this device's")
    return body


def _length(xs: Any) -> int:
    """How many numbers a vector has, without a look at them."""
    try:
        many = len(xs)
    except TypeError:
        many = 0
    if not 1 <= many < WORDS:
        raise ValueError("xs must be a vector of at least one number")
    return many


def _number(x: Any) -> np.ndarray:
    record = as_numbers(x)
    if record.shape:
        raise ValueError(f"x must be one number, got shape {record.shape}: report_many takes a vector")
    return record[None]


def _vector(xs: Any, many: int) -> np.ndarray:
    records = as_numbers(xs)
    if records.shape != (many,):
        raise ValueError(f"xs must be a vector of at least one number, got shape {records.shape}")
    return records
