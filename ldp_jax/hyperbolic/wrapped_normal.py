r"""The wrapped normal distribution on hyperbolic space: samples, and the exact log density.

A normal vector :math:`v \sim N(0, \mathrm{diag}(\sigma^2))` at the origin is carried to the mean
along the geodesic, and mapped to the space. With u the inverse, of length d, the density by *the
volume of the space* is

.. math:: p(z) = N(u; 0, \sigma^2) \left( \frac{\sqrt c \, d}{\sinh(\sqrt c \, d)} \right)^{n - 1}.

With respect to the ball's coordinates it is :math:`\lambda_z^n` times that:
``volume="coordinates"``.

*Numerics*: draws beyond :data:`REACH <ldp_jax.hyperbolic.poincare.REACH>` / sqrt(c) from the origin
lie on that sphere in the ball. Densities are exact to 1e-5 of :math:`(d / \sigma)^2` up to distance
6 from the origin.
Reference: PoinDP eq. 11 (c = 1); Nagano et al., A wrapped normal distribution on hyperbolic space
(ICML 2019).
"""

import math
from typing import Literal, TypeAlias, get_args

import jax.numpy as jnp
from jaxtyping import Float

from ldp_jax.core import random, validate
from ldp_jax.core.types import Array, PRNGKey, Record, Scalar
from ldp_jax.hyperbolic import poincare
from ldp_jax.hyperbolic.numerics import gap, length, log_sinh_ratio

__all__ = ["Volume", "log_density", "sample"]

__dir__ = lambda: __all__


Volume: TypeAlias = Literal["riemannian", "coordinates"]
"""The volume of the space, or that of the ball's coordinates."""


def _scales(scale: Scalar, n: int, kind: jnp.dtype) -> Array:
    validate.positive(scale=scale)
    scales = jnp.asarray(scale, kind)
    validate.require(
        not scales.ndim or scales.shape[-1] in (1, n),
        f"scale must be a number, or [..., {n}] or [..., 1], got shape {scales.shape}",
    )
    return jnp.broadcast_to(scales, (*scales.shape[:-1], n))


def sample(
    key: PRNGKey, mean: Record, scale: Scalar, c: Scalar = 1.0, *, shape: tuple[int, ...] = ()
) -> Float[Array, "*batch n"]:
    """Points [*shape, ..., n] of the ball from the wrapped normal about means [..., n].

    The scale is in units of distance: a number, or [..., n] (or [..., 1]) for coordinates at the
    mean.
    """
    mean, c = poincare._points(c, mean=mean)
    n = mean.shape[-1]
    scales = _scales(scale, n, mean.dtype)
    validate.threefry(key)
    batch = jnp.broadcast_shapes(mean.shape[:-1], scales.shape[:-1])
    v = scales * random.normal(key, (*shape, *batch, n), scales.dtype)
    return poincare._exp_map(mean, 0.5 * gap(mean, c) * v, c)


def log_density(
    z: Record, mean: Record, scale: Scalar, c: Scalar = 1.0, *, volume: Volume = "riemannian"
) -> Float[Array, "*batch"]:
    """log p(z) of points [..., n] of the ball, by the space's volume (PoinDP eq. 11) or by dz."""
    validate.one_of(get_args(Volume), volume=volume)
    z, mean, c = poincare._points(c, z=z, mean=mean)
    n = mean.shape[-1]
    u = 2.0 / gap(mean, c) * poincare.log_map(mean, z, c)
    scales = _scales(scale, n, u.dtype)
    exponent = -0.5 * ((u / scales) ** 2).sum(-1)
    normal = exponent - jnp.log(scales).sum(-1) - 0.5 * n * math.log(2 * math.pi)

    distance = jnp.sqrt(c) * length(u)[..., 0]
    of_space = normal - (n - 1) * log_sinh_ratio(distance)
    if volume == "riemannian":
        return of_space
    conformal_factor = 2.0 / gap(z, c)[..., 0]
    return of_space + n * jnp.log(conformal_factor)
