"""Graphs of other libraries: every source gives the same graph, and what can be read in two ways is
refused.
"""

import types

import jax.numpy as jnp
import networkx
import numpy as np
import pandas as pd
import pyarrow
import pytest
import scipy.sparse

from ldp_jax.core import validate
from ldp_jax.edges.neighbour_counts import checked_groups
from ldp_jax.graph import graphs, interop

EDGES = np.array([[0, 1], [1, 2], [0, 3]])
NAMES = ["ana", "bo", "cy", "dee", "eve"]
N = len(NAMES)
BOTH = np.concatenate([EDGES, EDGES[:, ::-1]])
NAMED = [(NAMES[u], NAMES[v]) for u, v in EDGES]


def edges_of(source, nodes=None, **how):
    return graphs.to_edges(interop.read(source, nodes, **how).graph).tolist()


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
    assert {frozenset(pair) for pair in graphs.to_edges(graph).tolist()} == {
        frozenset(p) for p in EDGES.tolist()
    }
    assert names.tolist() in (NAMES, list(range(N)))


def test_names_are_any_hashable_objects():
    _, names = interop.read(networkx.Graph([((1, 2), "a"), ("a", 3)]))
    assert names.tolist() == [(1, 2), "a", 3]
    edges = [(3, 1), (2, 0), (0, 3)]  # numbers are in order, as rows of features by number are
    for source in (pd.DataFrame(edges), networkx.Graph(edges)):
        assert interop.read(source).names.tolist() == [0, 1, 2, 3]
        assert edges_of(source) == [[0, 2], [0, 3], [1, 3]]
    graph, names = interop.read(
        pd.DataFrame([("z", "a"), ("a", "k")])
    )  # without names, as they come
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
    assert edges_of(edges, 3, clean=True) == [[0, 1], [1, 2]]


FRACTIONS = types.SimpleNamespace(edge_index=np.array([[0.9, 1.7], [1.2, 0.3]]), num_nodes=3)
EVE = networkx.Graph([("bo", "ana"), ("bo", "eve")])
REFUSED = [
    ((EDGES,), "nodes must say how many"),
    (([[0, 1], [2, 3]], 4), "0 - 1 and 2 - 3 with pairs_in='rows', or 0 - 2 and 1 - 3"),
    (([[0, 9], [1, 2], [0, 1]], 5), r"source must be in \[0, 5\)"),
    ((EDGES, 5, "columns"), r"must have shape \[2, m\]"),
    ((pd.DataFrame(NAMED), NAMES[:2]), "miss 2, as"),
    ((EVE, ["ana", "bo", "cy"]), "miss 1, as 'eve'"),
    ((EDGES, ["a", "b", "b", "c"]), "name each node once"),
    ((pyg(BOTH), {"a", "b", "c", "d", "e"}), "nodes must be names in order"),
    ((pd.DataFrame({0: [1, 2], 1: ["2", "3"]}),), "as a number and as text"),
    ((pd.DataFrame(NAMED), pd.DataFrame(index=NAMES)), "nodes must be names, got a table"),
    ((pyg(BOTH), 7), "nodes must be 5"),
    ((pd.DataFrame(np.zeros((2, 3))),), "two columns"),
    ((FRACTIONS,), "edge_index must be integers"),
    ((networkx.Graph(),), "is an empty graph"),
    ((pd.DataFrame({"from": [], "to": []}),), "is an empty graph"),
    ((scipy.sparse.csr_array((0, 0)),), "is an empty graph"),
    ((None,), "source must be a networkx graph"),
]


@pytest.mark.parametrize(("given", "words"), REFUSED)
def test_what_is_no_graph_is_refused(given, words):
    source, nodes, pairs_in = (*given, None, None)[:3]
    with pytest.raises(ValueError, match=words):
        interop.read(source, nodes, pairs_in=pairs_in)


def test_a_graph_comes_back_out():
    graph, names = interop.read(of_networkx())
    assert networkx.utils.graphs_equal(interop.to_networkx(graph, names), of_networkx())
    assert (interop.to_scipy(graph) != adjacency(BOTH)).nnz == 0
    assert (
        interop.read(interop.to_edge_index(graph), N).graph.senders.tolist()
        == graph.senders.tolist()
    )


