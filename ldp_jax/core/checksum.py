r"""Public objects as bytes that a device is shipped: what they are, a header, arrays, and a checksum. No JAX.

::

    "ldp-KIND VERSION\n" | JSON in ASCII, keys in order | "\n" | arrays, little-endian | checksum (8 bytes)

The checksum is BLAKE2b with a digest of 8 bytes of "ldp_jax 1 public" and all bytes before it. It protects from
accident alone, as the plain one of reports does: what is damaged is read as another object with probability 2^-64.
Versions without one are refused.
"""

import json
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, TypeVar

_T = TypeVar("_T")
_TAG = b"ldp_jax 1 public"
_TAG_BYTES = 8


def written(kind: str, version: int, header: dict[str, Any], body: bytes) -> bytes:
    """An object without its checksum: what a digest is of."""
    return b"ldp-%s %d\n" % (kind.encode(), version) + json.dumps(header, sort_keys=True).encode() + b"\n" + body


def sealed(data: bytes) -> bytes:
    """Bytes, and their checksum."""
    return data + blake2b(_TAG + data, digest_size=_TAG_BYTES).digest()


def opened(kind: str, version: int, data: bytes, make: Callable[[dict[str, Any], bytes], _T]) -> _T:
    """The object that was sealed, and nothing else: it has one spelling, so one digest.

    Args:
      kind: of what.
      version: that is read.
      data: as the object's ``to_bytes`` wrote it.
      make: the object of a header and arrays; it may fail on either.

    Raises:
      ValueError: for anything else.
    """
    start = b"ldp-%s %d\n" % (kind.encode(), version)
    if not data.startswith(start):
        old = [n for n in range(version) if data.startswith(b"ldp-%s %d\n" % (kind.encode(), n))]
        said = f"; version {old[0]} has no checksum: have it sent anew" if old else ""
        raise ValueError(f"not a {kind} of this version: expected it to begin with {start!r}{said}")
    whole = data[:-_TAG_BYTES]
    if sealed(whole) != data:
        raise ValueError(f"a damaged {kind}: its checksum is not that of its bytes")
    try:
        text, _, body = whole[len(start) :].partition(b"\n")
        header = json.loads(text.decode("ascii"))
        if not isinstance(header, dict):
            raise ValueError("its header is no object")
        made: Any = make(header, body)
        if made.to_bytes() != data:
            raise ValueError("its header is not written as to_bytes() writes it")
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"a damaged {kind}: {error}") from error
    return made
