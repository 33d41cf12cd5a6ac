"""Computation of one cell of the graph experiment.

Noisy graphs, a classifier, and what was spent.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from experiments import _common, _runner
from experiments.dprr import classifiers, synthetic
from ldp_jax import datasets, edges
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, Budget
from ldp_jax.accounting.ledger import Ledger
from ldp_jax.bench.budgeted import on_lists
from ldp_jax.bench.named import named
from ldp_jax.core.pytree import digest
from ldp_jax.datasets import splits
from ldp_jax.graph import packing
from ldp_jax.learning import graph_training, models, training

Mechanism = Literal[
    "dprr", "dprr-one-to-nine", "dprr-as-published", "local-lap", "rr", "degrees", "dprr-lengths",
    "ldpgen", "blink", "non-private-part", "non-private", "true-degrees", "sizes",
]  # fmt: skip
FOREST, PERCEPTRON = "forest", "perceptron"
CLASSIFIERS = ("gin", PERCEPTRON, FOREST)
MECHANISMS: tuple[Mechanism, ...] = (
    "dprr",
    "local-lap",
    "degrees",
    "dprr-lengths",
    "non-private-part",
    "non-private",
    "true-degrees",
    "sizes",
)
WITHOUT_EPSILON = ("non-private-part", "non-private", "true-degrees", "sizes")
OF_ALL = ("non-private", "true-degrees", "sizes")
"""Rows that do not depend on who is public."""
COMPARED: tuple[Mechanism, ...] = ("dprr", "local-lap", "rr")
"""Mechanisms whose degrees, times and memory are compared."""
SYNTHETIC = ("ldpgen", "blink")
"""Rows of a graph that a server makes; it knows no user's true list."""
NUMBERS = ("degrees", "dprr-lengths", "true-degrees", "sizes")
"""A number a user, or none: no graph for the network, which a perceptron stands in for."""
COMMUNITIES = "communities"
COMMUNITY_GRAPHS = 600
RR_NODES = 1000
"""The most nodes of a graph that randomised response makes dense without being told to."""
LABELS, COLOURS = _common.row_names("dprr")


class Settings(NamedTuple):
    """Graphs, classifiers and training.

    ``patience`` and ``epochs`` hold for all that is trained by epochs.
    """

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

    @classmethod
    def of(cls, made: Mapping[str, Any]) -> "Settings":
        """The settings of a row by :func:`settings_of`; None for fields that it leaves out."""
        return cls._make(made.get(name) for name in cls._fields)


class Variant(NamedTuple):
    """A release and its classifier; ``public`` is the share of users whose true lists are known."""

    mechanism: str
    epsilon: float
    public: float
    chosen: str = ""
    """the forest or somebody's own model"""

    @property
    def classifier(self) -> str:
        """The chosen one; else the graph network where a graph is released, else the perceptron."""
        return self.chosen or (PERCEPTRON if self.mechanism in NUMBERS else "gin")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """One training of a classifier on one release.

    ``public`` is the share of users whose true lists are known.
    """

    public: float
    classifier: str
    last_metric = property(lambda self: "auc")

    @property
    def variant(self) -> Variant:
        return variant_of(vars(self))

    def __str__(self) -> str:
        return f"{super().__str__()}, {self.public:.0%} public, {self.classifier}"


def variant_of(row: Any) -> Variant:
    classifier = row["classifier"]
    chosen = "" if classifier in ("gin", PERCEPTRON) else classifier
    return Variant(row["mechanism"], float(row["epsilon"]), float(row["public"]), chosen)


def data_of(resolved: Any) -> dict[str, str]:
    """A digest of a user's file, so that rows of one that has changed are others; else nothing."""
    if resolved.dataset == COMMUNITIES or not _common.is_file(resolved.dataset):
        return {}
    whole = load(resolved.dataset, resolved.graphs, resolved.rr_nodes)
    arrays = whole.senders, whole.receivers, whole.node_graph, whole.labels
    return {"data": digest(arrays).hex()[:10]}


def settings_of(resolved: Settings, classifier: str) -> dict[str, Any]:
    data = data_of(resolved)
    if classifier not in (PERCEPTRON, FOREST):
        return resolved._asdict() | data
    shared = ["dataset", "graphs", "rr_nodes", "shares"]
    fixed = classifiers.FOREST
    if classifier == PERCEPTRON:
        shared += ["epochs", "patience", "hidden", "batch_size"]
        fixed = classifiers.PERCEPTRON
    return {name: getattr(resolved, name) for name in shared} | data | fixed


_FEWEST = 20  # fewer graphs leave splits without a graph of some class


