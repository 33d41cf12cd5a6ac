"""Figures 8 and 9 of DPRR: time and memory against the size of the graphs."""

import dataclasses
import gc
import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import networkx as nx
import numpy as np
import pandas as pd

from experiments import _runner
from experiments._sides import clock
from experiments.dprr.cells import (
    COMPARED,
    RR_NODES,
    Settings,
    Variant,
    data_of,
    ledger,
    load,
    made_by,
    name_of,
)
from experiments.dprr.config import Config, settings
from ldp_jax import edges
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST
from ldp_jax.datasets import splits
from ldp_jax.graph import packing
from ldp_jax.graph.packing import GraphSet
from ldp_jax.learning import graph_training, models, training

NAME = "dprr_scaling"
EPSILON = 1.0
GRAPHS = 200
"""Of a set of graphs, where the configuration does not say."""
GAMMAS = (0.25, 0.5, 0.75, 1.0)
NODES = (1000, 2000, 3000, 4000)
NEW_EDGES = (3, 5)
"""m of the Barabasi-Albert graphs."""
TRAIN, TEST = 4, 2
"""Barabasi-Albert graphs of each size; randomised response reports 4.3 million edges of one with
4000 nodes.
"""
REPEATS, EPOCHS = 9, 9
"""Timed runs of the reports, and of an epoch and of classification, which take milliseconds."""
BYTES = 16
"""Of a directed edge, as ``privatize_graph`` counts against its limit of memory."""
_LEAST = 1e-9


