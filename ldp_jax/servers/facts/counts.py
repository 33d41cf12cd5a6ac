"""Public facts before users count their neighbours."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import log_softmax

from ldp_jax.core import validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, ArrayLike, PRNGKey
from ldp_jax.servers.parts.absent import Numbering
from ldp_jax.servers.parts.groups import check_posterior, check_teachers
from ldp_jax.servers.parts.rows import (
    Features,
    Rows,
    Scaling,
    feature_rows,
    scaled_rows,
)
from ldp_jax.servers.parts.self_training import (
    FeaturesPosterior,
    LogPosterior,
    best_scaling,
    features_posterior,
    folds,
    typical_folds,
)

_FOLDS = 10
_FEW_FOLDS = 5  # where features have more entries than _MANY_ENTRIES
_MANY_ENTRIES = 100_000


# the least probability of a class in a posterior from elsewhere: trees are sure of what is wrong
_LEAST = 1e-9


class CountFacts(NamedTuple):
    """Public facts before anybody reports, for any epsilon; made by :func:`count_facts`.

    Where no label names some class, all but ``numbering`` and ``log_prior`` is about the other
    classes, renumbered (:mod:`ldp_jax.servers.parts.absent`).

    Attributes:
      rows: features in one scaling; None where there are none.
      known: the posterior of classes by features, its folds and its labels.
      num_classes: C.
      silent: bool [n], labelled users who are never asked.
      scaling: of the features, by held-out labels; None where there was no choice.
      numbering: of all classes; None where labels name every class.
      log_prior: float64 [C] or [n, C], of all classes, by which absent ones have their posterior.
    """

    rows: Rows | None
    known: FeaturesPosterior
    num_classes: int
    silent: Bool[np.ndarray, " n"]
    scaling: Scaling | None = None
    numbering: Numbering | None = None
    log_prior: Float[np.ndarray, "... all"] | None = None

    __repr__ = by_shapes

    @property
    def labels(self) -> Int[np.ndarray, " n"]:
        """Public labels, -1 for users whose class is asked for."""
        return self.known.labels

    @property
    def fold(self) -> Int[np.ndarray, " n"]:
        """The number of the feature model that has not seen each user's label; on the host."""
        return np.asarray(self.known.fold)

    @property
    def log_q(self) -> Float[np.ndarray, "n classes"]:
        """The posterior by features, on the host."""
        return np.asarray(self.known.log_q)


