r"""Two-round counts.

Classes of users whose neighbour lists are private, from counts of neighbours by public group.

Each user counts their neighbours by public group and adds discrete Laplace noise to each count. One
bit of a list moves one count by one, so each of the K counts takes noise of the whole epsilon. A
pilot reports by fine groups. From it the server learns who befriends whom, and chooses the groups
by which everybody else reports. Nobody reports twice.

The evidence about classes is found twice: by a law of counts that is fitted on the pilot, and by a
logistic regression on the counts as they are. Held-out labels say how much each is worth. The law
wins where labels are few, the regression where friends share what features say already, which the
law would count twice. A user who does not answer has no count: nothing is learned of them, and
their evidence is 0.
Guarantee: that of the reports, epsilon for one bit of one list; everything here is post-processing,
of public facts and public randomness.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Int
from scipy.special import log_softmax

from ldp_jax.accounting.guarantee import PipelineGuarantee
from ldp_jax.accounting.statement import Role, Statement
from ldp_jax.core import random_words, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.ownership import Ownership
from ldp_jax.core.progress import Progress, phase, watched
from ldp_jax.core.pytree import pytree
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import Array, Graph, PRNGKey
from ldp_jax.deployment import Question as Shipped
from ldp_jax.edges import NeighbourCounts, ownership
from ldp_jax.graph.graphs import GraphSet
from ldp_jax.servers.driver import simulate
from ldp_jax.servers.parts.absent import Numbering, absent_words
from ldp_jax.servers.parts.arrived import ReportRows
from ldp_jax.servers.parts.count_evidence import DISPERSIONS, evidence, table_size
from ldp_jax.servers.parts.device_classifier import count_regression
from ldp_jax.servers.parts.group_design import (
    CountModel,
    Design,
    GroupShares,
    design,
    expected_counts,
    group_shares,
    pilot,
)
from ldp_jax.servers.parts.groups import (
    check_posterior,
    check_teachers,
    class_shares,
    fine_groups,
    merge,
    merged,
)
from ldp_jax.servers.parts.guard import guard
from ldp_jax.servers.parts.rows import (
    Features,
    Rows,
    Scaling,
    feature_rows,
    scaled_rows,
    warn_of_columns,
)
from ldp_jax.servers.parts.self_training import (
    FeaturesPosterior,
    FoldedLabels,
    best_scaling,
    features_posterior,
    folds,
    label_evidence,
    self_train,
)
from ldp_jax.servers.parts.stack import weigh
from ldp_jax.servers.questions import Answers, CountQuestion
from ldp_jax.servers.stored import DeviceUsers
from ldp_jax.servers.users import of_graph

Protects = Literal["list", "relationship"]
"""What epsilon is about: one bit of one list, or one edge, at both of its ends."""

AskDevices = Callable[[Shipped, Bool[np.ndarray, " n"]], ReportRows]
"""Broadcasts a question to those who are asked, and returns the rows that have arrived."""

_FOLDS = 10
_FEW_FOLDS = 5  # where features have more entries than _MANY_ENTRIES
_MANY_ENTRIES = 100_000

_REACH = 40.0  # of noise, over epsilon: one count in e^40 is beyond

# the least probability of a class in a posterior from elsewhere: trees are sure of what is wrong
_LEAST = 1e-9

# Weights of log q, log f, the law's evidence and the regression, which would be right if all laws
# were.
_LAW = (0.0, 1.0, 1.0, 0.0)

# Weights start at the law, at both, or at the regression, and are pulled there. Labels choose among
# the three.
_TOWARDS = np.array((_LAW, (0.0, 1 / 3, 1 / 3, 2 / 3), (0.0, 0.0, 0.0, 1.0)), np.float32)

_EXPOSES = (
    "number of nodes",
    "features",
    "labels",
    "groups of nodes",
    "who reports in which round",
)


# --- Public facts ---------------------------------------------------------------------------------


class CountFacts(NamedTuple):
    """What is public before anybody reports, of any epsilon; made by :func:`count_facts`.

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
    log_q: Float[Array | np.ndarray, "n classes"] | FeaturesPosterior | None = None,
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
      num_folds: F of the regressions, whose time it multiplies; by default 10, and 5 above 10^5
        entries.

    ``ValueError`` for facts that do not fit each other.
    """
    validate.threefry(key)
    labels = validate.labels(labels)
    check_teachers(labels, num_classes)
    rows = _scaled(features, known=isinstance(log_q, FeaturesPosterior))
    first = next(iter(rows.values())) if isinstance(rows, Mapping) else rows
    if first is not None and (first.shape[0] != len(labels) or not first.shape[1]):
        raise ValueError(
            f"rows must be of {len(labels)} users, as labels are, and have columns, got shape {first.shape}"
        )
    _check_posterior(log_q, labels, num_classes)
    quiet = _quiet(silent, labels, num_classes)
    mine = Numbering.of(labels, num_classes)
    if mine.absent:
        log_prior = (
            mine.log_prior
            if log_q is None or isinstance(log_q, FeaturesPosterior)
            else _floored(log_q)
        )
        found = count_facts(
            key, rows, mine.renumbered(labels), num_classes=len(mine.taught), log_q=_taught(log_q, mine, labels),
            silent=silent, num_folds=num_folds,
        )  # fmt: skip
        return found._replace(numbering=mine, log_prior=log_prior)
    labels = labels.astype(np.int32)
    if num_folds is None:
        few = first is None or len(first.value) <= _MANY_ENTRIES
        num_folds = _FOLDS if few else _FEW_FOLDS
    fold = folds(key, labels, num_folds)
    scaling = None
    if isinstance(rows, Mapping):
        scaling, chosen = best_scaling(
            rows, labels, fold, num_classes=num_classes, num_folds=num_folds
        )
        rows = rows[scaling]
        log_q = chosen if log_q is None else log_q
    if not isinstance(log_q, FeaturesPosterior):
        if log_q is None and rows is not None:
            log_q = features_posterior(
                rows, labels, fold, num_classes=num_classes, num_folds=num_folds
            )
        else:
            log_q = FeaturesPosterior(_given(log_q, labels, num_classes), fold, num_folds, labels)
    return CountFacts(rows, log_q, num_classes, quiet, scaling)


def _scaled(
    features: Features | Rows | Mapping[Scaling, Rows] | None, *, known: bool
) -> Rows | Mapping | None:
    """Rows as they are.

    Features in every scaling, or of length 1 where their posterior is known already.
    """
    if features is None or isinstance(features, (Rows, Mapping)):
        return features
    return feature_rows(features) if known else scaled_rows(features)


def _given(log_q: Array | np.ndarray | None, labels: np.ndarray, num_classes: int) -> Array:
    """A posterior from elsewhere, or the shares of classes among the labels for everybody."""
    if log_q is None:
        known = labels[labels >= 0]
        share = np.bincount(known, minlength=num_classes) / len(known)
        return jax.device_put(np.tile(np.log(share.astype(np.float32)), (len(labels), 1)))
    # A class of probability 0 would be evidence that no report could outweigh.
    return jnp.maximum(
        jax.nn.log_softmax(jnp.asarray(log_q, jnp.float32)), np.float32(np.log(_LEAST))
    )


def _taught(
    log_q: Array | np.ndarray | FeaturesPosterior | None, mine: Numbering, labels: np.ndarray
) -> Array | np.ndarray | FeaturesPosterior | None:
    """A posterior of all classes as one of those that labels name."""
    if log_q is None:
        return None
    if not isinstance(log_q, FeaturesPosterior):
        return _among(_floored(log_q), mine)
    weights = log_q.classifier
    if weights is not None:
        each = np.asarray(weights).reshape(len(weights), log_q.num_folds, -1)[..., mine.taught]
        weights = jax.device_put(each.reshape(len(weights), -1))
    q = jax.device_put(_among(log_q.log_q, mine))
    return log_q._replace(log_q=q, labels=mine.renumbered(labels), classifier=weights)


def _floored(log_q: Array | np.ndarray) -> Float[np.ndarray, "n classes"]:
    """A posterior from elsewhere of which no probability is 0."""
    least = np.float32(np.log(_LEAST))
    given = log_softmax(np.asarray(log_q, np.float64), axis=1)
    return log_softmax(np.maximum(given, least), axis=1)


def _among(log_q: Array | np.ndarray, mine: Numbering) -> Float[np.ndarray, "n taught"]:
    given = np.asarray(log_q, np.float64)[:, mine.taught]
    return log_softmax(given, axis=1).astype(np.float32)


def _check_posterior(
    log_q: Array | np.ndarray | FeaturesPosterior | None, labels: np.ndarray, num_classes: int
) -> None:
    if log_q is None:
        return
    given = log_q.log_q if isinstance(log_q, FeaturesPosterior) else log_q
    wanted = (len(labels), num_classes)
    if np.shape(given) != wanted:
        raise ValueError(f"log_q must have shape {wanted}, got {np.shape(given)}")
    if not isinstance(log_q, FeaturesPosterior):
        check_posterior(np.asarray(given, np.float32))
    elif not np.array_equal(log_q.labels, labels):
        raise ValueError("log_q must be of these labels, and was found of others")


def _quiet(silent: np.ndarray | None, labels: np.ndarray, num_classes: int) -> np.ndarray:
    """The users who are never asked; they are labelled, and leave a labelled user of each class."""
    silent = None if silent is None else validate.complete(silent=silent)
    quiet = validate.mask(len(labels), False, silent=silent)
    if (quiet & (labels < 0)).any():
        raise ValueError(
            "silent users must have a label: of the others the class is asked for, by their reports"
        )
    named = np.bincount(labels[labels >= 0], minlength=num_classes)
    left = np.bincount(labels[(labels >= 0) & ~quiet], minlength=num_classes)
    lost = (named > 0) & (left == 0)
    if lost.any():
        raise ValueError(
            f"silent must leave a labelled user of each class, got none of class {lost.argmax()}"
        )
    return quiet


# --- The server -----------------------------------------------------------------------------------


@pytree
class Piloting:
    """The pilot is asked, by fine groups."""

    question: CountQuestion
    design_key: PRNGKey


@pytree
class Counting:
    """The others are asked, by the groups that the pilot's reports chose.

    Attributes:
      question: to the others.
      reports: int32 [n, 3 C], of the pilot, by fine group.
      first: bool [n], who of the pilot reported.
      evidence: float32 [n, C], of the pilot's reports.
      model: who befriends whom, from the pilot.
      plan: the forecast by which the groups were chosen.
    """

    question: CountQuestion
    reports: Int[np.ndarray, "n fine"]
    first: Bool[np.ndarray, " n"]
    evidence: Float[Array, "n classes"]
    model: GroupShares
    plan: Design


class PilotedCounts(NamedTuple):
    """The posterior of everybody's class, and each step to it.

    Attributes:
      log_posterior: float32 [n, C], all in all; of a labelled user without their label.
      log_q: float32 [n, C], from features alone.
      log_f: float32 [n, C], from features, after training on the reports too.
      log_likelihood: float32 [n, C], of the own report, as far as the guard believes it; 0 of
        silent users.
      log_regression: float32 [n, C], of a logistic regression on log q and the own report; 0 if
        none is believed.
      design: the forecast by which the groups of the second round were chosen.
      strength: s of the guard: 0 where reports are not believed at all.
      by_labels: whether the guard had to ask labels.
      weights: float32 [4], of log q, log f, the evidence and the regression.
      model: who befriends whom, from the pilot.
      dispersion: s of the negative binomial, second round.
      pilot: bool [n], who reported in the first round.
      round: int8 [n], in which of the two rounds a user reported; 0 for one who did not.
      scaling: of the features, by held-out labels; None where one was given.
      absent: the classes that no label names. Their posterior is the prior, or what a posterior
        from elsewhere gives (:mod:`ldp_jax.servers.parts.absent`). ``model`` has the other classes
        alone, renumbered.
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
    round: Int[np.ndarray, " n"]
    scaling: Scaling | None = None
    absent: tuple[int, ...] = ()

    __repr__ = by_shapes

    @property
    def classes(self) -> Int[np.ndarray, " n"]:
        """The likeliest class of each user."""
        return np.asarray(self.log_posterior).argmax(1)


