"""Damaged and hostile files: a ValueError and little memory, whatever is in them; and no word of a
record.
"""

import io
import re
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest

from ldp_jax import datasets
from ldp_jax.datasets import _archive, _format
from tests.datasets.formats import FORMATS, MAX_BYTES, USERS_FORMATS, csr, mutants, npy, npz, zipped

_PEAK = 16 * MAX_BYTES


def peak(call) -> int:
    """Bytes that a call held at most, beyond what was held before."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refused(call, message, error=ValueError):
    """The message of a call that must raise, with those of its causes."""
    with pytest.raises(error, match=message) as caught:
        call()
    return _chain(caught.value)


def _chain(error: BaseException | None) -> str:
    return "" if error is None else f"{error} {_chain(error.__cause__)}{_chain(error.__context__)}"


@pytest.mark.parametrize("name", USERS_FORMATS)
@pytest.mark.parametrize("count", [30, pytest.param(300, marks=pytest.mark.slow)])
def test_damaged_files_raise_value_errors_and_take_little_memory(name, count):
    """Nothing else may be raised, warnings included; what is allocated stays near the limit that
    was set.
    """
    form = FORMATS[name]
    form.read()
    outcomes = []
    damaged = list(mutants(form, 0, count))
    tracemalloc.start()
    try:
        for number, files in enumerate(damaged):
            tracemalloc.reset_peak()
            held = tracemalloc.get_traced_memory()[0]
            try:
                form.read(files)
                outcomes.append(None)
            except Exception as error:
                outcomes.append(type(error))
            taken = tracemalloc.get_traced_memory()[1] - held
            assert taken < _PEAK, f"mutant {number} of {name} took {taken} bytes"
    finally:
        tracemalloc.stop()
    assert set(outcomes) <= {None, ValueError}, (name, outcomes)
    assert outcomes.count(ValueError) > count // 2


# --- archives -------------------------------------------------------------------------------------

_MORE = npy(np.zeros(100))
_SET = {
    "edges.npy": npy(np.array([[0, 1], [1, 2]])),
    "y.npy": npy(np.array([0, 1, 0])),
    "more.npy": _MORE,
}


def declared(data: bytes, **fields) -> bytes:
    """An archive where the directory says something else of its last member."""
    offsets = {"flags": 8, "method": 10, "crc": 16, "packed": 20, "size": 24}
    changed = bytearray(data)
    at = changed.rindex(b"PK\x01\x02")
    for field, value in fields.items():
        struct.pack_into(
            "<H" if field in ("flags", "method") else "<I", changed, at + offsets[field], value
        )
    return bytes(changed)


def claiming(shape, descr="<i8", name="y.npy") -> bytes:
    """A whole archive with an array whose header claims a shape and a type."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    member = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(24)
    return zipped({"edges.npy": _SET["edges.npy"], name: member})


def _y(data: bytes) -> bytes:
    return zipped({**_SET, "y.npy": data})


_WHOLE = zipped(_SET)
_SIZE = len(_MORE)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (declared(_WHOLE, flags=1), "'more.npy'.* is encrypted"),
        (declared(_WHOLE, method=12), "'more.npy' must be stored or deflated, got method 12"),
        (declared(_WHOLE, method=0), "more: "),
        (declared(_WHOLE, size=_SIZE - 8), "more: "),
        (declared(_WHOLE, crc=0), "Bad CRC-32"),
        (declared(_WHOLE, packed=20), "more"),
        (zipped({**_SET, "more": b""}), "'more' is no array"),
        (claiming("(1000000000000,)"), "declares 80000000001\\d\\d bytes"),
        (claiming("(0, 1000000000000)"), "declares 80000000001\\d\\d bytes"),
        (claiming("(0, 1000000000000)", name="more.npy"), "declares 80000000001\\d\\d bytes"),
        (claiming("(99999999999999999999999,)"), "declares"),
        *((claiming(shape), "y: ") for shape in ("(-1,)", "(1.0,)", "[3]", "(" * 200, "(3")),
        (claiming("(3,)", "|O"), "pickled objects, which are never read .allow_pickle=False"),
        (claiming("(3,)", "nonsense"), "y: "),
        (claiming("(3,)", "|V8"), "y must be integers"),
        (claiming("(2,)"), "more bytes than its shape"),
        (_y(b"\x93NUMPY\x01\x00\xff\xff"), "y: "),
        (_y(b"nothing"), "magic"),
        (npz(edges=[[0, 1]], y=np.array([{}, None], object)), "allow_pickle=False"),
        *(
            (data, "is no readable .npz of plain")
            for data in (b"", b"no zip at all", _WHOLE[:400], _MORE)
        ),
    ],
)
def test_an_archive_that_lies_is_refused(tmp_path, data, message):
    path = tmp_path / "mine.npz"
    path.write_bytes(data)
    assert peak(lambda: refused(lambda: datasets.load(path), f"mine.npz.*({message})")) < 2**20


