"""The graph experiment: every cell, rows that say what is spent, and a second run that computes nothing."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from experiments import _dprr_cells, _runner, dprr
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
        datasets=("stars_and_cycles",), epsilons=(2.0,), seeds=1, preset="smoke", rr_nodes=20,
        mechanisms=("dprr", "rr", "degrees", "non-private-part", "sizes"), out=tmp_path,
    )  # fmt: skip


def test_it_runs_and_does_not_run_again(config, monkeypatch):
    dprr.main(config)
    rows = pd.read_csv(config.out / "dprr.csv")
    assert tuple(rows.columns) == _runner.COLUMNS
    cells = dprr.cells_of(config)
    assert len(rows) == 2 * len(cells) == 16
    assert set(rows.metric) == {"accuracy", "auc"}
    private = rows[rows.mechanism.isin(["dprr", "rr", "degrees"])]
    np.testing.assert_allclose(private.epsilon_proved, 2.0)
    assert (rows[rows.mechanism == "non-private-part"].epsilon_proved == np.inf).all()
    assert (rows[rows.mechanism == "sizes"].epsilon_proved == 0).all()
    assert set(rows.task) == {"graph", "graph, 20% public"}
    assert (config.out / "dprr.png").stat().st_size > 10_000
    assert "released degrees alone" in (config.out / "dprr.md").read_text()
    monkeypatch.setattr(dprr, "run", None)
    dprr.main(config)


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
