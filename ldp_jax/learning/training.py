"""Training as one compiled loop: pure, keyed, the best validation epoch kept in the carry.

:func:`fit` trains one model; :func:`fit_many` trains one a key over stacked inputs, in one program.
"""

import dataclasses
import time
import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Float, Int, PyTree

from ldp_jax.core import progress as shown
from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.sharding import (
    all_devices,
    each_run,
    gathered,
    is_placed,
    placement,
    spread,
)
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, Array, PRNGKey, PRNGKeys
from ldp_jax.learning import metrics
from ldp_jax.learning.models import Bound, Model, Variables
from ldp_jax.learning.models.gcn import check_rows

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
    "predict",
    "scored_by_loss",
]

__dir__ = lambda: __all__


_ROWS = 2**16  # rows of a file that are predicted together


class Objective(NamedTuple):
    """The goal of a training: functions of a shared ``context`` and a batch of ``examples``.

    A context is an embedding, or a graph with records.

    Attributes:
      inputs: ``inputs(context, examples)`` -> the inputs of the model.
      loss: ``loss(outputs, examples)`` -> float [batch].
      score: ``score(outputs, examples)`` -> scalar, larger is better: the validation and test
        metric.
      check: ``check(name, examples, context, outputs)`` raises ``ValueError`` for concrete examples
        that do not fit the shapes of context and outputs; examples may have a leading axis of runs.
    """

    inputs: Callable[[PyTree, PyTree], PyTree]
    loss: Callable[[PyTree, PyTree], Array]
    score: Callable[[PyTree, PyTree], Array]
    check: Callable[[str, PyTree, PyTree, jax.ShapeDtypeStruct], None] | None = None

    __repr__ = by_shapes


