"""DPRR: are graphs still told apart when their users report noisy neighbour lists?"""

import dataclasses
import shutil
import time
from pathlib import Path
from typing import Literal

import jax

from experiments import _dprr_degrees, _dprr_report, _dprr_scaling
from experiments._dprr_cells import (
    COMMUNITIES,
    MECHANISMS,
    OF_ALL,
    WITHOUT_EPSILON,
    Cell,
    Classifier,
    Mechanism,
    Settings,
    decides,
    guarantee_note,
    load,
    name_of,
    rows_of,
    run,
)
from experiments._runner import DEFAULT_OUT, Results, config_hash, console, progress, row_key, write_atomically

NAME = "dprr"


@dataclasses.dataclass(frozen=True)
class Config:
    """Graph classification on noisy graphs (Hidano & Murakami): by GIN, and by a random forest for every mechanism.

    Rows the paper lacks: classification from the privately released degrees alone (the whole budget spent on them),
    from the lengths of DPRR's own lists, from the true degrees and from the public number of nodes. A killed run
    started again computes what is missing; trainings continue from their last epoch. Writes dprr.csv, dprr.md and,
    where the rows suffice, dprr_figure4.png (share of public users), dprr_figure5.png and dprr_forest.png (epsilon)
    and dprr_figure6.png (splits of DPRR's budget).

    The seconds of the committed rows sum to about 5.5 hours on two cores, in part shared; most are GIN's. By epochs
    (``--classifiers gin perceptron``): ``--datasets reddit_binary``; with rr among --mechanisms
    ``--datasets deezer_ego_nets --rr-nodes 1000`` and ``--datasets reddit_binary --graphs 600 --rr-nodes 1000``;
    the latter also with ``--epsilons 0.2 --alphas 0``, with ``--epsilons 1 --alphas 0.1 0.5`` (without rr) and, for
    Figure 6, with ``--epsilons 0.1 0.2 0.5 1 --alphas 0 --mechanisms dprr dprr-one-to-nine dprr-as-published``;
    ``--datasets communities --alphas 0 --epsilons 0.5 1 2 4 8`` (GIN: 2 and 4, of dprr and non-private).
    By forests (``--classifiers forest --alphas 0``): the same sets, ``--seeds 8`` for the 600 graphs and
    communities (both with rr; three seeds of it on the 600 graphs), ``--epsilons 1`` for deezer_ego_nets; on the
    600 graphs also ``--epsilons 1`` with ``--alphas 0.2``, and with the two other splits.
    Figure 7: ``--parts degrees --datasets reddit_binary deezer_ego_nets --rr-nodes 1000 --epsilons 1``; Figures 8
    and 9: ``--parts scaling``; both with ``--mechanisms dprr local-lap rr``.
    """

    datasets: tuple[str, ...] = ("reddit_binary",)
    """sets of graphs: reddit_binary, deezer_ego_nets, reddit10k, collab, github_stargazers, reddit_multi_5k; and
    communities, generated graphs whose degrees say nothing of the class"""
    classifiers: tuple[Classifier, ...] = ("gin", "perceptron", "forest")
    """gin (where graphs are released) and perceptron (where none are) are trained by epochs, under one rule of
    stopping; forest, a random forest on statistics of the same release, is a second row of every mechanism"""
    mechanisms: tuple[Mechanism, ...] = MECHANISMS
    """rr is dense: only graphs of at most rr_nodes nodes are used, by every mechanism of that run; the two other
    splits of DPRR's budget are Figure 6's"""
    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0)
    """per bit of a neighbour list"""
    alphas: tuple[float, ...] = (0.0, 0.2)
    """shares of users who are public (the customised setting)"""
    seeds: int = 3
    """random splits of the graphs, each with noise of its own"""
    preset: Literal["committed", "paper", "smoke"] = "committed"
    """committed: 60 epochs, for two cores; paper: 500 epochs with early stopping, 10 splits; smoke: seconds"""
    epochs: int = 0
    """train at most so many epochs; 0 for the preset's"""
    graphs: int = 0
    """use so many graphs of each set, drawn at random; 0 for all"""
    rr_nodes: int = 0
    """leave out graphs of more nodes; 0 for none. Needed for rr"""
    parts: tuple[Literal["accuracy", "degrees", "scaling"], ...] = ("accuracy",)
    """accuracy: Figures 4 to 6; degrees: Figure 7; scaling: Figures 8 and 9"""
    out: Path = DEFAULT_OUT
    """where results and checkpoints go"""


