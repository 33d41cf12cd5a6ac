"""Gaussian noise for hyperbolic vectors, in the tangent space at the origin."""

import abc
import dataclasses
from functools import lru_cache
from typing import TypeVar

import jax  # noqa: F401 - the examples below
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from ldp_jax.accounting.gaussian import GaussianCurve, gaussian_mu
from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import random_words, validate
from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.spaces import Vectors
from ldp_jax.core.types import Array, PRNGKey, Record, Report, Scalar
from ldp_jax.hyperbolic import poincare
from ldp_jax.hyperbolic._tangent import Tangent, one, spread

_T = TypeVar("_T")
_mu = lru_cache(maxsize=4096)(gaussian_mu)


def _up(value: float) -> float:
    """The least float32 that is not below.

    Devices neither clip wider nor draw less noise than is claimed.
    """
    near = np.float32(value)
    if float(near) < value:
        near = np.nextafter(near, np.float32(np.inf))
    return float(near)


@mechanism
class _Gaussian(Tangent):
    """A mechanism on tangent vectors whose report is Gaussian; abstract."""

    delta: float = static()
    clip: Scalar = 1.0

    @property
    def _most(self) -> float:
        """C in float32, rounded up: records are clipped to it, and noise is made for it."""
        return _up(one(clip=self.clip))

    def _check(self) -> None:
        validate.require(
            validate.concrete(self.epsilon),
            "epsilon must be concrete numbers: noise is calibrated on the host; give an array "
            "of budgets to one call, and vmap over the stack that it makes",
        )
        super()._check()
        validate.number(1e-300, 1.0, open_upper=True, delta=self.delta)
        self._calibrate()
        spread(self, "clip", "c")

    @abc.abstractmethod
    def _calibrate(self) -> None:
        """Set the scales, where they are not set yet."""

    def _set_scale(self, name: str, sensitivity: float) -> None:
        """The smallest noise for a share of the budgets.

        The sensitivity is over the root of that share.
        """
        if getattr(self, name) is None:
            budgets = np.asarray(self.epsilon, np.float64)
            levels, place = np.unique(budgets, return_inverse=True)
            scales = [_up(sensitivity / _mu(level, self.delta)) for level in levels.tolist()]
            made = scales[0]
            if budgets.ndim:
                made = jnp.asarray(np.array(scales)[place].reshape(budgets.shape), jnp.float32)
            object.__setattr__(self, name, made)
        validate.positive(**{name: getattr(self, name)})

    @abc.abstractmethod
    def _scales(self) -> Array:
        """The standard deviation of each number of a report."""

    @abc.abstractmethod
    def _centre(self, x: Record) -> Array:
        """The report without noise."""

    @abc.abstractmethod
    def curve(self) -> GaussianCurve:
        """All (epsilon, delta), for the least noise of a stack."""

    def _report(self, key: PRNGKey, x: Array) -> Array:
        centre = self._centre(x)
        noise = random_words.normal(key, centre.shape)
        return centre + self._scales().astype(noise.dtype) * noise

    def log_density(self, y: Record, x: Record) -> Float[Array, ""]:
        """log p(y | x) in the tangent space, with respect to its Lebesgue measure."""
        scale = self._scales()
        noise = (jnp.asarray(y) - self._centre(x)) / scale
        log_densities = -0.5 * noise**2 - jnp.log(scale) - 0.5 * np.log(2 * np.pi)
        return log_densities.sum(-1)

    def guarantee(self) -> Guarantee:
        """The curve's point at ``delta``: at most (epsilon, delta); the largest of a stack."""
        self._check()
        adjacency = f"any two tangent vectors of length at most {self._most:g}"
        return self.curve().guarantee(self.delta, adjacency=adjacency)


def _least(sigma: Scalar | None) -> float:
    return float(np.min(np.asarray(sigma, np.float64)))


@mechanism
class HyperbolicGaussian(_Gaussian):
    r"""Report a hyperbolic vector as its tangent vector at the origin, with Gaussian noise.

    Law: the record is :math:`v = \log_0(x)`, shortened to :math:`|v| \le C`; the report is
    :math:`v + N(0, \sigma^2 I)`, which :meth:`estimate` maps to the ball. As
    :math:`d(0, \exp_0 v) = 2 |v|`, C is a Poincaré radius of 2 C.
    Guarantee: (epsilon, delta) per record, by the analytic calibration with L2 sensitivity 2 C. The
    record must be a function of the user's data and public parameters: no aggregation of neighbours
    before the noise.
    Utility: the report is unbiased for the shortened v, :math:`\sigma = 2 C / \mu(\epsilon,
    \delta)` a coordinate (7.46 C at epsilon 1, delta 1e-5). Its point in the ball is not: the map
    bends the noise, and a mean of points is nearer the origin.
    Numerics: sigma is rounded up to a float32; noise ends at 18 sigma, beyond a mass of 1e-75.
    Ideal arithmetic.
    Reference: PoinDP (Wei et al., AAAI 2024), whose Theorem 1 does not hold; Balle & Wang, ICML
    2018, Theorem 8.

    Epsilon is in (0, 100], concrete; an array [n] for public budgets. -c is the curvature.

    >>> m = HyperbolicGaussian(1.0, 1e-5, clip=1.0)
    >>> round(m.sigma, 4), 0.999 < m.guarantee().epsilon <= 1.0, m.guarantee().delta
    (7.4613, True, 1e-05)
    """

    dim: int = static(default=2)
    c: Scalar = 1.0
    sigma: PyTree = dataclasses.field(init=False, default=None)

    def _calibrate(self) -> None:
        self._set_scale("sigma", 2 * self._most)

    def _scales(self) -> Array:
        return jnp.full(self.dim, jnp.asarray(self.sigma, jnp.result_type(float)))

    def _centre(self, x: Record) -> Array:
        return self.domain().clip(x)

    def curve(self) -> GaussianCurve:
        """L2 sensitivity 2 C, the least noise of a stack."""
        return GaussianCurve.of(2 * self._most, _least(self.sigma))


