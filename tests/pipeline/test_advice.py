"""What reports are expected to be worth before anything is collected: of records, and of counts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ldp_jax as ldp
from ldp_jax.graph.propagation import operator
from ldp_jax.pipeline.advice import WEIGHTS, expected_gain, forecast, homophily, reliability
from ldp_jax.pipeline.device_classifier import DeviceClassifier
from ldp_jax.pipeline.local_prediction import PanelFacts
from ldp_jax.pipeline.message import SMOOTHINGS, ScoredPanel
from ldp_jax.pipeline.self_training import FoldedLabels
from ldp_jax.pipeline.structure import StructurePosterior
from tests.pipeline.planted import blocks, some_labels

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
    return PanelFacts(FoldedLabels(labels, 3, jnp.zeros(N, jnp.int32), 3), structure, classifier, op)


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


def test_it_refuses_without_a_gain_and_without_labels(graph):
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


def test_what_is_no_question_is_refused(graph):
    facts = facts_of(*graph, 120, 1.0)
    noisy = facts._replace(known=facts.known._replace(keep=0.9))
    for given, epsilon, epsilons, message in (
        (facts, 21.0, (), "epsilon must be"),
        (facts, 1.0, (1.0, -1.0), "epsilons must be"),
        (noisy, 1.0, (), "facts must have true labels"),
    ):
        with pytest.raises(ValueError, match=message):
            ldp.advise(given, epsilon, epsilons=epsilons)


def posteriors(rng, y, classes, strength):
    """Scores that are right as often as ``strength`` makes them, normalised."""
    scores = rng.normal(0, 1, (len(y), classes)) + strength * np.eye(classes)[y]
    return (scores - np.log(np.exp(scores).sum(1, keepdims=True))).astype(np.float32)


def by_hand(log_q, scores, labels, inside, epsilon, smoothing, weight=1.0):
    """Log-likelihood of reports, gains of log-loss and accuracy, the guard's t and its square, by loops."""
    panel, classes = log_q.shape
    found = np.zeros((panel, 5))
    share = np.bincount(labels, minlength=classes) / panel
    for i in range(panel):
        members = np.flatnonzero(inside[i])
        best = [members[scores[j, members].argmax()] for j in range(panel)]
        confusion = np.zeros((classes, classes))
        for y in range(classes):
            others = [j for j in range(panel) if labels[j] == y and j != i]
            for c in members:
                own = float(c == y) if inside[i, y] else 1 / len(members)
                more = 0.5 * smoothing * (1 / len(members) + own)
                confusion[y, c] = (sum(best[j] == c for j in others) + more) / (len(others) + smoothing)
        law = np.ones((classes, len(members)))
        law[members, np.arange(len(members))] = np.exp(epsilon)
        law /= np.exp(epsilon) + len(members) - 1
        q = np.exp(log_q[i].astype(float))
        for r in range(len(members)):
            chance = law[best[i], r]
            told = np.array([confusion[y, members] @ law[members, r] for y in range(classes)])
            after = q * told**weight / (q @ told**weight)
            right = float(after.argmax() == labels[i]) - float(q.argmax() == labels[i])
            t = (q @ told) / (share @ told) - 1
            gain = np.log(after[labels[i]] / q[labels[i]])
            found[i] += chance * np.array([np.log(told[labels[i]]), gain, right, t, t * t])
    return found


def test_it_is_the_sum_over_all_reports_of_a_panel_without_the_member_herself():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 40)
    log_q, scores = posteriors(rng, y, 4, 0.5), posteriors(rng, y, 4, 1.5)
    order = np.argsort(-log_q, 1)
    inside = np.zeros((40, 4), bool)
    np.put_along_axis(inside, order, np.arange(4) < rng.integers(2, 5, (40, 1)), 1)
    made = expected_gain(log_q, ScoredPanel(scores, y), inside, 1.5)
    each = {s: by_hand(log_q, scores, y, inside, 1.5, s) for s in SMOOTHINGS}
    assert made.smoothing == max(each, key=lambda s: each[s][:, 0].sum())
    weighed = {w: by_hand(log_q, scores, y, inside, 1.5, made.smoothing, w) for w in WEIGHTS}
    assert made.weight == max(weighed, key=lambda w: weighed[w][:, 1].sum())
    _, gain, right, t, square = weighed[made.weight].T
    assert made.log_loss == pytest.approx(gain.mean(), abs=1e-5)
    assert made.standard_error == pytest.approx(gain.std(ddof=1) / 40**0.5, rel=1e-3)
    assert made.accuracy == pytest.approx(100 * right.mean(), abs=1e-3)
    assert made.t == pytest.approx(made.log_loss / made.standard_error)
    assert made.members == 40
    assert made.guard(500) == pytest.approx(500**0.5 * t.mean() / square.mean() ** 0.5, rel=1e-3)


