"""Is it the law that is drawn, and what can draws alone show? Fits of samplers, and lower bounds on epsilon."""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax import _validate
from ldp_jax.domains import Box, Finite, Interval, Mixture, Product, Subset
from ldp_jax.features import Sampled
from ldp_jax.mechanism import check_budget, privacy_loss
from ldp_jax.mechanism import privatize as _privatize
from ldp_jax.types import Array, PRNGKey
from ldp_jax.verification import _lists, statistics
from ldp_jax.verification._line import line
from ldp_jax.verification.statistics import SIGNIFICANCE, Fit

_JOINT_CELLS = 4096
"""Beyond, a vector is tested one random coordinate a user instead of whole."""
_TOTAL = 1e-4  # how far the mass of a density may be from 1, by quadrature
_EVENTS = 512  # thresholds tried on one score
_TRAINING = 100_000  # reports of each record that a distinguisher is trained on


def matches_density(
    mechanism: Any, key: PRNGKey, x: Any = None, *, trials: int = 200_000, significance: float = SIGNIFICANCE
) -> Fit:
    """Whether ``privatize`` draws what ``log_density`` says: rung 2.

    Numbers on a line by the Kolmogorov-Smirnov test, finite reports by a G test, pairs (branch, value) by a G test
    of branch and cell of the value. Vectors by a G test of coordinates and cells together, so that an uneven
    subset, a wrong value and a dependence between them are all seen; where that has too many cells, of one
    coordinate a user, chosen uniformly, which sees all but the dependence between coordinates.

    Args:
      mechanism: with ``log_density``; epsilon one number.
      key: a typed threefry key.
      x: the record that all draws are about, exact in float32; by default one off the centre.
      trials: draws.
      significance: how often a correct sampler may be rejected.

    Returns:
      A :class:`Fit`, which says the smallest defect that it detects.

    Raises:
      ValueError: for a key that is not threefry, or a mechanism whose codomain is of another kind.

    >>> from ldp_jax.features import SquareWave
    >>> matches_density(SquareWave(1.0), jax.random.key(0)).fits
    True
    """
    _validate.integer_in(100, trials=trials)
    if isinstance(mechanism, _lists.KINDS):
        record = _lists.neighbours(mechanism)[1] if x is None else _lists.as_list(x)
        return _lists.fit(mechanism, key, record, trials, significance)
    x = typical_record(mechanism) if x is None else np.asarray(x, np.float32)
    draw_key, pick_key = jax.random.split(key)
    y = draws(mechanism, draw_key, x, trials)
    codomain = mechanism.codomain()
    if not _possible(mechanism, codomain, y, x):
        return Fit(False, "impossible reports", math.inf, 0.0, 1 / trials, trials)
    if isinstance(codomain, Interval):
        cdf, misplaced = distribution(mechanism, x)
        if cdf is None:
            return Fit(False, "density of total mass 1", math.inf, 0.0, _TOTAL, trials)
        return statistics.ks_test(y, cdf, rounding=misplaced, significance=significance)
    if isinstance(codomain, (Finite, Mixture)):
        mass, cell = _cells(mechanism, x)
        if abs(mass.sum() - 1) > _TOTAL:
            return Fit(False, "density of total mass 1", float(mass.sum()), 1.0, _TOTAL, trials)
        counts = np.bincount(cell(y), minlength=len(mass))
        return statistics.g_test(counts, mass, significance=significance)
    if isinstance(codomain, (Subset, Product)):
        return _vectors(mechanism, codomain, x, y, pick_key, significance)
    raise ValueError(f"no test for reports in {codomain}")


def _possible(mechanism: Any, codomain: Any, y: Any, x: Any) -> bool:
    """Whether every report is in the codomain and, where reports are finite, has a mass that is not 0."""
    if not _inside(codomain, y):
        return False
    return _continuous(codomain) or bool(np.isfinite(np.asarray(_logs(mechanism, y, jnp.asarray(x)))).all())


