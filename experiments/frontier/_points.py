"""Points, a row a draw and metric, of all reports of this folder.

Intervals, gains, and figures of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments._report import counted, errorbars, interval, log_ticks
from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval

ACCURACY = "accuracy"
PANEL = ["dataset", "panel"]


def tidy(
    key: Sequence[str], rows: Iterable[tuple[Sequence[Any], Mapping[str, pd.Series]]]
) -> pd.DataFrame:
    """One row a draw and metric, from rows that ``key`` names and that have series by seed."""
    made = [
        (*names, seed, metric, round(float(value), 4))
        for names, found in rows
        for metric, series in found.items()
        for seed, value in series.items()
    ]
    found = pd.DataFrame(made, columns=[*key, "seed", "metric", "value"])
    words = found.columns[found.dtypes == "str"]
    return found.astype(dict.fromkeys(words, "category"))  # compared as whole numbers


def differences(mine: pd.Series, beside: Mapping[str, pd.Series | None]) -> dict[str, pd.Series]:
    """A row less each of some others that are there, paired by draw."""
    return {name: (mine - other).dropna() for name, other in beside.items() if other is not None}


def by_panel(frame: pd.DataFrame) -> Iterator[tuple[tuple[str, str, int], dict[Any, pd.DataFrame]]]:
    """Each graph and panel, with its members.

    And accuracies by method and epsilon, frames by seed.
    """
    frame = frame[frame.metric == ACCURACY]
    frame = frame.assign(panel=[f"{float(setting):g}" for setting in frame.panel])
    for (dataset, panel), part in frame.groupby(PANEL, sort=False):
        rows = part.set_index("seed").groupby(["mechanism", "epsilon"], sort=False)
        yield (str(dataset), str(panel), int(part.members.iloc[0])), dict(iter(rows))


def _chosen(found: pd.DataFrame, where: Mapping[str, Any]) -> np.ndarray:
    of_column = [np.asarray(found[column].array == value) for column, value in where.items()]
    return np.logical_and.reduce([np.ones(len(found), bool), *of_column])


def pick(found: pd.DataFrame, **where: Any) -> pd.DataFrame:
    """The points whose columns have these values."""
    return found[_chosen(found, where)]


def interval_of(found: pd.DataFrame, metric: str, **where: Any) -> ConfidenceInterval | None:
    """The mean of one metric over draws; None without any."""
    return interval(found.value.to_numpy()[_chosen(found, {"metric": metric, **where})])


def intervals(
    found: pd.DataFrame, by: Sequence[str], confidence: float = 0.95, **where: Any
) -> dict[Any, ConfidenceInterval]:
    """The mean over draws for each group, in the order of its first point."""
    return {
        key: mean_interval(one.value.to_numpy(), confidence=confidence)
        for key, one in pick(found, **where).groupby(list(by), sort=False)
    }


def together(found: pd.DataFrame, by: Sequence[str], **where: Any) -> tuple[int, int, int, int]:
    """Count gains: all, intervals above 0, below 0, and above 0 after Bonferroni's correction."""
    each = intervals(found, by, **where)
    up, down, _ = counted(each.values())
    strict = intervals(found, by, 1 - 0.05 / max(len(each), 1), **where)
    return len(each), up, down, counted(strict.values())[0]


def panel_words(panel: str) -> str:
    return f"{100 * float(panel):.3g} % of each class" if "." in panel else f"{panel} of each class"


def plot_gains(
    axis: Any,
    shown: Mapping[float, ConfidenceInterval],
    label: str,
    colour: str,
    marker: str,
    width: float,
) -> None:
    """A line of gains against epsilon with their intervals; nothing where there are none."""
    if not shown:
        return
    style = {"marker": marker, "markersize": 4, "linewidth": width, "zorder": 1 + width}
    errorbars(axis, shown, label=label, color=colour, **style)
    log_ticks(
        axis, sorted({*shown, *axis.get_xticks()} if axis.get_xscale() == "log" else shown), base=2
    )


def plot_settings(axis: Any, names: Sequence[str], title: str, beside: str) -> None:
    """A line a setting, from below; ``beside`` is what points are over."""
    axis.set_yticks(np.arange(len(names)), names)
    axis.set_ylim(-0.8, len(names) - 0.2)
    axis.set_xlabel(f"accuracy less that of {beside} (points)")
    axis.legend(loc="lower right", fontsize=8, frameon=True)
    axis.set_title(title, fontsize=10, loc="right")
    axis.figure.tight_layout()


def plot_means(axis: Any, known: Mapping[float, ConfidenceInterval | None], **style: Any) -> None:
    """Means and intervals along x, by their place on y."""
    there = {place: one for place, one in known.items() if one is not None}
    half = [one.half_width if one.n > 1 else 0.0 for one in there.values()]
    axis.errorbar(
        [one.mean for one in there.values()], list(there), xerr=half, linestyle="none", **style
    )
