"""DPRR: are graphs still told apart when their users report noisy neighbour lists?"""

import dataclasses
import shutil
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
import pandas as pd
from rich import box
from rich.table import Table

from experiments._report import legend_below, markdown, panels
from experiments._runner import DEFAULT_OUT, Results, config_hash, console, progress, row_key, write_atomically
from ldp_jax import accounting, datasets, edges, graph_training, metrics, models, packing, training
from ldp_jax.datasets import splits
from ldp_jax.guarantee import NEIGHBOUR_LIST, Guarantee

NAME = "dprr"
Mechanism = Literal[
    "dprr", "dprr-one-to-nine", "dprr-as-published", "local-lap", "rr", "degrees", "non-private-part",
    "non-private", "sizes",
]  # fmt: skip
MECHANISMS: tuple[Mechanism, ...] = ("dprr", "local-lap", "degrees", "non-private-part", "non-private", "sizes")
WITHOUT_EPSILON = ("non-private-part", "non-private", "sizes")
LABELS = {
    "dprr": "DPRR",
    "dprr-one-to-nine": "DPRR, split 1:9",
    "dprr-as-published": "DPRR, published split",
    "local-lap": "LocalLap",
    "rr": "RR",
    "degrees": "released degrees alone",
    "non-private-part": "NonPriv-Part",
    "non-private": "NonPriv-Full",
    "sizes": "public sizes alone",
}
COLOURS = {
    "dprr": "#00798c", "dprr-one-to-nine": "#8d6a9f", "dprr-as-published": "#c98bb9", "local-lap": "#edae49",
    "rr": "#7a7a7a", "degrees": "#d1495b", "non-private-part": "#66a182", "non-private": "#000000",
    "sizes": "#b8b8b8",
}  # fmt: skip
QUANTILES = np.linspace(0, 1, 17)


@dataclasses.dataclass(frozen=True)
class Config:
    """Graph classification by GIN on noisy graphs (Hidano & Murakami), with every baseline beside it.

    Rows the paper lacks: classification from the privately released degrees alone (the whole budget spent on them),
    and from the public number of nodes alone. A killed run started again computes what is missing; trainings
    continue from their last epoch. Writes dprr.csv, dprr.md and dprr.png.
    """

    datasets: tuple[str, ...] = ("reddit_binary",)
    """sets of graphs: reddit_binary, deezer_ego_nets, reddit10k, collab, github_stargazers, reddit_multi_5k"""
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
    out: Path = DEFAULT_OUT
    """where results and checkpoints go"""


class Settings(NamedTuple):
    """What decides a row, beside its cell."""

    dataset: str
    graphs: int
    rr_nodes: int
    epochs: int
    patience: int | None
    layers: int
    hidden: int
    dropout: float
    learning_rate: float
    batch_size: int
    shares: tuple[float, float, float]


class Cell(NamedTuple):
    """One row's worth of work, but for the seed."""

    mechanism: Mechanism
    epsilon: float
    alpha: float


def settings(config: Config, dataset: str) -> Settings:
    """Resolve a configuration for one data set; hyper-parameters are from the paper's grid, without its search."""
    epochs, patience = {"committed": (60, 20), "paper": (500, 100), "smoke": (2, None)}[config.preset]
    stargazers = dataset in ("github_stargazers", "deezer_ego_nets", "twitch_egos")
    return Settings(
        dataset=dataset, graphs=config.graphs, rr_nodes=config.rr_nodes, epochs=config.epochs or epochs,
        patience=patience,
        layers=4 if stargazers else 5, hidden=64 if config.preset != "smoke" else 8, dropout=0.5,
        learning_rate=0.001, batch_size=64, shares=(0.65, 0.15, 0.20) if stargazers else (0.75, 0.10, 0.15),
    )  # fmt: skip


@lru_cache(maxsize=2)
def load(dataset: str, graphs: int, rr_nodes: int) -> packing.GraphSet:
    """The graphs of a set that are used."""
    whole = packing.GraphSet.from_dataset(datasets.load(dataset))
    kept = np.arange(len(whole))
    if rr_nodes:
        kept = kept[whole.nodes_per_graph <= rr_nodes]
    if graphs and graphs < len(kept):
        kept = np.sort(np.random.default_rng(0).permutation(kept)[:graphs])
    return whole if len(kept) == len(whole) else whole.subset(kept)