class Fitted(NamedTuple):
    """A trained model: the variables and scores of its best validation epoch, counted from 0.

    On ties it is the earliest.

    ``losses`` are the mean training losses and ``validations`` the scores of all epochs; an epoch
    that was not run has the loss infinity and the score -infinity.
    """

    variables: Variables
    validation: Float[Array, "*runs"]
    test: Float[Array, "*runs"]
    epoch: Int[Array, "*runs"]
    losses: Float[Array, "*runs epochs"]
    validations: Float[Array, "*runs epochs"]

    __repr__ = by_shapes


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a model is trained; checked at construction.

    Attributes:
      optimizer: any optax transformation; make it once, since it identifies a program.
      epochs: the largest number of epochs, at least 1.
      batch_size: examples, or graphs, in a batch; any size.
      patience: stop after as many epochs without a better validation score; None trains all epochs.
      at_once: of many runs, those that are vmapped together; None for one at a time, fastest on a
        CPU.
      mesh: devices that share each batch of graphs, by
        :func:`~ldp_jax.learning.graph_training.fit_graphs` alone.
      progress: told how far a training of more than five seconds is; by default that is shown.
    """

    optimizer: optax.GradientTransformation
    epochs: int
    batch_size: int
    patience: int | None = None
    at_once: int | None = None
    mesh: Mesh | None = None
    progress: shown.Progress | None = dataclasses.field(default=None, compare=False)

    def __post_init__(self) -> None:
        optional = {"patience": self.patience, "at_once": self.at_once}
        given = {name: value for name, value in optional.items() if value is not None}
        validate.integer_in(1, epochs=self.epochs, batch_size=self.batch_size, **given)
        validate.require(
            hasattr(self.optimizer, "init"),
            "optimizer must be one of optax, such as training.adam(0.01), got "
            f"{type(self.optimizer).__name__}",
        )

    @property
    def most_idle(self) -> np.int32:
        """Epochs without a better score after which training stops."""
        return np.int32(self.patience or self.epochs)


class Examples(NamedTuple):
    """Labelled rows of the context: ``index`` int32 [n], ``label`` int32 [n]."""

    index: Int[AnyArray, " n"]
    label: Int[AnyArray, "n ..."]

    __repr__ = by_shapes


class Pairs(NamedTuple):
    """Node pairs: ``edge`` int32 [n, 2] are edges, ``non_edge`` int32 [n, 2] are not."""

    edge: Int[AnyArray, "n 2"]
    non_edge: Int[AnyArray, "n 2"]

    __repr__ = by_shapes


# --- Objectives -----------------------------------------------------------------------------------


def check_index(name: str, index: AnyArray, z: jax.ShapeDtypeStruct) -> None:
    """Refuse indices that name no row of the context."""
    validate.ids(z.shape[0], "one of the rows of the context", **{name: index})


def check_nodes(name: str, examples: Examples, z: PyTree, scores: jax.ShapeDtypeStruct) -> None:
    """Refuse rows that the context lacks, and classes that the model has no output for."""
    check_index(f"index of {name}", examples.index, z)
    _check_rows(name, examples, np.shape(examples.label))
    outputs = scores.shape[-1]
    validate.ids(outputs, "one of the model's outputs", **{f"label of {name}": examples.label})


def _check_rows(name: str, examples: Examples, rows: tuple[int, ...]) -> None:
    """Refuse labels of other rows: beyond the last a compiled program reads the last again."""
    validate.require(
        np.shape(examples.index) == rows,
        f"label of {name} must be as many as index of {name}, got shapes "
        f"{np.shape(examples.label)} and {np.shape(examples.index)}",
    )


def _check_pairs(name: str, pairs: Pairs, z: PyTree, scores: jax.ShapeDtypeStruct) -> None:
    outputs = scores.shape[-1]
    validate.require(
        outputs == 1, f"model must have one output, the score of a pair, got {outputs}"
    )
    for field, ends in pairs._asdict().items():
        validate.require(
            np.shape(ends)[-1:] == (2,),
            f"{field} of {name} must be pairs [n, 2], got shape {np.shape(ends)}",
        )
        check_index(f"{field} of {name}", ends, z)


def check_columns(name: str, labels: AnyArray, outputs: int) -> None:
    """Refuse labels [n, k] of another number of columns than the model has outputs."""
    validate.require(
        np.shape(labels)[-1] == outputs,
        f"label of {name} must have a column for each of the model's {outputs} outputs, "
        f"got shape {np.shape(labels)}",
    )


def _check_labels(name: str, examples: Examples, z: PyTree, scores: jax.ShapeDtypeStruct) -> None:
    check_index(f"index of {name}", examples.index, z)
    check_columns(name, examples.label, scores.shape[-1])
    _check_rows(name, examples, np.shape(examples.label)[:-1])
    validate.require(
        not validate.concrete(examples.label) or np.isin(examples.label, (0, 1)).all(),
        f"label of {name} must be 0 or 1, one column a label",
    )


def _rows_of(z: Array, examples: Examples) -> Array:
    return z[examples.index]


node_classification = Objective(
    inputs=_rows_of,
    loss=lambda scores, examples: optax.softmax_cross_entropy_with_integer_labels(
        scores, examples.label
    ),
    score=lambda scores, examples: metrics.accuracy(scores, examples.label),
    check=check_nodes,
)
"""Cross entropy on rows of an embedding z [n, d], of :class:`Examples`, scored by accuracy."""

node_labels = Objective(
    inputs=_rows_of,
    loss=lambda scores, examples: optax.sigmoid_binary_cross_entropy(
        scores, jnp.asarray(examples.label, scores.dtype)
    ).mean(-1),
    score=lambda scores, examples: metrics.micro_f1(scores, examples.label),
    check=_check_labels,
)
"""Cross entropy of several labels a row, ``label`` [n, k] of 0 and 1, scored by micro-F1."""


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
"""Loss (1 - (s+ - s-))^2 of the sigmoids s of Hadamard products of rows of z, scored by AUC."""


def on_graph(objective: Objective) -> Objective:
    """Make an objective of nodes one whose model takes the whole graph.

    The context is the input of the model, such as :class:`ldp_jax.learning.models.NodeInputs`.
    Every step applies the model to all nodes: one batch of all examples is cheapest. Equal
    objectives give equal ones.

    >>> two = Examples(np.array([0, 2]), np.array([1, 1]))
    >>> outputs = jnp.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    >>> float(on_graph(node_classification).score(outputs, two))
    0.5
    """
    return Objective(
        _all_nodes,
        Bound(_at_nodes, (objective.loss,)),
        Bound(_at_nodes, (objective.score,)),
        Bound(_check_at_nodes, (objective.check,)),
    )


def _all_nodes(context: PyTree, examples: PyTree) -> PyTree:
    return context


def _at_nodes(
    function: Callable[[Array, PyTree], Array], outputs: Array, examples: PyTree
) -> Array:
    return function(outputs[examples.index], examples)


def _check_at_nodes(
    check: Callable | None, name: str, examples: PyTree, _: PyTree, outputs: jax.ShapeDtypeStruct
) -> None:
    if check is not None:
        check(name, examples, outputs, outputs)


def scored_by_loss(objective: Objective) -> Objective:
    """Score an objective by minus its mean loss; equal for equal objectives."""
    return objective._replace(score=Bound(_minus_loss, (objective.loss,)))


def _minus_loss(
    loss: Callable[[PyTree, PyTree], Array], outputs: PyTree, examples: PyTree
) -> Array:
    return -loss(outputs, examples).mean()


def adam(learning_rate: float, weight_decay: float = 0.0) -> optax.GradientTransformation:
    """Adam with weight decay added to the gradient (L2), as in PyTorch.

    The same object for the same numbers.
    """
    rate = validate.number(0.0, open_lower=True, learning_rate=learning_rate)
    return by_name(_adam, (rate, validate.number(0.0, 1.0, weight_decay=weight_decay)))


@cache
def by_name(
    make: Callable[..., optax.GradientTransformation], given: tuple
) -> optax.GradientTransformation:
    """The optimizer ``make(*given)`` of a function with a name.

    Two are equal, and pickled, by what made them.
    """
    return optax.GradientTransformationExtraArgs(
        *(Bound(_part, (make, given, place)) for place in (0, 1))
    )


def _part(make: Callable, given: tuple, place: int, *args: PyTree, **named: PyTree) -> PyTree:
    return optax.with_extra_args_support(make(*given))[place](*args, **named)


def _adam(learning_rate: float, weight_decay: float) -> optax.GradientTransformation:
    if weight_decay == 0.0:
        return optax.adam(learning_rate)
    return optax.chain(optax.add_decayed_weights(weight_decay), optax.adam(learning_rate))


# --- The loop -------------------------------------------------------------------------------------


class Run(NamedTuple):
    """A training between two epochs: ``number`` were run, ``state`` is the optimizer's."""

    number: Array
    variables: Variables
    state: PyTree
    best: Variables
    best_score: Array
    best_epoch: Array
    losses: Array
    validations: Array

    __repr__ = by_shapes


