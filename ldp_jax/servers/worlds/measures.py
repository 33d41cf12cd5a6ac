"""How far friends are alike, measured on public friendships."""

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from ldp_jax.core import validate
from ldp_jax.core.types import Array
from ldp_jax.servers.parts.groups import check_posterior


def homophily(pairs: ArrayLike, labels: Int[np.ndarray, " n"]) -> float:
    r"""How far friends are alike, beyond chance: :math:`(s - s_0) / (1 - s_0)`, at least 0.

    s is the share of pairs whose ends have one label, :math:`s_0` what random pairs of these ends
    would have. ``pairs`` [pairs, 2] are public friendships, such as those of labelled users who
    consent; those with an end that has no label (-1) are left out. A handful of pairs says little.
    ``ValueError`` for pairs of another shape (an ``edge_index`` is [2, pairs]: give its transpose),
    a node outside [0, n), a user paired with themselves, or no pair with two labels.

    >>> homophily([[0, 1], [2, 3], [1, 2]], np.array([0, 0, 1, 1]))
    0.333...
    """
    labels = validate.node_labels(labels)
    ends = labels[_labelled_pairs(pairs, labels)]
    return _beyond_chance(ends, np.zeros(len(ends), np.int64))


def echo(
    pairs: ArrayLike, labels: Int[np.ndarray, " n"], log_q: Float[np.ndarray | Array, "n classes"]
) -> float:
    """How far features take friends of one class for the same class, right or wrong, beyond chance.

    In [0, 1].

    That is :func:`homophily` of the likeliest classes by features, among pairs of one class.
    Arguments and errors are as of :func:`overlap`; 0 where no pair is of one class.

    >>> y, seen = (
    ...     np.zeros(4, int),
    ...     np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]]),
    ... )
    >>> echo([[0, 1], [2, 3]], y, seen), echo([[0, 2], [1, 3]], y, seen)
    (1.0, 0.0)
    """
    labels, ends = _known_pairs(pairs, labels, log_q)
    same = ends[labels[ends[:, 0]] == labels[ends[:, 1]]]
    return (
        _beyond_chance(np.asarray(log_q).argmax(1)[same], labels[same[:, 0]]) if len(same) else 0.0
    )


def _beyond_chance(ends: Int[np.ndarray, "pairs two"], part: Int[np.ndarray, " pairs"]) -> float:
    """How far both ends of pairs have one class, beyond random pairs of the ends of each part."""
    table = np.zeros((part.max() + 1, ends.max() + 1))
    np.add.at(table, (part[:, None], ends), 1.0)
    shares = table[part] / table[part].sum(1, keepdims=True)
    chance = float((shares**2).sum(1).mean())
    alike = float((ends[:, 0] == ends[:, 1]).mean())
    return max(0.0, (alike - chance) / (1.0 - chance)) if chance < 1.0 else 0.0


def overlap(
    pairs: ArrayLike, labels: Int[np.ndarray, " n"], log_q: Float[np.ndarray | Array, "n classes"]
) -> float:
    r"""How much of homophily features say already: :math:`b / (a + b)` in [0, 1].

    The class of a friend is regressed on the own class (a) and on the posterior q of it by features
    (b): friends of users whose features mislead may be of the class that features say. ``pairs``,
    ``labels`` and errors are as of :func:`homophily`; ``log_q`` [n, C] must not have seen the own
    label. ``ValueError`` where it is none.

    >>> y, seen = (
    ...     np.array([0, 0, 1, 1]),
    ...     np.log([[0.9, 0.1], [0.1, 0.9], [0.1, 0.9], [0.9, 0.1]]),
    ... )
    >>> overlap([[0, 1], [2, 3]], y, seen), overlap([[0, 3], [1, 2]], y, seen)
    (0.0, 1.0)
    """
    labels, ends = _known_pairs(pairs, labels, log_q)
    ends = np.concatenate([ends, ends[:, ::-1]])
    of_class = np.eye(np.shape(log_q)[1])[np.maximum(labels, 0)]
    mean = of_class[ends].mean((0, 1))
    own, friend = (of_class[side] - mean for side in ends.T)
    known = np.stack([own.ravel(), (np.exp(log_q)[ends[:, 0]] - mean).ravel()], 1)
    a, b = np.maximum(np.linalg.lstsq(known, friend.ravel(), rcond=None)[0], 0.0)
    return float(b / (a + b)) if a + b > 0 else 0.0


def _known_pairs(
    pairs: ArrayLike, labels: ArrayLike, log_q: np.ndarray | Array
) -> tuple[np.ndarray, np.ndarray]:
    labels = validate.node_labels(labels)
    ends = _labelled_pairs(pairs, labels)
    if np.ndim(log_q) != 2 or len(log_q) != len(labels) or np.max(labels) >= np.shape(log_q)[1]:
        raise ValueError(
            f"log_q must have a row for each of {len(labels)} users and a column for each class"
        )
    check_posterior(np.asarray(log_q))
    return labels, ends


def _labelled_pairs(
    pairs: ArrayLike, labels: Int[np.ndarray, " n"]
) -> Int[np.ndarray, "pairs two"]:
    pairs = validate.pairs(len(labels), "the nodes", pairs=pairs)
    if (pairs[:, 0] == pairs[:, 1]).any():
        raise ValueError("pairs must join two users, and one joins a user with themselves")
    pairs = pairs[(labels[pairs] >= 0).all(-1)]
    if not len(pairs):
        raise ValueError(
            "pairs must hold one of two labelled users, got none: state a guess of the homophily"
        )
    return pairs
