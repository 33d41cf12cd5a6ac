"""GAT: against a naive dense one in NumPy, in value and both modes of differentiation, dropout and all."""

import itertools
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import attacks
from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import operator
from ldp_jax.learning.models import NodeInputs, _attention, gat
from tests.stats import assert_share

pytestmark = pytest.mark.usefixtures("quickly_compiled")

N, D, HEADS, WIDTH, OUT = 40, 5, 3, 4, 2
MODEL = gat(2, HEADS, WIDTH, OUT)
RATE = 0.375


@cache
def example():
    """Two nodes without edges, a hub, and degrees between."""
    rng = np.random.default_rng(0)
    every = np.stack(np.triu_indices(N - 2, 1), 1)
    chosen = (rng.random(len(every)) < 0.07) | ((every[:, 0] == 0) & (every[:, 1] < 30))
    return graphs.from_edges(every[chosen], N), jnp.asarray(rng.normal(size=(N, D)), jnp.float32)


def padded(graph):
    """Edges by receiver and padding: one shape for all graphs here."""
    return operator(graph, "segment", places=200)


@cache
def trained():
    variables = jax.jit(MODEL.init)(jax.random.key(0), example())
    keys = iter(jax.random.split(jax.random.key(1), 8))
    return jax.tree.map(lambda leaf: leaf + 0.3 * jax.random.normal(next(keys), leaf.shape), variables)


def dense(graph):
    adjacency = np.eye(N)
    np.add.at(adjacency, (np.asarray(graph.receivers), np.asarray(graph.senders)), 1.0)
    return adjacency


def averaged(adjacency, a, b, h, kept=None):
    """Attention by dense matrices [receivers, senders], one for each head."""
    scores = a[:, None] + b[None]
    scores = np.where(scores > 0, scores, 0.2 * scores)
    scores = np.where(adjacency[..., None] > 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    return np.einsum("ijk,jkf->ikf", weights if kept is None else weights * kept, h)


def naive(variables, graph, x):
    """The network in float64."""
    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), variables["params"])
    h = np.asarray(x, np.float64)
    for layer in range(2):
        h = (h @ params[f"Dense_{layer}"]["kernel"]).reshape(N, *params[f"receiver_{layer}"].shape[:2])
        a, b = ((h * params[f"{end}_{layer}"][..., 0]).sum(-1) for end in ("receiver", "sender"))
        h = averaged(dense(graph), a, b, h)
        if layer:
            return h.mean(1) + params["bias_1"]
        h = h.reshape(N, -1) + params["bias_0"]
        h = np.where(h > 0, h, np.expm1(h))
    raise AssertionError


@jax.jit
def apply(variables, graph, x):
    return MODEL.apply(variables, (graph, x), key=None, train=False)[0]


@jax.jit
def evaluated(variables, x, graph):
    """Outputs, and the gradient of the sum of their sines."""

    def total(variables, x):
        value, _ = MODEL.apply(variables, (graph, x), key=None, train=False)
        return jnp.sin(value).sum(), value

    gradient, value = jax.grad(total, argnums=(0, 1), has_aux=True)(variables, x)
    return value, gradient


def close(got, wanted, error=1e-5):
    np.testing.assert_allclose(got, wanted, atol=error * np.abs(wanted).max())


@cache
def direction():
    rng = np.random.default_rng(2)
    return jax.tree.map(
        lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32), (trained(), example()[1])
    )


