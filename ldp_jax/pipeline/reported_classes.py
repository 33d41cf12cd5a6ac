"""Classes from reports that real devices sent: of some users, in any order; :mod:`~ldp_jax.pipeline.reported`.

Whoever is silent, late or unknown contributes no evidence, a likelihood of one under every class: their class is
what public facts and the reports of others say. Who reports must not depend on what is private.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import jax  # noqa: F401 - the example below
import jax.numpy as jnp
import numpy as np
from jaxtyping import Integer

from ldp_jax.accounting.composition import parallel
from ldp_jax.accounting.guarantee import Guarantee, PipelineGuarantee
from ldp_jax.core import validate
from ldp_jax.core.types import PRNGKey
from ldp_jax.edges import NoisyCounts
from ldp_jax.edges.neighbour_lists import per_edge
from ldp_jax.features import PersonalAlphabets
from ldp_jax.pipeline.from_counts import CountedClasses
from ldp_jax.pipeline.from_reports import PredictedClasses
from ldp_jax.pipeline.local_prediction import Broadcast, PanelFacts, local_prediction
from ldp_jax.pipeline.message import ClassReports
from ldp_jax.pipeline.piloted import CountRound, PublicFacts, piloted_counts
from ldp_jax.pipeline.reported import places


@runtime_checkable
class Rows(Protocol):
    """Reports about one table or question, as :meth:`ldp_jax.deployment.store.ReportStore.all` reads them.

    Attributes:
      user: uint64 [m].
      output: int32, places in an alphabet [m], or noisy counts [m, K].
      digest: of the table or question.
    """

    user: np.ndarray
    output: np.ndarray
    digest: bytes


@runtime_checkable
class Asked(Protocol):
    """What devices were asked, as a :class:`ldp_jax.deployment.Question`."""

    groups: np.ndarray | Sequence[int]
    num_groups: int

    @property
    def digest(self) -> bytes:
        """Its name in reports."""
        ...

    def guarantee(self) -> Guarantee:
        """Of one report, per bit of a list."""
        ...


AskDevices = Callable[[int, CountRound], tuple[Asked, Rows]]
"""Broadcasts the question of round 0 or 1, and gives it back with the rows that have arrived."""


def classify_counts(
    key: PRNGKey,
    ask: AskDevices,
    public: PublicFacts,
    epsilon: float,
    *,
    owned: bool = False,
    num_folds: int | None = None,
    guarded: bool = True,
) -> CountedClasses:
    """What :func:`~ldp_jax.pipeline.predict_from_counts` does, of counts that devices sent.

    The second question is made of the first round's rows. Whoever calls again after a restart gives the same rows
    for it, or asks anew and has devices pay twice: late rows of a round that is over are left out.

    Guarantee: epsilon per bit of a list of a user who was asked, and 2 epsilon per relationship, or epsilon where
    ``owned``. What users lost who answered more is :meth:`ldp_jax.deployment.store.ReportStore.spent`.

    Args:
      key: of public randomness; the same one asks the same questions.
      ask: see :data:`AskDevices`; rows of users who were not asked are never read.
      public: features, labels, and what was found of them.
      epsilon: of each count, in both rounds.
      owned: whether each device counts only what it owns by ``ownership(asked.confidence, public.silent)``.
      num_folds: of the logistic regressions.
      guarded: whether the guard may weaken evidence.

    Raises:
      ValueError: as :func:`~ldp_jax.pipeline.piloted.piloted_counts`; for a question about other groups, and for
        rows of another question, of another shape, or two of one user.

    >>> from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, Budget
    >>> from ldp_jax.deployment import Device, Question, Session, decode
    >>> y = np.arange(90) % 3
    >>> def ask(number, asked):  # of devices that are here; a server broadcasts the question, and reads its store
    ...     question, sent = Question(number, asked.groups, asked.num_groups, epsilon=4.0), []
    ...     for user in np.flatnonzero(asked.reporters)[1:].tolist():  # one of whom is silent
    ...         device = Session(Device.new(), budget=Budget(4.0, unit=NEIGHBOUR_LIST))
    ...         sent.append(device.report_neighbours(question, np.flatnonzero(y == y[user]), user=user))
    ...     return question, decode(b"".join(sent), question)
    >>> labels = np.where(np.arange(90) < 45, y, -1)
    >>> found = classify_counts(jax.random.key(0), ask, PublicFacts(None, labels, 3), 4.0)
    >>> int((found.round == 0).sum()), bool((found.classes == y)[found.round > 0].all())
    (2, True)
    """
    rounds: list[NoisyCounts] = []

    def counts(_: PRNGKey, asked: CountRound) -> NoisyCounts:
        rounds.append(_counts(asked, *ask(len(rounds), asked)))
        return rounds[-1]

    found = piloted_counts(key, counts, public, epsilon, num_folds=num_folds, guarded=guarded)
    bit = parallel(*(guarantee for one in rounds for guarantee in one.guarantee.values()))
    edge = per_edge((bit.epsilon,) * (1 if owned else 2), "half" if owned else "full")
    guarantee = PipelineGuarantee.of(
        [bit, dataclasses.replace(edge, arithmetic=bit.arithmetic)],
        protected=("edges",),
        unprotected=("number of nodes", "features", "labels", "groups of nodes", "who reports in which round"),
    )
    number = sum((place + 1) * one.reported.astype(np.int8) for place, one in enumerate(rounds))
    return CountedClasses(found.log_posterior, found, np.asarray(number, np.int8), guarantee)


def _counts(asked: CountRound, question: Asked, rows: Rows) -> NoisyCounts:
    """The counts of those who were asked, by node."""
    n, groups = len(asked.reporters), np.asarray(question.groups)
    if question.num_groups != asked.num_groups or not np.array_equal(groups, asked.groups):
        raise ValueError("ask must broadcast a question about the groups of the round, and asked about others")
    if rows.digest != question.digest:
        raise ValueError("rows must answer the question that was broadcast, and answer another")
    user, output = np.asarray(rows.user, np.uint64), np.asarray(rows.output)
    if output.shape != (len(user), asked.num_groups):
        raise ValueError(f"output must be [{len(user)}, {asked.num_groups}], got {output.shape}")
    if len(np.unique(user)) != len(user):
        raise ValueError("rows must be one a user, and are several of some")
    known = user < n
    known[known] = asked.reporters[user[known]]
    counts, reported = np.zeros((n, asked.num_groups), np.int32), np.zeros(n, bool)
    counts[user[known]], reported[user[known]] = output[known], True
    guarantee = PipelineGuarantee.of([question.guarantee()], protected=("edges",), unprotected=("who reports",))
    return NoisyCounts(counts, reported, guarantee)


def classify_reports(
    key: PRNGKey,
    facts: PanelFacts,
    alphabets: PersonalAlphabets,
    nodes: Integer[np.ndarray, " n"],
    reports: Sequence[Rows],
) -> PredictedClasses:
    """What :func:`~ldp_jax.pipeline.predict_from_reports` does, of classes that devices sent.

    Rows are left out that nobody's device was asked for: of users who are no node or in the panel, and by a table
    of another size than the user's alphabet.

    Guarantee: that of the alphabets, per record of a private user who reported; over several rounds it adds up
    (:meth:`ldp_jax.deployment.store.ReportStore.spent`).

    Args:
      key: of public randomness: of what the panel's devices would report.
      facts: of a panel with public labels; their classifier is what devices ran
        (:class:`ldp_jax.deployment.Classifier`).
      alphabets: which devices have: user i an :class:`ldp_jax.deployment.Alphabet` of the first ``sizes[i]`` of
        ``order[i]``.
      nodes: the user of each node, distinct.
      reports: of one round, the rows of each table (:func:`ldp_jax.deployment.alphabet_table`).

    Raises:
      ValueError: for facts and alphabets that do not fit each other, a panel with private labels, rows of a table
        that no alphabet has, outputs that it does not have, or a user with two rows.
    """
    validate.threefry(key)
    labels, shape = facts.labels, (len(facts.labels), facts.num_classes)
    if alphabets.order.shape != shape:
        raise ValueError(f"alphabets must be {shape}, as facts are, got {alphabets.order.shape}")
    if facts.known.keep < 1.0:
        raise ValueError(f"facts must be of public labels, got keep = {facts.known.keep:g}: what they cost is open")
    place, reported = _sent(alphabets, labels < 0, np.asarray(nodes), reports)

    def collect(key: PRNGKey, public: Broadcast) -> ClassReports:
        scores, sent = np.zeros(shape, np.float32), place.copy()
        scores[public.panel] = np.asarray(public.classifier.panel_scores)
        simulated = alphabets.privatize(key, alphabets.best(scores))
        sent[public.panel] = np.asarray(simulated)[public.panel]
        told = jnp.asarray(reported | (labels >= 0))[:, None]
        return ClassReports(jnp.where(told, alphabets.log_likelihoods(sent), 0.0), alphabets.mask, reported)

    found = local_prediction(key, collect, facts)
    guarantee = PipelineGuarantee.of(
        [alphabets.guarantee()],
        protected=("features of private users",),
        unprotected=("edges", "the panel's records", "the panel's labels", "who reported"),
    )
    return PredictedClasses(found.log_posterior, found, alphabets, guarantee, reported)


def _sent(
    alphabets: PersonalAlphabets, private: np.ndarray, nodes: np.ndarray, reports: Sequence[Rows]
) -> tuple[np.ndarray, np.ndarray]:
    """The reported place of each node, 0 where there is none, and who reported."""
    level, n = np.asarray(alphabets.inner.level), len(private)
    tables = {(table := alphabets.inner.table(one)).digest: (one, table) for one in np.unique(level).tolist()}
    found, reported = np.zeros(n, np.int32), np.zeros(n, bool)
    for rows in reports:
        if rows.digest not in tables:
            raise ValueError("reports must be by the tables of the alphabets, and some are by another")
        mine, table = tables[rows.digest]
        output = np.asarray(rows.output)
        validate.in_range(0.0, table.outputs - 1.0, output=output)
        node, known = places(nodes, n, np.asarray(rows.user, np.uint64))
        asked = private[node] & (level[node] == mine)
        node, output = node[asked], output[known][asked]
        if reported[node].any() or len(np.unique(node)) != len(node):
            raise ValueError("reports must be one a user, and are several of some: choose one round")
        found[node], reported[node] = output, True
    return found, reported
