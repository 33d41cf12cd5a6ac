"""Sums over neighbours: every layout is the same linear map, in value and in both modes of
differentiation.
"""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.graph import aggregation
from ldp_jax.graph.aggregation import Segments
from tests.graph.test_propagation import GRAPH, N

EDGES = GRAPH.senders, GRAPH.receivers
RNG = np.random.default_rng(3)


def dense(weights=1.0):
    matrix = np.zeros((N, N))
    matrix[EDGES[::-1]] = weights
    return matrix


@cache
def layout(name):
    return (
        Segments(*map(jnp.asarray, EDGES)) if name == "segments" else aggregation.tables(*EDGES, N)
    )


total = jax.jit(lambda sums, h: sums.sum(h))
EVERY = pytest.mark.parametrize("name", ["segments", "tables"])
H = jnp.asarray(RNG.normal(size=(N, 3)), jnp.float32)
WEIGHTS = RNG.normal(size=len(GRAPH.senders)).astype(np.float32)


@EVERY
def test_a_sum_is_the_product_with_the_adjacency_matrix(name):
    degree = np.bincount(GRAPH.receivers, minlength=N)
    further = (degree.max() - aggregation._FIRST) // aggregation._FURTHER
    assert (degree.min(), further > 1, len(set(degree.tolist())) > 6) == (0, True, True)
    found = total(layout(name), H)
    np.testing.assert_allclose(found, dense() @ H, atol=1e-4)
    np.testing.assert_array_equal(found[-2:], 0.0)


@pytest.mark.parametrize("leaves", [0, 3, 4, 5, 12, 13, 40])
def test_a_star_of_any_size_is_summed(leaves):
    """A node with a row of its own, a further one, or more: the last neighbour of each counts."""
    hub = np.zeros(leaves, int)
    leaf = np.arange(1, leaves + 1)
    made = aggregation.tables(np.r_[leaf, hub], np.r_[hub, leaf], leaves + 2)
    h = jnp.arange(1.0, leaves + 3)
    wanted = [h[1 : leaves + 1].sum(), *np.ones(leaves), 0.0]
    assert total(made, h[:, None])[:, 0].tolist() == wanted


def test_induced_sums_keep_the_edges_within_parts():
    """In value, and in both modes; of one program, whatever the parts."""
    traces = []
    whole = layout("tables")

    @jax.jit
    def both(parts, h):
        traces.append(1)
        within = aggregation.Induced(whole, parts)
        square = lambda h: (within.sum(h) ** 2).sum() / 2  # noqa: E731
        return within.sum(h), jax.grad(square)(h), jax.jvp(within.sum, (h,), (h + 1,))[1]

    inside = RNG.integers(0, 3, N)  # a third in neither part
    for parts in (inside == np.array([[1], [2]]), np.stack([inside < 3, inside > 3])):
        kept = dense() * (parts.T.astype(float) @ parts)
        wanted = kept @ H, kept.T @ kept @ H, kept @ (H + 1)
        for found, value in zip(both(jnp.asarray(parts, jnp.float32), H), wanted, strict=True):
            np.testing.assert_allclose(found, value, atol=1e-3)
    assert len(traces) == 1


def test_what_is_outside_all_parts_does_not_come_in():
    """Not as infinity or NaN, either."""
    path = aggregation.tables(np.array([1, 0, 2, 1]), np.array([0, 1, 1, 2]), 3)
    within = aggregation.Induced(path, jnp.array([[1.0, 1.0, 0.0]]))
    for outside in (jnp.inf, jnp.nan):
        assert within.sum(jnp.array([1.0, 2.0, outside])).tolist() == [2.0, 1.0, 0.0]


def test_neighbours_of_a_large_graph_are_laid_out_near_each_other(monkeypatch):
    """A ring in random order: rows that are gathered are next to the row that gathers them."""
    ring = np.random.default_rng(0).permutation(400)
    pairs = np.concatenate(
        [np.stack([ring, np.roll(ring, 1)], 1), np.stack([np.roll(ring, 1), ring], 1)]
    )
    receivers, senders = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))].T
    h = np.random.default_rng(1).normal(size=(400, 2)).astype(np.float32)
    away, sums = [], []
    for large in (400, 0):
        monkeypatch.setattr(aggregation, "_LARGE", large)
        made = aggregation.tables(senders, receivers, 400)
        away.append(np.abs(np.asarray(made.first[:2, :-1]) - np.arange(400)).mean())
        sums.append(np.asarray(total(made, h)))
    assert away[1] < 5 < away[0]
    np.testing.assert_allclose(*sums, atol=1e-6)


def test_no_order_is_looked_for_around_a_hub(monkeypatch):
    """A star: SciPy's order takes the square of its hub's degree, and nothing is nearer by it."""
    monkeypatch.setattr(aggregation, "_LARGE", 0)
    rim = np.arange(1, 40)
    for hub, ordered in ((38, False), (39, True)):
        monkeypatch.setattr(aggregation, "_HUB", hub)
        senders = np.append(rim, np.zeros(39, np.int64))
        receivers = np.append(np.zeros(39, np.int64), rim)
        made = aggregation.tables(senders, receivers, 40)
        assert (made.order is not None) == ordered
        np.testing.assert_array_equal(total(made, np.ones((40, 1))), [[39.0]] + 39 * [[1.0]])


@EVERY
def test_both_modes_of_differentiation(name):
    """The map is linear: its tangent is itself, and the gradient of <c, A h> is A' c."""
    _, tangent = jax.jvp(partial(total, layout(name)), (H,), (H[::-1],))
    np.testing.assert_allclose(tangent, dense() @ H[::-1], atol=1e-4)
    gradient = jax.jit(jax.grad(lambda h, sums: (jnp.sin(sums.sum(h)) * H).sum()))(H, layout(name))
    np.testing.assert_allclose(gradient, dense().T @ (np.cos(dense() @ H) * H), atol=1e-3)


def test_both_modes_in_rows_and_weights():
    """Asymmetric weights: a layout that took the reverse edge's weight would be far off."""
    c = np.asarray(H[::-1], np.float64)
    function = layout("segments").sum
    value, tangent = jax.jit(partial(jax.jvp, function))((H, WEIGHTS), (H[::-1], WEIGHTS[::-1]))
    np.testing.assert_allclose(value, dense(WEIGHTS) @ H, atol=1e-4)
    np.testing.assert_allclose(
        tangent, dense(WEIGHTS) @ H[::-1] + dense(WEIGHTS[::-1]) @ H, atol=3e-4
    )
    to_h, to_w = jax.jit(jax.grad(lambda h, w: (function(h, w) * c).sum(), argnums=(0, 1)))(
        H, WEIGHTS
    )
    senders, receivers = EDGES
    np.testing.assert_allclose(to_h, dense(WEIGHTS).T @ c, atol=3e-4)
    np.testing.assert_allclose(to_w, (c[receivers] * np.asarray(H)[senders]).sum(1), atol=3e-4)


def test_a_gradient_of_gathers_scatters_no_edge():
    """The layout is there to gather, and so does its derivative: sums of rows are scattered, in
    order.
    """
    sums = layout("tables")
    text = jax.jit(jax.grad(lambda h, sums: (sums.sum(h) ** 2).sum())).lower(H, sums).as_text()
    assert "stablehlo.gather" in text
    scatters = [line for line in text.splitlines() if "stablehlo.scatter" in line]
    assert [line.count("indices_are_sorted = true") for line in scatters] == [1, 1]