def begin(variables: Variables, optimizer: optax.GradientTransformation, epochs: int) -> Run:
    """A training before its first epoch."""
    # NaN would stop training under ``jax_debug_nans``.
    no_losses = jnp.full(epochs, jnp.inf, jnp.float32)
    return Run(
        number=jnp.int32(0),
        variables=variables,
        state=optimizer.init(variables["params"]),
        best=variables,
        best_score=jnp.float32(-jnp.inf),
        best_epoch=jnp.int32(0),
        losses=no_losses,
        validations=-no_losses,
    )


def step(
    model: Model,
    optimizer: optax.GradientTransformation,
    losses: Callable[[Array], Array],
    real: Array,
    carry: tuple[Variables, PyTree, Array],
    inputs: PyTree,
    key: PRNGKey,
    number: Array,
) -> tuple[Variables, PyTree, Array]:
    """One step down the gradient of the mean of ``losses(outputs)`` that are ``real``.

    The carry adds these up.
    """
    variables, state, total = carry
    parameters = variables["params"]

    def mean(parameters):
        given = {**variables, "params": parameters}
        outputs, changed = model.apply(given, inputs, key=key, train=True)
        # Float64 records would make the sum float64.
        lost = jnp.where(real, losses(outputs), 0.0).sum(dtype=total.dtype)
        return lost / real.sum(), (lost, changed)

    (_, (lost, changed)), gradient = jax.value_and_grad(mean, has_aux=True)(parameters)
    update = optax.with_extra_args_support(optimizer).update
    updates, state = update(gradient, state, parameters, epoch=number)
    variables = {**changed, "params": optax.apply_updates(parameters, updates)}
    return variables, state, total + lost


