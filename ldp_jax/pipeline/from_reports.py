"""Classes of users whose records are private, in one call: each reports the class that its device predicts."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax  # noqa: F401 - the examples below
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, Integer

from ldp_jax.accounting.composition import parallel
from ldp_jax.accounting.guarantee import PipelineGuarantee
from ldp_jax.core import random, random_words, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.mechanism import check_epsilon
from ldp_jax.core.progress import Progress, watched
from ldp_jax.core.pytree import digest
from ldp_jax.core.types import Array, Graph, PRNGKey
from ldp_jax.features import PersonalAlphabets
from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import operator
from ldp_jax.pipeline.local_prediction import Broadcast, LocalPrediction, PanelFacts, local_prediction, panel_facts
from ldp_jax.pipeline.message import ClassReports
from ldp_jax.pipeline.panel import MOST_EPSILON, PanelArguments, label_guarantee, panel_arguments
from ldp_jax.pipeline.reported import ReportRows, places
from ldp_jax.pipeline.rows import Features, Rows

_HIDDEN, _IN_THE_CLEAR = ("features of private users",), ("edges", "the panel's records", "the panel's labels")


class PredictedClasses(NamedTuple):
    """The result of :func:`predict_from_reports`.

    Attributes:
      log_posterior: float32 [n, C], all in all; of a member of the panel out of fold.
      found: every step on the way: structure alone, the guard's s, what was returned and why, ...
      alphabets: who chose among which classes.
      guarantee: per record of a private user; names what is protected and what is not.
      reported: bool [n], whose report was read, where devices sent them; None where all of them are simulated.
    """

    log_posterior: Float[Array, "n classes"]
    found: LocalPrediction
    alphabets: PersonalAlphabets
    guarantee: PipelineGuarantee
    reported: Bool[np.ndarray, " n"] | None = None

    @property
    def classes(self) -> Int[np.ndarray, " n"]:
        """The likeliest class of each user."""
        return np.asarray(self.log_posterior).argmax(1)

    @property
    def strength(self) -> float:
        """s of the guard: how far the reports were believed."""
        return self.found.strength

    @property
    def used(self) -> str:
        """``reports``, or ``structure`` where that alone is what was returned."""
        return self.found.used

    def __repr__(self) -> str:
        n, classes = self.log_posterior.shape
        return f"PredictedClasses({n} users, {classes} classes, by {self.used}, strength {self.strength:.2f})"


def class_reports(alphabets: PersonalAlphabets, rows: Rows) -> Callable[[PRNGKey, Broadcast], ClassReports]:
    """Simulated devices: each sends the best class of its alphabet. The panel's classes are found out of fold."""

    def collect(key: PRNGKey, public: Broadcast) -> ClassReports:
        scores = np.array(public.classifier.scores(rows))  # on the host: another panel compiles nothing
        scores[np.asarray(public.panel)] = np.asarray(public.classifier.panel_scores)
        reports = alphabets.privatize(key, alphabets.best(scores))
        return ClassReports(alphabets.log_likelihoods(reports), alphabets.mask)

    return collect