def test_equals_a_naive_dense_network_in_every_form_of_the_graph():
    """In value, and in the gradient, whose products with a direction are finite differences of the naive one."""
    graph, x = example()

    def moved(step):
        there = lambda leaf, dot: np.asarray(leaf, np.float64) + step * np.asarray(dot, np.float64)
        variables, rows = jax.tree.map(there, (trained(), x), direction())
        return naive(variables, graph, rows)

    wanted, change = moved(0.0), (moved(1e-6) - moved(-1e-6)) / 2e-6
    value, gradient = evaluated(trained(), x, padded(graph))
    close(value, wanted)
    along = jax.tree.map(lambda g, dot: (np.asarray(g, np.float64) * dot).sum(), gradient, direction())
    assert sum(jax.tree.leaves(along)) == pytest.approx((np.cos(wanted) * change).sum(), rel=1e-4)
    order = np.random.default_rng(1).permutation(len(graph.senders))
    mixed = graph._replace(senders=graph.senders[order], receivers=graph.receivers[order])
    for form in (mixed, operator(graph)):
        close(apply(trained(), form, x), wanted)


def test_a_directed_edge_tells_its_receiver():
    _, x = example()
    graph = graphs.directed([0, 0, 4], [1, 2, 2], N)
    turned = graph._replace(senders=graph.receivers, receivers=graph.senders)
    wanted = naive(trained(), graph, x)
    assert np.abs(wanted - naive(trained(), turned, x)).max() > 0.01
    for form in (graph, operator(graph, allow_directed=True)):
        close(apply(trained(), form, x), wanted)


def test_a_node_without_edges_attends_to_itself_alone():
    _, x = example()
    none = graphs.from_edges(np.zeros((0, 2), np.int32), N)
    value, gradient = evaluated(trained(), x, padded(none))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    for outputs in (value, apply(trained(), operator(none), x)):
        close(outputs, naive(trained(), none, x))


# --- Attention by itself -----------------------------------------------------------------------------------------


@cache
def numbers():
    """Scores far apart: exponentials of them overflow without a shift."""
    rng = np.random.default_rng(4)
    a, b, h = (rng.normal(size=(N, HEADS, *more)).astype(np.float32) for more in ((), (), (WIDTH,)))
    return [jnp.asarray(part) for part in (60 * a, 60 * b, h)]


@jax.jit
def attended(neighbours, a, b, h, seed, moved):
    """The sums, and their derivatives: along ``moved``, and backward from the sum of sines."""
    function = lambda a, b, h: _attention.attend(neighbours, a, b, h, key=jax.random.key(seed), rate=RATE)
    value, tangent = jax.jvp(function, (a, b, h), moved)
    return value, tangent, jax.grad(lambda *args: jnp.sin(function(*args)).sum(), argnums=(0, 1, 2))(a, b, h)


@cache
def kept(seed):
    """What the weights are multiplied by, dense [receiver, sender, head]."""
    words = jax.random.key_data(jax.random.split(jax.random.key(seed), 1))
    receivers, senders = (part.ravel() for part in jnp.indices((N, N)))
    return np.asarray(_attention._kept(words, round(RATE * 2**16), receivers, senders, HEADS)).reshape(N, N, HEADS)


@pytest.mark.parametrize("layout", ["segment", "ell"])
def test_dropout_is_of_weights_after_the_softmax(layout, monkeypatch):
    """The same for the same key in every layout; edges are worked off 9 at a time, the last block not full."""
    monkeypatch.setattr(_attention, "_CACHED", 9 * HEADS * WIDTH)
    graph, _ = example()
    neighbours, given = operator(graph, layout).neighbours, numbers()
    rng = np.random.default_rng(5)
    moved = [jnp.asarray(rng.normal(size=part.shape), jnp.float32) for part in given]

    def at(step):
        parts = (
            np.asarray(p, np.float64) + step * np.asarray(d, np.float64) for p, d in zip(given, moved, strict=True)
        )
        return averaged(dense(graph), *parts, kept(7))

    wanted, change = at(0.0), (at(1e-6) - at(-1e-6)) / 2e-6
    value, tangent, gradient = attended(neighbours, *given, 7, tuple(moved))
    close(value, wanted)
    close(tangent, change, 1e-4)
    along = sum((np.asarray(g, np.float64) * d).sum() for g, d in zip(gradient, moved, strict=True))
    assert along == pytest.approx((np.cos(wanted) * change).sum(), rel=1e-4)


