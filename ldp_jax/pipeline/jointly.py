r"""Records, friendships and labels private at once, in one call: what a total budget is best spent on.

Nothing of the graph is public, so that structure says nothing before somebody reports. A panel shows its records,
and its labels or reports of them.

1. The panel teaches a classifier, which is broadcast, and class shares.
2. Half of the panel counts its neighbours in the panel, by class: from that the server learns who befriends whom.
3. Of each way to split the total, the panel tells what the record's report would say (closed form, out of fold),
   and simulated users what the list's report would add. The split that is expected to find most classes is taken.
   (That is not the one that says most in nats: a list may make sure of what is known, and change no decision.)
4. Every private user reports the class that her device predicts, within the likeliest classes of the panel. The
   panel's own reports are simulated from records that the classifier has not seen.
5. The server broadcasts what it thinks of everybody's class; everybody else counts her neighbours by it
   (:mod:`ldp_jax.pipeline.piloted`).
6. Counts are believed as far as reports of records or the panel's labels bear them out, reports of records as far
   as counts do (:mod:`ldp_jax.pipeline.guard`), and both are stacked on the panel, where the noise of private
   labels is corrected for. (The model of who befriends whom takes reported labels at their word, which blurs it.)
   Labels that the model has seen bear nothing out. Where few others are left, the half of step 2 counts once more,
   by the same classes as everybody else, with what is left of its members' total. Where records alone are asked
   for, nothing can bear them out: they are taken at their word.

What a list costs is stated per bit of it, and what one bit and the record cost together as a unit of its own: a
whole list is protected by no more than that.
"""

import dataclasses
from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ldp_jax.accounting import composition
from ldp_jax.accounting.guarantee import Guarantee, PipelineGuarantee
from ldp_jax.core import validate
from ldp_jax.core.rounding import rounded_down
from ldp_jax.core.types import Array, Graph, PRNGKey
from ldp_jax.edges import NeighbourCounts, Population, privatize_counts
from ldp_jax.edges.neighbour_lists import per_edge
from ldp_jax.features import Discrete, PersonalAlphabet, PersonalAlphabets
from ldp_jax.graph.graphs import GraphSet
from ldp_jax.pipeline.arguments import panel_arguments
from ldp_jax.pipeline.budget_split import (
    broadcast_shares,
    group_reliability,
    report_accuracy,
    report_information,
    report_law,
    simulated_reports,
)
from ldp_jax.pipeline.counts import DISPERSIONS, evidence, table_size
from ldp_jax.pipeline.design import design
from ldp_jax.pipeline.device_classifier import device_classifier
from ldp_jax.pipeline.from_counts import silent_users
from ldp_jax.pipeline.groups import class_shares, fine_groups, merge, merged
from ldp_jax.pipeline.guard import guard
from ldp_jax.pipeline.message import likeliest_evidence, restricted_confusion
from ldp_jax.pipeline.pilot import GroupShares, expected_counts, group_shares
from ldp_jax.pipeline.piloted import CountRound, PilotedCounts, piloted_counts
from ldp_jax.pipeline.private_labels import label_guarantee
from ldp_jax.pipeline.reported_labels import reported_shares, soft_labels
from ldp_jax.pipeline.self_training import folds
from ldp_jax.pipeline.stack import stack_out_of_fold

__all__ = ["JointClasses", "JointPrivacy", "Split", "SplitForecast", "predict_jointly"]


def __dir__() -> list[str]:
    return __all__


_LEAST_LIST = 0.001
"""The least epsilon of whole noise."""

_SIMULATED = 16_384
"""Users whose reports are simulated."""

_ALIKE = 0.0025
"""Expected accuracies closer than this, which is less than their simulation's standard error, are the same: of such
splits the one that says most is taken."""

_FEW = 100
"""Labels that a model of lists has not seen: below, lists that say much may not be believed."""

_NOTHING = 0.02
"""Of the entropy of class shares: what says less says next to nothing."""


class Split(NamedTuple):
    """How a private user's total is spent.

    Attributes:
      record: epsilon of her record's report; 0 where it is not asked for.
      list: epsilon of a bit of her list; 0 where it is not asked for.
    """

    record: float
    list: float


