"""The (epsilon, delta) curve of Gaussian noise, and the noise that a target needs. No JAX.

:class:`GaussianCurve` composes exactly, through one number; :func:`gaussian_sigma` and
:func:`gaussian_mu` are the analytic calibration. Float64, on the host.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import overload

import numpy as np
from scipy import special

from ldp_jax.accounting.guarantee import RECORD, Guarantee, Unit
from ldp_jax.core.quadrature import unit_rule
from ldp_jax.core.rounding import rounded_down, rounded_up
from ldp_jax.core.validate import number, require, whole

__all__ = ["GaussianCurve", "gaussian_mu", "gaussian_sigma"]

__dir__ = lambda: __all__


def _delta(value: object) -> float:
    """Check a delta that a curve can be asked for: float64 underflows below."""
    return number(1e-300, 1.0, open_upper=True, delta=value)


_NODES, _WEIGHTS = unit_rule(64)


def _gaussian_delta(mu: float, epsilon: np.ndarray) -> np.ndarray:
    """delta(epsilon) of N(0, 1) against N(mu, 1), to about 1e-13 of itself down to 1e-300."""
    # For small mu the closed form cancels: E[(1 - e^(epsilon - loss))_+] is integrated instead.
    if mu == 0.0:
        return np.zeros_like(epsilon)
    epsilon = np.minimum(epsilon, 1e300)  # infinity less infinity is NaN
    with np.errstate(over="ignore"):
        x = np.minimum(epsilon / mu - mu / 2.0, 1e3)  # beyond 38 the result is 0 anyway
    if mu >= 1.0:
        # e^epsilon phi(x + mu) = phi(x), so that in the tail no large exponents meet
        tail = np.maximum(x, 0.0)
        root = math.sqrt(2.0)
        beyond = special.erfcx(tail / root) - special.erfcx((tail + mu) / root)
        beyond = np.exp(-(tail**2) / 2.0) / 2.0 * beyond
        log_other = epsilon + special.log_ndtr(-x - mu)
        body = special.ndtr(-x) - np.exp(np.minimum(log_other, 0.0))
        return np.where(x >= 0.0, beyond, body)
    reach = 90.0 / (x + np.sqrt(x**2 + 90.0))  # x t + t^2 / 2 = 45 there: e^-45 is nothing
    t = reach[..., None] * _NODES
    fall = np.exp(-(x[..., None] * t + t**2 / 2.0))
    inside = fall * -np.expm1(-mu * t)
    density = np.exp(-(x**2) / 2.0) / math.sqrt(2.0 * math.pi)
    return density * reach * (inside @ _WEIGHTS)


def _holds(mu: float, epsilon: float, delta: float) -> bool:
    """delta(epsilon) <= delta, with 1e-12 to spare for rounding."""
    return float(_gaussian_delta(mu, np.array([epsilon]))[0]) <= delta * (1.0 - 1e-12)


def _bisect(good: float, bad: float, holds: Callable[[float], bool]) -> float:
    """Return the last value, coming from ``good``, at which ``holds`` is true, to 1e-15."""
    while abs(good - bad) > 1e-15 * max(good, bad):
        middle = good + (bad - good) / 2.0
        if middle in (good, bad):
            break
        if holds(middle):
            good = middle
        else:
            bad = middle
    return good


@dataclasses.dataclass(frozen=True)
class GaussianCurve:
    r"""The whole curve of (epsilon, delta) pairs of Gaussian noise, by one number.

    .. math:: \delta(\epsilon) = \Phi(\tfrac\mu2 - \tfrac\epsilon\mu)
       - e^\epsilon \, \Phi(-\tfrac\mu2 - \tfrac\epsilon\mu)

    *Guarantee*: (epsilon, delta(epsilon))-DP for every epsilon >= 0, and no smaller delta will do,
    in ideal arithmetic. Curves compose exactly: :math:`\mu^2` adds.

    *Numerics*: relative error about 1e-13 wherever delta(epsilon) >= 1e-300.

    Attributes:
      mu: L2 sensitivity / sigma, finite, >= 0.

    Reference: Balle and Wang (ICML 2018), Theorem 8; Dong, Roth and Su (arXiv:1905.02383),
    Corollaries 2.13, 3.3.

    >>> curve = GaussianCurve.of(sensitivity=1.0, sigma=4.0)
    >>> round(curve.epsilon(1e-5), 4), round(curve.repeated(4).epsilon(1e-5), 4)
    (0.9263, 1.9931)
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", number(0.0, mu=self.mu) + 0.0)  # -0 is 0

    @classmethod
    def of(cls, sensitivity: float, sigma: float) -> "GaussianCurve":
        """Return the curve of noise with standard deviation ``sigma`` > 0 on each coordinate.

        The L2 ``sensitivity`` of the vector is >= 0.

        >>> GaussianCurve.of(2.0, 4.0)
        GaussianCurve(mu=0.5)
        """
        distance = number(0.0, sensitivity=sensitivity)
        spread = number(0.0, open_lower=True, sigma=sigma)
        return cls(rounded_up(Fraction(distance) / Fraction(spread)))

    @overload
    def delta(self, epsilon: float) -> float: ...
    @overload
    def delta(self, epsilon: np.ndarray) -> np.ndarray: ...
    def delta(self, epsilon: float | np.ndarray) -> float | np.ndarray:
        """The smallest delta at ``epsilon`` >= 0; a float, or float64 of the shape of an array.

        >>> round(GaussianCurve(1.0).delta(0.0), 6), GaussianCurve(1.0).delta(500.0)
        (0.382925, 0.0)
        """
        given = np.asarray(epsilon)
        require(given.dtype.kind in "iuf", "epsilon must be real numbers", epsilon)
        values = given.astype(np.float64)
        require((values >= 0.0).all(), "epsilon must be >= 0", epsilon)
        result = _gaussian_delta(float(self.mu), np.atleast_1d(values)).reshape(values.shape)
        return result if isinstance(epsilon, np.ndarray) else float(result)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon at ``delta``, on the safe side.

        ``curve.delta(curve.epsilon(d)) <= d``.

        It is in [1e-300, 1): at 0 Gaussian noise promises nothing.

        >>> GaussianCurve(1e-3).epsilon(0.1)
        0.0
        """
        delta = _delta(delta)
        mu = float(self.mu)
        if _holds(mu, 0.0, delta):
            return 0.0
        # P(loss > epsilon) <= exp(-(epsilon / mu - mu / 2)^2 / 2) is at most delta here
        tail = math.sqrt(2.0 * -math.log(delta))
        enough = mu * (mu / 2.0 + tail) * (1.0 + 1e-9)
        if math.isinf(enough):
            return math.inf
        return _bisect(enough, 0.0, lambda epsilon: _holds(mu, epsilon, delta))

    def compose(self, *others: "GaussianCurve") -> "GaussianCurve":
        """This release and ``others`` about the same record: the squares of mu add; rounded up.

        >>> GaussianCurve(3.0).compose(GaussianCurve(4.0)).mu
        5.0
        """
        return _composed([(curve, 1) for curve in (self, *others)])

    def __add__(self, other: "GaussianCurve") -> "GaussianCurve":
        return self.compose(other) if isinstance(other, GaussianCurve) else NotImplemented

    def repeated(self, times: int) -> "GaussianCurve":
        """``times`` releases, each with fresh noise of this curve: mu sqrt(times), rounded up.

        >>> GaussianCurve(0.5).repeated(16).mu
        2.0
        """
        return _composed([(self, whole(1, times=times))])

    def guarantee(
        self, delta: float, unit: Unit = RECORD, adjacency: str | None = None
    ) -> Guarantee:
        """The point of the curve at ``delta``, as a :class:`Guarantee`.

        ``unit`` and ``adjacency`` say what the sensitivity was taken over; a unit's own words by
        default.

        >>> print(GaussianCurve(0.5).guarantee(1e-6))  # doctest: +ELLIPSIS
        epsilon 2.25409, delta 1e-06 per record (any two records of one user; ideal arithmetic; ...)
        """
        require(
            unit.rate is None or adjacency,
            f"adjacency must say in words which two inputs the sensitivity per {unit} compares",
        )
        reason = "the hockey-stick divergence of two shifted Gaussians has a closed form"
        return Guarantee(
            self.epsilon(delta), _delta(delta), unit, adjacency or "", "ideal", "proved", reason
        )


def _composed(curves: Sequence[tuple[GaussianCurve, int]]) -> GaussianCurve:
    """Compose curves, each with how often it is released: mu^2 adds, and mu is rounded up."""
    square = sum((times * Fraction(curve.mu) ** 2 for curve, times in curves), Fraction(0))
    require(
        square <= Fraction(1e300) ** 2, "mu must be at most 1e300, and the composition has more"
    )
    bits = square.numerator.bit_length() - square.denominator.bit_length()
    scale = 2 ** max(0, 2 * 60 - bits)
    root = math.isqrt(square.numerator * scale**2 // square.denominator)
    mu = rounded_down(Fraction(root, scale))
    while Fraction(mu) ** 2 < square:
        mu = math.nextafter(mu, math.inf)
    return GaussianCurve(mu)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu = sensitivity / sigma that keeps (epsilon, delta).

    It is precise to 1e-12, on the safe side. ``ValueError`` unless epsilon is in [0, 1e9] and
    delta in [1e-300, 1).
    Reference: Balle and Wang (ICML 2018), Algorithm 1, as one bisection in mu.

    >>> mu = gaussian_mu(1.0, 1e-5)
    >>> 1 - 1e-9 < GaussianCurve(mu).delta(1.0) / 1e-5 <= 1
    True
    """
    epsilon = number(0.0, 1e9, epsilon=epsilon)
    delta = _delta(delta)
    tail = math.sqrt(2.0 * -math.log(delta))
    # From the Gaussian tail bound.
    root = math.sqrt(tail**2 + 2.0 * epsilon)
    good = 2.0 * epsilon / (tail + root) * (1.0 - 1e-9)
    bad = max(good, delta)
    while _holds(bad, epsilon, delta):
        good = bad
        bad = 2.0 * bad
    return _bisect(good, bad, lambda mu: _holds(mu, epsilon, delta))


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Return the smallest standard deviation of Gaussian noise for (epsilon, delta).

    It is precise to 1e-12, on the safe side. The classic sqrt(2 ln(1.25 / delta)) / epsilon breaks
    its promise at large epsilons. epsilon is in [0, 1e9], delta in [1e-300, 1), the L2 sensitivity
    > 0; sigma has its units.
    Reference: Balle and Wang (ICML 2018), Theorem 8 and Algorithm 1.

    >>> (
    ...     round(gaussian_sigma(1.0, 1e-5), 4),
    ...     round(math.sqrt(2 * math.log(1.25e5)), 4),
    ... )
    (3.7306, 4.8448)
    """
    mu = gaussian_mu(epsilon, delta)
    sensitivity = number(0.0, open_lower=True, sensitivity=sensitivity)
    sigma = number(0.0, open_lower=True, **{"sensitivity / mu": sensitivity / mu})
    while Fraction(sensitivity) > Fraction(sigma) * Fraction(mu):
        sigma = math.nextafter(sigma, math.inf)
    return sigma
