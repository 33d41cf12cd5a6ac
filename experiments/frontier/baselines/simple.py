"""Features alone, noisy degrees, plain counts, and the true graph."""

import jax
import numpy as np

from experiments.frontier.baselines._features import groups, posterior, regression, standardised
from experiments.frontier.baselines._links import of_graph
from experiments.frontier.baselines._network import Inputs, over, pagerank, trained
from experiments.frontier.baselines._released import Answer, Asked, nothing_kept, nothing_read, spent
from ldp_jax import edges
from ldp_jax.core.types import PRNGKey


def logistic(key: PRNGKey, asked: Asked, epsilon: float) -> Answer:
    """Logistic regression, its ridge chosen out of fold; without features the classes' shares."""
    return Answer(np.asarray(posterior(asked)), nothing_read())


def perceptron(key: PRNGKey, asked: Asked, epsilon: float) -> Answer:
    """A perceptron of two layers; nothing without features."""
    if asked.rows is None:
        return Answer(None, nothing_read())
    return Answer(trained(key, Inputs(rows=asked.rows), asked.labels, asked.classes), nothing_read())


def noisy_degree(key: PRNGKey, asked: Asked, epsilon: float) -> Answer:
    """Degrees with noise of the whole epsilon; a perceptron takes log(1 + d*), d* and the features."""
    report_key, fit_key = jax.random.split(key)
    noisy = edges.privatize_graph(report_key, asked.graph, edges.NoisyDegree(epsilon, noise="geometric"))
    columns = standardised(np.stack([np.log1p(noisy.degree), noisy.degree], 1))
    scores = trained(fit_key, Inputs(rows=asked.rows, columns=columns), asked.labels, asked.classes)
    return Answer(scores, spent(noisy.guarantee))


def plain_counts(key: PRNGKey, asked: Asked, epsilon: float) -> Answer:
    """Noisy counts of neighbours by broadcast class (the label, else the likeliest by features, out of fold).

    A logistic regression takes the log posterior of the features and the counts, all standardised. Without features
    only labelled neighbours are counted.

    Reference: counts by group as a message are Qin et al., CCS 2017 (LDPGen); nothing else of it is here.
    """
    count_key, fold_key = jax.random.split(key)
    log_q = posterior(asked)
    by = groups(log_q, asked.labels) if asked.rows is not None else asked.labels.astype(np.int32)
    noisy = edges.privatize_counts(count_key, asked.graph, edges.NeighbourCounts(epsilon, asked.classes), by)
    columns = np.concatenate([np.asarray(log_q), noisy.counts], 1)
    return Answer(regression(fold_key, columns, asked.labels, asked.classes), spent(noisy.guarantee))


def true_gcn(key: PRNGKey, asked: Asked, epsilon: float) -> Answer:
    """A graph convolutional network on the true graph; without features each node has its own name."""
    return Answer(over(key, of_graph(asked.graph), asked.rows, asked.labels, asked.classes), nothing_kept())


def true_ppr(key: PRNGKey, asked: Asked, epsilon: float) -> Answer:
    """PageRank on the true graph of labels, else of the features' posterior, and a regression."""
    return Answer(pagerank(key, of_graph(asked.graph), asked), nothing_kept())
