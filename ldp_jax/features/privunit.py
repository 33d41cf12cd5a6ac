"""PrivUnit: vectors of bounded length, reported likelier within a cap of the sphere."""

import abc
import dataclasses
import math
from functools import lru_cache, partial
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from scipy import special

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import random, random_words, validate
from ldp_jax.core.float32 import matmul
from ldp_jax.core.mechanism import (
    check_derived,
    check_epsilon,
    check_single,
    largest,
    mechanism,
    one_record,
    static,
)
from ldp_jax.core.quadrature import gauss_legendre
from ldp_jax.core.spaces import Ball, Sphere, Turned
from ldp_jax.core.spaces.spheres import polar
from ldp_jax.core.types import Array, PRNGKey, Record, Report, Scalar

_LARGEST = 44.0  # budget: of more, 64-bit words would never draw what is outside a cap in the plane
_NARROWEST = 1 - 2.0**-14  # largest cut: float32 takes a smaller cap for a point
_STEPS = 12  # of Newton's method
_NODES, _WEIGHTS = gauss_legendre(32)


class _Cap(NamedTuple):
    """A cap of mass q under the base law; arrays for several caps."""

    cut: PyTree  # the least component along the record
    log_whole: PyTree  # -log(anywhere)
    anywhere: PyTree  # 1 / (1 + (e^epsilon - 1) q), the chance of a draw from the base law
    gain: PyTree  # the mean of the component
    second: PyTree  # its second moment


def _cap(sphere: bool, dim: int, epsilon: float, log_q: float | np.ndarray) -> _Cap:
    """The cap of mass q under the base law, in float64."""
    if sphere:
        a = (dim - 1) / 2
        double = 2 * np.exp(log_q)
        narrow = double < 0.5
        # 1 - gamma^2 or gamma^2, from the end where it is precise
        rest = special.betaincinv(a, 0.5, np.minimum(double, 0.5))
        wide = special.betaincinv(0.5, a, np.clip(1 - double, 0.0, 0.5))
        square = np.where(narrow, 1 - rest, wide)
        log_rest = np.where(narrow, np.log(rest), np.log1p(-square))
        cut = np.sqrt(square)
        log_part = a * log_rest - math.log(dim - 1) - special.betaln(a, 0.5)
        spread = (dim - 1) / dim
    else:
        z = -special.ndtri_exp(log_q)
        cut = z / math.sqrt(dim)
        log_part = -0.5 * (z**2 + math.log(2 * math.pi) + math.log(dim))
        spread = 1.0
    # e^log_part is E[component along the record; component >= cut].
    log_more = np.log(-np.expm1(-epsilon)) + epsilon  # log(e^epsilon - 1)
    log_whole = np.logaddexp(0.0, log_more + log_q)
    gain = np.exp(log_more + log_part - log_whole)
    return _Cap(cut, log_whole, np.exp(-log_whole), gain, 1 / dim + spread * cut * gain)


def _error(sphere: bool, cap: _Cap) -> PyTree:
    """E |V|^2 / m^2: the error of an estimate, plus the squared length of the record."""
    length = 1.0 if sphere else 1 + cap.cut * cap.gain
    return length / cap.gain**2


@lru_cache(maxsize=4096)
def _best(sphere: bool, dim: int, epsilon: float) -> _Cap:
    """The cap of least error: a grid of log masses, then a bounded search."""
    from scipy import optimize  # where it is needed: importing it takes as long as a first report

    log_error = lambda log_q: np.log(_error(sphere, _cap(sphere, dim, epsilon, log_q)))

    lowest = -epsilon - 12.0
    if sphere:  # the mass of the narrowest cap
        narrow = special.betainc((dim - 1) / 2, 0.5, 1 - _NARROWEST**2) / 2
        lowest = max(lowest, math.log(max(float(narrow), 1e-300)))
    places = np.linspace(lowest, math.log(0.5) - 1e-9, 800)
    errors = log_error(places)
    at = int(errors.argmin())
    near = places[max(at - 1, 0) : at + 2]
    found = optimize.minimize_scalar(
        lambda log_q: float(log_error(log_q)),
        bounds=(near[0], near[-1]),
        method="bounded",
        options={"xatol": 1e-10},
    )
    best = found.x if found.fun < errors[at] else places[at]
    return _Cap(*map(float, _cap(sphere, dim, epsilon, best)))


