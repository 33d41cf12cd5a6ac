r"""Propagation that knows how noisy each value is: precise values pull their neighbours, noisy ones are pulled.

Every node has a hidden value z and perhaps an observation y of precision :math:`\Lambda`, the inverse of its
variance; neighbours have like values. The best z of both is the solution of

.. math:: (\kappa \Lambda + D - c A) z = \kappa \Lambda y,

A the adjacency, D the degrees, :math:`\kappa` how much an observation weighs beside a neighbour and c < 1 how far
values reach. The matrix is symmetric and positive definite; for one :math:`\Lambda` of all it is a personalized
PageRank.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from ldp_jax.core import validate
from ldp_jax.core.types import Array, Scalar
from ldp_jax.graph.graphs import GraphsTuple, as_graph
from ldp_jax.graph.propagation import Operator, chebyshev_steps, operator

LABEL_VARIANCE = 0.5
"""nu: how far a label is from what the neighbours of its node would say, as a variance of its indicator."""

_FLOOR = 0.02
"""The least probability that a value of the field is read as."""


def precision_weighted_ppr(
    op_or_graph: Any, y: Any, precision: Any, kappa: Scalar, c: Scalar, tol: Scalar = 1e-4
) -> Array:
    r"""Step 6 of local prediction: the solution z of :math:`(\kappa \Lambda + D - c A) z = \kappa \Lambda y`.

    By Chebyshev semi-iteration on :math:`(\kappa \Lambda + D)^{-1} A`, whose spectrum is real and within [-1, 1]:
    as many products as :func:`~ldp_jax.graph.propagation.ppr` makes for alpha = 1 - c. One compiled program for all
    numbers, which are traced.

    Args:
      op_or_graph: an :class:`~ldp_jax.graph.propagation.Operator` of a symmetric graph, or the concrete graph.
      y: [n] or [n, k] float, what was observed; anything finite where the precision is 0.
      precision: :math:`\Lambda` >= 0, of the shape of y or [n], then the same for all columns.
      kappa: > 0.
      c: in [0, 1).
      tol: bound on the error relative to the solution, in the norm of :math:`(\kappa \Lambda + D)^{1/2} z`.

    Returns:
      z, of the shape of y; 0 for a node without edges that nothing was observed of. Differentiable in y, the
      precision, kappa and c, forward and backward.

    Raises:
      ValueError: for kappa, c or tol out of range, precisions that are negative or of another shape, a directed
        operator.

    >>> from ldp_jax.graph import graphs
    >>> path = graphs.from_edges([[0, 1], [1, 2]], num_nodes=3)
    >>> z = precision_weighted_ppr(path, jnp.array([1.0, 0.0, 0.0]), jnp.array([9.0, 0.0, 1.0]), 1.0, 0.5, 1e-7)
    >>> np.asarray(z, float).round(4).tolist()
    [0.9122, 0.2432, 0.0608]
    """
    validate.positive(kappa=kappa)
    validate.in_range(0.0, 1.0, c=c)
    validate.in_range(0.0, 1.0, open_lower=True, tol=tol)
    if validate.concrete(c) and float(np.max(np.asarray(c))) >= 1.0:
        raise ValueError(f"c must be below 1, got {c}")
    op = op_or_graph if isinstance(op_or_graph, Operator) else operator(op_or_graph)
    if op.directed:
        raise ValueError("op_or_graph must be symmetric, got a directed operator")
    values, weights = jnp.asarray(y, jnp.float32), jnp.asarray(precision, jnp.float32)
    if values.ndim not in (1, 2) or len(values) != op.num_nodes:
        raise ValueError(f"y must have a row for each of {op.num_nodes} nodes, got shape {values.shape}")
    if weights.shape not in (values.shape, values.shape[:1]):
        raise ValueError(f"precision must have shape {values.shape[:1]} or {values.shape}, got {weights.shape}")
    if validate.concrete(weights) and not bool((weights >= 0).all()):
        raise ValueError("precision must be >= 0, and is not everywhere")
    columns = values.reshape(len(values), -1)
    weights = jnp.broadcast_to(weights.reshape(len(values), -1), columns.shape)
    numbers = (jnp.asarray(v, jnp.float32) for v in (kappa, c, tol))
    return _field(op, columns, weights, *numbers).reshape(values.shape)


@jax.jit
def _field(op: Operator, y: Array, precision: Array, kappa: Array, c: Array, tol: Array) -> Array:
    degree = op.rows(op.degree)[:, None]
    weights = kappa * op.rows(precision)
    diagonal = weights + degree
    diagonal = jnp.where(diagonal > 0, diagonal, 1.0)
    steps = chebyshev_steps(1.0 - jax.lax.stop_gradient(c), tol)

    def system(z: Array) -> Array:
        return diagonal * z - c * degree * op.average(z)

    def solve(_: Any, b: Array) -> Array:
        source = b / diagonal

        def step(_: Any, carry: Any) -> Any:
            z, before, omega = carry
            omega = 1.0 / (1.0 - 0.25 * c**2 * omega)
            after = omega * (c * degree * op.average(z) / diagonal + source - before) + before
            return after, z, omega

        # As in ldp_jax.graph.propagation.ppr: from 0, so that the first iterate takes no product.
        return jax.lax.fori_loop(0, steps, step, (source, jnp.zeros_like(source), jnp.float32(2.0)))[0]

    return op.nodes(jax.lax.custom_linear_solve(system, weights * op.rows(y), solve, symmetric=True))


class Observations(NamedTuple):
    """What is seen of each node's class, as values with a precision; made by :func:`observations`.

    Attributes:
      values: float32 [n, 2, C]: of the label, and of the report; centred, unbiased, 0 where there is none.
      precision: float32 [n, 2]; 0 where there is none.
      prior: float32 [C], the class shares that values are centred by.
      correlation: rho, how much of a class's variance the reports explain; 0 where there are none.
    """

    values: Float[Array, "n two classes"]
    precision: Float[Array, "n two"]
    prior: Float[Array, " classes"]
    correlation: Float[Array, ""]


@jax.jit
def observations(
    labels: Int[Array | np.ndarray, " n"],
    prior: Float[Array, " classes"],
    log_likelihood: Float[Array | np.ndarray, "n classes"],
    reported: Bool[Array | np.ndarray, " n"],
) -> Observations:
    r"""Labels and reports as observations of class indicators.

    A label is its indicator less the prior, with variance nu = 0.5. A report is its posterior under the prior less
    the prior, divided by :math:`\rho`, which makes it unbiased, with variance :math:`\nu + (1 - \rho) / \rho`;
    :math:`\rho` is the mean squared deviation of posteriors from the prior over the variance of a class.

    Args:
      labels: -1 for none.
      prior: class shares.
      log_likelihood: of each report (:func:`ldp_jax.pipeline.message.message_evidence`), as far as it is believed.
      reported: by whom :math:`\rho` is found.
    """
    labels = jnp.asarray(labels)[:, None]
    posterior = jax.nn.softmax(jnp.log(jnp.maximum(prior, 1e-30)) + log_likelihood)
    away = jnp.where(jnp.asarray(reported)[:, None], posterior - prior, 0.0)
    variance = jnp.maximum(1.0 - (prior**2).sum(), 1e-6)
    rho = jnp.clip((away**2).sum() / jnp.maximum(jnp.asarray(reported).sum(), 1) / variance, 0.0, 1.0)
    seen = rho > 1e-6
    safe = jnp.where(seen, rho, 1.0)
    known = labels >= 0
    of_label = jnp.where(known, (labels == jnp.arange(len(prior))) - prior, 0.0)
    of_report = jnp.where(seen, (posterior - prior) / safe, 0.0)
    trust = jnp.where(seen, 1.0 / (LABEL_VARIANCE + (1.0 - safe) / safe), 0.0)
    precision = jnp.stack([known[:, 0] / LABEL_VARIANCE, jnp.broadcast_to(trust, known[:, 0].shape)], 1)
    return Observations(jnp.stack([of_label, of_report], 1), precision, prior, rho)


def class_field(
    op_or_graph: GraphsTuple | Operator,
    seen: Observations,
    fold: Int[Array | np.ndarray, " n"],
    kappa: Scalar,
    c: Scalar,
    *,
    num_folds: int,
    tol: Scalar = 1e-3,
) -> Float[Array, "n classes"]:
    """The field as log-scores of classes, of a labelled node without the labels of its fold.

    A labelled node is seen by its label, any other by its report; so is a labelled node while its fold is left out.
    All folds are columns of one solve.

    Args:
      op_or_graph: public.
      seen: labels and reports.
      fold: of each node.
      kappa: see :func:`precision_weighted_ppr`.
      c: see :func:`precision_weighted_ppr`.
      num_folds: F.
      tol: see :func:`precision_weighted_ppr`.

    Returns:
      log(prior + z), at least log 0.02.

    >>> from ldp_jax.graph import graphs
    >>> path = graphs.from_edges([[0, 1], [1, 2], [2, 3], [3, 4]], num_nodes=5)
    >>> labels, prior = np.array([0, -1, -1, -1, 1]), jnp.array([0.5, 0.5])
    >>> seen = observations(labels, prior, jnp.zeros((5, 2)), np.zeros(5, bool))
    >>> scores = class_field(path, seen, jnp.array([0, 0, 0, 0, 1]), 1.0, 0.99, num_folds=2, tol=1e-6)
    >>> np.exp(np.asarray(scores, float))[:, 0].round(2).tolist()  # nodes 0 and 4 by each other's label
    [0.09, 0.7, 0.5, 0.3, 0.91]
    """
    if not isinstance(op_or_graph, Operator):
        as_graph(op_or_graph)
    validate.positive(kappa=kappa)
    validate.in_range(0.0, 1.0, c=c)
    op = op_or_graph if isinstance(op_or_graph, Operator) else operator(op_or_graph)
    numbers = (jnp.asarray(v, jnp.float32) if not validate.concrete(v) else np.float32(v) for v in (kappa, c, tol))
    return _class_field(op, seen, fold, *numbers, num_folds=num_folds)


@partial(jax.jit, static_argnames="num_folds")
def _class_field(
    op: Operator, seen: Observations, fold: Array, kappa: Array, c: Array, tol: Array, *, num_folds: int
) -> Array:
    values, precision = _columns(seen, fold, jnp.arange(num_folds + 1))
    return _as_scores(_field(op, values, precision, kappa, c, tol), seen, fold)


@jax.jit
def _columns(seen: Observations, fold: Array, models: Array) -> tuple[Array, Array]:
    """Columns [n, (F + 1) C] of values and precisions: without the labels of each fold, then with all."""
    labelled = (seen.precision[:, :1] > 0) & (fold[:, None] != models)  # [n, F + 1]
    values = jnp.where(labelled[..., None], seen.values[:, :1], seen.values[:, 1:])
    precision = jnp.where(labelled, seen.precision[:, :1], seen.precision[:, 1:])
    precision = jnp.broadcast_to(precision[..., None], values.shape)
    return values.reshape(len(fold), -1), precision.reshape(len(fold), -1)


@jax.jit
def _as_scores(z: Array, seen: Observations, fold: Array) -> Array:
    z = z.reshape(len(fold), -1, len(seen.prior))
    model = jnp.where(seen.precision[:, 0] > 0, fold, z.shape[1] - 1)
    own = jnp.take_along_axis(z, model[:, None, None], 1)[:, 0]
    return jnp.log(jnp.maximum(seen.prior + own, _FLOOR))
