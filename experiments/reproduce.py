"""An experiment's rows, computed here, compared with the committed ones, and shown on a page."""

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import jax
import numpy as np
import pandas as pd
import tyro

from experiments import _declared, _html, _registry, catalogue, papers
from experiments import _report as show
from experiments._registry import EXPERIMENTS, runs
from experiments._runner import REFERENCE, Grid, Results, UsageError, console, costs, duration
from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval


@dataclasses.dataclass(frozen=True)
class Config(Grid):
    """Run an experiment, compare its rows with the committed ones, and write a web page on both.

    OUT/NAME.html.

    Rows that are there are not computed again. Exits with 1 where, at the preset committed, a mean
    over seeds is not within the intervals of both. Times and memory are of a machine, and are not
    compared. ``reproduce all --compare-only`` computes nothing and writes the pages of all
    experiments and index.html. Tables without rows in --out are shown as committed.
    """

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    """one of those that ``list`` lists, or all"""
    table: str = ""
    """only this table or figure of the paper, as it numbers them: 3, III, or 'Figure 6'"""
    preset: Literal["smoke", "committed", "paper"] = "committed"
    """smoke: about a minute of one core or less, on data that need no file; committed: the
    committed rows (--cost says how long); paper: the paper's own grid, where that is larger"""
    compare_only: bool = False
    """compute nothing: compare and show the rows that are there"""
    verify: bool = False
    """compute a twentieth of the committed cells, or --share, in an empty --out; where every row
    repeats, or differs by no more than rounding makes seeds differ, the committed manifest says
    so of this version"""


SMOKE = (
    "Preset smoke shows that all parts run. Its rows are fewer, and a row whose settings no "
    "committed one has is shown without a comparison."
)


def main(config: Config) -> None:
    with costs() as found, _quick(config.preset == "smoke"):
        _main(config)
    if config.cost:
        console.print(f"{duration(sum(found.values()))} in all", soft_wrap=True)


@contextlib.contextmanager
def _quick(short: bool) -> Iterator[None]:
    """Where most of a run is compilation, XLA leaves out what makes programs faster."""
    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", short or before)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)


def _main(config: Config) -> None:
    if config.out.resolve() == REFERENCE.resolve():
        raise UsageError(f"--out {config.out}: these are the committed rows themselves")
    if config.verify:
        config = dataclasses.replace(config, preset="committed", share=config.share or "1/20")
    names = [config.name]
    every = config.name == "all"
    apart = []
    if every:
        names = [
            name
            for name in EXPERIMENTS
            if config.compare_only or runs(name, config.preset, config.out)
        ]
    if config.preset == "smoke" and not config.compare_only:
        console.print(SMOKE, soft_wrap=True)
    for name in names:
        catalogue.named(name)
        items = papers.of(name, config.table) if config.table else []
        if config.table and not items:
            known = ", ".join(dict.fromkeys(item.name for item in papers.of(name))) or "none"
            raise UsageError(f"--table {config.table}: {name} has {known}")
        if config.verify:
            _check_versions(name, config.out)
        if not config.compare_only:
            _run(name, config, items)
        if config.verify and not config.cost:
            apart += _verified(name, config.out)
        if not config.whole:
            continue
        said, found = _compared(name, config)
        apart += found
        path = _html.page(name, config.out, said, items, names if every else ())
        console.print(f"{said}\npage: {path}", soft_wrap=True, highlight=False, markup=False)
    if every and config.whole:
        console.print(f"index: {_html.index(config.out, names)}", soft_wrap=True)
    for words in apart:
        console.print(f"[bold red]{words}", soft_wrap=True)
    if (
        apart and config.preset == "committed"
    ):  # a row of others is one draw, which other cores round otherwise
        raise SystemExit(1)


