"""Every honest mechanism passes every rung, and each rung finds a defect at the power that it states."""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import verification
from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.spaces import Box
from ldp_jax.edges import DPRR, LocalLap, RandomizedResponse
from ldp_jax.features import Duchi, DuchiVector, GridSquareWave, Hybrid, Laplace, Sampled, ThreeOutputs
from ldp_jax.verification import statistics
from tests import broken
from tests.contract.test_mechanisms import CASES

DRAWS = 1 << 16
ALL = sum(len(case.epsilons) for case in CASES.values())
SHARED = statistics.SIGNIFICANCE / (3 * ALL)  # of all cells of the tests of draws

# One of each kind: what these rungs ask is a matter of the code and not of epsilon.
KINDS = ["Laplace", "Duchi", "Sampled-Hybrid", "DuchiVector", "GridSquareWave", "FeatureRR"]


# --- No false alarms ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("place", "name"), list(enumerate(CASES)))
def test_honest_reports_follow_their_law_whatever_the_record(name, place):
    """Windows, single reports and what they lose, at 1e-6 over all cells; budgets of each branch in turn."""
    m = CASES[name].make(CASES[name].epsilons[(0, 1, 3)[place % 3]])
    keys = jax.random.split(jax.random.key(100 + place), 3)
    found = [
        verification.reported_losses(m, keys[0], trials=DRAWS),
        verification.distinct_reports(m, keys[1], trials=DRAWS, significance=SHARED),
    ]
    if not isinstance(m, DuchiVector):  # its coordinates have no law of their own
        found.append(verification.record_windows(m, keys[2], trials=DRAWS, significance=SHARED))
    assert all(fit.fits for fit in found), f"{m}: {found}"


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if not isinstance(c.make(1.0).domain(), Box)])
def test_honest_reports_are_those_of_the_papers_word_by_word(name):
    """At the ends of the budgets; ThreeOutputs has another law in each of them."""
    for epsilon in CASES[name].epsilons[:: 1 if name == "ThreeOutputs" else 3]:
        m = CASES[name].make(epsilon)
        for part in (m.duchi, m.piecewise) if isinstance(m, Hybrid) else (m,):
            fit = verification.matches_reference(part, jax.random.key(110), trials=DRAWS)
            assert fit.fits, f"{name}({epsilon}): {fit.statistic:g} of {fit.draws} reports are not the law's"


@pytest.mark.parametrize("name", ["Duchi", "ThreeOutputs", "Hybrid", "MultiBit"])
def test_honest_words_keep_the_claim(name):
    """Whole numbers of words, at 1 and 16: probabilities are the density's to 1e-5, and lose no more."""
    for epsilon in (1.0, 16.0):
        m = CASES[name].make(epsilon)
        found = verification.arithmetic(m)
        assert found.keeps(m.guarantee().epsilon), f"{name}({epsilon}): {found}"
        assert found.off < 1e-5


@pytest.mark.parametrize("name", KINDS)
def test_honest_reports_are_functions_of_the_whole_key(name):
    m = CASES[name].make(1.0)
    assert verification.is_pure(m, jax.random.key(120), calls=2).fits
    assert verification.uses_the_whole_key(m, jax.random.key(121)).fits
    if name in ("Laplace", "Sampled-Hybrid"):
        assert verification.record_in_bits(m, jax.random.key(122), trials=DRAWS).fits


@pytest.mark.parametrize("name", ["HDS", "DuchiVector", "Sampled-Hybrid", "LaplaceVector", "FeatureRR"])
def test_honest_coordinates_are_independent(name):
    """10 000 reports see a mean product of 0.15 of two signs."""
    fit = verification.independent_coordinates(CASES[name].make(1.0), jax.random.key(123), trials=10_000)
    assert fit.fits, str(fit)
    assert 0.05 < fit.smallest_defect < 0.15


STACKED = np.array([8.0, 1.0, 0.5, 2.0])
LISTS = {
    "DPRR": DPRR(0.2, 0.8),
    "DPRR, whole noise": DPRR(0.2, 0.8, noise="geometric"),
    "DPRR, prior": DPRR(0.2, 0.8, prior=np.float32([1.0, 2.0, 3.0, 1.0])),
    "DPRR, personal": DPRR(0.2 * STACKED, 0.8 * STACKED),
    "DPRR, personal in another order": DPRR(np.array([0.1, 0.2, 0.3, 0.4]), np.array([2.0, 1.0, 0.5, 0.1])),
    "RandomizedResponse": RandomizedResponse(1.0),
    "RandomizedResponse, personal": RandomizedResponse(STACKED),
    "LocalLap": LocalLap(0.1, 0.9),
}


@pytest.mark.parametrize("name", LISTS)
def test_edges_cost_what_is_claimed(name):
    """All graphs on four nodes: never more (1e-9); and as much, but for ``half list`` with personal budgets."""
    m = LISTS[name]
    for reporting in m.reportings:
        found, claim = verification.relationship_supremum(m, reporting), m.relationship(reporting).epsilon
        assert found.epsilon <= claim * (1 + 1e-9), f"{name}, {reporting}: {found}"
        if not ("personal" in name and reporting == "half list"):
            assert found.epsilon == pytest.approx(claim, rel=1e-9)


