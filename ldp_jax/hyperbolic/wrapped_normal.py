r"""The wrapped normal distribution on hyperbolic space: samples, and the exact log density, in both charts.

A normal vector :math:`v \sim N(0, \mathrm{diag}(\sigma^2))` of the tangent space at the origin is carried to the
mean along the geodesic, and the exponential map takes it to the space. With u the inverse of that, whose length is
the distance d of z to the mean, the density *with respect to the volume of the space* is

.. math:: p(z) = N(u; 0, \sigma^2) \left( \frac{\sqrt c \, d}{\sinh(\sqrt c \, d)} \right)^{n - 1}.

With respect to the ball's coordinates it is :math:`\lambda_z^n` times that: ``volume="coordinates"``.

*Numerics*: the ball's samples end at :data:`ldp_jax.hyperbolic.poincare.REACH` / sqrt(c) from the origin, where
float32 has no more room. What is drawn beyond (P(|v| > REACH) for a mean at the origin, 2e-9 in two dimensions at
sigma = 1.9 and c = 1) lies on that sphere, and its density there is that of where it lies. The Lorentz chart goes
to 80 / sqrt(c). Densities are exact to 1e-5 of :math:`(d / \sigma)^2` up to distance 6 from the origin.

Reference: PoinDP eq. 11 (c = 1); Nagano et al., A wrapped normal distribution on hyperbolic space (ICML 2019).

>>> z = sample(jax.random.key(0), jnp.zeros(2), 0.5)
>>> bool(log_density(z, jnp.zeros(2), 0.5) <= log_density(jnp.zeros(2), jnp.zeros(2), 0.5))
True
"""

import math
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Float

from ldp_jax.core import validate
from ldp_jax.core.types import Array, PRNGKey, Record, Scalar
from ldp_jax.hyperbolic import lorentz, poincare
from ldp_jax.hyperbolic.numerics import gap, length, log_sinh_ratio

__all__ = ["Volume", "log_density", "log_density_lorentz", "sample", "sample_lorentz"]


def __dir__() -> list[str]:
    return __all__


Volume: TypeAlias = Literal["riemannian", "coordinates"]
"""What a density is with respect to: the volume of the space, or that of the ball's coordinates."""


def _scales(scale: Any, n: int, kind: Any) -> Array:
    validate.positive(scale=scale)
    scales = jnp.asarray(scale, kind)
    if scales.ndim and scales.shape[-1] not in (1, n):
        raise ValueError(f"scale must be a number, or [..., {n}] or [..., 1], got shape {scales.shape}")
    return jnp.broadcast_to(scales, (*scales.shape[:-1], n))


def _draw(key: PRNGKey, scales: Array, batch: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    validate.threefry(key)
    batch = jnp.broadcast_shapes(batch, scales.shape[:-1])
    return scales * jax.random.normal(key, (*shape, *batch, scales.shape[-1]), scales.dtype)


def _log_density(u: Array, scales: Array, c: Any) -> Array:
    n = u.shape[-1]
    r = jnp.sqrt(jnp.asarray(c, u.dtype)) * length(u)[..., 0]
    normal = -0.5 * ((u / scales) ** 2).sum(-1) - jnp.log(scales).sum(-1) - 0.5 * n * math.log(2 * math.pi)
    return normal - (n - 1) * log_sinh_ratio(r)


def sample(
    key: PRNGKey, mean: Record, scale: Scalar, c: Scalar = 1.0, *, shape: tuple[int, ...] = ()
) -> Float[Array, "*batch n"]:
    """Points of the ball from the wrapped normal.

    Args:
      key: a typed threefry key.
      mean: points [..., n] of the ball.
      scale: standard deviations in units of distance: a number, or [..., n] (or [..., 1]) for the coordinates at
        the mean, which broadcasts with it.
      c: magnitude of the curvature.
      shape: of independent samples, before the batch axes.

    Returns:
      [*shape, ..., n].

    Raises:
      ValueError: for c <= 0, scale <= 0 or a mean outside the ball, where they are concrete.
    """
    (mean,) = poincare._points(c, mean=mean)
    scales = _scales(scale, mean.shape[-1], mean.dtype)
    v = _draw(key, scales, mean.shape[:-1], shape)
    return poincare._exp_map(mean, 0.5 * gap(mean, c) * v, c)


def log_density(
    z: Record, mean: Record, scale: Scalar, c: Scalar = 1.0, *, volume: Volume = "riemannian"
) -> Float[Array, "*batch"]:
    """log p(z) of points of the ball.

    Args:
      z: points [..., n] of the ball.
      mean: as :func:`sample`.
      scale: as :func:`sample`.
      c: magnitude of the curvature.
      volume: ``riemannian`` for the density with respect to the volume of the space, ``coordinates`` for that with
        respect to dz.

    Raises:
      ValueError: for c <= 0, scale <= 0, points outside the ball, where they are concrete, or another volume.

    Reference: PoinDP eq. 11 at ``riemannian``.
    """
    validate.one_of(("riemannian", "coordinates"), volume=volume)
    z, mean = poincare._points(c, z=z, mean=mean)
    n = mean.shape[-1]
    u = 2.0 / gap(mean, c) * poincare.log_map(mean, z, c)
    found = _log_density(u, _scales(scale, n, u.dtype), c)
    if volume == "riemannian":
        return found
    return found + n * jnp.log(2.0 / gap(z, c)[..., 0])


def sample_lorentz(
    key: PRNGKey, mean: Record, scale: Scalar, c: Scalar = 1.0, *, shape: tuple[int, ...] = ()
) -> Float[Array, "*batch m"]:
    """Points of the hyperboloid [..., n + 1] from the wrapped normal; otherwise as :func:`sample`.

    Raises:
      ValueError: for c <= 0, scale <= 0 or a mean off the hyperboloid, where they are concrete.
    """
    (mean,) = lorentz._points(c, mean=mean)
    scales = _scales(scale, mean.shape[-1] - 1, mean.dtype)
    return lorentz._exp_map(mean, _draw(key, scales, mean.shape[:-1], shape), c)


def log_density_lorentz(z: Record, mean: Record, scale: Scalar, c: Scalar = 1.0) -> Float[Array, "*batch"]:
    """log p(z) of points of the hyperboloid, with respect to the volume of the space.

    Args:
      z: points [..., n + 1] of the hyperboloid.
      mean: points [..., n + 1].
      scale: a number, or [..., n] (or [..., 1]).
      c: magnitude of the curvature.

    Raises:
      ValueError: for c <= 0, scale <= 0 or points off the hyperboloid, where they are concrete.
    """
    z, mean = lorentz._points(c, z=z, mean=mean)
    u = lorentz._log_at_origin(mean, z, c)
    return _log_density(u, _scales(scale, u.shape[-1], u.dtype), c)
