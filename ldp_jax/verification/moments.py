"""Does the density sum to 1, and has the estimate the moments that are said? By quadrature, and by draws."""

import itertools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import validate
from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.mechanism import HasCoordinates
from ldp_jax.core.spaces import NotApplicable
from ldp_jax.core.types import PRNGKey
from ldp_jax.verification._laws import law_of
from ldp_jax.verification.empirical import draws, estimates, typical_record
from ldp_jax.verification.exact import logs_of, spaces
from ldp_jax.verification.statistics import Fit

_MOST_NODES = 2_000_000
_EXACT = 1e-8
"""How far a mass or a moment in float64 may be from its quadrature, relative."""

SIGMAS = 5.0
"""Standard errors that a mean of draws may be off by: 6e-7 of correct samplers are, in one number."""


class Law(NamedTuple):
    """A quadrature rule over reports: the integral of f is sum(weights * f(reports)).

    Attributes:
      reports: stacked.
      weights: float64 [n].
    """

    reports: Any
    weights: np.ndarray


def law(mechanism: Any, x: Any) -> Law:
    """The rule for the reports about one record, with x64 enabled; of coordinates a product rule for every set.

    Raises:
      NotApplicable: where that has more than two million points.
    """
    _, codomain = spaces(mechanism)
    if isinstance(mechanism, HasCoordinates):
        return _of_coordinates(mechanism, codomain, np.asarray(x))
    one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], x)
    reports, weights = law_of(codomain).quadrature(one, lambda y: logs_of(mechanism, y, x))
    return Law(jax.tree.map(np.asarray, reports), np.asarray(weights))


def _of_coordinates(mechanism: HasCoordinates, codomain: Any, x: np.ndarray) -> Law:
    dim, k = codomain.dim, codomain.sent
    lines = []
    for j, x_j in enumerate(x):
        one = mechanism.coordinate(j)
        log_density = lambda y, one=one, x_j=x_j: logs_of(one, y, x_j)
        space = one.codomain()
        law = law_of(space)
        infinite = len(space.branches) == 1 and law.far(np.ones(1)) is not None
        # Tails come in panels that double, the last falls by up to e^-25: quarters of it are good to
        # 1e-15 of the whole. Other pieces are constant or short.
        panels, order = (4, 8) if infinite else (1, 4)
        rule = law.quadrature(jnp.asarray(x_j)[None], log_density, panels=panels, order=order)
        lines.append(Law(jax.tree.map(np.asarray, rule[0]), np.asarray(rule[1])))
    subsets = list(itertools.combinations(range(dim), k))
    if len(subsets) * max(len(line.weights) for line in lines) ** k > _MOST_NODES:
        raise NotApplicable(f"the reports of {k} of {dim} coordinates are too many to count: test a smaller dim")
    rules = [_product([lines[j] for j in chosen]) for chosen in subsets]
    indices = [
        np.broadcast_to(np.array(chosen, np.int32), (len(rule.weights), k))
        for chosen, rule in zip(subsets, rules, strict=True)
    ]
    values = jax.tree.map(lambda *leaves: np.concatenate(leaves), *(rule.reports for rule in rules))
    reports = codomain.of_entries(np.concatenate(indices), values)
    return Law(reports, np.concatenate([rule.weights for rule in rules]))


def _product(lines: list[Law]) -> Law:
    """The product rule of some coordinates; reports have a coordinate axis after the first."""
    places = [at.ravel() for at in np.meshgrid(*(np.arange(len(line.weights)) for line in lines), indexing="ij")]
    weights = np.prod([line.weights[at] for line, at in zip(lines, places, strict=True)], 0)
    picked = [
        jax.tree.map(lambda leaf, at=at: leaf[at], line.reports) for line, at in zip(lines, places, strict=True)
    ]
    return Law(jax.tree.map(lambda *leaves: np.stack(leaves, 1), *picked), weights)


@jax.jit
def closed_forms(mechanism: Any, x: Any) -> Any:
    """Mean and variance as the mechanism says them."""
    return mechanism.mean(x), mechanism.variance(x)


def _masses(mechanism: Any, x: Any) -> tuple[Any, np.ndarray]:
    """The reports of the rule about one record, and their masses; with x64 enabled."""
    rule = law(mechanism, x)
    return rule.reports, rule.weights * np.exp(np.asarray(logs_of(mechanism, rule.reports, x), np.float64))


