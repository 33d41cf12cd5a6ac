"""Whole tasks of somebody new, as scripts: ``.ci/run`` runs them against an installed wheel."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize(
    "task", ["pages.py", "mechanism.py", "own_methods.py", "devices.py --clients 12"]
)
def test_a_task_ends(task):
    environ = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    script, *words = task.split()
    done = subprocess.run(
        [sys.executable, HERE / script, *words], env=environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
