"""Graphs of other libraries: every source gives the same graph, and what can be read in two ways is refused."""

import types

import jax.numpy as jnp
import networkx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from ldp_jax.graph import graphs, interop

EDGES = np.array([[0, 1], [1, 2], [0, 3]])
NAMES = ["ana", "bo", "cy", "dee", "eve"]
N = len(NAMES)
BOTH = np.concatenate([EDGES, EDGES[:, ::-1]])
NAMED = [(NAMES[u], NAMES[v]) for u, v in EDGES]


def adjacency(edges):
    return scipy.sparse.coo_array((np.ones(len(edges)), tuple(edges.T)), shape=(N, N))


def of_networkx():
    made = networkx.Graph()
    made.add_nodes_from(NAMES)
    made.add_edges_from(NAMED)
    return made


class Tensor(np.ndarray):
    def detach(self):
        return self

    def cpu(self):
        return np.asarray(self)


class OfTorch:
    """As PyTorch's: no array before it is detached and on the host."""

    def __init__(self, values, step=0):
        self.values, self.step = values, step

    def detach(self):
        return OfTorch(self.values, 1)

    def cpu(self):
        return OfTorch(self.values, 2 * self.step)

    def __array__(self, dtype=None, copy=None):
        assert self.step == 2
        return self.values


def pyg(edges, **more):
    index = np.ascontiguousarray(edges.T).view(Tensor)
    return types.SimpleNamespace(edge_index=index, num_nodes=N, **more)


def dgl(edges):
    return types.SimpleNamespace(edges=lambda: tuple(edges.T), num_nodes=lambda: N)


SOURCES = {
    "networkx": (of_networkx(), None),
    "scipy, both directions": (adjacency(BOTH), NAMES),
    "scipy, one direction": (adjacency(EDGES).tocsr(), NAMES),
    "pandas": (pd.DataFrame(NAMED, columns=["from", "to"]), NAMES),
    "edge_index": (BOTH.T, N),
    "rows": (EDGES, NAMES),
    "an array of JAX": (jnp.asarray(BOTH.T), N),
    "a tensor": (OfTorch(BOTH.T), N),
    "a list": (BOTH.tolist(), N),
    "PyTorch Geometric": (pyg(BOTH), None),
    "DGL": (dgl(BOTH), None),
    "GraphsTuple": (graphs.from_edges(EDGES, N), NAMES),
}


@pytest.mark.parametrize(("source", "nodes"), SOURCES.values(), ids=SOURCES.keys())
def test_every_source_is_the_same_graph(source, nodes):
    graph, names = interop.read(source, nodes)
    assert graphs.num_nodes(graph) == N
    assert {frozenset(pair) for pair in graphs.to_edges(graph).tolist()} == {frozenset(p) for p in EDGES.tolist()}
    assert names.tolist() in (NAMES, list(range(N)))


def test_names_are_any_hashable_objects():
    _, names = interop.read(networkx.Graph([((1, 2), "a"), ("a", 3)]))
    assert names.tolist() == [(1, 2), "a", 3]
    edges = [(3, 1), (2, 0), (0, 3)]  # numbers are in order, as rows of features by number are
    for source in (pd.DataFrame(edges), networkx.Graph(edges)):
        assert interop.read(source).names.tolist() == [0, 1, 2, 3]
        assert graphs.to_edges(interop.read(source).graph).tolist() == [[0, 2], [0, 3], [1, 3]]
    graph, names = interop.read(pd.DataFrame([("z", "a"), ("a", "k")]))  # without names, as they come
    assert names.tolist() == ["z", "a", "k"]
    assert graphs.to_edges(graph).tolist() == [[0, 1], [1, 2]]


UNCLEAN = {
    "a loop": (np.array([[0, 0], [0, 1], [1, 2]]), "1 self-loops"),
    "a repeat": (np.array([[0, 1], [0, 1], [1, 2]]), "1 repeated edges"),
    "directed, networkx": (networkx.DiGraph([(0, 1), (1, 2)]), "2 edges without their reverse"),
    "directed": (np.array([[0, 1], [1, 0], [1, 2]]), "1 edges without their reverse"),
}


