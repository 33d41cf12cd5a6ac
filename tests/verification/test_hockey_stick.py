"""Delta against closed forms, and suprema against enumeration: no oracle here shares code with what it checks."""

import dataclasses
import itertools
import math
from fractions import Fraction
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import features
from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.mechanism import Numeric
from ldp_jax.core.pytree import mechanism
from ldp_jax.core.spaces import Box, Finite, Interval, Subset, clip
from ldp_jax.core.types import Scalar
from ldp_jax.features import (
    BranchReport,
    Discrete,
    Duchi,
    DuchiVector,
    FeatureRR,
    GeneralizedRR,
    GeneralPiecewise,
    GridPiecewise,
    GridSquareWave,
    Hybrid,
    Laplace,
    LPOptimal,
    OptimalPiecewise,
    PersonalAlphabet,
    Piecewise,
    Sampled,
    SquareWave,
    SuboptimalPiecewise,
    ThreeOutputs,
    menu,
)
from ldp_jax.verification import arithmetic, hockey_stick, privacy_loss_supremum
from tests import broken
from tests.features.test_duchi_vector import signs, table

EPSILONS = (0.1, 1.0, 4.0, 16.0)
CONTINUOUS = {
    "Laplace": Laplace,
    "Duchi": Duchi,
    "Piecewise": Piecewise,
    "SuboptimalPiecewise": SuboptimalPiecewise,
    "OptimalPiecewise": OptimalPiecewise,
    "GeneralPiecewise": lambda epsilon: GeneralPiecewise(epsilon, 0.5),
    "SquareWave": SquareWave,
    "Hybrid": Hybrid,
    "ThreeOutputs": ThreeOutputs,
}
TABLES = {
    "GridSquareWave": GridSquareWave,
    "GridPiecewise": GridPiecewise,
    "LPOptimal": lambda epsilon: LPOptimal(min(epsilon, 5.0)),  # above, it asks for more inputs
    "GeneralizedRR": lambda epsilon: GeneralizedRR(epsilon, 5),
    "PersonalAlphabet": lambda epsilon: PersonalAlphabet(epsilon, (0.1, 0.4, 0.2, 0.3)),
    "FeatureRR": lambda epsilon: FeatureRR(epsilon, 6, dim=1).coordinate(0),
}
NUMBERS = CONTINUOUS | TABLES
VECTORS = {"DuchiVector", "HDS", "LaplaceVector", "MultiBit", "MultiPiecewise", "RandomizedFeatures", "Sampled"}
VECTORS |= {"PrivUnit", "PrivUnitG", "ProjUnit"}
OTHERS = {"BranchReport", "Discrete", "SparseReport", "importance_weights", "menu"}
OTHERS |= {"Alphabets", "PersonalAlphabets", "alphabets", "Choice", "choose", "random_projection"}

every_epsilon = pytest.mark.parametrize("epsilon", EPSILONS)
every_number = pytest.mark.parametrize("name", NUMBERS)
every_table = pytest.mark.parametrize("name", TABLES)


def below(epsilon):
    """Values of epsilon' from 0 to the claim, none of them at a nice fraction of it."""
    return [0.0, 0.013 * epsilon, 0.37 * epsilon, 0.7123 * epsilon, 0.993 * epsilon]


def test_every_public_mechanism_on_one_number_is_here():
    public = {name for name in features.__all__ if not isinstance(getattr(features, name), ModuleType)}
    assert public - VECTORS - OTHERS == set(NUMBERS)


# --- Closed forms ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.01, *EPSILONS])
def test_laplace(epsilon):
    """1 - e^((eps' - eps)/2) at distance 2. The loss crosses eps' inside a piece; detects 1e-5 of it."""
    for other in below(epsilon):
        expected = -math.expm1((other - epsilon) / 2)
        assert hockey_stick(Laplace(epsilon), other) == pytest.approx(expected, rel=1e-5)


@every_epsilon
def test_randomized_response(epsilon):
    """(e^eps - e^eps') / (e^eps + k - 1): Duchi's signs at the ends (k = 2), and k categories in integers.

    Detects 1e-12 of Duchi's; of a table's, that one of its integers is off by two.
    """
    for other in below(epsilon):
        gap = math.exp(epsilon) - math.exp(other)
        assert hockey_stick(Duchi(epsilon), other) == pytest.approx(gap / (math.exp(epsilon) + 1), rel=1e-12)
        for k in (2, 5):
            expected = gap / (math.exp(epsilon) + k - 1)
            rounding = 2 * k * math.exp(other) / 2**32
            assert hockey_stick(GeneralizedRR(epsilon, k), other) == pytest.approx(expected, abs=rounding)


