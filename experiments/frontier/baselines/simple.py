"""Features alone, noisy degrees, plain counts, and the true graph."""

from typing import Any

import jax
import numpy as np

from experiments.frontier.baselines._features import groups, posterior, regression, standardised
from experiments.frontier.baselines._links import Sparse, sparse
from experiments.frontier.baselines._network import Inputs, over, trained
from experiments.frontier.baselines._pagerank import pagerank
from experiments.frontier.baselines._released import Released, nothing_kept, nothing_read, spent
from ldp_jax import edges
from ldp_jax.core.types import Graph, PRNGKey


def logistic(
    key: PRNGKey, graph: Graph, features: Any, labels: np.ndarray, epsilon: float, num_classes: int
) -> Released:
    """Logistic regression, its ridge chosen out of fold; without features the classes' shares."""
    return Released(np.asarray(posterior(features, labels, num_classes)), nothing_read())


def perceptron(
    key: PRNGKey, graph: Graph, features: Any, labels: np.ndarray, epsilon: float, num_classes: int
) -> Released:
    """A perceptron of two layers; nothing without features."""
    if features is None:
        return Released(None, nothing_read(), "no features")
    return Released(trained(key, Inputs(rows=features), labels, num_classes), nothing_read())


def noisy_degree(
    key: PRNGKey, graph: Graph, features: Any, labels: np.ndarray, epsilon: float, num_classes: int
) -> Released:
    """Degrees with noise of the whole epsilon; a perceptron takes log(1 + d*), d* and the features."""
    report_key, fit_key = jax.random.split(key)
    noisy = edges.privatize_graph(report_key, graph, edges.NoisyDegree(epsilon, noise="geometric"))
    columns = standardised(np.stack([np.log1p(noisy.degree), noisy.degree], 1))
    scores = trained(fit_key, Inputs(rows=features, columns=columns), labels, num_classes)
    return Released(scores, spent(noisy.guarantee))


def plain_counts(
    key: PRNGKey, graph: Graph, features: Any, labels: np.ndarray, epsilon: float, num_classes: int
) -> Released:
    """Noisy counts of neighbours by broadcast class (the label, else the likeliest by features, out of fold).

    A logistic regression takes the log posterior of the features and the counts, all standardised. Without features
    only labelled neighbours are counted.

    Reference: counts by group as a message are Qin et al., CCS 2017 (LDPGen); nothing else of it is here.
    """
    count_key, fold_key = jax.random.split(key)
    log_q = posterior(features, labels, num_classes)
    by = groups(log_q, labels) if features is not None else labels.astype(np.int32)
    noisy = edges.privatize_counts(count_key, graph, edges.NeighbourCounts(epsilon, num_classes), by)
    columns = np.concatenate([np.asarray(log_q), noisy.counts], 1)
    return Released(regression(fold_key, columns, labels, num_classes), spent(noisy.guarantee))


def _true_links(graph: Graph, num_nodes: int) -> Sparse:
    return sparse(graph.senders, graph.receivers, num_nodes)


def true_gcn(
    key: PRNGKey, graph: Graph, features: Any, labels: np.ndarray, epsilon: float, num_classes: int
) -> Released:
    """A graph convolutional network on the true graph; without features each node has its own name."""
    return Released(over(key, _true_links(graph, len(labels)), features, labels, num_classes), nothing_kept())


def true_ppr(
    key: PRNGKey, graph: Graph, features: Any, labels: np.ndarray, epsilon: float, num_classes: int
) -> Released:
    """PageRank on the true graph of labels, else of the features' posterior, and a regression."""
    log_q = posterior(features, labels, num_classes)
    return Released(pagerank(key, _true_links(graph, len(labels)), log_q, labels, num_classes), nothing_kept())
