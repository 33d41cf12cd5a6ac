"""Which mechanism is best on one number? Worst-case variances of all of them, against epsilon."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from experiments._common import own_method
from experiments._declared import measured
from experiments._report import panels
from experiments._runner import DEFAULT_OUT, UsageError, asked, check_positive
from experiments.audit import tell_verdicts
from ldp_jax import features
from ldp_jax.accounting.guarantee import RECORD
from ldp_jax.bench import plot
from ldp_jax.bench.named import Named
from ldp_jax.core.mechanism import HasMoments, require_protocol
from ldp_jax.core.spaces import Interval

NAME = "variance"
TABLE = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
"""Budgets of the table of the page."""
FORMULAS = {
    "Laplace": features.Laplace, "Duchi": features.Duchi, "Piecewise": features.Piecewise,
    "PM-SUB": features.SuboptimalPiecewise, "PM-OPT": features.OptimalPiecewise,
    "Three outputs": features.ThreeOutputs, "Hybrid": features.Hybrid,
    "Square wave, debiased": lambda e: features.SquareWave(e, debias=True),
}  # fmt: skip
TABLES = {"Grid piecewise": features.GridPiecewise, "LP-optimal": features.LPOptimal}
OWN = f"{NAME}_own"
"""The files of verdicts on the user's own mechanisms."""
UNBIASED = 1e-3
"""The largest bias, of records in [-1, 1], of an estimate that is called unbiased."""


@dataclasses.dataclass(frozen=True)
class Config:
    """Worst-case variance on [-1, 1] of every unbiased mechanism on one number.

    Table, CSV and figure.

    The paper's Figure 1 with all mechanisms of the library: closed forms, and integer tables with
    their rounding included. Seconds. A mechanism of one's own has its curve and its row beside
    them, and its verdict in variance_own.md; exits with 1 where that is not that its claim holds.
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
    own = {word: _usable(own_method("--mechanisms", word), grid) for word in config.mechanisms}
    makers = FORMULAS | TABLES | {word: method.make for word, method in own.items()}
    rows = [
        {"mechanism": line.get_label(), "epsilon": float(e), "worst_variance": float(v)}
        for line in plot.variance(makers, grid, ax=panels(1)[1][0]).lines
        for e, v in zip(grid, np.asarray(line.get_ydata()), strict=True)
    ]
    measured(config.out, NAME, [pd.DataFrame(rows)])
    if own:
        tell_verdicts(config.out, OWN, [method.make(1.0) for method in own.values()])


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


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """Each variance, and its ratio to the least one of its budget."""
    least = frame.groupby("epsilon").worst_variance.transform("min")
    ratio = frame.assign(metric="over the least", worst_variance=frame.worst_variance / least)
    return pd.concat([frame.assign(metric="variance"), ratio], ignore_index=True)
