r"""The guard: how far private reports may be believed, found from the reports themselves; no label, no budget.

Let :math:`R_i(y)` be the likelihood ratio of report i under class y to its marginal under the mean prior. Where
reports and public posteriors p have nothing in common, :math:`t_i = \sum_y p_i(y) R_i(y) - 1` has the mean 0; where
the model of the reports is right, the reports' likelihood is :math:`\prod_i (1 + t_i)` times their marginal one.
The strength s is the maximum likelihood estimate of a mixture of both: a report is the model's with probability s,
else anybody's. Where posteriors say too little to tell, labels are asked, and believed unless posteriors object.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from ldp_jax.core.types import Array

_FLOOR = 1e-20
"""The least likelihood ratio."""

_LEAST = 3.0
"""Of the square root of the sum of t^2: below, features cannot tell, and labels are asked."""

ROUNDING = 1e-5
"""Of t: where public posteriors say nothing t is 0, but for roundings, which may all have one sign."""


class Guarded(NamedTuple):
    """Evidence as far as it may be believed.

    Attributes:
      log_likelihood: float32 [n, C], log(1 + s (R - 1)): 0 for s = 0.
      strength: s in [0, 1].
      by_labels: bool, whether labels had to tell, since the public posteriors could not.
    """

    log_likelihood: Float[Array, "n classes"]
    strength: Float[Array, ""]
    by_labels: Array


def likelihood_ratios(
    log_likelihood: Float[Array | np.ndarray, "n classes"], share: Float[Array | np.ndarray, " classes"]
) -> Float[Array, "n classes"]:
    """R, each report's likelihood under each class over that under classes drawn from ``share``; float32 [n, C].

    >>> likelihood_ratios(jnp.log(jnp.array([[0.2, 0.6]])), jnp.array([0.5, 0.5])).round(4).tolist()
    [[0.5, 1.5]]
    """
    marginal = jax.nn.logsumexp(log_likelihood + jnp.log(jnp.maximum(share, 1e-30)), axis=-1, keepdims=True)
    return jnp.exp(log_likelihood - marginal)


def strength(t: Float[Array | np.ndarray, " n"], counted: Array | None = None) -> Float[Array, ""]:
    r"""argmax over [0, 1] of :math:`\sum_i \log(1 + s t_i)`; 0 unless :math:`\sum t > 2 \sqrt{\sum t^2}`.

    t >= -1 is what a report gains by the model; ``counted`` are the reports that are asked, all by default.

    >>> float(strength(jnp.array([1.0, -0.5] * 50)).round(4))
    0.5
    >>> float(strength(jnp.array([1.0, -1.0] * 50)))
    0.0
    """
    counted = jnp.ones_like(t) if counted is None else jnp.asarray(counted, jnp.float32)
    t = jnp.maximum(t, -1.0 + 1e-6)

    def slope(s: Array) -> Array:
        return (counted * t / (1.0 + s * t)).sum()

    def halve(_: object, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = 0.5 * (low + high)
        rises = slope(middle) > 0
        return jnp.where(rises, middle, low), jnp.where(rises, high, middle)

    low, high = jax.lax.fori_loop(0, 30, halve, (jnp.float32(0.0), jnp.float32(1.0)))
    s = jnp.where(slope(jnp.float32(1.0)) > 0, 1.0, 0.5 * (low + high))
    least = 2.0 * jnp.sqrt((counted * t * t).sum()) + ROUNDING * counted.sum()
    seen = (counted * t).sum() > least
    return jnp.where(seen, s, 0.0)


def guard(
    log_likelihood: Float[Array | np.ndarray, "n classes"],
    posterior: Float[Array | np.ndarray, "n classes"],
    counted: Bool[np.ndarray, " n"] | None = None,
    labels: Int[Array | np.ndarray, " n"] | None = None,
) -> Guarded:
    r"""Step 9 of piloted counts; for one message a user it is the guard of local predictions as well.

    Args:
      log_likelihood: of each user's report.
      posterior: public; must not depend on the user's own report.
      counted: users who reported and have no label: by these s is found.
      labels: -1 for none, of users whose report is read by a model that has not seen them. Asked where
        :math:`\sqrt{\sum t^2}` of the others is below 3: their features cannot tell. Then s is that of labels, and
        0 unless labels and the others together are above 2 standard errors as well: few labels err, and what
        features say against them counts.

    >>> right = jnp.log(jnp.tile(jnp.array([[0.9, 0.1], [0.1, 0.9]]), (50, 1)))
    >>> float(guard(right, jnp.exp(right)).strength), float(guard(right, jnp.exp(right[::-1])).strength)
    (1.0, 0.0)
    """
    n = len(posterior)
    counted = np.ones(n, np.float32) if counted is None else np.asarray(counted, np.float32)
    return _guard(log_likelihood, posterior, counted, np.full(n, -1, np.int32) if labels is None else labels)


@jax.jit
def _guard(log_likelihood: Array, posterior: Array, counted: Array, labels: Array) -> Guarded:
    share = (posterior * counted[:, None]).sum(0)
    share = share / jnp.maximum(share.sum(), 1e-30)
    ratio = likelihood_ratios(log_likelihood, share)
    t = (posterior * ratio).sum(-1) - 1.0
    telling = jnp.sqrt((counted * t * t).sum())

    known = labels >= 0
    one_hot = (labels[:, None] == jnp.arange(posterior.shape[1])).astype(jnp.float32)
    among = one_hot.sum(0) / jnp.maximum(known.sum(), 1)
    label_t = (one_hot * likelihood_ratios(log_likelihood, among)).sum(-1) - 1.0

    by_labels = (telling < _LEAST) & known.any()
    together = strength(jnp.concatenate([t, label_t]), jnp.concatenate([counted, known]))
    of_labels = jnp.where(together > 0.0, strength(label_t, known), 0.0)
    s = jnp.where(by_labels, of_labels, strength(t, counted))
    return Guarded(jnp.log(jnp.maximum(1.0 + s * (ratio - 1.0), _FLOOR)), s, by_labels)
