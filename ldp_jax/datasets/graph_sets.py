"""Sets of graphs: the text format of TU Dortmund, and that of ``weihua916/powerful-gnns``.

Messages number graphs and nodes as the files do: from 1 in TU's, from 0 in the other. No message
holds a class.
"""

import contextlib
import io
import re
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ldp_jax.datasets._archive import MAX_BYTES, member_names, read_file, read_member
from ldp_jax.datasets._arrays import distinct, integers, simple_edges, table, whole_numbers

_NEEDED = ("A", "graph_indicator", "graph_labels")
_READ = (*_NEEDED, "node_labels", "node_attributes", "graph_attributes")
_UNREAD = ("edge_labels", "edge_attributes")  # parts of TU Dortmund's format

_END = "the end of the file (is it cut short?)"


def tu_files(folder: Path, dataset: str, max_bytes: int = MAX_BYTES) -> dict[str, bytes]:
    """The files of a set in a folder, for :func:`parse_tu`.

    All that are unpacked, or the archive, or nothing.
    """
    place = lambda part: folder / f"{dataset}_{part}.txt"
    packed = folder / f"{dataset}.zip"
    if any(place(part).is_file() for part in _NEEDED):
        there = [part for part in (*_READ, *_UNREAD) if part in _NEEDED or place(part).is_file()]
        return {
            place(part).name: b"" if part in _UNREAD else read_file(place(part), max_bytes)
            for part in there
        }
    return {packed.name: read_file(packed, max_bytes)} if packed.is_file() else {}


def parse_tu(
    files: Mapping[str, bytes], *, dataset: str, max_bytes: int = MAX_BYTES
) -> dict[str, np.ndarray]:
    """A set of graphs in the format of TU Dortmund.

    ``_A.txt`` has one directed edge a line, ``_graph_indicator.txt`` the graph of each node and
    ``_graph_labels.txt`` the class of each graph, all ids from 1; edges all in both directions, or
    all in one. Nodes are sorted by graph; classes are numbered by value. Optional
    ``_node_attributes.txt`` are the features, ``_node_labels.txt`` and ``_graph_attributes.txt``
    extras. Labels and attributes of edges are not read, as ``notes`` says. ``files`` are the one
    archive, whose members may declare ``max_bytes``, or those of ``dataset``.
    """
    name = lambda part: f"{dataset}_{part}.txt"
    listed = (
        files if name("A") in files or len(files) > 1 else member_names(next(iter(files.values())))
    )
    there = [
        part
        for part in (*_READ, *_UNREAD)
        if name(part) in listed or f"{dataset}/{name(part)}" in listed
    ]

    def text(part: str) -> tuple[bytes, str]:
        return _text(files, max_bytes, name(part), f"{dataset}/{name(part)}", name(part)), name(
            part
        )

    texts = [text(part) for part in _NEEDED]
    pairs = table(*texts[0], "edge", 2) - 1
    graph = table(*texts[1], "node", 1)[:, 0] - 1
    labels = table(*texts[2], "graph", 1, shown=False)[:, 0]
    n = len(graph)
    unknown = np.flatnonzero((graph < 0) | (graph >= len(labels)))
    if len(unknown):
        raise ValueError(
            f"{dataset}_graph_indicator.txt must name graphs in [1, {len(labels)}], one a line of "
            f"{dataset}_graph_labels.txt, got graph {graph[unknown[0]] + 1} for node {unknown[0] + 1}"
        )
    outside = np.flatnonzero(((pairs < 0) | (pairs >= n)).any(1))
    if len(outside):
        ends = pairs[outside[0]]
        inside = ends[(ends >= 0) & (ends < n)]
        where = f"graph {graph[inside[0]] + 1}" if len(inside) else "no graph"
        raise ValueError(
            f"{dataset}_A.txt must hold pairs of nodes in [1, {n}], one a line of "
            f"{dataset}_graph_indicator.txt, got {tuple((ends + 1).tolist())} in {where}"
        )
    arrays = _arrays(dataset, pairs, graph, labels, np.arange(1, n + 1), 1)
    order = np.argsort(graph, kind="stable")
    if "node_labels" in there:
        found = table(*text("node_labels"), "node", 1, shown=False)
        arrays["node_labels"] = integers(
            "node_labels", _a_line(found, n, name("node_labels"), "node")[order, 0], np.int32
        )
    if "node_attributes" in there:
        arrays["x"] = _a_line(_reals(*text("node_attributes")), n, name("node_attributes"), "node")[
            order
        ]
    if "graph_attributes" in there:
        found = _reals(*text("graph_attributes"))
        with np.errstate(over="ignore"):
            arrays["graph_attributes"] = _a_line(
                found, len(labels), name("graph_attributes"), "graph"
            ).astype(np.float32)
    unread = ", ".join(name(part) for part in _UNREAD if part in there)
    return arrays | (
        {"notes": np.frombuffer(f"Not read: {unread}.".encode(), np.uint8)} if unread else {}
    )