@dataclasses.dataclass(frozen=True)
class CountServer:
    """Ask a pilot, then everybody else, and say what class each user is of.

    Attributes:
      facts: see :func:`count_facts`.
      epsilon: of each count, in both rounds, in [0.001, 40].
      unit: of epsilon. Where it is a relationship, each pair has one owner in both rounds: the user
        whose class features are less sure of, and of a pair with a silent user the other one.
      most: the largest count that is reported.
      guarded: whether the guard may weaken evidence. Without it s is 1.
    """

    facts: CountFacts
    epsilon: float
    unit: Protects = "list"
    most: int = 65_535
    guarded: bool = True

    __repr__ = by_shapes

    def __post_init__(self) -> None:
        validate.one_of(("list", "relationship"), unit=self.unit)
        NeighbourCounts(
            self.epsilon, 1, most=self.most
        )  # refuses an epsilon before anybody is asked

    def statement(self) -> Statement:
        """One report of counts of each user who is not silent."""
        asked = ~self.facts.silent
        cost = self._question(np.zeros(len(asked), np.int32), asked, 1, 0).cost()
        return Statement.of(Role((cost,), asked), exposes=_EXPOSES, protects=("edges",))

    def init(self, key: PRNGKey) -> Piloting:
        """Steps 2 and 3: fine groups, and the pilot."""
        pilot_key, design_key = random_words.split(key)
        facts = self.facts
        fine = fine_groups(facts.log_q, facts.labels)
        asked = pilot(pilot_key, facts.labels, facts.silent)
        return Piloting(self._question(fine, asked, 3 * facts.num_classes, 0), design_key)

    def step(self, state: Piloting | Counting, answers: Answers) -> Counting | PilotedCounts:
        """What the pilot's reports say, and then what all reports say."""
        if isinstance(state, Piloting):
            return self._designed(state, answers)
        return self._concluded(state, answers)

    def _question(
        self, groups: np.ndarray, asked: np.ndarray, num_groups: int, round: int
    ) -> CountQuestion:
        return CountQuestion(
            groups,
            asked,
            self._owners(),
            num_groups=num_groups,
            epsilon=self.epsilon,
            most=self.most,
            round=round,
        )

    def _owners(self) -> Ownership | None:
        if self.unit == "list":
            return None
        return ownership(np.exp(self.facts.log_q).max(-1), self.facts.silent)

    def _designed(self, state: Piloting, answers: Answers) -> Counting:
        """Steps 4 to 6.

        Who befriends whom, what the pilot's reports say, and the groups of the others.
        """
        facts = self.facts
        classes = facts.num_classes
        epsilon = state.question.epsilon
        fine = np.asarray(state.question.groups)
        prior = class_shares(facts.log_q, facts.labels)
        reports = _clipped(state.question, answers)
        model = group_shares(reports, fine, prior, answers.reported, epsilon)
        means = expected_counts(model)
        size = table_size(reports, means, epsilon)
        found = evidence(reports, means, prior, epsilon, size=size, counted=answers.reported)

        phase("the groups of the others", 0.3)
        others = ~np.asarray(state.question.asked) & ~facts.silent
        expected = CountModel(means, found.weights, DISPERSIONS[found.dispersion])
        plan = design(state.design_key, facts.log_q, expected, epsilon, size=size, asked=others)
        column = merge(plan.best, classes)
        question = self._question(column[fine], others, int(column.max()) + 1, 1)
        return Counting(
            question, reports, np.asarray(answers.reported), found.log_likelihood, model, plan
        )

    def _concluded(self, state: Counting, answers: Answers) -> PilotedCounts:
        """Steps 7 to 10: the evidence of all reports, what they teach, and the posterior."""
        facts = self.facts
        num_fine = 3 * facts.num_classes
        epsilon = state.question.epsilon
        column = merge(state.plan.best, facts.num_classes)
        prior = class_shares(facts.log_q, facts.labels)
        first, second = np.asarray(state.first), np.asarray(answers.reported)
        reports = _clipped(state.question, answers)
        # Groups that were not asked for are counts of 0 that all classes expect: one program for
        # all merges.
        reports = np.pad(reports, ((0, 0), (0, num_fine - reports.shape[1])))
        fine_means = expected_counts(state.model)
        means = merged(fine_means.reshape(-1, num_fine), column, num_fine).reshape(fine_means.shape)
        pilot_size = table_size(state.reports, fine_means, epsilon)
        size = max(pilot_size, table_size(reports, means, epsilon))
        asked = evidence(reports, means, prior, epsilon, size=size, counted=second)

        own = np.where(first[:, None], state.evidence, asked.log_likelihood)
        own = np.where((first | second)[:, None], own, np.float32(0.0))
        counts = np.where(first[:, None], merged(state.reports, column, num_fine), reports)
        phase("what reports teach", 0.65)
        round = np.where(first, np.int8(1), np.int8(2) * second)
        learned = _learned(facts, own, counts, round, self.guarded)
        found = PilotedCounts(
            **learned, log_q=jax.device_put(facts.log_q), design=state.plan, model=state.model,
            dispersion=DISPERSIONS[asked.dispersion], pilot=first, round=round, scaling=facts.scaling,
        )  # fmt: skip
        return (
            found
            if facts.numbering is None
            else counts_of_all(found, facts.numbering, facts.log_prior)
        )


