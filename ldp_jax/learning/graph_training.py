"""Training for classes of graphs: every epoch one compiled program, stopped by validation, resumed from disk.

:func:`fit_graphs` packs the graphs, trains and looks at the test set once. With a ``checkpoint`` folder a run that
is killed and started again with the same arguments ends where the uninterrupted run ends, bit for bit.
"""

import hashlib
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, Int

from ldp_jax.core import validate
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.graph import packing
from ldp_jax.graph.packing import BatchLayout, GraphSet, Packed
from ldp_jax.learning import metrics
from ldp_jax.learning.models import Model, Variables
from ldp_jax.learning.training import Settings

__all__ = ["FittedGraphs", "Progress", "Scores", "fit_graphs", "predict", "scores", "step_decay_adam"]


def __dir__() -> list[str]:
    return __all__


Progress = Callable[[int, float, float], Any]

_State: TypeAlias = tuple[Variables, Any]
"""Variables, and the optimizer's state."""


class Scores(NamedTuple):
    """How good class scores are.

    Attributes:
      accuracy: the share of graphs whose largest score is their label's.
      auc: the area under the ROC curve; with more than two classes the mean of those of each class against the
        others, by softmax probabilities. NaN where the graphs are all of one class.
    """

    accuracy: float
    auc: float


class FittedGraphs(NamedTuple):
    """A trained model.

    Attributes:
      variables: those of the best validation epoch (the earliest, on ties).
      validation: the validation score then, of the kind that was selected by.
      test: accuracy and AUC on the test graphs then.
      epoch: which epoch that was, from 0.
      losses: float32 [epochs_run], the mean training loss a graph of each epoch.
      validations: float32 [epochs_run], the validation score after each epoch.
      epochs_run: how many epochs ran before validation stopped them.
    """

    variables: Variables
    validation: float
    test: Scores
    epoch: int
    losses: Float[np.ndarray, " epochs_run"]
    validations: Float[np.ndarray, " epochs_run"]
    epochs_run: int


@lru_cache
def step_decay_adam(
    learning_rate: float, decay: float = 0.5, every: int = 50
) -> optax.GradientTransformationExtraArgs:
    """Adam whose learning rate is multiplied with ``decay`` after each ``every`` epochs; cached by its numbers.

    It must be told the epoch, ``update(..., epoch=number)``, as :func:`fit_graphs` does.
    """
    validate.positive(learning_rate=learning_rate)
    validate.in_range(0.0, 1.0, open_lower=True, decay=decay)
    validate.integer_in(1, every=every)

    schedule = optax.exponential_decay(learning_rate, every, decay, staircase=True)

    def update(updates: Any, state: Any, params: Any = None, *, epoch: Any, **_: Any) -> Any:
        rate = jnp.asarray(schedule(epoch))
        return jax.tree.map(lambda leaf: -rate * leaf, updates), state

    functions: Any = (lambda params: optax.EmptyState(), update)
    stepped = optax.GradientTransformationExtraArgs(*functions)
    return optax.with_extra_args_support(optax.chain(optax.scale_by_adam(), stepped))


def scores(outputs: Float[Array, "graphs classes"], labels: Int[np.ndarray, " graphs"]) -> Scores:
    """Accuracy and AUC of class scores.

    >>> scores(jnp.array([[2.0, 1.0], [0.0, 3.0], [1.0, 2.0]]), np.array([0, 1, 0]))
    Scores(accuracy=0.6666666865348816, auc=1.0)
    """
    accuracy = float(metrics.accuracy(outputs, labels))
    classes = outputs.shape[1]
    if classes == 2:
        host = np.asarray(outputs)
        return Scores(accuracy, _auc(host[:, 1] - host[:, 0], labels == 1))
    share = np.asarray(jax.nn.softmax(outputs))
    present = [c for c in range(classes) if 0 < (labels == c).sum() < len(labels)]
    areas = [_auc(share[:, c], labels == c) for c in present]
    return Scores(accuracy, float(np.mean(areas)) if areas else float("nan"))


def _auc(score: np.ndarray, positive: np.ndarray) -> float:
    if positive.all() or not positive.any():
        return float("nan")
    return float(metrics.auc(jnp.asarray(score[positive]), jnp.asarray(score[~positive])))


