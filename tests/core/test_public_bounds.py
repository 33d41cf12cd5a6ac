"""Public bounds are taken off in float64, wherever records come from; where float32 has lost them,
it is said.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import ldp_jax as ldp
from ldp_jax import datasets, deployment, features, servers
from ldp_jax.core.public_bounds import check_step, scaled
from ldp_jax.core.spaces import Box
from ldp_jax.graph import graphs
from ldp_jax.servers.parts.records import declared

GRAPH = graphs.from_edges([[0, 1], [1, 2]], 3)
LOWER = 9e8
UPPER = 9e8 + 60
X = np.array([[9e8], [9e8 + 45], [9e8 + 60]])
MAPPED = [-1.0, 0.5, 1.0]
LOST = "whose numbers near .* apart, and its bounds .*: give float64 on the host"


def mapped(x, bounds=(LOWER, UPPER), clip=False, domain=None):
    return declared(x, domain or Box(np.shape(x)[1]), bounds, clip)


KINDS = {
    "array": np.asarray,
    "list": np.ndarray.tolist,
    "table": pd.DataFrame,
    "masked": np.ma.array,
    "nullable": lambda x: pd.DataFrame(x).astype("Int64"),
    "objects of int": lambda x: x.astype(int).astype(object),
    **{kind: lambda x, kind=kind: x.astype(kind) for kind in ("i8", "u4", "object", "longdouble")},
}


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("kind", KINDS)
def test_an_offset_is_taken_off_before_anything_is_rounded(kind):
    x = KINDS[kind](X)
    for expected, more in (
        (MAPPED, {}),
        ([0.0, 0.75, 1.0], {"domain": Box(1, 0.0, 1.0)}),
        (MAPPED, {"bounds": (np.array([LOWER]), np.array([UPPER]))}),
        ([-1, 1, 1], {"bounds": (LOWER + 15, UPPER - 15), "clip": True}),
    ):
        np.testing.assert_array_equal(np.ravel(mapped(x, **more)), np.float32(expected))
    with pytest.raises(ValueError, match="x must lie in"):
        mapped(x, (LOWER, UPPER - 1))


def test_each_column_has_an_offset_of_its_own():
    x = np.array([[1.7e9 + 5, 0.25, -3e12], [1.7e9 + 10, 0.5, -3e12 + 100]])
    lower = np.array([1.7e9, 0.0, -3e12])
    upper = np.array([1.7e9 + 10, 1.0, -3e12 + 200])
    np.testing.assert_array_equal(mapped(x, (lower, upper)), [[0, -0.5, -1], [1, 0, 0]])


def test_what_float32_has_lost_is_refused_by_bounds_and_type_alone(tmp_path):
    """Also where no record is in between, and before the key is used."""
    key = jax.random.key(0)
    hds = features.HDS(1.0, dim=1, k=1)
    np.save(tmp_path / "x.npy", np.zeros((3, 1), np.float32))
    kinds = [np.zeros((3, 1), kind) for kind in (np.float32, np.float16)]
    kinds += [jnp.zeros((3, 1), kind) for kind in (jnp.float32, int, jnp.bfloat16)]
    for x in (*kinds, np.load(tmp_path / "x.npy", mmap_mode="r")):
        with pytest.raises(ValueError, match=LOST):
            servers.private_embedding(
                key, GRAPH, x, hds, alpha=0.5, r=0.5, bounds=(LOWER, UPPER), clip=True
            )
    jax.random.bits(key)
    with pytest.raises(ValueError, match=LOST):
        jax.eval_shape(mapped, jax.ShapeDtypeStruct((3, 1), jnp.float32))
    for kind in (np.float16, jnp.bfloat16, np.float32, np.int8):
        check_step(kind, 0, 1)
    check_step(np.float32, 1e8, 1e8 + 8001)  # a step of 8 is below 1e-3 of it
    for kind, *bounds in ((np.float32, 1e8, 1e8 + 7999), (np.int64, 1e18, 1e18 + 1e5)):
        with pytest.raises(ValueError, match="subtract a public offset"):
            check_step(kind, *bounds)
    # The worst of three is named.
    with pytest.raises(ValueError, match=r"near 1e\+08 are 8 apart, and its bounds 10:"):
        check_step(np.float32, np.array([0.0, 1e8, 0.0]), np.array([1.0, 1e8 + 10, 1e8]))


def test_float32_is_mapped_as_far_as_it_goes():
    """Bounds that float32 has no number for move nothing: the lower one would move all records by
    half a step.
    """
    x = np.float32([[1e6 + 1], [1e6 + 51]])
    bounds = (1e6 + 0.97, 1e6 + 100.97)
    exact = (x.astype(np.float64) - bounds[0]) / 50 - 1
    for of in (np.asarray, jnp.asarray):
        np.testing.assert_allclose(mapped(of(x), bounds), exact, atol=2e-7)
    half = np.float32([[0.3], [0.1]])
    np.testing.assert_allclose(np.ravel(mapped(half, (0.1, 0.3))), [1.0, -1.0], atol=2e-7)


@pytest.mark.parametrize("upper", [0.3, 1e8 + 10, 2.2, 9e8 + 60, 1e300])
def test_no_mapped_record_leaves_the_domain(upper):
    rng = np.random.default_rng(0)
    shares = np.concatenate([rng.uniform(-1, 2, 10_000), [0, 1, np.nan, np.inf, -np.inf]])
    near = upper - 0.1 * abs(upper) - 1e-3
    for lower, start, stop in ((-1.0, -1.0, 1.0), (near, 0.0, 1.0), (0.1, -0.3, 0.7)):
        x = lower + (upper - lower) * shares
        made = scaled(x[:, None], lower, upper, start, stop)
        assert np.float32(start) == made.min()
        assert made.max() == np.float32(stop)
        assert made[-3] == pytest.approx((start + stop) / 2)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    "kind", [np.asarray, scipy.sparse.csr_array, scipy.sparse.coo_array, pd.DataFrame]
)
def test_a_data_set_keeps_the_offset_of_its_records(kind, tmp_path):
    """Rows, columns, a saved file, and the features that were chosen."""
    x = np.array([[1e8 + 1, 1e8], [1e8 + 2, 1e8 + 10], [1e8 + 3, 1e8 + 5]])
    expected = np.float32([[-0.8, -1], [-0.6, 1], [-0.4, 0]])
    made = lambda x: datasets.Dataset("mine", GRAPH, kind(x), [0, 1, 0], 1e8, 1e8 + 10)
    data = made(x)
    datasets.save(data, tmp_path / "mine.npz")
    for one in (data, ldp.load(tmp_path / "mine.npz"), data.top_features(2)):
        np.testing.assert_array_equal(one.scaled_rows(0, 3), expected)
        np.testing.assert_array_equal(one.scaled_columns(1, 2), expected[:, 1:])
    hds = features.HDS(1.0, dim=2, k=2)
    reports, other = (servers.perturb(jax.random.key(0), given, hds) for given in (data, expected))
    jax.tree.map(np.testing.assert_array_equal, reports, other)
    with pytest.raises(ValueError, match=f"x of mine is float32, {LOST}"):
        made(x.astype(np.float32))


@pytest.mark.parametrize("kind", [float, int])
def test_bounds_of_a_raw_file_are_taken_off(kind, tmp_path):
    x = (1e8 + np.array([[1, 0], [2, 10], [3, 5]])).astype(kind)
    np.savez(tmp_path / "raw.npz", edges=np.array([[0, 1], [1, 2]]), x=x, y=np.array([0, 1, 0]))
    given = ldp.load(tmp_path / "raw.npz", bounds=(1e8, 1e8 + 5), clip=True)
    expected = np.float32([[-0.6, -1], [-0.2, 1], [0.2, 1]])
    np.testing.assert_allclose(given.scaled_rows(0, 3), expected)


def test_records_of_a_file_keep_their_offset(tmp_path):
    for kind in (np.float64, np.int64):
        np.save(tmp_path / "x.npy", X.astype(kind))
        stored = np.load(tmp_path / "x.npy", mmap_mode="r")
        rows = mapped(stored)
        np.testing.assert_array_equal(np.ravel(rows.scaled_rows(0, 3)), MAPPED)
        np.testing.assert_array_equal(np.ravel(rows.scaled_rows(1, 2)), MAPPED[1:2])
        with pytest.raises(ValueError, match="x must lie in"):
            mapped(stored, (LOWER, UPPER - 1))


@pytest.mark.usefixtures("untyped")
def test_columns_of_a_table_keep_their_offset():
    table = pd.DataFrame({"at": X.ravel()})
    given = {"numbers": {"at": (LOWER, UPPER)}}
    for kind in ("float64", "int64", "Int64", "Float64", "double[pyarrow]", object):
        np.testing.assert_array_equal(
            datasets.read_records(table.astype(kind), **given).x, [[0], [0.75], [1]]
        )
    for kind in ("float32", "Float32", "float[pyarrow]"):
        with pytest.raises(ValueError, match=f"column 'at' is float32, {LOST}"):
            datasets.read_records(table.astype(kind), **given)


@pytest.mark.usefixtures("untyped")
def test_a_device_takes_bounds_off_as_the_server_does():
    """Of numbers, vectors and integers of any size, with what is outside at the ends."""
    data = datasets.Dataset("mine", GRAPH, X, [0, 1, 0], LOWER, UPPER)
    np.testing.assert_array_equal(deployment.scaled(X, LOWER, UPPER), data.scaled_rows(0, 3))
    for x, expected in (
        (900_000_045, 0.5),
        (10**400, 1.0),
        (-(10**400), -1.0),
        (np.nan, 0.0),
        ([9e8 + 15, 9e8 + 30], [-0.5, 0.0]),
        (np.ma.array([1, 2], mask=[True, False]), [0.0, -1.0]),
    ):
        np.testing.assert_array_equal(deployment.scaled(x, LOWER, UPPER), np.float32(expected))
    assert deployment.scaled(9e8 + 45, LOWER, UPPER, start=0.0) == 0.75
    for bounds in ((1, 1), (1, 0), (0, np.inf), (np.nan, 1)):
        with pytest.raises(ValueError, match="bounds must rise|must be finite"):
            deployment.scaled(0.5, *bounds)
    with pytest.raises(ValueError, match=LOST):
        deployment.scaled(np.float32(9e8), LOWER, UPPER)
    with pytest.raises(TypeError, match="records must be real numbers"):
        deployment.scaled("0.5", 0, 1)


@pytest.mark.usefixtures("untyped")
def test_bounds_of_no_column_are_kept():
    check_step(np.float32, np.zeros(0), np.ones(0))
