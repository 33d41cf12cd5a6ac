"""Bayes factors of ways to weigh posteriors: exact on small grids, and seldom wrong by chance."""

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp
from scipy.stats import norm

from ldp_jax.servers.parts.label_odds import (
    SHARPNESS,
    TRUST,
    Family,
    family,
    log_odds,
    preference,
    trust,
)


def told(rng, n, classes=3, sure=1.0):
    """A right posterior, and classes that are drawn by it."""
    log_p = log_softmax(sure * rng.normal(0, 1, (n, classes)), axis=1)
    y = (np.exp(log_p).cumsum(1) < rng.random((n, 1))).sum(1)
    return log_p, np.minimum(y, classes - 1)


def test_odds_are_the_mean_likelihood_and_weights_its_mean():
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 1, (6, 3, 2))
    y = rng.integers(0, 3, 6)
    weights = np.array([[1.0, 0.0], [0.3, 2.0], [-1.0, 0.5]])
    prior = np.array([0.2, 0.5, 0.3])
    found, mean = log_odds(scores, y, Family(weights, np.log(prior)))
    joint = []
    for w, share in zip(weights, prior, strict=True):
        p = np.exp(scores @ w)
        joint.append(share * np.prod(p[np.arange(6), y] / p.sum(1)))
    np.testing.assert_allclose(found, np.log(sum(joint)), rtol=1e-12)
    np.testing.assert_allclose(mean, np.array(joint) @ weights / sum(joint), rtol=1e-12)


def test_a_family_has_all_pairs_and_a_prior():
    of = family((1.0, 0.5, 0.0), (0.0, 0.0, 1.0))
    assert of.weights.shape == (len(SHARPNESS) * len(TRUST), 3)
    np.testing.assert_allclose(logsumexp(of.log_prior), 0.0, atol=1e-12)
    np.testing.assert_allclose(of.weights[:, 0], 2 * of.weights[:, 1])
    assert set(of.weights[:, 2]) == set(TRUST)


def test_without_labels_nothing_is_preferred():
    empty = np.zeros((0, 3, 2)), np.zeros(0, int)
    assert log_odds(*empty, family((1.0, 0.0)))[0] == log_odds(*empty, family((0.0, 1.0)))[0] == 0.0
    assert abs(trust(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0, int)) - 0.23) < 0.01


def test_what_says_nothing_seldom_reaches_odds():
    """By Markov's inequality at most e^-2 of collections; 400 of them show 1.6 times as many."""
    alone, beside = family((1.0, 0.0)), family((1.0, 0.0), (0.0, 1.0))
    reached = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        log_q, y = told(rng, 30)
        scores = np.stack([log_q, told(rng, 30)[0]], -1)
        reached += log_odds(scores, y, beside)[0] - log_odds(scores, y, alone)[0] >= 2.0
    assert reached <= 400 * np.exp(-2.0) * 1.6


def test_evidence_is_trusted_as_far_as_labels_bear_it_out():
    rng = np.random.default_rng(1)
    log_p, y = told(rng, 200, sure=2.0)
    blank = np.zeros_like(log_p)
    assert trust(blank, log_p, y) > 0.9
    assert 0.2 < trust(blank, 4 * log_p, y) < 0.3  # four times too sure of itself
    assert trust(blank, rng.permutation(log_p), y) < 0.1


def test_sharpnesses_are_log_normal_about_one_and_trusts_equally_likely():
    of = family((1.0,), (0.0,))
    expected = norm.logpdf(np.log(of.weights[:, 0]), 0.0, 0.7)
    np.testing.assert_allclose(of.log_prior, expected - logsumexp(expected), rtol=1e-12)


@pytest.mark.parametrize("doubt", [0.0, 1.5])
def test_preference_is_bayes_rule_over_families_of_equal_chance(doubt):
    """The others share odds of e^-doubt; the weights are those of the likeliest of them."""
    rng = np.random.default_rng(3)
    scores = rng.normal(0, 1, (5, 3, 3))
    y = rng.integers(0, 3, 5)
    alone = family((1.0, 0.0, 0.0))
    others = [family((1.0, 0.0, 0.0), one) for one in np.eye(3)]
    said = [log_odds(scores, y, one) for one in others]
    likely = np.exp([one[0] for one in said])
    other = np.exp(-doubt) * likely.mean()
    found = preference(scores, y, alone, others, doubt)
    first, weights = log_odds(scores, y, alone)
    np.testing.assert_allclose(found.chance, other / (np.exp(first) + other), rtol=1e-12)
    np.testing.assert_array_equal(found.alone, weights)
    np.testing.assert_array_equal(found.other, said[int(likely.argmax())][1])
    assert likely.argmax() > 0  # else the first would do
