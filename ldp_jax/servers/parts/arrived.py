"""Rows that arrived from devices, and the nodes that they are of."""

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Integer
from numpy.typing import ArrayLike

from ldp_jax.core import validate


@runtime_checkable
class ReportRows(Protocol):
    """Reports about one table or question, as :meth:`ldp_jax.deployment.store.ReportStore.all` reads them.

    Attributes:
      user: uint64 [m], in any order.
      output: int32, places in an alphabet [m], or noisy counts [m, K].
      digest: of the table or question.
    """

    user: np.ndarray
    output: np.ndarray
    digest: bytes


def places(nodes: np.ndarray, n: int, user: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The node of each user who has one, and who these are, bool [m]."""
    if nodes.dtype.kind in "iu" and nodes.size and nodes.min() >= 0:
        nodes = nodes.astype(np.uint64)  # beside users, in whole numbers: float64 has 53 bits
    if nodes.dtype != np.uint64 or nodes.shape != (n,) or len(np.unique(nodes)) != n:
        raise ValueError(f"nodes must be {n} distinct users, whole numbers >= 0, got {nodes.dtype} {nodes.shape}")
    order = np.argsort(nodes)
    place = order[np.minimum(np.searchsorted(nodes, user, sorter=order), n - 1)]
    known = nodes[place] == user
    return place[known], known


def reporters(user: ArrayLike) -> Integer[np.ndarray, " m"]:
    """Users of reports as uint64 [m]; a cast alone would make 2^64 - 1 of -1, and 1 of 1.5."""
    validate.ids(user=user)
    return np.asarray(user).astype(np.uint64)
