"""Four ways to the same embedding, each held to the error it states."""

import functools

import jax
import jax.numpy as jnp
import networkx
import numpy as np
import pytest

from ldp_jax import graphs, propagation
from ldp_jax.propagation import chebyshev_steps, operator, ppr, ppr_dense, ppr_power, ppr_push, ppr_rows

N = 60


@functools.cache
def graph():
    """Two components, a hub of degree 20 (several gather widths), and six isolated nodes: 35 and 55 to 59."""
    rng = np.random.default_rng(0)
    pairs = {(i, i + 1) for i in range(34)} | {(0, i) for i in range(2, 21)} | {(36, i) for i in range(37, 55)}
    pairs |= {tuple(sorted(p)) for p in rng.integers(0, 35, (60, 2)).tolist() if p[0] != p[1]}
    return graphs.from_edges(np.array(sorted(pairs)), N)


@functools.cache
def columns(count=3):
    return np.random.default_rng(1).standard_normal((N, count)).astype(np.float32)


def weighted_error(z, exact, r):
    """Relative error, column by column, in the D^(1/2 - r)-weighted norm that tol is about."""
    degree = np.bincount(graph().receivers, minlength=N)
    weight = np.maximum(degree, 1.0)[:, None] ** (0.5 - r)
    return (np.linalg.norm(weight * (z - exact), axis=0) / np.linalg.norm(weight * exact, axis=0)).max()


@pytest.mark.parametrize("layout", ["segment", "ell"])
@pytest.mark.parametrize("r", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.5, 1.0])
def test_chebyshev_keeps_its_tolerance(alpha, r, layout):
    """Detects an error above tol + 3e-6 (float32): a recurrence one product short has 1.4 to 20 times tol."""
    exact = ppr_dense(graph(), columns(), alpha, r)
    op = operator(graph(), layout)
    for tol in (1e-2, 1e-5):
        assert weighted_error(ppr(op, columns(), alpha, r, tol), exact, r) <= tol + 3e-6


@pytest.mark.parametrize("r", [0.0, 0.3, 0.5, 1.0])
def test_the_four_ways_agree(r):
    alpha = 0.1
    exact = ppr_dense(graph(), columns(), alpha, r)
    degree = np.maximum(np.bincount(graph().receivers, minlength=N), 1.0)[:, None]
    largest = np.abs(columns() / degree**r).max()
    power = ppr_power(graph(), columns(), alpha, r, tol=1e-5)
    assert (np.abs(power - exact) / degree**r).max() <= 1.1e-5 * largest + 2e-6
    for r_max in (1e-2, 1e-4):
        push = ppr_push(operator(graph()), columns(), alpha, r, r_max)
        assert (np.abs(push - exact) <= r_max * degree**r + 2e-6 * degree**r).all()


def test_isolated_nodes_keep_alpha_x():
    z = ppr(graph(), columns(), 0.3, 0.5)
    np.testing.assert_allclose(z[55:], 0.3 * columns()[55:], rtol=2e-5)


def test_against_networkx_personalized_pagerank():
    """Rows of Pi for r = 0 are PageRank personalised to the node, where every node has an edge."""
    g = networkx.karate_club_graph()
    ours = ppr_rows(graphs.from_edges(np.array(g.edges()), 34), [0, 5, 33], 0.15, 0.0)
    for row, node in zip(ours, (0, 5, 33), strict=True):
        theirs = networkx.pagerank(g, alpha=0.85, personalization={node: 1.0}, weight=None, tol=1e-12, max_iter=500)
        np.testing.assert_allclose(row, [theirs[v] for v in range(34)], atol=2e-6)


@pytest.mark.parametrize("r", [0.0, 0.7])
def test_rows_of_pi_and_their_sums(r):
    """r = 0: 1 for a node with edges, alpha for one without; else d_v^r sum_u Pi_0(v, u) d_u^-r (erratum 3)."""
    pi = np.asarray(ppr_rows(graph(), np.arange(N), 0.2, r))
    np.testing.assert_allclose(pi, ppr_dense(graph(), np.eye(N), 0.2, r), atol=1e-5)
    degree = np.maximum(np.bincount(graph().receivers, minlength=N), 1.0)
    pi0 = ppr_dense(graph(), np.eye(N), 0.2, 0.0)
    np.testing.assert_allclose(pi.sum(1), degree**r * (pi0 @ degree**-r), rtol=1e-4)
    if r == 0.0:
        alone = np.isin(np.arange(N), [35, *range(55, 60)])
        np.testing.assert_allclose(pi.sum(1), np.where(alone, 0.2, 1.0), rtol=3e-5)