def test_weights_are_dropped_at_the_rate_and_independently():
    """Of 4800 weights: sees a rate that is off by 0.07, and heads, or directions, that go together."""
    multiplied = kept(8)
    assert set(np.unique(multiplied)) == {0.0, np.float32(1 / (1 - RATE))}
    stays = multiplied > 0
    assert_share(stays.sum(), stays.size, 1 - RATE)
    for one, two in ((stays[..., 0], stays[..., 1]), (stays[..., 1], stays[..., 2])):
        assert_share((one & two).sum(), one.size, (1 - RATE) ** 2)
    above = np.triu_indices(N, 1)
    assert_share((stays & stays.transpose(1, 0, 2))[above].sum(), HEADS * len(above[0]), (1 - RATE) ** 2)
    assert not np.array_equal(multiplied, kept(9))


def test_a_share_near_one_is_dropped():
    """2^-16 is the smallest share that is kept."""
    every, words = jnp.arange(1000), jnp.arange(2, dtype=jnp.uint32)[None]
    assert not np.asarray(_attention._kept(words, 2**16 - 1, every, every, 4)).any()


ONE = {"layers": 1, "output_heads": HEADS, "outputs": OUT}


@pytest.mark.parametrize("rates", [{"attention_dropout": 0.5}, {"dropout": 0.5}])
def test_dropout_is_keyed_and_only_in_training(rates):
    """Of a node without neighbours each number of the record, and each head, is 0 or twice as much."""
    graph, x = example()
    inputs, model = (padded(graph), x), gat(**ONE, **rates)
    variables = jax.jit(gat(**ONE).init)(jax.random.key(0), inputs)
    once = jax.jit(lambda key, inputs: model.apply(variables, inputs, key=key, train=True)[0])
    first, second, again = (once(jax.random.key(seed), inputs) for seed in (0, 1, 0))
    np.testing.assert_array_equal(first, again)
    assert (first != second).any(1)[:-2].mean() > 0.9
    quiet, plain = (one.apply(variables, inputs, key=None, train=False)[0] for one in (model, gat(**ONE)))
    np.testing.assert_array_equal(quiet, plain)

    factor = lambda rate: (0.0, 2.0) if rate else (1.0,)
    rows = np.array(list(itertools.product(factor(rates.get("dropout")), repeat=D))) * np.asarray(x[-1])
    heads = np.array(list(itertools.product(factor(rates.get("attention_dropout", 0.5)), repeat=HEADS)))
    kernel = np.asarray(variables["params"]["Dense_0"]["kernel"]).reshape(D, HEADS, OUT)
    possible = np.einsum("rd,dko,hk->rho", rows, kernel, heads).reshape(-1, OUT) / HEADS
    assert np.abs(possible - first[-1]).max(1).min() < 1e-5


# --- As part of the library --------------------------------------------------------------------------------------


def test_one_program_serves_all_graphs_of_a_shape():
    evaluated.clear_cache()
    pairs = np.stack(np.triu_indices(N, 1), 1)
    for seed, edges in ((0, 20), (1, 33)):
        other = graphs.from_edges(np.random.default_rng(seed).permutation(pairs)[:edges], N)
        close(evaluated(trained(), example()[1], padded(other))[0], naive(trained(), other, example()[1]))
    assert evaluated._cache_size() == 1


def test_linkteller_pushes_derivatives_through():
    """In forward mode, along the scale of each record."""
    ring = graphs.from_edges([[i, (i + 1) % N] for i in range(N)], N)
    inputs = NodeInputs(operator(ring, "segment"), example()[1])
    targets = attacks.all_pairs(np.arange(12), graphs.to_edges(ring))
    model = gat(**ONE)
    variables = model.init(jax.random.key(0), inputs)
    assert attacks.linkteller(model, variables, inputs, targets).auc.mean == 1.0
