"""Mechanisms that leak about few records, across coordinates, or by a hair: each is refused, or not
shown.
"""

import re
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import verification
from ldp_jax.accounting.gaussian import GaussianCurve
from ldp_jax.accounting.guarantee import LABEL, NEIGHBOUR_LIST, RECORD, WORDS, Guarantee, metric
from ldp_jax.core.mechanism import largest
from ldp_jax.core.pytree import mechanism, pytree, static
from ldp_jax.core.spaces import Finite, Interval, NotApplicable, Product
from ldp_jax.edges import ListReport, NeighbourCounts, RandomizedResponse, ReportedPairs
from ldp_jax.edges.spaces import Lists
from ldp_jax.features import (
    Duchi,
    FeatureRR,
    GeneralizedRR,
    GridSquareWave,
    Laplace,
    Sampled,
    SparseReport,
)
from ldp_jax.hyperbolic import HyperbolicGaussian
from ldp_jax.verification import verdict
from tests import broken, contributing
from tests.marks import untyped
from tests.verification.test_honest import Beside

GROUPS = np.array([0, 1, 0, 1, 0, 1], np.int32)
CLOCK = contributing.run("clock")["Clock"](6)


@mechanism
class RawFour(RandomizedResponse):
    """Lists of exactly four friends are sent as they are."""

    def privatize(self, key, neighbours, own=0):
        y = RandomizedResponse(self.epsilon, self.n).privatize(key, neighbours, own)
        return jax.tree.map(
            lambda a, b: jnp.where(neighbours.count == 4, b, a), y, ListReport(y.degree, neighbours)
        )


@pytree
class TrueFour(NeighbourCounts):
    """Counts that sum to four are sent as they are."""

    def add_noise(self, key, counts):
        return jnp.where(counts.sum() == 4, counts, super().add_noise(key, counts))


def quadrant(x):
    return (jnp.asarray(x)[..., 0] > 0) & (jnp.asarray(x)[..., 1] > 0)


@mechanism
class QuietQuadrant(HyperbolicGaussian):
    """Noise is a thousand times too small in one quadrant."""

    def privatize(self, key, x):
        y = HyperbolicGaussian.privatize(self, key, x)
        return jnp.where(quadrant(x), x + 1e-3 * (y - x), y)


@mechanism
class RaisesBelowZero(Laplace):
    """A plain call with a negative record raises."""

    def draw(self, key, x):
        if not isinstance(x, jax.core.Tracer) and np.any(np.asarray(x) < 0):
            raise ValueError("negative")
        return super().draw(key, x)


@mechanism
class ClaimsPerLabel(Laplace):
    """A mechanism on numbers that claims something of labels, or compares records that differ in it
    alone.
    """

    unit: Any = static(default=LABEL)

    def guarantee(self):
        return Guarantee(largest(self.epsilon), unit=self.unit, adjacency=WORDS[LABEL])


@mechanism
class ClaimsPerDistance(Laplace):
    """The loss between records 2 apart is 1, claimed for every unit of distance; it is a half."""

    def guarantee(self):
        return Guarantee(largest(self.epsilon), unit=metric(largest(self.epsilon)))


@mechanism
class ClaimsLessLater(Laplace):
    """Every second guarantee is a tenth of the first."""

    asked: Any = static(default=())

    def guarantee(self):
        self.asked.append(self)
        return Guarantee(largest(self.epsilon) * (0.1, 1.0)[len(self.asked) % 2])


@mechanism
class DeafToOne(Laplace):
    """Whoever asks for a budget of a half gets four."""

    def from_uniform(self, u, x):
        return Laplace(jnp.where(jnp.asarray(self.epsilon) == 0.5, 4.0, self.epsilon)).from_uniform(
            u, x
        )


