"""The one set of checks: which values pass, which argument is named, and what is read as absent."""

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

from ldp_jax import attacks, datasets, deployment, features, privatize, servers
from ldp_jax.core import validate
from ldp_jax.core.list_ids import host_ids
from ldp_jax.core.spaces import as_records
from ldp_jax.deployment.session import as_numbers
from ldp_jax.features import distribution
from ldp_jax.graph import graphs
from ldp_jax.learning import metrics, models, training
from ldp_jax.servers.parts.rows import feature_rows

pytestmark = pytest.mark.usefixtures("untyped")
KEYS = jax.random.split(jax.random.key(0), 3)
KEY = jax.random.key(1)
HIDE = lambda array: np.ma.array(array, mask=np.arange(array.size).reshape(array.shape) == 1)
READERS = (as_records, as_numbers)

REFUSED = [
    (validate.positive, (), {"epsilon": 1.0, "delta": 0.0}, r"delta must be finite and > 0"),
    (validate.in_range, (0.0, 1.0), {"alpha": 0.5, "r": 1.5}, r"r must be in \[0\.0, 1\.0\]"),
    (validate.in_range, (0.0, 1.0), {"alpha": 10**400}, "alpha must be"),
    (validate.in_range, (0.0, 1.0), {"alpha": 10**30}, "alpha must be in"),
    (validate.integer_in, (1, 4), {"k": 2, "dim": 5}, r"dim must be a whole number in \[1, 4\]"),
    (validate.one_of, (("a", "b"),), {"first": "a", "second": "c"}, "second must be one of a, b"),
    *(
        (validate.whole, (1, 4), {"k": bad}, "k must be a whole number in")
        for bad in (0, 5, True, np.True_, 2.0, np.float32(2), "2", None, [2])
    ),
    *(
        (validate.number, (0.0,), {"x": bad}, "x must be")
        for bad in (None, True, np.True_, np.array(True), "1", b"1", 1j, [1.0], np.ones(2))
    ),
    *((validate.number, (0.0,), {"x": bad}, "x must be") for bad in (math.nan, -1.0, 10**400)),
    *(
        (validate.pairs, (4, "the nodes"), {"edges": bad}, r"edges must be integers \[m, 2\]")
        for bad in ([0, 1], [[0, 1, 2]], [[0.0, 1.0]], [[True, False]])
    ),
    (validate.pairs, (4,), {"edges": [[0, 1], [2, 4]]}, "edges must be in .* 4 at place 1, 1"),
    (validate.pairs, (4,), {"edges": [[0, 0], [1, 2]]}, r"a pair a row, .*: give edges\.T"),
    (validate.pairs, (4,), {"edges": [[0, -1]]}, "edges must be in .* got -1 at place 0, 1"),
    (validate.mask, (2,), {"asked": np.ma.array([True, False], mask=[0, 1])}, "asked must all be"),
    (validate.mask, (2,), {"asked": pd.array([True, None], "boolean")}, "asked must all be there"),
    (privatize, (KEYS, features.Laplace(1.0), np.zeros(3)), {}, "key must be one key"),
    (features.Laplace(1.0).privatize, (KEYS, 0.0), {}, "key must be one key"),
    (validate.threefry, (KEY, 1), {}, "key must be an array of keys"),
    (privatize, (KEY, features.Laplace(1.0), 0.3), {}, r"x must be records"),
]


@pytest.mark.parametrize(("check", "args", "kwargs", "words"), REFUSED)
def test_the_wrong_argument_is_named(check, args, kwargs, words):
    with pytest.raises(ValueError, match=words) as refused:
        check(*args, **kwargs)
    assert len(str(refused.value)) < 300


def test_a_number_that_python_does_not_print_is_refused():
    with pytest.raises(ValueError, match="k must be a whole number in"):
        validate.whole(1, 4, k=10**5000)


def test_what_fits_passes():
    validate.positive(epsilon=1.0, scales=np.ones(3), weight=jnp.float32(2))
    validate.in_range(0.0, 1.0, alpha=0.1, r=1)
    validate.integer_in(1, 4, k=1, dim=np.int64(4))
    for value in (1, 1.0, np.float32(1), np.int64(1), np.array(1.0), Fraction(1), Decimal(1)):
        assert type(validate.number(0.0, 1.0, x=value)) is float
    for options, value in (({"open_lower": True}, 0.0), ({"open_upper": True}, 1.0)):
        assert validate.number(0.0, 1.0, x=value) == value
        with pytest.raises(ValueError, match="x must be in"):
            validate.number(0.0, 1.0, **options, x=value)
    assert type(validate.whole(1, 4, k=np.uint8(3))) is int
    found = validate.pairs(4, edges=np.array([[0, 3]], np.uint8))
    assert (found.dtype, found.tolist()) == (np.int64, [[0, 3]])
    for nobody in ([], np.zeros((0, 2)), np.zeros((2, 0), int)):
        assert validate.pairs(4, edges=nobody).shape == (0, 2)


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


