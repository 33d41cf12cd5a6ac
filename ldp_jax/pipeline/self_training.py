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
from ldp_jax.core.label_channel import reported_evidence
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.pipeline.rows import DenseRows, Rows, RowTables, Scaling, laid_out

__all__ = [
    "IMPOSSIBLE",
    "RIDGES",
    "Classifier",
    "FeaturesPosterior",
    "SelfTrained",
    "best_scaling",
    "blank",
    "features_posterior",
    "folds",
    "label_evidence",
    "self_train",
]


def __dir__() -> list[str]:
    return __all__


RIDGES = (10.0, 2.0, 0.4, 0.08, 0.016)
"""Weights of half the squared norm beside the summed loss that :func:`features_posterior` chooses from."""

IMPOSSIBLE = -1e30
"""The log-likelihood of a class that is excluded: finite, so that no gradient is NaN."""


_Laid = RowTables | DenseRows


class Classifier(NamedTuple):
    """One logistic regression a fold.

    Attributes:
      weights: float32 [d, F C].
      bias: float32 [F C].
    """

    weights: Float[Array, "d outputs"]
    bias: Float[Array, " outputs"]


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
    fold: Int[Array, " n"]
    labels: Int[Array, " n"]

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
    return _folds(key, jnp.asarray(labels), num_folds)


@partial(jax.jit, static_argnames="num_folds")
def _folds(key: PRNGKey, labels: Array, num_folds: int) -> Array:
    order = jnp.lexsort((jax.random.uniform(key, labels.shape), labels))
    return jnp.zeros(len(labels), jnp.int32).at[order].set(jnp.arange(len(labels), dtype=jnp.int32) % num_folds)


@partial(jax.jit, static_argnames="num_classes")
def label_evidence(labels: Int[Array | np.ndarray, " n"], num_classes: int) -> Float[Array, "n classes"]:
    """The evidence of public labels: 0 at the class, :data:`IMPOSSIBLE` elsewhere; all 0 where there is none."""
    labels = jnp.asarray(labels)[:, None]
    return jnp.where((labels < 0) | (labels == jnp.arange(num_classes)), 0.0, IMPOSSIBLE)


def blank(rows: Rows | DenseRows, num_classes: int, num_folds: int) -> Classifier:
    """A classifier that knows nothing: zeros."""
    outputs = num_folds * num_classes
    return Classifier(jnp.zeros((rows.shape[1], outputs)), jnp.zeros(outputs))


def _loss(classifier: Classifier, rows: _Laid, evidence: Array, weight: Array, ridge: Array) -> Array:
    """The mean loss of F classifiers at once: a sum over folds, whose minimum is each one's own."""
    models = weight.shape[1]
    scores = _scores(classifier, rows, models)
    known = jax.nn.logsumexp(scores + evidence[:, None, :], axis=-1) - jax.nn.logsumexp(scores, axis=-1)
    penalty = 0.5 * ridge * (classifier.weights**2).sum()
    return (penalty - (known * weight).sum()) / jnp.maximum(weight.sum(), 1.0)


def _scores(classifier: Classifier, rows: _Laid, models: int) -> Array:
    return (rows.times(classifier.weights) + classifier.bias).reshape(rows.shape[0], models, -1)


@lru_cache
def _optimizer() -> optax.GradientTransformationExtraArgs:
    return optax.lbfgs(linesearch=optax.scale_by_zoom_linesearch(max_linesearch_steps=15))


@partial(jax.jit, static_argnames="steps")
def _fit(
    start: Classifier,
    rows: _Laid,
    evidence: Array,
    weight: Array,
    ridge: Array,
    tolerance: Array,
    *,
    steps: int,
) -> tuple[Classifier, Array]:
    """L-BFGS until a step gains less than ``tolerance`` of the loss; log posteriors [n, F, C] beside it."""
    optimizer = _optimizer()

    def loss(classifier: Classifier) -> Array:
        return _loss(classifier, rows, evidence, weight, ridge)

    value_and_grad = optax.value_and_grad_from_state(loss)

    def going(carry: Any) -> Array:
        _, _, step, before, now = carry
        return (step < steps) & ((step < 3) | (before - now > tolerance * jnp.abs(now)))

    def advance(carry: Any) -> Any:
        classifier, state, step, _, _ = carry
        value, gradient = value_and_grad(classifier, state=state)
        updates, state = optimizer.update(gradient, state, classifier, value=value, grad=gradient, value_fn=loss)
        return optax.apply_updates(classifier, updates), state, step + 1, value, optax.tree.get(state, "value")

    first = (start, optimizer.init(start), jnp.int32(0), jnp.float32(jnp.inf), jnp.float32(0.0))
    classifier = jax.lax.while_loop(going, advance, first)[0]
    return classifier, jax.nn.log_softmax(_scores(classifier, rows, weight.shape[1]))


