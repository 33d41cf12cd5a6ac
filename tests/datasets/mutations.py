"""Damaged files of every format that is read, from a seed: the same seed gives the same damage.

``FORMATS`` has, for each format, whole files and how to read them. ``mutants`` damages them as a disk, a cut
download or a careless hand would (bytes), as a program would (numbers, arrays, headers, directories) and as an
enemy would (sizes that lie).
"""

import dataclasses
import io
import json
import pickle
import re
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import scipy.sparse

from ldp_jax.datasets import Dataset, _archive, _format, feather, gnn_benchmark, graph_sets, musae, planetoid, ppi

Files = Mapping[str, bytes]
MAX_BYTES = 2**20
_NUMBERS = (
    b"-1", b"0", b"1", b"3", b"+2", b"1000000000", b"1000000000000", b"99999999999999999999",
    b"9223372036854775807", b"-9223372036854775808", b"1.5", b"nan", b"", b"x", b"1e5", b"0x1", b"1_0", b"1,2",
    b'"', b"\x00", b"\x0c", b"\x85",
)  # fmt: skip
_SHAPES = ("(0, 1000000000000)", "(1000000000000,)", "(1000000000, 0)", "(-1,)", "(2,)", "()", "(1.5,)", "('a',)")
_SHAPES += ("(99999999999999999999,)", "(True,)", "(3, 2", "[3, 2]", "((3,), 2)", "(" * 300, "None", "{}")
_DTYPES = ("<i4", "<i2", ">i8", "<u8", "<f8", "|b1", "<c16", "|O", "<U2", "<U0", "|S9999999", "<M8[s]", "|V8", "x")
_ARRAYS = (
    np.array([-1]), np.array([2**40]), np.array([2**63 - 1]), np.array([2**64 - 1], np.uint64), np.array([np.nan]),
    np.array([1e300]), np.array([1j]), np.array([True]), np.array(["a"]), np.array([b"a"]), np.array(7),
    np.array([]), np.zeros((0, 2), int), np.zeros((2, 0), int), np.zeros((2, 2, 2), int),
    np.array([np.datetime64(1, "s")]),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Format:
    """Whole files, how to read them, and what kind of damage suits them."""

    files: Files
    read: Callable[[Files], Any]
    damage: Callable[[np.random.Generator, Files], Files] | None = None


class _Python2Pickler(pickle._Pickler):
    """Writes protocol 2 as Python 2 did: bytes as its str, which Python 3 would write as a call."""

    dispatch = pickle._Pickler.dispatch.copy()

    def save_bytes(self, data):
        self.write(pickle.BINSTRING + len(data).to_bytes(4, "little") + data)

    dispatch[bytes] = save_bytes


def dumps(value) -> bytes:
    """The bytes that Python 2 with the NumPy and SciPy of its time would have written."""
    buffer = io.BytesIO()
    _Python2Pickler(buffer, 2).dump(value)
    renamed = buffer.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    return renamed.replace(b"scipy.sparse._csr\n", b"scipy.sparse.csr\n")


def _saved(arrays: Mapping[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=True, **arrays)
    return buffer.getvalue()


def _zipped(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def _unzipped(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _build(arrays: Mapping[str, np.ndarray]) -> Dataset:
    return _format.build("t", arrays, "t", bounds=(0, 4))


def _csr(prefix: str, rows: Any) -> dict[str, np.ndarray]:
    matrix = scipy.sparse.csr_matrix(np.array(rows, np.float32))
    return {
        f"{prefix}_{field}": np.asarray(getattr(matrix, field)) for field in ("data", "indices", "indptr", "shape")
    }


_X = np.array([[1, 0, 2], [0, 1, 0], [1, 1, 0], [0, 0, 0], [0, 1, 4], [3, 0, 0], [0, 2, 0], [1, 0, 0]], np.float32)
_SPARSE = scipy.sparse.csr_array(_X)
_NPZ = {
    "edges": np.array([[0, 1], [2, 1], [3, 4], [5, 6], [6, 7]]),
    "x_indptr": _SPARSE.indptr,
    "x_indices": _SPARSE.indices,
    "x_values": _SPARSE.data,
    "x_shape": np.array(_X.shape),
    "x_lower": np.array(0.0),
    "x_upper": np.array(4.0),
    "y": np.array([0, 1, 1, 0, 2, 0, 1, 2]),
    "split": np.array([1, 2, 3, 0, 1, 2, 3, 0], np.int8),
    "source": np.frombuffer(b"hand", np.uint8),
    "feature_names": np.frombuffer(b"a\nb\nc", np.uint8),
}
_SET = {"edges": np.array([[0, 1], [2, 3], [3, 4]]), "node_graph": np.array([0, 0, 1, 1, 1]), "y": np.array([0, 1])}
_ADJACENCY = np.zeros((8, 8))
_ADJACENCY[[0, 1, 2, 3, 3, 4, 6], [1, 2, 1, 3, 0, 5, 7]] = 1
_AMAZON = {**_csr("adj", _ADJACENCY), **_csr("attr", _X), "labels": np.array([0, 1, 1, 0, 2, 0, 1, 2])}
_AMAZON["attr_names"] = np.array(["a", None], object)


def _planetoid(**changes: Any) -> dict[str, bytes]:
    hot = np.eye(3, dtype=np.int32)
    parts: dict[str, Any] = {
        "x": scipy.sparse.csr_matrix(_X[:1]),
        "y": hot[[2]],
        "tx": scipy.sparse.csr_matrix(_X[6:8]),
        "ty": hot[[1, 2]],
        "allx": scipy.sparse.csr_matrix(_X[:5]),
        "ally": hot[[2, 0, 1, 1, 0]],
        "graph": {0: [1, 1, 0], 1: [0], 2: [3, 7], 3: [2], 5: [4], 7: [2]},
        **changes,
    }
    files = {f"ind.tiny.{part}": dumps(value) for part, value in parts.items()}
    return {**files, "ind.tiny.test.index": b"7\n5\n"}


_EDGES = b"id1,id2\n0,1\n1,0\n2,2\n2,1\n3,4\n"
_LISTS = json.dumps({"2": [3, 0], "0": [1], "1": [], "3": [4], "4": [0, 1, 2]}).encode()
_MUSAE = {"t_edges.csv": _EDGES, "t.json": _LISTS, "t_target.csv": b"id,target\n2,10\n1,9000\n0,20\n4,5\n3,30\n"}
_PAGES = {**_MUSAE, "t_target.csv": b'id,page_type\n2,a\n1,b\n0,"a"\n4,c\n3,a\n'}
_FLAGS = {**_MUSAE, "t_target.csv": b"mature,new_id\nTrue,2\nFalse,1\nTrue,0\nFalse,3\nTrue,4\n"}
_FEATHER = {
    "lastfm_asia_edges.csv": _EDGES,
    "lastfm_asia_features.json": _LISTS,
    "lastfm_asia_target.csv": b"id,target\n0,3\n1,1\n2,3\n3,0\n4,1\n",
}
_TU = {
    "T_A.txt": b"1, 2\n2, 1\n3, 5\n5, 3\n4, 4\n",
    "T_graph_indicator.txt": b"1\n1\n2\n2\n2\n",
    "T_graph_labels.txt": b"1\n-1\n",
}
_TEXT = b"3\n3 1\n0 1 1\n0 2 0 2\n0 1 1\n2 0\n7 1 1\n7 1 0\n1 1\n0 0\n"


def ppi_archive(splits: Mapping[str, tuple[Any, Any, Any, Any]]) -> bytes:
    """An archive as PPI's, of each split's links (written in both directions, with all loops), graphs, x and y."""
    members = {}
    for split, (links, graph, x, y) in splits.items():
        n = len(graph)
        loops = np.tile(np.arange(n)[:, None], 2)
        ends = np.concatenate([np.reshape(links, (-1, 2)), np.reshape(links, (-1, 2))[:, ::-1], loops])
        nodes = ", ".join(['{"id": %d}'] * n) % tuple(range(n))
        pairs = ", ".join(['{"source": %d, "target": %d}'] * len(ends)) % tuple(ends.ravel().tolist())
        head = '{"directed": true, "multigraph": false, "graph": {}, "nodes": ['
        members[f"{split}_graph.json"] = f'{head}{nodes}], "links": [{pairs}]}}'.encode()
        for part, array in (("graph_id", graph), ("feats", x), ("labels", y)):
            buffer = io.BytesIO()
            np.save(buffer, np.asarray(array))
            members[f"{split}_{part}.npy"] = buffer.getvalue()
    return _zipped(members)


PPI_X = np.array([[1, 0, 0], [0, 0, 1], [1, 0, 0], [0, 0, 0], [1, 0, 1], [0, 0, 0], [0, 0, 1], [1, 0, 0]])
PPI_Y = np.array([[1, 0], [0, 0], [1, 1], [0, 1], [1, 0], [0, 1], [0, 0], [1, 1]])


def ppi_files() -> dict[str, bytes]:
    """Two training graphs, of rows 0 to 2 and 3 to 4; one of two nodes to validate; one of one node to test."""
    x = (PPI_X - PPI_X[:5].mean(0)) / np.where(PPI_X[:5].std(0), PPI_X[:5].std(0), 1)
    splits = {
        "train": ([[0, 1], [2, 1], [3, 4]], [1, 1, 1, 2, 2], x[:5], PPI_Y[:5]),
        "valid": ([[1, 0]], [3, 3], x[5:7], PPI_Y[5:7]),
        "test": ([], [4], x[7:], PPI_Y[7:]),
    }
    return {"ppi.zip": ppi_archive(splits)}


def _one(files: Files) -> bytes:
    (data,) = files.values()
    return data


# --- damage to bytes and to text ----------------------------------------------------------------------------


def _bytes(rng: np.random.Generator, data: bytes) -> bytes:
    """A few bits or bytes changed, or a piece cut off, cut out, put in, repeated or moved."""
    kind, size = rng.integers(7), len(data)
    a, b = sorted(rng.integers(0, size + 1, 2).tolist())
    if kind < 2:
        changed = bytearray(data)
        for at in rng.integers(0, size, rng.integers(1, 4)) if size else ():
            changed[at] = changed[at] ^ 1 << rng.integers(8) if kind == 0 else rng.choice([0, 1, 127, 128, 255])
        return bytes(changed)
    return (
        data[:a],
        data[:a] + data[b:],
        data[:a] + rng.bytes(8) + data[a:],
        data[:b] + data[a:],
        data[b:] + data[:b],
    )[kind - 2]


def _number(rng: np.random.Generator, data: bytes) -> bytes:
    """One number, or piece of text, replaced by one that no such file has."""
    found = list(re.finditer(rb"[\w.+-]+|[,\n:\[\]{}\"]", data))
    if not found:
        return data
    at = found[rng.integers(len(found))]
    return data[: at.start()] + _NUMBERS[rng.integers(len(_NUMBERS))] + data[at.end() :]


def _texts(rng: np.random.Generator, files: Files) -> Files:
    names = list(files)
    name = names[rng.integers(len(names))]
    if len(names) > 1 and rng.random() < 0.03:
        return {**files, name: files[names[rng.integers(len(names))]]}
    return {**files, name: _number(rng, files[name])}


def _json(rng: np.random.Generator, files: Files) -> Files:
    """JSON that is whole but says something else."""
    name = next(name for name in files if name.endswith(".json"))
    odd = ([], {}, None, 3, "x", {"0": 3}, {"0": None}, {"0": [1.5]}, {"0": ["1"]}, {"0": [True]}, {"0": [[0]]},
           {"0": [10**9]}, {"0": [10**30]}, {"0": [-1]}, {"1000000000": [0]}, {"x": [0]}, {"": [0]},
           {"0": {"1": 2}}, {"00": [0], "0": [1]}, {"0": [float("nan")]}, {"0": [float("inf")]})  # fmt: skip
    texts = [json.dumps(value).encode() for value in odd]
    texts += [b"[" * 100_000, b'{"0":' * 50_000, b'{"0": [0], "0": [1]}', b'{"0": [' + b"9" * 5000 + b"]}", b"\xff"]
    return {**files, name: texts[rng.integers(len(texts))]}


# --- damage to arrays and archives --------------------------------------------------------------------------


def _directory(rng: np.random.Generator, data: bytes) -> bytes:
    """A zip whose directory lies about a member, or whose members are doubled, renamed, encrypted, swapped."""
    members = _unzipped(data)
    names = list(members)
    name, other = (names[i] for i in rng.integers(0, len(names), 2))
    kind = rng.integers(5)
    if kind == 0:
        return _zipped({**members, name: members[other]})
    if kind == 1:
        return _zipped({(name + "x" if key == name else key): value for key, value in members.items()})
    if kind == 2:  # the same name twice
        twin = "~" + name[1:]
        return _zipped({**members, twin: members[other]}).replace(twin.encode(), name.encode())
    changed = bytearray(data)
    entries = [at.start() for at in re.finditer(rb"PK\x01\x02", data)]
    at = entries[rng.integers(len(entries))]
    field, size = ((8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (42, 4))[rng.integers(8)]
    value = int(rng.choice([0, 1, 8, 9, 12, 14, 99, 1000, 2**16 - 1, 2**31, 2**32 - 1])) % 2 ** (8 * size)
    changed[at + field : at + field + size] = value.to_bytes(size, "little")
    return bytes(changed)


def _header(rng: np.random.Generator, data: bytes) -> bytes:
    """A .npz with one array whose header says something else; the archive itself is whole."""
    members = _unzipped(data)
    name = list(members)[rng.integers(len(members))]
    array = members[name]
    (length,) = struct.unpack("<H", array[8:10])
    text, body = array[10 : 10 + length].decode("latin1"), array[10 + length :]
    kind = rng.integers(4)
    if kind == 0:
        text = re.sub(r"'shape': \([^)]*\)", lambda _: f"'shape': {_SHAPES[rng.integers(len(_SHAPES))]}", text)
    elif kind == 1:
        text = re.sub(r"'descr': '[^']*'", lambda _: f"'descr': '{_DTYPES[rng.integers(len(_DTYPES))]}'", text)
    elif kind == 2:
        text = _bytes(rng, text.encode("latin1")).decode("latin1")
    else:
        text = ("", "[]", "{}", "1" * 60_000, "(" * 900, "{'descr': [('a', '<i4')], 'shape': (1,)}")[
            rng.integers(6)
        ]
    text = text.encode("latin1")[: 2**16 - 1]
    return _zipped({**members, name: array[:8] + struct.pack("<H", len(text)) + text + body})


def _values(rng: np.random.Generator, data: bytes) -> bytes:
    """A .npz with one array replaced, dropped, cut, or with one of its values changed."""
    with np.load(
        io.BytesIO(data), allow_pickle=False
    ) as archive:  # a damaged pickle is not for opening here either
        arrays = {key: archive[key] for key in archive.files if key != "attr_names"}
    name = list(arrays)[rng.integers(len(arrays))]
    array, kind = arrays[name], rng.integers(5)
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[name] = _ARRAYS[rng.integers(len(_ARRAYS))]
    elif kind == 2:
        arrays[name] = arrays[list(arrays)[rng.integers(len(arrays))]]
    elif kind == 3:
        arrays[name] = array.ravel()[: rng.integers(array.size + 1)]
    elif array.size and array.dtype != object:
        array = array.copy()
        odd = (
            [-1, 1, 10**9, 2**31, 2**62, np.nan, np.inf, -1e308] if array.dtype.kind == "f" else [-1, 1, 100, 10**9]
        )
        with np.errstate(all="ignore"):
            array.reshape(-1)[rng.integers(array.size)] = np.array(odd[rng.integers(len(odd))]).astype(array.dtype)
        arrays[name] = array
    return _saved(arrays)


def _npz(rng: np.random.Generator, files: Files) -> Files:
    (name,) = files
    damage = (_directory, _header, _values)[rng.integers(3)]
    return {name: damage(rng, files[name])}


def _members(rng: np.random.Generator, files: Files) -> Files:
    """An archive of arrays and JSON, one of them damaged, or the directory."""
    ((name, data),) = files.items()
    if rng.random() < 0.2:
        return {name: _directory(rng, data)}
    members = _unzipped(data)
    member = list(members)[rng.integers(len(members))]
    if member.endswith(".json"):
        damaged = (_json if rng.random() < 0.3 else _texts)(rng, {member: members[member]})[member]
    else:
        one = _zipped({member: members[member]})
        damaged = _unzipped((_header if rng.random() < 0.5 else _values)(rng, one)).get(member, b"")
    return {name: _zipped({**members, member: damaged})}


def _pickles(rng: np.random.Generator, files: Files) -> Files:
    """Planetoid's files with a sparse matrix, label matrix or graph that is a whole pickle but impossible."""
    kind = rng.integers(4)
    if kind == 0:
        part = ("tx", "allx")[rng.integers(2)]
        matrix = scipy.sparse.csr_matrix(_X[6:8] if part == "tx" else _X[:5])
        state = vars(matrix)
        field = ("data", "indices", "indptr", "_shape")[rng.integers(4)]
        shapes = [(10**9, 3), (5, 10**9), (-1, 3), (5,), (5, 3, 1), None, ("5", 3), (5.0, 3.0), (2**63, 2)]
        array = state[field]
        if field == "_shape":
            state[field] = shapes[rng.integers(len(shapes))]
        elif rng.random() < 0.5:
            state[field] = _ARRAYS[rng.integers(len(_ARRAYS))]
        else:
            array = array.copy()
            array[rng.integers(len(array))] = [-1, 10**9, 2**31 - 1, -(2**31), 100][rng.integers(5)]
            state[field] = array
        return {**files, f"ind.tiny.{part}": dumps(matrix)}
    if kind == 1:
        part = ("y", "ty", "ally")[rng.integers(3)]
        return {**files, f"ind.tiny.{part}": dumps(_ARRAYS[rng.integers(len(_ARRAYS))])}
    if kind == 2:
        long = [0] * 1000
        odd = [[], None, 3, {0: 3}, {0: None}, {0: ["1"]}, {"0": [1]}, {0: [1.5]}, {10**9: [0]}, {0: [10**9]},
               {0: [10**30]}, {-1: [0]}, {0: [-1]}, {None: [0]}, {0: [[1]]}, {0: {1: 2}},
               dict.fromkeys(range(3000), long), np.zeros(3), {0: np.array([1, 2])}]  # fmt: skip
        return {**files, "ind.tiny.graph": dumps(odd[rng.integers(len(odd))])}
    data = files["ind.tiny.graph"]  # a memo of 2^31 places
    return {
        **files,
        "ind.tiny.graph": data[:-1] + b"r" + struct.pack("<I", 2**31 - 1 - int(rng.integers(9))) + b".",
    }


FORMATS: dict[str, Format] = {
    "npz": Format(
        {"t.npz": _saved(_NPZ)}, lambda files: _build(_archive.read_arrays(_one(files), "t", MAX_BYTES)), _npz
    ),
    "npz of a set": Format(
        {"t.npz": _saved(_SET)},
        lambda files: _format.build("t", _archive.read_arrays(_one(files), "t", MAX_BYTES), "t"),
        _npz,
    ),
    "planetoid": Format(_planetoid(), lambda files: _build(planetoid.parse(files, dataset="tiny")), _pickles),
    "gnn_benchmark": Format(
        {"t.npz": _saved(_AMAZON)},
        lambda files: _build(gnn_benchmark.parse(files, largest_component=True, max_bytes=MAX_BYTES)),
        _npz,
    ),
    "feather": Format(_FEATHER, lambda files: _build(feather.parse(files, num_features=5, keep_classes=2)), _json),
    "musae": Format(
        _MUSAE,
        lambda files: _build(musae.parse(files, stem="t", label="traffic", num_features=5, karateclub_above=15)),
        _json,
    ),
    "musae pages": Format(
        _PAGES, lambda files: _build(musae.parse(files, stem="t", label="page_type", num_features=5)), _texts
    ),
    "musae flags": Format(
        _FLAGS, lambda files: _build(musae.parse(files, stem="t", label="mature", num_features=5)), _texts
    ),
    "edge list": Format({"e.csv": _EDGES}, lambda files: musae.edge_list(_one(files)), _texts),
    "TU": Format(_TU, lambda files: _build(graph_sets.parse_tu(files, dataset="T")), _texts),
    "TU zip": Format(
        {"T.zip": _zipped({f"T/{name}": data for name, data in _TU.items()})},
        lambda files: _build(graph_sets.parse_tu(files, dataset="T", max_bytes=MAX_BYTES)),
        lambda rng, files: {"T.zip": _directory(rng, files["T.zip"])},
    ),
    "PPI": Format(
        ppi_files(), lambda files: _build(ppi.parse(files, graphs=(2, 1, 1), max_bytes=MAX_BYTES)), _members
    ),
    "powerful-gnns": Format(
        {"P.txt": _TEXT}, lambda files: _build(graph_sets.parse_powerful_gnns(files, dataset="P")), _texts
    ),
}


def mutants(form: Format, seed: int, count: int) -> Iterator[Files]:
    """``count`` damaged copies of a format's files: bytes, numbers in text, and what suits the format."""
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        files = form.files
        for _ in range(rng.choice([1, 2, 3], p=[0.8, 0.15, 0.05])):
            if form.damage is not None and rng.random() < 0.6:
                try:
                    files = form.damage(rng, files)
                    continue
                except Exception:  # noqa: S110  # the first damage went too deep for the second: bytes instead
                    pass
            names = list(files)
            name = names[rng.integers(len(names))]
            text = name.endswith((".txt", ".csv", ".json", ".index"))
            files = {**files, name: (_number if text and rng.random() < 0.5 else _bytes)(rng, files[name])}
        yield files
