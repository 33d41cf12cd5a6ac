"""Loading a data set by name or by path."""

import contextlib
import hashlib
import os
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from ldp_jax.core.shown import shown
from ldp_jax.core.validate import integer_in, require
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
from ldp_jax.datasets._arrays import Arrays, Files
from ldp_jax.datasets._dataset import Bounds, Dataset
from ldp_jax.datasets._registry import DEBIAN, REGISTRY, Entry, RawFile

_CACHE_VERSION = "v1"  # of the parsed arrays: raise it when a parser changes what it returns

_PARSERS: Mapping[str, Callable[..., Arrays]] = {
    "planetoid": planetoid.parse,
    "musae": musae.parse,
    "feather": musae.parse_feather,
    "gnn_benchmark": gnn_benchmark.parse,
    "powerful_gnns": graph_sets.parse,
    "tu": graph_sets.parse,
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

    An ``.npz`` holds arrays alone: ``edges`` [m, 2], a pair a row, each once; features, dense as
    ``x`` [n, d] or in CSR form as ``x_indptr`` [n + 1], ``x_indices``, ``x_values`` and ``x_shape``
    = [n, d], and their public bounds ``x_lower`` and ``x_upper``; labels ``y`` [n], -1 where
    unknown. Features or labels may be left out.

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
        raise ValueError(
            "name_or_path must be the path of an .npz, .zip, .txt or graph file, a folder or one of"
            f" {', '.join(REGISTRY)}; got {shown(name_or_path)}"
        )
    with _archive.naming(str(path)):
        name, arrays, metadata = _read(path, clean, max_bytes)
        if "source" not in arrays:
            metadata["source"] = str(path)
        return _format.build(
            name, arrays, bounds=bounds, clip=clip, metadata=metadata, max_bytes=max_bytes
        )


_Read = tuple[str, Arrays, dict[str, Any]]
"""The name, the arrays and the metadata of a data set."""


def _read(path: Path, clean: bool, max_bytes: int) -> _Read:
    """The data set of a path, by its layout."""
    if path.is_dir():
        return _read_folder(path, max_bytes)
    if path.suffix not in ("", ".npz", ".zip", ".txt"):
        return _read_graph(path, clean, max_bytes)
    data = _archive.read_file(path, max_bytes)
    if path.suffix == ".txt" and not graph_sets.is_powerful_gnns(data):
        return _read_graph(path, clean, max_bytes)
    if path.suffix == ".zip":
        return *graph_sets.parse_zip(data, path.stem, max_bytes), {}
    if path.suffix == ".txt":
        return path.stem, graph_sets.parse_powerful_gnns(data, dataset=path.stem), {}
    arrays = gnn_benchmark.read(data, clean=clean, max_bytes=max_bytes)
    return path.stem, arrays or _archive.read_arrays(data, max_bytes), {}


def _read_folder(path: Path, max_bytes: int) -> _Read:
    name = path.absolute().name
    sets = [file.name.removesuffix("_A.txt") for file in path.glob("*_A.txt")]
    if name not in sets and len(sets) == 1:
        name = sets[0]
    files = graph_sets.tu_files(path, name, max_bytes)
    if files:
        return name, graph_sets.parse(files, dataset=name, max_bytes=max_bytes), {}
    pickled = sorted(file.name for file in path.glob("ind.*.graph"))
    if not pickled:
        raise FileNotFoundError(
            f"{path} must hold {name}_A.txt and the other files of TU Dortmund's format, or "
            "ind.NAME.graph and the other files of Planetoid"
        )
    listed = ", ".join(pickled)
    require(len(pickled) == 1, f"the folder must hold one data set of Planetoid, got {listed}")
    name = pickled[0].removeprefix("ind.").removesuffix(".graph")
    for part in planetoid.PARTS:
        file = f"ind.{name}.{part}"
        files[file] = _archive.read_file(path / file, max_bytes)
    return name, planetoid.parse_users(files, dataset=name, max_bytes=max_bytes), {}


def _read_graph(path: Path, clean: bool, max_bytes: int) -> _Read:
    from ldp_jax.graph import graphs, interop  # bring jax

    graph, names = interop.read(interop.open_file(path, max_bytes=max_bytes), clean=clean)
    arrays = {"edges": graphs.to_edges(graph), "y": np.zeros((len(names), 0), np.int8)}
    notes = "The graph and the names of its nodes are read from the file, and no attribute."
    name = path.with_suffix("").stem if path.suffix == ".gz" else path.stem
    return name, arrays, {"node_names": tuple(map(str, names.tolist())), "notes": notes}


def _load_registered(entry: Entry, bounds: Bounds | None, clip: bool) -> Dataset:
    folder = _fetch.data_folder()
    mine = None if folder is None else folder / f"{entry.name}.npz"
    if entry is DEBIAN:
        data = resources.files("ldp_jax.datasets").joinpath("debian.npz").read_bytes()
        return _from_npz(entry, data, "the embedded debian.npz", bounds, clip)
    if mine is not None and mine.is_file():
        return _from_npz(entry, _archive.read_file(mine), str(mine), bounds, clip)
    if not entry.raw:
        raise _fetch.unavailable(entry, entry.source, None)
    cached = _fetch.cache_folder() / "parsed" / _CACHE_VERSION / f"{entry.name}.npz"
    written = cached.with_name(f"{cached.name}.sha256")
    dataset = None
    # The result of an earlier call, if the file is still the one that was written then.
    with contextlib.suppress(OSError, ValueError):  # absent or damaged
        data = _archive.read_file(cached)
        RawFile(url=str(cached), sha256=written.read_text("ascii").strip()).check(data, str(cached))
        dataset = _checked(entry, _archive.read_arrays(data), str(cached))
    if dataset is None:
        _fetch.require_cache()
        dataset = _checked(entry, parse(entry), f"the public files of {entry.name}")
        data = _format.packed(dataset)
        digest = hashlib.sha256(data).hexdigest() + "\n"
        with _fetch.writing_cache():
            cached.parent.mkdir(parents=True, exist_ok=True)
            # The digest last: without it the file counts as damaged.
            for place, content in ((cached, data), (written, digest.encode())):
                with _format.replacing(place) as temporary:
                    temporary.write_bytes(content)
    if bounds is None and not clip:
        return dataset
    return _checked(entry, _format.to_arrays(dataset), str(cached), bounds, clip)


def _from_npz(entry: Entry, data: bytes, where: str, bounds: Bounds | None, clip: bool) -> Dataset:
    RawFile(url=where, sha256=entry.npz_sha256).check(data, where)
    with _archive.naming(where):
        arrays = _archive.read_arrays(data)
    return _checked(entry, arrays, where, bounds, clip)


def parse(entry: Entry) -> Arrays:
    """The arrays of the uniform format, from the checked public files of a data set."""
    assert entry.parser is not None
    parser = _PARSERS[entry.parser]
    options = dict[str, Any](entry.options)
    files: Files = {}
    folder = _fetch.data_folder()
    if entry.tu is not None and folder is not None:  # the user's copy of TU Dortmund's files
        mine = folder / entry.tu
        files = graph_sets.tu_files(mine, entry.tu) or graph_sets.tu_files(folder, entry.tu)
    if files:
        parser = graph_sets.parse
        options = dict[str, Any](dataset=entry.tu)
    else:
        files = {raw.name: _fetch.raw_bytes(entry, raw) for raw in entry.raw}
    with _archive.naming(f"the public files of {entry.name} ({', '.join(files)}) do not parse"):
        return parser(files, **options)


def _checked(
    entry: Entry,
    arrays: Arrays,
    where: str,
    bounds: Bounds | None = None,
    clip: bool = False,
) -> Dataset:
    metadata: dict[str, Any] = {"licence": entry.licence, "notes": entry.notes}
    if entry is not DEBIAN:  # its file says which dump it was made of
        metadata["source"] = entry.source
    given = entry.bounds if bounds is None else bounds
    with _archive.naming(where):
        dataset = _format.build(entry.name, arrays, bounds=given, clip=clip, metadata=metadata)
    counts: dict[str, int | None] = {
        "nodes": dataset.num_nodes,
        "edges": dataset.num_edges,
        "features": dataset.num_features,
        "classes": dataset.num_classes,
        "graphs": None,
    }
    if dataset.node_graph is not None:
        counts["graphs"] = int(dataset.node_graph[-1]) + 1
    for count, got in counts.items():
        wanted = getattr(entry, count)
        require(
            wanted in (None, got), f"{where}: {entry.name} must have {wanted} {count}, got {got}"
        )
    return dataset
