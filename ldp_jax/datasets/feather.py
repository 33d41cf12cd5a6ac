"""LastFM Asia from ``benedekrozemberczki/FEATHER``: edges, lists of liked artists, countries.

Whoever has the three files puts them into ``$LDP_JAX_DATA/lastfm/``; elsewhere they are downloaded.
"""

from collections.abc import Mapping

import numpy as np

from ldp_jax.datasets._arrays import attribute_arrays, integers, simple_edges, whole_number
from ldp_jax.datasets.musae import attribute_lists, column_by_node, csv_rows, edge_list


def parse(files: Mapping[str, bytes], *, num_features: int, keep_classes: int) -> dict[str, np.ndarray]:
    """The arrays of the uniform format: the nodes of the largest classes, renumbered in their old order.

    Args:
      files: the checked bytes of ``lastfm_asia_{edges.csv,features.json,target.csv}``, by name.
      num_features: how many artists there are.
      keep_classes: how many classes to keep, by size (the lower class first, if two are as large).

    Returns:
      The arrays; the extras ``orig_id`` and ``orig_class`` are the numbers before the filter.

    Raises:
      ValueError: naming the file or the column; never a label or an attribute.
    """
    rows = csv_rows(files["lastfm_asia_target.csv"], "id", "target")
    y = integers("target", column_by_node(rows, "id", lambda row: whole_number(row["target"], "target")), np.int32)
    n = len(y)
    lists = attribute_lists(files["lastfm_asia_features.json"], n)
    if y.min() < 0:
        raise ValueError("target must be >= 0")
    values, counts = np.unique(y, return_counts=True)
    classes = np.sort(values[np.argsort(-counts, kind="stable")[:keep_classes]])
    keep = np.flatnonzero(np.isin(y, classes))
    renumber = np.full(n, -1, np.int64)
    renumber[keep] = np.arange(len(keep))
    pairs = edge_list(files["lastfm_asia_edges.csv"])
    if len(pairs) and (pairs.min() < 0 or pairs.max() >= n):
        raise ValueError(f"edges must join nodes in [0, {n}), got {int(pairs.min())}..{int(pairs.max())}")
    pairs = renumber[pairs]
    return {
        "edges": simple_edges(pairs[(pairs >= 0).all(1)]),
        **attribute_arrays([lists[node] for node in keep], num_features),
        "y": np.searchsorted(classes, y[keep]).astype(np.int32),
        "orig_id": keep.astype(np.int32),
        "orig_class": classes.astype(np.int32),
    }