def test_results_become_a_table():
    table = interop.to_table(np.array(NAMES), {"class": np.arange(5), "z": np.ones((5, 3))})
    assert table.loc["cy"].tolist() == [2, 1, 1, 1]
    with pytest.raises(ValueError, match="5 rows, one a name, got 4"):
        interop.to_table(np.array(NAMES), {"class": np.arange(4)})
    with pytest.raises(ValueError, match="names of their own, got z0 twice"):
        interop.to_table(np.array(NAMES), {"z": np.ones((5, 2)), "z0": np.arange(5)})


# --- Weights: one rule ------------------------------------------------------------------------

TWO = np.array([[0, 1], [1, 2]])


def attributed(weights, name="weight"):
    made = networkx.Graph()
    made.add_nodes_from(range(3))
    made.add_edges_from(
        (u, v, {name: weight}) for (u, v), weight in zip(TWO.tolist(), weights, strict=True)
    )
    return made


def tabled(weights, name="weight"):
    return pd.DataFrame(TWO, columns=["from", "to"]).assign(**{name: weights})


def stored(weights):
    return scipy.sparse.coo_array((np.asarray(weights), tuple(TWO.T)), shape=(3, 3))


def squared(weights):
    return pd.DataFrame(stored(weights).toarray(), ["ana", "bo", "cy"], ["ana", "bo", "cy"])


def torched(weights, name="edge_attr"):
    return types.SimpleNamespace(edge_index=TWO.T, num_nodes=3, **{name: weights})


def dgled(weights, name="w"):
    return types.SimpleNamespace(
        edges=lambda: tuple(TWO.T),
        num_nodes=lambda: 3,
        edata={name: np.asarray(weights), "feat": np.ones(2)},
    )


def jraphed(weights):
    graph = graphs.from_edges(TWO, 3)
    return graph._replace(edges=np.asarray(weights)[[0, 0, 1, 1]])


WEIGHTED = {
    "networkx, Weight": lambda weights: attributed(weights, "Weight"),
    "networkx, of a file": lambda weights: attributed(list(map(str, weights))),
    "scipy": stored,
    "PyG, edge_attr of one column": lambda weights: torched(np.reshape(weights, (2, 1))),
    "PyG, edge_weight": lambda weights: torched(OfTorch(np.asarray(weights)), "edge_weight"),
    "DGL, w": dgled,
    "pandas": tabled,
    "pandas, nullable": lambda weights: tabled(pd.array(weights, dtype="Float64")),
    "pandas, category": lambda weights: tabled(pd.Categorical(weights)),
    "pandas, a matrix": squared,
    "Arrow": lambda weights: pyarrow.Table.from_pandas(tabled(weights)),
    "GraphsTuple": jraphed,
}


@pytest.mark.parametrize("made", WEIGHTED.values(), ids=WEIGHTED.keys())
def test_one_rule_for_weights_in_all_sources(made):
    """Weights that are not all 1 are refused; cleaned, an edge of weight 0 is none, and others have
    weight 1.
    """
    assert edges_of(made([1.0, 1.0])) == TWO.tolist()
    for weights, kept in (([-1.0, 0.5], TWO), ([0.0, 2.0], TWO[1:])):
        with pytest.raises(ValueError, match="weights other than 1 in '.*clean=True"):
            interop.read(made(weights))
        assert edges_of(made(weights), clean=True) == kept.tolist()


def test_weights_inside_a_graphs_tuple_are_dropped_by_no_function():
    weighted = jraphed([1.0, 0.5])
    for call in (graphs.num_nodes, graphs.to_edges, interop.to_scipy):
        with pytest.raises(ValueError, match=r"graph must have edges=None, .*interop\.read"):
            call(weighted)


MISSING_WEIGHTS = {
    "networkx, None": attributed([1, None]),
    "networkx, a word": attributed([1, "strong"]),
    "scipy": stored([1, np.nan]),
    "pandas, category": tabled(pd.Categorical([1, None])),
    "pandas, Arrow": tabled(pd.array([1, None], dtype=pd.ArrowDtype(pyarrow.int64()))),
    "Arrow": pyarrow.table({"from": [0, 1], "to": [1, 2], "weight": [1, None]}),
    "a matrix": squared([1, np.nan]),
    "too few": torched([1.0]),
    "masked": torched(np.ma.array([1.0, 1.0], mask=[False, True])),
}


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("source", MISSING_WEIGHTS.values(), ids=MISSING_WEIGHTS.keys())
def test_missing_weights_are_refused(source, clean):
    with pytest.raises(ValueError, match="must be a number for each edge|must all be there"):
        interop.read(source, clean=clean)


