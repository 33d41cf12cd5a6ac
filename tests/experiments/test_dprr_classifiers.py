"""Statistics of releases against another count of the same, and classifiers on them."""

import jax
import networkx as nx
import numpy as np
import pytest
import sklearn.metrics
from sklearn.ensemble import RandomForestClassifier

from experiments.dprr import classifiers
from ldp_jax import datasets
from ldp_jax.graph.packing import GraphSet
from tests.graph.sets import graph_set


def directed_set(densities, seed=0):
    """Directed graphs, one a density; sparse ones and dense ones."""
    rng = np.random.default_rng(seed)
    graphs = []
    for density in densities:
        n = int(rng.integers(12, 40))
        joined = (rng.random((n, n)) < density) & ~np.eye(n, dtype=bool)
        graphs.append(nx.from_numpy_array(joined, create_using=nx.DiGraph))
    return graphs, graph_set(graphs)


DENSITIES = (0.02, 0.03, 0.2, 0.0, 0.6, 0.05)


def test_statistics_of_lists_are_those_of_networkx():
    graphs, noisy = directed_set(DENSITIES)
    rows = classifiers.of_lists(noisy)
    assert rows.shape == (len(graphs), 4 * 18 + 8)
    for graph, row in zip(graphs, rows, strict=True):
        n = len(graph)
        lists = {user: list(graph.predecessors(user)) for user in graph}
        values = (
            [len(lists[user]) for user in graph],
            [graph.out_degree(user) for user in graph],
            [sum(user in lists[other] for other in lists[user]) for user in graph],
            [
                np.mean([len(lists[other]) for other in lists[user]]) if lists[user] else 0.0
                for user in graph
            ],
        )
        for place, of_users in enumerate(values):
            at = np.round(np.linspace(0, n - 1, 17)).astype(int)
            wanted = np.log1p([*np.sort(of_users)[at], np.mean(of_users)])
            np.testing.assert_allclose(row[18 * place : 18 * (place + 1)], wanted, atol=1e-9)
        for place, both in ((72, False), (76, True)):
            plain = graph.to_undirected(reciprocal=both)
            found = sum(nx.triangles(plain).values()) / 3
            degree = np.array([d for _, d in plain.degree()])
            triples = (degree * (degree - 1)).sum() / 2
            chance = (2 * triples) ** 3 / 6 / max(degree.sum(), 1) ** 3
            closed = nx.transitivity(plain)
            wanted = [
                np.log1p(found),
                np.log1p(triples),
                closed,
                np.log1p(found) - np.log1p(chance),
            ]
            np.testing.assert_allclose(row[place : place + 4], wanted, atol=1e-9)


def test_triangles_do_not_depend_on_how_they_are_counted(monkeypatch):
    _, noisy = directed_set(DENSITIES, seed=1)
    n = len(noisy.node_graph)
    sizes = noisy.nodes_per_graph
    pairs = np.unique(np.minimum(noisy.senders, noisy.receivers).astype(np.int64) * n
                      + np.maximum(noisy.senders, noisy.receivers))  # fmt: skip
    counts = []
    for dense in (0.0, 1 / 16, 2.0):
        monkeypatch.setattr(classifiers, "_DENSE", dense)
        counts.append(classifiers.triangles(pairs // n, pairs % n, noisy.node_graph, sizes))
    np.testing.assert_array_equal(counts[0], counts[1])
    np.testing.assert_array_equal(counts[0], counts[2])


def parts_of(count, seed=0):
    order = np.random.default_rng(seed).permutation(count)
    return order[: count // 2], order[count // 2 : 3 * count // 4], order[3 * count // 4 :]


@pytest.mark.parametrize("classes", [2, 3])
def test_a_forest_is_scored_by_its_shares_on_the_test_graphs(classes, monkeypatch):
    monkeypatch.setitem(classifiers.FOREST, "trees", 30)
    rng = np.random.default_rng(0)
    labels = np.arange(120) % classes
    rows = labels[:, None] + rng.normal(size=(120, 3))
    parts = parts_of(120)
    found = classifiers.forest(rows, labels, parts, jax.random.key(0))
    made = RandomForestClassifier(
        30, min_samples_leaf=2, random_state=int(jax.random.bits(jax.random.key(0)))
    )
    share = made.fit(rows[parts[0]], labels[parts[0]]).predict_proba(rows[parts[2]])
    wanted = sklearn.metrics.roc_auc_score(
        labels[parts[2]], share if classes > 2 else share[:, 1], multi_class="ovr"
    )
    assert found.auc == pytest.approx(wanted, abs=1e-4)
    assert found.accuracy == pytest.approx((share.argmax(1) == labels[parts[2]]).mean())


def test_the_generated_classes_need_edges(monkeypatch):
    """Statistics of the true lists tell the classes apart; those of the true degrees do not.

    Twenty-five test graphs of each class: an area of 1/2 has standard error 0.083, and 0.9 is 4.9
    of them above.
    """
    monkeypatch.setitem(classifiers.FOREST, "trees", 60)
    whole = GraphSet.from_dataset(datasets.synthetic_graphs(jax.random.key(0), num_graphs=200))
    degree = np.bincount(whole.receivers, minlength=len(whole.node_graph))
    alone = classifiers.of_numbers(degree, whole.node_graph, whole.nodes_per_graph)
    area = {
        name: classifiers.forest(rows, whole.labels, parts_of(200), jax.random.key(1)).auc
        for name, rows in (("degrees", alone), ("lists", classifiers.of_lists(whole)))
    }
    assert area["lists"] > 0.9
    assert abs(area["degrees"] - 0.5) < 0.4