@implicit_promotion()
def predict_from_reports(
    key: PRNGKey,
    graph: Graph,
    features: Features | Rows,
    panel: Int[np.ndarray, " panel"],
    labels: Int[np.ndarray, " panel"],
    epsilon: float,
    *,
    num_classes: int | None = None,
    facts: PanelFacts | None = None,
    num_folds: int | None = None,
    label_epsilon: float | None = None,
    progress: Progress | None = None,
) -> PredictedClasses:
    """Ask each private user for the class that its device predicts, and say what class each user is of.

    Every private user reports once: the best class of a personal alphabet, by
    :func:`~ldp_jax.features.PersonalAlphabet` (:mod:`ldp_jax.pipeline.local_prediction`).
    Guarantee: epsilon per record of a private user, any two records. Edges, and the panel's records and labels, are
    not protected; no other label is collected. With ``label_epsilon`` a label of the panel costs that.
    Utility: structure alone is returned, and ``used`` says so, where the guard believes no report or where reports
    do not lower the panel's log-loss.

    Args:
      key: a typed threefry key: of the devices' noise and of public randomness.
      graph: public, undirected.
      features: of all users, this simulates all devices: dense [n, d] or a scipy sparse matrix, whose rows are
        scaled to length 1; or :func:`~ldp_jax.pipeline.rows.feature_rows`. Finite in the panel; private NaN is 0.
      panel: the nodes of the panel. Score results on the other nodes.
      labels: in [0, C), of these nodes.
      epsilon: in (0, 20].
      num_classes: C; by default the largest label plus 1.
      facts: what :func:`~ldp_jax.pipeline.local_prediction.panel_facts` found of this graph and panel.
      num_folds: F, in which the panel is asked of models that have not seen it; 10 by default, and as facts say.
      label_epsilon: in (0, 20], where the panel's labels are private too: each member reports one through
        :func:`~ldp_jax.features.GeneralizedRR` (:mod:`ldp_jax.pipeline.panel`). ``num_classes``, which is public,
        must then be given, and labels outside [0, C) are clipped.
      progress: told of each phase (:data:`ldp_jax.core.progress.Progress`); by default shown after five seconds.

    ``ValueError`` before anybody reports, for arguments that do not fit each other or are out of range, or a panel
    without a member of some class or of one class alone.

    >>> nodes = np.arange(60)  # in two circles, in which everybody knows everybody
    >>> circles = graphs.from_edges([(i, j) for j in nodes for i in range(j) if i // 30 == j // 30], 60)
    >>> y = (nodes // 30 + (nodes % 5 == 1)) % 2  # every fifth is of the other circle's class, as the record says
    >>> panel, private = nodes[::3], nodes[nodes % 3 > 0]
    >>> found = predict_from_reports(jax.random.key(2), circles, np.eye(2)[y], panel, y[panel], 4.0, num_folds=2)
    >>> found.used, [int((p.classes == y)[private].sum()) for p in (found.found.facts.structure, found)]
    ('reports', [32, 40])
    """
    validate.host_key(key, "predict_from_reports")
    check_epsilon(epsilon, most=MOST_EPSILON)
    label_key = key
    if label_epsilon is not None:
        key, label_key = random.split(key)
    given = panel_arguments(
        graphs.num_nodes(graph), features, panel, labels, num_classes=num_classes, label_epsilon=label_epsilon
    )
    if facts is not None:
        _check_facts(facts, graph, given)
        if num_folds not in (None, facts.known.num_folds):
            raise ValueError(f"num_folds must be {facts.known.num_folds}, as facts have, or None; got {num_folds}")
    labels = given.server_labels(label_key, panel, labels)
    facts_key, key = random_words.split(key)
    with watched("predict_from_reports", progress):
        if facts is None:
            facts = panel_facts(
                facts_key, graph, given.rows.take(given.members), labels, num_classes=given.num_classes,
                num_folds=10 if num_folds is None else num_folds, keep=given.keep,
            )  # fmt: skip
        alphabets = PersonalAlphabets.of(epsilon, np.exp(np.asarray(facts.structure.log_q)))
        found = local_prediction(key, class_reports(alphabets, given.rows), facts)
    spent = [alphabets.guarantee()]
    protected, unprotected = _HIDDEN, _IN_THE_CLEAR
    if given.noise is not None:  # a member of the panel reports nothing but a label
        spent = [parallel(*spent, given.noise.guarantee()), label_guarantee(given.noise)]
        protected, unprotected = (*protected, "the panel's labels"), unprotected[:-1]
    guarantee = PipelineGuarantee.of(spent, protected=protected, unprotected=unprotected)
    return PredictedClasses(found.log_posterior, found, alphabets, guarantee)


def _check_facts(facts: PanelFacts, graph: Graph, given: PanelArguments) -> None:
    """Refuse facts of another graph or panel, or beside private labels."""
    if given.noise is not None:
        raise ValueError("facts must be None where labels are private: they are reported once, before all else")
    same = facts.num_classes == given.num_classes and np.array_equal(facts.labels, given.labels)
    if not same or digest(facts.op) != digest(operator(graph)):
        raise ValueError("facts must be of this graph, panel and number of classes, and are of others")
    if facts.known.keep < 1.0:
        raise ValueError(f"facts must be of public labels, got keep = {facts.known.keep:g}: give label_epsilon")
    columns = facts.classifier.weights.shape[0]
    if columns != given.rows.shape[1]:
        raise ValueError(f"features must have {columns} columns, as facts have, got {given.rows.shape[1]}")


