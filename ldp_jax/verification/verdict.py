"""One verdict: every test that applies to a mechanism, compared with what it claims."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

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
from ldp_jax.core.spaces import NotApplicable
from ldp_jax.core.types import PRNGKey, Report, Values
from ldp_jax.curators import CentralMechanism, promised
from ldp_jax.edges import HasBitLaw
from ldp_jax.verification._programs import Exact, draws, unfollowed
from ldp_jax.verification.arithmetic import ROUNDING, arithmetic, check_runs, follows_table
from ldp_jax.verification.empirical import (
    counted,
    fit_of,
    independent_coordinates,
    matches_density,
    matches_everywhere,
    record_windows,
    reported_losses,
)
from ldp_jax.verification.exact import (
    HasWordRuns,
    hockey_stick,
    matches_moments,
    moments_of,
    privacy_loss_supremum,
    spaces,
    sums_to_one,
)
from ldp_jax.verification.game import affordable, largest_lower_bound, smallest_leaks
from ldp_jax.verification.graphs import (
    matches_graphs,
    matches_release,
    most_draws,
    private_edge_lower_bound,
    private_edge_supremum,
    relationship_supremum,
)
from ldp_jax.verification.purity import is_pure, is_total, uses_the_whole_key
from ldp_jax.verification.statistics import SIGNIFICANCE, Fit

SLACK = 1e-9
"""How far a float64 supremum may be above a claim that is attained, relative; of a claim below
1e-4, of that.
"""

LEAST_DELTA = 1e-12
"""The least delta that quadrature in float64 can show."""

_QUADRATURE = 1e-3  # of delta: what quadrature of a smooth law is good to, with room
_WINDOWS = 65_536  # the fewest records that windows are cut of
_RELEASES = 4000  # of a curator
_FEW = 50_000  # draws that coordinates and graphs are asked by
_SHARED = 7  # tests of draws, which share the significance
_WIDE = 30  # characters of the smallest leak
_UTILITY = ("moments", "estimates")  # tests of the estimate, which epsilon does not depend on
_FIRST = 1000  # reports that are held against the members of a grid
_NEAR = 1e-5  # of a number: what is nearer to a member of a grid was meant to be it


class Question(NamedTuple):
    """A test that has not been made: its name, what it asks, and the members that it needs."""

    name: str
    asked: str
    needs: str
    answer: Callable[[PRNGKey], "Test"]


@dataclasses.dataclass(frozen=True)
class Test:
    """The answer of one test: a number, the largest with which it holds, and why.

    ``holds`` is None where it does not apply; where it is ``needed``, nothing is shown then.
    ``records`` were asked, in so many ``views``; ``leak`` says the smallest leak that is found.
    """

    __test__ = False

    name: str = ""
    asked: str = ""
    found: float = math.nan
    limit: float = math.nan
    holds: bool | None = None
    reason: str = ""
    records: int = 0
    views: int = 0
    leak: str = ""
    needed: bool = False

    def __str__(self) -> str:
        if self.holds is None:
            return f"{self.name:<12} {'':>7} {'':>5}  {'':<{_WIDE}} not asked: {self.reason}"
        failed = "WRONG" if self.name in _UTILITY else "REFUSED"
        word = "holds" if self.holds else failed
        why = f": {self.reason}" if self.reason and not self.holds else ""
        result = f"{word}: {self.found:.4g} of {self.limit:.4g}{why}"
        records, views = (number or "" for number in (self.records, self.views))
        return f"{self.name:<12} {records:>7} {views:>5}  {self.leak:<{_WIDE}} {result}"


@dataclasses.dataclass(frozen=True, repr=False)
class Verdict:
    """The tests of one mechanism. True where all that apply hold, and all that are needed apply.

    It is false, too, where epsilon holds and mean or variance of the estimate do not; the last
    line says which.

    Needed are unit, law and sampler, at one record and at many; the independence of coordinates
    with laws of their own. For a curator's release: unit, law, sampler and game.
    """

    mechanism: str
    claim: str
    tests: tuple[Test, ...]
    not_shown: str = ""

    @property
    def refused(self) -> tuple[Test, ...]:
        """The tests of the guarantee that do not hold."""
        return self._failed(utility=False)

    @property
    def misstated(self) -> tuple[Test, ...]:
        """The tests of mean and variance that do not hold; no epsilon depends on these."""
        return self._failed(utility=True)

    def _failed(self, *, utility: bool) -> tuple[Test, ...]:
        mine = (test for test in self.tests if (test.name in _UTILITY) == utility)
        return tuple(test for test in mine if test.holds is False)

    @property
    def missing(self) -> tuple[Test, ...]:
        """The needed tests that do not apply."""
        return tuple(test for test in self.tests if test.needed and test.holds is None)

    def __getitem__(self, name: str) -> Test:
        """A test by its name."""
        return next(test for test in self.tests if test.name == name)

    def __bool__(self) -> bool:
        return not self.refused and not self.missing and not self.misstated

    def __str__(self) -> str:
        if self.refused:
            last = f"REFUSED by {', '.join(test.name for test in self.refused)}"
        elif self.missing:
            last = f"NOT SHOWN: no answer to {', '.join(test.name for test in self.missing)}"
        else:
            last = f"the claim holds as far as the tests see{self.not_shown}"
        if self.misstated:
            wrong = "; ".join(f"{test.name}: {test.reason}" for test in self.misstated)
            last += f"\nNOT WHAT IS CLAIMED of the estimate, {wrong}"
        leak = "smallest leak found"
        head = f"{'test':<12} {'records':>7} {'views':>5}  {leak:<{_WIDE}} result"
        return "\n".join([self.mechanism, self.claim, "", head, *map(str, self.tests), "", last])

    __repr__ = __str__


@standard_flags()
def check(
    mechanism: Any,
    key: PRNGKey,
    *,
    trials: int = 200_000,
    significance: float = SIGNIFICANCE,
    records: Values | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Ask a mechanism everything that applies to it, and compare with what it claims.

    A test that does not apply says why; one that raises anything else is refused
    (:mod:`ldp_jax.verification` says what each can see). Records are random ones and those that
    tables hold, and stacked ``records`` of the caller's, such as a public schema has. A curator's
    mechanism is asked about one private edge, a chain in its stationary law. Windows take 65 536
    records at least, a curator's releases are 4 000 at most, and fewer where a chain makes many
    sweeps; ``significance`` is how often an honest mechanism may be refused, by all tests together.
    The smallest mass that is found, of reports that their record alone gives, falls as 1 /
    ``trials``; of likelier ones as its root. ``progress`` is told of each test
    (:data:`ldp_jax.core.progress.Progress`); by default they are shown after five seconds.

    ``ValueError`` for trials, a significance, records or parameters out of range, or a key that is
    not threefry; ``TypeError`` for what lacks a member of the protocol, with the smallest class
    that has it.

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
    not_shown = ""
    if isinstance(mechanism, CentralMechanism):
        guarantee = promised(mechanism)
        necessary = {"unit", "law", "sampler", "game"}
        table = _of_release(mechanism, guarantee, trials, significance)
    else:
        if records is not None:
            mechanism.domain().validate(records, "records")
        asked = Questions(mechanism, draw_key, trials, significance, records)
        guarantee = asked.guarantee
        necessary = needed(mechanism)
        table = asked.table()
        not_shown = "" if len(table) == 1 else asked.not_shown()
    keys = random.split(key, len(table))
    tests = []
    with watched("check", progress):
        for i, question in enumerate(table):
            phase(question.name, i / len(table))
            found = ask(mechanism, question, keys[i])
            tests.append(dataclasses.replace(found, needed=found.name in necessary))
    return Verdict(repr(mechanism), str(guarantee), tuple(tests), not_shown)


def needed(mechanism: Randomizer) -> set[str]:
    """The tests without which nothing is shown of a mechanism."""
    found = {"unit", "law", "sampler", "records"}
    if isinstance(mechanism, HasCoordinates) and mechanism.codomain().dim > 1:
        found.add("coordinates")
    return found


def ask(mechanism: object, question: Question, key: PRNGKey) -> Test:
    """Make a test."""
    lacking = [what for what in question.needs.split() if not hasattr(mechanism, what)]
    try:
        if lacking:
            raise NotApplicable(f"{type(mechanism).__name__} has no {lacking[0]}")
        found = question.answer(key)
    except NotApplicable as error:
        found = Test(reason=str(error))
    except Exception as error:  # whatever it is, the mechanism did not answer
        said = " ".join(str(error).split())[:200]
        found = Test(holds=False, reason=f"raised {type(error).__name__}: {said}")
    return dataclasses.replace(found, name=question.name, asked=question.asked)


def _answer(found: float, limit: float, holds: bool, reason: str = "", **more: Any) -> Test:
    return Test("", "", float(found), float(limit), bool(holds), reason, **more)


def _within(found: float, limit: float, slack: float = 0.0, **more: Any) -> Test:
    return _answer(found, limit, found <= limit + slack * max(limit, 1e-4), **more)


def _fit(fit: Fit, leak: str, records: int | None = None) -> Test:
    # Why it does not hold, or why there was less to test than all cells.
    said = fit.test if fit.test.startswith("G ") or (" " in fit.test and not fit.fits) else ""
    size = f"{leak} {fit.smallest_defect:.2g}" if fit.smallest_defect else leak
    asked = fit.records if records is None else records
    return _answer(fit.statistic, fit.threshold, fit.fits, said, records=asked, leak=size)


def _beside(atoms: Any, y: Report) -> str:
    """Words for reports of a grid that differ from its members in their last bits alone."""
    if not isinstance(y, (np.ndarray, jax.Array)):
        return ""
    sent = np.asarray(y)[:_FIRST]
    members = np.asarray(atoms, np.float64)
    nearest = members[np.abs(sent[:, None] - members).argmin(1)]
    away = np.abs(sent - nearest)
    if not away.any() or (away > _NEAR * np.maximum(1.0, np.abs(nearest))).any():
        return ""
    worst = int(away.argmax())
    return (
        f"a report is {sent[worst]:.9g}, where the codomain has {nearest[worst]:.9g}: send members "
        "of the codomain to the last bit"
    )


_TESTS = {
    "unit": ("the unit is one of such records", ""),
    "total": ("values that are not records", ""),
    "mass": ("the density sums to 1", "log_density"),
    "law": ("the loss of the law, or its delta at the claimed epsilon", "log_density"),
    "sampler": ("the law is what is drawn", "log_density"),
    "records": ("the same of many records", "log_density"),
    "game": ("what draws alone show", ""),
    "moments": ("mean and variance", "log_density mean variance"),
    "estimates": ("the same by draws", "mean variance"),
    "losses": ("losses of reports that are drawn", "log_density"),
    "windows": ("every record alike", "log_density"),
    "distinct": ("no report too often", "log_density"),
    "words": ("the loss in words that are drawn", "log_density"),
    "table": ("each word by the table", "table"),
    "coordinates": ("coordinates are independent", ""),
    "pure": ("a function of its arguments", ""),
    "key": ("every bit of the key is used", ""),
    "edge": ("what an edge costs", ""),
    "graphs": ("whole graphs at once", "log_density sample_graph"),
    "curve": ("delta by the closed form", ""),
}
"""What each test asks, and the members that it needs; its answer is the method of its name."""


class Questions:
    """The questions about a mechanism that each user runs."""

    def __init__(
        self,
        mechanism: Any,
        draw_key: PRNGKey,
        trials: int,
        significance: float,
        records: Values | None = None,
    ) -> None:
        self.m = mechanism
        self.draw_key = draw_key
        self.trials = trials
        self.share = significance / _SHARED
        self.records = records
        self.guarantee = mechanism.guarantee()
        if not isinstance(self.guarantee, Guarantee):
            raise TypeError(
                f"guarantee() must return a Guarantee, got {type(self.guarantee).__name__}"
            )
        self.claim = self.guarantee.epsilon

    def table(self) -> list[Question]:
        """All questions, in order.

        A program that calls the host gets one question: it is not pure, and to compile it for many
        records would take hours. A grid whose reports lie beside its members gets one, too.
        """
        m = self.m
        try:
            hidden = unfollowed(m, m.domain().typical())
            atoms = None if hidden else getattr(m.codomain(), "atoms", None)
            beside = "" if atoms is None else _beside(atoms, self.typical[1])
        except Exception:  # the tests say what they meet
            hidden = beside = ""
        if beside:
            unasked = lambda _: Test(reason=beside)
            return [Question("sampler", _TESTS["sampler"][0], "", unasked)]
        return [
            Question(name, asked, needs, getattr(self, f"_{name}"))
            for name, (asked, needs) in _TESTS.items()
            if (name == "pure" or not hidden) and (name != "curve" or hasattr(m, "curve"))
        ]

    def not_shown(self) -> str:
        """Which leaks the game would not have found."""
        trials = affordable(self.m, self.trials)
        mass, of_one, pairs = smallest_leaks(trials, self.claim, 1 - self.share)
        if mass >= 1:
            return f"; beyond epsilon {self.claim:.3g} so few draws alone show nothing"
        return (
            f":\na report that its record alone gives is found where its mass is {mass:.1g},"
            f"\nor {of_one:.1g} if it is about one of the {pairs} pairs of records alone"
        )

    @functools.cached_property
    def typical(self) -> tuple[Report, Report]:
        """A record and draws of it: one batch for all tests that ask one record."""
        x = self.m.domain().typical()
        return x, draws(self.m, self.draw_key, x, self.trials)

    def _unit(self, _: PRNGKey) -> Test:
        g = self.guarantee
        domain = spaces(self.m)[0]
        if g.unit.rate is not None:
            raise NotApplicable(
                "a loss per unit of distance: the law is asked of any two records, however near"
            )
        now = self.m.guarantee()
        if now != g:
            return _answer(1.0, 0.0, False, f"guarantee() has changed to {now}")
        fits = g.unit == (NEIGHBOUR_LIST if domain.users else RECORD)
        named = [unit for unit, words in WORDS.items() if words == g.adjacency]
        if named:
            fits = fits and g.unit in named  # other words are the author's to answer for
        if not domain.all_adjacent:  # then the law was not asked of any two
            known = [domain.adjacency]
            if domain.users:
                known.append(WORDS[NEIGHBOUR_LIST])
            fits = fits and g.adjacency in known
        said = (
            f"a guarantee per {g.unit} ({g.adjacency}) about records of {self.m.domain()}, "
            f"which compares {domain.adjacency}"
        )
        return _answer(float(not fits), 0.0, fits, said)

    def _total(self, key: PRNGKey) -> Test:
        fit = is_total(self.m, key)
        return _fit(fit, "share of values", fit.draws)

    def _mass(self, _: PRNGKey) -> Test:
        answer = _fit(sums_to_one(self.m), "mass", 4)
        if answer.holds or getattr(self.m.codomain(), "breaks", self) is not None:
            return answer
        reason = "where a density jumps, Interval(..., breaks=...) must say so"
        return dataclasses.replace(answer, reason=reason)

    def _law(self, _: PRNGKey) -> Test:
        if self.guarantee.delta:
            return delta_of(self.m, self.claim, self.guarantee.delta)
        return _within(privacy_loss_supremum(self.m).epsilon, self.claim, SLACK, leak="loss 1e-9")

    def _sampler(self, key: PRNGKey) -> Test:
        if self.m.domain().users:
            fit = matches_density(self.m, key, trials=self.trials, significance=self.share)
        else:
            fit = fit_of(self.m, key, *self.typical, self.share)
        return _fit(fit, "distance", 1)

    def _records(self, key: PRNGKey) -> Test:
        many = {"trials": self.trials, "significance": self.share, "records": self.records}
        return _fit(matches_everywhere(self.m, key, **many), "share of records")

    def _game(self, key: PRNGKey) -> Test:
        given = {"delta": self.guarantee.delta, "records": self.records}
        bound = largest_lower_bound(self.m, key, self.trials, 1 - self.share, **given)
        mass, *_ = smallest_leaks(bound.trials, self.claim, 1 - self.share)
        leak = f"mass {mass:.1g}" if mass < 1 else "none"
        more = {"records": 2 * bound.pairs, "views": bound.views, "leak": leak}
        return _within(bound.epsilon, self.claim, reason=bound.event, **more)

    def _moments(self, _: PRNGKey) -> Test:
        return _fit(matches_moments(self.m), "relative", 4)

    def _estimates(self, _: PRNGKey) -> Test:
        return _fit(moments_of(self.m, *self.typical), "of a mean", 1)

    def _losses(self, key: PRNGKey) -> Test:
        if self.guarantee.delta:
            raise NotApplicable("losses beyond epsilon are what delta allows")
        trials = affordable(self.m, self.trials)
        return _fit(reported_losses(self.m, key, trials=trials), "mass", trials)

    def _windows(self, key: PRNGKey) -> Test:
        trials = max(affordable(self.m, self.trials), _WINDOWS)
        fit = record_windows(self.m, key, trials=trials, significance=self.share)
        return _fit(fit, "share", trials)

    def _distinct(self, _: PRNGKey) -> Test:
        return _fit(counted(self.m, *self.typical, self.share), "mass", 1)

    def _words(self, _: PRNGKey) -> Test:
        exact = self.guarantee.arithmetic == "exact"
        try:
            found = arithmetic(self.m).epsilon
            if exact and isinstance(self.m, HasWordRuns):
                check_runs(self.m)
        except NotApplicable as error:
            if not exact:
                raise
            reason = f"exact arithmetic is claimed and cannot be shown: {error}"
            return _answer(math.inf, self.claim, False, reason)
        limit = self.claim if exact else self.claim + ROUNDING
        return _within(found, limit, leak="a word beside a step")

    def _table(self, key: PRNGKey) -> Test:
        return _fit(follows_table(self.m, key, trials=self.trials), "mass", self.trials)

    def _coordinates(self, key: PRNGKey) -> Test:
        trials = affordable(self.m, min(self.trials, _FEW))
        fit = independent_coordinates(self.m, key, trials=trials, significance=self.share)
        return _fit(fit, "mean of a word")

    def _pure(self, key: PRNGKey) -> Test:
        fit = is_pure(self.m, key)
        return _fit(fit, "share of reports", fit.draws // 4)

    def _key(self, key: PRNGKey) -> Test:
        return _fit(uses_the_whole_key(self.m, key), "share of the keys")

    def _edge(self, _: PRNGKey) -> Test:
        m = self.m
        asked = []
        for reporting in getattr(m, "reportings", (None,)):
            if isinstance(m, HasBitLaw) or not hasattr(m, "relationship"):
                lost = relationship_supremum(m, reporting).epsilon
            else:  # where no law of a bit is known, a bit of the lists of those who report it
                made = dataclasses.replace(m, reporting=reporting)
                ends = 2 if reporting == "full" else 1
                lost = ends * privacy_loss_supremum(made).epsilon
            claimed = m.relationship(reporting)
            if claimed.unit != RELATIONSHIP or any_two(claimed.adjacency) == "any two":
                return _answer(1.0, 0.0, False, f"relationship() is not of one edge: {claimed}")
            asked.append((lost, claimed.epsilon))
        found, limit = max(asked, key=lambda pair: pair[0] / pair[1])
        return _within(found, limit, SLACK, leak="loss 1e-9")

    def _graphs(self, key: PRNGKey) -> Test:
        few = {"trials": min(self.trials, _FEW), "significance": self.share}
        return _fit(matches_graphs(self.m, key, **few), "share of users and graphs")

    def _curve(self, _: PRNGKey) -> Test:
        curve = self.m.curve()
        less = self.claim / 2
        # A curve is one number, and ledgers add it up: a point beside the claim tells one that is
        # too low.
        lost = hockey_stick(self.m, less)
        told = curve.delta(less)
        if lost > told * (1 + _QUADRATURE):
            return _answer(lost, told, False, f"at epsilon {less:g}")
        return _within(curve.delta(self.claim), self.guarantee.delta, leak="1e-3 of delta")


def delta_of(m: Exact, epsilon: float, claimed: float) -> Test:
    """Delta by two rules, the limit (their difference and 1e-3 over the claim), and the verdict."""
    coarse, found = (hockey_stick(m, epsilon, panels=panels) for panels in (64, 128))
    limit = claimed * (1 + _QUADRATURE) + abs(found - coarse)
    least = max(LEAST_DELTA, 10 * abs(found - coarse))
    if found <= limit and claimed < least:
        raise NotApplicable(
            f"a delta of {claimed:g} is below {least:.2g}, the least that quadrature shows here"
        )
    return _answer(found, limit, found <= limit, leak=f"delta {claimed * _QUADRATURE:.2g}")


def _of_release(
    m: CentralMechanism, promise: Guarantee, trials: int, significance: float
) -> list[Question]:
    """The questions about a curator's release, whose draws are made one after the other.

    Some thousands at most.
    """
    share = significance / 2

    def unit(_: PRNGKey) -> Test:
        stated = m.guarantee()  # of a chain's last state no less than of its stationary law
        of_an_edge = [
            g.unit == EDGE_CENTRAL and any_two(g.adjacency) == "two" for g in (stated, promise)
        ]
        fits = all(of_an_edge) and stated.epsilon >= promise.epsilon and promised(m) == promise
        return _answer(float(not fits), 0.0, fits, f"guarantee() says {stated}")

    def law(_: PRNGKey) -> Test:
        return _within(private_edge_supremum(m).epsilon, promise.epsilon, SLACK, leak="loss 1e-9")

    def sampler(key: PRNGKey) -> Test:
        half = min(trials, _RELEASES // 2)
        fit = matches_release(m, key, trials=half, significance=share)
        return _fit(fit, "total variation")

    def game(key: PRNGKey) -> Test:
        most = min(trials, _RELEASES, most_draws(m))
        found = private_edge_lower_bound(m, key, most, 1 - share).epsilon
        return _within(found, promise.epsilon, leak="loss 1.5 times the claim")

    return [
        Question("unit", "the unit is one private edge", "", unit),
        Question("law", "the loss about a private edge", "", law),
        Question("sampler", "the law is what is drawn", "", sampler),
        Question("game", "what draws alone show", "", game),
    ]
