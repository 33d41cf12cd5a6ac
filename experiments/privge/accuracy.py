"""Node classification and link prediction from locally private features.

The plan, and its computation.
"""

import itertools
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

from experiments._common import FOUND, by_models, fingerprint, planned, said_of, usable
from experiments._runner import Found, Results, asked, console, run
from experiments.privge import cells
from experiments.privge.settings import COMMITTED, Config, Plan, Settings, Task, plan, settings
from ldp_jax import datasets
from ldp_jax.accounting.guarantee import RECORD

NAME = "privge"

results_in = partial(Results, name=NAME, cell=cells.Cell, also=FOUND)


def load(dataset: str) -> datasets.Dataset:
    return usable(cells.load, dataset, hint="; on the command line: --bounds LOWER UPPER")


@planned
def plan_task(
    config: Config, task: Task, dataset: str, todo: Plan
) -> list[tuple[cells.Cell, Settings]]:
    """The cells of a task and data set, seed by seed: a plan that is stopped is a whole table."""
    return sorted(_releases(config, task, dataset, todo), key=lambda one: one[0].seed)


def _releases(
    config: Config, task: Task, dataset: str, todo: Plan
) -> Iterator[tuple[cells.Cell, Settings]]:
    """Baselines, then every mechanism and budget, each followed by its twin."""
    data = load(dataset)
    if task == "node" and data.y.shape != (data.num_nodes,):
        console.print(f"{dataset} has no single label for each node: node task left out")
        return
    resolved = settings(config, task, dataset, fingerprint(data, dataset), todo)
    dim = data.num_features
    own_k = min(dim, cells.published_k(dataset, task))
    sweep: list[tuple[str, float, int]] = []
    if not config.ks:
        sweep += [(name, epsilon, own_k) for epsilon in todo.epsilons for name in config.mechanisms]
    if "hds" in config.mechanisms:
        sweep += [("hds", epsilon, k) for k in todo.ks for epsilon in todo.k_epsilons]
    releases: list[tuple[str, float, int, int]] = [(cells.NON_PRIVATE, float("inf"), 0, todo.seeds)]
    releases.append((cells.GRAPH_ALONE[task], 0.0, 0, todo.seeds))
    for name, epsilon, k in dict.fromkeys(sweep):
        seeds = todo.k_seeds if name == "hds" and k != own_k else todo.seeds
        releases += [(prefix + name, epsilon, k, seeds) for prefix in ("", cells.STRUCTURE)]
    for name, epsilon, k, seeds in releases:
        spent = epsilon
        if name not in (cells.NON_PRIVATE, cells.GRAPH_ALONE[task]):
            with asked(f"{dataset}, {name}, epsilon {epsilon:g}, k {k}"):
                made = cells.make_mechanism(name.removeprefix(cells.STRUCTURE), epsilon, dim, k)
            k = made.k
            spent = (
                cells.ledger(made, structure_only=name.startswith(cells.STRUCTURE))
                .spent(RECORD)
                .epsilon
            )
        alone = name == cells.GRAPH_ALONE[task]
        rows = [name] if alone else by_models(name, config.models)
        kinds = (cells.NO_EMBEDDING,) if alone else cells.EMBEDDINGS
        for seed, row, preprocessing in itertools.product(range(seeds), rows, kinds):
            named = data.name, task, RECORD, row, epsilon, seed, spent
            yield cells.Cell.of(resolved, *named, k=k, preprocessing=preprocessing)


def _notes(cell: cells.Cell, resolved: Settings) -> dict[str, dict[str, Any]]:
    data = load(resolved.dataset)
    made = (
        None
        if cell.mechanism.startswith(cells.STRUCTURE)
        else cells.made_by(cell, data.num_features)
    )
    promised = None if made is None else cells.ledger(made, chosen=data.public_choices).total()
    return said_of(
        data,
        f"{cell.mechanism}, epsilon {cell.epsilon:g}, k {cell.k}, d {data.num_features}",
        promised,
    )


def main(config: Config) -> None:
    config.check()
    if config.bounds is not None:
        cells.declare_bounds(config.datasets, config.bounds)
    known = {}
    for task in config.parts:
        usual = [name for known, name in COMMITTED if known == task]
        if config.preset == "smoke":
            usual = ["debian"]
        for dataset in config.datasets or usual:
            known |= plan_task(config, task, dataset, plan(config, task, dataset))
    found = partial(compute, bounds=config.bounds)
    run(known, found, results_in(config.out), called="rows", grid=config)


def compute(cell: cells.Cell, resolved: Settings, bounds: tuple[float, float] | None) -> Found:
    if bounds is not None:
        cells.declare_bounds([resolved.dataset], bounds)
    benches = _benches(resolved)
    if cell.seed not in benches:
        benches[cell.seed] = cells.prepare(resolved, cell.seed)
    return cells.compute(benches[cell.seed], cell)._replace(notes=_notes(cell, resolved))


@lru_cache(maxsize=1)
def _benches(resolved: Settings) -> dict[int, cells.Bench]:
    """The benches of each seed, of one task and data set at a time."""
    return {}
