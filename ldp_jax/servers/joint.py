r"""Records, friendships and labels private at once, within one total.

No edge is public, so structure tells nothing before reports. A panel shows records, and labels or
reports of them.

1. The panel teaches a classifier, which is broadcast, and class shares.
2. Every private user reports the class that the device predicts, within the likeliest classes of
   the panel. The server simulates the panel's own reports, from records that the classifier has not
   seen.
3. Everybody counts neighbours by what the server thinks of all classes
   (:mod:`ldp_jax.servers.counts`).
4. Counts are believed as far as reports of records, or labels that their model has not seen, bear
   them out; reports of records as far as counts do (:mod:`ldp_jax.servers.parts.guard`). Both are
   stacked on the panel, where the noise of private labels is corrected for. Records that are asked
   for alone are taken at their word.

These checks miss a wrongly joined table, in which all reports are about somebody else and agree. So
a ``check`` of the panel may report as private users do: both reports are then believed as far as
its labels bear them out. :func:`ldp_jax.rehearse` says which split of a total is best. One report
of both (:class:`~ldp_jax.servers.questions.classes.BothQuestion`) protects the record and the whole
list together. Half of the users give it first, by the friends of the panel alone; then the others,
by friends of the first half too.
"""

import dataclasses
from functools import cached_property
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import log_softmax, softmax

from ldp_jax.accounting.statement import Role, Statement
from ldp_jax.core import random, validate
from ldp_jax.core.progress import phase
from ldp_jax.core.pytree import pytree
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import PRNGKey
from ldp_jax.servers.counts import Counting, CountServer, PilotedCounts, Piloting, counts_of_all
from ldp_jax.servers.facts.joint import JointFacts, joint_facts, record_alphabets
from ldp_jax.servers.joint_privacy import JointPrivacy
from ldp_jax.servers.labels import LabelsAsked, PrivatePanel
from ldp_jax.servers.parts.confusion import (
    ClassReports,
    ScoredPanel,
    confusions,
    likeliest_evidence,
)
from ldp_jax.servers.parts.friends import HOMOPHILY, evidence, friend_evidence, reported_confusion
from ldp_jax.servers.parts.guard import checked, guard
from ldp_jax.servers.parts.stack import stack_out_of_fold
from ldp_jax.servers.questions import (
    Answers,
    BothQuestion,
    ClassQuestion,
    CountQuestion,
    count_cost,
)

_COUNTS = 2.0  # members of the panel that the confusion of records alone stands for, class by class


class JointPrediction(NamedTuple):
    """The result of :class:`JointServer`.

    Attributes:
      log_posterior: float32 [n, C]; of a member of the panel out of fold.
      log_prior: float32 [C], class shares of the panel: what is known without any report.
      reason: what was asked for, in words; says so where lists were left out.
      strength: s of the guard: how far reports of records were believed; 1 where nothing else was
        asked that could bear them out, 0 where they were not asked for. With a check it is what the
        check says.
      counts: what came of the lists; None where they were not counted.
      round: int8 [n], when a user reported of a list: 1 in the first half or the pilot, 2 after it,
        0 if never.
      absent: the classes of which the panel has nobody outside its check. Their posterior is the
        prior.
    """

    log_posterior: Float[np.ndarray, "n classes"]
    log_prior: Float[np.ndarray, " classes"]
    reason: str
    strength: float
    counts: PilotedCounts | None
    round: Int[np.ndarray, " n"]
    absent: tuple[int, ...] = ()

    __repr__ = by_shapes


@pytree
class RecordsAsked:
    """Private users are asked for the class of their record.

    Attributes:
      question: the open one.
      key: of the panel's simulated reports.
      count_key: of the rounds of counts.
      facts: of private labels, which were reported; else None.
    """

    question: ClassQuestion
    key: PRNGKey
    count_key: PRNGKey
    facts: JointFacts | None


@pytree
class ListsAsked:
    """Everybody is asked for counts of neighbours.

    Attributes:
      question: the open one.
      inner: the state of the counts.
      own: float32 [n, C], the evidence of reports of records.
      believed: how far these are.
      fold_key: of the folds of counts.
      facts: of private labels; else None.
    """

    question: CountQuestion
    inner: Piloting | Counting
    own: Float[np.ndarray, "n classes"]
    believed: float
    fold_key: PRNGKey
    facts: JointFacts | None


@pytree
class FirstHalf:
    """The panel and half of the others are asked for one class of record and list."""

    question: BothQuestion
    key: PRNGKey


