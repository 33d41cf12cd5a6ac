"""Logistic regression whose labels are evidence: the optimum, nobody's own evidence, and one
program.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from scipy.special import log_softmax, logsumexp
from sklearn.linear_model import LogisticRegression

from ldp_jax.servers.parts import self_training
from ldp_jax.servers.parts.device_classifier import count_regression
from ldp_jax.servers.parts.label_odds import family, log_odds
from ldp_jax.servers.parts.rows import DenseRows, feature_rows
from ldp_jax.servers.parts.self_training import (
    FeaturesPosterior,
    FoldedLabels,
    Lesson,
    features_posterior,
    folds,
    label_evidence,
    regression,
    self_train,
)
from ldp_jax.servers.parts.stack import combine
from tests.servers.planted import some_labels

CLASSES, FOLDS = 3, 4


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, 600)
    x = np.eye(CLASSES)[y] @ rng.normal(0, 0.7, (CLASSES, 12)) + rng.normal(0, 1, (600, 12))
    labels = some_labels(y, 0.2)
    return feature_rows(x), y, labels, folds(jax.random.key(0), labels, FOLDS)


@pytest.fixture(scope="module")
def fitted(data):
    rows, _, labels, fold = data
    return features_posterior(
        rows, labels, fold, num_classes=CLASSES, num_folds=FOLDS, tolerance=1e-7
    )


def test_features_of_the_caller_stay_as_they_are():
    given = scipy.sparse.csr_array((np.ones(3), [1, 0, 1], [0, 3]), shape=(1, 2))
    feature_rows(given)
    assert given.indices.tolist() == [1, 0, 1]


def test_folds_are_balanced_in_every_class():
    labels = np.array([0] * 20 + [1] * 40 + [-1] * 60)
    fold = np.asarray(folds(jax.random.key(0), labels, 4))
    for c, share in ((0, 5), (1, 10), (-1, 15)):
        assert np.bincount(fold[labels == c], minlength=4).tolist() == [share] * 4
    assert not np.array_equal(fold, folds(jax.random.key(1), labels, 4))


def test_a_labelled_node_is_asked_of_the_model_that_has_not_seen_it(data, fitted):
    rows, y, labels, fold = data
    x = rows.dense()
    for f in range(FOLDS):
        seen = (labels >= 0) & (np.asarray(fold) != f)
        oracle = LogisticRegression(C=1 / fitted.ridge, tol=1e-8, max_iter=5000).fit(
            x[seen], labels[seen]
        )
        asked = (labels >= 0) & (np.asarray(fold) == f)
        np.testing.assert_allclose(
            np.exp(fitted.log_q[asked]), oracle.predict_proba(x[asked]), atol=0.005
        )
    assert (fitted.classes == y)[labels < 0].mean() > 0.55


def test_own_evidence_takes_no_part(data, fitted):
    rows, y, labels, fold = data
    evidence = label_evidence(labels, CLASSES)
    other = evidence.copy()
    other[7] = label_evidence(np.array([(y[7] + 1) % CLASSES]), CLASSES)[0]
    first, second = (
        self_train(rows, given, fitted, ridges=(fitted.ridge,), tolerance=1e-7)
        for given in (evidence, other)
    )
    np.testing.assert_allclose(first[7], second[7], atol=2e-3)  # folds share a line search, no data
    elsewhere = np.asarray(fold) != int(fold[7])
    assert np.abs(first - second)[elsewhere].max() > 0.02


def test_reports_teach_what_few_labels_cannot_by_the_same_program(data, fitted):
    rows, y, labels, fold = data
    rng = np.random.default_rng(5)
    said = np.where(rng.random(len(y)) < 0.6, y, rng.integers(0, CLASSES, len(y)))
    report = np.log(0.6 * np.eye(CLASSES) + 0.4 / CLASSES)[said].astype(np.float32)
    few = np.where(np.cumsum(labels >= 0) <= 12, labels, -1)
    start = features_posterior(
        rows, few, fold, num_classes=CLASSES, num_folds=FOLDS, tolerance=1e-7
    )
    evidence = np.where(few[:, None] >= 0, label_evidence(few, CLASSES), report)
    before = self_training._path._cache_size()
    log_f = self_train(rows, evidence, start, ridges=(10.0, 3.0, 1.0, 0.3), keep=0.0)
    alone = self_train(rows, evidence, start, ridges=(0.7,), keep=0.0)
    for keep, words in ((0.35, {}), (1.0, {"keep": 1.0})):
        mixed = self_train(rows, evidence, start, ridges=(0.7,), **words)
        wanted = log_softmax(keep * np.asarray(start.log_q) + (1 - keep) * alone, axis=1)
        np.testing.assert_allclose(mixed, wanted, atol=1e-5)
    assert self_training._path._cache_size() == before

    def right(log_p):
        return (np.asarray(log_p).argmax(1) == y)[few < 0].mean()

    assert right(log_f) > right(start.log_q) + 0.05
    np.testing.assert_allclose(np.exp(log_f).sum(1), 1.0, rtol=1e-5)


def test_settings_out_of_range_are_refused(data):
    rows, _, labels, fold = data
    known = FeaturesPosterior(jnp.zeros((600, CLASSES)), fold, FOLDS, labels)
    for changes, message in (
        ({"ridges": (0.0,)}, "ridges must be finite and > 0"),
        ({"ridges": ()}, "ridges must hold a number"),
        ({"keep": 2.0}, "keep must be in"),
    ):
        with pytest.raises(ValueError, match=message):
            self_train(rows, label_evidence(labels, CLASSES), known, **changes)
    with pytest.raises(ValueError, match="num_folds must be a whole number >= 2"):
        folds(jax.random.key(0), labels, 1)


@pytest.fixture(scope="module")
def houses():
    """Features that tell half, and counts that tell the same half again: a house decides both."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, 900)
    house = np.where(rng.random(900) < 0.5, y, rng.integers(0, CLASSES, 900))
    log_q = np.log(0.45 * np.eye(CLASSES)[house] + 0.55 / CLASSES)
    reports = rng.poisson(3.0 + 9.0 * np.eye(CLASSES)[house] + 1.5 * np.eye(CLASSES)[y])
    labels = np.where(np.arange(900) < 240, y, -1)
    known = FoldedLabels(labels, CLASSES, folds(jax.random.key(0), labels, FOLDS), FOLDS)
    return jnp.asarray(log_q, jnp.float32), reports, y, known


