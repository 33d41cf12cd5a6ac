"""Mechanisms on integer tables in JAX: against the client's vectors, against laws written out naively, against
continuous relatives in closed form, and against the linear program's own constraints.

Moments are recomputed here from the integers in float64; the mechanisms compute them in float32.
"""

import decimal
import itertools
import json
import math
import pathlib
from fractions import Fraction

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import features
from ldp_jax.core import integer_tables, mechanism
from ldp_jax.core.integer_tables import Table
from ldp_jax.core.spaces import Finite
from ldp_jax.features import (
    Discrete,
    FeatureRR,
    GeneralizedRR,
    GeneralPiecewise,
    GridPiecewise,
    GridSquareWave,
    LPOptimal,
    OptimalPiecewise,
    RandomizedFeatures,
    Sampled,
    importance_weights,
    lp_optimal,
    menu,
)
from tests import stats
from tests.core.test_integer_tables import random_numbers, random_table

WORDS = 2**32
VECTORS = json.loads((pathlib.Path(__file__).parents[1] / "vectors" / "deployment.json").read_text())

words_of = jax.jit(lambda m, word, rounding, x: m.from_words(word, rounding, x))
draws = jax.jit(lambda m, key, x: m.draw(key, x))
densities = jax.jit(lambda m, y, x: m.log_density(y, x))
moments = jax.jit(lambda m, x: (m.mean(x), m.variance(x)))
estimates_of = jax.jit(jax.vmap(lambda m, y: m.estimate(y), in_axes=(None, 0)))


def key(seed):
    return jax.random.key(seed)


def law(table):
    return table.masses.astype(np.float64) / WORDS


def table_moments(table, x):
    """Mean and variance of the estimate in float64, for records x in [-1, 1] rounded to the grid at random."""
    p, v = law(table), table.values.astype(np.float64)
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


# --- Discrete ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VECTORS["tables"])
def test_the_clients_vectors_are_reproduced(name):
    table = Table.from_bytes(bytes.fromhex(VECTORS["tables"][name]["bytes"]))
    m = Discrete.of(table)
    assert m.table().digest.hex() == VECTORS["tables"][name]["digest"]
    reports = [report for report in VECTORS["reports"] if report["table"] == name]
    assert len(reports) > 5
    for report in reports:
        x = np.float32(float(report["x"]))
        row, part = integer_tables.split(jnp, x, table.inputs, table.encoding)
        assert (int(row), int(part)) == (report["row"], report["part"])
        word, rounding = np.uint32(report["word"]), np.uint32(report["rounding"])
        assert int(words_of(m, word, rounding, x)) == report["output"]
    columns = {name: [report[name] for report in reports] for name in ("word", "rounding", "x", "output")}
    xs = np.float32([float(x) for x in columns["x"]])
    got = words_of(m, np.uint32(columns["word"]), np.uint32(columns["rounding"]), xs)
    assert got.tolist() == columns["output"]


@pytest.mark.parametrize(("encoding", "size"), [("grid", None), ("bins", None), ("category", 3)])
def test_a_menu_there_and_back(encoding, size):
    tables = tables_of_one_menu(encoding, size)
    m = Discrete.of(*tables)
    assert m.thresholds.shape == (20, 63)
    for level, table in enumerate(tables):
        assert m.table(level) == Discrete.of(table).table() == table
        assert m.at(level).table() == table
        assert m.at(level).codomain() == Finite(tuple(range(table.outputs)))
    assert menu([Discrete.of(table) for table in tables]).at(0) == m


@pytest.mark.parametrize("encoding", ["grid", "bins", "category"])
def test_the_same_words_give_the_same_reports_as_the_client(encoding):
    """All records of test_tables' list, in each level of a menu; once more with x64, which changes nothing."""
    tables = tables_of_one_menu(encoding)
    x = random_numbers(20_000)
    words = np.random.default_rng(1).integers(0, WORDS, (2, len(x)), np.uint64).astype(np.uint32)
    m = Discrete.of(*tables)
    for level, table in enumerate(tables):
        expected = table.report(x, *words)
        np.testing.assert_array_equal(words_of(m.at(level), *words, x), expected)
    with jax.enable_x64(True):
        got = words_of(Discrete.of(*tables).at(3), *words, x.astype(np.float64))
        assert got.dtype == jnp.int32
        np.testing.assert_array_equal(got, expected)


