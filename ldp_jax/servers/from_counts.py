"""Classes of users with private lists, in one call, on simulated users."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ldp_jax.accounting.guarantee import PipelineGuarantee
from ldp_jax.core import random_words, validate
from ldp_jax.core.progress import Progress, phase, watched
from ldp_jax.core.types import Array, ArrayLike, Graph, PRNGKey
from ldp_jax.edges import NeighbourCounts
from ldp_jax.edges.population import Population
from ldp_jax.graph.graphs import GraphSet
from ldp_jax.servers.counts import CountServer, PilotedCounts, Protects
from ldp_jax.servers.driver import simulate
from ldp_jax.servers.facts.counts import count_facts
from ldp_jax.servers.parts.absent import absent_words
from ldp_jax.servers.parts.groups import check_teachers
from ldp_jax.servers.parts.rows import Features, Rows, Scaling, warn_of_columns
from ldp_jax.servers.parts.self_training import LogPosterior
from ldp_jax.servers.users import Users


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
        """How far the reports were believed: see :class:`~ldp_jax.servers.counts.PilotedCounts`."""
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

    >>> import jax
    >>> int(
    ...     silent_users(
    ...         jax.random.key(0), np.array([0] * 10 + [1] * 2 + [-1] * 5)
    ...     ).sum()
    ... )
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
    log_q: LogPosterior | None = None,
    silent: Bool[np.ndarray, " n"] | None = None,
    most: int = 65_535,
    num_folds: int | None = None,
    guarded: bool = True,
    progress: Progress | None = None,
) -> CountedClasses:
    """Predict classes of users with private lists, from counts of their neighbours by class.

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
      guarded: whether the guard, and labels, may leave evidence out.
      progress: told of each phase (:data:`ldp_jax.core.progress.Progress`); by default shown after
        five seconds.

    ``ValueError`` for arguments that do not fit each other or are out of range, before anybody
    reports.

    >>> import jax
    >>> from ldp_jax import datasets
    >>> data = datasets.synthetic(
    ...     jax.random.key(0),
    ...     num_nodes=300,
    ...     num_classes=3,
    ...     num_features=30,
    ...     mean_degree=8,
    ...     homophily=0.8,
    ... )
    >>> labels = np.where(np.arange(300) < 100, data.y, -1)
    >>> given = data.graph, None, labels
    >>> found = predict_from_counts(
    ...     jax.random.key(1), *given, 1.0, unit="relationship"
    ... )
    >>> found.log_posterior.shape, found.classes.shape
    ((300, 3), (300,))
    >>> print(found.guarantee)  # doctest: +ELLIPSIS
    protected: edges; NOT protected: number of nodes, features, labels, ...
      epsilon 1 per neighbour-list (...)
      epsilon 1 per relationship (...)
    """
    validate.host_key(key, "predict_from_counts")
    validate.one_of(("list", "relationship"), unit=unit)
    labels = validate.node_labels(labels)
    hint = "datasets.read_records numbers names of classes"
    rule = "labels must be integers, one a user and -1 or None for none"
    validate.require(labels.dtype.kind in "iu", f"{rule}, got {labels.dtype}: {hint}")
    labels = labels.astype(np.int64)
    if num_classes is None:
        num_classes = int(labels.max(initial=-1)) + 1
        check_teachers(labels, num_classes, counted=True)
    # Refuses an epsilon before anybody is asked.
    NeighbourCounts(epsilon, max(num_classes, 1), most=most)
    users = Users(lists=Population.of(lists))
    rule = f"labels must be int [{users.num_users}], one a user"
    validate.require(labels.shape == (users.num_users,), rule, labels)
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
