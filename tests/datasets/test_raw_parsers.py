"""The public raw formats, on tiny files written here."""

import collections
import copyreg
import io
import json
import pickle
import zipfile

import numpy as np
import pytest
import scipy.sparse

from ldp_jax.datasets import _format, feather, gnn_benchmark, graph_sets, musae, planetoid
from tests.datasets.mutations import dumps


class _OldMatrix:
    """A csr_matrix as protocols 0 and 1 rebuild it."""

    def __init__(self, matrix):
        self.matrix = matrix

    def __reduce__(self):
        return copyreg._reconstructor, (scipy.sparse.csr_matrix, object, None), vars(self.matrix)


def planetoid_files(old=False) -> dict[str, bytes]:
    """Nodes 0..4 known, 5 and 7 tested (listed 7 first), 6 left out of the index."""
    wrap = _OldMatrix if old else (lambda matrix: matrix)
    matrix = lambda rows: wrap(scipy.sparse.csr_matrix(np.array(rows, np.float32)))  # noqa: E731
    one_hot = lambda classes: np.eye(3, dtype=np.int32)[classes]  # noqa: E731
    graph = collections.defaultdict(list)
    graph.update({0: [1, 1, 0], 1: [0], 2: [3, 7], 3: [2], 5: [4], 7: [2]})
    parts = {
        "x": matrix([[1, 0]]),
        "y": one_hot([2]),
        "tx": matrix([[0, 2], [3, 0]]),
        "ty": one_hot([1, 2]),
        "allx": matrix([[1, 0], [0, 1], [1, 1], [0, 0], [0, 1]]),
        "ally": one_hot([2, 0, 1, 1, 0]),
        "graph": graph,
    }
    files = {f"ind.tiny.{part}": dumps(value) for part, value in parts.items()}
    return {**files, "ind.tiny.test.index": b"7\n5\n"}


@pytest.mark.parametrize("old", [False, True])
def test_planetoid(old):
    arrays = planetoid.parse(planetoid_files(old), dataset="tiny")
    data = _format.build("tiny", arrays, "tiny", bounds=(0, 3))
    assert data.edges.tolist() == [[0, 1], [2, 3], [2, 7], [4, 5]]  # repeats, both directions and a loop went
    np.testing.assert_array_equal(
        data.x.toarray(), [[1, 0], [0, 1], [1, 1], [0, 0], [0, 1], [3, 0], [0, 0], [0, 2]]
    )
    assert data.y.tolist() == [2, 0, 1, 1, 0, 2, 0, 1]  # node 6 has no label and gets class 0
    assert data.extras["split"].tolist() == [1, 2, 2, 2, 2, 3, 2, 3]
    assert data.extras["split"].dtype == np.int8


def test_planetoid_refuses_parts_that_do_not_fit():
    for index, message in (
        (b"7\n", "equal lengths"),
        (b"7\n3\n", "none below 5, got 3"),
        (b"7\n7\n", "once"),
    ):
        with pytest.raises(ValueError, match=message):
            planetoid.parse({**planetoid_files(), "ind.tiny.test.index": index}, dataset="tiny")
    with pytest.raises(ValueError, match="unmatched data"):
        planetoid.parse({**planetoid_files(), "ind.tiny.test.index": b"7\nfive\n"}, dataset="tiny")


class _Calls:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    ("data", "asked"),
    [
        (b"cos\nsystem\n(S'true'\ntR.", "os.system"),
        (b"c__builtin__\neval\n(S'1'\ntR.", "builtins.eval"),
        (b"cnumpy\nload\n(S'x'\ntR.", "numpy.load"),
        (b"cnumpy.core.multiarray\nfromfile\n(S'x'\ntR.", "numpy.core.multiarray.fromfile"),
        (pickle.dumps(_Calls(getattr, [], "append"), 4), "builtins.getattr"),
        (pickle.dumps(collections.OrderedDict(), 4), "collections.OrderedDict"),
        (b"ccopy_reg\n_reconstructor\n(c__builtin__\nlist\nc__builtin__\nobject\nNtR.", "rebuild list"),
        (b"\x80\x04\x8c\x0fnumpy.ndarray.x\x8c\x01y\x93.", "numpy.ndarray.x.y"),
        (b"Pelsewhere\n.", "persistent"),
    ],
)
def test_a_pickle_that_asks_for_anything_else_is_refused(data, asked):
    with pytest.raises(ValueError, match=f"ind.tiny.x is no pickle of arrays: .*{asked}"):
        planetoid.unpickle(data, "ind.tiny.x")


