"""LapGraph: Laplace noise on every pair, of which the largest are released."""

import numpy as np

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import random
from ldp_jax.core.mechanism import MAX_EPSILON, check_single, largest
from ldp_jax.core.pytree import mechanism
from ldp_jax.core.rounding import add_up
from ldp_jax.core.types import PRNGKey, Scalar
from ldp_jax.curators.noisy_counts import noisy_counts
from ldp_jax.curators.release import MEMORY, CentralMechanism, per_private_edge
from ldp_jax.curators.split import EdgeSplit, NodePairs
from ldp_jax.edges import checks
from ldp_jax.edges.neighbour_lists import MAX_BIT_EPSILON, two_budgets
from ldp_jax.edges.pair_sets import largest as largest_bits
from ldp_jax.edges.pair_sets import other_pairs


@mechanism
class LapGraph(CentralMechanism):
    r"""Release the pairs of the largest noisy bits, about as many as there are private edges.

    Law: with m private edges, :math:`T = m + \mathrm{Lap}(1/\epsilon_1)`, rounded and clipped to
    [0, number of pairs that may be private]; released are the T pairs of largest
    :math:`A_{ij} + \mathrm{Lap}(1/\epsilon_2)`.
    Guarantee: :math:`\epsilon_1 + \epsilon_2` per private edge: one edge changes the count by one
    and one bit by one. The choice of the largest is post-processing.
    Utility: a private edge stays with a chance of about :math:`e^{\epsilon_2} T / N` where that is
    below 1/2, of N pairs: little in sparse graphs with a small budget.
    Numerics: the order statistics of false pairs are drawn, in float64 from 64 bits: time and
    memory are O(T + m + public edges), but for sorts. The guarantee is that of ideal arithmetic.
    Reference: Wu et al., LinkTeller, IEEE S&P 2022, section V-A; 1 % of the budget is the count's
    there.

    ``epsilon_count`` is :math:`\epsilon_1`, in (0, 100]; ``epsilon_edges`` is :math:`\epsilon_2`,
    in (0, 40].

    >>> m = LapGraph.from_epsilon(1.0)
    >>> m.epsilon_count, m.epsilon_edges, m.guarantee().epsilon
    (0.01, 0.99, 1.0)
    """

    epsilon_count: Scalar
    epsilon_edges: Scalar

    def _check(self) -> None:
        checks.budget_in(MAX_EPSILON, epsilon_count=self.epsilon_count)
        checks.budget_in(MAX_BIT_EPSILON, epsilon_edges=self.epsilon_edges)

    @classmethod
    def from_epsilon(cls, epsilon: float, share: float = 0.01) -> "LapGraph":
        """Split a budget, of which the count gets a share in (0, 1)."""
        return cls(*two_budgets(epsilon, share=share))

    def guarantee(self) -> Guarantee:
        """epsilon_1 + epsilon_2 per private edge."""
        return per_private_edge(
            add_up((largest(self.epsilon_count), largest(self.epsilon_edges))),
            "Laplace noise on the number of private edges and on each pair, each of sensitivity 1, "
            "compose",
        )

    def sample_pairs(
        self,
        key: PRNGKey,
        split: EdgeSplit,
        memory: float = MEMORY,
    ) -> NodePairs:
        """The T pairs of largest noisy bits."""
        check_single(self)
        pairs = split.pairs()
        count_key, true_key, least_key, among_key, false_key = random.split(key, 5)
        true = len(pairs.private)
        noisy = noisy_counts(count_key, np.array([true]), float(self.epsilon_count))
        total = np.clip(np.rint(noisy), 0, pairs.candidates).astype(np.int64)
        checks.fits(float(total[0]), memory, "use a larger epsilon")
        keys = (true_key, least_key, among_key)
        false = np.array([pairs.candidates - true])
        kept, wanted = largest_bits(
            keys,
            float(self.epsilon_edges),
            np.zeros(true, int),
            total,
            false,
        )
        edges = np.sort(np.concatenate([pairs.public, pairs.private]), kind="stable")
        others = other_pairs(false_key, int(wanted[0]), len(pairs.nodes), edges)
        return pairs.ids(np.concatenate([pairs.private[kept], others]))
