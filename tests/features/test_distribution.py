"""The server's side of the square wave: transition matrix, histogram, EM and EMS, each by two
ways.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.core.mechanism import privatize
from ldp_jax.core.spaces import Interval
from ldp_jax.features import (
    Duchi,
    FeatureRR,
    GridSquareWave,
    Piecewise,
    SquareWave,
    ThreeOutputs,
    distribution,
)
from ldp_jax.features.distribution import em, histogram, transition

ems = functools.partial(em, smooth=True)


def square_wave_matrix(m, inputs, outputs):
    """By areas of {|y - x| <= b} in rectangles, each a second difference of max(t, 0)^2 / 2: no
    quadrature.
    """
    b = float(m.b)
    epsilon = float(m.epsilon)
    x = np.linspace(-1, 1, inputs + 1)
    y = np.linspace(-1 - b, 1 + b, outputs + 1)
    corner = lambda c: np.maximum(c + x[None] - y[:, None], 0.0) ** 2 / 2
    area = lambda c: np.diff(corner(c)[:-1] - corner(c)[1:], axis=1)
    low = 1 / (2 * b * np.exp(epsilon) + 2)
    width = x[1] - x[0]
    near = (area(b) - area(-b)) / width
    return low * (np.diff(y)[:, None] + np.expm1(epsilon) * near)


@pytest.mark.parametrize(("epsilon", "inputs", "outputs"), [(1e-3, 7, 5), (8.0, 1, 64)])
def test_transition_of_the_square_wave_is_exact(inputs, outputs, epsilon):
    """float64, before and after normalisation; detects 1e-11 of a mass."""
    m = SquareWave(epsilon)
    law = transition(m, inputs, outputs)
    with jax.enable_x64(True):
        m = SquareWave(epsilon)
        expected = square_wave_matrix(m, inputs, outputs)
        b = float(m.b)
        records = np.linspace(-1, 1, inputs + 1)
        raw = distribution._interval_mass(m, m.codomain(), law.edges, records)
    assert law.matrix.shape == (outputs, inputs)
    np.testing.assert_allclose(law.matrix, expected, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(raw.sum(0), 1.0, rtol=1e-11)
    np.testing.assert_allclose(law.edges, np.linspace(-1 - b, 1 + b, outputs + 1), rtol=1e-12)
    np.testing.assert_allclose(law.centres, (np.arange(inputs) + 0.5) * 2 / inputs - 1, atol=1e-12)


def test_transition_of_finite_reports_and_of_a_piecewise_law():
    law = transition(Duchi(1.5), 4)
    centres = np.array([-0.75, -0.25, 0.25, 0.75])
    positive = 0.5 + 0.5 * centres * np.tanh(0.75)
    np.testing.assert_allclose(law.matrix, [1 - positive, positive], rtol=1e-6)
    np.testing.assert_array_equal(law.edges, [-2.0, 0.0, 2.0])
    law = transition(Piecewise(6.0), 3, 400)
    middle = (law.edges[1:] + law.edges[:-1]) / 2
    mean = np.asarray(Piecewise(6.0).estimate(middle) @ law.matrix)
    # Middles of bins stand for reports, which costs the square of a bin's width.
    np.testing.assert_allclose(mean, law.centres, atol=float(np.diff(law.edges)[0]) ** 2)


def test_transition_of_reports_whose_law_bends_between_the_bins_of_records():
    """A step, a grid and a kink at 0, against the mean of 3 000 records of each bin; detects 2e-4
    of a mass.
    """
    stepped = FeatureRR(4.0, 10, dim=1).coordinate(0)
    for m, inputs in ((stepped, 4), (GridSquareWave(2.0, 5), 3), (ThreeOutputs(3.0), 3)):
        domain = m.domain()
        x = np.linspace(domain.lower, domain.upper, 3000 * inputs + 1)
        x = np.float32((x[1:] + x[:-1]) / 2)
        values = jnp.sort(jnp.asarray(m.codomain().values))
        each = np.exp(jax.vmap(jax.vmap(m.log_density, (None, 0)), (0, None))(values, x))
        means = each.reshape(len(values), inputs, -1).mean(-1)
        np.testing.assert_allclose(transition(m, inputs).matrix, means, atol=2e-4)


def test_wide_bins_by_blocks_are_the_same(monkeypatch):
    """Records are integrated by blocks of bounded memory, the last one padded."""
    whole = transition(SquareWave(1.0), 7, 5)
    monkeypatch.setattr(distribution, "_EVALUATIONS", 5 * 3 * 2)
    np.testing.assert_allclose(transition(SquareWave(1.0), 7, 5).matrix, whole.matrix, rtol=1e-6)


def test_histogram_counts_each_report_once():
    edges = jnp.array([-1.0, -0.5, 0.0, 1.0])
    reports = jnp.array(
        [[-1.0, 9.0], [-0.5, jnp.nan], [-3.0, jnp.inf], [0.25, -jnp.inf], [1.0, 0.0]]
    )
    counts = histogram(reports, edges)
    np.testing.assert_array_equal(counts, [[2, 1], [1, 0], [2, 3]])
    np.testing.assert_array_equal(histogram(reports[:, 0], edges), [2, 1, 2])
    np.testing.assert_array_equal(histogram(jnp.zeros((0, 2)), edges), np.zeros((3, 2)))
    x = np.random.default_rng(0).uniform(-1, 1, 10_000).astype(np.float32)
    edges = np.linspace(-1, 1, 33).astype(np.float32)
    np.testing.assert_array_equal(histogram(x, edges), np.histogram(x, edges)[0])


def loop(counts, matrix, tolerance, *, smooth, cap=10_000):
    """The paper's Algorithm 1 in float64, one column, a matrix for the smoothing."""
    inputs = matrix.shape[1]
    average = 2 * np.eye(inputs) + np.eye(inputs, k=1) + np.eye(inputs, k=-1)
    average /= average.sum(1, keepdims=True)
    theta = np.full(inputs, 1 / inputs)
    likelihood = lambda theta: (counts * np.log(matrix @ theta)).sum()
    before = likelihood(theta)
    iteration = 0
    while iteration < cap:
        iteration += 1
        theta = theta * (matrix.T @ (counts / (matrix @ theta)))
        theta /= theta.sum()
        if smooth:
            theta = average @ theta
            theta /= theta.sum()
        after = likelihood(theta)
        if abs(after - before) < tolerance:
            break
        before = after
    return theta, iteration, after


