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
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from ldp_jax._tables import WORDS, Table
from ldp_jax._validate import whole

__all__ = [
    "REPORT",
    "SECRET_BYTES",
    "VERSION",
    "Read",
    "checked_field",
    "checked_round",
    "checked_user",
    "entropy",
    "pack",
    "prefix",
    "read",
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

_TAG = b"ldp_jax 2 report"
_TAG_BYTES = 8
_SIZE = REPORT.itemsize
_SIGNED = _SIZE - _TAG_BYTES  # what the checksum is of
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
        return signed + _tag(_start(key), signed)
    reports = np.zeros(len(fields), REPORT)
    reports["version"], reports["table"], reports["user"], reports["round"] = VERSION, prefix(table), user, round
    reports["field"], reports["output"] = fields, outputs
    data, start = reports.tobytes(), _start(key)
    tags = [_tag(start, data[at : at + _SIGNED]) for at in range(0, len(data), _SIZE)]
    reports["checksum"] = np.frombuffer(b"".join(tags), "<u8")
    return reports.tobytes()


def read(data: bytes, key: bytes | None) -> Read:
    """Find the reports in a stream; whatever the bytes, nothing is raised.

    One hash a report, and at most one a byte of what is no report. (It is a loop in Python: ``hashlib`` takes 0.6
    us a report, and BLAKE2b written in NumPy would take longer.)
    """
    start = _start(key)
    last = len(data) - _SIZE
    found = []
    at = data.find(_MARK)
    while 0 <= at <= last:
        end = at + _SIGNED
        if hmac.compare_digest(_tag(start, data[at:end]), data[end : end + _TAG_BYTES]):
            found.append(at)
            at = data.find(_MARK, at + _SIZE)
        else:
            at = data.find(_MARK, at + 1)
    starts = np.array(found, np.int64)
    reports = np.frombuffer(b"".join([data[at : at + _SIZE] for at in found]), REPORT)
    # The stretches between reports, before the first and after the last.
    begin = np.concatenate([[0], starts + _SIZE])
    end = np.append(starts, len(data))
    damaged = old = 0
    for at in np.flatnonzero(end > begin).tolist():
        stretch = data[begin[at] : end[at]]
        many, rest = divmod(len(stretch), _OLD_SIZE)
        if not rest and all(stretch.startswith(_OLD, _OLD_SIZE * n) for n in range(many)):
            old += many
        else:
            damaged += -(-len(stretch) // _SIZE)
    return Read(reports, damaged, old)


def _start(key: bytes | None) -> Any:
    """The hash of what comes before every report: copied for each, which spares setting it up."""
    return blake2b(_TAG, key=key or b"", digest_size=_TAG_BYTES)


def _tag(start: Any, signed: bytes) -> bytes:
    one = start.copy()
    one.update(signed)
    return one.digest()


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