def test_what_is_masked_is_unknown():
    """NumPy's asarray would show it."""
    labels = np.ma.array([1, 2, 0], mask=[False, True, False])
    assert validate.labels(labels).tolist() == [1, -1, 0]
    assert validate.labels([True, None]).dtype.kind == "O"  # booleans are no classes
    assert host_ids(labels.astype(object), 3).tolist() == host_ids(labels, 3).tolist() == [1, 0]
    x = HIDE(np.array([0.5, 1.0]))
    with pytest.raises(ValueError, match="features must be finite"):
        feature_rows(x[None])
    assert np.isnan(metrics.mean_interval(x).mean)
    assert distribution.histogram(x, [0.0, 0.75, 1.5]).tolist() == [1, 0]


_MASKED = HIDE(np.array([1, 2, 3]))
_ABSENT = [
    _MASKED,
    _MASKED.astype(object),
    *(pd.Series([1, None, 3], dtype=kind) for kind in ("Int64", "Float64", "int64[pyarrow]")),
    pd.Series([1, pd.NA, 3], dtype=object),
    pyarrow.array([1, None, 3]),
    pyarrow.chunked_array([[1, None], [3]]),
]


@pytest.mark.parametrize("given", _ABSENT, ids=lambda given: type(given).__name__)
def test_what_is_absent_from_any_container_is_nan_among_records_and_refused_among_ids(given):
    for read in READERS:
        np.testing.assert_array_equal(read(given), [1.0, np.nan, 3.0])
    assert validate.labels(given).tolist() == [1, -1, 3]
    for check in (
        lambda: validate.complete(nodes=given),
        lambda: validate.ids(9, nodes=given),
        lambda: validate.known(np.ones(3, int), given),
    ):
        with pytest.raises(ValueError, match="must all be there"):
            check()
    with pytest.raises(ValueError, match="scale must be "):
        validate.positive(scale=given)


def _entries():
    """Calls that are given a masked array, each in another argument."""
    graph = graphs.from_edges([[0, 1], [1, 2]], num_nodes=3)
    key = jax.random.key(0)
    asked = HIDE(np.array([True, False, False]))
    x = np.float32(np.eye(3, 2))
    ids = np.array([0, 1, 2])
    nodes = training.Examples(ids[:2], ids[:2])
    settings = training.Settings(training.adam(0.1), epochs=1, batch_size=2)
    task = (models.linear(2), training.node_classification)
    fit = lambda x, part: training.fit(key, *task, x, part, nodes, nodes, settings)
    predict = lambda *panel: servers.predict_from_reports(key, graph, x, *panel, 1.0)
    labels = np.array([0, 1, -1])
    return {
        "fit": lambda: fit(HIDE(x), nodes),
        "fit labels": lambda: fit(x, nodes._replace(label=HIDE(ids[:2]))),
        "all_pairs": lambda: attacks.all_pairs(HIDE(ids), [[0, 1]]),
        "evaluate": lambda: attacks.evaluate("any", HIDE(ids), attacks.Targets(x, asked)),
        "harm": lambda: attacks.poisoning.harm("any", x[:, 0], x[:, 0], asked),
        "Question": lambda: deployment.Question(0, HIDE(ids), 3, 1.0),
        "alphabets": lambda: deployment.alphabets(HIDE(np.full((2, 2), 0.5)), epsilon=1.0),
        "ownership": lambda: deployment.ownership(HIDE(x[:, 0])),
        "silent": lambda: deployment.ownership(x[:, 0], asked),
        "Dataset": lambda: datasets.Dataset("mine", graph, x, ids, 0, 1, node_graph=HIDE(ids)),
        "panel": lambda: predict(HIDE(ids[:2]), ids[:2]),
        "panel labels": lambda: predict(ids[:2], HIDE(ids[:2])),
        "counts": lambda: servers.predict_from_counts(key, graph, x, labels, 1.0, silent=asked),
        "facts": lambda: servers.count_facts(key, x, labels, num_classes=2, silent=asked),
        "homophily": lambda: servers.rehearsal.homophily(HIDE(np.array([[0, 1], [1, 2]])), ids),
    }


@pytest.mark.parametrize("name", _entries())
def test_no_entry_reads_past_a_mask(name):
    with pytest.raises(ValueError, match=r"masked|finite|must name|\[0, 2\^31\)|NaN|must be"):
        _entries()[name]()


def test_masked_records_are_centred():
    x = np.eye(3, 2)
    graph = graphs.from_edges([[0, 1], [1, 2]], num_nodes=3)
    assert np.isnan(servers.non_private_embedding(graph, HIDE(x), alpha=0.5, r=0.5)).any()
    hds = features.HDS(9.0, dim=2, k=2)
    centred = np.where(HIDE(x).mask, 0.0, x)
    hidden, expected = (
        servers.perturb(jax.random.key(0), given, hds) for given in (HIDE(x), centred)
    )
    jax.tree.map(np.testing.assert_array_equal, hidden, expected)