@lru_cache(maxsize=2)
def load(dataset: str, graphs: int, rr_nodes: int) -> packing.GraphSet:
    """The graphs of a set that are used.

    A UsageError where there is no set, or bounds leave too few graphs.
    """
    with _runner.asked(f"--datasets {dataset}", OSError):
        if dataset == COMMUNITIES:
            found = datasets.synthetic_graphs(jax.random.key(0), num_graphs=COMMUNITY_GRAPHS)
        else:
            found = datasets.load(dataset)
        whole = packing.GraphSet.from_dataset(found)
    kept = np.flatnonzero(whole.nodes_per_graph <= (rr_nodes or np.inf))
    if graphs and graphs < len(kept):
        kept = np.sort(np.random.default_rng(0).permutation(kept)[:graphs])
    if len(kept) < _FEWEST:
        option = f"--graphs {graphs}" if graphs and graphs < _FEWEST else f"--rr-nodes {rr_nodes}"
        raise _runner.UsageError(
            f"{option}: {len(kept)} graphs of {dataset} are left, and {_FEWEST} are needed"
        )
    return whole if len(kept) == len(whole) else whole.subset(kept)


def most_nodes(resolved: Any) -> int:
    """The nodes of the largest graph that is used, by which budgets are split."""
    return int(load(resolved.dataset, resolved.graphs, resolved.rr_nodes).nodes_per_graph.max())


def check_dense(chosen: Any, mechanisms: Sequence[str]) -> None:
    """A UsageError where randomised response would make large graphs dense, and none are left out.

    ``chosen`` has ``dataset``, ``graphs`` and ``rr_nodes``.
    """
    if "rr" not in mechanisms or chosen.rr_nodes:
        return
    if (largest := most_nodes(chosen)) > RR_NODES:
        raise _runner.UsageError(
            f"--mechanisms rr reports dense graphs, and {chosen.dataset} has one of {largest} "
            f"nodes: give --rr-nodes {RR_NODES} or so, perhaps --graphs"
        )


def name_of(resolved: Any) -> str:
    """The data set in words, from ``dataset``, ``graphs`` and ``rr_nodes``.

    Which of its graphs are used.
    """
    few = f" {resolved.graphs} graphs" if resolved.graphs else ""
    small = f" of at most {resolved.rr_nodes} nodes" if resolved.rr_nodes else ""
    return resolved.dataset + ("," if few or small else "") + few + small


def made_by(variant: Variant, n_max: int) -> Any:
    epsilon = variant.epsilon
    if _common.is_own(variant.mechanism):
        with _common.making(variant.mechanism, epsilon):
            return on_lists(named(variant.mechanism).make, epsilon)
    split = lambda: edges.DPRR.from_epsilon(epsilon, n_max)
    made = {
        "dprr": split,
        "dprr-lengths": split,
        "dprr-one-to-nine": lambda: edges.DPRR(0.1 * epsilon, 0.9 * epsilon),
        "dprr-as-published": lambda: edges.DPRR.as_published(epsilon, n_max),
        "local-lap": lambda: edges.LocalLap.from_epsilon(epsilon),
        "rr": lambda: edges.RandomizedResponse(epsilon),
        "degrees": lambda: edges.NoisyDegree(epsilon),
        "ldpgen": lambda: synthetic.LDPGen(epsilon),
        "blink": lambda: synthetic.Blink(epsilon),
    }
    return made[variant.mechanism]() if variant.mechanism in made else None


def ledger(variant: Variant, n_max: int) -> Ledger:
    """The budget that a user spends per bit of their list."""
    if variant.mechanism in WITHOUT_EPSILON:
        return Ledger()
    spent = made_by(variant, n_max).guarantee()
    # The published split may spend more than its epsilon: the guarantee says what it does spend.
    unspent = Ledger(Budget(spent.epsilon, unit=NEIGHBOUR_LIST))
    exposes = ("labels", "number of nodes", *(("lists of public users",) if variant.public else ()))
    return unspent.spend(variant.mechanism, spent, protects=("edges",), exposes=exposes)


def _keys(dataset: str, variant: Variant, seed: int) -> tuple[Any, Any, Any, Any]:
    """Keys of the split (shared by all cells of a seed), public users, noise and training."""
    split, public, noise, fit = jax.random.split(jax.random.key(seed), 4)
    name = int(_runner.config_hash([dataset, *_drawn(variant)[:3]]), 16) % 2**31
    return split, public, jax.random.fold_in(noise, name), jax.random.fold_in(fit, name)


def _drawn(variant: Variant) -> Variant:
    """The release behind a variant.

    Every classifier sees the same, and lengths are those of DPRR's lists.
    """
    mechanism = "dprr" if variant.mechanism == "dprr-lengths" else variant.mechanism
    return Variant(mechanism, variant.epsilon, variant.public)


