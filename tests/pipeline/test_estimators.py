"""The one-call jobs are few programs, and the estimators do what scikit-learn's do, and what the functions do."""

import jax
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

from ldp_jax import features
from ldp_jax.pipeline import predict_from_counts, predict_from_reports, private_embedding
from ldp_jax.pipeline.estimators import CountClassifier, PrivateEmbedding, ReportClassifier
from tests.pipeline.planted import words

KEY = jax.random.key(0)
CLASSES = np.array(["red", "green", "blue"])
CALLS = ((0, 4.0, 0.3, "list"), (1, 6.0, 0.5, "relationship"))
"""Seed, epsilon, share of labels and unit."""


@pytest.fixture(scope="module")
def data():
    return words()


@pytest.fixture(scope="module")
def embedding(data):
    return PrivateEmbedding(
        features.HDS(16.0, dim=40, k=7), graph=data.graph, records=data, alpha=0.3, r=0.1, key=KEY
    )


def embedded(data, seed, epsilon, share, unit):
    mechanism = features.HDS(epsilon, dim=data.num_features, k=7)
    return private_embedding(jax.random.key(seed), data.graph, data, mechanism, alpha=0.1, r=0.1).z


def counted(data, seed, epsilon, share, unit):
    labels = np.where(np.random.default_rng(0).random(120) < share, data.y, -1)
    found = predict_from_counts(jax.random.key(seed), data.graph, data.x, labels, epsilon, unit=unit)
    assert found.strength > 0  # else the phases that learn from reports are left out
    return found.log_posterior


def reported(data, seed, epsilon, share, unit):
    panel = np.flatnonzero(np.random.default_rng(0).random(120) < share)
    found = predict_from_reports(jax.random.key(seed), data.graph, data.x, panel, data.y[panel], epsilon)
    assert found.strength > 0
    return found.log_posterior


@pytest.mark.parametrize(("job", "most"), [(counted, 17), (embedded, 10), (reported, 21)])
def test_a_job_is_few_programs_and_other_arguments_compile_none(data, job, most):
    """The same for every key, epsilon, share of labels and unit; the estimators below meet the programs again."""
    programs = []

    def listen(event, *_, **__):
        if event == "/jax/core/compile/backend_compile_duration":
            programs.append(event)

    jax.clear_caches()
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        jax.block_until_ready(job(data, *CALLS[0]))
        first = len(programs)
        jax.block_until_ready(job(data, *CALLS[1]))
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert 0 < first <= most
    assert len(programs) == first


TRAIN, TEST = np.arange(0, 120, 2), np.arange(1, 120, 2)


def test_an_embedding_is_a_step_of_a_pipeline(data, embedding):
    model = make_pipeline(clone(embedding), LogisticRegression()).fit(TRAIN, CLASSES[data.y[TRAIN]])
    assert model.score(TEST, CLASSES[data.y[TEST]]) > 0.5
    assert "epsilon 16 per record" in str(model[0].guarantee_)
    assert model[0].transform(TEST[:, None]).shape == (60, 40)
    search = GridSearchCV(model, {"privateembedding__alpha": [0.3, 0.5]}, cv=2).fit(TRAIN, data.y[TRAIN])
    assert set(search.cv_results_["param_privateembedding__alpha"]) == {0.3, 0.5}


def test_the_same_parameters_give_the_same_reports_and_another_epsilon_new_noise(data, embedding):
    first, second = (clone(embedding).fit(TRAIN).embedding_ for _ in range(2))
    np.testing.assert_array_equal(first, second)
    for epsilon in (16.00001, np.full(120, 16.0), np.full(120, 15.9)):  # 0.9998 under one key
        mechanism = features.HDS(epsilon, dim=40, k=7)
        other = clone(embedding).set_params(mechanism=mechanism).fit(TRAIN).embedding_
        assert np.corrcoef(first.ravel(), other.ravel())[0, 1] < 0.5
        first = other


@pytest.mark.parametrize("kind", ["reports", "counts"])
def test_classifiers_name_classes_as_they_were_given(data, kind):
    made = {
        "reports": ReportClassifier(4.0, graph=data.graph, records=data.x, key=KEY),
        "counts": CountClassifier(4.0, graph=data.graph, features=data.x, unit="relationship", key=KEY),
    }[kind]
    model = clone(made).fit(TRAIN, CLASSES[data.y[TRAIN]])
    assert model.classes_.tolist() == ["blue", "green", "red"]
    assert model.score(TEST, CLASSES[data.y[TEST]]) > 0.5
    np.testing.assert_allclose(model.predict_proba(TEST).sum(1), 1.0)
    assert model.guarantee_ == model.result_.guarantee


@pytest.mark.parametrize("kind", [PrivateEmbedding, ReportClassifier, CountClassifier])
def test_checks_of_scikit_learn_that_apply(kind):
    for check in (
        "check_estimator_cloneable", "check_estimator_repr", "check_no_attributes_set_in_init",
        "check_get_params_invariance", "check_set_params", "check_parameters_default_constructible",
    ):  # fmt: skip
        getattr(estimator_checks, check)(kind.__name__, kind())
    with pytest.raises(NotFittedError):
        (kind().transform if kind is PrivateEmbedding else kind().predict)(TEST)


def test_what_does_not_fit_is_refused(data, embedding):
    for made, message in (
        (PrivateEmbedding(), "mechanism and records"),
        (clone(embedding).set_params(key=None), "key must be"),
    ):
        with pytest.raises(ValueError, match=message):
            made.fit(TRAIN)
    classifier = ReportClassifier(graph=data.graph, records=data.x, key=KEY)
    for users, y, fault in (
        ([120], [0], "X must"), ([0.5], [0], "X must"), ([1, 1], [0, 1], "X must"), ([1, 2], [0], "X must"),
        ([1, 2], ["red", None], "y must be classes of one type"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=fault):
            classifier.fit(np.array(users), np.array(y))