class Size(NamedTuple):
    """Graphs of one size.

    Their family, the size in words, the most nodes of any, and how to make them.
    """

    family: str
    name: str
    n_max: int
    make: Callable[[], tuple[GraphSet, GraphSet]]
    """Gives training and test graphs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """All measurements of one mechanism at one size, which ``task`` names."""

    last_metric = property(lambda self: "classify wall s")


results_in = partial(_runner.Results, name=NAME, cell=Cell)


def main(config: Config) -> None:
    resolved = settings(config, config.datasets[0])
    if not set(COMPARED) & set(config.mechanisms):
        raise _runner.UsageError(
            "--mechanisms: time and memory are compared of dprr, local-lap and rr"
        )
    variants = [Variant(name, EPSILON, 0.0) for name in COMPARED if name in config.mechanisms]
    planned = dict(
        _cell(size, variant, resolved) for size in _sizes(resolved).values() for variant in variants
    )
    found = partial(compute, resolved=resolved)
    _runner.run(planned, found, results_in(config.out), called="measurements", grid=config)


def compute(cell: Cell, _: Any, resolved: Settings) -> _runner.Found:
    size = _sizes(resolved)[cell.dataset, cell.task]
    train, test = _made(resolved, cell.dataset, cell.task)
    made = made_by(Variant(cell.mechanism, EPSILON, 0.0), size.n_max)
    found = measure(train, test, made, resolved)
    return _runner.Found({name: float(f"{value:.6g}") for name, value in found.items()})


@lru_cache(maxsize=1)
def _sizes(resolved: Settings) -> dict[tuple[str, str], Size]:
    """All sizes, by the data set and the task of their rows."""
    return {(size.family, size.name): size for size in (*_of_sets(resolved), *_barabasi_albert())}


@lru_cache(maxsize=1)
def _made(resolved: Settings, family: str, name: str) -> tuple[GraphSet, GraphSet]:
    """The graphs of one size at a time."""
    return _sizes(resolved)[family, name].make()


_GENERATED = "Barabasi-Albert"


def _settings(size: Size, resolved: Settings) -> dict[str, Any]:
    model = {
        name: getattr(resolved, name)
        for name in ("layers", "hidden", "dropout", "batch_size", "shares")
    }
    counts = {"train": TRAIN, "test": TEST, "repeats": [REPEATS, EPOCHS]}
    data = {} if size.family.startswith(_GENERATED) else data_of(_limited(resolved))
    return {"graphs": size.family, "size": size.name, **counts, **model, **data}


def _cell(size: Size, variant: Variant, resolved: Settings) -> tuple[Cell, dict[str, Any]]:
    proved = ledger(variant, size.n_max).spent(NEIGHBOUR_LIST).epsilon
    row = size.family, size.name, NEIGHBOUR_LIST, variant.mechanism, EPSILON, 0, proved
    return Cell.of(_settings(size, resolved), *row)


def _of_sets(resolved: Settings) -> list[Size]:
    """Figure 8: a share gamma of the nodes of each graph of a set, and the edges among them."""
    chosen = _limited(resolved)
    whole = load(chosen.dataset, chosen.graphs, chosen.rr_nodes)
    largest = int(whole.nodes_per_graph.max())

    def make(gamma: float) -> tuple[GraphSet, GraphSet]:
        part = induced(whole, gamma)
        train, _, test = splits.node_split(jax.random.key(0), len(whole), resolved.shares)
        return part.subset(train), part.subset(test)

    return [
        Size(
            name_of(chosen), f"gamma = {gamma:g}", math.ceil(gamma * largest), partial(make, gamma)
        )
        for gamma in GAMMAS
    ]


def _limited(resolved: Settings) -> Settings:
    """The settings with a part of the set that time and memory allow, where they name none."""
    graphs = resolved.graphs or GRAPHS
    return resolved._replace(graphs=graphs, rr_nodes=resolved.rr_nodes or RR_NODES)


def induced(whole: GraphSet, gamma: float) -> GraphSet:
    """The subgraphs on a random share of each graph's nodes, rounded up.

    A larger share has those of a smaller.
    """
    graph, sizes = whole.node_graph, whole.nodes_per_graph
    order = np.lexsort((np.random.default_rng(0).random(len(graph)), graph))
    rank = np.empty(len(graph), np.int64)
    rank[order] = np.arange(len(graph)) - (np.cumsum(sizes) - sizes)[graph]
    keep = rank < np.ceil(gamma * sizes)[graph]
    place = np.cumsum(keep) - 1
    both = keep[whole.senders] & keep[whole.receivers]
    return GraphSet.from_edges(
        place[whole.senders[both]], place[whole.receivers[both]], graph[keep], whole.labels
    )


def _barabasi_albert() -> list[Size]:
    """Figure 9: generated graphs whose mean degree does not depend on their size."""

    def make(m: int, n: int) -> tuple[GraphSet, GraphSet]:
        pairs = [
            np.array(nx.barabasi_albert_graph(n, m, seed=i).edges()) + i * n
            for i in range(TRAIN + TEST)
        ]
        low, high = np.concatenate(pairs).T
        both = np.concatenate([low, high]), np.concatenate([high, low])
        numbers = np.arange(TRAIN + TEST)
        whole = GraphSet.from_edges(*both, np.repeat(numbers, n), numbers % 2)
        return whole.subset(numbers[:TRAIN]), whole.subset(numbers[TRAIN:])

    return [
        Size(f"{_GENERATED}, m = {m}", f"n = {n}", n, partial(make, m, n))
        for m in NEW_EDGES
        for n in NODES
    ]


def measure(train: GraphSet, test: GraphSet, made: Any, resolved: Settings) -> dict[str, float]:
    """Seconds of the reports, of a training epoch and of classification, and the reported edges.

    Per graph.
    """
    key = jax.random.key(0)
    noisy, *report = _timed(
        lambda number: _reports(jax.random.fold_in(key, number), train, made), REPEATS
    )
    model = models.gin(
        resolved.layers, resolved.hidden, int(train.labels.max()) + 1, resolved.dropout
    )
    variables, *epoch = _epochs(key, noisy, model, resolved)
    # Packing is done once for all epochs, by the host: neither side counts it.
    other = _reports(jax.random.fold_in(key, REPEATS + 1), test, made)
    packed = packing.pack(other, resolved.batch_size, shapes=1)
    classify = _timed(lambda _: graph_training._predict(model, variables, packed), EPOCHS)[1:]
    reported = len(noisy.senders) / len(train)
    found = {
        "nodes": len(train.node_graph) / len(train), "true edges": len(train.senders) / len(train),
        "edges": reported, "bytes": BYTES * reported,
    }  # fmt: skip
    timed = ("report", report, train), ("epoch", epoch, train), ("classify", classify, test)
    for name, taken, part in timed:
        cpu, wall = (seconds / len(part) for seconds in taken)
        found |= {f"{name} cpu s": cpu, f"{name} wall s": wall}
    return found


def _reports(key: Any, whole: GraphSet, made: Any) -> GraphSet:
    return edges.privatize_graph(key, whole, made).graph


def _timed(function: Callable[[int], Any], repeats: int) -> tuple[Any, float, float]:
    """The last result, and medians of CPU and wall seconds, of runs by number.

    The first compiles, and is out.
    """
    result = None
    taken = []
    gc.collect()
    for number in range(repeats + 1):
        result = None  # two results at once would double the memory
        since = clock()
        result = jax.block_until_ready(function(number))
        taken.append(since())
    return result, *_medians(taken)


def _epochs(key: Any, train: GraphSet, model: Any, resolved: Settings) -> tuple[Any, float, float]:
    """Trained variables, and medians of CPU and wall seconds of an epoch.

    The first is not counted.
    """
    one = GraphSet.from_edges([1, 0], [0, 1], [0, 0], [0])  # validation and test: next to no time
    since = clock()
    ends = [(0.0, 0.0)]
    optimizer = graph_training.step_decay_adam(resolved.learning_rate)
    fitted = graph_training.fit_graphs(
        key, model, train, one, one, training.Settings(optimizer, EPOCHS + 1, resolved.batch_size),
        progress=lambda *_: ends.append(since()),
    )  # fmt: skip
    return fitted.variables, *_medians(np.diff(ends, axis=0))


def _medians(taken: Any) -> tuple[float, float]:
    wall, cpu = np.median(np.asarray(taken)[1:], axis=0)
    return float(cpu), float(wall)


def exponents(part: pd.DataFrame, metric: str) -> float:
    """The slope of a metric's logarithm against that of the number of nodes; NaN for one size."""
    wide = part.pivot_table(index="task", columns="metric", values="value")
    if len(wide) < 2:
        return math.nan
    return float(np.polyfit(np.log(wide["nodes"]), np.log(np.maximum(wide[metric], _LEAST)), 1)[0])


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows in milliseconds and megabytes, with the nodes of their size and how they grow.

    Sizes are told apart by their nodes, and *slope* is the exponent of a metric over all of them.
    """
    place = ["dataset", "mechanism", "task"]
    nodes = frame[frame.metric == "nodes"].set_index(place).value.rename("nodes")
    frame = frame.join(nodes, on=place)
    slopes = {
        (*names, metric): exponents(part, metric)
        for names, part in frame.groupby(["dataset", "mechanism"])
        for metric in part.metric.unique()
    }
    keys = zip(frame.dataset, frame.mechanism, frame.metric, strict=True)
    largest = frame.nodes == frame.groupby("dataset").nodes.transform("max")
    units = np.where(
        frame.metric.str.endswith(" s"), 1e3, np.where(frame.metric == "bytes", 1e-6, 1)
    )
    return frame.assign(
        value=frame.value * units,
        nodes=frame.nodes.round(),
        slope=[slopes[key] for key in keys],
        largest_size=np.where(largest, "yes", "no"),
    )
