"""Sets of graphs: the text format of TU Dortmund, and that of ``weihua916/powerful-gnns``.

Both come as zip archives. Members are read by name into memory; nothing is ever extracted to a path that an
archive chooses.
"""

import io
import zipfile
import zlib
from collections.abc import Mapping

import numpy as np

from ldp_jax.datasets._arrays import simple_edges, whole_numbers

_MAX_MEMBER_BYTES = 2**31  # the largest member that is needed has about 0.3 GB


def read_member(data: bytes, *choices: str) -> bytes:
    """One file of a zip archive, by its exact name.

    Args:
      data: the archive.
      choices: names it may have; the first that is there counts.

    Raises:
      ValueError: where the archive is broken, has none of the names, or the file is implausibly large.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            there = set(archive.namelist())
            for name in choices:
                if name in there:
                    size = archive.getinfo(name).file_size
                    if size > _MAX_MEMBER_BYTES:
                        raise ValueError(f"{name} must have at most {_MAX_MEMBER_BYTES} bytes, got {size}")
                    return archive.read(name)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise ValueError(f"the archive is no readable zip (corrupt or truncated?): {error}") from error
    raise ValueError(f"the archive must hold {' or '.join(choices)}, got {', '.join(sorted(there)[:20])}")


def parse_tu(files: Mapping[str, bytes], *, dataset: str) -> dict[str, np.ndarray]:
    """A set of graphs in the format of TU Dortmund.

    ``_A.txt`` has one directed edge a line, ``_graph_indicator.txt`` the graph of each node and
    ``_graph_labels.txt`` the class of each graph, all ids from 1. Nodes are sorted by graph, in their old
    order within one; classes are numbered in the order of their values.

    Args:
      files: the bytes of the one archive.
      dataset: how the files in it begin.
    """
    (data,) = files.values()

    def column(suffix: str) -> np.ndarray:
        name = f"{dataset}_{suffix}.txt"
        text = read_member(data, f"{dataset}/{name}", name)
        return np.loadtxt(io.BytesIO(text), np.int64, delimiter=",", ndmin=2)

    pairs = column("A") - 1
    graph = column("graph_indicator")[:, 0] - 1
    labels = column("graph_labels")[:, 0]
    n = len(graph)
    if pairs.shape[1] != 2 or pairs.min() < 0 or pairs.max() >= n:
        raise ValueError(
            f"{dataset}_A.txt must hold pairs of nodes in [1, {n}], "
            f"got {int(pairs.min()) + 1}..{int(pairs.max()) + 1}"
        )
    if graph.min() < 0 or graph.max() != len(labels) - 1:
        raise ValueError(
            f"{dataset}_graph_indicator.txt must name graphs in [1, {len(labels)}], "
            f"got {int(graph.min()) + 1}..{int(graph.max()) + 1}"
        )
    order = np.argsort(graph, kind="stable")
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    return _arrays(place[pairs], graph[order], labels)


def parse_powerful_gnns(files: Mapping[str, bytes], *, dataset: str) -> dict[str, np.ndarray]:
    """A set of graphs in the format of powerful-gnns: whole numbers in one text file.

    First the number of graphs; for each graph its number of nodes and its class; for each node a tag, the
    number of its neighbours, and their ids within the graph from 0. Tags are ignored: in these sets they
    carry nothing.

    Args:
      files: the bytes of the one archive.
      dataset: the folder and file name in it.
    """
    (data,) = files.values()
    name = f"{dataset}/{dataset}.txt"
    numbers = whole_numbers(read_member(data, f"dataset/{name}", name))
    at = 1
    start = 0
    sizes: list[int] = []
    labels: list[int] = []
    degrees: list[int] = []
    neighbours: list[np.ndarray] = []
    for graph in range(int(numbers[0])):
        size, label = int(numbers[at]), int(numbers[at + 1])
        at += 2
        for _ in range(size):
            degree = int(numbers[at + 1])
            mine = numbers[at + 2 : at + 2 + degree]
            if degree < 0 or len(mine) != degree or (degree and not 0 <= mine.min() <= mine.max() < size):
                raise ValueError(f"{name}: neighbours in graph {graph} must be {degree} nodes in [0, {size})")
            degrees.append(degree)
            neighbours.append(mine + start)
            at += 2 + degree
        sizes.append(size)
        labels.append(label)
        start += size
    if at != len(numbers):
        raise ValueError(f"{name} must end after {int(numbers[0])} graphs, got {len(numbers) - at} more numbers")
    ends = np.concatenate(neighbours) if neighbours else np.zeros(0, np.int64)
    pairs = np.stack([np.repeat(np.arange(start), degrees), ends], 1)
    return _arrays(pairs, np.repeat(np.arange(len(sizes)), sizes), np.array(labels))


def _arrays(pairs: np.ndarray, graph: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "edges": simple_edges(pairs),
        "node_graph": graph.astype(np.int32),
        "y": np.unique(labels, return_inverse=True)[1].astype(np.int32),
    }
