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
from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.pytree import mechanism
from ldp_jax.hyperbolic import HyperbolicGaussian, RadialAngularGaussian, poincare
from tests.stats import SIGMAS

MADE = {
    "hyperbolic": lambda e=1.0, d=1e-5, dim=2: HyperbolicGaussian(e, d, 1.5, dim=dim),
    "radial and angular": lambda e=1.0, d=1e-5, dim=2: RadialAngularGaussian(e, d, 1.5, 0.3, dim=dim),
    "radial": lambda e=1.0, d=1e-5, dim=2: RadialAngularGaussian(e, d, radial_share=1.0, dim=dim),
    "angular": lambda e=1.0, d=1e-5, dim=2: RadialAngularGaussian(e, d, radial_share=0.0, dim=dim),
}
every = pytest.mark.parametrize("name", MADE)


@pytest.mark.parametrize(
    ("name", "epsilon"), [("hyperbolic", 1e-3), ("radial and angular", 1.0), ("radial", 8.0), ("angular", 50.0)]
)
def test_the_claim_is_the_budget(name, epsilon):
    m = MADE[name](epsilon)
    promised = m.guarantee()
    assert 0.999 * epsilon < promised.epsilon <= epsilon
    assert promised.delta == 1e-5
    assert (promised.status, promised.arithmetic, str(promised.unit)) == ("proved", "ideal", "record")
    assert promised.adjacency.startswith("any two")


@pytest.mark.parametrize(
    ("name", "epsilon", "delta", "dim"),
    [
        ("hyperbolic", 0.1, 1e-3, 2),
        ("hyperbolic", 8.0, 1e-6, 5),
        ("radial and angular", 1.0, 1e-5, 2),
        ("radial", 1.0, 1e-5, 2),
    ],
)
def test_delta_by_quadrature_is_the_curves(name, epsilon, delta, dim):
    """Of the numbers whose laws differ between the worst records; noise of 0.99 the scale is seen."""
    m = MADE[name](epsilon, delta, dim)
    claim = m.guarantee().epsilon
    assert m.curve().delta(claim) <= delta
    assert verification.hockey_stick(m, claim) == pytest.approx(delta, rel=2e-3)
    fields = [field.name for field in dataclasses.fields(m) if field.name.startswith("sigma")]
    for scale in fields:
        if getattr(m, scale) is not None:
            object.__setattr__(m, scale, 0.99 * getattr(m, scale))
    assert verification.hockey_stick(m, claim) > 1.01 * delta
    assert m.guarantee().epsilon > claim  # it is asked of the noise that there is


def test_delta_by_an_independent_quadrature():
    """In one dimension, of both ends of a diameter, by the trapezoid rule."""
    m = HyperbolicGaussian(1.0, 1e-3, 1.5, dim=1)
    with float64_on_cpu():
        log = jax.jit(lambda y, x: jax.vmap(lambda one: m.log_density(one, x))(y))
        y = np.linspace(-90.0, 90.0, 200_001)[:, None]
        p, q = (np.exp(np.asarray(log(y, np.array([x])))) for x in (-1.5, 1.5))
    assert np.trapezoid(np.maximum(p - np.e * q, 0), y[:, 0]) == pytest.approx(1e-3, rel=1e-4)


@mechanism
class Stretched(HyperbolicGaussian):
    """Twin: noise that is wider along the record, as a learned or adaptive allocation has it."""

    def log_density(self, y, x):
        """Coordinates are scaled by what the record has in them."""
        centre = self._centre(x)
        scale = self._scales() * (1 + jnp.abs(centre) / self.clip) / jnp.sqrt(2.0)
        gap = (jnp.asarray(y) - centre) / scale
        return (-0.5 * gap**2 - jnp.log(scale) - 0.5 * np.log(2 * np.pi)).sum(-1)


def test_noise_that_is_stretched_along_the_record_is_refused():
    """The claimed delta is 1e-5; that of the law is far more."""
    m = Stretched(1.0, 1e-5)
    assert verification.hockey_stick(m, m.guarantee().epsilon) > 0.1


@every
def test_draws_have_the_law(name):
    """Of 20 000 draws of a record beyond the clip: means and variances to five standard errors."""
    m = MADE[name]()
    x = np.tile(np.float32([3.0, 4.0]), (20_000, 1))
    y = np.asarray(protocol.privatize(jax.random.key(0), m, x))
    centre, scale = np.asarray(m._centre(x[0])), np.asarray(m._scales())
    assert (np.abs(y.mean(0) - centre) < SIGMAS * scale / np.sqrt(20_000)).all()
    assert (np.abs(y.std(0) / scale - 1) < SIGMAS / np.sqrt(40_000)).all()


