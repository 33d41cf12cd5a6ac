"""Is every record treated alike? Odd windows, the loss of single reports, and their frequency."""

import jax
import numpy as np
from scipy import stats

from ldp_jax.core import random, validate
from ldp_jax.core.flags import standard_flags
from ldp_jax.core.spaces import NotApplicable
from ldp_jax.core.types import PRNGKey, Report, Values
from ldp_jax.verification import _positions
from ldp_jax.verification._laws import law_of
from ldp_jax.verification._programs import (
    Exact,
    count_of,
    draws,
    generator,
    is_float,
    logs_each,
    logs_of,
    lost,
    privatize_stacked,
    raw,
    repeated,
    take,
)
from ldp_jax.verification.exact import spaces
from ldp_jax.verification.records import pairs_of
from ldp_jax.verification.statistics import SIGNIFICANCE, Fit, tail_fit

TRIALS = 1 << 20
ROUNDING = 1e-3
"""How far the loss of a report may be from the claim by its own rounding, relative and absolute."""

_UNIFORM = (
    2.0**-23
)  # the mass of one float32 uniform, which is what a report of a continuum has at least
_BLURRED = 0.5  # of the mass, misplaced by float32: beyond, no window is crowded that is not
_MOST = 4096  # reports, the most frequent, whose mass is asked


@standard_flags()
def record_windows(
    mechanism: Exact, key: PRNGKey, *, trials: int = TRIALS, significance: float = SIGNIFICANCE
) -> Fit:
    """Whether reports follow their law in every window of the records, however narrow.

    The position of a report in the law of its record is uniform. Windows of records, half of which
    are natural ones, by cells of positions are counted at all scales; one crowded cell is enough.
    Vectors are cut by the coordinate, by another one, and by their sum. ``NotApplicable`` where
    float32 may misplace half of a law's mass.

    >>> from ldp_jax.features import Duchi
    >>> record_windows(Duchi(1.0), jax.random.key(0), trials=65_536).fits
    True
    """
    validate.integer_in(65_536, trials=trials)
    draw_key, spread_key = random.split(key)
    parts = _positions.numbers(mechanism, draw_key, trials)
    share = []
    place = []
    off = 0.0
    for given, part_key in zip(parts, random.split(spread_key, len(parts)), strict=True):
        found, misplaced = _positions.positions(given, part_key)
        share.append(_shares(given))
        place.append(found)
        off = max(off, misplaced)
    if off > _BLURRED:
        raise NotApplicable(
            f"float32 may misplace {min(off, 1.0):.2g} of a law's mass: windows would show nothing"
        )
    by = np.concatenate(share, 1)
    fits = [_scan(each, np.concatenate(place), off, significance / len(by)) for each in by]
    return max(fits, key=lambda fit: (not fit.fits, fit.statistic))


def _shares(given: _positions.Numbers) -> np.ndarray:
    """Places [1 or 3, n] of records in their domain: alone, another coordinate and the sum."""
    domain = given.mechanism.domain()
    alone = domain.share(given.x)
    if alone is None:
        raise NotApplicable(f"records of {domain} have no order to cut into windows")
    if given.beside is None:
        return alone[None]
    other, total = given.beside
    return np.stack([alone, np.asarray(domain.share(other)), total])


def _scan(share: np.ndarray, place: np.ndarray, off: float, significance: float) -> Fit:
    """Crowded cells of (window of records, cell of positions), at every scale."""
    n = len(share)
    if not np.isfinite(place).all() or place.min() < -1e-6 or place.max() > 1 + 1e-6:
        return Fit(False, "windows (a report beyond its law)", np.inf, 0.0, 1 / n, n)
    place = np.clip(place, 0, 1 - 2.0**-53)
    most = int(np.log2(n))
    scales = [(i, j) for i in range(most) for j in range(1, most - i + 1)]
    tests = sum(2.0 ** (i + j) for i, j in scales)
    worst = 1.0
    for i, j in scales:
        window = (share * 2.0**i).astype(np.int64)
        code = (window << j) | (place * 2.0**j).astype(np.int64)
        count = np.bincount(code)
        held = np.bincount(window)
        crowded = np.flatnonzero(count > 1)
        expected = held[crowded >> j] * np.minimum(1.0, 2.0**-j + off)
        worst = min(worst, float(stats.poisson.sf(count[crowded] - 1, expected).min(initial=1.0)))
    return tail_fit("windows", worst, significance / tests, 64 / n, n)


