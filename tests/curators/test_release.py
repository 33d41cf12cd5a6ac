"""What a curator is given, releases and refuses: all mechanisms alike."""

import jax
import networkx as nx
import numpy as np
import pytest

import ldp_jax
from ldp_jax import curators
from ldp_jax.accounting.guarantee import EDGE_CENTRAL
from ldp_jax.curators import (
    BinnedPairs,
    EdgeRR,
    EdgeSplit,
    PublicHRG,
    hrg,
    release,
    split_edges,
)
from ldp_jax.curators.release import ADJACENCY
from ldp_jax.edges import HasGraphSampler
from ldp_jax.graph import graphs
from ldp_jax.servers import privatize_graph
from tests.curators.data import HIDDEN, MECHANISMS, every_mechanism, random_split


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
    edges = graphs.to_edges(noisy.graph)
    public = graphs.to_edges(split.public)
    found = codes(edges)
    assert len(np.unique(found)) == len(found)
    assert np.isin(codes(public), found).all()
    joined = np.setdiff1d(found, codes(public))
    assert len(joined)
    assert HIDDEN[np.stack(np.divmod(joined, 30))].all()
    assert np.isnan(noisy.degree).all()
    unasked = draw(0)
    np.testing.assert_array_equal(graphs.to_edges(unasked.graph), edges)
    assert not np.array_equal(graphs.to_edges(draw(1).graph), edges)

    spent = noisy.guarantee[EDGE_CENTRAL]
    assert (spent.trust, spent.adjacency, spent.delta) == ("central", ADJACENCY, 0.0)
    claims = {"EdgeRR": (4.0, "in the limit"), "PrivHRG": (4.0, "in the limit")}
    claims["EdgeRR, as published"] = (np.inf, "none")
    assert (spent.epsilon, spent.status) == claims.get(name, (4.0, "proved"))
    if name in claims:  # without a look nothing is claimed
        assert unasked.guarantee[EDGE_CENTRAL].status == "none"
    assert {"public edges", "private nodes"} <= set(noisy.guarantee.unprotected)


@every_mechanism
def test_privatize_graph_is_the_case_of_private_edges_alone(name):
    """Edges of public users stay as they are, and none joins them."""
    m = MECHANISMS[name](4.0)
    assert isinstance(m, HasGraphSampler)
    graph = random_split(30, 0, 60, 1).private
    noisy = privatize_graph(jax.random.key(0), graph, m, public=~HIDDEN)
    true = graphs.to_edges(graph)
    found = graphs.to_edges(noisy.graph)
    inside = HIDDEN[true].all(1)
    shown = found[~HIDDEN[found].all(1)]
    np.testing.assert_array_equal(codes(shown), codes(true[~inside]))
    parts = (graphs.from_edges(true[at], 30, pairs_in="rows") for at in (~inside, inside))
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


def test_a_chain_is_over_the_edges_that_it_may_see():
    split = random_split(30, 50, 25, 0, HIDDEN)
    pairs = split.pairs()
    for m, private in ((EdgeRR(1.0, 1.0), 25), (PublicHRG(1.0), 0)):
        edges = m.seen(pairs)
        assert np.bincount(edges.kind, minlength=3)[:2].tolist() == [len(pairs.public), private]
        ends = np.asarray(edges.ends)[:, np.asarray(edges.kind) == 0].T
        np.testing.assert_array_equal(np.sort(pairs.codes(ends)), pairs.public)


def test_a_split_of_another_librarys_graphs_is_one_of_this_librarys():
    """Common neighbours were asked of networkx, which has no senders."""
    known = nx.empty_graph(6)
    known.add_edges_from([(0, 1), (1, 2)])
    hidden = nx.empty_graph(6)
    hidden.add_edge(3, 4)
    split = EdgeSplit(known, hidden)
    assert repr(split) == "EdgeSplit(6 nodes, 2 public edges; private edges between 6 of them)"
    release(jax.random.key(0), split, BinnedPairs(1.0))


def test_a_random_split_has_its_share_of_private_edges(untyped):
    graph = random_split(30, 0, 200, 0).private
    split = split_edges(jax.random.key(0), graph, 0.2)
    parts = [codes(graphs.to_edges(part)) for part in (split.public, split.private)]
    assert [len(part) for part in parts] == [160, 40]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), codes(graphs.to_edges(graph)))
    other = split_edges(jax.random.key(1), graph, 0.2)
    assert not np.array_equal(codes(graphs.to_edges(other.private)), parts[1])


def test_names_of_version_02_say_what_to_write():
    for name in curators.__all__:
        with pytest.warns(DeprecationWarning, match=f"ldp_jax.curators.{name} now"):
            assert getattr(ldp_jax.edges.curator, name) is getattr(curators, name)
    with pytest.raises(AttributeError, match="nothing"):
        ldp_jax.edges.curator.nothing  # noqa: B018


def test_a_share_of_private_edges_is_rounded_to_the_nearest_number():
    for m, rho in ((7, 0.25), (11, 0.2), (13, 0.35), (10, 0.28), (10, 0.99), (6, 0.6), (9, 0.1)):
        path = graphs.from_edges([[i, i + 1] for i in range(m)], m + 1, pairs_in="rows")
        split = split_edges(jax.random.key(0), path, rho)
        assert len(graphs.to_edges(split.private)) == round(rho * m)
