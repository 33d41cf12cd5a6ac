"""Sets of graphs: the text format of TU Dortmund, and that of ``weihua916/powerful-gnns``.

Messages number graphs and nodes as the files do: from 1 in TU's, from 0 in the other. No message holds a class.
"""

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ldp_jax.datasets._archive import MAX_BYTES, read_file, read_member
from ldp_jax.datasets._arrays import distinct, simple_edges, table, whole_numbers

_END = "the end of the file (is it cut short?)"


def tu_files(folder: Path, dataset: str, max_bytes: int = MAX_BYTES) -> dict[str, bytes]:
    """The files of a set in a folder, for :func:`parse_tu`: all that are unpacked, or the archive, or nothing."""
    unpacked = [folder / f"{dataset}_{part}.txt" for part in ("A", "graph_indicator", "graph_labels")]
    packed = folder / f"{dataset}.zip"
    paths = unpacked if any(path.is_file() for path in unpacked) else [packed] if packed.is_file() else []
    return {path.name: read_file(path, max_bytes) for path in paths}


def parse_tu(files: Mapping[str, bytes], *, dataset: str, max_bytes: int = MAX_BYTES) -> dict[str, np.ndarray]:
    """A set of graphs in the format of TU Dortmund.

    ``_A.txt`` has one directed edge a line, ``_graph_indicator.txt`` the graph of each node and
    ``_graph_labels.txt`` the class of each graph, all ids from 1; edges all in both directions, or all in one.
    Nodes are sorted by graph; classes are numbered by value. Labels and attributes of nodes and edges are not read.
    ``files`` are the one archive, whose members may declare ``max_bytes``, or the three files of ``dataset``.
    """
    texts = []
    for part in ("A", "graph_indicator", "graph_labels"):
        name = f"{dataset}_{part}.txt"
        texts.append((_text(files, max_bytes, name, f"{dataset}/{name}", name), name))
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
    return _arrays(dataset, pairs, graph, labels, np.arange(1, n + 1), 1)


def parse_powerful_gnns(
    files: Mapping[str, bytes], *, dataset: str, max_bytes: int = MAX_BYTES
) -> dict[str, np.ndarray]:
    """A set of graphs in the format of powerful-gnns: whole numbers in one text file.

    First the number of graphs; for each graph its number of nodes and its class; for each node a tag (ignored), the
    number of its neighbours, and their ids within the graph from 0. Edges are listed all at both ends, or all at
    one; classes are numbered by value. ``files`` are the one archive or the text file of ``dataset``.
    """
    name = f"{dataset}/{dataset}.txt"
    numbers, rest = _leading_numbers(_text(files, max_bytes, f"{dataset}.txt", f"dataset/{name}", name))
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
                    raise ValueError(f"{name}: neighbours in graph {graph} must be {degree} nodes in [0, {size})")
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
    return _arrays(name, pairs, graph, np.array(labels), np.arange(start) - (np.cumsum(sizes) - sizes)[graph], 0)


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
    where: str, pairs: np.ndarray, graph: np.ndarray, labels: np.ndarray, ids: np.ndarray, first: int
) -> dict[str, np.ndarray]:
    """The arrays of the uniform format, after the checks that both formats share.

    ``pairs`` are directed edges between nodes from 0; ``graph`` [n] is each node's graph, from 0, in any order.
    Messages call nodes by ``ids`` [n], and the first graph ``first``.
    """
    if not len(labels):
        raise ValueError(f"{where} must hold a graph, got none")
    empty = np.flatnonzero(np.bincount(graph, minlength=len(labels)) == 0)
    if len(empty):
        raise ValueError(f"{where}: graph {empty[0] + first} must have a node, got none but a label")
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
