"""Training: what a batch weighs, which epoch is kept, one program for a sweep; metrics against
other libraries.
"""

import copy
import dataclasses
import itertools
import pickle
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import sklearn.metrics
from scipy import stats as scipy_stats

from ldp_jax.learning import graph_training, label_training, metrics, models, training
from ldp_jax.learning.models import Model, dense_layers, linear, mlp
from ldp_jax.learning.training import Examples, Objective, Settings, fit, fit_many


def blobs(seed=0):
    """Rows around the corners of a triangle, far apart."""
    index = np.arange(90, dtype=np.int32)
    z = np.eye(3, 4)[index % 3] * 4 + np.random.default_rng(seed).normal(size=(90, 4)) * 0.3
    parts = [Examples(part, part % 3) for part in np.split(index, 3)]
    return jnp.asarray(z, jnp.float32), *parts


ADAM = training.adam(0.05)


def test_a_perceptron_is_its_layers_with_dropout_between_them():
    """Hidden layers alone are thinned, half of their numbers, and doubled; against NumPy."""
    model = mlp(3, 6, 2, 0.5)
    rows = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    variables = model.init(jax.random.key(0), jnp.asarray(rows))
    layers = dense_layers(variables)
    assert [kernel.shape for kernel, _ in layers] == [(4, 6), (6, 6), (6, 2)]
    h = rows
    for kernel, bias in layers[:-1]:
        h = np.maximum(h @ kernel + bias, 0)
    kernel, bias = layers[-1]
    found = model.apply(variables, jnp.asarray(rows), key=None, train=False)[0]
    np.testing.assert_allclose(found, h @ kernel + bias, atol=1e-5)
    thinned = mlp(2, 6, 2, 0.5)
    variables = {"params": {"Dense_0": variables["params"]["Dense_0"]}}
    variables["params"]["Dense_1"] = {"kernel": jnp.ones((6, 2)), "bias": jnp.zeros(2)}
    hidden = np.maximum(rows @ layers[0][0], 0)
    drawn = thinned.apply(variables, jnp.asarray(rows), key=jax.random.key(1), train=True)[0]
    sums = 2 * hidden @ np.array(list(itertools.product((0, 1), repeat=6))).T
    trained = np.asarray(drawn)
    np.testing.assert_array_equal(trained[:, 0], trained[:, 1])
    assert np.abs(sums - trained[:, :1]).min(1).max() < 1e-5
    assert np.abs(trained[:, 0] - hidden.sum(1)).max() > 0.1


