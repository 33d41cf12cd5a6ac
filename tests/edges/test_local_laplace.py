"""LocalLap: its law by quadrature, by brute force and from one user's reports; its guarantee; its limits."""

import functools
import itertools
import math
import time
import tracemalloc

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from scipy import special
from scipy import stats as scipy_stats

from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP
from ldp_jax.core import random_words
from ldp_jax.edges import LapReport, LocalLap, NeighbourList, _sparse, local_laplace, privatize_graph
from ldp_jax.graph import graphs
from ldp_jax.graph.graphs import GraphSet
from tests import stats

EDGES = np.array([[0, 1], [0, 2], [0, 3], [1, 2]])
N = 5
PAIRS = list(itertools.combinations(range(N), 2))


def copies(count, edges=EDGES, n=N):
    shifted = (edges[None] + n * np.arange(count)[:, None, None]).reshape(-1, 2)
    graph = graphs.from_edges(shifted, n * count)
    return GraphSet.from_edges(graph.senders, graph.receivers, np.repeat(np.arange(count), n), np.zeros(count, int))


def bits_of(noisy, count, n=N):
    """bool [count, n, n]; symmetric, no pair twice, no pair across graphs."""
    to, of = np.asarray(noisy.graph.receivers), np.asarray(noisy.graph.senders)
    bits = np.zeros((count, n, n), bool)
    bits[to // n, to % n, of % n] = True
    assert (to // n == of // n).all()
    assert bits.sum() == len(to), "a pair was reported twice"
    np.testing.assert_array_equal(bits, bits.swapaxes(1, 2))
    assert not bits[:, np.arange(n), np.arange(n)].any()
    return bits


def dense(n=N, edges=EDGES):
    matrix = np.zeros((n, n), bool)
    matrix[edges[:, 0], edges[:, 1]] = matrix[edges[:, 1], edges[:, 0]] = True
    return matrix


def lists(n=N, edges=EDGES):
    """The neighbour lists of all users, stacked."""
    ids = np.sort(np.where(dense(n, edges), np.arange(n), n), 1).astype(np.int32)
    return NeighbourList(jnp.asarray(ids), jnp.asarray((ids < n).sum(1), jnp.int32))


def size_law(mean, users, scale, pairs):
    """P(T = 0), ..., P(T = pairs): a sum of Laplace noise from its characteristic function, rounded, clipped."""
    t = (np.arange(400_000) + 0.5) * (2000 / scale / 400_000)
    transform = (1 + (t * scale) ** 2) ** -float(users)
    cuts = np.arange(pairs) + 0.5 - mean
    below = 0.5 + np.array([(np.sin(x * t) / t * transform).sum() * (t[1] - t[0]) for x in cuts]) / np.pi
    return np.diff(np.concatenate([[0.0], below, [1.0]]))


@functools.cache  # a long quadrature, and every path has the same law
def kept_law(edges, true, false, epsilon):
    """P(a of the true pairs are among the ``edges`` largest), a = 0, ..., true: quadrature over the smallest kept.

    A set is chosen where its smallest value, of law -d(S_1^a S_0^b), is above all others'.
    """
    t = np.linspace(-60 / epsilon, 1 + 60 / epsilon, 200_001)
    middle = (t[1:] + t[:-1]) / 2
    tails = [scipy_stats.laplace(mean, 1 / epsilon).sf(t) for mean in (1, 0)]
    heads = [scipy_stats.laplace(mean, 1 / epsilon).cdf(middle) for mean in (1, 0)]
    law = np.zeros(true + 1)
    if edges == 0:
        law[0] = 1.0
        return law
    for a in range(max(0, edges - false), min(true, edges) + 1):
        b = edges - a
        sets = special.comb(true, a) * special.comb(false, b)
        smallest = -np.diff(tails[0] ** a * tails[1] ** b)
        law[a] = sets * (smallest * heads[0] ** (true - a) * heads[1] ** (false - b)).sum()
    return law


def force(monkeypatch, path):
    """Choose how false pairs are drawn; returns the list in which the rounds of each call are counted."""
    if path != "default":
        monkeypatch.setattr(local_laplace, "_DENSE", -1.0 if path == "list" else 2.0)
    if path == "rounds":
        monkeypatch.setattr(local_laplace, "_MARGIN", 0.1)
        monkeypatch.setattr(local_laplace, "_EXTRA", 1)
    rounds = []
    inner = local_laplace._ends
    monkeypatch.setattr(local_laplace, "_ends", lambda *args: (rounds.append(1), inner(*args))[1])
    return rounds


@jax.jit
def logs_of(m, reports, records, own):
    """log p of stacked reports about each of stacked lists."""
    return jax.vmap(lambda x: jax.vmap(lambda y: m.log_density(y, x, own))(reports))(records)


@jax.jit
def draws(m, keys, neighbours, own):
    return jax.vmap(lambda key: m.privatize(key, neighbours, own))(keys)


# --- One law ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "reporting"),
    [("list", "half list"), ("draws", "half list"), ("rounds", "half list"), ("default", "half")],
)
def test_edge_sets_follow_the_law(monkeypatch, path, reporting):
    """60 000 copies of five nodes, three ways to draw false pairs: T, how many true pairs are kept, and which set.

    The G test of (T, kept), about 30 cells, detects a total variation of 0.025. Given both, sets of one kind are
    equally likely: a G test over the 1024 sets detects 0.05, and each pair's share is right to 0.01.
    """
    count = 60_000
    m = LocalLap(0.8, 1.5)
    rounds = force(monkeypatch, path)
    graph = copies(count)
    noisy = privatize_graph(jax.random.key(0), graph, m, reporting=reporting)
    assert {"list": len(rounds) == 0, "rounds": len(rounds) > 5}.get(path, True)
    bits = bits_of(noisy, count)
    truth = dense()
    total = bits.sum((1, 2)) // 2
    kept = (bits & truth).sum((1, 2)) // 2
    # The reported degrees say T.
    sums = noisy.degree.reshape(count, N).astype(np.float64).sum(1) / (2 if reporting == "half list" else 1)
    np.testing.assert_array_equal(total, np.clip(np.rint(sums), 0, 10))
    sizes = size_law(4, N, (0.5 if reporting == "half list" else 1.0) / 0.8, 10)
    np.testing.assert_allclose(sizes.sum(), 1.0, atol=1e-6)
    joint = np.array([p * kept_law(k, 4, 6, 1.5) for k, p in enumerate(sizes)])
    np.testing.assert_allclose(joint.sum(1), sizes, atol=1e-6)
    stats.assert_g(np.bincount(total * 5 + kept, minlength=55), joint.ravel() / joint.sum())
    # Every set of a kind alike.
    words = sum(bits[:, i, j].astype(int) << k for k, (i, j) in enumerate(PAIRS))
    sets = np.arange(1024)[:, None] >> np.arange(10) & 1
    true = np.array([truth[i, j] for i, j in PAIRS])
    a, k = sets[:, true].sum(1), sets.sum(1)
    law = joint[k, a] / (special.comb(4, a) * special.comb(6, k - a))
    stats.assert_g(np.bincount(words, minlength=1024), law / law.sum())
    for at, (i, j) in enumerate(PAIRS):
        stats.assert_share(bits[:, i, j].sum(), count, float(law @ sets[:, at] / law.sum()))


def test_one_users_reports_and_brute_force_have_that_law():
    """Edge sets from all users' reports and the server's choice, and from NumPy's own Laplace noise, 60 000 each.

    A table of sets that were seen more than 20 times: detects a total variation of 0.07.
    """
    count = 60_000
    m = LocalLap(0.8, 1.5, n=N)
    graph = copies(count)
    truth = dense()

    def server(key, reporting):
        keys, m = jax.random.split(key, N), LocalLap(0.8, 1.5, n=N, reporting=reporting)
        y = jax.vmap(lambda k, x, own: m.privatize(k, x, own))(keys, lists(), jnp.arange(N))
        return m.select(y)

    rng = np.random.default_rng(1)
    places = np.array(PAIRS)
    noise = rng.laplace(scale=1 / 1.5, size=(count, 10)) + truth[places[:, 0], places[:, 1]]
    rank = np.argsort(np.argsort(-noise, 1), 1)
    for number, reporting in enumerate(("half list", "half")):
        bits = [
            bits_of(privatize_graph(jax.random.key(2), graph, m, reporting=reporting), count),
            np.asarray(
                jax.jit(jax.vmap(lambda key, p=reporting: server(key, p)))(
                    jax.random.split(jax.random.key(3 + number), count)
                )
            ),
        ]
        degrees = truth.sum(1) + rng.laplace(scale=1 / 0.8, size=(count, N))
        total = np.rint(degrees.sum(1) / 2)
        if reporting == "half":
            total = np.rint(4 + rng.laplace(scale=1 / 0.8, size=(count, N)).sum(1))
        brute = rank < np.clip(total, 0, 10)[:, None]
        words = [sum(b[:, i, j].astype(int) << k for k, (i, j) in enumerate(PAIRS)) for b in bits]
        words.append(brute @ (1 << np.arange(10)))
        for one, other in itertools.combinations(words, 2):
            table = np.stack([np.bincount(w, minlength=1024) for w in (one, other)])
            table = table[:, table.sum(0) > 20]
            assert scipy_stats.chi2_contingency(table).pvalue > stats.SIGNIFICANCE


def test_reports_follow_their_density():
    """100 000 reports of one user: KS of her degree and values, 0.017; NaN where she owns nothing."""
    m = LocalLap(0.7, 2.0, n=N)
    neighbours = NeighbourList(jnp.array([0, 1, 5, 5, 5]), jnp.int32(2))
    y = draws(m, jax.random.split(jax.random.key(5), 100_000), neighbours, 2)
    # User 2 owns the pairs with 1 (odd sum, the higher place) and 4 (even sum, the lower place).
    np.testing.assert_array_equal(np.isnan(y.values[0]), [True, False, True, True, False])
    stats.assert_ks(np.asarray(y.degree), scipy_stats.laplace(2, 1 / 0.7).cdf)
    stats.assert_ks(np.asarray(y.values[:, 1]), scipy_stats.laplace(1, 0.5).cdf)
    stats.assert_ks(np.asarray(y.values[:, 4]), scipy_stats.laplace(0, 0.5).cdf)
    z = [np.asarray(v, np.float64) for v in (y.degree - 2, y.values[:, 1] - 1, y.values[:, 4])]
    for one, other in itertools.combinations(z, 2):
        assert abs((np.sign(one) * np.sign(other)).sum()) < 5 * math.sqrt(len(one))
    expected = sum(
        scipy_stats.laplace(m, 1 / e).logpdf(v[:9]) for v, m, e in zip(z, (0, 0, 0), (0.7, 2, 2), strict=True)
    )
    reports = LapReport(y.degree[:9], y.values[:9])
    padded = jax.tree.map(lambda leaf: leaf[None], neighbours)
    np.testing.assert_allclose(logs_of(m, reports, padded, 2)[0], expected, rtol=1e-4)


def test_noise_has_a_long_tail():
    """Laplace noise of 1e6 draws: the share beyond 10 scales, 45 due."""
    draws = np.abs(_sparse.drawn(random_words.laplace, jax.random.key(6), 1_000_000))
    stats.assert_share((draws > 10).sum(), len(draws), math.exp(-10))
    stats.assert_ks(draws[:200_000], scipy_stats.expon.cdf)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0, 100.0])
