"""One vector of bounded Euclidean length under one budget: a cap of the sphere in which reports are likelier."""

import abc
import dataclasses
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import random_words, validate
from ldp_jax.core.mechanism import check_epsilon, check_single, largest
from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.spaces import Ball, Sphere, Turned, as_records
from ldp_jax.core.spaces.spheres import polar
from ldp_jax.core.types import Array, PRNGKey, Scalar

_LARGEST = 60.0  # of a budget: beyond, a record in the ball's middle is told from one at its end no better
_NARROWEST = 1 - 2.0**-14  # a cap that is narrower is a point to float32
_STEPS = 12  # of Newton's method, from either end
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)


class _Cap(NamedTuple):
    """What a budget and a dimension fix, in float64; of several caps, arrays.

    Attributes:
      cut: gamma, of a report's component along the record.
      log_whole: log(1 + (e^epsilon - 1) q), q the mass of the cap under the uniform law.
      anywhere: 1 / (1 + (e^epsilon - 1) q), how likely a report is of the uniform law.
      gain: m, the mean of the component along the record.
      second: its second moment.
    """

    cut: Any
    log_whole: Any
    anywhere: Any
    gain: Any
    second: Any


class _Tail(NamedTuple):
    """A cap whose mass under the uniform law is q, for logarithms of q.

    Attributes:
      cut: gamma.
      log_part: log E[component; component >= gamma], of the uniform law.
    """

    cut: Any
    log_part: Any


def _sphere_tail(dim: int, log_q: Any) -> _Tail:
    a, double = (dim - 1) / 2, 2 * np.exp(log_q)
    rest = special.betaincinv(a, 0.5, np.minimum(double, 0.5))  # 1 - gamma^2, from the end where it is precise
    square = np.where(double < 0.5, 1 - rest, special.betaincinv(0.5, a, np.clip(1 - double, 0.0, 0.5)))
    log_rest = np.where(double < 0.5, np.log(rest), np.log1p(-square))
    return _Tail(np.sqrt(square), a * log_rest - math.log(dim - 1) - special.betaln(a, 0.5))


def _gaussian_tail(dim: int, log_q: Any) -> _Tail:
    z = -special.ndtri_exp(log_q)
    return _Tail(z / math.sqrt(dim), -0.5 * (z**2 + math.log(2 * math.pi) + math.log(dim)))


def _cap(tail: Callable[[int, Any], _Tail], spread: float, dim: int, epsilon: float, log_q: Any) -> _Cap:
    """The moments of a cap; ``spread`` is 1 where lengths are free and (dim - 1) / dim on the sphere."""
    cut, log_part = tail(dim, log_q)
    log_more = np.log(-np.expm1(-epsilon)) + epsilon  # log(e^epsilon - 1)
    log_whole = np.logaddexp(0.0, log_more + log_q)
    gain = np.exp(log_more + log_part - log_whole)
    return _Cap(cut, log_whole, np.exp(-log_whole), gain, 1 / dim + spread * cut * gain)


def _error(cap: _Cap, spread: float) -> Any:
    """E |V|^2 / m^2, of which a record's own length is taken off: how far an estimate is."""
    length = 1.0 if spread < 1 else 1 + cap.cut * cap.gain
    return length / cap.gain**2


@lru_cache(maxsize=4096)
def _best(tail: Callable[[int, Any], _Tail], spread: float, dim: int, epsilon: float) -> _Cap:
    """The cap of least error, by its mass on a grid of logarithms and then to float64's precision."""
    from scipy import optimize  # where it is needed: importing it takes as long as a first report

    made = lambda log_q: _cap(tail, spread, dim, epsilon, log_q)
    lowest = -epsilon - 12.0
    if spread < 1:  # the mass of the narrowest cap
        narrow = special.betainc((dim - 1) / 2, 0.5, 1 - _NARROWEST**2) / 2
        lowest = max(lowest, math.log(max(float(narrow), 1e-300)))
    places = np.linspace(lowest, math.log(0.5) - 1e-9, 800)
    worst = np.log(_error(made(places), spread))
    at = int(worst.argmin())
    ends = places[max(at - 1, 0)], places[min(at + 1, len(places) - 1)]
    found = optimize.minimize_scalar(
        lambda log_q: float(np.log(_error(made(log_q), spread))),
        bounds=ends,
        method="bounded",
        options={"xatol": 1e-10},
    )
    best = found.x if found.fun < worst[at] else places[at]
    return _Cap(*(float(value) for value in made(best)))


