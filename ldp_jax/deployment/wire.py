"""Report bytes, version 2: what a device sends and a collector reads.

**Layout.** 36 bytes a field, little-endian, no padding (:data:`REPORT`)::

    0  version   2 bytes, 2
    2  table     8 bytes, the first of the table's SHA-256
    10 user      8 bytes
    18 round     4 bytes
    22 field     4 bytes
    26 output    2 bytes
    28 checksum  8 bytes: BLAKE2b with a digest of 8 bytes of "ldp_jax 2 report" | bytes 0 to 27

**What the checksum is for.** *Plain* (no key), it protects from accident alone: a flipped, cut or joined report
passes as another one with probability 2^-64. Anyone can compute it, so it says nothing of who sent the report.
*Keyed* (32 bytes that device and collector share), whoever lacks the key forges or alters a report with probability
2^-64 a try. The two are told apart by nothing but the key: a collector with a key refuses plain reports as damaged,
so that nobody can strip it. Neither hides anything: who reported, and which fields, is no secret of local privacy.
Neither stops a
replay: the collector's memory does (:func:`ldp_jax.deployment.decode`).

**Streams.** A report begins at every place where 36 bytes carry version 2 and a right checksum. Elsewhere
:func:`read` moves on to the next such place, byte by byte: after damage, or where bytes were cut out or put in, it
finds the next whole report, and what lies between is counted and left out.

Reports of version 1 were 28 bytes without a checksum. They are refused, and counted apart where they stand as such.
"""

import hmac
import struct
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from ldp_jax.core.integer_tables import WORDS, Table
from ldp_jax.core.validate import whole

__all__ = [
    "REPORT",
    "SECRET_BYTES",
    "TAG_BYTES",
    "VERSION",
    "Read",
    "between",
    "checked_field",
    "checked_round",
    "checked_user",
    "entropy",
    "pack",
    "prefix",
    "read",
    "refused",
    "tag",
    "tag_start",
    "whole_messages",
]


def __dir__() -> list[str]:
    return __all__


VERSION = 2
"""Of the report bytes."""

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
"""One report: 36 bytes."""

SECRET_BYTES = 32
"""Of a device's secret, and of a key that it shares with the collector."""

TAG_BYTES = 8
"""Of a checksum."""

_TAG = b"ldp_jax 2 report"
_SIZE = REPORT.itemsize
_SIGNED = _SIZE - TAG_BYTES  # what the checksum is of
_MARK = VERSION.to_bytes(2, "little")  # every report begins so
_OLD = b"\x01\x00"  # and so did every report of version 1,
_OLD_SIZE = 28  # which had this many bytes


class Read(NamedTuple):
    """What a stream of bytes holds.

    Attributes:
      reports: :data:`REPORT` [n], whole and with a right checksum, in the order of the stream.
      damaged: how many were not: each stretch of other bytes counts once for every 36 bytes that were begun.
      old: how many reports of version 1 stood in the stream.
    """

    reports: np.ndarray
    damaged: int
    old: int


def prefix(table: Table) -> int:
    """How reports name their table: the first 8 bytes of its SHA-256."""
    return int.from_bytes(table.digest[:8], "little")


def pack(
    table: Table,
    fields: Sequence[int],
    outputs: Iterable[int] | np.ndarray,
    user: int,
    round: int,
    key: bytes | None,
) -> bytes:
    """The reports of some fields, one after the other: 36 bytes each."""
    if len(fields) == 1:  # five times as fast as an array of one
        signed = struct.pack("<HQQIIH", VERSION, prefix(table), user, round, fields[0], *outputs)
        return signed + tag(tag_start(_TAG, key), signed)
    reports = np.zeros(len(fields), REPORT)
    reports["version"], reports["table"], reports["user"], reports["round"] = VERSION, prefix(table), user, round
    reports["field"], reports["output"] = fields, outputs
    data, start = reports.tobytes(), tag_start(_TAG, key)
    tags = [tag(start, data[at : at + _SIGNED]) for at in range(0, len(data), _SIZE)]
    reports["checksum"] = np.frombuffer(b"".join(tags), "<u8")
    return reports.tobytes()


