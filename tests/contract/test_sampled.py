"""k of d coordinates: the subset, the sparse report, and the papers' formulas written out once
more.
"""

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.mechanism import mechanism, privatize
from ldp_jax.core.spaces import Subset
from ldp_jax.features import (
    HDS,
    Duchi,
    Laplace,
    LaplaceVector,
    MultiBit,
    MultiPiecewise,
    Sampled,
    SparseReport,
    SquareWave,
)
from ldp_jax.verification import _programs
from ldp_jax.verification.cases import CASES
from tests import stats


def test_every_subset_is_equally_likely():
    """G test over all subsets, 50 000 draws: detects a total variation of 0.025 (20 subsets)."""
    m = Sampled(Duchi(1.0), 6, 3)
    n = 50_000
    indices = np.asarray(privatize(jax.random.key(0), m, jnp.zeros((n, 6))).indices)
    assert indices.shape == (n, 3)
    assert (np.diff(indices) > 0).all()
    found, counts = np.unique(indices, axis=0, return_counts=True)
    np.testing.assert_array_equal(found, list(itertools.combinations(range(6), 3)))
    stats.assert_g(counts, np.full(20, 1 / 20))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_records_of_the_host_give_the_reports_of_those_on_a_device(dtype):
    """The chosen coordinates alone go over; a shape that is no record's is refused as ever."""
    m = HDS(2.0, 300, 7)
    x = np.random.default_rng(0).normal(0, 1.2, (40, 300)).astype(dtype)
    x[0] = np.nan if dtype == np.float32 else 99
    found, wanted = (
        privatize(jax.random.key(0), m, records) for records in (x, jnp.asarray(x, jnp.float32))
    )
    np.testing.assert_array_equal(found.indices, wanted.indices)
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-6)
    traced = jax.jit(lambda key: privatize(key, m, x))(jax.random.key(0))
    np.testing.assert_array_equal(traced.indices, wanted.indices)
    with pytest.raises(ValueError, match="must be one record of shape"):
        privatize(jax.random.key(0), m, x[:, 1:])


@pytest.mark.parametrize("make", [HDS, MultiBit, MultiPiecewise])
def test_reports_and_memory_do_not_grow_with_the_dimension(make):
    """No intermediate array of a privatize is longer than a few k, but for the record itself."""
    dim, k = 100_000, 7
    m = make(1.0, dim, k)
    record = jax.ShapeDtypeStruct((dim,), jnp.float32)
    program = jax.make_jaxpr(m.privatize)(jax.random.key(0), record)
    made = (variable.aval for one in _programs.equations(program.jaxpr) for variable in one.outvars)
    sizes = [getattr(aval, "size", 1) for aval in made]
    assert len(sizes) > 50
    assert max(sizes) <= 4 * k
    y = jax.eval_shape(m.privatize, jax.random.key(0), record)
    assert [(leaf.shape, leaf.dtype) for leaf in y] == [((k,), jnp.int32), ((k,), jnp.float32)]


def test_the_law_of_all_reports_and_of_none_beside_them():
    """Its moments are the closed forms, at a scale of its own; other subsets are unsorted,
    repeated, negative or beyond the last.
    """
    m = Sampled(Duchi(1.0), 4, 2, scale=1.5)
    x = np.float32([0.2, -1.0, 0.7, 0.4])
    possible = list(
        itertools.product(itertools.combinations(range(4), 2), itertools.product((-1, 1), (-1, 1)))
    )
    indices = np.int32(
        [subset for subset, _ in possible] + [[1, 0], [0, 0], [-1, 2], [0, 4], [2, 9]]
    )
    values = np.float32([signs for _, signs in possible] + [[1, 1]] * 5)
    asked = lambda y: (m.log_density(y, x), m.estimate(y))
    log_density, estimate = jax.jit(jax.vmap(asked))(SparseReport(indices, values))
    assert np.isneginf(log_density[24:]).all()
    mass = np.exp(np.float64(log_density[:24]))
    assert mass.sum() == pytest.approx(1, rel=1e-5)
    mean = mass @ estimate[:24]
    np.testing.assert_allclose(mean, m.mean(x), atol=1e-5)
    np.testing.assert_allclose(mass @ (estimate[:24] - mean) ** 2, m.variance(x), rtol=1e-5)


