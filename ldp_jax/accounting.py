r"""What several releases cost together: composition, Gaussian curves, and a ledger that keeps to a budget.

Everything here is float64 on the host and imports no JAX. Three layers:

- functions from :class:`~ldp_jax.guarantee.Guarantee` to ``Guarantee``: :func:`sequential`, :func:`parallel`,
  :func:`sampled`, :func:`relationship`, :func:`whole_list`, :func:`joint`, :func:`per_user`, :func:`advanced`;
- :class:`GaussianCurve`, the whole curve delta(epsilon) of Gaussian noise, with :func:`gaussian_sigma` and
  :func:`gaussian_mu` for the noise that a target needs;
- :class:`Ledger`, which an experiment passes along and which refuses a release that does not fit.

Each composition holds whether or not a release looks at the reports before it, as long as the epsilons, the
sigmas and the number of releases are fixed beforehand and do not depend on anyone's record.
"""

import dataclasses
import decimal
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, overload

import numpy as np
from scipy import special

from ldp_jax._tables import sum_up
from ldp_jax.guarantee import (
    EDGE_CENTRAL,
    NEIGHBOUR_LIST,
    RECORD,
    RELATIONSHIP,
    WORDS,
    Budget,
    Guarantee,
    PipelineGuarantee,
    Status,
    Unit,
    add_up,
    composed,
    digits_down,
    digits_up,
    field_names,
    metric,
    one_trust,
    rounded_down,
    rounded_up,
    said_once,
    weakest,
    weakest_arithmetic,
    whole,
)

_SLACK = 1e-9  # relative; float64 sums of what was meant to add up to the budget


# --- checks -------------------------------------------------------------------------------------------------


def _number(name: str, value: Any, low: float, high: float = math.inf, *, open_low: bool = False) -> float:
    """``value`` as a finite float in [low, high], or (low, high] with ``open_low``; NaN and infinity never pass."""
    bracket = "(" if open_low else "["
    wanted = (
        f"finite and {'>' if open_low else '>='} {low:g}" if high == math.inf else f"in {bracket}{low:g}, {high:g}]"
    )
    if isinstance(value, (bool, np.bool_, str, bytes, bytearray)):
        raise ValueError(f"{name} must be a number, got {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, got {value!r}") from None
    except OverflowError:
        raise ValueError(f"{name} must be {wanted}, got a number beyond float64") from None
    if not math.isfinite(number) or not low <= number <= high or (open_low and number == low):
        raise ValueError(f"{name} must be {wanted}, got {value}")
    return number


def _delta(value: Any) -> float:
    """A delta that a curve can be asked for: above float64's underflow, below 1."""
    delta = _number("delta", value, 1e-300, 1.0)
    if delta == 1.0:
        raise ValueError("delta must be below 1, got 1.0: at 1 nothing is promised")
    return delta


def _some(guarantees: tuple[Guarantee, ...], name: str) -> None:
    if not guarantees:
        raise ValueError(f"{name} needs at least one guarantee, got none")


def _same_unit(guarantees: tuple[Guarantee, ...], name: str) -> None:
    _some(guarantees, name)
    units = list(dict.fromkeys(str(g.unit) for g in guarantees))
    if len(set(g.unit for g in guarantees)) > 1:
        raise ValueError(f"{name} needs guarantees of one unit, got {', '.join(units)}; see joint()")


_OF_BITS = f"{NEIGHBOUR_LIST.name} of "

# --- composition of guarantees ------------------------------------------------------------------------------


def sequential(*guarantees: Guarantee) -> Guarantee:
    """Several releases about the same record: epsilon and delta add, within one unit.

    Args:
      *guarantees: at least one, all of the same unit.

    Returns:
      The sum, rounded up; its status is the weakest one, its arithmetic ``exact`` only if all are.

    Raises:
      ValueError: if none is given or their units differ.

    Reference: Dwork and Roth (2014), Theorem 3.16.

    >>> sequential(Guarantee(0.5), Guarantee(1.0), Guarantee(1.5, delta=1e-6)).epsilon
    3.0
    """
    _same_unit(guarantees, "sequential")
    return composed(guarantees)


def parallel(*guarantees: Guarantee) -> Guarantee:
    """Releases about disjoint users: each user's own releases cost what they cost, so the worst one counts.

    Who belongs to which release must be public. For RELATIONSHIP and EDGE_CENTRAL "disjoint" is said of edges:
    two releases about disjoint users that both report the edge between them are *not* parallel.

    Args:
      *guarantees: at least one, all of the same unit.

    Returns:
      The largest epsilon with the largest delta; the weakest status; ``exact`` only if all are.

    Raises:
      ValueError: if none is given, their units differ, or some are local and some central.

    Reference: McSherry (2009), Theorem 4.

    >>> parallel(Guarantee(0.5, delta=1e-5), Guarantee(1.0)).epsilon
    1.0
    """
    _same_unit(guarantees, "parallel")
    status, reason = weakest(guarantees)
    return Guarantee(
        epsilon=max(g.epsilon for g in guarantees),
        delta=max(g.delta for g in guarantees),
        unit=guarantees[0].unit,
        adjacency=said_once(g.adjacency for g in guarantees),
        arithmetic=weakest_arithmetic(guarantees),
        status=status,
        reason=reason,
        trust=one_trust(guarantees),
    )


def sampled(guarantee: Guarantee, k: int, dim: int) -> Guarantee:
    """A report of k of ``dim`` coordinates, drawn uniformly, each under ``guarantee``: k times as much.

    Sampling amplifies nothing here. The chosen coordinates are part of the report, so an observer conditions
    on them; two records of the cube that differ in *every* coordinate differ in the chosen ones whichever they
    are, and if one coordinate's epsilon is attained, then so is k times it.

    Args:
      guarantee: what one reported coordinate costs.
      k: coordinates reported, 1 <= k <= dim.
      dim: coordinates in a record.

    Returns:
      k times ``guarantee``, for any two records in the cube of ``dim`` coordinates.

    Raises:
      ValueError: if k is not a whole number in [1, dim], or dim not one >= 1.

    >>> sampled(Guarantee(0.25), k=4, dim=100).epsilon
    1.0
    """
    k = whole("k", k, whole("dim", dim))
    return dataclasses.replace(
        guarantee.repeated(k),
        adjacency=f"any two records of {dim} coordinates; a coordinate: {guarantee.adjacency}",
    )


