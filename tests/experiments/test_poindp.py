"""PoinDP: which rows there are, what is proved of each, and that twins know no private record."""

import dataclasses
import math
from functools import cache, partial
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from experiments import poindp
from experiments._registry import runs
from experiments._runner import REFERENCE
from experiments.poindp import (
    accuracy,
    cells,
    gaps,
    membership,
    networks,
    noise,
    releases,
    settings,
)
from experiments.poindp.settings import (
    AS_PUBLISHED,
    FEATURES,
    NON_PRIVATE,
    PUBLIC,
    SOUND,
    STRUCTURE,
    Config,
)
from ldp_jax.accounting.guarantee import RECORD
from ldp_jax.attacks import Shadows
from ldp_jax.learning.models import NodeInputs
from tests.experiments import contract

FEW = ("published:vanpd", "hyperbolic", PUBLIC)
REAL, DRAWN = cells.fit, noise.NODES
QUICK = ("LiRA online", "RMIA offline")


def as_first_drawn(bench, model, context, chosen="", *, rows=False):
    """A network as it was drawn, in place of training, of which one test has its own."""
    given = context[np.asarray(bench.parts[0].index)] if rows else context
    variables = contract.first(jax.random.key(1), model, given)
    return cells.Score(dict.fromkeys(cells.METRICS, 0.5), float(len(chosen)), chosen, variables)


def as_if_asked(bench, row, protocol):
    """Answers that have nothing to do with who was trained on."""
    rng = np.random.default_rng(0)
    n = bench.world.data.num_nodes
    outputs = rng.normal(size=(row.models, n, 3)).astype(np.float32)
    return Shadows(outputs, rng.random((row.models, n)) < row.share, np.arange(n), ())


@pytest.fixture(scope="module")
def quick():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "fit", as_first_drawn)
        patch.setattr(membership, "shadows", as_if_asked)
        patch.setattr(noise, "NODES", 20)
        yield


@pytest.fixture(scope="module")
def ran(tiny, quick):
    config = Config(
        parts=("table1", "noise", "membership"),
        mechanisms=FEW,
        protocols=("TSTF",),
        attacks=QUICK,
        splits=("random",),
        targets=3,
        preset="smoke",
        **tiny,
    )
    return contract.run(poindp, config)


@pytest.fixture(scope="module")
def bench(ran):
    return cells.prepare(accuracy.resolved(ran, ran.datasets[0]), "random", 0)


def test_rows_stand_beside_their_twins_and_say_what_is_proved(ran):
    rows = accuracy.results_in(ran.out).read()
    assert set(rows.mechanism) == {
        *FEW,
        *(STRUCTURE + name for name in FEW[:2]),
        FEATURES + "hyperbolic",
    }
    proved = rows.groupby("mechanism").epsilon_proved.max()
    assert proved["published:vanpd"] == math.inf
    assert 0.999 < proved["hyperbolic"] <= 1.0
    assert (rows[rows.mechanism == "hyperbolic"].delta == 1e-5).all()
    assert set(rows.metric) == set(cells.METRICS)
    assert rows.value.between(0, 1).all()
    said = accuracy.results_in(ran.out).describe()["guarantees"]
    assert said["published:vanpd, epsilon 1"].startswith("none proved")
    assert "NOT protected: labels, edges" in said["hyperbolic, epsilon 1"]


def test_it_keeps_the_contract(ran):
    contract.check(
        poindp, ran, [part.results_in(ran.out) for part in (accuracy, membership, noise)]
    )
    sizes = noise.results_in(ran.out).read()
    assert (sizes[sizes.metric == "noise"].value > 0).all()


def test_every_row_of_the_tables_is_planned_once_with_what_holds_of_it(ran):
    config = dataclasses.replace(ran, parts=("table1", "table2", "figure3"), mechanisms=(), seeds=2)
    planned = list(accuracy.plan(config))
    assert len({(cell.mechanism, cell.epsilon, cell.split, cell.seed) for cell in planned}) == len(
        planned
    )
    first = {
        cell.mechanism: cell
        for cell in planned
        if cell.epsilon in (1.0, math.inf) and cell.split == "random"
    }
    private = (*AS_PUBLISHED, *SOUND)
    assert {*NON_PRIVATE, *private, *(STRUCTURE + name for name in private)} <= set(first)
    for name in (*NON_PRIVATE, *AS_PUBLISHED):
        assert first[name].epsilon_proved == (2.0 if name == "published:lap" else math.inf)
    for name in SOUND:
        assert 0.999 < first[name].epsilon_proved <= 1.0
        assert first[name].delta == (0.0 if name == "laplace" else 1e-5)
    ablated = {
        cell.mechanism for cell in planned if cell.epsilon == 0.01 and cell.split == "random"
    }
    assert {"printed:poindp without allocation", *settings.SHARES} <= ablated
    assert {cell.split for cell in planned} == {
        "random",
        "inner",
        "outer",
    }  # the file has no public split


def with_other_records(bench):
    """The same users with other records."""
    world = dataclasses.replace(bench.world, unit=np.roll(bench.world.unit, 1, 0) * 0.5)
    return dataclasses.replace(bench, world=world)


ATTACKED = ("gcn", "published:lap", "published:poindp", "hyperbolic")


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        *((cells.noisy_rows, name) for name in SOUND),
        *((membership.records, name) for name in ATTACKED),
    ],
)
def test_twins_know_no_private_record_and_rows_do(bench, rows, name):
    one, other = (
        [np.asarray(rows(each, prefix + name, 0.2)) for prefix in (STRUCTURE, "")]
        for each in (bench, with_other_records(bench))
    )
    np.testing.assert_array_equal(one[0], other[0])
    if name != "laplace":  # which takes rows of any length alike
        assert (one[1] != other[1]).any()
    if rows is membership.records:  # the noise of two of them is on records
        assert (one[0].std() > 0) == (name in ("published:lap", "hyperbolic"))