@pytest.mark.parametrize("m", [HDS(4.0, 11, 3), LaplaceVector(4.0, 11)], ids=["sampled", "all"])
def test_columns_are_slices_of_the_estimate(m):
    y = m.privatize(jax.random.key(2), np.linspace(-1, 1, 11, dtype=np.float32))
    padded = np.zeros(19, np.float32)
    padded[np.asarray(y.indices)] = m.scale * m.inner.estimate(y.values)
    np.testing.assert_array_equal(m.estimate(y), padded[:11])
    columns = jax.jit(m.estimate_columns, static_argnums=2)  # start is traced
    for start in range(11):
        np.testing.assert_array_equal(columns(y, start, 4), padded[start : start + 4])
    np.testing.assert_array_equal(columns(y, 8, 3), padded[8:11])


def test_half_width_of_the_square_wave():
    """b(1), b(5) as published; b -> 1 at 0, where the printed formula is 0/0 and -1 in double
    precision.
    """
    assert float(SquareWave(1.0).b) == pytest.approx(0.51216588, rel=1e-6)
    assert float(SquareWave(1e-8).b) == pytest.approx(1.0, abs=1e-7)
    with float64_on_cpu():
        # The series below 1/2 meets the closed form; between them the printed formula itself.
        for e in (0.05, 0.4999999, 0.5, 0.5000001, 2.0, 16.0):
            printed = (e * math.exp(e) - math.exp(e) + 1) / (math.exp(e) * (math.exp(e) - e - 1))
            assert float(SquareWave(e).b) == pytest.approx(printed, rel=1e-9)
        for e, b in ((1.0, 0.51216588), (5.0, 0.02813460), (1e-8, 1 - 2e-8 / 3)):
            assert float(SquareWave(e).b) == pytest.approx(b, abs=5e-9)


def test_shares_and_default_k():
    makes = ((MultiBit, 2.18), (MultiPiecewise, 2.5))
    for (make, each), epsilon, dim in itertools.product(makes, (0.1, 2.0, 2.2, 30.0), (1, 100)):
        m = make(epsilon, dim)
        assert m.k == max(1, min(dim, math.floor(epsilon / each)))
        assert m.guarantee().epsilon == pytest.approx(epsilon)
    assert HDS(3.0, 10, 4).inner == SquareWave(0.75)
    for name in ("Sampled-grid-default", "Sampled-grid"):  # HDS on a grid
        assert CASES[name].make(1.0).scale == HDS(1.0, 4, 2).scale
    assert LaplaceVector(3.0, 4).inner == Laplace(0.75)
    assert Sampled(Duchi(0.75), 10, 4).guarantee().epsilon == 3.0
    np.testing.assert_allclose(
        LaplaceVector(2.0, 7).variance(np.zeros(7)), 8 * 7**2 / 2.0**2, rtol=1e-6
    )


@mechanism
class Near(Duchi):
    """A loss that is stated for near numbers alone."""

    def guarantee(self):
        near = "two numbers that differ by 0.1"
        return dataclasses.replace(super().guarantee(), epsilon=0.1, adjacency=near)


def test_a_loss_between_near_numbers_is_none_between_any_two_vectors():
    words = Sampled(Near(1.0), 6, 3).guarantee().adjacency
    assert words == "two records of 6 coordinates; a coordinate: two numbers that differ by 0.1"
    m = Sampled(Duchi(1.0), 6, 3)
    assert m.guarantee().adjacency == "any two vectors in [-1, 1]^6"
    assert m.codomain() == Subset(6, 3, m.inner.codomain())


def test_shares_of_a_stack_never_exceed_its_budgets():
    """Rounded to nearest, a third of float32 shares would add up to more."""
    epsilons = np.linspace(0.1, 9.0, 200, dtype=np.float32)
    shares = np.asarray(HDS(epsilons, 10, 3).inner.epsilon, np.float64)
    assert (3 * shares <= epsilons).all()
    np.testing.assert_allclose(3 * shares, epsilons, rtol=2e-7)
