"""The distribution of the users' values from their reports: expectation maximisation, with and without smoothing.

:func:`transition` gives the law of a report's bin for a record's bin, :func:`histogram` counts reports, and
:func:`em` finds the distribution of records. All of it is post-processing and costs no privacy.

Reference: Li, Wang, Lopuhaa-Zwakenberg, Skoric & Li, SIGMOD 2020, section 5 (Algorithm 1: EM and EMS).

>>> from ldp_jax.features import SquareWave
>>> from ldp_jax.core.mechanism import privatize
>>> m = SquareWave(2.0)
>>> reports = privatize(jax.random.key(0), m, jnp.full(20_000, 0.5))
>>> law = transition(m, 16, 16)
>>> found = em(histogram(reports, law.edges), law.matrix, smooth=True)
>>> bool(abs(moments(found.distribution, law.centres)[0] - 0.5) < 0.05)
True
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ldp_jax.core import validate
from ldp_jax.core.mechanism import HasDensity, Mechanism, check_single
from ldp_jax.core.quadrature import gauss_legendre
from ldp_jax.core.spaces import Finite, Interval
from ldp_jax.core.types import Array, Scalar

__all__ = ["Estimate", "Transition", "em", "histogram", "moments", "transition"]

__dir__ = lambda: __all__


_NODES, _WEIGHTS = gauss_legendre(3)
_EVALUATIONS = 1_000_000  # values of a density in memory at once


class Transition(NamedTuple):
    """The law of binned reports of binned records.

    The ``matrix`` is [outputs, inputs]: a column, for a record uniform in its bin, sums to 1. ``edges`` [outputs +
    1] of the reports' bins are half-way between sorted values of a finite codomain; ``centres`` [inputs] are of
    records.
    """

    matrix: Array
    edges: Array
    centres: Array


class Estimate(NamedTuple):
    """The result of :func:`em`; the last axis is there if the counts have it.

    The ``distribution`` [inputs] or [inputs, columns] sums to 1; ``iterations`` are ``max_iterations`` where it did
    not converge; ``log_likelihood`` is the sum of count * log(probability) over output bins.
    """

    distribution: Array
    iterations: Array
    log_likelihood: Array


def transition(mechanism: Mechanism, inputs: int, outputs: int | None = None) -> Transition:
    r"""The matrix :math:`M_{oi} = P(\text{report in output bin } o \mid \text{record uniform in input bin } i)`.

    The density is integrated on the host in float64 by three-point rules between edges and breaks: exact for the
    square wave and the piecewise mechanisms, else with an error of O(width^6).

    The mechanism has one number, a ``log_density`` and a concrete epsilon; its codomain is a finite interval, or
    finite. ``inputs`` and ``outputs`` are equal bins; of a finite codomain there is an output for each value.

    >>> from ldp_jax.features import Duchi
    >>> print(transition(Duchi(2.0), 2).matrix.round(2))
    [[0.69 0.31]
     [0.31 0.69]]
    """
    name = type(mechanism).__name__
    if not (isinstance(mechanism, Mechanism) and isinstance(mechanism, HasDensity)):
        raise ValueError(f"mechanism must be a mechanism with a log_density, got {name}")
    check_single(mechanism)
    if not all(map(validate.concrete, jax.tree.leaves(mechanism))):
        raise ValueError("transition needs a concrete epsilon: call it outside jit, vmap and grad")
    validate.integer_in(1, inputs=inputs)
    if outputs is not None:
        validate.integer_in(1, outputs=outputs)
    with jax.enable_x64(True):
        domain, codomain = mechanism.domain(), mechanism.codomain()
        records = _bins("domain", name, domain, inputs)
        if isinstance(codomain, Finite):
            values = np.sort(np.asarray(codomain.values, np.float64))
            if outputs not in (None, len(values)):
                raise ValueError(f"outputs must be {len(values)}, the number of reports of {name}, got {outputs}")
            middle = (values[1:] + values[:-1]) / 2
            reach = np.max(np.diff(values), initial=1.0) / 2
            edges = np.concatenate([[values[0] - reach], middle, [values[-1] + reach]])
            matrix = _finite_mass(mechanism, values, records)
        else:
            edges = _bins("codomain", name, codomain, inputs if outputs is None else outputs)
            matrix = _interval_mass(mechanism, codomain, edges, records)
    matrix = matrix / matrix.sum(0)
    return Transition(*(jnp.asarray(a) for a in (matrix, edges, (records[1:] + records[:-1]) / 2)))


def _bins(what: str, name: str, interval: object, number: int) -> np.ndarray:
    ends = (float(interval.lower), float(interval.upper)) if isinstance(interval, Interval) else ()
    if not ends or not np.isfinite(ends).all():
        raise ValueError(f"the {what} of {name} must be an interval with finite ends, got {interval}")
    return np.linspace(*ends, number + 1)


def _gauss(cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the rule between consecutive cuts along the last axis: [..., pieces, 3]."""
    half, middle = np.diff(cuts)[..., None] / 2, (cuts[..., 1:] + cuts[..., :-1])[..., None] / 2
    return middle + half * _NODES, half * _WEIGHTS


