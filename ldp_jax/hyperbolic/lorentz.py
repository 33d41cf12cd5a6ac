r"""The hyperboloid: the other chart of the same space, which float32 follows farther from the origin.

Points are X = (X_0, X_1, ..., X_n), arrays [..., n + 1], with :math:`\langle X, Y \rangle = -X_0 Y_0 + \sum_i X_i
Y_i`, :math:`\langle X, X \rangle = -1/c` and X_0 > 0; a tangent vector V at X has :math:`\langle X, V \rangle = 0`.

*Bad input*: ``ValueError`` for concrete c <= 0 or points off by more than 1e-3 of X_0 squared; total under ``jit``.

*Numerics*: in float32 the distance of two points holds to 1e-7 of itself times the cosh of the nearer's, that from
the origin to 4e-7 up to 80 / sqrt(c); longer steps are cut. Gradients are finite everywhere.
Reference: Nickel & Kiela (ICML 2018); Nagano et al. (ICML 2019), section 2.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ldp_jax.core import validate
from ldp_jax.core.types import Array, Record, Scalar
from ldp_jax.hyperbolic.numerics import (
    as_points,
    asinh_ratio,
    check_curvature,
    check_in_ball,
    dot,
    gap,
    length,
    sech_squared,
    shorten,
    sinh_ratio,
    tanh_ratio,
)
from ldp_jax.hyperbolic.poincare import _gyrate, _one_type, _project, _root

__all__ = [
    "distance",
    "exp_0",
    "exp_map",
    "from_ball",
    "inner",
    "log_0",
    "log_map",
    "norm",
    "origin",
    "parallel_transport",
    "project",
    "to_ball",
]

__dir__ = lambda: __all__


_FAR = 80.0  # sqrt(c) times the longest step: cosh(88) is the last in float32


def _points(c: Scalar, **given: Record) -> tuple[Array, ...]:
    """Arrays of one floating type, refused where they are concrete and off the hyperboloid."""
    found = {name: as_points(name, value) for name, value in given.items()}
    check_curvature(c)
    for name, value in found.items():
        if value.shape[-1] < 2:
            raise ValueError(f"{name} must be points [..., n + 1] of the hyperboloid, got shape {value.shape}")
        if validate.concrete(value) and validate.concrete(c):
            point = np.asarray(value, np.float64)
            time, rest = point[..., 0], (point[..., 1:] ** 2).sum(-1)
            off = np.abs(time**2 - rest - 1.0 / float(c)) > 1e-3 * np.maximum(time**2, 0.0)
            if not (~off & (time > 0) & np.isfinite(rest)).all():  # NaN fails too
                raise ValueError(f"{name} must be on the hyperboloid <X, X> = -1 / c, X_0 > 0: see project(X, c)")
    return _one_type(*found.values())


def _tangents(name: str, v: Record, like: Array) -> tuple[Array, Array]:
    array = as_points(name, v)
    if array.shape[-1] != like.shape[-1]:
        raise ValueError(f"{name} must be tangent vectors [..., {like.shape[-1]}], got shape {array.shape}")
    first, second = _one_type(array, like)
    return first, second


def _lift(rest: Array, c: Scalar) -> Array:
    """The point with these space-like coordinates."""
    # Without underflow or overflow: the length of (1 / sqrt(c), X_1, ..., X_n).
    one = jnp.broadcast_to(1.0 / _root(c, rest), (*rest.shape[:-1], 1))
    return jnp.concatenate([length(jnp.concatenate([one, rest], -1)), rest], -1)


def _shrink(x: Array, c: Scalar) -> tuple[Array, Array]:
    """The ball's point, and its gap 1 - c |x|^2."""
    far = 1.0 + _root(c, x) * x[..., :1]
    return x[..., 1:] / far, 2.0 / far


