"""Training for classes of graphs.

One compiled loop over epochs, stopped by validation, resumed from disk.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Float, Int

from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.progress import watched
from ldp_jax.core.pytree import digest
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.graph import packing
from ldp_jax.graph.packing import GraphSet, Packed
from ldp_jax.learning import metrics
from ldp_jax.learning.models import Model, Variables
from ldp_jax.learning.training import Run, Settings, begin, by_name, in_blocks, run_epochs, step

__all__ = ["Scores", "fit_graphs", "predict", "scores", "step_decay_adam"]

__dir__ = lambda: __all__


Progress = Callable[[int, float, float], object]
"""A function of an epoch, its loss and its validation score."""

_ROOM = 256  # the room for histories is a multiple: runs of fewer epochs share a program


class Scores(NamedTuple):
    """Accuracy, and the area under the ROC curve.

    With more than two classes the area is the mean of each class against the others. It is NaN
    where all graphs have the same class.
    """

    accuracy: float
    auc: float


class FittedGraphs(NamedTuple):
    """A trained model: the variables and scores of its best validation epoch, counted from 0.

    On ties it is the earliest.

    ``losses`` are the mean training losses a graph, and ``validations`` the scores, of the epochs
    that were run.
    """

    variables: Variables
    validation: float
    test: Scores
    epoch: int
    losses: Float[np.ndarray, " epochs_run"]
    validations: Float[np.ndarray, " epochs_run"]
    epochs_run: int

    __repr__ = by_shapes


def step_decay_adam(
    learning_rate: float, decay: float = 0.5, every: int = 50
) -> optax.GradientTransformation:
    """Adam whose learning rate is multiplied by ``decay`` after each ``every`` epochs.

    The same object for the same numbers. Its update takes the epoch: ``update(..., epoch=number)``.
    """
    validate.positive(learning_rate=learning_rate)
    validate.in_range(0.0, 1.0, open_lower=True, decay=decay)
    validate.integer_in(1, every=every)
    return by_name(_step_decay_adam, (learning_rate, decay, every))


def _step_decay_adam(
    learning_rate: float, decay: float, every: int
) -> optax.GradientTransformation:
    schedule = optax.exponential_decay(learning_rate, every, decay, staircase=True)

    def update(updates, state, params=None, **extra):
        rate = jnp.asarray(schedule(extra["epoch"]))
        return jax.tree.map(lambda leaf: -rate * leaf, updates), state

    stepped = optax.GradientTransformationExtraArgs(lambda params: optax.EmptyState(), update)
    return optax.chain(optax.scale_by_adam(), stepped)


def scores(outputs: Float[Array, "graphs classes"], labels: Int[np.ndarray, " graphs"]) -> Scores:
    """Compute the accuracy and the AUC of class scores.

    >>> scores(jnp.array([[2.0, 1.0], [0.0, 3.0], [1.0, 2.0]]), np.array([0, 1, 0]))
    Scores(accuracy=0.6666666865348816, auc=1.0)
    """
    classes = outputs.shape[1]
    accuracy = metrics.accuracy(outputs, labels)
    labels = np.asarray(labels)
    areas = []
    # Areas are computed on the host: how many graphs a class has is no shape of a program.
    each = np.asarray(_log_odds(outputs))
    for c in range(classes) if classes > 2 else (1,):
        mine = np.flatnonzero(labels == c)
        others = np.flatnonzero(labels != c)
        if len(mine) and len(others):
            areas.append(float(metrics.auc(each[mine, c], each[others, c])))
    area = float(np.mean(areas)) if areas else float("nan")
    return Scores(float(accuracy), area)


@jax.jit
def _log_odds(outputs: Array) -> Array:
    """In the order of probabilities, of which float32 has too few for a sure model."""
    itself = jnp.eye(outputs.shape[1], dtype=bool)
    others = jnp.where(itself, -jnp.inf, outputs[:, None, :])
    return outputs - jax.nn.logsumexp(others, axis=-1)


# --- The compiled part ----------------------------------------------------------------------------


@partial(jax.jit, static_argnums=0)
def _predict(model: Model, variables: Variables, packed: Packed) -> Array:
    outputs = None
    for shape, dealt in zip(packed.shapes, packing.deal(packed), strict=True):

        def one(numbers, shape=shape):
            batch = packing.assemble(packed, numbers, shape)
            return model.apply(variables, batch, key=None, train=False)[0]

        found = jax.lax.map(one, dealt)
        if outputs is None:
            outputs = jnp.zeros((len(packed), found.shape[-1]), found.dtype)
        # The empty graph has the number ``len(packed)``.
        outputs = outputs.at[dealt].set(found, mode="drop")
    assert outputs is not None  # a set has a graph, hence a shape
    return outputs


@partial(jax.jit, static_argnames=("model", "optimizer", "room"))
def _begin(
    key: PRNGKey,
    packed: Packed,
    *,
    model: Model,
    optimizer: optax.GradientTransformation,
    room: int,
) -> Run:
    """A run before its first epoch, with room for the histories of as many epochs."""
    first = packing.assemble(packed, packing.deal(packed)[0][0], packed.shapes[0])
    return begin(model.init(key, first), optimizer, room)


@partial(jax.jit, static_argnames=("model", "optimizer"))
def _train(
    run: Run,
    key: PRNGKey,
    until: Array,
    patience: Array,
    packed: Packed,
    validation: Packed,
    *,
    model: Model,
    optimizer: optax.GradientTransformation,
) -> Run:
    """Epochs up to ``until``; a run that is watched has the same bits."""

    def epoch(number, variables, state):
        epoch_key = random.fold_in(key, number)
        # Batches are numbered within their group, whose keys follow that of the deal.
        kind = packed.kind
        within = jnp.arange(len(kind)) - jnp.searchsorted(kind, kind)
        group_keys = jax.vmap(random.fold_in, (None, 0))(epoch_key, 1 + kind)
        step_keys = jax.vmap(random.fold_in)(group_keys, within)

        def one(shape, carry, graphs_and_key):
            graphs, step_key = graphs_and_key
            batch = packing.assemble(packed, graphs, shape)
            losses = lambda outputs: optax.softmax_cross_entropy_with_integer_labels(
                outputs, batch.labels
            )
            real = batch.graph_mask
            return step(model, optimizer, losses, real, carry, batch, step_key, number), None

        carry = variables, state, jnp.float32(0.0)
        dealt = packing.deal(packed, random.fold_in(epoch_key, 0))
        keys = packing.in_shapes(packed, step_keys)
        for shape, *steps in zip(packed.shapes, dealt, keys, strict=True):
            carry, _ = jax.lax.scan(partial(one, shape), carry, tuple(steps))
        variables, state, total = carry
        return variables, state, total / len(packed)

    def score(variables):
        outputs = _predict(model, variables, validation)
        return metrics.accuracy(outputs, validation.labels[:-1])

    return run_epochs(run, until, patience, epoch, score)


# --- The host's part ------------------------------------------------------------------------------


@implicit_promotion()
def predict(
    model: Model, variables: Variables, graph_set: GraphSet, *, batch_size: int = 64
) -> Float[Array, "graphs classes"]:
    """Compute the outputs of a trained model for each graph, in the set's order.

    Compiled once for the same shapes.
    """
    # A single pass does not pay back what merging nodes costs.
    packed = packing.pack(graph_set, batch_size, shapes=1, merge=False)
    return _predict(model, variables, packed)


@implicit_promotion()
def fit_graphs(
    key: PRNGKey,
    model: Model,
    train: GraphSet,
    validation: GraphSet,
    test: GraphSet,
    settings: Settings,
    *,
    like: GraphSet | None = None,
    checkpoint: Path | str | None = None,
    progress: Progress | None = None,
) -> FittedGraphs:
    """Train a classifier of graphs by cross entropy, and keep the best epoch.

    The same arguments give the same bits on one machine, in any process, whether watched, killed
    and resumed from a checkpoint, or neither. Compiled once for the same model, optimizer and
    shapes of the graph sets.

    Args:
      key: a threefry key, for the parameters, the batches and dropout; epoch i draws from
        ``fold_in`` of i.
      model: of a :class:`ldp_jax.graph.packing.Batch`, as :func:`ldp_jax.learning.models.gin` makes
        it.
      train: graphs to learn from.
      validation: graphs that choose the epoch by their accuracy.
      test: graphs that are scored once.
      settings: optimizer, epochs, graphs in a batch, patience, and the devices that share each
        batch.
      like: the set that the three are parts of, where there are several runs: those on other
        splits of it, and on sets about as dense, then share programs. Sums round otherwise, and
        batches may be dealt otherwise, than without it.
      checkpoint: a folder for this run alone, written after every epoch (by orbax-checkpoint, extra
        ``experiments``). Where it holds a part of this run already, training goes on from there.
      progress: called with the epoch from 0, its loss and validation score, after each is on disk.

    ``ValueError`` before compilation, for labels without an output of the model; or for a
    checkpoint of other arguments. ``ImportError`` for a checkpoint without orbax-checkpoint.
    """
    validate.threefry(key)
    if checkpoint is not None:
        _import_orbax()
    parts = {"train": train, "validation": validation, "test": test}
    packed, packed_validation, packed_test = (
        packing.pack(
            part,
            settings.batch_size,
            shapes=2 if name == "train" else 1,
            mesh=settings.mesh,
            like=like,
        )
        for name, part in parts.items()
    )
    init_key, epochs_key = random.split(key)
    static = {"model": model, "optimizer": settings.optimizer}
    start = partial(_begin, room=-(-settings.epochs // _ROOM) * _ROOM, **static)
    untrained = jax.eval_shape(start, init_key, packed).variables
    outputs = _predict.eval_shape(model, untrained, packed_test).shape[-1]
    for name, part in parts.items():
        validate.ids(outputs, "one of the model's outputs", **{f"labels of {name}": part.labels})

    run = start(init_key, packed)
    given = epochs_key, np.int32(settings.epochs), settings.most_idle, packed, packed_validation
    store = None
    if checkpoint is not None:
        made_by = {
            "key": jax.random.key_data(key),
            **{name: vars(part) for name, part in parts.items()},
            "epochs": settings.epochs,
            "batch_size": settings.batch_size,
            "patience": settings.patience,
            # The lowered program holds what has no name of its own: the model, the optimizer and
            # their numbers.
            "model, optimizer": _train.lower(run, *given, **static).as_text().encode(),
            "versions": [jax.__version__, jax.lib.__version__, jax.default_backend()],
        }
        digests = {name: digest(value).hex() for name, value in made_by.items()}
        store = _Store(Path(checkpoint), digests)
    everywhere = None if packed.over is None else NamedSharding(packed.over.mesh, P())

    def go_on(run, until):
        run = jax.device_put(run, everywhere)
        return _train(run, epochs_key, until, *given[2:], **static)

    with watched("fit_graphs", settings.progress):
        run = _watched(run, go_on, settings.epochs, store, progress)
    done = int(run.number)
    return FittedGraphs(
        variables=run.best,
        validation=float(run.best_score),
        test=scores(_predict(model, run.best, packed_test), test.labels),
        epoch=int(run.best_epoch),
        losses=np.asarray(run.losses)[:done],
        validations=np.asarray(run.validations)[:done],
        epochs_run=done,
    )


def _watched(
    run: Run,
    go_on: Callable[[Run, np.int32], Run],
    epochs: int,
    store: "_Store | None",
    progress: Progress | None,
) -> Run:
    """A run to its end: in blocks, or epoch by epoch where someone looks at each."""
    if store is None and progress is None:
        return in_blocks(go_on, run, epochs)
    try:
        if store is not None:
            run = store.load(run)
        for number in range(int(run.number), epochs):
            run = go_on(run, np.int32(number + 1))
            if int(run.number) == number:  # out of patience
                break
            if store is not None:
                store.save(run)
            if progress is not None:
                progress(number, float(run.losses[number]), float(run.validations[number]))
    finally:
        if store is not None:
            store.close()
    return run


# --- Checkpoints: by orbax, the last two epochs, each written whole or not at all -----------------


def _import_orbax() -> ModuleType:
    try:
        import orbax.checkpoint as orbax
    except ImportError as error:
        raise ImportError(
            "checkpoint needs orbax-checkpoint: pip install 'ldp_jax[experiments]'"
        ) from error
    return orbax


class _Store:
    """The checkpoints of one run; ``made_by`` are the arguments that it was started with."""

    def __init__(self, folder: Path, made_by: dict):
        orbax = _import_orbax()
        self._args = orbax.args
        self._folder = folder
        self._made_by = made_by
        options = orbax.CheckpointManagerOptions(
            max_to_keep=2, enable_async_checkpointing=False, create=True
        )
        self._manager = orbax.CheckpointManager(folder.absolute(), options=options)

    def load(self, run: Run) -> Run:
        """The last epoch on disk, or ``run`` where there is none."""
        latest = self._manager.latest_step()
        if latest is None:
            return run
        args = self._args
        settings = args.Composite(settings=args.JsonRestore())
        found = self._manager.restore(latest, args=settings)["settings"]
        other = [name for name in self._made_by if found.get(name) != self._made_by[name]]
        if other:
            raise ValueError(
                f"checkpoint {self._folder} is of a run with other settings: {', '.join(other)}; "
                "give this run a folder of its own"
            )
        leaves, structure = jax.tree.flatten(run)
        wanted = args.StandardRestore({str(i): leaf for i, leaf in enumerate(leaves)})
        stored = self._manager.restore(latest, args=args.Composite(run=wanted))["run"]
        # As new arrays: what orbax restores is pinned to its device, and would be another program's
        # argument.
        fresh = [jnp.asarray(np.asarray(stored[str(i)])) for i in range(len(leaves))]
        return jax.tree.unflatten(structure, fresh)

    def save(self, run: Run) -> None:
        args = self._args
        # A flat dictionary: orbax need not know the optimizer's types.
        leaves = {str(i): leaf for i, leaf in enumerate(jax.tree.leaves(run))}
        items = args.Composite(run=args.StandardSave(leaves), settings=args.JsonSave(self._made_by))
        self._manager.save(int(run.number) - 1, args=items)

    def close(self) -> None:
        self._manager.close()
