"""The exponential mechanism in the hyperbolic metric, on a disc of the plane; no delta."""

import dataclasses
import math
from fractions import Fraction
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree
from numpy.polynomial import legendre

from ldp_jax.accounting.guarantee import Guarantee, metric
from ldp_jax.core import random_words, validate
from ldp_jax.core.float32 import matmul
from ldp_jax.core.mechanism import (
    check_derived,
    check_epsilon,
    check_single,
    largest,
    one_record,
)
from ldp_jax.core.pytree import mechanism
from ldp_jax.core.quadrature import unit_rule
from ldp_jax.core.rounding import rounded_up
from ldp_jax.core.spaces import Ball, Disc
from ldp_jax.core.spaces.balls import shortened
from ldp_jax.core.types import Array, PRNGKey, Record, Report, Scalar
from ldp_jax.hyperbolic import poincare
from ldp_jax.hyperbolic._tangent import one, spread
from ldp_jax.hyperbolic.numerics import gap, length

MAX_EPSILON = 22.0  # beyond, 46 bits of a uniform are few for the far side of the disc
MAX_RADIUS = 8.0  # at c = 1; float32 coordinates are good to 1e-4 of a distance there
MIN_RADIUS = 1e-6  # at c = 1; of 1e-13 float32 loses the masses of panels: reports are records

# Panels of distances with a whole circle in the disc, panels of those with an arc, points of a
# panel
_NEAR = 16
_FAR = 32
_ORDER = 10
_NODES, _WEIGHTS = unit_rule(_ORDER)
_STEPS = 26  # halvings of a panel

# From densities at the nodes of a panel to the mass beyond a place in it: the integral of the
# interpolant, by its coefficients of Legendre's polynomials.
_VALUES = legendre.legvander(2 * _NODES - 1, _ORDER - 1)
_DENSITY = (_VALUES * _WEIGHTS[:, None]).T * (2 * np.arange(_ORDER) + 1)[:, None]
_BEYOND = -legendre.legint(_DENSITY, lbnd=1).T / 2

# A disc in units of 1 / sqrt(c): its radius R, the rate of the exponential, and the record's
# distance r from 0.
_Place: TypeAlias = tuple[Array, Array, Array]


def _near(disc: _Place, place: Array) -> tuple[Array, Array]:
    """Distances s in [0, R - r], whose circles are in the disc, and their density.

    A place is a panel, counted from 0, and a part of it.
    """
    radius, rate, r = disc
    width = (radius - r) / _NEAR
    s = width * place
    density = jnp.pi * width * jnp.exp(-rate * s) * jnp.sinh(s)
    return s, density


def _far(disc: _Place, place: Array) -> tuple[Array, Array, Array]:
    """Distances s whose circles leave the disc, the arc's half-angle, and the density.

    A place is a panel, counted from R - r, and a part of it.
    """
    # s = R - r + 2 r (3 w^2 - 2 w^3), w in [0, 1]: the square roots of both ends are smooth in it.
    # Panels are equal in arsinh, as the arc shrinks within sqrt((R - r) / r) of w.
    radius, rate, r = disc
    r = jnp.maximum(r, 1e-12)  # at the origin no circle is cut; slopes stay finite
    scale = jnp.sqrt(jnp.clip((radius - r) / r, 1e-6, 1e6))
    width = jnp.arcsinh(1 / scale) / _FAR
    w = scale * jnp.sinh(width * place)
    past = r * w**2 * (3 - 2 * w)
    left = r * (1 - w) ** 2 * (1 + 2 * w)
    s = radius - r + 2 * past

    inside = jnp.sinh(radius - left) * jnp.sinh(left)
    beyond = jnp.sinh(radius + past) * jnp.sinh(past)
    arc = 2 * jnp.arctan2(jnp.sqrt(jnp.maximum(inside, 0.0)), jnp.sqrt(beyond))

    slope = 12 * r * w * (1 - w) * scale * jnp.cosh(width * place) * width  # of s in the place
    density = jnp.exp(-rate * s) * jnp.sinh(s) * arc * slope
    return s, arc, density


# The nodes of the most panels, in one long row, over which loops are vectorised
_PLACES = (np.arange(_FAR)[:, None] + _NODES).reshape(-1)


def _densities(disc: _Place) -> Array:
    """The density at the nodes of each panel, [48, 10]."""
    places = jnp.asarray(_PLACES, disc[0].dtype)
    _, near = _near(disc, places[: _NEAR * _ORDER])
    _, _, far = _far(disc, places)
    return jnp.concatenate([near, far]).reshape(-1, _ORDER)


