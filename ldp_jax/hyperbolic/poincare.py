r"""The Poincaré ball: pure functions of points x and the curvature's magnitude c.

The ball of radius :math:`1/\sqrt c` with the metric :math:`\lambda_x^2 |dx|^2`,
:math:`\lambda_x = 2 / (1 - c |x|^2)`, has constant curvature -c. Points are arrays [..., n];
leading axes broadcast; c is 1 by default.

*Bad input*: where they are concrete, c <= 0 and points outside the ball are a ``ValueError``. Under
``jit`` every function is total: such a point is taken for the boundary's in its direction, at 2^-30
from it.

*Numerics*: in float32 the functions hold up to distance :data:`REACH` / sqrt(c) from the origin;
distances are exact to a few 1e-7 of themselves. Rounded coordinates displace a point at distance r
by up to :math:`10^{-7} \cosh^2(\sqrt c r / 2) / \sqrt c`: 1e-5 at 6, 4e-3 at 12. Gradients are
finite, 0 for a distance at x = y; second derivatives there are 0 too, and invalid.
Reference: Ungar, Analytic hyperbolic geometry (2005); Ganea, Bécigneul & Hofmann, Hyperbolic neural
networks (NeurIPS 2018), whose equations are named below; PoinDP definitions 4 and 5.
"""

import jax.numpy as jnp
from jaxtyping import Float

from ldp_jax.core import validate
from ldp_jax.core.float32 import matmul
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
    tanh_ratio,
)

__all__ = [
    "REACH",
    "conformal_factor",
    "distance",
    "exp_0",
    "exp_map",
    "gyration",
    "log_0",
    "log_map",
    "mobius_add",
    "mobius_matvec",
    "mobius_scalar_mul",
    "norm",
    "parallel_transport",
    "project",
]

__dir__ = lambda: __all__


REACH = 12.0
"""The largest distance of float32 points from the origin, at c = 1: 1 - tanh(6) = 1.2e-5 of the
radius are left.
"""

_EDGE = 0.99998771  # tanh(REACH / 2), the largest sqrt(c) |x|
_FAR = 20.0  # half a distance at which tanh is 1 in float64 too


def _points(c: Scalar, *vectors: Record, **points: Record) -> tuple[Array, ...]:
    """The points, the vectors, and c, of one floating type.

    Concrete points outside the ball are refused. Traced ones are taken for those of the boundary in
    their directions. Unlike numbers of coordinates are refused: 1 would be broadcast.
    """
    found = {name: as_points(name, value) for name, value in points.items()}
    check_in_ball(c, **found)
    arrays = []
    for x in found.values():
        if not (validate.concrete(c) and validate.concrete(x)):
            rim = 1.0 / jnp.sqrt(jnp.asarray(c, x.dtype))
            x = shorten(x, rim)
        arrays.append(x)
    arrays += [as_points("v", v) for v in vectors]
    widths = {array.shape[-1] for array in arrays}
    validate.require(
        len(widths) == 1,
        f"points and vectors must have as many coordinates each, got {sorted(widths)}",
    )
    kind = jnp.result_type(*arrays)
    return tuple(jnp.asarray(array, kind) for array in (*arrays, c))


def project(x: Record, c: Scalar = 1.0) -> Float[Array, "*batch n"]:
    """The point itself, or the one in its direction at distance :data:`REACH` / sqrt(c) from 0.

    Never refuses.

    >>> (
    ...     project(jnp.array([3.0, 4.0])).tolist(),
    ...     project(jnp.array([0.25, 0.5])).tolist(),
    ... )
    ([0.59999..., 0.79999...], [0.25, 0.5])
    """
    x = as_points("x", x)
    check_curvature(c)
    return _project(x, c)


def _project(x: Array, c: Scalar) -> Array:
    return shorten(x, _EDGE / jnp.sqrt(jnp.asarray(c, x.dtype)))


def conformal_factor(x: Record, c: Scalar = 1.0) -> Float[Array, "*batch"]:
    r""":math:`\lambda_x = 2 / (1 - c |x|^2)`, the metric's length of a unit of coordinates at x."""
    x, c = _points(c, x=x)
    return (2.0 / gap(x, c))[..., 0]


