"""Facebook pages, Wikipedia's crocodile and squirrel, and Twitch from ``benedekrozemberczki/MUSAE``.

Each has three files: ``<stem>_edges.csv`` (a header, then two node ids a line), ``<stem>.json`` (attributes
by node id) and ``<stem>_target.csv``, whose columns differ.
"""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ldp_jax.datasets._arrays import attribute_arrays, simple_edges

_LABELS = ("page_type", "traffic", "mature")


def parse(
    files: Mapping[str, bytes],
    *,
    stem: str,
    label: str,
    num_features: int,
    karateclub_above: int | None = None,
) -> dict[str, np.ndarray]:
    """The arrays of the uniform format; names and ids of accounts are left out.

    Args:
      files: the checked bytes of the three files, by name.
      stem: how the file names begin.
      label: where the classes come from: ``page_type`` (in alphabetical order), ``traffic`` (above its
        median; the figures themselves become the extra ``target``) or ``mature`` (the flag).
      num_features: how many attributes there are, over all countries for Twitch.
      karateclub_above: traffic above which the extra ``y_karateclub`` is 1.
    """
    if label not in _LABELS:
        raise ValueError(f"label must be one of {', '.join(_LABELS)}; got {label!r}")
    edges = simple_edges(edge_list(files[f"{stem}_edges.csv"]))
    rows = list(csv.DictReader(io.StringIO(files[f"{stem}_target.csv"].decode("utf-8"))))
    flags = {"False": 0, "True": 1}
    target = None
    if label == "page_type":
        classes = sorted({row["page_type"] for row in rows})
        y = column_by_node(rows, "id", lambda row: classes.index(row["page_type"]))
    elif label == "mature":
        y = column_by_node(rows, "new_id", lambda row: flags[row["mature"]])
    else:
        target = column_by_node(rows, "id", lambda row: int(row["target"]))
        y = target > np.median(target)
    arrays = {
        "edges": edges,
        **attribute_arrays(attribute_lists(files[f"{stem}.json"], len(y)), num_features),
        "y": y.astype(np.int32),
    }
    if target is not None:
        arrays["target"] = target
        if karateclub_above is not None:
            arrays["y_karateclub"] = (target > karateclub_above).astype(np.int32)
    return arrays


def edge_list(data: bytes) -> np.ndarray:
    r"""The pairs of a CSV file with one header line; int64 [m, 2].

    >>> edge_list(b"id1,id2\n0,1\n2,1\n").tolist()
    [[0, 1], [2, 1]]
    """
    return np.loadtxt(io.BytesIO(data), np.int64, delimiter=",", skiprows=1, ndmin=2)


def attribute_lists(data: bytes, n: int) -> list[list[int]]:
    """The attributes of nodes 0..n-1 from a JSON object of lists by node id; a node may be missing.

    Raises:
      ValueError: for a node outside [0, n).
    """
    lists = {int(node): row for node, row in json.loads(data).items()}
    outside = [node for node in lists if not 0 <= node < n]
    if outside:
        raise ValueError(f"node ids of the features must be in [0, {n}), got {outside[0]}")
    return [lists.get(node, []) for node in range(n)]


def column_by_node(
    rows: Sequence[Mapping[str, str]], id_column: str, value: Callable[[Mapping[str, str]], int]
) -> np.ndarray:
    """One value a node, int64, from rows in any order; of a node that is listed again the last row counts.

    Raises:
      ValueError: unless the nodes are 0..n-1.
    """
    found = {int(row[id_column]): value(row) for row in rows}
    n = len(found)
    missing = set(range(n)) - set(found)
    if missing:
        raise ValueError(f"{id_column} must name the nodes 0..{n - 1}, got none for {min(missing)}")
    return np.array([found[node] for node in range(n)], np.int64)
