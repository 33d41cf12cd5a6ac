"""Files of other benchmarks by their path: what load makes of each layout, and what it refuses."""

import networkx
import numpy as np
import pytest
import scipy.sparse

from ldp_jax import datasets
from tests.datasets.formats import (
    FORMATS,
    gnn_benchmark_arrays,
    heterophilous,
    npz,
    planetoid_files,
    zipped,
)


def written(path, data: bytes):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_an_npz_of_the_gnn_benchmark(tmp_path):
    path = tmp_path / "mine.npz"
    whole = gnn_benchmark_arrays()
    adjacency = {key: array for key, array in whole.items() if key.startswith("adj")}
    dense = adjacency | {"attr_matrix": np.eye(3), "labels": np.array([1, 0, 1])}
    sparse = [[0, 1], [0.5, 0], [0, 0]]
    for arrays, x, y in (
        (whole, sparse, [0, 1, 1]),
        (dense, np.eye(3), [1, 0, 1]),
        (adjacency, np.zeros((3, 0)), [[], [], []]),
    ):
        data = datasets.load(written(path, npz(**arrays)), bounds=(0, 1))
        assert (data.edges.tolist(), data.y.tolist()) == ([[0, 1], [1, 2]], y)
        np.testing.assert_array_equal(scipy.sparse.csr_array(data.x).toarray(), x)
        assert not data.extras


@pytest.mark.parametrize(
    ("adjacency", "message"),
    [
        ([[0, 1, 0], [1, 0, 1], [0, 0, 0]], "1 edges without their reverse"),
        ([[1, 1, 0], [1, 0, 1], [0, 1, 0]], "1 self-loops"),
        ([[0, 3, 0], [3, 0, 3], [0, 3, 0]], "weights other than 1"),
    ],
)
def test_benchmarks_have_the_one_rule_of_edges(tmp_path, adjacency, message):
    path = written(tmp_path / "mine.npz", npz(**gnn_benchmark_arrays(adjacency)))
    with pytest.raises(ValueError, match=f"mine.npz: .*{message}.*clean=True"):
        datasets.load(path, bounds=(0, 1))
    assert datasets.load(path, bounds=(0, 1), clean=True).edges.tolist() == [[0, 1], [1, 2]]


def test_an_npz_of_the_heterophilous_benchmarks(tmp_path):
    arrays = heterophilous()
    path = written(tmp_path / "roman.npz", npz(**arrays))
    data = datasets.load(path, bounds=(0, 1))
    assert (data.edges.tolist(), data.y.tolist()) == ([[0, 1], [1, 2]], [0, 1, 1])
    np.testing.assert_array_equal(data.x, arrays["node_features"])
    datasets.save(data, tmp_path / "kept.npz")
    for each in (data, datasets.load(tmp_path / "kept.npz")):
        assert {*each.extras} == {"train_masks", "val_masks", "test_masks"}
        np.testing.assert_array_equal(each.extras["val_masks"], arrays["val_masks"])
    arrays["edges"] = np.array([[0, 1], [1, 0], [1, 2], [2, 1]])
    assert datasets.load(written(path, npz(**arrays)), bounds=(0, 1)).num_edges == 2
    several = arrays | {"node_labels": np.eye(3, dtype=int)}
    with pytest.raises(ValueError, match="node_labels must have one axis, got 2"):
        datasets.load(written(tmp_path / "several.npz", npz(**several)), bounds=(0, 1))
    arrays["edges"] = np.array([[0, 1], [2, 3]])
    with pytest.raises(ValueError, match=r"roman.npz: source must be in \[0, 3\)"):
        datasets.load(written(path, npz(**arrays)), bounds=(0, 1))


POWERFUL = b"2\n2 1\n0 1 1\n0 1 0\n1 0\n0 0\n"


