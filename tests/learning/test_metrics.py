"""Metrics of what callers hold: 64-bit scores, tables, and what is no score."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from ldp_jax import attacks
from ldp_jax.core import validate
from ldp_jax.core.ownership import ownership
from ldp_jax.learning import metrics
from ldp_jax.servers.parts.arrived import places, reporters

SCORES = np.array([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]])
LABELS = np.array([0, 1, 1])
BIG = 2**60


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    ("positive", "negative", "area"),
    [
        (np.array([1 + 2e-9, 1 + 3e-9]), np.array([1 + 1e-9, 1.0]), 1.0),
        (np.array([BIG + 2, BIG + 3]), np.array([BIG, BIG + 1]), 1.0),
        (np.array([BIG + 1], np.uint64), np.array([BIG, BIG + 1], np.uint64), 0.75),
        (np.array([1e300]), np.array([1e299, np.inf]), 0.5),
        ([2**31 + 1], [2**31], 1.0),
        (np.array([2, 1]), np.array([1.5, 0.0]), 0.75),
        (pd.Series([3, 1], dtype="Int64"), pd.Series([1.0, 0.0]), 0.875),
        (jnp.array([3.0, 1.0]), np.array([1.0, 0.0]), 0.875),
        (np.array([1.0, np.nan]), np.array([0.0]), np.nan),
        (np.ma.array([1, 5], mask=[False, True]), np.array([0]), np.nan),
        (np.zeros(0), np.array([0.0]), np.nan),
    ],
)
def test_an_auc_is_that_of_the_scores_as_they_were_given(positive, negative, area):
    np.testing.assert_array_equal(metrics.auc(positive, negative), np.float32(area))


@pytest.mark.usefixtures("untyped")
def test_scores_that_float64_makes_equal_are_refused():
    """Elsewhere than in ``auc``, which compares whole numbers."""
    asked = attacks.Targets(np.array([[0, 1], [1, 2], [0, 2]]), np.array([True, False, False]))
    member = np.array([[True, False], [False, True]])
    big = np.array([[BIG, BIG + 1]] * 2)
    for refused in (
        lambda: attacks.evaluate("any", np.array([BIG + 1, BIG, BIG]), asked),
        lambda: attacks.evaluate_membership("any", big, member),
        lambda: attacks.poisoning.harm("any", big[0], big[0], member[0]),
        lambda: metrics.mean_interval(big[0]),
        lambda: metrics.auc(big[0], np.array([0.5])),
        lambda: ownership(big[0]),
    ):
        with pytest.raises(ValueError, match=r"must be whole numbers below 2\^53"):
            refused()
    fine = attacks.evaluate("any", np.array([1 + 2e-12, 1 + 1e-12, 1.0]), asked)
    assert fine.auc.mean == 1.0


def test_ids_that_do_not_matter_may_be_large():
    """low * size + high of an id near 2^40 would leave 64 bits, and be another pair's."""
    found = attacks.all_pairs(
        [0, 1, 2], [[2, 1], [2**40, 2**40 + 5], [0, 2**62]], known=[[2**61, 1], [0, 2]]
    )
    assert (found.units.tolist(), found.truth.tolist()) == ([[0, 1], [1, 2]], [False, True])
    with pytest.raises(ValueError, match=r"edges must be in \[0, 9223372036854775808\)"):
        validate.pairs(edges=np.array([[2**63, 1]], np.uint64))


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    "of", [np.asarray, pd.DataFrame, np.ndarray.tolist, jnp.asarray], ids=lambda of: of.__name__
)
def test_tables_and_lists_are_judged_as_arrays(of):
    """The index of a series of labels is held against that of scores alone; rows are read."""
    own = pd.DataFrame(SCORES).index if of is pd.DataFrame else [7, 8, 9]
    for labels in (LABELS, pd.Series(LABELS, own, "Int64"), LABELS.tolist()):
        assert float(metrics.accuracy(of(SCORES), labels)) == pytest.approx(2 / 3)
        assert float(metrics.accuracy(of(SCORES), labels, [True, False, True])) == 0.5
        for average in ("micro", "macro", "weighted"):
            assert float(metrics.f1(of(SCORES), labels, average)) == pytest.approx(2 / 3)
        assert float(metrics.micro_f1(of(SCORES), SCORES > 0)) == 1.0
    assert float(metrics.accuracy(np.array([[1.0, 1 + 1e-12]]), [1])) == 1.0
    with pytest.raises(ValueError, match="labels must all be there"):
        metrics.accuracy(of(SCORES), np.ma.array(LABELS, mask=[False, True, False]))
    with pytest.raises(ValueError, match="mask must all be there"):
        metrics.accuracy(of(SCORES), LABELS, np.ma.array([True] * 3, mask=[False, True, False]))


