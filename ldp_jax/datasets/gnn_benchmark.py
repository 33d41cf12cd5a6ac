"""Amazon's co-purchase graphs from the ``.npz`` files of ``shchur/gnn-benchmark``, which digests pin.

Those files also hold pickled names; they are never touched.
"""

from collections.abc import Mapping

import numpy as np
import scipy.sparse

from ldp_jax.datasets._archive import read_arrays
from ldp_jax.datasets._arrays import csr_arrays, largest_connected, simple_edges

_FIELDS = ("data", "indices", "indptr", "shape")


def parse(files: Mapping[str, bytes], *, largest_component: bool) -> dict[str, np.ndarray]:
    """The arrays of the uniform format; with ``largest_component`` of that alone, its nodes in their old order."""
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