def test_a_change_is_what_its_name_says(bench):
    world = bench.world
    inside = gaps.largest_component(np.array([[0, 1], [1, 2], [3, 4]]), 6)
    assert inside.tolist() == [True, True, True, False, False, False]
    rows = {one: np.asarray(gaps.records(bench, one, lap=False)) for one in gaps.VARIANTS}
    np.testing.assert_array_equal(rows[gaps.RAW], world.data.x.toarray())
    filled = world.unit.max(1) > 0
    np.testing.assert_allclose(rows[gaps.SUM_TO_1][filled].sum(1), 1.0, rtol=1e-6)
    _, validation, test = gaps.altered(bench, gaps.ON_TEST).parts
    assert validation is test
    assert gaps.varied(world.settings, gaps.WIDE).hidden == 64
    assert gaps.SILENT not in gaps.variants("gcn")


def test_users_of_a_lower_level_have_more_noise(bench):
    world = bench.world
    level = releases.levels(world.places)
    assert np.bincount(level).tolist() == [40, 40, 40]
    radius = np.linalg.norm(world.places, axis=1)
    assert radius[level == 0].max() <= radius[level == 2].min()
    records = np.zeros((len(level), world.settings.dim), np.float32)
    drawn = np.asarray(
        releases.reports(jax.random.key(0), "levels", 1.0, records, world.places, world.settings)
    )
    made = releases.mechanism("levels", 1.0, world.settings)
    # 640 draws a level: a standard deviation that is wrong by 15 % is 5 of its standard errors
    # away.
    spread = [drawn[level == k].std() for k in range(3)]
    np.testing.assert_allclose(spread, np.asarray(made.sigma), rtol=0.14)
    assert made.sigma[0] < made.sigma[1] < made.sigma[2]
    assert 0.999 < made.guarantee().epsilon <= 1.0


def test_laplace_rows_differ_by_at_most_the_sensitivity_that_their_guarantee_takes(bench):
    rows = cells.to_one(bench.world.unit)
    far = np.abs(rows[:, None] - rows[None]).sum(-1).max()
    assert far <= 2 * (1 + 1e-6)
    for name, epsilon, proved in (("laplace", 0.5, 0.5), ("published:lap", 0.5, 1.0)):
        assert releases.guarantee(name, epsilon, bench.world.settings)[RECORD].epsilon == proved
    scale = [float(np.abs(np.asarray(cells.noise_of_lap(bench, 0.5)) - rows).mean())]
    scale.append(float(np.abs(np.asarray(cells.noisy_rows(bench, "laplace", 0.5)) - rows).mean()))
    np.testing.assert_allclose(scale, [2.0, 4.0], rtol=0.14)  # of 1440 draws, 5 standard errors


def test_a_network_with_noise_trains_and_answers_the_same_twice(bench):
    model, kind = networks.network("published:vanpd", bench.world.settings, 3)
    world = bench.world
    given = networks.inputs_of(kind, world.op, world.unit, world.known, 1.0, world.settings)
    score = REAL(bench, model, given)
    assert all(0 <= value <= 1 for value in score.values.values())
    judged = cells._judged(
        score.variables, given, bench.parts[2], model=model, objective=cells._ON_GRAPH
    )
    np.testing.assert_array_equal(judged, list(score.values.values()))


@pytest.mark.parametrize("name", ["gcn", "gcn+H", "published:vanpd", "published:poindp"])
def test_attacked_networks_take_places_and_sensitivities_as_columns(bench, name):
    world = bench.world
    network, kind = networks.network(name, world.settings, 3)
    columns = networks.of_columns(network, kind, 0.2, world.settings)
    both = NodeInputs(world.segments, np.concatenate([world.unit, world.known], 1))
    own = networks.inputs_of(kind, world.segments, world.unit, world.known, 0.2, world.settings)

    def answers(model, given):
        variables = model.init(jax.random.key(1), given)
        return variables, model.apply(variables, given, key=None, train=False)[0]

    one, other = (
        jax.eval_shape(partial(answers, *each)) for each in ((columns, both), (network, own))
    )
    assert jax.tree.map(np.shape, one) == jax.tree.map(np.shape, other)


PLANETOID = ("cora", "citeseer", "pubmed")
NODES = {
    "cora": 2708,
    "citeseer": 3327,
    "pubmed": 19717,
    "amazon_photo": 7650,
    "amazon_computers": 13752,
}


@pytest.mark.parametrize("part", [accuracy, noise, membership])
def test_the_committed_rows_are_those_of_the_committed_runs(part, monkeypatch):
    """With the settings of the manifest."""
    results = part.results_in(REFERENCE)
    known = {one["dataset"]: one["data"] for one in results.describe().get("configs", {}).values()}
    some_data = lambda name: SimpleNamespace(
        name=name, num_nodes=NODES[name], node_graph=None, num_features=1, y=np.zeros(1),
        extras={"split": None} if name in PLANETOID else {},
    )  # fmt: skip
    monkeypatch.setattr(cells, "load", some_data)
    monkeypatch.setattr(releases, "guarantee", cache(releases.guarantee))  # of all seeds
    monkeypatch.setattr(noise, "NODES", DRAWN)
    monkeypatch.setattr(accuracy, "fingerprint", lambda data, _: known[data.name])
    tables = {"table1", "table2", "figure3"}
    asked = [
        config
        for config in runs("poindp", "committed", REFERENCE)
        if (
            tables & set(config.parts)
            if part is accuracy
            else part.NAME.split("_")[1] in config.parts
        )
    ]
    contract.is_committed(results, map(part.plan, asked))