def cells_of(config: Config) -> list[Cell]:
    """Every combination that means something: the whole graph has no budget, public parts need public users."""
    listed = []
    for mechanism in config.mechanisms:
        for alpha in config.alphas:
            if mechanism in ("non-private", "sizes") and alpha != config.alphas[0]:
                continue
            if mechanism == "non-private-part" and alpha == 0:
                continue
            epsilons = (0.0,) if mechanism in WITHOUT_EPSILON else config.epsilons
            shared = 0.0 if mechanism in ("non-private", "sizes") else alpha
            listed += [Cell(mechanism, epsilon, shared) for epsilon in epsilons]
    return listed


def name_of(resolved: Settings) -> str:
    """The data set in words: which of its graphs are used."""
    few = f"{resolved.graphs} graphs" if resolved.graphs else ""
    small = f"of at most {resolved.rr_nodes} nodes" if resolved.rr_nodes else ""
    return ", ".join([resolved.dataset, *filter(None, [" ".join(filter(None, [few, small]))])])


def made_by(cell: Cell, n_max: int) -> Any:
    """The mechanism of a cell, or None."""
    if cell.mechanism == "dprr":
        return edges.DPRR.from_epsilon(cell.epsilon, n_max)
    if cell.mechanism == "dprr-one-to-nine":
        return edges.DPRR(0.1 * cell.epsilon, 0.9 * cell.epsilon)
    if cell.mechanism == "dprr-as-published":
        return edges.DPRR.as_published(cell.epsilon, n_max)
    if cell.mechanism == "local-lap":
        return edges.LocalLap.from_epsilon(cell.epsilon)
    if cell.mechanism == "rr":
        return edges.RandomizedResponse(cell.epsilon)
    return None


def ledger(cell: Cell, n_max: int) -> accounting.Ledger:
    """What a user spends per bit of her list."""
    if cell.mechanism in WITHOUT_EPSILON:
        return accounting.Ledger()
    made = made_by(cell, n_max)
    if made is None:
        spent = Guarantee(
            cell.epsilon, unit=NEIGHBOUR_LIST, adjacency="two neighbour lists that differ in one bit",
            reason="Laplace noise of scale 1 / epsilon on the degree",
        )  # fmt: skip
    else:
        spent = made.guarantee()
    # The published split may spend more than its epsilon: what is true of it is asked, not what is printed.
    unspent = accounting.Ledger(Guarantee(spent.epsilon, unit=NEIGHBOUR_LIST))
    exposes = ("labels", "number of nodes", *(("lists of public users",) if cell.alpha else ()))
    return unspent.spend(cell.mechanism, spent, protects=("edges",), exposes=exposes)


def _keys(resolved: Settings, cell: Cell, seed: int) -> tuple[Any, Any, Any, Any]:
    """For the split (shared by all cells of a seed), the public users, the noise and the training."""
    split, public, noise, fit = jax.random.split(jax.random.key(seed), 4)
    name = int(config_hash([resolved.dataset, cell.mechanism, cell.epsilon, cell.alpha]), 16) % 2**31
    return split, public, jax.random.fold_in(noise, name), jax.random.fold_in(fit, name)


def run(resolved: Settings, cell: Cell, seed: int, folder: Path | None, bar: Any) -> graph_training.Scores:
    """Privatise the graphs, train, and look at the test graphs once."""
    whole = load(resolved.dataset, resolved.graphs, resolved.rr_nodes)
    split_key, public_key, noise_key, fit_key = _keys(resolved, cell, seed)
    parts = splits.node_split(split_key, len(whole), resolved.shares)
    n_max = int(whole.nodes_per_graph.max())
    n = len(whole.node_graph)
    public = np.asarray(jax.random.uniform(public_key, (n,))) < cell.alpha
    if cell.mechanism in ("degrees", "sizes"):
        return _from_rows(resolved, cell, _rows(whole, cell, public, noise_key), whole.labels, parts, fit_key)
    noisy = _noisy(whole, cell, public, n_max, noise_key)
    sets = [noisy.subset(part) for part in parts]
    fitted = graph_training.fit_graphs(
        fit_key,
        models.gin(resolved.layers, resolved.hidden, int(whole.labels.max()) + 1, resolved.dropout),
        *sets,
        optimizer=graph_training.step_decay_adam(resolved.learning_rate),
        epochs=resolved.epochs,
        patience=resolved.patience,
        batch_size=resolved.batch_size,
        checkpoint=folder,
        progress=bar,
    )
    return fitted.test


