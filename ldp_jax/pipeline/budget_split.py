r"""How a user's total is best split between a report of the record and one of the list, told before it is spent.

Both are measured in nats, as the rise of the expected log posterior of the user's class. A report r of the record
has the information

.. math:: I(y; r) = \sum_y \pi_y \sum_r P(r | y) \log \frac{P(r | y)}{\sum_{y'} \pi_{y'} P(r | y')}

about the class y, in closed form from the panel's confusion and the mechanism's law. A report of the list has the
forecast of :mod:`ldp_jax.pipeline.design`, for simulated users whose records have been reported. The split that is
expected to find most classes is taken. (A list may make sure of what is known, and change no decision.)
"""

import dataclasses
from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from ldp_jax.core import validate
from ldp_jax.core.rounding import rounded_down
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.features import PersonalAlphabet, PersonalAlphabets
from ldp_jax.pipeline.counts import DISPERSIONS, evidence, table_size
from ldp_jax.pipeline.design import CountModel, design
from ldp_jax.pipeline.groups import fine_groups
from ldp_jax.pipeline.message import ScoredPanel, confusions
from ldp_jax.pipeline.pilot import GroupShares, expected_counts, shares_and_counts

_LEAST_LIST = 0.001
"""The least epsilon of whole noise."""

_SIMULATED = 16_384
"""Users whose reports are simulated."""

_ALIKE = 0.0025
"""Expected accuracies closer than this, which is less than their simulation's standard error, are the same: among
such splits the one that says most is taken."""

_NOTHING = 0.02
"""Share of the entropy of class shares: a gain below it is next to nothing."""


class Split(NamedTuple):
    """How a private user's total is spent.

    Attributes:
      record: epsilon of the record's report; 0 where it is not asked for.
      list: epsilon of a bit of the list; 0 where it is not asked for.
    """

    record: float
    list: float


@dataclasses.dataclass(frozen=True)
class JointPrivacy:
    """One total for all that is asked of a user: the record, one bit of the list, and a panel member's label.

    Attributes:
      total: epsilon, in (0, 20].
      labels: epsilon in (0, total) of a label of the panel; None where labels are public. The rest of the total is
        the most that a bit of anybody's list may cost.
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
        """The most that a bit of a list may cost beside a label."""
        return rounded_down(Fraction(self.total) - Fraction(self.labels or 0.0))

    @property
    def splits(self) -> tuple[Split, ...]:
        """Those that everybody can pay."""
        made = []
        for share in self.shares:
            record = min(self.total, self.total * share)
            rest = rounded_down(Fraction(self.total) - Fraction(record))
            if rest == 0.0 or _LEAST_LIST <= rest <= self.most_of_a_list:
                made.append(Split(record, rest))
        return tuple(made)

    @property
    def pilot(self) -> float:
        """What a bit of a list costs of early members of the panel, who report before a split is chosen."""
        return min(max(self.total / 2, _LEAST_LIST), self.most_of_a_list)

    @property
    def second(self) -> float:
        """What a bit costs of early members who count once more: the rest; 0 where that is too little to report."""
        rest = rounded_down(Fraction(self.most_of_a_list) - Fraction(self.pilot))
        return rest if rest >= _LEAST_LIST else 0.0


class SplitForecast(NamedTuple):
    """What a split is expected to say of a user's class, in nats, and how often it is expected to be right.

    Attributes:
      split: the split.
      record: what the record's report says.
      list: what the list's report adds.
      accuracy: the share of users whose class is expected to be found.
    """

    split: Split
    record: float
    list: float
    accuracy: float

    @property
    def gain(self) -> float:
        """Both reports together."""
        return self.record + self.list


class RecordReports(NamedTuple):
    """What is known of reports of records: the panel as the classifier finds it, and class shares."""

    panel: ScoredPanel
    prior: Float[np.ndarray, " classes"]

    def law(self, epsilon: float) -> Float[np.ndarray, "classes outputs"]:
        """P(report | class of the user); of epsilon 0 a report that says nothing."""
        if epsilon == 0.0:
            return np.ones((len(self.prior), 1))
        sent = PersonalAlphabet(epsilon, self.prior).table().masses / 2.0**32
        inside = PersonalAlphabets.of(epsilon, self.prior[None]).mask
        table, which = confusions(self.panel, inside, 2.0)
        return np.asarray(table[which[0]], np.float64) @ sent


class ListReports(NamedTuple):
    """What early reports of lists say of who befriends whom; ``labelled`` is the panel's share of all users."""

    model: GroupShares
    weights: Array
    dispersion: float
    labelled: float

    @classmethod
    def of(
        cls,
        reports: Int[Array, "n groups"],
        groups: Int[Array, " n"],
        shares: Float[np.ndarray, "n classes"],
        early: Bool[np.ndarray, " n"],
        epsilon: float,
    ) -> "ListReports":
        """From the counts of early members, by class of the panel and everybody else."""
        prior, num_groups = jnp.asarray(shares, jnp.float32), reports.shape[1]
        model, means = shares_and_counts(reports, groups, prior, early, np.float32(epsilon))
        room = 3 * (num_groups - 1) - num_groups  # one program with the rounds that follow
        reports = jnp.pad(reports, ((0, 0), (0, room)))
        means = jnp.pad(means, ((0, 0), (0, 0), (0, room)))
        size = table_size(reports, means, epsilon)
        seen = evidence(reports, means, prior, epsilon, size=size, counted=early)
        labelled = float((np.asarray(groups) < num_groups - 1).sum()) / len(shares)
        return cls(model, seen.weights, DISPERSIONS[int(seen.dispersion)], labelled)


