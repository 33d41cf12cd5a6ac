"""Which groups to ask for: every merge is tried on simulated users before anybody else reports."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax  # noqa: F401 - the examples below
import numpy as np
import scipy.stats
from jaxtyping import Bool, Float, Int
from scipy.special import log_softmax, logsumexp

from ldp_jax.core import random, validate
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.pipeline.counts import LEAST, law_of, log_likelihoods, report_tables
from ldp_jax.pipeline.groups import MERGES, merge, merged


class Design(NamedTuple):
    """The forecast of each merge, and the best one.

    Attributes:
      best: its name in :data:`~ldp_jax.pipeline.groups.MERGES`.
      gain: by name, how much the expected log posterior of a user's class rises with their report, in nats.
      accuracy: by name, the expected accuracy with their report.
      accuracy_without: the expected accuracy of the prior alone.
    """

    best: str
    gain: dict[str, float]
    accuracy: dict[str, float]
    accuracy_without: float


class CountModel(NamedTuple):
    """What a round of counts is expected to be.

    Attributes:
      means: float32 [C, L, G] (:func:`~ldp_jax.pipeline.pilot.expected_counts`).
      weights: float32 [L], the share of users at each rate.
      dispersion: s.
    """

    means: Float[Array | np.ndarray, "classes rates groups"]
    weights: Float[Array | np.ndarray, " rates"]
    dispersion: float


def design(
    key: PRNGKey,
    log_q: Float[Array | np.ndarray, "n classes"],
    model: CountModel,
    epsilon: float,
    *,
    size: int,
    asked: Bool[np.ndarray, " n"] | None = None,
    users: int = 1024,
) -> Design:
    """Step 5 of piloted counts: simulate users by the pilot's model and score the seven merges.

    The same users, counts and noise for all merges: what is compared is the grouping alone.

    Args:
      key: of public randomness.
      log_q: public posteriors.
      model: of counts by fine group.
      epsilon: of each count.
      size: of the tables, static.
      asked: who will report; all by default.
      users: simulated, static.

    >>> means = np.array([[[3.0, 1.0] * 3], [[1.0, 3.0] * 3]])  # friends of all tiers tell classes alike
    >>> q = np.full((8, 2), np.log(0.5))
    >>> plan = design(jax.random.key(0), q, CountModel(means, np.ones(1), math.inf), 1.0, size=256)
    >>> plan.best, round(plan.accuracy_without, 1), round(plan.accuracy[plan.best], 1)  # one noise, not three
    ('labelled + predicted', 0.5, 0.9)
    """
    validate.threefry(key)
    validate.positive(epsilon=epsilon)
    log_q, means = np.asarray(log_q, np.float64), np.asarray(model.means)
    nodes = np.arange(len(log_q)) if asked is None else np.flatnonzero(np.asarray(asked))
    u = np.asarray(random.uniform(key, (users, 3 * means.shape[-1] + 3)), np.float64)
    q = log_q[nodes[(u[:, 0] * len(nodes)).astype(int)]]
    y = (np.exp(q).cumsum(-1)[:, :-1] < u[:, 1:2]).sum(-1)
    reports = _reports(u[:, 2:], y, model, epsilon)
    law, gain, accuracy = law_of(model.dispersion, size), {}, {}
    log_weights = np.log(np.asarray(model.weights, np.float64))
    for name in MERGES:
        column = merge(name, log_q.shape[1]).column
        groups = merged(means.reshape(-1, means.shape[-1]), column, means.shape[-1]).reshape(means.shape)
        tables = report_tables(law, groups, np.float32(epsilon), size=size)
        each = np.asarray(log_likelihoods(tables, reports(column), np.float32(epsilon)), np.float64)
        evidence = logsumexp(each.reshape(*q.shape, -1) + log_weights, axis=-1)
        posterior = log_softmax(q + evidence, axis=-1)
        here = np.arange(users), y
        gain[name] = float((posterior[here] - q[here]).mean())
        accuracy[name] = float((posterior.argmax(-1) == y).mean())
    best = max(gain, key=lambda name: gain[name])
    return Design(best, gain, accuracy, float((q.argmax(-1) == y).mean()))


def _reports(
    u: Float[np.ndarray, "users draws"], y: Int[np.ndarray, " users"], model: CountModel, epsilon: float
) -> Callable[[np.ndarray], np.ndarray]:
    """Reports of users of classes y by the groups of a merge: from uniforms of a rate, each count and its noise."""
    means, weights, s = np.asarray(model.means, np.float64), np.asarray(model.weights), model.dispersion
    fine = means.shape[-1]
    rate = (weights.cumsum()[:-1] < u[:, :1]).sum(-1)
    mean, rank = np.maximum(means[y, rate], LEAST), np.maximum(u[:, 1 : fine + 1], 1e-9)
    law = scipy.stats.poisson(mean) if math.isinf(s) else scipy.stats.nbinom(s, s / (s + mean))
    counts = law.ppf(rank).astype(np.int32)
    # Two-sided noise is the difference of two one-sided ones.
    one, other = np.split(np.floor(-np.log1p(-u[:, fine + 1 :]) / epsilon), 2, axis=1)
    noise = (one - other).astype(np.int32)

    def of_merge(column: np.ndarray) -> np.ndarray:
        used = np.isin(np.arange(fine), column)
        return np.where(used, merged(counts, column, fine) + noise, 0)

    return of_merge
