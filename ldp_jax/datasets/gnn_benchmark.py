"""Amazon's co-purchase graphs from the ``.npz`` files of ``shchur/gnn-benchmark``.

Those files also hold pickled names; they are never touched, ``allow_pickle`` stays off.
"""

import io
import zipfile
from collections.abc import Mapping

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from ldp_jax.datasets._arrays import csr_arrays, simple_edges

_ARRAYS = tuple(f"{part}_{field}" for part in ("adj", "attr") for field in ("data", "indices", "indptr", "shape"))


def parse(files: Mapping[str, bytes], *, largest_component: bool) -> dict[str, np.ndarray]:
    """The arrays of the uniform format.

    Args:
      files: the checked bytes of the one file, by its name.
      largest_component: keep only the largest connected component, its nodes in their old order.
    """
    ((name, data),) = files.items()
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in (*_ARRAYS, "labels")}
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise ValueError(f"{name} is no readable .npz: {error}") from error
    adjacency, x = (
        scipy.sparse.csr_array(
            (arrays[f"{part}_data"], arrays[f"{part}_indices"], arrays[f"{part}_indptr"]),
            shape=tuple(arrays[f"{part}_shape"].tolist()),
        )
        for part in ("adj", "attr")
    )
    y = arrays["labels"].astype(np.int32)
    adjacency.eliminate_zeros()
    if largest_component:
        _, component = connected_components(adjacency, directed=False)
        keep = np.flatnonzero(component == np.bincount(component).argmax())
        adjacency, x, y = adjacency[keep][:, keep], x[keep], y[keep]
    entries = adjacency.tocoo()
    return {"edges": simple_edges(np.stack([entries.row, entries.col], 1)), **csr_arrays(x), "y": y}