@implicit_promotion()
def count_facts(
    key: PRNGKey,
    features: Features | Rows | Mapping[Scaling, Rows] | None,
    labels: ArrayLike,
    *,
    num_classes: int,
    log_q: LogPosterior | None = None,
    silent: Bool[np.ndarray, " n"] | None = None,
    num_folds: int | None = None,
) -> CountFacts:
    """Step 1: what features say of classes; a sweep over epsilon finds it once.

    Args:
      key: of public randomness.
      features: [n, d], of which held-out labels choose a scaling
        (:func:`~ldp_jax.servers.parts.rows.scaled_rows`); one scaling or several; None where there
        are none.
      labels: int [n] in [0, C), -1, None or NaN for users who have none.
      num_classes: C. A class that no label names has the posterior that its prior gives: that of
        ``log_q``, else the share of half a labelled user (:mod:`ldp_jax.servers.parts.absent`).
      log_q: a posterior from elsewhere in place of a logistic regression on the features, in
        natural logarithms; probabilities below 1e-9 are raised to it. No user's may depend on their
        own label.
      silent: bool [n], labelled users who are never asked; nobody by default.
      num_folds: F of the regressions, whose time it multiplies; by default as many as a typical
        class has labels, at most 10, and 5 above 10^5 entries.

    ``ValueError`` for facts that do not fit each other.
    """
    validate.threefry(key)
    labels = validate.labels(labels)
    check_teachers(labels, num_classes)
    n = len(labels)
    known = isinstance(log_q, FeaturesPosterior)
    rows: Any = features
    if features is not None and not isinstance(features, (Rows, Mapping)):
        # In every scaling, or of length 1 where their posterior is known already.
        rows = feature_rows(features) if known else scaled_rows(features)
    first = next(iter(rows.values())) if isinstance(rows, Mapping) else rows
    if first is not None:
        rule = f"rows must be of {n} users, as labels are, and have columns"
        fits = first.shape[0] == n and first.shape[1]
        validate.require(fits, f"{rule}, got shape {first.shape}")
    if isinstance(log_q, FeaturesPosterior):
        validate.shaped(n, num_classes, log_q=log_q.log_q)
        same = np.array_equal(log_q.labels, labels)
        validate.require(same, "log_q must be of these labels, and was found of others")
    elif log_q is not None:
        validate.shaped(n, num_classes, log_q=log_q)
        check_posterior(np.asarray(log_q, np.float32))

    # Users who are never asked are labelled, and leave a labelled user of each class.
    silent = None if silent is None else validate.complete(silent=silent)
    quiet = validate.mask(n, False, silent=silent)
    rule = "silent users must have a label: of the others the class is asked for, by their reports"
    validate.require(not (quiet & (labels < 0)).any(), rule)
    named = np.bincount(labels[labels >= 0], minlength=num_classes)
    left = np.bincount(labels[(labels >= 0) & ~quiet], minlength=num_classes)
    lost = (named > 0) & (left == 0)
    rule = f"silent must leave a labelled user of each class, got none of class {lost.argmax()}"
    validate.require(not lost.any(), rule)

    mine = Numbering.of(labels, num_classes)
    if mine.absent:
        log_prior, taught = _of_taught(log_q, mine, labels)
        found = count_facts(
            key,
            rows,
            mine.renumbered(labels),
            num_classes=len(mine.taught),
            log_q=taught,
            silent=silent,
            num_folds=num_folds,
        )
        return found._replace(numbering=mine, log_prior=log_prior)
    labels = labels.astype(np.int32)
    if num_folds is None:
        few = first is None or len(first.value) <= _MANY_ENTRIES
        num_folds = typical_folds(labels, _FOLDS if few else _FEW_FOLDS)
    fold = folds(key, labels, num_folds)
    sizes = {"num_classes": num_classes, "num_folds": num_folds}
    scaling = None
    if isinstance(rows, Mapping):
        scaling, chosen = best_scaling(rows, labels, fold, **sizes)
        rows = rows[scaling]
        log_q = chosen if log_q is None else log_q
    if log_q is None and rows is not None:
        log_q = features_posterior(rows, labels, fold, **sizes)
    elif log_q is None:  # the shares of classes among the labels, for everybody
        told = labels[labels >= 0]
        share = np.bincount(told, minlength=num_classes) / len(told)
        log_q = jax.device_put(np.tile(np.log(share.astype(np.float32)), (n, 1)))
    elif not isinstance(log_q, FeaturesPosterior):
        # A class of probability 0 would be evidence that no report could outweigh.
        given = jax.nn.log_softmax(jnp.asarray(log_q, jnp.float32))
        log_q = jnp.maximum(given, np.float32(np.log(_LEAST)))
    if not isinstance(log_q, FeaturesPosterior):
        log_q = FeaturesPosterior(log_q, fold, num_folds, labels)
    return CountFacts(rows, log_q, num_classes, quiet, scaling)


def _of_taught(
    log_q: LogPosterior | None, mine: Numbering, labels: np.ndarray
) -> tuple[np.ndarray, Any]:
    """The prior of all classes, and the posterior of those that labels name."""

    def among(given: AnyArray) -> Float[np.ndarray, "n taught"]:
        taught = np.asarray(given, np.float64)[:, mine.taught]
        return log_softmax(taught, axis=1).astype(np.float32)

    if log_q is None:
        return mine.log_prior, None
    if not isinstance(log_q, FeaturesPosterior):
        given = log_softmax(np.asarray(log_q, np.float64), axis=1)
        log_prior = log_softmax(np.maximum(given, np.float32(np.log(_LEAST))), axis=1)
        return log_prior, among(log_prior)
    weights = log_q.classifier
    if weights is not None:
        each = np.asarray(weights).reshape(len(weights), log_q.num_folds, -1)[..., mine.taught]
        weights = jax.device_put(each.reshape(len(weights), -1))
    q = jax.device_put(among(log_q.log_q))
    taught = log_q._replace(log_q=q, labels=mine.renumbered(labels), classifier=weights)
    return mine.log_prior, taught
