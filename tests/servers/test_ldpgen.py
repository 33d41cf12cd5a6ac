"""LDPGen: what a bit can change, what the driver states, and what the synthetic graph keeps."""

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
from ldp_jax.servers import Answers, LDPGenServer, Users, simulate
from ldp_jax.servers.parts.synthetic_graph import draw_graph
from ldp_jax.servers.questions import User
from tests.accounting.test_statement import of_one_pair, of_one_user

SIGMA = scipy.stats.norm.isf(0.5e-6)
N = 300
DENSE = np.arange(N) < N // 2


def two_blocks(dense, sparse, between):
    """A graph whose pairs are linked with these chances, within either half and between them."""
    draws = np.random.default_rng(0).random((N, N))
    chance = np.where(DENSE[:, None] & DENSE, dense, np.where(DENSE[:, None] | DENSE, between, 0))
    chance = np.where(~DENSE[:, None] & ~DENSE, sparse, chance)
    return graphs.from_edges(np.argwhere(np.triu(draws < chance, 1)), N)


GRAPH = two_blocks(0.2, 0.05, 0.01)
USERS = Users(lists=GRAPH)


def links(graph, mine=None, other=None):
    """How many entries of lists go from ``mine`` to ``other``."""
    senders = np.asarray(graph.senders)
    receivers = np.asarray(graph.receivers)
    if mine is None:
        return len(senders)
    return int((mine[receivers] & other[senders]).sum())


def agreement(groups, truth):
    """The share of users in the right one of two groups, whatever they are called."""
    share = (groups == truth).mean()
    return max(share, 1 - share)


@jax.jit
def counts_of_all(question, ids, sizes):
    """The answers of user 0 with each list."""
    key = jax.random.key(0)
    answer = lambda ids, size: question.answer(
        key, User(None, None, NeighbourList(ids, size), jnp.int32(0))
    )
    return jax.vmap(answer)(ids, sizes)


def test_a_bit_changes_one_count_by_one():
    """All lists of user 0 of five, all divisions into two groups: a change of 1 in the sum."""
    lists = list(itertools.product((0, 1), repeat=4))
    padded = [NeighbourList.of(np.flatnonzero(bits) + 1, 5) for bits in lists]
    ids = np.stack([one.ids for one in padded])
    sizes = np.stack([one.count for one in padded])
    changed = np.abs(np.array(lists)[:, None] - np.array(lists)).sum(2) == 1
    halves = LDPGenServer(5, 1.0, 1.0).init(jax.random.key(0)).question
    for groups in itertools.product((0, 1), repeat=5):
        question = dataclasses.replace(halves, groups=np.array(groups, np.int32)).exact()
        counts = np.asarray(counts_of_all(question, ids, sizes))
        change = np.abs(counts[:, None] - counts).sum(2)
        assert (change[changed] == 1).all()


def test_the_statement_is_the_most_that_a_user_and_a_pair_can_lose():
    for first, second in ((0.5, 0.5), (0.5, 1.0)):
        stated = LDPGenServer(N, first, second).statement()
        found = stated.guarantee()
        assert found[NEIGHBOUR_LIST].epsilon == pytest.approx(first + second, rel=1e-6)
        assert found[RELATIONSHIP].epsilon == pytest.approx(2 * (first + second), rel=1e-6)
        assert found[NEIGHBOUR_LIST].epsilon == pytest.approx(of_one_user(stated, ("list",)))
        assert found[RELATIONSHIP].epsilon == pytest.approx(of_one_pair(stated))
        assert found[NEIGHBOUR_LIST].arithmetic == "exact"


def test_blocks_of_different_degrees_are_recovered_at_a_large_epsilon():
    """Blocks of one degree are not: a random division tells degrees alone."""
    found = simulate(jax.random.key(0), LDPGenServer(N, 20.0, 20.0, num_groups=2), USERS).value
    assert agreement(found.groups, DENSE) > 0.95
    for mine, other in itertools.product((DENSE, ~DENSE), repeat=2):
        true = links(GRAPH, mine, other)
        assert abs(links(found.graph, mine, other) - true) < 0.3 * true + 6 * math.sqrt(true)
    alike = Users(lists=two_blocks(0.1, 0.1, 0.01))
    found = simulate(jax.random.key(0), LDPGenServer(N, 20.0, 20.0, num_groups=2), alike).value
    assert agreement(found.groups, DENSE) < 0.8


def test_exact_answers_give_the_true_number_of_links_and_noise_keeps_its_mean():
    """The noisy counts of 16 runs: a mean that is 4 % off is seen."""
    server = LDPGenServer(N, 1.0, 1.0, num_groups=3)
    exact = simulate(jax.random.key(0), server, USERS.exact()).value
    assert links(exact.graph) == links(GRAPH)
    runs = [simulate(jax.random.key(seed), server, USERS).value.graph for seed in range(16)]
    noisy = np.array([links(graph) for graph in runs])
    deviation = math.sqrt(N * 3 * 2 / math.expm1(1) ** 2 * math.e)  # of whole noise of rate 1
    assert noisy.std() < 3 * deviation
    assert abs(noisy.mean() - links(GRAPH)) < SIGMA * deviation / 4 + 1


