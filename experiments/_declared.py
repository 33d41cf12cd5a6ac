"""Pages that a ``report.toml`` declares, from committed rows alone.

Each table of the file is a page: its rows, measures, and sections of sentences, a figure and a
table. Sentences, cells and points of figures are answers of :func:`experiments._lines.ask`.
"""

import re
import string
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments import _report as show
from experiments._common import OWN_COLOURS, RowNames, row_names
from experiments._drawn import drawn
from experiments._lines import (
    SUMMARIES,
    VALUE,
    Line,
    Lines,
    Spec,
    ask,
    distinct,
    grouped,
    holds,
    lines_of,
    listed,
    names,
)
from experiments._registry import module
from experiments._runner import REFERENCE, UsageError, console, write_rows
from ldp_jax.learning.metrics import ConfidenceInterval


class Report:
    """A declared page and the lines of its rows."""

    def __init__(
        self,
        name: str,
        spec: Spec,
        frame: pd.DataFrame,
        file: Path,
        settings: Mapping[str, Spec] | None = None,
        out: Path = REFERENCE,
    ) -> None:
        """Check the page and measure its lines; ``settings`` are those of each ``config``."""
        self.name, self.spec, self.out = name, spec, out
        self.labels, self.colours = RowNames({}), RowNames({}, OWN_COLOURS)
        if "names" in spec:
            self.labels, self.colours = row_names(spec["names"])
        for column in spec.get("settings", ()):
            known = {key: str(one.get(column, "")) for key, one in (settings or {}).items()}
            frame = frame.assign(**{column: frame.config.map(known)})
        frame.attrs["out"] = out
        self.frame = function(spec["prepare"])(frame) if "prepare" in spec else frame
        if "value" in spec:  # rows that are no cells
            columns = {"seed": 0, **self.frame, "value": self.frame[spec["value"]]}
            self.frame = pd.DataFrame(columns)
        check(self, file)
        self.lines = lines_of(self.frame, spec) if "setting" in spec else []
        budgets = {line.columns.get("epsilon", np.inf) for line in self.lines}
        private = sorted(one for one in budgets if 0 < one < np.inf)
        self.budget = 1.0 if 1.0 in private or not private else private[0]
        """The epsilon of sentences and pictures: 1, or the least where a run has no row of it."""

    def where(self, *given: Any) -> dict[str, Any]:
        """Selections one after another, by name or in full; ``@budget`` is :attr:`budget`."""
        found: dict[str, Any] = {}
        for one in given:
            found |= self.spec["select"][one] if isinstance(one, str) else one
        return {
            name: self.budget if isinstance(wanted, str) and wanted == "@budget" else wanted
            for name, wanted in found.items()
        }

    def select(self, spec: Spec, lines: Lines | None = None) -> list[Line]:
        where = self.where(*listed(spec.get("where", [])))
        return [line for line in (self.lines if lines is None else lines) if holds(line, where)]

    def ask(self, spec: Spec, lines: Lines | None = None, each: Sequence[str] = ()) -> Any:
        """One answer of the page's lines, or of some."""
        where = self.where(*listed(spec.get("where", [])))
        groups = spec.get("each", each or self.spec["setting"])
        return ask(self.lines if lines is None else lines, spec, where, groups)

    def groups(
        self, lines: Lines, by: Sequence[str], spec: Spec
    ) -> dict[tuple[Any, ...], list[Line]]:
        """Lines by columns: of groups that have a line of ``only``, in the order of ``order``.

        Else they are sorted, ``ranked`` as in names.toml, or stand as their first lines do.
        """
        found = grouped(lines, by)
        if "only" in spec:
            wanted = {"where": spec["only"]}
            found = {key: some for key, some in found.items() if self.select(wanted, some)}
        if spec.get("sorted"):
            return dict(sorted(found.items()))
        order = spec.get("order", list(self.labels) if spec.get("ranked") else [])
        rank = {word: place for place, word in enumerate(order)}
        return dict(sorted(found.items(), key=lambda one: rank.get(one[0][0], len(rank))))

    def sentence(self, spec: Spec, lines: Lines | None = None) -> str:
        """A text with its numbers; empty where there is no row to count or a number is missing.

        A number is declared in ``numbers``, or is the summary of its own name.
        """
        if not self.ask({**spec, "show": "rows"}, lines):
            return ""
        found: dict[str, Any] = {"budget": self.budget}
        for field in _fields(spec["text"]) - {*found}:
            given = merged(spec, spec.get("numbers", {}).get(field, {"show": field}))
            if "named" in given:
                found[field] = names(self.select(given, lines), given["named"])
            else:
                found[field] = self.ask(given, lines)
        missing = any(one is None or one != one for one in found.values())
        return "" if missing else spec["text"].format(**found)

    # --- Tables -----------------------------------------------------------------------------------

    def table(self, spec: Spec) -> str:
        """A Markdown table: a row for each value of the columns ``rows``, without empty columns."""
        chosen = self.select(spec)
        by = spec["rows"]
        columns = list(self._across(spec["columns"], chosen))
        if self._hides_a_graph(columns, self.groups(chosen, by, spec)):
            by = ["dataset", *by]
        groups = self.groups(chosen, by, spec)
        heads = [spec.get("heads", {}).get(name, name) for name in by]
        rows = []
        for key, some in groups.items():
            cells = [self.cell(column, some, by) for column in columns]
            if any(cells):
                rows.append([*map(self.word, key), *cells])
        titles = [*heads, *(column["title"] for column in columns)]
        kept = [at for at in range(len(titles)) if any(row[at] for row in rows)]
        cut = [[row[at] for at in kept] for row in rows]
        return show.markdown([titles[at] for at in kept], cut) if rows else ""

    def _hides_a_graph(self, columns: Sequence[Spec], groups: Mapping[Any, Lines]) -> bool:
        """Whether a cell is the interval of one graph, and that of another has no place."""
        for column in columns:
            if column.get("show", "interval") != "interval":
                continue
            measure = column.get("measure", VALUE)
            for some in groups.values():
                shown = [one for one in self.select(column, some) if measure in one.measures]
                if len(distinct(shown, "dataset")) > 1:
                    return True
        return False

    def _across(self, columns: Sequence[Spec], lines: Lines) -> Iterator[Spec]:
        """The columns of a table; one with ``across`` is there for each value of that column."""
        for column in columns:
            if "across" not in column:
                yield {**column, "title": column["title"].format(budget=self.budget)}
                continue
            name = column["across"]
            for value in sorted(distinct(self.select(column, lines), name)):
                title = column["title"].format(**{name: self.word(value)})
                yield merged(column, {"title": title, "where": {name: value}})

    def cell(self, spec: Spec, lines: Lines, each: Sequence[str]) -> str:
        """An answer as the text of a cell: differences have a sign, and are bold where sure."""
        found = self.ask(spec, lines, each)
        if found is None or found != found:
            return ""
        is_interval = isinstance(found, ConfidenceInterval)
        if "format" in spec:
            return spec["format"].format(found.mean if is_interval else found)
        if not is_interval:
            return self.word(found)
        is_difference = self._is_difference(spec.get("measure", VALUE))
        return show.signed(found, spec.get("digits", 1)) if is_difference else str(found)

    def _is_difference(self, measure: str) -> bool:
        spec = self.spec.get("measures", {}).get(measure, {})
        is_less = "less" in spec or spec.get("signed", False)
        return is_less or ("of" in spec and self._is_difference(spec["of"]))

    def word(self, value: Any) -> str:
        """A value of a column: a row's name, or a short number."""
        if isinstance(value, str):
            return self.labels.of(value)
        return "none" if value == np.inf else f"{value:g}"

    def as_csv(self) -> pd.DataFrame:
        """All lines: columns, draws, mean and half width of each measure."""
        rows = []
        for line in self.lines:
            row = dict(line.columns)
            for name in (VALUE, *self.spec.get("measures", {})):
                if (found := line.interval(name)) is not None:
                    row[name] = float(f"{found.mean:.4g}")
                    row[f"{name} ±"] = float(f"{found.half_width:.3g}")
            rows.append(row)
        return pd.DataFrame(rows)

    # --- Pages ------------------------------------------------------------------------------------

    def section(self, spec: Spec, figures: dict[str, Any], tables: dict[str, Any]) -> list[str]:
        """The parts of a section in their order; figures and tables are added to the others."""
        said = [text for one in spec.get("sentences", ()) if (text := self.sentence(one))]
        parts = [said[0] if len(said) == 1 else "\n".join(f"* {text}" for text in said)]
        if "figure" in spec and (figure := drawn(self, spec["figure"])) is not None:
            stem = spec["figure"]["file"]
            figures[stem] = figure
            parts.append(f"![{spec['figure']['title']}]({stem}.png)")
        if "table" in spec:
            parts.append(self.table(spec["table"]))
        if "function" in spec:
            texts, pictures, files = function(spec["function"])(self, spec)
            figures |= pictures
            tables |= files
            parts += texts
        if "prose" in spec:
            parts.append(getattr(show.prose(self.name), spec["prose"]))
        found = list(filter(None, parts))
        return [f"## {spec['title']}", *found] if found and "title" in spec else found

    def page(self, *, beside: bool = True) -> tuple[str, dict[str, Any], dict[str, pd.DataFrame]]:
        """The text, the figures by their stems, and the CSVs beside the page by their names.

        Unless ``beside``, its own rows are in no CSV.
        """
        figures: dict[str, Any] = {}
        file = f"{self.name}.table.csv"
        has_table = bool(self.lines) and self.spec.get("beside", True)
        tables = {file: self.as_csv()} if has_table else {}
        first = self.lines[0].columns if self.lines else {}
        parts = [f"# {self.spec['title'].format(**first)}"]
        for section in self.spec["sections"]:
            parts += self.section(section, figures, tables)
        if has_table:
            parts.append(f"All rows with their intervals: [{file}]({file}).")
        return "\n\n".join(parts), figures, tables