def test_it_rises_with_epsilon_and_with_what_records_know_and_is_no_gain_where_they_know_nothing():
    """300 members: a gain of 0.01 nats would be seen."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 4, 300)
    log_q, inside = posteriors(rng, y, 4, 1.0), np.ones((300, 4), bool)
    scores = {strength: posteriors(rng, y, 4, strength) for strength in (0.0, 1.0, 3.0)}
    made = {
        (s, e): expected_gain(log_q, ScoredPanel(scores[s], y), inside, e) for s in scores for e in (0.5, 2.0, 8.0)
    }
    for epsilon in (0.5, 2.0, 8.0):
        assert made[0.0, epsilon].t < 2
        assert made[0.0, epsilon].correlation < 0.05
    for strength in (1.0, 3.0):
        gains = [made[strength, epsilon].log_loss for epsilon in (0.5, 2.0, 8.0)]
        assert 0 < gains[0] < gains[1] < gains[2]
    assert made[3.0, 2.0].log_loss > 2 * made[1.0, 2.0].log_loss
    assert made[3.0, 2.0].t > 5
    assert 0.5 < made[3.0, 8.0].correlation < 1
    # Of an epsilon that says nothing t is a rounding of float32, of either sign: the guard believes no such thing.
    nothing = expected_gain(log_q, ScoredPanel(scores[3.0], y), inside, 1e-5)
    for agreement in (nothing.agreement, 1e-8, -1e-8):  # some five of its standard errors over 10^6 users
        assert nothing._replace(agreement=agreement).guard(10**6) < 2
    known = expected_gain(100 * np.eye(4, dtype=np.float32)[y], ScoredPanel(scores[3.0], y), inside, 8.0)
    assert abs(known.log_loss) < 1e-3  # structure that knows the class already
    assert known.guard(1000) > 10  # and sees that reports agree with it
    chance = expected_gain(np.zeros((300, 4), np.float32), ScoredPanel(scores[3.0], y), inside, 8.0)
    assert abs(chance.guard(1000)) < 2  # which structure that knows nothing cannot


@pytest.mark.usefixtures("untyped")
def test_a_panel_that_does_not_fit_is_refused():
    y, table, every = np.array([0, 1, 0]), np.zeros((3, 2), np.float32), np.ones((3, 2), bool)
    for labels, alphabets, epsilon, message in (
        (y, every, 0.0, "epsilon must be"),
        (y[:2], every, 1.0, "of the same two members or more"),
        (y + 1, every, 1.0, r"labels must be in \[0, 2\), got 1 to 2"),
        (y, np.arange(6).reshape(3, 2) > 1, 1.0, "alphabets must hold a class"),
    ):
        with pytest.raises(ValueError, match=message):
            expected_gain(table, ScoredPanel(table, labels), alphabets, epsilon)


def test_z_grows_with_each_of_its_facts_and_the_verdict_with_z():
    found = forecast(10.0, 0.5, 0.8, 1.0)
    assert found.z == pytest.approx(2.0)
    assert [forecast(10.0, 0.5, 0.8, epsilon).worth for epsilon in (0.3, 0.5, 1.0)] == ["little", "some", "much"]
    assert forecast(5.0, 0.5, 0.8, 2.0).z == forecast(10.0, 0.25, 0.8, 2.0).z == forecast(10.0, 0.5, 0.4, 2.0).z


def test_homophily_of_a_block_model_is_the_planted_one():
    graph, y, _ = blocks(n=900, homophily=0.7)
    pairs = np.stack([graph.senders, graph.receivers], 1)
    # 6 300 edges, of which 0.8 are alike: a standard deviation of 0.008.
    assert homophily(pairs, y) == pytest.approx(0.7, abs=0.04)
    assert homophily(pairs, np.random.default_rng(0).permutation(y)) == pytest.approx(0.0, abs=0.04)
    assert homophily(pairs, some_labels(y, 0.5)) == pytest.approx(0.7, abs=0.08)
    assert homophily([[0, 1]], np.zeros(2, int)) == 0.0  # one class: nothing can be alike beyond chance


def test_a_label_is_reliable_and_a_constant_posterior_is_chance():
    log_q = np.log(np.full((4, 2), 0.5))
    assert reliability(jnp.asarray(log_q), np.array([0, 1, -1, -1])) == pytest.approx(0.75)


def test_what_is_no_fact_is_refused():
    good = {"mean_degree": 4.0, "homophily": 0.5, "reliability": 0.5, "epsilon": 1.0}
    for name, value in (("mean_degree", 0.0), ("homophily", 1.5), ("reliability", float("nan")), ("epsilon", -1.0)):
        with pytest.raises(ValueError, match=f"{name} must be"):
            forecast(**good | {name: value})
    for pairs, labels, message in (
        ([[0, 1]], [0, -1], "state a guess"),
        (
            np.zeros((2, 5), int),
            [0, 1],
            r"pairs must be integers of shape \[pairs, 2\], got int64 of shape \(2, 5\)",
        ),
        ([[0, -1]], [0, 1], r"pairs must join nodes in \[0, 2\), got -1 to 0"),
    ):
        with pytest.raises(ValueError, match=message):
            homophily(pairs, np.array(labels))
