"""The cost of several releases, as functions from guarantees to a guarantee.

Float64, on the host, no JAX.

Within a unit: :func:`sequential`, :func:`parallel`, :func:`sampled`, :func:`advanced`,
:func:`over_rounds`. Between units only: :func:`relationship`, :func:`joint`. A release may look at
the reports before it, if epsilons, sigmas and the number of releases are fixed beforehand, whatever
the records.
"""

import dataclasses
import math
from fractions import Fraction

import numpy as np
from scipy import special

from ldp_jax.accounting.guarantee import (
    NEIGHBOUR_LIST,
    RELATIONSHIP,
    WORDS,
    Guarantee,
    PipelineGuarantee,
    Unit,
    any_two,
    joint_unit,
    merged,
    narrowed,
    one_unit,
    sequential,
)
from ldp_jax.core import validate
from ldp_jax.core.rounding import ABOVE, add_up, exponential, rounded_up

__all__ = [
    "ANSWERS",
    "advanced",
    "joint",
    "over_rounds",
    "parallel",
    "relationship",
    "sampled",
    "sequential",
]

__dir__ = lambda: __all__


def parallel(*guarantees: Guarantee) -> Guarantee:
    """Compose releases about disjoint users: the worst one counts.

    The members of each release must be public. Two releases that both report an edge are not
    disjoint. Status, arithmetic and errors: :func:`sequential`.
    Reference: McSherry (2009), Theorem 4.

    >>> parallel(Guarantee(0.5, delta=1e-5), Guarantee(1.0)).epsilon
    1.0
    """
    unit = one_unit(guarantees, "parallel")
    epsilon = max(one.epsilon for one in guarantees)
    return merged(guarantees, epsilon, max(one.delta for one in guarantees), unit)


def sampled(guarantee: Guarantee, k: int, dim: int) -> Guarantee:
    """Return the cost of k of ``dim`` coordinates, drawn uniformly: k times that of one.

    Sampling amplifies nothing: the chosen coordinates are part of the report, and two records may
    differ in all. ``ValueError`` for metric privacy.

    >>> sampled(Guarantee(0.25), k=4, dim=100).epsilon
    1.0
    """
    _totalled("sampled", guarantee.unit)
    k = validate.whole(1, validate.whole(1, dim=dim), k=k)
    one = guarantee.adjacency
    return dataclasses.replace(
        guarantee.repeated(k),
        adjacency=f"{any_two(one)} records of {dim} coordinates; a coordinate: {one}",
    )


def relationship(first: Guarantee, second: Guarantee | None = None) -> Guarantee:
    """Return the cost of one undirected edge from that of one bit of a neighbour list.

    With two full lists both ends report the edge: eps_i + eps_j, and deltas add too. With one
    argument its owner alone does, by a public rule. Under personal budgets take the largest sum
    over the edges asked about.
    Reference: Imola, Murakami and Chaudhuri (USENIX Security 2021).

    >>> bit = Guarantee(1.0, unit=NEIGHBOUR_LIST)
    >>> relationship(bit, bit).epsilon, relationship(bit).epsilon
    (2.0, 1.0)
    """
    ends = (first,) if second is None else (first, second)
    for end in ends:
        validate.require(
            end.unit == NEIGHBOUR_LIST,
            f"relationship needs the unit {NEIGHBOUR_LIST}, got {end.unit}",
        )
    seen = "the report of its owner alone" if second is None else "the reports of both its ends"
    total = sequential(*ends)
    words = narrowed(f"{WORDS[RELATIONSHIP]}, seen through {seen}", total.adjacency)
    return dataclasses.replace(total, unit=RELATIONSHIP, adjacency=words)


def joint(*guarantees: Guarantee, adjacency: str) -> Guarantee:
    r"""Protect several units at once: two inputs may differ in all, as ``adjacency`` says.

    Guarantees of one unit are added first. Then epsilons add, and deltas chain,
    :math:`\delta_1 + e^{\epsilon_1} \delta_2 + \dots`, in the order that gives least. They must
    cover everything that is released. The unit names those that were summed, and adds to no other.
    ``ValueError`` if none is given, adjacency is empty, some are local and some central, or a unit
    is METRIC.

    >>> words = "two graphs that differ in one user's record and one of their edges"
    >>> total = joint(
    ...     Guarantee(1.0), Guarantee(0.5, unit=RELATIONSHIP), adjacency=words
    ... )
    >>> print(total.unit, total.epsilon)
    record + relationship 1.5
    """
    validate.require(guarantees, "joint needs at least one guarantee, got none")
    validate.require(
        adjacency.strip(), "adjacency must say in words which two inputs are compared", adjacency
    )
    for guarantee in guarantees:
        _totalled("joint", guarantee.unit)
    parts = PipelineGuarantee.of(guarantees, protected=(), unprotected=()).guarantees
    unit = joint_unit(*(part.unit for part in parts))
    epsilon = add_up(part.epsilon for part in parts)

    # Neighbour i comes before j where (e^eps_i - 1) / delta_i is the smaller, by exchange.
    total = Fraction(0)
    before = Fraction(0)
    uncertain = [part for part in parts if part.delta > 0.0]
    uncertain.sort(key=lambda part: math.expm1(min(part.epsilon, 700.0)) / part.delta)
    for part in uncertain:
        if before > _ENOUGH:
            total = Fraction(1)
            break
        lifted = exponential(before) * ABOVE if before else 1
        total += Fraction(part.delta) * lifted
        before += Fraction(min(part.epsilon, _ENOUGH + 1.0))
    return merged(parts, epsilon, min(1.0, rounded_up(total)), unit, adjacency)


