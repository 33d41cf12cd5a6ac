"""Assertions about draws, at significance 1e-6: a correct sampler fails one in a million.

Keys are fixed, so a test that passes once passes always. Each check says the smallest defect that
it misses with probability at most 1e-6. The statistics are the library's
(:mod:`ldp_jax.verification.statistics`).
"""

import numpy as np
from scipy import stats

from ldp_jax.verification import statistics
from ldp_jax.verification.statistics import SIGNIFICANCE
from ldp_jax.verification.statistics import smallest_defect_of_g as smallest_defect_of_g

SIGMAS = float(stats.norm.isf(SIGNIFICANCE / 2))
"""4.89: standard errors at which a two-sided z-test rejects."""


def ks_threshold(n: int, significance: float = SIGNIFICANCE) -> float:
    """The distance that n draws of the right law exceed this rarely (DKW, Massart 1990)."""
    return float(np.sqrt(np.log(2 / significance) / (2 * n)))


def ks_test(draws, cdf, *, rounding: float = 0.0) -> statistics.Fit:
    """Draws [n] of a continuous law against its distribution function.

    Repeats, as float32 makes them, are atoms of their own; ``rounding`` is the mass that float32
    may be off by.
    """
    n = len(draws)
    distance = float(stats.ks_1samp(np.asarray(draws, np.float64), cdf, method="asymp").statistic)
    limit = ks_threshold(n) + rounding
    return statistics.Fit(distance <= limit, "KS", distance, limit, 2 * limit, n)


def assert_ks(draws, cdf, *, rounding: float = 0.0) -> None:
    """Draws of a continuous law against its distribution function, which ``rounding`` may put off
    in mass.

    Detects a distribution function that is off by 2 * ks_threshold(n) + rounding: 0.012 at n = 2e5.
    """
    fit = ks_test(draws, cdf, rounding=rounding)
    assert fit.fits, str(fit)


def assert_g(counts, probabilities) -> None:
    """Counts against probabilities; detects :func:`smallest_defect_of_g`: 0.011 at 1e5 draws and
    ten cells.
    """
    probabilities = np.asarray(probabilities, np.float64)
    np.testing.assert_allclose(probabilities.sum(), 1.0, atol=1e-6)
    fit = statistics.g_test(counts, probabilities)
    assert fit.fits, str(fit)


def assert_share(successes: float, n: int, probability: float) -> None:
    """One share of n draws against its probability; detects 2 * SIGMAS * sqrt(p (1 - p) / n): 0.016
    at 1/2, 1e5.
    """
    p = stats.binomtest(int(successes), n, probability).pvalue
    assert p > SIGNIFICANCE, f"{successes} of {n} where {probability:.4g} was due: p = {p:.2g}"
