"""Shared parts of benchmarks.

The sides of one, taking turns, rows, and code that runs in a fresh process.
"""

import gc
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax

from experiments._runner import UsageError, console
from ldp_jax.core.progress import phase, watched

Rows = list[dict[str, Any]]
"""Of a benchmark: runs of its sides, with their times and a note."""

Sides = dict[str, tuple[Callable[[int], Any], str]]
"""What is timed, as a function of the repetition's number (the untimed one is 0), and a note on
it.
"""


def key_of(repeat: int) -> jax.Array:
    """A key for each repetition.

    A sampler that is fast only for a key that it has seen is not fast.
    """
    return jax.random.fold_in(jax.random.key(0), repeat)


def clock() -> Callable[[], tuple[float, float]]:
    """Wall and CPU seconds from now on, whenever it is asked."""
    wall = time.perf_counter()
    cpu = time.process_time()
    return lambda: (time.perf_counter() - wall, time.process_time() - cpu)


def row(
    benchmark: str, subject: str, repeat: int, wall: float, cpu: float, note: str
) -> dict[str, Any]:
    times = {"wall_s": round(wall, 5), "cpu_s": round(cpu, 5)}
    return {"benchmark": benchmark, "subject": subject, "repeat": repeat, **times, "note": note}


def interleaved(benchmark: str, sides: Sides, repeats: int) -> Rows:
    """Time every side in turn; the first repetition of each compiles and is left out."""
    rows = []
    with watched(benchmark):
        for repeat in range(-1, repeats):
            for place, (subject, (function, note)) in enumerate(
                sides.items(), (repeat + 1) * len(sides)
            ):
                phase(subject, place / ((repeats + 1) * len(sides)))
                gc.collect()
                taken = clock()
                result = jax.block_until_ready(function(repeat + 1))
                times = taken()
                del result
                if repeat >= 0:
                    rows.append(row(benchmark, subject, repeat, *times, note))
    return rows


def installed(benchmark: str, package: str, pip_name: str = "") -> bool:
    """Whether another side's package is there; if not, a line says so."""
    found = importlib.util.find_spec(package) is not None
    if not found:
        console.print(
            f"{benchmark}: {package} is not installed (pip install {pip_name or package}): no "
            "side of it"
        )
    return found


def torch_device() -> str:
    """Where PyTorch's sides run: beside ours, on a GPU or on the CPU."""
    import torch  # pyrefly: ignore[missing-import]

    return "cuda" if jax.default_backend() == "gpu" and torch.cuda.is_available() else "cpu"


def torch_wait(result: Any) -> Any:
    """A result of PyTorch once its device has finished, which a timer must wait for."""
    import torch  # pyrefly: ignore[missing-import]

    if torch_device() == "cuda":
        torch.cuda.synchronize()
    return result


def code_of(function: Callable[..., Any], *given: Any) -> str:
    """Code that prints as JSON what a function of a module gives.

    The values that it is given are literals.
    """
    name = function.__name__
    return (
        f"import json; from {function.__module__} import {name}; "
        f"print(json.dumps({name}(*{given!r})))"
    )


def in_a_process(
    code: str, *words: str, what: str, environment: Mapping[str, str] | None = None
) -> Any:
    """The last line that some code prints in a fresh process, read as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False,
        cwd=Path(__file__).parents[1], env={**os.environ, **(environment or {})},
    )  # fmt: skip
    if done.returncode:
        raise UsageError(f"{what}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])
