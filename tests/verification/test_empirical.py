"""Draws against the law, and bounds of epsilon from draws: what is correct passes, what is broken is seen.

One thing is out of reach of a game about one user's report: bounds fitted to the data of all users, which leak
through the reports of others. tests/contract/test_broken_twins.py sees that in another way.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import random_words
from ldp_jax.core.mechanism import HasWords, uniform
from ldp_jax.core.pytree import mechanism
from ldp_jax.core.spaces import Box, clip
from ldp_jax.core.types import Scalar
from ldp_jax.features import (
    HDS,
    BranchReport,
    Duchi,
    DuchiVector,
    FeatureRR,
    GridPiecewise,
    Hybrid,
    Laplace,
    LPOptimal,
    MultiBit,
    Sampled,
    SparseReport,
    SquareWave,
    ThreeOutputs,
)
from ldp_jax.verification import (
    cases,
    epsilon_lower_bound,
    games,
    hockey_stick,
    matches_density,
    privacy_loss_supremum,
)
from ldp_jax.verification._programs import draws
from tests import broken

CASES = {name: case for name, case in cases.CASES.items() if case.contract}
NUMBERS = [name for name, case in CASES.items() if not isinstance(case.make(1.0).domain(), Box)]


# --- Is it the law that is drawn? -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "m",
    [
        HDS(1.0, 40, 7),
        FeatureRR(0.1, 6, dim=12),
        Sampled(ThreeOutputs(8.0), 4, 2),
        Sampled(LPOptimal(0.05), 4, 2),
        Sampled(GridPiecewise(0.5, 9), 4, 2),
    ],
)
def test_samplers_of_wide_and_composed_vectors_draw_their_densities(m):
    """50 000 draws: a total variation of 0.016 (2 cells) to 0.06 (600). The contract suite asks all cases."""
    fit = matches_density(m, jax.random.key(1), trials=50_000)
    assert fit.fits, str(fit)
    assert fit.draws == 50_000
    # Where all but one outcome is rare, only how often they come is tested: 30 in 50 000 are seen.
    assert 5e-4 < fit.smallest_defect < 0.1


def test_records_at_the_ends_and_outside_fit_too():
    """20 000 draws: a distribution function off by 0.04 at most. The contract suite asks the ends of the domain."""
    for x in (0.0, 7.0):
        assert matches_density(SquareWave(1.0), jax.random.key(2), x, trials=20_000).fits
    assert matches_density(DuchiVector(1.0, 3), jax.random.key(2), [1.0, -1.0, 0.0], trials=20_000).fits


def test_coordinates_drawn_at_another_epsilon_are_seen():
    """5 % more than the density says; of one number: tests/contract/test_broken_twins.py."""
    twin = broken.HonestDensityOnly(4.0)
    for made in (Sampled(twin, 2, 2), Sampled(twin, 3, 1)):
        assert not matches_density(made, jax.random.key(3), -np.ones(made.dim), trials=100_000).fits


@mechanism
class _MovedUp(Sampled):
    """k independent coordinates, repeats moved up: sorted and distinct, but not uniform."""

    def privatize(self, key: Any, x: Any) -> SparseReport:
        subset_key, key = jax.random.split(key)
        first, second = jax.random.randint(subset_key, (2,), 0, self.dim)
        second = jnp.where(first == second, (first + 1) % self.dim, second)
        indices = jnp.sort(jnp.stack([first, second]))
        return SparseReport(indices, self.inner.draw(key, jnp.asarray(x)[indices]))


@mechanism
class _LowFirst(Sampled):
    """One coordinate, lower ones likelier."""

    def privatize(self, key: Any, x: Any) -> SparseReport:
        subset_key, key = jax.random.split(key)
        index = jnp.floor(self.dim * uniform(subset_key) ** 1.2).astype(jnp.int32)[None]
        return SparseReport(index, self.inner.draw(key, jnp.asarray(x)[index]))


@mechanism
class _OneNoise(Sampled):
    """All values share one draw: each alone follows its law."""

    def privatize(self, key: Any, x: Any) -> SparseReport:
        indices = jnp.arange(self.dim)
        if isinstance(self.inner, HasWords):
            word = jnp.broadcast_to(random_words.words(key)[:, None], (2, self.dim))
            return SparseReport(indices, self.inner.from_word64(word, jnp.asarray(x)))
        u = jnp.broadcast_to(uniform(key), (self.dim,))
        return SparseReport(indices, self.inner.from_uniform(u, jnp.asarray(x)))


def test_an_uneven_subset_is_seen():
    """Total variations of 1/12 of six subsets, and 0.067 of 40 coordinates; 200 000 and 50 000 draws."""
    assert not matches_density(_MovedUp(Duchi(1.0), 4, 2), jax.random.key(6)).fits
    assert matches_density(Sampled(Duchi(1.0), 4, 2), jax.random.key(6)).fits
    assert not matches_density(_LowFirst(Duchi(1.0), 40, 1), jax.random.key(6), trials=50_000).fits


@pytest.mark.parametrize("inner", [Duchi, Laplace, SquareWave])
def test_dependent_values_are_seen(inner):
    """Two values from one draw: a total variation of 0.05 (two signs at epsilon 0.5) and more."""
    assert not matches_density(_OneNoise(inner(0.5), 2, 2), jax.random.key(7), np.zeros(2)).fits


def test_what_cannot_be_tested_is_refused(untyped):
    with pytest.raises(ValueError, match="threefry"):
        matches_density(Duchi(1.0), jax.random.key(0, impl="rbg"))
    with pytest.raises(ValueError, match="trials"):
        matches_density(Duchi(1.0), jax.random.key(0), trials=10)
    with pytest.raises(ValueError, match="too many to count"):
        matches_density(DuchiVector(1.0, 13), jax.random.key(0), trials=100)


# --- What draws alone show: never too much ------------------------------------------------------------------------


_APART = {"PersonalAlphabet": (1, 3)}
"""Records that lose the claim, where the ends of the domain do not: the two classes of the alphabet."""


@pytest.mark.parametrize("name", CASES)
def test_no_correct_mechanism_is_accused(name):
    """A bound above the claim has a chance of 1e-6. Of numbers at 1 most of the claim is shown."""
    place = list(CASES).index(name) % 4
    x, x_other = _APART.get(name, (None, None))
    for epsilon in {CASES[name].epsilons[place], 1.0} if name in NUMBERS else {CASES[name].epsilons[place]}:
        m = CASES[name].make(epsilon)
        found = epsilon_lower_bound(m, jax.random.key(9), 100_000, x=x, x_other=x_other)
        assert 0.0 <= found.epsilon <= min(m.guarantee().epsilon, found.limit), f"{name}: {found}"
        assert found.trials == 100_000
        if epsilon == 1.0 and name in NUMBERS:
            assert found.epsilon >= 0.85, f"{name}: {found}"


@mechanism
class _Bare:
    """A mechanism and nothing that says its law: its reports, its claim."""

    inner: Any

    def privatize(self, key: Any, x: Any) -> Any:
        return self.inner.privatize(key, x)

    def guarantee(self) -> Guarantee:
        return self.inner.guarantee()

    def domain(self) -> Any:
        return self.inner.domain()

    def codomain(self) -> Any:
        return self.inner.codomain()

    def estimate(self, y: Any) -> Any:
        return self.inner.estimate(y)


def test_bounds_are_wrong_as_rarely_as_they_say():
    """100 bounds at confidence 0.9 of a Laplace sampler whose density is not said: at most 28 above epsilon.

    So an error rate of 0.5 is seen with probability 1 - 1e-6.
    """
    m, most = _Bare(Laplace(0.5)), stats.binom.isf(1e-6, 100, 0.1)
    found = [epsilon_lower_bound(m, key, 1000, 0.9) for key in jax.random.split(jax.random.key(10), 100)]
    assert sum(bound.epsilon > 0.5 for bound in found) <= most
    assert all(bound.epsilon <= bound.limit for bound in found)


@pytest.mark.parametrize("m", [Laplace(1.0), HDS(2.0, 3, 2)], ids=lambda m: type(m).__name__)
def test_the_draws_that_bound_are_not_those_that_choose(m, monkeypatch):
    """Exact: with other second halves the same event is chosen, and its shares are those of the second halves.

    A second half that copies the other record's brings the bound to 0: the first half does not count.
    """
    pair, other = m.domain().extremes()
    made = [draws(m, jax.random.key(i), x, 4000) for i, x in enumerate((pair, other, pair, other))]
    found = []
    for last in ((0, 1), (2, 3), (3, 2)):
        reports = [
            jax.tree.map(lambda a, b: jnp.concatenate([a[:2000], b[2000:]]), made[i], made[j])
            for i, j in enumerate(last)
        ]
        monkeypatch.setattr(games, "draws", lambda *_, reports=reports: reports.pop(0))
        found.append(epsilon_lower_bound(m, jax.random.key(0), 4000, 0.9))
    assert found[0].event == found[1].event == found[2].event
    assert (found[1].share, found[1].share_other) == (found[2].share_other, found[2].share)
    assert found[0].share != found[1].share
    assert min(found[0].epsilon, found[1].epsilon) > 0.4
    assert found[2].epsilon == 0.0


def test_a_wrong_density_cannot_falsify_the_bound():
    """Whatever is declared, the draws keep epsilon = 1: the bound stays below, and other scores still find it."""

    @mechanism
    class Nonsense(SquareWave):
        def log_density(self, y, x):
            y = jnp.asarray(y)
            return jnp.where(y > 0.5, jnp.nan, jnp.where(y < -0.5, -jnp.inf, jnp.sin(100 * y + x)))

    for twin in (Nonsense(1.0), _Bare(SquareWave(1.0))):
        found = epsilon_lower_bound(twin, jax.random.key(12), 100_000)
        assert 0.8 < found.epsilon <= 1.0
    assert "loss" not in found.event


def test_it_reports_its_limit_where_trials_are_too_few():
    """At epsilon 16 the other side is never drawn: the bound is what so many trials can show, and says so."""
    found = epsilon_lower_bound(Duchi(16.0), jax.random.key(13))
    n, alpha = 100_000, 5e-7
    assert found.limit == pytest.approx(math.log(alpha ** (1 / n) / (1 - alpha ** (1 / n))), rel=1e-6)
    assert found.share_other == 0.0
    assert 0.99 * found.limit < found.epsilon <= found.limit < 16.0


def test_the_shares_are_those_of_the_event():
    """Of the trials that did not choose it: whole counts, and the bound is theirs."""
    trials = 10_001
    found = epsilon_lower_bound(Duchi(1.0), jax.random.key(14), trials, 0.99)
    hits, others = found.share * 5001, found.share_other * 5001
    assert hits == pytest.approx(round(hits), abs=1e-6)
    low = stats.beta.ppf(0.005, round(hits), 5001 - round(hits) + 1)
    high = stats.beta.isf(0.005, round(others) + 1, 5001 - round(others))
    assert found.epsilon == pytest.approx(math.log(low / high), rel=1e-9)
    assert "record x" in found.event


def test_delta_is_taken_off():
    """With the delta that epsilon' = 0.5 leaves of Duchi(1), the bound is just below 0.5; detects a fifth of it."""
    delta = hockey_stick(Duchi(1.0), 0.5)
    found = epsilon_lower_bound(Duchi(1.0), jax.random.key(15), delta=delta)
    assert 0.4 < found.epsilon <= 0.5
    assert epsilon_lower_bound(Duchi(1.0), jax.random.key(15), delta=0.99).epsilon == 0.0


