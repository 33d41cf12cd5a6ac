"""The changes that close the cells which differ from the paper, and whether its order of ablations holds."""

from pathlib import Path

import numpy as np
import pandas as pd

from experiments._report import by_seed, contrast, counted, prose, signed, table
from experiments.poindp import accuracy, gaps
from experiments.poindp.cells import METRICS
from experiments.poindp.config import BUDGETS
from experiments.poindp.labels import label
from experiments.poindp.published import TABLE_2
from experiments.poindp.settings import PUBLISHED, WITHOUT

_TEXT = prose("poindp_gaps")

PUBLIC_SPLIT, OTHER_METRIC = "public split", "micro-F1"
"""Two more causes, read off the rows of the tables themselves."""


def section(out: Path) -> list[str]:
    """The report's part on gaps; empty where there are no rows."""
    frame, tables = gaps.results_in(out).read(), accuracy.results_in(out).read()
    if frame.empty:
        return []
    means = 100 * frame.groupby(["dataset", "mechanism", "epsilon", "metric", "variant"]).value.mean()
    ours = 100 * tables.groupby(["split", "dataset", "mechanism", "epsilon", "metric"]).value.mean()
    rows, closing, unasked = [], [], 0
    for gap in gaps.gaps(tables):
        cell = (gap.dataset, gap.mechanism, gap.epsilon)
        tried = {cause: means.get((*cell, gap.metric, cause)) for cause in gaps.VARIANTS}
        unasked += all(value is None for value in tried.values())
        tried[PUBLIC_SPLIT] = ours.get(("public", *cell, gap.metric))
        tried[OTHER_METRIC] = ours.get(("random", *cell, METRICS[-1]))
        shown = {cause: "" if value is None else f"{value:.1f}" for cause, value in tried.items()}
        closes = [cause for cause, value in tried.items() if _near(value, gap.printed)]
        shown |= {cause: f"**{shown[cause]}**" for cause in closes}
        closing.append(closes)
        rows.append(
            {
                "table": gap.table, "data set": gap.dataset, "row": label(gap.mechanism), "metric": gap.metric,
                "paper": gap.printed, "ours": f"{gap.ours:.1f}", **shown,
            }
        )  # fmt: skip
    causes = (*gaps.VARIANTS, PUBLIC_SPLIT, OTHER_METRIC)
    count = {cause: sum(cause in closes for closes in closing) for cause in causes}
    by = ", ".join(f"{cause} {n}" for cause, n in sorted(count.items(), key=lambda one: -one[1]) if n)
    seeds = frame.seed.nunique()
    about = _TEXT.about.format(
        cells=len(rows), printed=len(gaps.compared(tables)), apart=gaps.APART,
        seeds="one seed" if seeds == 1 else f"{seeds} seeds", tries=len(causes), wide=gaps.WIDE, long=gaps.LONG,
        closed=sum(map(bool, closing)), open=sum(not one for one in closing),
        unasked=f" ({unasked} of all were asked by their tables' own rows alone)" if unasked else "",
        by=f"Cells that each change closes: {by}." if by else "",
    )  # fmt: skip
    return ["## Gaps to the paper", about, table(rows), *_ablations(tables)]


def _near(value: float | None, printed: float) -> bool:
    return value is not None and abs(value - printed) <= gaps.APART


def _ablations(tables: pd.DataFrame) -> list[str]:
    """Whether the whole is above each ablation, as in the paper."""
    at = tables[(tables.split == "random") & (tables.epsilon == BUDGETS["table2"][0])]
    values = by_seed(at[at.metric == METRICS[0]], ["dataset", "mechanism"])
    rows, gains = [], []
    for dataset, whole in values:
        for less in WITHOUT if whole == f"{PUBLISHED}poindp" else ():
            gain = contrast(values, (dataset, whole), (dataset, whole + less))
            if gain is None:
                continue
            printed = TABLE_2.get((dataset, whole), np.nan) - TABLE_2.get((dataset, whole + less), np.nan)
            gains.append(gain)
            cells = {"data set": dataset, "ablation": less.strip(), "paper": f"{printed:+.1f}"}
            rows.append(cells | {"ours": signed(gain)})
    if not rows:
        return []
    up, down, _ = counted(gains)
    verdict = "" if up == len(gains) else ": **the order is not reproduced**"
    return [_TEXT.order.format(up=up, down=down, all=len(gains), verdict=verdict, table=table(rows))]
