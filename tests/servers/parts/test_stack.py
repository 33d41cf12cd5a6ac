"""Weights of posteriors: the optimum of their loss, kept near where they start by few labels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from ldp_jax.servers.parts.self_training import FoldedLabels
from ldp_jax.servers.parts.stack import combine, stack, stack_out_of_fold


def scores(n=600, seed=0):
    """Three sources on three classes: noise, a posterior that is half as sure as it should be, and
    a right one.
    """
    rng = np.random.default_rng(seed)
    right = rng.normal(0, 1, (n, 3))
    half = rng.normal(0, 1, (n, 3))
    p = np.exp(right + half)
    y = (p.cumsum(1) > rng.random((n, 1)) * p.sum(1, keepdims=True)).argmax(1)
    return jnp.asarray(
        np.stack([rng.normal(0, 1, (n, 3)), half / 2, right], -1), jnp.float32
    ), jnp.asarray(y)


def test_many_labels_find_the_weights_and_few_keep_them():
    z, y = scores(6000)
    np.testing.assert_allclose(stack(z, y), [0.0, 2.0, 1.0], atol=0.2)
    few = stack(z, jnp.where(jnp.arange(len(y)) < 5, y, -1))
    np.testing.assert_allclose(few, [0.0, 1.0, 1.0], atol=0.3)
    assert stack(z, jnp.full(len(y), -1)).tolist() == [0.0, 1.0, 1.0]


def test_extreme_evidence_stays_finite_and_a_ridge_that_is_none_is_refused():
    z, y = scores()
    assert np.isfinite(np.asarray(stack(z.at[0].set(jnp.array([[-1e3, 0.0, 1e3]] * 3)), y))).all()
    with pytest.raises(ValueError, match="ridge must be finite and > 0"):
        stack(z, y, ridge=0.0)


def test_combined_scores_are_each_users_posterior():
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, (30, 4, 3))
    p = np.exp(2.0 * z[..., 0] - 0.5 * z[..., 2])
    found = combine(z, np.array([2.0, 0.0, -0.5]))
    np.testing.assert_allclose(np.exp(found), p / p.sum(1, keepdims=True), rtol=1e-5)


def best_weights(z, y, ridge, least=0):
    """Weights >= ``least`` by another method, without a gradient, towards even ones."""
    z = np.asarray(z, np.float64)

    def loss(w):
        s = z @ w
        each = s[np.arange(len(y)), y] - np.log(np.exp(s).sum(1))
        return 0.5 * ridge * ((w - 1 / 3) ** 2).sum() - each.sum()

    given = {"bounds": [(least, None)] * 3, "method": "SLSQP", "options": {"ftol": 1e-14}}
    return minimize(loss, np.full(3, 0.3), **given).x


def test_weights_at_least_0_are_the_best_of_those_and_own_labels_weigh_nobody():
    z, y = scores(400)
    # A source that says what another one does, and would be believed the wrong way round.
    z = (
        z.at[..., 0]
        .set(-z[..., 2])
        .at[..., 2]
        .add(jax.random.normal(jax.random.key(0), z.shape[:2]))
    )
    known = np.where(np.arange(400) < 300, np.asarray(y), -1)
    fold = np.arange(400) % 3
    log_p, weights = stack_out_of_fold(z, FoldedLabels(known, 3, fold, 3), [1 / 3] * 3, ridge=5.0)
    assert best_weights(np.asarray(z)[:300], known[:300], 5.0, least=None)[0] < -0.1
    assert float(weights[0]) == 0.0
    for asked, taught in (
        (known < 0, known >= 0),
        ((known >= 0) & (fold == 1), (known >= 0) & (fold != 1)),
    ):
        taught = np.flatnonzero(taught)
        best = best_weights(np.asarray(z)[taught], known[taught], 5.0)
        expected = jax.nn.log_softmax(z @ jnp.asarray(best, jnp.float32))
        np.testing.assert_allclose(
            log_p[np.flatnonzero(asked)], expected[np.flatnonzero(asked)], atol=2e-3
        )


@pytest.mark.parametrize("seed", range(8))
def test_weights_of_labels_that_may_be_wrong_are_those_of_a_search_without_slopes_from_far_away(
    seed,
):
    """A drawn share to keep, and ridge: the minimum of Nelder and Mead, to 2e-3 of a weight."""
    rng = np.random.default_rng(seed)
    classes = int(rng.integers(2, 5))
    keep = rng.uniform(0.4, 0.95)
    ridge = rng.uniform(0.5, 20.0)
    keep = max(keep, 1.2 / classes)
    z = rng.normal(0.4, 1.0, (150, classes, 2)) * rng.uniform(0.3, 2.0, 2)
    p = np.exp(z @ [1.3, 0.4])
    y = (p.cumsum(1) > rng.random((150, 1)) * p.sum(1, keepdims=True)).argmax(1)
    y = np.where(rng.random(150) < keep, y, rng.integers(0, classes, 150))
    towards = rng.uniform(0.0, 1.5, 2)
    fold = np.arange(150) % 3
    other = (1 - keep) / (classes - 1)

    def loss(w, at):
        true = np.exp(z[at] @ w)
        true /= true.sum(1, keepdims=True)
        reported = (other + (keep - other) * true)[np.arange(at.sum()), y[at]]
        return 0.5 * ridge * ((w - towards) ** 2).sum() - np.log(reported).sum()

    log_p, weights = stack_out_of_fold(
        z, FoldedLabels(y, classes, fold, 3, keep), towards, ridge=ridge
    )
    options = {"xatol": 1e-6, "fatol": 1e-9, "maxiter": 4000}
    for own, start in ((fold < 3, [4.0, 0.1]), (fold != 1, [4.0, 3.0])):
        given = {"method": "Nelder-Mead", "bounds": [(0, None)] * 2, "options": options}
        best = minimize(loss, start, (own,), **given).x
        if own.all():
            np.testing.assert_allclose(weights, best, atol=2e-3)
        else:
            found = np.asarray(log_p)[~own]
            wanted = jax.nn.log_softmax(z[~own] @ best)
            np.testing.assert_allclose(found, wanted, atol=2e-2)
