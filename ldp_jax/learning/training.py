"""Training as one compiled scan: pure, keyed, the best validation epoch kept in the carry.

:func:`fit` trains one model; :func:`fit_many` trains one a key over stacked inputs, in one program.
"""

import dataclasses
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, Int

from ldp_jax.core import validate
from ldp_jax.core.types import Array, PRNGKey, PRNGKeys
from ldp_jax.learning import metrics
from ldp_jax.learning.models import Model

__all__ = [
    "Examples",
    "Fitted",
    "Objective",
    "Pairs",
    "Settings",
    "adam",
    "fit",
    "fit_many",
    "link_prediction",
    "node_classification",
    "node_labels",
    "on_graph",
]


def __dir__() -> list[str]:
    return __all__


class Objective(NamedTuple):
    """What is trained for; functions of a shared ``context`` (an embedding) and a batch of ``examples``.

    Attributes:
      inputs: ``inputs(context, examples)`` -> what the model is applied to.
      loss: ``loss(outputs, examples)`` -> float [batch], one loss an example.
      score: ``score(outputs, examples)`` -> scalar, larger is better: the validation and test metric.
      check: ``check(name, examples, context, outputs)`` raises ``ValueError`` for concrete examples that the
        context and the model's outputs, both given as ``jax.ShapeDtypeStruct``, do not allow; the examples may have
        a leading axis of runs. ``None`` checks nothing.
    """

    inputs: Callable[[Any, Any], Any]
    loss: Callable[[Any, Any], Array]
    score: Callable[[Any, Any], Array]
    check: Callable[[str, Any, Any, Any], None] | None = None