def _run(name: str, config: Config, items: Sequence[papers.Item]) -> None:
    """Compute all of a preset, or the parts of it that some tables need."""
    planned = runs(name, config.preset, config.out)
    if not planned:
        raise UsageError(f"--preset {config.preset}: {name} has none; committed is what there is")
    if items:
        kind = type(planned[0])
        commands = [item.command.split() for item in items]
        asked = [tyro.cli(kind, args=words) for command, *words in commands if command == name]
        if config.preset == "committed" and any(one != kind(parts=one.parts) for one in asked):
            planned = [
                dataclasses.replace(one, out=config.out) for one in asked
            ]  # by the commands of papers.md
        else:
            wanted = {part for one in asked for part in one.parts}
            kept = [(one, tuple(part for part in one.parts if part in wanted)) for one in planned]
            planned = [dataclasses.replace(one, parts=parts) for one, parts in kept if parts]
        if asked and not planned:
            raise UsageError(
                f"--table {config.table}: preset {config.preset} of {name} computes nothing of it"
            )
    for one in planned:
        if isinstance(one, Grid):
            grid = {"share": config.share, "cluster": config.cluster, "cost": config.cost}
            one = dataclasses.replace(one, **grid)
        elif not config.whole:
            continue  # it has no cells
        _registry.module(name).main(one)
    if not config.whole:
        return
    if EXPERIMENTS[name].rows:
        _declared.write_of(name, config.out)


def _compared(name: str, config: Config) -> tuple[str, list[str]]:
    """In Markdown, which rows there are and how they compare; in words, which means disagree."""
    run = "Nothing was computed." if config.compare_only else f"Preset {config.preset}."
    experiment = EXPERIMENTS[name]
    if not experiment.rows:
        return f"{run} {name} has no rows by seed: its tables show what was measured.", []
    both = zip(experiment.results(config.out), experiment.results(REFERENCE), strict=True)
    found = [compare(*each) for each in both]
    if not any(one.rows for one in found):
        return f"{run} There are no rows here: what follows is committed.", []
    if not any(one.shared for one in found):
        return f"{run} No row here has the settings of a committed one: none is compared.", []
    heads = ["file", "committed rows", "of them here", "equal", "largest difference", "means apart"]
    compared = show.markdown(heads, [one.line for one in found])
    return f"{run}\n\n{compared}", [words for one in found for words in one.apart]


def _check_versions(name: str, out: Path) -> None:
    """Refuse rows of other versions, which would be found to repeat as rows of this one."""
    for results in EXPERIMENTS[name].results(out):
        if others := results.of_others():
            raise UsageError(
                f"--out {out}: {results.csv.name} may hold rows of {others}: --verify needs an "
                "empty folder"
            )


def _verified(name: str, out: Path) -> list[str]:
    """Say in each committed manifest how many rows repeat; in words, what does not."""
    experiment = EXPERIMENTS[name]
    apart = []
    for mine, committed in zip(experiment.results(out), experiment.results(REFERENCE), strict=True):
        found = compare(mine, committed)
        said = f"{found.equal} of {found.shared} rows repeat, {found.line[4]} is the largest gap"
        if found.equal < found.shared:
            shift = found.shift
            said += (
                f"; rows moved by {shift.mean:.2g} +- {shift.half_width:.2g} of the spread over "
                f"seeds, one of them by {found.farthest:.2g}"
            )
        console.print(f"{mine.csv.name}: {said}", soft_wrap=True)
        if not found.within:
            apart.append(f"{mine.csv.name}: {said}. All of its rows are to be computed anew")
        elif found.shared:
            committed.verified(said)
    return apart