# --- The compiled part -----------------------------------------------------------------------------------------


def _predict(model: Model, variables: Variables, packed: Packed) -> Array:
    """Outputs of all graphs, in their order."""
    graphs = len(packed.labels) - 1
    outputs = None
    for shape, dealt in zip(packed.shapes, packing.deal(packed), strict=True):

        def one(numbers: Array, shape: packing.Shape = shape) -> Array:
            batch = packing.assemble(packed, numbers, shape)
            return model.apply(variables, batch, key=None, train=False)[0]

        found = jax.lax.map(one, dealt)
        if outputs is None:
            outputs = jnp.zeros((graphs, found.shape[-1]), found.dtype)
        outputs = outputs.at[dealt].set(found, mode="drop")  # the empty graph has the number ``graphs``
    assert outputs is not None  # a set has a graph, hence a shape
    return outputs


_predict_compiled = jax.jit(_predict, static_argnames="model")


@partial(jax.jit, static_argnames="model")
def _init(key: PRNGKey, packed: Packed, *, model: Model) -> Variables:
    return model.init(key, packing.assemble(packed, packing.deal(packed)[0][0], packed.shapes[0]))


@partial(jax.jit, static_argnames=("model", "optimizer"))
def _epoch(
    state: _State,
    key: PRNGKey,
    number: Any,
    train: Packed,
    validation: Packed,
    *,
    model: Model,
    optimizer: optax.GradientTransformation,
) -> tuple[_State, Float[Array, ""], Float[Array, "graphs classes"]]:
    """One epoch: (variables, optimizer state) -> the same after it, the mean loss, outputs on validation."""
    deal_key, *shape_keys = jax.random.split(jax.random.fold_in(key, number), 1 + len(train.shapes))

    def loss(parameters: Any, rest: Any, batch: packing.Batch, key: PRNGKey) -> Any:
        outputs, variables = model.apply({**rest, "params": parameters}, batch, key=key, train=True)
        each = optax.softmax_cross_entropy_with_integer_labels(outputs, batch.labels)
        total = jnp.where(batch.graph_mask, each, 0.0).sum()
        count = batch.graph_mask.sum()
        return total / count, (total, {name: value for name, value in variables.items() if name != "params"})

    def step(shape: packing.Shape, carry: Any, graphs_and_key: Any) -> Any:
        parameters, rest, optimizer_state, total = carry
        graphs, key = graphs_and_key
        batch = packing.assemble(train, graphs, shape)
        (_, (value, rest)), gradient = jax.value_and_grad(loss, has_aux=True)(parameters, rest, batch, key)
        update = optax.with_extra_args_support(optimizer).update
        updates, optimizer_state = update(gradient, optimizer_state, parameters, epoch=number)
        return (optax.apply_updates(parameters, updates), rest, optimizer_state, total + value), None

    variables, optimizer_state = state
    rest = {name: value for name, value in variables.items() if name != "params"}
    carry = variables["params"], rest, optimizer_state, jnp.float32(0.0)
    dealt = packing.deal(train, deal_key)
    for shape, graphs, shape_key in zip(train.shapes, dealt, shape_keys, strict=True):
        steps = graphs, jax.random.split(shape_key, shape.batches)
        carry, _ = jax.lax.scan(partial(step, shape), carry, steps)
    parameters, rest, optimizer_state, total = carry
    variables = {**rest, "params": parameters}
    outputs = _predict(model, variables, validation)
    return (variables, optimizer_state), total / train.real[0], outputs


# --- The host's part -------------------------------------------------------------------------------------------


class _Run(NamedTuple):
    """All that an epoch starts from, and all that a checkpoint holds."""

    state: _State
    best: Variables
    best_score: np.ndarray
    best_epoch: np.ndarray
    epochs_run: np.ndarray
    losses: np.ndarray
    validations: np.ndarray


def predict(
    model: Model, variables: Variables, graph_set: GraphSet, *, batch_size: int = 64, layout: BatchLayout = "auto"
) -> Float[Array, "graphs classes"]:
    """The outputs of a trained model for each graph, in the set's order; compiled once for the same shapes."""
    packed = packing.pack(graph_set, batch_size, shapes=1, layout=layout)
    return _predict_compiled(model, variables, packed)


