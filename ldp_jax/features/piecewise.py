"""The piecewise mechanism and its family."""

import math

import jax.numpy as jnp
import numpy as np

from ldp_jax.core import validate
from ldp_jax.core.mechanism import Numeric, check_epsilon, mechanism
from ldp_jax.core.spaces import Interval, clip
from ldp_jax.core.types import Array, Record, Scalar

_RAREST = 2.0**-30  # the least mass outside the high piece that words of 32 bits still draw

LARGEST_PIECEWISE = 40.0
"""The largest epsilon of :func:`Piecewise`."""

_LARGEST_OPTIMAL = 30.0  # epsilon of SuboptimalPiecewise and OptimalPiecewise


@mechanism
class GeneralPiecewise(Numeric):
    r"""Report a number near the record, or, with e^-epsilon of its density, any other in [-A, A].

    Law: with :math:`g = (e^\epsilon + t) / (t (e^\epsilon - 1))`, density c on [L, R] and
    :math:`c e^{-\epsilon}` on the rest of [-A, A], where :math:`L, R = g(xt \mp 1)`,
    :math:`A = g(t + 1)` and :math:`c = e^\epsilon / (2 g (t + e^\epsilon))`.
    Guarantee: epsilon per record for every t > 0.
    Utility: unbiased; variance :math:`\frac{t+1}{e^\epsilon-1} x^2 +
    \frac{(t+e^\epsilon)((t+1)^3+e^\epsilon-1)}{3t^2(e^\epsilon-1)^2}`.
    Numerics: formulas in :math:`\tau = t e^{-\epsilon}` and expm1, which do not cancel. The mass
    outside [L, R] is at least 2^-30: epsilon <= 20.8 + log t (:func:`Piecewise`: 40, the others:
    30). Ideal arithmetic.
    Reference: Wang et al., ICDE 2019 (t = e^(eps/2), LDP-GE eq. 3); Zhao et al., IoT-J 2021 (other
    t).

    >>> m = GeneralPiecewise(1.0, t=2.0)
    >>> m.mean(0.25).item()
    0.25
    """

    epsilon: Scalar
    t: Scalar

    def _check(self) -> None:
        check_epsilon(self.epsilon)
        validate.positive(t=self.t)
        if validate.concrete(self.epsilon) and validate.concrete(self.t):
            most = -math.log(_RAREST)
            log_t = np.log(np.asarray(self.t, np.float64))
            if (most + log_t - np.asarray(self.epsilon, np.float64) < 0).any():
                raise ValueError(
                    f"epsilon must be at most {most:.4g} + log t, got {self.epsilon} for t = "
                    f"{self.t}: what lies outside the high piece would be too rare to be drawn"
                )

    def _parts(self) -> tuple[Array, Array, Array]:
        """t, tau = t e^-eps, and the half width g of the high piece."""
        t = jnp.asarray(self.t)
        tau = t * jnp.exp(-self.epsilon)
        g = (1 + tau) / (t * -jnp.expm1(-self.epsilon))
        return t, tau, g

    @property
    def bound(self) -> Array:
        """A."""
        t, _, g = self._parts()
        return g * (t + 1)

    def from_uniform(self, u: Record, x: Record) -> Array:
        """Inverse distribution function; u in (0, 1)."""
        u = jnp.asarray(u)
        x = clip(x)
        t, tau, g = self._parts()
        tail = tau / (1 + tau)  # the mass outside [L, R], spread over a length of 2gt
        left = tail * (1 + x) / 2
        right = tail * (1 - x) / 2
        per_tail_mass = 2 * g * t / tail
        bound = g * (t + 1)

        below = -bound + u * per_tail_mass
        above = bound - (1 - u) * per_tail_mass
        near = g * (x * t - 1) + (u - left) * (2 * g * (1 + tau))
        not_below = jnp.where(u < 1 - right, near, above)
        return jnp.where(u < left, below, not_below)

    def log_density(self, y: Record, x: Record) -> Array:
        """log p(y | x)."""
        y = jnp.asarray(y)
        x = clip(x)
        t, tau, g = self._parts()
        inside = (y >= g * (x * t - 1)) & (y <= g * (x * t + 1))
        high = -jnp.log(2 * g * (1 + tau))
        possible = jnp.abs(y) <= g * (t + 1)
        outside = jnp.where(possible, high - self.epsilon, -jnp.inf)
        return jnp.where(inside, high, outside)

    def codomain(self) -> Interval:
        """[-A, A]; the density jumps at L and R."""
        t, _, g = self._parts()
        breaks = lambda x: g * (clip(x) * t + jnp.array([-1.0, 1.0]))
        return Interval(-self.bound, self.bound, breaks)

    def variance(self, x: Record) -> Array:
        """The closed form, scaled by e^-eps: it neither overflows nor cancels."""
        t, tau, _ = self._parts()
        small = jnp.exp(-self.epsilon)
        rest = -jnp.expm1(-self.epsilon)
        slope = (tau + small) / rest
        cubic = (t + 1) ** 2 * (tau + small) + rest
        constant = (1 + tau) * cubic / (3 * t**2 * rest**2)
        return slope * clip(x) ** 2 + constant

    def proof(self) -> str:
        """Why the guarantee holds."""
        return "two densities, in ratio e^eps, on one interval for all records"