class Comparison(NamedTuple):
    """A file's rows against the committed ones.

    A line of a table, and the means that disagree, in words.
    """

    line: list[str]
    apart: list[str]
    rows: int
    """how many are here"""
    shared: int
    """how many of these are committed too"""
    equal: int
    """how many of these have the same value, to :data:`ROUNDING`"""
    shift: ConfidenceInterval
    """the mean of what rows moved by, in spreads over seeds"""
    apart_shift: ConfidenceInterval
    """the same of rows that do not repeat, with an interval of 99.9 %"""
    farthest: float
    """the most that one row moved by, in spreads over seeds"""

    @property
    def within(self) -> bool:
        """Whether rows repeat, or moved as rounding moves them and no law does.

        Rounding on another processor sends a training or a chain to another draw of the same law.
        Then no row is beyond :data:`FARTHEST`, the 95 % interval of the mean is within
        :data:`SHIFT`, and rows that do not repeat have no mean that chance excludes.
        """
        if self.equal == self.shared:
            return True
        mean_is_small = abs(self.shift.mean) + self.shift.half_width <= SHIFT
        mean_is_chance = not abs(self.apart_shift.mean) > self.apart_shift.half_width
        return mean_is_small and mean_is_chance and self.farthest <= FARTHEST


TOLERANCE = 1e-3
"""Relative, of means over a single seed, which have no interval: these are drawn under fixed
keys.
"""


ROUNDING = 1e-6
"""Relative, of rows that repeat: other processors add the same numbers in another order."""


LAST_DIGIT = 1.01e-6
"""Absolute: files hold six digits, of which rounding may move the last by one."""

FARTHEST = 4.0
"""In spreads over seeds, what a row moves by at most that is another draw of the same law."""

SHIFT = 0.5
"""In spreads over seeds, what rows move by in the mean at most, the interval included."""


def compare(mine: Results, committed: Results) -> Comparison:
    """Rows by identity, means over seeds by their 95 % intervals.

    The spread that a row is measured by is that of the difference of two seeds: of its own cell,
    or of all cells of its metric and data, whichever is larger.
    """
    ours = mine.read()
    theirs = committed.read()
    keys = list(committed.key)
    theirs = theirs[~theirs.metric.str.contains(r"(?:^| )(?:s|seconds|variance)$", regex=True)]
    cells = [key for key in keys if key not in ("seed", "config")]
    variance = theirs.groupby(cells, dropna=False).value.transform("var")
    shared = variance.groupby([theirs.metric, theirs.dataset]).transform("mean")
    theirs = theirs.assign(spread=np.sqrt(2.0 * np.fmax(variance, shared)))
    both = theirs.merge(ours, on=keys, suffixes=("_committed", ""))
    each = both.value.astype(float), both.value_committed.astype(float)
    same = np.isclose(*each, rtol=ROUNDING, atol=LAST_DIGIT, equal_nan=True)
    same = pd.Series(same, index=both.index)
    gap = (both.value - both.value_committed).abs().mask(same, 0.0).fillna(math.inf)
    moved = ((both.value - both.value_committed) / both.spread).mask(same, 0.0)
    moved = moved.fillna(math.inf).clip(-100.0, 100.0)  # infinite without a spread
    apart = []
    for group, part in both.groupby([key for key in keys if key != "seed"], dropna=False):
        here, other = (mean_interval(part[name]) for name in ("value", "value_committed"))
        widths = [x.half_width for x in (here, other) if math.isfinite(x.half_width)]
        allowed = sum(widths) if widths else TOLERANCE * max(abs(other.mean), TOLERANCE)
        if not (
            part.index.isin(same.index[same]).all() or abs(here.mean - other.mean) <= allowed
        ):  # or NaN
            words = ", ".join(map(str, group))
            apart.append(f"{words}: {here.mean:.6g}, committed {other.mean:.6g}")
    largest = gap.max() if len(gap) else 0.0
    line = [mine.csv.name, len(theirs), len(both), int(same.sum()), f"{largest:.4g}", len(apart)]
    return Comparison(
        line=[str(x) for x in line],
        apart=apart,
        rows=len(ours),
        shared=len(both),
        equal=int(same.sum()),
        shift=mean_interval(moved) if len(both) else mean_interval([0.0]),
        apart_shift=mean_interval([*moved[~same]] or [0.0], 0.999),
        farthest=float(moved.abs().max()) if len(both) else 0.0,
    )