def counts_of_all(
    found: PilotedCounts, mine: Numbering, log_prior: Float[np.ndarray, "... classes"] | None = None
) -> PilotedCounts:
    """The same with absent classes, which have ``log_prior``, by default the shares of labels."""
    believed = bool(np.asarray(found.log_regression).any())
    posteriors = ("log_posterior", "log_q", "log_f", *(("log_regression",) if believed else ()))
    arrays = {name: mine.posterior(getattr(found, name), log_prior) for name in posteriors}
    arrays["log_likelihood"] = mine.evidence(found.log_likelihood, found.log_q)
    if not believed:
        arrays["log_regression"] = mine.spread(found.log_regression, 0.0)
    return found._replace(**jax.device_put(arrays), absent=mine.absent)


def _clipped(question: CountQuestion, answers: Answers) -> Int[np.ndarray, "n groups"]:
    """Reports within the size of each group and what noise adds, of users who reported.

    0 of others.

    Nobody has more friends than a group has members, so a lie moves no more, and lengthens no
    table.
    """
    groups = np.asarray(question.groups)
    reach = math.ceil(_REACH / question.epsilon)
    most = np.bincount(groups[groups >= 0], minlength=question.num_groups) + reach
    counts = np.clip(np.asarray(answers.values), -reach, most)
    return np.where(answers.reported[:, None], counts, 0).astype(np.int32)


