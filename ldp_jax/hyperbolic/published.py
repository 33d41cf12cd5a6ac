"""PoinDP's mechanism as published, to be measured: it has no guarantee."""

import math

import jax.numpy as jnp
from jaxtyping import Float

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import random, validate
from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.types import Array, PRNGKey, Record, Report, Scalar
from ldp_jax.hyperbolic._tangent import Tangent, one, spread


@mechanism
class PaperHyperbolicGaussian(Tangent):
    r"""PoinDP's noise on a tangent vector as its code draws it, at the scale of Theorem 1.

    Law: the record is a tangent vector shortened to :math:`|v| \le C`; the report is
    :math:`v_i + \sigma \tanh(n_i / 2)`, :math:`n_i \sim N(0, 1)`, in every coordinate, with
    :math:`\sigma = \sqrt{2 \ln(1.25 / \delta)} \, 2 C / \epsilon`: the theorem's
    :math:`c \log_0(\Delta) \gamma / \epsilon` for a tangent distance of 2 C.

    Guarantee: none. The noise is shorter than :math:`\sigma`: farther reports are impossible under
    the other record, so no (epsilon, delta) of the theorem's holds (0.021 of the reports at epsilon
    1 and delta 1e-4). The noise of eq. 11-12, :math:`\tanh(\sigma n_i / 2)`, is shorter than 1:
    from C = 1 on no report of a record at one end is possible at the other. The theorem takes a
    factor :math:`\gamma(z)` of the drawn noise for at least 1, where it is at most 1; in one
    dimension it is 1, and stands so.
    Utility: unbiased, with a deviation of :math:`0.417 \sigma` in each coordinate.
    Numerics: float32.
    Reference: PoinDP, Theorem 1 and eq. 11-12. Its release writes ``10e-5`` for delta (1e-4, the
    default), takes a scale of its own (:func:`ldp_jax.learning.models.poindp`), and draws new noise
    in every epoch.

    Epsilon is in (0, 100] and delta in (0, 1), as printed; ``clip`` is C, the largest tangent
    length.

    >>> print(PaperHyperbolicGaussian(1.0).guarantee())  # doctest: +ELLIPSIS
    epsilon inf per record (...; none: the noise is bounded ...)
    """

    delta: Scalar = 1e-4
    clip: Scalar = 1.0
    dim: int = static(default=2)
    c: Scalar = 1.0

    def _check(self) -> None:
        super()._check()
        validate.number(1e-300, 1.0, open_upper=True, delta=one(delta=self.delta))
        spread(self, "delta", "clip", "c")

    @property
    def sigma(self) -> Array:
        """The theorem's scale, which no noise exceeds."""
        return jnp.sqrt(2 * jnp.log(1.25 / jnp.asarray(self.delta))) * 2 * self.clip / self.epsilon

    def _report(self, key: PRNGKey, x: Array) -> Array:
        noise = jnp.tanh(random.normal(key, (self.dim,), jnp.float32) / 2)
        return self.domain().clip(x) + self.sigma * noise

    def log_density(self, y: Report, x: Record) -> Float[Array, ""]:
        """log p(y | x); ``-inf`` where a coordinate is sigma or more from the record's."""
        share = (jnp.asarray(y) - self.domain().clip(x)) / self.sigma
        inside = jnp.abs(share) < 1
        share = jnp.where(inside, share, 0.0)
        normal = math.log(2) - 2 * jnp.arctanh(share) ** 2
        logs = normal - jnp.log1p(-(share**2)) - jnp.log(self.sigma)
        return jnp.where(inside, logs - 0.5 * math.log(2 * math.pi), -jnp.inf).sum(-1)

    def guarantee(self) -> Guarantee:
        """None: an infinite epsilon."""
        self._check()
        return Guarantee(
            math.inf,
            adjacency=f"any two tangent vectors of length at most {one(clip=self.clip):g}",
            reason="the noise is bounded by its scale: some reports of one record are impossible "
            "under others",
        )
