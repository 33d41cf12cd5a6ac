"""Private friendships: the plan, and its computation."""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np

from experiments import _common, _runner
from experiments._runner import Found, Results, UsageError, asked, rounded
from experiments.frontier import methods, own
from experiments.frontier.config import Config
from experiments.frontier.methods import METHODS, PILOTED, WITHOUT_EPSILON, Asked, Unit
from ldp_jax import datasets
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP, PipelineGuarantee
from ldp_jax.bench import Draw
from ldp_jax.core.random_words import places_within
from ldp_jax.core.types import Graph
from ldp_jax.servers import Users
from ldp_jax.servers.parts.rows import Rows, feature_rows
from ldp_jax.servers.parts.self_training import features_posterior
from ldp_jax.servers.parts.self_training import folds as find_folds

NAME = "frontier_edges"
WHO = ("gain_fewest_friends", "gain_most_friends", "gain_least_class")
"""Columns of points over what is public: of the third of users with the fewest friends, of the one
with the most, and of the class that gains least."""

FOUND = ("groups", "strength", "forecast", *WHO)
"""Columns of piloted counts that identify no row: the groups chosen after the pilot, the guard's s,
and by how much accuracy was forecast to rise above that of features alone, before anybody but the
pilot reported."""

ACCURACY = "accuracy"
UNITS: dict[Unit, Any] = {"list": NEIGHBOUR_LIST, "relationship": RELATIONSHIP}
COUNTS = ("blogcatalog",)
"""Data sets whose features are counts by their public schema: log(1 + x) of them is taken."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """One method on one draw of labels and noise."""

    labels: str
    """whose are public: ``half``, or so many of each class"""

    group = property(lambda self: (self.dataset, self.labels, self.seed))  # one draw of labels

    @property
    def last_metric(self) -> str:
        return methods.CHANCE if self.mechanism == methods.REHEARSAL else ACCURACY

    promise = property(lambda self: f"{self.mechanism}, epsilon {self.epsilon:g} per {self.unit}")
    """its guarantee's name in the manifest"""

    def __str__(self) -> str:
        row = f"{self.mechanism} eps {self.epsilon:g} per {self.unit}"
        return f"{self.dataset} {self.labels} {row} draw {self.seed}"


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of rows beyond the identifying columns; their hash is the column ``config``."""

    dataset: str
    """name, or path of a user's file"""
    data: str
    """short sha256 of the arrays that were loaded"""
    logs: bool
    """whether log(1 + x) of the features is taken"""
    base_seed: int = 20260


results_in = partial(Results, name=f"{NAME}_accuracy", cell=Cell, also=FOUND)


@lru_cache(maxsize=2)
def load_any(name: str) -> datasets.Dataset:
    with asked(f"--datasets {name}", OSError):
        return _common.load(name)


def load(name: str) -> datasets.Dataset:
    """A graph whose nodes have one class each."""
    data = load_any(name)
    if data.node_graph is not None or data.y.ndim != 1 or (data.y < 0).any():
        unknown = data.node_graph is None and data.y.ndim == 1
        hint = ", and some have none (-1): leave those out" if unknown else ""
        raise UsageError(
            f"--datasets {name}: one graph whose nodes have one known class each is needed{hint}"
        )
    return data


@lru_cache(maxsize=2)
def rows_of(name: str, logs: bool) -> Rows | None:
    """The public features as classifiers take them."""
    data = load(name)
    return feature_rows(data.x, log=logs) if data.num_features else None