def two_bumps(n, seed=0):
    rng = np.random.default_rng(seed)
    left = rng.random(n) < 0.6
    x = np.where(left, rng.normal(-0.45, 0.2, n), rng.normal(0.45, 0.25, n))
    return np.clip(x, -1, 1).astype(np.float32)


@pytest.fixture(scope="module")
def reported():
    """10^5 reports of two bumps at epsilon 1: their counts and the law, 256 bins."""
    m = SquareWave(1.0)
    law = transition(m, 256)
    return histogram(privatize(jax.random.key(0), m, two_bumps(100_000)), law.edges), law


@pytest.mark.parametrize("smooth", [False, True])
def test_it_is_the_algorithm_of_the_paper(smooth, reported):
    """Against a naive loop: same distribution, likelihood and iterations; the last changes of -5e5
    are 1e-3.
    """
    counts, law = reported
    theta, iterations, likelihood = loop(counts, law.matrix, 3e-3, smooth=smooth)
    found = em(counts, law.matrix, smooth=smooth, tolerance=3e-3)
    np.testing.assert_allclose(found.distribution, theta, rtol=1e-8, atol=1e-13)
    np.testing.assert_allclose(found.log_likelihood, likelihood, rtol=1e-12)
    assert found.iterations == iterations


def test_columns_at_once_are_columns_one_by_one():
    """Columns of very different size converge at different times; the first to do so is then left
    alone.

    Counts of 1 count; NaN, infinite and negative ones, and reports that no record can give, are 0.
    """
    law = transition(SquareWave(2.0), 24, 30)
    columns = 5
    shares = np.asarray(law.matrix) @ np.histogram(two_bumps(10_000), 24, (-1, 1))[0]
    counts = (shares[:, None] * np.array([0.01, 0.3, 1.0, 3.0, 0.0])).round().astype(np.float32)
    dirty = counts.copy()
    dirty[::3, 4], dirty[1::3, 4] = np.nan, -np.inf
    for run in (em, ems):
        together = run(dirty, law.matrix, tolerance=0.01)
        assert together.distribution.shape == (24, columns)
        for j in range(columns):
            alone = run(counts[:, j], law.matrix, tolerance=0.01)
            np.testing.assert_allclose(together.distribution[:, j], alone.distribution, atol=1e-9)
            if counts[:, j].any():
                one, *_ = loop(counts[:, j], law.matrix, 0.01, smooth=run is ems)
                np.testing.assert_allclose(alone.distribution, one, atol=1e-9)
            np.testing.assert_allclose(together.iterations[j], alone.iterations, atol=1)
            np.testing.assert_allclose(together.log_likelihood[j], alone.log_likelihood, rtol=1e-9)
        assert len(set(together.iterations.tolist())) >= columns - 1
        np.testing.assert_allclose(together.distribution.sum(0), 1.0)
        np.testing.assert_array_equal(together.distribution[:, 4], 1 / 24)
        assert (int(together.iterations[4]), float(together.log_likelihood[4])) == (0, 0.0)


@pytest.mark.parametrize("space", ["domain", "codomain"])
@pytest.mark.parametrize("ends", [(-math.inf, 1.0), (-1.0, math.inf), (-math.inf, math.inf)])
def test_an_interval_without_an_end_has_no_bins(space, ends, monkeypatch):
    monkeypatch.setattr(SquareWave, space, lambda self: Interval(*ends))
    with pytest.raises(ValueError, match=f"the {space} of SquareWave must be an interval with fin"):
        transition(SquareWave(1.0), 4)


@pytest.mark.parametrize("outputs", [1, 2, 5])
def test_a_histogram_is_a_loop_over_reports_of_each_column(outputs):
    rng = np.random.default_rng(outputs)
    edges = np.cumsum(rng.uniform(0.1, 1.0, outputs + 1)) - 1.0
    reports = np.concatenate([rng.uniform(-2, 4, (40, 3)), np.repeat(edges[:, None], 3, 1)])
    reports[rng.random(reports.shape) < 0.1] = np.nan
    due = np.zeros((outputs, 3), int)
    for column, values in enumerate(reports.T):
        for value in values[~np.isnan(values)]:
            below = sum(edge <= value for edge in edges) - 1
            due[min(max(below, 0), outputs - 1), column] += 1
    np.testing.assert_array_equal(histogram(reports, edges), due)
    np.testing.assert_array_equal(histogram(reports[:, 0], edges), due[:, 0])
