"""Figures 4 to 6 of DPRR.

Are graphs still told apart when their users report noisy neighbour lists?
"""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments import _common, _runner
from experiments._common import is_own
from experiments._runner import BY
from experiments.dprr import cells
from experiments.dprr.config import Config, settings, variants_of
from ldp_jax.core.progress import phase

NAME = "dprr"

results_in = partial(_runner.Results, name=NAME, cell=cells.Cell)


@_common.planned
def plan(config: Config) -> Iterator[tuple[cells.Cell, dict[str, Any]]]:
    seeds = config.seeds or (10 if config.preset == "paper" else 3)
    for dataset in config.datasets:
        resolved = settings(config, dataset)
        cells.check_dense(resolved, config.mechanisms)
        n_max = cells.most_nodes(resolved)
        for seed in range(seeds):
            for variant in variants_of(config):
                with _runner.asked(f"--epsilons {variant.epsilon:g}"):
                    cell = cells.cell_of(resolved, variant, seed, n_max)
                yield cell, cells.settings_of(resolved, variant.classifier)


def main(config: Config) -> None:
    checkpoints = config.out.absolute() / "checkpoints"
    _runner.run(
        plan(config),
        partial(compute, checkpoints=checkpoints),
        results_in(config.out),
        called="trainings",
        kept=lambda cell: shutil.rmtree(_folder(cell, checkpoints), ignore_errors=True),
        grid=config,
    )


def _folder(cell: cells.Cell, checkpoints: Path) -> Path:
    return checkpoints / _runner.config_hash(cell)


def compute(cell: cells.Cell, made: dict[str, Any], checkpoints: Path) -> _runner.Found:
    resolved = cells.Settings.of(made)

    def shown(epoch: int, loss: float, validation: float) -> None:
        phase(f"epoch {epoch + 1}, validation {validation:.3f}", 0.0)

    scores = cells.run(resolved, cell.variant, cell.seed, _folder(cell, checkpoints), shown)
    name = (
        f"{cell.dataset}; {cells.setting(cell.public)}; {cell.mechanism}, epsilon {cell.epsilon:g}"
    )
    spent = cells.ledger(cell.variant, cells.most_nodes(resolved))
    return _runner.Found(
        _runner.rounded({"accuracy": scores.accuracy, "auc": scores.auc}),
        notes={"guarantees": {name: str(spent.total())}},
    )


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with the kind of their classifier, and with data set and kind in one column.

    Own models are networks, and a part of the name of their rows.
    """
    kind = np.where(frame.classifier == cells.FOREST, "random forest", "GIN; perceptron")
    by = [f"{BY}{word}" if is_own(word) else "" for word in frame.classifier]
    return frame.assign(
        kind=kind, place=frame.dataset + ": " + kind, mechanism=frame.mechanism + by
    )
