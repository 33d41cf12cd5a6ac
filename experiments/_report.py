"""Tables and figures from tidy results: means, 95 % intervals, paired differences to structure-only rows."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd

from ldp_jax.metrics import ConfidenceInterval, mean_interval

LABELS = {
    "laplace": "Laplace",
    "piecewise": "Piecewise",
    "multibit": "Multi-bit",
    "hds": "HDS",
    "non-private": "non-private",
    "label-propagation": "label prop.",
}
COLOURS = {"laplace": "#7a7a7a", "piecewise": "#d1495b", "multibit": "#edae49", "hds": "#00798c"}
STRUCTURE = "structure-only:"
METRIC_LABELS = {"accuracy": "test accuracy (%)", "auc": "test AUC (%)"}


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
      raw: for how many seeds of the row validation chose the raw embedding, and of how many: "3/10"; "" where there
        was nothing to choose.
      twin_raw: the same of its structure-only row.
    """

    mechanism: str
    epsilon: float
    k: int
    value: ConfidenceInterval
    twin: ConfidenceInterval | None
    gain: ConfidenceInterval | None
    over_best: ConfidenceInterval | None
    raw: str = ""
    twin_raw: str = ""


class Summary(NamedTuple):
    """All rows of one data set, task and configuration.

    ``best`` names the best structure-only row, and ``best_value`` is what it reaches: of all rows with as many
    seeds as any has, also those of the k sweep.
    """

    dataset: str
    task: str
    metric: str
    config: str
    lines: tuple[Line, ...]
    best: tuple[str, float, int] | None
    best_value: ConfidenceInterval | None
    seeds: int

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
    groups = {
        (str(mechanism), float(epsilon), int(k)): group.set_index("seed").sort_index()
        for (mechanism, epsilon, k), group in part.groupby(["mechanism", "epsilon", "k"])
    }
    values = {key: 100.0 * group.value for key, group in groups.items()}
    twins = {key: series for key, series in values.items() if key[0].startswith(STRUCTURE)}
    most = max((len(series) for series in twins.values()), default=0)  # a row with fewer seeds cannot be the best
    full = {key: series for key, series in twins.items() if len(series) == most}
    best = max(full, key=lambda key: full[key].mean()) if full else None
    lines = []
    for key, series in values.items():
        mechanism, epsilon, k = key
        if mechanism.startswith(STRUCTURE) or (mechanism == "hds" and keep_k not in (None, k)):
            continue
        other = (STRUCTURE + mechanism, epsilon, k)
        twin = twins.get(other)
        lines.append(
            Line(
                mechanism,
                epsilon,
                k,
                mean_interval(series),
                mean_interval(twin) if twin is not None else None,
                _paired(series, twin),
                _paired(series, twins[best]) if best is not None else None,
                _raw(groups[key]),
                _raw(groups[other]) if twin is not None else "",
            )
        )
    lines.sort(key=lambda x: (list(LABELS).index(x.mechanism) if x.mechanism in LABELS else 99, x.epsilon, x.k))
    best_value = mean_interval(twins[best]) if best is not None else None
    return Summary(dataset, task, metric, config, tuple(lines), best, best_value, int(part.seed.nunique()))


def _raw(group: pd.DataFrame) -> str:
    """For how many seeds the raw embedding was chosen."""
    if "preprocessing" not in group:
        return ""
    chosen = group.preprocessing[group.validation.notna()]  # without a validation score there was no choice
    trained = chosen[chosen.isin(["raw", "standardized"])]
    return f"{(trained == 'raw').sum()}/{len(trained)}" if len(trained) else ""


def _paired(a: pd.Series, b: pd.Series | None) -> ConfidenceInterval | None:
    if b is None:
        return None
    both = pd.concat([a, b], axis=1, join="inner").dropna()
    return mean_interval(both.iloc[:, 0] - both.iloc[:, 1]) if len(both) else None


def significant(interval: ConfidenceInterval | None) -> bool:
    """Whether a 95 % interval leaves 0 out."""
    return interval is not None and interval.n > 1 and abs(interval.mean) > interval.half_width


def signed(interval: ConfidenceInterval | None) -> str:
    """A difference for a table; bold where its interval leaves 0 out."""
    if interval is None:
        return ""
    text = f"{interval.mean:+.1f}" + (f" ± {interval.half_width:.1f}" if interval.n > 1 else "")
    return f"**{text}**" if significant(interval) else text


def name_of(row: tuple[str, float, int]) -> str:
    """A structure-only row in words."""
    mechanism, epsilon, k = row
    return f"{LABELS.get(mechanism.removeprefix(STRUCTURE), mechanism)} at eps {epsilon:g}, k {k}"


def name_of_row(mechanism: str) -> str:
    """A row's mechanism in words, structure-only or not."""
    label = LABELS.get(mechanism.removeprefix(STRUCTURE), mechanism)
    return f"{label}, structure-only" if mechanism.startswith(STRUCTURE) else label


def markdown(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(headers) + " |", "|" + "|".join([" --- "] * len(headers)) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def pyplot() -> Any:
    """Matplotlib without a display, in the house style."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "figure.dpi": 130,
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.25,
            "legend.frameon": False,
        }
    )
    return plt


def panels(count: int, width: float = 3.6, height: float = 3.0, columns: int = 3) -> tuple[Any, list[Any]]:
    """A figure of ``count`` panels, as a grid, and its axes."""
    plt = pyplot()
    across = min(count, columns)
    down = math.ceil(count / across)
    figure, axes = plt.subplots(down, across, figsize=(width * across, height * down + 0.6), squeeze=False)
    flat = list(axes.flat)
    for spare in flat[count:]:
        spare.set_visible(False)
    return figure, flat[:count]


def draw(axis: Any, summary: Summary, note: str = "") -> None:
    """Score against epsilon: mechanisms solid, their structure-only twins dashed, baselines as lines."""
    epsilons = summary.epsilons()
    place = {epsilon: i for i, epsilon in enumerate(epsilons)}
    names = summary.mechanisms()
    for offset, name in enumerate(names):
        lines = [x for x in summary.lines if x.mechanism == name and x.twin is not None]
        x = np.array([place[line.epsilon] for line in lines]) + 0.08 * (offset - (len(names) - 1) / 2)
        twins = [line.twin for line in lines if line.twin is not None]
        axis.errorbar(
            x,
            [line.value.mean for line in lines],
            [np.nan_to_num(line.value.half_width) for line in lines],
            color=COLOURS[name], marker="o", ms=4, lw=1.5, capsize=2, label=LABELS[name],
        )  # fmt: skip
        axis.plot(x, [t.mean for t in twins], color=COLOURS[name], ls=":", marker="x", ms=4, lw=1.1)
    for name, style in (("non-private", "-"), ("label-propagation", "--")):
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
    axis.set_title(f"{summary.dataset}, {summary.task} task ({summary.seeds} seeds){note}")


def legend_below(figure: Any, axis: Any, columns: int = 4) -> None:
    """One legend for all panels, under them."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=columns, fontsize=8)
    figure.tight_layout(rect=(0, 0.04 + 0.11 / figure.get_figheight() * 3, 1, 1))