# --- Tables -----------------------------------------------------------------------------------


def test_a_table_whose_index_is_its_columns_is_a_matrix_with_names():
    two = pd.DataFrame([[0, 1], [1, 0]], ["ana", "bo"], ["ana", "bo"])
    graph, names = interop.read(two)
    assert (names.tolist(), graphs.to_edges(graph).tolist()) == (["ana", "bo"], [[0, 1]])
    empty = interop.read(two * 0)
    assert (empty.names.tolist(), len(empty.graph.senders)) == (["ana", "bo"], 0)
    three = pd.DataFrame(
        np.eye(3, k=1, dtype=bool), ["c", "a", "b"], ["c", "a", "b"]
    )  # c - a, a - b
    assert edges_of(three) == [[0, 1], [1, 2]]
    turned = three[["b", "c", "a"]]  # columns in another order are found by name
    assert edges_of(turned) == [[0, 1], [1, 2]]
    placed = interop.read(three, nodes=["a", "b", "c", "dee"])
    assert (placed.names.tolist(), graphs.to_edges(placed.graph).tolist()) == (
        ["a", "b", "c", "dee"],
        [[0, 1], [0, 2]],
    )
    with pytest.raises(
        ValueError, match="nodes must name every node of the source, and miss 1, as 'c'"
    ):
        interop.read(three, nodes=["a", "b"])
    with pytest.raises(ValueError, match="weights other than 1"):
        interop.read(two * 0.5)
    numbered = pd.DataFrame([[0, 0, 1], [0, 0, 0], [1, 0, 0]], [2, 0, 1], [2, 0, 1])  # 2 - 1
    assert interop.read(numbered).names.tolist() == [0, 1, 2]
    assert edges_of(numbered) == [[1, 2]]


def test_two_rows_of_two_numbers_without_names_must_say_how_they_are_read():
    table = pd.DataFrame([[0, 1], [1, 2]])
    with pytest.raises(
        ValueError, match=r"two edges with pairs_in='rows', or as an adjacency matrix by scipy"
    ):
        interop.read(table)
    assert edges_of(table, pairs_in="rows") == [[0, 1], [1, 2]]
    with pytest.raises(ValueError, match="pairs_in must be 'rows' of a table"):
        interop.read(table, pairs_in="columns")
    named = interop.read(table.set_axis(["one", "other"], axis=1))
    assert graphs.to_edges(named.graph).tolist() == [[0, 1], [1, 2]]


# --- Masked and missing entries ---------------------------------------------------------------

MASKED = np.ma.array(BOTH, mask=np.arange(len(BOTH))[:, None] == [2, 2])
"""The third edge is not there."""
HIDDEN = np.ma.array([0, 1], mask=[0, 1])
ENTRIES = [
    lambda: interop.read(MASKED, N),
    lambda: interop.read(list(MASKED), N),
    lambda: interop.read(types.SimpleNamespace(edge_index=MASKED.T, num_nodes=N)),
    lambda: interop.read(dgl(MASKED)),
    lambda: graphs.from_edges(MASKED[:3], N),
    lambda: validate.pairs(N, pairs=MASKED),
    lambda: checked_groups(HIDDEN, 2, 2),
    lambda: graphs.directed(MASKED[:3, 0], MASKED[:3, 1], N),
    lambda: graphs.GraphSet.from_edges(*MASKED.T, np.zeros(N, int), [0]),
    lambda: graphs.GraphSet.from_edges([], [], HIDDEN, [0, 0]),
    lambda: graphs.GraphSet.from_edges([], [], [0, 1], [0, 1]).subset(HIDDEN),
    lambda: graphs.num_nodes(graphs.from_edges([[0, 1]], 2)._replace(senders=HIDDEN)),
    lambda: graphs.validate_symmetric(graphs.from_edges([[0, 1]], 2), HIDDEN),
    lambda: interop.read(pyg(BOTH), np.ma.array(NAMES, mask=np.arange(N) == 1)),
    lambda: interop.read(pyg(BOTH), pyarrow.array(["a", None, "b", "c", "d"])),
    lambda: interop.read(pyg(BOTH), [*NAMES[:4], None]),
    lambda: interop.read(networkx.Graph([(0, np.nan), (0, 1)])),
    lambda: interop.read(pd.DataFrame({"one": pd.Categorical(["a", None]), "two": ["b", "a"]})),
    lambda: interop.read(pyarrow.table({"from": [0, None], "to": [1, 2]})),
]


