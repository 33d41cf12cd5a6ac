"""Labels of a panel that its members report instead of showing them."""

import dataclasses
from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from ldp_jax.accounting.guarantee import LABEL, WORDS, Guarantee
from ldp_jax.core.mechanism import check_epsilon
from ldp_jax.core.spaces import as_records
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.features import Discrete, GeneralizedRR

__all__ = ["check_members", "keep_of", "label_guarantee", "label_noise", "reported_labels"]


def __dir__() -> list[str]:
    return __all__


MOST_EPSILON = 20.0
"""Of a report: beyond, its table of whole numbers has none for the rarest place."""


def label_noise(label_epsilon: float, num_classes: int | None) -> Discrete:
    """Generalised randomised response of a class.

    Args:
      label_epsilon: in (0, 20].
      num_classes: C, public.

    Raises:
      ValueError: for an epsilon out of range, or where the number of classes would have to be read off the labels.
    """
    check_epsilon(label_epsilon, most=MOST_EPSILON)
    if num_classes is None:
        raise ValueError("num_classes must be given where labels are private: it must not depend on them")
    return GeneralizedRR(label_epsilon, num_classes)


def check_members(labels: Int[np.ndarray, " n"]) -> None:
    """Refuse a panel that cannot teach, whatever its labels are.

    Args:
      labels: -1 for who is not of the panel; of the others nothing is read.

    Raises:
      ValueError: for fewer than two members, or nobody outside the panel.
    """
    members = int((labels >= 0).sum())
    if not 2 <= members < len(labels):
        raise ValueError(
            f"panel must have at least two members and leave users whose class is asked for, got {members} of "
            f"{len(labels)} users"
        )


def reported_labels(key: PRNGKey, noise: Discrete, labels: Any) -> Int[np.ndarray, " panel"]:
    """What members report of their classes, each once; what is no class is clipped, and nothing is raised.

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
