"""Report bytes: how messages are found in a stream, and what their checksums are for.

Every message ends with 8 bytes of BLAKE2b of a tag and all bytes before. *Plain* (no key), the
checksum protects from accident alone: damage passes with probability 2^-64. *Keyed* (32 bytes that
device and collector share), whoever lacks the key forges or alters a report with probability 2^-64
a try, and a collector with a key refuses plain reports. Neither hides who reported, nor stops a
replay: the collector's memory does (:func:`ldp_jax.deployment.decode`). A message begins wherever
its first bytes and a right checksum stand. Elsewhere reading moves on byte by byte: after damage,
or where bytes were cut out or put in, it finds the next whole report, and counts what lies between.
"""

from hashlib import blake2b
from typing import SupportsIndex

from ldp_jax.core.validate import whole

SECRET_BYTES = 32
"""The length of a device's secret, and of a key that it shares with the collector."""

TAG_BYTES = 8
"""The length of a checksum."""


def tag_start(message: bytes, key: bytes | None) -> blake2b:
    """The hash of what comes before every report: copied for each, which spares setting it up."""
    return blake2b(message, key=key or b"", digest_size=TAG_BYTES)


def tag(start: blake2b, signed: bytes) -> bytes:
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
    """Check 32 bytes of the operating system's entropy; the message does not show them."""
    right_length = isinstance(value, bytes) and len(value) == SECRET_BYTES
    # Entropy has fewer than 8 different bytes with probability below 1e-30.
    if not right_length or len(set(value)) < 8:
        raise ValueError(
            f"{name} must be {SECRET_BYTES} bytes of entropy: text, numbers and padded seeds can be"
            " guessed"
        )
    return value