def _noisy(whole: packing.GraphSet, cell: Cell, public: np.ndarray, n_max: int, key: Any) -> packing.GraphSet:
    made = made_by(cell, n_max)
    if cell.mechanism == "non-private":
        return whole
    if cell.mechanism == "non-private-part":
        return _public_part(whole, public)
    noisy = edges.privatize_graph(
        key, whole.graph, made, node_graph=whole.node_graph, public=public if public.any() else None
    )
    return packing.GraphSet.from_edges(
        np.asarray(noisy.graph.senders), np.asarray(noisy.graph.receivers), whole.node_graph, whole.labels
    )


def _public_part(whole: packing.GraphSet, public: np.ndarray) -> packing.GraphSet:
    """The graphs of public users alone; a graph without one keeps its first user, alone."""
    keep = public.copy()
    first = np.searchsorted(whole.node_graph, np.arange(len(whole)))
    empty = np.bincount(whole.node_graph, weights=public, minlength=len(whole)) == 0
    keep[first[empty]] = True
    place = np.cumsum(keep) - 1
    both = public[whole.senders] & public[whole.receivers]
    return packing.GraphSet.from_edges(
        place[whole.senders[both]], place[whole.receivers[both]], whole.node_graph[keep], whole.labels
    )


def _rows(whole: packing.GraphSet, cell: Cell, public: np.ndarray, key: Any) -> np.ndarray:
    """One row a graph: log size, and quantiles of the released degrees; float32 [graphs, features]."""
    sizes = whole.nodes_per_graph
    columns = [np.log(sizes)[:, None]]
    if cell.mechanism == "degrees":
        true = np.bincount(whole.receivers, minlength=len(whole.node_graph))
        noise = np.asarray(jax.random.laplace(key, true.shape)) / cell.epsilon
        degree = np.where(public, true, np.clip(true + noise, 0, sizes[whole.node_graph] - 1))
        order = np.lexsort((degree, whole.node_graph))  # sorted degrees, graph by graph
        start = np.cumsum(sizes) - sizes
        at = start[:, None] + np.round(QUANTILES * (sizes[:, None] - 1)).astype(int)
        mean = np.bincount(whole.node_graph, weights=degree) / sizes
        columns += [np.log1p(degree[order][at]), np.log1p(mean)[:, None]]
    rows = np.concatenate(columns, 1)
    return ((rows - rows.mean(0)) / np.maximum(rows.std(0), 1e-6)).astype(np.float32)


def _from_rows(
    resolved: Settings, cell: Cell, rows: np.ndarray, labels: np.ndarray, parts: Any, key: Any
) -> graph_training.Scores:
    model = models.mlp(3, resolved.hidden, int(labels.max()) + 1, 0.2)
    examples = [training.Examples(np.asarray(part), labels[part]) for part in parts]
    fitted = training.fit(
        key, model, training.node_classification, rows, *examples, optimizer=training.adam(1e-3, 1e-4),
        epochs=5 * resolved.epochs, batch_size=resolved.batch_size,
    )  # fmt: skip
    outputs, _ = model.apply(fitted.variables, jax.numpy.asarray(rows[parts[2]]), key=None, train=False)
    return graph_training.scores(outputs, labels[parts[2]])


def _task(alpha: float) -> str:
    return "graph" if alpha == 0 else f"graph, {alpha:.0%} public"


def rows_of(resolved: Settings, cell: Cell, seed: int, n_max: int) -> dict[str, Any]:
    """What identifies the rows of a cell and a seed."""
    return {
        "dataset": name_of(resolved),
        "task": _task(cell.alpha),
        "mechanism": cell.mechanism,
        "epsilon": cell.epsilon,
        "k": 0,
        "seed": seed,
        "epsilon_proved": ledger(cell, n_max).spent(NEIGHBOUR_LIST).epsilon
        if cell.mechanism not in ("non-private", "non-private-part")
        else float("inf"),
        "unit": str(NEIGHBOUR_LIST),
        "config": config_hash(resolved._asdict()),
    }