def test_objectives_are_their_formulas():
    """Losses of each row by NumPy, and scores of a half that is right."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(6, 3)).astype(np.float32)
    index = np.array([4, 0, 5])
    labels = np.array([[1, 0, 1], [0, 0, 1], [1, 1, 0]])
    given = training.Examples(index, labels)
    p = 1 / (1 + np.exp(-z[index]))
    expected = -np.log(np.where(labels == 1, p, 1 - p)).mean(1)
    rows = training.node_labels.inputs(jnp.asarray(z), given)
    np.testing.assert_allclose(training.node_labels.loss(rows, given), expected, rtol=1e-5)
    pairs = training.Pairs(np.array([[0, 1], [2, 3]]), np.array([[4, 5], [0, 3]]))
    both = training.link_prediction.inputs(jnp.asarray(z), pairs)
    expected = [[z[0] * z[1], z[4] * z[5]], [z[2] * z[3], z[0] * z[3]]]
    np.testing.assert_allclose(both, expected, rtol=1e-6)
    scores = jnp.array([[[2.0], [-1.0]], [[0.5], [1.0]]])
    s = 1 / (1 + np.exp(-np.asarray(scores[..., 0])))
    found = training.link_prediction.loss(scores, pairs)
    np.testing.assert_allclose(found, (1 - s[:, 0] + s[:, 1]) ** 2, rtol=1e-5)
    assert float(training.link_prediction.score(scores, pairs)) == 0.75
    classes = training.Examples(index, np.array([1, 0, 2]))
    logits = z[index] - np.log(np.exp(z[index]).sum(1, keepdims=True))
    found = training.node_classification.loss(jnp.asarray(z[index]), classes)
    np.testing.assert_allclose(found, -logits[np.arange(3), classes.label], rtol=1e-5)


def test_labels_that_are_held_out_change_their_own_scores_and_no_variables():
    """Held out is unread: other test labels leave all but the test, other validation labels the
    losses.
    """
    model = linear(3)
    rng = np.random.default_rng(0)
    z, *parts = blobs()
    settings = Settings(ADAM, epochs=4, batch_size=16)

    def run(which=None):
        some = list(parts)
        if which is not None:
            some[which] = some[which]._replace(label=rng.permutation(some[which].label))
        return fit(jax.random.key(0), model, training.node_classification, z, *some, settings)

    true = run()
    other_validation = run(1)
    other_test = run(2)
    np.testing.assert_array_equal(true.losses, other_validation.losses)
    assert not np.array_equal(true.validations, other_validation.validations)
    for field in ("variables", "validation", "epoch", "losses", "validations"):
        pair = (getattr(found, field) for found in (true, other_test))
        jax.tree.map(np.testing.assert_array_equal, *pair)
    assert true.test != other_test.test


def test_records_that_are_no_numbers_are_told():
    """A NaN in training makes all parameters NaN: the accuracy that is left is that of the first
    variables.
    """
    z, *parts = blobs()
    settings = Settings(ADAM, epochs=3, batch_size=16)
    broken = z.at[0, 0].set(jnp.nan)
    given = linear(3), training.node_classification
    with pytest.warns(UserWarning, match="in 1 of 1 runs: is an input not finite"):
        fit(jax.random.key(0), *given, broken, *parts, settings)
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf] * 2), parts)
    both = jnp.stack([z, broken])
    with pytest.warns(UserWarning, match="in 1 of 2 runs"):
        fit_many(jax.random.split(jax.random.key(0)), *given, both, *stacked, settings)


@pytest.mark.parametrize("objective", [training.node_classification, training.node_labels])
def test_float64_records_train_as_float32_ones(objective):
    """In 64-bit mode losses and scores were float64 beside a total of float32, which JAX
    refused.
    """
    z, *parts = blobs()
    if objective is training.node_labels:
        parts = [Examples(part.index, np.eye(3, dtype=int)[part.label]) for part in parts]
    settings = Settings(ADAM, epochs=3, batch_size=16)
    run = lambda z: fit(jax.random.key(0), linear(3), objective, z, *parts, settings)
    wanted = run(z)
    with jax.enable_x64(True):
        found = run(np.asarray(z, np.float64))
    assert found.losses.dtype == found.test.dtype == jnp.float32
    np.testing.assert_allclose(found.losses, wanted.losses, rtol=1e-4)


ONE_NUMBER = Model(
    init=lambda key, inputs: {"params": {"w": jnp.float32(0.0)}},
    apply=lambda variables, inputs, *, key, train: (
        variables["params"]["w"] * jnp.ones(len(inputs)),
        variables,
    ),
)
"""Its output is w for every row."""
SGD = optax.sgd(1.0)


def table(*scores, slope=0.0):
    """Examples whose score at w = 1, 2, ... is in ``scores``, plus ``slope`` times w."""
    return jnp.asarray([0.0, *scores, *[scores[-1]] * (5 - len(scores)), slope], jnp.float32)


FALLING = Objective(
    inputs=lambda context, examples: examples,
    loss=lambda outputs, examples: -outputs * examples,
    score=lambda outputs, examples: (
        examples[jnp.minimum(outputs[0], 5.0).astype(jnp.int32)] + examples[6] * outputs[0]
    ),
)
"""Loss: minus the example's weight times w, so that a step of SGD adds the batch's mean weight to
w.
"""
NUMBER = table(0.0, slope=1.0)


def run_one_number(weights, validation=NUMBER, *, batch_size, epochs=1, key=0, patience=None):
    """Scored by ``validation``; the test is w itself."""
    parts = jnp.asarray(weights, jnp.float32), validation, NUMBER
    settings = Settings(SGD, epochs, batch_size, patience=patience)
    return fit(jax.random.key(key), ONE_NUMBER, FALLING, None, *parts, settings)


def test_a_batch_counts_by_its_mean_and_padding_weighs_nothing():
    """Padding repeats the other examples, of which one has a weight here: it would be seen if it
    counted.

    Five examples in batches of four: w is 1/4 where it stood in the full batch and 1 where it stood
    alone.
    """
    weights = [0.0, 0.0, 0.0, 0.0, 1.0]
    seen = [
        round(float(run_one_number(weights, batch_size=4, key=key).test), 5) for key in range(15)
    ]
    assert set(seen) == {0.25, 1.0}
    assert seen.count(1.0) <= 12  # one in five is due; above 12 has mass 1e-6


def test_no_example_fills_a_short_batch_alone():
    """Statistics of the last batch would be those of one example: five, in batches of four."""
    digits = 8.0 ** np.arange(5)
    counting = Model(
        init=lambda key, inputs: {"params": {}, "seen": jnp.float32(0.0)},
        apply=lambda variables, inputs, *, key, train: (
            jnp.zeros(len(inputs)),
            {**variables, "seen": variables["seen"] + train * inputs.sum()},
        ),
    )
    parts = jnp.asarray(digits, jnp.float32), NUMBER, NUMBER
    settings = Settings(SGD, 1, batch_size=4)
    seen = int(fit(jax.random.key(0), counting, FALLING, None, *parts, settings).variables["seen"])
    assert sorted(oct(seen)[2:]) == ["1", "1", "2", "2", "2"]


def test_every_epoch_visits_every_example_once():
    """Batches of one: w grows by the sum of the weights in each epoch, in whatever order."""
    assert float(run_one_number(2.0 ** np.arange(6), batch_size=1, epochs=3).test) == 3 * 63


@pytest.mark.parametrize(
    ("scores", "epoch"),
    [
        ((1, 2, 3, 4, 5), 4),
        ((-1, -2, -3, -4, -5), 0),
        ((-2, -1, 0, -1, -2), 2),
        ((1, 2, 2, 2, 2), 1),  # equal from then on: the earliest
        ((np.nan, np.nan, np.nan, -4, -5), 3),  # NaN is never the best
    ],
    ids=["last", "first", "middle", "tie", "nan"],
)
def test_the_best_epoch_is_kept_the_earliest_on_ties(scores, epoch):
    """After epoch e, from 0, w = e + 1. The test is scored with the w of the best epoch."""
    fitted = run_one_number(np.ones(3), table(*scores), batch_size=3, epochs=5)
    assert int(fitted.epoch) == epoch
    assert float(fitted.variables["params"]["w"]) == float(fitted.test) == epoch + 1
    np.testing.assert_allclose(fitted.losses, -np.arange(5.0))
    assert float(fitted.validation) == float(fitted.validations[epoch]) == scores[epoch]


def test_losses_are_means_over_examples_whatever_batches_hold():
    """Five in batches of four, of a model that stays as it is."""
    rows = jax.random.normal(jax.random.key(1), (5, 3))
    labels = np.array([0, 1, 2, 0, 1], np.int32)
    examples = Examples(np.arange(5), labels)
    model = linear(3)
    objective = training.node_classification
    fitted = fit(
        jax.random.key(0), model, objective, rows, *[examples] * 3, Settings(optax.sgd(0.0), 3, 4)
    )
    outputs = model.apply(fitted.variables, rows, key=None, train=False)[0]
    np.testing.assert_allclose(
        fitted.losses, [objective.loss(outputs, examples).mean()] * 3, rtol=1e-5
    )


@pytest.mark.parametrize(("patience", "run"), [(1, 4), (3, 6), (None, 8)])
def test_training_stops_when_patience_is_over(patience, run):
    """Validation is best after epoch 2; what was not run is infinite, and one program serves every
    patience.
    """
    given = {"batch_size": 3, "epochs": 8}
    run_one_number(np.ones(3), patience=2, **given)
    programs = training._fit._cache_size()
    scores = table(-2, -1, 0, -1, -2)
    trained = lambda weights: run_one_number(weights, scores, patience=patience, **given)
    fitted = trained(np.ones(3))
    assert training._fit._cache_size() == programs
    assert (int(fitted.epoch), float(fitted.test)) == (2, 3.0)
    for history in (fitted.validations, fitted.losses):
        assert np.isfinite(history).tolist() == [epoch < run for epoch in range(8)]
    assert fitted.losses[run:].tolist() == [np.inf] * (8 - run)
    assert fitted.validations[run:].tolist() == [-np.inf] * (8 - run)
    with jax.debug_nans(True):  # what was not run is no fault, on the host or in a program
        trained(np.ones(3))
        jax.jit(trained)(np.ones(3))


def test_no_valid_score_returns_the_first_variables():
    fitted = run_one_number(np.ones(3), table(np.nan), batch_size=3, epochs=5)
    assert float(fitted.validation) == -np.inf
    assert float(fitted.variables["params"]["w"]) == 0.0


def test_adam_decays_weights_as_a_gradient():
    """L2: the decay enters the gradient, before Adam's normalisation; not decoupled."""
    parameters, gradient = {"w": jnp.float32(2.0)}, {"w": jnp.float32(0.5)}
    ours = training.adam(0.3, 0.25)
    plain = optax.adam(0.3)
    state = ours.init(parameters)
    other = plain.init(parameters)
    for _ in range(3):
        a, state = ours.update(gradient, state, parameters)
        b, other = plain.update({"w": gradient["w"] + 0.25 * parameters["w"]}, other, parameters)
        assert float(a["w"]) == pytest.approx(float(b["w"]))
        parameters = optax.apply_updates(parameters, a)
    assert training.adam(0.1, 0.25) is training.adam(0.1, 0.25)


