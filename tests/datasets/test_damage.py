"""Damaged and hostile files: a ValueError and little memory, whatever is in them."""

import io
import pickle
import re
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest
import scipy.sparse

from ldp_jax import datasets
from ldp_jax.datasets import _archive, _arrays, _format, feather, gnn_benchmark, graph_sets, musae, planetoid
from tests.datasets.mutations import FORMATS, MAX_BYTES, dumps, mutants

_PEAK = 16 * MAX_BYTES


def peak(call) -> int:
    """Bytes that a call held at most, beyond what was held before."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("count", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_damaged_files_raise_value_errors_and_take_little_memory(name, count):
    """Nothing else may be raised, warnings included; what is allocated stays near the limit that was set."""
    form = FORMATS[name]
    form.read(form.files)
    refused = 0
    damaged = list(mutants(form, 0, count))
    tracemalloc.start()
    try:
        for number, files in enumerate(damaged):
            tracemalloc.reset_peak()
            held = tracemalloc.get_traced_memory()[0]
            try:
                form.read(files)
            except ValueError:
                refused += 1
            except BaseException as error:
                raise AssertionError(f"mutant {number} of {name} raised {type(error).__name__}: {error}") from error
            taken = tracemalloc.get_traced_memory()[1] - held
            assert taken < _PEAK, f"mutant {number} of {name} took {taken} bytes"
    finally:
        tracemalloc.stop()
    assert refused > count // 2


# --- archives -----------------------------------------------------------------------------------------------


def npy(array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def zipped(*members, method=zipfile.ZIP_DEFLATED) -> bytearray:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return bytearray(buffer.getvalue())


_SET = (
    ("edges.npy", npy(np.array([[0, 1], [1, 2]]))),
    ("y.npy", npy(np.array([0, 1, 0]))),
    ("more.npy", npy(np.zeros(100))),
)


def declared(**fields) -> bytes:
    """The archive of ``_SET`` where the directory says something else of its last member."""
    places = {"flags": (8, "<H"), "method": (10, "<H"), "crc": (16, "<I"), "packed": (20, "<I"), "size": (24, "<I")}
    data = zipped(*_SET)
    at = data.rindex(b"PK\x01\x02")
    for field, value in fields.items():
        offset, kind = places[field]
        struct.pack_into(kind, data, at + offset, value)
    return bytes(data)


def two_alike() -> bytes:
    return bytes(zipped(*_SET, ("mora.npy", npy(np.ones(100)))).replace(b"mora", b"more"))


def overlapping() -> bytes:
    """The second member begins where the first does: the bytes of one count twice."""
    data = zipped(("a.npy", _SET[2][1]), ("b.npy", _SET[2][1]))
    struct.pack_into("<I", data, data.rindex(b"PK\x01\x02") + 42, 0)
    return bytes(data)


_SIZE = len(_SET[2][1])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (two_alike(), "two members 'more.npy'"),
        (overlapping(), "'b.npy' shares its bytes with another"),
        (declared(flags=1), "'more.npy' is encrypted"),
        (declared(method=12), "'more.npy' must be stored or deflated, got method 12"),
        (declared(method=99), "'more.npy' must be stored or deflated, got method 99"),
        (declared(method=0), "more: it does not begin as an .npy does"),
        (declared(size=_SIZE + 8), "must have 928 bytes for its shape"),
        (declared(size=_SIZE - 8), "must have 928 bytes for its shape"),
        (declared(crc=0), "does not have its checksum"),
        (declared(packed=20), "more"),
        (declared(packed=10**6), "'more.npy' is cut short"),
        (bytes(zipped(*_SET, ("more", b""))), "'more' is no array"),
    ],
)
def test_an_archive_whose_directory_lies_is_refused(tmp_path, data, message):
    path = tmp_path / "mine.npz"
    path.write_bytes(bytes(zipped(*_SET)))
    assert datasets.load(path).num_edges == 2
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"mine.npz is no readable .npz of plain arrays .*{message}"):
        datasets.load(path)


def test_a_member_that_inflates_past_its_declared_size_is_stopped_there():
    """64 MiB of zeros that declare 25 bytes, with the checksum of those: stopped after one piece."""
    data = zipped(("T/T_A.txt", bytes(2**26)))
    at = data.rindex(b"PK\x01\x02")
    struct.pack_into("<I", data, at + 24, 25)
    struct.pack_into("<I", data, at + 16, zlib.crc32(bytes(25)))

    def read():
        with pytest.raises(ValueError, match="has more than the 25 bytes that it declares"):
            _archive.read_member(bytes(data), "T/T_A.txt")

    assert peak(read) < 2**23
    shorter = zipped(("T/T_A.txt", bytes(25)))
    struct.pack_into("<I", shorter, shorter.rindex(b"PK\x01\x02") + 24, 26)
    with pytest.raises(ValueError, match="declares 26 bytes and has 25"):
        _archive.read_member(bytes(shorter), "T/T_A.txt")


@pytest.mark.usefixtures("untyped")
def test_sizes_are_compared_before_anything_is_inflated(tmp_path, monkeypatch):
    """An array that nothing needs, 64 MiB in 64 KiB; the limit is an argument, the message names both sizes."""
    path = tmp_path / "mine.npz"
    np.savez_compressed(path, edges=[[0, 1], [1, 2]], y=[0, 1, 0], junk=np.zeros(2**23))
    assert path.stat().st_size < 2**17
    total = sum(info.file_size for info in zipfile.ZipFile(path).infolist())

    def load():
        with pytest.raises(ValueError, match=rf"declares {total} bytes, and {2**20} are allowed .max_bytes=.*junk"):
            datasets.load(path, max_bytes=2**20)

    assert peak(load) < 2**21
    with pytest.raises(ValueError, match=f"mine.npz has {path.stat().st_size} bytes, and 100 are allowed"):
        datasets.load(path, max_bytes=100)
    for wrong in (0, 1.5, "1"):
        with pytest.raises(ValueError, match="max_bytes must be a whole number >= 1"):
            datasets.load(path, max_bytes=wrong)
    assert datasets.load(path, max_bytes=total).extras["junk"].shape == (2**23,)
    monkeypatch.setattr(_archive, "MAX_BYTES", 0)  # what was read is not asked for again
    monkeypatch.setattr(_archive.Archive, "pieces", None)
    with pytest.raises(ValueError, match="are allowed"):
        datasets.load(path, max_bytes=total - 1)


def test_sets_of_graphs_keep_the_limit_too(tmp_path):
    text = "1, 2\n" * 100_000
    files = {"A": text, "graph_indicator": "1\n1\n", "graph_labels": "0\n"}
    (tmp_path / "T").mkdir()
    for part, data in files.items():
        (tmp_path / "T" / f"T_{part}.txt").write_text(data)
    (tmp_path / "T.zip").write_bytes(bytes(zipped(*((f"T_{part}.txt", data) for part, data in files.items()))))
    for path in (tmp_path / "T", tmp_path / "T.zip"):
        with pytest.raises(ValueError, match=f"T_A.txt .* {len(text)} bytes, and 10000 are allowed"):
            datasets.load(path, max_bytes=10_000)
        assert datasets.load(path).num_edges == 1


def claiming(shape, descr="<i8", name="y.npy") -> bytes:
    """A whole archive with an array whose header claims a shape and a type."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    member = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(24)
    return bytes(zipped(_SET[0], (name, member)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (claiming("(1000000000000,)"), "declares 80000000001\\d\\d bytes"),
        (claiming("(0, 1000000000000)"), "declares 80000000001\\d\\d bytes"),
        (claiming("(0, 1000000000000)", name="more.npy"), "declares 80000000001\\d\\d bytes"),
        (claiming("(99999999999999999999999,)"), "declares"),
        (claiming("(-1,)"), "its shape must be"),
        (claiming("(1.0,)"), "its shape must be"),
        (claiming("(True,)"), "its shape must be"),
        (claiming("[3]"), "its shape must be"),
        (claiming("(1,)" * 50), "its header is damaged|its shape must be"),
        (claiming("(" * 200), "its header is damaged"),
        (claiming("(3"), "its header is damaged"),
        (claiming("(3,)", "|O"), "pickled objects, which are never read"),
        (claiming("(3,)", "O8"), "pickled objects, which are never read"),
        (claiming("(3,)", "nonsense"), "one plain type"),
        (claiming("(3,)", "<U0"), "must have a size|one plain type"),
        (claiming("(3,)", "|V8"), "one plain type"),
        (claiming("(2,)"), "must have 8[0-9] bytes|must have 9[0-9] bytes"),
        (bytes(zipped(_SET[0], ("y.npy", b"\x93NUMPY\x01\x00\xff\xff"))), "its header is cut short"),
        (bytes(zipped(_SET[0], ("y.npy", b"nothing"))), "does not begin as an .npy does"),
    ],
)
def test_headers_that_claim_the_impossible_are_refused(tmp_path, data, message):
    path = tmp_path / "mine.npz"
    path.write_bytes(data)

    def load():
        with pytest.raises(ValueError, match=f"mine.npz.*({message})"):
            datasets.load(path)

    assert peak(load) < 2**20