def settings(config: Config, dataset: str) -> Settings:
    """Resolve a configuration for one data set; hyper-parameters are from the paper's grid, without its search."""
    epochs, patience = {"committed": (60, 20), "paper": (500, 100), "smoke": (2, None)}[config.preset]
    stargazers, smoke = dataset in ("github_stargazers", "deezer_ego_nets", "twitch_egos"), config.preset == "smoke"
    return Settings(
        dataset=dataset, graphs=config.graphs, rr_nodes=config.rr_nodes, epochs=config.epochs or epochs,
        patience=patience,
        layers=2 if smoke else 4 if stargazers else 5, hidden=8 if smoke else 64, dropout=0.5,
        learning_rate=0.001, batch_size=64, shares=(0.65, 0.15, 0.20) if stargazers else (0.75, 0.10, 0.15),
    )  # fmt: skip


def cells_of(config: Config) -> list[Cell]:
    """Every combination that means something: the whole graph has no budget, public parts need public users."""
    listed = []
    for mechanism in config.mechanisms:
        for alpha in config.alphas:
            if mechanism in OF_ALL and alpha != config.alphas[0]:
                continue
            if mechanism == "non-private-part" and alpha == 0:
                continue
            epsilons = (0.0,) if mechanism in WITHOUT_EPSILON else config.epsilons
            shared = 0.0 if mechanism in OF_ALL else alpha
            both = [Cell(mechanism, epsilon, shared, forest) for epsilon in epsilons for forest in (False, True)]
            listed += [cell for cell in both if cell.classifier in config.classifiers]
    # The classifiers of one release side by side: it is drawn once.
    return sorted(listed, key=lambda cell: (cell.mechanism.removesuffix("-lengths"), cell.alpha, cell.epsilon))


def main(config: Config) -> None:
    """Compute what is missing of each part, then its tables and figures."""
    for part in config.parts:
        if part == "accuracy":
            _accuracy(config)
        elif part == "degrees":
            _dprr_degrees.run(config)
        else:
            _dprr_scaling.run(config, settings(config, config.datasets[0]))


def _accuracy(config: Config) -> None:
    if "rr" in config.mechanisms and not config.rr_nodes and set(config.datasets) != {COMMUNITIES}:
        raise SystemExit("rr reports dense graphs: give --rr-nodes 1000 or so, and perhaps --graphs")
    seeds = 10 if config.preset == "paper" else config.seeds
    results = Results(config.out, NAME)
    work = []
    for dataset in config.datasets:
        resolved = settings(config, dataset)
        whole = load(dataset, config.graphs, config.rr_nodes)
        n_max, done = int(whole.nodes_per_graph.max()), results.done()
        for seed in range(seeds):
            for cell in cells_of(config):
                row = rows_of(resolved, cell, seed, n_max)
                if row_key({**row, "metric": "auc"}) not in done:
                    work.append((resolved, cell, seed, n_max))
    console.print(f"{len(work)} trainings to do")
    with progress() as bar:
        line = bar.add_task("dprr", total=len(work))
        for number, (resolved, cell, seed, n_max) in enumerate(work):
            label = f"{name_of(resolved)} {cell.mechanism} eps {cell.epsilon:g} alpha {cell.alpha:g} split {seed}"
            bar.update(line, description=label)
            row = rows_of(resolved, cell, seed, n_max)
            folder = config.out / "checkpoints" / config_hash({**row, "config": row["config"]})
            start = time.perf_counter()

            def shown(epoch: int, loss: float, validation: float, label: str = label) -> None:
                bar.update(line, description=f"{label}, epoch {epoch + 1}, validation {validation:.3f}")

            scores = run(resolved, cell, seed, folder, shown)
            seconds = round(time.perf_counter() - start, 2)
            results.append(
                [
                    {**row, "metric": metric, "value": round(float(value), 6), "seconds": seconds}
                    for metric, value in (("accuracy", scores.accuracy), ("auc", scores.auc))
                ],
                [decides(resolved, cell.classifier)],
                {"guarantees": guarantee_note(row, n_max)},
            )
            shutil.rmtree(folder, ignore_errors=True)  # its rows are there: nothing is left to resume
            if cell.classifier == "gin" or number % 20 == 0:
                jax.clear_caches()  # other noisy graphs have other shapes: programs would only fill the memory
            bar.advance(line)
    _report(config, results)


def _report(config: Config, results: Results) -> None:
    """The table and the figures of all rows; nothing is computed but statistics."""
    frame = results.read()
    configs = results.describe()["configs"]
    write_atomically(config.out / f"{NAME}.md", _dprr_report.as_markdown(frame, configs) + "\n")
    _dprr_report.show(frame, configs, console)
    console.print(f"rows: {results.csv}", soft_wrap=True)
    for name, figure in _dprr_report.figures(frame).items():
        figure.savefig(config.out / f"{name}.png")
        console.print(f"figure: {config.out / name}.png", soft_wrap=True)
