"""Neighbour lists as records and reports, and mechanisms that treat every bit of one alike."""

import abc
import dataclasses
import numbers
import warnings
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax import _random, _validate
from ldp_jax._rounding import rounded_down
from ldp_jax._tables import sum_up
from ldp_jax.composition import relationship
from ldp_jax.domains import Finite, Interval, Mixture
from ldp_jax.edges import _list_sampler, _sparse
from ldp_jax.edges.population import Population, Reports
from ldp_jax.guarantee import NEIGHBOUR_LIST, RELATIONSHIP, WORDS, Guarantee
from ldp_jax.mechanism import check_single
from ldp_jax.types import Array, PRNGKey, Scalar

MAX_BIT_EPSILON = 40.0
"""The largest budget of one bit: a flip has probability e^-40 = 4.2e-18 then, which is 78 of 2^64 words.

From 64 log 2 = 44.4 a flip would be rarer than one word, and the arithmetic no longer that of the law."""

Reporting = Literal["full", "half list", "half"]
"""Who reports the pair (i, j): both ends (``full``), or one of them by a public rule, with the degree of the whole
list (``half list``) or of the owned pairs alone (``half``)."""

REPORTINGS: tuple[Reporting, ...] = ("full", "half list", "half")


class NeighbourList(NamedTuple):
    """The neighbours of one user.

    The capacity is public: it is the shape of compiled programs. So are the ``ids`` of a JAX array padded, while a
    list on the host may be of any length and hold anything: see :meth:`of`, which is what mechanisms do to it.

    Attributes:
      ids: int32 [capacity], sorted and distinct; n where there is none.
      count: int32, how many there are.
    """

    ids: Any
    count: Any

    def __repr__(self) -> str:
        if not _validate.concrete(self.ids) or np.ndim(self.ids) != 1:
            return f"NeighbourList(ids={brief(self.ids)}, count={brief(self.count)})"
        known = np.asarray(self.ids)[: int(self.count)].tolist()
        shown = ", ".join(map(str, known[:_SHOWN])) + (", ..." if len(known) > _SHOWN else "")
        return f"NeighbourList({len(known)} of {len(self.ids)}: [{shown}])"

    @classmethod
    def of(cls, ids: Any, n: int) -> "NeighbourList":
        """The list of capacity n of some ids on the host, whatever they are: NumPy arrays, alone.

        What is no whole number in [0, n), and repeats, are dropped: never raises or warns. (A JAX array of 32 bits
        would take 2^32 + 3 for 3: give lists that may hold such ids to this function, before ``vmap`` or ``jit``.)

        Args:
          ids: a list, or an array of any shape and kind.
          n: nodes of the graph; public.

        >>> NeighbourList.of([3, 10**12, 1, -1, 2**63, float("nan"), 1.5, None, 1], n=5)
        NeighbourList(2 of 5: [1, 3])
        """
        known = np.unique(_host_ids(ids, n))
        count = np.int32(np.count_nonzero(known < n))
        padded = np.full(n, n, np.int32)
        padded[:count] = known[:count]
        return cls(padded, count)


class ListReport(NamedTuple):
    """What one user sends.

    Attributes:
      degree: the noisy degree; NaN where the mechanism sends none.
      neighbours: the noisy list.
    """

    degree: Any
    neighbours: NeighbourList

    def __repr__(self) -> str:
        return f"ListReport(degree={brief(self.degree)}, neighbours={self.neighbours})"


_SHOWN = 6
"""Ids of a list that are printed."""


def brief(value: Any) -> str:
    """A number as it is, an array or a tracer by its kind and shape."""
    if np.ndim(value) or not _validate.concrete(value):
        return f"{jnp.result_type(value)}[{','.join(map(str, np.shape(value)))}]"
    return f"{np.asarray(value).item():g}"


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
    """A list as bits [n]; what is no id in [0, n), and repeats, are dropped: mechanisms are total on data."""
    ids = neighbours.ids if isinstance(neighbours.ids, jax.Array) else NeighbourList.of(neighbours.ids, n).ids
    return jnp.zeros(n, bool).at[_ids(jnp, ids, n)].set(True, mode="drop")


def _ids(xp: Any, values: Any, n: int) -> Any:
    """Numbers as int32, n for what is no whole number in [0, n); written once for NumPy and JAX."""
    if jnp.issubdtype(values.dtype, jnp.floating):
        wide = values.astype(np.float64 if xp is np else jnp.promote_types(values.dtype, jnp.float32))
        known = (wide >= 0) & (wide < n) & (wide == xp.floor(wide))
    elif values.dtype.kind in "biu":
        wide = values.astype(np.int64 if xp is np or values.dtype.itemsize == 8 else np.int32)
        known = (wide >= 0) & (wide < n)  # an unsigned number of that width becomes negative
    else:
        return xp.full(values.shape, n, np.int32)
    return xp.where(known, xp.where(known, wide, 0).astype(np.int32), np.int32(n))