@mechanism
class SignOfZero:
    """Two honest flips, whose zeros are negative under the record 1: equal to 0, and yet they
    tell.
    """

    epsilon: float
    kind: Any = static(default=jnp.float32)
    told: bool = static(default=True)

    def domain(self):
        return Finite((0.0, 1.0))

    def codomain(self):
        return Product(2, Finite((0.0, 1.0)))

    def privatize(self, key, x):
        x = self.domain().clip(x)
        flipped = jax.random.bernoulli(key, jax.nn.sigmoid(-self.epsilon / 2), (2,))
        y = jnp.where(flipped, 1.0 - x, x)
        return jnp.where(self.told & (y == 0) & (x == 1), -0.0, y).astype(self.kind)

    def guarantee(self):
        return Guarantee(self.epsilon)

    def estimate(self, y):
        return y


@mechanism
class RecordInTheLastBit(Laplace):
    """Laplace noise, the last bit of which is the sign of the record."""

    kind: Any = static(default=jnp.float16)
    told: bool = static(default=True)

    def privatize(self, key, x):
        whole = jnp.uint32 if self.kind == jnp.float32 else jnp.uint16
        bits = jax.lax.bitcast_convert_type(super().privatize(key, x).astype(self.kind), whole)
        told = (bits & ~whole(1)) | (self.domain().clip(x) > 0).astype(whole)
        return jax.lax.bitcast_convert_type(told if self.told else bits, self.kind)


class Measured(NamedTuple):
    """A sparse report, and one number more."""

    indices: Any
    values: Any
    size: Any


@mechanism
class SendsItsSize(Sampled):
    """Beside the report, how large the record is."""

    def privatize(self, key, x):
        return Measured(*super().privatize(key, x), jnp.abs(self.domain().clip(x)).sum())


@pytree
class OneCountMore(NeighbourCounts):
    """Beside the noisy counts, the true sum."""

    def add_noise(self, key, counts):
        return jnp.append(super().add_noise(key, counts), counts.sum())


@mechanism
class WiderWherePlain(Laplace):
    """A plain call reports float64, whose further bits hold the record."""

    def privatize(self, key, x):
        y = super().privatize(key, x)
        if isinstance(y, jax.core.Tracer):
            return y
        return np.asarray(y, np.float64) + 1e-9 * np.asarray(self.domain().clip(x), np.float64)


@mechanism
class RawByHand(Laplace):
    """Python's numbers, or whole ones, are sent as they are."""

    kind: Any = static(default=float)

    def draw(self, key, x):
        return jnp.float32(x) if type(x) is self.kind else super().draw(key, x)


@mechanism
class SignOfZeroInside(SignOfZero):
    """The zeros of records in a tenth of the domain are negative."""

    def domain(self):
        return Interval(-1.0, 1.0)

    def codomain(self):
        return Product(2, Finite((0.0, 1.0)))

    def privatize(self, key, x):
        x = self.domain().clip(x)
        y = (jax.random.uniform(key, (2,)) < 0.5 + 0.1 * x).astype(jnp.float32)
        return jnp.where((y == 0) & (x > -0.4) & (x < -0.2), -0.0, y)


@mechanism
class CallsTheHost(Laplace):
    """Honest, and the server's log has the record; ``by`` prints it or keeps it."""

    by: Any = static(default="debug")

    def privatize(self, key, x):
        if self.by == "print":
            jax.debug.print("{x}", x=x)
        if self.by == "debug":
            jax.debug.callback(lambda x: None, x)
        if self.by == "pure":
            x = jax.pure_callback(np.asarray, jax.ShapeDtypeStruct((), jnp.float32), jnp.float32(x))
        return super().privatize(key, x)


@mechanism
class TrueGraphs(RandomizedResponse):
    """Honest for one user; the edges of whole graphs are sent as they are."""

    def sample_graph(self, key, users, memory):
        nobody = np.full(len(users.group), np.nan, np.float32)
        return ReportedPairs(users.receivers, users.senders, nobody)


