"""The evidence of draws alone: lower bounds on epsilon, from games that tell two records apart."""

import math
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import random, validate
from ldp_jax.core.flags import standard_flags
from ldp_jax.core.mechanism import HasDensity, Randomizer, check_budget
from ldp_jax.core.types import Array, PRNGKey, Report, Scalar, Values
from ldp_jax.verification import statistics
from ldp_jax.verification._laws import law_of
from ldp_jax.verification._programs import draws, estimates, generator, logs_of, lost, take
from ldp_jax.verification.statistics import SIGNIFICANCE

_EVENTS = 512  # thresholds tried on one score
_TRAINING = 100_000  # reports of each record that a distinguisher is trained on
_RESOLUTION = 1e-4  # of a score: the last bits of a float32 report are the record's
_PAIRS = 8  # random pairs of adjacent records that a game is played about

Scores = tuple[np.ndarray, np.ndarray]
"""Numbers [trials] of the draws of each record."""


class LowerBound(NamedTuple):
    """The outcome of a distinguishing game.

    Attributes:
      epsilon: no smaller epsilon is true of this sampler, with the confidence asked for; 0 where
        nothing was shown.
      limit: the largest value that so many trials could have shown.
      event: the chosen set of reports, in words.
      share: how often the event's record was in it, among trials that did not choose it; and the
        other record.
    """

    epsilon: float
    limit: float
    event: str
    share: float
    share_other: float
    trials: int


