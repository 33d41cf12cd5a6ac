"""Tests of draws against a law, at significance 1e-6: a correct sampler fails one in a million.

Keys are fixed, so a test that passes once passes always. Each check says, in its error and by a function of its
own, the smallest defect that it misses with probability at most 1e-6: a check of draws means nothing without it.
"""

import numpy as np
from scipy import optimize, special, stats

SIGNIFICANCE = 1e-6
SIGMAS = float(stats.norm.isf(SIGNIFICANCE / 2))
"""4.89: standard errors at which a two-sided z-test rejects."""


def ks_threshold(n: int) -> float:
    """The distance of distribution functions that n draws of the right law exceed with mass 1e-6 (DKW)."""
    return float(np.sqrt(np.log(2 / SIGNIFICANCE) / (2 * n)))


def assert_ks(draws, cdf, *, rounding: float = 0.0) -> None:
    """Draws of a continuous law against its distribution function.

    Rejects with mass 1 - 1e-6 a sampler whose distribution function is off by 2 * ks_threshold(n) + rounding
    anywhere (0.012 at n = 2e5). ``rounding`` is what float32 reports may be off by, in mass.
    """
    draws = np.sort(np.asarray(draws, np.float64))
    n = len(draws)
    # A report that float32 repeats is an atom: compare below the first and above the last of its copies.
    expected = cdf(draws)
    below = np.searchsorted(draws, draws, "left") / n
    above = np.searchsorted(draws, draws, "right") / n
    distance = max(np.max(expected - below), np.max(above - expected))
    limit = ks_threshold(n) + rounding
    assert distance <= limit, (
        f"KS distance {distance:.4g} > {limit:.4g} (n = {n}); detects {2 * limit:.4g} and more"
    )


def smallest_defect_of_g(n: int, cells: int) -> float:
    """The total variation distance that :func:`assert_g` misses with mass at most 1e-6.

    By Pinsker a distance t gives a non-centrality of at least 4 n t^2.
    """
    critical = stats.chi2.isf(SIGNIFICANCE, cells - 1)
    missed = lambda shift: special.chndtr(critical, cells - 1, shift) - SIGNIFICANCE
    return float(np.sqrt(optimize.brentq(missed, 1.0, 100 * critical + 1000) / (4 * n)))


def assert_g(counts, probabilities) -> None:
    """Counts of outcomes against their probabilities: the likelihood-ratio (G) test.

    An outcome of probability 0 must not happen at all. Rare outcomes (fewer than 10 expected) are taken
    together. See :func:`smallest_defect_of_g`: 0.011 at n = 1e5 and ten cells.
    """
    counts, probabilities = np.asarray(counts, np.float64), np.asarray(probabilities, np.float64)
    np.testing.assert_allclose(probabilities.sum(), 1.0, atol=1e-6)
    n = counts.sum()
    assert not counts[probabilities == 0].any(), "an impossible outcome was drawn"
    rare = n * probabilities < 10
    observed = np.append(counts[~rare], counts[rare].sum())
    expected = n * np.append(probabilities[~rare], probabilities[rare].sum())
    if expected[-1] < 10:  # too few even together: a Poisson tail bounds them
        assert stats.poisson.sf(observed[-1] - 1, expected[-1]) > SIGNIFICANCE, "too many rare outcomes"
        observed, expected = observed[:-1], expected[:-1]
        expected = expected * observed.sum() / expected.sum()
    if len(observed) < 2:
        return
    g = 2 * special.rel_entr(observed, expected).sum()
    p = stats.chi2.sf(g, len(observed) - 1)
    assert p > SIGNIFICANCE, (
        f"G test: p = {p:.2g} (n = {n:.0f}, {len(observed)} cells); detects a total variation of "
        f"{smallest_defect_of_g(int(n), len(observed)):.3g} and more"
    )


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
