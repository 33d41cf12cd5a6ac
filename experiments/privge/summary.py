"""Tables and figures from tidy results: means, 95 % intervals, paired differences to structure-only rows."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.table import Table

from experiments._report import METRIC_LABELS, counted, errorbars, interval, paired, signed, terminal
from experiments.privge.cells import EMBEDDINGS, GRAPH_ALONE, NON_PRIVATE, STRUCTURE
from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval

LABELS = {
    "laplace": "Laplace",
    "piecewise": "Piecewise",
    "multibit": "Multi-bit",
    "hds": "HDS",
    "non-private": "non-private",
    "label-propagation": "label prop.",
    "link-indices": "link indices",
}
COLOURS = {"laplace": "#7a7a7a", "piecewise": "#d1495b", "multibit": "#edae49", "hds": "#00798c"}


class Line(NamedTuple):
    """One row of a summary, in per cent.

    Attributes:
      mechanism: its name in the CSV.
      epsilon: its budget.
      k: sampled coordinates.
      value: mean and 95 % interval over seeds.
      twin: the same of its own structure-only row; None for baselines.
      gain: value less twin, paired by seed.
      over_best: value less the best structure-only row, paired by seed. The best of many rows is lucky as well as
        good, so this errs in the public graph's favour.
      over_non_private: value less the non-private row, paired by seed.
      embedding: which embedding validation chose for the row, ``raw`` or ``standardized``, with a star where there
        was one alone; "" for rows without one.
      twin_embedding: the same of its structure-only row.
      repeats: the lower budget whose row this one repeats, seed by seed, as its structure-only row does: then noise
        drowns the features at both, and standardising takes away its scale, all that a budget changes.
    """

    mechanism: str
    epsilon: float
    k: int
    value: ConfidenceInterval
    twin: ConfidenceInterval | None
    gain: ConfidenceInterval | None
    over_best: ConfidenceInterval | None
    over_non_private: ConfidenceInterval | None
    embedding: str = ""
    twin_embedding: str = ""
    repeats: float | None = None


class Summary(NamedTuple):
    """All rows of one data set, task and configuration.

    ``best`` names the best structure-only row, and ``best_value`` is what it reaches: of all rows with as many
    seeds as any has, also those of the k sweep. ``mean_gain`` is the mean gain of the :meth:`counted` rows: of each
    seed, then over seeds, because rows of one seed share their split and their keys.
    """

    dataset: str
    task: str
    metric: str
    config: str
    lines: tuple[Line, ...]
    best: tuple[str, float, int] | None
    best_value: ConfidenceInterval | None
    seeds: int
    mean_gain: ConfidenceInterval | None = None

    def counted(self) -> list[Line]:
        """Private rows whose gain has an interval, each release once."""
        return [x for x in self.lines if x.gain is not None and x.gain.n > 1 and x.repeats is None]

    def find(self, mechanism: str, epsilon: float) -> Line | None:
        """The row of a mechanism at a budget (the first k, where there are several)."""
        return next((x for x in self.lines if x.mechanism == mechanism and x.epsilon == epsilon), None)

    def epsilons(self) -> list[float]:
        """Budgets of the mechanisms, ascending."""
        return sorted({x.epsilon for x in self.lines if x.twin is not None})

    def mechanisms(self) -> list[str]:
        """Mechanisms in the papers' order."""
        have = {x.mechanism for x in self.lines if x.twin is not None}
        return [name for name in COLOURS if name in have]


def summarise(frame: pd.DataFrame, keep_k: dict[str, int] | None = None) -> list[Summary]:
    """Means, intervals and paired differences, for each data set, task and configuration.

    Of a row's raw and standardised embedding :func:`chosen` keeps one.

    Args:
      frame: tidy results.
      keep_k: for the tables, the k of HDS to keep, by data set and task as ``"cora node"``; all by default. The
        best structure-only row is looked for among all.
    """
    summaries = []
    for (dataset, task, metric, config), part in frame.groupby(["dataset", "task", "metric", "config"], sort=False):
        k = (keep_k or {}).get(f"{dataset} {task}")
        summaries.append(_summarise_one(str(dataset), str(task), str(metric), str(config), part, k))
    return [summary for summary in summaries if summary.lines]  # a sweep over k alone has no table