def _arc(disc: _Place, share: Array) -> tuple[Array, Array]:
    """The distance beyond which a share of the mass lies, and the half-angle of its arc."""
    kind = disc[0].dtype
    densities = _densities(disc)  # of the record alone: asked once, however many reports it gives
    masses = matmul(densities, jnp.asarray(_WEIGHTS, kind))
    beyond = jnp.cumsum(masses[::-1])[::-1]  # from the far side, where masses are small
    left = share.astype(kind) * beyond[0]
    panel = jnp.clip((beyond >= left).sum() - 1, 0, _NEAR + _FAR - 1)
    part = left - jnp.append(beyond, 0.0)[panel + 1]  # of this panel's mass, from its far end
    coefficients = matmul(densities, jnp.asarray(_BEYOND, kind))[panel]

    def halve(step: Array, place: Array) -> Array:
        middle = place + (0.5 ** (step + 1.0)).astype(kind)
        beyond_middle = _series(coefficients, 2 * middle - 1)
        return jnp.where(beyond_middle >= part, middle, place)

    place = jax.lax.fori_loop(0, _STEPS, halve, jnp.zeros_like(part))
    is_near = panel < _NEAR
    near, _ = _near(disc, panel.astype(kind) + place)
    far, arc, _ = _far(disc, jnp.maximum(panel - _NEAR, 0).astype(kind) + place)
    return jnp.where(is_near, near, far), jnp.where(is_near, jnp.pi, arc)


def _series(coefficients: Array, t: Array) -> Array:
    """A sum of Legendre's polynomials at t in [-1, 1]."""
    before = jnp.ones_like(t)
    now = t
    found = coefficients[0] + coefficients[1] * t
    for k in range(1, _ORDER):
        following = ((2 * k + 1) * t * now - k * before) / (k + 1)
        before = now
        now = following
        found = found + coefficients[k + 1] * now
    return found


