"""What every mechanism must satisfy, as functions that a correct mechanism passes and a broken twin fails.

A check takes a mechanism on a number or on a vector (:class:`Sampled`) and reads the rest from its domain and
codomain. Laws are integrated in float64; draws are those of float32, as users make them.
"""

import itertools
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.features import SparseReport
from ldp_jax.mechanism import Box, Finite, Interval, Subset, privacy_loss
from tests import stats

# Exact in float32, so that float64 laws and float32 draws are about the same record.
SCALARS = np.array([-1.0, -0.6, 0.0, 0.3, 1.0], np.float32).astype(np.float64)
WEIRD = np.array([np.nan, np.inf, -np.inf, 1e30, -7.0, 1.5], np.float32)
CLIPPED = np.array([0.0, 1.0, -1.0, 1.0, -1.0, 1.0], np.float32)


def records(m: Any) -> np.ndarray:
    """Records to try: numbers, or vectors that mix them."""
    domain = m.domain()
    if isinstance(domain, Box):
        return np.stack([np.resize(SCALARS[start:], domain.dim) for start in range(len(SCALARS))])
    return SCALARS


# Compiled once a class and shape: epsilon is a leaf, so all its values share one program.
log_densities = jax.jit(jax.vmap(lambda m, y, x: m.log_density(y, x), in_axes=(None, 0, None)))
pairwise = jax.jit(
    jax.vmap(jax.vmap(lambda m, y, x: m.log_density(y, x), in_axes=(None, 0, None)), in_axes=(None, None, 0))
)
estimates = jax.jit(jax.vmap(lambda m, y: m.estimate(y), in_axes=(None, 0)))
draw = jax.jit(jax.vmap(lambda m, key, x: m.privatize(key, x), in_axes=(None, 0, None)))
draw_each = jax.jit(jax.vmap(lambda m, key, x: m.privatize(key, x), in_axes=(None, 0, 0)))
losses = jax.jit(jax.vmap(lambda m, y, a, b: privacy_loss(m, y, a, b), in_axes=(None, 0, 0, 0)))
moments = jax.jit(lambda m, x: (m.mean(x), m.variance(x)))


class Law(NamedTuple):
    """A quadrature rule over reports: integral of f = sum(weights * f(reports))."""

    reports: Any
    weights: np.ndarray


def _edges(codomain: Interval, x: Any, density: Any) -> np.ndarray:
    """Where the density may jump or bend, ends included; an infinite end goes to where nothing is left."""
    breaks = np.sort(np.asarray(codomain.breaks(jnp.asarray(x)), np.float64))
    lower, upper = float(codomain.lower), float(codomain.upper)
    if np.isinf(lower):
        middle, width = breaks.mean(), 1.0
        while float(density(middle + width)) > float(density(middle)) - 50.0:
            width *= 2.0
        lower, upper = middle - width, middle + width
    return np.concatenate([[lower], np.clip(breaks, lower, upper), [upper]])


