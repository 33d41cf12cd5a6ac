"""Classes of users whose friendships are private, in one call: counts of neighbours by a broadcast class."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import jax  # noqa: F401 - the example below
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Int

from ldp_jax.accounting.composition import parallel
from ldp_jax.accounting.guarantee import Guarantee, PipelineGuarantee
from ldp_jax.core import random_words, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.progress import Progress, watched
from ldp_jax.core.types import Array, Graph, PRNGKey
from ldp_jax.edges import NeighbourCounts, NoisyCounts, Population, ownership, privatize_counts
from ldp_jax.edges.neighbour_lists import per_edge
from ldp_jax.graph.graphs import GraphSet
from ldp_jax.pipeline.piloted import CountRound, PilotedCounts, PublicFacts, piloted_counts
from ldp_jax.pipeline.reported import ReportRows
from ldp_jax.pipeline.rows import Features, Rows, Scaling, warn_of_columns
from ldp_jax.pipeline.self_training import FeaturesPosterior

Protects = Literal["list", "relationship"]
"""What epsilon is about: one bit of one list, or one edge, at both of its ends."""

_REACH = 40.0  # of noise, over epsilon: beyond is one count in e^40

_IN_THE_CLEAR = ("number of nodes", "features", "labels", "groups of nodes", "who reports in which round")


class CountedClasses(NamedTuple):
    """The posterior of everybody's class, and what it cost.

    Attributes:
      log_posterior: float32 [n, C], all in all; of a labelled user without their label.
      found: every step on the way: features alone, the forecast by which the groups were chosen, the guard's s, ...
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

    def __repr__(self) -> str:
        n, classes = self.log_posterior.shape
        scaled = "" if self.scaling is None else f", features scaled by {self.scaling!r}"
        return (
            f"CountedClasses({n} users, {classes} classes, counted by {self.found.design.best!r}, "
            f"strength {self.strength:.2f}{scaled})"
        )


