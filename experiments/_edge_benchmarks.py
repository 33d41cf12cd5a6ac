"""Benchmarks of neighbour lists: DPRR against a dense version, and one graph of 10^8 edges."""

import tempfile
from pathlib import Path
from typing import Any

import jax
import networkx as nx
import numpy as np

from experiments._runner import console
from experiments._sides import Sides, in_a_process, key_of, row
from ldp_jax import edges
from ldp_jax.graph import graphs


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

    def dense(repeat: int) -> Any:
        degree = np.clip(matrix.sum(1) + rng.laplace(0, 10.0, n), 0, n - 1)
        q = np.minimum(1.0, degree / (degree * (1 - 2 * flip) + (n - 1) * flip))
        kept = (rng.random((n, n)) < flip) != matrix
        kept &= rng.random((n, n)) < q[:, None]
        np.fill_diagonal(kept, False)
        return np.nonzero(kept)

    reported = len(edges.privatize_graph(jax.random.key(0), graph, m).graph.senders)
    return {
        "ldp_jax": (
            lambda repeat: edges.privatize_graph(key_of(repeat), graph, m).graph.senders,
            f"mean degree {reported / n:.2f} for a true {len(senders) / n:.2f}",
        ),
        "dense numpy": (dense, "every entry of the matrix, as the law is written"),
    }


_CHILD = """
import json, resource, sys, time
start = time.perf_counter()
import jax, numpy as np
from ldp_jax import edges
from ldp_jax.graph import graphs
def gigabytes():  # ru_maxrss of a child begins at what its parent had
    try:
        with open("/proc/self/status") as status:
            most = next(line.split()[1] for line in status if line.startswith("VmHWM"))
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(most) * 1024 / 1e9
bare = gigabytes()
pairs, n = np.load(sys.argv[1]), int(sys.argv[2])
graph = graphs.from_edges(pairs, n)
del pairs
loaded = time.perf_counter()
if sys.argv[3] == "dprr":
    noisy = edges.privatize_graph(jax.random.key(0), graph, edges.DPRR.from_epsilon(1.0, n_max=n))
    out = len(noisy.graph.senders)
else:
    groups = np.random.default_rng(0).integers(0, 10, n)
    noisy = edges.privatize_counts(jax.random.key(0), graph, edges.NeighbourCounts(1.0, num_groups=10), groups)
    out = noisy.counts.size
done = time.perf_counter()
print(json.dumps({
    "load": loaded - start, "privatize": done - loaded, "cpu": time.process_time(),
    "in": len(graph.senders), "out": out,
    "bare": bare, "gigabytes": gigabytes(),
}))
"""


def chung_lu(n: int, m: int, seed: int = 0) -> np.ndarray:
    """m distinct edges of n nodes whose expected degrees follow a power law of exponent about 3.2; int32 [m, 2]."""
    rng = np.random.default_rng(seed)
    # Node i has the weight (i + 10)^-0.45; the law is inverted in closed form, far faster than looked up.
    first, last = 10.0**0.55, (n + 10.0) ** 0.55
    codes = np.zeros(0, np.int64)
    while len(codes) < m:
        blocks = [codes]
        for _ in range(-(-int((m - len(codes)) * 1.2) // 10**7)):
            ends = ((first + rng.random((2, 10**7)) * (last - first)) ** (1 / 0.55) - 10.0).astype(np.int64)
            low, high = ends.min(0), np.minimum(ends.max(0), n - 1)
            blocks.append((low * n + high)[low < high])
        codes = np.sort(np.concatenate(blocks))  # np.unique hashes, which takes ten times as long
        codes = codes[np.append(True, codes[1:] != codes[:-1])]
    codes = np.delete(codes, rng.choice(len(codes), len(codes) - m, replace=False))
    pairs = np.empty((m, 2), np.int32)
    pairs[:, 0], pairs[:, 1] = np.divmod(codes, n)
    return pairs


_BIG = {"dprr": "DPRR", "counts": "NeighbourCounts, 10 groups,"}


def big_graph(
    names: tuple[str, ...] = tuple(_BIG), sizes: tuple[tuple[int, int], ...] = ((3_000_000, 100_000_000),)
) -> list[dict[str, Any]]:
    """DPRR and neighbour counts at epsilon 1 on generated graphs (nodes and edges), each in a fresh process."""
    rows = []
    for n, m in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "edges.npy"
            console.print(f"generating {m:,} edges among {n:,} nodes (not timed)")
            np.save(path, chung_lu(n, m))
            rows += [_one_big(name, path, n, m) for name in names]
    return rows


def big_counts() -> list[dict[str, Any]]:
    """Neighbour counts alone, on 10^6, 10^7 and 10^8 edges: what one edge more takes."""
    return big_graph(("counts",), ((30_000, 1_000_000), (300_000, 10_000_000), (3_000_000, 100_000_000)))


def _one_big(name: str, path: Path, n: int, m: int) -> dict[str, Any]:
    words = _BIG[name]
    console.print(f"loading and privatising: {words.rstrip(',')}")
    found = in_a_process(_CHILD, str(path), str(n), name, what="the big graph was not finished")
    sent = f"{found['out']:,} {'directed edges' if name == 'dprr' else 'counts'} out"
    note = (
        f"{found['in']:,} directed edges in ({8 * found['in'] / 1e9:.2g} GB), {sent}; loading "
        f"{found['load']:.1f} s, reports {found['privatize']:.1f} s, {found['gigabytes']:.1f} GB at most, "
        f"{found['bare']:.1f} GB of them before the file was read"
    )
    title = f"{words} on one graph of {n:,} nodes and {m:,} edges"
    return row(title, "ldp_jax", 0, round(found["load"] + found["privatize"], 1), round(found["cpu"], 1), note)
