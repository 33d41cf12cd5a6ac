"""Delta against closed forms, and suprema against enumeration: no oracle here shares code with what
it checks.
"""

import itertools
import math
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.signal

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.integer_tables import Table, integer_masses
from ldp_jax.core.mechanism import Numeric
from ldp_jax.core.pytree import mechanism
from ldp_jax.core.spaces import Box, Finite, Interval, Mixture, Sphere, Vectors, clip
from ldp_jax.features import (
    Discrete,
    Duchi,
    DuchiVector,
    FeatureRR,
    GeneralizedRR,
    GeneralPiecewise,
    GridPiecewise,
    Hybrid,
    Laplace,
    OptimalPiecewise,
    Piecewise,
    Sampled,
    SquareWave,
    ThreeOutputs,
    menu,
)
from ldp_jax.verification import exact, hockey_stick, privacy_loss_supremum, sums_to_one
from ldp_jax.verification.cases import CASES, EPSILONS
from tests import broken
from tests.marks import untyped

NUMBERS = {
    n: c for n, c in CASES.items() if c.contract and not isinstance(c.make(1.0).domain(), Box)
}
TABLES = [name for name, case in NUMBERS.items() if case.table]


def gap(epsilon, other):
    return math.exp(epsilon) - math.exp(other)


def window_mass(made):
    """The mass of the high piece of a two-level law; those of the records -1 and 1 do not meet for
    t >= 1.
    """
    e = math.exp(made.epsilon)
    if isinstance(made, SquareWave):
        b = (made.epsilon * e - e + 1) / (e * (e - made.epsilon - 1))
        return b * e / (b * e + 1)
    return e / (float(made.t) + e)


def two_levels(make):
    return lambda epsilon, other: window_mass(make(epsilon)) * -math.expm1(other - epsilon)


def hybrid(epsilon, other):
    """Its branch is public, so its delta is the mean of theirs."""
    beta = -math.expm1(-epsilon / 2) if epsilon > 0.61 else 0.0
    piecewise = gap(epsilon, other) / (math.exp(epsilon / 2) + math.exp(epsilon))
    return beta * piecewise + (1 - beta) * gap(epsilon, other) / (math.exp(epsilon) + 1)


def three_outputs(epsilon, other):
    """Over all pairs of 201 records, its masses written out from the paper."""
    with float64_on_cpu():
        e = math.exp(epsilon)
        a = float(ThreeOutputs(jnp.float64(epsilon)).a)
    size = np.abs(np.linspace(-1, 1, 201))
    right = np.arange(201) >= 100
    likely = (1 - size) * (1 - a) / 2 + size * (e - a) / (e + 1)
    other_sign = (1 - size) * (1 - a) / 2 + size * (e - a) / (e * (e + 1))
    nothing = a * (1 - (1 - 1 / e) * size)
    masses = np.stack(
        [np.where(right, other_sign, likely), nothing, np.where(right, likely, other_sign)], 1
    )
    np.testing.assert_allclose(masses.sum(1), 1.0)
    return np.maximum(masses[:, None] - math.exp(other) * masses, 0).sum(2).max()


# Each with the closed form, what of it is detected, and the budgets: widths of SquareWave's pieces
# are differences of numbers near 1. A table's integers are off by at most two.
CLOSED = {
    "Laplace": (
        Laplace,
        lambda epsilon, other: -math.expm1((other - epsilon) / 2),
        1e-5,
        (0.01, *EPSILONS),
    ),
    "Duchi": (
        Duchi,
        lambda epsilon, other: gap(epsilon, other) / (math.exp(epsilon) + 1),
        1e-12,
        EPSILONS,
    ),
    "GeneralizedRR": (
        lambda epsilon: GeneralizedRR(epsilon, 5),
        lambda epsilon, other: gap(epsilon, other) / (math.exp(epsilon) + 4),
        0.0,
        EPSILONS,
    ),
    "SquareWave": (SquareWave, two_levels(SquareWave), 1e-5, EPSILONS[1:]),
    "Piecewise": (Piecewise, two_levels(Piecewise), 1e-5, EPSILONS[1:]),
    "OptimalPiecewise": (OptimalPiecewise, two_levels(OptimalPiecewise), 1e-5, EPSILONS[1:]),
    "Hybrid": (Hybrid, hybrid, 1e-6, EPSILONS[:3]),
    "ThreeOutputs": (ThreeOutputs, three_outputs, 1e-7, EPSILONS),
    # Panels go on until nothing is left of a law of a tiny budget.
    "Laplace, tiny": (
        Laplace,
        lambda epsilon, other: -math.expm1((other - epsilon) / 2),
        1e-6,
        (0.001,),
    ),
}


