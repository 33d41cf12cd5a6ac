"""Triangles in two rounds and k-stars in one: what a bit can change, what the driver states, and
how good the estimates are.
"""

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP
from ldp_jax.edges import NeighbourList
from ldp_jax.graph import graphs
from ldp_jax.servers import Answers, StarServer, TriangleServer, Users, simulate
from ldp_jax.servers.questions import PairsQuestion, User
from ldp_jax.servers.questions.pairs import bits_of
from ldp_jax.servers.stars import StarQuestion
from ldp_jax.servers.triangles import TriangleQuestion
from tests.accounting.test_statement import of_one_pair, of_one_user
from tests.servers.planted import blocks

N = 60
GRAPH, _, _ = blocks(n=N, degree=8.0)
USERS = Users(lists=GRAPH)
DEGREE = np.bincount(np.asarray(GRAPH.receivers), minlength=N)
ROOM = np.stack([NeighbourList.of(GRAPH.senders[GRAPH.receivers == i], N).ids for i in range(N)])
SIGMA = scipy.stats.norm.isf(0.5e-6)


def adjacency(graph, n):
    """The true bits, with those of pairs in the row of the lower number alone."""
    bits = np.zeros((n, n))
    bits[graph.receivers, graph.senders] = 1
    return np.triu(bits)


def triangles(owned):
    """The number of triangles, by the user of the lowest number and that of the middle one."""
    return owned * (owned @ owned.T)


TRUE = triangles(adjacency(GRAPH, N)).sum()


# --- What one bit can change ----------------------------------------------------------------------


SMALL = 5
LISTS = list(itertools.product((False, True), repeat=SMALL - 1))  # of user 0, who owns all pairs


def all_noisy_graphs():
    """The noisy bits of pairs of users 1 to 4, uint32 [64, 5, 1]."""
    pairs = list(itertools.combinations(range(1, SMALL), 2))
    words = np.zeros((2 ** len(pairs), SMALL, 1), np.uint32)
    for place, bits in enumerate(itertools.product((0, 1), repeat=len(pairs))):
        for (low, high), bit in zip(pairs, bits, strict=True):
            words[place, low, 0] |= np.uint32(bit << high)
    return words


@jax.jit
def counts_of_all(keys, linked, ids, sizes, bound, flip):
    """The noiseless counts of user 0, [keys, noisy graphs, lists]."""
    everybody = np.ones(SMALL, bool)

    def one(key, words, ids, size):
        question = TriangleQuestion(words, everybody, everybody, flip, bound, 1.0, True)
        return question.answer(key, User(None, None, NeighbourList(ids, size), 0))

    of_lists = jax.vmap(one, (None, None, 0, 0))
    of_graphs = jax.vmap(of_lists, (None, 0, None, None))
    return jax.vmap(of_graphs, (0, None, None, None))(keys, linked, ids, sizes)


@pytest.mark.parametrize("bound", [2, 3, 4])
def test_a_bit_changes_a_count_by_no_more_than_its_noise_is_made_for(bound):
    """All lists, all noisy graphs, 40 draws of the places: the largest change, given the places."""
    lists = [NeighbourList.of(np.flatnonzero(bits) + 1, SMALL) for bits in LISTS]
    ids = np.stack([one.ids for one in lists])
    sizes = np.stack([one.count for one in lists])
    keys = jax.random.split(jax.random.key(0), 40)
    flip = 1 / (math.e + 1)
    found = np.asarray(counts_of_all(keys, all_noisy_graphs(), ids, sizes, bound, flip))
    worst = 0.0
    for one, other in itertools.combinations(range(len(LISTS)), 2):
        if sum(a != b for a, b in zip(LISTS[one], LISTS[other], strict=True)) == 1:
            worst = max(worst, np.abs(found[..., one] - found[..., other]).max())
    assert worst <= bound - 1 + 1e-6
    # A cut attains it; a list that is never cut gains d - 1 links less the flips alone.
    attained = bound - 1 if bound < SMALL - 1 else (bound - 1) * (1 - flip)
    assert worst == pytest.approx(attained, rel=1e-5)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_a_bit_changes_the_number_of_stars_by_no_more_than_its_noise_is_made_for(k):
    """Every degree and bound below 12; it is attained."""
    lists = [NeighbourList(None, jnp.int32(size)) for size in range(12)]
    for bound in range(k, 12):
        question = StarQuestion(np.ones(12, bool), bound, 1.0, k)
        exact = question.exact()
        keys = jax.random.split(jax.random.key(0), 12)
        users = [User(None, None, mine, 0) for mine in lists]
        stars = [float(exact.answer(key, user)) for key, user in zip(keys, users, strict=True)]
        assert stars == [math.comb(min(size, bound), k) for size in range(12)]
        assert np.diff(stars).max(initial=0) <= question.scale
        if bound < 11:
            assert np.diff(stars).max() == question.scale == math.comb(bound - 1, k - 1)