_ENOUGH = 1500  # e^1500 lifts the least float above 1


def _totalled(name: str, unit: Unit) -> None:
    validate.require(
        unit.rate is None, f"{name} cannot add {unit}: a loss per unit of distance has no total"
    )


def advanced(guarantee: Guarantee, times: int, delta: float) -> Guarantee:
    r"""Compose ``times`` releases at the smallest epsilon that ``delta`` allows: exactly.

    With :math:`p_l = \binom{k}{l} e^{(k-l)\epsilon} / (1+e^\epsilon)^k` and
    :math:`q_l = p_l e^{(2l-k)\epsilon}`,

    .. math:: \delta_{RR}(\epsilon') = \max_i \sum_{l<i} (p_l - e^{\epsilon'} q_l), \qquad
       1 - \delta = (1-\delta_0)^k (1 - \delta_{RR}(\epsilon'))

    which is piecewise linear in :math:`e^{\epsilon'}` and is inverted at any delta. Never worse
    than k eps. ``times`` is in [1, 10^7] and fixed beforehand; ``delta``, of the whole, in
    [1 - (1 - delta_0)^k, 1).
    Reference: Kairouz, Oh and Viswanath (ICML 2015), Theorem 3.3.

    >>> advanced(Guarantee(0.1), times=100, delta=1e-6).epsilon < 100 * 0.1
    True
    """
    _totalled("advanced", guarantee.unit)
    epsilon = validate.number(0.0, **{"epsilon of guarantee": guarantee.epsilon})
    each = validate.number(0.0, 1.0, open_upper=True, **{"delta of guarantee": guarantee.delta})
    k = validate.whole(1, 10**7, times=times)
    delta = validate.number(0.0, 1.0, open_upper=True, delta=delta)
    least = -math.expm1(k * math.log1p(-each))
    validate.require(
        delta >= least * (1.0 - 1e-12),
        f"delta must be in [{least:g}, 1), as {k} releases have that much",
        delta,
    )
    # Covers the rounding of gammaln, in units of its last place, and of the sums; on the safe side.
    rounding = 1e-9 + 8.0 * float(np.spacing(special.gammaln(k + 1.0)))
    rest = k * math.log1p(-each)
    granted = -math.expm1(math.log1p(-delta) - rest)
    left = (granted + 2.0**-50 * rest) * (1.0 - rounding)
    total = add_up((epsilon,), k)
    if epsilon > 0.0 and left > 0.0:
        ell = np.arange((k + 1) // 2, dtype=np.float64)  # the losses (k - 2l) eps above 0
        orders = special.gammaln(ell + 1.0)
        log_ways = special.gammaln(k + 1.0) - orders - special.gammaln(k - ell + 1.0)
        log_p = log_ways - ell * epsilon - k * math.log1p(math.exp(-epsilon))
        log_q = np.logaddexp.accumulate(log_p - (k - 2.0 * ell) * epsilon)
        mass = np.cumsum(np.exp(log_p))
        inside = mass > left
        mass = mass[inside]
        log_q = log_q[inside]
        corners = np.log(mass - left) - log_q
        # The rounding of the differences, which cancel.
        corners += 2.0**-49 * (1.0 + np.abs(log_q) + mass / (mass - left))
        largest = float(corners.max(initial=0.0))
        total = min(total, largest * (1.0 + 2.0**-49))  # rounded logarithms
    # The granted delta may be a rounding below that of the releases.
    delta = max(delta, min(1.0, least * (1.0 + 2.0**-49)))
    return dataclasses.replace(guarantee, epsilon=total, delta=delta)


ANSWERS = ("fresh", "permanent")
"""How a user answers round after round: with noise of its own each time, or with the answer of the
first round.
"""


def over_rounds(
    guarantee: Guarantee, rounds: int, *, answers: str, delta: float | None = None
) -> Guarantee:
    """Return the cost of being asked for one's record in every round.

    *Fresh* answers follow the record: k releases, or :func:`advanced` of them where a ``delta`` of
    all rounds is granted. A *permanent* answer is drawn in the first round and sent again in all
    others: one release. (One drawn again only where the record changed has no guarantee.) Histories
    may differ in all rounds, a fixed number.
    Reference: Erlingsson, Pihur and Korolova, RAPPOR (CCS 2014), section 3.

    >>> once = Guarantee(0.5, status="proved", reason="randomised response")
    >>> [over_rounds(once, 10, answers=answers).epsilon for answers in ANSWERS]
    [5.0, 0.5]
    """
    validate.one_of(ANSWERS, answers=answers)
    k = validate.whole(1, rounds=rounds)
    one = guarantee.adjacency
    histories = f"{any_two(one)} histories of {k} rounds, where in a round: {one}"
    if answers == "fresh":
        _totalled("over_rounds", guarantee.unit)
        total = guarantee.repeated(k) if delta is None else advanced(guarantee, k, delta)
        return dataclasses.replace(total, adjacency=histories)
    validate.require(
        delta is None, "delta must be None for permanent answers, which are one release", delta
    )
    return dataclasses.replace(
        guarantee, adjacency=f"{histories}; one answer, from the first round's data"
    )
