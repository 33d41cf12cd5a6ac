"""Graphs are built as asked or refused, and jraph is what we take it for."""

import ast
import importlib.metadata
from pathlib import Path

import jraph
import numpy as np
import pytest

import ldp_jax
from ldp_jax import graphs


def test_round_trip():
    edges = np.array([[3, 1], [0, 2], [1, 0]])
    graph = graphs.from_edges(edges, 5)
    assert graphs.to_edges(graph).tolist() == [[0, 1], [0, 2], [1, 3]]
    assert graphs.num_nodes(graph) == 5
    assert (np.diff(graph.receivers) >= 0).all()
    assert set(zip(graph.senders.tolist(), graph.receivers.tolist(), strict=True)) == {
        (0, 1), (1, 0), (0, 2), (2, 0), (1, 3), (3, 1),
    }  # fmt: skip
    assert graphs.degree(graph.receivers, 5).tolist() == [2, 2, 1, 1, 0]
    assert graphs.to_edges(graphs.from_edges([], 3)).shape == (0, 2)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([[0, 5]], r"nodes in \[0, 5\), got \(0, 5\)"),
        ([[-1, 2]], r"got \(-1, 2\)"),
        ([[0, 1], [2, 2]], "no self-loops, got one at node 2"),
        ([[0, 1], [1, 0]], r"each pair once, got \(0, 1\) twice"),
        ([[0, 1, 2]], r"shape \[m, 2\]"),
        ([[0.5, 1.0]], "must be integers"),
    ],
)
def test_bad_edges_are_refused(edges, message):
    with pytest.raises(ValueError, match=message):
        graphs.from_edges(edges, 5)


def test_jraph_is_pinned_and_has_what_we_use():
    assert importlib.metadata.version("jraph") == "0.0.6.dev0"
    assert jraph.GraphsTuple._fields == (
        "nodes", "edges", "receivers", "senders", "globals", "n_node", "n_edge",
    )  # fmt: skip


def test_only_graphs_imports_jraph_and_only_models_imports_flax():
    root = Path(ldp_jax.__file__).parent
    for path in root.rglob("*.py"):
        names = {
            name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for name in ([a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""])
        }
        tops = {name.split(".")[0] for name in names}
        relative = path.relative_to(root).as_posix()
        assert "jraph" not in tops or relative == "graphs.py", relative
        assert "flax" not in tops or relative.startswith("models/"), relative
