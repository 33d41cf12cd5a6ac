"""Facebook pages, Wikipedia's crocodile and squirrel, and Twitch from ``benedekrozemberczki/MUSAE``.

Each has three files: ``<stem>_edges.csv`` (a header, then two node ids a line), ``<stem>.json`` (attributes
by node id) and ``<stem>_target.csv``, whose columns differ.
"""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ldp_jax.datasets._arrays import attribute_arrays, simple_edges, table, whole_number

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
      label: the source of classes: ``page_type`` (in alphabetical order), ``traffic`` (above its median; the extra
        ``target`` has the figures) or ``mature`` (the flag).
      num_features: how many attributes there are, over all countries for Twitch.
      karateclub_above: traffic above which the extra ``y_karateclub`` is 1.

    Raises:
      ValueError: naming the file or the column; never a label or an attribute.
    """
    if label not in _LABELS:
        raise ValueError(f"label must be one of {', '.join(_LABELS)}; got {label!r}")
    edges = simple_edges(edge_list(files[f"{stem}_edges.csv"]))
    id_column, value_column = ("new_id" if label == "mature" else "id"), ("target" if label == "traffic" else label)
    rows = csv_rows(files[f"{stem}_target.csv"], id_column, value_column)
    flags = {"False": 0, "True": 1}
    target = None
    if label == "page_type":
        classes = sorted({row["page_type"] for row in rows})
        numbers = {name: number for number, name in enumerate(classes)}
        y = column_by_node(rows, id_column, lambda row: numbers[row["page_type"]])
    elif label == "mature":
        if any(row["mature"] not in flags for row in rows):
            raise ValueError("mature must be True or False for every node")
        y = column_by_node(rows, id_column, lambda row: flags[row["mature"]])
    else:
        target = column_by_node(rows, id_column, lambda row: whole_number(row["target"], "target"))
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
    return table(data.partition(b"\n")[2], "the edge list", "edge", 2)


def csv_rows(data: bytes, *columns: str) -> list[dict[str, str]]:
    """The rows of a CSV file with a header line, some columns of it.

    Raises:
      ValueError: for text that is no CSV in UTF-8, has no row, or a row without one of the columns.
    """
    try:
        rows = list(csv.DictReader(io.StringIO(data.decode("utf-8"), newline="")))
    except (csv.Error, UnicodeDecodeError):  # which may hold a piece of the text
        rows = []
    if not rows or any(row.get(column) is None for row in rows for column in columns):
        raise ValueError(
            f"the table of nodes must be CSV in UTF-8, and have the columns {', '.join(columns)} in each row"
        )
    return [{column: row[column] for column in columns} for row in rows]


def attribute_lists(data: bytes, n: int) -> list[list[int]]:
    """The attributes of nodes 0..n-1 from a JSON object of lists by node id; a node may be missing.

    Raises:
      ValueError: for anything but lists of whole numbers by node, a node given twice, or one outside [0, n). No
        message shows an attribute.
    """
    try:
        pairs = json.loads(data, object_pairs_hook=tuple)
    except (ValueError, RecursionError):  # which may hold a piece of the text
        pairs = None
    if not isinstance(pairs, tuple):
        raise ValueError("the features must be one JSON object of lists by node")
    lists: dict[int, list[int]] = {}
    for text, row in pairs:
        node = whole_number(text, "node ids of the features")
        if not 0 <= node < n:
            raise ValueError(f"node ids of the features must be in [0, {n}), got {node}")
        if node in lists:
            raise ValueError(f"the features must name each node once, got {node} twice")
        if type(row) is not list or any(type(attribute) is not int for attribute in row):
            raise ValueError("the features must be one JSON object of lists of whole numbers by node")
        lists[node] = row
    return [lists.get(node, []) for node in range(n)]


def column_by_node(
    rows: Sequence[Mapping[str, str]], id_column: str, value: Callable[[Mapping[str, str]], int]
) -> np.ndarray:
    """One value a node, int64, from rows in any order; of a node that is listed again the last row counts.

    Raises:
      ValueError: unless the nodes are 0..n-1.
    """
    found = {whole_number(row[id_column], id_column): value(row) for row in rows}
    n = len(found)
    missing = set(range(n)) - set(found)
    if missing:
        raise ValueError(f"{id_column} must name the nodes 0..{n - 1}, got none for {min(missing)}")
    return np.array([found[node] for node in range(n)], np.int64)
