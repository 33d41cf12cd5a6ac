"""Figures 4 to 6 of DPRR: are graphs still told apart when their users report noisy neighbour lists?"""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax

from experiments._report import publish
from experiments._runner import REFERENCE, Found, Results, asked, config_hash, run
from experiments.dprr import cells, report
from experiments.dprr.cells import Cell, Settings
from experiments.dprr.config import Config, settings, variants_of

NAME = "dprr"

results_in = partial(Results, name=NAME, cell=Cell)


def plan(config: Config) -> dict[Cell, tuple[Settings, int]]:
    """The cells in the order of their computation, with their settings and the nodes of the largest graph."""
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
    """Compute what is missing, then the table and the figures."""
    planned = plan(config)
    computed = 0
    finished: list[Path] = []  # checkpoints of cells whose rows are there: nothing is left to resume

    def compute(cell: Cell, say: Callable[[str], None]) -> Found:
        nonlocal computed
        _clear(finished)
        folder = config.out / "checkpoints" / config_hash(cell)

        def shown(epoch: int, loss: float, validation: float) -> None:
            say(f"epoch {epoch + 1}, validation {validation:.3f}")

        scores = cells.run(planned[cell][0], cell.variant, cell.seed, folder, shown)
        computed += 1
        finished.append(folder)
        if cell.classifier == "gin" or computed % 20 == 0:
            jax.clear_caches()  # other noisy graphs have other shapes: programs would only fill the memory
        return Found({"accuracy": round(float(scores.accuracy), 6), "auc": round(float(scores.auc), 6)})

    run(
        planned, compute, results_in(config.out), called="trainings",
        settings=lambda cell: cells.settings_of(planned[cell][0], cell.classifier),
        notes=lambda cell: {"guarantees": cells.guarantee_note(vars(cell), planned[cell][1])},
    )  # fmt: skip
    _clear(finished)


def _clear(folders: list[Path]) -> None:
    while folders:
        shutil.rmtree(folders.pop(), ignore_errors=True)


def write(out: Path) -> list[Path]:
    """Tables and figures of the rows in a folder, beside the committed ones; nothing is computed but statistics."""
    results = results_in(out)
    frame, configs = results.read(), results.describe().get("configs", {})
    if frame.empty:
        return []
    reference = None if out.resolve() == REFERENCE.resolve() else results_in(REFERENCE).read()
    pages = {NAME: report.as_markdown(frame, configs, reference)}
    return publish(out, pages, report.figures(frame, configs))


def digest(out: Path) -> str:
    """What the rows of a folder say in short."""
    results = results_in(out)
    frame, configs = results.read(), results.describe().get("configs", {})
    return "" if frame.empty else report.digest(frame, configs)
