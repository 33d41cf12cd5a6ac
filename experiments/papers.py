"""Tables and figures of five papers: where each is computed here, or why not.

Whether it is computed is read off committed rows.
"""

import functools
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from experiments._report import markdown, prose
from experiments._runner import REFERENCE, write_atomically

_TEXT = prose("papers")


class Item(NamedTuple):
    """A table or figure, or several that hold no result."""

    paper: str
    name: str
    """as the paper numbers it"""
    what: str
    data: tuple[str, ...] = ()
    """the paper's data sets, by their names here; empty where it has none"""
    rows: tuple[str, str] = ("", "")
    """stem of the committed CSV, and a query that its rows answer; "" where there are none"""
    command: str = ""
    """words after ``python -m experiments`` that compute it"""
    files: tuple[str, ...] = ()
    other: str = ""
    """what differs from the paper, or why it is missing"""

    def computed(self) -> tuple[str, ...]:
        """Data sets of the committed rows that answer the query."""
        stem, query = self.rows
        if not stem:
            return ()
        frame = _rows(stem).query(query) if query else _rows(stem)
        return tuple(sorted({str(name).split(",")[0] for name in frame.dataset}))

    def status(self) -> str:
        """Reproduced, reproduced in part, on a stand-in, not there, or no result to reproduce."""
        found = self.computed()
        if not self.data and not self.files:
            return "no result"
        if not self.files or (self.data and not found):
            return "not there"
        missing = [name for name in self.data if name not in found]
        if not missing:
            return "reproduced"
        return "reproduced in part" if len(missing) < len(self.data) else "on a stand-in"


@functools.cache
def _rows(stem: str) -> pd.DataFrame:
    return pd.read_csv(REFERENCE / f"{stem}.csv")


def _items() -> Iterator[Item]:
    for one in tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["items"]:
        given: Any = {
            key: tuple(value) if isinstance(value, list) else value for key, value in one.items()
        }
        yield Item(**given)


ITEMS = tuple(_items())


def of(name: str, table: str = "") -> list[Item]:
    """The items of an experiment.

    With ``table`` those that the paper numbers so, as 3, III or Figure 6.
    """
    known = [
        item for item in ITEMS if {"LDP-GE": "privge"}.get(item.paper, item.paper.lower()) == name
    ]
    return [
        item
        for item in known
        if item.command and (not table or table in (item.name, item.name.split()[-1]))
    ]


def as_markdown() -> str:
    statuses = [item.status() for item in ITEMS]
    counts = ", ".join(f"{statuses.count(name)} {name}" for name in dict.fromkeys(statuses))
    rows = []
    for item, status in zip(ITEMS, statuses, strict=True):
        missing = [name for name in item.data if name not in item.computed()]
        words = [f"without {', '.join(missing)}"] if missing and status != "no result" else []
        files = ", ".join(f"[{name}]({name})" for name in item.files)
        command = f"`python -m experiments {item.command}`" if item.command else ""
        different = "; ".join([*words, item.other] if item.other else words)
        computed = ", ".join(item.computed())
        rows.append([item.paper, item.name, item.what, status, computed, different, files, command])
    headers = [
        "paper",
        "item",
        "what",
        "status",
        "computed on",
        "missing or different",
        "files",
        "command",
    ]
    return f"{_TEXT.notes}\n\n{len(ITEMS)} entries: {counts}.\n\n{markdown(headers, rows)}\n"


def write_report(out: Path) -> list[Path]:
    if out.resolve() != REFERENCE.resolve():
        return []
    _rows.cache_clear()
    write_atomically(out / "papers.md", as_markdown())
    return [out / "papers.md"]
