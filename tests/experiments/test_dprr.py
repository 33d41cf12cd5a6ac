"""The graph experiment: every cell, rows that say what is spent, and a second run that computes nothing."""

import dataclasses
import re
from pathlib import Path
from typing import NamedTuple

import jax
import networkx as nx
import numpy as np
import pandas as pd
import pytest

from experiments import _runner, dprr
from experiments.dprr import accuracy
from experiments.dprr import cells as dprr_cells
from experiments.dprr import config as words
from experiments.dprr import report as dprr_report
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST
from ldp_jax.graph.packing import GraphSet

pytestmark = pytest.mark.usefixtures("quickly_compiled")

FINDINGS = Path(_runner.__file__).parent / "results/findings.md"


def small_set(count=40):
    """Stars against cycles, of eight to fifteen nodes."""
    senders, receivers, node_graph, start = [], [], [], 0
    for graph in range(count):
        made = nx.star_graph(7 + graph % 8) if graph % 2 else nx.cycle_graph(8 + graph % 8)
        pairs = np.array(made.edges()) + start
        senders += [pairs[:, 0], pairs[:, 1]]
        receivers += [pairs[:, 1], pairs[:, 0]]
        node_graph += [graph] * len(made)
        start += len(made)
    return GraphSet.from_edges(
        np.concatenate(senders), np.concatenate(receivers), np.array(node_graph), np.arange(count) % 2
    )


@pytest.fixture
def config(monkeypatch, tmp_path):
    whole = small_set()
    monkeypatch.setattr(dprr_cells, "load", lambda *_: whole)
    return dprr.Config(
        datasets=("stars_and_cycles",), epsilons=(1.0,), seeds=1, preset="smoke", rr_nodes=20,
        mechanisms=("dprr", "degrees", "dprr-lengths", "non-private-part", "true-degrees", "sizes"),
        out=tmp_path,
    )  # fmt: skip


class Scores(NamedTuple):
    accuracy: float = 0.5
    auc: float = 0.6


def test_rows_say_what_is_released_to_whom_and_how_it_is_trained(config, monkeypatch):
    """Every cell of the plan; its training is the next test's."""
    monkeypatch.setattr(dprr_cells, "run", lambda *_: Scores())
    dprr.main(config)
    rows = pd.read_csv(config.out / "dprr.csv")
    assert tuple(rows.columns) == (*_runner.COLUMNS, "public", "classifier")
    assert len(rows) == 2 * len(accuracy.plan(config)) == 36
    assert set(rows.metric) == {"accuracy", "auc"}
    assert (rows.groupby("mechanism").classifier.nunique() == 2).all()  # a forest for every mechanism
    private = rows[rows.mechanism.isin(["dprr", "degrees", "dprr-lengths"])]
    np.testing.assert_allclose(private.epsilon_proved, private.epsilon)
    assert (rows[rows.mechanism.isin(["non-private-part", "true-degrees"])].epsilon_proved == np.inf).all()
    assert (rows[rows.mechanism == "sizes"].epsilon_proved == 0).all()
    assert set(rows.task) == {"graph"}
    assert set(rows.public) == {0.0, 0.2}
    assert (config.out / "dprr_figure4.png").stat().st_size > 10_000
    text = (config.out / "dprr.md").read_text()
    assert "released degrees alone" in text
    assert "| stars_and_cycles, of at most 20 nodes | random forest | 2 |" in text
    assert "| graph, 20% public |" in text
    assert "random forest, 300 trees" in text
    manifest = accuracy.results_in(config.out).describe()
    for row in rows.to_dict("records"):  # the budget of training is in the table and in the manifest
        made = manifest["configs"][row["config"]]
        epochs = None if row["classifier"] == "forest" else (2, None)
        assert epochs == (None if "trees" in made else (made["epochs"], made["patience"]))
    # Shares of public users do not overwrite each other: what is exposed differs.
    notes = manifest["guarantees"]
    name = "stars_and_cycles, of at most 20 nodes; graph{}; dprr, epsilon 1"
    assert "lists of public users" in notes[name.format(", 20% public")]
    assert "lists of public users" not in notes[name.format("")]


