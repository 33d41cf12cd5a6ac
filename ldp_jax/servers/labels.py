"""Private labels of a panel: each member reports one, once; others are asked afterwards."""

import dataclasses
from functools import cached_property
from typing import NamedTuple

import jax  # noqa: F401 - the example below
import numpy as np
from jaxtyping import Bool, Int

from ldp_jax.accounting.statement import Role, Statement
from ldp_jax.core import random, validate
from ldp_jax.core.pytree import pytree
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, Graph, PRNGKey
from ldp_jax.features import Discrete, PersonalAlphabets
from ldp_jax.graph.propagation import Operator, operator
from ldp_jax.servers.facts.panel import PanelFacts, panel_facts
from ldp_jax.servers.parts.panel import keep_of, label_noise
from ldp_jax.servers.parts.rows import Rows
from ldp_jax.servers.parts.self_training import FoldedLabels, typical_folds
from ldp_jax.servers.parts.structure import StructurePosterior
from ldp_jax.servers.questions import Answers, Ask, ClassQuestion
from ldp_jax.servers.reports import (
    HIDDEN,
    IN_THE_CLEAR,
    ClassesAsked,
    LocalPrediction,
    ReportServer,
)


class ReportedLabels(NamedTuple):
    """Labels as their owners reported them.

    Attributes:
      labels: int32 [n], -1 for users who did not report one.
      keep: the probability that a report is the true class.
    """

    labels: Int[np.ndarray, " n"]
    keep: float

    __repr__ = by_shapes


@pytree
class LabelsAsked:
    """Members of the panel are asked for their labels.

    Attributes:
      question: the open one.
      key: of what follows.
    """

    question: Ask
    key: PRNGKey


@dataclasses.dataclass(frozen=True, eq=False)
class LabelServer:
    """Each member of a panel reports a label once, through :func:`~ldp_jax.features.GeneralizedRR`.

    Guarantee: epsilon per label.

    Attributes:
      members: bool [n], who is in the panel; public.
      num_classes: C, public: it must not be read off the labels.
      epsilon: of a label, in (0, 20].

    ``ValueError`` for an epsilon out of range, or members that are no mask.

    >>> from ldp_jax.servers import Users, simulate
    >>> y = np.arange(40) % 4
    >>> server = LabelServer(np.arange(40) < 30, 4, 20.0)
    >>> found = simulate(jax.random.key(0), server, Users(labels=y))
    >>> bool((found.value.labels[:30] == y[:30]).all()), found.rounds[0].asked
    (True, 30)
    """

    members: Bool[np.ndarray, " n"]
    num_classes: int
    epsilon: float

    __repr__ = by_shapes

    def __post_init__(self) -> None:
        members = validate.mask(len(self.members), members=self.members)
        object.__setattr__(self, "members", members)
        label_noise(self.epsilon, self.num_classes)

    @cached_property
    def question(self) -> Ask:
        """The label through randomised response."""
        return Ask(label_noise(self.epsilon, self.num_classes), self.members, of="label")

    def statement(self) -> Statement:
        """One label of a member."""
        role = Role((self.question.cost(),), self.members)
        return Statement.of(role, protects=("the panel's labels",))

    def init(self, key: PRNGKey) -> LabelsAsked:
        """Members are asked."""
        return LabelsAsked(self.question, key)

    def heard(
        self, state: LabelsAsked, answers: Answers
    ) -> tuple[ReportedLabels, Int[np.ndarray, " some"]]:
        """The labels, and the places among the members of those who reported, two at least."""
        told = self.step(state, answers)
        reported = np.flatnonzero(told.labels[self.members] >= 0)
        rule = f"at least two members of the panel must report a label, and {len(reported)} did"
        validate.require(len(reported) >= 2, rule)
        return told, reported

    def step(self, state: LabelsAsked, answers: Answers) -> ReportedLabels:
        """The labels as they were reported, and how often they are true."""
        noise = state.question.mechanism
        keep = keep_of(noise) if isinstance(noise, Discrete) else 1.0  # exact labels have no noise
        labels = np.where(answers.reported, np.asarray(answers.values), -1).astype(np.int32)
        return ReportedLabels(labels, keep)


