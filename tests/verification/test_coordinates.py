"""Where reports lie in their laws, and whether coordinates are independent: against loops."""

import itertools

import jax
import numpy as np
import pytest
from scipy import stats

from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.random import generator
from ldp_jax.core.spaces import NotApplicable
from ldp_jax.features import (
    HDS,
    Duchi,
    GridPiecewise,
    Hybrid,
    Laplace,
    Sampled,
    SparseReport,
    SquareWave,
)
from ldp_jax.verification import empirical, exact
from ldp_jax.verification.empirical import (
    Numbers,
    _dependent,
    _pair_means,
    _scan,
    _word_means,
    _words,
    by_law,
    positions,
)
from ldp_jax.verification.statistics import Fit
from tests.verification.test_hockey_stick import Logistic


def test_means_of_pairs_are_those_of_a_loop_over_reports_that_hold_both():
    """Characters of the sum and of the difference of places, and the product of sides."""
    place = holes()
    sums = []
    differences = []
    sides = []
    counts = []
    for one, other in itertools.combinations(range(5), 2):
        both = [row for row in place[:, [one, other]].astype(float) if not np.isnan(row).any()]
        count = max(len(both), 1)
        counts.append(count)
        sums.append(abs(sum(np.exp(2j * np.pi * (a + b)) for a, b in both)) / count)
        differences.append(abs(sum(np.exp(2j * np.pi * (a - b)) for a, b in both)) / count)
        sides.append(abs(sum(np.sign(a - 0.5) * np.sign(b - 0.5) for a, b in both)) / count)
    means, asked = _pair_means(place)
    np.testing.assert_allclose(means, [*sums, *differences, *sides], atol=1e-6)
    np.testing.assert_array_equal(asked, counts * 3)


def holes():
    """Places of 60 reports in five coordinates, some of them not sent, and one by nobody."""
    rng = np.random.default_rng(0)
    place = rng.random((60, 5)).astype(np.float32)
    place[rng.random(place.shape) < 0.3] = np.nan
    place[:, 3] = np.nan
    return place


def test_means_of_words_are_those_of_a_loop_over_reports_that_hold_them():
    """The character of the signed sum, and the parity of the sides."""
    place = holes()
    place[:, 3] = 0.7
    words = _words(5, np.random.default_rng(0))
    turns, parities, counts = [], [], []
    for word in words.T:
        at = np.flatnonzero(word)
        held = [row for row in place[:, at].astype(float) if not np.isnan(row).any()]
        counts.append(len(held))
        turns.append(abs(sum(np.exp(2j * np.pi * (row @ word[at])) for row in held)))
        parities.append(abs(sum(np.prod(np.sign(row - 0.5)) for row in held)))
    means, asked = _word_means(place, words)
    np.testing.assert_array_equal(asked, counts * 2)
    np.testing.assert_allclose(means * np.maximum(asked, 1), [*turns, *parities], atol=1e-4)


def test_words_are_all_of_three_to_five_few_coordinates_up_to_sign_and_some_of_many():
    few = _words(5, np.random.default_rng(0)).T
    every = [w for w in itertools.product((-1.0, 0.0, 1.0), repeat=5) if 3 <= np.abs(w).sum() <= 5]
    listed = {max(tuple(w), tuple(-np.array(w) + 0.0)) for w in every}
    assert {max(tuple(w), tuple(-w + 0.0)) for w in few[: len(listed)]} == listed
    many = _words(12, np.random.default_rng(0)).T
    sizes = np.abs(many).sum(1)
    assert set(sizes[:-13].tolist()) == {3.0, 4.0, 5.0}
    np.testing.assert_array_equal(many[-13:], np.append(np.ones((1, 12)), 1 - np.eye(12), axis=0))
    assert 0.4 < (many[:-13] > 0).sum() / (many[:-13] != 0).sum() < 0.6


@pytest.mark.parametrize("negated", [False, True])
def test_a_product_of_signs_that_is_always_the_same_is_seen(negated):
    bits = np.random.default_rng(0).random((200, 7)) < 0.5
    assert not _dependent(bits)
    bits[:, 4] = bits[:, 1] ^ bits[:, 2] ^ bits[:, 6] ^ negated
    assert _dependent(bits)
    bits[np.arange(20) * 3, 4] ^= True
    assert not _dependent(bits)


