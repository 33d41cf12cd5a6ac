"""The user's device: integer tables, the operating system's entropy, report bytes. No JAX, no floating-point noise.

A device holds 32 secret bytes and the server's :class:`Table`; a :class:`Session` turns records into report bytes
and remembers what it has released; the server reads the bytes with :func:`decode`.

**Words.** Field f of a (table, user, round) is reported with two 32-bit words of its own: one picks the output, one
rounds the record to the grid. They are bytes 8 (f mod 8) to 8 (f mod 8) + 7 of the 64 bytes of BLAKE2b keyed with
the secret, of ::

    "ldp_jax 1 words." | SHA-256 of the table (32 bytes) | user (8) | round (4) | floor(f / 8) (4)

Every part has a fixed length, integers and words are little-endian, so that no two fields share words. Nothing of
the record enters. The coordinates of :meth:`Session.report_sampled` come from 16 words at a time of ::

    "ldp_jax 1 sample" | SHA-256 of the table (32) | user (8) | round (4) | k (4) | d (4) | counter (4)

by Floyd's algorithm: for j = d - k, ..., d - 1 take t uniform in 0, ..., j (a word w below the largest multiple of
j + 1 up to 2^32 gives w mod (j + 1); others are skipped) and add t to the set, or j where t is in it already.

**Report bytes.** 28 bytes a field, little-endian, no padding (:data:`REPORT`)::

    0  version  2 bytes, 1
    2  table    8 bytes, the first of the table's SHA-256
    10 user     8 bytes
    18 round    4 bytes
    22 field    4 bytes
    26 output   2 bytes

They are neither encrypted nor signed: who reported, and which fields, is no secret of local privacy, and that a
report comes from its user is the transport's to establish.

**What is guaranteed.** Each (table, user, round, field) is one release, at the table's epsilon: exact, because the
probabilities are integers over 2^32, towards anyone who cannot tell keyed BLAKE2b from uniform words. Releases add
up (:meth:`Session.spent`). Averaging repeated reports gains nothing: asking again gives the same bytes. Two reports
of *different* records under the same words would lose more than two epsilons, so a session refuses to report a
field twice, whatever the record: what it raises must not depend on a record either. A retry takes no record
(:meth:`Session.resend`). This holds as long as the session's memory is kept: store :meth:`Session.to_bytes` before
bytes are sent, and use one session a device.
"""

import dataclasses
import json
import math
import operator
import os
import struct
import threading
from collections.abc import Iterable, Sequence
from fractions import Fraction
from hashlib import blake2b
from typing import Any, NamedTuple, NoReturn, SupportsIndex

import numpy as np

from ldp_jax._tables import WORDS, Table
from ldp_jax.guarantee import Guarantee

__all__ = [
    "REPORT",
    "TRIPLE",
    "VERSION",
    "Decoded",
    "Device",
    "Rejected",
    "ReplayError",
    "Session",
    "Table",
    "Vectors",
    "decode",
    "guarantee",
    "vectors",
]

VERSION = 1
"""Of the report bytes and of the derivation of words."""

REPORT = np.dtype(
    [
        ("version", "<u2"),
        ("table", "<u8"),
        ("user", "<u8"),
        ("round", "<u4"),
        ("field", "<u4"),
        ("output", "<u2"),
    ]
)
"""One report: 28 bytes."""

TRIPLE = np.dtype([("user", "<u8"), ("round", "<u4"), ("field", "<u4")])
"""What :func:`decode` remembers of a report, for one table."""

Number = int | float | np.integer | np.floating

