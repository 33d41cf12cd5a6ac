"""The graph experiment: every cell, rows that say what is spent, and a second run that computes
nothing.
"""

import dataclasses
from functools import cache
from typing import NamedTuple

import jax
import networkx as nx
import numpy as np
import pandas as pd
import pytest

from experiments import _runner, dprr
from experiments._registry import runs
from experiments.dprr import accuracy
from experiments.dprr import cells as dprr_cells
from experiments.dprr import config as dprr_config
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST
from ldp_jax.graph.packing import GraphSet
from tests.experiments import contract
from tests.experiments.rows import page
from tests.graph.sets import graph_set


def small_set(count=40):
    """Stars against cycles, of eight to fifteen nodes."""
    return graph_set(
        [nx.star_graph(7 + i % 8) if i % 2 else nx.cycle_graph(8 + i % 8) for i in range(count)]
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
    assert (
        rows.groupby("mechanism").classifier.nunique() == 2
    ).all()  # a forest for every mechanism
    private = rows[rows.mechanism.isin(["dprr", "degrees", "dprr-lengths"])]
    np.testing.assert_allclose(private.epsilon_proved, private.epsilon)
    assert (
        rows[rows.mechanism.isin(["non-private-part", "true-degrees"])].epsilon_proved == np.inf
    ).all()
    assert (rows[rows.mechanism == "sizes"].epsilon_proved == 0).all()
    assert set(rows.public) == {0.0, 0.2}
    manifest = accuracy.results_in(config.out).describe()
    for row in rows.to_dict(
        "records"
    ):  # the budget of training is in the table and in the manifest
        made = manifest["configs"][row["config"]]
        epochs = None if row["classifier"] == "forest" else (2, None)
        assert epochs == (None if "trees" in made else (made["epochs"], made["patience"]))
    # Shares of public users do not overwrite each other: what is exposed differs.
    notes = manifest["guarantees"]
    name = "stars_and_cycles, of at most 20 nodes; graph{}; dprr, epsilon 1"
    assert "lists of public users" in notes[name.format(", 20% public")]
    assert "lists of public users" not in notes[name.format("")]


def test_only_large_graphs_are_kept_from_randomised_response(config, monkeypatch):
    config = dataclasses.replace(config, mechanisms=("rr",), rr_nodes=0)
    assert len(accuracy.plan(config)) > 0
    monkeypatch.setattr(dprr_cells, "RR_NODES", 10)
    asked = "stars_and_cycles has one of 15 nodes: give --rr-nodes 10"
    for parts in ("accuracy", "degrees"):
        with pytest.raises(_runner.UsageError, match=asked):
            dprr.main(dataclasses.replace(config, parts=(parts,)))


@pytest.mark.slow
def test_it_keeps_the_contract(config):
    """A network on graphs, a perceptron on numbers and forests on both, trained; no checkpoint is
    left.
    """
    config = dataclasses.replace(config, mechanisms=("dprr", "degrees"), public_shares=(0.2,))
    dprr.main(config)
    contract.check(dprr, config, [accuracy.results_in(config.out)])
    assert not list((config.out / "checkpoints").iterdir())


def test_every_classifier_sees_the_same_reports():
    """The same key and the same DPRR; quantiles of the lengths of the noisy set's lists."""
    whole = small_set()
    name = "stars_and_cycles"
    variants = [
        dprr_cells.Variant(of, 3.0, 0.2, chosen)
        for of in ("dprr", "dprr-lengths")
        for chosen in ("", "forest")
    ]
    keys = [dprr_cells._keys(name, variant, 0)[2] for variant in variants]
    assert len({tuple(jax.random.key_data(key).tolist()) for key in keys}) == 1
    noisy = dprr_cells.released(whole, name, variants[0], 0)
    lengths = dprr_cells.degrees(whole, name, variants[2], 0)
    np.testing.assert_array_equal(
        lengths, np.bincount(noisy.receivers, minlength=len(whole.node_graph))
    )
    of_lists, rows = (dprr_cells.statistics(whole, name, variant, 0) for variant in variants[1:3])
    assert (of_lists.shape, rows.shape) == ((40, 1 + 4 * 18 + 8), (40, 1 + 18))
    largest = np.log1p([lengths[whole.node_graph == graph].max() for graph in range(len(whole))])
    np.testing.assert_allclose(rows[:, 17], largest)
    np.testing.assert_allclose(
        of_lists[:, :19], rows
    )  # the lists' statistics begin with the same quantiles
    sizes = dprr_cells.statistics(whole, name, dprr_cells.Variant("sizes", 0.0, 0.0), 0)
    np.testing.assert_allclose(sizes, rows[:, :1])


def test_true_degrees_are_exact_and_released_ones_are_not():
    whole = small_set()
    noisy = dprr_cells.Variant("degrees", 1.0, 0.2)
    true = np.bincount(whole.receivers, minlength=len(whole.node_graph))
    exact = dprr_cells.degrees(whole, "x", dprr_cells.Variant("true-degrees", 0.0, 0.0), 0)
    np.testing.assert_array_equal(exact, true)
    found = dprr_cells.degrees(whole, "x", noisy, 0)
    public = dprr_cells._public(whole, "x", noisy, 0)
    np.testing.assert_array_equal(found[public], true[public])
    assert (found[~public] != true[~public]).mean() > 0.5


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_released_degrees_are_the_bits_of_the_committed_rows(epsilon):
    """Laplace noise of JAX's own sampler in float32, added and clipped in float64, written here a
    second time.
    """
    whole = small_set()
    cell = dprr_cells.Variant("degrees", epsilon, 0.0)
    true = np.bincount(whole.receivers, minlength=len(whole.node_graph))
    key = dprr_cells._keys("stars_and_cycles", cell, 3)[2]
    drawn = true + np.asarray(jax.random.laplace(key, true.shape)) / epsilon
    wanted = np.clip(drawn, 0, whole.nodes_per_graph[whole.node_graph] - 1)
    found = dprr_cells.degrees(whole, "stars_and_cycles", cell, 3)
    assert found.dtype == wanted.dtype == np.float64
    np.testing.assert_array_equal(found, wanted)


CONFIGS = {
    "gin": {"epochs": 60, "patience": 20},
    "more": {"epochs": 500, "patience": 100},
    "perceptron": {"epochs": 60, "patience": 20, "classifier": "perceptron"},
    "forest": {"trees": 300, "classifier": "random forest"},
}


def scored(mechanism, epsilon, alpha, values, metric="auc", first=0, config=None):
    name = mechanism.removeprefix("forest:")
    forest = "forest" if mechanism.startswith("forest:") else ""
    classifier = dprr_cells.Variant(name, epsilon, alpha, forest).classifier
    base = {
        "dataset": "made", "task": "graph", "mechanism": name, "epsilon": epsilon, "public": alpha,
        "classifier": classifier, "metric": metric, "seconds": 1.0, "config": config or classifier,
    }  # fmt: skip
    return [{**base, "seed": seed, "value": value} for seed, value in enumerate(values, first)]


def test_pairs_are_of_one_seed_one_classifier_and_one_training():
    """By position, the second seed of a row would meet the first of a row that lacks seed 0."""
    rows = scored("forest:dprr", 1.0, 0.0, [0.80, 0.90], first=1)
    rows += scored("forest:degrees", 1.0, 0.0, [0.60, 0.70, 0.80][::-1])[::-1]
    rows += scored("dprr", 1.0, 0.0, [0.6, 0.6], config="more") + scored(
        "dprr", 1.0, 0.0, [0.7, 0.75]
    )
    rows += scored("degrees", 1.0, 0.0, [0.5, 0.5])
    told = page("dprr", "dprr", pd.DataFrame(rows), CONFIGS)
    found = {
        (line.columns["kind"], line.columns["epochs"]): gain
        for line in told.select({"where": "ours"})
        if (gain := line.interval("degrees")) is not None
    }
    assert {key: (gain.n, gain.mean) for key, gain in found.items()} == {  # 80 - 70 and 90 - 60
        ("random forest", ""): (2, pytest.approx(20.0)),
        ("GIN; perceptron", "60"): (2, pytest.approx(22.5)),
    }


@pytest.mark.parametrize(
    "mechanism",
    [
        "dprr",
        "dprr-one-to-nine",
        "dprr-as-published",
        "local-lap",
        "rr",
        "degrees",
        "ldpgen",
        "blink",
    ],
)
def test_the_ledger_says_what_is_true(mechanism):
    """At eps 0.2 and 1 000 nodes the printed split spends 0.0895 + 0.18, and the rows say so."""
    cell = dprr_cells.Variant(mechanism, 0.2, 0.0)
    true = 0.2695 if mechanism == "dprr-as-published" else 0.2
    assert dprr_cells.ledger(cell, 1000).spent(NEIGHBOUR_LIST).epsilon == pytest.approx(
        true, abs=1e-4
    )


@pytest.mark.parametrize("mechanism", ["ldpgen", "blink"])
def test_a_graph_is_made_of_each_graph_by_its_own_users(mechanism):
    """Nearly without noise each graph has as many links as it had, and Blink those themselves."""
    whole = graph_set([nx.star_graph(7), nx.cycle_graph(8), nx.complete_graph(8)])
    variant = dprr_cells.Variant(mechanism, 25.0, 0.0)
    found = dprr_cells.released(whole, "small", variant, seed=0)
    assert found.symmetric
    np.testing.assert_array_equal(found.node_graph, whole.node_graph)
    np.testing.assert_array_equal(found.labels, whole.labels)
    share = found.edges_per_graph / whole.edges_per_graph
    assert (share > 0.7).all()
    assert (share <= 1).all()
    if mechanism == "blink":
        np.testing.assert_array_equal(found.senders, whole.senders)


def test_nobody_is_public_where_a_server_makes_the_graphs(config):
    shares = {"mechanisms": ("ldpgen",), "public_shares": (0.0, 0.2)}
    asked = dprr_config.variants_of(dataclasses.replace(config, **shares))
    assert {variant.public for variant in asked} == {0.0}


def test_words_say_how_many_seeds_and_else_the_preset(config):
    few = dataclasses.replace(config, mechanisms=("sizes",), classifiers=("forest",))
    for preset, given, seeds in (("committed", None, 3), ("paper", None, 10), ("paper", 2, 2)):
        planned = accuracy.plan(dataclasses.replace(few, preset=preset, seeds=given))
        assert {cell.seed for cell in planned} == set(range(seeds))


def test_the_committed_rows_are_those_of_the_committed_runs(monkeypatch, tmp_path):
    star = GraphSet.from_edges(
        [1, 0], [0, 1], np.zeros(1000, int), [0]
    )  # budgets are split by the largest graph
    monkeypatch.setattr(dprr_cells, "load", lambda *_: star)
    monkeypatch.setattr(dprr_cells, "ledger", cache(dprr_cells.ledger))  # of all seeds
    planned = [
        accuracy.plan(config)
        for config in runs("dprr", "committed", tmp_path)
        if config.parts == ("accuracy",)
    ]
    contract.is_committed(accuracy.results_in(_runner.REFERENCE), planned)
