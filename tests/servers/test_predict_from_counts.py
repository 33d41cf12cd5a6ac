"""Classes from private lists in one call: what it says, what it spends, and what it refuses
before.
"""

import warnings

import jax
import numpy as np
import pytest

from ldp_jax import edges
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP, Budget
from ldp_jax.accounting.ledger import BudgetExceededError, Ledger
from ldp_jax.graph import graphs
from ldp_jax.servers import Users, predict_from_counts
from ldp_jax.servers.from_counts import silent_users
from ldp_jax.servers.parts.rows import feature_rows
from tests.servers.planted import blocks, right, some_labels

FOLDS = 4


@pytest.fixture(scope="module")
def data():
    graph, y, x = blocks(n=600, clarity=0.6)
    return graph, y, x, some_labels(y, 0.25)


@pytest.mark.parametrize(("unit", "per_edge"), [("list", 2.0), ("relationship", 1.0)])
def test_lists_say_what_features_do_not_and_the_ledger_takes_what_it_cost(
    data, monkeypatch, unit, per_edge
):
    graph, y, x, labels = data
    asked = []
    answer = Users.answer

    def watched(users, key, question):
        asked.append(question)
        return answer(users, key, question)

    monkeypatch.setattr(Users, "answer", watched)
    told = []
    given = {"unit": unit, "num_folds": FOLDS, "progress": lambda *now: told.append(now)}
    found = predict_from_counts(jax.random.key(0), graph, x, labels, 1.0, **given)
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert told[-1] == ("done", 1.0)
    assert right(found.log_posterior, y, labels < 0) > right(found.found.log_q, y, labels < 0) + 0.1
    # Exactly what was asked: no user twice, the silent never, one rule of ownership in both rounds.
    first, second = asked
    np.testing.assert_array_equal(found.round, first.asked + 2 * second.asked)
    assert (found.round == 0).any() == (unit == "relationship")
    assert {question.epsilon for question in asked} == {1.0}
    if unit == "relationship":
        for mine, other in zip(first.owners, second.owners, strict=True):
            np.testing.assert_array_equal(mine, other)
    # Each edge is counted as often as its guarantee says, by enumeration of both rounds.
    users = edges.Population.of(graph)
    counted = np.zeros((600, 600), int)
    for question in asked:
        mine = question.asked[users.receivers]
        if question.owners is not None:
            mine &= question.owners.owns(users.receivers, users.senders)
        np.add.at(counted, (users.receivers[mine], users.senders[mine]), 1)
    times = counted + counted.T
    assert counted.max() == 1
    assert times.max() == per_edge
    assert found.guarantee[NEIGHBOUR_LIST].epsilon <= 1.0
    assert found.guarantee[RELATIONSHIP].epsilon == pytest.approx(per_edge)
    ledger = Ledger([Budget(1.0, unit=NEIGHBOUR_LIST), Budget(per_edge, unit=RELATIONSHIP)])
    spent = ledger.spend("counts", found)
    assert spent.spent(RELATIONSHIP).epsilon == pytest.approx(per_edge)
    with pytest.raises(BudgetExceededError):
        spent.spend("counts again", found)


def test_every_reporter_owns_their_pairs_with_silent_users(data):
    _, _, _, labels = data
    silent = silent_users(jax.random.key(1), labels)
    share = silent.sum() / (labels >= 0).sum()
    assert 0.45 < share < 0.55
    assert not (silent & (labels < 0)).any()
    few = np.array([0, 0, 0, 1, 1, 2, -1])
    np.testing.assert_array_equal(
        np.bincount(few[(few >= 0) & ~silent_users(jax.random.key(0), few)]), [2, 2, 1]
    )
    owners = edges.ownership(np.where(labels >= 0, 1.0, 0.4), silent)
    reporter, quiet = np.flatnonzero(~silent)[:50], np.flatnonzero(silent)[:50]
    assert owners.owns(*map(np.ravel, np.meshgrid(reporter, quiet))).all()


@pytest.mark.parametrize("best", ["rows", "columns", "none"])
def test_held_out_labels_choose_how_features_are_scaled(data, best):
    """Of columns in other units the largest hides the others; of records of other lengths the
    longest do.
    """
    graph, y, _, labels = data
    rng = np.random.default_rng(0)
    x = np.eye(3)[y] + 0.35 * rng.normal(size=(600, 3))
    if best == "rows":
        x = np.abs(x) * np.exp(rng.normal(size=(600, 1), scale=3.0))
    elif best == "columns":
        x = np.column_stack([x, 50.0 + rng.normal(size=600)]) * [1.0, 1.0, 1.0, 1e6]
    else:  # one column tells, and the length of a record does
        x = np.column_stack([y + 0.1 * rng.normal(size=600), 3e-2 * rng.normal(size=(600, 40))])
    apart = best == "columns"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = predict_from_counts(jax.random.key(4), graph, x, labels, 1.0, num_folds=FOLDS)
    assert [str(one.message).startswith("features differ in size by") for one in said] == [
        True
    ] * apart
    assert found.scaling == best
    assert f"features scaled by {best!r}" in repr(found)
    assert right(found.found.log_q, y, labels < 0) > 0.85
    if best != "rows":
        given = predict_from_counts(
            jax.random.key(4), graph, feature_rows(x), labels, 1.0, num_folds=FOLDS
        )
        assert given.scaling is None
        assert (
            right(given.found.log_q, y, labels < 0) < right(found.found.log_q, y, labels < 0) - 0.2
        )


@pytest.mark.usefixtures("untyped")
def test_what_is_wrong_is_refused_before_anybody_reports(data, monkeypatch):
    graph, _, x, labels = data
    refuse = lambda *_, **__: pytest.fail("asked, although the arguments are wrong")
    monkeypatch.setattr(Users, "answer", refuse)
    for changes, message in (
        ({"epsilon": 41.0}, "epsilon must be"),
        ({"unit": "edge"}, "unit must be"),
        ({"labels": np.full(600, "a")}, "labels must be integers.* got <U1"),
        ({"labels": np.full(600, -1)}, "labels must name at least two classes, got 0"),
        ({"lists": graphs.from_edges([[0, 1]], 3)}, r"labels must be int \[3\]"),
        ({"features": np.where(x > 3, np.nan, x) + np.nan}, "features must be finite"),
        ({"most": 0}, "most must be"),
        ({"silent": labels >= 0, "unit": "relationship"}, "silent must leave a labelled user"),
    ):
        given = {"lists": graph, "features": x, "labels": labels, "epsilon": 1.0, **changes}
        with pytest.raises(ValueError, match=message):
            predict_from_counts(jax.random.key(0), **given)
