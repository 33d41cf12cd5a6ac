"""What the reports of all experiments share: Markdown tables, paired differences, figures in one style."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from rich import box
from rich.table import Table

from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval

METRIC_LABELS = {"accuracy": "test accuracy (%)", "auc": "test AUC (%)"}


# --- Differences -------------------------------------------------------------------------------------------------


def interval(values: Any) -> ConfidenceInterval | None:
    """Of the values that are there; None without any."""
    known = [] if values is None else np.asarray(values, np.float64)
    return mean_interval(known) if len(known) else None


def paired(one: pd.Series | None, other: pd.Series | None) -> ConfidenceInterval | None:
    """The difference of two rows, paired by their index (seeds); None where they have none in common."""
    return None if one is None or other is None else interval((one - other).dropna())


def significant(interval: ConfidenceInterval | None) -> bool:
    """Whether a 95 % interval leaves 0 out."""
    return interval is not None and interval.n > 1 and abs(interval.mean) > interval.half_width


def counted(each: Iterable[ConfidenceInterval | None]) -> tuple[int, int, int]:
    """How many intervals are above 0, below it, and hold it."""
    known = [one for one in each if one is not None]
    sure = [one.mean > 0 for one in known if significant(one)]
    return sum(sure), len(sure) - sum(sure), len(known) - len(sure)


def by_seed(frame: pd.DataFrame, key: Sequence[str]) -> dict[Any, pd.Series]:
    """Values in per cent by seed, of each row; a row is named by its ``key``."""
    return {name: 100 * part.set_index("seed").value for name, part in frame.groupby(list(key), sort=False)}


# --- Tables ------------------------------------------------------------------------------------------------------


def signed(interval: ConfidenceInterval | None, digits: int = 1) -> str:
    """A difference for a table; bold where its interval leaves 0 out."""
    if interval is None:
        return ""
    text = f"{interval.mean:+.{digits}f}" + (f" ± {interval.half_width:.{digits}f}" if interval.n > 1 else "")
    return f"**{text}**" if significant(interval) else text


def markdown(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table; None is an empty cell."""
    lines = ["| " + " | ".join(headers) + " |", "|" + "|".join([" --- "] * len(headers)) + "|"]
    return "\n".join(lines + ["| " + " | ".join("" if x is None else str(x) for x in row) + " |" for row in rows])


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """A Markdown table of rows that name their columns; empty without a row."""
    rows = list(rows)
    return markdown(list(rows[0]), [list(row.values()) for row in rows]) if rows else ""


def terminal(headers: Sequence[str], rows: Iterable[Sequence[Any]], title: str, left: int = 1) -> Table:
    """A table for a terminal, without Markdown's stars; ``left`` columns are flush left."""
    view = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title)
    for place, header in enumerate(headers):
        view.add_column(header, justify="left" if place < left else "right")
    for row in rows:
        view.add_row(*("" if x is None else str(x).replace("*", "") for x in row))
    return view


# --- Figures -----------------------------------------------------------------------------------------------------


def pyplot() -> Any:
    """Matplotlib without a display, in the house style."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    style = {
        "figure.dpi": 130, "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
        "grid.alpha": 0.25, "legend.frameon": False,
    }  # fmt: skip
    plt.rcParams.update(style)
    return plt


def save(figure: Any, path: Any) -> None:
    """Write a figure and let its memory go."""
    figure.savefig(path)
    pyplot().close(figure)


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


def errorbars(axis: Any, shown: Mapping[Any, ConfidenceInterval], **style: Any) -> None:
    """Means and their intervals against the keys; nothing where there are none."""
    if shown:
        half = [one.half_width if one.n > 1 else 0.0 for one in shown.values()]
        style = {"marker": "o", "capsize": 2, **style}
        axis.errorbar(list(shown), [one.mean for one in shown.values()], yerr=half, **style)


def one_scale(axes: Sequence[Any]) -> None:
    """The same limits of y for all panels."""
    ends = np.array([axis.get_ylim() for axis in axes])
    for axis in axes:
        axis.set_ylim(ends.min(), ends.max())


def legend_below(figure: Any, axis: Any, columns: int = 4) -> None:
    """One legend for all panels, under them."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=columns, fontsize=8)
    figure.tight_layout(rect=(0, 0.04 + 0.11 / figure.get_figheight() * 3, 1, 1))