_WORDS = b"ldp_jax 1 words."
_SAMPLE = b"ldp_jax 1 sample"
_NAME = b"ldp_jax 1 device"
_LEDGER = "ldp-session 1"
_PER_HASH = 8  # fields whose words come from one hash
_REASON = "integer masses; the words are a keyed hash's, uniform to whoever lacks the device's secret"


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
    ValueError: a secret is 32 bytes of entropy, got 4 bytes: whoever can guess it can undo the noise
    """

    secret: bytes = dataclasses.field(repr=False)

    def __post_init__(self) -> None:
        secret: Any = self.secret
        if not isinstance(secret, bytes):
            raise ValueError(
                f"a secret is 32 bytes of entropy, got {type(secret).__name__}: a seed can be guessed, and whoever "
                "guesses it can undo the noise; use Device.new()"
            )
        if len(secret) != 32:
            raise ValueError(
                f"a secret is 32 bytes of entropy, got {len(secret)} bytes: whoever can guess it can undo the noise"
            )
        if len(set(secret)) < 8:  # entropy looks so with probability below 1e-30
            raise ValueError("a secret is 32 bytes of entropy: this looks like a small seed that was padded")

    @classmethod
    def new(cls) -> "Device":
        """A device with a secret from the operating system."""
        return cls(os.urandom(32))

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

    def _hash(self, message: bytes) -> bytes:
        return blake2b(message, key=self.secret).digest()


class Session:
    """Reports of one device, and the memory of what has been released: the only way to report.

    The memory holds outputs, never records: nothing that the server has not been sent. Every check depends on
    (table, user, round, field) alone, and numbers of any size, infinite or NaN, are reported as the table clips
    them (a missing record is NaN); so no error says anything about a record. Safe to share between threads.

    ``user``, ``round`` and ``field`` are integers in [0, 2^64), [0, 2^32) and [0, 2^32).

    >>> from ldp_jax._tables import integer_masses
    >>> masses = integer_masses(np.array([[0.75, 0.25], [0.25, 0.75]]), 1.0986122886681098)
    >>> table = Table("warner", masses, np.float32([-0.5, 1.5]), "category")
    >>> session = Session(Device.from_secret(bytes(range(32))))
    >>> sent = session.report(table, 1, user=7, round=0)
    >>> decode(sent, table).output.tolist()
    [1]
    >>> session.report(table, 0, user=7, round=0)
    Traceback (most recent call last):
        ...
    ldp_jax.client.ReplayError: 1 fields of user 7, round 0 were reported before: resend() gives those bytes
    >>> session.resend(table, user=7, round=0) == sent
    True
    >>> print(session.spent(7).epsilon)
    1.0986122886681098
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._epsilons: dict[bytes, float] = {}
        self._released: dict[tuple[bytes, int, int], dict[int, int]] = {}
        self._lock = threading.Lock()

    @property
    def device(self) -> Device:
        """Whose reports these are."""
        return self._device

    def __repr__(self) -> str:
        return f"Session({self._device!r}, {sum(map(len, self._released.values()))} releases)"

    def report(
        self, table: Table, x: Number, *, user: SupportsIndex, round: SupportsIndex, field: SupportsIndex = 0
    ) -> bytes:
        """The report of one number.

        Returns:
          28 bytes.

        Raises:
          ValueError: if user, round or field is not an integer in its range.
          TypeError: if x is not a real number.
          ReplayError: if the field was reported before, whatever the record.
        """
        who, when, where = _user(user), _round(round), _whole("field", field, WORDS)
        record = _records(x)
        if record.shape:
            raise ValueError(f"x must be one number, got shape {record.shape}: report_many takes a vector")
        return self._release(table, record[None], [where], who, when)

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
          28 d bytes, by field.

        Raises:
          ValueError: if user or round is out of its range or xs is no vector.
          TypeError: if xs holds anything but real numbers.
          ReplayError: if any of the fields was reported before; nothing is released then.
        """
        who, when = _user(user), _round(round)
        records = _vector(xs)
        return self._release(table, records, list(range(len(records))), who, when)

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
          28 k bytes, by field.

        Raises:
          ValueError: if user, round or k is out of its range or xs is no vector.
          TypeError: if xs holds anything but real numbers.
          ReplayError: if anything of this table, user and round was reported before.
        """
        who, when = _user(user), _round(round)
        records = _vector(xs)
        many = _whole("k", k, len(records) + 1, least=1)
        fields = self._device.sample(table, len(records), many, user=who, round=when)
        return self._release(table, records[fields], fields, who, when, alone=True)

    def resend(
        self,
        table: Table,
        *,
        user: SupportsIndex,
        round: SupportsIndex,
        field: SupportsIndex | None = None,
    ) -> bytes:
        """The bytes of an earlier report, for a retry: of one field, or of all fields of a round, by field.

        Raises:
          ValueError: if there was none, or an argument is out of its range.
        """
        who, when = _user(user), _round(round)
        where = None if field is None else _whole("field", field, WORDS)
        with self._lock:
            known = self._released.get((table.digest, who, when), {})
            fields = sorted(known) if where is None else [where] * (where in known)
            if not fields:
                raise ValueError(f"nothing to resend for user {who}, round {when}")
            return _pack(table, fields, [known[f] for f in fields], who, when)

    def spent(self, user: SupportsIndex) -> Guarantee:
        """What all releases of one user cost together (sequential composition over tables, rounds and fields)."""
        who = _user(user)
        with self._lock:
            releases = [(key[0], len(outputs)) for key, outputs in self._released.items() if key[1] == who]
            total = sum((Fraction(self._epsilons[digest]) * n for digest, n in releases), Fraction(0))
        return Guarantee(
            _float_up(total),
            adjacency=f"any two histories of one user; releases: {sum(n for _, n in releases)}",
            arithmetic="exact",
            status="proved",
            reason=_REASON,
        )

    def to_bytes(self) -> bytes:
        """The memory, to be stored before reports are sent. It holds neither the secret nor any record."""
        with self._lock:
            memory = {
                "format": _LEDGER,
                "device": self._device.name,
                "epsilons": {digest.hex(): epsilon for digest, epsilon in self._epsilons.items()},
                "released": [
                    [digest.hex(), user, round, list(outputs), list(outputs.values())]
                    for (digest, user, round), outputs in self._released.items()
                ],
            }
        return json.dumps(memory, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, device: Device, data: bytes) -> "Session":
        """Go on where :meth:`to_bytes` left off.

        Raises:
          ValueError: if the memory is damaged, or another device's: its words would be used twice.
        """
        session = cls(device)
        try:
            memory = json.loads(data)
            if memory["format"] != _LEDGER:
                raise ValueError(f"expected {_LEDGER}")
            if memory["device"] != device.name:
                raise ValueError("it is another device's")
            session._epsilons = {bytes.fromhex(digest): float(e) for digest, e in memory["epsilons"].items()}
            if not all(0.0 <= epsilon < math.inf for epsilon in session._epsilons.values()):
                raise ValueError("an epsilon that no table has")
            for digest, user, round, fields, outputs in memory["released"]:
                key = (bytes.fromhex(digest), _user(user), _round(round))
                if key[0] not in session._epsilons or key in session._released:
                    raise ValueError("a release of no known table, or twice the same")
                session._released[key] = {
                    _whole("field", f, WORDS): _whole("output", y, 2**16)
                    for f, y in zip(fields, outputs, strict=True)
                }
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"no session's memory: {error}") from error
        return session

    def _release(
        self,
        table: Table,
        records: np.ndarray,
        fields: list[int],
        user: int,
        round: int,
        *,
        alone: bool = False,
    ) -> bytes:
        key = (table.digest, user, round)
        with self._lock:
            known = self._released.get(key, {})
            again = len(known) if alone else sum(field in known for field in fields)
            if again:
                raise ReplayError(
                    f"{again} fields of user {user}, round {round} were reported before: resend() gives those bytes"
                )
            words = self._device.words(table, np.array(fields, np.int64), user=user, round=round)
            outputs = table.report(records, words[:, 0], words[:, 1])
            if key[0] not in self._epsilons:
                self._epsilons[key[0]] = table.epsilon
            self._released.setdefault(key, {}).update(zip(fields, outputs.tolist(), strict=True))
        return _pack(table, fields, outputs, user, round)


