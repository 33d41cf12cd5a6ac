"""GIN-0: against a naive dense one in NumPy, and blind to everything but the graph."""

from functools import cache

import flax.linen as nn
import jax
import jax.flatten_util
import jax.numpy as jnp
import jraph
import numpy as np
import optax
import pytest

from ldp_jax.graph.packing import assemble, deal, from_graphs, pack, whole
from ldp_jax.learning.models import gin
from ldp_jax.learning.models.gin import _MaskedNormReLU, _normalised
from tests.graph.test_packing import many_graphs

MODEL = gin(layers=3, hidden=6, outputs=3, dropout=0.5)
WITHOUT_DROPOUT = gin(layers=3, hidden=6, outputs=3, dropout=0.0)


@cache
def trained(directed=True):
    """Parameters and statistics that are not those of the start."""
    variables = jax.jit(MODEL.init)(jax.random.key(0), whole(many_graphs(directed=directed)))
    leaves, structure = jax.tree.flatten(variables)
    keys = jax.random.split(jax.random.key(1), len(leaves))

    def move(leaf, key):
        return jnp.abs(leaf + 0.3 * jax.random.normal(key, leaf.shape)) + 0.1

    def mix(leaf):
        return leaf * jnp.where(jnp.arange(leaf.size).reshape(leaf.shape) % 2, 1.0, -0.7)

    moved = jax.tree.unflatten(structure, list(map(move, leaves, keys)))
    return {"params": jax.tree.map(mix, moved["params"]), "batch_stats": moved["batch_stats"]}


evaluate = jax.jit(lambda variables, batch: MODEL.apply(variables, batch, key=None, train=False)[0])
certain = jax.jit(
    lambda variables, batch: WITHOUT_DROPOUT.apply(variables, batch, key=jax.random.key(0), train=True)
)
"""Training mode without dropout: (outputs, variables)."""


def naive(variables, graph_set, *, train=False):
    """The same network by dense matrices in float64, graph after graph; batch norm over all nodes if ``train``."""
    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), variables)
    n, graphs = len(graph_set.node_graph), len(graph_set)
    adjacency = np.zeros((n, n))
    adjacency[graph_set.receivers, graph_set.senders] = 1.0
    mean = np.zeros((graphs, n))
    mean[graph_set.node_graph, np.arange(n)] = 1.0 / graph_set.nodes_per_graph[graph_set.node_graph]
    dense, norm = iter(range(100)), iter(range(100))

    def linear(h):
        layer = params["params"][f"Dense_{next(dense)}"]
        return h @ layer["kernel"] + layer.get("bias", 0.0)

    def normalise(h):
        name = f"_MaskedNormReLU_{next(norm)}"
        layer, kept = params["params"][name], params["batch_stats"][name]
        centre, spread = (h.mean(0), h.var(0)) if train else (kept["mean"], kept["var"])
        return (h - centre) / np.sqrt(spread + 1e-5) * layer["scale"] + layer["bias"]

    h = np.ones((n, 1))
    scores = linear(mean @ h)
    for _ in range(2):
        h = h + adjacency @ h
        h = np.maximum(normalise(linear(h)), 0)
        h = np.maximum(normalise(linear(h)), 0)
        scores = scores + linear(mean @ h)
    return scores


@pytest.mark.parametrize("directed", [True, False])
def test_equals_a_naive_dense_network(directed):
    graph_set, variables = many_graphs(directed=directed), trained(directed)
    wanted = naive(variables, graph_set)
    got = evaluate(variables, whole(graph_set))
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())


def test_speaks_jraph():
    """A tuple as jraph.batch makes it is its packed form, in any order of edges, in both modes, traced or not."""
    graph_set, variables = many_graphs(), trained()
    tuples = [graph_set.subset([i]).graph for i in range(len(graph_set))]
    batch, packed = jraph.batch_np(tuples), whole(graph_set)
    order = np.random.default_rng(0).permutation(len(batch.senders))
    ends = {"senders": batch.senders[order], "receivers": batch.receivers[order]}
    mixed = batch._replace(nodes=np.zeros((len(graph_set.node_graph), 1)), **ends)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max())
    for mode in (evaluate, certain):
        jax.tree.map(close, mode(variables, mixed), mode(variables, packed))
    eagerly = MODEL.apply(variables, batch, key=None, train=False)[0]  # without nodes: n_node says how many
    close(eagerly, evaluate(variables, packed))


def test_what_jraph_pads_with_contributes_nothing():
    """Neither to the readout, nor to batch norm, nor to a masked loss and its gradient."""
    graph_set, variables, more = many_graphs(), trained(), (7, 5, 3)
    batch = graph_set.graph._replace(nodes=np.zeros((len(graph_set.node_graph), 1), np.float32))
    sizes = len(graph_set.node_graph), len(graph_set.senders), len(graph_set)
    padded = jraph.pad_with_graphs(batch, *(size + extra for size, extra in zip(sizes, more, strict=True)))
    labels = np.append(graph_set.labels, np.full(more[2], 2))

    @jax.jit
    def loss(params, made):
        outputs, changed = WITHOUT_DROPOUT.apply(
            {**variables, "params": params}, made, key=jax.random.key(0), train=True
        )
        each = optax.softmax_cross_entropy_with_integer_labels(outputs, made.labels)
        return jnp.where(made.graph_mask, each, 0.0).sum(), (outputs, changed["batch_stats"])

    found, expected = (
        jax.value_and_grad(loss, has_aux=True)(variables["params"], made)
        for made in (from_graphs(padded, labels, padded=True), whole(graph_set))
    )
    (value, (outputs, statistics)), gradient = found
    (wanted, (wanted_outputs, wanted_statistics)), wanted_gradient = expected
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * np.abs(b).max())
    close(value, wanted)
    close(outputs[: len(graph_set)], wanted_outputs)
    jax.tree.map(close, statistics, wanted_statistics)
    # Batch norm takes the scale out of the first layers, whose gradients are rounding: all leaves together.
    ours, theirs = (jax.flatten_util.ravel_pytree(tree)[0] for tree in (gradient, wanted_gradient))
    assert np.linalg.norm(ours - theirs) <= 1e-3 * np.linalg.norm(theirs)
    unmarked = evaluate(variables, padded)  # nothing says that the padding is none
    assert len(unmarked) == len(graph_set) + more[2]


