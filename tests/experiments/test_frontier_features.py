"""Private features beside a panel: rows that say what they cost, gains paired by draw, a report
that is checked.
"""

import dataclasses
import math
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

from experiments import _declared, frontier
from experiments._common import run_parts
from experiments.frontier import features, friendships, joint, joint_methods, rehearsed
from experiments.frontier import features_methods as methods
from experiments.frontier.config import Config
from experiments.frontier.features_methods import (
    CHOSEN,
    LOCAL,
    METHODS,
    PLACEBO,
    STRUCTURE,
)
from experiments.frontier.joint_methods import JOINT, NOTHING, RECORDS
from experiments.frontier.methods import CHANCE, FORETOLD, HIGH, LOW, REHEARSAL
from ldp_jax.servers import JointPrivacy, Rehearsal, panel_facts, predict_from_reports
from ldp_jax.servers.parts.rows import feature_rows
from tests.experiments import contract
from tests.experiments.rows import of_panel, page
from tests.servers.planted import blocks

PAGE = Path(frontier.__file__).with_name("report.toml")
TRUE = "non-private, class"
FEW = (
    f"{STRUCTURE}, stack",
    f"{STRUCTURE}, field",
    f"{STRUCTURE}, records of the panel",
    TRUE,
    LOCAL,
    PLACEBO,
)


@pytest.fixture(scope="module")
def ran(tiny):
    few = {"panels": ("0.3",), "epsilons": (2.0,), "mechanisms": FEW}
    return contract.run(frontier, Config(parts=("features",), **few, **tiny))


def test_each_row_is_there_once_under_what_it_costs(ran):
    rows = features.results_in(ran.out).read()
    assert len(rows) == 2 * (len(FEW) + 1)  # accuracy and log-loss, and what the panel chose
    assert set(rows.epsilon[~rows.mechanism.isin(methods.WITHOUT_EPSILON)]) == {2.0}
    assert set(rows.epsilon[rows.mechanism == TRUE]) == {math.inf}
    assert set(rows.epsilon[rows.mechanism.str.startswith(STRUCTURE)]) == {0.0}
    assert rows.value[rows.metric == "accuracy"].between(0, 1).all()
    told = rows[rows.mechanism == LOCAL]
    assert told.strength.between(0, 1).all()
    assert set(told.used) <= {"reports", "structure"}
    assert told[list(friendships.WHO)].notna().all(axis=None)
    assert (rows.members == rows.members.iloc[0]).all()
    promises = features.results_in(ran.out).describe()["guarantees"]
    assert "NOT protected: edges, the panel's records" in promises[f"mine: {LOCAL}, epsilon 2"]
    # What the panel chose is one of the rows: the stack that is computed anew for private users is
    # the library's.
    right = rows[rows.metric == "accuracy"].set_index("mechanism")
    assert right.value[f"{STRUCTURE}, {right.used[CHOSEN]}"] == right.value[CHOSEN]


def test_it_keeps_the_contract(ran):
    contract.check(frontier, ran, [features.results_in(ran.out)])
    assert "in 0 of 1 rows" in _declared.digest(PAGE, "frontier_features", ran.out)


def test_a_row_of_joint_privacy_says_how_its_total_was_split(ran, tmp_path, monkeypatch):
    few = {"parts": ("joint",), "epsilons": (4.0,), "mechanisms": (RECORDS, JOINT)}
    config = dataclasses.replace(ran, out=tmp_path, **few)
    splits = (JointPrivacy(4.0, 0.0),)
    told = Rehearsal((4.0,), np.full((2, 1), 50.0), np.full(2, 12.5), "both", 1, 4, splits=splits)
    monkeypatch.setattr(joint_methods, "rehearsed", lambda *_: told)
    run_parts(config, {"joint": joint})
    rows = joint.results_in(tmp_path).read()
    at = rows[rows.metric == "accuracy"].set_index("mechanism")
    assert set(at.index) == {NOTHING, RECORDS, JOINT}
    assert (at.record[RECORDS], at.list[RECORDS]) == (4.0, 0.0)
    assert at.epsilon[NOTHING] == 0.0
    assert at.value[JOINT] == at.value[RECORDS]  # the same noise
    assert at.foreseen[JOINT] == 0.625  # of the split that was taken
    promises = joint.results_in(tmp_path).describe()["guarantees"]
    assert "epsilon 4 per record" in promises[f"mine: {RECORDS}, epsilon 4, 4 a record, 0 a list"]
    assert len(_declared.write(PAGE, tmp_path)) == 3  # a page, its picture and its table
    before = joint.results_in(tmp_path).csv.read_bytes()
    monkeypatch.setattr(features, "draw", None)
    run_parts(config, {"joint": joint})  # computes nothing
    assert joint.results_in(tmp_path).csv.read_bytes() == before


