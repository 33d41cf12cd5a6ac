"""The lines of a declared page, and what is asked of them.

A line is one row of an experiment over its draws. A page selects lines, groups them and summarises
them; tables, sentences and figures are three layouts of the same answers.
"""

import dataclasses
import functools
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import pandas as pd

from experiments._report import counted, first_sure, interval, significant
from experiments._runner import UsageError
from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval

Spec = Mapping[str, Any]
"""A table of a TOML file."""

VALUE = "value"


@dataclasses.dataclass(frozen=True, eq=False)
class Line:
    """A row of a page: its columns, and its measures by draw."""

    columns: dict[str, Any]
    measures: dict[str, pd.Series]
    _known: dict[str, ConfidenceInterval | None] = dataclasses.field(default_factory=dict)

    def interval(self, measure: str) -> ConfidenceInterval | None:
        """The mean of a measure over draws; None where the line has none."""
        if measure not in self.measures:
            return None
        if measure not in self._known:
            self._known[measure] = interval(self.measures[measure])
        return self._known[measure]


Lines = Sequence[Line]


def lines_of(frame: pd.DataFrame, page: Spec) -> list[Line]:
    """The lines of tidy rows, in the order of the first row of each, with all declared measures.

    ``setting`` names the columns that compared rows share, ``row`` those that tell them apart,
    ``carried`` further columns that are shown.
    """
    key = [*page["setting"], *page["row"]]
    scale = page.get("scale", 100)
    measures = page.get("measures", {})
    own_columns = [spec["of"] for spec in measures.values() if spec.get("of") in frame.columns]
    lines = []
    if "metrics" in page:
        frame = frame[frame.metric.isin(page["metrics"])]
    for names, part in frame.groupby(key, sort=False, dropna=False):
        columns = dict(zip(key, names, strict=True))
        if part.seed.duplicated().any():
            words = ", ".join(f"{name} {value}" for name, value in columns.items())
            raise UsageError(f"several rows of one draw are one line of a page: {words}")
        columns |= {name: part[name].iloc[0] for name in page.get("carried", ())}
        columns["draws"] = part.seed.nunique()
        by_seed = part.set_index("seed")
        series = {VALUE: scale * by_seed.value}
        series |= {name: pd.to_numeric(by_seed[name]).dropna() for name in own_columns}
        lines.append(Line(columns, series))
    for name, spec in measures.items():
        _measure(lines, page, name, spec)
    return lines


def _measure(lines: Lines, page: Spec, name: str, spec: Spec) -> None:
    """Add one declared measure to each line that has it."""
    of = spec.get("of", VALUE)
    scale = spec.get("scale", 1)
    references = References(lines, page, of)
    for line in lines:
        if of not in line.measures or not holds(line, spec.get("where", {})):
            continue
        mine = line.measures[of]
        if "less" in spec:
            other = references.find(line, spec["less"])
            found = None if other is None else (mine - other).dropna()
        elif "at" in spec:
            found = references.find(line, spec["at"])
        elif "share" in spec:
            ends = [references.find(line, spec["share"][end]) for end in ("from", "to")]
            found = _share(mine, *ends)
        else:
            found = mine
        if found is not None and len(found):
            line.measures[name] = scale * found


def _share(mine: pd.Series, low: pd.Series | None, high: pd.Series | None) -> pd.Series | None:
    """Where the mean is between those of two rows, of the draws of all three, as one number."""
    if low is None or high is None:
        return None
    at, start, end = pd.concat([mine, low, high], axis=1, join="inner").mean()
    return pd.Series([(at - start) / (end - start)]) if end > start else None


