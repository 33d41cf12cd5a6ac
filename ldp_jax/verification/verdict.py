"""One verdict: every rung that applies to a mechanism, compared with what it claims."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax  # noqa: F401 - the examples below

from ldp_jax.accounting.guarantee import (
    EDGE_CENTRAL,
    NEIGHBOUR_LIST,
    RECORD,
    RELATIONSHIP,
    WORDS,
    Guarantee,
    any_two,
)
from ldp_jax.core import random, validate
from ldp_jax.core.flags import standard_flags
from ldp_jax.core.mechanism import (
    HasCoordinates,
    Randomizer,
    check_budget,
    require_protocol,
)
from ldp_jax.core.progress import Progress, phase, watched
from ldp_jax.core.spaces import NotApplicable, Reports
from ldp_jax.core.types import PRNGKey, Report
from ldp_jax.curators import CentralMechanism, promised
from ldp_jax.edges import HasBitLaw, Reporting
from ldp_jax.verification._programs import Exact, draws
from ldp_jax.verification._words import unfollowed
from ldp_jax.verification.arithmetic import ROUNDING, arithmetic, check_runs
from ldp_jax.verification.bits import asked_of, has_reals, record_in_bits
from ldp_jax.verification.central import (
    matches_release,
    most_draws,
    private_edge_lower_bound,
    private_edge_supremum,
)
from ldp_jax.verification.coordinates import independent_coordinates
from ldp_jax.verification.empirical import (
    fit_of,
    matches_density,
    matches_everywhere,
    matches_graphs,
)
from ldp_jax.verification.exact import hockey_stick, privacy_loss_supremum, spaces
from ldp_jax.verification.games import largest_lower_bound
from ldp_jax.verification.lists import relationship_supremum
from ldp_jax.verification.moments import matches_moments, moments_of, sums_to_one
from ldp_jax.verification.protocols import HasWordRuns
from ldp_jax.verification.purity import is_pure, is_total, uses_the_whole_key
from ldp_jax.verification.rare import counted, record_windows, reported_losses
from ldp_jax.verification.reference import matches_reference
from ldp_jax.verification.statistics import SIGNIFICANCE, Fit

SLACK = 1e-9
"""How far a float64 supremum may be above a claim that is attained, relative; of a claim below
1e-4, of that.
"""

LEAST_DELTA = 1e-12
"""The least delta that quadrature in float64 can show."""

Answer = tuple[Any, ...]
"""Found, limit, whether it holds, and perhaps why."""
Question = tuple[str, str, str, Callable[[PRNGKey], Answer]]
"""Name, words, what is needed, and the answer to a key."""

_QUADRATURE = 1e-3  # of delta: what quadrature of a smooth law is good to, with room
_WINDOWS = 65_536  # the fewest records that windows are cut of
_RELEASES = 4000  # of a curator


@dataclasses.dataclass(frozen=True)
class Rung:
    """The answer of one rung: a number, the largest with which it holds, and why.

    ``holds`` is None where it does not apply; where it is ``needed``, nothing is shown then.
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
        return (
            f"{self.name:<12} {self.asked:<42} {self.found:>11.6g} {self.limit:>11.6g}  {word}{why}"
        )


