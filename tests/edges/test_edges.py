"""Neighbour lists: one law in three forms (one user, a whole graph, every pair), its guarantee, and its limits."""

import dataclasses
import functools
import itertools
import math

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from scipy import stats as scipy_stats

from ldp_jax.accounting.composition import relationship
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP, Guarantee
from ldp_jax.core.mechanism import mechanism
from ldp_jax.edges import DPRR, LocalLap, NeighbourList, RandomizedResponse, _sparse, privatize_graph, public_part
from ldp_jax.edges._sparse import Users
from ldp_jax.edges.lists import stacked
from ldp_jax.features import Laplace
from ldp_jax.graph import graphs
from ldp_jax.graph.graphs import GraphSet
from tests import stats

EDGES = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [3, 4]])  # degrees 3, 2, 2, 2, 1, 0
N = 6


def copies(count, edges=EDGES, n=N):
    """Many copies of a small graph: one call is ``count`` independent draws of its reports."""
    shifted = (edges[None] + n * np.arange(count)[:, None, None]).reshape(-1, 2)
    graph = graphs.from_edges(shifted, n * count)
    return GraphSet.from_edges(graph.senders, graph.receivers, np.repeat(np.arange(count), n), np.zeros(count, int))


def bits_of(noisy, count, n=N):
    """bool [count, n, n]: who reported whom."""
    to, of = np.asarray(noisy.graph.receivers), np.asarray(noisy.graph.senders)
    bits = np.zeros((count, n, n), bool)
    bits[to // n, to % n, of % n] = True
    assert (to // n == of // n).all()
    assert bits.sum() == len(to), "a pair was reported twice"
    return bits


def dense(n=N, edges=EDGES):
    matrix = np.zeros((n, n), bool)
    matrix[edges[:, 0], edges[:, 1]] = matrix[edges[:, 1], edges[:, 0]] = True
    return matrix


@jax.jit
def bit_rates(m, noisy, owned):
    return m.bit_rates(noisy, owned)


@jax.jit
def degree_log_density(m, noisy, degree, owned):
    return m.degree_log_density(noisy, degree, owned)


def rates(m, noisy, owned):
    return tuple(np.asarray(rate) for rate in bit_rates(m, noisy, owned))


node_of = jax.jit(_sparse.node_of, static_argnames="half")


# --- Integers and counts ---------------------------------------------------------------------------------------


def test_products_of_words_are_exact():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2**32, (2, 10_000), dtype=np.uint32)
    a[:3], b[:3] = [0, 2**32 - 1, 1], [5, 2**32 - 1, 2**32 - 1]
    high, low = _sparse._product(jnp.asarray(a), jnp.asarray(b))
    exact = a.astype(object) * b.astype(object)
    assert (np.asarray(high).astype(object) == exact >> 32).all()
    assert (np.asarray(low).astype(object) == exact & (2**32 - 1)).all()


@pytest.mark.parametrize("bound", [1, 2, 7, 1000, 3_000_000, 2**31 - 1])
def test_integers_below_a_bound_are_uniform(bound):
    """1e6 draws in 50 cells: detects a total variation of 0.004."""
    n = 1_000_000
    draws = np.asarray(_sparse.below(jax.random.key(0), jnp.full(n, bound, jnp.int32)))
    assert draws.min() >= 0
    assert draws.max() < bound
    cells = min(bound, 50)
    place = draws.astype(np.int64) * cells // bound
    size = np.diff(-(-np.arange(cells + 1) * bound // cells))
    stats.assert_g(np.bincount(place, minlength=cells), size / bound)


@pytest.mark.parametrize("size", [1, 2, 5, 8, 9])
def test_halves_are_a_partition(size):
    """Every pair has one owner, ranks and nodes are inverse, for every division into two levels."""
    for cut in range(1, size + 1):
        places = np.arange(size)
        low, high = np.where(places < cut, 0, cut), np.where(places < cut, cut, size)
        owners = np.zeros((size, size), int)
        for place in range(size):
            user = Users(*(np.int32(v) for v in (place, low[place], high[place], size)))
            owned = int(_sparse.universe(user, True))
            nodes = np.asarray(node_of(user, np.arange(size), half=True))[:owned]
            assert (np.diff(nodes) > 0).all()
            np.testing.assert_array_equal(_sparse.rank_of(user, nodes, True), np.arange(owned))
            assert np.asarray(_sparse.owns(user, nodes, True)).all()
            owners[place, nodes] += 1
        both = owners + owners.T
        np.testing.assert_array_equal(both, 1 - np.eye(size, dtype=int))


@jax.jit
def draws(m, keys, neighbours):
    return jax.vmap(lambda key: m.privatize(key, neighbours, 0))(keys)


# --- One law ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["laplace", "geometric"])
def test_whole_graphs_and_single_users_have_one_law(noise):
    """60 000 copies of six nodes: noisy degrees and every pair against the law; one user against both.

    Given the noisy degree a pair is a Bernoulli, so bits less their rates have mean 0: five standard errors, 0.01.
    """
    count = 60_000
    m = DPRR(0.7, 1.1, noise=noise)
    graph = copies(count)
    noisy = privatize_graph(jax.random.key(0), graph, m)
    bits, degree = bits_of(noisy, count), noisy.degree.reshape(count, N)
    truth = dense()
    keep, add = rates(m, degree, N - 1)
    for i, j in itertools.permutations(range(N), 2):
        rate = (keep if truth[i, j] else add)[:, i]
        off = bits[:, i, j] - rate
        assert abs(off.mean()) < 5 * np.sqrt((rate * (1 - rate)).mean() / count), (i, j)
        # Independent of the other bits given the degree.
        k = (j + 1) % N if (j + 1) % N != i else (j + 2) % N
        other = bits[:, i, k] - (keep if truth[i, k] else add)[:, i]
        assert abs((off * other).mean()) < 5 * off.std() * other.std() / math.sqrt(count)
    assert not bits[:, np.arange(N), np.arange(N)].any()
    for i, d in enumerate(truth.sum(1)):
        check_degrees(m, degree[:, i], d)
    # One user, as a device would: her bits and degrees have the same law.
    one = DPRR(0.7, 1.1, n=N, noise=noise)
    neighbours = NeighbourList(jnp.array([1, 2, 3, N, N, N]), jnp.int32(3))
    y = draws(one, jax.random.split(jax.random.key(1), count), neighbours)
    check_degrees(m, np.asarray(y.degree), 3)
    alone = np.zeros((count, N + 1), bool)
    np.put_along_axis(alone, np.asarray(y.neighbours.ids), True, 1)
    np.testing.assert_array_equal(alone[:, :N].sum(1), y.neighbours.count)
    patterns = [b[:, 1:N] @ (1 << np.arange(N - 1)) for b in (alone[:, :N], bits[:, 0])]
    table = np.stack([np.bincount(p, minlength=32) for p in patterns])
    table = table[:, table.sum(0) > 20]
    assert scipy_stats.chi2_contingency(table).pvalue > stats.SIGNIFICANCE  # total variation of 0.02


def check_degrees(m, noisy, d):
    """KS between the atoms, and the atoms themselves; whole numbers by a G test. 0.01 in probability."""
    n = len(noisy)
    epsilon = float(m.epsilon_degree)
    if m.noise == "geometric":
        law = np.exp(np.asarray(m.degree_log_density(np.arange(N, dtype=np.float64), d, N - 1), np.float64))
        np.testing.assert_allclose(law.sum(), 1.0, rtol=1e-5)
        stats.assert_g(np.bincount(noisy.astype(int), minlength=N), law / law.sum())
        return
    laplace = scipy_stats.laplace(d, 1 / epsilon)
    stats.assert_share((noisy == 0).sum(), n, laplace.cdf(0))
    stats.assert_share((noisy == N - 1).sum(), n, laplace.sf(N - 1))
    inside = noisy[(noisy > 0) & (noisy < N - 1)]
    low, high = laplace.cdf(0), laplace.cdf(N - 1)
    stats.assert_ks(inside, lambda y: (laplace.cdf(y) - low) / (high - low))


@pytest.mark.parametrize("reporting", ["half", "half list"])
def test_half_matrices(reporting):
    """Each pair is reported by its owner alone, at the rates of the degree that the reporting counts."""
    count = 40_000
    m = DPRR(0.7, 1.1)
    graph = copies(count)
    noisy = privatize_graph(jax.random.key(2), graph, m, reporting=reporting)
    bits, degree = bits_of(noisy, count), noisy.degree.reshape(count, N)
    np.testing.assert_array_equal(bits, bits.swapaxes(1, 2))
    truth = dense()
    for i, j in itertools.combinations(range(N), 2):
        owner = i if (i + j) % 2 == 0 else j
        user = Users(*(np.int32(v) for v in (owner, 0, N, N)))
        owned = int(_sparse.universe(user, True)) if reporting == "half" else N - 1  # what q is computed from
        keep, add = rates(m, degree[:, owner], owned)
        rate = keep if truth[i, j] else add
        assert abs((bits[:, i, j] - rate).mean()) < 5 * np.sqrt((rate * (1 - rate)).mean() / count), (i, j)
    if reporting == "half":
        assert degree.max() <= 3
        mine = np.array([[_sparse.owns(Users(i, 0, N, N), j, True) for j in range(N)] for i in range(N)])
        expected = (mine & truth).sum(1)
    else:
        assert degree.max() == N - 1
        expected = truth.sum(1)
    for i, d in enumerate(expected):
        # P(d* > d + 1/2) of Laplace noise, below the clip.
        if d + 0.5 < (3 if reporting == "half" else N - 1) - 1:
            stats.assert_share((degree[:, i] > d + 0.5).sum(), count, 0.5 * math.exp(-0.35))


def test_randomized_response():
    count = 60_000
    m = RandomizedResponse(1.2)
    graph = copies(count)
    bits = bits_of(privatize_graph(jax.random.key(3), graph, m), count)
    truth, flip = dense(), 1 / (1 + math.exp(1.2))
    for i, j in itertools.permutations(range(N), 2):
        stats.assert_share(bits[:, i, j].sum(), count, 1 - flip if truth[i, j] else flip)


def test_three_million_nodes_have_the_right_counts():
    """False pairs of 3e6 users among 3e6 others each: 1e-6-significance G tests of counts and of places.

    Detects 0.3 % of total variation in the counts of a user.
    """
    n = 3_000_000
    epsilon = 15.0
    empty = graphs.from_edges(np.array([[0, 1]]), n)
    noisy = privatize_graph(jax.random.key(4), empty, RandomizedResponse(epsilon))
    flip = 1 / (1 + math.exp(epsilon))
    counts = np.bincount(
        np.bincount(noisy.graph.receivers[noisy.graph.receivers > 1], minlength=n)[2:], minlength=20
    )
    law = scipy_stats.binom.pmf(np.arange(20), n - 1, flip)
    stats.assert_g(counts[:20], law / law.sum())
    stats.assert_g(np.bincount(noisy.graph.senders * np.int64(60) // n, minlength=60), np.full(60, 1 / 60))


def test_degrees_have_the_papers_moments():
    """Section IV-E on a Barabasi-Albert graph: mean (9) given d*, variance (13), and the clip's bias."""
    n, rounds = 400, 300
    base = np.array(nx.barabasi_albert_graph(n, 3, seed=0).edges())
    graph = copies(rounds, base, n)
    m = DPRR(0.5, 1.5)
    noisy = privatize_graph(jax.random.key(5), graph, m)
    reported = np.bincount(noisy.graph.receivers, minlength=n * rounds).reshape(rounds, n)
    degree = noisy.degree.reshape(rounds, n)
    d = np.bincount(base.ravel(), minlength=n)
    keep, add = rates(m, degree, n - 1)
    mean = d * keep + (n - 1 - d) * add
    variance = d * keep * (1 - keep) + (n - 1 - d) * add * (1 - add)
    z = (reported - mean) / np.sqrt(np.maximum(variance, 1e-12))
    z = z[variance > 1e-3]
    stats.assert_moments(z, 0.0, 1.0, 3.5)
    assert variance.max() <= (n - 1) / 4
    error = degree - d
    bias = np.asarray(m.degree_bias(d, n - 1))
    assert (np.abs(error.mean(0) - bias) < 5 * error.std(0) / math.sqrt(rounds)).mean() > 0.995


# --- Guarantees ------------------------------------------------------------------------------------------------


def owner_of(i, j):
    """The public rule, written out once more: i < j to i where i + j is even, else to j."""
    return min(i, j) if (i + j) % 2 == 0 else max(i, j)


@functools.cache
def laws_of(m, counted, places):
    """log p(d*) of each degree, and both rates, at the places that a degree of ``counted`` pairs can take."""
    noisy = np.array([place for place in places if place <= counted])
    laws = [np.asarray(degree_log_density(m, noisy, degree, counted)) for degree in range(counted + 1)]
    return laws, rates(m, noisy, counted)


def reports_of(m, reporting, graph, user, places, owner):
    """log p of every report of one user of a four-node graph: [d*, bit patterns], by the reporting's words."""
    others = [j for j in range(4) if j != user]
    mine = others if reporting == "full" else [j for j in others if owner(user, j) == user]
    counted = mine if reporting == "half" else others
    degree = sum(frozenset((user, j)) in graph for j in counted)
    laws, (keep, add) = laws_of(m, len(counted), tuple(places))
    total = laws[degree][:, None]
    for j in mine:
        one = (keep if frozenset((user, j)) in graph else add)[:, None]
        with np.errstate(divide="ignore"):
            bit = np.concatenate([np.log1p(-one), np.log(one)], 1)
        total = (total[:, :, None] + bit[:, None, :]).reshape(len(total), -1)
    return total


def largest_loss_of_an_edge(m, reporting, places, owner=owner_of):
    """max over all graphs on four nodes, all edges that may change, and all joint reports, of the log ratio.

    The four users draw independently given the graph, so that a joint report's ratio is the sum of theirs and the
    largest is the sum of each user's largest, all in one direction.
    """
    pairs = [frozenset(pair) for pair in itertools.combinations(range(4), 2)]
    each = m if isinstance(m, list) else [m] * 4
    worst = 0.0
    with jax.enable_x64(True):
        laws = {
            graph: [reports_of(each[user], reporting, graph, user, places, owner) for user in range(4)]
            for size in range(7)
            for graph in map(frozenset, itertools.combinations(pairs, size))
        }
    assert len(laws) == 64
    for graph, pair in itertools.product(laws, pairs):
        total = 0.0
        for a, b in zip(laws[graph], laws[graph ^ {pair}], strict=True):
            np.testing.assert_array_equal(np.isneginf(a), np.isneginf(b))  # else one report gives the edge away
            possible = ~np.isneginf(a)
            total += (a[possible] - b[possible]).max()
        worst = max(worst, total)
    return laws, worst


@pytest.mark.parametrize("noise", ["laplace", "geometric"])
def test_a_whole_report_loses_its_sum(noise):
    """All lists of four nodes against all that differ in a bit, all reports: density by density, float64."""
    m = DPRR(0.3, 0.7, n=4, noise=noise)
    lists = [NeighbourList(jnp.array(sorted(s) + [4] * (4 - len(s))), jnp.int32(len(s)))
             for r in range(4) for s in itertools.combinations((1, 2, 3), r)]  # fmt: skip
    degrees = np.linspace(0, 3, 4 if noise == "geometric" else 25)
    law = lambda d, y, x: m.log_density((d, y), x)
    for axes in ((0, None, None), (None, 0, None), (None, None, 0)):
        law = jax.vmap(law, axes)
    with jax.enable_x64(True):
        logs = np.asarray(jax.jit(law)(degrees, stacked(lists), stacked(lists)))
    worst = 0.0
    for a, b in itertools.combinations(range(len(lists)), 2):
        one, other = (set(np.asarray(lists[k].ids)[: int(lists[k].count)]) for k in (a, b))
        if len(one ^ other) == 1:
            both = np.isfinite(logs[a]) & np.isfinite(logs[b])
            assert (np.isfinite(logs[a]) == np.isfinite(logs[b])).all()
            worst = max(worst, np.abs(logs[a][both] - logs[b][both]).max())
    assert worst == pytest.approx(1.0, rel=1e-6)
    assert m.guarantee().epsilon == pytest.approx(1.0, rel=1e-12)
    if noise == "geometric":  # whole reports: they sum to one
        np.testing.assert_allclose(np.exp(logs).sum((1, 2)), 1.0, rtol=1e-5)


@pytest.mark.parametrize("noise", ["laplace", "geometric"])
@pytest.mark.parametrize(("reporting", "epsilon"), [("full", 2.0), ("half list", 1.3), ("half", 1.0)])
def test_relationships_by_enumeration_on_four_nodes(reporting, epsilon, noise):
    """All 64 graphs, all edges, all reports at eps 0.3 and 0.7: what is claimed per edge is lost, and no more.

    Whole noise has finitely many reports, which sum to one; Laplace noise is asked at its atoms and between.
    """
    m = DPRR(0.3, 0.7, noise=noise)
    places = (
        np.arange(4.0) if noise == "geometric" else np.unique(np.append(np.linspace(0, 3, 61), [1e-9, 3 - 1e-9]))
    )
    laws, worst = largest_loss_of_an_edge(m, reporting, places)
    if noise == "geometric":
        for law in itertools.chain.from_iterable(laws.values()):
            assert np.exp(law).sum() == pytest.approx(1.0, rel=1e-9)
    assert worst == pytest.approx(epsilon, rel=1e-6)
    assert m.relationship(reporting).epsilon == pytest.approx(worst, rel=1e-6)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((0.1, 0.2, 0.4, 0.8), (0.3, 0.5, 0.7, 0.9)),
        ((2.0, 0.1, 0.4, 0.2), (0.1, 1.0, 0.2, 1.6)),  # the larger sum has the smaller part, of either kind
        ((0.2, 0.7, 0.2, 0.7), (0.8, 0.3, 0.8, 0.3)),  # one sum, unequal parts
        (0.3, (0.4, 2.0, 0.9, 1.4)),
        ((0.4, 2.0, 0.9, 1.4), 0.3),
    ],
)
@pytest.mark.parametrize("reporting", ["full", "half", "half list"])
def test_relationships_of_personal_budgets_by_enumeration(reporting, first, second):
    """Four users of their own budgets: all graphs, edges and reports, against what is claimed per edge."""
    m = DPRR(np.array(first), np.array(second), noise="geometric")
    parts = np.broadcast_to(np.float32(first), 4), np.broadcast_to(np.float32(second), 4)
    each = [DPRR(float(a), float(b), noise="geometric") for a, b in zip(*parts, strict=True)]
    sums = m.sums()
    place = np.argsort(np.argsort(sums, kind="stable"))  # users of one sum by id

    def owner(i, j):
        if sums[i] != sums[j]:
            return i if sums[i] < sums[j] else j
        start = place[sums == sums[i]].min()
        low, high = sorted((i, j), key=lambda user: place[user])
        return low if (place[low] + place[high] - 2 * start) % 2 == 0 else high

    _, worst = largest_loss_of_an_edge(each, reporting, np.arange(4.0), owner)
    assert m.relationship(reporting).epsilon == pytest.approx(worst, rel=1e-6)
    response = RandomizedResponse(np.array(second))
    if np.ndim(second):
        ordered = sorted(np.float32(second).astype(float))
        assert response.relationship("full").epsilon == pytest.approx(sum(ordered[-2:]), rel=1e-12)
        assert response.relationship(reporting).epsilon >= response.relationship("half").epsilon == ordered[-2]


def test_the_enumeration_sees_a_wrong_law():
    """Half of the noise on the degree; and the claim of owned degrees where whole ones are sent."""

    @mechanism
    class Quieter(DPRR):
        def degree_log_density(self, noisy, degree, owned):
            return DPRR(2 * self.epsilon_degree, self.epsilon_edges).degree_log_density(noisy, degree, owned)

    places = np.linspace(0, 3, 61)
    assert largest_loss_of_an_edge(Quieter(0.3, 0.7), "full", places)[1] == pytest.approx(2.6, rel=1e-6)
    m = DPRR(0.3, 0.7)
    assert largest_loss_of_an_edge(m, "half list", places)[1] > m.relationship("half").epsilon + 0.29


def test_the_papers_split_is_made_sound():
    published, sound = DPRR.as_published(0.5, n_max=957), DPRR.from_epsilon(0.5, n_max=957)
    assert published.guarantee().epsilon == pytest.approx(0.5415, abs=1e-4)
    assert sound.guarantee().epsilon == pytest.approx(0.5, rel=1e-12)
    assert sound.epsilon_degree == published.epsilon_degree == pytest.approx(math.sqrt(8 / 956))
    assert DPRR.from_epsilon(1.0, 4000).epsilon_degree == pytest.approx(0.1)
    for n_max, least in ((20, 0.6489), (11, 0.8944)):
        with pytest.raises(ValueError, match=f"epsilon must be above {least}"):
            DPRR.from_epsilon(least - 0.01, n_max)


def test_personal_budgets():
    """Rates of each user's own budget; in a half matrix a pair belongs to the smaller one."""
    count = 40_000
    graph = copies(count)
    epsilons = np.tile([0.5, 2.0, 0.5, 2.0, 2.0, 0.5], count)
    m = RandomizedResponse(epsilons)
    truth = dense()
    full = bits_of(privatize_graph(jax.random.key(6), graph, m), count)
    half = bits_of(privatize_graph(jax.random.key(7), graph, m, reporting="half"), count)
    for i, j in itertools.permutations(range(N), 2):
        flips = 1 / (1 + np.exp(epsilons[[i, j]]))
        for bits, flip in ((full, flips[0]), (half, flips.max())):
            stats.assert_share(bits[:, i, j].sum(), count, 1 - flip if truth[i, j] else flip)
    assert m.guarantee().epsilon == 2.0
    assert m.relationship("full").epsilon == 4.0
    assert RandomizedResponse(np.array([0.5, 1.0, 2.0])).relationship("half").epsilon == 1.0


def test_public_users_are_released_as_they_are():
    count = 20_000
    graph = copies(count)
    public = np.tile([True, False, False, True, False, False], count)
    truth = dense()
    noisy = privatize_graph(jax.random.key(8), graph, DPRR(0.5, 1.0), public=public)
    bits = bits_of(noisy, count)
    for i in (0, 3):
        assert (bits[:, i] == truth[i]).all()
    assert not (bits[:, 1] == truth[1]).all()
    np.testing.assert_array_equal(
        noisy.degree.reshape(count, N)[:, [0, 3]], np.tile(truth.sum(1)[[0, 3]], (count, 1))
    )
    assert "lists of public users" in noisy.guarantee.unprotected
    half = bits_of(
        privatize_graph(jax.random.key(9), graph, RandomizedResponse(1.0), public=public, reporting="half"),
        count,
    )
    flip = 1 / (1 + math.e)
    for i, j in itertools.combinations(range(N), 2):
        if {i, j} & {0, 3}:
            assert (half[:, i, j] == truth[i, j]).all()
        else:
            stats.assert_share(half[:, i, j].sum(), count, 1 - flip if truth[i, j] else flip)
    part = public_part(graphs.from_edges(EDGES, N), public[:N])
    np.testing.assert_array_equal(graphs.to_edges(part), [[0, 3]])


@jax.jit
def estimate_degree(m, noisy):
    return m.estimate_degree(noisy)


def test_posterior_mean_of_the_degree():
    """Against the sums written out; a point prior gives that point; a flat one far from its ends gives d*."""
    prior = np.array([0.1, 0.0, 0.5, 0.2, 0.2], np.float32)
    m = DPRR(0.8, 1.0, prior=prior)
    noisy = np.array([0.0, 0.4, 1.0, 2.7, 3.0, 4.0, 9.0], np.float32)
    weight = prior * np.exp(-0.8 * np.abs(noisy[:, None] - np.arange(5)))
    np.testing.assert_allclose(estimate_degree(m, noisy), weight @ np.arange(5) / weight.sum(1), rtol=1e-5)
    point = DPRR(0.8, 1.0, prior=[0, 0, 0, 1.0])
    np.testing.assert_allclose(estimate_degree(point, noisy), 3.0, rtol=1e-6)
    flat = DPRR(0.8, 1.0, prior=np.ones(2000))
    np.testing.assert_allclose(estimate_degree(flat, np.float32([500.0, 1000.5])), [500.0, 1000.5], rtol=1e-4)
    assert np.isfinite(
        estimate_degree(DPRR(20.0, 1.0, prior=[1.0] + [0.0] * 300 + [1.0]), np.float32([150.0]))
    ).all()
    np.testing.assert_allclose(estimate_degree(DPRR(0.8, 1.0), noisy), noisy)
    # Of one epsilon or one a user alike; a degree far above a short prior, and budgets at which e^eps overflows.
    noisy = np.array([0.0, 0.3, 2.7, 4.0, 9.0, 50.0, 4000.0, 1e6], np.float32)
    for epsilon in (0.1, 2.0, 60.0, 100.0):
        far = np.abs(noisy[:, None].astype(np.float64) - np.arange(5)) * epsilon
        m = DPRR(epsilon, 1.0, prior=prior + np.float32(0.01))
        weight = (prior + 0.01) * np.exp(far.min(1, keepdims=True) - far)
        expected = weight @ np.arange(5) / weight.sum(1)
        np.testing.assert_allclose(estimate_degree(m, noisy), expected, rtol=1e-4, atol=1e-12, err_msg=str(epsilon))
        many = DPRR(np.full(len(noisy), epsilon), 1.0, prior=prior + np.float32(0.01))
        np.testing.assert_allclose(
            estimate_degree(many, noisy), expected, rtol=1e-4, atol=1e-12, err_msg=str(epsilon)
        )
    each = np.array([0.1, 0.5, 1.0, 2.0, 3.0, 0.2, 0.4, 8.0], np.float32)
    alone = [float(estimate_degree(DPRR(float(e), 1.0, prior=prior), d)) for e, d in zip(each, noisy, strict=True)]
    np.testing.assert_allclose(estimate_degree(DPRR(each, 1.0, prior=prior), noisy), alone, rtol=1e-5)


def test_a_prior_mends_the_degree_of_sparse_graphs():
    """Barabasi-Albert, m = 3, eps 1: about 9 for a true 6 as published; within 0.5 under the degrees' own law."""
    n = 4000
    base = np.array(nx.barabasi_albert_graph(n, 3, seed=1).edges())
    graph = graphs.from_edges(base, n)
    prior = np.bincount(np.bincount(base.ravel(), minlength=n)).astype(np.float32)
    means = [
        len(privatize_graph(jax.random.key(10), graph, DPRR(0.1, 0.9, prior=p)).graph.senders) / n
        for p in (None, prior)
    ]
    assert means[0] > 8.5
    assert abs(means[1] - 2 * len(base) / n) < 0.5


# --- Programs and bad input --------------------------------------------------------------------------------------


def test_blocks_of_users_do_not_change_the_law(monkeypatch):
    """A graph cut into many blocks: other draws, the same guarantee, sorted and complete."""
    n = 3000
    base = np.array(nx.barabasi_albert_graph(n, 3, seed=2).edges())
    graph = graphs.from_edges(base, n)
    monkeypatch.setattr(_sparse, "_BLOCK", 1000)
    noisy = privatize_graph(jax.random.key(11), graph, DPRR(1.0, 2.0))
    code = noisy.graph.receivers.astype(np.int64) * n + noisy.graph.senders
    assert (np.diff(code) > 0).all()
    assert np.isfinite(noisy.degree).all()
    keep, add = rates(DPRR(1.0, 2.0), noisy.degree, n - 1)
    d = np.bincount(base.ravel(), minlength=n)
    expected = (d * keep + (n - 1 - d) * add).sum()
    variance = (d * keep * (1 - keep) + (n - 1 - d) * add * (1 - add)).sum()
    assert abs(len(code) - expected) < 5 * math.sqrt(variance)


def test_few_programs_serve_many_graphs():
    sizes = [_sparse._false._cache_size()]
    for seed in range(4):
        base = np.array(nx.barabasi_albert_graph(900 + 7 * seed, 3, seed=seed).edges())
        privatize_graph(jax.random.key(seed), graphs.from_edges(base, 900 + 7 * seed), DPRR(1.0, 2.0))
        sizes.append(_sparse._false._cache_size())
    assert sizes[-1] - sizes[1] <= 1


def test_the_same_key_gives_the_same_graph():
    graph = graphs.from_edges(EDGES, N)
    one, two = (privatize_graph(jax.random.key(12), graph, DPRR(0.5, 0.5)) for _ in range(2))
    np.testing.assert_array_equal(one.graph.senders, two.graph.senders)
    np.testing.assert_array_equal(one.degree, two.degree)


@pytest.mark.parametrize("reporting", ["full", "half", "half list"])
@pytest.mark.parametrize(
    "m",
    [DPRR(0.5, 0.5), DPRR(0.5, 0.5, noise="geometric"), RandomizedResponse(0.5)],
    ids=["laplace", "geometric", "response"],
)
def test_graphs_without_edges_or_company(m, reporting):
    for n, edges in ((1, []), (2, []), (2, [[0, 1]]), (5, [])):
        noisy = privatize_graph(jax.random.key(13), graphs.from_edges(edges, n), m, reporting=reporting)
        assert np.isfinite(noisy.degree).all() == isinstance(m, DPRR)  # the other sends no degree: NaN
        assert len(noisy.graph.senders) <= n * (n - 1)
    alone, nobody = dataclasses.replace(m, n=1), NeighbourList(jnp.array([1]), jnp.int32(0))
    y = alone.privatize(jax.random.key(14), nobody)
    assert int(y.neighbours.count) == 0
    assert y.neighbours.ids.tolist() == [1]
    assert float(alone.log_density(y, nobody)) == 0.0
    assert float(y.degree) == 0.0 or not isinstance(m, DPRR)


@pytest.mark.parametrize(
    "m", [DPRR(0.5, 0.5), RandomizedResponse(0.5), LocalLap(0.5, 0.5)], ids=lambda m: type(m).__name__
)
def test_a_set_with_graphs_of_one_node(m):
    """Single nodes report nobody; other small graphs, with or without edges, keep to themselves."""
    node_graph = np.repeat(np.arange(6), [1, 2, 2, 1, 4, 1])
    whole = GraphSet.from_edges([1, 2], [2, 1], node_graph, [0, 1] * 3)
    for seed in range(5):
        noisy = privatize_graph(jax.random.key(seed), whole, m)
        assert isinstance(noisy.graph, GraphSet)
        for name in ("node_graph", "labels"):
            np.testing.assert_array_equal(getattr(noisy.graph, name), getattr(whole, name))
        graph_of = node_graph[noisy.graph.receivers]
        np.testing.assert_array_equal(graph_of, node_graph[noisy.graph.senders])
        assert not np.isin(graph_of, [0, 3, 5]).any()
        assert GraphSet.from_edges(noisy.graph.senders, noisy.graph.receivers, node_graph, [0, 1] * 3)


def test_one_user_is_total_on_data():
    m = DPRR(0.5, 0.5, n=5)
    for ids in ([-3, 0, 7, 99, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0], [5, 5, 5, 5, 5]):
        y = m.privatize(jax.random.key(15), NeighbourList(jnp.array(ids), jnp.int32(-4)))
        kept = np.asarray(y.neighbours.ids)
        count = int(y.neighbours.count)
        assert (kept[:count] < 5).all()
        assert (kept[:count] > 0).all()
        assert (kept[count:] == 5).all()
        assert 0 <= float(y.degree) <= 4


@pytest.mark.usefixtures("untyped")
def test_bad_arguments_are_refused():
    graph = graphs.from_edges(EDGES, N)
    key, m = jax.random.key(0), DPRR(0.5, 0.5)
    with pytest.raises(ValueError, match="threefry"):
        privatize_graph(jax.random.key(0, impl="rbg"), graph, m)
    two = graphs.from_edges([[0, 1]], 4)._replace(n_node=np.array([2, 2]), n_edge=np.array([2, 0]))
    with pytest.raises(ValueError, match="a GraphsTuple of 2: give a set of graphs as a graphs.GraphSet"):
        privatize_graph(key, two, m)
    with pytest.raises(ValueError, match="mechanism must be one on neighbour lists or on graphs, got Laplace"):
        privatize_graph(key, graph, Laplace(1.0))
    with pytest.raises(ValueError, match=r"public must be bool \[6\]"):
        privatize_graph(key, graph, m, public=np.zeros(5, bool))
    with pytest.raises(ValueError, match="reporting must be one of full, half list, half"):
        privatize_graph(key, graph, m, reporting="quarter")
    with pytest.raises(ValueError, match="reporting must be one of full, half list, half"):
        DPRR(0.5, 0.5, reporting="quarter")
    with pytest.raises(ValueError, match=r"expected to take .* GB .*: randomised response is dense, DPRR is not"):
        privatize_graph(key, graph, RandomizedResponse(0.5), memory=10.0)
    with pytest.raises(ValueError, match="n must be given"):
        m.privatize(key, NeighbourList(jnp.array([1]), jnp.int32(0)))
    for make in (lambda: DPRR(0.0, 1.0), lambda: DPRR(1.0, -1.0), lambda: RandomizedResponse(math.nan)):
        with pytest.raises(ValueError, match="must be finite and > 0"):
            make()
    with pytest.raises(ValueError, match="noise must be one of laplace, geometric"):
        DPRR(1.0, 1.0, noise="normal")
    with pytest.raises(ValueError, match="prior must be weights"):
        DPRR(1.0, 1.0, prior=[-1.0, 2.0])


def test_guarantees_name_units_and_what_is_left_out():
    noisy = privatize_graph(jax.random.key(0), graphs.from_edges(EDGES, N), DPRR(0.3, 0.7), reporting="half list")
    assert noisy.guarantee[NEIGHBOUR_LIST].epsilon == pytest.approx(1.0)
    assert noisy.guarantee[RELATIONSHIP].epsilon == pytest.approx(1.3)
    assert noisy.guarantee.protected == ("edges",)
    assert noisy.guarantee.unprotected == ("number of nodes",)


THREE = np.array([0.25, 1.0, 0.5])


@pytest.mark.parametrize("m", [DPRR(THREE, THREE[::-1] / 2), RandomizedResponse(THREE)])
def test_an_edge_costs_what_the_algebra_says_of_its_ends(m):
    """Of all pairs of users the two that lose most; the numbers and the words of composition.relationship."""
    bits = [
        Guarantee(epsilon, unit=NEIGHBOUR_LIST, status="proved", reason="a bit") for epsilon in m.sums().tolist()
    ]
    pairs = [relationship(first, second).epsilon for first, second in itertools.combinations(bits, 2)]
    found = m.relationship("full")
    assert (found.epsilon, found.unit, found.status) == (max(pairs), RELATIONSHIP, "proved")
    owners = [min(first.epsilon, second.epsilon) for first, second in itertools.combinations(bits, 2)]
    assert m.relationship("half").epsilon == max(owners)
