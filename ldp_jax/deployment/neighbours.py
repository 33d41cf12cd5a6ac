"""Shared parts of all questions about neighbours: owners of pairs, cost of a bit, bytes."""

import abc
import dataclasses
from fractions import Fraction

import numpy as np

from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP, Guarantee, own_words
from ldp_jax.core.checksum import Public
from ldp_jax.core.integer_tables import frozen
from ldp_jax.core.ownership import Ownership
from ldp_jax.core.rounding import log_up
from ldp_jax.core.validate import require
from ldp_jax.deployment.device import Device

MAX_NUMBERS = 2**15 - 1
"""The most numbers of one report: how many there are fits in int16."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class NeighbourQuestion(Public):
    """A question about a neighbour list, public and the same for everybody; abstract.

    A report is K whole numbers of 32 bits (:attr:`numbers`).

    Attributes:
      round: which round, an integer in [0, 2^32).
    """

    round: int

    @property
    @abc.abstractmethod
    def owners(self) -> Ownership | None:
        """The rule by which one end of each pair reports it; None where both ends do."""

    @property
    @abc.abstractmethod
    def num_nodes(self) -> int:
        """The nodes n of the graph; users are among them."""

    @property
    @abc.abstractmethod
    def numbers(self) -> int:
        """K, how many numbers a report has."""

    @property
    @abc.abstractmethod
    def loss(self) -> Fraction:
        """The largest ratio of the probabilities of one report, of lists that differ in a bit."""

    @property
    @abc.abstractmethod
    def why(self) -> str:
        """Why the loss holds."""

    @abc.abstractmethod
    def report(self, device: Device, known: np.ndarray, user: int) -> np.ndarray:
        """The report of a user who owns the pairs with ``known`` neighbours; int32 [K]."""

    @abc.abstractmethod
    def possible(self, user: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Whether users [m] can report these numbers [m, K]; bool [m]."""

    def estimate(self, output: np.ndarray) -> np.ndarray:
        """These numbers [m, K] as float32."""
        return output.astype(np.float32)

    def guarantee(self) -> Guarantee:
        """The loss of one report, per bit of a list, by the integers of its noise."""
        return Guarantee(
            log_up(self.loss),
            unit=NEIGHBOUR_LIST,
            arithmetic="exact",
            status="proved",
            reason=self.why,
        )

    def relationship(self) -> Guarantee:
        """The loss about one pair of users, by the report of its owner or of both ends."""
        bit = self.guarantee()
        once = self.owners is not None
        seen = "the report of its owner alone" if once else "the reports of both its ends"
        words = f"{own_words(RELATIONSHIP)}, seen through {seen}"
        pair = dataclasses.replace(bit, unit=RELATIONSHIP, adjacency=words)
        return pair if once else pair.repeated(2)


def ranked(owners: object, n: int) -> Ownership | None:
    """The same rule with ranks for its order, read-only, so that one rule has one spelling."""
    if owners is None:
        return None
    rule = (
        f"owners must be deployment.ownership(...) of {n} nodes, or None: a finite order, and "
        "somebody who is not silent"
    )
    if not isinstance(owners, Ownership):
        raise ValueError(rule)
    order = np.asarray(owners.order)
    silent = np.asarray(owners.silent)
    fits = order.shape == silent.shape == (n,) and order.dtype.kind in "iuf"
    fits = fits and np.isfinite(order).all() and silent.dtype == bool and not silent.all()
    require(fits, rule)
    ranks = np.unique(order, return_inverse=True)[1].reshape(-1).astype(np.int32)
    return Ownership(frozen(ranks), frozen(silent))


def owners_to_bytes(owners: Ownership | None) -> bytes:
    """The rank of each node, and a bit each for the silent; nothing where both ends report."""
    if owners is None:
        return b""
    ranks = owners.order.astype(_rank_kind(len(owners.order)))
    return ranks.tobytes() + np.packbits(owners.silent).tobytes()


def owners_from_bytes(body: bytes, n: int, owned: bool = True) -> Ownership | None:
    """The rule of n nodes, from all of these bytes; none are left where both ends report."""
    if not owned:
        require(not body, f"{len(body)} bytes of arrays more than were announced")
        return None
    kind = _rank_kind(n)
    silent = -(-n // 8)
    announced = n * kind.itemsize + silent
    rule = f"{len(body)} bytes of owners, where {announced} were announced"
    require(len(body) == announced, rule)
    order = np.frombuffer(body, kind, n)
    bits = np.frombuffer(body, np.uint8, silent, order.nbytes)
    return Ownership(order, np.unpackbits(bits, count=n).astype(bool))


def _rank_kind(n: int) -> np.dtype:
    """How ranks of n nodes are written."""
    return np.dtype("<i2") if n <= 2**15 else np.dtype("<i4")
