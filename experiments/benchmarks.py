"""How fast, next to what others do: sides in one run, interleaved; ratios of medians."""

import dataclasses
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import scipy.sparse

from experiments import (
    _central_benchmarks,
    _class_benchmarks,
    _declared,
    _edge_benchmarks,
    _references,
    _roofline,
    _scaling_benchmark,
    _training_benchmarks,
)
from experiments._runner import DEFAULT_OUT, check_positive, console
from experiments._sides import (
    Rows,
    Sides,
    installed,
    interleaved,
    key_of,
    torch_device,
    torch_wait,
)
from ldp_jax import datasets, deployment, features
from ldp_jax import hyperbolic as hyperbolics
from ldp_jax.core import mechanism as mechanisms
from ldp_jax.core import random
from ldp_jax.graph import graphs, propagation

NAME = "benchmarks"
Name = Literal[
    "perturb",
    "ppr",
    "discrete",
    "dprr",
    "central",
    "gin",
    "attention",
    "hyperbolic",
    "device",
    "friendships",
    "records",
    "roofline",
    "devices",
    "scaling",
    "big_ppr",
    "big_graph",
    "big_counts",
    "big_embedding",
    "big_lists",
    "big_records",
    "big_reports",
]


@dataclasses.dataclass(frozen=True)
class Config:
    """Speed and memory of the main job's parts, against the fastest others in the same run.

    Not part of the tests: figures depend on the machine. Writes benchmarks.csv and benchmarks.md,
    and on a GPU benchmarks_gpu.csv and .md, as each part ends, and says how long it took.
    """

    parts: tuple[Name, ...] = get_args(Name)[:-9]
    """which ones; devices (models that all of them share) takes a minute, scaling (simulated
    devices) and big_ppr (10^7 edges) minutes, big_graph (10^8 edges) a quarter of an
    hour and 12 GB, big_counts (neighbour counts, up to 10^8 edges) minutes and 6 GB, big_embedding
    (up to 10^8 edges) minutes and 16 GB, big_lists and big_records (up to 10^6 nodes) a quarter of
    an hour each and 6 GB, big_reports (up to 10^7 users) a minute"""
    repeats: int = 5
    """timed runs of each side, after one that is not timed"""
    out: Path = DEFAULT_OUT
    """where the CSV goes; rows of benchmarks that are not run stay"""


def main(config: Config) -> None:
    check_positive("--repeats", config.repeats)
    backend = jax.default_backend()
    name = NAME if backend == "cpu" else f"{NAME}_{backend}"
    run = {
        "perturb": perturb,
        "ppr": lambda repeats: ppr(repeats, *_social_graph()),
        "discrete": discrete,
        "dprr": dprr,
        "central": central,
        "gin": _training_benchmarks.gin_epochs,
        "attention": lambda repeats: interleaved(*_training_benchmarks.gat_sides(), repeats),
        "hyperbolic": hyperbolic,
        "device": device,
        "friendships": lambda repeats: _class_benchmarks.class_rows("friendships", repeats),
        "records": lambda repeats: _class_benchmarks.class_rows("records", repeats),
        "roofline": _roofline.roofline,
        "devices": lambda repeats: interleaved(*_training_benchmarks.many_sides(), repeats),
        "scaling": lambda repeats: _scaling_benchmark.scaling(min(repeats, 3)),
        "big_ppr": lambda _: big_ppr(),
        "big_graph": lambda _: _edge_benchmarks.big_graph(),
        "big_counts": lambda _: _edge_benchmarks.big_counts(),
        "big_embedding": lambda _: _edge_benchmarks.big_embedding(),
        "big_lists": lambda _: _edge_benchmarks.big_classes("counts"),
        "big_records": lambda _: _edge_benchmarks.big_classes("reports"),
        "big_reports": lambda _: _edge_benchmarks.big_reports(),
    }
    found = _frames(config, run, name)
    _declared.measured(config.out, name, found, page=NAME)


