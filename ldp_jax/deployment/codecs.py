r"""Draw, write, keep and read reports: of numbers by a table, of neighbours by a question.

**Fields of a table**: 36 bytes each, little-endian (:data:`REPORT`)::

    0  version   2 bytes, 2
    2  table     8 bytes, the first of the table's SHA-256
    10 user      8 bytes
    18 round     4 bytes
    22 field     4 bytes
    26 output    2 bytes
    28 checksum  8 bytes: BLAKE2b with a digest of 8 bytes of "ldp_jax 2 report" | bytes 0 to 27

**Numbers about neighbours**: 32 + 4 K bytes (:func:`layout`)::

    0        version     2 bytes, 257: no report of a field begins so
    2        size        2 bytes, K
    4        question    8 bytes, the first of the question's SHA-256
    12       user        8 bytes
    20       round       4 bytes
    24       numbers     4 K bytes, signed: noise may be below zero
    24 + 4 K checksum    8 bytes: BLAKE2b with a digest of 8 bytes of "ldp_jax 1 answer" | the rest

Numbers do not spell a digest: where the first twelve bytes stand again before a report has ended,
it was cut, so reading takes linear time. Reports of other questions are told from damage where they
follow each other.
"""

import dataclasses
import functools
import hmac
import struct
from collections.abc import Iterable, Sequence, Sized
from fractions import Fraction
from hashlib import blake2b
from typing import Any, SupportsIndex, TypeAlias, TypeVar

import numpy as np

from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RECORD
from ldp_jax.core.checksum import Public, as_bytes
from ldp_jax.core.integer_tables import WORDS, Table
from ldp_jax.core.list_ids import host_ids
from ldp_jax.core.validate import require, whole
from ldp_jax.deployment import wire
from ldp_jax.deployment.device import Device
from ldp_jax.deployment.neighbours import MAX_NUMBERS, NeighbourQuestion
from ldp_jax.deployment.pairs import Pairs
from ldp_jax.deployment.question import Question
from ldp_jax.deployment.subgraphs import Stars, Triangles

_T = TypeVar("_T", bound=Public)

REPORT = np.dtype(
    [
        ("version", "<u2"),
        ("table", "<u8"),
        ("user", "<u8"),
        ("round", "<u4"),
        ("field", "<u4"),
        ("output", "<u2"),
        ("checksum", "<u8"),
    ]
)
"""One report of a field: 36 bytes."""

_QUESTIONS = (Pairs, Stars, Triangles)  # beside that for counts by group
_VERSION = 2
_NUMBERS_VERSION = (257).to_bytes(2, "little")
_NUMBERS_HEAD = 24  # bytes before the numbers


def itself(given: object, kind: type[_T]) -> _T:
    """Rebuild a public object from its fields: one thing is charged for, named and drawn from.

    A subclass, or a value that was cached in the object, has no say in what it loses.
    """
    if not isinstance(given, kind):
        hint = ": give the table() of a mechanism of whole numbers" if kind is Table else ""
        raise TypeError(f"expected a {kind.__name__}, got {type(given).__name__}{hint}")
    made = _kept(given, kind)  # of whatever said first that it has this digest
    return made if made.digest == given.digest else _of_its_fields(given, kind)


def _of_its_fields(given: Any, kind: Any) -> Any:
    return kind(**{field.name: getattr(given, field.name) for field in dataclasses.fields(kind)})


_kept = functools.lru_cache(maxsize=64)(_of_its_fields)


