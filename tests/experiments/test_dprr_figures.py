"""Degrees and scaling of the graph experiment: rows against what they are made of, and no second
computation.
"""

import dataclasses

import jax
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments import _common, _runner, dprr
from experiments.dprr import cells, degrees, scaling
from ldp_jax import edges
from tests.graph.sets import graph_set


def small_set(*_):
    """Stars against cycles, of 30 to 45 nodes, and one node without a neighbour in each graph."""
    made = [nx.star_graph(30 + i % 15) if i % 2 else nx.cycle_graph(30 + i % 15) for i in range(30)]
    for graph in made:
        graph.add_node(len(graph))
    return graph_set(made)


@pytest.fixture
def config(monkeypatch, tmp_path):
    for module in (cells, degrees, scaling):
        monkeypatch.setattr(module, "load", small_set)
    return dprr.Config(
        datasets=("stars_and_cycles",), epsilons=(1.0, 4.0), preset="smoke", rr_nodes=50,
        mechanisms=("dprr", "rr", "sizes"), out=tmp_path,
    )  # fmt: skip


def in_bin(values, name):
    first, _, last = name.partition("-")
    return (values >= int(first)) & (values <= int(last or first))


def test_rows_are_of_the_reported_degrees(config):
    whole = small_set()
    epsilon = 4.0
    dprr.main(dataclasses.replace(config, parts=("degrees",), epsilons=(epsilon,)))
    rows = pd.read_csv(config.out / "dprr_degrees.csv")
    assert tuple(rows.columns) == _runner.COLUMNS
    found = {name: part.set_index("metric").value for name, part in rows.groupby("mechanism")}
    assert set(found) == {"true degrees", "dprr", "rr"}
    private = rows[rows.mechanism != "true degrees"]
    np.testing.assert_allclose(private.epsilon_proved, private.epsilon)

    n_max = int(whole.nodes_per_graph.max())
    label = whole.labels[whole.node_graph]
    true = np.array([(whole.receivers == user).sum() for user in range(len(label))])
    check_shares(found["true degrees"], true, label)
    for name in ("dprr", "rr"):
        made = cells.made_by(cells.Variant(name, epsilon, 0.0), n_max)
        key = jax.random.fold_in(
            jax.random.key(0), int(_runner.config_hash([name, epsilon]), 16) % 2**31
        )
        noisy_graph = edges.privatize_graph(key, whole, made).graph
        matrix = np.zeros((len(true), len(true)), bool)  # row i is user i's report
        matrix[noisy_graph.receivers, noisy_graph.senders] = True
        noisy = matrix.sum(1)
        wanted = {
            "bias": (noisy - true).mean(), "mean absolute error": np.abs(noisy - true).mean(),
            "true mean degree": true.mean(), "mean degree": noisy.mean(),
            "share that report nobody": (noisy == 0).mean(),
            "Spearman correlation of d and d~": stats.spearmanr(true, noisy).statistic,
        }  # fmt: skip
        binned = [
            x.removeprefix("users, degree ") for x in found[name].index if x.startswith("users, ")
        ]
        assert set(binned) == {"0", "1", "2", "30-49"}
        for x in binned:
            mine = in_bin(true, x)
            low, high = np.quantile(noisy[mine], (0.05, 0.95))
            of_bin = {
                "users": mine.sum(),
                "true_mean": true[mine].mean(),
                "noisy_mean": noisy[mine].mean(),
            }
            of_bin |= {"noisy_5_percent": low, "noisy_95_percent": high}
            wanted |= {f"{metric}, degree {x}": value for metric, value in of_bin.items()}
        np.testing.assert_allclose(found[name][list(wanted)], list(wanted.values()), atol=1e-6)
        assert sum(found[name][f"users, degree {x}"] for x in binned) == len(true)
        check_shares(found[name], noisy, label)