def read(data: bytes, key: bytes | None) -> Read:
    """Find the reports in a stream; whatever the bytes, nothing is raised.

    One hash a report, and at most one a byte of what is no report. (It is a loop in Python: ``hashlib`` takes 0.6
    us a report, and BLAKE2b written in NumPy would take longer.)
    """
    found = whole_messages(data, _MARK, _SIZE, tag_start(_TAG, key))
    damaged = old = 0
    for stretch in between(data, found, _SIZE):
        many, rest = divmod(len(stretch), _OLD_SIZE)
        if not rest and all(stretch.startswith(_OLD, _OLD_SIZE * n) for n in range(many)):
            old += many
        else:
            damaged += -(-len(stretch) // _SIZE)
    return Read(np.frombuffer(b"".join([data[at : at + _SIZE] for at in found]), REPORT), damaged, old)


def whole_messages(data: bytes, mark: bytes, size: int, start: Any, *, once: bool = False) -> list[int]:
    """Where messages of one size begin that begin with ``mark`` and end with a right checksum, left to right.

    Where no message holds its mark ``once`` more, one that does is cut, and is not hashed: so no byte is hashed
    twice, but for the last few of a message, and long messages take linear time whatever the bytes.
    """
    last = len(data) - size
    found = []
    at = data.find(mark)
    while 0 <= at <= last:
        again = data.find(mark, at + 1, at + size) if once else -1
        if again >= 0:
            at = again
            continue
        end = at + size - TAG_BYTES
        if hmac.compare_digest(tag(start, data[at:end]), data[end : end + TAG_BYTES]):
            found.append(at)
            at = data.find(mark, at + size)
        else:
            at = data.find(mark, at + size - len(mark) + 1 if once else at + 1)
    return found


def between(data: bytes, found: list[int], size: int) -> Iterator[bytes]:
    """The stretches between messages of one size that begin at ``found``, before the first and after the last."""
    begin = 0
    for end in [*found, len(data)]:
        if end > begin:
            yield data[begin:end]
        begin = end + size


def tag_start(message: bytes, key: bytes | None) -> Any:
    """The hash of what comes before every report: copied for each, which spares setting it up."""
    return blake2b(message, key=key or b"", digest_size=TAG_BYTES)


def tag(start: Any, signed: bytes) -> bytes:
    """The checksum of some bytes, of a hash that :func:`tag_start` began."""
    one = start.copy()
    one.update(signed)
    return one.digest()


def refused(counts: tuple[int, ...], reasons: tuple[str, ...]) -> str:
    """How many reports were refused in all, and for which reasons.

    >>> refused((2, 0), ("damaged", "replayed"))
    '2 reports refused: 2 damaged'
    """
    said = "; ".join(f"{count} {why}" for count, why in zip(counts, reasons, strict=True) if count)
    return f"{sum(counts)} reports refused" + (f": {said}" if said else "")


def checked_user(user: SupportsIndex) -> int:
    """A user (or pseudonym): an integer in [0, 2^64)."""
    return whole(0, 2**64 - 1, user=user)


def checked_round(round: SupportsIndex) -> int:
    """A round: an integer in [0, 2^32)."""
    return whole(0, WORDS - 1, round=round)


def checked_field(field: SupportsIndex) -> int:
    """A field: an integer in [0, 2^32)."""
    return whole(0, WORDS - 1, field=field)


def entropy(name: str, value: Any) -> bytes:
    """32 bytes that can have come from the operating system's entropy.

    Args:
      name: what they are, for the message, which never holds their value.
      value: the bytes.

    Raises:
      ValueError: for anything else, seeds that were padded among it.
    """
    if not isinstance(value, bytes):
        raise ValueError(
            f"a {name} is {SECRET_BYTES} bytes of entropy, got {type(value).__name__}: a seed can be guessed"
        )
    if len(value) != SECRET_BYTES:
        raise ValueError(f"a {name} is {SECRET_BYTES} bytes of entropy, got {len(value)} bytes")
    if len(set(value)) < 8:  # entropy looks so with probability below 1e-30
        raise ValueError(
            f"a {name} is {SECRET_BYTES} bytes of entropy: this looks like a small seed that was padded"
        )
    return value
