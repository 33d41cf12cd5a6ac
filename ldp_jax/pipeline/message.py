r"""What a reported class says of the class that its user is of.

A device classifies its own record, and reports the likeliest class of its alphabet S through a mechanism. The
server knows the mechanism's law, P(report | class sent), and from the panel how often a record of class y is taken
for c where the choice is among S: the confusion :math:`M_S(c | y)`. The evidence of a report is

.. math:: l(y) = \log \sum_{c \in S} M_S(c | y) \, P(\text{report} | c).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from ldp_jax.core import validate
from ldp_jax.core.label_channel import other_share
from ldp_jax.core.types import Array, Scalar

SMOOTHINGS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Counts that a confusion may be smoothed by."""

_STEPS = 40
"""Of EM."""

_AT_A_TIME = 64
"""Alphabets whose confusions are counted together."""


def restricted_confusion(
    scores: Float[Array | np.ndarray, "panel classes"],
    labels: Int[Array | np.ndarray, " panel"],
    alphabets: Bool[Array | np.ndarray, "sets classes"],
    smoothing: Scalar = 1.0,
    keep: float = 1.0,
) -> Float[Array, "sets classes classes"]:
    """M_S of each alphabet S: how often a panel's record of class y (rows) is taken for c of S (columns).

    Each row has ``smoothing`` counts more, half of them uniform on S, half at y where S holds y, else uniform too.

    Args:
      scores: of each class for each of the panel's records, by classifiers that have not seen its label.
      labels: the panel's, in [0, C).
      alphabets: each of at least one class.
      smoothing: > 0.
      keep: the probability that a label is the true one (:mod:`~ldp_jax.pipeline.private_labels`). Below 1 the
        likeliest confusion is found by EM over classes that nobody sees.

    >>> scores = jnp.log(jnp.array([[0.6, 0.3, 0.1], [0.5, 0.1, 0.4], [0.1, 0.2, 0.7]]))
    >>> found = restricted_confusion(scores, np.array([0, 2, 2]), np.array([[False, True, True]]))
    >>> np.asarray(found[0], float).round(3).tolist()  # class 0 has one record, whose best class of S is 1
    [[0.0, 0.75, 0.25], [0.0, 0.75, 0.25], [0.0, 0.083, 0.917]]
    """
    validate.positive(smoothing=smoothing)
    numbers = (np.asarray(smoothing, np.float32)[None], np.float32(keep))
    return _confusion(scores, np.asarray(labels), np.int32(len(labels)), np.asarray(alphabets), *numbers)[0]


