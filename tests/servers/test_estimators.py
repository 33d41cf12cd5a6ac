"""The one-call jobs are few programs, and the estimators do what scikit-learn's do, and what the
functions do.
"""

import jax
import numpy as np
import pandas as pd
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
from ldp_jax.datasets import read_records
from ldp_jax.graph import graphs, interop
from ldp_jax.servers import estimators as estimators_module
from ldp_jax.servers import predict_from_counts, predict_from_reports, private_embedding
from ldp_jax.servers.estimators import CountClassifier, PrivateEmbedding, ReportClassifier
from tests.servers.planted import compiled, words

KEY = jax.random.key(0)
CLASSES = np.array(["red", "green", "blue"])
TRAIN = np.arange(0, 120, 2)
TEST = np.arange(1, 120, 2)


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
        "counts": CountClassifier(
            4.0, graph=data.graph, features=data.x, unit="relationship", key=KEY
        ),
        "embedding": PrivateEmbedding(
            features.HDS(16.0, dim=40, k=7),
            graph=data.graph,
            records=data,
            alpha=0.3,
            r=0.7,
            key=KEY,
        ),
        "reports": ReportClassifier(4.0, graph=data.graph, records=data.x, key=KEY),
    }


@pytest.mark.parametrize(("name", "most"), [("counts", 17), ("embedding", 10), ("reports", 21)])
def test_a_job_is_few_programs_and_other_arguments_compile_none(data, name, most):
    """The same for the function and the estimator, which names classes as they were given."""
    model = clone(estimators(data)[name])
    found = []
    job = lambda: JOBS[name](
        random.fold_in(KEY, np.uint32(1)), data
    )  # a key as the estimators make theirs
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


def test_an_estimator_hands_its_arguments_on(data, monkeypatch):
    made = []

    def embed(*given, **named):
        made.append((given, named))
        return private_embedding(*given, **named)

    monkeypatch.setattr(estimators_module, "private_embedding", embed)
    wide = np.array([0.0, 2.0])
    table = np.asarray(data.x.todense() if hasattr(data.x, "todense") else data.x, np.float32)
    model = clone(estimators(data)["embedding"]).set_params(records=table, bounds=wide).fit(TRAIN)
    (((_, graph, records, mechanism), named),) = made
    assert (named["alpha"], named["r"]) == (0.3, 0.7)
    np.testing.assert_array_equal(named["bounds"], wide)
    np.testing.assert_array_equal(graph.receivers, data.graph.receivers)
    np.testing.assert_array_equal(records, table)
    assert mechanism == features.HDS(16.0, dim=40, k=7)
    np.testing.assert_array_equal(model.transform(TEST), model.embedding_[TEST])


def test_other_public_features_or_another_public_graph_draw_noise_of_their_own(data, monkeypatch):
    """Under one key two groupings, or alphabets, would have one noise: its difference would be
    private data.
    """
    keys = []
    for name in ("predict_from_counts", "predict_from_reports"):
        refused = lambda key, *given, **named: (
            keys.append(jax.random.key_data(key).tolist()) or 1 / 0
        )
        monkeypatch.setattr(f"ldp_jax.servers.estimators.{name}", refused)
    sparse = scipy.sparse.csr_array(data.x)
    y = CLASSES[data.y[TRAIN]]
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


