"""The public raw formats, on tiny files: what is read of them, and what is refused by name."""

import collections
import copyreg
import dataclasses
import pickle

import numpy as np
import pytest
import scipy.sparse

from ldp_jax.datasets import _archive, _format, gnn_benchmark, planetoid
from tests.datasets.formats import FORMATS, dumps, planetoid_files, unzipped, zipped


class _OldMatrix:
    """A csr_matrix as protocols 0 and 1 rebuild it."""

    def __init__(self, rows):
        self.matrix = scipy.sparse.csr_matrix(rows)

    def __reduce__(self):
        return copyreg._reconstructor, (scipy.sparse.csr_matrix, object, None), vars(self.matrix)


@pytest.mark.parametrize("matrix", [scipy.sparse.csr_matrix, _OldMatrix])
def test_planetoid(matrix):
    data = FORMATS["planetoid"].read(planetoid_files(matrix))
    assert data.edges.tolist() == [
        [0, 1],
        [2, 3],
        [2, 7],
        [4, 5],
    ]  # repeats, both directions and a loop went
    x = [[1, 0], [0, 1], [1, 1], [0, 0], [0, 1], [3, 0], [0, 0], [0, 2]]
    np.testing.assert_array_equal(data.x.toarray(), x)
    assert data.y.tolist() == [2, 0, 1, 1, 0, 2, 0, 1]  # node 6 has no label and gets class 0
    assert data.extras["split"].tolist() == [1, 2, 2, 2, 2, 3, 2, 3]
    assert data.extras["split"].dtype == np.int8


def test_the_public_split_of_planetoid_has_500_nodes_for_validation_after_those_for_training():
    """Of 20, 700 and 10: the rest of those that are no test nodes are in no part."""
    hot = np.eye(3, dtype=np.int32)[np.arange(710) % 3]
    x = np.eye(3, dtype=np.float32)[np.arange(710) % 3]
    parts = {"x": x[:20], "allx": x[:700], "tx": x[700:]}
    files = {f"ind.t.{part}": dumps(scipy.sparse.csr_matrix(of)) for part, of in parts.items()}
    labels = {"y": hot[:20], "ally": hot[:700], "ty": hot[700:], "graph": {0: [1], 1: [0]}}
    files |= {f"ind.t.{part}": dumps(of) for part, of in labels.items()}
    files["ind.t.test.index"] = "".join(f"{node}\n" for node in range(700, 710)).encode()
    split = planetoid.parse(files, dataset="t")["split"]
    np.testing.assert_array_equal(split, np.repeat([1, 2, 0, 3], [20, 500, 180, 10]))


def test_musae():
    pages, traffic, flags = (FORMATS[name].read() for name in ("pages", "traffic", "flags"))
    for data in (pages, traffic, flags):
        assert data.edges.tolist() == [[0, 1], [1, 2]]
        np.testing.assert_array_equal(data.x.toarray(), [[0, 1, 0, 0, 0], [0] * 5, [1, 0, 0, 1, 0]])
    assert pages.y.tolist() == [1, 1, 0]
    assert not pages.extras  # no account name or id
    assert traffic.y.tolist() == [0, 1, 0]  # above the median, neither at it nor above the mean
    assert traffic.extras["target"].tolist() == [8000, 9000, 10]
    assert traffic.extras["target"].dtype == np.int64
    assert traffic.extras["y_karateclub"].tolist() == [1, 1, 0]
    assert flags.y.tolist() == [0, 1, 1]  # of node 2, listed twice, the last row counts


def test_feather_keeps_the_largest_classes():
    data = FORMATS["feather"].read()
    assert data.edges.tolist() == [
        [0, 1],
        [0, 3],
        [1, 2],
        [2, 3],
    ]  # node 3 went with its class and edge
    np.testing.assert_array_equal(data.x.toarray(), [[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 0, 0]])
    assert data.y.tolist() == [1, 0, 1, 0]
    assert data.extras["orig_id"].tolist() == [0, 1, 2, 4]
    assert data.extras["orig_class"].tolist() == [1, 3]


def test_gnn_benchmark_reads_only_the_arrays_that_it_needs():
    """The rest of the file may be damaged."""
    largest = FORMATS["amazon"].read()
    assert largest.edges.tolist() == [[0, 1], [0, 3], [1, 2]]
    np.testing.assert_array_equal(largest.x.toarray(), np.eye(4, 2))
    members = unzipped(FORMATS["amazon"].files["t.npz"])
    data = zipped({**members, "junk.npy": b"", "text": b""})
    whole = gnn_benchmark.parse({"t.npz": data}, largest_component=False)
    assert whole["edges"].tolist() == [[0, 1], [0, 3], [1, 2], [4, 5]]
    assert whole["y"].tolist() == [0, 1] * 3


