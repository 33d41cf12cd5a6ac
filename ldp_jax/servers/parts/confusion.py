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
from ldp_jax.core.types import Array, Scalar

SMOOTHINGS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Counts that a confusion may be smoothed by."""

_STEPS = 40  # of EM

_AT_A_TIME = 64  # alphabets whose confusions are counted together


class ClassReports(NamedTuple):
    """The server's reading of reports before it knows the panel's confusion.

    Attributes:
      log_likelihood: float32 [n, C], log P(report i | class that its device chose).
      alphabets: bool [n, C], the classes that it chose among.
      reported: bool [n], who did report, of the panel whoever; everybody by default. Rows of the
        silent are 0.
    """

    log_likelihood: Float[Array | np.ndarray, "n classes"]
    alphabets: Bool[Array | np.ndarray, "n classes"]
    reported: Bool[np.ndarray, " n"] | None = None

    __repr__ = by_shapes


class ScoredPanel(NamedTuple):
    """The panel as classifiers that have not seen its labels score it.

    The labels are true with ``keep``.
    """

    scores: Float[Array | np.ndarray, "panel classes"]
    labels: Int[np.ndarray, " panel"]
    keep: float = 1.0

    __repr__ = by_shapes


def confusions(
    panel: ScoredPanel, alphabets: Bool[Array | np.ndarray, "n classes"], smoothing: Scalar = 1.0
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
    return _confusion(panel, sets, some, labels_are_true=panel.keep == 1.0)[0], which


@partial(jax.jit, static_argnames="labels_are_true")
def _confusion(
    panel: ScoredPanel, alphabets: Array, smoothings: Array, *, labels_are_true: bool
) -> Array:
    """M_S [s, sets, C, C] for each of some smoothings.

    Counted where labels are true, else found by EM.
    """
    scores, labels, keep = panel
    classes = scores.shape[1]
    reported = jax.nn.one_hot(
        labels, classes, dtype=jnp.float32
    )  # 0 of rows without a label, by which panels share a program
    same = jnp.eye(classes, dtype=bool)
    channel = jnp.where(same, keep, other_share(keep, classes))  # of a class (rows) and its report

    def one(inside: Array) -> Array:
        chosen = jnp.argmax(jnp.where(inside, scores, -jnp.inf), -1)
        # Of the class sent (rows) and the reported label.
        joint = matmul(jax.nn.one_hot(chosen, classes, dtype=jnp.float32).T, reported)
        uniform = inside / inside.sum()
        own = jnp.where(inside[:, None], same.astype(jnp.float32), uniform)

        def smoothed(smoothing: Array) -> Array:
            more = 0.5 * smoothing * (uniform + own)
            if labels_are_true:
                return (joint.T + more) / (reported.sum(0)[:, None] + smoothing)

            def step(_: object, carry: tuple[Array, Array]) -> tuple[Array, Array]:
                share, table = carry
                both = share[:, None] * table
                seen = joint / jnp.maximum(matmul(both.T, channel), 1e-30)
                counts = both * matmul(channel, seen.T)
                total = counts.sum(1)
                return total / total.sum(), (counts + more) / (total[:, None] + smoothing)

            begin = (jnp.full(classes, 1.0 / classes, jnp.float32), 0.5 * (uniform + own))
            return jax.lax.fori_loop(0, _STEPS, step, begin)[1]

        return jax.lax.map(smoothed, smoothings)

    return jnp.moveaxis(jax.lax.map(one, alphabets, batch_size=_AT_A_TIME), 1, 0)


def _sets(alphabets: Array | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
    posterior: Float[Array | np.ndarray, "n classes"],
    counted: Bool[Array | np.ndarray, " n"],
    smoothings: tuple[float, ...] = SMOOTHINGS,
) -> tuple[Float[Array, "n classes"], float]:
    r"""Step 5 of local prediction.

    The evidence l of each report, and the smoothing under which all are likeliest.

    A small panel's confusion is too sure of itself. Everybody's reports tell, without any label:
    their marginal likelihood is :math:`\prod_i \sum_y q_i(y) e^{l_i(y)}`, and the smoothing that
    makes it largest is taken. ``posterior`` q is public and must not depend on the reports;
    ``counted`` are users who reported and are not of the panel. The first of equal smoothings is
    taken.

    >>> sent = jnp.log(jnp.tile(jnp.array([[0.9, 0.1], [0.1, 0.9]]), (20, 1)))
    >>> panel = ScoredPanel(
    ...     sent[:6], np.arange(6) % 2
    ... )  # whose six are never mistaken
    >>> given = (ClassReports(sent, np.ones((40, 2), bool)), panel)
    >>> agree, contradict = jnp.exp(sent), jnp.exp(sent[::-1])
    >>> [
    ...     likeliest_evidence(*given, q, np.ones(40, bool))[1]
    ...     for q in (agree, contradict)
    ... ]
    [1.0, 16.0]
    """
    sets, which = _sets(reports.alphabets)
    lacking = len(reports.log_likelihood) - len(panel.labels)
    scores = np.pad(np.asarray(panel.scores), ((0, lacking), (0, 0)))
    rows = ScoredPanel(scores, np.pad(panel.labels, (0, lacking), constant_values=-1), panel.keep)
    reports = ClassReports(reports.log_likelihood, np.asarray(reports.alphabets))
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
    tables = _confusion(panel, sets, smoothings, labels_are_true=labels_are_true)
    law = jnp.where(reports.alphabets, jnp.exp(reports.log_likelihood), 0.0)

    def likelihood(table: Array) -> Array:
        return jnp.maximum(einsum("nyc,nc->ny", table[which], law), 1e-30)

    def marginal(table: Array) -> Array:
        # A posterior has a class of at least 1 / C, so no sum is 0.
        return jnp.where(counted, jnp.log((posterior * likelihood(table)).sum(-1)), 0.0).sum()

    best = jax.lax.map(marginal, tables).argmax()
    return best, jnp.log(likelihood(tables[best]))