def true_moments(mechanism: Any, x: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, variance and fourth central moment of the estimate, by quadrature; with x64 enabled."""
    return _moments(mechanism, *_masses(mechanism, x))


def _moments(mechanism: Any, reports: Any, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    values = np.asarray(estimates(mechanism, reports), np.float64)
    mass = mass.reshape(-1, *[1] * (values.ndim - 1))
    mean = (mass * values).sum(0)
    second, fourth = ((mass * (values - mean) ** power).sum(0) for power in (2, 4))
    return np.asarray(mean), np.asarray(second), np.asarray(fourth)


def _records(mechanism: Any, x: Any) -> list[Any]:
    """The record that is given; else a typical one, the centre and both extremes; float64."""
    domain, _ = spaces(mechanism)
    found = [x] if x is not None else [domain.typical(), domain.centre(), *domain.extremes()]
    return [jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), record) for record in found]


def sums_to_one(mechanism: Any, x: Any = None) -> Fit:
    """Whether the density of reports sums to 1 to 1e-8, in float64.

    Args:
      mechanism: with ``log_density``.
      x: a record; by default a typical one, the centre and both extremes.

    Raises:
      NotApplicable: where reports are too many to count.

    >>> from ldp_jax.features import Laplace
    >>> sums_to_one(Laplace(1.0)).fits
    True
    """
    with float64_on_cpu():
        return _total([_masses(mechanism, record)[1].sum() for record in _records(mechanism, x)])


def _total(found: list[Any]) -> Fit:
    worst = float(np.max(np.abs(np.array(found) - 1)))  # NaN is not hidden
    return Fit(worst <= _EXACT, "total mass", worst, _EXACT, _EXACT, 0)


def matches_moments(mechanism: Any, x: Any = None) -> Fit:
    """Whether ``mean`` and ``variance`` are those of the estimate under the density.

    To 1e-8 in float64; in float32 to 1e-5 of a mean and 3e-5 of a variance, and 1e-6.

    Args:
      mechanism: with ``log_density``, ``estimate``, ``mean`` and ``variance``.
      x: a record; by default a typical one, the centre and both extremes.

    Returns:
      A :class:`Fit` whose statistic is the largest distance over what is allowed.

    Raises:
      NotApplicable: where reports are too many to count.

    >>> from ldp_jax.features import Piecewise
    >>> matches_moments(Piecewise(1.0)).fits
    True
    """
    return _integrated(mechanism, x)[1]


def integrals(mechanism: Any, x: Any = None) -> tuple[Fit, Fit]:
    """The answers of :func:`sums_to_one` and :func:`matches_moments`, from one quadrature.

    >>> from ldp_jax.features import Duchi
    >>> total, moments = integrals(Duchi(1.0))
    >>> total.fits, moments.fits
    (True, True)
    """
    totals, moments = _integrated(mechanism, x)
    return _total(totals), moments


def _integrated(mechanism: Any, x: Any) -> tuple[list[Any], Fit]:
    """The total mass under each record, and whether the moments are those of the mass."""
    worst, totals = 0.0, []
    for record in _records(mechanism, x):
        with float64_on_cpu():
            reports, mass = _masses(mechanism, record)
            totals.append(mass.sum())
            mean, variance, _ = _moments(mechanism, reports, mass)
            wide = [np.asarray(moment) for moment in closed_forms(mechanism, record)]
        short = jax.tree.map(np.float32, record)
        single = [np.asarray(moment) for moment in closed_forms(mechanism, short)]
        for said, true, relative, absolute in (
            (wide[0], mean, _EXACT, _EXACT),
            (wide[1], variance, _EXACT, 1e-12),
            (single[0], wide[0], 1e-5, 1e-6),
            (single[1], wide[1], 3e-5, 1e-6),
        ):
            worst = float(np.maximum(worst, np.max(np.abs(said - true) / (absolute + relative * np.abs(true)))))
    return totals, Fit(worst <= 1.0, "moments", worst, 1.0, _EXACT, 0)


def draws_have_moments(mechanism: Any, key: PRNGKey, x: Any = None, *, trials: int = 200_000) -> Fit:
    """Whether estimates of draws have the stated mean and variance, within five standard errors.

    The standard errors are the law's; of vectors whose reports are too many to count, those of the draws.

    Args:
      mechanism: with ``estimate``, ``mean`` and ``variance``.
      key: a typed threefry key.
      x: the record, exact in float32; by default one off the centre.
      trials: draws.

    >>> from ldp_jax.features import Duchi
    >>> draws_have_moments(Duchi(1.0), jax.random.key(0)).fits
    True
    """
    validate.integer_in(1000, trials=trials)
    spaces(mechanism)
    x = typical_record(mechanism) if x is None else mechanism.domain().given(x)
    return moments_of(mechanism, x, draws(mechanism, key, x, trials))


def moments_of(mechanism: Any, x: Any, y: Any) -> Fit:
    """The same of stacked reports of a record."""
    values = np.asarray(estimates(mechanism, y), np.float64)
    trials = len(values)
    with float64_on_cpu():
        wide = jax.tree.map(np.float64, x)
        mean, variance = (np.asarray(moment, np.float64) for moment in closed_forms(mechanism, wide))
        try:
            fourth = true_moments(mechanism, wide)[2] if hasattr(mechanism, "log_density") else None
        except NotApplicable:
            fourth = None
    if fourth is None:
        fourth = ((values - values.mean(0)) ** 4).mean(0)
    error = np.sqrt(variance / trials)
    spread = np.sqrt(np.maximum(fourth - variance**2, 0.0) / trials) + error**2
    off = np.abs(values.mean(0) - mean), np.abs(((values - mean) ** 2).mean(0) - variance)
    tiny = 1e-6 / SIGMAS  # what float32 rounds an estimate by
    worst = float(np.max([np.max(gap / (size + tiny)) for gap, size in zip(off, (error, spread), strict=True)]))
    return (
        Fit(worst <= SIGMAS, "moments of draws", worst, SIGMAS, float(np.max(2 * SIGMAS * error)), trials)
        if math.isfinite(worst)
        else Fit(False, "moments of draws", math.inf, SIGMAS, 0.0, trials)
    )