@pytest.mark.slow
def test_it_runs_and_does_not_run_again(config, monkeypatch):
    """A network on graphs, a perceptron on numbers and forests on both, trained; no checkpoint is left."""
    config = dataclasses.replace(config, mechanisms=("dprr", "degrees"), public_shares=(0.2,))
    dprr.main(config)
    rows = pd.read_csv(config.out / "dprr.csv")
    assert set(zip(rows.mechanism, rows.classifier, strict=True)) == {
        ("dprr", "gin"), ("dprr", "forest"), ("degrees", "perceptron"), ("degrees", "forest"),
    }  # fmt: skip
    assert rows.value.between(0, 1).all()
    assert not list((config.out / "checkpoints").iterdir())
    monkeypatch.setattr(dprr_cells, "run", lambda *_: pytest.fail("trained again"))
    dprr.main(config)


def test_every_classifier_sees_the_same_reports():
    """The same key and the same DPRR; quantiles of the lengths of the noisy set's lists."""
    whole, name = small_set(), "stars_and_cycles"
    variants = [
        dprr_cells.Variant(of, 3.0, 0.2, forest) for of in ("dprr", "dprr-lengths") for forest in (False, True)
    ]
    keys = [dprr_cells._keys(name, variant, 0)[2] for variant in variants]
    assert len({tuple(jax.random.key_data(key).tolist()) for key in keys}) == 1
    noisy = dprr_cells.released(whole, name, variants[0], 0)
    lengths = dprr_cells.degrees(whole, name, variants[2], 0)
    np.testing.assert_array_equal(lengths, np.bincount(noisy.receivers, minlength=len(whole.node_graph)))
    of_lists, rows = (dprr_cells.statistics(whole, name, variant, 0) for variant in variants[1:3])
    assert (of_lists.shape, rows.shape) == ((40, 1 + 4 * 18 + 8), (40, 1 + 18))
    largest = np.log1p([lengths[whole.node_graph == graph].max() for graph in range(len(whole))])
    np.testing.assert_allclose(rows[:, 17], largest)
    np.testing.assert_allclose(of_lists[:, :19], rows)  # the lists' statistics begin with the same quantiles
    sizes = dprr_cells.statistics(whole, name, dprr_cells.Variant("sizes", 0.0, 0.0), 0)
    np.testing.assert_allclose(sizes, rows[:, :1])


def test_true_degrees_are_exact_and_released_ones_are_not():
    whole, noisy = small_set(), dprr_cells.Variant("degrees", 1.0, 0.2)
    true = np.bincount(whole.receivers, minlength=len(whole.node_graph))
    exact = dprr_cells.degrees(whole, "x", dprr_cells.Variant("true-degrees", 0.0, 0.0), 0)
    np.testing.assert_array_equal(exact, true)
    found, public = dprr_cells.degrees(whole, "x", noisy, 0), dprr_cells._public(whole, "x", noisy, 0)
    np.testing.assert_array_equal(found[public], true[public])
    assert (found[~public] != true[~public]).mean() > 0.5


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_released_degrees_are_the_bits_of_the_committed_rows(epsilon):
    """Laplace noise of JAX's own sampler in float32, added and clipped in float64, written here a second time."""
    whole, cell = small_set(), dprr_cells.Variant("degrees", epsilon, 0.0)
    true = np.bincount(whole.receivers, minlength=len(whole.node_graph))
    key = dprr_cells._keys("stars_and_cycles", cell, 3)[2]
    drawn = true + np.asarray(jax.random.laplace(key, true.shape)) / epsilon
    wanted = np.clip(drawn, 0, whole.nodes_per_graph[whole.node_graph] - 1)
    found = dprr_cells.degrees(whole, "stars_and_cycles", cell, 3)
    assert found.dtype == wanted.dtype == np.float64
    np.testing.assert_array_equal(found, wanted)


def test_public_parts_keep_every_graph():
    whole = small_set()
    public = np.random.default_rng(0).random(len(whole.node_graph)) < 0.2
    public[whole.node_graph == 3] = False
    part = dprr_cells._public_part(whole, public)
    kept = np.bincount(whole.node_graph, weights=public)
    np.testing.assert_array_equal(part.nodes_per_graph, np.maximum(kept, 1))


