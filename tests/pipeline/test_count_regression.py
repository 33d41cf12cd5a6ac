"""Counts as columns of a logistic regression: what it is for, and nobody who was silent."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.pipeline.count_regression import count_regression
from ldp_jax.pipeline.self_training import folds
from ldp_jax.pipeline.stack import combine, likeliest

pytestmark = pytest.mark.usefixtures("quickly_compiled")

CLASSES, FOLDS = 3, 4


@pytest.fixture(scope="module")
def data():
    """Features that tell half, and counts that tell the same half again: a house decides both."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, 900)
    house = np.where(rng.random(900) < 0.5, y, rng.integers(0, CLASSES, 900))
    log_q = np.log(0.45 * np.eye(CLASSES)[house] + 0.55 / CLASSES)
    reports = rng.poisson(3.0 + 9.0 * np.eye(CLASSES)[house] + 1.5 * np.eye(CLASSES)[y])
    labels = np.where(np.arange(900) < 240, y, -1)
    fold = folds(jax.random.key(0), labels, FOLDS)
    return jnp.asarray(log_q, jnp.float32), reports, y, labels, fold


def test_it_does_not_count_twice_what_features_say(data):
    log_q, reports, y, labels, fold = data
    found = count_regression(log_q, reports, labels, np.ones(900, bool), fold, num_folds=FOLDS)
    # The law of these counts, as if they were independent of features given the class.
    means = np.stack([reports[:240][labels[:240] == c].mean(0) for c in range(CLASSES)])
    law = jnp.asarray(reports @ np.log(means).T - means.sum(1), jnp.float32)
    scores = jnp.stack([log_q, law, found], -1)
    candidates = jnp.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert likeliest(scores, jnp.asarray(labels), candidates).tolist() == [0.0, 0.0, 1.0]
    hidden = labels < 0
    likely = [np.asarray(combine(scores, w))[hidden, y[hidden]].mean() for w in candidates]
    assert likely[1] > likely[0] + 0.3  # in nats


def test_of_silent_users_nothing_is_read(data):
    log_q, reports, y, labels, fold = data
    reported = np.arange(900) % 5 > 0
    found = count_regression(log_q, reports, labels, reported, fold, num_folds=FOLDS)
    np.testing.assert_array_equal(np.asarray(found)[~reported], np.asarray(log_q)[~reported])
    other, more = np.where(reported, labels, (y + 1) % CLASSES), np.where(reported[:, None], reports, 10_000)
    again = count_regression(log_q, more, other, reported, fold, num_folds=FOLDS)
    np.testing.assert_array_equal(again, found)
