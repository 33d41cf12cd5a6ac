"""Mechanisms that treat every bit of a neighbour list alike."""

import abc
import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.accounting.composition import relationship
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP, WORDS, Guarantee
from ldp_jax.core import random_words, validate
from ldp_jax.core.integer_tables import sum_up
from ldp_jax.core.mechanism import check_single
from ldp_jax.core.rounding import rounded_down
from ldp_jax.core.spaces import Finite, Interval, Mixture
from ldp_jax.core.types import Array, PRNGKey, Scalar
from ldp_jax.edges import _list_sampler, _sparse
from ldp_jax.edges.lists import ListReport, NeighbourList, to_bits, to_list
from ldp_jax.edges.population import Population, ReportedPairs
from ldp_jax.edges.spaces import ListReports, Lists, critical_degrees

MAX_BIT_EPSILON = 40.0
"""The largest budget of one bit: a flip has probability e^-40 = 4.2e-18 then, which is 78 of 2^64 words.

From 64 log 2 = 44.4 a flip would be rarer than one word, and the arithmetic no longer that of the law."""

Reporting = Literal["full", "half list", "half"]
"""Who reports the pair (i, j): both ends (``full``), or one of them by a public rule, with the degree of the whole
list (``half list``) or of the owned pairs alone (``half``)."""

REPORTINGS: tuple[Reporting, ...] = ("full", "half list", "half")


@runtime_checkable
class HasBitLaw(Protocol):
    """A mechanism whose report says of one bit of a list what two numbers say: a noisy one, and what is sent of it.

    The noisy number is about how many pairs are true. Whatever else is in a report is independent of the bit given
    these two. So an edge's cost is enumerated from few numbers, whatever the report looks like and whoever owns the
    pair (:func:`ldp_jax.verification.relationship_supremum`).

    Attributes:
      reporting: who reports a pair, a static field.
      reportings: which reportings there are.
    """

    reporting: Reporting
    reportings: tuple[Reporting, ...]

    def of_users(self, choose: Callable[[Scalar], Scalar]) -> Any:
        """The same with ``choose`` applied to each budget that users may have of their own."""
        ...

    def bit_reports(self, owned: int) -> tuple[np.ndarray, np.ndarray]:
        """Noisy numbers, and what is sent of a bit beside each, among which the largest loss of all is found.

        Args:
          owned: how many pairs the noisy number is about.
        """
        ...

    def bit_log_density(self, noisy: Any, sent: Any, degree: Any, bit: Any, owned: Any) -> Array:
        """log p of both numbers, elementwise; one term that does not depend on the bit may be left out.

        Args:
          noisy: the noisy number.
          sent: what is sent of the bit.
          degree: how many pairs are true, the bit's among them.
          bit: 0 or 1; NaN where another user reports the pair, and the degree alone depends on it.
          owned: how many pairs the noisy number is about.
        """
        ...

    def guarantee(self) -> Guarantee:
        """Per bit of one user's list."""
        ...

    def relationship(self, reporting: Reporting | None = None) -> Guarantee:
        """Per edge, seen through the reports of all users."""
        ...


def check_own(own: Any, n: int) -> None:
    """Refuse an id of the user's own, which is public, that is no node; silent on tracers."""
    if not validate.concrete(own):
        return
    array = np.asarray(own)
    if array.ndim or array.dtype.kind not in "iu" or not 0 <= int(array) < n:
        shown = own if array.ndim == 0 else f"shape {array.shape}: use jax.vmap"
        raise ValueError(f"own must be a node in [0, {n}), got {shown}")


def check_bit_epsilon(**kwargs: Scalar) -> None:
    """Refuse a budget of bits that is not in (0, MAX_BIT_EPSILON]."""
    validate.positive(**kwargs)
    validate.in_range(0.0, MAX_BIT_EPSILON, open_lower=True, **kwargs)


def pairs_of(own: Any, n: int, reporting: Reporting) -> tuple[Array, Any]:
    """Which pairs a user reports, bool [n], and how many the degree is about: n - 1, or the owned ones.

    All users have one budget here; :func:`ldp_jax.edges._sparse.owns` has the rule, personal budgets included.

    Args:
      own: the user's id, traced or not.
      n: nodes of the graph.
      reporting: see :data:`Reporting`.

    >>> mine, pairs = pairs_of(1, 4, "half")
    >>> mine.tolist(), pairs
    ([True, False, False, True], 2)
    """
    half = reporting != "full"
    user = _sparse.Users(own, 0, n, n)
    mine = _sparse.owns(user, jnp.arange(n), half)
    return mine, _sparse.universe(user, reporting == "half")


def flip_rate(epsilon: Scalar) -> Array:
    """The probability 1/(e^epsilon + 1) that a bit is flipped, without cancellation."""
    return jax.nn.sigmoid(-jnp.asarray(epsilon, jnp.result_type(float)))


