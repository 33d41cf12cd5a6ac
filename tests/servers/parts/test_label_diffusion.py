"""Precision-weighted propagation against a dense solve, and what it takes for an observation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.graph import graphs, interop, propagation
from ldp_jax.servers.parts.label_diffusion import (
    class_fields,
    observations,
    precision_weighted_ppr,
)

N = 40


@pytest.fixture(scope="module")
def problem():
    """A graph with a node without edges, values, and precisions of which some are 0."""
    rng = np.random.default_rng(0)
    edges = np.argwhere(np.triu(rng.random((N, N)) < 0.12, 1))
    graph = graphs.from_edges(edges[(edges != N - 1).all(1)], N)
    precision = rng.gamma(1.0, 2.0, (N, 3)) * (rng.random((N, 1)) < 0.6)
    precision[N - 1] = 0.0
    y = rng.normal(0, 1, (N, 3))
    return graph, *(
        jnp.asarray(part, jnp.float32) for part in (y, precision, interop.to_scipy(graph).toarray())
    )


def dense(friends, y, precision, kappa, c):
    """Column by column, each with its own precisions; differentiable."""
    columns = []
    for column in range(y.shape[1]):
        weight = kappa * precision[:, column]
        diagonal = weight + friends.sum(1)
        matrix = jnp.diag(jnp.where(diagonal > 0, diagonal, 1.0)) - c * friends
        columns.append(jnp.linalg.solve(matrix, weight * y[:, column]))
    return jnp.stack(columns, 1)


def test_it_is_the_solution_of_its_system_by_one_program_for_all_numbers(problem):
    graph, y, precision, friends = problem
    before = precision_weighted_ppr._cache_size()
    op = propagation.operator(graph)
    for kappa, c in ((0.1, 0.99), (1.0, 0.8), (3.0, 0.0)):
        z = precision_weighted_ppr(op, y, precision, kappa, c, 1e-7)
        np.testing.assert_allclose(z, dense(friends, y, precision, kappa, c), atol=2e-5)
        assert not np.asarray(z[N - 1]).any()
    assert precision_weighted_ppr._cache_size() == before + 1


def test_its_gradients_are_those_of_the_dense_solve(problem):
    graph, y, precision, friends = problem
    op = propagation.operator(graph, "segment")
    ask = jax.random.normal(jax.random.key(0), y.shape)

    def found(y, precision, kappa, c):
        return (ask * precision_weighted_ppr(op, y, precision, kappa, c, 1e-7)).sum()

    def exact(y, precision, kappa, c):
        return (ask * dense(friends, y, precision, kappa, c)).sum()

    at = (y, precision + 0.5, jnp.float32(0.7), jnp.float32(0.9))
    grads, wanted = (jax.jit(jax.grad(f, argnums=(0, 1, 2, 3)))(*at) for f in (found, exact))
    for one, other in zip(grads, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


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


def test_fields_of_all_c_are_semi_iterations_without_the_labels_of_a_fold(problem):
    """20 folds of 2 columns are two blocks; at 1e-3 one product more or less moves z by 1e-4."""
    graph, _, _, _ = problem
    op = propagation.operator(graph)
    rng = np.random.default_rng(2)
    fold = np.arange(N) % 20
    labels = np.where(np.arange(N) < 24, rng.integers(0, 3, N), -1)
    prior = jnp.array([0.5, 0.3, 0.2])
    evidence = jnp.asarray(rng.normal(0, 1, (N, 3)), jnp.float32)
    seen = observations(labels, prior, evidence, rng.random(N) < 0.8)
    cs = (0.99, 0.8)
    found = class_fields(op, seen, fold, 0.1, cs, num_folds=20)
    for c, scores in zip(cs, found, strict=True):
        for left_out in range(21):
            by_label = (labels >= 0) & (fold != left_out)
            source = np.where(by_label, 0, 1)
            precision = jnp.broadcast_to(seen.precision[np.arange(N), source][:, None], (N, 3))
            z = precision_weighted_ppr(
                op, seen.values[np.arange(N), source], precision, 0.1, c, 1e-3
            )
            asked = np.where(labels >= 0, fold, 20) == left_out
            wanted = np.log(np.maximum(prior + z, 0.02))
            np.testing.assert_allclose(scores[asked], wanted[asked], atol=2e-5)


def test_no_member_of_the_panel_sees_her_own_label(problem):
    graph, _, _, _ = problem
    op = propagation.operator(graph)
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
