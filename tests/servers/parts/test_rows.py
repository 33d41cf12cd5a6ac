"""Rows of features: what is said of their columns."""

import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from ldp_jax.servers.parts.rows import (
    DenseRows,
    Rows,
    RowTables,
    feature_rows,
    laid_out,
    of_length_one,
    part_size,
    scaled_rows,
    warn_of_columns,
)


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


def columns_of_one_size(x):
    centred = x - x.mean(0) if (x != 0).mean() > 0.25 else x
    size = np.sqrt((centred**2).mean(0))
    used = size > 1e-9 * np.abs(x).max(0)
    return np.where(used, centred / np.where(used, size, 1.0), 0.0)


@pytest.mark.parametrize("share", [0.1, 0.24, 0.26, 1.0])
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array, with_zeros])
def test_features_are_scaled_as_dense_formulas_say(share, form):
    """Rows of length 1; columns of one size, centred where many are not 0; and the numbers."""
    rng = np.random.default_rng(0)
    x = rng.normal(2.0, 1.0, (20, 10)) * 10.0 ** np.arange(-3, 7)
    x[rng.permuted(np.arange(200).reshape(20, 10)) >= share * 200] = 0.0
    x[:, 3] = 5.0 if share == 1.0 else 0.0  # a constant, which says nothing
    x[4] = 0.0 if share < 1.0 else x[4]
    made = {name: rows.dense() for name, rows in scaled_rows(form(x)).items()}
    length = np.linalg.norm(x, axis=1, keepdims=True)
    columns = columns_of_one_size(x)
    due = {"rows": x / np.where(length > 0, length, 1.0), "columns": columns, "none": x}
    for name in ("columns", "none"):
        due[name] = due[name] / np.sqrt((due[name] ** 2).sum(1).mean())
    assert set(made) == set(due)
    for name, rows in due.items():
        np.testing.assert_allclose(made[name], rows, atol=1e-6, err_msg=name)


def test_private_rows_are_read_as_devices_read_them_and_public_ones_refused():
    x = np.array([[3.0, 4.0, 0.0], [np.nan, 1.0, 2.0], [-np.inf, 1e12, 1.0], [-5.0, 2.0, 0.0]])
    public = np.array([0])
    plain = np.array([[3.0, 4.0, 0.0], [0.0, 1.0, 2.0], [-1e9, 1e9, 1.0], [-5.0, 2.0, 0.0]])
    for log, read in ((False, plain), (True, np.log1p(np.maximum(plain, 0.0)))):
        found = feature_rows(x, log=log, public=public).dense()
        np.testing.assert_allclose(
            found, read / np.linalg.norm(read, axis=1, keepdims=True), rtol=1e-6, atol=1e-9
        )
    with pytest.raises(ValueError, match="features must be finite"):
        feature_rows(x, public=np.array([0, 1]))
    with pytest.raises(ValueError, match="features must be counts >= 0 where log"):
        feature_rows(x, log=True, public=np.array([0, 3]))
    feature_rows(x, public=np.array([0, 3]))
    with pytest.raises(ValueError, match="features must be real, got complex128"):
        feature_rows(x + 1j)
    with pytest.raises(ValueError, match=r"of shape \[n, d\], got float64 of shape \(4,\)"):
        feature_rows(x[:, 0])


def test_some_rows_and_products_are_those_of_the_dense_matrix():
    rng = np.random.default_rng(1)
    x = np.where(rng.random((9, 5)) < 0.3, rng.normal(size=(9, 5)), 0.0)
    rows = feature_rows(x)
    np.testing.assert_array_equal(
        rows.take(np.array([7, 2, 7, 5])).dense(), rows.dense()[[2, 5, 7]]
    )
    weights = rng.normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_allclose(rows.times(jnp.asarray(weights)), rows.dense() @ weights, rtol=1e-5)


def test_tables_are_multiplied_as_the_matrix_is():
    """Rows of 0 to 17 entries in lines of 8, padded like another layout and to a public room."""
    rng = np.random.default_rng(0)
    count = np.resize([0, 1, 8, 9, 17, 3], 40)
    column = np.concatenate([np.sort(rng.permutation(150)[:size]) for size in count])
    column = column.astype(np.int32)
    row = np.repeat(np.arange(40, dtype=np.int32), count)
    rows = Rows(row, column, rng.normal(size=len(row)).astype(np.float32), shape=(40, 150))
    dense = rows.dense()
    weights, back = (rng.normal(size=(size, 3)).astype(np.float32) for size in (150, 40))
    whole = laid_out(rows)
    some = np.array([37, 4, 4, 11])
    part = laid_out(rows.take(some), whole)
    wide = laid_out(rows, room=700)
    assert [made.shape for made in (whole, part, wide)] == [(40, 150), (40, 150), (1024, 150)]
    assert part.by_row[0].shape == whole.by_row[0].shape
    lines = [int(np.ceil(np.count_nonzero(dense, axis=axis) / 8).sum()) for axis in (1, 0)]
    assert np.asarray(whole.lines).tolist() == lines
    times = jax.jit(lambda made, given: made.times(given))
    transposed = jax.jit(lambda made, given: made.transposed(given))
    for made, matrix in ((whole, dense), (part, dense[[4, 11, 37]]), (wide, dense)):
        assert isinstance(made, RowTables)
        padded = np.pad(matrix, ((0, made.shape[0] - len(matrix)), (0, 0)))
        np.testing.assert_allclose(times(made, weights), padded @ weights, atol=1e-4)
        given = np.pad(back, ((0, made.shape[0] - 40), (0, 0)))
        np.testing.assert_allclose(transposed(made, given), padded.T @ given, atol=1e-4)
    np.testing.assert_allclose(rows.times(jnp.asarray(weights)), dense @ weights, atol=1e-4)
    many = laid_out(DenseRows(dense), room=700)
    np.testing.assert_array_equal(many.values, np.pad(dense, ((0, 984), (0, 0))))
    np.testing.assert_array_equal(DenseRows(dense).take(some).values, dense[[4, 11, 37]])
    assert isinstance(laid_out(DenseRows(np.eye(20, dtype=np.float32))), DenseRows)
    assert [part_size(n) for n in (512, 513, 32_768, 32_769)] == [512, 512, 512, 1024]
