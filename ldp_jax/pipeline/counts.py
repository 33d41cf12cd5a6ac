r"""Counts of neighbours by public group, and what a noisy one says of its reporter's class.

A user of class c has a rate :math:`\lambda`, the neighbours that she expects in all, of which a share
:math:`H_{cg}` is in group g. Her counts are negative binomial, :math:`m_g \sim \mathrm{NB}(\lambda H_{cg}, s)`,
of variance :math:`\mu + \mu^2 / s` (Poisson for s of infinity), and her reports :math:`r_g = m_g + z_g` with
:math:`P(z) = \frac{1 - a}{1 + a} a^{|z|}, a = e^{-\epsilon}`. The law of a report is their convolution,

.. math:: P(r) = \frac{1 - a}{1 + a} \sum_m \mathrm{NB}(m) \, a^{|r - m|},

two geometric sums, from below and from above, which a recursion over r adds up exactly. All users share C K L such
laws (classes, groups, rates), so they are computed once as tables, and a user looks hers up.

*Numerics.* Logarithms throughout, by Loader's deviances rather than by log-gamma functions, which would cancel:
float32 is within 1e-6 of 1 + abs(log P). For r < 0 only the sum from above is left, a^-r P(0), exactly.

Reference: Ghosh, Roughgarden & Sundararajan, Universally utility-maximizing privacy mechanisms (STOC 2009), for the
noise; Loader, Fast and accurate computation of binomial probabilities (2000), for the deviances.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ldp_jax.core import validate
from ldp_jax.core.types import Array, Scalar
from ldp_jax.pipeline.law import Law, law_of, log_likelihoods, log_scale

DISPERSIONS = (math.inf, 10.0, 3.0)
"""The s of the negative binomial that :func:`evidence` chooses from."""

_LOST = 24.0
"""Logarithm of what a sum may leave out, of terms that are at most 1."""


def geometric_noise_log_pmf(z: Any, epsilon: Scalar) -> Array:
    """log P(z) of two-sided geometric noise at whole numbers z; elementwise.

    >>> z = jnp.arange(-50, 51)
    >>> round(float(jnp.exp(geometric_noise_log_pmf(z, 1.0)).sum()), 6)
    1.0
    """
    epsilon = jnp.asarray(epsilon, jnp.float32)
    return log_scale(epsilon) - epsilon * jnp.abs(z)


def table_size(reports: Any, means: Any, epsilon: float) -> int:
    """How many counts the tables of :func:`log_likelihood` must have; a power of four from 1024 on: few programs.

    Beyond every report and every mean, as far as noise reaches; on the host, from concrete values.

    >>> table_size(np.array([[40, -3]]), np.array([1.0, 20.0]), 1.0)
    1024
    """
    validate.positive(epsilon=epsilon)
    reach = max(np.max(np.asarray(reports), initial=0), np.max(np.asarray(means), initial=0))
    return 4 ** math.ceil(math.log(max(float(reach) + _LOST / epsilon, 1024.0), 4) - 1e-9)


def log_likelihood(
    reports: Int[Array | np.ndarray, "n groups"],
    means: Float[Array | np.ndarray, "classes rates groups"],
    dispersion: float,
    epsilon: Scalar,
    *,
    size: int,
) -> Float[Array, "n classes rates"]:
    """log P(reports | class, rate) of every user, her groups independent of each other; float32 [n, C, L].

    Args:
      reports: noisy counts, below ``size``; larger ones are taken for ``size`` - 1.
      means: of the true counts (:func:`~ldp_jax.pipeline.pilot.expected_counts`); less than 1e-8 is 1e-8.
      dispersion: s, infinite for Poisson counts; static.
      epsilon: of each count.
      size: of the tables, static: :func:`table_size`.

    >>> noiseless = log_likelihood(jnp.array([[3]]), jnp.array([[[2.0]]]), math.inf, 50.0, size=32)
    >>> round(float(jnp.exp(noiseless)[0, 0, 0]), 6)  # Poisson: e^-2 2^3 / 3!
    0.180447
    """
    validate.positive(epsilon=epsilon)
    law = law_of(dispersion, size)
    return log_likelihoods(law, reports, means, jnp.asarray(epsilon, jnp.float32), size)


# --- Step 7 ------------------------------------------------------------------------------------------------------


class Evidence(NamedTuple):
    """What reports say of classes.

    Attributes:
      log_likelihood: float32 [n, C], up to a constant of each user that no class sees.
      weights: float32 [L], the share of users at each rate.
      dispersion: int32, which of the dispersions has the largest marginal likelihood.
      marginal: float32 [S], the mean log marginal likelihood of a report under each dispersion.
    """

    log_likelihood: Float[Array, "n classes"]
    weights: Float[Array, " rates"]
    dispersion: Int[Array, ""]
    marginal: Float[Array, " dispersions"]


def rate_weights(
    log_likelihood: Float[Array | np.ndarray, "n rates"], counted: Array, *, steps: int = 60
) -> tuple[Float[Array, " rates"], Float[Array, ""]]:
    """The share of users at each rate by EM, and the mean log marginal likelihood under it.

    Args:
      log_likelihood: of each user at each rate.
      counted: [n], 1 for users who reported, 0 for others.
      steps: of EM, static.
    """
    counted = jnp.asarray(counted, jnp.float32)
    total = jnp.maximum(counted.sum(), 1.0)
    rates = log_likelihood.shape[1]

    def step(weights: Array, _: None) -> tuple[Array, None]:
        share = jax.nn.softmax(log_likelihood + jnp.log(weights), axis=-1)
        # A hundredth of a user at each rate: none is ever impossible.
        return ((share * counted[:, None]).sum(0) + 0.01) / (total + 0.01 * rates), None

    weights, _ = jax.lax.scan(step, jnp.full(rates, 1.0 / rates), None, length=steps)
    marginal = jax.scipy.special.logsumexp(log_likelihood + jnp.log(weights), axis=-1)
    return weights, (marginal * counted).sum() / total


def evidence(
    reports: Int[Array | np.ndarray, "n groups"],
    means: Float[Array | np.ndarray, "classes rates groups"],
    prior: Float[Array | np.ndarray, "n classes"],
    epsilon: Scalar,
    *,
    size: int,
    counted: Any = None,
    dispersions: tuple[float, ...] = DISPERSIONS,
) -> Evidence:
    r"""Step 7 of piloted counts: :math:`l(c) = \log \sum_\lambda w_\lambda \prod_k P(r_k \mid \lambda H_{ck}, s)`.

    The weights w are fitted by EM to the reports, s is chosen by their marginal likelihood; for both, classes are
    averaged over the public prior.

    Args:
      reports: noisy counts.
      means: of each class at each rate, the columns of this round's groups
        (:func:`~ldp_jax.pipeline.pilot.expected_counts`).
      prior: public distribution of each user's class; a label is a row of 0 and 1.
      epsilon: of each count.
      size: of the tables, static: :func:`table_size`.
      counted: bool [n], who reported; all by default. Rows of others are computed and mean nothing.
      dispersions: to choose from, static.

    >>> means = jnp.array([[[6.0, 4.0]], [[4.0, 6.0]]])  # of each class, at one rate, in two groups
    >>> reports, prior = jnp.array([[9, 2], [5, 5], [2, 9]]), np.full((3, 2), 0.5)
    >>> found = evidence(reports, means, prior, 1.0, size=256)
    >>> np.asarray(jax.nn.softmax(found.log_likelihood), float).round(2).tolist()
    [[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]]
    """
    validate.positive(epsilon=epsilon)
    laws = jax.tree.map(lambda *leaves: np.stack(leaves), *(law_of(s, size) for s in dispersions))
    counted = np.ones(len(reports), np.float32) if counted is None else np.asarray(counted, np.float32)
    return _evidence(laws, reports, means, prior, np.float32(epsilon), counted, size=size)


@partial(jax.jit, static_argnames="size")
def _evidence(
    laws: Law, reports: Array, means: Array, prior: Array, epsilon: Array, counted: Array, *, size: int
) -> Evidence:
    log_prior = jnp.log(jnp.maximum(prior, 1e-30))

    def under(law: Law) -> Any:
        each = log_likelihoods(law, reports, means, epsilon, size)
        weights, marginal = rate_weights(jax.scipy.special.logsumexp(each + log_prior[:, :, None], axis=1), counted)
        return jax.scipy.special.logsumexp(each + jnp.log(weights), axis=-1), weights, marginal

    each, weights, marginal = jax.lax.map(under, laws)
    best = marginal.argmax().astype(jnp.int32)
    return Evidence(each[best], weights[best], best, marginal)
