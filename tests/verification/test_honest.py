"""Every honest mechanism passes every test, and each finds a defect at the power that it
states.
"""

import math

import jax
import numpy as np
import pytest
from scipy import stats

from ldp_jax import verification
from ldp_jax.core.pytree import mechanism
from ldp_jax.core.spaces import NotApplicable
from ldp_jax.edges import RandomizedResponse
from ldp_jax.features import (
    HDS,
    Duchi,
    DuchiVector,
    GeneralizedRR,
    GridSquareWave,
    Laplace,
    Piecewise,
    Sampled,
    SquareWave,
    ThreeOutputs,
)  # fmt: skip
from ldp_jax.verification import statistics, verdict
from tests import broken
from tests.contract.test_mechanisms import CASES, KINDS
from tests.marks import untyped

DRAWS = 1 << 16
ALL = sum(len(case.epsilons) for case in CASES.values())
SHARED = statistics.SIGNIFICANCE / (3 * ALL)  # of all cells of the tests of draws


@untyped
@pytest.mark.parametrize(("place", "name"), [(i, n) for i, n in enumerate(CASES) if n in KINDS])
def test_honest_reports_follow_their_law_whatever_the_record(name, place):
    """Windows, single reports and what they lose, at 1e-6 over all cells; budgets of each branch in
    turn.
    """
    m = CASES[name].make(CASES[name].epsilons[(0, 1, 3)[place % 3]])
    keys = jax.random.split(jax.random.key(100 + place), 3)
    found = [
        verification.reported_losses(m, keys[0], trials=DRAWS),
        verification.distinct_reports(m, keys[1], trials=DRAWS, significance=SHARED),
    ]
    if not isinstance(m, DuchiVector):  # its coordinates have no law of their own
        found.append(verification.record_windows(m, keys[2], trials=DRAWS, significance=SHARED))
    assert all(fit.fits for fit in found), f"{m}: {found}"


@untyped
def test_extreme_budgets_are_not_refused():
    """Small sums of large numbers round as these do, losses of 1e-6 as float64; rules miss narrow
    pieces.
    """
    assert verification.is_pure(Piecewise(1e-3), jax.random.key(21), calls=16).fits
    assert verdict.Questions(Laplace(1e-6), jax.random.key(0), 1000, 1e-6)._law(jax.random.key(1))[
        2
    ]
    narrow = HDS(50.0, dim=3, k=1, debias=True)
    assert verification.draws_have_moments(narrow, jax.random.key(0), trials=20_000).fits


@untyped
@pytest.mark.parametrize(
    "name", [n for n, c in CASES.items() if hasattr(c.make(c.epsilons[0]), "table")]
)
def test_honest_reports_are_those_of_their_table_word_by_word(name):
    """At the ends of the budgets."""
    for epsilon in CASES[name].epsilons[::3]:
        m = CASES[name].make(epsilon)
        fit = verification.follows_table(m, jax.random.key(110), trials=DRAWS)
        assert fit.fits, f"{name}({epsilon}): {fit.statistic:g} of {fit.draws} reports"


@untyped
@pytest.mark.parametrize("name", ["Duchi", "ThreeOutputs", "Hybrid"])
def test_honest_words_keep_the_claim(name):
    """Whole numbers of words: probabilities are the density's to 1e-5, and lose no more than the
    claim.

    Of numbers at all budgets up to the largest: no report is impossible, and the claim is reached
    to 1e-3 below 35.
    """
    for epsilon in (1e-6, 0.6931, 0.7, 1.715, 17.0, 100.0) if name != "Hybrid" else (1.0, 16.0):
        m = CASES[name].make(epsilon)
        found = verification.arithmetic(m)
        assert found.keeps(m.guarantee().epsilon), f"{name}({epsilon}): {found}"
        assert found.off < 1e-5 or epsilon > 35.0  # where no word is as rare as the law has it
        assert name == "Hybrid" or found.epsilon >= min(epsilon * (1 - 1e-3), 44.0)


@pytest.mark.parametrize("name", ["HDS", "DuchiVector", "LaplaceVector", "FeatureRR"])
def test_honest_coordinates_are_independent(name):
    """10 000 reports see a mean product of 0.15 of two signs."""
    fit = verification.independent_coordinates(
        CASES[name].make(1.0), jax.random.key(123), trials=10_000
    )
    assert fit.fits, str(fit)
    assert 0.05 < fit.smallest_defect < 0.15


@untyped
def test_honest_mechanisms_pass_at_small_and_large_budgets():
    """Where series, cancelling float32 moments and pieces of one spacing each refused one."""
    one, other = jax.random.split(jax.random.key(0))
    found = [
        verification.record_windows(SquareWave(0.009), one, trials=DRAWS),
        verification.distinct_reports(SquareWave(20.0), other, x=0.75, trials=DRAWS),
        *(verification.matches_moments(m) for m in (GeneralizedRR(0.01, 8), GridSquareWave(0.02))),
    ]
    assert all(fit.fits for fit in found), found