def run_epochs(
    run: Run,
    until: Array | int | np.integer,
    patience: Array | np.integer,
    epoch: Callable[[Array, Variables, PyTree], tuple[Variables, PyTree, Array]],
    score: Callable[[Variables], Array],
) -> Run:
    """Run epochs up to ``until``, or until ``patience`` had no better ``score(variables)``.

    NaN is never better.

    ``epoch(number, variables, state)`` gives variables, state and mean loss after it.
    """

    def going(run):
        return (run.number < until) & (run.number - 1 - run.best_epoch < patience)

    def one(run):
        number = run.number
        variables, state, loss = epoch(number, run.variables, run.state)
        now = score(variables).astype(jnp.float32)
        better = now > run.best_score
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), variables, run.best)
        # Histories live in the carry: stacked scalar outputs of a scan are slow on CPUs in some jax
        # releases.
        return Run(
            number + 1,
            variables,
            state,
            best,
            jnp.where(better, now, run.best_score),
            jnp.where(better, number, run.best_epoch),
            run.losses.at[number].set(loss),
            run.validations.at[number].set(now),
        )

    return jax.lax.while_loop(going, one, run)


def in_blocks(go_on: Callable[[Run, np.int32], Run], run: Run, epochs: int) -> Run:
    """Continue a run to its end by ``go_on(run, until)``, in blocks of about a second.

    The host tells progress after each.
    """
    done = 0
    size = 1
    begun = since = time.monotonic()
    while done < epochs:
        until = min(done + size, epochs)
        run = go_on(run, np.int32(until))
        if np.asarray(run.number).max() < until:  # out of patience
            break
        now = time.monotonic()
        if done == 0:  # the first epoch's time is that of compilation
            begun = now
        size = max(1, int((until - done) / max(now - since, 1e-6)))
        done = until
        since = now
        if now - begun > shown.AFTER:
            shown.phase(f"epoch {done} of {epochs}", done / epochs)
    return run


def _trained(
    model: Model, objective: Objective, settings: Settings, data: tuple, *, stacked: bool
) -> Fitted:
    """Train on the key, the context and the three parts, and score the best epoch.

    The host runs in blocks, unless one of them is placed: traced, or bound to devices. ``stacked``
    data are those of several runs.
    """
    validate.threefry(data[0], axes=int(stacked))
    validate.require(
        settings.mesh is None,
        "mesh is for fit_graphs alone: here divide the keys and their arrays",
    )
    parts = dict(zip(("train", "validation", "test"), data[2:], strict=True))
    check_examples(model, objective, data[1], parts, stacked=stacked)
    # These tell programs apart; patience is traced, and does not.
    static = dataclasses.replace(settings, patience=None, at_once=None, progress=None)
    program = model, objective, static

    count = len(data[0]) if stacked else 1
    placed = is_placed(data)
    everywhere = all_devices(count, data)
    if everywhere is not None:
        data = spread(everywhere, data)
    key, context, train, validation, test = data
    over = everywhere or placement(key)

    def call(function, shared, *own):
        if stacked:
            return _each_run(program, function, shared, *own, at_once=settings.at_once, over=over)
        return function(program, *shared, *own)

    def block(run, until):
        # Each epoch folds a number of its own into the key, which all blocks have.
        again = jax.random.clone(key), context, train, validation
        return call(_fit, (until, settings.most_idle), run, again)

    run = call(_begin, (), key, context, train)
    if placed:
        run = block(run, np.int32(settings.epochs))
    else:
        with shown.watched("fit", settings.progress):
            run = in_blocks(block, run, settings.epochs)
    scored = call(_score, (), run.best, context, test)
    fitted = Fitted(run.best, run.best_score, scored, run.best_epoch, run.losses, run.validations)
    if everywhere is not None:
        fitted = gathered(count, fitted)
    if placed:
        return fitted

    first_losses = np.asarray(fitted.losses)[..., 0]
    broken = int(np.isnan(first_losses).sum())
    if broken:
        warnings.warn(
            f"the loss of the first epoch is NaN in {broken} of {fitted.epoch.size} runs: is an "
            "input not finite, or the learning rate too large?",
            stacklevel=3,
        )
    return fitted


@implicit_promotion()
def fit(
    key: PRNGKey,
    model: Model,
    objective: Objective,
    context: PyTree,
    train: PyTree,
    validation: PyTree,
    test: PyTree,
    settings: Settings,
) -> Fitted:
    """Train one model, and keep the epoch of the best validation score.

    Every epoch visits every training example once, in a new order; others fill its last batch up,
    for batch statistics alone. Compiled once for the same model, objective, optimizer and shapes,
    whatever the patience. A run whose validation score is NaN in every epoch returns its first
    variables, and a validation of -inf. Warns where the first epoch's loss is NaN, unless an
    argument is traced or bound to devices.

    Args:
      key: for the parameters, the order of examples and dropout.
      model: of :mod:`ldp_jax.learning.models`, or one's own.
      objective: :data:`node_classification`, :data:`link_prediction`, or one's own.
      context: shared by all examples.
      train: examples, whose leaves have one leading axis; so have ``validation``'s and ``test``'s.
      validation: examples that choose the epoch.
      test: examples that are scored once, with the variables of that epoch.
      settings: optimizer, epochs, batch size and patience.

    ``ValueError`` before compilation, for no example, a row that the context lacks, or a class
    without an output.
    """
    data = key, context, train, validation, test
    return _trained(model, objective, settings, data, stacked=False)


