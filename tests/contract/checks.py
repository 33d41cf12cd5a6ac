"""What every mechanism must satisfy, as functions that a correct mechanism passes and a broken twin fails.

A check takes a mechanism on a number or on a vector (:class:`Sampled`) and reads the rest from its domain and
codomain. Laws are integrated in float64; draws are those of float32, as users make them.
"""

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.domains import Box, Finite, Interval, Mixture, Product, Subset
from ldp_jax.features import BranchReport, SparseReport
from ldp_jax.mechanism import privacy_loss
from ldp_jax.verification import matches_density
from tests import stats

# Exact in float32, so that float64 laws and float32 draws are about the same record.
SCALARS = np.array([-1.0, -0.6, 0.0, 0.3, 1.0], np.float32).astype(np.float64)
SHARES = np.array([0.0, 0.2, 0.5, 0.65, 1.0], np.float32).astype(np.float64)
WEIRD = np.array([np.nan, np.inf, -np.inf, 1e30, -7.0, 1.5], np.float32)


def numbers(m: Any) -> np.ndarray:
    """Numbers to try, for one coordinate."""
    domain = m.domain()
    if isinstance(domain, Finite):
        return np.resize(np.asarray(domain.values, np.float64), 5)
    return SCALARS if domain.lower == -1.0 else SHARES


def records(m: Any) -> np.ndarray:
    """Records to try: numbers, or vectors that mix them."""
    domain, values = m.domain(), numbers(m)
    if isinstance(domain, Box):
        return np.stack([np.resize(values[start:], domain.dim) for start in range(len(values))])
    return values


