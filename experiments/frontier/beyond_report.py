"""Tables of what counts say beyond the classes of nodes; nothing is computed but statistics."""

from pathlib import Path

import numpy as np
import pandas as pd

from experiments._report import counted, interval, paired, publish, signed
from experiments._report import table as as_table
from experiments.frontier import beyond
from experiments.frontier._points import pick
from experiments.frontier.beyond import COUNTS, DEGREES, GRAPH, LINK, NAME
from ldp_jax.learning.metrics import ConfidenceInterval

_PLACE = ["task", "dataset", "labels"]

_PREFACE = """\
Made by `python -m experiments report` from `frontier_beyond_accuracy.csv`. Every user's list is private, epsilon
per bit of it. Intervals are 95 % (Student, over draws), differences paired by draw, bold where their interval
leaves 0 out.

* **link**: AUC of links that were taken out of all lists (a tenth, at most 5 000) against as many pairs without
  a link. *Counts* (`ldp_jax.pipeline.links.link_scores`): each end's noisy count of the other's broadcast
  class, over the size of that class. *Released degrees*: the product of both. *Same class*: times how much
  likelier the two are of one class by public features and labels. Broadcast classes contain both, so all rows
  of counts are compared with the better of the two rows of degrees, by the mean of these draws. *Best public*:
  the best, by the mean of these draws, of the rows without a list.
* **graph**: accuracy of a random forest on half of the graphs, from statistics of the released numbers. *Counts
  by degree class*: half of epsilon on degrees, half on counts of neighbours by three classes of noisy degree;
  released degrees have all of it. True counts use other levels (4 and 24 neighbours), so they do not bound the
  noisy ones."""


def write(out: Path) -> list[Path]:
    """frontier_beyond.md."""
    frame = beyond.results_in(out).read()
    if frame.empty:
        return []
    sections = ["# Counts beyond the classes of nodes", _PREFACE, verdict(frame)]
    for (task, dataset, labels), part in frame.groupby(_PLACE, sort=False):
        known = "" if task == GRAPH else f", {'half of the' if labels == 'half' else f'{labels} a class of'} labels"
        sections += [f"## {task}: {dataset}{known}", table(part)]
    return publish(out, {NAME: "\n\n".join(sections)}, {})


def _less_best(part: pd.DataFrame, others: pd.DataFrame, name: str, epsilon: float) -> ConfidenceInterval | None:
    """A row less the best by the mean of some others, in points, paired by draw."""
    if others.empty:
        return None
    best = pick(others, mechanism=others.groupby("mechanism").value.mean().idxmax())
    mine = pick(part, mechanism=name, epsilon=epsilon)
    return paired(*(100 * row.set_index("seed").value for row in (mine, best)))


def public_gain(part: pd.DataFrame, name: str, epsilon: float) -> ConfidenceInterval | None:
    """Over the best of the rows that no private list is in."""
    return _less_best(part, pick(part, epsilon=0.0), name, epsilon)


def gain(part: pd.DataFrame, name: str, epsilon: float) -> ConfidenceInterval | None:
    """Over the better row of released degrees."""
    at = pick(part, epsilon=epsilon)
    return _less_best(part, at[at.mechanism.str.startswith(DEGREES)], name, epsilon)


def verdict(frame: pd.DataFrame) -> str:
    """In how many settings counts say more than released degrees, and than what is public, task by task."""
    words = []
    for task in (LINK, GRAPH):
        rows = [
            (part, name, epsilon)
            for _, part in pick(frame, task=task).groupby(_PLACE, sort=False)
            for (name, epsilon), _ in part.groupby(["mechanism", "epsilon"])
            if name.startswith(COUNTS)
        ]
        found, public = ([ask(*row) for row in rows] for ask in (gain, public_gain))
        (up, down, _), (more, less, _) = counted(found), counted(public)
        if found:
            words.append(
                f"{task}: of {len(found)} rows of counts {up} are above released degrees, {down} below; {more} are "
                f"above the best of what is public, {less} below"
            )
    return "; ".join(words).capitalize() + "."


def table(part: pd.DataFrame) -> str:
    """A line a row."""
    rows = []
    for (name, epsilon), one in part.groupby(["mechanism", "epsilon"], sort=False):
        private, row = 0 < epsilon < np.inf, (part, name, epsilon)
        rows.append(
            {
                "row": name,
                "eps": f"{epsilon:g}" if private else "",
                "draws": one.seed.nunique(),
                "AUC (%)" if part.task.iloc[0] == LINK else "accuracy (%)": interval(100 * one.value),
                "less released degrees": signed(gain(*row)) if private and name.startswith(COUNTS) else "",
                "less best public": signed(public_gain(*row)) if private else "",
            }
        )
    return as_table(rows)


def digest(out: Path) -> str:
    """What the rows of a folder say in short."""
    frame = beyond.results_in(out).read()
    return "" if frame.empty else verdict(frame)
