"""Rehearsal against outcome: what worlds foretold before anybody reported, and what came of it."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from experiments._report import errorbars, pyplot, signed
from experiments._report import table as as_table
from experiments.frontier.features_methods import CHANCE, FORETOLD, HIGH, LOW, REHEARSAL
from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval
from ldp_jax.pipeline.rehearsal import LEAST_LABELS, LEAST_POINTS, Foreseen

_PLACE = ["dataset", "panel", "epsilon"]


class Outcome(NamedTuple):
    """A graph, panel and epsilon."""

    name: str
    """of the graph and its panel"""
    epsilon: float
    """of a report"""
    collect: int
    """in how many draws the verdict was to collect"""
    foretold: ConfidenceInterval
    """points, over draws"""
    inside: int
    """in how many draws the gain was in the interval that was foretold"""
    gain: ConfidenceInterval
    """measured, in points over what the panel's log-loss prefers of structure"""

    @property
    def miss(self) -> str:
        """In what way the verdict was wrong; empty where it was not."""
        helps, mostly = self.gain.mean >= LEAST_POINTS, 2 * self.collect > self.gain.n
        if mostly and not helps:
            return "collected in vain"
        return "passed over" if helps and not mostly else ""


def outcomes(frame: pd.DataFrame, measured: pd.DataFrame) -> list[Outcome]:
    """Each graph, panel and epsilon with rehearsals and ``measured`` gains in points, over the draws of both."""
    told = frame[frame.mechanism == REHEARSAL]
    told = told.assign(panel=[f"{float(setting):g}" for setting in told.panel])
    told = told.pivot_table(index=[*_PLACE, "members", "seed"], columns="metric", values="value", sort=False)
    if told.empty:
        return []
    both = told.reset_index().merge(measured[[*_PLACE, "seed", "value"]], on=[*_PLACE, "seed"])
    return [
        Outcome(
            f"{dataset}, {panel} ({one.members.iloc[0]})", float(epsilon), _collected(one),
            mean_interval(one[FORETOLD]), int(one.value.between(one[LOW] - 1e-9, one[HIGH] + 1e-9).sum()),
            mean_interval(one.value),
        )
        for (dataset, panel, epsilon), one in both.groupby(_PLACE, sort=False)
    ]  # fmt: skip


def _collected(draws: pd.DataFrame) -> int:
    told = draws[[FORETOLD, LOW, HIGH, CHANCE]].to_numpy()
    return sum(Foreseen(*one).worth(int(draws.members.iloc[0])) for one in told.tolist())


def words(found: list[Outcome]) -> str:
    """How often the verdict was right, and how near its points were."""
    wrong = [one for one in found if one.miss]
    gains, foretold = np.array([(one.gain.mean, one.foretold.mean) for one in found]).T
    rank = pd.DataFrame({"gain": gains, "foretold": foretold}).rank().corr().gain.foretold
    inside, draws = sum(one.inside for one in found), sum(one.gain.n for one in found)
    return (
        "`ldp_jax.rehearse` is asked before anybody reports, of the panel and the graph alone. It is right where "
        "it says to collect (in more than half of the draws) and the mean gain over what the panel chose of "
        f"structure is at least {LEAST_POINTS:g} points, or neither. It is wrong in {len(wrong)} of {len(found)} "
        f"settings (graph, panel, epsilon). Its points are {np.abs(gains - foretold).mean():.2f} off in the mean, "
        f"the rank correlation with the gain is {rank:.2f}, and {inside} of {draws} gains are inside the interval "
        f"that was foretold. Below {LEAST_LABELS} labels it refuses to tell."
    )


def table(found: list[Outcome]) -> str:
    """A line a setting; what was missed says how."""
    return as_table(
        {
            "graph, panel (members)": one.name,
            "eps": f"{one.epsilon:g}",
            "collect (draws)": f"{one.collect} of {one.gain.n}",
            "points foretold": signed(one.foretold),
            "gain over chosen": signed(one.gain),
            "inside the interval": f"{one.inside} of {one.gain.n}",
            "missed": one.miss,
        }
        for one in found
    )


def figure(found: list[Outcome]) -> Any:
    """Measured gain against the points foretold, a colour a budget; wrong verdicts are ringed."""
    plt = pyplot()
    made, axis = plt.subplots(figsize=(5.6, 5.0))
    reach = [value for one in found for value in (one.gain.mean, one.foretold.mean)]
    ends = [min(reach), max(reach)]
    axis.plot(ends, ends, color="0.6", linewidth=1.0, label="as foretold")
    budgets = sorted({one.epsilon for one in found})
    for place, epsilon in enumerate(budgets):
        here = {one.foretold.mean: one.gain for one in found if one.epsilon == epsilon}
        colour = plt.get_cmap("viridis")(place / max(len(budgets) - 1, 1) * 0.9)
        style = {"linestyle": "none", "markersize": 5, "linewidth": 1.0}
        errorbars(axis, here, color=colour, label=f"eps {epsilon:g}", **style)
    missed = [one for one in found if one.miss]
    axis.plot(
        [one.foretold.mean for one in missed], [one.gain.mean for one in missed], marker="o", linestyle="none",
        markersize=10, markerfacecolor="none", markeredgecolor="#c1272d", label="the verdict was wrong",
    )  # fmt: skip
    axis.set_xlabel("points foretold before anybody reported")
    axis.set_ylabel("measured gain over chosen structure (points)")
    axis.legend(loc="best", fontsize=8)
    made.tight_layout()
    return made
