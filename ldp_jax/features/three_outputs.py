"""The three-outputs mechanism on one number."""

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import random_words
from ldp_jax.core.mechanism import Worded, mechanism
from ldp_jax.core.spaces import Finite, clip
from ldp_jax.core.types import AnyArray, Array, Record, Scalar
from ldp_jax.features._logs import log_mass
from ldp_jax.features.duchi import against_threshold

_CAPPED = 1.72  # from ln((3 + sqrt(65)) / 2) = 1.7106 on, a is E/(E+2)


@mechanism
class ThreeOutputs(Worded):
    r"""Report a sign or nothing: -1, 0 or 1, with a mean proportional to the record.

    Law: with :math:`E = e^\epsilon`, :math:`P(0 \mid x) = a (1 - (1 - e^{-\epsilon}) |x|)`; the
    sign of x has :math:`(1 - |x|) \frac{1-a}{2} + |x| \frac{E-a}{E+1}`, the other sign
    :math:`(1 - |x|) \frac{1-a}{2} + |x| \frac{E-a}{E(E+1)}`. The a of least worst-case variance is
    0 for E <= 2, then the root of :math:`2(2-E-a)(E-a)^2 + (E+1)^2 a(E+a) = 0`, and E/(E+2), the
    largest that keeps epsilon, from :math:`\epsilon = \ln\frac{3+\sqrt{65}}{2}` on.
    Guarantee: epsilon per record, attained by each sign between -1 and 1.
    Utility: the estimate :math:`Cy`, :math:`C = \frac{E(E+1)}{(E-1)(E-a)}`, is unbiased; variance
    :math:`C^2 (1 - a + a (1 - e^{-\epsilon}) |x|) - x^2`.
    Numerics: twenty Newton steps in :math:`e^{-\epsilon}` find the root. A 64-bit number is
    compared with the masses of the rare reports, rounded up: the loss is epsilon to 1e-6 of it up
    to epsilon 35, and less beyond.
    Reference: Zhao et al., IoT-J 2021, section IV-A.

    >>> (
    ...     round(ThreeOutputs(1.3).a.item(), 4),
    ...     round(ThreeOutputs(2.0).variance(1.0).item(), 3),
    ... )
    (0.4828, 0.93)
    """

    epsilon: Scalar

    @property
    def a(self) -> Array:
        """The probability of 0 at x = 0."""
        return self._chances()[0]

    def _chances(self) -> tuple[Array, Array]:
        """a and 1 - a, of which either may be as small as e^-epsilon."""
        e = jnp.exp(-self.epsilon)
        most = 1 / (1 + 2 * e)
        root = _root(e, most)
        capped = jnp.asarray(self.epsilon) > _CAPPED
        a = jnp.where(capped, most, root)
        rest = jnp.where(capped, 2 * e * most, 1 - root)  # 1 - most would cancel
        return a, rest

    @property
    def gain(self) -> Array:
        """C."""
        e = jnp.exp(-self.epsilon)
        return (1 + e) / (-jnp.expm1(-self.epsilon) * (1 - self.a * e))

    def _masses(self, x: Record) -> tuple[Array, Array, Array]:
        """P(-1 | x), P(0 | x), P(1 | x)."""
        x = clip(x)
        against_x, nothing, with_x = self._by_agreement(jnp.abs(x))
        below = jnp.where(x < 0, with_x, against_x)
        above = jnp.where(x < 0, against_x, with_x)
        return below, nothing, above

    def _by_agreement(self, size: Array) -> tuple[Array, Array, Array]:
        """The masses of the sign against x, of 0 and of the sign of x, at |x| = ``size``."""
        a, rest = self._chances()
        e = jnp.exp(-self.epsilon)
        even = (1 - size) * rest / 2
        likely = size * (1 - a * e) / (1 + e)
        nothing = a * ((1 - size) + e * size)  # no difference of numbers near 1
        return even + likely * e, nothing, even + likely

    def from_word64(self, word: AnyArray, x: Record) -> Array:
        """-1 for the lowest words, then 0, then 1.

        The most likely report has what the others leave.
        """
        word = jnp.asarray(word, jnp.uint32)
        x = clip(x)
        size = jnp.abs(x).astype(jnp.float32)
        masses = jnp.stack([jnp.asarray(mass, jnp.float32) for mass in self._by_agreement(size)])
        _, nothing, along = masses
        # Masses that float32 takes for 0 are one word.
        words = random_words.threshold(jnp.maximum(masses, jnp.finfo(jnp.float32).tiny))
        low, zero, high = jnp.moveaxis(words, 1, 0)
        silent = self.a > 0  # where 0 is never reported, rounding must not report it either
        low = jnp.where(silent, low, against_threshold(size, self.epsilon))

        # The sum of both masses, whose lower words may carry.
        last = low[1] + zero[1]
        carry = (last < low[1]).astype(last.dtype)
        either = jnp.stack([low[0] + zero[0] + carry, last])

        # Counted from the end of the sign against the record, which is the lower one for x >= 0.
        number = jnp.where(x >= 0, word, ~word)
        is_against = random_words.less(number, low)
        is_along = jnp.where(
            nothing > along,
            random_words.less(~number, high),
            ~random_words.less(number, either),
        )

        # Whole numbers, whose 0 has no sign: that of -0 would be the record's, and XLA drops what
        # adds 0 to it.
        otherwise = jnp.where(is_along | ~silent, 1, 0)
        value = jnp.where(is_against, -1, otherwise)
        return jnp.where(x >= 0, value, -value).astype(np.float32)

    def log_density(self, y: Record, x: Record) -> Array:
        """log P(y | x); ``-inf`` for 0 where it is never reported."""
        y = jnp.asarray(y)
        below, nothing, above = self._masses(x)
        negative = jnp.where(y == -1, below, 0.0)
        sign = jnp.where(y == 1, above, negative)
        return log_mass(jnp.where(y == 0, nothing, sign))

    def codomain(self) -> Finite:
        """-1, 0 and 1."""
        return Finite((-1.0, 0.0, 1.0))

    def estimate(self, y: Record) -> Array:
        """C y."""
        return self.gain * jnp.asarray(y)

    def variance(self, x: Record) -> Array:
        """C^2 P(y != 0 | x) - x^2."""
        below, _, above = self._masses(x)
        return self.gain**2 * (below + above) - clip(x) ** 2

    def proof(self) -> str:
        """Why the guarantee holds."""
        return (
            "linear in |x|, with extremes in ratio at most e^eps as long as a <= e^eps/(e^eps + 2)"
        )


@jax.jit  # an eager loop is compiled at each call
def _root(e: Array, most: Array) -> Array:
    """The best a in [0, most], of e = e^-epsilon; elementwise."""

    def newton(_: Array, a: Array) -> Array:
        rest = 1 - a * e
        left = 2 * e - 1 - a * e
        whole = (1 + e) ** 2
        value = 2 * left * rest**2 + whole * a * (1 + a * e)
        slope = -2 * e * rest**2 - 4 * e * left * rest + whole * (1 + 2 * a * e)
        return jnp.clip(a - value / slope, 0.0, most)

    # The number of steps is fixed, so that both kinds of derivative exist.
    return jax.lax.fori_loop(0, 20, newton, jnp.zeros_like(most))
