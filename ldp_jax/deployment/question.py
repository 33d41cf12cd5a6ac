"""What a server asks of users who hold neighbour lists: how many neighbours have you in each public group?"""

import dataclasses
import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, Guarantee
from ldp_jax.core.checksum import opened, sealed, written
from ldp_jax.core.integer_tables import WORDS
from ldp_jax.core.rounding import digits_up
from ldp_jax.core.validate import whole
from ldp_jax.core.whole_noise import WholeNoise, checked_epsilon, checked_most, whole_noise

__all__ = ["MAX_GROUPS", "Question"]


def __dir__() -> list[str]:
    return __all__


MAX_GROUPS = 2**15 - 1
"""The most groups: the last of them fits in int16."""

_VERSION = 2  # of the bytes


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Question:
    """One round of counts by group; public, and the same for everybody.

    Its digest names it in words and reports: another round, epsilon or group of a single node is another question.
    It must depend on public facts alone, as the digest does, which every report shows.

    Attributes:
      round: which round, an integer in [0, 2^32).
      groups: the group of every node, [n] in [-1, K); -1 for one that counts nowhere. Kept as int8, or int16 from
        K = 129 on, whatever whole numbers are given; read-only.
      num_groups: K, 1 to 32 767.
      epsilon: of each count, in [0.001, 40]. What a report loses is found from the noise's own integers
        (:attr:`noise`), not from this number.
      most: the largest count; a larger one is taken for it.

    Raises:
      ValueError: for a number out of its range, groups that are no whole numbers [n], or one outside [-1, K).

    >>> asked = Question(0, groups=[0, 0, 1, -1], num_groups=2, epsilon=1.0, most=20)
    >>> asked
    Question(round 0: 4 nodes in 2 groups, epsilon 1 a report)
    >>> print(asked.guarantee())  # doctest: +ELLIPSIS
    epsilon 1 per neighbour-list (two neighbour lists of one user that differ in one bit; exact arithmetic; ...
    >>> Question.from_bytes(asked.to_bytes()) == asked, asked.groups.dtype.name
    (True, 'int8')
    """

    round: int
    groups: np.ndarray | Sequence[int]
    num_groups: int
    epsilon: float
    most: int = 65_535

    def __post_init__(self) -> None:
        count = whole(1, MAX_GROUPS, num_groups=self.num_groups)
        groups = np.asarray(self.groups)
        if groups.ndim != 1 or not 1 <= len(groups) < WORDS or groups.dtype.kind not in "iu":
            raise ValueError(
                f"groups must be whole numbers [n], the group of every node, got {groups.dtype} {groups.shape}"
            )
        if not (groups.min() >= -1 and groups.max() < count):
            raise ValueError(
                f"groups must be in [-1, {count}), got {groups.min()} to {groups.max()}: -1 is a node that counts "
                "nowhere"
            )
        # A copy over bytes, which nothing can be made to write to.
        kept = np.frombuffer(groups.astype(_kind(count)).tobytes(), _kind(count))
        checked = {
            "round": whole(0, WORDS - 1, round=self.round),
            "groups": kept,
            "num_groups": count,
            "epsilon": checked_epsilon(self.epsilon),
            "most": checked_most(self.most),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        sizes = f"{self.num_nodes} nodes in {self.num_groups} groups"
        return f"Question(round {self.round}: {sizes}, epsilon {digits_up(self.epsilon)} a report)"

    @property
    def num_nodes(self) -> int:
        """The nodes n of the graph; users are among them."""
        return len(self.groups)

    @property
    def noise(self) -> WholeNoise:
        """The noise of each count.

        Raises:
          ValueError: where it would reach beyond 2^20.
        """
        return whole_noise(self.epsilon, self.most)

    def guarantee(self) -> Guarantee:
        """What one report loses, all K counts together: the loss of the noise's integers, per bit of a list."""
        return Guarantee(
            self.noise.loss,
            unit=NEIGHBOUR_LIST,
            arithmetic="exact",
            status="proved",
            reason="a bit moves one count by one; each has whole noise of its own",
        )

    def to_bytes(self) -> bytes:
        """Bytes that :meth:`from_bytes` reads on any machine: n (2 n of int16), two lines, and a checksum."""
        return sealed(self._written(_VERSION))

    def _written(self, version: int) -> bytes:
        header = {
            "epsilon": self.epsilon,
            "most": self.most,
            "num_groups": self.num_groups,
            "num_nodes": self.num_nodes,
            "round": self.round,
        }
        return written("question", version, header, np.asarray(self.groups).tobytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> "Question":
        """Read and check what :meth:`to_bytes` wrote, and nothing else: a question has one spelling, so one digest.

        Raises:
          ValueError: for anything else.
        """
        return opened("question", _VERSION, data, cls._made)

    @classmethod
    def _made(cls, header: dict[str, Any], body: bytes) -> "Question":
        kind = _kind(whole(1, MAX_GROUPS, num_groups=header["num_groups"]))
        if len(body) != whole(1, WORDS - 1, num_nodes=header["num_nodes"]) * kind.itemsize:
            raise ValueError(f"{len(body)} bytes of groups where {header['num_nodes']} nodes were announced")
        groups = np.frombuffer(body, kind)
        return cls(header["round"], groups, header["num_groups"], header["epsilon"], header["most"])

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the bytes of version 1, so that words stay as they were; equal for equal questions."""
        return hashlib.sha256(self._written(1)).digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Question) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def _kind(num_groups: int) -> Any:
    """How groups are kept: the smallest whole numbers that hold them."""
    return np.dtype(np.int8) if num_groups <= 2**7 else np.dtype("<i2")