def test_a_member_inflates_to_its_declared_size_and_no_further():
    """64 MiB of zeros that declare 25 bytes, with the checksum of those."""
    data = declared(zipped({"T/T_A.txt": bytes(2**26)}), size=25, crc=zlib.crc32(bytes(25)))
    assert peak(lambda: _archive.read_member(data, "T/T_A.txt")) < 2**23
    assert _archive.read_member(data, "T/T_A.txt") == bytes(25)
    shorter = declared(zipped({"T/T_A.txt": bytes(25)}), size=26)
    refused(lambda: _archive.read_member(shorter, "T/T_A.txt"), "1 bytes fewer than it declares")


@pytest.mark.usefixtures("untyped")
def test_sizes_are_compared_before_anything_is_inflated(tmp_path, monkeypatch):
    """An array that nothing needs, 64 MiB in 64 KiB; the limit is an argument, the message names
    both sizes.
    """
    path = tmp_path / "mine.npz"
    np.savez_compressed(path, edges=[[0, 1], [1, 2]], y=[0, 1, 0], junk=np.zeros(2**23))
    total = sum(info.file_size for info in zipfile.ZipFile(path).infolist())
    message = rf"junk .* declares {total} bytes, and {2**20} are allowed"
    assert peak(lambda: refused(lambda: datasets.load(path, max_bytes=2**20), message)) < 2**21
    message = f"mine.npz has {path.stat().st_size} bytes, and 100 are allowed"
    refused(lambda: datasets.load(path, max_bytes=100), message)
    for wrong in (0, 1.5, "1"):
        refused(
            lambda wrong=wrong: datasets.load(path, max_bytes=wrong),
            "max_bytes must be a whole number >= 1",
        )
    assert datasets.load(path, max_bytes=total).extras["junk"].shape == (2**23,)
    monkeypatch.setattr(_archive.npy, "read_array", None)
    refused(lambda: datasets.load(path, max_bytes=total - 1), "are allowed")


def test_sets_of_graphs_keep_the_limit_too(tmp_path):
    files = {
        "T_A.txt": b"1, 2\n" * 100_000,
        "T_graph_indicator.txt": b"1\n1\n",
        "T_graph_labels.txt": b"0\n",
    }
    (tmp_path / "T").mkdir()
    for name, data in files.items():
        (tmp_path / "T" / name).write_bytes(data)
    (tmp_path / "T.zip").write_bytes(zipped(files))
    for path in (tmp_path / "T", tmp_path / "T.zip"):
        message = "T_A.txt .* 500000 bytes, and 10000 are allowed"
        refused(lambda path=path: datasets.load(path, max_bytes=10_000), message)
        assert datasets.load(path).num_edges == 1


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_come_back_as_they_were_saved(save):
    fortran = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    empty = np.zeros((0, 3), np.int8)
    arrays = [
        fortran,
        empty,
        np.arange(6, dtype=">i2"),
        np.array(["ab", "ç"]),
        np.array(True),
        np.arange(300_000),
    ]
    buffer = io.BytesIO()
    save(buffer, *arrays)
    back = _archive.read_arrays(buffer.getvalue())
    assert list(back) == [f"arr_{place}" for place in range(len(arrays))]
    for found, array in zip(back.values(), arrays, strict=True):
        np.testing.assert_array_equal(found, array, strict=True)
        assert found.flags.writeable


# --- sizes inside the formats ---------------------------------------------------------------------


