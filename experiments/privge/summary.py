"""Summaries of tidy results: means, 95 % intervals, paired differences to structure-only rows.

Their curves.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from experiments._common import row_names
from experiments._report import METRIC_LABELS, contrast, counted, curves, interval, level
from experiments.privge.cells import EMBEDDINGS, GRAPH_ALONE, NON_PRIVATE, STRUCTURE
from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval

LABELS, COLOURS = row_names("privge")
Key = tuple[str, float, int]
"""Mechanism, epsilon, k."""


class Line(NamedTuple):
    """One row of a summary, in per cent; differences are paired by seed."""

    mechanism: str
    epsilon: float
    k: int
    value: ConfidenceInterval
    twin: ConfidenceInterval | None
    """its own structure-only row; None for baselines"""
    gain: ConfidenceInterval | None
    """value less twin"""
    over_best: ConfidenceInterval | None
    """value less the best structure-only row; the best of many is lucky as well as good: this errs
    in its favour
    """
    over_non_private: ConfidenceInterval | None
    embedding: str = ""
    """which one validation chose, with a star where there was one alone"""
    twin_embedding: str = ""
    repeats: float | None = None
    """the lower budget whose row this one repeats, seed by seed, as its twin does: there noise
    drowns the features, and standardising takes away its scale, all that a budget changes"""


class Summary(NamedTuple):
    """All rows of one data set, task and configuration."""

    dataset: str
    task: str
    metric: str
    config: str
    lines: tuple[Line, ...]
    best: Key | None
    """the best structure-only row of those with most seeds, also of the k sweep"""
    best_value: ConfidenceInterval | None
    seeds: int
    mean_gain: ConfidenceInterval | None = None
    """of the :meth:`counted` rows, a number a seed: rows of one seed share their split and their
    keys
    """

    def counted(self) -> list[Line]:
        """Private rows whose gain has an interval, each release once."""
        return [x for x in self.lines if x.gain is not None and x.gain.n > 1 and x.repeats is None]

    def find(self, mechanism: str, epsilon: float) -> Line | None:
        """The row of a mechanism at a budget (the first k, where there are several)."""
        return next(
            (x for x in self.lines if x.mechanism == mechanism and x.epsilon == epsilon), None
        )

    def epsilons(self) -> list[float]:
        return sorted({x.epsilon for x in self.lines if x.twin is not None})


def summarise(frame: pd.DataFrame, keep_k: dict[str, int] | None = None) -> list[Summary]:
    """A summary of each data set, task and configuration.

    The embedding of each row is the :func:`chosen` one.

    ``keep_k`` is the k of HDS that tables show, by data set and task as ``"cora node"``; all by
    default. The best structure-only row is looked for among all.
    """
    groups = frame.groupby(["dataset", "task", "metric", "config"], sort=False)
    summaries = [
        _summarise_one(n, part, (keep_k or {}).get(f"{n[0]} {n[1]}")) for n, part in groups
    ]
    return [summary for summary in summaries if summary.lines]  # a sweep over k alone has no table


def _summarise_one(names: Any, part: pd.DataFrame, keep_k: int | None) -> Summary:
    values: dict[Key, pd.Series] = {}
    embedding = {}
    for (mechanism, epsilon, k), group in part.groupby(["mechanism", "epsilon", "k"]):
        key = (str(mechanism), float(epsilon), int(k))
        kept, embedding[key] = chosen(group)
        values[key] = 100.0 * kept.set_index("seed").sort_index().value
    twins = {key: series for key, series in values.items() if key[0].startswith(STRUCTURE)}
    most = max(map(len, twins.values()), default=0)  # a row with fewer seeds cannot be the best
    full = {key: series.mean() for key, series in twins.items() if len(series) == most}
    best = max(full, key=lambda key: full[key]) if full else None
    lines, gains = [], []
    for key, series in values.items():
        mechanism, epsilon, k = key
        if mechanism.startswith(STRUCTURE) or (mechanism == "hds" and keep_k not in (None, k)):
            continue
        twin = (STRUCTURE + mechanism, epsilon, k)
        repeats = _repeats(values, key) if twin in twins else None
        if twin in twins and repeats is None and len(gain := (series - twins[twin]).dropna()) > 1:
            gains.append(gain)
        lines.append(
            Line(
                *key,
                mean_interval(series),
                interval(twins.get(twin)),
                contrast(values, key, twin),
                contrast(values, key, best),
                contrast(values, key, (NON_PRIVATE, math.inf, 0)),
                embedding[key],
                embedding.get(twin, ""),
                repeats,
            )
        )
    lines.sort(
        key=lambda x: (
            list(LABELS).index(x.mechanism) if x.mechanism in LABELS else 99,
            x.epsilon,
            x.k,
        )
    )
    mean_gain = interval(pd.concat(gains, axis=1).dropna().mean(axis=1)) if gains else None
    best_value = interval(twins[best]) if best else None
    dataset, task, metric, config = map(str, names)
    seeds = int(part.seed.nunique())
    return Summary(dataset, task, metric, config, tuple(lines), best, best_value, seeds, mean_gain)


# points, in every seed: float32's rounding moves a repeated row by 0.02, a budget moves others by 1
_SAME = 0.05


def _repeats(values: dict[Key, pd.Series], key: Key) -> float | None:
    """The lowest budget at which a row's mechanism and its twin score the same in every seed."""
    mechanism, epsilon, k = key

    def same(name: str, lower: float) -> bool:
        one = values[name, epsilon, k]
        other = values.get((name, lower, k))
        return (
            other is not None
            and one.index.equals(other.index)
            and bool(((one - other).abs() < _SAME).all())
        )

    lower_ones = sorted(
        lower for name, lower, other_k in values if (name, other_k) == (mechanism, k)
    )
    names = (mechanism, STRUCTURE + mechanism)
    return next(
        (x for x in lower_ones if x < epsilon and all(same(name, x) for name in names)), None
    )


