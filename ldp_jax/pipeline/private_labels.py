r"""A panel whose labels are private: each member reports a class through generalised randomised response.

Everything that learns from a label takes the probability ``keep`` that it is the true one, 1 where labels are
public. Below 1 a posterior goes through the channel before it is compared with a report (*forward correction*), so
that in expectation over the reports a loss is least at the true posterior. Where a label is averaged, its posterior
under the class shares takes its place.

Reference: Patrini et al., Making deep neural networks robust to label noise (CVPR 2017), Theorem 2.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from ldp_jax.accounting.guarantee import LABEL, WORDS, Guarantee
from ldp_jax.core.label_channel import other_share, reported_evidence
from ldp_jax.core.mechanism import check_epsilon
from ldp_jax.core.spaces import as_records
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.features import Discrete, GeneralizedRR
from ldp_jax.pipeline.field import Observations, observations

MOST_EPSILON = 20.0
"""Of a report: beyond, its table of whole numbers has none for the rarest place."""


def label_noise(label_epsilon: float, num_classes: int | None) -> Discrete:
    """Generalised randomised response of a class.

    Raises:
      ValueError: for an epsilon outside (0, 20], or a number of classes that would have to be read off the labels.
    """
    check_epsilon(label_epsilon, most=MOST_EPSILON)
    if num_classes is None:
        raise ValueError("num_classes must be given where labels are private: it must not depend on them")
    return GeneralizedRR(label_epsilon, num_classes)


def reported_labels(key: PRNGKey, noise: Discrete, labels: Int[np.ndarray, " panel"]) -> Int[np.ndarray, " panel"]:
    """What members report of their classes, each once; an invalid class is clipped, and nothing is raised.

    >>> noise = label_noise(20.0, 3)
    >>> reported_labels(jax.random.key(0), noise, np.array([0, 2, 1, 2**32])).tolist(), round(keep_of(noise), 6)
    ([0, 2, 1, 2], 1.0)
    """
    return np.asarray(_reported(jax.random.split(key, len(labels)), noise, as_records(labels)), np.int32)


@jax.jit
def _reported(keys: Array, noise: Discrete, labels: Array) -> Array:
    return jax.vmap(noise.privatize)(keys, labels)


def keep_of(noise: Discrete) -> float:
    """The probability that a report is the true class, by the integers that it is drawn from."""
    return float(noise.table().masses[0, 0]) / 2.0**32


def label_guarantee(noise: Discrete) -> Guarantee:
    """What a reported label costs, per label."""
    return dataclasses.replace(noise.guarantee(), unit=LABEL, adjacency=WORDS[LABEL])


def reported_shares(
    labels: Int[np.ndarray, " some"], num_classes: int, keep: float
) -> Float[np.ndarray, " classes"]:
    """The share of each class among those who report: the channel undone, at least half a user, of sum 1.

    Args:
      labels: reports, in [0, C).
      num_classes: C.
      keep: the probability in (1 / C, 1] that a report is the true class.

    >>> reported_shares(np.array([0, 0, 0, 1]), 2, 0.75).tolist()  # all are of class 0, but for half a user
    [0.888..., 0.111...]
    """
    share = np.bincount(labels, minlength=num_classes) / max(len(labels), 1)
    other = other_share(keep, num_classes)
    share = np.maximum((share - other) / (keep - other), 0.5 / max(len(labels), 1))
    return share / share.sum()


def soft_labels(
    labels: Int[np.ndarray, " some"], num_classes: int, keep: float
) -> Float[np.ndarray, "some classes"]:
    """The posterior of each class given its report, under :func:`reported_shares`; a row of 0 and 1 for ``keep`` 1.

    >>> soft_labels(np.array([1, 0]), 2, 1.0).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    law = np.where(np.eye(num_classes)[labels] > 0, keep, other_share(keep, num_classes))
    made = reported_shares(labels, num_classes, keep) * law
    return made / made.sum(1, keepdims=True)


def label_observations(
    labels: Int[np.ndarray, " n"],
    prior: Float[Array, " classes"],
    log_likelihood: Float[Array, "n classes"],
    reported: Bool[Array | np.ndarray, " n"],
    keep: float,
) -> Observations:
    """:func:`~ldp_jax.pipeline.field.observations` of labels that are reports: unbiased, with a report's variance.

    Args:
      labels: -1 for none.
      prior: class shares.
      log_likelihood: of each record's report.
      reported: who reported of the record.
      keep: see :func:`reported_shares`.
    """
    seen = observations(labels, prior, log_likelihood, reported)
    if keep == 1.0:
        return seen
    known = np.asarray(labels) >= 0
    evidence = reported_evidence(labels, len(prior), keep)
    by_label = observations(np.full(len(labels), -1), prior, evidence, known)
    values = seen.values.at[:, 0].set(jnp.where(known[:, None], by_label.values[:, 1], 0.0))
    precision = seen.precision.at[:, 0].set(jnp.where(known, by_label.precision[:, 1], 0.0))
    return seen._replace(values=values, precision=precision)
