r"""The two rounds of piloted counts.

A pilot reports by fine groups. The server's model of it is :math:`E[r_{ug} \mid c] = d_c H_{cg}`:
users of class c have d_c neighbours in the mean, a share :math:`H_{cg}` of them in group g. Every
merge of groups is then tried on simulated users before anybody else reports.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax  # noqa: F401 - the examples below
import numpy as np
import scipy.stats
from jaxtyping import Bool, Float, Int
from scipy.special import log_softmax, logsumexp

from ldp_jax.core import random, random_words, validate
from ldp_jax.core.pytree import pytree, static
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, PRNGKey
from ldp_jax.servers.parts.count_evidence import (
    LEAST,
    log_likelihoods,
    noise_variance,
    report_tables,
)
from ldp_jax.servers.parts.groups import MERGES, merge, merged
from ldp_jax.servers.parts.rows import power_of_four

_RATES = 10  # points of the grid of rates

_SPREAD = 8.0  # the grid goes from the mean degree over so much to so many times the mean degree


def pilot(
    key: PRNGKey,
    labels: Int[AnyArray, " n"],
    silent: Bool[np.ndarray, " n"] | None = None,
    *,
    share: float = 0.08,
    most: float = 0.25,
) -> Bool[np.ndarray, " n"]:
    """Step 3 of piloted counts: who reports first; bool [n].

    Half of each class of the labelled, and random users without a label until the pilot is
    ``share`` of all users, but never more than ``most`` of the unlabelled (-1). Silent
    users are not in it. The key is of public randomness.

    >>> chosen = pilot(jax.random.key(0), np.array([0, 0, 1, 1] + [-1] * 96))
    >>> int(chosen[:4].sum()), int(chosen[4:].sum())
    (2, 6)
    """
    validate.threefry(key)
    validate.in_range(0.0, 1.0, share=share, most=most)
    labels = np.asarray(labels)
    n = len(labels)
    quiet = np.zeros(n, bool) if silent is None else np.asarray(silent)
    # A class of their own, that nobody is asked of.
    labels = np.where(quiet, np.iinfo(np.int32).min, labels)
    place = random_words.places_within(key, labels)  # within the class, or within the unlabelled
    labelled = labels >= 0
    half = labelled & (place % 2 == 0)
    unlabelled = ~labelled & ~quiet
    missing = max(round(share * n) - int(half.sum()), 0)
    wanted = min(missing, int(most * unlabelled.sum()))
    return half | (unlabelled & (place < wanted))


class GroupShares(NamedTuple):
    """The pilot's model of everybody.

    H, whose rows sum to 1, mean degrees of classes, and the homophily h.
    """

    shares: Float[np.ndarray, "classes groups"]
    degree: Float[np.ndarray, " classes"]
    homophily: float

    __repr__ = by_shapes


def expected_counts(model: GroupShares) -> Float[np.ndarray, "classes rates groups"]:
    """The mean of each count of each class at each rate; float32 [C, L, G].

    Ten rates, in geometric progression from an eighth of the mean degree to eight times it; how
    many users are at each is for the reports to say
    (:func:`~ldp_jax.servers.parts.count_evidence.evidence`).

    >>> model = GroupShares(
    ...     np.array([[0.75, 0.25], [0.5, 0.5]]), np.array([4.0, 4.0]), 0.5
    ... )
    >>> expected_counts(model)[0, (0, -1)].tolist()
    [[0.375, 0.125], [24.0, 8.0]]
    """
    rates = model.degree.mean() * np.geomspace(1.0 / _SPREAD, _SPREAD, _RATES)
    return (rates[:, None] * model.shares[:, None, :]).astype(np.float32)


def group_shares(
    reports: Int[AnyArray, "n groups"],
    groups: Int[AnyArray, " n"],
    prior: Float[AnyArray, "n classes"],
    reported: Bool[np.ndarray, " n"],
    epsilon: float,
) -> GroupShares:
    r"""Step 4 of piloted counts: H by moments, shrunk; never NaN, whatever was reported.

    In float64 on the host.

    Counts are regressed on the class probabilities of their reporters, towards
    :math:`H^0_{cg} = h P(g \mid c) + (1 - h) P(g)`: a share h of the neighbours is of the user's
    own class, the others are anybody's. :math:`P(g \mid c)` is public, P(g) the mean of the
    reports, h a weighted fit, and the standard deviation of an entry about it
    is :math:`0.4 H^0_{cg} + 0.003`. ``reports`` are by fine group, of those who ``reported``;
    ``groups`` are public, in [0, G), -1 for none, and so is the ``prior`` of each user's class; a
    label is a row of 0 and 1.

    >>> y = (
    ...     np.arange(60) % 2
    ... )  # six neighbours in the group of the own class, two in the other
    >>> reports = np.array([[6, 2], [2, 6]])[y]
    >>> model = group_shares(reports, y, np.eye(2)[y], np.ones(60, bool), 1.0)
    >>> model.shares.round(2).tolist(), round(model.homophily, 2)
    ([[0.75, 0.25], [0.25, 0.75]], 0.5)
    """
    groups = np.asarray(groups)
    prior = np.asarray(prior, np.float64)
    reported = np.asarray(reported, bool)
    num_groups = reports.shape[1]
    classes = prior.shape[1]
    counts = np.asarray(reports, np.float64)[reported]
    who = prior[reported]
    total = max(len(counts), 1)
    noise = noise_variance(epsilon)
    gram = who.T @ who

    def regress(
        y: np.ndarray, towards: np.ndarray, deviation: np.ndarray, variance: float
    ) -> np.ndarray:
        """The posterior mean of C coefficients, each about its own prior."""
        # Where two classes report alike, the prior tells them apart: by enough for the matrix to be
        # solved.
        precision = np.maximum(deviation**-2, 1e-5 * np.trace(gram) / variance)
        matrix = gram / variance + np.diag(precision)
        return np.linalg.solve(matrix, who.T @ y / variance + towards * precision)

    # Degrees: at least a tenth of a neighbour, so that shares are defined.
    degrees = counts.sum(1)
    mean = max(degrees.sum() / total, 0.1)
    variance = ((degrees - mean) ** 2).sum() / total + num_groups * noise
    degree = regress(degrees, np.full(classes, mean), np.full(classes, 0.5 * mean), variance)
    degree = np.maximum(degree, 0.05 * mean)

    grouped = groups >= 0
    size = np.bincount(groups[grouped], minlength=num_groups) / len(groups)
    public = np.zeros((num_groups, classes))
    np.add.at(public, groups[grouped], prior[grouped])
    own = public.T + 1e-3 * size
    own /= np.maximum(own.sum(1, keepdims=True), 1e-30)
    anybody = np.maximum(counts.sum(0) / total, 0.0) + 1e-3 * mean * size
    anybody /= max(anybody.sum(), 1e-30)

    expected = who @ degree
    slope = who @ (degree[:, None] * (own - anybody))
    rest = counts - expected[:, None] * anybody
    spread = (rest**2).sum(0) / total + noise
    explained = (slope * rest / spread).sum()
    homophily = float(np.clip(explained / max((slope**2 / spread).sum(), 1e-30), 0.0, 1.0))

    first = homophily * own + (1.0 - homophily) * anybody  # [C, G]
    spread = ((rest - homophily * slope) ** 2).sum(0) / total + 0.5 * noise
    scale = degree[:, None]
    towards = scale * first
    deviation = scale * (0.4 * first + 0.003)
    given = zip(counts.T, towards.T, deviation.T, spread, strict=True)
    fitted = np.stack([regress(*of_group) for of_group in given], 1)
    shares = np.maximum(fitted / scale, 0.05 * first + 1e-6)
    return GroupShares(shares / shares.sum(1, keepdims=True), degree, homophily)


_PARTS = 5  # that the labelled of a pilot are split into

_LEAST_ROWS = 64  # of a part, so that small parts share a program


class PilotReports(NamedTuple):
    """A pilot's reports [n, G], by public groups [n], and what is public of the reporters.

    Prior [n, C], labels [n], -1 for none, and folds [n].
    """

    reports: Int[np.ndarray, "n groups"]
    reported: Bool[np.ndarray, " n"]
    groups: Int[np.ndarray, " n"]
    prior: Float[np.ndarray, "n classes"]
    labels: Int[np.ndarray, " n"]
    fold: Int[np.ndarray, " n"]

    __repr__ = by_shapes


def unseen_evidence(
    given: PilotReports,
    evidence: Float[AnyArray, "n classes"],
    model: "CountModel",
    epsilon: float,
    *,
    size: int,
) -> Float[np.ndarray, "n classes"]:
    """The evidence of reports, of labelled members by a model that has not seen their label.

    A model agrees with the labels by which it was fitted, however wrong it is of others. So the
    labelled are split in five, and each part is read by the shares (:func:`group_shares`) of all
    reports but its own. The share of users at each rate is the ``model``'s, whose means are not
    read; ``size`` is of the tables.
    """
    found = np.array(evidence)
    log_weights = np.log(np.asarray(model.weights))
    labelled = given.reported & (given.labels >= 0)
    for part in np.unique(given.fold[labelled] % _PARTS):
        held_out = labelled & (given.fold % _PARTS == part)
        here = np.flatnonzero(held_out)
        others = given.reported & ~held_out
        prior = np.where(held_out[:, None], 0.0, given.prior)
        shares = group_shares(given.reports, given.groups, prior, others, epsilon)
        tables = report_tables(model.dispersion, expected_counts(shares), epsilon, size=size)
        room = power_of_four(max(len(here), _LEAST_ROWS))
        rows = np.pad(given.reports[here], ((0, room - len(here)), (0, 0)))
        each = np.asarray(log_likelihoods(tables, rows, np.float32(epsilon)))[: len(here)]
        by_rate = each.reshape(len(here), given.prior.shape[1], len(log_weights))
        found[here] = logsumexp(by_rate + log_weights, axis=-1)
    return found


@pytree
class Design:
    """Forecast each merge, and find the best one.

    Merges are named in :data:`~ldp_jax.servers.parts.groups.MERGES`.

    Attributes:
      gain: how much the expected log posterior of a user's class rises with their report, in nats.
      accuracy: expected, with their report; ``accuracy_without`` that of the prior alone.
    """

    best: str = static()
    gain: dict[str, float]
    accuracy: dict[str, float]
    accuracy_without: float

    __repr__ = by_shapes


class CountModel(NamedTuple):
    """The expected law of a round of counts.

    :func:`expected_counts`, the share of users at each rate, and s.
    """

    means: Float[AnyArray, "classes rates groups"]
    weights: Float[AnyArray, " rates"]
    dispersion: float

    __repr__ = by_shapes


def design(
    key: PRNGKey,
    log_q: Float[AnyArray, "n classes"],
    model: CountModel,
    epsilon: float,
    *,
    size: int,
    asked: Bool[np.ndarray, " n"] | None = None,
    users: int = 1024,
) -> Design:
    """Step 5 of piloted counts: simulate users by the pilot's model and score the seven merges.

    The same users, counts and noise for all merges: what is compared is the grouping alone. The key
    is of public randomness, ``model`` of counts by fine group, ``size`` of the tables, and all are
    ``asked`` by default.

    >>> means = np.array(
    ...     [[[3.0, 1.0] * 3], [[1.0, 3.0] * 3]]
    ... )  # all tiers tell classes alike
    >>> q = np.full((8, 2), np.log(0.5))
    >>> plan = design(
    ...     jax.random.key(0),
    ...     q,
    ...     CountModel(means, np.ones(1), math.inf),
    ...     1.0,
    ...     size=256,
    ... )
    >>> accuracy = plan.accuracy[plan.best]  # one noise, not three
    >>> plan.best, round(plan.accuracy_without, 1), round(accuracy, 1)
    ('labelled + predicted', 0.5, 0.9)
    """
    validate.threefry(key)
    validate.positive(epsilon=epsilon)
    log_q = np.asarray(log_q, np.float64)
    means = np.asarray(model.means)
    fine = means.shape[-1]
    nodes = np.arange(len(log_q)) if asked is None else np.flatnonzero(np.asarray(asked))
    u = np.asarray(random.uniform(key, (users, 3 * fine + 3)), np.float64)
    drawn = nodes[(u[:, 0] * len(nodes)).astype(int)]
    q = log_q[drawn]
    below = np.exp(q).cumsum(-1)[:, :-1]
    y = (below < u[:, 1:2]).sum(-1)
    reports = _reports(u[:, 2:], y, model, epsilon)

    gain = {}
    accuracy = {}
    log_weights = np.log(np.asarray(model.weights, np.float64))
    for name in MERGES:
        column = merge(name, log_q.shape[1])
        groups = merged(means.reshape(-1, fine), column, fine).reshape(means.shape)
        tables = report_tables(model.dispersion, groups, epsilon, size=size)
        each = np.asarray(log_likelihoods(tables, reports(column), np.float32(epsilon)), np.float64)
        by_rate = each.reshape(*q.shape, -1)
        evidence = logsumexp(by_rate + log_weights, axis=-1)
        posterior = log_softmax(q + evidence, axis=-1)
        here = np.arange(users), y
        gain[name] = float((posterior[here] - q[here]).mean())
        accuracy[name] = float((posterior.argmax(-1) == y).mean())
    best = max(gain, key=lambda name: gain[name])
    return Design(best, gain, accuracy, float((q.argmax(-1) == y).mean()))


def _reports(
    u: Float[np.ndarray, "users draws"],
    y: Int[np.ndarray, " users"],
    model: CountModel,
    epsilon: float,
) -> Callable[[np.ndarray], np.ndarray]:
    """Reports of users of classes y by the groups of a merge.

    From uniforms of a rate, each count and its noise.
    """
    means = np.asarray(model.means, np.float64)
    weights = np.asarray(model.weights)
    s = model.dispersion
    fine = means.shape[-1]
    rate = (weights.cumsum()[:-1] < u[:, :1]).sum(-1)
    mean = np.maximum(means[y, rate], LEAST)
    law = scipy.stats.poisson(mean) if math.isinf(s) else scipy.stats.nbinom(s, s / (s + mean))
    rank = np.maximum(u[:, 1 : fine + 1], 1e-9)
    counts = law.ppf(rank).astype(np.int32)

    # Two-sided noise is the difference of two one-sided ones.
    one_sided = np.floor(-np.log1p(-u[:, fine + 1 :]) / epsilon)
    up, down = np.split(one_sided, 2, axis=1)
    noise = (up - down).astype(np.int32)

    def of_merge(column: np.ndarray) -> np.ndarray:
        used = np.isin(np.arange(fine), column)
        return np.where(used, merged(counts, column, fine) + noise, 0)

    return of_merge
