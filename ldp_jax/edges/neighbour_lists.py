"""Mechanisms on neighbour lists: what an edge costs, who reports a pair, and the bits' law."""

import abc
import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, Literal, Protocol, TypeVar, get_args, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.accounting.composition import relationship
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP, WORDS, Guarantee
from ldp_jax.core import random, random_words, validate
from ldp_jax.core.integer_tables import sum_up
from ldp_jax.core.mechanism import check_single
from ldp_jax.core.rounding import rounded_down
from ldp_jax.core.spaces import Finite
from ldp_jax.core.types import Array, PRNGKey, Scalar
from ldp_jax.edges import _sparse, checks
from ldp_jax.edges.lists import ListReport, NeighbourList, to_bits, to_list
from ldp_jax.edges.population import Population, ReportedPairs
from ldp_jax.edges.spaces import ONE_BIT, Degrees, ListReports, Lists, critical_degrees

MAX_BIT_EPSILON = 40.0
"""The largest budget of one bit: a flip then has probability e^-40 = 4.2e-18, 78 / 2^64."""

Reporting = Literal["full", "half list", "half"]
"""The reporter of the pair (i, j): both ends (``full``), or one by a public rule, with the degree
of the whole list (``half list``) or of the owned pairs alone (``half``)."""

REPORTINGS: tuple[Reporting, ...] = get_args(Reporting)

_S = TypeVar("_S")


@runtime_checkable
class HasBitLaw(Protocol):
    """A mechanism whose report holds two numbers about a bit: a noisy one, and the sent bit.

    Given these two the rest of a report is independent of the bit. So an edge's cost is enumerated
    from few numbers (:func:`ldp_jax.verification.relationship_supremum`). ``reporting``, static, is
    one of ``reportings``.
    """

    reporting: Reporting
    reportings: tuple[Reporting, ...]

    def of_users(self: _S, choose: Callable[[Scalar], Scalar]) -> _S:
        """The same with ``choose`` applied to each budget that users may have of their own."""

    def bit_reports(self, owned: int) -> tuple[np.ndarray, np.ndarray]:
        """Noisy numbers about ``owned`` pairs and sent bits, the largest loss among them."""

    def bit_log_density(
        self,
        noisy: Scalar,
        sent: Scalar,
        degree: Scalar,
        bit: Scalar,
        owned: Scalar,
    ) -> Array:
        """log p of both numbers, elementwise, up to a term that does not depend on the bit.

        The ``degree`` true ones of ``owned`` pairs include the bit's; ``bit`` is NaN where another
        user reports it.
        """

    def guarantee(self) -> Guarantee:
        """Per bit of one user's list."""

    def relationship(self, reporting: Reporting | None = None) -> Guarantee:
        """Per edge, seen through the reports of all users."""


def pairs_of(own: Scalar, n: int, reporting: Reporting) -> tuple[Array, Any]:
    """The pairs that a user reports, bool [n], and how many the degree counts, for equal budgets.

    >>> mine, pairs = pairs_of(1, 4, "half")
    >>> mine.tolist(), pairs
    ([True, False, False, True], 2)
    """
    user = _sparse.Users(own, 0, n, n)
    mine = _sparse.owns(user, jnp.arange(n), reporting != "full")
    return mine, _sparse.universe(user, reporting == "half")


def flip_rate(epsilon: Scalar) -> Array:
    """The probability 1/(e^epsilon + 1) that a bit is flipped, without cancellation."""
    return jax.nn.sigmoid(-jnp.asarray(epsilon, jnp.result_type(float)))


