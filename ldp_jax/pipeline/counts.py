r"""Counts of neighbours by public group, and what a noisy one says of its reporter's class.

A user of class c has a rate :math:`\lambda`, the expected number of all neighbours, of which a share
:math:`H_{cg}` is in group g. The counts are negative binomial, :math:`m_g \sim \mathrm{NB}(\lambda H_{cg}, s)`,
of variance :math:`\mu + \mu^2 / s` (Poisson for s of infinity), and the reports :math:`r_g = m_g + z_g` with
:math:`P(z) = \frac{1 - a}{1 + a} a^{|z|}, a = e^{-\epsilon}`. The law of a report is their convolution,

.. math:: P(r) = \frac{1 - a}{1 + a} \sum_m \mathrm{NB}(m) \, a^{|r - m|},

two geometric sums, from below and from above, which a recursion over r adds up exactly. All users share C K L such
laws (classes, groups, rates), so they are computed once as tables, and looked up.

*Numerics.* Logarithms throughout, by Loader's deviances rather than by log-gamma functions, which would cancel:
float32 is within 1e-6 of 1 + abs(log P). For r < 0 only the sum from above is left, a^-r P(0), exactly.
Reference: Ghosh, Roughgarden & Sundararajan, Universally utility-maximizing privacy mechanisms (STOC 2009), for the
noise; Loader, Fast and accurate computation of binomial probabilities (2000), for the deviances.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import gammaln

from ldp_jax.core import validate
from ldp_jax.core.types import Array, Scalar

DISPERSIONS = (math.inf, 10.0, 3.0)
"""The s of the negative binomial that :func:`evidence` chooses from."""

_LOST = 24.0  # logarithm of what a sum may leave out, of terms that are at most 1

_STEPS = 60  # of EM

LEAST = 1e-8
"""The least mean of a count: where a class's share of a group is estimated as 0, a neighbour may be there."""

_NOTHING = -1e30  # the logarithm of an empty sum: finite, so that no difference is NaN

_LEAST_SIZE = 1024.0  # of a table, so that small graphs share their programs

_TERMS = 11  # terms of the series of a deviance, below |v| = 0.4


_Pair = tuple[Array, Array]  # a logarithm in two numbers, the second what the first has lost by rounding


def noise_variance(epsilon: float) -> float:
    """2 a / (1 - a)^2, a = e^-epsilon."""
    return 2 * math.exp(-epsilon) / math.expm1(-epsilon) ** 2


def _stirling(x: np.ndarray) -> np.ndarray:
    """log Gamma(x + 1) less Stirling's formula; 0 at x = 0, where it is not used."""
    safe = np.maximum(x, 1e-300)
    error = gammaln(x + 1.0) - (x + 0.5) * np.log(safe) + x - 0.5 * math.log(2 * math.pi)
    return np.where(x > 0, error, 0.0)


def _deviance(count: Array, mean: Array) -> Array:
    """count log(count / mean) + mean - count, to float32's precision also where the two are close."""
    v = (count - mean) / (count + mean)
    square, series = v * v, jnp.zeros_like(v)
    for j in range(_TERMS, 0, -1):
        series = series * square + 1.0 / (2 * j + 1)
    near = (count - mean) * v + 2.0 * count * v * square * series
    some = jnp.maximum(count, 1e-30)
    far = jnp.where(count > 0, count * (jnp.log(some) - jnp.log(mean)), 0.0) + (mean - count)
    return jnp.where(jnp.abs(v) < 0.4, near, far)


class Law(NamedTuple):
    """The part of the pmf of counts 0, 1, ... that s decides, in float64 on the host."""

    dispersion: Array | np.float32
    error_of_dispersion: Array | np.float32
    error_of_sum: Array | np.ndarray  # [size]


def law_of(dispersion: float, size: int) -> Law:
    """The law of dispersion s > 0, infinite for Poisson counts."""
    if not dispersion > 0:
        raise ValueError(f"dispersion must be > 0, or infinite for Poisson counts, got {dispersion}")
    s = 1.0 if math.isinf(dispersion) else dispersion
    error_of_sum = _stirling(np.arange(size) + s).astype(np.float32)
    return Law(np.float32(dispersion), np.float32(_stirling(np.asarray(s))), error_of_sum)


