r"""How far a private embedding can be from the true one.

Theorems 2 to 4 of LDP-GE, in float64, on the host.

Bounds hold for the actual rows of the PageRank matrix (:func:`ldp_jax.graph.propagation.ppr_rows`),
every r and every data set in [-1, 1]^d. The error of the propagation itself (its ``tol``) comes on
top.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Shaped

from ldp_jax.core.types import AnyArray
from ldp_jax.core.validate import number, require
from ldp_jax.features import Duchi, GeneralPiecewise, Laplace, Sampled, SquareWave

__all__ = ["error_bound", "worst_case"]

__dir__ = lambda: __all__


PageRankRows: TypeAlias = Float[AnyArray, "nodes n"]
"""Rows Pi_v of the PageRank matrix, of the nodes in question."""


class ErrorBound(NamedTuple):
    """For each node v, max_j |z~_vj - z_vj| <= total_v with probability at least 1 - delta.

    ``total`` is ``deviation``, the bound on max_j |z~_vj - E z~_vj|, plus ``bias``, on max_j |E
    z~_vj - z_vj|. ``variance`` is the largest of a coordinate's estimate, ``range`` the length of
    its interval (inf for Laplace).
    """

    total: Float[np.ndarray, " nodes"]
    deviation: Float[np.ndarray, " nodes"]
    bias: Float[np.ndarray, " nodes"]
    variance: float
    range: float


def error_bound(mechanism: Sampled, rows: PageRankRows, delta: float) -> ErrorBound:
    r"""Bound the error of private embeddings, with :math:`L = \log(2d / \delta)`.

    * Theorem 2 (HDS) and Theorem 4 (Piecewise, Multi-bit): Bernstein's inequality,
      :math:`\tau = \tfrac{LM}{3} + \sqrt{(\tfrac{LM}{3})^2 + 2LV}`, with
      :math:`V = \|\Pi_v\|_2^2 \max_x Var[\tilde x]` and M the length of an estimate's interval
      times :math:`\|\Pi_v\|_\infty`: :math:`2(b+1)` for HDS, :math:`2 \frac{d}{k} A` with A the
      largest inner estimate otherwise. The bias of HDS is at most :math:`(1 - kC/d) \|\Pi_v\|_1`,
      whatever epsilon; that of the others is 0.
    * Theorem 3 (Laplace): with :math:`\nu = 4d/\epsilon`, :math:`\tau = \nu \sqrt{2L} \|\Pi_v\|_2`
      where L is at most :math:`\|\Pi_v\|_2^2 / (2 \|\Pi_v\|_\infty^2)`, else
      :math:`\tau = 2 \nu L \|\Pi_v\|_\infty`.

    ``ValueError`` for a mechanism that no theorem covers: Laplace with k < d, or an estimate that
    is rescaled.
    Reference: LDP-GE Theorems 2 to 4, eq. 18-34, with the row sums as they are (erratum 3).

    >>> from ldp_jax.features import LaplaceVector, MultiBit
    >>> rows = np.full((1, 50), 0.02)
    >>> laplace = error_bound(LaplaceVector(1.0, 100), rows, 0.05)
    >>> bool(error_bound(MultiBit(1.0, 100), rows, 0.05).total < laplace.total)
    True
    """
    number(0.0, 1.0, open_lower=True, open_upper=True, delta=delta)
    require(
        isinstance(mechanism, Sampled),
        f"mechanism must be of vectors, as HDS is, got {type(mechanism).__name__}",
    )
    values = np.abs(np.asarray(rows, np.float64))
    require(
        values.ndim == 2 and values.size and np.isfinite(values).all(),
        f"rows must be finite numbers [nodes, n], as of ppr_rows, got shape {values.shape}",
    )
    inner = mechanism.inner
    gain = mechanism._gain
    # A coordinate's variance is a quadratic in x, so it is extreme at 0 or at 1.
    variance = max(worst_case(mechanism.variance(np.float32(x))) for x in (0.0, 1.0))
    log = np.log(2.0 * mechanism.dim / delta)
    peak = values.max(1)
    spread = (values**2).sum(1)  # |Pi_v|_2^2
    require(
        isinstance(inner, SquareWave) or np.isclose(gain, mechanism.dim / mechanism.k, rtol=1e-9),
        f"scale must be d / k, for an unbiased estimate; got {gain}",
    )
    bias = np.zeros(len(values))

    if isinstance(inner, Laplace):
        require(
            mechanism.k == mechanism.dim,
            f"Theorem 3 needs k = d (every coordinate reported), got k={mechanism.k}",
        )
        nu = 2.0 * float(inner.scale)
        norm = np.sqrt(spread)
        small = log <= norm**2 / (2.0 * peak**2)
        by_norm = nu * np.sqrt(2.0 * log) * norm
        by_peak = 2.0 * nu * log * peak
        deviation = np.where(small, by_norm, by_peak)
        return ErrorBound(deviation, deviation, bias, variance, float("inf"))

    if isinstance(inner, SquareWave):
        largest_report = np.float32(1.0 + float(inner.b))
        length = 2.0 * worst_case(abs(gain * inner.estimate(largest_report)))
        contraction = float(np.asarray(mechanism.mean(np.float32(1.0))))
        bias = abs(1.0 - contraction) * values.sum(1)
    elif isinstance(inner, GeneralPiecewise):
        length = 2.0 * gain * float(inner.bound)
    elif isinstance(inner, Duchi):
        length = 2.0 * gain * float(inner.estimate(np.float32(1.0)))
    else:
        raise ValueError(f"no theorem is about {type(inner).__name__}")
    third = log * length * peak / 3.0
    deviation = third + np.sqrt(third**2 + 2.0 * log * (variance * spread))
    return ErrorBound(deviation + bias, deviation, bias, variance, length)


def worst_case(moment: Shaped[AnyArray, "..."]) -> float:
    """The largest value of a moment over a grid of records, as in Figure 1.

    >>> import jax.numpy as jnp
    >>> round(worst_case(Duchi(1.0).variance(jnp.linspace(-1, 1, 201))), 2)
    4.68
    """
    return float(np.max(np.asarray(moment, np.float64)))