@untyped
def test_pieces_of_few_spacings_are_asked_as_far_as_numbers_follow_them():
    """Half widths of 3e-10, which float32 cannot follow, and of 2e-16, which float64 cannot."""
    key = lambda: jax.random.key(7)
    few = {"trials": 20_000}
    narrow = SquareWave(25.0)
    drawn = verification.matches_density(narrow, key(), **few)
    assert drawn.fits
    assert "too narrow for float32" in drawn.test
    assert drawn.smallest_defect < 0.05
    assert verification.matches_moments(narrow).fits
    for m in (narrow, HDS(50.0, 3, 2), broken.Heavy(25.0)):
        mass = verification.sums_to_one(m)
        assert mass.fits == (not isinstance(m, broken.Heavy))
        assert 1e-8 < mass.threshold < 1e-5
    assert not verification.matches_density(
        broken.HonestDensityOnly(25.0, times=0.5), key(), **few
    ).fits

    below = SquareWave(40.0)
    for test in (verification.sums_to_one, verification.matches_moments):
        with pytest.raises(NotApplicable, match="few float64 spacings"):
            test(below)
    with pytest.raises(NotApplicable, match="few float64 spacings"):
        verification.matches_density(below, key(), **few)
    with pytest.raises(NotApplicable, match="windows would show nothing"):
        verification.record_windows(narrow, key(), trials=DRAWS)


def test_arithmetic_sees_one_word_and_adds_up_what_is_composed():
    """Masses of a sampler written here, in whole numbers: a step anywhere that a probe or the
    density says.
    """
    m = broken.FloatDuchi(1.0)
    found = verification.arithmetic(m)
    steps = {x: float(m._rare(-1.0, np.float32(x))) for x in (-1.0, 1.0)}
    # A uniform is j / 2^23 + 2^-24: so many are below the probability.
    below = {x: math.ceil(p * 2**23 - 0.5) for x, p in steps.items()}
    ratio = max(below[-1.0] / below[1.0], (2**23 - below[1.0]) / (2**23 - below[-1.0]))
    assert found.epsilon == pytest.approx(math.log(ratio), abs=1e-12)
    assert {found.x, found.x_other} == {-1.0, 1.0}
    assert verification.arithmetic(Sampled(Duchi(0.5), 9, 3)).epsilon == pytest.approx(
        1.5, abs=1e-5
    )
    table = GridSquareWave(1.0, 9)
    assert verification.arithmetic(table).epsilon == table.guarantee().epsilon


def test_what_cannot_be_asked_is_refused(untyped):
    key = lambda: jax.random.key(0)
    for call, words in (
        (lambda: verification.record_windows(DuchiVector(1.0, 3), key()), "not independent"),
        (
            lambda: verification.independent_coordinates(Laplace(1.0), key()),
            "vectors of 2 and more",
        ),
        (
            lambda: verification.relationship_supremum(RandomizedResponse(np.ones(3))),
            r"one number or \[4\]",
        ),
        (lambda: verification.relationship_supremum(Duchi(1.0)), "no law of one bit"),
        (lambda: verification.record_windows(Duchi(1.0), key(), trials=100), "trials"),
        (lambda: verification.arithmetic(Laplace(1.0)), "not finitely many numbers"),
        (
            lambda: verification.arithmetic(ThreeOutputs(np.array([1.0, 2.0]))),
            "one concrete number",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            call()


@mechanism
class Beside(Duchi):
    """Its reports are a float32 beside the members of its codomain."""

    def privatize(self, key, x):
        return super().privatize(key, x) * np.nextafter(np.float32(1), np.float32(2))


@untyped
def test_a_refusal_says_that_reports_are_not_in_the_codomain():
    answer = lambda key: verdict._fit(
        verification.matches_density(Beside(1.0), key, trials=1000), "variation"
    )
    asked = verdict.Question("sampler", "", "", answer)
    found = verdict.ask(Beside(1.0), asked, jax.random.key(0))
    assert str(found).endswith(f"REFUSED: inf of 0: {statistics.OUTSIDE}")
    assert verification.is_total(Beside(1.0), jax.random.key(0)).test == statistics.OUTSIDE
    assert verification.is_total(Duchi(1.0), jax.random.key(0)).fits


@untyped
def test_an_honest_mechanism_is_refused_as_rarely_as_is_said():
    """200 games, each wrong with probability 0.2 at most; detects a rate of 0.53."""
    keys = jax.random.split(jax.random.key(201), 200)
    games = [verification.largest_lower_bound(Duchi(1.0), key, 1_000, 0.8) for key in keys]
    wrong = sum(game.epsilon > 1.0 for game in games)
    assert wrong <= stats.binom.isf(statistics.SIGNIFICANCE, len(games), 0.2)


def test_tests_of_draws_share_the_significance(monkeypatch):
    """Each is asked once, and what they are given adds up to what a verdict is given."""
    given = {}

    def stopped(name):
        def ask(*args, significance=None, **_):
            given[name] = args[-1] if significance is None else significance
            raise NotApplicable(name)

        return ask

    by_function = {
        "fit_of": "sampler",
        "matches_everywhere": "records",
        "largest_lower_bound": "game",
        "record_windows": "windows",
        "counted": "distinct",
        "independent_coordinates": "coordinates",
        "matches_graphs": "graphs",
    }
    questions = verdict.Questions(Duchi(1.0), jax.random.key(0), 1000, 0.07)
    for function, question in by_function.items():
        monkeypatch.setattr(verdict, function, stopped(question))
        with pytest.raises(NotApplicable, match=question):
            getattr(questions, f"_{question}")(jax.random.key(1))
    given["game"] = 1 - given["game"]  # a confidence
    assert sum(given.values()) == pytest.approx(0.07)