def test_whole_containers_are_read_as_they_are():
    whole = np.array([1, 2, 3])
    for given in (np.ma.array(whole), pd.Series(whole, dtype="Int64"), pyarrow.array(whole), whole):
        for read in (lambda given: validate.complete(nodes=given), validate.labels, *READERS):
            np.testing.assert_array_equal(read(given), whole)
    device = jnp.ones(3)
    assert validate.unmasked(device) is device
    nested = np.array([np.arange(2), None, math.nan, "a"], object)
    for one in (np.float32(1.5), np.ones(2), 1.5):
        assert validate.unmasked(one) is one
    assert [type(one) for one in validate.unmasked(nested)] == [np.ndarray, type(None), float, str]
    table = pd.DataFrame({"a": pd.Series([1, None], dtype="Int64"), "b": [0.5, 1.0]})
    for both in (table, pyarrow.Table.from_pandas(table)):
        np.testing.assert_array_equal(as_records(both), [[1.0, 0.5], [np.nan, 1.0]])


def test_categories_are_refused_since_codes_and_values_differ():
    """Of the categories 5 and 7 the codes are 0 and 1."""
    column = pd.Series([5, 7]).astype("category")
    encoded = pyarrow.array([5, 7]).dictionary_encode()
    for given in (column, column.array, pd.DataFrame({"a": column}), encoded):
        for read in (*READERS, validate.labels, lambda given: validate.ids(9, labels=given)):
            with pytest.raises((TypeError, ValueError), match="got categories"):
                read(given)


def test_masked_numbers_in_a_list_are_refused_and_not_shown():
    """NumPy would warn and read NaN, or read what a mask hides."""
    hidden = np.ma.array(0.125, mask=True)
    wrong = [np.ma.masked, 0.125], (0.125, hidden), [[0.125, np.ma.masked]], [np.ma.array([0.125])]
    for x in wrong:
        for read in READERS:
            with pytest.raises(TypeError, match="got a list") as caught:
                read(x)
            assert "0.125" not in str(caught.value)


NAMED = (["ana", "bo", "cy"], [2, 0, 1])
GRAPH = graphs.from_edges([[0, 1], [1, 2]], num_nodes=3)
ROWS = pd.DataFrame(np.eye(3, 2))
LABELS = pd.Series([1.0, 0.0, np.nan])


def embedded(x):
    hds = features.HDS(1.0, dim=2, k=1)
    return servers.private_embedding(jax.random.key(0), GRAPH, x, hds, alpha=0.5, r=0.5).z


@pytest.mark.parametrize(
    ("take", "table"),
    [
        (embedded, ROWS),
        (lambda x: feature_rows(x).value, ROWS),
        (lambda x: datasets.Dataset("mine", GRAPH, x, np.zeros(3, int), 0.0, 1.0).x, ROWS),
        (validate.node_labels, LABELS),
        (lambda y: datasets.Dataset("mine", GRAPH, np.eye(3, 2), y, 0.0, 1.0).y, LABELS),
        (lambda y: servers.rehearsal.homophily([[0, 1]], y), LABELS),
    ],
)
def test_nodes_by_name_are_refused_and_those_by_number_are_taken(take, table):
    np.testing.assert_array_equal(take(table), take(table.to_numpy()))
    for index in NAMED:
        with pytest.raises(ValueError, match="in the order of nodes"):
            take(table.set_axis(index))


def test_labels_of_a_panel_stand_beside_it_whatever_their_names_are():
    assert validate.labels(pd.Series([1, pd.NA], dtype=object)).tolist() == [1, -1]
    assert validate.labels(LABELS[[1, 0]]).tolist() == [0, 1]


@pytest.mark.parametrize("one", [np.complex128(1 + 1j), np.complex64(1 + 1j), 1 + 0j])
def test_complex_numbers_are_none_even_as_objects(one):
    """Casts keep the real part and warn at most, and a warning is no refusal."""
    x = np.array([[one], [0.5]], object)
    graph = graphs.from_edges([[0, 1]], 2)
    for read in (
        *READERS,
        feature_rows,
        lambda x: datasets.Dataset("mine", graph, x, [0, 1], 0, 1),
        lambda x: datasets.read_records(pd.DataFrame(x, columns=["a"]), numbers={"a": (0, 1)}),
        lambda x: validate.numbers(scores=x),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises((TypeError, ValueError), match="must be real|must hold numbers"):
                read(x)
    assert validate.labels(x.ravel()).dtype == object


def test_times_and_sparse_matrices_are_no_records():
    """NumPy takes times for integers: a day is 1, 24 or 86 400."""
    for read in READERS:
        for x in (np.array([1, 2], "timedelta64[D]"), scipy.sparse.eye_array(3)):
            with pytest.raises(TypeError, match="records must be real numbers"):
                read(x)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    ("key", "named"),
    [
        (jax.random.PRNGKey(0), r"got an old-style key, as jax.random.PRNGKey\(seed\) makes it"),
        (np.zeros(2, np.uint32), "got an old-style key"),
        (0, "got int"),
        (jnp.zeros(2), "got ArrayImpl"),
    ],
    ids=["old", "words", "seed", "array"],
)
def test_what_is_no_typed_key_is_named(key, named):
    with pytest.raises(ValueError, match=named):
        validate.threefry(key)
