"""BinnedPairs: private edges counted by the rank that public knowledge gives each pair."""

from collections.abc import Callable

import numpy as np
import scipy.sparse
from jaxtyping import Int

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import random, validate
from ldp_jax.core.mechanism import check_epsilon, check_single, largest
from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.types import Graph, PRNGKey, Scalar, Values
from ldp_jax.curators.noisy_counts import consistent, noisy_counts, whole
from ldp_jax.curators.release import MEMORY, CentralMechanism, per_private_edge
from ldp_jax.curators.split import EdgeSplit, NodePairs
from ldp_jax.edges import checks
from ldp_jax.edges.degree_noise import NOISES, Noise
from ldp_jax.edges.draws import smallest, uniforms
from ldp_jax.edges.pair_sets import other_pairs
from ldp_jax.graph import graphs

Score = Callable[[Graph], tuple[Values, Values]]
"""From the public graph alone: pairs [k, 2] and their scores [k]; every other pair ranks below
them.
"""


@mechanism
class BinnedPairs(CentralMechanism):
    r"""Count private edges in bins of a public ranking of pairs, and release as many of each bin.

    Law: the N pairs that may be private edges are ranked by their scores. Bins end at the ranks N,
    N / 2, N / 4 and so on, and the first begins at 0; pairs without a score are a bin of their own,
    the last. In each bin the private edges are counted with noise of scale :math:`1/\epsilon`.
    Counts are made consistent with their sum and rounded at random, and so many distinct pairs are
    drawn from the bin, all sets alike.
    Guarantee: epsilon per private edge: each pair is in one bin, and bins are public.
    Utility: the noise is a few edges a bin, whatever the graph's size, so that the release is as
    good as the score.
    Numerics: discrete Laplace noise goes through a float32 logarithm; the guarantee is that of
    ideal arithmetic. Time and memory are O(k + pairs out + edges), but for sorts, of k pairs with a
    score.
    Reference: Laplace mechanism on a histogram: Dwork et al., TCC 2006; discrete Laplace noise:
    Ghosh et al., STOC 2009.

    ``score`` is ``common neighbours`` (:func:`common_neighbours`), or a function of the public
    graph that gives pairs [k, 2] and their scores [k]. There are at most ``bins``, >= 2.

    >>> m = BinnedPairs(1.0)
    >>> m.guarantee().epsilon, m.guarantee().status
    (1.0, 'proved')
    """

    epsilon: Scalar
    score: str | Score = static(default="common neighbours")
    bins: int = static(default=16)
    noise: Noise = static(default="geometric")

    def _check(self) -> None:
        check_epsilon(self.epsilon)
        validate.integer_in(2, bins=self.bins)
        validate.one_of(NOISES, noise=self.noise)
        # An array of scores does not show whether it was computed from private edges.
        got = self.score if isinstance(self.score, str) else type(self.score)
        validate.require(
            got == "common neighbours" or callable(self.score),
            "score must be 'common neighbours', or a function that is given the public graph "
            f"alone, got {got}",
        )

    def guarantee(self) -> Guarantee:
        """epsilon per private edge."""
        return per_private_edge(
            largest(self.epsilon),
            f"{self.noise.capitalize()} noise on counts of disjoint public bins of pairs",
        )

    def ranked(self, split: EdgeSplit) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " bins"]]:
        """Codes of the pairs that have a score, best first, and the size of each bin.

        Private edges have no part in it. Other pairs are the last bin. ``ValueError`` for anything
        but distinct pairs of nodes and finite scores.
        """
        pairs = split.pairs()
        n = split.num_nodes
        score = common_neighbours if isinstance(self.score, str) else self.score
        named, values = score(split.public)
        named = validate.pairs(n, "pairs of nodes", score=named)
        values = validate.numbers(score=values)
        code = named.min(1) * n + named.max(1)
        distinct = len(np.unique(code)) == len(named)
        apart = (named[:, 0] != named[:, 1]).all()
        fits = values.shape == (len(named),) and np.isfinite(values).all()
        validate.require(
            fits and distinct and apart,
            f"score must give a finite number for each of {len(named)} distinct pairs of nodes",
        )

        # The pairs that may be private edges, best first.
        place = np.full(n, -1, np.int64)
        place[pairs.nodes] = np.arange(len(pairs.nodes))
        ends = place[named]
        codes = pairs.codes(ends)
        free = (ends >= 0).all(1) & ~np.isin(codes, pairs.public)
        codes = codes[free]
        codes = codes[np.argsort(-values[free], kind="stable")]

        halved = pairs.candidates >> np.arange(min(self.bins - 1, 63))
        last_ranks = np.unique(np.minimum(halved, len(codes)))
        sizes = np.diff(last_ranks[last_ranks > 0], prepend=0)
        rest = pairs.candidates - len(codes)
        if rest:
            sizes = np.append(sizes, rest)
        return codes, sizes

    def sample_pairs(
        self,
        key: PRNGKey,
        split: EdgeSplit,
        memory: float = MEMORY,
    ) -> NodePairs:
        """As many pairs of each bin as its noisy count says."""
        check_single(self)
        pairs = split.pairs()
        if pairs.candidates == 0:
            return np.zeros((0, 2), np.int64)
        count_key, round_key, chosen_key, other_key = random.split(key, 4)
        codes, sizes = self.ranked(split)

        # Private edges without a score are in the last bin.
        rank = np.flatnonzero(np.isin(codes, pairs.private))
        rank = np.append(rank, np.full(len(pairs.private) - len(rank), len(codes)))
        bins = np.searchsorted(np.cumsum(sizes), rank, "right")
        true = np.bincount(bins, minlength=len(sizes))

        noisy = noisy_counts(count_key, true, float(self.epsilon), self.noise)
        counts = consistent(noisy, sizes)
        checks.fits(float(counts.sum()), memory, "use a larger epsilon")
        wanted = whole(uniforms(round_key, 1)[0] % 1.0, counts, sizes)

        named = len(sizes) - int(pairs.candidates > len(codes))
        bin_of = np.repeat(np.arange(named), sizes[:named])
        chosen = codes[smallest(uniforms(chosen_key, len(codes)), bin_of, wanted)]
        if named < len(sizes):
            known = np.sort(np.concatenate([pairs.public, codes]), kind="stable")
            others = other_pairs(other_key, int(wanted[-1]), len(pairs.nodes), known)
            chosen = np.concatenate([chosen, others])
        return pairs.ids(chosen)


def common_neighbours(public: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Score pairs by their common neighbours, ties by degrees, in time O(paths of two edges).

    >>> pairs, score = common_neighbours(
    ...     graphs.from_edges([[0, 1], [1, 2], [2, 3]], 4)
    ... )
    >>> pairs.tolist()
    [[0, 2], [1, 3]]
    """
    n = graphs.num_nodes(public)
    senders = np.asarray(public.senders)
    receivers = np.asarray(public.receivers)
    ones = np.ones(len(senders), np.int32)
    adjacency = scipy.sparse.csr_array((ones, (senders, receivers)), (n, n))
    shared = scipy.sparse.coo_array(scipy.sparse.triu(adjacency @ adjacency, 1))
    low, high = (np.asarray(end, np.int64) for end in shared.coords)

    degree = np.bincount(receivers, minlength=n).astype(np.float64)
    product = degree[low] * degree[high]
    score = shared.data + product / (product.max(initial=0.0) + 1)
    return np.stack([low, high], 1), score