@dataclasses.dataclass(frozen=True)
class JointPrivacy:
    """One total for all that is asked of a user: of her record, one bit of her list, and a panel member's label.

    Attributes:
      total: epsilon, in (0, 20].
      labels: epsilon in (0, total) of a label of the panel; None where these are public. What it leaves of the
        total is the most that a bit of anybody's list may cost.
      shares: of the total that records may get, to choose from.

    Raises:
      ValueError: for a number out of its range, no share or one twice.

    >>> JointPrivacy(4.0).splits[1:3]
    (Split(record=3.0, list=1.0), Split(record=2.0, list=2.0))
    >>> JointPrivacy(4.0, labels=2.5).splits
    (Split(record=4.0, list=0.0), Split(record=3.0, list=1.0))
    """

    total: float
    labels: float | None = None
    shares: tuple[float, ...] = (1.0, 0.75, 0.5, 0.25, 0.0)

    def __post_init__(self) -> None:
        total = validate.number(0.0, 20.0, open_lower=True, total=self.total)
        if self.labels is not None:
            validate.number(0.0, total, open_lower=True, open_upper=True, labels=self.labels)
        shares = tuple(validate.number(0.0, 1.0, share=share) for share in self.shares)
        if not shares or len(set(shares)) != len(shares):
            raise ValueError(f"shares must be different numbers in [0, 1], at least one, got {shares}")
        object.__setattr__(self, "total", total)
        object.__setattr__(self, "shares", shares)
        if not self.splits:
            raise ValueError(f"shares must leave a split that labels at {self.labels} and a total of {total} allow")

    @property
    def most_of_a_list(self) -> float:
        """What is left of the total for a list beside a label."""
        return rounded_down(Fraction(self.total) - Fraction(self.labels or 0.0))

    @property
    def splits(self) -> tuple[Split, ...]:
        """Those that can be paid by everybody."""
        made = []
        for share in self.shares:
            record = min(self.total, self.total * share)
            rest = rounded_down(Fraction(self.total) - Fraction(record))
            if rest == 0.0 or _LEAST_LIST <= rest <= self.most_of_a_list:
                made.append(Split(record, rest))
        return tuple(made)

    @property
    def pilot(self) -> float:
        """What a bit of a list costs of those members of the panel who report before a split is chosen."""
        return min(max(self.total / 2, _LEAST_LIST), self.most_of_a_list)

    @property
    def again(self) -> float:
        """What a bit costs of them who count once more: what is left; 0 where that is too little for a report."""
        rest = rounded_down(Fraction(self.most_of_a_list) - Fraction(self.pilot))
        return rest if rest >= _LEAST_LIST else 0.0


class SplitForecast(NamedTuple):
    """What a split is expected to say of a user's class, in nats, and how often it is expected to be right.

    Attributes:
      split: the split.
      record: what her record's report says.
      list: what her list's report adds.
      accuracy: the share of users whose class is expected to be found.
    """

    split: Split
    record: float
    list: float
    accuracy: float

    @property
    def gain(self) -> float:
        """Both."""
        return self.record + self.list


class JointClasses(NamedTuple):
    """What is known of everybody's class, and what it cost.

    Attributes:
      log_posterior: float32 [n, C]; of a member of the panel out of fold.
      log_prior: float32 [C], class shares of the panel: what is known without any report.
      split: the one that was taken.
      forecasts: of each split, as far as there was a choice.
      reason: why, in a sentence; says so where a total buys next to nothing.
      strength: s of the guard: how far reports of records were believed; 1 where nothing else was asked that could
        bear them out.
      counts: what came of the lists; None where they were not asked for.
      round: int8 [n], when a user reported of her list: 1 before the split was chosen, 2 after it, 3 both times; 0
        if never.
      guarantee: per record, label, bit of a list, relationship, and record with a bit; names what is protected.
    """

    log_posterior: Float[Array, "n classes"]
    log_prior: Float[Array, " classes"]
    split: Split
    forecasts: tuple[SplitForecast, ...]
    reason: str
    strength: float
    counts: PilotedCounts | None
    round: Int[np.ndarray, " n"]
    guarantee: PipelineGuarantee

    def __repr__(self) -> str:
        n, classes = self.log_posterior.shape
        split = f"epsilon {self.split.record:g} a record, {self.split.list:g} a bit of a list"
        return f"JointClasses({n} users, {classes} classes; {split})"