class ListMechanism(abc.ABC):
    """Reports each bit of a neighbour list independently, given at most a noisy degree; abstract.

    A subclass is a pytree with two static fields, ``n``, the nodes of the graph (None for whole graphs alone), and
    ``reporting``; it gives the rates and the guarantees. Records and reports never hold the user, whose place
    is ``own``. One user's view and that of a whole graph have one law, in each reporting.
    """

    reportings: ClassVar[tuple[Reporting, ...]] = REPORTINGS
    """Which reportings there are, the usual one first."""

    @property
    def _nodes(self) -> int | None:
        """The static field ``n`` of the subclass."""
        return getattr(self, "n")  # noqa: B009

    @property
    def _reporting(self) -> Reporting:
        """The static field ``reporting`` of the subclass."""
        return getattr(self, "reporting")  # noqa: B009

    @abc.abstractmethod
    def _check(self) -> None:
        """Refuse parameters that are out of range."""

    @abc.abstractmethod
    def rates(self, key: PRNGKey, degree: Any, owned: Any) -> tuple[Array | None, Array, Array]:
        """Noisy degree (or None), and the probabilities that a true pair and another one are reported.

        Args:
          key: for the noisy degree.
          degree: int, how many of the pairs are true; elementwise.
          owned: int, how many pairs there are: n - 1, or those of a half matrix.
        """

    @abc.abstractmethod
    def of_users(self, choose: Callable[[Scalar], Scalar]) -> Any:
        """The same with ``choose`` applied to the budgets that users have of their own."""

    @abc.abstractmethod
    def sums(self) -> np.ndarray:
        """Each user's whole budget, float64 [] or [users]: what guarantees say, and what decides who owns a pair.

        Raises:
          ValueError: for budgets that are traced or out of range.
        """

    @abc.abstractmethod
    def bit_rates(self, noisy: Any, owned: Any) -> tuple[Array, Array]:
        """The two probabilities given the noisy degree."""

    @abc.abstractmethod
    def drop_rate(self, noisy: Any, owned: Any) -> Array:
        """The probability that a true pair is not reported, without cancellation: not 0 where the first is 1."""

    @abc.abstractmethod
    def degree_if_none(self, owned: Any) -> Any:
        """The mean of the noisy degree of a user without neighbours, of public numbers alone; None without one."""

    @abc.abstractmethod
    def degree_log_density(self, noisy: Any, degree: Any, owned: Any) -> Array:
        """log p of the noisy degree; 0 where none is sent."""

    @abc.abstractmethod
    def degrees(self, owned: int) -> Finite | Interval | Mixture | None:
        """The noisy degrees that are possible; a mixture of atoms and what is between; None where none is sent."""

    @abc.abstractmethod
    def estimate(self, y: Any, own: Any = 0) -> Array:
        """The server's estimate of the degree (``half``: of the owned pairs) from one report: post-processing.

        Args:
          y: the report.
          own: the user, which says which pairs are owned.
        """

    @abc.abstractmethod
    def guarantee(self) -> Guarantee:
        """Per bit of one user's list."""

    def relationship(self, reporting: Reporting | None = None) -> Guarantee:
        """Per edge, seen through the reports of all users: of both ends (``full``), or of the smaller budget's.

        Args:
          reporting: in place of the mechanism's own.
        """
        reporting = self._reporting if reporting is None else reporting
        validate.one_of(self.reportings, reporting=reporting)
        low, high = two_largest(self.sums())
        return per_edge((low, high) if reporting == "full" else (low,), reporting)

    def _size(self) -> int:
        if self._nodes is None:
            raise ValueError("n must be given for one user's view: how many nodes the graph has")
        return self._nodes

    def domain(self) -> Lists:
        """Lists of user 0, of nodes below n; other ids, repeats and 0 are dropped."""
        return Lists(self._size())

    def codomain(self, own: int = 0) -> ListReports:
        """A noisy degree, or none, and a list; of the user ``own``, about owned pairs."""
        return ListReports(self._size(), self.degrees(self._pairs(own)[1]), Finite((0.0, 1.0)), own)

    def _pairs(self, own: Any) -> tuple[Array, Any]:
        return pairs_of(own, self._size(), self._reporting)

    def _record(self, neighbours: NeighbourList, own: Any) -> tuple[Array, Array, Array, Array]:
        """A list as bits [n], the pairs that are reported [n], the degree that is, and of how many pairs it is."""
        mine, pairs = self._pairs(own)
        true = to_bits(neighbours, self._size()) & (jnp.arange(self._size()) != own)
        return true, mine, (true & mine if self._reporting == "half" else true).sum(), jnp.int32(pairs)

    def sample_graph(self, key: PRNGKey, users: Population, memory: float) -> ReportedPairs:
        """The reports of all users, as :func:`ldp_jax.edges.privatize_graph` has them; budgets may be arrays [n].

        Args:
          key: a typed threefry key.
          users: the graph, checked.
          memory: bytes of reported pairs to allow.
        """
        return _list_sampler.sample(key, self, users, memory)

    def privatize(self, key: PRNGKey, neighbours: NeighbourList, own: Any = 0) -> ListReport:
        """The report of one user: O(n) time and memory, as a device would; ``vmap`` over users.

        Args:
          key: a typed threefry key.
          neighbours: the user's list, ids padded with n; of anything else, what is no id is dropped.
          own: the user's id, which is never reported, and says which pairs the user owns.

        Raises:
          ValueError: where n is not given, a budget is a stack, ``own`` is no node, or the key is not threefry.
        """
        validate.threefry(key)
        check_single(self)
        check_own(own, self._size())
        true, mine, degree, pairs = self._record(neighbours, own)
        degree_key, bits_key = jax.random.split(key)
        noisy, keep, add = self.rates(degree_key, degree, pairs)
        chance, rest = jnp.where(true, keep, add), jnp.where(true, self.drop_rate(noisy, pairs), 1 - add)
        reported = random_words.bernoulli(bits_key, chance, rest) & mine
        return ListReport(jnp.float32(jnp.nan) if noisy is None else noisy, to_list(reported))

    def log_density(self, y: Any, x: Any, own: Any = 0) -> Array:
        """log p of a report given a list: the noisy degree's, and each bit's given it."""
        y, x = ListReport(*y), NeighbourList(*x)
        true, mine, degree, pairs = self._record(x, own)
        reported = to_bits(NeighbourList(*y.neighbours), self._size())
        bits = self._log_bits(y.degree, reported, true, pairs)
        total = jnp.where(mine, bits, 0.0).sum() + self.degree_log_density(y.degree, degree, pairs)
        return jnp.where((reported & ~mine).any(), -jnp.inf, total)

    def _log_bits(self, noisy: Any, sent: Any, true: Any, owned: Any) -> Array:
        """log P that bits are sent or not, given the noisy degree."""
        keep, add = self.bit_rates(noisy, owned)
        drop = self.drop_rate(noisy, owned)
        return jnp.where(sent, jnp.log(jnp.where(true, keep, add)), jnp.where(true, jnp.log(drop), jnp.log1p(-add)))

    def bit_reports(self, owned: int) -> tuple[np.ndarray, np.ndarray]:
        """Every critical noisy degree, with the bit sent and not."""
        noisy, sent = np.meshgrid(critical_degrees(self.degrees(owned)), [0.0, 1.0])
        return noisy.ravel(), sent.ravel()

    def bit_log_density(self, noisy: Any, sent: Any, degree: Any, bit: Any, owned: Any) -> Array:
        """log p of the noisy degree, and of one bit given it: see :class:`HasBitLaw`."""
        of_bit = self._log_bits(noisy, jnp.asarray(sent) > 0, jnp.asarray(bit) > 0, owned)
        return self.degree_log_density(noisy, degree, owned) + jnp.where(jnp.isnan(bit), 0.0, of_bit)


