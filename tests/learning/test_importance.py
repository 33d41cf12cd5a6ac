"""Importance and sensitivity: against closed forms, and never from private records."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.features import FeatureRR, importance_weights
from ldp_jax.learning.importance import Public, importance, sensitivity

RNG = np.random.default_rng(0)
X, BACKGROUND = (RNG.normal(size=(n, 4)).astype(np.float32) for n in (6, 8))
WEIGHT = RNG.normal(size=(4, 3)).astype(np.float32)
KEY = lambda: jax.random.key(0)


def linear(rows):
    return rows @ WEIGHT + 1.0


def parts(rows):
    """What each feature adds."""
    one, two, three, four = rows.T
    return jnp.stack([jnp.sin(one), two**2, jnp.exp(three), 0 * four], 1)


def scores(function, background, draws):
    return importance(KEY(), function, X, background, draws=draws).audit()


def shares(values):
    """Of absolute values [n, ..., d], summed over all axes but the last."""
    total = np.abs(values).reshape(-1, 4).sum(0)
    return total / total.sum()


def test_of_a_linear_function_they_are_the_closed_form():
    """Shapley values by their definition: the mean over all orders of the features."""
    wanted = (X - BACKGROUND.mean(0))[:, None, :] * WEIGHT.T
    np.testing.assert_allclose(scores(linear, BACKGROUND, 16), shares(wanted), rtol=1e-5)


def test_of_a_sum_of_functions_each_feature_has_its_own():
    found = scores(lambda rows: parts(rows).sum(1), BACKGROUND, 256)
    # Of 256 points stratified over the line; a missing factor or term moves a share by 0.05 at
    # least.
    np.testing.assert_allclose(found, shares(parts(X) - parts(BACKGROUND).mean(0)), atol=0.03)
    assert found[3] == 0


def test_of_a_model_that_was_trained_on_they_are_the_new_ones():
    class Model:
        weight = jnp.array([1.0, 0.0, 0.0, 0.0])

        def __call__(self, rows):
            return rows @ self.weight

    model = Model()
    assert scores(model, BACKGROUND, 8)[0] == 1.0
    model.weight = model.weight[::-1]
    assert scores(model, BACKGROUND, 8)[3] == 1.0


def test_sensitivity_is_the_share_of_the_change():
    masked = X * [0, 1, 1, 1]
    masked[0] = X[0]  # a record without a sensitive input says nothing
    found = sensitivity(lambda rows: rows @ WEIGHT, X, masked).audit()
    change = np.abs(X[1:, :1] * WEIGHT[:1])
    np.testing.assert_allclose(found, (change / change.sum(1, keepdims=True)).mean(0), rtol=1e-5)


def public(value):
    return Public(value, "a public split")


@pytest.mark.parametrize("private", [(), ("function",), ("x", "background")])
def test_scores_of_anything_private_are_refused(private):
    """By everything that asks for their numbers: the weights, the mechanism, NumPy."""
    given = {"function": linear, "x": X, "background": BACKGROUND}
    given = {name: value if name in private else public(value) for name, value in given.items()}
    scores = importance(KEY(), **given, draws=16)
    assert scores.private == private
    if not private:
        weights = importance_weights(scores, np.full(4, 0.25))
        assert FeatureRR(3.0, 4, weights) == FeatureRR(
            3.0, 4, importance_weights(scores.audit(), np.full(4, 0.25))
        )
        assert repr(scores) == "FeatureScores(importance of 4 features, computed on a public split)"
        assert sensitivity(public(linear), public(X), X * 0).private == ("masked",)
        return
    words = f"computed on private {', '.join(private)}"
    assert words in repr(scores)
    for use in (
        np.asarray,
        lambda s: importance_weights(s, np.ones(4)),
        lambda s: importance_weights(np.ones(4), s),
        lambda s: FeatureRR(3.0, 4, s),
    ):
        with pytest.raises(ValueError, match=f"{words}: a release of its own"):
            use(scores)
