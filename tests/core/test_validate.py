"""The one set of checks: which values pass, what a message names, and what it costs to import."""

import math
import warnings
from decimal import Decimal
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow
import pytest
import scipy.sparse

from ldp_jax import (
    Ledger,
    attacks,
    datasets,
    deployment,
    edges,
    features,
    hyperbolic,
    privatize,
    servers,
    verification,
)
from ldp_jax.core import mechanism, validate
from ldp_jax.core.list_ids import host_ids
from ldp_jax.core.spaces import as_records
from ldp_jax.deployment.session import as_numbers
from ldp_jax.features import distribution
from ldp_jax.graph import graphs, interop, propagation
from ldp_jax.learning import label_training, metrics, models, training
from ldp_jax.servers import links
from ldp_jax.servers.parts.device_classifier import device_classifier
from ldp_jax.servers.parts.rows import DenseRows, feature_rows
from ldp_jax.servers.parts.self_training import FoldedLabels


def test_several_keywords_are_checked_and_the_wrong_one_is_named():
    validate.positive(epsilon=1.0, scales=np.ones(3), weight=jnp.float32(2))
    validate.in_range(0.0, 1.0, alpha=0.1, r=1)
    validate.integer_in(1, 4, k=1, dim=np.int64(4))
    validate.one_of(("a", "b"), first="a", second="b")
    for check, words in (
        (
            lambda: validate.positive(epsilon=1.0, delta=0.0),
            r"delta must be finite and > 0, got 0\.0",
        ),
        (
            lambda: validate.in_range(0.0, 1.0, alpha=0.5, r=1.5),
            r"r must be in \[0\.0, 1\.0\], got 1\.5",
        ),
        (
            lambda: validate.in_range(0.0, 1.0, alpha=10**400),
            "alpha must be a real number, got one beyond float64",
        ),
        (
            lambda: validate.in_range(0.0, 1.0, alpha=10**30),
            r"alpha must be in \[0\.0, 1\.0\], got 1e\+30",
        ),
        (
            lambda: validate.integer_in(1, 4, k=2, dim=5),
            r"dim must be a whole number in \[1, 4\], got 5",
        ),
        (
            lambda: validate.one_of(("a", "b"), first="a", second="c"),
            "second must be one of a, b; got 'c'",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            check()


def test_tracers_pass_in_silence():
    @jax.jit
    def checked(epsilon):
        assert not validate.concrete(epsilon)
        validate.positive(epsilon=epsilon, also=epsilon)
        validate.in_range(0.0, 1.0, epsilon=epsilon)
        return epsilon

    assert checked(-1.0) == -1.0
    assert validate.concrete(jnp.ones(2))
    with pytest.raises(ValueError, match="one concrete number"):
        jax.jit(lambda delta: validate.number(0.0, delta=delta))(0.5)


def test_numbers_of_every_kind_are_python_floats_and_others_are_refused():
    for value in (1, 1.0, np.float32(1), np.int64(1), np.array(1.0), Fraction(1), Decimal(1)):
        assert type(validate.number(0.0, 1.0, x=value)) is float
    for value in (
        *(None, True, np.True_, np.array(True), "1", b"1", 1j, [1.0], np.ones(2)),
        *(math.nan, math.inf, -1.0, 10**400),
    ):
        with pytest.raises(ValueError, match="x must be"):
            validate.number(0.0, x=value)
    for options, value in (({"open_lower": True}, 0.0), ({"open_upper": True}, 1.0)):
        assert validate.number(0.0, 1.0, x=value) == value
        with pytest.raises(ValueError, match=r"x must be in [\[(]0, 1[\])], got"):
            validate.number(0.0, 1.0, **options, x=value)


def test_what_is_no_count_is_refused():
    for value in (0, 5, True, np.True_, 2.0, np.float32(2), "2", None, [2], Fraction(2), 10**5000):
        with pytest.raises(ValueError, match=r"k must be a whole number in \[1, 4\], got"):
            validate.whole(1, 4, k=value)
    assert type(validate.whole(1, 4, k=np.uint8(3))) is int


def test_pairs_are_integers_of_two_columns_and_in_range():
    found = validate.pairs(4, edges=np.array([[0, 3]], np.uint8))
    assert (found.dtype, found.tolist()) == (np.int64, [[0, 3]])
    for nobody in ([], np.zeros((0, 2)), np.zeros((2, 0), int)):
        assert validate.pairs(4, edges=nobody).shape == (0, 2)
    for pairs, words in (
        ([0, 1], r"edges must be integers \[m, 2\], got int64 of shape \(2,\)"),
        ([[0, 1, 2]], r"of shape \(1, 3\)"),
        ([[0.0, 1.0]], "got float64"),
        ([[True, False]], "got bool"),
        ([[0, 1], [2, 4]], r"edges must be in \[0, 4\), the nodes, got 4 at place 1, 1"),
        ([[0, -1]], "got -1 at place 0, 1"),
    ):
        with pytest.raises(ValueError, match=words):
            validate.pairs(4, "the nodes", edges=pairs)


INVALID = 1j, np.complex64(1), np.array(1j), "1", np.array("1"), b"1", [1j, 1], None, 10**400
TAKES = {
    "HDS": lambda number: features.HDS(number, dim=4, k=1),
    "clip": lambda number: hyperbolic.HyperbolicGaussian(1.0, 1e-5, number),
    "delta": lambda number: hyperbolic.HyperbolicGaussian(1.0, number),
    "adam": training.adam,
    "Settings": lambda number: training.Settings(training.adam(0.1), 1, number),
    "JointPrivacy": lambda number: servers.JointPrivacy(number, 0.0),
    "Question": lambda number: deployment.Question(0, [0, 1], num_groups=2, epsilon=number),
}


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("name", TAKES)
def test_parameters_that_are_no_real_numbers_are_refused_in_a_sentence(name):
    for number in INVALID[
        : -1 if name == "Settings" else None
    ]:  # a batch of any size is a batch of all
        with pytest.raises(ValueError, match=r"\b(must be|needs a)\b") as refused:
            TAKES[name](number)
        assert len(str(refused.value)) < 300


def test_booleans_are_no_classes():
    assert validate.labels([True, None]).dtype.kind == "O"


@pytest.mark.usefixtures("untyped")
def test_an_empty_training_set_is_refused():
    key = jax.random.key(0)
    settings = training.Settings(training.adam(0.1), 1, 1)
    none, one = (training.Examples(np.zeros(n, np.int32), np.zeros(n, np.int32)) for n in (0, 1))
    noisy = label_training.noisy_examples(features.GeneralizedRR(1.0, 2), none.index, none.label)
    node = training.node_classification
    model = models.mlp(1, 2, 2)
    x = np.ones((1, 2), np.float32)
    runs = jax.tree.map(lambda leaf: leaf[None], (x, none, one, one))
    for call in (
        lambda: training.fit(key, model, node, x, none, one, one, settings),
        lambda: training.fit(
            key, model, label_training.noisy_node_classification, x, noisy, one, one, settings
        ),
        lambda: training.fit_many(jax.random.split(key, 1), model, node, *runs, settings),
        lambda: device_classifier(
            DenseRows(jnp.ones((0, 2))), FoldedLabels(none.label, 2, none.index, 2)
        ),
    ):
        with pytest.raises(ValueError, match="must (hold|be of) at least one"):
            call()


@pytest.mark.usefixtures("untyped")
def test_an_array_of_keys_is_not_a_key():
    keys = jax.random.split(jax.random.key(0), 3)
    one = r"key must be one key, got keys of shape \(3,\): use jax.vmap, with a key for each"
    model = models.mlp(1, 2, 2)
    part = training.Examples(np.zeros(1, np.int32), np.zeros(1, np.int32))
    given = (model, training.node_classification, np.ones((1, 2), np.float32), part, part, part)
    settings = training.Settings(training.adam(0.1), 1, 1)
    for call in (
        lambda: mechanism.privatize(keys, features.Laplace(1.0), np.zeros(3)),
        lambda: features.Laplace(1.0).privatize(keys, 0.0),
        lambda: features.HDS(1.0, dim=4, k=1).privatize(keys, np.zeros(4)),
        lambda: training.fit(keys, *given, settings),
    ):
        with pytest.raises(ValueError, match=one):
            call()
    with pytest.raises(
        ValueError, match=r"key must be an array of keys \[runs\], got keys of shape \(\)"
    ):
        training.fit_many(jax.random.key(0), *given, settings)


def test_what_is_masked_is_unknown():
    """NumPy's asarray would show it."""
    labels = np.ma.array([1, 2, 0], mask=[False, True, False])
    assert validate.labels(labels).tolist() == [1, -1, 0]
    x = np.ma.array([0.5, 1.0], mask=[False, True])
    np.testing.assert_array_equal(as_records(x), [0.5, np.nan])
    np.testing.assert_array_equal(as_numbers(x), [0.5, np.nan])
    assert host_ids(labels.astype(object), 3).tolist() == host_ids(labels, 3).tolist() == [1, 0]
    with pytest.raises(ValueError, match="features must be finite"):
        feature_rows(x[None])
    assert np.isnan(metrics.mean_interval(x).mean)
    assert distribution.histogram(x, [0.0, 0.75, 1.5]).tolist() == [1, 0]
    asked = attacks.Targets(np.arange(6).reshape(3, 2), np.array([True, False, False]))
    with pytest.raises(ValueError, match="scores of any must be numbers, got NaN for 1"):
        attacks.evaluate("any", np.ma.array([1.0, 2.0, 3.0], mask=[True, False, False]), asked)


_ABSENT = [
    np.ma.array([1, 2, 3], mask=[False, True, False]),
    np.ma.array([1, 2, 3], mask=[False, True, False]).astype(object),
    pd.Series([1, None, 3], dtype="Int64"),
    pd.Series([1, None, 3], dtype="Float64"),
    pd.Series([1, None, 3], dtype="int64[pyarrow]"),
    pd.Series([1, pd.NA, 3], dtype=object),
    pyarrow.array([1, None, 3]),
    pyarrow.chunked_array([[1, None], [3]]),
]


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    "given", _ABSENT, ids=lambda given: f"{type(given).__name__}-{getattr(given, 'dtype', '')}"
)
def test_what_is_absent_from_any_container_is_nan_among_records_and_refused_among_ids(given):
    for read in (as_records, as_numbers):
        np.testing.assert_array_equal(read(given), [1.0, np.nan, 3.0])
    assert validate.labels(given).tolist() == [1, -1, 3]
    for check in (
        lambda: validate.complete(nodes=given),
        lambda: validate.ids(9, nodes=given),
        lambda: validate.known(np.ones(3, int), given),
    ):
        with pytest.raises(
            ValueError, match="must all be there, and some are masked, missing or NaN"
        ):
            check()
    with pytest.raises(ValueError, match="scale must be "):
        validate.positive(scale=given)


@pytest.mark.usefixtures("untyped")
def test_masks_of_users_are_whole():
    for given in (
        np.ma.array([True, False], mask=[False, True]),
        pd.array([True, None], "boolean"),
    ):
        with pytest.raises(ValueError, match="asked must all be there"):
            validate.mask(2, asked=given)


@pytest.mark.usefixtures("untyped")
def test_no_entry_reads_past_a_mask():
    """Each takes the whole array, and refuses the masked one or takes it for absent."""
    graph = graphs.from_edges([[0, 1], [1, 2]], num_nodes=3)
    key = lambda: jax.random.key(0)
    asked = np.array([True, False, False])
    x = np.eye(3, 2)
    nodes = training.Examples(np.array([0, 1]), np.array([0, 1]))
    ids = np.array([0, 1, 2])
    hide = lambda array: np.ma.array(array, mask=np.arange(array.size).reshape(array.shape) == 1)
    settings = training.Settings(training.adam(0.1), epochs=1, batch_size=2)
    fit = lambda x, part: training.fit(
        key(), models.linear(2), training.node_classification, x, part, nodes, nodes, settings
    )
    for refused in (
        lambda: fit(hide(np.float32(x)), nodes),
        lambda: fit(np.float32(x), nodes._replace(label=hide(np.array([0, 1])))),
        lambda: attacks.all_pairs(hide(ids), [[0, 1]]),
        lambda: attacks.evaluate(
            "any", ids, attacks.Targets(np.stack([ids, ids[::-1]], 1), hide(asked))
        ),
        lambda: attacks.poisoning.harm("any", x[:, 0], x[:, 0], hide(asked)),
        lambda: deployment.Question(0, hide(ids), 3, 1.0),
        lambda: deployment.alphabets(hide(np.full((2, 2), 0.5)), epsilon=1.0),
        lambda: deployment.ownership(hide(x[:, 0])),
        lambda: deployment.ownership(x[:, 0], hide(asked)),
        lambda: datasets.Dataset(
            "mine", graph, x, [0, 1], 0, 1, node_graph=hide(np.array([0, 0, 1]))
        ),
        lambda: servers.predict_from_reports(key(), graph, x, hide(ids[:2]), ids[:2], 1.0),
        lambda: servers.predict_from_reports(key(), graph, x, ids[:2], hide(ids[:2]), 1.0),
        lambda: servers.predict_from_counts(key(), graph, x, [0, 1, -1], 1.0, silent=hide(asked)),
        lambda: servers.count_facts(
            key(), x, np.array([0, 1, -1]), num_classes=2, silent=hide(asked)
        ),
        lambda: servers.worlds.measures.homophily(hide(np.array([[0, 1], [1, 2]])), ids),
    ):
        with pytest.raises(ValueError, match=r"masked|finite|must name|\[0, 2\^31\)"):
            refused()
    assert np.isnan(servers.non_private_embedding(graph, hide(x), alpha=0.5, r=0.5)).any()
    hds = features.HDS(9.0, dim=2, k=2)
    centred = np.where(hide(x).mask, 0.0, x)
    hidden, expected = (servers.perturb(key(), records, hds) for records in (hide(x), centred))
    jax.tree.map(np.testing.assert_array_equal, hidden, expected)


@pytest.mark.usefixtures("untyped")
def test_whole_containers_are_read_as_they_are():
    for given in (
        np.ma.array([1, 2, 3]), pd.Series([1, 2, 3], dtype="Int64"), pyarrow.array([1, 2, 3]), np.array([1, 2, 3]),
    ):  # fmt: skip
        assert (
            validate.complete(nodes=given).tolist() == validate.labels(given).tolist() == [1, 2, 3]
        )
        assert as_records(given).tolist() == as_numbers(given).tolist() == [1.0, 2.0, 3.0]
    device = jnp.ones(3)
    assert validate.unmasked(device) is device
    table = pd.DataFrame({"a": pd.Series([1, None], dtype="Int64"), "b": [0.5, 1.0]})
    for both in (table, pyarrow.Table.from_pandas(table)):
        np.testing.assert_array_equal(as_records(both), [[1.0, 0.5], [np.nan, 1.0]])


@pytest.mark.usefixtures("untyped")
def test_categories_are_refused_since_codes_and_values_differ():
    """Of the categories 5 and 7 the codes are 0 and 1."""
    column = pd.Series([5, 7]).astype("category")
    for given in (
        column,
        column.array,
        pd.DataFrame({"a": column}),
        pyarrow.array([5, 7]).dictionary_encode(),
    ):
        for read in (as_records, as_numbers):
            with pytest.raises(TypeError, match="records must be numbers, got categories: astype"):
                read(given)
        for check in (validate.labels, lambda given: validate.ids(9, labels=given)):
            with pytest.raises(
                ValueError, match="labels must be .*numbers, got categories: astype"
            ):
                check(given)
    with pytest.raises(
        ValueError, match="'a' must hold numbers, and holds categories: declare it among"
    ):
        datasets.read_records(pd.DataFrame({"a": column}), numbers={"a": (0, 9)})


@pytest.mark.usefixtures("untyped")
def test_masked_numbers_in_a_list_are_refused_and_not_shown():
    """NumPy would warn and read NaN, or read what a mask hides."""
    hidden = np.ma.array(0.125, mask=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (
            [np.ma.masked, 0.125],
            (0.125, hidden),
            [[0.125, np.ma.masked]],
            [np.ma.array([0.125, 1.0])],
        ):
            for read in (as_records, as_numbers):
                with pytest.raises(TypeError, match="got a list with what NumPy masks") as caught:
                    read(x)
                assert "0.125" not in str(caught.value)


@pytest.mark.usefixtures("untyped")
def test_rows_of_a_table_by_name_are_refused_and_those_by_number_are_taken():
    graph = graphs.from_edges([[0, 1], [1, 2]], num_nodes=3)
    hds = features.HDS(1.0, dim=2, k=1)
    table = pd.DataFrame(np.eye(3, 2))
    for take in (
        lambda x: servers.private_embedding(jax.random.key(0), graph, x, hds, alpha=0.5, r=0.5).z,
        lambda x: feature_rows(x).value,
        lambda x: datasets.Dataset("mine", graph, x, np.zeros(3, int), 0.0, 1.0).x,
    ):
        np.testing.assert_array_equal(take(table), take(table.to_numpy()))
        for index in (["ana", "bo", "cy"], [2, 0, 1]):
            with pytest.raises(
                ValueError, match=r"in the order of nodes.*finds rows by name, to_numpy\(\)"
            ):
                take(table.set_axis(index))


@pytest.mark.usefixtures("untyped")
def test_labels_of_nodes_by_name_are_refused_and_those_of_a_panel_taken():
    """A panel's stand beside it, whatever their names are."""
    graph = graphs.from_edges([[0, 1], [1, 2]], num_nodes=3)
    labels = pd.Series([1.0, 0.0, np.nan])
    for take in (
        validate.node_labels,
        lambda y: datasets.Dataset("mine", graph, np.eye(3, 2), y, 0.0, 1.0).y,
        lambda y: servers.worlds.measures.homophily([[0, 1]], y),
    ):
        np.testing.assert_array_equal(take(labels), take(labels.to_numpy()))
        for index in (["ana", "bo", "cy"], [2, 0, 1]):
            with pytest.raises(
                ValueError, match=r"labels must be in the order of nodes.*Series.*reindex\(names\)"
            ):
                take(labels.set_axis(index))
    named = labels.set_axis(["ana", "bo", "cy"])
    assert validate.node_labels(named.reindex(["cy", "ana", "bo"]).to_numpy()).tolist() == [
        -1,
        1,
        0,
    ]
    assert validate.labels(pd.Series([1, pd.NA], dtype=object)).tolist() == [1, -1]
    assert validate.labels(labels[[1, 0]]).tolist() == [0, 1]


@pytest.mark.usefixtures("untyped")
def test_complex_numbers_are_none_even_as_objects():
    """Casts keep the real part and warn at most, and a warning is no refusal."""
    graph = graphs.from_edges([[0, 1]], 2)
    table = {"numbers": {"a": (0, 1)}}
    for one in (np.complex128(1 + 1j), np.complex64(1 + 1j), 1 + 0j):
        x = np.array([[one], [0.5]], object)
        for read in (
            as_records,
            as_numbers,
            feature_rows,
            lambda x: datasets.Dataset("mine", graph, x, [0, 1], 0, 1),
            lambda x: datasets.read_records(pd.DataFrame(x, columns=["a"]), **table),
            lambda x: validate.numbers(scores=x),
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with pytest.raises((TypeError, ValueError), match="must be real|must hold numbers"):
                    read(x)
        assert validate.labels(x.ravel()).dtype == object


def test_times_are_no_records():
    """NumPy takes them for integers: a day is 1, 24 or 86 400."""
    for read in (as_records, as_numbers):
        with pytest.raises(TypeError, match="records must be real numbers"):
            read(np.array([1, 2], "timedelta64[D]"))


def _mistaken():
    """Calls that a newcomer makes, and what the error says."""
    key = jax.random.key(0)
    graph = graphs.from_edges([[0, 1], [1, 2]], 3)
    noisy = edges.privatize_graph(key, graph, edges.RandomizedResponse(1.0))
    nodes = jnp.zeros((3, 2))
    table = features.GeneralizedRR(1.0, 4).table()
    settings = training.Settings(training.adam(0.01), epochs=1, batch_size=2)
    mask = training.Examples(np.array([True, False, True]), np.zeros(3, int))
    fit = lambda: training.fit(
        key, models.linear(2), training.node_classification, nodes, mask, mask, mask, settings
    )
    records = datasets.Records(np.zeros((3, 1), np.float32), ("age",), np.arange(3))
    counted = edges.privatize_counts(key, graph, edges.NeighbourCounts(1.0, 1), np.zeros(3, int))
    lists = servers.count_facts(
        jax.random.key(4), None, np.array([0, 1, -1]), num_classes=2, num_folds=2
    )

    def embed(x, made=features.Laplace):
        return servers.private_embedding(key, graph, x, made, alpha=0.1, r=0.1)

    def panelled(panel, labels=(0, 1)):
        return servers.predict_from_reports(
            key, graph, np.ones((3, 1)), panel, np.array(labels), 1.0
        )

    plain = type(
        "Plain",
        (),
        dict.fromkeys(("privatize", "guarantee", "domain", "codomain", "estimate"), print),
    )
    return [
        (lambda: propagation.operator(noisy), "give its attribute graph"),
        (
            lambda: propagation.ppr(graph, scipy.sparse.eye_array(3, format="csr"), 0.1, 0.5),
            r"give x.toarray\(\)",
        ),
        (fit, r"np.flatnonzero\(mask\)"),
        (lambda: deployment.decode("00", table), "data must be bytes, got str"),
        (lambda: type(table).from_bytes("00"), "data must be bytes, got str"),
        (lambda: verification.check(plain(), key), "decorate Plain with"),
        (
            lambda: servers.rehearse(key, graph, 1.0),
            "got GraphsTuple: docs/choosing.md has an example",
        ),
        (
            lambda: servers.rehearse(key, lists, friends=(4, 0.5)),
            r"friends must be StatedFriends.*, got tuple",
        ),
        (
            lambda: links.link_scores(counted, np.zeros(3, int), [[0, 1]], 1.0),
            "got NoisyCounts: give its counts",
        ),
        (lambda: embed(records), "got Records: give its x, with its bounds"),
        (lambda: embed(np.zeros((3, 1)), features.HDS), r"as HDS\(\.\.\.\), got the function"),
        (
            lambda: privatize(jax.random.key(2), features.Laplace(1.0), 0.3),
            r"mechanism.privatize\(key, x\) is of one user",
        ),
        (
            lambda: privatize(jax.random.key(1), features.Laplace(1.0), scipy.sparse.eye_array(3)),
            "got dia_array",
        ),
        (lambda: panelled(np.array([True, False, True])), r"np.flatnonzero\(panel\)"),
        (lambda: panelled([0, 1], [True, False]), r"labels.astype\(int\)"),
        (
            lambda: panelled(["ana"], [0]),
            r"pandas.Index\(names\).get_indexer\(panel\) finds those of names",
        ),
        (
            lambda: jax.vmap(
                lambda one: servers.predict_from_counts(one, graph, None, [0, 1, -1], 1.0).classes
            )(jax.random.split(key)),
            "key must be concrete: predict_from_counts is called in a Python loop, outside jit",
        ),
        (
            lambda: panelled([0, 1], [1, 2]),
            "got none of class 0: give num_classes=3 if it exists, else number",
        ),
        (lambda: graphs.as_graph(np.eye(3)), "csr_array of an adjacency matrix"),
        (
            lambda: interop.read([("ana", "bo")], nodes=["ana", "bo"]),
            r"of names give pandas.DataFrame\(it\)",
        ),
        (
            lambda: datasets.read_records({"age": [1]}, numbers={"age": (0, 9)}),
            "must be a pandas.DataFrame, .* got dict",
        ),
        (lambda: Ledger(1.0).spend("age", features.Laplace(1.0)), "got method: call it"),
        (
            lambda: servers.predict_jointly(
                key, graph, np.ones((3, 1)), [0], [0], 3.0, num_classes=2
            ),
            r"privacy must be JointPrivacy\(record=..., list=...\), got float",
        ),
        (
            lambda: edges.curator.release(key, graph, edges.curator.EdgeRand(1.0)),
            "split must be an EdgeSplit",
        ),
        (
            lambda: noisy.guarantee["record"],
            "unit must be a Unit such as .*RECORD of neighbour-list",
        ),
    ]


@pytest.mark.usefixtures("untyped")
def test_a_mistake_is_answered_by_what_to_do():
    for call, words in _mistaken():
        with pytest.raises((ValueError, TypeError, KeyError), match=words):
            call()