def _host_ids(ids: Any, n: int) -> np.ndarray:
    """:func:`_ids` of what a host holds, in its own precision; int32 with one axis."""
    with np.errstate(all="ignore"), warnings.catch_warnings():  # what a record holds must not be seen in a warning
        warnings.simplefilter("ignore")
        try:
            values = np.ravel(np.asarray(ids))
        except (ValueError, OverflowError, TypeError):  # ragged, or what no array can hold
            values = np.array([*ids, None], object)[:-1]
        if values.dtype.kind == "O":
            values = np.asarray(np.frompyfunc(lambda value: _one_id(value, n), 1, 1)(values), np.int32)
        return _ids(np, values, n)


def _one_id(value: Any, n: int) -> int:
    """An id among things of several kinds, n for what is none."""
    try:
        if not isinstance(value, numbers.Real):
            return n
        number: Any = value
        return int(number) if 0 <= number < n and int(number) == number else n
    except (ArithmeticError, ValueError, TypeError):
        return n


def check_own(own: Any, n: int) -> None:
    """Refuse an id of the user's own, which is public, that is no node; silent on tracers."""
    if not _validate.concrete(own):
        return
    array = np.asarray(own)
    if array.ndim or array.dtype.kind not in "iu" or not 0 <= int(array) < n:
        shown = own if array.ndim == 0 else f"shape {array.shape}: use jax.vmap"
        raise ValueError(f"own must be a node in [0, {n}), got {shown}")


def check_bit_epsilon(**kwargs: Scalar) -> None:
    """Refuse a budget of bits that is not in (0, MAX_BIT_EPSILON]."""
    _validate.positive(**kwargs)
    _validate.in_range(0.0, MAX_BIT_EPSILON, open_lower=True, **kwargs)


def pairs_of(own: Any, n: int, reporting: Reporting) -> tuple[Array, Any]:
    """Which pairs a user reports, bool [n], and how many there are for her degree: n - 1, or those that she owns.

    All users have one budget here; :func:`ldp_jax.edges._sparse.owns` has the rule, personal budgets included.

    Args:
      own: her id, traced or not.
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
    ``reporting``; it gives the rates and the guarantees. Records and reports never hold the user herself: her place
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
          own: whose it is, which says what pairs are hers.
        """

    @abc.abstractmethod
    def guarantee(self) -> Guarantee:
        """Per bit of one user's list."""

    @abc.abstractmethod
    def relationship(self, reporting: Reporting | None = None) -> Guarantee:
        """Per edge, seen through the reports of all users.

        Args:
          reporting: what it would be in another reporting; by default in the mechanism's own.
        """

    def _size(self) -> int:
        if self._nodes is None:
            raise ValueError("n must be given for one user's view: how many nodes the graph has")
        return self._nodes

    def domain(self) -> Lists:
        """Lists of nodes below n; other ids, repeats and her own are dropped."""
        return Lists(self._size())

    def codomain(self, own: int = 0) -> ListReports:
        """A noisy degree, or none, and a list; of the user ``own``, who owns her part of the pairs."""
        return ListReports(self._size(), self.degrees(self._pairs(own)[1]), Finite((0.0, 1.0)))

    def _pairs(self, own: Any) -> tuple[Array, Any]:
        return pairs_of(own, self._size(), self._reporting)

    def _record(self, neighbours: NeighbourList, own: Any) -> tuple[Array, Array, Array, Array]:
        """A list as bits [n], the pairs that are reported [n], the degree that is, and of how many pairs it is."""
        mine, pairs = self._pairs(own)
        true = to_bits(neighbours, self._size()) & (jnp.arange(self._size()) != own)
        return true, mine, (true & mine if self._reporting == "half" else true).sum(), jnp.int32(pairs)

    def sample_graph(self, key: PRNGKey, users: Population, memory: float) -> Reports:
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
          neighbours: her list, ids padded with n; of anything else, what is no id is dropped.
          own: her own id, which is never reported, and says what pairs she owns.

        Raises:
          ValueError: where n is not given, a budget is a stack, ``own`` is no node, or the key is not threefry.
        """
        _validate.threefry(key)
        check_single(self)
        check_own(own, self._size())
        true, mine, degree, pairs = self._record(neighbours, own)
        degree_key, bits_key = jax.random.split(key)
        noisy, keep, add = self.rates(degree_key, degree, pairs)
        chance, rest = jnp.where(true, keep, add), jnp.where(true, self.drop_rate(noisy, pairs), 1 - add)
        reported = _random.bernoulli(bits_key, chance, rest) & mine
        return ListReport(jnp.float32(jnp.nan) if noisy is None else noisy, to_list(reported))

    def log_density(self, y: Any, x: Any, own: Any = 0) -> Array:
        """log p of a report given a list: the noisy degree's, and each bit's given it."""
        y, x = ListReport(*y), NeighbourList(*x)
        true, mine, degree, pairs = self._record(x, own)
        reported = to_bits(NeighbourList(*y.neighbours), self._size())
        keep, add = self.bit_rates(y.degree, pairs)
        drop = self.drop_rate(y.degree, pairs)
        bits = jnp.where(
            reported, jnp.log(jnp.where(true, keep, add)), jnp.where(true, jnp.log(drop), jnp.log1p(-add))
        )
        total = jnp.where(mine, bits, 0.0).sum() + self.degree_log_density(y.degree, degree, pairs)
        return jnp.where((reported & ~mine).any(), -jnp.inf, total)


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
