"""The exponential mechanism of a hyperbolic disc: its normaliser, its losses and its draws, near
the rim too.
"""

import dataclasses
import math

import jax
import numpy as np
import pytest
from scipy import stats

from ldp_jax.hyperbolic import HyperbolicExponential
from ldp_jax.hyperbolic.exponential import _ORDER, _series
from tests.hyperbolic import reference as ref

LOGS = jax.jit(lambda m, y, x: jax.vmap(lambda one: m.log_density(one, x))(y))


def rings(radius, c, count=400, rays=400):
    points, area = ref.polar(radius, c, count, rays)
    return points.reshape(-1, 2), np.repeat(area, rays)


@pytest.mark.parametrize(
    ("epsilon", "radius", "c", "share"), [(1.0, 2.0, 1.0, 0.0), (8.0, 4.0, 0.5, 0.6)]
)
def test_the_density_is_the_exponential_of_the_distance(epsilon, radius, c, share):
    """Its normaliser is a sum over 160 000 cells about the origin: to 2e-3 of it."""
    # The rim is that of the copy.
    m = dataclasses.replace(HyperbolicExponential(4.0), epsilon=epsilon, radius=radius, c=c)
    y, area = rings(radius, c)
    x = np.array([0.8, -0.6]) * share * m.rim
    with jax.enable_x64(True):
        wide = jax.tree.map(jax.numpy.float64, m)
        logs = np.asarray(LOGS(wide, y, x))
    distance = ref.close_distance(y, x, c)
    factor = 2 / ref.gap(y, c)[..., 0]
    expected = -epsilon / (2 * radius) * distance
    expected -= math.log((np.exp(expected) * area).sum())
    np.testing.assert_allclose(logs - 2 * np.log(factor), expected, atol=2e-3)
    short = np.asarray(LOGS(m, y.astype(np.float32), x.astype(np.float32)))
    near = distance < 3.9
    np.testing.assert_allclose(short[near], logs[near], atol=1e-4)


def test_the_smallest_disc_has_the_law_of_a_flat_one():
    """Of 2 000 draws about a record at the rim: to 1e-3 of the radius. Of a radius of 1e-13 all
    were the record.
    """
    keys = jax.random.key_data(jax.random.split(jax.random.key(0), 2000))
    found = []
    for radius in (1e-6, 1e-3):
        m = HyperbolicExponential(10.0, radius)
        x = np.float32([m.rim, 0.0])
        draw = jax.jit(
            jax.vmap(lambda key, m=m, x=x: m.privatize(jax.random.wrap_key_data(key), x))
        )
        found.append(np.asarray(draw(keys)) / m.rim)
    np.testing.assert_allclose(found[0], found[1], atol=1e-3)
    assert found[0].std() > 0.1


def test_a_series_is_that_of_legendres_polynomials():
    rng = np.random.default_rng(0)
    coefficients = rng.normal(size=_ORDER + 1).astype(np.float32)
    t = np.linspace(-1, 1, 101, dtype=np.float32)
    found = _series(*map(jax.numpy.asarray, (coefficients, t)))
    wanted = np.polynomial.legendre.legval(t, coefficients)
    np.testing.assert_allclose(found, wanted, atol=1e-4)


@pytest.mark.parametrize("share", [0.0, 0.7])
def test_draws_are_as_far_from_the_record_and_from_the_origin_as_the_density_says(share):
    """20 000 draws: a share that is off by 0.02 has p below 1e-6."""
    m = HyperbolicExponential(3.0, 2.0)
    x = np.float32([0.6, -0.8]) * share * m.rim
    keys = jax.random.key_data(jax.random.split(jax.random.key(1), 20_000))
    draw = lambda words, x: m.privatize(jax.random.wrap_key_data(words), x)
    drawn = np.asarray(jax.jit(jax.vmap(draw, (0, None)))(keys, x))
    y, area = rings(2.0, 1.0)
    logs = np.asarray(LOGS(m, y.astype(np.float32), x), np.float64)
    mass = np.exp(logs) * area * (ref.gap(y, 1.0)[..., 0] / 2) ** 2  # a density of flat area
    mass /= mass.sum()
    for far in (
        lambda z: ref.close_distance(z, x, 1.0),
        lambda z: z @ [0.6, -0.8],
        lambda z: z[:, 0],
    ):
        order = np.argsort(far(y))
        law = lambda z, far=far, order=order: np.interp(z, far(y)[order], mass[order].cumsum())
        assert stats.kstest(far(drawn.astype(np.float64)), law).pvalue > 1e-6


def test_losses_are_at_most_the_budget_and_the_rate_times_the_distance():
    """Over 400 random pairs of records, some of them close, at 1600 reports each; the budget is
    attained.
    """
    epsilon = 10.0
    radius = 6.0
    c = 0.5
    m = HyperbolicExponential(epsilon, radius, c)
    rate = m.metric_guarantee().epsilon
    assert str(m.metric_guarantee().unit).startswith("metric")
    assert rate == pytest.approx(epsilon / radius)
    rng = np.random.default_rng(0)
    y = np.concatenate([rings(radius, c, 40, 40)[0], m.domain().critical_records()])
    x = m.domain().sample(rng, 400).astype(np.float64)
    x[:5] = m.domain().critical_records()
    other = np.concatenate([-x[:100], x[200:300], x[:100], x[300:] * 0.98])
    with jax.enable_x64(True):
        wide = jax.tree.map(jax.numpy.float64, m)
        logs = jax.jit(jax.vmap(LOGS, in_axes=(None, None, 0)))
        loss = np.asarray(logs(wide, y, x)) - np.asarray(logs(wide, y, other))
    distance = ref.close_distance(x, other, c)
    assert np.abs(loss).max() <= epsilon * (1 + 1e-9)
    assert (np.abs(loss).max(1) <= rate * distance * (1 + 1e-9)).all()
    assert np.abs(loss).max() == pytest.approx(epsilon, rel=1e-9)


def test_slopes_in_the_record_are_finite_at_the_origin_and_at_the_rim():
    m = HyperbolicExponential(2.0)
    y = np.float32([0.3, 0.2])
    both = jax.jit(jax.value_and_grad(lambda x: m.log_density(y, x)))
    at = lambda first: [np.asarray(found) for found in both(np.float32([first, 0.0]))]
    for first in (0.0, 1e-3, float(m.rim) * (1 - 1e-6)):
        assert np.isfinite(at(first)[1]).all()
    # Of one that is near the origin: that of the distance alone, the normaliser is flat there.
    near = at(1e-3)[1]
    h = 1e-2
    difference = (at(1e-3 + h)[0] - at(1e-3 - h)[0]) / (2 * h)
    np.testing.assert_allclose(near[0], difference, rtol=0.02)
    np.testing.assert_allclose(at(0.0)[1][0], near[0], rtol=0.02)
