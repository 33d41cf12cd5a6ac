"""Every honest mechanism passes every test, and each finds a defect at the power that it
states.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ldp_jax import verification
from ldp_jax.core.pytree import mechanism, pytree, static
from ldp_jax.core.spaces import NotApplicable
from ldp_jax.curators import EdgeRand, PublicHRG, promised
from ldp_jax.edges import NeighbourCounts, RandomizedResponse
from ldp_jax.features import (
    HDS,
    Discrete,
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
from ldp_jax.verification import exact, game, graphs, statistics, verdict
from ldp_jax.verification.arithmetic import check_runs
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
    questions = verdict.Questions(Laplace(1e-6), jax.random.key(0), 1000, 1e-6)
    assert questions._law(jax.random.key(1)).holds
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


def test_moments_of_draws_are_held_against_the_laws_standard_errors():
    """Of signs that are right and of signs that are too often positive."""
    m = Duchi(1.0)
    size = (math.e + 1) / (math.e - 1)  # what a sign is multiplied by
    x = 0.3
    likely = (1 + x / size) / 2
    spread = np.sqrt(size**2 - x**2)
    fourth = size**4 * (likely * (1 - x / size) ** 4 + (1 - likely) * (1 + x / size) ** 4)
    errors = np.array([spread, np.sqrt(fourth - spread**4) + spread**2 / 100]) / 100
    for ones in (5757, 6500):
        signs = np.repeat(np.float32([1, -1]), [ones, 10_000 - ones])
        y = size * signs.astype(np.float64)
        off = np.abs([y.mean() - x, ((y - x) ** 2).mean() - spread**2])
        fit = exact.moments_of(m, np.float32(x), signs)
        assert fit.statistic == pytest.approx((off / errors).max(), rel=1e-4)
        assert fit.fits == (ones == 5757)
        assert fit[3:] == (5.0, pytest.approx(10 * errors[0]), 10_000, 1)


class Cast(Duchi):
    """Duchi's mechanism, whose estimate is rounded to float32 all the same."""

    def estimate(self, y):
        return jnp.asarray(super().estimate(y), jnp.float32)


class Biased(Cast):
    """A mean that is said to be 1e-5 of its size further out: more than any rounding."""

    def mean(self, x):
        return super().mean(x) * (1 + 1e-5)


def test_an_estimate_in_float32_is_held_to_its_rounding():
    assert verification.matches_moments(mechanism(Cast)(0.7)).fits
    assert not verification.matches_moments(mechanism(Biased)(0.7)).fits


def test_tests_say_how_many_reports_they_ask_and_how_few_they_find():
    key = lambda: jax.random.key(0)
    losses = verification.reported_losses(Duchi(1.0), key(), trials=2000)
    assert losses[2:] == (pytest.approx(1.0), pytest.approx(1.002), 13.8 / 2000, 2000, 1)
    distinct = verification.distinct_reports(Duchi(1.0), key(), trials=2000)
    assert distinct[4:] == (30 / 2000, 2000, 1)
    windows = verification.record_windows(Duchi(1.0), key(), trials=DRAWS)
    assert windows[4:] == (64 / DRAWS, DRAWS, 1)
    table = verification.follows_table(GridSquareWave(1.0, 17), key(), trials=1000)
    assert table[2:] == (0.0, 0.0, 13.8 / 1000, 1000, 1)
    pairs = verification.independent_coordinates(HDS(1.0, 2, 2), key(), trials=1000)
    # Three means of the one pair, two of four words of one and of two coordinates.
    assert pairs.threshold == pytest.approx(math.log(4 * (3 + 2 * 3) / 1e-6))
    assert pairs[4:] == (pytest.approx(2 * math.sqrt(pairs.threshold / 1000)), 1000, 1)
    heavy = verification.matches_density(broken.Heavy(1.0), key(), trials=1000)
    assert heavy == (False, "density of total mass 1", pytest.approx(1.0001), 1.0, 1e-4, 1000, 1)
    mass = verification.sums_to_one(Duchi(1.0))
    assert mass[3:] == (1e-8, 1e-8, 0, 1)


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


@pytree
class OneWordOff(Discrete):
    """Steps come one word late, or one word early; by 0, a thousandth of the words is moved far."""

    by: int = static(default=0)

    @classmethod
    def of(cls, table, by):
        return cls(**vars(Discrete.of(table)), by=by)

    def from_words(self, word, rounding, x):
        most = np.uint32(2**32 - 1)
        late = jnp.maximum(word, np.uint32(1)) - np.uint32(1)
        early = jnp.minimum(word, most - np.uint32(1)) + np.uint32(1)
        moved = {1: late, -1: early, 0: jnp.where(hidden(word), word ^ np.uint32(2**31), word)}[
            self.by
        ]
        return super().from_words(moved, rounding, x)


