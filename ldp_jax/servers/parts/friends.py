r"""Evidence about a class from friends, and from one report of record and list together.

A friend whose class has the public distribution b counts :math:`\log \sum_c H(y, c) b(c)` for class
y, less that of the class shares pi. :math:`H(y, c) = h [y = c] + (1 - h) \pi(c)`; h is the
homophily, as it is stated. Reports of members of the panel, whose labels are known, say how often a
device takes class y for c.
"""

import numpy as np
from jaxtyping import Float, Int

HOMOPHILY = 0.6
"""The share of friends of one's own class, beyond chance, where nobody states it."""

_COUNTS = 2.0  # members of the panel that the confusion of records alone stands for, class by class

_STEPS = 60  # of EM


def evidence(
    law: Float[np.ndarray, "n classes"], confusion: Float[np.ndarray, "c c"]
) -> Float[np.ndarray, "n classes"]:
    """log P(report i | class y), from P(report i | class sent) and how often y is taken for each.

    Float32.
    """
    return np.log(np.maximum(law @ confusion.T, 1e-30)).astype(np.float32)


def friend_evidence(
    posterior: Float[np.ndarray, "some classes"],
    prior: Float[np.ndarray, " classes"],
    homophily: float,
) -> Float[np.ndarray, "some classes"]:
    """The evidence of a friend of each public class distribution about one's own class.

    0 where nobody knows.

    >>> even = np.array([0.5, 0.5])
    >>> friend_evidence(np.array([[1.0, 0.0], [0.5, 0.5]]), even, 0.6).round(
    ...     3
    ... ).tolist()
    [[0.47, -0.916], [0.0, 0.0]]
    """
    mixing = homophily * np.eye(len(prior)) + (1.0 - homophily) * prior
    return np.log(np.maximum(posterior @ mixing.T, 1e-12)) - np.log(
        np.maximum(prior @ mixing.T, 1e-12)
    )


def reported_confusion(
    law: Float[np.ndarray, "some classes"],
    labels: Int[np.ndarray, " some"],
    start: Float[np.ndarray, "c c"],
) -> Float[np.ndarray, "c c"]:
    """How often devices of class y (rows) send c, from noisy reports of users whose class is known.

    By EM.

    ``law`` is P(report i | class sent), ``start`` what is thought before, as strong as two users a
    class.

    >>> law, labels = (
    ...     np.tile([[0.9, 0.1], [0.1, 0.9]], (40, 1)),
    ...     np.tile([0, 1], 40),
    ... )
    >>> reported_confusion(law, labels, np.full((2, 2), 0.5)).round(2).tolist()
    [[0.97, 0.03], [0.03, 0.97]]
    """
    found = start
    total = _COUNTS + np.bincount(labels, minlength=len(start))
    for _ in range(_STEPS):
        each = found[labels] * law
        counts = _COUNTS * start
        np.add.at(counts, labels, each / np.maximum(each.sum(1, keepdims=True), 1e-300))
        found = counts / total[:, None]
    return found