def test_a_cut_of_whole_lists_would_reach_the_other_end_of_a_pair():
    """User 2 owns {2, 3} alone. A cut of whole lists drops user 3 for the pair {0, 2}, which user 0
    owns; a cut of owned pairs does not.
    """
    ids = jnp.array([[0, 3, 4, 5, 5], [3, 4, 5, 5, 5]])
    linked = np.zeros((SMALL, 1), np.uint32)
    linked[3] = 1 << 4
    everybody = np.ones(SMALL, bool)
    question = TriangleQuestion(linked, everybody, everybody, 0.0, 2, 1.0, True)
    found = [
        float(question.answer(jax.random.key(0), User(None, None, NeighbourList(one, 0), 2)))
        for one in ids
    ]
    assert found == [1.0, 1.0]


# --- What the driver states -----------------------------------------------------------------------


def test_the_statement_is_the_most_that_a_user_and_a_pair_can_lose():
    """One owner in all rounds: a pair costs what a bit costs. Both ends count stars."""
    server = TriangleServer(N, 1.0, 2.0, epsilon_degree=0.5)
    stated = server.statement()
    found = stated.guarantee()
    assert found[NEIGHBOUR_LIST].epsilon == pytest.approx(3.5, rel=1e-6)
    assert found[RELATIONSHIP].epsilon == pytest.approx(3.5, rel=1e-6)
    assert found[NEIGHBOUR_LIST].epsilon == pytest.approx(of_one_user(stated, ("list",)))
    assert found[RELATIONSHIP].epsilon == pytest.approx(of_one_pair(stated))
    stars = StarServer(N, 1.0, epsilon_degree=0.5).statement()
    assert stars.guarantee()[NEIGHBOUR_LIST].epsilon == pytest.approx(1.5, rel=1e-6)
    assert stars.guarantee()[RELATIONSHIP].epsilon == pytest.approx(3.0, rel=1e-6)
    assert stars.guarantee()[RELATIONSHIP].epsilon == pytest.approx(of_one_pair(stars))


def test_the_whole_protocol_loses_what_is_stated():
    """Three users, all graphs of them, all noisy graphs, critical counts: the largest log ratio
    over the pair {0, 1}, from the laws of both rounds.

    User 0 owns two pairs, and counts one triangle of the bit that user 1 sent.
    """
    epsilon_pairs, epsilon = 1.0, 2.0
    flip = 1 / (math.exp(epsilon_pairs) + 1)
    scale = 1 / epsilon  # bound 2
    worst = 0.0
    for noisy in (0, 1):
        for bit_02, sent in itertools.product((0, 1), repeat=2):
            for count in (-flip, 1 - flip, 0.0):
                logs = []
                for bit_01 in (0, 1):
                    same = math.log(1 - flip if sent == bit_01 else flip)
                    true = bit_01 * bit_02 * (noisy - flip)
                    logs.append(same - abs(count - true) / scale)
                worst = max(worst, abs(logs[0] - logs[1]))
    stated = TriangleServer(3, epsilon_pairs, epsilon, bound=2).statement().guarantee()
    # Three users have no list that is cut, whose bit tells (1 - p)(d - 1) of the sensitivity.
    assert worst == pytest.approx(epsilon_pairs + (1 - flip) * epsilon, rel=1e-6)
    assert worst <= stated[RELATIONSHIP].epsilon


# --- How good the estimates are -------------------------------------------------------------------


@jax.jit
def counts_of_users(keys, question):
    """The answers of all users, [keys, n]."""

    def of_user(key, ids, size, own):
        return question.answer(key, User(None, None, NeighbourList(ids, size), own))

    def of_all(key):
        of_each = jax.vmap(of_user)
        return of_each(jax.random.split(key, N), jnp.asarray(ROOM), DEGREE, jnp.arange(N))

    return jax.vmap(of_all)(keys)