def test_scores_of_true_pairs(epsilon):
    """P(Lap > 1 + L) where P(Lap > L) = u, against SciPy; small ones to 1e-12 of themselves."""
    u = np.concatenate([np.logspace(-18, -0.31, 50), np.linspace(0.01, 0.999, 50), [1.0]])
    laplace = scipy_stats.laplace(0, 1 / epsilon)
    with np.errstate(over="ignore"):
        expected = laplace.sf(1 + laplace.isf(u[:-1]))
    scores = local_laplace._true_scores(u, epsilon)
    np.testing.assert_allclose(scores[:-1], expected, rtol=1e-9, atol=0)
    assert (np.diff(local_laplace._true_scores(np.sort(u), epsilon)) >= 0).all()
    assert (scores > 0).all()
    assert (scores <= 1).all()


def test_the_next_smallest_of_many_uniforms():
    """KS of 50 000 order statistics each against their Beta laws, of 10 and of 5e9 uniforms: 0.024."""
    repeats = 50_000
    count = np.tile([10, 10, 5_000_000_000, 10], repeats)
    k = np.tile([0, 7, 3, 10], repeats)
    draws = local_laplace._next_smallest(jax.random.key(7), count, k).reshape(repeats, 4)
    stats.assert_ks(draws[:, 0], scipy_stats.beta(1, 10).cdf)
    stats.assert_ks(draws[:, 1], scipy_stats.beta(8, 3).cdf)
    stats.assert_ks(draws[:, 2], scipy_stats.beta(4, 5_000_000_000 - 3).cdf)
    assert (draws[:, 3] == 1).all()


