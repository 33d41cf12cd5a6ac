r"""Logistic regression on public features whose labels are evidence.

The evidence is from public labels, private reports, or both. A node's evidence is a row
:math:`l_u(c)`, the log-likelihood of what is known of its class. The classifier :math:`f_c(x)`
maximises :math:`\sum_u \log \sum_c f_c(x_u) e^{l_u(c)}` less a ridge: for a label the usual
log-likelihood, for a report the exact likelihood of a class that nobody sees. A node is asked of
the model of a fold that it is not in: no node's own label or report takes part, but in all folds'
ridge and search length.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Float, Int
from typing_extensions import TypeAliasType

from ldp_jax.core import random_words, validate
from ldp_jax.core.label_channel import other_share
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, Array, PRNGKey, Scalar
from ldp_jax.servers.parts.rows import (
    DenseRows,
    Rows,
    RowTables,
    Scaling,
    laid_out,
    part_size,
    parts_of,
    power_of_four,
)

RIDGES = (10.0, 2.0, 0.4, 0.08, 0.016)
"""Weights of half the squared norm beside the summed loss that :func:`features_posterior` chooses
from.
"""

_ROOM = 8  # ridges are padded to a multiple of it, so that other choices of them share a program

IMPOSSIBLE = -1e30
"""The log-likelihood of a class that is excluded: finite, so that no gradient is NaN."""

_MEMORY = 10  # pairs of differences that L-BFGS holds

# The least number of teachers that has places of its own, where twice as many nodes would have
# places else
_FEW = 2**13

_IN_CACHE = 256  # rows whose scores stay in a CPU's cache

_STEPS = 200  # points that L-BFGS tries at most

_Laid = RowTables | DenseRows


class FoldedLabels(NamedTuple):
    """Labels that several models learn from, each without the labels of its fold.

    Labels are int32 [n] in [0, C), -1 for none, and true with probability ``keep``; folds int32 [n]
    in [0, F).
    """

    labels: Int[np.ndarray, " n"]
    num_classes: int
    fold: Int[AnyArray, " n"]
    num_folds: int
    keep: float = 1.0

    __repr__ = by_shapes

    @property
    def nodes(self) -> Int[np.ndarray, " labelled"]:
        """The labelled nodes, in order."""
        return np.flatnonzero(self.labels >= 0)

    @property
    def alone(self) -> "FoldedLabels":
        """The same of the labelled nodes alone."""
        nodes = self.nodes
        return self._replace(labels=self.labels[nodes], fold=np.asarray(self.fold)[nodes])


class FeaturesPosterior(NamedTuple):
    """The posterior of classes by public features; made by :func:`features_posterior`.

    Attributes:
      log_q: float32 [n, C], of a model that has not seen the node's own label.
      fold: int32 [n], of each node: the one whose model has not seen it.
      num_folds: F.
      labels: int [n], what it was fitted to, -1 for none.
      classifier: float32 [d + 1, F C], where self-training starts, the bias in the last row; None
        starts at 0.
      ridge: the one chosen.
    """

    log_q: Float[Array, "n classes"]
    fold: Int[AnyArray, " n"]
    num_folds: int
    labels: Int[np.ndarray, " n"]
    classifier: Float[Array, "inputs outputs"] | None = None
    ridge: float | None = None

    __repr__ = by_shapes

    @property
    def classes(self) -> Int[np.ndarray, " n"]:
        """The likeliest class of each user."""
        return np.asarray(self.log_q).argmax(1)


LogPosterior = TypeAliasType("LogPosterior", Float[AnyArray, "n classes"] | FeaturesPosterior)
"""A posterior of classes by features, in natural logarithms, found here or elsewhere."""


def folds(key: PRNGKey, labels: Int[AnyArray, " n"], num_folds: int) -> Int[np.ndarray, " n"]:
    """A random fold of each node, as many nodes of every class in each as can be.

    Int32 [n], on the host.

    ``labels`` are -1 for none, and F is at least 2.
    """
    validate.threefry(key)
    validate.integer_in(2, num_folds=num_folds)
    found = np.empty(np.shape(labels), np.int32)
    found[random_words.order_within(key, labels)] = np.arange(len(found)) % num_folds
    return found


def typical_folds(labels: Int[np.ndarray, " n"], most: int) -> int:
    """How many folds labels are best split into: as many as a typical class has, at most ``most``.

    With more of them a fold has a label of some classes and none of others. The model without it
    then finds those classes rarer than they are, and what reads its posterior of the labelled
    takes a class that looks rare for the true one.

    >>> typical_folds(np.array([0, 0, 0, 1, 1, 1, 1, -1]), 10)
    3
    """
    size = np.bincount(labels[labels >= 0])
    return int(np.clip(np.median(size[size > 0]), 2, most))


def label_evidence(
    labels: Int[AnyArray, " n"], num_classes: int, keep: float = 1.0
) -> Float[np.ndarray, "n classes"]:
    """The evidence of labels, all 0 where there is none (-1); below ``keep`` 1 of reported ones.

    On the host.

    >>> np.exp(label_evidence(np.array([1, -1]), 2, 0.75)).tolist()
    [[0.25, 0.75], [1.0, 1.0]]
    """
    labels = np.asarray(labels)[:, None]
    law = np.where(labels == np.arange(num_classes), keep, other_share(keep, num_classes))
    found = np.where(law > 0, np.log(np.maximum(law, 1e-300)), IMPOSSIBLE)
    return np.where(labels < 0, 0.0, found).astype(np.float32)


class _Known(NamedTuple):
    """The rows that teach: of the first ``count`` of them, the others are padding."""

    evidence: AnyArray
    fold: AnyArray
    count: Array | np.uint32


def _scores(weights: Array, rows: _Laid, models: int) -> Array:
    """Scores [n, F, C] of classifiers whose last row of weights is the bias."""
    scores = rows.times(weights[:-1]) + weights[-1]
    return scores.reshape(rows.shape[0], models, -1)


def _normalised(scores: Array) -> tuple[Array, Array]:
    """Posteriors, and the logarithm of what they are divided by; the classes are axis 1."""
    most = scores.max(1, keepdims=True)
    mass = jnp.exp(scores - most)
    total = mass.sum(1, keepdims=True)
    return mass / total, (jnp.log(total) + most)[:, 0]


def _summed(weights: Array, rows: _Laid, known: _Known, models: int) -> tuple[Array, Array]:
    """The log-likelihoods of evidence under models that have not seen it and that have.

    Rows in use are taken a part at a time. The derivative of the latter in the weights comes too.
    """
    size = part_size(rows.shape[0])
    if isinstance(rows, RowTables) and size % _IN_CACHE == 0:
        size = _IN_CACHE
    parts = parts_of(known.count, size)

    def part(values: AnyArray, at: Array) -> Array:
        return jax.lax.dynamic_slice_in_dim(values, at * size, size)

    def evaluated(scores: Array, at: Array) -> tuple[Array, Array]:
        # With rows last, a CPU sums over few classes by vector instructions.
        given = scores.reshape(size, -1).T.reshape(models, -1, size)
        prior, all_of = _normalised(given)
        posterior, some = _normalised(given + part(known.evidence, at).T)
        unseen = part(known.fold, at) == jnp.arange(models)[:, None]
        used = at * size + jnp.arange(size, dtype=jnp.uint32) < known.count
        groups = jnp.stack([unseen, ~unseen]) & used
        slope = jnp.where(groups[1][:, None], posterior - prior, 0.0)
        values = jnp.where(groups, some - all_of, 0.0).sum((1, 2))
        return values, slope.reshape(-1, size).T

    if isinstance(rows, DenseRows):
        scores: Any = None  # those of a part are made with it
        slopes = jnp.zeros_like(weights[:-1])
    else:
        scores = _scores(weights, rows, models)
        slopes = jnp.zeros((rows.shape[0], weights.shape[1]), jnp.float32)

    def add(at: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        total, slopes, of_bias = carry
        if isinstance(rows, DenseRows):
            here = DenseRows(part(rows.values, at))
            value, slope = evaluated(_scores(weights, here, models), at)
            slopes = slopes + here.transposed(slope)
        else:
            value, slope = evaluated(part(scores, at), at)
            slopes = jax.lax.dynamic_update_slice_in_dim(slopes, slope, at * size, 0)
        return total + value, slopes, of_bias + slope.sum(0)

    begin = (jnp.zeros(2, jnp.float32), slopes, jnp.zeros(weights.shape[1], jnp.float32))
    total, slopes, of_bias = jax.lax.fori_loop(jnp.uint32(0), parts, add, begin)
    slope = slopes if isinstance(rows, DenseRows) else rows.transposed(slopes)
    return total, jnp.concatenate([slope, of_bias[None]])


class _Search(NamedTuple):
    """Where L-BFGS stands."""

    weights: Array  # the best point so far, of which ``value``, ``slope`` and ``score`` are
    value: Array
    slope: Array
    score: Array
    direction: Array  # of the next point
    length: Array  # from the best point to the next
    moves: Array  # differences [10, ...] of points, a ring
    turns: Array  # the same of slopes
    inverse: Array  # 1 / (move . turn) [10]; 0 leaves a pair out
    count: Array  # how many pairs were written
    tried: Array  # how many points
    going: Array  # whether to go on


def _downhill(slope: Array, moves: Array, turns: Array, inverse: Array, count: Array) -> Array:
    """Minus the estimated inverse Hessian times the slope (Nocedal and Wright, algorithm 7.4)."""
    pairs = jnp.minimum(count, jnp.uint32(_MEMORY))

    def back(age: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        rest, parts = carry
        at = (count - 1 - age) % _MEMORY
        part = inverse[at] * (moves[at] * rest).sum()
        return rest - part * turns[at], parts.at[at].set(part)

    def forth(place: Array, found: Array) -> Array:
        at = (count - pairs + place) % _MEMORY
        part = inverse[at] * (turns[at] * found).sum()
        return found + moves[at] * (parts[at] - part)

    begin = (slope, jnp.zeros(_MEMORY, jnp.float32))
    rest, parts = jax.lax.fori_loop(jnp.uint32(0), pairs, back, begin)
    last = (count - 1) % _MEMORY
    curvature = inverse[last] * (turns[last] ** 2).sum()
    curvature = jnp.where(count > 0, curvature, 1.0)
    return -jax.lax.fori_loop(jnp.uint32(0), pairs, forth, rest / curvature)


def _fit(
    start: Array, loss: Callable[[Array], tuple[Array, Array, Array]], tolerance: Array | np.float32
) -> tuple[Array, Array]:
    """Weights and score by L-BFGS: steps shrink until the loss falls.

    Ends when it gains < ``tolerance`` of it.
    """

    def advance(now: _Search) -> _Search:
        tried = now.weights + now.length * now.direction
        value, slope, score = loss(tried)
        foretold = now.length * (now.slope * now.direction).sum()
        falls = value <= now.value + 1e-4 * foretold

        def accepted() -> _Search:
            move = tried - now.weights
            turn = slope - now.slope
            product = (move * turn).sum()
            at = now.count % _MEMORY
            curved = product > 1e-12 * (turn**2).sum()
            reciprocal = 1.0 / jnp.where(curved, product, 1.0)
            inverse = now.inverse.at[at].set(jnp.where(curved, reciprocal, 0.0))
            moves = now.moves.at[at].set(move)
            turns = now.turns.at[at].set(turn)
            count = now.count + curved
            direction = _downhill(slope, moves, turns, inverse, count)
            gains_little = now.value - value <= tolerance * jnp.abs(value)
            little = (now.tried > 3) & gains_little
            return _Search(
                tried,
                value,
                slope,
                score,
                direction,
                jnp.float32(1.0),
                moves,
                turns,
                inverse,
                count,
                now.tried + 1,
                ~little,
            )

        def shortened() -> _Search:  # to the minimum of a parabola
            curvature = jnp.maximum(value - now.value - foretold, 1e-30)
            share = -0.5 * foretold / curvature
            length = now.length * jnp.clip(share, 0.1, 0.5)
            return now._replace(length=length, tried=now.tried + 1, going=length > 1e-3)

        return jax.lax.cond(falls, accepted, shortened)

    empty = jnp.zeros_like(start)
    ring = jnp.zeros((_MEMORY, *start.shape), jnp.float32)
    first = _Search(
        start,
        jnp.float32(jnp.inf),
        empty,
        jnp.float32(0.0),
        empty,
        jnp.float32(0.0),
        ring,
        ring,
        jnp.zeros(_MEMORY, jnp.float32),
        jnp.uint32(0),
        jnp.uint32(0),
        jnp.bool_(True),
    )
    found = jax.lax.while_loop(lambda now: now.going & (now.tried < _STEPS), advance, first)
    return found.weights, found.score


@partial(jax.jit, static_argnames=("models", "rows_wanted"))
def _path(
    start: Array,
    rows: _Laid,
    known: _Known,
    ridges: Array,
    count: Array,
    tolerance: Array,
    everybody: _Laid,
    model: Array,
    *,
    models: int,
    rows_wanted: int,
) -> tuple[Array, Array, Array]:
    """The posteriors, place and weights of the largest held-out score.

    Falling ridges, the first ``count``, until the score falls. Each row is asked of its ``model``
    [n]; after the last model come their mean weights and mean posterior.
    """
    size = jnp.maximum((models - 1) * known.count, 1).astype(jnp.float32)

    def advance(carry: tuple) -> tuple:
        place, weights, best, _ = carry
        ridge = ridges[place]

        def loss(weights: Array) -> tuple[Array, Array, Array]:
            """The mean loss of all models at once, its derivative, and their score."""
            # The score is the log-likelihood of evidence under the models that have not seen it.
            (score, total), slope = _summed(weights, rows, known, models)
            penalised = weights.at[-1].set(0.0)
            value = 0.5 * ridge * (penalised**2).sum() - total
            return value / size, (ridge * penalised - slope) / size, score

        weights, score = _fit(weights, loss, tolerance)
        better = (place == 0) | ~(score <= best[0])
        kept = lambda new, old: jnp.where(better, new, old)
        best = jax.tree.map(kept, (score, weights, place), best)
        return place + 1, weights, best, better

    first = jnp.uint32(0)
    begin = (first, start, (jnp.float32(0.0), start, first), jnp.bool_(True))

    def goes_on(carry: tuple) -> Array:
        place, _, _, better = carry
        return better & (place < count)

    _, _, best, _ = jax.lax.while_loop(goes_on, advance, begin)
    _, weights, place = best

    scores = _scores(weights, everybody, models)
    by_mean_weights = scores.mean(1, keepdims=True)
    each = jax.nn.log_softmax(jnp.concatenate([scores, by_mean_weights], 1))
    mean = jax.nn.logsumexp(each[:, :models], axis=1, keepdims=True) - jnp.log(models)
    each = jnp.concatenate([each, mean], 1)
    found = jnp.take_along_axis(each, model[:, None, None], axis=1)[:, 0]
    return found[:rows_wanted], place, weights


class Lesson(NamedTuple):
    """Evidence [teachers, C] of the nodes that teach, in ascending order, and the folds [n]."""

    evidence: Float[AnyArray, "teachers classes"]
    teachers: Int[np.ndarray, " teachers"]
    fold: Int[AnyArray, " n"]
    num_folds: int

    __repr__ = by_shapes

    @classmethod
    def of(cls, known: FoldedLabels) -> "Lesson":
        """That of labels."""
        validate.in_range(-1.0, known.num_classes - 1.0, labels=known.labels)
        evidence = label_evidence(known.labels[known.nodes], known.num_classes, known.keep)
        return cls(evidence, known.nodes, known.fold, known.num_folds)


def regression(
    rows: Rows | DenseRows,
    lesson: Lesson,
    *,
    ridges: tuple[float, ...],
    start: Float[AnyArray, "inputs outputs"] | None = None,
    by_weights: bool = False,
    tolerance: float = 1e-4,
    room: int | None = None,
) -> tuple[Float[Array, "n classes"], float, Float[Array, "inputs outputs"]]:
    """F logistic regressions on evidence, each without one fold.

    One program for any number of teachers.

    ``ridges`` fall, and are chosen by the evidence of teachers under the model that has not seen
    theirs. Each fit starts from the one before, the first from ``start`` (the bias in the last row;
    0 by default); the first that is no better ends the search. With ``by_weights`` those who teach
    nothing are asked of the mean weights, not of the mean posterior. ``tolerance`` is the least
    gain of a step, of the loss; ``room`` the public number of rows that are padded to, n by
    default. It gives the log posteriors [n, C], of teachers out of fold, the ridge, and the weights
    [d + 1, F C].
    """
    n = rows.shape[0]
    teachers = lesson.teachers
    if len(lesson.evidence) != len(teachers) or len(lesson.fold) != n:
        raise ValueError(
            f"evidence must be of {len(teachers)} nodes and folds of {n}, "
            f"got {len(lesson.evidence)} and {len(lesson.fold)}"
        )
    validate.in_range(0.0, lesson.num_folds - 1.0, fold=lesson.fold)
    validate.positive(ridges=np.asarray(ridges))
    if not ridges:
        raise ValueError("ridges must hold a number, got none")
    room_for = (0, -len(ridges) % _ROOM)
    padded = np.pad(np.asarray(ridges, np.float32), room_for, constant_values=1.0)

    laid = laid_out(rows, room=room)
    fold = np.asarray(lesson.fold, np.int32)
    places = power_of_four(max(len(teachers), _FEW))
    if len(teachers) == n:
        teaching = laid
    elif places > n // 2:
        teaching = laid_out(rows.take(teachers), laid)
    else:  # places for all would take most of the time
        teaching = laid_out(rows.take(teachers), room=places)
    evidence = _padded(np.asarray(lesson.evidence), teaching)
    known = _Known(evidence, _padded(fold[teachers], teaching), np.uint32(len(teachers)))

    model = np.full(n, lesson.num_folds + (not by_weights), np.int32)
    model[teachers] = fold[teachers]
    if start is None:
        outputs = lesson.num_folds * lesson.evidence.shape[1]
        start = np.zeros((rows.shape[1] + 1, outputs), np.float32)
    size = n if room is None else laid.shape[0]
    found, place, weights = _path(
        start,
        teaching,
        known,
        padded,
        np.uint32(len(ridges)),
        np.float32(tolerance),
        laid,
        _padded(model, laid),
        models=lesson.num_folds,
        rows_wanted=size,
    )
    if size != n:
        found = jax.device_put(np.asarray(found)[:n])
    return found, float(ridges[int(place)]), weights


def _padded(values: np.ndarray, rows: _Laid) -> np.ndarray:
    """Values, and zeros for each row of padding."""
    missing = rows.shape[0] - len(values)
    other_axes = [(0, 0)] * (values.ndim - 1)
    return np.pad(values, [(0, missing), *other_axes])


def features_posterior(
    rows: Rows | DenseRows,
    labels: Int[AnyArray, " n"],
    fold: Int[AnyArray, " n"],
    *,
    num_classes: int,
    num_folds: int,
    tolerance: float = 1e-4,
) -> FeaturesPosterior:
    """Step 1 of piloted counts: q, logistic regression of the labels on the features, out of fold.

    A labelled node is asked of the model of its fold, any other of the mean of all. The ridge is
    the one of :data:`RIDGES` with the least log-loss on labelled nodes. :func:`self_train` shares
    the compiled program. ``labels`` are int [n] in [0, C), -1 for none; ``tolerance`` is the least
    gain of a step, of the loss.

    >>> y = np.arange(20) % 2
    >>> labels = np.where(np.arange(20) < 16, y, -1)
    >>> labels[0] = 1  # which is wrong: records of the others tell
    >>> rows, fold = DenseRows(jnp.eye(2)[y]), jnp.arange(20) // 2 % 2
    >>> found = features_posterior(rows, labels, fold, num_classes=2, num_folds=2)
    >>> bool((found.classes == y).all())
    True
    """
    labels = np.asarray(labels)
    lesson = Lesson.of(FoldedLabels(labels, num_classes, fold, num_folds))
    log_q, ridge, classifier = regression(rows, lesson, ridges=RIDGES, tolerance=tolerance)
    return FeaturesPosterior(log_q, fold, num_folds, labels, classifier, ridge)


def best_scaling(
    candidates: Mapping[Scaling, Rows],
    labels: Int[np.ndarray, " n"],
    fold: Int[AnyArray, " n"],
    *,
    num_classes: int,
    num_folds: int,
) -> tuple[Scaling, FeaturesPosterior]:
    """The scaling of least log-loss on held-out labels, and what features say under it.

    Among equals it is the first. Candidates of one layout
    (:func:`~ldp_jax.servers.parts.rows.scaled_rows`) share one compiled regression.
    """
    fit = partial(
        features_posterior, labels=labels, fold=fold, num_classes=num_classes, num_folds=num_folds
    )
    known = np.flatnonzero(labels >= 0)
    found = {}
    gain = {}
    for name, rows in candidates.items():
        found[name] = fit(rows)
        log_q = np.asarray(found[name].log_q, np.float64)
        gain[name] = log_q[known, labels[known]].mean()
    best = max(gain, key=lambda name: gain[name])
    return best, found[best]


def self_train(
    rows: Rows | DenseRows,
    evidence: Float[AnyArray, "n classes"],
    known: FeaturesPosterior,
    *,
    ridges: tuple[float, ...] = RIDGES,
    keep: Scalar = 0.35,
    tolerance: float = 1e-4,
) -> Float[np.ndarray, "n classes"]:
    r"""Step 8 of piloted counts: log f, of a logistic regression on evidence, mixed with q.

    Maximises :math:`\sum_u \log \sum_c f_c(x_u) e^{l_u(c)}`, then
    :math:`\log f \leftarrow 0.35 \log q + 0.65 \log f`, normalised. The ridge is chosen by the
    evidence of nodes under the model that has not seen theirs: no label is needed, and own reports
    may be added to the result. ``evidence`` l is of labels (:func:`label_evidence`) and of reports,
    rows of 0 for who has neither; ``known`` has q, folds, and where the regression starts;
    ``ridges`` fall; ``keep`` is the weight of log q.

    >>> y = np.arange(20) % 2
    >>> reports = np.where(np.arange(20) % 5 > 0, y, 1 - y)  # each fifth is wrong
    >>> evidence = np.log([[0.8, 0.2], [0.2, 0.8]]).astype(np.float32)[reports]
    >>> q = jnp.full((20, 2), np.log(0.5), jnp.float32)
    >>> known = FeaturesPosterior(q, np.arange(20) // 2 % 2, 2, np.full(20, -1))
    >>> log_f = self_train(DenseRows(jnp.eye(2)[y]), evidence, known, ridges=(0.4,))
    >>> bool((log_f.argmax(1) == y).all())
    True
    """
    validate.in_range(0.0, 1.0, keep=keep)
    lesson = Lesson(evidence, np.arange(len(known.fold)), known.fold, known.num_folds)
    log_f, *_ = regression(rows, lesson, ridges=ridges, start=known.classifier, tolerance=tolerance)
    mixed = keep * np.asarray(known.log_q) + (1.0 - keep) * np.asarray(log_f)
    return scipy.special.log_softmax(mixed, axis=1).astype(np.float32)