def _frames(
    config: Config, run: Mapping[str, Callable[[int], Rows]], name: str
) -> Iterator[pd.DataFrame]:
    """All rows as each part ends, and those of parts that are not run."""
    path = config.out / f"{name}.csv"
    for part in config.parts:
        start = time.perf_counter()
        rows = run[part](config.repeats)
        seconds = time.perf_counter() - start
        new = pd.DataFrame(rows).assign(device=jax.devices()[0].device_kind, cores=os.cpu_count())
        if path.exists():
            old = pd.read_csv(path)
            new = pd.concat([old[~old.benchmark.isin(new.benchmark)], new])
        yield new
        console.print(f"{part}: {seconds:.0f} s; rows: {path}", soft_wrap=True)


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """Medians of all sides, how often they are ours, and the machines."""
    times = ["wall_s", "cpu_s"]
    medians = frame.groupby(["benchmark", "subject"], sort=False)[times].median().reset_index()
    is_ours = medians.subject == "ldp_jax"
    ours = medians[is_ours].set_index("benchmark")[times].reindex(medians.benchmark)
    ratios = medians[times].div(ours.to_numpy()).mask(is_ours)
    machines = frame[["device", "cores"]].drop_duplicates().itertuples(index=False)
    words = [
        f"{'' if device == 'cpu' else f'{device}, host with '}{cores} cores"
        for device, cores in machines
    ]
    devices = frame.device[frame.device != "cpu"].unique()
    return medians.assign(
        wall=ratios.wall_s,
        cpu=ratios.cpu_s,
        machines=" or ".join(words),
        on="".join(f", {device}" for device in devices),
    )


def perturb(repeats: int) -> Rows:
    """HDS on a [22 470 x 4 714] matrix, k = 50, eps = 1."""
    n = 22_470
    d = 4_714
    k = 50
    epsilon = 1.0
    x = np.random.default_rng(0).random((n, d), dtype=np.float32) * 2 - 1
    made = features.HDS(epsilon, d, k)
    on_device = jnp.asarray(x)
    ours = lambda repeat: mechanisms.privatize(key_of(repeat), made, on_device)
    hosted = lambda repeat: mechanisms.privatize(key_of(repeat), made, x)
    sparse = lambda repeat: _references.hds(_references.generator(repeat), x, epsilon, k)
    sides: Sides = {
        "ldp_jax": (ours, "sparse reports, of records on the device"),
        "sparse numpy": (sparse, "the same law by the reported values alone; one thread"),
        "ldp_jax, host": (hosted, "records in the host's memory"),
    }
    return interleaved("perturb HDS [22470 x 4714], k 50", sides, min(repeats, 5))


def _social_graph() -> tuple[str, Any]:
    try:
        return "facebook_pages", datasets.load("facebook_pages").graph
    except datasets.DataUnavailableError:
        data = datasets.synthetic(
            jax.random.key(0),
            num_nodes=22_470,
            num_classes=4,
            num_features=4,
            mean_degree=15.2,
            homophily=0.8,
        )
        return "synthetic, of the size of facebook_pages", data.graph


def big_ppr() -> Rows:
    """The same on a graph whose rows are in no cache, once; SciPy's side would take minutes."""
    nodes, pairs = _roofline.GRAPHS["large"]
    graph = graphs.from_edges(_edge_benchmarks.chung_lu(nodes, pairs), nodes)
    return ppr(1, f"{nodes:,} nodes, {pairs:,} edges", graph, columns=64)


