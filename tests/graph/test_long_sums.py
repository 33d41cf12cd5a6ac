"""Sums over many neighbours in float32: stars, hubs and power laws against float64, and their
derivatives.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from ldp_jax.core import long_sums
from ldp_jax.graph import aggregation, graphs
from ldp_jax.graph.aggregation import Segments
from ldp_jax.graph.propagation import kprop, operator, ppr, ppr_push
from ldp_jax.learning.models._attention import attend
from ldp_jax.servers.parts.rows import Rows, laid_out

LAYOUTS = "segment", "ell"
USUAL = (
    2e-7  # what float32 adds to a relative error, times alpha; a scatter of 200 leaves adds 5e-7
)
RANDOM = 2e-8  # the same of random numbers; a scatter adds up to 1e-7
STEP = 1.2e-6  # what it adds to one sum, of the sum of magnitudes


def star(leaves):
    return graphs.from_edges(
        np.stack([np.zeros(leaves, int), np.arange(1, leaves + 1)], 1), leaves + 1
    )


def power_law():
    """30 000 nodes, some with thousands of neighbours, and one with all of the first half."""
    rng = np.random.default_rng(5)
    ends = np.minimum(10_000 * rng.random((40_000, 2)) ** 4, 9_999).astype(int)
    hub = np.stack([np.full(5_000, 9_999), np.arange(5_000)], 1)
    pairs = np.concatenate([ends[ends[:, 0] != ends[:, 1]], hub])
    return graphs.from_edges(np.unique(np.sort(pairs, 1), axis=0), 10_000)


def transition(graph, r=0.0):
    """D^(r-1) A D^-r in float64."""
    n = graphs.num_nodes(graph)
    ends = np.asarray(graph.receivers), np.asarray(graph.senders)
    degree = np.maximum(np.bincount(ends[0], minlength=n), 1.0)
    return scipy.sparse.coo_array(
        (degree[ends[0]] ** (r - 1) * degree[ends[1]] ** -r, ends), (n, n)
    ).tocsr()


def exact(graph, x, alpha, r=0.0):
    """PPR by its power series in float64, to 1e-13."""
    step = transition(graph, r)
    term = alpha * np.asarray(x, float)
    total = term.copy()
    for _ in range(int(30 / alpha)):
        term = (1 - alpha) * (step @ term)
        total += term
    return total


POWER_LAW = power_law()
SIGNED = np.random.default_rng(6).standard_normal((10_000, 2)).astype(np.float32)
UNIFORM = np.random.default_rng(7).random((10_000, 2)).astype(np.float32)


@pytest.mark.parametrize("order", ["sorted", "any"])
def test_segments_of_all_lengths_are_exact_to_a_few_roundings(order):
    """Lengths around the block and its square; padding is dropped. Equal numbers round worst of
    all.
    """
    lengths = [0, 1, 31, 32, 33, 63, 64, 65, 95, 0, 1023, 1024, 1025, 2100, 70_000, 1, 0]
    ids = np.repeat(np.arange(len(lengths)), lengths).astype(np.int32)
    ids = np.append(ids, np.full(100, len(lengths), np.int32))
    if order == "any":
        ids = np.random.default_rng(0).permutation(ids)
    rows = np.stack(
        [np.full(len(ids), np.float32(0.1)), np.linspace(-1, 1, len(ids), dtype=np.float32)], 1
    )
    found = jax.jit(long_sums.segment_sum, static_argnums=2, static_argnames="any_order")(
        rows, ids, len(lengths), any_order=order == "any"
    )
    kept = ids < len(lengths)
    for column, size in ((0, 0.1), (1, 1.0)):
        wanted = np.bincount(
            ids[kept], weights=rows[kept, column].astype(float), minlength=len(lengths)
        )
        assert (np.abs(found[:, column] - wanted) <= STEP * size * np.array(lengths)).all()


def test_short_segments_are_added_up_as_by_a_scatter():
    """Up to 32 rows to the last bit, wherever they begin."""
    lengths = np.random.default_rng(1).integers(0, 33, 500)
    ids = np.repeat(np.arange(500), lengths).astype(np.int32)
    rows = jnp.asarray(np.random.default_rng(2).standard_normal((len(ids), 3)), jnp.float32)
    np.testing.assert_array_equal(
        long_sums.segment_sum(rows, ids, 500), jax.ops.segment_sum(rows, ids, num_segments=500)
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("leaves", [200, 20_000, 500_000])
def test_the_pagerank_of_a_constant_is_the_constant_beside_a_hub(layout, leaves):
    """Without parts the hub of 500 000 leaves has 0.978 (segment) and 0.997 (ell) at alpha 0.1."""
    op = operator(star(leaves), layout)
    alphas, tol = ((0.1,), 1e-5) if leaves > 20_000 else ((0.1, 0.01, 0.001), 1e-8)
    for alpha in alphas:
        z = np.asarray(ppr(op, np.ones(leaves + 1, np.float32), alpha, 0.0, tol), float)
        assert np.abs(z - 1).max() <= tol + USUAL / alpha


@pytest.mark.parametrize("layout", LAYOUTS)
def test_five_million_neighbours_are_added_up(layout):
    """A scatter is off by 4e-2 (segment) and 3e-3 (ell) of the sum."""
    leaves = 5_000_000
    ends = np.arange(1, leaves + 1, dtype=np.int32), np.zeros(leaves, np.int32)
    senders = np.concatenate([ends[0], ends[1]])
    receivers = np.concatenate([ends[1], ends[0]])
    neighbours = Segments(senders, receivers)
    if layout == "ell":
        degree = np.append(leaves, np.zeros(leaves, int))
        start = np.append(0, np.full(leaves, leaves))
        rows = aggregation.rows_of_neighbours(senders, start, degree, (4, 8), leaves + 1)
        neighbours = aggregation.NeighbourRows(*rows)
    h = np.full((leaves + 1, 1), np.float32(0.1))
    found = jax.jit(lambda neighbours, h: neighbours.sum(h)[0, 0])(neighbours, h)
    assert abs(float(found) / (leaves * float(h[0, 0])) - 1) <= STEP


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("r", [0.0, 0.5])
def test_pagerank_of_a_power_law_is_that_of_float64(layout, r):
    """In the norm that ``tol`` speaks of, of numbers of one sign and of both; so is its
    derivative.
    """
    op = operator(POWER_LAW, layout)
    alpha = 0.05
    weight = np.maximum(np.asarray(op.degree, float), 1)[:, None] ** (0.5 - r)
    for x in (SIGNED, UNIFORM):
        wanted = exact(POWER_LAW, x, alpha, r)
        off = np.linalg.norm(weight * (ppr(op, x, alpha, r, 1e-8) - wanted)) / np.linalg.norm(
            weight * wanted
        )
        assert off <= RANDOM / alpha
    slope = jax.grad(lambda x: (ppr(op, x, alpha, r, 1e-8) * UNIFORM).sum())(jnp.asarray(SIGNED))
    wanted = exact(POWER_LAW, UNIFORM, alpha, 1 - r)
    off = np.linalg.norm((slope - wanted) / weight) / np.linalg.norm(wanted / weight)
    assert off <= RANDOM / alpha


@pytest.mark.parametrize("layout", LAYOUTS)
def test_kprop_and_push_beside_hubs(layout):
    op = operator(star(20_000), layout)
    ones = np.ones(20_001, np.float32)
    assert np.abs(np.asarray(kprop(op, ones, 7, normalisation="mean"), float) - 1).max() <= 7 * STEP
    assert (
        np.abs(np.asarray(ppr_push(op, ones, 0.1, 0.0, 1e-7), float) - 1).max()
        <= USUAL / 0.1 + 1e-7
    )
    step = transition(POWER_LAW)
    wanted = SIGNED.astype(float)
    size = np.abs(SIGNED).astype(float)
    for _ in range(3):
        wanted, size = step @ wanted, step @ size
    found = kprop(operator(POWER_LAW, layout), SIGNED, 3, normalisation="mean")
    assert (np.abs(found - wanted) <= 3 * STEP * size + 1e-12).all()


def test_a_traced_graph_has_the_sums_of_a_laid_out_one():
    """Also of several graphs at once, of which one has a hub."""
    many = [star(500), graphs.from_edges(np.stack([np.arange(500), np.arange(1, 501)], 1), 501)]
    ends = jnp.stack([jnp.stack([g.senders, g.receivers]) for g in many])
    found = jax.jit(jax.vmap(lambda e: Segments(e[0], e[1]).sum(jnp.full(501, 0.1))))(ends)
    degree = [np.bincount(g.receivers, minlength=501) for g in many]
    np.testing.assert_allclose(found, 0.1 * np.array(degree), rtol=STEP)


def test_the_derivative_of_a_directed_sum_adds_up_a_hubs_edges_in_parts():
    """One node sends to all: the transpose is its long sum."""
    n = 200_000
    edges = Segments(np.zeros(n - 1, np.int32), np.arange(1, n, dtype=np.int32))
    slope = jax.jit(lambda edges: jax.grad(lambda h: (0.1 * edges.sum(h)).sum())(jnp.ones(n)))(
        edges
    )
    assert abs(float(slope[0]) / (0.1 * (n - 1)) - 1) <= STEP
    assert not np.asarray(slope[1:]).any()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_attention_to_many_is_a_mean_and_its_derivative_adds_up_to_one(layout):
    """Equal scores: the hub's output is the mean, whatever their number. A scatter is off by
    1e-3.
    """
    leaves = 100_000
    neighbours = operator(star(leaves), layout).neighbours
    flat = jnp.zeros((leaves + 1, 1))
    h = jnp.full((leaves + 1, 1, 1), 0.1)
    of_all = lambda neighbours, h: attend(neighbours, flat, flat, h).sum()
    found = jax.jit(attend)(neighbours, flat, flat, h)
    np.testing.assert_allclose(found, 0.1, rtol=2 * STEP)
    slope = np.asarray(jax.jit(jax.grad(of_all, 1))(neighbours, h), float)[:, 0, 0]
    np.testing.assert_allclose(slope[0], leaves / 2 + 1 / (leaves + 1), rtol=2 * STEP)
    np.testing.assert_allclose(slope[1:], 0.5 + 1 / (leaves + 1), rtol=2 * STEP)


def test_degrees_are_counted_beyond_what_float32_counts_by_ones():
    assert float(graphs.degree(np.zeros(2**24 + 2, np.int32), 1)[0]) == 2**24 + 2


def test_means_on_the_host_do_not_add_up_float32_row_by_row():
    """NumPy's are off by 2e-3."""
    assert (
        abs(long_sums.column_means(np.full((300_000, 2), np.float32(0.1)))[0] / np.float32(0.1) - 1)
        < 1e-6
    )


