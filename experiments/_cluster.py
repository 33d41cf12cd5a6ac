"""Cells on the workers of Dask: one process and one thread each, rows written by who submits."""

import contextlib
import glob
import logging
import os
import re
import signal
import sys
from collections.abc import Generator, Iterator, Mapping
from functools import partial
from typing import Any

from distributed import Client, Nanny, Scheduler, SpecCluster, Worker, WorkerPlugin, as_completed

from experiments._runner import Compute, Computed, UsageError, asked, timed
from ldp_jax.core.compilation import compilation_cache
from ldp_jax.core.progress import phase

_CLUSTERS = re.compile(r"(local|slurm):([1-9]\d*)|(slurm)|(?:tcp|tls)://\S+:\d+")
_JOBS = 8
"""SLURM jobs where the word does not say how many."""


def check(word: str) -> None:
    """Refuse a word that names no cluster."""
    if not _CLUSTERS.fullmatch(word):
        raise UsageError(
            f"--cluster {word}: must be local:4 (processes here), tcp://HOST:PORT (a scheduler), "
            "or slurm:16 (jobs)"
        )


def computed(
    work: Mapping[Any, Any], compute: Compute, word: str, called: str
) -> Generator[Computed]:
    """Compute cells on the workers that a word names, and yield each as it ends.

    Each group goes to one worker, which keeps what its cells share. Idle workers take cells from
    busy ones, and Dask gives the cells of a lost worker to another.
    """
    groups: dict[Any, list[Any]] = {}
    for cell in work:
        groups.setdefault(cell.group, []).append(cell)
    with _client(word) as client:
        phase("waits for the first worker", 0.0)
        client.wait_for_workers(1)
        workers = list(client.nthreads())
        futures = []
        for number, cells in enumerate(groups.values()):
            futures += client.map(
                partial(timed, compute),
                cells,
                [work[cell] for cell in cells],
                pure=False,
                workers=workers[number % len(workers)],
                allow_other_workers=True,
                priority=-number,
            )
        phase(f"0 of {len(work)} {called}, {len(workers)} workers", 0.0)
        for done, (_, made) in enumerate(as_completed(futures, with_results=True), start=1):
            yield made
            words = f"{done} of {len(work)} {called}, {len(client.nthreads())} workers"
            phase(f"{words}, last {made.cell}", done / len(work))


@contextlib.contextmanager
def _client(word: str) -> Iterator[Client]:
    logging.getLogger("distributed").setLevel(logging.ERROR)
    with contextlib.ExitStack() as opened:
        where: Any = word
        kind, _, count = word.partition(":")
        if kind == "local":
            where = opened.enter_context(_local(int(count)))
        elif kind == "slurm":
            where = opened.enter_context(_slurm(int(count or _JOBS)))
        with asked(f"--cluster {word}", OSError):
            client = opened.enter_context(Client(where))
        client.register_plugin(_Ready([os.path.abspath(place) for place in sys.path]))
        yield client


def _local(count: int) -> SpecCluster:
    """Processes of this machine; where it has several GPUs, each sees one of them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    gpus = [gpu for gpu in visible if gpu] or range(len(glob.glob("/dev/nvidia[0-9]*")))
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "error")  # read where a process starts
    workers = {}
    for rank in range(count):
        environment = {"CUDA_VISIBLE_DEVICES": str(gpus[rank % len(gpus)])} if gpus else {}
        options = {"nthreads": 1, "memory_limit": 0, "host": "localhost", "env": environment}
        workers[rank] = {"cls": Nanny, "options": options}
    # Any free port: a second grid on this machine has one of its own.
    options = {"host": "localhost", "dashboard": False, "dashboard_address": "localhost:0"}
    scheduler = {"cls": Scheduler, "options": options}
    return SpecCluster(workers=workers, scheduler=scheduler, name="ldp_jax")


def _slurm(jobs: int) -> Any:
    """SLURM jobs of one worker, with the queue, memory and time of ``jobqueue.yaml``."""
    try:
        from dask_jobqueue.slurm import SLURMCluster
    except ImportError as error:
        raise UsageError("--cluster slurm: pip install 'ldp_jax[cluster]'") from error
    with asked("--cluster slurm, by ~/.config/dask/jobqueue.yaml"):
        cluster = SLURMCluster(cores=1, processes=1)
        cluster.scale(jobs=jobs)
    return cluster


class _Ready(WorkerPlugin):
    """Makes a worker find what the submitter finds, such as own methods, and keep programs."""

    def __init__(self, places: list[str]) -> None:
        self.places = places

    def setup(self, worker: Worker) -> None:
        sys.path += [place for place in self.places if place not in sys.path]
        os.environ["LDP_JAX_PROGRESS"] = "0"  # the submitter shows how far all of them are
        logging.getLogger("distributed").setLevel(logging.ERROR)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the submitter
        compilation_cache()
