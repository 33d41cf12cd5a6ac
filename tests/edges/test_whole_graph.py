"""Whole graphs: what exceptions say, and how many programs there are."""

import itertools
import logging

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

from ldp_jax import servers
from ldp_jax.core.mechanism import mechanism
from ldp_jax.edges import (
    DPRR,
    LocalLap,
    RandomizedResponse,
    privatize_graph,
)
from ldp_jax.graph import graphs
from ldp_jax.graph.graphs import GraphSet


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
    refusals = [[ask(edges, memory) for memory in (0.0, 350.0, 750.0, 1e3)] for edges in sets]
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


def test_all_that_a_release_shows_beside_the_reports_is_said():
    """Budgets decide who reports a pair, and a set comes with the sizes and labels of its
    graphs.
    """
    one = RandomizedResponse(1.0)
    budgets = RandomizedResponse(np.array([1.0, 2.0, 1.0, 1.0]))
    graph = graphs.from_edges([[0, 1]], 4)
    pair = GraphSet.from_edges([1, 0], [0, 1], [0, 0, 1, 1], [0, 1])
    for given, m, shown in (
        (graph, one, {"number of nodes"}),
        (graph, budgets, {"number of nodes", "personal budgets"}),
        (pair, one, {"number of nodes of each graph", "labels of graphs"}),
    ):
        assert set(privatize_graph(jax.random.key(0), given, m).guarantee.unprotected) == shown


@mechanism
class OwnReports(RandomizedResponse):
    """All reports are empty lists: its parent's sampler would draw half of all pairs."""

    def privatize(self, key, neighbours, own=0):
        report = super().privatize(key, neighbours, own)
        nothing = jax.tree.map(lambda ids: jnp.full_like(ids, self.n), report.neighbours)
        return report._replace(neighbours=nothing)


def test_a_class_that_overrides_privatize_alone_is_not_drawn_by_its_parents_sampler():
    graph = graphs.from_edges([[0, 1]], 12)
    for reporting in ("full", "half"):
        asked = OwnReports(0.1, reporting=reporting)
        assert len(privatize_graph(jax.random.key(0), graph, asked).graph.senders) == 0
        assert len(servers.privatize_graph(jax.random.key(0), graph, asked).graph.senders) == 0


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
    assert len(sizes) > 2
    assert not any("Compiling" in record.getMessage() for record in caplog.records)