def merged(base: Spec, spec: Spec) -> dict[str, Any]:
    """A number's or column's specification with what it takes over; selections are joined."""
    where = [*listed(base.get("where", [])), *listed(spec.get("where", []))]
    return {**base, **spec, "where": where}


def _fields(text: str) -> set[str]:
    """The names in braces of a template."""
    return {
        field.split(".")[0].split("[")[0]
        for _, field, *_ in string.Formatter().parse(text)
        if field is not None
    }


def function(word: str) -> Any:
    """The function that ``module:name`` names below ``experiments``."""
    where, name = word.split(":")
    return getattr(module(where), name)


def pages_of(file: Path) -> list[str]:
    return list(tomllib.loads(file.read_text()))


def report(file: Path, name: str, out: Path) -> Report | None:
    """A page of the rows of a folder; None without a row."""
    return report_of(name, tomllib.loads(file.read_text())[name], file, out)


def report_of(name: str, spec: Spec, file: Path, out: Path) -> Report | None:
    """The same of a page whose specification is given; ``file`` is what refusals name."""
    results = module(spec["rows"]).results_in(out)
    frame = results.read(mixed=spec.get("newest", False))
    if frame.empty:
        return None
    if "newest" in spec:
        frame = frame[frame.config == frame.config.iloc[-1]]
    settings = results.settings() if "settings" in spec else {}
    return Report(name, spec, frame, file, settings, out)


