r"""Propagation that knows how noisy each value is.

Precise values pull their neighbours, noisy ones are pulled.

Every node has a hidden value z and perhaps an observation y of precision :math:`\Lambda`, the
inverse of its variance; neighbours have like values. The best z of both is the solution of

.. math:: (\kappa \Lambda + D - c A) z = \kappa \Lambda y,

A the adjacency, D the degrees, :math:`\kappa` how much an observation weighs beside a neighbour and
c < 1 how far values reach. The matrix is symmetric positive definite; one :math:`\Lambda` of all
gives a personalized PageRank.
"""

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from ldp_jax.core.label_channel import other_share
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, Array, Scalar
from ldp_jax.graph import graphs  # noqa: F401 - the examples below
from ldp_jax.graph.propagation import (
    Operator,
    operator,  # noqa: F401 - the examples below
)

LABEL_VARIANCE = 0.5
"""nu: how far a label is from what the neighbours of its node would say, as a variance of its
indicator.
"""

_FLOOR = 0.02  # the least probability that a value of the field is read as


class Observations(NamedTuple):
    """Observations of each node's class, as values with a precision; made by :func:`observations`.

    Attributes:
      values: float32 [n, 2, C]: of the label, and of the report; centred, unbiased, 0 where there
        is none.
      precision: float32 [n, 2]; 0 where there is none.
      prior: float32 [C], the class shares that values are centred by.
      correlation: rho, how much of a class's variance the reports explain; 0 where there are none.
    """

    values: Float[Array, "n two classes"]
    precision: Float[Array, "n two"]
    prior: Float[Array, " classes"]
    correlation: Float[Array, ""]

    __repr__ = by_shapes


@jax.jit
def observations(
    labels: Int[AnyArray, " n"],
    prior: Float[Array, " classes"],
    log_likelihood: Float[AnyArray, "n classes"],
    reported: Bool[AnyArray, " n"],
    keep: Scalar = 1.0,
) -> Observations:
    r"""Labels and reports as observations of class indicators.

    A label is its indicator less the prior, with variance nu = 0.5. A report is its posterior under
    the prior less the prior, divided by :math:`\rho`, which makes it unbiased, with variance
    :math:`\nu + (1 - \rho) / \rho`. :math:`\rho` is the mean squared deviation of posteriors from
    the prior over the variance of a class. A label that may be wrong is a report as well.
    ``labels`` are -1 for none and true with probability ``keep``, ``prior`` are class shares, and
    ``log_likelihood`` is of reports as far as they are believed. :math:`\rho` is found by who
    ``reported``; whoever neither reported nor has a label is not observed.
    """
    known = jnp.asarray(labels) >= 0
    named = jnp.asarray(labels)[:, None] == jnp.arange(len(prior))
    indicator = named - prior
    of_labels = jnp.log(jnp.where(named, keep, other_share(keep, len(prior))))
    evidence = jnp.stack([jnp.where(known[:, None], of_labels, 0.0), jnp.asarray(log_likelihood)])
    answered = jnp.stack([known, jnp.asarray(reported)])
    values, precisions, rhos = jax.vmap(_of_reports, (None, 0, 0))(prior, evidence, answered)
    noisy, of_report = values
    noisy_precision, report_precision = precisions

    true = keep == 1.0
    of_label = jnp.where(true, indicator, noisy)
    of_label = jnp.where(known[:, None], of_label, 0.0)
    label_precision = jnp.where(true, 1.0 / LABEL_VARIANCE, noisy_precision)
    label_precision = jnp.where(known, label_precision, 0.0)
    # A silent user says nothing.
    report_precision = jnp.where(answered.any(0), report_precision, 0.0)
    precision = jnp.stack([label_precision, report_precision], 1)
    return Observations(jnp.stack([of_label, of_report], 1), precision, prior, rhos[1])


def _of_reports(prior: Array, log_likelihood: Array, reported: Array) -> tuple[Array, Array, Array]:
    """Unbiased values [n, C] of reports, their precision, and rho."""
    posterior = jax.nn.softmax(jnp.log(jnp.maximum(prior, 1e-30)) + log_likelihood)
    away = jnp.where(reported[:, None], posterior - prior, 0.0)
    variance = jnp.maximum(1.0 - (prior**2).sum(), 1e-6)
    reporters = jnp.maximum(reported.astype(jnp.float32).sum(), 1)
    rho = jnp.clip((away**2).sum() / reporters / variance, 0.0, 1.0)
    seen = rho > 1e-6
    safe = jnp.where(seen, rho, 1.0)
    values = jnp.where(seen, (posterior - prior) / safe, 0.0)
    precision = 1.0 / (LABEL_VARIANCE + (1.0 - safe) / safe)
    return values, jnp.where(seen, precision, 0.0), rho