def norm(x: Record, c: Scalar = 1.0) -> Float[Array, "*batch"]:
    r"""Distance to the origin, :math:`(2/\sqrt c) \mathrm{artanh}(\sqrt c |x|)` (PoinDP eq. 6)."""
    x, c = _points(c, x=x)
    root = jnp.sqrt(c)
    half = jnp.arcsinh(root * length(x) / jnp.sqrt(gap(x, c)))
    return (2.0 / root * half)[..., 0]


def distance(x: Record, y: Record, c: Scalar = 1.0) -> Float[Array, "*batch"]:
    r"""Geodesic distance of two points (PoinDP eq. 5).

    It is :math:`(2/\sqrt c) \, \mathrm{artanh}(\sqrt c |{-x} \oplus y|)`, computed as
    :math:`(2/\sqrt c) \, \mathrm{arsinh}(\sqrt c |x - y| / \sqrt{(1 - c |x|^2)(1 - c |y|^2)})`,
    which keeps close points apart in float32.
    """
    x, y, c = _points(c, x=x, y=y)
    root = jnp.sqrt(c)
    half = jnp.arcsinh(root * length(x - y) / jnp.sqrt(gap(x, c) * gap(y, c)))
    return (2.0 / root * half)[..., 0]


def mobius_add(x: Record, y: Record, c: Scalar = 1.0) -> Float[Array, "*batch n"]:
    r"""Möbius addition :math:`x \oplus y`: y carried by the translation that takes the origin to x.

    With s = x + y it is
    :math:`((1 - c|x|^2) s + c |s|^2 x) / ((1 - c|x|^2)(1 - c|y|^2) + c |s|^2)`, within
    :func:`project` (Ganea et al. 2018, eq. 4).
    """
    x, y, c = _points(c, x=x, y=y)
    return _project(_add(x, gap(x, c), x + y, gap(y, c), c), c)


def _add(x: Array, gap_x: Array, s: Array, gap_y: Array, c: Array) -> Array:
    """The Möbius sum of x and y, of sum s, from the gaps of both."""
    far = c * dot(s, s)
    return (gap_x * s + far * x) / (gap_x * gap_y + far)


def mobius_scalar_mul(r: Scalar, x: Record, c: Scalar = 1.0) -> Float[Array, "*batch n"]:
    r"""Möbius multiplication :math:`r \otimes x`: the point on x's ray at r times its distance.

    r is a number, or an array [...] that broadcasts with the leading axes of x (Ganea et al. 2018,
    eq. 5).
    """
    x, c = _points(c, x=x)
    factor = jnp.asarray(r, x.dtype)[..., None]
    return _exp_0(factor * _log_0(x, c), c)


def mobius_matvec(m: Record, x: Record, c: Scalar = 1.0) -> Float[Array, "*batch k"]:
    r"""A matrix [k, n] on points: :math:`\exp_0(M \log_0(x))` (Ganea et al. 2018, eq. 9)."""
    x, c = _points(c, x=x)
    m = jnp.asarray(m, x.dtype)
    validate.shaped("k", x.shape[-1], m=m)
    return _exp_0(matmul(_log_0(x, c), m.T), c)


def exp_0(v: Record, c: Scalar = 1.0) -> Float[Array, "*batch n"]:
    r"""Exponential map at the origin, :math:`\tanh(\sqrt c |v|) \, v / (\sqrt c |v|)`.

    It is at distance 2 |v| from the origin.

    >>> float(norm(exp_0(jnp.array([0.0, 1.5])))).__round__(4)
    3.0
    """
    v = as_points("v", v)
    check_curvature(c)
    return _exp_0(v, c)


def _exp_0(v: Array, c: Scalar) -> Array:
    c = jnp.asarray(c, v.dtype)
    v = shorten(v, _FAR / jnp.sqrt(c))
    return _project(tanh_ratio(c * dot(v, v)) * v, c)


