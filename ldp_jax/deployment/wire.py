"""Report bytes: how messages are found in a stream, and what their checksums are for.

Every message ends with 8 bytes of BLAKE2b of a tag and all bytes before. *Plain* (no key), the checksum protects
from accident alone: damage passes with probability 2^-64, and anyone can compute it. *Keyed* (32 bytes that device
and collector share), whoever lacks the key forges or alters a report with probability 2^-64 a try. A collector with
a key refuses plain reports, so nobody can strip it. Neither hides who reported, nor stops a replay: the collector's
memory does (:func:`ldp_jax.deployment.decode`).

A message begins wherever its first bytes and a right checksum stand. Elsewhere reading moves on byte by byte: after
damage, or where bytes were cut out or put in, it finds the next whole report, and counts what lies between.
"""

import hmac
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol, SupportsIndex, runtime_checkable

import numpy as np

from ldp_jax.core.checksum import as_bytes
from ldp_jax.core.validate import whole

SECRET_BYTES = 32
"""The length of a device's secret, and of a key that it shares with the collector."""

TAG_BYTES = 8
"""The length of a checksum."""


@runtime_checkable
class Messages(Protocol):
    """The bytes of one kind of report."""

    tag: bytes
    """The start of its checksum."""
    mark: bytes
    """The start of every report."""
    rare: bool
    """Whether no report holds its mark a second time: a report that does was cut, and is not hashed."""
    layout: np.dtype

    def others(self, stretch: bytes, start: Any) -> tuple[int, int]:
        """Reports about something else, and damaged bytes, in a stretch without reports."""
        ...


class Read(NamedTuple):
    """The contents of a stream of bytes.

    ``reports`` are whole, with a right checksum, in stream order. Each ``damaged`` stretch of other bytes
    counts once for every report that was begun; ``foreign`` ones are about something else.
    """

    reports: np.ndarray
    damaged: int
    foreign: int


def read(data: bytes, messages: Messages, key: bytes | None) -> Read:
    """Find the reports in a stream; whatever the bytes, nothing is raised. At most one hash a byte."""
    data, size, start = as_bytes(data), messages.layout.itemsize, tag_start(messages.tag, key)
    found = whole_messages(data, messages.mark, size, start, once=messages.rare)
    damaged = foreign = 0
    for stretch in between(data, found, size):
        others, rest = messages.others(stretch, start)
        foreign, damaged = foreign + others, damaged - (-rest // size)
    reports = np.frombuffer(b"".join([data[at : at + size] for at in found]), messages.layout)
    return Read(reports, damaged, foreign)


def whole_messages(data: bytes, mark: bytes, size: int, start: Any, *, once: bool = False) -> list[int]:
    """Where messages of one size begin that begin with ``mark`` and end with a right checksum, left to right.

    With ``once``, a message that holds its mark a second time was cut and is not hashed: long messages take linear
    time whatever the bytes.
    """
    last = len(data) - size
    found = []
    at = data.find(mark)
    while 0 <= at <= last:
        second = data.find(mark, at + 1, at + size) if once else -1
        if second >= 0:
            at = second
            continue
        end = at + size - TAG_BYTES
        if hmac.compare_digest(tag(start, data[at:end]), data[end : end + TAG_BYTES]):
            found.append(at)
            at = data.find(mark, at + size)
        else:
            at = data.find(mark, at + size - len(mark) + 1 if once else at + 1)
    return found


def between(data: bytes, found: list[int], size: int) -> Iterator[bytes]:
    """The stretches before, between and after messages of one size that begin at ``found``."""
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


def checked_user(user: SupportsIndex | None) -> int:
    """A user (or pseudonym): an integer in [0, 2^64)."""
    return whole(0, 2**64 - 1, user=user)


def checked_round(round: SupportsIndex | None) -> int:
    """A round: an integer in [0, 2^32)."""
    return whole(0, 2**32 - 1, round=round)


def checked_field(field: SupportsIndex | None) -> int:
    """A field: an integer in [0, 2^32)."""
    return whole(0, 2**32 - 1, field=field)


def entropy(name: str, value: object) -> bytes:
    """32 bytes that can have come from the operating system's entropy; no message holds their value."""
    wanted = f"a {name} is {SECRET_BYTES} bytes of entropy"
    if not isinstance(value, bytes):
        raise ValueError(f"{wanted}, got {type(value).__name__}: a seed can be guessed")
    if len(value) != SECRET_BYTES:
        raise ValueError(f"{wanted}, got {len(value)} bytes")
    if len(set(value)) < 8:  # entropy looks so with probability below 1e-30
        raise ValueError(f"{wanted}: this looks like a small seed that was padded")
    return value
