"""Personalized PageRank: two layouts, one embedding, within the stated tolerance."""

import weakref
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.graph import graphs, interop, propagation
from ldp_jax.graph.propagation import (
    kprop,
    kprop_many,
    operator,
    ppr,
    ppr_dense,
    ppr_push,
    ppr_rows,
    traced_operator,
)

ALPHAS = (0.05, 0.5, 1.0)
N, COLUMNS = 60, 3
every_alpha = pytest.mark.parametrize("alpha", ALPHAS)
every_layout = pytest.mark.parametrize("layout", ["segment", "ell"])


def edges_of_many_kinds():
    """A hub of degree 40 (several chunks of neighbours), a triangle with a tail, a path, two
    isolated nodes.

    The path is bipartite: its operator has the eigenvalue -1, the hardest for Chebyshev.
    """
    rng = np.random.default_rng(0)
    hub = [(0, v) for v in range(1, 41)]
    among = {
        tuple(sorted(map(int, pair))) for pair in rng.integers(1, 41, (60, 2)) if pair[0] != pair[1]
    }
    triangle = [(41, 42), (42, 43), (41, 43), (43, 44)]
    path = [(v, v + 1) for v in range(45, 57)]
    return np.array(sorted({*hub, *among, *triangle, *path}))  # 58 and 59 are alone


GRAPH = graphs.from_edges(edges_of_many_kinds(), N)
OPERATORS = {layout: operator(GRAPH, layout) for layout in ("segment", "ell")}
DEGREE = np.maximum(np.bincount(GRAPH.receivers, minlength=N), 1).astype(float)
X = np.random.default_rng(1).normal(size=(N, COLUMNS)).astype(np.float32)


def transition(graph, r):
    """P = D^(r-1) A D^-r, written out in float64; an isolated node has degree 1."""
    adjacency = interop.to_scipy(graph).toarray().astype(float)
    degree = np.maximum(adjacency.sum(1), 1.0)
    return np.diag(degree ** (r - 1)) @ adjacency @ np.diag(degree**-r)


def weighted_error(z, exact, r):
    """Relative error of each column in the norm that ``tol`` is about, D^(1/2 - r)."""
    weight = DEGREE[:, None] ** (0.5 - r)
    return np.linalg.norm(weight * (np.asarray(z, float) - exact), axis=0) / np.linalg.norm(
        weight * exact, axis=0
    )


@pytest.mark.parametrize(("alpha", "r"), [(0.05, 0.3), (0.5, 0.0)])
def test_dense_is_the_series(alpha, r):
    """The definition, term by term, until nothing is left."""
    p = transition(GRAPH, r)
    term = X.astype(float)
    total = np.zeros((N, COLUMNS))
    for _ in range(700):
        total += alpha * term
        term = (1 - alpha) * p @ term
    np.testing.assert_allclose(ppr_dense(GRAPH, X, alpha, r), total, atol=1e-12)


@pytest.mark.parametrize(("alpha", "r"), [(0.05, 0.3), (0.1, 1.0), (0.5, 0.0)])
@every_layout
def test_push_honours_its_bound_entry_by_entry(alpha, r, layout):
    exact = ppr_dense(GRAPH, X, alpha, r)
    for r_max in (1e-1, 1e-3, 1e-5):
        z = np.asarray(ppr_push(OPERATORS[layout], X, alpha, r, r_max), float)
        rounding = 4e-7 / alpha * np.abs(X / DEGREE[:, None] ** r).max()
        assert (np.abs(z - exact) <= (r_max + rounding) * DEGREE[:, None] ** r).all()


@every_layout
def test_a_column_that_is_not_finite_is_pushed_to_no_number(layout):
    """Numbers that exceed no threshold would be left out, and the others be those of a 0."""
    x = X.copy()
    x[0, 0], x[1, 1] = np.nan, np.inf
    z = np.asarray(ppr_push(OPERATORS[layout], x, 0.1, 0.5))
    assert np.isnan(z[:, :2]).all()
    np.testing.assert_array_equal(
        z[:, 2:], np.asarray(ppr_push(OPERATORS[layout], X, 0.1, 0.5))[:, 2:]
    )