def _finite_mass(mechanism: HasDensity, values: np.ndarray, records: np.ndarray) -> np.ndarray:
    x, weights = _gauss(records)
    log_mass = jax.vmap(jax.vmap(mechanism.log_density, (None, 0)), (0, None))
    mass = np.exp(np.asarray(log_mass(values, x.ravel()))).reshape(len(values), *x.shape)
    return (mass * weights).sum(-1) / np.diff(records)


def _interval_mass(mechanism: HasDensity, codomain, edges: np.ndarray, records: np.ndarray) -> np.ndarray:
    outputs, inputs = len(edges) - 1, len(records) - 1
    given = codomain.breaks or (lambda x: jnp.zeros(0))
    breaks = jax.jit(jax.vmap(lambda x: jnp.clip(jnp.ravel(given(x)), edges[0], edges[-1])))
    log_density = jax.jit(jax.vmap(jax.vmap(mechanism.log_density, (0, None))))
    x, weights = _gauss(np.unique(np.concatenate([records, _crossings(breaks, edges, records)])))
    x, weights = x.ravel(), weights.ravel()
    home = np.clip(np.searchsorted(records, x, "right") - 1, 0, inputs - 1)
    weights /= np.diff(records)[home]
    matrix = np.zeros((outputs, inputs))
    # By blocks of records of one shape: bounded memory, one compilation.
    block = max(1, _EVALUATIONS // (outputs * len(_NODES)))
    padding = -len(x) % block if len(x) > block else 0
    x, weights, home = (np.append(a, np.repeat(a[-1:], padding)) for a in (x, weights, home))
    weights[len(weights) - padding :] = 0.0
    for start in range(0, len(x), block):
        part = slice(start, start + block)
        moving = np.asarray(breaks(x[part]))
        cuts = np.sort(np.concatenate([np.broadcast_to(edges, (len(moving), len(edges))), moving], 1), 1)
        y, y_weights = _gauss(cuts)
        density = np.exp(np.asarray(log_density(y.reshape(len(y), -1), x[part]))).reshape(y.shape)
        mass = (density * y_weights).sum(-1) * weights[part, None]
        bins = np.clip(np.searchsorted(edges, y[..., 1], "right") - 1, 0, outputs - 1)
        np.add.at(matrix, (bins, np.broadcast_to(home[part, None], bins.shape)), mass)
    return matrix


def _crossings(breaks: Callable[[np.ndarray], Array], edges: np.ndarray, records: np.ndarray) -> np.ndarray:
    """The records at which a break of the density lies on an edge, by bisection inside each input bin."""
    at = np.asarray(breaks(records))  # [inputs + 1, breaks]
    above = at[..., None] > edges
    i, which, edge = np.nonzero(above[1:] != above[:-1])
    low, high = records[i], records[i + 1]
    rising = above[i + 1, which, edge]
    for _ in range(52 if len(i) else 0):
        middle = (low + high) / 2
        beyond = np.asarray(breaks(middle))[np.arange(len(i)), which] > edges[edge]
        low, high = np.where(beyond == rising, low, middle), np.where(beyond == rising, middle, high)
    return (low + high) / 2


@jax.jit
def _histogram(reports: Array, edges: Array) -> Array:
    outputs = len(edges) - 1
    bins = jnp.clip(jnp.searchsorted(edges, reports, side="right") - 1, 0, outputs - 1)
    bins = jnp.where(jnp.isnan(reports), outputs, bins)  # out of range, and dropped
    columns = jnp.broadcast_to(jnp.arange(reports.shape[1]), bins.shape)
    return jnp.zeros((outputs, reports.shape[1]), jnp.int32).at[bins, columns].add(1, mode="drop")


def histogram(reports: ArrayLike | tuple, edges: ArrayLike | tuple) -> Array:
    """Counts of reports by output bin, for reports [n] or [n, columns]: int32 [outputs] or [outputs, columns].

    A bin holds its left edge; reports beyond the ends go to the end bins. NaN is a report not sent.

    >>> histogram(jnp.array([-9.0, 0.1, 0.2, 5.0, jnp.nan]), jnp.array([-1.0, 0.0, 1.0])).tolist()
    [1, 3]
    """
    reports, edges = jnp.asarray(reports), jnp.asarray(edges)
    if reports.ndim not in (1, 2):
        raise ValueError(f"reports must have shape (n,) or (n, columns), got {reports.shape}")
    if edges.ndim != 1 or len(edges) < 2:
        raise ValueError(f"edges must have shape (outputs + 1,), got {edges.shape}")
    if reports.ndim == 2:
        return _histogram(reports, edges)
    return _histogram(reports[:, None], edges)[:, 0]


def em(
    counts: ArrayLike | tuple,
    matrix: ArrayLike | tuple,
    *,
    smooth: bool = False,
    tolerance: Scalar = 1e-3,
    max_iterations: int = 10_000,
) -> Estimate:
    r"""The distribution of records of maximum likelihood, by expectation maximisation; with ``smooth`` that of EMS.

    Law: from the uniform distribution, :math:`\theta_i \leftarrow \theta_i \sum_o M_{oi} n_o / (M\theta)_o`,
    normalised, until the log-likelihood changes by less than ``tolerance``. With ``smooth`` each step is followed
    by a mean over neighbours with weights (1, 2, 1)/4, at the ends (2, 1)/3.

    Utility: the maximum fits the noise of the counts too; for smooth distributions take ``smooth`` and 256 bins or
    more. For two bumps of widths 0.2 and 0.25, 10^5 reports and epsilon 1, the L1 distance to the truth is then
    0.11 to 0.16 (EM: 0.35 to 0.67), and 0.3 at 64 bins.

    Numerics: the change of the log-likelihood is summed over bins, which float32 keeps. Invalid counts and those of
    unreachable bins are 0; a column without counts gives the uniform law.

    ``counts`` are [outputs] or [outputs, columns], ``matrix`` is of :func:`transition`; ``tolerance`` is in nats
    (Li et al.: ``1e-3 * exp(epsilon)`` for EM, 1e-3 for EMS), and may be traced, as ``max_iterations`` may.

    Reference: Li et al., SIGMOD 2020, section 5.3, Algorithm 1.

    >>> em(jnp.array([30, 10]), jnp.array([[0.75, 0.25], [0.25, 0.75]]), tolerance=1e-6).distribution.round(2)
    Array([1., 0.], dtype=float32)
    """
    counts, matrix = jnp.asarray(counts), jnp.asarray(matrix)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"matrix must have shape (outputs, inputs), got {matrix.shape}")
    if counts.ndim not in (1, 2) or len(counts) != len(matrix):
        outputs = len(matrix)
        raise ValueError(f"counts must have shape ({outputs},) or ({outputs}, columns), got {counts.shape}")
    validate.in_range(0.0, np.inf, tolerance=tolerance)
    validate.integer_in(0, max_iterations=max_iterations)
    found = _iterate(counts.reshape(len(counts), -1), matrix, tolerance, max_iterations, smooth)
    return found if counts.ndim == 2 else Estimate(*(part[..., 0] for part in found))


