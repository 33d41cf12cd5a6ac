r"""Logistic regression on public features whose labels are evidence: of public labels, of private reports, or both.

A node's evidence is a row :math:`l_u(c)`, the log-likelihood of what is known of its class. The classifier
:math:`f_c(x)` maximises :math:`\sum_u \log \sum_c f_c(x_u) e^{l_u(c)}` less a ridge. For a label, 0 at the class
and minus infinity elsewhere, that is the usual log-likelihood; for a report it is the exact likelihood of a class
that nobody sees. What is asked of a node is always the model of a fold that it is not in: no node's own label or
report takes part.
"""

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, Int

from ldp_jax.core import validate
from ldp_jax.core.label_channel import other_share
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.pipeline.rows import DenseRows, Rows, RowTables, Scaling, laid_out, part_size

RIDGES = (10.0, 2.0, 0.4, 0.08, 0.016)
"""Weights of half the squared norm beside the summed loss that :func:`features_posterior` chooses from."""

_RIDGES = 8
"""Ridges are padded to a multiple of it, so that other choices of them share a program."""

IMPOSSIBLE = -1e30
"""The log-likelihood of a class that is excluded: finite, so that no gradient is NaN."""


_Laid = RowTables | DenseRows


class Classifier(NamedTuple):
    """One logistic regression a fold.

    Attributes:
      weights: float32 [d, F C].
      bias: float32 [F C].
    """

    weights: Float[Array | np.ndarray, "d outputs"]
    bias: Float[Array | np.ndarray, " outputs"]


class FeaturesPosterior(NamedTuple):
    """What public features say of classes; made by :func:`features_posterior`.

    Attributes:
      log_q: float32 [n, C], of a model that has not seen the node's own label.
      ridge: the one chosen.
      classifier: under that ridge, where self-training starts.
      fold: int32 [n], of each node: the one whose model has not seen it.
      labels: int [n], what it was fitted to, -1 for none.
    """

    log_q: Float[Array, "n classes"]
    ridge: float
    classifier: Classifier
    fold: Int[Array | np.ndarray, " n"]
    labels: Int[np.ndarray, " n"]

    @property
    def num_folds(self) -> int:
        """F."""
        return len(self.classifier.bias) // self.log_q.shape[1]


class SelfTrained(NamedTuple):
    """What features say of classes once reports have taught them; made by :func:`self_train`.

    Attributes:
      log_f: float32 [n, C], of a model that has not seen the node's own label or report.
      ridge: the one chosen.
      classifier: where another round may start.
    """

    log_f: Float[Array, "n classes"]
    ridge: float
    classifier: Classifier


def folds(key: PRNGKey, labels: Int[Array | np.ndarray, " n"], num_folds: int) -> Int[Array, " n"]:
    """A random fold of each node, as many nodes of every class in each as can be; int32 [n].

    Args:
      key: of public randomness.
      labels: -1 for none.
      num_folds: F >= 2.
    """
    validate.threefry(key)
    validate.integer_in(2, num_folds=num_folds)
    return _folds(key, np.asarray(labels, np.int32), num_folds)


@partial(jax.jit, static_argnames="num_folds")
def _folds(key: PRNGKey, labels: Array, num_folds: int) -> Array:
    order = jnp.lexsort((jax.random.uniform(key, labels.shape), labels))
    return jnp.zeros(len(labels), jnp.int32).at[order].set(jnp.arange(len(labels), dtype=jnp.int32) % num_folds)


@partial(jax.jit, static_argnames="num_classes")
def label_evidence(labels: Int[Array | np.ndarray, " n"], num_classes: int) -> Float[Array, "n classes"]:
    """The evidence of public labels: 0 at the class, :data:`IMPOSSIBLE` elsewhere; all 0 where there is none."""
    labels = jnp.asarray(labels)[:, None]
    return jnp.where((labels < 0) | (labels == jnp.arange(num_classes)), 0.0, IMPOSSIBLE)


def known_evidence(
    labels: Int[np.ndarray, " some"], num_classes: int, keep: float = 1.0
) -> Float[np.ndarray, "some classes"]:
    """The evidence of labels, all of which are known; below ``keep`` 1 of reported ones. On the host."""
    same = labels[:, None] == np.arange(num_classes)
    if keep == 1.0:
        return np.where(same, 0.0, IMPOSSIBLE).astype(np.float32)
    return np.log(np.where(same, keep, other_share(keep, num_classes))).astype(np.float32)


