"""LocalLap: its law by quadrature, in every way that false pairs are drawn; its parts and
limits.
"""

import functools
import math
import tracemalloc

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from scipy import special
from scipy import stats as scipy_stats

from ldp_jax.edges import (
    LapReport,
    LocalLap,
    NeighbourList,
    NoisyGraph,
    RandomizedResponse,
    _one_by_one,
    pair_sets,
    privatize_graph,
)
from ldp_jax.edges.population import Population
from ldp_jax.graph import graphs
from ldp_jax.graph.graphs import GraphSet
from tests import stats
from tests.edges.small import bits_of, copies, dense

EDGES = np.array([[0, 1], [0, 2], [0, 3], [1, 2]])
N = 5
TRUTH = dense(EDGES, N)


def size_law(mean, users, scale, pairs):
    """P(T = 0), ..., P(T = pairs): a sum of Laplace noise from its characteristic function,
    rounded, clipped.
    """
    t = (np.arange(400_000) + 0.5) * (2000 / scale / 400_000)
    weight = (1 + (t * scale) ** 2) ** -float(users) / t * (t[1] - t[0]) / np.pi
    cuts = np.arange(pairs) + 0.5 - mean
    below = [0.5 + (np.sin(cut * t) * weight).sum() for cut in cuts]
    return np.diff([0.0, *below, 1.0])


def joint_law(mean, users, scale, true, false):
    """P(T = k, a true pairs kept) of a server's graph, by quadrature."""
    sizes = size_law(mean, users, scale, true + false)
    joint = np.array([p * kept_law(k, true, false, 1.5) for k, p in enumerate(sizes)])
    np.testing.assert_allclose(joint.sum(1), sizes, atol=1e-6)
    return joint / joint.sum()


@functools.cache  # a long quadrature, and every path has the same law
def kept_law(edges, true, false, epsilon):
    """P(a of the true pairs are among the ``edges`` largest), a = 0, ..., true: quadrature over the
    smallest kept.

    A set is chosen where its smallest value, of law -d(S_1^a S_0^b), is above all others'.
    """
    t = np.linspace(-60 / epsilon, 1 + 60 / epsilon, 200_001)
    middle = (t[1:] + t[:-1]) / 2
    tails = [scipy_stats.laplace(mean, 1 / epsilon).sf(t) for mean in (1, 0)]
    heads = [scipy_stats.laplace(mean, 1 / epsilon).cdf(middle) for mean in (1, 0)]
    law = np.zeros(true + 1)
    if edges == 0:
        return np.eye(true + 1)[0]
    for a in range(max(0, edges - false), min(true, edges) + 1):
        b = edges - a
        sets = special.comb(true, a) * special.comb(false, b)
        smallest = -np.diff(tails[0] ** a * tails[1] ** b)
        law[a] = sets * (smallest * heads[0] ** (true - a) * heads[1] ** (false - b)).sum()
    return law


def drawn(monkeypatch, path, graph, m):
    """A noisy graph, by one way to draw false pairs, and in how many rounds of draws."""
    if path == "server":  # one user at a time, and the server's choice
        users = Population.of(graph)
        one, other, degree = _one_by_one.sample(jax.random.key(3), m, users, 1e9)
        ends = np.concatenate([one, other]), np.concatenate([other, one])
        return NoisyGraph(graphs.directed(*ends, len(degree)), degree, None), 0
    if path != "default":
        monkeypatch.setattr(pair_sets, "_DENSE", -1.0 if path == "list" else 2.0)
    if path == "rounds":
        monkeypatch.setattr(pair_sets, "_MARGIN", 0.1)
        monkeypatch.setattr(pair_sets, "_EXTRA", 1)
    rounds = []
    inner = pair_sets._ends
    monkeypatch.setattr(pair_sets, "_ends", lambda *args: (rounds.append(1), inner(*args))[1])
    return privatize_graph(jax.random.key(0), graph, m), len(rounds)


