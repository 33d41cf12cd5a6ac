"""Are the coordinates of a report independent given the record? Pairs, triples, sign parities."""

from typing import Any

import jax  # noqa: F401 - the examples below
import numpy as np
from scipy import stats

from ldp_jax.core import random, validate
from ldp_jax.core.flags import standard_flags
from ldp_jax.core.mechanism import HasCoordinates, Randomizer
from ldp_jax.core.spaces import Finite, NotApplicable
from ldp_jax.core.types import PRNGKey
from ldp_jax.verification import _positions
from ldp_jax.verification._programs import draws, generator
from ldp_jax.verification.statistics import SIGNIFICANCE, Fit, tail_fit

TRIALS = 50_000
_CHUNK = 5_000  # reports whose pair products are held at once
_SPARE = 64
_PAIRS = 1024  # coordinates of which all pairs are asked
_TRIPLES = 64  # coordinates of which all triples are


@standard_flags()
def independent_coordinates(
    mechanism: Randomizer, key: PRNGKey, *, trials: int = TRIALS, significance: float = SIGNIFICANCE
) -> Fit:
    """Whether signs of coordinates are independent.

    All pairs, all triples, and parities of any number.

    Each value becomes a fair sign, by the side of the median of its law. The sum of every product
    of two and of three signs is binomial; where all coordinates are sent, the signs as bits also
    have full rank over GF(2).

    >>> from ldp_jax.features import LaplaceVector
    >>> independent_coordinates(LaplaceVector(1.0, dim=5), jax.random.key(0), trials=5_000).fits
    True
    """
    validate.integer_in(1000, trials=trials)
    domain: Any = mechanism.domain()
    if getattr(domain, "dim", 1) < 2:
        raise NotApplicable(
            f"mechanism must be one on vectors of 2 and more coordinates, got {domain}"
        )
    draw_key, spread_key = random.split(key)
    rng = generator(spread_key)
    chosen = np.sort(rng.permutation(domain.dim)[:_PAIRS])
    sign = _signs(mechanism, draw_key, spread_key, trials)[:, chosen]
    worst, tests = _products(sign, np.sort(rng.permutation(len(chosen))[:_TRIPLES]))
    limit = significance / tests
    whole = bool(np.abs(sign).all())
    defect = (stats.norm.isf(limit / 2) + stats.norm.isf(significance)) / np.sqrt(trials)
    fit = tail_fit("coordinates", worst, limit, defect, trials)
    return fit._replace(fits=fit.fits and not (whole and _dependent(sign > 0)))


def _signs(
    mechanism: Randomizer, draw_key: PRNGKey, spread_key: PRNGKey, trials: int
) -> np.ndarray:
    """Fair signs [trials, dim], 0 where nothing was sent."""
    domain: Any = mechanism.domain()
    codomain = mechanism.codomain()
    centre = domain.centre()
    y = draws(mechanism, draw_key, centre, trials)
    sign = np.zeros((trials, domain.dim), np.float32)
    if isinstance(mechanism, HasCoordinates):
        given = _positions.by_law(mechanism, np.broadcast_to(centre, sign.shape), y)
        keys = random.split(spread_key, len(given)) if len(given) > 1 else [spread_key]
        for (numbers, user, coordinate), key in zip(given, keys, strict=True):
            sign[user, coordinate] = np.where(
                _positions.positions(numbers, key)[0] < 0.5, -1.0, 1.0
            )
        return sign
    if getattr(codomain, "inner", None) == Finite((-1.0, 1.0)):
        return y.astype(np.float32)
    raise NotApplicable(f"the coordinates of {type(mechanism).__name__} have no law of their own")


def _products(sign: np.ndarray, few: np.ndarray) -> tuple[float, int]:
    """The smallest tail of a sum of products of two signs, or of three of a ``few``.

    And how many there are.
    """
    n, dim = sign.shape
    first, second = np.triu_indices(dim, 1)
    here = np.abs(sign)
    sums, counts = (sign.T @ sign)[first, second], (here.T @ here)[first, second]
    sign, here = sign[:, few], here[:, few]
    first, second = np.triu_indices(len(few), 1)
    triple = np.zeros((len(first), len(few)))
    among = np.zeros((len(first), len(few)))
    for start in range(0, n, _CHUNK):
        part, present = sign[start : start + _CHUNK], here[start : start + _CHUNK]
        triple += (part[:, first] * part[:, second]).T @ part
        among += (present[:, first] * present[:, second]).T @ present
    later = np.arange(len(few)) > second[:, None]
    total = np.concatenate([sums, triple[later]])
    held = np.concatenate([counts, among[later]])
    less = np.round((held - np.abs(total)) / 2)
    return float(2 * stats.binom.cdf(less, held, 0.5).min()), len(total)


def _dependent(bits: np.ndarray) -> bool:
    """Whether a product of some signs is always the same: less than full rank over GF(2)."""
    rows = bits[: bits.shape[1] + _SPARE]
    packed = [int("".join("1" if b else "0" for b in row) + "1", 2) for row in rows]
    rank = 0
    width = bits.shape[1] + 1
    for place in range(width):
        pivot = next((row for row in packed if row >> place & 1), None)
        if pivot is not None:
            rank += 1
            packed = [row ^ pivot if row >> place & 1 else row for row in packed]
    return rank < width
