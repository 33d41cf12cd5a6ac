"""What is no graph, and what does not fit one, is refused by the name of the argument at fault."""

from types import SimpleNamespace

import jax
import numpy as np
import pandas as pd
import pytest

from ldp_jax.graph import aggregation, packing
from ldp_jax.graph.graphs import GraphSet, directed, from_edges, to_edges, validate_symmetric
from ldp_jax.graph.propagation import (
    kprop,
    kprop_many,
    operator,
    ppr,
    ppr_dense,
    ppr_push,
    ppr_rows,
)
from tests.graph.test_propagation import GRAPH, OPERATORS, N, X

EDGES = [[3, 0], [0, 1], [2, 1]]
FAR = GRAPH._replace(senders=np.append(GRAPH.senders, N), receivers=np.append(GRAPH.receivers, 0))
ONE_WAY = GRAPH._replace(senders=GRAPH.senders[1:], receivers=GRAPH.receivers[1:])
HALF = np.arange(N) < N / 2
SET = GraphSet.from_edges([], [], np.arange(5), np.arange(5))
NO_SET = SimpleNamespace(name="karate", graph=GRAPH, node_graph=None, y=np.array([0, 1]))


def ends(senders, receivers):
    """A graph of these directed edges, unchecked."""
    ends = {"senders": np.array(senders, np.int32), "receivers": np.array(receivers, np.int32)}
    return from_edges(EDGES, 4)._replace(**ends)


def rows(senders, receivers):
    return aggregation.tables(np.array(senders), np.array(receivers), 2)


def segments(senders, receivers):
    return aggregation.Segments(np.array(senders), np.array(receivers))