@pytest.mark.parametrize("optimizer", [training.adam(0.1), graph_training.step_decay_adam(0.01)])
def test_settings_are_pickled(optimizer):
    """For a pool of processes: what comes back is equal, and so has the same program."""
    settings = Settings(optimizer, epochs=3, batch_size=2)
    assert pickle.loads(pickle.dumps(settings)) == settings == copy.deepcopy(settings)


EQUAL = {
    "mlp": lambda: mlp(2, 4, 3, 0.1),
    "linear": lambda: linear(3),
    "gcn": lambda: models.gcn(2, 4, 3),
    "gat": lambda: models.gat(heads=2, dropout=0.5),
    "gin": lambda: models.gin(hidden=8),
    "hyperbolic_gcn": lambda: models.hyperbolic_gcn(c=0.5),
    "hyperimba": lambda: models.hyperimba(alpha=0.5),
    "poindp": lambda: models.poindp(noise="printed"),
    "drop": lambda: label_training.drop(models.gcn(2, 4, 3)),
    "on_graph": lambda: training.on_graph(training.scored_by_loss(training.node_labels)),
}


def test_what_is_made_of_the_same_arguments_is_equal():
    """So nobody needs to cache models, and a model that is made a second time is no second
    program.
    """
    for make in EQUAL.values():
        assert make() == make()
        assert hash(make()) == hash(make())
    assert len({make() for make in EQUAL.values()}) == len(EQUAL)