def _learned(
    facts: CountFacts, own: np.ndarray, counts: np.ndarray, round: np.ndarray, guarded: bool
) -> dict[str, Any]:
    """How far reports are believed, what they teach, and the posterior of all.

    Fields of :class:`PilotedCounts`.

    ``own`` [n, C] is the evidence of own reports, ``counts`` [n, 3 C] these by the groups of the
    second round. The guard is asked about reports of the second round alone: with those of the
    first the model agrees by its fit.
    """
    reported = round > 0
    unseen = round == 2
    log_q = facts.log_q
    labels = facts.labels
    classes = facts.num_classes
    unlabelled = labels < 0
    held_out = np.where(unseen, labels, -1)
    judged = unlabelled & unseen

    trusted = guard(own, np.exp(log_q), judged, held_out)
    evident = trusted.log_likelihood if guarded else own
    useful = not guarded or trusted.strength > 0.0
    log_f = facts.known.log_q
    regression = np.zeros_like(log_q)
    towards = _TOWARDS[[0, 0, 0]]
    if facts.rows is not None and useful:
        # Evidence that is too sure of itself would teach too much.
        scores = np.stack([log_q, log_q, evident, regression], -1)
        trust = np.clip(weigh(scores, held_out, towards)[1][2], 0.0, 1.0)
        of_labels = label_evidence(labels, classes)
        lesson = np.where(unlabelled[:, None], trust * np.asarray(evident), of_labels)
        learned = self_train(facts.rows, lesson, facts.known)
        trusted = guard(own, np.exp(learned), judged, held_out)
        evident = trusted.log_likelihood if guarded else own
        useful = not guarded or trusted.strength > 0.0
        # If the guard rejects the reports after retraining, the retrained model is discarded.
        log_f = learned if useful else facts.known.log_q
    teachers = labels[(labels >= 0) & reported]
    # A regression would know nothing of a class of which no labelled user reported.
    if useful and np.bincount(teachers, minlength=classes).all():
        towards = _TOWARDS
        labelled = FoldedLabels(labels, classes, facts.known.fold, facts.known.num_folds)
        regression = count_regression(facts.known.log_q, counts, labelled, reported)
    scores = np.stack([log_q, log_f, evident, regression], -1)
    log_posterior, weights = weigh(scores, held_out, towards)
    arrays = {
        "log_posterior": log_posterior, "log_f": log_f, "log_likelihood": evident, "log_regression": regression,
        "weights": weights,
    }  # fmt: skip
    strength = trusted.strength if guarded else 1.0
    return {**jax.device_put(arrays), "strength": strength, "by_labels": trusted.by_labels}


