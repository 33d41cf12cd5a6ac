"""Labels that went through randomised response: what is learned of them is as if they were true."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.features import GeneralizedRR
from ldp_jax.servers import panel_facts
from ldp_jax.servers.parts.confusion import ScoredPanel, confusions
from ldp_jax.servers.parts.device_classifier import device_classifier
from ldp_jax.servers.parts.label_diffusion import observations
from ldp_jax.servers.parts.panel import keep_of, reported_shares, soft_labels
from ldp_jax.servers.parts.rows import DenseRows
from ldp_jax.servers.parts.self_training import FoldedLabels
from ldp_jax.servers.parts.stack import stack_out_of_fold
from ldp_jax.servers.parts.structure import label_log_loss

N = 6000
C = 3
FOLDS = 3


@pytest.fixture(scope="module")
def data():
    """Classes, Gaussian records, and reports at epsilon 1: two in five name another class."""
    rng = np.random.default_rng(0)
    y = rng.choice(C, N, p=[0.5, 0.3, 0.2])
    x = np.eye(C)[y] + rng.normal(0, 0.7, (N, C))
    noise = GeneralizedRR(1.0, C)
    told = np.asarray(jax.jit(jax.vmap(noise.privatize))(jax.random.split(jax.random.key(0), N), y))
    return y, np.asarray(x, np.float32), told, keep_of(noise), rng.integers(0, FOLDS, N)


def ways(data):
    """True labels, reports as reports, and reports as if they were true."""
    y, _, told, keep, fold = data
    return [
        FoldedLabels(labels, C, fold, FOLDS, k)
        for labels, k in ((y, 1.0), (told, keep), (told, 1.0))
    ]


def test_a_classifier_is_that_of_the_true_labels(data):
    y, x, told, keep, _ = data
    true, corrected, naive = (
        device_classifier(DenseRows(x), known).panel_scores for known in ways(data)
    )
    assert label_log_loss(corrected, y) < label_log_loss(true, y) + 0.02
    assert (
        label_log_loss(naive, y) > label_log_loss(true, y) + 0.15
    )  # what is lost without the correction
    assert label_log_loss(corrected, told, keep) < label_log_loss(naive, told, keep) - 0.02


def test_a_confusion_is_that_of_the_true_labels(data):
    _, x, _, _, _ = data
    sets = np.array([[True, True, True], [True, False, True]])

    def table(known):
        found, which = confusions(ScoredPanel(x, known.labels, known.keep), sets)
        return np.asarray(found)[which]

    true, corrected, naive = map(table, ways(data))
    np.testing.assert_allclose(corrected.sum(-1), 1.0, atol=1e-5)
    assert np.abs(corrected - true).max() < 0.1
    assert np.abs(naive - true).max() > 0.25
    np.testing.assert_allclose(table(ways(data)[0]._replace(keep=1.0 - 1e-6)), true, atol=2e-3)


def test_a_stack_weighs_as_true_labels_do(data):
    _, x, _, _, _ = data
    scores = np.stack([2.0 * x, np.random.default_rng(1).normal(size=x.shape)], -1).astype(
        np.float32
    )
    true, corrected, naive = (
        np.asarray(stack_out_of_fold(scores, known, (1.0, 0.0), ridge=1.0)[1])
        for known in ways(data)
    )
    assert abs(corrected[0] - true[0]) < 0.25 * true[0]
    assert naive[0] < 0.5 * true[0]


def test_shares_undo_the_channel_and_each_class_has_half_a_user_at_least():
    rng = np.random.default_rng(3)
    for n in (1, 4, 30):
        keep = rng.uniform(1.1 / C, 1.0)
        told = rng.integers(0, C - 1, n)
        other = (1 - keep) / (C - 1)
        undone = [((told == c).sum() - n * other) / (keep - other) for c in range(C)]
        wanted = np.maximum(undone, 0.5)
        np.testing.assert_allclose(reported_shares(told, C, keep), wanted / wanted.sum())


def test_shares_posteriors_and_observations(data):
    y, _, told, keep, _ = data
    shares = reported_shares(told, C, keep)
    np.testing.assert_allclose(
        shares, np.bincount(y) / N, atol=0.05
    )  # five standard errors of a report's
    soft = soft_labels(told, C, keep)
    for c in range(C):
        assert soft[told == c, c].mean() == pytest.approx((y == c)[told == c].mean(), abs=0.06)
    nothing = jnp.zeros((N, C)), np.zeros(N, bool)
    prior = jnp.asarray(shares, jnp.float32)
    seen = observations(told, prior, *nothing, keep)
    truth = np.eye(C)[y] - shares
    scale = (np.asarray(seen.values[:, 0]) * truth).sum() / (truth**2).sum()
    assert scale == pytest.approx(1.0, abs=0.1)  # unbiased
    public = observations(told, prior, *nothing)
    np.testing.assert_allclose(public.values[:, 0], np.eye(C)[told] - shares, atol=1e-6)
    assert 0 < float(seen.precision[0, 0]) < float(public.precision[0, 0])
    silent = observations(np.full(N, -1), prior, *nothing, keep)
    assert not np.asarray(silent.precision[:, 0]).any()


@pytest.mark.usefixtures("untyped")
def test_a_channel_that_says_nothing_is_refused():
    for keep in (1.0 / C, 0.0, 1.5):
        with pytest.raises(ValueError, match="keep must be"):
            panel_facts(
                jax.random.key(0), None, None, np.array([0, 1, -1]), num_classes=C, keep=keep
            )