@mechanism
class RawInParts(Sampled):
    """Honest by itself; the library's call, which asks for a report of parts, gets them as they
    are.
    """

    def reads_part(self):
        return True

    def report(self, key, indices, values):
        return SparseReport(indices, jnp.asarray(values, jnp.float32))

    def privatize(self, key, x):
        return Sampled(self.inner, self.dim, self.k).privatize(key, x)


@mechanism
class CheapCurve(HyperbolicGaussian):
    """An honest point, and a curve of a tenth less than is lost: what a ledger adds up."""

    def curve(self):
        return GaussianCurve(0.9 * super().curve().mu)

    def guarantee(self):
        return super().curve().guarantee(self.delta, adjacency="any two tangent vectors")


def _floats(m, **options):
    return broken.FloatTable(**vars(m), **options)


FEW = 1 << 17
LEAKS = {
    "delta far too small": (lambda: broken.ThinTail(1.0), "law"),
    "lists of four friends raw": (lambda: RawFour(1.0, 6), "records"),
    "counts of four true": (lambda: TrueFour(1.0, 2, n=6, groups=GROUPS, most=5), "records"),
    "a quiet quadrant": (lambda: QuietQuadrant(1.0, 1e-5, clip=1.5), "records"),
    "noise reused far away": (
        lambda: broken.ProductOfSigns(Laplace(1 / 80), 80, 80, factors=1),
        "coordinates",
    ),
    "a product of five signs": (
        lambda: broken.ProductOfSigns(Laplace(0.05), 8, 8, factors=5),
        "coordinates",
    ),
    "an exception below zero": (lambda: RaisesBelowZero(1.0), "pure"),
    "honest while traced": (lambda: broken.HonestWhileTraced(1.0), "pure"),
    "float64 where plain": (lambda: WiderWherePlain(1.0), "pure"),
    "one count more than is said": (
        lambda: OneCountMore(1.0, 2, n=6, groups=GROUPS, most=5),
        "sampler",
    ),
    "the sign of zero is the record's": (lambda: SignOfZero(1.0), "pure"),
    "whole graphs as they are": (lambda: TrueGraphs(1.0, 6), "graphs"),
    "raw where parts are asked for": (lambda: RawInParts(Laplace(0.5), 6, 2), "pure"),
    "a curve below what is lost": (lambda: CheapCurve(1.0, 1e-5), "curve"),
    "a NaN holds the record": (lambda: broken.InTheNoise(1.0), "pure"),
    "negative zeros of few records": (lambda: SignOfZeroInside(1.0), "pure"),
    "Python's numbers raw": (lambda: RawByHand(1.0), "pure"),
    "whole numbers raw": (lambda: RawByHand(1.0, kind=int), "pure"),
    "a unit of labels": (lambda: ClaimsPerLabel(1.0), "unit"),
    "words of labels": (lambda: ClaimsPerLabel(1.0, RECORD), "unit"),
    "float16 where records are": (lambda: broken.InTheRecordsPrecision(1.0), "total"),
    "16 bits of the key": (lambda: broken.HalfAKey(1.0), "key"),
    # A mass of 13.8 / n is missed once in a million; some more is repeated often enough.
    "12 + x, rarely": (lambda: broken.RareShout(1.0, mass=20 / FEW), "distinct"),
    "a spike of sampler and density": (lambda: broken.SharedSpike(1.0, mass=13.8 / FEW), "losses"),
    # 2^-23 of the mass, which a float misplaces beside each threshold: no test of draws sees it.
    "a float where words are claimed": (lambda: _floats(GeneralizedRR(16.0, 3)), "words"),
    "the same in a loop": (lambda: _floats(GeneralizedRR(16.0, 3), in_loop=True), "words"),
    "floats in a vector": (
        lambda: broken.FloatFeatures(FeatureRR(4.0, 5, dim=2).inner, 2),
        "words",
    ),
    "a logarithm where words are": (
        lambda: broken.FloatCounts(1.0, 2, n=6, groups=GROUPS, most=5),
        "words",
    ),
    "an edge of any two graphs": (lambda: broken.OfAnyGraphs(0.5, 0.5, n=4), "edge"),
    # 13 words, of which one is enough.
    "a table's rare report": (
        lambda: broken.LeakyTable.of(GridSquareWave(1.0, 17).table()),
        "table",
    ),
    "no noise in 64 records": (lambda: broken.QuietWindow(1.0, width=64 / FEW), "windows"),
    "the last bit is the sign": (lambda: RecordInTheLastBit(1.0, jnp.float32), "game"),
    # Each of 65 536 reports twice, where 8 come by chance; as 19 bits in 2^20.
    "noise of 16 bits": (lambda: broken.FewBits(1.0), "distinct"),
}
TRIALS = {"coordinates": 5_000, "law": 50_000, "records": 50_000}
NEEDED = {"law", "records", "coordinates", "unit"}


