"""EdgeRand: each pair of nodes is released as it is, or a fair coin in its place."""

import numpy as np

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core.mechanism import check_epsilon, check_single, largest
from ldp_jax.core.pytree import mechanism
from ldp_jax.core.types import PRNGKey, Scalar
from ldp_jax.curators.release import MEMORY, CentralMechanism, per_private_edge
from ldp_jax.curators.split import EdgeSplit, NodePairs
from ldp_jax.edges.neighbour_lists import MAX_BIT_EPSILON
from ldp_jax.edges.population import Population
from ldp_jax.edges.randomized_response import RandomizedResponse
from ldp_jax.graph import graphs


@mechanism
class EdgeRand(CentralMechanism):
    r"""Release each pair that may be a private edge as it is, or a fair coin in its place.

    Law: a coin has probability :math:`s = 2 / (e^\epsilon + 1)`, so that a bit is flipped with
    probability :math:`s / 2 = 1 / (e^\epsilon + 1)`. It is
    :class:`~ldp_jax.edges.RandomizedResponse` in a half matrix, run by a curator.
    Guarantee: epsilon per private edge, attained.
    Utility: dense: of N pairs about :math:`N / (e^\epsilon + 1)` are false. Time and memory are the
    release's.
    Numerics: the flip is drawn, not the keep, from 64 bits; budgets end at 40.
    Reference: Wu et al., LinkTeller, IEEE S&P 2022, section V-A.

    >>> import jax
    >>> from ldp_jax.edges import privatize_graph
    >>> ring = graphs.from_edges([[i, (i + 1) % 10] for i in range(10)], 10)
    >>> noisy = privatize_graph(jax.random.key(0), ring, EdgeRand(20.0))
    >>> len(noisy.graph.senders) // 2
    10
    """

    epsilon: Scalar

    def _check(self) -> None:
        check_epsilon(self.epsilon, MAX_BIT_EPSILON)

    def guarantee(self) -> Guarantee:
        """epsilon per private edge."""
        return per_private_edge(
            largest(self.epsilon),
            "each pair that may be private is flipped with probability 1/(e^eps + 1)",
        )

    def sample_pairs(
        self,
        key: PRNGKey,
        split: EdgeSplit,
        memory: float = MEMORY,
    ) -> NodePairs:
        """The pairs that are said to be edges."""
        check_single(self)
        pairs = split.pairs()
        if pairs.candidates == 0:
            return np.zeros((0, 2), np.int64)
        edges = pairs.places(pairs.private)
        users = Population.of(graphs.from_edges(edges, len(pairs.nodes), pairs_in="rows"))
        response = RandomizedResponse(self.epsilon, reporting="half")
        one, other, _ = response.sample_graph(key, users, memory)
        codes = pairs.codes(np.stack([one, other], 1))
        return pairs.ids(codes[~np.isin(codes, pairs.public)])
