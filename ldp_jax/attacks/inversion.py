"""Feature inversion.

Raw inputs from their embeddings, by a network that was trained on public ones.
"""

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ldp_jax.attacks._classifier import Perceptron, Rows, trained_answers
from ldp_jax.attacks._result import Reconstruction, rows_of
from ldp_jax.core import random, validate
from ldp_jax.core.long_sums import column_means
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.learning import metrics
from ldp_jax.learning.metrics import mean_interval
from ldp_jax.learning.training import Objective

# Squared error of reconstructed rows
_RECONSTRUCTION = Objective(
    inputs=lambda _, rows: rows.features,
    loss=lambda outputs, rows: ((outputs - rows.truth) ** 2).mean(-1),
    score=lambda outputs, rows: -((outputs - rows.truth) ** 2).mean(),
)

_PERCEPTRON = Perceptron(hidden=256, epochs=100, learning_rate=1e-3)


def inversion(
    key: PRNGKey,
    z: ArrayLike | tuple,
    x: ArrayLike | tuple,
    *,
    public_z: ArrayLike | tuple,
    public_x: ArrayLike | tuple,
    shape: tuple[int, int] | None = None,
    perceptron: Perceptron = _PERCEPTRON,
) -> Reconstruction:
    """Reconstruct records from embeddings, perturbed or not, by a perceptron trained on public pairs of both.

    The leak is the difference to :func:`public_mean`. Reconstructions are clipped to the range of
    public records.

    Args:
      key: a threefry key.
      z: float [n, k], the release of the records; as estimates, not as codes.
      x: float [n, d], the records themselves, for the verdict alone.
      public_z: float [m, k], at least 10, of public records made the same way.
      public_x: float [m, d].
      shape: height and width where records are images; for the SSIM.
      perceptron: the attacker; a tenth of the public records chooses the epoch.

    Reference: Dosovitskiy & Brox, Inverting visual representations with convolutional networks
    (CVPR 2016), with a perceptron; HeteroRR, section V and Figure 8.
    """
    validate.threefry(key)
    z, x, public_z, public_x = (
        rows_of(*named)
        for named in (("z", z), ("x", x), ("public_z", public_z), ("public_x", public_x))
    )
    if len(z) != len(x) or len(public_z) != len(public_x) or len(public_x) < 10:
        raise ValueError(
            f"z and x must be of as many records, and public_z and public_x of at least 10, got {len(z)} and "
            f"{len(x)}, {len(public_z)} and {len(public_x)}"
        )
    if z.shape[1] != public_z.shape[1]:
        raise ValueError(f"public_z must be as wide as z, got {public_z.shape[1]} for {z.shape[1]}")
    _check_records(x, public_x, shape)
    order_key, fit_key = random.split(key)
    order = np.asarray(random.permutation(order_key, len(public_z)))
    held = len(order) // 10
    centre = column_means(public_x)
    rows = Rows(public_z, public_x - centre)
    parts = (order[held:], order[:held])
    found = trained_answers(fit_key, perceptron, _RECONSTRUCTION, rows, parts, z, batch_size=64)
    return _judge("inversion", found + centre, x, public_x, shape)


def public_mean(
    x: ArrayLike | tuple, *, public_x: ArrayLike | tuple, shape: tuple[int, int] | None = None
) -> Reconstruction:
    """Take the mean public record for every record: the attacker without an embedding.

    See :func:`inversion`.

    >>> public_mean(np.array([[0.0, 1.0], [1.0, 0.0]]), public_x=np.full((3, 2), 0.5))
    public mean: MSE 0.2500 ± 0.0000; 2 records
    """
    x, public_x = rows_of("x", x), rows_of("public_x", public_x)
    _check_records(x, public_x, shape)
    return _judge(
        "public mean", np.broadcast_to(column_means(public_x), x.shape), x, public_x, shape
    )


def _check_records(x: np.ndarray, public_x: np.ndarray, shape: tuple[int, int] | None) -> None:
    if x.shape[1] != public_x.shape[1]:
        raise ValueError(f"public_x must be as wide as x, got {public_x.shape[1]} for {x.shape[1]}")
    if shape is not None and (len(shape) != 2 or shape[0] * shape[1] != x.shape[1]):
        raise ValueError(
            f"shape must be the height and width of records of {x.shape[1]} pixels, got {shape}"
        )
    if shape is not None and (min(shape) < 2 or public_x.min() == public_x.max()):
        raise ValueError(
            f"images must be at least 2 wide and high, and public ones vary, got shape {shape}"
        )


def _judge(
    name: str, found: np.ndarray, x: np.ndarray, public_x: np.ndarray, shape: tuple[int, int] | None
) -> Reconstruction:
    lower, upper = float(public_x.min()), float(public_x.max())
    found = np.clip(found, lower, upper).astype(np.float32)
    samples = {"mse": ((found - x).astype(np.float64) ** 2).mean(1)}
    if shape is not None:
        images: list[Array] = [jnp.asarray(rows).reshape(-1, *shape) for rows in (found, x)]
        similarity = metrics.ssim(*images, value_range=upper - lower, window=min(7, *shape))
        samples["ssim"] = np.asarray(similarity, np.float64)
    intervals = {metric: mean_interval(values) for metric, values in samples.items()}
    return Reconstruction(name, intervals, found, np.stack(list(samples.values()), 1))