def predict_jointly(
    key: PRNGKey,
    lists: Graph | GraphSet,
    features: Any,
    panel: Int[np.ndarray, " panel"],
    labels: Int[np.ndarray, " panel"],
    budget: JointPrivacy,
    *,
    num_classes: int | None = None,
    tested: Any = None,
    num_folds: int = 10,
    most: int = 65_535,
) -> JointClasses:
    """Ask each private user for what her device predicts and whom she befriends, within one total.

    Guarantee: of a private user, her record's report costs ``split.record`` and a bit of her list ``split.list``,
    together at most the total; of a member of the panel, a label ``budget.labels`` and a bit of her list what the
    total leaves, at most. Each list is reported once, of some members of a small panel twice
    (:attr:`JointPrivacy.again`). A relationship is in two lists. The split is chosen from
    records and labels of the panel, public or reported, and from lists that were reported: a private user has no
    part in it, so that to her it costs what it says. Reports that do have a part choose an epsilon: a relationship
    of who reports before the choice, and a private label with a bit, are stated at the largest that might be.

    Utility: with the graph private too, little is left of what a public graph gives. The forecasts say what a total
    buys, in classes found and in nats of their entropy, and ``reason`` where it is next to nothing.

    Args:
      key: a typed threefry key: of the devices' noise and of public randomness.
      lists: the private graph, undirected; this simulates all devices.
      features: of all users: dense [n, d], a scipy sparse matrix, or :func:`~ldp_jax.pipeline.rows.feature_rows`.
        Those of the panel are public, and finite; of a private record NaN is 0, as on the device.
      panel: int [panel], its members.
      labels: int [panel] in [0, C), of these members.
      budget: the total, and how it may be split.
      num_classes: C; by default the largest label plus 1, where labels are public.
      tested: nodes by whom the result will be judged, indices or bool [n]: refused where one is of the panel.
      num_folds: F.
      most: the largest count that is reported.

    Returns:
      :class:`JointClasses`.

    Raises:
      ValueError: for arguments that do not fit each other or are out of range, before anybody reports.

    >>> from ldp_jax import datasets
    >>> data = datasets.synthetic(
    ...     jax.random.key(0), num_nodes=400, num_classes=3, num_features=30, mean_degree=6, homophily=0.5
    ... )
    >>> panel, budget = np.arange(90), JointPrivacy(4.0, shares=(1.0,))
    >>> found = predict_jointly(jax.random.key(1), data.graph, data.x, panel, data.y[panel], budget, num_folds=3)
    >>> found, found.round.any()
    (JointClasses(400 users, 3 classes; epsilon 4 a record, 0 a bit of a list), np.False_)
    """
    validate.threefry(key)
    n = len(Population.of(lists).group)
    given = panel_arguments(
        n, features, panel, labels, num_classes=num_classes, tested=tested, label_epsilon=budget.labels
    )
    num_classes, members, rows, keep = given.num_classes, given.members, given.rows, given.keep
    validate.integer_in(2, num_folds=num_folds)
    NeighbourCounts(1.0, num_classes, most=most)

    keys = jax.random.split(key, 8)
    label_key, fold_key, early_key, noise_key, choice_key, record_key, count_key, again_key = keys
    everybody = given.told(label_key, panel, labels)
    told, fold = everybody[members], folds(fold_key, everybody, num_folds)
    classifier = device_classifier(
        rows.take(members), told, fold[members], num_classes=num_classes, num_folds=num_folds, keep=keep
    )
    prior = reported_shares(told, num_classes, keep)
    log_prior = jnp.asarray(np.log(prior), jnp.float32)

    def noisy_counts(epsilon: float) -> Any:
        def ask(key: PRNGKey, count_round: CountRound) -> Any:
            asked[count_round.reporters] += 2
            mechanism = NeighbourCounts(epsilon, count_round.num_groups, most=most)
            return privatize_counts(
                key, lists, mechanism, count_round.groups, reporters=count_round.reporters
            ).counts

        return ask

    asked = np.zeros(n, np.int8)
    splits = budget.splits
    # Half of the panel is early, half of the rest a pilot; the number of members is public, whatever labels are.
    again = budget.again if len(splits) > 1 and len(members) < 4 * _FEW else 0.0
    forecasts: tuple[SplitForecast, ...] = ()
    early = np.zeros(n, bool)
    if len(splits) > 1:
        early = silent_users(early_key, everybody, 0.5)
        groups = np.where(everybody >= 0, everybody, num_classes).astype(np.int32)
        count_round = CountRound(jnp.asarray(groups), num_classes + 1, early, np.zeros(n, np.float32))
        reports = jnp.where(early[:, None], noisy_counts(budget.pilot)(noise_key, count_round), 0)
        asked[early] = 1
        shares = np.tile(prior, (n, 1))
        shares[members] = soft_labels(told, num_classes, keep)
        known = _Friends.of(reports, count_round, shares, budget.pilot, len(members) / n)
        message = _Message(classifier.panel_scores, told, prior, keep)
        # One key: of splits that are close the same users are simulated, so that not chance tells them apart.
        forecasts = tuple(_forecast(jax.random.clone(choice_key), split, message, known) for split in splits)
    split = _best(forecasts).split if forecasts else splits[0]

    waiting = np.bincount(everybody[(everybody >= 0) & ~early], minlength=num_classes)
    reason = _reason(forecasts, prior)
    counting = split.list > 0.0 and bool(waiting.all())
    if split.list > 0.0 and not counting:
        reason = f"nobody of class {waiting.argmin()} is left to count with: records alone"
    asked_of_record = everybody < 0
    own, spent_on_records = jnp.zeros((n, num_classes)), []
    if split.record > 0.0:
        menu = PersonalAlphabets.of(split.record, np.tile(prior, (n, 1)))
        scores = classifier.scores(rows).at[members].set(classifier.panel_scores)
        answers = menu.log_likelihoods(menu.privatize(record_key, menu.best(scores)))
        posterior = jnp.broadcast_to(jnp.exp(log_prior), own.shape)
        own, _ = likeliest_evidence(
            answers, menu.mask, classifier.panel_scores, told, posterior, asked_of_record, keep
        )
        spent_on_records = [menu.guarantee()]
    log_q, found, strength = jax.nn.log_softmax(log_prior + own), None, float(split.record > 0.0)
    log_posterior = log_q
    if counting:
        found = piloted_counts(
            count_key, noisy_counts(split.list), None, everybody, split.list,
            num_classes=num_classes, log_q=log_q, silent=early, num_folds=num_folds, guarded=False,
        )  # fmt: skip
        of_lists, seen = found.log_likelihood, found.pilot | (early & (again == 0.0))
        if again and early.any():
            second = _count_again(again_key, noisy_counts(again), found, everybody, early, again)
            of_lists = jnp.where(early[:, None], second, of_lists)
        # What the model has not seen, of who counted as others do: with its pilot it agrees by its very fit.
        unseen, judged = np.where(seen, -1, everybody), asked_of_record & ~found.pilot
        of_lists = _believed(of_lists, log_q, log_prior, judged, unseen)
        trusted = guard(
            own, jax.nn.softmax(log_prior + of_lists), judged,
            labels=jnp.asarray(everybody), label_log_likelihood=own,
        )  # fmt: skip
        strength = float(trusted.strength) if split.record > 0.0 else 0.0
        scores = jnp.stack([log_prior + trusted.log_likelihood, of_lists], -1)
        log_posterior, _ = stack_out_of_fold(
            scores, np.where(early, -1, everybody), fold, (1.0, 1.0), num_folds=num_folds, keep=keep
        )
    # Whether anybody is early is told by labels: where these are private, what is stated does not depend on it.
    piloted = (budget.pilot, again) if len(splits) > 1 and (early.any() or given.noise is not None) else ()
    lists_at = split.list if counting else 0.0
    guarantee = _guarantee(spent_on_records, given.noise, lists_at, piloted, budget, most)
    return JointClasses(log_posterior, log_prior, split, forecasts, reason, strength, found, asked, guarantee)


