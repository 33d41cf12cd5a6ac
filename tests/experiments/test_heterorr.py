"""HeteroRR: rows beside what is public, which must not know anything private."""

import dataclasses
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from experiments import _declared, heterorr
from experiments._common import run_parts
from experiments.heterorr import (
    accuracy,
    attacks,
    cells,
    counts,
    inversion,
    mixing,
    releases,
    shares,
)
from experiments.heterorr.releases import EPSILON_0, FEATURES, STRUCTURE
from experiments.heterorr.settings import (
    EDGE_MECHANISMS,
    FEATURE_MECHANISMS,
    PRIVATE_LABELS,
    Config,
)
from ldp_jax import datasets
from ldp_jax.accounting.guarantee import EDGE_CENTRAL, RECORD
from ldp_jax.curators import promised
from ldp_jax.graph import graphs
from ldp_jax.learning import training
from tests.experiments import contract
from tests.experiments.synthetic import CELL

FEW = ("featurerr", "lpgnn")
CLASS = "tests.newcomer.own_methods:Keep"
LABELLED = (PRIVATE_LABELS, CLASS)
PLACES, FIT = cells._PLACES, training.fit


def quick_fit(key, model, objective, context, *rest, **settings):
    """Networks on graphs as they were drawn; the perceptron of public users is trained."""
    fit = contract.as_first_drawn if not isinstance(context, jax.Array) else FIT
    return fit(key, model, objective, context, *rest, **settings)


@pytest.fixture(scope="module")
def quick():
    """No training on graphs, of which one test has its own; and one layout for all of them.

    The two levels whose records are private have the same public users, and so one embedding.
    """
    known = {}
    embedding = cells.embedding

    def once(bench):
        if id(bench.data) not in known:
            known[id(bench.data)] = (
                bench,
                embedding(bench),
            )  # with the bench: its id is of nothing else
        return known[id(bench.data)][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "embedding", once)
        patch.setattr(training, "fit", quick_fit)
        patch.setattr(cells, "_PLACES", 8192)
        yield


@pytest.fixture(scope="module")
def ran(tiny, quick):
    config = Config(
        parts=("features", "edges", "both", "attacks", "scores"),
        preset="smoke",
        epsilons=(1.0,),
        private_shares=(0.2,),
        attacked_nodes=40,
        mechanisms=(*FEW, "binned-pairs", CLASS),
        **tiny,
    )
    return contract.run(heterorr, config)


@pytest.fixture(scope="module")
def bench(ran):
    (dataset,) = ran.datasets
    return {
        level: cells.prepare(accuracy.resolved(ran, dataset, level), 0) for level in accuracy.LEVELS
    }


def test_rows_stand_beside_what_is_public_and_say_what_is_proved(ran):
    rows = accuracy.results_in(ran.out).read().fillna({"edges": ""})
    names = {level: set(part.mechanism) for level, part in rows.groupby("level")}
    twins = {prefix + name for name in FEW for prefix in ("", STRUCTURE, FEATURES)}
    twins |= {prefix + name for name in LABELLED for prefix in ("", STRUCTURE)}
    known = {"non-private", "features-only:non-private", "label-propagation"}
    assert names["features"] == twins | known | {"non-private records", "public records alone"}
    assert names["edges"] == {"binned-pairs"} | known | set(EPSILON_0)
    private = rows[rows.mechanism.str.removeprefix(FEATURES).isin((*FEW, "binned-pairs"))]
    assert (private.epsilon_proved / private.epsilon).between(0.99, 1 + 1e-12).all()
    proved = rows.groupby("mechanism").epsilon_proved.max()
    for name in LABELLED:
        assert 0.999 < proved[name] <= 1.0
        assert 0.499 < proved[STRUCTURE + name] <= 0.5  # the twin asks for labels too
    assert np.isinf(rows[rows.mechanism.str.contains("non-private")].epsilon_proved).all()
    assert ((rows.unit == str(EDGE_CENTRAL)) == (rows.level == "edges")).all()
    assert set(rows.unit) == {str(EDGE_CENTRAL), str(RECORD)}


def test_it_keeps_the_contract(ran):
    contract.check(heterorr, ran, [part.results_in(ran.out) for part in (accuracy, attacks)])


def test_the_manifest_holds_every_release_and_a_chain_that_has_not_mixed_proves_nothing(ran, bench):
    said = accuracy.results_in(ran.out).describe()["guarantees"]
    assert "NOT protected: labels, features, public edges" in said["edges: binned-pairs, epsilon 1"]
    assert all(
        unit in said["both: lpgnn + binned-pairs, epsilon 1"]
        for unit in ("per record", "per edge-central")
    )
    chain = dataclasses.replace(ran, mechanisms=("edgerr",))
    (cell,) = (
        one for one in accuracy.plan(chain) if (one.level, one.mechanism) == ("edges", "edgerr")
    )
    assert np.isinf(cell.epsilon_proved)
    assert "epsilon inf per edge-central" in str(cells.guarantee(bench["edges"], cell))
    for name in LABELLED:
        both = said[f"features: {name}, epsilon 1"]
        assert both.startswith("protected: features, labels; NOT protected: public")
        twin = said[f"features: structure-only:{name}, epsilon 1"]
        assert twin.startswith("protected: labels; NOT protected")