def test_a_regression_on_counts_does_not_count_twice_what_features_say(houses):
    log_q, reports, y, known = houses
    labels = known.labels
    found = count_regression(log_q, reports, known, np.ones(900, bool))
    # The law of these counts, as if they were independent of features given the class.
    means = np.stack([reports[labels == c].mean(0) for c in range(CLASSES)])
    law = jnp.asarray(reports @ np.log(means).T - means.sum(1), jnp.float32)
    scores = jnp.stack([log_q, law, found], -1)
    candidates = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    known = np.flatnonzero(labels >= 0)
    both, alone = (
        log_odds(np.asarray(scores)[known], labels[known], family(one))[0] for one in candidates
    )
    assert alone > both + 10.0
    hidden = labels < 0
    likely = [np.asarray(combine(scores, w))[hidden, y[hidden]].mean() for w in candidates]
    assert likely[1] > likely[0] + 0.3  # in nats


def test_of_silent_users_nothing_is_read(houses):
    log_q, reports, y, known = houses
    reported = np.arange(900) % 5 > 0
    found = count_regression(log_q, reports, known, reported)
    np.testing.assert_array_equal(np.asarray(found)[~reported], np.asarray(log_q)[~reported])
    other = known._replace(labels=np.where(reported, known.labels, (y + 1) % CLASSES))
    more = np.where(reported[:, None], reports, 10_000)
    np.testing.assert_array_equal(count_regression(log_q, more, other, reported), found)


def test_64_bit_mode_has_the_same_answers(data, fitted):
    rows, _, labels, fold = data
    with jax.enable_x64(True):
        found = features_posterior(
            rows, labels, fold, num_classes=CLASSES, num_folds=FOLDS, tolerance=1e-7
        )
    np.testing.assert_allclose(found.log_q, fitted.log_q, atol=1e-2)


def test_what_does_not_fit_is_refused(data, fitted):
    rows, _, labels, fold = data
    evidence = np.zeros((600, CLASSES), np.float32)
    for call, words in (
        (lambda: self_train(rows, evidence[1:], fitted), "evidence must be of 600 nodes"),
        (
            lambda: features_posterior(
                rows, labels, fold + 1, num_classes=CLASSES, num_folds=FOLDS
            ),
            "fold must be in",
        ),
        (
            lambda: features_posterior(rows, labels, fold, num_classes=2, num_folds=FOLDS),
            "labels must be in",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            call()


@pytest.mark.parametrize("kind", [np.float16, bool])
def test_dense_features_of_any_kind_are_those_of_float64(kind):
    x = np.array([[0, 1, 1], [1, 0, 1]], kind)
    np.testing.assert_array_equal(feature_rows(x).dense(), feature_rows(x.astype(float)).dense())


def test_few_teachers_learn_the_same_in_places_of_their_own(monkeypatch):
    y = np.arange(400) % 2
    x = DenseRows(np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32) + y[:, None])
    labels = np.where(np.arange(400) < 40, y, -1)
    lesson = Lesson.of(FoldedLabels(labels, 2, np.arange(400) % 3, 3))
    wanted = regression(x, lesson, ridges=(1.0,))[0]
    monkeypatch.setattr(self_training, "_FEW", 1)
    np.testing.assert_allclose(regression(x, lesson, ridges=(1.0,))[0], wanted, atol=1e-3)


@pytest.mark.parametrize("by_weights", [False, True])
def test_who_taught_is_asked_of_one_model_and_others_of_the_mean_of_all(data, fitted, by_weights):
    """Others have the mean posterior, or the posterior of the mean weights; these differ."""
    rows, _, labels, fold = data
    lesson = Lesson.of(FoldedLabels(labels, CLASSES, fold, FOLDS))
    given = {"ridges": self_training.RIDGES, "tolerance": 1e-7, "by_weights": by_weights}
    log_p, ridge, weights = regression(rows, lesson, **given)
    assert ridge == fitted.ridge
    weights = np.asarray(weights, float)
    scores = np.asarray(rows.dense(), float) @ weights[:-1] + weights[-1]
    scores = scores.reshape(len(labels), FOLDS, CLASSES)
    each = scores - logsumexp(scores, axis=2, keepdims=True)
    mean_scores = scores.mean(1)
    of_weights = mean_scores - logsumexp(mean_scores, axis=1, keepdims=True)
    of_posteriors = logsumexp(each, axis=1) - np.log(FOLDS)
    unlabelled = labels < 0
    wanted = (of_weights if by_weights else of_posteriors)[unlabelled]
    assert np.abs(of_weights - of_posteriors)[unlabelled].max() > 1e-3
    np.testing.assert_allclose(log_p[unlabelled], wanted, atol=2e-5)
    own = each[np.arange(len(labels)), np.asarray(fold)]
    np.testing.assert_allclose(log_p[~unlabelled], own[~unlabelled], atol=2e-5)