def expected_of_cut(linked, flip, bound):
    """The mean count of all users: of m owned friends a pair is kept by C(d, 2) / C(m, 2)."""
    bits = bits_of(np.asarray(linked), np.arange(N))
    owned = adjacency(GRAPH, N)
    total = 0.0
    for mine in owned:
        friends = np.flatnonzero(mine)
        counted = np.triu(bits[np.ix_(friends, friends)] - flip, 1).sum()
        kept = min(1.0, bound * (bound - 1) / max(len(friends) * (len(friends) - 1), 1))
        total += kept * counted
    return total


def test_one_device_counts_as_all_are_counted_at_once():
    """Without noise the same numbers where nobody is cut; cut, both have the mean of all ways to
    keep three friends, within 5 standard deviations.
    """
    server = TriangleServer(N, 1.0, 1.0, bound=20)
    state = server.init(jax.random.key(0))
    state = server.step(state, USERS.answer(jax.random.key(1), state.question))
    question = state.question.exact()
    some = dataclasses.replace(question, known=np.arange(N) % 5 > 0)
    alone = USERS.one_by_one(jax.random.key(2), some)
    np.testing.assert_allclose(some.answer_all(jax.random.key(2), USERS), alone, atol=1e-4)
    cut = dataclasses.replace(question, bound=3)
    expected = expected_of_cut(question.linked, question.flip, 3)
    one = np.asarray(counts_of_users(jax.random.split(jax.random.key(3), 1000), cut)).sum(1)
    other = [np.asarray(cut.answer_all(jax.random.key(s), USERS)).sum() for s in range(60)]
    for found in (one, np.array(other)):
        assert abs(found.mean() - expected) < 5 * found.std() / math.sqrt(len(found))


def test_noisy_bits_follow_randomised_response():
    """The shares of flips among owned pairs, of 40 draws: a chance 2 points off is seen."""
    question = PairsQuestion(np.ones(N, bool), 1.0)
    true = adjacency(GRAPH, N)
    owned = np.triu(np.ones((N, N), bool), 1)
    flips = np.zeros(2)
    for seed in range(40):
        words = np.asarray(USERS.answer(jax.random.key(seed), question).values)
        bits = bits_of(words, np.arange(N))
        assert not bits[~owned].any()
        flips += [(bits != true)[owned & (true == bit)].sum() for bit in (0, 1)]
    trials = 40 * np.array([(owned & (true == bit)).sum() for bit in (0, 1)])
    for found, of in zip(flips, trials, strict=True):
        assert scipy.stats.binomtest(int(found), int(of), 1 / (math.e + 1)).pvalue > 1e-6


def test_the_estimate_is_unbiased_and_its_error_is_that_of_its_spread():
    """400 runs: a bias of a quarter of a standard error is seen, and a variance 40 % off.

    Randomised response has more than half of the variance.
    """
    server = TriangleServer(N, 1.0, 20.0, bound=20)
    state = server.init(jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), 400)
    words = np.asarray(counts_of_users(keys, state.question))
    everybody = np.ones(N, bool)
    found = []
    for key, linked in zip(keys, words, strict=True):
        asked = server.step(state, Answers(linked, everybody))
        counts = np.asarray(counts_of_users(jax.random.fold_in(key, 1)[None], asked.question))[0]
        found.append(server.step(asked, Answers(counts, everybody)))
    estimates = np.array([one.estimate for one in found])
    stated = np.mean([one.error**2 for one in found])
    assert abs(estimates.mean() - TRUE) < SIGMA * math.sqrt(stated / len(keys))
    ratio = ((estimates - TRUE) ** 2).mean() / stated
    assert abs(ratio - 1) < SIGMA * math.sqrt(2.5 / len(keys))  # for a kurtosis of up to 3.5
    of_laplace = 2 * N * (19 / 20) ** 2 / math.tanh(0.5) ** 2
    assert stated > 2 * of_laplace


