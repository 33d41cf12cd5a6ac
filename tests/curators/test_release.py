"""What a curator is given, releases and refuses: all mechanisms alike."""

import re

import jax
import numpy as np
import pytest

import ldp_jax
from ldp_jax import curators
from ldp_jax.accounting.guarantee import EDGE_CENTRAL
from ldp_jax.curators import (
    BinnedPairs,
    EdgeRand,
    EdgeRR,
    EdgeSplit,
    LapGraph,
    PrivHRG,
    PublicHRG,
    hrg,
    release,
    split_edges,
)
from ldp_jax.curators.release import ADJACENCY
from ldp_jax.edges import HasGraphSampler, privatize_graph
from ldp_jax.graph import graphs
from tests.curators.data import random_split

# Chains of eight sweeps, one program for all: what is asked here does not depend on how far they
# come.
MECHANISMS = {
    "EdgeRR": lambda e: EdgeRR(e / 2, e / 2, sweeps=8),
    "EdgeRR, as published": lambda e: EdgeRR.as_published(e / 2, e / 2, sweeps=2),
    "PrivHRG": lambda e: PrivHRG(e, sweeps=8),
    "PublicHRG": lambda e: PublicHRG(e, sweeps=8),
    "BinnedPairs": BinnedPairs,
    "BinnedPairs, degrees": lambda e: BinnedPairs(e, score="degree product", noise="laplace"),
    "EdgeRand": EdgeRand,
    "LapGraph": lambda e: LapGraph.from_epsilon(e, share=0.5),
}
every_mechanism = pytest.mark.parametrize("name", MECHANISMS)
HIDDEN = np.arange(30) % 5 != 0
"""24 of 30 nodes are private: all chains of this file have one size, and few programs."""


def codes(pairs, n=30):
    pairs = np.asarray(pairs)
    return np.sort(pairs.min(1).astype(int) * n + pairs.max(1))


@every_mechanism
def test_public_edges_stay_and_pairs_of_private_nodes_join_them_under_a_curators_guarantee(
    name, monkeypatch
):
    """Of chains that agree; tests/curators/test_edge_rr.py asks those that run."""
    trace = lambda keys, state, *_: (state, np.stack([np.arange(len(keys)) % 2.0] * 2, 1))
    monkeypatch.setattr(hrg, "trace", trace)
    split = random_split(30, 50, 25, 0, HIDDEN)
    m = MECHANISMS[name](4.0)
    draw = lambda seed, chains=0: release(jax.random.key(seed), split, m, chains=chains)
    noisy = draw(0, 4)
    edges, public = graphs.to_edges(noisy.graph), graphs.to_edges(split.public)
    found = codes(edges)
    assert len(np.unique(found)) == len(found)
    assert np.isin(codes(public), found).all()
    joined = edges[~np.isin(edges[:, 0].astype(int) * 30 + edges[:, 1], codes(public))]
    assert len(joined)
    assert HIDDEN[joined].all()
    assert np.isnan(noisy.degree).all()
    unasked = draw(0)
    np.testing.assert_array_equal(graphs.to_edges(unasked.graph), edges)
    assert not np.array_equal(graphs.to_edges(draw(1).graph), edges)

    spent = noisy.guarantee[EDGE_CENTRAL]
    assert spent.trust == "central"
    assert spent.adjacency == ADJACENCY
    assert spent.delta == 0.0
    chain = "EdgeRR" in name or "PrivHRG" in name
    if not chain:
        assert (spent.epsilon, spent.status) == (4.0, "proved")
    elif "published" in name:
        assert (spent.epsilon, spent.status) == (np.inf, "none")
    else:  # without a look nothing is claimed
        assert (spent.epsilon, spent.status) == (4.0, "in the limit")
        assert unasked.guarantee[EDGE_CENTRAL].status == "none"
    assert spent.reason
    assert "trusted curator" in str(spent)
    assert "NOT protected: public edges, private nodes" in str(noisy.guarantee)


@every_mechanism
def test_privatize_graph_is_the_case_of_private_edges_alone(name):
    """Edges of public users stay as they are, and none joins them."""
    m = MECHANISMS[name](4.0)
    assert isinstance(m, HasGraphSampler)
    graph = random_split(30, 0, 60, 1).private
    noisy = privatize_graph(jax.random.key(0), graph, m, public=~HIDDEN)
    true, found = graphs.to_edges(graph), graphs.to_edges(noisy.graph)
    shown = codes(true[~HIDDEN[true].all(1)])
    np.testing.assert_array_equal(codes(found[~HIDDEN[found].all(1)]), shown)
    parts = (
        graphs.from_edges(true[at], 30, pairs_in="rows")
        for at in (~HIDDEN[true].all(1), HIDDEN[true].all(1))
    )
    same = release(jax.random.key(0), EdgeSplit(*parts, HIDDEN), m, chains=0)
    np.testing.assert_array_equal(codes(graphs.to_edges(same.graph)), codes(found))
    assert noisy.guarantee[EDGE_CENTRAL] == m.guarantee()


SMALL = [
    EdgeSplit.of(graphs.from_edges([], 30), HIDDEN),
    EdgeSplit.of(graphs.from_edges([], 3), np.array([False, True, False])),
    EdgeSplit.of(graphs.from_edges([], 3), np.zeros(3, bool)),
    EdgeSplit(graphs.from_edges([[0, 1]], 2), graphs.from_edges([], 2)),
]


