"""What one cell of the graph experiment computes: noisy graphs, a classifier, and what was spent."""

from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from experiments._runner import config_hash
from ldp_jax import accounting, datasets, edges, graph_training, models, packing, training
from ldp_jax.datasets import splits
from ldp_jax.guarantee import NEIGHBOUR_LIST, Budget, Guarantee

Mechanism = Literal[
    "dprr", "dprr-one-to-nine", "dprr-as-published", "local-lap", "rr", "degrees", "dprr-lengths",
    "non-private-part", "non-private", "sizes",
]  # fmt: skip
MECHANISMS: tuple[Mechanism, ...] = (
    "dprr", "local-lap", "degrees", "dprr-lengths", "non-private-part", "non-private", "sizes",
)  # fmt: skip
WITHOUT_EPSILON = ("non-private-part", "non-private", "sizes")
LABELS = {
    "dprr": "DPRR",
    "dprr-one-to-nine": "DPRR, split 1:9",
    "dprr-as-published": "DPRR, published split",
    "local-lap": "LocalLap",
    "rr": "RR",
    "degrees": "released degrees alone",
    "dprr-lengths": "lengths of DPRR's lists",
    "non-private-part": "NonPriv-Part",
    "non-private": "NonPriv-Full",
    "sizes": "public sizes alone",
}
COLOURS = {
    "dprr": "#00798c", "dprr-one-to-nine": "#8d6a9f", "dprr-as-published": "#c98bb9", "local-lap": "#edae49",
    "rr": "#7a7a7a", "degrees": "#d1495b", "dprr-lengths": "#f0a3ac", "non-private-part": "#66a182",
    "non-private": "#000000", "sizes": "#b8b8b8",
}  # fmt: skip
QUANTILES = np.linspace(0, 1, 17)


class Settings(NamedTuple):
    """What decides a row, beside its cell."""

    dataset: str
    graphs: int
    rr_nodes: int
    epochs: int
    patience: int | None
    layers: int
    hidden: int
    dropout: float
    learning_rate: float
    batch_size: int
    shares: tuple[float, float, float]


class Cell(NamedTuple):
    """One row's worth of work, but for the seed."""

    mechanism: Mechanism
    epsilon: float
    alpha: float


@lru_cache(maxsize=2)
def load(dataset: str, graphs: int, rr_nodes: int) -> packing.GraphSet:
    """The graphs of a set that are used."""
    whole = packing.GraphSet.from_dataset(datasets.load(dataset))
    kept = np.arange(len(whole))
    if rr_nodes:
        kept = kept[whole.nodes_per_graph <= rr_nodes]
    if graphs and graphs < len(kept):
        kept = np.sort(np.random.default_rng(0).permutation(kept)[:graphs])
    return whole if len(kept) == len(whole) else whole.subset(kept)


def name_of(resolved: Any) -> str:
    """The data set in words, from ``dataset``, ``graphs`` and ``rr_nodes``: which of its graphs are used."""
    few = f"{resolved.graphs} graphs" if resolved.graphs else ""
    small = f"of at most {resolved.rr_nodes} nodes" if resolved.rr_nodes else ""
    return ", ".join([resolved.dataset, *filter(None, [" ".join(filter(None, [few, small]))])])


def made_by(cell: Cell, n_max: int) -> Any:
    """The mechanism of a cell, or None."""
    if cell.mechanism in ("dprr", "dprr-lengths"):
        return edges.DPRR.from_epsilon(cell.epsilon, n_max)
    if cell.mechanism == "dprr-one-to-nine":
        return edges.DPRR(0.1 * cell.epsilon, 0.9 * cell.epsilon)
    if cell.mechanism == "dprr-as-published":
        return edges.DPRR.as_published(cell.epsilon, n_max)
    if cell.mechanism == "local-lap":
        return edges.LocalLap.from_epsilon(cell.epsilon)
    if cell.mechanism == "rr":
        return edges.RandomizedResponse(cell.epsilon)
    return None


