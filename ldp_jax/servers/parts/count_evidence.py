r"""Counts of neighbours by public group, and what a noisy one says of its reporter's class.

A user of class c has a rate :math:`\lambda`, the expected number of all neighbours, of which a
share :math:`H_{cg}` is in group g. The counts are negative binomial,
:math:`m_g \sim \mathrm{NB}(\lambda H_{cg}, s)`, of variance :math:`\mu + \mu^2 / s` (Poisson for s
of infinity), and the reports :math:`r_g = m_g + z_g` with
:math:`P(z) = \frac{1 - a}{1 + a} a^{|z|}, a = e^{-\epsilon}`. The law of a report is their
convolution,

.. math:: P(r) = \frac{1 - a}{1 + a} \sum_m \mathrm{NB}(m) \, a^{|r - m|},

two geometric sums, from below and from above, which a recursion over r adds up exactly. All users
share C K L such laws (classes, groups, rates), so they are computed once as tables, and looked up.

*Numerics.* Tables are logarithms throughout, made in float64 on the CPU: to 1e-6 of 1 + abs(log P).
For r < 0 only the sum from above is left, a^-r P(0), exactly.
Reference: Ghosh, Roughgarden & Sundararajan, Universally utility-maximizing privacy mechanisms
(STOC 2009).
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import gammaln

from ldp_jax.core import validate
from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, Array, Scalar
from ldp_jax.servers.parts.rows import power_of_four

DISPERSIONS = (math.inf, 10.0, 3.0)
"""The s of the negative binomial that :func:`evidence` chooses from."""

_LOST = 24.0  # logarithm of what a sum may leave out, of terms that are at most 1

_STEPS = 60  # of EM

LEAST = 1e-8
"""The least mean of a count: where a class's share of a group is estimated as 0, a neighbour may be
there.
"""

_NOTHING = -1e30  # the logarithm of an empty sum: finite, so that no difference is NaN

_LEAST_SIZE = 256.0  # of a table, so that small graphs share their programs


def noise_variance(epsilon: float) -> float:
    """2 a / (1 - a)^2, a = e^-epsilon."""
    return 2 * math.exp(-epsilon) / math.expm1(-epsilon) ** 2


def report_tables(
    dispersion: float,
    means: Float[AnyArray, "classes rates groups"],
    epsilon: float,
    *,
    size: int,
) -> Float[np.ndarray, "groups size laws"]:
    """log P(r) of reports r below ``size`` of each group, at each class and rate.

    Float32 [G, size, C L].

    ``dispersion`` s is above 0, infinite for Poisson counts. ``means`` are of the true counts
    (:func:`~ldp_jax.servers.parts.group_design.expected_counts`), at least 1e-8; ``size`` is of
    :func:`table_size`.
    """
    if not dispersion > 0:
        raise ValueError(
            f"dispersion must be > 0, or infinite for Poisson counts, got {dispersion}"
        )
    mean = np.maximum(np.asarray(means, np.float64), LEAST)
    mean = mean.reshape(-1, mean.shape[-1])
    count = np.arange(float(size))[:, None, None]
    s = dispersion
    if math.isinf(s):
        log_pmf = count * np.log(mean) - mean - gammaln(count + 1.0)
    else:
        log_ways = gammaln(count + s) - gammaln(s) - gammaln(count + 1.0)
        log_pmf = log_ways + count * np.log(mean / (s + mean)) - s * np.log1p(mean / s)
    with float64_on_cpu():
        log_p = np.asarray(_convolved(log_pmf, float(epsilon)))
    log_scale = np.float32(math.log(math.tanh(epsilon / 2)))  # (1 - a) / (1 + a)
    return (log_p + log_scale).transpose(2, 0, 1)


@jax.jit
def _convolved(log_pmf: Array, epsilon: Scalar) -> Array:
    """log sum_m P(m) e^(-epsilon |r - m|) of each r, along the first axis.

    Float32, of a float64 law.
    """

    def plus(a: Array, b: Array) -> Array:
        """What is added is of float32's precision, the sum is not."""
        largest = jnp.maximum(a, b)
        apart = jnp.abs(a - b).astype(jnp.float32)
        return largest + jnp.log1p(jnp.exp(-apart))

    def up(below: Array, here: Array) -> tuple[Array, Array]:
        total = plus(below - epsilon, here)
        return total, total.astype(jnp.float32)

    def down(above: Array, here: Array) -> tuple[Array, Array]:
        return plus(above, here) - epsilon, above.astype(jnp.float32)

    nothing = jnp.full_like(log_pmf[0], _NOTHING)
    _, below = jax.lax.scan(up, nothing, log_pmf)
    _, above = jax.lax.scan(down, nothing, log_pmf, reverse=True)
    return plus(below, above)


@jax.jit
def log_likelihoods(
    tables: Float[Array, "groups size laws"],
    reports: Int[AnyArray, "n groups"],
    epsilon: Scalar,
) -> Float[Array, "n laws"]:
    """log P(reports | class, rate) of every user, groups independent of each other.

    Float32 [n, C L].

    ``tables`` are of the same epsilon (:func:`report_tables`); reports beyond them are taken for
    their last.

    >>> tables = report_tables(math.inf, np.array([[[2.0]]]), 50.0, size=32)
    >>> noiseless = log_likelihoods(tables, np.array([[3]]), 50.0)
    >>> round(float(jnp.exp(noiseless)[0, 0]), 6)  # Poisson: e^-2 2^3 / 3!
    0.180447
    """

    def add(total: Array, group: tuple[Array, Array]) -> tuple[Array, None]:
        laws, column = group
        here = laws[jnp.clip(column, 0, tables.shape[1] - 1)]
        below_zero = jnp.maximum(-column, 0)[:, None]
        return total + here - epsilon * below_zero, None

    columns = jnp.asarray(reports).T
    start = jnp.zeros((len(reports), tables.shape[2]), jnp.float32)
    total, _ = jax.lax.scan(add, start, (tables, columns))
    return total