def ppr(repeats: int, name: str, graph: Any, columns: int = 256) -> Rows:
    """Our Chebyshev iteration, against the same recurrence with others' sparse products.

    All sides make as many products, so that the product alone differs.
    """
    n = graphs.num_nodes(graph)
    alpha = 0.1
    r = 0.1
    tol = 1e-5
    some = 8
    x = np.random.default_rng(0).standard_normal((n, columns), dtype=np.float32)
    senders = np.asarray(graph.senders)
    receivers = np.asarray(graph.receivers)
    degree = np.maximum(np.bincount(receivers, minlength=n), 1.0)
    weight = (1 - alpha) * degree[receivers] ** (r - 1) * degree[senders] ** -r
    exact_step = scipy.sparse.csr_array((weight, (receivers, senders)), shape=(n, n))
    step = exact_step.astype(np.float32)
    products, enough = (int(propagation.chebyshev_steps(alpha, one)) for one in (tol, 1e-8))
    exact = semi_iteration(exact_step, alpha * x[:, :some].astype(np.float64), 1 - alpha, enough)

    def error(z: Any) -> float:
        return float(np.linalg.norm(np.asarray(z[:, :some]) - exact) / np.linalg.norm(exact))

    op = propagation.operator(graph)
    on_device = jnp.asarray(x)
    ours = error(propagation.ppr(op, on_device, alpha, r, tol))
    reached = error(semi_iteration(step, alpha * x[:, :some], 1 - alpha, products))
    chebyshev = lambda _: propagation.ppr(op, on_device, alpha, r, tol)
    sides: Sides = {
        "ldp_jax": (chebyshev, f"layout {op.layout}; {products} products; error {ours:.1e}")
    }
    if installed("ppr", "numba"):
        fused = _references.fused_iteration(senders, receivers, degree)
        power = degree[:, None].astype(np.float32) ** np.float32(r)
        sides["numba, fused"] = (
            lambda _: (
                power
                * _by_blocks(lambda part: fused(part, 1 - alpha, products), alpha * x / power, 64)
            ),
            f"product and recurrence in one pass, blocks of 64 columns, all cores: {products} "
            "products",
        )
    if installed("ppr", "torch"):
        about = (
            f"the same recurrence, all columns at a time, on {torch_device()}: {products} products"
        )
        sides["torch CSR Chebyshev"] = (
            _torch_iteration(step, alpha * x, 1 - alpha, products),
            about,
        )
    if repeats > 1:
        sides["scipy CSR Chebyshev"] = (
            lambda _: semi_iteration(step, alpha * x, 1 - alpha, products),
            f"the same recurrence in blocks of 32 columns: {products} products, error "
            f"{reached:.1e}; one thread",
        )
    return interleaved(
        f"ppr, {columns} columns, alpha {alpha}, r {r}, tol {tol}; {name}", sides, repeats
    )


def _torch_iteration(
    step: Any, source: np.ndarray, decay: float, count: int
) -> Callable[[int], Any]:
    """:func:`semi_iteration` by PyTorch's sparse product: MKL's on a CPU, cuSPARSE's on a GPU."""
    import torch  # pyrefly: ignore[missing-import]

    parts = (torch.from_numpy(part) for part in (step.indptr, step.indices, step.data))
    matrix = torch.sparse_csr_tensor(*parts, step.shape, check_invariants=True).to(torch_device())
    start = torch.from_numpy(source).to(torch_device())

    def run(_: int) -> Any:
        with torch.no_grad():
            return torch_wait(_iterated(matrix, start, decay, count, torch.zeros_like(start)))

    return run


def semi_iteration(step: Any, source: np.ndarray, decay: float, count: int) -> np.ndarray:
    """Solve z = step z + source by Chebyshev semi-iteration, by blocks of columns.

    The spectrum of ``step`` is real and within [-decay, decay].
    """
    return _by_blocks(lambda part: _iterated(step, part, decay, count, np.zeros_like(part)), source)


def _iterated(step: Any, source: Any, decay: float, count: int, before: Any) -> Any:
    """The iteration on arrays of NumPy or tensors of PyTorch."""
    z = source
    omega = 2.0
    for _ in range(count):
        omega = 1.0 / (1.0 - 0.25 * decay**2 * omega)
        after = step @ z  # in place from here on, to spare memory traffic
        after += source
        after -= before
        after *= omega
        after += before
        z, before = after, z
    return z


