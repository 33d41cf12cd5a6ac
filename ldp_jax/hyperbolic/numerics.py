"""Shared formulas.

The distance to the boundary in float32, and even functions that are smooth at 0.

All that cancels near the boundary is written in :func:`gap`, 1 - c |x|^2, and differences of
points. The other functions take a squared length, so that no square root of 0 is differentiated.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import validate
from ldp_jax.core.shown import shape_of
from ldp_jax.core.spaces.space import of_host
from ldp_jax.core.types import Array, Record, Scalar

_SERIES = 1e-3  # below this squared argument a series of four terms is exact to 3e-14


def as_points(name: str, x: Record) -> Array:
    """Real floating point coordinates [..., n], n >= 1, of at least 32 bits.

    Fewer have no points near the rim.
    """
    validate.require(
        np.ndim(x) and np.shape(x)[-1] and not np.iscomplexobj(x),
        f"{name} must be real coordinates [..., n], got {shape_of(x)}",
    )
    # JAX would take the whole number 2^32 + 3 of the host for 3.
    array = x if isinstance(x, jax.Array) else jnp.asarray(of_host(x))
    return array.astype(jnp.promote_types(array.dtype, jnp.float32))


def check_curvature(c: Scalar) -> None:
    """Refuse a curvature magnitude that is not one number, finite and > 0."""
    validate.require(
        np.ndim(c) == 0, f"c must be one number, got shape {np.shape(c)}: vmap over c for several"
    )
    validate.positive(c=c)


def check_in_ball(c: Scalar, **points: Record) -> None:
    """Refuse concrete points outside the open ball of radius 1 / sqrt(c).

    The message has no point.
    """
    check_curvature(c)
    if not validate.concrete(c):
        return
    curvature = np.float64(np.asarray(c, jnp.result_type(float)))  # as it is rounded on the device
    for name, value in points.items():
        if not validate.concrete(value):
            continue
        squared = (np.asarray(value, np.float64) ** 2).sum(-1)
        inside = curvature * squared < 1.0
        validate.require(
            inside.all(),  # NaN fails too
            f"{name} must be within the ball of radius 1 / sqrt(c) = "
            f"{1 / np.sqrt(curvature):.9g}, got {(~inside).sum()} points outside; "
            "project(x, c) moves them inside",
        )


def dot(a: Array, b: Array) -> Array:
    """Inner product over the last axis, which is kept."""
    return (a * b).sum(-1, keepdims=True)


def _over_largest(v: Array) -> tuple[Array, Array, Array]:
    """Finite coordinates, the same over about the largest one, and that divisor.

    XLA holds the divisor's inverse.
    """
    most = jnp.finfo(v.dtype).max
    v = jnp.clip(v, -most, most)
    largest = jax.lax.stop_gradient(jnp.abs(v).max(-1, keepdims=True))
    scale = jnp.where(largest > 0, jnp.minimum(largest, most / 4), 1.0)
    return v, v / scale, scale


def length(v: Array) -> Array:
    """Euclidean length over the last axis, which is kept.

    Without underflow, and of gradient 0 at 0.
    """
    _, unit, scale = _over_largest(v)
    squared = dot(unit, unit)
    some = squared > 0
    root = jnp.sqrt(jnp.where(some, squared, 1.0))
    return jnp.where(some, scale * root, 0.0)


def shorten(v: Array, most: Array) -> Array:
    """The vector itself, or the one in its direction of length ``most``."""
    v, unit, scale = _over_largest(v)
    squared = dot(unit, unit)  # in [1, 16 n], but for the vector 0
    long = scale * jnp.sqrt(jax.lax.stop_gradient(squared)) > most
    root = jnp.sqrt(jnp.where(long, squared, 1.0))
    return jnp.where(long, unit * (most / root), v)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum, and what rounding took from it."""
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    return total, error


def _halves(a: Array) -> tuple[Array, Array]:
    """A float32 as a sum of two with 12 bits each, whose products are exact."""
    bits = jax.lax.bitcast_convert_type(a, jnp.uint32) & jnp.uint32(0xFFFFF000)
    high = jax.lax.bitcast_convert_type(bits, jnp.float32)
    return high, a - high


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The product of two float32, and what rounding took from it."""
    a1, a0 = _halves(a)
    b1, b0 = _halves(b)
    total, error = _two_sum(a1 * b1, a1 * b0 + a0 * b1)
    return total, error + a0 * b0


@jax.custom_jvp
def _raw_gap(x: Array, c: Array) -> Array:
    """1 - c |x|^2; in float32 to a few units of the last place of the *result*."""
    if x.dtype != jnp.float32:
        return 1.0 - c * dot(x, x)
    # Sums of two float32.
    high, low = _two_product(x, x)
    while high.shape[-1] > 1:
        half = high.shape[-1] // 2
        first = slice(half)
        second = slice(half, 2 * half)
        total, error = _two_sum(high[..., first], high[..., second])
        rest = low[..., first] + low[..., second] + error
        # A number without a partner waits for the next round.
        high = jnp.concatenate([total, high[..., 2 * half :]], -1)
        low = jnp.concatenate([rest, low[..., 2 * half :]], -1)
    total, error = _two_product(c, high)
    return (1.0 - total) - (error + c * low)


@_raw_gap.defjvp
def _raw_gap_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    x, c = primals
    dx, dc = tangents
    slope = -2.0 * c * dot(x, dx) - dc * dot(x, x)
    return _raw_gap(x, c), slope


def gap(x: Array, c: Scalar) -> Array:
    """1 - c |x|^2 over the last axis, which is kept; at least 2^-30 (2^-60 of float64)."""
    least = 2.0**-60 if x.dtype == jnp.float64 else 2.0**-30
    return jnp.maximum(_raw_gap(x, jnp.asarray(c, x.dtype)), least)


def _even(
    squared: Array, exact: Callable[[Array], Array], series: Callable[[Array], Array]
) -> Array:
    """An even function of r, from r^2: by its series near 0, where a root has no gradient."""
    near = squared < _SERIES
    some = jnp.where(near, 1.0, squared)
    by_series = series(jnp.where(near, squared, 0.0))
    return jnp.where(near, by_series, exact(jnp.sqrt(some)))


def tanh_ratio(squared: Array) -> Array:
    """tanh(r) / r of r^2."""
    return _even(
        squared,
        lambda r: jnp.tanh(r) / r,
        lambda s: 1.0 - s * (1 / 3 - s * (2 / 15 - s * (17 / 315))),
    )


def asinh_ratio(squared: Array) -> Array:
    """asinh(r) / r of r^2."""
    return _even(
        squared,
        lambda r: jnp.arcsinh(r) / r,
        lambda s: 1.0 - s * (1 / 6 - s * (3 / 40 - s * (5 / 112))),
    )


def sech_squared(squared: Array) -> Array:
    """1 / cosh(r)^2 of r^2, without underflow."""

    def exact(r: Array) -> Array:
        small = jnp.exp(-2.0 * jnp.minimum(r, 43.0))
        return 4.0 * small / (1.0 + small) ** 2

    return _even(squared, exact, lambda s: 1.0 - s * (1.0 - s * (2 / 3 - s * (17 / 45))))


def log_sinh_ratio(r: Array) -> Array:
    """log(sinh(r) / r) of r >= 0, without overflow."""
    near = r * r < _SERIES
    some = jnp.where(near, 1.0, r)
    exact = some + jnp.log(-jnp.expm1(-2.0 * some) / (2.0 * some))
    s = jnp.where(near, r * r, 0.0)
    series = s * (1 / 6 - s * (1 / 180 - s / 2835))
    return jnp.where(near, series, exact)