@standard_flags()
def epsilon_lower_bound(
    mechanism: Randomizer,
    key: PRNGKey,
    trials: int = 200_000,
    confidence: float = 1 - SIGNIFICANCE,
    *,
    x: Values | None = None,
    x_other: Values | None = None,
    delta: float = 0.0,
) -> LowerBound:
    r"""A lower bound on the epsilon of a sampler, from draws of two records.

    By default the records are the extremes of the domain.

    Half of the draws choose the event of largest :math:`\log((P - \delta)/P')` among thresholds on
    several scores: the report, its size, the declared loss, for vectors a logistic regression. The
    others bound both probabilities by Clopper and Pearson, whatever the scores are worth. 2e5
    trials see 5 % at epsilon 1. The last bits of a float32 report are rounded away:
    :func:`~ldp_jax.verification.float_audit` measures them.

    >>> from ldp_jax.features import Duchi
    >>> bound = epsilon_lower_bound(Duchi(1.0), jax.random.key(0))
    >>> 0.95 < bound.epsilon <= 1.0
    True
    """
    validate.integer_in(1000, trials=trials)
    validate.in_range(0.0, 1.0, confidence=confidence)
    validate.in_range(0.0, 1.0, delta=delta)
    check_budget(mechanism)  # before the key is used
    domain = mechanism.domain()
    first, second = domain.extremes()
    first = first if x is None else domain.given(x)
    second = second if x_other is None else domain.given(x_other)
    keys = random.split(key)
    reports = [
        draws(mechanism, k, record, trials) for k, record in zip(keys, (first, second), strict=True)
    ]
    scores = _scores(mechanism, reports, first, second, trials // 2)
    return play(
        {name: _rounded(*pair) for name, pair in scores.items()}, trials, confidence, delta=delta
    )


def play(
    scores: Mapping[str, Scores], trials: int, confidence: float, *, delta: float = 0.0
) -> LowerBound:
    """The game on named scores; those of the second halves choose nothing."""
    half, alpha = trials // 2, (1 - confidence) / 2
    best: tuple[float, str, float, float] = (-math.inf, "none", 0.0, 1.0)
    for name, (mine, others) in scores.items():
        for which, a, b in (("record x", mine, others), ("record x_other", others, mine)):
            # "The score is at least t" is an event in favour of a; so is its mirror, with the sign
            # changed.
            for sign, relation in ((1.0, ">="), (-1.0, "<=")):
                first, second = (np.sort(sign * score[:half]) for score in (a, b))
                threshold, value = _best_threshold(first, second, alpha, delta)
                if value > best[0]:
                    hit, other = (
                        float(np.mean(sign * score[half:] >= threshold)) for score in (a, b)
                    )
                    best = (
                        value,
                        f"{name} {relation} {sign * threshold:.6g}, for {which}",
                        hit,
                        other,
                    )
    rest = trials - half
    value = _bound(best[2] * rest, best[3] * rest, rest, alpha, delta)
    limit = _bound(rest, 0, rest, alpha, delta)
    return LowerBound(max(0.0, float(value)), float(limit), best[1], best[2], best[3], trials)


@standard_flags()
def largest_lower_bound(
    mechanism: Randomizer,
    key: PRNGKey,
    trials: int = 200_000,
    confidence: float = 1 - SIGNIFICANCE,
    *,
    delta: float = 0.0,
) -> LowerBound:
    """The largest of lower bounds on epsilon.

    Of the extreme records, and of 8 random adjacent pairs.

    The extremes have half of 1 - ``confidence``; the pairs share as many trials (1 000 each at
    least).

    >>> from ldp_jax.features import Duchi
    >>> 0.9 < largest_lower_bound(Duchi(1.0), jax.random.key(0), 50_000).epsilon <= 1.0
    True
    """
    pair_key, first_key, *keys = random.split(key, 2 + _PAIRS)
    pairs = mechanism.domain().neighbours(generator(pair_key), _PAIRS)
    wrong = (1 - confidence) / 2
    few = max(1000, trials // _PAIRS)
    found = [epsilon_lower_bound(mechanism, first_key, max(1000, trials), 1 - wrong, delta=delta)]
    for place, pair_key in enumerate(keys):
        x, x_other = (take(side, place) for side in pairs)
        found.append(
            epsilon_lower_bound(
                mechanism, pair_key, few, 1 - wrong / _PAIRS, x=x, x_other=x_other, delta=delta
            )
        )
    return max(found, key=lambda bound: bound.epsilon)


def _rounded(mine: np.ndarray, others: np.ndarray) -> Scores:
    """Scores to 1e-4 of their usual size, NaN for infinity.

    Post-processing, so the bound stays valid.
    """
    mine, others = (np.where(np.isnan(scores), np.inf, scores) for scores in (mine, others))
    step = _RESOLUTION * float(np.quantile(np.abs(_finite(mine, others)), 0.9))
    if step == 0:
        return mine, others
    with np.errstate(over="ignore"):  # an infinite score stays one
        return np.round(mine / step) * step, np.round(others / step) * step


def _finite(*scores: np.ndarray) -> np.ndarray:
    """All that are finite; 0 where none is."""
    both = np.concatenate(scores)
    return both[np.isfinite(both)] if np.isfinite(both).any() else np.zeros(1)


def _bound(hits: Scalar, others: Scalar, n: int, alpha: float, delta: float) -> np.ndarray:
    low, _ = statistics.clopper_pearson(np.round(hits), n, alpha)
    _, high = statistics.clopper_pearson(np.round(others), n, alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(low > delta, np.log(np.maximum(low - delta, 1e-300) / high), -np.inf)


def _best_threshold(
    a: np.ndarray, b: np.ndarray, alpha: float, delta: float
) -> tuple[float, float]:
    """The threshold whose event {score >= t} is bounded best, and that bound.

    Scores are in ascending order.
    """
    both = np.sort(np.concatenate([a, b]), kind="stable")  # which merges what is in order
    first = np.append(True, both[1:] != both[:-1])
    if np.count_nonzero(first) > _EVENTS:
        values = np.unique(both[np.rint(np.linspace(0, 1, _EVENTS) * (len(both) - 1)).astype(int)])
    else:
        values = both[first]
    hits = len(a) - np.searchsorted(a, values, "left")
    others = len(b) - np.searchsorted(b, values, "left")
    bounds = _bound(hits, others, len(a), alpha, delta)
    best = int(bounds.argmax())
    return float(values[best]), float(bounds[best])


def _scores(
    m: Randomizer, reports: list[Report], x: Values, x_other: Values, half: int
) -> dict[str, Scores]:
    scores: dict[str, Scores] = {}
    if isinstance(m, HasDensity):
        losses = (lost(logs_of(m, y, x), logs_of(m, y, x_other)) for y in reports)
        mine, others = (np.nan_to_num(np.asarray(loss, np.float64)) for loss in losses)
        scores["declared loss"] = (mine, others)
    of_space = law_of(m.codomain()).scores(reports, x, x_other)
    if of_space is not None:
        return scores | of_space
    if any(np.ndim(leaf) > 1 for leaf in jax.tree.leaves(reports[0])):
        return scores | {"logit": _logit(m, reports, half)}
    pairs = isinstance(reports[0], tuple)
    for part, name in enumerate(("branch", "value") if pairs else ("report",)):
        a, b = (np.asarray(y[part] if pairs else y, np.float64) for y in reports)
        centre = np.median(_finite(a[:half], b[:half]))
        scores[name] = (a, b)
        scores[f"|{name} - {centre:.4g}|"] = (np.abs(a - centre), np.abs(b - centre))
    return scores


def _logit(mechanism: Randomizer, reports: list[Report], half: int) -> Scores:
    """A logistic regression on the bins of the estimate's coordinates, trained on first halves."""
    found = [np.asarray(estimates(mechanism, y), np.float32) for y in reports]
    found = [np.where(np.isnan(e), np.inf, e).reshape(len(e), -1) for e in found]
    dim = found[0].shape[1]
    bins = max(2, min(24, 512 // dim))
    together = np.concatenate([e[:half] for e in found])
    cuts = [
        np.unique(np.quantile(column, np.linspace(0, 1, bins + 1)[1:-1], method="nearest"))
        for column in together.T
    ]
    places = [[np.searchsorted(cut, e[:, j], "right") for j, cut in enumerate(cuts)] for e in found]
    codes = [np.stack([bins * j + p for j, p in enumerate(place)], 1) for place in places]
    first, second = (jnp.asarray(code[: min(half, _TRAINING)]) for code in codes)
    weights = np.asarray(_regress(first, second, bins * dim))
    scores = [weights[code].sum(1).astype(np.float64) for code in codes]
    return scores[0], scores[1]


@partial(jax.jit, static_argnames="size")
def _regress(first: Array, second: Array, size: int) -> Array:
    """Weights of one-hot features by ten damped Newton steps.

    Ridge, so that empty bins stay at 0.
    """
    codes = jnp.concatenate([first, second])
    label = jnp.concatenate([jnp.ones(len(first)), jnp.zeros(len(second))])
    rows = len(codes)
    hot = jnp.zeros((rows, size), jnp.float32).at[jnp.arange(rows)[:, None], codes].set(1.0)

    def step(weights: Array, _: None) -> tuple[Array, None]:
        p = jax.nn.sigmoid(hot @ weights)
        gradient = hot.T @ (p - label) + weights
        hessian = (hot * (p * (1 - p))[:, None]).T @ hot + jnp.eye(size)
        move = jnp.linalg.solve(hessian, gradient)
        return weights - jnp.clip(move, -3.0, 3.0), None

    return jax.lax.scan(step, jnp.zeros(size), None, length=10)[0]
