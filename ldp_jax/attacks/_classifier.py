"""The perceptron of trained attackers: it tells rows of true targets from those of others."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from ldp_jax.core.types import Array
from ldp_jax.learning.training import Objective, Settings, adam


class Rows(NamedTuple):
    """Rows to tell apart."""

    features: Float[Array | np.ndarray, "*runs n k"]
    truth: Float[Array | np.ndarray, "*runs n 1"]  # 0 or 1


def _cross_entropy(outputs: Array, rows: Rows) -> Array:
    return jax.nn.softplus(jax.numpy.where(rows.truth > 0, -outputs, outputs))[:, 0]


CLASSIFICATION = Objective(
    inputs=lambda _, rows: rows.features,
    loss=_cross_entropy,
    score=lambda outputs, rows: -_cross_entropy(outputs, rows).mean(),
)
"""Binary cross entropy on rows, which chooses the epoch too."""


def settings(epochs: int) -> Settings:
    """How attackers are trained."""
    return Settings(adam(0.01), epochs, batch_size=256)