@mechanism
class HyperbolicExponential:
    r"""Report a point of a hyperbolic disc, the rarer the farther it is from the record.

    Law: records and reports are points of the Poincaré disc within distance R of the origin. With
    :math:`a = \epsilon / (2R)` the density of y *with respect to the hyperbolic area* is
    :math:`e^{-a \, d(x, y)} / Z(|x|)`; :meth:`log_density` is with respect to the coordinates.
    Guarantee: epsilon per record, attained at opposite points of the rim: :math:`\log Z` changes by
    at most a times the change of the radius r, so the loss is at most
    :math:`a (d(x, x') + |r - r'|) \le 2 a \max(r, r')`. It is also at most :math:`2 a \, d(x, x')`:
    :meth:`metric_guarantee`.
    Utility: for two dimensions. Reports are their own estimates. Up to epsilon 2 R the likeliest
    distance between the record 0 and its report is R.
    Numerics: the distance from the record is drawn by its distribution function, integrated by
    Gauss and Legendre on 48 panels, to 2e-6 of its mass in float32 (1e-7 in float64). At radius 8
    rounding of the report's coordinates moves distances by more: 0.02 of their mass from a record
    at the rim. Ideal arithmetic.
    Reference: McSherry & Talwar, FOCS 2007, in PoinDP's definition 4; metric: Chatzikokolakis et
    al., PETS 2013.

    Epsilon is in (0, 22], may be traced or a stack; the radius, in units of distance, from 1e-6 to
    8 over sqrt(c).

    >>> m = HyperbolicExponential(4.0, radius=2.0)
    >>> print(m.metric_guarantee())  # doctest: +ELLIPSIS
    epsilon 2 per metric(2) (two records at distance 1; ideal arithmetic; proved: ...)
    """

    epsilon: Scalar
    radius: Scalar = 2.0
    c: Scalar = 1.0
    rim: PyTree = dataclasses.field(init=False, default=None)
    """The disc's radius in coordinates."""

    def _check(self) -> None:
        check_epsilon(self.epsilon, MAX_EPSILON)
        root = math.sqrt(validate.number(0.0, open_lower=True, c=one(c=self.c)))
        least = MIN_RADIUS / root
        most = MAX_RADIUS / root * (1 + 1e-6)
        radius = validate.number(least, most, radius=one(radius=self.radius))
        if self.rim is None:
            object.__setattr__(self, "rim", math.tanh(root * radius / 2) / root)
        spread(self, "radius", "c", "rim")

    def _disc(self, x: Array) -> _Place:
        """The disc as a record sees it."""
        root = jnp.sqrt(jnp.asarray(self.c, x.dtype))
        radius = root * jnp.asarray(self.radius, x.dtype)
        rate = jnp.asarray(self.epsilon, x.dtype) / (2 * radius)
        half = root * length(x)[..., 0] / jnp.sqrt(gap(x, self.c))[..., 0]
        r = jnp.minimum(2 * jnp.arcsinh(half), radius)
        return radius, rate, r

    def privatize(self, key: PRNGKey, x: Record) -> Float[Array, "2"]:
        """The report of one point [2]; one that is farther out is brought to the rim, NaN is 0."""
        check_single(self)
        return _report(self, random_words.words(key, (), 3), one_record(x, 2))

    def log_density(self, y: Report, x: Record) -> Float[Array, ""]:
        """log p(y | x) with respect to the ball's coordinates; ``-inf`` outside the disc."""
        x = self.domain().clip(x)
        y = jnp.asarray(y)
        y = y.astype(jnp.result_type(x, y))
        x = x.astype(y.dtype)
        rim = jnp.asarray(self.rim, y.dtype)
        outside = length(y)[..., 0] > rim * (1 + 4 * jnp.finfo(y.dtype).eps)
        inside = jnp.where(outside[..., None], 0.0, y)

        gap_y = gap(inside, self.c)
        root = jnp.sqrt(jnp.asarray(self.c, x.dtype))
        half = jnp.arcsinh(root * length(inside - x) / jnp.sqrt(gap_y * gap(x, self.c)))
        distance = 2 * half[..., 0]
        log_area = 2 * jnp.log(2 / gap_y[..., 0]) + 2 * jnp.log(root)

        disc = self._disc(x)
        _, rate, _ = disc
        masses = matmul(_densities(disc), jnp.asarray(_WEIGHTS, x.dtype))  # Z / 2 in all
        log_density = -rate * distance + log_area - jnp.log(2 * masses.sum())
        return jnp.where(outside, -jnp.inf, log_density)

    @property
    def _end(self) -> Scalar:
        return one(rim=self.rim) if validate.concrete(self.rim) else self.rim

    def domain(self) -> Ball:
        """Points of the ball within distance R of the origin.

        Others are brought to the rim, NaN is 0.
        """
        return Ball(2, self._end)

    def codomain(self) -> Disc:
        """The same points."""
        return Disc(self._end)

    def estimate(self, y: Report) -> Array:
        """The report itself."""
        return jnp.asarray(y)

    def guarantee(self) -> Guarantee:
        """epsilon per record; the largest of a stack."""
        self._check()
        check_derived(self, "rim")
        return Guarantee(
            largest(self.epsilon),
            adjacency=f"any two points within distance {one(radius=self.radius):g} of the origin",
            status="proved",
            reason="distances and the logarithm of the normaliser change by at most 2 a R together",
        )

    def metric_guarantee(self) -> Guarantee:
        """2 a = epsilon / R for each unit of distance between two records."""
        epsilon = Fraction(self.guarantee().epsilon)
        rate = rounded_up(epsilon / Fraction(one(radius=self.radius)))
        return Guarantee(
            rate,
            unit=metric(rate),
            status="proved",
            reason="a distance and the log of the normaliser each change by at most a times that "
            "of the records",
        )


@jax.jit  # eager calls run one program too
def _report(m: HyperbolicExponential, words: Array, x: Array) -> Array:
    """The report under three uniform words."""
    x = m.domain().clip(x)
    # 46 bits where they matter: the far side is rare.
    high, low = (words[:2] >> 9).astype(jnp.float32)
    share = (high + (low + 0.5) * np.float32(2.0**-23)) * np.float32(2.0**-23)
    s, arc = _arc(m._disc(x), share)
    signed = ((words[2] >> 8).astype(x.dtype) + 0.5) * np.float32(2.0**-23) - 1  # in (-1, 1)
    turn = arc * signed

    # The direction from the record to the origin, and the one at a right angle to it.
    size = length(x)
    some = jnp.where(size > 0, size, 1.0)
    home = jnp.where(size > 0, -x / some, jnp.array([1.0, 0.0], x.dtype))
    side = jnp.stack([-home[1], home[0]])
    direction = jnp.cos(turn) * home + jnp.sin(turn) * side

    step = s / jnp.sqrt(jnp.asarray(m.c, x.dtype)) * direction
    velocity = 0.5 * gap(x, m.c) * step
    return shortened(poincare._exp_map(x, velocity, m.c), m.rim)
