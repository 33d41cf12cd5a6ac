"""PrivGE / LDP-GE: node classification and link prediction from locally private features."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import tyro

from experiments import _privge_cells as cells
from experiments._runner import DEFAULT_OUT, Results, UsageError, config_hash, console, progress
from experiments._settings import (
    COMMITTED,
    DEFAULT,
    EPSILONS,
    LEARNING_RATE,
    LINK_BATCH,
    MECHANISMS,
    PUBLISHED,
    Plan,
    Preprocessing,
    Settings,
    Task,
)
from ldp_jax import datasets
from ldp_jax.guarantee import RECORD

NAME = "privge"


@dataclasses.dataclass(frozen=True)
class Config:
    """Private node classification and link prediction (PrivGE, LDP-GE), with every baseline beside it.

    Without further words this is the committed plan: it computes whatever rows of it
    experiments/results/privge.csv does not have yet. Each row of a mechanism has its structure-only twin: the
    same mechanism, budget and training on one public default record for all users. Each, private or not, is trained
    on its raw and on its standardised embedding; the report shows what does better in validation, over all seeds.
    """

    task: Literal["node", "link", "both"] = "both"
    """which task"""
    datasets: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME...")] = ()
    """names, or paths of .npz files (see --bounds); by default those of the committed plan"""
    mechanisms: tuple[Literal["laplace", "piecewise", "multibit", "hds"], ...] = MECHANISMS
    """which mechanisms"""
    epsilons: tuple[float, ...] = ()
    """budgets; by default the plan's"""
    seeds: int | None = None
    """how many seeds, from 0; by default the plan's"""
    ks: tuple[int, ...] = ()
    """HDS with these k instead of the published one (Figures 3 and 4)"""
    preset: Literal["committed", "paper", "smoke"] = "committed"
    """committed: what fits two cores; paper: all epsilons, 10 seeds, 100 epochs everywhere; smoke: seconds"""
    preprocessing: Preprocessing = "both"
    """raw: the paper's embedding; standardized: every column of it; both: the report chooses by validation"""
    bounds: tuple[float, float] | None = None
    """public bounds of the features of a file that does not declare them (x_lower, x_upper): known without a look
    at the records"""
    head: Literal["mlp", "logistic"] | None = None
    """the model on top; by default an MLP for nodes and logistic regression for links"""
    epochs: int | None = None
    """by default the preset's"""
    out: Path = DEFAULT_OUT
    """where the CSV and its manifest are, and are looked for"""


class Cell(NamedTuple):
    """One mechanism at one budget on one data set; ``name`` may also be a baseline."""

    name: str
    epsilon: float
    k: int
    structure_only: bool


def plan(config: Config, task: Task, dataset: str) -> Plan:
    """What is to be run for one task and data set, the command line's words first."""
    if config.preset == "smoke":
        base = Plan((1.0,), 2, epochs=3)
    elif config.preset == "paper":
        base = Plan(EPSILONS if task == "node" else EPSILONS[2:], 10)
    else:
        base = COMMITTED.get((task, dataset), Plan(EPSILONS, 3))
    return Plan(
        epsilons=config.epsilons or base.epsilons,
        seeds=config.seeds if config.seeds is not None else base.seeds,
        epochs=config.epochs if config.epochs is not None else base.epochs,
        tol=base.tol,
        ks=config.ks or (() if config.epsilons else base.ks),
        k_epsilons=(config.epsilons or base.epsilons) if config.ks else base.k_epsilons,
        k_seeds=config.seeds if config.seeds is not None else base.k_seeds,
    )


def settings(config: Config, task: Task, dataset: str, todo: Plan, features: int = 0) -> Settings:
    """The resolved configuration of one task and data set."""
    published = PUBLISHED.get(dataset, DEFAULT)
    node = task == "node"
    return Settings(
        dataset=dataset,
        data=cells.fingerprint(cells.load(dataset, features)),
        task=task,
        alpha=published.alpha if node else published.link_alpha,
        r=published.r if node else published.link_r,
        tol=todo.tol,
        head=config.head or ("mlp" if node else "logistic"),
        layers=published.layers,
        hidden=published.hidden,
        dropout=published.dropout if node else 0.0,
        learning_rate=LEARNING_RATE,
        weight_decay=published.weight_decay if node else 0.0,
        batch_size=published.batch_size if node else LINK_BATCH,
        epochs=todo.epochs,
        features=features,
    )


def cells_of(config: Config, task: Task, dataset: str, todo: Plan, dim: int) -> list[Cell]:
    """Baselines first, then every mechanism and budget, each followed by its structure-only twin."""
    listed = [Cell("non-private", float("inf"), 0, False)]
    if task == "node":
        listed.append(Cell("label-propagation", 0.0, 0, False))
    sweep: list[tuple[str, float, int]] = []
    if not config.ks:
        k = min(dim, cells.published_k(dataset, task))
        sweep += [(name, epsilon, k) for epsilon in todo.epsilons for name in config.mechanisms]
    if "hds" in config.mechanisms:
        sweep += [("hds", epsilon, k) for k in todo.ks for epsilon in todo.k_epsilons]
    for item in dict.fromkeys(sweep):
        listed += [Cell(*item, False), Cell(*item, True)]
    return listed


class Work(NamedTuple):
    """The missing rows of a cell and a seed."""

    cell: Cell
    seed: int
    variants: tuple[str, ...]


