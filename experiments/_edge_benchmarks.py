"""Benchmarks of neighbour lists: DPRR against a dense version, and one graph of 10^8 edges."""

import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import networkx as nx
import numpy as np

from experiments._runner import console
from ldp_jax import edges, graphs

Sides = dict[str, tuple[Callable[[], Any], str]]


def barabasi_albert(n: int) -> Any:
    """A Barabasi-Albert graph, m = 3, as a graph of the library."""
    return graphs.from_edges(np.array(nx.barabasi_albert_graph(n, 3, seed=0).edges()), n)


def dprr_sides(n: int) -> Sides:
    """DPRR at epsilon 1 (0.1 of it for the degree): sparse, and every pair of the matrix in NumPy."""
    graph, m = barabasi_albert(n), edges.DPRR(0.1, 0.9)
    senders, receivers = np.asarray(graph.senders), np.asarray(graph.receivers)
    matrix = np.zeros((n, n), bool)
    matrix[receivers, senders] = True
    rng = np.random.default_rng(0)
    flip = 1 / (1 + np.exp(0.9))

    def dense() -> Any:
        degree = np.clip(matrix.sum(1) + rng.laplace(0, 10.0, n), 0, n - 1)
        q = np.minimum(1.0, degree / (degree * (1 - 2 * flip) + (n - 1) * flip))
        kept = (rng.random((n, n)) < flip) != matrix
        kept &= rng.random((n, n)) < q[:, None]
        np.fill_diagonal(kept, False)
        return np.nonzero(kept)

    reported = len(edges.privatize_graph(jax.random.key(0), graph, m).graph.senders)
    seeds = itertools.count(1)  # a key for each repeat: one key would hide what another has to compile
    return {
        "ldp_jax": (
            lambda: edges.privatize_graph(jax.random.key(next(seeds)), graph, m).graph.senders,
            f"mean degree {reported / n:.2f} for a true {len(senders) / n:.2f}",
        ),
        "dense numpy": (dense, "every entry of the matrix, as the law is written"),
    }


_CHILD = """
import json, resource, sys, time
start = time.perf_counter()
import jax, numpy as np
from ldp_jax import edges, graphs
pairs, n = np.load(sys.argv[1]), int(sys.argv[2])
graph = graphs.from_edges(pairs, n)
del pairs
loaded = time.perf_counter()
noisy = edges.privatize_graph(jax.random.key(0), graph, edges.DPRR.from_epsilon(1.0, n_max=n))
done = time.perf_counter()
print(json.dumps({
    "load": loaded - start, "privatize": done - loaded, "cpu": time.process_time(),
    "in": len(graph.senders), "out": len(noisy.graph.senders),
    "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
}))
"""


def chung_lu(n: int, m: int, seed: int = 0) -> np.ndarray:
    """m distinct edges of n nodes whose expected degrees follow a power law of exponent about 3.2; int32 [m, 2]."""
    rng = np.random.default_rng(seed)
    weight = (np.arange(n) + 10.0) ** -0.45
    cumulative = np.cumsum(weight / weight.sum())
    codes = np.zeros(0, np.int64)
    while len(codes) < m:
        blocks = [codes]
        for _ in range(-(-int((m - len(codes)) * 1.2) // 10**7)):
            ends = np.searchsorted(cumulative, rng.random((2, 10**7)))
            low, high = ends.min(0), ends.max(0)
            blocks.append((low * n + high)[low < high])
        codes = np.unique(np.concatenate(blocks))
    codes = codes[np.sort(rng.permutation(len(codes))[:m])] if len(codes) > m else codes
    return np.stack([codes // n, codes % n], 1).astype(np.int32)


def big_graph(n: int = 3_000_000, m: int = 100_000_000) -> list[dict[str, Any]]:
    """DPRR at epsilon 1 on one generated graph, from the file of its edges, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edges.npy"
        console.print(f"generating {m:,} edges among {n:,} nodes (not timed)")
        np.save(path, chung_lu(n, m))
        console.print("loading and privatising")
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, str(path), str(n)], capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise SystemExit(f"the big graph was not finished: {done.stderr.strip().splitlines()[-1]}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    note = (
        f"{found['in']:,} directed edges in, {found['out']:,} out; loading {found['load']:.0f} s, reports "
        f"{found['privatize']:.0f} s, {found['gigabytes']:.1f} GB at most"
    )
    return [
        {
            "benchmark": f"DPRR on one graph of {n:,} nodes and {m:,} edges", "subject": "ldp_jax", "repeat": 0,
            "wall_s": round(found["load"] + found["privatize"], 1), "cpu_s": round(found["cpu"], 1), "note": note,
        }
    ]  # fmt: skip