@pytest.mark.parametrize("name", ["hyperbolic", "radial and angular"])
def test_estimates_are_in_the_ball_whatever_is_reported(name):
    m = MADE[name](0.01)
    y = protocol.privatize(jax.random.key(2), m, np.tile(np.float32([0.1, -0.2]), (100, 1)))
    points = np.asarray(jax.vmap(m.estimate)(y))
    assert (np.linalg.norm(points, axis=1) < 1).all()
    assert np.isfinite(np.asarray(poincare.norm(jnp.asarray(points)))).all()


def test_without_noise_estimates_are_the_points():
    """A clip C is a radius 2 C of the ball."""
    v = jnp.array([[0.3, 0.4], [30.0, 40.0], [0.0, 0.0]])
    for m in (HyperbolicGaussian(1.0, 1e-5), RadialAngularGaussian(1.0, 1e-5)):
        points = jax.vmap(lambda x, m=m: m.estimate(m._centre(x)))(v)
        np.testing.assert_allclose(points[0], np.asarray(poincare.exp_0(v[0])), rtol=1e-5)
        assert float(poincare.norm(points[1])) == pytest.approx(2.0, rel=1e-4)
        np.testing.assert_allclose(points[2], 0.0, atol=1e-6)


def test_two_gaussians_are_one():
    m = RadialAngularGaussian(2.0, 1e-6, 0.7, 0.2, dim=3)
    exact = gaussian.gaussian_mu(2.0, 1e-6)
    assert m.curve().mu == pytest.approx(exact, rel=1e-6)
    assert (0.7 / m.sigma_radius) ** 2 == pytest.approx(0.2 * exact**2, rel=1e-6)


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


@pytest.mark.parametrize("make", [HyperbolicGaussian, RadialAngularGaussian])
def test_public_budgets_are_stacks(make):
    """One budget a node, from a public hierarchy: ``vmap``; what each gets is what its budget alone gives."""
    budgets = np.float32([0.5, 2.0, 0.5, 1.0])
    m = make(budgets, 1e-5, 1.2)
    assert {np.shape(leaf) for leaf in jax.tree.leaves(m)} == {(4,)}
    assert 1.999 < m.guarantee().epsilon <= 2.0
    x = np.tile(np.float32([0.3, -0.8]), (4, 1))
    keys = jax.random.split(jax.random.key(3), 4)
    y = jax.jit(jax.vmap(lambda one, key, v: one.privatize(key, v)))(m, keys, x)
    points = jax.jit(jax.vmap(lambda one, report: one.estimate(report)))(m, y)
    assert points.shape == (4, 2)
    logs = jax.jit(jax.vmap(lambda one, report, v: one.log_density(report, v)))(m, y, x)
    for place, epsilon in enumerate(budgets.tolist()):
        single = make(epsilon, 1e-5, 1.2)
        alone = single.privatize(jax.random.split(jax.random.key(3), 4)[place], x[place])
        np.testing.assert_allclose(y[place], alone, rtol=2e-5, atol=2e-5)
        assert float(logs[place]) == pytest.approx(
            float(single.log_density(y[place], x[place])), rel=1e-4, abs=1e-4
        )
    with pytest.raises(ValueError, match="holds a stack"):
        protocol.privatize(jax.random.key(3), m, x)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: HyperbolicGaussian(1.0, 0.0), r"delta must be in \[1e-300, 1\), got 0"),
        (lambda: HyperbolicGaussian(1000.0, 0.1), "epsilon must be"),
        (lambda: HyperbolicGaussian(1.0, 0.1, 0.0), "clip must be finite and > 0, got 0"),
        (lambda: HyperbolicGaussian(1.0, 0.1, np.array([1.0, 2.0])), "clip must be one number"),
        (lambda: HyperbolicGaussian(1.0, 0.1, dim=0), "dim must be"),
        (lambda: HyperbolicGaussian(1.0, 0.1, c=-1.0), "c must be"),
        (lambda: RadialAngularGaussian(1.0, 0.1, 1.0, 1.5), r"radial_share must be in \[0, 1\], got 1.5"),
        (lambda: jax.vmap(lambda e: HyperbolicGaussian(e, 0.1).sigma)(jnp.ones(2)), "epsilon must be concrete"),
        (lambda: HyperbolicGaussian(1.0, 0.1).privatize(jax.random.key(0), jnp.zeros(3)), "x must be one record"),
        (lambda: HyperbolicGaussian(np.ones(2), 0.1).privatize(jax.random.key(0), jnp.zeros(2)), "holds a stack"),
        (lambda: jax.tree.map(lambda leaf: -leaf, HyperbolicGaussian(1.0, 0.1)).guarantee(), "epsilon must be"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
