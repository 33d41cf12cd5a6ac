"""Whole graphs: what exceptions say, and how many programs there are."""

import dataclasses
import itertools
import logging

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

from ldp_jax import servers
from ldp_jax.core.mechanism import mechanism, static
from ldp_jax.core.spaces import Finite
from ldp_jax.edges import (
    DPRR,
    ListReport,
    LocalLap,
    NoisyDegree,
    RandomizedResponse,
    privatize_graph,
)
from ldp_jax.edges.lists import to_bits, to_list
from ldp_jax.graph import graphs
from ldp_jax.graph.graphs import GraphSet
from ldp_jax.verification.graphs import matches_graphs


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


@mechanism
class OwnServer(LocalLap):
    """A server that links nobody."""

    def select(self, reports):
        return jnp.zeros_like(reports.values, bool)


def test_a_class_that_overrides_select_alone_has_its_own_server():
    graph = graphs.from_edges([[0, 1], [1, 2], [2, 3]], 4)
    found = privatize_graph(jax.random.key(0), graph, OwnServer(50.0, 30.0))
    assert len(found.graph.senders) == 0


@mechanism
class BitsAlone(RandomizedResponse):
    """Reports bits without a degree, of which a server makes the graph."""

    def privatize(self, key, neighbours, own=0):
        return to_bits(super().privatize(key, neighbours, own).neighbours, self.n)

    def select(self, reports):
        return reports | reports.T


def test_what_a_server_takes_need_not_hold_a_degree():
    graph = graphs.from_edges([[0, 1], [1, 2]], 4)
    noisy = privatize_graph(jax.random.key(0), graph, BitsAlone(40.0, reporting="half"))
    assert graphs.to_edges(noisy.graph).tolist() == [[0, 1], [1, 2]]
    assert np.isnan(noisy.degree).all()


@mechanism
class RandomList(NoisyDegree):
    """A list of about as many random users as the noisy degree says: all of them at n - 1."""

    def bit_rates(self, noisy, owned):
        share = jnp.clip(noisy / jnp.maximum(owned, 1), 0.0, 1.0)
        return share, 1 - share, share

    def codomain(self, own=0):
        return dataclasses.replace(super().codomain(own), bit=Finite((0.0, 1.0)))


@pytest.mark.parametrize("reporting", ["full", "half"])
def test_pairs_that_are_no_edges_may_be_reported_with_any_probability(reporting):
    """A noisy degree of n - 1 raised an error, which the true degree decides."""
    m = RandomList(1.0, n=4, reporting=reporting)
    assert matches_graphs(m, jax.random.key(0), trials=10_000, significance=1e-6).fits
    for key in jax.random.split(jax.random.key(1), 4):
        noisy = privatize_graph(key, graphs.from_edges([], 9), RandomList(0.01), reporting="full")
        told = np.bincount(noisy.graph.receivers, minlength=9)
        assert (told[noisy.degree == 8] == 8).all()
        assert (told[noisy.degree == 0] == 0).all()


@mechanism
class Whole:
    """Sends a whole list, or all ids; in each reporting alike, so that both ends report a pair."""

    epsilon: float
    everybody: bool = static(default=False)
    n: int | None = static(default=None)
    reporting: str = static(default="half")

    reportings = ("full", "half")

    def privatize(self, key, neighbours, own=0):
        bits = to_bits(neighbours, self.n) | self.everybody
        return ListReport(jnp.float32(jnp.nan), to_list(bits))

    def guarantee(self):
        return RandomizedResponse(self.epsilon).guarantee()

    def relationship(self, reporting=None):
        return RandomizedResponse(self.epsilon).relationship("half")


def test_own_reports_of_both_ends_or_of_oneself_are_refused_where_a_pair_has_one_owner():
    """The graph had the pair twice, under the epsilon of one report."""
    graph = graphs.from_edges([[0, 1], [1, 2]], 3)
    whole = privatize_graph(jax.random.key(0), graph, Whole(1.0), reporting="full")
    assert len(whole.graph.senders) == 4
    with pytest.raises(ValueError, match="both ends report one"):
        privatize_graph(jax.random.key(0), graph, Whole(1.0))
    with pytest.raises(ValueError, match="reports the user's own id"):
        privatize_graph(jax.random.key(0), graph, Whole(1.0, everybody=True), reporting="full")


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