def ledger(cell: Cell, n_max: int) -> accounting.Ledger:
    """What a user spends per bit of her list."""
    if cell.mechanism in WITHOUT_EPSILON:
        return accounting.Ledger()
    made = made_by(cell, n_max)
    if made is None:
        spent = Guarantee(
            cell.epsilon, unit=NEIGHBOUR_LIST, adjacency="two neighbour lists that differ in one bit",
            status="proved", reason="Laplace noise of scale 1 / epsilon on the degree",
        )  # fmt: skip
    else:
        spent = made.guarantee()
    # The published split may spend more than its epsilon: what is true of it is asked, not what is printed.
    unspent = accounting.Ledger(Budget(spent.epsilon, unit=NEIGHBOUR_LIST))
    exposes = ("labels", "number of nodes", *(("lists of public users",) if cell.alpha else ()))
    return unspent.spend(cell.mechanism, spent, protects=("edges",), exposes=exposes)


def _keys(resolved: Settings, cell: Cell, seed: int) -> tuple[Any, Any, Any, Any]:
    """For the split (shared by all cells of a seed), the public users, the noise and the training."""
    split, public, noise, fit = jax.random.split(jax.random.key(seed), 4)
    drawn = "dprr" if cell.mechanism == "dprr-lengths" else cell.mechanism  # the same reports
    name = int(config_hash([resolved.dataset, drawn, cell.epsilon, cell.alpha]), 16) % 2**31
    return split, public, jax.random.fold_in(noise, name), jax.random.fold_in(fit, name)


def run(resolved: Settings, cell: Cell, seed: int, folder: Path | None, bar: Any) -> graph_training.Scores:
    """Privatise the graphs, train, and look at the test graphs once."""
    whole = load(resolved.dataset, resolved.graphs, resolved.rr_nodes)
    split_key, public_key, noise_key, fit_key = _keys(resolved, cell, seed)
    parts = splits.node_split(split_key, len(whole), resolved.shares)
    n_max = int(whole.nodes_per_graph.max())
    n = len(whole.node_graph)
    public = np.asarray(jax.random.uniform(public_key, (n,))) < cell.alpha
    if cell.mechanism in ("degrees", "dprr-lengths", "sizes"):
        return _from_rows(resolved, cell, _rows(whole, cell, public, noise_key), whole.labels, parts, fit_key)
    noisy = _noisy(whole, cell, public, n_max, noise_key)
    sets = [noisy.subset(part) for part in parts]
    fitted = graph_training.fit_graphs(
        fit_key,
        models.gin(resolved.layers, resolved.hidden, int(whole.labels.max()) + 1, resolved.dropout),
        *sets,
        optimizer=graph_training.step_decay_adam(resolved.learning_rate),
        epochs=resolved.epochs,
        patience=resolved.patience,
        batch_size=resolved.batch_size,
        checkpoint=folder,
        progress=bar,
    )
    return fitted.test


def _noisy(whole: packing.GraphSet, cell: Cell, public: np.ndarray, n_max: int, key: Any) -> packing.GraphSet:
    made = made_by(cell, n_max)
    if cell.mechanism == "non-private":
        return whole
    if cell.mechanism == "non-private-part":
        return _public_part(whole, public)
    noisy = edges.privatize_graph(
        key, whole.graph, made, node_graph=whole.node_graph, public=public if public.any() else None
    )
    return packing.GraphSet.from_edges(
        np.asarray(noisy.graph.senders), np.asarray(noisy.graph.receivers), whole.node_graph, whole.labels
    )