@standard_flags()
def reported_losses(mechanism: Exact, key: PRNGKey, *, trials: int = TRIALS) -> Fit:
    """Whether no report that is drawn loses more than the guarantee, by the density.

    The report of each random record is asked against another one and against both ends of the
    domain.

    >>> from ldp_jax.features import Laplace
    >>> reported_losses(Laplace(1.0), jax.random.key(0), trials=10_000).fits
    True
    """
    validate.integer_in(1000, trials=trials)
    record_key, draw_key = random.split(key)
    domain, _ = spaces(mechanism)
    claim = mechanism.guarantee().epsilon
    _, x, other = pairs_of(domain, generator(record_key), trials)
    y = privatize_stacked(draw_key, mechanism, x)
    ends = [
        jax.tree.map(lambda leaf, of: leaf.astype(of.dtype), repeated(end, trials), x)
        for end in domain.extremes()
    ]
    mine = logs_each(mechanism, y, x)
    largest = -np.inf
    for against in (other, *ends):
        loss = lost(mine, logs_each(mechanism, y, against))
        # A report that its own record cannot give by the density is matches_density's to refuse.
        loss = np.where(np.isneginf(mine) | ~domain.adjacent(x, against), 0.0, loss)
        largest = max(largest, float(np.nan_to_num(loss, nan=np.inf).max()))
    limit = claim * (1 + ROUNDING) + ROUNDING
    return Fit(largest <= limit, "losses of drawn reports", largest, limit, 13.8 / trials, trials)


@standard_flags()
def distinct_reports(
    mechanism: Exact,
    key: PRNGKey,
    x: Values | None = None,
    *,
    trials: int = TRIALS,
    significance: float = SIGNIFICANCE,
) -> Fit:
    """Whether no single report of one record comes more often than its law and float32 allow.

    A report of a continuum has a mass of 2^-23 and of the four float32 spacings around it; vectors
    are whole.

    >>> from ldp_jax.features import SquareWave
    >>> distinct_reports(SquareWave(1.0), jax.random.key(0), trials=100_000).fits
    True
    """
    validate.integer_in(1000, trials=trials)
    domain, _ = spaces(mechanism)
    record = domain.typical() if x is None else domain.given(x)
    return counted(mechanism, record, draws(mechanism, key, record, trials), significance)


def counted(mechanism: Exact, x: Values, y: Report, significance: float) -> Fit:
    """The same of stacked reports of a record."""
    leaves = [np.ascontiguousarray(leaf) for leaf in jax.tree.leaves(y)]
    trials = count_of(y)
    narrow = [leaf.dtype for leaf in leaves if is_float(leaf) and leaf.dtype.itemsize < 4]
    if narrow:
        raise NotApplicable(
            f"reports of {narrow[0]} repeat by rounding: what a float32 may weigh is no bound of "
            "theirs"
        )
    rows = np.concatenate([_words(leaf.reshape(trials, -1)) for leaf in leaves], 1)
    whole = (
        rows.view([("", np.uint32)] * rows.shape[1]).ravel() if rows.shape[1] > 1 else rows[:, 0]
    )
    _, first, count = np.unique(whole, return_index=True, return_counts=True)
    often = np.argsort(-count, kind="stable")[:_MOST]
    mass = _mass(mechanism, take(y, first[often]), x)
    chance = stats.binom.sf(count[often] - 1, trials, np.clip(mass, 0.0, 1.0))
    return tail_fit(
        "distinct reports", float(chance.min()), significance / len(count), 30 / trials, trials
    )


def _words(leaf: np.ndarray) -> np.ndarray:
    """The bits of each number in one uint32 word, or in two."""
    bits = raw(leaf)
    return bits.astype(np.uint32) if bits.dtype.itemsize < 4 else bits.view(np.uint32)


def _mass(mechanism: Exact, y: Report, x: Values) -> np.ndarray:
    """The most that a report may weigh."""
    codomain = mechanism.codomain()
    # Rounding may have put a report just beyond the break that it was drawn on the other side of.
    nudges = (-2, -1, 0, 1, 2) if codomain.continuous else (0,)
    beside = [
        jax.tree.map(lambda leaf, by=by: _nudged(leaf, by) if by else leaf, y) for by in nudges
    ]
    logs = np.max([np.asarray(logs_of(mechanism, at, x), np.float64) for at in beside], 0)
    volume, atom = law_of(codomain).volume(y)
    return np.exp(logs) * volume * (1 + 1e-4) + np.where(atom, 0.0, _UNIFORM)


def _nudged(leaf: np.ndarray, by: int) -> np.ndarray:
    return leaf + by * np.spacing(np.abs(leaf)) if np.issubdtype(leaf.dtype, np.floating) else leaf