class OnLists(abc.ABC):
    """A mechanism on one user's neighbour list, a pytree with static ``n`` and ``reporting``."""

    reportings: ClassVar[tuple[Reporting, ...]] = REPORTINGS
    """The possible reportings, the usual one first."""

    budgets: ClassVar[dict[str, float]]
    """The fields that are budgets, and the largest value of each."""

    @property
    @abc.abstractmethod
    def n(self) -> int | None:
        """Nodes of the graph; None for whole graphs alone."""

    @property
    @abc.abstractmethod
    def reporting(self) -> Reporting:
        """The ends of a pair that report it."""

    def _check(self) -> None:
        for name, most in self.budgets.items():
            checks.budget_in(most, **{name: getattr(self, name)})
        validate.one_of(self.reportings, reporting=self.reporting)
        if self.n is not None:
            validate.integer_in(1, n=self.n)

    def of_users(self: _S, choose: Callable[[Scalar], Scalar]) -> _S:
        """The same with ``choose`` applied to each budget."""
        made: Any = self  # a dataclass
        chosen = {name: choose(getattr(self, name)) for name in made.budgets}
        return dataclasses.replace(made, **chosen)

    def spent(self) -> list[np.ndarray]:
        """The budgets as float64 of one shape, checked; ``ValueError`` for traced ones."""
        found = {name: getattr(self, name) for name in self.budgets}
        checks.concrete("ask for guarantee() outside jit, vmap and grad", **found)
        self._check()
        return [each.astype(np.float64) for each in np.broadcast_arrays(*found.values())]

    def sums(self) -> np.ndarray:
        """Each user's whole budget, rounded up; float64 [] or [users].

        It decides who owns a pair.
        """
        return sum_up(np.stack(self.spent()))

    @abc.abstractmethod
    def proof(self) -> str:
        """One sentence that proves the guarantee."""

    def guarantee(self) -> Guarantee:
        """Per bit of one user's list; of personal budgets the largest."""
        return per_bit(float(self.sums().max()), self.proof())

    def relationship(self, reporting: Reporting | None = None) -> Guarantee:
        """Per edge, seen through the reports of both ends (``full``) or of its owner."""
        if reporting is None:
            reporting = self.reporting
        validate.one_of(self.reportings, reporting=reporting)
        stated = self.guarantee()
        validate.require(
            stated.epsilon <= self.sums().max() and stated.delta == 0,
            "guarantee() must follow from the budgets: override sums() or relationship() too",
            stated.epsilon,
        )
        made = per_edge(self._ends(reporting), reporting)
        return dataclasses.replace(made, arithmetic=stated.arithmetic)

    def _ends(self, reporting: Reporting) -> tuple[float, ...]:
        """The loss of the owner's reports about an edge, and of the other end's if they hold it.

        In ``half list`` the other end may send the length of the whole list for all of its budget.
        """
        low, high = two_largest(self.sums())
        return (low,) if reporting == "half" else (low, high)

    def _size(self) -> int:
        if self.n is None:
            raise ValueError("n must be given for one user's view: how many nodes the graph has")
        return self.n

    def domain(self) -> Lists:
        """Lists of user 0, of nodes below n; other ids, repeats and 0 are dropped."""
        return Lists(self._size())

    def _record(self, neighbours: NeighbourList, own: Scalar) -> tuple[Array, Array, Array, Array]:
        """True bits [n], reported pairs [n], the degree, and the number of pairs it counts."""
        # Two ids would be taken for a list of one and its length.
        if not isinstance(neighbours, NeighbourList):
            kind = type(neighbours).__name__
            raise TypeError(f"neighbours must be NeighbourList.of(ids, n), got {kind}")
        n = self._size()
        ids_shape = getattr(neighbours.ids, "shape", (0,))
        for name, shape, ndim in (("neighbours", ids_shape, 1), ("own", np.shape(own), 0)):
            validate.require(
                len(shape) == ndim, f"{name} must be of one user, got shape {shape}: use jax.vmap"
            )
        validate.ids(n, "one of the nodes", own=own)

        owned, pairs = pairs_of(own, n, self.reporting)
        bits = to_bits(neighbours, n) & (jnp.arange(n) != own)
        counted = bits & owned if self.reporting == "half" else bits
        return bits, owned, counted.sum(), jnp.int32(pairs)


