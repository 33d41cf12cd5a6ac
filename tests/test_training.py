"""Training learns, pads without weight, keeps the best epoch, compiles once; metrics are the usual ones."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats
from sklearn import metrics as reference

from ldp_jax import metrics, models
from ldp_jax.training import Examples, Objective, Pairs, adam, fit, fit_many, link_prediction, node_classification


def toy(seed=0, n=90, d=4, classes=3):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, classes, n).astype(np.int32)
    z = np.eye(classes, d, dtype=np.float32)[label] * 3 + rng.standard_normal((n, d)).astype(np.float32)
    parts = [np.arange(0, 50), np.arange(50, 70), np.arange(70, 90)]
    return jnp.asarray(z), *(Examples(part.astype(np.int32), label[part]) for part in parts)


def run(key, data, *, epochs=15, batch_size=16, model=None, optimizer=None):
    model = model or models.mlp(2, 16, 3, 0.2)
    return fit(
        key,
        model,
        node_classification,
        *data,
        optimizer=optimizer or adam(0.01),
        epochs=epochs,
        batch_size=batch_size,
    )


def test_it_learns_and_reports_itself():
    fitted = run(jax.random.key(0), toy())
    assert fitted.test > 0.8
    assert fitted.losses[-1] < fitted.losses[0] / 2
    assert fitted.validations.shape == (15,)
    best = int(np.argmax(fitted.validations))  # the earliest of the best
    assert (int(fitted.epoch), float(fitted.validation)) == (best, float(fitted.validations[best]))


def test_the_kept_variables_are_those_of_the_best_epoch():
    data, key = toy(), jax.random.key(1)
    fitted = run(key, data)
    model = models.mlp(2, 16, 3, 0.2)
    outputs, _ = model.apply(fitted.variables, data[0][data[2].index], key=None, train=False)
    assert float(metrics.accuracy(outputs, data[2].label)) == float(fitted.validation)
    # Training no further than that epoch gives the same variables.
    again = run(jax.random.clone(key), data, epochs=int(fitted.epoch) + 1)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b), fitted.variables, again.variables)


def test_padding_weighs_nothing():
    """One full batch of 50 and the same examples as a batch padded by others' leftovers: same first loss.

    With batch 32 the second batch holds 18 examples; its mean must be over 18. A linear model without dropout and a
    learning rate of 0 makes each epoch's loss the mean of the two batch means, computed here by hand.
    """
    z, train, validation, test = toy()
    model, still = models.linear(3), optax.sgd(0.0)
    fitted = run(
        jax.random.key(2), (z, train, validation, test), epochs=40, batch_size=32, model=model, optimizer=still
    )
    outputs, _ = model.apply(fitted.variables, z[train.index], key=None, train=False)
    each = np.asarray(node_classification.loss(outputs, train))
    # E over orders of (mean of 32 + mean of 18) / 2 is the mean over all; 40 epochs, 6 standard errors.
    error = each.std() * np.sqrt((1 / 32 + 1 / 18) / 4 / 40)
    assert abs(float(fitted.losses.mean()) - each.mean()) < 6 * error
    whole = run(
        jax.random.key(2), (z, train, validation, test), epochs=1, batch_size=50, model=model, optimizer=still
    )
    np.testing.assert_allclose(whole.losses[0], each.mean(), rtol=1e-5)


def test_many_runs_are_the_runs_one_by_one_in_one_program():
    keys = jax.random.split(jax.random.key(3), 3)
    data = [toy(seed) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *data)
    options = {"optimizer": adam(0.01, 5e-4), "epochs": 4, "batch_size": 16}
    model = models.mlp(2, 16, 3, 0.2)
    many = fit_many(jax.random.clone(keys), model, node_classification, *stacked, **options, keep_variables=True)
    programs = fit_many._cache_size()
    for i in range(3):
        one = fit(keys[i], model, node_classification, *data[i], **options)
        np.testing.assert_allclose(many.validations[i], one.validations, atol=1e-6)
        np.testing.assert_allclose(many.losses[i], one.losses, rtol=1e-4)
    other = jax.tree.map(lambda leaf: leaf, stacked)
    fit_many(
        jax.random.split(jax.random.key(4), 3), model, node_classification, *other, **options, keep_variables=True
    )
    assert fit_many._cache_size() == programs
    together = fit_many(
        jax.random.split(jax.random.key(3), 3),
        model,
        node_classification,
        *stacked,
        **options,
        at_once=3,
        keep_variables=True,
    )
    np.testing.assert_allclose(together.losses, many.losses, rtol=1e-3)


def test_links_are_learned():
    """Two blocks: pairs within are edges. The Hadamard product of the block's sign tells them apart."""
    rng = np.random.default_rng(0)
    z = jnp.asarray(
        np.where(np.arange(40)[:, None] < 20, 1.0, -1.0) + 0.3 * rng.standard_normal((40, 3)), jnp.float32
    )
    inside = lambda n: rng.integers(0, 20, (n, 2)).astype(np.int32)
    across = lambda n: (inside(n) + np.array([0, 20])).astype(np.int32)
    parts = [Pairs(inside(n), across(n)) for n in (64, 32, 32)]
    fitted = fit(
        jax.random.key(0),
        models.linear(1),
        link_prediction,
        z,
        *parts,
        optimizer=adam(0.05),
        epochs=20,
        batch_size=16,
    )
    assert fitted.test > 0.95