def test_one_dense_record_must_fit_the_limit(tmp_path):
    """10^9 features in a file of a kilobyte: as many bytes for every row that a mechanism asks
    for.
    """
    sparse = {
        "x_indptr": [0, 1, 1],
        "x_indices": [5],
        "x_values": [1.0],
        "x_shape": [2, 10**9],
        "y": [0, 1],
    }
    (tmp_path / "wide.npz").write_bytes(npz(edges=[[0, 1]], x_lower=0.0, x_upper=1.0, **sparse))
    message = "1000000000 features: one dense record has 4000000000 bytes, and 2147483648"
    refused(lambda: datasets.load(tmp_path / "wide.npz"), message)
    less = "one dense record has 4000000000 bytes, and 100000 are allowed"
    refused(lambda: datasets.load(tmp_path / "wide.npz", max_bytes=100_000), less)


# --- messages -------------------------------------------------------------------------------------

_RECORD = np.zeros((3, 9))
_RECORD[2, 7] = 0.8125
_PRIVATE = {"edges": [[0, 1]], **csr("x", _RECORD), "x_lower": 0.0, "x_upper": 1.0, "y": [0, 1, 1]}
_PRIVATE["x_values"] = _PRIVATE.pop("x_data")


@pytest.mark.parametrize(
    "changes",
    [
        {"x_upper": 0.5}, {"x_lower": 0.5}, {"x_values": [-0.8125]}, {"x_values": [np.nan]},
        {"x_values": [np.inf]}, {"x_shape": [3, 7]}, {"y": [0, 1, 77]}, {"y": [0, 1, -77]},
        {"x_indptr": [0, 0, 0, 2], "x_indices": [7, 7], "x_values": [0.8125, 0.8125]},
        {"y": [0, 2, 2]}, {"y": [0, 1, 7.7]}, {"y": [0, 1, 2**40 + 77]}, {"y": [[0], [1], [77]]},
        {"x_indices": [2**40]}, {"x_indices": [7.5]}, {"x_indices": [-7]},
    ],
)  # fmt: skip
def test_no_message_holds_a_record(tmp_path, changes):
    """Neither its value, nor its column, nor its row, whatever breaks its format."""
    path = tmp_path / "mine.npz"
    path.write_bytes(npz(**_PRIVATE))
    assert datasets.load(path).num_nodes == 3
    path.write_bytes(npz(**_PRIVATE | changes))
    text = refused(lambda: datasets.load(path), "mine.npz: (x|y)")
    text = text.replace(str(path), "").replace("[0, 7)", "")
    assert not re.search(r"77|7\.|81|nan|inf\b|row \d|column \d|node \d|\b2 ", text), text


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *(
            ("TU", {"labels.txt": labels})
            for labels in (b"1\nsecret\n", b"1\n4321.5\n", b"1\n%d4321\n" % 10**20)
        ),
        *(
            ("powerful-gnns", {"zip": zipped({"P/P.txt": text})})
            for text in (b"1 1 secret 0 0", b"1 1 1 0 0 4321")
        ),
    ],
)
def test_no_message_of_a_raw_format_holds_a_label_or_an_attribute(name, changes):
    assert not re.search("secret|4321|0xe7", refused(lambda: FORMATS[name].read(changes), "."))


# --- bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bounds",
    [
        (-1e308, 1e308), (0, 1e39), (-3.4e38, 3.4e38), (-1e38, 1e38), (0, 1e-40), (0, 1e-300),
        (1, 1), (1, 0), (0, np.inf), (np.nan, 1), (0, 10**400), (0, None), ("0", "1"),
        (False, True), (0, 1j), ([0], [1]), (0,), (0, 1, 2), 5, "01",
    ],
)  # fmt: skip
@pytest.mark.usefixtures("untyped")
def test_bounds_by_which_float32_cannot_scale_are_refused(tmp_path, bounds):
    (tmp_path / "mine.npz").write_bytes(npz(**_PRIVATE))
    refused(
        lambda: datasets.load(tmp_path / "mine.npz", bounds=bounds), "bounds? (of mine )?must be"
    )


@pytest.mark.parametrize("bounds", [(-8e37, 8e37), (0, 2e-38), (1e8, 1e8 + 2**14), (-1, 1)])
def test_records_are_finite_within_all_bounds_that_are_accepted(bounds):
    x = np.array([*bounds, bounds[0] / 2 + bounds[1] / 2], np.float32)[:, None]
    arrays = {"edges": np.array([[0, 1]]), "y": np.zeros(3, int), "x": x}
    rows = _format.build("t", arrays, bounds=bounds).scaled_rows(0, 3)
    np.testing.assert_allclose(rows.ravel(), [-1, 1, 0], atol=1e-6)
