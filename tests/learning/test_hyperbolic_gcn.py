"""The hyperbolic GCN: against a naive dense one in float64, near the boundary, and without curvature."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import operator
from ldp_jax.hyperbolic import poincare
from ldp_jax.learning.models import NodeInputs, gcn, hyperbolic_gcn

pytestmark = pytest.mark.usefixtures("quickly_compiled")

N, D, WIDTH, OUT, C = 30, 3, 2, 2, 0.7
MODEL = hyperbolic_gcn(2, WIDTH, OUT, c=C, learn_curvature=True, activation="elu")


@cache
def graph_of():
    """Two nodes without edges, a hub, and degrees between."""
    rng = np.random.default_rng(0)
    every = np.stack(np.triu_indices(N - 2, 1), 1)
    chosen = (rng.random(len(every)) < 0.07) | ((every[:, 0] == 0) & (every[:, 1] < 20))
    return graphs.from_edges(every[chosen], N)


@cache
def example():
    """Points within distance 3, where coordinates in float32 are exact to 1e-6."""
    rows = 0.3 * np.random.default_rng(1).normal(size=(N, D))
    return operator(graph_of(), "segment"), jnp.asarray(rows, jnp.float32)


@cache
def trained():
    variables = jax.jit(MODEL.init)(jax.random.key(0), example())
    keys = iter(jax.random.split(jax.random.key(1), 8))
    return jax.tree.map(lambda leaf: leaf + 0.2 * jax.random.normal(next(keys), leaf.shape), variables)


def dense():
    edges = graphs.to_edges(graph_of())
    adjacency = np.eye(N)
    adjacency[edges[:, 0], edges[:, 1]] = adjacency[edges[:, 1], edges[:, 0]] = 1.0
    return adjacency / adjacency.sum(1, keepdims=True)


def naive(variables, x):
    """The layers as the paper writes them, points between them, in float64 by textbook formulas."""
    size = lambda v: np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-300)
    exp_0 = lambda v, c: np.tanh(np.sqrt(c) * size(v)) * v / (np.sqrt(c) * size(v))
    log_0 = lambda h, c: np.arctanh(np.sqrt(c) * size(h)) * h / (np.sqrt(c) * size(h))

    def add(a, b, c):
        ab, aa, bb = ((p * q).sum(-1, keepdims=True) for p, q in ((a, b), (a, a), (b, b)))
        top = (1 + 2 * c * ab + c * bb) * a + (1 - c * aa) * b
        return top / (1 + 2 * c * ab + c**2 * aa * bb)

    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), variables["params"])
    first, last = (np.exp(params[f"log_c_{layer}"]) for layer in range(2))
    h = exp_0(np.asarray(x, np.float64), first)
    for layer, c in enumerate((first, last)):
        h = exp_0(log_0(h, c) @ params[f"Dense_{layer}"]["kernel"], c)
        h = add(h, exp_0(params[f"bias_{layer}"], c), c)
        t = dense() @ log_0(h, c)
        h = exp_0(t if layer else np.where(t > 0, t, np.expm1(t)), last)
    return log_0(h, last)


@jax.jit
def evaluated(variables, x, op):
    """Outputs, and the gradient of the sum of their sines."""

    def total(variables, x):
        value, _ = MODEL.apply(variables, (op, x), key=None, train=False)
        return jnp.sin(value).sum(), value

    gradient, value = jax.grad(total, argnums=(0, 1), has_aux=True)(variables, x)
    return value, gradient


def test_equals_the_layers_by_textbook_formulas_in_value_and_gradient():
    op, x = example()
    rng = np.random.default_rng(2)
    direction = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), (trained(), x))

    def moved(step):
        there = lambda leaf, dot: np.asarray(leaf, np.float64) + step * dot
        return naive(*jax.tree.map(there, (trained(), x), direction))

    wanted, change = moved(0.0), (moved(1e-6) - moved(-1e-6)) / 2e-6
    value, gradient = evaluated(trained(), x, op)
    np.testing.assert_allclose(value, wanted, atol=2e-5 * np.abs(wanted).max())
    along = jax.tree.map(lambda g, dot: (np.asarray(g, np.float64) * dot).sum(), gradient, direction)
    assert sum(jax.tree.leaves(along)) == pytest.approx((np.cos(wanted) * change).sum(), rel=1e-3)


@pytest.mark.parametrize("scale", [0.0, 1e20])
def test_records_at_the_origin_and_far_outside_have_finite_outputs_and_gradients(scale):
    op, x = example()
    value, gradient = evaluated(jax.tree.map(lambda leaf: 5.0 * leaf, trained()), x * scale, op)
    assert np.isfinite(value).all()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    # No mean of tangent vectors is longer than the longest one that stays inside the ball.
    c = float(jnp.exp(5.0 * trained()["params"]["log_c_1"]))
    assert np.linalg.norm(value, axis=1).max() <= poincare.REACH / 2 / np.sqrt(c) * (1 + 1e-2)


def test_without_curvature_it_is_the_gcn_whose_relu_it_has():
    op, x = example()
    flat, euclidean = hyperbolic_gcn(2, WIDTH, OUT, c=1e-3), gcn(2, WIDTH, OUT)
    weights = jax.tree.map(lambda leaf: 0.3 * leaf, trained())
    run = jax.jit(
        lambda: [m.apply(weights, NodeInputs(op, x), key=None, train=False)[0] for m in (flat, euclidean)]
    )
    outputs = [np.asarray(each) for each in run()]
    np.testing.assert_allclose(*outputs, atol=1e-3 * np.abs(outputs[1]).max())


def test_learned_curvatures_stay_in_their_range():
    op, x = example()
    far = {"params": {**trained()["params"], "log_c_0": jnp.float32(100.0), "log_c_1": jnp.float32(-100.0)}}
    near = {"params": {**trained()["params"], "log_c_0": jnp.float32(3.0), "log_c_1": jnp.float32(-7.0)}}
    (value, gradient), (wanted, _) = (evaluated(variables, x, op) for variables in (far, near))
    np.testing.assert_allclose(value, wanted, atol=1e-6)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
