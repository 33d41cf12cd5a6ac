"""Loading a data set by name or by path."""

import hashlib
import os
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from ldp_jax.core.shown import shown
from ldp_jax.core.validate import integer_in
from ldp_jax.datasets import (
    _archive,
    _fetch,
    _format,
    gnn_benchmark,
    graph_sets,
    musae,
    planetoid,
    ppi,
)
from ldp_jax.datasets._dataset import Bounds, Dataset
from ldp_jax.datasets._registry import DEBIAN, REGISTRY, Entry, RawFile

_CACHE_VERSION = "v1"  # of the parsed arrays: raise it when a parser changes what it returns

Parser = Callable[..., dict[str, np.ndarray]]

_PARSERS: Mapping[str, Parser] = {
    "planetoid": planetoid.parse,
    "musae": musae.parse,
    "feather": musae.parse_feather,
    "gnn_benchmark": gnn_benchmark.parse,
    "powerful_gnns": graph_sets.parse_powerful_gnns,
    "tu": graph_sets.parse_tu,
    "ppi": ppi.parse,
}


def names() -> tuple[str, ...]:
    """The data sets that :func:`load` knows by name.

    >>> "debian" in names() and "cora" in names()
    True
    """
    return tuple(REGISTRY)


def load(
    name_or_path: str | os.PathLike[str],
    *,
    bounds: Bounds | None = None,
    clip: bool = False,
    clean: bool = False,
    max_bytes: int = _archive.MAX_BYTES,
) -> Dataset:
    """Load a public data set by name, or a user's own graph by path.

    A name is looked up in this order: embedded data (``debian``); ``<name>.npz`` in $LDP_JAX_DATA;
    the cache of parsed arrays, which $LDP_JAX_CACHE moves; TU Dortmund's files in $LDP_JAX_DATA;
    the public files, from ``$LDP_JAX_DATA/<name>/`` or downloaded from pinned addresses. Files have
    the registered digests.

    An ``.npz`` holds arrays alone: ``edges`` [m, 2], each pair once; features, dense as ``x`` [n,
    d] or in CSR form as ``x_indptr`` [n + 1], ``x_indices``, ``x_values`` and ``x_shape`` = [n, d],
    and their public bounds ``x_lower`` and ``x_upper``; labels ``y`` [n], -1 where unknown.
    Features or labels may be left out.

    Files of other layouts: an ``.npz`` of the GNN benchmark (``adj_data``, ``attr_data``,
    ``labels``, ...) or of the heterophilous benchmarks (``node_features``, ``node_labels``,
    ``edges``, and masks, which are extras); a set of graphs in TU Dortmund's format, the folder or
    the ``.zip``, or in that of powerful-gnns (``.txt`` or ``.zip``); a folder of Planetoid's
    ``ind.NAME.graph`` and the six files beside it; a graph file of
    :func:`ldp_jax.graph.interop.open_file`, of which the graph is read, with the names of its
    nodes.

    Args:
      name_or_path: one of :func:`names`, or a path.
      bounds: public (lower, upper) of every feature value; needed for features without declared
        bounds, and above any declaration. Never compute them from the records.
      clip: bring values outside the declared bounds to the nearer one; ``notes`` says so. NaN is
        refused.
      clean: of graph files and benchmarks' ``.npz``, as :func:`ldp_jax.graph.interop.read` says:
        drop self-loops and weights, and take an edge in one direction for both, where these are
        refused else.
      max_bytes: the most that a file of the user may have, packed and as it declares to be
        unpacked.

    ``ValueError`` for an unknown name, a file that is corrupt, too large or not the registered one,
    or contents that break the format; it names no value of a record.

    >>> from ldp_jax import datasets
    >>> debian = datasets.load("debian")
    >>> debian.class_names
    ('admin', 'net', 'science', 'sound', 'graphics', 'games', 'mail', 'editors')
    >>> datasets.load("corra")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: name_or_path must be the path of an ..., a folder or one of debian, ...; got 'corra'
    """
    integer_in(1, max_bytes=max_bytes)
    if isinstance(name_or_path, str) and name_or_path in REGISTRY:
        return _load_registered(REGISTRY[name_or_path], bounds, clip)
    path = Path(name_or_path)
    if isinstance(name_or_path, str) and not path.suffix and not path.is_dir():
        known = f"the path of an .npz, .zip, .txt or graph file, a folder or one of {', '.join(REGISTRY)}"
        raise ValueError(f"name_or_path must be {known}; got {shown(name_or_path)}")
    name, arrays, metadata = _read(path, clean, max_bytes)
    metadata |= {} if "source" in arrays else {"source": str(path)}
    return _format.build(
        name, arrays, str(path), bounds=bounds, clip=clip, metadata=metadata, max_bytes=max_bytes
    )


