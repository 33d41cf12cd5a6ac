"""The numbers that PoinDP (Wei et al., AAAI 2024) prints (``published.toml``): Tables 1, 2 and 3, in per cent."""

import math
from collections.abc import Mapping
from typing import Any

from experiments._common import told

_KNOWN = told("published.toml", "poindp")

TABLE_1: dict[tuple[str, str], tuple[float, float]] = {
    (dataset, name): tuple(values[2 * place : 2 * place + 2])
    for name, values in _KNOWN["table_1"].items()
    for place, dataset in enumerate(_KNOWN["orders"])
}
"""Weighted F1 and macro-F1, by data set and row, at epsilon 1."""
TABLE_2: dict[tuple[str, str], float] = {
    (dataset, name): value
    for name, values in _KNOWN["table_2"].items()
    for dataset, value in zip(_KNOWN["orders"], values, strict=True)
}
"""Weighted F1 at epsilon 0.01."""
TABLE_3 = {tuple(name.split()): tuple(values) for name, values in _KNOWN["table_3"].items()}
"""AUC and precision of the attack at epsilon 0.2, by data set and row."""
HYPERBOLICITY: dict[str, float] = _KNOWN["hyperbolicity"]


def printed(row: Mapping[str, Any]) -> float | None:
    place, epsilon, metric = (row["dataset"], row["mechanism"]), row["epsilon"], row["metric"]
    if row["task"] == "membership":
        scores = dict(zip(("AUC", "precision"), TABLE_3.get(place, ()), strict=False))
        return scores.get(metric) if row["attack"] == "trained" else None
    if row["task"] != "node" or row["split"] != "random" or row.get("variant"):
        return None
    if epsilon == 0.01:
        return TABLE_2.get(place) if metric == "weighted-F1" else None
    scores = dict(zip(("weighted-F1", "macro-F1"), TABLE_1.get(place, ()), strict=False))
    return scores.get(metric) if epsilon in (1.0, math.inf) else None