def test_arguments_are_checked(untyped):
    with pytest.raises(ValueError, match="trials"):
        epsilon_lower_bound(Duchi(1.0), jax.random.key(0), 999)
    with pytest.raises(ValueError, match="threefry"):
        epsilon_lower_bound(Duchi(1.0), jax.random.key(0, impl="rbg"))
    for name, value in (("delta", -0.1), ("delta", 1.1), ("confidence", 1.1)):
        with pytest.raises(ValueError, match=name):
            epsilon_lower_bound(Duchi(1.0), jax.random.key(0), **{name: value})
    with pytest.raises(ValueError, match="stack"):
        epsilon_lower_bound(Duchi(np.array([1.0, 2.0])), jax.random.key(0))


# --- What draws alone show: broken twins --------------------------------------------------------------------------


@mechanism
class _OverspentDuchi(Duchi):
    """Runs at an epsilon 5 % larger than the one it claims."""

    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon / 1.05)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_five_percent_too_much_is_seen(epsilon):
    """At 200 000 trials: about 4 % too much is the least that is seen half of the time at epsilon 1, 3 % at 4."""
    for twin in (broken.Overspent(1.05 * epsilon), _OverspentDuchi(1.05 * epsilon)):
        found = epsilon_lower_bound(twin, jax.random.key(16))
        assert epsilon < found.epsilon <= 1.05 * epsilon


