"""Noisy graphs by a server: the draws of whole graphs, the law of one device, reports as lists."""

import dataclasses

import jax
import numpy as np
import pytest

from ldp_jax import edges
from ldp_jax.edges import DPRR, LapReport, LocalLap, NoisyDegree, RandomizedResponse
from ldp_jax.graph import graphs
from ldp_jax.servers import ListQuestion, ListServer, Users, privatize_graph, simulate
from ldp_jax.servers.lists import PublicLists
from ldp_jax.servers.questions.lists import ListReports

N = 40
RING = np.stack([np.arange(N), (np.arange(N) + 1) % N], 1)
GRAPH = graphs.from_edges(np.concatenate([RING, [[0, 7], [3, 20], [0, 30]]]), N)
PUBLIC = np.arange(N) % 5 == 0
PERSONAL = np.where(np.arange(N) % 2, 0.5, 2.0).astype(np.float32)
SENDERS, RECEIVERS = [1, 0, 3, 2, 4, 3], [0, 1, 2, 3, 3, 4]
SET = graphs.GraphSet.from_edges(SENDERS, RECEIVERS, [0, 0, 1, 1, 1], [0, 1])


@pytest.mark.parametrize("public", [None, PUBLIC], ids=["private", "some public"])
@pytest.mark.parametrize(
    "mechanism",
    [RandomizedResponse(1.5), DPRR(0.3, 0.9), LocalLap(0.3, 2.0), NoisyDegree(PERSONAL)],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_a_server_draws_what_whole_graphs_draw_and_costs_as_much(mechanism, public):
    for graph in (GRAPH, SET):
        n = len(SET.node_graph) if graph is SET else N
        shown = None if public is None else public[:n]
        if graph is SET and np.ndim(getattr(mechanism, "epsilon", 0)):
            continue
        for reporting in mechanism.reportings:
            given = {"reporting": reporting, "public": shown}
            one = privatize_graph(jax.random.key(5), graph, mechanism, **given)
            other = edges.privatize_graph(jax.random.key(5), graph, mechanism, **given)
            np.testing.assert_array_equal(one.graph.senders, other.graph.senders)
            np.testing.assert_array_equal(one.graph.receivers, other.graph.receivers)
            np.testing.assert_array_equal(one.degree, other.degree)
            assert one.guarantee.unprotected == other.guarantee.unprotected
            stated = {unit: one.epsilon for unit, one in one.guarantee.items()}
            assert stated == {unit: one.epsilon for unit, one in other.guarantee.items()}


def test_personal_budgets_cost_a_pair_what_its_owner_s_smaller_one_does():
    """Whoever is not asked sends nothing, so one end alone loses no more than both."""
    budgets = np.full(N, 0.5, np.float32)
    budgets[0] = 2.0
    made = privatize_graph(jax.random.key(0), GRAPH, NoisyDegree(budgets), reporting="half")
    assert [one.epsilon for one in made.guarantee.values()] == [2.0, 0.5]


@pytest.mark.parametrize("reporting", ["full", "half"])
@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("make", [RandomizedResponse, DPRR])
def test_one_device_has_the_law_of_all_at_once(make, reporting, public):
    """True and false entries of 60 graphs: each total is within 6 standard deviations."""
    mechanism = make(*([1.0] if make is RandomizedResponse else [1.0, 1.5]), reporting=reporting)
    asked = ~PUBLIC if public else np.ones(N, bool)
    question = ListQuestion.of(mechanism, asked, np.zeros(N, int))
    held = Users(lists=GRAPH)
    true = np.zeros((N, N), bool)
    true[np.asarray(GRAPH.receivers), np.asarray(GRAPH.senders)] = True
    totals = []
    for draw in (held.one_by_one, lambda key, question: question.answer_all(key, held)):
        found = np.zeros((N, N), int)
        degrees = []
        for seed in range(60):
            lists = question.gathered(draw(jax.random.key(seed), question)).blanked(asked)
            assert len(np.unique(lists.reporter * N + lists.reported)) == len(lists.reporter)
            found[lists.reporter, lists.reported] += 1
            degrees.append(np.nan_to_num(lists.degree).sum())
        assert not found[np.eye(N, dtype=bool) | ~asked[:, None]].any()
        if reporting == "half":
            assert not (found.astype(bool) & found.T.astype(bool)).any()
            assert not found[:, ~asked].any()
        totals.append((found[true].sum(), found[~true].sum(), np.mean(degrees), found.std()))
    for one, other in list(zip(*totals, strict=True))[:2]:
        assert abs(one - other) < 6 * np.sqrt(one + other)
    assert abs(totals[0][2] - totals[1][2]) < 6 * np.sqrt(2 * 2 * N / 60) * 1.5


@pytest.mark.parametrize("reporting", LocalLap.reportings)
def test_reports_of_devices_make_the_graph_of_each_server(reporting):
    """Of two graphs of five who are asked, and others between them."""
    mechanism = LocalLap(1.0, 1.0, reporting=reporting)
    asked = np.array([1, 1, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1], bool)
    question = ListQuestion.of(mechanism, asked, np.arange(13) // 7)
    rng = np.random.default_rng(0)
    found = np.zeros((13, 13), bool)
    wanted = found.copy()
    values = np.full((13, 5), np.nan, np.float32)
    degree = np.full(13, 1.5, np.float32)
    for members in np.flatnonzero(asked).reshape(2, 5):
        values[members] = np.where(np.tri(5) > 0, np.nan, rng.normal(size=(5, 5)))
        of_graph = LapReport(degree[members], values[members])
        one = dataclasses.replace(mechanism, n=5).select(of_graph)
        wanted[np.ix_(members, members)] = np.triu(one)
    lists = question.gathered(LapReport(degree, values))
    found[lists.reporter, lists.reported] = True
    np.testing.assert_array_equal(found, wanted)
    assert wanted.sum() == 2 * {"half list": 4, "half": 8}[reporting]
    np.testing.assert_array_equal(lists.degree, degree)


@pytest.mark.parametrize("make", [RandomizedResponse, lambda epsilon: DPRR(epsilon, 1.5)])
def test_one_device_answers_by_a_budget_of_its_own(make):
    everybody = np.ones(N, bool), np.zeros(N, int)
    held = Users(lists=GRAPH)
    personal, *alike = (
        ListQuestion.of(make(budget), *everybody) for budget in (PERSONAL, *PERSONAL[:2])
    )
    found, *each = (held.one_by_one(jax.random.key(1), one) for one in (personal, *alike))
    for place, one in enumerate(each):
        mine = np.arange(N) % 2 == place
        jax.tree.map(
            lambda a, b, mine=mine: np.testing.assert_array_equal(a[mine], b[mine]), found, one
        )
    assert (found.neighbours.count != each[0].neighbours.count).any()


@pytest.mark.parametrize("mechanism", [RandomizedResponse(1.0), DPRR(1.0, 1.5)])
def test_any_block_of_users_answers_the_same(mechanism, monkeypatch):
    question = ListQuestion.of(mechanism, np.ones(N, bool), np.zeros(N, int))
    held = Users(lists=GRAPH)
    whole = question.gathered(held.one_by_one(jax.random.key(5), question))
    monkeypatch.setattr("ldp_jax.servers.users._ROWS", 17)
    parts = question.gathered(held.one_by_one(jax.random.key(5), question))
    for name in ("reporter", "reported", "degree"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))


def test_lists_are_blanked_and_counted():
    lists = ListReports(
        np.array([0, 0, 1, 2], np.int32), np.array([1, 2, 0, 0], np.int32), np.float32([1, 2, 3])
    )
    blank = lists.blanked(np.array([False, True, True]))
    assert (blank.reporter.tolist(), blank.degree.tolist()) == ([1, 2], [0, 2, 3])
    assert lists.sent_bytes().tolist() == [12, 8, 8]


@pytest.mark.parametrize("reporting", ["full", "half"])
def test_a_ceiling_is_the_graph(reporting):
    server = ListServer(RandomizedResponse(1.0, reporting=reporting), N)
    exact = simulate(jax.random.key(0), server, Users(lists=GRAPH).exact())
    np.testing.assert_array_equal(graphs.to_edges(exact.value.graph), graphs.to_edges(GRAPH))
    assert all(np.isinf(one.epsilon) for one in exact.guarantee.values())
    found = simulate(jax.random.key(0), server, Users(lists=GRAPH))
    assert found.rounds[0].upload == 4 * len(found.value.graph.senders) // N // (
        1 if reporting == "full" else 2
    )


@pytest.mark.parametrize("entries", [[[0, 1], [0, 1]], [[0, 0]], [[1, 0]]])
def test_public_lists_hold_each_entry_once_and_no_list_of_others(entries):
    shown = PublicLists(np.arange(3) == 0, np.array(entries))
    with pytest.raises(ValueError, match="entries must"):
        ListServer(RandomizedResponse(1.0), 3, shown)


def test_a_set_with_edges_is_no_public_fact():
    with pytest.raises(ValueError, match="users must be a set without edges"):
        ListServer(RandomizedResponse(1.0), SET)
