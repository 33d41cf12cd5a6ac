"""k of d coordinates: the subset, the sparse report, and the papers' formulas written out once more."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.core.float64 import float64_on_cpu
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
from tests import stats


@pytest.mark.parametrize(("dim", "k"), [(5, 2), (6, 3), (5, 4), (7, 1)])
def test_every_subset_is_equally_likely(dim, k):
    """G test over all subsets, 100 000 draws: detects a total variation of 0.014 (20 subsets)."""
    m, n = Sampled(Duchi(1.0), dim, k), 100_000
    y = jax.jit(jax.vmap(lambda key: m.privatize(key, jnp.zeros(dim))))(jax.random.split(jax.random.key(0), n))
    indices = np.asarray(y.indices)
    assert indices.shape == (n, k)
    assert (np.diff(indices) > 0).all()
    assert indices.min() >= 0
    assert indices.max() < dim
    code = (1 << indices).sum(1)
    subsets = [sum(1 << j for j in chosen) for chosen in itertools.combinations(range(dim), k)]
    counts = [(code == subset).sum() for subset in subsets]
    assert sum(counts) == n
    stats.assert_g(counts, np.full(len(subsets), 1 / len(subsets)))


def test_coordinates_of_a_wide_record_are_equally_likely():
    """k = 50 of 4714: each block of coordinates gets its share."""
    m, n, blocks = HDS(1.0, 4714, 50), 2000, 20
    indices = np.asarray(
        jax.jit(jax.vmap(lambda key: m.privatize(key, jnp.zeros(4714)).indices))(
            jax.random.split(jax.random.key(1), n)
        )
    )
    assert (np.diff(indices) > 0).all()
    edges = np.linspace(0, 4714, blocks + 1).astype(int)
    counts = np.histogram(indices, edges)[0]
    # Sampling without replacement varies less than a multinomial, so the test is on the safe side.
    stats.assert_g(counts, np.diff(edges) / 4714)


def test_all_coordinates_need_no_subset():
    m = LaplaceVector(1.0, 5)
    y = m.privatize(jax.random.key(0), np.linspace(-1, 1, 5, dtype=np.float32))
    np.testing.assert_array_equal(y.indices, np.arange(5))
    jaxpr = str(jax.make_jaxpr(m.privatize)(jax.random.key(0), jnp.zeros(5)))
    assert "while" not in jaxpr
    assert "gather" not in jaxpr


def _arrays(jaxpr):
    for equation in jaxpr.eqns:
        yield from (variable.aval for variable in equation.outvars)
        for parameter in equation.params.values():
            for inner in parameter if isinstance(parameter, (list, tuple)) else [parameter]:
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from _arrays(inner)


@pytest.mark.parametrize("make", [HDS, MultiBit, MultiPiecewise])
def test_reports_and_memory_do_not_grow_with_the_dimension(make):
    """No intermediate array of a privatize is longer than a few k, but for the record itself."""
    dim, k = 100_000, 7
    m = make(1.0, dim, k)
    program = jax.make_jaxpr(m.privatize)(jax.random.key(0), jax.ShapeDtypeStruct((dim,), jnp.float32))
    sizes = [getattr(aval, "size", 1) for aval in _arrays(program.jaxpr)]
    assert len(sizes) > 50
    assert max(sizes) <= 4 * k
    y = jax.eval_shape(m.privatize, jax.random.key(0), jax.ShapeDtypeStruct((dim,), jnp.float32))
    assert [(leaf.shape, leaf.dtype) for leaf in y] == [((k,), jnp.int32), ((k,), jnp.float32)]


@pytest.mark.parametrize(
    "indices", [[1, 0], [0, 0], [-1, 2], [0, 4], [2, 9]], ids=["unsorted", "repeated", "negative", "d", "beyond"]
)
def test_impossible_subsets_have_no_density(indices):
    m = Sampled(Duchi(1.0), 4, 2)
    y = SparseReport(np.array(indices, np.int32), np.ones(2, np.float32))
    assert m.log_density(y, jnp.zeros(4)) == -jnp.inf


@pytest.mark.parametrize("m", [HDS(4.0, 11, 3), LaplaceVector(4.0, 11)], ids=["sampled", "all"])
def test_columns_are_slices_of_the_estimate(m):
    y = m.privatize(jax.random.key(2), np.linspace(-1, 1, 11, dtype=np.float32))
    whole = np.asarray(m.estimate(y))
    dense = np.zeros(11, np.float32)
    dense[np.asarray(y.indices)] = m._gain * np.asarray(m.inner.estimate(y.values))
    np.testing.assert_array_equal(whole, dense)
    padded = np.concatenate([whole, np.zeros(8, np.float32)])
    columns = jax.jit(m.estimate_columns, static_argnums=2)  # start is traced
    for start in range(11):
        np.testing.assert_array_equal(columns(y, start, 4), padded[start : start + 4])
    np.testing.assert_array_equal(m.estimate_columns(y, 8, 3), whole[8:])


# --- Formulas of the paper, in their own notation ----------------------------------------------------------


def _b(e):
    return (e * math.exp(e) - math.exp(e) + 1) / (math.exp(e) * (math.exp(e) - e - 1))


def _equation_5(epsilon, d, k, x):
    root = math.exp(epsilon / (2 * k))
    return d * (root + 3) / (3 * k * (root - 1) ** 2) + (d * root / (k * (root - 1)) - 1) * x**2


def _equation_8(epsilon, d, k, x):
    ratio = math.exp(epsilon / k)
    return d / k * ((ratio + 1) / (ratio - 1)) ** 2 - x**2


def _equation_11(epsilon, d, k, x):
    ratio, b = math.exp(epsilon / k), _b(epsilon / k)
    c = k / d * b * (ratio - 1) / (b * ratio + 1)
    return k / d * (b**3 * ratio + 3 * b**2 + 3 * b + 1) / (3 * (b * ratio + 1)) + (c - c**2) * x**2


def _equation_14(epsilon, d, k, x):
    ratio, b = math.exp(epsilon / k), _b(epsilon / k)
    return k / d * b * (ratio - 1) / (b * ratio + 1) * x


X = np.linspace(-1, 1, 9)
SETTINGS = [(1.0, 10, 1), (1.0, 10, 4), (4.0, 10, 10), (16.0, 100, 20), (3.0, 1, 1)]


@pytest.mark.parametrize(("epsilon", "d", "k"), SETTINGS)
@pytest.mark.parametrize(
    ("make", "mean", "variance"),
    [
        (MultiPiecewise, lambda e, d, k, x: x, _equation_5),
        (MultiBit, lambda e, d, k, x: x, _equation_8),
        (HDS, _equation_14, _equation_11),
    ],
    ids=["piecewise", "multibit", "hds"],
)
def test_moments_are_the_papers(make, mean, variance, epsilon, d, k):
    with float64_on_cpu():
        m = make(epsilon, d, k)
        np.testing.assert_allclose(m.mean(X), mean(epsilon, d, k, X), rtol=1e-8, atol=1e-14)
        np.testing.assert_allclose(m.variance(X), variance(epsilon, d, k, X), rtol=1e-8)


@pytest.mark.parametrize(("epsilon", "d"), [(1.0, 1), (2.0, 7), (0.1, 500)])
def test_laplace_vector_has_the_papers_variance(epsilon, d):
    np.testing.assert_allclose(LaplaceVector(epsilon, d).variance(np.zeros(d)), 8 * d**2 / epsilon**2, rtol=1e-6)


def test_debiased_hds_is_unbiased_and_pays_for_it():
    raw, debiased = HDS(1.0, 10, 2), HDS(1.0, 10, 2, debias=True)
    np.testing.assert_allclose(debiased.mean(X), X, atol=1e-6)
    assert (np.asarray(debiased.variance(X)) > np.asarray(raw.variance(X))).all()


def test_half_width_of_the_square_wave():
    """b(1), b(5) as published; b -> 1 at 0, where the printed formula is 0/0 and -1 in double precision."""
    assert float(SquareWave(1.0).b) == pytest.approx(0.51216588, rel=1e-6)
    assert float(SquareWave(5.0).b) == pytest.approx(0.02813460, rel=1e-6)
    assert float(SquareWave(1e-8).b) == pytest.approx(1.0, abs=1e-7)
    with float64_on_cpu():
        # The series below 1/2 meets the closed form; between them the printed formula itself.
        for epsilon in (0.05, 0.4999999, 0.5, 0.5000001, 2.0, 16.0):
            assert float(SquareWave(epsilon).b) == pytest.approx(_b(epsilon), rel=1e-9)
        assert float(SquareWave(1.0).b) == pytest.approx(0.51216588, abs=5e-9)
        assert float(SquareWave(5.0).b) == pytest.approx(0.02813460, abs=5e-9)
        assert float(SquareWave(1e-8).b) == pytest.approx(1 - 2e-8 / 3, abs=1e-9)


@pytest.mark.parametrize(
    ("make", "per_coordinate"), [(MultiBit, 2.18), (MultiPiecewise, 2.5)], ids=["multibit", "piecewise"]
)
def test_default_k(make, per_coordinate):
    for epsilon, dim in itertools.product((0.1, 2.0, 2.2, 5.0, 11.0, 30.0), (1, 3, 100)):
        m = make(epsilon, dim)
        assert m.k == max(1, min(dim, math.floor(epsilon / per_coordinate)))
        assert m.guarantee().epsilon == pytest.approx(epsilon)


def test_shares_of_a_stack_never_exceed_its_budgets():
    """Rounded to nearest, a third of float32 shares would add up to more."""
    epsilons = np.linspace(0.1, 9.0, 200, dtype=np.float32)
    shares = np.asarray(HDS(epsilons, 10, 3).inner.epsilon, np.float64)
    assert (3 * shares <= epsilons).all()
    np.testing.assert_allclose(3 * shares, epsilons, rtol=2e-7)


def test_inner_epsilon_is_a_share():
    assert HDS(3.0, 10, 4).inner == SquareWave(0.75)
    assert LaplaceVector(3.0, 4).inner == Laplace(0.75)
    assert Sampled(Duchi(0.75), 10, 4).guarantee().epsilon == 3.0
