"""Importance and sensitivity: against closed forms, and never from private records."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.features import FeatureRR, importance_weights
from ldp_jax.learning.importance import FeatureScores, Public, importance, sensitivity, shapley_values

RNG = np.random.default_rng(0)
X, BACKGROUND = (RNG.normal(size=(n, 4)).astype(np.float32) for n in (6, 8))
WEIGHT = RNG.normal(size=(4, 3)).astype(np.float32)
KEY = lambda: jax.random.key(0)


def linear(rows):
    return rows @ WEIGHT + 1.0


def additive(rows):
    return jnp.sin(rows[:, 0]) + rows[:, 1] ** 2 + jnp.exp(rows[:, 2])


def product(rows):
    return rows[:, 0] * rows[:, 1]


def naive(*, weight, x, background):
    """The Shapley values of a linear function, by their definition: the mean over all orders of the features."""
    return (x - background.mean(0))[:, None, :] * weight.T


def test_of_a_linear_function_they_are_the_closed_form():
    wanted = naive(weight=WEIGHT, x=X, background=BACKGROUND)
    found = shapley_values(KEY(), linear, X, BACKGROUND, draws=16)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    scores = importance(KEY(), linear, X, BACKGROUND, draws=16)
    alpha = np.abs(wanted).sum((0, 1))
    np.testing.assert_allclose(scores.audit(), alpha / alpha.sum(), rtol=1e-5)


def test_of_a_sum_of_functions_each_feature_has_its_own():
    found = np.asarray(shapley_values(KEY(), additive, X, BACKGROUND, draws=256))[:, 0]
    parts = np.stack([np.sin(X[:, 0]), X[:, 1] ** 2, np.exp(X[:, 2]), 0 * X[:, 3]], 1)
    others = np.stack(
        [np.sin(BACKGROUND[:, 0]), BACKGROUND[:, 1] ** 2, np.exp(BACKGROUND[:, 2]), 0 * BACKGROUND[:, 3]], 1
    )
    # Of 256 points stratified over the line: a plain draw's error is 0.2, a missing factor or term at least 0.3.
    np.testing.assert_allclose(found, parts - others.mean(0), atol=0.15)
    assert not found[:, 3].any()


def test_two_that_act_together_share():
    found = shapley_values(KEY(), product, X, np.zeros((1, 4)), draws=64)
    half = X[:, 0] * X[:, 1] / 2
    np.testing.assert_allclose(found[:, 0, :2], np.stack([half, half], 1), atol=0.02)


def test_sensitivity_is_the_share_of_the_change():
    masked = X * [0, 1, 1, 1]
    masked[0] = X[0]  # a record without a sensitive input says nothing
    found = sensitivity(lambda rows: rows @ WEIGHT, X, masked).audit()
    change = np.abs(X[1:, :1] * WEIGHT[:1])
    np.testing.assert_allclose(found, (change / change.sum(1, keepdims=True)).mean(0), rtol=1e-5)


def public(value):
    return Public(value, "a public split")


@pytest.mark.parametrize("private", [(), ("function",), ("x",), ("background",), ("x", "background")])
def test_scores_of_anything_private_are_refused(private):
    """By everything that asks for their numbers: the weights, the mechanism, NumPy."""
    given = {"function": linear, "x": X, "background": BACKGROUND}
    given = {name: value if name in private else public(value) for name, value in given.items()}
    scores = importance(KEY(), **given, draws=16)
    assert scores.private == private
    if not private:
        assert scores.sources == ("a public split",)
        weights = importance_weights(scores, np.full(4, 0.25))
        assert FeatureRR(3.0, 4, weights) == FeatureRR(3.0, 4, importance_weights(scores.audit(), np.full(4, 0.25)))
        assert FeatureRR(3.0, 4, scores).guarantee().epsilon <= 3.0
        assert repr(scores) == "FeatureScores(importance of 4 features, computed on a public split)"
        return
    assert f"computed on private {', '.join(private)}" in repr(scores)
    for use in (
        np.asarray,
        lambda s: importance_weights(s, np.ones(4)),
        lambda s: importance_weights(np.ones(4), s),
        lambda s: FeatureRR(3.0, 4, s),
    ):
        with pytest.raises(ValueError, match=f"computed on private {', '.join(private)}: a release of its own"):
            use(scores)


def test_sensitivity_says_what_it_was_computed_on():
    embed = public(linear)
    assert sensitivity(embed, public(X), X * 0).private == ("masked",)
    assert sensitivity(embed, public(X), public(X * 0)).private == ()
    assert isinstance(sensitivity(linear, X, X * 0), FeatureScores)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Public(X, " "), "source must say in words"),
        (lambda: importance(KEY(), linear, X[0], BACKGROUND), r"x must be records \[n, d\]"),
        (lambda: importance(KEY(), linear, X, BACKGROUND[:, :2]), "background must be as wide as x, got 2 for 4"),
        (lambda: importance(KEY(), linear, X, BACKGROUND, draws=0), "draws must be"),
        (
            lambda: importance(KEY(), lambda rows: 0 * rows, X, BACKGROUND, draws=8),
            "importance must leave something",
        ),
        (lambda: sensitivity(linear, X, X), "sensitivity must leave something"),
        (lambda: sensitivity(linear, X, X[:3]), "masked must be the records x"),
        (lambda: sensitivity(lambda rows: rows[:, 0], X, X * 0), r"embed must make \[n, k\]"),
    ],
)
def test_what_gives_no_score_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
