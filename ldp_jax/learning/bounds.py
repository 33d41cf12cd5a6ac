r"""How far a private embedding can be from the true one: Theorems 2 to 4 of LDP-GE, with their constants.

The paper states its bounds in O(.) and proves them with row sums of Pi equal to 1, which holds for r = 0
alone. Here each bound is a number: it takes the actual rows of the PageRank matrix
(:func:`ldp_jax.graph.propagation.ppr_rows`) and holds for every r, every graph and every data set in [-1, 1]^d,
because variance and bias are taken at their worst over the records. The error of the propagation itself (its
``tol``) comes on top. Float64, on the host.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Array, Float, Shaped

from ldp_jax.core.validate import number
from ldp_jax.features import Duchi, GeneralPiecewise, Laplace, Sampled, SquareWave

__all__ = [
    "ErrorBound",
    "PageRankRows",
    "error_bound",
    "laplace_bound",
    "square_wave_bound",
    "unbiased_bound",
    "worst_case",
]


def __dir__() -> list[str]:
    return __all__


PageRankRows: TypeAlias = Float[Array | np.ndarray, "nodes n"]
"""Rows Pi_v of the PageRank matrix, of the nodes asked about."""


class ErrorBound(NamedTuple):
    """With probability at least 1 - delta, max_j |z~_vj - z_vj| <= total_v, for each node v by itself.

    Attributes:
      total: float64 [nodes]; deviation + bias.
      deviation: float64 [nodes]; bound on max_j |z~_vj - E z~_vj|.
      bias: float64 [nodes]; bound on max_j |E z~_vj - z_vj|.
      variance: the worst variance of one coordinate of one estimate.
      range: the length of the interval that one coordinate of one estimate stays in (inf for Laplace).
    """

    total: Float[np.ndarray, " nodes"]
    deviation: Float[np.ndarray, " nodes"]
    bias: Float[np.ndarray, " nodes"]
    variance: float
    range: float


def _unbiased(mechanism: Sampled) -> None:
    if not np.isclose(mechanism._gain, mechanism.dim / mechanism.k, rtol=1e-9):
        raise ValueError(f"scale must be d / k, for an unbiased estimate; got {mechanism._gain}")


def _rows(rows: PageRankRows, delta: float) -> Float[np.ndarray, "nodes n"]:
    number(0.0, 1.0, open_lower=True, open_upper=True, delta=delta)
    values = np.abs(np.asarray(rows, np.float64))
    if values.ndim != 2:
        raise ValueError(f"rows must be [nodes, n], got shape {values.shape}")
    return values


def _worst_variance(mechanism: Sampled) -> float:
    """The largest coordinate variance over records: it is a quadratic in x, so it is extreme at 0 or at 1."""
    return max(float(np.max(np.asarray(mechanism.variance(np.float32(x))))) for x in (0.0, 1.0))


def _bernstein(
    rows: Float[np.ndarray, "nodes n"], dim: int, delta: float, variance: float, length: float
) -> Float[np.ndarray, " nodes"]:
    """tau of 2d exp(-tau^2 / (2V + 2M tau / 3)) = delta, V = variance |Pi_v|_2^2, M = length |Pi_v|_inf."""
    log = np.log(2.0 * dim / delta)
    spread = variance * (rows**2).sum(1)
    third = log * length * rows.max(1) / 3.0
    return third + np.sqrt(third**2 + 2.0 * log * spread)


def square_wave_bound(mechanism: Sampled, rows: PageRankRows, delta: float) -> ErrorBound:
    r"""Theorem 2 (HDS): Bernstein's inequality for the noise, and the bias of the raw report.

    .. math:: \tau = \tfrac{LM}{3} + \sqrt{(\tfrac{LM}{3})^2 + 2LV}, \quad L = \log\tfrac{2d}{\delta}, \quad
       M = 2(b+1) \|\Pi_v\|_\infty, \quad V = \|\Pi_v\|_2^2 \max_x Var[\tilde x]

    and the bias is at most :math:`(1 - C) \|\Pi_v\|_1`. The bias does not shrink with epsilon: at small
    epsilon the estimate is close to 0, and the bound, like the paper's O(log(d / delta)), says no more.

    Args:
      mechanism: ``HDS(...)``: a :class:`Sampled` of :class:`SquareWave`.
      rows: Pi_v of the nodes asked about, [nodes, n].
      delta: in (0, 1).

    Reference: LDP-GE Theorem 2, eq. 18-23, with the row sums as they are (erratum 3).

    >>> from ldp_jax.features import HDS
    >>> bound = square_wave_bound(HDS(1.0, dim=100, k=10), np.full((1, 50), 0.02), delta=0.05)
    >>> bool(bound.total[0] == bound.deviation[0] + bound.bias[0])
    True
    """
    if not isinstance(mechanism.inner, SquareWave):
        raise ValueError(f"square_wave_bound is about HDS, got {type(mechanism.inner).__name__}")
    values = _rows(rows, delta)
    edge = 1.0 + float(mechanism.inner.b)
    length = 2.0 * float(np.abs(np.asarray(mechanism._gain * mechanism.inner.estimate(np.float32(edge)))))
    variance = _worst_variance(mechanism)
    deviation = _bernstein(values, mechanism.dim, delta, variance, length)
    contraction = float(np.asarray(mechanism.mean(np.float32(1.0))))
    bias = abs(1.0 - contraction) * values.sum(1)
    return ErrorBound(deviation + bias, deviation, bias, variance, length)


def laplace_bound(mechanism: Sampled, rows: PageRankRows, delta: float) -> ErrorBound:
    r"""Theorem 3 (Laplace): Bernstein's inequality for sub-exponential noise.

    With :math:`\nu = 2\lambda = 4d/\epsilon` and :math:`L = \log(2d/\delta)`,
    :math:`\tau = \nu \sqrt{2L} \|\Pi_v\|_2` where L is at most
    :math:`\|\Pi_v\|_2^2 / (2 \|\Pi_v\|_\infty^2)`, else :math:`\tau = 2 \nu L \|\Pi_v\|_\infty`.

    Reference: LDP-GE Theorem 3, eq. 24-28.

    >>> from ldp_jax.features import LaplaceVector
    >>> laplace_bound(LaplaceVector(1.0, dim=100), np.full((1, 50), 0.02), delta=0.05).bias.tolist()
    [0.0]
    """
    if not isinstance(mechanism.inner, Laplace):
        raise ValueError(f"laplace_bound is about the Laplace mechanism, got {type(mechanism.inner).__name__}")
    if mechanism.k != mechanism.dim:
        raise ValueError(f"laplace_bound needs k = d (every coordinate reported), got k={mechanism.k}")
    _unbiased(mechanism)
    values = _rows(rows, delta)
    nu = 2.0 * float(mechanism.inner.scale)
    log = np.log(2.0 * mechanism.dim / delta)
    norm2, largest = np.sqrt((values**2).sum(1)), values.max(1)
    small = log <= norm2**2 / (2.0 * largest**2)
    deviation = np.where(small, nu * np.sqrt(2.0 * log) * norm2, 2.0 * nu * log * largest)
    zero = np.zeros_like(deviation)
    return ErrorBound(deviation, deviation, zero, _worst_variance(mechanism), float("inf"))


def unbiased_bound(mechanism: Sampled, rows: PageRankRows, delta: float) -> ErrorBound:
    r"""Theorem 4 (Piecewise, Multi-bit): Bernstein's inequality for bounded unbiased estimates.

    As :func:`square_wave_bound` with no bias and :math:`M = 2 \frac{d}{k} A \|\Pi_v\|_\infty`, A the largest inner
    estimate at epsilon / k.

    Reference: LDP-GE Theorem 4, eq. 29-34.

    >>> from ldp_jax.features import MultiBit
    >>> unbiased_bound(MultiBit(1.0, dim=100), np.full((1, 50), 0.02), delta=0.05).bias.tolist()
    [0.0]
    """
    inner = mechanism.inner
    if isinstance(inner, GeneralPiecewise):
        largest = float(inner.bound)
    elif isinstance(inner, Duchi):
        largest = float(inner.estimate(np.float32(1.0)))
    else:
        raise ValueError(f"unbiased_bound is about Piecewise and Multi-bit, got {type(inner).__name__}")
    _unbiased(mechanism)
    values = _rows(rows, delta)
    length, variance = 2.0 * mechanism._gain * largest, _worst_variance(mechanism)
    deviation = _bernstein(values, mechanism.dim, delta, variance, length)
    return ErrorBound(deviation, deviation, np.zeros_like(deviation), variance, length)


def error_bound(mechanism: Sampled, rows: PageRankRows, delta: float) -> ErrorBound:
    """The theorem that is about ``mechanism``: 2 for HDS, 3 for Laplace, 4 for Piecewise and Multi-bit.

    >>> from ldp_jax.features import LaplaceVector, MultiBit
    >>> rows = np.full((1, 50), 0.02)
    >>> laplace, multibit = (error_bound(m(1.0, 100), rows, 0.05).total for m in (LaplaceVector, MultiBit))
    >>> bool(multibit < laplace)
    True
    """
    if isinstance(mechanism.inner, SquareWave):
        return square_wave_bound(mechanism, rows, delta)
    if isinstance(mechanism.inner, Laplace):
        return laplace_bound(mechanism, rows, delta)
    return unbiased_bound(mechanism, rows, delta)


def worst_case(moment: Shaped[Array | np.ndarray, "..."]) -> float:
    """The largest of a moment over a grid of records, as a number: what Figure 1 plots.

    >>> import jax.numpy as jnp
    >>> round(worst_case(Duchi(1.0).variance(jnp.linspace(-1, 1, 201))), 2)
    4.68
    """
    return float(np.max(np.asarray(moment, np.float64)))
