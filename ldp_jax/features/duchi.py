"""Duchi's one-bit mechanism: the multi-bit mechanism on one number."""

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import random_words
from ldp_jax.core.mechanism import Worded, mechanism
from ldp_jax.core.spaces import Finite, clip
from ldp_jax.core.types import AnyArray, Array, Record, Scalar


@mechanism
class Duchi(Worded):
    r"""Report one sign whose mean is proportional to the record.

    Law: :math:`P(y = 1 \mid x) = \frac{1}{2} + \frac{x}{2} \tanh\frac{\epsilon}{2}`, y in {-1, 1}.
    Guarantee: epsilon per record, attained between -1 and 1.
    Utility: the estimate :math:`y / \tanh(\epsilon/2)` is unbiased; variance
    :math:`\coth^2(\epsilon/2) - x^2`.
    Numerics: a 64-bit number is compared with the mass of the sign against the record, rounded up.
    The loss is epsilon to 1e-6 of it up to epsilon 35, and less beyond; no sign is impossible up to
    epsilon 100.
    Reference: Duchi, Jordan & Wainwright, JASA 2018; LDP-GE eq. 6-8 with k = d = 1 (eq. 6 misprints
    the factor).

    >>> round(Duchi(1.0).variance(0.0).item(), 2)
    4.68
    """

    epsilon: Scalar

    def from_word64(self, word: AnyArray, x: Record) -> Array:
        """-1 for the words below its mass, 1 for the others."""
        word = jnp.asarray(word, jnp.uint32)
        x = clip(x)
        positive = x >= 0
        # The sign against the record is counted from its own end, so that its complement is exact.
        number = jnp.where(positive, word, ~word)
        against = random_words.less(number, against_threshold(jnp.abs(x), self.epsilon))
        return jnp.where(against == positive, np.float32(-1.0), np.float32(1.0))

    def log_density(self, y: Record, x: Record) -> Array:
        """log P(y | x)."""
        y = jnp.asarray(y)
        possible = jnp.abs(y) == 1.0
        agreement = jnp.where(possible, y, 1.0) * clip(x)
        likely = 0.5 * (1 + agreement) * jax.nn.sigmoid(self.epsilon)
        rare = 0.5 * (1 - agreement) * jax.nn.sigmoid(-self.epsilon)
        return jnp.where(possible, jnp.log(likely + rare), -jnp.inf)

    def codomain(self) -> Finite:
        """-1 and 1."""
        return Finite((-1.0, 1.0))

    def estimate(self, y: Record) -> Array:
        """y / tanh(epsilon / 2)."""
        return jnp.asarray(y) / jnp.tanh(self.epsilon / 2)

    def variance(self, x: Record) -> Array:
        """coth(epsilon / 2)^2 - x^2."""
        return 1.0 / jnp.tanh(self.epsilon / 2) ** 2 - clip(x) ** 2

    def proof(self) -> str:
        """Why the guarantee holds."""
        return "each sign has probability between 1/(e^eps + 1) and e^eps/(e^eps + 1)"


def against_threshold(size: Array, epsilon: Scalar) -> Array:
    """The mass (1 - size tanh(epsilon/2)) / 2 of the sign against a record, rounded up to 2^-64."""
    size = jnp.asarray(size, jnp.float32)
    epsilon = jnp.asarray(epsilon, jnp.float32)
    tanh = -jnp.expm1(-epsilon) / (1 + jnp.exp(-epsilon))
    lead = size * tanh
    mass = 0.5 * ((1 - size) * jax.nn.sigmoid(epsilon) + (1 + size) * jax.nn.sigmoid(-epsilon))

    # A mass near 1/2 is 1/2 less its distance, which is rounded; any other is rounded itself.
    high, low = random_words.threshold(lead / 2)
    borrow = (low > 0).astype(jnp.uint32)
    near_half = jnp.stack([jnp.uint32(2**31) - high - borrow, -low])
    small = random_words.threshold(jnp.maximum(mass, jnp.finfo(jnp.float32).tiny))
    return jnp.where(lead < 0.5, near_half, small)
