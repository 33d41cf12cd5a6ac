"""The likelihood ratio is the best attack on what it is told, and a planted edge shows as far as
epsilon allows.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from ldp_jax import attacks
from tests.stats import SIGMAS


def runs(rng, gap, *, width=3, n=2000):
    """Shadows and observations: normal vectors, of which the first two coordinates move by ``gap``,
    correlated.
    """
    mixing = np.eye(width) + 0.5
    shift = np.where(np.arange(width) < 2, gap, 0.0)
    return (
        [rng.normal(size=(n, width)) @ mixing + moved * shift for moved in (0, 1, 0, 1)],
        shift,
        mixing,
    )


def test_the_likelihood_ratio_is_as_good_as_can_be():
    """Of normal runs the best AUC is Phi(d / sqrt 2), d the Mahalanobis distance; 4000 runs see a
    loss of 0.06.
    """
    given, shift, mixing = runs(np.random.default_rng(0), 1.0)
    distance = np.sqrt(shift @ np.linalg.solve(mixing.T @ mixing, shift))
    best = scipy.stats.norm.cdf(distance / np.sqrt(2))
    found = attacks.likelihood_ratio(*given, ridge=0.0)
    margin = SIGMAS / 1.98 * found.auc.half_width
    assert abs(found.auc.mean - best) <= margin < 0.06
    assert found.tpr.mean > 0.05
    blind = attacks.likelihood_ratio(*runs(np.random.default_rng(1), 0.0)[0])
    margin = SIGMAS / 1.98 * blind.auc.half_width
    assert abs(blind.auc.mean - 0.5) <= margin < 0.1


def test_a_number_that_only_the_secret_changes_decides_alone():
    given, *_ = runs(np.random.default_rng(2), 0.0, n=50)
    given = [np.concatenate([part, np.full((50, 1), float(moved)), np.ones((50, 1))], 1)
             for part, moved in zip(given, (0, 1, 0, 1), strict=True)]  # fmt: skip
    assert attacks.likelihood_ratio(*given).auc.mean == 1.0


def test_another_spread_is_seen_as_another_mean_is():
    """A secret that only widens the runs: the two laws differ in their variance, which a distance
    alone misses.
    """
    rng = np.random.default_rng(3)
    given = [rng.normal(0.02 * moved, 1.0 + 4.0 * moved, (1000, 1)) for moved in (0, 1, 0, 1)]
    assert attacks.likelihood_ratio(*given).auc.mean > 0.8


BITS = jnp.arange(6)
EPSILON = 1.0


def response(key, first):
    """The neighbour list of a node by randomised response at epsilon 1; the planted edge is its
    first bit.
    """
    flips = jax.random.bernoulli(key, jax.nn.sigmoid(-EPSILON), BITS.shape)
    return 1.0 * ((first & (BITS == 0)) ^ flips)


def answer(key, first):
    """The mean over a neighbourhood and noise of the size of one neighbour: a model that is not
    private.
    """
    noise = 0.1 * jax.random.normal(key, BITS.shape)
    return jnp.where(BITS < 2, 0.5 * first, 0.0) + noise


@pytest.mark.parametrize("private", [True, False])
def test_a_planted_edge_shows_as_far_as_epsilon_allows(private):
    """Of one bit at epsilon the best AUC is e^eps / (1 + e^eps), and the TPR at 1 % FPR is 0.01
    e^eps at most.
    """
    observe = response if private else answer
    found = attacks.planted_edge(jax.random.key(0), observe, False, True, shadows=1000, runs=2000)
    if not private:
        assert found.auc.mean > 0.99
        assert found.tpr.mean > 0.9
        return
    best = np.exp(EPSILON) / (1 + np.exp(EPSILON))
    margin = SIGMAS / 1.98 * found.auc.half_width
    assert abs(found.auc.mean - best) <= margin < 0.06
    assert found.tpr.mean - SIGMAS / 1.98 * found.tpr.half_width <= 0.01 * np.exp(EPSILON)