@every_alpha
@pytest.mark.parametrize("r", [0.0, 0.3])
@every_layout
def test_chebyshev_honours_its_tolerance(alpha, r, layout):
    """In the stated norm, for every tol; float32 adds 1e-7 / alpha, and a little for the sums."""
    exact = ppr_dense(GRAPH, X, alpha, r)
    for tol in (1e-1, 1e-3, 1e-5):
        z = ppr(OPERATORS[layout], X, alpha, r, tol)
        assert z.dtype == jnp.float32
        assert (weighted_error(z, exact, r) <= tol + 2e-7 / alpha).all()
    if alpha < 0.5:  # and it is no idle promise: tol = 0.1 stops early
        assert weighted_error(ppr(OPERATORS[layout], X, alpha, r, 0.1), exact, r).max() > 1e-4


@every_layout
def test_isolated_nodes_keep_alpha_x(layout):
    """Up to tol: zero is an eigenvalue like any other."""
    for r in (0.0, 0.5):
        np.testing.assert_allclose(
            ppr(OPERATORS[layout], X, 0.1, r)[58:], 0.1 * X[58:], rtol=1.2e-5
        )
    alone = ppr(operator(graphs.from_edges([], 4), layout), np.ones(4), 0.2, 0.5)
    np.testing.assert_allclose(alone, 0.2, rtol=1.2e-5)


@every_layout
def test_an_induced_operator_is_that_of_the_edges_within_parts(layout):
    part = np.arange(N) % 3
    edges = np.array([pair for pair in edges_of_many_kinds() if part[pair[0]] == part[pair[1]] < 2])
    assert 0 < len(edges) < len(edges_of_many_kinds()) / 2
    op = OPERATORS[layout]
    x = np.random.default_rng(2).normal(size=(N, 3)).astype(np.float32)
    mine = jax.jit(lambda op, part: op.induced(part == 0, part == 1))(op, part)
    wanted = ppr(graphs.from_edges(edges, N), x, 0.2, 0.5)
    np.testing.assert_allclose(ppr(mine, x, 0.2, 0.5), wanted, atol=1e-4)
    assert mine.layout == op.layout
    assert mine.num_places == op.num_places


def test_wide_records_go_through_in_blocks():
    """More columns than one block holds, and not a multiple of it; one column may be flat."""
    op = OPERATORS["ell"]
    x = np.random.default_rng(2).normal(size=(N, 2 * propagation.block_width() + 5))
    z = ppr(op, x.astype(np.float32), 0.1, 0.3)
    assert weighted_error(z, ppr_dense(GRAPH, x, 0.1, 0.3), 0.3).max() <= 1.1e-5
    np.testing.assert_allclose(ppr(op, x[:, 0].astype(np.float32), 0.1, 0.3), z[:, 0], atol=1e-5)


def test_whole_numbers_of_the_host_are_not_taken_modulo_2_to_the_32():
    """Milliseconds since 1970, of which JAX keeps 32 bits; what is masked is no number."""
    times = 1_700_000_000_000 + 1000 * np.arange(N)
    for propagate in (partial(ppr, alpha=0.5, r=0.5), partial(kprop, steps=1)):
        expected = propagate(GRAPH, times.astype(np.float32))
        np.testing.assert_array_equal(propagate(GRAPH, times), expected)
        assert float(jnp.abs(expected).max()) > 1e12
    hidden = np.ma.array(X, mask=np.arange(X.size).reshape(X.shape) == 0)
    assert np.isnan(ppr_dense(GRAPH, hidden, 0.5, 0.5)[:, 0]).any()


def test_one_trace_over_alpha_r_and_tol(monkeypatch):
    traces = []
    op = OPERATORS["ell"]
    iteration = propagation.semi_iteration
    monkeypatch.setattr(
        propagation, "semi_iteration", lambda *args: (traces.append(1), iteration(*args))[1]
    )
    x = np.ones((N, 7), np.float32)  # a shape of its own: nothing is cached yet
    for alpha, r, tol in [
        (0.1, 0.3, 1e-5),
        (0.5, 1.0, 1e-2),
        (1, 0, 1e-3),
        (np.float32(0.2), 0.0, 1e-1),
    ]:
        ppr(op, x, alpha, r, tol)
    assert len(traces) == 2  # one program, in which the map and its transpose are traced once each
    # Inside a program, swept by vmap.
    swept = jax.jit(jax.vmap(lambda alpha: ppr(op, X, alpha, 0.3)))(jnp.array(ALPHAS))
    for alpha, z in zip(ALPHAS, swept, strict=True):
        np.testing.assert_allclose(z, ppr_dense(GRAPH, X, alpha, 0.3), atol=2e-4)