def test_arrays_come_back_as_they_were_saved(tmp_path):
    arrays = {
        "a": np.arange(6, dtype=">i2").reshape(2, 3),
        "b": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "c": np.array(["ab", "ç"]),
        "d": np.array(True),
        "e": np.zeros((0, 3), np.int8),
        "f": np.array([1 + 2j], np.complex64),
        "g": np.arange(300_000),
    }
    for save in (np.savez, np.savez_compressed):
        buffer = io.BytesIO()
        save(buffer, **arrays)
        back = _archive.read_arrays(buffer.getvalue(), "t")
        assert list(back) == list(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(back[name], array, strict=True)
            assert back[name].flags.writeable


def test_only_the_arrays_that_are_needed_are_touched():
    """The rest of a file of gnn-benchmark may be damaged, or larger than the limit."""
    (data,) = FORMATS["gnn_benchmark"].files.values()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    data = bytes(zipped(*members, ("junk.npy", bytes(2**21)), ("text", b"")))
    arrays = gnn_benchmark.parse({"t.npz": data}, largest_component=False, max_bytes=2**16)
    assert len(arrays["y"]) == 8
    with pytest.raises(ValueError, match=r"t.npz is no readable .npz .* the array labels is missing"):
        gnn_benchmark.parse({"t.npz": bytes(zipped(*members[:-2]))}, largest_component=False)


# --- sizes and ids inside the formats -----------------------------------------------------------------------


def test_one_dense_record_must_fit_the_limit(tmp_path):
    """10^9 features in a file of a kilobyte: as many bytes for every row that a mechanism asks for."""
    sparse = {"x_indptr": [0, 1, 1], "x_indices": [5], "x_values": [1.0], "x_shape": [2, 10**9], "y": [0, 1]}
    np.savez(tmp_path / "wide.npz", edges=[[0, 1]], x_lower=0.0, x_upper=1.0, **sparse)
    with pytest.raises(
        ValueError, match="1000000000 features: one dense record has 4000000000 bytes, and 2147483648"
    ):
        datasets.load(tmp_path / "wide.npz")


def test_whole_numbers_are_not_cut_to_64_bits():
    for text in (
        b"1 99999999999999999999",
        b"-99999999999999999999",
        b"9223372036854775807",
        b"-9223372036854775808",
    ):
        with pytest.raises(ValueError, match="whole numbers must be in"):
            _arrays.whole_numbers(text)
    assert _arrays.whole_numbers(b"9223372036854775806 -9223372036854775807").tolist() == [2**63 - 2, 2 - 2**63 - 1]
    assert _arrays.whole_numbers(b" \n").tolist() == []
    with pytest.raises(ValueError, match="another word in graph 0"):
        graph_sets.parse_powerful_gnns({"P.txt": b"1 1 99999999999999999999 0 0"}, dataset="P")


@pytest.mark.parametrize(
    "line", ["1, 2\x0c3\n", "1, 2\r3, 4\n", "1, 2,\n", "1,, 2\n", "1 2\n", "1, 2\x85\n", "1,\n2\n"]
)
def test_lines_that_are_no_pairs_are_refused_by_number(line):
    """Some were whole lines to one reader and none to the other, and ended in a StopIteration."""
    with pytest.raises(ValueError, match="each line of f must hold 2 whole numbers .* for edge 3$"):
        _arrays.table(b"1, 2\n\n\x0c 3,4\r\n" + line.encode("latin1"), "f", "edge", 2)


def csr(rows=5, **changes):
    matrix = scipy.sparse.csr_matrix(np.eye(rows, 2, dtype=np.float32))
    state = vars(matrix)
    for name, value in changes.items():
        state[name] = value(state[name].copy()) if callable(value) else value
    return matrix


def put(at, value):
    def change(array):
        array[at] = value
        return array

    return change


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (csr(indptr=put(-1, 10**9)), "indptr"),
        (csr(indptr=put(2, -5)), "indptr must be 6 numbers that start at 0 and never fall"),
        (csr(indptr=put(2, 10**9)), "indptr must be"),
        (csr(indices=put(0, 10**9)), r"indices must be columns in \[0, 2\)"),
        (csr(indices=put(0, -(10**9))), r"indices must be columns in \[0, 2\)"),
        (csr(indptr=np.arange(3, dtype=np.int32)), "indptr must be 6 numbers"),
        (csr(data=np.ones(1, np.float32)), "indices and ind.tiny.allx data must be as long as"),
        (csr(_shape=(10**9, 2)), "indptr must be 1000000001 numbers"),
        (csr(_shape=(5, 2**40)), "must have at most 2147483647 columns"),
        (csr(_shape=(5, -1)), "shape must be two sizes"),
        (csr(_shape=(5,)), "shape must be two sizes"),
        (csr(_shape=(2**70, 2)), "must have a shape of two sizes"),
        (csr(_shape=("5", 2)), "must have a shape of two sizes"),
        (csr(_shape=None), "must have a shape of two sizes"),
        (csr(indices=np.array([0.0, 1.0])), "indices must be integers"),
        (csr(data=[1, 2]), r"\(data\) is no array of numbers"),
        (csr(data=np.array([{}, None])), "is no pickle of arrays: pickle asks for an array of something other"),
        (3, "is no sparse matrix"),
    ],
)
def test_a_damaged_sparse_matrix_never_reaches_scipy(matrix, message):
    files = {**FORMATS["planetoid"].files, "ind.tiny.allx": dumps(matrix)}
    with pytest.raises(ValueError, match=f"ind.tiny.allx.*{message}"):
        planetoid.parse(files, dataset="tiny")


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ({0: [10**9 * 5]}, r"whole numbers in \[0, 2\*\*31\)"),
        ({0: ["1"]}, "whole numbers in"),
        ({None: [1]}, "whole numbers in"),
        ({0: 3}, "must be a dict of lists"),
        ([[1]], "must be a dict of lists"),
        (dict.fromkeys(range(5000), [0] * 5000), "must have a list of its own for every node"),
    ],
)
def test_a_graph_that_is_no_dict_of_lists_is_refused(graph, message):
    files = {**FORMATS["planetoid"].files, "ind.tiny.graph": dumps(graph)}
    with pytest.raises(ValueError, match=f"ind.tiny.graph .*{message}"):
        planetoid.parse(files, dataset="tiny")