ROWS = (
    (CHOSEN, 0.0, {0: 50, 1: 60, 2: 70}),
    (f"{STRUCTURE}, gcn", 0.0, {0: 52, 1: 62, 2: 72}),
    (f"{STRUCTURE}, field", 0.0, {2: 99}),  # one draw is no mean of three
    (LOCAL, 2.0, {1: 70, 2: 85}),  # draw 0 is missing: pairs, not positions
)


def test_gains_are_paired_by_draw_and_over_the_best_by_mean():
    (mine,) = page("frontier", "frontier_features", of_panel(ROWS)).select({"where": "ours"})
    assert mine.measures["best"].round(9).to_dict() == {1: 8, 2: 13}
    assert mine.measures["chosen"].round(9).to_dict() == {1: 10, 2: 15}
    assert mine.interval("structure").mean == pytest.approx(62)  # of gcn, over all its draws


def test_a_rehearsal_is_wrong_where_it_promises_nothing_and_where_it_passes_a_gain_over():
    """Of draws that have both: 0 and 1 of a graph, on which the verdict is to collect in one, in
    both, in none.
    """
    chances = {0.5: (0.1, 0.9), 1.0: (0.9, 0.9), 2.0: (0.9, 0.9), 4.0: (0.1, 0.1)}
    gains = {0.5: (3.0, 3.1), 1.0: (3.0, 3.1), 2.0: (-1.0, 1.0), 4.0: (-1.0, 1.0)}
    told = [
        of_panel([(REHEARSAL, epsilon, dict(enumerate(100 * np.array(each))))]).assign(
            metric=metric
        )
        for epsilon, chance in chances.items()
        for metric, each in (
            (CHANCE, (*chance, 1.0)),
            (FORETOLD, (epsilon,) * 3),
            (LOW, (-1.0,) * 3),
            (HIGH, (3.05,) * 3),
        )
    ]
    measured = [
        of_panel([(LOCAL, e, {seed: 100 * v for seed, v in enumerate(each)})])
        for e, each in gains.items()
    ]
    found = rehearsed.outcomes(pd.concat(told), pd.concat(measured))
    assert [(one.gain.n, one.rehearsed, one.inside) for one in found] == [
        (2, 2, n) for n in (1, 1, 2, 2)
    ]
    assert [one.collect for one in found] == [False, True, True, False]
    assert [one.miss for one in found] == ["passed over", "", "collected in vain", ""]
    assert [one.score for one in found] == pytest.approx([5.05, 5.05, 4.05, 4.05])
    assert [one.without for one in found] == pytest.approx([122.0, 122.0, 40.0, 40.0])
    said = rehearsed.words(found, "the panel", "structure")
    assert "wrong in 2 of 4" in said
    assert "(81.0 where always 0" in said  # of each gain, not of mean gains
    assert rehearsed.outcomes(of_panel(ROWS), pd.concat(measured)) == []
    assert rehearsed.outcomes(pd.concat(told), pd.DataFrame()) == []


def test_a_row_is_the_one_call_and_ceilings_are_above_it():
    """The row has the noise and the guarantee of the library's call."""
    graph, y, x = blocks(n=600, degree=5.0, homophily=0.35, clarity=3.0)
    labels = np.where(np.arange(600) < 150, y, -1)
    known = feature_rows(x[:150])
    rows = feature_rows(x)
    facts = panel_facts(jax.random.key(0), graph, known, labels, num_classes=3, num_folds=4)
    data = type("Data", (), {"graph": graph})
    asked = methods.Asked("g", data, rows, labels, facts)
    row = METHODS[LOCAL].run(jax.random.key(4), asked, 2.0)
    whole = predict_from_reports(
        jax.random.key(4), graph, rows, np.arange(150), y[:150], 2.0, facts=facts
    )
    np.testing.assert_array_equal(whole.log_posterior, row.scores)
    assert str(whole.guarantee) == str(row.guarantee)
    private = slice(150, None)
    for name in (TRUE, f"{TRUE} scores"):
        scores = METHODS[name].run(jax.random.key(4), asked, 2.0).scores
        right = (scores.argmax(1) == y)[private].mean()
        assert right > (whole.classes == y)[private].mean()