def with_other_private_records(bench):
    """The same users, all private ones with other records."""
    x = bench.data.x.toarray()
    x[~bench.public] = 1.0 - x[~bench.public]
    return dataclasses.replace(
        bench, data=dataclasses.replace(bench.data, x=scipy.sparse.csr_array(x))
    )


PUBLIC_ROWS = (STRUCTURE + "lpgnn", STRUCTURE + "featurerr", "public records alone")


@pytest.mark.parametrize("name", [*PUBLIC_ROWS, "lpgnn"])
def test_rows_of_public_knowledge_know_no_private_record_and_private_rows_do(bench, name):
    made = bench["features"]
    one, other = (
        np.asarray(cells.features(each, name, 1.0))
        for each in (made, with_other_private_records(made))
    )
    assert (one == other).all() == (name in PUBLIC_ROWS)
    known = cells.embedding(made)
    np.testing.assert_array_equal(one[known.public], known.z[known.public])


def test_the_embedding_and_the_shares_come_from_public_users_alone(bench):
    made = bench["features"]
    labels = np.where(made.public, made.data.y, 0)
    hidden = dataclasses.replace(made, data=dataclasses.replace(made.data, y=labels))
    one, other, unlabelled = map(cells.embedding, (made, with_other_private_records(made), hidden))
    for name in ("alpha", "beta", "theta"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(unlabelled.theta, one.theta)
    np.testing.assert_array_equal(one.z[one.public], other.z[one.public])
    assert (
        one.z[~one.public] != other.z[~one.public]
    ).any()  # of private users the records do matter
    assert one.public.sum() == 12
    assert set(np.flatnonzero(one.public)) <= set(np.asarray(made.parts[0].index))


@pytest.mark.parametrize("name", LABELLED)
def test_labels_of_public_users_are_known_and_others_randomised(bench, name):
    made = bench["features"]
    _, mechanism = cells.asked_by(made, name, 0.2)
    noisy = cells._noisy(mechanism, jax.random.key(0), made.parts[0], made.public)
    index = np.asarray(made.parts[0].index)
    told = np.asarray(noisy.label).argmax(1) == np.asarray(made.parts[0].label)
    assert told[made.public[index]].all()
    assert (np.asarray(noisy.keep)[made.public[index]] == 1).all()
    # 48 private users keep theirs with probability 0.36: all would with 1e-21.
    assert not told[~made.public[index]].all()
    # 2^18 draws measure an own mechanism: five standard deviations.
    assert np.asarray(noisy.keep)[~made.public[index]] == pytest.approx(
        np.exp(0.1) / (np.exp(0.1) + 2), abs=1e-5 if name == PRIVATE_LABELS else 5e-3
    )


@pytest.mark.parametrize("name", EPSILON_0)
def test_rows_at_epsilon_0_know_no_private_edge(bench, name):
    split = cells.split_of(bench["edges"], 0.2)
    emptied = type(split)(
        split.public, graphs.from_edges(np.zeros((0, 2), np.int32), split.num_nodes)
    )
    one, other = (
        graphs.to_edges(
            releases.released_edges(
                jax.random.clone(bench["edges"].edge_key), each, name, 0.0, 0.2, 20
            )[0]
        )
        for each in (split, emptied)
    )
    np.testing.assert_array_equal(one, other)
    public = len(graphs.to_edges(split.public))
    wanted = round(0.25 * public)
    added = len(one) - public
    assert added == {"public-edges": 0, "public-link-prediction": wanted}.get(name, added)
    if (
        name == "public-hrg-0"
    ):  # a sum of independent draws: five standard deviations below, and never many more
        assert 0 < added < wanted + 5 * np.sqrt(wanted)


def test_every_mechanism_keeps_its_budget_at_every_epsilon():
    theta = np.arange(1.0, 17.0)
    for epsilon in (0.1, 4.0, 6.0):
        for name in FEATURE_MECHANISMS:
            made = releases.feature_mechanism(name, epsilon, theta / theta.sum(), 10)
            assert made.guarantee().epsilon <= epsilon * (1 + 1e-6)
            assert made.guarantee().epsilon > 0.99 * epsilon
        for name in EDGE_MECHANISMS:
            assert promised(releases.edge_mechanism(name, epsilon, 10)).epsilon == pytest.approx(
                epsilon
            )


def test_attacks_stand_beside_attackers_without_a_model_and_scores_are_shares(ran):
    rows = attacks.results_in(ran.out).read()
    assert set(rows.attack) == {attacks.LINKTELLER, *attacks.KNOWN}
    told = rows[rows.attack == attacks.LINKTELLER]
    assert set(told.mechanism) == {"public-edges", "non-private", "binned-pairs"}
    auc = rows[rows.metric == "AUC"].groupby(["mechanism", "attack"]).value.mean()
    assert (
        auc["non-private", attacks.LINKTELLER] > 0.6
    )  # a model of the true edges does give them away
    assert rows.value.between(0, 1).all()
    assert (rows[rows.mechanism == "public knowledge"].epsilon_proved == 0).all()
    totals = shares.results_in(ran.out).read().groupby(["seed", "metric"]).value.sum()
    np.testing.assert_allclose(
        totals, 1.0, atol=1e-9
    )  # importance, sensitivity and theta are shares


def test_budgets_of_counts_and_inversion_are_those_that_are_asked_for(monkeypatch):
    monkeypatch.setattr(inversion, "cells", lambda seeds, epsilons, *_: epsilons)
    asked = Config(preset="smoke", seeds=1, epsilons=(2.0,), mechanisms=("edge-rand",))
    assert inversion.plan(asked) == (2.0,)
    private = {(cell.mechanism, cell.epsilon) for cell in counts.plan(asked) if cell.epsilon}
    assert private == {("edge-rand", 2.0)}


def test_releases_are_counted_and_attacked_beside_epsilon_0(bench, monkeypatch, tmp_path):
    edges = graphs.to_edges(bench["edges"].data.graph)
    monkeypatch.setattr(mixing, "connected", lambda _: (bench["edges"].data.num_nodes, edges))
    monkeypatch.setattr(counts, "EPSILONS", (4.0,))
    counts._split.cache_clear()
    run_parts(Config(preset="smoke", seeds=1, out=tmp_path), {"counts": counts})
    counts._split.cache_clear()
    rows = counts.results_in(tmp_path).read().set_index(["mechanism", "epsilon", "metric"]).value
    assert rows["public-edges", 0.0, cells.RELEASED] == 0
    private = round(0.2 * len(edges))
    assert rows["edge-rand", 4.0, cells.TRUE] > 0.8 * private  # each is kept with probability 0.98
    for name in EDGE_MECHANISMS:
        assert rows[name, 4.0, cells.TRUE] <= min(private, rows[name, 4.0, cells.RELEASED])
    page = _declared.report(Path(heterorr.__file__).with_name("report.toml"), counts.NAME, tmp_path)
    text, _, _ = page.page()
    assert "| public HRG at eps 0 | 0 |" in text


def cell_of(level, mechanism, unit, rho):
    """A cell of epsilon 1."""
    of = {"task": "node", "mechanism": mechanism, "unit": str(unit)}
    return cells.Cell(**CELL | of, level=level, rho=rho, edges="", epsilon_edges=0.0)


@pytest.mark.parametrize(("longer", "agree"), [(1, False), (20_000, True)])
def test_a_long_chain_has_its_epsilon_where_chains_agree_and_else_no_accuracy(
    bench, monkeypatch, longer, agree
):
    monkeypatch.setattr(releases, "LONGER", longer)
    cell = cell_of("edges", "edgerr-long", EDGE_CENTRAL, 0.2)
    claimed = cells.guarantee(bench["edges"], cell)[EDGE_CENTRAL]
    assert (claimed.epsilon, claimed.status) == (pytest.approx(1.0), "in the limit")
    found = cells.compute(bench["edges"], cell).values
    assert found[cells.AGREED] == agree
    assert np.isfinite(found["accuracy"]) == agree
    rows = [dataclasses.asdict(cell) | {"metric": name, "value": x} for name, x in found.items()]
    shown = accuracy.prepared(pd.DataFrame(rows)).epsilon_proved
    assert (shown == (1.0 if agree else np.inf)).all()


def test_networks_train_on_reports_of_features_and_labels(bench, monkeypatch):
    monkeypatch.setattr(training, "fit", FIT)
    cell = cell_of("features", PRIVATE_LABELS, RECORD, 0.0)
    found = cells.compute(bench["features"], cell)
    assert 0 < found.values["accuracy"] <= 1
    assert np.isfinite(found.also["validation"])  # of noisy labels a likelihood


def test_labels_train_micro_f1(tmp_path, monkeypatch):
    made = np.random.default_rng(0)
    edges = np.unique(np.sort(made.integers(0, 40, (120, 2)), 1), axis=0)
    x = scipy.sparse.csr_array((made.random((40, 6)) < 0.4).astype(np.float32))
    y = (made.random((40, 3)) < 0.5).astype(np.int8)
    graph = graphs.from_edges(edges[edges[:, 0] < edges[:, 1]], 40)
    path = tmp_path / "labels.npz"
    datasets.save(datasets.Dataset("labels", graph, x, y, 0.0, 1.0), path)
    config = Config(
        parts=("features",), datasets=(str(path),), preset="smoke", epsilons=(1.0,), seeds=1,
        mechanisms=("lpgnn",), out=tmp_path,
    )  # fmt: skip
    planned = accuracy.plan(config)
    assert not {"label-propagation", PRIVATE_LABELS} & {cell.mechanism for cell in planned}
    (cell,) = [cell for cell in planned if cell.mechanism == "non-private"]
    assert (cell.task, cell.last_metric) == ("labels", "micro-F1")
    monkeypatch.setattr(training, "fit", contract.as_first_drawn)
    assert list(accuracy.compute(cell, planned[cell]).values) == ["micro-F1"]
