"""Joint privacy: rows that differ in what their names say, and a report that says what a total
buys.

Rows are computed beside those of part features, in ``test_frontier_features.py``, which compile the
same programs.
"""

from types import SimpleNamespace

import jax
import numpy as np
import pandas as pd
import pytest

from experiments.frontier import joint_methods as joint
from experiments.frontier.features_methods import Asked
from ldp_jax.graph import graphs
from ldp_jax.servers import JointPrivacy, Rehearsal, StatedFriends
from ldp_jax.servers.parts.rows import feature_rows
from tests.experiments.rows import of_panel, page


def test_what_is_stated_by_default_is_of_no_graph_and_else_wrong_by_a_factor():
    """A triangle and a pair of its own class each: mean degree 8 / 5, homophily 1."""
    nothing_private = SimpleNamespace(num_nodes=300)
    assert joint.publicly_stated(nothing_private, None) == joint.GUESS == StatedFriends(10.0, 0.6)
    assert joint.publicly_stated(SimpleNamespace(num_nodes=5), None).mean_degree == 4.0
    graph = graphs.from_edges([[0, 1], [1, 2], [0, 2], [3, 4]], 5)
    data = SimpleNamespace(num_nodes=5, graph=graph, y=np.array([0, 0, 0, 1, 1]))
    assert joint.publicly_stated(data, 1.5) == StatedFriends(pytest.approx(2.4), 0.99)
    assert joint.publicly_stated(data, 1 / 1.5) == StatedFriends(
        pytest.approx(1.6 / 1.5), pytest.approx(1 / 1.5)
    )


def test_what_is_regained_is_of_the_draws_that_all_rows_have():
    rows = {
        (joint.NOTHING, 0.0): (20, 40),
        (joint.JOINT, 4.0): (30,),
        (joint.TRUE_ALL, np.inf): (60, 80),
    }
    frame = pd.concat(of_panel([(*name, dict(enumerate(values)))]) for name, values in rows.items())
    told = frame.assign(record=4.0, list=0.0, foreseen=0.3)
    found = page("frontier", "frontier_joint", told)
    asked = {"where": "joint", "measure": "regained"}
    assert found.ask(asked).mean == pytest.approx(25.0)
    assert found.ask(asked | {"where": ["joint", {"epsilon": 2.0}]}) is None


def test_no_mechanism_on_a_class_beats_the_ceiling_and_randomised_response_reaches_it():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(20)).reshape(4, 5)  # of four classes found and five true ones
    assert joint.best_report(shares, 1e-9) == pytest.approx(shares.sum(0).max())
    assert joint.best_report(shares, 20.0) == pytest.approx(shares.max(1).sum(), abs=1e-6)
    assert joint.best_report(np.eye(5) / 5, 1.5) == pytest.approx(np.exp(1.5) / (np.exp(1.5) + 4))
    most = joint.best_report(shares, 1.5)
    for _ in range(
        200
    ):  # of a random least mass, as much as epsilon allows where guesses are right
        least = rng.dirichlet(np.ones(5)) / rng.uniform(1.0, np.exp(1.5))
        law = np.tile(least, (4, 1))
        for row, gains in zip(law, shares, strict=True):
            for guess in np.argsort(-gains):
                row[guess] += min((np.exp(1.5) - 1) * least[guess], 1.0 - row.sum())
        if np.allclose(law.sum(1), 1.0):
            assert (shares * law).sum() <= most + 1e-9


def test_a_placebo_deals_out_records_and_lists_among_private_users(monkeypatch):
    asked = []
    monkeypatch.setattr(joint, "predict_jointly", lambda *given, **more: asked.append(given))
    told = Rehearsal(
        (4.0,), np.ones((2, 1)), np.ones(2), "both", 1, 4, splits=(JointPrivacy(3.0, 1.0),)
    )
    monkeypatch.setattr(joint, "rehearsed", lambda *_: told)
    graph = graphs.from_edges([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]], 6)
    rows = feature_rows(np.diag(np.arange(1.0, 7.0)) + np.eye(6, k=-1))
    known = np.array([0, 1, -1, -1, -1, -1])
    draw = Asked(
        "g", type("Data", (), {"graph": graph}), rows, known, type("Facts", (), {"num_classes": 2})
    )
    seen = set()
    for seed in range(8):
        with pytest.raises(AttributeError):  # nothing was found
            joint.METHODS[joint.PLACEBO].run(jax.random.key(seed), draw, 4.0)
        _, lists, records, *_ = asked[-1]
        degree = np.bincount(np.asarray(lists.senders), minlength=6)
        assert sorted(degree) == [1, 1, 2, 2, 2, 2]
        assert degree[0] == 1  # the panel's first member still has one friend, the second
        assert {(int(a), int(b)) for a, b in zip(lists.senders, lists.receivers, strict=True)} >= {
            (0, 1),
            (1, 0),
        }
        held = records.dense().argmax(1)
        assert held[:2].tolist() == [0, 1]
        assert sorted(held) == list(range(6))
        np.testing.assert_array_equal(records.dense(), rows.dense()[held])
        seen.add((*degree, *held))
    assert len(seen) > 4
