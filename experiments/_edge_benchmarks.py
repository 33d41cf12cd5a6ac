"""Benchmarks of neighbour lists, and of all jobs on graphs of up to 10^8 edges."""

import dataclasses
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import networkx as nx
import numpy as np

import ldp_jax
from experiments import _references, _runner
from experiments._sides import Rows, Sides, clock, code_of, in_a_process, key_of, row
from ldp_jax import datasets, edges, features, servers
from ldp_jax.graph import graphs, propagation


def dprr_sides(n: int) -> Sides:
    """DPRR at epsilon 1, of which the degree takes 0.1, and the same law in sparse NumPy."""
    graph = graphs.from_edges(np.array(nx.barabasi_albert_graph(n, 3, seed=0).edges()), n)
    m = edges.DPRR(0.1, 0.9)
    senders = np.asarray(graph.senders)
    receivers = np.asarray(graph.receivers)
    codes = np.sort(receivers.astype(np.int64) * n + senders)
    reported = len(edges.privatize_graph(jax.random.key(0), graph, m).graph.senders)
    ours = lambda repeat: edges.privatize_graph(key_of(repeat), graph, m).graph.senders
    sparse = lambda repeat: _references.dprr(_references.generator(repeat), codes, n, (0.1, 0.9))
    return {
        "ldp_jax": (ours, f"mean degree {reported / n:.2f} for a true {len(senders) / n:.2f}"),
        "sparse numpy": (sparse, "the same law by the reported bits alone; one thread"),
    }


