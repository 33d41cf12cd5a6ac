"""PoinDP's mechanism as it was published and released, to be measured: it has no guarantee."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import validate
from ldp_jax.core.mechanism import check_epsilon, check_single
from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.spaces import Ball, Vectors, as_records
from ldp_jax.core.types import Array, PRNGKey, Record, Scalar
from ldp_jax.hyperbolic import poincare
from ldp_jax.hyperbolic._parameters import one, spread

__all__ = ["PaperHyperbolicGaussian"]


def __dir__() -> list[str]:
    return __all__


@mechanism
class PaperHyperbolicGaussian:
    r"""PoinDP's Theorem 1 with the noise of its eq. 12: wrapped normal noise on each number of a tangent vector.

    Law: the record is a tangent vector shortened to :math:`|v| \le C`; the report is, in every coordinate,
    :math:`v_i + \sigma \tanh(n_i)` with :math:`n_i \sim N(0, 1)`: a one-dimensional wrapped normal mapped to the
    ball, times :math:`\sigma = \sqrt{2 \ln(1.25 / \delta)} \, 2 C / \epsilon`, which is the theorem's
    :math:`c \log_0(\Delta) \gamma / \epsilon` for the largest tangent distance 2 C.

    Guarantee: none. The noise is shorter than :math:`\sigma` in every coordinate, so that reports farther than that
    from another record are impossible under it: no (epsilon, delta) of the theorem's holds (at epsilon 1 and delta
    1e-4, 0.15 of the reports of one end of a diameter are impossible under the other). The theorem
    puts :math:`\gamma(z)`, a function of the noise that is drawn, into the scale of that noise and takes it for at
    least 1, where it is at most 1. In one dimension, in which the noise is drawn, it is 1, and stands so here.

    Utility: the report is unbiased, with :math:`0.628 \sigma` in each coordinate.

    Numerics: float32.

    Reference: PoinDP, Theorem 1 and eq. 11-12. Its release writes ``10e-5`` for delta, which is 1e-4, the default;
    there the scale is also multiplied by learned weights of the data, and the noise drawn anew in every epoch.

    Args:
      epsilon: in (0, 100], as printed; a tracer or a stack too.
      delta: in (0, 1), as printed.
      clip: C > 0, the largest tangent length.
      dim: of the vectors.
      c: the magnitude of the curvature, in which :meth:`estimate` maps.

    >>> print(PaperHyperbolicGaussian(1.0).guarantee())  # doctest: +ELLIPSIS
    epsilon inf per record (...; none: the noise is bounded ...)
    """

    epsilon: Scalar
    delta: Scalar = 1e-4
    clip: Scalar = 1.0
    dim: int = static(default=2)
    c: Scalar = 1.0

    def _check(self) -> None:
        check_epsilon(self.epsilon)
        validate.integer_in(1, dim=self.dim)
        validate.number(1e-300, 1.0, open_upper=True, delta=one(delta=self.delta))
        validate.number(0.0, open_lower=True, clip=one(clip=self.clip))
        validate.number(0.0, open_lower=True, c=one(c=self.c))
        spread(self, "delta", "clip", "c")

    @property
    def sigma(self) -> Any:
        """The scale that the theorem asks for, which no noise exceeds."""
        return jnp.sqrt(2 * jnp.log(1.25 / jnp.asarray(self.delta))) * 2 * self.clip / self.epsilon

    def privatize(self, key: PRNGKey, x: Record) -> Float[Array, " dim"]:
        """The report of one user.

        Args:
          key: a typed threefry key.
          x: her tangent vector [dim] at the origin; a longer one is shortened, NaN is 0.

        Raises:
          ValueError: for a stack of budgets, or another shape: use ``vmap``.
        """
        validate.threefry(key)
        check_single(self)
        x = as_records(x)
        if x.shape != (self.dim,):
            raise ValueError(f"x must be one vector [{self.dim}], got shape {x.shape}: use jax.vmap for several")
        return self.domain().clip(x) + self.sigma * jnp.tanh(jax.random.normal(key, (self.dim,), jnp.float32))

    def log_density(self, y: Any, x: Record) -> Float[Array, ""]:
        """log p(y | x) in the tangent space; ``-inf`` where a coordinate is sigma or more from the record's."""
        share = (jnp.asarray(y) - self.domain().clip(x)) / self.sigma
        inside = jnp.abs(share) < 1
        share = jnp.where(inside, share, 0.0)
        logs = -0.5 * jnp.arctanh(share) ** 2 - jnp.log1p(-(share**2)) - jnp.log(self.sigma)
        return jnp.where(inside, logs - 0.5 * math.log(2 * math.pi), -jnp.inf).sum(-1)

    def domain(self) -> Ball:
        """Tangent vectors of length at most ``clip``; longer ones are shortened, NaN is 0."""
        return Ball(self.dim, one(clip=self.clip) if validate.concrete(self.clip) else self.clip)

    def codomain(self) -> Vectors:
        """Tangent vectors."""
        return Vectors(self.dim)

    def estimate(self, y: Any) -> Float[Array, "*batch dim"]:
        """The point of the ball that a report is mapped to."""
        return poincare.exp_0(jnp.asarray(y), self.c)

    def guarantee(self) -> Guarantee:
        """None: an infinite epsilon."""
        if all(validate.concrete(leaf) for leaf in jax.tree.leaves(self)):
            self._check()
        return Guarantee(
            math.inf,
            adjacency=f"any two tangent vectors of length at most {one(clip=self.clip):g}",
            reason="the noise is bounded by its scale: some reports of one record are impossible under others",
        )
