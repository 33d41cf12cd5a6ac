"""Public groups of users that neighbours are counted by, and the ways to merge them."""

import numpy as np
from jaxtyping import Float, Int, Real

from ldp_jax.core import validate
from ldp_jax.core.types import AnyArray

TIERS = ("labelled", "confident", "rest")
"""The tiers of :func:`fine_groups`, in the order of their numbers."""

MERGES: dict[str, tuple[int, int, int]] = {
    "labelled | confident | rest": (0, 1, 2),
    "labelled | predicted": (0, 1, 1),
    "labelled": (0, -1, -1),
    "labelled + confident": (0, 0, -1),
    "labelled + predicted": (0, 0, 0),
    "labelled | confident": (0, 1, -1),
    "labelled + confident | rest": (0, 0, 1),
}
"""Ways to count: the block that each tier goes to, -1 for one that is not counted. "|" keeps tiers
apart, "+" counts two together by class; "predicted" is "confident + rest".
"""


def merge(name: str, num_classes: int) -> Int[np.ndarray, " fine"]:
    """One of :data:`MERGES` for C classes.

    The group of each fine group, int32 [3 C], -1 where it is not counted.

    ``ValueError`` for another name, or fewer than two classes.

    >>> merge("labelled | predicted", 2).tolist()
    [0, 1, 2, 3, 2, 3]
    >>> merge("labelled + confident", 2).tolist()
    [0, 1, 0, 1, -1, -1]
    """
    validate.one_of(tuple(MERGES), name=name)
    validate.integer_in(2, num_classes=num_classes)
    block = np.repeat(np.array(MERGES[name]), num_classes)
    of_class = np.tile(np.arange(num_classes), len(TIERS))
    column = np.where(block < 0, -1, block * num_classes + of_class)
    return column.astype(np.int32)


def check_labels(labels: Int[np.ndarray, " n"], num_classes: int) -> None:
    """Refuse labels that are no integers [n] in [-1, C), by a ValueError."""
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"labels must be integers of shape [n], got {labels.dtype} of shape {labels.shape}"
        )
    if len(labels) and (labels.min() < -1 or labels.max() >= num_classes):
        raise ValueError(
            f"labels must be in [0, {num_classes}) or -1, got {labels.min()} to {labels.max()}"
        )


def check_teachers(
    labels: Int[np.ndarray, " n"], num_classes: int, *, counted: bool = False
) -> None:
    """Refuse labels that cannot teach, by a ``ValueError``.

    They are -1 for users whose class is asked for.

    They must be integers in [-1, C), of two classes at least, and leave somebody without a label.
    Where C was ``counted`` from the labels, they must be of each class: a gap may be a wrong
    number.
    """
    check_labels(labels, num_classes)
    present = np.bincount(labels[labels >= 0], minlength=num_classes)
    taught = (present > 0).sum()
    if taught < 2:
        raise ValueError(f"labels must name at least two classes, got {taught}")
    if counted and not present.all():
        raise ValueError(
            f"labels must be of all classes, 0 to {num_classes - 1}, "
            f"got none of class {present.argmin()}: give "
            f"num_classes={num_classes} if it exists, else number those that there are from 0"
        )
    if not (labels < 0).any():
        raise ValueError(
            "labels must leave users whose class is asked for, got a class for everybody"
        )


def check_posterior(log_q: Float[np.ndarray, "n classes"]) -> None:
    """Refuse what is no logarithms of probabilities [n, C], -inf for 0, by a ValueError."""
    with np.errstate(over="ignore"):
        if log_q.ndim != 2 or not np.allclose(np.exp(log_q).sum(1), 1.0, atol=1e-3):
            raise ValueError(
                "log_q must be logarithms of probabilities [n, C], which sum to 1 for each user"
            )


def fine_groups(
    log_q: Float[AnyArray, "n classes"], labels: Int[AnyArray, " n"]
) -> Int[np.ndarray, " n"]:
    """Step 2 of piloted counts: tier times class; int32 [n] in [0, 3 C).

    The class is the label where there is one (-1 for none), else the likeliest under the public
    posterior q. The tier is "labelled"; "confident" where max q is above its median over the
    unlabelled; else "rest".

    >>> q = np.log([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.7, 0.3]])
    >>> fine_groups(q, np.array([1, -1, -1, -1])).tolist()
    [1, 3, 5, 4]
    """
    log_q = np.asarray(log_q)
    labels = np.asarray(labels)
    height = log_q.max(-1)
    others = labels < 0
    median = np.inf
    if others.any():  # the lower one, which is a height itself: ties are on one side
        median = np.sort(height[others])[(others.sum() - 1) // 2]
    unlabelled_tier = np.where(height > median, 1, 2)
    tier = np.where(others, unlabelled_tier, 0)
    of_class = np.where(others, log_q.argmax(-1), labels)
    return (tier * log_q.shape[1] + of_class).astype(np.int32)


def merged(
    counts: Real[AnyArray, "n fine"], column: Int[np.ndarray, " fine"], num_groups: int
) -> Real[np.ndarray, "n groups"]:
    """Counts by fine group, or their means, added up by the groups of a merge (:func:`merge`).

    On the host.
    """
    counts = np.asarray(counts)
    found = np.zeros((len(counts), num_groups), counts.dtype)
    for fine, group in enumerate(np.asarray(column).tolist()):
        if group >= 0:
            found[:, group] += counts[:, fine]
    return found


def class_shares(
    log_q: Float[AnyArray, "n classes"], labels: Int[AnyArray, " n"]
) -> Float[np.ndarray, "n classes"]:
    """The public distribution of each user's class: the label, else q; [n, C]. On the host."""
    log_q = np.asarray(log_q)
    labels = np.asarray(labels)
    known = np.arange(log_q.shape[1]) == labels[:, None]
    return np.where((labels >= 0)[:, None], known.astype(log_q.dtype), np.exp(log_q))
