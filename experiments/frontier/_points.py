"""What both reports of this folder do with points, a row a draw: intervals, and the files that hold them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from experiments._report import errorbars, interval
from experiments._runner import REFERENCE, write_atomically
from ldp_jax.learning.metrics import ConfidenceInterval


def tidy(key: Sequence[str], rows: Iterable[tuple[Sequence[Any], Mapping[str, pd.Series]]]) -> pd.DataFrame:
    """One row a draw and metric, of rows that are named by their ``key`` and have series by seed."""
    made = [
        (*names, seed, metric, round(float(value), 4))
        for names, found in rows
        for metric, series in found.items()
        for seed, value in series.items()
    ]
    return pd.DataFrame(made, columns=[*key, "seed", "metric", "value"])


def interval_of(part: pd.DataFrame, metric: str) -> ConfidenceInterval | None:
    """Of one metric over draws; None without any."""
    return interval(part[part.metric == metric].value)


def plot_gains(
    axis: Any, shown: Mapping[float, ConfidenceInterval], label: str, colour: str, marker: str, width: float
) -> None:
    """A line of gains against epsilon with their intervals, on a logarithmic axis; nothing where there are none."""
    if not shown:
        return
    style = {"marker": marker, "markersize": 4, "linewidth": width, "zorder": 1 + width}
    errorbars(axis, shown, label=label, color=colour, **style)
    budgets = sorted({*shown, *axis.get_xticks()} if axis.get_xscale() == "log" else shown)
    axis.set_xscale("log", base=2)
    axis.set_xticks(budgets, [f"{epsilon:g}" for epsilon in budgets])
    axis.set_xticks([], minor=True)


def write_with_points(out: Path, name: str, found: pd.DataFrame, sections: Sequence[str]) -> list[Path]:
    """The report in Markdown, and the points where they are a user's: what follows from rows is not committed."""
    written = [out / f"{name}.md"]
    write_atomically(written[0], "\n\n".join(sections) + "\n")
    if out.resolve() != REFERENCE.resolve():
        written.append(out / f"{name}.csv")
        write_atomically(written[-1], found.to_csv(index=False, lineterminator="\n"))
    return written
