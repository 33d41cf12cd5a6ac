r"""The gain of shuffling: reports without names hide among each other.

Float64, on the host, no JAX.

A trusted shuffler drops names and mixes n reports, each of an epsilon_0-private mechanism. Let R_0
and R_1 be the laws of one user's report under two records, and every other report be at least q / 2
times (R_0 + R_1), whatever the record: q >= e^-epsilon_0. The two laws are mixtures
:math:`R_0 = \lambda Q_0 + (1 - \lambda) Q_1, R_1 = (1 - \lambda) Q_0 + \lambda Q_1` with
:math:`\lambda = e^{\epsilon_0} / (e^{\epsilon_0} + 1)`. Each other report is, with probability q, a
clone: from Q_0 or Q_1 by a fair coin. So shuffled reports are no farther apart than

.. math:: (A + \Delta, C + 1 - A - \Delta) \quad \text{and} \quad (A + 1 - \Delta, C - A + \Delta),
\qquad
   C \sim \mathrm{Bin}(n - 1, q), \; A \sim \mathrm{Bin}(C, 1/2), \; \Delta \sim
   \mathrm{Bern}(\lambda)

*Numerics.* Given C = c the two are apart by :math:`w P(A = t - 1) - (e^\epsilon - 1) P(A \ge t)`,
which falls in c: up to 2 048 intervals of c stand for all, each at its lower end. Rounding goes to
the safe side: 1e-9 of each probability, 1e-6 of delta.
Reference: Feldman, McMillan & Talwar, Hiding among the clones (FOCS 2021), Theorem 3.2, where q =
e^-epsilon_0.
"""

import bisect
import dataclasses
import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from ldp_jax.accounting.guarantee import RECORD, Guarantee, any_two
from ldp_jax.core import validate

__all__ = ["Reports", "amplified", "clone_share"]

__dir__ = lambda: __all__


Reports = Literal["anonymous", "by user"]
"""Whether a report says, or what is done with it needs, whose it is."""

_INTERVALS = 2048
_HALVINGS = 45
# How far sums of rows, and clones from the most that an epsilon allows, may be rounded.
_SAME = 1e-6
_EACH, _ALL = 1e-9, 1e-6  # the largest relative rounding of one probability, and of their sum


def clone_share(masses: ArrayLike) -> float:
    r"""Return the share q of every report of a finite mechanism that does not depend on the record.

    .. math:: q = \min_y \frac{2 \min_x P(y | x)}{\max_{x \ne x'} P(y | x) + P(y | x')}

    It lies in [e^-epsilon, 1]; for generalised randomised response it is 2 / (e^epsilon + 1).
    ``masses`` are [inputs, outputs] >= 0, rows of one sum, such as ``table.masses``; q is rounded
    down.

    >>> from ldp_jax.deployment import alphabet_table
    >>> (
    ...     round(clone_share(alphabet_table(1.0, 3, 3).masses), 6),
    ...     round(2 / (math.e + 1), 6),
    ... )
    (0.537883, 0.537883)
    """
    law = np.asarray(masses, np.float64)
    validate.require(
        law.ndim == 2 and len(law) >= 2 and np.isfinite(law).all() and (law >= 0).all(),
        "masses must be [inputs, outputs], finite and >= 0, of two inputs",
        law,
    )
    sums = law.sum(1)
    validate.require(
        0 < sums.max() <= sums.min() * (1 + _SAME), "masses must have rows of one sum > 0", sums
    )
    rising = np.sort(law[:, (law > 0).any(0)], axis=0)
    shares = 2 * rising[0] / (rising[-1] + rising[-2])
    least = float(shares.min(initial=1.0))
    return max(0.0, least * (1.0 - 4 * float(np.finfo(np.float64).eps)))