def _public_part(whole: packing.GraphSet, public: np.ndarray) -> packing.GraphSet:
    """The graphs of public users alone; a graph without one keeps its first user, alone."""
    keep = public.copy()
    first = np.searchsorted(whole.node_graph, np.arange(len(whole)))
    empty = np.bincount(whole.node_graph, weights=public, minlength=len(whole)) == 0
    keep[first[empty]] = True
    place = np.cumsum(keep) - 1
    both = public[whole.senders] & public[whole.receivers]
    return packing.GraphSet.from_edges(
        place[whole.senders[both]], place[whole.receivers[both]], whole.node_graph[keep], whole.labels
    )


def _rows(whole: packing.GraphSet, cell: Cell, public: np.ndarray, key: Any) -> np.ndarray:
    """One row a graph: log size, and quantiles of degrees or list lengths; float32 [graphs, features]."""
    sizes = whole.nodes_per_graph
    columns = [np.log(sizes)[:, None]]
    if cell.mechanism != "sizes":
        degree = _degrees(whole, cell, public, key)
        order = np.lexsort((degree, whole.node_graph))  # sorted degrees, graph by graph
        start = np.cumsum(sizes) - sizes
        at = start[:, None] + np.round(QUANTILES * (sizes[:, None] - 1)).astype(int)
        mean = np.bincount(whole.node_graph, weights=degree) / sizes
        columns += [np.log1p(degree[order][at]), np.log1p(mean)[:, None]]
    rows = np.concatenate(columns, 1)
    return ((rows - rows.mean(0)) / np.maximum(rows.std(0), 1e-6)).astype(np.float32)


def _degrees(whole: packing.GraphSet, cell: Cell, public: np.ndarray, key: Any) -> np.ndarray:
    """A number a user: her degree with the whole budget's noise, or how many neighbours DPRR reported."""
    sizes = whole.nodes_per_graph
    if cell.mechanism == "dprr-lengths":
        noisy = _noisy(whole, cell, public, int(sizes.max()), key)
        return np.bincount(noisy.receivers, minlength=len(noisy.node_graph))
    true = np.bincount(whole.receivers, minlength=len(whole.node_graph))
    noise = np.asarray(jax.random.laplace(key, true.shape)) / cell.epsilon
    return np.where(public, true, np.clip(true + noise, 0, sizes[whole.node_graph] - 1))


def _from_rows(
    resolved: Settings, cell: Cell, rows: np.ndarray, labels: np.ndarray, parts: Any, key: Any
) -> graph_training.Scores:
    model = models.mlp(3, resolved.hidden, int(labels.max()) + 1, 0.2)
    examples = [training.Examples(np.asarray(part), labels[part]) for part in parts]
    fitted = training.fit(
        key, model, training.node_classification, rows, *examples, optimizer=training.adam(1e-3, 1e-4),
        epochs=5 * resolved.epochs, batch_size=resolved.batch_size,
    )  # fmt: skip
    outputs, _ = model.apply(fitted.variables, jax.numpy.asarray(rows[parts[2]]), key=None, train=False)
    return graph_training.scores(outputs, labels[parts[2]])


def _task(alpha: float) -> str:
    return "graph" if alpha == 0 else f"graph, {alpha:.0%} public"


def alpha_of(task: str) -> float:
    """The share of public users that a task's name says.

    >>> alpha_of(_task(0.2)), alpha_of(_task(0.0))
    (0.2, 0.0)
    """
    return float(task.split()[1].rstrip("%")) / 100 if " " in task else 0.0


def rows_of(resolved: Settings, cell: Cell, seed: int, n_max: int) -> dict[str, Any]:
    """What identifies the rows of a cell and a seed."""
    return {
        "dataset": name_of(resolved),
        "task": _task(cell.alpha),
        "mechanism": cell.mechanism,
        "epsilon": cell.epsilon,
        "k": 0,
        "seed": seed,
        "epsilon_proved": ledger(cell, n_max).spent(NEIGHBOUR_LIST).epsilon
        if cell.mechanism not in ("non-private", "non-private-part")
        else float("inf"),
        "unit": str(NEIGHBOUR_LIST),
        "config": config_hash(resolved._asdict()),
    }