def chosen(group: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Of one row's seeds, those of the embedding that does better in validation on average.

    And which it is.

    One choice for all seeds of a row: the validation examples of one seed alone are too few to tell
    two embeddings apart (264 pairs on Cora's links). A tie goes to the raw one. Seeds with one
    embedding are left out, unless all have one: then the embedding of most seeds is kept.
    """
    embedding = group.preprocessing.to_numpy() if "preprocessing" in group else np.array([])
    of = {name: embedding == name for name in EMBEDDINGS if (embedding == name).any()}
    if not of:
        return group, ""
    seeds = group.seed.to_numpy()
    scores = group.validation.to_numpy()
    there = [seeds[rows & ~np.isnan(scores)] for rows in of.values()]
    common = np.isin(seeds, np.intersect1d(there[0], there[-1]))
    if len(of) == 1 or not common.any():  # as while a run is under way
        most = max(of, key=lambda name: of[name].sum())
        return group[of[most]], f"{most}*"
    best = max(of, key=lambda name: scores[of[name] & common].mean())  # the first of equals
    return group[of[best] & common], best


def tally(lines: Sequence[Line]) -> tuple[int, int, int]:
    """Count gains clearly above 0, clearly below, and rows that beat the best public row."""
    up, down, _ = counted(line.gain for line in lines)
    return up, down, counted(line.over_best for line in lines)[0]


def name_of_row(mechanism: str) -> str:
    label = LABELS.get(mechanism.removeprefix(STRUCTURE), mechanism)
    return f"{label}, structure-only" if mechanism.startswith(STRUCTURE) else label


def twin_curve(axis: Any, points: dict[float, ConfidenceInterval | None], **style: Any) -> None:
    """The means of structure-only rows, dotted."""
    known = {x: twin.mean for x, twin in points.items() if twin is not None}
    axis.plot(list(known), list(known.values()), **{"ls": ":", "marker": "x", "ms": 4, **style})


def draw(axis: Any, summary: Summary) -> None:
    """Score against epsilon.

    Mechanisms solid, their structure-only twins dotted, baselines as lines.
    """
    epsilons = summary.epsilons()
    private = [x for x in summary.lines if x.twin is not None]
    names = list(dict.fromkeys(x.mechanism for x in private))
    for turn, name in enumerate(names):
        shift = 0.08 * (turn - (len(names) - 1) / 2)
        mine = {epsilons.index(x.epsilon) + shift: x for x in private if x.mechanism == name}
        curves(axis, {name: {at: x.value for at, x in mine.items()}}, LABELS, COLOURS, ms=4, lw=1.5)
        twin_curve(axis, {at: x.twin for at, x in mine.items()}, color=COLOURS[name], lw=1.1)
    for name, style in (
        (NON_PRIVATE, "-"),
        (GRAPH_ALONE["node"], "--"),
        (GRAPH_ALONE["link"], "--"),
    ):
        for line in summary.lines:
            if line.mechanism == name:
                level(axis, line.value.mean, LABELS[name], style, linewidth=1.0)
    if summary.best_value is not None:
        mean = summary.best_value.mean
        half = float(np.nan_to_num(summary.best_value.half_width))
        axis.axhspan(
            mean - half, mean + half, color="#b8b8b8", alpha=0.35, lw=0, label="best structure-only"
        )
    axis.plot(
        [], [], color="black", ls=":", marker="x", ms=4, lw=1.1, label="its structure-only twin"
    )
    axis.set_xticks(range(len(epsilons)), [f"{epsilon:g}" for epsilon in epsilons])
    axis.set(xlim=(-0.5, len(epsilons) - 0.5), xlabel="epsilon")
    axis.set_ylabel(METRIC_LABELS.get(summary.metric, summary.metric))
    rows = summary.counted()
    up, down, _ = tally(rows)
    found = f"\nof {len(rows)} rows {up} above, {down} below structure-only" if rows else ""
    axis.set_title(
        f"{summary.dataset}, {summary.task} task, {summary.seeds} seeds{found}", fontsize=8
    )
