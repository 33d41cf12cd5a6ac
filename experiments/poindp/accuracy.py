"""The accuracy rows of PoinDP: which there are, in which order, and what is proved of each."""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import pandas as pd

from experiments._common import FOUND, fingerprint, is_own, planned, said_of, usable
from experiments._runner import BY, Found, Results, UsageError, asked, parted
from experiments.poindp import cells, releases
from experiments.poindp import settings as rows_of
from experiments.poindp.settings import (
    FEATURES,
    PRINTED,
    PUBLIC,
    PUBLISHED,
    STRUCTURE,
    Config,
    Settings,
    settings,
)
from ldp_jax import datasets
from ldp_jax.accounting.guarantee import RECORD

NAME = "poindp"

results_in = partial(Results, name=NAME, cell=cells.Cell, also=FOUND)


def load(name: str) -> datasets.Dataset:
    """A data set of one class a node; a UsageError where there is none."""
    data = usable(cells.load, name)
    if data.y.ndim == 2:
        raise UsageError(
            f"--datasets {name}: one class a node is needed, and it has {data.num_classes or 'no'} "
            "labels a node"
        )
    return data


def resolved(config: Config, dataset: str) -> Settings:
    return settings(config, dataset, fingerprint(load(dataset), dataset))


def variants(
    config: Config, data: datasets.Dataset, *, first: bool
) -> Iterator[tuple[str, str, float]]:
    """Split, mechanism and epsilon of the rows of one data set.

    Some of several parts, which are computed once.
    """
    if "table1" in config.parts:
        for split in config.splits:
            if split == "public" and "split" not in data.extras:
                continue
            for name in rows_of.NON_PRIVATE:
                yield split, name, math.inf
            yield split, PUBLIC, 0.0
            rows = [prefix + name for name in rows_of.AS_PUBLISHED for prefix in ("", STRUCTURE)]
            sound = (*rows_of.SOUND, *filter(is_own, config.mechanisms))
            rows += [prefix + name for name in sound for prefix in ("", STRUCTURE, FEATURES)]
            budgets = config.asked("table1")[1]
            yield from ((split, name, epsilon) for name in rows for epsilon in budgets)
            for word in config.models:
                for name in (rows_of.RECORDS, rows_of.PROJECTED):
                    yield split, f"{name}{BY}{word}", math.inf
                rows = [f"{prefix}{name}{BY}{word}" for name in sound for prefix in ("", STRUCTURE)]
                yield from ((split, name, epsilon) for name in rows for epsilon in budgets)
    if "table2" in config.parts:
        for epsilon in config.asked("table2")[1]:
            yield from (("random", name, epsilon) for name in rows_of.ABLATED)
            yield from (
                ("random", prefix + name, epsilon)
                for name in rows_of.SHARES
                for prefix in ("", STRUCTURE)
            )
    if "figure3" in config.parts and first:
        for split in ("random", "inner", "outer"):
            for epsilon in config.asked("figure3")[1]:
                for name in (
                    f"{PUBLISHED}poindp",
                    f"{PRINTED}poindp",
                    "radial",
                    f"{STRUCTURE}radial",
                ):
                    yield split, name, epsilon


@planned
def plan(config: Config) -> Iterator[tuple[cells.Cell, Settings]]:
    for place, dataset in enumerate(config.asked("table1")[0]):
        data = load(dataset)
        chosen = resolved(config, dataset)
        wanted = dict.fromkeys(variants(config, data, first=place == 0))
        for seed in range(config.seeds):
            for split, mechanism, epsilon in wanted:
                if config.asks_for(mechanism):
                    yield cell_of(chosen, data.name, split, mechanism, epsilon, seed), chosen


def cell_of(
    chosen: Settings, dataset: str, split: str, mechanism: str, epsilon: float, seed: int
) -> cells.Cell:
    with asked(f"{dataset}, {mechanism}, epsilon {epsilon:g}"):
        promised = releases.guarantee(parted(mechanism)[0], epsilon, chosen)
    proved = 0.0 if mechanism.startswith(STRUCTURE) else math.inf
    delta = 0.0
    if promised is not None:
        proved, delta = promised[RECORD].epsilon, promised[RECORD].delta
    row = dataset, "node", RECORD, mechanism, epsilon, seed, proved
    return cells.Cell.of(chosen, *row, split=split, delta=delta)[0]


def notes(cell: Any, chosen: Settings) -> dict[str, dict[str, Any]]:
    row = cell.release, cell.epsilon, chosen
    promised = releases.guarantee(*row) or releases.why_none(*row)
    return said_of(
        cells.load(chosen.dataset), f"{cell.mechanism}, epsilon {cell.epsilon:g}", promised
    )


def compute(cell: cells.Cell, chosen: Settings) -> Found:
    return cells.compute(cells.prepare(chosen, cell.split, cell.seed), cell)._replace(
        notes=notes(cell, chosen)
    )


FAMILIES = {
    **dict.fromkeys((*rows_of.NON_PRIVATE, "gcn+H"), "none"),
    PUBLIC: "no record",
    **dict.fromkeys(rows_of.AS_PUBLISHED, "as published"),
    **dict.fromkeys(rows_of.SOUND, "sound"),
}
"""What kind of privacy a row has, without its ablation."""


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with their kind, data set and split in one column, and the paper's number."""
    frame = frame.assign(place=frame.dataset + ", " + frame.split)
    return with_families(frame).assign(
        paper=[rows_of.printed(row) or "" for row in frame.to_dict("records")]
    )


def with_families(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with their kind, the row that an ablation is of, and what is proved of both."""
    whole = frame.mechanism.str.split(" without").str[0]
    family = [FAMILIES.get(name, "your own" if is_own(name) else "twin") for name in whole]
    proved = [
        _proved(*row)
        for row in zip(frame.mechanism, frame.epsilon_proved, frame.delta, strict=True)
    ]
    return frame.assign(whole=whole, family=family, proved=proved)


def _proved(name: str, epsilon: float, delta: float) -> str:
    if math.isinf(epsilon):
        return "-" if parted(name)[0] in (*rows_of.NON_PRIVATE, rows_of.RECORDS) else "none"
    return f"{epsilon:.3g}" + (f", {delta:g}" if delta else "")
