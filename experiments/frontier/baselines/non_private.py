"""The true graph: what a baseline would be worth if lists were public."""

from typing import Any

import numpy as np

from experiments.frontier.baselines._features import posterior
from experiments.frontier.baselines._links import Sparse, sparse
from experiments.frontier.baselines._network import over
from experiments.frontier.baselines._pagerank import pagerank
from experiments.frontier.baselines._released import Released, nothing_kept
from ldp_jax.core.types import Graph, PRNGKey


def _links(graph: Graph, num_nodes: int) -> Sparse:
    return sparse(graph.senders, graph.receivers, num_nodes)


def gcn(
    key: PRNGKey, graph: Graph, features: Any, labels: np.ndarray, epsilon: float, num_classes: int
) -> Released:
    """A graph convolutional network; without features each node has a name of her own."""
    return Released(over(key, _links(graph, len(labels)), features, labels, num_classes), nothing_kept())


def ppr(
    key: PRNGKey, graph: Graph, features: Any, labels: np.ndarray, epsilon: float, num_classes: int
) -> Released:
    """PageRank of labels, of the features' posterior where there is none, and a regression."""
    log_q = posterior(features, labels, num_classes)
    return Released(pagerank(key, _links(graph, len(labels)), log_q, labels, num_classes), nothing_kept())