def _reals(text: bytes, name: str) -> np.ndarray:
    """Lines of as many real numbers each, with commas between; float64 [lines, k].

    The message shows no line.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of no line, which the caller refuses
            return np.loadtxt(io.BytesIO(text), np.float64, comments=None, delimiter=",", ndmin=2)
    except (ValueError, OverflowError):
        raise ValueError(
            f"each line of {name} must hold as many real numbers, with commas between"
        ) from None


def _a_line(found: np.ndarray, count: int, name: str, unit: str) -> np.ndarray:
    if len(found) != count:
        raise ValueError(f"{name} must have a line for each {unit} ({count}), got {len(found)}")
    return found


def parse_zip(data: bytes, stem: str, max_bytes: int) -> tuple[str, dict[str, np.ndarray]]:
    """The name and the arrays of the one set in an archive, of either format.

    Of several that which is named so.
    """
    members = [name for name in member_names(data) if not name.startswith("__MACOSX/")]
    sets = [name for name in members if name.endswith("_A.txt")]
    tu = bool(sets)
    if not tu:
        sets = [name for name in members if re.fullmatch(r"(?:.*/)?([^/]+)/\1\.txt", name)]
    if not sets:
        sets = [name for name in members if re.fullmatch(r"(?!(?i:readme))[^/]+\.txt", name)]
    ending = "_A.txt" if tu else ".txt"
    named = [name for name in sets if name.rpartition("/")[2] == f"{stem}{ending}"]
    if len(sets) != 1 and len(named) != 1:
        raise ValueError(
            "the archive must hold one set of graphs, as NAME_A.txt and the other files of TU Dortmund's format "
            f"or as NAME/NAME.txt in that of powerful-gnns, got {', '.join(sets[:20] or members[:20])}: "
            "of several, unpack the one that is wanted"
        )
    (found,) = named if len(named) == 1 else sets
    start = found.removesuffix(ending)
    dataset = start.rpartition("/")[2]
    if not tu:
        text = read_member(data, found, max_bytes=max_bytes)
        return dataset, parse_powerful_gnns({f"{dataset}.txt": text}, dataset=dataset)
    files = {
        f"{dataset}_{part}.txt": b""
        if part in _UNREAD
        else read_member(data, f"{start}_{part}.txt", max_bytes=max_bytes)
        for part in (*_READ, *_UNREAD)
        if part in _NEEDED or f"{start}_{part}.txt" in members
    }
    return dataset, parse_tu(files, dataset=dataset)


def is_powerful_gnns(text: bytes) -> bool:
    """Whether a text file begins as a set of graphs does, with one number, or is all in one line."""
    lines = [line for line in text.split(b"\n", 100) if line.strip()]
    words = re.split(rb"[\s,]+", lines[0].partition(b"{")[0].strip()) if lines else [b""]
    return words[0][:1] not in (b"#", b"%") and (
        len(words) == 1 or (len(lines) == 1 and len(words) > 3)
    )


def parse_powerful_gnns(
    files: Mapping[str, bytes], *, dataset: str, max_bytes: int = MAX_BYTES
) -> dict[str, np.ndarray]:
    """A set of graphs in the format of powerful-gnns: whole numbers in one text file.

    First the number of graphs; for each graph its number of nodes and its class; for each node a
    tag (ignored), the number of its neighbours, and their ids within the graph from 0. Edges are
    listed all at both ends, or all at one; classes are numbered by value. ``files`` are the one
    archive or the text file of ``dataset``.
    """
    name = f"{dataset}/{dataset}.txt"
    numbers, rest = _leading_numbers(
        _text(files, max_bytes, f"{dataset}.txt", f"dataset/{name}", name)
    )
    if not len(numbers) or numbers[0] < 1:
        got = numbers[0] if len(numbers) else rest
        raise ValueError(f"{name} must begin with the number of its graphs, got {got}")
    at = 1
    start = 0
    sizes: list[int] = []
    labels: list[int] = []
    degrees: list[int] = []
    neighbours: list[np.ndarray] = []
    for graph in range(int(numbers[0])):
        try:
            size, label = int(numbers[at]), int(numbers[at + 1])
            if size < 1:
                raise ValueError(f"{name}: graph {graph} must have a node, got {size}")
            at += 2
            for _ in range(size):
                degree = int(numbers[at + 1])
                mine = numbers[at + 2 : at + 2 + degree]
                if degree < 0 or (len(mine) and not 0 <= mine.min() <= mine.max() < size):
                    raise ValueError(
                        f"{name}: neighbours in graph {graph} must be {degree} nodes in [0, {size})"
                    )
                if len(mine) < degree:
                    raise IndexError(at)
                degrees.append(degree)
                neighbours.append(mine + start)
                at += 2 + degree
        except IndexError:
            raise ValueError(
                f"{name} must hold {numbers[0]} graphs in whole numbers, got {rest} in graph {graph}"
            ) from None
        sizes.append(size)
        labels.append(label)
        start += size
    if at != len(numbers) or rest != _END:
        got = "more numbers" if at != len(numbers) else rest
        raise ValueError(f"{name} must end after {numbers[0]} graphs, got {got}")
    pairs = np.stack([np.repeat(np.arange(start), degrees), np.concatenate(neighbours)], 1)
    graph = np.repeat(np.arange(len(sizes)), sizes)
    return _arrays(
        name,
        pairs,
        graph,
        np.array(labels),
        np.arange(start) - (np.cumsum(sizes) - sizes)[graph],
        0,
    )


def _text(files: Mapping[str, bytes], max_bytes: int, name: str, *members: str) -> bytes:
    """A file that is given by its name, or as a member of the one archive."""
    if name in files:
        return files[name]
    (data,) = files.values()
    return read_member(data, *members, max_bytes=max_bytes)


def _leading_numbers(text: bytes) -> tuple[np.ndarray, str]:
    """The whole numbers that a file begins with, int64, and what follows them."""
    with contextlib.suppress(ValueError):
        return whole_numbers(text), _END
    leading = re.compile(rb"(?>\s*+[+-]?\d{1,18}(?![^\s]))*+").match(text)
    assert leading is not None  # it matches nothing at the least
    return whole_numbers(leading.group()), "another word"


def _arrays(
    where: str,
    pairs: np.ndarray,
    graph: np.ndarray,
    labels: np.ndarray,
    ids: np.ndarray,
    first: int,
) -> dict[str, np.ndarray]:
    """The arrays of the uniform format, after the checks that both formats share."""
    # ``pairs`` are directed, ``graph`` [n] each node's graph, both from 0. Messages call nodes by
    # ``ids`` [n], and the first graph ``first``.
    if not len(labels):
        raise ValueError(f"{where} must hold a graph, got none")
    empty = np.flatnonzero(np.bincount(graph, minlength=len(labels)) == 0)
    if len(empty):
        raise ValueError(
            f"{where}: graph {empty[0] + first} must have a node, got none but a label"
        )
    across = np.flatnonzero(graph[pairs[:, 0]] != graph[pairs[:, 1]])
    if len(across):
        u, v = pairs[across[0]]
        raise ValueError(
            f"{where}: edges must stay in one graph, got {ids[u]}, {ids[v]}, which joins graph {graph[u] + first} "
            f"and graph {graph[v] + first}"
        )
    order = np.argsort(graph, kind="stable")
    place = np.empty(len(graph), np.int64)
    place[order] = np.arange(len(graph))
    edges = simple_edges(place[pairs])
    code = distinct((pairs[:, 0] << 32 | pairs[:, 1])[pairs[:, 0] != pairs[:, 1]])
    if len(code) not in (len(edges), 2 * len(edges)):
        u, v = divmod(int(code[~np.isin(code >> 32 | (code & 0xFFFFFFFF) << 32, code)][0]), 2**32)
        raise ValueError(
            f"{where}: graph {graph[u] + first} must list every edge in both directions, as other edges of the set "
            f"are, got {ids[u]}, {ids[v]} alone"
        )
    return {
        "edges": edges,
        "node_graph": graph[order].astype(np.int32),
        "y": np.unique(labels, return_inverse=True)[1].astype(np.int32),
    }
