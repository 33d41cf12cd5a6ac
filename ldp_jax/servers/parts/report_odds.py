r"""Whether reports of records are read: what labels and reports say, by Bayes factors.

Reports are of use, or one of three things is wrong:

* *Records say nothing*, of the panel or of anybody else.
* *Private records are others* than the panel's, whatever those say: reports have nothing to do with
  their users.
* *Records repeat structure*: reports agree with it, right or wrong, and tell no more.

The panel, whose records and labels are public, tells the first and the last from use: the
likelihood of its labels by structure and record together, over that by structure alone
(:mod:`~ldp_jax.servers.parts.label_odds`). Neither has seen the label that it is asked about. No
noise is in it, so that few labels say more than their reports could.

Reports tell the first two from use. Let :math:`R_i(y)` be the likelihood of report i under class y
over its marginal one. Where private records are like the panel's, all reports are
:math:`\prod_i \sum_y q_i(y) R_i(y)` times as likely as if they had nothing to do with their users.
Structure may know less, or more, of private users than its q says: the mean is taken over powers of
q, as likely as the panel's labels make them. So a graph that says nothing of classes, and knows it,
speaks neither for reports nor against them.

In float64 on the host.
"""

import math

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit, log_softmax, logsumexp

from ldp_jax.core.types import AnyArray
from ldp_jax.servers.parts.confusion import ScoredPanel
from ldp_jax.servers.parts.guard import likelihood_ratios
from ldp_jax.servers.parts.label_odds import family, log_odds
from ldp_jax.servers.parts.structure import label_log_loss

_POWERS = (0.0, 0.25, 0.5, 1.0, 2.0)
"""Of q: at 0 structure says nothing, and that is as likely as all others together."""

_NOTHING, _OTHERS, _REPEATED = 2.0, -3.0, 1.0
"""The logarithms of the odds of what may be wrong, before anything is asked: records say nothing,
private ones are others, they repeat structure. Chosen on drawn worlds and named graphs.
"""

_LEAST = 1e-6  # the least likelihood ratio of a report


def belief(
    log_likelihood: Float[AnyArray, "n classes"],
    log_q: Float[AnyArray, "n classes"],
    counted: Bool[np.ndarray, " n"],
    panel: ScoredPanel,
    nodes: Int[np.ndarray, " panel"],
) -> float:
    """The probability that reports are of use; 0 where all together say less than a nat.

    Args:
      log_likelihood: of each user's report.
      log_q: what structure says; of a member of the panel by a model that has not seen the label.
      counted: users who reported and are not of the panel.
      panel: its records by classifiers that have not seen the label.
      nodes: of the panel, ascending.

    >>> y = np.arange(200) % 2
    >>> said = np.log([[0.9, 0.1], [0.1, 0.9]])[y]
    >>> panel = ScoredPanel(said[:40], y[:40])
    >>> nothing = np.full((200, 2), np.log(0.5))
    >>> given = y >= 0, panel, np.arange(40)
    >>> round(belief(said, nothing, *given), 2)  # a graph that says nothing
    0.95
    >>> belief(said[::-1], said, *given) < 1e-6  # reports against structure
    True
    >>> blind = panel._replace(scores=nothing[:40])
    >>> round(
    ...     belief(said, nothing, y >= 0, blind, np.arange(40)), 2
    ... )  # records that say nothing
    0.09
    """
    if not counted.any():
        return 0.0
    log_q = np.asarray(log_q)
    share = np.exp(log_q[counted]).mean(0, dtype=np.float64)
    ratios = likelihood_ratios(np.asarray(log_likelihood)[counted], share)
    information = share * ratios * np.log(np.maximum(ratios, _LEAST))
    if information.sum() < 1.0:
        return 0.0
    added = added_by_records(log_q[nodes], panel)
    agree = agreement(ratios, log_q[counted], log_q[nodes], panel)
    wrong = logsumexp([_NOTHING, added + _OTHERS, agree + _REPEATED])
    return float(expit(added + agree - wrong))


def added_by_records(log_q: Float[np.ndarray, "panel classes"], panel: ScoredPanel) -> float:
    """The log Bayes factor, by the panel's labels, of structure with records over structure alone.

    >>> y = np.arange(40) % 2
    >>> said = np.log([[0.9, 0.1], [0.1, 0.9]])[y]
    >>> added_by_records(np.full((40, 2), np.log(0.5)), ScoredPanel(said, y)) > 10
    True
    >>> added_by_records(said, ScoredPanel(said, y)) < 1
    True
    """
    labels = np.asarray(panel.labels)
    classes = log_q.shape[1]
    # Both know how common classes are, which counts once.
    share = (np.bincount(labels, minlength=classes) + 1.0) / (len(labels) + classes)
    scores = np.stack([log_q, np.asarray(panel.scores) - np.log(share)], -1)
    alone, _ = log_odds(scores, labels, family((1.0, 0.0)), panel.keep)
    beside, _ = log_odds(scores, labels, family((1.0, 0.0), (0.0, 1.0)), panel.keep)
    return beside - alone


def agreement(
    ratios: Float[np.ndarray, "private classes"],
    log_q: Float[np.ndarray, "private classes"],
    log_q_panel: Float[np.ndarray, "panel classes"],
    panel: ScoredPanel,
) -> float:
    """The log Bayes factor, by reports, of users who report by the model over anybody's reports.

    ``ratios`` are R.

    >>> y = np.arange(200) % 2
    >>> said = np.log([[0.9, 0.1], [0.1, 0.9]])[y]
    >>> panel, ratios = ScoredPanel(said[:40], y[:40]), 2.0 * np.exp(said)
    >>> agreement(ratios, said, said[:40], panel) > 50
    True
    >>> agreement(ratios[::-1], said, said[:40], panel) < -20
    True
    """
    share = np.exp(log_q).mean(0, dtype=np.float64)
    log_share = np.log(np.maximum(share, 1e-30))
    others = math.log(2.0 * (len(_POWERS) - 1))
    of_labels = []
    of_reports = []
    for power in _POWERS:
        towards = max(1.0 - power, 0.0) * log_share
        q = log_softmax(power * log_q + towards, axis=1)
        each = np.maximum((np.exp(q) * ratios).sum(1, dtype=np.float64), _LEAST)
        log_p = log_softmax(power * log_q_panel + towards, axis=1)
        likelihood = -len(log_p) * label_log_loss(log_p, panel.labels, panel.keep)
        minus_log_prior = others if power else math.log(2.0)
        of_labels.append(likelihood - minus_log_prior)
        of_reports.append(float(np.log(each).sum()))
    together = np.add(of_labels, of_reports)
    return float(logsumexp(together) - logsumexp(of_labels))
