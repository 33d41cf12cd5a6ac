"""Who reports first, and what is learned from it: a planted block model is recovered."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import edges
from ldp_jax.pipeline.groups import class_shares, fine_groups
from ldp_jax.pipeline.pilot import expected_counts, group_shares, pilot
from tests.pipeline.planted import blocks, noisy_counts, some_labels


def test_half_of_every_class_and_enough_others_are_asked():
    labels = np.array([0] * 10 + [1] * 7 + [-1] * 983)
    chosen = pilot(jax.random.key(0), labels)
    assert chosen[:10].sum() == 5
    assert chosen[10:17].sum() == 4
    assert chosen.sum() == 80
    assert not np.array_equal(chosen, pilot(jax.random.key(1), labels))
    labels = np.array([0] * 10 + [1] * 6 + [-1] * 84)
    silent = (np.arange(100) % 2 == 0) & (labels >= 0)
    chosen = pilot(jax.random.key(0), labels, silent)
    assert not chosen[silent].any()
    assert (chosen[:10].sum(), chosen[10:16].sum(), chosen.sum()) == (3, 2, 8)  # half of the five, of the three


def test_at_most_a_quarter_of_the_unlabelled_are_asked_and_none_where_labels_are_many():
    assert pilot(jax.random.key(0), np.full(100, -1)).sum() == 8
    assert pilot(jax.random.key(0), np.full(100, -1), share=1.0).sum() == 25
    labels = np.where(np.arange(100) < 50, np.arange(100) % 2, -1)
    assert pilot(jax.random.key(0), labels)[50:].sum() == 0
    with pytest.raises(ValueError, match="share must be in"):
        pilot(jax.random.key(0), np.zeros(3, int), share=1.5)


def answered(epsilon, share, shuffled=False):
    graph, y, _ = blocks(n=2400)
    labels = some_labels(y, share)
    q = 0.6 * np.eye(3)[y] + 0.4 / 3  # right in the mean: q(y) says how often a class is drawn below
    rng = np.random.default_rng(3)
    said = (q.cumsum(1) > rng.random((len(y), 1))).argmax(1)
    log_q = jnp.log(jnp.asarray(0.6 * np.eye(3)[said] + 0.4 / 3, jnp.float32))
    fine = fine_groups(log_q, labels)
    order = rng.permutation(len(y)) if shuffled else np.arange(len(y))
    reports = noisy_counts(jax.random.key(5), graph, fine, 9, epsilon, order)
    chosen = pilot(jax.random.key(6), labels, share=0.4, most=1.0)
    true = edges.count_neighbours(edges.Population.of(graph), fine, 9)[order]
    exact = np.stack([true[y == c].sum(0) for c in range(3)])
    model = group_shares(reports, fine, class_shares(log_q, labels), chosen, epsilon)
    return model, exact / exact.sum(1, keepdims=True), np.bincount(graph.receivers).mean()


@pytest.mark.parametrize("share", [0.5, 0.05])  # with few labels the unlabelled, by q, must do
def test_the_shares_of_a_block_model_are_recovered(share):
    model, exact, degree = answered(1.0, share)
    np.testing.assert_allclose(model.shares.sum(1), 1.0, rtol=1e-5)
    assert np.abs(np.asarray(model.shares) - exact).max() < 0.05
    np.testing.assert_allclose(model.degree, degree, rtol=0.15)
    assert 0.55 < float(model.homophily) < 0.85  # 0.7 was planted
    rates = np.asarray(expected_counts(model).sum(-1))
    assert rates.min() < degree / 4
    assert rates.max() > degree * 4


def test_lists_of_others_have_no_homophily():
    model, exact, _ = answered(1.0, 0.5, shuffled=True)
    assert float(model.homophily) < 0.1
    assert np.abs(np.asarray(model.shares) - exact).max() < 0.05


def test_any_reports_give_shares():
    for value, reported in itertools.product((0, 2**30, -(2**30)), (np.zeros(6, bool), np.ones(6, bool))):
        model = group_shares(jnp.full((6, 6), value), jnp.arange(6), jnp.full((6, 2), 0.5), reported, 1.0)
        assert np.isfinite(np.asarray(model.shares)).all()
        np.testing.assert_allclose(model.shares.sum(1), 1.0, rtol=1e-4)
