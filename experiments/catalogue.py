"""The experiments and their committed tables: ``list`` and ``show``."""

import dataclasses
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Annotated

import pandas as pd
import tyro
from rich import box
from rich.table import Table

from experiments._registry import EXPERIMENTS, Experiment
from experiments._runner import REFERENCE, UsageError, console, duration

SCREEN = 44
"""Lines that ``show`` prints of pages."""


@dataclasses.dataclass(frozen=True)
class List:
    """The experiments, their committed rows, and how long these took."""


@dataclasses.dataclass(frozen=True)
class Show:
    """The committed tables of an experiment; nothing is computed.

    Without a part it is one screen: each page's title, its first table, and the names of the parts.
    """

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    """one of those that ``list`` lists"""
    part: str | None = None
    """a page of it, its first screen"""


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
        took = experiment.takes or duration(sum(float(frame.seconds.sum()) for frame in cells))
        rows = sum(map(len, frames))
        view.add_row(name, experiment.about, str(rows) if rows else "tables", took)
    console.print(view)
    console.print(
        "took: the sum of the seconds of the committed rows, on the machine that their manifests "
        "name. show NAME prints the committed "
        "tables, reproduce NAME "
        "computes them and compares, report writes tables and figures of your own rows."
    )


def show(config: Show) -> None:
    pages = {Path(name).stem: (REFERENCE / name).read_text() for name in named(config.name).tables}
    if config.part is None:
        room = SCREEN // max(len(pages), 1)
        for text in pages.values():
            _screen(beginning(text, room))
        words = " or ".join(f"--part {part}" for part in pages)
        console.print(
            f"a screen of each: show {config.name} {words}; files: {REFERENCE}", soft_wrap=True
        )
        return
    known = {part.removeprefix(f"{config.name}_"): part for part in pages}
    part = known.get(config.part, config.part)
    if part not in pages:
        raise UsageError(f"--part {config.part}: there are {', '.join(pages)}")
    lines = pages[part].splitlines()
    _screen("\n".join(lines[:SCREEN]))
    if len(lines) > SCREEN:
        console.print(f"the whole page: {REFERENCE / part}.md", soft_wrap=True)


def _screen(text: str) -> None:
    """Lines are cut at the edge of a terminal; a file or a pipe has all of them."""
    if console.is_terminal:
        console.print(text, no_wrap=True, overflow="ellipsis", highlight=False, markup=False)
    else:
        console.print(text, soft_wrap=True, highlight=False, markup=False)


def beginning(text: str, room: int) -> str:
    r"""The title of a page and its first table, in so many lines.

    >>> beginning("# Rows\n\nWords.\n\n| a |\n| --- |\n| 1 |\n| 2 |\n\nMore.", 4)
    '# Rows\n| a |\n| --- |\n| 1 |\n...'
    """
    title, *lines = text.splitlines()
    is_row = lambda line: line.startswith("|")
    table = list(takewhile(is_row, dropwhile(lambda line: not is_row(line), lines))) or lines
    more = ["..."] if len(lines) > room - 1 else []
    return "\n".join([title, *table[: room - 1], *more])