def test_an_f1_counts_beyond_what_floats_do():
    """Each count is a whole number: 2^24 + 1 is no float32."""
    n = 2**24 + 3
    shapes = jax.ShapeDtypeStruct((n, 2), jnp.float32), jax.ShapeDtypeStruct((n,), jnp.int32)
    adds = [
        e
        for e in jax.make_jaxpr(metrics.f1)(*shapes).eqns
        if e.primitive.name.startswith("scatter")
    ]
    assert len(adds) == 3
    assert all(e.outvars[0].aval.dtype == jnp.int32 for e in adds)


@pytest.mark.usefixtures("untyped")
def test_users_of_reports_keep_their_64_bits():
    """A cast would take -1 for the last user of all, and 1.5 for the first."""
    ids = np.array([2**63 + 1, 2**63], np.uint64)
    place, known = places(ids, 2, reporters(ids[::-1]))
    assert (place.tolist(), known.tolist()) == ([1, 0], [True, True])
    assert places(ids, 2, reporters([2**63 + 2, 2**63 + 1]))[1].tolist() == [False, True]
    for user in (
        [-1],
        [1.5],
        np.ma.array([1, 2], mask=[False, True]),
        pd.array([1, None], "Int64"),
    ):
        with pytest.raises(ValueError, match="user must"):
            reporters(user)


def test_fidelity_is_what_the_best_scaling_of_centred_columns_leaves():
    """By least squares in float64."""
    rng = np.random.default_rng(0)
    for noise in (0.1, 1.0, 10.0):
        reference = rng.normal(3.0, 2.0, (40, 3))
        z = 5.0 - reference + noise * rng.normal(size=(40, 3))
        one, other = (part - part.mean(0) for part in (z, reference))
        (scale,), (left,), *_ = np.linalg.lstsq(one.reshape(-1, 1), other.ravel())
        found = metrics.fidelity(*(jnp.asarray(part, jnp.float32) for part in (z, reference)))
        error = np.sqrt(left) / np.linalg.norm(other)
        assert float(found.relative_error) == pytest.approx(error, rel=1e-4)
        assert float(found.correlation) == pytest.approx(np.sign(scale) * np.sqrt(1 - error**2))
    assert metrics.fidelity(jnp.zeros((40, 3)), jnp.asarray(reference, jnp.float32)) == (0.0, 1.0)
    assert np.isnan(metrics.fidelity(jnp.full((2, 1), jnp.nan), jnp.ones((2, 1)))).all()


def test_fidelity_of_a_multiple_is_one_or_minus_one_however_it_is_rounded():
    reference = jnp.asarray(np.random.default_rng(0).normal(size=(100, 50, 4)), jnp.float32)
    for scale in (3.0, -3.0):
        found = jax.vmap(metrics.fidelity)(scale * reference, reference)
        np.testing.assert_allclose(found.correlation, np.sign(scale), atol=1e-5)
        assert (np.abs(found.correlation) <= 1).all()
        assert (np.asarray(found.relative_error) < 5e-3).all()