def write(file: Path, out: Path, *pages: str) -> list[Path]:
    """Publish pages that a file declares, by default all of them, of the rows of a folder."""
    written = []
    for name in pages or pages_of(file):
        if (found := report(file, name, out)) is not None:
            text, figures, tables = found.page()
            written += show.publish(out, {name: text}, figures, tables)
    return written


def write_of(name: str, out: Path) -> list[Path]:
    """Publish the pages of an experiment: those of its folder, or the one of its name, if any."""
    own = Path(__file__).parent / name / "report.toml"
    if own.exists():
        return write(own, out)
    return write(MEASURED, out, name) if name in pages_of(MEASURED) else []


MEASURED = Path(__file__).with_name("report.toml")
"""Where pages of single modules are declared, of rows that are no cells among them."""


def paged(out: Path, name: str, frame: pd.DataFrame, more: str = "", page: str = "") -> str:
    """Write a page of rows that are given, ``more`` at its end, and its figures; the text.

    ``page`` is the declared one, where its name is another.
    """
    spec = tomllib.loads(MEASURED.read_text())[page or name]
    text, figures, _ = Report(page or name, spec, frame, MEASURED, out=out).page()
    text = "\n\n".join(filter(None, (text, more)))
    if page:
        figures = {stem.replace(page, name): figure for stem, figure in figures.items()}
        for before in "[(":
            text = text.replace(f"{before}{page}.", f"{before}{name}.")
    show.publish(out, {name: text}, figures)
    return text


def measured(
    out: Path, name: str, frames: Iterable[pd.DataFrame], more: str = "", page: str = ""
) -> None:
    """Write rows that are no cells and their page, as often as there are more, and show it."""
    text = ""
    for frame in frames:
        write_rows(out, name, frame)
        text = paged(out, name, frame, more, page)
    console.print(text, soft_wrap=True, highlight=False, markup=False)
    console.print(f"rows: {out / f'{name}.csv'}", soft_wrap=True)


