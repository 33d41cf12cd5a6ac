"""Tests of draws against a law, and bounds of a probability.

Each says the smallest defect that it detects.
"""

from typing import NamedTuple

import numpy as np
from scipy import optimize, special, stats

from ldp_jax.core.types import Scalar, Values

SIGNIFICANCE = 1e-6
"""How often a test of this library may reject a correct sampler."""

OUTSIDE = "reports that are not in the codomain; a finite one must be met to the last bit"


class Fit(NamedTuple):
    """The outcome of a test of draws against a law.

    Attributes:
      fits: False: the draws do not follow the law.
      test: by name.
      statistic: G, or what else is compared.
      threshold: what a correct sampler exceeds with probability ``significance``.
      smallest_defect: the total variation (of G) that is missed as rarely.
      draws: how many, of how many ``records``.
    """

    fits: bool
    test: str
    statistic: float
    threshold: float
    smallest_defect: float
    draws: int
    records: int = 1

    def __str__(self) -> str:
        return (
            f"{self.test} test: {self.statistic:.4g} against {self.threshold:.4g} "
            f"(n = {self.draws}); detects {self.smallest_defect:.3g} and more"
        )


def smallest_defect_of_g(n: int, cells: int, significance: float = SIGNIFICANCE) -> float:
    """The total variation t that :func:`g_test` misses this rarely.

    By Pinsker its non-centrality is 4 n t^2.
    """
    critical = stats.chi2.isf(significance, cells - 1)
    missed = lambda shift: special.chndtr(critical, cells - 1, shift) - significance
    shift = optimize.brentq(missed, 1.0, 100 * critical + 1000)
    return float(np.sqrt(shift / (4 * n)))


def g_test(counts: Values, probabilities: Values, *, significance: float = SIGNIFICANCE) -> Fit:
    """Counts of outcomes [cells] against their probabilities: the likelihood-ratio (G) test.

    An outcome of probability 0 must not happen. Rare outcomes (fewer than 10 expected) are taken
    together: their mass adds to the smallest defect; where these are too few, a Poisson tail with
    half the significance bounds it.
    """
    counts = np.asarray(counts, np.float64)
    probabilities = np.asarray(probabilities, np.float64)
    n = counts.sum()
    if counts[probabilities == 0].any():
        return Fit(False, "G (an impossible outcome was drawn)", np.inf, 0.0, 0.0, int(n))
    probabilities = probabilities / probabilities.sum()
    rare = n * probabilities < 10
    pooled = float(probabilities[rare].sum()) if rare.sum() > 1 else 0.0
    observed = np.append(counts[~rare], counts[rare].sum())
    expected = n * np.append(probabilities[~rare], probabilities[rare].sum())
    if expected[-1] < 10:
        if rare.any():
            significance = significance / 2
        seen = float(observed[-1])
        limit = float(stats.poisson.isf(significance, expected[-1]))
        if seen > limit:
            return Fit(False, "G (too many rare outcomes)", seen, limit, 0.0, int(n))
        observed = observed[:-1]
        expected = expected[:-1]
        expected = expected * observed.sum() / expected.sum()

    if len(observed) < 2:  # one outcome, and the others were not too many
        smallest = 1.0
        if rare.any():
            rest = n * float(probabilities[rare].sum())
            unseen = stats.poisson.isf(significance, rest) + 30
            smallest = min(1.0, pooled + unseen / n)
        return Fit(True, "G", 0.0, 0.0, float(smallest), int(n))

    g = float(2 * special.rel_entr(observed, expected).sum())
    limit = float(stats.chi2.isf(significance, len(observed) - 1))
    smallest = smallest_defect_of_g(int(n), len(observed), significance) + pooled
    return Fit(g <= limit, "G", g, limit, smallest, int(n))


def tail_fit(test: str, chance: float, limit: float, smallest_defect: float, draws: int) -> Fit:
    """Whether the rarest of what was seen is no rarer than a limit; both are shown as digits."""
    digits = float(-np.log10(max(chance, 1e-300)))
    threshold = float(-np.log10(limit))
    return Fit(chance >= limit, test, digits, threshold, float(smallest_defect), draws)


def clopper_pearson(successes: Scalar, n: Scalar, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Exact bounds of a probability: each is wrong with probability at most ``alpha``; elementwise.

    Reference: Clopper & Pearson, Biometrika 1934.

    >>> low, high = clopper_pearson(50, 100, 0.025)
    >>> round(float(low), 3), round(float(high), 3)
    (0.398, 0.602)
    """
    successes = np.asarray(successes, np.float64)
    with np.errstate(invalid="ignore"):
        low = stats.beta.ppf(alpha, successes, n - successes + 1)
        high = stats.beta.isf(alpha, successes + 1, n - successes)
    return np.where(successes > 0, low, 0.0), np.where(successes < n, high, 1.0)
