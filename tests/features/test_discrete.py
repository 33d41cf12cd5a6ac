"""Mechanisms on integer tables in JAX: against laws written out naively, against continuous
relatives in closed form, and against the linear program's own constraints.

Moments are recomputed here from the integers in float64; the mechanisms compute them in float32.
"""

import decimal
import math
from fractions import Fraction
from functools import partial

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.core.spaces import Finite
from ldp_jax.features import (
    Discrete,
    FeatureRR,
    GeneralizedRR,
    GridPiecewise,
    GridSquareWave,
    LPOptimal,
    SquareWave,
    importance_weights,
    lp_optimal,
    menu,
)
from tests.core.test_integer_tables import random_table

WORDS = 2**32

densities = jax.jit(lambda m, y, x: m.log_density(y, x))
moments = jax.jit(lambda m, x: (m.mean(x), m.variance(x)))


def key(seed):
    return jax.random.key(seed)


def law(table):
    return table.masses.astype(np.float64) / WORDS


def table_moments(table, x):
    """Mean and variance of the estimate in float64, for records x in [-1, 1] rounded to the grid at
    random.
    """
    p = law(table)
    v = table.values.astype(np.float64)
    mean = p @ v
    second = p @ v**2
    mixed = lambda column: np.interp(x, np.linspace(-1, 1, table.inputs), column)
    return mixed(mean), mixed(second) - mixed(mean) ** 2


def exact_log(ratio):
    with decimal.localcontext(prec=50):
        return (decimal.Decimal(ratio.numerator) / decimal.Decimal(ratio.denominator)).ln()


def tables_of_one_menu(encoding, size=None, inputs=5):
    """Levels with 2, 4, 9 and 40 outputs: their thresholds are padded to 63."""
    return [random_table(inputs, k, size=size, encoding=encoding, seed=k) for k in (2, 4, 9, 40)]


def test_levels_and_users_under_vmap_are_a_loop():
    """And each level is the mechanism of its own table alone."""
    tables = tables_of_one_menu("grid")
    m = Discrete.of(*tables)
    assert m.search.shape == (20, 3 * 64)
    levels = np.arange(12) % 4
    xs = np.linspace(-1.2, 1.2, 12, dtype=np.float32)
    xs[3] = np.nan
    ask = lambda m, k, x: (y := m.privatize(k, x), *moments(m, x), densities(m, y, x))
    each = jax.jit(jax.vmap(lambda level, k, x: ask(m.at(level), k, x)))
    ys, *got = each(levels, jax.random.split(key(5), 12), xs)
    alone = [Discrete.of(table) for table in tables]
    for level, table in enumerate(tables):
        assert m.table(level) == m.at(level).table() == alone[level].table() == table
        assert m.at(level).codomain() == Finite(tuple(range(table.outputs)))
        assert m.at(level).guarantee() == alone[level].guarantee()
    assert np.isfinite(got[-1]).all()
    one = jax.jit(ask)
    keys = jax.random.split(key(5), 12)
    some = np.flatnonzero(levels % 2)  # two programs of four
    want = np.array([one(alone[levels[i]], keys[i], xs[i]) for i in some]).T
    assert np.asarray(ys)[some].tolist() == want[0].tolist()
    np.testing.assert_allclose(np.array(got)[:, some], want[1:], rtol=1e-5, atol=1e-5)
    # with the array of levels as it is, elementwise
    np.testing.assert_allclose(moments(m.at(levels), xs), got[:2], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got[-1], densities(m.at(levels), ys, xs), rtol=1e-6)


def test_the_guarantee_of_several_levels_is_the_largest():
    m = menu([GeneralizedRR(epsilon, 4) for epsilon in (0.5, 2.0, 1.0)])
    alone = [m.at(level).guarantee().epsilon for level in range(3)]
    assert alone == [m.table(level).epsilon for level in range(3)]
    assert m.at(jnp.array([0, 2, 2])).guarantee().epsilon == alone[2]
    assert m.at(jnp.array([[0, 1], [2, 2]])).guarantee().epsilon == alone[1]
    guarantee = m.guarantee()
    assert guarantee.epsilon == alone[1]
    assert (guarantee.arithmetic, guarantee.status) == ("exact", "proved")
    # Levels beyond are the ends, of any integer of the host; sums of exact losses are rounded up.
    assert [int(m.at(np.array(level)).level) for level in (-7, 0, 3, 2**32 + 1)] == [0, 0, 2, 2]
    assert Fraction((guarantee + guarantee).epsilon) >= 2 * Fraction(m.table(1).epsilon)
    alike = menu([GeneralizedRR(0.001, 64)] * 3).at(np.arange(3))
    y = jax.jit(lambda key: alike.draw(key, np.float32(5.0)))(key(0))
    assert len(set(y.tolist())) > 1  # one word would give one output: the laws are the same