def check_shares(found, values, label):
    for c in (0, 1):
        names = [x for x in found.index if x.startswith(f"share, class {c}, degree ")]
        shares = [in_bin(values[label == c], x.rsplit(" ", 1)[1]).mean() for x in names]
        np.testing.assert_allclose(found[names], shares, atol=1e-6)
        assert sum(shares) == pytest.approx(1)


def test_subgraphs_are_induced():
    whole = small_set()
    half = scaling.induced(whole, 0.5)
    most = scaling.induced(whole, 0.9)
    for share, part in ((0.5, half), (0.9, most)):
        np.testing.assert_array_equal(part.nodes_per_graph, np.ceil(share * whole.nodes_per_graph))
        np.testing.assert_array_equal(part.labels, whole.labels)
        assert part.symmetric
    all_of_it = scaling.induced(whole, 1.0)
    np.testing.assert_array_equal(all_of_it.senders, whole.senders)
    # In a complete graph a subgraph is complete.
    complete = scaling.induced(graph_set([nx.complete_graph(10), nx.complete_graph(7)]), 0.5)
    np.testing.assert_array_equal(complete.edges_per_graph, [5 * 4, 4 * 3])
    assert 0 < len(half.senders) < len(most.senders) < len(whole.senders)


def test_scaling_at_toy_sizes(config, monkeypatch):
    toy = {"GAMMAS": (1.0,), "NODES": (40, 80), "NEW_EDGES": (3,), "TRAIN": 2, "TEST": 1}
    for name, value in toy.items():
        monkeypatch.setattr(scaling, name, value)
    # It walks all that other tests have made.
    monkeypatch.setattr(scaling.gc, "collect", lambda: None)
    # Programs of each size and mechanism take minutes to compile: here the reports are the lists
    # themselves.
    monkeypatch.setattr(scaling, "_reports", lambda key, whole, made: whole)
    monkeypatch.setattr(
        scaling, "_epochs", lambda key, train, *_: (None, len(train.senders) ** 2, 1.0)
    )
    monkeypatch.setattr(scaling.graph_training, "_predict", lambda *_: None)
    once = dataclasses.replace(config, parts=("scaling",))
    dprr.main(once)
    rows = pd.read_csv(config.out / "dprr_scaling.csv")
    assert tuple(rows.columns) == _runner.COLUMNS
    np.testing.assert_allclose(rows.epsilon_proved, 1.0)
    wide = rows.pivot_table(
        index=["dataset", "task", "mechanism"], columns="metric", values="value"
    )
    assert len(wide) == 3 * 2
    for n in (40, 80):
        here = wide.loc["Barabasi-Albert, m = 3", f"n = {n}"]
        assert set(here.index) == {"dprr", "rr"}
        np.testing.assert_allclose(here["nodes"], n)
        np.testing.assert_allclose(here["edges"], 6 * (n - 3))
        np.testing.assert_allclose(here["epoch cpu s"], (2 * 6 * (n - 3)) ** 2 / 2, rtol=1e-5)
        np.testing.assert_allclose(here["epoch wall s"], 0.5)
    slope = np.log(77 / 37) / np.log(2)
    row = next(
        x for x in (config.out / "dprr_scaling.md").read_text().splitlines() if "m = 3 | RR" in x
    )
    assert row.split(" | ")[4:6] == [f"{2 * slope:.2f}", "0.00"]
    assert row.endswith(f"| {slope:.2f} |")
    for figure in (8, 9):
        assert (config.out / f"dprr_figure{figure}.png").stat().st_size > 10_000
    monkeypatch.setattr(scaling, "measure", None)
    dprr.main(once)


def test_panels_name_the_units_of_what_they_show():
    """Rows are in seconds and bytes, which the page turns into milliseconds and megabytes."""
    shown = _common.told("dprr/report.toml", "dprr_scaling")["select"]["time"]["metric"]
    labels, _ = _common.row_names("dprr")
    assert [labels.of(metric).split()[-1] for metric in shown] == ["ms", "ms", "ms", "MB"]