class Fitted(NamedTuple):
    """A trained model.

    Attributes:
      variables: those of the best validation epoch (the earliest, on ties).
      validation: the validation score then.
      test: the test score then.
      epoch: which epoch that was, from 0.
      losses: float [epochs], the mean training loss of each epoch; NaN for those that were not run.
      validations: float [epochs], the validation score after each epoch; NaN for those that were not run.
    """

    variables: Any
    validation: Float[Array, "*runs"]
    test: Float[Array, "*runs"]
    epoch: Int[Array, "*runs"]
    losses: Float[Array, "*runs epochs"]
    validations: Float[Array, "*runs epochs"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a model is trained; checked when it is made.

    Attributes:
      optimizer: any optax transformation; make it once, since programs are told apart by it.
      epochs: at most how many, at least 1.
      batch_size: examples, or graphs, of a batch; any size.
      patience: stop after as many epochs without a better validation score; ``None`` trains all epochs.

    Raises:
      ValueError: for numbers out of range.

    >>> Settings(adam(0.01), epochs=100, batch_size=64).patience is None
    True
    """

    optimizer: optax.GradientTransformation
    epochs: int
    batch_size: int
    patience: int | None = None

    def __post_init__(self) -> None:
        validate.integer_in(1, epochs=self.epochs)
        validate.integer_in(1, batch_size=self.batch_size)
        if self.patience is not None:
            validate.integer_in(1, patience=self.patience)


class Examples(NamedTuple):
    """Labelled rows of the context: ``index`` int32 [n], ``label`` int32 [n]."""

    index: Int[Array | np.ndarray, " n"]
    label: Int[Array | np.ndarray, "n ..."]


class Pairs(NamedTuple):
    """Node pairs: ``edge`` int32 [n, 2] are edges, ``non_edge`` int32 [n, 2] are not."""

    edge: Int[Array | np.ndarray, "n 2"]
    non_edge: Int[Array | np.ndarray, "n 2"]


def _refuse_outside(name: str, values: Any, size: int, of: str) -> None:
    """Refuse concrete indices or classes that are no whole numbers in [0, size); tracers pass."""
    if not validate.concrete(values):
        return
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name} must be integers, got {array.dtype}")
    if array.size and (array.min() < 0 or array.max() >= size):
        raise ValueError(
            f"{name} must be in [0, {size}), one of {of}, counted from 0; "
            f"got numbers from {array.min()} to {array.max()}"
        )


def _check_nodes(name: str, examples: Examples, z: Any, scores: Any) -> None:
    _refuse_outside(f"index of {name}", examples.index, z.shape[0], "the rows of the context")
    _refuse_outside(f"label of {name}", examples.label, scores.shape[-1], "the model's outputs")


def _check_pairs(name: str, pairs: Pairs, z: Any, _: Any) -> None:
    for field in Pairs._fields:
        _refuse_outside(f"{field} of {name}", getattr(pairs, field), z.shape[0], "the rows of the context")


node_classification = Objective(
    inputs=lambda z, examples: z[examples.index],
    loss=lambda scores, examples: optax.softmax_cross_entropy_with_integer_labels(scores, examples.label),
    score=lambda scores, examples: metrics.accuracy(scores, examples.label),
    check=_check_nodes,
)
"""Cross entropy on rows of an embedding, scored by accuracy: context z [n, d], :class:`Examples`."""


def _check_labels(name: str, examples: Examples, z: Any, scores: Any) -> None:
    _refuse_outside(f"index of {name}", examples.index, z.shape[0], "the rows of the context")
    if np.shape(examples.label)[-1] != scores.shape[-1]:
        raise ValueError(
            f"label of {name} must have a column for each of the model's {scores.shape[-1]} outputs, "
            f"got shape {np.shape(examples.label)}"
        )
    if validate.concrete(examples.label) and not np.isin(np.asarray(examples.label), (0, 1)).all():
        raise ValueError(f"label of {name} must be 0 or 1, one column a label")


node_labels = Objective(
    inputs=lambda z, examples: z[examples.index],
    loss=lambda scores, examples: optax.sigmoid_binary_cross_entropy(
        scores, jnp.asarray(examples.label, scores.dtype)
    ).mean(-1),
    score=lambda scores, examples: metrics.micro_f1(scores, examples.label),
    check=_check_labels,
)
"""Cross entropy of each of several labels of a row, scored by micro-F1: context z [n, d], :class:`Examples` whose
``label`` is [n, k] of 0 and 1. ``node_labels._replace(score=...)`` scores otherwise, make it once.
"""


@lru_cache
def on_graph(objective: Objective) -> Objective:
    """The same objective on nodes whose outputs depend on the whole graph; cached.

    Every step applies the model to all nodes, so a batch of all training examples is the one to take.

    Args:
      objective: of :class:`Examples`: :data:`node_classification`, :data:`node_labels`, or one's own.

    Returns:
      An objective whose context is what the model takes, such as :class:`ldp_jax.learning.models.NodeInputs`, and
      whose ``index`` names nodes.

    >>> two = Examples(np.array([0, 2]), np.array([1, 1]))
    >>> float(on_graph(node_classification).score(jnp.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]), two))
    0.5
    """
    return Objective(
        inputs=lambda context, examples: context,
        loss=lambda outputs, examples: objective.loss(outputs[examples.index], examples),
        score=lambda outputs, examples: objective.score(outputs[examples.index], examples),
        check=lambda name, examples, _, outputs: (
            objective.check(name, examples, outputs, outputs) if objective.check is not None else None
        ),
    )


def _hadamard(z: Array, pairs: Pairs) -> Array:
    both = jnp.stack([pairs.edge, pairs.non_edge], 1)  # [n, edge or not, end]
    return z[both[..., 0]] * z[both[..., 1]]


def _pairwise_loss(scores: Array, pairs: Pairs) -> Array:
    probability = jax.nn.sigmoid(scores[..., 0])
    return (1.0 - (probability[:, 0] - probability[:, 1])) ** 2


link_prediction = Objective(
    inputs=_hadamard,
    loss=_pairwise_loss,
    score=lambda scores, pairs: metrics.auc(scores[:, 0, 0], scores[:, 1, 0]),
    check=_check_pairs,
)
"""Pairwise loss (1 - (s+ - s-))^2 on Hadamard products of rows, s the sigmoid of the model's one output; scored
by AUC. Context: z [n, d]. Examples: :class:`Pairs`.
"""


def adam(learning_rate: float, weight_decay: float = 0.0) -> optax.GradientTransformation:
    """Adam with weight decay added to the gradient (L2), as PyTorch has it; cached by its numbers.

    Raises:
      ValueError: for a learning rate that is no number > 0, or a weight decay outside [0, 1].
    """
    rate = validate.number(0.0, open_lower=True, learning_rate=learning_rate)
    return _adam(rate, validate.number(0.0, 1.0, weight_decay=weight_decay))


@lru_cache
def _adam(learning_rate: float, weight_decay: float) -> optax.GradientTransformation:
    if weight_decay == 0.0:
        return optax.adam(learning_rate)
    return optax.chain(optax.add_decayed_weights(weight_decay), optax.adam(learning_rate))


def fit(
    key: PRNGKey,
    model: Model,
    objective: Objective,
    context: Any,
    train: Any,
    validation: Any,
    test: Any,
    settings: Settings,
) -> Fitted:
    """Train for a number of epochs, or until validation no longer gets better, and keep the best by validation.

    Every epoch visits every training example once, in a new order; a last batch that is not full is padded,
    and the padding weighs nothing.

    Args:
      key: for the parameters, the order of examples and dropout.
      model: as the constructors of :mod:`ldp_jax.learning.models` make it.
      objective: :data:`node_classification`, :data:`link_prediction`, or one's own.
      context: what all examples share; any pytree.
      train: examples, a pytree whose leaves have one leading axis.
      validation: examples.
      test: examples; looked at once, with the variables that validation chose.
      settings: optimizer, epochs, batch size and patience.

    Compiled once for the same model, objective, optimizer and shapes, whatever the patience. A run whose validation
    score is NaN in every epoch returns its first variables, and a validation of -inf.

    Raises:
      ValueError: for a key that is not threefry, no training example, or concrete examples that name a row
        the context lacks or a class the model has no output for; before anything is compiled.
    """
    validate.threefry(key)
    check_examples(model, objective, context, {"train": train, "validation": validation, "test": test})
    patience = jnp.int32(settings.patience or settings.epochs)  # traced, so that it tells no two programs apart
    settings = dataclasses.replace(settings, patience=None)
    return _fit(key, model, objective, context, train, validation, test, patience, settings=settings)


@partial(jax.jit, static_argnames=("model", "objective"))
def _outputs(context: Any, examples: Any, *, model: Model, objective: Objective) -> Any:
    """What a model makes of examples: asked for its shape alone, which is traced once and never compiled."""
    inputs = objective.inputs(context, examples)
    variables = model.init(jax.random.key(0), inputs)
    return model.apply(variables, inputs, key=None, train=False)[0]


def check_examples(
    model: Model, objective: Objective, context: Any, parts: dict[str, Any], *, stacked: bool = False
) -> None:
    """An example to train by, and the objective's own check of each part, from known values and all shapes."""
    sizes = {np.shape(leaf)[1 if stacked else 0 :][:1] for leaf in jax.tree.leaves(parts["train"])}
    if not sizes or (0,) in sizes:
        raise ValueError("train must hold at least one example, got none")
    if objective.check is None:
        return
    shapes = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)), (context, parts)
    )
    if stacked:
        shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), shapes)
    context, examples = shapes

    made = _outputs.eval_shape(context, examples["train"], model=model, objective=objective)
    for name, part in parts.items():
        objective.check(name, part, context, made)