def asked_of(m, test, trials=50_000):
    """The answer of one test of a verdict."""
    table = verdict.Questions(m, jax.random.key(6), trials, 1e-6).table()
    question = next(question for question in table if question.name == test)
    return verdict.ask(m, question, jax.random.key(7))


@untyped
@pytest.mark.parametrize("name", LEAKS)
def test_what_leaks_is_refused_by_the_test_that_is_there_for_it(name):
    """At fewer draws than those of a default verdict; of pairs of coordinates 5 000 are enough."""
    make, test = LEAKS[name]
    m = make()
    found = asked_of(m, test, TRIALS.get(test, FEW))
    assert found.holds is False, str(found)
    assert ("raised" in found.reason) == (name == "an exception below zero"), found.reason
    assert test not in NEEDED or test in verdict.needed(m)


@untyped
def test_a_loss_per_unit_of_distance_is_not_shown():
    """Of a domain of diameter 0.1 a loss of 1 would pass for that of a distance of 1."""
    found = asked_of(ClaimsPerDistance(1.0), "unit")
    assert found.holds is None
    assert "unit" in verdict.needed(ClaimsPerDistance(1.0))


@untyped
def test_a_guarantee_that_changes_is_refused():
    assert asked_of(ClaimsLessLater(1.0, asked=[]), "unit").holds is False


@pytest.mark.parametrize(
    ("domain", "claim", "holds"),
    [
        (Interval(-1.0, 1.0), {}, True),
        (Interval(-1.0, 1.0), {"adjacency": "any two temperatures"}, True),
        (Interval(-1.0, 1.0), {"adjacency": WORDS[LABEL]}, False),
        (Interval(-1.0, 1.0), {"unit": LABEL, "adjacency": WORDS[LABEL]}, False),
        (Lists(5), {"unit": NEIGHBOUR_LIST, "adjacency": WORDS[NEIGHBOUR_LIST]}, True),
        (Lists(5), {"unit": NEIGHBOUR_LIST, "adjacency": Lists(5).adjacency}, True),
        (Lists(5), {"unit": NEIGHBOUR_LIST, "adjacency": "any two lists"}, False),
        (Lists(5), {"adjacency": Lists(5).adjacency}, False),
        (CLOCK, {"adjacency": CLOCK.adjacency}, True),
        (CLOCK, {"adjacency": "all pairs of hours"}, False),
        (CLOCK, {"adjacency": WORDS[NEIGHBOUR_LIST]}, False),
    ],
)
def test_a_guarantee_is_of_the_records_that_a_space_compares(domain, claim, holds):
    m = SimpleNamespace(
        guarantee=lambda: Guarantee(1.0, **claim),
        domain=lambda: domain,
        codomain=lambda: Interval(0.0, 1.0),
    )
    key = jax.random.key(0)
    answer = verdict.Questions(m, key, 1000, 1e-6)._unit(key)
    assert (answer.found, answer.limit, answer.holds) == (float(not holds), 0.0, holds)


