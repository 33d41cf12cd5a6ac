"""Protocols of several rounds: rows that go on, what they are named by, and what is measured."""

import jax
import numpy as np
import pytest

from experiments import protocols
from ldp_jax import datasets, edges
from ldp_jax.graph import graphs
from tests.experiments import contract


@pytest.fixture(scope="module")
def ran(tiny):
    """All rows at one epsilon."""
    return contract.run(protocols, protocols.Config(epsilons=(2.0,), **tiny))


def test_rows_go_on_and_are_shown(ran):
    results = protocols.results_in(ran.out)
    contract.check(protocols, ran, [results])
    frame = results.read()
    asked = {(task, name) for task, name in zip(frame.task, frame.mechanism, strict=True)}
    assert asked == {*protocols.SERVERS, (protocols.GRAPH, protocols.TRUE)}
    true = frame[frame.mechanism == protocols.TRUE].set_index("metric").value
    assert (true["degrees"] == 0).all()
    assert (true[protocols.ACCURACY] > 0.2).all()


def test_a_row_is_named_by_what_the_driver_states(ran):
    frame = protocols.results_in(ran.out).read().set_index("mechanism")
    private = frame.drop(protocols.TRUE)
    np.testing.assert_allclose(private.epsilon_proved, 2.0, rtol=1e-5)
    both = private.index.isin(["LDPGen", protocols.BLINK, "noisy counts"])
    np.testing.assert_allclose(private.proved_pair, np.where(both, 4.0, 2.0), rtol=1e-5)


def test_the_noisy_graph_has_an_unbiased_number_of_triangles(graph_file):
    """At a large epsilon the true number; at 1 the mean of 16 runs is within 6 of their errors."""
    graph = datasets.load(str(graph_file)).graph
    _, linked = protocols.wedges(graph)
    true = linked.sum() / 3
    found = []
    for seed in range(16):
        made = edges.RandomizedResponse(1.0, reporting="half")
        noisy = edges.privatize_graph(jax.random.key(seed), graph, made).graph
        found.append(protocols.triangles_of(noisy, 1.0))
    assert abs(np.mean(found) - true) < 6 * np.std(found) / 4
    assert protocols.triangles_of(graph, 40.0) == pytest.approx(true, rel=1e-4)


def test_a_graph_without_links_tells_no_class(graph_file):
    data = datasets.load(str(graph_file))
    nothing = graphs.from_edges([], len(data.y))
    found = protocols.measures(jax.random.key(0), nothing, data)
    assert found[protocols.ACCURACY] == found["clustering"] == found["modularity"] == 0.0
    assert found["degrees"] > 0.9
