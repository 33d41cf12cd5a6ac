"""Blink: networks over the posterior links of noisy degrees and noisy bits (Zhu, Tan & Xiao, CCS 2023)."""

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments.frontier.baselines._features import posterior
from experiments.frontier.baselines._links import MEMORY, Dense
from experiments.frontier.baselines._network import over
from experiments.frontier.baselines._pagerank import pagerank
from experiments.frontier.baselines._released import Released, of_lists, spent
from ldp_jax import edges
from ldp_jax.accounting.guarantee import PipelineGuarantee
from ldp_jax.core.types import Array, Graph, PRNGKey

DEGREE_SHARE = 0.1
"""Of epsilon, for the degrees."""


class _Posterior(NamedTuple):
    """Posterior links, and their row sums once and for all."""

    degree: Any
    links: edges.PosteriorLinks

    def sum(self, h: Array) -> Array:
        """The product with rows."""
        return self.links.sum(h)


@partial(jax.jit, static_argnames="dense")
def _laid_out(links: edges.PosteriorLinks, *, dense: bool) -> Dense | _Posterior:
    return Dense(links.degree, links.dense()) if dense else _Posterior(links.degree, links)


def _links(
    key: PRNGKey, graph: Graph, epsilon: float, variant: edges.Variant, num_nodes: int
) -> tuple[Dense | _Posterior | None, PipelineGuarantee, str]:
    """Links, or why there are none; all of the posterior as a matrix where that is smaller than its corrections."""
    try:
        made = edges.private_links(key, graph, epsilon, variant=variant, degree_share=DEGREE_SHARE, memory=MEMORY)
    except ValueError as refusal:
        if "memory" not in str(refusal):
            raise
        each = edges.NoisyDegree(DEGREE_SHARE * epsilon), edges.RandomizedResponse((1 - DEGREE_SHARE) * epsilon)
        return None, of_lists(*each), f"refused: {refusal}"
    dense = variant == "soft" and 4.0 * num_nodes**2 <= MEMORY
    return _laid_out(made.links, dense=dense), spent(made.guarantee), ""


def _gcn(
    variant: edges.Variant, key: PRNGKey, graph: Graph, features: Any, labels: np.ndarray, epsilon: float,
    num_classes: int,
) -> Released:  # fmt: skip
    report_key, fit_key = jax.random.split(key)
    links, guarantee, note = _links(report_key, graph, epsilon, variant, len(labels))
    if links is None:
        return Released(None, guarantee, note)
    return Released(over(fit_key, links, features, labels, num_classes), guarantee, note)


def _ppr(
    variant: edges.Variant, key: PRNGKey, graph: Graph, features: Any, labels: np.ndarray, epsilon: float,
    num_classes: int,
) -> Released:  # fmt: skip
    report_key, fit_key = jax.random.split(key)
    links, guarantee, note = _links(report_key, graph, epsilon, variant, len(labels))
    if links is None:
        return Released(None, guarantee, note)
    log_q = posterior(features, labels, num_classes)
    return Released(pagerank(fit_key, links, log_q, labels, num_classes), guarantee, note)


hard_gcn, soft_gcn, hybrid_gcn = (partial(_gcn, variant) for variant in ("hard", "soft", "hybrid"))
"""A graph convolutional network: over links that are likelier than not, over all posteriors, over the likeliest."""

soft_ppr, hybrid_ppr = (partial(_ppr, variant) for variant in ("soft", "hybrid"))
"""PageRank of classes over the posterior links, and a regression: not in the paper, which has networks."""
