"""LPGNet moved to the local model: counts by predicted class, and a perceptron for each round of them."""

from functools import partial

import jax
import numpy as np

from experiments.frontier.baselines._features import groups, standardised
from experiments.frontier.baselines._network import Inputs, trained
from experiments.frontier.baselines._released import Answer, Asked, nothing_read, spent
from ldp_jax import edges
from ldp_jax.core.types import PRNGKey


def _lpgnet(rounds: int, by_label: bool, key: PRNGKey, asked: Asked, epsilon: float) -> Answer:
    if asked.rows is None:  # nothing predicts the classes that are counted first
        return Answer(None, nothing_read())
    labels, classes = asked.labels, asked.classes
    keys = iter(jax.random.split(key, 1 + 2 * rounds))
    scores = trained(next(keys), Inputs(rows=asked.rows), labels, classes)
    known, releases = [standardised(scores)], []
    # Two halves of a float are the float again: no rounding to account for.
    mechanism = edges.NeighbourCounts(epsilon / rounds, classes)
    public = labels if by_label else np.full_like(labels, -1)
    for _ in range(rounds):
        noisy = edges.privatize_counts(next(keys), asked.graph, mechanism, groups(scores, public))
        releases.append(noisy.guarantee)
        known.append(standardised(noisy.counts))
        scores = trained(next(keys), Inputs(columns=np.concatenate(known, 1)), labels, classes)
        known.append(standardised(scores))
    return Answer(scores, spent(*releases))


one_round, two_rounds = (partial(_lpgnet, rounds, False) for rounds in (1, 2))
"""LPGNet with one round of counts, which has the whole budget, or with two of half of it, which compose.

A perceptron on the features predicts everybody's class; each user counts neighbours by predicted class and
reports C counts with noise; the next perceptron takes the log posteriors before it and all counts.

Reference: Kolluri, Baluta, Hooi & Saxena, LPGNet: Link private graph networks for node classification (CCS 2022),
where a trusted curator counts and adds Laplace noise; here users do, with whole noise.
"""

one_round_by_label, two_rounds_by_label = (partial(_lpgnet, rounds, True) for rounds in (1, 2))
"""The same, where a neighbour with a public label is counted by it: a small change to the method, no part of it."""
