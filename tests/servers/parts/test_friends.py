"""What friends say of a class, and how often records are taken for another one, by loops."""

import numpy as np

from ldp_jax.servers.parts.friends import evidence, friend_evidence, reported_confusion


def test_friends_are_of_the_own_class_or_of_anybody_s():
    """Probabilities that a friend has class c, given a user of class y, sum to 1 over c."""
    rng = np.random.default_rng(0)
    prior = np.array([0.6, 0.3, 0.1])
    posterior = rng.dirichlet(np.ones(3), 5)
    posterior[4] = [0.0, 0.0, 1.0]
    for homophily in (0.3, 0.8, 1.0):
        expected = np.zeros((5, 3))
        for user, b in enumerate(posterior):
            for y in range(3):
                chance = homophily * b[y] + (1 - homophily) * b @ prior
                anybody = homophily * prior[y] + (1 - homophily) * prior @ prior
                expected[user, y] = np.log(max(chance, 1e-12) / anybody)
        found = friend_evidence(posterior, prior, homophily)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_a_report_is_the_mixture_of_the_classes_that_are_sent():
    law = np.array([[0.7, 0.2, 0.1], [0.0, 0.0, 1.0]])
    confusion = np.array([[0.9, 0.1, 0.0], [0.3, 0.5, 0.2], [0.0, 1.0, 0.0]])
    expected = [[sum(one[c] * confusion[y, c] for c in range(3)) for y in range(3)] for one in law]
    found = evidence(law, confusion)
    np.testing.assert_allclose(found, np.log(np.maximum(expected, 1e-30)), rtol=1e-6)


def test_confusion_is_the_likeliest_beside_two_users_of_each_class_before():
    """The posterior is no larger at any table nearby; a class without a member stays."""
    rng = np.random.default_rng(1)
    labels = rng.choice([0, 2], 30, p=[0.3, 0.7])
    law = rng.dirichlet(np.ones(3), 30)
    start = np.array([[0.8, 0.15, 0.05], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])
    found = reported_confusion(law, labels, start)
    np.testing.assert_allclose(found.sum(1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(found[1], start[1], rtol=1e-12)

    def posterior(table):
        return np.log((table[labels] * law).sum(1)).sum() + 2.0 * (start * np.log(table)).sum()

    for nearby in rng.dirichlet(np.ones(3), (200, 3)):
        assert posterior(found) > posterior(0.98 * found + 0.02 * nearby)