def test_a_pickle_that_is_cut_short_is_refused():
    data = planetoid_files()["ind.tiny.allx"]
    with pytest.raises(ValueError, match="ind.tiny.allx is no pickle of arrays"):
        planetoid.unpickle(data[: len(data) // 2], "ind.tiny.allx")


def test_the_matrix_of_a_pickle_is_inert():
    value = planetoid.unpickle(planetoid_files()["ind.tiny.allx"], "allx")
    assert type(value) is planetoid._Matrix


def musae_files(target: str, features=None) -> dict[str, bytes]:
    features = {"2": [3, 0, 3], "0": [1], "1": []} if features is None else features
    return {
        "tiny_edges.csv": b"id1,id2\n0,1\n1,0\n2,2\n2,1\n",
        "tiny.json": json.dumps(features).encode(),
        "tiny_target.csv": target.encode(),
    }


def parse_musae(target, label, features=None, **options):
    arrays = musae.parse(musae_files(target, features), stem="tiny", label=label, num_features=5, **options)
    return _format.build("tiny", arrays, "tiny", bounds=(0, 1))


def test_musae_page_types():
    target = 'id,facebook_id,page_name,page_type\n0,9,"A, ""b""\nç",tvshow\n2,7,C,company\n1,8,D,tvshow\n'
    data = parse_musae(target, "page_type")
    assert data.edges.tolist() == [[0, 1], [1, 2]]
    np.testing.assert_array_equal(data.x.toarray(), [[0, 1, 0, 0, 0], [0] * 5, [1, 0, 0, 1, 0]])
    assert data.y.tolist() == [1, 1, 0]
    assert not data.extras  # no account name or id


def test_musae_traffic():
    data = parse_musae("id,target\n2,10\n1,9000\n0,20\n", "traffic", karateclub_above=15)
    assert data.y.tolist() == [0, 1, 0]  # above the median, not at it
    assert data.extras["target"].tolist() == [20, 9000, 10]
    assert data.extras["target"].dtype == np.int64
    assert data.extras["y_karateclub"].tolist() == [1, 1, 0]


def test_musae_mature():
    rows = "7,1,True,5,False,1\n8,1,False,5,True,0\n9,1,False,5,False,2\n9,1,True,6,False,2\n"
    data = parse_musae("id,days,mature,views,partner,new_id\n" + rows, "mature")
    assert data.y.tolist() == [0, 1, 1]  # of node 2, listed twice, the last row counts


def test_musae_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match=r"features must be in \[0, 5\), and some are not$"):
        parse_musae("id,target\n0,1\n1,2\n2,3\n", "traffic", {"0": [5]})
    with pytest.raises(ValueError, match=r"node ids of the features must be in \[0, 3\), got 3"):
        parse_musae("id,target\n0,1\n1,2\n2,3\n", "traffic", {"3": [1]})
    with pytest.raises(ValueError, match="id must name the nodes 0..2, got none for 2"):
        parse_musae("id,target\n0,1\n1,2\n3,3\n", "traffic")
    with pytest.raises(ValueError, match=r"edges must join nodes in \[0, 2\), got \(1, 2\)"):
        parse_musae("id,target\n0,1\n1,2\n", "traffic", {})
    with pytest.raises(ValueError, match="label must be one of page_type, traffic, mature; got 'views'"):
        parse_musae("id,target\n0,1\n", "views")


def test_feather_keeps_the_largest_classes():
    files = {
        "lastfm_asia_edges.csv": b"node_1,node_2\n0,1\n1,2\n2,4\n4,0\n3,4\n",
        "lastfm_asia_features.json": json.dumps({"0": [2], "1": [0, 1], "2": [], "3": [1], "4": [0]}).encode(),
        "lastfm_asia_target.csv": b"id,target\n0,3\n1,1\n2,3\n3,0\n4,1\n",
    }
    data = _format.build("t", feather.parse(files, num_features=3, keep_classes=2), "t", bounds=(0, 1))
    assert data.edges.tolist() == [[0, 1], [0, 3], [1, 2], [2, 3]]  # node 3 went with its class and edge
    np.testing.assert_array_equal(data.x.toarray(), [[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 0, 0]])
    assert data.y.tolist() == [1, 0, 1, 0]
    assert data.extras["orig_id"].tolist() == [0, 1, 2, 4]
    assert data.extras["orig_class"].tolist() == [1, 3]


def gnn_benchmark_file(**changes) -> bytes:
    """Six nodes; a one-way edge, a loop, an edge given both ways; nodes 4 and 5 apart. With pickled names."""
    pairs = [(0, 1), (1, 2), (2, 1), (3, 3), (3, 0), (4, 5)]
    adjacency = scipy.sparse.csr_matrix((np.ones(6), tuple(zip(*pairs, strict=True))), shape=(6, 6))
    x = scipy.sparse.csr_matrix(np.eye(6, 2, dtype=np.float32))
    arrays = {"labels": np.array([0, 1, 0, 1, 0, 1]), "attr_names": np.array(["a", None], object)}
    for part, matrix in (("adj", adjacency), ("attr", x)):
        for field in ("data", "indices", "indptr", "shape"):
            arrays[f"{part}_{field}"] = np.asarray(getattr(matrix, field))
    buffer = io.BytesIO()
    np.savez(buffer, **{**arrays, **changes})
    return buffer.getvalue()


def test_gnn_benchmark():
    files = {"tiny.npz": gnn_benchmark_file()}
    whole = _format.build("t", gnn_benchmark.parse(files, largest_component=False), "t", bounds=(0, 1))
    assert whole.edges.tolist() == [[0, 1], [0, 3], [1, 2], [4, 5]]
    assert whole.y.tolist() == [0, 1, 0, 1, 0, 1]
    largest = _format.build("t", gnn_benchmark.parse(files, largest_component=True), "t", bounds=(0, 1))
    assert largest.edges.tolist() == [[0, 1], [0, 3], [1, 2]]
    np.testing.assert_array_equal(largest.x.toarray(), np.eye(4, 2))


def test_gnn_benchmark_never_unpickles():
    data = gnn_benchmark_file(labels=np.array([0, None], object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        gnn_benchmark.parse({"tiny.npz": data}, largest_component=False)
    with pytest.raises(ValueError, match="tiny.npz is no readable .npz"):
        gnn_benchmark.parse({"tiny.npz": data[:100]}, largest_component=False)


def archive(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as zipped:
        for name, text in files.items():
            zipped.writestr(name, text)
    return buffer.getvalue()


_TU = {
    "T/T_A.txt": "1, 2\n2, 1\n3, 5\n5, 3\n4, 4\n",
    "T/T_graph_indicator.txt": "1\n1\n2\n2\n2\n",
    "T/T_graph_labels.txt": "1\n-1\n",
}


def parse_tu(**changes):
    files = {**_TU, **{f"T/T_{suffix}.txt": text for suffix, text in changes.items()}}
    arrays = graph_sets.parse_tu({"T.zip": archive(files)}, dataset="T")
    return _format.build("t", arrays, "t")


def test_tu():
    data = parse_tu()
    assert data.edges.tolist() == [[0, 1], [2, 4]]
    assert data.node_graph.tolist() == [0, 0, 1, 1, 1]
    assert data.y.tolist() == [1, 0]  # classes in the order of their values
    assert data.num_features == 0


def test_tu_sorts_nodes_by_graph():
    data = parse_tu(graph_indicator="2\n1\n2\n1\n2\n", A="1, 3\n2, 4\n3, 5\n")
    assert data.node_graph.tolist() == [0, 0, 1, 1, 1]
    assert data.edges.tolist() == [[0, 1], [2, 3], [3, 4]]


@pytest.mark.parametrize(
    ("changes", "edges", "y"),
    [
        ({"A": "1,2\n3,5\n"}, [[0, 1], [2, 4]], [1, 0]),  # one direction, no spaces
        ({"A": "  2,\t1 \r\n5 ,3\r\n"}, [[0, 1], [2, 4]], [1, 0]),
        ({"A": "1, 2\n2, 1\n1, 2\n"}, [[0, 1]], [1, 0]),  # the last three nodes are isolated
        ({"A": ""}, [], [1, 0]),
        ({"node_labels": "no number\n", "graph_attributes": "0.5\n0.25\n"}, [[0, 1], [2, 4]], [1, 0]),
        ({"A": "", "graph_indicator": "1\n2\n3\n4\n5\n", "graph_labels": "5\n3\n1\n2\n4\n"}, [], [4, 2, 0, 1, 3]),
    ],
)
def test_tu_as_it_comes(changes, edges, y):
    data = parse_tu(**changes)
    assert data.edges.tolist() == edges
    assert data.y.tolist() == y
    assert data.num_nodes == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"A": "1, 6\n"}, r"T_A.txt must hold pairs of nodes in \[1, 5\], .* got \(1, 6\) in graph 1"),
        ({"A": "1, 2\n0, 3\n"}, r"T_A.txt must hold pairs of nodes in \[1, 5\], .* got \(0, 3\) in graph 2"),
        ({"A": "-1, 9\n"}, r"got \(-1, 9\) in no graph"),
        ({"A": "1, 3\n"}, "edges must stay in one graph, got 1, 3, which joins graph 1 and graph 2"),
        ({"A": "1, 2\n2, 1\n3, 5\n"}, "graph 2 must list every edge in both directions, .* got 3, 5 alone"),
        ({"A": "1, x\n"}, "each line of T_A.txt must hold 2 whole numbers .* got '1, x' for edge 1"),
        ({"A": "1, 2\n2, 1\n\n5, "}, "got '5, ' for edge 3"),
        ({"A": "1, 2\n2"}, "got '2' for edge 2"),
        ({"A": "1, 2 # 3\n"}, "got '1, 2 # 3' for edge 1"),
        ({"A": "1, 2, 3\n"}, "got '1, 2, 3' for edge 1"),
        ({"graph_indicator": "1\n1\n2\n2\n"}, r"pairs of nodes in \[1, 4\], .* got \(3, 5\) in graph 2"),
        (
            {"graph_indicator": "1\n1\n2\n2\n3\n"},
            r"T_graph_indicator.txt must name graphs in \[1, 2\], .* got graph 3 for node 5",
        ),
        ({"graph_indicator": "1\n0\n2\n2\n2\n"}, "got graph 0 for node 2"),
        ({"graph_indicator": "1\n1\n1\n1\n1\n"}, "graph 2 must have a node, got none but a label"),
        ({"graph_labels": "1\n2\n1\n"}, "graph 3 must have a node, got none but a label"),
        ({"graph_labels": "1\n"}, r"must name graphs in \[1, 1\], .* got graph 2 for node 3"),
        (
            {"graph_labels": "1\n1.5\n"},
            "T_graph_labels.txt must hold one .*, got something else for graph 2$",
        ),
        ({"graph_labels": "1, 2\n1, 3\n"}, "must hold one whole number, got something else for graph 1$"),
        ({"graph_labels": f"1\n{10**20}\n"}, "got something else for graph 2$"),
        ({"A": "", "graph_indicator": "", "graph_labels": ""}, "T must hold a graph, got none"),
    ],
)
def test_tu_refuses_what_does_not_fit(changes, message):
    with pytest.raises(ValueError, match=message):
        parse_tu(**changes)


