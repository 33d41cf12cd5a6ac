"""What large graphs take in place of a column a member: the same, to a stated tolerance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import operator, ppr
from ldp_jax.pipeline import _walks, self_training
from ldp_jax.pipeline.field import class_field, class_field_alone, observations
from ldp_jax.pipeline.rows import DenseRows
from ldp_jax.pipeline.self_training import FoldedLabels, Lesson, regression
from ldp_jax.pipeline.structure import panel_sums, spectral_coordinates, structure_posterior
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


@pytest.mark.parametrize("layout", ["ell", "segment"])
def test_what_comes_back_is_the_diagonal_of_the_matrix(data, layout):
    """Nothing is left at 1e-9; at 1e-3 what is left is taken for well mixed, and the bound still holds."""
    op, alpha = operator(data[0], layout), 0.1
    nodes, degree = np.append(PANEL, [N - 4, N - 1]), np.maximum(np.asarray(op.degree), 1.0)
    exact = np.asarray(ppr(op, np.eye(N, dtype=np.float32), alpha, 0.0, 1e-7)).diagonal()[nodes]
    np.testing.assert_allclose(_walks.returned(op, nodes, 1 - alpha, degree, 1e-9), exact, atol=3e-6)
    rough = np.abs(_walks.returned(op, nodes, 1 - alpha, degree, 1e-3) - exact)
    assert (rough <= 1e-3 * degree[nodes]).all()
    assert rough.mean() < 1e-3


@pytest.mark.parametrize("kind", [1, 2, 0.1])
def test_sums_less_own_shares_are_sums_of_the_others(data, kind, monkeypatch):
    _, op, _ = data
    values = np.random.default_rng(0).normal(size=(len(PANEL), 70)).astype(np.float32)
    exact = np.asarray(panel_sums(op, PANEL, values, kind))
    monkeypatch.setattr(_walks, "MANY", 0)
    np.testing.assert_allclose(panel_sums(op, PANEL, values, kind), exact, atol=3e-3)  # exact to 1e-3 of a column
    alone = np.asarray(panel_sums(op, np.array([N - 1]), np.ones((1, 1), np.float32), kind))
    assert abs(alone).max() < 1e-5  # nobody reaches a node without edges but itself


def test_leading_vectors_span_what_eigenvectors_span(data):
    graph, op, _ = data
    found, exact = _walks.leading_vectors(op, 8), spectral_coordinates(graph, 8).astype(float)
    np.testing.assert_allclose(found.T @ found, np.eye(8), atol=1e-4)
    kept = np.linalg.svd(exact[:, :4].T @ found)[1]  # three classes and the pair; the rest is the edge of the bulk
    assert kept.min() > 0.999


@pytest.mark.parametrize(("reporting", "kappa", "c"), [(False, 1.0, 0.99), (True, 0.1, 0.95)])
def test_a_field_without_one_label_is_that_of_a_fold_of_one(data, reporting, kappa, c):
    _, op, y = data
    labels, fold = np.where(np.isin(np.arange(N), PANEL[::5]), y, -1), np.zeros(N, np.int32)
    fold[PANEL[::5]] = np.arange(18)
    told = np.full(N, reporting)
    evidence = np.where(np.arange(3) == y[:, None], 1.0, 0.0).astype(np.float32) * reporting
    seen = observations(labels, jnp.full(3, 1 / 3), evidence, told)
    wanted = class_field(op, seen, fold, kappa, c, 1e-6, num_folds=18)
    np.testing.assert_allclose(class_field_alone(op, seen, kappa, c), wanted, atol=0.02)


def test_structure_says_of_a_large_graph_what_it_says_of_a_small_one(data, monkeypatch):
    graph, op, y = data
    labels = np.where(np.isin(np.arange(N), PANEL), y, -1)
    known = FoldedLabels(labels, 3, self_training.folds(jax.random.key(0), labels, 5), 5)
    small = structure_posterior(graph, known, op=op)
    monkeypatch.setattr(_walks, "MANY", 0)
    large = structure_posterior(graph, known, op=op)
    assert large.names == small.names
    assert abs(large.log_loss["stack"] - small.log_loss["stack"]) < 0.05
    assert (large.classes == small.classes).mean() > 0.95


def test_few_teachers_learn_the_same_in_places_of_their_own(monkeypatch):
    y = np.arange(400) % 2
    x = DenseRows(np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32) + y[:, None])
    labels = np.where(np.arange(400) < 40, y, -1)
    lesson = Lesson.of(FoldedLabels(labels, 2, np.arange(400) % 3, 3))
    wanted = regression(x, lesson, ridges=(1.0,))[0]
    monkeypatch.setattr(self_training, "_FEW", 1)
    np.testing.assert_allclose(regression(x, lesson, ridges=(1.0,))[0], wanted, atol=1e-3)