@pytree
class OneWordMore(NeighbourCounts):
    """It draws five words for each count, and reads four."""

    def add_noise(self, key, counts):
        return self.from_words(jax.random.bits(key, (5, self.num_groups))[:4], counts)


def hidden(word):
    """A thousandth of all words, none of which is on a grid of 512 or beside a step."""
    return (word > np.uint32(0.3009 * 2**32)) & (word < np.uint32(0.3019 * 2**32))


@mechanism
class HiddenWords(Duchi):
    """The same of a sampler without a table."""

    def from_word64(self, word, x):
        y = super().from_word64(word, x)
        return jnp.where(hidden(word[0]), -y, y)


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
    for given in (table, GeneralizedRR(2.0, 3)):
        for by in (-1, 0, 1):
            moved = OneWordOff.of(given.table(), by=by)
            with pytest.raises(NotApplicable, match="other probabilities than its table"):
                verification.arithmetic(moved)
    with pytest.raises(NotApplicable, match="no step function of its words"):
        verification.arithmetic(HiddenWords(1.0))
    with pytest.raises(NotApplicable, match="must draw the words of its runs"):
        check_runs(OneWordMore(1.0, 2, n=6, groups=np.zeros(6, int), most=5))


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
        (lambda: verification.relationship_supremum(RandomizedResponse(1.0), "both"), "reporting"),
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


def told(test):
    """All of an answer but its name and what was asked."""
    return dataclasses.astuple(test)[2:9]


def test_tests_of_draws_share_the_significance(monkeypatch):
    """Each is asked once, by so many draws and by a seventh of it, and says what it found."""
    given = {}
    fit = statistics.Fit(True, "a test", 0.5, 2.0, 0.25, 400, 7)

    def stand_in(name, found=fit):
        def ask(*args, **more):
            given[name] = args, more
            return found

        return ask

    functions = {
        "sums_to_one": ("mass", 4, "mass 0.25"),
        "fit_of": ("sampler", 1, "distance 0.25"),
        "matches_everywhere": ("records", 7, "share of records 0.25"),
        "matches_moments": ("moments", 4, "relative 0.25"),
        "moments_of": ("estimates", 1, "of a mean 0.25"),
        "reported_losses": ("losses", 70_000, "mass 0.25"),
        "record_windows": ("windows", 70_000, "share 0.25"),
        "counted": ("distinct", 1, "mass 0.25"),
        "follows_table": ("table", 70_000, "mass 0.25"),
        "independent_coordinates": ("coordinates", 7, "mean of a word 0.25"),
        "is_pure": ("pure", 100, "share of reports 0.25"),
        "is_total": ("total", 400, "share of values 0.25"),
        "uses_the_whole_key": ("key", 7, "share of the keys 0.25"),
        "matches_graphs": ("graphs", 7, "share of users and graphs 0.25"),
    }
    m = HDS(1.0, 3, 2)
    some = np.zeros((2, 3), np.float32)
    one = some[0]
    key = jax.random.key(1)
    questions = verdict.Questions(m, jax.random.key(0), 70_000, 0.07, some)
    questions.typical = (one, some)
    for function, (question, records, leak) in functions.items():
        monkeypatch.setattr(verdict, function, stand_in(function))
        answer = getattr(questions, f"_{question}")(key)
        assert (answer.found, answer.limit, answer.holds) == (0.5, 2.0, True)
        assert (answer.records, answer.leak) == (records, leak)
    bound = game.LowerBound(0.9, 5.0, "an event", 0.5, 0.1, 60_000, 16, 3)
    monkeypatch.setattr(verdict, "largest_lower_bound", stand_in("largest_lower_bound", bound))
    answer = questions._game(key)
    mass, *_ = game.smallest_leaks(60_000, 1.0, 0.99)
    assert told(answer) == (0.9, 1.0, True, "an event", 32, 3, f"mass {mass:.1g}")
    questions.claim = 50.0
    assert questions._game(key).leak == "none"

    trials = {"trials": 70_000}
    share = {"significance": pytest.approx(0.01)}
    few = {"trials": 50_000}
    assert given == {
        "sums_to_one": ((m,), {}),
        "fit_of": ((m, key, one, some, pytest.approx(0.01)), {}),
        "matches_everywhere": ((m, key), trials | share | {"records": some}),
        "matches_moments": ((m,), {}),
        "moments_of": ((m, one, some), {}),
        "reported_losses": ((m, key), trials),
        "record_windows": ((m, key), trials | share),
        "counted": ((m, one, some, pytest.approx(0.01)), {}),
        "follows_table": ((m, key), trials),
        "independent_coordinates": ((m, key), few | share),
        "is_pure": ((m, key), {}),
        "is_total": ((m, key), {}),
        "uses_the_whole_key": ((m, key), {}),
        "matches_graphs": ((m, key), few | share),
        "largest_lower_bound": (
            (m, key, 70_000, pytest.approx(0.99)),
            {"delta": 0.0, "records": some},
        ),
    }