def parse_powerful_gnns(text):
    files = {"dataset.zip": archive({"dataset/P/P.txt": text})}
    return _format.build("p", graph_sets.parse_powerful_gnns(files, dataset="P"), "p")


def test_powerful_gnns():
    data = parse_powerful_gnns("3\n3 1\n0 1 1\n0 2 0 2\n0 1 1\n2 0\n7 1 1\n7 1 0\n1 1\n0 0\n")
    assert data.edges.tolist() == [[0, 1], [1, 2], [3, 4]]
    assert data.node_graph.tolist() == [0, 0, 0, 1, 1, 2]
    assert data.y.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n2 0\n0 1 1\n0 1 2\n", r"neighbours in graph 0 must be 1 nodes in \[0, 2\)"),
        ("1\n2 0\n0 1 1\n0 -1 0\n", "neighbours in graph 0 must be -1 nodes"),
        ("2\n1 0\n0 0\n2 0\n0 1 1\n0 0\n1", "must end after 2 graphs, got more numbers$"),
        ("1\n2 0\n0 1 1\n0 1 0\nend\n", "must end after 1 graphs, got another word$"),
        ("2\n2 0\n0 1 1\n0 1 0\n2 0\n0 1 1\n0 0\n", "graph 1 must list every edge in both .* got 0, 1 alone"),
        ("2\n0 1\n1 0\n0 0\n", "graph 0 must have a node, got 0"),
        ("2\n2 0\n0 1 1\n0 1 0\n0 1\n", "graph 1 must have a node, got 0"),
        ("1\n-2 1\n", "graph 0 must have a node, got -2"),
        ("0\n", "must begin with the number of its graphs, got 0"),
        ("", "must begin with the number of its graphs, got the end of the file"),
        (" \n", "must begin with the number of its graphs, got"),
        (
            "1\n2 0.5\n0 1 1\n0 1 0\n",
            "must hold 1 graphs in whole numbers, got another word in graph 0$",
        ),
        (
            "2\n1 0\n0 0\n2 0\n0 1 1.5\n",
            "must hold 2 graphs in whole numbers, got another word in graph 1$",
        ),
    ],
)
def test_powerful_gnns_refuses_what_does_not_fit(text, message):
    with pytest.raises(ValueError, match=f"P/P.txt:? {message}"):
        parse_powerful_gnns(text)