def public_labels(key: Any, y: np.ndarray, setting: str) -> np.ndarray:
    """Labels of half of each class, rounded up, or so many of each, at most all but one.

    Int32 [n], -1 for none.
    """
    size = np.bincount(y)[y]
    wanted = (
        -(-size // 2) if setting == "half" else np.minimum(int(setting), np.maximum(size - 1, 1))
    )
    return labels_of(key, y, wanted)


def labels_of(key: Any, y: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Labels of users drawn from each class, ``wanted`` [n] of a user's class.

    Int32 [n], -1 for everybody else.
    """
    return np.where(places_within(key, y) < wanted, y, -1).astype(np.int32)


@lru_cache(maxsize=4)
def draw(settings: Settings, labels: str, seed: int) -> tuple[Asked, np.ndarray]:
    """The server's facts in one draw, and the classes that it does not know."""
    data = _common.of_plan(load(settings.dataset), settings)
    key = jax.random.fold_in(jax.random.key(settings.base_seed), seed)
    y = data.y.astype(np.int32)
    known = public_labels(key, y, labels)
    rows = rows_of(settings.dataset, settings.logs)
    classes = data.num_classes
    q = None
    if rows is not None:
        folds = 10 if len(rows.value) <= 100_000 else 5
        fold = find_folds(jax.random.fold_in(key, 1), known, folds)
        q = features_posterior(rows, known, fold, num_classes=classes, num_folds=folds)
    public = Asked(data.graph, rows, known, classes, q, methods.stated(data.graph, y, q))
    return public, np.where(known < 0, y, -1)


def check_count(option: str, setting: str, data: datasets.Dataset) -> None:
    """Refuse to ask for more public users of each class than the largest class has, less one."""
    most = int(np.bincount(data.y).max())
    if setting.isdecimal() and int(setting) >= most:
        raise UsageError(
            f"{option} {setting} of {data.name}: must be below {most}, the users of its largest "
            "class, "
            "or nobody is left who is asked"
        )


@_common.planned
def plan(config: Config) -> Iterator[tuple[Cell, Settings]]:
    """The cells, draw after draw: a run that is stopped leaves whole draws."""
    for dataset in config.datasets:
        data = load(dataset)
        settings = Settings(dataset, _common.fingerprint(data, dataset), dataset in COUNTS)
        for labels in config.labels:
            check_count("--labels", labels, data)
            yield from cells(
                Cell, data, settings, config.seeds, list(variants(config)), labels=labels
            )


def cells(
    kind: type[_runner.Cell], data: datasets.Dataset, settings: Any, draws: int,
    rows: Iterable[tuple[str, float, Any]], task: str = "node", **fields: Any,
) -> Iterator[tuple[Any, Any]]:  # fmt: skip
    """The cells of a data set, draw by draw; a row is a method, an epsilon and its unit."""
    for seed, (mechanism, epsilon, unit) in itertools.product(range(draws), rows):
        yield kind.of(settings, data.name, task, unit, mechanism, epsilon, seed, **fields)


def variants(config: Config) -> Iterator[tuple[str, float, Any]]:
    """Method, epsilon and unit; those without epsilon first."""
    wanted = [
        name
        for name in METHODS
        if not config.mechanisms or name in config.mechanisms or name == "features"
    ]
    wanted += filter(_common.is_own, config.mechanisms)
    for name in wanted:
        if name in WITHOUT_EPSILON:
            yield name, math.inf if name.startswith("non-private") else 0.0, NEIGHBOUR_LIST
    for epsilon in config.epsilons:
        for name in wanted:
            if name in WITHOUT_EPSILON:
                continue
            for unit in config.units if name == PILOTED else ("list",):
                yield name, epsilon, UNITS[unit]


def compute(cell: Cell, settings: Settings) -> Found:
    """Compute the row of a method on a draw; its noise is the same at every budget."""
    given, y = draw(settings, cell.labels, cell.seed)
    mine = _common.is_own(cell.mechanism)
    number = own.noise(cell.mechanism) if mine else list(METHODS).index(cell.mechanism)
    key = jax.random.fold_in(
        jax.random.fold_in(jax.random.key(settings.base_seed + 1), cell.seed), number
    )
    unit: Unit = "relationship" if cell.unit == str(RELATIONSHIP) else "list"
    if mine:
        fold_key, key = jax.random.split(key)
        facts = methods.facts_of(fold_key, given)
        users = Users(lists=given.graph)
        public = Draw(load(settings.dataset), "edges", given.labels, facts, users)
        found = own.answer(key, cell.mechanism, public, cell.epsilon)
    else:
        found = METHODS[cell.mechanism](key, given, cell.epsilon, unit)
    row = Found({})  # of a method that refuses the graph, such as lists that no memory holds
    if isinstance(found.scores, Mapping):
        row = Found({name: round(value, 6) for name, value in found.scores.items()})
    elif found.scores is not None:
        right = np.asarray(found.scores).argmax(1)[y >= 0] == y[y >= 0]
        also = dict(found.also)
        if cell.mechanism == PILOTED and given.q is not None:
            also |= who_gains(found.scores, given.q.log_q, y, given.graph)
        row = Found(rounded({ACCURACY: right.mean()}), {name: also.get(name, "") for name in FOUND})
    return promised(cell, settings, row, found.guarantee, found.guarantee[UNITS[unit]].epsilon)


def who_gains(scores: Any, public: Any, y: np.ndarray, graph: Graph) -> dict[str, float]:
    """:data:`WHO`, of users whose class is asked for: -1 in ``y`` for others."""
    asked_for = np.flatnonzero(y >= 0)
    right = [np.asarray(each).argmax(1)[asked_for] == y[asked_for] for each in (scores, public)]
    gain = 100.0 * (right[0].astype(float) - right[1])
    degree = np.bincount(np.asarray(graph.receivers), minlength=len(y))[asked_for]
    fewest, most = np.quantile(degree, (1 / 3, 2 / 3))
    of_classes = [gain[y[asked_for] == one].mean() for one in np.unique(y[asked_for])]
    of_groups = gain[degree <= fewest].mean(), gain[degree >= most].mean(), min(of_classes)
    return {name: round(float(value), 3) for name, value in zip(WHO, of_groups, strict=True)}


def check(cell: Cell, settings: Settings) -> None:
    if _common.is_own(cell.mechanism):
        return
    data = load(settings.dataset)
    methods.check(cell.mechanism, cell.epsilon, data.num_nodes, data.num_classes)


def promised(
    cell: Any, settings: Any, found: Found, guarantee: PipelineGuarantee, spent: float
) -> Found:
    """The result, with its guarantee for the manifest.

    A row that spends more than it says is an error.
    """
    if spent > cell.epsilon_proved * (1 + 1e-9):
        raise AssertionError(
            f"{cell}: its guarantee is {spent}"
        )  # a defect of ours, not of the user's
    parts = [
        f"{found.also[name]:g} a {name}"
        for name in ("record", "list")
        if found.also.get(name, "") != ""
    ]
    promise = ", ".join([f"{cell.dataset}: {cell.promise}", *parts])
    return found._replace(notes=_common.said_of(load_any(settings.dataset), promise, guarantee))
