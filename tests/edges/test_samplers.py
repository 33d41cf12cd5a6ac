"""Mechanisms of one's own, local and central, in privatize_graph; user by user; the same draws as
ever.
"""

import hashlib
import itertools

import jax
import numpy as np
import pytest
from scipy import stats

from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP
from ldp_jax.core.mechanism import mechanism
from ldp_jax.edges import (
    DPRR,
    LocalLap,
    NoisyDegree,
    RandomizedResponse,
    _one_by_one,
    privatize_graph,
)
from ldp_jax.edges.draws import capacity
from ldp_jax.edges.pair_sets import largest
from ldp_jax.graph import graphs
from ldp_jax.graph.graphs import GraphSet
from tests.edges.small import EDGES, Coin, N, bits_of, copies, dense, owner_of, ring
from tests.newcomer.own_methods import Forget

P = 0.731  # of randomised response at epsilon 1


@pytest.mark.parametrize("reporting", ["full", "half"])
def test_a_mechanism_that_knows_one_user_alone_draws_whole_graphs(reporting):
    """8 000 copies: every pair's rate, and that a user's pairs come together; five standard errors,
    0.03.
    """
    count = 8_000
    truth = dense()
    noisy = privatize_graph(jax.random.key(0), copies(count), Coin(1.0), reporting=reporting)
    bits = bits_of(noisy, count)
    answered = (noisy.degree == 1).reshape(count, N)
    assert abs(answered.mean() - 0.5) < 5 * 0.5 / np.sqrt(count * N)
    for i, j in itertools.permutations(range(N), 2):
        rate = 0.5 * (P if truth[i, j] else 1 - P)
        assert abs(bits[:, i, j].mean() - rate) < 5 * 0.5 / np.sqrt(count), (i, j)
        owner = i if reporting == "full" else owner_of(i, j)
        assert not (bits[:, i, j] & ~answered[:, owner]).any()
    if reporting == "half":
        np.testing.assert_array_equal(bits, bits.transpose(0, 2, 1))
    assert noisy.guarantee[NEIGHBOUR_LIST].epsilon == 1.0
    assert noisy.guarantee[RELATIONSHIP].epsilon == (2.0 if reporting == "full" else 1.0)


def test_it_works_on_one_graph_on_unequal_ones_and_beside_public_users(monkeypatch):
    """In blocks of two users, too; lists of public users are as they are, and each user draws
    alone.
    """
    node_graph = np.repeat(np.arange(3), [1, 4, 4])
    path = np.array([[0, 1], [1, 2], [2, 3]])
    graph = graphs.from_edges(np.concatenate([path + 1, path[1:] + 5]), len(node_graph))
    whole = GraphSet.from_edges(graph.senders, graph.receivers, node_graph, [0, 1, 0])
    public = np.arange(len(node_graph)) % 4 == 2
    exact = Coin(15.0)  # who answers says the truth: one bit in three million is flipped
    monkeypatch.setattr(_one_by_one, "_CELLS", 8)
    noisy = privatize_graph(jax.random.key(1), whole, exact, public=public)
    ends = lambda graph: {*zip(graph.receivers.tolist(), graph.senders.tolist(), strict=True)}
    true = ends(whole)
    answers = (noisy.degree == 1) | public
    assert ends(noisy.graph) == {(to, of) for to, of in true if answers[to]}
    degree = np.bincount(whole.receivers, minlength=9)
    np.testing.assert_array_equal(noisy.degree[public], degree[public])
    np.testing.assert_array_equal(noisy.graph.labels, whole.labels)
    half = privatize_graph(jax.random.key(2), whole, exact, public=public, reporting="half")
    found = ends(half.graph)
    assert {(of, to) for to, of in found} == found <= true
    assert {(to, of) for to, of in true if public[to] or public[of]} <= found


class Fixed(Forget):
    """The same, run at each size apart."""

    any_size = False


def test_lists_of_any_size_are_drawn_by_few_programs():
    """Threefry draws the first n of more numbers alike: padding changes no bit."""
    sizes = [1, 2, 3, 5, 8, 9, 13, 70]
    node_graph = np.repeat(np.arange(len(sizes)), sizes)
    path = np.flatnonzero(node_graph[1:] == node_graph[:-1])
    both = np.concatenate([path, path + 1]), np.concatenate([path + 1, path])
    whole = GraphSet.from_edges(*both, node_graph, np.zeros(len(sizes), int))
    before = _one_by_one._reports._cache_size()
    found = privatize_graph(jax.random.key(0), whole, Forget(1.0))
    assert _one_by_one._reports._cache_size() - before == 2  # up to 64 users, and up to 128
    apart = privatize_graph(jax.random.key(0), whole, mechanism(Fixed)(1.0))
    np.testing.assert_array_equal(found.graph.receivers, apart.graph.receivers)
    np.testing.assert_array_equal(found.graph.senders, apart.graph.senders)
    assert len(found.graph.senders) > 1000


