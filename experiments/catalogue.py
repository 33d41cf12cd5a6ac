"""What there is and what it found: ``list`` and ``show``."""

import contextlib
import dataclasses
from typing import Annotated

import pandas as pd
import tyro
from rich import box
from rich.table import Table

from experiments._registry import EXPERIMENTS, Experiment
from experiments._runner import REFERENCE, UsageError, console


@dataclasses.dataclass(frozen=True)
class List:
    """What can be run, what of it is committed, and how long that took."""


@dataclasses.dataclass(frozen=True)
class Show:
    """The committed tables of an experiment; nothing is computed."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    """one of those that ``list`` lists"""


def named(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        raise UsageError(
            f"NAME {name}: there is no experiment of that name; there are {', '.join(EXPERIMENTS)}"
        )
    return EXPERIMENTS[name]


def list_all(config: List) -> None:
    view = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="python -m experiments NAME")
    for header in ("name", "what", "committed rows", "took"):
        view.add_column(header, justify="right" if header in ("committed rows", "took") else "left")
    for name, experiment in EXPERIMENTS.items():
        frames = [pd.read_csv(REFERENCE / f"{stem}.csv") for stem in experiment.rows]
        cells = [frame.drop(columns=["metric", "value"]).drop_duplicates() for frame in frames]
        hours = sum(float(frame.seconds.sum()) for frame in cells) / 3600
        took = experiment.takes or (
            f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.0f} minutes"
        )
        rows = sum(map(len, frames))
        view.add_row(name, experiment.about, str(rows) if rows else "tables", took)
    console.print(view)
    console.print(
        "took: the sum of the seconds of the committed rows. show NAME prints the committed "
        "tables, reproduce NAME "
        "computes them and compares, report writes tables and figures of your own rows."
    )


def show(config: Show) -> None:
    tables = named(config.name).tables
    with console.pager() if console.is_terminal else contextlib.nullcontext():  # a screen at a time
        for name in tables:
            console.print(
                (REFERENCE / name).read_text(), soft_wrap=True, highlight=False, markup=False
            )
        console.print(f"committed files: {REFERENCE}", soft_wrap=True)