@jax.jit
def _confusion(
    scores: Array, labels: Array, count: Array, alphabets: Array, smoothings: Array, keep: Array
) -> Array:
    """M_S [s, sets, C, C] for each of some smoothings; the first ``count`` rows are the panel's."""
    classes = scores.shape[1]
    told = jnp.where((jnp.arange(len(labels)) < count)[:, None], jax.nn.one_hot(labels, classes), 0.0)
    same = jnp.eye(classes, dtype=bool)
    channel = jnp.where(same, keep, other_share(keep, classes))  # of a class (rows) and its report

    def one(inside: Array) -> Array:
        chosen = jnp.argmax(jnp.where(inside, scores, -jnp.inf), -1)
        joint = jax.nn.one_hot(chosen, classes).T @ told  # of the class sent (rows) and the reported label
        uniform = inside / inside.sum()
        own = jnp.where(inside[:, None], same.astype(jnp.float32), uniform)

        def smoothed(smoothing: Array) -> Array:
            more = 0.5 * smoothing * (uniform + own)

            def step(_: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
                share, table = carry
                both = share[:, None] * table
                counts = both * (channel @ (joint / jnp.maximum(both.T @ channel, 1e-30)).T)
                total = counts.sum(1)
                return total / total.sum(), (counts + more) / (total[:, None] + smoothing)

            # Of labels that are true the confusion is counted; else it is found by EM.
            known = (joint.T + more) / (told.sum(0)[:, None] + smoothing)
            begin = (jnp.full(classes, 1.0 / classes), 0.5 * (uniform + own))
            found = jax.lax.fori_loop(0, jnp.where(keep == 1.0, 0, _STEPS), step, begin)[1]
            return jnp.where(keep == 1.0, known, found)

        return jax.lax.map(smoothed, smoothings)

    return jnp.moveaxis(jax.lax.map(one, alphabets, batch_size=_AT_A_TIME), 1, 0)


def confusions(
    scores: Float[Array | np.ndarray, "panel classes"],
    labels: Int[Array | np.ndarray, " panel"],
    alphabets: Bool[Array | np.ndarray, "n classes"],
    smoothing: Scalar = 1.0,
    keep: float = 1.0,
) -> tuple[Float[Array, "sets classes classes"], Int[np.ndarray, " n"]]:
    """:func:`restricted_confusion` of the different ones among alphabets, and which of them each user has.

    Args:
      scores: see :func:`restricted_confusion`.
      labels: see :func:`restricted_confusion`.
      alphabets: of each user.
      smoothing: see :func:`restricted_confusion`.
      keep: see :func:`restricted_confusion`.
    """
    sets, which = _sets(alphabets)
    return restricted_confusion(scores, labels, sets, smoothing, keep), which


def _sets(alphabets: Any) -> tuple[np.ndarray, np.ndarray]:
    """The different ones among alphabets, and which of them each user has; few shapes, so few programs."""
    sets, which = np.unique(np.asarray(alphabets), axis=0, return_inverse=True)
    room = 256
    while room < len(sets):
        room *= 4
    room = min(room, 2 ** min(sets.shape[1], 30))
    padded = np.pad(sets, ((0, room - len(sets)), (0, 0)), constant_values=True)
    return padded, which.reshape(-1).astype(np.int32)


def message_evidence(
    report_log_likelihood: Float[Array | np.ndarray, "n classes"],
    alphabets: Bool[Array | np.ndarray, "n classes"],
    scores: Float[Array | np.ndarray, "panel classes"],
    labels: Int[Array | np.ndarray, " panel"],
    smoothing: Scalar = 1.0,
    keep: float = 1.0,
) -> Float[Array, "n classes"]:
    """Step 5 of local prediction: l, the log-likelihood of each user's report under each class of hers.

    Args:
      report_log_likelihood: log P(report | class sent), by the mechanism's law.
      alphabets: the classes among which each user's device chose.
      scores: see :func:`restricted_confusion`.
      labels: see :func:`restricted_confusion`.
      smoothing: see :func:`restricted_confusion`, and :func:`likeliest_evidence`.
      keep: see :func:`restricted_confusion`.

    >>> scores = jnp.log(jnp.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.1, 0.7]]))
    >>> report, alphabet = jnp.log(jnp.array([[0.75, 0.25, 0.25]])), np.array([[True, True, False]])
    >>> found = message_evidence(report, alphabet, scores, np.arange(3))  # a panel of one record a class
    >>> np.asarray(jnp.exp(found), float).round(4).tolist()  # records of class 2 are taken for class 0
    [[0.6875, 0.3125, 0.625]]
    """
    table, which = confusions(scores, labels, alphabets, smoothing, keep)
    return _evidence(report_log_likelihood, np.asarray(alphabets), table, which)


def likeliest_evidence(
    report_log_likelihood: Float[Array | np.ndarray, "n classes"],
    alphabets: Bool[Array | np.ndarray, "n classes"],
    scores: Float[Array | np.ndarray, "panel classes"],
    labels: Int[Array | np.ndarray, " panel"],
    posterior: Float[Array | np.ndarray, "n classes"],
    counted: Bool[Array | np.ndarray, " n"],
    keep: float = 1.0,
) -> tuple[Float[Array, "n classes"], float]:
    r""":func:`message_evidence` of the smoothing under which reports are likeliest; no label, no budget.

    A small panel's confusion is too sure of itself. Everybody's reports tell: their marginal likelihood is
    :math:`\prod_i \sum_y q_i(y) e^{l_i(y)}`, and of :data:`SMOOTHINGS` the one that makes it largest is taken.

    Args:
      report_log_likelihood: see :func:`message_evidence`.
      alphabets: see :func:`message_evidence`.
      scores: see :func:`message_evidence`.
      labels: see :func:`message_evidence`.
      posterior: q, public; must not depend on the reports.
      counted: who reported, and is not of the panel.
      keep: see :func:`restricted_confusion`.

    Returns:
      The evidence, and the smoothing.

    >>> told = jnp.log(jnp.tile(jnp.array([[0.9, 0.1], [0.1, 0.9]]), (20, 1)))
    >>> given = (told, np.ones((40, 2), bool), told[:6], np.arange(6) % 2)  # the panel's six are never mistaken
    >>> agree, contradict = jnp.exp(told), jnp.exp(told[::-1])
    >>> [likeliest_evidence(*given, q, np.ones(40, bool))[1] for q in (agree, contradict)]
    [1.0, 16.0]
    """
    sets, which = _sets(alphabets)
    lacking = len(report_log_likelihood) - len(labels)
    rows = [np.pad(np.asarray(each), ((0, lacking), *((0, 0),) * (np.ndim(each) - 1))) for each in (scores, labels)]
    reports = (report_log_likelihood, np.asarray(alphabets), posterior, np.asarray(counted))
    best, evidence = _likeliest(*rows, np.int32(len(labels)), sets, which, np.float32(keep), *reports)
    return evidence, SMOOTHINGS[int(best)]


@jax.jit
def _likeliest(
    scores: Array,
    labels: Array,
    count: Array,
    sets: Array,
    which: Array,
    keep: Array,
    log_likelihood: Array,
    inside: Array,
    posterior: Array,
    counted: Array,
) -> tuple[Array, Array]:
    """The place of the likeliest smoothing, the first of equals, and the evidence under it."""
    tables = _confusion(scores, labels, count, sets, jnp.array(SMOOTHINGS), keep)

    def value(table: Array) -> Array:
        return _marginal(_evidence(log_likelihood, inside, table, which), posterior, counted)

    best = jax.lax.map(value, tables).argmax()
    return best, _evidence(log_likelihood, inside, tables[best], which)


@jax.jit
def _marginal(evidence: Array, posterior: Array, counted: Array) -> Array:
    each = jax.nn.logsumexp(jnp.log(jnp.maximum(posterior, 1e-30)) + evidence, axis=-1)
    return jnp.where(counted, each, 0.0).sum()


@jax.jit
def _evidence(log_likelihood: Array, inside: Array, table: Array, which: Any) -> Array:
    sent = jnp.where(inside, jnp.exp(log_likelihood), 0.0)
    return jnp.log(jnp.maximum(jnp.einsum("nyc,nc->ny", table[which], sent), 1e-30))
