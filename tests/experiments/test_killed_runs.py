"""Kill -9 at odd moments over whole experiments: what is whole stays, nothing is twice, and the end
is the same.
"""

import os
import random
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from experiments import _registry

ROOT = Path(__file__).parents[2]
_FRONTIER = "frontier --datasets debian --epsilons 1 2 --seeds 2"
RUNS = {
    "dprr": ("dprr", "reproduce dprr --preset smoke"),
    "heterorr": ("heterorr", "reproduce heterorr --preset smoke"),  # the chain over dendrograms too
    "poindp": ("poindp", "reproduce poindp --preset smoke"),
    "features": (
        "frontier",
        f"{_FRONTIER} --parts features --mechanisms privge 'local prediction'",
    ),
    "joint": (
        "frontier",
        f"{_FRONTIER} --parts joint --mechanisms 'record alone' 'half each' 'nothing asked'",
    ),
}
"""Of each run the experiment whose rows it writes, and the command."""


def started(words: str, out: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "experiments", *shlex.split(words)]
    environment = {**os.environ, "LDP_JAX_PROGRESS": "0"}
    with open(out.with_suffix(".log"), "a") as log:
        return subprocess.Popen(
            [*command, "--out", str(out)], cwd=ROOT, env=environment, stdout=log, stderr=log
        )


def rows(name: str, out: Path) -> pd.DataFrame:
    """All whole rows of an experiment, whatever file they are in; each once."""
    found = []
    for results in _registry.EXPERIMENTS[name].results(out):
        frame = results.read()
        assert not frame.duplicated(list(results.key)).any()
        found.append(frame.drop(columns="seconds").assign(file=results.csv.stem))
    return pd.concat(found).reset_index(drop=True)


def ordered(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame.astype(str)
    return frame.sort_values(list(frame.columns), ignore_index=True)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("run", RUNS)
def test_a_killed_run_loses_what_was_in_flight_alone(run, tmp_path):
    """Four kills, each some time after a new row: rows that were there stay, and all are those of
    one quiet run.
    """
    name, words = RUNS[run]
    quiet, killed = tmp_path / "quiet", tmp_path / "killed"
    assert started(words, quiet).wait() == 0, quiet.with_suffix(".log").read_text()
    wanted = rows(name, quiet)
    draw = random.Random(0)
    before = 0
    for _ in range(4):
        process = started(words, killed)
        while process.poll() is None and len(rows(name, killed)) == before:
            time.sleep(0.05)
        time.sleep(draw.uniform(0.0, 2.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
        now = rows(name, killed)
        assert len(now) >= before
        before = len(now)
    assert before < len(wanted), "nothing was left to do: the run is too short for this test"
    assert started(words, killed).wait() == 0
    pd.testing.assert_frame_equal(ordered(rows(name, killed)), ordered(wanted))
