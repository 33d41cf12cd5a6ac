"""Logistic regression whose labels are evidence: the optimum, nobody's own evidence, and one program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression

from ldp_jax.pipeline import self_training
from ldp_jax.pipeline.rows import DenseRows, RowTables, feature_rows, laid_out
from ldp_jax.pipeline.self_training import features_posterior, folds, label_evidence, self_train
from tests.pipeline.planted import some_labels

pytestmark = pytest.mark.usefixtures("quickly_compiled")

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
    return features_posterior(rows, labels, fold, num_classes=CLASSES, num_folds=FOLDS, tolerance=1e-7)


def test_rows_are_the_matrix_with_rows_of_length_one():
    x = np.random.default_rng(1).poisson(0.5, (40, 7)).astype(float)
    x[3] = 0.0
    weights = np.random.default_rng(2).normal(size=(7, 2)).astype(np.float32)
    for given in (x, scipy.sparse.csr_matrix(x), scipy.sparse.coo_array(x)):
        for log in (False, True):
            dense = np.log1p(x) if log else x
            length = np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-30)
            found = feature_rows(given, log=log).times(jnp.asarray(weights))
            np.testing.assert_allclose(found, dense / length @ weights, atol=1e-5)
    with pytest.raises(ValueError, match="x must be counts >= 0"):
        feature_rows(-x, log=True)
    with pytest.raises(ValueError, match="x must be finite"):
        feature_rows(np.full((2, 2), np.nan))
    with pytest.raises(ValueError, match=r"x must be real features of shape \[n, d\]"):
        feature_rows(np.ones(3))


@pytest.mark.parametrize(("most", "kind"), [(0.2, RowTables), (1.0, DenseRows)])
def test_tables_multiply_as_rows_do_and_so_do_their_transposes(most, kind):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 23)) * (rng.random((60, 23)) < most * rng.random((60, 1)))
    x[:, [0, 4, 22]] = 0.0
    x[5, 1:10] = 1.0
    x[:12, 7] = 1.0
    x[[0, 8, 59]] = 0.0
    rows = feature_rows(x)  # no entry in some rows and columns, more than a line of them in others
    weights = jnp.asarray(rng.normal(size=(23, 4)), jnp.float32)

    @jax.jit
    def both(rows, weights):
        product, transpose = jax.vjp(rows.times, weights)
        return product, *transpose(jnp.sin(product))

    assert isinstance(laid_out(rows), kind)  # dense where little is saved
    for found, wanted in zip(both(laid_out(rows), weights), both(rows, weights), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_folds_are_balanced_in_every_class():
    labels = np.array([0] * 20 + [1] * 40 + [-1] * 60)
    fold = np.asarray(folds(jax.random.key(0), labels, 4))
    for c, share in ((0, 5), (1, 10), (-1, 15)):
        assert np.bincount(fold[labels == c], minlength=4).tolist() == [share] * 4
    assert not np.array_equal(fold, folds(jax.random.key(1), labels, 4))


def test_a_labelled_node_is_asked_of_the_model_that_has_not_seen_it(data, fitted):
    rows, y, labels, fold = data
    x = np.asarray(jax.jit(lambda r: r.times(jnp.eye(12)))(rows))
    for f in range(FOLDS):
        seen = (labels >= 0) & (np.asarray(fold) != f)
        oracle = LogisticRegression(C=1 / fitted.ridge, tol=1e-8, max_iter=5000).fit(x[seen], labels[seen])
        asked = (labels >= 0) & (np.asarray(fold) == f)
        np.testing.assert_allclose(np.exp(fitted.log_q[asked]), oracle.predict_proba(x[asked]), atol=0.02)
    assert (np.asarray(fitted.log_q).argmax(1) == y)[labels < 0].mean() > 0.55


def test_own_evidence_takes_no_part(data, fitted):
    rows, y, labels, fold = data
    told = np.asarray(label_evidence(labels, CLASSES))
    other = told.copy()
    other[7] = np.asarray(label_evidence(np.array([(y[7] + 1) % CLASSES]), CLASSES))[0]
    found = [
        self_train(
            rows, jnp.asarray(l), fold, fitted.classifier, fitted.log_q,
            ridges=(fitted.ridge,), num_folds=FOLDS, tolerance=1e-7,
        ).log_f
        for l in (told, other)
    ]  # fmt: skip
    np.testing.assert_allclose(found[0][7], found[1][7], atol=2e-3)  # folds share a line search, no data
    elsewhere = np.asarray(fold) != int(fold[7])
    assert np.abs(np.asarray(found[0] - found[1])[elsewhere]).max() > 0.02


def test_reports_teach_what_few_labels_cannot(data, fitted):
    rows, y, labels, fold = data
    rng = np.random.default_rng(5)
    said = np.where(rng.random(len(y)) < 0.6, y, rng.integers(0, CLASSES, len(y)))
    report = np.log(0.6 * np.eye(CLASSES) + 0.4 / CLASSES)[said].astype(np.float32)
    few = np.where(np.cumsum(labels >= 0) <= 12, labels, -1)
    start = features_posterior(rows, few, fold, num_classes=CLASSES, num_folds=FOLDS, tolerance=1e-7)
    told = jnp.where(jnp.asarray(few)[:, None] >= 0, label_evidence(few, CLASSES), report)
    found = self_train(
        rows, told, fold, start.classifier, start.log_q, ridges=(10.0, 3.0, 1.0, 0.3), num_folds=FOLDS, keep=0.0
    )

    def right(log_p):
        return (np.asarray(log_p).argmax(1) == y)[few < 0].mean()

    assert right(found.log_f) > right(start.log_q) + 0.05
    np.testing.assert_allclose(np.exp(found.log_f).sum(1), 1.0, rtol=1e-5)


def test_the_features_posterior_and_self_training_are_one_program(data, fitted):
    rows, _, labels, fold = data
    told = label_evidence(labels, CLASSES)
    features_posterior(rows, labels, fold, num_classes=CLASSES, num_folds=FOLDS)  # the fixture's may be forgotten
    before = self_training._path._cache_size()
    for ridge, keep in ((0.7, 0.1), (2.0, 0.5)):
        self_train(rows, told, fold, fitted.classifier, fitted.log_q, ridges=(ridge,), num_folds=FOLDS, keep=keep)
    assert self_training._path._cache_size() == before


def test_settings_out_of_range_are_refused(data, fitted):
    rows, _, labels, fold = data
    told = label_evidence(labels, CLASSES)
    with pytest.raises(ValueError, match="ridges must be finite and > 0"):
        self_train(rows, told, fold, fitted.classifier, fitted.log_q, ridges=(0.0,), num_folds=FOLDS)
    with pytest.raises(ValueError, match="ridges must hold a number"):
        self_train(rows, told, fold, fitted.classifier, fitted.log_q, ridges=(), num_folds=FOLDS)
    with pytest.raises(ValueError, match="keep must be in"):
        self_train(rows, told, fold, fitted.classifier, fitted.log_q, ridges=(1.0,), num_folds=FOLDS, keep=2.0)
    with pytest.raises(ValueError, match="num_folds must be a whole number >= 2"):
        folds(jax.random.key(0), labels, 1)