def test_positions_are_distribution_functions():
    """Atoms are spread over their mass; a record between two rows of a table is their mixture."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, 300).astype(np.float32)
    key = jax.random.key(5)
    spread = generator(key).random(300)
    y = (x + rng.laplace(0, 1, 300)).astype(np.float32)
    found, misplaced = positions(Numbers(Laplace(2.0), x, y), key)
    np.testing.assert_allclose(
        found, stats.laplace.cdf(y.astype(float), x.astype(float), 1.0), atol=2e-6
    )
    assert 0 < misplaced < 1e-5
    for epsilon in (0.05, 1.0, 20.0):  # the tails of which are not those of an exponential
        y = (x + rng.logistic(0, 2 / epsilon, 300)).astype(np.float32)
        found, _ = positions(Numbers(Logistic(epsilon), x, y), key)
        due = stats.logistic.cdf(y.astype(float), x.astype(float), 2 / epsilon)
        np.testing.assert_allclose(found, due, atol=1e-5)

    signs = rng.choice(np.float32([-1, 1]), 300)
    m = Duchi(1.0)
    value = np.asarray(m.codomain().values, float)
    below = np.exp(np.array([float(m.log_density(value[0], one)) for one in x[:50]]))
    y = np.where(signs < 0, value[0], value[1]).astype(np.float32)
    found, misplaced = positions(Numbers(m, x[:50], y[:50]), key)
    part = generator(key).random(50)
    expected = np.where(signs[:50] < 0, part * below, below + part * (1 - below))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert misplaced == 0.0

    m = GridPiecewise(1.0, 5)
    y = rng.integers(0, m.table().outputs, 300)
    found, misplaced = positions(Numbers(m, x, y), key)
    assert misplaced == 0.0
    masses = m.table().masses / 2.0**32
    for place, record, report, share in zip(found, x.astype(float), y, spread, strict=True):
        law = [np.interp(record, np.linspace(-1, 1, 5), column) for column in masses.T]
        assert place == pytest.approx(sum(law[:report]) + share * law[report], abs=1e-6)


def test_each_number_of_a_vector_is_beside_another_one_and_the_rank_of_all():
    m = HDS(1.0, 4, 2)
    rng = np.random.default_rng(4)
    x = rng.permutation(1200).reshape(300, 4).astype(np.float32)
    indices = np.sort(rng.permuted(np.tile(np.arange(4), (300, 1)), axis=1)[:, :2], 1)
    y = SparseReport(indices, rng.random((300, 2)).astype(np.float32))
    ((given, user, coordinate),) = by_law(m, x, y)
    np.testing.assert_array_equal(given.x, x[user, coordinate])
    np.testing.assert_array_equal(given.y, np.ravel(y.values))
    np.testing.assert_array_equal(coordinate, np.ravel(indices))
    other, rank = given.beside
    found = [int(np.flatnonzero(x[i] == value)[0]) for i, value in zip(user, other, strict=True)]
    pairs = set(zip(coordinate.tolist(), found, strict=True))
    assert pairs == set(itertools.permutations(range(4), 2))
    below = (x.sum(1)[:, None] > x.sum(1)).mean(1)[user]
    np.testing.assert_allclose(rank, below, atol=0.05)  # equal sums are in any order


def test_positions_of_a_mixture_come_branch_after_branch():
    """The masses of its two atoms, and then an integral of the other branch's density."""
    m = Hybrid(2.0)
    atoms = np.asarray(m.codomain().parts[0].values, np.float64)
    line = m.codomain().parts[1]
    rng = np.random.default_rng(3)
    grid = np.linspace(float(line.lower), float(line.upper), 100_001)
    density = jax.jit(
        jax.vmap(lambda branch, value: m.log_density((branch, value), 0.3), (None, 0))
    )
    mass = np.exp(np.asarray(density(0, atoms), np.float64))
    each = np.exp(np.asarray(density(1, grid), np.float64))
    below = np.append(0.0, np.cumsum((each[1:] + each[:-1]) / 2) * (grid[1] - grid[0]))
    branch = rng.integers(0, 2, 200).astype(np.int32)
    value = np.where(branch == 0, rng.choice(atoms, 200), rng.uniform(grid[0], grid[-1], 200))
    key = jax.random.key(5)
    spread = generator(key).random(200)
    before = np.where(value == atoms[0], 0.0, mass[0])
    of_atom = before + spread * np.where(value == atoms[0], *mass)
    due = np.where(branch == 0, of_atom, mass.sum() + np.interp(value, grid, below))
    x = np.full(200, 0.3, np.float32)
    found, _ = positions(Numbers(m, x, (branch, value.astype(np.float32))), key)
    np.testing.assert_allclose(found, due, atol=1e-4)


