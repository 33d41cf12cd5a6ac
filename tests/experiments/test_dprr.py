"""The graph experiment: every cell, rows that say what is spent, and a second run that computes nothing."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from experiments import _dprr_cells, _dprr_report, _runner, dprr
from ldp_jax.guarantee import NEIGHBOUR_LIST
from ldp_jax.packing import GraphSet


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
    for module in (dprr, _dprr_cells):
        monkeypatch.setattr(module, "load", lambda *_: small_set())
    return dprr.Config(
        datasets=("stars_and_cycles",), epsilons=(1.0,), seeds=1, preset="smoke", rr_nodes=20,
        mechanisms=("dprr", "rr", "degrees", "dprr-lengths", "non-private-part", "sizes"), out=tmp_path,
    )  # fmt: skip


def test_it_runs_and_does_not_run_again(config, monkeypatch):
    dprr.main(config)
    rows = pd.read_csv(config.out / "dprr.csv")
    assert tuple(rows.columns) == _runner.COLUMNS
    cells = dprr.cells_of(config)
    assert len(rows) == 2 * len(cells) == 20
    assert set(rows.metric) == {"accuracy", "auc"}
    private = rows[rows.mechanism.isin(["dprr", "rr", "degrees", "dprr-lengths"])]
    np.testing.assert_allclose(private.epsilon_proved, private.epsilon)
    assert (rows[rows.mechanism == "non-private-part"].epsilon_proved == np.inf).all()
    assert (rows[rows.mechanism == "sizes"].epsilon_proved == 0).all()
    assert set(rows.task) == {"graph", "graph, 20% public"}
    assert (config.out / "dprr_figure4.png").stat().st_size > 10_000
    text = (config.out / "dprr.md").read_text()
    assert "released degrees alone" in text
    assert "Of 2 settings in which DPRR" in text
    monkeypatch.setattr(dprr, "run", None)
    dprr.main(config)


def test_lengths_are_those_of_the_reports_that_the_classifier_sees():
    """The same key and the same DPRR: quantiles of the lengths of the noisy set's lists."""
    whole = small_set()
    resolved = dprr.settings(dprr.Config(preset="smoke"), "stars_and_cycles")
    public = np.zeros(len(whole.node_graph), bool)
    cells = [_dprr_cells.Cell(name, 3.0, 0.0) for name in ("dprr", "dprr-lengths")]
    keys = [_dprr_cells._keys(resolved, cell, 0)[2] for cell in cells]
    noisy = _dprr_cells._noisy(whole, cells[0], public, 15, keys[0])
    lengths = _dprr_cells._degrees(whole, cells[1], public, keys[1])
    np.testing.assert_array_equal(lengths, np.bincount(noisy.receivers, minlength=len(whole.node_graph)))
    rows = _dprr_cells._rows(whole, cells[1], public, _dprr_cells._keys(resolved, cells[1], 0)[2])
    largest = np.log1p([lengths[whole.node_graph == graph].max() for graph in range(len(whole))])
    np.testing.assert_allclose(rows[:, 17], (largest - largest.mean()) / largest.std(), atol=1e-5)


def test_public_parts_keep_every_graph():
    whole = small_set()
    rng = np.random.default_rng(0)
    public = rng.random(len(whole.node_graph)) < 0.2
    public[whole.node_graph == 3] = False
    part = _dprr_cells._public_part(whole, public)
    assert len(part) == len(whole)
    assert part.nodes_per_graph[3] == 1
    assert (part.nodes_per_graph >= 1).all()
    assert part.nodes_per_graph.sum() == public.sum() + (np.bincount(whole.node_graph, weights=public) == 0).sum()


def test_dense_reports_need_a_bound(tmp_path):
    with pytest.raises(SystemExit, match="--rr-nodes"):
        dprr.main(dprr.Config(mechanisms=("rr",), out=tmp_path))


def scored(mechanism, epsilon, alpha, values, metric="auc"):
    return [
        {
            "dataset": "made", "task": _dprr_cells._task(alpha), "mechanism": mechanism, "epsilon": epsilon, "k": 0,
            "seed": seed, "metric": metric, "value": value, "epsilon_proved": epsilon, "unit": "neighbour-list",
            "seconds": 1.0, "config": "one",
        }
        for seed, value in enumerate(values)
    ]  # fmt: skip


def test_lists_are_compared_with_degrees_split_by_split():
    """The splits differ by far more than the two rows do: paired, the difference is seen."""
    rows = []
    for metric in ("auc", "accuracy"):
        rows += scored("dprr", 1.0, 0.0, [0.60, 0.80, 0.70], metric)
        rows += scored("degrees", 1.0, 0.0, [0.62, 0.82, 0.721], metric)
        rows += scored("dprr", 2.0, 0.0, [0.60, 0.80, 0.70], metric)
        rows += scored("degrees", 2.0, 0.0, [0.55, 0.90, 0.70], metric)
        rows += scored("non-private", 0.0, 0.0, [0.9, 0.9, 0.9], metric)
    frame = pd.DataFrame(rows)
    gains = _dprr_report.paired(frame)
    assert len(gains) == 2
    assert gains["made", "graph", "dprr", 1.0, "one"].mean == pytest.approx(-2.0333, abs=1e-3)
    words = _dprr_report.what_edges_add(frame)
    assert "Of 2 settings" in words
    assert "higher in 0 and lower in 1" in words
    assert "(lower on average in 2)" in words
    assert "| DPRR | 70.0 ± 24.8 |" in _dprr_report.summary(frame)
    assert "| NonPriv-Full | 90.0 ± 0.0 |" in _dprr_report.summary(frame)
    lines = _dprr_report.lines(frame)
    assert lines[0][:4] == ["made", "graph", "DPRR", "1"]
    assert lines[0][6].startswith("**-2.0 ±")
    assert lines[1][6].startswith("-1.7 ±")
    assert lines[-1][2:4] == ["NonPriv-Full", ""]


def test_figures_need_rows_to_draw():
    rows = []
    for metric in ("auc", "accuracy"):
        rows += scored("dprr", 1.0, 0.0, [0.6, 0.7], metric) + scored("dprr", 1.0, 0.2, [0.7, 0.8], metric)
    assert set(_dprr_report.figures(pd.DataFrame(rows))) == {"dprr_figure4"}
    for metric in ("auc", "accuracy"):
        rows += scored("dprr", 0.5, 0.0, [0.5, 0.6], metric)
    assert set(_dprr_report.figures(pd.DataFrame(rows))) == {"dprr_figure4", "dprr_figure5"}
    for metric in ("auc", "accuracy"):
        rows += scored("dprr-one-to-nine", 0.5, 0.0, [0.5, 0.6], metric)
        rows += scored("dprr-one-to-nine", 1.0, 0.0, [0.6, 0.7], metric)
    assert set(_dprr_report.figures(pd.DataFrame(rows))) == {"dprr_figure4", "dprr_figure5", "dprr_figure6"}


@pytest.mark.parametrize(
    "mechanism", ["dprr", "dprr-one-to-nine", "dprr-as-published", "local-lap", "rr", "degrees"]
)
def test_the_ledger_says_what_is_true(mechanism):
    """At eps 0.2 and 1 000 nodes the printed split spends 0.0895 + 0.18, and the rows say so."""
    cell = _dprr_cells.Cell(mechanism, 0.2, 0.0)
    true = 0.2695 if mechanism == "dprr-as-published" else 0.2
    assert _dprr_cells.ledger(cell, 1000).spent(NEIGHBOUR_LIST).epsilon == pytest.approx(true, abs=1e-4)
