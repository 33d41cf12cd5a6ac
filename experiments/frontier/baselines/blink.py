"""Blink: networks over the posterior links of noisy degrees and noisy bits (Zhu, Tan & Xiao, CCS 2023)."""

from functools import partial
from typing import Any, NamedTuple

import jax

from experiments.frontier.baselines._links import MEMORY, Dense
from experiments.frontier.baselines._released import of_lists, spent
from experiments.frontier.baselines.lists import Reported, through_gcn, through_ppr
from ldp_jax import edges
from ldp_jax.core.types import Array, Graph, PRNGKey

DEGREE_SHARE = 0.1
"""Of epsilon, for the degrees."""


class _Posterior(NamedTuple):
    """Posterior links, and their row sums once and for all."""

    degree: Any
    links: edges.PosteriorLinks

    def sum(self, h: Array) -> Array:
        return self.links.sum(h)


@partial(jax.jit, static_argnames="dense")
def _laid_out(links: edges.PosteriorLinks, *, dense: bool) -> Dense | _Posterior:
    return Dense(links.degree, links.dense()) if dense else _Posterior(links.degree, links)


def _links(variant: edges.Variant, key: PRNGKey, graph: Graph, epsilon: float, num_nodes: int) -> Reported:
    """Links, or why there are none; all of the posterior as a matrix where that is smaller than its corrections."""
    try:
        made = edges.private_links(key, graph, epsilon, variant=variant, degree_share=DEGREE_SHARE, memory=MEMORY)
    except ValueError as refusal:
        if "memory" not in str(refusal):
            raise
        each = edges.NoisyDegree(DEGREE_SHARE * epsilon), edges.RandomizedResponse((1 - DEGREE_SHARE) * epsilon)
        return None, of_lists(*each)
    dense = variant == "soft" and 4.0 * num_nodes**2 <= MEMORY
    return _laid_out(made.links, dense=dense), spent(made.guarantee)


_hard, _soft, _hybrid = (partial(_links, variant) for variant in ("hard", "soft", "hybrid"))

hard_gcn, soft_gcn, hybrid_gcn = (partial(through_gcn, report) for report in (_hard, _soft, _hybrid))
"""A graph convolutional network: over links that are likelier than not, over all posteriors, over the likeliest."""

soft_ppr, hybrid_ppr = (partial(through_ppr, report) for report in (_soft, _hybrid))
"""PageRank of classes over the posterior links, and a regression: not in the paper, which has networks."""
