"""Gaussian noise for hyperbolic vectors, stated where it is drawn: in the tangent space at the origin."""

import abc
import dataclasses
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ldp_jax.accounting.gaussian import GaussianCurve, gaussian_mu
from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import validate
from ldp_jax.core.mechanism import check_epsilon, check_single
from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.spaces import Ball, Vectors, as_records
from ldp_jax.core.types import Array, PRNGKey, Record, Scalar
from ldp_jax.hyperbolic import poincare
from ldp_jax.hyperbolic._parameters import one, spread

__all__ = ["HyperbolicGaussian", "RadialAngularGaussian"]


def __dir__() -> list[str]:
    return __all__


_mu = lru_cache(maxsize=4096)(gaussian_mu)


def _up(value: float) -> float:
    """The least float32 that is not below: a device must not clip wider, or draw less noise, than is claimed."""
    near = np.float32(value)
    return float(near) if float(near) >= value else float(np.nextafter(near, np.float32(np.inf)))


@mechanism
class _Tangent(abc.ABC):
    """A mechanism on tangent vectors of length at most ``clip``, whose report is Gaussian; abstract."""

    epsilon: Scalar
    delta: float = static()
    clip: Scalar = 1.0

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """Of the vectors."""

    @property
    @abc.abstractmethod
    def c(self) -> Scalar:
        """The magnitude of the curvature."""

    @property
    def _most(self) -> float:
        """C in float32, rounded up: what records are clipped to, what noise is made for, and what is claimed."""
        return _up(one(clip=self.clip))

    def _check(self) -> None:
        """What is refused; and, once, the noise that the budgets need."""
        check_epsilon(self.epsilon)
        validate.integer_in(1, dim=self.dim)
        if not validate.concrete(self.epsilon):
            raise ValueError(
                "epsilon must be concrete numbers: noise is calibrated on the host, before any jit or vmap"
            )
        validate.number(1e-300, 1.0, open_upper=True, delta=self.delta)
        validate.number(0.0, open_lower=True, clip=one(clip=self.clip))
        validate.number(0.0, open_lower=True, c=one(c=self.c))
        self._calibrate()
        spread(self, "clip", "c")

    @abc.abstractmethod
    def _calibrate(self) -> None:
        """Set the scales, where they are not set yet."""

    def _set_scale(self, name: str, sensitivity: float) -> None:
        """The smallest noise for a share of the budgets, whose sensitivity it is over the root of that share."""
        if getattr(self, name) is None:
            levels, place = np.unique(np.asarray(self.epsilon, np.float64), return_inverse=True)
            scales = np.array([_up(sensitivity / _mu(level, self.delta)) for level in levels.tolist()])
            scale = scales[place].reshape(np.shape(self.epsilon))
            object.__setattr__(self, name, jnp.asarray(scale, jnp.float32) if scale.ndim else float(scale))

    @abc.abstractmethod
    def _scales(self) -> Array:
        """The standard deviation of each number of a report."""

    @abc.abstractmethod
    def _centre(self, x: Any) -> Array:
        """The report without noise."""

    @abc.abstractmethod
    def curve(self) -> GaussianCurve:
        """All that is promised: every (epsilon, delta), of the least noise where there is a stack of it."""

    def privatize(self, key: PRNGKey, x: Record) -> Float[Array, " sent"]:
        """The report of one user.

        Args:
          key: a typed threefry key.
          x: her tangent vector [dim] at the origin; a longer one is shortened, NaN is 0.

        Raises:
          ValueError: for a stack of budgets, or another shape: use ``vmap``.
        """
        validate.threefry(key)
        check_single(self)
        x = as_records(x)
        if x.shape != (self.dim,):
            raise ValueError(f"x must be one vector [{self.dim}], got shape {x.shape}: use jax.vmap for several")
        centre = self._centre(x)
        return centre + self._scales() * jax.random.normal(key, centre.shape, jnp.float32)

    def log_density(self, y: Any, x: Record) -> Float[Array, ""]:
        """log p(y | x) in the tangent space, with respect to its Lebesgue measure."""
        scale = self._scales()
        gap = (jnp.asarray(y) - self._centre(x)) / scale
        return (-0.5 * gap**2 - jnp.log(scale) - 0.5 * np.log(2 * np.pi)).sum(-1)

    def domain(self) -> Ball:
        """Tangent vectors of length at most ``clip``; longer ones are shortened, NaN is 0."""
        return Ball(self.dim, self._most if validate.concrete(self.clip) else self.clip)

    def guarantee(self) -> Guarantee:
        """The curve's point at ``delta``: at most (epsilon, delta); the largest where epsilon is a stack."""
        self._check()
        adjacency = f"any two tangent vectors of length at most {self._most:g}"
        return self.curve().guarantee(self.delta, adjacency=adjacency)