def test_a_level_of_a_menu_is_the_mechanism_alone():
    tables = tables_of_one_menu("grid")
    m = Discrete.of(*tables)
    x = jnp.array([-1.0, -0.6, 0.0, 0.3, 0.77, 1.0, 2.0, jnp.nan])
    for level in (0, 3):
        one, many = Discrete.of(tables[level]), m.at(level)
        np.testing.assert_array_equal(draws(one, key(3), jnp.tile(x, 50)), draws(many, key(3), jnp.tile(x, 50)))
        ys = jnp.arange(-1, 43)[:, None]
        np.testing.assert_allclose(densities(one, ys, x), densities(many, ys, x), rtol=1e-6, atol=1e-6)
        for a, b in zip(moments(one, x), moments(many, x), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        outputs = jnp.arange(tables[level].outputs)
        np.testing.assert_array_equal(one.estimate(outputs), many.estimate(outputs))
        assert one.guarantee() == many.guarantee()


def test_levels_and_users_under_vmap_are_a_loop():
    tables = tables_of_one_menu("grid")
    m = Discrete.of(*tables)
    levels = jnp.arange(12) % 4
    xs = jnp.linspace(-1.2, 1.2, 12)
    each = lambda function: jax.jit(jax.vmap(function))
    ys = each(lambda level, k, x: m.at(level).privatize(k, x))(levels, jax.random.split(key(5), 12), xs)
    loop = [
        int(draws(m.at(int(level)), k, x))
        for level, k, x in zip(levels, jax.random.split(key(5), 12), xs, strict=True)
    ]
    assert ys.tolist() == loop
    want = [moments(m.at(int(level)), x) for level, x in zip(levels, xs, strict=True)]
    for got in (
        each(lambda level, x: moments(m.at(level), x))(levels, xs),
        moments(m.at(levels), xs),  # with the array of levels as it is, elementwise
    ):
        np.testing.assert_allclose(got, np.array(want).T, rtol=1e-5, atol=1e-5)
    got = each(lambda level, y, x: m.at(level).log_density(y, x))(levels, ys, xs)
    np.testing.assert_allclose(got, densities(m.at(levels), ys, xs), rtol=1e-6)
    assert jnp.isfinite(got).all()


def test_levels_beyond_the_menu_are_its_ends():
    m = Discrete.of(*tables_of_one_menu("bins"))
    assert [int(m.at(level).level) for level in (-7, -1, 0, 3, 4, 2**31 - 1)] == [0, 0, 0, 3, 3, 3]
    assert jax.vmap(lambda level: m.at(level).level)(jnp.array([-5, 2, 99])).tolist() == [0, 2, 3]
    for level in (-1, 4):
        with pytest.raises(ValueError, match="level must be a whole number in \\[0, 3\\]"):
            m.table(level)


def test_the_guarantee_of_several_levels_is_the_largest():
    m = menu([GeneralizedRR(epsilon, 4) for epsilon in (0.5, 2.0, 1.0)])
    alone = [m.at(level).guarantee().epsilon for level in range(3)]
    assert alone == [m.table(level).epsilon for level in range(3)]
    assert m.at(jnp.array([0, 2, 2])).guarantee().epsilon == alone[2]
    assert m.at(jnp.array([[0, 1], [2, 2]])).guarantee().epsilon == alone[1]
    guarantee = m.guarantee()
    assert (guarantee.epsilon, guarantee.arithmetic, guarantee.status) == (alone[1], "exact", "proved")
    with pytest.raises(ValueError, match="say which"):
        m.at(jnp.array([0, 1])).table()


def test_traced_tables_and_levels_have_no_guarantee():
    m = menu([GeneralizedRR(epsilon, 4) for epsilon in (0.5, 2.0)])

    def ask(level):
        with pytest.raises(ValueError, match="concrete"):
            m.at(level).guarantee()
        with pytest.raises(ValueError, match="one concrete level"):
            m.at(level).table()
        assert m.at(level).codomain() == Finite((0, 1, 2, 3))
        return level

    jax.jit(ask)(1)


def test_all_levels_and_all_tables_of_a_shape_are_one_program():
    """Tables are arguments: neither a level nor other masses, values or output counts trace."""
    traced = []

    @jax.jit
    def program(m, k, xs):
        traced.append(1)
        ys = jax.vmap(m.privatize)(jax.random.split(k, len(xs)), xs)
        return m.estimate(ys), m.log_density(ys, xs), m.variance(xs)

    m = Discrete.of(*tables_of_one_menu("grid"))
    xs = jnp.linspace(-1, 1, 7)
    for level in range(4):
        program(m.at(level), key(level), xs)
    assert len(traced) == 1
    other = Discrete.of(*(random_table(5, k, encoding="grid", seed=k + 50) for k in (2, 4, 9, 40)))
    second = program(other, key(0), xs)
    assert len(traced) == 1
    np.testing.assert_allclose(second[2], other.variance(xs), rtol=1e-6)


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
        ys = jnp.arange(table.outputs)
        got = densities(m.at(level), ys[None], jnp.asarray(rows)[:, None])
        np.testing.assert_allclose(got, np.log(law(table)), rtol=1e-6, atol=1e-6)
        off = densities(m.at(level), jnp.array([-1, table.outputs, 10**6]), 0.0)
        assert jnp.isneginf(off).all()
        assert jnp.isneginf(densities(m.at(level), jnp.array([0.5, jnp.nan]), 0.0)).all()
    if encoding == "grid":
        mixed = m.at(2).log_density(jnp.arange(9), 0.125)  # a quarter of the way from row 2 to row 3
        np.testing.assert_allclose(np.exp(mixed), [0.75, 0.25] @ law(tables[2])[2:4], rtol=1e-6)


# --- GeneralizedRR ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "categories"), [(0.1, 3), (1.0, 2), (1.0, 64), (16.0, 3)])
def test_generalized_rr(epsilon, categories):
    m = GeneralizedRR(epsilon, categories)
    table = m.table()
    p = math.exp(epsilon) / (math.exp(epsilon) + categories - 1)
    q = (1 - p) / (categories - 1)
    expected = np.full((categories, categories), q)
    np.fill_diagonal(expected, p)
    np.testing.assert_allclose(law(table), expected, atol=(categories + 2) / WORDS)
    assert m.guarantee().epsilon <= epsilon
    assert m.guarantee().epsilon >= epsilon - 2 * math.exp(epsilon) * categories * categories / WORDS
    # the inverse of the integer table: unbiased up to the float32 in which the values are stored
    largest = np.abs(table.values).max()
    unbiased = law(table) @ table.values.astype(np.float64)
    np.testing.assert_allclose(unbiased, np.eye(categories), atol=2.0**-23 * largest)
    exact = law(table) @ np.linalg.inv(law(table))
    np.testing.assert_allclose(exact, np.eye(categories), atol=1e-12 * largest)
    variance = law(table) @ table.values.astype(np.float64) ** 2 - unbiased**2
    closed = np.full_like(expected, q * (1 - q) / (p - q) ** 2)
    np.fill_diagonal(closed, p * (1 - p) / (p - q) ** 2)
    np.testing.assert_allclose(variance, closed, rtol=1e-4, atol=1e-7)
    for x in (0, categories - 1):
        mean, variance = moments(m, x)
        np.testing.assert_allclose(variance, closed[x], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(mean, np.eye(categories)[x], atol=1e-5 * max(1, largest))


FACTORIES = {
    "GeneralizedRR": lambda e: GeneralizedRR(e, 3),
    "GridSquareWave": lambda e: GridSquareWave(e, 5),
    "GridPiecewise": lambda e: GridPiecewise(e, 5),
    "FeatureRR": lambda e: FeatureRR(e, 4, dim=1),
    "LPOptimal": LPOptimal,
}


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("name", FACTORIES)
def test_stacks_and_tracers_are_told_of_menus(name):
    with pytest.raises(ValueError, match="one number"):
        FACTORIES[name](jnp.array([1.0, 2.0]))

    def traced(epsilon):
        with pytest.raises((ValueError, TypeError), match="concrete"):
            FACTORIES[name](epsilon)
        return epsilon

    jax.jit(traced)(1.0)


# --- square wave and piecewise on a grid ------------------------------------------------------------------------


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
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("inputs", [2, 17, 129])
def test_two_levels_and_a_linear_mean(name, epsilon, inputs):
    """Two masses, but for what a row lacks of 2^32: fewer units than outputs, in the high entries (from the left,
    as far as their boxes have room), and at small budgets in a low one.
    """
    table = GRIDS[name](epsilon, inputs).table()
    inside, reach = window(table)
    low, high = table.masses[~inside].astype(np.int64), table.masses[inside].astype(np.int64)
    assert low.max() - low.min() <= table.outputs
    assert high.max() - high.min() <= table.outputs
    if epsilon >= 1:
        assert low.min() == low.max()
    weights = np.exp(epsilon) * (2 * reach + 1) + inputs - 1
    assert abs(low.min() - WORDS / weights) <= 1
    assert abs(high.min() - WORDS * np.exp(epsilon) / weights) <= 1 + np.exp(epsilon) + table.outputs
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
    tolerance = 1e-8 if epsilon >= 1 else 2 * table.outputs / WORDS  # where a low entry takes what is lacking
    np.testing.assert_allclose(centred, -centred[0] * grid, atol=tolerance)


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("inputs", [9, 129])
@pytest.mark.parametrize("name", ["piecewise", "square wave, debiased"])
def test_the_variance_on_a_grid_is_the_continuous_one_less_a_place_plus_the_rounding(name, epsilon, inputs):
    """With w the width of a place, uniform noise on a place has variance w^2 / 12: at grid points the two laws
    differ by exactly that, at t = 2 / ((2 reach + 1) h). Between them the rounding adds (1 + a) f (1 - f) h^2, a =
    the coefficient of x^2 in the continuous variance; both together are at most h^2 / 4.
    """
    table = GRIDS[name](epsilon, inputs).table()
    reach, h = window(table)[1], 2 / (inputs - 1)
    t, big = 2 / ((2 * reach + 1) * h), math.exp(epsilon)
    curvature = (t + 1) / (big - 1)
    place = (1 + curvature) * h  # = g t h
    np.testing.assert_allclose(np.diff(table.values), place, rtol=1e-4)
    x = np.linspace(-1, 1, 8 * (inputs - 1) + 1)
    f = np.arange(len(x)) % 8 / 8
    fixed = (t + big) * ((t + 1) ** 3 + big - 1) / (3 * t**2 * (big - 1) ** 2)
    continuous = curvature * x**2 + fixed
    _, got = table_moments(table, x)
    exact = continuous - place**2 / 12 + (1 + curvature) * f * (1 - f) * h**2
    np.testing.assert_allclose(got, exact, rtol=1e-5)
    assert (got <= continuous + h**2 / 4 + 1e-6 * continuous).all()
    with jax.enable_x64(True):
        theirs = np.asarray(GeneralPiecewise(epsilon, t).variance(jnp.asarray(x)))
    np.testing.assert_allclose(theirs, continuous, rtol=1e-9)


def test_the_shape_of_a_window():
    """2r + 1 places for a width of 2b, and of 2 / t for the piecewise one."""
    for epsilon in (0.3, 1.0, 3.0):
        big = math.exp(epsilon)
        b = (epsilon * big - big + 1) / (big * (big - epsilon - 1))
        assert window(GridSquareWave(epsilon, 101).table())[1] == round(b / 0.02 - 0.5)
        assert window(GridPiecewise(epsilon, 101, t=2.0).table())[1] == round(1 / (2.0 * 0.02) - 0.5)
    assert GridSquareWave(1.0, 101).table().outputs == 101 + 2 * round(0.51216588 / 0.02 - 0.5)
    np.testing.assert_allclose(np.diff(GridSquareWave(1.0, 101).table().values), 0.02, rtol=1e-4)


# --- FeatureRR --------------------------------------------------------------------------------------------------


def paper_law(epsilon, k):
    """HeteroRR eq. 8 and 9, written out: Pr(u/k | t/k) = exp(-|u - t| / (k sigma)) / C_t."""
    sigma = (k - 1) / (k * epsilon)
    table = []
    for t in range(1, k + 1):
        weights = [math.exp(-abs(u - t) / (k * sigma)) for u in range(1, k + 1)]
        normalisation = sum(weights)
        table.append([weight / normalisation for weight in weights])
    return np.array(table)


@pytest.mark.parametrize(("epsilon", "bins"), [(0.01, 10), (1.0, 2), (1.0, 64), (12.0, 10)])
def test_one_feature_is_equation_8(epsilon, bins):
    m = FeatureRR(epsilon, bins, dim=1)
    table = m.inner.table(0)
    np.testing.assert_allclose(law(table), paper_law(epsilon, bins), atol=(bins + 2) / WORDS)
    np.testing.assert_array_equal(table.values, np.float32(np.arange(1, bins + 1) / bins))
    guarantee = m.guarantee()
    assert guarantee.arithmetic == "exact"
    assert epsilon - 1e-4 * epsilon <= guarantee.epsilon <= epsilon  # sigma is the exact bound
    x = (np.arange(bins) + 0.5) / bins
    got = densities(m.coordinate(0), jnp.arange(bins)[None], jnp.asarray(x)[:, None])
    np.testing.assert_allclose(np.exp(got), paper_law(epsilon, bins), rtol=1e-5, atol=(bins + 2) / WORDS)
    mean = paper_law(epsilon, bins) @ (np.arange(1, bins + 1) / bins)
    np.testing.assert_allclose(moments(m.coordinate(0), jnp.asarray(x))[0], mean, rtol=1e-5)


def test_every_feature_has_its_share():
    """Four features of budgets 1/2, 1/2, 1, 2: tables, densities, moments and losses feature by feature."""
    m = FeatureRR(4.0, 6, [1.0, 1.0, 2.0, 4.0])
    laws = [paper_law(epsilon, 6) for epsilon in (0.5, 0.5, 1.0, 2.0)]
    x = jnp.array([0.05, 0.95, 0.5, 0.2])  # bins 1, 6, 3, 2
    rows = [one[bin] for one, bin in zip(laws, (0, 5, 2, 1), strict=True)]
    for y in ([0, 0, 0, 0], [5, 4, 3, 2], [1, 5, 0, 1]):
        expected = sum(math.log(row[u]) for row, u in zip(rows, y, strict=True))
        np.testing.assert_allclose(m.log_density(jnp.array(y), x), expected, rtol=1e-5)
    values = np.arange(1, 7) / 6
    mean = np.array([row @ values for row in rows])
    np.testing.assert_allclose(m.mean(x), mean, rtol=1e-5)
    np.testing.assert_allclose(m.variance(x), [row @ values**2 for row in rows] - mean**2, rtol=1e-4)
    np.testing.assert_allclose(m.estimate(jnp.array([0, 5, 2, 1])), values[[0, 5, 2, 1]], rtol=1e-6)
    losses = [m.coordinate(j).guarantee().epsilon for j in range(4)]
    np.testing.assert_allclose(losses, [0.5, 0.5, 1.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(m.guarantee().epsilon, sum(losses), rtol=1e-15)
    assert len(m.inner.names) == 3  # one table a distinct budget


def test_the_edges_of_bins():
    """(t - 1)/k < x <= t/k with x = 0 in the first; edges that float32 holds exactly."""
    m = FeatureRR(20.0, 8, dim=1).coordinate(0)
    likeliest = lambda x: int(jnp.argmax(m.log_density(jnp.arange(8), x)))
    assert likeliest(0.0) == likeliest(-0.0) == likeliest(-5.0) == 0
    assert likeliest(1.0) == likeliest(7.0) == 7
    for t in range(1, 9):
        assert likeliest(t / 8) == t - 1
        assert likeliest(np.nextafter(np.float32(t / 8), np.float32(-1))) == t - 1
        assert likeliest(np.nextafter(np.float32(t / 8), np.float32(9))) == min(t, 7)
    assert likeliest(jnp.nan) == 3


def test_homogeneous_is_equal_weights():
    assert FeatureRR(3.0, 8, dim=5) == FeatureRR(3.0, 8, np.full(5, 0.2))
    assert FeatureRR(3.0, 8, [1, 2, 3]) == FeatureRR(3.0, 8, np.array([0.5, 1.0, 1.5]))


@hypothesis.settings(max_examples=20)
@hypothesis.given(
    st.floats(0.1, 40.0), st.lists(st.floats(1e-3, 10.0), min_size=3, max_size=12), st.integers(2, 12)
)
@hypothesis.example(40.0, [1.0, 1.0, 0.0625], 2)
def test_the_features_together_never_lose_more_than_epsilon(epsilon, weights, bins):
    """Exactly: the product of the losses, integer ratios, against e^epsilon in 50 digits."""
    hypothesis.assume(epsilon * max(weights) / sum(weights) < 20)
    m = FeatureRR(epsilon, bins, weights)
    lost = sum((exact_log(m.inner.table(level).loss) for level in m.inner.level.tolist()), decimal.Decimal(0))
    assert lost <= decimal.Decimal(epsilon)
    # Near epsilon 20 the least mass of a feature is a few units of 2^-32, and rounding it up is seen.
    paid = epsilon * np.array(weights) / sum(weights)
    room = 2e-3 * paid + 2 * (np.exp(paid) + bins - 1) / 2**32
    assert lost >= decimal.Decimal(epsilon) - decimal.Decimal(room.sum())
    assert m.guarantee().epsilon <= epsilon
    # printed and true, up to float64's own sum
    assert decimal.Decimal(m.guarantee().epsilon) >= lost * (1 - decimal.Decimal("1e-14"))
    each = np.array([m.inner.table(level).epsilon for level in m.inner.level.tolist()])
    assert (np.abs(each - paid) <= room).all()


def test_features_are_reported_independently():
    """Joint G test of both features over 16 cells, 2e5 users; detects a total variation of 0.013."""
    m = FeatureRR(3.0, 4, [1.0, 2.0])
    x = jnp.tile(jnp.array([0.1, 0.6]), (200_000, 1))
    ys = np.asarray(mechanism.privatize(key(9), m, x))
    joint = np.outer(paper_law(1.0, 4)[0], paper_law(2.0, 4)[2])
    stats.assert_g(np.bincount(4 * ys[:, 0] + ys[:, 1], minlength=16), joint.ravel())
    assert stats.smallest_defect_of_g(200_000, 16) < 0.013


def test_importance_weights_by_hand():
    """Equation 7: theta_i = gamma alpha_i + (1 - gamma) [beta_min + (beta_max - beta_i)], then normalised."""
    theta = importance_weights([0.5, 0.3, 0.2], [0.1, 0.6, 0.3], 0.25)
    # 0.125 + 0.75 (0.1 + 0.5); 0.075 + 0.75 (0.1 + 0); 0.05 + 0.75 (0.1 + 0.3)
    by_hand = np.array([0.575, 0.15, 0.35])
    np.testing.assert_allclose(theta, by_hand / 1.075, rtol=1e-12)
    np.testing.assert_allclose(theta.sum(), 1.0, rtol=1e-15)
    np.testing.assert_allclose(importance_weights([0.5, 0.3, 0.2], [0.1, 0.6, 0.3], 1.0), [0.5, 0.3, 0.2])
    np.testing.assert_allclose(importance_weights([0.0, 9.0], [0.2, 0.2], 0.0), [0.5, 0.5])
    assert theta.dtype == np.float64


# --- LPOptimal --------------------------------------------------------------------------------------------------

FINE = np.linspace(-1, 1, 2001)


@pytest.mark.parametrize("epsilon", [*lp_optimal.SHIPPED, 0.7, 3.5])
def test_the_programs_constraints_hold_in_the_table(epsilon):
    table = LPOptimal(epsilon).table()
    assert table.inputs == 11
    mean, _ = table_moments(table, FINE)
    np.testing.assert_allclose(mean, FINE, atol=1e-6)
    assert table.epsilon <= epsilon
    assert exact_log(table.loss) <= decimal.Decimal(epsilon)
    assert table.epsilon >= 0.99 * epsilon  # an optimum uses its budget
    bound = 1.5 / math.tanh(epsilon / 2)
    assert np.abs(table.values).max() <= bound * (1 + 1e-6)
    np.testing.assert_allclose(table.values, -table.values[::-1], rtol=1e-6, atol=1e-6 * bound)
    assert (np.diff(table.values) > 0).all()
    # columns are dropped below 1e-9, and none is made of a single word everywhere
    assert (table.masses.max(0) >= 4).all()


@pytest.mark.parametrize(("epsilon", "worst"), [(1.0, 4.00), (2.0, 0.875), (3.0, 0.313), (5.0, 0.066)])
def test_the_worst_variance_is_the_one_promised(epsilon, worst):
    """On 2001 records: the program imposes it at 81, so that it could rise between them."""
    _, variance = table_moments(LPOptimal(epsilon).table(), FINE)
    assert variance.max() <= worst
    np.testing.assert_allclose(LPOptimal(epsilon).variance(jnp.asarray(FINE)).max(), variance.max(), rtol=1e-4)


@pytest.mark.parametrize("epsilon", [2.0, 5.0])
def test_nothing_else_is_as_good_in_the_worst_case(epsilon):
    _, variance = table_moments(LPOptimal(epsilon).table(), FINE)
    others = {
        "Duchi": features.Duchi(epsilon),
        "Piecewise": features.Piecewise(epsilon),
        "SuboptimalPiecewise": features.SuboptimalPiecewise(epsilon),
        "OptimalPiecewise": features.OptimalPiecewise(epsilon),
        "Hybrid": features.Hybrid(epsilon),
        "ThreeOutputs": features.ThreeOutputs(epsilon),
        "SquareWave": features.SquareWave(epsilon, debias=True),
    }
    for name, other in others.items():
        worst = float(moments(other, FINE)[1].max())
        assert variance.max() < worst, f"{name}: {worst}"
    for table in (GridSquareWave(epsilon, debias=True).table(), GridPiecewise(epsilon).table()):
        assert variance.max() < table_moments(table, FINE)[1].max()


@pytest.mark.parametrize("epsilon", [0.1, 5.0])
def test_the_shipped_table_is_the_solved_one(epsilon):
    """Solvers may find different optima of one program: they agree in the variance that is optimised."""
    solved, y = lp_optimal.solve(epsilon, lp_optimal.INPUTS, lp_optimal.OUTPUTS)
    second = solved @ y**2
    at = np.arange(81) / 8
    low = np.minimum(at.astype(int), 9)
    best = ((1 - at + low) * second[low] + (at - low) * second[low + 1] - (at / 5 - 1) ** 2).max()
    shipped = LPOptimal(epsilon).table()
    _, variance = table_moments(shipped, np.linspace(-1, 1, 81))
    np.testing.assert_allclose(variance.max(), best, rtol=1e-6)
    made = lp_optimal._rounded(epsilon, solved, y)
    np.testing.assert_allclose(table_moments(made, np.linspace(-1, 1, 81))[1].max(), best, rtol=1e-6)
    assert made.epsilon <= epsilon


def test_budgets_that_need_more_inputs_are_refused():
    with pytest.raises(ValueError, match="rounding to 11 inputs alone costs .* use more than"):
        LPOptimal(16.0, inputs=11)
    with pytest.raises(ValueError, match="rounding to 11 inputs"):
        LPOptimal(8.0)
    m = LPOptimal(8.0, inputs=41, outputs=41)
    assert m.guarantee().epsilon <= 8.0
    mean, variance = table_moments(m.table(), FINE)
    np.testing.assert_allclose(mean, FINE, atol=1e-6)
    assert variance.max() < 0.06


@pytest.mark.parametrize(
    ("epsilon", "prior"), [(1.0, (0, 0, 0, 1, 4, 6, 4, 1, 0, 0, 0)), (3.0, (5, 1) + (0,) * 7 + (1, 5))]
)
def test_a_symmetric_prior_buys_a_smaller_mean_variance(epsilon, prior):
    weights = np.array(prior) / sum(prior)
    made, minimax = LPOptimal(epsilon, prior=tuple(map(float, prior))).table(), LPOptimal(epsilon).table()
    grid = np.linspace(-1, 1, 11)
    mean, variance = table_moments(made, grid)
    np.testing.assert_allclose(mean, grid, atol=1e-6)
    assert made.epsilon <= epsilon
    assert weights @ variance < weights @ table_moments(minimax, grid)[1] - 1e-4
    solved, y = lp_optimal.solve(epsilon, 11, 101, tuple(map(float, prior)))
    np.testing.assert_allclose(weights @ variance, weights @ (solved @ y**2 - grid**2), rtol=1e-6)


def test_a_program_is_solved_once():
    before = lp_optimal.table.cache_info()
    assert LPOptimal(0.9, 5, 41) == LPOptimal(0.9, inputs=5, outputs=41)
    assert lp_optimal.table.cache_info().misses <= before.misses + 1
    assert LPOptimal(np.float64(1.0)) == LPOptimal(1)  # the same table whatever the number's type


# --- Sampled(Discrete) ------------------------------------------------------------------------------------------


def test_sampled_vectors_of_a_level_of_a_menu():
    """10000 users: every coordinate's mean and variance within 5 standard errors; detects what is off by 10."""
    inner = menu([LPOptimal(0.25), LPOptimal(0.5)]).at(1)
    m = Sampled(inner, dim=5, k=2)
    guarantee = m.guarantee()
    assert guarantee.arithmetic == "exact"
    assert guarantee.epsilon == 2 * inner.guarantee().epsilon <= 1.0
    x = np.float32([-1.0, -0.33, 0.0, 0.5, 1.0])
    n = 10_000
    ys = jax.tree.map(np.asarray, mechanism.privatize(key(11), m, np.tile(x, (n, 1))))
    assert ((ys.values >= 0) & (ys.values < inner.table().outputs)).all()
    mean, variance = table_moments(inner.table(), x)
    second = (variance + mean**2) * 5 / 2
    said = moments(m, x)
    np.testing.assert_allclose(said[0], x, atol=1e-4)
    np.testing.assert_allclose(said[1], second - mean**2, rtol=1e-4)
    largest = float(np.abs(inner.table().values).max()) * 5 / 2
    estimates = np.asarray(estimates_of(m, ys))
    stats.assert_moments(estimates, mean, second - mean**2, second * largest**2)


# --- Words and levels -------------------------------------------------------------------------------------------


def test_features_never_share_a_word():
    """Levels that do not match the features would broadcast: refused at construction, and where it is by-passed."""
    inner = FeatureRR(1.0, 4, dim=2).inner
    with pytest.raises(ValueError, match="a level for each of 1 features"):
        RandomizedFeatures(inner, 1)
    with pytest.raises(ValueError, match="a level for each of 3 features"):
        RandomizedFeatures(inner, 3)
    m = FeatureRR(1.0, 4, dim=2)
    by_passed = jax.tree.map(lambda leaf: leaf, m)
    object.__setattr__(by_passed, "dim", 1)
    for ask in (by_passed.guarantee, lambda: by_passed.privatize(jax.random.key(0), jnp.zeros(1))):
        with pytest.raises(ValueError, match="a level for each of 1 features"):
            ask()
    with pytest.raises(ValueError, match="on bins"):
        RandomizedFeatures(GeneralizedRR(1.0, 3).at(jnp.zeros(2)), 2)


def test_levels_that_broadcast_draw_words_of_their_own():
    m = menu([GeneralizedRR(0.001, 64)] * 3).at(jnp.arange(3))
    y = np.asarray(m.draw(jax.random.key(0), 5.0))
    assert len(set(y.tolist())) > 1  # one word would give one output: the laws are the same


def test_words_of_any_integer_type_are_the_same_words():
    m, words = GeneralizedRR(1.0, 4), np.array([0, 2**31, 2**32 - 1, 2**31 + 5], np.uint32)
    x = np.array([0, 1, 2, 3])
    expected = np.asarray(m.from_words(words, 0, x))
    np.testing.assert_array_equal(m.from_words(words.astype(np.int32), 0, x), expected)
    np.testing.assert_array_equal(m.table().report(x, words), expected)


def test_host_integers_beyond_32_bits_are_clipped_not_wrapped():
    m = GeneralizedRR(1.0, 4)
    far = np.array([2**32, -(2**40)])
    near = np.array([3, 0])
    words = np.array([7, 2**31], np.uint32)
    np.testing.assert_array_equal(m.from_words(words, 0, far), m.from_words(words, 0, near))
    assert int(menu([m, m]).at(np.array(2**32 + 1)).level) == 1


def test_sums_of_exact_losses_are_rounded_up():
    for epsilon, k in itertools.product((0.3, 0.7, 3.0), (3, 7, 9)):
        inner = GeneralizedRR(epsilon, 3).table()
        m = Sampled(GridSquareWave(epsilon, 5), 12, k)
        assert Fraction(m.guarantee().epsilon) >= k * Fraction(m.inner.guarantee().epsilon)
        twice = Discrete.of(inner).guarantee() + Discrete.of(inner).guarantee()
        assert Fraction(twice.epsilon) >= 2 * Fraction(inner.epsilon)


def test_an_asymmetric_prior_is_served():
    """What the solver reaches for its own objective, not its mean with a mirror image of another value."""
    prior = (0.0,) * 5 + (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    weights, x = np.array(prior) / sum(prior), np.linspace(-1, 1, 11, dtype=np.float32)
    mean_variance = lambda m: float(weights @ np.asarray(m.variance(x)))
    assert mean_variance(LPOptimal(1.0, prior=prior)) < mean_variance(LPOptimal(1.0)) - 0.05


def test_the_window_of_least_variance_is_taken():
    """Half a place matters fourfold at epsilon 9 and 17 inputs; the rounding may cost h^2 / 4."""
    for epsilon, inputs in ((2.0, 33), (7.0, 17), (9.0, 17), (11.0, 33), (14.5, 129)):
        x = np.linspace(-1, 1, 8 * inputs, dtype=np.float32)
        best = float(np.max(moments(GridPiecewise(epsilon, inputs), x)[1]))
        limit = float(moments(OptimalPiecewise(epsilon), 1.0)[1]) + (2 / (inputs - 1)) ** 2 / 4
        assert best <= 1.25 * limit


# --- What is refused --------------------------------------------------------------------------------------------

TWO = menu([GeneralizedRR(epsilon, 4) for epsilon in (0.5, 2.0)])
BINS = FeatureRR(3.0, 4, [1.0, 2.0])
GRID = random_table(5, 4, encoding="grid")
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
    (lambda: BINS.privatize(key(0), jnp.zeros((2, 1))), r"shape \(2,\)"),
    (lambda: type(BINS)(BINS.inner.at(jnp.eye(2)), 2).privatize(key(0), jnp.zeros(2)), "share"),
    (lambda: importance_weights([1.0], [1, 2]), "both be"),
    (lambda: importance_weights([1.0, math.nan], [0, 1]), "alpha must be finite"),
    (lambda: importance_weights([1, 2], [0.0, -1.0]), "beta must be finite"),
    (lambda: importance_weights([1, 2], [0, 1], 1.5), "gamma must be in"),
    (lambda: importance_weights([0.0, 2.0], [0.5, 0.5], 1.0), r"features \[0\] would get no budget"),
    (lambda: LPOptimal(1.0, inputs=1), "inputs must be a whole number"),
    (lambda: LPOptimal(1.0, outputs=40), "outputs must be a whole number"),
    (lambda: LPOptimal(1.0, prior=(1.0,) * 10 + (-1.0,)), "prior must be 11 weights"),
    (lambda: LPOptimal(7.0), "use more inputs, or OptimalPiecewise"),
    (Discrete.of, "at least one"),
    (lambda: menu([]), "at least one"),
    (lambda: Discrete.of(GRID, random_table(6, 4, encoding="grid")), "must agree"),
    (lambda: Discrete.of(GRID, random_table(5, 4, encoding="bins")), "must agree"),
    (lambda: TWO.at(jnp.array([0, 1])).privatize(key(0), 1), "share"),
    (lambda: GeneralizedRR(1.0, 4).privatize(key(0), jnp.zeros(3)), "one number"),
    (lambda: Sampled(BINS.coordinate(0), 3, 1), r"mechanism on \[-1, 1\]"),
]


@pytest.mark.usefixtures("untyped")
def test_bad_input_is_refused():
    for call, words in REFUSED:
        with pytest.raises(ValueError, match=words):
            call()