@pytree
class SecondHalf:
    """The others are asked.

    Attributes:
      question: the open one.
      law: float32 [n, C], P(report | class sent) of the first half; 1 of those who did not report.
      first: bool [n], who of the first half reported.
      confusion: float64 [C, C], how often devices of a class (rows) send another.
    """

    question: BothQuestion
    law: Float[np.ndarray, "n classes"]
    first: Bool[np.ndarray, " n"]
    confusion: Float[np.ndarray, "c c"]


_State = LabelsAsked | RecordsAsked | ListsAsked | FirstHalf | SecondHalf


@dataclasses.dataclass(frozen=True, eq=False)
class JointServer:
    """Ask each private user for what the device predicts, and for the neighbours' classes.

    Attributes:
      privacy: what each report costs.
      facts: of a panel with public labels (:func:`joint_facts`), without the check; or None.
      panel: of a panel whose labels are private; or None.
      check: int [n], classes of those of the panel who report as private users do, in the numbers
        of ``facts``, -1 for others; None for no check.
      homophily: of one report of both, as it is stated.
      exposes: what else was used in the clear, in words.
    """

    privacy: JointPrivacy
    facts: JointFacts | None = None
    panel: PrivatePanel | None = None
    check: Int[np.ndarray, " n"] | None = None
    homophily: float = HOMOPHILY
    exposes: tuple[str, ...] = ()

    __repr__ = by_shapes

    def __post_init__(self) -> None:
        one = (self.facts is None) != (self.panel is None)
        rule = "facts must be given of public labels, or panel of private ones: one of both"
        validate.require(one and not (self.privacy.both and self.panel), rule)
        validate.number(0.0, 1.0, open_upper=True, homophily=self.homophily)

    @cached_property
    def members(self) -> Bool[np.ndarray, " n"]:
        """The panel, without its check."""
        if self.panel is None:
            return self._public.labels >= 0
        return self.panel.labels.members

    @property
    def _public(self) -> JointFacts:
        """The facts of public labels, where there are such."""
        assert self.facts is not None  # as it was checked
        return self.facts

    def statement(self) -> Statement:
        """The costs of a private user, and of a member of the panel."""
        privacy = self.privacy
        labelled = self._public.known if self.panel is None else self.panel.labels
        classes = labelled.num_classes
        if privacy.both:
            roles = [Role((BothQuestion.both(ClassQuestion.most(privacy.both, classes)),))]
        else:
            counts = (count_cost(privacy.list),) if privacy.list else ()
            record = (ClassQuestion.most(privacy.record, classes),) if privacy.record else ()
            label = () if self.panel is None else self.panel.labels.statement().roles[0].costs
            private = Role((*record, *counts), ~self.members)
            of_panel = Role((*label, *counts), self.members)
            roles = [private, of_panel]
        protects = []
        exposes = ["the panel's records"]
        if privacy.record or privacy.both:
            protects.append("features of private users")
        if privacy.list or privacy.both:
            protects.append("edges")
        if self.panel is None:
            exposes.append("the panel's labels")
        else:
            protects.append("the panel's labels")
        exposes += ["number of nodes", *self.exposes]
        return Statement.of(*roles, exposes=exposes, protects=protects)

    def init(self, key: PRNGKey) -> _State | JointPrediction:
        """Labels of the panel are asked for first, where they are private."""
        if self.panel is not None:
            return self.panel.labels.init(key)
        return self._taught(key, self._public)

    def step(self, state: _State, answers: Answers) -> _State | JointPrediction:
        """The next question, or the result."""
        if isinstance(state, LabelsAsked):
            return self._labelled(state, answers)
        if isinstance(state, FirstHalf):
            return self._halved(state, answers)
        if isinstance(state, SecondHalf):
            return self._reported(state, answers)
        if isinstance(state, RecordsAsked):
            return self._classified(state, answers)
        return self._counted(state, answers)

    def _labelled(self, state: LabelsAsked, answers: Answers) -> _State | JointPrediction:
        """Step 1 of a panel whose labels are private."""
        panel = self.panel
        assert panel is not None
        told, reported = panel.labels.heard(state, answers)
        fold_key, key = random.split(random.again(state.key))
        facts = joint_facts(
            fold_key,
            panel.rows.take(reported),
            told.labels,
            num_classes=panel.labels.num_classes,
            num_folds=panel.num_folds,
            keep=told.keep,
        )
        return self._taught(key, facts)

    def _taught(self, key: PRNGKey, facts: JointFacts) -> _State | JointPrediction:
        """The first question to private users."""
        if self.privacy.both:
            return self._first_half(key, facts)
        record_key, count_key = random.split(key)
        if self.privacy.record:
            epsilon = self.privacy.record
            question = ClassQuestion(
                facts.classifier, record_alphabets(facts, epsilon), facts.labels < 0, epsilon
            )
            return RecordsAsked(question, record_key, count_key, self._kept(facts))
        nothing = np.zeros((len(facts.labels), len(facts.prior)), np.float32)
        return self._counting(count_key, facts, nothing, 0.0)

    def _kept(self, facts: JointFacts) -> JointFacts | None:
        """The facts that a state keeps: those from labels that were reported."""
        return None if self.panel is None else facts

    # --- Records, then lists ---

    def _classified(self, state: RecordsAsked, answers: Answers) -> ListsAsked | JointPrediction:
        """Step 2: what reports of records say."""
        phase("reports of records", 0.0)
        facts = self._facts(state)
        question = state.question
        known = facts.known
        said, asked = question.beside_panel(random.again(state.key), answers, known)
        posterior = np.tile(np.exp(facts.log_prior), (len(said), 1))
        reports = ClassReports(said, question.mask)
        scored = question.classifier.scored(known)
        own = np.asarray(likeliest_evidence(reports, scored, known.nodes, posterior, asked)[0])
        believed = 1.0
        if self.check is not None:
            own, believed, _ = checked(own, facts.prior, np.where(asked, self.check, -1))
        return self._counting(random.again(state.count_key), facts, own, believed)

    def _counting(
        self, key: PRNGKey, facts: JointFacts, own: np.ndarray, believed: float
    ) -> ListsAsked | JointPrediction:
        """Ask for counts, where every class has a label to count with.

        Else records are the result.
        """
        asked = "records alone" if self.privacy.record else "nothing"
        known = np.bincount(facts.labels[facts.labels >= 0], minlength=len(facts.prior))
        if not self.privacy.list or not known.all():
            if self.privacy.list:
                asked = f"{asked}: nobody of class {known.argmin()} is left to count with"
            never = np.zeros(len(own), np.int8)
            log_posterior = log_softmax(facts.log_prior + own, axis=1)
            return self._result(facts, log_posterior, asked, believed, None, never)
        fold_key, key = random.split(key)
        inner = self._counts(fold_key, own, facts).init(key)
        return ListsAsked(inner.question, inner, own, believed, fold_key, self._kept(facts))

    def _counts(self, fold_key: PRNGKey, own: np.ndarray, facts: JointFacts) -> CountServer:
        """The server of counts, which starts from what reports of records said."""
        key = random.again(fold_key)
        log_q = log_softmax(facts.log_prior + own, axis=1)
        folds = facts.known.num_folds
        return CountServer.beside(key, log_q, facts.labels, folds, self.privacy.list)

    def _counted(self, state: ListsAsked, answers: Answers) -> ListsAsked | JointPrediction:
        """Steps 3 and 4: what counts say, and both together."""
        facts = self._facts(state)
        inner = dataclasses.replace(state.inner, question=state.question)
        made = self._counts(state.fold_key, state.own, facts).step(inner, answers)
        if isinstance(made, Counting):
            return dataclasses.replace(state, question=made.question, inner=made)
        log_posterior, strength = _stacked(facts, state.own, made, self.check)
        reason = "records and lists" if self.privacy.record else "lists alone"
        believed = strength if self.check is None else float(state.believed)
        believed = believed if self.privacy.record else 0.0
        return self._result(facts, log_posterior, reason, believed, made, made.round)

    # --- One report of both ---

    def _first_half(self, key: PRNGKey, facts: JointFacts) -> FirstHalf:
        """Half of the users, drawn by public randomness, with friends in the panel alone."""
        labels, panel = facts.labels, facts.known.nodes
        n = len(labels)
        classes = len(facts.prior)
        half_key, key = random.split(key)
        half = np.asarray(random.permutation(half_key, n)) < n // 2
        first = half | (labels >= 0)
        alphabets = record_alphabets(facts, self.privacy.both)
        friends = np.zeros((n, classes))
        of_class = friend_evidence(np.eye(classes), facts.prior, self.homophily)
        friends[panel] = of_class[labels[panel]]
        scores = np.zeros((n, classes), np.float32)
        scores[panel] = np.asarray(facts.classifier.panel_scores)
        of_record = ClassQuestion(facts.classifier, alphabets, first, self.privacy.both)
        return FirstHalf(BothQuestion(of_record, friends, labels >= 0, scores), key)

    def _halved(self, state: FirstHalf, answers: Answers) -> SecondHalf:
        """How often devices are wrong, by the panel's reports, and the second half's question."""
        facts = self._public
        question = state.question
        labels, panel = facts.labels, facts.known.nodes
        law = _law(question, answers)
        mask = question.of_record.mask
        of_records = ScoredPanel(jnp.asarray(question.scores)[panel], labels[panel])
        tables, which = confusions(of_records, mask, _COUNTS)
        reported = answers.reported
        heard = panel[reported[panel]]
        start = np.asarray(tables, np.float64)[which[0]]
        confusion = reported_confusion(law[heard], labels[heard], start)
        known = reported & (labels < 0)
        posterior = softmax(np.log(facts.prior) + evidence(law, confusion)[known], axis=1)
        friends = np.array(question.friends)
        friends[known] = friend_evidence(posterior, facts.prior, self.homophily)
        # With noise, which users add or do not: a ceiling is asked for what is stated, too.
        rest = ~np.asarray(question.asked)
        others = dataclasses.replace(question.of_record, asked=rest, noiseless=False)
        asked = dataclasses.replace(question, of_record=others, friends=friends)
        return SecondHalf(asked, law, reported, confusion)

    def _reported(self, state: SecondHalf, answers: Answers) -> JointPrediction:
        """Predict from all reports, weighed by how far the check bears them out."""
        facts = self._public
        second = answers.reported
        law = np.where(second[:, None], _law(state.question, answers), state.law)
        own = evidence(law, state.confusion)
        believed = 1.0
        if self.check is not None:
            heard = second | state.first
            own, believed, _ = checked(own, facts.prior, np.where(heard, self.check, -1))
        log_posterior = log_softmax(facts.log_prior + own, axis=1)
        when = np.where(state.first, np.int8(1), np.int8(2) * second)
        reason = "record and list in one report"
        return self._result(facts, log_posterior, reason, believed, None, when)

    # --- Both ways ---

    def _facts(self, state: RecordsAsked | ListsAsked) -> JointFacts:
        return self._public if state.facts is None else state.facts

    def _result(
        self,
        facts: JointFacts,
        log_posterior: np.ndarray,
        reason: str,
        strength: float,
        counts: PilotedCounts | None,
        when: np.ndarray,
    ) -> JointPrediction:
        """The result for all classes; those of which the panel has nobody have their prior."""
        log_prior = facts.log_prior
        if facts.numbering is not None:
            log_posterior = facts.numbering.posterior(log_posterior)
            log_prior = facts.numbering.log_prior.astype(np.float32)
            counts = None if counts is None else counts_of_all(counts, facts.numbering)
        return JointPrediction(
            log_posterior, log_prior, reason, strength, counts, when, facts.absent
        )


