r"""The user's device: 32 secret bytes, and all random bits that come from them. No floats.

Random bits come in words of 32. Words come from blocks of 64 bytes of BLAKE2b keyed with the
secret. Every part of a message has a fixed length, integers and words are little-endian, and
nothing of the record enters. Digests are SHA-256 of a table's or a question's bytes of version 1,
without their checksum. Field f of a (table, user, round) has two words: one picks the output, one
rounds the record to the grid. They are bytes 8 (f mod 8) to 8 (f mod 8) + 7 of ::

    "ldp_jax 1 words." | digest of the table (32 bytes) | user (8) | round (4) | floor(f / 8) (4)

Which k of d coordinates are reported comes from 16 words at a time of ::

    "ldp_jax 1 sample" | digest of the table (32) | user (8) | round (4)
                       | k (4) | d (4) | counter (4)

by Floyd's algorithm: for j = d - k, ..., d - 1 take t uniform in 0, ..., j, and add t to the set,
or j where t is in it already. A word w below the largest multiple of j + 1 up to 2^32 gives t = w
mod (j + 1); others are skipped. Count k of a (question, user) has four words: the last bit of the
first is the sign, the others are a number below 2^96, most significant first. They are bytes 16 (k
mod 4) to 16 (k mod 4) + 15 of ::

    "ldp_jax 1 counts" | digest of the question (32 bytes) | user (8) | round (4) | floor(k / 4) (4)

Bit j of an answer about pairs has one word, bytes 4 (j mod 16) to 4 (j mod 16) + 3 of ::

    "ldp_jax 1 bits.." | digest of the question (32) | user (8) | round (4) | floor(j / 16) (4)

The bit is flipped where the word is below the mass of a flip.
"""

import dataclasses
import os
import struct
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NoReturn

import numpy as np

from ldp_jax.core.integer_tables import WORDS, Table
from ldp_jax.deployment import wire

_WORDS = b"ldp_jax 1 words."
_SAMPLE = b"ldp_jax 1 sample"
_COUNTS = b"ldp_jax 1 counts"
_BITS = b"ldp_jax 1 bits.."
_NAME = b"ldp_jax 1 device"
_MEMORY = b"ldp_jax 2 memory"
_SHARED = b"ldp_jax 2 shared"
_PER_HASH = 8  # fields whose words come from one hash
_COUNTS_PER_HASH = 4
_BITS_PER_HASH = 16


@dataclasses.dataclass(frozen=True, eq=False)
class Device:
    """A device's secret, from which all its random bits come.

    ``secret`` is 32 bytes of entropy, for the platform's key store: whoever has them can undo the
    noise. It is never printed and refuses to be pickled or copied.

    >>> Device.new()
    Device()
    >>> Device.from_secret(b"seed")
    Traceback (most recent call last):
    ValueError: secret must be 32 bytes of entropy: text, numbers and padded seeds can be guessed
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
        """32 bytes to share with the collector in confidence, for keyed checksums.

        They are the first of BLAKE2b keyed with the secret, of "ldp_jax 2 shared", and say nothing
        of it.
        """
        return self._hash(_SHARED)[: wire.SECRET_BYTES]

    def memory_tag(self, memory: bytes) -> bytes:
        """64 hexadecimal digits that this device alone can make."""
        key = self._hash(_MEMORY)[: wire.SECRET_BYTES]
        return blake2b(memory, key=key, digest_size=32).hexdigest().encode()

    def words(
        self, table: Table, fields: np.ndarray | Sequence[int], *, user: int, round: int
    ) -> np.ndarray:
        """The random bits of some fields, uint32 [n, 2].

        They never leave the device: with a report they bound its record.
        """
        start = _WORDS + table.digest + struct.pack("<QI", user, round)
        block, place = np.divmod(np.asarray(fields, np.int64), _PER_HASH)
        if len(block) == 1:
            needed = block
            at = np.zeros(1, np.intp)
        else:
            needed, at = np.unique(block, return_inverse=True)
        blocks = self._blocks(start, needed.tolist()).reshape(-1, _PER_HASH, 2)
        return blocks[at, place].astype(np.uint32)

    def count_words(self, question: bytes, num_groups: int, *, user: int, round: int) -> np.ndarray:
        """The random bits of K counts, uint32 [4, K]; ``question`` is its digest, 32 bytes.

        They never leave the device.
        """
        start = _COUNTS + question + struct.pack("<QI", user, round)
        words = self._blocks(start, range(-(-num_groups // _COUNTS_PER_HASH)))
        return words.reshape(-1, 4)[:num_groups].T.astype(np.uint32)

    def bit_words(self, question: bytes, num_nodes: int, *, user: int, round: int) -> np.ndarray:
        """The random bits of n noisy bits, uint32 [n]; ``question`` is its digest, 32 bytes.

        They never leave the device.
        """
        start = _BITS + question + struct.pack("<QI", user, round)
        words = self._blocks(start, range(-(-num_nodes // _BITS_PER_HASH)))
        return words[:num_nodes].astype(np.uint32)

    def sample(self, table: Table, dim: int, k: int, *, user: int, round: int) -> list[int]:
        """Draw k of ``dim`` coordinates, each subset equally likely, in ascending order.

        Equal arguments give equal subsets.
        """
        if k == dim:
            return list(range(dim))
        start = _SAMPLE + table.digest + struct.pack("<QIII", user, round, k, dim)
        words: list[int] = []
        counter = 0
        chosen: set[int] = set()
        for last in range(dim - k, dim):
            while True:
                if not words:
                    words = self._blocks(start, [counter]).tolist()[::-1]
                    counter += 1
                word = words.pop()
                if word < WORDS - WORDS % (last + 1):
                    break
            at = word % (last + 1)
            chosen.add(last if at in chosen else at)
        return sorted(chosen)

    def _blocks(self, start: bytes, numbers: Iterable[int]) -> np.ndarray:
        hashes = (self._hash(start + number.to_bytes(4, "little")) for number in numbers)
        return np.frombuffer(b"".join(hashes), "<u4")

    def _hash(self, message: bytes) -> bytes:
        return blake2b(message, key=self.secret).digest()