def _power(epsilon: Scalar, factor: float) -> float | Array:
    """e^(factor epsilon): a Python float of a number."""
    if isinstance(epsilon, (int, float)):
        return math.exp(epsilon * factor)
    return jnp.exp(jnp.asarray(epsilon) * factor)


def Piecewise(epsilon: Scalar) -> GeneralPiecewise:
    """The piecewise mechanism (PM): :class:`GeneralPiecewise` at t = e^(epsilon/2).

    Worst-case variance 4 e^(eps/2) / (3 (e^(eps/2) - 1)^2), at |x| = 1. LDP-GE eq. 3.

    >>> round(Piecewise(1.0).variance(1.0).item(), 2)
    5.22
    """
    check_epsilon(epsilon, LARGEST_PIECEWISE)
    return GeneralPiecewise(epsilon, _power(epsilon, 1 / 2))


def SuboptimalPiecewise(epsilon: Scalar) -> GeneralPiecewise:
    """PM-SUB (Zhao et al., IoT-J 2021, IV).

    :class:`GeneralPiecewise` at t = e^(epsilon/3), near the best t.

    >>> round(SuboptimalPiecewise(1.0).variance(1.0).item(), 3)
    5.082
    """
    check_epsilon(epsilon, _LARGEST_OPTIMAL)
    return GeneralPiecewise(epsilon, _power(epsilon, 1 / 3))


def OptimalPiecewise(epsilon: Scalar) -> GeneralPiecewise:
    """PM-OPT: :class:`GeneralPiecewise` at the t of least worst-case variance.

    Epsilon may be traced.

    t solves :math:`t^4 + 2Et^3 - 2Et - E^2 = 0`, E = e^epsilon. In :math:`s = t E^{-1/3}` and
    :math:`a = E^{-2/3}` that is :math:`as^4 + 2s^3 - 2as - 1 = 0`, convex on [0.79, 1]: six Newton
    steps from s = 1 reach float64. (Zhao et al., IoT-J 2021, section IV.)

    >>> round(OptimalPiecewise(1.0).variance(1.0).item(), 3)
    5.066
    """
    check_epsilon(epsilon, _LARGEST_OPTIMAL)
    a = _power(epsilon, -2 / 3)
    s = 1.0
    for _ in range(6):
        value = a * s**4 + 2 * s**3 - 2 * a * s - 1
        slope = 4 * a * s**3 + 6 * s**2 - 2 * a
        s = s - value / slope
    return GeneralPiecewise(epsilon, s * _power(epsilon, 1 / 3))
