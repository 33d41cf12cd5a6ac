"""PublicHRG: the dendrogram of public edges, and the whole budget for its counts."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import validate
from ldp_jax.core.mechanism import check_epsilon, check_single, largest
from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.types import PRNGKey, Scalar
from ldp_jax.edges._degree_noise import NOISES, Noise
from ldp_jax.edges.curator import connections, hrg
from ldp_jax.edges.curator.edge_rr import SWEEPS, check_chain, check_thresholds, released
from ldp_jax.edges.curator.release import MEMORY, CentralMechanism, DendrogramLaw, per_private_edge
from ldp_jax.edges.curator.split import EdgeSplit


@mechanism
class PublicHRG(CentralMechanism):
    r"""A dendrogram that fits the public edges, and a graph from noisy counts of the private ones.

    Law: the last state of a chain with density :math:`\propto \exp(w L_{pub}(D))`; then as
    :class:`~ldp_jax.edges.curator.EdgeRR`, with :math:`\mathrm{Lap}(1/\epsilon)` on the count of each group.

    Guarantee: epsilon per private edge, proved: no private edge is looked at before the counts, however far the
    chain has come, and an edge is in one group.

    Utility: that of a dendrogram that costs nothing; where there are no public edges it is a random one.

    Numerics: the guarantee is that of ideal arithmetic: noise is float32.

    Reference: HeteroRR (Tran et al., 2022), Algorithm 3, over public knowledge alone.

    Args:
      epsilon: in (0, 100].
      public_weight: w, >= 0. Privacy does not depend on whether the chain reaches its law.
      sweeps: of the chain.
      thresholds: tau_1 and tau_2, public.
      noise: ``laplace`` or ``geometric``.

    >>> m = PublicHRG(1.0)
    >>> m.guarantee().epsilon, m.guarantee().status
    (1.0, 'proved')
    """

    epsilon: Scalar
    public_weight: Scalar = 1.0
    sweeps: int = static(default=SWEEPS)
    thresholds: tuple[float, float] = static(default=connections.THRESHOLDS)
    noise: Noise = static(default="laplace")

    def _check(self) -> None:
        check_epsilon(self.epsilon)
        check_chain(self.public_weight, self.sweeps, warn=False)
        check_thresholds(self.thresholds)
        validate.one_of(NOISES, noise=self.noise)

    def guarantee(self) -> Guarantee:
        """epsilon per private edge."""
        return per_private_edge(
            largest(self.epsilon), "the dendrogram is public, and counts of disjoint groups of pairs have noise"
        )

    def dendrogram_law(self, num_nodes: int) -> DendrogramLaw:
        """The law of the dendrogram, which no private edge has a part in, and of the counts of its groups."""
        return DendrogramLaw((float(self.public_weight), 0.0), float(self.epsilon), self.thresholds)

    def dendrogram(self, key: PRNGKey, split: EdgeSplit) -> hrg.Dendrogram:
        """The dendrogram over the private nodes, of which there must be two: public."""
        check_single(self)
        pairs = split.pairs()
        edges = hrg.Edges.of(pairs.places(pairs.public), [])
        first, rest = jax.random.split(key)
        scales = jnp.array([float(self.public_weight), 0.0])
        return hrg.run(rest, hrg.init(first, len(pairs.nodes), edges), edges, scales, self.sweeps).tree

    def sample_pairs(self, key: PRNGKey, split: EdgeSplit, memory: float = MEMORY) -> Int[np.ndarray, "k 2"]:
        """Pairs sampled by the noisy connection probabilities of the public dendrogram."""
        if split.pairs().candidates == 0:
            return np.zeros((0, 2), np.int64)
        chain_key, count_key, pairs_key = jax.random.split(key, 3)
        tree = self.dendrogram(chain_key, split)
        pairs = split.pairs()
        state = hrg.state_of(tree, hrg.Edges.of(pairs.places(pairs.public), pairs.places(pairs.private)))
        epsilon = float(self.epsilon)
        region = connections.regions(tree, epsilon, self.thresholds)
        probability = connections.probabilities(count_key, state, epsilon, region, noise=self.noise)
        return released(pairs_key, tree, probability, split, memory)
