"""One verdict: every rung that applies to a mechanism, compared with what it claims."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax

from ldp_jax.domains import NotApplicable
from ldp_jax.edges.central import CentralMechanism
from ldp_jax.mechanism import check_budget
from ldp_jax.types import PRNGKey
from ldp_jax.verification.arithmetic import ROUNDING, arithmetic
from ldp_jax.verification.bits import record_in_bits
from ldp_jax.verification.central import matches_release, private_edge_lower_bound, private_edge_supremum
from ldp_jax.verification.coordinates import independent_coordinates
from ldp_jax.verification.distinct import distinct_reports
from ldp_jax.verification.empirical import epsilon_lower_bound, matches_density
from ldp_jax.verification.exact import hockey_stick, privacy_loss_supremum
from ldp_jax.verification.moments import draws_have_moments, matches_moments, sums_to_one
from ldp_jax.verification.purity import is_pure, uses_the_whole_key
from ldp_jax.verification.records import record_windows, reported_losses
from ldp_jax.verification.reference import matches_reference
from ldp_jax.verification.relationships import relationship_supremum
from ldp_jax.verification.statistics import SIGNIFICANCE, Fit
from ldp_jax.verification.totality import is_total

SLACK = 1e-9
"""How far a float64 supremum may be above a claim that is attained, relative."""

MASS = 1e-6
"""How far a delta by quadrature may be above the claimed one: what the quadrature is good to."""

NEEDED = ("law", "sampler")
"""The rungs without which nothing is shown: what the law loses, and whether it is the law that is drawn."""

_WINDOWS = 65_536  # the fewest records that windows are cut of
_RELEASES = 4000  # of a curator


@dataclasses.dataclass(frozen=True)
class Rung:
    """What one rung found.

    Attributes:
      name: short.
      asked: in words.
      found: a number; NaN where the rung does not apply.
      limit: the largest number with which the rung holds.
      holds: None where the rung does not apply.
      reason: why it does not apply, or what was raised.
    """

    name: str
    asked: str
    found: float
    limit: float
    holds: bool | None
    reason: str = ""

    def __str__(self) -> str:
        if self.holds is None:
            return f"{self.name:<12} {self.asked:<42} {'':>11} {'':>11}  not asked: {self.reason}"
        word = "holds" if self.holds else "REFUSED"
        why = f": {self.reason}" if self.reason else ""
        return f"{self.name:<12} {self.asked:<42} {self.found:>11.6g} {self.limit:>11.6g}  {word}{why}"


@dataclasses.dataclass(frozen=True, repr=False)
class Verdict:
    """The rungs of one mechanism. True where all that apply hold, the two of :data:`NEEDED` among them.

    Attributes:
      mechanism: in words.
      claim: its guarantee, in words.
      rungs: in the order in which they were asked.
    """

    mechanism: str
    claim: str
    rungs: tuple[Rung, ...]

    @property
    def refused(self) -> tuple[Rung, ...]:
        """The rungs that do not hold."""
        return tuple(rung for rung in self.rungs if rung.holds is False)

    @property
    def missing(self) -> tuple[Rung, ...]:
        """The needed rungs that do not apply."""
        return tuple(rung for rung in self.rungs if rung.name in NEEDED and rung.holds is None)

    def __getitem__(self, name: str) -> Rung:
        """A rung by its name."""
        return next(rung for rung in self.rungs if rung.name == name)

    def __bool__(self) -> bool:
        return not self.refused and not self.missing

    def __str__(self) -> str:
        if self.refused:
            last = f"REFUSED by {', '.join(rung.name for rung in self.refused)}"
        elif self.missing:
            last = f"NOT SHOWN: no answer to {', '.join(rung.name for rung in self.missing)}"
        else:
            last = "the claim holds as far as the rungs see"
        head = f"{'rung':<12} {'asked':<42} {'found':>11} {'limit':>11}  verdict"
        return "\n".join([self.mechanism, self.claim, "", head, *map(str, self.rungs), "", last])

    __repr__ = __str__


def check(mechanism: Any, key: PRNGKey, *, trials: int = 200_000, significance: float = SIGNIFICANCE) -> Verdict:
    """Ask a mechanism everything that applies to it, and compare with what it claims.

    A rung that does not apply says why; one that raises anything else is refused, as a mechanism never raises on
    data. What each rung can see and what it cannot is said in :mod:`ldp_jax.verification`; no rung needs more of a
    mechanism than its protocol (:class:`~ldp_jax.mechanism.Mechanism` and, for what is exact,
    :class:`~ldp_jax.mechanism.HasDensity` and :class:`~ldp_jax.mechanism.HasMoments`) and its spaces.

    A curator's mechanism (:mod:`ldp_jax.edges.central`) is asked what its release tells of one private edge.

    Args:
      mechanism: parameters are one number each.
      key: a typed threefry key.
      trials: draws of each rung that draws (65 536 records at least are cut into windows; of a curator's releases
        4 000 at most).
      significance: how often an honest mechanism may be refused, by all rungs together.

    Returns:
      A :class:`Verdict`: true or false, and a table when printed.

    Raises:
      ValueError: for a stack of mechanisms, parameters out of range, or a key that is not threefry.

    >>> from ldp_jax.features import Duchi
    >>> verdict = check(Duchi(1.0), jax.random.key(0), trials=20_000)
    >>> bool(verdict), verdict["law"].found <= 1.0 + 1e-9
    (True, True)
    """
    check_budget(mechanism)
    guarantee = mechanism.guarantee()
    questions = _central_questions if isinstance(mechanism, CentralMechanism) else _questions
    asked = questions(mechanism, guarantee, trials, significance)
    keys = jax.random.split(key, len(asked))
    rungs = [_ask(mechanism, *question, key=keys[i]) for i, question in enumerate(asked)]
    return Verdict(repr(mechanism), str(guarantee), tuple(rungs))


def _ask(mechanism: Any, name: str, words: str, needs: str, ask: Callable[[Any], Any], key: Any) -> Rung:
    lacking = [what for what in needs.split() if not hasattr(mechanism, what)]
    if lacking:
        return Rung(name, words, math.nan, math.nan, None, f"{type(mechanism).__name__} has no {lacking[0]}")
    try:
        found, limit, holds = ask(key)
    except NotApplicable as error:
        return Rung(name, words, math.nan, math.nan, None, str(error))
    except Exception as error:  # whatever it is, the mechanism did not answer
        said = " ".join(str(error).split())[:200]
        return Rung(name, words, math.nan, math.nan, False, f"raised {type(error).__name__}: {said}")
    return Rung(name, words, float(found), float(limit), bool(holds))


def _fit(fit: Fit) -> tuple[float, float, bool]:
    return fit.statistic, fit.threshold, fit.fits


def _questions(m: Any, guarantee: Any, trials: int, significance: float) -> list[Any]:
    """Names, words, what is needed, and a function of a key that gives found, limit and whether it holds."""
    claim, share, many = guarantee.epsilon, significance / 4, max(trials, _WINDOWS)

    def law(key: Any) -> tuple[float, float, bool]:
        if guarantee.delta:
            found = hockey_stick(m, claim)
            return found, guarantee.delta, found <= guarantee.delta + MASS
        found = privacy_loss_supremum(m).epsilon
        return found, claim, found <= claim * (1 + SLACK)

    def game(key: Any) -> tuple[float, float, bool]:
        found = epsilon_lower_bound(m, key, trials, 1 - share, delta=guarantee.delta).epsilon
        return found, claim, found <= claim

    def words(key: Any) -> tuple[float, float, bool]:
        try:
            found = arithmetic(m)
        except NotApplicable:
            if guarantee.arithmetic == "exact":
                raise ValueError("exact arithmetic is claimed and cannot be shown") from None
            raise
        limit = claim if guarantee.arithmetic == "exact" else claim + ROUNDING
        return found.epsilon, limit, found.epsilon <= limit

    def curve(key: Any) -> tuple[float, float, bool]:
        found = m.curve().delta(claim)
        return found, guarantee.delta, found <= guarantee.delta

    def coordinates(key: Any) -> tuple[float, float, bool]:
        return _fit(independent_coordinates(m, key, trials=min(trials, 50_000), significance=share))

    def edge(key: Any) -> tuple[float, float, bool]:
        reportings = getattr(m, "reportings", ())
        if not reportings:
            raise NotApplicable(f"mechanism must be one on neighbour lists, got {type(m).__name__}")
        losses = [(relationship_supremum(m, p).epsilon, m.relationship(p).epsilon) for p in reportings]
        found, limit = max(losses, key=lambda pair: pair[0] / pair[1])
        return found, limit, found <= limit * (1 + SLACK)

    density, moments = "log_density ", "mean variance"
    fits = lambda rung, **more: lambda key: _fit(rung(m, key, **more))
    lost = "delta at the claimed epsilon" if guarantee.delta else "the largest loss of the law"
    losses = "losses of reports that are drawn"
    return [
        ("total", "values that are no records", "", fits(is_total)),
        ("mass", "the density sums to 1", density, lambda key: _fit(sums_to_one(m))),
        ("law", lost, density, law),
        ("sampler", "the law is what is drawn", density, fits(matches_density, trials=trials, significance=share)),
        ("game", "what draws alone show", "", game),
        ("moments", "mean and variance, by the density", density + moments, lambda key: _fit(matches_moments(m))),
        ("estimates", "mean and variance, by draws", moments, fits(draws_have_moments, trials=trials)),
        ("losses", losses, density, _pure_only(guarantee, fits(reported_losses, trials=trials))),
        ("windows", "every record alike", density, fits(record_windows, trials=many, significance=share)),
        ("distinct", "no report too often", density, fits(distinct_reports, trials=trials, significance=share)),
        ("bits", "the last bits of a report", "", fits(record_in_bits, trials=trials, significance=share)),
        ("words", "the loss in words that are drawn", density, words),
        ("reference", "word by word, the published law", "", fits(matches_reference, trials=trials)),
        ("coordinates", "coordinates are independent", "", coordinates),
        ("pure", "a function of its arguments", "", fits(is_pure)),
        ("key", "every bit of the key is used", "", fits(uses_the_whole_key)),
        ("edge", "what an edge costs", "", edge),
        *([("curve", "delta by the closed form", "", curve)] if hasattr(m, "curve") else []),
    ]


def _central_questions(m: CentralMechanism, guarantee: Any, trials: int, significance: float) -> list[Any]:
    """The same of a curator's release, whose draws are made one after the other: some thousands at most."""
    claim, share = guarantee.epsilon, significance / 2

    def law(key: Any) -> tuple[float, float, bool]:
        found = private_edge_supremum(m).epsilon
        return found, claim, found <= claim * (1 + SLACK)

    def sampler(key: Any) -> tuple[float, float, bool]:
        return _fit(matches_release(m, key, trials=min(trials, _RELEASES // 2), significance=share))

    def game(key: Any) -> tuple[float, float, bool]:
        found = private_edge_lower_bound(m, key, min(trials, _RELEASES), 1 - share).epsilon
        return found, claim, found <= claim

    return [
        ("law", "the largest loss about a private edge", "", law),
        ("sampler", "the law is what is drawn", "", sampler),
        ("game", "what draws alone show", "", game),
    ]


def _pure_only(guarantee: Any, ask: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A loss above epsilon is what delta is for."""

    def one(key: Any) -> Any:
        if guarantee.delta:
            raise NotApplicable("losses beyond epsilon are what delta allows")
        return ask(key)

    return one