class ListMechanism(OnLists):
    """Reports each bit of a list independently, given at most a noisy degree; abstract.

    One user's view and that of a whole graph have one law, in each reporting. As it stands no
    degree is sent.
    """

    @abc.abstractmethod
    def bit_rates(self, noisy: Scalar | None, owned: Scalar) -> tuple[Array, Array, Array]:
        """The probabilities to report a true pair, to drop it, and to report another one.

        They are given the noisy degree; the second is 1 less the first, without cancellation.
        """

    def noisy_degree(self, key: PRNGKey, degree: Array, owned: Scalar) -> Array | None:
        """Draw a noisy degree of true pairs among ``owned``; None where none is sent."""
        return None

    def degree_log_density(self, noisy: Scalar, degree: Scalar, owned: Scalar) -> Array:
        """log p of the noisy degree; 0 where none is sent."""
        return jnp.float32(0.0)

    def degrees(self, owned: int) -> Degrees:
        """The possible noisy degrees; None where none is sent."""
        return None

    def degree_if_none(self, owned: Scalar) -> Array | None:
        """The mean of the noisy degree of a user without neighbours; None where none is sent."""
        return None

    @abc.abstractmethod
    def estimate(self, y: ListReport, own: Scalar = 0) -> Array:
        """The server's estimate of a user's degree (``half``: of the owned pairs)."""

    def rates(
        self,
        key: PRNGKey,
        degree: Scalar,
        owned: Scalar,
    ) -> tuple[Array | None, Array, Array, Array]:
        """Noisy degree (or None), and the three probabilities; elementwise."""
        noisy = self.noisy_degree(key, jnp.asarray(degree), owned)
        rates = self.bit_rates(noisy, owned)
        keep, drop, add = (jnp.broadcast_to(rate, jnp.shape(degree)) for rate in rates)
        return noisy, keep, drop, add

    def codomain(self, own: int = 0) -> ListReports:
        """A noisy degree, or none, and a list of the user ``own``."""
        _, pairs = pairs_of(own, self._size(), self.reporting)
        return ListReports(self._size(), self.degrees(int(pairs)), Finite((0.0, 1.0)), own)

    def sample_graph(self, key: PRNGKey, users: Population, memory: float) -> ReportedPairs:
        """The reports of all users, for :func:`ldp_jax.edges.privatize_graph`."""
        return _sparse.sample(key, self, users, memory)

    def privatize(self, key: PRNGKey, neighbours: NeighbourList, own: Scalar = 0) -> ListReport:
        """Draw the report of the user ``own`` in O(n), as a device would; ``vmap`` over users.

        ``neighbours`` are padded with n; what is no id, repeats and ``own`` are dropped.
        ``TypeError``, by its type alone, for anything but a :class:`NeighbourList`.
        """
        validate.threefry(key)
        check_single(self)
        true, mine, degree, pairs = self._record(neighbours, own)
        degree_key, bits_key = random.split(key)
        noisy, keep, drop, add = self.rates(degree_key, degree, pairs)
        if noisy is None:
            noisy = jnp.float32(jnp.nan)
        chance = jnp.where(true, keep, add)
        rest = jnp.where(true, drop, 1 - add)
        reported = random_words.bernoulli(bits_key, chance, rest) & mine
        return ListReport(noisy, to_list(reported))

    def log_density(self, y: ListReport, x: NeighbourList, own: Scalar = 0) -> Array:
        """log p of a report given a list: the noisy degree's, and each bit's given it."""
        y = ListReport(*y)
        true, mine, degree, pairs = self._record(x, own)
        reported = to_bits(NeighbourList(*y.neighbours), self._size())
        of_bits = self._log_bits(y.degree, reported, true, pairs)
        of_degree = self.degree_log_density(y.degree, degree, pairs)
        total = jnp.where(mine, of_bits, 0.0).sum() + of_degree
        return jnp.where((reported & ~mine).any(), -jnp.inf, total)

    def _log_bits(self, noisy: Scalar | None, sent: Scalar, true: Scalar, owned: Scalar) -> Array:
        """log P that bits are sent or not, given the noisy degree."""
        keep, drop, add = self.bit_rates(noisy, owned)
        if_sent = jnp.log(jnp.where(true, keep, add))
        if_not = jnp.where(true, jnp.log(drop), jnp.log1p(-add))
        return jnp.where(sent, if_sent, if_not)

    def bit_reports(self, owned: int) -> tuple[np.ndarray, np.ndarray]:
        """Every critical noisy degree, with the bit sent and not."""
        noisy, sent = np.meshgrid(critical_degrees(self.degrees(owned)), [0.0, 1.0])
        return noisy.ravel(), sent.ravel()

    def bit_log_density(
        self,
        noisy: Scalar,
        sent: Scalar,
        degree: Scalar,
        bit: Scalar,
        owned: Scalar,
    ) -> Array:
        """log p of the noisy degree, and of one bit given it: see :class:`HasBitLaw`."""
        of_bit = self._log_bits(noisy, jnp.asarray(sent) > 0, jnp.asarray(bit) > 0, owned)
        of_bit = jnp.where(jnp.isnan(bit), 0.0, of_bit)
        return self.degree_log_density(noisy, degree, owned) + of_bit


def per_bit(epsilon: float, reason: str) -> Guarantee:
    """A guarantee for one bit of one list."""
    return Guarantee(
        epsilon,
        unit=NEIGHBOUR_LIST,
        adjacency=ONE_BIT,
        status="proved",
        reason=reason,
    )


def per_edge(ends: tuple[float, ...], reporting: Reporting) -> Guarantee:
    """A guarantee for one edge from the losses of the ends whose reports hold the pair."""
    reason = f"reporting {reporting}: every report that holds the pair composes"
    total = relationship(*(per_bit(epsilon, reason) for epsilon in ends))
    return dataclasses.replace(total, adjacency=WORDS[RELATIONSHIP])


def rest_of(epsilon: float, first: float) -> float:
    """Subtract ``first`` from a budget, rounded down: both together never exceed it.

    >>> rest_of(1.0, 0.1), rest_of(1.0, 0.25)  # 0.1 + 0.9 is above 1 in float64
    (0.8999999999999999, 0.75)
    """
    return rounded_down(Fraction(float(epsilon)) - Fraction(float(first)))


def two_budgets(epsilon: float, **share: float) -> tuple[float, float]:
    """Split a budget by a share in (0, 1) of the first part; the sum never exceeds it.

    >>> two_budgets(1.0, share=0.25)
    (0.25, 0.75)
    """
    validate.number(0.0, open_lower=True, epsilon=epsilon)
    part = validate.number(0.0, 1.0, open_lower=True, open_upper=True, **share)
    first = part * epsilon
    return first, rest_of(epsilon, first)


def two_largest(budgets: np.ndarray) -> tuple[float, float]:
    """Find the second largest and the largest budget of a stack; a single one is everybody's."""
    ordered = np.sort(np.ravel(budgets))
    return float(ordered[-2:][0]), float(ordered[-1])