class References:
    """Rows that lines are compared with.

    A reference names the columns in which it differs from the line. ``@column`` in a word stands
    for the line's own value. ``best`` lists several such rows: the one of the largest mean is
    taken, over the draws that all candidates share with the line, or with ``whole`` among those of
    the most draws.
    """

    def __init__(self, lines: Lines, page: Spec, of: str) -> None:
        self.setting, self.row, self.of = page["setting"], page["row"], of
        self.by_key = {self._key(line.columns): line for line in lines}
        self.neighbours = grouped(lines, self.setting)

    def _key(self, columns: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(columns[name] for name in (*self.setting, *self.row))

    def find(self, line: Line, spec: Spec) -> pd.Series | None:
        """The series of the reference; None where it is missing."""
        if "best" in spec:
            return self._best(line, spec)
        other = self.by_key.get(self._key(line.columns | _meant(spec, line)))
        return None if other is None else other.measures.get(self.of)

    def _best(self, line: Line, spec: Spec) -> pd.Series | None:
        own = {name: line.columns[name] for name in self.row}
        filters = [own | _meant(one, line) for one in spec["best"]]
        near = self.neighbours[tuple(line.columns[name] for name in self.setting)]
        known = [[one for one in near if holds(one, where)] for where in filters]
        if not known[0]:
            return None
        there = [one for some in known for one in some if self.of in one.measures]
        series = {id(one): one.measures[self.of] for one in there}
        if spec.get("whole"):
            most = max(map(len, series.values()))
            means = {key: one.mean() for key, one in series.items() if len(one) == most}
        else:
            draws = functools.reduce(
                pd.Index.intersection,
                (one.index for one in series.values()),
                line.measures[self.of].index,
            )
            means = {key: one[draws].mean() for key, one in series.items() if len(draws)}
        numbers = {key: mean for key, mean in means.items() if not math.isnan(mean)}
        return series[max(numbers, key=lambda key: numbers[key])] if numbers else None


def _meant(spec: Spec, line: Line) -> dict[str, Any]:
    """The columns of a reference, where ``@column`` stands for the value of the line."""
    own = lambda word: line.columns[word[1]]
    return {
        name: _replaced(wanted, own) if isinstance(wanted, str) else wanted
        for name, wanted in spec.items()
    }


def _replaced(word: str, own: Any) -> Any:
    whole = re.fullmatch(r"@(\w+)", word)
    return own(whole) if whole else re.sub(r"@(\w+)", lambda found: str(own(found)), word)


# --- Selecting ------------------------------------------------------------------------------------


def side(found: ConfidenceInterval | None) -> str | None:
    """On which side of 0 an interval is: above, below or level; None where there is none."""
    if found is None:
        return None
    if not significant(found):
        return "level"
    return "above" if found.mean > 0 else "below"


def holds(line: Line, where: Spec) -> bool:
    """Whether the line's columns have the values that are wanted, and its measures their side."""
    for name, wanted in where.items():
        if name in line.columns:
            if not _matches(line.columns[name], wanted):
                return False
            continue
        found = line.interval(name)
        if isinstance(wanted, str):
            if side(found) != wanted:
                return False
        elif found is None or not _matches(found.mean, wanted):
            return False
    return True


def _matches(value: Any, wanted: Any) -> bool:
    """Whether a value is the wanted one, one of a list, of a pattern, or between two ends."""
    if isinstance(wanted, list):
        return any(_matches(value, one) for one in wanted)
    if isinstance(wanted, Mapping):
        if "but" in wanted:
            return not _matches(value, wanted["but"])
        is_above = "above" not in wanted or value > wanted["above"]
        return is_above and ("below" not in wanted or value < wanted["below"])
    if isinstance(wanted, str) and "*" in wanted:
        return fnmatchcase(str(value), wanted)
    return value == wanted


def grouped(lines: Lines, by: Sequence[str]) -> dict[tuple[Any, ...], list[Line]]:
    """Lines by the values of some columns, in the order of the first of each."""
    found: dict[tuple[Any, ...], list[Line]] = {}
    for line in lines:
        found.setdefault(tuple(line.columns[name] for name in by), []).append(line)
    return found


# --- Summarising ----------------------------------------------------------------------------------


def _all(lines: Lines, measure: str) -> list[ConfidenceInterval]:
    return [found for line in lines if (found := line.interval(measure)) is not None]


def _numbers(lines: Lines, measure: str) -> list[ConfidenceInterval]:
    return [found for found in _all(lines, measure) if not math.isnan(found.mean)]


def _draws(lines: Lines, measure: str) -> list[pd.Series]:
    return [line.measures[measure] for line in lines if measure in line.measures]


def _joint(lines: Lines, measure: str) -> int:
    """How many intervals are above 0 after Bonferroni's correction."""
    each = _draws(lines, measure)
    strict = [mean_interval(one, confidence=1 - 0.05 / len(each)) for one in each]
    return counted(strict)[0]


def _pooled(lines: Lines, measure: str) -> ConfidenceInterval | None:
    """The mean over lines of each draw that all of them have, one number a draw."""
    each = _draws(lines, measure)
    return interval(pd.concat(each, axis=1).dropna().mean(axis=1)) if each else None


def _means(lines: Lines, measure: str) -> list[float]:
    return [found.mean for found in _all(lines, measure)]


def _median(means: list[float]) -> ConfidenceInterval | None:
    """The median of the means, which has no interval."""
    return ConfidenceInterval(statistics.median(means), math.nan, 1) if means else None


SUMMARIES = {
    "rows": lambda lines, measure: len(_all(lines, measure)),
    "above": lambda lines, measure: counted(_all(lines, measure))[0],
    "below": lambda lines, measure: counted(_all(lines, measure))[1],
    "level": lambda lines, measure: counted(_all(lines, measure))[2],
    "joint": _joint,
    "average": lambda lines, measure: float(pd.Series(_means(lines, measure)).mean()),
    "pooled": _pooled,
    "median": lambda lines, measure: _median(_means(lines, measure)),
    "largest": lambda lines, measure: max(_numbers(lines, measure), default=None),
    "least": lambda lines, measure: min(_numbers(lines, measure), default=None),
    # Over all draws, NaN without any: the least one, and the size of the one farthest from 0.
    "worst": lambda lines, measure: min(
        (one.min() for one in _draws(lines, measure)), default=math.nan
    ),
    "farthest": lambda lines, measure: max(
        (one.abs().max() for one in _draws(lines, measure)), default=math.nan
    ),
}
"""What a number says of the lines that are selected, by the word in ``show``."""


def _picked(lines: Lines, spec: Spec, each: Sequence[str]) -> list[Line]:
    """The line of the largest, or the least, mean of a measure in each group."""
    best = max if "largest" in spec else min
    measure = spec["largest" if "largest" in spec else "least"]

    def mean(line: Line) -> float:
        found = line.interval(measure)
        return math.nan if found is None else found.mean

    known = [line for line in lines if not math.isnan(mean(line))]
    return [best(some, key=mean) for some in grouped(known, each).values()]


def ask(lines: Lines, spec: Spec, where: Spec, each: Sequence[str]) -> Any:
    """One answer: lines are selected, one of each group is picked, and all are summarised.

    ``largest`` or ``least`` name the measure by which a line of each group is picked; groups share
    the columns ``each``. ``show`` is a summary, ``first`` (with the column ``along``), or a column
    of the first line; by default the interval of the first line that has one.
    """
    measure = spec.get("measure", VALUE)
    chosen = [line for line in lines if holds(line, where)]
    if "largest" in spec or "least" in spec:
        chosen = _picked(chosen, spec, each)
    show = spec.get("show", "interval")
    if show in SUMMARIES:
        return SUMMARIES[show](chosen, measure)
    if show == "first":
        along = sorted(chosen, key=lambda line: line.columns[spec["along"]])
        place = first_sure([line.interval(measure) for line in along])
        if not along:
            return None
        return along[place].columns[spec["along"]] if place < len(along) else "none"
    if show == "interval":
        return next(iter(_all(chosen, measure)), None)
    return next((line.columns[show] for line in chosen), None)


def listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]


def distinct(lines: Lines, column: str) -> list[Any]:
    return list(dict.fromkeys(line.columns.get(column) for line in lines))


def names(lines: Iterable[Line], template: str) -> str:
    """The lines by name, as a list in words."""
    return ", ".join(dict.fromkeys(template.format(**line.columns) for line in lines)) or "none"
