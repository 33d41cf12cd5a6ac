"""Drawn worlds: friends and features as a setting says, rows that go on, and what a page counts."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments import _common, worlds
from tests.experiments import contract


def drawn(**setting):
    world = worlds.World(users=4000, degree=20.0, **setting)
    return world, *worlds.drawn(world, 3)


def shares(graph, group):
    """The share of ends of friendships that are of one group, and what chance would give."""
    ends = group[np.asarray(graph.senders)]
    alike = (ends == group[np.asarray(graph.receivers)]).mean()
    return alike, (np.bincount(ends) / len(ends)) @ (np.bincount(ends) / len(ends))


@pytest.mark.parametrize("homophily", [0.0, 0.3, 0.8])
def test_friends_are_alike_as_often_as_is_said(homophily):
    _, graph, _, y = drawn(homophily=homophily)
    assert len(graph.senders) == 2 * 4000 * 10
    found, chance = shares(graph, y)
    # Repeats of a pair that are left out are rather of hubs; a tenth of the sixth is allowed for.
    assert abs(found - (homophily + (1 - homophily) * chance)) < 0.02


def test_degrees_spread_as_is_said():
    for spread in (0.2, 1.0):
        _, graph, _, _ = drawn(spread=spread)
        degree = np.bincount(np.asarray(graph.receivers), minlength=4000)
        poisson = math.sqrt(spread**2 + 1 / 20)
        assert abs(degree.std() / degree.mean() - poisson) < 0.15 * poisson


def test_misleading_kin_say_nothing_of_classes():
    _, graph, x, y = drawn(homophily=0.0, kin=0.8, accent=1.0, kinds=6)
    found, chance = shares(graph, y)
    assert abs(found - chance) < 0.01
    # Friends' features are alike, beyond those of other users.
    one = x - x.mean(0)
    friends = (one[np.asarray(graph.senders)] * one[np.asarray(graph.receivers)]).sum(1).mean()
    assert friends > 10 * abs((one[:-1] * one[1:]).sum(1).mean())


def test_kinds_are_of_a_class_as_often_as_is_said():
    rng = np.random.default_rng(0)
    setting = worlds.drawn_setting("kin", 1)
    assert setting.purity >= 0.5
    assert setting.homophily == 0.0
    group = rng.integers(0, 3, 300)
    picked = worlds.friends(rng, np.ones(300), group, np.full(9000, 2))
    assert (group[picked] == 2).all()
    counts = np.bincount(picked, minlength=300)[group == 2]
    assert stats.chisquare(counts).pvalue > 1e-6


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    config = worlds.Config(
        parts=("guard", "records"),
        families=("alike",),
        labels=("20",),
        seeds=1,
        out=tmp_path_factory.mktemp("out"),
    )
    return contract.run(worlds, config)


def test_rows_go_on_and_are_shown(ran):
    results = worlds.results_in(ran.out)
    contract.check(worlds, ran, [results])
    frame = results.read()
    assert set(frame.unit) == {*worlds.UNITS, "record"}
    of_records = frame[frame.unit == "record"]
    public = {worlds.FEATURES, worlds.STRUCTURE}
    methods = {worlds.PILOTED, worlds.LOCAL, worlds.UNGUARDED, worlds.NOISELESS}
    assert set(frame.mechanism) == public | methods
    assert set(of_records.mechanism) == {*methods, worlds.STRUCTURE} - {worlds.PILOTED}
    text = (ran.out / "worlds.md").read_text()
    assert "| 20 | 1 | neighbour-list | piloted counts | 1 |" in text
    assert "| 20 | 1 | record | reported classes | 1 |" in text


def test_worlds_without_signal_are_those_that_noiseless_counts_do_not_help():
    rows = []
    for seed, (ceiling, found) in enumerate([(0.705, 0.66), (0.71, 0.75)]):
        values = (
            (worlds.FEATURES, 0.0, 0.7),
            (worlds.NOISELESS, math.inf, ceiling),
            (worlds.PILOTED, 1.0, found),
        )
        rows += [
            {
                "dataset": "alike",
                "task": worlds.GUARD,
                "labels": "5",
                "unit": "neighbour-list",
                "seed": seed,
                "mechanism": name,
                "epsilon": epsilon,
                "value": value,
            }
            for name, epsilon, value in values
        ]
    found = worlds.gains(pd.DataFrame(rows), worlds.GUARD).sort_values("seed")
    assert found.telling.tolist() == [False, True]
    np.testing.assert_allclose(found.points, [-4.0, 5.0])
    report = SimpleNamespace(frame=pd.DataFrame(rows), labels=_common.row_names("worlds")[0])
    options = {"part": worlds.GUARD, "told_by": "counts", "over": "features"}
    texts, _, _ = worlds.guard_section(report, {"options": options})
    line = (
        "| nothing | 5 | 1 | neighbour-list | piloted counts | 1 | -4.00 | -4.0 | 100.0 % | 0.0 % |"
    )
    assert line in texts[-1]
