"""Which mechanism is best on one number? Worst-case variances of all of them, against epsilon."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments._report import legend_below, markdown, panels, save, terminal
from experiments._runner import DEFAULT_OUT, check_positive, console, write_tables
from ldp_jax import features
from ldp_jax.verification import plot

NAME = "variance"
TABLE = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
FORMULAS = {
    "Laplace": features.Laplace, "Duchi": features.Duchi, "Piecewise": features.Piecewise,
    "PM-SUB": features.SuboptimalPiecewise, "PM-OPT": features.OptimalPiecewise,
    "Three outputs": features.ThreeOutputs, "Hybrid": features.Hybrid,
    "Square wave, debiased": lambda e: features.SquareWave(e, debias=True),
}  # fmt: skip
TABLES = {"Grid piecewise": features.GridPiecewise, "LP-optimal": features.LPOptimal}
_SHADES = (
    "#7a7a7a",
    "#edae49",
    "#d1495b",
    "#c77cff",
    "#7b2d8b",
    "#66a182",
    "#2e4057",
    "#00798c",
    "#f08cae",
    "#000000",
)
COLOURS = dict(zip([*FORMULAS, *TABLES], _SHADES, strict=True))


@dataclasses.dataclass(frozen=True)
class Config:
    """Worst-case variance on [-1, 1] of every unbiased mechanism on one number.

    Table, CSV and figure.

    The paper's Figure 1 with all mechanisms of the library: closed forms, and integer tables with
    their rounding included. Seconds.
    """

    points: int = 33
    """budgets of the figure, from 0.25 to 5, evenly in the logarithm"""
    out: Path = DEFAULT_OUT
    """where variance.csv, variance.md and variance.png go"""


def main(config: Config) -> None:
    check_positive("--points", config.points)
    grid = np.unique(np.concatenate([np.geomspace(0.25, 5.0, config.points), TABLE]))
    figure, found = draw(grid)
    rows = [
        {"mechanism": name, "epsilon": float(e), "worst_variance": float(v)}
        for name, values in found.items()
        for e, v in zip(grid, values, strict=True)
    ]
    frame = pd.DataFrame(rows)
    header = ["worst-case variance", *(f"{e:g}" for e in TABLE)]
    lines = _lines(frame)
    write_tables(config.out, NAME, frame, markdown(header, lines))
    console.print(terminal(header, lines, "worst-case variance on [-1, 1]"))
    path = config.out / f"{NAME}.png"
    save(figure, path)
    console.print(f"rows: {config.out / f'{NAME}.csv'}\nfigure: {path}", soft_wrap=True)


def _lines(frame: pd.DataFrame) -> list[list[str]]:
    lines = []
    best = frame.groupby("epsilon").worst_variance.min()
    for name, part in frame.groupby("mechanism", sort=False):
        values = part.set_index("epsilon").worst_variance
        shown = {e: f"{values[e]:.4g}" for e in TABLE}
        lines.append(
            [
                str(name),
                *(f"**{text}**" if values[e] == best[e] else text for e, text in shown.items()),
            ]
        )
    return lines


def draw(epsilons: np.ndarray) -> tuple[Any, dict[str, np.ndarray]]:
    """Variances, and their ratios to the least one."""
    figure, axes = panels(2, width=4.6, height=3.8)
    plot.variance(FORMULAS | TABLES, epsilons, ax=axes[0])
    found = {str(line.get_label()): np.asarray(line.get_ydata()) for line in axes[0].lines}
    least = np.min(list(found.values()), axis=0)
    for line, (name, values) in zip(axes[0].lines, found.items(), strict=True):
        style = {"color": COLOURS[name], "lw": 1.6, "ls": "--" if name in TABLES else "-"}
        line.set(**style)
        axes[1].plot(epsilons, values / least, **style)
    axes[0].set(ylabel="worst-case variance on [-1, 1]")
    axes[1].set(xscale="log", xlabel="epsilon", ylabel="over the least of all", ylim=(0.95, 3.0))
    for axis in axes:
        axis.set_xticks([0.25, 0.5, 1, 2, 5], ["0.25", "0.5", "1", "2", "5"])
        axis.minorticks_off()
        axis.grid(alpha=0.25)
    axes[0].set_title("variance (dashed: integer tables)")
    axes[1].set_title("how far from the best")
    legend_below(figure, axes[0], columns=5)
    return figure, found
