"""Cells of Tables 1 and 2 that differ from the paper by more than 5 points.

Each variant changes one thing, and shows how much of the gap it closes.
"""

import dataclasses
import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pandas as pd
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from experiments import _common, _runner
from experiments.poindp import accuracy, cells, networks
from experiments.poindp import settings as rows_of
from ldp_jax.learning import training

NAME = "poindp_gaps"
APART = 5.0
"""Points between the printed mean and ours from which a cell is asked."""

COMPONENT = "largest component"
RAW = "features as they are"
SUM_TO_1 = "features that sum to 1"
WIDE = "64 wide"
LONG = "500 epochs"
ON_TEST = "epoch chosen on the test nodes"
SILENT = "answers without noise"
VARIANTS = (COMPONENT, RAW, SUM_TO_1, WIDE, LONG, ON_TEST, SILENT)
"""One change each of what the rows of the tables do; SILENT of rows with noise on answers alone."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(cells.Cell):
    """One training of a row with one change, its ``variant``."""

    variant: str

    def __str__(self) -> str:
        return f"{super().__str__()}, {self.variant}"


class Gap(NamedTuple):
    """A cell of a table that differs; per cent."""

    table: int
    dataset: str
    mechanism: str
    epsilon: float
    metric: str
    printed: float
    ours: float


results_in = partial(_runner.Results, name=NAME, cell=Cell, also=_common.FOUND)


def gaps(frame: pd.DataFrame) -> list[Gap]:
    """Cells whose mean over the rows of a random split is far from the printed number."""
    return [cell for cell in compared(frame) if abs(cell.ours - cell.printed) > APART]


def compared(frame: pd.DataFrame) -> list[Gap]:
    at = (
        frame[frame.split == "random"]
        .groupby(["dataset", "mechanism", "epsilon", "metric"])
        .value.mean()
        * 100
    )
    known = [
        (1, dataset, name, 1.0 if name in rows_of.AS_PUBLISHED else np.inf, metric, value)
        for (dataset, name), both in rows_of.TABLE_1.items() for metric,
        value in zip(cells.METRICS[:2], both, strict=True)
    ]  # fmt: skip
    asked = rows_of.BUDGETS["table2"][0], cells.METRICS[0]
    known += [(2, *row, *asked, value) for row, value in rows_of.TABLE_2.items()]
    return [Gap(*cell, float(at[cell[1:5]])) for cell in known if cell[1:5] in at]


@_common.planned
def plan(config: rows_of.Config) -> Iterator[tuple[Cell, rows_of.Settings]]:
    # Which ones differ is read off the committed rows.
    asked = dict.fromkeys(gap[1:4] for gap in gaps(accuracy.results_in(_runner.REFERENCE).read()))
    for seed, dataset in itertools.product(range(config.seeds), config.asked("gaps")[0]):
        base = accuracy.resolved(config, dataset)
        called = accuracy.load(dataset).name
        for name, epsilon in [
            (name, eps) for of, name, eps in asked if of == called and config.asks_for(name)
        ]:
            for variant in variants(name):
                chosen = varied(base, variant)
                cell = accuracy.cell_of(chosen, called, "random", name, epsilon, seed)
                yield Cell(**dataclasses.asdict(cell), variant=variant), chosen


def variants(name: str) -> tuple[str, ...]:
    """The changes that make a difference to a row.

    LaP's features sum to 1, and only some networks are noisy.
    """
    if name == f"{rows_of.PUBLISHED}lap":
        return tuple(one for one in VARIANTS if one not in (SUM_TO_1, SILENT))
    noisy = name in (*rows_of.ABLATED, *rows_of.AS_PUBLISHED)
    return VARIANTS if noisy else VARIANTS[: VARIANTS.index(SILENT)]


def varied(settings: rows_of.Settings, variant: str) -> rows_of.Settings:
    """The settings of a variant, where it is a matter of settings."""
    if variant == WIDE:
        return dataclasses.replace(settings, hidden=64)
    if variant == LONG:
        return dataclasses.replace(
            settings, epochs=round(2.5 * settings.epochs), patience=settings.epochs
        )
    return settings


def altered(bench: cells.Bench, variant: str) -> cells.Bench:
    here = bench.world
    if variant == ON_TEST:
        train, _, test = bench.parts
        return dataclasses.replace(bench, parts=(train, test, test))
    if variant == COMPONENT:
        inside = largest_component(here.data.edges, here.data.num_nodes)
        kept = (part.index[inside[part.index]] for part in bench.parts)
        parts = tuple(training.Examples(one, here.data.y[one].astype(np.int32)) for one in kept)
        return dataclasses.replace(bench, parts=parts)
    return bench


def largest_component(edges: np.ndarray, n: int) -> np.ndarray:
    """Which nodes are in it; bool [n]."""
    adjacency = scipy.sparse.coo_array((np.ones(len(edges), bool), tuple(edges.T)), (n, n))
    _, component = connected_components(adjacency, directed=False)
    return component == np.bincount(component).argmax()


def records(bench: cells.Bench, variant: str, *, lap: bool) -> Any:
    """The input of networks, float32 [n, d]; LaP's own rows sum to 1."""
    here = bench.world
    if variant == RAW:
        return jnp.asarray(here.data.x.toarray(), jnp.float32)
    return jnp.asarray(cells.to_one(here.unit)) if lap or variant == SUM_TO_1 else here.records


def compute(cell: Cell, chosen: rows_of.Settings) -> _runner.Found:
    bench = cells.prepare(chosen, cell.split, cell.seed)
    settings, name = bench.world.settings, cell.mechanism
    lap = name == f"{rows_of.PUBLISHED}lap"
    bench = altered(bench, cell.variant)
    here = bench.world
    x = records(bench, cell.variant, lap=lap)
    if lap:
        x = cells.with_laplace(bench, x, cell.epsilon)
    model, kind = networks.network(name, settings, here.data.num_classes)
    layout = here.layout(name)
    context, asked = (
        networks.inputs_of(kind, layout, x, here.known, epsilon, settings)
        for epsilon in (cell.epsilon, np.inf if cell.variant == SILENT else cell.epsilon)
    )
    return (
        cells.fit(bench, model, context, asked=asked)
        .found()
        ._replace(notes=accuracy.notes(cell, chosen))
    )


PUBLIC_SPLIT, OTHER_METRIC = "public split", "micro-F1"
"""Two more causes, read off the rows of the tables themselves."""


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """The cells that differ, each with how far every change leaves it from the paper, in points.

    *brought* is the mean in per cent, and *closed* says whether any change comes near.
    """
    tables = accuracy.results_in(frame.attrs["out"]).read()
    random = tables[(tables.split == "random") & (tables.metric == cells.METRICS[-1])]
    parts = [frame, tables[tables.split == "public"].assign(variant=PUBLIC_SPLIT)]
    parts += [random.assign(variant=OTHER_METRIC, metric=one) for one in cells.METRICS[:2]]
    place = ["dataset", "mechanism", "epsilon", "metric"]
    brought = 100 * pd.concat(parts).groupby([*place, "variant"]).value.mean()
    found = pd.DataFrame(gaps(tables)).merge(brought.reset_index(), on=place, how="left")
    off = (found.value - found.printed).abs()
    least = off.groupby([found[name] for name in place]).transform("min")
    return found.assign(
        off=off,
        brought=found.value.round(2),
        closed=np.where(least <= APART, "yes", "no"),
        asked=len(compared(tables)),
        seeds=frame.seed.nunique(),
    )
