"""A planted block model: classes that make friends by a known law, features that half tell the
class.
"""

import jax
import numpy as np

from ldp_jax import datasets, edges
from ldp_jax.graph import graphs


def blocks(n=900, classes=3, degree=14.0, homophily=0.7, clarity=1.0, seed=0):
    """A graph, the classes, and Gaussian features whose means are ``clarity`` apart; edges
    independent.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    same = degree * (homophily + (1 - homophily) / classes) / (n / classes)
    other = degree * (1 - homophily) / classes / (n / classes)
    chance = np.where(y[:, None] == y, same, other)
    edges = np.argwhere(np.triu(rng.random((n, n)) < chance, 1))
    x = clarity * np.eye(classes)[y] + rng.normal(0, 1, (n, classes))
    return graphs.from_edges(edges, n), y, x


def right(log_p, y, hidden):
    """The share of users, among those who are ``hidden``, whose likeliest class is theirs."""
    return (np.asarray(log_p).argmax(1) == y)[hidden].mean()


def some_labels(y, share, seed=0):
    """Labels of a share of the nodes, -1 for the rest."""
    known = np.random.default_rng(seed + 100).random(len(y)) < share
    return np.where(known, y, -1)


def noisy_counts(key, graph, groups, num_groups, epsilon, order=None):
    """What users report; with ``order`` user i has the list of user ``order[i]``."""
    true = edges.count_neighbours(edges.Population.of(graph), groups, num_groups)
    return edges.NeighbourCounts(epsilon, num_groups).add_noise(
        key, true if order is None else true[order]
    )


def words():
    """120 users in three classes with 40 words: one shape for the files that run whole jobs by
    default settings.
    """
    return datasets.synthetic(
        jax.random.key(5),
        num_nodes=120,
        num_classes=3,
        num_features=40,
        mean_degree=8,
        homophily=0.8,
    )


def compiled(function):
    """The programs that are compiled in a call, by the number of events that JAX reports."""
    events = []

    def listen(name, *_, **__):
        if name == "/jax/core/compile/backend_compile_duration":
            events.append(name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        function()
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    return len(events)
