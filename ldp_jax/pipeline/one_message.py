r"""One class of the record and the whole list together: one report a user, and no budget to split.

A device holds both. It adds what the server broadcasts of its friends to what its record says, and reports the
likeliest class once. So the report costs its epsilon whatever differs in the record and in the *whole* list; counts
of neighbours (:mod:`ldp_jax.pipeline.jointly`) protect one bit of a list at their epsilon, next to the record's.

1. Half of the users, drawn by public randomness, report with friends in the panel alone; then the other half with
   friends in the first half too, of whom the server has an opinion by then. The panel is in the first half: what
   is thought of others later depends on its labels.
2. A friend whose class has the public distribution b counts :math:`\log \sum_c H(y, c) b(c)` for class y, less that
   of the class shares pi. :math:`H(y, c) = h [y = c] + (1 - h) \pi(c)`; h is the homophily, as it is stated.
3. Members of the panel report too, by their lists and by out-of-fold scores of their records. Their labels are
   known, so that these reports say how often a device takes class y for c.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float, Int
from scipy.special import softmax

from ldp_jax.core import random
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import PRNGKey
from ldp_jax.features import PersonalAlphabets
from ldp_jax.pipeline.message import ScoredPanel, confusions

HOMOPHILY = 0.6
"""The share of friends of one's own class, beyond chance, where nobody states it."""

_COUNTS = 2.0  # members of the panel that the confusion of records alone stands for, class by class

_STEPS = 60  # of EM


class Devices(NamedTuple):
    """The data that devices hold; none of it leaves them but in a report.

    Attributes:
      scores: float32 [n, C], of the own record by the broadcast classifier; of the panel out of fold.
      owners: int [m], whose list an entry is of.
      friends: int [m], whom it names.
    """

    scores: Float[np.ndarray, "n classes"]
    owners: Int[np.ndarray, " m"]
    friends: Int[np.ndarray, " m"]

    __repr__ = by_shapes


def one_message(
    key: PRNGKey,
    devices: Devices,
    labels: Int[np.ndarray, " n"],
    prior: Float[np.ndarray, " classes"],
    alphabets: PersonalAlphabets,
    homophily: float,
) -> tuple[Float[np.ndarray, "n classes"], Bool[np.ndarray, " n"]]:
    """Ask everybody once, one half of the users after the other; this simulates all devices.

    ``labels`` are of the panel, -1 for everybody else, ``prior`` class shares; the epsilon of ``alphabets`` is the
    report's, and ``homophily`` is stated, in [0, 1). It gives log P(report i | class of the user), float32 [n, C],
    and who reported first, the panel among them.
    """
    half_key, *report_keys = random.split(key, 3)
    n, panel, scores = len(labels), np.flatnonzero(labels >= 0), devices.scores
    first = (np.asarray(random.permutation(half_key, n)) < n // 2) | (labels >= 0)
    ends = (devices.owners, devices.friends)
    neighbours = scipy.sparse.csr_array((np.ones(len(devices.owners)), ends), (n, n))

    def report(key: PRNGKey, friend: np.ndarray) -> np.ndarray:
        best = alphabets.best((scores + neighbours @ friend).astype(np.float32))
        return np.asarray(alphabets.privatize(key, best))

    def law_of(sent: np.ndarray) -> np.ndarray:
        return np.where(alphabets.mask, np.exp(np.asarray(alphabets.log_likelihoods(sent), np.float64)), 0.0)

    friend = np.zeros((n, len(prior)))
    friend[panel] = friend_evidence(np.eye(len(prior)), prior, homophily)[labels[panel]]
    sent = report(report_keys[0], friend)  # only those of the first half are read
    law = law_of(sent)
    of_records = ScoredPanel(jnp.asarray(scores[panel]), labels[panel])
    tables, which = confusions(of_records, np.asarray(alphabets.mask), _COUNTS)
    confusion = reported_confusion(law[panel], labels[panel], np.asarray(tables, np.float64)[which[0]])
    known = first & (labels < 0)
    posterior = softmax(np.log(prior) + evidence(law, confusion)[known], axis=1)
    friend[known] = friend_evidence(posterior, prior, homophily)
    sent = np.where(first, sent, report(report_keys[1], friend))
    return evidence(law_of(sent), confusion), first


def evidence(
    law: Float[np.ndarray, "n classes"], confusion: Float[np.ndarray, "c c"]
) -> Float[np.ndarray, "n classes"]:
    """log P(report i | class y), from P(report i | class sent) and how often y is taken for each; float32."""
    return np.log(np.maximum(law @ confusion.T, 1e-30)).astype(np.float32)


def friend_evidence(
    posterior: Float[np.ndarray, "some classes"], prior: Float[np.ndarray, " classes"], homophily: float
) -> Float[np.ndarray, "some classes"]:
    """The evidence of a friend of each public class distribution about one's own class; 0 where nobody knows.

    >>> even = np.array([0.5, 0.5])
    >>> friend_evidence(np.array([[1.0, 0.0], [0.5, 0.5]]), even, 0.6).round(3).tolist()
    [[0.47, -0.916], [0.0, 0.0]]
    """
    mixing = homophily * np.eye(len(prior)) + (1.0 - homophily) * prior
    return np.log(np.maximum(posterior @ mixing.T, 1e-12)) - np.log(np.maximum(prior @ mixing.T, 1e-12))


def reported_confusion(
    law: Float[np.ndarray, "some classes"], labels: Int[np.ndarray, " some"], start: Float[np.ndarray, "c c"]
) -> Float[np.ndarray, "c c"]:
    """How often devices of class y (rows) send c, from noisy reports of users whose class is known; by EM.

    ``law`` is P(report i | class sent), ``start`` what is thought before, as strong as two users a class.

    >>> law, labels = np.tile([[0.9, 0.1], [0.1, 0.9]], (40, 1)), np.tile([0, 1], 40)
    >>> reported_confusion(law, labels, np.full((2, 2), 0.5)).round(2).tolist()
    [[0.97, 0.03], [0.03, 0.97]]
    """
    found, total = start, _COUNTS + np.bincount(labels, minlength=len(start))
    for _ in range(_STEPS):
        each = found[labels] * law
        counts = _COUNTS * start
        np.add.at(counts, labels, each / np.maximum(each.sum(1, keepdims=True), 1e-300))
        found = counts / total[:, None]
    return found