def weird(m: Any) -> tuple[np.ndarray, np.ndarray]:
    """Records outside the domain, and the ones that they are taken for."""
    domain = m.domain()
    lower, upper = (
        (domain.values[0], domain.values[-1]) if isinstance(domain, Finite) else (domain.lower, domain.upper)
    )
    centre = domain.values[(len(domain.values) - 1) // 2] if isinstance(domain, Finite) else (lower + upper) / 2
    bad = np.where(WEIRD == 1.5, np.float32(upper + 0.5), WEIRD)
    good = np.where(np.isnan(bad), np.float32(centre), np.clip(bad, lower, upper)).astype(np.float32)
    if isinstance(domain, Box):
        bad, good = (np.stack([np.resize(v[i:], domain.dim) for i in range(len(v))]) for v in (bad, good))
    return bad, good


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


def _line(m: Any, x: Any) -> Law:
    """The rule for a mechanism on one number."""
    codomain = m.codomain()
    if isinstance(codomain, Mixture):
        parts = [_part(m, part, x, branch) for branch, part in enumerate(codomain.parts)]
        branches = np.concatenate([np.full(len(part.weights), branch) for branch, part in enumerate(parts)])
        values, weights = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return Law(BranchReport(branches, values), weights)
    return _part(m, codomain, x, None)


def _part(m: Any, codomain: Any, x: Any, branch: int | None) -> Law:
    if isinstance(codomain, Finite):
        return Law(np.asarray(codomain.values, np.float64), np.ones(len(codomain.values)))
    infinite = np.isinf(float(codomain.lower))

    def density(y: Any) -> Any:
        y = jnp.asarray(y)[None]
        return log_densities(m, y if branch is None else (jnp.full(1, branch), y), x)[0]

    return Law(*_nodes(_edges(codomain, x, density), 16 if infinite else 1, 8 if infinite else 4))


def _product(lines: list[Law]) -> Law:
    """The product rule of some coordinates; reports have a coordinate axis after the first."""
    places = [
        place.ravel() for place in np.meshgrid(*(np.arange(len(line.weights)) for line in lines), indexing="ij")
    ]
    weights = np.prod([line.weights[place] for line, place in zip(lines, places, strict=True)], 0)
    picked = [
        jax.tree.map(lambda leaf, at=place: leaf[at], line.reports)
        for line, place in zip(lines, places, strict=True)
    ]
    return Law(jax.tree.map(lambda *leaves: np.stack(leaves, 1), *picked), weights)


def law(m: Any, x: Any) -> Law:
    """The rule for any mechanism; vectors by every subset and the product rule of their coordinates."""
    codomain = m.codomain()
    if isinstance(codomain, Product):
        values = np.asarray(codomain.inner.values, np.float64)
        return _product([Law(values, np.ones(len(values)))] * codomain.dim)
    if not isinstance(codomain, Subset):
        return _line(m, x)
    lines = [_line(m.inner, x[j]) for j in range(codomain.dim)]
    indices, rules = [], []
    for chosen in itertools.combinations(range(codomain.dim), codomain.k):
        rules.append(_product([lines[j] for j in chosen]))
        indices.append(np.broadcast_to(np.array(chosen, np.int32), (len(rules[-1].weights), codomain.k)))
    values = jax.tree.map(lambda *leaves: np.concatenate(leaves), *(rule.reports for rule in rules))
    return Law(SparseReport(np.concatenate(indices), values), np.concatenate([rule.weights for rule in rules]))


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
    bad, good = weird(m)
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
    if isinstance(codomain, Product):
        assert np.shape(reports)[-1] == codomain.dim
        return assert_in_codomain(codomain.inner, reports)
    if isinstance(codomain, Mixture):
        branch, value = np.asarray(reports[0]), np.asarray(reports[1])
        assert np.isin(branch, np.arange(len(codomain.parts))).all()
        for place, part in enumerate(codomain.parts):
            assert_in_codomain(part, value[branch == place])
        return None
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
        np.testing.assert_allclose(single[0], closed[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(single[1], closed[1], rtol=3e-5, atol=1e-6)


def _critical(m: Any, codomain: Any, x_grid: Any) -> Any:
    """Reports where the loss may be largest: either side of every break and end, and between them."""
    if isinstance(codomain, Mixture):
        values = [_critical(m, part, x_grid) for part in codomain.parts]
        branches = [np.full(len(value), branch) for branch, value in enumerate(values)]
        return BranchReport(np.concatenate(branches), np.concatenate(values))
    if isinstance(codomain, Finite):
        return np.asarray(codomain.values, np.float64)
    ends = [v for v in (float(codomain.lower), float(codomain.upper)) if np.isfinite(v)] or [-1e3, 1e3]
    breaks = [np.asarray(codomain.breaks(jnp.asarray(x)), np.float64) for x in x_grid]
    points = np.unique(np.concatenate([*breaks, ends, [0.0]]))
    nudge = 1e-9 * (1 + np.abs(points))
    return np.concatenate([points - nudge, points, points + nudge, (points[1:] + points[:-1]) / 2])


def largest_loss(m: Any, x_grid: Any = None) -> float:
    """max over records x, x' and reports y of log p(y | x) - log p(y | x'), at the critical points; float64.

    Reports that are impossible under every record are no reports; one that is possible under some only has
    an infinite loss.
    """
    domain = m.domain()
    if x_grid is None:
        finite = isinstance(domain, Finite)
        x_grid = domain.values if finite else (domain.lower, (domain.lower + domain.upper) / 2, domain.upper)
    with jax.enable_x64(True):
        codomain = m.codomain()
        if isinstance(codomain, Product):
            reports = law(m, None).reports
        elif isinstance(codomain, Subset):
            one = _critical(m.inner, codomain.inner, x_grid)
            line = Law(one, np.ones(len(jax.tree.leaves(one)[0])))
            product = _product([line] * codomain.k)
            subsets = list(itertools.combinations(range(codomain.dim), codomain.k))
            values = jax.tree.map(lambda leaf: np.tile(leaf, (len(subsets), 1)), product.reports)
            reports = SparseReport(np.repeat(np.array(subsets, np.int32), len(product.weights), 0), values)
        else:
            reports = _critical(m, codomain, x_grid)
        x = np.asarray(x_grid, np.float64)
        if isinstance(domain, Box):
            x = np.array(list(itertools.product(x_grid, repeat=domain.dim)), np.float64)
        logs = np.asarray(pairwise(m, reports, x))
    assert not np.isnan(logs).any()
    high, low = logs.max(0), logs.min(0)
    possible = np.isfinite(high)
    return float((high[possible] - low[possible]).max())


def check_loss(m: Any, x_grid: Any = None, *, tight: bool = True) -> None:
    """Rung 1: the largest privacy loss is the claim: no more (smallest defect: 1e-6 of epsilon), not much less."""
    claimed, loss = m.guarantee().epsilon, largest_loss(m, x_grid)
    assert loss <= claimed * (1 + 1e-6), f"claims epsilon {claimed:.6g}, loses {loss:.6g}"
    if tight:
        assert loss >= 0.99 * claimed, f"claims epsilon {claimed:.6g}, loses only {loss:.6g}"


def check_sampler_fits(m: Any, x: Any, n: int = 200_000, seed: int = 2) -> None:
    """Rung 2: draws of one record against its density.

    On a line: KS; the smallest defect is 0.012 in the distribution function. Finite, pairs and vectors: a G test
    (0.02 of total variation for the vectors of this suite). See :func:`ldp_jax.verification.matches_density`.
    """
    fit = matches_density(m, jax.random.key(seed), np.asarray(x, np.float32), trials=n)
    assert fit.fits, str(fit)


def check_sample_moments(m: Any, x: Any, n: int = 200_000, seed: int = 3) -> None:
    """Estimates of draws have the closed forms' mean and variance, within five standard errors."""
    x = np.asarray(x, np.float32)
    values = estimates(m, draw(m, jax.random.split(jax.random.key(seed), n), x))
    with jax.enable_x64(True):
        wide = x.astype(np.float64)
        mean, variance = (np.asarray(v) for v in moments(m, wide))
        fourth = true_moments(m, wide)[2]
    stats.assert_moments(values, mean, variance, fourth, rounding=1e-6)


def check_users_are_independent(many: Any, n: int = 6, dim: int | None = None) -> None:
    """A user's report depends on her own record and key alone: ``many(keys, xs)`` must not mix users."""
    shape = (n,) if dim is None else (n, dim)
    x = np.linspace(-0.5, 0.5, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    other = x.copy()
    other[-1] = 1.0
    before, after = (many(jax.random.split(jax.random.key(4), n), records) for records in (x, other))
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[:-1], b[:-1]), before, after)
