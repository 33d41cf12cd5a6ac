"""The ``.npz`` layouts of ``shchur/gnn-benchmark`` and of the heterophilous benchmarks.

Files of the former, such as Amazon's graphs, also hold pickled names; they are never touched.
"""

import numpy as np
import scipy.sparse

from ldp_jax.core.validate import require
from ldp_jax.datasets._archive import array_names, read_arrays
from ldp_jax.datasets._arrays import Arrays, Files, csr_arrays, largest_connected, simple_edges
from ldp_jax.datasets._format import checked_csr

_FIELDS = ("data", "indices", "indptr", "shape")
_HETEROPHILOUS = {"edges", "node_features", "node_labels"}


def _names(part: str) -> list[str]:
    return [f"{part}_{field}" for field in _FIELDS]


def parse(files: Files, *, largest_component: bool) -> Arrays:
    """The arrays of the uniform format.

    With ``largest_component`` of that alone, its nodes in their old order.
    """
    (data,) = files.values()
    arrays = read_arrays(data, names=[*_names("adj"), *_names("attr"), "labels"])

    def matrix(part: str) -> scipy.sparse.csr_array:
        *entries, shape = (arrays[name] for name in _names(part))
        return scipy.sparse.csr_array(tuple(entries), shape=shape)

    adjacency = matrix("adj")
    x = matrix("attr")
    y = arrays["labels"].astype(np.int32)
    adjacency.eliminate_zeros()
    if largest_component:
        keep = largest_connected(adjacency)
        adjacency = adjacency[keep][:, keep]
        x = x[keep]
        y = y[keep]
    entries = adjacency.tocoo()
    edges = simple_edges(np.stack([entries.row, entries.col], 1))
    return {"edges": edges, **csr_arrays(x), "y": y}


def read(data: bytes, *, clean: bool, max_bytes: int) -> Arrays | None:
    """The arrays of the uniform format from a user's file, None where it has neither layout.

    The rule for weights and directions is that of :func:`ldp_jax.graph.interop.read`, with
    ``clean``. The masks of the heterophilous benchmarks are extras.
    """

    def edges(source: object, nodes: int | None) -> np.ndarray:
        from ldp_jax.graph import graphs, interop  # bring jax

        return graphs.to_edges(interop.read(source, nodes, pairs_in="rows", clean=clean).graph)

    found = array_names(data)
    if found >= _HETEROPHILOUS and "y" not in found:
        arrays = read_arrays(data, max_bytes)
        x = arrays.pop("node_features")
        y = arrays.pop("node_labels")
        require(y.ndim == 1, f"node_labels must have one axis, got {y.ndim}")
        return arrays | {"edges": edges(arrays["edges"], len(y)), "x": x, "y": y}
    if not found >= {*_names("adj")}:
        return None

    others = _names("attr") if "attr_data" in found else ["attr_matrix"]
    wanted = [name for name in (*others, "labels") if name in found or name in _names("attr")]
    arrays = read_arrays(data, max_bytes, [*_names("adj"), *wanted])
    values, indices, indptr, shape = (arrays.pop(name) for name in _names("adj"))
    adjacency = checked_csr(indptr, indices, values, shape, of="adj")
    no_labels = np.zeros((len(indptr) - 1, 0), np.int8)
    made = {"edges": edges(adjacency, None), "y": arrays.pop("labels", no_labels)}
    renamed = {"attr_matrix": "x", "attr_data": "x_values"}
    for name, array in arrays.items():
        made[renamed.get(name, name.replace("attr_", "x_"))] = array
    return made