def test_node_ids_are_compared_with_what_is_there_before_arrays_are_made():
    files = FORMATS["planetoid"].files

    def parse(index):
        with pytest.raises(ValueError, match=r"test.index must leave out fewer nodes than allx and tx have \(7\)"):
            planetoid.parse({**files, "ind.tiny.test.index": index}, dataset="tiny")

    assert peak(lambda: parse(b"7\n1000000000\n")) < 2**20
    target = b"id,target\n0,3\n1,1000000000\n2,3\n3,0\n4,1\n"
    parsed = {}
    held = peak(
        lambda: parsed.update(
            feather.parse(
                {**FORMATS["feather"].files, "lastfm_asia_target.csv": target}, num_features=5, keep_classes=2
            )
        )
    )
    assert held < 2**20
    assert parsed["orig_class"].tolist() == [0, 3]


def reduced(function: bytes, arguments: bytes, state: bytes = b"") -> bytes:
    return b"c" + function + b"\n" + arguments + b"R" + state + b"."


@pytest.mark.parametrize(
    "data",
    [
        # A place 2^31 in the memo, for which the unpickler in C makes room.
        b"N" + b"r" + struct.pack("<I", 2**31 - 1) + b".",
        # A byte array that says it has 2^33 bytes.
        b"\x80\x05\x96" + struct.pack("<Q", 2**33) + b"a.",
        # An array of 2^40 bytes, before anything fills it.
        reduced(b"numpy.core.multiarray\n_reconstruct", b"(I1\n(I1099511627776\ntS'b'\nt"),
        # Types with a state that numpy believes: objects where there are bytes, a size of 2^30.
        reduced(b"numpy\ndtype", b"(S'O8'\nI0\nI1\nt"),
        reduced(b"numpy\ndtype", b"(S'V8'\nI0\nI1\nt", b"(I3\nS'|'\nN(S'a'\nt}I1073741824\nI1\nI63\ntb"),
        reduced(b"numpy\ndtype", b"(S'f4'\nI0\nI1\nt", b"(I3\nS'|'\nN(S'a'\nt}I8\nI1\nI63\ntb"),
        reduced(b"numpy\ndtype", b"(]I0\nI1\nt"),
        reduced(b"numpy.core.multiarray\nscalar", b"(I1\nS'a'\nt"),
    ],
)
def test_a_pickle_is_not_believed(data):
    def parse():
        with pytest.raises(ValueError, match=r"ind.tiny.allx (is no|must)"):
            planetoid.parse({**FORMATS["planetoid"].files, "ind.tiny.allx": data}, dataset="tiny")

    assert peak(parse) < 2**20