def fit_graphs(
    key: PRNGKey,
    model: Model,
    train: GraphSet,
    validation: GraphSet,
    test: GraphSet,
    settings: Settings,
    *,
    select: Literal["accuracy", "auc"] = "accuracy",
    shapes: int = 2,
    layout: BatchLayout = "auto",
    checkpoint: Path | str | None = None,
    progress: Progress | None = None,
) -> FittedGraphs:
    """Train a classifier of graphs by cross entropy and keep the best epoch by validation.

    Args:
      key: a threefry key, for the parameters, the batches and dropout; epoch i draws from ``fold_in`` of i.
      model: of a :class:`ldp_jax.graph.packing.Batch`, as :func:`ldp_jax.learning.models.gin` makes it.
      train: graphs; see :meth:`GraphSet.subset` and :func:`ldp_jax.datasets.splits.node_split` for a random split.
      validation: graphs that choose the epoch.
      test: graphs that are looked at once, with the variables that validation chose.
      settings: the optimizer is :func:`step_decay_adam` or any optax transformation, and is told ``epoch``; a
        batch has at most ``batch_size`` graphs.
      select: what is validated by: ``accuracy`` or ``auc``.
      shapes: see :func:`ldp_jax.graph.packing.pack`.
      layout: see :func:`ldp_jax.graph.packing.pack`.
      checkpoint: a folder of this run's own, written after every epoch (by orbax-checkpoint, extra
        ``experiments``). Where it holds a part of this run already, training goes on from there.
      progress: called with the epoch from 0, its loss and validation score, after each is on disk.

    Returns:
      The best epoch's variables with their scores, and the histories.

    Raises:
      ValueError: for labels that the model has no output for, before anything is compiled; or a checkpoint of other
        arguments, naming those.
      ImportError: for a checkpoint without orbax-checkpoint.

    The same arguments give the same bits on one machine, in any process and whatever is computed beside. Another
    number of cores, processor or release of jax divides the work otherwise: losses then differ in their last bits,
    which training amplifies like another key for the order of the batches.

    Compiled once for the same model, optimizer and shapes of the graph sets. A run whose validation score is NaN in
    every epoch returns its first variables, and a validation of -inf.
    """
    validate.threefry(key)
    validate.one_of(("accuracy", "auc"), select=select)
    optimizer, epochs, batch_size = settings.optimizer, settings.epochs, settings.batch_size
    packed = packing.pack(train, batch_size, shapes=shapes, layout=layout)
    packed_validation, packed_test = (
        packing.pack(part, batch_size, shapes=1, layout=layout) for part in (validation, test)
    )
    init_key, epochs_key = jax.random.split(key)
    untrained = _init.eval_shape(init_key, packed, model=model)
    outputs = _predict_compiled.eval_shape(model, untrained, packed_test).shape[-1]
    _check_labels(outputs, {"train": train, "validation": validation, "test": test})
    variables = _init(init_key, packed, model=model)
    history = np.full(epochs, np.nan, np.float32)
    run = _Run(
        (variables, optimizer.init(variables["params"])), variables, np.array(-np.inf), np.array(0), np.array(0),
        history, history,
    )  # fmt: skip
    step = partial(
        _epoch, key=epochs_key, train=packed, validation=packed_validation, model=model, optimizer=optimizer
    )
    store = None
    if checkpoint is not None:
        made_by = {
            "key": np.asarray(jax.random.key_data(key)).tolist(),
            "train": _digest(train),
            "validation": _digest(validation),
            "test": _digest(test),
            "epochs": epochs,
            "batch_size": batch_size,
            "patience": settings.patience,
            "select": select,
            "shapes": shapes,
            "layout": layout,
            # The lowered program holds what has no name of its own: the model, the optimizer and their numbers.
            "model, optimizer": _hash(_epoch.lower(run.state, number=0, **step.keywords).as_text().encode()),
            "versions": [jax.__version__, jax.lib.__version__, jax.default_backend()],
        }
        store = _Store(Path(checkpoint), made_by)
    try:
        if store is not None:
            run = store.load(run)
        while not _ended(run, epochs, settings.patience):
            number = int(run.epochs_run)
            state, loss, found = step(run.state, number=number)
            run = _after(run, state, float(loss), getattr(scores(found, validation.labels), select))
            if store is not None:
                store.save(number, run)
            if progress is not None:
                progress(number, float(run.losses[number]), float(run.validations[number]))
    finally:
        if store is not None:
            store.close()
    found = _predict_compiled(model, run.best, packed_test)
    done = int(run.epochs_run)
    return FittedGraphs(
        variables=run.best,
        validation=float(run.best_score),
        test=scores(found, test.labels),
        epoch=int(run.best_epoch),
        losses=run.losses[:done],
        validations=run.validations[:done],
        epochs_run=done,
    )


