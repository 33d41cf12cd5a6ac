"""How far a trained row repeats.

Alone or beside others, on one core or all, with other vector instructions.
"""

import dataclasses
import os
import platform
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from experiments import _declared, _runner, _sides, privge
from experiments._report import prose
from experiments.privge import accuracy, cells, settings
from ldp_jax.core.progress import phase, watched

NAME = "repeat"
BASE = "all seeds in one process"


@dataclasses.dataclass(frozen=True)
class Config:
    """How far a trained row repeats, in points.

    Non-private, HDS at epsilon 1 and its structure-only twin.

    The same rows in processes of their own: all seeds in one, each seed alone, on one core, and
    compiled for other vector instructions, which is what another machine changes. Minutes. Writes
    repeat.csv and repeat.md.
    """

    datasets: tuple[str] = ("cora",)
    """one name, or path of an .npz file; node task"""
    seeds: int = 5
    """how many seeds, from 0"""
    epochs: int | None = None
    """by default the committed plan's"""
    out: Path = _runner.DEFAULT_OUT
    """where repeat.csv and repeat.md go"""


def conditions(seeds: int) -> dict[str, list[tuple[list[int], dict[str, str], bool]]]:
    """Under which conditions rows are computed.

    Seeds of each process, its environment, whether on one core.
    """
    everyone = list(range(seeds))
    found: dict[str, list[tuple[list[int], dict[str, str], bool]]] = {
        BASE: [(everyone, {}, False)],
        "each seed alone": [([seed], {}, False) for seed in everyone],
    }
    if hasattr(os, "sched_setaffinity"):
        found["one core"] = [(everyone, {}, True)]
    if platform.machine() in ("x86_64", "AMD64"):
        for instructions in ("AVX2", "SSE4_2"):
            flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_max_isa={instructions}".strip()
            found[f"compiled for {instructions}"] = [(everyone, {"XLA_FLAGS": flags}, False)]
    return found


def main(config: Config) -> None:
    _runner.check_positive("--seeds", config.seeds)
    if config.epochs is not None:
        _runner.check_positive("--epochs", config.epochs)
    accuracy.load(config.datasets[0])
    about = prose(NAME).about.format(dataset=config.datasets[0], seeds=config.seeds)
    _declared.measured(config.out, NAME, found(config), about)


def found(config: Config) -> Iterator[pd.DataFrame]:
    """The rows of each process and all before it."""
    rows = []
    planned = conditions(config.seeds)
    work = [
        (condition, *process) for condition, processes in planned.items() for process in processes
    ]
    with watched(NAME):
        for place, (condition, seeds, environment, one_core) in enumerate(work):
            phase(condition, place / len(work))
            computed = _in_a_process(config, seeds, environment, one_core)
            rows += [{"condition": condition, **row} for row in computed]
            yield pd.DataFrame(rows)


def _in_a_process(
    config: Config, seeds: list[int], environment: dict[str, str], one_core: bool
) -> _sides.Rows:
    name = config.datasets[0]
    name = (
        str(Path(name).resolve()) if Path(name).exists() else name
    )  # the process starts in another folder
    code = _sides.code_of(child, name, seeds, config.epochs)
    if one_core:
        code = f"import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); {code}"
    what = f"--datasets {config.datasets[0]}: rows could not be computed"
    return _sides.in_a_process(code, what=what, environment=environment)


def child(dataset: str, seeds: list[int], epochs: int | None) -> _sides.Rows:
    config = privge.Config(
        epochs=epochs, mechanisms=("hds",), epsilons=(1.0,), seeds=max(seeds) + 1
    )
    planned = accuracy.plan_task(config, "node", dataset, settings.plan(config, "node", dataset))
    benches = {seed: cells.prepare(next(iter(planned.values())), seed) for seed in seeds}
    rows = []
    for cell in planned:
        if cell.seed in benches and cell.mechanism not in cells.GRAPH_ALONE.values():
            found = cells.compute(benches[cell.seed], cell)
            row = {
                "mechanism": cell.mechanism,
                "seed": cell.seed,
                "value": found.values[cell.last_metric],
            }
            rows.append(
                {**row, "preprocessing": cell.preprocessing, "validation": found.also["validation"]}
            )
    return rows