def concrete_budgets(m: Any, *budgets: Scalar) -> list[np.ndarray]:
    """Budgets of a mechanism as float64 of one shape, after its own check.

    Raises:
      ValueError: for traced ones.
    """
    if not all(map(validate.concrete, budgets)):
        needed = "concrete budgets" if len(budgets) > 1 else "a concrete epsilon"
        raise ValueError(f"guarantee() needs {needed}; ask for it outside jit, vmap and grad")
    m._check()
    return [each.astype(np.float64) for each in np.broadcast_arrays(*budgets)]


def per_bit(epsilon: float, reason: str) -> Guarantee:
    """A guarantee for one bit of one list."""
    return Guarantee(
        epsilon,
        unit=NEIGHBOUR_LIST,
        adjacency="two neighbour lists that differ in one bit",
        status="proved",
        reason=reason,
    )


def per_edge(ends: tuple[float, ...], reporting: Reporting) -> Guarantee:
    """A guarantee for one edge, seen through the reports of all users.

    Args:
      ends: what is lost by the reports of the pair's owner, and by those of the other end where they hold it too.
      reporting: who reports what.
    """
    reason = f"reporting {reporting}: every report that holds the pair composes"
    total = relationship(*(per_bit(epsilon, reason) for epsilon in ends))
    return dataclasses.replace(total, adjacency=WORDS[RELATIONSHIP])


def summed(*budgets: Any) -> np.ndarray:
    """Budgets added up elementwise, rounded up; float64.

    >>> summed(0.25, [0.5, 0.75]).tolist()
    [0.75, 1.0]
    """
    return sum_up(np.stack(np.broadcast_arrays(*(np.asarray(each, np.float64) for each in budgets))))


def rest_of(epsilon: float, first: float) -> float:
    """What ``first`` leaves of a budget, rounded down: both together never exceed it.

    >>> rest_of(1.0, 0.1), rest_of(1.0, 0.25)  # 0.1 + 0.9 is above 1 in float64
    (0.8999999999999999, 0.75)
    """
    return rounded_down(Fraction(float(epsilon)) - Fraction(float(first)))


def two_largest(budgets: np.ndarray) -> tuple[float, float]:
    """The second largest and the largest budget of a stack; a single one is everybody's."""
    ordered = np.sort(np.ravel(budgets))
    return float(ordered[-2:][0]), float(ordered[-1])
