"""Many records share the draws: does the sampler follow the law at each, and what do random pairs lose?"""

import math
from typing import Any

import jax
import numpy as np
from scipy import stats

from ldp_jax.core import validate
from ldp_jax.core.mechanism import HasCoordinates
from ldp_jax.core.spaces import Enumerated
from ldp_jax.core.types import PRNGKey
from ldp_jax.verification import _lists, empirical
from ldp_jax.verification._blocks import take
from ldp_jax.verification.empirical import LowerBound
from ldp_jax.verification.statistics import SIGNIFICANCE, Fit

_ALL = 128  # members of a space that are all asked
_COORDINATES = 256  # laws that are integrated, where each coordinate of a record has one
_FEWEST = 8  # records, however many coordinates they have
_DRAWS = 100  # of a record, at least
_MOST_DRAWS = 1 << 22  # of all members of a small space
_PAIRS = 8  # random pairs of adjacent records that a game is played about


def matches_everywhere(
    mechanism: Any, key: PRNGKey, *, trials: int = 200_000, significance: float = SIGNIFICANCE
) -> Fit:
    """Whether ``privatize`` draws what ``log_density`` says at every record of a small space, or at random ones.

    All of at most 128 members are asked (categories; lists of up to eight nodes, their owners in turn), else 128
    random records; of vectors of independent coordinates 8 to 128, 256 laws in all. Records share the trials; each
    category has up to ``trials``, at most 2^22 together, and each of its reports is also counted alone.

    Args:
      mechanism: with ``log_density``; epsilon one number.
      key: a typed threefry key.
      trials: draws of all records together.
      significance: how often a correct sampler may be rejected.

    Returns:
      The :class:`Fit` of the worst record; a region of the share ``smallest_defect`` that is far off is found.

    >>> from ldp_jax.features import GeneralizedRR
    >>> fit = matches_everywhere(GeneralizedRR(1.0, 40), jax.random.key(0), trials=40_000)
    >>> fit.fits, fit.records, fit.smallest_defect
    (True, 40, 0.025)
    """
    validate.integer_in(100, trials=trials)
    validate.threefry(key)
    record_key, draw_key, pick_key = jax.random.split(key, 3)
    x, owners, all_of_them = _records(mechanism, record_key)
    count = len(owners)
    each = max(_DRAWS, trials // count)
    categories = all_of_them and not mechanism.domain().users
    if categories:
        each = max(each, min(trials, _MOST_DRAWS // count))
    many = jax.tree.map(lambda leaf: np.repeat(leaf, each, 0), x)
    words = np.asarray(jax.random.key_data(jax.random.split(draw_key, count * each)))
    if mechanism.domain().users:
        y = _lists.report_each(words, mechanism, many, np.repeat(owners, each))
    else:
        y = empirical.report_each(words, mechanism, many)
    fits = []
    for place, pick in enumerate(jax.random.split(pick_key, count)):
        record = take(x, place)
        reports = take(y, slice(place * each, (place + 1) * each))
        share = significance / ((1 + categories) * count)
        if mechanism.domain().users:
            fits.append(_lists.fit_of(mechanism, record, int(owners[place]), reports, share))
            continue
        fits.append(empirical.fit_of(mechanism, pick, record, reports, share))
        if categories:
            fits.append(_each_report(mechanism, record, reports, share))
    worst = max(fits, key=lambda fit: (not fit.fits, fit.statistic / fit.threshold if fit.threshold else 0.0))
    region = 1 / count if all_of_them else 1 - SIGNIFICANCE ** (1 / count)
    return worst._replace(smallest_defect=region, draws=count * each, records=count)


def _records(mechanism: Any, key: PRNGKey) -> tuple[Any, np.ndarray, bool]:
    """Stacked records, int32 [m] whose each is, and whether there are no others."""
    domain = mechanism.domain()
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    few = domain.users and 2 ** (domain.users - 1) <= _ALL
    if few or (isinstance(domain, Enumerated) and len(domain) <= _ALL):
        x = _lists.all_lists(domain) if few else jax.tree.map(np.asarray, domain.grid(_ALL))
    else:
        dim = mechanism.codomain().dim if isinstance(mechanism, HasCoordinates) else 1
        few, x = False, domain.sample(rng, min(_ALL, max(_FEWEST, _COORDINATES // dim)))
    count = len(jax.tree.leaves(x)[0])
    owners = np.arange(count, dtype=np.int32) % max(domain.users, 1)
    if domain.users:
        one = lambda place: jax.tree.map(lambda leaf: leaf[place], x)
        x = _lists.stacked([domain.seen_by(int(own), one(place)) for place, own in enumerate(owners)])
    return x, owners, bool(few or isinstance(domain, Enumerated) and count == len(domain))


def _each_report(mechanism: Any, x: Any, y: Any, significance: float) -> Fit:
    """Reports of one record, each of its cells against its mass by a binomial tail on either side."""
    mass, cell = empirical.cells_of(mechanism, x)
    place = cell(y)
    count, n = np.bincount(place, minlength=len(mass)), len(place)
    mass = np.clip(mass, 0.0, 1.0)
    tail = float(np.minimum(stats.binom.sf(count - 1, n, mass), stats.binom.cdf(count, n, mass)).min())
    limit = significance / (2 * len(mass))
    return Fit(tail >= limit, "each report", -math.log10(max(tail, 1e-300)), -math.log10(limit), 0.0, n)


def largest_lower_bound(
    mechanism: Any, key: PRNGKey, trials: int = 200_000, confidence: float = 1 - SIGNIFICANCE, *, delta: float = 0.0
) -> LowerBound:
    """The largest of several lower bounds on epsilon: of the extreme records, and of 8 random adjacent pairs.

    The extremes have all trials and half of 1 - ``confidence``; the pairs share as many, and the other half.

    Args:
      mechanism: epsilon one number.
      key: a typed threefry key.
      trials: draws of each extreme record, and of all others together; at least 1 000 of each.
      confidence: that no bound is above the truth.
      delta: of the (epsilon, delta) guarantee that is asked about.

    >>> from ldp_jax.features import Duchi
    >>> 0.9 < largest_lower_bound(Duchi(1.0), jax.random.key(0)).epsilon <= 1.0
    True
    """
    pair_key, *keys = jax.random.split(key, 2 + _PAIRS)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(pair_key)))
    pairs = mechanism.domain().neighbours(rng, _PAIRS)
    wrong = (1 - confidence) / 2
    found = [
        empirical.epsilon_lower_bound(mechanism, keys[0], max(1000, trials), 1 - wrong, delta=delta),
        *(
            empirical.epsilon_lower_bound(
                mechanism,
                pair_key,
                max(1000, trials // _PAIRS),
                1 - wrong / _PAIRS,
                x=take(pairs[0], place),
                x_other=take(pairs[1], place),
                delta=delta,
            )
            for place, pair_key in enumerate(keys[1:])
        ),
    ]
    return max(found, key=lambda bound: bound.epsilon)