@partial(jax.jit, static_argnames=("model", "objective", "settings"))
def _fit(
    key: PRNGKey,
    model: Model,
    objective: Objective,
    context: Any,
    train: Any,
    validation: Any,
    test: Any,
    patience: Array,
    *,
    settings: Settings,
) -> Fitted:
    optimizer, epochs = settings.optimizer, settings.epochs
    count = jax.tree.leaves(train)[0].shape[0]
    batch_size = min(settings.batch_size, count)
    batches = -(-count // batch_size)
    init_key, epochs_key = jax.random.split(key)

    def take(examples: Any, index: Array) -> Any:
        return jax.tree.map(lambda leaf: leaf[index], examples)

    def loss(parameters: Any, rest: Any, index: Array, key: PRNGKey) -> Any:
        weight = (index < count).astype(jnp.float32)
        batch = take(train, jnp.minimum(index, count - 1))
        outputs, variables = model.apply(
            {**rest, "params": parameters}, objective.inputs(context, batch), key=key, train=True
        )
        mean = (objective.loss(outputs, batch) * weight).sum() / weight.sum()
        return mean, {name: value for name, value in variables.items() if name != "params"}

    def score(variables: Any, examples: Any) -> Array:
        outputs, _ = model.apply(variables, objective.inputs(context, examples), key=None, train=False)
        return objective.score(outputs, examples)

    def step(carry: Any, index_and_key: Any) -> Any:
        parameters, rest, state, total = carry
        (value, rest), gradient = jax.value_and_grad(loss, has_aux=True)(parameters, rest, *index_and_key)
        updates, state = optimizer.update(gradient, state, parameters)
        return (optax.apply_updates(parameters, updates), rest, state, total + value), None

    def going(carry: Any) -> Any:
        number, _, _, _, best, *_ = carry
        return (number < epochs) & (number - 1 - best[1] < patience)

    def epoch(carry: Any) -> Any:
        number, parameters, rest, state, best, chosen, losses, validations = carry
        order_key, steps_key = jax.random.split(jax.random.fold_in(epochs_key, number))
        order = jax.random.permutation(order_key, count)
        order = jnp.pad(order, (0, batches * batch_size - count), constant_values=count)
        (parameters, rest, state, total), _ = jax.lax.scan(
            step,
            (parameters, rest, state, jnp.float32(0.0)),
            (order.reshape(batches, batch_size), jax.random.split(steps_key, batches)),
        )
        now = score({**rest, "params": parameters}, validation)
        better = now > best[0]
        chosen = jax.tree.map(lambda new, old: jnp.where(better, new, old), {**rest, "params": parameters}, chosen)
        best = (jnp.where(better, now, best[0]), jnp.where(better, number, best[1]))
        # Histories live in the carry: stacked scalar outputs of a scan are slow on CPUs in some jax releases.
        return (
            number + 1, parameters, rest, state, best, chosen,
            losses.at[number].set(total / batches), validations.at[number].set(now),
        )  # fmt: skip

    first = take(train, jnp.zeros(batch_size, jnp.int32))
    variables = model.init(init_key, objective.inputs(context, first))
    parameters = variables["params"]
    rest = {name: value for name, value in variables.items() if name != "params"}
    never = jnp.full(epochs, jnp.nan)
    best = (jnp.float32(-jnp.inf), jnp.int32(0))
    start = (jnp.int32(0), parameters, rest, optimizer.init(parameters), best, variables, never, never)
    _, _, _, _, best, chosen, losses, validations = jax.lax.while_loop(going, epoch, start)
    return Fitted(chosen, best[0], score(chosen, test), best[1], losses, validations)


def fit_many(
    keys: PRNGKeys,
    model: Model,
    objective: Objective,
    context: Any,
    train: Any,
    validation: Any,
    test: Any,
    settings: Settings,
    *,
    at_once: int | None = None,
    keep_variables: bool = False,
) -> Fitted:
    """Train one model a key, over inputs stacked along a leading axis, in one compiled program.

    Args:
      keys: [runs] typed threefry keys.
      model: see :func:`fit`.
      objective: see :func:`fit`.
      context: stacked [runs, ...].
      train: stacked [runs, ...].
      validation: stacked [runs, ...].
      test: stacked [runs, ...].
      settings: of all runs; another patience is another program here.
      at_once: runs that are vmapped together; 1 at a time by default, which is fastest on a CPU. On an
        accelerator take as many as fit.
      keep_variables: whether to return the trained variables, or ``()``.

    Returns:
      :class:`Fitted`, each leaf with a leading axis of runs. Programs for different numbers of runs may round
      differently in the last bits; where a run must not depend on those beside it, call :func:`fit` for each.

    Raises:
      ValueError: as :func:`fit`.
    """
    validate.threefry(keys, axes=1)
    parts = {"train": train, "validation": validation, "test": test}
    check_examples(model, objective, context, parts, stacked=True)
    return _fit_many(
        keys, model, objective, context, train, validation, test, settings=settings, at_once=at_once,
        keep_variables=keep_variables,
    )  # fmt: skip


@partial(jax.jit, static_argnames=("model", "objective", "settings", "at_once", "keep_variables"))
def _fit_many(
    keys: PRNGKeys,
    model: Model,
    objective: Objective,
    context: Any,
    train: Any,
    validation: Any,
    test: Any,
    *,
    settings: Settings,
    at_once: int | None,
    keep_variables: bool,
) -> Fitted:
    def one(inputs: Any) -> Fitted:
        key, context, train, validation, test = inputs
        fitted = fit(key, model, objective, context, train, validation, test, settings)
        return fitted if keep_variables else fitted._replace(variables=())

    stacked = (keys, context, train, validation, test)
    return jax.lax.map(one, stacked) if at_once is None else jax.lax.map(one, stacked, batch_size=at_once)
