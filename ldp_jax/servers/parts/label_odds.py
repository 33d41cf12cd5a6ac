r"""Bayes factors that labels give to ways of weighing posteriors.

A *family* is a grid of weights and a prior over them. Labels that no score has seen have a
likelihood under each weight, and its mean over the prior is what they say of the family. Where one
family is right, others are :math:`e^k` times likelier with a probability of at most :math:`e^{-k}`
(Markov's inequality), however few labels there are. That takes scores that have not seen the
labels: what has seen them, if only through reports of friends, has odds that are too high, and no
bound.

In float64 on the host.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import expit, log_softmax, logsumexp

from ldp_jax.core.shown import by_shapes
from ldp_jax.servers.parts.structure import label_log_loss

SHARPNESS = tuple(2.0**power for power in (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0))
"""Powers of a posterior: one that few labels taught is up to three times too flat."""

TRUST = (0.1, 0.25, 0.5, 1.0)
"""Powers of evidence: counts of friends who are alike say less than so many independent ones."""

_SPREAD = 0.7  # standard deviation of the logarithm of a sharpness


_Combination = Sequence[float] | Float[np.ndarray, " j"]


class Family(NamedTuple):
    """Weights [k, J] of J scores, and the logarithm of their prior [k]."""

    weights: Float[np.ndarray, "k j"]
    log_prior: Float[np.ndarray, " k"]

    __repr__ = by_shapes


def family(sharpened: _Combination, trusted: _Combination | None = None) -> Family:
    """All sharpnesses of one combination of scores, and all trusts of another one beside it.

    >>> (
    ...     family((1.0, 0.0)).weights.shape,
    ...     family((1.0, 0.0), (0.0, 1.0)).weights.shape,
    ... )
    ((7, 2), (28, 2))
    """
    trusts = (0.0,) if trusted is None else TRUST
    other = np.zeros(len(sharpened)) if trusted is None else np.asarray(trusted)
    sharpness, power = np.array(list(itertools.product(SHARPNESS, trusts))).T
    log_prior = -0.5 * (np.log(sharpness) / _SPREAD) ** 2
    weights = np.outer(sharpness, sharpened) + np.outer(power, other)
    return Family(weights, log_prior - logsumexp(log_prior))


def log_odds(
    log_scores: Float[np.ndarray, "labelled classes j"],
    labels: Int[np.ndarray, " labelled"],
    of: Family,
    keep: float = 1.0,
) -> tuple[float, Float[np.ndarray, " j"]]:
    """The log marginal likelihood of labels under a family, and the posterior mean of its weights.

    Scores must not have seen the labels, which are true with ``keep``.

    >>> y = np.arange(20) % 2
    >>> told = np.log(np.array([[0.9, 0.1], [0.1, 0.9]]))[y][..., None]
    >>> says, weights = log_odds(told, y, family((1.0,)))
    >>> bool(says > 20 * np.log(0.5)), bool(weights[0] > 1.0)
    (True, True)
    """
    scores = np.asarray(log_scores, np.float64)
    posteriors = (log_softmax(scores @ one, axis=1) for one in of.weights)
    joint = of.log_prior
    if len(labels):
        losses = [label_log_loss(log_p, labels, keep) for log_p in posteriors]
        joint = joint - len(labels) * np.asarray(losses)
    total = logsumexp(joint)
    return float(total), np.exp(joint - total) @ of.weights


def trust(
    log_q: Float[np.ndarray, "labelled classes"],
    evidence: Float[np.ndarray, "labelled classes"],
    labels: Int[np.ndarray, " labelled"],
) -> float:
    """The posterior mean of a power of evidence beside log q, which is 0 as likely as not.

    >>> y = np.arange(40) % 2
    >>> q, right = (
    ...     np.full((40, 2), np.log(0.5)),
    ...     np.log([[0.9, 0.1], [0.1, 0.9]])[y],
    ... )
    >>> [round(trust(q, told, y), 1) for told in (right, right[::-1])]
    [1.0, 0.0]
    """
    scores = np.stack([log_q, evidence], -1)
    alone = family((1.0, 0.0))
    beside = family((1.0, 0.0), (0.0, 1.0))
    found = preference(scores, labels, alone, [beside], doubt=0.0)
    return float(found.other[1] * found.chance)


class Preference(NamedTuple):
    """Weights [J] of a family, those of the likeliest other one, and the others' probability."""

    alone: Float[np.ndarray, " j"]
    other: Float[np.ndarray, " j"]
    chance: float

    __repr__ = by_shapes


def preference(
    log_scores: Float[np.ndarray, "labelled classes j"],
    labels: Int[np.ndarray, " labelled"],
    alone: Family,
    others: Sequence[Family],
    doubt: float,
) -> Preference:
    """Whether labels prefer other families to ``alone``.

    The others are equally likely before labels are asked, and together less likely than ``alone``
    by odds of :math:`e^{doubt}`.

    >>> y = np.arange(40) % 2
    >>> told = np.log([[0.9, 0.1], [0.1, 0.9]])[y]
    >>> both = np.stack([np.full((40, 2), np.log(0.5)), told], -1)
    >>> asked = family((1.0, 0.0)), [family((1.0, 0.0), (0.0, 1.0))], 3.0
    >>> found = preference(both, y, *asked)
    >>> round(float(found.other[1]), 1), round(found.chance, 2)
    (1.0, 1.0)
    >>> preference(both, y[::-1], *asked).chance < 0.01
    True
    """
    first, weights = log_odds(log_scores, labels, alone)
    each = [log_odds(log_scores, labels, one) for one in others]
    odds = np.array([one[0] for one in each])
    mean = logsumexp(odds) - np.log(len(odds))
    chance = float(expit(mean - first - doubt))
    return Preference(weights, each[int(odds.argmax())][1], chance)
