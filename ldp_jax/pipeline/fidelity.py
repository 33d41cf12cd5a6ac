r"""How much of the true embedding a private one will show, from public facts, before anything is collected.

With :math:`Z = \Pi X` and independent unbiased reports of X, the noise of row v of the private embedding has the
energy :math:`\lVert \Pi_v \rVert^2 \sigma^2`, :math:`\sigma^2` the mechanism's variance summed over coordinates.
The signal depends on how alike the records are that a row gathers: of records that vary by :math:`s^2` of which a
share h, the likeness, is common to all that one node gathers,

.. math:: E \lVert Z_v \rVert^2 = s^2 \Big( (1 - h) \lVert \Pi_v \rVert^2 + h \big(\sum_u \Pi_{vu}\big)^2 \Big).

Where neighbours are not alike, averaging takes signal and noise alike, and the graph is of no help.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ldp_jax.core import validate
from ldp_jax.core.mechanism import HasMoments, check_single
from ldp_jax.core.spaces import Ball, Box, as_records
from ldp_jax.core.types import Array, Graph
from ldp_jax.graph.propagation import Operator, operator, ppr

__all__ = ["FidelityForecast", "Gathered", "fidelity_forecast", "gathered", "likeness"]


def __dir__() -> list[str]:
    return __all__


_PROBES = 256
"""Random columns by which rows of Pi are measured; a graph of fewer nodes is measured exactly."""

_TOL = 1e-4


class FidelityForecast(NamedTuple):
    """What is to be expected of a private embedding.

    Attributes:
      correlation: of private and true embedding, columns centred (:func:`ldp_jax.learning.metrics.fidelity`).
      relative_error: after the best scalar: sqrt(1 - correlation^2).
      signal: mean squared length of the true rows, as far as the mechanism keeps it.
      noise: mean squared length of the noise of a row.
    """

    correlation: float
    relative_error: float
    signal: float
    noise: float

    @classmethod
    def of(cls, signal: float, noise: float) -> "FidelityForecast":
        """From the two energies."""
        whole = signal + noise
        square = signal / whole if whole > 0 else 0.0
        return cls(math.sqrt(square), math.sqrt(1.0 - square), signal, noise)


class Gathered(NamedTuple):
    """What rows of Pi make of records; made by :func:`gathered`.

    Attributes:
      own: the mean over nodes of the squared length of a row: of what varies from user to user.
      alike: the mean squared sum of a row: of what all that a node gathers have in common.
      columns: float32 [n], squared lengths of the columns: how much each user's record weighs in all rows.
    """

    own: float
    alike: float
    columns: Float[Array, " n"]

    def energy(self, likeness: float) -> float:
        """The mean squared length of a row of Z, of records that vary by 1."""
        return (1.0 - likeness) * self.own + likeness * self.alike


def gathered(op_or_graph: Graph | Operator, *, alpha: float = 0.1, r: float = 0.0) -> Gathered:
    """Lengths and sums of the rows of Pi.

    Squared lengths are means over 256 columns of random signs, that are always the same, or exact on a graph of no
    more nodes.

    Args:
      op_or_graph: public, symmetric.
      alpha: decay factor in (0, 1].
      r: convolution coefficient in [0, 1].

    >>> from ldp_jax.graph import graphs
    >>> found = gathered(graphs.from_edges([[0, 1]], num_nodes=2), alpha=0.5)
    >>> round(found.own, 2), round(found.alike, 2)  # rows (2/3, 1/3)
    (0.56, 1.0)
    """
    validate.in_range(0.0, 1.0, open_lower=True, alpha=alpha)
    validate.in_range(0.0, 1.0, r=r)
    op = op_or_graph if isinstance(op_or_graph, Operator) else operator(op_or_graph)
    n = op.num_nodes
    if n <= _PROBES:
        probes = np.eye(n, dtype=np.float32)
    else:
        coins = np.random.default_rng(0).integers(0, 2, (n, _PROBES))
        probes = ((2.0 * coins - 1.0) / math.sqrt(_PROBES)).astype(np.float32)
    rows = (ppr(op, probes, alpha, r, _TOL) ** 2).sum(1)
    columns = (ppr(op, probes, alpha, 1.0 - r, _TOL) ** 2).sum(1)
    sums = ppr(op, np.ones((n, 1), np.float32), alpha, r, _TOL)
    return Gathered(float(rows.mean()), float((sums**2).mean()), columns)


def likeness(
    op_or_graph: Graph | Operator,
    nodes: Int[np.ndarray, " panel"],
    records: Any,
    *,
    alpha: float = 0.1,
    r: float = 0.0,
    rows: Gathered | None = None,
) -> float:
    """How alike the records are that one node gathers, in [0, 1], from public records of a few random nodes.

    The mean squared length of a row of Z is estimated from pairs of these nodes, each weighed by how often both are
    gathered together, about the mean of their own records; h is what :class:`Gathered` then says.

    Args:
      op_or_graph: see :func:`gathered`.
      nodes: who is public, such as a panel, taken to be a random part of all.
      records: [panel, d], of these nodes.
      alpha: see :func:`gathered`.
      r: see :func:`gathered`.
      rows: what :func:`gathered` found with the same numbers.

    Raises:
      ValueError: for records of another number, fewer than two or not finite, nodes that are none or named twice.

    >>> from ldp_jax.graph import graphs
    >>> nodes = np.arange(40)
    >>> pairs = graphs.from_edges(nodes.reshape(20, 2), num_nodes=40)  # of one kind, then of different ones
    >>> [round(likeness(pairs, nodes, np.eye(2)[kind]), 2) for kind in (nodes // 2 % 2, nodes % 2)]
    [0.95, 0.0]
    """
    op = op_or_graph if isinstance(op_or_graph, Operator) else operator(op_or_graph)
    nodes, x = np.asarray(nodes), np.asarray(records, np.float64)
    if x.ndim != 2 or len(x) != len(nodes) or len(nodes) < 2:
        raise ValueError(f"records must be [{len(nodes)}, d], of two nodes or more, got shape {x.shape}")
    rows = gathered(op, alpha=alpha, r=r) if rows is None else rows
    if len(np.unique(nodes)) != len(nodes) or nodes.min() < 0 or nodes.max() >= op.num_nodes:
        raise ValueError(f"nodes must be different ones in [0, {op.num_nodes}), got {nodes.min()} to {nodes.max()}")
    if not np.isfinite(x).all():
        raise ValueError("records must be finite, and are not everywhere")
    x = x - x.mean(0)
    squares = (x**2).sum(1)
    if not squares.any():
        return 0.0
    n, share = op.num_nodes, len(nodes) / op.num_nodes
    spread = squares.sum() / (len(nodes) - 1)
    placed = np.zeros((n, x.shape[1]), np.float32)
    placed[nodes] = x
    own = float(np.asarray(rows.columns, np.float64)[nodes] @ squares)
    others = float((np.asarray(ppr(op, placed, alpha, r, _TOL), np.float64) ** 2).sum()) - own
    energy = (own / share + others / share**2) / n / spread
    return float(np.clip((energy - rows.own) / max(rows.alike - rows.own, 1e-12), 0.0, 1.0))


def fidelity_forecast(
    op_or_graph: Graph | Operator,
    mechanism: HasMoments,
    records: Any = None,
    *,
    likeness: float = 1.0,
    alpha: float = 0.1,
    r: float = 0.0,
    rows: Gathered | None = None,
) -> FidelityForecast:
    """The correlation of private and true embedding that a mechanism's own moments foretell.

    Args:
      op_or_graph: public, symmetric.
      mechanism: on vectors, with moments; of one budget.
      records: public ones [m, d] in its domain, such as a panel's, of which spread and variance are taken. By
        default records as far apart as the domain holds: every number at one of its ends. With the default
        ``likeness`` of 1 this is the best that any records could give.
      likeness: h in [0, 1] (:func:`likeness`): 0 where neighbours' records have nothing in common.
      alpha: see :func:`gathered`.
      r: see :func:`gathered`.
      rows: what :func:`gathered` found with the same numbers.

    Raises:
      ValueError: for a mechanism that is none on vectors of a cube or a ball, a stack, or records of another shape.

    >>> from ldp_jax import datasets, features
    >>> graph = datasets.load("debian").graph
    >>> [round(fidelity_forecast(graph, features.MultiBit(e, dim=8)).correlation, 2) for e in (1.0, 4.0)]
    [0.58, 0.84]
    """
    check_single(mechanism)
    h = validate.number(0.0, 1.0, likeness=likeness)
    domain = mechanism.domain()
    if not isinstance(domain, (Box, Ball)):
        raise ValueError(f"mechanism must be on vectors, got one on {domain}")
    if records is None:
        records = _far_apart(domain)
    x = as_records(records)
    if x.ndim != 2 or x.shape[1] != domain.dim or len(x) < 2:
        raise ValueError(f"records must be [m, {domain.dim}] with m >= 2, got shape {x.shape}")
    if not bool(jnp.isfinite(x).all()):
        raise ValueError("records must be finite, and are not everywhere")
    rows = gathered(op_or_graph, alpha=alpha, r=r) if rows is None else rows
    spread, kept, variance = (float(value) for value in _moments(mechanism, jnp.asarray(x, jnp.float32)))
    return FidelityForecast.of(kept**2 * spread * rows.energy(h), variance * rows.own)


def _far_apart(domain: Box | Ball) -> np.ndarray:
    """Two opposite records of numbers of one size, as large as the domain has them."""
    if isinstance(domain, Box):
        middle, end = (domain.upper + domain.lower) / 2, (domain.upper - domain.lower) / 2
    else:
        middle, end = 0.0, float(domain.radius) / domain.dim**0.5
    signs = np.where(np.arange(domain.dim) % 2 == 0, 1.0, -1.0)
    return (middle + end * np.stack([signs, -signs])).astype(np.float32)


@jax.jit
def _moments(mechanism: Any, x: Array) -> tuple[Array, Array, Array]:
    """Of records: their spread, by how much the mean estimate shortens it, and the variance of an estimate."""
    centred = x - x.mean(0)
    spread = (centred**2).sum(1).mean()
    mean, variance = jax.vmap(lambda one: (mechanism.mean(one), mechanism.variance(one)))(x)
    kept = (centred * (mean - mean.mean(0))).sum(1).mean() / jnp.maximum(spread, 1e-30)
    return spread, kept, variance.sum(1).mean()