def test_the_arrays_of_a_pickle_are_made_of_checked_bytes():
    for array in (np.eye(2, 3, dtype=">i2"), np.asfortranarray(np.eye(3, 2)), np.zeros((0, 2), np.uint8)):
        np.testing.assert_array_equal(planetoid._array(planetoid.unpickle(dumps(array), "a"), "a", 2), array)
    short = dumps(np.arange(300, dtype=np.int32)).replace(struct.pack("<i", 299), b"")
    assert pickle.BINSTRING in short
    longer = dumps(np.zeros(4, np.int32)).replace(b"K\x04\x85", b"K\x05\x85")
    for data in (short, longer):
        with pytest.raises(ValueError, match="a is no (array of numbers|pickle of arrays)"):
            planetoid._array(planetoid.unpickle(data, "a"), "a", 1)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (b"[" * 100_000, "must be one JSON object"),
        (b"[]", "must be one JSON object"),
        (b'{"0": 3}', "lists of whole numbers"),
        (b'{"0": [1.5]}', "lists of whole numbers"),
        (b'{"0": [true]}', "lists of whole numbers"),
        (b'{"0": ["1"]}', "lists of whole numbers"),
        (b'{"0": {"1": 2}}', "lists of whole numbers"),
        (b'{"x": [1]}', "node ids of the features must be whole numbers"),
        (b'{"0": [1], "00": [2]}', "name each node once, got 0 twice"),
        (b'{"0": [1], "0": [2]}', "name each node once, got 0 twice"),
        (b'{"1000000000": [1]}', r"must be in \[0, 5\), got 1000000000"),
    ],
)
def test_features_that_are_no_lists_by_node_are_refused(features, message):
    with pytest.raises(ValueError, match=message):
        musae.attribute_lists(features, 5)


