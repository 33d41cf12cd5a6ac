"""Rows of PrivGE as its page shows them: one embedding a row, and the paper's numbers beside."""

from typing import Any

import numpy as np
import pandas as pd

from experiments import _report as show
from experiments._lines import VALUE
from experiments.privge import cells
from experiments.privge.cells import EMBEDDINGS, NON_PRIVATE, STRUCTURE
from experiments.privge.settings import HYPERPARAMETERS, NAMED_GAPS, PUBLISHED_VALUES

CHOSEN, RAW = "by validation", "raw"
"""Which embedding a row shows: that of the better mean validation score, or the paper's."""

_SAME = 0.0005
"""Float32's rounding moves a repeated row by 0.0002 in a seed, a budget moves others by 0.01."""


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """Each row by both choices of its embedding, and what its page says of it.

    *shown* is the published k of HDS, *repeats* the budget whose row this one repeats, *off* the
    points between it and the paper's number, *claimed* by how much the paper has it above its
    non-private row.
    """
    key = ["dataset", "task", "metric", "config", "mechanism", "epsilon", "k"]
    parts = []
    for _, group in frame.groupby(key, sort=False):
        kept, embedding = chosen(group)
        parts.append(kept.assign(choice=CHOSEN, embedding=embedding))
    by_validation = pd.concat(parts)
    raw = frame[frame.preprocessing == RAW].assign(choice=RAW, embedding=RAW, repeats="")
    rows = pd.concat([by_validation.assign(repeats=_repeats(by_validation)), raw])
    claims = _claims()
    shown, paper, claimed = [], [], []
    for row in rows.to_dict("records"):
        is_shown = _is_shown(row["dataset"], row["task"], row["mechanism"], row["k"])
        place = row["task"], row["dataset"], row["mechanism"], row["epsilon"]
        shown.append("yes" if is_shown else "no")
        paper.append(PUBLISHED_VALUES.get(place, np.nan) if is_shown else np.nan)
        claimed.append(claims.get(place, "") if is_shown else "")
    words = ["" if np.isnan(one) else f"{one:.1f}" for one in paper]
    off = 100 * rows.value - paper
    return rows.assign(shown=shown, paper=words, off=off, claimed=claimed)


def _is_shown(dataset: str, task: str, mechanism: str, k: int) -> bool:
    known = dataset in HYPERPARAMETERS
    return mechanism != "hds" or not known or k == cells.published_k(dataset, task)


def _repeats(rows: pd.DataFrame) -> list[str]:
    """The lowest budget at which a row and its twin score the same in every seed; "" for none.

    There noise drowns the features, and standardising takes away its scale, all that a budget
    changes.
    """
    place = ["dataset", "task", "config", "mechanism", "k"]
    scores = {
        (*names[:-1], float(names[-1])): part.set_index("seed").value.sort_index()
        for names, part in rows.groupby([*place, "epsilon"])
    }

    def same(one: tuple[Any, ...], lower: float) -> bool:
        mine = scores.get(one)
        other = scores.get((*one[:-1], lower))
        if mine is None or other is None or not mine.index.equals(other.index):
            return False
        return bool(((mine - other).abs() < _SAME).all())

    found = {}
    for key in scores:
        *setting, mechanism, k, epsilon = key
        twin = (*setting, STRUCTURE + mechanism, k, epsilon)
        budgets = [other[-1] for other in scores if other[:-1] == key[:-1]]
        lower = sorted(budget for budget in budgets if budget < epsilon)
        both = [budget for budget in lower if same(key, budget) and same(twin, budget)]
        found[key] = f"{both[0]:g}" if both else ""
    keys = zip(*(rows[name] for name in place), rows.epsilon, strict=True)
    return [found[key] for key in keys]


def chosen(group: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The seeds of one row by the embedding that does better in validation, and its name.

    One choice for all seeds of a row: the validation examples of one seed alone are too few to tell
    two embeddings apart (264 pairs on Cora's links). A tie goes to the raw one. Seeds with one
    embedding are left out, unless all have one: then the embedding of most seeds is kept.
    """
    embedding = group.preprocessing.to_numpy() if "preprocessing" in group else np.array([])
    of = {name: embedding == name for name in EMBEDDINGS if (embedding == name).any()}
    if not of:
        return group, ""
    seeds = group.seed.to_numpy()
    scores = group.validation.to_numpy()
    there = [seeds[rows & ~np.isnan(scores)] for rows in of.values()]
    common = np.isin(seeds, np.intersect1d(there[0], there[-1]))
    if len(of) == 1 or not common.any():  # as while a run is under way
        most = max(of, key=lambda name: of[name].sum())
        return group[of[most]], f"{most}*"
    best = max(of, key=lambda name: scores[of[name] & common].mean())  # the first of equals
    return group[of[best] & common], best


def _claims() -> dict[tuple[str, str, str, float], str]:
    """The rows of HDS that the paper prints above its non-private one, by how many points."""
    gaps = {
        ("node", name, "hds", epsilon): gap
        for name, epsilon, _, other, gap in NAMED_GAPS
        if other == NON_PRIVATE
    }
    for (task, name, row, epsilon), value in PUBLISHED_VALUES.items():
        if task == "link" and row == "hds":
            other = PUBLISHED_VALUES[task, name, NON_PRIVATE, np.inf]
            gaps[task, name, row, epsilon] = value - other
    return {place: f"{gap:+.1f}" for place, gap in gaps.items() if gap > 0}


def margins(report: Any, _: Any) -> show.Section:
    """The differences of mechanisms that the paper names, beside ours, which are paired by seed."""
    rows = []
    for dataset, epsilon, first, second, published in NAMED_GAPS:
        budgets = (epsilon, np.inf if second == NON_PRIVATE else epsilon)
        place = {"dataset": dataset, "task": "node"}
        one, other = (
            report.select({"where": ["rows", place | {"mechanism": name, "epsilon": budget}]})
            for name, budget in zip((first, second), budgets, strict=True)
        )
        if one and other:
            label = f"{dataset}, eps {epsilon:g}: {report.word(first)} less {report.word(second)}"
            ours = show.interval((one[0].measures[VALUE] - other[0].measures[VALUE]).dropna())
            rows.append({"rows": label, "paper": f"{published:+.1f}", "ours": show.signed(ours)})
    return [show.table(rows)], {}, {}
