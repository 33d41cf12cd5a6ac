"""The ``.npz`` layouts of ``shchur/gnn-benchmark``, as Amazon's graphs, and of the heterophilous benchmarks.

Files of the former also hold pickled names; they are never touched.
"""

from collections.abc import Collection, Mapping

import numpy as np
import scipy.sparse

from ldp_jax.datasets._archive import read_arrays
from ldp_jax.datasets._arrays import csr_arrays, largest_connected, simple_edges
from ldp_jax.datasets._format import checked_csr

_FIELDS = ("data", "indices", "indptr", "shape")
_ADJACENCY = {f"adj_{field}" for field in _FIELDS}
_HETEROPHILOUS = {"edges", "node_features", "node_labels"}


def parse(files: Mapping[str, bytes], *, largest_component: bool) -> dict[str, np.ndarray]:
    """The arrays of the uniform format.

    With ``largest_component`` of that alone, its nodes in their old order.
    """
    ((name, data),) = files.items()
    needed = [f"{part}_{field}" for part in ("adj", "attr") for field in _FIELDS]
    arrays = read_arrays(data, name, names=[*needed, "labels"])
    adjacency, x = (
        scipy.sparse.csr_array(
            tuple(arrays[f"{part}_{field}"] for field in _FIELDS[:3]), shape=arrays[f"{part}_shape"]
        )
        for part in ("adj", "attr")
    )
    y = arrays["labels"].astype(np.int32)
    adjacency.eliminate_zeros()
    if largest_component:
        keep = largest_connected(adjacency)
        adjacency, x, y = adjacency[keep][:, keep], x[keep], y[keep]
    entries = adjacency.tocoo()
    return {"edges": simple_edges(np.stack([entries.row, entries.col], 1)), **csr_arrays(x), "y": y}


def read(
    data: bytes, where: str, found: Collection[str], *, clean: bool, max_bytes: int
) -> dict[str, np.ndarray] | None:
    """The arrays of the uniform format from a user's file whose arrays are called ``found``.

    None where it has neither layout. The rule for weights and directions is that of
    :func:`ldp_jax.graph.interop.read`, with ``clean``. The masks of the heterophilous benchmarks
    are extras.
    """
    if {*found} >= _HETEROPHILOUS and "y" not in found:
        arrays = read_arrays(data, where, max_bytes)
        x, y = arrays.pop("node_features"), arrays.pop("node_labels")
        if y.ndim != 1:
            raise ValueError(f"node_labels must have one axis, got {y.ndim}")
        return arrays | {"edges": _edges(arrays["edges"], len(y), clean), "x": x, "y": y}
    if not {*found} >= _ADJACENCY:
        return None
    features = (
        {f"attr_{field}" for field in _FIELDS}
        if "attr_data" in found
        else {"attr_matrix"} & {*found}
    )
    arrays = read_arrays(data, where, max_bytes, [*_ADJACENCY, *features, *({"labels"} & {*found})])
    values, indices, indptr, shape = (arrays[f"adj_{field}"] for field in _FIELDS)
    made = {"edges": _edges(checked_csr(indptr, indices, values, shape, of="adj"), None, clean)}
    if "attr_matrix" in features:
        made["x"] = arrays["attr_matrix"]
    elif features:
        made |= {f"x_{field}": arrays[f"attr_{field}"] for field in _FIELDS[1:]}
        made["x_values"] = arrays["attr_data"]
    made["y"] = arrays.get("labels", np.zeros((len(indptr) - 1, 0), np.int8))
    return made


def _edges(source: object, nodes: int | None, clean: bool) -> np.ndarray:
    from ldp_jax.graph import graphs, interop  # bring jax

    return graphs.to_edges(interop.read(source, nodes, pairs_in="rows", clean=clean).graph)
