"""The model's draws against what was asked for: fixed keys, significance 1e-6."""

import jax
import networkx
import numpy as np
import pytest

from ldp_jax import datasets
from ldp_jax.datasets import _synthetic
from tests.stats import SIGMAS

_WANTED = {
    "num_nodes": 3000,
    "num_classes": 4,
    "num_features": 200,
    "mean_degree": 8.0,
    "homophily": 0.7,
}


def draw(seed=0, **changes):
    return datasets.synthetic(jax.random.key(seed), **_WANTED | changes)


def draw_set(seed=0, **changes):
    return datasets.synthetic_graphs(jax.random.key(seed), **{"num_graphs": 6} | changes)


def test_homophily_and_mean_degree_are_the_wanted_ones():
    """12 000 edges: a homophily off by 0.02 would be seen."""
    for wanted, num_classes in ((0.0, 2), (0.2, 7), (1.0, 2)):
        data = draw(homophily=wanted, num_classes=num_classes)
        assert data.num_edges == 12_000
        ends = data.y[data.edges]
        found = (ends[:, 0] == ends[:, 1]).mean()
        assert abs(found - wanted) <= SIGMAS * np.sqrt(wanted * (1 - wanted) / data.num_edges)


def test_both_ends_of_an_edge_are_drawn_by_weight_where_classes_are_uneven():
    """A pair of one class, each as likely: of 90 and 10 % of nodes 1.2 % of pairs within are of the
    small class.

    By the share of the class alone 10 % would be; of pairs across classes 90 % hold the largest of
    three.
    """
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(2), [1800, 200]).astype(np.int32)
    ends = y[_synthetic._edges(rng, y, 2, 6.0, 1.0, 60.0)]
    assert (ends[:, 0] == ends[:, 1]).all()
    small = 0.1**2 / (0.1**2 + 0.9**2)
    assert abs(ends[:, 0].mean() - small) < SIGMAS * np.sqrt(small / len(ends)) + 0.002
    y = np.repeat(np.arange(3), [300, 1400, 300]).astype(np.int32)
    ends = y[_synthetic._edges(rng, y, 3, 6.0, 0.0, 60.0)]
    assert (ends[:, 0] != ends[:, 1]).all()
    middle = 2 * 0.7 * 0.3 / (1 - 0.7**2 - 2 * 0.15**2)
    assert abs((ends == 1).any(1).mean() - middle) < SIGMAS * np.sqrt(0.1 / len(ends)) + 0.005


@pytest.mark.parametrize("make", [draw, draw_set])
def test_the_same_key_gives_the_same_data_and_another_key_another(make):
    one = make(1)
    same = make(1)
    other = make(2)
    np.testing.assert_array_equal(one.edges, same.edges)
    np.testing.assert_array_equal(one.x.toarray(), same.x.toarray())
    np.testing.assert_array_equal(one.y, same.y)
    assert not np.array_equal(one.edges, other.edges)


def test_classes_are_balanced_and_degrees_are_heavy_tailed():
    data = draw()
    assert np.bincount(data.y).tolist() == [750] * 4
    # Of independent edges no degree is above 30 at mean 8 (mass 1e-6).
    assert np.bincount(data.edges.ravel()).max() > 40
    assert np.bincount(draw(degree_exponent=50.0).edges.ravel()).max() < 30
    assert draw(num_nodes=30_000, mean_degree=10).num_edges == 150_000  # no matrix of pairs


def test_half_of_the_pairs_of_each_kind_may_be_edges():
    """Of 12 pairs within classes and 16 across; one edge more is refused."""
    for homophily, mean_degree in ((1.0, 1.5), (0.0, 2.0)):
        wanted = {"num_nodes": 8, "num_classes": 2, "homophily": homophily}
        assert draw(**wanted, mean_degree=mean_degree).num_edges == 4 * mean_degree


def test_nodes_of_a_class_are_drawn_in_proportion_to_their_weights():
    """20 000 draws: a share off by 0.02 would be seen."""
    y = np.array([1, 0, 1, 1, 0, 0], np.int32)
    weight = np.array([1.0, 2.0, 6.0, 3.0, 1.0, 5.0])
    nodes = _synthetic._Weighted(y, 2, weight)
    np.testing.assert_allclose(nodes.mass, [8, 10])
    for label in (0, 1):
        drawn = nodes.draw(np.random.default_rng(label), np.full(20_000, label))
        share = np.where(y == label, weight, 0) / weight[y == label].sum()
        found = np.bincount(drawn, minlength=6) / 20_000
        assert (np.abs(found - share) <= SIGMAS * np.sqrt(share * (1 - share) / 20_000)).all()


