"""LocalLap: Laplace noise on every bit, of which a server keeps the largest; LAPGRAPH in the local model."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import random_words, validate
from ldp_jax.core.mechanism import MAX_EPSILON, check_single
from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.types import Array, PRNGKey, Scalar
from ldp_jax.edges import _sparse
from ldp_jax.edges.lists import LapReport, NeighbourList, to_bits
from ldp_jax.edges.neighbour_lists import (
    Reporting,
    check_bit_epsilon,
    check_own,
    concrete_budgets,
    pairs_of,
    per_bit,
    per_edge,
    rest_of,
    summed,
)
from ldp_jax.edges.population import Population, ReportedPairs
from ldp_jax.edges.spaces import LapReports, Lists

_DENSE = 0.5
"""Share of a graph's pairs, true or false, above which its false ones are chosen from a list of all its pairs."""
_MARGIN = 1.1
"""How many times the pairs that are expected to be enough are drawn; where too few, there is another round."""
_EXTRA = 8
"""And how many more than that."""
_FAR = 1e3
"""A noisy number beyond all that is true."""


@mechanism
class LocalLap:
    r"""Send a noisy degree and noisy bits; the server keeps as many of the largest bits as the degrees add up to.

    Law: every pair of users has one owner (:func:`ldp_jax.edges._sparse.owns`). A user sends :math:`d^* = d +
    \mathrm{Lap}(1/\epsilon_1)`, and :math:`A_{ij} + \mathrm{Lap}(1/\epsilon_2)` of each owned pair. The server
    computes :math:`T = \sum_i d^*_i / 2`, rounds it (a half to the even number), clips it to [0, number of pairs],
    and makes an undirected graph of the T pairs of largest value. In ``half`` reporting the degree counts owned
    pairs alone and :math:`T = \sum_i d^*_i`.

    Guarantee: :math:`\epsilon_1 + \epsilon_2` per bit of a list, attained. Per edge :math:`2 \epsilon_1 +
    \epsilon_2`, and :math:`\epsilon_1 + \epsilon_2` with ``half`` (:meth:`relationship`); attained too. It is that
    of ideal arithmetic: Laplace noise in float32 leaks (see :class:`~ldp_jax.features.Laplace`).

    Utility: T has mean :math:`|E|` and variance :math:`n / (2 \epsilon_1^2)` (``half``: :math:`2 n / \epsilon_1^2`)
    before it is clipped. Of N pairs a true edge stays with a chance of about :math:`e^{\epsilon_2} T / N` where
    that is below 1/2: sparse graphs with a small budget keep little but the number of edges.

    Numerics: noise of one user is float32, from a sign and 224 bits. Whole graphs are drawn and compared in
    float64, from 64 bits. Of equal values the lower ids win; in whole graphs a true pair does.

    Reference: Hidano & Murakami, 2022, section V-A; LAPGRAPH: Wu et al., IEEE S&P 2022.

    Args:
      epsilon_degree: :math:`\epsilon_1`, in (0, 100]; one number for all users of a graph.
      epsilon_edges: :math:`\epsilon_2`, in (0, 40]; likewise.
      n: nodes of the graph, for one user's view.
      reporting: ``half list``: the degree is the whole list's; ``half``: of the owned pairs.

    >>> m = LocalLap(0.25, 0.75)
    >>> m.guarantee().epsilon, m.relationship().epsilon, m.relationship("half").epsilon
    (1.0, 1.25, 1.0)
    """

    epsilon_degree: Scalar
    epsilon_edges: Scalar
    n: int | None = static(default=None)
    reporting: Reporting = static(default="half list")

    reportings: ClassVar[tuple[Reporting, ...]] = ("half list", "half")

    def _check(self) -> None:
        validate.positive(epsilon_degree=self.epsilon_degree)
        validate.in_range(0.0, MAX_EPSILON, open_lower=True, epsilon_degree=self.epsilon_degree)
        check_bit_epsilon(epsilon_edges=self.epsilon_edges)
        validate.one_of(self.reportings, reporting=self.reporting)
        if self.n is not None:
            validate.integer_in(1, n=self.n)

    @classmethod
    def from_epsilon(cls, epsilon: float, share: float = 0.1, **options: Any) -> "LocalLap":
        """The paper's allocation: epsilon_1 = share * epsilon, epsilon_2 the rest.

        Args:
          epsilon: per bit of a list, in total.
          share: of the degree, in (0, 1).
          **options: as for the class.

        Raises:
          ValueError: where epsilon is not finite and > 0, or share leaves nothing to one of the two.

        >>> m = LocalLap.from_epsilon(2.0)
        >>> m.epsilon_degree, round(m.epsilon_edges, 12), m.guarantee().epsilon
        (0.2, 1.8, 2.0)
        """
        validate.positive(epsilon=epsilon)
        validate.in_range(0.0, 1.0, open_lower=True, share=share)
        if share == 1.0:
            raise ValueError("share must be below 1, got 1.0: nothing would be left for the edges")
        first = share * epsilon
        return cls(first, rest_of(epsilon, first), **options)

    def privatize(self, key: PRNGKey, neighbours: NeighbourList, own: Any = 0) -> LapReport:
        """The report of one user: O(n) time and memory, as a device would; ``vmap`` over users.

        Args:
          key: a typed threefry key.
          neighbours: the user's list, ids padded with n; what is no id in [0, n), repeats and ``own`` are dropped.
          own: the user's id, which says which pairs the user owns.

        Raises:
          ValueError: where n is not given, a budget is a stack, ``own`` is no node, or the key is not threefry.
        """
        validate.threefry(key)
        check_single(self)
        bits, owned, degree = self._record(neighbours, own)
        degree_key, values_key = jax.random.split(key)
        values = bits + random_words.laplace(values_key, owned.shape) / jnp.asarray(self.epsilon_edges)
        noisy = degree + random_words.laplace(degree_key) / jnp.asarray(self.epsilon_degree)
        return LapReport(noisy, jnp.where(owned, values, jnp.nan))

    def log_density(self, y: Any, x: Any, own: Any = 0) -> Array:
        """log p of a report given a list; -inf where it is about other than the owned pairs."""
        y = LapReport(*y)
        bits, owned, degree = self._record(NeighbourList(*x), own)
        possible = (jnp.isnan(y.values) != owned).all() & ~jnp.isnan(y.degree)
        off = jnp.where(owned, jnp.asarray(y.values) - bits, 0.0)
        of_bits = jnp.where(owned, _log_laplace(self.epsilon_edges, off), 0.0).sum()
        return jnp.where(possible, of_bits + _log_laplace(self.epsilon_degree, y.degree - degree), -jnp.inf)

    def of_users(self, choose: Callable[[Scalar], Scalar]) -> "LocalLap":
        """The same with ``choose`` applied to both budgets."""
        return dataclasses.replace(
            self, epsilon_degree=choose(self.epsilon_degree), epsilon_edges=choose(self.epsilon_edges)
        )

    def bit_reports(self, owned: int) -> tuple[np.ndarray, np.ndarray]:
        """Both numbers at what may be true, between, and far away."""
        degrees, values = (np.array([-_FAR, *np.arange(0, most + 0.5, 0.5), _FAR]) for most in (owned, 1))
        noisy, sent = np.meshgrid(degrees, values)
        return noisy.ravel(), sent.ravel()

    def bit_log_density(self, noisy: Any, sent: Any, degree: Any, bit: Any, owned: Any) -> Array:
        """log p of the noisy degree and of one noisy bit: see :class:`~ldp_jax.edges.HasBitLaw`."""
        of_bit = _log_laplace(self.epsilon_edges, jnp.asarray(sent) - bit)
        of_degree = _log_laplace(self.epsilon_degree, jnp.asarray(noisy) - degree)
        return of_degree + jnp.where(jnp.isnan(bit), 0.0, of_bit)

    def domain(self) -> Lists:
        """Lists of user 0, of nodes below n; other ids, repeats and 0 are dropped."""
        return Lists(self._size())

    def codomain(self, own: int = 0) -> LapReports:
        """A real number for the degree, and one for each bit of an owned pair."""
        n = self._size()
        owned = tuple(np.flatnonzero(pairs_of(own, n, self.reporting)[0]).tolist())
        return LapReports(n, owned, owned if self.reporting == "half" else tuple(range(n)))

    def estimate(self, y: Any, own: Any = 0) -> Array:
        """The noisy degree (``half``: of the owned pairs), which is unbiased."""
        return jnp.asarray(LapReport(*y).degree)

    def _size(self) -> int:
        if self.n is None:
            raise ValueError("n must be given for one user's view: how many nodes the graph has")
        return self.n

    def _record(self, neighbours: NeighbourList, own: Any) -> tuple[Array, Array, Array]:
        """A list as bits [n], what pairs the user owns [n], and the reported degree."""
        n = self._size()
        check_own(own, n)
        bits = to_bits(neighbours, n) & (jnp.arange(n) != own)
        owned, _ = pairs_of(own, n, self.reporting)
        return bits, owned, (bits if self.reporting == "half list" else bits & owned).sum()

    def select(self, reports: LapReport) -> Array:
        """The server's graph from the reports of all users of one graph; O(n^2), for small graphs.

        Args:
          reports: of users 0 to n - 1, stacked: degrees [n] and values [n, n].

        Returns:
          bool [n, n], symmetric: which pairs are edges of the noisy graph.
        """
        values = jnp.asarray(reports.values)
        n = values.shape[-1]
        total = jnp.asarray(reports.degree).sum() / (2 if self.reporting == "half list" else 1)
        edges = jnp.clip(jnp.round(total), 0, n * (n - 1) // 2)
        flat = jnp.where(jnp.isnan(values), -jnp.inf, values).ravel()
        order = jnp.argsort(flat, descending=True, stable=True)
        kept = jnp.zeros(flat.shape, bool).at[order].set(jnp.arange(len(flat)) < edges).reshape(n, n)
        return kept | kept.T

    def sample_graph(self, key: PRNGKey, users: Population, memory: float) -> ReportedPairs:
        """The pairs of the server's graphs, each once, and the noisy degrees.

        Exact in law, in O(users + edges in + edges out) but for sorts. Values are about pairs of two private users;
        T is estimated from the degrees less the edges that public users show.

        Args:
          key: a typed threefry key.
          users: the graph, checked.
          memory: bytes of reported pairs to allow, 32 an edge.

        Raises:
          ValueError: for budgets that are not one number for all, or more edges than ``memory`` allows.
        """
        return _sample(key, self, users, memory)

    def guarantee(self) -> Guarantee:
        """epsilon_1 + epsilon_2 per bit; the largest sum of a stack."""
        reason = "Laplace noise on the degree and on each owned bit, each of sensitivity 1, compose"
        return per_bit(float(self.sums().max()), reason)

    def relationship(self, reporting: Reporting | None = None) -> Guarantee:
        r"""Per edge: one end's value and both ends' degrees (``half list``), or the owner's degree (``half``).

        ``half list``: :math:`2 \epsilon_1 + \epsilon_2`; ``half``: :math:`\epsilon_1 + \epsilon_2`; the largest of
        a stack.

        Raises:
          ValueError: for ``full``: a pair has one value, its owner's.
        """
        reporting = self.reporting if reporting is None else reporting
        validate.one_of(self.reportings, reporting=reporting)
        owner, other = float(self.sums().max()), float(self._budgets()[0].max())
        return per_edge((owner, other) if reporting == "half list" else (owner,), reporting)

    def sums(self) -> np.ndarray:
        """epsilon_1 + epsilon_2; float64 [] or that of a stack."""
        return summed(*self._budgets())

    def _budgets(self) -> tuple[np.ndarray, np.ndarray]:
        """Both budgets, concrete and checked."""
        first, second = concrete_budgets(self, self.epsilon_degree, self.epsilon_edges)
        return first, second


def _log_laplace(epsilon: Any, off: Any) -> Array:
    """The log density of Laplace noise of scale 1 / epsilon."""
    epsilon = jnp.asarray(epsilon)
    return jnp.log(epsilon / 2) - epsilon * jnp.abs(off)


# --- Whole graphs ----------------------------------------------------------------------------------------------
#
# The server looks at the order of values alone, so a value is replaced by its score: the chance that the noise of a
# false pair (one without an edge) is larger. Scores of false pairs are uniform on (0, 1) and independent; the T
# pairs of smallest score are chosen. Scores of true pairs are drawn one by one. Of the false ones at most the T
# smallest can matter, and which pairs have them is independent of what they are: so the T smallest of that many
# uniforms are drawn, and compared with the true pairs', which tells how many false pairs are chosen; the chosen
# ones are as many distinct false pairs, all sets of that many alike.


def _sample(key: PRNGKey, m: LocalLap, users: Population, memory: float) -> ReportedPairs:
    """See :meth:`LocalLap.sample_graph`."""
    if np.ndim(m.epsilon_degree) or np.ndim(m.epsilon_edges):
        raise ValueError("LocalLap has no personal budgets: values of unequal noise cannot be ranked together")
    senders, receivers, group, private = users
    graphs_in_all = int(group.max(initial=0)) + 1
    first_epsilon, second_epsilon = map(float, m._budgets())
    degree_key, true_key, least_key, among_key, false_key = jax.random.split(key, 5)
    per_graph = partial(np.bincount, minlength=graphs_in_all)
    who = np.flatnonzero(private)
    size = per_graph(group[who])
    first = np.cumsum(size) - size
    pairs = size * (size - 1) // 2
    # True pairs of two private users, each once, by their places among the private users.
    place = np.cumsum(private) - 1
    once = private[senders] & private[receivers] & (senders < receivers)
    low, high = place[senders[once]], place[receivers[once]]
    true_graph = group[receivers[once]]
    true_count = per_graph(true_graph)

    degree = users.degree.astype(np.float32)
    counted, seen, times = degree[who], per_graph(group[receivers[private[receivers] & ~private[senders]]]), 2
    if m.reporting == "half":
        start = first[true_graph]
        lows = _sparse.owns(_sparse.Users(low - start, 0, size[true_graph], size[true_graph]), high - start, True)
        counted, seen, times = np.bincount(np.where(lows, low, high), minlength=len(who)), 0, 1
    noise = _sparse.drawn(random_words.laplace, degree_key, len(who))
    degree[who] = counted + noise / np.float32(first_epsilon)
    total = (per_graph(group[who], weights=degree[who].astype(np.float64)) - seen) / times
    edges = np.clip(np.rint(total), 0, pairs).astype(np.int64)
    if 32.0 * edges.sum() > memory:
        raise ValueError(
            f"the noisy graph takes {32e-9 * edges.sum():.3g} GB (memory allows {memory / 1e9:.3g}): it has as "
            "many edges as the noisy degrees add up to; use a larger epsilon_degree, or raise memory"
        )

    false = pairs - true_count
    least = np.minimum(edges, false)
    among = np.repeat(np.arange(graphs_in_all), least)
    true_score = _true_scores(_uniforms(true_key, len(low)), second_epsilon)
    ceiling = _next_smallest(least_key, false, least)
    score = np.concatenate([true_score, ceiling[among] * _uniforms(among_key, len(among))])
    owner = np.concatenate([true_graph, among])
    order = np.lexsort((score, owner))
    chosen = order[_ordinal(owner[order], graphs_in_all) < edges[owner[order]]]
    kept = chosen[chosen < len(low)]
    wanted = per_graph(owner[chosen[chosen >= len(low)]])

    width = np.int64(max(len(who), 1))
    code = low * width + high
    added = _false_pairs(false_key, wanted, size, np.sort(code), true_count)
    code = np.concatenate([code[kept], added])
    return ReportedPairs(who[code // width], who[code % width], degree)


def _ordinal(owner: np.ndarray, owners: int) -> np.ndarray:
    """0, 1, ... within each run of equal entries; ``owner`` is non-decreasing."""
    count = np.bincount(owner, minlength=owners)
    return np.arange(len(owner)) - (np.cumsum(count) - count)[owner]


def _uniforms(key: PRNGKey, count: int) -> np.ndarray:
    """Uniform float64 in (0, 1] from 64 bits: small values keep their relative precision."""
    high, low = _sparse.drawn(random_words.words, key, count)
    return (high * 2.0**32 + low + 0.5) * 2.0**-64


def _true_scores(u: np.ndarray, epsilon: float) -> np.ndarray:
    """P(Lap > 1 + L) where P(Lap > L) = u: the scores of true pairs, elementwise, without logarithms."""
    shrink, rest = np.exp(-epsilon), np.maximum(1 - u, 2.0**-65)
    below_zero = np.where(rest >= shrink / 2, shrink / (4 * rest), 1 - rest / shrink)
    return np.where(u <= 0.5, u * shrink, below_zero)


def _next_smallest(key: PRNGKey, count: np.ndarray, k: np.ndarray) -> np.ndarray:
    """The (k + 1)-th smallest of ``count`` uniforms, 1 where there are k: below it, k are independent uniforms.

    Their hazards -log(1 - s) are those of exponentials, whose spacings are independent: the j-th is an exponential
    of rate count - j, j from 0.
    """
    steps = np.where(k < count, k + 1, 0)
    which = np.repeat(np.arange(len(count)), steps)
    spacing = -np.log(_uniforms(key, len(which))) / (count[which] - _ordinal(which, len(count)))
    hazard = np.bincount(which, weights=spacing, minlength=len(count))
    return np.where(k < count, -np.expm1(-hazard), 1.0)


def _false_pairs(
    key: PRNGKey, wanted: np.ndarray, size: np.ndarray, true: np.ndarray, true_count: np.ndarray
) -> np.ndarray:
    """``wanted`` distinct false pairs of each graph, all sets alike; int64 codes, low place * places + high place.

    Uniform pairs are drawn with replacement; the first that are neither true nor drawn before make a uniform set,
    in whatever rounds they come. Graphs of which most pairs are true or wanted are done by a list of all pairs.
    """
    pairs = size * (size - 1) // 2
    dense = wanted + true_count > _DENSE * pairs
    first = np.cumsum(size) - size
    width = np.int64(max(size.sum(), 1))
    list_key, key = jax.random.split(key)
    found = [_listed(list_key, np.where(dense, wanted, 0), size, true)]
    missing, turn = np.where(dense, 0, wanted), 0
    while missing.any():
        chance = (pairs - true_count - wanted + 1) / np.maximum(pairs, 1)
        draws = np.ceil(_MARGIN * missing / np.maximum(chance, 1e-300)).astype(np.int64) + _EXTRA * (missing > 0)
        graph = np.repeat(np.arange(len(size)), draws)
        sizes = _sparse.padded(size[graph].astype(np.int32), 2)
        low, high = (np.asarray(end)[: len(graph)] for end in _ends(jax.random.fold_in(key, turn), sizes))
        code = (first[graph] + low) * width + first[graph] + high
        new = np.flatnonzero(~_contains(true, code))
        new = new[np.sort(np.unique(code[new], return_index=True)[1])]
        new = new[_ordinal(graph[new], len(size)) < missing[graph[new]]]
        missing, turn = missing - np.bincount(graph[new], minlength=len(size)), turn + 1
        found.append(code[new])
        if missing.any():
            true = np.sort(np.concatenate([true, code[new]]))
    return np.concatenate(found)


@jax.jit
def _ends(key: PRNGKey, size: Array) -> tuple[Array, Array]:
    """Uniform pairs of distinct places below ``size``, the lower one first."""
    one_key, other_key = jax.random.split(key)
    one, other = _sparse.below(one_key, size), _sparse.below(other_key, size - 1)
    other = other + (other >= one)
    return jnp.minimum(one, other), jnp.maximum(one, other)


def _listed(key: PRNGKey, wanted: np.ndarray, size: np.ndarray, true: np.ndarray) -> np.ndarray:
    """``wanted`` false pairs of each graph, from a list of all pairs of those where any is wanted."""
    first = np.cumsum(size) - size
    graph = np.repeat(np.arange(len(size)), size)
    higher = np.where(wanted[graph] > 0, (first + size)[graph] - 1 - np.arange(len(graph)), 0)
    low = np.repeat(np.arange(len(graph)), higher)
    code = low * np.int64(max(len(graph), 1)) + low + 1 + _ordinal(low, len(graph))
    false = ~_contains(true, code)
    code, owner = code[false], graph[low[false]]
    order = np.lexsort((_uniforms(key, len(code)), owner))
    return code[order[_ordinal(owner[order], len(size)) < wanted[owner[order]]]]


def _contains(known: np.ndarray, code: np.ndarray) -> np.ndarray:
    """Which codes are among the sorted known ones."""
    at = np.searchsorted(known, code)
    return np.append(known, -1)[at] == code
