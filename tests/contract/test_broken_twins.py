"""The checks themselves: every broken twin is rejected by the check that is there for its defect.

And only by what it breaks: where a twin keeps a promise, the check of that promise passes.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from ldp_jax import verification
from ldp_jax.edges import DPRR, RandomizedResponse
from ldp_jax.features import Duchi, GridSquareWave, Laplace, Sampled, SquareWave
from tests import broken, stats
from tests.contract import checks


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 16.0])
def test_five_percent_too_much_is_seen_in_the_density(epsilon):
    twin = broken.Overspent(1.05 * epsilon)
    assert twin.guarantee().epsilon == pytest.approx(epsilon)
    with pytest.raises(AssertionError, match="claims epsilon"):
        checks.check_loss(twin)
    checks.check_density_sums_to_one(twin)
    checks.check_sampler_fits(twin, 0.3)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_five_percent_too_much_is_seen_in_the_draws(epsilon):
    """At 200 000 draws; below epsilon = 1, 5 % of epsilon is less than draws can tell, and the density decides."""
    twin = broken.HonestDensityOnly(epsilon)
    with pytest.raises(AssertionError, match="KS test"):
        checks.check_sampler_fits(twin, -1.0)
    checks.check_loss(twin)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 16.0])
def test_swapped_branch_is_seen_in_the_draws(epsilon):
    twin = broken.SwappedBranch(epsilon)
    with pytest.raises(AssertionError):
        checks.check_sampler_fits(twin, -0.6)
    with pytest.raises(AssertionError, match="moments of draws"):
        checks.check_sample_moments(twin, -0.6)
    checks.check_loss(twin)


def test_reused_key_is_seen_by_the_key_checker():
    twin = broken.ReusedKey(Duchi(0.5), 4, 2)
    with pytest.raises(jax.errors.KeyReuseError):
        checks.check_sampler_fits(twin, np.array([-1.0, -0.6, 0.3, 1.0]))


def test_reused_key_outside_a_mechanism_is_seen():
    key = jax.random.key(0)
    Laplace(1.0).privatize(key, 0.5)
    with pytest.raises(jax.errors.KeyReuseError):
        Laplace(1.0).privatize(key, 0.5)
    captured = jax.random.key(1)
    draw = jax.jit(lambda: jax.random.uniform(captured))
    draw()
    with pytest.raises(jax.errors.KeyReuseError):
        draw()


def test_unclipped_input_is_seen_in_reports_and_in_the_density():
    twin = broken.Unclipped(1.0)
    with pytest.raises(AssertionError):
        checks.check_total(twin)
    with pytest.raises(AssertionError, match="claims epsilon 1, loses"):
        checks.check_loss(twin, (-1.0, 0.0, 1.0, 3.0))
    checks.check_loss(twin)  # inside the domain it keeps its promise
    checks.check_loss(Laplace(1.0), (-1.0, 0.0, 1.0, 3.0))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_released_square_wave_is_seen_in_the_draws(epsilon):
    twin = broken.ReleasedSquareWave(epsilon)
    for x in (-1.0, 0.0):
        with pytest.raises(AssertionError, match="KS test"):
            checks.check_sampler_fits(twin, x)
    checks.check_loss(twin)  # the density is right; it is not what is drawn


def test_released_square_wave_makes_reports_that_only_some_records_can_make():
    """The mass of an event under one record, and never once under another: no epsilon covers that."""
    n = 200_000
    twin = broken.ReleasedSquareWave(0.1)
    first, other = (np.asarray(checks.draw(twin, jax.random.split(jax.random.key(0), n), x)) for x in (-1.0, 1.0))
    assert (first > 1.0).mean() > 0.1  # of the record -1, up to 1 + b
    assert (other > 1.0).sum() == 0
    due = float(twin.b) * np.exp(float(SquareWave(0.1).log_density(1.5, 1.0)))
    with pytest.raises(AssertionError):
        stats.assert_share(0, n, due)


def test_data_fitted_bounds_are_seen_when_another_user_changes():
    with pytest.raises(AssertionError):
        checks.check_users_are_independent(broken.data_fitted)
    checks.check_users_are_independent(lambda keys, xs: checks.draw_each(Laplace(1.0), keys, xs))


def test_an_uneven_subset_is_seen():
    """A subset drawn as k independent coordinates, repeats moved up: sorted and distinct, but not uniform."""
    cells, n = 6, 100_000
    draws = np.random.default_rng(0).integers(0, 4, (n, 2))
    draws[draws[:, 0] == draws[:, 1], 1] = (draws[draws[:, 0] == draws[:, 1], 1] + 1) % 4
    draws.sort(1)
    code = np.searchsorted([1, 2, 3, 6, 7, 11], draws @ [4, 1])
    with pytest.raises(AssertionError, match="G test"):
        stats.assert_g(np.bincount(code, minlength=cells), np.full(cells, 1 / cells))


# --- One rung for each leak: the twin is refused and the honest mechanism is not ----------------------------------

TABLE = GridSquareWave(1.0, 17)
FEW = 1 << 18


def few(rung):
    """The rung with so many draws."""
    return functools.partial(rung, trials=FEW)


RUNGS = {
    # 21 pairs of (words, record) are expected, and one is enough: tests/verification/test_rungs.py asks the power.
    "12 + x, once in 12 000": (
        broken.RareShout(1.0, mass=21 / FEW),
        Laplace(1.0),
        few(verification.matches_reference),
    ),
    "no noise in 105 records": (
        broken.QuietWindow(1.0, width=105 / FEW),
        Laplace(1.0),
        few(verification.record_windows),
    ),
    "a spike that sampler and density share": (
        broken.SharedSpike(1.0, mass=21 / FEW),
        Laplace(1.0),
        few(verification.reported_losses),
    ),
    "honest while traced": (broken.HonestWhileTraced(1.0), Laplace(1.0), verification.is_pure),
    "the last bit is the sign": (broken.SignInTheLastBit(1.0), Laplace(1.0), verification.record_in_bits),
    # Each of 16 384 reports 16 times, where 8 are too many.
    "noise of 14 bits": (broken.FewBits(1.0, bits=14), Laplace(1.0), few(verification.distinct_reports)),
    "16 bits of the key": (broken.HalfAKey(1.0), Duchi(1.0), verification.uses_the_whole_key),
    # A correlation of 1, where 0.12 is enough at 10 000 reports.
    "one uniform for 10 of 20": (
        broken.SharedUniform(Laplace(0.05), 20, 20),
        Sampled(Laplace(0.05), 20, 20),
        functools.partial(verification.independent_coordinates, trials=10_000),
    ),
    "a product of two signs": (
        broken.ProductOfSigns(Laplace(0.05), 20, 20),
        Sampled(Laplace(0.05), 20, 20),
        functools.partial(verification.independent_coordinates, trials=10_000),
    ),
    # 26 words, of which one is enough.
    "a table's sampler, once in 10 000": (
        broken.LeakyTable.of(TABLE.table()),
        TABLE,
        few(verification.matches_reference),
    ),
    "raw lists of all but user 0": (
        broken.RawForOthers(1.0, n=6),
        RandomizedResponse(1.0, n=6),
        verification.matches_density,
    ),
}


@pytest.mark.parametrize("name", RUNGS)
def test_each_leak_has_a_rung_that_sees_it(name):
    twin, honest, rung = RUNGS[name]
    found, passed = rung(twin, jax.random.key(50)), rung(honest, jax.random.key(50))
    assert not found.fits, f"{name}: {found}"
    assert passed.fits, f"{name}: {passed}"


@pytest.mark.parametrize("twin", [broken.RareShout(1.0), broken.SharedSpike(1.0)], ids=lambda m: type(m).__name__)
def test_the_older_rungs_do_not_see_them(twin):
    """Once in 100 000: supremum, fit of the default record and lower bound all pass, so the new ones are needed."""
    with jax.debug_key_reuse(False):
        assert verification.privacy_loss_supremum(twin).epsilon <= 1.0 + 1e-6
        assert verification.matches_density(twin, jax.random.key(51), trials=50_000).fits
        assert verification.epsilon_lower_bound(twin, jax.random.key(52), 50_000).epsilon <= 1.0


def test_an_edge_that_costs_more_than_is_claimed_is_seen_by_enumeration():
    twin = broken.OneEndOnly(0.2, 0.8)
    found = verification.relationship_supremum(twin, "full")
    assert twin.relationship("full").epsilon == pytest.approx(1.0)
    assert found.epsilon == pytest.approx(2.0, rel=1e-9)
    assert verification.relationship_supremum(twin, "half").epsilon == pytest.approx(1.0, rel=1e-9)
    assert DPRR(0.2, 0.8).relationship("full").epsilon == pytest.approx(found.epsilon, rel=1e-9)


def test_gaussian_noise_inside_a_mixture_has_no_epsilon():
    """The supremum is infinite; delta is half that of the Gaussian (closed form), good to 1e-7."""
    twin = broken.GaussianBranch(1.0)
    assert verification.privacy_loss_supremum(twin).epsilon == math.inf
    for epsilon in (1.0, 2.0):
        shift, factor = 2.0 / 4.0, math.exp(epsilon)
        delta = norm.cdf(shift / 2 - epsilon / shift) - factor * norm.cdf(-shift / 2 - epsilon / shift)
        assert verification.hockey_stick(twin, epsilon) == pytest.approx(delta / 2, abs=1e-7)


@pytest.mark.parametrize("epsilon", [15.54, 17.0, 30.0])
def test_a_rare_side_that_float32_loses_is_seen_in_its_words(epsilon):
    """The law keeps its claim, and the draws cannot tell: 15.94 is lost at 15.54, and everything from 16.64 on."""
    twin = broken.FloatDuchi(epsilon)
    assert verification.privacy_loss_supremum(twin).epsilon <= epsilon * (1 + 1e-9)
    assert verification.epsilon_lower_bound(twin, jax.random.key(53), 20_000).epsilon < epsilon
    found = verification.arithmetic(twin)
    assert not found.keeps(epsilon)
    assert found.epsilon == (pytest.approx(15.942, abs=1e-3) if epsilon < 16 else math.inf)
    assert verification.arithmetic(broken.FloatDuchi(4.0)).keeps(4.0)


# --- The statistics ----------------------------------------------------------------------------------------


def test_statistics_accept_the_law_and_reject_the_smallest_defect_they_state():
    n, rng = 200_000, np.random.default_rng(0)
    uniform = rng.uniform(size=n)
    stats.assert_ks(uniform, lambda y: y)
    shift = 2 * stats.ks_threshold(n)
    with pytest.raises(AssertionError, match="KS test"):
        stats.assert_ks(uniform, lambda y: np.clip(y + shift, 0, 1))
    cells = 10
    flat = np.full(cells, 1 / cells)
    stats.assert_g(rng.multinomial(n, flat), flat)
    off = flat + stats.smallest_defect_of_g(n, cells) * np.where(np.arange(cells) % 2, 2, -2) / cells
    with pytest.raises(AssertionError, match="G test"):
        stats.assert_g(rng.multinomial(n, off), flat)
    with pytest.raises(AssertionError, match="impossible"):
        stats.assert_g([10, 1], [1.0, 0.0])
    normal = rng.normal(size=n)
    stats.assert_moments(normal, 0.0, 1.0, 3.0)
    with pytest.raises(AssertionError, match="mean off"):
        stats.assert_moments(normal, 10 / np.sqrt(n), 1.0, 3.0)
    with pytest.raises(AssertionError, match="variance off"):
        stats.assert_moments(normal, 0.0, 1 + 10 * np.sqrt(2 / n), 3.0)
    stats.assert_share(n // 2, n, 0.5)
    with pytest.raises(AssertionError):
        stats.assert_share(n // 2 + int(2 * stats.SIGMAS * np.sqrt(n) / 2), n, 0.5)


def test_the_checker_is_on():
    assert jax.config.jax_debug_key_reuse
    assert jax.default_backend() == "cpu"
    assert jnp.ones(1).dtype == jnp.float32
