"""The main job in two minutes: private embeddings of the embedded Debian graph, and what they are worth."""

import dataclasses
from pathlib import Path

from experiments import privge
from experiments._report import legend_below, panels
from experiments._runner import DEFAULT_OUT, REFERENCE, console
from experiments.privge import accuracy, cells, summary
from experiments.privge.settings import Plan

NAME = "demo"
FEATURES = 500  # the most frequent words: a vocabulary that is taken to be public
# Budgets below 5 keep k = 1 for Multi-bit and Piecewise: one program for each serves all three.
PLAN = Plan(epsilons=(0.1, 1.0, 4.0), seeds=3, epochs=60)
ASKED = privge.Config()  # all mechanisms on both embeddings


@dataclasses.dataclass(frozen=True)
class Config:
    """The main job on the embedded data set: four mechanisms, three budgets, all baselines, both tasks.

    4 375 Debian packages are the users, their dependencies the public graph, the words of their descriptions the
    private features. Prints tables, the committed figures beside yours, and writes a CSV and a PNG, in about two
    minutes on two cores.
    """

    out: Path = DEFAULT_OUT
    """where demo.csv, demo.png and the manifest go; rows that are there already are not computed again"""


def main(config: Config) -> None:
    """Run the demo."""
    made = cells.make_mechanism("hds", 1.0, FEATURES, cells.published_k("debian", "node"))
    console.print("what one user spends with HDS at epsilon 1:")
    spent = cells.ledger(made, chosen=("which 500 words are counted",))
    console.print(f"{spent.explain()}\n", highlight=False, soft_wrap=True)
    results = accuracy.results_in(config.out, NAME)
    planned = {}
    for task in ("node", "link"):
        planned |= accuracy.plan_task(ASKED, task, "debian", PLAN, FEATURES)
    accuracy.compute_plan(planned, results)
    own = config.out.resolve() == REFERENCE.resolve()
    committed = None if own else summary.reference(accuracy.results_in(REFERENCE, NAME).read())
    summary.show(summary.summarise(results.read()), console, committed)
    (path,) = write_report(config.out)
    console.print(f"rows: {results.csv}\nfigure: {path}", soft_wrap=True)


def write_report(out: Path) -> list[Path]:
    """The figure, from the rows of a folder."""
    summaries = summary.summarise(accuracy.results_in(out, NAME).read())
    if not summaries:
        return []
    figure, axes = panels(len(summaries), width=4.4, height=3.3)
    for axis, one in zip(axes, summaries, strict=True):
        summary.draw(axis, one)
    legend_below(figure, axes[0])
    path = out / f"{NAME}.png"
    figure.savefig(path)
    return [path]
