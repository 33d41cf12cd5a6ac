"""Is it the law that is drawn, and what can draws alone show? Fits of samplers, and lower bounds on epsilon."""

import itertools
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import validate
from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.mechanism import HasCoordinates, check_budget, privacy_loss
from ldp_jax.core.spaces import as_records
from ldp_jax.core.spaces.line import line
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.verification import _lists, statistics
from ldp_jax.verification._blocks import block_of, in_blocks, retraced
from ldp_jax.verification._laws import law_of
from ldp_jax.verification.exact import logs_of
from ldp_jax.verification.statistics import SIGNIFICANCE, Fit

_JOINT_CELLS = 4096
"""Beyond, a vector is tested one random coordinate a user instead of whole."""
_TOTAL = 1e-4  # how far the mass of a density may be from 1, by quadrature
_EVENTS = 512  # thresholds tried on one score
_TRAINING = 100_000  # reports of each record that a distinguisher is trained on


def matches_density(
    mechanism: Any, key: PRNGKey, x: Any = None, *, trials: int = 200_000, significance: float = SIGNIFICANCE
) -> Fit:
    """Whether ``privatize`` draws what ``log_density`` says at one record.

    Numbers on a line are asked by the Kolmogorov-Smirnov test, others by a G test of the cells of their space.
    Vectors are asked by coordinates and cells together or, where these are too many, by one random coordinate a
    user.

    Args:
      mechanism: with ``log_density``; epsilon one number.
      key: a typed threefry key.
      x: the record, exact in float32; by default one off the centre.
      trials: draws.
      significance: how often a correct sampler may be rejected.

    Returns:
      A :class:`Fit`, which says the smallest defect that it detects.

    Raises:
      ValueError: for a key that is not threefry, or a codomain of another kind.

    >>> from ldp_jax.features import SquareWave
    >>> matches_density(SquareWave(1.0), jax.random.key(0)).fits
    True
    """
    validate.integer_in(100, trials=trials)
    domain = mechanism.domain()
    x = domain.typical() if x is None else domain.given(x)
    if domain.users:
        return _lists.fit(mechanism, key, x, trials, significance)
    draw_key, pick_key = jax.random.split(key)
    return fit_of(mechanism, pick_key, x, draws(mechanism, draw_key, x, trials), significance)


def fit_of(mechanism: Any, key: PRNGKey, x: Any, y: Any, significance: float) -> Fit:
    """Stacked reports of one record against its law; the key picks a coordinate of each vector."""
    trials = len(jax.tree.leaves(y)[0])
    codomain = mechanism.codomain()
    if not _possible(mechanism, codomain, y, x):
        return Fit(False, "impossible reports", math.inf, 0.0, 1 / trials, trials)
    if codomain.branches == (codomain,) and codomain.continuous:
        cdf, misplaced = distribution(mechanism, x)
        if cdf is None:
            return Fit(False, "density of total mass 1", math.inf, 0.0, _TOTAL, trials)
        return statistics.ks_test(y, cdf, rounding=misplaced, significance=significance)
    each = _coordinates(mechanism, x)
    if each is not None:
        return _vectors(each, codomain, y, key, significance)
    mass, cell = cells_of(mechanism, x)
    if abs(mass.sum() - 1) > _TOTAL:
        return Fit(False, "density of total mass 1", float(mass.sum()), 1.0, _TOTAL, trials)
    place = np.asarray(cell(y))
    if (place < 0).any():
        return Fit(False, "impossible reports", math.inf, 0.0, 1 / trials, trials)
    return statistics.g_test(np.bincount(place, minlength=len(mass)), mass, significance=significance)


def _possible(mechanism: Any, codomain: Any, y: Any, x: Any) -> bool:
    """Whether every report is in the codomain and, where reports are finite, has a mass that is not 0."""
    if not codomain.contains(jax.tree.map(np.asarray, y), rounding=2).all():
        return False
    return codomain.continuous or bool(np.isfinite(logs_of(mechanism, y, jnp.asarray(x))).all())


