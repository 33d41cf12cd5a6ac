"""Figures 4 to 6 of DPRR.

Are graphs still told apart when their users report noisy neighbour lists?
"""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

from experiments import _common, _runner
from experiments.dprr import cells
from experiments.dprr.config import Config, settings, variants_of
from ldp_jax.core.progress import phase

NAME = "dprr"

results_in = partial(_runner.Results, name=NAME, cell=cells.Cell)


@_common.planned
def plan(config: Config) -> Iterator[tuple[cells.Cell, tuple[cells.Settings, int]]]:
    seeds = 10 if config.preset == "paper" else config.seeds
    for dataset in config.datasets:
        resolved = settings(config, dataset)
        n_max = int(cells.load(dataset, config.graphs, config.rr_nodes).nodes_per_graph.max())
        for seed in range(seeds):
            for variant in variants_of(config):
                with _runner.asked(f"--epsilons {variant.epsilon:g}"):
                    yield cells.cell_of(resolved, variant, seed, n_max), (resolved, n_max)


def main(config: Config) -> None:
    known = plan(config)
    computed = 0
    finished: list[
        Path
    ] = []  # checkpoints of cells whose rows are there: nothing is left to resume

    def clear() -> None:
        while finished:
            shutil.rmtree(finished.pop(), ignore_errors=True)

    def compute(cell: cells.Cell, _: Any) -> _runner.Found:
        nonlocal computed
        clear()
        folder = config.out / "checkpoints" / _runner.config_hash(cell)

        def shown(epoch: int, loss: float, validation: float) -> None:
            phase(f"epoch {epoch + 1}, validation {validation:.3f}", 0.0)

        resolved, n_max = known[cell]
        scores = cells.run(resolved, cell.variant, cell.seed, folder, shown)
        computed += 1
        finished.append(folder)
        if cell.classifier == "gin" or computed % 20 == 0:
            # other noisy graphs have other shapes: programs would only fill the memory
            jax.clear_caches()
        name = (
            f"{cell.dataset}; {cells.setting(cell.public)}; {cell.mechanism}, epsilon "
            f"{cell.epsilon:g}"
        )
        promised = {"guarantees": {name: str(cells.ledger(cell.variant, n_max).total())}}
        return _runner.Found(
            _runner.rounded({"accuracy": scores.accuracy, "auc": scores.auc}), notes=promised
        )

    settings = {cell: cells.settings_of(made, cell.classifier) for cell, (made, _) in known.items()}
    _runner.run(settings, compute, results_in(config.out), called="trainings")
    clear()


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with the kind of their classifier, and with data set and kind in one column."""
    kind = np.where(frame.classifier == "forest", "random forest", "GIN; perceptron")
    return frame.assign(kind=kind, place=frame.dataset + ": " + kind)
