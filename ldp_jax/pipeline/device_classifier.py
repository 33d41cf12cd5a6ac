"""The classifier that every device runs on its own record: learned from the panel, broadcast, public."""

from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ldp_jax.core import random, validate
from ldp_jax.core.float32 import matmul
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.learning import training
from ldp_jax.learning.models import dense_layers, mlp
from ldp_jax.pipeline.rows import DenseRows, Rows
from ldp_jax.pipeline.self_training import FoldedLabels, Lesson, regression

RIDGES = (2.0, 0.4, 0.08, 0.016, 0.0032)
"""Weights of half the squared norm beside the summed loss: a panel is small, and its records have length 1."""

_WIDTH = 96
"""Columns of a design are padded to a multiple of it, so that regressions on like panels share a program."""

_DROPOUT, _EPOCHS, _PATIENCE = 0.5, 200, 30
"""Of the networks."""

_Layer = tuple[Array, Array]
"""Weights and bias."""


class DeviceClassifier(NamedTuple):
    """A multinomial logistic regression, or a small network; made by :func:`device_classifier`.

    Attributes:
      weights: float32 [d, C], for records scaled to length 1 (:func:`~ldp_jax.pipeline.rows.feature_rows`); of a
        network [d, width].
      bias: float32 [C], or [width].
      panel_scores: float32 [panel, C], log posteriors of the panel's records by models that have not seen them.
      ridge: the one chosen, of the logistic regression.
      layers: what follows in a network, weights and bias of each, after max(., 0); empty for a regression.
      log_loss: on the panel, out of fold, in nats a member, of each classifier that was tried: the least was taken.
    """

    weights: Float[Array, "d outputs"]
    bias: Float[Array, " outputs"]
    panel_scores: Float[Array, "panel classes"]
    ridge: float
    layers: tuple[_Layer, ...] = ()
    log_loss: dict[str, float] | None = None

    def scores(self, rows: Rows | DenseRows) -> Float[Array, "n classes"]:
        """What devices make of their records: log-scores of classes.

        Raises:
          ValueError: for records of another dimension.
        """
        if rows.shape[1] != self.weights.shape[0]:
            raise ValueError(
                f"rows must have {self.weights.shape[0]} features, as the panel's, got {rows.shape[1]}"
            )
        return _scores(rows, ((self.weights, self.bias), *self.layers))


@jax.jit
def _scores(rows: Rows | DenseRows, layers: tuple[_Layer, ...]) -> Array:
    (weights, bias), *others = layers
    made = rows.times(weights) + bias
    for weights, bias in others:
        made = matmul(jnp.maximum(made, 0.0), weights) + bias
    return made


def device_classifier(
    rows: Rows | DenseRows,
    panel: FoldedLabels,
    *,
    hidden: tuple[int, ...] = (),
    key: PRNGKey | None = None,
    room: int | None = None,
) -> DeviceClassifier:
    """Step 2 of local prediction: f, from the panel's records and labels alone.

    The ridge is chosen out of fold, as :func:`~ldp_jax.pipeline.self_training.features_posterior` does. What is
    broadcast is the mean of the folds' weights; each of them has seen all the panel but its fold.

    Of networks one a fold is trained on the others but one, which says when to stop; what is broadcast is one more,
    trained on all folds but one. A network is taken where its log-loss on the panel, out of fold, is less than the
    regression's.

    Args:
      rows: the panel's records.
      panel: labels of these rows, all of them known.
      hidden: widths of networks with one hidden layer that are tried besides.
      key: of public randomness: of the networks' parameters, order and dropout.
      room: a public number of rows: panels of no more share a program.

    Raises:
      ValueError: for no labels, or of another number than rows; and for networks without a key, with fewer
        than three folds, where a fold is empty, or where labels may be wrong (``keep`` below 1).

    >>> y = np.arange(20) % 2
    >>> rows, labels = DenseRows(jnp.eye(2)[y]), np.where(np.arange(20) == 0, 1, y)  # the first label is wrong
    >>> found = device_classifier(rows, FoldedLabels(labels, 2, np.arange(20) // 2 % 2, 2))
    >>> int(found.panel_scores[0].argmax())  # by a model that has not seen it
    0
    >>> found.scores(DenseRows(jnp.array([[0.9, 0.1], [0.1, 0.9]]))).argmax(1).tolist()  # on two devices
    [0, 1]
    """
    labels = panel.labels
    if rows.shape[0] != len(labels):
        raise ValueError(f"rows must be of the panel's {len(labels)} members, got {rows.shape[0]}")
    if not len(labels):
        raise ValueError("labels must be of at least one member of the panel, got none to learn from")
    validate.integer_in(2, num_classes=panel.num_classes)
    validate.integer_in(3 if hidden else 2, num_folds=panel.num_folds)
    if hidden and key is None:
        raise ValueError("key must be given where networks are tried")
    if hidden and panel.keep < 1.0:
        raise ValueError(f"hidden must be () where labels are private, got {hidden}: networks learn from true ones")
    scores, ridge, weights = regression(rows, Lesson.of(panel), ridges=RIDGES, room=room)
    losses = {"logistic regression": _log_loss(scores, labels)}
    mean = np.asarray(weights).reshape(len(weights), panel.num_folds, -1).mean(1)  # on the host
    best = DeviceClassifier(jax.device_put(mean[:-1]), jax.device_put(mean[-1]), scores, ridge, (), losses)
    for place, width in enumerate(hidden):
        assert key is not None
        name = f"network of {width}"
        layers, scores = _network(random.fold_in(key, place), rows, panel, width)
        losses[name] = _log_loss(scores, labels)
        if losses[name] == min(losses.values()):
            best = DeviceClassifier(*layers[0], scores, ridge, layers[1:], losses)
    return best