def relationship(first: Guarantee, second: Guarantee | None = None) -> Guarantee:
    """One undirected edge, from what its ends spend on one bit of their neighbour lists.

    With two full lists both ends report the edge, and both reports are about it: eps_i + eps_j. With one
    argument, only the owner of the pair reports it (half-matrix reporting, the owner fixed by a public rule),
    and the owner's eps is all. Under personal budgets take the largest eps_i + eps_j over the edges asked about.

    Args:
      first: of unit NEIGHBOUR_LIST; the guarantee of one end, or of the owner.
      second: of unit NEIGHBOUR_LIST; the other end, where it reports the edge too.

    Returns:
      A guarantee of unit RELATIONSHIP; deltas add as epsilons do.

    Raises:
      ValueError: if a unit is not NEIGHBOUR_LIST.

    Reference: Imola, Murakami and Chaudhuri (USENIX Security 2021), relationship DP (there with one eps: 2 eps).

    >>> bit = Guarantee(1.0, unit=NEIGHBOUR_LIST)
    >>> relationship(bit, bit).epsilon, relationship(bit).epsilon
    (2.0, 1.0)
    """
    ends = (first,) if second is None else (first, second)
    for end in ends:
        if end.unit != NEIGHBOUR_LIST:
            raise ValueError(f"relationship needs the unit {NEIGHBOUR_LIST}, got {end.unit}")
    seen = "the report of its owner alone" if second is None else "the reports of both its ends"
    total = sequential(*ends)
    return dataclasses.replace(total, unit=RELATIONSHIP, adjacency=f"{WORDS[RELATIONSHIP]}, seen through {seen}")


def whole_list(guarantee: Guarantee, degree: int) -> Guarantee:
    r"""One user's neighbour list, from the guarantee of one bit of it (group privacy).

    .. math:: (k \epsilon, \; \delta \sum_{i<k} e^{i \epsilon}), \quad k = degree

    with delta capped at 1. ``degree`` counts differing *bits*: a list of g neighbours and the empty list differ
    in g, two lists of g neighbours in up to 2g.

    Args:
      guarantee: of unit NEIGHBOUR_LIST.
      degree: the largest number of differing bits, >= 1.

    Returns:
      A guarantee whose unit is the whole list (NEIGHBOUR_LIST itself if degree is 1), so that it does not add
      to guarantees of one bit.

    Raises:
      ValueError: if the unit is not NEIGHBOUR_LIST or degree not a whole number >= 1.

    Reference: Vadhan (2017), Lemma 2.2, with the geometric sum as it is.

    >>> whole_list(Guarantee(0.125, unit=NEIGHBOUR_LIST), degree=16).epsilon
    2.0
    >>> whole_list(Guarantee(0.1, delta=1e-6, unit=NEIGHBOUR_LIST), degree=20).delta > 20e-6
    True
    """
    if guarantee.unit != NEIGHBOUR_LIST:
        raise ValueError(f"whole_list needs the unit {NEIGHBOUR_LIST}, got {guarantee.unit}")
    k, epsilon, delta = whole("degree", degree), guarantee.epsilon, guarantee.delta
    if k == 1:
        return guarantee
    return dataclasses.replace(
        guarantee,
        epsilon=add_up((epsilon,), k),
        delta=_group_delta(epsilon, delta, k) if delta else 0.0,
        unit=Unit(f"{_OF_BITS}{k} bits"),
        adjacency=f"any two neighbour lists of one user that differ in at most {k} bits",
    )


def joint(*guarantees: Guarantee, adjacency: str) -> Guarantee:
    r"""Several units protected at once: two inputs may differ in all of them, as ``adjacency`` says in words.

    Guarantees of one unit are added first, then the units are changed one after the other: epsilons add, and
    deltas chain, :math:`\delta_1 + e^{\epsilon_1} \delta_2 + \dots`, in the order that gives least. (For releases
    that each read one of the units alone, the deltas would add; but one release may carry two guarantees, and then
    they do not. With at most one delta above 0 both say the same.)

    The guarantees must cover everything that is released: a release that reads a unit and promises nothing about
    it is not protected by any sum.

    Args:
      *guarantees: at least one, of any units but METRIC.
      adjacency: in words, which two inputs are compared; the caller answers for it.

    Returns:
      A guarantee whose unit names the units that were summed, and which adds to no other unit.

    Raises:
      ValueError: if none is given, adjacency is empty, some are local and some central, or a unit is METRIC: a
        loss per unit of distance has no total.

    >>> total = joint(
    ...     Guarantee(1.0),
    ...     Guarantee(0.5, unit=RELATIONSHIP),
    ...     adjacency="two graphs that differ in one user's record and one of her edges",
    ... )
    >>> print(total.unit, total.epsilon)
    record + relationship 1.5
    """
    _some(guarantees, "joint")
    if not adjacency.strip():
        raise ValueError("adjacency must say in words which two inputs are compared, got an empty string")
    for guarantee in guarantees:
        if guarantee.unit.rate is not None:
            raise ValueError(f"joint cannot add {guarantee.unit}: a loss per unit of distance has no total")
    units = dict.fromkeys(g.unit for g in guarantees)
    parts = [sequential(*(g for g in guarantees if g.unit == unit)) for unit in units]
    status, reason = weakest(parts)
    return Guarantee(
        epsilon=add_up(p.epsilon for p in parts),
        delta=_chained([p for p in parts if p.delta > 0.0]),
        unit=Unit(" + ".join(sorted(unit.name for unit in units))),
        adjacency=adjacency,
        arithmetic=weakest_arithmetic(parts),
        status=status,
        reason=reason,
        trust=one_trust(guarantees),
    )