def test_a_traced_tuple_says_how_many_nodes_it_has():
    graph = many_graphs().graph
    with pytest.raises(ValueError, match="graph must have nodes where it is traced"):
        evaluate(trained(), graph)


def test_neither_company_nor_padding_matters_where_nothing_is_learned():
    graph_set = many_graphs()
    alone = np.asarray(evaluate(trained(), whole(graph_set)))
    packed = pack(graph_set, 8, shapes=1)
    (shape,), (dealt,) = packed.shapes, deal(packed, jax.random.key(3))
    room = shape._replace(nodes=shape.nodes + 9, edges=shape.edges + 5, rows=shape.rows + 3)
    for wider in (shape, room):
        for graphs in np.asarray(dealt)[:2]:
            real = graphs < len(graph_set)
            got = np.asarray(evaluate(trained(), assemble(packed, graphs, wider)))[real]
            np.testing.assert_allclose(got, alone[graphs[real]], rtol=1e-4, atol=1e-4 * np.abs(alone).max())


def padded_and_not(seed=0):
    graph_set = many_graphs(seed=seed)
    packed = pack(graph_set, len(graph_set))
    shape = packed.shapes[0]
    wide = shape._replace(nodes=shape.nodes + 37, rows=shape.rows + 5, rows_out=shape.rows_out + 7)
    graphs = np.arange(len(graph_set))
    spare = np.append(graphs, [len(graph_set)] * 3)
    return graph_set, assemble(packed, graphs, shape), assemble(packed, spare, wide._replace(graphs=len(spare)))


def test_training_mode_takes_its_statistics_over_real_nodes():
    """Equal to the naive network's batch norm over all nodes, padded or not."""
    graph_set, plain, padded = padded_and_not()
    results = [certain(trained(), batch) for batch in (plain, padded)]
    wanted = naive(trained(), graph_set, train=True)
    for outputs, _ in results:
        np.testing.assert_allclose(outputs[: len(graph_set)], wanted, rtol=1e-3, atol=1e-3)
    one, two = (changed["batch_stats"] for _, changed in results)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), one, two)


def test_masked_batch_norm_is_that_of_its_rows():
    rows = 3 + 2 * jax.random.normal(jax.random.key(0), (50, 4))
    mask = jnp.arange(50) % 3 != 0
    norm, plain = _MaskedNormReLU(), nn.BatchNorm(use_running_average=False, momentum=0.9, epsilon=1e-5)
    variables = norm.init(jax.random.key(1), rows, mask, False)
    junk = jnp.where(mask[:, None], rows, 1e6)
    got, changed = norm.apply(variables, junk, mask, True, mutable=["batch_stats"])
    wanted, kept = plain.apply(plain.init(jax.random.key(1), rows[mask]), rows[mask], mutable=["batch_stats"])
    np.testing.assert_allclose(got[mask], nn.relu(wanted), atol=1e-5)
    for name in ("mean", "var"):
        np.testing.assert_allclose(changed["batch_stats"][name], kept["batch_stats"][name], rtol=1e-5)
    nobody, _ = norm.apply(variables, junk, jnp.zeros(50, bool), True, mutable=["batch_stats"])
    assert np.isfinite(got).all()
    assert np.isfinite(nobody).all()


def test_the_derivative_of_batch_norm_is_that_of_autodiff():
    rows, cotangent = jax.random.normal(jax.random.key(0), (2, 40, 3))
    weight = (jnp.arange(40) % 4 != 0) / 30.0  # every fourth row is padding
    scale, bias = jnp.array([0.5, -1.0, 2.0]), jnp.array([0.1, 0.2, -0.3])

    def by_jax(rows, scale, bias):
        mean = weight @ rows
        variance = weight @ (rows - mean) ** 2
        return (jax.nn.relu((rows - mean) / jnp.sqrt(variance + 1e-5) * scale + bias) * cotangent).sum()

    def by_hand(rows, scale, bias):
        return (_normalised(rows, weight, scale, bias)[0] * cotangent).sum()

    wanted, got = (jax.grad(function, (0, 1, 2))(rows, scale, bias) for function in (by_jax, by_hand))
    for one, two in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-4)


def test_dropout_is_keyed_and_only_in_training():
    batch = whole(many_graphs())
    apply = jax.jit(lambda key: MODEL.apply(trained(), batch, key=key, train=True)[0])
    first, second, again = (apply(jax.random.key(seed)) for seed in (0, 1, 0))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, second)
