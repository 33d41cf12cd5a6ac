"""Gaussian noise in the tangent space: the law that is claimed is drawn, and costs what is
claimed.
"""

import dataclasses
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from ldp_jax import verification
from ldp_jax.accounting import gaussian
from ldp_jax.hyperbolic import HyperbolicGaussian, RadialAngularGaussian, poincare

MADE = {
    "radial and angular": lambda: RadialAngularGaussian(1.0, 1e-5, 1.5, 0.3),
    "radial": lambda: RadialAngularGaussian(1.0, 1e-5, radial_share=1.0),
    "angular": lambda: RadialAngularGaussian(1.0, 1e-5, radial_share=0.0),
}


@pytest.mark.parametrize("name", ["radial and angular", "radial"])
def test_delta_by_quadrature_is_the_curves(name):
    """Of the numbers whose laws differ between the worst records; of one, noise of 0.99 the scale
    is seen.
    """
    m = MADE[name]()
    delta = 1e-5
    claim = m.guarantee().epsilon
    assert 0.999 < claim <= 1.0
    assert m.curve().delta(claim) <= delta
    assert verification.hockey_stick(m, claim) == pytest.approx(delta, rel=2e-3)
    for field in dataclasses.fields(m):
        if field.name.startswith("sigma") and getattr(m, field.name) is not None:
            object.__setattr__(m, field.name, 0.99 * getattr(m, field.name))
    assert m.guarantee().epsilon > claim  # it is asked of the noise that there is
    if name == "radial":
        assert verification.hockey_stick(m, claim) > 1.01 * delta


@pytest.mark.parametrize("seed", [70, 87])
def test_noise_does_not_end_where_float32_draws_do(seed):
    """Ending at 5.2 sigma would leave 1 % of reports to one record alone, at epsilon 16 and a delta
    of 1e-5.
    """
    m = HyperbolicGaussian(16.0, 1e-5, dim=6000)
    assert norm.sf(5.220113 - 2 * m.clip / m.sigma) > 0.01
    noise = np.abs(np.asarray(m.privatize(jax.random.key(seed), jnp.zeros(m.dim)))) / m.sigma
    assert noise.max() > 5.166
    assert (np.abs(noise.max() - np.float32([5.419983, 5.220113])) > 1e-3).all()


def test_the_shortest_vectors_have_their_noise():
    """Reports of a clip of 1e-30 are those of 1, to 1e-5; of 1e-38 at epsilon 100 all were the
    record.
    """
    found = []
    for clip in (1e-30, 1.0):
        m = HyperbolicGaussian(100.0, 1e-5, clip=clip)
        found.append(m.privatize(jax.random.key(0), np.float32([clip, 0.0])) / np.float32(clip))
    np.testing.assert_allclose(*found, rtol=1e-5)


@pytest.mark.parametrize("name", ["radial", "angular"])
def test_draws_have_the_law(name):
    """Of 20 000 draws of a record beyond the clip."""
    m = MADE[name]()
    x = np.float32([3.0, 4.0])
    fit = verification.matches_density(m, jax.random.key(0), x, trials=20_000)
    assert fit.fits, str(fit)
    y = np.float32([1.1, -3.0, 7.0])[: m.codomain().dim]
    wanted = norm.logpdf(y, m._centre(x), m._scales()).sum()
    assert float(m.log_density(y, x)) == pytest.approx(wanted, rel=1e-5)


def test_without_noise_estimates_are_the_points():
    """A clip C is a radius 2 C of the ball."""
    v = jnp.array([[0.3, 0.4], [30.0, 40.0], [0.0, 0.0]])
    # The direction is of length 1, for which its noise is made, and the radius at most C.
    sent = jax.jit(jax.vmap(RadialAngularGaussian(1.0, 1e-5, clip=1.3)._centre))(v)
    wanted = [[0.5, 0.6, 0.8], [1.3, 0.6, 0.8], [0.0, 1.0, 0.0]]
    np.testing.assert_allclose(sent, wanted, rtol=1e-6)
    for m in (HyperbolicGaussian(1.0, 1e-5), RadialAngularGaussian(1.0, 1e-5)):
        points = jax.jit(jax.vmap(lambda x, m=m: m.estimate(m._centre(x))))(v)
        np.testing.assert_allclose(points[0], np.asarray(poincare.exp_0(v[0])), rtol=1e-5)
        assert float(poincare.norm(points[1])) == pytest.approx(2.0, rel=1e-4)
        np.testing.assert_allclose(points[2], 0.0, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "clip"), [("hyperbolic", 0.1), ("hyperbolic", 1.3), ("radial", 0.7)]
)
def test_the_claim_is_of_the_length_that_records_are_clipped_to(name, clip):
    """Float32 has none of these numbers; a claim that is short by 1e-9 of itself is seen."""
    if name == "hyperbolic":
        m = HyperbolicGaussian(1.0, 1e-5, clip, dim=1)
        sigma = m.sigma
        records = (9.0, -9.0)
    else:
        m = RadialAngularGaussian(1.0, 1e-5, clip, 1.0, dim=1)
        sigma = m.sigma_radius
        records = (9.0, 0.0)
    ends = [float(m._centre(jnp.array([record]))[0]) for record in records]
    spread = Fraction(np.ptp(ends)) / Fraction(sigma)
    assert spread <= Fraction(m.curve().mu) <= Fraction(gaussian.gaussian_mu(1.0, 1e-5))
    assert m.domain().radius == np.float32(m.domain().radius) >= clip


@pytest.mark.parametrize("name", MADE)
def test_an_estimate_lies_on_the_reported_ray_at_a_radius_that_records_have(name):
    """Radii are from -3 C to 3 C: below 0 the estimate is the origin, beyond C it is at C."""
    m = MADE[name]()
    sends_radius = m.radial_share > 0
    sends_angle = m.radial_share < 1
    radius = m.clip * np.linspace(-3.0, 3.0, 25).astype(np.float32)[:, None]
    angle = np.linspace(0.0, 6.0, 25)
    along = np.stack([np.cos(angle), np.sin(angle)], 1).astype(np.float32)
    sent = [part for part, is_sent in ((radius, sends_radius), (2 * along, sends_angle)) if is_sent]
    ray = along if sends_angle else np.float32([[1.0, 0.0]])
    held = np.clip(radius, 0.0, m.clip) if sends_radius else m.clip / 2
    wanted = poincare.exp_0(jnp.asarray(held * ray))
    found = np.broadcast_to(m.estimate(jnp.concatenate(sent, -1)), wanted.shape)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
