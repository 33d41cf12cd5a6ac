"""Figures 6, 7, 10 and 11: the plan, and its computation."""

import dataclasses
import itertools
import math
from collections.abc import Iterator
from functools import partial
from typing import get_args

import pandas as pd

from experiments import _common, _runner
from experiments.heterorr import cells, releases
from experiments.heterorr import settings as rows_of
from experiments.heterorr.settings import PRIVATE_LABELS, Config, Level, Settings, settings
from ldp_jax.accounting.guarantee import EDGE_CENTRAL, RECORD

NAME = "heterorr"
WIDTH = 48
"""Of the public embedding. Few coordinates would hold back the rows without privacy."""
LEVELS: tuple[Level, ...] = get_args(Level)

results_in = partial(_runner.Results, name=NAME, cell=cells.Cell, also=_common.FOUND)
load = partial(_common.usable, cells.load)


def resolved(config: Config, dataset: str, level: Level) -> Settings:
    """The settings of a data set and level.

    The embedding is no wider than the public users are many.
    """
    data = load(dataset)
    width = min(WIDTH, data.num_features, round(0.1 * data.num_nodes))
    return settings(config, dataset, _common.fingerprint(data, dataset), level, width)


def variants(
    config: Config, level: Level, classes: int, width: int
) -> Iterator[tuple[str, float, float, str, float]]:
    """Mechanism, epsilon, rho, mechanism and epsilon of the edges: baselines first.

    ``classes`` is 0 where a node has several labels; ``width`` is of the public embedding.
    """
    asked_for = set(config.mechanisms)
    budgets = config.epsilons or rows_of.EPSILONS
    last = config.private_shares[-1]
    by_labels = () if not classes else (cells.LABEL_PROPAGATION,)
    if level == "features":
        for name in (cells.NON_PRIVATE, cells.RECORDS, releases.FEATURES + cells.NON_PRIVATE):
            yield name, math.inf, 0.0, "", 0.0
        for name in (cells.PUBLIC_RECORDS, *by_labels):
            yield name, 0.0, 0.0, "", 0.0
        known = [name for name in rows_of.FEATURE_MECHANISMS if name in asked_for]
        asking = [PRIVATE_LABELS] if classes and "lpgnn" in asked_for else []
        for name in filter(_common.is_own, config.mechanisms):
            of_labels = classes and releases.label_mechanism(name, budgets[0], classes, width)
            (asking if of_labels else known).append(name)
        rows = [
            prefix + name
            for name in known
            for prefix in ("", releases.STRUCTURE, releases.FEATURES)
        ]
        rows += [prefix + name for name in asking for prefix in ("", releases.STRUCTURE)]
        yield from ((name, epsilon, 0.0, "", 0.0) for epsilon in budgets for name in rows)
    elif level == "edges":
        for rho in config.private_shares:
            for name in (cells.NON_PRIVATE, releases.FEATURES + cells.NON_PRIVATE):
                yield name, math.inf, rho, "", 0.0
            for name in (*releases.EPSILON_0, *by_labels):
                yield name, 0.0, rho, "", 0.0
            words = (*rows_of.EDGE_MECHANISMS, *rows_of.LONG_CHAINS)
            known = [name for name in words if name in asked_for]
            at = budgets if rho == last or len(config.epsilons) == 1 else (1.0,)
            yield from ((name, epsilon, rho, "", 0.0) for epsilon in at for name in known)
    else:
        yield cells.NON_PRIVATE, math.inf, last, cells.NON_PRIVATE, math.inf
        yield cells.PUBLIC_RECORDS, 0.0, last, releases.PUBLIC_EDGES, 0.0
        pairs = [pair for pair in rows_of.PAIRS if asked_for.issuperset(pair)]
        yield from (
            (name, epsilon, last, other, epsilon) for epsilon in budgets for name, other in pairs
        )


@_common.planned
def plan(config: Config) -> Iterator[tuple[cells.Cell, Settings]]:
    levels = [level for level in LEVELS if level in config.parts]
    for level, dataset in itertools.product(levels, config.datasets):
        data = load(dataset)
        chosen = resolved(config, dataset, level)
        classes = data.num_classes if data.y.ndim == 1 else 0
        task = "node" if classes else "labels"
        unit = EDGE_CENTRAL if level == "edges" else RECORD
        for seed in range(config.seeds):
            bench = cells.prepare(chosen, seed)
            for mechanism, epsilon, rho, other, of_edges in variants(
                config, level, classes, chosen.width
            ):
                more = {"level": level, "rho": rho, "edges": other, "epsilon_edges": of_edges}
                trained = mechanism != cells.LABEL_PROPAGATION
                for name in _common.by_models(mechanism, config.models if trained else ()):
                    row = (data.name, task, unit, name, epsilon, seed, 0.0)
                    cell, _ = cells.Cell.of(chosen, *row, **more)
                    with _runner.asked(str(cell)):
                        yield dataclasses.replace(cell, epsilon_proved=_proved(bench, cell)), chosen


def _proved(bench: cells.Bench, cell: cells.Cell) -> float:
    if cells.NON_PRIVATE in cell.release or cell.release == cells.RECORDS:
        return math.inf
    promised = cells.guarantee(bench, cell)
    if promised is None:
        return 0.0
    return promised[EDGE_CENTRAL if cell.level == "edges" else RECORD].epsilon


def compute(cell: cells.Cell, chosen: Settings) -> _runner.Found:
    bench = cells.prepare(chosen, cell.seed)
    mechanism = f"{cell.mechanism} + {cell.edges}" if cell.edges else cell.mechanism
    name = f"{cell.level}: {mechanism}, epsilon {cell.epsilon:g}"
    promised = cells.guarantee(bench, cell)
    return cells.compute(bench, cell)._replace(
        notes=_common.said_of(load(chosen.dataset), name, promised)
    )


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows by mechanism and prefix, with both mechanisms in one column; counts are not scaled.

    Nothing is proved of a row whose long chains do not agree.
    """
    frame = frame.fillna({"edges": ""})
    parts = [_parted(name) for name in frame.mechanism]
    count = frame.metric.isin([cells.RELEASED, cells.TRUE, cells.AGREED])
    apart = frame[(frame.metric == cells.AGREED) & (frame.value == 0)]
    same_cell = ["dataset", "mechanism", "epsilon", "rho", "edges", "seed"]
    claims = ~frame.set_index(same_cell).index.isin(apart.set_index(same_cell).index)
    pair = [
        f"{rows_of.LABELS.of(one)} + {rows_of.LABELS.of(other)}" if other else ""
        for one, other in zip(frame.mechanism, frame.edges, strict=True)
    ]
    return frame.assign(
        value=frame.value.where(~count, frame.value / 100),
        epsilon_proved=frame.epsilon_proved.where(claims, math.inf),
        kind=[kind or "released" for kind, _ in parts],
        base=[base for _, base in parts],
        pair=pair,
    )


def _parted(name: str) -> tuple[str, str]:
    """The prefix of a row, without its colon, and the mechanism."""
    for prefix in (releases.STRUCTURE, releases.FEATURES):
        if name.startswith(prefix):
            return prefix.rstrip(":"), name.removeprefix(prefix)
    return "", name
