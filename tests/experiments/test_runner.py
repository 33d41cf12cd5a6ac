"""Result files under kill -9 and under several writers: whole rows, none lost, none twice."""

import json
import signal
import subprocess
import sys
import time

from experiments._runner import COLUMNS, Results

WRITER = """
import sys
from pathlib import Path
from experiments._runner import COLUMNS, Results

out, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
results = Results(out, "rows")
for seed in range(first, last):
    row = dict.fromkeys(COLUMNS, "x") | dict.fromkeys(("epsilon", "k", "epsilon_proved", "seconds"), 1.0)
    results.append([{**row, "seed": seed, "value": seed / 7}], [{"epochs": seed}])
    print(seed, flush=True)
"""


def writer(out, first, last):
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(out), str(first), str(last)], stdout=subprocess.PIPE, text=True
    )


def whole(out):
    """The file's seeds, after a check that every row is what was written."""
    frame = Results(out, "rows").read()
    assert tuple(frame.columns) == COLUMNS
    assert (abs(frame["value"] - frame["seed"] / 7) < 1e-12).all()
    return frame["seed"].tolist()


def test_kill_9_loses_at_most_the_cell_in_flight(tmp_path):
    """Killed while it writes, at three moments: what was said to be done is there, and nothing is twice."""
    for wait in (0.0, 0.005, 0.012):
        process = writer(tmp_path, 0, 10_000)
        said = [int(process.stdout.readline()) for _ in range(4)]
        time.sleep(wait)
        process.kill()
        rest, _ = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        seeds = whole(tmp_path)
        assert len(seeds) == len(set(seeds))
        assert set(said) | {int(line) for line in rest.split()} <= set(seeds)
        json.loads((tmp_path / "rows.manifest.json").read_text())
    done = writer(tmp_path, 0, 3)
    done.communicate(timeout=60)
    assert done.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.csv", "rows.lock", "rows.manifest.json"]


def test_writers_at_the_same_time_lose_nothing(tmp_path):
    """Three of them, whose cells overlap: the union, each row once, and every configuration in the manifest."""
    writers = [writer(tmp_path, first, first + 12) for first in (0, 6, 12)]
    for process in writers:
        process.communicate(timeout=120)
        assert process.returncode == 0
    assert sorted(whole(tmp_path)) == list(range(24))
    manifest = json.loads((tmp_path / "rows.manifest.json").read_text())
    assert sorted(config["epochs"] for config in manifest["configs"].values()) == list(range(24))