@mechanism
class _OnCaps(abc.ABC):
    """A mechanism on the ball whose reports have two levels of density about a direction; abstract.

    What a :class:`_Cap` holds is made from epsilon and dim.
    """

    epsilon: Scalar
    dim: int = static()
    radius: float = static(default=1.0)
    cut: Any = dataclasses.field(init=False, default=None)
    log_whole: Any = dataclasses.field(init=False, default=None)
    anywhere: Any = dataclasses.field(init=False, default=None)
    gain: Any = dataclasses.field(init=False, default=None)
    second: Any = dataclasses.field(init=False, default=None)

    def _check(self) -> None:
        if not validate.concrete(self.epsilon):
            raise ValueError("epsilon must be a concrete number or stack: the cap is chosen on the host")
        check_epsilon(self.epsilon, _LARGEST)
        validate.integer_in(2, dim=self.dim)
        object.__setattr__(self, "radius", validate.number(0.0, 1e9, open_lower=True, radius=self.radius))
        each = np.asarray(self.epsilon, np.float64)
        caps = np.array([_best(self._tail(), self._spread(), self.dim, float(one)) for one in each.ravel()])
        for place, name in enumerate(_Cap._fields):
            value = caps[:, place].reshape(each.shape)
            object.__setattr__(self, name, jnp.asarray(value, jnp.float32) if each.ndim else float(value))

    @staticmethod
    @abc.abstractmethod
    def _tail() -> Callable[[int, Any], _Tail]:
        """Caps of the uniform law by their mass."""

    @abc.abstractmethod
    def _spread(self) -> float:
        """1 where lengths are free, (dim - 1) / dim on the sphere."""

    @abc.abstractmethod
    def _base(self, noise: Array) -> Array:
        """A report of the uniform law from dim normal numbers."""

    @abc.abstractmethod
    def _along(self, exponential: Array) -> Array:
        """The component along the record in the cap, whose conditional tail is e^-exponential."""

    @abc.abstractmethod
    def _across(self, along: Array, rest: Array) -> Array:
        """What goes with it across the record, from normal numbers there."""

    @abc.abstractmethod
    def _log_base(self, y: Array) -> Array:
        """The log density of the uniform law."""

    def _one(self, name: str, value: Any) -> Array:
        value = as_records(value)
        if value.shape != (self.dim,):
            raise ValueError(f"{name} must be one record of shape ({self.dim},), got {value.shape}: use jax.vmap")
        return value

    def privatize(self, key: PRNGKey, x: Any) -> Array:
        """The report [dim] of one record [dim]; float32.

        Raises:
          ValueError: for another shape, or a stack of mechanisms: ``vmap`` over users. (Shapes are no data.)
        """
        validate.threefry(key)
        check_single(self)
        length, u = polar(self._one("x", x), self.radius)
        side_key, law_key, cap_key, noise_key = jax.random.split(key, 4)
        against = random_words.bernoulli_from_words(random_words.words(side_key), (1 - length) / 2)
        u = jnp.where(against, -u, u)
        anywhere = jnp.asarray(self.anywhere, jnp.float32)
        rest = -jnp.expm1(-jnp.asarray(self.log_whole, jnp.float32))
        free = random_words.bernoulli_from_words(random_words.words(law_key), anywhere, rest)
        along = self._along(random_words.exponential_from_words(random_words.words(cap_key)))
        noise = jax.random.normal(noise_key, (self.dim,), jnp.float32)
        across = noise - (noise @ u) * u
        across = across - (across @ u) * u  # once more, of what rounding left
        in_cap = along * u + self._across(along, across)
        return jnp.where(free, self._base(noise), in_cap)

    def log_density(self, y: Any, x: Any) -> Array:
        """log p(y | x), of the record's two directions."""
        x, y = self._one("x", x), self._one("y", y)
        length, u = polar(x.astype(jnp.result_type(x, y)), self.radius)  # a level in the precision of the report
        along, cut = y @ u.astype(y.dtype), jnp.asarray(self.cut, y.dtype)
        towards = jnp.where(along >= cut, _log_level(self.epsilon, (1 + length) / 2), 0.0)
        against = jnp.where(along <= -cut, _log_level(self.epsilon, (1 - length) / 2), 0.0)
        return self._log_base(y) - self.log_whole + (towards + against)

    def domain(self) -> Ball:
        """Vectors of length at most ``radius``; longer ones are shortened, a coordinate that is NaN is 0."""
        return Ball(self.dim, self.radius)

    def guarantee(self) -> Guarantee:
        """epsilon per record; the largest one where epsilon is a stack of personal budgets, one a user."""
        epsilon = largest(self.epsilon)
        check_epsilon(epsilon, _LARGEST)
        return Guarantee(
            epsilon,
            adjacency=f"any two vectors of length at most {self.radius:g}",
            status="proved",
            reason="about any direction the density has two levels, in ratio e^eps, over the same whole; the "
            "choice between a direction and its opposite mixes two such laws",
        )

    def estimate(self, y: Any) -> Array:
        """The report over the mean of its component along the record, in units of the radius: unbiased."""
        return self.radius / jnp.asarray(self.gain) * jnp.asarray(y)

    def mean(self, x: Any) -> Array:
        """x: unbiased."""
        length, u = polar(x, self.radius)
        return self.radius * length[..., None] * u

    def variance(self, x: Any) -> Array:
        """By coordinate: more along the record than across it."""
        length, u = polar(x, self.radius)
        across, more = self._seconds()
        return self.radius**2 * (across + more * u**2 - (length[..., None] * u) ** 2)

    def covariance(self, x: Any) -> Array:
        """[dim, dim] of the estimate of one record."""
        length, u = polar(self._one("x", x), self.radius)
        across, more = self._seconds()
        return self.radius**2 * (across * jnp.eye(self.dim) + (more - length**2) * jnp.outer(u, u))

    def _seconds(self) -> tuple[Any, Any]:
        """The second moment of an estimate across the record, and how much more it is along, in squared radii."""
        across = 1 / self.dim if self._spread() == 1 else (1 - self.second) / (self.dim - 1)
        gain = jnp.asarray(self.gain) ** 2
        return across / gain, (self.second - across) / gain

    def worst_error(self) -> float:
        """The largest E |estimate - x|^2, which is of the record 0; of one epsilon.

        A record of full length has ``radius**2`` less.
        """
        cap = _best(self._tail(), self._spread(), self.dim, float(largest(self.epsilon)))
        return float(self.radius**2 * _error(cap, self._spread()))

    def stack_shape(self) -> tuple[int, ...]:
        """() for one mechanism, the shape of epsilon for personal budgets."""
        return jnp.shape(self.epsilon)

    def __repr__(self) -> str:
        shown = self.epsilon if isinstance(self.epsilon, float) else list(jnp.shape(self.epsilon))
        return f"{type(self).__name__}(epsilon={shown}, dim={self.dim}, radius={self.radius:g})"


