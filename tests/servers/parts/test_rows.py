"""Rows of features: what is said of their columns."""

import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from ldp_jax.servers.parts.rows import of_length_one, warn_of_columns


def said_of(x):
    """The warnings about the columns of x."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warn_of_columns(x, "columns")
    return [str(one.message) for one in said]


def with_zeros(x):
    """A sparse array that stores its zeros."""
    row, column = np.indices(x.shape)
    return scipy.sparse.csr_array((x.ravel(), (row.ravel(), column.ravel())), x.shape)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array, with_zeros])
def test_the_columns_that_are_named_are_those_of_the_least_and_the_largest_size(seed, form):
    """Sizes by a loop: the root mean square of what is not 0, over columns that have it."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(30, 9)) * 10.0 ** rng.permutation(9)
    x[rng.random(x.shape) < 0.5] = 0.0
    x[:, rng.integers(9)] = 0.0
    size = {}
    for column in range(9):
        entries = x[x[:, column] != 0, column]
        if len(entries):
            size[column] = np.sqrt(np.mean(entries**2))
    large = max(size, key=size.get)
    small = min(size, key=size.get)
    (message,) = said_of(form(x))
    times, *named = re.search(
        r"by (\S+) times \(column (\d+) against column (\d+)\)", message
    ).groups()
    assert named == [str(large), str(small)]
    assert float(times) == pytest.approx(size[large] / size[small], rel=5e-3)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_nothing_is_said_of_columns_that_are_less_than_100_times_apart(unit):
    apart = lambda times: unit * np.array([[1.0, -times, 0.0], [0.0, times, 0.0]])
    assert not said_of(apart(99.0))
    assert len(said_of(apart(101.0))) == 1
    assert not said_of(np.zeros((3, 2)))


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("size", [1e-30, 1e-3, 1.0, 1e8])
def test_a_record_of_any_size_and_sign_has_length_one(sign, size):
    """In float64, by its norm: squares of these overflow and underflow in float32."""
    rng = np.random.default_rng(0)
    records = sign * size * rng.uniform(0.1, 1.0, (50, 6))
    records[:25] *= rng.choice([-1.0, 1e-12, 1.0], (25, 6))
    found = jax.vmap(of_length_one)(jnp.asarray(records, jnp.float32))
    due = records / np.linalg.norm(records, axis=1, keepdims=True)
    np.testing.assert_allclose(found, due, rtol=1e-5, atol=1e-7)


def test_what_is_no_number_of_a_record_is_nothing_and_what_is_far_is_far():
    given = [[np.nan, -2.0], [np.inf, 1e9], [-np.inf, 1.0], [-3e38, 3e38], [np.nan, np.nan]]
    half = np.sqrt(0.5)
    due = [[0.0, -1.0], [half, half], [-1.0, 1e-9], [-half, half], [0.0, 0.0]]
    found = jax.vmap(of_length_one)(jnp.asarray(given, jnp.float32))
    np.testing.assert_allclose(found, due, rtol=1e-5)
