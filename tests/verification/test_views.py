"""What is looked at in a report, by plain NumPy; what is no number is apart from every number."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.spaces import Finite, Interval, Product, SparseReport, Subset, Vectors, clip
from ldp_jax.features import Laplace
from ldp_jax.verification import epsilon_lower_bound, largest_lower_bound
from ldp_jax.verification.game import Viewer
from tests.marks import untyped

SENT = np.float32([-np.inf, -3e38, -1e30, -0.5, 0.0, 0.5, 1e30, 3e38, np.inf, np.nan])


@pytest.mark.parametrize("dim", [0, 1, 3])
def test_what_is_no_number_has_a_place_of_its_own_in_the_order(dim):
    """Ten reports, which no rounding joins; the scales are those of honest ones."""
    rng = np.random.default_rng(0)
    space = Vectors(dim=dim) if dim else Interval(-np.inf, np.inf)
    honest = rng.normal(size=(500, dim) if dim else 500).astype(np.float32)
    sent = np.repeat(SENT[:, None], dim, 1) if dim else SENT
    views = Viewer.of(space, honest).views(sent)
    for number in range(dim or 1):
        values = views.numbers[f"number {number}"]
        assert np.isfinite(values).all()
        assert (np.diff(values) > 0).all()


def test_numbers_of_a_report_are_looked_at_alone_together_and_bit_by_bit():
    """Whole numbers as they are; the bits are those of float32, the last 8 of them named so."""
    rng = np.random.default_rng(0)
    y = rng.integers(-3, 4, (40, 5)).astype(np.float32)
    found, bits = Viewer.of(Product(5, Finite(tuple(np.arange(-3.0, 4.0).tolist()))), y).views(y)
    assert all("equals" in name for name in bits)
    of_reals = Viewer.of(Vectors(dim=5), y).views(y).bits
    np.testing.assert_array_equal(found["sum"], y.sum(1))
    np.testing.assert_allclose(found["size"], np.linalg.norm(y, axis=1), rtol=1e-6)
    np.testing.assert_array_equal(found["largest"], y.max(1))
    np.testing.assert_array_equal(found["smallest"], y.min(1))
    np.testing.assert_array_equal(found["zeros"], (y == 0).sum(1))
    np.testing.assert_array_equal(found["sign of the product"], np.sign(y.prod(1)))
    for number in range(5):
        np.testing.assert_array_equal(found[f"number {number}"], y[:, number])
        words = y[:, number].view(np.uint32)
        for place in range(23):
            last = "last " if place < 8 else ""
            bit = words >> place & 1 == 1
            np.testing.assert_array_equal(of_reals[f"{last}bit {place} of {number}"], bit)
            if place < 22:
                name = f"{last}bits {place} and {place + 1} of {number}"
                np.testing.assert_array_equal(of_reals[name], bit ^ (words >> place + 1 & 1 == 1))
    for i, j in itertools.combinations(range(4), 2):
        np.testing.assert_array_equal(found[f"difference of {i} and {j}"], y[:, i] - y[:, j])
        np.testing.assert_array_equal(found[f"product of {i} and {j}"], y[:, i] * y[:, j])
        np.testing.assert_array_equal(bits[f"{i} equals {j}"], y[:, i] == y[:, j])
    assert len(bits) == 6
    assert len(found) == 5 + 4 + 6 + 12
    middle = [np.median(np.unique(y[:, number])) for number in range(4)]
    for number in range(4):
        name = f"|number {number} - {middle[number]:.4g}|"
        np.testing.assert_array_equal(found[name], np.abs(y[:, number] - middle[number]))


def test_numbers_of_a_continuum_are_rounded_to_a_share_of_their_usual_size():
    rng = np.random.default_rng(1)
    y = (50 * rng.normal(size=1000)).astype(np.float32)
    views = Viewer.of(Interval(-np.inf, np.inf), y).views(y)
    step = 1e-4 * np.quantile(np.abs(y.astype(np.float64)), 0.9)
    found = views.numbers["number 0"]
    np.testing.assert_allclose(found / step, np.round(found / step), atol=1e-6)
    assert np.abs(found - y).max() <= step * 0.5001
    assert np.abs(found - y).max() > 0.4 * step


def test_the_number_where_records_differ_is_looked_at_in_each_report():
    """Of sampled coordinates, too, where it is NaN in reports that do not have it."""
    rng = np.random.default_rng(2)
    y = rng.normal(size=(60, 6)).astype(np.float32)
    differing = rng.integers(0, 6, 60)
    space = Product(6, Finite(tuple(np.unique(y).tolist())))
    found = Viewer.of(space, y).views(y, differing).numbers
    own = y[np.arange(60), differing].astype(np.float64)
    np.testing.assert_array_equal(found["the number that differs"], own)
    middle = np.median(np.unique(y))
    high = found["the first number if that is high"]
    low = found["the first number if that is low"]
    np.testing.assert_array_equal(high[own > middle], y[own > middle, 0])
    np.testing.assert_array_equal(low[own <= middle], y[own <= middle, 0])
    assert high[own <= middle].max() < -1e300
    assert low[own > middle].max() < -1e300

    indices = np.sort(rng.permuted(np.tile(np.arange(6), (60, 1)), axis=1)[:, :2], 1)
    sent = SparseReport(indices.astype(np.int32), rng.choice([-1.0, 1.0], (60, 2)))
    views = Viewer.of(Subset(6, 2, Finite((-1.0, 1.0))), sent).views(sent, differing)
    found = views.numbers["the number that differs"]
    for row in range(60):
        there = np.flatnonzero(indices[row] == differing[row])
        expected = sent.values[row, there[0]] if len(there) else np.finfo(np.float64).max
        assert found[row] == expected


@mechanism
class NotANumber(Laplace):
    """A third of the reports is no number: NaN of positive records, and one infinity of others."""

    instead: float = static(default=np.inf)
    columns: int = static(default=0)

    def privatize(self, key, x):
        y = super().privatize(key, x)
        none = jnp.where(clip(x) > 0, jnp.nan, self.instead)
        sent = jnp.where(y > 1, none, y)
        return jnp.broadcast_to(sent, (self.columns,)) if self.columns else sent

    def log_density(self, y, x):
        return super().log_density(jnp.ravel(y)[0], x)


@untyped
@pytest.mark.parametrize("columns", [0, 2])
@pytest.mark.parametrize("instead", [np.inf, -np.inf, np.nan])
def test_nan_and_the_infinities_are_told_apart(instead, columns):
    """Where both records send NaN, nothing is told but that the number was high."""
    m = NotANumber(0.2, instead, columns)
    found = epsilon_lower_bound(m, jax.random.key(1), 20_000)
    assert (found.epsilon > 1.0) == (not np.isnan(instead)), found


@untyped
def test_the_game_about_many_records_tells_them_apart():
    assert largest_lower_bound(NotANumber(0.2), jax.random.key(2), 20_000).epsilon > 1.0