def test_the_worst_of_three_cuts_of_a_vectors_records_decides(monkeypatch):
    """By the coordinate, by another one, and by the sum; they share the significance."""
    asked = []

    def scan(share, place, off, significance):
        asked.append((share, significance))
        return Fit(len(asked) != 2, "windows", float(len(asked)), 9.0, 0.1, 10)

    rng = np.random.default_rng(6)
    x = rng.uniform(-1, 1, (100, 2)).astype(np.float32)
    beside = x[:, 1], rng.random(100)
    given = [Numbers(HDS(1.0, 2, 2).coordinate(0), x[:, 0], x[:, 0], beside)]
    monkeypatch.setattr(empirical, "_scan", scan)
    monkeypatch.setattr(empirical, "privatize_stacked", lambda *_: None)
    monkeypatch.setattr(empirical, "by_law", lambda *_: [(given[0], None, None)])
    monkeypatch.setattr(empirical, "positions", lambda *_: (x[:, 0], 0.1))
    found = empirical.record_windows(HDS(1.0, 2, 2), jax.random.key(0), trials=65_536)
    assert found == Fit(False, "windows", 2.0, 9.0, 0.1, 10)
    for (share, significance), due in zip(asked, [*(x.T + 1) / 2, beside[1]], strict=True):
        np.testing.assert_allclose(share, due, atol=1e-6)
        assert significance == pytest.approx(1e-6 / 3)
    monkeypatch.setattr(empirical, "positions", lambda *_: (x[:, 0], 0.51))
    with pytest.raises(NotApplicable, match="windows would show nothing"):
        empirical.record_windows(HDS(1.0, 2, 2), jax.random.key(0), trials=65_536)


def test_all_reports_of_a_set_of_coordinates_are_counted_before_they_are_listed(monkeypatch):
    """The window of 0.3 makes three pieces of a line, that of -1 makes two; four reports each."""
    m = Sampled(SquareWave(1.0), 2, 1)
    records = np.float32([-1.0, 0.3])
    with float64_on_cpu():
        assert len(exact.law(m, records)[1]) == 8 + 12
        monkeypatch.setattr(exact, "_MOST_NODES", 23)
        with pytest.raises(NotApplicable, match="too many to count"):
            exact.law(m, records)


def test_the_rarest_cell_of_windows_is_that_of_a_loop():
    """Windows of 2^-i of the records by cells of 2^-j of the positions; i + j of at most log2 n."""
    rng = np.random.default_rng(2)
    share = rng.random(64)
    place = np.where(share < 0.25, 0.6 + 0.1 * rng.random(64), rng.random(64))
    rarest = 1.0
    tests = 0
    for i, j in itertools.product(range(6), range(1, 7)):
        if i + j > 6:
            continue
        tests += 2 ** (i + j)
        for window, cell in itertools.product(range(2**i), range(2**j)):
            inside = np.floor(share * 2**i) == window
            count = int((inside & (np.floor(place * 2**j) == cell)).sum())
            if count > 1:
                tail = stats.poisson.sf(count - 1, inside.sum() * (2.0**-j + 0.01))
                rarest = min(rarest, tail)
    fit = _scan(share, place, 0.01, 1e-3)
    assert fit.statistic == pytest.approx(-np.log10(rarest))
    assert fit.threshold == pytest.approx(-np.log10(1e-3 / tests))
    beyond = Fit(False, "windows (a report beyond its law)", np.inf, 0.0, 1 / 64, 64)
    assert _scan(share, np.append(place[1:], 1.1), 0.0, 1e-6) == beyond
    assert _scan(share, np.append(place[1:], np.nan), 0.0, 1e-6) == beyond