def log_0(x: Record, c: Scalar = 1.0) -> Float[Array, "*batch n"]:
    r"""Logarithmic map at the origin, :math:`\mathrm{artanh}(\sqrt c |x|) \, x / (\sqrt c |x|)`."""
    x, c = _points(c, x=x)
    return _log_0(x, c)


def _log_0(x: Array, c: Array) -> Array:
    near = gap(x, c)
    ratio = asinh_ratio(c * dot(x, x) / near)
    return ratio / jnp.sqrt(near) * x


def exp_map(x: Record, v: Record, c: Scalar = 1.0) -> Float[Array, "*batch n"]:
    r"""Exponential map at x: the point at time 1 of the geodesic from x with velocity v.

    :math:`x \oplus (\tanh(\sqrt c \lambda_x |v| / 2) \, v / (\sqrt c |v|))`, within :func:`project`
    (eq. 12).
    """
    x, v, c = _points(c, v, x=x)
    return _exp_map(x, v, c)


def _exp_map(x: Array, v: Array, c: Scalar) -> Array:
    c = jnp.asarray(c, x.dtype)
    near = gap(x, c)
    w = shorten(v, _FAR / jnp.sqrt(c) * near) / near  # half as long as v in the metric
    squared = c * dot(w, w)
    y = tanh_ratio(squared) * w  # of gap 1 - tanh^2
    return _project(_add(x, near, x + y, sech_squared(squared), c), c)


def log_map(x: Record, y: Record, c: Scalar = 1.0) -> Float[Array, "*batch n"]:
    r"""Logarithmic map at x, the inverse of :func:`exp_map`: the velocity that reaches y at time 1.

    :math:`(2 / (\sqrt c \lambda_x)) \, \mathrm{artanh}(\sqrt c |u|) \, u / |u|`,
    :math:`u = -x \oplus y` (eq. 12).
    """
    x, y, c = _points(c, x=x, y=y)
    gap_x = gap(x, c)
    gaps = gap_x * gap(y, c)
    step = y - x
    far = c * dot(step, step)
    direction = gap_x * step - far * x
    return gap_x * asinh_ratio(far / gaps) / jnp.sqrt(gaps * (gaps + far)) * direction


def gyration(x: Record, y: Record, v: Record, c: Scalar = 1.0) -> Float[Array, "*batch n"]:
    r"""Rotate a vector by the gyration of two points, of any vector v.

    :math:`\mathrm{gyr}[x, y] v = -(x \oplus y) \oplus (x \oplus (y \oplus v))`. In the plane of x
    and y it turns by twice the argument of :math:`1 + c \langle x, y \rangle + i c |x \wedge y|`
    (Ungar 2005; Ganea et al. 2018, section 2.3).
    """
    x, y, v, c = _points(c, v, x=x, y=y)
    return _gyrate(x, gap(x, c), x + y, gap(y, c), v, c)


def _gyrate(x: Array, gap_x: Array, s: Array, gap_y: Array, v: Array, c: Array) -> Array:
    """gyr[x, y] v with s = x + y, from the gaps of both: without cancellation."""
    turn = lambda w: x * dot(s, w) - s * dot(x, w)  # the plane of x and y, turned by a right angle
    far = c * dot(s, s)
    real = 0.5 * (gap_x + gap_y + far)
    once = turn(v)
    turned = real * once + c * turn(once)
    return v + 2.0 * c / (gap_x * gap_y + far) * turned


def parallel_transport(
    x: Record, y: Record, v: Record, c: Scalar = 1.0
) -> Float[Array, "*batch n"]:
    r"""The tangent vector v at x, carried to y along the geodesic.

    :math:`(\lambda_x / \lambda_y) \mathrm{gyr}[y, -x] v` keeps :math:`\lambda |v|` and angles (eq.
    13; Ungar).
    """
    x, y, v, c = _points(c, v, x=x, y=y)
    gap_x = gap(x, c)
    gap_y = gap(y, c)
    return gap_y / gap_x * _gyrate(y, gap_y, y - x, gap_x, v, c)