def blank(rows: Rows | DenseRows, num_classes: int, num_folds: int) -> Classifier:
    """A classifier that knows nothing: zeros."""
    outputs = num_folds * num_classes
    return Classifier(np.zeros((rows.shape[1], outputs), np.float32), np.zeros(outputs, np.float32))


class _Known(NamedTuple):
    """What is known of the rows that teach: of the first ``count`` of them, the others are padding."""

    evidence: Any
    fold: Any
    count: Any


def _part(tree: Any, at: Any, size: int) -> Any:
    return jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, at * size, size), tree)


def _scores(weights: Array, rows: _Laid, models: int) -> Array:
    """Scores [n, F, C] of classifiers whose last row of weights is the bias."""
    return (rows.times(weights[:-1]) + weights[-1]).reshape(rows.shape[0], models, -1)


def _of_part(scores: Array, known: _Known, first: Any) -> tuple[Array, Array]:
    """The log-likelihood of evidence under all models that may see it, and its derivative in the scores."""
    models = jnp.arange(scores.shape[1])
    both = scores + known.evidence[:, None, :]
    all_of, some = (jax.nn.logsumexp(each, axis=-1, keepdims=True) for each in (scores, both))
    counts = (known.fold[:, None] != models) & (first + jnp.arange(len(scores)) < known.count)[:, None]
    slope = jnp.where(counts[..., None], jnp.exp(both - some) - jnp.exp(scores - all_of), 0.0)
    return jnp.where(counts, (some - all_of)[..., 0], 0.0).sum(), slope.reshape(len(scores), -1)


