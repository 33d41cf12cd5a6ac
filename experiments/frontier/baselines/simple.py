"""Features alone, degrees, counts (plain, and LPGNet's in the local model), and the true graph."""

from functools import partial

import jax
import numpy as np

from experiments.frontier.baselines import _network as network
from experiments.frontier.baselines._released import (
    Answer,
    Asked,
    nothing_kept,
    nothing_read,
    spent,
)
from ldp_jax import edges
from ldp_jax.core.types import PRNGKey


def logistic(key: PRNGKey, asked: Asked, epsilon: float) -> Answer:
    """Logistic regression, its ridge chosen out of fold; without features the classes' shares."""
    return Answer(np.asarray(network.posterior(asked)), nothing_read())


def perceptron(key: PRNGKey, asked: Asked, epsilon: float) -> Answer:
    """A perceptron of two layers; nothing without features."""
    if asked.rows is None:
        return Answer(None, nothing_read())
    scores = network.trained(key, network.Inputs(rows=asked.rows), asked.labels, asked.classes)
    return Answer(scores, nothing_read())


def noisy_degree(key: PRNGKey, asked: Asked, epsilon: float) -> Answer:
    """Degrees with noise of the whole epsilon.

    A perceptron takes log(1 + d*), d* and the features.
    """
    report_key, fit_key = jax.random.split(key)
    noisy = edges.privatize_graph(
        report_key, asked.graph, edges.NoisyDegree(epsilon, noise="geometric")
    )
    columns = network.standardised(np.stack([np.log1p(noisy.degree), noisy.degree], 1))
    scores = network.trained(
        fit_key, network.Inputs(rows=asked.rows, columns=columns), asked.labels, asked.classes
    )
    return Answer(scores, spent(noisy.guarantee))


def plain_counts(key: PRNGKey, asked: Asked, epsilon: float) -> Answer:
    """Noisy counts of neighbours by broadcast class: the label, else the likeliest by features.

    A logistic regression takes the log posterior of the features and the counts, all standardised.
    Without features only labelled neighbours are counted.

    Reference: counts by group as a message are Qin et al., CCS 2017 (LDPGen); nothing else of it is
    here.
    """
    count_key, fold_key = jax.random.split(key)
    log_q = network.posterior(asked)
    by = (
        network.groups(log_q, asked.labels)
        if asked.rows is not None
        else asked.labels.astype(np.int32)
    )
    noisy = edges.privatize_counts(
        count_key, asked.graph, edges.NeighbourCounts(epsilon, asked.classes), by
    )
    columns = np.concatenate([np.asarray(log_q), noisy.counts], 1)
    return Answer(
        network.regression(fold_key, columns, asked.labels, asked.classes), spent(noisy.guarantee)
    )


def _lpgnet(rounds: int, by_label: bool, key: PRNGKey, asked: Asked, epsilon: float) -> Answer:
    if asked.rows is None:  # nothing predicts the classes that are counted first
        return Answer(None, nothing_read())
    labels, classes = asked.labels, asked.classes
    keys = iter(jax.random.split(key, 1 + 2 * rounds))
    scores = network.trained(next(keys), network.Inputs(rows=asked.rows), labels, classes)
    known, releases = [network.standardised(scores)], []
    # Two halves of a float are the float again: no rounding to account for.
    mechanism = edges.NeighbourCounts(epsilon / rounds, classes)
    public = labels if by_label else np.full_like(labels, -1)
    for _ in range(rounds):
        noisy = edges.privatize_counts(
            next(keys), asked.graph, mechanism, network.groups(scores, public)
        )
        releases.append(noisy.guarantee)
        known.append(network.standardised(noisy.counts))
        scores = network.trained(
            next(keys), network.Inputs(columns=np.concatenate(known, 1)), labels, classes
        )
        known.append(network.standardised(scores))
    return Answer(scores, spent(*releases))


one_round, two_rounds = (partial(_lpgnet, rounds, False) for rounds in (1, 2))
"""LPGNet with one round of counts, which has the whole budget, or with two of half of it, which
compose.

A perceptron on the features predicts everybody's class; each user counts neighbours by predicted
class and reports C counts with noise; the next perceptron takes the log posteriors before it and
all counts.

Reference: Kolluri, Baluta, Hooi & Saxena, LPGNet: Link private graph networks for node
classification (CCS 2022), where a trusted curator counts and adds Laplace noise; here users do,
with whole noise.
"""

one_round_by_label, two_rounds_by_label = (partial(_lpgnet, rounds, True) for rounds in (1, 2))
"""The same, where a neighbour with a public label is counted by it: a small change to the method,
no part of it.
"""


def true_gcn(key: PRNGKey, asked: Asked, epsilon: float) -> Answer:
    """A graph convolutional network on the true graph.

    Without features each node has its own name.
    """
    links = network.of_graph(asked.graph)
    return Answer(network.over(key, links, asked.rows, asked.labels, asked.classes), nothing_kept())


def true_ppr(key: PRNGKey, asked: Asked, epsilon: float) -> Answer:
    """PageRank on the true graph of labels, else of the features' posterior, and a regression."""
    return Answer(network.pagerank(key, network.of_graph(asked.graph), asked), nothing_kept())
