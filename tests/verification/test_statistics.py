"""Tests of draws against a law, against SciPy's, by simulation, and at the smallest defect that
they state.
"""

import itertools

import numpy as np
import pytest
from scipy import stats

from ldp_jax.verification import statistics
from ldp_jax.verification.statistics import (
    SIGNIFICANCE,
    clopper_pearson,
    g_test,
)
from tests.stats import ks_test, ks_threshold


def uniform_law(y):
    return np.clip(y, 0, 1)


def test_edges_of_both_tests():
    """Massart's bound is never below the exact one, and within 1 % of it; NaN and the impossible
    are refused.

    Where all outcomes are rare, or there is one alone, a test passes and says that it detects
    nothing.
    """
    for n in (100, 1000, 100_000):
        exact = stats.kstwo.isf(SIGNIFICANCE, n)
        assert exact <= ks_threshold(n) < 1.01 * exact + 1 / n
    y = np.random.default_rng(5).uniform(size=1000)
    y[17] = np.nan
    assert not ks_test(y, lambda y: y).fits
    impossible = g_test([10**9, 1], [1.0, 0.0])
    assert not impossible.fits
    assert impossible.statistic == np.inf
    assert "impossible" in str(impossible)
    for counts, p in (([3, 3, 3], [1 / 3] * 3), ([9], [1.0]), ([500], [1.0])):
        found = g_test(counts, p)
        assert (found.fits, found.smallest_defect) == (True, 1.0)


@pytest.mark.parametrize("rounding", [0.0, 0.01])
def test_ks_rejects_its_smallest_defect(rounding):
    """A distribution function that is off by ``smallest_defect`` at one point: rejected in 50 of 50
    samples.
    """
    rng = np.random.default_rng(3)
    n = 10_000
    fit = ks_test(rng.uniform(size=n), uniform_law, rounding=rounding)
    assert fit.fits
    assert (fit.test, fit.draws) == ("KS", n)
    for _ in range(50):
        y = rng.uniform(size=n)
        y = np.where(
            (y > 0.5) & (y < 0.5 + fit.smallest_defect), 0.5, y
        )  # moves mass to one side of 1/2
        assert not ks_test(y, uniform_law, rounding=rounding).fits


def test_ks_of_atoms_compares_both_of_their_sides():
    """An atom of mass 0.1 in a continuous law is a distance of 0.05 at best: both sides are looked
    at.
    """
    y = np.random.default_rng(4).uniform(size=20_000)
    rounded = np.floor(10 * y) / 10 + 0.05  # atoms in the middle of ten bins
    found = ks_test(rounded, uniform_law)
    assert not found.fits
    assert found.statistic == pytest.approx(0.05, abs=0.012)
    top = np.floor(10 * y) / 10 + 0.1  # at their upper ends: the whole atom is missing below
    assert ks_test(top, uniform_law).statistic == pytest.approx(0.1, abs=0.012)
    # Float32 makes atoms too, which ``rounding`` allows for.
    assert ks_test(rounded, uniform_law, rounding=0.05).fits


@pytest.mark.parametrize("rare", [0, 50])
def test_g_is_scipys(rare):
    """Detects 1e-9 of the statistic or the threshold; fifty outcomes of six expected each are taken
    together.
    """
    p = np.array([0.5, 0.3, 0.15, 0.05])
    p = np.append(0.9 * p, np.full(rare, 0.1 / rare)) if rare else p
    counts = np.random.default_rng(6).multinomial(3000, p)
    together, expected = (
        np.append(each[:4], each[4:].sum())[: 5 if rare else 4] for each in (counts, 3000 * p)
    )
    found = g_test(counts, p)
    assert found.fits
    assert found.statistic == pytest.approx(
        stats.power_divergence(together, expected, lambda_="log-likelihood").statistic, rel=1e-9
    )
    assert stats.chi2.sf(found.threshold, len(together) - 1) == pytest.approx(
        SIGNIFICANCE, rel=1e-9
    )


