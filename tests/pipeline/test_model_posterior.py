"""Any classifier's posterior, out of fold."""

import jax
import numpy as np
import pytest

from ldp_jax.learning import models, training
from ldp_jax.pipeline.posterior import model_posterior

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 300)
X = (np.eye(3)[Y] + RNG.normal(0, 0.4, (300, 3))).astype(np.float32)
LABELS = np.where(np.arange(300) < 101, Y, -1)
MODEL = models.mlp(2, 8, 3)


def test_it_classifies_and_is_a_distribution():
    log_q = np.asarray(model_posterior(jax.random.key(0), MODEL, X, LABELS))
    np.testing.assert_allclose(np.exp(log_q).sum(1), 1.0, rtol=1e-5)
    assert (log_q.argmax(1) == Y).mean() > 0.75


def test_no_labelled_user_is_asked_of_a_model_that_has_seen_her():
    """Labels that are noise are told no better than by chance, although each model could learn them by heart."""
    noise = RNG.integers(0, 2, 120)
    wide = RNG.normal(size=(120, 200)).astype(np.float32)
    model = models.mlp(2, 16, 2)
    before = training._fit._cache_size()
    log_q = model_posterior(jax.random.key(1), model, wide, noise, patience=50)
    assert training._fit._cache_size() == before + 1  # one program for all folds
    right = (np.asarray(log_q).argmax(1) == noise).mean()
    assert abs(right - 0.5) < 5 * 0.5 / np.sqrt(120)


@pytest.mark.usefixtures("untyped")
def test_bad_input():
    for labels, num_folds, message in (
        (LABELS.astype(float), 5, r"labels must be int \[300\]"),
        (np.where(np.arange(300) < 4, Y, -1), 5, "labels must be at least 5"),
        (LABELS, 2, "num_folds must be"),
    ):
        with pytest.raises(ValueError, match=message):
            model_posterior(jax.random.key(0), MODEL, X, labels, num_folds=num_folds)