@pytest.mark.slow
def test_five_percent_too_much_is_seen_at_a_tenth():
    """At 8e6 trials an excess of 0.005 is as large as the two bounds' widths: about half of all keys see it."""
    twin = _OverspentDuchi(0.105)
    found = epsilon_lower_bound(twin, jax.random.key(0), 8_000_000)
    assert twin.guarantee().epsilon < found.epsilon <= 0.105


def test_the_draws_count_and_not_the_density():
    """HonestDensityOnly claims and declares epsilon and draws at 1.05 epsilon."""
    found = epsilon_lower_bound(broken.HonestDensityOnly(4.0), jax.random.key(17))
    assert 4.0 < found.epsilon <= 4.2


def test_unclipped_records_are_seen():
    """Records outside the domain are promised epsilon too: 3 and -1 lose twice as much without clipping."""
    found = epsilon_lower_bound(broken.Unclipped(1.0), jax.random.key(18), 50_000, x=-1.0, x_other=3.0)
    assert 1.5 < found.epsilon <= 2.0


def test_noise_used_twice_is_seen():
    """The difference of two reports is then free of noise. It needs records whose difference changes."""
    twin = _OneNoise(Laplace(0.5), 2, 2)
    claim = twin.guarantee().epsilon
    assert claim == 1.0
    x, other = np.array([-1.0, 1.0]), np.array([1.0, -1.0])
    found = epsilon_lower_bound(twin, jax.random.key(19), 50_000, x=x, x_other=other)
    assert found.epsilon > 3 * claim
    # The default records move both reports alike, so that one noise is cheaper there than two.
    assert epsilon_lower_bound(twin, jax.random.key(19), 50_000).epsilon <= 0.5


