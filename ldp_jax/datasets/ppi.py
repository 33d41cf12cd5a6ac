"""PPI: which proteins interact in 24 human tissues, from the archive ``ppi.zip`` of ``data.dgl.ai``.

For each of ``train``, ``valid`` and ``test`` the archive has ``_graph.json`` (nodes and directed links, by row),
``_graph_id.npy`` (the graph of each row, numbered from 1 on), ``_feats.npy`` and ``_labels.npy``. A copy at
``$LDP_JAX_DATA/ppi/ppi.zip`` comes before a download.
"""

import json
from collections.abc import Mapping, Sequence

import numpy as np

from ldp_jax.datasets._archive import MAX_BYTES, read_arrays, read_member
from ldp_jax.datasets._arrays import csr_arrays, integers, simple_edges

_SPLITS = ("train", "valid", "test")  # in the order of their graphs; 1, 2 and 3 in graph_split
_TOLERANCE = 1e-6  # of standardised values, which the archive rounds to float64


def parse(
    files: Mapping[str, bytes], *, graphs: Sequence[int], max_bytes: int = MAX_BYTES
) -> dict[str, np.ndarray]:
    """The arrays of the uniform format: the graphs of all three splits, one after the other.

    The archive has features standardised by mean and deviation over the training graphs, which everybody's records
    move. That is undone: features are 0 or 1, so that their bounds hold by definition.

    Args:
      files: the checked bytes of the one archive, by its name.
      graphs: how many graphs each split has.
      max_bytes: what the arrays may declare together, and each graph by itself.

    Returns:
      The arrays, labels as int8 [n, k]; the extra ``graph_split`` has 1, 2 or 3 for a graph of the training,
      validation or test split.

    Raises:
      ValueError: naming the file of the archive, and of the graph the place; never a feature or a label.
    """
    ((where, data),) = files.items()
    names = [f"{split}_{part}" for split in _SPLITS for part in ("graph_id", "feats", "labels")]
    arrays = read_arrays(data, where, max_bytes, names)
    node_graph, pairs, labels = [], [], []
    start, first = 0, 1
    for split, count in zip(_SPLITS, graphs, strict=True):
        graph = _graph_of_rows(arrays, split, first, count)
        links = _links(read_member(data, f"{split}_graph.json", max_bytes=max_bytes), split, graph)
        node_graph.append(graph - 1)
        pairs.append(links + start)
        labels.append(integers(f"{split}_labels", arrays[f"{split}_labels"], np.int8))
        start += len(graph)
        first += count
    for part in ("feats", "labels"):
        widths = [arrays[f"{split}_{part}"].shape[1] for split in _SPLITS]
        if len(set(widths)) > 1:
            raise ValueError(f"{part} must have as many columns in all three splits, got {widths}")
    return {
        "edges": simple_edges(np.concatenate(pairs)),
        **csr_arrays(_attributes(*(arrays[f"{split}_feats"] for split in _SPLITS))),
        "y": np.concatenate(labels),
        "node_graph": np.concatenate(node_graph).astype(np.int32),
        "graph_split": np.repeat(np.arange(1, 4, dtype=np.int8), graphs),
    }


def _graph_of_rows(arrays: Mapping[str, np.ndarray], split: str, first: int, count: int) -> np.ndarray:
    """The graph of each row of a split, int64 [n], as the archive numbers them; every array has these rows."""
    graph = integers(f"{split}_graph_id", arrays[f"{split}_graph_id"], np.int64)
    shapes = [graph.shape, *(arrays[f"{split}_{part}"].shape for part in ("feats", "labels"))]
    if [len(shape) for shape in shapes] != [1, 2, 2] or len({shape[0] for shape in shapes}) > 1:
        raise ValueError(
            f"{split}_graph_id, {split}_feats and {split}_labels must have one row a node, and the last two "
            f"columns, got shapes {', '.join(map(str, shapes))}"
        )
    if (np.diff(graph) < 0).any() or not np.array_equal(np.unique(graph), np.arange(first, first + count)):
        raise ValueError(
            f"{split}_graph_id must name the graphs {first}..{first + count - 1} in this order, each for a row"
        )
    return graph


def _links(text: bytes, split: str, graph: np.ndarray) -> np.ndarray:
    """The links of a split, int64 [m, 2], between rows of one graph."""
    name, n = f"{split}_graph.json", len(graph)
    try:
        found = json.loads(text)
        nodes = [node["id"] for node in found["nodes"]]
        ends = [link[end] for link in found["links"] for end in ("source", "target")]
        if not {int}.issuperset({*map(type, nodes), *map(type, ends)}):
            raise TypeError("a node is no whole number")
        pairs = np.array(ends, np.int64).reshape(-1, 2)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ValueError(
            f"{name} must be JSON with nodes, each of an id, and links, each of a source and a target, all whole "
            f"numbers ({type(error).__name__}: {error})"
        ) from error
    if sorted(nodes) != list(range(n)):
        raise ValueError(f"{name} must have the nodes 0..{n - 1}, one a row of {split}_graph_id, and has others")
    outside = np.flatnonzero(((pairs < 0) | (pairs >= n)).any(1))
    if len(outside):
        raise ValueError(f"{name} must link nodes in [0, {n}), got {tuple(pairs[outside[0]].tolist())}")
    across = np.flatnonzero(graph[pairs[:, 0]] != graph[pairs[:, 1]])
    if len(across):
        u, v = pairs[across[0]]
        raise ValueError(
            f"{name}: edges must stay in one graph, got {u}, {v}, which joins graph {graph[u]} and graph {graph[v]}"
        )
    return pairs


def _attributes(train: np.ndarray, valid: np.ndarray, test: np.ndarray) -> np.ndarray:
    """0 or 1, float32 [n, d], from columns that were 0 or 1 before they were standardised over the first rows.

    What was 1 is above 0, by at least 1 / sqrt(n), far more than rounding. A column of 0 everywhere was 0.

    Raises:
      ValueError: for columns of more than one value above 0 or at most 0, or another mean than 0 over the first
        rows.

    >>> _attributes(np.array([[-0.5], [2.0], [-0.5], [-0.5], [-0.5]]), np.array([[2.0]]), np.zeros((0, 1))).ravel()
    array([0., 1., 0., 0., 0., 1.], dtype=float32)
    """
    if any(x.dtype.kind != "f" for x in (train, valid, test)):
        raise ValueError(f"feats must be real numbers, got {train.dtype}, {valid.dtype} and {test.dtype}")
    x = np.concatenate([train, valid, test]).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        one = x > _TOLERANCE
        most = [x.max(0, where=side, initial=-np.inf) for side in (one, ~one)]
        least = [x.min(0, where=side, initial=np.inf) for side in (one, ~one)]
        spread = np.subtract(most, least)
        mean = np.abs(x[: len(train)].mean(0))
        good = np.isfinite(x).all() and (spread <= _TOLERANCE).all() and (mean <= _TOLERANCE).all()
    if not good:
        raise ValueError(
            "feats must be attributes, 0 or 1, that are standardised over the training graphs: one value above 0 a "
            "column, one at most 0, and a mean of 0 there; and are not"
        )
    return one.astype(np.float32)