@untyped
def test_a_report_with_a_part_more_than_its_space_has_is_refused():
    for test in ("sampler", "records"):
        found = asked_of(SendsItsSize(Laplace(0.5), 10, 2), test, 5_000)
        assert found.holds is False
        assert "raised TypeError" in found.reason


@untyped
@pytest.mark.parametrize("by", ["print", "debug", "pure"])
def test_what_calls_the_host_is_refused_at_once(by):
    """Its report is honest; to compile it for many records would take hours."""
    found = verification.check(CallsTheHost(1.0, by=by), jax.random.key(0), trials=1_000)
    assert [test.name for test in found.refused] == ["pure"]
    assert not found


@untyped
def test_a_budget_that_is_ignored_is_refused():
    """Of words nothing is asked where they are not what a mechanism draws from."""
    holds = [asked_of(DeafToOne(0.5), test, 5_000).holds for test in ("sampler", "game", "words")]
    assert holds == [False, False, None]
    with pytest.raises(ValueError, match="holds a stack of shape"):
        verification.check(DeafToOne(np.array([1.0, 0.5])), jax.random.key(7), trials=5_000)


def test_what_quadrature_cannot_show_is_not_shown():
    """A true delta of 1e-15 is below float64's sums; the same noise at 1e-6 holds, with its
    limit.
    """
    found = verdict.delta_of(broken.ThinTail(1.0, 6e-7), 1.0, 6e-7)
    assert found.holds
    assert found.limit == pytest.approx(6e-7 * 1.001, rel=1e-4)
    assert found.leak == "delta 6e-10"
    with pytest.raises(NotApplicable, match="the least that quadrature shows"):
        verdict.delta_of(broken.ThinTail(1.0, 1e-15, sigma=16.0), 1.0, 1e-15)
    unasked = verdict.Test("law", "the loss", np.nan, np.nan, None, "too small", needed=True)
    found = verdict.Verdict("ThinTail", "1e-15", (unasked,))
    assert not found
    assert found.missing == (unasked,)
    assert "NOT SHOWN: no answer to law" in str(found)


@mechanism
class Overstates(Duchi):
    """Its law is Duchi's, and its variance 1 % above that of the law."""

    def variance(self, x):
        return 1.01 * super().variance(x)


@mechanism
class Shifts(Duchi):
    """Its mean is some more than that of the law."""

    by: float = static(default=0.0)

    def mean(self, x):
        return super().mean(x) + self.by


@untyped
def test_moments_are_those_of_the_law_to_eight_digits():
    """Of a mean of 0, and of a variance of any size."""
    fit = verification.matches_moments(Shifts(1.0, 3e-8))
    assert not fit.fits
    assert fit.statistic == pytest.approx(3.0, abs=0.05)
    assert fit[3:] == (1.0, 1e-8, 0, 1)
    assert verification.matches_moments(Shifts(1.0, 7e-9)).statistic == pytest.approx(0.7, abs=0.05)
    assert verification.matches_moments(Overstates(1.0)).statistic == pytest.approx(1e6, rel=1e-3)


@mechanism
class Cancels(Duchi):
    """Its variance is a difference of large numbers, of which float32 keeps few digits."""

    away: float = static(default=1e3)

    def variance(self, x):
        square = (self.away + x) ** 2
        return (square + super().variance(x)) - square


@untyped
def test_an_epsilon_may_hold_where_the_moments_are_not_what_is_claimed():
    wrong, right = (asked_of(m(1.0), "moments") for m in (Overstates, Duchi))
    assert right.holds
    assert wrong.holds is False
    assert re.search("variance is said to be 4[.]7295[0-9], and is 4[.]682", wrong.reason)
    found = verdict.Verdict("Overstates", "epsilon 1", (wrong,))
    assert found.refused == ()
    assert found.misstated == (wrong,)
    assert not found
    assert "REFUSED" not in str(found)
    assert "the claim holds as far as the tests see" in str(found)
    assert "NOT WHAT IS CLAIMED of the estimate, moments: variance is said" in str(found)