@pytest.mark.parametrize("start", ["", "T/", "raw/T/"])
def test_a_zip_of_tu_dortmund_has_any_name_and_folder(tmp_path, start):
    members = {f"{start}{name}": data for name, data in FORMATS["TU"].files.items()}
    members |= {f"{start}README.txt": b"words", "__MACOSX/._T_A.txt": b"\0"}
    data = datasets.load(written(tmp_path / "T (1).zip", zipped(members)))
    assert (data.name, data.edges.tolist(), data.y.tolist()) == ("T", [[0, 1], [2, 4]], [1, 0])
    with pytest.raises(ValueError, match="T_A.txt .*bytes, and 5 are allowed|has .* bytes, and 5"):
        datasets.load(tmp_path / "T (1).zip", max_bytes=5)


@pytest.mark.parametrize("member", ["dataset/P/P.txt", "P/P.txt", "P.txt"])
def test_a_zip_of_powerful_gnns(tmp_path, member):
    members = {
        member: POWERFUL,
        "dataset/P/10fold_idx/test_idx-1.txt": b"0\n",
        "readme.txt": b"words",
    }
    data = datasets.load(written(tmp_path / "downloaded.zip", zipped(members)))
    assert (data.name, data.node_graph.tolist(), data.y.tolist()) == ("P", [0, 0, 1], [1, 0])


def test_of_several_sets_in_a_zip_the_one_of_its_name_is_read(tmp_path):
    data = zipped({"dataset/P/P.txt": POWERFUL, "dataset/Q/Q.txt": POWERFUL})
    assert datasets.load(written(tmp_path / "Q.zip", data)).name == "Q"


def test_a_folder_of_tu_dortmund_has_any_name(tmp_path):
    for name, data in FORMATS["TU"].files.items():
        written(tmp_path / "raw" / name, data)
    assert datasets.load(tmp_path / "raw").name == "T"


def test_a_text_file_is_a_set_of_graphs_or_a_list_of_edges(tmp_path):
    assert datasets.load(written(tmp_path / "P.txt", POWERFUL)).node_graph.tolist() == [0, 0, 1]
    for text in (
        b"0 1\n1 2\n",
        b"# a b\n0 1\n1 2\n",
        b"%ab\n0 1\n1 2\n",
        b"0 1 {}\n1 2 {}\n",
        b"0,1\n1,2\n",
    ):
        data = datasets.load(written(tmp_path / "list.txt", text))
        assert (data.edges.tolist(), data.node_names) == ([[0, 1], [1, 2]], ("0", "1", "2"))


def test_a_folder_of_planetoid(tmp_path):
    """As the pinned files are read, but that a node without a label has none."""
    for name, data in planetoid_files().items():
        written(tmp_path / "raw" / name, data)
    data = datasets.load(tmp_path / "raw", bounds=(0, 3))
    pinned = FORMATS["planetoid"].read()
    assert (data.name, data.edges.tolist()) == ("t", pinned.edges.tolist())
    np.testing.assert_array_equal(data.x.toarray(), pinned.x.toarray())
    np.testing.assert_array_equal(data.extras["split"], pinned.extras["split"])
    assert data.y.tolist() == [2, 0, 1, 1, 0, 2, -1, 1]
    written(tmp_path / "raw" / "ind.u.graph", b"")
    with pytest.raises(ValueError, match="one data set of Planetoid, got ind.t.graph, ind.u.graph"):
        datasets.load(tmp_path / "raw")


def test_what_is_not_there_is_not_found(tmp_path):
    (tmp_path / "empty").mkdir()
    for name, match in (
        ("absent.graphml", "absent"),
        ("empty", "empty_A.txt .* or ind.NAME.graph"),
    ):
        with pytest.raises(FileNotFoundError, match=match):
            datasets.load(tmp_path / name)


def test_a_graph_file_has_the_names_of_its_nodes_alone(tmp_path):
    graph = networkx.Graph([("ana", "bo")])
    graph.nodes["ana"]["age"] = 31
    networkx.write_graphml(graph, tmp_path / "friends.graphml")
    data = datasets.load(tmp_path / "friends.graphml")
    assert (data.name, data.node_names, data.num_features) == ("friends", ("ana", "bo"), 0)
    assert "no attribute" in data.notes
    datasets.save(data, tmp_path / "kept.npz")
    assert datasets.load(tmp_path / "kept.npz").node_names == ("ana", "bo")