def test_the_number_of_groups_is_the_published_one_up_to_the_largest():
    server = LDPGenServer(N, 1.0, 2.0, most_groups=50)
    degrees = np.array([4.0, 10.0, -3.0])  # the last one counts as 1
    each = [a + (a * a - 2 * (1 + math.sqrt(5)) * a + 1) / 2.0 for a in (2.0, 5.0, 0.5)]
    assert server._found(degrees) == max(math.ceil(np.mean(each)), 1)
    assert server._found(np.full(3, 60.0)) == 50
    assert server._found(np.full(3, 4.0)) == 1


def test_silent_users_have_the_mean_vector():
    server = LDPGenServer(N, 20.0, 20.0, num_groups=2)
    state = server.init(jax.random.key(0))
    silent = np.arange(N) % 2 > 0
    while not hasattr(state, "graph"):
        answers = USERS.answer(jax.random.key(1), state.question)
        state = server.step(state, Answers(answers.values, ~silent))
    assert links(state.graph) == pytest.approx(links(GRAPH), rel=0.1)
    graphs.validate_symmetric(state.graph)


def test_users_without_links_have_a_graph_without_many():
    nobody = Users(lists=graphs.from_edges([], 20))
    found = simulate(jax.random.key(0), LDPGenServer(20, 1.0, 1.0), nobody.exact()).value
    assert links(found.graph) == 0
    few = Users(lists=graphs.from_edges([[0, 1], [2, 3]], 20, pairs_in="rows"))
    found = simulate(jax.random.key(0), LDPGenServer(20, 1.0, 1.0), few.exact()).value
    assert links(found.graph) == 4  # two pairs are an array of two rows and two columns
    everybody = Users(lists=graphs.from_edges(list(itertools.combinations(range(20), 2)), 20))
    found = simulate(jax.random.key(0), LDPGenServer(20, 9.0, 9.0), everybody).value
    assert links(found.graph) > 0.7 * 20 * 19


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LDPGenServer(1, 1.0, 1.0), "num_users must be a whole number >= 2, got 1"),
        (lambda: LDPGenServer(9, 0.0, 1.0), r"epsilon must be in \[0.001, 40\], got 0"),
        (lambda: LDPGenServer(9, 1.0, 50.0), r"epsilon must be in \[0.001, 40\], got 50"),
        (lambda: LDPGenServer(9, 1.0, 1.0, num_groups=10), r"num_groups must be a whole number in"),
        (lambda: LDPGenServer(9, 1.0, 1.0, most_groups=0), "most_groups must be a whole number"),
        (lambda: LDPGenServer(9, 1.0, 1.0, affinity=1.5), r"affinity must be in \[0.0, 1.0\]"),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_blocks_keep_every_mean_degree():
    """The mean over 16 graphs: 3 % of the degree of any class of users is seen."""
    inner = np.tile(np.repeat([4.0, 9.0, 19.0], [500, 600, 400]), 2)
    groups = np.repeat([0, 1], 1500)
    counts = np.where(groups[:, None] == [0, 1], inner[:, None], 3.0)
    rng = np.random.default_rng(0)
    drawn = [draw_graph(rng, counts, groups, 0.95) for _ in range(16)]
    degrees = np.mean([np.bincount(one.senders, minlength=3000) for one in drawn], 0)
    for degree in (4.0, 9.0, 19.0):
        found = degrees[inner == degree].mean()
        assert found == pytest.approx(degree + 3, rel=0.03)
    across = [links(one, groups == 0, groups == 1) for one in drawn]
    assert np.mean(across) == pytest.approx(4500, rel=0.03)


def test_blocks_bring_clustering_back():
    """Cliques of ten: blocks keep 0.18 of it, and the law of Chung and Lu the 0.03 of chance."""
    clique = np.arange(N) // 10
    cliques = graphs.from_edges(np.argwhere(np.triu(clique[:, None] == clique, 1)), N)
    server = LDPGenServer(N, 2.0, 2.0, num_groups=1)
    clustering = {}
    for affinity in (0.0, 0.95):
        asked = dataclasses.replace(server, affinity=affinity)
        found = simulate(jax.random.key(0), asked, Users(lists=cliques)).value.graph
        dense = np.zeros((N, N))
        dense[found.senders, found.receivers] = 1
        pairs = (dense @ dense) * (1 - np.eye(N))
        clustering[affinity] = (pairs * dense).sum() / pairs.sum()
    assert clustering[0.0] < 0.05
    assert clustering[0.95] > 0.12