# --- In one call ----------------------------------------------------------------------------------


class CountedClasses(NamedTuple):
    """The posterior of everybody's class, and what it cost.

    Attributes:
      log_posterior: float32 [n, C], all in all; of a labelled user without their label.
      found: every step on the way: features alone, the forecast by which the groups were chosen,
        the guard's s, ...
      round: int8 [n], in which of the two rounds a user reported; 0 for one who did not.
      guarantee: per bit of a list and per relationship; names what is protected and what is not.
    """

    log_posterior: Float[Array, "n classes"]
    found: PilotedCounts
    round: Int[np.ndarray, " n"]
    guarantee: PipelineGuarantee

    @property
    def classes(self) -> Int[np.ndarray, " n"]:
        """The likeliest class of each user."""
        return np.asarray(self.log_posterior).argmax(1)

    @property
    def strength(self) -> float:
        """s of the guard: how far the reports were believed."""
        return self.found.strength

    @property
    def scaling(self) -> Scaling | None:
        """Which scaling of the features held-out labels chose; None where there was no choice."""
        return self.found.scaling

    @property
    def absent(self) -> tuple[int, ...]:
        """The classes that no label names. Their posterior is the prior."""
        return self.found.absent

    def __repr__(self) -> str:
        n, classes = self.log_posterior.shape
        scaled = "" if self.scaling is None else f", features scaled by {self.scaling!r}"
        return (
            f"CountedClasses({n} users, {classes} classes, counted by {self.found.design.best!r}, "
            f"strength {self.strength:.2f}{scaled}{absent_words(self.absent)})"
        )