def stacked_graphs():
    """Three graphs with as many nodes and edges: a ring, a star of the same size, and one at
    random.
    """
    n = 10
    ring = np.array([(i, (i + 1) % n) for i in range(n)])
    star = np.array([(0, i) for i in range(1, n)] + [(1, 2)])
    pairs = np.argwhere(np.triu(np.ones((n, n)), 1))
    chance = pairs[np.random.default_rng(3).permutation(len(pairs))[:n]]
    return [graphs.from_edges(edges, n) for edges in (ring, star, chance)]


def test_stacked_graphs_under_vmap():
    many = stacked_graphs()
    x = np.random.default_rng(4).normal(size=(3, 10, 2)).astype(np.float32)
    stack = jax.tree.map(
        lambda *leaves: jnp.stack(leaves), *(operator(graph, "segment") for graph in many)
    )
    z = jax.vmap(lambda op, x: ppr(op, x, 0.1, 0.3))(stack, x)
    traced = jax.tree.map(lambda *leaves: jnp.stack(leaves), *many)
    direct = jax.jit(jax.vmap(lambda graph, x: ppr(graph, x, 0.1, 0.3)))(traced, x)
    for i, graph in enumerate(many):
        exact = ppr_dense(graph, x[i], 0.1, 0.3)
        for stacked in (z, direct):
            np.testing.assert_allclose(stacked[i], exact, atol=1e-4)
    slope = jax.grad(lambda x, graph: ppr(traced_operator(graph, 10), x, 0.1, 0.3).sum())
    gradient = jax.jit(jax.vmap(slope))(x, traced)
    for i, graph in enumerate(many):
        np.testing.assert_allclose(
            gradient[i], ppr_dense(graph, np.ones((10, 2)), 0.1, 0.7), atol=1e-4
        )


@pytest.mark.parametrize(("layout", "r"), [("segment", 0.3), ("ell", 1.0)])
def test_gradient_is_the_transpose(layout, r):
    """Z is linear in x: the gradient of <c, Z> is the PageRank of c with 1 - r."""
    c = np.random.default_rng(5).normal(size=(N, COLUMNS)).astype(np.float32)
    gradient = jax.grad(lambda x: (c * ppr(OPERATORS[layout], x, 0.1, r, 1e-6)).sum())(X)
    np.testing.assert_allclose(gradient, ppr_dense(GRAPH, c, 0.1, 1 - r), atol=1e-4)


@pytest.mark.parametrize("number", [0, 1])
def test_derivatives_in_alpha_and_r_are_refused(number):
    """They would be 0: to JAX what a solution is made with is a constant."""
    at = (jnp.float32(0.2), jnp.float32(0.3))
    page = lambda *numbers: ppr(OPERATORS["segment"], X, *numbers).sum()
    with pytest.raises(TypeError, match="kprop_many"):
        jax.jit(jax.grad(page, number))(*at)
    with pytest.raises(TypeError, match="kprop_many"):
        jax.jvp(page, at, at)


@pytest.mark.parametrize(("layout", "r"), [("segment", 0.0), ("ell", 0.3)])
def test_rows_are_those_of_the_matrix(r, layout):
    nodes = [0, 5, 41, 50, 58]
    for alpha in (0.1, 0.35):
        rows = np.asarray(ppr_rows(OPERATORS[layout], nodes, alpha, r, 1e-6))
        np.testing.assert_allclose(rows, ppr_dense(GRAPH, np.eye(N), alpha, r)[nodes], atol=3e-5)
        if r == 0:
            np.testing.assert_allclose(rows.sum(1), [1, 1, 1, 1, alpha], rtol=1e-4)
    assert ppr_rows(OPERATORS[layout], [], 0.1, r, 1e-6).shape == (0, N)


