"""Joint privacy: rows that differ in what their names say, and a report that says what a total buys.

Rows are computed beside those of part features, in ``test_frontier_features.py``, which compile the same programs.
"""

import math

import jax
import numpy as np
import pandas as pd
import pytest

from experiments.frontier import joint_methods, joint_report
from experiments.frontier.features_methods import Asked
from experiments.frontier.joint_methods import (
    HALVES,
    JOINT,
    LABELS_TOO,
    LISTS,
    METHODS,
    NOTHING,
    PLACEBO,
    RECORDS,
    TRUE_ALL,
)
from ldp_jax.graph import graphs
from ldp_jax.pipeline.rows import feature_rows
from tests.experiments.rows import of_panel

pytestmark = pytest.mark.usefixtures("quickly_compiled")


def test_rows_differ_in_what_their_names_say(monkeypatch):
    asked = []
    monkeypatch.setattr(joint_methods, "predict_jointly", lambda *given, **more: asked.append(given[5]))
    nothing = type("Nothing", (), {"graph": None, "num_classes": 3})
    draw = Asked("g", nothing, None, np.array([0, 1, 2, -1, 0]), nothing)
    for name in (JOINT, RECORDS, LISTS, HALVES, LABELS_TOO):
        with pytest.raises(AttributeError):  # nothing was found
            METHODS[name].run(jax.random.key(0), draw, 4.0)
    assert [budget.shares for budget in asked[1:4]] == [(1.0,), (0.0,), (0.5,)]
    assert [budget.labels for budget in asked] == [None] * 4 + [2.0]
    assert {budget.total for budget in asked} == {4.0}
    assert {METHODS[name].noise for name in (JOINT, RECORDS, LISTS, HALVES, LABELS_TOO)} == {METHODS[JOINT].noise}
    shares = np.exp(METHODS[NOTHING].run(jax.random.key(0), draw, 0.0).scores)
    np.testing.assert_allclose(shares, np.tile((0.5, 0.25, 0.25), (5, 1)))


def test_a_placebo_deals_out_records_and_lists_among_private_users(monkeypatch):
    asked = []
    monkeypatch.setattr(joint_methods, "predict_jointly", lambda *given, **more: asked.append(given))
    graph = graphs.from_edges([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]], 6)
    rows = feature_rows(np.eye(6, dtype=np.float32))
    known = np.array([0, 1, -1, -1, -1, -1])
    draw = Asked("g", type("Data", (), {"graph": graph}), rows, known, type("Facts", (), {"num_classes": 2}))
    seen = set()
    for seed in range(8):
        with pytest.raises(AttributeError):  # nothing was found
            METHODS[PLACEBO].run(jax.random.key(seed), draw, 4.0)
        _, lists, records, *_ = asked[-1]
        degree = np.bincount(np.asarray(lists.senders), minlength=6)
        assert sorted(degree) == [1, 1, 2, 2, 2, 2]
        assert degree[0] == 1  # the panel's first member still has one friend, the second
        assert {(int(a), int(b)) for a, b in zip(lists.senders, lists.receivers, strict=True)} >= {(0, 1), (1, 0)}
        held = np.asarray(records.column)[np.argsort(np.asarray(records.row))]
        assert held[:2].tolist() == [0, 1]
        assert sorted(held) == list(range(6))
        seen.add((*degree, *held))
    assert len(seen) > 4


def test_the_report_says_where_joint_privacy_costs_everything():
    rows = [
        (NOTHING, 0.0, np.nan, (30, 30, 30)), (TRUE_ALL, math.inf, np.nan, (80, 80, 80)),
        (JOINT, 1.0, 1.0, (29, 31, 30)), (RECORDS, 1.0, 1.0, (29, 31, 30)),
        (JOINT, 2.0, 1.0, (32, 32, 31)), (RECORDS, 2.0, 2.0, (33, 32, 32)),
        (JOINT, 4.0, 2.0, (55, 56, 54)), (PLACEBO, 4.0, 2.0, (31, 31, 31)), (RECORDS, 4.0, 4.0, (40, 41, 40)),
    ]  # fmt: skip
    frames = [
        of_panel([(name, total, values)], "0.1").assign(record=record) for name, total, record, values in rows
    ]
    found = joint_report.points(pd.concat(frames).assign(foreseen=0.52))
    said = joint_report.verdict(found)
    assert "is regained) on g at 1, g at 2; no gain over nothing asked is seen on g at 1." in said
    assert "above the whole total on the record in 1 (g at 4), below it in 0 (none)" in said
    line = next(line for line in joint_report.summary(found).splitlines() if "| 4 |" in line)
    assert "| 50% (3) |" in line
    assert line.endswith("| 50% |")  # 25 of the 50 points to the truth
    assert "| 55.0 ± 2.5 | 52.0 | **+25.0 ± 2.5** |" in line  # foreseen
    assert "| **+1.0 ± 0.0** |" in line  # the placebo
    at = found.set_index(["mechanism", "epsilon", "metric", "seed"]).value
    assert at[JOINT, 2.0, "gain over record alone", 0] == -1.0