def _law(question: BothQuestion, answers: Answers) -> Float[np.ndarray, "n classes"]:
    """P(report | class sent) of users who reported; 1 of others, which says nothing."""
    law = np.exp(np.asarray(question.log_likelihoods(answers.values), np.float64))
    law = np.where(question.of_record.mask, law, 0.0)
    return np.where(answers.reported[:, None], law, 1.0)


def _stacked(
    facts: JointFacts, own: np.ndarray, counts: PilotedCounts, check: np.ndarray | None
) -> tuple[Float[np.ndarray, "n classes"], float]:
    """Step 4: the posterior of both, and how far reports of records are believed."""
    # The model of lists has seen labels of its pilot, with which it agrees by its very fit.
    labels, prior = facts.labels, facts.log_prior
    of_lists = np.asarray(counts.log_likelihood)
    if check is not None:
        of_lists = checked(of_lists, facts.prior, check).log_likelihood
    unseen = np.where(counts.pilot, -1, labels)
    judged = (labels < 0) & ~counts.pilot
    # Lists are believed as far as records or else labels bear them out: either may be what is
    # wrong.
    by_records = guard(of_lists, softmax(prior + own, axis=1), judged)
    by_labels = guard(of_lists, np.tile(np.exp(prior), (len(own), 1)), judged, unseen)
    of_lists = max(by_records, by_labels, key=lambda one: one.strength).log_likelihood
    trusted = guard(own, softmax(prior + of_lists, axis=1), judged, labels)
    scores = np.stack([prior + trusted.log_likelihood, of_lists], -1)
    log_posterior, _ = stack_out_of_fold(scores, facts.known, (1.0, 1.0))
    return log_posterior, trusted.strength
