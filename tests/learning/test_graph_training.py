"""Training on graphs: an easy task, what is kept, one trace, and checkpoints that change
nothing.
"""

import dataclasses
import os
import signal
import subprocess
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import optax
import pytest
import scipy.special
import sklearn.metrics

from ldp_jax.graph.packing import GraphSet
from ldp_jax.learning.graph_training import fit_graphs, predict, scores, step_decay_adam
from ldp_jax.learning.models import Model, gin
from ldp_jax.learning.training import Settings
from tests.graph.sets import graph_set

TRACES, GIN = (
    [],
    gin(layers=2, hidden=6, outputs=2, dropout=0.2, mlp_layers=1),
)  # batch norm's state is kept
SMALL = Model(GIN.init, lambda *args, **kwargs: (TRACES.append(1), GIN.apply(*args, **kwargs))[1])
ADAM = step_decay_adam(0.01)


@cache
def whole_set():
    """Stars (1) and cycles (0) of 4 to 11 nodes: five of each."""
    sizes = [4 + graph // 2 % 8 for graph in range(80)]
    return graph_set(
        [nx.star_graph(n - 1) if i % 2 else nx.cycle_graph(n) for i, n in enumerate(sizes)]
    )


@cache
def stars_and_cycles():
    """Of which two parts have one shape."""
    return tuple(whole_set().subset(part) for part in np.split(np.arange(80), (48, 64)))


SETTINGS = Settings(ADAM, epochs=6, batch_size=16)


def run(key=0, parts=None, model=SMALL, **changes):
    """``changes`` of the settings, and what else there is to say."""
    own = {field.name for field in dataclasses.fields(Settings) if field.compare} & set(changes)
    settings = dataclasses.replace(SETTINGS, **{name: changes.pop(name) for name in own})
    return fit_graphs(
        jax.random.key(key), model, *(parts or stars_and_cycles()), settings, **changes
    )


def assert_same(one, two):
    jax.tree.map(np.testing.assert_array_equal, one, two)
    assert jax.tree.structure(one) == jax.tree.structure(two)


@cache
def reference():
    return run()


def test_an_easy_task_is_learned_by_the_best_epoch():
    fitted = run(epochs=40)
    _, validation, test = stars_and_cycles()
    assert (
        len(TRACES) <= 12
    )  # training (two shapes, and jax may trace a scan's body twice), validation, test
    assert min(fitted.test) > 0.9
    assert fitted.epoch == np.argmax(fitted.validations)
    assert fitted.epochs_run == len(fitted.losses) == len(fitted.validations) == 40
    assert fitted.losses[-1] < 0.5 * fitted.losses[0]
    best = scores(predict(SMALL, fitted.variables, validation), validation.labels)
    assert (
        best.accuracy == pytest.approx(fitted.validation) == pytest.approx(fitted.validations.max())
    )
    outputs = predict(SMALL, fitted.variables, test)
    assert scores(outputs, test.labels) == fitted.test
    turned = np.arange(len(test))[::-1]
    other = predict(SMALL, fitted.variables, test.subset(turned))
    np.testing.assert_allclose(other, outputs[turned], atol=1e-4)


def test_the_test_is_of_the_best_epoch_and_not_of_the_last():
    """Validation is against the training labels, so that an early epoch is best; cycles, which tie,
    have one label in the test.
    """
    train, validation, test = stars_and_cycles()
    against = dataclasses.replace(validation, labels=1 - validation.labels)
    coins = np.random.default_rng(0).integers(0, 2, 16)
    drawn = dataclasses.replace(test, labels=test.labels * coins)
    fitted = run(parts=(train, against, drawn), epochs=9)
    assert fitted.epoch < 8
    outputs = predict(SMALL, fitted.variables, drawn)
    assert scores(outputs, drawn.labels) == fitted.test


def test_rooms_of_a_larger_set_change_the_rounding_of_an_epoch_alone():
    """The same batches, parameters and dropout in more room: the first loss to 1e-5."""
    found = run(epochs=1, like=whole_set())
    np.testing.assert_allclose(found.losses, reference().losses[:1], rtol=1e-5)


def test_runs_are_their_keys_whatever_is_computed_beside():
    """Two runs share the threads of one process; each ends bit for bit where it ends alone."""
    with ThreadPoolExecutor(2) as pool:
        same, other = pool.map(lambda key: run(key=key), range(2))
    assert_same(same, reference())
    assert not np.array_equal(other.losses, reference().losses)


def test_one_trace_serves_all_epochs_and_runs_of_one_shape():
    reference()
    once = len(TRACES)
    run(epochs=9, key=3)
    assert len(TRACES) == once


ONE_NUMBER = Model(
    init=lambda key, batch: {"params": {"w": jnp.float32(0.0)}},
    apply=lambda variables, batch, *, key, train: (
        variables["params"]["w"]
        * jnp.stack([-jnp.ones(len(batch.labels)), jnp.ones(len(batch.labels))], 1),
        variables,
    ),
)
"""Its outputs are -w and w for every graph."""
SGD = optax.sgd(0.5)


def follow(validation_labels, *, epochs=6, **settings):
    """Steps of SGD on graphs of class 1 raise w in every epoch; so validation is by the sign of w
    alone.
    """
    train = GraphSet.from_edges([], [], [0, 1, 2], [1, 1, 1])
    part = GraphSet.from_edges([], [], np.arange(len(validation_labels)), validation_labels)
    return run(
        parts=(train, part, part),
        model=ONE_NUMBER,
        optimizer=SGD,
        epochs=epochs,
        batch_size=2,
        **settings,
    )


def test_batches_weigh_their_graphs_alike_and_free_places_nothing():
    """Three graphs in batches of 2 and 1 (padded): two steps of d loss / d w = -2 sigmoid(-2 w), as
    by hand.
    """
    fitted = follow([1, 1, 1], epochs=1)
    w = 0.0
    losses = []
    for size in (2, 1):
        losses += [np.log1p(np.exp(-2 * w))] * size
        w += 0.5 * 2 / (1 + np.exp(2 * w))
    assert float(fitted.variables["params"]["w"]) == pytest.approx(w, rel=1e-5)
    # Either batch may come first; the epoch's loss weighs graphs alike.
    orders = [(losses[0] * a + losses[2] * (3 - a)) / 3 for a in (1, 2)]
    assert min(abs(float(fitted.losses[0]) - mean) for mean in orders) < 1e-5


@pytest.mark.usefixtures("untyped")
def test_labels_of_scores_may_be_a_list():
    outputs = jnp.array([[2.0, 1.0], [0.0, 3.0], [1.0, 2.0]])
    assert scores(outputs, [0, 1, 0]) == scores(outputs, np.array([0, 1, 0]))


@pytest.mark.parametrize("classes", [2, 3])
def test_scores_are_those_of_scikit_learn(classes):
    """Of log-odds in float64: the softmax of a sure model would be 0 or 1."""
    rng = np.random.default_rng(classes)
    outputs = np.round(rng.normal(size=(81, classes)), 1).astype(np.float32)  # ties
    labels = rng.permutation(81) % 3 % classes  # a class has 27 or 54: one shape
    for sure in (1, 64):
        got = scores(jnp.asarray(outputs * sure), labels)
        assert got.accuracy == pytest.approx((outputs.argmax(1) == labels).mean())
        areas = []
        for c in range(classes):
            others = scipy.special.logsumexp(np.delete(outputs * float(sure), c, 1), axis=1)
            odds = outputs[:, c] * sure - others
            areas.append(sklearn.metrics.roc_auc_score(labels == c, odds))
        # Float32 breaks some ties: each is half of 1 / (27 * 54).
        assert got.auc == pytest.approx(np.mean(areas), abs=1e-3)
    assert np.isnan(scores(jnp.asarray(outputs), np.ones(81, int)).auc)  # one class has no area


def test_adam_halves_its_rate_every_fifty_epochs():
    parameters, gradient = {"w": jnp.float32(2.0)}, {"w": jnp.float32(0.5)}
    ours, other = step_decay_adam(0.01), step_decay_adam(0.3, 0.25, 7)
    for made, epoch, rate in (
        (other, 6, 0.3),
        (other, 7, 0.075),
        (other, 21, 0.3 / 64),
        (ours, 0, 0.01),
        (ours, 49, 0.01),
        (ours, 50, 0.005),
        (ours, 149, 0.0025),
        (ours, jnp.int32(150), 0.00125),
    ):
        plain = optax.adam(rate)
        got, _ = made.update(gradient, made.init(parameters), parameters, epoch=epoch)
        wanted, _ = plain.update(gradient, plain.init(parameters), parameters)
        assert float(got["w"]) == pytest.approx(float(wanted["w"]), rel=1e-6)
    assert step_decay_adam(0.01) is ours
    with pytest.raises(KeyError, match="epoch"):
        ours.update(gradient, ours.init(parameters), parameters)


class Killed(Exception):
    pass


def kill_after(epoch, seen=None):
    def progress(*now):
        if seen is not None:
            seen.append(now)
        if now[0] == epoch:
            raise Killed

    return progress


def test_a_killed_run_ends_bit_for_bit_where_the_whole_one_ends(tmp_path):
    """As without a kill; whoever looks on sees each epoch once."""
    for folder, kills in (("killed", (1, 3)), ("whole", ())):
        seen = []
        for end in kills:
            with pytest.raises(Killed):
                run(checkpoint=tmp_path / folder, progress=kill_after(end, seen))
        fitted = run(checkpoint=tmp_path / folder, progress=kill_after(None, seen))
        assert_same(fitted, reference())
        assert seen == list(
            zip(range(6), fitted.losses.tolist(), fitted.validations.tolist(), strict=True)
        )
    assert_same(
        run(checkpoint=str(tmp_path / "whole"), progress=kill_after(0)), fitted
    )  # nothing is left to do


def test_patience_is_counted_through_a_kill(tmp_path):
    with pytest.raises(Killed):
        follow([1, 1, 0], patience=3, checkpoint=tmp_path, progress=kill_after(1))
    resumed = follow([1, 1, 0], patience=3, checkpoint=tmp_path)
    whole = follow([1, 1, 0], patience=3)
    assert_same(resumed, whole)
    np.testing.assert_allclose(whole.validations, 2 / 3, rtol=1e-6)  # the earliest is the best
    assert (whole.epoch, whole.epochs_run) == (0, 4)


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    one, other = (
        GraphSet.from_edges([], [], [0, 1, 2], labels) for labels in ([1, 1, 1], [1, 1, 0])
    )
    named = {"parts": (one, one, one), "model": ONE_NUMBER, "optimizer": SGD, "batch_size": 2}
    named["checkpoint"] = tmp_path
    twin = Model(
        ONE_NUMBER.init, lambda variables, *rest, **how: ONE_NUMBER.apply(variables, *rest, **how)
    )
    halved = Model(
        ONE_NUMBER.init, lambda *given, **how: (0.5 * ONE_NUMBER.apply(*given, **how)[0], given[0])
    )
    with pytest.raises(Killed):
        run(**named, progress=kill_after(0))
    run(**{**named, "model": twin})
    for changes, name in (
        ({"key": 1}, "key"),
        ({"epochs": 7}, "epochs"),
        ({"patience": 3}, "patience"),
        ({"batch_size": 3}, "batch_size"),
        ({"optimizer": optax.sgd(0.25)}, "model, optimizer"),
        ({"model": halved}, "model, optimizer"),
        ({"parts": (other, one, one)}, "train"),
        ({"parts": (one, one, other)}, "test"),
    ):
        with pytest.raises(ValueError, match=f"other settings: .*{name}.*a folder of its own"):
            run(**{**named, **changes})


PROGRAM = """
import sys, jax
from tests.learning.test_graph_training import bits, run
progress = lambda *values: print(*values, flush=True)
print(bits(run(epochs=15, checkpoint=sys.argv[1], progress=progress)))
"""


def bits(fitted):
    """All that a run returns: its histories, scores, epochs and a digest of its variables."""
    variables = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(fitted.variables))
    histories = fitted.losses.tobytes().hex(), fitted.validations.tobytes().hex()
    return (
        *histories,
        *fitted.test,
        fitted.validation,
        fitted.epoch,
        fitted.epochs_run,
        zlib.crc32(variables),
    )


@pytest.mark.slow
def test_a_process_killed_at_any_moment_goes_on(tmp_path):
    """SIGKILL at odd times, also while a checkpoint is written; other processes compute the same
    bits.
    """
    program = [sys.executable, "-c", PROGRAM, str(tmp_path / "run")]
    # What the first start compiles serves the others.
    kept = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    kept["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # as here: the same bits
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", **kept}
    begun = []
    for pause in (0.03, 0.06):
        with subprocess.Popen(
            program, stdout=subprocess.PIPE, env=environment, text=True
        ) as process:
            begun.append(
                int(process.stdout.readline().split()[0])
            )  # the first epoch of this start is over
            time.sleep(pause)
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
    done = subprocess.run(program, capture_output=True, env=environment, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    *epochs, end = done.stdout.splitlines()
    begun += [int(epoch.split()[0]) for epoch in epochs]
    assert begun[0] == 0 < begun[1] < begun[2]  # each start went on from an epoch of the one before
    assert begun[2:] == list(range(begun[2], 15))
    assert end == str(bits(run(epochs=15)))