def missing(
    cell: Cell, resolved: Settings, dim: int, seeds: Iterable[int], variants: tuple[str, ...], results: Results
) -> list[Work]:
    """What the CSV does not have yet of a cell."""
    if cell.name in ("non-private", "label-propagation"):
        k, spent, name = 0, cell.epsilon, cell.name
    else:
        made = cells.make_mechanism(cell.name, cell.epsilon, dim, cell.k)
        k = made.k
        spent = cells.ledger(made, structure_only=cell.structure_only).spent(RECORD).epsilon
        name = f"structure-only:{cell.name}" if cell.structure_only else cell.name
    row = {
        "dataset": cells.load(resolved.dataset, resolved.features).name,
        "task": resolved.task,
        "mechanism": name,
        "epsilon": cell.epsilon,
        "k": k,
        "metric": cells.METRIC[resolved.task],
        "epsilon_proved": spent,
        "unit": "record",
        "config": config_hash(resolved),
    }
    done = results.done()
    if cell.name == "label-propagation":
        variants = (cells.LABELS,)
    found = []
    for seed in seeds:
        left = [v for v in variants if results.key({**row, "seed": seed, "preprocessing": v}) not in done]
        if left:
            found.append(Work(cell, seed, tuple(left)))
    return found


def compute(work: Work, bench: cells.Bench) -> list[dict]:
    """The missing rows of a cell for the seed of a bench."""
    cell = work.cell
    if cell.name == "non-private":
        return cells.run(bench, None, work.variants)
    if cell.name == "label-propagation":
        return cells.run_label_propagation(bench)
    made = cells.make_mechanism(cell.name, cell.epsilon, bench.data.num_features, cell.k)
    return cells.run(bench, made, work.variants, structure_only=cell.structure_only)


def load(dataset: str, features: int = 0) -> datasets.Dataset:
    """A data set, or why there is none, in words of the command line.

    Raises:
      UsageError: for a name that is not known, a file that cannot be read, or bounds that are not declared.
    """
    try:
        return cells.load(dataset, features)
    except (ValueError, OSError, datasets.DataUnavailableError) as error:
        hint = "; on the command line: --bounds LOWER UPPER" if "must be declared" in str(error) else ""
        raise UsageError(f"--datasets {dataset}: {error}{hint}") from error


def run_task(config: Config, task: Task, dataset: str, results: Results, *, todo: Plan, features: int = 0) -> None:
    """Compute what is missing for one task and data set, with a progress bar; a killed run goes on here."""
    data = load(dataset, features)
    resolved = settings(config, task, dataset, todo, features)
    if data.num_features == 0:
        raise UsageError(f"--datasets {dataset}: it has no features, so there is nothing private to perturb")
    if task == "node" and data.y.shape != (data.num_nodes,):
        console.print(f"{dataset} has no single label for each node: node task left out")
        return
    listed = cells_of(config, task, dataset, todo, data.num_features)
    own_k = min(data.num_features, cells.published_k(dataset, task))
    variants = cells.VARIANTS if config.preprocessing == "both" else (config.preprocessing,)
    todos: list[Work] = []
    for cell in listed:
        count = todo.k_seeds if cell.name == "hds" and cell.k != own_k else todo.seeds
        todos += missing(cell, resolved, data.num_features, range(count), variants, results)
    benches: dict[int, cells.Bench] = {}
    rows = sum(len(work.variants) for work in todos)
    console.print(f"{task} task on {data.name}: {rows} rows to compute, config {config_hash(resolved)}")
    with progress() as bar:
        line = bar.add_task(f"{data.name} {task}", total=rows)
        for work in todos:
            cell, seed, _ = work
            label = f"structure-only:{cell.name}" if cell.structure_only else cell.name
            bar.update(line, description=f"{data.name} {task} {label} eps {cell.epsilon:g} seed {seed}")
            if seed not in benches:
                benches[seed] = cells.prepare(resolved, seed)
            results.append(compute(work, benches[seed]), [resolved], _notes(cell, data))
            bar.advance(line, len(work.variants))


def _notes(cell: Cell, data: datasets.Dataset) -> dict:
    """For the manifest: what the mechanism promises, in words, and where the data are from."""
    notes: dict[str, dict] = {
        "data": {data.name: {"source": data.source, "licence": data.licence, "notes": data.notes}}
    }
    if cell.epsilon not in (0.0, float("inf")) and not cell.structure_only:
        made = cells.make_mechanism(cell.name, cell.epsilon, data.num_features, cell.k)
        name = f"{cell.name}, epsilon {cell.epsilon:g}, k {made.k}, d {data.num_features}"
        notes["guarantees"] = {name: str(cells.ledger(made, chosen=data.public_choices).total())}
    return notes


def main(config: Config) -> None:
    """Run the plan."""
    tasks: tuple[Task, ...] = ("node", "link") if config.task == "both" else (config.task,)
    results = Results(config.out, NAME, cells.EXTRA, cells.IDENTITY)
    if config.bounds is not None:
        cells.declare_bounds(config.datasets, config.bounds)
    for task in tasks:
        names = config.datasets or tuple(name for known, name in COMMITTED if known == task)
        for dataset in names:
            run_task(config, task, dataset, results, todo=plan(config, task, dataset))
    console.print(f"rows: {results.csv}; now: python -m experiments report --out {config.out}")
