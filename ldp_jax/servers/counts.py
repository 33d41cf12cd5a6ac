r"""Two-round counts.

Classes of users whose neighbour lists are private, from counts of neighbours by public group.

Each user counts their neighbours by public group and adds discrete Laplace noise to each count. One
bit of a list moves one count by one, so each of the K counts takes noise of the whole epsilon. A
pilot reports by fine groups. From it the server learns who befriends whom, and chooses the groups
by which everybody else reports. Each user reports once.

The evidence about classes is found twice: by a law of counts that is fitted on the pilot, and by a
logistic regression on the counts as they are. Held-out labels say how much each is worth. The law
wins where labels are few, the regression where friends share what features say already, which the
law would count twice. Where labels do not prefer either to features alone, both weigh little. A
user who does not answer has no count: nothing is learned of them, and their evidence is 0.
Guarantee: that of the reports, epsilon for one bit of one list; everything here is post-processing,
of public facts and public randomness.
"""

import dataclasses
import math
from typing import Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int
from typing_extensions import TypeAliasType

from ldp_jax.accounting.statement import Role, Statement
from ldp_jax.core import random_words, validate
from ldp_jax.core.progress import phase
from ldp_jax.core.pytree import pytree
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.edges import NeighbourCounts, ownership
from ldp_jax.servers.facts.counts import CountFacts, count_facts
from ldp_jax.servers.parts.absent import Numbering
from ldp_jax.servers.parts.count_evidence import DISPERSIONS, evidence, table_size
from ldp_jax.servers.parts.group_design import (
    CountModel,
    Design,
    GroupShares,
    PilotReports,
    design,
    expected_counts,
    group_shares,
    pilot,
    unseen_evidence,
)
from ldp_jax.servers.parts.groups import (
    class_shares,
    fine_groups,
    merge,
    merged,
)
from ldp_jax.servers.parts.rows import Scaling
from ldp_jax.servers.questions import Answers, CountQuestion
from ldp_jax.servers.taught_by_counts import learned

Protects = TypeAliasType("Protects", Literal["list", "relationship"])
"""What epsilon is about: one bit of one list, or one edge, at both of its ends."""

_REACH = 40.0  # of noise, over epsilon: one count in e^40 is beyond