def class_fields(
    op: Operator,
    seen: Observations,
    fold: Int[AnyArray, " n"],
    kappa: Scalar,
    cs: Sequence[float],
    tol: float = 1e-3,
    *,
    num_folds: int,
) -> Float[Array, "fields n classes"]:
    r"""Step 6 of local prediction: the field of each c in (0, 1), as log-scores of classes.

    log(prior + z), at least log 0.02, where z solves the system above for each class. The graph is
    symmetric, and kappa > 0. By Chebyshev semi-iteration on :math:`(\kappa \Lambda + D)^{-1} A`,
    whose spectrum is real and within [-1, 1]: ``tol`` bounds the error relative to the solution, in
    the norm of :math:`(\kappa \Lambda + D)^{1/2} z`. All c take the products of the largest one,
    as many as :func:`~ldp_jax.graph.propagation.ppr` makes for alpha = 1 - c.

    A labelled node is seen by its label, any other by its report; so is a labelled node while its
    fold is left out. Folds are columns of one solve, and a labelled node is asked of the column
    without the labels of its fold.

    >>> path = operator(
    ...     graphs.from_edges([[0, 1], [1, 2], [2, 3], [3, 4]], num_nodes=5)
    ... )
    >>> labels, prior = np.array([0, -1, -1, -1, 1]), jnp.array([0.5, 0.5])
    >>> seen = observations(labels, prior, jnp.zeros((5, 2)), np.zeros(5, bool))
    >>> (scores,) = class_fields(
    ...     path, seen, jnp.array([0, 0, 0, 0, 1]), 1.0, [0.99], 1e-6, num_folds=2
    ... )
    >>> of_zero = np.exp(np.asarray(scores, float))[:, 0]
    >>> of_zero.round(2).tolist()  # nodes 0 and 4 by each other's label
    [0.09, 0.7, 0.5, 0.3, 0.91]
    """
    terms = itertools.zip_longest(*(_series(c, tol) for c in cs), fillvalue=0.0)
    series = np.array(list(terms), np.float32)
    return _fields(op, seen, fold, kappa, series, num_folds=num_folds)


def _series(c: float, tol: float) -> Float[np.ndarray, " terms"]:
    r"""The polynomial p of semi-iteration, by its coefficients of Chebyshev polynomials.

    Semi-iteration of m steps solves (I - c M) z = b by z = p(M) b, of degree m, with
    :math:`1 - (1 - c x) p(x) = T_{m+1}(x) / T_{m+1}(1 / c)`. All c share the :math:`T_k(M) b`.
    """
    # as many as ldp_jax.graph.propagation.chebyshev_steps says
    rate = math.acosh(1.0 / c)
    steps = math.ceil(math.acosh(1.0 / tol) / rate) // 2 * 2
    largest = math.cosh((steps + 1) * rate)

    def polynomial(x: np.ndarray) -> np.ndarray:
        error = np.cos((steps + 1) * np.arccos(x)) / largest
        return (1.0 - error) / (1.0 - c * x)

    return np.polynomial.Chebyshev.interpolate(polynomial, steps).coef


@partial(jax.jit, static_argnames="num_folds")
def _fields(
    op: Operator,
    seen: Observations,
    fold: Array,
    kappa: Array,
    series: Array,
    *,
    num_folds: int,
) -> Array:
    labelled = seen.precision[:, 0] > 0
    # Values have sum 0 over classes, and so has z: that of the last class follows.
    classes = len(seen.prior) - 1
    # A CPU adds 8 columns at once: the last of them may be read by nobody.
    columns = -(-(num_folds + 1) * classes // 8) * 8
    column = jnp.arange(columns)
    by_label = labelled[:, None] & (fold[:, None] != column // classes)
    precision = jnp.where(by_label, seen.precision[:, :1], seen.precision[:, 1:])
    values = seen.values[..., column % classes]
    values = jnp.where(by_label, values[:, 0], values[:, 1])
    model = jnp.where(labelled, fold, num_folds)[:, None]  # the last one has seen all labels
    place = op.rows(model * classes + jnp.arange(classes))

    degree = op.rows(op.degree)[:, None]
    weights = kappa * op.rows(precision)
    diagonal = weights + degree
    diagonal = jnp.where(diagonal > 0, diagonal, 1.0)
    source = weights * op.rows(values) / diagonal
    share = degree / diagonal

    def asked(term: Array, of_all: Array) -> Array:
        return term[:, None, None] * jnp.take_along_axis(of_all, place, 1)

    def two(turn: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        before, now, z = carry  # each is written where it was, without a copy
        twice = jnp.where(turn == 0, 1.0, 2.0)  # T_1 is x, T_k+1 is 2 x T_k - T_k-1
        before = twice * share * op.average(now) - before
        now = 2.0 * share * op.average(before) - now
        z = z + asked(series[2 * turn + 1], before)
        z = z + asked(series[2 * turn + 2], now)
        return before, now, z

    start = jnp.zeros_like(source), source, asked(series[0], source)
    _, _, z = jax.lax.fori_loop(0, len(series) // 2, two, start)
    z = jax.vmap(op.nodes)(z)
    z = jnp.concatenate([z, -z.sum(-1, keepdims=True)], -1)
    return jnp.log(jnp.maximum(seen.prior + z, _FLOOR))