def test_g_false_alarms_are_as_rare_as_asked():
    """1000 correct samples of 400 at significance 0.05: a level above 0.1 + 0.05 is seen.

    Twice 0.05 is allowed, because the rare outcomes are tested apart from the others.
    """
    rng = np.random.default_rng(7)
    p = np.append(np.full(5, 0.98 / 5), np.full(20, 0.001))
    alarms = sum(
        not g_test(rng.multinomial(400, p), p, significance=0.05).fits for _ in range(1000)
    )
    assert 20 < alarms <= stats.binom.isf(1e-6, 1000, 0.1)


@pytest.mark.parametrize("cells", [2, 300])
def test_g_rejects_its_smallest_defect(cells):
    """A law ``smallest_defect`` away: rejected in 50 of 50 samples of 100 000. A tenth of it is not
    seen.
    """
    rng = np.random.default_rng(8)
    n = 100_000
    flat = np.full(cells, 1 / cells)
    defect = statistics.smallest_defect_of_g(n, cells)
    off = flat + defect * np.where(np.arange(cells) % 2, 2, -2) / cells
    assert np.abs(off - flat).sum() / 2 == pytest.approx(defect)
    assert g_test(rng.multinomial(n, flat), flat).smallest_defect == defect
    assert not any(g_test(rng.multinomial(n, off), flat).fits for _ in range(50))
    near = flat + 0.1 * (off - flat)
    assert all(g_test(rng.multinomial(n, near), flat).fits for _ in range(20))


def test_rare_outcomes_are_bounded_by_a_poisson_tail():
    """Two expected together: 17 are too many at 1e-6 and 16 are not; a defect of 15 in 100 000
    draws is seen.
    """
    p = np.array([0.49999, 0.49999, 1e-5, 1e-5])
    limit = int(stats.poisson.isf(SIGNIFICANCE, 2))
    for rare, fits in ((0, True), (limit, True), (limit + 1, False)):
        found = g_test(np.array([50_000 - rare, 50_000, rare, 0]), p)
        assert found.fits == fits
    assert "rare" in str(found)
    # One outcome and two rare ones, which are expected 0.6 times: a defect adds 30 to their limit.
    alone = g_test([99_999, 1, 0], [1 - 6e-6, 3e-6, 3e-6])
    more = (stats.poisson.isf(SIGNIFICANCE / 2, 0.6) + 30) / 100_000
    assert alone.smallest_defect == pytest.approx(6e-6 + more)
    assert alone[:4] == (True, "G", 0.0, 0.0)


def test_clopper_pearson_is_scipys():
    """Detects a bound that is off by 1e-9 of it; at alpha 0 it says nothing."""
    for alpha, n in itertools.product((0.05, 1e-6), (1, 10, 1000)):
        k = np.unique(np.array([0, 1, n // 3, n - 1, n]))
        low, high = clopper_pearson(k, n, alpha)
        for i, successes in enumerate(k.tolist()):
            exact = stats.binomtest(successes, n).proportion_ci(1 - 2 * alpha, method="exact")
            assert low[i] == pytest.approx(exact.low, rel=1e-9, abs=1e-12)
            assert high[i] == pytest.approx(exact.high, rel=1e-9, abs=1e-12)
    low, high = clopper_pearson(np.arange(2001), 2000, 0.0)
    assert not low.any()
    assert (high == 1.0).all()


@pytest.mark.parametrize("chance", [1.0, 0.3, 1e-5, 1e-6, 1e-7, 1e-290])
def test_the_rarest_of_what_was_seen_is_shown_as_digits(chance):
    fit = statistics.tail_fit("tails", chance, 1e-6, 0.01, 50)
    assert fit.fits == (chance >= 1e-6)
    assert fit.statistic == pytest.approx(-np.log10(chance))
    assert fit.threshold == pytest.approx(6.0)
    assert fit[4:6] == (0.01, 50)


def test_what_could_not_happen_has_many_digits_and_not_infinitely_many():
    fit = statistics.tail_fit("tails", 0.0, 1e-6, 0.01, 50)
    assert not fit.fits
    assert 100 < fit.statistic < np.inf
