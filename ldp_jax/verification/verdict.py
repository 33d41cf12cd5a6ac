"""One verdict: every rung that applies to a mechanism, compared with what it claims."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax

from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RECORD, WORDS
from ldp_jax.core import validate
from ldp_jax.core.mechanism import HasCoordinates, check_budget, unstacked
from ldp_jax.core.spaces import NotApplicable
from ldp_jax.core.types import PRNGKey
from ldp_jax.edges.curator import CentralMechanism, promised
from ldp_jax.verification.arithmetic import ROUNDING, arithmetic
from ldp_jax.verification.bits import record_in_bits
from ldp_jax.verification.central import matches_release, private_edge_lower_bound, private_edge_supremum
from ldp_jax.verification.coordinates import independent_coordinates
from ldp_jax.verification.distinct import distinct_reports
from ldp_jax.verification.empirical import matches_density
from ldp_jax.verification.everywhere import largest_lower_bound, matches_everywhere
from ldp_jax.verification.exact import hockey_stick, privacy_loss_supremum, spaces
from ldp_jax.verification.moments import draws_have_moments, matches_moments, sums_to_one
from ldp_jax.verification.purity import is_pure, uses_the_whole_key
from ldp_jax.verification.records import record_windows, reported_losses
from ldp_jax.verification.reference import matches_reference
from ldp_jax.verification.relationships import relationship_supremum
from ldp_jax.verification.statistics import SIGNIFICANCE, Fit
from ldp_jax.verification.totality import is_total

SLACK = 1e-9
"""How far a float64 supremum may be above a claim that is attained, relative."""

LEAST_DELTA = 1e-12
"""The least delta that quadrature in float64 can show."""

_QUADRATURE = 1e-3  # of delta: what quadrature of a smooth law is good to, with room
_WINDOWS = 65_536  # the fewest records that windows are cut of
_RELEASES = 4000  # of a curator
_LEVELS = 64  # of a stack


@dataclasses.dataclass(frozen=True)
class Rung:
    """What one rung found.

    Attributes:
      name: short.
      asked: in words.
      found: a number; NaN where the rung does not apply.
      limit: the largest number with which the rung holds.
      holds: None where the rung does not apply.
      reason: why it does not apply, or what was raised; of many records how many, and the smallest region found.
      needed: whether nothing is shown where it does not apply.
    """

    name: str
    asked: str
    found: float
    limit: float
    holds: bool | None
    reason: str = ""
    needed: bool = False

    def __str__(self) -> str:
        if self.holds is None:
            return f"{self.name:<12} {self.asked:<42} {'':>11} {'':>11}  not asked: {self.reason}"
        word = "holds" if self.holds else "REFUSED"
        why = f": {self.reason}" if self.reason else ""
        return f"{self.name:<12} {self.asked:<42} {self.found:>11.6g} {self.limit:>11.6g}  {word}{why}"


@dataclasses.dataclass(frozen=True, repr=False)
class Verdict:
    """The rungs of one mechanism. True where all that apply hold, and all that are needed apply.

    Needed are the law, and the sampler at one record and at many; of vectors whose coordinates have laws of their
    own their independence, and of reports of a continuum their last bits. Of a curator's release, law and sampler.

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
        return tuple(rung for rung in self.rungs if rung.needed and rung.holds is None)

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
    mechanism than its protocol (:class:`~ldp_jax.core.mechanism.Mechanism` and, for what is exact,
    :class:`~ldp_jax.core.mechanism.HasDensity` and :class:`~ldp_jax.core.mechanism.HasMoments`) and its spaces.

    A curator's mechanism (:mod:`ldp_jax.edges.curator`) is asked what its release tells of one private edge; where
    it has a chain, the claim is that of the stationary law. Of a stack of budgets each level is asked; the verdict
    shows the worst answer to each rung, and says of which level.

    Args:
      mechanism: or a stack of them, of at most 64 different levels.
      key: a typed threefry key.
      trials: draws of each rung that draws, at least 1 000 (65 536 records at least are cut into windows; of a
        curator's releases 4 000 at most).
      significance: how often an honest mechanism may be refused, by all rungs together; in (0, 0.5].

    Returns:
      A :class:`Verdict`: true or false, and a table when printed.

    Raises:
      ValueError: for trials, a significance or parameters out of range, or a key that is not threefry.

    >>> from ldp_jax.features import Duchi
    >>> verdict = check(Duchi(1.0), jax.random.key(0), trials=20_000)
    >>> bool(verdict), verdict["law"].found <= 1.0 + 1e-9
    (True, True)
    """
    validate.integer_in(1000, trials=trials)
    validate.in_range(0.0, 0.5, open_lower=True, significance=significance)
    validate.threefry(key)
    levels = unstacked(mechanism)
    if len(levels) == 1:
        return _check(levels[0], key, trials, significance)
    if len(levels) > _LEVELS:
        raise ValueError(
            f"mechanism must be a stack of at most {_LEVELS} levels, got {len(levels)}: ask some of them"
        )
    keys = jax.random.split(key, len(levels))
    found = [_check(level, k, trials, significance / len(levels)) for level, k in zip(levels, keys, strict=True)]
    rungs = [
        dataclasses.replace(worst, reason="; ".join(filter(None, [worst.reason, f"level {place + 1}"])))
        if worst.holds is not None
        else worst
        for place, worst in (
            max(enumerate(answers), key=lambda pair: _badness(pair[1]))
            for answers in zip(*(verdict.rungs for verdict in found), strict=True)
        )
    ]
    return Verdict(f"{len(levels)} levels of {mechanism!r}", str(mechanism.guarantee()), tuple(rungs))


def _badness(rung: Rung) -> tuple[bool, bool, float]:
    """Refused before not asked, and then by how near to the limit."""
    near = rung.found / rung.limit if rung.limit and math.isfinite(rung.found) else 0.0
    return rung.holds is False, rung.holds is None, near


def _check(mechanism: Any, key: Any, trials: int, significance: float) -> Verdict:
    check_budget(mechanism)
    central = isinstance(mechanism, CentralMechanism)
    guarantee = promised(mechanism) if central else mechanism.guarantee()
    asked = (_central_questions if central else questions)(mechanism, guarantee, trials, significance)
    necessary = {"law", "sampler"} if central else needed(mechanism)
    keys = jax.random.split(key, len(asked))
    rungs = [ask(mechanism, *question, key=keys[i]) for i, question in enumerate(asked)]
    rungs = [dataclasses.replace(rung, needed=rung.name in necessary) for rung in rungs]
    return Verdict(repr(mechanism), str(guarantee), tuple(rungs))


def needed(mechanism: Any) -> set[str]:
    """The rungs without which nothing is shown of a mechanism."""
    found = {"unit", "law", "sampler", "records"}
    codomain = mechanism.codomain()
    if isinstance(mechanism, HasCoordinates) and codomain.dim > 1:
        found.add("coordinates")
    if getattr(getattr(codomain, "inner", codomain), "continuous", True):
        found.add("bits")
    return found


def ask(mechanism: Any, name: str, words: str, needs: str, answer: Callable[[Any], Any], key: Any) -> Rung:
    """The rung of one of :func:`questions`."""
    lacking = [what for what in needs.split() if not hasattr(mechanism, what)]
    if lacking:
        return Rung(name, words, math.nan, math.nan, None, f"{type(mechanism).__name__} has no {lacking[0]}")
    try:
        found, limit, holds, *said = answer(key)
    except NotApplicable as error:
        return Rung(name, words, math.nan, math.nan, None, str(error))
    except Exception as error:  # whatever it is, the mechanism did not answer
        said = " ".join(str(error).split())[:200]
        return Rung(name, words, math.nan, math.nan, False, f"raised {type(error).__name__}: {said}")
    return Rung(name, words, float(found), float(limit), bool(holds), *said)


def _fit(fit: Fit) -> tuple[Any, ...]:
    if fit.records == 1:
        return fit.statistic, fit.threshold, fit.fits
    said = f"{fit.records} records, {fit.draws} draws; finds {fit.smallest_defect:.2g} of the records"
    return fit.statistic, fit.threshold, fit.fits, said


def questions(m: Any, guarantee: Any, trials: int, significance: float) -> list[Any]:
    """Names, words, what is needed, and a function of a key that gives found, limit and whether it holds."""
    claim, share = guarantee.epsilon, significance / 6

    def unit(key: Any) -> tuple[float, float, bool, str]:
        fits = (
            guarantee.unit == (NEIGHBOUR_LIST if spaces(m)[0].users else RECORD) or guarantee.unit.rate is not None
        )
        if said := [other for other in WORDS if WORDS[other] == guarantee.adjacency]:
            fits = fits and guarantee.unit in said  # other words are the author's to answer for
        told = f"a guarantee per {guarantee.unit} ({guarantee.adjacency}) about records of {m.domain()}"
        return 0.0 if fits else 1.0, 0.0, fits, told

    def law(key: Any) -> tuple[float, float, bool]:
        if guarantee.delta:
            return delta_of(m, claim, guarantee.delta)
        found = privacy_loss_supremum(m).epsilon
        return found, claim, found <= claim * (1 + SLACK)

    def game(key: Any) -> tuple[float, float, bool]:
        found = largest_lower_bound(m, key, trials, 1 - share, delta=guarantee.delta).epsilon
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
    many = {"trials": trials, "significance": share}
    return [
        ("unit", "the unit is one of such records", "", unit),
        ("total", "values that are no records", "", fits(is_total)),
        ("mass", "the density sums to 1", density, lambda key: _fit(sums_to_one(m))),
        ("law", lost, density, law),
        ("sampler", "the law is what is drawn", density, fits(matches_density, **many)),
        ("records", "the same of many records", density, fits(matches_everywhere, **many)),
        ("game", "what draws alone show", "", game),
        ("moments", "mean and variance, by the density", density + moments, lambda key: _fit(matches_moments(m))),
        ("estimates", "mean and variance, by draws", moments, fits(draws_have_moments, trials=trials)),
        ("losses", losses, density, _pure_only(guarantee, fits(reported_losses, trials=trials))),
        (
            "windows",
            "every record alike",
            density,
            fits(record_windows, trials=max(trials, _WINDOWS), significance=share),
        ),
        ("distinct", "no report too often", density, fits(distinct_reports, **many)),
        ("bits", "the last bits of a report", "", fits(record_in_bits, **many)),
        ("words", "the loss in words that are drawn", density, words),
        ("reference", "word by word, the published law", "", fits(matches_reference, trials=trials)),
        ("coordinates", "coordinates are independent", "", coordinates),
        ("pure", "a function of its arguments", "", fits(is_pure)),
        ("key", "every bit of the key is used", "", fits(uses_the_whole_key)),
        ("edge", "what an edge costs", "", edge),
        *([("curve", "delta by the closed form", "", curve)] if hasattr(m, "curve") else []),
    ]


def delta_of(m: Any, epsilon: float, claimed: float) -> tuple[float, float, bool]:
    """Delta by two rules, the limit that it is held to, and whether it keeps to it.

    The difference of the rules, and 1e-3 of delta, is what quadrature may be off by.

    Raises:
      NotApplicable: for a claim that is below what quadrature shows, where nothing above it is found.
    """
    coarse, found = (hockey_stick(m, epsilon, panels=panels) for panels in (64, 128))
    limit = claimed * (1 + _QUADRATURE) + abs(found - coarse)
    least = max(LEAST_DELTA, 10 * abs(found - coarse))
    if found <= limit and claimed < least:
        raise NotApplicable(f"a delta of {claimed:g} is below {least:.2g}, the least that quadrature shows here")
    return found, limit, found <= limit


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
