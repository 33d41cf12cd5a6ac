r"""Piloted counts: classes of users whose neighbour lists are private, from counts by a class that is broadcast.

Each user counts her neighbours by public groups and adds whole noise to each count. One bit of her list moves one
count by one, so each of the K counts takes noise of the whole epsilon, no split; with noisy lists instead the
server would add up the noise of all bits of a group. A pilot reports by fine groups; from it the server learns who
befriends whom, and chooses the groups by which everybody else reports. Nobody reports twice.

Guarantee: that of the reports, epsilon for one bit of one list; everything here is post-processing. Features and
labels are public, and so are who reports in which round, the groups, and all randomness of this module.

>>> from ldp_jax import datasets
>>> from ldp_jax.panel.counts import geometric_noise, neighbour_counts
>>> data = datasets.synthetic(
...     jax.random.key(0), num_nodes=600, num_classes=3, num_features=30, mean_degree=8, homophily=0.8
... )
>>> def noisy_counts(key, question):  # what the users do, each with her own list
...     counts = neighbour_counts(data.graph, question.groups, question.num_groups)
...     return counts + geometric_noise(key, 1.0, counts.shape)
>>> labels = np.where(np.arange(600) < 200, data.y, -1)

``feature_rows(data.x)`` would be the public features; here labels and counts have to do.

>>> found = piloted_counts(jax.random.key(1), noisy_counts, None, labels, 1.0, num_classes=3)
>>> found.log_posterior.shape, found.strength > 0.5
((600, 3), True)
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from ldp_jax import _validate
from ldp_jax.panel.counts import DISPERSIONS, evidence, table_size
from ldp_jax.panel.design import Design, design
from ldp_jax.panel.groups import class_shares, fine_groups, merge, merged
from ldp_jax.panel.guard import guard
from ldp_jax.panel.pilot import GroupShares, expected_counts, group_shares, pilot
from ldp_jax.panel.rows import Rows
from ldp_jax.panel.self_training import RIDGES, blank, features_posterior, folds, label_evidence, self_train
from ldp_jax.panel.stack import combine, stack
from ldp_jax.types import Array, PRNGKey

__all__ = ["PilotedCounts", "Question", "piloted_counts"]


def __dir__() -> list[str]:
    return __all__


_FOLDS, _FEW_FOLDS, _MANY_ENTRIES = 10, 5, 100_000
"""Folds by default: the fewer where features have many entries."""


class Question(NamedTuple):
    """What the server broadcasts in one round, and whom it asks. All of it is public.

    Attributes:
      groups: int32 [n], the group of every node in [0, K), -1 for one that is not counted.
      num_groups: K.
      reporters: bool [n], who reports in this round.
    """

    groups: Int[Array, " n"]
    num_groups: int
    reporters: Bool[np.ndarray, " n"]


NoisyCounts = Callable[[PRNGKey, Question], Int[Array, "n groups"]]
"""What the users do: noisy counts [n, K] of their neighbours. Rows of users who are not asked are never read."""


class PilotedCounts(NamedTuple):
    """What is known of everybody's class.

    Attributes:
      log_posterior: float32 [n, C], all in all; of a labelled user without her label.
      log_q: float32 [n, C], from features alone.
      log_f: float32 [n, C], from features, once reports have taught them.
      log_likelihood: float32 [n, C], of the own report, as far as the guard believes it.
      design: the forecast by which the groups of the second round were chosen.
      strength: s of the guard: 0 where reports are not believed at all.
      by_labels: whether the guard had to ask labels.
      weights: float32 [3], of log q, log f and l.
      model: who befriends whom, from the pilot.
      dispersion: s of the negative binomial, second round.
      pilot: bool [n], who reported in the first round.
    """

    log_posterior: Float[Array, "n classes"]
    log_q: Float[Array, "n classes"]
    log_f: Float[Array, "n classes"]
    log_likelihood: Float[Array, "n classes"]
    design: Design
    strength: float
    by_labels: bool
    weights: Float[Array, " three"]
    model: GroupShares
    dispersion: float
    pilot: Bool[np.ndarray, " n"]


def piloted_counts(
    key: PRNGKey,
    noisy_counts: NoisyCounts,
    rows: Rows | None,
    labels: Int[np.ndarray, " n"],
    epsilon: float,
    *,
    num_classes: int,
    log_q: Float[Array, "n classes"] | None = None,
    num_folds: int | None = None,
    guarded: bool = True,
) -> PilotedCounts:
    """Ask a pilot, then everybody else, and say what class each user is of.

    Args:
      key: of public randomness, and of the users' noise where ``noisy_counts`` simulates them.
      noisy_counts: what the users do; called twice, for disjoint reporters.
      rows: public features (:func:`~ldp_jax.panel.rows.feature_rows`); None where there are none: then
        reports and labels have to do.
      labels: public, int [n] in [0, C), -1 for users who have none.
      epsilon: of each count, in both rounds.
      num_classes: C.
      log_q: a public posterior from elsewhere in place of the features' logistic regression; it must not depend on
        the labels of the labelled users that it is about.
      num_folds: F of the logistic regressions, to which time is proportional; by default 10, and 5 where features
        have more than 10^5 entries.
      guarded: whether the guard may weaken evidence. Without it s is 1.

    Returns:
      See :class:`PilotedCounts`.

    Raises:
      ValueError: for labels outside [-1, C), a class without a label, nobody without a label, rows or a posterior
        of other sizes, an epsilon that is not finite and > 0, before anybody is asked; and for answers of another
        shape than the question's.
    """
    _validate.threefry(key)
    labels = _check(labels, rows, log_q, epsilon, num_classes)
    if num_folds is None:
        num_folds = _FOLDS if rows is None or len(rows.value) <= _MANY_ENTRIES else _FEW_FOLDS
    fold_key, pilot_key, first_key, design_key, second_key = jax.random.split(key, 5)
    known, unlabelled = label_evidence(labels, num_classes), labels < 0

    fold = folds(fold_key, labels, num_folds)
    start = None
    if log_q is not None:
        log_q = jax.nn.log_softmax(jnp.asarray(log_q, jnp.float32))
    elif rows is not None:
        found = features_posterior(rows, labels, fold, num_classes=num_classes, num_folds=num_folds)
        log_q, start = found.log_q, found.classifier
    else:
        share = np.bincount(labels[~unlabelled], minlength=num_classes) / (~unlabelled).sum()
        log_q = jnp.tile(jnp.log(jnp.asarray(share, jnp.float32)), (len(labels), 1))

    prior, fine, num_fine = class_shares(log_q, labels), fine_groups(log_q, labels), 3 * num_classes
    first = pilot(pilot_key, labels)
    reports = _ask(noisy_counts, first_key, Question(fine, num_fine, first))
    model = group_shares(reports, fine, prior, first, epsilon)
    means = expected_counts(model)
    size = table_size(reports, means, epsilon)
    piloted = evidence(reports, means, prior, epsilon, size=size, counted=first)
    dispersion = DISPERSIONS[int(piloted.dispersion)]
    plan = design(design_key, log_q, means, piloted.weights, dispersion, epsilon, size=size, asked=~first)

    groups = merge(plan.best, num_classes)
    reports = _ask(noisy_counts, second_key, Question(groups.groups(fine), groups.num_groups, ~first))
    # Groups that were not asked for are counts of 0 that all classes expect: one program for all merges.
    reports = jnp.pad(reports, ((0, 0), (0, num_fine - groups.num_groups)))
    means = merged(means.reshape(-1, num_fine), groups.column, num_fine).reshape(means.shape)
    size = max(size, table_size(reports, means, epsilon))
    asked = evidence(reports, means, prior, epsilon, size=size, counted=~first)
    own = jnp.where(first[:, None], piloted.log_likelihood, asked.log_likelihood)

    held_out = jnp.where(jnp.asarray(first), -1, labels)  # labels that H has not seen

    def believed(log_p: Array) -> Any:
        return guard(own, jnp.exp(log_p), unlabelled, labels=held_out, label_log_likelihood=own)

    trusted = believed(log_q)
    evident = trusted.log_likelihood if guarded else own
    log_f = log_q
    if rows is not None and (float(trusted.strength) > 0.0 or not guarded):  # else there is nothing to learn
        # Evidence that is too sure of itself would teach too much.
        trust = jnp.clip(stack(jnp.stack([log_q, log_q, evident], -1), held_out)[2], 0.0, 1.0)
        taught = jnp.where(unlabelled[:, None], trust * evident, known)
        begin = blank(rows, num_classes, num_folds) if start is None else start
        log_f = self_train(rows, taught, fold, begin, log_q, ridges=RIDGES, num_folds=num_folds).log_f
        trusted = believed(log_f)
        evident = trusted.log_likelihood if guarded else own
    scores = jnp.stack([log_q, log_f, evident], -1)
    weights = stack(scores, held_out)
    return PilotedCounts(
        log_posterior=combine(scores, weights),
        log_q=log_q,
        log_f=log_f,
        log_likelihood=evident,
        design=plan,
        strength=float(trusted.strength) if guarded else 1.0,
        by_labels=bool(trusted.by_labels),
        weights=weights,
        model=model,
        dispersion=DISPERSIONS[int(asked.dispersion)],
        pilot=first,
    )


def _check(labels: Any, rows: Rows | None, log_q: Any, epsilon: float, num_classes: int) -> np.ndarray:
    """Labels as int32 [n], where everything fits: nothing is spent before."""
    _validate.integer_in(2, num_classes=num_classes)
    _validate.number(0.0, open_lower=True, epsilon=epsilon)
    labels = np.asarray(labels)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"labels must be integers of shape [n], got {labels.dtype} of shape {labels.shape}")
    if len(labels) and (labels.min() < -1 or labels.max() >= num_classes):
        raise ValueError(
            f"labels must be in [0, {num_classes}), or -1 for none; got {labels.min()} to {labels.max()}"
        )
    missing = np.flatnonzero(np.bincount(labels[labels >= 0], minlength=num_classes) == 0)
    if len(missing):
        raise ValueError(
            f"labels must have a member of each of {num_classes} classes, got none of class {missing[0]}"
        )
    if not (labels < 0).any():
        raise ValueError("labels must be -1 for the users whose class is asked for, got a class for everybody")
    if rows is not None and rows.shape[0] != len(labels):
        raise ValueError(f"rows must be of {len(labels)} users, as labels are, got {rows.shape[0]}")
    if log_q is not None and np.shape(log_q) != (len(labels), num_classes):
        raise ValueError(f"log_q must have shape {(len(labels), num_classes)}, got {np.shape(log_q)}")
    return labels.astype(np.int32)


def _ask(noisy_counts: NoisyCounts, key: PRNGKey, question: Question) -> Array:
    """The reports of those who were asked; rows of 0 for others, so that nothing of them can be read."""
    reports = jnp.asarray(noisy_counts(key, question))
    wanted = (len(question.reporters), question.num_groups)
    if reports.shape != wanted or not jnp.issubdtype(reports.dtype, jnp.integer):
        raise ValueError(
            f"noisy_counts must answer with whole numbers of shape {wanted}, "
            f"got {reports.dtype} of shape {reports.shape}"
        )
    return jnp.where(question.reporters[:, None], reports, 0)