def table_size(reports: AnyArray, means: AnyArray, epsilon: float) -> int:
    """How many counts the tables of :func:`log_likelihoods` must have.

    A power of four from 256 on: few programs.

    Beyond every report and every mean, as far as noise reaches; on the host, from concrete values.

    >>> table_size(np.array([[40, -3]]), np.array([1.0, 20.0]), 1.0)
    256
    """
    validate.positive(epsilon=epsilon)
    largest = max(np.max(np.asarray(each), initial=0) for each in (reports, means))
    reach = float(largest) + _LOST / epsilon
    return power_of_four(max(reach, _LEAST_SIZE))


# --- Step 7 ---------------------------------------------------------------------------------------


class Evidence(NamedTuple):
    """The evidence of reports about classes.

    Attributes:
      log_likelihood: float32 [n, C], up to a constant of each user that no class sees.
      weights: float32 [L], the share of users at each rate.
      dispersion: which of the dispersions has the largest marginal likelihood.
      marginal: [S], the mean log marginal likelihood of a report under each dispersion.
    """

    log_likelihood: Float[Array, "n classes"]
    weights: Float[Array, " rates"]
    dispersion: int
    marginal: list[float]

    __repr__ = by_shapes


def rate_weights(
    log_likelihood: Float[AnyArray, "n rates"], counted: Array
) -> tuple[Float[Array, " rates"], Float[Array, ""]]:
    """The share of users at each rate by EM, and the mean log marginal likelihood of reporters."""
    counted = jnp.asarray(counted, jnp.float32)
    total = jnp.maximum(counted.sum(), 1.0)
    rates = log_likelihood.shape[1]

    def step(weights: Array, _: None) -> tuple[Array, None]:
        share = jax.nn.softmax(log_likelihood + jnp.log(weights), axis=-1)
        users = (share * counted[:, None]).sum(0)
        # A hundredth of a user at each rate: none is ever impossible.
        return (users + 0.01) / (total + 0.01 * rates), None

    even = jnp.full(rates, 1.0 / rates, jnp.float32)
    weights, _ = jax.lax.scan(step, even, None, length=_STEPS)
    marginal = jax.scipy.special.logsumexp(log_likelihood + jnp.log(weights), axis=-1)
    return weights, (marginal * counted).sum() / total


def evidence(
    reports: Int[AnyArray, "n groups"],
    means: Float[AnyArray, "classes rates groups"],
    prior: Float[AnyArray, "n classes"],
    epsilon: Scalar,
    *,
    size: int,
    counted: Bool[np.ndarray, " n"] | None = None,
) -> Evidence:
    r"""Step 7 of piloted counts.

    :math:`l(c) = \log \sum_\lambda w_\lambda \prod_k P(r_k \mid \lambda H_{ck}, s)`.

    The weights w are fitted by EM to the reports, s is chosen by their marginal likelihood; for
    both, classes are averaged over the public prior. Rows of users who are not ``counted`` mean
    nothing; ``means`` are those of :func:`report_tables`, ``prior`` are public distributions of
    classes, ``size`` is :func:`table_size`.

    >>> means = jnp.array(
    ...     [[[6.0, 4.0]], [[4.0, 6.0]]]
    ... )  # of each class, at one rate, in two groups
    >>> reports, prior = jnp.array([[9, 2], [5, 5], [2, 9]]), np.full((3, 2), 0.5)
    >>> found = evidence(reports, means, prior, 1.0, size=256)
    >>> np.asarray(jax.nn.softmax(found.log_likelihood), float).round(2).tolist()
    [[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]]
    """
    validate.positive(epsilon=epsilon)
    who = np.ones(len(reports), np.float32)
    if counted is not None:
        who = np.asarray(counted, np.float32)
    found = []
    for s in DISPERSIONS:
        tables = report_tables(s, means, float(epsilon), size=size)
        found.append(_under(tables, reports, prior, np.float32(epsilon), who))
    marginals = [float(marginal) for _, _, marginal in found]
    best = int(np.argmax(marginals))
    each, weights, _ = found[best]
    return Evidence(each, weights, best, marginals)


@jax.jit
def _under(
    tables: Array, reports: Array, prior: Array, epsilon: Array, counted: Array
) -> tuple[Array, Array, Array]:
    """The evidence, weights of rates and marginal likelihood under one dispersion."""
    n, classes = prior.shape
    each = log_likelihoods(tables, reports, epsilon).reshape(n, classes, -1)
    log_prior = jnp.log(jnp.maximum(prior, 1e-30))
    by_rate = jax.nn.logsumexp(each + log_prior[:, :, None], axis=1)
    weights, marginal = rate_weights(by_rate, counted)
    return jax.nn.logsumexp(each + jnp.log(weights), axis=-1), weights, marginal
