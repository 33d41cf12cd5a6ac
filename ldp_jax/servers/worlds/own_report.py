"""What one's own report adds to one's own decision, by the panel's model: nobody reports.

What a server gains beyond it comes from the reports of others
(:mod:`~ldp_jax.servers.parts.report_limit`).
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ldp_jax.core import random
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.servers.facts.panel import PanelFacts
from ldp_jax.servers.parts.report_limit import own_report, report_limit, weights
from ldp_jax.servers.parts.stack import combine, stack

SAMPLED = 100
"""Users, and records, of which gains are the mean."""


class OwnGain(NamedTuple):
    """What one's own report adds to one's own decision, by the panel's model, in points.

    ``limit`` is what the best report of the same epsilon would add, and ``error`` half of its 95 %
    interval over users.
    """

    points: float
    limit: float
    error: float


class ReportSample(NamedTuple):
    """Private users, and what they and records of the panel have in common.

    Attributes:
      users: which.
      joint: P(record, class), of :func:`weights`.
      log_f: what the classifier says of the records.
    """

    users: Int[np.ndarray, " users"]
    joint: Float[np.ndarray, "users records classes"]
    log_f: Float[np.ndarray, "records classes"]

    __repr__ = by_shapes

    @classmethod
    def of(
        cls, key: PRNGKey, facts: PanelFacts, users: int = SAMPLED, records: int = SAMPLED
    ) -> "ReportSample":
        """A sample; posteriors are as sure of themselves as labels that they have not seen are."""
        user_key, record_key = random.split(key)
        labels = facts.labels
        panel = facts.known.nodes
        private = np.flatnonzero(labels < 0)
        who = np.asarray(random.permutation(user_key, private))[:users]
        which = np.asarray(random.permutation(record_key, len(panel)))[:records]
        log_q = _calibrated(facts.structure.log_q, labels)[who]
        log_f = _calibrated(facts.classifier.panel_scores, labels[panel])[which]
        return cls(who, weights(log_q, log_f), log_f)

    def limit(self, epsilon: float) -> Float[np.ndarray, " users"]:
        """What the best report of this epsilon would add to each user's accuracy."""
        return report_limit(self.joint, epsilon) - self._public()

    def today(
        self, alphabets: Bool[np.ndarray, "n classes"], epsilon: float
    ) -> Float[np.ndarray, " users"]:
        """What the best class of the alphabets of all users adds."""
        found = own_report(self.joint, self.log_f, np.asarray(alphabets)[self.users], epsilon)
        return found - self._public()

    def gain(self, alphabets: Bool[np.ndarray, "n classes"], epsilon: float) -> OwnGain:
        """The means over users."""
        most = 100.0 * self.limit(epsilon)
        error = 1.96 * float(most.std()) / math.sqrt(len(most))
        points = 100.0 * float(self.today(alphabets, epsilon).mean())
        return OwnGain(points, float(most.mean()), error)

    def _public(self) -> Float[np.ndarray, " users"]:
        return self.joint.sum(1).max(1)


def _calibrated(
    log_p: Float[Array | np.ndarray, "n classes"], labels: Int[np.ndarray, " n"]
) -> np.ndarray:
    columns = np.asarray(log_p)[..., None]
    return combine(columns, stack(columns, labels, (1.0,), ridge=1.0))