def _least(sigma: Any) -> float:
    return float(np.min(np.asarray(sigma, np.float64)))


@mechanism
class HyperbolicGaussian(_Tangent):
    r"""Report a hyperbolic vector as its tangent vector at the origin, with Gaussian noise.

    Law: the record is :math:`v = \log_0(x)`, shortened to :math:`|v| \le C`; the report is
    :math:`v + N(0, \sigma^2 I)`, a tangent vector. :meth:`estimate` maps it to the ball: since
    :math:`d(0, \exp_0 v) = 2 |v|`, the clip C is a Poincaré radius of 2 C.

    Guarantee: (epsilon, delta) per record, for any two records; :math:`\sigma` is the smallest that has it, by the
    analytic calibration with the L2 sensitivity 2 C. The record must be a function of the user's own data and of
    public parameters: what neighbours say must not be aggregated before the noise. Mapping to the ball afterwards
    costs nothing; noise on the ball would be another matter, where float32 puts most of it on the boundary.

    Utility: the report is unbiased, with :math:`\sigma = 2 C / \mu(\epsilon, \delta)` on each of ``dim``
    coordinates (7.46 C at epsilon 1 and delta 1e-5). The point of the ball that it is mapped to has no
    moments in closed form.

    Numerics: holds in ideal arithmetic; a float32 Gaussian has reports that one record alone can give. Sigma is
    rounded up to a float32.

    Reference: a sound form of PoinDP (Wei et al., AAAI 2024), whose Theorem 1 does not hold; Balle & Wang, ICML
    2018, Theorem 8.

    Args:
      epsilon: in (0, 100], concrete; an array [n] for budgets that follow from public facts, such as a public
        hierarchy (a millisecond on the host for each that is different): ``jax.vmap`` over the mechanism.
      delta: in (0, 1), static.
      clip: C > 0, the largest tangent length.
      dim: of the vectors.
      c: the magnitude of the curvature, in which :meth:`estimate` maps.

    >>> m = HyperbolicGaussian(1.0, 1e-5, clip=1.0)
    >>> round(m.sigma, 4), 0.999 < m.guarantee().epsilon <= 1.0, m.guarantee().delta
    (7.4613, True, 1e-05)
    >>> m.privatize(jax.random.key(0), jnp.array([0.5, 0.0])).shape
    (2,)
    """

    dim: int = static(default=2)
    c: Scalar = 1.0
    sigma: Any = dataclasses.field(init=False, default=None)

    def _calibrate(self) -> None:
        self._set_scale("sigma", 2 * self._most)
        validate.positive(sigma=self.sigma)

    def _scales(self) -> Array:
        return jnp.full(self.dim, jnp.asarray(self.sigma, jnp.result_type(float)))

    def _centre(self, x: Any) -> Array:
        return self.domain().clip(x)

    def curve(self) -> GaussianCurve:
        """Of L2 sensitivity 2 C, and the least noise of a stack."""
        return GaussianCurve.of(2 * self._most, _least(self.sigma))

    def codomain(self) -> Vectors:
        """Tangent vectors of any length."""
        return Vectors(self.dim)

    def estimate(self, y: Any) -> Float[Array, "*batch dim"]:
        """The point of the ball that a report is mapped to; post-processing."""
        return poincare.exp_0(jnp.asarray(y), self.c)


