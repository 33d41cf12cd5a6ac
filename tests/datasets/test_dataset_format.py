"""The uniform format: what a user's file may hold, what is refused by name, and what is written."""

import os

import numpy as np
import pytest
import scipy.sparse

from ldp_jax import datasets
from ldp_jax.datasets import Dataset
from ldp_jax.datasets._arrays import integers
from ldp_jax.graph import graphs
from tests.datasets.formats import ARRAYS, npz

NO_FEATURES = {key: None for key in ARRAYS if key.startswith("x_")}
NO_BOUNDS = {"x_lower": None, "x_upper": None}


@pytest.fixture
def write(tmp_path):
    """A change to None drops the array."""

    def write(**changes):
        path = tmp_path / "mine.npz"
        path.write_bytes(
            npz(**{key: value for key, value in (ARRAYS | changes).items() if value is not None})
        )
        return path

    return write


def test_a_users_file_loads(write):
    path = write()
    data = datasets.load(path)
    assert (data.name, data.num_nodes, data.num_edges, data.num_classes) == ("mine", 3, 2, 2)
    assert (data.lower, data.upper, data.source) == (0.0, 1.0, str(path))
    assert (data.x.dtype, data.y.dtype) == (np.float32, np.int32)
    np.testing.assert_array_equal(datasets.load(str(path)).x.toarray(), [[0, 1], [0.5, 0], [0, 0]])
    two = np.array([[0, 1], [0, 2]])  # a pair a row
    assert datasets.load(write(edges=two)).edges.tolist() == two.tolist()
    with pytest.raises(ValueError, match="no self-loops, got one at node 0"):
        datasets.load(write(edges=two.T))


def test_labels_are_as_wide_as_they_are_stored_and_no_wider(write):
    """Classes in 32 bits, flags of several labels in 8: the last that fits, the first beyond."""
    for shape, kind in (((3,), np.int32), ((3, 2), np.int8)):
        y = np.zeros(shape, np.int64)
        assert datasets.load(write(y=y)).y.dtype == kind
        for limit, step in ((np.iinfo(kind).max, 1), (np.iinfo(kind).min, -1)):
            y[1] = limit
            np.testing.assert_array_equal(integers("y", y, kind), y)
            y[1] += step
            with pytest.raises(ValueError, match=f"y must fit in {np.dtype(kind)}"):
                integers("y", y, kind)
    with pytest.raises(ValueError, match=r"source must be UTF-8 text as uint8 \[bytes\]"):
        datasets.load(write(source=np.zeros((1, 2), np.uint8)))


def test_dense_features_stay_dense(write, tmp_path):
    x = np.array([[0.0, 1.0], [0.5, 0.0], [2.0, 0.25]], np.float32)
    path = write(**{**NO_FEATURES, "x": x, "x_lower": 0.0, "x_upper": 2.0})
    data = datasets.load(path)
    datasets.save(data, tmp_path / "again.npz")
    for each in (data, datasets.load(tmp_path / "again.npz")):
        np.testing.assert_array_equal(each.x, x, strict=True)
    np.testing.assert_array_equal(data.scaled_rows(1, 3), x[1:] - 1)
    np.testing.assert_array_equal(data.scaled_columns(1, 2), x[:, 1:] - 1)
    np.testing.assert_array_equal(data.top_features(1).x, x[:, :1])
    clipped = datasets.load(path, bounds=(0.25, 1), clip=True)
    np.testing.assert_array_equal(clipped.x, np.clip(x, 0.25, 1))


def test_features_and_labels_may_be_absent_and_graphs_of_one_node_are_graphs(write):
    data = datasets.load(write(**NO_FEATURES))
    assert data.x.shape == data.scaled_columns(0, 0).shape == (3, 0)
    assert (data.lower, data.upper) == (0.0, 1.0)
    unlabelled = datasets.load(write(y=None))
    assert (unlabelled.y.shape, unlabelled.num_classes) == ((3, 0), 0)
    ones = datasets.load(
        write(**NO_FEATURES, edges=np.zeros((0, 2), int), node_graph=[0, 1, 2], y=[0, 1, 0])
    )
    assert (ones.num_nodes, ones.num_edges, ones.num_classes) == (3, 0, 2)