_Read = tuple[str, dict[str, np.ndarray], dict[str, Any]]
"""The name, the arrays and the metadata of a data set."""


def _read(path: Path, clean: bool, max_bytes: int) -> _Read:
    if path.is_dir():
        return _read_folder(path, max_bytes)
    if path.suffix not in ("", ".npz", ".zip", ".txt"):
        return _read_graph(path, clean, max_bytes)
    data = _archive.read_file(path, max_bytes)
    where = str(path)
    if path.suffix == ".txt" and not graph_sets.is_powerful_gnns(data):
        return _read_graph(path, clean, max_bytes)
    if path.suffix in (".zip", ".txt"):
        with _archive.naming(where):
            if path.suffix == ".zip":
                return *graph_sets.parse_zip(data, path.stem, max_bytes), {}
            return (
                path.stem,
                graph_sets.parse_powerful_gnns({path.name: data}, dataset=path.stem),
                {},
            )
    found = _archive.array_names(data, where)
    with _archive.naming(where):
        arrays = gnn_benchmark.read(data, where, found, clean=clean, max_bytes=max_bytes)
    return path.stem, arrays or _archive.read_arrays(data, where, max_bytes), {}


def _read_folder(path: Path, max_bytes: int) -> _Read:
    dataset = path.absolute().name
    pickled = sorted(path.glob("ind.*.graph"))
    sets = sorted(path.glob("*_A.txt"))
    if not (path / f"{dataset}_A.txt").is_file() and len(sets) == 1:
        dataset = sets[0].name.removesuffix("_A.txt")
    files = graph_sets.tu_files(path, dataset, max_bytes)
    if files:
        with _archive.naming(str(path)):
            return dataset, graph_sets.parse_tu(files, dataset=dataset, max_bytes=max_bytes), {}
    if len(pickled) == 1:
        dataset = pickled[0].name.removeprefix("ind.").removesuffix(".graph")
        files = {
            f"ind.{dataset}.{part}": path / f"ind.{dataset}.{part}" for part in planetoid.PARTS
        }
        read = {name: _archive.read_file(place, max_bytes) for name, place in files.items()}
        with _archive.naming(str(path)):
            return dataset, planetoid.parse_users(read, dataset=dataset, max_bytes=max_bytes), {}
    if pickled:
        listed = ", ".join(each.name for each in pickled)
        raise ValueError(f"{path} must hold one data set of Planetoid, got {listed}")
    raise FileNotFoundError(
        f"{path} must hold {dataset}_A.txt and the other files of TU Dortmund's format, or ind.NAME.graph and "
        "the other files of Planetoid"
    )


def _read_graph(path: Path, clean: bool, max_bytes: int) -> _Read:
    from ldp_jax.graph import graphs, interop  # bring jax

    source = interop.open_file(path, max_bytes=max_bytes)
    with _archive.naming(str(path)):
        graph, names = interop.read(source, clean=clean)
    arrays = {"edges": graphs.to_edges(graph), "y": np.zeros((len(names), 0), np.int8)}
    notes = "Of the file the graph and the names of its nodes are read, and no attribute."
    name = path.with_suffix("").stem if path.suffix == ".gz" else path.stem
    return name, arrays, {"node_names": tuple(map(str, names.tolist())), "notes": notes}


