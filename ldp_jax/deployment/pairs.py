r"""A server's question to users: which other users are your neighbours?

A report has a bit for each node, flipped at random (Warner 1965), 32 bits to a number. The bit of
node j is bit j mod 32 of number floor(j / 32), the lowest first. It is 0 for the user, for nodes
whose pair another end reports, and beyond the last node. In bytes
(:mod:`ldp_jax.core.checksum`)::

    "ldp-pairs 1\n" | {"epsilon": ..., "num_nodes": n, "owners": ..., "round": ...} "\n"
                    | where owners is true, one end reports each pair: ranks and silent nodes, as in
                    |  a question of counts (:mod:`ldp_jax.deployment.question`)
"""

import dataclasses
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property

import numpy as np

from ldp_jax.core.checksum import Header
from ldp_jax.core.integer_tables import WORDS, checked_epsilon, integer_masses
from ldp_jax.core.ownership import Ownership
from ldp_jax.core.rounding import digits_up
from ldp_jax.core.validate import whole
from ldp_jax.deployment.device import Device
from ldp_jax.deployment.neighbours import (
    MAX_NUMBERS,
    NeighbourQuestion,
    owners_from_bytes,
    owners_to_bytes,
    ranked,
)
from ldp_jax.deployment.wire import checked_round

_BLOCK = 2**22  # bits that are looked at together


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Pairs(NeighbourQuestion):
    """One round of noisy neighbour lists; public, and the same for everybody.

    A report is 32 bytes and a bit for each node. The server reads it by :meth:`entries`.

    Attributes:
      round: which round, an integer in [0, 2^32).
      nodes: n, how many there are in the graph, from 1 to 1 048 544.
      epsilon: of each bit, in (0, 20]. A report's loss is the ratio of the integers of its noise.
      owners: the rule by which one end of each pair reports it
        (:func:`ldp_jax.deployment.ownership`); None where both ends do.

    >>> asked = Pairs(0, 70, 1.0)
    >>> asked
    Pairs(round 0: 70 nodes, epsilon 1 a bit)
    >>> asked.numbers, round(asked.flip, 6), round(asked.relationship().epsilon, 6)
    (3, 0.268941, 2.0)
    """

    nodes: int
    epsilon: float
    owners: Ownership | None = None  # pyrefly: ignore[bad-override]

    KIND = "pairs"
    VERSION = 1

    def __post_init__(self) -> None:
        n = whole(1, 32 * MAX_NUMBERS, nodes=self.nodes)
        self._keep(
            round=checked_round(self.round),
            nodes=n,
            epsilon=checked_epsilon(self.epsilon),
            owners=ranked(self.owners, n),
        )

    def __repr__(self) -> str:
        owned = "" if self.owners is None else ", each pair by one end"
        epsilon = digits_up(self.epsilon)
        return f"Pairs(round {self.round}: {self.num_nodes} nodes{owned}, epsilon {epsilon} a bit)"

    @property
    def num_nodes(self) -> int:
        """The nodes n of the graph; users are among them."""
        return self.nodes

    @property
    def numbers(self) -> int:
        """A number for 32 nodes."""
        return -(-self.num_nodes // 32)

    @cached_property
    def _masses(self) -> np.ndarray:
        """The masses, out of 2^32, of a bit that stays and of one that is flipped."""
        keep = 1 / (1 + np.exp(-self.epsilon))
        law = np.array([[keep, 1 - keep], [1 - keep, keep]])
        return integer_masses(law, self.epsilon)[0]

    @property
    def flip(self) -> float:
        """The probability that a bit is flipped, a whole number of 2^-32."""
        return int(self._masses[1]) / WORDS

    @property
    def loss(self) -> Fraction:
        """The ratio of the two masses."""
        kept, flipped = self._masses.tolist()
        return Fraction(kept, flipped)

    @property
    def why(self) -> str:
        """Why the loss holds."""
        return "each bit is flipped by a random word of its own"

    def report(self, device: Device, known: np.ndarray, user: int) -> np.ndarray:
        """The noisy bits of the nodes whose pair is the user's to report; int32 [K]."""
        words = device.bit_words(self.digest, self.num_nodes, user=user, round=self.round)
        bits = words < self._masses[1]
        bits[known] = ~bits[known]
        bits &= self._owned(np.array([user])).ravel()
        padded = np.pad(bits, (0, 32 * self.numbers - self.num_nodes))
        return np.packbits(padded, bitorder="little").view("<i4").astype(np.int32)

    def possible(self, user: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Whether the bits are 0 of nodes whose pair another end reports, and beyond the last."""
        found = np.ones(len(user), bool)
        for rows in self._blocks(len(user)):
            bits = bits_of(numbers[rows])
            bits[:, : self.num_nodes] &= ~self._owned(user[rows])
            found[rows] = ~bits.any(1)
        return found

    def entries(self, output: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The bits that are set in decoded reports [m, K]: rows and nodes, int64 each.

        >>> asked = Pairs(0, 3, 1.0)
        >>> [part.tolist() for part in asked.entries(np.array([[6], [1]], np.int32))]
        [[0, 0, 1], [1, 2, 0]]
        """
        found = [np.zeros((2, 0), np.int64)]
        for rows in self._blocks(len(output)):
            row, node = np.nonzero(bits_of(output[rows]))
            found.append(np.stack([row + rows.start, node]))
        row, node = np.concatenate(found, 1)
        return row, node

    def _blocks(self, many: int) -> Iterator[slice]:
        """Rows of reports, so many at a time that their bits take few megabytes."""
        step = max(1, _BLOCK // self.num_nodes)
        return (slice(at, at + step) for at in range(0, many, step))

    def _owned(self, user: np.ndarray) -> np.ndarray:
        """Whether each user [m] reports the pair with each node, bool [m, n]."""
        user = user.astype(np.int64)[:, None]
        nodes = np.arange(self.num_nodes)
        return nodes != user if self.owners is None else self.owners.owns(user, nodes)

    def _parts(self) -> tuple[Header, bytes]:
        fields = ("epsilon", "num_nodes", "round")
        header: Header = {name: getattr(self, name) for name in fields}
        header["owners"] = self.owners is not None
        return header, owners_to_bytes(self.owners)

    @classmethod
    def _made(cls, header: Header, body: bytes) -> "Pairs":
        n = whole(1, 32 * MAX_NUMBERS, nodes=header["num_nodes"])
        owners = owners_from_bytes(body, n, header["owners"])
        return cls(header["round"], n, header["epsilon"], owners)


def bits_of(numbers: np.ndarray) -> np.ndarray:
    """Bits of numbers [m, K], the lowest first, bool [m, 32 K]."""
    words = np.ascontiguousarray(numbers, "<i4").view(np.uint8)
    return np.unpackbits(words, axis=1, bitorder="little").astype(bool)