@mechanism
class LoudForOne:
    """Of no class of the library: a bit by randomised response, at four times the budget in lists of no other."""

    epsilon: float
    reporting: str = static(default="full")
    reportings: ClassVar = ("full", "half")

    def of_users(self, choose):
        return self

    def bit_reports(self, owned):
        return np.full(2, np.nan), np.array([0.0, 1.0])

    def bit_log_density(self, noisy, sent, degree, bit, owned):
        budget = self.epsilon * jnp.where(degree - bit > 0, 1.0, 4.0)
        return jax.nn.log_sigmoid(jnp.where(sent == bit, budget, -budget)) + 0.0 * degree

    def guarantee(self):
        return Guarantee(self.epsilon)

    def relationship(self, reporting=None):
        return Guarantee((2 if (reporting or self.reporting) == "full" else 1) * self.epsilon)


def test_a_mechanism_of_no_known_class_is_enumerated():
    """By what it says of a bit; the loud bit is found in the graphs where it is loud, at both ends of an edge."""
    for reporting, ends in (("full", 2), ("half", 1)):
        found = verification.relationship_supremum(LoudForOne(0.25), reporting)
        assert found.epsilon == pytest.approx(ends * 1.0, rel=1e-9)
        assert not any(set(found.edge) & set(pair) for pair in found.graph)


# --- Words -----------------------------------------------------------------------------------------------------


def test_arithmetic_sees_one_word():
    """Masses of a sampler written here, in whole numbers: a step anywhere that a probe or the density says."""
    m = broken.FloatDuchi(1.0)
    found = verification.arithmetic(m)
    steps = {x: float(m._rare(-1.0, np.float32(x))) for x in (-1.0, 1.0)}
    # A uniform is j / 2^23 + 2^-24: so many are below the probability.
    below = {x: math.ceil(p * 2**23 - 0.5) for x, p in steps.items()}
    ratio = max(below[-1.0] / below[1.0], (2**23 - below[1.0]) / (2**23 - below[-1.0]))
    assert found.epsilon == pytest.approx(math.log(ratio), abs=1e-12)
    assert {found.x, found.x_other} == {-1.0, 1.0}


def test_arithmetic_of_what_is_composed():
    assert verification.arithmetic(Sampled(Duchi(0.5), 9, 3)).epsilon == pytest.approx(1.5, abs=1e-5)
    table = GridSquareWave(1.0, 9)
    assert verification.arithmetic(table).epsilon == table.guarantee().epsilon
    assert not verification.arithmetic(broken.FloatDuchi(16.8)).keeps(100.0)
    with pytest.raises(ValueError, match="not finitely many numbers"):
        verification.arithmetic(Laplace(1.0))
    with pytest.raises(ValueError, match="one concrete number"):
        verification.arithmetic(ThreeOutputs(np.array([1.0, 2.0])))


@mechanism
class _TwoDraws(Duchi):
    """Asks for random words twice."""

    def privatize(self, key, x):
        first, second = jax.random.split(key)
        return super().privatize(first, x) * jax.random.rademacher(second, ())


def test_what_cannot_be_asked_is_refused(untyped):
    key = lambda: jax.random.key(0)
    with pytest.raises(ValueError, match="not independent"):
        verification.record_windows(DuchiVector(1.0, 3), key())
    with pytest.raises(ValueError, match="vectors of 2 and more"):
        verification.independent_coordinates(Laplace(1.0), key())
    with pytest.raises(ValueError, match="finite"):
        verification.record_in_bits(Duchi(1.0), key(), trials=1000)
    with pytest.raises(ValueError, match="inner mechanism"):
        verification.matches_reference(Sampled(Duchi(0.5), 3, 2), key())
    with pytest.raises(ValueError, match="no law is known"):
        verification.matches_reference(Hybrid(1.0), key(), trials=1000)
    with pytest.raises(ValueError, match="2 draws of words"):
        verification.matches_reference(_TwoDraws(1.0), key(), trials=1000)
    with pytest.raises(ValueError, match=r"one number or \[4\]"):
        verification.relationship_supremum(RandomizedResponse(np.ones(3)))
    with pytest.raises(ValueError, match="neighbour lists"):
        verification.relationship_supremum(Duchi(1.0))
    with pytest.raises(ValueError, match="trials"):
        verification.record_windows(Duchi(1.0), key(), trials=100)


def test_a_law_of_ones_own_is_given():
    """A twin of no known class is compared with the distribution function that its author claims."""
    law = lambda y, x: np.where(y >= 1, 1.0, 0.5 - x / 2 * np.tanh(0.5))
    assert verification.matches_reference(broken.FloatDuchi(1.0), jax.random.key(1), law=law, trials=DRAWS).fits
    assert not verification.matches_reference(broken.FloatDuchi(1.1), jax.random.key(1), law=law, trials=DRAWS).fits
