"""Fields of classes against a dense solve, and what they take for an observation."""

import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.graph import graphs, interop, propagation
from ldp_jax.servers.parts.label_diffusion import class_fields, observations

N = 40
FOLDS = 20


@pytest.fixture(scope="module")
def problem():
    """A graph with a node without edges, labels and reports of some, and a fold of each."""
    rng = np.random.default_rng(0)
    edges = np.argwhere(np.triu(rng.random((N, N)) < 0.12, 1))
    graph = graphs.from_edges(edges[(edges != N - 1).all(1)], N)
    labels = np.where(np.arange(N) < 24, rng.integers(0, 3, N), -1)
    evidence = jnp.asarray(rng.normal(0, 1, (N, 3)), jnp.float32)
    reported = rng.random(N) < 0.6
    reported[N - 1] = False
    seen = observations(labels, jnp.array([0.5, 0.3, 0.2]), evidence, reported)
    return graph, labels, seen, np.arange(N) % FOLDS


def systems(problem, kappa):
    """Who is asked of each model, and its values, weights and diagonal."""
    graph, labels, seen, fold = problem
    degree = interop.to_scipy(graph).sum(1)[:, None]
    for left_out in range(FOLDS + 1):
        source = np.where((labels >= 0) & (fold != left_out), 0, 1)
        weights = kappa * np.asarray(seen.precision)[np.arange(N), source][:, None]
        diagonal = np.where(weights + degree > 0, weights + degree, 1.0)
        asked = np.where(labels >= 0, fold, FOLDS) == left_out
        yield asked, np.asarray(seen.values)[np.arange(N), source], weights, diagonal


@pytest.mark.parametrize("kappa", [0.1, 3.0])
def test_fields_are_the_solutions_without_the_labels_of_a_fold(problem, kappa):
    """21 models of 2 columns each, and 6 columns of padding."""
    graph, _, seen, fold = problem
    friends = interop.to_scipy(graph).toarray()
    cs = (0.8, 0.99)
    op = propagation.operator(graph)
    found = class_fields(op, seen, fold, kappa, cs, 1e-7, num_folds=FOLDS)
    for c, scores in zip(cs, np.asarray(found), strict=True):
        for asked, values, weights, diagonal in systems(problem, kappa):
            z = np.linalg.solve(np.diag(diagonal[:, 0]) - c * friends, weights * values)
            wanted = np.log(np.maximum(seen.prior + z, 0.02))
            np.testing.assert_allclose(scores[asked], wanted[asked], atol=1e-4)
        np.testing.assert_allclose(np.exp(scores[N - 1]), seen.prior, atol=1e-6)


def test_reports_are_unbiased_values_with_the_noise_that_they_have():
    """20 000 reports by randomised response on 3 classes: means within 0.05, five standard
    errors.
    """
    rng = np.random.default_rng(1)
    prior = np.array([0.5, 0.3, 0.2])
    y = rng.choice(3, 20_000, p=prior)
    said = np.where(rng.random(len(y)) < 0.4, y, rng.integers(0, 3, len(y)))
    channel = 0.4 * np.eye(3) + 0.2
    evidence = jnp.asarray(np.log(channel)[:, said].T, jnp.float32)
    labels = np.full(len(y), -1)
    labels[:2] = [1, 2]
    seen = observations(labels, jnp.asarray(prior, jnp.float32), evidence, labels < 0)
    truth = np.eye(3)[y] - prior
    values = np.asarray(seen.values[:, 1])
    slope = (values * truth).sum() / (truth**2).sum()
    assert abs(slope - 1.0) < 0.05
    rho = float(seen.correlation)
    noise = ((values - truth) ** 2).sum(1).mean() / (1 - (prior**2).sum())
    assert abs(noise / ((1 - rho) / rho) - 1.0) < 0.05
    np.testing.assert_allclose(seen.precision[2], [0.0, 1 / (0.5 + (1 - rho) / rho)], rtol=1e-5)
    np.testing.assert_allclose(seen.values[0, 0], np.eye(3)[1] - prior, atol=1e-6)
    nothing = observations(
        labels, jnp.asarray(prior, jnp.float32), jnp.zeros_like(evidence), labels < 0
    )
    assert not np.asarray(nothing.precision[:, 1]).any()


def test_who_neither_reports_nor_has_a_label_is_not_observed():
    """Node 3 is silent: the field passes it by, and does not pull it to the prior."""
    labels = np.array([0, -1, -1, -1])
    reported = np.array([False, True, True, False])
    evidence = jnp.zeros((4, 2)).at[:3].set(jnp.array([2.0, 0.0]))
    seen = observations(labels, jnp.array([0.5, 0.5]), evidence, reported)
    assert (np.asarray(seen.precision[:, 1]) > 0).tolist() == [True, True, True, False]


def test_no_member_of_the_panel_sees_her_own_label(problem):
    op = propagation.operator(problem[0])
    fold = jnp.arange(N) % 4
    labels = np.where(np.arange(N) < 16, np.arange(N) % 3, -1)
    prior = jnp.full(3, 1 / 3)

    def scored(labels):
        seen = observations(labels, prior, jnp.zeros((N, 3)), labels < 0)
        return np.asarray(class_fields(op, seen, fold, 0.1, (0.95,), num_folds=4)[0])

    other = labels.copy()
    other[::4] = np.where(labels[::4] >= 0, (labels[::4] + 1) % 3, -1)  # the labels of one fold
    first = scored(labels)
    second = scored(other)
    of_fold = (labels >= 0) & (np.asarray(fold) == 0)
    np.testing.assert_allclose(first[of_fold], second[of_fold], atol=1e-5)
    assert np.abs(first - second)[~of_fold].max() > 0.05