def typical_record(mechanism: Any) -> Any:
    """A record away from the ends and the centre of the domain, exact in float32."""
    return mechanism.domain().typical()


def extreme_records(mechanism: Any) -> tuple[Any, Any]:
    """Two adjacent records at opposite ends of the domain, where the loss of the laws of this library is largest.

    For neighbour lists, two that differ in one bit.
    """
    return mechanism.domain().extremes()


def draws(mechanism: Any, key: PRNGKey, x: Any, n: int) -> Any:
    """n independent reports of one record, stacked; a key of its own each."""
    if mechanism.domain().users:
        return _lists.draws(key, mechanism, x, 0, n)
    validate.threefry(key)
    check_budget(mechanism)
    # Of one record: what a draw computes of the record alone is computed once a block.
    x = x if isinstance(x, tuple) else np.asarray(as_records(x))
    words = jax.random.key_data(jax.random.split(key, n))
    return in_blocks(lambda block: _reports_of_one(block, mechanism, x), words)


def privatize_stacked(key: PRNGKey, mechanism: Any, x: Any) -> Any:
    """The reports of stacked records of any kind, drawn as :func:`ldp_jax.core.mechanism.privatize` does."""
    validate.threefry(key)
    check_budget(mechanism)
    x = x if isinstance(x, tuple) else np.asarray(as_records(x))
    return report_each(jax.random.key_data(jax.random.split(key, len(jax.tree.leaves(x)[0]))), mechanism, x)


def report_each(words: Any, mechanism: Any, x: Any) -> Any:
    """The report of each of stacked records, by a key each; the keys as the words that they hold."""
    if mechanism.domain().users:
        return _lists.report_each(words, mechanism, x, np.zeros(len(words), np.int32))
    return in_blocks(lambda rows: _reports(rows[0], mechanism, rows[1]), (words, x))


def report_each_retraced(words: Any, mechanism: Any, x: Any) -> Any:
    """The same after the mechanism's code was traced once more; None where that gives the same program."""
    own = (np.zeros(len(words), np.int32),) if mechanism.domain().users else ()
    program = _lists.reports if own else _reports
    ask = lambda one: lambda rows: one(rows[0], mechanism, *rows[1:])
    rows = (words, x, *own)
    fresh = retraced(program)
    first = block_of(rows)
    texts = [one.lower(first[0], mechanism, *first[1:]).as_text() for one in (program, fresh)]
    return None if texts[0] == texts[1] else in_blocks(ask(fresh), rows)


@jax.jit
def _reports(words: Any, mechanism: Any, x: Any) -> Any:
    keys = jax.random.wrap_key_data(words)
    return jax.vmap(lambda key, record: mechanism.privatize(key, record))(keys, x)


@jax.jit
def _reports_of_one(words: Any, mechanism: Any, x: Any) -> Any:
    return jax.vmap(mechanism.privatize, (0, None))(jax.random.wrap_key_data(words), x)


# --- Laws as cells --------------------------------------------------------------------------------------------


def _wide_law(mechanism: Any, x: Any) -> Callable[[Any], np.ndarray]:
    """log p of stacked reports about ``x`` in float64; to be called with x64 enabled."""
    x = jax.tree.map(_wide, x)
    return lambda y: logs_of(mechanism, jax.tree.map(_wide, y), x)


def _wide(leaf: Any) -> np.ndarray:
    leaf = np.asarray(leaf)
    return leaf.astype(np.float64) if leaf.dtype.kind == "f" else leaf


def distribution(mechanism: Any, x: Any) -> tuple[Callable[[Any], np.ndarray] | None, float]:
    """The distribution function of a report on a line, or None where the density does not sum to 1 (to 1e-4).

    And the mass that float32 may misplace: up to one spacing times the density, 0.9 % for SquareWave(16) at x =
    0.3.
    """
    with float64_on_cpu():
        cdf, misplaced, edges = line(mechanism.codomain(), np.float64(x), _wide_law(mechanism, np.float64(x)))
    total = cdf(edges[-1])
    if abs(total - 1) > _TOTAL:
        return None, misplaced
    return lambda y: cdf(y) / total, misplaced


