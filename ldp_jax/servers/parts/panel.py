r"""A panel: records that are public, and labels that are public too or that each member reports.

Everything that learns from a label takes the probability ``keep`` that it is the true one. Below 1
a posterior goes through the channel before it is compared with a report (*forward correction*): in
expectation over the reports a loss is then least at the true posterior. Where a label is averaged,
its posterior takes its place.
Reference: Patrini et al., Making deep neural networks robust to label noise (CVPR 2017), Theorem 2.
"""

from typing import NamedTuple

import jax  # noqa: F401 - the example below
import numpy as np
from jaxtyping import Bool, Float, Int, Integer
from numpy.typing import ArrayLike

from ldp_jax.core import validate
from ldp_jax.core.label_channel import other_share
from ldp_jax.core.mechanism import check_epsilon
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.spaces import as_records
from ldp_jax.core.types import PRNGKey
from ldp_jax.features import Discrete, GeneralizedRR
from ldp_jax.servers.parts.groups import check_teachers
from ldp_jax.servers.parts.rows import Features, Rows, feature_rows
from ldp_jax.servers.parts.self_training import FoldedLabels, folds, typical_folds

MOST_EPSILON = 20.0
"""Of a report: beyond, its table of whole numbers has none for the rarest place."""


def label_noise(label_epsilon: float, num_classes: int | None) -> Discrete:
    """Generalised randomised response of a class, of an epsilon in (0, 20].

    ``ValueError`` for another epsilon, or a number of classes that would have to be read off the
    labels.
    """
    check_epsilon(label_epsilon, most=MOST_EPSILON)
    if num_classes is None:
        raise ValueError(
            "num_classes must be given where labels are private: it must not depend on them"
        )
    return GeneralizedRR(label_epsilon, num_classes)


def keep_of(noise: Discrete) -> float:
    """The probability that a report is the true class, by the integers that it is drawn from."""
    return float(noise.table().masses[0, 0]) / 2.0**32


def reported_shares(
    labels: Int[np.ndarray, " some"], num_classes: int, keep: float
) -> Float[np.ndarray, " classes"]:
    """The share of each class among those who report.

    The channel undone, at least half a user, of sum 1.

    >>> reported_shares(
    ...     np.array([0, 0, 0, 1]), 2, 0.75
    ... ).tolist()  # all but half a user of class 0
    [0.888..., 0.111...]
    """
    users = max(len(labels), 1)
    reported = np.bincount(labels, minlength=num_classes) / users
    other = other_share(keep, num_classes)
    share = np.maximum((reported - other) / (keep - other), 0.5 / users)
    return share / share.sum()


