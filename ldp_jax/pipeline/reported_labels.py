r"""A panel whose labels are private: each member reports her class through generalised randomised response.

Everything that learns from a label takes the probability ``keep`` that it is the true one, 1 where labels are
public. Below 1 a posterior goes through the channel of the reports before it is compared with one (*forward
correction*), so that in expectation over the reports a loss is least at the true posterior; where a label is not
compared but averaged, its posterior under the class shares takes its place.

Reference: Patrini et al., Making deep neural networks robust to label noise (CVPR 2017), Theorem 2.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from ldp_jax.core.types import Array
from ldp_jax.pipeline.field import Observations, observations
from ldp_jax.pipeline.self_training import reported_evidence

__all__ = ["label_observations", "reported_evidence", "reported_shares", "soft_labels"]


def __dir__() -> list[str]:
    return __all__


def reported_shares(
    labels: Int[np.ndarray, " some"], num_classes: int, keep: float
) -> Float[np.ndarray, " classes"]:
    """The share of each class among those who report: the channel undone, at least half a user, of sum 1.

    Args:
      labels: what was reported, in [0, C).
      num_classes: C.
      keep: the probability in (1 / C, 1] that a report is the true class.

    >>> reported_shares(np.array([0, 0, 0, 1]), 2, 0.75).tolist()  # all are of class 0, but for half a user
    [0.888..., 0.111...]
    """
    share = np.bincount(labels, minlength=num_classes) / max(len(labels), 1)
    other = (1.0 - keep) / (num_classes - 1)
    share = np.maximum((share - other) / (keep - other), 0.5 / max(len(labels), 1))
    return share / share.sum()


def soft_labels(
    labels: Int[np.ndarray, " some"], num_classes: int, keep: float
) -> Float[np.ndarray, "some classes"]:
    """The posterior of each class given its report, under :func:`reported_shares`; a row of 0 and 1 for ``keep`` 1.

    >>> soft_labels(np.array([1, 0]), 2, 1.0).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    hit = np.eye(num_classes)[labels]
    made = reported_shares(labels, num_classes, keep) * np.where(hit > 0, keep, (1.0 - keep) / (num_classes - 1))
    return made / made.sum(1, keepdims=True)


def label_observations(
    labels: Int[np.ndarray, " n"],
    prior: Float[Array, " classes"],
    log_likelihood: Float[Array, "n classes"],
    reported: Bool[Array | np.ndarray, " n"],
    keep: float,
) -> Observations:
    """The observations of labels that are reports: unbiased, with the variance of a report.

    Args:
      labels: -1 for none.
      prior: class shares.
      log_likelihood: of each record's report.
      reported: who reported of her record.
      keep: see :func:`reported_shares`.
    """
    seen = observations(labels, prior, log_likelihood, reported)
    if keep == 1.0:
        return seen
    known = np.asarray(labels) >= 0
    of_label = reported_evidence(labels, len(prior), keep)
    told = observations(np.full(len(labels), -1), prior, of_label, known)
    values = seen.values.at[:, 0].set(jnp.where(known[:, None], told.values[:, 1], 0.0))
    return seen._replace(
        values=values, precision=seen.precision.at[:, 0].set(jnp.where(known, told.precision[:, 1], 0.0))
    )