@mechanism
class RadialAngularGaussian(_Gaussian):
    r"""Report the length and the direction of a tangent vector apart, each with Gaussian noise.

    Law: with :math:`\rho = \min(|v|, C)` and :math:`u = v / |v|` (the first axis where v = 0), the
    report is :math:`\rho + N(0, \sigma_r^2)` and :math:`u + N(0, \sigma_a^2 I)`,
    :math:`\sigma_r = C / (\mu \sqrt s)`, :math:`\sigma_a = 2 / (\mu \sqrt{1 - s})`, :math:`\mu` of
    (epsilon, delta). Share 0: no radius; 1: no direction.
    Guarantee: (epsilon, delta) per record: the two Gaussians are one of
    :math:`\mu^2 = (C / \sigma_r)^2 + (2 / \sigma_a)^2`. The share must be public, and noise must
    not be stretched along a record.
    Utility: at a share near 1 the radius has noise of :math:`C / \mu`, half of
    :class:`HyperbolicGaussian`'s.
    Numerics: as :class:`HyperbolicGaussian`.
    Reference: PoinDP's inter- and intra-hierarchy noise (eq. 12-14) in a sound form; Balle & Wang,
    ICML 2018.

    Arguments are as of :class:`HyperbolicGaussian`, and s, ``radial_share``.

    >>> m = RadialAngularGaussian(1.0, 1e-5, clip=1.0, radial_share=0.5)
    >>> y = m.privatize(jax.random.key(0), jnp.array([0.5, 0.0]))
    >>> 0.999 < m.guarantee().epsilon <= 1.0, y.shape
    (True, (3,))
    """

    radial_share: float = static(default=0.5)
    dim: int = static(default=2)
    c: Scalar = 1.0
    sigma_radius: PyTree = dataclasses.field(init=False, default=None)
    sigma_angle: PyTree = dataclasses.field(init=False, default=None)

    def _calibrate(self) -> None:
        share = validate.number(0.0, 1.0, radial_share=self.radial_share)
        if share > 0:
            self._set_scale("sigma_radius", self._most / np.sqrt(share))
        if share < 1:
            self._set_scale("sigma_angle", 2.0 / np.sqrt(1 - share))

    def _sent(self, radius: _T, angle: _T) -> list[_T]:
        """One of the two, or both, by the share."""
        if self.radial_share == 0:
            return [angle]
        if self.radial_share == 1:
            return [radius]
        return [radius, angle]

    def _scales(self) -> Array:
        sizes = self._sent((self.sigma_radius, 1), (self.sigma_angle, self.dim))
        kind = jnp.result_type(float)
        scales = [jnp.full(size, jnp.asarray(sigma, kind)) for sigma, size in sizes]
        return jnp.concatenate(scales)

    def _centre(self, x: Record) -> Array:
        v = self.domain().clip(x)
        most = jnp.abs(v).max(-1, keepdims=True)
        some = most > 0
        scaled = v / jnp.where(some, most, 1.0)
        length = jnp.sqrt((scaled**2).sum(-1, keepdims=True))

        first = jnp.zeros_like(v).at[..., 0].set(1.0)
        unit = jnp.where(some, scaled / jnp.where(some, length, 1.0), first)
        radius = jnp.minimum(most * length, jnp.asarray(self.clip, v.dtype))
        return jnp.concatenate(self._sent(radius, unit), -1)

    def curve(self) -> GaussianCurve:
        """Both Gaussians as one."""
        sent = self._sent((self._most, self.sigma_radius), (2.0, self.sigma_angle))
        curves = [GaussianCurve.of(sensitivity, _least(sigma)) for sensitivity, sigma in sent]
        return curves[0].compose(*curves[1:])

    def codomain(self) -> Vectors:
        """The noisy radius and the noisy direction, where they are sent."""
        return Vectors(sum(self._sent(1, self.dim)))

    def estimate(self, y: Report) -> Float[Array, "*batch dim"]:
        """The ball's point at the reported radius in [0, C] and in the reported direction.

        Where they are not sent, the radius is C / 2 and the direction the first axis.
        """
        y = jnp.asarray(y)
        clip = jnp.asarray(self.clip, y.dtype)
        if self.radial_share > 0:
            radius = jnp.clip(y[..., :1], 0.0, clip)
            angle = y[..., 1:]
        else:
            radius = clip / 2
            angle = y
        if self.radial_share < 1:
            length = jnp.sqrt((angle**2).sum(-1, keepdims=True))
            unit = angle / jnp.where(length > 0, length, 1.0)
        else:
            unit = jnp.zeros((*y.shape[:-1], self.dim), y.dtype).at[..., 0].set(1.0)
        return poincare.exp_0(radius * unit, self.c)
