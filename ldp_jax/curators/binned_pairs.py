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
from ldp_jax.curators.release import MEMORY, CentralMechanism, check_memory, per_private_edge
from ldp_jax.curators.split import EdgeSplit, Pairs
from ldp_jax.edges.degree_noise import NOISES, Noise
from ldp_jax.edges.draws import ordinal, uniforms
from ldp_jax.edges.pair_sets import other_pairs
from ldp_jax.graph import graphs

Score = Callable[[Graph], tuple[Values, Values]]
"""From the public graph alone: pairs [k, 2] and their scores [k]; every other pair ranks below
them.
"""

NAMED = 2**22
"""How many pairs a score of this module names, at most."""


@mechanism
class BinnedPairs(CentralMechanism):
    r"""Rank all pairs by a public score, count private edges in bins of ranks, release as many pairs of each bin.

    Law: the N pairs that may be private edges are ranked by their scores. Bins end at the ranks N,
    N / 2, N / 4 and so on, and the first begins at 0; pairs without a score are a bin of their own,
    the last. In each bin the private edges are counted with noise of scale :math:`1/\epsilon`.
    Counts are made consistent with their sum and rounded at random, and so many distinct pairs are
    drawn from the bin, all sets alike.
    Guarantee: epsilon per private edge: each pair is in one bin, and bins are public.
    Utility: the noise is a few edges a bin, whatever the graph's size, so that the release is as
    good as the score.
    Numerics: whole noise goes through a float32 logarithm; the guarantee is that of ideal
    arithmetic. Time and memory are O(k + pairs out + edges), but for sorts, of k pairs with a
    score.
    Reference: Laplace mechanism on a histogram: Dwork et al., TCC 2006; whole noise: Ghosh et al.,
    STOC 2009.

    ``score`` is ``common neighbours`` (ties by the product of degrees), ``degree product``, or a
    function of the public graph that gives pairs [k, 2] and their scores [k]. There are at most
    ``bins``, >= 2.

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
        if isinstance(self.score, str):
            validate.one_of(tuple(SCORES), score=self.score)
        elif not callable(self.score):
            raise ValueError(
                f"score must be one of {', '.join(SCORES)}, or a function that is given the public graph alone, "
                f"got {type(self.score).__name__}: nobody could say whether it was computed from private edges"
            )

    def guarantee(self) -> Guarantee:
        """epsilon per private edge."""
        return per_private_edge(
            largest(self.epsilon),
            f"{self.noise.capitalize()} noise on counts of disjoint public bins of pairs",
        )

    def ranked(self, split: EdgeSplit) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " bins"]]:
        """Codes of the pairs that have a score, best first, and the size of each bin.

        Of public edges alone.

        Other pairs are the last bin. ``ValueError`` for other than distinct pairs of nodes and
        finite scores.
        """
        pairs = split.pairs()
        named, score = (SCORES[self.score] if isinstance(self.score, str) else self.score)(
            split.public
        )
        codes, values = _checked(named, score, split)
        order = np.argsort(-values, kind="stable")
        codes = codes[order]
        halved = pairs.candidates >> np.arange(min(self.bins - 1, 63))
        ends = np.unique(np.minimum(halved, len(codes)))
        sizes = np.diff(ends[ends > 0], prepend=0)
        rest = pairs.candidates - len(codes)
        return codes, np.append(sizes, rest) if rest else sizes

    def sample_pairs(
        self, key: PRNGKey, split: EdgeSplit, memory: float = MEMORY
    ) -> Int[np.ndarray, "k 2"]:
        """As many pairs of each bin as its noisy count says."""
        check_single(self)
        pairs = split.pairs()
        if pairs.candidates == 0:
            return np.zeros((0, 2), np.int64)
        count_key, round_key, chosen_key, other_key = random.split(key, 4)
        codes, sizes = self.ranked(split)
        true = _true_counts(pairs, codes, sizes)
        counts = consistent(noisy_counts(count_key, true, float(self.epsilon), self.noise), sizes)
        check_memory(float(counts.sum()), memory)
        wanted = whole(uniforms(round_key, 1)[0] % 1.0, counts, sizes)
        named = len(sizes) - int(pairs.candidates > len(codes))
        owner = np.repeat(np.arange(named), sizes[:named])
        order = np.lexsort((uniforms(chosen_key, len(codes)), owner))
        chosen = codes[order[ordinal(owner[order]) < wanted[owner[order]]]]
        if named < len(sizes):
            known = np.sort(np.concatenate([pairs.public, codes]), kind="stable")
            chosen = np.concatenate(
                [chosen, other_pairs(other_key, int(wanted[-1]), len(pairs.nodes), known)]
            )
        return pairs.ids(chosen)


def _true_counts(pairs: Pairs, codes: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    named = np.flatnonzero(np.isin(codes, pairs.private))
    rank = np.append(named, np.full(len(pairs.private) - len(named), len(codes)))
    return np.bincount(np.searchsorted(np.cumsum(sizes), rank, "right"), minlength=len(sizes))


def _checked(named: Values, score: Values, split: EdgeSplit) -> tuple[np.ndarray, np.ndarray]:
    """Codes and scores of those pairs that may be private edges."""
    n = split.num_nodes
    pairs = split.pairs()
    named = validate.pairs(n, "pairs of nodes", score=named)
    values = validate.numbers(score=score)
    if (
        values.shape != named.shape[:1]
        or not np.isfinite(values).all()
        or (named[:, 0] == named[:, 1]).any()
    ):
        raise ValueError(
            f"score must give a finite score for each of {len(named)} pairs of two different nodes"
        )
    place = np.full(n, -1, np.int64)
    place[pairs.nodes] = np.arange(len(pairs.nodes))
    ends = place[named]
    inside = (ends >= 0).all(1)
    codes = pairs.codes(ends[inside])
    values = values[inside]
    if len(np.unique(codes)) < len(codes):
        raise ValueError("score must give each pair once")
    free = ~np.isin(codes, pairs.public)
    return codes[free], values[free]


# --- Scores of the public graph -------------------------------------------------------------------


def common_neighbours(public: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Pairs by their common neighbours, ties by the product of degrees.

    In time and memory of paths of two edges.

    >>> pairs, score = common_neighbours(graphs.from_edges([[0, 1], [1, 2], [2, 3]], 4))
    >>> pairs.tolist()
    [[0, 2], [1, 3]]
    """
    n = graphs.num_nodes(public)
    ones = np.ones(len(public.senders), np.int32)
    adjacency = scipy.sparse.csr_array(
        (ones, (np.asarray(public.senders), np.asarray(public.receivers))), (n, n)
    )
    shared = scipy.sparse.coo_array(scipy.sparse.triu(adjacency @ adjacency, 1))
    low, high = (np.asarray(end, np.int64) for end in shared.coords)
    degree = np.bincount(np.asarray(public.receivers), minlength=n).astype(np.float64)
    product = degree[low] * degree[high]
    return np.stack([low, high], 1), shared.data + product / (product.max(initial=0.0) + 1)


