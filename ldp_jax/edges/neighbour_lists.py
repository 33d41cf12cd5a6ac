"""Neighbour lists as records and reports, and mechanisms that treat every bit of one alike."""

import abc
import dataclasses
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from ldp_jax import _validate
from ldp_jax.edges import _sparse
from ldp_jax.guarantee import NEIGHBOUR_LIST, RELATIONSHIP, Guarantee
from ldp_jax.mechanism import Finite, Interval, Mixture, check_single
from ldp_jax.types import Array, PRNGKey

Protocol = Literal["full", "half list", "half"]
"""Who reports the pair (i, j): both ends (``full``), or one of them by a public rule, with the degree of the whole
list (``half list``) or of the owned pairs alone (``half``)."""

PROTOCOLS: tuple[Protocol, ...] = ("full", "half list", "half")


class NeighbourList(NamedTuple):
    """The neighbours of one user.

    Attributes:
      ids: int32 [capacity], sorted and distinct; n where there is none.
      count: int32, how many there are.
    """

    ids: Any
    count: Any


class ListReport(NamedTuple):
    """What one user sends.

    Attributes:
      degree: the noisy degree; NaN where the mechanism sends none.
      neighbours: the noisy list.
    """

    degree: Any
    neighbours: NeighbourList


@dataclasses.dataclass(frozen=True)
class Lists:
    """The neighbour lists of a user among ``n`` nodes."""

    n: int


@dataclasses.dataclass(frozen=True)
class ListReports:
    """The reports about a list.

    Attributes:
      n: nodes.
      degree: the noisy degrees; a mixture is of atoms and what is between them; None where none is sent.
      bit: what is sent of one bit.
    """

    n: int
    degree: Finite | Interval | Mixture | None
    bit: Finite | Interval


def to_list(bits: Any) -> NeighbourList:
    """A vector of bits [n] as a list of capacity n."""
    n = bits.shape[-1]
    ids = jnp.sort(jnp.where(bits, jnp.arange(n, dtype=jnp.int32), n))
    return NeighbourList(ids, bits.sum(-1).astype(jnp.int32))


def to_bits(neighbours: NeighbourList, n: int) -> Array:
    """A list as bits [n]; ids outside [0, n), and repeats, are dropped: mechanisms are total on data."""
    ids = jnp.asarray(neighbours.ids)
    return jnp.zeros(n, bool).at[jnp.where(ids < 0, n, ids)].set(True, mode="drop")


class ListMechanism(abc.ABC):
    """Reports each bit of a neighbour list independently, given at most a noisy degree; abstract.

    A subclass is a pytree with ``n``, the nodes of the graph (static; None for whole graphs alone), and gives the
    rates and the guarantees. Records and reports never hold the user herself: her place is ``own``.
    """

    @property
    def _nodes(self) -> int | None:
        """The static field ``n`` of the subclass."""
        return getattr(self, "n")  # noqa: B009

    @abc.abstractmethod
    def rates(self, key: PRNGKey, degree: Any, owned: Any) -> tuple[Array | None, Array, Array]:
        """Noisy degree (or None), and the probabilities that a true pair and another one are reported.

        Args:
          key: for the noisy degree.
          degree: int, how many of the pairs are true; elementwise.
          owned: int, how many pairs there are: n - 1, or those of a half matrix.
        """

    @abc.abstractmethod
    def of_users(self, choose: Any) -> Any:
        """The same with ``choose`` applied to the budgets that users have of their own."""

    @abc.abstractmethod
    def bit_rates(self, noisy: Any, owned: Any) -> tuple[Array, Array]:
        """The two probabilities given the noisy degree."""

    @abc.abstractmethod
    def degree_log_density(self, noisy: Any, degree: Any, owned: Any) -> Array:
        """log p of the noisy degree; 0 where none is sent."""

    @abc.abstractmethod
    def degrees(self, owned: int) -> Finite | Interval | Mixture | None:
        """The noisy degrees that are possible; a mixture of atoms and what is between; None where none is sent."""

    @abc.abstractmethod
    def estimate(self, y: Any) -> Array:
        """The server's estimate of the degree from one user's report: post-processing."""

    @abc.abstractmethod
    def guarantee(self) -> Guarantee:
        """Per bit of one user's list."""

    @abc.abstractmethod
    def relationship(self, protocol: Protocol = "full") -> Guarantee:
        """Per edge, seen through the reports of all users."""

    def _size(self) -> int:
        if self._nodes is None:
            raise ValueError("n must be given for one user's view: how many nodes the graph has")
        return self._nodes

    def domain(self) -> Lists:
        """Lists of nodes below n; other ids, repeats and her own are dropped."""
        return Lists(self._size())

    def codomain(self) -> ListReports:
        """A noisy degree, or none, and a list."""
        return ListReports(self._size(), self.degrees(self._size() - 1), Finite((0.0, 1.0)))

    def privatize(self, key: PRNGKey, neighbours: NeighbourList, own: Any = 0) -> ListReport:
        """The report of one user: O(n) time and memory, as a device would; ``vmap`` over users.

        Args:
          key: a typed threefry key.
          neighbours: her list, ids padded with n.
          own: her own id, which is never reported.
        """
        _validate.threefry(key)
        check_single(self)
        n = self._size()
        others = jnp.arange(n) != own
        true = to_bits(neighbours, n) & others
        degree_key, bits_key = jax.random.split(key)
        noisy, keep, add = self.rates(degree_key, true.sum(), jnp.int32(n - 1))
        reported = (_sparse.uniform(bits_key, (n,)) < jnp.where(true, keep, add)) & others
        return ListReport(jnp.float32(jnp.nan) if noisy is None else noisy, to_list(reported))

    def log_density(self, y: Any, x: Any, own: Any = 0) -> Array:
        """log p of a report given a list: the noisy degree's, and each bit's given it."""
        n = self._size()
        y, x = ListReport(*y), NeighbourList(*x)
        others = jnp.arange(n) != own
        true, reported = to_bits(x, n) & others, to_bits(NeighbourList(*y.neighbours), n)
        keep, add = self.bit_rates(y.degree, jnp.int32(n - 1))
        one = jnp.where(true, keep, add)
        bits = jnp.where(reported, jnp.log(one), jnp.log1p(-one))
        possible = ~(reported & ~others).any()
        total = jnp.where(others, bits, 0.0).sum() + self.degree_log_density(y.degree, true.sum(), jnp.int32(n - 1))
        return jnp.where(possible, total, -jnp.inf)


def per_bit(epsilon: float, reason: str) -> Guarantee:
    """A guarantee for one bit of one list."""
    return Guarantee(
        epsilon,
        unit=NEIGHBOUR_LIST,
        adjacency="two neighbour lists that differ in one bit",
        status="proved",
        reason=reason,
    )


def per_edge(epsilon: float, reason: str) -> Guarantee:
    """A guarantee for one edge."""
    return Guarantee(
        epsilon, unit=RELATIONSHIP, adjacency="two graphs that differ in one edge", status="proved", reason=reason
    )