@pytest.mark.parametrize("path", ["default", "list", "rounds"])
def test_a_sparse_graph_by_every_path(monkeypatch, path):
    """4000 copies of 40 nodes and 111 edges, T known: kept pairs (G test, 0.1) and each pair's share (0.05)."""
    n, count = 40, 4_000
    edges = np.array(nx.barabasi_albert_graph(n, 3, seed=1).edges())
    rounds = force(monkeypatch, path)
    graph = copies(count, edges, n)
    noisy = privatize_graph(jax.random.key(8), graph, LocalLap(100.0, 2.5))
    assert {"default": len(rounds) in (1, 2, 3), "list": not rounds, "rounds": len(rounds) > 10}[path]
    bits = bits_of(noisy, count, n)
    truth, true = dense(n, edges), len(edges)
    assert (bits.sum((1, 2)) == 2 * true).all()  # T is 11 standard deviations from another number
    law = kept_law(true, true, n * (n - 1) // 2 - true, 2.5)
    np.testing.assert_allclose(law.sum(), 1.0, atol=3e-4)  # the quadrature's error, far below the draws'
    stats.assert_g(np.bincount((bits & truth).sum((1, 2)) // 2, minlength=true + 1), law / law.sum())
    share = law @ np.arange(true + 1)
    shares = np.where(truth, share / true, (true - share) / (n * (n - 1) // 2 - true))
    low, high = np.triu_indices(n, 1)
    seen, due = bits.sum(0)[low, high], shares[low, high]
    z = (seen - count * due) / np.sqrt(count * due * (1 - due))
    assert np.abs(z).max() < 6  # of 780 pairs: significance 2e-6
    # Two false pairs of one node are as good as independent.
    i, j = np.flatnonzero(~truth[0])[1:3]
    off = (bits[:, 0, i] - shares[0, i]) * (bits[:, 0, j] - shares[0, j])
    assert abs(off.mean()) < 5 * off.std() / math.sqrt(count) + 1e-3


def test_sets_of_unequal_graphs():
    """Single nodes, empty graphs, full ones and large ones in one call: T of each its own, no edge between two."""
    parts = [nx.empty_graph(1), nx.complete_graph(6), nx.barabasi_albert_graph(60, 2, seed=0), nx.empty_graph(7)]
    parts = [parts[k] for k in (0, 2, 1, 0, 3, 2, 0)]
    whole = nx.disjoint_union_all(parts)
    node_graph = np.repeat(np.arange(len(parts)), [len(p) for p in parts])
    graph = graphs.from_edges(np.array(whole.edges()), len(whole))
    several = GraphSet.from_edges(graph.senders, graph.receivers, node_graph, np.zeros(len(parts), int))
    noisy = privatize_graph(jax.random.key(9), several, LocalLap(100.0, 0.5))
    found = graphs.to_edges(noisy.graph)
    assert (node_graph[found[:, 0]] == node_graph[found[:, 1]]).all()
    per_graph = np.bincount(node_graph[found[:, 0]], minlength=len(parts))
    np.testing.assert_array_equal(per_graph, [p.number_of_edges() for p in parts])
    assert len(np.unique(found, axis=0)) == len(found)


def test_public_users_are_released_as_they_are():
    """30 000 copies, one public user: her list, and among the others the law of the graph without her."""
    count = 30_000
    graph = copies(count)
    public = np.tile([False, True, False, False, False], count)
    rest = [0, 2, 3, 4]
    truth = dense()
    noisy = privatize_graph(jax.random.key(10), graph, LocalLap(0.8, 1.5), public=public)
    bits = bits_of(noisy, count)
    assert (bits[:, 1] == truth[1]).all()
    degree = noisy.degree.reshape(count, N)
    assert (degree[:, 1] == 2).all()
    for i in rest:  # degrees are of whole lists
        stats.assert_ks(degree[:, i].astype(np.float64), scipy_stats.laplace(truth[i].sum(), 1 / 0.8).cdf)
    inner = bits[:, rest][:, :, rest]
    total, kept = inner.sum((1, 2)) // 2, (inner & truth[np.ix_(rest, rest)]).sum((1, 2)) // 2
    joint = np.array([p * kept_law(k, 2, 4, 1.5) for k, p in enumerate(size_law(2, 4, 0.5 / 0.8, 6))])
    stats.assert_g(np.bincount(total * 3 + kept, minlength=21), joint.ravel() / joint.sum())
    assert "lists of public users" in noisy.guarantee.unprotected
    everyone = privatize_graph(jax.random.key(11), graph, LocalLap(0.8, 1.5), public=public | True)
    np.testing.assert_array_equal(everyone.graph.senders, graph.senders)


def test_a_larger_graph_is_fast_and_never_dense():
    """3000 nodes: T edges exactly, as many true ones as the law says (five sigma), and no memory of 4.5e6 pairs."""
    n = 3000
    edges = np.array(nx.barabasi_albert_graph(n, 3, seed=2).edges())
    graph, m = graphs.from_edges(edges, n), LocalLap.from_epsilon(5.0)
    privatize_graph(jax.random.key(12), graph, m)
    tracemalloc.start()
    start = time.perf_counter()
    noisy = privatize_graph(jax.random.key(13), graph, m)
    seconds, peak = time.perf_counter() - start, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seconds < 5  # about 0.005 on an idle core
    assert peak < 5e6
    found = graphs.to_edges(noisy.graph)
    total = len(found)
    assert total == round(noisy.degree.astype(np.float64).sum() / 2)
    assert abs(total - len(edges)) < 5 * math.sqrt(n / 2) / 0.5
    code = np.sort(edges.min(1) * n + edges.max(1))
    kept = np.isin(found[:, 0].astype(np.int64) * n + found[:, 1], code).sum()
    # The value above which T pairs are expected.
    one, none = (scipy_stats.laplace(mean, 1 / 4.5).sf for mean in (1, 0))
    false = n * (n - 1) // 2 - len(edges)
    t = np.linspace(0, 5, 100_001)
    above = t[np.searchsorted(-(len(edges) * one(t) + false * none(t)), -total)]
    share = one(above)
    # Given T the number is less spread than a Binomial.
    assert abs(kept - len(edges) * share) < 5 * math.sqrt(len(edges) * share * (1 - share))


# --- Guarantees ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reporting", ["half list", "half"])
def test_reports_lose_what_the_guarantee_says(reporting):
    """All lists of all four users, all that differ in a bit, reports at and between all kinks, in float64.

    A log ratio of Laplace densities is monotone between kinks and constant beyond them: a grid of both is exact.
    """
    m = LocalLap(0.3, 0.7, n=4, reporting=reporting)
    worst = np.zeros((4, 4))
    with jax.enable_x64(True):
        for own in range(4):
            others = [j for j in range(4) if j != own]
            records = [s for r in range(4) for s in itertools.combinations(others, r)]
            padded = NeighbourList(
                jnp.array([[*s, *[4] * (4 - len(s))] for s in records]), jnp.array([len(s) for s in records])
            )
            owned = [j for j in others if ((own + j) % 2 == 0) == (j > own)]
            grid = list(itertools.product([-1.0, 0, 0.4, 1, 1.6, 2, 3, 5], *[[-1, 0, 0.3, 1, 2]] * len(owned)))
            values = np.full((len(grid), 4), np.nan)
            values[:, owned] = np.array(grid)[:, 1:]
            reports = LapReport(jnp.array([g[0] for g in grid]), jnp.asarray(values))
            logs = np.array(logs_of(m, reports, padded, own))
            assert np.isfinite(logs).all()
            for a, b in itertools.combinations(range(len(records)), 2):
                changed = set(records[a]) ^ set(records[b])
                if len(changed) == 1:
                    (j,) = changed
                    worst[own, j] = max(worst[own, j], np.abs(logs[a] - logs[b]).max())
    pairs = np.array([worst[i, j] + worst[j, i] for i, j in itertools.combinations(range(4), 2)])
    assert worst.max() == pytest.approx(1.0, rel=1e-9)
    assert m.guarantee().epsilon == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(pairs, 1.3 if reporting == "half list" else 1.0, rtol=1e-9)
    assert m.relationship(reporting).epsilon == pytest.approx(pairs.max(), rel=1e-9)


def test_guarantees_have_units():
    m = LocalLap.from_epsilon(1.0)
    assert (m.epsilon_degree, m.epsilon_edges) == pytest.approx((0.1, 0.9))
    assert m.guarantee().epsilon == 1.0  # never above what was asked for
    noisy = privatize_graph(jax.random.key(0), graphs.from_edges(EDGES, N), m)
    assert noisy.guarantee[NEIGHBOUR_LIST].epsilon == pytest.approx(1.0)
    assert noisy.guarantee[RELATIONSHIP].epsilon == pytest.approx(1.1)
    assert noisy.guarantee.unprotected == ("number of nodes",)
    stack = jax.vmap(LocalLap)(jnp.array([0.5, 0.25]), jnp.array([1.0, 2.0]))
    assert stack.guarantee().epsilon == 2.25
    assert stack.relationship().epsilon == 2.75


def test_impossible_reports_have_no_density():
    m = LocalLap(0.5, 0.5, n=3)
    nobody = NeighbourList(jnp.array([3, 3, 3]), jnp.int32(0))
    possible = [math.nan, math.nan, 0.2]  # user 0 owns the pair with 2
    assert np.isfinite(m.log_density((1.0, jnp.array(possible)), nobody, 0))
    for degree, values in ((1.0, [math.nan] * 3), (1.0, [math.nan, 0.1, 0.2]), (math.nan, possible)):
        assert float(m.log_density((degree, jnp.array(values)), nobody, 0)) == -math.inf


# --- Programs and bad input --------------------------------------------------------------------------------------


def test_few_programs_serve_many_graphs():
    """Graphs of one size class share every program, but for a small second round."""
    sizes = []
    for seed in range(5):
        n = 900 + 7 * seed
        edges = np.array(nx.barabasi_albert_graph(n, 3, seed=seed).edges())
        privatize_graph(jax.random.key(seed), graphs.from_edges(edges, n), LocalLap(1.0, 2.0))
        sizes.append([f._cache_size() for f in (_sparse._drawn, local_laplace._ends)])
    grown = np.subtract(sizes[-1], sizes[0])
    assert (grown <= 1).all()


def test_the_same_key_gives_the_same_graph():
    graph = graphs.from_edges(EDGES, N)
    one, two, other = (privatize_graph(jax.random.key(k), graph, LocalLap(0.5, 0.5)) for k in (12, 12, 13))
    np.testing.assert_array_equal(one.graph.senders, two.graph.senders)
    np.testing.assert_array_equal(one.degree, two.degree)
    assert (one.degree != other.degree).all()


@pytest.mark.parametrize("reporting", ["half list", "half"])
def test_graphs_without_edges_or_company(reporting):
    for n, edges in ((1, []), (2, []), (2, [[0, 1]]), (5, [])):
        graph = graphs.from_edges(edges, n)
        for seed in range(5):
            noisy = privatize_graph(jax.random.key(seed), graph, LocalLap(0.5, 0.5), reporting=reporting)
            assert np.isfinite(noisy.degree).all()
            assert len(noisy.graph.senders) <= n * (n - 1)
    alone = LocalLap(0.5, 0.5, n=1, reporting=reporting)
    nobody = NeighbourList(jnp.array([1]), jnp.int32(0))
    y = alone.privatize(jax.random.key(14), nobody)
    assert np.isnan(y.values).all()
    assert np.isfinite(alone.log_density(y, nobody))
    assert not alone.select(LapReport(y.degree[None], y.values[None])).any()


def test_one_user_is_total_on_data():
    m = LocalLap(0.5, 40.0, n=5)
    for ids in ([-3, 0, 7, 99, 1], [2, 2, 2, 2, 2], [0, 0, 0, 0, 0], [5, 5, 5, 5, 5]):
        y = m.privatize(jax.random.key(15), NeighbourList(jnp.array(ids), jnp.int32(-4)))
        np.testing.assert_array_equal(np.isnan(y.values), [True, True, False, True, False])
        np.testing.assert_allclose(np.asarray(y.values)[[2, 4]], [float(2 in ids), 0.0], atol=0.45)  # 1e-19 beyond
        assert np.isfinite(y.degree)


@pytest.mark.usefixtures("untyped")
def test_bad_arguments_are_refused():
    graph, m = graphs.from_edges(EDGES, N), LocalLap(0.5, 0.5)
    key, nobody = jax.random.key(0), NeighbourList(jnp.array([1]), jnp.int32(0))
    for call in (
        lambda: privatize_graph(key, graph, m, reporting="full"),
        lambda: m.relationship("full"),
        lambda: LocalLap(0.5, 0.5, n=1, reporting="full"),
    ):
        with pytest.raises(ValueError, match="reporting must be one of half list, half; got 'full'"):
            call()
    with pytest.raises(ValueError, match="no personal budgets"):
        privatize_graph(key, graph, LocalLap(np.full(N, 0.5), 0.5))
    with pytest.raises(ValueError, match=r"takes .* GB \(memory allows .*larger epsilon_degree"):
        privatize_graph(key, graph, LocalLap(100.0, 0.5), memory=100.0)
    with pytest.raises(ValueError, match="threefry"):
        privatize_graph(jax.random.key(0, impl="rbg"), graph, m)
    with pytest.raises(ValueError, match="threefry"):
        LocalLap(0.5, 0.5, n=1).privatize(jax.random.key(0, impl="rbg"), nobody)
    with pytest.raises(ValueError, match="n must be given"):
        m.privatize(key, nobody)
    with pytest.raises(ValueError, match="holds a stack"):
        LocalLap(np.array([0.5, 1.0]), 0.5, n=1).privatize(key, nobody)
    for make in (lambda: LocalLap(0.0, 1.0), lambda: LocalLap(1.0, -1.0), lambda: LocalLap(math.nan, 1.0)):
        with pytest.raises(ValueError, match="must be finite and > 0"):
            make()
    with pytest.raises(ValueError, match="n must be a whole number"):
        LocalLap(1.0, 1.0, n=0)
    for share in (0.0, 1.0, math.nan, 1.5):
        with pytest.raises(ValueError, match="share must be"):
            LocalLap.from_epsilon(1.0, share)
    with pytest.raises(ValueError, match="epsilon must be finite and > 0"):
        LocalLap.from_epsilon(-1.0)
    with pytest.raises(ValueError, match="concrete budgets"):
        jax.jit(lambda e: LocalLap(e, 1.0).guarantee().epsilon)(1.0)
