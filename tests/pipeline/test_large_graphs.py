"""What large graphs take in place of a column a member, and of eigenvectors to a tolerance."""

import jax
import numpy as np
import pytest

from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import kprop, operator, ppr
from ldp_jax.pipeline import _spectrum, self_training
from ldp_jax.pipeline.rows import DenseRows
from ldp_jax.pipeline.self_training import FoldedLabels, Lesson, regression
from ldp_jax.pipeline.structure import spectral_coordinates, structure_posterior, sums_by_folds
from tests.pipeline.planted import blocks

N, PANEL = 360, np.arange(0, 360, 4)


@pytest.fixture(scope="module")
def data():
    """A planted graph, with a pair and two nodes on their own."""
    graph, y, _ = blocks(n=N - 4, degree=8.0)
    ends = np.asarray(graph.senders), np.asarray(graph.receivers)
    pairs = np.append(np.stack(ends, 1)[ends[0] < ends[1]], [[N - 4, N - 3]], axis=0)
    graph = graphs.from_edges(pairs, N)
    return graph, operator(graph), np.append(y, [0, 1, 2, 0])


@pytest.mark.parametrize("kind", [2, 0.1])
def test_sums_leave_out_a_member_s_fold(data, kind):
    """70 columns, which are worked on some at a time."""
    _, op, y = data
    known = FoldedLabels(np.where(np.isin(np.arange(N), PANEL), y, -1), 3, np.arange(N) // 4 % 5, 5)
    values = np.random.default_rng(0).normal(size=(len(PANEL), 70)).astype(np.float32)
    seeds = np.eye(N, dtype=np.float32)[:, PANEL]
    if isinstance(kind, int):
        reach = kprop(op, seeds, kind, normalisation="mean")
    else:
        reach = ppr(op, seeds, kind, 0.0, 1e-7)
    fold = np.where(known.labels < 0, -1, known.fold)
    wanted = (np.asarray(reach) * (fold[:, None] != fold[PANEL])) @ values
    np.testing.assert_allclose(
        sums_by_folds(op, known, values, kind), wanted, atol=3e-3
    )  # exact to 1e-3 of a column


def test_leading_vectors_span_what_eigenvectors_span(data):
    graph, op, _ = data
    found, exact = _spectrum.leading_vectors(op, 8), spectral_coordinates(graph, 8).astype(float)
    np.testing.assert_allclose(found.T @ found, np.eye(8), atol=1e-4)
    kept = np.linalg.svd(exact[:, :4].T @ found)[1]  # three classes and the pair; the rest is the edge of the bulk
    assert kept.min() > 0.999


def test_structure_says_of_a_large_graph_what_it_says_of_a_small_one(data, monkeypatch):
    """Who the blocks are; of a small one test_structure asks the same."""
    graph, op, y = data
    labels = np.where(np.isin(np.arange(N), PANEL), y, -1)
    known = FoldedLabels(labels, 3, self_training.folds(jax.random.key(0), labels, 5), 5)
    monkeypatch.setattr(_spectrum, "MANY", 0)
    found = structure_posterior(graph, known, op=op)
    assert (found.classes == y)[labels < 0].mean() > 0.9
    assert found.log_loss[found.chosen] < 0.5 * np.log(3)


def test_few_teachers_learn_the_same_in_places_of_their_own(monkeypatch):
    y = np.arange(400) % 2
    x = DenseRows(np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32) + y[:, None])
    labels = np.where(np.arange(400) < 40, y, -1)
    lesson = Lesson.of(FoldedLabels(labels, 2, np.arange(400) % 3, 3))
    wanted = regression(x, lesson, ridges=(1.0,))[0]
    monkeypatch.setattr(self_training, "_FEW", 1)
    np.testing.assert_allclose(regression(x, lesson, ridges=(1.0,))[0], wanted, atol=1e-3)
