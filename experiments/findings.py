"""The README's table: what each kind of private data adds, counted over all committed rows, losses included."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments._report import markdown, significant
from experiments.frontier import features, features_report, friendships, joint, joint_report
from experiments.frontier import report as friendships_report
from experiments.heterorr import report as heterorr_report
from experiments.poindp import accuracy as poindp_accuracy
from experiments.poindp import report as poindp_report
from experiments.privge import accuracy as privge_accuracy
from experiments.privge import report as privge_report
from experiments.privge.summary import summarise, tally
from ldp_jax.learning.metrics import ConfidenceInterval, mean_interval


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
    """All findings as Markdown, those that found nothing first.

    Args:
      out: the folder of the rows; an experiment without rows has no line.
    """
    found = [*_privge(out), *_poindp(out), *_heterorr(out), *_edges(out), *_features(out), *_joint(out)]
    return markdown(HEADERS, [finding.cells() for finding in found]) if found else ""


def _counted(private: str, beside: str, each: Iterable[ConfidenceInterval | None], page: str) -> list[Finding]:
    known = [one for one in each if one is not None and one.n > 1]
    above = sum(significant(one) and one.mean > 0 for one in known)
    below = sum(significant(one) and one.mean < 0 for one in known)
    return [Finding(private, beside, len(known), above, below, page)] if known else []


def _privge(out: Path) -> list[Finding]:
    frame = privge_accuracy.results_in(out).read()
    if frame.empty:
        return []
    lines = [line for one in summarise(frame, privge_report.published_ks(frame)) for line in one.counted()]
    above, below, _ = tally(lines)
    return [
        Finding(
            "records sent with noise (PrivGE)", "its structure-only twin", len(lines), above, below, "REPORT.md"
        )
    ]


def _poindp(out: Path) -> list[Finding]:
    frame = poindp_accuracy.results_in(out).read()
    if frame.empty:
        return []
    gains = poindp_report.gains_of_sound_rows(frame)
    return _counted("records with sound hyperbolic noise (PoinDP)", TWIN, gains, "poindp.md")


def _heterorr(out: Path) -> list[Finding]:
    found = heterorr_report.gains(out)
    records = _counted(
        "records by feature budgets (HeteroRR)", "its structure-only twin", found.records, "heterorr.md"
    )
    return records + _counted(
        "edges behind a curator (HeteroRR)", "the public edges alone", found.edges, "heterorr.md"
    )


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
    asked = (
        ("records sent with noise (PrivGE), a panel", features_report.PRIVGE, features_report.OVER_BEST),
        ("classes that devices find, a panel", features_report.LOCAL, features_report.OVER_BEST),
        ("the same of other users' records (placebo)", features_report.PLACEBO, features_report.OVER_CHOSEN),
    )
    return [
        line
        for private, method, over in asked
        for line in _counted(
            private,
            "the best structure-only row"
            if over == features_report.OVER_BEST
            else "the row that the panel chooses",
            features_report.gains(found, method, over).values(),
            page,
        )
    ]


def _joint(out: Path) -> list[Finding]:
    frame = joint.results_in(out).read()
    if frame.empty:
        return []
    found = joint_report.points(frame)
    at = found[(found.mechanism == joint_report.JOINT) & np.isfinite(found.epsilon)]
    each = {
        over: [
            mean_interval(rows.value.to_numpy())
            for _, rows in at[at.metric == over].groupby([*joint_report.SETTING, "epsilon"])
        ]
        for over in (joint_report.OVER_NOTHING, joint_report.OVER_RECORDS)
    }
    private, page = "record and list within one total, a panel", "frontier_joint.md"
    return [
        *_counted(private, "nothing asked", each[joint_report.OVER_NOTHING], page),
        *_counted(private, "the whole total on the record", each[joint_report.OVER_RECORDS], page),
    ]
