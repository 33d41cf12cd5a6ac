"""The numbers that PrivGE and LDP-GE print (``published.toml``), to stand beside ours."""

import math
from collections.abc import Mapping
from typing import Any

from experiments._common import told
from experiments.privge.settings import DEFAULT, HYPERPARAMETERS

_KNOWN = told("published.toml", "privge")

PUBLISHED_VALUES: dict[tuple[str, str, str, float], float] = {
    **{("node", dataset, "hds", 0.01): value for dataset, value in _KNOWN["node_hds"].items()},
    **{
        (task, dataset, "non-private", math.inf): value
        for task in ("node", "link")
        for dataset, value in _KNOWN[f"{task}_non_private"].items()
    },
    **{
        ("link", *name.split(), epsilon): value
        for name, values in _KNOWN["link"].items()
        for epsilon, value in zip((1.0, 2.0, 3.0, 5.0), values, strict=True)
    },
}
"""(task, dataset, mechanism, epsilon) -> accuracy or AUC in per cent."""

NAMED_GAPS = tuple(map(tuple, _KNOWN["gaps"]))
"""Node task: (dataset, epsilon, a, b, published accuracy of a less that of b)."""


def printed(row: Mapping[str, Any]) -> float | None:
    """The paper's number of a row, of its k of HDS and its embedding, the raw one; None where it prints none."""
    chosen = HYPERPARAMETERS.get(row["dataset"], DEFAULT)
    other = row["mechanism"] == "hds" and row["k"] != (chosen.k if row["task"] == "node" else chosen.link_k)
    if other or row["preprocessing"] == "standardized":
        return None
    return PUBLISHED_VALUES.get((row["task"], row["dataset"], row["mechanism"], row["epsilon"]))
