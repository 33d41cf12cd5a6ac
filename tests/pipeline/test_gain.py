"""The expected gain of a report, against every report gone through in float64."""

import numpy as np
import pytest

from ldp_jax.pipeline.gain import WEIGHTS, expected_gain
from ldp_jax.pipeline.message import SMOOTHINGS

pytestmark = pytest.mark.usefixtures("quickly_compiled")


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
    made = expected_gain(log_q, scores, y, inside, 1.5)
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
    made = {(s, e): expected_gain(log_q, scores[s], y, inside, e) for s in scores for e in (0.5, 2.0, 8.0)}
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
    nothing = expected_gain(log_q, scores[3.0], y, inside, 1e-5)
    for agreement in (nothing.agreement, 1e-8, -1e-8):  # some five of its standard errors over 10^6 users
        assert nothing._replace(agreement=agreement).guard(10**6) < 2
    known = expected_gain(100 * np.eye(4, dtype=np.float32)[y], scores[3.0], y, inside, 8.0)
    assert abs(known.log_loss) < 1e-3  # structure that knows the class already
    assert known.guard(1000) > 10  # and sees that reports agree with it
    chance = expected_gain(np.zeros((300, 4), np.float32), scores[3.0], y, inside, 8.0)
    assert abs(chance.guard(1000)) < 2  # which structure that knows nothing cannot


def test_a_panel_whose_confusion_is_too_sure_of_itself_weighs_reports_less():
    """Sixty members, six classes: each row of the confusion is of ten."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 6, 60)
    log_q, scores = posteriors(rng, y, 6, 2.5), posteriors(rng, y, 6, 1.0)
    made = expected_gain(log_q, scores, y, np.ones((60, 6), bool), 6.0)
    plain = by_hand(log_q, scores, y, np.ones((60, 6), bool), 6.0, made.smoothing)[:, 1]
    assert made.weight < 1.0
    assert made.log_loss > plain.mean()


@pytest.mark.usefixtures("untyped")
def test_what_does_not_fit_is_refused():
    y, table = np.array([0, 1, 0]), np.zeros((3, 2), np.float32)
    for changes, message in (
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"labels": y[:2]}, "of the same two members or more"),
        ({"labels": y + 1}, r"labels must be in \[0, 2\), got 1 to 2"),
        ({"alphabets": np.arange(6).reshape(3, 2) > 1}, "alphabets must hold a class"),
        ({"log_q": table[:1], "scores": table[:1], "labels": y[:1], "alphabets": np.ones((1, 2), bool)}, "two"),
    ):
        given = {"log_q": table, "scores": table, "labels": y, "alphabets": np.ones((3, 2), bool), "epsilon": 1.0}
        with pytest.raises(ValueError, match=message):
            expected_gain(**{**given, **changes})
