"""One to eight simulated devices, and two processes.

It measures the cost of dividing work where all of them share the same cores.
"""

import math
import os
import re
import socket
import subprocess
import sys
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from experiments._sides import Rows, clock, code_of, in_a_process, row
from ldp_jax.core.progress import phase, watched
from ldp_jax.graph import graphs, propagation

SIDES = {
    "ldp_jax": (1, 1),
    "2 devices": (2, 1),
    "4 devices": (4, 1),
    "8 devices": (8, 1),
    "2 processes": (1, 2),
}
"""Devices a process, and processes; the first one is one device."""

NODES = 16_384
COLUMNS = 256
DEGREE = 16
ALPHA = 0.1
R = 0.1
TOL = 1e-5


def scaling(repeats: int) -> Rows:
    """Strong and weak scaling of divided columns and of divided nodes.

    A fresh process for each side and turn.
    """
    rows = []
    with watched("scaling"):
        for turn, (side, (devices, processes)) in enumerate([*SIDES.items()] * repeats):
            phase(side, turn / (repeats * len(SIDES)))
            flags = (
                f"{os.environ.get('XLA_FLAGS', '')} "
                f"--xla_force_host_platform_device_count={devices}"
            )
            found = in_a_process(
                code_of(child, processes, 0, _free_port()), what=f"scaling, {side}",
                environment={"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
            )  # fmt: skip
            rows += [row(name, side, turn // len(SIDES), *times) for name, times in found.items()]
    return sorted(rows, key=lambda line: line["benchmark"])


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def child(processes: int, index: int, port: int) -> dict[str, tuple[float, float, str]]:
    """One side, in each of its processes, of which the first starts the others."""
    if processes > 1:
        for other in range(1, processes) if index == 0 else ():
            command = [sys.executable, "-c", code_of(child, processes, other, port)]
            subprocess.Popen(command, stdout=subprocess.DEVNULL)
        jax.distributed.initialize(f"127.0.0.1:{port}", processes, index)
    parts = jax.device_count()
    return {
        "strong scaling, ppr by columns": _columns(COLUMNS),
        "weak scaling, ppr by columns": _columns(COLUMNS // 8 * parts),
        "strong scaling, ppr by nodes": _nodes(NODES),
        "weak scaling, ppr by nodes": _nodes(NODES // 8 * parts),
    }


def _graph(nodes: int) -> Any:
    ends = np.random.default_rng(0).integers(0, nodes, (nodes * DEGREE // 2, 2))
    return graphs.from_edges(np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], 1), axis=0), nodes)


def _mesh() -> jax.sharding.Mesh:
    return jax.make_mesh((jax.device_count(),), ("devices",))


def _columns(columns: int) -> tuple[float, float, str]:
    op = jax.device_put(propagation.operator(_graph(NODES)), NamedSharding(_mesh(), P()))
    return _timed(op, NODES, columns, P(None, "devices"))


def _nodes(nodes: int) -> tuple[float, float, str]:
    return _timed(propagation.operator(_graph(nodes), mesh=_mesh()), nodes, 64, P("devices", None))


def _timed(op: propagation.Operator, nodes: int, columns: int, spec: P) -> tuple[float, float, str]:
    """The median of three calls after one that compiles.

    Wall, CPU of all processes, and what moves.
    """

    def part(index: Any) -> np.ndarray:
        shape = [
            len(range(*one.indices(size)))
            for one, size in zip(index, (nodes, columns), strict=True)
        ]
        return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)

    x = jax.make_array_from_callback((nodes, columns), NamedSharding(_mesh(), spec), part)
    pages = lambda op, x: propagation.ppr(op, x, ALPHA, R, TOL)
    whole = collective_bytes(str(jax.jit(pages).lower(op, x).compile().as_text()))
    moved = whole * (1 - 1 / jax.device_count())  # the device's own part does not move
    times = []
    for _ in range(4):
        taken = clock()
        jax.block_until_ready(pages(op, x))
        times.append(taken())
    wall, cpu = np.median(times[1:], 0).tolist()
    note = (
        f"{nodes:,} nodes, {columns} columns; a device receives {moved / 1e6:.1f} MB a product "
        "and block"
    )
    return wall, jax.process_count() * cpu, f"{note}; all devices share {os.cpu_count()} cores"


def collective_bytes(text: str) -> int:
    """The bytes of 32-bit results of a compiled program's collective operations."""
    kinds = r"(?:all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)(?:-start)?\("
    found = re.findall(rf"= \(?[a-z]+32\[([\d,]*)\][^\n]*? {kinds}", text)
    return sum(4 * math.prod(int(size) for size in shape.split(",") if size) for shape in found)
