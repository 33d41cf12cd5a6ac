"""Gaussian noise in the tangent space: the law that is claimed is drawn, and costs what is claimed."""

import dataclasses
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import verification
from ldp_jax.accounting import gaussian
from ldp_jax.core import mechanism as protocol
from ldp_jax.hyperbolic import HyperbolicGaussian, RadialAngularGaussian, poincare
from tests.stats import SIGMAS

MADE = {
    "hyperbolic": lambda e=1.0, d=1e-5, dim=2: HyperbolicGaussian(e, d, 1.5, dim=dim),
    "radial and angular": lambda e=1.0, d=1e-5, dim=2: RadialAngularGaussian(e, d, 1.5, 0.3, dim=dim),
    "radial": lambda e=1.0, d=1e-5, dim=2: RadialAngularGaussian(e, d, radial_share=1.0, dim=dim),
    "angular": lambda e=1.0, d=1e-5, dim=2: RadialAngularGaussian(e, d, radial_share=0.0, dim=dim),
}


@pytest.mark.parametrize(
    ("name", "epsilon", "delta", "dim"),
    [
        ("radial and angular", 1.0, 1e-5, 2),
    ],
)
def test_delta_by_quadrature_is_the_curves(name, epsilon, delta, dim):
    """Of the numbers whose laws differ between the worst records; noise of 0.99 the scale is seen."""
    m = MADE[name](epsilon, delta, dim)
    claim = m.guarantee().epsilon
    assert 0.999 * epsilon < claim <= epsilon
    assert m.curve().delta(claim) <= delta
    assert verification.hockey_stick(m, claim) == pytest.approx(delta, rel=2e-3)
    fields = [field.name for field in dataclasses.fields(m) if field.name.startswith("sigma")]
    for scale in fields:
        if getattr(m, scale) is not None:
            object.__setattr__(m, scale, 0.99 * getattr(m, scale))
    assert verification.hockey_stick(m, claim) > 1.01 * delta
    assert m.guarantee().epsilon > claim  # it is asked of the noise that there is


@pytest.mark.parametrize("name", ["radial", "angular"])
def test_draws_have_the_law(name):
    """Of 20 000 draws of a record beyond the clip: means and variances to five standard errors."""
    m = MADE[name]()
    x = np.tile(np.float32([3.0, 4.0]), (20_000, 1))
    y = np.asarray(protocol.privatize(jax.random.key(0), m, x))
    centre, scale = np.asarray(m._centre(x[0])), np.asarray(m._scales())
    assert (np.abs(y.mean(0) - centre) < SIGMAS * scale / np.sqrt(20_000)).all()
    assert (np.abs(y.std(0) / scale - 1) < SIGMAS / np.sqrt(40_000)).all()


def test_without_noise_estimates_are_the_points():
    """A clip C is a radius 2 C of the ball."""
    v = jnp.array([[0.3, 0.4], [30.0, 40.0], [0.0, 0.0]])
    for m in (HyperbolicGaussian(1.0, 1e-5), RadialAngularGaussian(1.0, 1e-5)):
        points = jax.vmap(lambda x, m=m: m.estimate(m._centre(x)))(v)
        np.testing.assert_allclose(points[0], np.asarray(poincare.exp_0(v[0])), rtol=1e-5)
        assert float(poincare.norm(points[1])) == pytest.approx(2.0, rel=1e-4)
        np.testing.assert_allclose(points[2], 0.0, atol=1e-6)


@pytest.mark.parametrize(("name", "clip"), [("hyperbolic", 0.1), ("hyperbolic", 1.3), ("radial", 0.7)])
def test_the_claim_is_of_the_length_that_records_are_clipped_to(name, clip):
    """Float32 has none of these numbers; a claim that is short by 1e-9 of itself is seen."""
    if name == "hyperbolic":
        m, sigma = HyperbolicGaussian(1.0, 1e-5, clip, dim=1), "sigma"
    else:
        m, sigma = RadialAngularGaussian(1.0, 1e-5, clip, 1.0, dim=1), "sigma_radius"
    ends = [float(m._centre(jnp.array([end]))[0]) for end in ((9.0, -9.0) if name == "hyperbolic" else (9.0, 0.0))]
    spread = Fraction(np.ptp(ends)) / Fraction(getattr(m, sigma))
    assert spread <= Fraction(m.curve().mu) <= Fraction(gaussian.gaussian_mu(1.0, 1e-5))
    assert m.domain().radius == np.float32(m.domain().radius) >= clip
