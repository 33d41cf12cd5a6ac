r"""The evidence of a reported class about the class that its user is of.

A device classifies its own record, and reports the likeliest class of its alphabet S through a
mechanism. The server knows the mechanism's law, P(report | class sent), and from the panel how
often a record of class y is taken for c where the choice is among S: the confusion
:math:`M_S(c | y)`. The evidence of a report is

.. math:: l(y) = \log \sum_{c \in S} M_S(c | y) \, P(\text{report} | c).
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from ldp_jax.core import validate
from ldp_jax.core.float32 import einsum, matmul
from ldp_jax.core.label_channel import other_share
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, Array, Scalar

SMOOTHINGS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Counts that a confusion may be smoothed by."""

_STEPS = 40  # of EM

_LEAST = 1e-30  # a likelihood, so that it has a logarithm

_AT_A_TIME = 64  # alphabets whose confusions are counted together


class ClassReports(NamedTuple):
    """The server's reading of reports before it knows the panel's confusion.

    Attributes:
      log_likelihood: float32 [n, C], log P(report i | class that its device chose).
      alphabets: bool [n, C], the classes that it chose among.
    """

    log_likelihood: Float[AnyArray, "n classes"]
    alphabets: Bool[AnyArray, "n classes"]

    __repr__ = by_shapes


class ScoredPanel(NamedTuple):
    """The panel as classifiers that have not seen its labels score it.

    The labels are true with ``keep``.
    """

    scores: Float[AnyArray, "panel classes"]
    labels: Int[np.ndarray, " panel"]
    keep: float = 1.0

    __repr__ = by_shapes


def confusions(
    panel: ScoredPanel, alphabets: Bool[AnyArray, "n classes"], smoothing: Scalar = 1.0
) -> tuple[Float[Array, "sets classes classes"], Int[np.ndarray, " n"]]:
    """M_S of each alphabet S that is among some, and which of them each user has.

    M_S says how often a panel's record of class y (rows) is taken for c of S (columns). Each row
    has ``smoothing`` counts more, half of them uniform on S, half at y where S holds y, else
    uniform too. Where labels may be wrong the likeliest confusion is found by EM. Reports of the
    panel alone say a little more: its labels are counted.

    >>> scores = jnp.log(
    ...     jnp.array([[0.6, 0.3, 0.1], [0.5, 0.1, 0.4], [0.1, 0.2, 0.7]])
    ... )
    >>> panel = ScoredPanel(scores, np.array([0, 2, 2]))
    >>> found, which = confusions(panel, np.array([[False, True, True]]))
    >>> np.asarray(found[which[0]], float).round(
    ...     3
    ... ).tolist()  # one record of class 0, taken for 1
    [[0.0, 0.75, 0.25], [0.0, 0.75, 0.25], [0.0, 0.083, 0.917]]
    """
    validate.positive(smoothing=smoothing)
    sets, which = _sets(alphabets)
    some = np.asarray(smoothing, np.float32)[None]
    return _confusion(panel, sets, some, labels_are_true=panel.keep == 1.0)[0][0], which


@partial(jax.jit, static_argnames="labels_are_true")
def _confusion(
    panel: ScoredPanel, alphabets: Array, smoothings: Array, *, labels_are_true: bool
) -> tuple[Array, Array]:
    """M_S [s, sets, C, C] for each of some smoothings, and the counts of its rows [s, sets, C].

    Counted where labels are true, else found by EM.
    """
    scores, labels, keep = panel
    classes = scores.shape[1]
    # 0 of rows without a label, by which panels share a program.
    reported = jax.nn.one_hot(labels, classes, dtype=jnp.float32)
    same = jnp.eye(classes, dtype=bool)
    channel = _channel(keep, classes)

    def one(inside: Array) -> tuple[Array, Array]:
        chosen = jnp.argmax(jnp.where(inside, scores, -jnp.inf), -1)
        # Counts of the class sent (rows) by the reported label.
        joint = matmul(jax.nn.one_hot(chosen, classes, dtype=jnp.float32).T, reported)
        uniform = inside.astype(jnp.float32) / inside.sum()
        own = jnp.where(inside[:, None], same.astype(jnp.float32), uniform)

        def smoothed(smoothing: Array) -> tuple[Array, Array]:
            more = 0.5 * smoothing * (uniform + own)
            if labels_are_true:
                rows = reported.sum(0) + smoothing
                return (joint.T + more) / rows[:, None], rows

            def step(_: object, carry: tuple[Array, Array]) -> tuple[Array, Array]:
                share, table = carry
                both = share[:, None] * table
                seen = joint / jnp.maximum(matmul(both.T, channel), _LEAST)
                counts = both * matmul(channel, seen.T)
                total = counts.sum(1)
                share = total / total.sum()
                return share, (counts + more) / (total[:, None] + smoothing)

            even = jnp.full(classes, 1.0 / classes, jnp.float32)
            begin = (even, 0.5 * (uniform + own))
            share, table = jax.lax.fori_loop(0, _STEPS, step, begin)
            return table, share * reported.sum() + smoothing

        return jax.lax.map(smoothed, smoothings)

    tables, rows = jax.lax.map(one, alphabets, batch_size=_AT_A_TIME)
    return jnp.moveaxis(tables, 1, 0), jnp.moveaxis(rows, 1, 0)


