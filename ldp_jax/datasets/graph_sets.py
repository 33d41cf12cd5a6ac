"""Sets of graphs: the text format of TU Dortmund, and that of ``weihua916/powerful-gnns``.

No message holds a class.
"""

import io
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ldp_jax.core.validate import require
from ldp_jax.datasets._archive import MAX_BYTES, member_names, read_file, read_member
from ldp_jax.datasets._arrays import (
    Arrays,
    Files,
    distinct,
    integers,
    simple_edges,
    table,
    whole_numbers,
)

_NEEDED = ("A", "graph_indicator", "graph_labels")
_READ = (*_NEEDED, "node_labels", "node_attributes", "graph_attributes")
_UNREAD = ("edge_labels", "edge_attributes")  # parts of TU Dortmund's format

_END = "the end of the file (is it cut short?)"
_SETS = (r".*_A\.txt", r"(?:.*/)?([^/]+)/\1\.txt", r"(?!(?i:readme))[^/]+\.txt")
"""The members of an archive that name a set of TU Dortmund, or are one of powerful-gnns."""


def parse(files: Files, *, dataset: str, max_bytes: int = MAX_BYTES) -> Arrays:
    """Read a set of graphs from an archive of either format, or from TU Dortmund's text files."""
    if len(files) > 1:
        return parse_tu(files, dataset=dataset)
    (data,) = files.values()
    return parse_zip(data, dataset, max_bytes)[1]


def tu_files(folder: Path, dataset: str, max_bytes: int = MAX_BYTES) -> Files:
    """The files of a set in a folder, for :func:`parse`: unpacked, or the archive, or none."""
    packed = folder / f"{dataset}.zip"
    there = lambda name: (folder / name).is_file()
    if any(there(f"{dataset}_{part}.txt") for part in _NEEDED):
        return _parts(dataset, there, lambda name: read_file(folder / name, max_bytes))
    if not packed.is_file():
        return {}
    return {packed.name: read_file(packed, max_bytes)}


def _parts(dataset: str, there: Callable[[str], bool], read: Callable[[str], bytes]) -> Files:
    """TU Dortmund's files: all that are needed, and the others that are there."""
    texts = {}
    for part in (*_READ, *_UNREAD):
        name = f"{dataset}_{part}.txt"
        if part in _NEEDED or there(name):
            texts[name] = b"" if part in _UNREAD else read(name)
    return texts


def parse_zip(data: bytes, stem: str, max_bytes: int) -> tuple[str, Arrays]:
    """The name and the arrays of the only set in an archive, or of the set that ``stem`` names."""
    members = [name for name in member_names(data) if not name.startswith("__MACOSX/")]
    sets: list[str] = []
    for pattern in _SETS:
        sets = sets or [name for name in members if re.fullmatch(pattern, name)]
    wanted = (f"{stem}_A.txt", f"{stem}.txt")
    named = [name for name in sets if name.rpartition("/")[2] in wanted]
    found = named if len(named) == 1 else sets
    require(
        len(found) == 1,
        "the archive must hold one set of graphs, as NAME_A.txt and the other files of TU "
        "Dortmund's format or as NAME/NAME.txt in that of powerful-gnns, got "
        f"{', '.join(sets[:20] or members[:20])}: of several, unpack the one that is wanted",
    )
    folder, slash, file = found[0].rpartition("/")
    read = lambda name: read_member(data, f"{folder}{slash}{name}", max_bytes=max_bytes)
    dataset = file.removesuffix(".txt")
    if not file.endswith("_A.txt"):
        return dataset, parse_powerful_gnns(read(file), dataset=dataset)
    dataset = dataset.removesuffix("_A")
    texts = _parts(dataset, lambda name: f"{folder}{slash}{name}" in members, read)
    return dataset, parse_tu(texts, dataset=dataset)


def parse_tu(files: Files, *, dataset: str) -> Arrays:
    """Read a set of graphs in the format of TU Dortmund.

    ``_A.txt`` has one directed edge a line, ``_graph_indicator.txt`` the graph of each node and
    ``_graph_labels.txt`` the class of each graph, all ids from 1; edges all in both directions, or
    all in one. Nodes are sorted by graph; classes are numbered by value. Optional
    ``_node_attributes.txt`` are the features, ``_node_labels.txt`` and ``_graph_attributes.txt``
    extras. Labels and attributes of edges are not read, as ``notes`` says.
    """
    name = lambda part: f"{dataset}_{part}.txt"

    def lines(part: str, unit: str, width: int = 1, *, shown: bool = False) -> np.ndarray:
        return table(files[name(part)], name(part), unit, width, shown=shown)

    pairs = lines("A", "edge", 2, shown=True) - 1
    graph = lines("graph_indicator", "node", shown=True)[:, 0] - 1
    labels = lines("graph_labels", "graph")[:, 0]
    n = len(graph)
    unknown = np.flatnonzero((graph < 0) | (graph >= len(labels)))
    if len(unknown):
        raise ValueError(
            f"{name('graph_indicator')} must name graphs in [1, {len(labels)}], one a line of "
            f"{name('graph_labels')}, got graph {graph[unknown[0]] + 1} for node {unknown[0] + 1}"
        )
    outside = pairs[((pairs < 0) | (pairs >= n)).any(1)]
    if len(outside):
        raise ValueError(
            f"{name('A')} must hold pairs of nodes in [1, {n}], one a line of "
            f"{name('graph_indicator')}, got {tuple((outside[0] + 1).tolist())}"
        )
    arrays = _arrays(dataset, pairs, graph, labels)
    order = np.argsort(graph, kind="stable")

    def optional(part: str, count: int, unit: str) -> np.ndarray | None:
        file = name(part)
        if file not in files:
            return None
        if part == "node_labels":
            found = table(files[file], file, unit, 1, shown=False)
        else:
            found = _reals(files[file], file)
        require(
            len(found) == count,
            f"{file} must have a line for each {unit} ({count}), got {len(found)}",
        )
        return found

    node_labels = optional("node_labels", n, "node")
    if node_labels is not None:
        arrays["node_labels"] = integers("node_labels", node_labels[order, 0], np.int32)
    x = optional("node_attributes", n, "node")
    if x is not None:
        arrays["x"] = x[order]
    of_graphs = optional("graph_attributes", len(labels), "graph")
    if of_graphs is not None:
        with np.errstate(over="ignore"):
            arrays["graph_attributes"] = of_graphs.astype(np.float32)
    unread = [name(part) for part in _UNREAD if name(part) in files]
    if unread:
        notes = f"Not read: {', '.join(unread)}."
        arrays["notes"] = np.frombuffer(notes.encode(), np.uint8)
    return arrays


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