@every_mechanism
def test_small_and_empty_graphs(name):
    """No edge, one private node, none, and no candidate."""
    for split in SMALL:
        found = graphs.to_edges(
            release(jax.random.key(0), split, MECHANISMS[name](1.0), chains=0).graph
        )
        assert len(found) >= len(graphs.to_edges(split.public))
        if split.num_nodes < 30:
            np.testing.assert_array_equal(found, graphs.to_edges(split.public))


@every_mechanism
def test_what_is_refused_of_any_mechanism(name):
    split = random_split(30, 50, 25, 0, HIDDEN)
    m = MECHANISMS[name](4.0)
    with pytest.raises(ValueError, match="memory allows"):
        release(jax.random.key(0), split, m, memory=1.0, chains=0)
    with pytest.raises(ValueError, match="threefry"):
        release(jax.random.key(0, impl="rbg"), split, m)
    both = graphs.GraphSet.from_edges([1, 0], [0, 1], [0, 0, 1], [0, 1])
    with pytest.raises(ValueError, match="takes one graph, got a set of 2"):
        privatize_graph(jax.random.key(0), both, m)
    with pytest.raises(ValueError, match="has no reportings"):
        privatize_graph(jax.random.key(0), split.private, m, reporting="half")
    for wrong in (0.0, -1.0, float("nan"), float("inf"), 1e9):
        with pytest.raises(ValueError, match=r"epsilon\w* must be|must be finite"):
            MECHANISMS[name](wrong)


def test_a_chain_is_over_the_edges_that_it_may_see():
    split = random_split(30, 50, 25, 0, HIDDEN)
    pairs = split.pairs()
    for m, private in ((EdgeRR(1.0, 1.0), 25), (PublicHRG(1.0), 0)):
        edges = m.seen(pairs)
        assert np.bincount(edges.kind, minlength=3)[:2].tolist() == [len(pairs.public), private]
        ends = np.asarray(edges.ends)[:, np.asarray(edges.kind) == 0].T
        np.testing.assert_array_equal(np.sort(pairs.codes(ends)), pairs.public)


def test_a_split_refuses_what_it_cannot_be_without_naming_an_edge(untyped):
    public, private = graphs.from_edges([[0, 1]], 4), graphs.from_edges([[2, 3]], 4)
    some = np.array([True, True, True, False])
    for make, said in (
        (
            lambda: EdgeSplit(public, private, some),
            "private_nodes must hold both ends of every private edge",
        ),
        (lambda: EdgeSplit(public, private, np.ones(3, bool)), r"private_nodes must be bool \[4\]"),
        (lambda: EdgeSplit(public, private, np.ones(4)), r"private_nodes must be bool \[4\]"),
        (lambda: EdgeSplit(private, private), "no edge in common"),
        (
            lambda: EdgeSplit(graphs.from_edges([], 5), private),
            "must have the same nodes, got 5 and 4",
        ),
        (lambda: EdgeSplit(public, graphs.directed([2], [3], 4)), "private must be undirected"),
        (
            lambda: EdgeSplit(public, graphs.directed([9, 1], [1, 9], 4)),
            "private must be undirected",
        ),
    ):
        with pytest.raises(ValueError, match=said) as error:
            make()
        assert not re.search(r"\b[239]\b(?!,\))", str(error.value))
        assert error.value.__cause__ is None


def test_a_random_split_has_its_share_of_private_edges(untyped):
    graph = random_split(30, 0, 200, 0).private
    split = split_edges(jax.random.key(0), graph, 0.2)
    parts = [codes(graphs.to_edges(part)) for part in (split.public, split.private)]
    assert [len(part) for part in parts] == [160, 40]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), codes(graphs.to_edges(graph)))
    other = split_edges(jax.random.key(1), graph, 0.2)
    assert not np.array_equal(codes(graphs.to_edges(other.private)), parts[1])
    for rho in (0.0, 1.0, -0.1, 2.0, float("nan"), True):
        with pytest.raises(ValueError, match="rho must be"):
            split_edges(jax.random.key(0), graph, rho)


def test_places_and_codes_are_inverse():
    split = random_split(30, 50, 25, 0, HIDDEN)
    pairs = split.pairs()
    np.testing.assert_array_equal(pairs.nodes, np.flatnonzero(HIDDEN))
    np.testing.assert_array_equal(
        codes(pairs.ids(pairs.private)), codes(graphs.to_edges(split.private))
    )
    np.testing.assert_array_equal(pairs.codes(pairs.places(pairs.public)[:, ::-1]), pairs.public)
    public = graphs.to_edges(split.public)
    assert len(pairs.public) == HIDDEN[public].all(1).sum()
    assert pairs.candidates == 24 * 23 // 2 - len(pairs.public)


def test_names_of_version_02_say_what_to_write():
    for name in curators.__all__:
        with pytest.warns(DeprecationWarning, match=f"ldp_jax.curators.{name} now"):
            assert getattr(ldp_jax.edges.curator, name) is getattr(curators, name)
    with pytest.raises(AttributeError, match="nothing"):
        ldp_jax.edges.curator.nothing  # noqa: B018
