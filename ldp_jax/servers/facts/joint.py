"""Facts from a public panel where records and lists are private."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ldp_jax.core import random
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import ArrayLike, PRNGKey
from ldp_jax.features import PersonalAlphabets
from ldp_jax.servers.parts.absent import Numbering
from ldp_jax.servers.parts.device_classifier import DeviceClassifier, device_classifier
from ldp_jax.servers.parts.panel import (
    folded_panel,
    reported_shares,
)
from ldp_jax.servers.parts.rows import Features, Rows, as_rows
from ldp_jax.servers.parts.self_training import FoldedLabels


class JointFacts(NamedTuple):
    """The server's facts before private users report; made by :func:`joint_facts`.

    Where the panel has nobody of some class, all but ``numbering`` is about the other classes,
    renumbered (:mod:`ldp_jax.servers.parts.absent`).

    Attributes:
      known: labels of the panel as the server has them.
      classifier: what devices run.
      prior: class shares of the panel.
      numbering: of all classes; None where the panel has every class.
    """

    known: FoldedLabels
    classifier: DeviceClassifier
    prior: Float[np.ndarray, " classes"]
    numbering: Numbering | None = None

    __repr__ = by_shapes

    @property
    def labels(self) -> Int[np.ndarray, " n"]:
        """Labels of the panel, -1 for everybody else."""
        return self.known.labels

    @property
    def log_prior(self) -> Float[np.ndarray, " classes"]:
        """Natural logarithms of the class shares; float32."""
        return np.log(self.prior).astype(np.float32)

    @property
    def absent(self) -> tuple[int, ...]:
        """The classes of which the panel has nobody; none are known of private labels."""
        return () if self.numbering is None else self.numbering.absent


@implicit_promotion()
def joint_facts(
    key: PRNGKey,
    rows: Features | Rows,
    labels: ArrayLike,
    *,
    num_classes: int,
    num_folds: int = 10,
    keep: float = 1.0,
) -> JointFacts:
    """Step 1: the lessons of the panel. Arguments are those of :func:`ldp_jax.servers.panel_facts`.

    ``ValueError`` as there, and for rows of another number than the panel's or fewer than two
    folds.

    >>> import jax
    >>> y = np.arange(40) % 2
    >>> labels = np.where(np.arange(40) < 30, y, -1).astype(np.int32)
    >>> x, key = np.eye(2)[y[:30]], jax.random.key(0)
    >>> facts = joint_facts(key, x, labels, num_classes=2, num_folds=2)
    >>> (
    ...     facts.prior.tolist(),
    ...     bool((facts.classifier.panel_scores.argmax(1) == y[:30]).all()),
    ... )
    ([0.5, 0.5], True)
    """
    known, members = folded_panel(key, labels, num_classes, num_folds, keep)
    mine = Numbering.of(known.labels, num_classes)
    if keep == 1.0 and mine.absent:
        taught = mine.renumbered(known.labels)
        found = joint_facts(
            random.again(key), rows, taught, num_classes=len(mine.taught), num_folds=num_folds
        )
        return found._replace(numbering=mine)
    shares = reported_shares(members.labels, num_classes, keep)
    return JointFacts(known, device_classifier(as_rows(rows), members), shares)


def record_alphabets(facts: JointFacts, epsilon: float) -> PersonalAlphabets:
    """Everybody's: the likeliest classes of the panel."""
    return PersonalAlphabets.of(epsilon, np.tile(facts.prior, (len(facts.labels), 1)))
