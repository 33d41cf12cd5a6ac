"""PPI: which proteins interact in 24 human tissues, from ``ppi.zip`` of ``data.dgl.ai``.

For each of ``train``, ``valid`` and ``test`` the archive has ``_graph.json`` (nodes and directed
links, by row), ``_graph_id.npy`` (the graph of each row, numbered from 1 on), ``_feats.npy`` and
``_labels.npy``. Its digest is pinned. A copy at ``$LDP_JAX_DATA/ppi/ppi.zip`` comes before a
download.
"""

import json
from collections.abc import Sequence

import numpy as np

from ldp_jax.core.validate import require
from ldp_jax.datasets._archive import read_arrays, read_member
from ldp_jax.datasets._arrays import Arrays, Files, csr_arrays, integers, simple_edges

_SPLITS = ("train", "valid", "test")  # in the order of their graphs; 1, 2 and 3 in graph_split
_TOLERANCE = 1e-6  # of standardised values, which the archive rounds to float64


def parse(files: Files, *, graphs: Sequence[int]) -> Arrays:
    """The arrays of the uniform format: the graphs of all three splits, one after the other.

    The archive has features standardised over the training graphs. That is undone: they are 0 or 1,
    so that their bounds hold by definition. Each split has as many ``graphs``; labels are int8 [n,
    k]; the extra ``graph_split`` is 1, 2 or 3 of a graph of the training, validation or test split.
    """
    (data,) = files.values()
    names = [f"{split}_{part}" for part in ("graph_id", "feats", "labels") for split in _SPLITS]
    arrays = list(read_arrays(data, names=names).values())
    graph = arrays[:3]
    x = arrays[3:6]
    y = arrays[6:]
    pairs = []
    start = 0
    for split, rows in zip(_SPLITS, graph, strict=True):
        links = json.loads(read_member(data, f"{split}_graph.json"))["links"]
        ends = [(link["source"], link["target"]) for link in links]
        pairs.append(np.array(ends, np.int64).reshape(-1, 2) + start)
        start += len(rows)

    # A feature that was 1 is above 0 after it was standardised, by at least 1 / sqrt(n), far more
    # than rounding. A column of zeros was zeros.
    values = np.concatenate(x).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        binary = values > _TOLERANCE
        mean = np.abs(values[: len(x[0])].mean(0))
        good = (mean <= _TOLERANCE).all()  # what is not finite fails here, or below
        for side in (binary, ~binary):
            most = values.max(0, where=side, initial=-np.inf)
            least = values.min(0, where=side, initial=np.inf)
            good = good and (most - least <= _TOLERANCE).all()
    require(
        good,
        "feats must be attributes, 0 or 1, that are standardised over the training graphs: one "
        "value above 0 a column, one at most 0, and a mean of 0 there; and are not",
    )
    return {
        "edges": simple_edges(np.concatenate(pairs)),
        **csr_arrays(binary.astype(np.float32)),
        "y": integers("labels", np.concatenate(y), np.int8),
        "node_graph": np.concatenate(graph).astype(np.int32) - 1,
        "graph_split": np.repeat(np.arange(1, 4, dtype=np.int8), graphs),
    }
