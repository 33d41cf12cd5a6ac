"""The table and the figure of liars; nothing is computed but statistics."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments._report import (
    by_seed,
    counted,
    errorbars,
    interval,
    legend_below,
    log_ticks,
    paired,
    panels,
    publish,
    signed,
    table,
)
from experiments.frontier import poisoning
from experiments.frontier._points import pick
from experiments.frontier.friendships import ACCURACY
from experiments.frontier.poisoning import (
    AS_IT_IS,
    CHECKED,
    ERROR,
    NAME,
    NONE,
    RESPONSE,
    SHARE,
    TASKS,
    TRIMMED,
    UNGUARDED,
    WORST,
)
from ldp_jax.learning.metrics import ConfidenceInterval

Key = tuple[str, float, str, float]
"""Defence, epsilon, lie and share."""

_PREFACE = """\
Made by `python -m experiments report` from `frontier_poisoning_harm.csv`; the honest users' guarantees are in its
manifest. Some users lie; harm is what the honest lose by them, paired by draw, against the same reports without
liars. Intervals are 95 % (Student, over draws), bold where they leave 0 out. *none* is the same without privacy.

* **counts** (`predict_from_counts`) and **panel** (`predict_from_reports`): points of accuracy of honest users
  whose class is asked for. **embedding** (piecewise reports, `private_embedding`), **degree** (the mean degree) and
  **lists** (each degree, from randomised response at both ends): relative error in per cent, which liars raise.
* Output: *random*, any value of the codomain; *worst*, the value furthest from the truth; *response*, the best
  response that we know to what was broadcast: of counts all friends in the group that speaks most against the own
  class, of classes the likeliest but one. Input: *friends*, twice the mean degree of false friends; *classes*,
  false classes (of friends or of the device), and the opposite record.
