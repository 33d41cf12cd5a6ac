"""Sets of graphs in static shapes: nothing lost, masks, waste, sums of neighbours and their
gradients.
"""

import dataclasses
import os
from functools import cache

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import pytest
from scipy import stats

from ldp_jax import datasets
from ldp_jax.graph import packing
from ldp_jax.graph.merging import merged
from ldp_jax.graph.packing import GraphSet, assemble, deal, pack


def waste(packed, graph_set):
    """The share of padding in the places of an epoch, for nodes and for edges, of the merged
    set.
    """
    found = merged(graph_set)
    real = len(found.node_graph), len(found.senders)
    return 1 - real / np.sum([shape.batches * np.array(shape[2:4]) for shape in packed.shapes], 0)


@cache
def many_graphs(count=45, directed=True, seed=0):
    """Graphs of 1 to 40 nodes, sparse to dense, some without edges, one with a hub; labels 0, 1,
    2.
    """
    rng = np.random.default_rng(seed)
    senders = []
    receivers = []
    node_graph = []
    start = 0
    for graph in range(count):
        n = 1 if graph == 3 else 60 if graph == 7 else int(rng.integers(1, 41))
        present = rng.random((n, n)) < (0.0 if graph in (5, 11) else rng.choice([0.05, 0.2, 0.6]))
        if graph == 7:
            present[0] = present[:, 0] = True  # many rows of further neighbours
        if not directed:
            present = present | present.T
        np.fill_diagonal(present, False)
        s, r = np.nonzero(present)
        senders.append(s + start)
        receivers.append(r + start)
        node_graph.append(np.full(n, graph))
        start += n
    labels = rng.integers(0, 3, count)
    shuffle = rng.permutation(sum(map(len, senders)))
    ends = (np.concatenate(part)[shuffle] for part in (senders, receivers))
    return GraphSet.from_edges(*ends, np.concatenate(node_graph), labels)


def local_edges(graph_set, graph):
    """The edges of one graph, nodes numbered from 0 within it; a set of (sender, receiver)."""
    nodes = np.flatnonzero(graph_set.node_graph == graph)
    ends = np.stack([graph_set.senders, graph_set.receivers], 1)
    return set(map(tuple, (ends[np.isin(graph_set.receivers, nodes)] - nodes[0]).tolist()))


def batch_adjacency(batch, nodes):
    """A[v, u] = how often u is a sender to v; also from the reversed edges."""

    def dense(rows):
        found = np.zeros((nodes + 1, nodes + 1))
        for table, owner in ((rows.first, np.arange(nodes)), (rows.more, np.asarray(rows.node))):
            for row in np.asarray(table):
                np.add.at(found, (owner, row), 1)
        return found[:nodes, :nodes]

    return dense(batch.into), dense(batch.into if batch.out is None else batch.out)


