"""Tables and Figures 4 to 6 of the graph experiment, from its tidy rows."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from rich import box
from rich.table import Table

from experiments._dprr_cells import COLOURS, LABELS, WITHOUT_EPSILON, alpha_of
from experiments._report import METRIC_LABELS, legend_below, markdown, panels, signed, significant
from ldp_jax.metrics import Interval, mean_interval

HEADER = [
    "data set",
    "setting",
    "mechanism",
    "epsilon",
    "accuracy (%)",
    "AUC (%)",
    "AUC less degrees alone",
    "splits",
]
SPLITS = ("dprr", "dprr-one-to-nine", "dprr-as-published")
GROUP = ["dataset", "task", "mechanism", "epsilon", "config"]


def paired(frame: pd.DataFrame, other: str = "degrees") -> dict[tuple[Any, ...], Interval]:
    """AUC less that of ``other`` at the same setting, epsilon and configuration, paired by split, in %."""
    by_split = frame[frame.metric == "auc"].pivot_table(index=GROUP, columns="seed", values="value")
    splits = dict(zip(by_split.index, 100 * by_split.to_numpy(), strict=True))
    found = {}
    for key, mine in splits.items():
        dataset, task, mechanism, epsilon, config = key
        twin = splits.get((dataset, task, other, epsilon, config))
        if twin is None or mechanism == other or mechanism in WITHOUT_EPSILON:
            continue
        difference = (mine - twin)[np.isfinite(mine - twin)]
        if len(difference):
            found[key] = mean_interval(difference)
    return found


def lines(frame: pd.DataFrame) -> list[list[str]]:
    """One line a data set, setting, mechanism and budget."""
    order = {name: place for place, name in enumerate(LABELS)}
    ranked = frame.assign(rank=frame.mechanism.map(order)).sort_values(["dataset", "task", "rank", "epsilon"])
    gains = paired(frame)
    made = []
    for key, part in ranked.groupby(GROUP, sort=False):
        dataset, task, mechanism, epsilon, _ = map(str, key)
        scores = [str(mean_interval(100 * part[part.metric == metric].value)) for metric in ("accuracy", "auc")]
        shown = "" if mechanism in WITHOUT_EPSILON else f"{float(epsilon):g}"
        gain = signed(gains.get(key))
        made.append([dataset, task, LABELS[mechanism], shown, *scores, gain, str(part.seed.nunique())])
    return made


def summary(frame: pd.DataFrame, epsilon: float = 1.0) -> str:
    """AUC at one budget: a row a mechanism, a column a data set and setting; whole-graph rows in every setting."""
    auc = frame[(frame.metric == "auc") & (frame.epsilon.isin([0.0, epsilon])) & ~frame.mechanism.isin(SPLITS[1:])]
    everywhere = auc.mechanism.isin(["non-private", "sizes"])
    columns = auc[~everywhere][["dataset", "task"]].drop_duplicates().sort_values(["dataset", "task"])
    rows, heads = [], []
    for dataset, task in columns.itertuples(index=False):
        here = auc[(auc.dataset == dataset) & ((auc.task == task) | everywhere)]
        values = {name: 100 * here[here.mechanism == name].value for name in LABELS}
        heads.append(f"{dataset}{task.removeprefix('graph')}")
        rows.append([str(mean_interval(part)) if len(part) else "" for part in values.values()])
    body = [[LABELS[name], *cells] for name, *cells in zip(LABELS, *rows, strict=True) if any(cells)]
    return markdown([f"AUC (%), epsilon {epsilon:g}", *heads], body)


def what_edges_add(frame: pd.DataFrame) -> str:
    """How often lists do better than the degrees alone, and at what budgets they do worse, in a sentence."""
    gains = [gain for (_, _, mechanism, *_), gain in paired(frame).items() if mechanism == "dprr"]
    if not gains:
        return ""
    better = sum(significant(gain) and gain.mean > 0 for gain in gains)
    worse = sum(significant(gain) and gain.mean < 0 for gain in gains)
    return (
        f"Of {len(gains)} settings in which DPRR and the released degrees alone spend the same budget, DPRR's AUC "
        f"is higher in {better} and lower in {worse} with a 95 % interval that leaves 0 out (lower on average in "
        f"{sum(gain.mean < 0 for gain in gains)})."
    )


def as_markdown(frame: pd.DataFrame) -> str:
    """The table of results."""
    notes = (
        "Means and 95 % intervals over random splits, of the graphs and of the noise. epsilon is per bit of one "
        "neighbour list; per edge it is twice that for DPRR, RR and the degrees (both ends report it) and 1.1 "
        "times for LocalLap. *Released degrees alone*: quantiles of the degrees, the whole budget on them, no "
        "edge; *AUC less degrees alone* is the difference to that row on the same splits, bold where its interval "
        "leaves 0 out. *Lengths of DPRR's lists*: the same quantiles of how many neighbours each user reported, "
        "from DPRR's own reports, no edge. *Public sizes alone*: the number of nodes, which every row knows. "
        "*Published split*: its true epsilon per bit is in the CSV (`epsilon_proved`), above the one that it is "
        "named by where the degree's share is raised."
    )
    parts = [summary(frame), what_edges_add(frame), markdown(HEADER, lines(frame)), notes]
    return "\n\n".join(filter(None, parts))


def show(frame: pd.DataFrame, console: Any) -> None:
    """The table in a terminal."""
    view = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="graph classification: means and 95 % intervals")
    for place, header in enumerate(HEADER):
        view.add_column(header, justify="left" if place < 3 else "right")
    for line in lines(frame):
        view.add_row(*(cell.replace("*", "") for cell in line))
    console.print(view)
    console.print(what_edges_add(frame))


def _curve(axis: Any, rows: pd.DataFrame, by: str, name: str, offset: float, places: dict[float, int]) -> None:
    values = {place: 100 * rows[rows[by] == value].value for value, place in places.items()}
    intervals = {place: mean_interval(part) for place, part in values.items() if len(part)}
    axis.errorbar(
        [place + offset for place in intervals],
        [interval.mean for interval in intervals.values()],
        [np.nan_to_num(interval.half_width) for interval in intervals.values()],
        color=COLOURS[name], marker="o", ms=4, lw=1.4, capsize=2, label=LABELS[name],
    )  # fmt: skip


def _grid(
    frame: pd.DataFrame, by: str, names: Sequence[str], keep: Callable[[pd.DataFrame], Any], label: str
) -> Any | None:
    """Accuracy and AUC (rows) of each data set (columns) against a column; None where nothing has two values."""
    frame = frame.assign(alpha=frame.task.map(alpha_of))
    flat = frame.mechanism.isin(["non-private", "sizes"])
    chosen = frame[keep(frame) & ~flat & frame.mechanism.isin(list(names))]
    moving = chosen[~chosen.mechanism.isin(["non-private-part"])]
    datasets = [str(name) for name, part in moving.groupby("dataset") if part[by].nunique() > 1]
    if not datasets:
        return None
    alone = len(datasets) == 1
    figure, axes = panels(2 * len(datasets), width=5.0 if alone else 4.2, height=2.7, columns=len(datasets))
    for place, axis in enumerate(axes):
        metric, dataset = ("accuracy", "auc")[place // len(datasets)], datasets[place % len(datasets)]
        rows = chosen[(chosen.dataset == dataset) & (chosen.metric == metric)]
        places = {value: at for at, value in enumerate(sorted(rows[by].unique()))}
        present = [name for name in names if (rows.mechanism == name).any()]
        for at, name in enumerate(present):
            _curve(axis, rows[rows.mechanism == name], by, name, 0.06 * (at - (len(present) - 1) / 2), places)
        for name, style in (("non-private", "-"), ("sizes", "--")):
            value = frame[(frame.dataset == dataset) & (frame.metric == metric) & (frame.mechanism == name)].value
            if len(value):
                axis.axhline(100 * value.mean(), color=COLOURS[name], ls=style, lw=1.1, label=LABELS[name])
        # Student's intervals of three splits can be wider than what they are about: they are cut, not the means.
        means = [100 * part.mean() for _, part in rows.groupby(["mechanism", by]).value]
        axis.set_ylim(max(0, min(means) - 12), min(102, max(means) + 12))
        axis.set_xticks(range(len(places)), [f"{value:g}" for value in places])
        axis.set(xlabel=label, ylabel=METRIC_LABELS[metric])
        if place < len(datasets):
            axis.set_title(dataset, fontsize=8)
    fullest = max(axes, key=lambda axis: len(axis.get_legend_handles_labels()[0]))
    legend_below(figure, fullest, columns=2 if alone else 4)
    return figure


def figures(frame: pd.DataFrame) -> dict[str, Any]:
    """Figures 4 to 6, those that the rows suffice for, by the names of their files."""
    others = [name for name in LABELS if name not in SPLITS[1:]]
    split_sets = frame[frame.mechanism.isin(SPLITS[1:])]
    budgets = frame.dataset.isin(split_sets.dataset.unique()) & frame.epsilon.isin(split_sets.epsilon.unique())
    made = {
        "dprr_figure4": _grid(
            frame, "alpha", others, lambda rows: rows.epsilon.isin([0.0, 1.0]), "share of public users (epsilon 1)"
        ),
        "dprr_figure5": _grid(
            frame, "epsilon", others, lambda rows: rows.alpha == 0, "epsilon per bit of a list (no public users)"
        ),
        "dprr_figure6": _grid(
            frame, "epsilon", SPLITS, lambda rows: budgets & (rows.alpha == 0), "epsilon that the split is made for"
        ),
    }
    return {name: figure for name, figure in made.items() if figure is not None}
