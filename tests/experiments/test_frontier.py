"""Private friendships: rows that say what they cost, gains that are paired by draw, tables a reader
can check.
"""

import math

import jax
import numpy as np
import pandas as pd
import pytest

import ldp_jax
from experiments import frontier
from experiments.frontier import features, friendships, methods
from experiments.frontier.config import Config
from experiments.frontier.methods import (
    CEILING,
    FEATURES,
    METHODS,
    PILOTED,
    PLAIN,
    PUBLISHED_METHODS,
    REHEARSAL,
)
from ldp_jax import edges, servers
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP
from ldp_jax.graph import graphs
from tests.experiments import contract
from tests.experiments.rows import made, page

FEW = (PILOTED, FEATURES, CEILING)
LIST = str(NEIGHBOUR_LIST)
PAIR = str(RELATIONSHIP)


@pytest.fixture(scope="module")
def ran(tiny):
    config = Config(mechanisms=FEW, labels=("half",), epsilons=(2.0,), **tiny)
    return contract.run(frontier, config)


def test_each_row_is_there_once_under_what_it_costs(ran):
    rows = friendships.results_in(ran.out).read()
    assert len(rows) == len(FEW) + 1  # piloted counts per list and per relationship
    private = rows[~rows.mechanism.isin(methods.WITHOUT_EPSILON)]
    assert set(private.epsilon) == {2.0}
    assert set(private.unit[private.mechanism == PILOTED]) == {LIST, PAIR}
    assert set(rows.epsilon[rows.mechanism == CEILING]) == {math.inf}
    assert set(rows.epsilon[rows.mechanism == FEATURES]) == {0.0}
    assert rows.value.between(0, 1).all()
    told = rows[rows.mechanism == PILOTED]
    assert told.strength.between(0, 1).all()
    assert told[list(friendships.WHO)].notna().all(axis=None)
    assert told.groups.notna().all()
    manifest = friendships.results_in(ran.out).describe()
    assert any(
        "epsilon 2 per relationship" in promise for promise in manifest["guarantees"].values()
    )


def test_it_keeps_the_contract(ran):
    contract.check(frontier, ran, [friendships.results_in(ran.out)])


def lists(rows, unit=LIST):
    return made(rows, labels="half", unit=unit, metric="accuracy")


def lines(frame):
    """The lines of the page by method and unit."""
    found = page("frontier", "frontier_edges", frame).lines
    return {(line.columns["mechanism"], line.columns["unit"]): line for line in found}


def test_gains_are_paired_by_draw_and_the_best_published_is_the_best_by_mean():
    rough, steady = PUBLISHED_METHODS[1], PUBLISHED_METHODS[2]
    rows = [
        (FEATURES, 0.0, {0: 50, 1: 60, 2: 70}),
        (PILOTED, 1.0, {1: 70, 2: 85}),  # draw 0 is missing: pairs, not positions
        (PLAIN, 1.0, {0: 55, 1: 65, 2: 75}),
        (rough, 1.0, {0: 0, 1: 99, 2: 0}),
        (steady, 1.0, {0: 52, 1: 62, 2: 72}),
    ]
    found = lines(pd.concat([lists(rows), lists([(PILOTED, 2.0, {0: 60, 1: 70, 2: 80})], PAIR)]))
    mine = found[PILOTED, LIST].measures
    assert mine["features"].round(9).to_dict() == {1: 10, 2: 15}
    assert mine["published"].round(9).to_dict() == {1: 8, 2: 13}
    # Per relationship at 2 it is held against lists at 1, whose two ends cost 2.
    per_pair = found[PILOTED, PAIR].measures
    assert per_pair["plain"].round(9).to_dict() == {0: 5, 1: 5, 2: 5}
    assert len(per_pair["published"]) == 3
    # Where none was run, features are not called the best published row.
    alone = lines(lists([(FEATURES, 0.0, [50]), (PILOTED, 1.0, [70])]))
    assert "published" not in alone[PILOTED, LIST].measures


def test_the_ceiling_is_the_same_classifier_on_counts_without_noise(monkeypatch):
    graph = ldp_jax.from_edges(np.array([[0, 1], [1, 2], [2, 3]]), 4)
    asked = methods.Asked(graph, None, np.array([0, 1, -1, -1]), 2, None)
    seen = []
    answer = servers.Users.answer

    def watched(users, key, question):
        seen.append((question, answer(users, key, question)))
        raise StopIteration

    monkeypatch.setattr(servers.Users, "answer", watched)
    with pytest.raises(StopIteration):
        METHODS[CEILING](jax.random.key(0), asked, 1.0, "list")
    ((question, answers),) = seen
    exact = edges.count_neighbours(edges.Population.of(graph), question.groups, question.num_groups)
    np.testing.assert_array_equal(answers.values[answers.reported], exact[answers.reported])
    assert CEILING in methods.WITHOUT_EPSILON
    assert list(METHODS)[-2:] == [CEILING, REHEARSAL]  # a place is a part of the keys of rows


def test_labels_and_panels_are_of_every_class_and_no_more_than_asked():
    y = np.repeat(np.arange(3), (40, 9, 2))
    for drawn, setting, sizes in (
        (friendships.public_labels, "half", [20, 5, 1]),
        (friendships.public_labels, "5", [5, 5, 1]),
        (features.panel_labels, "0.1", [4, 1, 1]),
        (features.panel_labels, "5", [5, 5, 1]),
    ):
        known = drawn(jax.random.key(0), y, setting)
        np.testing.assert_array_equal(np.bincount(known[known >= 0]), sizes)
        assert (known[known >= 0] == y[known >= 0]).all()


def test_who_gains_is_counted_by_degree_and_by_class():
    """A path of six: ends have one friend, and the last user's class is public."""
    graph = graphs.from_edges([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]], 6)
    y = np.array([0, 0, 1, 1, 1, -1])
    public = np.eye(2)[[1, 0, 0, 0, 1, 0]]
    told = np.eye(2)[[0, 0, 0, 1, 0, 0]]  # right of 0 and 3 in place of 4
    found = friendships.who_gains(told, public, y, graph)
    expected = {"gain_fewest_friends": 20.0, "gain_most_friends": 0.0, "gain_least_class": 0.0}
    assert found == expected
