"""The README's table: what each kind of private data adds, counted over all committed rows, losses included."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments._report import counted, markdown
from experiments.frontier import features, features_report, friendships, joint, joint_report
from experiments.frontier import report as friendships_report
from experiments.frontier._points import PANEL, intervals
from experiments.heterorr import report as heterorr_report
from experiments.poindp import accuracy as poindp_accuracy
from experiments.poindp import report as poindp_report
from experiments.privge import accuracy as privge_accuracy
from experiments.privge import report as privge_report
from experiments.privge.summary import summarise, tally
from ldp_jax.learning.metrics import ConfidenceInterval


class Finding(NamedTuple):
    """One question, and in how many of its rows the interval of the answer is above 0 and below 0."""

    private: str
    """what is private, and the method"""
    beside: str
    """what the gain is over"""
    rows: int
    above: int
    below: int
    page: str

    def cells(self) -> list[str]:
        """Of a Markdown row."""
        link = f"[{self.page.removesuffix('.md')}](experiments/results/{self.page})"
        return [self.private, self.beside, f"{self.rows}", f"{self.above}", f"{self.below}", link]


TWIN, BEST = "its structure-only twin", "the best structure-only row"
HEADERS = ["private data, method", "gain over", "rows", "above 0", "below 0", "all rows"]


def table(out: Path) -> str:
    """All findings as Markdown, those that found nothing first."""
    found = [*_privge(out), *_poindp(out), *_heterorr(out), *_edges(out), *_features(out), *_joint(out)]
    return markdown(HEADERS, [finding.cells() for finding in found]) if found else ""


def _counted(private: str, beside: str, each: Iterable[ConfidenceInterval | None], page: str) -> list[Finding]:
    known = [one for one in each if one is not None and one.n > 1]
    above, below, _ = counted(known)
    return [Finding(private, beside, len(known), above, below, page)] if known else []


def _privge(out: Path) -> list[Finding]:
    frame = privge_accuracy.results_in(out).read()
    if frame.empty:
        return []
    lines = [line for one in summarise(frame, privge_report.published_ks(frame)) for line in one.counted()]
    above, below, _ = tally(lines)
    return [Finding("records sent with noise (PrivGE)", TWIN, len(lines), above, below, "REPORT.md")]


def _poindp(out: Path) -> list[Finding]:
    frame = poindp_accuracy.results_in(out).read()
    if frame.empty:
        return []
    gains = poindp_report.gains_of_sound_rows(frame)
    return _counted("records with sound hyperbolic noise (PoinDP)", TWIN, gains, "poindp.md")


def _heterorr(out: Path) -> list[Finding]:
    found = heterorr_report.gains(out)
    return [
        *_counted("records by feature budgets (HeteroRR)", TWIN, found.records, "heterorr.md"),
        *_counted("edges behind a curator (HeteroRR)", "the public edges alone", found.edges, "heterorr.md"),
    ]


def _edges(out: Path) -> list[Finding]:
    frame = friendships.results_in(out).read()
    if frame.empty:
        return []
    found = friendships_report.points(frame)
    lines, page = friendships_report.gains(found), "frontier_edges.md"
    noisy = friendships_report.gains_of_lists(found, "gcn")
    return [
        *_counted("noisy neighbour lists, GCN, epsilon 1", "features alone", noisy, page),
        *_counted("neighbour counts, epsilon 1", "features alone", [line.mine for line in lines], page),
        *_counted("neighbour counts, epsilon 1", "the best published row", [line.over for line in lines], page),
    ]


def _features(out: Path) -> list[Finding]:
    frame = features.results_in(out).read()
    if frame.empty:
        return []
    found, page = features_report.points(frame), "frontier_features.md"
    best, chosen = (
        (BEST, features_report.OVER_BEST),
        ("the row that the panel chooses", features_report.OVER_CHOSEN),
    )
    asked = (
        ("records sent with noise (PrivGE), a panel", features_report.PRIVGE, best),
        ("classes that devices find, a panel", features_report.LOCAL, best),
        ("the same of other users' records (placebo)", features_report.PLACEBO, chosen),
    )
    return [
        line
        for private, method, (beside, over) in asked
        for line in _counted(private, beside, features_report.gains(found, method, over).values(), page)
    ]


def _joint(out: Path) -> list[Finding]:
    frame = joint.results_in(out).read()
    if frame.empty:
        return []
    found = joint_report.points(frame)
    at = found[np.isfinite(found.epsilon)]
    private, page = "record and list within one total, a panel", "frontier_joint.md"
    over = {"nothing asked": joint_report.OVER_NOTHING, "the whole total on the record": joint_report.OVER_RECORDS}
    return [
        line
        for beside, metric in over.items()
        for line in _counted(
            private,
            beside,
            intervals(at, [*PANEL, "epsilon"], mechanism=joint_report.JOINT, metric=metric).values(),
            page,
        )
    ]