@pytest.mark.parametrize(
    ("path", "reporting"),
    [("list", "half list"), ("rounds", "half list"), ("server", "half list"), ("default", "half")],
)  # fmt: skip
def test_edge_sets_follow_the_law(monkeypatch, path, reporting):
    """20 000 copies of five nodes: T, how many true pairs are kept, and which set.

    The G test of (T, kept), about 30 cells, detects a total variation of 0.043; over the 1024 sets,
    0.085.
    """
    count = 20_000
    times = 2 if reporting == "half list" else 1
    m = LocalLap(0.8, 1.5, reporting=reporting)
    noisy, rounds = drawn(monkeypatch, path, copies(count, EDGES, N), m)
    assert {"list": rounds == 0, "rounds": rounds > 5, "default": rounds < 3}.get(path, True)
    bits = bits_of(noisy, count, N)
    np.testing.assert_array_equal(bits, bits.swapaxes(1, 2))
    total = bits.sum((1, 2)) // 2
    kept = (bits & TRUTH).sum((1, 2)) // 2
    sums = noisy.degree.reshape(count, N).astype(np.float64).sum(1) / times
    most = 1 if path == "server" else 0
    np.testing.assert_allclose(total, np.clip(np.rint(sums), 0, 10), atol=most)
    joint = joint_law(4, N, 1 / (times * 0.8), 4, 6)
    stats.assert_g(np.bincount(total * 5 + kept, minlength=55), joint.ravel())
    # Every set of a kind alike.
    low, high = np.triu_indices(N, 1)
    names = bits[:, low, high] @ (1 << np.arange(10))
    sets = np.arange(1024)[:, None] >> np.arange(10) & 1
    a = sets @ TRUTH[low, high]
    k = sets.sum(1)
    law = joint[k, a] / (special.comb(4, a) * special.comb(6, k - a))
    stats.assert_g(np.bincount(names, minlength=1024), law)


@pytest.mark.parametrize("m", [LocalLap(100.0, 0.5), RandomizedResponse(40.0)], ids=repr)
def test_sets_of_unequal_graphs(m):
    """Single nodes, empty, full and large graphs in one call: each keeps its number of edges."""
    one = nx.empty_graph(1)
    large = nx.barabasi_albert_graph(60, 2, seed=0)
    parts = [one, large, nx.complete_graph(6), one, nx.empty_graph(7), large, one]
    whole = nx.disjoint_union_all(parts)
    node_graph = np.repeat(np.arange(len(parts)), [len(p) for p in parts])
    graph = graphs.from_edges(np.array(whole.edges()), len(whole))
    labels = np.zeros(len(parts), int)
    several = GraphSet.from_edges(graph.senders, graph.receivers, node_graph, labels)
    noisy = privatize_graph(jax.random.key(9), several, m).graph
    np.testing.assert_array_equal(noisy.node_graph, node_graph)
    found = graphs.to_edges(noisy)
    assert (node_graph[found[:, 0]] == node_graph[found[:, 1]]).all()
    per_graph = np.bincount(node_graph[found[:, 0]], minlength=len(parts))
    np.testing.assert_array_equal(per_graph, [p.number_of_edges() for p in parts])
    assert len(np.unique(found, axis=0)) == len(found)


def test_public_users_are_released_as_they_are():
    """20 000 copies, one public user: their list, and among the others the law of the graph without
    them.
    """
    count = 20_000
    rest = [0, 2, 3, 4]
    graph = copies(count, EDGES, N)
    public = np.tile(np.arange(N) == 1, count)
    noisy = privatize_graph(jax.random.key(10), graph, LocalLap(0.8, 1.5), public=public)
    bits = bits_of(noisy, count, N)
    degree = noisy.degree.reshape(count, N)
    assert (bits[:, 1] == TRUTH[1]).all()
    assert (degree[:, 1] == 2).all()
    for i in rest:  # degrees are of whole lists
        law = scipy_stats.laplace(TRUTH[i].sum(), 1 / 0.8)
        stats.assert_ks(degree[:, i].astype(np.float64), law.cdf)
    inner = bits[:, rest][:, :, rest]
    total = inner.sum((1, 2)) // 2
    kept = (inner & TRUTH[np.ix_(rest, rest)]).sum((1, 2)) // 2
    joint = joint_law(2, 4, 0.5 / 0.8, 2, 4)
    stats.assert_g(np.bincount(total * 3 + kept, minlength=21), joint.ravel())
    everyone = privatize_graph(jax.random.key(11), graph, LocalLap(0.8, 1.5), public=public | True)
    np.testing.assert_array_equal(everyone.graph.senders, graph.senders)


