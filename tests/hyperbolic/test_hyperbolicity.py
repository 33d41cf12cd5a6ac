"""Four-point deltas of graphs that are known, and against all sets of four."""

import itertools

import jax
import networkx as nx
import numpy as np

from ldp_jax.hyperbolic import graph_delta
from tests.stats import SIGMAS

SAMPLES = 20_000


def delta_of(graph, key=0, nodes=9):
    """Of nine nodes of it, by default: one program for all graphs."""
    edges = np.array(graph.edges())[:, ::-1]
    edges = np.concatenate([edges, edges[:3], edges[3:5, ::-1]])  # are no longer than the others
    return graph_delta(jax.random.key(key), edges, len(graph), nodes=nodes, samples=SAMPLES)


def test_graphs_whose_delta_is_known():
    for graph in (nx.balanced_tree(3, 4), nx.complete_graph(9)):
        assert delta_of(graph) == (0.0, 0.0, SAMPLES)
    # More nodes than have their shortest paths in memory at once:
    assert delta_of(nx.balanced_tree(3, 4), nodes=121) == (0.0, 0.0, SAMPLES)
    found = delta_of(nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 3)))
    assert found.maximum == 2.0  # the four corners, one set of 126
    assert 0 < found.mean < 2
    both = nx.disjoint_union(nx.cycle_graph(8), nx.full_rary_tree(2, 9))
    assert delta_of(both)[:2] == (0.0, 0.0)  # of the largest component alone, the tree


def test_the_mean_is_that_of_all_sets_of_four():
    """Within 5 standard errors: detects a mean off by 10 of them, 0.02 of 0.3; a point taken twice
    gives 0.
    """
    graph = nx.connected_watts_strogatz_graph(9, 4, 0.3, seed=1)
    d = nx.floyd_warshall_numpy(graph)
    deltas = []
    for w, x, y, z in itertools.combinations(range(9), 4):
        sums = sorted([d[w, x] + d[y, z], d[w, y] + d[x, z], d[w, z] + d[x, y]])
        deltas.append((sums[2] - sums[1]) / 2)
    found = delta_of(graph, 2)
    assert abs(found.mean - np.mean(deltas)) < SIGMAS * np.std(deltas) / np.sqrt(SAMPLES)
    assert found.maximum == max(deltas)
    assert found.maximum % 0.5 == 0