def soft_labels(
    labels: Int[np.ndarray, " some"], num_classes: int, keep: float
) -> Float[np.ndarray, "some classes"]:
    """The posterior of each class given its report, under :func:`reported_shares`.

    A row of 0 and 1 for ``keep`` 1.

    >>> soft_labels(np.array([1, 0]), 2, 1.0).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    law = np.where(np.eye(num_classes)[labels] > 0, keep, other_share(keep, num_classes))
    made = reported_shares(labels, num_classes, keep) * law
    return made / made.sum(1, keepdims=True)


class PanelArguments(NamedTuple):
    """A panel, its labels and everybody's records; made by :func:`panel_arguments`.

    Attributes:
      labels: int32 [n], -1 outside the panel. Where labels are private, 0 inside it: none is looked
        at.
      members: int [panel], the nodes of the panel in order.
      noise: what a member reports a label by; None where labels are public.
    """

    labels: Int[np.ndarray, " n"]
    num_classes: int
    members: Int[np.ndarray, " panel"]
    rows: Rows
    noise: Discrete | None

    __repr__ = by_shapes


def by_node(
    members: Bool[np.ndarray, " n"],
    panel: Int[np.ndarray, " panel"],
    labels: Int[np.ndarray, " panel"],
) -> Integer[np.ndarray, " n"] | Float[np.ndarray, " n"]:
    """Private labels by node, 0 outside the panel, as a mechanism takes them: of any type."""
    told = np.asarray(as_records(labels))
    found = np.zeros(members.shape, told.dtype)
    found[np.asarray(panel)] = told
    return found


def panel_arguments(
    n: int,
    features: Features | Rows,
    panel: ArrayLike,
    labels: ArrayLike,
    *,
    num_classes: int | None,
    label_epsilon: float | None,
) -> PanelArguments:
    """Check what is given of a panel among n users.

    A ``ValueError`` says nothing about private labels.
    """
    noise = None if label_epsilon is None else label_noise(label_epsilon, num_classes)
    shown = validate.labels(labels) if noise is None else np.zeros(np.shape(labels), np.int32)
    everybody = _labels(panel, shown, n)
    members = np.flatnonzero(everybody >= 0)
    counted = num_classes is None
    if num_classes is None:
        num_classes = int(everybody.max(initial=-1)) + 1
    if noise is None:
        check_teachers(everybody, num_classes, counted=counted)
    elif not 2 <= len(members) < n:
        raise ValueError(
            "panel must have at least two members and leave others, "
            f"got {len(members)} of {n} users"
        )
    rows = features if isinstance(features, Rows) else feature_rows(features, public=members)
    if rows.shape[0] != n or not rows.shape[1]:
        raise ValueError(
            f"features must have a row for each of {n} users, and columns, got shape {rows.shape}"
        )
    return PanelArguments(everybody, num_classes, members, rows, noise)


def folded_panel(
    key: PRNGKey, labels: ArrayLike, num_classes: int, num_folds: int, keep: float
) -> tuple[FoldedLabels, FoldedLabels]:
    """Labels and folds of a panel among all n users, and among its members in order.

    At most ``num_folds`` folds, of which each holds a label of every typical class
    (:func:`~ldp_jax.servers.parts.self_training.typical_folds`). Checked first.
    """
    validate.integer_in(2, num_folds=num_folds)
    validate.in_range(1.0 / num_classes, 1.0, open_lower=True, keep=keep)
    labels = validate.node_labels(labels)
    if keep == 1.0:
        check_teachers(labels, num_classes)
    labels = labels.astype(np.int32)
    num_folds = typical_folds(labels, num_folds)
    known = FoldedLabels(labels, num_classes, folds(key, labels, num_folds), num_folds, keep)
    return known, known.alone


def _labels(panel: ArrayLike, labels: ArrayLike, n: int) -> Int[np.ndarray, " n"]:
    nodes = validate.complete(panel=panel)
    given = np.asarray(labels)
    places = "places of nodes", "pandas.Index(names).get_indexer(panel) finds those of names"
    classes = "numbers of classes", "datasets.read_records numbers names"
    for name, array, (what, of_names) in (("panel", nodes, places), ("labels", given, classes)):
        if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
            of_flags = "np.flatnonzero(panel) and labels.astype(int) make numbers of flags"
            hint = of_flags if array.dtype == bool else of_names
            got = f"got {array.dtype} of shape {array.shape}: {hint}"
            raise ValueError(f"{name} must be integers of shape [panel], {what}, {got}")
    if len(nodes) != len(given):
        raise ValueError(f"labels must be of the panel's {len(nodes)} members, got {len(given)}")
    if len(nodes) and (nodes.min() < 0 or nodes.max() >= n):
        raise ValueError(f"panel must name nodes in [0, {n}), got {nodes.min()} to {nodes.max()}")
    if len(np.unique(nodes)) != len(nodes):
        raise ValueError("panel must name each of its members once")
    if len(given) and not 0 <= given.min() <= given.max() < 2**31:  # they are stored in 32 bits
        found = f"{given.min()} to {given.max()}"
        raise ValueError(
            f"labels of the panel must be in [0, 2^31), got {found}: leave unknown ones out"
        )
    found = np.full(n, -1, np.int32)
    found[nodes] = given
    return found