def _log_loss(log_p: Array, labels: np.ndarray) -> float:
    return -float(np.asarray(log_p)[np.arange(len(labels)), labels].mean())


@lru_cache
def _by_log_loss() -> training.Objective:
    """Cross entropy that also says when to stop."""
    given = training.node_classification
    return given._replace(score=lambda scores, examples: -given.loss(scores, examples).mean())


def _network(
    key: PRNGKey, rows: Rows | DenseRows, panel: FoldedLabels, width: int
) -> tuple[tuple[_Layer, ...], Array]:
    """The layers of one network, and log posteriors of the panel by others that have not seen them."""
    labels, fold, num_folds = np.asarray(panel.labels, np.int32), np.asarray(panel.fold), panel.num_folds
    if np.bincount(fold, minlength=num_folds).min() == 0:
        raise ValueError(f"fold must leave a member for each of {num_folds} folds: give fewer folds")
    model = mlp(2, width, panel.num_classes, dropout=_DROPOUT)
    records = jnp.asarray(rows.dense() if isinstance(rows, Rows) else rows.values)
    size = -(-len(labels) // num_folds)
    settings = training.Settings(training.adam(0.01, 5e-4), _EPOCHS, (num_folds - 1) * size, _PATIENCE)

    def part(which: np.ndarray, wanted: int) -> training.Examples:
        # Every training of one size: those of a smaller fold see a label twice.
        index = np.resize(np.flatnonzero(which), wanted).astype(np.int32)
        return training.Examples(index, labels[index])

    own = np.zeros((len(labels), panel.num_classes), np.float32)
    layers = ()
    for number, fit_key in enumerate(random.split(key, num_folds + 1)):
        held, stop = fold == number, fold == (number + 1) % num_folds  # the last one holds nobody out
        parts = (part(~held & ~stop, (num_folds - 1) * size), part(stop, size), part(stop, size))
        fitted = training.fit(fit_key, model, _by_log_loss(), records, *parts, settings)
        layers = dense_layers(fitted.variables)
        if held.any():
            own[held] = np.asarray(jax.nn.log_softmax(_scores(rows, layers)))[held]
    return layers, jnp.asarray(own)


def panel_regression(
    design: Float[Array | np.ndarray, "n width"],
    known: FoldedLabels,
    *,
    ridges: tuple[float, ...] = RIDGES,
) -> Float[Array, "n classes"]:
    """Log posteriors of a logistic regression on dense public columns: of a labelled node out of fold.

    Columns should be of like size, such as 1 / sqrt(width).
    """
    design = np.asarray(design, np.float32)
    rows = DenseRows(np.pad(design, ((0, 0), (0, -design.shape[1] % _WIDTH))))
    return regression(rows, Lesson.of(known), ridges=ridges, by_weights=True)[0]


def count_regression(
    log_q: Float[Array | np.ndarray, "n classes"],
    reports: Int[Array | np.ndarray, "n groups"],
    known: FoldedLabels,
    reported: np.ndarray,
) -> Float[Array, "n classes"]:
    """The log posterior of a logistic regression on log q and noisy counts; of a labelled user out of fold.

    The evidence of :mod:`ldp_jax.pipeline.counts` takes a user's groups for independent given the class. Where
    friends share what features say as well (a house, a subject), they are not, and evidence repeats the features. A
    regression on both weighs them by labels, but has many more unknowns than the law: with few labels the law may
    be better, and :func:`~ldp_jax.pipeline.stack.likeliest` decides.

    ``log_q`` of a labelled user is by a model that has not seen the label; groups that were not asked for are
    columns of 0. Labels of users who did not report are not read, and their posterior is q.

    >>> y = np.arange(200) % 2
    >>> reports = np.stack([8 * y, 8 - 8 * y], 1) + np.random.default_rng(0).integers(-3, 4, (200, 2))
    >>> q, labels = np.full((200, 2), np.log(0.5), np.float32), np.where(np.arange(200) < 60, y, -1)
    >>> known = FoldedLabels(labels, 2, np.arange(200) // 2 % 3, 3)
    >>> bool((count_regression(q, reports, known, np.ones(200, bool)).argmax(1) == y).all())
    True
    """
    columns = np.concatenate([np.asarray(log_q), np.asarray(reports)], 1).astype(np.float64)
    seen = columns[reported]
    columns = np.where(reported[:, None], (columns - seen.mean(0)) / np.maximum(seen.std(0), 1e-6), 0.0)
    found = panel_regression(columns, known._replace(labels=np.where(reported, known.labels, -1)))
    return jax.device_put(np.where(reported[:, None], found, log_q))
