"""The Laplace mechanism on one number."""

import math
from typing import ClassVar

import jax.numpy as jnp

from ldp_jax.core.mechanism import Numeric, mechanism
from ldp_jax.core.spaces import Interval, clip
from ldp_jax.core.types import Array, Record, Scalar


@mechanism
class Laplace(Numeric):
    r"""Add Laplace noise of scale :math:`\lambda = 2 / \epsilon` to a number in [-1, 1].

    Law: :math:`p(y \mid x) = \frac{1}{2\lambda} e^{-|y - x| / \lambda}` on the real line.
    Guarantee: epsilon per record: two records differ by at most 2.
    Utility: unbiased; variance :math:`8 / \epsilon^2`.
    Numerics: no draw is farther than 22.2 scales from x, hence epsilon <= 22. So a share
    :math:`e^{\epsilon - 22.2} / 2` of the reports of -1 are never drawn for 1: 3e-7 at epsilon 8,
    1e-3 at 16. Ideal arithmetic.
    Reference: Dwork et al., TCC 2006; LDP-GE, section III-A.

    >>> Laplace(1.0).variance(0.3).item()
    8.0
    """

    epsilon: Scalar

    LARGEST: ClassVar[float] = 22.0

    @property
    def scale(self) -> Scalar:
        """The scale of the noise."""
        return 2.0 / self.epsilon  # pyrefly: ignore[unsupported-operation]

    def from_uniform(self, u: Record, x: Record) -> Array:
        """Inverse distribution function; u in (0, 1)."""
        u = jnp.asarray(u)
        return clip(x) - self.scale * jnp.sign(u - 0.5) * jnp.log(2.0 * jnp.minimum(u, 1 - u))

    def log_density(self, y: Record, x: Record) -> Array:
        """log p(y | x)."""
        return -jnp.abs(jnp.asarray(y) - clip(x)) / self.scale - jnp.log(2.0 * self.scale)

    def codomain(self) -> Interval:
        """The real line; the density bends at x."""
        return Interval(-math.inf, math.inf, breaks=lambda x: clip(x)[None])

    def variance(self, x: Record) -> Array:
        """8 / epsilon^2."""
        return jnp.broadcast_to(2.0 * self.scale**2, jnp.shape(x))

    def proof(self) -> str:
        """Why the guarantee holds."""
        return "|y - x| changes by at most 2 = epsilon * scale"