@dataclasses.dataclass(frozen=True, repr=False)
class Verdict:
    """The rungs of one mechanism. True where all that apply hold, and all that are needed apply.

    Needed are law and sampler, at one record and at many; the independence of coordinates with laws
    of their own; the last bits of reports of a continuum. For a curator's release: unit, law,
    sampler and game.
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


@standard_flags()
def check(
    mechanism: Any,
    key: PRNGKey,
    *,
    trials: int = 200_000,
    significance: float = SIGNIFICANCE,
    progress: Progress | None = None,
) -> Verdict:
    """Ask a mechanism everything that applies to it, and compare with what it claims.

    A rung that does not apply says why; one that raises anything else is refused
    (:mod:`ldp_jax.verification` says what each can see). A curator's mechanism is asked about one
    private edge, a chain in its stationary law. Windows take 65 536 records at least, a curator's
    releases are 4 000 at most, and fewer where a chain makes many sweeps; ``significance`` is how
    often an honest mechanism may be refused, by all rungs together. ``progress`` is told of each
    rung (:data:`ldp_jax.core.progress.Progress`); by default they are shown after five seconds.

    ``ValueError`` for trials, a significance or parameters out of range, or a key that is not
    threefry; ``TypeError`` for what lacks a member of the protocol, with the smallest class that
    has it.

    >>> from ldp_jax.features import Duchi
    >>> verdict = check(Duchi(1.0), jax.random.key(0), trials=2_000)
    >>> bool(verdict), verdict["law"].found <= 1.0 + 1e-9
    (True, True)
    """
    validate.integer_in(1000, trials=trials)
    validate.in_range(0.0, 0.5, open_lower=True, significance=significance)
    validate.threefry(key)
    if not isinstance(mechanism, CentralMechanism):
        require_protocol(mechanism)
    check_budget(mechanism)
    key, draw_key = random.split(key)
    if isinstance(mechanism, CentralMechanism):
        guarantee = promised(mechanism)
        necessary = {"unit", "law", "sampler", "game"}
        table = _of_release(mechanism, guarantee, trials, significance)
    else:
        asked = Questions(mechanism, draw_key, trials, significance)
        guarantee = asked.guarantee
        necessary = needed(mechanism)
        table = asked.table()
    keys = random.split(key, len(table))
    rungs = []
    with watched("check", progress):
        for i, question in enumerate(table):
            phase(question[0], i / len(table))
            found = ask(mechanism, *question, key=keys[i])
            rungs.append(dataclasses.replace(found, needed=found.name in necessary))
    return Verdict(repr(mechanism), str(guarantee), tuple(rungs))


def needed(mechanism: Randomizer) -> set[str]:
    """The rungs without which nothing is shown of a mechanism."""
    found = {"unit", "law", "sampler", "records"}
    codomain = mechanism.codomain()
    if isinstance(mechanism, HasCoordinates) and mechanism.codomain().dim > 1:
        found.add("coordinates")
    if not isinstance(codomain, Reports) or has_reals(codomain):
        found.add("bits")
    return found


def ask(
    mechanism: object,
    name: str,
    words: str,
    needs: str,
    answer: Callable[[PRNGKey], Answer],
    key: PRNGKey,
) -> Rung:
    """The rung of one of the :class:`Questions`."""
    lacking = [what for what in needs.split() if not hasattr(mechanism, what)]
    if lacking:
        return Rung(
            name, words, math.nan, math.nan, None, f"{type(mechanism).__name__} has no {lacking[0]}"
        )
    try:
        found, limit, holds, *said = answer(key)
    except NotApplicable as error:
        return Rung(name, words, math.nan, math.nan, None, str(error))
    except Exception as error:  # whatever it is, the mechanism did not answer
        said = " ".join(str(error).split())[:200]
        return Rung(
            name, words, math.nan, math.nan, False, f"raised {type(error).__name__}: {said}"
        )
    return Rung(name, words, float(found), float(limit), bool(holds), *said)


def _within(found: float, limit: float, slack: float = 0.0) -> Answer:
    return found, limit, found <= limit + slack * max(limit, 1e-4)


def _fit(fit: Fit) -> Answer:
    # Of less than all cells, or of one that must be empty; and why there was nothing to test.
    said = [fit.test] if fit.test.startswith("G ") or (" " in fit.test and not fit.fits) else []
    if fit.records > 1:
        said = [
            f"{fit.records} records, {fit.draws} draws; "
            f"finds {fit.smallest_defect:.2g} of the records",
            *said,
        ]
    return fit.statistic, fit.threshold, fit.fits, "; ".join(said)


def _refused_at_once(mechanism: Randomizer) -> bool:
    """Whether a program calls the host.

    It is not pure, and to compile it for many records would take hours.
    """
    try:
        return bool(unfollowed(mechanism, mechanism.domain().typical()))
    except Exception:  # the rungs say what they meet
        return False


class Questions:
    """The questions about a mechanism that each user runs."""

    def __init__(self, mechanism: Any, draw_key: PRNGKey, trials: int, significance: float) -> None:
        self.m = mechanism
        self.draw_key = draw_key
        self.trials = trials
        self.share = significance / 7
        self.guarantee = mechanism.guarantee()
        if not isinstance(self.guarantee, Guarantee):
            raise TypeError(
                f"guarantee() must return a Guarantee, got {type(self.guarantee).__name__}"
            )
        self.claim = self.guarantee.epsilon

    def table(self) -> list[Question]:
        """All questions, in order.

        Of a program that calls the host one, since nothing else need be known.
        """
        m, trials = self.m, self.trials
        density = "log_density"
        moments = "mean variance"
        both = "log_density mean variance"
        fits = lambda rung, **more: lambda key: _fit(rung(m, key, **more))
        many = {"trials": trials, "significance": self.share}
        few = many | {"trials": min(trials, 50_000)}
        windows = many | {"trials": max(trials, _WINDOWS)}
        pure = ("pure", "a function of its arguments", "", fits(is_pure))
        if _refused_at_once(m):
            return [pure]
        lost = (
            "delta at the claimed epsilon"
            if self.guarantee.delta
            else "the largest loss of the law"
        )
        found: list[Question] = [
            ("unit", "the unit is one of such records", "", self._unit),
            ("total", "values that are not records", "", fits(is_total)),
            ("mass", "the density sums to 1", density, self._mass),
            ("law", lost, density, self._law),
            ("sampler", "the law is what is drawn", density, self._sampler),
            ("records", "the same of many records", density, fits(matches_everywhere, **many)),
            ("game", "what draws alone show", "", self._game),
            (
                "moments",
                "mean and variance, by the density",
                both,
                lambda _: _fit(matches_moments(m)),
            ),
            (
                "estimates",
                "mean and variance, by draws",
                moments,
                lambda _: _fit(moments_of(m, *self.typical)),
            ),
            ("losses", "losses of reports that are drawn", density, self._losses),
            ("windows", "every record alike", density, fits(record_windows, **windows)),
            (
                "distinct",
                "no report too often",
                density,
                lambda _: _fit(counted(m, *self.typical, self.share)),
            ),
            ("bits", "the last bits of a report", "", self._bits),
            ("words", "the loss in words that are drawn", density, self._words),
            (
                "reference",
                "word by word, the published law",
                "",
                fits(matches_reference, trials=trials),
            ),
            (
                "coordinates",
                "coordinates are independent",
                "",
                fits(independent_coordinates, **few),
            ),
            pure,
            ("key", "every bit of the key is used", "", fits(uses_the_whole_key)),
            ("edge", "what an edge costs", "", self._edge),
            (
                "graphs",
                "whole graphs, drawn at once",
                "log_density sample_graph",
                fits(matches_graphs, **few),
            ),
        ]
        return (
            [*found, ("curve", "delta by the closed form", "", self._curve)]
            if hasattr(m, "curve")
            else found
        )

    @functools.cached_property
    def typical(self) -> tuple[Report, Report]:
        """A record and draws of it: one batch for all rungs that ask one record."""
        x = self.m.domain().typical()
        return x, draws(self.m, self.draw_key, x, self.trials)

    def _unit(self, _: PRNGKey) -> Answer:
        g, m = self.guarantee, self.m
        domain = spaces(m)[0]
        if g.unit.rate is not None:
            raise NotApplicable(
                "a loss per unit of distance: the law is asked of any two records, however near"
            )
        if (now := m.guarantee()) != g:
            return 1.0, 0.0, False, f"guarantee() has changed to {now}"
        fits = g.unit == (NEIGHBOUR_LIST if domain.users else RECORD)
        if known := [unit for unit, words in WORDS.items() if words == g.adjacency]:
            fits = fits and g.unit in known  # other words are the author's to answer for
        fits = fits and (
            any_two(g.adjacency) == "two" or domain.all_adjacent
        )  # else the law was not asked of any
        said = f"a guarantee per {g.unit} ({g.adjacency}) about records of {m.domain()}"
        return float(not fits), 0.0, fits, said

    def _mass(self, _: PRNGKey) -> Answer:
        *found, fits, said = _fit(sums_to_one(self.m))
        undeclared = not fits and getattr(self.m.codomain(), "breaks", self) is None
        return (
            *found,
            fits,
            "where a density jumps, Interval(..., breaks=...) must say so" if undeclared else said,
        )

    def _law(self, _: PRNGKey) -> Answer:
        if self.guarantee.delta:
            return delta_of(self.m, self.claim, self.guarantee.delta)
        return _within(privacy_loss_supremum(self.m).epsilon, self.claim, SLACK)

    def _sampler(self, key: PRNGKey) -> Answer:
        if self.m.domain().users:
            return _fit(matches_density(self.m, key, trials=self.trials, significance=self.share))
        return _fit(fit_of(self.m, key, *self.typical, self.share))

    def _game(self, key: PRNGKey) -> Answer:
        found = largest_lower_bound(
            self.m, key, self.trials, 1 - self.share, delta=self.guarantee.delta
        ).epsilon
        return _within(found, self.claim)

    def _losses(self, key: PRNGKey) -> Answer:
        if self.guarantee.delta:
            raise NotApplicable("losses beyond epsilon are what delta allows")
        return _fit(reported_losses(self.m, key, trials=self.trials))

    def _bits(self, key: PRNGKey) -> Answer:
        fit = record_in_bits(self.m, key, trials=self.trials, significance=self.share)
        return (*_fit(fit)[:3], asked_of(self.m))

    def _words(self, _: PRNGKey) -> Answer:
        exact = self.guarantee.arithmetic == "exact"
        try:
            found = arithmetic(self.m).epsilon
            if exact and isinstance(self.m, HasWordRuns):
                check_runs(self.m)
        except NotApplicable as error:
            if exact:
                return (
                    math.inf,
                    self.claim,
                    False,
                    f"exact arithmetic is claimed and cannot be shown: {error}",
                )
            raise
        return _within(found, self.claim if exact else self.claim + ROUNDING)

    def _edge(self, _: PRNGKey) -> Answer:
        m = self.m
        reportings = getattr(self.m, "reportings", (None,))
        losses = [(_lost_by_edge(m, p), m.relationship(p)) for p in reportings]
        other = [
            g for _, g in losses if g.unit != RELATIONSHIP or any_two(g.adjacency) == "any two"
        ]
        if other:
            return 1.0, 0.0, False, f"relationship() is not of one edge: {other[0]}"
        found, limit = max(
            ((lost, g.epsilon) for lost, g in losses), key=lambda pair: pair[0] / pair[1]
        )
        return _within(found, limit, SLACK)

    def _curve(self, _: PRNGKey) -> Answer:
        curve = self.m.curve()
        less = self.claim / 2
        # A curve is one number, and ledgers add it up: a point beside the claim tells one that is
        # too low.
        lost = hockey_stick(self.m, less)
        told = curve.delta(less)
        if lost > told * (1 + _QUADRATURE):
            return lost, told, False, f"at epsilon {less:g}"
        return _within(curve.delta(self.claim), self.guarantee.delta)


def _lost_by_edge(m: Any, reporting: Reporting | None) -> float:
    """About an edge, enumerated.

    Where no law of a bit is known, a bit of the lists of those who report it.
    """
    if isinstance(m, HasBitLaw) or not hasattr(m, "relationship"):
        return relationship_supremum(m, reporting).epsilon
    made = dataclasses.replace(m, reporting=reporting)
    return (2 if reporting == "full" else 1) * privacy_loss_supremum(made).epsilon


def delta_of(m: Exact, epsilon: float, claimed: float) -> tuple[float, float, bool]:
    """Delta by two rules, the limit (their difference and 1e-3 over the claim), and the verdict."""
    coarse, found = (hockey_stick(m, epsilon, panels=panels) for panels in (64, 128))
    limit = claimed * (1 + _QUADRATURE) + abs(found - coarse)
    least = max(LEAST_DELTA, 10 * abs(found - coarse))
    if found <= limit and claimed < least:
        raise NotApplicable(
            f"a delta of {claimed:g} is below {least:.2g}, the least that quadrature shows here"
        )
    return found, limit, found <= limit


def _of_release(
    m: CentralMechanism, promise: Guarantee, trials: int, significance: float
) -> list[Question]:
    """The questions about a curator's release, whose draws are made one after the other.

    Some thousands at most.
    """
    claim = promise.epsilon
    half = min(trials, _RELEASES // 2)
    share = significance / 2
    most = min(trials, _RELEASES, most_draws(m))

    def unit(_: PRNGKey) -> Answer:
        stated = m.guarantee()  # of a chain's last state no less than of its stationary law
        of_an_edge = [
            g.unit == EDGE_CENTRAL and any_two(g.adjacency) == "two" for g in (stated, promise)
        ]
        fits = all(of_an_edge) and stated.epsilon >= claim and promised(m) == promise
        return float(not fits), 0.0, fits, "" if fits else f"guarantee() says {stated}"

    law = lambda _: _within(private_edge_supremum(m).epsilon, claim, SLACK)
    sampler = lambda key: _fit(matches_release(m, key, trials=half, significance=share))
    game = lambda key: _within(private_edge_lower_bound(m, key, most, 1 - share).epsilon, claim)
    return [
        ("unit", "the unit is one private edge", "", unit),
        ("law", "the largest loss about a private edge", "", law),
        ("sampler", "the law is what is drawn", "", sampler),
        ("game", "what draws alone show", "", game),
    ]
