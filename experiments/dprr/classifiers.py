"""Classifiers of graphs.

A perceptron and a random forest on statistics of a release and the public sizes.
"""

from typing import Any

import jax
import numpy as np
import scipy.sparse
from sklearn.ensemble import RandomForestClassifier

from ldp_jax.graph import packing
from ldp_jax.learning import graph_training, models, training

QUANTILES = np.linspace(0, 1, 17)
FOREST: dict[str, Any] = {"classifier": "random forest", "trees": 300, "leaf": 2}
"""The same for every mechanism; ``leaf`` is the fewest graphs in one."""
PERCEPTRON: dict[str, Any] = {
    "classifier": "perceptron",
    "layers": 3,
    "dropout": 0.2,
    "learning_rate": 1e-3,
    "weight_decay": 1e-4,
}
_DENSE = (
    1 / 16
)  # graphs with more of their pairs joined count triangles by products of dense matrices
_LEAST = 1e-9


def of_sizes(sizes: np.ndarray) -> np.ndarray:
    """The logarithm of each graph's number of nodes; float64 [graphs, 1]."""
    return np.log(sizes)[:, None]


def of_numbers(values: np.ndarray, node_graph: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Quantiles and mean, as logarithms, of one number a user >= 0; float64 [graphs, 18]."""
    order = np.lexsort((values, node_graph))  # sorted values, graph by graph
    start = np.cumsum(sizes) - sizes
    at = start[:, None] + np.round(QUANTILES * (sizes[:, None] - 1)).astype(int)
    mean = np.bincount(node_graph, weights=values, minlength=len(sizes)) / sizes
    return np.log1p(np.concatenate([values[order][at], mean[:, None]], 1))


def of_lists(noisy: packing.GraphSet) -> np.ndarray:
    """The statistics of reported neighbour lists; float64 [graphs, 4 x 18 + 8].

    For each user: how many neighbours they report, how many users report them, how many do both,
    and how many neighbours the reported ones report on average. For each graph, with an edge where
    either user (or both) reports the other: triangles, connected triples, the share of triples that
    close, and triangles less those of a random graph with the same degrees; all but the share as
    logarithms.
    """
    node_graph = noisy.node_graph
    sizes = noisy.nodes_per_graph
    n = len(noisy.node_graph)
    code = (
        noisy.receivers.astype(np.int64) * n + noisy.senders
    )  # user i's list are the edges into i
    back = noisy.senders.astype(np.int64) * n + noisy.receivers
    named_back = np.isin(
        code, np.sort(back), assume_unique=True
    )  # two sorted runs: merged, not sorted again
    lengths = np.bincount(noisy.receivers, minlength=n)
    reached = np.bincount(noisy.receivers, weights=lengths[noisy.senders], minlength=n)
    of_users = (
        lengths,
        np.bincount(noisy.senders, minlength=n),
        np.bincount(noisy.receivers[named_back], minlength=n),
        reached / np.maximum(lengths, 1),
    )
    either = np.concatenate(
        [code[code < back], back[(code > back) & ~named_back]]
    )  # each pair once
    both = code[named_back & (code < back)]
    columns = [of_numbers(values, node_graph, sizes) for values in of_users]
    columns += [_closing(pairs // n, pairs % n, node_graph, sizes) for pairs in (either, both)]
    return np.concatenate(columns, 1)


def _closing(u: np.ndarray, v: np.ndarray, node_graph: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Statistics of closure in simple graphs with edges u-v.

    They are triangles, triples, the share of these that is closed, and triangles above chance.
    """
    graphs = len(sizes)
    degree = np.bincount(np.concatenate([u, v]), minlength=len(node_graph)).astype(float)
    total = np.bincount(node_graph, weights=degree, minlength=graphs)
    triples = np.bincount(node_graph, weights=degree * (degree - 1) / 2, minlength=graphs)
    found = triangles(u, v, node_graph, sizes)
    by_chance = (2 * triples) ** 3 / (6 * np.maximum(total, 1) ** 3)  # of the configuration model
    share = 3 * found / np.maximum(triples, 1)
    return np.stack(
        [np.log1p(found), np.log1p(triples), share, np.log1p(found) - np.log1p(by_chance)], 1
    )


def triangles(
    u: np.ndarray, v: np.ndarray, node_graph: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
    """Count the triangles of each graph, float64 [graphs]; each undirected edge is given once."""
    n = len(node_graph)
    graph = node_graph[u]
    count = np.bincount(graph, minlength=len(sizes))
    dense = count > _DENSE * sizes * (sizes - 1) / 2
    found = np.zeros(len(sizes))
    order = np.argsort(graph, kind="stable")
    ends = np.cumsum(count)
    start = np.cumsum(sizes) - sizes
    for i in np.flatnonzero(dense & (count > 0)):
        mine = order[ends[i] - count[i] : ends[i]]
        joined = np.zeros((sizes[i], sizes[i]), np.float32)
        joined[u[mine] - start[i], v[mine] - start[i]] = 1
        joined += joined.T
        found[i] = ((joined @ joined) * joined).sum(dtype=np.float64) / 6
    # Elsewhere each edge leads to the end of higher degree, so that no node leads to many: hubs
    # cost nothing.
    few = ~dense[graph]
    degree = np.bincount(np.concatenate([u, v]), minlength=n)
    rank = np.empty(n, np.int64)
    rank[np.argsort(degree, kind="stable")] = np.arange(n)
    low, high = (np.where((rank[u] < rank[v]) == first, u, v)[few] for first in (True, False))
    onward = scipy.sparse.csr_array((np.ones(len(low)), (low, high)), shape=(n, n))
    closed = (onward @ onward).multiply(onward).sum(1)
    return found + np.bincount(node_graph, weights=np.asarray(closed).ravel(), minlength=len(sizes))


def standardised(columns: Any) -> np.ndarray:
    """Columns of mean 0 and deviation 1 over all rows; a constant column is 0. float32."""
    rows = np.asarray(columns, np.float64)
    return ((rows - rows.mean(0)) / np.maximum(rows.std(0), 1e-6)).astype(np.float32)


def forest(rows: np.ndarray, labels: np.ndarray, parts: Any, key: Any) -> graph_training.Scores:
    """A forest of fixed settings on statistics [graphs, d].

    Trained on the first part, scored on the last.
    """
    train, _, test = parts
    seed = int(jax.random.bits(key))
    made = RandomForestClassifier(
        FOREST["trees"], min_samples_leaf=FOREST["leaf"], random_state=seed
    )
    made.fit(rows[train], labels[train])
    share = np.full((len(test), int(labels.max()) + 1), _LEAST)
    share[:, made.classes_] = np.maximum(made.predict_proba(rows[test]), _LEAST)
    return graph_training.scores(jax.numpy.log(share.astype(np.float32)), labels[test])


def perceptron(
    rows: np.ndarray,
    labels: np.ndarray,
    parts: Any,
    key: Any,
    *,
    hidden: int,
    epochs: int,
    patience: int | None,
    batch_size: int,
) -> graph_training.Scores:
    """A perceptron of three layers.

    At most ``epochs``, stopped by ``patience``, the first best by validation.
    """
    rows = standardised(rows)
    model = models.mlp(PERCEPTRON["layers"], hidden, int(labels.max()) + 1, PERCEPTRON["dropout"])
    optimizer = training.adam(PERCEPTRON["learning_rate"], PERCEPTRON["weight_decay"])
    examples = [training.Examples(np.asarray(part), labels[part]) for part in parts]

    fitted = training.fit(
        jax.random.clone(key), model, training.node_classification, rows, *examples,
        settings=training.Settings(optimizer, epochs, batch_size, patience),
    )  # fmt: skip
    outputs, _ = model.apply(
        fitted.variables, jax.numpy.asarray(rows[parts[2]]), key=None, train=False
    )
    return graph_training.scores(outputs, labels[parts[2]])