@pytest.mark.parametrize("layout", ["segment", "ell"])
def test_gradient_is_the_transpose(layout):
    op = operator(graph(), layout)
    x, weights = jnp.asarray(columns()), jnp.asarray(columns()[::-1].copy())
    gradient = jax.grad(lambda x: (weights * ppr(op, x, 0.1, 0.3)).sum())(x)
    np.testing.assert_allclose(gradient, ppr_dense(graph(), weights, 0.1, 0.7), atol=1e-4)
    direction = jnp.cos(jnp.arange(x.size, dtype=jnp.float32)).reshape(x.shape)
    slope = (weights * ppr(op, direction, 0.1, 0.3)).sum()  # Z is linear in x
    np.testing.assert_allclose((gradient * direction).sum(), slope, rtol=1e-4)
    by_alpha = jax.grad(lambda alpha: ppr(op, x, alpha, 0.3).sum())(0.1)
    assert by_alpha == 0.0  # alpha is a constant to a gradient, as the docstring says


def test_one_program_for_a_sweep():
    op = operator(graph())
    ppr(op, columns(), 0.1, 0.5)
    before = propagation._ppr._cache_size()
    for alpha, r, tol in ((0.05, 0.5, 1e-5), (0.5, 0.0, 1e-5), (0.9, 1.0, 1e-2)):
        ppr(op, columns(), alpha, r, tol)
    assert propagation._ppr._cache_size() == before


def test_wide_and_narrow_columns():
    wide = columns(propagation.block_width() * 2 + 5)
    exact = ppr_dense(graph(), wide, 0.2, 0.5)
    np.testing.assert_allclose(ppr(graph(), wide, 0.2, 0.5), exact, atol=1e-4)
    np.testing.assert_allclose(ppr(graph(), wide[:, 0], 0.2, 0.5), exact[:, 0], atol=1e-4)


def test_stacked_operators_and_traced_graphs():
    edges = graphs.to_edges(graph())
    other = graphs.from_edges(59 - edges, N)  # as many edges between other nodes
    ops = [operator(g, "segment") for g in (graph(), other)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *ops)
    z = jax.vmap(lambda op: ppr(op, columns(), 0.2, 0.5))(stacked)
    exact = ppr_dense(graph(), columns(), 0.2, 0.5)
    np.testing.assert_allclose(z[0], exact, atol=1e-4)
    np.testing.assert_allclose(z[1], ppr_dense(other, columns(), 0.2, 0.5), atol=1e-4)
    traced = jax.jit(lambda g, x: ppr(g, x, 0.2, 0.5))(graph(), jnp.asarray(columns()))
    np.testing.assert_allclose(traced, exact, atol=1e-4)


def test_power_on_a_directed_graph():
    directed = graph()._replace(
        senders=np.array([0, 1, 2, 0], np.int32), receivers=np.array([1, 2, 0, 2], np.int32), n_node=np.array([4])
    )
    x = np.eye(4, dtype=np.float32)
    np.testing.assert_allclose(ppr_power(directed, x, 0.2, 0.3), ppr_dense(directed, x, 0.2, 0.3), atol=1e-4)
    with pytest.raises(ValueError, match="must be symmetric"):
        operator(directed)


def test_steps():
    """The count that the residual polynomial needs: 1 / T_(m+1)(1 / 0.9) is under 1e-5 first at m = 26."""
    assert int(chebyshev_steps(0.1, 1e-5)) == 26
    assert 1 / np.cosh(27 * np.arccosh(1 / 0.9)) <= 1e-5 < 1 / np.cosh(26 * np.arccosh(1 / 0.9))
    assert int(chebyshev_steps(1.0, 1e-5)) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 0.0}, r"alpha must be in \(0.0, 1.0\]"),
        ({"alpha": float("nan")}, "alpha must be"),
        ({"r": 1.5}, r"r must be in \[0.0, 1.0\], got 1.5"),
        ({"tol": 0.0}, "tol must be"),
        ({"x": np.zeros((3, 1), np.float32)}, "a row for each of 60 nodes"),
    ],
)
def test_bad_arguments_are_refused(change, message):
    arguments = {"x": columns(), "alpha": 0.1, "r": 0.5, "tol": 1e-5, **change}
    with pytest.raises(ValueError, match=message):
        ppr(graph(), **arguments)


@pytest.mark.usefixtures("untyped")
def test_bad_graphs_and_layouts_are_refused():
    with pytest.raises(ValueError, match="layout must be one of auto, segment, ell"):
        operator(graph(), "csr")
    outside = graph()._replace(senders=np.array([0, 99], np.int32), receivers=np.array([99, 0], np.int32))
    with pytest.raises(ValueError, match="outside its nodes"):
        operator(outside)