@untyped
@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms(name):
    """At values of epsilon' from 0 to the claim, none of them a nice fraction of it."""
    make, closed, relative, epsilons = CLOSED[name]
    for epsilon in epsilons:
        for other in (
            [0.0] if "tiny" in name else [0.0, 0.013 * epsilon, 0.7123 * epsilon, 0.993 * epsilon]
        ):
            rounding = (
                10 * math.exp(other) / 2**32
                if name == "GeneralizedRR"
                else 1e-7 * (name == "ThreeOutputs")
            )
            assert hockey_stick(make(epsilon), other) == pytest.approx(
                closed(epsilon, other), rel=relative, abs=rounding
            )


@mechanism
class Skewed(Duchi):
    """A sign whose chance of 1 bends at 0: it is ``left`` at -1, 0.3 at 0, and ``right`` at 1."""

    left: Any
    right: Any

    def log_density(self, y, x):
        x = clip(x)
        chance = 0.3 + jnp.where(x < 0, -x * (self.left - 0.3), x * (self.right - 0.3))
        return jnp.log(jnp.where(jnp.asarray(y) > 0, chance, 1 - chance))


def divergence(rows, epsilon):
    """The largest sum of max(0, p - e^epsilon q) over ordered pairs of rows."""
    return max(
        np.maximum(p - math.exp(epsilon) * q, 0).sum() for p, q in itertools.permutations(rows, 2)
    )


@untyped
def test_it_is_that_of_mirrored_records_and_a_leak_of_one_side_is_seen_on_either():
    """Of 24 drawn laws of a sign, and of 60 drawn tables, by both orders of each pair."""
    rng = np.random.default_rng(0)
    for _ in range(24):
        left, right = rng.uniform(0.02, 0.98, 2)
        rows = [np.array([chance, 1 - chance]) for chance in (left, 0.3, right)]
        epsilon = rng.uniform(0.0, 1.5)
        exact = divergence(rows, epsilon)
        for ends in ((left, right), (right, left)):
            assert hockey_stick(Skewed(1.0, *ends), epsilon) == pytest.approx(exact, abs=1e-12)
    for _ in range(60):
        inputs, outputs = rng.integers(2, 5, 2)
        law = rng.dirichlet(np.full(outputs, 0.8), inputs) + 0.01
        masses = integer_masses(law / law.sum(1, keepdims=True), 8.0)
        epsilon = rng.uniform(0.0, 1.5)
        exact = divergence(masses / 2**32, epsilon)
        for some in (masses, masses[::-1], masses[:, ::-1]):
            table = Table(
                "drawn", np.ascontiguousarray(some), np.zeros(outputs, np.float32), "category"
            )
            assert hockey_stick(Discrete.of(table), epsilon) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_exact(name):
    """The largest sum over pairs of rows, to 1e-12; 0 from the exact epsilon on, more a part in 1e9
    below.
    """
    for epsilon in NUMBERS[name].epsilons[::3]:
        m = NUMBERS[name].make(epsilon)
        whole_loss = m.table().epsilon
        other = 0.37 * whole_loss
        whole = m.table().masses.astype(np.float64) / 2**32
        excess = max(np.maximum(row - math.exp(other) * whole, 0).sum(1).max() for row in whole)
        assert hockey_stick(m, other) == pytest.approx(excess, abs=1e-12)
        found = privacy_loss_supremum(m)
        assert whole_loss == found.epsilon == found.searched
        with float64_on_cpu():
            logs = [float(density_of(m, found.y, np.array(x))) for x in (found.x, found.x_other)]
        # A float32 record is beside its point of a grid, by more than the rarest mass at 16.
        assert logs[0] - logs[1] == pytest.approx(whole_loss, rel=1e-6) or epsilon > 1
        assert hockey_stick(m, whole_loss) == hockey_stick(m, whole_loss * (1 + 1e-15)) == 0.0
        assert hockey_stick(m, whole_loss * (1 - 1e-9)) > 0.0