def _count_again(
    key: PRNGKey, noisy_counts: Any, found: PilotedCounts, labels: np.ndarray, who: np.ndarray, epsilon: float
) -> Array:
    """What more reports by the groups of the second round say; float32 [n, C], of others it means nothing."""
    fine, classes = fine_groups(found.log_q, labels), found.log_q.shape[1]
    groups = merge(found.design.best, classes)
    confidence = np.exp(np.asarray(found.log_q)).max(-1)
    reports = noisy_counts(key, CountRound(groups.groups(fine), groups.num_groups, who, confidence))
    reports = jnp.where(who[:, None], reports, 0)
    reports = jnp.pad(reports, ((0, 0), (0, 3 * classes - groups.num_groups)))
    means = expected_counts(found.model)
    means = merged(means.reshape(-1, 3 * classes), groups.column, 3 * classes).reshape(means.shape)
    size = table_size(reports, means, epsilon)
    prior = class_shares(found.log_q, labels)
    return evidence(reports, means, prior, epsilon, size=size, counted=who).log_likelihood


def _believed(own: Array, log_q: Array, log_prior: Array, asked: np.ndarray, labels: np.ndarray) -> Array:
    """Evidence of lists, as far as reports of records or else labels bear it out: either may be what is wrong."""
    by_records = guard(own, jnp.exp(log_q), asked)
    by_labels = guard(
        own, jnp.broadcast_to(jnp.exp(log_prior), own.shape), asked, labels=jnp.asarray(labels),
        label_log_likelihood=own,
    )  # fmt: skip
    return max(by_records, by_labels, key=lambda one: float(one.strength)).log_likelihood


