r"""What reports of a predicted class would add to structure, before anybody reports: asked of the panel.

A member of the panel has a structural posterior q and a class c that her device would send, both of models that
have not seen her. Her report r is drawn by a known law, so that the expectation over it is a finite sum: with
:math:`T_r(y) = \sum_{c \in S} M_S(c | y) P(r | c)`, M the confusion of the panel without her,

.. math:: g = \sum_r P(r | c) \Big( w \log T_r(y) - \log \sum_{y'} q(y') T_r(y')^w \Big)

is what her report is expected to take off her log-loss. The weight w is one for all, the best of a few for the
panel: a small panel's confusion is too sure of itself, and the stack that follows weighs reports too. The mean over
the panel says whether reports know more than structure does, and how sure that is. However little a report says,
that may be sure; whether so many of them can be seen to agree with structure, as the
:mod:`guard <ldp_jax.pipeline.guard>` will ask, is foretold too. What reports of neighbours add comes on top.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from ldp_jax.core import validate
from ldp_jax.core.types import Array
from ldp_jax.pipeline.guard import ROUNDING
from ldp_jax.pipeline.message import SMOOTHINGS, confusions

__all__ = ["ExpectedGain", "expected_gain"]


def __dir__() -> list[str]:
    return __all__


WEIGHTS = (1.0, 0.75, 0.5, 0.35, 0.25)
"""Of reports beside structure, to choose from."""

_AT_A_TIME = 256
"""Members whose reports are gone through together."""


class ExpectedGain(NamedTuple):
    """What own reports are expected to add, in the mean over the panel; made by :func:`expected_gain`.

    Attributes:
      log_loss: nats a user.
      standard_error: of it, over members.
      accuracy: in points, of deciding by q and the own report in place of q.
      accuracy_error: its standard error, in points.
      correlation: rho, how much of a class's variance a report explains: it is worth about rho labels.
      agreement: how much likelier a report is by its user's structural posterior than by the class shares, less 1:
        the mean of the guard's t.
      agreement_square: the mean of its square.
      members: how many were asked.
      smoothing: counts that the confusion was smoothed by.
      weight: w, of reports.
    """

    log_loss: float
    standard_error: float
    accuracy: float
    accuracy_error: float
    correlation: float
    agreement: float
    agreement_square: float
    members: int
    smoothing: float
    weight: float

    @property
    def t(self) -> float:
        """The gain over its standard error; 0 where there is no gain at all."""
        return self.log_loss / self.standard_error if self.standard_error > 0 else 0.0

    def guard(self, users: int) -> float:
        r"""What the guard is expected to see in reports of so many users: it believes none where this is below 2.

        :math:`\sum t / \sqrt{\sum t^2}`, less what roundings may add to t: see
        :func:`ldp_jax.pipeline.guard.strength`.
        """
        return math.sqrt(users) * (self.agreement - ROUNDING) / math.sqrt(max(self.agreement_square, 1e-30))


def expected_gain(
    log_q: Float[Array | np.ndarray, "panel classes"],
    scores: Float[Array | np.ndarray, "panel classes"],
    labels: Int[Array | np.ndarray, " panel"],
    alphabets: Bool[Array | np.ndarray, "panel classes"],
    epsilon: float,
) -> ExpectedGain:
    """The expected gain of one report a user by generalised randomised response within her alphabet.

    In closed form over reports. Nothing is drawn, and no private user is asked. The confusion is smoothed by as
    many counts as make reports of the panel's members likeliest under their classes, each by the others' records:
    later, :func:`~ldp_jax.pipeline.message.likeliest_evidence` asks everybody's reports. The weight is the one of
    :data:`WEIGHTS` that gains the panel most.

    Args:
      log_q: what structure says of the panel's members, out of fold.
      scores: of each class for each of their records, by classifiers that have not seen it.
      labels: in [0, C).
      alphabets: the classes among which each member's device would choose: of all users alike for plain
        randomised response.
      epsilon: of a report, > 0.

    Raises:
      ValueError: for fewer than two members, sizes that do not fit, labels outside [0, C), an alphabet of no class,
        or such an epsilon.

    >>> log_q = np.log(np.full((60, 3), 1 / 3, np.float32))
    >>> labels = np.arange(60) % 3
    >>> sure = np.eye(3, dtype=np.float32)[labels]
    >>> found = expected_gain(log_q, sure, labels, np.ones((60, 3), bool), 2.0)
    >>> round(found.log_loss, 2), round(found.accuracy), found.t > 2
    (0.43, 45, True)
    """
    epsilon = validate.number(0.0, open_lower=True, epsilon=epsilon)
    labels, inside = np.asarray(labels), np.asarray(alphabets)
    if len(labels) < 2 or not len(log_q) == len(scores) == len(labels) == len(inside):
        raise ValueError(
            f"log_q, scores, labels and alphabets must be of the same two members or more, got {len(log_q)}, "
            f"{len(scores)}, {len(labels)} and {len(inside)}"
        )
    classes = np.shape(log_q)[1]
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(f"labels must be in [0, {classes}), got {labels.min()} to {labels.max()}")
    if not inside.any(1).all():
        raise ValueError("alphabets must hold a class of each member's at least")
    given = (jnp.asarray(log_q), jnp.asarray(scores), jnp.asarray(labels), jnp.asarray(inside))
    best = None
    for smoothing in SMOOTHINGS:
        table, which = confusions(jnp.asarray(scores), labels, inside, smoothing)
        made = _members(*given, table, which, jnp.float32(epsilon), jnp.float32(smoothing))
        made = tuple(np.asarray(each, np.float64) for each in made)
        if best is None or made[0].sum() > best[0][0].sum():
            best = (made, smoothing)
    assert best is not None
    (_, gains, decided, rho, agreement, square), smoothing = best
    weight = int(gains.sum(0).argmax())
    gain, right = gains[:, weight], decided[:, weight]
    errors = [float(each.std(ddof=1)) / math.sqrt(len(each)) for each in (gain, 100 * right)]
    return ExpectedGain(
        log_loss=float(gain.mean()),
        standard_error=errors[0],
        accuracy=float(100 * right.mean()),
        accuracy_error=errors[1],
        correlation=float(np.clip(rho.mean(), 0.0, 1.0)),
        agreement=float(agreement.mean()),
        agreement_square=float(square.mean()),
        members=len(labels),
        smoothing=smoothing,
        weight=WEIGHTS[weight],
    )


@jax.jit
def _members(
    log_q: Array,
    scores: Array,
    labels: Array,
    inside: Array,
    table: Array,
    which: Array,
    epsilon: Array,
    smoothing: Array,
) -> tuple[Array, ...]:
    """Of each member, expected over reports: log-likelihood by her class, gains [weights] of both, rho, t, t^2."""
    classes = scores.shape[1]
    size = jax.nn.one_hot(labels, classes).sum(0)
    prior = size / size.sum()
    variance = jnp.maximum(1.0 - (prior**2).sum(), 1e-6)

    def one(member: tuple[Array, ...]) -> tuple[Array, ...]:
        log_q, scores, label, inside, which = member
        log_q = jax.nn.log_softmax(log_q)
        places = inside.sum()
        other = jnp.exp(-epsilon) / (1.0 + (places - 1) * jnp.exp(-epsilon))
        more = -jnp.expm1(-epsilon) / (1.0 + (places - 1) * jnp.exp(-epsilon))
        sent = jax.nn.one_hot(jnp.argmax(jnp.where(inside, scores, -jnp.inf)), classes)
        # The panel's confusion without her own record.
        rest = (table[which, label] * (size[label] + smoothing) - sent) / (size[label] - 1.0 + smoothing)
        confusion = table[which].at[label].set(jnp.maximum(rest, 0.0))
        report = jnp.where(inside, other + more * sent, 0.0)  # P(r | sent)
        log_t = jnp.where(inside, jnp.log(other + more * confusion), 0.0)  # [class, report]
        joint = log_q[:, None] + jnp.asarray(WEIGHTS)[:, None, None] * log_t  # [weight, class, report]
        marginal = jax.nn.logsumexp(joint, axis=1)
        gains = joint[:, label] - log_q[label] - marginal
        decided = (joint.argmax(1) == label).astype(jnp.float32) - (log_q.argmax() == label)
        by_anybody = jnp.log(jnp.maximum(prior, 1e-30))[:, None] + log_t
        away = ((jax.nn.softmax(by_anybody, axis=0) - prior[:, None]) ** 2).sum(0) / variance
        agreement = jnp.expm1(marginal[0] - jax.nn.logsumexp(by_anybody, axis=0))
        each = (log_t[label], gains, decided, away, agreement, agreement**2)
        return tuple(value @ report for value in each)

    return jax.lax.map(one, (log_q, scores, labels, inside, which), batch_size=_AT_A_TIME)
