"""One code path from one device to many: eight simulated ones in a process of their own, and two
processes.
"""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from ldp_jax import features, servers
from ldp_jax.graph import graphs
from tests import many_devices, pages

QUICK = {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}


def found_wrong(which: str) -> dict[str, str]:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    command = [sys.executable, "-m", "tests.many_devices", which]
    environment = {**os.environ, **QUICK, "XLA_FLAGS": flags}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.fixture(scope="module")
def usual() -> dict[str, str]:
    return found_wrong("usual")


@pytest.fixture(scope="module")
def rare() -> dict[str, str]:
    return found_wrong("rare")


@pytest.mark.parametrize("name", many_devices.USUAL)
def test_eight_devices_give_what_one_gives(usual, name):
    assert not usual[name], usual[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", many_devices.RARE)
def test_eight_devices_give_what_one_gives_of_every_mechanism_and_model(rare, name):
    assert not rare[name], rare[name]


def two(*command: str, cwd: Path | None = None, **environment: str) -> list[tuple[int, str, str]]:
    """Return code, output and errors of two processes, started together; ``INDEX`` stands for 0 and
    1.
    """
    fixed = {**os.environ, **QUICK}
    started = []
    for index in "01":
        own = {name: value.replace("INDEX", index) for name, value in environment.items()}
        line = [sys.executable, *(part.replace("INDEX", index) for part in command)]
        started.append(
            subprocess.Popen(
                line,
                env={**fixed, **own},
                cwd=cwd,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    try:
        said = [process.communicate(timeout=240) for process in started]
    finally:
        for process in started:
            process.kill()
    return [(process.returncode, *texts) for process, texts in zip(started, said, strict=True)]


@pytest.fixture
def port() -> str:
    """One that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


@pytest.mark.parametrize(
    ("which", "names"),
    [
        ("hosts", many_devices.HOSTS),
        pytest.param("pair", many_devices.PAIR, marks=pytest.mark.slow),
    ],
    ids=["few", "many"],
)
def test_two_processes_give_what_one_gives(port, which, names):
    for code, out, errors in two("-m", "tests.many_devices", which, "INDEX", port):
        assert code == 0, errors
        wrong = json.loads(out.splitlines()[-1])
        assert wrong == dict.fromkeys(names, ""), wrong


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["slurm", "kubernetes"])
def test_the_script_of_the_documentation_runs_as_its_launchers_start_it(launcher, port, tmp_path):
    (tmp_path / "embed.py").write_text(pages.code("docs/many_devices.md")[-1])
    environment = {
        "COORDINATOR": f"127.0.0.1:{port}",
        "PROCESSES": "2",
        "JOB_COMPLETION_INDEX": "INDEX",
    }
    if launcher == "slurm":  # of whose number JAX makes the port
        environment = {
            "SLURM_JOB_ID": port,
            "SLURM_STEP_NODELIST": "localhost",
            "SLURM_NTASKS": "2",
            "SLURM_PROCID": "INDEX",
            "SLURM_LOCALID": "0",
        }
    for code, _, errors in two("embed.py", cwd=tmp_path, PYTHONPATH=str(pages.ROOT), **environment):
        assert code == 0, errors
    found = np.concatenate([np.load(tmp_path / f"z-{start}.npy") for start in (0, 100)])
    graph = graphs.from_edges(np.stack([np.arange(200), (np.arange(200) + 1) % 200], 1), 200)
    x = np.concatenate(
        [np.random.default_rng(start).uniform(-1, 1, (100, 16)) for start in (0, 100)]
    )
    mechanism = features.HDS(1.0, dim=16, k=4)
    one = servers.private_embedding(
        jax.random.key(0), graph, x.astype(np.float32), mechanism, alpha=0.1, r=0.5
    )
    np.testing.assert_allclose(found, one.z, rtol=0, atol=many_devices.TOLERANCE)
