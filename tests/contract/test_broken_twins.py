"""The checks themselves: every broken twin is rejected by the check that is there for its defect.

And only by what it breaks: where a twin keeps a promise, the check of that promise passes.
"""

import math

import jax
import numpy as np
import pytest
from scipy.stats import norm

from ldp_jax import verification
from ldp_jax.features import Duchi, Laplace
from tests import broken, stats
from tests.contract import checks
from tests.marks import untyped


@untyped
def test_five_percent_too_much_is_seen_in_the_density():
    twin = broken.Overspent(1.05 * 16.0)
    assert twin.guarantee().epsilon == pytest.approx(16.0)
    with pytest.raises(AssertionError, match="claims epsilon"):
        checks.check_loss(twin)
    checks.check_density_and_moments(twin)
    checks.assert_fits(verification.matches_density(twin, jax.random.key(2), 0.3))


@untyped
def test_five_percent_too_much_is_seen_in_the_draws():
    """At 200 000 draws; below epsilon = 1, 5 % of epsilon is less than draws can tell, and the
    density decides.
    """
    twin = broken.HonestDensityOnly(1.0)
    assert not verification.matches_density(twin, jax.random.key(2), -1.0).fits
    checks.check_loss(twin)


def test_swapped_branch_is_seen_in_the_draws():
    twin = broken.SwappedBranch(0.1)
    for test in (verification.matches_density, verification.draws_have_moments):
        assert not test(twin, jax.random.key(2), -0.6).fits
    checks.check_loss(twin)


def test_reused_key_is_seen_by_the_key_checker():
    twin = broken.ReusedKey(Duchi(0.5), 4, 2)
    with pytest.raises(jax.errors.KeyReuseError):
        verification.matches_density(twin, jax.random.key(2), np.array([-1.0, -0.6, 0.3, 1.0]))


@untyped
def test_unclipped_input_is_seen_in_reports_and_in_the_density():
    twin = broken.Unclipped(1.0)
    assert not verification.is_total(twin, jax.random.key(1)).fits
    with pytest.raises(AssertionError, match="claims epsilon 1, loses"):
        checks.check_loss(twin, (-1.0, 0.0, 1.0, 3.0))
    checks.check_loss(twin)  # inside the domain it keeps its promise
    checks.check_loss(Laplace(1.0), (-1.0, 0.0, 1.0, 3.0))


FEW = 1 << 17


def test_no_test_claims_more_than_it_sees():
    """A tenth of the window, noise of four bits more: not seen, and the statement does not claim
    it.
    """
    for twin, test in (
        (broken.QuietWindow(1.0, width=6 / FEW), verification.record_windows),
        (broken.FewBits(1.0, bits=20), verification.distinct_reports),
    ):
        assert test(twin, jax.random.key(130), trials=FEW).fits
    often = broken.RareShout(1.0, mass=30 / FEW)  # of one record
    assert not verification.distinct_reports(
        often, jax.random.key(151), np.float32(0.3125), trials=FEW
    ).fits


def test_gaussian_noise_inside_a_mixture_has_no_epsilon():
    """The supremum is infinite; delta is half that of the Gaussian (closed form), good to 1e-7."""
    twin = broken.GaussianBranch(1.0)
    assert verification.privacy_loss_supremum(twin).epsilon == math.inf
    for epsilon in (1.0, 2.0):
        shift = 2.0 / 4.0
        factor = math.exp(epsilon)
        delta = norm.cdf(shift / 2 - epsilon / shift) - factor * norm.cdf(
            -shift / 2 - epsilon / shift
        )
        assert verification.hockey_stick(twin, epsilon) == pytest.approx(delta / 2, abs=1e-7)


def test_statistics_reject_the_smallest_defect_they_state():
    """Those of tests/stats.py; they accept the law."""
    n = 200_000
    rng = np.random.default_rng(0)
    uniform = rng.uniform(size=n)
    shift = 2 * stats.ks_threshold(n)
    stats.assert_ks(uniform, lambda y: y)
    stats.assert_share(n // 2, n, 0.5)
    for refused, message in (
        (lambda: stats.assert_ks(uniform, lambda y: np.clip(y + shift, 0, 1)), "KS test"),
        (lambda: stats.assert_g([10, 1], [1.0, 0.0]), "impossible"),
        (
            lambda: stats.assert_share(n // 2 + int(2 * stats.SIGMAS * np.sqrt(n) / 2), n, 0.5),
            "was due",
        ),
    ):
        with pytest.raises(AssertionError, match=message):
            refused()