def guarantee(table: Table, k: SupportsIndex = 1) -> Guarantee:
    """What one report of k fields costs: k times the table's epsilon, rounded up.

    Raises:
      ValueError: if k is not an integer >= 1.
    """
    many = _whole("k", k, WORDS, least=1)
    fields = "" if many == 1 else f", {many} fields of each reported"
    return Guarantee(
        _float_up(many * Fraction(table.epsilon)),
        adjacency=f"any two records of one user{fields}",
        arithmetic="exact",
        status="proved",
        reason=_REASON,
    )


class Rejected(NamedTuple):
    """How many reports were refused, each for the first reason that applies."""

    version: int
    table: int
    output: int
    replayed: int


@dataclasses.dataclass(frozen=True, eq=False)
class Decoded:
    """Reports that were accepted, in the order of the data.

    Attributes:
      user: uint64 [n].
      round: uint32 [n].
      field: uint32 [n].
      output: int32 [n], below ``table.outputs``.
      estimate: float32 [n] or [n, size]: ``table.values`` of the outputs.
      rejected: how many were not.
      seen: :data:`TRIPLE` [m], ascending and distinct: for the next call.
    """

    user: np.ndarray
    round: np.ndarray
    field: np.ndarray
    output: np.ndarray
    estimate: np.ndarray
    rejected: Rejected
    seen: np.ndarray


