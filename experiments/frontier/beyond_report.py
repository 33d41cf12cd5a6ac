"""Tables of what counts say beyond the classes of nodes; nothing is computed but statistics."""

from typing import Any

import numpy as np
import pandas as pd

from experiments import _report as show
from experiments._runner import Results
from experiments.frontier import _points, beyond, methods, rehearsal_report
from experiments.frontier.beyond import ALIKE, COUNTS, DEGREES, GRAPH, LINK, NAME, PILOT
from experiments.frontier.rehearsal_report import CHOSEN_ON_LISTS
from ldp_jax.learning.metrics import ConfidenceInterval
from ldp_jax.servers.rehearsal import LEAST_POINTS

_TEXT = show.prose("frontier_beyond")
results_in = beyond.results_in

_PLACE = ["task", "dataset", "labels"]


def pages(frame: pd.DataFrame) -> tuple[dict[str, str], dict[str, Any]]:
    told = frame.mechanism.str.startswith(methods.REHEARSAL)
    foretold, frame = frame[told], frame[~told]
    sections = ["# Counts beyond the classes of nodes", _TEXT.preface, verdict(frame)]
    figures = {}
    if found := rehearsal_report.outcomes(*rehearsed(foretold, frame), "labels"):
        asked_of = (
            f"public features, labels, and the lists of {PILOT} users at random before "
            "links were taken out"
        )
        about = asked_of, "released degrees", CHOSEN_ON_LISTS
        sections += [*rehearsal_report.sections(found, figures, NAME, *about), trivial(found)]
    for (task, dataset, labels), part in frame.groupby(_PLACE, sort=False):
        share = "half of the" if labels == "half" else f"{labels} a class of"
        known = "" if task == GRAPH else f", {share} labels"
        sections += [f"## {task}: {dataset}{known}", table(part)]
    return {NAME: "\n\n".join(sections)}, figures


def rehearsed(told: pd.DataFrame, frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rehearsals, and what was measured.

    Points by draw of each row of counts over the better one of degrees.

    The row is a part of the setting's name.
    """
    kind = told.mechanism.str.removeprefix(f"{methods.REHEARSAL}, ")
    told = told.assign(labels=told.labels.astype(str) + ", " + kind, mechanism=methods.REHEARSAL)
    rows = []
    for (dataset, labels), part in _points.pick(frame, task=LINK).groupby(
        ["dataset", "labels"], sort=False
    ):
        for (name, epsilon), mine in part.groupby(["mechanism", "epsilon"], sort=False):
            if name.startswith(COUNTS):
                at = _points.pick(part, epsilon=epsilon)
                released = at[at.mechanism.str.startswith(DEGREES)]
                degrees = released.pivot(index="seed", columns="mechanism", values="value")
                less = 100 * (mine.set_index("seed").value - degrees[degrees.mean().idxmax()])
                rows += [
                    (dataset, f"{labels}, {name}", epsilon, seed, points)
                    for seed, points in less.items()
                ]
    return told, pd.DataFrame(rows, columns=["dataset", "labels", "epsilon", "seed", "value"])


def trivial(found: list[rehearsal_report.Outcome]) -> str:
    """How often rules that look at no pilot are wrong about the same rows."""
    others = [one for one in found if one.dataset not in CHOSEN_ON_LISTS]
    said = []
    for name, some in (("all graphs", found), ("graphs by which no constant was chosen", others)):
        helps = np.array([one.gain.mean >= LEAST_POINTS for one in some], bool)
        high = np.array([one.epsilon >= 1.0 for one in some], bool)
        plain = np.array([ALIKE not in one.name for one in some], bool)
        rules = {
            "always counts": ~helps,
            "always degrees": helps,
            "counts from epsilon 1": high != helps,
            "counts from epsilon 1, never by same class": (high & plain) != helps,
        }
        words = "; ".join(f"*{rule}* in {int(wrong.sum())}" for rule, wrong in rules.items())
        said.append(f"of the {len(some)} rows on {name} {words}")
    return f"Rules without a rehearsal are wrong, {'. '.join(said).replace('. of', '. Of')}."


def _less_best(
    part: pd.DataFrame, others: pd.DataFrame, name: str, epsilon: float
) -> ConfidenceInterval | None:
    """A row less the best by the mean of some others, in points, paired by draw."""
    if others.empty:
        return None
    best = _points.pick(others, mechanism=others.groupby("mechanism").value.mean().idxmax())
    mine = _points.pick(part, mechanism=name, epsilon=epsilon)
    return show.paired(*(100 * row.set_index("seed").value for row in (mine, best)))


def public_gain(part: pd.DataFrame, name: str, epsilon: float) -> ConfidenceInterval | None:
    """Over the best of the rows that no private list is in."""
    return _less_best(part, _points.pick(part, epsilon=0.0), name, epsilon)


def gain(part: pd.DataFrame, name: str, epsilon: float) -> ConfidenceInterval | None:
    """Over the better row of released degrees."""
    at = _points.pick(part, epsilon=epsilon)
    return _less_best(part, at[at.mechanism.str.startswith(DEGREES)], name, epsilon)


def verdict(frame: pd.DataFrame) -> str:
    """In how many settings counts beat released degrees, and public data, task by task."""
    words = []
    for task in (LINK, GRAPH):
        rows = [
            (part, name, epsilon)
            for _, part in _points.pick(frame, task=task).groupby(_PLACE, sort=False)
            for (name, epsilon), _ in part.groupby(["mechanism", "epsilon"])
            if name.startswith(COUNTS)
        ]
        found, public = ([ask(*row) for row in rows] for ask in (gain, public_gain))
        up, down, _ = show.counted(found)
        more, less, _ = show.counted(public)
        if found:
            words.append(
                f"{task}: of {len(found)} rows of counts {up} are above released degrees, {down} "
                f"below; {more} are "
                f"above the best of what is public, {less} below"
            )
    return "; ".join(words).capitalize() + "."


@show.tabled
def table(part: pd.DataFrame) -> show.Rows:
    for (name, epsilon), one in part.groupby(["mechanism", "epsilon"], sort=False):
        private = 0 < epsilon < np.inf
        row = (part, name, epsilon)
        yield {
            "row": name,
            "eps": f"{epsilon:g}" if private else "",
            "draws": one.seed.nunique(),
            "AUC (%)" if part.task.iloc[0] == LINK else "accuracy (%)": show.interval(
                100 * one.value
            ),
            "less released degrees": show.signed(gain(*row))
            if private and name.startswith(COUNTS)
            else "",
            "less best public": show.signed(public_gain(*row)) if private else "",
        }


def digest(results: Results) -> str:
    frame = results.read()
    return verdict(frame[~frame.mechanism.str.startswith(methods.REHEARSAL)])
