"""The baselines of private neighbour lists: what they return, what they spend, and that lists get
through.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.frontier.baselines import BASELINES, _network, _released
from experiments.frontier.baselines._released import Asked
from ldp_jax import edges
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP, PipelineGuarantee
from ldp_jax.servers.parts.rows import feature_rows
from tests.servers.planted import blocks, some_labels

CLASSES = 3


@pytest.fixture(scope="module")
def planted():
    """What is asked, and the classes."""
    graph, y, x = blocks(n=240, classes=CLASSES, clarity=0.4)
    return Asked(graph, feature_rows(x), some_labels(y, 0.4), CLASSES), y


def run(name, asked, epsilon=1.0):
    return BASELINES[name](jax.random.key(0), asked, epsilon)


def right(found, y, asked):
    return (found.scores.argmax(1) == y)[asked.labels < 0].mean()


@pytest.mark.parametrize("name", ["plain counts", "rr, ppr", "blink hybrid, gcn"])
def test_lists_of_a_large_budget_say_more_than_features(planted, name):
    asked, y = planted
    epsilon = 6.0
    found = run(name, asked, epsilon)
    assert found.scores.shape == (240, CLASSES)
    assert np.isfinite(found.scores).all()
    assert found.guarantee[NEIGHBOUR_LIST].epsilon <= epsilon
    assert found.guarantee[NEIGHBOUR_LIST].epsilon == pytest.approx(epsilon)
    assert found.guarantee[RELATIONSHIP].epsilon == pytest.approx(2 * epsilon)
    assert found.guarantee.protected == ("edges",)
    assert {"features", "labels"} <= set(found.guarantee.unprotected)
    alone = run("features", asked, epsilon)
    assert alone.guarantee[NEIGHBOUR_LIST].epsilon == 0.0
    assert right(found, y, asked) > right(alone, y, asked) + 0.1


def test_the_true_graph_promises_nothing_and_says_most(planted):
    asked, y = planted
    found = run("non-private, ppr", asked._replace(rows=None))
    assert found.guarantee[NEIGHBOUR_LIST].epsilon == math.inf
    assert found.guarantee.protected == ()
    assert right(found, y, asked) > 0.85  # without any feature


def test_a_dense_graph_beyond_memory_has_no_scores_and_the_same_guarantee(planted, monkeypatch):
    asked, _ = planted
    monkeypatch.setattr("experiments.frontier.baselines.lists.MEMORY", 1e5)
    for name in ("rr, gcn", "blink soft, ppr"):
        found = run(name, asked)
        assert found.scores is None
        assert found.guarantee[NEIGHBOUR_LIST].epsilon == pytest.approx(1.0)


def test_rounds_of_reports_add_up(planted):
    asked, _ = planted
    half = edges.NeighbourCounts(0.5, CLASSES)
    once = PipelineGuarantee.of(
        [half.guarantee(), half.relationship()], protected=["edges"], unprotected=["n"]
    )
    total = _released.spent(once, once)
    assert 0.99 < total[NEIGHBOUR_LIST].epsilon <= 1.0
    assert total.unprotected == ("features", "labels", "n")
    # Nothing is asked where nothing predicts a class.
    found = run("lpgnet, 2 rounds", asked._replace(rows=None))
    assert found.scores is None
    assert found.guarantee[NEIGHBOUR_LIST].epsilon == 0.0


def test_links_are_the_pairs_that_enough_ends_report():
    senders = np.array([1, 0, 2, 3])
    receivers = np.array([0, 1, 0, 2])
    pairs = {ends: _network.linked(senders, receivers, 4, ends=ends) for ends in (1, 2)}
    found = {ends: set(zip(*map(np.ndarray.tolist, pairs[ends]), strict=True)) for ends in pairs}
    assert found == {1: {(0, 1), (1, 0), (0, 2), (2, 0), (2, 3), (3, 2)}, 2: {(0, 1), (1, 0)}}
    links = _network.sparse(*pairs[1], 4)
    matrix = np.zeros((4, 4))
    matrix[pairs[1]] = 1
    h = jnp.arange(8.0).reshape(4, 2)
    np.testing.assert_allclose(links.sum(h), matrix @ h)
    np.testing.assert_allclose(links.degree, matrix.sum(1))
