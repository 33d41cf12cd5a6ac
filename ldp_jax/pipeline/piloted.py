r"""Piloted counts: classes of users whose neighbour lists are private, from counts by a class that is broadcast.

Each user counts their neighbours by public groups and adds whole noise to each count. One bit of a list moves one
count by one, so each of the K counts takes noise of the whole epsilon. A pilot reports by fine groups; from it the
server learns who befriends whom, and chooses the groups by which everybody else reports. Nobody reports twice.

The evidence about classes is found twice: by a law of counts that the pilot has fitted, and by a logistic
regression on the counts as they are. Held-out labels say how much each is worth: the law where labels are few, the
regression where friends share what features say already, which the law would count twice. Whoever does not
answer has no count: nothing is learned of them, their evidence is 0, and their class is what features say once
reports have taught them.
Guarantee: that of the reports, epsilon for one bit of one list; everything here is post-processing, of public facts
and public randomness. :func:`ldp_jax.pipeline.predict_from_counts` does all of it in one call, the users' side too.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST
from ldp_jax.core import random_words, validate
from ldp_jax.core.progress import phase
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.edges import NoisyCounts
from ldp_jax.pipeline.counts import DISPERSIONS, evidence, table_size
from ldp_jax.pipeline.design import CountModel, Design, GroupShares, design, expected_counts, group_shares, pilot
from ldp_jax.pipeline.device_classifier import count_regression
from ldp_jax.pipeline.groups import check_posterior, check_teachers, class_shares, fine_groups, merge, merged
from ldp_jax.pipeline.guard import guard
from ldp_jax.pipeline.rows import Features, Rows, Scaling, feature_rows, scaled_rows
from ldp_jax.pipeline.self_training import (
    FeaturesPosterior,
    FoldedLabels,
    best_scaling,
    features_posterior,
    folds,
    label_evidence,
    self_train,
)
from ldp_jax.pipeline.stack import weigh

_FOLDS, _FEW_FOLDS, _MANY_ENTRIES = 10, 5, 100_000  # folds by default: the fewer where features have many entries

_NEAR = 0.99  # whole noise loses so much of its epsilon at least: integers round down

_LEAST = 1e-9  # the least probability of a class by a posterior from elsewhere: trees are sure of what is wrong

# Weights of log q, log f, l and the regression on counts: what would be right if all laws were.
_LAW = (0.0, 1.0, 1.0, 0.0)

# Where weights start and are pulled to: the law, both, the regression. Labels choose among them.
_TOWARDS = np.array((_LAW, (0.0, 1 / 3, 1 / 3, 2 / 3), (0.0, 0.0, 0.0, 1.0)), np.float32)


class PublicFacts(NamedTuple):
    """The public facts of the users.

    Attributes:
      rows: features [n, d], of which held-out labels choose a scaling (:func:`~ldp_jax.pipeline.rows.scaled_rows`);
        one of them (:func:`~ldp_jax.pipeline.rows.feature_rows`), or several; None where there are none.
      labels: int [n] in [0, C), -1, None or NaN for users who have none.
      num_classes: C.
      log_q: a posterior from elsewhere in place of the features' logistic regression, natural logarithms, of which
        probabilities below 1e-9 are raised to it; no user's may depend on their own label. Or what
        :func:`~ldp_jax.pipeline.self_training.features_posterior` found of these very rows and labels.
      silent: bool [n], labelled users who are never asked; nobody by default.
    """

    rows: Features | Rows | Mapping[Scaling, Rows] | None
    labels: Int[np.ndarray, " n"]
    num_classes: int
    log_q: Float[Array | np.ndarray, "n classes"] | FeaturesPosterior | None = None
    silent: Bool[np.ndarray, " n"] | None = None

    __repr__ = by_shapes

    def scaled(self) -> Rows | Mapping[Scaling, Rows] | None:
        """Rows or scalings as they are, and features scaled: to length 1 where their posterior is known already."""
        if self.rows is None or isinstance(self.rows, (Rows, Mapping)):
            return self.rows
        return feature_rows(self.rows) if isinstance(self.log_q, FeaturesPosterior) else scaled_rows(self.rows)

    @property
    def quiet(self) -> Bool[np.ndarray, " n"]:
        """The users who are never asked."""
        return np.zeros(len(self.labels), bool) if self.silent is None else np.asarray(self.silent)


class CountRound(NamedTuple):
    """The server's broadcast of one round, and whom it asks. All of it is public.

    Attributes:
      groups: int32 [n], the group of every node in [0, K), -1 for one that is not counted.
      num_groups: K.
      reporters: bool [n], who reports in this round.
      confidence: float32 [n], the largest probability of each user's class from features alone: the same in both
        rounds, so that by it each pair may have one owner (:func:`ldp_jax.edges.ownership`).
    """

    groups: Int[Array | np.ndarray, " n"]
    num_groups: int
    reporters: Bool[np.ndarray, " n"]
    confidence: Float[np.ndarray, " n"]

    __repr__ = by_shapes


Ask = Callable[[PRNGKey, CountRound], NoisyCounts | Int[Array, "n groups"]]
"""What the users do: noisy counts [n, K] of their neighbours. Rows of users who are not asked are never read. Whole
numbers alone are taken for what was asked, of all; of :class:`~ldp_jax.edges.NoisyCounts` it is checked, and some
may be silent."""


class PilotedCounts(NamedTuple):
    """The posterior of everybody's class, and each step to it.

    Attributes:
      log_posterior: float32 [n, C], all in all; of a labelled user without their label.
      log_q: float32 [n, C], from features alone.
      log_f: float32 [n, C], from features, once reports have taught them.
      log_likelihood: float32 [n, C], of the own report, as far as the guard believes it; 0 of the silent.
      log_regression: float32 [n, C], of a logistic regression on log q and the own report; 0 if none is believed.
      design: the forecast by which the groups of the second round were chosen.
      strength: s of the guard: 0 where reports are not believed at all.
      by_labels: whether the guard had to ask labels.
      weights: float32 [4], of log q, log f, l and the regression.
      model: who befriends whom, from the pilot.
      dispersion: s of the negative binomial, second round.
      pilot: bool [n], who reported in the first round.
      scaling: of the features, by held-out labels; None where one was given.
    """

    log_posterior: Float[Array, "n classes"]
    log_q: Float[Array, "n classes"]
    log_f: Float[Array, "n classes"]
    log_likelihood: Float[Array, "n classes"]
    log_regression: Float[Array, "n classes"]
    design: Design
    strength: float
    by_labels: bool
    weights: Float[Array, " four"]
    model: GroupShares
    dispersion: float
    pilot: Bool[np.ndarray, " n"]
    scaling: Scaling | None = None

    __repr__ = by_shapes

    @property
    def classes(self) -> Int[np.ndarray, " n"]:
        """The likeliest class of each user."""
        return np.asarray(self.log_posterior).argmax(1)


def piloted_counts(
    key: PRNGKey,
    noisy_counts: Ask,
    public: PublicFacts,
    epsilon: float,
    *,
    num_folds: int | None = None,
    guarded: bool = True,
) -> PilotedCounts:
    """Ask a pilot, then everybody else, and say what class each user is of.

    Args:
      key: of public randomness, and of the users' noise where ``noisy_counts`` simulates them.
      noisy_counts: what the users do (:data:`Ask`); called twice, for disjoint reporters.
      public: features, labels, and what was found of them.
      epsilon: of each count, in both rounds.
      num_folds: F of the regressions, whose time it multiplies; by default 10, above 10^5 entries of features 5.
      guarded: whether the guard may weaken evidence. Without it s is 1.

    ``ValueError`` before anybody is asked, for facts that do not fit each other or an epsilon that is not finite
    and > 0; and for answers of another shape than the round's, of another epsilon, or of users who were not asked.
    """
    validate.threefry(key)
    public = _checked(public, epsilon)
    fold_key, pilot_key, first_key, design_key, second_key = random_words.split(key, 5)
    labels, quiet, classes = np.asarray(public.labels, np.int32), public.quiet, public.num_classes
    phase("what features say", 0.0)
    rows, known, scaling = _features(fold_key, public, num_folds)
    log_q, num_fine = np.asarray(known.log_q), 3 * classes
    prior, fine, confidence = class_shares(log_q, labels), fine_groups(log_q, labels), np.exp(log_q).max(-1)
    piloting = pilot(pilot_key, labels, quiet)
    phase("the pilot reports", 0.3)
    asked_by = CountRound(fine, num_fine, piloting, confidence)
    pilot_reports, first = _ask(noisy_counts, first_key, asked_by, epsilon)
    model = group_shares(pilot_reports, fine, prior, first, epsilon)
    means = expected_counts(model)
    size = table_size(pilot_reports, means, epsilon)
    piloted = evidence(pilot_reports, means, prior, epsilon, size=size, counted=first)
    expected = CountModel(means, piloted.weights, DISPERSIONS[piloted.dispersion])
    phase("the groups of the others", 0.45)
    plan = design(design_key, log_q, expected, epsilon, size=size, asked=~piloting & ~quiet)

    column = merge(plan.best, classes)
    asked_by = CountRound(column[fine], int(column.max()) + 1, ~piloting & ~quiet, confidence)
    phase("the others report", 0.55)
    reports, second = _ask(noisy_counts, second_key, asked_by, epsilon)
    # Groups that were not asked for are counts of 0 that all classes expect: one program for all merges.
    reports = np.pad(reports, ((0, 0), (0, num_fine - asked_by.num_groups)))
    means = merged(means.reshape(-1, num_fine), column, num_fine).reshape(means.shape)
    size = max(size, table_size(reports, means, epsilon))
    asked = evidence(reports, means, prior, epsilon, size=size, counted=second)
    own = np.where(first[:, None], piloted.log_likelihood, asked.log_likelihood)
    own = np.where((first | second)[:, None], own, np.float32(0.0))
    counts = np.where(first[:, None], merged(pilot_reports, column, num_fine), reports)
    phase("what reports teach", 0.65)
    learned = _learned(known, rows, own, counts, first + 2 * second, guarded)
    return PilotedCounts(
        **learned, log_q=jax.device_put(log_q), design=plan, model=model,
        dispersion=DISPERSIONS[asked.dispersion], pilot=first, scaling=scaling,
    )  # fmt: skip


def with_posterior(key: PRNGKey, public: PublicFacts) -> PublicFacts:
    """The same facts with features in one scaling and a :class:`FeaturesPosterior` for ``log_q``: found once.

    ``ValueError`` as :func:`piloted_counts`.
    """
    validate.threefry(key)
    public = _checked(public, 1.0)
    rows, known, _ = _features(key, public, None)
    return public._replace(rows=rows, log_q=known)


def _features(
    key: PRNGKey, public: PublicFacts, num_folds: int | None
) -> tuple[Rows | None, FeaturesPosterior, Scaling | None]:
    """The features in one scaling, what they say of classes, and which scaling labels chose."""
    rows, labels, log_q, scaling = public.scaled(), np.asarray(public.labels, np.int32), public.log_q, None
    first = next(iter(rows.values())) if isinstance(rows, Mapping) else rows
    if num_folds is None:
        num_folds = _FOLDS if first is None or len(first.value) <= _MANY_ENTRIES else _FEW_FOLDS
    fold = folds(key, labels, num_folds)
    given = {"num_classes": public.num_classes, "num_folds": num_folds}
    if isinstance(rows, Mapping):
        scaling, chosen = best_scaling(rows, labels, fold, **given)
        rows, log_q = rows[scaling], chosen if log_q is None else log_q
    if isinstance(log_q, FeaturesPosterior):
        return rows, log_q, scaling
    if log_q is None and rows is not None:
        return rows, features_posterior(rows, labels, fold, **given), scaling
    if log_q is None:
        share = np.bincount(labels[labels >= 0], minlength=public.num_classes) / (labels >= 0).sum()
        log_q = jax.device_put(np.tile(np.log(share.astype(np.float32)), (len(labels), 1)))
    else:  # what no class may have is no evidence against it that reports could not outweigh
        log_q = jnp.maximum(jax.nn.log_softmax(jnp.asarray(log_q, jnp.float32)), np.float32(np.log(_LEAST)))
    return rows, FeaturesPosterior(log_q, fold, num_folds, labels), scaling


def _learned(
    known: FeaturesPosterior, rows: Rows | None, own: np.ndarray, counts: np.ndarray, nth: np.ndarray, guarded: bool
) -> dict:
    """How far reports are believed, what they teach, and the posterior of all: fields of :class:`PilotedCounts`."""
    # ``own`` [n, C] is the evidence of own reports, ``counts`` [n, 3 C] these by the groups of the second round,
    # ``nth`` [n] the round of each user, 0 for none. With reports of the first the model agrees by its very fit.
    reported, unseen = nth > 0, nth == 2
    log_q, labels, classes = known.log_q, known.labels, own.shape[1]
    log_q_here = np.asarray(log_q)
    unlabelled, teachers = labels < 0, labels[(labels >= 0) & reported]
    held_out, judged = np.where(unseen, labels, -1), unlabelled & unseen

    trusted = guard(own, np.exp(log_q_here), judged, held_out)
    evident, useful = (trusted.log_likelihood if guarded else own), not guarded or trusted.strength > 0.0
    log_f, regression, towards = log_q, np.zeros_like(log_q_here), _TOWARDS[[0, 0, 0]]
    if rows is not None and useful:  # else there is nothing to learn
        # Evidence that is too sure of itself would teach too much.
        scores = np.stack([log_q_here, log_q_here, evident, regression], -1)
        trust = np.clip(weigh(scores, held_out, towards)[1][2], 0.0, 1.0)
        of_labels = label_evidence(labels, classes)
        learned = self_train(rows, np.where(unlabelled[:, None], trust * np.asarray(evident), of_labels), known)
        trusted = guard(own, np.exp(learned), judged, held_out)
        evident, useful = (trusted.log_likelihood if guarded else own), not guarded or trusted.strength > 0.0
        # Reports that are not believed by what they have taught have taught nothing.
        log_f = learned if useful else log_q
    if useful and np.bincount(teachers, minlength=classes).all():  # of a class that is silent it would know nothing
        towards = _TOWARDS
        labelled = FoldedLabels(labels, classes, known.fold, known.num_folds)
        regression = count_regression(log_q, counts, labelled, reported)
    scores = np.stack([log_q_here, log_f, evident, regression], -1)
    log_posterior, weights = weigh(scores, held_out, towards)
    arrays = {
        "log_posterior": log_posterior, "log_f": log_f, "log_likelihood": evident, "log_regression": regression,
        "weights": weights,
    }  # fmt: skip
    strength = trusted.strength if guarded else 1.0
    return {**jax.device_put(arrays), "strength": strength, "by_labels": trusted.by_labels}


def _checked(public: PublicFacts, epsilon: float) -> PublicFacts:
    """The facts with labels as whole numbers; what does not fit is refused, and nothing is spent before."""
    labels, classes, log_q = validate.labels(public.labels), public.num_classes, public.log_q
    check_teachers(labels, classes)
    validate.number(0.0, open_lower=True, epsilon=epsilon)
    scaled = public.scaled()
    rows = next(iter(scaled.values())) if isinstance(scaled, Mapping) else scaled
    if rows is not None and (rows.shape[0] != len(labels) or not rows.shape[1]):
        raise ValueError(
            f"rows must be of {len(labels)} users, as labels are, and have columns, got shape {rows.shape}"
        )
    given = log_q.log_q if isinstance(log_q, FeaturesPosterior) else log_q
    if given is not None and np.shape(given) != (len(labels), classes):
        raise ValueError(f"log_q must have shape {(len(labels), classes)}, got {np.shape(given)}")
    if isinstance(log_q, FeaturesPosterior):
        if not np.array_equal(log_q.labels, labels):
            raise ValueError("log_q must be of these labels, and was found of others")
    elif given is not None:
        check_posterior(np.asarray(given, np.float32))
    quiet = validate.mask(len(labels), silent=public.quiet)
    if (quiet & (labels < 0)).any():
        raise ValueError("silent users must have a label: of the others the class is asked for, by their reports")
    left = np.bincount(labels[(labels >= 0) & ~quiet], minlength=classes)
    if not left.all():
        raise ValueError(f"silent must leave a labelled user of each class, got none of class {left.argmin()}")
    return public._replace(labels=labels, rows=scaled)


def _ask(noisy_counts: Ask, key: PRNGKey, count_round: CountRound, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """The reports, and who sent one; rows of 0 for others, so that nothing of them can be read."""
    answer, who = noisy_counts(key, count_round), count_round.reporters
    if isinstance(answer, NoisyCounts):
        lost = answer.guarantee[NEIGHBOUR_LIST].epsilon
        if not _NEAR * epsilon <= lost <= epsilon * (1 + 1e-9):
            raise ValueError(f"noisy_counts must be of epsilon {epsilon:g} in both rounds, got one of {lost:g}")
        others = int((answer.reported & ~count_round.reporters).sum())
        if others:
            raise ValueError(f"noisy_counts must be of who is asked: {others} reported who are not in this round")
        answer, who = answer.counts, answer.reported
    reports = np.asarray(answer)
    wanted = (len(count_round.reporters), count_round.num_groups)
    if reports.shape != wanted or not np.issubdtype(reports.dtype, np.integer):
        got = f"got {reports.dtype} of shape {reports.shape}"
        raise ValueError(f"noisy_counts must answer with whole numbers of shape {wanted}, {got}")
    return np.where(who[:, None], reports, 0).astype(np.int32), who