def window_mass(made):
    """The mass of the high piece of a two-level law; those of the records -1 and 1 do not meet for t >= 1."""
    e = math.exp(made.epsilon)
    if isinstance(made, SquareWave):
        b = (made.epsilon * e - e + 1) / (e * (e - made.epsilon - 1))
        return b * e / (b * e + 1)
    return e / (float(made.t) + e)


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 16.0])
@pytest.mark.parametrize("make", [SquareWave, Piecewise, OptimalPiecewise])
def test_two_levels(make, epsilon):
    """The mass of the high piece times 1 - e^(eps' - eps); detects 1e-5 of it.

    (At epsilon = 16 the widths of SquareWave's pieces are differences of numbers near 1, good to 1e-10.)
    """
    made = make(epsilon)
    for other in below(epsilon):
        expected = window_mass(made) * -math.expm1(other - epsilon)
        assert hockey_stick(made, other) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_hybrid_is_the_mixture_of_its_branches(epsilon):
    """Its branch is public, so its delta is the mean of theirs; detects 1e-6 of it."""
    beta = -math.expm1(-epsilon / 2) if epsilon > 0.61 else 0.0
    for other in below(epsilon):
        gap = math.exp(epsilon) - math.exp(other)
        piecewise, duchi = gap / (math.exp(epsilon / 2) + math.exp(epsilon)), gap / (math.exp(epsilon) + 1)
        expected = beta * piecewise + (1 - beta) * duchi
        assert hockey_stick(Hybrid(epsilon), other) == pytest.approx(expected, rel=1e-6)


@every_epsilon
def test_three_outputs(epsilon):
    """Over all pairs of 201 records, its masses written out from the paper; detects 1e-7."""
    with float64_on_cpu():
        e, a = math.exp(epsilon), float(ThreeOutputs(jnp.float64(epsilon)).a)
    size = np.abs(np.linspace(-1, 1, 201))
    likely = (1 - size) * (1 - a) / 2 + size * (e - a) / (e + 1)
    other_sign = (1 - size) * (1 - a) / 2 + size * (e - a) / (e * (e + 1))
    nothing = a * (1 - (1 - 1 / e) * size)
    left, right = np.arange(201) < 100, np.arange(201) >= 100
    masses = np.stack([np.where(left, likely, other_sign), nothing, np.where(right, likely, other_sign)], 1)
    np.testing.assert_allclose(masses.sum(1), 1.0)
    for other in below(epsilon):
        excess = np.maximum(masses[:, None] - math.exp(other) * masses, 0).sum(2).max()
        assert hockey_stick(ThreeOutputs(epsilon), other) == pytest.approx(excess, abs=1e-7)


