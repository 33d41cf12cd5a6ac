"""The committed rows, computed here and compared."""

import dataclasses
import math
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from experiments import _registry
from experiments._report import markdown
from experiments._runner import DEFAULT_OUT, REFERENCE, Results, UsageError, console
from experiments.catalogue import named
from ldp_jax.learning.metrics import mean_interval


@dataclasses.dataclass(frozen=True)
class Config:
    """Run what made the committed rows of an experiment, and compare yours with them, row by row.

    What is there already is not computed again. Exits with 1 where a mean over seeds is not within the intervals of
    both. Times and memory are of a machine, and are not compared.
    """

    name: Annotated[str, tyro.conf.Positional]
    """one of those that ``list`` lists"""
    out: Path = DEFAULT_OUT
    """where your rows go; not the folder of the committed ones"""
    compare_only: bool = False
    """compute nothing: compare the rows that are there"""


def main(config: Config) -> None:
    """Compute and compare."""
    experiment = named(config.name)
    if config.out.resolve() == REFERENCE.resolve():
        raise UsageError(f"--out {config.out}: these are the committed rows themselves")
    if not config.compare_only:
        for one in _registry.committed(config.name, config.out):
            _registry.module(config.name).main(one)
    if not experiment.rows:
        console.print(f"{config.name} has no rows by seed: compare {config.out} with {REFERENCE}", soft_wrap=True)
        return
    found = [
        compare(*both) for both in zip(experiment.results(config.out), experiment.results(REFERENCE), strict=True)
    ]
    lines = [comparison.line for comparison in found]
    console.print(
        markdown(["file", "committed rows", "of them here", "equal", "largest difference", "means apart"], lines),
        soft_wrap=True,
    )
    for comparison in found:
        for words in comparison.apart:
            console.print(f"[bold red]{words}", soft_wrap=True)
    if any(comparison.apart for comparison in found):
        raise SystemExit(1)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A file's rows against the committed ones: a line of a table, and the means that disagree, in words."""

    line: list[str]
    apart: list[str]


TOLERANCE = 1e-3
"""Relative, of means over a single seed, which have no interval: these are drawn under fixed keys."""


def compare(mine: Results, committed: Results) -> Comparison:
    """Rows by identity, means over seeds by their 95 % intervals."""
    theirs = committed.read()
    theirs = theirs[~theirs.metric.str.contains(r"(?:^| )(?:s|seconds|variance)$", regex=True)]
    keys = list(committed.key)
    both = theirs.merge(mine.read(), on=keys, suffixes=("_committed", ""))
    gap = (both.value - both.value_committed).abs().fillna(0.0)
    apart = []
    for group, part in both.groupby([key for key in keys if key != "seed"], dropna=False):
        ours, other = (mean_interval(part[name]) for name in ("value", "value_committed"))
        widths = [x.half_width for x in (ours, other) if math.isfinite(x.half_width)]
        allowed = sum(widths) if widths else TOLERANCE * max(abs(other.mean), TOLERANCE)
        if abs(ours.mean - other.mean) > allowed:
            words = ", ".join(map(str, group))
            apart.append(f"{words}: {ours.mean:.6g}, committed {other.mean:.6g}")
    equal = int(np.sum(gap == 0))
    line = [mine.csv.name, len(theirs), len(both), equal, f"{gap.max() if len(gap) else 0:.4g}", len(apart)]
    return Comparison([str(x) for x in line], apart)
