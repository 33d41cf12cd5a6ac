r"""The guard: how far private reports may be believed, found from the reports themselves.

No label, no budget.

Let :math:`R_i(y)` be the likelihood ratio of report i under class y to its marginal under the mean
prior. Where reports and public posteriors p have nothing in common,
:math:`t_i = \sum_y p_i(y) R_i(y) - 1` has the mean 0; where the model of the reports is right, the
reports' likelihood is :math:`\prod_i (1 + t_i)` times their marginal one. The strength s is the
maximum likelihood estimate of a mixture of both: a report is the model's with probability s, else
anybody's. Where posteriors say too little to tell, labels are asked, and believed unless posteriors
object.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.optimize import brentq
from scipy.special import logsumexp

from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray

_FLOOR = 1e-20  # the least likelihood ratio

# Of the square root of the sum of t^2: below, features cannot tell, and labels are asked.
_LEAST = 3.0

ROUNDING = 1e-5
"""Of t: where public posteriors say nothing t is 0, but for roundings, which may all have one
sign.
"""


_STRENGTHS = np.linspace(0.0, 1.0, 201)  # of which checked() takes the mean


class Guarded(NamedTuple):
    """Evidence as far as it is believed, log(1 + s (R - 1)), s, and whether labels had to tell."""

    log_likelihood: Float[np.ndarray, "n classes"]
    strength: float
    by_labels: bool

    __repr__ = by_shapes


def likelihood_ratios(
    log_likelihood: Float[AnyArray, "n classes"],
    share: Float[AnyArray, " classes"],
) -> Float[np.ndarray, "n classes"]:
    """R, each report's likelihood under each class over that under classes drawn from ``share``.

    [n, C].

    >>> likelihood_ratios(np.log([[0.2, 0.6]]), np.array([0.5, 0.5])).round(
    ...     4
    ... ).tolist()
    [[0.5, 1.5]]
    """
    log_likelihood = np.asarray(log_likelihood)
    log_share = np.log(np.maximum(share, 1e-30))
    marginal = logsumexp(log_likelihood + log_share, axis=-1, keepdims=True)
    return np.exp(log_likelihood - marginal.astype(log_likelihood.dtype))


def strength(t: Float[AnyArray, " n"]) -> float:
    r"""argmax over [0, 1] of :math:`\sum_i \log(1 + s t_i)`.

    0 unless :math:`\sum t > 2 \sqrt{\sum t^2}`.

    t >= -1 is what a report gains by the model.

    >>> (
    ...     round(strength(np.array([1.0, -0.5] * 50)), 4),
    ...     strength(np.array([1.0, -1.0] * 50)),
    ... )
    (0.5, 0.0)
    """
    t = np.maximum(np.asarray(t, np.float64), -1.0 + 1e-6)
    error = np.sqrt((t**2).sum())
    if t.sum() <= 2.0 * error + ROUNDING * len(t):
        return 0.0
    slope = lambda s: float((t / (1.0 + s * t)).sum())
    if slope(1.0) >= 0:
        return 1.0
    return brentq(slope, 0.0, 1.0)


def guard(
    log_likelihood: Float[AnyArray, "n classes"],
    posterior: Float[AnyArray, "n classes"],
    counted: Bool[np.ndarray, " n"] | None = None,
    labels: Int[AnyArray, " n"] | None = None,
) -> Guarded:
    r"""Step 9 of piloted counts.

    On the host.

    Args:
      log_likelihood: of each user's report.
      posterior: public; must not depend on the user's own report.
      counted: users who reported and have no label: by these s is found.
      labels: -1 for none, of users whose report is read by a model that has not seen them. Asked
        where :math:`\sqrt{\sum t^2}` of the others is below 3: their features cannot tell. Then s
        is that of labels, and 0 unless labels and the others together are above 2 standard errors
        as well: few labels err.

    >>> right = np.log(np.tile([[0.9, 0.1], [0.1, 0.9]], (50, 1)))
    >>> (
    ...     guard(right, np.exp(right)).strength,
    ...     guard(right, np.exp(right[::-1])).strength,
    ... )
    (1.0, 0.0)
    """
    evidence = np.asarray(log_likelihood)
    posterior = np.asarray(posterior)
    n, classes = posterior.shape
    counted = np.ones(n, bool) if counted is None else np.asarray(counted, bool)
    labels = np.full(n, -1) if labels is None else np.asarray(labels)
    asked = posterior[counted] if counted.any() else posterior
    share = asked.sum(0, dtype=np.float64)
    ratio = likelihood_ratios(evidence, share / max(share.sum(), 1e-30))
    t = (posterior * ratio).sum(-1, dtype=np.float64)[counted] - 1.0

    known = np.flatnonzero(labels >= 0)
    told = np.sqrt((t**2).sum())
    by_labels = bool(told < _LEAST) and len(known) > 0
    s = strength(t)
    if by_labels:
        own = labels[known]
        among = np.bincount(own, minlength=classes) / len(known)
        ratios = likelihood_ratios(evidence[known], among)
        of_labels = ratios[np.arange(len(known)), own] - 1.0
        together = strength(np.concatenate([t, of_labels]))
        s = strength(of_labels) if together > 0.0 else 0.0
    return Guarded(_believed(ratio, s), s, by_labels)


def checked(
    log_likelihood: Float[AnyArray, "n classes"],
    share: Float[np.ndarray, " classes"],
    labels: Int[np.ndarray, " n"],
) -> Guarded:
    r"""Evidence as far as users of known class, who report as private users do, bear it out.

    s is its posterior mean. Before, it is 0 as likely as not, else all of [0, 1] equally likely;
    its likelihood is :math:`\prod_i (1 + s t_i)` of these users, t their likelihood ratio at their
    class less 1. Where nobody is asked, nothing is known of s: its mean is 1/4. The reports are
    read by a model that has not seen these ``labels``, which are -1 for everybody else.

    >>> right = np.log(np.tile([[0.9, 0.1], [0.1, 0.9]], (50, 1)))
    >>> labels = np.where(np.arange(100) < 40, np.arange(100) % 2, -1)
    >>> even = np.array([0.5, 0.5])
    >>> [
    ...     round(checked(one, even, labels).strength, 2)
    ...     for one in (right, right[::-1])
    ... ]
    [0.95, 0.0]
    >>> round(checked(right, even, np.full(100, -1)).strength, 2)
    0.25
    """
    ratio = likelihood_ratios(log_likelihood, share)
    known = np.flatnonzero(labels >= 0)
    gained = ratio[known, labels[known]].astype(np.float64) - 1.0
    t = np.maximum(gained, -1.0 + 1e-6)
    fit = np.log1p(_STRENGTHS[:, None] * t).sum(1)
    weight = np.exp(fit - fit.max())
    weight[1:] /= len(weight) - 1
    s = float(weight @ _STRENGTHS / weight.sum())
    return Guarded(_believed(ratio, s), s, True)


def _believed(ratio: np.ndarray, s: float) -> Float[np.ndarray, "n classes"]:
    mixture = 1.0 + s * (ratio - 1.0)
    return np.log(np.maximum(mixture, _FLOOR)).astype(np.float32)