@implicit_promotion()
def classify_reports(
    key: PRNGKey,
    facts: PanelFacts,
    alphabets: PersonalAlphabets,
    nodes: Integer[np.ndarray, " n"],
    reports: Sequence[ReportRows],
    *,
    progress: Progress | None = None,
) -> PredictedClasses:
    """The same as :func:`~ldp_jax.pipeline.predict_from_reports`, from classes that devices sent.

    Rows are left out that nobody's device was asked for: of users who are no node or in the panel, by a table of
    another size than the user's alphabet, and, where rows have a ``field``, of any but 0.
    Guarantee: that of the alphabets, per record of a private user who reported; over several rounds it adds up
    (:meth:`ldp_jax.deployment.store.ReportStore.spent`).

    Args:
      key: of public randomness: of what the panel's devices would report.
      facts: of a panel with public labels; their classifier is what devices ran
        (:class:`ldp_jax.deployment.Classifier`).
      alphabets: of devices: user i has the :class:`ldp_jax.deployment.Alphabet` of ``order[i][:sizes[i]]``.
      nodes: the user of each node, distinct.
      reports: of one round, the rows of each table (:func:`ldp_jax.deployment.alphabet_table`).
      progress: told of each phase (:data:`ldp_jax.core.progress.Progress`); by default shown after five seconds.

    ``ValueError`` for facts and alphabets that do not fit each other, a panel with private labels, rows of a table
    that no alphabet has, outputs that it does not have, or a user with two rows.

    >>> from ldp_jax.deployment import Alphabet, Classifier, Device, Session, alphabet_table, decode, report_class
    >>> from ldp_jax.pipeline.rows import feature_rows
    >>> nodes = np.arange(60)  # in two circles, in which everybody knows everybody
    >>> circles = graphs.from_edges([(i, j) for j in nodes for i in range(j) if i // 30 == j // 30], 60)
    >>> y = (nodes // 30 + (nodes % 5 == 1)) % 2  # every fifth is of the other circle's class, as the record says
    >>> labels, x = np.where(nodes % 3 == 0, y, -1), np.eye(2)[y]
    >>> given = (circles, feature_rows(x[::3]), labels)
    >>> facts = panel_facts(jax.random.key(0), *given, num_classes=2, num_folds=2)
    >>> alphabets = PersonalAlphabets.of(4.0, np.exp(np.asarray(facts.structure.log_q)))
    >>> classifier, table = Classifier(*map(np.asarray, facts.classifier[:2])), alphabet_table(4.0, 2, 2)
    >>> def send(user):  # on a device
    ...     alphabet = Alphabet(np.asarray(alphabets.order[user]), 4.0, table)
    ...     session = Session(Device.new(), budget=4.0)
    ...     return report_class(session, classifier, alphabet, x[user], user=user, round=0)
    >>> arrived = decode(b"".join(map(send, np.flatnonzero(labels < 0)[5:].tolist())), table)  # five are silent
    >>> found = classify_reports(jax.random.key(1), facts, alphabets, nodes, [arrived])
    >>> found.used, int(found.reported.sum()), bool((found.classes == y)[found.reported].mean() > 0.85)
    ('reports', 35, True)
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

    with watched("classify_reports", progress):
        found = local_prediction(key, collect, facts)
    shown = (*_IN_THE_CLEAR, "who reported")
    guarantee = PipelineGuarantee.of([alphabets.guarantee()], protected=_HIDDEN, unprotected=shown)
    return PredictedClasses(found.log_posterior, found, alphabets, guarantee, reported)


def _sent(
    alphabets: PersonalAlphabets, private: np.ndarray, nodes: np.ndarray, reports: Sequence[ReportRows]
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
        field = np.broadcast_to(getattr(rows, "field", 0), known.shape)[known]
        asked = private[node] & (level[node] == mine) & (field == 0)  # others would be a second row of a user
        node, output = node[asked], output[known][asked]
        if reported[node].any() or len(np.unique(node)) != len(node):
            raise ValueError("reports must be one a user, and are several of some: choose one round")
        found[node], reported[node] = output, True
    return found, reported