def _summed(weights: Array, rows: _Laid, known: _Known, models: int) -> tuple[Array, Array]:
    """:func:`_of_part` of all rows in use, a part of them at a time, with the derivative in the weights."""
    n, size = rows.shape[0], part_size(rows.shape[0])
    scores = None if isinstance(rows, DenseRows) else _scores(weights, rows, models)

    def add(at: Any, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        total, of_weights, of_bias = carry
        these = DenseRows(_part(rows.values, at, size)) if isinstance(rows, DenseRows) else None
        made = _scores(weights, these, models) if these is not None else _part(scores, at, size)
        value, slope = _of_part(made, known._replace(**_part(_rows_of(known), at, size)), at * size)
        if these is not None:
            of_weights = of_weights + these.transposed(slope)
        else:
            of_weights = jax.lax.dynamic_update_slice_in_dim(of_weights, slope, at * size, 0)
        return total + value, of_weights, of_bias + slope.sum(0)

    shape = (n if scores is not None else len(weights) - 1, weights.shape[1])
    start = (jnp.float32(0.0), jnp.zeros(shape), jnp.zeros(weights.shape[1]))
    total, slope, of_bias = jax.lax.fori_loop(0, -(-known.count // size), add, start)
    return total, jnp.concatenate([rows.transposed(slope) if scores is not None else slope, of_bias[None]])


def _rows_of(known: _Known) -> dict[str, Array]:
    return {"evidence": known.evidence, "fold": known.fold}


def _held_out(weights: Array, rows: _Laid, known: _Known, models: int) -> Array:
    """The log-likelihood of evidence under models that have not seen it."""
    own = _own(jax.nn.log_softmax(_scores(weights, rows, models)), known.fold)
    each = jax.nn.logsumexp(own + known.evidence, axis=-1)
    return jnp.where(jnp.arange(len(each)) < known.count, each, 0.0).sum()


def _loss(weights: Array, rows: _Laid, known: _Known, ridge: Array, models: int) -> tuple[Array, Array]:
    """The mean loss of F classifiers at once, whose minimum is each one's own, and its derivative."""
    total, slope = _summed(weights, rows, known, models)
    penalised = weights.at[-1].set(0.0)
    size = jnp.maximum((models - 1) * known.count, 1).astype(jnp.float32)
    return (0.5 * ridge * (penalised**2).sum() - total) / size, (ridge * penalised - slope) / size


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def _differentiable(weights: Array, rows: _Laid, known: _Known, ridge: Array, models: int) -> Array:
    return _loss(weights, rows, known, ridge, models)[0]


def _forward(weights: Array, rows: _Laid, known: _Known, ridge: Array, models: int) -> tuple[Array, Array]:
    return _loss(weights, rows, known, ridge, models)


def _backward(models: int, slope: Array, cotangent: Array) -> tuple[Array, None, None, None]:
    return cotangent * slope, None, None, None


_differentiable.defvjp(_forward, _backward)


@lru_cache
def _optimizer() -> optax.GradientTransformationExtraArgs:
    return optax.lbfgs(linesearch=optax.scale_by_zoom_linesearch(max_linesearch_steps=15))


def _fit(start: Array, loss: Any, steps: Array, tolerance: Array) -> Array:
    """L-BFGS until a step gains less than ``tolerance`` of the loss."""
    optimizer = _optimizer()
    value_and_grad = optax.value_and_grad_from_state(loss)

    def going(carry: Any) -> Array:
        _, _, step, before, now = carry
        return (step < steps) & ((step < 3) | (before - now > tolerance * jnp.abs(now)))

    def advance(carry: Any) -> Any:
        weights, state, step, _, _ = carry
        value, gradient = value_and_grad(weights, state=state)
        updates, state = optimizer.update(gradient, state, weights, value=value, grad=gradient, value_fn=loss)
        return optax.apply_updates(weights, updates), state, step + 1, value, optax.tree.get(state, "value")

    first = (start, optimizer.init(start), jnp.int32(0), jnp.float32(jnp.inf), jnp.float32(0.0))
    return jax.lax.while_loop(going, advance, first)[0]


class _Ridges(NamedTuple):
    """Ridges to choose from, in falling order: the first ``count``."""

    ridges: Any
    count: Any
    steps: Any
    tolerance: Any

    @classmethod
    def of(cls, ridges: tuple[float, ...], steps: int, tolerance: float) -> "_Ridges":
        validate.positive(ridges=np.asarray(ridges))
        if not ridges:
            raise ValueError("ridges must hold a number, got none")
        room = -(-len(ridges) // _RIDGES) * _RIDGES
        numbers = np.pad(np.asarray(ridges, np.float32), (0, room - len(ridges)), constant_values=1.0)
        return cls(numbers, np.int32(len(ridges)), np.int32(steps), np.float32(tolerance))


@partial(jax.jit, static_argnames=("models", "size"))
def _path(
    start: Classifier,
    rows: _Laid,
    known: _Known,
    among: _Ridges,
    everybody: _Laid,
    asked: "_Asked",
    *,
    models: int,
    size: int,
) -> tuple[Array, Array, Classifier]:
    """The posteriors, place and classifier of the largest held-out score; falling ridges, until the score falls.

    Args:
      start: of the first ridge; each other one starts from the one before.
      rows: that teach.
      known: of them.
      among: the ridges.
      everybody: rows that are asked.
      asked: see :func:`_posteriors`.
      models: F, static.
      size: n, static.
    """

    def advance(carry: Any) -> Any:
        place, weights, best, _ = carry
        ridge = among.ridges[place]

        def loss(weights: Array) -> Array:
            return _differentiable(weights, rows, known, ridge, models)

        weights = _fit(weights, loss, among.steps, among.tolerance)
        score = _held_out(weights, rows, known, models)
        better = (place == 0) | ~(score <= best[0])
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), (score, weights, place), best)
        return place + 1, weights, best, better

    first = jnp.concatenate([start.weights, start.bias[None]])
    begin = (jnp.int32(0), first, (jnp.float32(0.0), first, jnp.int32(0)), jnp.bool_(True))
    done = jax.lax.while_loop(lambda carry: carry[3] & (carry[0] < among.count), advance, begin)
    _, weights, place = done[2]
    return _posteriors(weights, everybody, asked, models)[:size], place, Classifier(weights[:-1], weights[-1])


class _Asked(NamedTuple):
    """How everybody is asked.

    Attributes:
      fold: of each node.
      held_out: bool [n], who is asked of the model of her fold; others of all.
      by_weights: whether all means the mean of their weights; else the mean of their posteriors.
      towards: log posteriors [n, C] to mix with.
      share: of ``towards``.
    """

    fold: Any
    held_out: Any
    by_weights: Any
    towards: Any
    share: Any


def _posteriors(weights: Array, rows: _Laid, asked: _Asked, models: int) -> Array:
    scores = _scores(weights, rows, models)
    each = jax.nn.log_softmax(scores)
    mean = jax.nn.logsumexp(each, axis=1) - jnp.log(models)
    mean = jnp.where(asked.by_weights, jax.nn.log_softmax(scores.mean(1)), mean)
    found = jnp.where(asked.held_out[:, None], _own(each, asked.fold), mean)
    mixed = jax.nn.log_softmax(asked.share * asked.towards + (1.0 - asked.share) * found)
    return jnp.where(asked.share > 0, mixed, found)


def _own(log_posteriors: Array, fold: Array) -> Array:
    """Of each node the posterior of the model that has not seen it."""
    return jnp.take_along_axis(log_posteriors, fold[:, None, None], axis=1)[:, 0]


def regression(
    start: Classifier,
    rows: Rows | DenseRows,
    evidence: Float[Array | np.ndarray, "some classes"],
    teachers: Int[np.ndarray, " some"],
    fold: Int[Array | np.ndarray, " n"],
    *,
    ridges: tuple[float, ...],
    num_folds: int,
    by_weights: bool = False,
    towards: Float[Array | np.ndarray, "n classes"] | None = None,
    share: float = 0.0,
    steps: int = 100,
    tolerance: float = 1e-4,
    room: int | None = None,
) -> tuple[Float[Array, "n classes"], float, Classifier]:
    """F logistic regressions on evidence, each without one fold; one program for any number of teachers.

    Args:
      start: where they start.
      rows: of all n nodes.
      evidence: of the teachers.
      teachers: nodes, in ascending order.
      fold: of each node.
      ridges: to choose from by the evidence of teachers under the model that has not seen theirs, in falling order:
        each fit starts from the one before; the first that is no better ends the search.
      num_folds: F.
      by_weights: whether those who teach nothing are asked of the mean weights, not of the mean posterior.
      towards: log posteriors to mix with.
      share: of ``towards``.
      steps: of L-BFGS at most.
      tolerance: the least gain of a step, of the loss.
      room: public number of rows that are padded to; n by default.

    Returns:
      The log posteriors [n, C], of teachers out of fold; the ridge; the classifier.
    """
    n, classes = rows.shape[0], evidence.shape[1]
    among = _Ridges.of(ridges, steps, tolerance)
    laid = laid_out(rows, room=room)
    pad = partial(_padded, room=laid.shape[0])
    fold = np.asarray(fold, np.int32)
    teaching = laid if len(teachers) == n else laid_out(rows.take(teachers), laid)
    known = _Known(pad(evidence), pad(fold[teachers]), np.int32(len(teachers)))
    held_out = np.zeros(n, bool)
    held_out[teachers] = True
    towards = np.zeros((n, classes), np.float32) if towards is None else towards
    asked = _Asked(pad(fold), pad(held_out), np.bool_(by_weights), pad(towards), np.float32(share))
    size = n if room is None else laid.shape[0]
    found, place, classifier = _path(start, teaching, known, among, laid, asked, models=num_folds, size=size)
    found = found if size == n else jax.device_put(np.asarray(found)[:n])
    return found, float(ridges[int(place)]), classifier


def _padded(values: Any, room: int) -> Any:
    """Rows of zeros beyond the last; of the host where they are."""
    lacking = room - values.shape[0]
    if not lacking:
        return values
    return np.pad(np.asarray(values), ((0, lacking), *((0, 0),) * (values.ndim - 1)))


def features_posterior(
    rows: Rows | DenseRows,
    labels: Int[Array | np.ndarray, " n"],
    fold: Int[Array | np.ndarray, " n"],
    *,
    num_classes: int,
    num_folds: int,
    ridges: tuple[float, ...] = RIDGES,
    steps: int = 100,
    tolerance: float = 1e-4,
    keep: float = 1.0,
) -> FeaturesPosterior:
    """Step 1 of piloted counts: q, logistic regression of the labels on the features, out of fold.

    A labelled node is asked of the model of its fold, any other of the mean of all. The ridge is the one of least
    log-loss on labelled nodes: each fit starts from the one before; the first that is no better ends the search.

    Args:
      rows: public features (:func:`~ldp_jax.pipeline.rows.feature_rows`).
      labels: int [n] in [0, C), -1 for none.
      fold: of each node (:func:`folds`).
      num_classes: C.
      num_folds: F.
      ridges: to choose from, in falling order.
      steps: of L-BFGS at most, static.
      tolerance: the least gain of a step, of the loss.
      keep: the probability that a label is the true one (:mod:`~ldp_jax.pipeline.private_labels`).

    Returns:
      See :class:`FeaturesPosterior`. One compiled program, which :func:`self_train` shares.

    >>> y = np.arange(20) % 2
    >>> labels = np.where(np.arange(20) < 16, y, -1)
    >>> labels[0] = 1  # which is wrong: records of the others tell
    >>> rows, fold = DenseRows(jnp.eye(2)[y]), jnp.arange(20) // 2 % 2
    >>> found = features_posterior(rows, labels, fold, num_classes=2, num_folds=2)
    >>> bool((found.log_q.argmax(1) == y).all())
    True
    """
    labels = np.asarray(labels)
    teachers = np.flatnonzero(labels >= 0)
    evidence = known_evidence(labels[teachers], num_classes, keep)
    start = blank(rows, num_classes, num_folds)
    log_q, ridge, classifier = regression(
        start, rows, evidence, teachers, fold, ridges=ridges, num_folds=num_folds, steps=steps, tolerance=tolerance
    )
    return FeaturesPosterior(log_q, ridge, classifier, fold, labels)


def best_scaling(
    candidates: Mapping[Scaling, Rows],
    labels: Int[np.ndarray, " n"],
    fold: Int[Array | np.ndarray, " n"],
    *,
    num_classes: int,
    num_folds: int,
) -> tuple[Scaling, FeaturesPosterior]:
    """The scaling of least log-loss on held-out labels, and what features say under it; of equals the first.

    All is public, and costs no budget. Candidates of one layout share one compiled regression.

    Args:
      candidates: the same features (:func:`~ldp_jax.pipeline.rows.scaled_rows`).
      labels: int [n] in [0, C), -1 for none.
      fold: of each node (:func:`folds`).
      num_classes: C.
      num_folds: F.
    """
    fit = partial(features_posterior, labels=labels, fold=fold, num_classes=num_classes, num_folds=num_folds)
    found = {name: fit(rows) for name, rows in candidates.items()}
    known = np.flatnonzero(labels >= 0)
    loss = {
        name: -float(np.asarray(one.log_q, np.float64)[known, labels[known]].mean()) for name, one in found.items()
    }
    best = min(loss, key=lambda name: loss[name])
    return best, found[best]


def self_train(
    rows: Rows | DenseRows,
    evidence: Float[Array | np.ndarray, "n classes"],
    fold: Int[Array | np.ndarray, " n"],
    start: Classifier,
    log_q: Float[Array | np.ndarray, "n classes"],
    *,
    ridges: tuple[float, ...],
    num_folds: int,
    keep: float = 0.35,
    steps: int = 100,
    tolerance: float = 1e-4,
) -> SelfTrained:
    r"""Step 8 of piloted counts: f, logistic regression on evidence, mixed with q.

    Maximises :math:`\sum_u \log \sum_c f_c(x_u) e^{l_u(c)}`, then
    :math:`\log f \leftarrow 0.35 \log q + 0.65 \log f`, normalised.

    Args:
      rows: public features.
      evidence: l, of labels (:func:`label_evidence`) and of reports; rows of 0 for who has neither.
      fold: of each node (:func:`folds`).
      start: where the classifier starts: that of :class:`FeaturesPosterior`, or :func:`blank`.
      log_q: the features' posterior (step 1).
      ridges: to choose from, in falling order, by the evidence of nodes under the model that has not seen theirs:
        no label is needed. The first that is no better ends the search.
      num_folds: F.
      keep: the weight of log q.
      steps: of L-BFGS at most, static.
      tolerance: the least gain of a step, of the loss.

    Returns:
      See :class:`SelfTrained`; out of fold, so that own reports may be added to it.

    >>> y = np.arange(20) % 2
    >>> reports = np.where(np.arange(20) % 5 > 0, y, 1 - y)  # each fifth is wrong, and nobody has a label
    >>> evidence = jnp.log(jnp.array([[0.8, 0.2], [0.2, 0.8]]))[reports]
    >>> rows, fold = DenseRows(jnp.eye(2)[y]), jnp.arange(20) // 2 % 2
    >>> q = jnp.full((20, 2), np.log(0.5), jnp.float32)
    >>> taught = self_train(rows, evidence, fold, blank(rows, 2, 2), q, ridges=(0.4,), num_folds=2)
    >>> bool((taught.log_f.argmax(1) == y).all())
    True
    """
    validate.in_range(0.0, 1.0, keep=keep)
    log_f, ridge, classifier = regression(
        start, rows, evidence, np.arange(len(fold)), fold, ridges=ridges, num_folds=num_folds, towards=log_q,
        share=keep, steps=steps, tolerance=tolerance,
    )  # fmt: skip
    return SelfTrained(log_f, ridge, classifier)