def degree_product(public: Graph) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of the largest products of degrees + 1, at most :data:`NAMED`, without the matrix of all pairs.

    >>> pairs, score = degree_product(graphs.from_edges([[0, 1], [1, 2]], 3))
    >>> pairs[np.argsort(-score)].tolist()
    [[0, 1], [1, 2], [0, 2]]
    """
    n = graphs.num_nodes(public)
    degree = np.bincount(np.asarray(public.receivers), minlength=n).astype(np.int64) + 1
    order = np.argsort(-degree, kind="stable")
    sorted_degree = degree[order]
    place = np.arange(n)

    def partners(least: int) -> np.ndarray:
        """How many later nodes make a product of at least ``least`` with each."""
        ends = np.searchsorted(
            -sorted_degree, -((least + sorted_degree - 1) // sorted_degree), "right"
        )
        return np.maximum(ends - place - 1, 0)

    low, high = (
        0,
        int(sorted_degree[0]) ** 2 + 1,
    )  # the least product whose pairs are few enough, by bisection
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if partners(middle).sum() <= NAMED else (middle, high)
    count = partners(high if partners(low).sum() > NAMED else low)
    first = np.repeat(place, count)
    second = first + 1 + np.arange(len(first)) - (np.cumsum(count) - count)[first]
    ends = order[np.stack([first, second], 1)]
    return np.sort(ends, 1), degree[ends].prod(1).astype(np.float64)


SCORES: dict[str, Score] = {
    "common neighbours": common_neighbours,
    "degree product": degree_product,
}