_EXPOSES = (
    "number of nodes",
    "features",
    "labels",
    "groups of nodes",
    "who reports in which round",
)


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
      evidence: float32 [n, C], of the pilot's reports; of a labelled user by a model that has not
        seen their label.
      model: who befriends whom, from the pilot.
      plan: the forecast by which the groups were chosen.
    """

    question: CountQuestion
    reports: Int[np.ndarray, "n fine"]
    first: Bool[np.ndarray, " n"]
    evidence: Float[np.ndarray, "n classes"]
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
      strength: s of the guard times the probability, by labels, that reports tell more than
        features alone: 0 where reports are not believed at all.
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
      unit: of epsilon. Where it is a relationship, each pair has one owner in both rounds: of a
        pair with a silent user the other one, else by parity of their numbers. If features named
        the owner, counts would tell how sure features are, and evidence would repeat what they say.
      most: the largest count that is reported.
      guarded: whether the guard, and labels, may leave evidence out. Else the strength is 1.
    """

    facts: CountFacts
    epsilon: float
    unit: Protects = "list"
    most: int = 65_535
    guarded: bool = True

    __repr__ = by_shapes

    @classmethod
    def beside(
        cls,
        key: PRNGKey,
        log_q: Float[np.ndarray, "n classes"],
        labels: Int[np.ndarray, " n"],
        num_folds: int,
        epsilon: float,
    ) -> "CountServer":
        """Unguarded counts beside a posterior from elsewhere, without features."""
        classes = log_q.shape[1]
        facts = count_facts(
            key, None, labels, num_classes=classes, log_q=log_q, num_folds=num_folds
        )
        return cls(facts, epsilon, guarded=False)

    def __post_init__(self) -> None:
        validate.one_of(("list", "relationship"), unit=self.unit)
        # Made to refuse an epsilon before anybody is asked.
        NeighbourCounts(self.epsilon, 1, most=self.most)

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
        """Read the pilot's reports and ask the others, then conclude from all reports."""
        if isinstance(state, Piloting):
            return self._designed(state, answers)
        return self._concluded(state, answers)

    def _question(
        self, groups: np.ndarray, asked: np.ndarray, num_groups: int, round: int
    ) -> CountQuestion:
        silent = self.facts.silent
        owners = None if self.unit == "list" else ownership(np.zeros(len(silent)), silent)
        return CountQuestion(
            groups,
            asked,
            owners,
            num_groups=num_groups,
            epsilon=self.epsilon,
            most=self.most,
            round=round,
        )

    def _designed(self, state: Piloting, answers: Answers) -> Counting:
        """Steps 4 to 6.

        The server learns who befriends whom, reads the pilot, and chooses the others' groups.
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

        given = PilotReports(reports, answers.reported, fine, prior, facts.labels, facts.fold)
        expected = CountModel(means, found.weights, DISPERSIONS[found.dispersion])
        own = unseen_evidence(given, found.log_likelihood, expected, epsilon, size=size)

        phase("the groups of the others", 0.3)
        others = ~np.asarray(state.question.asked) & ~facts.silent
        plan = design(state.design_key, facts.log_q, expected, epsilon, size=size, asked=others)
        column = merge(plan.best, classes)
        question = self._question(column[fine], others, int(column.max()) + 1, 1)
        return Counting(question, reports, given.reported, own, model, plan)

    def _concluded(self, state: Counting, answers: Answers) -> PilotedCounts:
        """Steps 7 to 10: the evidence of all reports, what they teach, and the posterior."""
        facts = self.facts
        num_fine = 3 * facts.num_classes
        epsilon = state.question.epsilon
        column = merge(state.plan.best, facts.num_classes)
        prior = class_shares(facts.log_q, facts.labels)
        first = state.first
        second = answers.reported
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
        taught = learned(facts, own, counts, round, self.guarded)
        found = PilotedCounts(
            **taught,
            log_q=jax.device_put(facts.log_q),
            design=state.plan,
            model=state.model,
            dispersion=DISPERSIONS[asked.dispersion],
            pilot=first,
            round=round,
            scaling=facts.scaling,
        )
        if facts.numbering is None:
            return found
        return counts_of_all(found, facts.numbering, facts.log_prior)


def counts_of_all(
    found: PilotedCounts, mine: Numbering, log_prior: Float[np.ndarray, "... classes"] | None = None
) -> PilotedCounts:
    """The same with absent classes, which have ``log_prior``, by default the shares of labels."""
    arrays = {}
    for name in ("log_posterior", "log_q", "log_f"):
        arrays[name] = mine.posterior(getattr(found, name), log_prior)
    arrays["log_likelihood"] = mine.evidence(found.log_likelihood, found.log_q)
    if np.asarray(found.log_regression).any():
        arrays["log_regression"] = mine.posterior(found.log_regression, log_prior)
    else:  # it is not believed
        arrays["log_regression"] = mine.spread(found.log_regression, 0.0)
    return found._replace(**jax.device_put(arrays), absent=mine.absent)


def _clipped(question: CountQuestion, answers: Answers) -> Int[np.ndarray, "n groups"]:
    """Reports within the size of each group and what noise adds, of users who reported.

    0 of others.

    A user has at most as many friends in a group as it has members. So a lie moves no more, and
    lengthens no table.
    """
    groups = np.asarray(question.groups)
    reach = math.ceil(_REACH / question.epsilon)
    most = np.bincount(groups[groups >= 0], minlength=question.num_groups) + reach
    counts = np.clip(np.asarray(answers.values), -reach, most)
    return np.where(answers.reported[:, None], counts, 0).astype(np.int32)