def test_parts_of_a_graph_are_float32_beside_float64():
    with jax.enable_x64(True):
        assert operator(GRAPH, "ell").induced(jnp.arange(N) < 40).degree.dtype == jnp.float32


def test_a_directed_operator_adds_up_the_power_series():
    """Noisy neighbour lists: P averages over the senders of a node's edges, where Chebyshev could
    diverge.
    """
    rng = np.random.default_rng(0)
    joined = np.triu(rng.uniform(size=(40, 40)) < 0.3, 1) | (rng.uniform(size=(40, 40)) < 0.02)
    graph = graphs.directed(*np.nonzero(joined & ~np.eye(40, dtype=bool)), 40)  # in no order
    assert not graphs.is_symmetric(graph)
    op = propagation.operator(graph, allow_directed=True)
    assert (op.directed, op.layout) == (True, "segment")
    for columns in (3, propagation.block_width() + 5):
        x = rng.normal(size=(40, columns)).astype(np.float32)
        np.testing.assert_allclose(ppr(op, x, 0.2, 0.3), ppr_dense(graph, x, 0.2, 0.3), atol=1e-3)
    symmetric = graphs.from_edges([[0, 1], [1, 2]], num_nodes=4)
    assert propagation.operator(symmetric, allow_directed=True) == propagation.operator(symmetric)


# KProp: powers of P, whose normalisation is that of r = 0 or of r = 1/2.

MENU = (0, 1, 2, 4, 8, 16)
R_OF = {"mean": 0.0, "symmetric": 0.5}


@pytest.mark.parametrize(("layout", "normalisation"), [("segment", "mean"), ("ell", "symmetric")])
def test_powers_are_the_dense_ones_alone_and_in_one_pass_and_by_one_program(layout, normalisation):
    p = transition(GRAPH, R_OF[normalisation])
    op = OPERATORS[layout]
    wanted = [np.linalg.matrix_power(p, k) @ X for k in MENU]
    mixed = [4, 0, 16, 1, 8, 2]
    many = kprop_many(op, X, mixed, normalisation=normalisation)
    assert many.shape == (len(MENU), N, COLUMNS)
    kprop(op, X, 1)
    programs = propagation._by_parts._cache_size()
    for k, exact in zip(MENU, wanted, strict=True):
        np.testing.assert_allclose(kprop(op, X, k, normalisation=normalisation), exact, atol=1e-5)
        np.testing.assert_allclose(many[mixed.index(k)], exact, atol=1e-5)
    assert propagation._by_parts._cache_size() == programs
    assert np.abs(wanted[1] - wanted[2]).max() > 0.1  # a step more or less would be seen
    assert not np.asarray(many[3])[58:].any()  # a node without edges has the empty sum


def test_powers_of_wide_records_go_through_in_blocks_and_one_column_may_be_flat():
    op = OPERATORS["segment"]
    wide = np.random.default_rng(2).normal(size=(N, propagation.block_width() + 5))
    many = kprop_many(op, wide.astype(np.float32), (0, 3))
    np.testing.assert_allclose(
        many[1], np.linalg.matrix_power(transition(GRAPH, 0.5), 3) @ wide, atol=1e-5
    )
    np.testing.assert_allclose(
        kprop(op, wide[:, 0].astype(np.float32), 3), many[1, :, 0], atol=1e-6
    )


def test_derivatives_of_powers_are_those_of_the_dense_map():
    """The gradient of <c, P^2 x + 3 P^5 x> is the transposed map of c; a derivative along x is the
    map itself.
    """
    p = transition(GRAPH, 0.0)
    c = np.random.default_rng(3).normal(size=X.shape).astype(np.float32)
    exact = np.linalg.matrix_power(p, 2) + 3 * np.linalg.matrix_power(p, 5)

    @jax.jit
    def both(op, x, tangent):
        def total(x):
            two, five = kprop_many(op, x, (2, 5), normalisation="mean")
            return (tangent * (two + 3 * five)).sum()

        return jax.grad(total)(x), jax.jvp(total, (x,), (tangent,))[1]

    gradient, along = both(OPERATORS["ell"], X, c)
    np.testing.assert_allclose(gradient, exact.T @ c, atol=1e-4)
    assert float(along) == pytest.approx((c * (exact @ c)).sum(), rel=1e-4)