# A digest of the noisy edges, and the sum of the noisy degrees. Committed results are drawn by
# these samplers: if one of them draws something else from the same key, they can no longer be
# repeated.
DRAWN = {
    ("dprr", "full"): ("89382b3d1603cf6e", 177.45538330078125),
    ("dprr", "half list"): ("ae6c5a3d43d7d5dd", 153.6376953125),
    ("dprr", "half"): ("533abed3df35ef72", 120.37055206298828),
    ("dprr, whole noise", "half"): ("3cd8f36208b560aa", 119.0),
    ("dprr, prior", "full"): ("c74d5099c8b1f9d2", 177.45538330078125),
    ("dprr, personal", "half list"): ("dc52aa0f9d06a8f4", 187.2772216796875),
    ("dprr, personal", "half"): ("88862aef1288b586", 152.01034545898438),
    ("response", "full"): ("edd31ab261f5a2d9", 32.0),
    ("response", "half"): ("e4cafec85ca151c4", 32.0),
    ("lap", "half list"): ("9add919741ef5ce0", 189.51318359375),
    ("lap", "half"): ("9eee4a54666f0e13", 109.51319885253906),
}


@pytest.mark.parametrize(("name", "reporting"), DRAWN)
def test_the_same_keys_draw_the_same_graphs_as_ever(name, reporting):
    """Edges to the bit; degrees, which a compiler may round otherwise, to 1e-5."""
    budgets = np.tile(np.array([0.5, 2.0, 1.0, 4.0], np.float32), 10)
    made = {
        "dprr": DPRR(0.3, 0.9),
        "dprr, whole noise": DPRR(0.3, 0.9, noise="geometric"),
        "dprr, prior": DPRR(0.3, 0.9, prior=1 / (1 + np.arange(20, dtype=np.float32))),
        "dprr, personal": DPRR(budgets / 4, budgets),
        "response": RandomizedResponse(1.5),
        "lap": LocalLap(0.5, 2.0),
    }[name]
    public = np.arange(40) % 5 == 3
    noisy = privatize_graph(jax.random.key(7), ring(), made, reporting=reporting, public=public)
    ends = np.stack([noisy.graph.senders, noisy.graph.receivers])
    digest = hashlib.sha256(ends.astype("<i4").tobytes()).hexdigest()[:16]
    assert digest == DRAWN[name, reporting][0]
    assert np.nansum(noisy.degree) == pytest.approx(DRAWN[name, reporting][1], rel=1e-5)


@pytest.mark.parametrize(("true", "false", "edges"), [(1, 2, 1), (2, 2, 2), (3, 1, 2), (1, 40, 3)])
def test_the_largest_noisy_bits_are_those_of_a_dense_draw(true, false, edges):
    """How many of them are true, in 30 000 small graphs, against Laplace noise on each bit."""
    count = 30_000
    keys = tuple(jax.random.split(jax.random.key(0), 3))
    graph = np.repeat(np.arange(count), true)
    each = np.full(count, edges), np.full(count, false)
    chosen, of_false = largest(keys, 1.2, graph, *each)
    np.testing.assert_array_equal(np.bincount(graph[chosen], minlength=count) + of_false, edges)
    noise = np.random.default_rng(1).laplace(0, 1 / 1.2, (count, true + false))
    noisy = noise + (np.arange(true + false) < true)
    due = (np.argsort(-noisy, 1)[:, :edges] >= true).sum(1)
    table = np.stack([np.bincount(part, minlength=edges + 1) for part in (of_false, due)])
    assert stats.chi2_contingency(table[:, table.any(0)]).pvalue > 1e-6


def test_slots_are_never_too_few_and_of_few_shapes():
    """At every boundary of the steps up to 2^32, and one below and above it; few slots are free."""
    steps = sorted({2**power for power in range(25)} | {2**24 * times for times in range(1, 257)})
    counts = sorted({0} | {step + more for step in steps for more in (-1, 0, 1)})
    slots = [capacity(count) for count in counts]
    for count, room in zip(counts, slots, strict=True):
        assert count <= room <= max(64, 2 * count, count + 2**24 - 1), count
    assert slots == sorted(slots)
    assert set(slots) == {
        *(2**power for power in range(6, 25)),
        *(2**24 * times for times in range(2, 258)),
    }


BUDGETS = np.ones(N, np.float32)


@pytest.mark.parametrize("m", [DPRR(BUDGETS, BUDGETS), NoisyDegree(BUDGETS), Coin(1.0)], ids=repr)
def test_where_everybody_is_public_nothing_is_drawn(m):
    graph = graphs.from_edges(EDGES, N)
    noisy = privatize_graph(jax.random.key(0), graph, m, reporting="half", public=BUDGETS > 0)
    np.testing.assert_array_equal(noisy.graph.senders, graph.senders)
    np.testing.assert_array_equal(noisy.graph.receivers, graph.receivers)
    np.testing.assert_array_equal(noisy.degree, [3, 2, 2, 2, 1, 0])
