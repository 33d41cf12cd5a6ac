"""The one-call jobs are few programs, and the estimators do what scikit-learn's do, and what the functions do."""

import jax
import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

from ldp_jax import features
from ldp_jax.core import random
from ldp_jax.graph import graphs
from ldp_jax.servers import predict_from_counts, predict_from_reports, private_embedding
from ldp_jax.servers.estimators import CountClassifier, PrivateEmbedding, ReportClassifier
from tests.servers.planted import compiled, words

KEY = jax.random.key(0)
CLASSES = np.array(["red", "green", "blue"])
TRAIN, TEST = np.arange(0, 120, 2), np.arange(1, 120, 2)


@pytest.fixture(scope="module")
def data():
    return words()


def some(data):
    """Labels of three in ten: who has one, and all, -1 for the others."""
    known = np.random.default_rng(0).random(120) < 0.3
    return np.flatnonzero(known), np.where(known, data.y, -1)


JOBS = {
    "counts": lambda key, data: predict_from_counts(key, data.graph, data.x, some(data)[1], 6.0),
    "embedding": lambda key, data: private_embedding(
        key, data.graph, data, features.HDS(6.0, dim=40, k=7), alpha=0.1, r=0.1
    ),
    "reports": lambda key, data: predict_from_reports(
        key, data.graph, data.x, some(data)[0], data.y[some(data)[0]], 6.0
    ),
}


def estimators(data):
    """The same jobs with another key, epsilon, share of labels, unit and alpha."""
    return {
        "counts": CountClassifier(4.0, graph=data.graph, features=data.x, unit="relationship", key=KEY),
        "embedding": PrivateEmbedding(
            features.HDS(16.0, dim=40, k=7), graph=data.graph, records=data, alpha=0.3, r=0.1, key=KEY
        ),
        "reports": ReportClassifier(4.0, graph=data.graph, records=data.x, key=KEY),
    }


@pytest.mark.parametrize(("name", "most"), [("counts", 17), ("embedding", 10), ("reports", 21)])
def test_a_job_is_few_programs_and_other_arguments_compile_none(data, name, most):
    """The same for the function and the estimator, which names classes as they were given."""
    model, found = clone(estimators(data)[name]), []
    job = lambda: JOBS[name](random.fold_in(KEY, np.uint32(1)), data)  # a key as the estimators make theirs
    jax.clear_caches()
    assert 0 < compiled(lambda: found.append(job())) <= most
    assert compiled(lambda: model.fit(TRAIN, CLASSES[data.y[TRAIN]])) == 0
    if name == "embedding":
        return
    assert found[0].strength > 0  # else the phases that learn from reports are left out
    assert model.result_.strength > 0
    assert model.classes_.tolist() == ["blue", "green", "red"]
    assert model.score(TEST, CLASSES[data.y[TEST]]) > 0.5
    np.testing.assert_allclose(model.predict_proba(TEST).sum(1), 1.0)
    assert model.guarantee_ == model.result_.guarantee


def test_an_embedding_is_a_step_of_a_pipeline(data):
    embedding = estimators(data)["embedding"]
    model = make_pipeline(embedding, LogisticRegression())
    search = GridSearchCV(model, {"privateembedding__alpha": [0.3, 0.5]}, cv=2)
    search.fit(TRAIN, CLASSES[data.y[TRAIN]])
    assert set(search.cv_results_["param_privateembedding__alpha"]) == {0.3, 0.5}
    assert search.score(TEST, CLASSES[data.y[TEST]]) > 0.5
    found = search.best_estimator_[0]
    assert "epsilon 16 per record" in str(found.guarantee_)
    assert found.transform(TEST[:, None]).shape == (60, 40)


def test_the_same_parameters_give_the_same_reports_and_another_epsilon_new_noise(data):
    embedding = estimators(data)["embedding"]
    first, second = (clone(embedding).fit(TRAIN).embedding_ for _ in range(2))
    np.testing.assert_array_equal(first, second)
    for epsilon in (16.00001, np.full(120, 16.0), np.full(120, 15.9)):  # 0.9998 under one key
        mechanism = features.HDS(epsilon, dim=40, k=7)
        other = clone(embedding).set_params(mechanism=mechanism).fit(TRAIN).embedding_
        assert np.corrcoef(first.ravel(), other.ravel())[0, 1] < 0.5
        first = other


def test_other_public_features_or_another_public_graph_draw_noise_of_their_own(data, monkeypatch):
    """Under one key two groupings, or alphabets, would have one noise: its difference would be private data."""
    keys = []
    for name in ("predict_from_counts", "predict_from_reports"):
        refused = lambda key, *given, **named: keys.append(jax.random.key_data(key).tolist()) or 1 / 0
        monkeypatch.setattr(f"ldp_jax.servers.estimators.{name}", refused)
    sparse, y = scipy.sparse.csr_array(data.x), CLASSES[data.y[TRAIN]]
    other = graphs.from_edges(data.edges[1:], 120)
    for changes in (
        *({"features": x} for x in (None, sparse, sparse[:, ::-1], 2 * sparse)),
        *({"graph": graph} for graph in (data.graph, other)),
        {"records": np.where(np.arange(120)[:, None] == TRAIN[0], 0.5, sparse.toarray())},
    ):
        model = estimators(data)["counts" if "features" in changes else "reports"]
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                clone(model).set_params(**changes).fit(TRAIN, y)
    assert keys[::2] == keys[1::2]
    assert len({tuple(key) for key in keys}) == 7


@pytest.mark.parametrize("kind", [PrivateEmbedding, ReportClassifier, CountClassifier])
def test_checks_of_scikit_learn_that_apply(kind):
    for check in (
        "check_estimator_cloneable", "check_estimator_repr", "check_no_attributes_set_in_init",
        "check_get_params_invariance", "check_set_params", "check_parameters_default_constructible",
    ):  # fmt: skip
        getattr(estimator_checks, check)(kind.__name__, kind())
    with pytest.raises(NotFittedError):
        (kind().transform if kind is PrivateEmbedding else kind().predict)(TEST)


def test_what_does_not_fit_is_refused(data):
    for made, message in (
        (PrivateEmbedding(), "mechanism and records"),
        (clone(estimators(data)["embedding"]).set_params(key=None), "key must be"),
    ):
        with pytest.raises(ValueError, match=message):
            made.fit(TRAIN)
    classifier = estimators(data)["reports"]
    for users, y, fault in (
        ([120], [0], "X must"), ([0.5], [0], "X must"), ([1, 1], [0, 1], "X must"), ([1, 2], [0], "X must"),
        ([1, 2], ["red", None], "y must be classes of one type"), ([1, 2], [-1, 1], "y must not hold -1"),
        ([1, 2], [np.nan, 1], "y must not hold -1 or NaN"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=fault):
            classifier.fit(np.array(users), np.array(y))
    for unknown in (
        np.array([0, -1], object), np.array([0, np.nan], object), np.ma.array([0, 1], mask=[False, True]),
        ["red", "-1"], ["red", ""],
    ):  # fmt: skip
        with pytest.raises(ValueError, match="y must not hold -1 or NaN"):
            classifier.fit(np.array([1, 2]), unknown)