def test_the_released_square_wave_is_accused():
    """Claimed 0.1; reports above 1 are never the record 1's, and a sixth of the record -1's."""
    found = epsilon_lower_bound(broken.ReleasedSquareWave(0.1), jax.random.key(20), 50_000)
    assert found.epsilon > 5
    assert found.share > 0.1
    assert found.share_other == 0.0


def test_ties_in_both_half_spaces_are_accused():
    """log(1 + e^eps) = 1.31 in four dimensions where 1 is claimed, and two records that show it."""
    twin = broken.DuchiVectorWithTies(1.0, 4)
    x, other = np.array([1.0, 1.0, -1.0, -1.0]), -np.ones(4)
    found = epsilon_lower_bound(twin, jax.random.key(21), x=x, x_other=other)
    assert 1.0 < found.epsilon <= math.log1p(math.e)
    honest = epsilon_lower_bound(DuchiVector(1.0, 4), jax.random.key(21), x=x, x_other=other)
    assert honest.epsilon <= 1.0


def test_five_percent_too_much_is_seen_in_a_vector():
    """400 000 trials at epsilon 2, two square waves at 1.05 each: 3.5 % is the least that is seen half the time."""
    twin = Sampled(broken.Overspent(1.05), 2, 2)
    claim = twin.guarantee().epsilon
    assert claim == pytest.approx(2.0)
    found = epsilon_lower_bound(twin, jax.random.key(22), 400_000)
    assert claim < found.epsilon <= 2.1