_PRECISE = decimal.Context(prec=60, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_ABOVE = 1 + Fraction(1, 10**40)  # more than all roundings of 60 digits
_ENOUGH = 1500  # e^1500 lifts the least float above 1


def _chained(parts: Sequence[Guarantee]) -> float:
    """delta_1 + e^eps_1 delta_2 + e^(eps_1 + eps_2) delta_3 ... in the best order; rounded up, at most 1.

    Of two neighbours i and j, i comes first where (e^eps_i - 1) / delta_i is the smaller, by exchange.
    """
    total, before = Fraction(0), Fraction(0)
    for part in sorted(parts, key=lambda part: math.expm1(min(part.epsilon, 700.0)) / part.delta):
        if before > _ENOUGH:
            return 1.0
        total += Fraction(part.delta) * (_exp(before, _PRECISE) * _ABOVE if before else 1)
        before += Fraction(part.epsilon) if math.isfinite(part.epsilon) else _ENOUGH + 1
    return min(1.0, rounded_up(total))


def _group_delta(epsilon: float, delta: float, k: int) -> float:
    """delta (e^(k eps) - 1) / (e^eps - 1), rounded up, at most 1."""
    if epsilon == 0.0:
        return min(1.0, add_up((delta,), k))
    if math.isinf(epsilon) or (k - 1) * Fraction(epsilon) > _ENOUGH:
        return 1.0
    precise = _PRECISE.copy()
    precise.prec += max(0, -decimal.Decimal(epsilon).adjusted())  # what the two differences cancel
    most, least = (_exp(times * Fraction(epsilon), precise) - 1 for times in (k, 1))
    return min(1.0, rounded_up(Fraction(delta) * most / least * _ABOVE))


def _exp(power: Fraction, precise: decimal.Context) -> Fraction:
    numerator, denominator = (decimal.Decimal(part) for part in power.as_integer_ratio())
    return Fraction(precise.exp(precise.divide(numerator, denominator)))


class PersonalTotals(NamedTuple):
    """What each user has spent under a budget of her own.

    Attributes:
      totals: float64 [users], read-only; each user's epsilon over all her releases.
      guarantee: the largest of them, as a guarantee for everybody.
    """

    totals: np.ndarray
    guarantee: Guarantee


def per_user(
    epsilons: Any, *, releases: int = 1, unit: Unit = RECORD, status: Status = "none", reason: str = ""
) -> PersonalTotals:
    """Personal budgets: each user's total, and the guarantee that holds for all.

    A user's epsilon is public here, so it must not depend on her record.

    Args:
      epsilons: [users] or [releases, users]; finite, >= 0. 0 is for a user who takes no part in a release.
      releases: how many times what ``epsilons`` lists is released.
      unit: what each release protects.
      status: of the releases; numbers alone prove nothing.
      reason: why it is so; only ``none`` may go without.

    Returns:
      ``(totals, guarantee)``: float64 [users], rounded up, and a :class:`Guarantee` whose epsilon is the largest
      total and whose adjacency says that each user has her own.

    Raises:
      ValueError: if an epsilon is NaN, infinite or negative, if there is no user or no release, if the array
        has neither one nor two axes, for a METRIC unit, or a status without its reason.

    >>> totals, guarantee = per_user([[0.5, 1.0, 2.0], [0.5, 0.0, 1.0]])
    >>> totals.tolist(), guarantee.epsilon
    ([1.0, 1.0, 3.0], 3.0)
    """
    table = np.array(epsilons)
    if table.dtype.kind not in "iuf":
        raise ValueError(f"epsilons must be real numbers, got dtype {table.dtype}")
    if table.ndim not in (1, 2) or 0 in table.shape:
        raise ValueError(f"epsilons must be [users] or [releases, users], not empty; got shape {table.shape}")
    table = np.atleast_2d(table.astype(np.float64))
    if not (np.isfinite(table) & (table >= 0.0)).all():
        raise ValueError(
            f"epsilons must be finite and >= 0, got {table[~(np.isfinite(table) & (table >= 0.0))][0]}"
        )
    totals = sum_up(table, whole("releases", releases))
    totals.setflags(write=False)
    words = f"{_words(unit)}, at that user's own total; epsilon is the largest of {totals.size}"
    return PersonalTotals(totals, Guarantee(float(totals.max()), 0.0, unit, words, "ideal", status, reason))


def _words(unit: Unit) -> str:
    if unit not in WORDS:
        raise ValueError(f"the unit {unit} has no adjacency of its own: say in words which two inputs are compared")
    return WORDS[unit]


def advanced(guarantee: Guarantee, times: int, delta: float) -> Guarantee:
    r"""``times`` releases under one guarantee, at the smallest epsilon that ``delta`` allows: exact.

    k releases of (eps, delta_0) are at worst k randomised responses, whose hockey-stick divergence is a finite sum.
    With :math:`p_l = \binom{k}{l} e^{(k-l)\epsilon} / (1+e^\epsilon)^k` and :math:`q_l = p_l e^{(2l-k)\epsilon}`,

    .. math:: \delta_{RR}(\epsilon') = \max_i \sum_{l<i} (p_l - e^{\epsilon'} q_l), \qquad
       1 - \delta = (1-\delta_0)^k (1 - \delta_{RR}(\epsilon'))

    which is piecewise linear in :math:`e^{\epsilon'}` and is inverted at any delta; the theorem lists its corners
    :math:`\epsilon' = (k-2i)\epsilon`. Never worse than k eps, the basic composition.

    Args:
      guarantee: what one release promises; epsilon finite, delta below 1.
      times: k in [1, 10^7], fixed beforehand.
      delta: of the whole, in [1 - (1 - delta_0)^k, 1).

    Returns:
      The guarantee of the whole, at ``delta``.

    Raises:
      ValueError: if ``delta`` or ``times`` is out of range, epsilon infinite, or the unit METRIC.

    Reference: Kairouz, Oh and Viswanath (ICML 2015), Theorem 3.3.

    >>> advanced(Guarantee(0.1), times=100, delta=1e-6).epsilon < 100 * 0.1
    True
    """
    if guarantee.unit.rate is not None:
        raise ValueError(f"advanced cannot compose {guarantee.unit}: a loss per unit of distance has no total")
    epsilon = _number("epsilon of guarantee", guarantee.epsilon, 0.0)
    k, delta = whole("times", times, 10**7), _number("delta", delta, 0.0, 1.0)
    if delta == 1.0 or guarantee.delta == 1.0:
        raise ValueError(f"delta must be below 1, got {delta} in all and {guarantee.delta} a release")
    least = -math.expm1(k * math.log1p(-guarantee.delta))
    if delta < least * (1.0 - 1e-12):
        raise ValueError(f"delta must be in [{least:g}, 1): {k} releases have that much; got {delta}")
    # 1e-9 covers the rounding of gammaln and of the sums, on the safe side
    left = -math.expm1(math.log1p(-delta) - k * math.log1p(-guarantee.delta)) * (1.0 - 1e-9)
    total = add_up((epsilon,), k)
    if epsilon > 0.0 and left > 0.0:
        ell = np.arange((k + 1) // 2, dtype=np.float64)  # the losses (k - 2l) eps above 0
        ways = special.gammaln(k + 1.0) - special.gammaln(ell + 1.0) - special.gammaln(k - ell + 1.0)
        log_p = ways - ell * epsilon - k * math.log1p(math.exp(-epsilon))
        log_q = np.logaddexp.accumulate(log_p - (k - 2.0 * ell) * epsilon)
        above = np.cumsum(np.exp(log_p)) - left
        corners = np.log(above[above > 0.0]) - log_q[above > 0.0]
        total = min(total, max(0.0, float(corners.max(initial=0.0))))
    return dataclasses.replace(guarantee, epsilon=total, delta=delta)


# --- Gaussian noise -----------------------------------------------------------------------------------------

_NODES, _WEIGHTS = (half / 2.0 for half in np.polynomial.legendre.leggauss(64))
_NODES = _NODES + 0.5  # on [0, 1]


def _gaussian_delta(mu: float, epsilon: np.ndarray) -> np.ndarray:
    """delta(epsilon) of N(0, 1) against N(mu, 1), to about 1e-13 of itself down to 1e-300.

    The two terms of the closed form agree to many digits when mu is small; there the same quantity is
    E[(1 - e^(epsilon - loss))_+], an integral of what is never negative.
    """
    if mu == 0.0:
        return np.zeros_like(epsilon)
    epsilon = np.minimum(epsilon, 1e300)  # infinity less infinity is NaN
    with np.errstate(over="ignore"):
        x = np.minimum(epsilon / mu - mu / 2.0, 1e3)  # beyond 38 the result is 0 anyway
    if mu >= 1.0:
        # e^epsilon phi(x + mu) = phi(x), so that in the tail no large exponents meet
        tail, root = np.maximum(x, 0.0), math.sqrt(2.0)
        beyond = np.exp(-(tail**2) / 2.0) / 2.0 * (special.erfcx(tail / root) - special.erfcx((tail + mu) / root))
        body = special.ndtr(-x) - np.exp(np.minimum(epsilon + special.log_ndtr(-x - mu), 0.0))
        return np.where(x >= 0.0, beyond, body)
    reach = 90.0 / (x + np.sqrt(x**2 + 90.0))  # x t + t^2 / 2 = 45 there: e^-45 is nothing
    t = reach[..., None] * _NODES
    inside = np.exp(-(x[..., None] * t + t**2 / 2.0)) * -np.expm1(-mu * t)
    return np.exp(-(x**2) / 2.0) / math.sqrt(2.0 * math.pi) * reach * (inside @ _WEIGHTS)


def _holds(mu: float, epsilon: float, delta: float) -> bool:
    """delta(epsilon) <= delta, with 1e-12 to spare for rounding."""
    return float(_gaussian_delta(mu, np.array([epsilon]))[0]) <= delta * (1.0 - 1e-12)


def _bisect(good: float, bad: float, holds: Any) -> float:
    """The last value, coming from ``good``, at which ``holds`` is still true; about 1e-15 of itself."""
    while abs(good - bad) > 1e-15 * max(good, bad):
        middle = good + (bad - good) / 2.0
        if middle in (good, bad):
            break
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good


@dataclasses.dataclass(frozen=True)
class GaussianCurve:
    r"""Everything Gaussian noise promises: the whole curve of (epsilon, delta) pairs, by one number.

    .. math:: \delta(\epsilon) = \Phi(\tfrac\mu2 - \tfrac\epsilon\mu)
       - e^\epsilon \, \Phi(-\tfrac\mu2 - \tfrac\epsilon\mu)

    *Guarantee*: for every epsilon >= 0 the release is (epsilon, delta(epsilon))-DP, and no smaller delta will do.
    Curves compose exactly: :math:`\mu^2` adds, which costs less than adding epsilons and deltas. It holds in ideal
    arithmetic; float32 samplers of a Gaussian have outputs that one input alone can produce.

    *Numerics*: relative error about 1e-13 for any mu and epsilon with delta(epsilon) >= 1e-300.

    Attributes:
      mu: L2 sensitivity / sigma, finite, >= 0.

    Reference: Balle and Wang (ICML 2018), Theorem 8; Dong, Roth and Su (arXiv:1905.02383),
    Corollaries 2.13 and 3.3.

    >>> curve = GaussianCurve.of(sensitivity=1.0, sigma=4.0)
    >>> round(curve.epsilon(1e-5), 4), round(curve.repeated(4).epsilon(1e-5), 4)
    (0.9263, 1.9931)
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", _number("mu", self.mu, 0.0) + 0.0)  # -0 is 0

    @classmethod
    def of(cls, sensitivity: float, sigma: float) -> "GaussianCurve":
        """Noise of standard deviation ``sigma`` on each coordinate of a vector of L2 ``sensitivity``.

        Args:
          sensitivity: the largest L2 distance between the vectors of two adjacent inputs, >= 0.
          sigma: > 0, in the units of the sensitivity.

        Raises:
          ValueError: if either is out of range, NaN or infinite.

        >>> GaussianCurve.of(2.0, 4.0)
        GaussianCurve(mu=0.5)
        """
        distance, spread = _number("sensitivity", sensitivity, 0.0), _number("sigma", sigma, 0.0, open_low=True)
        return cls(rounded_up(Fraction(distance) / Fraction(spread)))

    @overload
    def delta(self, epsilon: float) -> float: ...
    @overload
    def delta(self, epsilon: np.ndarray) -> np.ndarray: ...
    def delta(self, epsilon: float | np.ndarray) -> float | np.ndarray:
        """The smallest delta at ``epsilon``.

        Args:
          epsilon: >= 0; a number or an array of any shape.

        Returns:
          A float, or float64 of the shape of ``epsilon``.

        Raises:
          ValueError: if an epsilon is negative, NaN or no number.

        >>> round(GaussianCurve(1.0).delta(0.0), 6), GaussianCurve(1.0).delta(500.0)
        (0.382925, 0.0)
        """
        given = np.asarray(epsilon)
        if given.dtype.kind not in "iuf":
            raise ValueError(f"epsilon must be real numbers, got {epsilon!r}")
        values = given.astype(np.float64)
        if not (values >= 0.0).all():
            raise ValueError(f"epsilon must be >= 0, got {epsilon}")
        result = _gaussian_delta(float(self.mu), np.atleast_1d(values)).reshape(values.shape)
        return result if isinstance(epsilon, np.ndarray) else float(result)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon at ``delta``, on the safe side: ``curve.delta(curve.epsilon(d)) <= d``.

        Args:
          delta: in [1e-300, 1). At 0 Gaussian noise promises nothing.

        Raises:
          ValueError: if delta is out of range.

        >>> GaussianCurve(1e-3).epsilon(0.1)
        0.0
        """
        delta, mu = _delta(delta), float(self.mu)
        if _holds(mu, 0.0, delta):
            return 0.0
        # P(loss > epsilon) <= exp(-(epsilon / mu - mu / 2)^2 / 2) is at most delta here
        enough = mu * (mu / 2.0 + math.sqrt(2.0 * -math.log(delta))) * (1.0 + 1e-9)
        if math.isinf(enough):
            return math.inf
        return _bisect(enough, 0.0, lambda epsilon: _holds(mu, epsilon, delta))

    def compose(self, *others: "GaussianCurve") -> "GaussianCurve":
        """This release and ``others`` about the same record: the squares of mu add; rounded up.

        >>> GaussianCurve(3.0).compose(GaussianCurve(4.0)).mu
        5.0
        """
        return _composed_curves([(curve, 1) for curve in (self, *others)])

    def __add__(self, other: "GaussianCurve") -> "GaussianCurve":
        return self.compose(other) if isinstance(other, GaussianCurve) else NotImplemented

    def repeated(self, times: int) -> "GaussianCurve":
        """``times`` releases, each with fresh noise of this curve: mu sqrt(times), rounded up.

        Raises:
          ValueError: if times is not a whole number >= 1.

        >>> GaussianCurve(0.5).repeated(16).mu
        2.0
        """
        return _composed_curves([(self, whole("times", times))])

    def guarantee(self, delta: float, unit: Unit = RECORD, adjacency: str | None = None) -> Guarantee:
        """The point of the curve at ``delta``, as a :class:`Guarantee`; status ``proved``, arithmetic ``ideal``.

        Args:
          delta: in [1e-300, 1).
          unit: what the sensitivity was taken over.
          adjacency: in words, which two inputs were compared; the unit's own words by default.

        Raises:
          ValueError: if delta is out of range, or a unit that is not one of the library's comes without words.

        >>> print(GaussianCurve(0.5).guarantee(1e-6))  # doctest: +ELLIPSIS
        epsilon 2.25409, delta 1e-06 per record (any two records of one user; ideal arithmetic; proved: the ...)
        """
        words = _words(unit) if adjacency is None else adjacency
        reason = "the hockey-stick divergence of two shifted Gaussians has a closed form"
        return Guarantee(self.epsilon(delta), _delta(delta), unit, words, "ideal", "proved", reason)


def _composed_curves(curves: Sequence[tuple[GaussianCurve, int]]) -> GaussianCurve:
    """The square root of the sum of times mu^2, rounded up."""
    square = sum((times * Fraction(curve.mu) ** 2 for curve, times in curves), Fraction(0))
    if square > Fraction(1e300) ** 2:
        raise ValueError("mu must be at most 1e300, and the composition has more")
    scale = 2 ** max(0, 2 * 60 - square.numerator.bit_length() + square.denominator.bit_length())
    scale *= scale  # a square, so that its root is whole
    mu = rounded_down(Fraction(math.isqrt(square.numerator * scale // square.denominator), math.isqrt(scale)))
    while Fraction(mu) ** 2 < square:
        mu = math.nextafter(mu, math.inf)
    return GaussianCurve(mu)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu = sensitivity / sigma whose curve passes (epsilon, delta), to 1e-12, on the safe side.

    Args:
      epsilon: in [0, 1e9].
      delta: in [1e-300, 1).

    Raises:
      ValueError: if either is out of range or NaN.

    Reference: Balle and Wang (ICML 2018), Algorithm 1, as one bisection in mu.

    >>> mu = gaussian_mu(1.0, 1e-5)
    >>> 1 - 1e-9 < GaussianCurve(mu).delta(1.0) / 1e-5 <= 1
    True
    """
    epsilon, delta = _number("epsilon", epsilon, 0.0, 1e9), _delta(delta)
    tail = math.sqrt(2.0 * -math.log(delta))
    good = (
        2.0 * epsilon / (tail + math.sqrt(tail**2 + 2.0 * epsilon)) * (1.0 - 1e-9)
    )  # from the Gaussian tail bound
    bad = max(good, delta)
    while _holds(bad, epsilon, delta):
        good, bad = bad, 2.0 * bad
    return _bisect(good, bad, lambda mu: _holds(mu, epsilon, delta))


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """The smallest standard deviation of Gaussian noise for (epsilon, delta), to 1e-12, on the safe side.

    Unlike the classic sqrt(2 ln(1.25 / delta)) / epsilon, which wastes noise at small epsilons and breaks its
    promise at large ones (from 8.5 at delta = 1e-5, 9.7 at 1e-9), it is right at every epsilon.

    Args:
      epsilon: in [0, 1e9].
      delta: in [1e-300, 1).
      sensitivity: L2, > 0.

    Returns:
      sigma, in the units of ``sensitivity``.

    Raises:
      ValueError: if an argument is out of range or NaN.

    Reference: Balle and Wang (ICML 2018), Theorem 8 and Algorithm 1.

    >>> round(gaussian_sigma(1.0, 1e-5), 4), round(math.sqrt(2 * math.log(1.25e5)), 4)
    (3.7306, 4.8448)
    """
    mu = gaussian_mu(epsilon, delta)
    sensitivity = _number("sensitivity", sensitivity, 0.0, open_low=True)
    sigma = _number("sensitivity / mu", sensitivity / mu, 0.0, open_low=True)
    while Fraction(sensitivity) > Fraction(sigma) * Fraction(mu):
        sigma = math.nextafter(sigma, math.inf)
    return sigma


# --- the ledger ---------------------------------------------------------------------------------------------


class BudgetExceededError(ValueError):
    """A release does not fit what a :class:`Ledger` has left."""


_EDGES = "edges"
"""The name of the field that pipelines give to a graph's edges."""


def _about(unit: Unit) -> set[str]:
    """What of a user's data a unit speaks of; a unit of somebody's own may speak of all.

    Between units that speak of the same data no release is free: a bit of a list costs its relationship, and a
    relationship the lists of both its ends, at a price that depends on who reports what.
    """
    about: set[str] = set()
    for name in unit.name.split(" + "):  # as joint() writes it
        if name in (RECORD.name, metric(1.0).name):
            about |= {"records"}
        elif name in (NEIGHBOUR_LIST.name, RELATIONSHIP.name, EDGE_CENTRAL.name) or name.startswith(_OF_BITS):
            about |= {_EDGES}
        else:
            about |= {"records", _EDGES}
    return about


@dataclasses.dataclass(frozen=True)
class Release:
    """One line of a :class:`Ledger`.

    Attributes:
      name: what was released.
      cost: a guarantee, a pipeline's guarantees for several units, or the curve of Gaussian noise.
      unit: for a curve: what it protects. A guarantee has its own, a pipeline several: None.
      adjacency: for a curve: in words, which two inputs are compared.
      delta: for a curve alone: where the ledger is asked to convert the curves of this unit.
      protects: fields whose values reach the release through the mechanism alone; a pipeline's own.
      exposes: fields that the release, or what is done with it, uses in the clear; a pipeline's own, and more.
    """

    name: str
    cost: Guarantee | GaussianCurve | PipelineGuarantee
    unit: Unit | None = None
    adjacency: str = ""
    delta: float | None = None
    protects: tuple[str, ...] = ()
    exposes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ValueError(f"name must say what is released, got {self.name!r}")
        protects, exposes = field_names("protects", self.protects), field_names("exposes", self.exposes)
        if isinstance(self.cost, PipelineGuarantee):
            if not self.cost.guarantees:
                raise ValueError(
                    f"release {self.name!r}: a PipelineGuarantee of no unit says nothing of what it costs"
                )
            if protects and set(protects) != set(self.cost.protected):
                said = ", ".join(self.cost.protected) or "nothing"
                raise ValueError(f"release {self.name!r}: its guarantee protects {said}, not {', '.join(protects)}")
            protects, exposes = self.cost.protected, tuple(dict.fromkeys((*self.cost.unprotected, *exposes)))
        object.__setattr__(self, "protects", protects)
        object.__setattr__(self, "exposes", exposes)
        if isinstance(self.cost, GaussianCurve):
            _number("mu", self.cost.mu, 0.0)
            unit = RECORD if self.unit is None else self.unit
            object.__setattr__(self, "unit", unit)
            object.__setattr__(self, "adjacency", self.adjacency or _words(unit))
            if self.delta is not None:
                _delta(self.delta)
        elif isinstance(self.cost, (Guarantee, PipelineGuarantee)):
            kind = type(self.cost).__name__
            if (self.delta, self.unit, self.adjacency) != (None, None, ""):
                raise ValueError(
                    f"release {self.name!r}: a {kind} says its own delta, unit and adjacency; give them to a curve"
                )
            for guarantee in self._guarantees:
                if not (guarantee.epsilon >= 0.0 and 0.0 <= guarantee.delta <= 1.0):
                    raise ValueError(f"release {self.name!r}: epsilon must be >= 0 and delta in [0, 1]")
        else:
            raise ValueError(
                f"release {self.name!r} must cost a Guarantee, a PipelineGuarantee or a "
                f"GaussianCurve, got {self.cost!r}"
            )
        both = set(protects) & set(exposes)
        if both:
            raise ValueError(f"release {self.name!r} both protects and exposes {', '.join(sorted(both))}")

    @property
    def _guarantees(self) -> tuple[Guarantee, ...]:
        if isinstance(self.cost, PipelineGuarantee):
            return self.cost.guarantees
        return (self.cost,) if isinstance(self.cost, Guarantee) else ()

    @property
    def units(self) -> tuple[Unit, ...]:
        """What it states a loss for."""
        return tuple(guarantee.unit for guarantee in self._guarantees) or ((self.unit,) if self.unit else ())

    def per(self, unit: Unit) -> Guarantee | GaussianCurve | None:
        """What it costs per ``unit``; None where it does not say."""
        if isinstance(self.cost, GaussianCurve):
            return self.cost if unit == self.unit else None
        return next((guarantee for guarantee in self._guarantees if guarantee.unit == unit), None)

    def __str__(self) -> str:
        if isinstance(self.cost, PipelineGuarantee):
            return " and ".join(f"{_pair(guarantee)} per {guarantee.unit}" for guarantee in self._guarantees)
        return _cost(self.cost)


def _cost(cost: Guarantee | GaussianCurve) -> str:
    return f"mu {digits_up(cost.mu)}" if isinstance(cost, GaussianCurve) else _pair(cost)


def _pair(stated: Guarantee | Budget) -> str:
    digits = digits_up if isinstance(stated, Guarantee) else digits_down
    delta = f", delta {digits(stated.delta)}" if stated.delta else ""
    return f"epsilon {digits(stated.epsilon)}{delta}"


def _spent(releases: Sequence[Release], unit: Unit, budget: Budget | None) -> Guarantee:
    """Everything of one unit: guarantees add, curves compose and are converted once."""
    mine = [release for release in releases if unit in release.units]
    plain = [cost for release in mine if isinstance(cost := release.per(unit), Guarantee)]
    curves = [release for release in mine if isinstance(release.cost, GaussianCurve)]
    if not mine:
        words = WORDS.get(unit, "two inputs of this unit")
        return Guarantee(0.0, 0.0, unit, words, status="proved", reason="nothing was released")
    if not curves:
        return sequential(*plain)
    named = [release.delta for release in curves if release.delta is not None]
    taken = add_up(guarantee.delta for guarantee in plain)
    if not named and budget is None:
        raise ValueError(f"release {curves[-1].name!r}: with no budget to take it from, a curve needs a delta")
    delta = max(named) if named else _less(budget.delta, taken) if budget else 0.0
    words = said_once(release.adjacency for release in curves)
    total = _composed_curves([(release.cost, 1) for release in curves if isinstance(release.cost, GaussianCurve)])
    if delta < 1e-300:  # without a delta Gaussian noise promises nothing
        epsilon = 0.0 if total.mu == 0.0 else math.inf
        reason = "no delta is left for Gaussian noise"
        noise = Guarantee(epsilon, 0.0, unit, words, status="proved", reason=reason)
    else:
        noise = total.guarantee(delta, unit, words)
    return sequential(*plain, noise)


@dataclasses.dataclass(frozen=True)
class Ledger:
    """What has been released so far, against a budget; it never changes, spending returns a new one.

    Every ledger that exists is within its budgets, or there would have been an error in its place. Within a unit,
    guarantees add; Gaussian curves compose first, through mu, and are converted to (epsilon, delta) once: at the
    largest ``delta`` that one of them names, and if none does, at all the budget's delta that the guarantees leave.
    k Gaussian releases therefore cost less than the sum of theirs, and share one delta.

    A budget cannot be talked down. Units of edges (a bit of a list, a relationship, an edge of a curator's graph)
    are not free of each other, nor are records and metric privacy of records, nor a unit of somebody's own and any
    other; and no unit is converted into another. So where budgets are kept, a release states what it costs for each
    of them that speaks of the same data, in one :class:`~ldp_jax.guarantee.PipelineGuarantee`; a lone guarantee of
    a list is refused where a budget per relationship is kept. A release that uses ``edges`` in the clear is refused
    where edges have a budget. What a release reads is believed: the fields it names, and the units it states.

    Attributes:
      budget: a number, for a record's epsilon; a :class:`~ldp_jax.guarantee.Budget`, or several, one a unit;
        () or None to keep a record only.
      releases: what was spent, in order.

    Raises:
      ValueError: for what is no budget (a ``Guarantee`` is none), or two of one unit.
      BudgetExceededError: if the releases exceed a budget (by more than 1e-9 of it, so that ten times 0.1 is 1);
        where there are budgets, if a release has none, does not state its loss for all that it touches, or has
        status ``none``.

    >>> ledger = Ledger(Budget(1.0, delta=1e-6))
    >>> released = Guarantee(0.25, status="proved", reason="Laplace noise")
    >>> ledger = ledger.spend("features", released, protects=("features",), exposes=("edges",))
    >>> for name in ("round 1", "round 2"):
    ...     ledger = ledger.spend(name, GaussianCurve.of(1.0, 12.0), protects=("labels",))
    >>> print(ledger.explain())
    release   cost          unit    total so far                   protects  exposes
    features  epsilon 0.25  record  epsilon 0.25                   features  edges
    round 1   mu 0.0833334  record  epsilon 0.576585, delta 1e-06  labels    -
    round 2   mu 0.0833334  record  epsilon 0.72308, delta 1e-06   labels    -
    record: spent epsilon 0.72308, delta 1e-06 (ideal arithmetic; proved)
      of a budget of epsilon 1, delta 1e-06; epsilon 0.27692, delta 0 remains
    protected: features, labels; NOT protected: edges
    >>> try:
    ...     ledger.spend("again", Guarantee(0.5, status="proved", reason="Laplace noise"))
    ... except BudgetExceededError as error:
    ...     print(str(error).split(": ")[0])
    release 'again' (epsilon 0.5) does not fit the budget per record
    """

    budget: float | Budget | Sequence[Budget] | None = None
    releases: Sequence[Release] = ()

    def __post_init__(self) -> None:
        budgets = _budgets(self.budget)
        object.__setattr__(self, "budget", budgets)
        object.__setattr__(self, "releases", tuple(self.releases))
        units = [budget.unit for budget in budgets]
        twice = [unit for unit in units if units.count(unit) > 1]
        if twice:
            raise ValueError(f"budget must name each unit once, got {twice[0]} {units.count(twice[0])} times")
        for release in self.releases if budgets else ():
            self._check_units(release)
        for unit in dict.fromkeys(unit for release in self.releases for unit in release.units):
            self._check_total(unit, [release for release in self.releases if unit in release.units])

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """The budgets, one a unit; empty where only a record is kept."""
        return self.budget if isinstance(self.budget, tuple) else ()

    def _budget(self, unit: Unit) -> Budget | None:
        return next((budget for budget in self.budgets if budget.unit == unit), None)

    def _check_units(self, release: Release) -> None:
        """Refuse a release that has no budget, or hides what it costs under another one."""
        kept = [budget.unit for budget in self.budgets]
        what, stated = f"release {release.name!r} ({release})", release.units
        touched = set[str]().union(*map(_about, stated))
        covered = set[str]().union(*(_about(unit) for unit in stated if unit in kept))
        missing = [
            unit
            for unit in kept
            if unit not in stated and _about(unit) & (touched | {_EDGES} & {*release.protects})
        ]
        every = " and ".join(map(str, (*stated, *missing)))
        example = (
            ", such as that of privatize_graph" if {NEIGHBOUR_LIST, RELATIONSHIP} <= {*stated, *missing} else ""
        )
        remedy = f"pass one PipelineGuarantee that states what it costs per {every}{example}"
        if not touched <= covered:
            bare = next(unit for unit in stated if unit not in kept)
            known = ", ".join(map(str, kept))
            hint = f"; {remedy}" if missing else ""
            raise BudgetExceededError(
                f"{what} is per {bare}, which has no budget; there are budgets per {known}{hint}"
            )
        if missing:
            raise BudgetExceededError(
                f"{what} does not say what it costs per {missing[0]}, which has a budget: {remedy}"
            )
        open_to = [unit for unit in kept if _EDGES in _about(unit)]
        if open_to and _EDGES in release.exposes:
            raise BudgetExceededError(
                f"{what} uses edges in the clear, and there is a budget per {open_to[0]}; if the edges that it "
                "uses were released under that budget, do not name them among what it exposes"
            )

    def _check_total(self, unit: Unit, releases: Sequence[Release]) -> None:
        """Refuse the releases of one unit if they exceed its budget; the last one is the one that is named."""
        last, budget = releases[-1], self._budget(unit)
        what = f"release {last.name!r} ({last})"
        total = _spent(releases, unit, budget)
        if budget is None:
            return
        if total.status == "none":
            why = total.reason or "no proof was given"
            raise BudgetExceededError(f"{what} proves nothing about {unit}, so no budget covers it: {why}")
        if total.epsilon <= budget.epsilon * (1.0 + _SLACK) and total.delta <= budget.delta * (1.0 + _SLACK):
            return
        before = _spent(releases[:-1], unit, budget)
        left = _left(before, budget)
        hint = "; a Gaussian release needs a delta, and none is left" if math.isinf(total.epsilon) else ""
        raise BudgetExceededError(
            f"{what} does not fit the budget per {unit}: {_pair(before)} is spent, "
            f"epsilon {digits_down(left.epsilon)}, delta {digits_down(left.delta)} remains of {_pair(budget)}; "
            f"with it the total would be {_pair(total)}{hint}"
        )

    def spend(
        self,
        name: str,
        release: Guarantee | PipelineGuarantee | GaussianCurve,
        *,
        protects: Sequence[str] = (),
        exposes: Sequence[str] = (),
        delta: float | None = None,
        unit: Unit | None = None,
        adjacency: str | None = None,
    ) -> "Ledger":
        """A new ledger with one release more; this one stays as it is.

        Args:
          name: what is released, for people to read.
          release: what it costs: a guarantee, a whole pipeline's, or the curve of Gaussian noise.
          protects: the fields that reach the release through the mechanism alone; a pipeline says its own.
          exposes: the fields that are used in the clear; a pipeline says its own, and these are added.
          delta: for a curve: where to convert the curves of its unit, in [1e-300, 1); needed where there is no
            budget to take it from.
          unit: for a curve: what its sensitivity was taken over; RECORD by default.
          adjacency: for a curve: in words, which two inputs its sensitivity compares.

        Raises:
          BudgetExceededError: if it does not fit.
          ValueError: if an argument is out of range or said twice.

        >>> ledger, ages = Ledger(1.0), Guarantee(0.75, status="proved", reason="Laplace noise")
        >>> ledger.spend("ages", ages).remaining(RECORD).epsilon, ledger.remaining(RECORD).epsilon
        (0.25, 1.0)
        """
        line = Release(
            name,
            release,
            unit,
            "" if adjacency is None else adjacency,
            delta,
            field_names("protects", protects),
            field_names("exposes", exposes),
        )
        return Ledger(self.budget, (*self.releases, line))

    def spent(self, unit: Unit) -> Guarantee:
        """What the releases of ``unit`` cost together; epsilon 0 where there are none.

        >>> Ledger().spend("ages", Guarantee(0.5)).spent(RECORD).epsilon
        0.5
        """
        return _spent(self.releases, unit, self._budget(unit))

    def remaining(self, unit: Unit) -> Budget:
        """What the budget of ``unit`` has left, rounded down, never below 0.

        Later curves share the delta of earlier ones.

        Raises:
          ValueError: if ``unit`` has no budget.

        >>> Ledger(1.0).remaining(RECORD).epsilon
        1.0
        """
        budget = self._budget(unit)
        if budget is None:
            raise ValueError(f"this ledger has no budget per {unit}")
        return _left(self.spent(unit), budget)

    def total(self) -> PipelineGuarantee:
        """What everything costs, unit by unit, and which fields are protected.

        A field that one release uses in the clear is not protected, whatever the others do for it.

        >>> ledger = Ledger().spend("x", Guarantee(0.5), protects=["features"], exposes=["edges"])
        >>> print(ledger.spend("y", Guarantee(0.5), protects=["edges", "labels"]).total())
        protected: features, labels; NOT protected: edges
          epsilon 1 per record (any two records of one user; ideal arithmetic; none)
        """
        exposed = tuple(dict.fromkeys(field for release in self.releases for field in release.exposes))
        protected = dict.fromkeys(field for release in self.releases for field in release.protects)
        units = dict.fromkeys(unit for release in self.releases for unit in release.units)
        return PipelineGuarantee(
            tuple(self.spent(unit) for unit in units),
            tuple(field for field in protected if field not in exposed),
            exposed,
        )

    def explain(self) -> str:
        """The account as text: release by release, then each unit's total, its budget and what remains.

        What is spent is rounded up and what remains rounded down, to six digits.
        """
        rows = [("release", "cost", "unit", "total so far", "protects", "exposes")]
        for index, release in enumerate(self.releases):
            protects, exposes = (", ".join(names) or "-" for names in (release.protects, release.exposes))
            for place, unit in enumerate(release.units):
                so_far = _spent(self.releases[: index + 1], unit, self._budget(unit))
                cost = release.per(unit)
                row = (release.name, _cost(cost) if cost else "", str(unit), _pair(so_far), protects, exposes)
                rows.append(row if place == 0 else ("", *row[1:4], "", ""))  # one release, several units
        widths = [max(len(row[column]) for row in rows) for column in range(6)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows] if self.releases else []
        units = dict.fromkeys([*(b.unit for b in self.budgets), *(unit for r in self.releases for unit in r.units)])
        for unit in units:
            spent, budget = self.spent(unit), self._budget(unit)
            reason = f": {spent.reason}" if spent.status != "proved" and spent.reason else ""
            lines.append(f"{unit}: spent {_pair(spent)} ({spent.arithmetic} arithmetic; {spent.status}{reason})")
            if budget is not None:
                left = _left(spent, budget)
                remains = f"epsilon {digits_down(left.epsilon)}"
                remains += f", delta {digits_down(left.delta)}" if budget.delta else ""
                lines.append(f"  of a budget of {_pair(budget)}; {remains} remains")
        total = self.total()
        lines.append(str(dataclasses.replace(total, guarantees=())))
        if not self.budgets:
            lines.append("no budget: a record only")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.explain()


def _budgets(given: Any) -> tuple[Budget, ...]:
    """What a ledger was given, as budgets that hold whatever was done to them."""
    if given is None:
        return ()
    if isinstance(given, (Budget, Guarantee, PipelineGuarantee, str)) or not hasattr(given, "__iter__"):
        given = (given,)
    budgets = []
    for one in given:
        if isinstance(one, (Guarantee, PipelineGuarantee, GaussianCurve)):
            kind = type(one).__name__
            raise ValueError(
                f"budget must be a Budget, got a {kind}: what is promised is no limit; write Budget(...)"
            )
        budgets.append(Budget(one.epsilon, one.delta, one.unit) if isinstance(one, Budget) else Budget(one))
    return tuple(budgets)


def _less(whole: float, part: float) -> float:
    """``whole - part`` rounded down, where float64's rounding of a whole budget counts as nothing."""
    if part == math.inf or part >= whole * (1.0 - _SLACK):
        return 0.0
    return rounded_down(Fraction(whole) - Fraction(part))


def _left(spent: Guarantee, budget: Budget) -> Budget:
    return Budget(_less(budget.epsilon, spent.epsilon), _less(budget.delta, spent.delta), budget.unit)
