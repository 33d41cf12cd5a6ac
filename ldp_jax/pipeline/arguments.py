"""A panel, its labels and everybody's records: checked on the host before anybody reports."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from ldp_jax.core.types import PRNGKey
from ldp_jax.features import Discrete
from ldp_jax.pipeline.local_prediction import check_panel
from ldp_jax.pipeline.private_labels import keep_of, label_noise, reported_labels
from ldp_jax.pipeline.rows import Rows, feature_rows


class PanelArguments(NamedTuple):
    """A panel, its labels and everybody's records.

    Attributes:
      labels: int32 [n], -1 outside the panel. Where labels are private, 0 inside it: none is looked at.
      num_classes: C.
      members: int [panel], the nodes of the panel in order.
      rows: the records of all.
      noise: what a member reports a label by; None where labels are public.
    """

    labels: Int[np.ndarray, " n"]
    num_classes: int
    members: Int[np.ndarray, " panel"]
    rows: Rows
    noise: Discrete | None

    @property
    def keep(self) -> float:
        """The probability that the server has the true label."""
        return 1.0 if self.noise is None else keep_of(self.noise)

    def server_labels(self, key: PRNGKey, panel: Any, labels: Any) -> Int[np.ndarray, " n"]:
        """Labels by node as the server has them: as they are, or as members report them, each once."""
        if self.noise is None:
            return self.labels
        found = self.labels.copy()
        found[np.asarray(panel)] = reported_labels(key, self.noise, labels)
        return found


def panel_arguments(
    n: int, features: Any, panel: Any, labels: Any, *, num_classes: int | None, label_epsilon: float | None
) -> PanelArguments:
    """Check what is given of a panel among n users.

    Raises:
      ValueError: for arguments that do not fit each other or are out of range; of private labels it says nothing.
    """
    noise = None if label_epsilon is None else label_noise(label_epsilon, num_classes)
    everybody = _labels(panel, labels if noise is None else np.zeros_like(labels), n)
    members = np.flatnonzero(everybody >= 0)
    if num_classes is None:
        num_classes = int(everybody.max(initial=-1)) + 1
    if noise is None:
        check_panel(everybody, num_classes)
    elif not 2 <= len(members) < n:
        raise ValueError(
            "panel must have at least two members and leave users whose class is asked for, got "
            f"{len(members)} of {n} users"
        )
    rows = features if isinstance(features, Rows) else feature_rows(features, public=members)
    if rows.shape[0] != n:
        raise ValueError(f"features must have a row for each of {n} users, got {rows.shape[0]}")
    return PanelArguments(everybody, num_classes, members, rows, noise)


def _labels(panel: Any, labels: Any, n: int) -> Int[np.ndarray, " n"]:
    """Labels by node, -1 outside the panel."""
    nodes, given = np.asarray(panel), np.asarray(labels)
    for name, array in (("panel", nodes), ("labels", given)):
        if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
            raise ValueError(f"{name} must be integers of shape [panel], got {array.dtype} of shape {array.shape}")
    if len(nodes) != len(given):
        raise ValueError(f"labels must be of the panel's {len(nodes)} members, got {len(given)}")
    if len(nodes) and (nodes.min() < 0 or nodes.max() >= n):
        raise ValueError(f"panel must name nodes in [0, {n}), got {nodes.min()} to {nodes.max()}")
    if len(np.unique(nodes)) != len(nodes):
        raise ValueError("panel must name each of its members once")
    if len(given) and given.min() < 0:
        raise ValueError(f"labels of the panel must be >= 0, got {given.min()}")
    if len(given) and given.max() >= 2**31:  # they are kept in 32 bits
        raise ValueError(f"labels of the panel must be below 2^31, got {given.max()}")
    found = np.full(n, -1, np.int32)
    found[nodes] = given
    return found
