"""Rehearsal against outcome: what worlds foretold before anybody reported, and what came of it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from experiments import _report as show
from experiments._lines import Spec
from experiments.frontier.methods import CHANCE, FORETOLD, HIGH, LABELS, LOW, REHEARSAL
from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval
from ldp_jax.servers.rehearsal import LEAST_LABELS, LEAST_POINTS, Foreseen

CHOSEN_ON = ("citeseer", "cora", "blogcatalog", "debian")
"""Graphs by which the constants of rehearsals were chosen."""


class Outcome(NamedTuple):
    """A graph, panel and epsilon."""

    dataset: str
    name: str
    """of the graph, and whose labels are public"""
    epsilon: float
    """of a report"""
    labels: int
    """that are public"""
    told: Foreseen
    """the mean over the draws that were rehearsed"""
    rehearsed: int
    """in how many draws"""
    inside: int
    """in how many of these the gain was in the interval that was foretold"""
    score: float
    """the mean interval score of these, in points: width, and 40 times what a gain is outside"""
    without: float
    """that of the same gains where always 0 is foretold"""
    gain: ConfidenceInterval
    """measured over all draws, in points over what is known without reports"""

    @property
    def collect(self) -> bool:
        return self.told.worth(self.labels)

    @property
    def miss(self) -> str:
        """In what way the verdict was wrong; empty where it was not, or was refused."""
        helps = self.gain.mean >= LEAST_POINTS
        if self.labels < LEAST_LABELS or self.collect == helps:
            return ""
        return "collected in vain" if self.collect else "passed over"


def outcomes(frame: pd.DataFrame, measured: pd.DataFrame, setting: str = "panel") -> list[Outcome]:
    """Rehearsed and measured gains of each graph, setting (a column) and epsilon."""
    place = ["dataset", setting, "epsilon"]
    told = frame[frame.mechanism.str.startswith(REHEARSAL)]
    counted = ["members"] if "members" in told else []
    told = told.pivot_table(
        index=[*place, *counted, "seed"], columns="metric", values="value", sort=False
    )
    if told.empty or measured.empty:  # nothing was rehearsed, or nothing came of it yet
        return []
    told = told.reset_index().rename(columns={LABELS: "members"})
    gains = measured.groupby(place, sort=False)
    both = told.merge(measured[[*place, "seed", "value"]], on=[*place, "seed"])
    made = []
    for key, one in both.groupby(place, sort=False):
        dataset, name, epsilon = key
        labels = int(one.members.iloc[0])
        outside = np.maximum(one[LOW] - one.value, 0.0) + np.maximum(one.value - one[HIGH], 0.0)
        score = one[HIGH] - one[LOW] + 40.0 * outside
        made.append(
            Outcome(
                str(dataset),
                f"{dataset}, {name} ({labels})",
                float(epsilon),
                labels,
                Foreseen(*one[[FORETOLD, LOW, HIGH, CHANCE]].mean().tolist()),
                len(one),
                int((outside <= 1e-9).sum()),
                float(score.mean()),
                float(40.0 * one.value.abs().mean()),
                mean_interval(gains.get_group(key).value),
            )
        )
    return made


def section(report: Any, spec: Spec) -> show.Section:
    """The section of a declared page: how often verdicts were right, the wrong ones, a figure.

    Nothing without a rehearsal. All outcomes are in a CSV.
    """
    about = spec["options"]
    setting = about.get("setting", "panel")
    chosen = about.get("chosen", CHOSEN_ON)
    measured = pd.DataFrame(
        [
            {name: line.columns[name] for name in ("dataset", setting, "epsilon")}
            | {"seed": seed, "value": value}
            for line in report.select(spec)
            for seed, value in line.measures[spec["measure"]].items()
        ]
    )
    found = outcomes(report.frame, measured, setting)
    if not found:
        return [], {}, {}
    stem = f"{report.name}_rehearsal"
    over = about["over"]
    texts = [words(found, about["told"], over, chosen)]
    figures = {}
    if asked := [one for one in found if one.labels >= LEAST_LABELS]:
        figures[stem] = figure(asked, over)
        texts.append(f"![Rehearsal against outcome]({stem}.png)")
    rows = [_row(one, over) for one in found]
    if wrong := [row for row in rows if row["missed"]]:
        texts += ["Verdicts that were wrong:", show.table(wrong)]
    file = f"{stem}.table.csv"
    return [*texts, f"All of them: [{file}]({file})."], figures, {file: pd.DataFrame(rows)}


def words(found: list[Outcome], asked_of: str, over: str, chosen: Sequence[str] = CHOSEN_ON) -> str:
    """How often the verdict was right, and how near its points were."""
    asked = [one for one in found if one.labels >= LEAST_LABELS]
    others = [one for one in asked if one.dataset not in chosen]
    return (
        f"`ldp_jax.rehearse` is asked before anybody reports, of {asked_of}. It is right where it "
        f"says to collect and the mean gain over {over} is at least {LEAST_POINTS:g} points, or "
        f"neither. Below {LEAST_LABELS} labels it refuses to tell. Of all settings with as many "
        f"{_counted(asked)}. Of those on graphs by which no constant was chosen (all but "
        f"{', '.join(chosen)}) {_counted(others)}."
    )


def _counted(found: list[Outcome]) -> str:
    if not found:
        return "there is none"
    gains = np.array([one.gain.mean for one in found])
    foretold = np.array([one.told.points for one in found])
    rank = pd.DataFrame({"gain": gains, "foretold": foretold}).rank().corr().gain.foretold
    inside = sum(one.inside for one in found)
    draws = sum(one.rehearsed for one in found)
    width = np.mean([one.told.high - one.told.low for one in found])
    score, without = np.mean([(one.score, one.without) for one in found], axis=0)
    return (
        f"it is wrong in {sum(bool(one.miss) for one in found)} of {len(found)} settings (graph, "
        f"labels, epsilon); its points are {np.abs(gains - foretold).mean():.2f} off in the mean, "
        f"their rank correlation with the gain is {rank:.2f}, and {inside} of {draws} gains are "
        f"inside the interval that was foretold, whose width is {width:.1f} points in the mean and "
        f"whose interval score is {score:.1f} ({without:.1f} where always 0 is foretold)"
    )


def _row(one: Outcome, over: str) -> dict[str, Any]:
    """An outcome as a line of a table."""
    refused = one.labels < LEAST_LABELS
    told = one.told
    return {
        "graph, labels (how many)": one.name,
        "eps": f"{one.epsilon:g}",
        "verdict": "refused" if refused else "collect" if one.collect else "do not",
        "points foretold": f"{told.points:+.1f} ({told.low:+.1f} to {told.high:+.1f})",
        f"gain over {over}": show.signed(one.gain).strip("*"),
        "inside": f"{one.inside} of {one.rehearsed}",
        "missed": one.miss,
    }


def figure(found: list[Outcome], over: str) -> Any:
    """Measured gain against the points foretold, a colour a budget; wrong verdicts are ringed."""
    plt = show.pyplot()
    made, axis = plt.subplots(figsize=(5.6, 5.0))
    reach = [value for one in found for value in (one.gain.mean, one.told.points)]
    ends = [min(reach), max(reach)]
    axis.plot(ends, ends, color="0.6", linewidth=1.0, label="as foretold")
    budgets = sorted({one.epsilon for one in found})
    for place, epsilon in enumerate(budgets):
        here = [
            one for one in found if one.epsilon == epsilon
        ]  # several may be foretold the same points
        half = [one.gain.half_width if one.gain.n > 1 else 0.0 for one in here]
        axis.errorbar(
            [one.told.points for one in here],
            [one.gain.mean for one in here],
            yerr=half,
            label=f"eps {epsilon:g}",
            color=plt.get_cmap("viridis")(place / max(len(budgets) - 1, 1) * 0.9),
            linestyle="none",
            marker="o",
            markersize=5,
            linewidth=1.0,
            capsize=2,
        )
    missed = [one for one in found if one.miss]
    axis.plot(
        [one.told.points for one in missed],
        [one.gain.mean for one in missed],
        marker="o",
        linestyle="none",
        markersize=10,
        markerfacecolor="none",
        markeredgecolor="#c1272d",
        label="the verdict was wrong",
    )
    axis.set(
        xlabel="points foretold before anybody reported",
        ylabel=f"measured gain over {over} (points)",
    )
    axis.legend(loc="best", fontsize=8)
    made.tight_layout()
    return made
