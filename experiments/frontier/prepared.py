"""Rows of this folder as its pages show them."""

import numpy as np
import pandas as pd

from experiments.frontier import features_methods, methods
from experiments.frontier.friendships import ACCURACY
from experiments.frontier.joint_methods import BEST, CEILING
from experiments.frontier.poisoning import TASKS
from ldp_jax.accounting.guarantee import RELATIONSHIP


def edges(frame: pd.DataFrame) -> pd.DataFrame:
    """With the epsilon of the lists that cost as much as a row."""
    halved = frame.epsilon.where(frame.unit != str(RELATIONSHIP), frame.epsilon / 2)
    return frame.assign(per_list=halved)


def features(frame: pd.DataFrame) -> pd.DataFrame:
    """With the correlations of PrivGE's embedding, which rows of their own hold."""
    frame = _of_panels(frame)
    seen = frame[frame.mechanism == features_methods.FIDELITY]
    place = ["dataset", "panel", "epsilon", "seed"]
    private = frame.mechanism == features_methods.PRIVGE
    for column, metric in (
        ("correlation", features_methods.CORRELATION),
        ("correlation_alone", features_methods.STRUCTURE_CORRELATION),
    ):
        told = seen[seen.metric == metric].set_index(place).value
        rows = pd.MultiIndex.from_frame(frame[place])
        frame[column] = told.reindex(rows).to_numpy(float)
        frame.loc[~private, column] = np.nan
    return frame


def joint(frame: pd.DataFrame) -> pd.DataFrame:
    """With the best reports, which one row holds by total, as accuracies of a row of their own.

    A report of both is counted as a share of 2 of the record.
    """
    frame = _of_panels(frame)
    total = frame.metric.str.extract(f"{CEILING} at (.+)", expand=False)
    is_best = total.notna()
    totals = total[is_best].astype(float)
    best = frame[is_best].assign(mechanism=CEILING, epsilon=totals, metric=ACCURACY)
    frame = pd.concat([frame[frame.mechanism != BEST], best], ignore_index=True)
    record = pd.to_numeric(frame.record)
    bit = pd.to_numeric(frame.list)
    is_one_report = record + bit > 1.001 * frame.epsilon
    share = (record + bit.where(is_one_report, 0.0)) / frame.epsilon
    private = (frame.epsilon > 0) & np.isfinite(frame.epsilon)
    foreseen = 100 * pd.to_numeric(frame.foreseen)
    return frame.assign(record_share=share.where(private), foreseen_points=foreseen.where(private))


def beyond(frame: pd.DataFrame) -> pd.DataFrame:
    """With labels and counts in one column, by which rehearsals meet their outcomes."""
    kind = frame.mechanism.str.removeprefix(f"{methods.REHEARSAL}, ")
    return frame.assign(row=frame.labels.astype(str) + ", " + kind)


def poisoning(frame: pd.DataFrame) -> pd.DataFrame:
    """With what honest users lose: points of accuracy, or the relative error in per cent."""
    metric = frame.task.map({name: task.metric for name, task in TASKS.items()})
    frame = frame[frame.metric == metric]
    sign = np.where(frame.metric == ACCURACY, -100.0, 100.0)
    return frame.assign(loss=sign * frame.value)


def _of_panels(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(panel=[f"{float(setting):g}" for setting in frame.panel])