def _step(x: Array, y: Array, c: Scalar) -> Array:
    """y - x of the ball's points, from differences of the hyperboloid's: those of close points are exact."""
    root, away = _root(c, x), y - x
    far_x, far_y = 1.0 + root * x[..., :1], 1.0 + root * y[..., :1]
    nearer = far_x < far_y  # to the origin; one choice for both, or slopes are of neither where they are equal
    near, far = jnp.where(nearer, x[..., 1:] / far_x, y[..., 1:] / far_y), jnp.where(nearer, far_y, far_x)
    return (away[..., 1:] - root * near * away[..., :1]) / far


def _to_origin(x: Array, v: Array, c: Scalar) -> Array:
    """A tangent vector at x, carried to the origin along the geodesic: [..., n]."""
    root = _root(c, x)
    return v[..., 1:] - root * v[..., :1] / (1.0 + root * x[..., :1]) * x[..., 1:]


def _from_origin(x: Array, v: Array, c: Scalar) -> Array:
    """A vector [..., n] at the origin, carried to x: [..., n + 1]."""
    root = _root(c, x)
    along = root * dot(x[..., 1:], v)
    return jnp.concatenate([along, v + root * along / (1.0 + root * x[..., :1]) * x[..., 1:]], -1)


def origin(n: int, c: Scalar = 1.0) -> Float[Array, " m"]:
    """The point (1 / sqrt(c), 0, ..., 0); float32 [n + 1]."""
    check_curvature(c)
    return _lift(jnp.zeros(validate.whole(1, n=n)), c)


def inner(x: Record, y: Record) -> Float[Array, "*batch"]:
    """The Lorentz product; -cosh(sqrt(c) d(X, Y)) / c of points. It cancels for close points far out."""
    x, y = _one_type(as_points("x", x), as_points("y", y))
    return (x[..., 1:] * y[..., 1:]).sum(-1) - x[..., 0] * y[..., 0]


def project(x: Record, c: Scalar = 1.0) -> Float[Array, "*batch m"]:
    """The point of the hyperboloid with the space-like coordinates of x; never refuses a point."""
    x = as_points("x", x)
    check_curvature(c)
    return _lift(x[..., 1:], c)


def from_ball(x: Record, c: Scalar = 1.0) -> Float[Array, "*batch m"]:
    r"""The point :math:`(1 + c|x|^2, 2 \sqrt c x) / (\sqrt c (1 - c|x|^2))` of a point [..., n] of the ball."""
    x = as_points("x", x)
    check_in_ball(c, x=x)
    near = gap(x, c)
    return jnp.concatenate([(2.0 / near - 1.0) / _root(c, x), 2.0 * x / near], -1)


def to_ball(x: Record, c: Scalar = 1.0) -> Float[Array, "*batch n"]:
    r"""The ball's point :math:`(X_1, ..., X_n) / (1 + \sqrt c X_0)`, within ``poincare.project``."""
    (x,) = _points(c, x=x)
    return _project(_shrink(x, c)[0], c)


def norm(x: Record, c: Scalar = 1.0) -> Float[Array, "*batch"]:
    r"""Distance to the origin, :math:`\mathrm{arsinh}(\sqrt c \sqrt{X_1^2 + ... + X_n^2}) / \sqrt c`."""
    (x,) = _points(c, x=x)
    root = _root(c, x)
    return (jnp.arcsinh(root * length(x[..., 1:])) / root)[..., 0]


def distance(x: Record, y: Record, c: Scalar = 1.0) -> Float[Array, "*batch"]:
    r"""Geodesic distance :math:`\mathrm{arcosh}(-c \langle X, Y \rangle) / \sqrt c`."""
    x, y = _points(c, x=x, y=y)
    return (2.0 / _root(c, x) * jnp.arcsinh(length(_half_chord(x, y, c))))[..., 0]


def _half_chord(x: Array, y: Array, c: Scalar) -> Array:
    """The vector sqrt(c) (y - x) / sqrt(gaps) of the ball, whose length is sinh(sqrt(c) d(X, Y) / 2)."""
    root = _root(c, x)
    far = (1.0 + root * x[..., :1]) * 0.5, (1.0 + root * y[..., :1]) * 0.5
    return root * _step(x, y, c) * (jnp.sqrt(far[0]) * jnp.sqrt(far[1]))