@pytest.mark.parametrize("encoding", ["grid", "bins", "category"])
def test_densities_are_the_masses(encoding):
    tables = tables_of_one_menu(encoding)
    m = Discrete.of(*tables)
    place = np.arange(5.0)
    rows = {"grid": place / 2 - 1, "bins": (place + 0.5) / 5, "category": place}[encoding]
    for level, table in enumerate(tables):
        ys = np.append(np.arange(41), [-1, 10**6])  # one program for all levels
        got = np.asarray(densities(m.at(level), ys[None], rows[:, None]))
        np.testing.assert_allclose(
            got[:, : table.outputs], np.log(law(table)), rtol=1e-6, atol=1e-6
        )
        assert np.isneginf(got[:, table.outputs :]).all()
        assert len(m.at(level).codomain().values) == table.outputs
    widest = max(table.outputs for table in tables)
    assert len(m.at(np.arange(len(tables))).codomain().values) == widest
    if encoding == "grid":
        assert np.isneginf(densities(m.at(2), np.float32([0.5, np.nan]), 0.0)).all()
        # A quarter of the way from row 2 to row 3:
        mixed = densities(m.at(2), np.arange(9), np.float32(0.125))
        np.testing.assert_allclose(np.exp(mixed), [0.75, 0.25] @ law(tables[2])[2:4], rtol=1e-6)


@pytest.mark.parametrize(("epsilon", "categories"), [(0.1, 3), (16.0, 64)])
def test_generalized_rr(epsilon, categories):
    m = GeneralizedRR(epsilon, categories)
    table = m.table()
    p = math.exp(epsilon) / (math.exp(epsilon) + categories - 1)
    q = (1 - p) / (categories - 1)
    same = np.eye(categories, dtype=bool)
    expected = np.where(same, p, q)
    np.testing.assert_allclose(law(table), expected, atol=(categories + 2) / WORDS)
    room = 2 * math.exp(epsilon) * categories**2 / WORDS
    assert epsilon - room <= m.guarantee().epsilon <= epsilon
    # the inverse of the integer table: unbiased up to the float32 in which the values are stored
    values = table.values.astype(np.float64)
    mean = law(table) @ values
    np.testing.assert_allclose(mean, same, atol=2.0**-23 * np.abs(values).max())
    variance = law(table) @ values**2 - mean**2
    closed = expected * (1 - expected) / (p - q) ** 2
    np.testing.assert_allclose(variance, closed, rtol=1e-4, atol=1e-7)


GRIDS = {
    "square wave": GridSquareWave,
    "square wave, debiased": partial(GridSquareWave, debias=True),
    "piecewise": GridPiecewise,
    "piecewise, t = 1": partial(GridPiecewise, t=1.0),
}


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize(("epsilon", "inputs"), [(0.1, 129), (20.0, 2)])
def test_two_levels_and_a_linear_mean(name, epsilon, inputs):
    """Two masses, but for what a row lacks of 2^32: fewer units than outputs, in the high entries
    (from the left, as far as their boxes have room), and at small budgets in a low one.
    """
    table = GRIDS[name](epsilon, inputs).table()
    outputs = table.outputs
    wide = outputs - inputs + 1  # outputs of high mass
    offset = np.arange(outputs) - np.arange(inputs)[:, None]
    inside = (offset >= 0) & (offset < wide)
    weights = np.exp(epsilon) * wide + inputs - 1
    for masses, weight in ((table.masses[~inside], 1.0), (table.masses[inside], np.exp(epsilon))):
        assert np.ptp(masses.astype(np.int64)) <= outputs
        room = 1 if weight == 1 else 1 + weight + outputs
        assert abs(masses.min() - WORDS * weight / weights) <= room
    if epsilon >= 1:
        assert len(np.unique(table.masses[~inside])) == 1
    assert table.loss <= Fraction(np.exp(epsilon)) * (1 + Fraction(1, 10**15))
    grid = np.linspace(-1, 1, inputs)
    contraction = wide * math.expm1(epsilon) / weights if name == "square wave" else 1.0
    tolerance = 4e-8 * float(np.abs(table.values).max())
    mean = law(table) @ table.values.astype(np.float64)
    np.testing.assert_allclose(mean, contraction * grid, atol=tolerance)
    # without the float32 of the stored values: what integers do to an exactly linear mean
    exact = law(table) @ (np.arange(outputs) - (outputs - 1) / 2) * (2 / (inputs - 1))
    centred = exact - (exact[0] + exact[-1]) / 2
    tolerance = 1e-8 if epsilon >= 1 else 2 * outputs / WORDS  # a low entry takes what is lacking
    np.testing.assert_allclose(centred, -centred[0] * grid, atol=tolerance)


