"""What structure is read from: whom the panel reaches, and spectral coordinates."""

import jax
import numpy as np
import pytest

from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import operator
from ldp_jax.pipeline.rows import feature_rows
from ldp_jax.pipeline.self_training import folds
from ldp_jax.pipeline.structure import panel_reach, spectral_coordinates, structure_posterior
from tests.pipeline.planted import blocks

pytestmark = pytest.mark.usefixtures("quickly_compiled")

FOLDS = 3


@pytest.fixture(scope="module")
def data():
    graph, y, x = blocks(n=300, degree=8.0)
    labels = np.where(np.arange(300) < 60, y, -1)
    return graph, y, x, labels, folds(jax.random.key(0), labels, FOLDS)


@pytest.mark.usefixtures("untyped")
def test_what_does_not_fit_is_refused(data):
    graph, _, x, labels, fold = data
    for changed, rows, message in (
        (labels[:-1], None, r"labels must be int \[300\]"),
        (labels, feature_rows(x), "rows must be of the panel's 60 members"),
    ):
        with pytest.raises(ValueError, match=message):
            structure_posterior(graph, changed, fold, num_classes=3, num_folds=FOLDS, rows=rows)


def test_a_member_of_the_panel_does_not_reach_herself(data):
    graph, _, _, labels, _ = data
    op, panel = operator(graph), np.flatnonzero(labels >= 0)
    for kind in (2, 0.1):
        reach = np.asarray(panel_reach(op, panel, kind))
        assert not reach[panel, np.arange(60)].any()
        assert (reach[60:].sum(1) > 0).mean() > 0.9


def test_coordinates_are_eigenvectors(data):
    graph = data[0]
    adjacency = np.zeros((300, 300))
    adjacency[np.asarray(graph.receivers), np.asarray(graph.senders)] = 1.0
    scale = 1 / np.sqrt(np.maximum(adjacency.sum(1), 1))
    matrix = scale[:, None] * adjacency * scale
    found = spectral_coordinates(graph, 8).astype(float)
    values = np.linalg.eigvalsh(matrix)[::-1][:8]
    np.testing.assert_allclose(found.T @ found, np.eye(8), atol=1e-4)
    np.testing.assert_allclose(found.T @ matrix @ found, np.diag(values), atol=0.01)


def test_a_graph_of_fewer_nodes_than_columns_has_columns_of_zeros():
    found = spectral_coordinates(graphs.from_edges([[0, 1], [1, 2], [2, 3]], 4), 5)
    assert found.shape == (4, 5)
    assert not found[:, 2:].any()
    assert found[:, :2].any(0).all()


def test_a_reach_beyond_memory_is_refused_by_sizes_alone():
    op = operator(graphs.from_edges([[0, 1], [1, 2]], 3))
    with pytest.raises(
        ValueError, match=r"2e-08 GB does not hold what 3 nodes and a panel of 2 take \(9.6e-08 GB\)"
    ):
        panel_reach(op, np.array([0, 1]), 2, memory=20.0)