def _ended(run: _Run, epochs: int, patience: int | None) -> bool:
    last = int(run.epochs_run) - 1
    return last + 1 == epochs or (patience is not None and last - int(run.best_epoch) >= patience)


def _after(run: _Run, state: _State, loss: float, score: float) -> _Run:
    """What a run is after one more epoch."""
    number = int(run.epochs_run)
    if score > run.best_score:  # NaN is never better
        run = run._replace(best=state[0], best_score=np.array(score), best_epoch=np.array(number))
    return run._replace(
        state=state,
        epochs_run=np.array(number + 1),
        losses=_put(run.losses, number, loss),
        validations=_put(run.validations, number, score),
    )


def _put(values: np.ndarray, index: int, value: float) -> np.ndarray:
    values = values.copy()
    values[index] = value
    return values


def _check_labels(outputs: int, parts: dict[str, GraphSet]) -> None:
    for name, part in parts.items():
        if part.labels.max() >= outputs:
            at = int(part.labels.argmax())
            raise ValueError(
                f"the model has {outputs} outputs, but graph {at} of {name} has label {part.labels[at]}"
            )


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest(graph_set: GraphSet) -> str:
    arrays = graph_set.senders, graph_set.receivers, graph_set.node_graph, graph_set.labels
    return _hash(b"".join(f"{len(array)}:".encode() + array.astype("<i4").tobytes() for array in arrays))


class _Store:
    """Checkpoints of one run in a folder, by orbax: the last two epochs, each written whole or not at all."""

    def __init__(self, folder: Path, settings: dict[str, Any]):
        try:
            import orbax.checkpoint as orbax
        except ImportError as error:
            raise ImportError(
                "checkpoints need orbax-checkpoint: pip install 'ldp_jax[experiments]', or leave checkpoint out"
            ) from error
        self._orbax = orbax
        self._folder = folder
        self._settings = settings
        options = orbax.CheckpointManagerOptions(max_to_keep=2, enable_async_checkpointing=False, create=True)
        self._manager = orbax.CheckpointManager(folder.absolute(), options=options)

    def load(self, run: _Run) -> _Run:
        """The last epoch on disk, or ``run`` where there is none."""
        latest = self._manager.latest_step()
        if latest is None:
            return run
        args = self._orbax.args
        found = self._manager.restore(latest, args=args.Composite(settings=args.JsonRestore()))["settings"]
        other = [name for name in self._settings if found.get(name) != self._settings[name]]
        if other:
            raise ValueError(
                f"checkpoint {self._folder} is of a run with other settings: {', '.join(other)}; give this run a "
                "folder of its own"
            )
        leaves, structure = jax.tree.flatten(run)
        wanted = args.StandardRestore({str(i): leaf for i, leaf in enumerate(leaves)})
        stored = self._manager.restore(latest, args=args.Composite(run=wanted))["run"]
        # As new arrays: what orbax restores is pinned to its device, and the epoch would be compiled again for it.
        fresh = [
            jnp.asarray(np.asarray(stored[str(i)])) if isinstance(leaf, jax.Array) else np.asarray(stored[str(i)])
            for i, leaf in enumerate(leaves)
        ]
        return jax.tree.unflatten(structure, fresh)

    def save(self, number: int, run: _Run) -> None:
        args = self._orbax.args
        # A flat dictionary: orbax need not know the optimizer's types.
        leaves = {str(i): leaf for i, leaf in enumerate(jax.tree.leaves(run))}
        items = args.Composite(run=args.StandardSave(leaves), settings=args.JsonSave(self._settings))
        self._manager.save(number, args=items)

    def close(self) -> None:
        self._manager.close()
