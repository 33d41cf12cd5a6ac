"""The law of one noisy count: a negative binomial through two-sided geometric noise, in logarithms."""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln

from ldp_jax.core.types import Array

LEAST = 1e-8
"""The least mean of a count: where a class's share of a group is estimated as 0, a neighbour may be there."""

_NOTHING = -1e30
"""The logarithm of an empty sum: finite, so that no difference is NaN."""

_TERMS = 11
"""Terms of the series of a deviance, below |v| = 0.4."""


def log_scale(epsilon: Array) -> Array:
    """log((1 - a) / (1 + a))."""
    return jnp.log(-jnp.expm1(-epsilon)) - jnp.log1p(jnp.exp(-epsilon))


def noise_variance(epsilon: Array) -> Array:
    """2 a / (1 - a)^2, a = e^-epsilon."""
    return 2 * jnp.exp(-epsilon) / jnp.expm1(-epsilon) ** 2


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
    """What the pmf of counts 0, 1, ... takes of s, computed in float64 on the host."""

    dispersion: Any
    error_of_dispersion: Any
    error_of_sum: Any  # [size]


def law_of(dispersion: float, size: int) -> Law:
    """The law of dispersion s, infinite for Poisson counts.

    Raises:
      ValueError: unless s > 0.
    """
    if not dispersion > 0:
        raise ValueError(f"dispersion must be > 0, or infinite for Poisson counts, got {dispersion}")
    s = 1.0 if math.isinf(dispersion) else dispersion
    errors = [np.float32(_stirling(np.asarray(x))) for x in (s, np.arange(size) + s)]
    return Law(np.float32(dispersion), *errors)


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


def log_report_table(law: Law, means: Array, epsilon: Array, size: int) -> Array:
    """log P(r) for r in 0 .. size - 1 along a new first axis: the pmf through both geometric sums."""
    log_pmf = log_pmf_table(law, means, size)
    nothing = (jnp.full_like(means, _NOTHING), jnp.zeros_like(means))

    def up(below: Any, here: Array) -> tuple[Any, Array]:
        total = _plus(_less(below, epsilon), here)
        return total, total[0]

    def down(above: Any, here: Array) -> tuple[Any, Array]:
        return _less(_plus(above, here), epsilon), above[0]

    _, below = jax.lax.scan(up, nothing, log_pmf)
    _, above = jax.lax.scan(down, nothing, log_pmf, reverse=True)
    return log_scale(epsilon) + jnp.logaddexp(below, above)


def _split(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b in float32, and what its rounding lost, exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _less(log_sum: tuple[Array, Array], epsilon: Array) -> tuple[Array, Array]:
    """A logarithm, kept in two numbers, less epsilon: roundings of hundreds of steps would add up."""
    total, lost = _split(log_sum[0], -epsilon)
    return _split(total, lost + log_sum[1])


def _plus(log_sum: tuple[Array, Array], here: Array) -> tuple[Array, Array]:
    """log(e^a + e^here), a kept in two numbers."""
    gap = log_sum[0] - here
    total, lost = _split(jnp.maximum(log_sum[0], here), jnp.log1p(jnp.exp(-jnp.abs(gap))))
    return total, lost + jnp.where(gap > 0, log_sum[1], 0.0)


@partial(jax.jit, static_argnames="size")
def log_likelihoods(law: Law, reports: Array, means: Array, epsilon: Array, size: int) -> Array:
    """log P(reports | class, rate), see :func:`ldp_jax.pipeline.counts.log_likelihood`; traced."""
    classes, num_rates = means.shape[:2]
    means = jnp.maximum(means, LEAST).reshape(classes * num_rates, -1).T
    table = log_report_table(law, means, epsilon, size).transpose(1, 0, 2)  # [groups, size, classes * rates]

    def add(total: Array, group: Any) -> tuple[Array, None]:
        laws, column = group
        here = laws[jnp.clip(column, 0, size - 1)]
        return total + here - epsilon * jnp.maximum(-column, 0)[:, None], None

    total, _ = jax.lax.scan(add, jnp.zeros((len(reports), classes * num_rates)), (table, reports.T))
    return total.reshape(-1, classes, num_rates)
