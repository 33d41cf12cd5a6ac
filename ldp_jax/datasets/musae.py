"""Facebook pages, Wikipedia and Twitch from MUSAE, and LastFM Asia from FEATHER.

Both are repositories of ``benedekrozemberczki``. Each data set has edges (a header, then two ids a
line), attributes by id as JSON, and a table of targets; digests pin them.
"""

import csv
import io
import json

import numpy as np

from ldp_jax.datasets._arrays import Arrays, Files, attribute_arrays, simple_edges, table


def parse(
    files: Files,
    *,
    stem: str,
    label: str,
    num_features: int,
    karateclub_above: int | None = None,
) -> Arrays:
    """The arrays of the uniform format without accounts, from files that begin with ``stem``.

    Classes are those of ``label``: ``page_type`` (in alphabetical order), ``traffic`` (above its
    median; extras are ``target``, the figures, and ``y_karateclub``, above ``karateclub_above``) or
    ``mature`` (the flag).
    """
    id_column = "new_id" if label == "mature" else "id"
    column = "target" if label == "traffic" else label
    values = _column(files[f"{stem}_target.csv"], id_column, column)
    extras: Arrays = {}
    if label == "traffic":
        target = extras["target"] = np.array(list(map(int, values)), np.int64)
        y = target > np.median(target)
        if karateclub_above is not None:
            extras["y_karateclub"] = (target > karateclub_above).astype(np.int32)
    else:
        y = np.unique(values, return_inverse=True)[1]  # False comes before True
    attributes = _attributes(files[f"{stem}.json"], len(y))
    return {
        "edges": simple_edges(_pairs(files[f"{stem}_edges.csv"])),
        **attribute_arrays(attributes, num_features),
        "y": y.astype(np.int32),
        **extras,
    }


def parse_feather(files: Files, *, num_features: int, keep_classes: int) -> Arrays:
    """LastFM Asia: liked artists and countries of the nodes of the largest classes.

    If two are as large, the lower one is kept. The extras ``orig_id`` and ``orig_class`` are the
    numbers before the filter.
    """
    values = _column(files["lastfm_asia_target.csv"], "id", "target")
    y = np.array(list(map(int, values)))
    lists = _attributes(files["lastfm_asia_features.json"], len(y))

    largest = np.argsort(-np.bincount(y), kind="stable")[:keep_classes]
    classes = np.sort(largest)
    keep = np.flatnonzero(np.isin(y, classes))
    renumber = np.full(len(y), -1, np.int64)
    renumber[keep] = np.arange(len(keep))
    pairs = renumber[_pairs(files["lastfm_asia_edges.csv"])]
    return {
        "edges": simple_edges(pairs[(pairs >= 0).all(1)]),
        **attribute_arrays([lists[node] for node in keep], num_features),
        "y": np.searchsorted(classes, y[keep]).astype(np.int32),
        "orig_id": keep.astype(np.int32),
        "orig_class": classes.astype(np.int32),
    }


def _pairs(data: bytes) -> np.ndarray:
    return table(data.partition(b"\n")[2], "the edge list", "edge", 2)


def _column(data: bytes, id_column: str, column: str) -> list[str]:
    """One value a node, from rows in any order, of which the last of a node counts."""
    rows = csv.DictReader(io.StringIO(data.decode("utf-8"), newline=""))
    found = {int(row[id_column]): row[column] for row in rows}
    return [found[node] for node in range(len(found))]


def _attributes(data: bytes, n: int) -> list[list[int]]:
    lists = json.loads(data)
    return [lists.get(str(node), []) for node in range(n)]
