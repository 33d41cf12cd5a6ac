"""The accuracy rows of PoinDP: which there are, in which order, and what is proved of each."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from experiments._common import fingerprint
from experiments._runner import Found, Results, UsageError, asked, config_hash, run
from experiments.poindp import cells, releases
from experiments.poindp.cells import Cell
from experiments.poindp.config import Config, settings
from experiments.poindp.settings import (
    ABLATED,
    AS_PUBLISHED,
    FEATURES,
    NON_PRIVATE,
    PRINTED,
    PUBLIC,
    PUBLISHED,
    SHARES,
    SOUND,
    STRUCTURE,
    Settings,
)
from ldp_jax import datasets
from ldp_jax.accounting.guarantee import RECORD

NAME = "poindp"


def results_in(out: Path) -> Results:
    """The rows of a folder."""
    return Results(out, NAME, Cell, cells.FOUND)


def load(name: str, option: str = "--datasets") -> datasets.Dataset:
    """A data set, or why there is none, in words of the command line.

    Raises:
      UsageError: for what cannot be loaded, a set of graphs, a graph without features, or several labels a node.
    """
    try:
        data = cells.load(name)
    except (ValueError, OSError, datasets.DataUnavailableError) as error:
        raise UsageError(f"{option} {name}: {error}") from error
    if data.node_graph is not None or data.num_features == 0 or data.y.ndim == 2:
        raise UsageError(f"{option} {name}: one graph with features and one class a node is needed")
    return data


def resolved(config: Config, dataset: str, option: str = "--datasets") -> Settings:
    """The settings of a data set."""
    return settings(config, dataset, fingerprint(load(dataset, option)))


def variants(config: Config, data: datasets.Dataset, *, first: bool) -> Iterator[tuple[str, str, float]]:
    """Split, mechanism and epsilon of the rows of one data set; some of several parts, which are computed once."""
    if "table1" in config.parts:
        for split in config.splits:
            if split == "public" and "split" not in data.extras:
                continue
            for name in NON_PRIVATE:
                yield split, name, math.inf
            yield split, PUBLIC, 0.0
            for name in AS_PUBLISHED:
                for prefix in ("", STRUCTURE):
                    yield split, prefix + name, config.epsilon
            for name in SOUND:
                for prefix in ("", STRUCTURE, FEATURES):
                    yield split, prefix + name, config.epsilon
    if "table2" in config.parts:
        for name in ABLATED:
            yield "random", name, config.ablation_epsilon
        for name in SHARES:
            for prefix in ("", STRUCTURE):
                yield "random", prefix + name, config.ablation_epsilon
    if "figure3" in config.parts and first:
        for split in ("random", "inner", "outer"):
            for epsilon in config.epsilons:
                for name in (f"{PUBLISHED}poindp", f"{PRINTED}poindp", "radial", f"{STRUCTURE}radial"):
                    yield split, name, epsilon


def plan(config: Config) -> dict[Cell, Settings]:
    """The cells, in the order of their computation."""
    planned = {}
    for place, dataset in enumerate(config.datasets):
        data, chosen = load(dataset), resolved(config, dataset)
        asked = dict.fromkeys(variants(config, data, first=place == 0))
        for seed in range(config.seeds):
            for split, mechanism, epsilon in asked:
                if config.asks_for(mechanism):
                    planned[cell_of(chosen, data.name, split, mechanism, epsilon, seed)] = chosen
    return planned


def cell_of(chosen: Settings, dataset: str, split: str, mechanism: str, epsilon: float, seed: int) -> Cell:
    """A cell with what its own guarantee states."""
    with asked(f"{dataset}, {mechanism}, epsilon {epsilon:g}"):
        promised = releases.guarantee(mechanism, epsilon, chosen)
    if mechanism.startswith(STRUCTURE):
        proved, delta = 0.0, 0.0
    elif promised is None:
        proved, delta = math.inf, 0.0
    else:
        proved, delta = promised[RECORD].epsilon, promised[RECORD].delta
    return Cell(
        dataset=dataset, task="node", mechanism=mechanism, epsilon=epsilon, seed=seed, epsilon_proved=proved,
        unit=str(RECORD), config=config_hash(chosen), split=split, delta=delta,
    )  # fmt: skip


def notes(cell: Any, chosen: Settings) -> dict[str, dict[str, Any]]:
    """What the manifest says of a cell."""
    data = cells.load(chosen.dataset)
    said: dict[str, dict[str, Any]] = {
        "data": {data.name: {"source": data.source, "licence": data.licence, "notes": data.notes}}
    }
    promised = releases.guarantee(cell.mechanism, cell.epsilon, chosen)
    words = releases.why_none(cell.mechanism, cell.epsilon, chosen) if promised is None else str(promised)
    if words:
        said["guarantees"] = {f"{cell.mechanism}, epsilon {cell.epsilon:g}": words}
    return said


def main(config: Config) -> None:
    """Compute what is missing; a killed run goes on here."""
    planned = plan(config)

    def one(cell: Cell, say: Callable[[str], None]) -> Found:
        return cells.compute(cells.prepare(planned[cell], cell.split, cell.seed), cell)

    run(
        planned, one, results_in(config.out), settings=planned.__getitem__,
        notes=lambda cell: notes(cell, planned[cell]), called="rows",
    )  # fmt: skip