def test_at_zero_it_is_the_total_variation():
    """Of pieces that do meet, by a sum over 2e6 cells; detects 1e-4."""
    m = GeneralPiecewise(1.0, 0.5)
    edges = np.linspace(-1, 1, 2_000_001) * float(m.codomain().upper)
    with float64_on_cpu():
        middle = (edges[1:] + edges[:-1]) / 2
        first, second = (np.exp(np.asarray(m.log_density(middle, x))) for x in (-1.0, 1.0))
    step = edges[1] - edges[0]
    assert first.sum() * step == pytest.approx(1.0, abs=1e-4)
    assert hockey_stick(m, 0.0) == pytest.approx(np.abs(first - second).sum() * step / 2, abs=1e-4)


def test_what_cannot_be_asked_is_refused():
    both = menu([GeneralizedRR(0.5, 4), GeneralizedRR(2.0, 4)]).at(np.array([0, 1]))
    for m, epsilon, message in (
        (Sampled(Duchi(0.5), 4, 2), 0.5, "one number"),
        (DuchiVector(1.0, 3), 0.5, "one number"),
        (FeatureRR(1.0, 4, dim=2), 0.5, "one number"),
        (Laplace(np.array([1.0, 2.0])), 0.5, "one concrete number"),
        (both, 0.5, "level"),
        *(
            (Duchi(1.0), epsilon, "epsilon must be in")
            for epsilon in (-0.1, 701.0, math.inf, math.nan)
        ),
    ):
        with pytest.raises(ValueError, match=message):
            hockey_stick(m, epsilon)
    for m in (both, Laplace(np.array([1.0, 2.0]))):
        with pytest.raises(ValueError, match="level|one concrete number"):
            privacy_loss_supremum(m)


density_of = jax.jit(lambda m, y, x: m.log_density(y, x))


def largest_ratio(tables):
    """The largest log ratio of products of masses, one of each table: all reports under all
    records.
    """
    best = Fraction(0)
    for report in itertools.product(*(range(masses.shape[1]) for masses in tables)):
        products = [
            math.prod(
                int(masses[row, y]) for masses, row, y in zip(tables, record, report, strict=True)
            )
            for record in itertools.product(*(range(len(masses)) for masses in tables))
        ]
        best = max(best, Fraction(max(products), min(products)))
    return math.log(best)


@pytest.mark.parametrize(
    "m", [Sampled(GridPiecewise(1.0, inputs=3), dim=3, k=2), FeatureRR(2.0, 3, [1.0, 3.0])]
)
def test_enumeration_is_composition(m):
    """The sum of the inner losses of what is sent, no more than is claimed, attained at the
    witness.
    """
    tables = [m.coordinate(j).table().masses for j in range(m.codomain().sent)]
    found = privacy_loss_supremum(m)
    assert found.epsilon == pytest.approx(largest_ratio(tables), rel=1e-12)
    assert found.epsilon <= m.guarantee().epsilon * (1 + 1e-15)
    if not isinstance(m, Sampled):
        with float64_on_cpu():
            y, *records = map(np.array, (found.y, found.x, found.x_other))
            logs = [float(density_of(m, y, x)) for x in records]
        assert logs[0] - logs[1] == pytest.approx(found.epsilon, rel=1e-9)


def test_sampled_inherits_the_supremum_of_any_inner_mechanism():
    """k times it, and so 5 % more than the claim where the inner one overspends; detects 1e-9."""
    inner = broken.Overspent(1.05)
    found = privacy_loss_supremum(Sampled(inner, 9, 3))
    assert found.epsilon == pytest.approx(3.15 * inner.guarantee().epsilon, rel=1e-9)


def test_a_subclass_with_a_law_of_its_own_is_asked_for_it():
    @mechanism
    class Chatty(Sampled):
        def log_density(self, y, x):
            return super().log_density(y, x) + 5 * jnp.asarray(x).sum()

    with pytest.raises(ValueError, match="must report one number"):
        privacy_loss_supremum(Chatty(Duchi(0.5), 3, 2))

    @mechanism
    class Lopsided(DuchiVector):
        def log_density(self, y, x):
            return super().log_density(y, x) + jnp.where(
                jnp.asarray(y)[0] < 0, 2 * jnp.asarray(x)[0], 0.0
            )

    assert privacy_loss_supremum(Lopsided(1.0, 3)).epsilon == pytest.approx(5.0)


# --- Witnesses and far reports --------------------------------------------------------------------


