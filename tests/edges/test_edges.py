"""Neighbour lists of whole graphs: their law, what an edge costs, and their limits."""

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as scipy_stats

from ldp_jax import verification
from ldp_jax.core.mechanism import mechanism, static
from ldp_jax.edges import (
    DPRR,
    LocalLap,
    NeighbourList,
    NoisyDegree,
    RandomizedResponse,
    _sparse,
    privatize_graph,
    public_part,
)
from ldp_jax.edges._sparse import Users
from ldp_jax.edges.degree_noise import NOISES, SendsDegree
from ldp_jax.edges.neighbour_lists import ListMechanism, flip_rate
from ldp_jax.graph import graphs
from tests import stats
from tests.edges.small import (
    EDGES,
    N,
    assert_bits_have_the_law,
    bits_of,
    copies,
    dense,
    owner_of,
    ring,
)
from tests.marks import untyped


@pytest.mark.parametrize("size", [2, 9])
def test_halves_are_a_partition(size):
    """Every pair has one owner, ranks and nodes are inverse, for every division into two levels."""
    for cut in range(1, size + 1):
        owners = np.zeros((size, size), int)
        for place in range(size):
            low, high = (0, cut) if place < cut else (cut, size)
            user = Users(*map(np.int32, (place, low, high, size)))
            owned = int(_sparse.universe(user, True))
            nodes = np.asarray(_sparse.node_of(user, np.arange(size), half=True))[:owned]
            assert (np.diff(nodes) > 0).all()
            np.testing.assert_array_equal(_sparse.rank_of(user, nodes, True), np.arange(owned))
            assert np.asarray(_sparse.owns(user, nodes, True)).all()
            owners[place, nodes] += 1
        np.testing.assert_array_equal(owners + owners.T, 1 - np.eye(size, dtype=int))


FIRST = np.array([0.5, 2.0, 0.25, 1.0, 0.7, 1.5], np.float32)
SECOND = np.array([2.0, 1.0, 0.5, 1.0, 0.4, 2.5], np.float32)  # sums 2.5, 3, 0.75, 2, 1.1, 4
PRIOR = np.array([1.0, 4.0, 2.0, 1.0], np.float32)
TIED = np.array([0.5, 2.0, 0.5, 2.0, 2.0, 0.5], np.float32)
SHOWN = [0, 3]
LAWS = {
    "laplace, beside public users": (DPRR(0.7, 1.1), "full"),
    "personal, half": (DPRR(FIRST, SECOND, prior=PRIOR, noise="geometric"), "half"),
    "personal, half list": (DPRR(FIRST, SECOND, prior=PRIOR), "half list"),
    "response, half": (RandomizedResponse(TIED), "half"),
}