def report_information(law: Float[np.ndarray, "classes outputs"], prior: ArrayLike) -> float:
    """What a report says of its user's class, in nats; at most the entropy of the prior.

    >>> round(report_information(np.array([[0.9, 0.1], [0.1, 0.9]]), [0.5, 0.5]), 4)
    0.3681
    """
    share = np.asarray(prior, np.float64)[:, None]
    marginal = np.maximum((share * law).sum(0), 1e-300)
    return max(0.0, float((share * law * np.log(np.maximum(law, 1e-300) / marginal)).sum()))


def report_accuracy(law: Float[np.ndarray, "classes outputs"], prior: ArrayLike) -> float:
    """How often the likeliest class after a report is the user's; at least the largest share of the prior.

    >>> report_accuracy(np.array([[0.75, 0.25], [0.25, 0.75]]), [0.5, 0.5])
    0.75
    """
    share = np.asarray(prior, np.float64)[:, None]
    return float((share * law).max(0).sum())


def simulated_reports(
    key: PRNGKey, law: Float[np.ndarray, "classes outputs"], prior: ArrayLike, users: int
) -> tuple[Int[np.ndarray, " users"], Float[np.ndarray, "users classes"]]:
    """Classes drawn from the prior, and the log posterior that the report of each leaves."""
    share = np.asarray(prior, np.float64)
    u = np.asarray(jax.random.uniform(key, (users, 2)), np.float64)
    y = np.minimum((share.cumsum() <= u[:, :1]).sum(1), len(share) - 1)
    report = np.minimum((law.cumsum(1)[y] <= u[:, 1:]).sum(1), law.shape[1] - 1)
    made = share * np.maximum(law.T[report], 1e-30)
    return y, np.log(made / made.sum(1, keepdims=True))


def group_reliability(
    y: Int[np.ndarray, " users"], log_q: Float[np.ndarray, "users classes"]
) -> Float[np.ndarray, "classes groups"]:
    """P(fine group | class) of users without a label; columns: the confident by class, then the rest by class."""
    classes = log_q.shape[1]
    group = np.asarray(fine_groups(jnp.asarray(log_q, jnp.float32), np.full(len(y), -1))) - classes
    found = np.full((classes, 2 * classes), 1e-3)
    np.add.at(found, (y, group), 1.0)
    return found / found.sum(1, keepdims=True)


def broadcast_shares(
    model: GroupShares, reliability: Float[np.ndarray, "classes groups"], labelled: float
) -> GroupShares:
    """Who befriends which of the 3 C fine groups, if friends of the panel are as other friends are.

    ``model`` is of C groups, the panel's classes, and one of everybody else; ``labelled`` is the panel's share of
    all users, ``reliability`` that of :func:`group_reliability`.

    >>> model = GroupShares(jnp.array([[0.2, 0.1, 0.7], [0.1, 0.1, 0.8]]), jnp.ones(2), jnp.float32(0.3))
    >>> made = broadcast_shares(model, np.full((2, 4), 0.25), 0.4)
    >>> np.asarray(made.shares[0], float).round(3).tolist()
    [0.267, 0.133, 0.15, 0.15, 0.15, 0.15]
    """
    alike = np.asarray(model.shares, np.float64)[:, :-1]
    alike = alike / alike.sum(1, keepdims=True)
    shares = np.concatenate([labelled * alike, (1.0 - labelled) * alike @ reliability], 1)
    return model._replace(shares=jnp.asarray(shares, jnp.float32))


def split_forecast(key: PRNGKey, split: Split, records: RecordReports, lists: ListReports) -> SplitForecast:
    """Both gains of a split: of the record's report in closed form, of the list's over simulated users."""
    law = records.law(split.record)
    information, right = report_information(law, records.prior), report_accuracy(law, records.prior)
    if split.list == 0.0:
        return SplitForecast(split, information, 0.0, right)
    who_key, key = jax.random.split(key)
    y, log_q = simulated_reports(who_key, law, records.prior, _SIMULATED)
    means = expected_counts(broadcast_shares(lists.model, group_reliability(y, log_q), lists.labelled))
    size = table_size(np.zeros(1), means, split.list)
    log_q = jnp.asarray(log_q, jnp.float32)
    model = CountModel(means, lists.weights, lists.dispersion)
    plan = design(key, log_q, model, split.list, size=size, users=_SIMULATED)
    more = plan.accuracy[plan.best] - plan.accuracy_without
    return SplitForecast(split, information, max(0.0, plan.gain[plan.best]), right + more)


def best_split(forecasts: tuple[SplitForecast, ...]) -> SplitForecast:
    """Of the splits that are expected to find most classes, the one that says most."""
    most = max(one.accuracy for one in forecasts)
    return max((one for one in forecasts if one.accuracy >= most - _ALIKE), key=lambda one: one.gain)


def split_reason(forecasts: tuple[SplitForecast, ...], prior: Float[np.ndarray, " classes"]) -> str:
    """Why :func:`best_split` was taken, in a sentence; says so where a total buys next to nothing."""
    if not forecasts:
        return "the only split that there is"
    entropy = -float((prior * np.log(prior)).sum())
    most, taken = max(one.gain for one in forecasts), best_split(forecasts)
    if most < _NOTHING * entropy:
        return (
            f"joint privacy costs everything: no split is expected to tell {_NOTHING:.0%} of a class "
            f"({most:.3f} of {entropy:.2f} nats)"
        )
    alone = "records alone" if taken.split.record else "lists alone"
    asked = "records and lists" if taken.split.record and taken.split.list else alone
    return (
        f"{asked} are expected to find most classes: {taken.accuracy:.0%}, of {prior.max():.0%} without any report "
        f"({taken.gain:.2f} of {entropy:.2f} nats)"
    )