def digest(file: Path, name: str, out: Path) -> str:
    """The first words of a page, without its figure."""
    found = report(file, name, out)
    if found is None:
        return ""
    first = {key: value for key, value in found.spec["sections"][0].items() if key != "figure"}
    return "\n\n".join(found.section(first, {}, {}))


# --- Checks of a file -----------------------------------------------------------------------------

_NAMED = ("measures", "numbers", "select")
"""Tables whose keys are free names."""
_PAGE = (
    "beside",
    "value",
    "title",
    "rows",
    "names",
    "prepare",
    "settings",
    "metrics",
    "setting",
    "row",
    "carried",
)
_SECTION = ("sections", "sentences", "figure", "table", "prose", "function", "options", "text")
_ANSWER = ("show", "along", "each", "of", "share", "signed", "whole", "named", "format", "digits")
_TABLE = ("columns", "heads", "across", "order", "ranked", "sorted", "scale", "newest")
_FIGURE = (
    "file",
    "draw",
    "panels",
    "panel",
    "x",
    "ticks",
    "y",
    "heading",
    "found",
    "lines",
    "levels",
)
_LOOK = ("name", "label", "zero", "colour", "shades", "marker", "style", "size", "width", "height")
_LINES = ("by", "own", "bars", "at_height", "apart", "axis", "scale_of_y", "shared", "legend")
_PLACES = ("ticks", "scale_of_x")
_KEYS = {"least_points", *_PAGE, *_SECTION, *_ANSWER, *_TABLE, *_FIGURE, *_LOOK, *_LINES, *_PLACES}


def check(page: Report, file: Path) -> None:
    """Refuse keys, columns, measures, row names and template numbers that are unknown."""
    spec = page.spec
    measures = {VALUE, *spec.get("measures", {})}
    measures |= {one["of"] for one in spec.get("measures", {}).values() if "of" in one}
    columns = {*spec.get("setting", ()), *spec.get("row", ()), *spec.get("carried", ()), "draws"}

    def refuse(path: str, what: str, known: Iterable[str]) -> None:
        raise UsageError(f"{file}, {path}: no {what}; there are {', '.join(sorted(known))}")

    def of_columns(where: Mapping[str, Any], path: str, known: set[str]) -> None:
        for name, wanted in where.items():
            if name not in known:
                refuse(f"{path}.{name}", f"column {name}", known)
            if name == "mechanism":
                for word in _words(wanted):
                    pattern = re.sub(r"@\w+", "*", word)
                    bare = pattern.rpartition(":")[2]
                    if not any(_is_of(label, pattern, bare) for label in page.labels):
                        refuse(f"{path}.{name}", f"row {word}", page.labels)

    def of_text(text: str, path: str, numbers: Mapping[str, Any]) -> None:
        known = {*numbers, *SUMMARIES, *columns, "budget"}
        for field in _fields(text) - known:
            refuse(path, f"number {field}", known)

    def walk(one: Mapping[str, Any], path: str) -> None:
        for key, value in one.items():
            here = f"{path}.{key}"
            if key in ("where", "only"):
                for where in listed(value):
                    if isinstance(where, str) and where not in spec.get("select", {}):
                        refuse(here, f"selection {where}", spec.get("select", {}))
                    elif not isinstance(where, str):
                        of_columns(where, here, columns | measures)
            elif key in ("less", "at", "from", "to"):
                for row in value.get("best", [value]):
                    of_columns(row, here, columns)
            elif key in ("measure", "largest", "least"):
                if value not in measures:
                    refuse(here, f"measure {value}", measures)
            elif key == "text":
                of_text(value, here, one.get("numbers", {}))
            elif key == "select":
                for name, where in value.items():
                    of_columns(where, f"{here}.{name}", columns | measures)
            elif key in _NAMED:
                for name, inner in value.items():
                    walk(inner, f"{here}.{name}")
            elif key not in _KEYS:
                refuse(here, f"key {key}", _KEYS)
            elif key not in ("heads", "options"):
                for place, inner in enumerate(listed(value)):
                    if isinstance(inner, Mapping):
                        walk(inner, f"{here}[{place}]" if isinstance(value, list) else here)

    for name in columns - {"draws"} - {*page.frame.columns}:
        refuse(page.name, f"column {name}", page.frame.columns)
    walk(spec, page.name)


def _is_of(label: str, *patterns: str) -> bool:
    return any(fnmatchcase(label, pattern) for pattern in patterns)


def _words(wanted: Any) -> Iterator[str]:
    """The row names in what is wanted of a column."""
    for one in listed(wanted):
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            yield from _words(one.get("but", []))
