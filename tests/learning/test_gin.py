"""GIN-0: against a naive dense one in NumPy, and blind to everything but the graph."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import optax
import pytest
from scipy import special

from ldp_jax.graph.packing import from_graphs, whole
from ldp_jax.learning.models import gin
from ldp_jax.learning.models.gin import _NormReLU
from tests.graph.test_packing import many_graphs

MODEL, WITHOUT_DROPOUT = (
    gin(layers=3, hidden=6, outputs=3, dropout=rate, mlp_layers=1) for rate in (0.5, 0.0)
)


@cache
def trained(model=MODEL, directed=True):
    """Parameters of both signs and statistics, none of them those of the start."""
    shapes = jax.eval_shape(model.init, jax.random.key(0), whole(many_graphs(directed=directed)))
    rng = np.random.default_rng(0)
    signs = lambda leaf: np.where(np.arange(leaf.size) % 2, 1.0, -0.7).reshape(leaf.shape)
    moved = jax.tree.map(
        lambda leaf: np.abs(rng.normal(0.5, 0.5, leaf.shape)).astype(np.float32) + 0.1, shapes
    )
    mixed = jax.tree.map(lambda leaf: np.float32(signs(leaf)) * leaf, moved["params"])
    return jax.tree.map(jnp.asarray, {"params": mixed, "batch_stats": moved["batch_stats"]})


@partial(jax.jit, static_argnums=2)
def evaluate(variables, batch, model=MODEL):
    return model.apply(variables, batch, key=None, train=False)[0]


certain = jax.jit(
    lambda variables, batch: WITHOUT_DROPOUT.apply(
        variables, batch, key=jax.random.key(0), train=True
    )
)
"""Training mode without dropout: (outputs, variables)."""


def naive(variables, graph_set, *, layers=3, mlp_layers=1, train=False):
    """The same network by dense matrices in float64, graph after graph; batch norm over all nodes
    if ``train``.
    """
    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), variables)
    n = len(graph_set.node_graph)
    graphs = len(graph_set)
    adjacency = np.zeros((n, n))
    adjacency[graph_set.receivers, graph_set.senders] = 1.0
    mean = np.zeros((graphs, n))
    mean[graph_set.node_graph, np.arange(n)] = 1.0 / graph_set.nodes_per_graph[graph_set.node_graph]
    dense = iter(range(100))
    norm = iter(range(100))

    def linear(h):
        layer = params["params"][f"Dense_{next(dense)}"]
        return h @ layer["kernel"] + layer.get("bias", 0.0)

    def normalise(h):
        name = f"_NormReLU_{next(norm)}"
        layer, kept = params["params"][name], params["batch_stats"][name]
        centre, spread = (h.mean(0), h.var(0)) if train else (kept["mean"], kept["var"])
        return (h - centre) / np.sqrt(spread + 1e-5) * layer["scale"] + layer["bias"]

    h = np.ones((n, 1))
    scores = linear(mean @ h)
    for _ in range(layers - 1):
        h = h + adjacency @ h
        for _ in range(mlp_layers):
            h = np.maximum(normalise(linear(h)), 0)
        scores = scores + linear(mean @ h)
    return scores


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize(("directed", "layers", "mlp_layers"), [(True, 3, 1), (False, 2, 2)])
def test_equals_a_naive_dense_network(directed, layers, mlp_layers):
    graph_set = many_graphs(directed=directed)
    model = gin(layers, 6, 3, 0.5, mlp_layers)
    variables = trained(model, directed)
    wanted = naive(variables, graph_set, layers=layers, mlp_layers=mlp_layers)
    got = evaluate(variables, whole(graph_set), model)
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())


def test_what_jraph_pads_with_contributes_nothing():
    """Neither to the readout, nor to batch norm, nor to a masked loss and its gradient: the naive
    one's.

    A tuple as jraph.batch makes it is its packed form, in any order of edges.
    """
    graph_set = many_graphs()
    variables = trained()
    more = (7, 5, 3)
    bare = jraph.batch_np([graph_set.subset([i]).graph for i in range(len(graph_set))])
    order = np.random.default_rng(0).permutation(len(bare.senders))
    bare = bare._replace(senders=bare.senders[order], receivers=bare.receivers[order])
    batch = bare._replace(nodes=np.zeros((len(graph_set.node_graph), 1), np.float32))
    # What is not traced may be without nodes: n_node says how many.
    jax.tree.map(np.testing.assert_array_equal, from_graphs(bare), from_graphs(batch))
    sizes = len(graph_set.node_graph), len(graph_set.senders), len(graph_set)
    padded = jraph.pad_with_graphs(
        batch, *(size + extra for size, extra in zip(sizes, more, strict=True))
    )
    labels = np.append(graph_set.labels, np.full(more[2], 2))

    @jax.jit
    def evaluated(params, made):
        def loss(params):
            outputs, changed = certain({**variables, "params": params}, made)
            each = optax.softmax_cross_entropy_with_integer_labels(outputs, made.labels)
            return jnp.where(made.graph_mask, each, 0.0).sum(), (outputs, changed["batch_stats"])

        return jax.value_and_grad(loss, has_aux=True)(params)

    found, gradient = evaluated(variables["params"], from_graphs(padded, labels, padded=True))
    value, (outputs, statistics) = found
    wanted, changed = certain(variables, whole(graph_set))
    close(outputs[: len(graph_set)], wanted)
    jax.tree.map(close, statistics, changed["batch_stats"])
    rng = np.random.default_rng(1)
    direction = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), gradient)

    def moved(step):
        there = lambda leaf, dot: np.asarray(leaf, float) + step * dot
        params = jax.tree.map(there, variables["params"], direction)
        scores = naive({**variables, "params": params}, graph_set, train=True)
        return (
            special.logsumexp(scores, axis=1) - scores[np.arange(len(graph_set)), graph_set.labels]
        ).sum()

    assert value == pytest.approx(moved(0.0), rel=1e-3)
    along = jax.tree.map(lambda leaf, dot: (leaf * dot).sum(), gradient, direction)
    assert sum(jax.tree.leaves(along)) == pytest.approx(
        (moved(1e-6) - moved(-1e-6)) / 2e-6, rel=1e-3
    )
    # Where nothing says that the padding is none, it has outputs.
    close(evaluate(variables, padded)[: len(graph_set)], evaluate(variables, whole(graph_set)))
    assert len(evaluate(variables, padded)) == len(labels)


def test_a_traced_tuple_says_how_many_nodes_it_has():
    graph = many_graphs().graph
    with pytest.raises(ValueError, match="graph must have nodes where it is traced"):
        evaluate(trained(), graph)


def test_batch_norm_of_nobody_is_finite():
    rows = jnp.full((5, 4), 1e6)
    nobody = jnp.zeros(5)
    made, _ = _NormReLU().init_with_output(jax.random.key(0), rows, nobody, True)
    assert np.isfinite(made).all()


def test_running_statistics_are_the_naive_recursion():
    """As PyTorch keeps them, from any start: 0.9 of what was, and the mean and the unbiased
    variance of the nodes.

    Rows that stand for no node count for nothing, and those of several nodes as often.
    """
    rng = np.random.default_rng(3)
    norm = _NormReLU()
    step = jax.jit(
        lambda kept, rows, count: norm.apply(kept, rows, count, True, mutable=["batch_stats"])
    )
    moved = {"mean": jnp.float32([3.0, -2.0]), "var": jnp.float32([0.2, 7.0])}
    params = {"scale": jnp.ones(2), "bias": jnp.zeros(2)}
    mean, variance = (np.asarray(moved[name], float) for name in ("mean", "var"))
    for _ in range(4):
        rows = rng.normal(1.0, 2.0, (6, 2))
        count = rng.permutation([0, 0, 1, 1, 2, 3])
        _, changed = step(
            {"params": params, "batch_stats": moved}, np.float32(rows), np.float32(count)
        )
        moved = changed["batch_stats"]
        nodes = np.repeat(rows, count, 0)
        mean = 0.9 * mean + 0.1 * nodes.mean(0)
        variance = 0.9 * variance + 0.1 * nodes.var(0, ddof=1)
        np.testing.assert_allclose(moved["mean"], mean, rtol=1e-5)
        np.testing.assert_allclose(moved["var"], variance, rtol=1e-5)
    _, changed = step(
        {"params": params, "batch_stats": moved}, np.float32(rows), np.float32([1, 0, 0, 0, 0, 0])
    )
    np.testing.assert_allclose(
        changed["batch_stats"]["var"], 0.9 * variance, rtol=1e-5
    )  # of one node: none


def test_dropout_is_keyed_and_only_in_training():
    batch = whole(many_graphs())
    variables = trained()
    apply = jax.jit(lambda key: MODEL.apply(variables, batch, key=key, train=True)[0])
    first, second, again = (apply(jax.random.key(seed)) for seed in (0, 1, 0))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, second)
