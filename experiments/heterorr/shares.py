"""Figure 3: importance and sensitivity of each coordinate of the public embedding, and its share of the budget."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from experiments import _runner
from experiments._report import panels, save
from experiments._runner import Found, Results, config_hash, run
from experiments.heterorr import accuracy, cells
from experiments.heterorr.config import Config
from ldp_jax.accounting.guarantee import RECORD

NAME = "heterorr_shares"
FIGURE = "heterorr_figure3"
METRICS = ("importance", "sensitivity", "share")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """One coordinate's scores, which come from public users alone."""

    coordinate: int

    @property
    def last_metric(self) -> str:
        """theta."""
        return METRICS[-1]


def results_in(out: Path) -> Results:
    """The rows of a folder."""
    return Results(out, NAME, Cell)


def main(config: Config) -> None:
    """Compute what is missing."""
    planned = {}
    for dataset in config.datasets:
        data, chosen = accuracy.load(dataset), accuracy.resolved(config, dataset, "features")
        for seed in range(config.seeds):
            for coordinate in range(chosen.width):
                cell = Cell(
                    dataset=data.name, task="scores", mechanism="featurerr", epsilon=0.0, seed=seed,
                    epsilon_proved=math.inf, unit=str(RECORD), config=config_hash(chosen), coordinate=coordinate,
                )  # fmt: skip
                planned[cell] = chosen

    def compute(cell: Cell, say: Callable[[str], None]) -> Found:
        known = cells.embedding(cells.prepare(planned[cell], cell.seed))
        values = (known.alpha, known.beta, known.theta)
        return Found({name: float(each[cell.coordinate]) for name, each in zip(METRICS, values, strict=True)})

    run(planned, compute, results_in(config.out), settings=planned.__getitem__, called="coordinates")


def write(out: Path) -> list[Path]:
    """The figure; the rows are the table."""
    frame = results_in(out).read()
    if frame.empty:
        return []
    names = list(dict.fromkeys(frame.dataset))
    figure, axes = panels(len(names), width=4.6, height=3.6)
    for axis, dataset in zip(axes, names, strict=True):
        wide = _wide(frame[frame.dataset == dataset])
        dots = axis.scatter(wide.importance, wide.sensitivity, c=wide.share, cmap="viridis", s=22)
        figure.colorbar(dots, ax=axis, label="share theta of the budget")
        axis.set_xlabel("importance alpha")
        axis.set_ylabel("sensitivity beta")
        axis.set_title(
            f"{dataset}: a dot is a coordinate of one of {frame.seed.nunique()} public splits", fontsize=8
        )
    figure.tight_layout()
    path = out / f"{FIGURE}.png"
    save(figure, path)
    return [path]


def _wide(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.pivot_table(index=["seed", "coordinate"], columns="metric", values="value")