def _load_registered(entry: Entry, bounds: Bounds | None, clip: bool) -> Dataset:
    if entry is DEBIAN:
        data = resources.files("ldp_jax.datasets").joinpath("debian.npz").read_bytes()
        return _from_npz(entry, data, "the embedded debian.npz", bounds, clip)
    folder = _fetch.data_folder()
    if folder is not None and (path := folder / f"{entry.name}.npz").is_file():
        return _from_npz(entry, _archive.read_file(path), str(path), bounds, clip)
    if not entry.raw:
        raise _fetch.unavailable(entry, entry.source, None)
    cached = _fetch.cache_folder() / "parsed" / _CACHE_VERSION / f"{entry.name}.npz"
    dataset = _cached(entry, cached)
    if dataset is None:
        _fetch.require_cache()
        dataset = _checked(entry, parse(entry), f"the public files of {entry.name}")
        _keep(dataset, cached)
    if bounds is None and not clip:
        return dataset
    return _checked(entry, _format.to_arrays(dataset), str(cached), bounds, clip)


def _from_npz(entry: Entry, data: bytes, where: str, bounds: Bounds | None, clip: bool) -> Dataset:
    RawFile(url=where, sha256=entry.npz_sha256).check(data, where)
    return _checked(entry, _archive.read_arrays(data, where), where, bounds, clip)


def _cached(entry: Entry, path: Path) -> Dataset | None:
    """The result of an earlier call, if the file is still the one that was written then."""
    try:
        data = _archive.read_file(path)
        if hashlib.sha256(data).hexdigest() != _digest_path(path).read_text("ascii").strip():
            return None
        return _checked(entry, _archive.read_arrays(data, str(path)), str(path))
    except (OSError, ValueError):  # absent or damaged
        return None


def _keep(dataset: Dataset, path: Path) -> None:
    """Write the cache of parsed arrays, the digest last: without it the file counts as damaged."""
    data = _format.packed(dataset)
    digest = hashlib.sha256(data).hexdigest() + "\n"
    with _fetch.writing_cache():
        path.parent.mkdir(parents=True, exist_ok=True)
        for place, written in ((path, data), (_digest_path(path), digest.encode())):
            with _format.replacing(place) as temporary:
                temporary.write_bytes(written)


def _digest_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def parse(entry: Entry) -> dict[str, np.ndarray]:
    """The arrays of the uniform format, from the checked public files of a data set."""
    assert entry.parser is not None
    parser = _PARSERS[entry.parser]
    options = dict[str, Any](entry.options)
    if entry.tu is not None and (files := _users_tu(entry.tu)):
        parser = graph_sets.parse_tu
        options = dict[str, Any](dataset=entry.tu)
    else:
        files = {raw.name: _fetch.raw_bytes(entry, raw) for raw in entry.raw}
    with _archive.naming(f"the public files of {entry.name} ({', '.join(files)}) do not parse"):
        return parser(files, **options)


def _users_tu(dataset: str) -> dict[str, bytes]:
    """TU Dortmund's files of a data set in the user's folder, or in a folder of their name therein."""
    folder = _fetch.data_folder()
    if folder is None:
        return {}
    return graph_sets.tu_files(folder / dataset, dataset) or graph_sets.tu_files(folder, dataset)


def _checked(
    entry: Entry,
    arrays: Mapping[str, np.ndarray],
    where: str,
    bounds: Bounds | None = None,
    clip: bool = False,
) -> Dataset:
    metadata: dict[str, Any] = {"licence": entry.licence, "notes": entry.notes}
    if entry is not DEBIAN:  # its file says which dump it was made of
        metadata["source"] = entry.source
    given = entry.bounds if bounds is None else bounds
    dataset = _format.build(entry.name, arrays, where, bounds=given, clip=clip, metadata=metadata)
    graphs = None if dataset.node_graph is None else int(dataset.node_graph[-1]) + 1
    for count, wanted, got in (
        ("nodes", entry.nodes, dataset.num_nodes),
        ("edges", entry.edges, dataset.num_edges),
        ("features", entry.features, dataset.num_features),
        ("classes", entry.classes, dataset.num_classes),
        ("graphs", entry.graphs, graphs),
    ):
        if wanted is not None and wanted != got:
            raise ValueError(f"{where}: {entry.name} must have {wanted} {count}, got {got}")
    return dataset
