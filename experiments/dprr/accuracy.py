"""Figures 4 to 6 of DPRR: are graphs still told apart when their users report noisy neighbour lists?"""

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import jax
import pandas as pd

from experiments._report import publish
from experiments._runner import Found, Results, asked, config_hash, rounded, run
from experiments.dprr import cells, report
from experiments.dprr.cells import Cell, Settings
from experiments.dprr.config import Config, settings, variants_of
from ldp_jax.core.progress import phase

NAME = "dprr"

results_in = partial(Results, name=NAME, cell=Cell)


def plan(config: Config) -> dict[Cell, tuple[Settings, int]]:
    seeds = 10 if config.preset == "paper" else config.seeds
    planned = {}
    for dataset in config.datasets:
        resolved = settings(config, dataset)
        n_max = int(cells.load(dataset, config.graphs, config.rr_nodes).nodes_per_graph.max())
        for seed in range(seeds):
            for variant in variants_of(config):
                with asked(f"--epsilons {variant.epsilon:g}"):
                    cell = cells.cell_of(resolved, variant, seed, n_max)
                planned[cell] = resolved, n_max
    return planned


def main(config: Config) -> None:
    planned = plan(config)
    computed = 0
    finished: list[Path] = []  # checkpoints of cells whose rows are there: nothing is left to resume

    def clear() -> None:
        while finished:
            shutil.rmtree(finished.pop(), ignore_errors=True)

    def compute(cell: Cell, _: Any) -> Found:
        nonlocal computed
        clear()
        folder = config.out / "checkpoints" / config_hash(cell)

        def shown(epoch: int, loss: float, validation: float) -> None:
            phase(f"epoch {epoch + 1}, validation {validation:.3f}", 0.0)

        resolved, n_max = planned[cell]
        scores = cells.run(resolved, cell.variant, cell.seed, folder, shown)
        computed += 1
        finished.append(folder)
        if cell.classifier == "gin" or computed % 20 == 0:
            jax.clear_caches()  # other noisy graphs have other shapes: programs would only fill the memory
        name = f"{cell.dataset}; {cells.setting(cell.public)}; {cell.mechanism}, epsilon {cell.epsilon:g}"
        promised = {"guarantees": {name: str(cells.ledger(cell.variant, n_max).total())}}
        return Found(rounded({"accuracy": scores.accuracy, "auc": scores.auc}), notes=promised)

    settings = {cell: cells.settings_of(made, cell.classifier) for cell, (made, _) in planned.items()}
    run(settings, compute, results_in(config.out), called="trainings")
    clear()


def write(out: Path) -> list[Path]:
    frame, configs = _read(out)
    if frame.empty:
        return []
    return publish(out, {NAME: report.as_markdown(frame, configs)}, report.figures(frame, configs))


def digest(out: Path) -> str:
    frame, configs = _read(out)
    return report.digest(frame, configs) if len(frame) else ""


def _read(out: Path) -> tuple[pd.DataFrame, report.Configs]:
    results = results_in(out)
    return results.read(), results.describe().get("configs", {})