def test_an_epoch_holds_every_graph_and_every_edge_once():
    # some are left over
    graph_set = many_graphs()
    batch_size = 7
    packed = pack(graph_set, batch_size, merge=False)
    assert len(packed.shapes) == 2
    assert sum(shape.batches for shape in packed.shapes) == -(-len(graph_set) // batch_size)
    dealt = deal(packed, jax.random.key(batch_size))
    numbers = np.concatenate([np.ravel(part) for part in dealt])
    assert sorted(numbers[numbers < len(graph_set)]) == list(range(len(graph_set)))
    for shape, part in zip(packed.shapes, dealt, strict=True):
        assert part.shape == (shape.batches, shape.graphs)
        assert shape.graphs <= batch_size
        for graphs in np.asarray(part):
            batch = assemble(packed, graphs, shape)
            into, reversed_out = batch_adjacency(batch, shape.nodes)
            np.testing.assert_array_equal(into, reversed_out.T)
            expected = np.zeros_like(into)
            batch = jax.tree.map(np.asarray, batch)  # looked at piece by piece
            start = 0
            for place, graph in enumerate(graphs):
                real = graph < len(graph_set)
                size = int(graph_set.nodes_per_graph[graph]) if real else 0
                assert batch.graph_mask[place] == real
                assert batch.nodes_per_graph[place] == size
                if real:
                    assert batch.labels[place] == graph_set.labels[graph]
                    for u, v in local_edges(graph_set, graph):
                        expected[start + v, start + u] = 1
                np.testing.assert_array_equal(batch.node_graph[start : start + size], place)
                start += size
            np.testing.assert_array_equal(into, expected)
            np.testing.assert_array_equal(batch.node_count, np.arange(shape.nodes) < start)
            np.testing.assert_array_equal(batch.node_graph[start:], shape.graphs)


def test_each_partner_of_another_stratum_is_as_likely():
    """G test, 2000 epochs: which of the graphs of stratum 2 joins each of stratum 1; significance
    1e-6.
    """
    packed = pack(many_graphs(24), 4, shapes=1)
    every = jax.vmap(lambda key: deal(packed, key)[0])(jax.random.split(jax.random.key(1), 2000))
    counts = np.zeros((25, 25))
    strata = np.asarray(packed.strata)
    np.add.at(counts, tuple(np.asarray(every)[..., 1:3].reshape(-1, 2).T), 1)
    table = counts[np.ix_(strata[1], strata[2])]
    assert table.sum() == 2000 * 6  # one graph of each stratum, in its place
    # Draws that do not fit are drawn again: that bends the law a little, so the test has a margin
    # of 2 %.
    expected = 2000 / 6
    statistic = (np.maximum(np.abs(table - expected) - 0.02 * expected, 0) ** 2 / expected).sum()
    assert stats.chi2.sf(statistic, 25) > 1e-6


def test_every_deal_fits_and_the_deal_by_size_is_the_last_resort(monkeypatch):
    """A set whose nodes and edges disagree: many deals do not fit; what comes out always does."""
    packed = pack(many_graphs(), 5, shapes=3)
    room = [np.array(shape[1:6]) for shape in packed.shapes]
    sizes = np.asarray(packed.sizes)
    every = jax.vmap(lambda key: deal(packed, key))(jax.random.split(jax.random.key(2), 300))
    for part, most in zip(every, room, strict=True):
        assert (sizes[np.asarray(part)].sum(2) <= most).all()
    as_sized = [
        (got == by_size).all((1, 2)) for got, by_size in zip(every, deal(packed), strict=True)
    ]
    assert np.mean(np.all(as_sized, 0)) < 0.1  # what does not fit is drawn again
    # With room for nothing at all, every draw fails.
    full = dataclasses.replace(packed, room=0 * packed.room)
    for got, by_size in zip(deal(full, jax.random.key(0)), deal(packed), strict=True):
        np.testing.assert_array_equal(got, by_size)


def one_batch(graph_set, batch_size=7, merge=True):
    packed = pack(graph_set, batch_size, merge=merge)
    dealt = deal(packed, jax.random.key(5))
    return assemble(packed, dealt[-1][-1], packed.shapes[-1]), packed.shapes[-1].nodes


@pytest.mark.parametrize("directed", [True, False])
def test_sums_of_neighbours_and_their_gradient_are_those_of_the_dense_product(directed):
    batch, nodes = one_batch(many_graphs(directed=directed), merge=False)
    assert (batch.out is None) == (not directed)
    adjacency = batch_adjacency(batch, nodes)[0]
    h, weight = (
        np.random.default_rng(0).normal(size=(2, nodes, 5)).astype(np.float32)
    )  # padding holds junk, too

    @jax.jit
    def both(h, batch):
        total, back = jax.vjp(batch.sum_neighbours, h)
        return total, back(jnp.cos(total) * weight)[0]

    total, gradient = both(h, batch)
    np.testing.assert_allclose(total, adjacency @ h, atol=1e-4)
    np.testing.assert_array_equal(np.asarray(total)[np.asarray(batch.node_count) == 0], 0.0)
    np.testing.assert_allclose(gradient, adjacency.T @ (np.cos(adjacency @ h) * weight), atol=1e-3)


def test_means_over_graphs_and_their_gradient():
    batch, nodes = one_batch(many_graphs())
    count = np.asarray(batch.node_count)
    member = (
        np.asarray(batch.node_graph)[None, :] == np.arange(len(batch.labels))[:, None]
    ) * count
    mean = member / np.maximum(member.sum(1, keepdims=True), 1)
    h = np.random.default_rng(2).normal(size=(nodes, 3)).astype(np.float32)

    @jax.jit
    def both(h, batch):
        found, back = jax.vjp(batch.mean_nodes, h)
        return found, back(jnp.cos(found))[0]

    found, gradient = both(h, batch)
    assert {0.0, 1.0} < set(count)  # padding, and nodes of several
    np.testing.assert_array_equal(member.sum(1), batch.nodes_per_graph)
    np.testing.assert_allclose(found, mean @ h, atol=1e-5)
    np.testing.assert_allclose(gradient, mean.T @ np.cos(mean @ h), atol=1e-5)


def test_graphs_without_edges_and_single_nodes():
    batch = packing.whole(GraphSet.from_edges([], [], [0, 0, 1], [0, 1]))
    assert batch.node_count.tolist() == [2, 1]
    h = jnp.ones((2, 2))
    (total, mean), back = jax.jit(
        lambda h: jax.vjp(lambda h: (batch.sum_neighbours(h), batch.mean_nodes(h)), h)
    )(h)
    np.testing.assert_array_equal(total, 0.0)
    np.testing.assert_array_equal(mean, 1.0)
    np.testing.assert_array_equal(back((total + 1.0, mean))[0][:, 0], [1.0, 1.0])  # of the sums 0
    one = pack(GraphSet.from_edges([], [], [0], [0]), 64)
    assert one.shapes == ((1, 1, 1, 0, 0, 0, None),)


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["reddit_binary", "deezer_ego_nets", "reddit10k"])
@pytest.mark.parametrize("batch_size", [32, 64])
def test_less_than_a_quarter_of_the_edges_is_padding(name, batch_size):
    if not os.environ.get("LDP_JAX_DATA"):
        pytest.skip("LDP_JAX_DATA is not set: it names the folder of the benchmark files")
    graph_set = GraphSet.from_dataset(datasets.load(name))
    assert graph_set.symmetric
    training = graph_set.subset(
        np.random.default_rng(0).permutation(len(graph_set))[: 3 * len(graph_set) // 4]
    )
    kept = (
        np.random.default_rng(1).random(len(training.senders)) < 0.5
    )  # as directed as a noisy set
    noisy = GraphSet.from_edges(
        training.senders[kept], training.receivers[kept], training.node_graph, training.labels
    )
    for part in (training, noisy):
        packed = pack(part, batch_size)
        assert len(packed.node_count) < 0.8 * len(part.node_graph)
        nodes, edges = waste(packed, part)
        assert edges < 0.25
        assert nodes < 0.30
        assert len(packed.shapes) <= 2


def test_a_subset_keeps_each_graph_as_it_is():
    graph_set = many_graphs()
    picked = np.random.default_rng(3).permutation(len(graph_set))[:17]
    subset = graph_set.subset(picked)
    checked = GraphSet.from_edges(
        subset.senders, subset.receivers, subset.node_graph, subset.labels
    )
    for name in ("senders", "receivers", "node_graph", "labels"):
        np.testing.assert_array_equal(
            getattr(subset, name), getattr(checked, name), strict=True
        )  # in its order
    np.testing.assert_array_equal(subset.nodes_per_graph, graph_set.nodes_per_graph[picked])
    for new, old in enumerate(picked):
        assert local_edges(subset, new) == local_edges(graph_set, old)
        assert subset.labels[new] == graph_set.labels[old]


def test_edges_of_padding_graphs_are_nobodys():
    """Sums over neighbours are 0 at padding nodes, and so are their derivatives."""
    graph_set = GraphSet.from_edges([1, 0, 2, 1, 4, 3], [0, 1, 1, 2, 3, 4], [0, 0, 0, 1, 1], [0, 1])
    padded = jraph.pad_with_graphs(graph_set.graph, 9, 16, 4)
    batch = packing.from_graphs(padded, padded=True)
    h = jnp.asarray(np.random.default_rng(0).uniform(1.0, 2.0, (9, 2)), jnp.float32)
    wanted = np.zeros((9, 2), np.float32)
    np.add.at(wanted, graph_set.receivers, np.asarray(h)[graph_set.senders])
    np.testing.assert_allclose(batch.sum_neighbours(h), wanted, rtol=1e-6)
    slope = jax.grad(lambda h: (batch.sum_neighbours(h) ** 2).sum())(h)
    assert (np.asarray(slope)[:5] > 0).all()
    assert (np.asarray(slope)[5:] == 0).all()


def test_parts_of_a_set_share_few_shapes():
    """Two halves of a set, and of a noisy one: every graph once an epoch, with its neighbours."""
    whole = many_graphs(60)
    kept = np.random.default_rng(0).random(len(whole.senders)) < 0.9
    noisy = GraphSet.from_edges(
        whole.senders[kept], whole.receivers[kept], whole.node_graph, whole.labels
    )
    halves = np.random.default_rng(1).permutation(60).reshape(2, 30)
    structures = set()
    for like in (whole, noisy):
        for half in halves:
            part = like.subset(half)
            shared = pack(part, 7, like=like)
            (shape,) = shared.shapes
            leaves, structure = jax.tree.flatten(shared)
            structures.add((structure, tuple(leaf.shape for leaf in leaves)))
            (dealt,) = deal(shared, jax.random.key(0))
            assert sorted(np.ravel(dealt)) == list(range(30))
            own = pack(part, 30, shapes=1)
            for graphs in np.asarray(dealt):
                found = batch_adjacency(assemble(shared, graphs, shape), shape.nodes)
                wanted = batch_adjacency(assemble(own, graphs, own.shapes[0]), own.shapes[0].nodes)
                for mine, theirs in zip(found, wanted, strict=True):
                    nodes = min(len(mine), len(theirs))
                    np.testing.assert_array_equal(mine[:nodes, :nodes], theirs[:nodes, :nodes])
                    assert mine.sum() == theirs.sum()
    assert len(structures) <= 2  # of four
    with pytest.raises(ValueError, match="like must be None"):
        pack(whole, 7, like=whole, mesh=jax.make_mesh((1,), ("devices",)))