@partial(jax.jit, static_argnames="num_folds")
def _elsewhere(fold: Array, known: Any, num_folds: int) -> Array:
    """[n, F]: 1 where a model may see a node, and there is something to see."""
    return ((fold[:, None] != jnp.arange(num_folds)) & known[:, None]).astype(jnp.float32)


def _own(log_posteriors: Array, fold: Array) -> Array:
    """Of each node the posterior of the model that has not seen it."""
    return jnp.take_along_axis(log_posteriors, fold[:, None, None], axis=1)[:, 0]


def features_posterior(
    rows: Rows | DenseRows,
    labels: Int[Array | np.ndarray, " n"],
    fold: Int[Array, " n"],
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
    validate.positive(ridges=np.asarray(ridges))
    labels, known = jnp.asarray(labels), label_evidence(labels, num_classes)
    weight = _elsewhere(fold, labels >= 0, num_folds)
    summary = partial(_of_features, labels=labels, fold=fold)
    if keep != 1.0:
        known = reported_evidence(labels, num_classes, keep)
        summary = partial(_of_reports, labels=labels, evidence=known, fold=fold)
    start = blank(rows, num_classes, num_folds)
    fit = partial(
        _fit, rows=laid_out(rows), evidence=known, weight=weight, tolerance=jnp.float32(tolerance), steps=steps
    )
    return FeaturesPosterior(*_along_ridges(start, fit, summary, ridges), fold, labels)


def best_scaling(
    candidates: Mapping[Scaling, Rows],
    labels: Int[np.ndarray, " n"],
    fold: Int[Array, " n"],
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


@jax.jit
def _of_features(each: Array, labels: Array, fold: Array) -> tuple[Array, Array]:
    """The log-likelihood of labels under models that have not seen them, and everybody's log posterior."""
    held_out = _own(each, fold)
    mean = jax.nn.logsumexp(each, axis=1) - jnp.log(each.shape[1])
    score = jnp.take_along_axis(held_out, jnp.maximum(labels, 0)[:, None], 1)[:, 0]
    return jnp.where(labels >= 0, score, 0.0).sum(), jnp.where((labels >= 0)[:, None], held_out, mean)


@jax.jit
def _of_reports(each: Array, labels: Array, evidence: Array, fold: Array) -> tuple[Array, Array]:
    """As :func:`_of_features`, of labels that are reports."""
    score = jax.nn.logsumexp(_own(each, fold) + evidence, axis=-1)
    return jnp.where(labels >= 0, score, 0.0).sum(), _of_features(each, labels, fold)[1]


@jax.jit
def _of_evidence(each: Array, evidence: Array, fold: Array) -> tuple[Array, Array]:
    """The log-likelihood of evidence under models that have not seen it, and everybody's log posterior."""
    held_out = _own(each, fold)
    return jax.nn.logsumexp(held_out + evidence, axis=-1).sum(), held_out


@jax.jit
def _mixed(log_q: Array, log_f: Array, keep: Array) -> Array:
    return jax.nn.log_softmax(keep * log_q + (1.0 - keep) * log_f)


def _along_ridges(
    start: Classifier, fit: Any, summary: Any, ridges: tuple[float, ...]
) -> tuple[Array, float, Classifier]:
    """The posterior, ridge and classifier of the largest held-out score; falling ridges, until the score falls."""
    best, classifier = None, start
    for ridge in ridges:
        classifier, each = fit(classifier, ridge=jnp.float32(ridge))
        score, log_posterior = summary(each)
        if best is not None and float(score) <= best[0]:
            break
        best = (float(score), log_posterior, float(ridge), classifier)
    if best is None:
        raise ValueError("ridges must hold a number, got none")
    return best[1:]


def self_train(
    rows: Rows | DenseRows,
    evidence: Float[Array, "n classes"],
    fold: Int[Array, " n"],
    start: Classifier,
    log_q: Float[Array, "n classes"],
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
    validate.positive(ridges=np.asarray(ridges))
    validate.in_range(0.0, 1.0, keep=keep)
    summary = partial(_of_evidence, evidence=evidence, fold=fold)
    weight = _elsewhere(fold, np.ones(len(fold), bool), num_folds)
    fit = partial(
        _fit, rows=laid_out(rows), evidence=evidence, weight=weight, tolerance=jnp.float32(tolerance), steps=steps
    )
    log_f, ridge, classifier = _along_ridges(start, fit, summary, ridges)
    return SelfTrained(_mixed(log_q, log_f, jnp.float32(keep)), ridge, classifier)
