"""What one report could add: the optimum of small programs, and what it lies between."""

import numpy as np
import pytest
from scipy.special import log_softmax

from ldp_jax.servers.parts.report_limit import own_report, report_limit, weights

RNG = np.random.default_rng(0)
LOG_F = log_softmax(RNG.normal(0.0, 1.5, (12, 4)), axis=1)
JOINT = weights(log_softmax(RNG.normal(0.0, 1.0, (6, 4)), axis=1), LOG_F)


def test_weights_are_bayes_rule_by_a_sample_of_records():
    """Of a user who is like the sample, a record says what the classifier says."""
    f = np.exp(LOG_F)
    np.testing.assert_allclose(JOINT.sum((1, 2)), 1.0)
    like_all = weights(np.log(f.mean(0))[None] + 2.0, LOG_F - 3.0)[0]
    np.testing.assert_allclose(like_all.sum(1), 1 / 12)
    np.testing.assert_allclose(like_all / like_all.sum(1, keepdims=True), f)


def test_between_what_is_public_and_what_the_record_tells():
    public, record = JOINT.sum(1).max(1), JOINT.max(2).sum(1)
    found = [report_limit(JOINT, one) for one in (0.0, 0.5, 1.0, 2.0, 40.0)]
    np.testing.assert_allclose(found[0], public, atol=1e-9)
    np.testing.assert_allclose(found[-1], record, atol=1e-9)
    assert (np.diff(found, axis=0) > -1e-9).all()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_no_report_beats_the_limit(epsilon):
    """Neither randomised response in any alphabet, nor 500 random reports of four outputs."""
    limit = report_limit(JOINT, epsilon)
    for size in range(1, 5):
        inside = np.argsort(np.argsort(-JOINT.sum(1), axis=1), axis=1) < size
        assert (own_report(JOINT, LOG_F, inside, epsilon) <= limit + 1e-9).all()
    rng = np.random.default_rng(1)
    for _ in range(500):
        # Each record sends at least m, and fills up in an order of its own.
        m = rng.dirichlet(np.ones(4)) * rng.uniform(np.exp(-epsilon), 1.0)
        order = rng.permuted(np.tile(np.arange(4), (12, 1)), axis=1)
        room = np.expm1(epsilon) * m[order]
        before = room.cumsum(1) - room
        filled = np.clip(1.0 - m.sum() - before, 0.0, room)
        law = np.tile(m, (12, 1))
        np.put_along_axis(law, order, m[order] + filled, axis=1)
        np.testing.assert_allclose(law.sum(1), 1.0)
        assert (law.max(0) <= np.exp(epsilon) * law.min(0) * (1 + 1e-9)).all()
        decided = np.einsum("ra,ury->uay", law, JOINT).max(2).sum(1)
        assert (decided <= limit + 1e-9).all()


def test_of_two_even_classes_randomised_response_is_the_best():
    f = np.log(np.array([[0.9, 0.1], [0.1, 0.9]]))
    joint = weights(np.log(np.array([[0.5, 0.5]])), f)
    for epsilon in (0.2, 1.0, 4.0):
        keep = np.exp(epsilon) / (1 + np.exp(epsilon))
        right = keep * 0.9 + (1 - keep) * 0.1
        np.testing.assert_allclose(report_limit(joint, epsilon), right, atol=1e-9)
        both = own_report(joint, f, np.ones((1, 2), bool), epsilon)
        np.testing.assert_allclose(both, right, atol=1e-12)


def test_an_alphabet_of_one_class_says_nothing():
    inside = np.eye(4, dtype=bool)[JOINT.sum(1).argmax(1)]
    found = own_report(JOINT, LOG_F, inside, 2.0)
    np.testing.assert_allclose(found, JOINT.sum(1).max(1), atol=1e-12)


def test_a_negative_epsilon_is_refused():
    with pytest.raises(ValueError, match="epsilon must be"):
        report_limit(JOINT, -1.0)
