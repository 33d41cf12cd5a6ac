"""Four-point deltas of graphs that are known, and against all sets of four."""

import itertools

import jax
import networkx as nx
import numpy as np

from ldp_jax.hyperbolic import hyperbolicity
from tests.stats import SIGMAS


def edges_of(graph):
    return np.array(graph.edges())


def test_a_tree_has_delta_zero():
    tree = nx.balanced_tree(3, 4)
    found = hyperbolicity.graph_delta(jax.random.key(0), edges_of(tree), len(tree), samples=2000)
    assert found == (0.0, 0.0, 2000)


def test_a_complete_graph_and_a_grid():
    whole = hyperbolicity.graph_delta(jax.random.key(0), edges_of(nx.complete_graph(25)), 25, samples=200_000)
    assert whole[:2] == (0.0, 0.0)
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(5, 5))
    found = hyperbolicity.graph_delta(jax.random.key(0), edges_of(grid), 25, samples=200_000)
    assert found.maximum == 4.0  # the four corners, one set of 12 650
    assert 0 < found.mean < 4


def test_the_mean_is_that_of_all_sets_of_four():
    """Within 5 standard errors: detects a mean off by 10 of them, 0.014 of 0.3; a point taken twice gives 0."""
    graph = nx.connected_watts_strogatz_graph(14, 4, 0.3, seed=1)
    d = hyperbolicity._paths(hyperbolicity._adjacency(edges_of(graph), 14), np.arange(14))
    deltas = []
    for w, x, y, z in itertools.combinations(range(14), 4):
        sums = sorted([d[w, x] + d[y, z], d[w, y] + d[x, z], d[w, z] + d[x, y]])
        deltas.append((sums[2] - sums[1]) / 2)
    samples = 50_000
    found = hyperbolicity.graph_delta(jax.random.key(2), edges_of(graph), 14, samples=samples)
    assert abs(found.mean - np.mean(deltas)) < SIGMAS * np.std(deltas) / np.sqrt(samples)
    assert found.maximum == max(deltas)
    assert found.maximum % 0.5 == 0


def test_distances_are_shortest_paths():
    graph = nx.gnm_random_graph(150, 200, seed=0)
    nodes = np.random.default_rng(0).permutation(150)[:100]
    found = hyperbolicity._paths(hyperbolicity._adjacency(edges_of(graph)[:, ::-1], 150), nodes)
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    wanted = [[lengths[u].get(v, np.inf) for v in nodes.tolist()] for u in nodes.tolist()]
    np.testing.assert_array_equal(found, wanted)


def test_the_largest_component_alone():
    ring, tree = nx.cycle_graph(8), nx.balanced_tree(2, 3)
    both = nx.disjoint_union(ring, tree)
    found = hyperbolicity.graph_delta(jax.random.key(0), edges_of(both), 23, samples=500)
    assert found.maximum == 0.0  # the tree's 15 nodes
    assert found.samples == 500
