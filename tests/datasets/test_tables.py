"""Mixed tables: declared columns become numbers in [0, 1], and all faults are named at once,
without a value.
"""

import numpy as np
import pandas as pd
import pyarrow
import pytest

from ldp_jax import datasets
from ldp_jax.datasets.tables import read_records
from ldp_jax.graph import graphs, interop

TABLE = pd.DataFrame(
    {
        "age": [18, 50, None, 90], "city": ["ulm", None, "bern", "ulm"],
        "paid": [True, False, True, None], "team": ["red", "blue", None, "red"],
    },
    index=["ana", "bo", "cy", "dee"],
)  # fmt: skip
DECLARED = {
    "numbers": {"age": (10, 90), "paid": (0, 1)},
    "categories": {"city": ("bern", "ulm")},
    "label": "team",
}


def test_declared_columns_are_numbers():
    typed = TABLE.astype({"age": "Int64", "city": "string", "paid": "boolean"})
    for table in (TABLE, typed):
        found = read_records(table, **DECLARED, missing="centre")
        assert found.columns == ("age", "paid", "city=bern", "city=ulm")
        np.testing.assert_allclose(
            found.x, [[0.1, 1, 0, 1], [0.5, 0, 0, 0], [0.5, 1, 1, 0], [1, 0.5, 0, 1]], atol=1e-6
        )
        assert (found.y.tolist(), found.class_names) == ([1, 0, -1, 1], ("blue", "red"))


@pytest.mark.usefixtures("untyped")
def test_categories_stand_in_any_sequence():
    words = DECLARED["categories"]["city"]
    for given in (list(words), np.array(words), pd.CategoricalDtype(words).categories):
        found = read_records(TABLE, categories={"city": given}, missing="centre")
        assert found.columns == ("city=bern", "city=ulm")


def test_rows_follow_the_nodes_and_survive_a_file(tmp_path):
    edges = pd.DataFrame([("dee", "ana"), ("ana", "eve"), ("bo", "cy")])
    graph, names = interop.read(edges)
    found = read_records(TABLE, **DECLARED, nodes=names, missing="centre")
    assert found.names.tolist() == names.tolist() == ["dee", "ana", "eve", "bo", "cy"]
    assert found.x[2].tolist() == [0.5, 0.5, 0, 0]  # eve has no row
    assert found.y.tolist() == [1, 1, -1, 0, -1]
    datasets.save(found.dataset("mine", graph), tmp_path / "mine.npz")
    again = datasets.load(str(tmp_path / "mine.npz"))
    np.testing.assert_array_equal(again.x, found.x, strict=True)  # dense, as it was
    assert (again.y.tolist(), again.class_names) == (found.y.tolist(), ("blue", "red"))
    assert (again.node_names, again.feature_names) == (tuple(names), found.columns)


def test_values_outside_are_clipped_only_where_asked_for():
    declared = {"numbers": {"age": (20, 60)}, "missing": "centre"}
    with pytest.raises(ValueError, match=r"'age' must be within its declared bounds \(20, 60\)"):
        read_records(TABLE, **declared)
    assert read_records(TABLE, **declared, clip=True).x.ravel().tolist() == [0, 0.75, 0.5, 1]


def test_all_faults_at_once_and_no_value():
    table = TABLE.assign(city=["ulm", "secret", "bern", None], age=["18", "secret", "50", "999"])
    declared = DECLARED | {"numbers": DECLARED["numbers"] | {"height": (0, 2)}}
    with pytest.raises(ValueError, match="table has faults") as raised:
        read_records(table, **declared, classes=("red",))
    said = str(raised.value)
    for fault in (
        "'age' must hold numbers", "'age' must be within", "'paid' misses values",
        "'city' holds words", "'city' misses words", "'height' is not there, beside age, ",
        "'team' holds classes that are not declared",
    ):  # fmt: skip
        assert fault in said
    assert "secret" not in said
    assert "999" not in said


@pytest.mark.parametrize("classes", [("x", "z", "y"), ("x", "y", "z")])
def test_a_declared_class_may_have_no_member(classes):
    table = pd.DataFrame({"age": [20, 30, 40], "team": ["x", "z", "x"]})
    made = read_records(table, numbers={"age": (0, 80)}, label="team", classes=classes)
    assert made.dataset("mine", graphs.from_edges([[0, 1]], 3)).num_classes == 3


def test_a_data_set_needs_no_labels(tmp_path):
    graph, names = interop.read(pd.DataFrame([("ana", "bo"), ("cy", "dee")]))
    made = read_records(TABLE, numbers={"age": (0, 100)}, missing="centre", nodes=names).dataset(
        "mine", graph
    )
    datasets.save(made, tmp_path / "mine.npz")
    again = datasets.load(tmp_path / "mine.npz")
    assert (again.num_classes, again.y.shape, again.x.shape) == (0, (4, 0), (4, 1))


@pytest.mark.parametrize(
    ("labels", "y", "classes"),
    [
        ([3, None, 7, 3], [0, -1, 1, 0], ("3", "7")),  # which pandas makes floats
        ([3, -1, 7, 3], [0, -1, 1, 0], ("3", "7")),
        ([0.5, None, 2.0, 0.25], [1, -1, 2, 0], ("0.25", "0.5", "2")),
        (["red", "-1", "", "blue"], [1, -1, -1, 0], ("blue", "red")),
        (["red", 7, None, "10"], [2, 1, -1, 0], ("10", "7", "red")),
        (pd.Categorical(["red", None, "blue", "red"]), [1, -1, 0, 1], ("blue", "red")),
        (pd.array(["red", None, "blue", "red"], dtype="string"), [1, -1, 0, 1], ("blue", "red")),
    ],
)
def test_labels_of_all_kinds_are_numbered_and_named(labels, y, classes):
    found = read_records(
        TABLE.assign(team=labels), numbers={"age": (0, 100)}, label="team", missing="centre"
    )
    assert (found.y.tolist(), found.class_names) == (y, classes)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_users_and_nodes_without_a_name_are_refused(missing):
    """Nobody's row would be centred, or taken for somebody's."""
    table = pd.DataFrame({"age": [1, 2]}, ["ana", "bo"])
    masked = np.ma.array(["ana", "bo", "cy"], mask=[False, False, True])
    for users, nodes in (
        (table, ["ana", "bo", missing]),
        (table, masked),
        (table.set_axis(["ana", missing]), None),
        (table, pyarrow.array(["ana", "bo", None])),
    ):
        with pytest.raises(
            ValueError, match="nodes must name each node, and some names are missing or masked"
        ):
            datasets.read_records(users, numbers={"age": (0, 4)}, nodes=nodes, missing="centre")
    found = datasets.read_records(
        table, numbers={"age": (0, 4)}, nodes=pyarrow.array(["bo", "ana"])
    )
    assert found.x.tolist() == [[0.5], [0.25]]
