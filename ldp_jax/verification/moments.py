"""Does the density sum to 1, and has the estimate its claimed moments? By quadrature and draws."""

import contextlib
import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import validate
from ldp_jax.core.flags import standard_flags
from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.mechanism import HasCoordinates, HasMoments, Randomizer
from ldp_jax.core.spaces import NotApplicable, Reports
from ldp_jax.core.spaces.space import Rule
from ldp_jax.core.types import PRNGKey, Report, Scalar, Values
from ldp_jax.verification._laws import law_of, refuse_narrow
from ldp_jax.verification._programs import Exact, count_of, draws, estimates, logs_of, take, wide
from ldp_jax.verification.exact import spaces
from ldp_jax.verification.statistics import Fit

_MOST_NODES = 2_000_000
_EXACT = 1e-8  # how far a mass or a moment in float64 may be from its quadrature, relative

# Of the largest estimate: one rounding, by which moments in float32 are off where estimates cancel
_ROUNDED = 2.0**-24

SIGMAS = 5.0
"""Standard errors that a mean of draws may be off by: 6e-7 of correct samplers are, in one
number.
"""


class Law(NamedTuple):
    """A quadrature rule over stacked reports.

    ``misplaced`` is the mass that :func:`_misplaced` counts.
    """

    reports: Report
    weights: np.ndarray
    misplaced: float = 0.0


def law(mechanism: Exact, x: Values) -> Law:
    """The rule for the reports about one record, with x64 enabled.

    Of coordinates a product rule for every set.
    """
    if isinstance(mechanism, HasCoordinates):
        return _of_coordinates(mechanism, np.asarray(x))
    one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], x)
    return _rule(law_of(spaces(mechanism)[1]).quadrature(one, lambda y: logs_of(mechanism, y, x)))


def _rule(rule: Rule) -> Law:
    return Law(jax.tree.map(np.asarray, rule[0]), np.asarray(rule[1]))


def _of_coordinates(mechanism: HasCoordinates, x: np.ndarray) -> Law:
    codomain = mechanism.codomain()
    dim, k = codomain.dim, codomain.sent
    too_many = f"the reports of {k} of {dim} coordinates are too many to count: test a smaller dim"
    if math.comb(dim, k) > _MOST_NODES:
        raise NotApplicable(too_many)
    lines, off = [], []
    for j, x_j in enumerate(x):
        one = mechanism.coordinate(j)
        log_density = lambda y, one=one, x_j=x_j: logs_of(one, y, x_j)
        space = one.codomain()
        law = law_of(space)
        infinite = len(space.branches) == 1 and law.far(np.ones(1)) is not None
        # Tails come in panels that double, the last falls by up to e^-25: quarters of it are good
        # to 1e-15 of the whole. Other pieces are constant or short.
        panels, order = (4, 8) if infinite else (1, 4)
        lines.append(
            _rule(law.quadrature(jnp.asarray(x_j)[None], log_density, panels=panels, order=order))
        )
        off.append(_misplaced(space, lines[-1].reports, np.exp(log_density(lines[-1].reports))))
    subsets = list(itertools.combinations(range(dim), k))
    if len(subsets) * max(len(line.weights) for line in lines) ** k > _MOST_NODES:
        raise NotApplicable(too_many)
    rules = [_product([lines[j] for j in chosen]) for chosen in subsets]
    indices = [
        np.broadcast_to(np.array(chosen, np.int32), (len(rule.weights), k))
        for chosen, rule in zip(subsets, rules, strict=True)
    ]
    values = jax.tree.map(lambda *leaves: np.concatenate(leaves), *(rule.reports for rule in rules))
    reports = codomain.of_entries(np.concatenate(indices), values)
    return Law(reports, np.concatenate([rule.weights for rule in rules]), k * max(off))


def _misplaced(space: Reports, y: Report, density: np.ndarray) -> float:
    """The mass that float64 may put on the other side of a break.

    Four spacings of the densest number.
    """
    if not space.branches:
        return 0.0
    volume, atom = law_of(space).volume(y)  # four spacings, of float64 as the numbers are
    found = float(np.where(atom, 0.0, volume * density).max())
    refuse_narrow(found)
    return found


