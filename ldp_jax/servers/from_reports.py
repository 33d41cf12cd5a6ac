"""Classes of users whose records are private, in one call.

Each reports the class that its device predicts.
"""

from typing import Any, NamedTuple

import jax  # noqa: F401 - the examples below
import numpy as np
from jaxtyping import Float, Int

from ldp_jax.accounting.guarantee import PipelineGuarantee
from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.integer_tables import checked_epsilon
from ldp_jax.core.progress import Progress, phase, watched
from ldp_jax.core.types import Array, Graph, PRNGKey
from ldp_jax.features import PersonalAlphabets
from ldp_jax.graph import graphs
from ldp_jax.servers.driver import simulate
from ldp_jax.servers.facts.panel import PanelFacts, panel_facts
from ldp_jax.servers.labels import LabelledReportServer, LabelServer
from ldp_jax.servers.parts.absent import absent_words
from ldp_jax.servers.parts.panel import by_node, panel_arguments
from ldp_jax.servers.parts.rows import Features, Rows
from ldp_jax.servers.reports import LocalPrediction, ReportServer
from ldp_jax.servers.users import Users


class PredictedClasses(NamedTuple):
    """The result of :func:`predict_from_reports`.

    Attributes:
      log_posterior: float32 [n, C], all in all; of a member of the panel out of fold.
      found: every step on the way: structure alone, the guard's belief, what was used and why, ...
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
        """The guard's probability that reports are of use."""
        return self.found.strength

    @property
    def used(self) -> str:
        """``reports``, or ``structure`` where that alone is what was returned."""
        return self.found.used

    @property
    def absent(self) -> tuple[int, ...]:
        """The classes of which the panel has nobody. Their posterior is the prior."""
        return self.found.facts.absent

    def __repr__(self) -> str:
        n, classes = self.log_posterior.shape
        said = f"by {self.used}, strength {self.strength:.2f}{absent_words(self.absent)}"
        return f"PredictedClasses({n} users, {classes} classes, {said})"


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
    """Predict classes of users with private records, from one report of a predicted class each.

    Every private user reports once: the best class of a personal alphabet, by
    :func:`~ldp_jax.features.PersonalAlphabet` (:mod:`ldp_jax.servers.reports`).
    Guarantee: epsilon per record of a private user, any two records. Edges, and the panel's records
    and labels, are not protected; no other label is collected. With ``label_epsilon`` a label of
    the panel costs that.
    Utility: structure alone is returned, and ``used`` says so, where the guard does not believe
    that reports tell more.

    Args:
      key: a typed threefry key: of the devices' noise and of public randomness.
      graph: public, undirected.
      features: of all users, this simulates all devices: dense [n, d] or a scipy sparse matrix,
        whose rows are scaled to length 1; or :func:`~ldp_jax.servers.parts.rows.feature_rows`.
        Finite in the panel; private NaN is 0.
      panel: the nodes of the panel. Score results on the other nodes.
      labels: in [0, C), of these nodes.
      epsilon: in (0, 20].
      num_classes: C; by default the largest label plus 1. Where it is given, the panel may have
        nobody of some class. Its posterior is then its prior, the share of half a panel member, for
        every user (:mod:`ldp_jax.servers.parts.absent`). ``absent`` names such classes.
      facts: what :func:`~ldp_jax.servers.panel_facts` found of this graph and panel.
      num_folds: F, in which the panel is asked of models that have not seen it; at most, since each
        fold holds a label of every typical class; 10 by default, and as facts say.
      label_epsilon: in (0, 20], where the panel's labels are private too: each member reports one
        through :func:`~ldp_jax.features.GeneralizedRR` (:mod:`ldp_jax.servers.labels`).
        ``num_classes``, which is public, must then be given, and labels outside [0, C) are clipped.
      progress: told of each phase (:data:`ldp_jax.core.progress.Progress`); by default shown after
        five seconds.

    ``ValueError`` before anybody reports, for arguments that do not fit each other or are out of
    range, or a panel of one class alone. Without ``num_classes`` the panel must have a member of
    every class.

    >>> nodes = np.arange(60)  # in two circles, in which everybody knows everybody
    >>> pairs = [(i, j) for j in nodes for i in range(j) if i // 30 == j // 30]
    >>> circles = graphs.from_edges(pairs, 60)
    >>> y = (
    ...     nodes // 30 + (nodes % 5 == 1)
    ... ) % 2  # every fifth has the other circle's class
    >>> panel, private = nodes[::3], nodes[nodes % 3 > 0]
    >>> given = circles, np.eye(2)[y], panel, y[panel]
    >>> found = predict_from_reports(jax.random.key(2), *given, 4.0, num_folds=2)
    >>> both = found.found.facts.structure, found
    >>> found.used, [int((p.classes == y)[private].sum()) for p in both]
    ('reports', [32, 39])
    """
    validate.host_key(key, "predict_from_reports")
    checked_epsilon(epsilon)
    given = panel_arguments(
        graphs.num_nodes(graph),
        features,
        panel,
        labels,
        num_classes=num_classes,
        label_epsilon=label_epsilon,
    )
    if facts is not None:
        rule = (
            "facts must be None where labels are private: they are reported once, before all else"
        )
        validate.require(given.noise is None, rule)
        facts.check(graph, given.labels, given.num_classes, given.rows.shape[1])
        rule = f"num_folds must be {facts.known.num_folds}, as facts have, or None;"
        fits = num_folds in (None, facts.known.num_folds)
        validate.require(fits, f"{rule} got {num_folds}")
    folds = 10 if num_folds is None else num_folds
    validate.integer_in(2, num_folds=folds)
    members = given.labels >= 0
    shown = given.rows.take(given.members)
    facts_key, key = random.split(key)
    server: Any
    with watched("predict_from_reports", progress):
        if label_epsilon is not None:
            labelled = LabelServer(members, given.num_classes, label_epsilon)
            server = LabelledReportServer(graphs.as_graph(graph), shown, labelled, epsilon, folds)
            users = Users(records=given.rows, labels=by_node(members, panel, labels))
        else:
            if facts is None:
                sizes = {"num_classes": given.num_classes, "num_folds": folds}
                facts = panel_facts(facts_key, graph, shown, given.labels, **sizes)
            phase("reports", 0.65)
            server = ReportServer(facts, epsilon)
            users = Users(records=given.rows, public=members)
        released = simulate(key, server, users)
    found = released.value
    return PredictedClasses(found.log_posterior, found, found.alphabets, released.guarantee)
