"""Classes of users with private records and lists, in one call, on simulated users."""

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ldp_jax.accounting.guarantee import PipelineGuarantee
from ldp_jax.core import random, validate
from ldp_jax.core.progress import Progress, phase, watched
from ldp_jax.core.types import Graph, PRNGKey
from ldp_jax.edges.population import Population
from ldp_jax.graph.graphs import GraphSet
from ldp_jax.servers.counts import PilotedCounts
from ldp_jax.servers.driver import simulate
from ldp_jax.servers.facts.joint import joint_facts
from ldp_jax.servers.joint import JointServer
from ldp_jax.servers.joint_privacy import JointPrivacy
from ldp_jax.servers.labels import LabelServer, PrivatePanel
from ldp_jax.servers.parts.absent import absent_words
from ldp_jax.servers.parts.panel import by_node, panel_arguments
from ldp_jax.servers.parts.rows import Features, Rows
from ldp_jax.servers.users import Users

STATED_FRIENDS = "mean degree and homophily: public"
"""The field that a guarantee names as unprotected where stated facts of friendships chose or read
the reports.
"""


def checked_members(panel: Int[np.ndarray, " panel"], share: float) -> Int[np.ndarray, " some"]:
    """The members of a panel that are its check.

    Every 1 / share-th of its nodes in ascending order.

    >>> import jax
    >>> checked_members(np.arange(20), 0.1).tolist()
    [9, 19]
    """
    validate.number(0.0, 0.5, share=share)
    place = np.floor(np.arange(len(panel) + 1) * share)
    return np.sort(panel)[np.diff(place) > 0]


class JointClasses(NamedTuple):
    """The result of :func:`predict_jointly`, and what it cost.

    See :class:`~ldp_jax.servers.joint.JointPrediction`.
    """

    log_posterior: Float[np.ndarray, "n classes"]
    log_prior: Float[np.ndarray, " classes"]
    reason: str
    strength: float
    counts: PilotedCounts | None
    round: Int[np.ndarray, " n"]
    guarantee: PipelineGuarantee
    absent: tuple[int, ...] = ()

    @property
    def classes(self) -> Int[np.ndarray, " n"]:
        """The likeliest class of each user."""
        return self.log_posterior.argmax(1)

    def __repr__(self) -> str:
        n, classes = self.log_posterior.shape
        return (
            f"JointClasses({n} users, {classes} classes; {self.reason}{absent_words(self.absent)})"
        )