def test_topicality_says_how_much_the_words_tell():
    for topicality, num_features, low, high in (
        (0.0, 200, 0.23, 0.27),  # about 22 000 words: 0.25, off by 0.02
        (0.5, 200, 0.4, 0.8),
        (1.0, 200, 1.0, 1.0),
        (1.0, 10, 1.0, 1.0),  # an incomplete last group of words is not overrun
    ):
        data = draw(topicality=topicality, num_features=num_features)
        node, word = data.x.nonzero()
        assert low <= (word % 4 == data.y[node]).mean() <= high


def test_records_are_bags_of_words():
    data = draw(num_features=3000, words_per_node=5, topicality=0.0)
    assert set(data.x.data.tolist()) == {1.0}
    assert (data.x.dtype, data.lower, data.upper) == (np.float32, 0.0, 1.0)
    assert 3 < np.diff(data.x.indptr).mean() <= 5 + SIGMAS * np.sqrt(5 / 3000)  # a word counts once


def communities(data):
    """The edges of the graphs that are not rewired."""
    return data.edges[data.y[data.node_graph[data.edges[:, 0]]] == 1]


def test_rewired_graphs_keep_every_degree_and_are_simple():
    data = draw_set(num_graphs=40)
    edges = communities(data)
    rewired = _synthetic._rewired(np.random.default_rng(0), edges.copy(), data.node_graph)
    np.testing.assert_array_equal(np.bincount(rewired.ravel()), np.bincount(edges.ravel()))
    np.testing.assert_array_equal(data.node_graph[rewired[:, 0]], data.node_graph[rewired[:, 1]])
    ordered = np.sort(rewired, 1)
    assert (ordered[:, 0] < ordered[:, 1]).all()
    assert len(np.unique(ordered, axis=0)) == len(edges)
    # By chance an edge of a graph with m edges among p pairs stays with probability about m / p.
    assert len(set(map(tuple, ordered)) & set(map(tuple, np.sort(edges, 1)))) / len(edges) < 0.35


def transitivity(edges):
    """The share of paths of two edges whose ends are joined."""
    return networkx.transitivity(networkx.Graph(edges.tolist()))


def test_classes_differ_by_who_is_joined_and_not_by_degrees():
    """Degrees of 75 graphs each: a mean degree off by 0.7 or a variance off by a seventh would be
    seen.
    """
    data = draw_set(1, num_graphs=150)
    sizes = np.bincount(data.node_graph)
    assert (sizes.min(), sizes.max()) == (20, 60)
    assert np.bincount(data.y).tolist() == [75, 75]
    graph = data.node_graph[data.edges[:, 0]]
    closed = np.array([transitivity(data.edges[graph == number]) for number in range(len(data.y))])
    assert closed[data.y == 1].min() > closed[data.y == 0].max()
    degrees = np.split(
        np.bincount(data.edges.ravel(), minlength=data.num_nodes), np.cumsum(sizes)[:-1]
    )
    for statistic in (np.mean, np.var):
        value = np.array([statistic(degree) for degree in degrees])
        one, other = value[data.y == 1], value[data.y == 0]
        error = np.sqrt(one.var() / len(one) + other.var() / len(other))
        assert abs(one.mean() - other.mean()) <= SIGMAS * error


def test_probabilities_of_edges_are_the_wanted_ones():
    """Groups of exactly 5 in graphs of 20: 40 pairs within and 150 across, of 100 graphs with
    communities.
    """
    data = draw_set(
        2, num_graphs=200, num_nodes=(20, 20), group_size=(5, 5), within=0.7, across=0.1
    )
    ends = communities(data)
    same = (ends[:, 0] // 5) == (ends[:, 1] // 5)
    for found, pairs, wanted in ((same.sum(), 100 * 40, 0.7), ((~same).sum(), 100 * 150, 0.1)):
        assert abs(found - pairs * wanted) <= SIGMAS * np.sqrt(pairs * wanted * (1 - wanted))


def test_graphs_without_edges_and_complete_ones():
    for wanted in (0.0, 1.0):
        data = draw_set(num_graphs=4, num_nodes=(4, 5), within=wanted, across=wanted)
        sizes = np.bincount(data.node_graph)
        assert data.num_edges == wanted * (sizes * (sizes - 1) // 2).sum()


def test_groups_of_one_node_are_joined_as_others_are():
    least = {"num_nodes": (4, 4), "group_size": (1, 1)}
    assert draw_set(**least, within=1.0, across=0.0).num_edges == 0
    assert draw_set(**least, within=0.0, across=1.0).num_edges == 6 * 6