def decode(data: bytes, table: Table, *, seen: np.ndarray | None = None) -> Decoded:
    """Read reports on the server; pure, and without a Python loop.

    Reports of another version, of another table or with an output the table has not are counted and left out; so is
    every report of a (user, round, field) but the first, within the data and after earlier calls. Averaging replays
    would cost nobody privacy, but would let one user count more than once.

    Args:
      data: whole reports, one after the other. Check the length of each upload before joining several.
      table: the mechanism they should come from.
      seen: what the last call on reports *of this table* returned, or None.

    Raises:
      ValueError: if the length of data is not a multiple of 28 (then nothing says where a report begins), or seen
        is not an array of :data:`TRIPLE`.
    """
    if len(data) % REPORT.itemsize:
        raise ValueError(f"reports are {REPORT.itemsize} bytes each, got {len(data)} bytes: truncated?")
    seen = np.zeros(0, TRIPLE) if seen is None else seen
    if seen.dtype != TRIPLE or seen.ndim != 1:
        raise ValueError(f"seen must be TRIPLE [m], got {seen.dtype} {seen.shape}")
    reports = np.frombuffer(data, REPORT)
    version = reports["version"] == VERSION
    known = version & (reports["table"] == _prefix(table))
    good = known & (reports["output"] < table.outputs)
    reports = reports[good]

    # One stable sort of the old and the new: the first of equal triples comes first.
    user = np.concatenate([seen["user"], reports["user"]]).astype(np.uint64)
    place = _place(
        np.concatenate([seen["round"], reports["round"]]), np.concatenate([seen["field"], reports["field"]])
    )
    order = np.lexsort((place, user))
    new = _changes(user[order], place[order])
    first = np.zeros(len(order), bool)
    first[order] = new
    triples = np.zeros(int(new.sum()), TRIPLE)
    triples["user"] = user[order][new]
    triples["round"] = place[order][new] >> np.uint64(32)
    triples["field"] = place[order][new] & np.uint64(WORDS - 1)

    kept = reports[first[len(seen) :]]
    output = kept["output"].astype(np.int32)
    return Decoded(
        user=kept["user"].astype(np.uint64),
        round=kept["round"].astype(np.uint32),
        field=kept["field"].astype(np.uint32),
        output=output,
        estimate=table.values[output],
        rejected=Rejected(
            version=int((~version).sum()),
            table=int((version & ~known).sum()),
            output=int((known & ~good).sum()),
            replayed=len(reports) - len(kept),
        ),
        seen=triples,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Vectors:
    """Decoded fields, one row a (user, round), ascending.

    Attributes:
      user: uint64 [n].
      round: uint32 [n].
      index: int32 [n, k], ascending in each row: which coordinates.
      output: int32 [n, k]: what was reported of them.
      incomplete: how many (user, round) were left out.
    """

    user: np.ndarray
    round: np.ndarray
    index: np.ndarray
    output: np.ndarray
    incomplete: int


def vectors(decoded: Decoded, k: int, dim: int) -> Vectors:
    """Put the fields of each user's vector together: those (user, round) with exactly k fields, all below ``dim``.

    Raises:
      ValueError: if not 1 <= k <= dim < 2^31.
    """
    k = _whole("k", k, dim + 1, least=1)
    dim = _whole("dim", dim, 2**31, least=1)
    order = np.lexsort((_place(decoded.round, decoded.field), decoded.user))
    user, round, field = decoded.user[order], decoded.round[order], decoded.field[order]
    start = np.flatnonzero(_changes(user, round))
    size = np.diff(np.append(start, len(user)))
    whole = (size == k) & (field[start + size - 1] < dim)
    at = start[whole][:, None] + np.arange(k)
    return Vectors(
        user=user[at[:, 0]],
        round=round[at[:, 0]],
        index=field[at].astype(np.int32),
        output=decoded.output[order][at],
        incomplete=len(start) - len(at),
    )


def _place(round: np.ndarray, field: np.ndarray) -> np.ndarray:
    return (round.astype(np.uint64) << np.uint64(32)) | field.astype(np.uint64)


def _changes(user: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Where a sorted pair of columns differs from the row before."""
    new = np.ones(len(user), bool)
    new[1:] = (user[1:] != user[:-1]) | (other[1:] != other[:-1])
    return new


def _prefix(table: Table) -> int:
    return int.from_bytes(table.digest[:8], "little")


def _pack(table: Table, fields: Sequence[int], outputs: Iterable[int] | np.ndarray, user: int, round: int) -> bytes:
    if len(fields) == 1:
        return struct.pack("<HQQIIH", VERSION, _prefix(table), user, round, fields[0], *outputs)
    reports = np.zeros(len(fields), REPORT)
    reports["version"], reports["table"], reports["user"], reports["round"] = VERSION, _prefix(table), user, round
    reports["field"], reports["output"] = fields, outputs
    return reports.tobytes()


def _user(user: SupportsIndex) -> int:
    return _whole("user", user, 2**64)


def _round(round: SupportsIndex) -> int:
    return _whole("round", round, WORDS)


def _whole(name: str, value: Any, bound: int, least: int = 0) -> int:
    """An integer in [least, bound), where bool is none."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, (bool, np.bool_)) or not least <= number < bound:
        raise ValueError(f"{name} must be an integer in [{least}, {bound}), got {value!r}")
    return number


def _vector(xs: Any) -> np.ndarray:
    records = _records(xs)
    if records.ndim != 1 or not 1 <= len(records) < WORDS:
        raise ValueError(f"xs must be a vector of at least one number, got shape {records.shape}")
    return records


def _records(x: Any) -> np.ndarray:
    """Numbers as float32, without an error or a warning that depends on how large they are."""
    numbers = np.asarray(x)
    if numbers.dtype == object:  # integers beyond 64 bits, or no numbers
        numbers = np.array([_float(number) for number in numbers.ravel().tolist()]).reshape(numbers.shape)
    if numbers.dtype.kind not in "biuf":
        raise TypeError(f"records must be real numbers, got {numbers.dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        return numbers.astype(np.float32)


def _float(number: Any) -> float:
    if not isinstance(number, (int, float, np.integer, np.floating)):
        raise TypeError(f"records must be real numbers, got {type(number).__name__}")
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _float_up(exact: Fraction | int) -> float:
    nearest = float(exact)
    return math.nextafter(nearest, math.inf) if Fraction(nearest) < exact else nearest