# --- The choice of a split -------------------------------------------------------------------------------------


class _Message(NamedTuple):
    """What is known of reports of records: the panel's scores out of fold, its labels, and class shares."""

    scores: Array
    labels: np.ndarray
    prior: np.ndarray
    keep: float

    def law(self, epsilon: float) -> np.ndarray:
        """P(report | class) [C, R] at an epsilon; of 0 a report that says nothing."""
        if epsilon == 0.0:
            return np.ones((len(self.prior), 1))
        law = PersonalAlphabet(epsilon, self.prior).table().masses / 2.0**32
        inside = PersonalAlphabets.of(epsilon, self.prior[None]).mask
        confusion = restricted_confusion(self.scores, self.labels, inside, 2.0, self.keep)[0]
        return report_law(law, confusion)


class _Friends(NamedTuple):
    """What early reports say of who befriends whom."""

    model: GroupShares
    weights: Array
    dispersion: float
    labelled: float

    @classmethod
    def of(
        cls, reports: Any, count_round: CountRound, shares: np.ndarray, epsilon: float, labelled: float
    ) -> "_Friends":
        prior, reported = jnp.asarray(shares, jnp.float32), count_round.reporters
        model = group_shares(reports, count_round.groups, prior, reported, epsilon)
        means = expected_counts(model)
        room = 3 * (count_round.num_groups - 1) - count_round.num_groups  # one program with the rounds that follow
        reports = jnp.pad(reports, ((0, 0), (0, room)))
        means = jnp.pad(means, ((0, 0), (0, 0), (0, room)))
        size = table_size(reports, means, epsilon)
        seen = evidence(reports, means, prior, epsilon, size=size, counted=reported)
        return cls(model, seen.weights, DISPERSIONS[int(seen.dispersion)], labelled)