def _channel(keep: Scalar, classes: int) -> Array:
    """The law of a reported label, given the class (rows)."""
    return jnp.where(jnp.eye(classes, dtype=bool), keep, other_share(keep, classes))


def _sets(alphabets: AnyArray) -> tuple[np.ndarray, np.ndarray]:
    """The different ones among alphabets, and which of them each user has.

    Few shapes, so few programs.
    """
    sets, which = np.unique(np.asarray(alphabets), axis=0, return_inverse=True)
    room = 256
    while room < len(sets):
        room *= 4
    room = min(room, 2 ** min(sets.shape[1], 30))
    padded = np.pad(sets, ((0, room - len(sets)), (0, 0)), constant_values=True)
    return padded, which.reshape(-1).astype(np.int32)


def likeliest_evidence(
    reports: ClassReports,
    panel: ScoredPanel,
    nodes: Int[np.ndarray, " panel"],
    posterior: Float[AnyArray, "n classes"],
    counted: Bool[AnyArray, " n"],
    smoothings: tuple[float, ...] = SMOOTHINGS,
) -> tuple[Float[Array, "n classes"], float]:
    r"""Step 5 of local prediction.

    The evidence l of each report, and the smoothing under which all are likeliest.

    A small panel's confusion is too sure of itself. Everybody's reports tell, without any label:
    their marginal likelihood is :math:`\prod_i \sum_y q_i(y) e^{l_i(y)}`, and the smoothing that
    makes it largest is taken, the first of equals. A member of the panel is read by a confusion
    that has not counted its own label.

    Args:
      reports: of everybody.
      panel: by classifiers that have not seen its labels.
      nodes: of the panel.
      posterior: q, public; it must not depend on the reports.
      counted: users who reported and are not of the panel.
      smoothings: to choose from.

    >>> sent = jnp.log(jnp.tile(jnp.array([[0.9, 0.1], [0.1, 0.9]]), (20, 1)))
    >>> panel = ScoredPanel(
    ...     sent[:6], np.arange(6) % 2
    ... )  # whose six are never mistaken
    >>> reports = ClassReports(sent, np.ones((40, 2), bool))
    >>> given = (reports, panel, np.arange(6))
    >>> agree, contradict = jnp.exp(sent), jnp.exp(sent[::-1])
    >>> [
    ...     likeliest_evidence(*given, q, np.ones(40, bool))[1]
    ...     for q in (agree, contradict)
    ... ]
    [1.0, 16.0]
    """
    sets, which = _sets(reports.alphabets)
    scores = np.zeros(np.shape(reports.log_likelihood), np.float32)
    scores[nodes] = panel.scores
    labels = np.full(len(scores), -1, np.int32)
    labels[nodes] = panel.labels
    rows = ScoredPanel(scores, labels, panel.keep)
    among = np.asarray(smoothings, np.float32)
    given = (rows, sets, which, reports, posterior, np.asarray(counted), among)
    best, evidence = _likeliest(*given, labels_are_true=panel.keep == 1.0)
    return evidence, smoothings[int(best)]


@partial(jax.jit, static_argnames="labels_are_true")
def _likeliest(
    panel: ScoredPanel,
    sets: Array,
    which: Array,
    reports: ClassReports,
    posterior: Array,
    counted: Array,
    smoothings: Array,
    *,
    labels_are_true: bool,
) -> tuple[Array, Array]:
    """The place of the likeliest smoothing, the first of equals, and the evidence under it."""
    tables, rows = _confusion(panel, sets, smoothings, labels_are_true=labels_are_true)
    law = jnp.where(reports.alphabets, jnp.exp(reports.log_likelihood), 0.0)

    def likelihood(table: Array) -> Array:
        return einsum("nyc,nc->ny", table[which], law)

    def marginal(table: Array) -> Array:
        # A posterior has a class of at least 1 / C, so no sum is 0.
        likely = jnp.maximum(likelihood(table), _LEAST)
        return jnp.where(counted, jnp.log((posterior * likely).sum(-1)), 0.0).sum()

    best = jax.lax.map(marginal, tables).argmax()
    found = likelihood(tables[best])

    # A member of the panel is read by counts without the own one.
    classes = law.shape[1]
    user = jnp.arange(len(law))
    chosen = jnp.argmax(jnp.where(reports.alphabets, panel.scores, -jnp.inf), -1)
    label = jax.nn.one_hot(panel.labels, classes, dtype=jnp.float32)  # 0 of everybody else
    count = rows[best][which]
    of_label = matmul(label, _channel(panel.keep, classes).T)
    joint = count * tables[best][which, :, chosen] * of_label
    own = joint / jnp.maximum(joint.sum(-1, keepdims=True), _LEAST)
    own_law = law[user, chosen][:, None]
    without = (count * found - own * own_law) / (count - own)
    member = panel.labels >= 0
    found = jnp.where(member[:, None], without, found)
    return best, jnp.log(jnp.maximum(found, _LEAST))
