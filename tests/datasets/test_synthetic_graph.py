"""The model's draws against what was asked for: fixed keys, significance 1e-6 (4.9 standard errors)."""

import jax
import networkx as nx
import numpy as np
import pytest

from ldp_jax import datasets
from ldp_jax.datasets import _synthetic

_SIGMAS = 4.9  # two-sided 1e-6 of the normal law


def draw(seed=0, **changes):
    wanted = {
        "num_nodes": 3000,
        "num_classes": 4,
        "num_features": 200,
        "mean_degree": 8.0,
        "homophily": 0.7,
    }
    return datasets.synthetic(jax.random.key(seed), **{**wanted, **changes})


def homophily(data) -> float:
    ends = data.y[data.edges]
    return float((ends[:, 0] == ends[:, 1]).mean())


@pytest.mark.parametrize("wanted", [0.0, 0.2, 0.7, 1.0])
@pytest.mark.parametrize("num_classes", [2, 7])
def test_homophily_and_mean_degree_are_the_wanted_ones(wanted, num_classes):
    # 12 000 edges: a homophily off by 0.02 would be seen.
    data = draw(homophily=wanted, num_classes=num_classes)
    assert data.num_edges == 12_000
    assert abs(homophily(data) - wanted) <= _SIGMAS * np.sqrt(wanted * (1 - wanted) / data.num_edges)


def test_the_same_key_gives_the_same_data_and_another_key_another():
    one, same, other = draw(1), draw(1), draw(2)
    np.testing.assert_array_equal(one.edges, same.edges)
    np.testing.assert_array_equal(one.x.toarray(), same.x.toarray())
    np.testing.assert_array_equal(one.y, same.y)
    assert not np.array_equal(one.edges, other.edges)


def test_classes_are_balanced_and_degrees_are_heavy_tailed():
    data = draw()
    assert np.bincount(data.y).tolist() == [750] * 4
    degree = np.bincount(data.edges.ravel(), minlength=data.num_nodes)
    assert degree.max() > 40  # a graph of independent edges has no node above 30 at mean 8 (mass 1e-6)
    light = draw(degree_exponent=50.0)
    assert np.bincount(light.edges.ravel()).max() < 30


def test_topicality_says_how_much_the_words_tell():
    def share_of_own_words(data):
        nodes = np.repeat(np.arange(data.num_nodes), np.diff(data.x.indptr))
        return float((data.x.indices % 4 == data.y[nodes]).mean()), len(nodes)

    own, words = share_of_own_words(draw(topicality=0.0))
    assert abs(own - 0.25) <= _SIGMAS * np.sqrt(0.25 * 0.75 / words)  # about 22 000 words: off by 0.02 is seen
    assert share_of_own_words(draw(topicality=1.0))[0] == 1.0
    assert 0.4 < share_of_own_words(draw(topicality=0.5))[0] < 0.8


def test_an_incomplete_last_group_of_words_is_never_overrun():
    data = draw(num_features=10, topicality=1.0)
    nodes = np.repeat(np.arange(data.num_nodes), np.diff(data.x.indptr))
    assert (data.x.indices % 4 == data.y[nodes]).all()


def test_records_are_bags_of_words():
    data = draw()
    assert set(data.x.data.tolist()) == {1.0}
    assert data.x.dtype == np.float32
    assert (data.lower, data.upper) == (0.0, 1.0)
    sizes = np.diff(draw(num_features=3000, words_per_node=5, topicality=0.0).x.indptr)
    assert 3 < sizes.mean() <= 5 + _SIGMAS * np.sqrt(5 / 3000)  # a word that is drawn again counts once


def test_many_nodes_need_no_matrix_of_pairs():
    data = draw(num_nodes=100_000, mean_degree=10)
    assert data.num_edges == 500_000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_classes": 1}, "num_classes must be a whole number >= 2, got 1"),
        ({"num_nodes": 3}, r"num_nodes must be a whole number in \[4, .*\], got 3"),
        ({"num_features": 3}, r"num_features must be a whole number in \[4, .*\], got 3"),
        ({"mean_degree": 0.0}, "mean_degree must be finite and > 0, got 0.0"),
        ({"mean_degree": float("nan")}, "mean_degree must be finite and > 0, got nan"),
        ({"homophily": 1.1}, r"homophily must be in \[0.0, 1.0\], got 1.1"),
        ({"degree_exponent": 2.0}, r"degree_exponent must be in \(2.0, inf\], got 2.0"),
        ({"words_per_node": -1.0}, "words_per_node must be finite and > 0, got -1.0"),
        ({"topicality": float("nan")}, r"topicality must be in \[0.0, 1.0\], got nan"),
        (
            {"num_nodes": 20, "mean_degree": 18.0},
            "mean_degree must leave half of the pairs .* free: .* got 18.0",
        ),
    ],
)
def test_parameters_outside_their_range_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        draw(**changes)


