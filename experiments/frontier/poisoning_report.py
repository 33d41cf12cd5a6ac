"""The table and the figure of liars; nothing is computed but statistics."""

from typing import Any

import numpy as np
import pandas as pd

from experiments import _report as show
from experiments._runner import Results
from experiments.frontier import _points, poisoning
from experiments.frontier.friendships import ACCURACY
from experiments.frontier.poisoning import AS_IT_IS, NONE, SHARE, TASKS
from ldp_jax.learning.metrics import ConfidenceInterval

_TEXT = show.prose("frontier_poisoning")
results_in = poisoning.results_in

Key = tuple[str, float, str, float]
"""Defence, epsilon, lie and share."""


class Place:
    """One graph and task, in points (accuracy) or per cent (errors)."""

    def __init__(self, dataset: str, task: str, frame: pd.DataFrame) -> None:
        self.dataset, self.task = dataset, task
        frame = _points.pick(frame, dataset=dataset, task=task, metric=TASKS[task].metric)
        self.values: dict[Key, pd.Series] = show.by_seed(
            frame, ["mechanism", "epsilon", "lie", "share"]
        )
        self.epsilons = sorted({key[1] for key in self.values})
        self.sign = 1.0 if TASKS[task].metric == ACCURACY else -1.0

    def honest(self, defence: str, epsilon: float) -> ConfidenceInterval | None:
        """Without liars."""
        return show.interval(self.values.get((defence, epsilon, NONE, 0.0)))

    def _lost(self, one: Key, other: Key) -> pd.Series | None:
        known = self.values.get(one), self.values.get(other)
        return (
            None
            if known[0] is None or known[1] is None
            else self.sign * (known[0] - known[1]).dropna()
        )

    def harm(
        self, defence: str, epsilon: float, lie: str, share: float
    ) -> ConfidenceInterval | None:
        """What the honest lose by liars, by the same defence."""
        return show.interval(
            self._lost((defence, epsilon, NONE, share), (defence, epsilon, lie, share))
        )

    def cost(self, defence: str, epsilon: float) -> ConfidenceInterval | None:
        """What the honest lose by a defence where nobody lies."""
        return show.interval(
            self._lost((AS_IT_IS, epsilon, NONE, 0.0), (defence, epsilon, NONE, 0.0))
        )

    def saved(self, defence: str, epsilon: float, lie: str) -> ConfidenceInterval | None:
        """By how much less the honest are off with a defence, where a usual share lies."""
        return show.interval(
            self._lost((defence, epsilon, lie, SHARE), (AS_IT_IS, epsilon, lie, SHARE))
        )

    def more(self, epsilon: float, lie: str) -> ConfidenceInterval | None:
        """How much more a usual share of liars harms than without privacy."""
        rows = (
            ((AS_IT_IS, at, NONE, SHARE), (AS_IT_IS, at, lie, SHARE)) for at in (epsilon, np.inf)
        )
        return show.paired(*(self._lost(*row) for row in rows))

    def worst_lie(self, epsilon: float) -> str | None:
        """Of the usual share, by the mean over draws."""
        known = {lie: self.harm(AS_IT_IS, epsilon, lie, SHARE) for lie in TASKS[self.task].lies}
        there = {lie: one.mean for lie, one in known.items() if one is not None}
        return max(there, key=lambda lie: there[lie]) if there else None


def places(frame: pd.DataFrame) -> list[Place]:
    """Graph after graph, in the order of the tasks."""
    tasks = [task for task in TASKS if task in set(frame.task)]
    made = [
        Place(str(dataset), task, part)
        for dataset, part in frame.groupby("dataset")
        for task in tasks
    ]
    return [one for one in made if one.values]


def shown_at(found: list[Place]) -> float:
    """The budget of the verdict: 1, or the least."""
    return 1.0 if any(1.0 in one.epsilons for one in found) else min(found[0].epsilons)


def verdict(found: list[Place]) -> str:
    """What a usual share of liars costs, with and without privacy, and whether defences help."""
    epsilon = shown_at(found)
    worst = {one: lie for one in found if (lie := one.worst_lie(epsilon))}
    more, less, _ = show.counted(one.more(epsilon, lie) for one, lie in worst.items())
    lines = [
        {
            "task": one.task, "graph": one.dataset, "worst lie": lie,
            "harms": "points of accuracy" if one.sign > 0 else "% of relative error",
            f"eps {epsilon:g}": show.signed(one.harm(AS_IT_IS, epsilon, lie, SHARE)),
            "no privacy": show.signed(one.harm(AS_IT_IS, np.inf, lie, SHARE)),
        }
        for one, lie in sorted(worst.items(), key=lambda each: list(TASKS).index(each[0].task))
    ]  # fmt: skip
    return (
        f"**{SHARE:.0%} of liars, by their worst lie at epsilon {epsilon:g}, harm more than "
        "without privacy in "
        f"{more} of {len(worst)} settings, and less in {less}**, by intervals that leave 0 out."
        f"\n\n{show.table(lines)}\n\n{_of_defences(found, epsilon)}"
    )