@mechanism
class Bumped(Duchi):
    """A law that gives one narrow band of records away: no declared point lies in it."""

    def log_density(self, y, x):
        bump = 2.0 * jnp.exp(-(((clip(x) - 0.33) / 0.02) ** 2))
        return jax.nn.log_sigmoid(jnp.asarray(y) * bump)


def test_a_twin_is_found_also_where_the_declared_points_miss_it():
    found = privacy_loss_supremum(Bumped(1.0))
    assert found.epsilon == found.searched
    assert found.epsilon > 1.0


def test_a_witness_attains_the_supremum():
    found = privacy_loss_supremum(Piecewise(2.0))
    with float64_on_cpu():
        loss = density_of(Piecewise(2.0), found.y, found.x) - density_of(
            Piecewise(2.0), found.y, found.x_other
        )
    assert float(loss) == pytest.approx(found.epsilon)


def test_far_reports_of_an_infinite_codomain_are_asked():
    """What is seen at a thousand times the farthest declared report decides, on either side and in
    a mixture.

    A loss that still grows there is infinite; one that no longer does is what it has come to.
    """
    slow = broken.ThinTail(
        1.0, sigma=32.0
    )  # a loss of 1.9e-3 of the report: declared points see next to nothing
    with float64_on_cpu():
        records = jnp.linspace(-1.0, 1.0, 9)
        reports = jnp.array([-3.0, 0.0, 3.0])
        assert exact._beyond(slow, records, reports) == math.inf
        assert exact._beyond(Laplace(1.0), records, reports) == pytest.approx(1.0)
        assert exact._beyond(Hump(1.0), records, reports) == pytest.approx(5.0)
        assert exact._beyond(Duchi(1.0), records, reports) == -math.inf
        pairs = (jnp.array([0, 0, 1, 1, 1]), jnp.array([-1.0, 1.0, -3.0, 0.0, 3.0]))
        assert exact._beyond(broken.GaussianBranch(1.0), records, pairs) == math.inf
    assert privacy_loss_supremum(slow).epsilon == math.inf
    assert privacy_loss_supremum(Logistic(1.0)).epsilon == pytest.approx(1.0, rel=1e-9)


@mechanism
class Logistic(broken.Bare, Numeric):
    """A record with logistic noise of scale 2 / epsilon: its loss comes to epsilon far out
    alone.
    """

    def codomain(self):
        return Interval(-math.inf, math.inf)

    def from_uniform(self, u, x):
        return clip(x) + 2 / self.epsilon * jax.scipy.special.logit(u)

    def log_density(self, y, x):
        return jax.scipy.stats.logistic.logpdf(y, clip(x), 2 / self.epsilon)


@mechanism
class Hump(Logistic):
    """A density, not of mass 1, whose loss is 5 between 100 and 1,000 alone: neither declared nor
    last.
    """

    def log_density(self, y, x):
        return jnp.where((y > 100) & (y < 1000) & (x > 0), 5.0, 0.0) + 0.0 * y


class Corners(Box):
    """A square of which three corners are asked: one and two numbers differ between them."""

    def critical_records(self):
        return np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0]])


@mechanism
class LaplacePair:
    """Two numbers, each with Laplace noise of a scale."""

    scale: float

    def domain(self):
        return Corners(2)

    def codomain(self):
        return Vectors(2)

    def guarantee(self):
        return Guarantee(4 / self.scale, status="proved", reason="two numbers of a range of 2")

    def privatize(self, key, x):
        return self.domain().clip(x) + self.scale * jax.random.laplace(key, (2,))

    def log_density(self, y, x):
        return (-jnp.abs(y - self.domain().clip(x)) / self.scale - jnp.log(2 * self.scale)).sum(-1)

    def estimate(self, y):
        return y


@mechanism
class SkewedNumber(LaplacePair):
    """A number with noise that falls by ``down`` below it, and by ``up`` above it."""

    down: Any
    up: Any

    def domain(self):
        return Box(1)

    def codomain(self):
        return Vectors(1)

    def log_density(self, y, x):
        away = (y - self.domain().clip(x))[..., 0]
        return jnp.minimum(self.down * away, -self.up * away) - jnp.log(1 / self.down + 1 / self.up)