@pytest.mark.parametrize(
    ("n", "epsilon"), [(300_000, 12.7), pytest.param(3_000_000, 15.0, marks=pytest.mark.slow)]
)
def test_a_large_graph_has_the_right_counts(n, epsilon):
    """False pairs of n users among as many others: G tests of counts and places; total variation of
    1 or 0.3 %.
    """
    noisy = privatize_graph(
        jax.random.key(4), graphs.from_edges([[0, 1]], n), RandomizedResponse(epsilon)
    )
    received = np.bincount(noisy.graph.receivers[noisy.graph.receivers > 1], minlength=n)[2:]
    law = scipy_stats.binom.pmf(np.arange(20), n - 1, 1 / (1 + math.exp(epsilon)))
    stats.assert_g(np.bincount(received, minlength=20)[:20], law / law.sum())
    stats.assert_g(
        np.bincount(noisy.graph.senders * np.int64(60) // n, minlength=60), np.full(60, 1 / 60)
    )


@pytest.mark.parametrize("block", [1, 3, 8])
def test_blocks_of_users_report_their_own_friends(block, monkeypatch):
    """Drawn graphs without flips: users of any block report their own friends, and no others."""
    monkeypatch.setattr(_sparse, "_BLOCK", block)
    rng = np.random.default_rng(block)
    n = 12
    exact = RandomizedResponse(40.0)  # one bit in 2e17 is flipped
    for _ in range(2):
        matrix = np.triu(rng.random((n, n)) < 0.35, 1)
        graph = graphs.from_edges(np.argwhere(matrix), n)
        for reporting in ("full", "half"):
            noisy = privatize_graph(jax.random.key(0), graph, exact, reporting=reporting).graph
            found = np.zeros((n, n), bool)
            found[noisy.receivers, noisy.senders] = True
            np.testing.assert_array_equal(found, matrix | matrix.T)


def test_an_edge_of_half_lists_costs_the_most_over_pairs():
    """60 drawn sets of budgets: the sum of the owner, who has the smaller one, and another
    degree.
    """
    rng = np.random.default_rng(0)
    for _ in range(60):
        first, second = rng.choice([0.1, 0.25, 0.5, 2.0], (2, rng.integers(2, 7)))
        total = first + second
        worst = max(
            max(total[i] + first[j] for i, j in (pair, pair[::-1]) if total[i] <= total[j])
            for pair in itertools.combinations(range(len(first)), 2)
        )
        found = DPRR(first, second).relationship("half list").epsilon
        assert found == pytest.approx(worst, rel=1e-6)
        assert found >= worst


@mechanism
class OwnThinning(SendsDegree):
    """DPRR's degree, and bits without thinning."""

    epsilon_degree: float
    epsilon_edges: float
    n: int | None = static(default=None)
    noise: str = static(default="laplace")
    reporting: str = static(default="full")

    budgets = DPRR.budgets

    @property
    def degree_epsilon(self):
        return self.epsilon_degree

    def bit_rates(self, noisy, owned):
        flip = flip_rate(self.epsilon_edges)
        return 1 - flip, flip, flip

    def estimate(self, y, own=0):
        return y.degree

    def proof(self):
        return "both parts compose"


class OwnLists(ListMechanism):
    """A mechanism of which it is not known what the other end sends."""

    n = None
    reporting = "full"
    budgets = {"epsilon": 1.0}
    epsilon = 0.5
    bit_rates = estimate = proof = lambda *_: "nothing"


def test_an_own_mechanism_pays_for_the_degrees_of_both_ends_in_half_list():
    """The pair is in one list and in both degrees; it was charged for the list's owner alone."""
    m = OwnThinning(0.25, 0.5)
    assert [m.relationship(one).epsilon for one in m.reportings] == [1.5, 1.0, 0.75]
    assert OwnLists().relationship("half list").epsilon == 1.0
    assert RandomizedResponse(0.5).relationship("half list").epsilon == 0.5


class Overstated(OwnLists):
    """A mechanism whose bits cost more than its budgets say."""

    def guarantee(self):
        return dataclasses.replace(super().guarantee(), epsilon=0.75)


def test_an_edge_never_costs_less_than_a_bit_that_it_moves():
    """Its cost came from budgets that the mechanism's own guarantee contradicted."""
    with pytest.raises(ValueError, match=r"override sums\(\) or relationship\(\) too, got 0.75"):
        Overstated().relationship()


def test_the_bias_of_a_clipped_degree_is_that_of_its_law():
    """Drawn budgets and degrees, by sums over the noise itself; 1e-3 of a degree is seen."""
    rng = np.random.default_rng(0)
    steps = np.arange(-40_000, 40_001) / 200
    for noise, z in (("laplace", steps), ("geometric", np.arange(-200.0, 201.0))):
        for _ in range(20):
            epsilon = rng.uniform(0.2, 3.0)
            owned = int(rng.integers(1, 12))
            degree = int(rng.integers(owned + 1))
            mass = np.exp(-epsilon * np.abs(z))
            expected = mass @ np.clip(degree + z, 0, owned) / mass.sum() - degree
            found = NoisyDegree(epsilon, noise=noise).degree_bias(degree, owned)
            assert float(found) == pytest.approx(expected, abs=1e-3)
    short = DPRR(0.1, 0.9).degree_bias(np.array([6], np.int8), 200)  # 200 is -56 in 8 bits
    assert float(short[0]) == pytest.approx(2.744, abs=1e-3)


def personal(m, choose):
    """A mechanism with ``choose`` applied to each budget that users have of their own."""
    return m.of_users(lambda leaf: choose(np.asarray(leaf)) if np.ndim(leaf) else leaf)


@pytest.mark.parametrize("case", LAWS)
def test_whole_graphs_have_the_law(case, monkeypatch):
    """10 000 copies: every pair given its owner's noisy degree, 0.026, and every noisy degree.

    Users are drawn in four blocks and more.
    """
    monkeypatch.setattr(_sparse, "_BLOCK", 2**14)
    m, reporting = LAWS[case]
    count = 10_000
    truth = dense()
    shown = SHOWN if "public" in case else []
    private = [i for i in range(N) if i not in shown]
    noisy = privatize_graph(
        jax.random.key(0),
        copies(count),
        personal(m, lambda leaf: np.tile(leaf, count)),
        reporting=reporting,
        public=np.tile(np.isin(np.arange(N), shown), count),
    )
    bits = bits_of(noisy, count)
    degree = noisy.degree.reshape(count, N)

    sums = np.broadcast_to(m.sums(), N)
    owner = lambda i, j: i if reporting == "full" else owner_of(i, j, sums)
    counted = ~np.eye(N, dtype=bool)
    if reporting == "half":
        counted &= [[owner(i, j) == i for j in range(N)] for i in range(N)]
    owned = counted.sum(1)
    true = (truth & counted).sum(1)
    each = [personal(m, lambda leaf, i=i: float(leaf[i])) for i in range(N)]
    assert_bits_have_the_law(bits, degree, each, owner, owned.tolist(), truth, private)
    if reporting != "full":
        np.testing.assert_array_equal(bits, bits.swapaxes(1, 2))
    for i in private:
        if isinstance(m, DPRR):
            check_degrees(each[i], degree[:, i], true[i], owned[i])
        else:
            assert np.isnan(degree[:, i]).all()
    assert (bits[:, shown] == truth[shown]).all()
    assert (degree[:, shown] == truth.sum(1)[shown]).all()
    assert ("lists of public users" in noisy.guarantee.unprotected) == bool(shown)


degree_law = jax.jit(lambda m, d, owned: m.degree_log_density(jnp.arange(float(N)), d, owned))


def check_degrees(m, noisy, d, owned):
    """KS between the atoms, and the atoms; whole numbers by a G test: 0.035 in probability."""
    if owned == 0:
        assert (noisy == 0).all()
        return
    if m.noise == "geometric":
        law = np.exp(np.asarray(degree_law(m, d, owned)[: owned + 1], np.float64))
        np.testing.assert_allclose(law.sum(), 1.0, rtol=1e-5)
        stats.assert_g(np.bincount(noisy.astype(int), minlength=owned + 1), law / law.sum())
        return
    laplace = scipy_stats.laplace(d, 1 / float(m.degree_epsilon))
    low, high = laplace.cdf([0, owned])
    stats.assert_share((noisy == 0).sum(), len(noisy), low)
    stats.assert_share((noisy == owned).sum(), len(noisy), 1 - high)
    between = noisy[(noisy > 0) & (noisy < owned)]
    stats.assert_ks(between, lambda y: (laplace.cdf(y) - low) / (high - low))


def test_pairs_with_public_users_are_released_as_they_are():
    """In a half matrix, of 10 000 copies; pairs of private users keep their law, 0.05."""
    count = 10_000
    truth = dense()
    public = np.isin(np.arange(N), SHOWN)
    m = RandomizedResponse(1.0, reporting="half")
    noisy = privatize_graph(jax.random.key(9), copies(count), m, public=np.tile(public, count))
    bits = bits_of(noisy, count)
    for i, j in itertools.combinations(range(N), 2):
        rate = truth[i, j] if public[i] or public[j] else 1 / (1 + math.e ** (1 - 2 * truth[i, j]))
        stats.assert_share(bits[:, i, j].sum(), count, rate)
    part = public_part(graphs.from_edges(EDGES, N), public)
    np.testing.assert_array_equal(graphs.to_edges(part), [[0, 3]])


@pytest.mark.parametrize("noise", NOISES)
def test_the_degree_of_a_whole_list_is_that_among_private_users(noise):
    """A ring of 10 users who are also friends with 40 public ones."""
    circle = [(i, (i + 1) % 10) for i in range(10)]
    friendly = graphs.from_edges(circle + [(i, j) for i in range(10) for j in range(10, 50)], 50)
    m = DPRR(15.0, 3.0, noise=noise, reporting="half list")
    found = privatize_graph(jax.random.key(9), friendly, m, public=np.arange(50) >= 10)
    np.testing.assert_allclose(found.degree[:10], 2.0, atol=2.0)


COSTS = {"full": 2.0, "half list": 1.3, "half": 1.0}
ALIKE = [
    NoisyDegree(1.0, noise="geometric"),
    *(DPRR(0.3, 0.7, noise=noise) for noise in NOISES),
    LocalLap(0.3, 0.7),
]
PERSONAL = [
    # The larger sum has the smaller part, of either kind.
    ((2.0, 0.1, 0.4, 0.2), (0.1, 1.0, 0.2, 1.6)),
    ((0.2, 0.7, 0.2, 0.7), (0.8, 0.3, 0.8, 0.3)),  # one sum, unequal parts
    (0.3, (0.4, 2.0, 0.9, 1.4)),
]


@untyped
def test_an_edge_costs_what_is_claimed():
    """All graphs of four nodes, all edges and critical reports: to one part in 1e9."""
    for m in ALIKE:
        for reporting in m.reportings:
            found = verification.relationship_supremum(m, reporting).epsilon
            claimed = m.relationship(reporting).epsilon
            assert [found, claimed] == pytest.approx([COSTS[reporting]] * 2, rel=1e-9)
    for first, second in PERSONAL:
        first = np.array(first)
        second = np.array(second)
        degrees = NoisyDegree(second, noise="geometric")
        for m in (DPRR(first, second, noise="geometric"), RandomizedResponse(second), degrees):
            for reporting in m.reportings:
                found = verification.relationship_supremum(m, reporting).epsilon
                assert m.relationship(reporting).epsilon == pytest.approx(found, rel=1e-6)


@mechanism
class Quieter(DPRR):
    """Half of the noise on the degree."""

    def degree_log_density(self, noisy, degree, owned):
        honest = DPRR(2 * self.epsilon_degree, self.epsilon_edges)
        return honest.degree_log_density(noisy, degree, owned)


def test_the_enumeration_sees_a_wrong_law():
    """Also the claim of owned degrees where whole ones are sent."""
    found = verification.relationship_supremum(Quieter(0.3, 0.7), "full").epsilon
    assert found == pytest.approx(2.6, rel=1e-9)
    m = DPRR(0.3, 0.7)
    found = verification.relationship_supremum(m, "half list").epsilon
    assert found > m.relationship("half").epsilon + 0.29


@pytest.mark.parametrize("reporting", NoisyDegree.reportings)
@pytest.mark.parametrize("noise", NOISES)
def test_degrees_alone_are_those_of_dprr(noise, reporting):
    """The same key, budget and graph give one draw; each user has a budget of their own."""
    budgets = np.tile(np.float32([0.5, 2.0]), 20)
    if reporting == "half":  # owners are chosen by the sum, which must be one order
        beside = DPRR(budgets, budgets, noise=noise)
    else:
        beside = DPRR(budgets, 1.0, noise=noise)
    degrees = [
        privatize_graph(jax.random.key(1), ring(), m, reporting=reporting).degree
        for m in (NoisyDegree(budgets, noise=noise), beside)
    ]
    np.testing.assert_array_equal(*degrees)
    assert (degrees[0] == np.round(degrees[0])).all() == (noise == "geometric")


def test_the_papers_split_is_made_sound():
    published = DPRR.as_published(0.5, n_max=957)
    sound = DPRR.from_epsilon(0.5, n_max=957)
    assert sound.guarantee().epsilon == pytest.approx(0.5, rel=1e-12)
    assert sound.epsilon_degree == published.epsilon_degree == pytest.approx(math.sqrt(8 / 956))
    assert published.epsilon_edges == pytest.approx(0.9 * 0.5)
    for alpha, first in ((0.7, 0.6), (0.95, math.sqrt(8 / 40))):  # by its share, by eq. 8's bound
        published = DPRR.as_published(2.0, 41, alpha, reporting="half")
        sound = DPRR.from_epsilon(2.0, 41, alpha, reporting="half")
        budgets = [(m.epsilon_degree, m.epsilon_edges) for m in (published, sound)]
        np.testing.assert_allclose(budgets, [(first, 2 * alpha), (first, 2 - first)], rtol=1e-6)
        assert published.reporting == sound.reporting == "half"


@jax.jit
def estimate_degree(m, noisy):
    return m.estimate_degree(noisy)


def test_posterior_mean_of_the_degree():
    """Against the sums written out, also where e^eps overflows and far above a prior."""
    prior = np.array([0.11, 0.01, 0.51, 0.21, 0.21], np.float32)
    support = np.arange(5)
    noisy = np.array([0.0, 0.3, 2.7, 4.0, 9.0, 50.0, 4000.0, 1e6], np.float32)
    each = np.array([0.1, 0.5, 1.0, 2.0, 3.0, 0.2, 0.4, 8.0], np.float32)
    for epsilon in (0.1, 0.8, 2.0, 60.0, 100.0, each):
        budgets = np.broadcast_to(epsilon, noisy.shape)
        far = np.abs(noisy[:, None].astype(np.float64) - support) * budgets[:, None]
        weight = prior * np.exp(far.min(1, keepdims=True) - far)
        for given in (epsilon, budgets):
            found = estimate_degree(DPRR(given, 1.0, prior=prior), noisy)
            due = weight @ support / weight.sum(1)
            np.testing.assert_allclose(found, due, rtol=1e-4, atol=1e-12)
    # A point prior gives that point, and a flat one far from its ends gives d*.
    point = DPRR(0.8, 1.0, prior=[0, 0, 0, 1.0])
    np.testing.assert_allclose(estimate_degree(point, noisy), 3.0, rtol=1e-6)
    flat = DPRR(0.8, 1.0, prior=np.ones(2000))
    middle = np.float32([500.0, 1000.5])
    np.testing.assert_allclose(estimate_degree(flat, middle), middle, rtol=1e-4)
    apart = DPRR(20.0, 1.0, prior=[1.0] + [0.0] * 300 + [1.0])
    assert np.isfinite(estimate_degree(apart, np.float32([150.0]))).all()


@pytest.mark.parametrize("m", [*ALIKE[1:], RandomizedResponse(0.5)], ids=repr)
def test_graphs_without_edges_or_company(m):
    nobody = NeighbourList.of([], 1)
    for reporting in m.reportings:
        for n, edges in ((1, []), (2, []), (2, [[0, 1]]), (5, [])):
            graph = graphs.from_edges(edges, n)
            noisy = privatize_graph(jax.random.key(13), graph, m, reporting=reporting)
            assert np.isnan(noisy.degree).all() == isinstance(m, RandomizedResponse)
            assert len(noisy.graph.senders) <= n * (n - 1)
        alone = dataclasses.replace(m, n=1, reporting=reporting)
        y = jax.jit(alone.privatize)(jax.random.key(14), nobody)
        if isinstance(m, LocalLap):
            assert np.isnan(y.values).all()
            assert not alone.select(jax.tree.map(lambda leaf: leaf[None], y)).any()
        else:
            assert y.neighbours.ids.tolist() == [1]
            assert float(y.degree) == 0.0 or isinstance(m, RandomizedResponse)
            assert float(jax.jit(alone.log_density)(y, nobody)) == 0.0


@pytest.mark.usefixtures("untyped")
def test_degrees_under_personal_budgets_are_estimated_under_strict_promotion():
    m = DPRR(FIRST, SECOND, prior=PRIOR)
    noisy = jnp.linspace(0.0, 3.0, len(FIRST), dtype=jnp.float32)
    expected = m.estimate_degree(noisy)
    with jax.numpy_dtype_promotion("strict"):
        np.testing.assert_array_equal(m.estimate_degree(noisy), expected)
