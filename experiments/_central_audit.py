"""The audit of curators: what a release tells of one private edge, enumerated and by draws."""

import contextlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import pandas as pd

from experiments._report import ranked
from ldp_jax import curators, verification
from ldp_jax.core.spaces import NotApplicable

DRAWN = (4.0,)
"""Budgets at which releases are drawn, one after the other: below, a thousand show little; above,
they cannot.
"""
RELEASES = 1000
"""Draws of a release, of each of two graphs: the fewest that a bound takes, since each is made by
itself.
"""


def examine(made: Any, epsilon: float, key: Any, significance: float) -> dict[str, float]:
    measured = {
        "claimed": curators.promised(made).epsilon,
        "supremum": verification.private_edge_supremum(made).epsilon,
    }
    if epsilon in DRAWN and math.isfinite(measured["claimed"]):
        fit_key, game_key = jax.random.split(key)
        with contextlib.suppress(NotApplicable):
            fit = verification.matches_release(
                made, fit_key, trials=RELEASES // 2, significance=significance / 2
            )
            measured["fit"] = fit.statistic / fit.threshold if fit.fits else math.inf
        bound = verification.private_edge_lower_bound(
            made, game_key, RELEASES, 1 - significance / 2
        )
        measured |= {"lower_bound": bound.epsilon, "lower_limit": bound.limit}
    return measured


def by_budget(
    frame: pd.DataFrame, subjects: Mapping[str, Any], metrics: Sequence[str]
) -> pd.DataFrame:
    """One row a mechanism and budget, one column a metric, in the order of the subjects."""
    frame = frame[frame.mechanism.isin(list(subjects))]
    wide = frame.pivot_table(
        index=["mechanism", "epsilon"], columns="metric", values="value", aggfunc="max"
    )
    wide = wide.reset_index().reindex(columns=["mechanism", "epsilon", *metrics])
    return ranked(wide, subjects, ["mechanism", "epsilon"])


def verdicts(wide: pd.DataFrame, subjects: Mapping[str, Any], slack: float) -> list[str]:

    def found(row: Mapping[Any, Any]) -> dict[str, bool]:
        epsilon = row["epsilon"]
        limit = row["claimed"] if subjects[row["mechanism"]].sound else epsilon
        return {
            f"claims {limit:.6g}": limit > epsilon * (1 + slack),
            f"loses {row['supremum']:.6g} for an edge": row["supremum"] > limit * (1 + slack),
            f"is seen to lose {row['lower_bound']:.6g} by draws": row["lower_bound"] > limit,
            "does not draw what its law says": row["fit"] > 1,
        }

    return failures(wide, subjects, found)


def failures(
    wide: pd.DataFrame,
    subjects: Mapping[str, Any],
    found: Callable[[Mapping[Any, Any]], dict[str, bool]],
    unseen: Collection[float] = (),
) -> list[str]:
    """Sound forms with a broken claim, and published forms whose defect was not seen."""
    said = []
    for row in wide.to_dict("records"):
        sound = subjects[row["mechanism"]].sound
        broken = "; ".join(w for w, holds in found(row).items() if holds)
        if broken if sound else not broken and row["epsilon"] not in unseen:
            said.append(
                f"{row['mechanism']} at epsilon {row['epsilon']:g}: "
                f"{broken or 'its defect was not seen'}"
            )
    return said


def words(subject: Any) -> tuple[str, str]:
    """A curator's guarantee in words, and the law whose loss is enumerated."""
    one = subject.make(1.0)
    status = one.guarantee().status
    if isinstance(one, curators.HasStationaryLaw) and subject.sound:
        status = "none; in the limit where chains agree"
    return status, verification.private_edge_supremum(one).released
