"""Mechanisms on integer tables in JAX: against laws written out naively, against continuous
relatives in closed form, and against the linear program's own constraints.

Moments are recomputed here from the integers in float64; the mechanisms compute them in float32.
"""

import dataclasses
import decimal
import math
from fractions import Fraction

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
    RandomizedFeatures,
    Sampled,
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
    at = (np.asarray(x, np.float64) + 1) / 2 * (table.inputs - 1)
    low = np.minimum(at.astype(int), table.inputs - 2)
    f = at - low
    mixed = lambda column: (1 - f) * column[low] + f * column[low + 1]
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
    one, keys, some = (
        jax.jit(ask),
        jax.random.split(key(5), 12),
        np.flatnonzero(levels % 2),
    )  # two programs of four
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
    assert (guarantee.epsilon, guarantee.arithmetic, guarantee.status) == (
        alone[1],
        "exact",
        "proved",
    )
    # Levels beyond are the ends, of any integer of the host; sums of exact losses are rounded up.
    assert [int(m.at(np.array(level)).level) for level in (-7, 0, 3, 2**32 + 1)] == [0, 0, 2, 2]
    assert Fraction((guarantee + guarantee).epsilon) >= 2 * Fraction(m.table(1).epsilon)
    alike = menu([GeneralizedRR(0.001, 64)] * 3).at(np.arange(3))
    y = jax.jit(lambda key: alike.draw(key, np.float32(5.0)))(key(0))
    assert len(set(y.tolist())) > 1  # one word would give one output: the laws are the same

    def ask(level):
        with pytest.raises(ValueError, match="concrete"):
            m.at(level).guarantee()
        with pytest.raises(ValueError, match="one concrete level"):
            m.at(level).table()
        return level

    jax.jit(ask)(1)


@pytest.mark.parametrize("encoding", ["grid", "bins", "category"])
def test_densities_are_the_masses(encoding):
    tables = tables_of_one_menu(encoding)
    m = Discrete.of(*tables)
    for level, table in enumerate(tables):
        rows = {
            "grid": np.linspace(-1, 1, 5),
            "bins": (np.arange(5) + 0.5) / 5,
            "category": np.arange(5.0),
        }[encoding]
        ys = np.append(np.arange(41), [-1, 10**6])  # one program for all levels
        got = np.asarray(densities(m.at(level), ys[None], rows[:, None]))
        np.testing.assert_allclose(
            got[:, : table.outputs], np.log(law(table)), rtol=1e-6, atol=1e-6
        )
        assert np.isneginf(got[:, table.outputs :]).all()
    if encoding == "grid":
        assert np.isneginf(densities(m.at(2), np.float32([0.5, np.nan]), 0.0)).all()
        mixed = densities(
            m.at(2), np.arange(9), np.float32(0.125)
        )  # a quarter of the way from row 2 to row 3
        np.testing.assert_allclose(np.exp(mixed), [0.75, 0.25] @ law(tables[2])[2:4], rtol=1e-6)


@pytest.mark.parametrize(("epsilon", "categories"), [(0.1, 3), (16.0, 64)])
def test_generalized_rr(epsilon, categories):
    m = GeneralizedRR(epsilon, categories)
    table = m.table()
    p = math.exp(epsilon) / (math.exp(epsilon) + categories - 1)
    q = (1 - p) / (categories - 1)
    expected = np.full((categories, categories), q)
    np.fill_diagonal(expected, p)
    np.testing.assert_allclose(law(table), expected, atol=(categories + 2) / WORDS)
    assert m.guarantee().epsilon <= epsilon
    assert (
        m.guarantee().epsilon >= epsilon - 2 * math.exp(epsilon) * categories * categories / WORDS
    )
    # the inverse of the integer table: unbiased up to the float32 in which the values are stored
    largest = np.abs(table.values).max()
    unbiased = law(table) @ table.values.astype(np.float64)
    np.testing.assert_allclose(unbiased, np.eye(categories), atol=2.0**-23 * largest)

    variance = law(table) @ table.values.astype(np.float64) ** 2 - unbiased**2
    closed = np.full_like(expected, q * (1 - q) / (p - q) ** 2)
    np.fill_diagonal(closed, p * (1 - p) / (p - q) ** 2)
    np.testing.assert_allclose(variance, closed, rtol=1e-4, atol=1e-7)


def window(table):
    """Where row i has its high mass: outputs i, ..., i + 2 reach."""
    reach = (table.outputs - table.inputs) // 2
    offset = np.arange(table.outputs) - np.arange(table.inputs)[:, None]
    return (offset >= 0) & (offset <= 2 * reach), reach


