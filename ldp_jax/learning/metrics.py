"""Metrics of results, and their confidence intervals."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Shaped
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from ldp_jax.core import validate
from ldp_jax.core.types import AnyArray, Array

__all__ = [
    "ConfidenceInterval",
    "Fidelity",
    "accuracy",
    "auc",
    "embedding_error",
    "f1",
    "fidelity",
    "mean_interval",
    "micro_f1",
    "ssim",
]

__dir__ = lambda: __all__


def accuracy(
    scores: Float[AnyArray, "n classes"],
    labels: Int[AnyArray, " n"],
    mask: Shaped[AnyArray, " n"] | None = None,
) -> Float[Array, ""]:
    """The share of (masked) rows whose largest score is their label's; NaN of no row.

    A row that has a NaN is wrong.

    >>> float(accuracy(jnp.array([[2.0, 1.0], [0.0, 3.0]]), jnp.array([0, 0])))
    0.5
    """
    scores, labels, mask = _check(scores, labels, mask)
    right = (scores.argmax(-1) == labels) & ~jnp.isnan(scores).any(-1)
    right = right.astype(jnp.float32)
    if mask is None:
        return right.mean()
    weight = jnp.asarray(mask, jnp.float32)
    return (right * weight).sum() / weight.sum()


def f1(
    scores: Float[AnyArray, "n classes"],
    labels: Int[AnyArray, " n"],
    average: str = "macro",
) -> Array:
    """The F1 score of single-label predictions; NaN of no row.

    ``average`` is ``micro``, ``macro`` or ``weighted``.

    A row that has a NaN is predicted as no class.

    >>> scores = jnp.array([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]])
    >>> float(f1(scores, jnp.array([0, 1, 1]), "micro").round(4))
    0.6667000...
    """
    scores, labels, _ = _check(scores, labels)
    validate.one_of(("micro", "macro", "weighted"), average=average)
    classes = scores.shape[-1]
    predicted = jnp.where(jnp.isnan(scores).any(-1), classes, scores.argmax(-1))

    def count(places, one):
        # Whole numbers: a float32 that counts by ones ends at 2^24.
        whole = jnp.zeros(classes, int).at[places].add(one, mode="drop")
        return whole.astype(jnp.float32)

    hits = count(labels, predicted == labels)
    found = count(predicted, 1)
    wanted = count(labels, 1)
    if average == "micro":
        return 2 * hits.sum() / (found.sum() + wanted.sum())
    each = 2 * hits / jnp.maximum(found + wanted, 1.0)
    if average == "macro":
        present = (found + wanted) > 0
        return (each * present).sum() / present.sum()
    return (each * wanted).sum() / wanted.sum()


def _check(
    scores: ArrayLike, labels: ArrayLike, mask: AnyArray | None = None
) -> tuple[AnyArray, AnyArray, AnyArray | None]:
    """All three as arrays, scores of the host in their own precision.

    Refused is what NumPy would broadcast: one label a row, by its number; a mask of booleans, or of
    weights.
    """
    validate.aligned(scores=scores, labels=labels, mask=mask)
    scores = _own("scores", scores)
    if not isinstance(labels, jax.Array):
        labels = validate.complete(labels=labels)
    if mask is not None and not isinstance(mask, jax.Array):
        mask = validate.complete(mask=mask)
    rows = scores.shape[:-1]
    if labels.shape != rows:
        hint = ""
        if labels.shape == scores.shape:
            hint = ": of predicted classes it is (predicted == labels).mean()"
        raise ValueError(f"labels must be classes of shape {rows}, got {labels.shape}{hint}")
    if mask is not None:
        kind = jnp.result_type(mask)
        validate.require(
            mask.shape == rows and not jnp.issubdtype(kind, jnp.integer),
            f"mask must be bool, or float weights, of shape {rows}, got {kind} of shape "
            f"{mask.shape}",
        )
        if validate.concrete(mask):
            validate.require((np.asarray(mask) >= 0).all(), "mask must be weights >= 0")
    validate.known(labels, mask, scores.shape[-1])
    return scores, labels, mask


def _own(name: str, values: ArrayLike) -> AnyArray:
    """Real numbers: of the device as they are, of the host in 64 bits as they were given."""
    if isinstance(values, jax.Array):
        return values
    given = np.asarray(validate.unmasked(values, name))
    # Float64 may not hold whole numbers.
    if given.dtype.kind in "iu" or given.dtype == np.float32:
        return given
    return validate.numbers(**{name: given})


def auc(positive: Float[ArrayLike, " p"], negative: Float[ArrayLike, " q"]) -> Float[Array, ""]:
    """The area under the ROC curve: P(positive > negative) + P(positive = negative) / 2.

    NaN where a score is, or where there is none of a kind. Scores of the host are compared in
    float64, or as whole numbers where both are.

    >>> float(auc(jnp.array([3.0, 1.0]), jnp.array([1.0, 0.0])))
    0.875
    """
    positive = _own("positive", positive)
    negative = _own("negative", negative)
    both = positive, negative
    validate.require(
        positive.ndim == negative.ndim == 1,
        f"scores must have one axis, got shapes {positive.shape} and {negative.shape}",
    )
    on_device = all(isinstance(scores, jax.Array) for scores in both)
    if not on_device and all(map(validate.concrete, both)):
        if positive.dtype.kind != negative.dtype.kind:
            positive = validate.numbers(positive=positive)
            negative = validate.numbers(negative=negative)
        if not all(len(scores) and not np.isnan(scores).any() for scores in (positive, negative)):
            return jnp.float32(math.nan)
        ordered = np.sort(negative)
        below = np.searchsorted(ordered, positive, side="left").mean(dtype=np.float64)
        not_above = np.searchsorted(ordered, positive, side="right").mean(dtype=np.float64)
        return jnp.asarray((below + not_above) / (2 * len(negative)), jnp.float32)

    ordered = jnp.sort(negative)
    below = jnp.searchsorted(ordered, positive, side="left").astype(jnp.float32)
    not_above = jnp.searchsorted(ordered, positive, side="right").astype(jnp.float32)
    area = ((below + not_above) / (2.0 * negative.shape[0])).mean()
    broken = jnp.isnan(positive).any() | jnp.isnan(negative).any()
    return jnp.where(broken, jnp.nan, area)


def micro_f1(
    scores: Float[AnyArray, "n labels"], labels: Shaped[AnyArray, "n labels"]
) -> Float[Array, ""]:
    """The F1 score of all rows' labels together, predicted by scores above 0; 0 without any label.

    A NaN predicts no label.

    >>> float(
    ...     micro_f1(
    ...         jnp.array([[2.0, -1.0], [0.5, 3.0]]), jnp.array([[1, 1], [0, 1]])
    ...     )
    ... )
    0.6666...
    """
    scores = _own("scores", scores)
    if not isinstance(labels, jax.Array):
        labels = validate.complete(labels=labels)
    _alike(scores, labels=labels)
    validate.known(labels)
    if validate.concrete(labels):
        validate.require(np.isin(labels, (0, 1)).all(), "labels must be 0 or 1 in each column")
    predicted = jnp.asarray(scores > 0)
    true = jnp.asarray(labels > 0)
    return 2 * (predicted & true).sum() / jnp.maximum(predicted.sum() + true.sum(), 1)


def _alike(one: AnyArray, **other: AnyArray) -> None:
    """Refuse arrays of two shapes, which would be broadcast."""
    for name, given in other.items():
        validate.require(
            np.shape(given) == np.shape(one),
            f"{name} must have shape {np.shape(one)}, got {np.shape(given)}",
        )


def embedding_error(z: Float[Array, "n d"], reference: Float[Array, "n d"]) -> Float[Array, ""]:
    """The relative error of an embedding in the Frobenius norm."""
    _alike(z, reference=reference)
    return jnp.linalg.norm(z - reference) / jnp.linalg.norm(reference)


class Fidelity(NamedTuple):
    """How well an embedding shows another one, less the means of columns (:func:`fidelity`)."""

    correlation: Float[Array, ""]
    relative_error: Float[Array, ""]


def fidelity(z: Float[Array, "n d"], reference: Float[Array, "n d"]) -> Fidelity:
    """Correlate an embedding with the true one; give the error after the best scaling, too.

    A mechanism that shrinks all reports alike loses nothing by it, nor does a network trained on
    them.

    >>> found = fidelity(
    ...     jnp.array([[1.0], [2.0], [3.0]]), jnp.array([[5.0], [9.0], [13.0]])
    ... )
    >>> round(float(found.correlation), 4), round(float(found.relative_error), 2)
    (1.0, 0.0)
    """
    _alike(z, reference=reference)
    a = z - z.mean(0)
    b = reference - reference.mean(0)
    sizes = jnp.linalg.norm(a) * jnp.linalg.norm(b)
    # The product of nothing is 0, and NaN stays NaN.
    cosine = (a * b).sum() / jnp.where(sizes == 0, 1.0, sizes)
    correlation = jnp.clip(cosine, -1.0, 1.0)
    return Fidelity(correlation, jnp.sqrt(1.0 - correlation**2))


def ssim(
    images: Float[Array, "n h w"],
    others: Float[Array, "n h w"],
    *,
    value_range: float = 1.0,
    window: int = 7,
) -> Float[Array, " n"]:
    """The structural similarity of each image to another, from -1 to 1.

    The mean over all square windows within it.

    ``value_range`` is the largest possible value of a pixel less the smallest; a window fits into
    the image.
    Reference: Wang et al., Image quality assessment (IEEE TIP 2004), eq. 13, with a flat window.

    >>> float(ssim(jnp.eye(8)[None], jnp.eye(8)[None])[0].round(3))
    1.0
    """
    validate.integer_in(2, min(images.shape[1:]), window=window)
    validate.positive(value_range=value_range)
    _alike(images, others=others)
    count = window**2

    def mean(values):
        size = (1, window, window)
        total = jax.lax.reduce_window(values, 0.0, jax.lax.add, size, (1, 1, 1), "VALID")
        return total / count

    def covariance(first, second):
        return (mean(first * second) - mean(first) * mean(second)) * count / (count - 1)

    one = mean(images)
    other = mean(others)
    # Float32 has no digits left for the spread of pixels that are far from 0.
    images = images - images.mean((1, 2), keepdims=True)
    others = others - others.mean((1, 2), keepdims=True)
    spread_one = covariance(images, images)
    spread_other = covariance(others, others)
    together = covariance(images, others)

    c1 = (0.01 * value_range) ** 2
    c2 = (0.03 * value_range) ** 2
    luminance = (2 * one * other + c1) / (one**2 + other**2 + c1)
    similarity = luminance * (2 * together + c2) / (spread_one + spread_other + c2)
    return similarity.mean((1, 2))


class ConfidenceInterval(NamedTuple):
    """The interval mean +- half_width of n values; NaN for a single one.

    It prints with two figures of the half-width of a share, else with one digit after the point.
    """

    mean: float
    half_width: float
    n: int

    def __str__(self) -> str:
        digits = 1  # as of per cent
        if abs(self.mean) <= 1 and 1e-9 < self.half_width < 1:
            digits = 1 - math.floor(math.log10(self.half_width))
        elif abs(self.mean) <= 1 and self.n == 1:
            digits = 3
        shown = f"{self.mean:.{digits}f}"
        if self.n > 1:
            shown += f" ± {self.half_width:.{digits}f}"
        return shown


def mean_interval(values: Iterable[float] | Array, confidence: float = 0.95) -> ConfidenceInterval:
    """The mean of independent runs and Student's interval around it, in float64.

    >>> mean_interval([1.0, 2.0, 3.0])
    ConfidenceInterval(mean=2.0, half_width=2.48..., n=3)
    """
    data = validate.numbers(values=values)
    validate.number(0.0, 1.0, open_lower=True, open_upper=True, confidence=confidence)
    validate.require(
        data.ndim == 1, f"values must be one a run, with one axis, got shape {data.shape}"
    )
    n = len(data)
    validate.require(n, "values must not be empty")
    if n == 1:
        return ConfidenceInterval(float(data[0]), float("nan"), 1)
    quantile = float(stdtrit(n - 1, 0.5 + confidence / 2))
    half_width = quantile * float(data.std(ddof=1)) / n**0.5
    return ConfidenceInterval(float(data.mean()), half_width, n)