def run(
    resolved: Settings, variant: Variant, seed: int, folder: Path | None, bar: Any
) -> graph_training.Scores:
    whole = load(resolved.dataset, resolved.graphs, resolved.rr_nodes)
    split_key, _, _, fit_key = _keys(resolved.dataset, variant, seed)
    parts = splits.node_split(split_key, len(whole), resolved.shares)
    if variant.classifier in (PERCEPTRON, FOREST):
        rows = statistics(whole, resolved.dataset, variant, seed)
        if variant.classifier == FOREST:
            return classifiers.forest(rows, whole.labels, parts, fit_key)
        return classifiers.perceptron(
            rows, whole.labels, parts, fit_key, hidden=resolved.hidden, epochs=resolved.epochs,
            patience=resolved.patience, batch_size=resolved.batch_size,
        )  # fmt: skip
    noisy = released(whole, resolved.dataset, _drawn(variant), seed)
    sets = [noisy.subset(part) for part in parts]
    sizes = {name: getattr(resolved, name) for name in ("layers", "hidden", "dropout")}
    outputs = int(whole.labels.max()) + 1
    if variant.chosen:
        model = _common.own_model(variant.chosen, outputs, **sizes)
    else:
        model = models.gin(outputs=outputs, **sizes)
    optimizer = graph_training.step_decay_adam(resolved.learning_rate)
    chosen = training.Settings(optimizer, resolved.epochs, resolved.batch_size, resolved.patience)
    return graph_training.fit_graphs(
        fit_key, model, *sets, settings=chosen, like=noisy, checkpoint=folder, progress=bar
    ).test


def _public(whole: packing.GraphSet, dataset: str, variant: Variant, seed: int) -> np.ndarray:
    public_key = _keys(dataset, variant, seed)[1]
    return np.asarray(jax.random.uniform(public_key, (len(whole.node_graph),))) < variant.public


@lru_cache(maxsize=1)
def released(
    whole: packing.GraphSet, dataset: str, variant: Variant, seed: int
) -> packing.GraphSet:
    """The graphs that a mechanism releases; the last ones are kept, for the next classifier."""
    public = _public(whole, dataset, variant, seed)
    if variant.mechanism == "non-private":
        return whole
    if variant.mechanism == "non-private-part":
        return _public_part(whole, public)
    made = made_by(variant, int(whole.nodes_per_graph.max()))
    key = _keys(dataset, variant, seed)[2]
    if isinstance(made, synthetic.Synthetic):
        return synthetic.released(key, whole, made)
    return edges.privatize_graph(key, whole, made, public=public if public.any() else None).graph


def _public_part(whole: packing.GraphSet, public: np.ndarray) -> packing.GraphSet:
    """The graphs of public users alone; a graph without one keeps its first user, alone."""
    keep = public.copy()
    first = np.searchsorted(whole.node_graph, np.arange(len(whole)))
    empty = np.bincount(whole.node_graph, weights=public, minlength=len(whole)) == 0
    keep[first[empty]] = True
    place = np.cumsum(keep) - 1
    both = public[whole.senders] & public[whole.receivers]
    ends = place[whole.senders[both]], place[whole.receivers[both]]
    return packing.GraphSet.from_edges(*ends, whole.node_graph[keep], whole.labels)


def statistics(whole: packing.GraphSet, dataset: str, variant: Variant, seed: int) -> np.ndarray:
    """The columns of the forest or the perceptron.

    The public sizes, and statistics of the release.
    """
    sizes = whole.nodes_per_graph
    columns = [classifiers.of_sizes(sizes)]
    if variant.mechanism not in NUMBERS:
        columns.append(classifiers.of_lists(released(whole, dataset, _drawn(variant), seed)))
    elif variant.mechanism != "sizes":
        columns.append(
            classifiers.of_numbers(degrees(whole, dataset, variant, seed), whole.node_graph, sizes)
        )
    return np.concatenate(columns, 1)


def degrees(whole: packing.GraphSet, dataset: str, variant: Variant, seed: int) -> np.ndarray:
    """A number a user.

    The degree, true or with the whole budget's noise, or the length of DPRR's list.
    """
    if variant.mechanism == "dprr-lengths":
        noisy = released(whole, dataset, _drawn(variant), seed)
        return np.bincount(noisy.receivers, minlength=len(noisy.node_graph))
    true = np.bincount(whole.receivers, minlength=len(whole.node_graph))
    if variant.mechanism == "true-degrees":
        return true
    # Noise of JAX's own sampler, which the committed rows are drawn from.
    noise = jax.random.laplace(_keys(dataset, variant, seed)[2], true.shape)
    noisy = edges.NoisyDegree(variant.epsilon).add_noise(
        noise, true, whole.nodes_per_graph[whole.node_graph] - 1
    )
    return np.where(_public(whole, dataset, variant, seed), true, noisy)


def setting(public: float) -> str:
    """The share of public users in words."""
    return "graph" if public == 0 else f"graph, {public:.0%} public"


def cell_of(resolved: Settings, variant: Variant, seed: int, n_max: int) -> Cell:
    """The cell of a variant and a seed; the largest graph has ``n_max`` nodes."""
    exposed = variant.mechanism in ("non-private", "non-private-part", "true-degrees")
    spent = math.inf if exposed else ledger(variant, n_max).spent(NEIGHBOUR_LIST).epsilon
    settings = settings_of(resolved, variant.classifier)
    row = (
        name_of(resolved),
        "graph",
        NEIGHBOUR_LIST,
        variant.mechanism,
        variant.epsilon,
        seed,
        spent,
    )
    return Cell.of(settings, *row, public=variant.public, classifier=variant.classifier)[0]
