"""The perceptron of trained attackers: it tells rows of true targets from those of others."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from ldp_jax.core.types import Array
from ldp_jax.learning.models import Model, mlp
from ldp_jax.learning.training import Objective, Settings, adam


class Perceptron(NamedTuple):
    """An attacker's network, and how it is trained.

    Attributes:
      layers: at least 1, which is a linear model.
      hidden: the width of those before the last.
      epochs: of its training by Adam; held-out rows choose the one that is taken.
      learning_rate: of Adam.
    """

    layers: int = 3
    hidden: int = 64
    epochs: int = 50
    learning_rate: float = 0.01

    def model(self, outputs: int = 1) -> Model:
        """The network."""
        return mlp(self.layers, self.hidden, outputs)

    def settings(self, batch_size: int = 256) -> Settings:
        """The settings of its training."""
        return Settings(adam(self.learning_rate), self.epochs, batch_size=batch_size)


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
