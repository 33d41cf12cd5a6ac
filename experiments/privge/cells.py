"""One cell of PrivGE / LDP-GE: a data set, a mechanism, an epsilon, a seed; compiled programs."""

import dataclasses
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from experiments import _common, _runner
from experiments._common import Score, standardized
from experiments.privge.settings import DEFAULT, HYPERPARAMETERS, Settings
from ldp_jax import datasets, features, servers
from ldp_jax.accounting.guarantee import Budget
from ldp_jax.accounting.ledger import Ledger
from ldp_jax.datasets import splits
from ldp_jax.graph import graphs, propagation
from ldp_jax.learning import metrics, models, training

METRIC = {"node": "accuracy", "link": "auc"}
STRUCTURE = "structure-only:"
"""Before the name of a mechanism: one public record stands for all users."""

NON_PRIVATE = "non-private"
LABEL_PROPAGATION = "label-propagation"
LINK_INDICES = "link-indices"
GRAPH_ALONE = {"node": LABEL_PROPAGATION, "link": LINK_INDICES}
"""By task, what the graph says without features and without training."""

MANY_NODES = 10_000
"""From so many nodes on, each split's training graph is worth a program of its own."""

EMBEDDINGS = ("raw", "standardized")
"""How an embedding is preprocessed before it is trained on, each a row of its own; of equals the
first is shown.
"""

NO_EMBEDDING = "labels"
"""What stands in their place for rows of the graph alone."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """One training on one release, of ``k`` sampled coordinates a user."""

    k: int
    preprocessing: str

    last_metric = property(lambda self: METRIC[self.task])


class Mechanism(NamedTuple):
    """A row's name, and how it is made for a budget and a dimension."""

    name: str
    epsilon: float
    k: int
    value: Any


def make_mechanism(name: str, epsilon: float, dim: int, k: int) -> Mechanism:
    """One of the paper's four mechanisms, or somebody's own.

    ``k`` matters to HDS alone, the others have the papers' rule.
    """
    if _common.is_own(name):
        own = _common.own_vectors(name, epsilon, dim)
        return Mechanism(name, epsilon, getattr(own, "k", dim), own)
    made = {
        "laplace": features.LaplaceVector,
        "piecewise": features.MultiPiecewise,
        "multibit": features.MultiBit,
    }
    value = features.HDS(epsilon, dim, k) if name == "hds" else made[name](epsilon, dim)
    return Mechanism(name, epsilon, value.k, value)


def ledger(
    mechanism: Mechanism, *, structure_only: bool = False, chosen: tuple[str, ...] = ()
) -> Ledger:
    """The spending of a row: a release a user, or nothing.

    Choices that were made by the records (``chosen``) are not protected.
    """
    unspent = Ledger(Budget(mechanism.epsilon))
    if structure_only:
        return unspent
    exposed = ("edges", "labels", *chosen)
    released = mechanism.value.guarantee()
    return unspent.spend(
        f"features by {mechanism.name}", released, protects=("features",), exposes=exposed
    )


def published_k(dataset: str, task: str) -> int:
    published = HYPERPARAMETERS.get(dataset, DEFAULT)
    return published.k if task == "node" else published.link_k


@dataclasses.dataclass(frozen=True, eq=False)
class Bench:
    """A data set made ready for one seed: everything that the cells of one task share."""

    settings: Settings
    data: datasets.Dataset
    seed: int
    x: Any
    op: propagation.Operator
    train: Any
    validation: Any
    test: Any
    noise_key: Any
    fit_key: Any

    @property
    def numbers(self) -> list[Any]:
        """The propagation's alpha, r and tol."""
        return [jnp.float32(v) for v in (self.settings.alpha, self.settings.r, self.settings.tol)]


_BOUNDS: dict[str, tuple[float, float]] = {}


def declare_bounds(names: Sequence[str], bounds: tuple[float, float]) -> None:
    """Public bounds for files that declare none; before they are loaded."""
    declared = dict.fromkeys(names, bounds)
    if not declared.items() <= _BOUNDS.items():
        _BOUNDS.update(declared)
        load.cache_clear()
        dense.cache_clear()


@lru_cache(maxsize=4)
def load(name: str) -> datasets.Dataset:
    return _common.load(name, _BOUNDS.get(name))


@lru_cache(maxsize=1)
def dense(name: str) -> Any:
    """The scaled features on the device, once for all seeds."""
    data = load(name)
    return jnp.asarray(data.scaled_rows(0, data.num_nodes))


@lru_cache(maxsize=1)
def _operator(name: str) -> propagation.Operator:
    return propagation.operator(load(name).graph)


def prepare(settings: Settings, seed: int) -> Bench:
    """The facts that the rows of one seed share.

    A program that looped over two seeds would round differently.
    """
    data = _common.of_plan(load(settings.dataset), settings)
    split_key, *keys = _keys(jax.random.key(settings.base_seed), seed)
    if settings.task == "node":
        op = _operator(settings.dataset)
        nodes = splits.node_split(split_key, data.num_nodes)
        parts = [training.Examples(part, data.y[part].astype(np.int32)) for part in nodes]
    else:
        part = splits.link_split(split_key, data.edges, data.num_nodes)
        # Shapes of "segment" depend on the numbers of nodes and edges alone: one program for all
        # seeds. On large graphs "ell" saves more time, three quarters of an embedding, than its
        # compilation takes.
        layout = "segment" if data.num_nodes < MANY_NODES else "ell"
        op = propagation.operator(graphs.from_edges(part.train, data.num_nodes), layout=layout)
        parts = [training.Pairs(part[i], part[i + 3]) for i in range(3)]
    return Bench(settings, data, seed, dense(settings.dataset), op, *parts, *keys)