@pytest.mark.parametrize(
    "target",
    [b"", b"id\n1\n", b"id,target\n0\n", b"id,target\n0,1.5\n", b"id,target\n0,\xff\n", b'id,target\n0,"1\n2"\n'],
)
def test_tables_that_lack_a_value_are_refused(target):
    with pytest.raises(ValueError, match="table of nodes|target must be whole numbers"):
        musae.parse({**FORMATS["musae"].files, "t_target.csv": target}, stem="t", label="traffic", num_features=5)


# --- messages -----------------------------------------------------------------------------------------------


def private_files():
    """Every way in which a record can break its format, and what of the record no message may hold."""
    x = np.zeros((3, 9))
    x[2, 7] = 0.8125
    matrix = scipy.sparse.csr_array(x)
    good = {
        "edges": [[0, 1]], "x_indptr": matrix.indptr, "x_indices": matrix.indices, "x_values": matrix.data,
        "x_shape": matrix.shape, "x_lower": 0.0, "x_upper": 1.0, "y": [0, 1, 1],
    }  # fmt: skip
    return good, (
        {"x_upper": 0.5}, {"x_lower": 0.5}, {"x_values": [-0.8125]}, {"x_values": [np.nan]}, {"x_values": [np.inf]},
        {"x_shape": [3, 7]}, {"x_indptr": [0, 0, 0, 2], "x_indices": [7, 7], "x_values": [0.8125, 0.8125]},
        {"y": [0, 1, 77]}, {"y": [0, 1, -77]}, {"y": [0, 2, 2]}, {"y": [0, 1, 7.7]}, {"y": [0, 1, 2**40 + 77]},
        {"y": [[0], [1], [77]]}, {"x_indices": [2**40]}, {"x_indices": [7.5]}, {"x_indices": [-7]},
    )  # fmt: skip