class FieldReports:
    """Reports of numbers by one table, a field each."""

    unit = RECORD
    memory = b"ldp-session 2\n"  # the start of a stored memory
    of, each = "table", "field"  # what has a loss, and what costs it once
    adjacency = "any two histories of {}"
    most = WORDS - 1  # the largest mass
    tag = b"ldp_jax 2 report"  # the start of a checksum
    mark = _VERSION.to_bytes(2, "little")  # the start of every report
    rare = False  # whether no report holds its mark a second time
    layout = REPORT
    user = staticmethod(wire.checked_user)
    round = staticmethod(wire.checked_round)
    times = staticmethod(len)

    def __init__(self, table: Table) -> None:
        self.table = itself(table, Table)
        self.digest = self.table.digest
        self._prefix = int.from_bytes(self.digest[:8], "little")

    @property
    def loss(self) -> Fraction:
        """The largest ratio of the table's masses."""
        return self.table.loss

    def draw(
        self, device: Device, fields: Sequence[int], record: object, user: int, round: int
    ) -> np.ndarray:
        """``record`` holds the number of each field."""
        words = device.words(self.table, np.array(fields, np.int64), user=user, round=round)
        return self.table.report(record, words[:, 0], words[:, 1])

    def pack(
        self,
        fields: Sequence[int],
        outputs: Iterable[int] | np.ndarray,
        user: int,
        round: int,
        key: bytes | None,
    ) -> bytes:
        """36 bytes a field."""
        start = wire.tag_start(self.tag, key)
        if len(fields) == 1:  # five times as fast as an array of one
            signed = struct.pack(
                "<HQQIIH", _VERSION, self._prefix, user, round, fields[0], *outputs
            )
            return signed + wire.tag(start, signed)
        reports = np.zeros(len(fields), REPORT)
        reports["version"], reports["table"] = _VERSION, self._prefix
        reports["user"], reports["round"] = user, round
        reports["field"], reports["output"] = fields, outputs
        data = reports.tobytes()
        size = REPORT.itemsize
        signed = (data[at : at + size - wire.TAG_BYTES] for at in range(0, len(data), size))
        reports["checksum"] = np.frombuffer(b"".join(wire.tag(start, one) for one in signed), "<u8")
        return reports.tobytes()

    @staticmethod
    def row(held: dict[int, int]) -> list[Any]:
        """Fields, and their outputs."""
        return [list(held), list(held.values())]

    @staticmethod
    def held(row: list[Any]) -> dict[int, int]:
        """Outputs by field."""
        fields, outputs = row
        return {
            wire.checked_field(field): whole(0, 2**16 - 1, output=output)
            for field, output in zip(fields, outputs, strict=True)
        }

    def others(self, stretch: bytes, start: blake2b) -> tuple[int, int]:
        """Reports about something else, and damaged bytes.

        All, since :meth:`known` leaves other tables' out.
        """
        return 0, len(stretch)

    def known(self, reports: np.ndarray) -> np.ndarray:
        """Which reports name this table, by the first 8 bytes of its digest."""
        return reports["table"] == self._prefix

    def possible(self, reports: np.ndarray) -> np.ndarray:
        """Which reports have an output of the table."""
        return reports["output"] < self.table.outputs

    def output(self, reports: np.ndarray) -> np.ndarray:
        """[n]."""
        return reports["output"].astype(np.int32)

    def estimate(self, output: np.ndarray) -> np.ndarray:
        """The table's values."""
        return self.table.values[output]


@functools.lru_cache(maxsize=64)
def layout(size: int) -> np.dtype:
    """One report of K numbers: 32 + 4 K bytes.

    >>> layout(10).itemsize
    72
    """
    return np.dtype(
        [
            ("version", "<u2"),
            ("size", "<u2"),
            ("question", "V8"),
            ("user", "<u8"),
            ("round", "<u4"),
            ("numbers", "<i4", (whole(1, MAX_NUMBERS, size=size),)),
            ("checksum", "V8"),
        ]
    )