def model_of(bench: Bench, word: str) -> models.Model:
    """The paper's head, or somebody's own."""
    settings = bench.settings
    outputs = bench.data.num_classes if settings.task == "node" else 1
    if word:
        return _common.own_model(word, outputs, **sizes(settings))
    if settings.head == "mlp":
        return models.mlp(outputs=outputs, **sizes(settings))
    return models.linear(outputs)


def sizes(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in ("layers", "hidden", "dropout")}


@jax.jit
def _keys(root: Any, seed: Any) -> Any:
    return jax.random.split(jax.random.fold_in(root, seed), 3)


def embed(bench: Bench, mechanism: Mechanism | None, *, structure_only: bool = False) -> Any:
    """The embedding of a cell, [n, d].

    It is of reports, of the features, or, ``structure_only``, of one public record.
    """
    default = bench.data.default_record()
    if mechanism is None:
        # Features relative to the public default record: 0/1 features stay sparse, and what is
        # propagated is the features rather than the degree profile of a constant.
        return propagation.ppr(bench.op, bench.x - default, *bench.numbers)
    # A public record's noise is independent of the private row's, though both have one key: see
    # private_embeddings.
    x = (
        servers.PublicRecord(bench.data.num_nodes, bench.data.num_features, default)
        if structure_only
        else bench.x
    )
    # A stack of one run: a stack of several would round differently.
    stacked = bench.settings.task == "link" and bench.op.layout == "segment"
    op = jax.tree.map(lambda leaf: leaf[None], bench.op) if stacked else bench.op
    numbers = dict(zip(("alpha", "r", "tol"), bench.numbers, strict=True))
    return servers.private_embeddings(bench.noise_key[None], op, x, mechanism.value, **numbers)[0]


def train(bench: Bench, z: Any, preprocessing: str, model: str = "") -> Score:
    """Train on the raw or on the standardised embedding.

    Both with the same keys and the same rules.
    """
    rows = z if preprocessing == "raw" else standardized(z)
    objective = (
        training.node_classification if bench.settings.task == "node" else training.link_prediction
    )
    fitted = training.fit(
        jax.random.clone(bench.fit_key),
        model_of(bench, model),
        objective,
        rows,
        bench.train,
        bench.validation,
        bench.test,
        bench.settings.for_training(bench.settings.batch_size),
    )
    return Score({METRIC[bench.settings.task]: float(fitted.test)}, float(fitted.validation))


def made_by(cell: Cell, dim: int) -> Mechanism | None:
    if cell.release in (NON_PRIVATE, *GRAPH_ALONE.values()):
        return None
    return make_mechanism(cell.release.removeprefix(STRUCTURE), cell.epsilon, dim, cell.k)


@lru_cache(maxsize=1)
def _embedding(bench: Bench, name: str, epsilon: float, k: int) -> Any:
    """The embedding that the cells of both preprocessings share; the last one is kept."""
    # The key is cloned: one seed's cells share it on purpose, so that their rows can be paired.
    bench = dataclasses.replace(bench, noise_key=jax.random.clone(bench.noise_key))
    if name == NON_PRIVATE:
        return embed(bench, None)
    made = make_mechanism(name.removeprefix(STRUCTURE), epsilon, bench.data.num_features, k)
    return embed(bench, made, structure_only=name.startswith(STRUCTURE))


def compute(bench: Bench, cell: Cell) -> _runner.Found:
    if cell.mechanism == LABEL_PROPAGATION:
        return label_propagation(bench)
    if cell.mechanism == LINK_INDICES:
        return link_indices(bench)
    z = _embedding(bench, cell.release, cell.epsilon, cell.k)
    return train(bench, z, cell.preprocessing, cell.model).found()


def label_propagation(bench: Bench) -> _runner.Found:
    """PageRank of the training labels; validation chooses its alpha and r: column ``chosen``."""
    parts = (bench.train, bench.validation, bench.test)
    classes = bench.data.num_classes
    tol = bench.settings.tol
    test, *found = _common.label_propagation(
        bench.op, parts, bench.settings, tol=tol, classes=classes
    )
    return Score({"accuracy": test}, *found).found()


def link_indices(bench: Bench) -> _runner.Found:
    """Indices of pairs of nodes on the training graph, of which validation keeps the best.

    Column ``chosen``.
    """
    n, (u, v) = bench.data.num_nodes, bench.train.edge.T
    ones = np.ones(2 * len(u), np.float32)
    links = sparse.csr_array((ones, (np.r_[u, v], np.r_[v, u])), shape=(n, n))
    degree = np.asarray(links.sum(1), np.float32)

    def indices(pairs: Any) -> dict[str, Any]:
        a, b = pairs.T
        shared = links[a] * links[b]
        return {
            "common neighbours": shared.sum(1),
            "resource allocation": shared @ (1 / np.maximum(degree, 1)),
            "preferential attachment": degree[a] * degree[b],
        }

    def areas(part: training.Pairs) -> dict[str, float]:
        ours = indices(part.edge)
        others = indices(part.non_edge)
        return {
            name: float(metrics.auc(jnp.asarray(ours[name]), jnp.asarray(others[name])))
            for name in ours
        }

    validation = areas(bench.validation)
    best = max(validation, key=lambda name: validation[name])
    return Score({"auc": areas(bench.test)[best]}, validation[best], best).found()
