"""The main job in two minutes: private embeddings of the embedded Debian graph, and what they are worth."""

import dataclasses
from pathlib import Path

from rich import box
from rich.table import Table

from experiments import _privge_cells as cells
from experiments import privge
from experiments._report import LABELS, draw, legend_below, name_of, panels, signed, summarise
from experiments._runner import DEFAULT_OUT, Results, console
from experiments._settings import Plan

NAME = "demo"
FEATURES = 500  # the most frequent words: a vocabulary that is taken to be public
# Budgets below 5 keep k = 1 for Multi-bit and Piecewise: one program for each serves all three.
PLAN = Plan(epsilons=(0.1, 1.0, 4.0), seeds=3, epochs=60)


@dataclasses.dataclass(frozen=True)
class Config:
    """The main job on the embedded data set: four mechanisms, three budgets, all baselines, both tasks.

    4 375 Debian packages are the users, their dependencies the public graph, the words of their descriptions the
    private features. Prints a table and writes a CSV and a PNG, in about two minutes on two cores.
    """

    out: Path = DEFAULT_OUT
    """where demo.csv, demo.png and the manifest go; rows that are there already are not computed again"""


def main(config: Config) -> None:
    """Run the demo."""
    results = Results(config.out, NAME, cells.EXTRA, cells.IDENTITY)
    made = cells.make_mechanism("hds", 1.0, FEATURES, cells.published_k("debian", "node"))
    console.print("what one user spends with HDS at epsilon 1:")
    spent = cells.ledger(made, chosen=("which 500 words are counted",))
    console.print(f"{spent.explain()}\n", highlight=False, soft_wrap=True)
    for task in ("node", "link"):
        privge.run_task(privge.Config(), task, "debian", results, todo=PLAN, features=FEATURES)
    summaries = summarise(results.read())
    for summary in summaries:
        table = Table(
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            title=f"{summary.dataset}, {summary.task} task: {summary.metric} in %, 95 % intervals",
        )
        for header in (
            "mechanism",
            "epsilon",
            summary.metric,
            "structure-only",
            "gain",
            "over best",
        ):
            table.add_column(header, justify="left" if header == "mechanism" else "right", no_wrap=True)
        for line in summary.lines:
            plain = [signed(interval).replace("**", "") for interval in (line.gain, line.over_best)]
            epsilon = "" if line.mechanism == "label-propagation" else f"{line.epsilon:g}"
            twin = str(line.twin) if line.twin is not None else ""
            table.add_row(LABELS[line.mechanism], epsilon, str(line.value), twin, *plain)
        console.print(table)
        if summary.best is not None:
            console.print(f"best structure-only row: {name_of(summary.best)} (no private feature was used)\n")
    figure, axes = panels(len(summaries), width=4.4, height=3.3)
    for axis, summary in zip(axes, summaries, strict=True):
        draw(axis, summary)
    legend_below(figure, axes[0])
    path = config.out / f"{NAME}.png"
    figure.savefig(path)
    console.print(f"rows: {results.csv}\nfigure: {path}", soft_wrap=True)
    console.print(
        "structure-only: the same mechanism and budget on one public record for everyone.\n"
        "A gain whose interval holds 0: the score is the public graph's, not the private features'."
    )
