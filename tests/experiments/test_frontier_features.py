"""Private features beside a panel: rows that say what they cost, gains paired by draw, a report
that is checked.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.stats

from experiments import frontier
from experiments._common import run_parts, write_parts
from experiments.frontier import features, features_report, joint, joint_methods, joint_report
from experiments.frontier import features_methods as methods
from experiments.frontier import rehearsal_report as rehearsed
from experiments.frontier.config import Config
from experiments.frontier.features_methods import (
    CHOSEN,
    FIDELITY,
    LOCAL,
    METHODS,
    PLACEBO,
    STRUCTURE,
)
from experiments.frontier.joint_methods import JOINT, NOTHING, RECORDS
from experiments.frontier.methods import CHANCE, FORETOLD, HIGH, LOW, REHEARSAL
from ldp_jax.accounting.guarantee import RECORD
from ldp_jax.servers import JointPrivacy, Rehearsal, panel_facts, predict_from_reports
from ldp_jax.servers.parts.rows import feature_rows
from tests.experiments import contract
from tests.experiments.rows import of_panel
from tests.servers.planted import blocks

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
def ran(graph_file, tmp_path_factory):
    few = {"panels": ("0.3",), "epsilons": (2.0,), "seeds": 1, "mechanisms": FEW}
    out = tmp_path_factory.mktemp("frontier")
    return contract.run(
        frontier, Config(parts=("features",), datasets=(str(graph_file),), out=out, **few)
    )


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
    assert (rows.members == rows.members.iloc[0]).all()
    promises = features.results_in(ran.out).describe()["guarantees"]
    assert "NOT protected: edges, the panel's records" in promises[f"mine: {LOCAL}, epsilon 2"]
    # What the panel chose is one of the rows: the stack that is computed anew for private users is
    # the library's.
    right = rows[rows.metric == "accuracy"].set_index("mechanism")
    assert right.value[f"{STRUCTURE}, {right.used[CHOSEN]}"] == right.value[CHOSEN]


def test_it_keeps_the_contract(ran):
    contract.check(frontier, ran, [features.results_in(ran.out)])
    assert "There are 1 gains of local prediction" in features_report.digest(
        features.results_in(ran.out)
    )


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
    assert len(write_parts([joint_report], tmp_path)) == 3
    assert (tmp_path / "frontier_joint.png").stat().st_size > 10_000
    assert "Of 1 settings what was chosen is above" in joint_report.digest(
        joint.results_in(tmp_path)
    )
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
    found = features_report.points(of_panel(ROWS))
    at = found.set_index(["mechanism", "metric", "seed"]).value
    assert [at[LOCAL, "gain over best structure-only", seed] for seed in (1, 2)] == [8, 13]
    assert [at[LOCAL, "gain over chosen structure-only", seed] for seed in (1, 2)] == [10, 15]
    assert (LOCAL, "accuracy", 0) not in at.index
    assert features_report.best_name(found) == f"{STRUCTURE}, gcn"


def test_rows_that_say_no_classes_say_what_their_metrics_are(monkeypatch):
    """What was foretold, and how much PrivGE's embedding shows; each ends with what completes its
    cell.
    """
    told = Rehearsal((1.0,), np.array([[2.0], [3.0], [4.0]]), np.full(3, 50.0), "records", 100, 60)
    monkeypatch.setattr(methods, "rehearse", lambda key, facts, epsilons: told)
    private, true = np.random.default_rng(0).normal(size=(2, 40, 3)).astype(np.float32)
    made = {"hds": jnp.asarray(private), None: jnp.asarray(true), "public": jnp.ones((40, 3))}
    bench = methods.cells.Bench(*[None] * 8, jax.random.key(1), None, None)
    monkeypatch.setattr(
        methods, "_bench", lambda *_: (bench, methods.cells.make_mechanism("hds", 1.0, 3, 2))
    )

    def embed(bench, mechanism, structure_only=False):
        return made["public" if structure_only else mechanism and mechanism.name]

    monkeypatch.setattr(methods.cells, "embed", embed)
    asked = type("Draw", (), {"facts": None})
    found = {
        name: METHODS[name].run(jax.random.key(0), asked, 1.0) for name in (REHEARSAL, FIDELITY)
    }
    values = {name: features.scored(answer, asked) for name, answer in found.items()}
    for name, of_row in values.items():
        assert list(of_row)[-1] == methods.LAST[name]
    assert values[REHEARSAL][FORETOLD] == 3.0
    assert 0.8 < values[REHEARSAL][CHANCE] < 0.9  # worlds agree, and may all be wrong
    assert values[REHEARSAL][LOW] < 0.0 < values[REHEARSAL][HIGH]
    assert found[REHEARSAL].guarantee[RECORD].epsilon == 0.0
    wanted = np.corrcoef((private - private.mean(0)).ravel(), (true - true.mean(0)).ravel())[0, 1]
    assert values[FIDELITY][methods.CORRELATION] == pytest.approx(wanted, abs=1e-5)
    assert values[FIDELITY]["relative error"] == pytest.approx(math.sqrt(1 - wanted**2), abs=1e-5)
    assert values[FIDELITY][methods.STRUCTURE_CORRELATION] == 0.0
    assert found[FIDELITY].guarantee[RECORD].epsilon == pytest.approx(1.0)


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
    assert "wrong in 2 of 4" in rehearsed.words(found, "the panel", "structure")
    (axis,) = rehearsed.figure(found, "structure").axes
    (ringed,) = [line for line in axis.lines if line.get_label() == "the verdict was wrong"]
    assert list(ringed.get_xdata()) == [0.5, 2.0]
    assert rehearsed.outcomes(of_panel(ROWS), pd.concat(measured)) == []
    alike = [
        one._replace(epsilon=1.0, told=found[0].told) for one in found
    ]  # as all worlds foretell 0
    points = rehearsed.figure(alike, "structure").axes[0].containers[0].lines[0]
    assert points.get_ydata().tolist() == [one.gain.mean for one in found]
    figures: dict[str, object] = {}
    few = [one._replace(labels=rehearsed.LEAST_LABELS - 1) for one in found]
    page = "".join(rehearsed.sections(few, figures, "page", "the panel", "structure"))
    assert (figures, page.count("refused"), ".png" in page) == ({}, 4, False)


@pytest.mark.parametrize("worlds", [4, 10])
def test_the_spread_of_worlds_alone_is_told_from_the_ends_of_an_interval(worlds):
    told = Rehearsal(
        (1.0,), np.linspace(2.0, 6.0, worlds)[:, None], np.full(worlds, 50.0), "lists", 900, 100
    )
    points, low, high, chance = told.foreseen(1.0)
    reach = (
        scipy.stats.t.ppf(0.975, worlds - 1) * told.gains.std(ddof=1) * math.sqrt(1 + 1 / worlds)
    )
    each = {FORETOLD: points, LOW: low, HIGH: high, CHANCE: chance}
    frame = pd.concat(
        of_panel([(REHEARSAL, 1.0, [100 * v] * 2)]).assign(metric=name) for name, v in each.items()
    )
    measured = of_panel([(LOCAL, 1.0, [100 * (points + share * reach) for share in (0.99, 1.01)])])
    (one,) = rehearsed.outcomes(frame, measured, worlds=worlds)
    assert (one.rehearsed, one.inside, one.alone) == (2, 2, 1)


def test_three_panels_of_a_graph_are_a_figure():
    frames = [
        of_panel(ROWS, panel=setting).assign(members=int(setting)) for setting in ("5", "20", "50")
    ]
    found = features_report.points(pd.concat(frames))
    groups = features_report._of_sizes(found)
    assert [name for name, _ in groups] == ["g"]
    (axis,) = features_report._size_figure(groups).axes
    assert axis.get_lines()[0].get_xdata().tolist() == [5, 20, 50]
    assert features_report._of_sizes(found[found.panel != "5"]) == []
    names = [tick.get_text() for tick in features_report._figure(found).axes[0].get_yticklabels()]
    assert sorted(names) == ["g, 20 a class", "g, 5 a class", "g, 50 a class"]  # all of them


def test_a_placebo_deals_out_the_records_of_private_users_alone():
    x = np.diag(np.arange(1.0, 9.0)) + np.eye(8, k=-1)
    rows = feature_rows(x)
    private = np.array([1, 2, 4, 5, 7])
    dealt = methods.shuffled(jax.random.key(3), rows, private).dense()
    own = rows.dense()
    others = np.setdiff1d(np.arange(8), private)
    np.testing.assert_array_equal(dealt[others], own[others])
    assert (dealt[private] != own[private]).any()
    np.testing.assert_array_equal(np.sort(dealt[private], axis=0), np.sort(own[private], axis=0))


def test_padding_is_no_record():
    rows = feature_rows(np.eye(5, 7) + np.eye(5, 7, 2))
    more = methods.padded(rows)
    assert len(more.row) == 64
    assert (np.diff(more.row) >= 0).all()
    np.testing.assert_array_equal(more.dense(), rows.dense())


def test_rows_that_are_compared_differ_in_what_their_names_say():
    """Rows of true records share one noise, and placebos share another."""
    names = (LOCAL, methods.UNGUARDED, methods.PLAIN, PLACEBO, methods.UNGUARDED_PLACEBO)
    alone = [{}, {"guarded": False}, {"plain": True}, {"placebo": True}]
    found = [getattr(METHODS[name].run, "keywords", {}) for name in names]
    assert found == [*alone, {"placebo": True, "guarded": False}]
    true = (LOCAL, methods.UNGUARDED, methods.PLAIN)
    assert {METHODS[name].noise for name in true} == {METHODS[LOCAL].noise}
    assert (
        METHODS[PLACEBO].noise == METHODS[methods.UNGUARDED_PLACEBO].noise != METHODS[LOCAL].noise
    )


def test_a_row_is_the_one_call_and_a_plain_alphabet_holds_all_classes(monkeypatch):
    """The row has the noise and the guarantee of the library's call; ceilings are read by their own
    law.
    """
    graph, y, x = blocks(n=600, degree=5.0, homophily=0.35, clarity=3.0)
    labels = np.where(np.arange(600) < 150, y, -1)
    known, rows = feature_rows(x[:150]), feature_rows(x)
    facts = panel_facts(jax.random.key(0), graph, known, labels, num_classes=3, num_folds=4)
    data = type("Data", (), {"graph": graph})
    asked = methods.Asked("g", data, rows, labels, facts)
    row = METHODS[LOCAL].run(jax.random.key(4), asked, 2.0)
    whole = predict_from_reports(
        jax.random.key(4), graph, rows, np.arange(150), y[:150], 2.0, facts=facts
    )
    np.testing.assert_array_equal(whole.log_posterior, row.scores)
    assert str(whole.guarantee) == str(row.guarantee)
    right = lambda name: (METHODS[name].run(jax.random.key(4), asked, 2.0).scores.argmax(1) == y)[
        150:
    ].mean()
    assert min(right(TRUE), right(f"{TRUE} scores")) > (whole.classes == y)[150:].mean()
    sizes = []
    made = methods.ReportServer
    record = lambda *given: sizes.append(given[-1].sizes) or made(*given)
    monkeypatch.setattr(methods, "ReportServer", record)
    METHODS[methods.PLAIN].run(jax.random.key(4), asked, 2.0)
    assert (np.asarray(sizes[0]) == 3).all()