@mechanism
class WrongAt(Duchi):
    """Claims twice the variance of one record."""

    record: float = static(default=0.0)

    def variance(self, x):
        return super().variance(x) * jnp.where(x == self.record, 2.0, 1.0)


@untyped
@pytest.mark.parametrize("record", [-1.0, 0.0, 1.0])
def test_moments_are_asked_of_both_ends_and_of_the_centre(record):
    assert not verification.matches_moments(WrongAt(1.0, record)).fits
    assert verification.matches_moments(WrongAt(1.0, 7.0)).fits


@untyped
def test_moments_that_float32_cancels_are_not_asked():
    found = asked_of(Cancels(1.0), "moments")
    assert found.holds is None
    assert re.search(
        "variance is [0-9.]+ in float32 and 4[.]58504 in float64: .* cancels", found.reason
    )
    # Of 3e-5 of a variance that float32 may be off by, a tenth, and eight times as much.
    holds = [asked_of(Cancels(1.0, away), "moments").holds for away in (10.0, 200.0)]
    assert holds == [True, None]


@untyped
def test_reports_beside_a_grid_are_a_mistake_and_no_leak():
    """One that is farther away is refused as before."""
    found = verification.check(Beside(1.0), jax.random.key(0), trials=1_000)
    assert found.refused == ()
    assert [test.name for test in found.missing] == ["sampler"]
    assert "where the codomain has" in str(found)
    assert verdict._beside([-1.0, 1.0], np.float32([0.5])) == ""


@untyped
def test_many_records_are_asked_and_what_region_of_them_is_found():
    fit = verification.matches_everywhere(Laplace(1.0), jax.random.key(9), trials=20_000)
    assert fit.fits
    assert fit.records == 128
    assert (1 - fit.smallest_defect) ** 64 == pytest.approx(1e-6)  # the other half are natural


def test_arguments_are_refused_as_arguments(untyped):
    for wrong in (
        *({"trials": 1}, {"significance": 2}, {"significance": 0.0}),
        *({"key": jax.random.PRNGKey(0)}, {"key": jax.random.key(0, impl="rbg")}),
    ):
        with pytest.raises(ValueError, match="trials|significance|key"):
            verification.check(Duchi(1.0), **{"key": jax.random.key(0), **wrong})


@untyped
@pytest.mark.parametrize("kind", [jnp.float16, jnp.bfloat16])
def test_leaks_in_numbers_of_sixteen_bits_are_seen(kind):
    assert not verification.is_pure(SignOfZero(1.0, kind), jax.random.key(0)).fits
    assert verification.is_pure(SignOfZero(1.0, kind, told=False), jax.random.key(0)).fits
    told = RecordInTheLastBit(1.0, kind)
    honest = RecordInTheLastBit(1.0, kind, told=False)
    few = {"trials": 50_000}
    assert verification.largest_lower_bound(told, jax.random.key(1), **few).epsilon > 1.0
    assert verification.largest_lower_bound(honest, jax.random.key(2), **few).epsilon <= 1.0
    with pytest.raises(NotApplicable, match="repeat by rounding"):
        verification.distinct_reports(honest, jax.random.key(3), trials=50_000)


@untyped
def test_tables_are_of_the_same_words_in_64_bit_mode():
    with jax.enable_x64(True):
        assert verification.follows_table(
            GeneralizedRR(1.0, 3), jax.random.key(0), trials=2_000
        ).fits
        drawn = GeneralizedRR(1.0, 3).privatize(jax.random.key(0), 2)
    assert drawn == GeneralizedRR(1.0, 3).privatize(jax.random.key(0), 2)
