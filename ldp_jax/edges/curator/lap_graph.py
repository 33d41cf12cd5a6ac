"""LapGraph: Laplace noise on every pair, of which the largest are released."""

import jax
import numpy as np
from jaxtyping import Int

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import validate
from ldp_jax.core.mechanism import MAX_EPSILON, check_single, largest
from ldp_jax.core.pytree import mechanism
from ldp_jax.core.rounding import add_up
from ldp_jax.core.types import PRNGKey, Scalar
from ldp_jax.edges import local_laplace
from ldp_jax.edges.curator.noisy_counts import noisy_counts
from ldp_jax.edges.curator.release import MEMORY, CentralMechanism, check_memory, per_private_edge
from ldp_jax.edges.curator.split import EdgeSplit
from ldp_jax.edges.neighbour_lists import check_bit_epsilon, rest_of


@mechanism
class LapGraph(CentralMechanism):
    r"""Release as many pairs as there are private edges, about: those of the largest noisy bits.

    Law: with m private edges, :math:`T = m + \mathrm{Lap}(1/\epsilon_1)`, rounded and clipped to [0, number of
    pairs that may be private]; released are the T pairs of largest :math:`A_{ij} + \mathrm{Lap}(1/\epsilon_2)`.

    Guarantee: :math:`\epsilon_1 + \epsilon_2` per private edge: one edge changes the count by one and one bit by
    one. The choice of the largest is post-processing.

    Utility: a private edge stays with a chance of about :math:`e^{\epsilon_2} T / N` where that is below 1/2, of N
    pairs: in sparse graphs with a small budget next to nothing but the number of edges is left.

    Numerics: no noise is drawn for pairs that cannot be released: the order statistics of the false ones are, in
    float64 from 64 bits (as :class:`~ldp_jax.edges.LocalLap` does). Time and memory are O(T + m + public edges),
    but for sorts. The guarantee is that of ideal arithmetic.

    Reference: Wu et al., LinkTeller, IEEE S&P 2022, section V-A; 1 % of the budget is the count's there.

    Args:
      epsilon_count: :math:`\epsilon_1`, in (0, 100].
      epsilon_edges: :math:`\epsilon_2`, in (0, 40].

    >>> m = LapGraph.from_epsilon(1.0)
    >>> m.epsilon_count, m.epsilon_edges, m.guarantee().epsilon
    (0.01, 0.99, 1.0)
    """

    epsilon_count: Scalar
    epsilon_edges: Scalar

    def _check(self) -> None:
        validate.positive(epsilon_count=self.epsilon_count)
        validate.in_range(0.0, MAX_EPSILON, open_lower=True, epsilon_count=self.epsilon_count)
        check_bit_epsilon(epsilon_edges=self.epsilon_edges)

    @classmethod
    def from_epsilon(cls, epsilon: float, share: float = 0.01) -> "LapGraph":
        """A budget, of which the count gets a share in (0, 1).

        Raises:
          ValueError: where epsilon is not finite and > 0, or share is outside (0, 1).
        """
        return cls(*two_budgets(epsilon, share))

    def guarantee(self) -> Guarantee:
        """epsilon_1 + epsilon_2 per private edge."""
        return per_private_edge(
            add_up((largest(self.epsilon_count), largest(self.epsilon_edges))),
            "Laplace noise on the number of private edges and on each pair, each of sensitivity 1, compose",
        )

    def sample_pairs(self, key: PRNGKey, split: EdgeSplit, memory: float = MEMORY) -> Int[np.ndarray, "k 2"]:
        """The T pairs of largest noisy bits."""
        check_single(self)
        pairs = split.pairs()
        count_key, true_key, least_key, among_key, false_key = jax.random.split(key, 5)
        true = len(pairs.private)
        noisy = noisy_counts(count_key, np.array([true]), float(self.epsilon_count))
        total = np.clip(np.rint(noisy), 0, pairs.candidates).astype(np.int64)
        check_memory(float(total[0]), memory)

        # The scores of local_laplace: chances that a false pair's noise is larger. Of false pairs the T smallest.
        false = np.array([pairs.candidates - true])
        least = np.minimum(total, false)
        score = local_laplace._true_scores(local_laplace._uniforms(true_key, true), float(self.epsilon_edges))
        ceiling = local_laplace._next_smallest(least_key, false, least)
        score = np.concatenate([score, ceiling * local_laplace._uniforms(among_key, int(least[0]))])
        chosen = np.argsort(score, kind="stable")[: total[0]]
        kept = pairs.private[chosen[chosen < true]]
        edges = np.sort(np.concatenate([pairs.public, pairs.private]))
        return pairs.ids(
            np.concatenate([kept, other_pairs(false_key, int((chosen >= true).sum()), len(pairs.nodes), edges)])
        )


def other_pairs(key: PRNGKey, wanted: int, places: int, known: np.ndarray) -> np.ndarray:
    """Distinct pairs of places that are not among the known ones, all sets of them alike; int64 codes [wanted].

    Args:
      key: a typed threefry key.
      wanted: how many; so many there must be.
      places: how many places there are.
      known: codes of pairs, sorted.
    """
    return local_laplace._false_pairs(key, np.array([wanted]), np.array([places]), known, np.array([len(known)]))


def two_budgets(epsilon: float, share: float) -> tuple[float, float]:
    """A budget in two parts, of which the first is a share of it; together they are never above it."""
    validate.number(0.0, open_lower=True, epsilon=epsilon)
    validate.number(0.0, 1.0, open_lower=True, open_upper=True, share=share)
    first = share * epsilon
    return first, rest_of(epsilon, first)