@pytest.mark.parametrize(
    ("changes", "edges"),
    [
        ({}, [[0, 1], [2, 4]]),
        ({"A": b"1,2\n3,5\n"}, [[0, 1], [2, 4]]),  # one direction, no spaces
        ({"A": b"1, 2\n2, 1\n1, 2\n"}, [[0, 1]]),  # the last three nodes are isolated
        ({"A": b""}, []),
        ({"A": b"1, 3\n2, 4\n3, 5\n", "indicator": b"2\n1\n2\n1\n2\n"}, [[0, 1], [2, 3], [3, 4]]),
    ],
)
def test_tu(changes, edges):
    data = FORMATS["TU"].read({f"{part}.txt": text for part, text in changes.items()})
    assert (data.edges.tolist(), data.num_features) == (edges, 0)
    assert data.node_graph.tolist() == [0, 0, 1, 1, 1]
    assert data.y.tolist() == [1, 0]  # classes in the order of their values


def test_tu_attributes_follow_their_nodes():
    """Nodes are sorted by graph, so the second and the fourth line come first; attributes need
    declared bounds.
    """
    form = FORMATS["TU attributes"]
    data = form.read()
    np.testing.assert_array_equal(
        data.x, np.float32([[0.1, 1], [0.25, 0.75], [0.5, 0], [0, 0], [1, 1]])
    )
    assert data.extras["node_labels"].tolist() == [6, -1, 7, 7, 0]
    assert data.extras["graph_attributes"].tolist() == [[2.5], [-3]]
    assert data.notes == "Not read: T_edge_labels.txt."
    members = zipped({f"T/{name}": text for name, text in form.files.items()})
    packed = dataclasses.replace(form, files={"T.zip": members}).read()
    np.testing.assert_array_equal(packed.x, data.x)
    assert packed.notes == data.notes
    with pytest.raises(ValueError, match="bounds of the features of t must be declared"):
        _format.build("t", form.parse(form.files))


def test_powerful_gnns():
    form = FORMATS["powerful-gnns"]
    data = form.read()
    assert data.edges.tolist() == [[0, 1], [1, 2], [3, 4]]
    assert data.node_graph.tolist() == [0, 0, 0, 1, 1, 2]
    assert data.y.tolist() == [1, 0, 1]
    text = b"2 2 0 0 1 1 0 1 0 3 1 0 1 1 0 2 0 2 0 1 1"
    for end in range(1, len(text), 2):
        graph = int(end >= len("2 2 0 0 1 1 0 1 0"))
        cut = {"dataset.zip": zipped({"dataset/P/P.txt": text[:end]})}
        with pytest.raises(ValueError, match=f"got the end of the file .* in graph {graph}"):
            form.read(cut)


class _Calls:
    def __reduce__(self):
        return getattr, ([], "append")


@pytest.mark.parametrize(
    ("data", "asked"),
    [
        (b"cos\nsystem\n(S'true'\ntR.", "os.system"),
        (pickle.dumps(_Calls(), 2), "__builtin__.getattr"),
        (pickle.dumps(collections.OrderedDict(), 2), "collections.OrderedDict"),
        (
            b"ccopy_reg\n_reconstructor\n(c__builtin__\nlist\nc__builtin__\nobject\nNtR.",
            "rebuild list",
        ),
        (b"\x80\x03C\x01a.", "protocol 2 or lower"),
        (b"\x80\x04\x8c\x0fnumpy.ndarray.x\x8c\x01y\x93.", "protocol 2 or lower"),
        (b"\x80\x05\x96\x01\x00\x00\x00\x00\x00\x00\x00a.", "protocol 2 or lower"),
        (b"\x80\x02]r\xff\xff\xff\x7f.", "protocol 2 or lower"),  # a table of 2^31 objects
        (b"Pelsewhere\n.", "persistent"),
        *(
            (dumps(np.array(array)), "array that is not of plain numbers")
            for array in ([None], ["a"], [1j])
        ),
        (dumps(np.zeros(1, [("a", "f4")])), "array that is not of plain numbers"),
        (b"cnumpy.core.multiarray\n_reconstruct\n(c__builtin__\nlist\ntR.", "rebuild list"),
    ],
)
def test_a_pickle_that_asks_for_anything_else_is_refused(data, asked):
    with pytest.raises(pickle.UnpicklingError, match=asked):
        planetoid.unpickle(data)


@pytest.mark.parametrize("kind", ["<f4", ">f8", "|i1", ">i4", "<u2", "|b1", "<i8"])
def test_pickled_arrays_of_numbers_come_back_without_numpys_code(kind):
    array = np.array([[0, 1, 1], [1, 0, 100 if kind[1] != "b" else 1]]).astype(kind)
    for given in (array, np.asfortranarray(array)):
        np.testing.assert_array_equal(planetoid.unpickle(dumps(given)).values, array)
    assert planetoid.unpickle(dumps(array[1, 2])) == array[1, 2]


def test_zip_members_are_read_by_exact_name_and_nothing_is_extracted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = zipped({"../T/T_A.txt": b"evil", "/T/T_A.txt": b"evil", "T/T_A.txt": b"1, 2\n"})
    assert _archive.read_member(data, "T/T_A.txt") == b"1, 2\n"
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="T/T_A.txt declares 5 bytes, and 3 are allowed"):
        _archive.read_member(data, "T/T_A.txt", max_bytes=3)