def _of_defences(found: list[Place], epsilon: float) -> str:
    """How often each helps where it is asked for, and what it costs without liars."""
    words = []
    for defence in (poisoning.UNGUARDED, poisoning.TRIMMED, poisoning.CHECKED):
        asked = [one for one in found if one.cost(defence, epsilon) is not None]
        if not asked:
            continue
        lies = [one.saved(defence, epsilon, lie) for one in asked for lie in TASKS[one.task].lies]
        known = [each for each in lies if each is not None]
        up, down, _ = show.counted(known)
        dear, cheap, _ = show.counted(one.cost(defence, epsilon) for one in asked)
        words.append(
            f"* *{defence.capitalize()}* is better than *as it is* in {up} of {len(known)} rows "
            "with liars and "
            f"worse in {down}; without liars it costs in {dear} of {len(asked)} settings and "
            f"gains in {cheap}."
        )
    return "\n".join(words)


@show.tabled
def _table(one: Place) -> show.Rows:
    rows = {
        (defence, lie, share): None
        for defence, _, lie, share in one.values
        if lie != NONE or not share
    }
    for defence, lie, share in rows:
        line: dict[str, Any] = {
            "defence": defence,
            "lie": lie,
            "liars": f"{share:.0%}" if share else "",
        }
        for epsilon in one.epsilons:
            name = "none" if np.isinf(epsilon) else f"eps {epsilon:g}"
            held = one.honest(defence, epsilon)
            line[name] = (
                held if lie == NONE else show.signed(one.harm(defence, epsilon, lie, share))
            )
        yield line


def _figure(found: list[Place]) -> Any:
    """Harm by the worst value of a usual share of liars.

    Thin lines are graphs, thick ones medians over them.
    """
    tasks = [task for task in TASKS if any(one.task == task for one in found)]
    figure, axes = show.panels(len(tasks), width=4.0)
    budgets = sorted({epsilon for one in found for epsilon in one.epsilons if np.isfinite(epsilon)})
    place = {epsilon: epsilon for epsilon in budgets} | {np.inf: 2 * max(budgets)}
    for task, axis in zip(tasks, axes, strict=True):
        for number, defence in enumerate((AS_IT_IS, poisoning.TRIMMED, poisoning.CHECKED)):
            each = (
                pd.DataFrame(
                    {
                        one.dataset: {
                            place[at]: harm.mean
                            for at in one.epsilons
                            if (harm := one.harm(defence, at, poisoning.WORST, SHARE)) is not None
                        }
                        for one in found
                        if one.task == task
                    }
                )
                .sort_index()
                .dropna(axis=1, how="all")
            )
            if len(each):
                axis.plot(each, color=f"C{number}", linewidth=0.7, alpha=0.4)
                label = f"{defence}, median over graphs"
                axis.plot(
                    each.median(axis=1), color=f"C{number}", marker="o", linewidth=2.2, label=label
                )
        if TASKS[task].metric == poisoning.ERROR:
            axis.set_yscale("symlog", linthresh=1.0)
        axis.axhline(0.0, color="black", linewidth=0.8)
        show.log_ticks(axis, list(place.values()), base=2)
        axis.set_xticks(list(place.values()), [*(f"{epsilon:g}" for epsilon in budgets), "none"])
        axis.set(title=task, xlabel="epsilon")
        axis.set_ylabel(
            "points of accuracy" if TASKS[task].metric == ACCURACY else "% of relative error"
        )
    show.legend_below(figure, axes, 3)
    return figure


def pages(frame: pd.DataFrame) -> tuple[dict[str, str], dict[str, Any]]:
    found = places(frame)
    picture = f"![Harm by the worst value against epsilon]({poisoning.NAME}.png)"
    sections = ["# Who lies: poisoning", verdict(found), _TEXT.preface, picture]
    for one in found:
        draws = frame[(frame.dataset == one.dataset) & (frame.task == one.task)].seed.nunique()
        sections += [f"## {one.dataset}: {one.task}, {draws} draws", _table(one)]
    return {poisoning.NAME: "\n\n".join(sections)}, {poisoning.NAME: _figure(found)}


def digest(results: Results) -> str:
    return verdict(places(results.read()))