CONFIGS = {
    "gin": {"epochs": 60, "patience": 20},
    "more": {"epochs": 500, "patience": 100},
    "perceptron": {"epochs": 60, "patience": 20, "classifier": "perceptron"},
    "forest": {"trees": 300, "classifier": "random forest"},
}


def scored(mechanism, epsilon, alpha, values, metric="auc", first=0, config=None):
    name, forest = mechanism.removeprefix("forest:"), mechanism.startswith("forest:")
    classifier = dprr_cells.Variant(name, epsilon, alpha, forest).classifier
    base = {
        "dataset": "made", "task": "graph", "mechanism": name, "epsilon": epsilon, "public": alpha,
        "classifier": classifier, "metric": metric, "seconds": 1.0, "config": config or classifier,
    }  # fmt: skip
    return [{**base, "seed": seed, "value": value} for seed, value in enumerate(values, first)]


def on_both(*rows):
    """The same values of both metrics."""
    return [row for metric in ("auc", "accuracy") for each in rows for row in scored(*each, metric)]


def test_lists_are_compared_with_degrees_seed_by_seed():
    """The splits differ by far more than the two rows do: paired, the difference is seen."""
    frame = pd.DataFrame(
        on_both(
            ("dprr", 1.0, 0.0, [0.60, 0.80, 0.70]),
            ("degrees", 1.0, 0.0, [0.62, 0.82, 0.721]),
            ("dprr", 2.0, 0.0, [0.60, 0.80, 0.70]),
            ("degrees", 2.0, 0.0, [0.55, 0.90, 0.70]),
            ("non-private", 0.0, 0.0, [0.9, 0.9, 0.9]),
            ("true-degrees", 0.0, 0.0, [0.8, 0.81, 0.82]),
        )
    )
    gains = {key[2:4]: gain.mean for key, gain in dprr_report.paired(frame, CONFIGS).items()}
    assert gains == pytest.approx(
        {("dprr", 1.0): -2.0333, ("dprr", 2.0): -1.6667, ("non-private", 0.0): 9}, abs=1e-3
    )
    assert "| made | GIN; perceptron | 2 | 0 | 1 | -2.0 to -1.7 | 3 |" in dprr_report.verdict(frame, CONFIGS)
    assert "| DPRR | 70.0 ± 24.8 |" in dprr_report.summary(frame)
    assert "| NonPriv-Full | 90.0 ± 0.0 |" in dprr_report.summary(frame)
    worth = dprr_report.worth_of_edges(frame, CONFIGS).splitlines()
    assert worth[-2].startswith("| made | DPRR less released degrees | GIN; perceptron | **-2.0 ±")
    assert worth[-1] == "| made | NonPriv-Full less true degrees | GIN; perceptron |  |  | **+9.0 ± 2.5** |"
    lengths = scored("forest:dprr", 1.0, 0.0, [0.6, 0.7]) + scored("forest:dprr-lengths", 1.0, 0.0, [0.5, 0.6])
    worth = dprr_report.worth_of_edges(pd.DataFrame(lengths), CONFIGS)
    assert "| made | DPRR less lengths of its lists | random forest | **+10.0 ±" in worth
    # Committed rows of the same settings stand beside, and no others.
    lines = dprr_report.lines(frame, CONFIGS, frame[frame.mechanism == "dprr"].assign(value=0.25))
    assert list(lines[0].values())[:5] == ["made", "graph", "DPRR", "1", "GIN, <= 60 epochs, patience 20"]
    assert [line["AUC less degrees alone"][:8] for line in lines[:2]] == ["**-2.0 ±", "-1.7 ± 1"]
    assert (lines[-1]["mechanism"], lines[-1]["epsilon"]) == ("true degrees alone", "")
    for line in lines:
        assert str(line["committed AUC (%)"]) == ("25.0 ± 0.0" if line["mechanism"] == "DPRR" else "None")


