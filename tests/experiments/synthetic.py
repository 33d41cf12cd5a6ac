"""Cells that cost nothing, in a module that other processes import."""

import dataclasses
import os
import signal
import time
from pathlib import Path

from experiments._runner import Cell, Found

CELL = {
    "dataset": "d",
    "task": "t",
    "mechanism": "m",
    "epsilon": 1.0,
    "seed": 0,
    "epsilon_proved": 1.0,
    "unit": "record",
    "config": "c",
}
"""What every experiment's rows are identified by; a test says what of it matters."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Synthetic(Cell):
    """Two of a group differ by their classifier."""

    last_metric = "last"
    classifier: str = "first"


def plan(seeds, **settings):
    """Two cells a seed. ``log`` is a file that every computation is written to."""
    return {
        Synthetic(**CELL | {"seed": seed, "classifier": classifier}): settings
        for seed in range(seeds)
        for classifier in ("first", "second")
    }


def compute(cell, settings):
    """Twice a value of the seed; a process dies at ``dies_at``, if ``before`` was not there."""
    if cell.seed == settings.get("dies_at") and not Path(settings["before"]).exists():
        Path(settings["before"]).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    with open(settings["log"], "a") as log:
        log.write(f"{os.getpid()} {cell.seed} {cell.classifier}\n")
    time.sleep(settings.get("seconds", 0.0))
    return Found({"first": cell.seed / 7, "last": 1.0}, notes={"guarantees": {str(cell): "1"}})