def log_pmf_table(law: Law, means: Array, size: int) -> Array:
    """log NB(m; mean, s) for m in 0 .. size - 1 along a new first axis."""
    stretch = (size, *(1,) * means.ndim)
    error = jnp.asarray(_stirling(np.arange(size)), jnp.float32).reshape(stretch)
    count = jnp.arange(size, dtype=jnp.float32).reshape(stretch)
    some = jnp.maximum(count, 1.0)
    poisson = -error - 0.5 * jnp.log(2 * jnp.pi * some) - _deviance(count, means)
    poisson = jnp.where(count == 0, -means, poisson)
    s = jnp.where(jnp.isinf(law.dispersion), 1.0, law.dispersion)
    both = count + s
    lost, won = both * (s / (s + means)), both * (means / (s + means))
    coefficient = jnp.reshape(jnp.asarray(law.error_of_sum), stretch) - law.error_of_dispersion - error
    binomial = (
        coefficient - _deviance(s, lost) - _deviance(count, won) - 0.5 * jnp.log(2 * jnp.pi * s * some / both)
    )
    negative = jnp.where(count == 0, -s * jnp.log1p(means / s), jnp.log(s / both) + binomial)
    return jnp.where(jnp.isinf(law.dispersion), poisson, negative)


def log_report_table(law: Law, means: Array, epsilon: Scalar, size: int) -> Array:
    """log P(r) for r in 0 .. size - 1 along a new first axis: the pmf through both geometric sums."""
    log_pmf = log_pmf_table(law, means, size)
    nothing = (jnp.full_like(means, _NOTHING), jnp.zeros_like(means))

    def up(below: _Pair, here: Array) -> tuple[_Pair, Array]:
        total = _plus(_less(below, epsilon), here)
        return total, total[0]

    def down(above: _Pair, here: Array) -> tuple[_Pair, Array]:
        return _less(_plus(above, here), epsilon), above[0]

    _, below = jax.lax.scan(up, nothing, log_pmf)
    _, above = jax.lax.scan(down, nothing, log_pmf, reverse=True)
    log_scale = jnp.log(-jnp.expm1(-epsilon)) - jnp.log1p(jnp.exp(-epsilon))  # of (1 - a) / (1 + a)
    return log_scale + jnp.logaddexp(below, above)


