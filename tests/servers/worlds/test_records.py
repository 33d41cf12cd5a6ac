"""Classes of a drawn world: their noise is a Gaussian field, of which all is known on a small
graph.

Of two classes of even odds the larger noise wins, so a class is the sign of the field's difference.
"""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import operator
from ldp_jax.servers.worlds.records import coupled_classes, shared_spread
from tests.stats import SIGMAS, assert_share

TIMES = 20_000
KITE = ((0, 1), (1, 2), (2, 0), (2, 3))
STAR = ((0, 1), (0, 2), (0, 3))


def copies(pairs, n):
    """The operator of many copies of a small graph, the spread of shared noise, its correlations.

    The dense S has the rows by which noise is shared: node i has (S w)_i of noise w.
    """
    start = n * np.arange(TIMES)[:, None, None]
    op = operator(graphs.from_edges((np.array(pairs) + start).reshape(-1, 2), n * TIMES))
    adjacency = np.zeros((n, n))
    for i, j in pairs:
        adjacency[i, j] = adjacency[j, i] = 1.0
    walk = adjacency / np.maximum(adjacency.sum(1, keepdims=True), 1.0)
    shared = np.linalg.matrix_power((np.eye(n) + walk) / 2, 4)
    spread = np.linalg.norm(shared, axis=1)
    return op, spread, shared @ shared.T / np.outer(spread, spread)


def drawn(op, spread, labels, coupling):
    """Classes of even odds in each copy; int [TIMES, n]."""
    found = coupled_classes(
        jax.random.key(0),
        op,
        jnp.tile(jnp.asarray(spread, jnp.float32), TIMES)[:, None],
        jnp.log(jnp.full((op.num_nodes, 2), 0.5)),
        np.tile(labels, TIMES),
        np.float32(coupling),
    )
    return np.asarray(found).reshape(TIMES, -1)


def test_the_spread_of_shared_noise_is_that_of_its_dense_matrix():
    """A mean square of m normal draws has a relative error of sqrt(2 / m)."""
    op, spread, _ = copies(KITE, 5)
    found = np.asarray(shared_spread(jax.random.key(0), op)).reshape(TIMES, 5)
    share = (found**2).mean(0) / spread**2
    assert np.abs(share - 1).max() < SIGMAS * np.sqrt(2 / (64 * TIMES))


@pytest.mark.parametrize("coupling", [0.4, 0.9])
def test_friends_agree_as_the_signs_of_a_gaussian_field_do(coupling):
    """Signs of correlation r agree with probability 1/2 + arcsin(r) / pi."""
    op, spread, alike = copies(KITE, 5)
    y = drawn(op, spread, [-1] * 5, coupling)
    for i, j in itertools.combinations(range(5), 2):
        agree = 0.5 + math.asin(coupling * alike[i, j]) / math.pi
        assert_share((y[:, i] == y[:, j]).sum(), TIMES, agree)


@pytest.mark.parametrize("centre", [0, 1])
@pytest.mark.parametrize("leaf", [0, 1])
def test_a_class_beside_two_of_the_panel_is_drawn_given_their_labels(centre, leaf):
    """The panel's fields are independent, and a third one is normal given both.

    Three signs are all positive with probability 1/8 + (the sum of arcsin(r)) / 4 pi.
    """
    op, spread, alike = copies(STAR, 4)
    coupling = 0.5
    y = drawn(op, spread, [centre, leaf, -1, -1], coupling)
    assert (y[:, :2] == [centre, leaf]).all()
    field = coupling * alike + (1 - coupling) * np.eye(4)
    weight = np.linalg.solve(field[:2, :2], field[:2, 2])
    size = math.sqrt(1 - weight @ field[:2, 2] + weight @ weight)
    signs = 1 - 2 * np.array([centre, leaf])
    due = 4 * (1 / 8 + np.arcsin(signs * weight / size).sum() / (4 * math.pi))
    for other in (2, 3):
        share = (y[:, other] == 0).mean()
        # Conjugate gradients have a ridge of a hundredth.
        assert abs(share - due) < 0.005 + SIGMAS * math.sqrt(0.25 / TIMES)