def _smoothed(theta: Array) -> Array:
    """The mean over neighbours, [inputs, columns]."""
    kernel = lambda a: 2 * a + jnp.pad(a, ((1, 1), (0, 0)))[2:] + jnp.pad(a, ((1, 1), (0, 0)))[:-2]
    return kernel(theta) / kernel(jnp.ones_like(theta))


class _State(NamedTuple):
    """An estimate between two iterations, by column; ``done`` counts those of all columns."""

    theta: Array
    mass: Array  # of the reports under theta
    iterations: Array
    active: Array
    done: Array


@partial(jax.jit, static_argnames="smooth")
def _iterate(counts: Array, matrix: Array, tolerance: Scalar, max_iterations: Scalar, smooth: bool) -> Estimate:
    dtype = jnp.promote_types(matrix.dtype, jnp.float32)
    matrix, counts = matrix.astype(dtype), counts.astype(dtype)
    # Accelerators would multiply in fewer bits than float32 has by default.
    apply = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
    # Turned once, outside the loop: left to itself XLA turns it in every step, which then takes 20 times as long.
    matrix_t = jax.lax.optimization_barrier(matrix.T)
    counted = jnp.isfinite(counts) & (counts > 0) & (matrix > 0).any(1)[:, None]
    counts = jnp.where(counted, counts, 0.0)
    total = counts.sum(0)
    start = jnp.full((matrix.shape[1], counts.shape[1]), 1 / matrix.shape[1], dtype)

    def normalised(theta: Array) -> Array:
        mass = theta.sum(0)
        return theta / jnp.where(mass > 0, mass, 1.0)

    def step(state: _State) -> _State:
        theta, mass, iterations, active, done = state
        safe = jnp.where(counted & (mass > 0), mass, 1.0)
        new = normalised(theta * apply(matrix_t, counts / safe))
        if smooth:
            new = normalised(_smoothed(new))
        difference = new - theta
        relative = jnp.where(counted, apply(matrix, difference) / safe, 0.0)
        # theta sums to 1 up to rounding; n times that rounding is taken out of the change.
        drift = jnp.log1p(difference.sum(0) / theta.sum(0))
        change = (counts * jnp.log1p(jnp.maximum(relative, -1 + jnp.finfo(dtype).eps))).sum(0) - total * drift
        theta, mass = jnp.where(active, new, theta), jnp.where(active, apply(matrix, new), mass)
        return _State(theta, mass, iterations + active, active & (jnp.abs(change) >= tolerance), done + 1)

    nothing = jnp.zeros(counts.shape[1], jnp.int32)
    theta, mass, iterations, _, _ = jax.lax.while_loop(
        lambda state: state.active.any() & (state.done < max_iterations),
        step,
        _State(start, apply(matrix, start), nothing, total > 0, jnp.int32(0)),
    )
    likelihood = (counts * jnp.log(jnp.where(counted & (mass > 0), mass, 1.0))).sum(0)
    return Estimate(theta, iterations, likelihood)


def moments(distribution: ArrayLike | tuple, centres: ArrayLike | tuple) -> tuple[Array, Array]:
    """Mean and variance of estimated distributions, each bin's mass at its centre: [] or [columns].

    >>> [float(v) for v in moments(jnp.array([0.5, 0.5]), jnp.array([-1.0, 1.0]))]
    [0.0, 1.0]
    """
    distribution, centres = jnp.asarray(distribution), jnp.asarray(centres)
    if centres.ndim != 1 or distribution.ndim not in (1, 2) or len(distribution) != len(centres):
        raise ValueError(
            f"distribution must have shape (inputs,) or (inputs, columns) for centres of shape (inputs,), "
            f"got {distribution.shape} and {centres.shape}"
        )
    mean = jnp.tensordot(centres, distribution, 1)
    away = centres.reshape(-1, *[1] * (distribution.ndim - 1)) - mean
    return mean, (away**2 * distribution).sum(0)
