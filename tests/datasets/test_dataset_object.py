import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from ldp_jax import datasets
from ldp_jax.datasets import Dataset
from ldp_jax.graph import graphs
from ldp_jax.learning import metrics


def small(
    x=((0.0, 3.0), (4.0, 0.0), (0.0, 1.0)), y=(0, 1, 0), lower=0.0, upper=4.0, n=3, **fields
) -> Dataset:
    return Dataset(
        name="small",
        graph=graphs.from_edges([[0, 1], [2, 1]], n),
        x=scipy.sparse.csr_array(np.array(x, np.float32)),
        y=np.array(y),
        lower=lower,
        upper=upper,
        **fields,
    )


@pytest.mark.parametrize("unknown", [-1, None, np.nan])
def test_labels_may_be_unknown(tmp_path, unknown):
    data = small(y=(1, unknown, 0))
    datasets.save(data, tmp_path / "some.npz")
    for one in (data, datasets.load(tmp_path / "some.npz")):
        assert (one.num_classes, one.y.tolist()) == (2, [1, -1, 0])
        assert one.known.tolist() == [True, False, True]
    scores = jnp.eye(3)[:, :2]
    assert float(metrics.accuracy(scores, data.y, data.known)) == 0.5
    for metric in (metrics.accuracy, metrics.f1):
        with pytest.raises(ValueError, match="labels must be known, and some are -1"):
            metric(scores, data.y)


def test_blocks_are_scaled_by_the_public_bounds(untyped):
    data = small()
    whole = (2 * data.x.toarray() / 4 - 1).astype(np.float32)
    np.testing.assert_array_equal(data.scaled_rows(0, 3), whole, strict=True)
    np.testing.assert_array_equal(data.scaled_rows(1, 2), whole[1:2])
    np.testing.assert_array_equal(data.scaled_columns(0, 2), whole, strict=True)
    np.testing.assert_array_equal(data.scaled_columns(1, 2), whole[:, 1:])
    assert data.scaled_rows(1, 1).shape == (0, 2)
    assert (data.default_record(), small(lower=-1.0).default_record()) == (-1.0, 0.0)
    for start, stop in ((-1, 1), (2, 1), (0, 4)):
        for block in (data.scaled_rows, data.scaled_columns):
            with pytest.raises(ValueError, match=f"start and stop .* got {start} and {stop}"):
                block(start, stop)
    # Bounds that no float32 equals still hold their own values.
    data = small(x=((0.1, 0.3),) * 3, lower=np.float64(0.1), upper=np.float64(0.3))
    np.testing.assert_allclose(data.scaled_rows(0, 1), [[-1, 1]], atol=1e-6)
    assert (np.abs(data.scaled_rows(0, 3)) <= 1).all()
    # Nor do NumPy's small integers hold the difference of two.
    wide = small(x=((-100, 0), (100, 50), (0, 0)), lower=np.int8(-100), upper=np.int8(100))
    np.testing.assert_allclose(wide.scaled_rows(0, 2), [[-1, 0], [1, 0.5]])


@pytest.mark.parametrize("layout", ["coo", "csc", "bsr", "lil", "dok", "dia"])
def test_records_of_any_sparse_layout_are_those_of_rows(layout, tmp_path):
    data = small()
    other = dataclasses.replace(data, x=data.x.asformat(layout))
    np.testing.assert_array_equal(other.scaled_rows(0, 3), data.scaled_rows(0, 3))
    datasets.save(other, tmp_path / "some.npz")
    np.testing.assert_array_equal(
        datasets.load(tmp_path / "some.npz").x.toarray(), data.x.toarray()
    )


def test_top_features_keeps_the_most_frequent_in_order():
    """However large their values, and whatever their sign."""
    x = np.array([[1, 0, 0.25, -1], [1, 0, 0, -1], [0, 0.5, 0, 1e-3]], np.float32)
    data = small(x=x, feature_names=("a", "b", "c", "d"), lower=-1.0, upper=1.0)
    top = data.top_features(2)
    assert top.feature_names == ("a", "d")
    np.testing.assert_array_equal(top.x.toarray(), x[:, [0, 3]])
    # b and c are as frequent: the lower wins.
    assert data.top_features(3).feature_names == ("a", "b", "d")
    assert "2 most frequent" in top.notes
    for k in (0, 5):
        with pytest.raises(ValueError, match=rf"k must be a whole number in \[1, 4\], got {k}"):
            data.top_features(k)


def test_validate_records_takes_dense_and_sparse():
    x = np.array([[0.0, 0.5], [1.0, 0.0]])
    for form in (x, scipy.sparse.csr_array(x), scipy.sparse.csc_array(x), x.tolist()):
        datasets.validate_records(form, 0, 1, "mine")
        with pytest.raises(
            ValueError, match=r"x of mine must be at most its declared upper bound 0.75, and"
        ):
            datasets.validate_records(form, 0, 0.75, "mine")


@pytest.mark.parametrize("lower", [-2.0, -1e-3, 0.0, 1e-3, 1.0, 3.0])
def test_the_default_record_holds_nothing_where_nothing_is_the_least_and_else_the_centre(lower):
    """Above 0, as below, a value of 0 is no lower bound."""
    data = small(x=np.full((3, 2), 4.0), lower=lower)
    assert data.default_record() == (-1.0 if lower == 0.0 else 0.0)
