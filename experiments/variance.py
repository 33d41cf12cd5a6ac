"""Which mechanism is best on one number? Worst-case variances of all of them, against epsilon."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from experiments._common import own_method
from experiments._report import legend_below, markdown, panels, save, terminal
from experiments._runner import (
    DEFAULT_OUT,
    UsageError,
    asked,
    check_positive,
    console,
    write_tables,
)
from ldp_jax import features, verification
from ldp_jax.accounting.guarantee import RECORD
from ldp_jax.bench import plot
from ldp_jax.bench.named import Named
from ldp_jax.core.mechanism import HasMoments, require_protocol
from ldp_jax.core.spaces import Interval

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
OWN = {"color": "#e6194b", "lw": 2.2, "markersize": 5, "markevery": 4}
"""How the curves of the user's own mechanisms look; each has a marker of its own."""
MARKERS = "o^sDvP"
UNBIASED = 1e-3
"""The largest bias, of records in [-1, 1], of an estimate that is called unbiased."""


@dataclasses.dataclass(frozen=True)
class Config:
    """Worst-case variance on [-1, 1] of every unbiased mechanism on one number.

    Table, CSV and figure.

    The paper's Figure 1 with all mechanisms of the library: closed forms, and integer tables with
    their rounding included. Seconds. A mechanism of one's own has its curve, its row and its
    verdict beside them; exits with 1 where the verdict is not that its claim holds.
    """

    mechanisms: tuple[str, ...] = ()
    """your own, beside all others: module:Name, made at each budget, or with further literals,
    module:Name(steps=5)"""
    points: int = 33
    """budgets of the figure, from 0.25 to 5, evenly in the logarithm"""
    out: Path = DEFAULT_OUT
    """where variance.csv, variance.md and variance.png go"""


def main(config: Config) -> None:
    check_positive("--points", config.points)
    grid = np.unique(np.concatenate([np.geomspace(0.25, 5.0, config.points), TABLE]))
    if len(config.mechanisms) > len(MARKERS):
        raise UsageError(f"--mechanisms takes at most {len(MARKERS)}, got {len(config.mechanisms)}")
    own = {word: _usable(own_method("--mechanisms", word), grid) for word in config.mechanisms}
    figure, found = draw(grid, own)
    rows = [
        {"mechanism": name, "epsilon": float(e), "worst_variance": float(v)}
        for name, values in found.items()
        for e, v in zip(grid, values, strict=True)
    ]
    frame = pd.DataFrame(rows)
    header = ["worst-case variance", *(f"{e:g}" for e in TABLE)]
    lines = _lines(frame)
    console.print(terminal(header, lines, "worst-case variance on [-1, 1]"))
    text = markdown(header, lines)
    verdicts = []
    for word, method in own.items():
        verdict = verification.check(method.make(1.0), jax.random.key(0))
        verdicts.append(verdict)
        console.print(f"{verdict}\n", soft_wrap=True, markup=False, highlight=False)
        text += f"\n\n`{word}` at epsilon 1:\n\n```\n{verdict}\n```"
    write_tables(config.out, NAME, frame, text)
    path = config.out / f"{NAME}.png"
    save(figure, path)
    console.print(f"rows: {config.out / f'{NAME}.csv'}\nfigure: {path}", soft_wrap=True)
    if not all(verdicts):
        raise SystemExit(1)


def _usable(method: Named, epsilons: np.ndarray) -> Named:
    """Refuse a method that cannot stand in this table, before anything is drawn.

    At each budget it must be a mechanism on numbers in [-1, 1] with moments, its estimate must be
    unbiased, and its guarantee at most the epsilon of its column.
    """
    word = f"--mechanisms {method.word}"
    if method.complete:
        raise UsageError(f"{word}: it is made at each budget, so the call must leave epsilon out")
    for epsilon in map(float, epsilons):
        with asked(f"{word}, epsilon {epsilon:g}", AttributeError, TypeError):
            made = method.make(epsilon)
            require_protocol(made)
            claimed = made.guarantee()
            domain = made.domain()
        if not isinstance(made, HasMoments):
            raise UsageError(f"{word}: the table needs mean(x) and variance(x) of its estimate")
        if not isinstance(domain, Interval) or (domain.lower, domain.upper) != (-1, 1):
            raise UsageError(f"{word}: the table is of numbers in [-1, 1], got {domain}")
        beyond = claimed.epsilon > epsilon * (1 + 1e-9) or claimed.delta > 0
        if claimed.unit != RECORD or beyond:
            raise UsageError(f"{word}: in the column of epsilon {epsilon:g} it has {claimed}")
        records = jnp.linspace(-1.0, 1.0, 33)
        bias = float(jnp.abs(jax.vmap(made.mean)(records) - records).max())
        if not bias <= UNBIASED:
            raise UsageError(
                f"{word}, epsilon {epsilon:g}: the table is of unbiased estimates, and this one "
                f"is off by {bias:.3g}"
            )
    return method


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


def draw(epsilons: np.ndarray, own: Mapping[str, Named]) -> tuple[Any, dict[str, np.ndarray]]:
    """Variances, and their ratios to the least one."""
    figure, axes = panels(2, width=4.6, height=3.8)
    makers = FORMULAS | TABLES | {word: method.make for word, method in own.items()}
    plot.variance(makers, epsilons, ax=axes[0])
    markers = dict(zip(own, MARKERS, strict=False))
    found = {str(line.get_label()): np.asarray(line.get_ydata()) for line in axes[0].lines}
    least = np.min(list(found.values()), axis=0)
    for line, (name, values) in zip(axes[0].lines, found.items(), strict=True):
        if name in own:
            style = OWN | {"marker": markers[name]}
        else:
            style = {"color": COLOURS[name], "lw": 1.6, "ls": "--" if name in TABLES else "-"}
        line.set(**style)
        axes[1].plot(epsilons, values / least, **style)
    axes[0].set(ylabel="worst-case variance on [-1, 1]")
    highest = max([3.0, *(1.05 * float((found[word] / least).max()) for word in own)])
    axes[1].set(
        xscale="log", xlabel="epsilon", ylabel="over the least of all", ylim=(0.95, highest)
    )
    for axis in axes:
        axis.set_xticks([0.25, 0.5, 1, 2, 5], ["0.25", "0.5", "1", "2", "5"])
        axis.minorticks_off()
        axis.grid(alpha=0.25)
    axes[0].set_title("variance (dashed: integer tables)")
    axes[1].set_title("how far from the best")
    legend_below(figure, axes[0], columns=5)
    return figure, found