@partial(jax.jit, static_argnames=("model", "objective"))
def _outputs(context: PyTree, examples: PyTree, *, model: Model, objective: Objective) -> Array:
    """The outputs for examples; asked for their shape alone, and never compiled."""
    inputs = objective.inputs(context, examples)
    variables = model.init(jax.random.key(0), inputs)
    return model.apply(variables, inputs, key=None, train=False)[0]


def _check_arrays(
    name: str, values: PyTree, others: tuple[type, ...] = (np.generic, int, float)
) -> None:
    """Refuse leaves that are no arrays of numbers, nor ``others``: JAX would show them."""
    for leaf in jax.tree.leaves(values):
        if not isinstance(leaf, (np.ndarray, jax.Array, *others)):
            raise TypeError(f"{name} must be made of arrays, got {type(leaf).__name__}")
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "OSUMm":
            raise TypeError(
                f"{name} must be made of arrays of numbers, got {leaf.dtype.type.__name__}"
            )
        validate.require(
            not np.ma.is_masked(leaf),
            f"{name} must be made of whole arrays, and one is masked: leave that out",
        )


def check_examples(
    model: Model,
    objective: Objective,
    context: PyTree,
    parts: dict[str, PyTree],
    *,
    stacked: bool = False,
) -> None:
    """Refuse a training without examples, and what the objective's check refuses."""
    if not hasattr(model, "apply"):
        raise TypeError(
            f"model must be a Model, as models.linear(...) makes it, got {type(model).__name__}"
        )
    skip = 1 if stacked else 0
    for name, part in {"context": context, **parts}.items():
        _check_arrays(name, part, () if name in parts else (np.generic, int, float))
    for name, part in parts.items():
        sizes = {np.shape(leaf)[skip : skip + 1] for leaf in jax.tree.leaves(part)}
        no_arrays = not sizes and name == "train"
        no_rows = (0,) in sizes and name != "test"
        validate.require(
            not (no_arrays or no_rows), f"{name} must hold at least one example, got none"
        )
        validate.require(
            not isinstance(part, Examples) or getattr(part.index, "dtype", None) != np.bool_,
            f"index of {name} must be integers, got a mask: np.flatnonzero(mask) gives them",
        )
    fields = getattr(context, "_fields", ())
    if not stacked and "graph" in fields and "x" in fields:
        check_rows(context.graph, len(context.x))
    if objective.check is None:
        return
    shape = lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf)[skip:], jnp.result_type(leaf))
    context, examples = jax.tree.map(shape, (context, parts["train"]))
    made = _outputs.eval_shape(context, examples, model=model, objective=objective)
    for name, part in parts.items():
        objective.check(name, part, context, made)


@partial(jax.jit, static_argnums=0)
def _begin(program: tuple, key: PRNGKey, context: PyTree, examples: PyTree) -> Run:
    model, objective, settings = program
    init_key, _ = random.split(key)
    count = jax.tree.leaves(examples)[0].shape[0]
    first = jnp.zeros(min(settings.batch_size, count), jnp.int32)
    batch = jax.tree.map(lambda leaf: leaf[first], examples)
    inputs = objective.inputs(context, batch)
    return begin(model.init(init_key, inputs), settings.optimizer, settings.epochs)


@partial(jax.jit, static_argnums=0)
def _score(program: tuple, variables: Variables, context: PyTree, examples: PyTree) -> Array:
    model, objective, _ = program
    inputs = objective.inputs(context, examples)
    outputs, _ = model.apply(variables, inputs, key=None, train=False)
    return objective.score(outputs, examples).astype(jnp.float32)


