"""Feature inversion.

Raw inputs from their embeddings, by a network that was trained on public ones.
"""

import math

import jax.numpy as jnp
import numpy as np

from ldp_jax.attacks._classifier import Perceptron, Rows, trained_answers
from ldp_jax.attacks._result import Reconstruction, intervals, rows_of
from ldp_jax.core import random, validate
from ldp_jax.core.long_sums import column_means
from ldp_jax.core.pytree import digest
from ldp_jax.core.types import Numbers, PRNGKey
from ldp_jax.core.validate import require
from ldp_jax.learning import metrics
from ldp_jax.learning.training import Objective

_RECONSTRUCTION = Objective(
    inputs=lambda _, rows: rows.features,
    loss=lambda outputs, rows: ((outputs - rows.truth) ** 2).mean(-1),
    score=lambda outputs, rows: -((outputs - rows.truth) ** 2).mean(),
)

_PERCEPTRON = Perceptron(hidden=256, epochs=100, learning_rate=1e-3)


def inversion(
    key: PRNGKey,
    z: Numbers,
    x: Numbers,
    *,
    public_z: Numbers,
    public_x: Numbers,
    shape: tuple[int, int] | None = None,
    perceptron: Perceptron = _PERCEPTRON,
) -> Reconstruction:
    """Reconstruct records from embeddings by a perceptron that is trained on public pairs of both.

    Embeddings may be perturbed or not. The leak is the difference to :func:`public_mean`.
    Reconstructions are clipped to the range of public records.

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
    z, public_z = _pair("z", z, public_z)
    x, public_x = _pair("x", x, public_x)
    _check_images(public_x, shape)
    require(
        len(z) == len(x) and 10 <= len(public_z) == len(public_x),
        "z and x must be of as many records, and public_z and public_x of at least 10, "
        f"got {len(z)} and {len(x)}, {len(public_z)} and {len(public_x)}",
    )
    order_key, fit_key = random.split(key)
    order = np.asarray(random.permutation(order_key, len(public_z)))
    held = len(order) // 10
    centre = column_means(public_x)
    rows = Rows(public_z, public_x - centre)
    parts = (order[held:], order[:held])
    found = trained_answers(fit_key, perceptron, _RECONSTRUCTION, rows, parts, z, batch_size=64)
    return _judge("inversion", found + centre, x, public_x, shape)


def public_mean(
    x: Numbers, *, public_x: Numbers, shape: tuple[int, int] | None = None
) -> Reconstruction:
    """Take the mean public record for every record: the attacker without an embedding.

    See :func:`inversion`.

    >>> public_mean(
    ...     np.array([[0.0, 1.0], [1.0, 0.0]]), public_x=np.full((3, 2), 0.5)
    ... )
    public mean: MSE 0.2500 ± 0.0000; 2 records
    """
    x, public_x = _pair("x", x, public_x)
    _check_images(public_x, shape)
    found = np.broadcast_to(column_means(public_x), x.shape)
    return _judge("public mean", found, x, public_x, shape)


def _pair(name: str, rows: Numbers, public: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """Rows and public rows of the same width, checked."""
    own = rows_of(name, rows)
    known = rows_of(f"public_{name}", public)
    width = own.shape[1]
    got = known.shape[1]
    require(got == width, f"public_{name} must be as wide as {name}, got {got} for {width}")
    return own, known


def _check_images(public_x: np.ndarray, shape: tuple[int, int] | None) -> None:
    if shape is None:
        return
    pixels = public_x.shape[1]
    require(
        len(shape) == 2 and min(shape) >= 2 and math.prod(shape) == pixels,
        f"shape must be height and width, both at least 2, of {pixels} pixels, got {shape}",
    )
    require(np.ptp(public_x), "public_x must vary where records are images")


def _judge(
    name: str, found: np.ndarray, x: np.ndarray, public_x: np.ndarray, shape: tuple[int, int] | None
) -> Reconstruction:
    lower = float(public_x.min())
    upper = float(public_x.max())
    found = np.clip(found, lower, upper).astype(np.float32)
    names = ["mse"]
    samples = [((found - x).astype(np.float64) ** 2).mean(1)]
    if shape is not None:
        one, other = (jnp.asarray(rows).reshape(-1, *shape) for rows in (found, x))
        similarity = metrics.ssim(one, other, value_range=upper - lower, window=min(7, *shape))
        names.append("ssim")
        samples.append(np.asarray(similarity, np.float64))
    columns = np.stack(samples, 1)
    return Reconstruction(
        name,
        intervals(names, columns),
        columns,
        found,
        _about=f"; {len(found)} records",
        _of=digest(np.asarray(x, np.float32)),
    )
