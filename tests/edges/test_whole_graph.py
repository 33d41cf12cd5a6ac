"""Whole graphs: what exceptions say, and how many programs there are."""

import itertools
import logging

import jax
import networkx as nx
import numpy as np
import pytest

from ldp_jax.edges import DPRR, LocalLap, RandomizedResponse, _sparse, privatize_graph, public_part
from ldp_jax.graph import graphs
from ldp_jax.graph.graphs import GraphSet

STAR = np.stack([np.zeros(100, int), np.arange(1, 101)], 1)


@pytest.mark.parametrize("wrong", ["reversed", "one level"])
def test_a_wrong_order_is_refused_before_anything_is_drawn(monkeypatch, wrong):
    inner = _sparse._order

    def order(m, who, group):
        who, new = inner(m, who, group)
        if wrong == "reversed":
            return who[::-1].copy(), np.append(new[0], new[1:][::-1])
        return who, np.arange(len(who)) == 0

    monkeypatch.setattr(_sparse, "_order", order)
    monkeypatch.setattr(_sparse, "_block", lambda *_, **__: pytest.fail("something was drawn"))
    graph = graphs.from_edges([[0, 1]], 3)
    with pytest.raises(RuntimeError, match="would belong to the larger budget"):
        privatize_graph(
            jax.random.key(0),
            graph,
            RandomizedResponse(np.array([1.0, 1.0, 2.0])),
            reporting="half",
        )


def refused(graph, m, memory, **options):
    try:
        privatize_graph(jax.random.key(0), graph, m, memory=memory, **options)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("m", "reporting"),
    [(RandomizedResponse(0.5), "full"), (DPRR(0.1, 0.5), "half list")],
    ids=["response", "dprr"],
)
def test_memory_is_refused_by_public_numbers_alone(m, reporting):
    """No edge, one edge or all of them: the same memory is refused, in the same words."""
    n = 12
    sets = [[], [[0, 1]], list(itertools.combinations(range(n), 2))]
    ask = lambda edges, memory: refused(graphs.from_edges(edges, n), m, memory, reporting=reporting)
    refusals = [[ask(edges, memory) for memory in (0.0, 350.0, 750.0, 1e4)] for edges in sets]
    assert refusals[0][0] is not None
    assert refusals[0][-1] is None
    assert refusals[0] == refusals[1] == refusals[2]


def test_locallap_is_refused_by_what_it_reports():
    """The message holds the number of edges that the noisy degrees add up to, and no other."""
    graph = graphs.from_edges(list(itertools.combinations(range(8), 2)), 8)
    noisy = privatize_graph(jax.random.key(0), graph, LocalLap(0.5, 0.5))
    reported = np.clip(np.rint(noisy.degree.astype(np.float64).sum() / 2), 0, 28)
    message = refused(graph, LocalLap(0.5, 0.5), 32.0 * reported - 1)
    assert message is not None
    assert f"{32e-9 * reported:.3g} GB" in message
    assert refused(graph, LocalLap(0.5, 0.5), 32.0 * reported) is None


@pytest.mark.usefixtures("untyped")
def test_whole_graphs_are_drawn_outside_jit():
    """One sentence says what to do in place of each: a traced key, epsilon or graph."""
    graph = graphs.from_edges(STAR, 101)
    key = jax.random.key(0)
    draw = lambda key, epsilon, graph: (
        privatize_graph(key, graph, RandomizedResponse(epsilon)).degree
    )
    with pytest.raises(ValueError, match="call privatize_graph in a Python loop"):
        jax.vmap(lambda key: draw(key, 1.0, graph))(jax.random.split(key, 2))
    with pytest.raises(ValueError, match="key and mechanism must be concrete"):
        jax.jit(lambda epsilon: draw(key, epsilon, graph))(1.0)
    with pytest.raises(ValueError, match="graph and public must be concrete"):
        jax.jit(lambda graph: draw(key, 1.0, graph))(graph)


@pytest.mark.usefixtures("untyped")
def test_a_bad_graph_is_refused_without_its_edges():
    """One sentence for all of them, in the whole chain of exceptions, with or without public
    users.
    """
    bad = [
        graphs.directed([0], [1], 3),
        graphs.directed([0, 7], [7, 0], 3),
        GraphSet(
            *map(np.array, ([2, 3], [3, 2], [0, 0, 0, 1, 1, 1], [0, 1]))
        ),  # two graphs, joined
        GraphSet.from_edges([3], [2], [0, 0, 1, 1], [0, 1]),
        graphs.directed([0, 0, 1, 1], [1, 1, 0, 0], 3),
        graphs.directed([0, 0], [0, 0], 3),
        graphs.directed([0, 1], [1], 3),
    ]
    messages = set()
    for graph in bad:
        for m in (DPRR(0.5, 0.5), LocalLap(0.5, 0.5)):
            with pytest.raises(ValueError, match="graph must be undirected") as caught:
                privatize_graph(jax.random.key(0), graph, m)
            messages.add(str(caught.value))
            assert caught.value.__cause__ is caught.value.__context__ is None
    with pytest.raises(ValueError, match="graph must be undirected") as caught:
        public_part(bad[0], [True, True, False])
    assert messages == {str(caught.value)}
    assert not any(character.isdigit() for character in str(caught.value))


@pytest.mark.usefixtures("untyped")
def test_budgets_of_another_number_of_users_are_refused():
    graph = graphs.from_edges([[0, 1]], 3)
    for budget in (np.ones(2), np.ones(4), np.ones((3, 1)), np.ones(1)):
        for m in (RandomizedResponse(budget), DPRR(budget, 0.5), DPRR(0.5, budget)):
            with pytest.raises(ValueError, match=r"one number or one a user, \[3\], got shape"):
                privatize_graph(jax.random.key(0), graph, m)


def test_all_that_a_release_shows_beside_the_reports_is_said():
    """Budgets decide who reports a pair, and a set comes with the sizes and labels of its
    graphs.
    """
    budgets, one = RandomizedResponse(np.array([1.0, 2.0, 1.0, 1.0])), RandomizedResponse(1.0)
    graph = graphs.from_edges([[0, 1]], 4)
    pair = GraphSet.from_edges([1, 0], [0, 1], [0, 0, 1, 1], [0, 1])
    for given, m, shown in (
        (graph, one, {"number of nodes"}),
        (graph, budgets, {"number of nodes", "personal budgets"}),
        (pair, one, {"number of nodes of each graph", "labels of graphs"}),
    ):
        assert set(privatize_graph(jax.random.key(0), given, m).guarantee.unprotected) == shown


def test_new_keys_compile_nothing(caplog):
    """Five keys on one graph: 30 000 false pairs of a sd of 160, so that none changes the slots."""
    n = 500
    graph = graphs.from_edges(np.array(nx.barabasi_albert_graph(n, 3, seed=0).edges()), n)
    m = RandomizedResponse(2.0)
    privatize_graph(jax.random.key(0), graph, m)
    sizes = set()
    with jax.log_compiles(), caplog.at_level(logging.WARNING, logger="jax"):
        for seed in range(1, 6):
            sizes.add(len(privatize_graph(jax.random.key(seed), graph, m).graph.senders))
    compiled = [
        record.getMessage() for record in caplog.records if "Compiling" in record.getMessage()
    ]
    assert len(sizes) > 2
    assert compiled == []