GRIDS = {
    "square wave": lambda e, n: GridSquareWave(e, n),
    "square wave, debiased": lambda e, n: GridSquareWave(e, n, debias=True),
    "piecewise": lambda e, n: GridPiecewise(e, n),
    "piecewise, t = 1": lambda e, n: GridPiecewise(e, n, t=1.0),
}


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize(("epsilon", "inputs"), [(0.1, 129), (20.0, 2)])
def test_two_levels_and_a_linear_mean(name, epsilon, inputs):
    """Two masses, but for what a row lacks of 2^32: fewer units than outputs, in the high entries
    (from the left, as far as their boxes have room), and at small budgets in a low one.
    """
    table = GRIDS[name](epsilon, inputs).table()
    inside, reach = window(table)
    low = table.masses[~inside].astype(np.int64)
    high = table.masses[inside].astype(np.int64)
    assert low.max() - low.min() <= table.outputs
    assert high.max() - high.min() <= table.outputs
    if epsilon >= 1:
        assert low.min() == low.max()
    weights = np.exp(epsilon) * (2 * reach + 1) + inputs - 1
    assert abs(low.min() - WORDS / weights) <= 1
    assert (
        abs(high.min() - WORDS * np.exp(epsilon) / weights) <= 1 + np.exp(epsilon) + table.outputs
    )
    assert table.loss <= Fraction(np.exp(epsilon)) * (1 + Fraction(1, 10**15))
    grid = np.linspace(-1, 1, inputs)
    mean = law(table) @ table.values.astype(np.float64)
    scale = float(np.abs(table.values).max())
    contraction = (2 * reach + 1) * math.expm1(epsilon) / weights
    if name == "square wave":
        np.testing.assert_allclose(mean, contraction * grid, atol=4e-8 * scale)
    else:
        np.testing.assert_allclose(mean, grid, atol=4e-8 * scale)
    # without the float32 of the stored values: what integers do to an exactly linear mean
    places = np.arange(table.outputs) - (table.outputs - 1) / 2
    exact = law(table) @ places * (2 / (inputs - 1))
    centred = exact - (exact[0] + exact[-1]) / 2
    tolerance = (
        1e-8 if epsilon >= 1 else 2 * table.outputs / WORDS
    )  # where a low entry takes what is lacking
    np.testing.assert_allclose(centred, -centred[0] * grid, atol=tolerance)


def paper_law(epsilon, k):
    """HeteroRR eq. 8 and 9, written out: Pr(u/k | t/k) = exp(-|u - t| / (k sigma)) / C_t."""
    sigma = (k - 1) / (k * epsilon)
    table = []
    for t in range(1, k + 1):
        weights = [math.exp(-abs(u - t) / (k * sigma)) for u in range(1, k + 1)]
        normalisation = sum(weights)
        table.append([weight / normalisation for weight in weights])
    return np.array(table)


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
    lost = sum(
        (exact_log(m.inner.table(level).loss) for level in m.inner.level.tolist()),
        decimal.Decimal(0),
    )
    assert lost <= decimal.Decimal(epsilon)
    # Near epsilon 20 the least mass of a feature is a few units of 2^-32, and rounding it up is
    # seen.
    paid = epsilon * np.array(weights) / sum(weights)
    room = 2e-3 * paid + 2 * (np.exp(paid) + bins - 1) / 2**32
    assert lost >= decimal.Decimal(epsilon) - decimal.Decimal(room.sum())
    assert m.guarantee().epsilon <= epsilon
    # printed and true, up to float64's own sum
    assert decimal.Decimal(m.guarantee().epsilon) >= lost * (1 - decimal.Decimal("1e-14"))
    each = np.array([m.inner.table(level).epsilon for level in m.inner.level.tolist()])
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


WORST = {1.0: 4.00, 2.0: 0.875, 3.0: 0.313, 5.0: 0.066}
"""Of the variance, as promised."""


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
    second = solved @ y**2
    at = np.arange(81) / 8
    low = np.minimum(at.astype(int), 9)
    best = ((1 - at + low) * second[low] + (at - low) * second[low + 1] - (at / 5 - 1) ** 2).max()
    shipped = LPOptimal(epsilon).table()
    _, variance = table_moments(shipped, np.linspace(-1, 1, 81))
    np.testing.assert_allclose(variance.max(), best, rtol=1e-6)
    made = lp_optimal.rounded(epsilon, solved, y)
    np.testing.assert_allclose(
        table_moments(made, np.linspace(-1, 1, 81))[1].max(), best, rtol=1e-6
    )
    assert made.epsilon <= epsilon