def silent_users(key: PRNGKey, labels: Int[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
    """Labelled users who report nothing, half of each class.

    At least two of a class report, where it has two.

    A reporter owns every pair with a silent user, whose label is known. The silent users' own
    reports would say least, but teach the model. ``labels`` are -1 for none, and the key is of
    public randomness.

    >>> int(silent_users(jax.random.key(0), np.array([0] * 10 + [1] * 2 + [-1] * 5)).sum())
    5
    """
    validate.threefry(key)
    labels = np.asarray(labels)
    place = random_words.places_within(key, labels)
    size = np.bincount(labels[labels >= 0], minlength=1)
    quiet = np.minimum(np.round(0.5 * size), np.maximum(size - 2, 0))
    return (labels >= 0) & (place < quiet[np.maximum(labels, 0)])


def predict_from_counts(
    key: PRNGKey,
    lists: Graph | GraphSet,
    features: Features | Rows | None,
    labels: ArrayLike,
    epsilon: float,
    *,
    unit: Protects = "list",
    num_classes: int | None = None,
    log_q: Float[Array | np.ndarray, "n classes"] | FeaturesPosterior | None = None,
    silent: Bool[np.ndarray, " n"] | None = None,
    most: int = 65_535,
    num_folds: int | None = None,
    guarded: bool = True,
    progress: Progress | None = None,
) -> CountedClasses:
    """Ask users how many of their neighbours are of each public class, and say what class each user is of.

    A pilot reports first, then everybody else, and nobody twice (:class:`CountServer`).
    Guarantee: epsilon per bit of a list, whatever the number of groups is: a bit is in one count of
    one report. A relationship is two bits: with ``unit="list"`` both ends report it, 2 epsilon;
    with ``unit="relationship"`` each pair has one owner, by public facts, and costs epsilon. The
    second question post-processes reports of others.

    Args:
      key: a typed threefry key: of the users' noise and of public randomness.
      lists: the private graph, undirected; this simulates all devices.
      features: public: dense [n, d] or a scipy sparse matrix, of which held-out labels choose a
        scaling (:func:`~ldp_jax.servers.parts.rows.scaled_rows`); or rows of length 1 without a
        choice (:func:`~ldp_jax.servers.parts.rows.feature_rows`); or None.
      labels: public, int [n] in [0, C), -1, None or NaN for users whose class is asked for.
      epsilon: in [0.001, 40].
      unit: the unit of epsilon.
      num_classes: C; by default the largest label plus 1. Where it is given, a class may have no
        label. Its posterior is then its prior: what ``log_q`` gives, else the share of half a
        labelled user (:mod:`ldp_jax.servers.parts.absent`). ``absent`` names such classes.
      log_q: a public posterior in place of the features' logistic regression; see
        :func:`count_facts`.
      silent: bool [n], labelled users who report nothing; by default nobody, by relationship
        :func:`silent_users`.
      most: the largest count that is reported (:class:`~ldp_jax.edges.NeighbourCounts`).
      num_folds: of the logistic regressions.
      guarded: whether the guard may weaken evidence.
      progress: told of each phase (:data:`ldp_jax.core.progress.Progress`); by default shown after
        five seconds.

    ``ValueError`` for arguments that do not fit each other or are out of range, before anybody
    reports.

    >>> from ldp_jax import datasets
    >>> data = datasets.synthetic(jax.random.key(0), num_nodes=300, num_classes=3, num_features=30,
    ...     mean_degree=8, homophily=0.8)
    >>> labels = np.where(np.arange(300) < 100, data.y, -1)
    >>> found = predict_from_counts(jax.random.key(1), data.graph, None, labels, 1.0, unit="relationship")
    >>> found.log_posterior.shape, found.classes.shape
    ((300, 3), (300,))
    >>> print(found.guarantee)  # doctest: +ELLIPSIS
    protected: edges; NOT protected: number of nodes, features, labels, groups of nodes, who reports in which round
      epsilon 1 per neighbour-list (...)
      epsilon 1 per relationship (...)
    """
    validate.host_key(key, "predict_from_counts")
    validate.one_of(("list", "relationship"), unit=unit)
    labels = validate.node_labels(labels)
    if labels.dtype.kind not in "iu":
        hint = "datasets.read_records numbers names of classes"
        raise ValueError(
            f"labels must be integers, one a user and -1 or None for none, got {labels.dtype}: {hint}"
        )
    labels = labels.astype(np.int64)
    if num_classes is None:
        num_classes = int(labels.max(initial=-1)) + 1
        check_teachers(labels, num_classes, counted=True)
    NeighbourCounts(
        epsilon, max(num_classes, 1), most=most
    )  # refuses an epsilon before anybody is asked
    users = of_graph(lists)
    if labels.shape != (users.num_users,):
        raise ValueError(
            f"labels must be int [{users.num_users}], one a user, got shape {labels.shape}"
        )
    silent_key, fold_key, run_key = random_words.split(key, 3)
    if silent is None and unit == "relationship":
        silent = silent_users(silent_key, labels)
    with watched("predict_from_counts", progress):
        phase("what features say", 0.0)
        facts = count_facts(
            fold_key,
            features,
            labels,
            num_classes=num_classes,
            log_q=log_q,
            silent=silent,
            num_folds=num_folds,
        )
        phase("two rounds of counts", 0.3)
        server = CountServer(facts, epsilon, unit, most, guarded)
        released = simulate(run_key, server, users)
    found = released.value
    if found.scaling is not None and features is not None:
        warn_of_columns(features, found.scaling)
    return CountedClasses(found.log_posterior, found, found.round, released.guarantee)


def classify_counts(
    key: PRNGKey,
    ask: AskDevices,
    facts: CountFacts,
    epsilon: float,
    *,
    unit: Protects = "list",
    most: int = 65_535,
    guarded: bool = True,
    progress: Progress | None = None,
) -> CountedClasses:
    """The same as :func:`predict_from_counts`, from counts that devices sent.

    The second question is made of the first round's rows: after a restart give the same rows, or
    devices pay twice; :func:`~ldp_jax.servers.serve` keeps them by itself.
    Guarantee: epsilon per bit of a list of a user who was asked. A relationship costs 2 epsilon,
    and by ``unit="relationship"`` epsilon: the question that is broadcast says which end owns a
    pair. What users lost who answered more is :meth:`ldp_jax.deployment.store.ReportStore.spent`.

    Nobody can check a count: one device that sends the largest count for a class moves the result.
    Counts are clipped to the size of a group and what noise adds. Choose ``most`` near the largest
    public degree.

    Args:
      key: of public randomness; the same one asks the same questions.
      ask: broadcasts a question, and gives back the rows that have arrived (:data:`AskDevices`);
        rows of users who were not asked are never read.
      facts: see :func:`count_facts`.
      epsilon: of each count, in both rounds.
      unit: the unit of epsilon.
      most: the largest count that a device reports.
      guarded: whether the guard may weaken evidence.
      progress: told of each phase (:data:`ldp_jax.core.progress.Progress`).

    ``ValueError`` for rows of another question or of another shape, or two of one user.

    >>> from ldp_jax import datasets
    >>> from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, Budget
    >>> from ldp_jax.deployment import Device, Session, decode
    >>> from ldp_jax.edges import Population
    >>> data = datasets.synthetic(jax.random.key(0), num_nodes=300, num_classes=3, num_features=30,
    ...     mean_degree=8, homophily=0.8)
    >>> lists = Population.of(data.graph)
    >>> def ask(question, asked):  # devices that are here; a server broadcasts the question, and reads its store
    ...     sent = []
    ...     for user in np.flatnonzero(asked)[5:].tolist():  # five are silent
    ...         device = Session(Device.new(), budget=Budget(1.0, unit=NEIGHBOUR_LIST))
    ...         friends = lists.senders[lists.receivers == user].tolist()
    ...         sent.append(device.report_neighbours(question, friends, user=user))
    ...     return decode(b"".join(sent), question)
    >>> labels = np.where(np.arange(300) < 100, data.y, -1)
    >>> facts = count_facts(jax.random.key(2), None, labels, num_classes=3)
    >>> found = classify_counts(jax.random.key(1), ask, facts, 1.0)
    >>> int((found.round == 0).sum()), bool((found.classes == data.y)[100:].mean() > 0.5)
    (10, True)
    """
    server = CountServer(facts, epsilon, unit, most, guarded)
    users = DeviceUsers(
        len(facts.labels), lambda asked: [ask(asked.shipped(), np.asarray(asked.asked))]
    )
    released = simulate(key, server, users, progress=progress)
    found = released.value
    return CountedClasses(found.log_posterior, found, found.round, released.guarantee)
