"""Noisy neighbour lists as graphs for what is usually done with one.

DPRR, randomised response, and Blink.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments.frontier.baselines._network import (
    MEMORY,
    Dense,
    Links,
    dense,
    linked,
    over,
    pagerank,
    sparse,
)
from experiments.frontier.baselines._released import Answer, Asked, of_lists, spent
from ldp_jax import edges
from ldp_jax.accounting.guarantee import PipelineGuarantee
from ldp_jax.core.types import Array, Graph, PRNGKey

Reported = tuple[Links | None, PipelineGuarantee]
"""Links, and what was spent; no links where memory does not hold them."""


def _through(
    classify: Callable[[PRNGKey, Links, Asked], np.ndarray],
    report: Callable[[PRNGKey, Graph, float, int], Reported],
    key: PRNGKey,
    asked: Asked,
    epsilon: float,
) -> Answer:
    report_key, fit_key = jax.random.split(key)
    links, guarantee = report(report_key, asked.graph, epsilon, len(asked.labels))
    return Answer(None if links is None else classify(fit_key, links, asked), guarantee)


_over = lambda key, links, asked: over(key, links, asked.rows, asked.labels, asked.classes)
through_gcn = partial(_through, _over)
through_ppr = partial(_through, pagerank)
"""A graph convolutional network over reported links, and PageRank over them."""


def _dprr(key: PRNGKey, graph: Graph, epsilon: float, num_nodes: int) -> Reported:
    """The split of Hidano & Murakami.

    Users are joined where either reports the other: both hardly ever do.
    """
    noisy = edges.privatize_graph(
        key, graph, edges.DPRR.from_epsilon(epsilon, n_max=num_nodes), memory=MEMORY
    )
    pairs = linked(noisy.graph.senders, noisy.graph.receivers, num_nodes, ends=1)
    return sparse(*pairs, num_nodes), spent(noisy.guarantee)


def _rr(key: PRNGKey, graph: Graph, epsilon: float, num_nodes: int) -> Reported:
    """Users are joined where both report the other.

    The graph is dense, a matrix of 4 n^2 bytes, or refused.
    """
    mechanism = edges.RandomizedResponse(epsilon)
    if 4.0 * num_nodes**2 > MEMORY:
        return None, of_lists(mechanism)
    noisy = edges.privatize_graph(key, graph, mechanism)
    matrix = np.zeros((num_nodes, num_nodes), bool)
    matrix[noisy.graph.receivers, noisy.graph.senders] = True
    return dense(matrix & matrix.T), spent(noisy.guarantee)


dprr_gcn, rr_gcn = (partial(through_gcn, report) for report in (_dprr, _rr))
dprr_ppr, rr_ppr = (partial(through_ppr, report) for report in (_dprr, _rr))


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


def _links(
    variant: edges.Variant, key: PRNGKey, graph: Graph, epsilon: float, num_nodes: int
) -> Reported:
    """Links, or why there are none.

    All of the posterior as a matrix where that is smaller than its corrections.
    """
    try:
        made = edges.private_links(
            key, graph, epsilon, variant=variant, degree_share=DEGREE_SHARE, memory=MEMORY
        )
    except ValueError as refusal:
        if "memory" not in str(refusal):
            raise
        each = (
            edges.NoisyDegree(DEGREE_SHARE * epsilon),
            edges.RandomizedResponse((1 - DEGREE_SHARE) * epsilon),
        )
        return None, of_lists(*each)
    dense = variant == "soft" and 4.0 * num_nodes**2 <= MEMORY
    return _laid_out(made.links, dense=dense), spent(made.guarantee)


_hard, _soft, _hybrid = (partial(_links, variant) for variant in ("hard", "soft", "hybrid"))

hard_gcn, soft_gcn, hybrid_gcn = (
    partial(through_gcn, report) for report in (_hard, _soft, _hybrid)
)
"""A graph convolutional network: over links that are likelier than not, over all posteriors, over
the likeliest.
"""

soft_ppr, hybrid_ppr = (partial(through_ppr, report) for report in (_soft, _hybrid))
"""PageRank of classes over the posterior links, and a regression: not in the paper, which has
networks.
"""