def exp_0(v: Record, c: Scalar = 1.0) -> Float[Array, "*batch m"]:
    """Exponential map at the origin of vectors [..., n], cut to 80 / sqrt(c); at distance |v| (ball: 2 |v|)."""
    v = as_points("v", v)
    check_curvature(c)
    return _exp_0(v, c)


def _exp_0(v: Array, c: Scalar) -> Array:
    v = shorten(v, _FAR / _root(c, v))
    return _lift(sinh_ratio(jnp.asarray(c, v.dtype) * dot(v, v)) * v, c)


def log_0(x: Record, c: Scalar = 1.0) -> Float[Array, "*batch n"]:
    """Logarithmic map at the origin: the vector [..., n] whose exp_0 is X."""
    (x,) = _points(c, x=x)
    rest = x[..., 1:]
    r = length(_root(c, x) * rest)  # its square may be beyond float32
    far = r > 1.0
    some = jnp.where(far, r, 1.0)
    return rest * jnp.where(far, jnp.arcsinh(some) / some, asinh_ratio(jnp.where(far, 0.0, r) ** 2))


def exp_map(x: Record, v: Record, c: Scalar = 1.0) -> Float[Array, "*batch m"]:
    r"""Exponential map at X: :math:`\cosh(\sqrt c |V|) X + \sinh(\sqrt c |V|) V / (\sqrt c |V|)`, at distance |V|.

    Tangent vectors [..., n + 1] longer than 80 / sqrt(c) are cut to it (Nickel & Kiela 2018, eq. 9).
    """
    (x,) = _points(c, x=x)
    v, x = _tangents("v", v, x)
    return _exp_map(x, _to_origin(x, v, c), c)


def _exp_map(x: Array, v: Array, c: Scalar) -> Array:
    """From X along a vector [..., n] given at the origin."""
    v = shorten(v, _FAR / _root(c, x))
    c = jnp.asarray(c, x.dtype)
    # The ball's Möbius addition, of which the gap is known without cancellation too.
    quarter, (ball, gap_x) = 0.25 * c * dot(v, v), _shrink(x, c)
    s = ball + 0.5 * tanh_ratio(quarter) * v
    return _lift(2.0 * (s + c * dot(s, s) / gap_x * ball) / sech_squared(quarter), c)


def log_map(x: Record, y: Record, c: Scalar = 1.0) -> Float[Array, "*batch m"]:
    """Logarithmic map at X, the inverse of :func:`exp_map` (Nickel & Kiela 2018, eq. 10; Nagano 2019, eq. 4)."""
    x, y = _points(c, x=x, y=y)
    return _from_origin(x, _log_at_origin(x, y, c), c)


def _log_at_origin(x: Array, y: Array, c: Scalar) -> Array:
    """log_X(Y), carried to the origin: [..., n], of length d(X, Y)."""
    # In the ball the logarithm points along gap_x step - c |step|^2 x, and transport to the origin keeps
    # directions. Here it is written in the half chord, which is smooth at X = Y.
    chord, (ball, gap_x), (_, gap_y) = _half_chord(x, y, c), _shrink(x, c), _shrink(y, c)
    squared = dot(chord, chord)
    along = jnp.sqrt(gap_x / gap_y) / _root(c, x) * chord - squared * ball
    return 2.0 * asinh_ratio(squared) / jnp.sqrt(1.0 + squared) * along


def parallel_transport(x: Record, y: Record, v: Record, c: Scalar = 1.0) -> Float[Array, "*batch m"]:
    r"""The tangent vector V at X, carried to Y along the geodesic.

    :math:`V + c \langle Y, V \rangle (X + Y) / (1 - c \langle X, Y \rangle)` (Nagano et al. 2019, eq. 3).
    """
    x, y = _points(c, x=x, y=y)
    v, x = _tangents("v", v, x)
    (_, gap_x), (b, gap_y) = _shrink(x, c), _shrink(y, c)
    return _from_origin(y, _gyrate(b, gap_y, _step(x, y, c), gap_x, _to_origin(x, v, c), c), c)
