"""Training on randomised labels: the corrected loss is least at the truth, and averages agree."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ldp_jax.features import GeneralizedRR
from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import kprop, operator
from ldp_jax.learning.label_training import (
    NoisyExamples,
    drop,
    drop_inputs,
    noisy_examples,
    noisy_node_classification,
)
from ldp_jax.learning.models import Model
from ldp_jax.learning.training import Examples, node_classification, on_graph

N = 25
CLASSES = 4
KEEP = 0.4
OBJECTIVE = on_graph(noisy_node_classification)
RNG = np.random.default_rng(0)
PAIRS = np.stack(np.triu_indices(N - 1, 1), 1)  # the last node has no edge
OP = operator(graphs.from_edges(PAIRS[RNG.random(len(PAIRS)) < 0.2], N), "segment")
TRUTH = RNG.dirichlet(np.ones(CLASSES), N).astype(np.float32)
NODES = np.arange(5, N, dtype=np.int32)  # whose reports are given
STEPS = (0, 4)

TABLE = Model(
    init=lambda key, inputs: {"params": inputs},
    apply=lambda variables, inputs, *, key, train: (variables["params"], variables),
)
"""Its outputs are its parameters: any posterior at all."""


def channel(keep, classes=CLASSES):
    """P(y' | y), row by row of y."""
    return np.where(np.eye(classes, dtype=bool), keep, (1 - keep) / (classes - 1))


def expected(keep=KEEP, nodes=NODES):
    """Examples that hold the mean of all reports there could be: the loss is linear in the
    labels.
    """
    share = (TRUTH[nodes] @ channel(KEEP)).astype(np.float32)
    return NoisyExamples(nodes, share, np.full(len(nodes), keep, np.float32))


def averaged(examples, steps):
    return drop_inputs(None, OP, examples, steps, rounded=False)


@jax.jit
def losses(scores, context, examples):
    """Of each example, in training."""
    outputs, _ = drop(TABLE).apply({"params": scores}, context, key=None, train=True)
    return OBJECTIVE.loss(outputs, examples)


@jax.jit
def slope(context, examples):
    """The mean loss at the true posterior, and the length of its gradient in the outputs."""
    value, gradient = jax.value_and_grad(lambda s: losses(s, context, examples).mean())(
        jnp.log(TRUTH)
    )
    return value, jnp.linalg.norm(gradient)


@jax.jit
def losses_near(context, examples, moves):
    """The mean loss where the scores of the true posterior are moved."""
    return jax.lax.map(lambda move: losses(jnp.log(TRUTH) + move, context, examples).mean(), moves)


@pytest.mark.parametrize("steps", STEPS)
def test_the_loss_is_least_at_the_true_posterior(steps):
    """Any step away costs; the loss is convex in the posterior, so what is stationary is the
    least.
    """
    context, examples = averaged(expected(), steps)
    value, length = slope(context, examples)
    assert length < 1e-6
    moves = np.random.default_rng(1).normal(size=(40, N, CLASSES)).astype(np.float32)
    scale = np.repeat([0.1, 1.0], 20)[:, None, None].astype(np.float32)
    assert (losses_near(context, examples, scale * moves) > value + 1e-6).all()


def test_other_losses_are_least_elsewhere():
    """Bad twins: another channel, labels averaged for posteriors that are not, over other nodes,
    rounded, raw.
    """
    context, examples = averaged(expected(), 4)
    _, right = slope(context, examples)
    for twin in (
        averaged(expected(keep=0.45), 4),
        (context._replace(steps=jnp.int32(0)), examples),
        (context._replace(given=jnp.ones(N)), examples),
        drop_inputs(None, OP, expected(), 4),
    ):
        _, wrong = slope(*twin)
        assert wrong > 100 * right + 1e-4
    gradient = jax.jit(
        jax.grad(lambda s: optax.softmax_cross_entropy(s, jnp.asarray(expected().label)).mean())
    )
    assert jnp.linalg.norm(gradient(jnp.log(TRUTH[NODES]))) > 0.05


def test_no_steps_are_forward_correction_alone():
    """Also by hand: minus the logarithm of the reported category's share after the channel."""
    reports = np.arange(len(NODES), dtype=np.int32) % CLASSES
    examples = noisy_examples(GeneralizedRR(0.5, CLASSES), NODES, reports)
    context, same = averaged(examples, 0)
    np.testing.assert_allclose(same.label, examples.label, atol=1e-6)
    by_hand = -np.log(
        (TRUTH[NODES] @ channel(float(examples.keep[0])))[np.arange(len(NODES)), reports]
    )
    np.testing.assert_allclose(losses(jnp.log(TRUTH), context, same), by_hand, rtol=1e-5)
    np.testing.assert_allclose(OBJECTIVE.loss(jnp.log(TRUTH), examples), by_hand, rtol=1e-5)


def test_labels_are_those_of_the_given_nodes_around():
    """By dense matrices; the last node has nobody around and keeps its own report."""
    reports = np.random.default_rng(2).integers(0, CLASSES, N)
    one_hot = np.eye(CLASSES)[reports] * (np.arange(N) >= 5)[:, None]
    reach = np.asarray(kprop(OP, np.eye(N, dtype=np.float32), 4), float)
    total = reach @ one_hot
    mass = total.sum(1, keepdims=True)
    wanted = np.where(mass > 0, total / np.where(mass > 0, mass, 1), np.eye(CLASSES)[reports])
    rr = GeneralizedRR(1.0, CLASSES)
    first, rest = (noisy_examples(rr, part, reports[part]) for part in (NODES[:10], NODES[10:]))
    for also, train in ((rest, first), (first, rest)):
        context, made = drop_inputs(None, OP, train, 4, also=also, rounded=False)
        np.testing.assert_allclose(made.label, wanted[train.index], atol=1e-5)
        _, sharp = drop_inputs(None, OP, train, 4, also=also)
        np.testing.assert_array_equal(sharp.label, np.eye(CLASSES)[np.argmax(made.label, 1)])
        np.testing.assert_array_equal(context.given, np.arange(N) >= 5)


def test_the_probability_of_the_channel_is_read_off_the_mechanism():
    for epsilon, classes in ((0.1, 3), (1.0, 7), (8.0, 3)):
        made = noisy_examples(GeneralizedRR(epsilon, classes), [3], [1])
        assert float(made.keep[0]) == pytest.approx(
            np.exp(epsilon) / (np.exp(epsilon) + classes - 1), rel=1e-5
        )
        assert made.label.shape == (1, classes)


def test_labels_without_noise_are_an_ordinary_cross_entropy():
    """keep = 1, and :class:`Examples`; also where the posterior of a class is nothing, and in the
    gradient.
    """
    scores = jnp.array([[0.0, 1.0, -2.0], [200.0, 0.0, -200.0]])
    plain = Examples(np.array([0, 1]), np.array([1, 0]))
    clean = NoisyExamples(plain.index, jax.nn.one_hot(plain.label, 3), jnp.ones(2))
    for part in (plain, clean):
        slope = jax.value_and_grad(lambda s, p=part: noisy_node_classification.loss(s, p).sum())
        value, gradient = jax.jit(slope)(scores)
        wanted = jax.jit(jax.value_and_grad(lambda s: node_classification.loss(s, plain).sum()))(
            scores
        )
        np.testing.assert_allclose(value, wanted[0], rtol=1e-6)
        np.testing.assert_allclose(gradient, wanted[1], atol=1e-6)
    assert noisy_node_classification.score(scores, plain) == 1.0


def test_an_epoch_that_has_learned_the_noise_is_never_kept():
    """True classes score their likelihood; the reports themselves, more often right than a right
    model, nothing.
    """
    rng = np.random.default_rng(3)
    m = 400
    keep = 0.4
    truth = rng.integers(0, CLASSES, m)
    reports = np.where(rng.random(m) < keep, truth, (truth + rng.integers(1, CLASSES, m)) % CLASSES)
    validation = NoisyExamples(
        np.arange(m), np.eye(CLASSES, dtype=np.float32)[reports], jnp.full(m, keep)
    )
    scored = jax.jit(noisy_node_classification.score)
    score = lambda right, labels: scored(
        right * np.eye(CLASSES, dtype=np.float32)[labels], validation
    )
    sure = score(9.0, truth)
    unsure = score(1.0, truth)
    noise = score(9.0, reports)
    assert noise == -jnp.inf
    assert -jnp.inf < score(0.0, truth) < unsure < sure < 0.0
    half = np.where(np.arange(m) < m // 2, truth, reports)  # of half the reports by heart
    assert score(9.0, half) == -jnp.inf