@pytest.mark.parametrize("inputs", [2, 5, 12])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_windows_of_grids_are_as_wide_as_on_the_line(epsilon, inputs):
    """2b of the square wave and 2/t of the piecewise mechanism; without t, the best of all.

    The second moment is linear between two points of the grid, so the variance is largest on the
    grid or half-way: that of the piecewise mechanism is a parabola with its top at 0.
    """
    on_grid = lambda half: max(0, round(half * (inputs - 1) / 2 - 0.5))
    reach = lambda m: (m.table().outputs - inputs) // 2
    assert reach(GridSquareWave(epsilon, inputs)) == on_grid(float(SquareWave(epsilon).b))
    for t in (0.3, 1.0, 1.7, 6.0):
        assert reach(GridPiecewise(epsilon, inputs, t=t)) == on_grid(1 / t)

    def worst(m):
        table = m.table()
        second = law(table) @ table.values.astype(np.float64) ** 2
        at = np.linspace(-1, 1, 2 * inputs - 1)
        return (np.interp(at, at[::2], second) - at**2).max()

    others = [
        worst(GridPiecewise(epsilon, inputs, t=(inputs - 1) / (2 * some + 1)))
        for some in range(2 * inputs)
    ]
    assert worst(GridPiecewise(epsilon, inputs)) <= min(others) * (1 + 1e-6)


def paper_law(epsilon, k):
    """HeteroRR eq. 8 and 9, written out: Pr(u/k | t/k) = exp(-|u - t| / (k sigma)) / C_t."""
    sigma = (k - 1) / (k * epsilon)
    weights = [[math.exp(-abs(u - t) / (k * sigma)) for u in range(k)] for t in range(k)]
    return np.array([[weight / sum(row) for weight in row] for row in weights])