def chain(error: BaseException | None) -> str:
    return "" if error is None else f"{error} {chain(error.__cause__)}{chain(error.__context__)}"


def test_no_message_holds_a_record(tmp_path):
    """Neither its value, nor its column, nor its row."""
    good, bad = private_files()
    path = tmp_path / "mine.npz"
    np.savez(path, **good)
    assert datasets.load(path).num_nodes == 3
    for changes in bad:
        np.savez(path, **{**good, **changes})
        with pytest.raises(ValueError, match="mine.npz: (x|y)") as caught:
            datasets.load(path)
        text = chain(caught.value).replace(str(path), "").replace("[0, 7)", "")
        assert not re.search(r"77|7\.|81|nan|inf\b|row \d|column \d|node \d|\b2 ", text), (changes, text)


def test_no_message_of_a_raw_format_holds_a_label_or_an_attribute():
    files = FORMATS["musae"].files
    for name, data, options in (
        ("t_target.csv", b"id,target\n0,secret\n", {"label": "traffic"}),
        ("t_target.csv", b"id,target\n0,\xe7ecret\n", {"label": "traffic"}),
        ("t_target.csv", b"mature,new_id\nsecret,0\n", {"label": "mature"}),
        ("t.json", b'{"0": ["secret"]}', {"label": "traffic"}),
        ("t.json", b'{"0": [secret]}', {"label": "traffic"}),
        ("t.json", b'{"0": [4321]}', {"label": "traffic"}),
    ):
        with pytest.raises(ValueError, match=".") as caught:
            musae.parse({**files, name: data}, stem="t", num_features=5, **options)
        assert not re.search("secret|4321|0xe7", chain(caught.value))
    for labels in ("1\nsecret\n", "1\n4321.5\n", f"1\n{10**20}4321\n"):
        with pytest.raises(ValueError, match="T_graph_labels.txt must hold one whole number") as caught:
            graph_sets.parse_tu({**FORMATS["TU"].files, "T_graph_labels.txt": labels.encode()}, dataset="T")
        assert not re.search("secret|4321", chain(caught.value))
    for text in (b"1 1 secret 0 0", b"1 1 1 0 0 4321"):
        with pytest.raises(ValueError, match="P/P.txt must") as caught:
            graph_sets.parse_powerful_gnns({"P.txt": text}, dataset="P")
        assert not re.search("secret|4321", chain(caught.value))


# --- bounds -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bounds",
    [
        (-1e308, 1e308), (0, 1e39), (-3.4e38, 3.4e38), (-1e38, 1e38), (1e8, 1e8 + 1), (0, 1e-40), (0, 1e-300),
        (1, 1), (1, 0), (0, np.inf), (np.nan, 1), (0, 10**400), (0, None), ("0", "1"), (False, True), (0, 1j),
        ([0], [1]), (0,), (0, 1, 2), 5, "01",
    ],
)  # fmt: skip
@pytest.mark.usefixtures("untyped")
def test_bounds_by_which_float32_cannot_scale_are_refused(tmp_path, bounds):
    path = tmp_path / "mine.npz"
    arrays = {"x_indptr": [0, 0, 1], "x_indices": [0], "x_values": [1.0], "x_shape": [2, 2]}
    np.savez(path, edges=[[0, 1]], y=[0, 1], **arrays)
    with pytest.raises(ValueError, match="bounds (of mine )?must be"):
        datasets.load(path, bounds=bounds)


@pytest.mark.parametrize("bounds", [(-8e37, 8e37), (0, 2e-38), (1e8, 1e8 + 16), (-1, 1)])
def test_records_are_finite_within_all_bounds_that_are_accepted(bounds):
    x = np.array([[bounds[0]], [bounds[1]], [np.float32(bounds[0] / 2 + bounds[1] / 2)]], np.float32)
    arrays = {"edges": np.array([[0, 1]]), "y": np.array([0, 0, 0]), **_arrays.csr_arrays(x + np.float32(0))}
    if bounds[0] > 0:
        arrays["x_values"] = x.ravel()
    rows = _format.build("t", arrays, "t", bounds=bounds).scaled_rows(0, 3)
    np.testing.assert_allclose(rows.ravel(), [-1, 1, 0], atol=1e-6)