_COLUMNS = "X must be users, integers [m] or [m, 1] in [0, 120)"
_OTHER_X = [
    "check_fit_score_takes_y",
    "check_estimators_overwrite_params",
    "check_dont_overwrite_parameters",
    "check_estimators_fit_returns_self",
    "check_readonly_memmap_input",
    "check_n_features_in_after_fitting",
    "check_estimators_dtypes",
    "check_dtype_object",
    "check_pipeline_consistency",
    "check_estimators_nan_inf",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_transformer_data_not_an_array",
    "check_transformer_general",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_dict_unchanged",
    "check_fit_idempotent",
    "check_fit_check_is_fitted",
    "check_n_features_in",
    "check_fit2d_predict1d",
    "check_fit2d_1sample",
    "check_fit2d_1feature",
    "check_classifier_data_not_an_array",
    "check_classifiers_classes",
    "check_classifiers_train",
    "check_supervised_y_2d",
    "check_transformer_preserve_dtypes",
]
_EXCUSED = dict.fromkeys(
    _OTHER_X, "X are numbers of nodes, and the check makes columns of numbers at random"
) | {
    "check_fit1d": "users [m] are taken as users [m, 1]: the column of a table is no mistake",
    "check_classifiers_one_label": "one class alone leaves nothing to ask: the functions refuse it",
    "check_set_params": "get_params shows private arguments as Hidden, whatever they were set to",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("name", ["counts", "embedding", "reports"])
def test_scikit_learns_own_checks_pass_or_are_excused_by_name(data, name):
    found = estimator_checks.check_estimator(estimators(data)[name], on_fail=None, on_skip=None)
    failed = {
        check["check_name"]: str(check["exception"])
        for check in found
        if check["status"] == "failed"
    }
    assert set(failed) <= set(_EXCUSED)
    assert len(found) > 2 * len(failed) - 10
    for check in set(failed) & set(_OTHER_X):
        assert _COLUMNS in failed[check]
    model = estimators(data)[name]
    with pytest.raises(NotFittedError):
        (model.transform if name == "embedding" else model.predict)(TEST)


@pytest.mark.usefixtures("untyped")
def test_what_those_checks_ask_holds_of_users(data):
    """What is excused above because of its X: one feature, subsets, order, pickles, and arguments
    that stay.
    """
    for name, model in estimators(data).items():
        before = dict(vars(model))
        y = CLASSES[data.y[TRAIN]]
        fitted = model.fit(pd.DataFrame({"user": TRAIN}), y)
        assert fitted is model
        assert (model.n_features_in_, model.feature_names_in_.tolist()) == (1, ["user"])
        assert {
            key: getattr(value, "value", value) is getattr(model, key)
            for key, value in before.items()
        } == dict.fromkeys(before, True)
        model.fit(TRAIN.astype(np.uint32), y)  # of unsigned numbers -1 is out of bounds
        ask = model.transform if name == "embedding" else model.predict_proba
        whole = ask(TEST)
        np.testing.assert_array_equal(ask(TEST[::-1]), whole[::-1])
        np.testing.assert_array_equal(ask(TEST[:7].tolist()), whole[:7])
        np.testing.assert_array_equal(ask(pd.Series(TEST, dtype="Int64")), whole)
        np.testing.assert_array_equal(ask(np.ma.array(TEST[:, None])), whole)
        again = model.fit(TRAIN[:, None], y)
        np.testing.assert_array_equal(
            (again.transform if name == "embedding" else again.predict_proba)(TEST), whole
        )
        with pytest.raises(ValueError, match="X has 2 features, but .* is expecting 1 feature"):
            ask(np.stack([TEST, TEST], 1))


@pytest.mark.usefixtures("untyped")
def test_an_embedding_names_its_columns(data):
    model = estimators(data)["embedding"].set_output(transform="pandas")
    model.fit(pd.DataFrame({"user": TRAIN}))
    names = [f"privateembedding{k}" for k in range(40)]
    assert model.get_feature_names_out().tolist() == names
    table = model.transform(pd.DataFrame({"user": TEST}, index=TEST + 7))
    assert (table.columns.tolist(), table.index.tolist()) == (names, (TEST + 7).tolist())
    assert make_pipeline(model).get_feature_names_out().tolist() == names


@pytest.mark.usefixtures("untyped")
def test_what_scikit_learn_refuses_is_refused_before_anybody_is_asked(data):
    classes = CLASSES[data.y[TRAIN]]
    bad = {
        "contains NaN": np.where(TRAIN == 4, np.nan, TRAIN),
        "contains infinity": np.where(TRAIN == 4, np.inf, 1),
        "Complex data not supported": TRAIN + 0j,
        r"0 sample\(s\)": TRAIN[:0],
        "Negative values": -TRAIN,
        "X must be users": TRAIN + 0.5,
        "Sparse data": scipy.sparse.csr_array(TRAIN[:, None]),
    }
    for name, model in estimators(data).items():
        y = None if name == "embedding" else classes
        for fault, users in bad.items():
            with pytest.raises((ValueError, TypeError), match=fault):
                clone(model).fit(users, y)
        hidden = np.ma.array(TRAIN, mask=TRAIN == 4)
        for users in (hidden, hidden[:, None], pd.Series(TRAIN, dtype="Int64").mask(TRAIN == 4)):
            with pytest.raises(ValueError, match="contains NaN"):
                clone(model).fit(users, y)
        with pytest.raises(
            ValueError, match="fit must have X and y alone, got sample_weight: all users"
        ):
            clone(model).fit(TRAIN, y, sample_weight=np.ones(len(TRAIN)))
        if name == "embedding":
            continue
        for target, fault in (
            (np.linspace(0, 1, len(TRAIN)), "Unknown label type: continuous"),
            (np.linspace(-1, 1, len(TRAIN)), "Unknown label type: continuous"),
            (np.eye(len(TRAIN)), "y should be a 1d array"),
            (None, "requires y to be passed"),
        ):
            with pytest.raises(ValueError, match=fault):
                clone(model).fit(TRAIN, target)


@pytest.mark.usefixtures("untyped")
def test_classes_of_a_table_keep_their_names(data):
    """Of a categorical column the names are the classes, not its codes."""
    y = pd.Series(CLASSES[data.y[TRAIN]])
    model = estimators(data)["counts"]
    plain = clone(model).fit(TRAIN, y.to_numpy())
    found = clone(model).fit(TRAIN, y.astype("category"))
    assert found.classes_.tolist() == ["blue", "green", "red"]
    np.testing.assert_array_equal(found.predict(TEST), plain.predict(TEST))


def test_what_does_not_fit_is_refused(data):
    for made, message in (
        (PrivateEmbedding(), "mechanism and records"),
        (clone(estimators(data)["embedding"]).set_params(key=None), "key must be"),
    ):
        with pytest.raises(ValueError, match=message):
            made.fit(TRAIN)
    classifier = estimators(data)["reports"]
    for users, y, fault in (
        ([120], [0], "X must"),
        ([0.5], [0], "X must"),
        ([1, 1], [0, 1], "X must"),
        ([1, 2], [0], "X must"),
        ([1, 2], ["red", None], "y must be classes of one type"),
        ([1, 2], [-1, 1], "y must not hold -1"),
        ([1, 2], [np.nan, 1], "y must not hold -1 or NaN"),
    ):
        with pytest.raises(ValueError, match=fault):
            classifier.fit(np.array(users), np.array(y))
    for unknown in (
        np.array([0, -1], object),
        np.array([0, np.nan], object),
        np.ma.array([0, 1], mask=[False, True]),
        ["red", "-1"],
        ["red", ""],
    ):
        with pytest.raises(ValueError, match="y must not hold -1 or NaN"):
            classifier.fit(np.array([1, 2]), unknown)


@pytest.mark.usefixtures("untyped")
def test_names_are_users_where_the_graph_has_them(data):
    names = np.array([f"user {node}" for node in range(120)])
    named = interop.NamedGraph(data.graph, names)
    for model in estimators(data).values():
        plain = clone(model).fit(TRAIN, data.y[TRAIN])
        found = clone(model).set_params(graph=named).fit(names[TRAIN], data.y[TRAIN])
        asked = "transform" if isinstance(model, PrivateEmbedding) else "predict_proba"
        expected = getattr(plain, asked)(TEST)
        for users in (names[TEST], names[TEST][:, None], pd.Series(names[TEST])):
            np.testing.assert_array_equal(getattr(found, asked)(users), expected)
        with pytest.raises(ValueError, match="1 are not, such as 'nobody'"):
            getattr(found, asked)(["user 1", "nobody"])


def test_records_of_a_table_have_their_bounds_and_others_are_given_some(data):
    rows = np.random.default_rng(0).uniform(0, 1, (120, 3)).astype(np.float32)
    columns = ("a", "b", "c")
    table = pd.DataFrame(rows, columns=list(columns))
    read = read_records(table, numbers=dict.fromkeys(columns, (0.0, 1.0)))
    given = {"graph": data.graph, "key": jax.random.key(1), "alpha": 1.0}
    mechanism = features.Sampled(features.Piecewise(2.0), dim=3, k=1)
    found = PrivateEmbedding(mechanism, records=read, **given).fit(TRAIN)
    direct = PrivateEmbedding(mechanism, records=2 * read.x - 1, **given).fit(TRAIN)
    np.testing.assert_array_equal(found.embedding_, direct.embedding_)
    assert read.num_features == 3
    bounded = PrivateEmbedding(mechanism, records=rows, bounds=(0.0, 1.0), **given).fit(TRAIN)
    # Other bounds are another question: under one key the difference of reports would be private.
    assert abs(bounded.embedding_ - direct.embedding_).max() > 1.0
    assert bounded.asks()[0] != direct.asks()[0]
