"""Classes of users whose records are private, in one call: each reports the class that its device predicts."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from ldp_jax.accounting.composition import parallel
from ldp_jax.accounting.guarantee import PipelineGuarantee
from ldp_jax.core import random_words, validate
from ldp_jax.core.mechanism import check_epsilon
from ldp_jax.core.progress import Progress, watched
from ldp_jax.core.types import Array, Graph, PRNGKey
from ldp_jax.features import PersonalAlphabets
from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import operator
from ldp_jax.pipeline.local_prediction import Broadcast, LocalPrediction, PanelFacts, local_prediction, panel_facts
from ldp_jax.pipeline.message import ClassReports
from ldp_jax.pipeline.panel import MOST_EPSILON, PanelArguments, label_guarantee, panel_arguments
from ldp_jax.pipeline.rows import Rows


class PredictedClasses(NamedTuple):
    """The result of :func:`predict_from_reports`.

    Attributes:
      log_posterior: float32 [n, C], all in all; of a member of the panel out of fold.
      found: every step on the way: structure alone, the guard's s, what was returned and why, ...
      alphabets: who chose among which classes.
      guarantee: per record of a private user; names what is protected and what is not.
    """

    log_posterior: Float[Array, "n classes"]
    found: LocalPrediction
    alphabets: PersonalAlphabets
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


def predict_from_reports(
    key: PRNGKey,
    graph: Graph,
    features: Any,
    panel: Int[np.ndarray, " panel"],
    labels: Int[np.ndarray, " panel"],
    epsilon: float,
    *,
    num_classes: int | None = None,
    facts: PanelFacts | None = None,
    num_folds: int = 10,
    label_epsilon: float | None = None,
    progress: Progress | None = None,
) -> PredictedClasses:
    """Ask each private user for the class that its device predicts, and say what class each user is of.

    The panel's records and labels are public; they teach what structure says, and a classifier that is broadcast.
    Every other user reports once: the best class of a personal alphabet, by
    :func:`~ldp_jax.features.PersonalAlphabet`. Steps: :mod:`ldp_jax.pipeline.local_prediction`.

    Guarantee: epsilon per record of a private user, any two records: a record goes into one report, and the rest is
    post-processing. Edges, and the panel's records and labels, are not protected. No label of a private user is
    collected. With ``label_epsilon`` a label of the panel costs that, and has a line of its own.

    Utility: structure alone is returned, and ``used`` says so, where the guard believes no report or where reports
    do not lower the panel's log-loss.

    Args:
      key: a typed threefry key: of the devices' noise and of public randomness.
      graph: public, undirected.
      features: of all users, this simulates all devices: dense [n, d] or a scipy sparse matrix, whose rows are
        scaled to length 1; or :func:`~ldp_jax.pipeline.rows.feature_rows`, for another transformation. The panel's
        must be finite; of a private record NaN is 0, as on the device.
      panel: the nodes of the panel. Score results on the other nodes.
      labels: in [0, C), of these nodes.
      epsilon: in (0, 20].
      num_classes: C; by default the largest label plus 1.
      facts: what :func:`~ldp_jax.pipeline.local_prediction.panel_facts` found of this graph and panel, so that a
        sweep finds it once.
      num_folds: F, in which the panel is asked of models that have not seen it.
      label_epsilon: in (0, 20], where the panel's labels are private too: each member reports one through
        :func:`~ldp_jax.features.GeneralizedRR` before anything else (:mod:`ldp_jax.pipeline.panel`).
        ``num_classes``, which is public, must then be given, and labels outside [0, C) are clipped.
      progress: told of each phase (:data:`ldp_jax.core.progress.Progress`); by default shown after five seconds.

    Raises:
      ValueError: before anybody reports, for arguments that do not fit each other or are out of range, or a panel
        without a member of some class or of one class alone.

    >>> nodes = np.arange(60)
    >>> same = nodes[:, None] // 30 == nodes // 30  # two circles, in which everybody knows everybody
    >>> circles = graphs.from_edges(np.argwhere(np.triu(same, 1)), num_nodes=60)
    >>> y = (nodes // 30 + (nodes % 5 == 1)) % 2  # every fifth is of the other circle's class, as the record says
    >>> panel, private = nodes[::3], nodes[nodes % 3 > 0]
    >>> found = predict_from_reports(jax.random.key(2), circles, np.eye(2)[y], panel, y[panel], 4.0, num_folds=2)
    >>> found.used, [int((p.classes == y)[private].sum()) for p in (found.found.facts.structure, found)]
    ('reports', [32, 40])
    """
    validate.threefry(key)
    check_epsilon(epsilon, most=MOST_EPSILON)
    label_key = key
    if label_epsilon is not None:
        key, label_key = jax.random.split(key)
    given = panel_arguments(
        graphs.num_nodes(graph), features, panel, labels, num_classes=num_classes, label_epsilon=label_epsilon
    )
    if facts is not None:
        _check_facts(facts, graph, given)
    labels = given.server_labels(label_key, panel, labels)
    facts_key, key = random_words.split(key)
    with watched("predict_from_reports", progress):
        if facts is None:
            facts = panel_facts(
                facts_key, graph, given.rows.take(given.members), labels, num_classes=given.num_classes,
                num_folds=num_folds, keep=given.keep,
            )  # fmt: skip
        alphabets = PersonalAlphabets.of(epsilon, np.exp(np.asarray(facts.structure.log_q)))
        found = local_prediction(key, class_reports(alphabets, given.rows), facts)
    spent = [alphabets.guarantee()]
    protected, unprotected = ("features of private users",), ("edges", "the panel's records", "the panel's labels")
    if given.noise is not None:  # a member of the panel reports nothing but a label
        spent = [parallel(*spent, given.noise.guarantee()), label_guarantee(given.noise)]
        protected, unprotected = (*protected, "the panel's labels"), unprotected[:-1]
    guarantee = PipelineGuarantee.of(spent, protected=protected, unprotected=unprotected)
    return PredictedClasses(found.log_posterior, found, alphabets, guarantee)


def _check_facts(facts: PanelFacts, graph: Graph, given: PanelArguments) -> None:
    """Refuse facts of another graph or panel, or beside private labels."""
    if given.noise is not None:
        raise ValueError("facts must be None where labels are private: they are reported once, before all else")
    leaves = [jax.tree.leaves(op) for op in (facts.op, operator(graph))]
    if not (
        np.array_equal(facts.labels, given.labels)
        and facts.num_classes == given.num_classes
        and len(leaves[0]) == len(leaves[1])
        and all(map(np.array_equal, *leaves))
    ):
        raise ValueError("facts must be of this graph, panel and number of classes, and are of others")
    if facts.known.keep < 1.0:
        raise ValueError(
            f"facts must be of public labels, got keep = {facts.known.keep:g}: give label_epsilon, and no facts"
        )
    columns = facts.classifier.weights.shape[0]
    if columns != given.rows.shape[1]:
        raise ValueError(f"features must have {columns} columns, as facts have, got {given.rows.shape[1]}")
