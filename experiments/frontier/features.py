"""Private features beside a public panel: the plan, and its computation."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments import _common, _runner
from experiments.frontier import features_methods as methods
from experiments.frontier import friendships, own
from experiments.frontier.config import Config
from experiments.frontier.features_methods import (
    CHOSEN,
    METHODS,
    WITHOUT_EPSILON,
    Answer,
    Asked,
    Method,
)
from experiments.frontier.friendships import Settings
from ldp_jax import features, servers
from ldp_jax.accounting.guarantee import RECORD, PipelineGuarantee
from ldp_jax.bench import Draw
from ldp_jax.bench.draws import Hides

NAME = "frontier_features"
FOUND = ("members", "strength", "used")
"""Columns that identify no row: how many are of the panel, the guard's belief, and what was
returned (reports or structure; of the structure that the panel chose, which)."""
ALSO = (*FOUND, *friendships.WHO)
"""Those, and who gains by reports."""

ACCURACY, LOG_LOSS = "accuracy", "log loss"
BASE_SEED = 20261


class Part(NamedTuple):
    """Which rows a part of the frontier has, that starts from these draws."""

    methods: Mapping[str, Method]
    without_epsilon: tuple[str, ...]
    """names of those that use no private data at all, or all of it"""
    always: str
    """the one that is computed whatever is asked for"""
    found: tuple[str, ...]
    """columns that identify no row"""
    unit: str
    """that epsilon is about"""
    spent: Callable[[PipelineGuarantee], float]
    """the epsilon of a guarantee that must not exceed a row's own"""
    hides: Hides = "features"
    """what is private"""