def _nodes(edges: np.ndarray, panels: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on every panel of every piece."""
    cuts = np.concatenate([np.linspace(a, b, panels + 1) for a, b in itertools.pairwise(edges)])
    cuts = cuts.reshape(-1, panels + 1)
    left, half = cuts[:, :-1].ravel(), np.diff(cuts, axis=1).ravel() / 2
    at, weight = np.polynomial.legendre.leggauss(order)
    return (left[:, None] + half[:, None] * (1 + at)).ravel(), (half[:, None] * weight).ravel()


def _line(m: Any, x: Any) -> tuple[np.ndarray, np.ndarray]:
    """The rule for a mechanism on one number."""
    codomain = m.codomain()
    if isinstance(codomain, Finite):
        return np.asarray(codomain.values, np.float64), np.ones(len(codomain.values))
    infinite = np.isinf(float(codomain.lower))
    edges = _edges(codomain, x, lambda y: log_densities(m, jnp.asarray(y)[None], x)[0])
    return _nodes(edges, 16 if infinite else 1, 8 if infinite else 4)


def law(m: Any, x: Any) -> Law:
    """The rule for any mechanism; vectors by every subset and the product rule of their coordinates."""
    codomain = m.codomain()
    if not isinstance(codomain, Subset):
        return Law(*_line(m, x))
    lines = [_line(m.inner, x[j]) for j in range(codomain.dim)]
    indices, values, weights = [], [], []
    for chosen in itertools.combinations(range(codomain.dim), codomain.k):
        grid = np.meshgrid(*(lines[j][0] for j in chosen), indexing="ij")
        weight = np.meshgrid(*(lines[j][1] for j in chosen), indexing="ij")
        values.append(np.stack([g.ravel() for g in grid], 1))
        weights.append(np.prod([w.ravel() for w in weight], 0))
        indices.append(np.broadcast_to(np.array(chosen, np.int32), values[-1].shape))
    return Law(SparseReport(np.concatenate(indices), np.concatenate(values)), np.concatenate(weights))


def true_moments(m: Any, x: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, variance and fourth central moment of the estimate, by quadrature of the density."""
    rule = law(m, x)
    mass = rule.weights * np.exp(np.asarray(log_densities(m, rule.reports, x), np.float64))
    values = np.asarray(estimates(m, rule.reports), np.float64)
    mass = mass.reshape(-1, *[1] * (values.ndim - 1))
    mean = (mass * values).sum(0)
    return mean, (mass * (values - mean) ** 2).sum(0), (mass * (values - mean) ** 4).sum(0)


# --- The checks -----------------------------------------------------------------------------------------


def check_total(m: Any) -> None:
    """Any record gives a finite report in the codomain: the one of the record that it is clipped to.

    An exception or a NaN that depends on a record would be an output outside the analysis.
    """
    vector = isinstance(m.domain(), Box)
    bad = np.stack([np.resize(WEIRD[i:], m.domain().dim) for i in range(len(WEIRD))]) if vector else WEIRD
    good = np.stack([np.resize(CLIPPED[i:], m.domain().dim) for i in range(len(WEIRD))]) if vector else CLIPPED
    n = len(bad)
    reports, clipped = (draw_each(m, jax.random.split(jax.random.key(1), n), x) for x in (bad, good))
    assert_in_codomain(m.codomain(), reports)
    jax.tree.map(np.testing.assert_array_equal, reports, clipped)


def assert_in_codomain(codomain: Any, reports: Any) -> None:
    """Finite, and inside up to two float32 roundings of the bound."""
    if isinstance(codomain, Subset):
        indices = np.asarray(reports.indices)
        assert indices.dtype == np.int32
        assert ((indices >= 0) & (indices < codomain.dim)).all()
        assert (np.diff(indices, axis=-1) > 0).all(), "indices must be sorted and distinct"
        return assert_in_codomain(codomain.inner, reports.values)
    reports = np.asarray(reports)
    assert np.isfinite(reports).all()
    if isinstance(codomain, Finite):
        assert np.isin(reports, np.asarray(codomain.values, np.float32)).all()
    else:
        lower, upper = float(codomain.lower), float(codomain.upper)
        slack = 2 * np.spacing(np.float32(upper)) if np.isfinite(upper) else 0.0
        assert ((reports >= lower - slack) & (reports <= upper + slack)).all()
    return None


def check_density_sums_to_one(m: Any) -> None:
    with jax.enable_x64(True):
        for x in records(m):
            rule = law(m, x)
            total = (rule.weights * np.exp(np.asarray(log_densities(m, rule.reports, x), np.float64))).sum()
            np.testing.assert_allclose(total, 1.0, rtol=1e-8, err_msg=f"x = {x}")


def check_moments_are_those_of_the_density(m: Any) -> None:
    """Closed forms in float64 equal quadrature; in float32 they equal themselves.

    Smallest defect: 1e-8 of a mean or variance. A float32 variance may be a difference of numbers near 1, and
    as small as 5e-7 (Duchi's at epsilon = 16, x = 1), hence the absolute 1e-6.
    """
    for x in records(m):
        with jax.enable_x64(True):
            mean, variance, _ = true_moments(m, x)
            closed = [np.asarray(v) for v in moments(m, x)]
        np.testing.assert_allclose(closed[0], mean, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(closed[1], variance, rtol=1e-8, atol=1e-12)
        single = [np.asarray(v) for v in moments(m, np.float32(x))]
        np.testing.assert_allclose(single[0], closed[0], rtol=1e-5, atol=3e-7)
        np.testing.assert_allclose(single[1], closed[1], rtol=3e-5, atol=1e-6)


def _critical_values(m: Any, x_grid: Any) -> np.ndarray:
    """Reports where the loss may be largest: either side of every break and end, and between them."""
    codomain = m.codomain()
    if isinstance(codomain, Finite):
        return np.asarray(codomain.values, np.float64)
    ends = [v for v in (float(codomain.lower), float(codomain.upper)) if np.isfinite(v)] or [-1e3, 1e3]
    breaks = [np.asarray(codomain.breaks(jnp.asarray(x)), np.float64) for x in x_grid]
    points = np.unique(np.concatenate([*breaks, ends, [0.0]]))
    nudge = 1e-9 * (1 + np.abs(points))
    return np.concatenate([points - nudge, points, points + nudge, (points[1:] + points[:-1]) / 2])


def largest_loss(m: Any, x_grid: Any = (-1.0, 0.0, 1.0)) -> float:
    """max over records x, x' and reports y of log p(y | x) - log p(y | x'), at the critical points; float64.

    Reports that are impossible under every record are no reports; one that is impossible under some only has
    an infinite loss.
    """
    with jax.enable_x64(True):
        codomain = m.codomain()
        if isinstance(codomain, Subset):
            one = _critical_values(m.inner, x_grid)
            values = np.stack([g.ravel() for g in np.meshgrid(*[one] * codomain.k)], 1)
            subsets = list(itertools.combinations(range(codomain.dim), codomain.k))
            reports = SparseReport(
                np.repeat(np.array(subsets, np.int32), len(values), 0), np.tile(values, (len(subsets), 1))
            )
            x = np.array(list(itertools.product(x_grid, repeat=codomain.dim)), np.float64)
        else:
            reports, x = _critical_values(m, x_grid), np.asarray(x_grid, np.float64)
        logs = np.asarray(pairwise(m, reports, x))
    assert not np.isnan(logs).any()
    high, low = logs.max(0), logs.min(0)
    possible = np.isfinite(high)
    return float((high[possible] - low[possible]).max())


def check_loss(m: Any, x_grid: Any = (-1.0, 0.0, 1.0), *, tight: bool = True) -> None:
    """Rung 1: the largest privacy loss is the claim: no more (smallest defect: 1e-6 of epsilon), not much less."""
    claimed, loss = m.guarantee().epsilon, largest_loss(m, x_grid)
    assert loss <= claimed * (1 + 1e-6), f"claims epsilon {claimed:.6g}, loses {loss:.6g}"
    if tight:
        assert loss >= 0.99 * claimed, f"claims epsilon {claimed:.6g}, loses only {loss:.6g}"


def _distribution(m: Any, x: Any) -> tuple[Any, float]:
    """The distribution function of a report on a line, from its density; and the mass that float32 may misplace.

    A float32 report near the record is rounded twice; with a high piece of width 2b that misplaces a mass of
    up to one spacing times the density (0.9 % for SquareWave(16) at x = 0.3, nothing at x = 0).
    """
    with jax.enable_x64(True):
        codomain = m.codomain()
        edges = _edges(codomain, x, lambda y: log_densities(m, jnp.asarray(y)[None], x)[0])
        cuts = np.concatenate([np.linspace(a, b, 2048, endpoint=False) for a, b in itertools.pairwise(edges)])
        cuts = np.append(cuts, edges[-1])
        middle = (cuts[1:] + cuts[:-1]) / 2
        density = np.exp(np.asarray(log_densities(m, middle, x), np.float64))
    total = np.concatenate([[0.0], np.cumsum(density * np.diff(cuts))])
    inner = edges[1:-1]
    misplaced = float(density.max() * np.spacing(np.float32(np.abs(inner).max())))
    return partial(np.interp, xp=cuts, fp=total / total[-1]), misplaced


def check_sampler_fits(m: Any, x: Any, n: int = 200_000, seed: int = 2) -> None:
    """Rung 2: draws of one record against its density.

    On a line: KS; the smallest defect is 0.012 in the distribution function (see :mod:`tests.stats`). Finite: a
    G test. Vectors: a G test of subset and values jointly, values in four equally likely bins of their own
    law, so that an uneven subset, a wrong value and a dependence between them are all seen (0.02 of total
    variation).
    """
    x = np.asarray(x, np.float32)
    y = draw(m, jax.random.split(jax.random.key(seed), n), x)
    codomain = m.codomain()
    if isinstance(codomain, Interval):
        cdf, misplaced = _distribution(m, x.astype(np.float64))
        stats.assert_ks(y, cdf, rounding=misplaced)
    elif isinstance(codomain, Finite):
        values = np.asarray(codomain.values)
        probability = np.exp(np.asarray(log_densities(m, values, x), np.float64))
        stats.assert_g((np.asarray(y)[:, None] == values).sum(0), probability)
    else:
        _check_vectors_fit(m, x, y, n)


def _cells(inner: Any, x: float) -> tuple[Any, np.ndarray]:
    """Where to cut the reports of one coordinate, and the mass between the cuts.

    Quartiles; or, where float32 would misplace reports inside a narrow high piece, just outside its two ends.
    """
    cdf, _ = _distribution(inner, np.float64(x))
    if _distribution(inner, np.float64(1.0))[1] < 1e-4:
        grid = cdf.keywords["xp"]
        cuts = np.interp([0.25, 0.5, 0.75], cdf(grid), grid)
    else:
        with jax.enable_x64(True):
            ends = np.asarray(inner.codomain().breaks(jnp.asarray(np.float64(x))))
        cuts = ends + 1e-6 * (1 + np.abs(ends)) * np.array([-1.0, 1.0])
    return cuts, np.diff(np.concatenate([[0.0], cdf(cuts), [1.0]]))


def _check_vectors_fit(m: Any, x: np.ndarray, y: Any, n: int) -> None:
    codomain, inner = m.codomain(), m.inner
    indices, values = np.asarray(y.indices), np.asarray(y.values, np.float64)
    if isinstance(codomain.inner, Finite):
        levels = np.asarray(codomain.inner.values)
        cell = np.searchsorted(levels, values)
        mass = np.stack([np.exp(np.asarray(log_densities(inner, levels, x_j), np.float64)) for x_j in x])
    else:
        cuts, mass = (np.stack(part) for part in zip(*(_cells(inner, x_j) for x_j in x), strict=True))
        cell = (values[..., None] > cuts[indices]).sum(-1)
    bins = mass.shape[1]
    subsets = np.array(list(itertools.combinations(range(codomain.dim), codomain.k)))
    name = codomain.dim ** np.arange(codomain.k)[::-1]  # combinations come in this order
    code = np.searchsorted(subsets @ name, indices @ name)
    assert (subsets[code] == indices).all(), "indices must be a sorted subset"
    probability = np.full(len(subsets), 1 / len(subsets))
    for position in range(codomain.k):
        code = code * bins + cell[:, position]
        each = np.repeat(mass[subsets[:, position]], bins**position, 0)
        probability = (probability[:, None] * each).ravel()
    stats.assert_g(np.bincount(code, minlength=len(probability)), probability)


def check_sample_moments(m: Any, x: Any, n: int = 200_000, seed: int = 3) -> None:
    """Estimates of draws have the closed forms' mean and variance, within five standard errors."""
    x = np.asarray(x, np.float32)
    values = estimates(m, draw(m, jax.random.split(jax.random.key(seed), n), x))
    with jax.enable_x64(True):
        wide = x.astype(np.float64)
        mean, variance = (np.asarray(v) for v in moments(m, wide))
        fourth = true_moments(m, wide)[2]
    stats.assert_moments(values, mean, variance, fourth, rounding=1e-6)


def check_users_are_independent(many: Any, n: int = len(WEIRD), dim: int | None = None) -> None:
    """A user's report depends on her own record and key alone: ``many(keys, xs)`` must not mix users."""
    shape = (n,) if dim is None else (n, dim)
    x = np.linspace(-0.5, 0.5, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    other = x.copy()
    other[-1] = 1.0
    before, after = (many(jax.random.split(jax.random.key(4), n), records) for records in (x, other))
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[:-1], b[:-1]), before, after)
