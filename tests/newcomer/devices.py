"""From devices to an embedding: client processes report, two servers store, some are killed,
nothing is lost.

``python devices.py --clients 200`` needs ``ldp_jax[store]``. Every client is a process of its own
that keeps its secret and memory in files; it imports no JAX. Clients and one server are killed at
random and started again. With ``--device PYTHON`` clients run in an environment that has
``ldp_jax_client`` alone; what they send is the same.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

from ldp_jax import deployment, features, servers
from ldp_jax.deployment.store import ReportStore
from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import operator

DIM = 16
K = 4
EPSILON = 4.0

CLIENT = """
import importlib, os, sys
from pathlib import Path
import numpy as np

def kept(path, data):  # whole, or not there: written before anything is sent
    path.with_suffix(".part").write_bytes(data)
    os.replace(path.with_suffix(".part"), path)

folder, user, k = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
deployment = importlib.import_module(sys.argv[4])
assert "jax" not in sys.modules
secret, memory, sent = (folder / f"{user}.{name}" for name in ("secret", "memory", "sent"))
if not secret.exists():
    kept(secret, deployment.Device.new().secret)
device = deployment.Device.from_secret(secret.read_bytes())
table = deployment.Table.from_bytes((folder / "table").read_bytes())
record = np.load(folder / "records.npy")[user]
if memory.exists():
    session = deployment.Session.from_bytes(device, memory.read_bytes())
else:
    session = deployment.Session(device, budget=4.0)
if session.counter:  # killed before it had sent: the same report, which costs nothing
    report = session.resend(table, user=user, round=0)
else:
    report = session.report_sampled(table, record, k, user=user, round=0)
    kept(memory, session.to_bytes())
kept(sent, report)
"""

SERVER = """
import sys, time
from pathlib import Path
from ldp_jax import deployment
from ldp_jax.deployment.store import ReportStore
folder, done = Path(sys.argv[1]), set()
table = deployment.Table.from_bytes((folder / "table").read_bytes())
store = ReportStore(folder / "store")
while not (folder / "closed").exists() or set(folder.glob("*.sent")) - done:
    for path in sorted(set(folder.glob("*.sent")) - done):
        store.add(path.read_bytes(), table)
        done.add(path)
    time.sleep(0.05)
"""


def start(code: str, *words: object, python: str = sys.executable) -> subprocess.Popen:
    """A process that runs some code."""
    return subprocess.Popen([python, "-c", code, *map(str, words)])


def collect(folder: Path, clients: int, chance: random.Random, device: str | None) -> None:
    """Run everybody until each client has sent, killing some on the way."""
    python, package = (
        (device, "ldp_jax_client") if device else (sys.executable, "ldp_jax.deployment")
    )
    servers = [start(SERVER, folder) for _ in range(2)]
    waiting = list(range(clients))
    while waiting:
        some, waiting = waiting[:10], waiting[10:]
        processes = {user: start(CLIENT, folder, user, K, package, python=python) for user in some}
        time.sleep(0.1)
        for user in chance.sample(some, len(some) // 5):
            processes[user].send_signal(signal.SIGKILL)
        waiting += [user for user, process in processes.items() if process.wait() != 0]
        if servers[0].poll() is None and chance.random() < 0.3:
            servers[0].send_signal(signal.SIGKILL)
        if servers[0].poll() is not None:
            servers[0].wait()
            servers[0] = start(SERVER, folder)
    (folder / "closed").touch()
    assert [server.wait(timeout=300) for server in servers] == [0, 0]


def report(folder: Path, user: int, table: deployment.Table) -> bytes:
    """What this environment's package makes of a client's secret and record."""
    device = deployment.Device.from_secret((folder / f"{user}.secret").read_bytes())
    record = np.load(folder / "records.npy")[user]
    return deployment.Session(device, budget=EPSILON).report_sampled(
        table, record, K, user=user, round=0
    )


def main(clients: int, device: str | None) -> None:
    """Collect, embed, and compare with what was sent."""
    rng = np.random.default_rng(0)
    chance = random.Random(0)
    mechanism = features.Sampled(features.GridSquareWave(EPSILON / K), dim=DIM, k=K)
    table = mechanism.inner.table()
    graph = graphs.from_edges(
        np.stack([np.arange(clients), (np.arange(clients) + 1) % clients], 1), clients
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "table").write_bytes(table.to_bytes())
        np.save(folder / "records.npy", rng.uniform(-1, 1, (clients, DIM)))
        collect(folder, clients, chance, device)
        store = ReportStore(folder / "store")
        reports = store.all(table)
        assert len(reports.user) == clients * K, "a report was lost or counted twice"
        sent = [(folder / f"{user}.sent").read_bytes() for user in range(clients)]
        assert sent == [report(folder, user, table) for user in range(clients)], (
            "other words than this package's"
        )
        again = store.add(b"".join(sent), table)
        assert (again.accepted, again.rejected.replayed) == (0, clients * K)
        spent = store.spent()
        assert len(spent.user) == clients
        assert spent.epsilon.max() <= EPSILON * (1 + 1e-9)

        server = servers.EmbeddingServer(operator(graph), mechanism, 0.1, 0.5)
        found = servers.serve(server, store, users=clients, budget=EPSILON).close_round()
        assert found.rounds[0].reported == clients
        print(f"{clients} clients, {len(reports.user)} reports, embedding {found.value.shape}")
        print(found.guarantee)
        again = ReportStore(store.folder)  # begun anew, it costs nothing more
        service = servers.serve(server, again, users=clients, budget=EPSILON)
        assert (service.released.value == found.value).all()
        print(again.ledger().explain())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--device", help="the Python of an environment with ldp_jax_client alone")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    jax.config.update("jax_platforms", "cpu")
    main(**vars(parser.parse_args()))
