"""PublicHRG: the dendrogram of public edges, and the whole budget for its counts."""

import numpy as np
from jaxtyping import Float

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core.mechanism import check_epsilon, largest
from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.types import Scalar
from ldp_jax.curators import connections, hrg
from ldp_jax.curators._dendrogram import SWEEPS, OfDendrogram
from ldp_jax.curators.release import per_private_edge
from ldp_jax.curators.split import Pairs
from ldp_jax.edges.degree_noise import Noise


@mechanism
class PublicHRG(OfDendrogram):
    r"""Draw a dendrogram that fits public edges, and a graph from noisy counts of private ones.

    Law: the last state of a chain with density :math:`\propto \exp(w L_{pub}(D))`; then as
    :class:`~ldp_jax.curators.EdgeRR`, with :math:`\mathrm{Lap}(1/\epsilon)` on the count of
    each group.
    Guarantee: epsilon per private edge: none is looked at before the counts, and each is in one
    group.
    Utility: the dendrogram costs nothing; without public edges it is a random one.
    Numerics: noise is float32. Ideal arithmetic.
    Reference: HeteroRR (Tran et al., 2022), Algorithm 3, over public knowledge alone.

    ``public_weight`` is w, in [0, 1e9]. Privacy does not depend on whether the chain reaches its
    law.

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
        super()._check()

    def guarantee(self) -> Guarantee:
        """epsilon per private edge."""
        return per_private_edge(
            largest(self.epsilon),
            "the dendrogram is public, and counts of disjoint groups of pairs have noise",
        )

    @property
    def count_epsilon(self) -> float:
        """The whole budget."""
        return float(self.epsilon)

    def scales(self, num_nodes: int) -> Float[np.ndarray, " 2"]:
        """w and 0: no private edge has a part in the dendrogram."""
        return np.array([float(self.public_weight), 0.0], np.float32)

    def seen(self, pairs: Pairs) -> hrg.Edges:
        """Public edges alone."""
        return hrg.Edges.of(pairs.places(pairs.public), [])