@pytest.mark.parametrize("call", ENTRIES)
@pytest.mark.usefixtures("untyped")
def test_masked_and_missing_entries_are_refused(call):
    words = "must all be there|misses some|missing or masked|NumPy masks|no masked entries"
    with pytest.raises(ValueError, match=words):
        call()


def test_names_of_64_bits_stay_whole():
    ids = np.array([2**63 + 1, 5, 7], np.uint64)
    assert interop.read(scipy.sparse.csr_array((3, 3)), ids).names.tolist() == ids.tolist()
    ends = ["a\0", "a"]
    assert interop.read(scipy.sparse.csr_array((2, 2)), ends).names.tolist() == ends


def test_masks_that_hide_nothing_codes_and_tables_of_arrow_are_read_by_value():
    whole = np.ma.array(BOTH, mask=False)
    assert (
        interop.read(whole, N).graph.senders.tolist()
        == interop.read(BOTH, N).graph.senders.tolist()
    )
    codes = pd.DataFrame(
        {"from": pd.Categorical(["b", "c"], ["c", "b"]), "to": pd.Categorical(["a", "a"])}
    )
    for source in (codes, pyarrow.Table.from_pandas(codes)):
        graph, names = interop.read(source)
        assert (names.tolist(), graphs.to_edges(graph).tolist()) == (
            ["b", "a", "c"],
            [[0, 1], [1, 2]],
        )
    named = interop.read(pyg(BOTH), pyarrow.array(NAMES))
    assert named.names.tolist() == NAMES


# --- Subclasses, empty graphs, wide ids -------------------------------------------------------


class Network(networkx.Graph):
    """As a user derives one."""


class Friends(pd.DataFrame):
    """As GeoPandas does."""

    @property
    def _constructor(self):
        return Friends


def test_subclasses_are_read_as_their_parents():
    for source, parent in (
        (Network(NAMED), networkx.Graph(NAMED)),
        (Friends(NAMED), pd.DataFrame(NAMED)),
    ):
        found = interop.read(source)
        wanted = interop.read(parent)
        assert found.names.tolist() == wanted.names.tolist() == ["ana", "bo", "cy", "dee"]
        assert graphs.to_edges(found.graph).tolist() == graphs.to_edges(wanted.graph).tolist()
    assert graphs.to_edges(Network([(0, 1), (1, 2)])).tolist() == [[0, 1], [1, 2]]
    with pytest.raises(ValueError, match=r"interop\.read makes one of it"):
        graphs.as_graph(Friends(NAMED))


def test_ids_beyond_63_bits_are_shown_as_they_are():
    wide = np.array([[0, 2**63 + 5], [1, 2], [0, 1]], np.uint64)
    for call in (
        lambda: interop.read(wide, N),
        lambda: interop.read(types.SimpleNamespace(edge_index=wide.T, num_nodes=N)),
        lambda: graphs.from_edges(wide, N),
        lambda: graphs.directed(wide[:, 0], wide[:, 1], N),
    ):
        with pytest.raises(ValueError, match=rf"{2**63 + 5}"):
            call()
    with pytest.raises(ValueError, match=r"receivers must be below 2\^63"):
        graphs.GraphSet.from_edges(wide[:, 0], wide[:, 1], np.zeros(N, int), [0])


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    "number", [4, np.int64(4), np.array(4), jnp.array(4)], ids=lambda one: type(one).__name__
)
def test_a_number_of_nodes_may_be_an_array_without_axes(number):
    assert interop.read([[0, 1], [1, 2], [0, 2]], nodes=number).graph.n_node.tolist() == [4]
