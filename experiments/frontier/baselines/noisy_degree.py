"""A noisy degree beside the features: all of a list that is no neighbour."""

from typing import Any

import jax
import numpy as np

from experiments.frontier.baselines._features import standardised
from experiments.frontier.baselines._network import Inputs, trained
from experiments.frontier.baselines._released import Released, spent
from ldp_jax import edges
from ldp_jax.core.types import Graph, PRNGKey


def noisy_degree(
    key: PRNGKey, graph: Graph, features: Any, labels: np.ndarray, epsilon: float, num_classes: int
) -> Released:
    """Everybody reports her degree with noise of the whole epsilon; a perceptron takes it and the features.

    The degree enters as log(1 + d*), and as d*, standardised.
    """
    report_key, fit_key = jax.random.split(key)
    noisy = edges.privatize_graph(report_key, graph, edges.NoisyDegree(epsilon, noise="geometric"))
    columns = standardised(np.stack([np.log1p(noisy.degree), noisy.degree], 1))
    scores = trained(fit_key, Inputs(rows=features, columns=columns), labels, num_classes)
    return Released(scores, spent(noisy.guarantee))