@mechanism
class _OnCaps(abc.ABC):
    """A mechanism on the ball whose reports have two levels of density about a direction.

    Abstract.
    """

    epsilon: Scalar
    dim: int = static()
    radius: float = static(default=1.0)
    cap: PyTree = dataclasses.field(init=False, repr=False, default=None)

    _sphere: ClassVar[bool]  # whether the base law is that of the sphere, or a Gaussian

    def _check(self) -> None:
        check_epsilon(self.epsilon, _LARGEST)
        validate.integer_in(2, dim=self.dim)
        radius = validate.number(0.0, 1e9, open_lower=True, radius=self.radius)
        object.__setattr__(self, "radius", radius)
        if validate.concrete(self.epsilon):
            caps = self._caps(self.epsilon)
        else:  # the host is asked for the same caps when the program runs
            shape = (*jnp.shape(self.epsilon), len(_Cap._fields))
            caps = jax.pure_callback(
                lambda epsilon: self._caps(epsilon).astype(np.float32),
                jax.ShapeDtypeStruct(shape, np.float32),
                self.epsilon,
                vmap_method="expand_dims",
            )
        each = [caps[..., place] for place in range(len(_Cap._fields))]
        if isinstance(self.epsilon, float):
            cap = _Cap(*map(float, each))
        else:
            cap = _Cap(*(jnp.asarray(number, jnp.float32) for number in each))
        object.__setattr__(self, "cap", cap)

    def _caps(self, epsilon: Scalar) -> np.ndarray:
        """The best caps of concrete budgets, their numbers last; float64."""
        each = np.asarray(epsilon, np.float64)
        validate.in_range(0.0, _LARGEST, open_lower=True, epsilon=each)
        caps = [_best(self._sphere, self.dim, one) for one in each.ravel().tolist()]
        return np.reshape(caps, (*each.shape, len(_Cap._fields)))

    @abc.abstractmethod
    def _base(self, noise: Array) -> Array:
        """A report of the base law from dim normal numbers."""

    @abc.abstractmethod
    def _in_cap(self, exponential: Array) -> tuple[Array, Scalar]:
        """The component along the record, of conditional tail e^-exponential.

        Also the scale of what is across.
        """

    @abc.abstractmethod
    def _log_base(self, y: Array) -> Array:
        """The log density of the base law."""

    def privatize(self, key: PRNGKey, x: Record) -> Array:
        """The report [dim] of one record [dim]; float32."""
        validate.threefry(key)
        check_single(self)
        length, u = polar(one_record(x, self.dim), self.radius)
        side_key, law_key, cap_key, noise_key = random.split(key, 4)
        against = random_words.bernoulli(side_key, (1 - length) / 2)
        u = jnp.where(against, -u, u)

        anywhere = jnp.asarray(self.cap.anywhere, jnp.float32)
        rest = -jnp.expm1(-jnp.asarray(self.cap.log_whole, jnp.float32))
        free = random_words.bernoulli(law_key, anywhere, rest)

        exponential = random_words.exponential_from_words(random_words.words(cap_key))
        along, scale = self._in_cap(exponential)
        noise = random_words.normal(noise_key, (self.dim,), ())
        across = noise - matmul(noise, u) * u
        across = across - matmul(across, u) * u  # once more, of what rounding left
        in_cap = along * u + scale * self._base(across)
        return jnp.where(free, self._base(noise), in_cap)

    def log_density(self, y: Report, x: Record) -> Array:
        """log p(y | x)."""
        x = one_record(x, self.dim)
        y = one_record(y, self.dim, "y")
        x = x.astype(jnp.result_type(x, y))  # a level in the precision of the report
        length, u = polar(x, self.radius)
        log_towards = _log_level(self.epsilon, (1 + length) / 2)
        log_against = _log_level(self.epsilon, (1 - length) / 2)
        along = matmul(y, u.astype(y.dtype))
        cut = jnp.asarray(self.cap.cut, y.dtype)
        towards = jnp.where(along >= cut, log_towards, 0.0)
        against = jnp.where(along <= -cut, log_against, 0.0)
        return self._log_base(y) - self.cap.log_whole + (towards + against)

    def domain(self) -> Ball:
        """Vectors of length at most ``radius``.

        Longer ones are shortened, NaN coordinates are 0.
        """
        return Ball(self.dim, self.radius)

    def guarantee(self) -> Guarantee:
        """epsilon per record; the largest of a stack."""
        epsilon = largest(self.epsilon)
        check_epsilon(epsilon, _LARGEST)
        check_derived(self, "cap")
        return Guarantee(
            epsilon,
            adjacency=f"any two vectors of length at most {self.radius:g}",
            status="proved",
            reason="about any direction the density has two levels, in ratio e^eps, over the same "
            "whole; the choice between a direction and its opposite mixes two such laws",
        )

    def estimate(self, y: Report) -> Array:
        """R V / m: unbiased."""
        return self.radius / jnp.asarray(self.cap.gain) * jnp.asarray(y)

    def mean(self, x: Record) -> Array:
        """x: unbiased."""
        length, u = polar(x, self.radius)
        return self.radius * length[..., None] * u

    def variance(self, x: Record) -> Array:
        """Variance of each coordinate of the estimate."""
        length, u = polar(x, self.radius)
        across, more = self._seconds()
        return self.radius**2 * (across + more * u**2 - (length[..., None] * u) ** 2)

    def covariance(self, x: Record) -> Array:
        """[dim, dim] of the estimate of one record."""
        length, u = polar(one_record(x, self.dim), self.radius)
        across, more = self._seconds()
        along = (more - length**2) * jnp.outer(u, u)
        return self.radius**2 * (across * jnp.eye(self.dim) + along)

    def _seconds(self) -> tuple[Array, Array]:
        """The second moment of an estimate across the record, and its excess along it.

        Both are in squared radii.
        """
        across = (1 - self.cap.second) / (self.dim - 1) if self._sphere else 1 / self.dim
        gain = jnp.asarray(self.cap.gain) ** 2
        return across / gain, (self.cap.second - across) / gain

    def worst_error(self) -> float:
        """The largest E |estimate - x|^2, attained at x = 0; it falls by |x|^2."""
        cap = _best(self._sphere, self.dim, largest(self.epsilon))
        return float(self.radius**2 * _error(self._sphere, cap))