@mechanism
class RadialAngularGaussian(_Tangent):
    r"""Report the length and the direction of a tangent vector apart, each with Gaussian noise of its own.

    Law: with :math:`\rho = \min(|v|, C)` and :math:`u = v / |v|` (the first axis where v = 0), the report is
    :math:`\rho + N(0, \sigma_r^2)` and :math:`u + N(0, \sigma_a^2 I)`. With :math:`\mu` of (epsilon, delta),
    :math:`\sigma_r = C / (\mu \sqrt s)` and :math:`\sigma_a = 2 / (\mu \sqrt{1 - s})`: the radius has the share s
    of the budget. A share of 0 leaves out the radius, of 1 the direction.

    Guarantee: (epsilon, delta) per record, for any two records; the two sensitivities, C and 2, are attained
    together, and the two Gaussians are one of :math:`\mu^2 = (C / \sigma_r)^2 + (2 / \sigma_a)^2`, exactly. The
    share is public: one that is learned from records, or noise that is stretched along a record, has no guarantee.

    Utility: at a share near 1 the radius, which is the place in a hierarchy, has noise of :math:`C / \mu`, where
    :class:`HyperbolicGaussian` has :math:`2 C / \mu` in every coordinate.

    Numerics: as :class:`HyperbolicGaussian`.

    Reference: PoinDP's inter- and intra-hierarchy noise (eq. 12-14) in a sound form; Balle & Wang, ICML 2018.

    Args:
      epsilon: in (0, 100], concrete; an array [n] for public budgets, as :class:`HyperbolicGaussian`.
      delta: in (0, 1), static.
      clip: C > 0, the largest tangent length.
      radial_share: s in [0, 1], static.
      dim: of the vectors.
      c: the magnitude of the curvature, in which :meth:`estimate` maps.

    >>> m = RadialAngularGaussian(1.0, 1e-5, clip=1.0, radial_share=0.5)
    >>> 0.999 < m.guarantee().epsilon <= 1.0
    True
    >>> m.privatize(jax.random.key(0), jnp.array([0.5, 0.0])).shape
    (3,)
    """

    radial_share: float = static(default=0.5)
    dim: int = static(default=2)
    c: Scalar = 1.0
    sigma_radius: Any = dataclasses.field(init=False, default=None)
    sigma_angle: Any = dataclasses.field(init=False, default=None)

    def _calibrate(self) -> None:
        share = validate.number(0.0, 1.0, radial_share=self.radial_share)
        if share > 0:
            self._set_scale("sigma_radius", self._most / np.sqrt(share))
            validate.positive(sigma_radius=self.sigma_radius)
        if share < 1:
            self._set_scale("sigma_angle", 2.0 / np.sqrt(1 - share))
            validate.positive(sigma_angle=self.sigma_angle)

    @property
    def _parts(self) -> tuple[bool, bool]:
        """Whether the radius is sent, and whether the direction is."""
        return self.radial_share > 0, self.radial_share < 1

    def _sent(self, *parts: Any) -> list[Any]:
        return [part for part, kept in zip(parts, self._parts, strict=True) if kept]

    def _scales(self) -> Array:
        sizes = self._sent((self.sigma_radius, 1), (self.sigma_angle, self.dim))
        kind = jnp.result_type(float)
        return jnp.concatenate([jnp.full(size, jnp.asarray(sigma, kind)) for sigma, size in sizes])

    def _centre(self, x: Any) -> Array:
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
        """The noisy radius, where it is sent, and the noisy direction, where it is."""
        return Vectors(sum(self._sent(1, self.dim)))

    def estimate(self, y: Any) -> Float[Array, "*batch dim"]:
        """The point of the ball in the reported direction, at the reported radius; post-processing.

        The radius is brought into [0, C]. Where none is sent it is half of C; where no direction is sent it is that
        of the first axis.
        """
        y = jnp.asarray(y)
        clip = jnp.asarray(self.clip, y.dtype)
        radius = jnp.clip(y[..., :1], 0.0, clip) if self._parts[0] else clip / 2
        if self._parts[1]:
            given = y[..., self._parts[0] :]
            length = jnp.sqrt((given**2).sum(-1, keepdims=True))
            unit = given / jnp.where(length > 0, length, 1.0)
        else:
            unit = jnp.zeros((*y.shape[:-1], self.dim), y.dtype).at[..., 0].set(1.0)
        return poincare.exp_0(radius * unit, self.c)