@every_table
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_tables(name, epsilon):
    """Whole numbers: detects 1e-12."""
    m = TABLES[name](epsilon)
    masses = [[int(mass) for mass in row] for row in m.table().masses[:: max(1, m.inputs // 8)]]
    if masses[-1] != m.table().masses[-1].tolist():
        masses.append(m.table().masses[-1].tolist())
    other = 0.37 * epsilon
    factor = Fraction(math.exp(other))
    excess = max(
        sum(max(Fraction(0), a - factor * b) for a, b in zip(one, two, strict=True))
        for one, two in itertools.permutations(masses, 2)
    )
    found = hockey_stick(m, other)
    assert found >= float(excess / 2**32) - 1e-12  # every eighth row: a lower bound
    whole = m.table().masses.astype(np.float64) / 2**32
    pairs = np.maximum(whole[:, None] - math.exp(other) * whole, 0).sum(2)
    assert found == pytest.approx(pairs.max(), abs=1e-12)


# --- Properties -----------------------------------------------------------------------------------------------


@every_number
@every_epsilon
def test_it_is_zero_at_the_claim(name, epsilon):
    """1e-9 at most: rounding. Detects a claim that a mass of 1e-9 breaks."""
    m = NUMBERS[name](epsilon)
    assert hockey_stick(m, m.guarantee().epsilon) <= 1e-9
    assert hockey_stick(m, 1.5 * m.guarantee().epsilon) <= 1e-300


@every_number
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_it_falls_and_is_convex_in_e_to_the_epsilon(name, epsilon):
    """As every hockey-stick divergence, and it is positive before the claim."""
    m = NUMBERS[name](epsilon)
    claim = m.guarantee().epsilon
    factors = np.linspace(1.0, math.exp(claim), 6)
    delta = np.array([hockey_stick(m, math.log(factor)) for factor in factors])
    assert (delta[:-1] > 0).all()
    assert (delta <= 1).all()
    assert (np.diff(delta) < 1e-9).all()
    assert (np.diff(delta, 2) > -1e-9).all()


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("name", ["Laplace", "SquareWave", "Piecewise", "GeneralPiecewise"])
def test_at_zero_it_is_the_total_variation(name, epsilon):
    """The largest difference of two distribution functions' increments, by a sum over 2e6 cells; detects 1e-4."""
    m = CONTINUOUS[name](epsilon)
    reach = 60.0 / epsilon if name == "Laplace" else float(m.codomain().upper)
    edges = np.linspace(-reach, reach, 2_000_001)
    middle = (edges[1:] + edges[:-1]) / 2
    with float64_on_cpu():
        first, second = (np.exp(np.asarray(m.log_density(middle, x))) for x in (-1.0, 1.0))
    step = edges[1] - edges[0]
    assert first.sum() * step == pytest.approx(1.0, abs=1e-4)
    assert hockey_stick(m, 0.0) == pytest.approx(np.abs(first - second).sum() * step / 2, abs=1e-4)


@every_table
@every_epsilon
def test_tables_are_exact_to_the_last_digits_of_epsilon(name, epsilon):
    """0 from the exact epsilon on; more than 0 a part in 1e9 below it."""
    m = TABLES[name](epsilon)
    exact = m.table().epsilon
    assert exact == privacy_loss_supremum(m).epsilon
    assert hockey_stick(m, exact) == 0.0
    assert hockey_stick(m, exact * (1 + 1e-15)) == 0.0
    assert hockey_stick(m, exact * (1 - 1e-9)) > 0.0


@every_epsilon
def test_what_an_overspent_budget_costs(epsilon):
    """5 % more epsilon than is claimed: how much mass that puts beyond the claim."""
    twin = broken.Overspent(1.05 * epsilon)
    assert twin.guarantee().epsilon == pytest.approx(epsilon)
    expected = window_mass(SquareWave(1.05 * epsilon)) * -math.expm1(-0.05 * epsilon)
    if epsilon > 0.5:  # below, the textbook form of b cancels
        assert hockey_stick(twin, epsilon) == pytest.approx(expected, rel=1e-4)
    assert hockey_stick(twin, epsilon) > 0.02 * epsilon / (1 + epsilon)
    assert hockey_stick(twin, 1.05 * epsilon) <= 1e-9


def test_unclipped_records_and_laws_that_rule_reports_out_keep_their_mass():
    """A report that one record alone can give: no epsilon removes its mass."""

    @mechanism
    class Cut(SquareWave):
        """The high piece alone."""

        def log_density(self, y, x):
            return jnp.where(jnp.abs(jnp.asarray(y) - x) <= self.b, -jnp.log(2 * self.b), -jnp.inf)

    for epsilon in (0.0, 1.0, 10.0):
        assert hockey_stick(Cut(1.0), epsilon) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(
    "vector",
    [Sampled(Duchi(0.5), 4, 2), DuchiVector(1.0, 3), FeatureRR(1.0, 4, dim=2)],
    ids=lambda m: type(m).__name__,
)
def test_vectors_are_refused(vector):
    with pytest.raises(ValueError, match="one number"):
        hockey_stick(vector, 0.5)


def test_stacks_and_negative_budgets_are_refused():
    with pytest.raises(ValueError, match="one concrete number"):
        hockey_stick(Laplace(np.array([1.0, 2.0])), 0.5)
    for epsilon in (-0.1, math.nan):
        with pytest.raises(ValueError, match="epsilon"):
            hockey_stick(Laplace(1.0), epsilon)
    with pytest.raises(ValueError, match="level"):
        hockey_stick(menu([GeneralizedRR(0.5, 4), GeneralizedRR(2.0, 4)]).at(np.array([0, 1])), 0.5)


# --- Suprema against enumeration ------------------------------------------------------------------------------


def products(each, k):
    """The largest log ratio of products of k masses: all reports under all records, in integers."""
    best = Fraction(0)
    rows, columns = range(len(each)), range(len(each[0]))
    for report in itertools.product(columns, repeat=k):
        masses = [
            math.prod(int(each[row][y]) for row, y in zip(record, report, strict=True))
            for record in itertools.product(rows, repeat=k)
        ]
        best = max(best, Fraction(max(masses), min(masses)))
    return math.log(best)


SMALL = {
    "square wave 2 of 3": Sampled(GridSquareWave(0.5, inputs=2), dim=3, k=2),
    "square wave, 3 points": Sampled(GridSquareWave(2.0, inputs=3), dim=2, k=2),
    "piecewise": Sampled(GridPiecewise(1.0, inputs=3), dim=3, k=2),
    "linear program": Sampled(LPOptimal(1.0, inputs=3, outputs=41), dim=2, k=2),
}


@pytest.mark.parametrize("name", SMALL)
def test_enumeration_is_composition(name):
    """k times the inner loss, and no more than is claimed; detects 1e-9."""
    m = SMALL[name]
    composed = privacy_loss_supremum(m).epsilon
    assert composed == pytest.approx(products(m.inner.table().masses, m.k), rel=1e-12)
    assert composed == pytest.approx(m.k * m.inner.table().epsilon, rel=1e-12)
    assert composed <= m.guarantee().epsilon * (1 + 1e-15)


@mechanism
class _Miscounted(Sampled):
    """Sends k values and claims the loss of k - 1."""

    def guarantee(self):
        inner = self.inner.guarantee()
        return dataclasses.replace(inner, epsilon=(self.k - 1) * inner.epsilon)


def test_a_value_that_nobody_paid_for_is_seen():
    twin = _Miscounted(GridSquareWave(0.5, inputs=2), dim=3, k=2)
    assert privacy_loss_supremum(twin).epsilon == pytest.approx(2 * twin.guarantee().epsilon)


@every_epsilon
@pytest.mark.parametrize("dim", range(1, 6))
def test_sign_vectors_against_every_corner_and_every_report(dim, epsilon):
    """Against the definition summed over all v: no Poisson-binomial, no symmetry. Detects 1e-9."""
    masses = np.array([table(epsilon, corner) for corner in signs(dim)])
    loss = np.log(masses.max(0) / masses.min(0)).max()
    assert privacy_loss_supremum(DuchiVector(epsilon, dim)).epsilon == pytest.approx(loss, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 0.61, 0.62, 1.0, 4.0, 16.0])
def test_hybrid_against_a_grid(epsilon):
    """Both branches, 33 records and 4001 reports: nothing on the grid loses more. Detects 1e-9 of epsilon."""
    m = Hybrid(epsilon)
    found = privacy_loss_supremum(m)
    with float64_on_cpu():
        values = np.append(np.linspace(-1, 1, 3999) * float(m.piecewise.bound) * 0.999999, [-1.0, 1.0])
        branch, value = np.repeat([0, 1], len(values)), np.tile(values, 2)
        records = np.linspace(-1, 1, 33)
        logs = np.asarray(jax.vmap(lambda x: m.log_density(BranchReport(branch, value), x))(records))
    possible = np.isfinite(logs)
    assert (possible.any(0) == possible.all(0)).all()  # no report is possible under some records alone
    logs = logs[:, possible.all(0)]
    loss = (logs.max(0) - logs.min(0)).max()
    assert loss <= found.epsilon * (1 + 1e-9)
    assert found.epsilon == pytest.approx(epsilon, rel=1e-9)
    assert loss == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("weights", [[1.0, 1.0], [1.0, 3.0]])
def test_features_against_enumeration(weights):
    """All pairs of records and all reports of two features in three bins, in integers; detects 1e-12."""
    m = FeatureRR(2.0, 3, weights)
    tables = [m.coordinate(j).table().masses for j in range(2)]
    best = Fraction(0)
    for y in itertools.product(range(3), repeat=2):
        masses = [
            math.prod(int(tables[j][t][y[j]]) for j, t in enumerate(bins))
            for bins in itertools.product(range(3), repeat=2)
        ]
        best = max(best, Fraction(max(masses), min(masses)))
    found = privacy_loss_supremum(m)
    assert found.epsilon == pytest.approx(math.log(best), rel=1e-12)
    assert found.epsilon == pytest.approx(m.guarantee().epsilon, rel=1e-12)
    with float64_on_cpu():
        loss = m.log_density(jnp.array(found.y), jnp.array(found.x)) - m.log_density(
            jnp.array(found.y), jnp.array(found.x_other)
        )
    assert float(loss) == pytest.approx(found.epsilon, rel=1e-9)


def test_a_level_of_a_menu_is_asked_alone():
    """The loss and the delta of one level are those of its own table, to the last digit."""
    levels = [GeneralizedRR(epsilon, 4) for epsilon in (0.5, 2.0, 1.0)]
    both = menu(levels)
    for level, alone in enumerate(levels):
        assert privacy_loss_supremum(both.at(level)) == privacy_loss_supremum(alone)
        assert hockey_stick(both.at(level), 0.3) == hockey_stick(alone, 0.3)
        assert privacy_loss_supremum(both.at(level)).epsilon <= both.at(level).guarantee().epsilon
    with pytest.raises(ValueError, match="level"):
        privacy_loss_supremum(both.at(np.array([0, 1])))
    assert isinstance(both, Discrete)


def test_sampled_inherits_the_supremum_of_any_inner_mechanism():
    """k times it, Hybrid's pairs and integer tables included; detects 1e-9."""
    for inner in (Hybrid(0.7), ThreeOutputs(1.2), GridPiecewise(0.4), LPOptimal(1.0)):
        found = privacy_loss_supremum(Sampled(inner, 9, 3))
        assert found.epsilon == pytest.approx(3 * inner.guarantee().epsilon, rel=1e-9)
    assert privacy_loss_supremum(Sampled(broken.Overspent(1.05), 9, 3)).epsilon == pytest.approx(3.15)


class _Strangers:
    """Two numbers, each by a law of its own, ``sent`` of them reported: of no class that verification knows."""

    def __init__(self, sent):
        self.laws = Duchi(0.25), Duchi(0.75)
        self.sent = sent

    def coordinate(self, j):
        return self.laws[j]

    def domain(self):
        return Box(2)

    def codomain(self):
        return Subset(2, self.sent, Finite((-1.0, 1.0)))


@pytest.mark.parametrize(("sent", "epsilon"), [(2, 1.0), (1, 0.75)])
def test_coordinates_of_different_laws_add_up_to_as_many_as_are_sent(sent, epsilon):
    m = _Strangers(sent)
    found = privacy_loss_supremum(m)
    assert found.epsilon == pytest.approx(epsilon, rel=1e-9)
    assert len(found.x) == len(found.y) == sent
    assert arithmetic(m).epsilon == pytest.approx(epsilon, abs=1e-5)


# --- Findings of a review, kept out ------------------------------------------------------------------------------


@mechanism
class _Gaussian(Numeric):
    """Noise whose loss grows with the report: no epsilon covers it."""

    epsilon: Scalar

    def from_uniform(self, u, x):
        return clip(x) + 2.0 * jax.scipy.stats.norm.ppf(u)

    def log_density(self, y, x):
        return jax.scipy.stats.norm.logpdf(y, clip(x), 2.0)

    def codomain(self):
        return Interval(-math.inf, math.inf, breaks=lambda x: clip(x)[None])

    def estimate(self, y):
        return jnp.asarray(y)

    def mean(self, x):
        return clip(x)

    def variance(self, x):
        return clip(x)

    def proof(self):
        return "none"


def test_a_loss_that_grows_without_end_is_infinite():
    assert privacy_loss_supremum(_Gaussian(1.0)).epsilon == math.inf
    assert privacy_loss_supremum(Laplace(1.0)).epsilon == pytest.approx(1.0, rel=1e-12)


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
            return super().log_density(y, x) + jnp.where(jnp.asarray(y)[0] < 0, 2 * jnp.asarray(x)[0], 0.0)

    assert privacy_loss_supremum(Lopsided(1.0, 3)).epsilon == pytest.approx(5.0)


@pytest.mark.parametrize("epsilon", [0.0005, 0.001, 0.002])
def test_laplace_of_tiny_budgets_keeps_its_tails(epsilon):
    """1 - e^(-eps/2) at 0, to 1e-6 of it: panels go on until nothing is left."""
    assert hockey_stick(Laplace(epsilon), 0.0) == pytest.approx(-math.expm1(-epsilon / 2), rel=1e-6)


@pytest.mark.parametrize("epsilon", [701.0, math.inf, math.nan])
def test_a_budget_that_overflows_is_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon must be in"):
        hockey_stick(Duchi(1.0), epsilon)
