"""The square wave mechanism on [-1, 1]."""

import math

import jax.numpy as jnp

from ldp_jax.core.mechanism import Numeric, mechanism, static
from ldp_jax.core.spaces import Interval, clip
from ldp_jax.core.types import Array, Record, Scalar

# (e^x - x - 1) / x^2 and (x e^x - e^x + 1) / x^2 as power series; ten terms give 1e-10 below 1/2.
_DENOMINATOR = [1 / math.factorial(j) for j in range(2, 12)]
_NUMERATOR = [(j - 1) / math.factorial(j) for j in range(2, 12)]


@mechanism
class SquareWave(Numeric):
    r"""Report a number in [-1-b, 1+b], with e^epsilon times the density within b of the record.

    Law: density :math:`p = e^\epsilon / (2 b e^\epsilon + 2)` on [x - b, x + b],
    :math:`p e^{-\epsilon}` on the rest, with
    :math:`b = \frac{\epsilon e^\epsilon - e^\epsilon + 1}{e^\epsilon (e^\epsilon - \epsilon - 1)}`.
    Guarantee: epsilon per record.
    Utility: the report is *biased*: its mean is :math:`Cx`,
    :math:`C = b(e^\epsilon-1)/(b e^\epsilon+1)`, its variance
    :math:`\frac{b^3e^\epsilon+3b^2+3b+1}{3(be^\epsilon+1)} + (C - C^2)x^2`; ``debias`` divides by
    C.
    Numerics: :math:`b e^\epsilon` is computed, by a power series below epsilon = 1/2. From epsilon
    = 12.4 on the high piece is narrower than 1e-4, and float32 rounds reports in it. Ideal
    arithmetic.
    Reference: Li et al., SIGMOD 2020; LDP-GE Algorithm 1, eq. 9, 13, 16.

    >>> round(float(SquareWave(1.0).b), 6)
    0.512166
    """

    epsilon: Scalar
    debias: bool = static(default=False)

    @property
    def _be(self) -> Array:
        """b e^eps, by the form that does not cancel."""
        epsilon = jnp.asarray(self.epsilon, jnp.result_type(float))
        small = epsilon < 0.5
        safe = jnp.where(small, epsilon, 0.0)
        power_series = lambda terms: sum(c * safe**j for j, c in enumerate(terms))
        series = power_series(_NUMERATOR) / power_series(_DENOMINATOR)

        big = jnp.where(small, 1.0, epsilon)
        closed = (big + jnp.expm1(-big)) / (1.0 - (1.0 + big) * jnp.exp(-big))
        return jnp.where(small, series, closed)

    @property
    def b(self) -> Array:
        """Half the width of the high piece."""
        return self._be * jnp.exp(-self.epsilon)

    @property
    def contraction(self) -> Array:
        """C."""
        return self._be * -jnp.expm1(-self.epsilon) / (self._be + 1)

    def from_uniform(self, u: Record, x: Record) -> Array:
        """Inverse distribution function; u in (0, 1)."""
        u = jnp.asarray(u)
        x = clip(x)
        be = self._be.astype(jnp.result_type(u, x))  # a report of 32 bits stays one in 64-bit mode
        decay = jnp.exp(-self.epsilon)
        b = be * decay
        per_tail_mass = 2 * (be + 1)
        left = (1 + x) / per_tail_mass
        right = (1 - x) / per_tail_mass

        below = -1 - b + u * per_tail_mass
        above = 1 + b - (1 - u) * per_tail_mass
        near = x - b + (u - left) * per_tail_mass * decay
        not_below = jnp.where(u < 1 - right, near, above)
        return jnp.where(u < left, below, not_below)

    def log_density(self, y: Record, x: Record) -> Array:
        """log p(y | x)."""
        y = jnp.asarray(y)
        x = clip(x)
        low = -jnp.log(2 * (self._be + 1))
        inside = jnp.abs(y - x) <= self.b
        possible = jnp.abs(y) <= 1 + self.b
        outside = jnp.where(possible, low, -jnp.inf)
        return jnp.where(inside, low + self.epsilon, outside)

    def codomain(self) -> Interval:
        """[-1-b, 1+b]; the density jumps at x - b and x + b."""
        b = self.b
        return Interval(-1 - b, 1 + b, lambda x: clip(x) + b * jnp.array([-1.0, 1.0]))

    def estimate(self, y: Record) -> Array:
        """The report, over C with ``debias``."""
        y = jnp.asarray(y)
        return y / self.contraction if self.debias else y

    def mean(self, x: Record) -> Array:
        """C x (LDP-GE eq. 13), or x with ``debias``."""
        return clip(x) if self.debias else self.contraction * clip(x)

    def variance(self, x: Record) -> Array:
        """LDP-GE eq. 16 less the squared mean; over C^2 with ``debias``."""
        be = self._be
        b = self.b
        c = self.contraction
        constant = (b**2 * be + 3 * b**2 + 3 * b + 1) / (3 * (be + 1))
        raw = constant + (c - c**2) * clip(x) ** 2
        return raw / c**2 if self.debias else raw

    def proof(self) -> str:
        """Why the guarantee holds."""
        return "two densities, in ratio e^eps, on one interval for all records"
