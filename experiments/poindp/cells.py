"""One cell of PoinDP.

A network trained on records, with the paper's noise, or on what was reported of them.
"""

import dataclasses
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import _common, _runner
from experiments._common import Score, best, standardized
from experiments.poindp import networks, releases
from experiments.poindp.settings import FEATURES, PROJECTED, PUBLIC, PUBLISHED, STRUCTURE, Settings
from ldp_jax import datasets, hyperbolic
from ldp_jax.datasets import splits
from ldp_jax.graph import propagation
from ldp_jax.learning import metrics, training
from ldp_jax.learning.models import Model, mlp
from ldp_jax.servers.parts import self_training, structure

METRICS = ("weighted-F1", "macro-F1", "micro-F1")
"""Of the test nodes. Of one class a node, micro-F1 is the accuracy."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """One training; ``delta`` stands beside ``epsilon_proved``.

    Splits: random, of which a tenth trains and a tenth validates; public, Planetoid's; inner and
    outer, whose training nodes are among the third nearest to the centre of the Poincaré disk, or
    farthest from it.
    """

    split: str
    delta: float
    last_metric = property(lambda self: METRICS[-1])

    def __str__(self) -> str:
        return f"{self.dataset} {self.split} {self.mechanism} eps {self.epsilon:g} seed {self.seed}"


load = lru_cache(maxsize=2)(_common.load)


@dataclasses.dataclass(frozen=True, eq=False)
class World:
    """A data set and its public facts, shared by all seeds.

    ``op`` is laid out for sums over neighbours, ``segments`` for attention; ``unit`` float32 [n, d]
    has records of length 1 or 0; ``known`` float32 [n, 4] has the Poincaré embedding of the graph
    and each node's sensitivities.
    """

    settings: Settings
    data: datasets.Dataset
    op: Any
    segments: Any
    unit: np.ndarray
    known: np.ndarray

    @property
    def records(self) -> Any:
        """The input of networks that see records; float32 [n, d]."""
        return self.settings.length * jnp.asarray(self.unit)

    @property
    def places(self) -> np.ndarray:
        """float32 [n, 2]."""
        return self.known[:, : networks.PLACES]

    def layout(self, name: str) -> Any:
        """The layout of the graph in which the network of a row is fastest."""
        return self.segments if name in ("gat", "hyperimba") else self.op


_EMBEDDING = np.uint32(0xB411)  # folded into the base seed for the public embedding of a data set
_BATCH = 256  # pairs a step of the embedding


@lru_cache(maxsize=2)
def world(settings: Settings) -> World:
    """The facts that all seeds share; the embedding is that of the graph alone, by one key."""
    data = _common.of_plan(load(settings.dataset), settings)
    x = data.x.toarray()
    x = x if data.lower == 0 else x - (data.lower + data.upper) / 2
    unit = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    found = hyperbolic.embed(
        jax.random.fold_in(jax.random.key(settings.base_seed), _EMBEDDING),
        np.concatenate([data.edges, data.edges[:, ::-1]]), data.num_nodes,
        epochs=settings.embedding_epochs, burn_in=settings.embedding_burn_in, batch_size=_BATCH,
    )  # fmt: skip
    local = [
        of(found.points)
        for of in (hyperbolic.inter_hierarchy_of_nodes, hyperbolic.intra_hierarchy_of_nodes)
    ]
    known = np.concatenate(
        [np.asarray(found.points), np.stack([np.asarray(part) for part in local], 1)], 1
    )
    return World(
        settings,
        data,
        propagation.operator(data.graph),
        propagation.operator(data.graph, "segment"),
        unit.astype(np.float32),
        known.astype(np.float32),
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Bench:
    """A world made ready for one seed and split.

    Its cells share it, so that their rows are paired.
    """

    world: World
    parts: tuple[training.Examples, ...]
    report_key: Any
    projection_key: Any
    fit_key: Any


@lru_cache(maxsize=16)
def prepare(settings: Settings, split: str, seed: int) -> Bench:
    here = world(settings)
    keys = jax.random.split(jax.random.fold_in(jax.random.key(settings.base_seed), seed), 4)
    nodes = split_nodes(keys[0], here, split)
    parts = tuple(training.Examples(part, here.data.y[part].astype(np.int32)) for part in nodes)
    return Bench(here, parts, *keys[1:])


def split_nodes(key: Any, here: World, split: str) -> tuple[np.ndarray, ...]:
    n = here.data.num_nodes
    if split == "random":
        return tuple(splits.node_split(key, n, (0.1, 0.1, 0.8)))
    if split == "public":
        public = np.asarray(here.data.extras["split"])
        return tuple(np.flatnonzero(public == part).astype(np.int32) for part in (1, 2, 3))
    order = np.argsort(np.asarray(hyperbolic.radius(here.places)), kind="stable").astype(np.int32)
    order = order if split == "inner" else order[::-1]
    # As the release: 30 % of the third train, a tenth of all other nodes validates.
    shuffle = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    third = shuffle.permutation(order[: n // 3])
    train, left = np.split(third, [round(0.3 * len(third))])
    rest = shuffle.permutation(np.concatenate([left, order[n // 3 :]]))
    return train, *np.split(rest, [round(0.1 * len(rest))])


@partial(jax.jit, static_argnames=("model", "objective"))
def _judged(
    variables: Any, context: Any, test: Any, *, model: Model, objective: training.Objective
) -> Any:
    outputs, _ = model.apply(variables, objective.inputs(context, test), key=None, train=False)
    outputs = outputs[test.index] if objective is _ON_GRAPH else outputs
    return [metrics.f1(outputs, test.label, name.removesuffix("-F1")) for name in METRICS]


_ON_GRAPH = training.on_graph(training.node_classification)


def fit(
    bench: Bench,
    model: Model,
    context: Any,
    chosen: str = "",
    *,
    rows: bool = False,
    asked: Any = None,
) -> Score:
    """Train a network on its inputs ``context``, keep the best epoch by validation, and judge it.

    ``chosen`` names the preprocessing, ``rows`` says that the network takes rows without a graph,
    and ``asked`` are the inputs that it is judged on, where they differ.
    """
    objective = training.node_classification if rows else _ON_GRAPH
    fitted = training.fit(
        jax.random.clone(bench.fit_key), model, objective, context, *bench.parts,
        settings=bench.world.settings.for_training(len(bench.parts[0].index)),
    )  # fmt: skip
    given = context if asked is None else asked
    judged = _judged(fitted.variables, given, bench.parts[2], model=model, objective=objective)
    return Score(
        dict(zip(METRICS, judged, strict=True)), float(fitted.validation), chosen, fitted.variables
    )


def noisy_rows(bench: Bench, name: str, epsilon: float) -> Any:
    """The reports of a sound row or its twin, float32 [n, k].

    The projected records themselves of ``PROJECTED``.
    """
    here = bench.world
    mine = releases.base(name)
    if mine == "laplace":
        records = to_one(here.unit)
    else:
        key = jax.random.clone(bench.projection_key)
        records = releases.projected(key, here.unit, here.settings.dim)
    if name.startswith(STRUCTURE):
        records = np.zeros_like(records)
    if mine == PROJECTED:
        return jnp.asarray(records)
    key = jax.random.clone(bench.report_key)
    return releases.reports(key, mine, epsilon, records, here.places, here.settings)


def to_one(unit: np.ndarray) -> np.ndarray:
    """Rows that sum to 1; what is negative is taken for 0."""
    positive = np.maximum(unit, 0.0)
    return positive / np.maximum(positive.sum(1, keepdims=True), 1e-12)


def train_on_reports(bench: Bench, name: str, epsilon: float, own: str = "") -> Score:
    """The network on reports that were propagated by several numbers of steps.

    The best in validation.
    """
    here = bench.world
    settings, classes = here.settings, here.data.num_classes
    reports = noisy_rows(bench, name, epsilon)
    if name.startswith(FEATURES):
        return fit(
            bench,
            mlp(2, settings.hidden, classes, settings.dropout),
            standardized(reports),
            rows=True,
        )
    model, kind = networks.network("poindp", settings, classes, own)
    found = []
    menu = (
        settings.steps if reports.shape[1] <= settings.dim + 1 else (0,)
    )  # as LaP, which propagates no features
    for steps, rows in zip(menu, propagation.kprop_many(here.op, reports, menu), strict=True):
        context = networks.inputs_of(
            kind, here.op, standardized(rows), here.known, epsilon, settings
        )
        found.append(fit(bench, model, context, f"{steps} steps"))
    return best(found)


def without_private(bench: Bench) -> Bench:
    """The same with the public record 0 for all users."""
    return dataclasses.replace(
        bench, world=dataclasses.replace(bench.world, unit=np.zeros_like(bench.world.unit))
    )


def train_on_records(bench: Bench, name: str, epsilon: float, own: str = "") -> Score:
    """A network on the records themselves: without privacy, or with the paper's noise.

    Its twin is trained on no record.
    """
    if name.startswith(STRUCTURE):
        bench = without_private(bench)
        name = name.removeprefix(STRUCTURE)
    here = bench.world
    settings, classes = here.settings, here.data.num_classes
    if name == "mlp":
        model = mlp(2, settings.hidden, classes, settings.dropout)
        return fit(bench, model, here.records, rows=True)
    x = here.records
    if name == f"{PUBLISHED}lap":
        x = noise_of_lap(bench, epsilon)
    model, kind = networks.network(name, settings, classes, own)
    return fit(
        bench, model, networks.inputs_of(kind, here.layout(name), x, here.known, epsilon, settings)
    )


def noise_of_lap(bench: Bench, epsilon: float) -> Any:
    """Rows that sum to 1, with Laplace noise of scale 1 / epsilon, drawn once (LaP)."""
    return with_laplace(bench, jnp.asarray(to_one(bench.world.unit)), epsilon)


def with_laplace(bench: Bench, rows: Any, epsilon: float) -> Any:
    """Rows with Laplace noise of scale 1 / epsilon on each feature."""
    return rows + jax.random.laplace(jax.random.clone(bench.report_key), rows.shape) / epsilon


_FOLDS = 10  # in which training nodes are asked of a posterior that has not seen their label


def without_records(bench: Bench) -> Score:
    """The public graph and the training labels alone.

    The structure posterior of least log-loss, out of fold.
    """
    here = bench.world
    train, validation, test = bench.parts
    labels = np.full(here.data.num_nodes, -1, np.int32)
    labels[train.index] = train.label
    fold = self_training.folds(jax.random.clone(bench.fit_key), labels, _FOLDS)
    known = self_training.FoldedLabels(labels, here.data.num_classes, fold, _FOLDS)
    found = structure.structure_posterior(here.data.graph, known, op=here.op)
    values = [
        metrics.f1(found.log_q[test.index], test.label, name.removesuffix("-F1"))
        for name in METRICS
    ]
    right = metrics.accuracy(found.log_q[validation.index], validation.label)
    return Score(dict(zip(METRICS, values, strict=True)), float(right), found.chosen)


def compute(bench: Bench, cell: Cell) -> _runner.Found:
    if cell.mechanism == PUBLIC:
        return without_records(bench).found()
    of_reports = cell.release == PROJECTED or releases.is_sound(cell.release)
    train = train_on_reports if of_reports else train_on_records
    return train(bench, cell.release, cell.epsilon, cell.model).found()