@pytest.mark.parametrize(("trials", "half", "most"), [(1500, 1500, 1500), (10**6, 2000, 4000)])
def test_questions_about_a_release_share_the_significance(trials, half, most, monkeypatch):
    """Releases are made one after the other: some thousands at most."""
    given = {}
    fit = statistics.Fit(True, "G", 0.5, 2.0, 0.25, 400)
    bound = game.LowerBound(0.9, 5.0, "an event", 0.5, 0.1, 60_000)
    for name, found in (("matches_release", fit), ("private_edge_lower_bound", bound)):
        ask = lambda *args, name=name, found=found, **more: (
            given.update({name: (args, more)}),
            found,
        )[1]
        monkeypatch.setattr(verdict, name, ask)
    m = EdgeRand(1.0)
    key = jax.random.key(0)
    questions = verdict._of_release(m, promised(m), trials, 1e-6)
    unit, law, sampler, draws = [question.answer(key) for question in questions]
    assert [question.name for question in questions] == ["unit", "law", "sampler", "game"]
    assert unit.holds
    assert (law.found, law.limit, law.holds) == (pytest.approx(1.0), 1.0, True)
    assert told(sampler) == (0.5, 2.0, True, "", 1, 0, "total variation 0.25")
    assert told(draws)[:3] == (0.9, 1.0, True)
    assert given == {
        "matches_release": ((m, key), {"trials": half, "significance": 5e-7}),
        "private_edge_lower_bound": ((m, key, most, 1 - 5e-7), {}),
    }
    chains = {8: 2**17, 64: 2**14, 2**12: 2**8, 2**20: 100}
    for sweeps, draws_of_chains in chains.items():
        assert graphs.most_draws(PublicHRG(1.0, sweeps=sweeps)) == draws_of_chains


def test_an_answer_says_why_and_how_small_a_leak_is_found():
    due = {
        (True, "G of whole pieces", 0.25): ("G of whole pieces", "mass 0.25"),
        (True, "two words", 0.0): ("", "mass"),
        (False, "two words", 0.004567): ("two words", "mass 0.0046"),
        (False, "G", 0.25): ("", "mass 0.25"),
    }
    for (fits, test, smallest), (reason, leak) in due.items():
        fit = statistics.Fit(fits, test, 3.0, 2.0, smallest, 100, 7)
        assert told(verdict._fit(fit, "mass")) == (3.0, 2.0, fits, reason, 7, 0, leak)
    # Of a claim below 1e-4 the slack is that of 1e-4.
    for found, limit in ((2.0, 2.0 * (1 + 5e-10)), (1e-6, 1e-6 + 5e-14), (0.0, 5e-14)):
        slack = verdict.SLACK
        within = verdict._within(limit, found, slack, leak="mass")
        assert told(within) == (limit, found, True, "", 0, 0, "mass")
        assert not verdict._within(found + 4 * (limit - found), found, slack).holds
        assert not verdict._within(limit, found).holds


@pytest.mark.parametrize("trials", [1000, 200_000])
def test_a_verdict_says_what_is_not_shown(trials):
    """By a seventh of the significance; nothing beyond what so many draws tell."""
    key = jax.random.key(0)
    asked = lambda epsilon: verdict.Questions(Duchi(epsilon), key, trials, 1e-6).not_shown()
    mass, of_one, pairs = game.smallest_leaks(trials, 1.0, 1 - 1e-6 / 7)
    assert asked(1.0).split(":\n") == [
        "",
        f"a report that its record alone gives is found where its mass is {mass:.1g},"
        f"\nor {of_one:.1g} if it is about one of the {pairs} pairs of records alone",
    ]
    assert asked(20.0) == "; beyond epsilon 20 so few draws alone show nothing"