def test_stars_are_unbiased_and_have_the_error_that_is_stated():
    """2000 runs: a bias of a ninth of a standard error is seen, and a variance 24 % off."""
    true = sum(math.comb(int(one), 3) for one in DEGREE)
    server = StarServer(N, 1.0, k=3, bound=N // 2)
    state = server.init(jax.random.key(0))
    counts = np.asarray(counts_of_users(jax.random.split(jax.random.key(1), 2000), state.question))
    error = server.step(state, Answers(counts[0], np.ones(N, bool))).error
    assert error == pytest.approx(math.sqrt(2 * N) * math.comb(N // 2 - 1, 2))
    away = counts.sum(1, dtype=float) - true
    assert abs(away.mean()) < SIGMA * error / math.sqrt(2000)
    assert abs((away**2).mean() / error**2 - 1) < SIGMA * math.sqrt(2.1 / 2000)


def test_large_epsilons_give_true_counts_and_a_cut_gives_too_few():
    exact = USERS.exact()
    for epsilon_degree, bound in ((None, N - 1), (1.0, None)):
        given = {"bound": bound, "epsilon_degree": epsilon_degree}
        found = simulate(jax.random.key(0), TriangleServer(N, 1.0, 1.0, **given), exact).value
        assert found.estimate == pytest.approx(TRUE, abs=0.01)
        assert found.error < 1e-6
        stars = simulate(jax.random.key(0), StarServer(N, 1.0, **given), exact).value
        assert stars.estimate == sum(math.comb(int(one), 2) for one in DEGREE)
        assert stars.bound == (bound or DEGREE.max())
    close = simulate(jax.random.key(0), TriangleServer(N, 30.0, 40.0, bound=N - 1), USERS).value
    assert abs(close.estimate - TRUE) < SIGMA * close.error
    cut = simulate(jax.random.key(0), TriangleServer(N, 1.0, 1.0, bound=2), exact).value
    assert 0 < cut.estimate < 0.8 * TRUE


def test_silent_users_leave_their_triangles_out():
    """Others keep theirs: the middle user of a triangle in the first round, the lowest in the
    second.
    """
    first = np.arange(N) % 4 > 0
    second = np.arange(N) % 3 > 0
    server = TriangleServer(N, 1.0, 1.0, bound=N - 1)
    exact = USERS.exact()
    state = server.init(jax.random.key(0))
    for reported in (first, second):
        question = state.question.exact()
        answers = exact.answer(jax.random.key(1), question)
        state = dataclasses.replace(state, question=question)
        state = server.step(state, Answers(answers.values, reported))
    each = triangles(adjacency(GRAPH, N))  # [lowest, middle]
    assert state.estimate == pytest.approx(each[np.ix_(second, first)].sum(), abs=0.01)


def test_a_bound_that_is_found_privately_is_the_largest_noisy_degree():
    owned = np.bincount(np.asarray(GRAPH.receivers)[GRAPH.senders > GRAPH.receivers], minlength=N)
    server = TriangleServer(N, 1.0, 1.0, epsilon_degree=40.0)
    assert simulate(jax.random.key(0), server, USERS).value.bound == owned.max()
    nobody = Users(lists=graphs.from_edges([], 5))
    few = simulate(jax.random.key(0), TriangleServer(5, 1.0, 1.0, epsilon_degree=9.0), nobody)
    assert few.value.bound >= 2


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TriangleServer(2, 1.0, 1.0, bound=2), r"num_users must be a whole number >= 3"),
        (lambda: TriangleServer(9, 0.0, 1.0, bound=2), "epsilon must be"),
        (lambda: TriangleServer(9, 1.0, -1.0, bound=2), r"epsilon must be in \(0, 40\], got -1"),
        (lambda: TriangleServer(9, 1.0, 1.0, bound=1), r"bound must be a whole number in \[2, 8\]"),
        (
            lambda: TriangleServer(9, 1.0, 1.0),
            "bound or epsilon_degree must be given",
        ),
        (
            lambda: TriangleServer(9, 1.0, 1.0, bound=3, epsilon_degree=1.0),
            "bound or epsilon_degree must be given",
        ),
        (lambda: TriangleServer(9, 1.0, 1.0, epsilon_degree=50.0), "epsilon must be in"),
        (
            lambda: TriangleServer(10**6, 1.0, 1.0, bound=9),
            r"memory must be at least 1.25e\+11 bytes",
        ),
        (lambda: StarServer(9, 1.0, k=1, bound=3), "k must be a whole number >= 2, got 1"),
        (lambda: StarServer(9, 1.0, k=4, bound=3), r"bound must be a whole number in \[4, 8\]"),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
