r"""A server's question to users: how many neighbours have you in each public group?

The question goes to everybody: one file with the group of *every* node, so that to fetch it says
nothing of a list; requests for a part of it would. A report shows its length, which K fixes, and
that the device reported. How long it takes depends a little on the list: send it at a time of its
own. In bytes (:mod:`ldp_jax.core.checksum`)::

    "ldp-question 2\n" | {"epsilon": ..., "most": ..., "num_groups": K, "num_nodes": n,
                       |  "round": ...} "\n"
                       | the group of each node, int8; int16 from K = 129 on

So it is where both ends report a pair. Where one end does, by a public rule, the question has the
rule with it::

    "ldp-question 3\n" | {"epsilon": ..., ..., "num_nodes": n, "owners": true, "round": ...} "\n"
                       | the groups
                       | the rank of each node in the order of owners, int16; int32 from n = 32 769
                       | whether each node is silent, a bit each, the first node's in the highest
                       |  bit; padded by 0

Ranks begin at 0 and leave none out; nodes of one rank are equals, and the parity of their ids
decides.
"""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from ldp_jax.core.checksum import Header
from ldp_jax.core.integer_tables import WORDS, frozen
from ldp_jax.core.ownership import Ownership
from ldp_jax.core.rounding import digits_up
from ldp_jax.core.validate import complete, require, whole
from ldp_jax.core.whole_noise import WholeNoise, checked_epsilon, checked_most, whole_noise
from ldp_jax.deployment.device import Device
from ldp_jax.deployment.neighbours import (
    MAX_NUMBERS,
    NeighbourQuestion,
    owners_from_bytes,
    owners_to_bytes,
    ranked,
)
from ldp_jax.deployment.wire import checked_round


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Question(NeighbourQuestion):
    """One round of counts by group; public, and the same for everybody.

    Its digest names it: another round, epsilon or group of a node is another question. Its facts
    must be public.

    Attributes:
      round: which round, an integer in [0, 2^32).
      groups: of every node, [n] in [-1, K); -1 counts nowhere. Kept as int8, or int16 from K = 129
        on; read-only.
      num_groups: K, 1 to 32 767.
      epsilon: of each count, in [0.001, 40]. A report's loss is found from the noise's integers
        (:attr:`noise`).
      most: the largest count; a larger one is taken for it.
      owners: the rule by which one end of each pair reports it
        (:func:`ldp_jax.deployment.ownership`); None where both ends do. Its order is kept as ranks,
        whole numbers. A device counts the neighbours that it owns alone.

    >>> asked = Question(
    ...     0, groups=[0, 0, 1, -1], num_groups=2, epsilon=1.0, most=20
    ... )
    >>> asked
    Question(round 0: 4 nodes in 2 groups, epsilon 1 a report)
    >>> print(asked.guarantee())  # doctest: +ELLIPSIS
    epsilon 1 per neighbour-list (two neighbour lists of one user that differ in one bit; exact ...
    >>> from ldp_jax.deployment import ownership
    >>> once = dataclasses.replace(asked, owners=ownership([0.9, 0.1, 0.5, 0.5]))
    >>> asked.relationship().epsilon, once.relationship().epsilon
    (2.0, 1.0)
    """

    groups: np.ndarray | Sequence[int]
    num_groups: int
    epsilon: float
    most: int = 65_535
    owners: Ownership | None = None  # pyrefly: ignore[bad-override]

    KIND = "question"
    VERSION = 3
    READ = (2,)

    def __post_init__(self) -> None:
        count = whole(1, MAX_NUMBERS, num_groups=self.num_groups)
        groups = complete(groups=self.groups)
        listed = groups.ndim == 1 and 1 <= len(groups) < WORDS and groups.dtype.kind in "iu"
        rule = f"groups must be whole numbers [n] in [-1, {count}), one a node, -1 for none"
        require(listed and -1 <= groups.min() <= groups.max() < count, rule, groups)
        self._keep(
            round=checked_round(self.round),
            groups=frozen(groups.astype(_kind(count))),
            num_groups=count,
            epsilon=checked_epsilon(self.epsilon),
            most=checked_most(self.most),
            owners=ranked(self.owners, len(groups)),
        )

    def __repr__(self) -> str:
        sizes = f"{self.num_nodes} nodes in {self.num_groups} groups"
        owned = "" if self.owners is None else ", each pair by one end"
        epsilon = digits_up(self.epsilon)
        return f"Question(round {self.round}: {sizes}{owned}, epsilon {epsilon} a report)"

    @property
    def num_nodes(self) -> int:
        """The nodes n of the graph; users are among them."""
        return len(self.groups)

    @property
    def noise(self) -> WholeNoise:
        """The noise of each count; ValueError where it would reach beyond 2^20."""
        return whole_noise(self.epsilon, self.most)

    @property
    def numbers(self) -> int:
        """A count for each group."""
        return self.num_groups

    @property
    def loss(self) -> Fraction:
        """The largest ratio of the noise's masses."""
        return self.noise.ratio

    @property
    def why(self) -> str:
        """Why the loss holds."""
        return "a bit moves one count by one; each has whole noise of its own"

    def report(self, device: Device, known: np.ndarray, user: int) -> np.ndarray:
        """How many of these neighbours are in each group, with noise; int32 [K]."""
        groups = np.asarray(self.groups)[known]
        counts = np.bincount(groups[groups >= 0], minlength=self.num_groups)
        words = device.count_words(self.digest, self.num_groups, user=user, round=self.round)
        return self.noise.report(words, counts)

    def possible(self, user: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Whether noise can give these counts [m, K]."""
        return self.noise.possible(numbers)

    @property
    def version(self) -> int:
        """2 where both ends report, as earlier devices read it; 3 with owners."""
        return 2 if self.owners is None else 3

    def _parts(self) -> tuple[Header, bytes]:
        fields = ("epsilon", "most", "num_groups", "num_nodes", "round")
        header: Header = {name: getattr(self, name) for name in fields}
        if self.owners is not None:
            header["owners"] = True
        return header, np.asarray(self.groups).tobytes() + owners_to_bytes(self.owners)

    @classmethod
    def _made(cls, header: Header, body: bytes) -> "Question":
        kind = _kind(whole(1, MAX_NUMBERS, num_groups=header["num_groups"]))
        n = whole(1, WORDS - 1, num_nodes=header["num_nodes"])
        groups = np.frombuffer(body, kind, n)
        owners = owners_from_bytes(body[groups.nbytes :], n, "owners" in header)
        return cls(
            header["round"], groups, header["num_groups"], header["epsilon"], header["most"], owners
        )


def _kind(num_groups: int) -> np.dtype:
    """How groups are kept: the smallest whole numbers that hold them."""
    return np.dtype(np.int8) if num_groups <= 2**7 else np.dtype("<i2")