def _summarise_one(dataset: str, task: str, metric: str, config: str, part: pd.DataFrame, keep_k: Any) -> Summary:
    groups: dict[tuple[str, float, int], pd.DataFrame] = {}
    embedding = {}
    for (mechanism, epsilon, k), group in part.groupby(["mechanism", "epsilon", "k"]):
        key = (str(mechanism), float(epsilon), int(k))
        kept, embedding[key] = chosen(group)
        groups[key] = kept.set_index("seed").sort_index()
    values = {key: 100.0 * group.value for key, group in groups.items()}
    twins = {key: series for key, series in values.items() if key[0].startswith(STRUCTURE)}
    most = max((len(series) for series in twins.values()), default=0)  # a row with fewer seeds cannot be the best
    full = {key: series for key, series in twins.items() if len(series) == most}
    best = max(full, key=lambda key: full[key].mean()) if full else None
    lines, gains = [], []
    for key, series in values.items():
        mechanism, epsilon, k = key
        if mechanism.startswith(STRUCTURE) or (mechanism == "hds" and keep_k not in (None, k)):
            continue
        other = (STRUCTURE + mechanism, epsilon, k)
        twin = twins.get(other)
        repeats = _repeats(values, key) if twin is not None else None
        if twin is not None and repeats is None and len(gain := (series - twin).dropna()) > 1:
            gains.append(gain)
        lines.append(
            Line(
                mechanism,
                epsilon,
                k,
                mean_interval(series),
                interval(twin),
                paired(series, twin),
                paired(series, twins[best]) if best is not None else None,
                paired(series, values.get((NON_PRIVATE, math.inf, 0))),
                embedding[key],
                embedding[other] if twin is not None else "",
                repeats,
            )
        )
    lines.sort(key=lambda x: (list(LABELS).index(x.mechanism) if x.mechanism in LABELS else 99, x.epsilon, x.k))
    best_value = mean_interval(twins[best]) if best is not None else None
    by_seed = pd.concat(gains, axis=1).dropna().mean(axis=1) if gains else pd.Series(dtype=float)
    mean_gain = mean_interval(by_seed) if len(by_seed) else None
    seeds = int(part.seed.nunique())
    return Summary(dataset, task, metric, config, tuple(lines), best, best_value, seeds, mean_gain)


_SAME = 0.05
"""Points, in every seed: float32's rounding moves a repeated row by 0.02 at most, a budget moves others by 1."""


def _repeats(values: dict[tuple[str, float, int], pd.Series], key: tuple[str, float, int]) -> float | None:
    """The lowest budget below a row's own at which its mechanism and its twin score the same in every seed."""
    mechanism, epsilon, k = key
    for name, lower, other_k in sorted(values):
        if (name, other_k) == (mechanism, k) and lower < epsilon:
            pairs = [
                (values[prefix + mechanism, epsilon, k], values.get((prefix + mechanism, lower, k)))
                for prefix in ("", STRUCTURE)
            ]
            if all(
                b is not None and a.index.equals(b.index) and bool(((a - b).abs() < _SAME).all()) for a, b in pairs
            ):
                return lower
    return None