def _by_blocks(
    solve: Callable[[np.ndarray], np.ndarray], source: np.ndarray, width: int = 32
) -> np.ndarray:
    """Columns in blocks that stay in the cache, of the width that is best for a side."""
    out = np.empty_like(source)
    for start in range(0, source.shape[1], width):
        out[:, start : start + width] = solve(
            np.ascontiguousarray(source[:, start : start + width])
        )
    return out


def discrete(repeats: int) -> Rows:
    """Draws from integer tables next to the words they are made of, and to a float32 sampler.

    2^24 of each.
    """
    n = 2**24
    records = jnp.linspace(-1.0, 1.0, n)
    categories = jnp.asarray(np.random.default_rng(0).integers(0, 256, n, dtype=np.int32))
    table = features.GeneralizedRR(1.0, 256)
    grid = features.GridSquareWave(1.0)
    wave = features.SquareWave(1.0)
    words = jax.jit(lambda key: random.bits(key, (n,)))
    draw = jax.jit(lambda m, key, x: m.draw(key, x))
    ours = lambda repeat: draw(table, key_of(repeat), categories)
    gridded = lambda repeat: draw(grid, key_of(repeat), records)
    users = lambda repeat: mechanisms.privatize(key_of(repeat), table, categories)
    sides: Sides = {
        "ldp_jax": (ours, "a 256 x 256 table, one word a draw, one key"),
        "raw words": (lambda repeat: words(key_of(repeat)), "core.random.bits alone"),
        "grid": (gridded, "a 129 x 195 table, two words: records are rounded to a grid"),
        "float32": (
            lambda repeat: draw(wave, key_of(repeat), records),
            "the square wave in float32, one uniform",
        ),
        "users": (
            users,
            "the table again, a key each: two blocks of threefry a draw, at most 0.50 of raw words",
        ),
    }
    rows = interleaved("2^24 draws from a table", sides, repeats)
    walls = pd.DataFrame(rows).groupby("subject").wall_s.median()
    for line in rows:
        rate = n / walls[line["subject"]] / 1e6
        share = walls["raw words"] / walls[line["subject"]]
        line["note"] += f"; {rate:.0f} M draws/s, {share:.2f} of raw words"
    return rows


def dprr(repeats: int) -> Rows:
    rows = []
    for n in (1000, 2000, 4000):
        title = f"DPRR on Barabasi-Albert, m = 3, n = {n}"
        rows += interleaved(title, _edge_benchmarks.dprr_sides(n), repeats)
    return rows


def central(repeats: int) -> Rows:
    """Moves of the chain over dendrograms, and LinkTeller: one run of each is minutes."""
    title, sides, moves = _central_benchmarks.chain_sides()
    rows = interleaved(title, sides, repeats)
    rates = moves / pd.DataFrame(rows).groupby("subject").cpu_s.median()
    for line in rows:
        line["note"] += f"; {rates[line['subject']]:,.0f} moves a CPU second of all cores"
    return rows + interleaved(*_central_benchmarks.linkteller_sides(), min(repeats, 3))


TREE = 10_000
BRANCHES = 3
DIM = 10
"""Nodes of a tree, children of each, and numbers of an embedding."""
BURN_IN, EPOCHS = 3, 7
"""Our passes at a tenth of the learning rate and at all of it; gensim's ten do better without the
former.
"""


