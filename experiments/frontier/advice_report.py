"""Advice against outcome: what a panel foretold before anybody reported, and what came of it."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from experiments._report import errorbars, pyplot, signed, significant
from experiments._report import table as as_table
from experiments.frontier.features_methods import ADVICE, COLLECT, FORETOLD, NEEDED, T
from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval
from ldp_jax.pipeline.advice import LEAST_T

_PLACE = ["dataset", "panel", "epsilon"]


class Outcome(NamedTuple):
    """A graph, panel and epsilon."""

    name: str
    """of the graph and its panel"""
    epsilon: float
    """of a report"""
    advised: int
    """in how many draws it was advised to collect"""
    t: float
    """of the expected log-loss gain, its mean"""
    foretold: float
    """points that own reports alone were expected to add, in the mean"""
    needed: float | None
    """the least epsilon that would have been advised, its median over draws in which there is one"""
    gain: ConfidenceInterval
    """measured, in points over what the panel's log-loss prefers of structure"""

    @property
    def mostly(self) -> bool:
        """Whether the advice was to collect in more than half of the draws."""
        return 2 * self.advised > self.gain.n

    @property
    def miss(self) -> str:
        """In what way the advice was wrong; empty where it was not."""
        helps = significant(self.gain) and self.gain.mean > 0
        if self.mostly and not helps:
            return "advised, and no gain is seen"
        return "not advised, and it gains" if helps and not self.mostly else ""


def outcomes(frame: pd.DataFrame, measured: pd.DataFrame) -> list[Outcome]:
    """Each graph, panel and epsilon with advice and with ``measured`` gains in points, over the draws of both."""
    advice = frame[frame.mechanism == ADVICE]
    advice = advice.assign(panel=[f"{float(setting):g}" for setting in advice.panel])
    advice = advice.pivot_table(index=[*_PLACE, "members", "seed"], columns="metric", values="value", sort=False)
    if advice.empty:
        return []
    both = advice.reset_index().merge(measured[[*_PLACE, "seed", "value"]], on=[*_PLACE, "seed"])
    found = []
    for (dataset, panel, epsilon), one in both.groupby(_PLACE, sort=False):
        needed = one.get(NEEDED, pd.Series(dtype=float)).dropna()
        found.append(
            Outcome(
                f"{dataset}, {panel} ({one.members.iloc[0]})", float(epsilon), int(one[COLLECT].sum()),
                float(one[T].mean()), float(one[FORETOLD].mean()), float(needed.median()) if len(needed) else None,
                mean_interval(one.value.to_numpy()),
            )
        )  # fmt: skip
    return found


def words(found: list[Outcome]) -> str:
    """How often the advice was right, and how near its numbers were."""
    wrong = [one for one in found if one.miss]
    gains, foretold, t = np.array([(one.gain.mean, one.foretold, one.t) for one in found]).T
    ranks = pd.DataFrame({"gain": gains, "foretold": foretold, "t": t}).rank().corr().gain
    return (
        "`ldp_jax.advise` is asked before anybody reports, of the panel alone. It is right where it says to "
        "collect (in more than half of the draws) and the gain over what the panel chose of structure has an "
        f"interval above 0, or neither. Of {len(found)} settings (graph, panel, epsilon) it is wrong in "
        f"{len(wrong)}. The rank correlation with the measured gain is {ranks.t:.2f} for t and "
        f"{ranks.foretold:.2f} for the points foretold, which leave out what reports of neighbours add: they are "
        f"{np.abs(gains - foretold).mean():.1f} off in the mean; the gain less them is "
        f"{(gains - foretold).mean():+.1f}."
    )


def table(found: list[Outcome]) -> str:
    """A line a setting; what was missed says how."""
    return as_table(
        {
            "graph, panel (members)": one.name,
            "eps": f"{one.epsilon:g}",
            "t": f"{one.t:.1f}",
            "advised (draws)": f"{one.advised} of {one.gain.n}",
            "epsilon that would do": "none" if one.needed is None else f"{one.needed:g}",
            "points foretold": f"{one.foretold:+.1f}",
            "gain over chosen": signed(one.gain),
            "missed": one.miss,
        }
        for one in found
    )


def apart(heights: list[float], least: float) -> list[float]:
    """Heights at least so far from each other, in the same order, near where they were.

    >>> apart([0.0, 0.2, 5.0], 1.0)
    [-0.4, 0.6, 5.0]
    """
    order = np.argsort(heights, kind="stable")
    place = np.array(heights, float)[order]
    for _ in range(200):
        gap = np.diff(place)
        short = np.maximum(least - gap, 0.0) / 2
        if short.max(initial=0.0) < 1e-6 * least:
            break
        place[:-1] -= short
        place[1:] += short
    made = np.empty(len(place))
    made[order] = place
    return made.round(6).tolist()


def figure(found: list[Outcome]) -> Any:
    """Measured gain against t, a colour a budget; misses are ringed."""
    plt = pyplot()
    made, axis = plt.subplots(figsize=(8.6, 5.0))
    right = max(one.t for one in found) + 1.0
    axis.axvspan(LEAST_T, right, color="#2f7d4f", alpha=0.07, linewidth=0)
    axis.axhline(0.0, color="black", linewidth=1.0)
    axis.axvline(LEAST_T, color="black", linewidth=1.0, linestyle="--", label=f"advised above t = {LEAST_T:g}")
    budgets = sorted({one.epsilon for one in found})
    lines = [
        sorted((one for one in found if one.name == name), key=lambda one: one.epsilon)
        for name in dict.fromkeys(one.name for one in found)
    ]
    for here in lines:
        axis.plot([one.t for one in here], [one.gain.mean for one in here], color="0.7", linewidth=1.0, zorder=1)
    ends = [here[-1] for here in lines]
    reach = [one.gain.mean for one in found]
    heights = apart([one.gain.mean for one in ends], (max(reach) - min(reach)) / 22)
    for one, height in zip(ends, heights, strict=True):
        axis.annotate(
            one.name, (one.t, one.gain.mean), xytext=(right + 0.15, height), textcoords="data", fontsize=8,
            va="center", annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": "0.8", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 4},
        )  # fmt: skip
    axis.set_xlim(right=right)
    for place, epsilon in enumerate(budgets):
        here = [one for one in found if one.epsilon == epsilon]
        colour = plt.get_cmap("viridis")(place / max(len(budgets) - 1, 1) * 0.9)
        style = {"linestyle": "none", "markersize": 5, "linewidth": 1.0}
        errorbars(axis, {one.t: one.gain for one in here}, color=colour, label=f"eps {epsilon:g}", **style)
    missed = [one for one in found if one.miss]
    axis.plot(
        [one.t for one in missed], [one.gain.mean for one in missed], marker="o", linestyle="none", markersize=10,
        markerfacecolor="none", markeredgecolor="#c1272d", label="the advice was wrong",
    )  # fmt: skip
    axis.set_xlabel("t of the expected gain, on the panel, before anybody reports")
    axis.set_ylabel("measured gain over chosen structure (points)")
    axis.legend(loc="best", fontsize=8)
    made.tight_layout()
    return made