@untyped
@pytest.mark.parametrize(("down", "up"), [(3.0, 0.4), (0.4, 3.0)])
def test_a_law_that_leans_loses_as_much_as_its_mirror(down, up):
    """By both orders of each pair, in 2e6 cells; the smaller has 0 where the larger has 0.44."""
    y = np.linspace(-60, 60, 2_000_001)
    laws = [
        np.exp(np.minimum(down * (y - x), -up * (y - x))) / (1 / down + 1 / up) for x in (-1.0, 1.0)
    ]
    for epsilon in (0.3, 1.0, 2.9):
        expected = divergence(laws, epsilon) * (y[1] - y[0])
        assert hockey_stick(SkewedNumber(1.0, down, up), epsilon) == pytest.approx(
            expected, rel=1e-3
        )


@untyped
@pytest.mark.parametrize(("scale", "epsilon"), [(2.0, 1.8), (4.0, 0.9), (0.5, 7.2)])
def test_vectors_of_densities_that_bend(scale, epsilon):
    """Against the losses of two numbers, added up: an atom at either end, and a density between."""
    most = 2 / scale
    steps = 4000
    places = np.linspace(-most, most, 2 * steps + 1)
    mass = np.zeros(2 * steps + 1)
    mass[1::2] = np.diff(np.exp(-(most - places[::2]) / 2) / 2)
    mass[[0, -1]] = math.exp(-most) / 2, 0.5
    both = scipy.signal.fftconvolve(mass, mass)
    loss = np.linspace(-2 * most, 2 * most, len(both))
    expected = both @ np.maximum(0.0, -np.expm1(epsilon - loss))
    assert hockey_stick(LaplacePair(scale), epsilon) == pytest.approx(expected, rel=1e-5)


@untyped
def test_a_density_that_bends_sums_to_one():
    assert sums_to_one(LaplacePair(2.0)).statistic < 1e-12


class _Drawn(Exception):
    """Reports are drawn."""


@untyped
@pytest.mark.parametrize("m", [Laplace(1.0), SquareWave(1.0), Hybrid(1.0), Duchi(1.0)])
def test_reports_that_are_drawn_are_asked_too(m, monkeypatch):
    """A leak where reports are, and no grid is, has no other witness."""

    def drawn(*_):
        raise _Drawn

    monkeypatch.setattr(exact, "report_each", drawn)
    with pytest.raises(_Drawn):
        privacy_loss_supremum(m)


@mechanism
class Ridged(Laplace):
    """Where x > 0 the density says e^2 times as much between 0.31 and 0.33, which is not drawn."""

    def log_density(self, y, x):
        there = (y > 0.31) & (y < 0.33) & (x > 0)
        return super().log_density(y, x) + jnp.where(there, 2.0, 0.0)


@untyped
def test_reports_between_known_ones_are_asked_too(monkeypatch):
    """A bump of a fiftieth, where no known report lies."""
    assert privacy_loss_supremum(Ridged(1.0)).epsilon > 1.5
    at_known_ones = lambda _, known, rng: exact.take(known, rng.integers(0, 2, exact._SEARCH))
    monkeypatch.setattr(exact, "_between", at_known_ones)
    drawn_at_zero = lambda keys, *_: np.zeros(len(keys), np.float32)
    monkeypatch.setattr(exact, "report_each", drawn_at_zero)
    assert privacy_loss_supremum(Ridged(1.0)).epsilon == pytest.approx(1.0)  # nothing else finds it


PARTS = np.array([0, 0, 1, 1]), np.array([0.0, 9.0, 0.0, 2.0])


@pytest.mark.parametrize(
    ("space", "known"),
    [
        (Interval(-1.0, 2.0), np.array([-1.0, 0.5, 2.0])),
        (Vectors(2), np.array([[0.0, 1.0], [3.0, 1.0]])),
        (Sphere(2), np.array([[0.0, 1.0], [1.0, 0.0]])),
        (Mixture((Finite((0.0, 9.0)), Interval(0.0, 2.0))), PARTS),
        (Finite((0.0, 9.0)), np.array([0.0, 9.0])),
    ],
    ids=["interval", "vectors", "sphere", "mixture", "finite"],
)
def test_a_search_asks_between_known_reports_of_a_continuum_and_at_atoms(space, known):
    found = exact._between(space, known, np.random.default_rng(0))
    assert np.asarray(space.contains(found)).all()
    mixture = isinstance(found, tuple)
    numbers = found[1] if mixture else found
    different = len(np.unique(numbers, axis=0))
    assert different > 300 if space.continuous or mixture else different == 2
    if mixture:
        assert set(numbers[found[0] == 0].tolist()) == {0.0, 9.0}