def cells_of(mechanism: Any, x: Any) -> tuple[np.ndarray, Callable[[Any], np.ndarray]]:
    """The masses of finitely many cells of the reports, and which cell a report is in."""
    with float64_on_cpu():  # breaks too: float32 would misplace those of a narrow piece
        return law_of(mechanism.codomain()).cells(jax.tree.map(_wide, x), _wide_law(mechanism, x))


def _coordinates(mechanism: Any, x: Any) -> list[tuple[np.ndarray, Callable[[Any], np.ndarray]]] | None:
    """Cells of each coordinate where coordinates are independent given the record, else None."""
    if isinstance(mechanism, HasCoordinates):
        return [cells_of(mechanism.coordinate(j), x_j) for j, x_j in enumerate(x)]
    return None


def _vectors(each: list[Any], codomain: Any, y: Any, key: PRNGKey, significance: float) -> Fit:
    """A G test of coordinates and cells; ``each`` has the cells of every coordinate."""
    k = codomain.sent
    indices, values = codomain.entries(y)
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


# --- Lower bounds ---------------------------------------------------------------------------------------------


class LowerBound(NamedTuple):
    """The outcome of a distinguishing game.

    Attributes:
      epsilon: no smaller epsilon is true of this sampler, with the confidence asked for; 0 where nothing was shown.
      limit: the largest value that so many trials could have shown.
      event: the chosen set of reports, in words.
      share: how often the event's record was in it, among the trials that did not choose it.
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
    r"""A lower bound on the epsilon of a sampler, from draws of two records.

    On half of the draws the event of largest :math:`\log((P - \delta)/P')` is chosen among thresholds on several
    scores: the report, its size, the declared loss, for vectors a logistic regression. On the other half both
      probabilities are
    bounded by Clopper and Pearson: the bound holds whatever the scores are worth. 2e5 trials see 5 % at epsilon 1.

    Args:
      mechanism: epsilon one number.
      key: a typed threefry key.
      trials: draws of each record.
      confidence: of the bound.
      x: one record; by default the lower end of the domain in every coordinate.
      x_other: the other; by default the upper end, of a list one that differs in a bit.
      delta: of the (epsilon, delta) guarantee that is asked about.
      resolution: the share of their size that scores are rounded to; at 0 the last bits of a float32 report, which
        are the record's, are seen (:func:`~ldp_jax.verification.float_audit` measures them).

    Raises:
      ValueError: for a key that is not threefry, or fewer than 1 000 trials.

    >>> from ldp_jax.features import Duchi
    >>> bound = epsilon_lower_bound(Duchi(1.0), jax.random.key(0))
    >>> 0.95 < bound.epsilon <= 1.0
    True
    """
    validate.integer_in(1000, trials=trials)
    validate.in_range(0.0, 1.0, confidence=confidence)
    validate.in_range(0.0, 1.0, delta=delta)
    validate.in_range(0.0, 1.0, resolution=resolution)
    check_budget(mechanism)
    first, second = extreme_records(mechanism)
    given = mechanism.domain().given
    first = first if x is None else given(x)
    second = second if x_other is None else given(x_other)
    keys = jax.random.split(key)
    reports = [draws(mechanism, k, record, trials) for k, record in zip(keys, (first, second), strict=True)]
    scores = _scores(mechanism, reports, first, second, trials // 2)
    return play(scores, trials, confidence, delta=delta, resolution=resolution)


def play(
    scores: Mapping[str, tuple[np.ndarray, np.ndarray]],
    trials: int,
    confidence: float,
    *,
    delta: float = 0.0,
    resolution: float = 0.0,
) -> LowerBound:
    """The game on scores [trials] of the draws of each record; those of the second halves choose nothing.

    Args:
      scores: by their names.
      trials: draws of each record.
      confidence: of the bound.
      delta: of the (epsilon, delta) guarantee that is asked about.
      resolution: the share of their size that scores are rounded to.
    """
    half, alpha = trials // 2, (1 - confidence) / 2
    best: tuple[float, str, float, float] = (-math.inf, "none", 0.0, 1.0)
    for name, pair in scores.items():
        mine, others = _rounded(*pair, resolution)
        ordered = [np.sort(score[:half]) for score in (mine, others)]
        mirrored = [-score[::-1] for score in ordered]
        for swapped in (False, True):
            a, b = (others, mine) if swapped else (mine, others)
            # "The score is at least t" is an event in favour of a; so is its mirror, with the sign changed.
            for sign, relation, sides in ((1.0, ">=", ordered), (-1.0, "<=", mirrored)):
                first, second = sides[::-1] if swapped else sides
                threshold, value = _best_threshold(first, second, alpha, delta)
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
    if step == 0:
        return mine, others
    with np.errstate(over="ignore"):  # an infinite score stays one
        return np.round(mine / step) * step, np.round(others / step) * step


def _bound(hits: Any, others: Any, n: int, alpha: float, delta: float) -> Any:
    low, _ = statistics.clopper_pearson(np.round(hits), n, alpha)
    _, high = statistics.clopper_pearson(np.round(others), n, alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(low > delta, np.log(np.maximum(low - delta, 1e-300) / high), -np.inf)


def _best_threshold(a: np.ndarray, b: np.ndarray, alpha: float, delta: float) -> tuple[float, float]:
    """The threshold whose event {score >= t} is bounded best, and that bound; scores are in ascending order."""
    both = np.sort(np.concatenate([a, b]), kind="stable")  # which merges what is in order
    first = np.append(True, both[1:] != both[:-1])
    if np.count_nonzero(first) > _EVENTS:
        values = np.unique(both[np.rint(np.linspace(0, 1, _EVENTS) * (len(both) - 1)).astype(int)])
    else:
        values = both[first]
    hits = len(a) - np.searchsorted(a, values, "left")
    others = len(b) - np.searchsorted(b, values, "left")
    bounds = _bound(hits, others, len(a), alpha, delta)
    best = int(bounds.argmax())
    return float(values[best]), float(bounds[best])


@jax.jit
def _losses(mechanism: Any, y: Any, x: Any, x_other: Any) -> Array:
    return jax.vmap(lambda report: privacy_loss(mechanism, report, x, x_other))(y)


@jax.jit
def _estimates(mechanism: Any, y: Any) -> Any:
    return jax.vmap(mechanism.estimate)(y)


def estimates(mechanism: Any, y: Any) -> np.ndarray:
    """The server's estimates of stacked reports."""
    return in_blocks(lambda rows: _estimates(mechanism, rows), y)


