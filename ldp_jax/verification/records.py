"""Is every record treated alike? Reports of random records: windows that are not, and what single reports lose."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from ldp_jax.core import validate
from ldp_jax.core.spaces import NotApplicable
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.verification import _positions
from ldp_jax.verification._blocks import in_blocks
from ldp_jax.verification.empirical import privatize_stacked
from ldp_jax.verification.exact import spaces
from ldp_jax.verification.statistics import SIGNIFICANCE, Fit

TRIALS = 1 << 20
ROUNDING = 1e-3
"""How far the loss of a report may be from the claim by its own rounding, relative and absolute."""


def record_windows(
    mechanism: Any, key: PRNGKey, *, trials: int = TRIALS, significance: float = SIGNIFICANCE
) -> Fit:
    """Whether reports follow their law in every window of the records, however narrow.

    Each report of a random record is brought to its position in the law of that record: uniform. Windows of records
    by cells of positions are counted at five scales, down to windows of about sixteen records; one crowded cell is
    enough. Vectors are cut by the coordinate itself, by another one, and by their sum.

    Args:
      mechanism: on one number or category, or on a vector whose coordinates are independent given the record.
      key: a typed threefry key.
      trials: records.
      significance: how often a correct sampler may be rejected.

    Raises:
      ValueError: for other mechanisms, or fewer than 65 536 trials.

    >>> from ldp_jax.features import Duchi
    >>> record_windows(Duchi(1.0), jax.random.key(0), trials=65_536).fits
    True
    """
    validate.integer_in(65_536, trials=trials)
    draw_key, spread_key = jax.random.split(key)
    parts = _positions.numbers(mechanism, draw_key, trials)
    share, place, off = [], [], 0.0
    for given, part_key in zip(parts, jax.random.split(spread_key, len(parts)), strict=True):
        found, misplaced = _positions.positions(given, part_key)
        share.append(_shares(given))
        place.append(found)
        off = max(off, misplaced)
    by = np.concatenate(share, 1)
    fits = [_scan(each, np.concatenate(place), off, significance / len(by)) for each in by]
    return max(fits, key=lambda fit: (not fit.fits, fit.statistic))


def _shares(given: _positions.Numbers) -> np.ndarray:
    """Where records lie in their domain [1 or 3, n], in [0, 1): by themselves, another coordinate and the sum."""
    domain = given.mechanism.domain()
    own = domain.share(given.x)
    if own is None:
        raise NotApplicable(f"records of {domain} have no order to cut into windows")
    if given.beside is None:
        return own[None]
    other, total = given.beside
    return np.stack([own, domain.share(other), total])


def _scan(share: np.ndarray, place: np.ndarray, off: float, significance: float) -> Fit:
    """Crowded cells of (window of records, cell of positions), at every scale."""
    n = len(share)
    if not np.isfinite(place).all() or place.min() < -1e-6 or place.max() > 1 + 1e-6:
        return Fit(False, "windows (a report beyond its law)", np.inf, 0.0, 1 / n, n)
    place = np.clip(place, 0, 1 - 2.0**-53)
    most = int(np.log2(n))
    scales = [(most - 4, 4), (most - 8, 6), (most // 2, most // 2 - 2), (4, most - 6), (0, most)]
    tests = sum(2.0 ** (i + j) for i, j in scales)
    worst = 1.0
    for i, j in scales:
        window = (share * 2.0**i).astype(np.int64)
        code = (window << j) | (place * 2.0**j).astype(np.int64)
        count, held = np.bincount(code), np.bincount(window)
        crowded = np.flatnonzero(count > 1)
        expected = held[crowded >> j] * np.minimum(1.0, 2.0**-j + off)
        worst = min(worst, float(stats.poisson.sf(count[crowded] - 1, expected).min(initial=1.0)))
    return Fit(
        worst >= significance / tests,
        "windows",
        -np.log10(max(worst, 1e-300)),
        -np.log10(significance / tests),
        64 / n,
        n,
    )


def reported_losses(mechanism: Any, key: PRNGKey, *, trials: int = TRIALS) -> Fit:
    """Whether no report that is drawn loses more than the guarantee, by the density.

    The report of each random record is asked against another one and against both ends of the domain.

    Args:
      mechanism: with ``log_density`` and a guarantee.
      key: a typed threefry key.
      trials: reports.

    >>> from ldp_jax.features import Laplace
    >>> reported_losses(Laplace(1.0), jax.random.key(0), trials=10_000).fits
    True
    """
    validate.integer_in(1000, trials=trials)
    mine_key, other_key, draw_key = jax.random.split(key, 3)
    (domain, _), claim = spaces(mechanism), mechanism.guarantee().epsilon
    if domain.all_adjacent:
        x, other = (_positions.random_records(domain, k, trials) for k in (mine_key, other_key))
    else:
        x, other = domain.neighbours(np.random.default_rng(np.asarray(jax.random.key_data(mine_key))), trials)
    y = privatize_stacked(draw_key, mechanism, x)
    full = lambda end: jax.tree.map(lambda leaf, of: np.broadcast_to(leaf, np.shape(of)).astype(of.dtype), end, x)
    ends = [full(end) for end in domain.extremes()]
    adjacent = np.stack([domain.adjacent(x, each) for each in (other, *ends)], 1)
    ends = jax.tree.map(lambda *leaves: np.stack([leaf[0] for leaf in leaves]), *ends)
    losses = in_blocks(lambda rows: _losses(mechanism, *rows, ends), (y, x, other, adjacent))
    largest = float(np.max(losses))
    limit = claim * (1 + ROUNDING) + ROUNDING
    return Fit(largest <= limit, "losses of drawn reports", largest, limit, 13.8 / trials, trials)


@jax.jit
def _losses(mechanism: Any, y: Any, x: Any, other: Any, adjacent: Any, ends: Any) -> Array:
    """Losses of reports [n] against another record each, [n], and against all of ``ends``, [m].

    That of the worst of those that ``adjacent`` [n, 1 + m] says are adjacent; ``inf`` for a NaN.
    """

    def one(y: Any, x: Any, other: Any, adjacent: Any) -> Array:
        mine = mechanism.log_density(y, x)
        against = jax.vmap(lambda end: mechanism.log_density(y, end))(ends)
        logs = jnp.append(mechanism.log_density(y, other), against)
        # A report that its own record cannot give by the density is matches_density's to refuse.
        loss = jnp.where(jnp.isneginf(mine) | ~adjacent, 0.0, mine - logs).max()
        return jnp.where(jnp.isnan(loss), jnp.inf, loss)

    return jax.vmap(one)(y, x, other, adjacent)
