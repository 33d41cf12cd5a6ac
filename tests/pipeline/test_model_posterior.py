"""Any classifier's posterior, out of fold."""

import jax
import numpy as np
import pytest

from ldp_jax.learning import models, training
from ldp_jax.pipeline.posterior import model_posterior

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 300)
X = (np.eye(3, 150)[Y] * 6 + RNG.normal(size=(300, 150))).astype(np.float32)
LABELS = np.where(np.arange(300) < 121, Y, -1)
MODEL = models.mlp(2, 16, 3)


def test_it_classifies_and_asks_no_labelled_user_of_a_model_that_has_seen_her():
    """Labels that are noise are told no better than by chance, although each model could learn them by heart."""
    before = training._fit._cache_size()
    log_q = np.asarray(model_posterior(jax.random.key(0), MODEL, X, LABELS))
    np.testing.assert_allclose(np.exp(log_q).sum(1), 1.0, rtol=1e-5)
    assert (log_q.argmax(1) == Y).mean() > 0.75
    noise = np.where(LABELS >= 0, RNG.integers(0, 3, 300), -1)
    log_q = model_posterior(jax.random.key(1), MODEL, X, noise, patience=50)
    assert training._fit._cache_size() == before + 1  # one program for all folds
    known = noise >= 0
    right = (np.asarray(log_q).argmax(1) == noise)[known].mean()
    assert abs(right - 1 / 3) < 5 * np.sqrt(2 / 9 / known.sum())


@pytest.mark.usefixtures("untyped")
def test_bad_input():
    for labels, num_folds, message in (
        (LABELS.astype(float), 5, r"labels must be int \[300\]"),
        (np.where(np.arange(300) < 4, Y, -1), 5, "labels must be at least 5"),
        (LABELS, 2, "num_folds must be"),
    ):
        with pytest.raises(ValueError, match=message):
            model_posterior(jax.random.key(0), MODEL, X, labels, num_folds=num_folds)