def test_the_best_score_is_that_of_the_least_loss():
    outputs = jnp.asarray(np.random.default_rng(0).normal(size=(6, 3)), jnp.float32)
    examples = Examples(np.arange(6), np.array([0, 2, 1, 1, 0, 2]))
    objective = training.scored_by_loss(training.node_classification)
    losses = training.node_classification.loss(outputs, examples)
    assert float(objective.score(outputs, examples)) == pytest.approx(-float(losses.mean()))


SETTINGS = Settings(ADAM, epochs=3, batch_size=8)


def test_many_runs_are_the_single_ones_in_one_program(tmp_path):
    traces = []
    programs = 0
    model = linear(3)
    counted = Model(
        model.init, lambda *args, **kwargs: (traces.append(1), model.apply(*args, **kwargs))[1]
    )
    objective = training.node_classification
    inputs = jax.tree.map(lambda *leaves: jnp.stack(leaves), blobs(0), blobs(1))
    many = fit_many(jax.random.split(jax.random.key(2), 2), counted, objective, *inputs, SETTINGS)
    once = len(traces)
    assert once <= 6  # the step, its gradient, two scores: not one a run or an epoch
    scored = jax.jit(lambda variables, rows: model.apply(variables, rows, key=None, train=False)[0])
    again = fit_many(jax.random.split(jax.random.key(3), 2), counted, objective, *inputs, SETTINGS)
    assert len(traces) == once
    assert not np.array_equal(many.losses, again.losses)
    for i, key in enumerate(jax.random.split(jax.random.key(2), 2)):
        alone = fit(
            key, linear(3), objective, *jax.tree.map(lambda leaf, i=i: leaf[i], inputs), SETTINGS
        )
        # A model that is made anew is no new program.
        programs = programs or training._fit._cache_size()
        one = jax.tree.map(lambda leaf, i=i: leaf[i], many)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), alone, one
        )
        scores = scored(one.variables, inputs[0][i])
        np.testing.assert_array_equal(training.predict(model, many, inputs[0])[i], scores.argmax(1))
    assert training._fit._cache_size() == programs
    rows = np.memmap(tmp_path / "rows", np.float32, "w+", shape=inputs[0][1].shape)
    rows[:] = inputs[0][1]
    np.testing.assert_array_equal(training.predict(model, one, rows), scores.argmax(1))


