"""Whoever gives what is no graph is told how to make one, by every public function that takes a
graph.
"""

import importlib
import inspect
import pkgutil
from types import SimpleNamespace

import jax
import networkx
import numpy as np
import pytest
import scipy.sparse

import ldp_jax
from ldp_jax import edges, features, servers
from ldp_jax.graph import graphs, interop, packing, propagation
from ldp_jax.learning import models

pytestmark = pytest.mark.usefixtures("untyped")

PATH = np.array([[0, 1], [1, 2]])
NAMES = {"graph", "lists", "op_or_graph", "public", "bits"}
"""Of arguments that hold a graph, where their annotation says so."""

GIVEN = {
    "x": np.eye(3),
    "features": np.eye(3),
    "alpha": 0.5,
    "r": 0.5,
    "epsilon": 1.0,
    "privacy": 1.0,
    "y": np.eye(3),
    "nodes": np.array([0, 1]),
    "panel": np.array([0, 1]),
    "num_nodes": 3,
    "labels": np.array([0, 1, -1]),
    "num_classes": 2,
    "num_folds": 2,
    "count": 1,
    "steps": 1,
    "fold": np.arange(3),
    "groups": np.arange(3),
    "records": np.eye(2),
    "rho": 0.5,
    "rows": None,
    "num_groups": 3,
    "public": None,
    "model": None,
    "objective": None,
    "settings": None,
    "examples": None,
    "seen": None,
    "kappa": 1.0,
    "c": 0.5,
    "precision": 1.0,
    "models": 2,
    "known": None,
    "protocol": "TSTF",
    "optimizer": None,
    "epochs": 1,
    "shadows": None,
    "reports": None,
    "private": graphs.from_edges(PATH, 3),
    "prior": SimpleNamespace(group=[0], degree=[0]),
}
"""Other arguments, that are of three users or need not be looked at."""

MECHANISMS = {
    "privatize_counts": edges.NeighbourCounts(1.0, 3),
    "privatize_graph": edges.NoisyDegree(1.0),
}


OTHERS = {
    "Edges.of",
    "to_list",
    "stacked",
    "operator_of",
    "edges_of",
}  # pairs, bits, arrays, an operator


def takers():
    """Every public function, and class method ``of``, with an argument that is a graph."""
    found = {}
    for info in pkgutil.walk_packages(ldp_jax.__path__, "ldp_jax."):
        if "._" in info.name:
            continue
        module = importlib.import_module(info.name)
        own = [
            n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__
        ]
        for name in getattr(module, "__all__", [n for n in own if n[0] != "_"]):
            value = getattr(module, name)
            for made in (value, getattr(value, "of", None) if inspect.isclass(value) else None):
                if not (inspect.ismethod(made) or inspect.isfunction(inspect.unwrap(made))):
                    continue
                for argument, of in inspect.signature(made).parameters.items():
                    if argument in NAMES and (
                        "Graph" in str(of.annotation) or "Any" in str(of.annotation)
                    ):
                        found.setdefault(made.__qualname__, (made, argument))
    return {name: found[name] for name in found if name not in OTHERS}


TAKERS = takers()
assert {
    "ppr",
    "predict_from_counts",
    "predict_jointly",
    "predict_from_reports",
    "privatize_graph",
} < set(TAKERS)


@pytest.mark.parametrize("name", TAKERS)
def test_what_is_no_graph_is_refused_with_what_makes_one(name):
    taker, argument = TAKERS[name]
    parameters = [
        one
        for one in inspect.signature(taker).parameters.values()
        if one.kind is not one.VAR_KEYWORD
    ]
    needed = [one.name for one in parameters if one.default is one.empty and one.name != argument]
    refusal = r"must be a GraphsTuple, as graphs\.from_edges\(edges, num_nodes\)"
    for none in (
        None,
        PATH,
        scipy.sparse.csr_array(np.eye(3)),
        {0: [1]},
        SimpleNamespace(graph=1, y=2),
    ):
        drawn = {"key": jax.random.key(0), "keys": jax.random.split(jax.random.key(1), 2)}
        drawn["mechanism"] = MECHANISMS.get(name, features.MultiBit(1.0, 3))
        given = {each: drawn[each] if each in drawn else GIVEN[each] for each in needed}
        with pytest.raises(ValueError, match=refusal) as said:
            taker(**given, **{argument: none})
        assert len(str(said.value).splitlines()) == 1


def test_graphs_of_other_libraries_whose_nodes_are_numbers_are_taken_everywhere():
    """Of numbers in any order; beside names, loops and weights rows could be anybody's."""
    ours = graphs.from_edges(PATH, 3)
    ends = np.concatenate([PATH, PATH[:, ::-1]]).T
    theirs = networkx.Graph([(2, 1), (1, 0)])
    matrix = networkx.to_scipy_sparse_array(theirs, range(3))
    indexed = SimpleNamespace(edge_index=ends, num_nodes=3)
    for source in (theirs, matrix, indexed):
        assert propagation.operator(source) == propagation.operator(ours)
        assert edges.Population.of(source).receivers.tolist() == [0, 1, 1, 2]
        made = [servers.private_embedding(
            jax.random.key(0), each, np.eye(3), features.MultiBit(1.0, 3), alpha=0.5, r=0.5
        ).z for each in (source, ours)]  # fmt: skip
        np.testing.assert_array_equal(*made)
        assert graphs.to_edges(source).tolist() == PATH.tolist()
        dense = [propagation.ppr_dense(each, np.eye(3), 0.5, 0.5) for each in (source, ours)]
        np.testing.assert_array_equal(*dense)
        assert packing.from_graphs(source).node_count.tolist() == [1] * 3
        assert models.gcn(1, 1, 2).init(jax.random.key(0), (source, np.eye(3)))["params"]
        assert interop.to_networkx(source).number_of_edges() == 2
        assert (
            ldp_jax.Dataset(
                "mine", graph=source, x=np.eye(3), y=np.arange(3), lower=0, upper=1
            ).num_edges
            == 2
        )
    strangers = (
        networkx.Graph([("a", "b")]),
        networkx.Graph([(0, 2)]),
        networkx.Graph([(0, 0), (0, 1)]),
    )
    directed = (
        networkx.DiGraph([(0, 1)]),
        SimpleNamespace(edge_index=PATH.T, num_nodes=3),
        scipy.sparse.eye(3, k=1),
    )
    for strange in (*strangers, *directed):
        with pytest.raises(ValueError, match=r"must be a GraphsTuple.*interop\.read makes one"):
            edges.Population.of(strange)