* Defences: *as it is* has the guard; *no guard*; *trimmed*, users are silent whose counts no degree and noise
  allow; *both ends*, a friendship counts as far as both of its ends report it. What a defence costs honest users
  is its row without liars, less the one *as it is*."""


class Place:
    """One graph and task, in points (accuracy) or per cent (errors)."""

    def __init__(self, dataset: str, task: str, frame: pd.DataFrame) -> None:
        """Values by draw of each row."""
        self.dataset, self.task = dataset, task
        frame = pick(frame, dataset=dataset, task=task, metric=TASKS[task].metric)
        self.values: dict[Key, pd.Series] = by_seed(frame, ["mechanism", "epsilon", "lie", "share"])
        self.epsilons = sorted({key[1] for key in self.values})
        self.sign = 1.0 if TASKS[task].metric == ACCURACY else -1.0

    def honest(self, defence: str, epsilon: float) -> ConfidenceInterval | None:
        """Without liars."""
        return interval(self.values.get((defence, epsilon, NONE, 0.0)))

    def _lost(self, one: Key, other: Key) -> pd.Series | None:
        known = self.values.get(one), self.values.get(other)
        return None if known[0] is None or known[1] is None else self.sign * (known[0] - known[1]).dropna()

    def harm(self, defence: str, epsilon: float, lie: str, share: float) -> ConfidenceInterval | None:
        """What the honest lose by liars, by the same defence."""
        return interval(self._lost((defence, epsilon, NONE, 0.0), (defence, epsilon, lie, share)))

    def cost(self, defence: str, epsilon: float) -> ConfidenceInterval | None:
        """What the honest lose by a defence where nobody lies."""
        return interval(self._lost((AS_IT_IS, epsilon, NONE, 0.0), (defence, epsilon, NONE, 0.0)))

    def saved(self, defence: str, epsilon: float, lie: str) -> ConfidenceInterval | None:
        """By how much less the honest are off with a defence, where a usual share lies."""
        return interval(self._lost((defence, epsilon, lie, SHARE), (AS_IT_IS, epsilon, lie, SHARE)))

    def more(self, epsilon: float, lie: str) -> ConfidenceInterval | None:
        """How much more a usual share of liars harms than without privacy."""
        rows = (((AS_IT_IS, at, NONE, 0.0), (AS_IT_IS, at, lie, SHARE)) for at in (epsilon, np.inf))
        return paired(*(self._lost(*row) for row in rows))

    def worst_lie(self, epsilon: float, defence: str = AS_IT_IS) -> str | None:
        """Of the usual share, by the mean over draws."""
        known = {lie: self.harm(defence, epsilon, lie, SHARE) for lie in TASKS[self.task].lies}
        there = {lie: one.mean for lie, one in known.items() if one is not None}
        return max(there, key=lambda lie: there[lie]) if there else None


def places(frame: pd.DataFrame) -> list[Place]:
    """Graph after graph, in the order of the tasks."""
    tasks = [task for task in TASKS if task in set(frame.task)]
    made = [Place(str(dataset), task, part) for dataset, part in frame.groupby("dataset") for task in tasks]
    return [one for one in made if one.values]


def shown_at(found: list[Place]) -> float:
    """The budget of the verdict: 1, or the least."""
    return 1.0 if any(1.0 in one.epsilons for one in found) else min(found[0].epsilons)


def verdict(found: list[Place]) -> str:
    """What a usual share of liars costs, with and without privacy, and whether defences help."""
    epsilon = shown_at(found)
    worst = {one: lie for one in found if (lie := one.worst_lie(epsilon))}
    more, less, _ = counted(one.more(epsilon, lie) for one, lie in worst.items())
    lines = [
        {
            "task": one.task, "graph": one.dataset, "worst lie": lie,
            "harms": "points of accuracy" if one.sign > 0 else "% of relative error",
            f"eps {epsilon:g}": signed(one.harm(AS_IT_IS, epsilon, lie, SHARE)),
            "no privacy": signed(one.harm(AS_IT_IS, np.inf, lie, SHARE)),
        }
        for one, lie in sorted(worst.items(), key=lambda each: list(TASKS).index(each[0].task))
    ]  # fmt: skip
    return (
        f"**{SHARE:.0%} of liars, by their worst lie at epsilon {epsilon:g}, harm more than without privacy in "
        f"{more} of {len(worst)} settings, and less in {less}**, by intervals that leave 0 out."
        f"\n\n{table(lines)}\n\n{_of_defences(found, epsilon)}"
    )


def _of_defences(found: list[Place], epsilon: float) -> str:
    """How often each helps where it is asked for, and what it costs without liars."""
    words = []
    for defence in (UNGUARDED, TRIMMED, CHECKED):
        asked = [one for one in found if one.cost(defence, epsilon) is not None]
        if not asked:
            continue
        lies = [one.saved(defence, epsilon, lie) for one in asked for lie in TASKS[one.task].lies]
        known = [each for each in lies if each is not None]
        (up, down, _), (dear, cheap, _) = counted(known), counted(one.cost(defence, epsilon) for one in asked)
        words.append(
            f"* *{defence.capitalize()}* is better than *as it is* in {up} of {len(known)} rows with liars and "
            f"worse in {down}; without liars it costs in {dear} of {len(asked)} settings and gains in {cheap}."
        )
    return "\n".join(words)


def _table(one: Place) -> str:
    """A line a defence, lie and share; a column a budget."""
    lines = []
    rows = {(defence, lie, share): None for defence, _, lie, share in one.values}
    for defence, lie, share in rows:
        line: dict[str, Any] = {"defence": defence, "lie": lie, "liars": f"{share:.0%}" if share else ""}
        for epsilon in one.epsilons:
            name = "none" if np.isinf(epsilon) else f"eps {epsilon:g}"
            held = one.honest(defence, epsilon)
            line[name] = held if lie == NONE else signed(one.harm(defence, epsilon, lie, share))
        lines.append(line)
    return table(lines)


_COLOURS = {
    "random": "#8a8a8a", WORST: "#c1272d", "friends": "#2f7d4f", "classes": "#3b6fa0", RESPONSE: "#7a5c99"
}  # fmt: skip


def _figure(found: list[Place]) -> Any:
    """A graph has a line of panels, a task a column: harm by a usual share of liars; defences dashed."""
    tasks = [task for task in TASKS if any(one.task == task for one in found)]
    graphs = list(dict.fromkeys(one.dataset for one in found))
    figure, grid = panels(len(graphs) * len(tasks), width=2.8, height=2.6, columns=len(tasks))
    known_at = dict(zip(((graph, task) for graph in graphs for task in tasks), grid, strict=True))
    axes = [known_at.pop((one.dataset, one.task)) for one in found]
    for spare in known_at.values():
        spare.set_visible(False)
    for axis, one in zip(axes, found, strict=True):
        if TASKS[one.task].metric == ERROR:
            axis.set_yscale("symlog", linthresh=1.0)
        budgets = [epsilon for epsilon in one.epsilons if np.isfinite(epsilon)]
        place = {epsilon: epsilon for epsilon in budgets} | {np.inf: 2 * max(budgets)}
        for lie in TASKS[one.task].lies:
            known = {place[at]: one.harm(AS_IT_IS, at, lie, SHARE) for at in one.epsilons}
            shown = {at: each for at, each in known.items() if each is not None}
            errorbars(axis, shown, label=lie, color=_COLOURS[lie], markersize=3, linewidth=1.2)
        for defence, marker in ((UNGUARDED, "x"), (TRIMMED, "s"), (CHECKED, "D")):
            known = {place[at]: one.harm(defence, at, WORST, SHARE) for at in one.epsilons}
            shown = {at: each for at, each in known.items() if each is not None}
            errorbars(axis, shown, label=f"worst, {defence}", color=_COLOURS[WORST], marker=marker, linestyle="--",
                      markersize=4, linewidth=0.9, markerfacecolor="white")  # fmt: skip
        axis.axhline(0.0, color="black", linewidth=0.8)
        log_ticks(axis, list(place.values()), base=2)
        axis.set_xticks(list(place.values()), [f"{epsilon:g}" for epsilon in budgets] + ["none"])
        axis.set_title(f"{one.dataset}: {one.task}", fontsize=8)
        axis.set_xlabel("epsilon")
    for axis in {one.dataset: axis for one, axis in reversed([*zip(found, axes, strict=True)])}.values():
        axis.set_ylabel(f"harm by {SHARE:.0%} (points, or % of error)", fontsize=8)
    legend_below(figure, axes, 4)
    return figure


def write(out: Path) -> list[Path]:
    """frontier_poisoning.md and the figure."""
    frame = poisoning.results_in(out).read()
    if frame.empty:
        return []
    found = places(frame)
    sections = ["# Who lies: poisoning", verdict(found), _PREFACE, f"![Harm against epsilon]({NAME}.png)"]
    for one in found:
        draws = frame[(frame.dataset == one.dataset) & (frame.task == one.task)].seed.nunique()
        sections += [f"## {one.dataset}: {one.task}, {draws} draws", _table(one)]
    return publish(out, {NAME: "\n\n".join(sections)}, {NAME: _figure(found)})


def digest(out: Path) -> str:
    """What the rows of a folder say in short."""
    frame = poisoning.results_in(out).read()
    return "" if frame.empty else verdict(places(frame))