class NeighbourReports:
    """Reports of neighbours by one question: K numbers, whole or none."""

    unit = NEIGHBOUR_LIST
    memory = b"ldp-lists 1\n"
    of, each = "question", "report"
    adjacency = "any two histories of {} that differ in one neighbour"
    most = 2**97
    tag = b"ldp_jax 1 answer"
    rare = True

    def __init__(self, question: NeighbourQuestion) -> None:
        kinds = (kind for kind in _QUESTIONS if isinstance(question, kind))
        self.question = itself(question, next(kinds, Question))
        self.digest = self.question.digest
        self.layout = layout(self.question.numbers)
        size = self.question.numbers.to_bytes(2, "little")
        self.mark = _NUMBERS_VERSION + size + self.digest[:8]

    @property
    def loss(self) -> Fraction:
        """The largest ratio of the probabilities of one report."""
        return self.question.loss

    def user(self, user: SupportsIndex | None) -> int:
        """Check that a user is a node of the graph who is not silent."""
        node = whole(0, self.question.num_nodes - 1, user=user)
        owners = self.question.owners
        asked = owners is None or not owners.silent[node]
        require(asked, f"user {node} is silent: the other end reports each pair")
        return node

    def round(self, round: SupportsIndex | None) -> int:
        """The question's round; no other may be named."""
        own = self.question.round
        return own if round is None else whole(own, own, round=round)

    @staticmethod
    def times(fields: Sized, /) -> int:
        """Once for all numbers: one bit of a list moves one of them."""
        return 1

    def draw(
        self, device: Device, fields: Sequence[int], record: object, user: int, round: int
    ) -> np.ndarray:
        """``record`` is a list of neighbours; anything but an id of another node is dropped."""
        question = self.question
        known = np.unique(host_ids(record, question.num_nodes))
        known = known[(known < question.num_nodes) & (known != user)]
        if question.owners is not None:
            known = known[question.owners.owns(user, known)]
        return question.report(device, known, user)

    def pack(
        self,
        fields: Sequence[int],
        outputs: Sequence[int] | np.ndarray,
        user: int,
        round: int,
        key: bytes | None,
    ) -> bytes:
        """32 + 4 K bytes."""
        signed = self.mark + user.to_bytes(8, "little") + round.to_bytes(4, "little")
        signed += np.asarray(outputs, "<i4").tobytes()
        return signed + wire.tag(wire.tag_start(self.tag, key), signed)

    @staticmethod
    def row(held: dict[int, int]) -> list[Any]:
        """The numbers."""
        return [list(held.values())]

    @staticmethod
    def held(row: list[Any]) -> dict[int, int]:
        """Numbers by place."""
        (numbers,) = row
        return {k: whole(-(2**31), 2**31 - 1, number=number) for k, number in enumerate(numbers)}

    def others(self, stretch: bytes, start: blake2b) -> tuple[int, int]:
        """Count whole reports of other questions at the beginning, with one hash for each."""
        at = many = 0
        while stretch.startswith(_NUMBERS_VERSION, at) and len(stretch) - at > _NUMBERS_HEAD:
            size = int.from_bytes(stretch[at + 2 : at + 4], "little")
            end = at + _NUMBERS_HEAD + 4 * size + wire.TAG_BYTES
            if not 1 <= size <= MAX_NUMBERS or end > len(stretch):
                break
            signed = stretch[at : end - wire.TAG_BYTES]
            if wire.tag(start, signed) != stretch[end - wire.TAG_BYTES : end]:
                break
            at = end
            many += 1
        return many, len(stretch) - at

    def known(self, reports: np.ndarray) -> np.ndarray:
        """All of them: the mark names the question."""
        return np.ones(len(reports), bool)

    def possible(self, reports: np.ndarray) -> np.ndarray:
        """Which are of a reporting node and the right round, with numbers that noise can give."""
        question = self.question
        found = (reports["user"] < question.num_nodes) & (reports["round"] == question.round)
        if question.owners is not None:
            found[found] = ~question.owners.silent[reports["user"][found]]
        found[found] = question.possible(reports["user"][found], reports["numbers"][found])
        return found

    def output(self, reports: np.ndarray) -> np.ndarray:
        """[n, K]."""
        return reports["numbers"].astype(np.int32)

    def estimate(self, output: np.ndarray) -> np.ndarray:
        """Decode the noisy numbers."""
        return self.question.estimate(output)


Codec: TypeAlias = FieldReports | NeighbourReports
"""How reports about a table or question are drawn, written, kept and read."""


def codec_of(asked: Table | NeighbourQuestion) -> Codec:
    """How reports about a table or a question are handled."""
    return NeighbourReports(asked) if isinstance(asked, NeighbourQuestion) else FieldReports(asked)


def read(data: bytes, codec: Codec, key: bytes | None) -> tuple[np.ndarray, int, int]:
    """Find the whole reports of a stream, and count the damaged ones and those about other things.

    Nothing is raised, with at most one hash a byte. A stretch of damaged bytes counts for every
    report begun in it.
    """
    data = as_bytes(data)
    size = codec.layout.itemsize
    start = wire.tag_start(codec.tag, key)
    found = _whole_reports(data, codec, start)
    damaged = foreign = begin = 0
    for end in [*found, len(data)]:
        others, rest = codec.others(data[begin:end], start)
        foreign += others
        damaged += -(-rest // size)
        begin = end + size
    whole_reports = b"".join([data[at : at + size] for at in found])
    return np.frombuffer(whole_reports, codec.layout), damaged, foreign


def _whole_reports(data: bytes, codec: Codec, start: blake2b) -> list[int]:
    """Where reports begin: with their mark, and with a right checksum at their end."""
    # Where marks are rare, a report that holds its mark a second time was cut and is not hashed:
    # linear time.
    mark = codec.mark
    size = codec.layout.itemsize
    found = []
    at = data.find(mark)
    while 0 <= at <= len(data) - size:
        second = data.find(mark, at + 1, at + size) if codec.rare else -1
        if second >= 0:
            at = second
            continue
        end = at + size - wire.TAG_BYTES
        if hmac.compare_digest(wire.tag(start, data[at:end]), data[end : end + wire.TAG_BYTES]):
            found.append(at)
            at = data.find(mark, at + size)
        else:
            at = data.find(mark, at + size - len(mark) + 1 if codec.rare else at + 1)
    return found
