"""The perceptron of trained attackers, and what it answers."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ldp_jax.core.types import AnyArray, Array, PRNGKey
from ldp_jax.learning.models import Model, mlp
from ldp_jax.learning.training import Objective, Settings, adam, fit


class Perceptron(NamedTuple):
    """An attacker's network: ``layers`` (1 is a linear model) of width ``hidden``.

    Adam trains it, and held-out rows choose the one of ``epochs`` that is taken.
    """

    layers: int = 3
    hidden: int = 64
    epochs: int = 50
    learning_rate: float = 0.01

    def model(self, outputs: int = 1) -> Model:
        return mlp(self.layers, self.hidden, outputs)

    def settings(self, batch_size: int = 256) -> Settings:
        return Settings(adam(self.learning_rate), self.epochs, batch_size=batch_size)


class Rows(NamedTuple):
    """Rows of known truth: 0 or 1, or numbers to reconstruct."""

    features: Float[AnyArray, "*runs n k"]
    truth: Float[AnyArray, "*runs n c"]


def _cross_entropy(outputs: Array, rows: Rows) -> Array:
    return jax.nn.softplus(jnp.where(rows.truth > 0, -outputs, outputs))[:, 0]


CLASSIFICATION = Objective(
    inputs=lambda _, rows: rows.features,
    loss=_cross_entropy,
    score=lambda outputs, rows: -_cross_entropy(outputs, rows).mean(),
)
"""Binary cross entropy on rows, which chooses the epoch too."""


def standardised(
    rows: Rows, train: np.ndarray, validation: np.ndarray
) -> tuple[Callable[[np.ndarray], Array], Rows, Rows]:
    """Two parts of some rows, and the map of features that has mean 0 and deviation 1 over all."""
    mean = rows.features.mean(-2, keepdims=True)
    spread = rows.features.std(-2, keepdims=True) + 1e-6
    scaled = lambda features: jnp.asarray((features - mean) / spread, jnp.float32)
    taken, kept = (
        Rows(scaled(rows.features[..., part, :]), jnp.asarray(rows.truth[..., part, :]))
        for part in (train, validation)
    )
    return scaled, taken, kept


def trained_answers(
    key: PRNGKey,
    perceptron: Perceptron,
    objective: Objective,
    rows: Rows,
    parts: tuple[Int[np.ndarray, " a"], Int[np.ndarray, " b"]],
    asked: Float[np.ndarray, "p k"],
    batch_size: int = 256,
) -> Float[np.ndarray, "p c"]:
    """Outputs for the features ``asked``, of a network that is trained on some rows.

    It is trained on the first of two ``parts`` of the rows, and the second chooses the epoch.
    Features are standardised over all rows.
    """
    scaled, train, validation = standardised(rows, *parts)
    model = perceptron.model(rows.truth.shape[1])
    fitted = fit(
        key, model, objective, (), train, validation, validation, perceptron.settings(batch_size)
    )
    return np.asarray(model.apply(fitted.variables, scaled(asked), key=None, train=False)[0])
