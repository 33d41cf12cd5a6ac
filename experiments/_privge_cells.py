"""One cell of PrivGE / LDP-GE: a data set, a mechanism, an epsilon, a batch of seeds; compiled programs."""

import dataclasses
import hashlib
import math
import time
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments._runner import config_hash
from experiments._settings import DEFAULT, PUBLISHED, Settings
from ldp_jax import accounting, datasets, features, graphs, metrics, models, pipeline, propagation, training
from ldp_jax.datasets import splits
from ldp_jax.guarantee import RECORD, Budget

METRIC = {"node": "accuracy", "link": "auc"}


class Mechanism(NamedTuple):
    """A row's name, and how it is made for a budget and a dimension."""

    name: str
    epsilon: float
    k: int
    value: Any


def make_mechanism(name: str, epsilon: float, dim: int, k: int) -> Mechanism:
    """One of the paper's four mechanisms; ``k`` matters to HDS alone, the others have the papers' rule."""
    if name == "laplace":
        value = features.LaplaceVector(epsilon, dim)
    elif name == "piecewise":
        value = features.MultiPiecewise(epsilon, dim)
    elif name == "multibit":
        value = features.MultiBit(epsilon, dim)
    elif name == "hds":
        value = features.HDS(epsilon, dim, k)
    else:
        raise ValueError(f"mechanism must be one of laplace, piecewise, multibit, hds; got {name!r}")
    return Mechanism(name, epsilon, value.k, value)


def ledger(
    mechanism: Mechanism, *, structure_only: bool = False, chosen: tuple[str, ...] = ()
) -> accounting.Ledger:
    """What a row spends of its budget: one release a user; nothing where one public record stands for all.

    ``chosen`` names what was chosen by looking at the records, and is not protected either.
    """
    unspent = accounting.Ledger(Budget(mechanism.epsilon))
    if structure_only:
        return unspent
    released = mechanism.value.guarantee()
    name = f"features by {mechanism.name}"
    return unspent.spend(name, released, protects=("features",), exposes=("edges", "labels", *chosen))


def published_k(dataset: str, task: str) -> int:
    """The paper's k of HDS."""
    published = PUBLISHED.get(dataset, DEFAULT)
    return published.k if task == "node" else published.link_k


@dataclasses.dataclass(frozen=True, eq=False)
class Bench:
    """A data set made ready: everything that the cells of one task share."""

    settings: Settings
    data: datasets.Dataset
    seeds: tuple[int, ...]
    x: Any
    op: propagation.Operator
    train: Any
    validation: Any
    test: Any
    noise_keys: Any
    fit_keys: Any
    model: models.Model

    @property
    def objective(self) -> training.Objective:
        """What the head is trained for."""
        return training.node_classification if self.settings.task == "node" else training.link_prediction


def fingerprint(data: datasets.Dataset) -> str:
    """Short sha256 of a data set's arrays."""
    digest = hashlib.sha256()
    bounds = np.array([data.lower, data.upper], np.float64)
    for array in (bounds, data.edges, data.x.indptr, data.x.indices, data.x.data, data.y):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:10]


_BOUNDS: dict[str, tuple[float, float]] = {}


def declare_bounds(names: Sequence[str], bounds: tuple[float, float]) -> None:
    """Public bounds for files that declare none; before they are loaded."""
    _BOUNDS.update({name: bounds for name in names})
    load.cache_clear()


@lru_cache(maxsize=4)
def load(name: str, features_kept: int = 0) -> datasets.Dataset:
    """A data set, with its most frequent features only where a number is given."""
    data = datasets.load(name, bounds=_BOUNDS.get(name))
    return data.top_features(features_kept) if features_kept else data


@lru_cache(maxsize=1)
def _dense(name: str, features_kept: int) -> Any:
    """The scaled features on the device, once for all batches of seeds."""
    data = load(name, features_kept)
    return jnp.asarray(data.scaled_rows(0, data.num_nodes))


@lru_cache(maxsize=1)
def _operator(name: str) -> propagation.Operator:
    return propagation.operator(load(name).graph)


def prepare(settings: Settings, seeds: Sequence[int]) -> Bench:
    """Splits, keys, operators and the dense scaled features for a batch of seeds.

    Every mechanism and its structure-only twin see the same splits, noise keys and training keys: rows of one
    seed are paired.
    """
    data = load(settings.dataset, settings.features)
    root = jax.random.key(settings.base_seed)
    split_keys, noise_keys, fit_keys = _keys(root, jnp.asarray(seeds))
    if settings.task == "node":
        op = _operator(settings.dataset)
        parts = [splits.node_split(key, data.num_nodes) for key in split_keys]
        examples = [
            training.Examples(np.stack(part), data.y[np.stack(part)].astype(np.int32))
            for part in zip(*parts, strict=True)
        ]
        outputs = data.num_classes
    else:
        parts = [splits.link_split(key, data.edges, data.num_nodes) for key in split_keys]
        ops = [
            propagation.operator(graphs.from_edges(part.train, data.num_nodes), layout="segment") for part in parts
        ]
        op = jax.tree.map(lambda *leaves: jnp.stack(leaves), *ops)
        stacked = [np.stack(part) for part in zip(*parts, strict=True)]
        examples = [training.Pairs(stacked[i], stacked[i + 3]) for i in range(3)]
        outputs = 1
    if settings.head == "logistic":
        model = models.linear(outputs)
    else:
        model = models.mlp(settings.layers, settings.hidden, outputs, settings.dropout)
    x = _dense(settings.dataset, settings.features)
    train, validation, test = examples
    return Bench(settings, data, tuple(seeds), x, op, train, validation, test, noise_keys, fit_keys, model)