REFUSED = [
    (lambda: ppr(GRAPH, X, 0.0, 0.5), "alpha must be"),
    (lambda: ppr(GRAPH, X, float("nan"), 0.5), "alpha must be"),
    (lambda: ppr(GRAPH, X, 0.1, 1.5), "r must be"),
    (lambda: ppr(GRAPH, X, 0.1, 0.5, 0.0), "tol must be"),
    (lambda: ppr(GRAPH, X[1:], 0.1, 0.5), "x must have a row"),
    (lambda: ppr(GRAPH, X, np.array([0.1, 0.2]), 0.5), r"must be numbers, got alpha of shape"),
    (lambda: ppr(GRAPH, pd.DataFrame(X)[::-1], 0.1, 0.5), "x must be in the order of nodes"),
    (lambda: ppr(GRAPH, 1j * X, 0.1, 0.5), "x must be of real numbers"),
    (lambda: ppr_push(GRAPH, X, 0.1, 0.5, float("nan")), "r_max"),
    (lambda: ppr(GRAPH, X, 1e-8, 0.5), "alpha must be at least 3e-08"),
    (lambda: ppr_push(GRAPH, X, 1e-8, 0.5), "alpha must be at least"),
    (lambda: ppr_dense(GRAPH, X, 0.0, 0.5), "alpha must be"),
    (lambda: ppr_dense(GRAPH, X[1:], 0.1, 0.5), "x must have a row"),
    (lambda: ppr_dense(from_edges([[0, 1]], 10**6), np.ones(10**6), 0.5, 0.5), "10000 nodes"),
    (lambda: ppr_dense(from_edges([[0, 1]], 10), np.ones(10), 0.5, 0.5, memory=3999.0), "9 nodes"),
    (lambda: ppr_rows(GRAPH, [N], 0.1, 0.5), "nodes must be"),
    (lambda: ppr_rows(GRAPH, [True], 0.1, 0.5), "nodes must be"),
    (lambda: ppr_rows(GRAPH, np.ma.array([0, 1], mask=[0, 1]), 0.1, 0.5), "nodes must all be"),
    (lambda: ppr_dense(GRAPH, pd.DataFrame(X)[::-1], 0.1, 0.5), "x must be in the order of nodes"),
    (lambda: ppr_rows(operator(ends([0], [1]), allow_directed=True), [0], 0.1, 0.5), "op_or_graph"),
    (lambda: jax.jit(lambda graph: ppr_rows(graph, [0], 0.1, 0.5))(GRAPH), "how many nodes"),
    (lambda: operator(ends([0, 0], [1, 1]), allow_directed=True), "each edge once"),
    (lambda: operator(GRAPH, "dense"), "layout must be one of"),
    (lambda: operator(FAR), "edges must join nodes in"),
    (lambda: operator(ONE_WAY), "must be symmetric.*allow_directed"),
    (lambda: OPERATORS["ell"].induced(), "parts must be bool"),
    (lambda: OPERATORS["ell"].induced(np.flatnonzero(HALF)), "parts must be bool"),
    (lambda: OPERATORS["ell"].induced(HALF, HALF), "parts must have no node in common"),
    (lambda: kprop(GRAPH, X, 1.5), "steps must be"),
    (lambda: kprop(ONE_WAY, X, 1), "must be symmetric"),
    (lambda: kprop_many(GRAPH, X, ()), "steps must name"),
    (lambda: kprop_many(GRAPH, X, (1,), normalisation="max"), "normalisation must be one of"),
    (lambda: from_edges([[0, 4]], 4), r"edges must join nodes in \[0, 4\), got \(0, 4\)"),
    (lambda: from_edges([[0, 1], [2, 2]], 4, pairs_in="rows"), "no self-loops, got one at node 2"),
    (lambda: from_edges([[0, 1], [1, 0]], 4, pairs_in="rows"), r"once, got \(0, 1\) twice"),
    (lambda: from_edges([[0, 1, 2]], 4), r"shape \[m, 2\]"),
    (lambda: from_edges([[0, 1, 2], [1, 2, 3]], 4), "pairs_in='columns'"),
    (lambda: from_edges([[0.0, 1.0]], 4), "edges must be integers"),
    (lambda: from_edges(EDGES, 4, pairs_in="columns"), r"shape \[2, m\]"),
    (lambda: from_edges(EDGES, 4, pairs_in="cols"), "pairs_in must be one of"),
    (lambda: directed(np.array([2**32 + 1]), [0], 4), "senders must be"),
    (lambda: directed([0], [1.5], 4), "receivers must be"),
    (lambda: directed([-1], [0], 4), "senders must be"),
    (lambda: directed([0], np.array([True]), 4), "receivers must be"),
    # Half of a directed graph's pairs would be lost in silence.
    (lambda: to_edges(ends([0], [1])), r"both directions.* np\.stack"),
    (lambda: to_edges(ends([0, 1, 2], [1, 0, 0])), "both directions"),
    (lambda: to_edges(ends([0, 1, 0, 1], [1, 0, 1, 0])), "each edge once in each direction"),
    (lambda: to_edges(ends([0, 1, 2], [1, 0, 2])), "no self-loop"),
    (lambda: validate_symmetric(ends([0, 1, 0], [1, 0, 1])), "graph 0 .* got 0 -> 1 twice"),
    (lambda: validate_symmetric(ends([0, 1, 2], [1, 0, 2])), "graph 0 .* self-loops"),
    (lambda: validate_symmetric(ends([0, 1], [1])), "must pair up"),
    (lambda: validate_symmetric(ends([3], [2]), [5, 5, 7, 7]), "graph 7 must be symmetric"),
    (lambda: validate_symmetric(ends([1], [2]), [0, 0, 1, 1]), "joins graph 0 and graph 1"),
    (lambda: rows([-1, 0], [0, 1]), "senders must be"),
    (lambda: rows([0], [0, 1]), "senders and receivers must be as many"),
    (lambda: rows([2, 0], [0, 1]), "senders must be"),
    (lambda: segments([0, 1], [1, 0]), "receivers must not decrease"),
    (lambda: segments([0.0, 1.0], [0, 1]), "senders must be integers"),
    (lambda: segments([0, 0], [-2, 1]), "receivers must be"),
    (lambda: aggregation.NeighbourRows(*np.zeros((2, 1, 2), int), np.array([-1])), "node must be"),
    (lambda: GraphSet.from_edges([], [], [], []), "must have a graph"),
    (lambda: GraphSet.from_edges([], [], [0, 1], [0]), "1 labels, and nodes of graph 1"),
    (lambda: GraphSet.from_edges([], [], [0, 1], [0, -1]), "labels must be"),
    (lambda: GraphSet.from_edges([0], [2], [0, 0, 1], [0, 1]), "joins graph 0 and graph 1"),
    (lambda: GraphSet.from_edges([9], [9], [0], [0]), "in no graph of the set"),
    (lambda: GraphSet.from_edges([1], [1], [0, 0], [0]), "graph 0 .* self-loops"),
    (lambda: GraphSet.from_edges([], [], [0, 1], [0, 0.5]), "labels must be integers"),
    (lambda: GraphSet.from_dataset(NO_SET), "karate must be a set"),
    (lambda: SET.subset([]), "indices must name at least one"),
    (lambda: SET.subset([-1]), "indices must be in"),
    (lambda: SET.subset([2, 1, 2]), "indices must name each graph once, got graph 2"),
    (lambda: packing.pack(SET, 2.0), "batch_size must be"),
    (lambda: packing.pack(SET, 2, shapes=0), "shapes must be"),
    # A single label was that of all graphs, and 0.7 was 0.
    (lambda: packing.from_graphs(SET.graph, [3]), r"labels must have shape \[5\]"),
    (lambda: packing.from_graphs(SET.graph, np.full(5, 0.7)), "labels must be integers.* 0.7"),
]  # fmt: skip


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.usefixtures("untyped")
def test_parts_of_parts_are_refused():
    with pytest.raises(TypeError, match="parts of parts"):
        OPERATORS["ell"].induced(HALF).induced(~HALF)