@partial(jax.jit, static_argnums=0)
def _fit(
    program: tuple, until: Array | np.integer, patience: Array | np.integer, run: Run, data: tuple
) -> Run:
    """Epochs up to ``until``."""
    model, objective, settings = program
    key, context, examples, validation = data
    _, epochs_key = random.split(key)
    count = jax.tree.leaves(examples)[0].shape[0]
    batch_size = min(settings.batch_size, count)
    batches = -(-count // batch_size)

    def epoch(number, variables, state):
        order_key, steps_key = random.split(random.fold_in(epochs_key, number))
        order = random.permutation(order_key, count)
        # A short last batch is filled with other examples, whose loss counts for nothing.
        places = jnp.resize(order, (batches, batch_size))
        real = jnp.arange(batches * batch_size).reshape(places.shape) < count

        def one(carry, given):
            index, real, step_key = given
            batch = jax.tree.map(lambda leaf: leaf[index], examples)
            losses = lambda outputs: objective.loss(outputs, batch)
            inputs = objective.inputs(context, batch)
            carry = step(model, settings.optimizer, losses, real, carry, inputs, step_key, number)
            return carry, None

        steps = places, real, random.split(steps_key, batches)
        carry = variables, state, jnp.float32(0.0)
        (variables, state, total), _ = jax.lax.scan(one, carry, steps)
        return variables, state, total / count

    score = lambda variables: _score(program, variables, context, validation)
    return run_epochs(run, until, patience, epoch, score)


@implicit_promotion()
def fit_many(
    keys: PRNGKeys,
    model: Model,
    objective: Objective,
    context: PyTree,
    train: PyTree,
    validation: PyTree,
    test: PyTree,
    settings: Settings,
) -> Fitted:
    """Train one model a key, in one program, over context and examples stacked along an axis.

    Leaves of the result have a leading axis of runs, divided as keys are; last bits may depend on
    their number. Runs are divided among all devices of the only process, and their results are not,
    unless an array is placed: traced, or bound to devices.
    """
    data = keys, context, train, validation, test
    return _trained(model, objective, settings, data, stacked=True)


@partial(jax.jit, static_argnums=(0, 1), static_argnames=("at_once", "over"))
def _each_run(
    program: tuple,
    function: Callable,
    shared: tuple,
    *stacked: PyTree,
    at_once: int | None,
    over: NamedSharding | None,
) -> PyTree:
    """``function`` of what all runs share and of each run's own, on the devices of the runs."""
    one = lambda shared, own: function(program, *shared, *own)
    return each_run(one, over, shared, stacked, at_once)


@implicit_promotion()
def predict(model: Model, fitted: Fitted, inputs: PyTree) -> Int[Array, "*runs n"]:
    """Predict the most likely class of each example, int32 [n], or [runs, n] of :func:`fit_many`.

    ``inputs`` are what the model takes, after :func:`fit_many` with a leading axis of runs. Rows of
    a memory-mapped file are read some at a time, of one run. ``ValueError`` for a model of fewer
    than two outputs; of several labels an example, threshold those of ``model.apply``.

    >>> from ldp_jax.learning import models
    >>> z, y = jnp.eye(3)[jnp.arange(30) % 3], np.arange(30) % 3
    >>> parts = [
    ...     Examples(np.arange(at, at + 10), y[at : at + 10]) for at in (0, 10, 20)
    ... ]
    >>> settings = Settings(adam(0.1), epochs=20, batch_size=10)
    >>> model = models.linear(3)
    >>> found = fit(
    ...     jax.random.key(0), model, node_classification, z, *parts, settings
    ... )
    >>> predict(model, found, z[:4]).tolist()
    [0, 1, 2, 0]
    """
    _check_arrays("inputs", inputs)
    if not isinstance(inputs, np.memmap) or fitted.epoch.ndim:
        return _predict(model, fitted, inputs)
    starts = range(0, len(inputs), _ROWS)
    parts = [_predict(model, fitted, np.array(inputs[start : start + _ROWS])) for start in starts]
    return jnp.concatenate(parts)


@partial(jax.jit, static_argnames="model")
def _predict(model: Model, fitted: Fitted, inputs: PyTree) -> Array:
    def one(variables, inputs):
        outputs = model.apply(variables, inputs, key=None, train=False)[0]
        validate.require(
            outputs.ndim == 2 and outputs.shape[1] > 1,
            f"model must have outputs [n, classes], of two classes or more, got {outputs.shape}",
        )
        return outputs.argmax(1).astype(jnp.int32)

    if fitted.epoch.ndim:
        one = jax.vmap(one)
    return one(fitted.variables, inputs)