def test_powerful_gnns_cut_anywhere():
    text = "2 2 0 0 1 1 0 1 0 3 1 0 1 1 0 2 0 2 0 1 1"
    assert parse_powerful_gnns(text).num_edges == 3
    for end in range(1, len(text), 2):
        graph = int(end >= len("2 2 0 0 1 1 0 1 0"))
        with pytest.raises(ValueError, match=f"must hold 2 graphs .* got the end of the file .* in graph {graph}"):
            parse_powerful_gnns(text[:end])


def test_zip_members_are_read_by_exact_name_and_nothing_is_extracted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = archive({"../T/T_A.txt": "evil", "/T/T_A.txt": "evil", **_TU})
    assert graph_sets.read_member(data, "T/T_A.txt") == _TU["T/T_A.txt"].encode()
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"the archive must hold X.txt, got ../T/T_A.txt"):
        graph_sets.read_member(data, "X.txt")


def test_broken_archives_are_refused():
    data = archive(_TU)
    damaged = bytearray(data)
    damaged[45] ^= 0xFF
    for broken in (b"", data[:50], bytes(damaged)):
        with pytest.raises(ValueError, match="the archive is no readable zip"):
            graph_sets.read_member(broken, "T/T_A.txt")
    with pytest.raises(ValueError, match="T/T_A.txt declares 25 bytes, and 10 are allowed"):
        graph_sets.read_member(data, "T/T_A.txt", max_bytes=10)