def predict_jointly(
    key: PRNGKey,
    lists: Graph | GraphSet,
    features: Features | Rows,
    panel: Int[np.ndarray, " panel"],
    labels: Int[np.ndarray, " panel"],
    privacy: JointPrivacy,
    *,
    num_classes: int | None = None,
    num_folds: int = 10,
    homophily: float | None = None,
    progress: Progress | None = None,
) -> JointClasses:
    """Predict classes of users with private records and lists, within one total.

    Each private user is asked for what the device predicts, and for the neighbours' classes.

    Guarantee: a private user pays ``privacy.record`` for the record's report and ``privacy.list``
    for a bit of the list; or ``privacy.both`` for the record and the whole list together. A member
    of the panel pays ``privacy.labels`` for a label, and for a list what everybody does. A
    relationship is in two lists. With private labels the guarantee does not depend on them: it
    states lists as asked for, even where they were left out.
    Utility: little is left of what a public graph gives. :func:`ldp_jax.rehearse` says beforehand
    what a total buys, and which split of it is best.

    Args:
      key: a typed threefry key: of the devices' noise and of public randomness.
      lists: the private graph, undirected; this simulates all devices.
      features: see :func:`ldp_jax.predict_from_reports`.
      panel: its members. Score results on the other nodes.
      labels: in [0, C), of these members.
      privacy: what each report costs.
      num_classes: C; by default the largest label plus 1, where labels are public. Where it is
        given, the panel may have nobody of some class. Its posterior is then its prior, and
        ``absent`` names it.
      num_folds: F, at most: each fold of the panel holds a label of every typical class.
      homophily: of one report of both: the share of friends of one's own class beyond chance, in
        [0, 1), as it is publicly stated, by default 0.6. A wrong number costs accuracy alone. A
        stated one is named among the unprotected: the true one of a private graph is a release.
      progress: told of each phase (:data:`ldp_jax.core.progress.Progress`); by default shown after
        five seconds.

    ``ValueError`` for arguments that do not fit each other or are out of range, before anybody
    reports.

    >>> import jax
    >>> from ldp_jax import datasets
    >>> data = datasets.synthetic(
    ...     jax.random.key(0),
    ...     num_nodes=400,
    ...     num_classes=3,
    ...     num_features=30,
    ...     mean_degree=6,
    ...     homophily=0.5,
    ... )
    >>> panel, privacy = np.arange(90), JointPrivacy(record=4.0, list=0.0)
    >>> given = data.graph, data.x, panel, data.y[panel]
    >>> found = predict_jointly(jax.random.key(1), *given, privacy, num_folds=3)
    >>> found, found.round.any()
    (JointClasses(400 users, 3 classes; records alone), np.False_)
    >>> privacy = JointPrivacy(both=4.0)
    >>> given = data.graph, data.x, panel, data.y[panel]
    >>> found = predict_jointly(jax.random.key(1), *given, privacy, num_folds=3)
    >>> print(str(found.guarantee).splitlines()[-1])  # doctest: +ELLIPSIS
      epsilon 4 per record + whole neighbour list (any two records and any two neighbour lists of...
    """
    validate.host_key(key, "predict_jointly")
    users = Users(lists=Population.of(lists))
    n = users.num_users
    rule = "privacy must be JointPrivacy(record=..., list=...)"
    validate.require(isinstance(privacy, JointPrivacy), rule, privacy)
    rule = "homophily must be None but of one report, JointPrivacy(both=...): nothing else reads it"
    validate.require(homophily is None or privacy.both, rule)
    alike = JointServer.homophily if homophily is None else homophily
    validate.number(0.0, 1.0, open_upper=True, homophily=alike)
    given = panel_arguments(
        n, features, panel, labels, num_classes=num_classes, label_epsilon=privacy.labels
    )
    validate.integer_in(2, num_folds=num_folds)
    exposes: tuple[str, ...] = ()
    if privacy.rehearsed or homophily is not None:
        exposes = (STATED_FRIENDS if privacy.rehearsed else "homophily: public",)
    users = dataclasses.replace(users, records=given.rows)
    fold_key, run_key = random.split(key)
    with watched("predict_jointly", progress):
        if privacy.labels is not None:
            asked = LabelServer(given.labels >= 0, given.num_classes, privacy.labels)
            private = PrivatePanel(asked, given.rows.take(given.members), num_folds)
            server = JointServer(privacy, panel=private, homophily=alike, exposes=exposes)
            users = dataclasses.replace(users, labels=by_node(given.labels >= 0, panel, labels))
        else:
            phase("what the panel teaches", 0.0)
            chosen = checked_members(given.members, privacy.check)
            size = len(given.members)
            rule = f"check of {privacy.check:g} leaves nobody of a panel of {size} to report"
            validate.require(len(chosen) or not privacy.check, rule)
            apart = np.isin(np.arange(n), chosen)
            shown = np.where(apart, -1, given.labels)
            facts = joint_facts(
                fold_key,
                given.rows.take(np.flatnonzero(shown >= 0)),
                shown,
                num_classes=given.num_classes,
                num_folds=num_folds,
            )
            check = np.where(apart, given.labels, -1) if privacy.check else None
            if check is not None and facts.numbering is not None:
                check = facts.numbering.renumbered(check)
            server = JointServer(privacy, facts, check=check, homophily=alike, exposes=exposes)
        phase("reports", 0.3)
        released = simulate(run_key, server, users)
    found = released.value
    return JointClasses(**found._asdict(), guarantee=released.guarantee)