def _split(a: Array, b: Scalar) -> _Pair:
    """a + b in float32, and what its rounding lost, exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _less(log_sum: _Pair, epsilon: Scalar) -> _Pair:
    """A logarithm, kept in two numbers, less epsilon: roundings of hundreds of steps would add up."""
    total, lost = _split(log_sum[0], -epsilon)
    return _split(total, lost + log_sum[1])


def _plus(log_sum: _Pair, here: Array) -> _Pair:
    """log(e^a + e^here), a kept in two numbers."""
    gap = log_sum[0] - here
    total, lost = _split(jnp.maximum(log_sum[0], here), jnp.log1p(jnp.exp(-jnp.abs(gap))))
    return total, lost + jnp.where(gap > 0, log_sum[1], 0.0)


@partial(jax.jit, static_argnames="size")
def report_tables(
    law: Law, means: Float[Array | np.ndarray, "classes rates groups"], epsilon: Scalar, *, size: int
) -> Float[Array, "groups size laws"]:
    """log P(r) of reports r below ``size`` of each group, at each class and rate; float32 [G, size, C L].

    ``law`` is that of the dispersion. ``means`` are of the true counts
    (:func:`~ldp_jax.pipeline.design.expected_counts`), at least 1e-8; ``size`` is static (:func:`table_size`).
    """
    each = jnp.maximum(means, LEAST).reshape(-1, means.shape[-1]).T
    return log_report_table(law, each, epsilon, size).transpose(1, 0, 2)


@jax.jit
def log_likelihoods(
    tables: Float[Array, "groups size laws"], reports: Int[Array | np.ndarray, "n groups"], epsilon: Scalar
) -> Float[Array, "n laws"]:
    """log P(reports | class, rate) of every user, groups independent of each other; float32 [n, C L].

    ``tables`` are of the same epsilon (:func:`report_tables`); reports beyond them are taken for their last.

    >>> tables = report_tables(law_of(math.inf, 32), np.array([[[2.0]]]), 50.0, size=32)
    >>> noiseless = log_likelihoods(tables, np.array([[3]]), 50.0)
    >>> round(float(jnp.exp(noiseless)[0, 0]), 6)  # Poisson: e^-2 2^3 / 3!
    0.180447
    """

    def add(total: Array, group: tuple[Array, Array]) -> tuple[Array, None]:
        laws, column = group
        here = laws[jnp.clip(column, 0, tables.shape[1] - 1)]
        return total + here - epsilon * jnp.maximum(-column, 0)[:, None], None

    columns = jnp.asarray(reports).T
    return jax.lax.scan(add, jnp.zeros((len(reports), tables.shape[2])), (tables, columns))[0]


def table_size(reports: Array | np.ndarray, means: Array | np.ndarray, epsilon: float) -> int:
    """How many counts the tables of :func:`log_likelihoods` must have; a power of four from 1024 on: few programs.

    Beyond every report and every mean, as far as noise reaches; on the host, from concrete values.

    >>> table_size(np.array([[40, -3]]), np.array([1.0, 20.0]), 1.0)
    1024
    """
    validate.positive(epsilon=epsilon)
    reach = max(np.max(np.asarray(reports), initial=0), np.max(np.asarray(means), initial=0))
    return 4 ** math.ceil(math.log(max(float(reach) + _LOST / epsilon, _LEAST_SIZE), 4) - 1e-9)


# --- Step 7 ------------------------------------------------------------------------------------------------------


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


def rate_weights(
    log_likelihood: Float[Array | np.ndarray, "n rates"], counted: Array
) -> tuple[Float[Array, " rates"], Float[Array, ""]]:
    """The share of users at each rate by EM, and the mean log marginal likelihood of those who reported."""
    counted = jnp.asarray(counted, jnp.float32)
    total = jnp.maximum(counted.sum(), 1.0)
    rates = log_likelihood.shape[1]

    def step(weights: Array, _: None) -> tuple[Array, None]:
        share = jax.nn.softmax(log_likelihood + jnp.log(weights), axis=-1)
        # A hundredth of a user at each rate: none is ever impossible.
        return ((share * counted[:, None]).sum(0) + 0.01) / (total + 0.01 * rates), None

    weights, _ = jax.lax.scan(step, jnp.full(rates, 1.0 / rates), None, length=_STEPS)
    marginal = jax.scipy.special.logsumexp(log_likelihood + jnp.log(weights), axis=-1)
    return weights, (marginal * counted).sum() / total


def evidence(
    reports: Int[Array | np.ndarray, "n groups"],
    means: Float[Array | np.ndarray, "classes rates groups"],
    prior: Float[Array | np.ndarray, "n classes"],
    epsilon: Scalar,
    *,
    size: int,
    counted: Bool[np.ndarray, " n"] | None = None,
) -> Evidence:
    r"""Step 7 of piloted counts: :math:`l(c) = \log \sum_\lambda w_\lambda \prod_k P(r_k \mid \lambda H_{ck}, s)`.

    The weights w are fitted by EM to the reports, s is chosen by their marginal likelihood; for both, classes are
    averaged over the public prior. Rows of users who are not ``counted`` mean nothing; ``means`` are those of
    :func:`report_tables`, ``prior`` are public distributions of classes, ``size`` is :func:`table_size`.

    >>> means = jnp.array([[[6.0, 4.0]], [[4.0, 6.0]]])  # of each class, at one rate, in two groups
    >>> reports, prior = jnp.array([[9, 2], [5, 5], [2, 9]]), np.full((3, 2), 0.5)
    >>> found = evidence(reports, means, prior, 1.0, size=256)
    >>> np.asarray(jax.nn.softmax(found.log_likelihood), float).round(2).tolist()
    [[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]]
    """
    validate.positive(epsilon=epsilon)
    counted = np.ones(len(reports), np.float32) if counted is None else np.asarray(counted, np.float32)
    best, epsilon = None, np.float32(epsilon)
    marginals = []
    for place, s in enumerate(DISPERSIONS):
        tables = report_tables(law_of(s, size), means, epsilon, size=size)
        each, weights, marginal = _under(tables, reports, prior, epsilon, counted)
        marginals.append(float(marginal))
        if best is None or marginals[-1] > best.marginal[best.dispersion]:
            best = Evidence(each, weights, place, marginals)
    assert best is not None
    return best


@jax.jit
def _under(
    tables: Array, reports: Array, prior: Array, epsilon: Array, counted: Array
) -> tuple[Array, Array, Array]:
    """The evidence, weights of rates and marginal likelihood under one dispersion."""
    n, classes = prior.shape
    each = log_likelihoods(tables, reports, epsilon).reshape(n, classes, -1)
    log_prior = jnp.log(jnp.maximum(prior, 1e-30))
    weights, marginal = rate_weights(jax.nn.logsumexp(each + log_prior[:, :, None], axis=1), counted)
    return jax.nn.logsumexp(each + jnp.log(weights), axis=-1), weights, marginal
