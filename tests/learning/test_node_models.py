"""Networks on nodes: each against a naive dense one in float64, in value, gradient and every form
of the graph.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.graph import graphs, interop
from ldp_jax.graph.propagation import operator
from ldp_jax.hyperbolic import poincare
from ldp_jax.learning.models import (
    NodeInputs,
    PlacedInputs,
    PoinDPInputs,
    gat,
    gcn,
    hyperbolic_gcn,
    hyperimba,
    poindp,
)

N = 40
D = 5
HEADS = 3
OUT = 2
MODELS = {
    "gcn": gcn(3, 7, OUT),
    "gat": gat(2, heads=HEADS, hidden=4, outputs=OUT),
    "hyperbolic": hyperbolic_gcn(2, 3, OUT, c=0.7, learn_curvature=True, activation="elu"),
}


@cache
def example():
    """Two nodes without edges, a hub, and degrees between; points near the origin, exact to 1e-6 in
    float32.
    """
    rng = np.random.default_rng(0)
    every = np.stack(np.triu_indices(N - 2, 1), 1)
    chosen = (rng.random(len(every)) < 0.07) | ((every[:, 0] == 0) & (every[:, 1] < 30))
    return graphs.from_edges(every[chosen], N), jnp.asarray(
        0.3 * rng.normal(size=(N, D)), jnp.float32
    )


def padded(graph, **also):
    """Edges by receiver and padding: one shape for all graphs here."""
    return operator(graph, "segment", places=200, **also)


@cache
def trained(name):
    """Parameters with biases that are not 0."""
    shapes = jax.eval_shape(MODELS[name].init, jax.random.key(0), example())
    rng = np.random.default_rng(1)
    spread = lambda leaf: 0.4 if leaf.ndim > 1 else 0.2
    return jax.tree.map(
        lambda leaf: jnp.asarray(rng.normal(0, spread(leaf), leaf.shape), jnp.float32), shapes
    )


@cache
def evaluated(name):
    """Outputs, and the gradient of the sum of their sines."""

    def total(variables, x, graph):
        value, _ = MODELS[name].apply(variables, NodeInputs(graph, x), key=None, train=False)
        return jnp.sin(value).sum(), value

    return jax.jit(lambda *given: jax.value_and_grad(total, argnums=(0, 1), has_aux=True)(*given))


@cache
def applied(name):
    return jax.jit(lambda *given: MODELS[name].apply(given[0], given[1:], key=None, train=False)[0])


@pytest.mark.parametrize("name", MODELS)
def test_records_of_0_and_1_are_those_of_floats(name):
    graph, x = example()
    each = (jnp.asarray(x > 0).astype(dtype) for dtype in (jnp.float32, jnp.int8, jnp.bool_))
    wanted, *found = (applied(name)(trained(name), padded(graph), one) for one in each)
    for one in found:
        np.testing.assert_allclose(one, wanted, rtol=1e-5, atol=1e-6)


WIDE = {
    "gat": gat(2, heads=3, hidden=16, outputs=30),
    "hyperbolic": hyperbolic_gcn(2, 48, 30, c=0.7, learn_curvature=True),
    "fixed curvature": hyperbolic_gcn(2, 48, 30),
    "hyperimba": hyperimba(2, 48, 30),
    "poindp": poindp(30, 24, 0.0),
}


@pytest.mark.parametrize("name", WIDE)
def test_first_weights_are_even_within_the_range_of_glorot_and_biases_are_0(name):
    """Kernels of 240 entries at least: none is beyond, and the largest is within 5 % of the end."""
    graph, x = example()
    places = {"places": x[:, :2]} if name in ("hyperimba", "poindp") else {}
    kind = {"hyperimba": PlacedInputs, "poindp": PoinDPInputs}.get(name, NodeInputs)
    params = jax.jit(WIDE[name].init)(jax.random.key(0), kind(padded(graph), x, **places))["params"]
    of_places = ("place_", "receiver_", "sender_") if name == "hyperimba" else ()
    for way, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
        of = way[0].key
        if of.startswith("bias"):
            assert not leaf.any(), of
        elif of.startswith("log_c"):
            assert np.exp(leaf) == pytest.approx(0.7)  # of the model that learns it
        elif not of.startswith(of_places or "none"):
            shape = leaf.shape[-2:]
            most = np.sqrt(6 / sum(shape))
            least = 0.95 if leaf.size >= 240 else 0.8
            assert least * most < np.abs(leaf).max() <= most, (of, shape)
            assert np.square(leaf).mean() == pytest.approx(most**2 / 3, rel=0.3), of


def dense(graph):
    return np.eye(N) + interop.to_scipy(graph).toarray()


def naive_gcn(params, adjacency, x, *, layers=3, symmetric=False):
    size = adjacency.sum(1)
    average = adjacency / np.sqrt(np.outer(size, size)) if symmetric else adjacency / size[:, None]
    h = x
    for layer in range(layers):
        h = np.maximum(h, 0) if layer else h
        h = average @ h @ params[f"Dense_{layer}"]["kernel"] + params[f"bias_{layer}"]
    return h


def naive_gat(params, adjacency, x):
    h = x
    for layer in range(2):
        h = (h @ params[f"Dense_{layer}"]["kernel"]).reshape(
            N, *params[f"receiver_{layer}"].shape[:2]
        )
        a, b = ((h * params[f"{end}_{layer}"][..., 0]).sum(-1) for end in ("receiver", "sender"))
        scores = a[:, None] + b[None]
        weights = np.exp(np.where(scores > 0, scores, 0.2 * scores)) * adjacency[..., None]
        h = np.einsum("ijk,jkf->ikf", weights / weights.sum(1, keepdims=True), h)
        h = h.mean(1) if layer else h.reshape(N, -1)
        h = h + params[f"bias_{layer}"]
        h = h if layer else np.where(h > 0, h, np.expm1(h))
    return h


def naive_hyperbolic(params, adjacency, x):
    """The layers as the paper writes them, points between them, by textbook formulas."""
    size = lambda v: np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-300)
    exp_0 = lambda v, c: np.tanh(np.sqrt(c) * size(v)) * v / (np.sqrt(c) * size(v))
    log_0 = lambda h, c: np.arctanh(np.sqrt(c) * size(h)) * h / (np.sqrt(c) * size(h))

    def add(a, b, c):
        ab, aa, bb = ((p * q).sum(-1, keepdims=True) for p, q in ((a, b), (a, a), (b, b)))
        top = (1 + 2 * c * ab + c * bb) * a + (1 - c * aa) * b
        return top / (1 + 2 * c * ab + c**2 * aa * bb)

    curvatures = [np.exp(params[f"log_c_{layer}"]) for layer in range(2)]
    h = exp_0(x, curvatures[0])
    for layer, c in enumerate(curvatures):
        h = exp_0(log_0(h, c) @ params[f"Dense_{layer}"]["kernel"], c)
        h = add(h, exp_0(params[f"bias_{layer}"], c), c)
        t = adjacency / adjacency.sum(1, keepdims=True) @ log_0(h, c)
        h = exp_0(t if layer else np.where(t > 0, t, np.expm1(t)), curvatures[1])
    return log_0(h, curvatures[1])


NAIVE = {"gcn": naive_gcn, "gat": naive_gat, "hyperbolic": naive_hyperbolic}


def naive(name, variables, graph, x, **changes):
    params, x = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), (variables["params"], x))
    return NAIVE[name](params, dense(graph), x, **changes)


def close(got, wanted, error=2e-5):
    np.testing.assert_allclose(got, wanted, atol=error * np.abs(wanted).max())


@pytest.mark.parametrize("name", MODELS)
def test_equals_a_naive_dense_network_in_every_form_of_the_graph(name):
    """In value, and in the gradient, whose products with a direction are finite differences of the
    naive one.
    """
    graph, x = example()
    rng = np.random.default_rng(2)
    direction = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), (trained(name), x))

    def moved(step):
        there = lambda leaf, dot: np.asarray(leaf, np.float64) + step * dot
        variables, rows = jax.tree.map(there, (trained(name), x), direction)
        return naive(name, variables, graph, rows)

    wanted = moved(0.0)
    change = (moved(1e-6) - moved(-1e-6)) / 2e-6
    (_, value), gradient = evaluated(name)(trained(name), x, padded(graph))
    close(value, wanted)
    along = jax.tree.map(
        lambda g, dot: (np.asarray(g, np.float64) * dot).sum(), gradient, direction
    )
    assert sum(jax.tree.leaves(along)) == pytest.approx((np.cos(wanted) * change).sum(), rel=1e-3)
    if name == "hyperbolic":  # whose sums are those of "gcn"
        return
    order = rng.permutation(len(graph.senders))
    mixed = graph._replace(senders=graph.senders[order], receivers=graph.receivers[order])
    for form in (mixed, operator(graph)):
        close(applied(name)(trained(name), form, x), wanted)


@pytest.mark.parametrize("name", ["gcn", "gat"])  # the sums of "hyperbolic" are those of "gcn"
def test_a_directed_edge_tells_its_receiver(name):
    graph = graphs.directed([0, 0, 4], [1, 2, 2], N)
    x = example()[1]
    turned = graph._replace(senders=graph.receivers, receivers=graph.senders)
    wanted = naive(name, trained(name), graph, x)
    assert np.abs(wanted - naive(name, trained(name), turned, x)).max() > 0.01
    close(applied(name)(trained(name), padded(graph, allow_directed=True), x), wanted)


def test_one_program_serves_all_graphs_of_a_shape():
    run = evaluated("gat")
    pairs = np.stack(np.triu_indices(N, 1), 1)
    x = example()[1]
    run(trained("gat"), x, padded(example()[0]))
    programs = run._cache_size()
    other = graphs.from_edges(np.random.default_rng(1).permutation(pairs)[:33], N)
    close(run(trained("gat"), x, padded(other))[0][1], naive("gat", trained("gat"), other, x))
    assert run._cache_size() == programs


def test_normalisation_of_a_gcn_and_the_scale_of_its_rows():
    graph, x = example()
    model = gcn(3, 7, OUT, normalisation="symmetric")
    wanted = naive("gcn", trained("gcn"), graph, x, symmetric=True)
    assert np.abs(wanted - naive("gcn", trained("gcn"), graph, x)).max() > 0.01
    scale = jnp.linspace(0.5, 2.0, N)

    @jax.jit
    def both(variables, op, x):
        given = (model, (op, x)), (MODELS["gcn"], NodeInputs(op, x, scale))
        return [made.apply(variables, inputs, key=None, train=False)[0] for made, inputs in given]

    symmetric, scaled = both(trained("gcn"), padded(graph), x)
    close(symmetric, wanted)
    close(scaled, naive("gcn", trained("gcn"), graph, x * scale[:, None]))


def test_dropout_of_a_gcn_is_keyed():
    model = gcn(2, 7, OUT, dropout=0.5)
    variables = {"params": {name: trained("gcn")["params"][name] for name in ("Dense_0", "bias_0")}}
    variables["params"] |= {"Dense_1": {"kernel": jnp.ones((7, OUT))}, "bias_1": jnp.ones(OUT)}
    op = padded(example()[0])
    once = jax.jit(lambda key: model.apply(variables, (op, example()[1]), key=key, train=True)[0])
    first, second, again = (once(jax.random.key(seed)) for seed in (0, 1, 0))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, second)


def finite(tree):
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(tree))


def test_records_at_the_origin_and_far_outside_have_finite_outputs_and_gradients():
    graph, x = example()
    variables = jax.tree.map(lambda leaf: 5.0 * leaf, trained("hyperbolic"))
    c = float(np.exp(variables["params"]["log_c_1"]))
    for scale in (0.0, 1e20):
        (_, value), gradient = evaluated("hyperbolic")(variables, x * scale, padded(graph))
        assert finite((value, gradient))
        # No mean of tangent vectors is longer than the longest one that stays inside the ball.
        assert np.linalg.norm(value, axis=1).max() <= poincare.REACH / 2 / np.sqrt(c) * (1 + 1e-2)


def test_learned_curvatures_stay_in_their_range():
    graph, x = example()
    ends = ((100.0, -100.0), (3.0, -7.0))
    params = [{"log_c_0": jnp.float32(first), "log_c_1": jnp.float32(last)} for first, last in ends]
    far, near = ({"params": {**trained("hyperbolic")["params"], **changed}} for changed in params)
    ((_, value), gradient), ((_, wanted), _) = (
        evaluated("hyperbolic")(v, x, padded(graph)) for v in (far, near)
    )
    np.testing.assert_allclose(value, wanted, atol=1e-6)
    assert finite(gradient)