def chung_lu(n: int, m: int) -> np.ndarray:
    """m distinct edges of n nodes whose expected degrees follow a power law of exponent about 3.2.

    Int32 [m, 2].
    """
    rng = np.random.default_rng(0)
    # Node i has the weight (i + 10)^-0.45; the law is inverted in closed form, far faster than
    # looked up.
    first, last = 10.0**0.55, (n + 10.0) ** 0.55
    codes = np.zeros(0, np.int64)
    while len(codes) < m:
        blocks = [codes]
        for _ in range(-(-int((m - len(codes)) * 1.2) // 10**7)):
            ends = ((first + rng.random((2, 10**7)) * (last - first)) ** (1 / 0.55) - 10.0).astype(
                np.int64
            )
            low = ends.min(0)
            high = np.minimum(ends.max(0), n - 1)
            blocks.append((low * n + high)[low < high])
        codes = np.sort(np.concatenate(blocks))  # np.unique hashes, which takes ten times as long
        codes = codes[np.append(True, codes[1:] != codes[:-1])]
    codes = np.delete(codes, rng.choice(len(codes), len(codes) - m, replace=False))
    pairs = np.empty((m, 2), np.int32)
    pairs[:, 0], pairs[:, 1] = np.divmod(codes, n)
    return pairs


_BIG = {
    "dprr": "DPRR",
    "counts": "NeighbourCounts, 10 groups,",
    "embedding": "private_embedding to a file, 64 features, tol 1e-4,",
}


def _alone(title: str, job: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
    """The row of a job in a process of its own; its title names the edges that the job counts."""
    _runner.console.print(title)
    found = in_a_process(code_of(job, *given), what=f"{title}: not finished")
    title += f" and {found['edges']:,} edges" if "edges" in found else ""
    return row(title, "ldp_jax", 0, round(found["wall"], 2), round(found["cpu"], 2), found["note"])


def big_graph(
    names: tuple[str, ...] = ("dprr", "counts"),
    sizes: tuple[tuple[int, int], ...] = ((3_000_000, 100_000_000),),
) -> Rows:
    """Jobs on generated graphs (nodes and edges), each in a fresh process."""
    rows = []
    for n, m in sizes:
        with tempfile.TemporaryDirectory() as folder:
            _runner.console.print(f"generating {m:,} edges among {n:,} nodes (not timed)")
            np.save(f"{folder}/edges.npy", chung_lu(n, m))
            rows += [
                _alone(f"{_BIG[job]} on one graph of {n:,} nodes", big_job, job, folder, n)
                for job in names
            ]
    return rows


def big_counts() -> Rows:
    """Neighbour counts alone, on 10^6, 10^7 and 10^8 edges: what one edge more takes."""
    return big_graph(
        ("counts",), ((30_000, 1_000_000), (300_000, 10_000_000), (3_000_000, 100_000_000))
    )


def big_embedding() -> Rows:
    """Embeddings of 10^4 to 10^6 nodes of mean degree 20, and of 10^6 to 10^8 edges, 33 a node."""
    few = ((10_000, 100_000), (100_000, 1_000_000), (1_000_000, 10_000_000))
    return big_graph(
        ("embedding",), (*few, (30_000, 1_000_000), (300_000, 10_000_000), (3_000_000, 100_000_000))
    )


_JOBS = {
    "counts": "predict_from_counts, 1,000 labels, epsilon 2,",
    "reports": "predict_from_reports, a panel of 1,000, epsilon 2,",
}


def big_classes(job: str) -> Rows:
    """Classes from lists (counts) or records (reports) on synthetic graphs, a process each."""
    sizes = (10_000, 100_000, 1_000_000)
    return [_alone(f"{_JOBS[job]} on one graph of {n:,} nodes", classes_job, job, n) for n in sizes]


def classes_job(job: str, n: int) -> dict[str, Any]:
    """Time and memory of a job on a synthetic graph, compilation counted."""
    classes = 7
    sizes = {"num_nodes": n, "num_classes": classes, "num_features": 1000}
    data = datasets.synthetic(key_of(0), **sizes, mean_degree=15, homophily=0.7)
    known = np.random.default_rng(0).permutation(n)[:1000]
    truth = np.asarray(data.y)
    labels = np.full(n, -1)
    labels[known] = truth[known]

    def predicted() -> Any:
        if job == "counts":
            return ldp_jax.predict_from_counts(
                key_of(1), data.graph, data.x, labels, 2.0, num_classes=classes
            )
        return ldp_jax.predict_from_reports(
            key_of(1), data.graph, data.x, known, truth[known], 2.0, num_classes=classes
        )

    bare = _gigabytes()
    found, wall, cpu = _timed(predicted)
    accuracy = 100 * float((found.classes == truth)[labels < 0].mean())
    note = (
        f"{classes} classes, about 10 words of 1,000 a node; compilation included; accuracy "
        f"{accuracy:.1f} %; {_memory(bare)} the call"
    )
    return {"wall": wall, "cpu": cpu, "note": note, "edges": data.num_edges}


@dataclasses.dataclass(frozen=True)
class Tiled:
    """Records [num_nodes, d] that repeat some rows: a source of more than memory holds."""

    rows: np.ndarray
    num_nodes: int

    num_features = property(lambda self: self.rows.shape[1])

    def scaled_rows(self, start: int, stop: int) -> np.ndarray:
        return np.take(self.rows, np.arange(start, stop), axis=0, mode="wrap")


def big_reports() -> Rows:
    """HDS reports of records that are read some thousands at a time, a process each."""
    sizes = (100_000, 1_000_000, 10_000_000)
    return [
        _alone(f"HDS, 10 of 1,000 numbers, records streamed, {n:,} users", reports_job, n)
        for n in sizes
    ]


def reports_job(users: int) -> dict[str, Any]:
    """Time and memory of the reports of so many users, compilation counted."""
    records = np.random.default_rng(0).uniform(-1, 1, (4096, 1000)).astype(np.float32)
    source = Tiled(records, users)
    mechanism = features.HDS(1.0, dim=1000, k=10)
    bare = _gigabytes()
    reports, wall, cpu = _timed(lambda: servers.perturb(key_of(1), source, mechanism))
    sent = sum(leaf.nbytes for leaf in jax.tree.leaves(reports)) / 1e9
    note = (
        f"{4e-6 * users:.3g} GB of records, 4,096 of them repeated; {sent:.2g} GB of reports; "
        f"{users / cpu:,.0f} users a CPU second; {_memory(bare)} the call"
    )
    return {"wall": wall, "cpu": cpu, "note": note}


def big_job(name: str, folder: str, n: int) -> dict[str, Any]:
    """Time and memory of DPRR, counts or an embedding on the graph of a folder."""
    bare = _gigabytes()
    taken = clock()
    graph: Any = graphs.from_edges(np.load(f"{folder}/edges.npy"), n)
    loaded, _ = taken()
    directed = len(graph.senders)
    found = (
        _embedding(graph, n, folder) if name == "embedding" else _released(name, graph, n, taken)
    )
    note = (
        f"{directed:,} directed edges in ({8 * directed / 1e9:.2g} GB), {found['note']}; loading "
        f"{loaded:.1f} s; {_memory(bare)} anything was read"
    )
    return {**found, "note": note, "edges": directed // 2}


def _gigabytes() -> float:
    """The most that this process has held; ru_maxrss of a child begins at its parent's."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e9
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def _memory(bare: float) -> str:
    return f"{_gigabytes():.1f} GB at most, {bare:.1f} GB of them before"


def _timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    taken = clock()
    return jax.block_until_ready(call()), *taken()


def _released(
    name: str, graph: Any, n: int, taken: Callable[[], tuple[float, float]]
) -> dict[str, Any]:
    """DPRR or counts at epsilon 1; the times are of all, from the file on."""
    key = jax.random.key(0)
    loaded, _ = taken()
    if name == "dprr":
        noisy = edges.privatize_graph(key, graph, edges.DPRR.from_epsilon(1.0, n_max=n))
        sent = f"{len(noisy.graph.senders):,} directed edges out"
    else:
        groups = np.random.default_rng(0).integers(0, 10, n)
        counts = edges.NeighbourCounts(1.0, 10)
        sent = f"{edges.privatize_counts(key, graph, counts, groups).counts.size:,} counts out"
    wall, cpu = taken()
    return {"wall": wall, "cpu": cpu, "note": f"{sent}; reports {wall - loaded:.1f} s"}


def _embedding(graph: Any, n: int, folder: str) -> dict[str, Any]:
    """HDS records of a file, embedded to a file."""
    dim = 64
    mechanism = features.HDS(1.0, dim=64, k=10)
    x = np.lib.format.open_memmap(f"{folder}/x.npy", "w+", np.float32, (n, dim))
    for start in range(0, n, 2**16):
        rows = x[start : start + 2**16]
        rows[:] = np.random.default_rng(start).random(rows.shape, np.float32)
    x.flush()
    x = np.load(f"{folder}/x.npy", mmap_mode="r")
    op, layout, _ = _timed(lambda: propagation.operator(graph))

    def embedded(seed: int, tol: float) -> Any:
        reports = servers.perturb(key_of(seed), x, mechanism)
        z = np.lib.format.open_memmap(
            f"{folder}/z{seed}.npy", "w+", np.float32, x.shape, fortran_order=True
        )
        for start, block in servers.propagate_blocks(
            op, mechanism, reports, alpha=0.1, r=0.1, tol=tol
        ):
            z[:, start : start + block.shape[1]] = block
        return z

    _, first, _ = _timed(lambda: embedded(0, 1.0))  # compiles, and makes no product
    _, wall, cpu = _timed(lambda: embedded(1, 1e-4))
    products = int(propagation.chebyshev_steps(0.1, 1e-4))
    each = cpu / (len(graph.senders) * dim * products) * 1e9
    note = (
        f"{products} products, {each:.2f} CPU ns an edge, column and product; layout {layout:.1f} "
        f"s, compilation and reports before it {first:.1f} s"
    )
    return {"wall": wall, "cpu": cpu, "note": note}