def main(config: Config) -> None:
    """Compute what is missing, then tables and figures."""
    if "rr" in config.mechanisms and not config.rr_nodes:
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
        for resolved, cell, seed, n_max in work:
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
                [resolved._asdict()],
                {"guarantees": {f"{cell.mechanism}, epsilon {cell.epsilon:g}": str(ledger(cell, n_max).total())}},
            )
            shutil.rmtree(folder, ignore_errors=True)  # its rows are there: nothing is left to resume
            bar.advance(line)
    frame = results.read()
    write_atomically(config.out / f"{NAME}.md", as_markdown(frame) + "\n")
    _print(frame)
    figure = plot(frame)
    figure.savefig(config.out / f"{NAME}.png")
    console.print(f"rows: {results.csv}\nfigure: {config.out / f'{NAME}.png'}", soft_wrap=True)


HEADER = ["data set", "setting", "mechanism", "epsilon", "accuracy (%)", "AUC (%)", "splits"]


def _lines(frame: pd.DataFrame) -> list[list[str]]:
    lines = []
    order = {name: place for place, name in enumerate(LABELS)}
    ranked = frame.assign(rank=frame.mechanism.map(order)).sort_values(["dataset", "task", "rank", "epsilon"])
    for (dataset, task, mechanism, epsilon, _), part in ranked.groupby(
        ["dataset", "task", "mechanism", "epsilon", "config"], sort=False
    ):
        cells = []
        for metric in ("accuracy", "auc"):
            values = 100 * part[part.metric == metric].value
            interval = metrics.mean_interval(values)
            cells.append(
                f"{interval.mean:.1f} ± {interval.half_width:.1f}" if len(values) > 1 else f"{interval.mean:.1f}"
            )
        shown = "" if mechanism in WITHOUT_EPSILON else f"{epsilon:g}"
        lines.append([str(dataset), str(task), LABELS[str(mechanism)], shown, *cells, str(part.seed.nunique())])
    return lines


def as_markdown(frame: pd.DataFrame) -> str:
    """The table of results."""
    return (
        markdown(HEADER, _lines(frame))
        + "\n\nMeans and 95 % intervals over random splits. epsilon is per bit of one neighbour list; per edge it "
        "is twice that for DPRR and RR (both ends report it) and 1.1 times for LocalLap. *Released degrees alone*: "
        "quantiles of the degrees, the whole budget on them, no edge. *Public sizes alone*: the number of nodes, "
        "which every row knows."
    )


def _print(frame: pd.DataFrame) -> None:
    view = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="graph classification: means and 95 % intervals")
    for place, header in enumerate(HEADER):
        view.add_column(header, justify="left" if place < 3 else "right")
    for line in _lines(frame):
        view.add_row(*line)
    console.print(view)


def plot(frame: pd.DataFrame) -> Any:
    """Accuracy against epsilon, one panel a data set and setting; rows without a budget as lines."""
    keys = sorted(set(zip(frame.dataset, frame.task, strict=True)))
    figure, axes = panels(len(keys), width=4.4, height=3.3, columns=2)
    for axis, (dataset, task) in zip(axes, keys, strict=True):
        part = frame[(frame.dataset == dataset) & (frame.metric == "accuracy")]
        here = part[(part.task == task) | part.mechanism.isin(["non-private", "sizes"])]
        for name in LABELS:
            mine = here[here.mechanism == name]
            if mine.empty:
                continue
            if name in WITHOUT_EPSILON:
                axis.axhline(100 * mine.value.mean(), color=COLOURS[name], ls="--", lw=1.2, label=LABELS[name])
                continue
            grouped = mine.groupby("epsilon").value
            intervals = [metrics.mean_interval(100 * values) for _, values in grouped]
            axis.errorbar(
                list(grouped.groups),
                [interval.mean for interval in intervals],
                [np.nan_to_num(interval.half_width) for interval in intervals],
                color=COLOURS[name], marker="o", ms=4, capsize=2, label=LABELS[name],
            )  # fmt: skip
        axis.set(xlabel="epsilon per bit of a list", ylabel="test accuracy (%)", title=f"{dataset}, {task}")
    legend_below(figure, axes[0])
    return figure