def _log_level(epsilon: Any, share: Array) -> Array:
    """log(1 + share (e^epsilon - 1)), of a share that may be 0 or 1."""
    inside = jnp.where((share > 0) & (share < 1), share, 0.5)
    mixed = jnp.logaddexp(jnp.log1p(-inside), jnp.log(inside) + epsilon)
    return jnp.where(share <= 0, 0.0, jnp.where(share >= 1, epsilon, mixed)).astype(share.dtype)


@mechanism
class PrivUnit(_OnCaps):
    r"""Report a unit vector, e^epsilon times likelier in a cap around the record's direction than elsewhere.

    Law: with :math:`|x| \le R` (``radius``) and u its direction, or minus that with probability
    :math:`(1 - |x|/R) / 2`, the report V is on the unit sphere with density proportional to :math:`e^\epsilon`
    where :math:`\langle V, u \rangle \ge \gamma` and to 1 elsewhere. The direction of the record 0 is the first
    axis. With q the mass of the cap under the uniform law this is the published form with
    :math:`p = e^\epsilon q / (1 - q + e^\epsilon q)`.

    Guarantee: epsilon per record, attained between two opposite records of full length.

    Utility: the estimate :math:`R V / m` is unbiased for all records of the ball, where
    :math:`m = \frac{e^\epsilon - 1}{1 + (e^\epsilon - 1) q} \cdot
    \frac{(1-\gamma^2)^{(d-1)/2}}{(d-1) B(\frac{d-1}{2}, \frac12)}`;
    :math:`E |\hat x - x|^2 = R^2 / m^2 - |x|^2`. The cap is the one of largest m, found in float64 with tails in
    logarithms. For records of full length no unbiased mechanism of this budget has a smaller worst error.

    Numerics: with probability :math:`1 / (1 + (e^\epsilon - 1) q)`, of 64-bit words, the report is uniform on the
    sphere: a normal vector over its length. Else its component along u is the inverse tail function of the cap at
    an exponential number (Newton's method on a quadrature of the tail, good to 1e-5 of the tail), and what is
    across is a normal vector without its component along u. A cap is no narrower than 6e-5, which few dimensions
    and large budgets alone would want. Ideal arithmetic.

    Reference: Bhowmick, Duchi, Freudiger, Kapoor & Rogers, arXiv:1812.00984, Algorithm 1; Asi, Feldman & Talwar,
    ICML 2022, who show that it is optimal.

    Args:
      epsilon: in (0, 60]; an array [n] for personal budgets, concrete.
      dim: d >= 2.
      radius: R, the largest length of a record.

    >>> m = PrivUnit(4.0, dim=32)
    >>> y = m.privatize(jax.random.key(0), jnp.ones(32))
    >>> round(float(jnp.linalg.norm(y)), 3), round(m.worst_error(), 1)
    (1.0, 14.2)
    """

    __repr__ = _OnCaps.__repr__

    @staticmethod
    def _tail() -> Callable[[int, Any], _Tail]:
        return _sphere_tail

    def _spread(self) -> float:
        return (self.dim - 1) / self.dim

    def codomain(self) -> Sphere:
        """Unit vectors."""
        return Sphere(self.dim, self.cut)

    def _base(self, noise: Array) -> Array:
        return noise / jnp.maximum(jnp.linalg.norm(noise), jnp.finfo(noise.dtype).tiny)

    def _along(self, exponential: Array) -> Array:
        """cos(t - d), where the tail beyond the angle t - d is e^-exponential of that beyond t = arccos(cut)."""
        power = self.dim - 2
        cut = jnp.asarray(self.cut, jnp.float32)
        wide = jnp.arccos(cut)

        def tail(angle: Array) -> Array:
            """The integral of sin^power up to an angle, over sin^power there: of what is not e^-20 of it."""
            slope = jnp.cos(angle) / jnp.sin(angle)
            reach = jnp.minimum(angle, jnp.minimum(20.0 / (power * slope + 1e-6), jnp.sqrt(40.0 / max(power, 1))))
            away = reach * (1 + jnp.asarray(_NODES, jnp.float32)) / 2
            return reach / 2 * (jnp.exp(power * _log_sine(slope, away)) @ jnp.asarray(_WEIGHTS, jnp.float32))

        start = tail(wide)

        def step(_: Any, log_ratio: Array) -> Array:  # of the angle to t; the tail is concave in it
            angle = wide * jnp.exp(log_ratio)
            here = tail(angle)
            away = -wide * jnp.expm1(log_ratio)
            log_tail = power * _log_sine(jnp.cos(wide) / jnp.sin(wide), away) + jnp.log(here / start)
            return jnp.minimum(log_ratio - (log_tail + exponential) * here / angle, 0.0)

        first = -exponential / (self.dim - 1)
        away = -wide * jnp.expm1(jax.lax.fori_loop(0, _STEPS, step, first))
        return cut * jnp.cos(away) + jnp.sqrt((1 - cut) * (1 + cut)) * jnp.sin(away)

    def _across(self, along: Array, rest: Array) -> Array:
        length = jnp.sqrt(jnp.maximum((1 - along) * (1 + along), 0.0))
        return length * self._base(rest)

    def _log_base(self, y: Array) -> Array:
        log_surface = math.log(2) + self.dim / 2 * math.log(math.pi) - math.lgamma(self.dim / 2)
        length = jnp.sqrt((y**2).sum())
        possible = jnp.abs(length - 1) <= 1e-5 * math.sqrt(self.dim)
        return jnp.where(possible, -log_surface, -jnp.inf).astype(y.dtype)