def is_powerful_gnns(text: bytes) -> bool:
    """Whether a text file begins with one number, as sets of graphs do, or is all in one line."""
    lines = [line for line in text.split(b"\n", 100) if line.strip()]
    if not lines:
        return True
    words = re.split(rb"[\s,]+", lines[0].partition(b"{")[0].strip())
    if words[0][:1] in (b"#", b"%"):  # a comment
        return False
    return len(words) == 1 or (len(lines) == 1 and len(words) > 3)


def parse_powerful_gnns(text: bytes, *, dataset: str) -> Arrays:
    """Read a set of graphs in the format of powerful-gnns: whole numbers in one text file.

    First the number of graphs; for each graph its number of nodes and its class; for each node a
    tag (ignored), the number of its neighbours, and their ids within the graph from 0. Edges are
    listed all at both ends, or all at one; classes are numbered by value.
    """
    name = f"{dataset}/{dataset}.txt"
    rest = _END
    try:
        numbers = whole_numbers(text)
    except ValueError:
        rest = "another word"
        leading = re.match(rb"(?>\s*+[+-]?\d{1,18}(?![^\s]))*+", text)
        assert leading is not None  # it matches nothing at the least
        numbers = whole_numbers(leading.group())
    require(
        len(numbers) and numbers[0] >= 1,
        f"{name} must begin with the number of its graphs, got {[*numbers[:1], rest][0]}",
    )
    at = 1
    graph = 0
    sizes: list[int] = []
    labels: list[int] = []
    degrees: list[int] = []
    neighbours: list[np.ndarray] = []
    try:
        for graph in range(int(numbers[0])):
            start = len(degrees)
            size = int(numbers[at])
            labels.append(int(numbers[at + 1]))
            require(size >= 1, f"{name}: graph {graph} must have a node, got {size}")
            at += 2
            for _ in range(size):
                degree = int(numbers[at + 1])
                mine = numbers[at + 2 : at + 2 + degree]
                if degree < 0 or (len(mine) and not 0 <= mine.min() <= mine.max() < size):
                    raise ValueError(
                        f"{name}: neighbours in graph {graph} must be {degree} nodes in [0, {size})"
                    )
                at += 2 + degree
                numbers[at - 1]  # all neighbours are there
                degrees.append(degree)
                neighbours.append(mine + start)
            sizes.append(size)
    except IndexError:
        raise ValueError(
            f"{name} must hold {numbers[0]} graphs in whole numbers, got {rest} in graph {graph}"
        ) from None
    if at != len(numbers):
        rest = "more numbers"
    require(rest == _END, f"{name} must end after {numbers[0]} graphs, got {rest}")
    node = np.repeat(np.arange(len(degrees)), degrees)
    graph_of = np.repeat(np.arange(len(sizes)), sizes)
    pairs = np.stack([node, np.concatenate(neighbours)], 1)
    return _arrays(name, pairs, graph_of, np.array(labels))


def _arrays(where: str, pairs: np.ndarray, graph: np.ndarray, labels: np.ndarray) -> Arrays:
    """The arrays of the uniform format, from directed ``pairs`` and each node's ``graph`` [n]."""
    # As many labels as nodes would be read as theirs.
    require(
        np.bincount(graph, minlength=len(labels)).all(),
        f"{where}: each graph must have a node, and one has a label alone",
    )
    order = np.argsort(graph, kind="stable")
    place = np.empty(len(graph), np.int64)
    place[order] = np.arange(len(graph))
    edges = simple_edges(place[pairs])
    first, second = pairs.T
    code = first << 32 | second
    directed = distinct(code[first != second])
    require(
        len(directed) in (len(edges), 2 * len(edges)),
        f"{where} must list all edges in both directions, or all in one, got "
        f"{len(directed)} lines for {len(edges)} edges",
    )
    return {
        "edges": edges,
        "node_graph": graph[order].astype(np.int32),
        "y": np.unique(labels, return_inverse=True)[1].astype(np.int32),
    }
