"""What public features say without any list: what private lists have to add to."""

from typing import Any

import numpy as np

from experiments.frontier.baselines._features import posterior
from experiments.frontier.baselines._network import Inputs, trained
from experiments.frontier.baselines._released import Released, nothing_read
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
