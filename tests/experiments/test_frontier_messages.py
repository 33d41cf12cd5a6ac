"""Messages in place of a class: made of public facts, read by the panel's records."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.frontier import features_methods, messages
from experiments.frontier.features_methods import LOCAL, METHODS
from experiments.frontier.messages import density_evidence, principal_axes, score_directions
from ldp_jax.features import PrivUnitG
from ldp_jax.pipeline.local_prediction import local_prediction, panel_facts
from ldp_jax.servers.parts.confusion import SMOOTHINGS
from ldp_jax.servers.parts.rows import feature_rows
from tests.servers.planted import blocks

N, PANEL = 600, 150  # with the folds below, the facts of tests/pipeline/test_from_reports.py, whose programs serve


@pytest.fixture(scope="module")
def data():
    """Weak structure, clear records."""
    graph, y, x = blocks(n=N, degree=5.0, homophily=0.35, clarity=3.0)
    labels = np.where(np.arange(N) < PANEL, y, -1)
    return y, x, panel_facts(jax.random.key(0), graph, feature_rows(x[:PANEL]), labels, num_classes=3, num_folds=4)


def test_the_steps_with_a_class_are_the_one_call(data):
    """Rows by steps have the noise and the guarantee of the row of the library's call."""
    y, x, facts = data
    graph = blocks(n=N, degree=5.0, homophily=0.35, clarity=3.0)[0]
    asked = features_methods.Asked("g", type("Data", (), {"graph": graph}), feature_rows(x), facts.labels, facts)
    whole = METHODS[LOCAL].run(jax.random.key(4), asked, 2.0)
    steps = features_methods._by_steps(jax.random.key(4), asked, 2.0)
    np.testing.assert_array_equal(whole.scores, steps.scores)
    assert (str(whole.guarantee), whole.also) == (str(steps.guarantee), steps.also)


@pytest.mark.parametrize("name", ["projected_record", "any_class", "class_scores", "sampled_numbers"])
def test_a_message_says_something_and_is_not_believed_of_somebody_else(data, name):
    y, x, facts = data
    order = np.arange(N)
    order[PANEL:] = np.random.default_rng(0).permutation(order[PANEL:])
    right = []
    for records in (x, x[order]):
        sent = getattr(messages, name)(6.0, facts, feature_rows(records))
        assert 5.98 < sent.guarantee.epsilon <= 6.0
        found = local_prediction(jax.random.key(1), sent.collect, facts)
        right.append((found.classes == y)[PANEL:].mean())
    alone = (facts.structure.classes == y)[PANEL:].mean()
    assert right[0] > alone + 0.05
    assert right[1] > alone - 0.015


@pytest.mark.parametrize("name", ["projected_record", "sampled_numbers"])
def test_what_devices_send_is_settled_by_the_panel_alone(data, name, monkeypatch):
    """Mechanism, bounds and axes are made of nothing that depends on a private record."""
    _, x, facts = data
    made = []
    monkeypatch.setattr(messages, "_vector_reports", lambda mechanism, *_: made.append(mechanism))
    private = np.random.default_rng(6).normal(size=x.shape) * [9, 1, 1]
    for records in (x, np.where(np.arange(N)[:, None] < PANEL, x, private)):
        getattr(messages, name)(2.0, facts, feature_rows(records))
    first, second = (jax.tree.leaves(mechanism) for mechanism in made)
    assert len(first) == len(second) > 0
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, two)


def test_vectors_that_devices_report_keep_what_tells_classes_apart():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(20, 5)).astype(np.float32)
    centred = scores - scores.mean(1, keepdims=True)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    made = np.asarray(score_directions(scores))
    assert made.shape == (20, 4)
    np.testing.assert_allclose(made @ made.T, centred @ centred.T, atol=1e-5)
    rows = feature_rows(rng.random((30, 8)) * np.arange(1, 9))
    axes = principal_axes(rows, 3)
    x = np.asarray(rows.times(jnp.eye(8)), np.float64)
    np.testing.assert_allclose(axes @ x.mean(0), 0.0, atol=1e-5)
    sent = x @ np.asarray(axes).T
    assert np.median(np.linalg.norm(sent, axis=1)) == pytest.approx(1.0, rel=1e-5)
    gram = np.asarray(axes @ axes.T)
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-4 * gram[0, 0])
    assert np.all(np.diff((sent**2).sum(0)) < 0)
    with pytest.raises(ValueError, match="at least two directions"):
        principal_axes(feature_rows(np.ones((5, 4))), 3)


def test_a_vector_is_read_by_the_records_of_the_panel_without_the_reader_s_own():
    rng = np.random.default_rng(2)
    law = PrivUnitG(3.0, dim=3)
    records = rng.normal(size=(9, 3))
    records = (records / np.linalg.norm(records, axis=1, keepdims=True)).astype(np.float32)
    labels = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2])
    own = np.array([-1, 0, 3, 8])
    reports = jnp.asarray(rng.normal(size=(4, 3)), jnp.float32)
    posterior = jnp.asarray(rng.dirichlet(np.ones(3), 4), jnp.float32)
    counted = own < 0
    found, smoothing = density_evidence(law, reports, records, labels, own, posterior, counted)
    density = np.exp([[float(law.log_density(y, x)) for x in records] for y in reports])
    made = {}
    for s in SMOOTHINGS:
        evidence = np.zeros((4, 3))
        for i in range(4):
            others = np.flatnonzero(np.arange(9) != own[i])
            anybody = density[i, others].mean()
            for y in range(3):
                same = others[labels[others] == y]
                evidence[i, y] = (density[i, same].sum() + s * anybody) / (len(same) + s)
        made[s] = evidence
    assert smoothing == max(made, key=lambda s: np.log((np.asarray(posterior) * made[s]).sum(1)[counted]).sum())
    expected = np.log(made[smoothing] / made[smoothing][:, :1])
    np.testing.assert_allclose(found - found[:, :1], expected, atol=1e-4)