def amplified(
    guarantee: Guarantee, users: int, delta: float, *, reports: Reports, clones: float | None = None
) -> Guarantee:
    """Return the cost of one user's record towards everybody who sees shuffled reports alone.

    It is the least epsilon that the bound allows at ``delta``, rounded up, never above the report's
    own. Towards the shuffler the report's own guarantee holds.

    Args:
      guarantee: of each user's report, of unit RECORD, without delta. Unless ``clones`` are given
        its adjacency is of "any two", however they differ: else reports of others may be rarer than
        e^-epsilon.
      users: n, public, who report honestly by this mechanism and one public epsilon.
      delta: of the whole, in (0, 1).
      reports: ``anonymous``; a report that enters a graph is ``by user``, and is refused.
      clones: q, by default e^-epsilon; a finite mechanism's :func:`clone_share` is more, up to 2 /
        (e^epsilon + 1).

    ``ValueError`` for reports by user, another unit than RECORD, a guarantee that is not local or
    not of any two records, more clones than a report of that epsilon can have, or numbers out of
    range.

    >>> from ldp_jax.features import GeneralizedRR
    >>> report = GeneralizedRR(1.0, 4).guarantee()
    >>> print(
    ...     amplified(report, 10_000, 1e-6, reports="anonymous")
    ... )  # doctest: +ELLIPSIS
    epsilon 0.0..., delta 1e-06 per record (...; towards all but a trusted shuffler; exact ...
    >>> amplified(report, 10_000, 1e-6, reports="by user")
    Traceback (most recent call last):
    ValueError: reports must be anonymous: a shuffler drops names, without which none enters a graph
    """
    validate.one_of(get_args(Reports), reports=reports)
    require = validate.require
    require(
        reports == "anonymous",
        "reports must be anonymous: a shuffler drops names, without which none enters a graph",
    )
    unit = guarantee.unit
    require(
        unit == RECORD, f"amplified needs the unit {RECORD}, got {unit}: lists and edges name users"
    )
    trust = guarantee.trust
    require(trust == "local", "trust of guarantee must be 'local', as users report it", trust)
    require(
        clones is not None or any_two(guarantee.adjacency) == "any two",
        "amplified needs a loss between any two records, as others may hold any record: "
        "give the clones of the mechanism, by clone_share",
        guarantee.adjacency,
    )
    require(not guarantee.delta, "amplified needs a report without delta", guarantee.delta)
    own = validate.number(0.0, **{"epsilon of guarantee": guarantee.epsilon})
    n = validate.whole(1, 10**9, users=users)
    delta = validate.number(0.0, 1.0, open_lower=True, open_upper=True, delta=delta)
    share = math.exp(-own)
    if clones is not None:
        clones = validate.number(0.0, 1.0, clones=clones)
        most = 2.0 * share / (1.0 + share)
        require(
            clones <= most * (1.0 + _SAME),
            f"clones must be at most 2 / (e^epsilon + 1) = {most:g} of a report that may lose "
            f"{own:g}: give the epsilon that the report does lose",
            clones,
        )
        share = min(clones, most)

    one = guarantee.adjacency
    return dataclasses.replace(
        guarantee,
        epsilon=_epsilon(own, n, share, delta),
        delta=delta,
        adjacency=f"two sets of {n} records that differ in one user's; that report: {one}",
        reason=f"clones among shuffled reports; {guarantee.reason}" if guarantee.reason else "",
        trust="shuffled",
    )


def _epsilon(own: float, n: int, share: float, delta: float) -> float:
    """Return the least epsilon at which n reports with a share of clones lose ``delta``."""
    if own == 0.0 or own > 50.0:  # beyond, there are next to no clones
        return own
    counts, masses = _clones(n - 1, share, delta)
    if _delta(0.0, own, counts, masses) <= delta:
        return 0.0
    low = 0.0
    high = own
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if _delta(middle, own, counts, masses) <= delta:
            high = middle
        else:
            low = middle
    return high


def _clones(others: int, share: float, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of clones, from 0 on, and the probability of the interval from each on."""
    law = stats.binom(others, share)
    # The largest number of clones below which there is next to no mass.
    low = bisect.bisect_right(range(others), 1e-7 * delta, key=law.cdf)
    mean = others * share
    deviation = math.sqrt(others * share * (1.0 - share))
    last = max(low, min(others, math.ceil(mean + 6.0 * deviation)))
    from_low = np.round(np.linspace(low, last, _INTERVALS))
    counts = np.unique(np.append(0, from_low))
    ends = np.append(law.cdf(counts[1:] - 1), 1.0)
    return counts, np.diff(ends, prepend=0.0)


def _delta(epsilon: float, own: float, counts: np.ndarray, masses: np.ndarray) -> float:
    """The hockey-stick divergence of the bound, rounded up."""
    gap = -math.expm1(epsilon - own)
    weight = gap / (1.0 + math.exp(-own))
    # t is the least whole number above a share of c + 1, taken from the other end: of large
    # epsilons the share is 1 to float64, and t would be beyond all that there is.
    rest = gap / (-math.expm1(-own) * (1.0 + math.exp(epsilon)))
    # Beyond, the first law is the likelier by e^epsilon.
    least = counts + 2.0 - np.ceil((counts + 1.0) * rest)
    some = least <= counts + 1.0
    c = counts[some]
    t = least[some]
    here = stats.binom.pmf(t - 1.0, c, 0.5)
    above = stats.binom.sf(t - 1.0, c, 0.5)
    each = weight * here * (1.0 + _EACH) - math.expm1(epsilon) * above * (1.0 - _EACH)
    total = (np.maximum(each, 0.0) * masses[some]).sum()
    return float(total * (1.0 + _ALL))