def test_powers_of_directed_edges_tell_their_receivers():
    graph = graphs.directed([0, 0, 4, 2], [1, 2, 2, 3], N)
    for normalisation, r in R_OF.items():
        wanted = np.linalg.matrix_power(transition(graph, r), 2) @ X
        op = operator(graph, allow_directed=True)
        np.testing.assert_allclose(kprop(op, X, 2, normalisation=normalisation), wanted, atol=1e-5)


def test_auto_is_segments_where_there_is_a_gpu(monkeypatch):
    """One kernel a product there; each gather of a table is one of its own."""
    graph = graphs.from_edges([[0, 1], [1, 2]], 3)
    for backend, layout in (("cpu", "ell"), ("gpu", "segment")):
        monkeypatch.setattr(jax, "default_backend", lambda backend=backend: backend)
        assert operator(graph).layout == layout
    assert operator(graph, "ell").layout == "ell"


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16, jnp.bfloat16, np.int32])
def test_several_blocks_in_64_bit_mode(kind):
    x = np.random.default_rng(3).integers(0, 2, (N, propagation.block_width() + 1)).astype(kind)
    wanted = np.asarray(ppr(GRAPH, jnp.asarray(x, jnp.float32), 0.1, 0.3))
    with jax.enable_x64(True):
        found = ppr(GRAPH, jnp.asarray(x), 0.1, 0.3)
        assert found.dtype == (np.float64 if kind is np.float64 else np.float32)
        np.testing.assert_allclose(found, wanted, atol=1e-4 * np.abs(wanted).max())


def test_blocks_are_made_one_at_a_time():
    """While one is made, the one before it alone is there."""
    width = propagation.block_width()
    alive = []
    most = 0

    def block(start):
        nonlocal most
        most = max(most, sum(one() is not None for one in alive))
        made = jnp.full((N, width), float(start))
        alive.append(weakref.ref(made))
        return made

    propagation.ppr_by_blocks(operator(GRAPH), block, 5 * width, 0.1, 0.3)
    assert (len(alive), most) == (5, 1)


def test_the_numbers_of_products_are_the_least_that_reach_the_tolerance():
    """Alphas and tolerances are drawn; those within 1e-4 of a boundary are left out."""
    rng = np.random.default_rng(0)
    alphas = rng.uniform(0.01, 0.95, 300)
    tols = 10.0 ** rng.uniform(-7.0, -0.1, 300)
    steps = jax.vmap(propagation.chebyshev_steps)(jnp.asarray(alphas), jnp.asarray(tols))
    # 1 / T_{m+1}(1 / (1 - alpha)) <= tol, T_k(x) = cosh(k arcosh(x)), of the least even m.
    needed = np.arccosh(1 / tols) / np.arccosh(1 / (1 - alphas)) - 1
    sure = np.abs(needed - np.rint(needed)) > 1e-4 * (needed + 1)
    assert sure.sum() > 250
    wanted = 2 * np.maximum(np.ceil(needed / 2), 0)
    np.testing.assert_array_equal(np.asarray(steps)[sure], wanted[sure])


def test_the_series_of_a_directed_graph_reaches_its_tolerance():
    """Powers of a cycle are permutations: after m products (1 - alpha)^(m + 1) of 1 is left out."""
    n = 400
    ring = graphs.directed(np.roll(np.arange(n), 1), np.arange(n), n)
    op = operator(ring, allow_directed=True)
    assert op.directed
    seed = np.zeros((n, 1), np.float32)
    seed[0] = 1.0
    for alpha in (0.1, 0.35, 0.6, 0.85):
        for tol in (0.5, 0.1, 0.02, 3e-3, 4e-4):
            z = np.asarray(ppr(op, seed, alpha, 0.0, tol), float)
            products = np.ceil(np.log(tol) / np.log(1 - alpha))  # the least m: (1 - alpha)^m <= tol
            left = 1 - z.sum()
            assert left <= tol
            assert left == pytest.approx((1 - alpha) ** (products + 1), rel=1e-2, abs=2e-6)