def test_who_watches_changes_nothing_nor_do_runs_side_by_side(monkeypatch):
    """A second passes at each look, so that a block is an epoch; a training within a compiled
    function has none.
    """
    monkeypatch.setattr(training.shown, "AFTER", 0.0)
    monkeypatch.setattr(training, "time", SimpleNamespace(monotonic=itertools.count().__next__))
    told = []
    weights = jnp.arange(5.0)
    settings = Settings(SGD, epochs=3, batch_size=2)
    # Runs side by side, where there are several.
    together = dataclasses.replace(settings, at_once=2)
    watched = dataclasses.replace(settings, patience=9, progress=lambda *now: told.append(now))
    for call, key, parts in (
        (fit, jax.random.key(2), (weights, NUMBER, NUMBER)),
        (
            fit_many,
            jax.random.split(jax.random.key(2)),
            jnp.stack([NUMBER, 2 * NUMBER])[None].repeat(3, 0),
        ),
    ):
        run = partial(call, model=ONE_NUMBER, objective=FALLING, context=None)
        given = dict(zip(("train", "validation", "test"), parts, strict=True))
        whole = jax.jit(lambda key, given, run=run: run(key, **given, settings=together))(
            jax.random.clone(key), given
        )
        assert not told
        jax.tree.map(np.testing.assert_array_equal, run(key, **given, settings=watched), whole)
        assert told == [("epoch 2 of 3", 2 / 3), ("epoch 3 of 3", 1.0), ("done", 1.0)]
        told.clear()
    falling = table(3, 2, 1), NUMBER
    stopped = dataclasses.replace(watched, epochs=9, patience=2)
    fit(jax.random.key(2), ONE_NUMBER, FALLING, None, np.ones(3, np.float32), *falling, stopped)
    assert [words for words, _ in told] == [
        "epoch 2 of 9",
        "epoch 3 of 9",
        "done",
    ]  # where patience is over
    assert watched == dataclasses.replace(watched, progress=None)