@jax.jit
def _keys(root: Any, seeds: Any) -> Any:
    """Keys for the split, the noise and the training of each seed."""
    each = jax.vmap(lambda seed: jax.random.split(jax.random.fold_in(root, seed), 3))(seeds)
    return each[:, 0], each[:, 1], each[:, 2]


def run(bench: Bench, mechanism: Mechanism | None, *, structure_only: bool = False) -> list[dict[str, Any]]:
    """The rows of one cell: perturb, propagate, standardise, train, test.

    Args:
      bench: the data set made ready.
      mechanism: None for the non-private row.
      structure_only: every user holds the one public default record instead of her own.
    """
    start = time.perf_counter()
    settings = bench.settings
    # The keys are cloned: one seed's cells share them on purpose, so that their rows can be paired.
    numbers = [jnp.float32(v) for v in (settings.alpha, settings.r, settings.tol)]
    if mechanism is None:
        # Features relative to the public default record: 0/1 features stay sparse, and what is propagated is
        # the features rather than the degree profile of a constant.
        features_alone = bench.x - bench.data.default_record()
        z = _non_private(bench.op, features_alone, *numbers, runs=len(bench.seeds))
    else:
        x = jnp.full_like(bench.x, bench.data.default_record()) if structure_only else bench.x
        z = pipeline.private_embeddings(jax.random.clone(bench.noise_keys), bench.op, x, mechanism.value, *numbers)
    if settings.standardize:
        z = _standardize(z)
    fitted = training.fit_many(
        jax.random.clone(bench.fit_keys),
        bench.model,
        bench.objective,
        z,
        bench.train,
        bench.validation,
        bench.test,
        optimizer=training.adam(settings.learning_rate, settings.weight_decay),
        epochs=settings.epochs,
        batch_size=settings.batch_size,
    )
    scores = np.asarray(fitted.test, np.float64)
    seconds = (time.perf_counter() - start) / len(bench.seeds)
    if mechanism is None:
        return _rows(bench, "non-private", math.inf, 0, math.inf, scores, seconds)
    spent = ledger(mechanism, structure_only=structure_only).spent(RECORD).epsilon
    name = f"structure-only:{mechanism.name}" if structure_only else mechanism.name
    return _rows(bench, name, mechanism.epsilon, mechanism.k, spent, scores, seconds)


def run_label_propagation(bench: Bench) -> list[dict[str, Any]]:
    """PageRank of the training labels: what the graph says without any feature and without training."""
    start = time.perf_counter()
    numbers = [jnp.float32(v) for v in (bench.settings.alpha, bench.settings.r, bench.settings.tol)]
    scores = _label_propagation(bench.op, bench.train, bench.test, *numbers, classes=bench.data.num_classes)
    seconds = (time.perf_counter() - start) / len(bench.seeds)
    return _rows(bench, "label-propagation", 0.0, 0, 0.0, np.asarray(scores, np.float64), seconds)


def _rows(
    bench: Bench, name: str, epsilon: float, k: int, spent: float, scores: np.ndarray, seconds: float
) -> list[dict[str, Any]]:
    settings = bench.settings
    return [
        {
            "dataset": bench.data.name,
            "task": settings.task,
            "mechanism": name,
            "epsilon": epsilon,
            "k": k,
            "seed": seed,
            "metric": METRIC[settings.task],
            "value": round(float(score), 6),
            "epsilon_proved": spent,
            "unit": str(RECORD),
            "seconds": round(seconds, 4),
            "config": config_hash(settings),
        }
        for seed, score in zip(bench.seeds, scores, strict=True)
    ]


@jax.jit
def _standardize(z: Any) -> Any:
    return jax.lax.map(pipeline.standardize, z)


@partial(jax.jit, static_argnames="classes")
def _label_propagation(op: Any, train: Any, test: Any, alpha: Any, r: Any, tol: Any, *, classes: int) -> Any:
    def one(parts: Any) -> Any:
        train, test = parts
        known = jnp.zeros((op.num_nodes, classes)).at[train.index, train.label].set(1.0)
        return metrics.accuracy(propagation.ppr(op, known, alpha, r, tol)[test.index], test.label)

    return jax.lax.map(one, (train, test))


@partial(jax.jit, static_argnames="runs")
def _non_private(op: Any, x: Any, alpha: Any, r: Any, tol: Any, *, runs: int) -> Any:
    if op.degree.ndim == 2:  # link prediction: one training graph a seed
        return jax.lax.map(lambda each: propagation.ppr(each, x, alpha, r, tol), op)
    return jnp.broadcast_to(propagation.ppr(op, x, alpha, r, tol), (runs, *x.shape))