def test_a_larger_graph_is_never_dense():
    """3000 nodes: T edges exactly, and no memory of 4.5e6 pairs."""
    n = 3000
    edges = np.array(nx.barabasi_albert_graph(n, 3, seed=2).edges())
    graph = graphs.from_edges(edges, n)
    m = LocalLap.from_epsilon(5.0)
    other = LocalLap.from_epsilon(5.0, 0.3, reporting="half")
    assert (m.epsilon_degree, m.epsilon_edges) == pytest.approx((0.5, 4.5))
    assert (other.epsilon_degree, other.epsilon_edges) == pytest.approx((1.5, 3.5))
    assert other.reporting == "half"
    privatize_graph(jax.random.key(12), graph, m)  # compiles
    tracemalloc.start()
    noisy = privatize_graph(jax.random.key(13), graph, m)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6
    total = len(graphs.to_edges(noisy.graph))
    assert total == round(noisy.degree.astype(np.float64).sum() / 2)
    assert abs(total - len(edges)) < 5 * math.sqrt(n / 2) / 0.5


@pytest.mark.parametrize("epsilon", [0.01, 100.0])
def test_scores_of_true_pairs(epsilon):
    """P(Lap > 1 + L) where P(Lap > L) = u, against SciPy; small ones to 1e-9 of themselves."""
    u = np.concatenate([np.logspace(-18, -0.31, 50), np.linspace(0.01, 0.999, 50), [1.0]])
    laplace = scipy_stats.laplace(0, 1 / epsilon)
    with np.errstate(over="ignore"):
        expected = laplace.sf(1 + laplace.isf(u[:-1]))
    scores = pair_sets._true_scores(u, epsilon)
    np.testing.assert_allclose(scores[:-1], expected, rtol=1e-9, atol=0)
    assert (np.diff(pair_sets._true_scores(np.sort(u), epsilon)) >= 0).all()
    assert ((scores > 0) & (scores <= 1)).all()


@pytest.mark.parametrize("reporting", LocalLap.reportings)
def test_the_server_keeps_as_many_of_the_largest_bits_as_degrees_say(reporting):
    """Drawn reports, sums of degrees below 0 and beyond all pairs among them."""
    rng = np.random.default_rng(0)
    m = LocalLap(0.5, 0.5, n=N, reporting=reporting)
    select = jax.jit(m.select)
    for _ in range(30):
        values = np.where(np.tri(N, k=-1).T > 0, rng.normal(size=(N, N)), np.nan)
        degree = rng.normal(rng.uniform(-1, 5), 1, N)
        edges = round(degree.sum() / {"half list": 2, "half": 1}[reporting])
        pairs = sorted(zip(*np.triu_indices(N, 1), strict=True), key=lambda pair: -values[pair])
        wanted = dense(np.array(pairs[: max(edges, 0)], int).reshape(-1, 2), N)
        found = select(LapReport(degree.astype(np.float32), values.astype(np.float32)))
        np.testing.assert_array_equal(found, wanted)


def test_impossible_reports_have_no_density():
    m = LocalLap(0.5, 0.5, n=3)
    nobody = NeighbourList(jnp.array([3, 3, 3]), jnp.int32(0))
    possible = [math.nan, math.nan, 0.2]  # user 0 owns the pair with 2
    log = jax.jit(lambda degree, values: m.log_density(LapReport(degree, values), nobody, 0))
    assert np.isfinite(log(1.0, np.float32(possible)))
    missing = [math.nan] * 3
    for degree, values in ((1.0, missing), (1.0, [math.nan, 0.1, 0.2]), (math.nan, possible)):
        assert float(log(degree, np.float32(values))) == -math.inf