def _inside(codomain: Any, y: Any) -> bool:
    """In the codomain, up to two float32 roundings at the ends of an interval; coordinates sorted and distinct."""
    if isinstance(codomain, Subset):
        indices = np.asarray(y.indices)
        ordered = (np.diff(indices, axis=-1) > 0).all() and (indices >= 0).all() and (indices < codomain.dim).all()
        return bool(ordered) and _inside(codomain.inner, y.values)
    if isinstance(codomain, Product):
        return _inside(codomain.inner, y)
    if isinstance(codomain, Mixture):
        branch, value = np.asarray(y[0]), np.asarray(y[1])
        known = np.isin(branch, np.arange(len(codomain.parts))).all()
        return bool(known) and all(_inside(part, value[branch == b]) for b, part in enumerate(codomain.parts))
    y = np.asarray(y)
    if isinstance(codomain, Finite):
        return bool(np.isin(y, np.asarray(codomain.values, y.dtype)).all())
    lower, upper = float(codomain.lower), float(codomain.upper)
    slack = 2 * np.spacing(np.float32(upper)) if math.isfinite(upper) else 0.0
    return bool((np.isfinite(y) & (y >= lower - slack) & (y <= upper + slack)).all())


def _continuous(codomain: Any) -> bool:
    """Whether reports hold numbers of a continuum."""
    if isinstance(codomain, Mixture):
        return any(map(_continuous, codomain.parts))
    return isinstance(codomain, Interval) or (isinstance(codomain, Subset) and _continuous(codomain.inner))