def _log_sine(slope: Array, away: Array) -> Array:
    """log(sin(t - away) / sin t) of the cotangent of t, precise where it is small."""
    ratio = 2 * jnp.sin(away / 2) ** 2 + slope * jnp.sin(away)
    return jnp.log1p(-jnp.minimum(ratio, 1 - 2.0**-23))


@mechanism
class PrivUnitG(_OnCaps):
    r"""Report a Gaussian vector, e^epsilon times likelier beyond a plane in the record's direction than before it.

    Law: as :class:`PrivUnit` with the uniform law of the sphere replaced by :math:`N(0, I/d)`: V has density
    proportional to :math:`e^{-d |V|^2 / 2}` times :math:`e^\epsilon` where :math:`\langle V, u \rangle \ge \gamma`
    and 1 elsewhere.

    Guarantee: epsilon per record, attained between two opposite records of full length.

    Utility: the estimate :math:`R V / m` is unbiased for all records of the ball, where
    :math:`m = \frac{e^\epsilon - 1}{1 + (e^\epsilon - 1) q} \cdot \frac{\phi(\gamma \sqrt d)}{\sqrt d}` and
    :math:`q = \Phi(-\gamma \sqrt d)`; :math:`E |\hat x - x|^2 = R^2 (1 + \gamma m) / m^2 - |x|^2`. The cut is the
    one of least error, in float64 with tails in logarithms: in high dimensions the error is that of
    :class:`PrivUnit`.

    Numerics: with probability :math:`1 / (1 + (e^\epsilon - 1) q)`, of 64-bit words, the report is N(0, I/d)
    itself. Else its component along u is the inverse tail function of a Gaussian at an exponential number (Newton's
    method on the logarithm of the tail, good to 1e-5 of it), and what is across is Gaussian. Ideal arithmetic.

    Reference: Asi, Feldman & Talwar, Optimal algorithms for mean estimation under local differential privacy, ICML
    2022, Section 4.

    Args:
      epsilon: in (0, 60]; an array [n] for personal budgets, concrete.
      dim: d >= 2.
      radius: R, the largest length of a record.

    >>> m = PrivUnitG(4.0, dim=32)
    >>> m.guarantee().epsilon, round(m.worst_error() / PrivUnit(4.0, dim=32).worst_error(), 2)
    (4.0, 1.05)
    """

    __repr__ = _OnCaps.__repr__

    @staticmethod
    def _tail() -> Callable[[int, Any], _Tail]:
        return _gaussian_tail

    def _spread(self) -> float:
        return 1.0

    def codomain(self) -> Turned:
        """All vectors."""
        return Turned(self.dim, self.cut)

    def _base(self, noise: Array) -> Array:
        return noise * np.float32(self.dim**-0.5)

    def _along(self, exponential: Array) -> Array:
        """Where the Gaussian tail is e^-exponential of that beyond the cut."""
        least = jnp.asarray(self.cut, jnp.float32) * np.float32(self.dim**0.5)
        log_tail = jax.scipy.special.log_ndtr
        target = log_tail(-least) - exponential

        def step(_: Any, z: Array) -> Array:  # the tail is concave, and the start beyond the root
            here = log_tail(-z)
            slope = jnp.exp(-0.5 * z**2 - np.float32(0.5 * math.log(2 * math.pi)) - here)
            return jnp.maximum(z + (here - target) / slope, least)

        z = jax.lax.fori_loop(0, _STEPS, step, jnp.sqrt(least**2 + 2 * exponential))
        return z * np.float32(self.dim**-0.5)

    def _across(self, along: Array, rest: Array) -> Array:
        return self._base(rest)

    def _log_base(self, y: Array) -> Array:
        return self.dim / 2 * (math.log(self.dim / (2 * math.pi)) - (y**2).sum())
