"""A curator who draws a dendrogram by a chain, and releases pairs by its noisy counts."""

import abc
from types import ModuleType
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

from ldp_jax.core import random, validate
from ldp_jax.core.mechanism import check_single
from ldp_jax.core.types import PRNGKey, Scalar
from ldp_jax.curators import connections, hrg
from ldp_jax.curators.release import MEMORY, CentralMechanism, DendrogramLaw
from ldp_jax.curators.split import EdgeSplit, NodePairs, Pairs
from ldp_jax.edges.degree_noise import NOISES, Noise

SWEEPS = 8000
"""About 1 000 n moves: a sweep makes n / 8."""

PUBLIC_WEIGHT = 0.05
"""The weight of the likelihood of public edges. A larger one fits them better, and chains forget
their start later: several chains of ``hrg.trace`` on the public edges, and their ``hrg.r_hat``, say
how long."""

Chain = Literal["jax", "numba"]
"""What runs a chain: sweeps of many moves at once on any device (``jax``), or single moves on a CPU
(``numba``, extra ``chains``), of which it makes many more in a second. Both have one law, and draw
differently."""


class OfDendrogram(CentralMechanism):
    """A dendrogram over the private nodes, noisy counts of its groups, and pairs sampled by them.

    Abstract. ``published`` chains alternate between the likelihoods of public and private edges,
    and every internal node has noise of its own.
    """

    @property
    @abc.abstractmethod
    def public_weight(self) -> Scalar:
        """The weight of the likelihood of public edges."""

    @property
    @abc.abstractmethod
    def sweeps(self) -> int:
        """The sweeps of the chain."""

    @property
    @abc.abstractmethod
    def thresholds(self) -> tuple[float, float]:
        """tau_1 and tau_2."""

    @property
    @abc.abstractmethod
    def noise(self) -> Noise:
        """The counts' noise."""

    @property
    def chain(self) -> Chain:
        """The function that runs the chain."""
        return "jax"

    @property
    def published(self) -> bool:
        """Whether it is the law of :meth:`EdgeRR.as_published`."""
        return False

    @property
    @abc.abstractmethod
    def count_epsilon(self) -> float:
        """The budget of the counts."""

    @abc.abstractmethod
    def scales(self, num_nodes: int) -> Float[np.ndarray, " 2"]:
        """The chain's factors of L_pub and L_pri over so many private nodes; float32 [2]."""

    def seen(self, pairs: Pairs) -> hrg.Edges:
        """The edges that the chain looks at: by default all between private nodes."""
        return every_edge(pairs)

    def _check(self) -> None:
        # Of infinity every change would be NaN, and no move accepted.
        validate.in_range(0.0, 1e9, public_weight=self.public_weight)
        validate.integer_in(1, sweeps=self.sweeps)
        validate.one_of(NOISES, noise=self.noise)
        validate.one_of(get_args(Chain), chain=self.chain)
        self.engine()  # a missing numba is refused before anything is spent
        rule = "chain must be jax for a published law, whose scales take turns"
        validate.require(self.chain == "jax" or not self.published, rule)
        validate.require(
            isinstance(self.thresholds, tuple) and len(self.thresholds) == 2,
            f"thresholds must be two numbers > 0, got {self.thresholds!r}",
        )
        validate.positive(thresholds=self.thresholds)

    def engine(self) -> ModuleType:
        """The module whose ``run`` and ``trace`` advance the chain."""
        if self.chain == "jax":
            return hrg
        from ldp_jax.curators import single_moves

        return single_moves

    def dendrogram_law(self, num_nodes: int) -> DendrogramLaw:
        """The law of the dendrogram over so many private nodes, and of the counts of its groups."""
        public, private = map(float, self.scales(num_nodes))
        return DendrogramLaw((public, private), self.count_epsilon, self.thresholds, self.published)

    def dendrogram(self, key: PRNGKey, split: EdgeSplit) -> hrg.Dendrogram:
        """The chain's last dendrogram over the private nodes, of which there must be two."""
        check_single(self)
        pairs = split.pairs()
        edges = self.seen(pairs)
        n = len(pairs.nodes)
        first, rest = random.split(key)
        scales = self.scales(n)
        sweeps = self.sweeps
        if self.published:  # public and private edges in turn (eq. 12-14)
            scales = np.tile(scales * np.eye(2), (sweeps, 1))
            sweeps = 2 * sweeps
        start = hrg.init(first, n, edges)
        return self.engine().run(rest, start, edges, scales, sweeps).tree

    def sample_pairs(
        self,
        key: PRNGKey,
        split: EdgeSplit,
        memory: float = MEMORY,
    ) -> NodePairs:
        """Pairs sampled by the noisy connection probabilities of a dendrogram."""
        pairs = split.pairs()
        if pairs.candidates == 0:
            return np.zeros((0, 2), np.int64)
        chain_key, count_key, pairs_key = random.split(key, 3)
        tree = self.dendrogram(chain_key, split)
        state = hrg.state_of(tree, every_edge(pairs))
        region = connections.regions(tree, self.count_epsilon, self.thresholds)
        probability = connections.probabilities(
            count_key,
            state,
            self.count_epsilon,
            region,
            noise=self.noise,
            fresh=self.published,
        )
        codes = pairs.codes(connections.sample(pairs_key, tree, probability, memory))
        return pairs.ids(codes[~np.isin(codes, pairs.public)])


def every_edge(pairs: Pairs) -> hrg.Edges:
    """All edges between private nodes."""
    return hrg.Edges.of(pairs.places(pairs.public), pairs.places(pairs.private))
