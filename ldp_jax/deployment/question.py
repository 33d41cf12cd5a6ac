r"""A server's question to users who hold neighbour lists: how many neighbours have you in each public group?

The question goes to everybody: one file with the group of *every* node, so that to fetch it says nothing of a list;
requests for a part of it would. A report shows its length, which K fixes, and that the device reported. How long it
takes depends a little on the list: send it at a time of its own. In bytes (:mod:`ldp_jax.core.checksum`)::

    "ldp-question 2\n" | {"epsilon": ..., "most": ..., "num_groups": K, "num_nodes": n, "round": ...} "\n"
                       | the group of each node, int8; int16 from K = 129 on
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, Guarantee
from ldp_jax.core.checksum import Header, Public
from ldp_jax.core.integer_tables import WORDS, frozen
from ldp_jax.core.rounding import digits_up
from ldp_jax.core.validate import complete, whole
from ldp_jax.core.whole_noise import WholeNoise, checked_epsilon, checked_most, whole_noise

MAX_GROUPS = 2**15 - 1
"""The most groups: the last of them fits in int16."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Question(Public):
    """One round of counts by group; public, and the same for everybody.

    Its digest names it: another round, epsilon or group of a node is another question. Its facts must be public.

    Attributes:
      round: which round, an integer in [0, 2^32).
      groups: of every node, [n] in [-1, K); -1 counts nowhere. Kept as int8, or int16 from K = 129 on; read-only.
      num_groups: K, 1 to 32 767.
      epsilon: of each count, in [0.001, 40]. A report's loss is found from the noise's integers (:attr:`noise`).
      most: the largest count; a larger one is taken for it.

    >>> asked = Question(0, groups=[0, 0, 1, -1], num_groups=2, epsilon=1.0, most=20)
    >>> asked
    Question(round 0: 4 nodes in 2 groups, epsilon 1 a report)
    >>> print(asked.guarantee())  # doctest: +ELLIPSIS
    epsilon 1 per neighbour-list (two neighbour lists of one user that differ in one bit; exact arithmetic; ...
    """

    round: int
    groups: np.ndarray | Sequence[int]
    num_groups: int
    epsilon: float
    most: int = 65_535

    KIND, VERSION = "question", 2

    def __post_init__(self) -> None:
        count = whole(1, MAX_GROUPS, num_groups=self.num_groups)
        groups = complete(groups=self.groups)
        if groups.ndim != 1 or not 1 <= len(groups) < WORDS or groups.dtype.kind not in "iu":
            raise ValueError(f"groups must be whole numbers [n], one a node, got {groups.dtype} {groups.shape}")
        if not (groups.min() >= -1 and groups.max() < count):
            raise ValueError(f"groups must be in [-1, {count}), -1 for none, got {groups.min()} to {groups.max()}")
        checked = {
            "round": whole(0, WORDS - 1, round=self.round),
            "groups": frozen(groups.astype(_kind(count))),
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
        """The noise of each count; ValueError where it would reach beyond 2^20."""
        return whole_noise(self.epsilon, self.most)

    def guarantee(self) -> Guarantee:
        """The loss of one report, all K counts together, per bit of a list: that of the noise's integers."""
        reason = "a bit moves one count by one; each has whole noise of its own"
        return Guarantee(self.noise.loss, unit=NEIGHBOUR_LIST, arithmetic="exact", status="proved", reason=reason)

    def _parts(self) -> tuple[Header, bytes]:
        fields = ("epsilon", "most", "num_groups", "num_nodes", "round")
        return {name: getattr(self, name) for name in fields}, np.asarray(self.groups).tobytes()

    @classmethod
    def _made(cls, header: Header, body: bytes) -> "Question":
        kind = _kind(whole(1, MAX_GROUPS, num_groups=header["num_groups"]))
        if len(body) != whole(1, WORDS - 1, num_nodes=header["num_nodes"]) * kind.itemsize:
            raise ValueError(f"{len(body)} bytes of groups where {header['num_nodes']} nodes were announced")
        groups = np.frombuffer(body, kind)
        return cls(header["round"], groups, header["num_groups"], header["epsilon"], header["most"])


def _kind(num_groups: int) -> np.dtype:
    """How groups are kept: the smallest whole numbers that hold them."""
    return np.dtype(np.int8) if num_groups <= 2**7 else np.dtype("<i2")
