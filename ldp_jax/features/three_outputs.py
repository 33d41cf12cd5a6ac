"""The three-outputs mechanism on one number."""

from typing import Any

import jax.numpy as jnp

from ldp_jax._pytree import mechanism
from ldp_jax.mechanism import Finite, Numeric, clip
from ldp_jax.types import Array, Record, Scalar


@mechanism
class ThreeOutputs(Numeric):
    r"""Report a sign or nothing: -1, 0 or 1, with a mean proportional to the record.

    Law: with :math:`E = e^\epsilon`, :math:`P(0 \mid x) = a (1 - (1 - e^{-\epsilon}) |x|)`; the sign of x has
    :math:`(1 - |x|) \frac{1-a}{2} + |x| \frac{E-a}{E+1}`, the other sign
    :math:`(1 - |x|) \frac{1-a}{2} + |x| \frac{E-a}{E(E+1)}`. The chance a of reporting nothing at x = 0 is the
    one of least worst-case variance in [0, E/(E+2)], beyond which epsilon would not hold: 0 for E <= 2, the root
    of :math:`2(2-E-a)(E-a)^2 + (E+1)^2 a(E+a) = 0` above, and E/(E+2) from
    :math:`\epsilon = \ln\frac{3+\sqrt{65}}{2}` on.

    Guarantee: epsilon per record, attained by each sign between -1 and 1.

    Utility: the estimate :math:`Cy`, :math:`C = \frac{E(E+1)}{(E-1)(E-a)}`, is unbiased; variance
    :math:`C^2 (1 - a + a (1 - e^{-\epsilon}) |x|) - x^2`.

    Numerics: the root is found by twenty Newton steps in :math:`e^{-\epsilon}`, which neither overflow nor stop
    gradients. One float32 uniform resolves probabilities to 2^-23: from epsilon = 16 on the rare sign is rounded
    up to that.

    Reference: Zhao et al., IoT-J 2021, section IV-A.

    >>> round(ThreeOutputs(1.3).a.item(), 4)
    0.4828
    >>> round(ThreeOutputs(2.0).variance(1.0).item(), 3)
    0.93
    """

    epsilon: Scalar

    @property
    def a(self) -> Array:
        """The probability of 0 at x = 0."""
        e = jnp.exp(-jnp.asarray(self.epsilon))
        most = 1 / (1 + 2 * e)
        a = jnp.zeros_like(most)
        for _ in range(20):
            value = 2 * (2 * e - 1 - a * e) * (1 - a * e) ** 2 + (1 + e) ** 2 * a * (1 + a * e)
            slope = (
                -2 * e * (1 - a * e) ** 2
                - 4 * e * (2 * e - 1 - a * e) * (1 - a * e)
                + (1 + e) ** 2 * (1 + 2 * a * e)
            )
            a = jnp.clip(a - value / slope, 0.0, most)
        return a

    @property
    def gain(self) -> Array:
        """C: what the server multiplies a report with."""
        e = jnp.exp(-jnp.asarray(self.epsilon))
        return (1 + e) / (-jnp.expm1(-jnp.asarray(self.epsilon)) * (1 - self.a * e))

    def _masses(self, x: Record) -> tuple[Array, Array, Array]:
        """P(-1 | x), P(0 | x), P(1 | x)."""
        x, a, e = clip(x), self.a, jnp.exp(-jnp.asarray(self.epsilon))
        size = jnp.abs(x)
        even, likely = (1 - size) * (1 - a) / 2, size * (1 - a * e) / (1 + e)
        with_x, against_x = even + likely, even + likely * e
        # a (1 - |x|) + a e |x|: no difference of numbers near 1.
        return (
            jnp.where(x < 0, with_x, against_x),
            a * ((1 - size) + e * size),
            jnp.where(x < 0, against_x, with_x),
        )

    def from_uniform(self, u: Any, x: Record) -> Array:
        """Inverse distribution function; u in (0, 1)."""
        below, nothing, above = self._masses(x)
        u = jnp.asarray(u)
        # Where 0 is never reported, rounding must not report it either.
        return jnp.where(u < below, -1.0, jnp.where((u < 1 - above) & (nothing > 0), 0.0, 1.0))

    def log_density(self, y: Record, x: Record) -> Array:
        """log P(y | x); ``-inf`` for 0 where it is never reported."""
        y = jnp.asarray(y)
        below, nothing, above = self._masses(x)
        mass = jnp.where(y == 0, nothing, jnp.where(y == 1, above, jnp.where(y == -1, below, 0.0)))
        return jnp.where(mass > 0, jnp.log(jnp.where(mass > 0, mass, 1.0)), -jnp.inf)

    def codomain(self) -> Finite:
        """-1, 0 and 1."""
        return Finite((-1.0, 0.0, 1.0))

    def estimate(self, y: Record) -> Array:
        """C y."""
        return self.gain * jnp.asarray(y)

    def mean(self, x: Record) -> Array:
        """x: unbiased."""
        return clip(x)

    def variance(self, x: Record) -> Array:
        """C^2 P(y != 0 | x) - x^2."""
        below, _, above = self._masses(x)
        return self.gain**2 * (below + above) - clip(x) ** 2

    def _proof(self) -> str:
        return "linear in |x|, with extremes in ratio at most e^eps as long as a <= e^eps/(e^eps + 2)"