def _scores(
    mechanism: Any, reports: list[Any], x: Any, x_other: Any, half: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Numbers that may tell two records apart, [trials] for the draws of each."""
    scores: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    if hasattr(mechanism, "log_density"):
        losses = (in_blocks(lambda rows: _losses(mechanism, rows, x, x_other), y) for y in reports)
        mine, others = (np.nan_to_num(np.asarray(loss, np.float64)) for loss in losses)
        scores["declared loss"] = (mine, others)
    own = law_of(mechanism.codomain()).scores(reports, x, x_other)
    if own is not None:
        return scores | own
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
    """A logistic regression on the bins of each coordinate of the estimate, trained on the first halves."""
    found = [np.asarray(estimates(mechanism, y), np.float32) for y in reports]
    found = [e.reshape(len(e), -1) for e in found]
    dim = found[0].shape[1]
    bins = max(2, min(24, 512 // dim))
    together = np.concatenate([e[:half] for e in found])
    cuts = [
        np.unique(np.quantile(column, np.linspace(0, 1, bins + 1)[1:-1], method="nearest")) for column in together.T
    ]
    places = [[np.searchsorted(cut, e[:, j], "right") for j, cut in enumerate(cuts)] for e in found]
    codes = [np.stack([bins * j + p for j, p in enumerate(place)], 1) for place in places]
    first, second = (jnp.asarray(code[: min(half, _TRAINING)]) for code in codes)
    weights = np.asarray(_regress(first, second, bins * dim))
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
