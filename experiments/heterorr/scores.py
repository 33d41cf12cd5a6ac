"""The public split: an embedding of records, and FeatureRR's shares of the budget (Figure 3)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax import features
from ldp_jax.learning import importance, models, training
from ldp_jax.learning.importance import Public

DRAWS = 128
_HELD = 10  # one of so many public users chooses the epoch of the public model


class Embedding(NamedTuple):
    """Records in the coordinates that public users' records span, and what is known of each coordinate.

    z float32 [n, d] is clipped to [-1, 1], by bounds of the public users, who are ``public`` bool [n]. Of each
    coordinate, float64 [d]: importance alpha (eq. 6), sensitivity beta (eq. 5), share theta of the budget (eq. 7).
    """

    z: np.ndarray
    public: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray
    theta: np.ndarray


def embed(
    key: Any, x: np.ndarray, y: np.ndarray, public: np.ndarray, *,
    width: int, sensitive: Sequence[int], gamma: float,
) -> Embedding:  # fmt: skip
    """Principal components of the public users' records, scaled to [-1, 1] by the public users' largest values.

    Nothing is fitted to a private record or label. Importance is expected gradients of a perceptron that was
    trained on the public users, sensitivity the change of the embedding where their sensitive columns are masked;
    without ``sensitive`` columns of x [n, columns] all coordinates are equally sensitive. ``width`` is at most the
    number of public users and of columns. Of y, int [n] classes or [n, k] labels, those of public users are read.
    """
    known = x[public].astype(np.float64)
    centre = known.mean(0)
    _, _, axes = np.linalg.svd(known - centre, full_matrices=False)
    axes = axes[:width].T
    scale = np.abs((known - centre) @ axes).max(0)
    axes = axes / np.where(scale > 0, scale, 1.0)

    def project(rows: Any) -> Any:
        return (np.asarray(rows, np.float64) - centre) @ axes

    z = np.clip(project(x), -1, 1).astype(np.float32)
    source = f"{len(known)} public users"
    panel = Public(z[public], source)
    model_key, draw_key = jax.random.split(key)
    model = Public(_public_model(model_key, z[public], y[public]), f"a perceptron trained on {source}")
    alpha = np.asarray(importance.importance(draw_key, model, panel, panel, draws=DRAWS))
    beta = np.full(width, 1.0 / width)
    if sensitive:
        masked = known.copy()
        masked[:, list(sensitive)] = 0.0
        projection = Public(project, f"principal components of {source}")
        beta = np.asarray(importance.sensitivity(projection, Public(known, source), Public(masked, source)))
    return Embedding(z, public, alpha, beta, features.importance_weights(alpha, beta, gamma))


def _public_model(key: Any, z: np.ndarray, y: np.ndarray) -> Any:
    """A perceptron of the public users' classes or labels, as a function of rows; a part of them stops it."""
    labels = y.ndim == 2
    held = max(1, len(z) // _HELD)
    parts = (np.arange(len(z))[part] for part in (slice(held, None), slice(held)))
    train, validation = (training.Examples(part, y[part].astype(np.int32)) for part in parts)
    model = models.mlp(2, 32, y.shape[1] if labels else int(y.max()) + 1)
    fitted = training.fit(
        key, model, training.node_labels if labels else training.node_classification, jnp.asarray(z), train,
        validation, validation, training.Settings(training.adam(0.01), epochs=100, batch_size=len(z), patience=30),
    )  # fmt: skip

    def function(rows: Any) -> Any:
        outputs, _ = model.apply(fitted.variables, rows, key=None, train=False)
        return jax.nn.sigmoid(outputs) if labels else jax.nn.softmax(outputs)

    return function
