"""Advice before anything is collected: its verdicts, and foretold fidelity against measured."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ldp_jax as ldp
from ldp_jax.features import HDS, Duchi, LaplaceVector, PrivUnit
from ldp_jax.graph.propagation import operator, ppr_rows
from ldp_jax.learning.metrics import fidelity
from ldp_jax.pipeline import fidelity_forecast, gathered, likeness, non_private_embedding, private_embedding
from ldp_jax.pipeline.device_classifier import DeviceClassifier
from ldp_jax.pipeline.local_prediction import PanelFacts
from ldp_jax.pipeline.structure import StructurePosterior
from tests.pipeline.planted import blocks

pytestmark = pytest.mark.usefixtures("quickly_compiled")

N, DIM = 500, 24


@pytest.fixture(scope="module")
def graph():
    made, y, _ = blocks(n=N, degree=8.0, homophily=0.9)
    return operator(made), y


def facts_of(op, y, panel, strength):
    """Facts by hand: structure that half knows, and a classifier that knows as much as ``strength`` says."""
    rng = np.random.default_rng(0)
    labels = np.where(np.arange(N) < panel, y, -1).astype(np.int32)

    def scores(of, much):
        made = rng.normal(0, 1, (len(of), 3)) + much * np.eye(3)[of]
        return jax.nn.log_softmax(jnp.asarray(made, jnp.float32))

    structure = StructurePosterior(scores(y, 1.0), "stack", {}, jnp.zeros((N, 3, 1)), ("one",), jnp.ones(1))
    classifier = DeviceClassifier(jnp.zeros((DIM, 3)), jnp.zeros(3), scores(y[:panel], strength), 0.4)
    return PanelFacts(labels, structure, classifier, jnp.zeros(N, jnp.int32), 3, op)


def test_it_collects_where_the_panel_shows_a_gain_and_says_what_is_needed(graph):
    good = ldp.advise(facts_of(*graph, 200, 3.0), 2.0, epsilons=(0.01, 0.1, 2.0))
    assert good.collect
    assert good.t == good.gains[2.0].t > 2
    assert good.gains[2.0].guard(good.users) > 2 > good.gains[0.01].guard(good.users)
    assert good.needed == min(e for e, gain in good.gains.items() if gain.t > 2 and gain.guard(good.users) > 2)
    assert good.users == N - 200
    assert 0 < good.worth_in_labels < N - 200
    text = str(good)
    assert text.startswith("collect: t = ")
    assert f"{good.gains[2.0].log_loss:+.4f}" in text
    early = ldp.advise(facts_of(*graph, 200, 3.0), 0.01, epsilons=(2.0,))
    assert not early.collect
    assert "the guard would not believe them" in early.reason
    assert "epsilon 2 would do" in early.reason
    plain = ldp.advise(facts_of(*graph, 200, 3.0), 2.0, epsilons=(), message="class-plain")
    assert plain.collect
    assert plain.gains[2.0] != good.gains[2.0]


def test_it_refuses_without_a_gain_without_labels_and_without_a_panel(graph):
    useless = ldp.advise(facts_of(*graph, 200, 0.0), 4.0, epsilons=(8.0,))
    assert not useless.collect
    assert useless.needed is None
    assert "does not exceed 2: " in useless.reason
    assert "nor does epsilon 8 do" in useless.reason
    small = ldp.advise(facts_of(*graph, 99, 3.0), 4.0, epsilons=())
    assert small.t > 2
    assert not small.collect
    assert small.needed is None
    assert "a panel of 99 labels cannot tell" in str(small)
    nobody = ldp.advise(graph[0], 2.0, dim=DIM)
    assert not nobody.collect
    assert (nobody.t, nobody.needed, nobody.gains, nobody.worth_in_labels) == (0.0, None, {}, 0.0)
    assert "without a panel" in str(nobody)
    values = [found.correlation for found in nobody.fidelity.values()]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"epsilon": 21.0}, "epsilon must be"),
        ({"epsilons": (1.0, -1.0)}, "epsilons must be"),
        ({"dim": None}, "dim must be given"),
        ({"alpha": 0.0}, "alpha must be"),
    ],
)
def test_what_is_no_question_is_refused(graph, changes, message):
    with pytest.raises(ValueError, match=message):
        ldp.advise(graph[0], **{"epsilon": 1.0, "dim": DIM, **changes})


@pytest.mark.usefixtures("untyped")
def test_another_message_or_dimension_is_refused(graph):
    facts = facts_of(*graph, 120, 1.0)
    with pytest.raises(ValueError, match="message must be one of class, class-plain"):
        ldp.advise(facts, 1.0, message="scores")
    with pytest.raises(ValueError, match="dim must be the panel's 24"):
        ldp.advise(facts, 1.0, dim=3)
    with pytest.raises(ValueError, match="mechanism must be on vectors"):
        fidelity_forecast(graph[0], Duchi(1.0))
    with pytest.raises(ValueError, match=r"records must be \[m, 24\]"):
        fidelity_forecast(graph[0], LaplaceVector(1.0, DIM), np.zeros((5, 3)))
    with pytest.raises(ValueError, match=r"records must be \[3, d\]"):
        likeness(graph[0], np.arange(3), np.zeros((2, 4)))
    for nodes in ([0, 0], [0, N], [-1, 0]):
        with pytest.raises(ValueError, match="nodes must be different ones"):
            likeness(graph[0], np.array(nodes), np.eye(2))
    unknown = np.array([[0.5, np.nan], [0.0, 0.0]])
    with pytest.raises(ValueError, match="records must be finite"):
        likeness(graph[0], np.arange(2), unknown)
    with pytest.raises(ValueError, match="records must be finite"):
        fidelity_forecast(graph[0], LaplaceVector(1.0, 2), unknown)


def test_rows_are_measured_by_signs_as_they_are(graph):
    """256 columns of signs: the mean of 500 squared lengths within 2 %, each within 50 %."""
    op, _ = graph
    rows = np.asarray(ppr_rows(op, np.arange(N), 0.1, 0.3), np.float64)
    found = gathered(op, alpha=0.1, r=0.3)
    assert found.own == pytest.approx((rows**2).sum(1).mean(), rel=0.02)
    assert found.alike == pytest.approx((rows.sum(1) ** 2).mean(), rel=1e-3)
    np.testing.assert_allclose(found.columns, (rows**2).sum(0), rtol=0.5)


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("mechanism", [LaplaceVector(80.0, DIM), HDS(6.0, DIM, 3)], ids=["unbiased", "biased"])
def test_foretold_fidelity_is_what_is_measured(graph, mechanism, alike):
    """Records alone, or a common part of each class; likeness from the records of 150 random nodes."""
    op, y = graph
    rng = np.random.default_rng(2)
    x = rng.choice(np.float32([-1, 1]), (N, DIM)) * np.float32(0.8)
    if alike:
        x = 0.5 * x + 0.55 * rng.choice(np.float32([-1, 1]), (3, DIM))[y]
    nodes = np.sort(rng.choice(N, 150, replace=False))
    rows = gathered(op)
    h = likeness(op, nodes, x[nodes], rows=rows)
    foretold = fidelity_forecast(op, mechanism, x[nodes], likeness=h, rows=rows)
    true = non_private_embedding(op, x, alpha=0.1, r=0.0)
    made = private_embedding(jax.random.key(0), op, x, mechanism, alpha=0.1, r=0.0).z
    measured = fidelity(made, true)
    assert (h > 0.05) == alike
    assert float(measured.correlation) == pytest.approx(foretold.correlation, abs=0.06)
    assert float(measured.relative_error) == pytest.approx(foretold.relative_error, abs=0.06)


def test_records_far_apart_and_alike_are_the_best_there_is(graph):
    op, _ = graph
    rows = gathered(op)
    for mechanism in (HDS(2.0, DIM, 2), PrivUnit(2.0, DIM, DIM**0.5)):
        best = fidelity_forecast(op, mechanism, rows=rows)
        apart = fidelity_forecast(op, mechanism, rows=rows, likeness=0.0)
        assert 0 < apart.correlation < best.correlation < 1
