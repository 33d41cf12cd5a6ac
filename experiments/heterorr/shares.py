"""Figure 3: each coordinate's importance, sensitivity and share of the budget."""

import dataclasses
import itertools
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

from experiments import _common, _runner
from experiments import _report as show
from experiments.heterorr import accuracy, cells, settings
from ldp_jax.accounting.guarantee import RECORD

NAME, CALLED = "heterorr_shares", "coordinates"
METRICS = ("importance", "sensitivity", "share")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """One coordinate's scores, which come from public users alone."""

    coordinate: int
    last_metric = property(lambda self: METRICS[-1])


results_in = partial(_runner.Results, name=NAME, cell=Cell)


@_common.planned
def plan(config: settings.Config) -> Iterator[tuple[Cell, settings.Settings]]:
    for dataset in config.datasets:
        data = accuracy.load(dataset)
        chosen = accuracy.resolved(config, dataset, "features")
        for seed, coordinate in itertools.product(range(config.seeds), range(chosen.width)):
            row = data.name, "scores", RECORD, "featurerr", 0.0, seed, math.inf
            yield Cell.of(chosen, *row, coordinate=coordinate)


def compute(cell: Cell, chosen: settings.Settings) -> _runner.Found:
    known = cells.embedding(cells.prepare(chosen, cell.seed))
    values = (known.alpha, known.beta, known.theta)
    return _runner.Found(
        {name: float(each[cell.coordinate]) for name, each in zip(METRICS, values, strict=True)}
    )


def draw(report: Any, _: Any) -> Any:
    """A dot for each coordinate, by importance and sensitivity."""
    frame = report.frame
    names = list(dict.fromkeys(frame.dataset))
    figure, axes = show.panels(len(names), width=4.6, height=3.6)
    for axis, dataset in zip(axes, names, strict=True):
        rows = frame[frame.dataset == dataset]
        wide = rows.pivot_table(index=["seed", "coordinate"], columns="metric", values="value")
        dots = axis.scatter(wide.importance, wide.sensitivity, c=wide.share, cmap="viridis", s=22)
        figure.colorbar(dots, ax=axis, label="share theta of the budget")
        title = f"{dataset}: a dot is a coordinate of one of {frame.seed.nunique()} public splits"
        axis.set(xlabel="importance alpha", ylabel="sensitivity beta")
        axis.set_title(title, fontsize=8)
    figure.tight_layout()
    return figure
