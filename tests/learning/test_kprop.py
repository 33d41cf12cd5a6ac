"""KProp: against dense powers, in every form of its inputs; one program for all numbers of steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.graph import graphs, propagation
from ldp_jax.graph.propagation import kprop, kprop_many, operator

N, D = 30, 3
RNG = np.random.default_rng(0)
PAIRS = np.stack(np.triu_indices(N - 2, 1), 1)  # the last two nodes have no edge
GRAPH = graphs.from_edges(PAIRS[RNG.random(len(PAIRS)) < 0.15], N)
OPERATORS = {layout: operator(GRAPH, layout) for layout in ("segment", "ell")}
X = RNG.normal(size=(N, D)).astype(np.float32)
MENU = (0, 1, 2, 4, 8, 16)


def dense(graph, normalisation):
    """P, written out in float64."""
    adjacency = np.zeros((N, N))
    adjacency[graph.receivers, graph.senders] = 1.0
    degree = np.maximum(adjacency.sum(1), 1.0)
    left, right = (1.0, 0.0) if normalisation == "mean" else (0.5, 0.5)
    return degree[:, None] ** -left * adjacency * degree**-right


every_normalisation = pytest.mark.parametrize("normalisation", ["mean", "symmetric"])


@every_normalisation
@pytest.mark.parametrize("layout", ["segment", "ell"])
def test_equals_dense_powers_alone_and_in_one_pass(layout, normalisation):
    p, op = dense(GRAPH, normalisation), OPERATORS[layout]
    wanted = [np.linalg.matrix_power(p, k) @ X for k in MENU]
    mixed = [4, 0, 16, 1, 8, 2]
    many = kprop_many(op, X, mixed, normalisation=normalisation)
    assert many.shape == (len(MENU), N, D)
    for k, exact in zip(MENU, wanted, strict=True):
        np.testing.assert_allclose(kprop(op, X, k, normalisation=normalisation), exact, atol=1e-5)
        np.testing.assert_allclose(many[mixed.index(k)], exact, atol=1e-5)
    assert np.abs(wanted[1] - wanted[2]).max() > 0.1  # a step more or less would be seen


def test_a_step_has_no_self_loop_and_a_node_without_edges_has_the_empty_sum():
    one = np.zeros(N, np.float32)
    one[0] = 1.0
    assert kprop(GRAPH, one, 1)[0] == 0.0
    after = np.asarray(kprop_many(GRAPH, X, (0, 1, 2)))
    np.testing.assert_allclose(after[0], X, rtol=1e-6)
    assert not after[1:, N - 2 :].any()
    assert after[1:, : N - 2].any()


def test_wide_records_go_through_in_blocks_and_one_column_may_be_flat():
    columns = propagation.block_width() + 5
    wide = np.random.default_rng(2).normal(size=(N, columns)).astype(np.float32)
    many = kprop_many(OPERATORS["segment"], wide, (0, 3))
    exact = np.linalg.matrix_power(dense(GRAPH, "symmetric"), 3) @ wide
    np.testing.assert_allclose(many[0], wide, rtol=1e-6)
    np.testing.assert_allclose(many[1], exact, atol=1e-5)
    flat = kprop_many(OPERATORS["segment"], wide[:, 0], (0, 3))
    np.testing.assert_allclose(flat, many[:, :, 0], atol=1e-6)
    np.testing.assert_allclose(kprop(OPERATORS["segment"], wide[:, 0], 3), many[1, :, 0], atol=1e-6)


def test_one_program_for_every_number_of_steps():
    kprop(OPERATORS["segment"], X, 1)
    programs = propagation._kprop._cache_size()
    for steps in (0, 5, 16, jnp.int32(7)):
        for normalisation in ("mean", "symmetric"):
            kprop(OPERATORS["segment"], X, steps, normalisation=normalisation)
    assert propagation._kprop._cache_size() == programs
    traced = jax.jit(kprop)(OPERATORS["segment"], X, jnp.int32(5))
    np.testing.assert_allclose(traced, kprop(OPERATORS["segment"], X, 5), atol=1e-6)


@pytest.mark.parametrize(("layout", "normalisation"), [("segment", "mean"), ("ell", "symmetric")])
def test_derivatives_are_those_of_the_dense_map(layout, normalisation):
    """The gradient of <c, P^2 x + 3 P^5 x> is the transposed map of c; a derivative along x is the map itself."""
    p, op = dense(GRAPH, normalisation), OPERATORS[layout]
    c = np.random.default_rng(3).normal(size=(N, D)).astype(np.float32)
    exact = np.linalg.matrix_power(p, 2) + 3 * np.linalg.matrix_power(p, 5)

    @jax.jit
    def both(op, x, tangent):
        def total(x):
            two, five = kprop_many(op, x, (2, 5), normalisation=normalisation)
            return (tangent * (two + 3 * five)).sum()

        return jax.grad(total)(x), jax.jvp(total, (x,), (tangent,))[1]

    gradient, along = both(op, X, c)
    np.testing.assert_allclose(gradient, exact.T @ c, atol=1e-4)
    assert float(along) == pytest.approx((c * (exact @ c)).sum(), rel=1e-4)


def test_directed_edges_tell_their_receivers():
    graph = graphs.directed([0, 0, 4, 2], [1, 2, 2, 3], N)
    for normalisation in ("mean", "symmetric"):
        wanted = np.linalg.matrix_power(dense(graph, normalisation), 2) @ X
        op = operator(graph, allow_directed=True)
        np.testing.assert_allclose(kprop(op, X, 2, normalisation=normalisation), wanted, atol=1e-5)


@pytest.mark.usefixtures("untyped")
def test_bad_input_is_refused():
    for bad in (-1, 1.5, True, None):
        for call in (lambda bad=bad: kprop(GRAPH, X, bad), lambda bad=bad: kprop_many(GRAPH, X, (2, bad))):
            with pytest.raises(ValueError, match="steps must be a whole number >= 0"):
                call()
    with pytest.raises(ValueError, match="steps must name at least one"):
        kprop_many(GRAPH, X, ())
    for propagate, steps in ((kprop, 1), (kprop_many, (1,))):
        with pytest.raises(ValueError, match=f"x must have a row for each of {N} nodes"):
            propagate(GRAPH, X[1:], steps)
        with pytest.raises(ValueError, match="normalisation must be one of mean, symmetric; got 'max'"):
            propagate(GRAPH, X, steps, normalisation="max")
    with pytest.raises(ValueError, match="must be symmetric"):
        kprop(graphs.directed([0], [1], N), X, 1)
