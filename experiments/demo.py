"""The main jobs in two minutes on the embedded Debian graph: private features, private friendships, their worth."""

import dataclasses
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from experiments import privge
from experiments._report import panels, save, significant
from experiments._runner import DEFAULT_OUT, REFERENCE, Results, console
from experiments.frontier import config as frontier
from experiments.frontier import features as predictions
from experiments.frontier import features_methods as local
from experiments.frontier import features_report, friendships
from experiments.frontier import report as frontier_report
from experiments.frontier._points import plot_gains
from experiments.frontier.methods import CEILING, PILOTED, PLAIN
from experiments.frontier.methods import FEATURES as ALONE
from experiments.privge import accuracy, cells, summary
from experiments.privge.settings import Plan
from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval

NAME = "demo"
GRAPH = "debian"
FEATURES = 500  # the most frequent words: a vocabulary that is taken to be public
# Budgets below 5 keep k = 1 for Multi-bit and Piecewise: one program for each serves all three.
PLAN = Plan(epsilons=(0.1, 1.0, 4.0), seeds=3, epochs=60)
ASKED = privge.Config()  # all mechanisms on both embeddings
FRIENDSHIPS = frontier.Config(
    datasets=(GRAPH,), labels=("half",), epsilons=(1.0, 2.0), draws=3, units=("list",),
    methods=(PILOTED, ALONE, PLAIN, CEILING),
)  # fmt: skip
PREDICTIONS = frontier.Config(
    part="features", datasets=(GRAPH,), panel=("0.1",), epsilons=(1.0, 2.0, 4.0), draws=5,
    methods=(
        local.LOCAL, local.PLACEBO, *(f"{local.STRUCTURE}, {name}" for name in ("PageRank 0.1", "field", "stack")),
        f"{local.TRUE}, class",
    ),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Config:
    """The main jobs on the embedded data set: private features and a public graph, and the other way round.

    4 375 Debian packages are the users. First their dependencies are the public graph and the words of their
    descriptions private: four mechanisms, three budgets, all baselines. Then a tenth of the packages is a public
    panel, and everybody else's device reports a class. Then the words are public, with the sections of half of the
    packages, and the dependencies private: counts by a broadcast class. Prints tables, the committed figures beside
    yours, and writes CSVs and a PNG, in two and a half minutes on two cores.
    """

    out: Path = DEFAULT_OUT
    """where the CSVs, demo.png and manifests go; rows that are there already are not computed again"""


def main(config: Config) -> None:
    """Run the demo."""
    k = min(FEATURES, cells.published_k(GRAPH, "node"))
    made = cells.make_mechanism("hds", 1.0, FEATURES, k)
    console.print("what one user spends with HDS at epsilon 1:")
    spent = cells.ledger(made, chosen=("which 500 words are counted",))
    console.print(f"{spent.explain()}\n", highlight=False, soft_wrap=True)
    results = accuracy.results_in(config.out, NAME)
    accuracy.compute_plan(accuracy.plan_task(ASKED, "node", GRAPH, PLAN, FEATURES), results)
    predicted, counted = predictions_in(config.out), counts_in(config.out)
    predictions.compute(predictions.plan(PREDICTIONS), predicted)
    friendships.compute(friendships.plan(FRIENDSHIPS), counted)
    own = config.out.resolve() == REFERENCE.resolve()
    committed = None if own else summary.reference(accuracy.results_in(REFERENCE, NAME).read())
    summary.show(summary.summarise(results.read()), console, committed)
    for title, made, rows_in in (
        ("private features beside a public panel of a tenth", features_report, predictions_in),
        ("private friendships, public features, half of the labels", frontier_report, counts_in),
    ):
        console.print(f"\n{title}:\n", highlight=False)
        for words, out in (("yours", config.out), ("committed", REFERENCE)):
            frame = rows_in(out).read()
            if len(frame) and not (own and words == "committed"):
                table = made.table(made.points(frame))
                console.print(f"{words}: {table}\n", soft_wrap=True, highlight=False)
    (path,) = write_report(config.out)
    console.print(f"rows: {results.csv}, {predicted.csv}, {counted.csv}\nfigure: {path}", soft_wrap=True)


def counts_in(out: Path) -> Results:
    """The rows of private friendships in a folder."""
    return friendships.results_in(out, f"{NAME}_friendships")


def predictions_in(out: Path) -> Results:
    """The rows of private features beside a panel in a folder."""
    return predictions.results_in(out, f"{NAME}_predictions")


def write_report(out: Path) -> list[Path]:
    """The figure, from the rows of a folder: three jobs on one scale, points over the best without private data."""
    summaries = summary.summarise(accuracy.results_in(out, NAME).read())
    counted = frontier_report.points(counts_in(out).read())
    predicted = features_report.points(predictions_in(out).read())
    if not summaries or counted.empty or predicted.empty:
        return []
    jobs = [*map(_noisy_records, summaries), _predictions(predicted), _friendships(counted)]
    figure, axes = panels(len(jobs), width=4.4, height=3.6)
    for axis, job in zip(axes, jobs, strict=True):
        for label, colour, marker, width, shown in job.lines:
            plot_gains(axis, shown, label, colour, marker, width)
        axis.axhline(0.0, color="black", linestyle="--", linewidth=1.0, label="best without private data")
        if job.true is not None:
            axis.axhline(job.true, color="black", linewidth=1.0, label="true data, no privacy")
        own = job.lines[: job.own]
        above = [significant(one) and one.mean > 0 for line in own for one in line[-1].values()]
        axis.set_title(f"{job.title.capitalize()}: {sum(above)} of {len(above)} rows above", fontsize=9)
        axis.set_xlabel(job.epsilon)
    ends = np.array([axis.get_ylim() for axis in axes])
    for axis in axes:
        axis.set_ylim(ends.min(), ends.max())
    axes[0].set_ylabel("points over the best row without private data")
    known = {
        label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(known.values(), known.keys(), loc="lower center", ncols=5, fontsize=8)
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    path = out / f"{NAME}.png"
    save(figure, path)
    return [path]


_Drawn = tuple[str, str, str, float, dict[float, ConfidenceInterval]]
"""Label, colour, marker, width, and gains by epsilon."""


class _Job(NamedTuple):
    """A panel of the figure: the first ``own`` lines are what its title counts."""

    title: str
    epsilon: str
    lines: list[_Drawn]
    own: int
    true: float | None


def _noisy_records(one: summary.Summary) -> _Job:
    by = {name: [line for line in one.lines if line.mechanism == name] for name in one.mechanisms()}
    lines = [
        (
            summary.LABELS[name], summary.COLOURS[name], "v", 1.2,
            {line.epsilon: line.over_best for line in of_name if line.over_best is not None},
        )
        for name, of_name in by.items()
    ]  # fmt: skip
    true = one.find("non-private", float("inf"))
    gain = None if true is None or true.over_best is None else true.over_best.mean
    return _Job("records sent with noise", "epsilon per record", lines, len(lines), gain)


def _predictions(found: pd.DataFrame) -> _Job:
    each = {
        name: features_report.gains(found, name, features_report.OVER_BEST) for name in (local.LOCAL, local.PLACEBO)
    }
    mine, fake = ({key[-1]: one for key, one in of_name.items()} for of_name in each.values())
    lines: list[_Drawn] = [
        ("classes that devices predict", "#c1272d", "o", 2.0, mine),
        ("placebo: others' records", "#3b6fa0", "D", 1.2, fake),
    ]
    true = features_report.true_gain(found)
    return _Job("classes that devices predict", "epsilon per record", lines, 1, None if true is None else true.mean)


def _friendships(found: pd.DataFrame) -> _Job:
    at = found[found.metric == frontier_report.OVER_FEATURES]
    lines: list[_Drawn] = []
    for name, words, colour, width in ((PILOTED, "piloted", "#c1272d", 2.0), (PLAIN, "plain", "#e8963c", 1.2)):
        rows = at[at.mechanism == name]
        shown = {float(epsilon): rows[rows.epsilon == epsilon].value for epsilon in rows.epsilon.unique()}
        each = {epsilon: mean_interval(values.to_numpy()) for epsilon, values in shown.items()}
        lines.append((f"{words} counts of friends", colour, "s", width, each))
    ceilings = [line.ceiling for line in frontier_report.gains(found) if line.ceiling is not None]
    return _Job("counts of friends", "epsilon per bit of a neighbour list", lines, 1, max(ceilings, default=None))