def test_features_never_share_a_word():
    """Levels that do not match the features would broadcast: refused at construction, and where it
    is by-passed.
    """
    m = FeatureRR(1.0, 4, dim=2)
    by_passed = jax.tree.map(lambda leaf: leaf, m)
    object.__setattr__(by_passed, "dim", 1)
    for ask, words in (
        (lambda: RandomizedFeatures(m.inner, 1), "a level for each of 1 features"),
        (lambda: RandomizedFeatures(m.inner, 3), "a level for each of 3 features"),
        (by_passed.guarantee, "a level for each of 1 features"),
        (lambda: by_passed.privatize(key(0), jnp.zeros(1)), "a level for each of 1 features"),
        (lambda: RandomizedFeatures(GeneralizedRR(1.0, 3).at(jnp.zeros(2)), 2), "on bins"),
    ):
        with pytest.raises(ValueError, match=words):
            ask()


TWO = menu([GeneralizedRR(epsilon, 4) for epsilon in (0.5, 2.0)])
BINS = FeatureRR(3.0, 4, [1.0, 2.0])
GRID = random_table(5, 4, encoding="grid")
BY_EPSILON = (
    lambda e: GeneralizedRR(e, 3),
    lambda e: GridSquareWave(e, 5),
    lambda e: GridPiecewise(e, 5),
    LPOptimal,
)
REFUSED = [
    (lambda: GeneralizedRR(1.0, 513), "categories must be a whole number"),
    (lambda: GridSquareWave(1.0, 1), "inputs must be a whole number"),
    (lambda: GridPiecewise(1.0, 5.0), "inputs must be a whole number"),
    (lambda: GridPiecewise(1.0, 9, t=math.inf), "t must be"),
    (lambda: FeatureRR(1.0, 4), "either weights"),
    (lambda: FeatureRR(1.0, 4, [1.0], dim=1), "either weights"),
    (lambda: FeatureRR(1.0, 513, dim=2), "bins must be a whole number"),
    (lambda: FeatureRR(1.0, 4, dim=0), "dim must be a whole number"),
    (lambda: FeatureRR(1.0, 4, [1.0, 0.0]), "weights must be finite"),
    (lambda: FeatureRR(1.0, 4, []), r"weights must be \[d\]"),
    (lambda: FeatureRR(30.0, 4, [1.0, 99.0]), "epsilon must be"),
    (lambda: type(BINS)(BINS.inner.at(jnp.eye(2)), 2).privatize(key(0), jnp.zeros(2)), "share"),
    (lambda: importance_weights([1.0], [1, 2]), "both be"),
    (lambda: importance_weights([1.0, math.nan], [0, 1]), "alpha must be finite"),
    (lambda: importance_weights([1, 2], [0.0, -1.0]), "beta must be finite"),
    (lambda: importance_weights([1, 2], [0, 1], 1.5), "gamma must be in"),
    (
        lambda: importance_weights([0.0, 2.0], [0.5, 0.5], 1.0),
        r"features \[0\] would get no budget",
    ),
    (lambda: LPOptimal(1.0, inputs=1), "inputs must be a whole number"),
    (lambda: LPOptimal(1.0, outputs=40), "outputs must be a whole number"),
    (lambda: LPOptimal(7.0), "use more inputs, or OptimalPiecewise"),
    (lambda: TWO.table(2), r"level must be a whole number in \[0, 1\]"),
    (lambda: TWO.at(jnp.array([0, 1])).table(), "say which"),
    *((lambda make=make: make(jnp.array([1.0, 2.0])), "one number") for make in BY_EPSILON),
    *(
        (lambda make=make: jax.jit(lambda e: make(e).thresholds)(1.0), "concrete")
        for make in BY_EPSILON
    ),
    (Discrete.of, "at least one"),
    (lambda: menu([]), "at least one"),
    (lambda: Discrete.of(GRID, random_table(6, 4, encoding="grid")), "must agree"),
    (lambda: Discrete.of(GRID, random_table(5, 4, encoding="bins")), "must agree"),
    (lambda: TWO.at(jnp.array([0, 1])).privatize(key(0), 1), "share"),
    (lambda: Sampled(BINS.coordinate(0), 3, 1), r"mechanism on \[-1, 1\]"),
]


@pytest.mark.usefixtures("untyped")
def test_bad_input_is_refused():
    for call, words in REFUSED:
        with pytest.raises(ValueError, match=words):
            call()


def test_a_search_of_other_thresholds_has_no_epsilon():
    """It would find reports by another law than the one that the epsilon is of."""
    m = Discrete.of(*tables_of_one_menu("category")).at(np.arange(4))
    assert m.guarantee().epsilon > 0
    for change in ({"search": m.search.at[2, 0].add(1)}, {"steps": m.steps - 1}):
        with pytest.raises(ValueError, match="those that Discrete.of makes"):
            dataclasses.replace(m, **change).guarantee()