class PrivatePanel(NamedTuple):
    """A panel whose labels are private.

    Attributes:
      labels: asks for them.
      rows: records of its members, in ascending order of their nodes; public.
      num_folds: F.
    """

    labels: LabelServer
    rows: Rows
    num_folds: int

    __repr__ = by_shapes


@pytree
class ClassesAskedByLabels:
    """The panel has reported its labels, and private users are asked for classes.

    Attributes:
      question: the open one.
      key: of the reports of the panel, which the server simulates.
      labels: int32 [n], as they were reported; -1 for nobody's.
      fold: int32 [n], of each node.
      keep: the probability that a label is true.
      structure: what the graph says of everybody's class by these.
    """

    question: ClassQuestion
    key: PRNGKey
    labels: Int[AnyArray, " n"]
    fold: Int[AnyArray, " n"]
    keep: float
    structure: StructurePosterior


@dataclasses.dataclass(frozen=True, eq=False)
class LabelledReportServer:
    """Local prediction with a panel whose labels are private: they are asked for first.

    A member of the panel reports a label and nothing else. Then the other users are asked for
    classes, and each of them reports a class and nothing else.

    Attributes:
      graph: public, undirected.
      rows: records of the panel, in ascending order of its nodes; public.
      panel: asks for the labels.
      epsilon: of a class, in (0, 20].
      num_folds: F (:func:`~ldp_jax.servers.panel_facts`).

    ``ValueError`` for an epsilon or a number of folds out of range, or rows of others than the
    panel.
    """

    graph: Graph
    rows: Rows
    panel: LabelServer
    epsilon: float
    num_folds: int = 10

    __repr__ = by_shapes

    def __post_init__(self) -> None:
        self.statement()  # refuses an epsilon out of range
        validate.integer_in(2, num_folds=self.num_folds)
        size = int(self.panel.members.sum())
        rule = f"rows must be of the panel's {size} members"
        validate.require(self.rows.shape[0] == size, rule, self.rows.shape[0])

    @cached_property
    def op(self) -> Operator:
        """The graph's operator."""
        return operator(self.graph)

    def statement(self) -> Statement:
        """A member of the panel is asked for a label, anybody else for a class."""
        cost = ClassQuestion.most(self.epsilon, self.panel.num_classes)
        of_class = Role((cost,), ~self.panel.members)
        of_label = self.panel.statement().roles
        protects = (*HIDDEN, "the panel's labels")
        return Statement.of(of_class, *of_label, exposes=IN_THE_CLEAR[:-1], protects=protects)

    def init(self, key: PRNGKey) -> LabelsAsked:
        """The panel is asked first."""
        return self.panel.init(key)

    def step(
        self, state: LabelsAsked | ClassesAskedByLabels, answers: Answers
    ) -> ClassesAskedByLabels | LocalPrediction:
        """After labels, classes are asked for; then the result is that of :class:`ReportServer`."""
        if isinstance(state, ClassesAskedByLabels):
            labels = np.asarray(state.labels)
            known = FoldedLabels(
                labels,
                self.panel.num_classes,
                np.asarray(state.fold),
                typical_folds(labels, self.num_folds),
                keep=float(state.keep),
            )
            facts = PanelFacts(known, state.structure, state.question.classifier, self.op)
            asked = ClassesAsked(state.question, state.key)
            return ReportServer(facts, self.epsilon).step(asked, answers)

        told, reported = self.panel.heard(state, answers)
        facts_key, key = random.split(random.again(state.key))
        facts = panel_facts(
            facts_key,
            self.graph,
            self.rows.take(reported),
            told.labels,
            num_classes=self.panel.num_classes,
            num_folds=self.num_folds,
            keep=told.keep,
            op=self.op,
        )
        alphabets = PersonalAlphabets.of(self.epsilon, np.exp(np.asarray(facts.structure.log_q)))
        others = ~self.panel.members
        question = ClassQuestion(facts.classifier, alphabets, others, self.epsilon)
        return ClassesAskedByLabels(
            question, key, facts.labels, facts.known.fold, facts.known.keep, facts.structure
        )