def hyperbolic(repeats: int) -> Rows:
    """A Poincaré embedding of a tree's closure, ten passes of each side, and its mean rank."""
    pairs = hyperbolics.closure(np.maximum((np.arange(TREE) - 1) // BRANCHES, 0))
    last: dict[str, np.ndarray] = {}

    def ours(repeat: int) -> Any:
        found = hyperbolics.embed(key_of(repeat), pairs, TREE, DIM, epochs=EPOCHS, burn_in=BURN_IN)
        last["ldp_jax"] = np.asarray(found.points)
        return found

    def theirs(repeat: int) -> Any:
        from gensim.models.poincare import PoincareModel  # pyrefly: ignore[missing-import]

        named = [(str(u), str(v)) for u, v in pairs.tolist()]
        model = PoincareModel(named, size=DIM, burn_in=0, seed=repeat)
        model.train(epochs=BURN_IN + EPOCHS, print_every=10**9)
        last["gensim"] = np.zeros((TREE, DIM), np.float32)
        last["gensim"][np.array(model.kv.index_to_key, int)] = model.kv.vectors
        return last["gensim"]

    sides: Sides = {"ldp_jax": (ours, "batches of pairs that share their random nodes; float32")}
    if installed("hyperbolic", "gensim"):
        sides["gensim"] = (theirs, "PoincareModel without burn-in, relations as text; float64")
    title = f"Poincaré embedding of {len(pairs):,} pairs, {TREE:,} nodes"
    rows = interleaved(title, sides, min(repeats, 3))
    for line in rows:
        found = hyperbolics.poincare.project(last[line["subject"]])
        line["note"] += f"; mean rank {hyperbolics.reconstruction(found, pairs).mean_rank:.0f}"
    return rows


DEVICES = 1_000
FEATURES = 1_433
CLASSES = 7
EPSILON = 2.0
COORDINATES = 10


def device(repeats: int) -> Rows:
    """A thousand devices, one message each, one after the other.

    The own class, or sampled numbers of the record.

    NumPy, hashing and the memory of what was sent are timed.
    """
    rng = np.random.default_rng(0)
    records = rng.poisson(0.02, (DEVICES, FEATURES)).astype(np.float32)
    weights = rng.normal(size=(FEATURES, CLASSES))
    offsets = rng.normal(size=CLASSES)
    classifier = deployment.Classifier(weights, offsets, log_counts=True)
    found = deployment.alphabets(rng.dirichlet(np.ones(CLASSES), DEVICES), EPSILON)
    tables = {
        size: deployment.alphabet_table(EPSILON, size, CLASSES)
        for size in np.unique(found.sizes).tolist()
    }
    own = [
        deployment.Alphabet(order[:size], EPSILON, tables[int(size)])
        for order, size in zip(found.order, found.sizes, strict=True)
    ]
    devices = [deployment.Device(hashlib.sha256(b"%d" % user).digest()) for user in range(DEVICES)]
    coordinate = features.GridSquareWave(EPSILON / COORDINATES).table()

    def classes(repeat: int) -> list[bytes]:
        return [
            deployment.report_class(
                deployment.Session(device, budget=EPSILON),
                classifier,
                alphabet,
                record,
                user=user,
                round=repeat,
            )
            for user, (device, alphabet, record) in enumerate(
                zip(devices, own, records, strict=True)
            )
        ]

    def sampled(repeat: int) -> list[bytes]:
        return [
            deployment.Session(device, budget=EPSILON).report_sampled(
                coordinate, record, COORDINATES, user=user, round=repeat
            )
            for user, (device, record) in enumerate(zip(devices, records, strict=True))
        ]

    shipped = len(classifier.to_bytes()) + max(len(alphabet.to_bytes()) for alphabet in own)
    sides: Sides = {
        "ldp_jax": (
            classes,
            f"the best of {CLASSES} classes; {shipped / 1000:.0f} KB shipped, "
            f"{len(classes(0)[0])} bytes sent",
        ),
        "sampled record": (
            sampled,
            f"{COORDINATES} coordinates on a grid; {len(coordinate.to_bytes()) / 1000:.0f} KB "
            f"shipped, {len(sampled(0)[0])} bytes sent",
        ),
    }
    return interleaved(f"{DEVICES:,} messages of {FEATURES:,} features", sides, repeats)
