"""Figures 6, 7, 10 and 11: the plan, and its computation."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from experiments._common import fingerprint
from experiments._runner import Found, Results, UsageError, asked, config_hash, run
from experiments.heterorr import cells
from experiments.heterorr.cells import LABEL_PROPAGATION, NON_PRIVATE, PUBLIC_RECORDS, RECORDS, Cell
from experiments.heterorr.config import Config, settings
from experiments.heterorr.releases import EPSILON_0, FEATURES, PUBLIC_EDGES, STRUCTURE
from experiments.heterorr.settings import PAIRS, PRIVATE_LABELS, Level, Settings
from ldp_jax import datasets
from ldp_jax.accounting.guarantee import EDGE_CENTRAL, RECORD

NAME = "heterorr"
WIDTH = 48
"""Of the public embedding. Few coordinates would hold back the rows without privacy."""

LEVELS: tuple[Level, ...] = ("features", "edges", "both")


def results_in(out: Path) -> Results:
    """The rows of a folder."""
    return Results(out, NAME, Cell, cells.FOUND)


def load(name: str) -> datasets.Dataset:
    """A data set for the accuracy rows, or why there is none, in words of the command line.

    Raises:
      UsageError: for what cannot be loaded, a set of graphs, or a graph without features.
    """
    try:
        data = cells.load(name)
    except (ValueError, OSError, datasets.DataUnavailableError) as error:
        raise UsageError(f"--datasets {name}: {error}") from error
    if data.node_graph is not None or data.num_features == 0:
        raise UsageError(f"--datasets {name}: one graph with features and classes is needed")
    return data


def resolved(config: Config, dataset: str, level: Level) -> Settings:
    """The settings of a data set and level; the embedding is no wider than the public users are many."""
    data = load(dataset)
    width = min(WIDTH, data.num_features, round(0.1 * data.num_nodes))
    return settings(config, dataset, fingerprint(data), level, width)


def variants(config: Config, level: Level, labels: bool) -> Iterator[tuple[str, float, float, str, float]]:
    """Mechanism, epsilon, rho, mechanism and epsilon of the edges: baselines first."""
    infinite = math.inf
    if level == "features":
        for name in (NON_PRIVATE, RECORDS, FEATURES + NON_PRIVATE):
            yield name, infinite, 0.0, "", 0.0
        for name in (PUBLIC_RECORDS, *(() if labels else (LABEL_PROPAGATION,))):
            yield name, 0.0, 0.0, "", 0.0
        for epsilon in config.epsilons:
            for name in config.feature_mechanisms:
                for prefix in ("", STRUCTURE, FEATURES):
                    yield prefix + name, epsilon, 0.0, "", 0.0
            if "lpgnn" in config.feature_mechanisms and not labels:
                for prefix in ("", STRUCTURE):
                    yield prefix + PRIVATE_LABELS, epsilon, 0.0, "", 0.0
        return
    last = config.rhos[-1]
    if level == "edges":
        for rho in config.rhos:
            yield NON_PRIVATE, infinite, rho, "", 0.0
            yield FEATURES + NON_PRIVATE, infinite, rho, "", 0.0
            for name in (*EPSILON_0, *(() if labels else (LABEL_PROPAGATION,))):
                yield name, 0.0, rho, "", 0.0
            for epsilon in config.epsilons if rho == last or len(config.epsilons) == 1 else (1.0,):
                for name in config.edge_mechanisms:
                    yield name, epsilon, rho, "", 0.0
        return
    yield NON_PRIVATE, infinite, last, NON_PRIVATE, infinite
    yield PUBLIC_RECORDS, 0.0, last, PUBLIC_EDGES, 0.0
    for epsilon in config.epsilons:
        for name, other in PAIRS:
            if name in config.feature_mechanisms and other in config.edge_mechanisms:
                yield name, epsilon, last, other, epsilon


def plan(config: Config, level: Level) -> dict[Cell, Settings]:
    """The cells of one level, in the order of their computation."""
    planned = {}
    for dataset in config.datasets:
        data, chosen = load(dataset), resolved(config, dataset, level)
        labels = data.y.ndim == 2
        for seed in range(config.seeds):
            bench = cells.prepare(chosen, seed)
            for mechanism, epsilon, rho, other, of_edges in variants(config, level, labels):
                cell = Cell(
                    dataset=data.name, task="labels" if labels else "node", mechanism=mechanism, epsilon=epsilon,
                    seed=seed, epsilon_proved=0.0, unit=str(EDGE_CENTRAL if level == "edges" else RECORD),
                    config=config_hash(chosen), level=level, rho=rho, edges=other, epsilon_edges=of_edges,
                )  # fmt: skip
                with asked(str(cell)):
                    planned[_proved(bench, cell)] = chosen
    return planned


def _proved(bench: cells.Bench, cell: Cell) -> Cell:
    """A cell with the epsilon that its own guarantee states."""
    if NON_PRIVATE in cell.mechanism or cell.mechanism == RECORDS:
        return dataclasses.replace(cell, epsilon_proved=math.inf)
    promised = cells.guarantee(bench, cell)
    unit = EDGE_CENTRAL if cell.level == "edges" else RECORD
    spent = 0.0 if promised is None else promised[unit].epsilon
    return dataclasses.replace(cell, epsilon_proved=spent)


def compute(planned: dict[Cell, Settings], results: Results) -> None:
    """Compute what is missing; a killed run goes on here."""

    def bench(cell: Cell) -> cells.Bench:
        return cells.prepare(planned[cell], cell.seed)

    def one(cell: Cell, say: Callable[[str], None]) -> Found:
        return cells.compute(bench(cell), cell)

    def notes(cell: Cell) -> dict[str, dict[str, Any]]:
        data = load(planned[cell].dataset)
        said: dict[str, dict[str, Any]] = {
            "data": {data.name: {"source": data.source, "licence": data.licence, "notes": data.notes}}
        }
        promised = cells.guarantee(bench(cell), cell)
        if promised is not None:
            other = f" + {cell.edges}" if cell.edges else ""
            said["guarantees"] = {f"{cell.level}: {cell.mechanism}{other}, epsilon {cell.epsilon:g}": str(promised)}
        return said

    run(planned, one, results, settings=planned.__getitem__, notes=notes, called="rows")


def main(config: Config) -> None:
    """Run the levels that are asked for."""
    plans = [plan(config, cast(Level, level)) for level in LEVELS if level in config.parts]
    for planned in plans:  # all of them are made before the first row is
        compute(planned, results_in(config.out))
