r"""Public objects as bytes that a device is shipped: a header, arrays and a checksum. No JAX.

::

    "ldp-KIND VERSION\n" | JSON in ASCII, keys in order | "\n" | arrays, little-endian
    | checksum (8 bytes)

The checksum is BLAKE2b, 8 bytes, of "ldp_jax 1 public" and all bytes before it: accidental damage
passes with probability 2^-64. Versions without a checksum are refused.
"""

import abc
import hashlib
import json
from functools import cached_property
from typing import Any, ClassVar, TypeAlias, TypeVar

from ldp_jax.core.validate import require

Header: TypeAlias = dict[str, Any]
"""The part of an object that JSON holds."""

_T = TypeVar("_T", bound="Public")
_TAG = b"ldp_jax 1 public"
_TAG_BYTES = 8


def as_bytes(data: bytes) -> bytes:
    """Return bytes-like data as bytes; anything else is a ``TypeError``."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data must be bytes, got {type(data).__name__}")
    return bytes(data)


def sealed(data: bytes) -> bytes:
    """Append the checksum to bytes."""
    return data + hashlib.blake2b(_TAG + data, digest_size=_TAG_BYTES).digest()


class Public(abc.ABC):
    """An object with one spelling in bytes, so one digest; abstract.

    Equal bytes are equal objects.
    """

    KIND: ClassVar[str]
    VERSION: ClassVar[int]
    READ: ClassVar[tuple[int, ...]] = ()
    """Earlier versions, in which some objects are still written."""

    @abc.abstractmethod
    def _parts(self) -> tuple[Header, bytes]:
        """The header and the arrays."""

    @classmethod
    @abc.abstractmethod
    def _made(cls: type[_T], header: Header, body: bytes) -> _T:
        """The object of a header and arrays; it may fail on either."""

    def _keep(self, **checked: Any) -> None:
        """Set fields to what was made of them; for ``__post_init__``."""
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def _start(cls, version: int) -> bytes:
        return b"ldp-%s %d\n" % (cls.KIND.encode(), version)

    @property
    def version(self) -> int:
        """The version of this object's bytes."""
        return self.VERSION

    def _written(self, version: int) -> bytes:
        header, body = self._parts()
        return self._start(version) + json.dumps(header, sort_keys=True).encode() + b"\n" + body

    def to_bytes(self) -> bytes:
        """Bytes that :meth:`from_bytes` reads on any machine."""
        return sealed(self._written(self.version))

    @classmethod
    def from_bytes(cls: type[_T], data: bytes) -> _T:
        """Read and check what :meth:`to_bytes` wrote."""
        data = as_bytes(data)
        kind = cls.KIND
        versions = (cls.VERSION, *cls.READ)
        known = [version for version in versions if data.startswith(cls._start(version))]
        old = [version for version in range(cls.VERSION) if data.startswith(cls._start(version))]
        hint = f"; version {old[0]} has no checksum: have it sent anew" if old else ""
        wanted = " or ".join(repr(cls._start(version)) for version in versions)
        require(known, f"not a {kind} of this version: it must begin with {wanted}{hint}")
        whole = data[:-_TAG_BYTES]
        require(sealed(whole) == data, f"a damaged {kind}: its checksum is not that of its bytes")
        try:
            text, _, body = whole[len(cls._start(known[0])) :].partition(b"\n")
            header = json.loads(text.decode("ascii"))
            require(isinstance(header, dict), "its header is no object")
            made = cls._made(header, body)
            require(made.to_bytes() == data, "its header is not written as to_bytes() writes it")
        except (
            AttributeError,
            KeyError,
            TypeError,
            ValueError,
            OverflowError,
            RecursionError,
        ) as error:
            raise ValueError(f"a damaged {kind}: {error}") from error
        return made

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the bytes of version 1, so that a new version of the bytes changes no draw."""
        return hashlib.sha256(self._written(1)).digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Public) and (self.KIND, self.digest) == (other.KIND, other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)
