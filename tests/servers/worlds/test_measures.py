"""What is measured of pairs and drawn of friends in a world, by loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.servers.worlds import world
from ldp_jax.servers.worlds.friends import (
    Friends,
    drawn_counts,
    drawn_friends,
    echo,
    homophily,
    overlap,
)
from ldp_jax.servers.worlds.links import LinkWorlds

RNG = np.random.default_rng(0)
N = 40
LABELS = np.where(np.arange(N) % 5 == 0, -1, RNG.choice(3, N, p=[0.5, 0.3, 0.2]))
LOG_Q = np.log(0.9 * RNG.dirichlet(np.ones(3), N) + 0.1 * np.eye(3)[np.maximum(LABELS, 0)])
PAIRS = np.array(
    [
        (i, j)
        for i in range(N)
        for j in range(i)
        if RNG.random() < (0.3 if LABELS[i] == LABELS[j] else 0.1)
    ]
)
KNOWN = [(i, j) for i, j in PAIRS.tolist() if LABELS[i] >= 0 and LABELS[j] >= 0]


def beyond(pairs, said):
    """Agreement of both ends beyond that of two ends of pairs at random."""
    ends = np.array(pairs)
    share = np.bincount(said[ends].ravel()) / ends.size
    chance = (share**2).sum()
    return (np.mean(said[ends[:, 0]] == said[ends[:, 1]]) - chance) / (1 - chance)


def test_homophily_and_echo_are_agreements_beyond_chance():
    assert homophily(PAIRS, LABELS) == pytest.approx(beyond(KNOWN, LABELS))
    said = LOG_Q.argmax(1)
    same = [(i, j) for i, j in KNOWN if LABELS[i] == LABELS[j]]
    chance = 0.0
    for i, _ in same:
        mine = [said[[a, b]] for a, b in same if LABELS[a] == LABELS[i]]
        share = np.bincount(np.concatenate(mine)) / (2 * len(mine))
        chance += (share**2).sum() / len(same)
    alike = np.mean([said[i] == said[j] for i, j in same])
    assert echo(PAIRS, LABELS, LOG_Q) == pytest.approx(max((alike - chance) / (1 - chance), 0))
    seen = (LABELS + np.arange(N) % 2) % 3
    follow = np.log(np.where(np.arange(3) == seen[:, None], 0.8, 0.1))
    odd = [(i, j) for i, j in KNOWN if (i + j) % 2 == 0]
    assert echo(odd, LABELS, follow) == pytest.approx(1.0)
    far = [(i, j) for i, j in KNOWN if LABELS[i] != LABELS[j]]
    assert echo(far, LABELS, LOG_Q) == homophily(far, LABELS) == 0.0


def test_overlap_is_the_share_of_features_in_a_regression_of_friends():
    both = np.array(KNOWN + [(j, i) for i, j in KNOWN])
    classes = np.eye(3)[LABELS]
    mean = classes[both].mean((0, 1))
    own, friend = (classes[both[:, side]] - mean for side in (0, 1))
    features = np.exp(LOG_Q)[both[:, 0]] - mean
    gram = np.array([[(x * y).sum() for y in (own, features)] for x in (own, features)])
    a, b = np.linalg.solve(gram, [(own * friend).sum(), (features * friend).sum()])
    expected = max(b, 0) / (max(a, 0) + max(b, 0))
    assert overlap(PAIRS, LABELS, LOG_Q) == pytest.approx(expected)


def test_a_place_below_a_count_is_below_it_however_large_the_uniform(monkeypatch):
    count = jnp.array([1, 2, 7, 2**24 + 2])
    for share in (0.0, 0.5, 1.0):  # a product in float32 may round up to the count
        monkeypatch.setattr(world.random, "uniform", lambda _, shape, at=share: jnp.full(shape, at))
        expected = np.minimum((share * np.asarray(count)).astype(int), np.asarray(count) - 1)
        found = world.places_below(jax.random.key(0), count)
        np.testing.assert_array_equal(found, expected)


def test_gains_are_by_the_better_of_two_scores_of_all_worlds():
    auc = RNG.uniform(50, 100, (5, 3, 4))
    expected = np.zeros((5, 3))
    for place in range(3):
        best = auc[:, place].mean(0)
        degrees, counts = (first + int(best[first + 1] > best[first]) for first in (0, 2))
        expected[:, place] = auc[:, place, counts] - auc[:, place, degrees]
    np.testing.assert_allclose(LinkWorlds.gains(auc), expected)


def test_friends_are_of_the_own_class_as_often_as_is_stated_and_follow_features():
    """Expected degrees are log-normal: 20 000 of them have the mean within 1 %."""
    y = jnp.asarray(np.resize(np.maximum(LABELS, 0), 20_000), jnp.int32)
    log_q = jnp.asarray(np.resize(LOG_Q, (20_000, 3)), jnp.float32)
    stated = jnp.float32(12.0), jnp.float32(0.4), jnp.float32(0.5)
    found = drawn_friends(jax.random.key(0), y, log_q, stated, jnp.array([0.7, 0.2]))
    assert float(found.rate.mean()) == pytest.approx(12.0, rel=0.02)
    assert float(found.rate.std()) == pytest.approx(6.0, rel=0.05)
    classes, q = np.eye(3)[np.asarray(y)], np.exp(np.asarray(log_q))
    chance = (classes.mean(0) ** 2).sum()
    lost = 1 - ((q * classes).sum(1).mean() - chance) / (1 - chance)
    part = min(0.7, 0.6 / lost)
    np.testing.assert_allclose(found.alike, (1 - part) * classes + part * q, atol=1e-4)
    own = (np.asarray(found.alike) * classes).sum(1).mean()
    stated_own = float(found.homophily) * (own - chance) / (1 - chance)
    assert stated_own == pytest.approx(0.4, abs=1e-3)
    assert float(found.echo) == pytest.approx(0.2)


def test_counts_of_friends_have_the_mean_of_a_loop():
    """2000 draws of 12 users: a mean that is 0.25 off is seen, at 1e-6."""
    y, said = np.array([0, 1, 2, 0, 1, 0] * 2), np.array([0, 1, 2, 1, 1, 2, 0, 0, 2, 0, 2, 1])
    groups = np.array([0, 1, 2, 3, 0, 1, 2, 3, 3, 3, 1, 0])
    classes = np.eye(3)[y]
    alike = 0.7 * classes + 0.3 * np.random.default_rng(1).dirichlet(np.ones(3), 12)
    rate = np.linspace(3, 9, 12)
    expected = np.zeros((12, 4))
    for user in range(12):
        for g in range(4):
            for c in range(3):
                share = np.mean(groups[y == c] == g)
                weight = 0.6 * alike[user, c] + 0.4 * np.mean(y == c)
                expected[user, g] += weight * share
                if c == y[user]:
                    fellows = (y == c) & (said == said[user])
                    expected[user, g] += 0.5 * weight * (np.mean(groups[fellows] == g) - share)
    expected = rate[:, None] * np.maximum(expected, 0)
    as_float = lambda x: jnp.asarray(x, jnp.float32)
    numbers = (as_float(part) for part in (rate, 0.6, 0.5))
    friends = Friends(as_float(classes), jnp.asarray(said), as_float(alike), *numbers)
    draw = lambda key: drawn_counts(key, friends, jnp.asarray(groups), num_groups=4)
    found = jax.lax.map(draw, jax.random.split(jax.random.key(0), 2000))
    error = np.asarray(found).mean(0) - expected
    assert np.abs(error / np.sqrt(np.maximum(expected, 1e-3) / 2000)).max() < 5.2
