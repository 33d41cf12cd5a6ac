"""Amazon's co-purchase graphs from the ``.npz`` files of ``shchur/gnn-benchmark``.

Those files also hold pickled names; they are never touched.
"""

from collections.abc import Mapping

import numpy as np

from ldp_jax.datasets._archive import MAX_BYTES, read_arrays
from ldp_jax.datasets._arrays import checked_csr, csr_arrays, integers, largest_connected, simple_edges

_FIELDS = ("data", "indices", "indptr", "shape")
_ARRAYS = tuple(f"{part}_{field}" for part in ("adj", "attr") for field in _FIELDS)


def parse(
    files: Mapping[str, bytes], *, largest_component: bool, max_bytes: int = MAX_BYTES
) -> dict[str, np.ndarray]:
    """The arrays of the uniform format.

    Args:
      files: the checked bytes of the one file, by its name.
      largest_component: keep only the largest connected component, its nodes in their old order.
      max_bytes: what the arrays that are needed may declare together.

    Raises:
      ValueError: naming the file and the array.
    """
    ((name, data),) = files.items()
    arrays = read_arrays(data, name, max_bytes, (*_ARRAYS, "labels"))
    adjacency, x = (
        checked_csr(*(arrays[f"{part}_{field}"] for field in _FIELDS), part=f"{part}_", entries="data")
        for part in ("adj", "attr")
    )
    y = integers("labels", arrays["labels"], np.int32)
    n = adjacency.shape[0]
    if adjacency.shape != (n, n) or x.shape[0] != n or y.shape != (n,):
        raise ValueError(
            f"adj, attr and labels must have one row a node, and adj one column, got shapes {adjacency.shape}, "
            f"{x.shape} and {y.shape}"
        )
    adjacency.eliminate_zeros()
    if largest_component:
        keep = largest_connected(adjacency)
        adjacency, x, y = adjacency[keep][:, keep], x[keep], y[keep]
    entries = adjacency.tocoo()
    return {"edges": simple_edges(np.stack([entries.row, entries.col], 1)), **csr_arrays(x), "y": y}
