"""Generalised randomised response over personal alphabets: the classes, the integers, and many
users at once.
"""

import dataclasses
import math
from fractions import Fraction

import jax
import numpy as np
import pytest

from ldp_jax.core import personal_alphabets
from ldp_jax.core.integer_tables import WORDS
from ldp_jax.features import GeneralizedRR, PersonalAlphabet, PersonalAlphabets, alphabets

EPSILONS = (0.1, 2.0, 16.0)


def posteriors(n=40, classes=6, seed=0):
    """Sharp and flat ones."""
    rng = np.random.default_rng(seed)
    return np.stack(
        [rng.dirichlet(np.full(classes, alpha)) for alpha in np.geomspace(0.1, 10.0, n)]
    )


USERS = PersonalAlphabets.of(1.5, posteriors())


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_alphabets_are_the_best_k_likeliest_classes(epsilon):
    prior = posteriors()
    prior[0] = 1 / 6  # ties: the first classes come first
    assert alphabets([[0.98, 0.01, 0.01]], 1.0).sizes == 2
    found = alphabets(prior, epsilon)
    for row, order, size, inside in zip(prior, found.order, found.sizes, found.mask, strict=True):
        expected = sorted(range(6), key=lambda c, row=row: (-row[c], c))
        worth = {
            k: sum(row[c] for c in expected[:k]) * math.expm1(epsilon) / (math.exp(epsilon) + k - 1)
            for k in range(2, 7)
        }
        assert order.tolist() == expected
        assert worth[int(size)] == pytest.approx(max(worth.values()), rel=1e-12)
        assert set(np.flatnonzero(inside)) == set(expected[:size])


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_tables_are_generalised_randomised_response_and_lose_no_more_than_epsilon(epsilon):
    """Exact, in integers; a class outside that is always reported as the first place would lose
    more.
    """
    for size in (2, 3, 7):
        made = personal_alphabets.table(epsilon, size, 7)
        inside, outside = made.masses[:size], made.masses[size:]
        np.testing.assert_allclose(
            inside, GeneralizedRR(epsilon, size).table().masses, atol=2 * size
        )
        assert (np.abs(outside - WORDS / size) <= size).all()
        assert 0.99 * epsilon < made.epsilon <= epsilon
        # any two classes, any place
        columns = made.masses.T.tolist()
        assert made.loss == max(Fraction(max(column), min(column)) for column in columns)
        share = made.masses.astype(np.float64) / WORDS
        np.testing.assert_allclose(share[:size] @ made.values, np.eye(7)[:size], atol=1e-3)
        if len(outside):
            masses = made.masses.copy()
            masses[-1] = 1
            masses[-1, 0] = WORDS - size + 1
            assert dataclasses.replace(made, masses=masses).epsilon > epsilon


alone_of = jax.jit(
    lambda m, key, x, y, c: (m.privatize(key, x), m.estimate(y), m.log_density(y, c))
)


def test_many_users_report_as_each_does_alone():
    """The same bits, whatever the record: inside, outside, no class at all."""
    prior = posteriors()
    x = np.resize(np.float32([0, 1, 2, 3, 4, 5, np.nan, 99.0, -7.0, 2.4, np.inf]), len(prior))
    ask = jax.jit(lambda y: (USERS.estimate(y), USERS.log_likelihoods(y), USERS.classes(y)))
    y = np.asarray(USERS.privatize(jax.random.key(0), x))
    keys = jax.random.split(jax.random.key(0), len(prior))
    estimates, logs, classes = ask(y)
    for i in range(0, len(prior), 6):
        alone = PersonalAlphabet(1.5, prior[i])
        drawn, estimate, densities = alone_of(alone, keys[i], x[i], y[i], np.arange(6))
        assert int(y[i]) == int(drawn)
        assert alone.codomain().contains(y[i : i + 1]).all()
        np.testing.assert_allclose(estimates[i], estimate, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(logs[i], densities, rtol=1e-6)
        assert int(classes[i]) == int(USERS.order[i, y[i]])
    assert (y < np.asarray(USERS.sizes)).all()


def test_the_guarantee_is_the_largest_of_the_users():
    g = USERS.guarantee()
    each = {
        int(k): personal_alphabets.table(1.5, int(k), 6).epsilon for k in np.unique(USERS.sizes)
    }
    assert len(each) > 2
    assert g.epsilon == max(each.values()) <= 1.5
    assert (g.arithmetic, g.status) == ("exact", "proved")
    assert g.adjacency == "any two of 6 classes of one user"


def test_the_best_class_within_the_alphabet():
    """Against a loop; missing scores are the worst, and equal ones leave the likelier class."""
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(40, 6)).astype(np.float32)
    scores[:10] = np.round(scores[:10])  # ties
    scores[10:20][rng.random((10, 6)) < 0.5] = np.nan
    scores[20], scores[21], scores[22] = np.nan, -np.inf, np.inf
    found = np.asarray(USERS.best(scores))
    for row, order, size, one in zip(
        scores, np.asarray(USERS.order), np.asarray(USERS.sizes), found, strict=True
    ):
        held = np.where(np.isnan(row), -np.inf, row)
        assert one == max(order[:size], key=lambda c, held=held: held[c])  # the first of equals
    assert np.asarray(USERS.mask)[np.arange(40), found].all()


def test_estimates_are_posteriors_by_bayes():
    prior = posteriors()[5]
    m = PersonalAlphabet(1.5, prior)
    masses = m.table().masses.astype(np.float64)
    for y in range(m.table().outputs):
        joint = prior * masses[:, y]
        np.testing.assert_allclose(m.estimate(y), joint / joint.sum(), rtol=1e-5)
    np.testing.assert_allclose(USERS.estimate(np.zeros(40, int)).sum(1), 1.0, rtol=1e-5)