def test_what_the_paper_says_stands_beside_our_differences():
    """Of the setting that it speaks of alone: epsilon 1 and 20 % public users, by the network."""
    rows = []
    for metric, shift in (("accuracy", 0.0), ("auc", 0.1)):
        rows += scored("dprr", 1.0, 0.2, [0.6 + shift, 0.7 + shift], metric)
        rows += scored("dprr", 1.0, 0.0, [0.1, 0.1], metric) + scored("forest:dprr", 1.0, 0.2, [0.2, 0.2], metric)
        rows += scored("non-private", 0.0, 0.0, [0.9, 1.0], metric)
        rows += scored("local-lap", 1.0, 0.2, [0.5, 0.6], metric)
        rows += scored("non-private-part", 0.0, 0.2, [0.6, 0.7], metric)
        rows += scored("local-lap", 1.0, 0.0, [0.9, 0.9], metric)
    lines = dprr_report.claims(pd.DataFrame(rows), CONFIGS).splitlines()[2:]
    assert [line.split(" | ")[1:] for line in lines] == [
        ["DPRR less NonPriv-Full", "not below -10 or so", "**-30.0 ± 0.0**", "**-20.0 ± 0.0** |"],
        ["DPRR less LocalLap", "significantly above 0", "**+10.0 ± 0.0**", "**+20.0 ± 0.0** |"],
        ["DPRR less NonPriv-Part", "significantly above 0", "+0.0 ± 0.0", "**+10.0 ± 0.0** |"],
    ]


def test_pairs_are_of_one_seed_one_classifier_and_one_training():
    """By position, the second seed of a row would meet the first of a row that lacks seed 0."""
    rows = scored("forest:dprr", 1.0, 0.0, [0.80, 0.90], first=1)
    rows += scored("forest:degrees", 1.0, 0.0, [0.60, 0.70, 0.80][::-1])[::-1]
    rows += scored("dprr", 1.0, 0.0, [0.6, 0.6], config="more") + scored("dprr", 1.0, 0.0, [0.7, 0.75])
    rows += scored("degrees", 1.0, 0.0, [0.5, 0.5])
    gains = dprr_report.paired(pd.DataFrame(rows), CONFIGS)
    found = {(group.classifier, group.config): (gain.n, gain.mean) for group, gain in gains.items()}
    assert found == {  # 80 - 70 and 90 - 60
        ("forest", "forest"): (2, pytest.approx(20.0)),
        ("gin", "gin"): (2, pytest.approx(22.5)),
    }


def test_figures_need_rows_to_draw():
    rows, drawn = [], set()
    for more, name in (
        ([("dprr", 1.0, 0.0, [0.6, 0.7]), ("dprr", 1.0, 0.2, [0.7, 0.8])], "dprr_figure4"),
        ([("dprr", 0.5, 0.0, [0.5, 0.6])], "dprr_figure5"),
        ([("dprr-one-to-nine", epsilon, 0.0, [0.5, 0.6]) for epsilon in (0.5, 1.0)], "dprr_figure6"),
        ([("forest:dprr", epsilon, 0.0, [0.5, 0.6]) for epsilon in (0.5, 1.0)], "dprr_forest"),
    ):
        rows, drawn = rows + on_both(*more), drawn | {name}
        assert set(dprr_report.figures(pd.DataFrame(rows), CONFIGS)) == drawn


def test_panels_have_one_scale_and_say_what_they_found():
    rows = []
    for dataset, high in (("made", 0.9), ("other", 0.6)):
        for epsilon, less in ((1.0, 0.1), (2.0, -0.1)):
            lists = ("dprr", epsilon, 0.0, [high - less, high - less - 0.1])
            both = on_both(lists, ("degrees", epsilon, 0.0, [high, high - 0.1]))
            rows += [{**row, "dataset": dataset} for row in both]
    axes = dprr_report.figures(pd.DataFrame(rows), CONFIGS)["dprr_figure5"].axes
    assert len({axis.get_ylim() for axis in axes}) == 1
    for axis in axes:
        assert "of 2 settings DPRR above degrees alone in 1, below in 1" in axis.get_title()


