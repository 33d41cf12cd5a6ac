"""Facebook pages, Wikipedia's crocodile and squirrel, and Twitch from ``benedekrozemberczki/MUSAE``.

Each has three files: ``<stem>_edges.csv`` (a header, then two node ids a line), ``<stem>.json`` (attributes
by node id) and ``<stem>_target.csv``, whose columns differ.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence

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
    lists = attribute_lists(files[f"{stem}.json"])
    rows = list(csv.DictReader(io.StringIO(files[f"{stem}_target.csv"].decode("utf-8"))))
    n = len(lists)
    arrays = {"edges": edges, **attribute_arrays(lists, num_features)}
    if label == "page_type":
        classes = sorted({row["page_type"] for row in rows})
        arrays["y"] = column_by_node(
            rows, "id", [classes.index(row["page_type"]) for row in rows], n, np.int32
        )
    elif label == "mature":
        flags = {"True": 1, "False": 0}
        arrays["y"] = column_by_node(rows, "new_id", [flags[row["mature"]] for row in rows], n, np.int32)
    else:
        target = column_by_node(rows, "id", [int(row["target"]) for row in rows], n, np.int64)
        arrays["y"] = (target > np.median(target)).astype(np.int32)
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


def attribute_lists(data: bytes) -> list[list[int]]:
    """The attributes of nodes 0..n-1 from a JSON object of lists by node id.

    Raises:
      ValueError: unless the ids are 0..n-1.
    """
    lists = {int(node): row for node, row in json.loads(data).items()}
    missing = set(range(len(lists))) - set(lists)
    if missing:
        raise ValueError(f"node ids of the features must be 0..{len(lists) - 1}, got none for {min(missing)}")
    return [lists[node] for node in range(len(lists))]


def column_by_node(
    rows: Sequence[Mapping[str, str]], id_column: str, values: Sequence[int], n: int, dtype: type
) -> np.ndarray:
    """One value a node from rows in any order; a node that is listed again must say the same.

    Raises:
      ValueError: for a node outside [0, n), one that is missing, or one that says two things.
    """
    found: dict[int, int] = {}
    for row, value in zip(rows, values, strict=True):
        node = int(row[id_column])
        if not 0 <= node < n:
            raise ValueError(f"{id_column} must be in [0, {n}), got {node}")
        if found.setdefault(node, value) != value:
            raise ValueError(f"{id_column} {node} must have one target, got {found[node]} and {value}")
    if len(found) != n:
        missing = min(set(range(n)) - set(found))
        raise ValueError(f"every node of [0, {n}) must have a target, got none for {missing}")
    return np.array([found[node] for node in range(n)], dtype)