def test_accuracy_and_f1_are_scikit_learns():
    """Also where a class is neither there nor predicted: the macro mean leaves it out."""
    rng = np.random.default_rng(0)
    classes = 5
    accuracy = jax.jit(metrics.accuracy)
    f1 = jax.jit(metrics.f1, static_argnums=2)
    for predicted_never_true in (False, True):
        scores = rng.normal(size=(40, classes + 1)).astype(np.float32)
        scores[:, classes] = -9.0
        labels = rng.integers(0, classes, 40)
        labels[labels == 1] = 0 if predicted_never_true else 1
        predicted = scores.argmax(1)
        for mask in (np.ones(40, bool), rng.uniform(size=40) < 0.5):
            theirs = sklearn.metrics.accuracy_score(labels[mask], predicted[mask])
            assert float(accuracy(scores, labels, mask)) == pytest.approx(theirs)
        for average in ("micro", "macro", "weighted"):
            theirs = sklearn.metrics.f1_score(labels, predicted, average=average, zero_division=0)
            assert float(f1(scores, labels, average)) == pytest.approx(theirs, rel=1e-5)
    assert jnp.isnan(accuracy(scores, labels, np.zeros(40, bool)))  # and not 0: nothing was asked
    weight = rng.uniform(size=40) / 400  # of a sum below 1
    theirs = sklearn.metrics.accuracy_score(labels, predicted, sample_weight=weight)
    assert float(accuracy(scores, labels, weight)) == pytest.approx(theirs, rel=1e-5)
    assert (
        accuracy(np.full_like(scores, np.nan), np.zeros(40, int)) == 0.0
    )  # argmax would be class 0
    for average in ("micro", "macro", "weighted"):
        assert f1(np.full_like(scores, np.nan), np.zeros(40, int), average) == 0.0
        assert jnp.isnan(f1(scores[:0], labels[:0], average))


def test_other_metrics():
    reference = np.ones((60, 5), np.float32)
    micro_f1 = jax.jit(metrics.micro_f1)
    error = jax.jit(metrics.embedding_error)(np.float32(1.1) * reference, reference)
    assert float(error) == pytest.approx(0.1, rel=1e-5)
    rng = np.random.default_rng(0)
    scores = rng.integers(-3, 4, (60, 5)).astype(np.float32)
    labels = (rng.random((60, 5)) < 0.3).astype(np.int8)
    wanted = sklearn.metrics.f1_score(labels, scores > 0, average="micro")
    assert float(micro_f1(scores, labels)) == pytest.approx(wanted, abs=1e-6)
    assert float(micro_f1(-reference, 0 * labels)) == 0.0


def test_auc_is_scikit_learns_with_ties():
    auc = jax.jit(metrics.auc)
    for levels in (2, 10_000):
        rng = np.random.default_rng(levels)
        positive = rng.integers(levels // 3, levels, 50)
        negative = rng.integers(0, levels, 70)
        theirs = sklearn.metrics.roc_auc_score(
            np.repeat([1, 0], [50, 70]), np.concatenate([positive, negative])
        )
        assert float(auc(np.float32(positive), np.float32(negative))) == pytest.approx(
            theirs, rel=1e-6
        )
    assert np.isnan(auc(np.full(50, np.nan, np.float32), np.float32(negative)))
    assert np.isnan(auc(np.float32(positive), np.zeros(0, np.float32)))


def test_mean_interval_is_scipys():
    values = np.random.default_rng(0).normal(size=10)
    interval = metrics.mean_interval(values, 0.9)
    low, high = scipy_stats.t.interval(0.9, 9, loc=values.mean(), scale=scipy_stats.sem(values))
    assert (
        interval.mean - interval.half_width,
        interval.mean + interval.half_width,
    ) == pytest.approx((low, high))
    single = metrics.mean_interval([2.0])
    assert (interval.n, str(single), np.isnan(single.half_width)) == (10, "2.0", True)
    assert str(metrics.mean_interval([1.0, 2.0, 3.0])) == "2.0 ± 2.5"
    assert (
        str(metrics.mean_interval([0.912, 0.905, 0.9])) == "0.906 ± 0.015"
    )  # accuracies are shares
