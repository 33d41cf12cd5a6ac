"""PoinDP's mechanism does what it says it does, and that is not private; its local sensitivities,
against loops.
"""

import math

import jax
import numpy as np
import pytest
from scipy import stats

from ldp_jax import verification
from ldp_jax.core import mechanism as protocol
from ldp_jax.hyperbolic import PaperHyperbolicGaussian, sensitivity
from tests.hyperbolic import reference as ref

EPSILON, DELTA = 0.9, 1e-4  # the theorem is about epsilon below 1


def test_some_reports_of_one_record_are_impossible_under_another():
    """The counter-example: noise is shorter than sigma, so that draws alone tell two records apart
    for certain.
    """
    m = PaperHyperbolicGaussian(EPSILON, DELTA)
    x, other = m.domain().extremes()
    y = np.asarray(protocol.privatize(jax.random.key(0), m, np.tile(x, (20_000, 1))))
    sigma = float(m.sigma)
    assert np.abs(y - x).max() < sigma
    beyond = (np.abs(y - other) >= sigma).any(1)
    shift = 2 / sigma  # of the first number, in units of sigma
    expected = stats.norm.sf(2 * math.atanh(1 - shift))
    assert beyond.mean() == pytest.approx(expected, abs=5 * math.sqrt(expected / len(y)))
    assert expected > 100 * DELTA
    assert verification.privacy_loss_supremum(m).epsilon == math.inf
    # Whatever the epsilon, this mass stays, where 1e-4 is printed.
    assert verification.hockey_stick(m, 100.0) == pytest.approx(expected, rel=1e-3)
    # From epsilon 8.7 on the noise is shorter than 2 C: nothing that one end reports is possible
    # under the other.
    wide = PaperHyperbolicGaussian(16.0, DELTA, dim=1)
    assert verification.hockey_stick(wide, 1.0) == pytest.approx(1.0, abs=1e-2)


def test_draws_have_its_law():
    """Of a record beyond the clip."""
    m = PaperHyperbolicGaussian(EPSILON, 1e-3, clip=1.7)
    sigma = math.sqrt(2 * math.log(1.25e3)) * 2 * 1.7 / EPSILON
    assert float(m.sigma) == pytest.approx(sigma, rel=1e-6)
    x = np.float32([3.0, -4.0])
    assert verification.matches_density(m, jax.random.key(1), x, trials=20_000).fits
    assert verification.sums_to_one(PaperHyperbolicGaussian(EPSILON, dim=1)).statistic < 1e-5


C = 0.5
POINTS = ref.points(np.random.default_rng(0), (37,), 3, 4.0, C)


def test_the_radius_and_the_direction():
    radius = ref.norm(POINTS, C)
    pairs = np.abs(radius[:, None] - radius)
    np.testing.assert_allclose(
        sensitivity.inter_hierarchy_of_nodes(POINTS, C), pairs.max(1), rtol=1e-5
    )
    unit = ref.wide(POINTS) / ref.length(POINTS)
    pairs = np.abs(unit @ unit.T)
    np.fill_diagonal(pairs, 0)
    np.testing.assert_allclose(
        sensitivity.intra_hierarchy_of_nodes(POINTS, chunk=10), pairs.max(1), rtol=1e-5
    )


def test_opposite_directions_are_as_correlated_and_the_origin_has_none():
    points = np.float32([[0, 0], [0.5, 0], [-0.1, 0], [0, 0.3]])
    np.testing.assert_allclose(
        sensitivity.intra_hierarchy_of_nodes(points), [0, 1, 1, 0], atol=1e-7
    )
