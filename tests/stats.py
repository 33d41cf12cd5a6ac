"""Assertions about draws, at significance 1e-6: a correct sampler fails one in a million.

Keys are fixed, so a test that passes once passes always. Each check says, in its error and by a function of its
own, the smallest defect that it misses with probability at most 1e-6: a check of draws means nothing without it.
The statistics are the library's (:mod:`ldp_jax.verification.statistics`), tested on their own.
"""

import numpy as np
from scipy import stats

from ldp_jax.verification import statistics
from ldp_jax.verification.statistics import SIGNIFICANCE, ks_threshold, smallest_defect_of_g

__all__ = [
    "SIGMAS",
    "SIGNIFICANCE",
    "assert_g",
    "assert_ks",
    "assert_moments",
    "assert_share",
    "ks_threshold",
    "smallest_defect_of_g",
]

SIGMAS = float(stats.norm.isf(SIGNIFICANCE / 2))
"""4.89: standard errors at which a two-sided z-test rejects."""


def assert_ks(draws, cdf, *, rounding: float = 0.0) -> None:
    """Draws of a continuous law against its distribution function.

    Rejects with mass 1 - 1e-6 a sampler whose distribution function is off by 2 * ks_threshold(n) + rounding
    anywhere (0.012 at n = 2e5). ``rounding`` is what float32 reports may be off by, in mass.
    """
    fit = statistics.ks_test(draws, cdf, rounding=rounding)
    assert fit.fits, str(fit)


def assert_g(counts, probabilities) -> None:
    """Counts of outcomes against their probabilities: the likelihood-ratio (G) test.

    An outcome of probability 0 must not happen at all. Rare outcomes (fewer than 10 expected) are taken
    together. See :func:`smallest_defect_of_g`: 0.011 at n = 1e5 and ten cells.
    """
    probabilities = np.asarray(probabilities, np.float64)
    np.testing.assert_allclose(probabilities.sum(), 1.0, atol=1e-6)
    fit = statistics.g_test(counts, probabilities)
    assert fit.fits, str(fit)


def assert_share(successes: float, n: int, probability: float) -> None:
    """One share of n draws against its probability, exactly (binomial tails).

    Detects an error of 2 * SIGMAS * sqrt(p (1 - p) / n) and more: 0.016 at p = 1/2, n = 1e5.
    """
    p = stats.binomtest(int(successes), n, probability).pvalue
    assert p > SIGNIFICANCE, f"{successes} of {n} where {probability:.4g} was due: p = {p:.2g}"


def assert_moments(draws, mean, variance, fourth, *, rounding: float = 0.0) -> None:
    """Sample mean and variance within five standard errors of the law's, column by column (mass 6e-7 each).

    ``fourth`` is the law's fourth central moment, which gives the standard error of the variance: a rare branch
    that was not drawn at all says nothing about it. Detects what is off by 10 standard errors and more.
    """
    draws = np.asarray(draws, np.float64)
    n = len(draws)
    mean, variance, fourth = (np.asarray(v, np.float64) for v in (mean, variance, fourth))
    error = np.sqrt(variance / n)
    off = np.abs(draws.mean(0) - mean)
    assert (off <= 5 * error + rounding).all(), f"mean off by {off}, standard error {error}"
    spread = np.sqrt(np.maximum(fourth - variance**2, 0.0) / n) + error**2
    off = np.abs(((draws - mean) ** 2).mean(0) - variance)
    assert (off <= 5 * spread + rounding).all(), f"variance off by {off}, standard error {spread}"