@pytest.mark.parametrize(("edges", "fault"), UNCLEAN.values(), ids=UNCLEAN.keys())
def test_other_graphs_are_refused_or_cleaned(edges, fault):
    with pytest.raises(ValueError, match=f"{fault}: clean=True"):
        interop.read(edges, 3)
    assert graphs.to_edges(interop.read(edges, 3, clean=True).graph).tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize("source", [
    networkx.Graph([(0, 1, {"weight": 2.0})]), adjacency(EDGES) * 2.0, pyg(BOTH, edge_weight=np.full(6, 0.5)),
    pd.DataFrame(NAMED, columns=["from", "to"]).assign(weight=0.5),
], ids=["networkx", "scipy", "PyTorch Geometric", "pandas"])  # fmt: skip
def test_weights_are_refused_or_dropped(source):
    with pytest.raises(ValueError, match="weights other than 1"):
        interop.read(source)
    assert len(interop.read(source, clean=True).graph.senders)


REFUSED = {
    "no nodes": ((EDGES,), "nodes must say how many"),
    "two readings": (([[0, 1], [2, 3]], 4), "0 - 1 and 2 - 3 with pairs_in='rows', or 0 - 2 and 1 - 3"),
    "outside": (([[0, 9], [1, 2], [0, 1]], 5), r"source must be in \[0, 5\)"),
    "the other shape": ((EDGES, 5, "columns"), r"must have shape \[2, m\]"),
    "unknown names": ((pd.DataFrame(NAMED), NAMES[:2]), "miss 2, as"),
    "a name twice": ((EDGES, ["a", "b", "b", "c"]), "name each node once"),
    "no order": ((pyg(BOTH), {"a", "b", "c", "d", "e"}), "nodes must be names in order, and a set has none"),
    "a number and its text": ((pd.DataFrame({0: [1, 2], 1: ["2", "3"]}),), "got '2' as a number and as text"),
    "a table of users": ((pd.DataFrame(NAMED), pd.DataFrame(index=NAMES)), "got a table, which may be its index"),
    "another number": ((pyg(BOTH), 7), "nodes must be 5"),
    "three columns": ((pd.DataFrame(np.zeros((2, 3))),), r"two columns.*table\[\[one, other\]\]"),
    "nothing": ((None,), "source must be a networkx graph"),
}


@pytest.mark.parametrize(("given", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_graph_is_refused(given, words):
    source, nodes, pairs_in = (*given, None, None)[:3]
    with pytest.raises(ValueError, match=words):
        interop.read(source, nodes, pairs_in=pairs_in)


def test_a_graph_comes_back_out():
    graph, names = interop.read(of_networkx())
    assert networkx.utils.graphs_equal(interop.to_networkx(graph, names), of_networkx())
    assert (interop.to_scipy(graph) != adjacency(BOTH)).nnz == 0
    assert interop.read(interop.to_edge_index(graph), N).graph.senders.tolist() == graph.senders.tolist()


def test_results_become_a_table():
    table = interop.to_table(np.array(NAMES), {"class": np.arange(5), "z": np.ones((5, 3))})
    assert table.loc["cy"].tolist() == [2, 1, 1, 1]
    with pytest.raises(ValueError, match="5 rows, one a name, got 4"):
        interop.to_table(np.array(NAMES), {"class": np.arange(4)})
    with pytest.raises(ValueError, match="names of their own, got z0 twice"):
        interop.to_table(np.array(NAMES), {"z": np.ones((5, 2)), "z0": np.arange(5)})


def test_names_of_64_bits_stay_whole():
    ids = np.array([2**63 + 1, 5, 7], np.uint64)
    found = interop.read(scipy.sparse.csr_array((3, 3)), nodes=ids)
    assert found.names.tolist() == ids.tolist()
    assert interop.read(scipy.sparse.csr_array((2, 2)), nodes=["a\0", "a"]).names.tolist() == ["a\0", "a"]


@pytest.mark.parametrize("edge_index", [np.array([[0.9, 1.7], [1.2, 0.3]]), np.array([[0, 1], [1, 0], [2, 2]])])
def test_an_edge_index_of_fractions_or_of_three_rows_is_refused(edge_index):
    with pytest.raises(ValueError, match="edge_index must be integers of shape"):
        interop.read(types.SimpleNamespace(edge_index=edge_index, num_nodes=3))