def test_a_learned_score_finds_what_no_density_tells():
    """Without a density the distinguisher is learned: two thirds of epsilon and more in vectors, never above it."""
    for m, least in ((DuchiVector(2.0, 4), 0.65), (MultiBit(2.0, 4, 2), 0.75), (HDS(2.0, 4, 1), 0.75)):
        found = epsilon_lower_bound(_Bare(m), jax.random.key(23), 100_000)
        assert "logit" in found.event
        assert least * 2.0 < found.epsilon <= 2.0


# --- Impossible reports, and densities that are none --------------------------------------------------------------


@mechanism
class _OffCodomain(Duchi):
    """Reports 1/4 where it should report 1."""

    def from_word64(self, word: Any, x: Any) -> Any:
        y = super().from_word64(word, x)
        return jnp.where(y > 0, 0.25, y)


@mechanism
class _Leaking(SquareWave):
    """Three reports in a thousand give the record away."""

    def from_uniform(self, u: Any, x: Any) -> Any:
        return jnp.where(jnp.asarray(u) > 0.997, 10 + clip(x), super().from_uniform(u, x))


@mechanism
class _ForeignBranch(Hybrid):
    """A sign -1 comes with a branch that does not exist."""

    def draw(self, key: Any, x: Any) -> BranchReport:
        y = super().draw(key, x)
        return BranchReport(jnp.where((y.branch == 0) & (y.value < 0), 7, y.branch), y.value)


@mechanism
class _Unordered(Sampled):
    """Reports the last coordinate first."""

    def privatize(self, key: Any, x: Any) -> SparseReport:
        y = super().privatize(key, x)
        return SparseReport(y.indices[::-1], y.values[::-1])


@mechanism
class _Unnormalised(broken.Bare):
    """P(1 | x) between 0.3 and 0.9 loses log 7; a density that is multiplied by e^(shift x) hides a part of it."""

    shift: Scalar

    def from_uniform(self, u: Any, x: Any) -> Any:
        return jnp.where(jnp.asarray(u) < 0.4 - 0.3 * clip(x), -1.0, 1.0)

    def log_density(self, y: Any, x: Any) -> Any:
        p = 0.6 + 0.3 * clip(x)
        return jnp.log(jnp.where(jnp.asarray(y) > 0, p, 1 - p)) + self.shift * clip(x)


@pytest.mark.parametrize(
    "twin",
    [_OffCodomain(1.0), _Leaking(1.0), _ForeignBranch(1.0), _Unordered(Duchi(0.3), 40, 3)],
    ids=lambda m: type(m).__name__,
)
def test_impossible_reports_are_seen(twin):
    """One report of density 0 is enough, whatever its share."""
    assert not matches_density(twin, jax.random.key(24), trials=10_000).fits


def test_a_density_that_does_not_sum_to_one_is_seen():
    """It would hide a loss from the exact rung: 1.52 is found where 1.95 is lost."""
    twin = _Unnormalised(1.6, math.log(7 / 3) / 4)
    assert privacy_loss_supremum(twin).epsilon < 1.6 < math.log(7)
    assert not matches_density(twin, jax.random.key(25), 1.0).fits


def test_noise_stretched_along_the_record_is_seen():
    """A claimed (1, 1e-5) shows 3.6 at that delta: the long side of the noise says where the record is."""
    x, other = np.float32([0.7, 0.7]), np.float32([0.7, -0.7])
    twin = broken.StretchedNoise(1.0, 1e-5)
    found = epsilon_lower_bound(twin, jax.random.key(40), 200_000, x=x, x_other=other, delta=1e-5)
    assert found.epsilon > 3.0