def _product(lines: list[Law]) -> Law:
    """The product rule of some coordinates; reports have a coordinate axis after the first."""
    places = [
        at.ravel()
        for at in np.meshgrid(*(np.arange(len(line.weights)) for line in lines), indexing="ij")
    ]
    weights = np.prod([line.weights[at] for line, at in zip(lines, places, strict=True)], 0)
    picked = [take(line.reports, at) for line, at in zip(lines, places, strict=True)]
    return Law(jax.tree.map(lambda *leaves: np.stack(leaves, 1), *picked), weights)


@jax.jit
def _closed_forms(mechanism: HasMoments, x: Values) -> tuple[Scalar, Scalar]:
    return mechanism.mean(x), mechanism.variance(x)


def _masses(mechanism: Exact, x: Values) -> tuple[Report, np.ndarray, float]:
    """The reports of the rule about one record, their masses, and what may be misplaced.

    With x64 enabled.
    """
    rule = law(mechanism, x)
    density = np.exp(np.asarray(logs_of(mechanism, rule.reports, x), np.float64))
    off = rule.misplaced or _misplaced(spaces(mechanism)[1], rule.reports, density)
    return rule.reports, rule.weights * density, off


def _moments(
    mechanism: Randomizer, reports: Report, mass: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, variance and fourth central moment of the estimate; with x64 enabled."""
    values = np.asarray(estimates(mechanism, reports), np.float64)
    mass = mass.reshape(-1, *[1] * (values.ndim - 1))
    mean = (mass * values).sum(0)
    second, fourth = ((mass * (values - mean) ** power).sum(0) for power in (2, 4))
    return np.asarray(mean), np.asarray(second), np.asarray(fourth)


def _records(mechanism: Randomizer, x: Values | None) -> list[Report]:
    """The record that is given; else a typical one, the centre and both extremes; float64."""
    domain, _ = spaces(mechanism)
    found = [x] if x is not None else [domain.typical(), domain.centre(), *domain.extremes()]
    return [jax.tree.map(np.float64, record) for record in found]


@standard_flags()
def sums_to_one(mechanism: Exact, x: Values | None = None) -> Fit:
    """Whether the density sums to 1 in float64.

    The tolerance is 1e-8 and four spacings of the densest number, 1e-4 at most.

    >>> from ldp_jax.features import Laplace
    >>> sums_to_one(Laplace(1.0)).fits
    True
    """
    with float64_on_cpu():
        found = [_masses(mechanism, record)[1:] for record in _records(mechanism, x)]
    return _total([mass.sum() for mass, _ in found], max(off for _, off in found))


def _total(found: list[float], misplaced: float) -> Fit:
    worst = float(np.max(np.abs(np.array(found) - 1)))  # NaN is not hidden
    limit = _EXACT + misplaced
    return Fit(worst <= limit, "total mass", worst, limit, limit, 0)


@standard_flags()
def matches_moments(mechanism: Exact, x: Values | None = None) -> Fit:
    """Whether ``mean`` and ``variance`` are those of the estimate under the density.

    To 1e-8 in float64, and what :func:`sums_to_one` allows times the largest estimate, or the
    square of twice it; in float32 to 1e-5 of a mean and 3e-5 of a variance, 1e-6, and one rounding
    of the largest estimate.

    >>> from ldp_jax.features import Piecewise
    >>> matches_moments(Piecewise(1.0)).fits
    True
    """
    return integrals(mechanism, x)[1]


def integrals(mechanism: Exact, x: Values | None = None) -> tuple[Fit, Fit]:
    """The answers of :func:`sums_to_one` and :func:`matches_moments`, from one quadrature."""
    worst = 0.0
    said_of = "moments"
    totals = []
    largest = 0.0
    misplaced = 0.0
    for record in _records(mechanism, x):
        with float64_on_cpu():
            reports, mass, off = _masses(mechanism, record)
            totals.append(mass.sum())
            misplaced = max(misplaced, off)
            mean, variance, _ = _moments(mechanism, reports, mass)
            largest = max(
                largest,
                float(np.max(np.abs(np.asarray(estimates(mechanism, reports), np.float64)))),
            )
            wide = [np.asarray(moment) for moment in _closed_forms(mechanism, record)]
        single = [
            np.asarray(moment)
            for moment in _closed_forms(mechanism, jax.tree.map(np.float32, record))
        ]
        compared = (
            ("mean", wide[0], mean, _EXACT, _EXACT + misplaced * largest),
            ("variance", wide[1], variance, _EXACT, 1e-12 + misplaced * (2 * largest) ** 2),
            ("mean", single[0], wide[0], 1e-5, 1e-6 + _ROUNDED * largest),
            ("variance", single[1], wide[1], 3e-5, 1e-6 + _ROUNDED * largest**2),
        )
        for place, (name, said, true, relative, absolute) in enumerate(compared):
            of_float32 = place > 1
            if of_float32 and not worst <= 1.0:
                break
            away = np.abs(said - true) / (absolute + relative * np.abs(true))
            numbers = _most(said, away), _most(true, away)
            if of_float32 and not away.max() <= 1.0:
                raise NotApplicable(
                    f"{name} is {numbers[0]} in float32 and {numbers[1]} in float64: "
                    "its formula cancels"
                )
            if not away.max() <= worst:  # NaN is not hidden
                worst = float(away.max())
                said_of = f"{name} is said to be {numbers[0]}, and is {numbers[1]}"
    return _total(totals, misplaced), Fit(worst <= 1.0, said_of, worst, 1.0, _EXACT, 0)


def _most(values: np.ndarray, away: np.ndarray) -> str:
    """The number that is farthest away, in six digits."""
    return f"{float(np.ravel(values)[int(np.argmax(away))]):.6g}"


@standard_flags()
def draws_have_moments(
    mechanism: Randomizer, key: PRNGKey, x: Values | None = None, *, trials: int = 200_000
) -> Fit:
    """Whether estimates of draws have the stated mean and variance, within five standard errors.

    The standard errors are the law's; of vectors whose reports are too many to count, those of the
    draws.

    >>> from ldp_jax.features import Duchi
    >>> draws_have_moments(Duchi(1.0), jax.random.key(0)).fits
    True
    """
    validate.integer_in(1000, trials=trials)
    domain, _ = spaces(mechanism)
    record = domain.typical() if x is None else domain.given(x)
    return moments_of(mechanism, record, draws(mechanism, key, record, trials))


def moments_of(mechanism: Randomizer, x: Values, y: Report) -> Fit:
    """The same of stacked reports of a record."""
    values = np.asarray(estimates(mechanism, y), np.float64)
    trials = count_of(y)
    fourth = ((values - values.mean(0)) ** 4).mean(0)
    with float64_on_cpu():
        record = wide(x)
        mean, variance = (
            np.asarray(moment, np.float64) for moment in _closed_forms(mechanism, record)
        )
        if isinstance(mechanism, Exact):
            with contextlib.suppress(NotApplicable):
                reports, mass, _ = _masses(mechanism, record)
                if (
                    abs(mass.sum() - 1) < 0.01
                ):  # else the rule has missed a piece that is too narrow for it
                    fourth = _moments(mechanism, reports, mass)[2]
    error = np.sqrt(variance / trials)
    spread = np.sqrt(np.maximum(fourth - variance**2, 0.0) / trials) + error**2
    off = np.abs(values.mean(0) - mean), np.abs(((values - mean) ** 2).mean(0) - variance)
    tiny = 1e-6 / SIGMAS  # what float32 rounds an estimate by
    worst = float(
        np.max(
            [np.max(gap / (size + tiny)) for gap, size in zip(off, (error, spread), strict=True)]
        )
    )
    worst = worst if math.isfinite(worst) else math.inf
    return Fit(
        worst <= SIGMAS,
        "moments of draws",
        worst,
        SIGMAS,
        float(np.max(2 * SIGMAS * error)),
        trials,
    )
