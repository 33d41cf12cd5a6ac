"""The design prefers many groups where noise is small, and few where it is not."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.pipeline.design import CountModel, design
from ldp_jax.pipeline.groups import MERGES
from ldp_jax.pipeline.pilot import GroupShares, expected_counts

SIZE = 256


def planned(epsilon, shares, degree=20.0, q=None):
    model = GroupShares(np.asarray(shares), np.full(2, degree), 0.5)
    log_q = jnp.log(jnp.tile(jnp.array([[0.5, 0.5]] if q is None else q), (50, 1)))
    counts = CountModel(expected_counts(model), jnp.full(10, 0.1), math.inf)
    return design(jax.random.key(0), log_q, counts, epsilon, size=SIZE)


ALIKE = [[0.4, 0.1, 0.2, 0.05, 0.15, 0.1], [0.1, 0.4, 0.05, 0.2, 0.1, 0.15]]
"""Tiers that all say something, the less the later."""

CROSSED = [[0.3, 0.0, 0.0, 0.3, 0.2, 0.2], [0.0, 0.3, 0.3, 0.0, 0.2, 0.2]]
"""What the confident are predicted to be is the other class: added to the labelled, nothing is left."""


def test_many_groups_where_noise_is_small_and_few_where_it_is_large():
    finest = "labelled | confident | rest"
    sharp, blurred = planned(8.0, ALIKE), planned(0.25, ALIKE)
    assert sharp.gain[finest] >= max(sharp.gain.values()) - 2e-3
    assert blurred.gain[blurred.best] > blurred.gain[finest]
    assert "+" in blurred.best or blurred.best == "labelled"
    assert min(sharp.gain.values()) > max(blurred.gain.values())


def test_groups_that_contradict_each_other_are_kept_apart():
    found = planned(1.0, CROSSED)
    assert found.gain["labelled | confident"] > found.gain["labelled + confident"] + 0.05
    assert "labelled |" in found.best


def test_the_forecast_is_what_happens():
    """A label that is certain gains nothing; one that q leaves open at most log 2."""
    certain = planned(1.0, ALIKE, q=[[1.0 - 1e-6, 1e-6]])
    assert abs(certain.gain[certain.best]) < 1e-3
    assert certain.accuracy_without > 0.999
    found = planned(8.0, ALIKE, degree=60.0)
    assert 0.5 * math.log(2) < found.gain[found.best] <= math.log(2) + 1e-3
    assert 0.45 < found.accuracy_without < 0.55
    assert found.accuracy[found.best] > 0.9
    assert set(found.gain) == set(found.accuracy) == set(MERGES)


def test_shares_that_say_nothing_gain_nothing_and_an_epsilon_that_is_none_is_refused():
    found = planned(1.0, [[1 / 6] * 6] * 2)
    np.testing.assert_allclose(list(found.gain.values()), 0.0, atol=1e-5)
    with pytest.raises(ValueError, match="epsilon must be finite and > 0"):
        planned(-1.0, ALIKE)