FEATURES = Part(
    METHODS, WITHOUT_EPSILON, CHOSEN, ALSO, str(RECORD), lambda promised: promised[RECORD].epsilon
)
"""Private features, public friendships and panel."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(_runner.Cell):
    """One method on one draw of a panel and noise."""

    panel: str
    """whose records and labels are public: a share of each class, or so many of each"""

    group = property(lambda self: (self.dataset, self.panel, self.seed))  # one draw of a panel
    last_metric = property(lambda self: methods.LAST.get(self.mechanism, ACCURACY))
    promise = property(lambda self: f"{self.mechanism}, epsilon {self.epsilon:g}")

    def __str__(self) -> str:
        return (
            f"{self.dataset} panel {self.panel} {self.mechanism} eps {self.epsilon:g} draw "
            f"{self.seed}"
        )


results_in = partial(_runner.Results, name=f"{NAME}_accuracy", cell=Cell, also=ALSO)


def panel_labels(key: Any, y: np.ndarray, setting: str) -> np.ndarray:
    """Labels of a panel: a share of each class, rounded up, or so many of each.

    At most all but one of a class.
    """
    size = np.bincount(y)
    wanted = (
        np.ceil(float(setting) * size - 1e-9)
        if "." in setting
        else np.full(len(size), int(setting))
    )
    return friendships.labels_of(key, y, np.minimum(wanted, np.maximum(size - 1, 1))[y])


@lru_cache(maxsize=1)
def draw(settings: Settings, setting: str, seed: int) -> Asked:
    """A panel, and what is known before anybody reports."""
    data = _common.of_plan(friendships.load(settings.dataset), settings)
    rows = friendships.rows_of(settings.dataset, settings.logs)
    if rows is None:
        raise _runner.UsageError(
            f"--datasets {settings.dataset}: it has no features, so there is nothing private"
        )
    key = jax.random.fold_in(jax.random.key(settings.base_seed), seed)
    panel_key, facts_key = jax.random.split(key)
    labels = panel_labels(panel_key, data.y.astype(np.int32), setting)
    known = methods.padded(rows.take(np.flatnonzero(labels >= 0)))
    with _runner.asked(f"--panels {setting} of {settings.dataset}"):
        facts = servers.panel_facts(
            facts_key, data.graph, known, labels, num_classes=data.num_classes
        )
    return Asked(settings.dataset, data, rows, labels, facts)


def scored(found: Answer, asked: Asked) -> dict[str, float]:
    """The share of private users whose class is the likeliest.

    Where there are scores, their log-loss too.
    """
    if isinstance(found.scores, Mapping):
        return {name: round(value, 6) for name, value in found.scores.items()}
    if np.ndim(found.scores) == 0:
        return {ACCURACY: round(float(found.scores), 6)}
    private = asked.private
    y = asked.data.y[asked.private]
    scores = np.asarray(found.scores, np.float64)[private]
    log_p = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    return {
        LOG_LOSS: round(-float(log_p[np.arange(len(y)), y].mean()), 6),
        ACCURACY: round(float((scores.argmax(1) == y).mean()), 6),
    }


@_common.planned
def plan(config: Config, part: Part = FEATURES) -> Iterator[tuple[Cell, Settings]]:
    for dataset in config.datasets:
        data = friendships.load(dataset)
        settings = Settings(
            dataset, _common.fingerprint(data, dataset), dataset in friendships.COUNTS, BASE_SEED
        )
        named = [(*row, part.unit) for row in variants(config, part)]
        for setting in config.panels:
            friendships.check_count("--panels", setting, data)
            yield from friendships.cells(Cell, data, settings, config.seeds, named, panel=setting)


def variants(config: Config, part: Part = FEATURES) -> Iterator[tuple[str, float]]:
    """Method and epsilon; those without epsilon first. Baselines of gains are always there."""
    asked = [
        name
        for name in part.methods
        if not config.mechanisms or name in (*config.mechanisms, part.always)
    ]
    asked += filter(_common.is_own, config.mechanisms)
    for name in asked:
        if name in part.without_epsilon:
            yield name, math.inf if name.startswith(methods.TRUE) else 0.0
    for epsilon in config.epsilons:
        for name in asked:
            if name not in part.without_epsilon:
                yield name, epsilon


def compute(cell: Cell, settings: Settings, part: Part = FEATURES) -> _runner.Found:
    """Compute the row of a method on a draw; its noise is the same at every budget."""
    asked = draw(settings, cell.panel, cell.seed)
    method = part.methods.get(cell.mechanism) or _own(cell.mechanism, part)
    key = jax.random.fold_in(
        jax.random.fold_in(jax.random.key(settings.base_seed + 1), cell.seed), method.noise
    )
    found = method.run(key, asked, cell.epsilon)
    told = dict(found.also) | {"members": len(asked.members)}
    if cell.mechanism == methods.LOCAL:
        y = np.where(asked.labels < 0, asked.data.y, -1)
        told |= friendships.who_gains(
            found.scores, asked.facts.structure.log_q, y, asked.data.graph
        )
    also = {name: told.get(name, "") for name in part.found}
    row = _runner.Found(scored(found, asked), also)
    return friendships.promised(cell, settings, row, found.guarantee, part.spent(found.guarantee))


def _own(word: str, part: Part) -> Method:
    """Somebody's own mechanism or server."""

    def run(key: Any, asked: Asked, epsilon: float) -> Answer:
        fold_key, key = jax.random.split(key)
        facts = asked.facts
        users = servers.Users(records=asked.rows, public=asked.labels >= 0)
        if part.hides == "both":
            shown = asked.rows.take(asked.members)
            classes = asked.classes
            facts = servers.joint_facts(fold_key, shown, asked.labels, num_classes=classes)
            users = dataclasses.replace(users, labels=asked.data.y, lists=asked.data.graph)
        draw = Draw(asked.data, part.hides, asked.labels, facts, users)
        return own.answer(key, word, draw, epsilon)

    return Method(own.noise(word), run)


def check(cell: Cell, settings: Settings, part: Part = FEATURES) -> None:
    if _common.is_own(cell.mechanism):
        return
    if cell.mechanism not in part.without_epsilon:
        classes = friendships.load(settings.dataset).num_classes
        features.PersonalAlphabet(cell.epsilon, np.full(classes, 1 / classes))
