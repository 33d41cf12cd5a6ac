"""The wrapped normal: normalised by quadrature, drawn as its density says."""

import math

import jax
import numpy as np
import pytest
from scipy import integrate, special

from ldp_jax.hyperbolic import poincare, wrapped_normal
from tests import stats
from tests.hyperbolic import reference as ref

DENSITY = jax.jit(wrapped_normal.log_density, static_argnames="volume")


def test_normalised_in_five_dimensions():
    """Radially: the sphere of radius r has area (2 pi^(n/2) / Gamma(n/2)) (sinh(sqrt(c) r) /
    sqrt(c))^(n-1).
    """
    n = 5
    c = 0.5
    scale = 0.4
    area = 2 * math.pi ** (n / 2) / special.gamma(n / 2)
    r = np.linspace(0, 5, 4001)
    z = np.zeros((len(r), n), np.float32)
    z[:, 2] = np.tanh(math.sqrt(c) * r / 2) / math.sqrt(c)
    p = np.exp(ref.wide(DENSITY(z, np.zeros(n, np.float32), scale, c)))
    total = integrate.simpson(p * area * (np.sinh(math.sqrt(c) * r) / math.sqrt(c)) ** (n - 1), x=r)
    assert total == pytest.approx(1.0, abs=1e-4)


def test_samples_are_drawn_from_the_density():
    """Cells of the disk: mass of each by quadrature. Detects a share off by 0.02 at 40 000 draws of
    24 cells.

    The mean is off the origin and the scales differ: a transport that is missing or turned would be
    found.
    """
    c = 0.7
    mean = np.float32([0.5, -0.6])
    scale = np.float32([0.3, 0.9])
    draws = 40_000
    points, volume = ref.polar(10.0 / math.sqrt(c), ref.curvature(c), 600, 480)
    mass = np.exp(ref.wide(DENSITY(points.astype(np.float32), mean, scale, c))) * volume
    z = wrapped_normal.sample(jax.random.key(5), mean, scale, c, shape=(draws,))
    edges = np.array([0, 80, 120, 160, 600])
    bounds = np.tanh(math.sqrt(c) * (edges * 10.0 / math.sqrt(c) / 600) / 2) / math.sqrt(c)
    z = ref.wide(z)
    ring = np.searchsorted(bounds, np.linalg.norm(z, axis=1)) - 1
    ray = np.floor(np.arctan2(z[:, 1], z[:, 0]) % (2 * np.pi) / (2 * np.pi / 6)).astype(int)
    counts = np.bincount(ring * 6 + ray, minlength=24)
    by_cell = lambda mass: np.add.reduceat(mass, edges[:-1], 0).reshape(24, 80).sum(-1)
    cells = by_cell(mass)
    assert cells.sum() == pytest.approx(1.0, abs=2e-4)
    stats.assert_g(counts, cells / cells.sum())
    turned = by_cell(np.roll(mass, 80, 1))
    with pytest.raises(AssertionError):
        stats.assert_g(counts, turned / turned.sum())


def test_the_two_volumes_differ_by_the_conformal_factor():
    c = 0.7
    scale = np.float32([0.3, 0.9])
    mean = ref.points(np.random.default_rng(0), (50,), 2, 2.0, c)
    z = wrapped_normal.sample(jax.random.key(1), mean, scale, c)
    assert z.shape == (50, 2)
    of_space = DENSITY(z, mean, scale, c)
    of_coordinates = DENSITY(z, mean, scale, c, volume="coordinates")
    factor = poincare.conformal_factor(z, c)
    np.testing.assert_allclose(of_coordinates - of_space, 2 * np.log(factor), atol=1e-4)


def test_gradients_are_finite_and_samples_follow_their_parameters():
    place = lambda mean: wrapped_normal.sample(jax.random.key(0), mean, 1e-3)
    slopes = jax.grad(lambda z, mean, scale: wrapped_normal.log_density(z, mean, scale), (0, 1, 2))
    both = jax.jit(lambda z, mean: (slopes(z, mean, 0.5), jax.jacfwd(place)(0 * mean)))
    for z, mean in (([0.0, 0.0], [0.0, 0.0]), ([0.3, 0.2], [0.3, 0.2]), ([0.3, 0.2], [0.9, 0.1])):
        parts, moved = both(np.float32(z), np.float32(mean))
        assert all(np.isfinite(part).all() for part in parts)
        np.testing.assert_allclose(moved, np.eye(2), atol=1e-3)