@pytest.mark.parametrize(
    "mechanism", ["dprr", "dprr-one-to-nine", "dprr-as-published", "local-lap", "rr", "degrees"]
)
def test_the_ledger_says_what_is_true(mechanism):
    """At eps 0.2 and 1 000 nodes the printed split spends 0.0895 + 0.18, and the rows say so."""
    cell = dprr_cells.Variant(mechanism, 0.2, 0.0)
    true = 0.2695 if mechanism == "dprr-as-published" else 0.2
    assert dprr_cells.ledger(cell, 1000).spent(NEIGHBOUR_LIST).epsilon == pytest.approx(true, abs=1e-4)


# --- What is committed -----------------------------------------------------------------------------------------

COMMITTED = accuracy.results_in(_runner.REFERENCE)


def test_the_committed_notes_are_what_the_code_says_of_each_row():
    """By graphs, public users, mechanism and budget; none is left of another key."""
    manifest, frame = COMMITTED.describe(), COMMITTED.read()
    wanted = {}
    for row in frame.drop_duplicates(["dataset", "public", "mechanism", "epsilon"]).to_dict("records"):
        # What depends on the largest graph, the published split, is checked by the CSV's own column.
        (name, note), *_ = dprr_cells.guarantee_note(row, 1000).items()
        wanted[name] = note
        if np.isfinite(row["epsilon_proved"]) and row["epsilon_proved"]:
            printed = re.search(r"epsilon (\S+) per neighbour-list", manifest["guarantees"][name])
            assert float(printed[1]) == pytest.approx(row["epsilon_proved"], rel=1e-5)
    assert set(manifest["guarantees"]) == set(wanted)
    same = {name for name in wanted if "dprr-as-published" not in name}
    assert all(manifest["guarantees"][name] == wanted[name] for name in same)
    assert set(frame.config) <= set(manifest["configs"])


def test_committed_rows_are_trained_under_one_rule():
    """The perceptron's budget is the graph network's, and each mechanism has a forest."""
    configs, frame = COMMITTED.describe()["configs"], COMMITTED.read()
    rules = {(c["epochs"], c["patience"]) for c in (configs[name] for name in frame.config) if "trees" not in c}
    assert rules == {(60, 20)}
    plain = frame[(frame.public == 0) & (frame.epsilon.isin([0, 1]))]
    for _, part in plain.groupby("dataset"):
        forest = part.classifier == "forest"
        assert set(part.mechanism[~forest]) - set(dprr_report.SPLITS[1:]) <= set(part.mechanism[forest])


def test_the_committed_rows_are_those_of_the_committed_runs(monkeypatch):
    """Cell by cell, but for the published split, whose true epsilon depends on the largest graph."""
    star = GraphSet.from_edges([1, 0], [0, 1], np.zeros(1000, int), [0])  # budgets are split by the largest graph
    monkeypatch.setattr(dprr_cells, "load", lambda *_: star)
    planned = [accuracy.plan(config) for config in words.COMMITTED if config.parts == ("accuracy",)]
    columns = [column for column in COMMITTED.key if column not in ("metric", "epsilon_proved")]
    wanted = {tuple(getattr(cell, column) for column in columns) for plan in planned for cell in plan}
    rows = COMMITTED.read()[columns].itertuples(index=False, name=None)
    assert set(rows) == wanted


def test_the_help_says_how_long_the_committed_rows_took():
    said = float(re.search(r"sum to about ([0-9.]+) hours", dprr.Config.__doc__)[1])
    assert said == pytest.approx(dprr_report.hours(COMMITTED.read()), abs=0.05)


def test_the_findings_show_the_committed_tables():
    frame, configs = COMMITTED.read(), COMMITTED.describe()["configs"]
    section = FINDINGS.read_text().split("## Noisy neighbour lists of graphs (DPRR)\n")[1].split("\n## ")[0]
    forests = frame[frame.classifier == "forest"]
    for table in (
        dprr_report.summary(frame),
        dprr_report.worth_of_edges(forests, configs),
        dprr_report.verdict(frame, configs),
    ):
        assert table in section
    assert (COMMITTED.csv.parent / "dprr.md").read_text() == dprr_report.as_markdown(frame, configs) + "\n"