def _forecast(key: PRNGKey, split: Split, message: _Message, friends: _Friends) -> SplitForecast:
    law = message.law(split.record)
    record, right = report_information(law, message.prior), report_accuracy(law, message.prior)
    if split.list == 0.0:
        return SplitForecast(split, record, 0.0, right)
    who_key, key = jax.random.split(key)
    y, log_q = simulated_reports(who_key, law, message.prior, _SIMULATED)
    model = broadcast_shares(friends.model, group_reliability(y, log_q), friends.labelled)
    means = expected_counts(model)
    size = table_size(np.zeros(1), means, split.list)
    log_q = jnp.asarray(log_q, jnp.float32)
    plan = design(key, log_q, means, friends.weights, friends.dispersion, split.list, size=size, users=_SIMULATED)
    more = plan.accuracy[plan.best] - plan.accuracy_without
    return SplitForecast(split, record, max(0.0, plan.gain[plan.best]), right + more)


def _best(forecasts: tuple[SplitForecast, ...]) -> SplitForecast:
    most = max(one.accuracy for one in forecasts)
    return max((one for one in forecasts if one.accuracy >= most - _ALIKE), key=lambda one: one.gain)


def _reason(forecasts: tuple[SplitForecast, ...], prior: np.ndarray) -> str:
    if not forecasts:
        return "the only split that there is"
    entropy = -float((prior * np.log(prior)).sum())
    most, taken = max(one.gain for one in forecasts), _best(forecasts)
    if most < _NOTHING * entropy:
        return (
            f"joint privacy costs everything: no split is expected to tell {_NOTHING:.0%} of a class "
            f"({most:.3f} of {entropy:.2f} nats)"
        )
    kept = {True: "records and lists", False: "records alone" if taken.split.record else "lists alone"}
    said = kept[bool(taken.split.record and taken.split.list)]
    return (
        f"{said} are expected to find most classes: {taken.accuracy:.0%}, of {prior.max():.0%} without any report "
        f"({taken.gain:.2f} of {entropy:.2f} nats)"
    )


# --- The guarantee ---------------------------------------------------------------------------------------------


def _guarantee(
    records: list[Guarantee],
    noise: Discrete | None,
    epsilon: float,
    early: tuple[float, ...],
    budget: JointPrivacy,
    most: int,
) -> PipelineGuarantee:
    """Of a private user and of a member of the panel, the worse of the two, unit by unit and together.

    ``early`` are the epsilons of who reports before the choice, as dear as they may become. Private labels have a
    part in who is early, and in whether anybody is asked for lists: together with a bit they are stated at the
    dearest that might be, whatever came of it.
    """

    def of_bit(*epsilons: float) -> list[Guarantee]:
        each = [NeighbourCounts(epsilon, 1, most=most).guarantee() for epsilon in epsilons if epsilon]
        return [composition.sequential(*each)] if each else []

    of_labels = [] if noise is None else [noise.guarantee()]
    of_list, of_pilot = of_bit(epsilon), of_bit(*early)
    # Of what has a part in the choice of a split, a report under the split is as dear as it may become.
    dearest = of_bit(max(split.list for split in budget.splits)) if early else of_list
    spent: list[Guarantee] = []
    if records or of_labels:
        spent.append(composition.parallel(*records, *of_labels))
    if noise is not None:
        spent.append(label_guarantee(noise))
    lists = of_list + of_pilot
    if lists:
        worst = max(lists, key=lambda one: one.epsilon)
        pairs = [of_list * 2, of_pilot * 2, of_pilot + dearest]
        ends = max((tuple(one.epsilon for one in pair) for pair in pairs), key=sum)
        spent += [worst, dataclasses.replace(per_edge(ends, "full"), arithmetic="exact")]
    words = "two inputs that differ in one user's record, or label, and in one bit of her list"
    might_be = lists if noise is None else lists + of_bit(max(split.list for split in budget.splits))
    member = [max(might_be, key=lambda one: one.epsilon)] if might_be else []
    everybody = [(records, of_list), (of_labels, member)]
    both = [composition.joint(*own, *bit, adjacency=words) for own, bit in everybody if own and bit]
    spent += [composition.parallel(*both)] if both else []
    hidden = (
        *(["features of private users"] if records else []),
        *(["edges"] if lists else []),
        *(["the panel's labels"] if noise is not None else []),
    )
    shown = ("the panel's records", *(["the panel's labels"] if noise is None else []), "number of nodes")
    return PipelineGuarantee.of(spent, protected=hidden, unprotected=shown)
