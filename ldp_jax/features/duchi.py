"""Duchi's one-bit mechanism: the multi-bit mechanism on one number."""

from typing import Any

import jax
import jax.numpy as jnp

from ldp_jax._pytree import mechanism
from ldp_jax.mechanism import Finite, Numeric, clip
from ldp_jax.types import Array, Record, Scalar


@mechanism
class Duchi(Numeric):
    r"""Report one sign whose mean is proportional to the record.

    Law: :math:`P(y = 1 \mid x) = \frac{1}{2} + \frac{x}{2} \tanh\frac{\epsilon}{2}`, y in {-1, 1}. LDP-GE
    eq. 6 prints :math:`(e^\epsilon - 1)/(e^\epsilon + 1)` where :math:`e^\epsilon/(e^\epsilon + 1)` belongs;
    this is the law of LPGNN's multi-bit mechanism, which is Duchi's.

    Guarantee: epsilon per record, attained between -1 and 1.

    Utility: the estimate :math:`y / \tanh(\epsilon/2)` is unbiased; variance
    :math:`\coth^2(\epsilon/2) - x^2`, the worst at x = 0.

    Numerics: the rarer sign is drawn with a probability written as a mixture of sigmoid(-epsilon) and
    sigmoid(epsilon), without cancellation. One float32 uniform resolves probabilities to 2^-23: from
    epsilon = 16 on the rare sign is rounded up to that.

    Reference: Duchi, Jordan & Wainwright, JASA 2018; LDP-GE eq. 6-8 with k = d = 1.

    >>> Duchi(1.0).codomain().values
    (-1.0, 1.0)
    >>> round(Duchi(1.0).variance(0.0).item(), 2)
    4.68
    """

    epsilon: Scalar

    def _probability(self, sign: Any, x: Record) -> Array:
        agreement = sign * clip(x)
        return 0.5 * (1 + agreement) * jax.nn.sigmoid(self.epsilon) + 0.5 * (1 - agreement) * jax.nn.sigmoid(
            -jnp.asarray(self.epsilon)
        )

    def from_uniform(self, u: Any, x: Record) -> Array:
        """Inverse distribution function; u in (0, 1)."""
        return jnp.where(jnp.asarray(u) < self._probability(-1.0, x), -1.0, 1.0)

    def log_density(self, y: Record, x: Record) -> Array:
        """log P(y | x)."""
        y = jnp.asarray(y)
        possible = jnp.abs(y) == 1.0
        return jnp.where(possible, jnp.log(self._probability(jnp.where(possible, y, 1.0), x)), -jnp.inf)

    def codomain(self) -> Finite:
        """-1 and 1."""
        return Finite((-1.0, 1.0))

    def estimate(self, y: Record) -> Array:
        """y / tanh(epsilon / 2)."""
        return jnp.asarray(y) / jnp.tanh(jnp.asarray(self.epsilon) / 2)

    def mean(self, x: Record) -> Array:
        """x: unbiased."""
        return clip(x)

    def variance(self, x: Record) -> Array:
        """coth(epsilon / 2)^2 - x^2."""
        return 1.0 / jnp.tanh(jnp.asarray(self.epsilon) / 2) ** 2 - clip(x) ** 2

    def _proof(self) -> str:
        return "each sign has probability between 1/(e^eps + 1) and e^eps/(e^eps + 1)"
