"""LocalLap: Laplace noise on every bit, of which a server keeps the largest (local LAPGRAPH)."""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from ldp_jax.core import random, random_words, validate
from ldp_jax.core.mechanism import MAX_EPSILON, check_single
from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.types import AnyArray, Array, PRNGKey, Scalar
from ldp_jax.edges import _sparse, checks, pair_sets
from ldp_jax.edges.draws import drawn
from ldp_jax.edges.lists import LapReport, NeighbourList
from ldp_jax.edges.neighbour_lists import MAX_BIT_EPSILON, OnLists, Reporting, pairs_of, two_budgets
from ldp_jax.edges.population import Population, ReportedPairs
from ldp_jax.edges.spaces import LapReports, critical_numbers


@mechanism
class LocalLap(OnLists):
    r"""Send a noisy degree and noisy bits; the server keeps as many of the largest as degrees say.

    Law: every pair of users has one owner (:func:`ldp_jax.edges._sparse.owns`). A user sends
    :math:`d^* = d + \mathrm{Lap}(1/\epsilon_1)`, and :math:`A_{ij} + \mathrm{Lap}(1/\epsilon_2)` of
    each owned pair. The server rounds :math:`T = \sum_i d^*_i / 2` (a half to the even number),
    clips it to [0, number of pairs], and links the T pairs of largest value. In ``half`` reporting
    d counts owned pairs alone and :math:`T = \sum_i d^*_i`.
    Guarantee: :math:`\epsilon_1 + \epsilon_2` per bit of a list; per edge
    :math:`2 \epsilon_1 + \epsilon_2`, or :math:`\epsilon_1 + \epsilon_2` with ``half``
    (:meth:`relationship`); attained. Ideal arithmetic: float32 leaks.
    Utility: T has mean :math:`|E|` and variance :math:`n / (2 \epsilon_1^2)` (``half``:
    :math:`2 n / \epsilon_1^2`) before it is clipped. A true edge stays with a chance of
    about :math:`e^{\epsilon_2} T / N` among N pairs, where that is below 1/2: little in sparse
    graphs with a small budget.
    Numerics: one user's noise is float32, from 225 bits; whole graphs are compared in float64, from
    64 bits. Among equal values the lower ids win, in whole graphs a true pair.
    Reference: Hidano & Murakami, 2022, section V-A; LAPGRAPH: Wu et al., IEEE S&P 2022.

    ``epsilon_degree`` is :math:`\epsilon_1` in (0, 100], ``epsilon_edges`` :math:`\epsilon_2` in
    (0, 40]; one number for all users. In ``half list`` reporting the degree is the whole list's.

    >>> m = LocalLap(0.25, 0.75)
    >>> (
    ...     m.guarantee().epsilon,
    ...     m.relationship().epsilon,
    ...     m.relationship("half").epsilon,
    ... )
    (1.0, 1.25, 1.0)
    """

    epsilon_degree: Scalar
    epsilon_edges: Scalar
    n: int | None = static(default=None)
    reporting: Reporting = static(default="half list")

    budgets: ClassVar[dict[str, float]] = {
        "epsilon_degree": MAX_EPSILON,
        "epsilon_edges": MAX_BIT_EPSILON,
    }
    reportings: ClassVar[tuple[Reporting, ...]] = ("half list", "half")

    @classmethod
    def from_epsilon(cls, epsilon: float, share: float = 0.1, **options: Any) -> "LocalLap":
        """The paper's allocation: epsilon_1 = share * epsilon, epsilon_2 the rest.

        >>> m = LocalLap.from_epsilon(2.0)
        >>> m.epsilon_degree, round(m.epsilon_edges, 12), m.guarantee().epsilon
        (0.2, 1.8, 2.0)
        """
        return cls(*two_budgets(epsilon, share=share), **options)

    def privatize(self, key: PRNGKey, neighbours: NeighbourList, own: Scalar = 0) -> LapReport:
        """Draw the report of one user, in O(n); ``vmap`` over users."""
        validate.threefry(key)
        check_single(self)
        bits, owned, degree, _ = self._record(neighbours, own)
        degree_key, values_key = random.split(key)
        noise = random_words.laplace(values_key, owned.shape) / jnp.asarray(self.epsilon_edges)
        values = jnp.where(owned, bits.astype(jnp.float32) + noise, jnp.nan)
        noise = random_words.laplace(degree_key) / jnp.asarray(self.epsilon_degree)
        return LapReport(degree.astype(jnp.float32) + noise, values)

    def log_density(self, y: LapReport, x: NeighbourList, own: Scalar = 0) -> Array:
        """log p of a report given a list; -inf where it is about other than the owned pairs."""
        y = LapReport(*y)
        bits, owned, degree, _ = self._record(x, own)
        possible = (jnp.isnan(y.values) != owned).all() & ~jnp.isnan(y.degree)
        off = jnp.where(owned, jnp.asarray(y.values) - bits.astype(jnp.float32), 0.0)
        of_bits = jnp.where(owned, _log_laplace(self.epsilon_edges, off), 0.0).sum()
        of_degree = _log_laplace(self.epsilon_degree, y.degree - degree.astype(jnp.float32))
        return jnp.where(possible, of_bits + of_degree, -jnp.inf)

    def bit_reports(self, owned: int) -> tuple[np.ndarray, np.ndarray]:
        """Both numbers at what may be true, between, and far away."""
        noisy, sent = np.meshgrid(critical_numbers(owned), critical_numbers(1))
        return noisy.ravel(), sent.ravel()

    def bit_log_density(
        self,
        noisy: Scalar,
        sent: Scalar,
        degree: Scalar,
        bit: Scalar,
        owned: Scalar,
    ) -> Array:
        """log p of the noisy degree and of one noisy bit: see :class:`~ldp_jax.edges.HasBitLaw`."""
        of_bit = _log_laplace(self.epsilon_edges, jnp.asarray(sent) - bit)
        of_degree = _log_laplace(self.epsilon_degree, jnp.asarray(noisy) - degree)
        return of_degree + jnp.where(jnp.isnan(bit), 0.0, of_bit)

    def codomain(self, own: int = 0) -> LapReports:
        """A real number for the degree, and one for each bit of an owned pair."""
        n = self._size()
        owned = tuple(np.flatnonzero(pairs_of(own, n, self.reporting)[0]).tolist())
        return LapReports(n, owned)

    def estimate(self, y: LapReport, own: Scalar = 0) -> Array:
        """The noisy degree (``half``: of the owned pairs), which is unbiased."""
        return jnp.asarray(LapReport(*y).degree)

    def select(self, reports: LapReport) -> Array:
        """The server's graph, bool [n, n], from the stacked reports of users 0 to n - 1; O(n^2)."""
        values = jnp.asarray(reports.values)
        n = values.shape[-1]
        times = 2 if self.reporting == "half list" else 1  # that an edge is in a degree
        total = jnp.asarray(reports.degree).sum() / times
        edges = jnp.clip(jnp.round(total), 0, n * (n - 1) // 2)

        flat = jnp.where(jnp.isnan(values), -jnp.inf, values).ravel()
        order = jnp.argsort(flat, descending=True, stable=True)
        largest = jnp.arange(len(flat)) < edges
        kept = jnp.zeros(flat.shape, bool).at[order].set(largest).reshape(n, n)
        return kept | kept.T

    def sample_graph(self, key: PRNGKey, users: Population, memory: float) -> ReportedPairs:
        """The pairs of the server's graphs, each once, and the noisy degrees.

        Exact in law, in O(users + edges in + edges out) but for sorts. Values are about pairs of
        two private users; T is estimated from the degrees less the edges that public users show.
        """
        validate.require(
            not np.ndim(self.epsilon_degree) and not np.ndim(self.epsilon_edges),
            "LocalLap has no personal budgets: unequal noise cannot be ranked",
        )
        senders, receivers, group, private = users
        graphs = int(group.max(initial=0)) + 1
        degree_key, true_key, least_key, among_key, false_key = random.split(key, 5)
        who = np.flatnonzero(private)
        size = np.bincount(group[who], minlength=graphs)
        pairs = size * (size - 1) // 2

        # True pairs of two private users, each once, by their places among the private users.
        place = np.cumsum(private) - 1
        once = private[senders] & private[receivers] & (senders < receivers)
        low = place[senders[once]]
        high = place[receivers[once]]
        of_pair = group[receivers[once]]
        true = np.bincount(of_pair, minlength=graphs)

        degree = users.degree.astype(np.float32)
        if self.reporting == "half":
            start = (np.cumsum(size) - size)[of_pair]
            inside = _sparse.Users(low - start, 0, size[of_pair], size[of_pair])
            owner = np.where(_sparse.owns(inside, high - start, True), low, high)
            counted = np.bincount(owner, minlength=len(who))
            shown = 0
            times = 1
        else:
            counted = degree[who]
            beside = receivers[private[receivers] & ~private[senders]]
            shown = np.bincount(group[beside], minlength=graphs)
            times = 2

        first, second = map(float, self.spent())
        noise = drawn(random_words.laplace, degree_key, len(who)) / np.float32(first)
        degree[who] = counted + noise
        total = np.bincount(group[who], degree[who].astype(np.float64), graphs)
        edges = np.clip(np.rint((total - shown) / times), 0, pairs).astype(np.int64)
        remedy = "noisy degrees add up to that; use a larger epsilon_degree"
        checks.fits(int(edges.sum()), memory, remedy, bytes_each=32.0)

        keys = true_key, least_key, among_key
        kept, wanted = pair_sets.largest(keys, second, of_pair, edges, pairs - true)
        width = np.int64(max(len(who), 1))
        code = low * width + high
        added = pair_sets.false_pairs(false_key, wanted, size, np.sort(code), true)
        code = np.concatenate([code[kept], added])
        return ReportedPairs(who[code // width], who[code % width], degree)

    def proof(self) -> str:
        """Composition of the noise of one degree and of one bit."""
        return "Laplace noise on the degree and on each owned bit, each of sensitivity 1, compose"

    def _ends(self, reporting: Reporting) -> tuple[float, ...]:
        owner = float(self.sums().max())
        if reporting == "half":
            return (owner,)
        return owner, float(self.spent()[0].max())


def _log_laplace(epsilon: Scalar, off: AnyArray) -> Array:
    epsilon = jnp.asarray(epsilon)
    return jnp.log(epsilon / 2) - epsilon * jnp.abs(off)