def silent_users(key: PRNGKey, labels: Int[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
    """Labelled users who report nothing, half of each class; at least two of a class report, where it has two.

    Where each pair has one owner, whoever reports owns all pairs with the silent, whose class is known: their own
    reports would say least, but teach the model. ``labels`` are -1 for none, and the key is of public randomness.

    >>> int(silent_users(jax.random.key(0), np.array([0] * 10 + [1] * 2 + [-1] * 5)).sum())
    5
    """
    validate.threefry(key)
    labels = np.asarray(labels)
    place = random_words.places_within(key, labels)
    size = np.bincount(labels[labels >= 0], minlength=1)
    quiet = np.minimum(np.round(0.5 * size), np.maximum(size - 2, 0))
    return (labels >= 0) & (place < quiet[np.maximum(labels, 0)])


@implicit_promotion()
def predict_from_counts(
    key: PRNGKey,
    lists: Graph | GraphSet,
    features: Features | Rows | None,
    labels: ArrayLike,
    epsilon: float,
    *,
    unit: Protects = "list",
    num_classes: int | None = None,
    log_q: Float[Array, "n classes"] | FeaturesPosterior | None = None,
    silent: Bool[np.ndarray, " n"] | None = None,
    most: int = 65_535,
    num_folds: int | None = None,
    guarded: bool = True,
    progress: Progress | None = None,
) -> CountedClasses:
    """Ask users how many of their neighbours are of each public class, and say what class each user is of.

    A pilot reports first, then everybody else, and nobody twice (:mod:`ldp_jax.pipeline.piloted`).
    Guarantee: epsilon per bit of a list, whatever the number of groups is: a bit is in one count of one report. A
    relationship is two bits: with ``unit="list"`` both ends report it, 2 epsilon; with ``unit="relationship"`` each
    pair has one owner, by public facts, and costs epsilon. The second question post-processes reports of others.

    Args:
      key: a typed threefry key: of the users' noise and of public randomness.
      lists: the private graph, undirected; this simulates all devices.
      features: public: dense [n, d] or a scipy sparse matrix, of which held-out labels choose a scaling
        (:func:`~ldp_jax.pipeline.rows.scaled_rows`); :func:`~ldp_jax.pipeline.rows.feature_rows`, for rows of
        length 1 without a choice; or None.
      labels: public, int [n] in [0, C), -1, None or NaN for users whose class is asked for.
      epsilon: in [0.001, 40].
      unit: the unit of epsilon.
      num_classes: C; by default the largest label plus 1.
      log_q: a public posterior in place of the features' logistic regression, such as
        :func:`~ldp_jax.pipeline.posterior.model_posterior`; see :class:`~ldp_jax.pipeline.piloted.PublicFacts`.
      silent: bool [n], labelled users who report nothing; by default nobody, by relationship :func:`silent_users`.
      most: the largest count that is reported (:class:`~ldp_jax.edges.NeighbourCounts`).
      num_folds: of the logistic regressions.
      guarded: whether the guard may weaken evidence.
      progress: told of each phase (:data:`ldp_jax.core.progress.Progress`); by default shown after five seconds.

    ``ValueError`` for arguments that do not fit each other or are out of range, before anybody reports.

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
        raise ValueError(f"labels must be integers, one a user and -1 or None for none, got {labels.dtype}: {hint}")
    labels = labels.astype(np.int64)
    if num_classes is None:
        num_classes = int(labels.max(initial=-1)) + 1
    NeighbourCounts(epsilon, max(num_classes, 1), most=most)  # refuses an epsilon before anybody is asked
    users = Population.of(lists)
    if labels.shape != users.group.shape:
        raise ValueError(f"labels must be int [{len(users.group)}], one a user, got shape {labels.shape}")
    key, silent_key = random_words.split(key)
    if silent is None and unit == "relationship":
        silent = silent_users(silent_key, labels)
    rounds: list[NoisyCounts] = []

    def noisy_counts(key: PRNGKey, asked: CountRound) -> NoisyCounts:
        owners = ownership(asked.confidence, silent) if unit == "relationship" else None
        mechanism, after = NeighbourCounts(epsilon, asked.num_groups, most=most), rounds[-1] if rounds else None
        given = (key, lists, mechanism, asked.groups)
        rounds.append(privatize_counts(*given, reporters=asked.reporters, owners=owners, after=after))
        return rounds[-1]

    public = PublicFacts(features, labels, num_classes, log_q, silent)
    with watched("predict_from_counts", progress):
        found = piloted_counts(key, noisy_counts, public, epsilon, num_folds=num_folds, guarded=guarded)
    if found.scaling is not None:
        warn_of_columns(features, found.scaling)
    return _counted(found, rounds, rounds[-1].guarantee.values())  # of both rounds


def _counted(found: PilotedCounts, rounds: list[NoisyCounts], spent: Iterable[Guarantee]) -> CountedClasses:
    when = np.where(rounds[0].reported, np.int8(1), np.int8(2) * rounds[1].reported)
    guarantee = PipelineGuarantee.of(spent, protected=("edges",), unprotected=_IN_THE_CLEAR)
    return CountedClasses(found.log_posterior, found, when, guarantee)


@runtime_checkable
class Asked(Protocol):
    """The question that devices were asked, as a :class:`ldp_jax.deployment.Question`."""

    groups: np.ndarray | Sequence[int]
    num_groups: int

    @property
    def digest(self) -> bytes:
        """Its name in reports."""
        ...

    def guarantee(self) -> Guarantee:
        """The guarantee of one report, per bit of a list."""
        ...


AskDevices = Callable[[int, CountRound], tuple[Asked, ReportRows]]
"""Broadcasts the question of round 0 or 1, and gives it back with the rows that have arrived."""


@implicit_promotion()
def classify_counts(
    key: PRNGKey,
    ask: AskDevices,
    public: PublicFacts,
    epsilon: float,
    *,
    num_folds: int | None = None,
    guarded: bool = True,
    progress: Progress | None = None,
) -> CountedClasses:
    """The same as :func:`~ldp_jax.pipeline.predict_from_counts`, from counts that devices sent.

    The second question is made of the first round's rows: after a restart give the same rows, or devices pay twice.
    Guarantee: epsilon per bit of a list of a user who was asked, and 2 epsilon per relationship. No report shows
    whether devices count only the pairs they own (:func:`~ldp_jax.edges.ownership`), so it is not claimed. The
    loss of users who answered more is :meth:`ldp_jax.deployment.store.ReportStore.spent`.

    Nobody can check a count: one device that sends the largest count for a class moves the result. Counts are
    clipped to the size of a group and what noise adds. Ask for ``Question(most=...)`` near the largest
    public degree.

    Args and errors as those of :func:`~ldp_jax.pipeline.piloted.piloted_counts`, but for these:

      key: of public randomness; the same one asks the same questions.
      ask: see :data:`AskDevices`; rows of users who were not asked are never read.
      progress: told of each phase (:data:`ldp_jax.core.progress.Progress`).

    ``ValueError`` for a question about other groups, rows of another one or of another shape, or two of one user.

    >>> from ldp_jax import datasets
    >>> from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, Budget
    >>> from ldp_jax.deployment import Device, Question, Session, decode
    >>> data = datasets.synthetic(jax.random.key(0), num_nodes=300, num_classes=3, num_features=30,
    ...     mean_degree=8, homophily=0.8)
    >>> lists = Population.of(data.graph)
    >>> def ask(number, asked):  # devices that are here; a server broadcasts the question, and reads its store
    ...     question, sent = Question(number, asked.groups, asked.num_groups, epsilon=1.0), []
    ...     for user in np.flatnonzero(asked.reporters)[5:].tolist():  # five are silent
    ...         device = Session(Device.new(), budget=Budget(1.0, unit=NEIGHBOUR_LIST))
    ...         friends = lists.senders[lists.receivers == user].tolist()
    ...         sent.append(device.report_neighbours(question, friends, user=user))
    ...     return question, decode(b"".join(sent), question)
    >>> public = PublicFacts(None, np.where(np.arange(300) < 100, data.y, -1), 3)
    >>> found = classify_counts(jax.random.key(1), ask, public, 1.0)
    >>> int((found.round == 0).sum()), bool((found.classes == data.y)[100:].mean() > 0.5)
    (10, True)
    """
    rounds: list[NoisyCounts] = []

    def counts(_: PRNGKey, asked: CountRound) -> NoisyCounts:
        rounds.append(_counts(asked, *ask(len(rounds), asked)))
        return rounds[-1]

    with watched("classify_counts", progress):
        found = piloted_counts(key, counts, public, epsilon, num_folds=num_folds, guarded=guarded)
    bit = parallel(*(guarantee for one in rounds for guarantee in one.guarantee.values()))
    edge = per_edge((bit.epsilon, bit.epsilon), "full")
    return _counted(found, rounds, [bit, dataclasses.replace(edge, arithmetic=bit.arithmetic)])


def _counts(asked: CountRound, question: Asked, rows: ReportRows) -> NoisyCounts:
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
    # Nobody has more friends than a group has members: a lie moves no more, and lengthens no table.
    reach = math.ceil(_REACH / question.guarantee().epsilon)
    output = np.clip(output, -reach, np.bincount(groups[groups >= 0], minlength=asked.num_groups) + reach)
    counts, reported = np.zeros((n, asked.num_groups), np.int32), np.zeros(n, bool)
    counts[user[known]], reported[user[known]] = output[known], True
    guarantee = PipelineGuarantee.of([question.guarantee()], protected=("edges",), unprotected=("who reports",))
    return NoisyCounts(counts, reported, guarantee)