def test_every_feature_has_its_share():
    """Four features of budgets 1/2, 1/2, 1, 2: tables, densities and losses; the rest is in the
    contract suite.
    """
    m = FeatureRR(4.0, 6, [1.0, 1.0, 2.0, 4.0])
    assert m == FeatureRR(4.0, 6, np.array([0.25, 0.25, 0.5, 1.0]))
    assert FeatureRR(3.0, 8, dim=5) == FeatureRR(3.0, 8, np.full(5, 0.2))
    laws = [paper_law(epsilon, 6) for epsilon in (0.5, 0.5, 1.0, 2.0)]
    values = np.arange(1, 7) / 6
    for j, one in enumerate(laws):
        table = m.inner.table(int(m.inner.level[j]))
        np.testing.assert_allclose(law(table), one, atol=8 / WORDS)
        np.testing.assert_array_equal(table.values, np.float32(values))
    x = np.float32([0.05, 0.95, 0.5, 0.2])  # bins 1, 6, 3, 2
    rows = [one[bin] for one, bin in zip(laws, (0, 5, 2, 1), strict=True)]
    for y in ([0, 0, 0, 0], [5, 4, 3, 2], [1, 5, 0, 1]):
        expected = sum(math.log(row[u]) for row, u in zip(rows, y, strict=True))
        np.testing.assert_allclose(densities(m, np.array(y), x), expected, rtol=1e-5)
    np.testing.assert_allclose(m.estimate(jnp.array([0, 5, 2, 1])), values[[0, 5, 2, 1]], rtol=1e-6)
    losses = [m.coordinate(j).guarantee().epsilon for j in range(4)]
    np.testing.assert_allclose(losses, [0.5, 0.5, 1.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(m.guarantee().epsilon, sum(losses), rtol=1e-15)
    assert len(m.inner.names) == 3  # one table a distinct budget


@hypothesis.settings(max_examples=10)
@hypothesis.given(
    st.floats(0.1, 40.0),
    st.lists(st.floats(1e-3, 10.0), min_size=3, max_size=12),
    st.integers(2, 12),
)
@hypothesis.example(40.0, [1.0, 1.0, 0.0625], 2)
def test_the_features_together_never_lose_more_than_epsilon(epsilon, weights, bins):
    """Exactly: the product of the losses, integer ratios, against e^epsilon in 50 digits."""
    hypothesis.assume(epsilon * max(weights) / sum(weights) < 20)
    m = FeatureRR(epsilon, bins, weights)
    tables = [m.inner.table(level) for level in m.inner.level.tolist()]
    lost = sum(exact_log(table.loss) for table in tables)
    assert lost <= decimal.Decimal(epsilon)
    # Near epsilon 20 the least mass of a feature is a few units of 2^-32, and rounding it up is
    # seen.
    paid = epsilon * np.array(weights) / sum(weights)
    room = 2e-3 * paid + 2 * (np.exp(paid) + bins - 1) / 2**32
    assert lost >= decimal.Decimal(epsilon) - decimal.Decimal(room.sum())
    assert m.guarantee().epsilon <= epsilon
    # printed and true, up to float64's own sum
    assert decimal.Decimal(m.guarantee().epsilon) >= lost * (1 - decimal.Decimal("1e-14"))
    each = np.array([table.epsilon for table in tables])
    assert (np.abs(each - paid) <= room).all()


def test_importance_weights_by_hand():
    """Equation 7: theta_i = gamma alpha_i + (1 - gamma) [beta_min + (beta_max - beta_i)], then
    normalised.
    """
    theta = importance_weights([0.5, 0.3, 0.2], [0.1, 0.6, 0.3], 0.25)
    # 0.125 + 0.75 (0.1 + 0.5); 0.075 + 0.75 (0.1 + 0); 0.05 + 0.75 (0.1 + 0.3)
    by_hand = np.array([0.575, 0.15, 0.35])
    np.testing.assert_allclose(theta, by_hand / 1.075, rtol=1e-12)
    np.testing.assert_allclose(theta.sum(), 1.0, rtol=1e-15)
    np.testing.assert_allclose(importance_weights([0.0, 9.0], [0.2, 0.2], 0.0), [0.5, 0.5])


FINE = np.linspace(-1, 1, 2001)
WORST = {0.7: 8.18, 1.0: 4.00, 2.0: 0.875, 3.0: 0.313, 5.0: 0.066}  # of the variance, as promised


@pytest.mark.parametrize("epsilon", [*lp_optimal.SHIPPED, 0.7])
def test_the_programs_constraints_hold_in_the_table(epsilon):
    """On 2001 records: the program imposes its variance at 81, so that it could rise between
    them.
    """
    table = LPOptimal(epsilon).table()
    assert table.inputs == 11
    mean, variance = table_moments(table, FINE)
    np.testing.assert_allclose(mean, FINE, atol=1e-6)
    assert variance.max() <= WORST.get(epsilon, math.inf)
    assert table.epsilon <= epsilon
    assert exact_log(table.loss) <= decimal.Decimal(epsilon)
    assert table.epsilon >= 0.99 * epsilon  # an optimum uses its budget
    bound = 1.5 / math.tanh(epsilon / 2)
    assert np.abs(table.values).max() <= bound * (1 + 1e-6)
    np.testing.assert_allclose(table.values, -table.values[::-1], rtol=1e-6, atol=1e-6 * bound)
    assert (np.diff(table.values) > 0).all()
    # columns are dropped below 1e-9, and none is made of a single word everywhere
    assert (table.masses.max(0) >= 4).all()


def test_the_shipped_table_is_the_solved_one():
    """Solvers may find different optima of one program: they agree in the variance that is
    optimised.
    """
    epsilon = 5.0
    solved, y = lp_optimal.solve(epsilon, lp_optimal.INPUTS, lp_optimal.OUTPUTS)
    at = np.linspace(0, 10, 81)
    best = (np.interp(at, np.arange(11), solved @ y**2) - (at / 5 - 1) ** 2).max()
    made = lp_optimal.rounded(epsilon, solved, y)
    for table in (LPOptimal(epsilon).table(), made):
        _, variance = table_moments(table, np.linspace(-1, 1, 81))
        np.testing.assert_allclose(variance.max(), best, rtol=1e-6)
    assert made.epsilon <= epsilon