def _log_level(epsilon: Scalar, share: Array) -> Array:
    """log(1 + share (e^epsilon - 1)) of a share in [0, 1]."""
    inside = jnp.where((share > 0) & (share < 1), share, 0.5)
    mixed = jnp.logaddexp(jnp.log1p(-inside), jnp.log(inside) + epsilon)
    level = jnp.where(share >= 1, epsilon, mixed)
    return jnp.where(share <= 0, 0.0, level).astype(share.dtype)


@mechanism
class PrivUnit(_OnCaps):
    r"""Report a unit vector, e^epsilon times likelier in a cap around the record's direction.

    Law: for :math:`|x| \le R` let u be the direction of x (of 0: the first axis), or minus that
    with probability :math:`(1 - |x|/R) / 2`. V is on the unit sphere with density proportional to
    :math:`e^\epsilon` where :math:`\langle V, u \rangle \ge \gamma` and to 1 elsewhere; the
    published p is :math:`e^\epsilon q / (1 - q + e^\epsilon q)`, q the uniform mass of the cap.
    Guarantee: epsilon per record, attained between opposite records of full length.
    Utility: the estimate :math:`R V / m` is unbiased, :math:`E |\hat x - x|^2 = R^2 / m^2 - |x|^2`,
    with
    :math:`m = \frac{e^\epsilon - 1}{1 + (e^\epsilon - 1) q} \cdot
    \frac{(1-\gamma^2)^{(d-1)/2}}{(d-1) B(\frac{d-1}{2}, \frac12)}` the largest of all caps. No
    unbiased mechanism has a smaller worst error on records of full length.
    Numerics: caps are chosen in float64 on the host, for a traced epsilon by a callback. Events use
    64-bit words; the component along u is good to 1e-5 of the cap's tail. No cap is narrower than
    6e-5. Ideal arithmetic.
    Reference: Bhowmick et al., arXiv:1812.00984, Algorithm 1; Asi, Feldman & Talwar, ICML 2022
    (optimality).

    Epsilon is in (0, 44], a number, traced, or a stack [n] of personal budgets; d >= 2.

    >>> m = PrivUnit(4.0, dim=32)
    >>> y = m.privatize(jax.random.key(0), jnp.ones(32))
    >>> round(float(jnp.linalg.norm(y)), 3), round(m.worst_error(), 1)
    (1.0, 14.2)
    """

    _sphere: ClassVar[bool] = True

    def codomain(self) -> Sphere:
        """Unit vectors."""
        return Sphere(self.dim, self.cap.cut)

    def _base(self, noise: Array) -> Array:
        return noise / jnp.maximum(jnp.linalg.norm(noise), jnp.finfo(noise.dtype).tiny)

    @partial(jax.jit, inline=True)  # an eager loop is compiled at each call
    def _in_cap(  # pyrefly: ignore[bad-override-mutable-attribute]
        self, exponential: Array
    ) -> tuple[Array, Scalar]:
        """cos and sin of t - d.

        The tail beyond that angle is e^-exponential of the one beyond t = arccos(cut).
        """
        power = self.dim - 2
        cut = jnp.asarray(self.cap.cut, jnp.float32)
        wide = jnp.arccos(cut)

        def log_sine(slope: Array, away: Array) -> Array:
            """log(sin(t - away) / sin t) from the cotangent of t, precise where it is small."""
            ratio = 2 * jnp.sin(away / 2) ** 2 + slope * jnp.sin(away)
            return jnp.log1p(-jnp.minimum(ratio, 1 - 2.0**-23))

        def cotangent(angle: Array) -> Array:
            return jnp.cos(angle) / jnp.sin(angle)

        def tail(angle: Array) -> Array:
            """The integral of sin^power up to an angle, over sin^power there.

            Parts below e^-20 of the integrand are left out.
            """
            nodes = jnp.asarray(_NODES, jnp.float32)
            weights = jnp.asarray(_WEIGHTS, jnp.float32)
            slope = cotangent(angle)
            most = jnp.minimum(20.0 / (power * slope + 1e-6), jnp.sqrt(40.0 / max(power, 1)))
            reach = jnp.minimum(angle, most)
            heights = jnp.exp(power * log_sine(slope, reach * (1 + nodes) / 2))
            return reach / 2 * matmul(heights, weights)

        start = tail(wide)

        def step(_: Array, log_ratio: Array) -> Array:
            """A step of Newton's method, in the ratio of the angle to t: the tail is concave."""
            angle = wide * jnp.exp(log_ratio)
            here = tail(angle)
            away = -wide * jnp.expm1(log_ratio)
            log_tail = power * log_sine(cotangent(wide), away) + jnp.log(here / start)
            return jnp.minimum(log_ratio - (log_tail + exponential) * here / angle, 0.0)

        log_ratio = jax.lax.fori_loop(0, _STEPS, step, -exponential / (self.dim - 1))
        away = -wide * jnp.expm1(log_ratio)
        sine = jnp.sqrt((1 - cut) * (1 + cut))
        along = cut * jnp.cos(away) + sine * jnp.sin(away)
        # The cosine may round to 1. Its sine would be 0, and the report the record's own direction.
        return along, jnp.sin(wide * jnp.exp(log_ratio))

    def _log_base(self, y: Array) -> Array:
        half = self.dim / 2
        log_surface = math.log(2) + half * math.log(math.pi) - math.lgamma(half)
        length = jnp.sqrt((y**2).sum())
        possible = jnp.abs(length - 1) <= 1e-5 * math.sqrt(self.dim)
        return jnp.where(possible, -log_surface, -jnp.inf).astype(y.dtype)