def chosen(group: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Of one row's seeds, those of the embedding that does better in validation on average; and which it is.

    One choice for all seeds of a row: the validation examples of one seed alone are too few to tell two embeddings
    apart (264 pairs on Cora's links), and a choice seed by seed follows their noise. A tie goes to the raw one.
    Seeds that have one embedding only are left out, unless all do: then the one that most seeds have is kept.
    Otherwise nothing but validation scores decides.

    >>> seeds = {"seed": [0, 1, 0, 1], "value": [.5, .6, .7, .8], "validation": [.5, .7, .5, .8]}
    >>> group = pd.DataFrame({**seeds, "preprocessing": ["raw", "raw", "standardized", "standardized"]})
    >>> kept, which = chosen(group)
    >>> which, kept.value.tolist()
    ('standardized', [0.7, 0.8])
    """
    if "preprocessing" not in group:
        return group, ""
    names = [name for name in EMBEDDINGS if (group.preprocessing == name).any()]
    if not names:
        return group, ""
    if len(names) == 1:
        return group[group.preprocessing == names[0]], f"{names[0]}*"
    scores = group.pivot(index="seed", columns="preprocessing", values="validation").dropna()
    if scores.empty:  # a run that is under way: what most seeds have
        most = max(names, key=lambda name: (group.preprocessing == name).sum())
        return group[group.preprocessing == most], f"{most}*"
    means = scores.mean()
    best = max(names, key=lambda name: means[name])  # the first of equals
    return group[(group.preprocessing == best) & group.seed.isin(scores.index)], best


def tally(lines: Sequence[Line]) -> tuple[int, int, int]:
    """How many gains are clearly above 0, how many clearly below, and how many rows beat the best public row."""
    up, down, _ = counted(line.gain for line in lines)
    return up, down, counted(line.over_best for line in lines)[0]


def name_of(row: tuple[str, float, int]) -> str:
    """A structure-only row in words."""
    mechanism, epsilon, k = row
    return f"{LABELS.get(mechanism.removeprefix(STRUCTURE), mechanism)} at eps {epsilon:g}, k {k}"


def name_of_row(mechanism: str) -> str:
    """A row's mechanism in words, structure-only or not."""
    label = LABELS.get(mechanism.removeprefix(STRUCTURE), mechanism)
    return f"{label}, structure-only" if mechanism.startswith(STRUCTURE) else label


def draw(axis: Any, summary: Summary, note: str = "") -> None:
    """Score against epsilon: mechanisms solid, their structure-only twins dashed, baselines as lines."""
    epsilons = summary.epsilons()
    place = {epsilon: i for i, epsilon in enumerate(epsilons)}
    names = summary.mechanisms()
    for offset, name in enumerate(names):
        lines = [x for x in summary.lines if x.mechanism == name and x.twin is not None]
        shift = 0.08 * (offset - (len(names) - 1) / 2)
        x = np.array([place[line.epsilon] for line in lines]) + shift
        twins = [line.twin for line in lines if line.twin is not None]
        shown = {place[line.epsilon] + shift: line.value for line in lines}
        errorbars(axis, shown, color=COLOURS[name], ms=4, lw=1.5, label=LABELS[name])
        axis.plot(x, [t.mean for t in twins], color=COLOURS[name], ls=":", marker="x", ms=4, lw=1.1)
    for name, style in ((NON_PRIVATE, "-"), (GRAPH_ALONE["node"], "--"), (GRAPH_ALONE["link"], "--")):
        line = next((x for x in summary.lines if x.mechanism == name), None)
        if line is not None:
            axis.axhline(line.value.mean, color="black", ls=style, lw=1.0, label=LABELS[name])
    if summary.best_value is not None:
        mean, half = summary.best_value.mean, float(np.nan_to_num(summary.best_value.half_width))
        axis.axhspan(mean - half, mean + half, color="#b8b8b8", alpha=0.35, lw=0, label="best structure-only")
    axis.plot([], [], color="black", ls=":", marker="x", ms=4, lw=1.1, label="its structure-only twin")
    axis.set_xticks(range(len(epsilons)), [f"{epsilon:g}" for epsilon in epsilons])
    axis.set_xlim(-0.5, len(epsilons) - 0.5)
    axis.set_xlabel("epsilon")
    axis.set_ylabel(METRIC_LABELS.get(summary.metric, summary.metric))
    counted = summary.counted()
    up, down, _ = tally(counted)
    found = f"\nof {len(counted)} rows {up} above, {down} below structure-only" if counted else ""
    axis.set_title(f"{summary.dataset}, {summary.task} task, {summary.seeds} seeds{note}{found}", fontsize=8)


Reference = dict[tuple[str, ...], ConfidenceInterval]
"""Committed values, by :func:`identity`."""


def reference(frame: pd.DataFrame) -> Reference:
    """The committed values that a user's own stand beside."""
    return {identity(summary, line): line.value for summary in summarise(frame) for line in summary.lines}


def identity(summary: Summary, line: Line) -> tuple[str, ...]:
    """What two rows of tables have in common that were made in the same way."""
    return (summary.dataset, summary.task, summary.config, line.mechanism, f"{line.epsilon:g}", f"{line.k}")


def table(summary: Summary, committed: Reference | None = None) -> Table:
    """One data set and task for a terminal; committed values of the same settings have a column of their own."""
    beside = [] if committed is None else ["committed"]
    headers = ["mechanism", "epsilon", "k", summary.metric, *beside, "structure-only", "gain", "over best"]
    rows = [
        (
            LABELS[line.mechanism], "" if line.mechanism in GRAPH_ALONE.values() else f"{line.epsilon:g}",
            None if line.twin is None else line.k, line.value,
            *([] if committed is None else [committed.get(identity(summary, line))]),
            line.twin, signed(line.gain), signed(line.over_best),
        )
        for line in summary.lines
    ]  # fmt: skip
    title = f"{summary.dataset}, {summary.task} task: {summary.metric} in %, 95 % intervals"
    return terminal(headers, rows, title)


def show(summaries: list[Summary], console: Any, committed: Reference | None) -> None:
    """The tables, the best structure-only row of each, and what the columns are."""
    for summary in summaries:
        console.print(table(summary, committed))
        if summary.best is not None:
            console.print(f"best structure-only row: {name_of(summary.best)} (no private feature was used)\n")
    if committed is not None and summaries:
        console.print(
            "committed: the same rows as they are in experiments/results, of other runs; empty where none is "
            "committed with these settings."
        )
    console.print(
        "structure-only: the same mechanism and budget on one public record for everyone.\n"
        "A gain whose interval holds 0: the score is the public graph's, not the private features'."
    )