def test_a_column_that_all_users_have_is_added_up_in_parts():
    """The transpose of sparse rows; one line after another is off by 1.4e-3."""
    n = 1_200_000
    rows = Rows(
        np.arange(n, dtype=np.int32), np.zeros(n, np.int32), np.ones(n, np.float32), shape=(n, 8)
    )
    tables = laid_out(rows)
    found = jax.jit(lambda tables, h: tables.transposed(h))(
        tables, jnp.full((tables.shape[0], 1), 0.1)
    )
    assert abs(float(found[0, 0]) / (n * float(np.float32(0.1))) - 1) <= STEP


@pytest.mark.parametrize("any_order", [False, True])
def test_rows_of_no_segment_are_dropped(any_order):
    """Whole numbers, whose sums are exact; segments end at, before and after the ends of blocks."""
    rng = np.random.default_rng(0)
    segments = 9
    add = jax.jit(lambda rows, ids: long_sums.segment_sum(rows, ids, segments, any_order=any_order))
    for seed in range(40):
        ids = rng.integers(-3, segments + 4, 300)
        if seed % 2:
            ids = np.clip(ids, rng.integers(-1, 5), rng.integers(5, segments + 2))
        ids = ids if any_order else np.sort(ids)
        rows = rng.integers(-50, 50, 300).astype(np.float32)
        wanted = [rows[ids == segment].sum() for segment in range(segments)]
        np.testing.assert_array_equal(add(rows, ids.astype(np.int32)), wanted)
