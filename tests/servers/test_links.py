"""Scores of pairs from counts: the formula, and that they find links that degrees do not."""

import numpy as np
import pytest

from ldp_jax.servers.links import LinkFacts, LinkServer, link_scores


def by_hand(reports, groups, pairs, epsilon):
    """In float64, user by user."""
    reports = np.asarray(reports, float)
    noise = 2 * np.exp(-epsilon) / np.expm1(-epsilon) ** 2
    found = []
    for u, v in pairs:
        total = 0.0
        for one, other in ((u, v), (v, u)):
            g = groups[other]
            column = reports[:, g] if g >= 0 else reports.sum(1)
            size = max((groups == g).sum() if g >= 0 else (groups >= 0).sum(), 1)
            mean = max(column.mean(), 1e-3)
            signal = np.clip(1 - noise * (1 if g >= 0 else reports.shape[1]) / column.var(), 0, 1)
            total += np.log(max(mean + signal * (column[one] - mean), 0.05 * mean) / size)
        found.append(total)
    return np.array(found)


def test_it_is_the_formula():
    rng = np.random.default_rng(0)
    groups = rng.integers(-1, 3, 50)
    reports = rng.poisson(6, (50, 3)) + rng.integers(-3, 4, (50, 3))
    pairs = rng.integers(0, 50, (200, 2))
    for epsilon in (0.3, 2.0, 40.0):
        found = link_scores(reports, groups, pairs, epsilon)
        np.testing.assert_allclose(found, by_hand(reports, groups, pairs, epsilon), atol=2e-5)
    np.testing.assert_allclose(
        link_scores(reports, groups, pairs[:, ::-1], epsilon), found, atol=1e-6
    )


def test_a_class_of_nobody_says_nothing_of_pairs():
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(3), 20)
    labels = rng.integers(-1, 3, 20)
    pairs = rng.integers(0, 20, (40, 2))
    known = np.where((labels >= 0)[:, None], np.eye(3)[labels], q)
    by_hand = (known[pairs[:, 0]] * known[pairs[:, 1]] / known.mean(0)).sum(1)
    for classes in (3, 4):
        log_q = np.full((20, classes), -np.inf)
        log_q[:, :3] = np.log(q)
        facts = LinkFacts(log_q, labels, np.zeros(0, int), np.zeros((0, 2), int))
        np.testing.assert_allclose(
            facts.same_class(pairs), np.log(np.maximum(by_hand, 1e-3)), rtol=1e-5
        )


@pytest.mark.usefixtures("untyped")
def test_what_does_not_fit_is_refused():
    groups = np.zeros(3, int)
    pairs = np.array([[0, 1]])
    for asked, ends, epsilon, message in (
        (groups, pairs, 0.0, "epsilon must be"),
        (np.array([0, 1, 2]), pairs, 1.0, r"groups must be in \[-1, 2\), got 0 to 2"),
        (
            groups,
            np.array([[0, 3]]),
            1.0,
            r"pairs must be in \[0, 3\), the users of reports, got 3",
        ),
        (groups, pairs + 0.5, 1.0, "pairs must be integers"),
        (
            groups,
            np.zeros((2, 3), int),
            1.0,
            r"pairs must be integers \[m, 2\], got int64 of shape \(2, 3\)",
        ),
        (groups + 0.5, pairs, 1.0, "groups must be int"),
    ):
        with pytest.raises(ValueError, match=message):
            link_scores(np.zeros((3, 2), int), asked, ends, epsilon)
    with pytest.raises(ValueError, match=r"integers \[n, K\], got ndarray of float32"):
        link_scores(np.zeros((3, 2), np.float32), groups, pairs, 1.0)
    for reports in (
        np.zeros((3, 2), int),
        np.full((3, 2), -4),
    ):  # users of no counts have finite scores
        assert np.isfinite(np.asarray(link_scores(reports, np.array([0, 1, -1]), pairs, 1.0))).all()


@pytest.mark.parametrize(
    ("pilot", "friends", "message"),
    [
        ([0], [[0, 1], [2, 3]], "friends must be of the lists of public users alone"),
        ([0], [[0, 1], [0, 1]], "friends must name each entry once"),
        ([0], [[0, 0]], "nobody as their own friend"),
        ([0, 0], [[0, 1]], "pilot must name each member once"),
        ([4], [[4, 1]], r"pilot must be in \[0, 4\)"),
    ],
)
def test_lists_of_others_than_the_pilot_are_refused(pilot, friends, message):
    """A list outside the pilot is private: read as it is it would be no report."""
    facts = LinkFacts(np.zeros((4, 2)), np.full(4, -1), np.array(pilot), np.array(friends))
    with pytest.raises(ValueError, match=message):
        LinkServer(facts, 1.0, np.array([[0, 1]]))


def test_groups_of_small_integers_are_groups():
    groups = np.arange(130) % 128
    reports = np.ones((130, 128), int)
    pairs = np.array([[0, 1]])
    found = [link_scores(reports, groups.astype(kind), pairs, 1.0) for kind in (np.int8, int)]
    np.testing.assert_array_equal(*found)
