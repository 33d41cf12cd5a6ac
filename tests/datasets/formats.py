"""Every format that is read: tiny whole files, how to read them, and damaged copies from a seed."""

import collections
import dataclasses
import io
import json
import pickle
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import scipy.sparse

from ldp_jax.datasets import (
    Dataset,
    _archive,
    _format,
    gnn_benchmark,
    graph_sets,
    musae,
    planetoid,
    ppi,
)

Files = Mapping[str, bytes]
Arrays = Mapping[str, np.ndarray]
MAX_BYTES = 2**20


def npy(array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def zipped(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def unzipped(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def npz(**arrays) -> bytes:
    return zipped({f"{name}.npy": npy(np.asarray(array)) for name, array in arrays.items()})


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


def csr(prefix: str, matrix) -> dict[str, np.ndarray]:
    matrix = scipy.sparse.csr_matrix(np.asarray(matrix, np.float32))
    fields = ("data", "indices", "indptr", "shape")
    return {f"{prefix}_{field}": np.asarray(getattr(matrix, field)) for field in fields}


def ppi_archive(splits: Mapping[str, tuple]) -> bytes:
    """An archive as PPI's, of each split's links (written in both directions, with all loops),
    graphs, x and y.
    """
    members = {}
    for split, (links, graph, x, y) in splits.items():
        loops = [[node, node] for node in range(len(graph))]
        ends = [*links, *([v, u] for u, v in links), *loops]
        listed = {
            "nodes": [{"id": node} for node, _ in loops],
            "links": [{"source": u, "target": v} for u, v in ends],
        }
        members[f"{split}_graph.json"] = json.dumps(listed).encode()
        for part, array in (("graph_id", graph), ("feats", x), ("labels", y)):
            members[f"{split}_{part}.npy"] = npy(array)
    return zipped(members)


def planetoid_files(matrix=scipy.sparse.csr_matrix) -> Files:
    """Nodes 0..4 known, 5 and 7 tested (listed 7 first), 6 left out of the index."""
    hot = np.eye(3, dtype=np.int32)
    graph = collections.defaultdict(list, {0: [1, 1, 0], 1: [0], 2: [3, 7], 3: [2], 5: [4], 7: [2]})
    parts = {
        "x": matrix(np.float32([[1, 0]])),
        "y": hot[[2]],
        "tx": matrix(np.float32([[0, 2], [3, 0]])),
        "ty": hot[[1, 2]],
        "allx": matrix(np.float32([[1, 0], [0, 1], [1, 1], [0, 0], [0, 1]])),
        "ally": hot[[2, 0, 1, 1, 0]],
        "graph": graph,
    }
    return {
        **{f"ind.t.{part}": dumps(value) for part, value in parts.items()},
        "ind.t.test.index": b"7\n5\n",
    }


def _amazon() -> Arrays:
    """Six nodes; a one-way edge, a loop, an edge given both ways; nodes 4 and 5 apart. With pickled
    names.
    """
    adjacency = np.zeros((6, 6))
    adjacency[[0, 1, 2, 3, 3, 4], [1, 2, 1, 3, 0, 5]] = 1
    names = np.array(["a", None], object)
    return {
        **csr("adj", adjacency),
        **csr("attr", np.eye(6, 2)),
        "labels": np.array([0, 1] * 3),
        "attr_names": names,
    }


PPI_X = np.eye(3, dtype=int)[[0, 2, 0, 1, 0, 1, 2, 0]] * [1, 0, 1]
PPI_X[4, 2] = 1
PPI_Y = np.array([list(row) for row in ["10", "00", "11", "01", "10", "01", "00", "11"]], int)


def ppi_files() -> Files:
    """Two training graphs, of rows 0 to 2 and 3 to 4; one of two nodes to validate; one of one node
    to test.
    """
    deviation = PPI_X[:5].std(0)
    x = (PPI_X - PPI_X[:5].mean(0)) / np.where(deviation, deviation, 1)
    splits = {
        "train": ([[0, 1], [2, 1], [3, 4]], [1, 1, 1, 2, 2], x[:5], PPI_Y[:5]),
        "valid": ([[1, 0]], [3, 3], x[5:7], PPI_Y[5:7]),
        "test": ([], [4], x[7:], PPI_Y[7:]),
    }
    return {"ppi.zip": ppi_archive(splits)}


ARRAYS = {
    "edges": [[0, 1], [2, 1]],
    "x_indptr": [0, 1, 2, 2],
    "x_indices": [1, 0],
    "x_values": [1.0, 0.5],
    "x_shape": [3, 2],
    "x_lower": 0.0,
    "x_upper": 1.0,
    "y": [0, 1, 1],
}
"""Three nodes of two features, as a user would write them."""
_NPZ = {**ARRAYS, "split": [1, 2, 3], "feature_names": np.frombuffer(b"a\nb", np.uint8)}
_SET = {"edges": [[0, 1], [2, 3], [3, 4]], "node_graph": [0, 0, 1, 1, 1], "y": [0, 1]}
_EDGES = b"id1,id2\n0,1\n1,0\n2,2\n2,1\n"
_LISTS = json.dumps({"2": [3, 0, 3], "0": [1], "1": []}).encode()
_MUSAE = {
    "t_edges.csv": _EDGES,
    "t.json": _LISTS,
    "t_target.csv": b"id,target\n2,10\n1,9000\n0,20\n",
}
_PAGES = (
    'id,facebook_id,page_name,page_type\n0,9,"A, ""b""\nç",tvshow\n2,7,C,company\n1,8,D,tvshow\n'
)
_FLAGS = "7,1,True,5,False,1\n8,1,False,5,True,0\n9,1,False,5,False,2\n9,1,True,6,False,2\n"
_FEATHER = {
    "lastfm_asia_edges.csv": b"node_1,node_2\n0,1\n1,2\n2,4\n4,0\n3,4\n",
    "lastfm_asia_features.json": json.dumps(
        {"0": [2], "1": [0, 1], "2": [], "3": [1], "4": [0]}
    ).encode(),
    "lastfm_asia_target.csv": b"id,target\n0,3\n1,1\n2,3\n3,0\n4,1\n",
}
_TU = {
    "T_A.txt": b"1, 2\n2, 1\n3, 5\n5, 3\n4, 4\n",
    "T_graph_indicator.txt": b"1\n1\n2\n2\n2\n",
    "T_graph_labels.txt": b"1\n-1\n",
}
_TU_ATTRIBUTES = _TU | {
    "T_graph_indicator.txt": b"2\n1\n2\n1\n2\n",
    "T_A.txt": b"1, 3\n3, 5\n",
    "T_node_labels.txt": b"7\n6\n7\n-1\n0\n",
    "T_node_attributes.txt": b"0.5, 0\n1e-1,1\n0,0\n0.25, 0.75\n1, 1\n",
    "T_graph_attributes.txt": b"2.5\n-3\n",
    "T_edge_labels.txt": b"0\n1\n",
}
_POWERFUL = b"3\n3 1\n0 1 1\n0 2 0 2\n0 1 1\n2 0\n7 1 1\n7 1 0\n1 1\n0 0\n"


@dataclasses.dataclass(frozen=True)
class Format:
    """Whole files, their parser, and the bounds of what they hold."""

    files: Files
    parse: Callable[[Files], Arrays]
    bounds: tuple[float, float] = (0, 1)

    def read(self, changes: Files | None = None) -> Dataset:
        """The data set, some of its files changed; one that is named by its end."""
        files = dict(self.files)
        for end, data in (changes or {}).items():
            files[next(name for name in files if name.endswith(end))] = data
        return _format.build("t", self.parse(files), bounds=self.bounds)


def _musae(target: str, label: str, **options) -> Format:
    files = {**_MUSAE, "t_target.csv": target.encode()}
    return Format(
        files, lambda files: musae.parse(files, stem="t", label=label, num_features=5, **options)
    )


def _arrays(files: Files) -> Arrays:
    (data,) = files.values()
    return _archive.read_arrays(data, MAX_BYTES)


def _tu(files: Files) -> Arrays:
    return graph_sets.parse(files, dataset="T", max_bytes=MAX_BYTES)


def heterophilous() -> Arrays:
    """Three nodes, whose edges are once in the file, and ten masks of each kind."""
    mask = np.eye(3, dtype=bool)
    return {
        "node_features": np.array([[0, 1], [0.5, 0], [1, 1]], np.float32),
        "node_labels": np.array([0, 1, 1]),
        "edges": np.array([[0, 1], [2, 1]]),
        "train_masks": mask[[0] * 10],
        "val_masks": mask[[1] * 10],
        "test_masks": mask[[2] * 10],
    }


def gnn_benchmark_arrays(adjacency=((0, 1, 0), (1, 0, 1), (0, 1, 0))) -> Arrays:
    """Three nodes, with names that are pickled."""
    names = np.array(["a", None], object)
    features = csr("attr", [[0, 1], [0.5, 0], [0, 0]])
    return {**csr("adj", adjacency), **features, "labels": np.array([0, 1, 1]), "node_names": names}


def _benchmark(files: Files) -> Arrays:
    (data,) = files.values()
    found = gnn_benchmark.read(data, clean=False, max_bytes=MAX_BYTES)
    if found is None:
        raise ValueError("not one of the benchmarks")
    return found


def _planetoid(files: Files) -> Arrays:
    return planetoid.parse_users(files, dataset="t", max_bytes=MAX_BYTES)


USERS_FORMATS = (
    "npz", "npz of a set", "TU", "TU zip", "TU attributes", "powerful-gnns", "GNN benchmark",
    "heterophilous", "Planetoid's folder",
)  # fmt: skip
"""The files that no digest pins."""

FORMATS = {
    "npz": Format({"t.npz": npz(**_NPZ)}, _arrays),
    "npz of a set": Format({"t.npz": npz(**_SET)}, _arrays),
    "planetoid": Format(
        planetoid_files(), lambda files: planetoid.parse(files, dataset="t"), (0, 3)
    ),
    "amazon": Format(
        {"t.npz": npz(**_amazon())},
        lambda files: gnn_benchmark.parse(files, largest_component=True),
    ),
    "feather": Format(
        _FEATHER, lambda files: musae.parse_feather(files, num_features=3, keep_classes=2)
    ),
    "traffic": _musae("id,target\n2,10\n1,9000\n0,8000\n", "traffic", karateclub_above=10),
    "pages": _musae(_PAGES, "page_type"),
    "flags": _musae("id,days,mature,views,partner,new_id\n" + _FLAGS, "mature"),
    "GNN benchmark": Format({"t.npz": npz(**gnn_benchmark_arrays())}, _benchmark),
    "heterophilous": Format({"t.npz": npz(**heterophilous())}, _benchmark),
    "Planetoid's folder": Format(planetoid_files(), _planetoid, (0, 3)),
    "TU": Format(_TU, _tu),
    "TU zip": Format({"T.zip": zipped({f"T/{name}": data for name, data in _TU.items()})}, _tu),
    "TU attributes": Format(_TU_ATTRIBUTES, _tu),
    "PPI": Format(ppi_files(), lambda files: ppi.parse(files, graphs=(2, 1, 1))),
    "powerful-gnns": Format(
        {"dataset.zip": zipped({"dataset/P/P.txt": _POWERFUL})},
        lambda files: graph_sets.parse(files, dataset="P"),
    ),
}


_NUMBERS = (
    b"-1", b"0", b"1", b"3", b"+2", b"1000000000", b"1000000000000", b"99999999999999999999",
    b"9223372036854775807", b"-9223372036854775808", b"1.5", b"nan", b"", b"x", b"1e5", b"0x1",
    b"1_0", b"1,2", b'"', b"\x00", b"\x0c", b"\x85",
)  # fmt: skip


def _pick(rng: np.random.Generator, choices):
    return choices[rng.integers(len(choices))]


def _bytes(rng: np.random.Generator, data: bytes) -> bytes:
    """A few bits changed, or a piece cut off, cut out, put in, repeated or moved."""
    a, b = sorted(rng.integers(0, len(data) + 1, 2).tolist())
    changed = bytearray(data)
    for at in rng.integers(0, len(data), rng.integers(1, 4)) if data else ():
        changed[at] ^= 1 << rng.integers(8)
    whole = bytes(changed)
    put_in = data[:a] + rng.bytes(8) + data[a:]
    moved = data[b:] + data[:b]
    return _pick(rng, (whole, data[:a], data[:a] + data[b:], put_in, data[:b] + data[a:], moved))


def _number(rng: np.random.Generator, data: bytes) -> bytes:
    """One number, or piece of text, replaced by one that no such file has."""
    at = _pick(rng, list(re.finditer(rb"[\w.+-]+|[,\n:\[\]{}\"]", data)))
    return data[: at.start()] + _pick(rng, _NUMBERS) + data[at.end() :]


def damaged(rng: np.random.Generator, name: str, data: bytes) -> bytes:
    """A file after the kind of damage that suits it; of an archive, mostly one member."""
    kind = name.rpartition(".")[2]
    if kind in ("zip", "npz") and rng.random() < 0.7:
        members = unzipped(data)
        member = _pick(rng, list(members))
        return zipped({**members, member: damaged(rng, member, members[member])})
    return (
        _number(rng, data) if kind in ("txt", "npy") and rng.random() < 0.7 else _bytes(rng, data)
    )


def mutants(form: Format, seed: int, count: int) -> Iterator[Files]:
    """``count`` copies of a format's files, one file of each damaged."""
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        name = _pick(rng, list(form.files))
        yield {name: damaged(rng, name, form.files[name])}
