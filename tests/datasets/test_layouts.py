"""Files of other benchmarks by their path: what load makes of each layout, and what it refuses."""

import pathlib

import networkx
import numpy as np
import pytest

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
    data = datasets.load(
        written(tmp_path / "mine.npz", npz(**gnn_benchmark_arrays())), bounds=(0, 1)
    )
    assert (data.edges.tolist(), data.y.tolist()) == ([[0, 1], [1, 2]], [0, 1, 1])
    np.testing.assert_array_equal(data.x.toarray(), [[0, 1], [0.5, 0], [0, 0]])
    assert not data.extras
    arrays = {key: array for key, array in gnn_benchmark_arrays().items() if key.startswith("adj")}
    bare = datasets.load(written(tmp_path / "bare.npz", npz(**arrays)))
    assert (bare.num_nodes, bare.num_edges, bare.num_features, bare.num_classes) == (3, 2, 0, 0)
    dense = arrays | {"attr_matrix": np.eye(3), "labels": np.array([1, 0, 1])}
    found = datasets.load(written(tmp_path / "dense.npz", npz(**dense)), bounds=(0, 1))
    assert (found.x.tolist(), found.y.tolist()) == (np.eye(3).tolist(), [1, 0, 1])
    with pytest.raises(ValueError, match="bounds of the features of mine must be declared"):
        datasets.load(tmp_path / "mine.npz")


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
    path = written(tmp_path / "roman.npz", npz(**heterophilous()))
    data = datasets.load(path, bounds=(0, 1))
    assert (data.edges.tolist(), data.y.tolist()) == ([[0, 1], [1, 2]], [0, 1, 1])
    np.testing.assert_array_equal(data.x, heterophilous()["node_features"])
    assert {*data.extras} == {"train_masks", "val_masks", "test_masks"}
    assert data.extras["val_masks"].shape == (10, 3)
    np.testing.assert_array_equal(data.extras["val_masks"][0], [False, True, False])
    datasets.save(data, tmp_path / "kept.npz")
    np.testing.assert_array_equal(
        datasets.load(tmp_path / "kept.npz").extras["test_masks"], data.extras["test_masks"]
    )
    both = np.array([[0, 1], [1, 0], [1, 2], [2, 1]])
    assert (
        datasets.load(
            written(path, npz(**heterophilous() | {"edges": both})), bounds=(0, 1)
        ).num_edges
        == 2
    )
    wide = {"edges": np.array([[0, 1], [2, 3]])}
    with pytest.raises(ValueError, match=r"roman.npz: source must be in \[0, 3\)"):
        datasets.load(written(path, npz(**heterophilous() | wide)), bounds=(0, 1))


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
    with pytest.raises(
        ValueError, match="must hold one set of graphs, .* got dataset/P/P.txt, dataset/Q/Q.txt"
    ):
        datasets.load(written(tmp_path / "all.zip", data))
    with pytest.raises(ValueError, match="must hold one set of graphs, .* got words.md"):
        datasets.load(written(tmp_path / "none.zip", zipped({"words.md": b""})))


def test_a_folder_of_tu_dortmund_has_any_name(tmp_path):
    for name, data in FORMATS["TU"].files.items():
        written(tmp_path / "raw" / name, data)
    assert datasets.load(tmp_path / "raw").name == "T"


def test_a_text_file_is_a_set_of_graphs_or_a_list_of_edges(tmp_path):
    assert datasets.load(written(tmp_path / "P.txt", POWERFUL)).node_graph.tolist() == [0, 0, 1]
    for text in (b"0 1\n1 2\n", b"# a b\n0 1\n1 2\n", b"0 1 {}\n1 2 {}\n", b"0,1\n1,2\n"):
        data = datasets.load(written(tmp_path / "list.txt", text))
        assert (data.edges.tolist(), data.node_names) == ([[0, 1], [1, 2]], ("0", "1", "2"))


# --- Planetoid ---------------------------------------------------------------------------------


def planetoid_folder(folder: pathlib.Path, changes=None) -> pathlib.Path:
    for name, data in {**planetoid_files(), **(changes or {})}.items():
        written(folder / name, data)
    return folder


def test_a_folder_of_planetoid(tmp_path):
    """As the pinned files are read, but that a node without a label has none."""
    data = datasets.load(planetoid_folder(tmp_path / "raw"), bounds=(0, 3))
    assert data.name == "t"
    pinned = FORMATS["planetoid"].read()
    assert data.edges.tolist() == pinned.edges.tolist()
    np.testing.assert_array_equal(data.x.toarray(), pinned.x.toarray())
    np.testing.assert_array_equal(data.extras["split"], pinned.extras["split"])
    assert data.y.tolist() == [2, 0, 1, 1, 0, 2, -1, 1]
    for name in planetoid_files():
        written(tmp_path / "raw" / name.replace(".t.", ".u."), planetoid_files()[name])
    with pytest.raises(
        ValueError, match="must hold one data set of Planetoid, got ind.t.graph, ind.u.graph"
    ):
        datasets.load(tmp_path / "raw")


def test_what_no_loader_knows_is_refused_by_what_opens_it(tmp_path):
    for name, message in {
        "a.csv": "interop.read takes pandas.read_csv",
        "a.graph": "METISGraphReader",
        "a.abc": "must end in .graphml",
    }.items():
        for path in (tmp_path / name, str(tmp_path / name)):
            with pytest.raises(ValueError, match=message):
                datasets.load(path)
    with pytest.raises(FileNotFoundError):
        datasets.load(tmp_path / "absent.graphml")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="empty_A.txt .* or ind.NAME.graph"):
        datasets.load(tmp_path / "empty")


def test_a_graph_file_has_the_names_of_its_nodes_alone(tmp_path):
    graph = networkx.Graph([("ana", "bo")])
    graph.nodes["ana"]["age"] = 31
    networkx.write_graphml(graph, tmp_path / "friends.graphml")
    data = datasets.load(tmp_path / "friends.graphml")
    assert (data.name, data.node_names, data.num_features) == ("friends", ("ana", "bo"), 0)
    assert "no attribute" in data.notes
    datasets.save(data, tmp_path / "kept.npz")
    assert datasets.load(tmp_path / "kept.npz").node_names == ("ana", "bo")
