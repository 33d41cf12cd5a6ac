"""Noisy counts of neighbours by class, given to a logistic regression as they are."""

from typing import Any

import jax
import numpy as np

from experiments.frontier.baselines._features import groups, posterior, regression
from experiments.frontier.baselines._released import Released, spent
from ldp_jax import edges
from ldp_jax.core.types import Graph, PRNGKey


def plain_counts(
    key: PRNGKey, graph: Graph, features: Any, labels: np.ndarray, epsilon: float, num_classes: int
) -> Released:
    """Everybody counts her neighbours by broadcast class, C counts, each with noise of the whole epsilon.

    The class of a node is her label, else the likeliest by her features, out of fold. A logistic regression takes
    the log posterior of the features and the counts, all standardised; its ridge is chosen out of fold. Without
    features only labelled neighbours are counted.

    Reference: counts by group as a message are Qin et al., CCS 2017 (LDPGen); nothing else of it is here.
    """
    count_key, fold_key = jax.random.split(key)
    log_q = posterior(features, labels, num_classes)
    by = groups(log_q, labels) if features is not None else labels.astype(np.int32)
    mechanism = edges.NeighbourCounts(epsilon, num_classes)
    noisy = edges.privatize_counts(count_key, graph, mechanism, by)
    columns = np.concatenate([np.asarray(log_q), noisy.counts], 1)
    return Released(regression(fold_key, columns, labels, num_classes), spent(noisy.guarantee))