@mechanism
class PrivUnitG(_OnCaps):
    r"""Report a Gaussian vector, e^epsilon times likelier beyond a plane in the record's direction.

    Law: :class:`PrivUnit` with :math:`N(0, I/d)` for the uniform law of the sphere; arguments as
    there.
    Guarantee: epsilon per record, attained between opposite records of full length.
    Utility: the estimate :math:`R V / m` is unbiased,
    :math:`E |\hat x - x|^2 = R^2 (1 + \gamma m) / m^2 - |x|^2`, with
    :math:`m = \frac{e^\epsilon - 1}{1 + (e^\epsilon - 1) q} \cdot
    \frac{\phi(\gamma \sqrt d)}{\sqrt d}` and :math:`q = \Phi(-\gamma \sqrt d)`. The cut has the
    least error, that of :class:`PrivUnit` in high dimensions.
    Numerics: as :class:`PrivUnit`, with the tail of a Gaussian.
    Reference: Asi, Feldman & Talwar, ICML 2022, Section 4.

    >>> m = PrivUnitG(4.0, dim=32)
    >>> (
    ...     m.guarantee().epsilon,
    ...     round(m.worst_error() / PrivUnit(4.0, dim=32).worst_error(), 2),
    ... )
    (4.0, 1.05)
    """

    _sphere: ClassVar[bool] = False

    def codomain(self) -> Turned:
        """All vectors."""
        return Turned(self.dim, self.cap.cut)

    def _base(self, noise: Array) -> Array:
        return noise * np.float32(self.dim**-0.5)

    def _in_cap(self, exponential: Array) -> tuple[Array, Scalar]:
        """The place with a Gaussian tail of e^-exponential times that beyond the cut, and 1."""
        least = jnp.asarray(self.cap.cut, jnp.float32) * np.float32(self.dim**0.5)
        z = random_words.beyond(least, exponential)
        return z * np.float32(self.dim**-0.5), 1.0

    def _log_base(self, y: Array) -> Array:
        return self.dim / 2 * (math.log(self.dim / (2 * math.pi)) - (y**2).sum())