def test_other_generators_are_refused():
    with pytest.raises(ValueError, match="key must be a threefry2x32 key"):
        datasets.synthetic(
            jax.random.key(0, impl="rbg"),
            num_nodes=10,
            num_classes=2,
            num_features=4,
            mean_degree=2,
            homophily=0.5,
        )
    with pytest.raises(ValueError, match="key must be a typed key"):
        datasets.synthetic(
            jax.random.PRNGKey(0), num_nodes=10, num_classes=2, num_features=4, mean_degree=2, homophily=0.5
        )


# --- Sets of graphs --------------------------------------------------------------------------------------------


def graphs_of(data):
    """Each graph as networkx has it."""
    ends, graph = data.edges, data.node_graph[data.edges[:, 0]]
    made = []
    for number in range(len(data.y)):
        one = nx.Graph()
        one.add_nodes_from(np.flatnonzero(data.node_graph == number).tolist())
        one.add_edges_from(ends[graph == number].tolist())
        made.append(one)
    return made


def test_rewired_graphs_keep_every_degree_and_are_simple():
    data = datasets.synthetic_graphs(jax.random.key(0), num_graphs=40)
    communities = data.edges[data.y[data.node_graph[data.edges[:, 0]]] == 1]
    rewired = _synthetic._rewired(np.random.default_rng(0), communities.copy(), data.node_graph)
    np.testing.assert_array_equal(np.bincount(rewired.ravel()), np.bincount(communities.ravel()))
    np.testing.assert_array_equal(data.node_graph[rewired[:, 0]], data.node_graph[rewired[:, 1]])
    ordered = np.sort(rewired, 1)
    assert (ordered[:, 0] < ordered[:, 1]).all()
    assert len(np.unique(ordered, axis=0)) == len(communities)
    # What is kept by chance: an edge of a graph with m edges among p pairs stays with probability about m / p.
    kept = len(set(map(tuple, ordered)) & set(map(tuple, np.sort(communities, 1)))) / len(communities)
    assert kept < 0.35


def test_classes_differ_by_who_is_joined_and_not_by_degrees():
    """Degrees of 150 graphs each: a mean degree off by 0.5 or a variance off by a tenth would be seen."""
    data = datasets.synthetic_graphs(jax.random.key(1), num_graphs=300)
    made = graphs_of(data)
    assert np.bincount(data.y).tolist() == [150, 150]
    sizes = np.array([len(graph) for graph in made])
    assert sizes.min() == 20
    assert sizes.max() == 60
    closed = np.array([nx.transitivity(graph) for graph in made])
    assert closed[data.y == 1].min() > closed[data.y == 0].max()
    for statistic in (np.mean, np.var):
        value = np.array([statistic([d for _, d in graph.degree()]) for graph in made])
        one, other = value[data.y == 1], value[data.y == 0]
        error = np.sqrt(one.var() / len(one) + other.var() / len(other))
        assert abs(one.mean() - other.mean()) <= _SIGMAS * error


def test_probabilities_of_edges_are_the_wanted_ones():
    """Groups of exactly 5 in graphs of 20: 40 pairs within and 150 across, of 200 graphs with communities."""
    data = datasets.synthetic_graphs(
        jax.random.key(2), num_graphs=400, num_nodes=(20, 20), group_size=(5, 5), within=0.7, across=0.1
    )
    ends = data.edges[data.y[data.node_graph[data.edges[:, 0]]] == 1]
    # A group may begin anywhere: it is as long as it is drawn, through all graphs, and 20 is four groups.
    same = (ends[:, 0] // 5) == (ends[:, 1] // 5)
    for found, pairs, wanted in ((same.sum(), 200 * 40, 0.7), ((~same).sum(), 200 * 150, 0.1)):
        assert abs(found - pairs * wanted) <= _SIGMAS * np.sqrt(pairs * wanted * (1 - wanted))


def test_a_set_of_graphs_is_its_key():
    one, same, other = (datasets.synthetic_graphs(jax.random.key(seed), num_graphs=6) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.edges, same.edges)
    np.testing.assert_array_equal(one.y, same.y)
    assert one.edges.shape != other.edges.shape or (one.edges != other.edges).any()


@pytest.mark.parametrize("wanted", [0.0, 1.0])
def test_graphs_without_edges_and_complete_ones(wanted):
    data = datasets.synthetic_graphs(
        jax.random.key(0), num_graphs=4, num_nodes=(4, 5), within=wanted, across=wanted
    )
    sizes = np.bincount(data.node_graph)
    assert data.num_edges == wanted * (sizes * (sizes - 1) // 2).sum()


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_graphs": 1}, "num_graphs must be a whole number in .2, "),
        ({"num_nodes": (3, 9)}, "num_nodes must be a whole number >= 4"),
        ({"num_nodes": (9, 8)}, "num_nodes must be a whole number in .9, "),
        ({"num_nodes": (9,)}, "num_nodes must be the least and the most"),
        ({"group_size": (0, 3)}, "group_size must be a whole number >= 1"),
        ({"within": 1.1}, "within must be"),
        ({"across": float("nan")}, "across must be"),
        ({"num_nodes": (4, 10**6)}, "must stay below"),
    ],
)
def test_bad_parameters_of_sets_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        datasets.synthetic_graphs(jax.random.key(0), **{"num_graphs": 10, **changes})
