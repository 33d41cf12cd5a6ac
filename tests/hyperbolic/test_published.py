"""PoinDP's mechanism does what it says it does, and that is not private."""

import math

import jax
import numpy as np
import pytest
from scipy import stats

from ldp_jax import verification
from ldp_jax.core import mechanism as protocol
from ldp_jax.hyperbolic import PaperHyperbolicGaussian

EPSILON, DELTA = 0.9, 1e-4  # the theorem is about epsilon below 1


def test_it_promises_nothing():
    promised = PaperHyperbolicGaussian(EPSILON).guarantee()
    assert (promised.epsilon, promised.status) == (math.inf, "none")
    assert "impossible" in promised.reason


def test_some_reports_of_one_record_are_impossible_under_another():
    """The counter-example: noise is shorter than sigma, so that draws alone tell two records apart for certain."""
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
    # From epsilon 8.7 on the noise is shorter than 2 C: nothing that one end reports is possible under the other.
    wide = PaperHyperbolicGaussian(16.0, DELTA, dim=1)
    assert verification.hockey_stick(wide, 1.0) == pytest.approx(1.0, abs=1e-2)


def test_draws_have_its_law():
    assert verification.matches_density(PaperHyperbolicGaussian(EPSILON), jax.random.key(1), trials=20_000).fits
    assert verification.sums_to_one(PaperHyperbolicGaussian(EPSILON, dim=1)).statistic < 1e-5