def test_bounds_are_declared_in_the_file_or_by_argument_and_values_clipped_where_that_is_said(
    write,
):
    assert datasets.load(write(), bounds=(-1, 2)).lower == -1
    assert datasets.load(write(**NO_BOUNDS), bounds=(0, 1)).upper == 1
    path = write(x_values=[1.875, -0.625])
    clipped = datasets.load(path, clip=True)
    np.testing.assert_array_equal(clipped.x.toarray(), [[0, 1], [0, 0], [0, 0]])
    assert clipped.notes == "Feature values are clipped to the declared bounds."
    wider = datasets.load(path, bounds=(-1, 1.5), clip=True)
    np.testing.assert_array_equal(wider.x.toarray(), [[0, 1.5], [-0.625, 0], [0, 0]])
    assert wider.scaled_rows(0, 3).max() == 1.0
    within = datasets.load(write(), clip=True)  # the note depends on the wish, not on the records
    assert within.notes == clipped.notes
    assert datasets.load("debian", bounds=(0, 0.5), clip=True).x.data.max() == 0.5


def test_a_data_set_comes_back_from_its_file(tmp_path):
    x = scipy.sparse.csr_array(np.array([[1, 0], [0, 2], [0, 0], [3, 3]], np.float32))
    x.data[1] = 0.0  # is stored, and stays so in the data that are saved
    data = Dataset(
        name="whole",
        graph=graphs.from_edges([[0, 1], [2, 3]], 4, pairs_in="rows"),
        x=x,
        y=np.array([1, 0], np.int32),
        lower=0.0,
        upper=3.0,
        node_graph=np.array([0, 0, 1, 1], np.int32),
        source="drawn by hand",
        licence="none",
        extras={"split": np.array([1, 2, 3, 0], np.int8)},
        notes="for a test",
        feature_names=("ä", "b"),
        node_names=("n0", "n1", "n2", "n3"),
        class_names=("c0", "c1", "nobody's"),
        public_choices=("the choice of the 2 most frequent features",),
    )
    path = tmp_path / "whole.npz"
    datasets.save(data, path)
    assert data.x.nnz == 4
    back = datasets.load(path)
    for array in (
        lambda each: each.y,
        lambda each: each.edges,
        lambda each: each.node_graph,
        lambda each: each.x.toarray(),
        lambda each: each.extras["split"],
    ):
        np.testing.assert_array_equal(array(back), array(data), strict=True)
    for field in vars(data).keys() - {"graph", "x", "y", "node_graph", "extras"}:
        assert getattr(back, field) == getattr(data, field)
    first = path.read_bytes()
    datasets.save(back, path)
    assert path.read_bytes() == first  # the same data, the same bytes


def test_a_saved_file_has_the_mode_of_any_other(tmp_path, write, monkeypatch):
    """Without changing the mask of the process for a moment, which other threads share."""
    data = datasets.load(write())
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", None)
            datasets.save(data, tmp_path / "saved.npz")
    finally:
        os.umask(before)
    assert (tmp_path / "saved.npz").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("mine.npz", {"node_names": ("a\nb", "c", "d")}, "node_names must be names of one line"),
        ("mine.npz", {"extras": {"edges": np.zeros(1)}}, "extras must not use .* got edges"),
        ("mine.npz", {"extras": {"file": np.zeros(1)}}, "extras must not use .* got file"),
        ("mine.txt", {}, "path must end in .npz, got"),
    ],
)
def test_save_leaves_the_old_file_where_it_fails(tmp_path, write, name, changes, message):
    path = write()
    before = path.read_bytes()
    data = datasets.load(path)
    with pytest.raises(ValueError, match=message):
        datasets.save(Dataset(**vars(data) | changes), tmp_path / name)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["mine.npz"]