def test_a_diverged_run_is_not_chosen():
    nan = Objective(
        node_classification.inputs, node_classification.loss, lambda scores, examples: jnp.float32(jnp.nan)
    )
    data = toy()
    fitted = fit(jax.random.key(0), models.linear(3), nan, *data, optimizer=adam(0.01), epochs=2, batch_size=50)
    assert fitted.validation == -jnp.inf


@pytest.mark.parametrize("bad", [{"epochs": 0}, {"batch_size": 0}])
def test_bad_sizes_are_refused(bad):
    with pytest.raises(ValueError, match="must be a whole number >= 1, got 0"):
        run(jax.random.key(0), toy(), **bad)


# --- metrics ---------------------------------------------------------------------------------------------


def test_scores_are_scikit_learns():
    rng = np.random.default_rng(0)
    scores, labels = rng.standard_normal((200, 4)).astype(np.float32), rng.integers(0, 4, 200)
    predicted = scores.argmax(1)
    assert float(metrics.accuracy(jnp.asarray(scores), labels)) == pytest.approx((predicted == labels).mean())
    mask = rng.random(200) < 0.3
    assert float(metrics.accuracy(jnp.asarray(scores), labels, mask)) == pytest.approx(
        (predicted == labels)[mask].mean()
    )
    for average in ("micro", "macro", "weighted"):
        ours = float(metrics.f1(jnp.asarray(scores), labels, average))
        assert ours == pytest.approx(reference.f1_score(labels, predicted, average=average), abs=1e-6)
    with pytest.raises(ValueError, match="micro, macro, weighted"):
        metrics.f1(jnp.asarray(scores), labels, "binary")


def test_auc_with_ties_is_scikit_learns():
    rng = np.random.default_rng(1)
    positive, negative = (rng.integers(shift, 6 + shift, n).astype(np.float32) for shift, n in ((1, 70), (0, 90)))
    truth = np.r_[np.ones(70), np.zeros(90)]
    wanted = reference.roc_auc_score(truth, np.r_[positive, negative])
    assert float(metrics.auc(jnp.asarray(positive), jnp.asarray(negative))) == pytest.approx(wanted, abs=1e-6)
    assert jnp.isnan(metrics.auc(jnp.array([jnp.nan, 1.0]), jnp.array([0.0])))


def test_interval_is_students():
    values = np.random.default_rng(2).standard_normal(7)
    ours = metrics.mean_interval(values)
    low, high = stats.t.interval(0.95, 6, loc=values.mean(), scale=stats.sem(values))
    assert (ours.mean - ours.half_width, ours.mean + ours.half_width) == pytest.approx((low, high))
    assert np.isnan(metrics.mean_interval([1.0]).half_width)
    with pytest.raises(ValueError, match="empty"):
        metrics.mean_interval([])