def typical_record(mechanism: Any) -> Any:
    """A record away from the ends and the centre of the domain, exact in float32."""
    domain = mechanism.domain()
    if isinstance(domain, Finite):
        return np.float32(domain.values[len(domain.values) // 3])
    place = np.resize(np.array([0.65625, 0.125, 1.0, 0.375, 0.0], np.float32), getattr(domain, "dim", 1))
    record = (domain.lower + place * (domain.upper - domain.lower)).astype(np.float32)
    return record if isinstance(domain, Box) else record[0]


def extreme_records(mechanism: Any) -> tuple[Any, Any]:
    """Two records at opposite ends of the domain, where the loss of the laws of this library is largest.

    For neighbour lists, two that differ in one bit.
    """
    if isinstance(mechanism, _lists.KINDS):
        return _lists.neighbours(mechanism)
    domain = mechanism.domain()
    if isinstance(domain, Finite):
        return np.float32(domain.values[0]), np.float32(domain.values[-1])
    shape = (domain.dim,) if isinstance(domain, Box) else ()
    return np.full(shape, domain.lower, np.float32)[()], np.full(shape, domain.upper, np.float32)[()]


def draws(mechanism: Any, key: PRNGKey, x: Any, n: int) -> Any:
    """n independent reports of one record, stacked; a key of its own each."""
    if isinstance(mechanism, _lists.KINDS):
        return _lists.draws(key, mechanism, x, 0, n)
    return _privatize(key, mechanism, jnp.broadcast_to(jnp.asarray(x), (n, *np.shape(x))))


# --- Laws as cells --------------------------------------------------------------------------------------------


@jax.jit
def _logs(mechanism: Any, y: Any, x: Any) -> Array:
    return jax.vmap(lambda report: mechanism.log_density(report, x))(y)


def distribution(mechanism: Any, x: Any) -> tuple[Callable[[Any], np.ndarray] | None, float]:
    """The distribution function of a report on a line, from its density; and the mass that float32 may misplace.

    None in its place where the density does not sum to 1 (to 1e-4).

    A float32 report near the record is rounded twice; with a high piece of width 2b that misplaces a mass of up to
    one spacing times the density (0.9 % for SquareWave(16) at x = 0.3, nothing at x = 0).
    """
    with jax.enable_x64(True):
        x = np.float64(x)
        log_density = lambda y: np.asarray(_logs(mechanism, np.asarray(y, np.float64), x))
        cdf, misplaced, edges = line(mechanism.codomain(), x, log_density)
    total = cdf(edges[-1])
    if abs(total - 1) > _TOTAL:
        return None, misplaced
    return lambda y: cdf(y) / total, misplaced


def _cells(mechanism: Any, x: Any) -> tuple[np.ndarray, Callable[[Any], np.ndarray]]:
    """The masses of finitely many cells of the reports on one number, and which cell a report is in.

    Cells of a line are quartiles of each branch's own law; or, where float32 would misplace reports inside a
    narrow high piece, its two outer sides and the rest.
    """
    masses, places, start = [], [], 0
    with jax.enable_x64(True):  # breaks too: float32 would misplace those of a narrow piece
        x, codomain = np.float64(x), mechanism.codomain()
        parts = codomain.parts if isinstance(codomain, Mixture) else (codomain,)
        for branch, part in enumerate(parts):

            def log_density(values: Any, branch: int = branch) -> np.ndarray:
                values = np.asarray(values, np.float64)
                y = (np.full(values.shape, branch), values) if isinstance(codomain, Mixture) else values
                return np.asarray(_logs(mechanism, y, x))

            if isinstance(part, Finite):
                cuts = np.asarray(part.values, np.float64)
                mass, side = np.exp(log_density(cuts)), "left"
            else:
                cdf, misplaced, edges = line(part, x, log_density)
                total = cdf(edges[-1])
                if total and misplaced / total < 1e-4:
                    grid = cdf.keywords["xp"]
                    cuts = np.interp(total * np.array([0.25, 0.5, 0.75]), cdf(grid), grid)
                else:
                    ends = edges[1:-1]
                    cuts = ends + 1e-6 * (1 + np.abs(ends)) * np.array([-1.0, 1.0])
                mass, side = np.diff(np.concatenate([[0.0], cdf(cuts), [total]])), "right"
            masses.append(mass)
            places.append((cuts, side, start))
            start += len(mass)
    mass = np.concatenate(masses)

    def cell(y: Any) -> np.ndarray:
        if not isinstance(codomain, Mixture):
            cuts, side, _ = places[0]
            return np.searchsorted(cuts, np.asarray(y, np.float64), side)
        branch, value = np.asarray(y[0]), np.asarray(y[1], np.float64)
        return np.select(
            [branch == b for b in range(len(places))],
            [first + np.searchsorted(cuts, value, side) for cuts, side, first in places],
        )

    return mass, cell


def _coordinates(mechanism: Any, x: np.ndarray) -> list[tuple[np.ndarray, Callable[[Any], np.ndarray]]] | None:
    """Cells of each coordinate where coordinates are independent given the record, else None."""
    if isinstance(mechanism, Sampled):
        return [_cells(mechanism.inner, x_j) for x_j in x]
    if hasattr(mechanism, "coordinate"):
        return [_cells(mechanism.coordinate(j), x_j) for j, x_j in enumerate(x)]
    return None


def _vectors(mechanism: Any, codomain: Any, x: Any, y: Any, key: PRNGKey, significance: float) -> Fit:
    each = _coordinates(mechanism, x)
    if each is None:
        return _whole(mechanism, codomain, x, y, significance)
    k = codomain.k if isinstance(codomain, Subset) else codomain.dim
    if isinstance(codomain, Subset):
        indices, values = np.asarray(y.indices), y.values
    else:
        indices, values = np.broadcast_to(np.arange(codomain.dim), np.shape(y)), y
    n, bins = len(indices), max(len(mass) for mass, _ in each)
    # Cells of every value, by the coordinate it belongs to.
    code = np.zeros(indices.shape, np.int64)
    for j, (_, cell) in enumerate(each):
        mine = indices == j
        code[mine] = cell(jax.tree.map(lambda leaf, mine=mine: np.asarray(leaf)[mine], values))
    mass = np.stack([np.pad(mass, (0, bins - len(mass))) for mass, _ in each])
    if np.abs(mass.sum(1) - 1).max() > _TOTAL:
        return Fit(False, "density of total mass 1", float(mass.sum(1).max()), 1.0, _TOTAL, n)
    subsets = math.comb(codomain.dim, k)
    if subsets * bins**k <= _JOINT_CELLS:
        chosen = np.array(list(itertools.combinations(range(codomain.dim), k)))
        name = codomain.dim ** np.arange(k)[::-1]  # combinations come in this order
        place = np.searchsorted(chosen @ name, indices @ name)
        probability = np.full(subsets, 1 / subsets)
        for position in range(k):
            place = place * bins + code[:, position]
            rows = np.repeat(mass[chosen[:, position]], bins**position, 0)
            probability = (probability[:, None] * rows).ravel()
        counts = np.bincount(place, minlength=len(probability))
        return statistics.g_test(counts, probability, significance=significance)
    pick = np.asarray(jax.random.randint(key, (n,), 0, k))
    row = np.arange(n)
    place = indices[row, pick] * bins + code[row, pick]
    counts = np.bincount(place, minlength=mass.size)
    return statistics.g_test(counts, mass.ravel() / codomain.dim, significance=significance)


def _whole(mechanism: Any, codomain: Product, x: Any, y: Any, significance: float) -> Fit:
    """Vectors of few possible values, by their joint density."""
    values = np.asarray(codomain.inner.values, np.float64)
    if len(values) ** codomain.dim > _JOINT_CELLS:
        raise ValueError(f"{len(values)}^{codomain.dim} reports are too many to count: test a smaller dim")
    reports = np.array(list(itertools.product(values, repeat=codomain.dim)))
    with jax.enable_x64(True):
        mass = np.exp(np.asarray(_logs(mechanism, reports, np.float64(x))))
    if abs(mass.sum() - 1) > _TOTAL:
        return Fit(False, "density of total mass 1", float(mass.sum()), 1.0, _TOTAL, len(np.asarray(y)))
    place = np.searchsorted(values, np.asarray(y, np.float64))
    code = place @ (len(values) ** np.arange(codomain.dim)[::-1])
    return statistics.g_test(np.bincount(code, minlength=len(mass)), mass, significance=significance)


# --- Lower bounds ---------------------------------------------------------------------------------------------


class LowerBound(NamedTuple):
    """What a distinguishing game shows about epsilon.

    Attributes:
      epsilon: holds with the confidence asked for: no smaller epsilon is true of this sampler (0 where nothing was
        shown).
      limit: the largest value that so many trials could have shown.
      event: the set of reports that was chosen, in words.
      share: how often the record that the event speaks for was in it, among the trials that did not choose it.
      share_other: how often the other record was.
      trials: draws of each record, half of them to choose the event.
    """

    epsilon: float
    limit: float
    event: str
    share: float
    share_other: float
    trials: int


def epsilon_lower_bound(
    mechanism: Any,
    key: PRNGKey,
    trials: int = 200_000,
    confidence: float = 1 - SIGNIFICANCE,
    *,
    x: Any = None,
    x_other: Any = None,
    delta: float = 0.0,
    resolution: float = 1e-4,
) -> LowerBound:
    r"""A lower bound on the epsilon of a sampler, from draws alone: rung 3.

    Both records are drawn from; on half of the draws the event of largest
    :math:`\log((P - \delta)/P')` is chosen among thresholds on several scores (the report, its size, the declared
    privacy loss; for vectors a logistic regression on binned coordinates), on the other half its two
    probabilities are bounded by Clopper and Pearson. The bound is valid whatever the score, so a wrong density can
    weaken it but not falsify it. 2e5 trials tell 5 % at epsilon 1 (1e5 every other time), 8e6 at epsilon 0.1 every
    other time; the largest value that can be shown is ``limit``. Two opposite corners are not the worst pair for
    every defect: where one is suspected, say ``x`` and ``x_other``.

    Args:
      mechanism: epsilon one number.
      key: a typed threefry key.
      trials: draws of each record.
      confidence: of the bound; for many cells divide 1 - confidence among them.
      x: one record, by default the lower end of the domain in every coordinate; a list of user 0's.
      x_other: the other, by default the upper end; a list that differs in one bit.
      delta: of the (epsilon, delta) guarantee that is asked about.
      resolution: scores are rounded to this share of their size. The last bits of a float32 report are those of the
        record, and the game finds them: at 0, draws of :class:`Laplace` at epsilon 1 are seen to lose more than
        1. That is real, and :func:`~ldp_jax.verification.float_audit` measures it; rounded, it is the law that
        is asked.

    Raises:
      ValueError: for a key that is not threefry, or fewer than 1 000 trials.

    >>> from ldp_jax.features import Duchi
    >>> bound = epsilon_lower_bound(Duchi(1.0), jax.random.key(0))
    >>> 0.95 < bound.epsilon <= 1.0
    True
    """
    _validate.integer_in(1000, trials=trials)
    _validate.in_range(0.0, 1.0, confidence=confidence)
    _validate.in_range(0.0, 1.0, delta=delta)
    _validate.in_range(0.0, 1.0, resolution=resolution)
    check_budget(mechanism)
    first, second = extreme_records(mechanism)
    as_record = _lists.as_list if isinstance(mechanism, _lists.KINDS) else partial(np.asarray, dtype=np.float32)
    first = first if x is None else as_record(x)
    second = second if x_other is None else as_record(x_other)
    keys = jax.random.split(key)
    reports = [draws(mechanism, k, record, trials) for k, record in zip(keys, (first, second), strict=True)]
    half, alpha = trials // 2, (1 - confidence) / 2
    best: tuple[float, str, float, float] = (-math.inf, "none", 0.0, 1.0)
    for name, pair in _scores(mechanism, reports, first, second, half).items():
        mine, others = _rounded(*pair, resolution)
        for swapped in (False, True):
            a, b = (others, mine) if swapped else (mine, others)
            # "The score is at least t" is an event in favour of a; so is its mirror, with the sign changed.
            for sign, relation in ((1.0, ">="), (-1.0, "<=")):
                threshold, value = _best_threshold(sign * a[:half], sign * b[:half], alpha, delta)
                if value > best[0]:
                    hit, other = (float(np.mean(sign * score[half:] >= threshold)) for score in (a, b))
                    which = "record x_other" if swapped else "record x"
                    best = (value, f"{name} {relation} {sign * threshold:.6g}, for {which}", hit, other)
    rest = trials - half
    value = _bound(best[2] * rest, best[3] * rest, rest, alpha, delta)
    limit = _bound(rest, 0, rest, alpha, delta)
    return LowerBound(max(0.0, float(value)), float(limit), best[1], best[2], best[3], trials)


def _rounded(mine: np.ndarray, others: np.ndarray, resolution: float) -> tuple[np.ndarray, np.ndarray]:
    """Scores to a share of their usual size; a coarser score is post-processing, so the bound stays valid."""
    step = resolution * float(np.quantile(np.abs(np.concatenate([mine, others])), 0.9))
    return (mine, others) if step == 0 else (np.round(mine / step) * step, np.round(others / step) * step)


def _bound(hits: Any, others: Any, n: int, alpha: float, delta: float) -> Any:
    low, _ = statistics.clopper_pearson(np.round(hits), n, alpha)
    _, high = statistics.clopper_pearson(np.round(others), n, alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(low > delta, np.log(np.maximum(low - delta, 1e-300) / high), -np.inf)


def _best_threshold(a: np.ndarray, b: np.ndarray, alpha: float, delta: float) -> tuple[float, float]:
    """The threshold whose event {score >= t} is bounded best, and that bound."""
    both = np.concatenate([a, b])
    values = np.unique(both)
    if len(values) > _EVENTS:
        values = np.unique(np.quantile(both, np.linspace(0, 1, _EVENTS), method="nearest"))
    hits = len(a) - np.searchsorted(np.sort(a), values, "left")
    others = len(b) - np.searchsorted(np.sort(b), values, "left")
    bounds = _bound(hits, others, len(a), alpha, delta)
    best = int(bounds.argmax())
    return float(values[best]), float(bounds[best])


@jax.jit
def _losses(mechanism: Any, y: Any, x: Any, x_other: Any) -> Array:
    return jax.vmap(lambda report: privacy_loss(mechanism, report, x, x_other))(y)


@jax.jit
def _estimates(mechanism: Any, y: Any) -> Array:
    return jax.vmap(mechanism.estimate)(y)


def _scores(
    mechanism: Any, reports: list[Any], x: Any, x_other: Any, half: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Numbers that may tell two records apart, [trials] for the draws of each."""
    scores: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    if hasattr(mechanism, "log_density"):
        mine, others = (np.nan_to_num(np.asarray(_losses(mechanism, y, x, x_other), np.float64)) for y in reports)
        scores["declared loss"] = (mine, others)
    if isinstance(mechanism, _lists.KINDS):
        return scores | _lists.scores(reports, x, x_other)
    vector = any(np.ndim(leaf) > 1 for leaf in jax.tree.leaves(reports[0]))
    if vector:
        scores["logit"] = _logit(mechanism, reports, half)
        return scores
    pairs = isinstance(reports[0], tuple)
    for part, name in enumerate(("branch", "value") if pairs else ("report",)):
        a, b = (np.asarray(y[part] if pairs else y, np.float64) for y in reports)
        centre = np.median(np.concatenate([a[:half], b[:half]]))
        scores[name] = (a, b)
        scores[f"|{name} - {centre:.4g}|"] = (np.abs(a - centre), np.abs(b - centre))
    return scores


def _logit(mechanism: Any, reports: list[Any], half: int) -> tuple[np.ndarray, np.ndarray]:
    """A logistic regression on which bin each coordinate of the estimate is in, trained on the first halves.

    Given its coordinates a report's loss is a sum of functions of one coordinate each, which bins approximate.
    """
    estimates = [np.asarray(_estimates(mechanism, y), np.float32) for y in reports]
    estimates = [e.reshape(len(e), -1) for e in estimates]
    dim = estimates[0].shape[1]
    bins = max(2, min(24, 512 // dim))
    together = np.concatenate([e[:half] for e in estimates])
    cuts = [
        np.unique(np.quantile(column, np.linspace(0, 1, bins + 1)[1:-1], method="nearest")) for column in together.T
    ]
    places = [[np.searchsorted(cut, e[:, j], "right") for j, cut in enumerate(cuts)] for e in estimates]
    sizes = [len(cut) + 1 for cut in cuts]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    codes = [np.stack([start + p for start, p in zip(starts, place, strict=True)], 1) for place in places]
    first, second = (jnp.asarray(code[: min(half, _TRAINING)]) for code in codes)
    weights = np.asarray(_regress(first, second, sum(sizes)))
    scores = [weights[code].sum(1).astype(np.float64) for code in codes]
    return scores[0], scores[1]


@partial(jax.jit, static_argnames="size")
def _regress(first: Array, second: Array, size: int) -> Array:
    """Weights of one-hot features by ten damped Newton steps; ridge, so that empty bins stay at 0."""
    codes = jnp.concatenate([first, second])
    label = jnp.concatenate([jnp.ones(len(first)), jnp.zeros(len(second))])
    rows = len(codes)
    hot = jnp.zeros((rows, size), jnp.float32).at[jnp.arange(rows)[:, None], codes].set(1.0)

    def step(weights: Array, _: Any) -> tuple[Array, None]:
        p = jax.nn.sigmoid(hot @ weights)
        gradient = hot.T @ (p - label) + weights
        hessian = (hot * (p * (1 - p))[:, None]).T @ hot + jnp.eye(size)
        move = jnp.linalg.solve(hessian, gradient)
        return weights - jnp.clip(move, -3.0, 3.0), None

    return jax.lax.scan(step, jnp.zeros(size), None, length=10)[0]
