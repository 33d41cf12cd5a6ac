"""The main jobs in two minutes on the embedded Debian graph: private features, private friendships, their worth."""

import dataclasses
from pathlib import Path

from experiments import privge
from experiments._report import panels, save
from experiments._runner import DEFAULT_OUT, REFERENCE, Results, console
from experiments.frontier import config as frontier
from experiments.frontier import features as predictions
from experiments.frontier import features_methods as local
from experiments.frontier import features_report, friendships
from experiments.frontier import report as frontier_report
from experiments.frontier.methods import FEATURES as ALONE
from experiments.frontier.methods import PILOTED, PLAIN
from experiments.privge import accuracy, cells, summary
from experiments.privge.settings import Plan

NAME = "demo"
GRAPH = "debian"
FEATURES = 500  # the most frequent words: a vocabulary that is taken to be public
# Budgets below 5 keep k = 1 for Multi-bit and Piecewise: one program for each serves all three.
PLAN = Plan(epsilons=(0.1, 1.0, 4.0), seeds=3, epochs=60)
ASKED = privge.Config()  # all mechanisms on both embeddings
FRIENDSHIPS = frontier.Config(
    datasets=(GRAPH,), labels=("half",), epsilons=(1.0, 2.0), draws=3, units=("list",),
    methods=(PILOTED, ALONE, PLAIN, "non-private, gcn"),
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
    """The figure, from the rows of a folder."""
    summaries = summary.summarise(accuracy.results_in(out, NAME).read())
    counted = frontier_report.points(counts_in(out).read())
    predicted = features_report.points(predictions_in(out).read())
    if not summaries or counted.empty or predicted.empty:
        return []
    figure, axes = panels(len(summaries) + 2, width=4.6, height=3.6)
    for axis, one in zip(axes, summaries, strict=False):
        summary.draw(axis, one)
        axis.set_title(f"private features: {axis.get_title()}", fontsize=9)
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2, fontsize=7)
    features_report.draw(axes[-2], predicted)
    frontier_report.draw(axes[-1], counted[counted.metric == friendships.ACCURACY])
    for axis, title in (
        (axes[-2], "private features beside a panel of 10 %: debian"),
        (axes[-1], "private friendships: debian, half of the labels"),
    ):
        axis.set_title(title, fontsize=9)
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2, fontsize=7)
    figure.tight_layout()
    path = out / f"{NAME}.png"
    save(figure, path)
    return [path]
