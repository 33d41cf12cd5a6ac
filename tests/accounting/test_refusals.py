"""What accounting refuses, and which argument it names: one table."""

import math
from fractions import Fraction

import numpy as np
import pytest

from ldp_jax.accounting import composition, gaussian
from ldp_jax.accounting.gaussian import GaussianCurve
from ldp_jax.accounting.guarantee import (
    EDGE_CENTRAL,
    NEIGHBOUR_LIST,
    RECORD,
    RELATIONSHIP,
    Budget,
    Guarantee,
    PipelineGuarantee,
    Unit,
    metric,
)
from ldp_jax.accounting.ledger import Ledger, Release
from ldp_jax.accounting.shuffle import amplified, clone_share
from ldp_jax.accounting.statement import Account, Cost, Role, Statement
from ldp_jax.core.rounding import add_up, share
from tests.accounting.parts import proved

HUGE = 10**400
ANY = math.nan, -1.0, "1", True, None
COUNTS = 0, 2.0, True, "2", None
ONE = GaussianCurve(1.0)
LOCAL = proved(1.0)
DELTA = Guarantee(1.0, delta=1e-4)
RATE = Guarantee(1.0, unit=metric(1.0))
BIT = proved(1.0, unit=NEIGHBOUR_LIST)
ONCE = Cost(LOCAL)
UNSAID = Release("curve", ONE), Release("other", LOCAL)
GRAPH = PipelineGuarantee((BIT,), ("edges",), ("labels",))
ORDERED = proved(1.0, adjacency="two hours that follow each other")


def shuffled(guarantee=LOCAL, users=100, delta=1e-6, reports="anonymous", clones=None):
    return amplified(guarantee, users, delta, reports=reports, clones=clones)


def spend(cost, **more):
    return Ledger().spend("x", cost, **more)


REFUSED = [
    # Guarantees and budgets.
    ("epsilon must be", Guarantee, (*ANY, -5e-324, 1j, [1.0], np.True_, np.array([1.0]), HUGE)),
    ("delta must be", lambda bad: Guarantee(1.0, bad), (*ANY, 1.5, math.inf, HUGE)),
    ("budget's epsilon per record must be", Budget, (*ANY, 1j, [1.0], np.True_, math.inf, HUGE)),
    ("budget's delta per record must be", lambda bad: Budget(1.0, bad), (*ANY, 1.0, math.inf)),
    ("unit must be a Unit", lambda bad: Guarantee(1.0, unit=bad), ("record", None)),
    ("unit must be a Unit", lambda bad: GRAPH[bad], ("record",)),
    ("adjacency must say", lambda bad: Guarantee(1.0, unit=bad), (Unit("household"),)),
    ("status must be one of", lambda bad: Guarantee(1.0, status=bad), ("Proved", None)),
    ("arithmetic must be one of", lambda bad: Guarantee(1.0, arithmetic=bad), ("float",)),
    ("trust must be one of", lambda bad: proved(1.0, trust=bad), ("global",)),
    ("trust must be", lambda bad: proved(1.0, unit=NEIGHBOUR_LIST, trust=bad), ("central",)),
    ("trust must be", lambda bad: proved(1.0, unit=bad, trust="shuffled"), (RELATIONSHIP,)),
    ("reason must", lambda bad: Guarantee(0.1, status="proved", reason=bad), ("", " \n")),
    ("reason must", lambda bad: Guarantee(0.1, status=bad), ("in the limit",)),
    ("name of a unit must", Unit, ("", " ", None, 3)),
    ("rate must be", metric, (-1.0, math.nan, "1", True)),
    ("write metric", lambda bad: Unit(*bad), (("metric",), ("household", 1.0))),
    ("guarantees must", PipelineGuarantee, ((Guarantee(1.0), Guarantee(2.0)), (1.0,))),
    ("protected must", lambda bad: PipelineGuarantee((), bad), ("edges", [3], [""])),
    ("unprotected: a", lambda bad: PipelineGuarantee((), bad, ("a",)), (("a", "b"),)),
    # Sums.
    ("epsilon must be", lambda bad: add_up([1.0, bad]), (-0.5, math.nan, "1", True, None, HUGE)),
    ("times must be", lambda bad: add_up([0.5], bad), COUNTS),
    ("times must be", LOCAL.repeated, COUNTS),
    ("parts must be", lambda bad: share(0.5, bad), COUNTS),
    ("one unit", lambda bad: composition.sequential(DELTA, bad), (BIT,)),
    ("one unit", lambda bad: composition.parallel(DELTA, bad), (BIT,)),
    ("at least one", lambda bad: composition.sequential(*bad), ((),)),
    ("at least one", lambda bad: composition.joint(*bad, adjacency="words"), ((),)),
    ("k must be", lambda bad: composition.sampled(DELTA, bad, 3), (0, 4, True, 1.5, HUGE)),
    ("dim must be", lambda bad: composition.sampled(DELTA, 1, bad), (0,)),
    ("needs the unit", composition.relationship, (DELTA, RATE, proved(1.0, unit=EDGE_CENTRAL))),
    ("per unit of distance", lambda bad: composition.joint(bad, adjacency="words"), (RATE,)),
    ("per unit of distance", lambda bad: composition.advanced(bad, 2, 0.1), (RATE,)),
    ("per unit of distance", lambda bad: composition.sampled(bad, 2, 5), (RATE,)),
    ("adjacency must", lambda bad: composition.joint(DELTA, adjacency=bad), (" ",)),
    ("delta must", lambda bad: composition.advanced(DELTA, 2, bad), (-0.1, 1.0, math.nan, 1e-4)),
    ("epsilon of", lambda bad: composition.advanced(bad, 2, 0.1), (Guarantee(math.inf),)),
    ("times must be", lambda bad: composition.advanced(DELTA, bad, 0.1), (HUGE, 10**12)),
    # Gaussian noise.
    ("mu must be", GaussianCurve, (*ANY, math.inf, HUGE, b"1")),
    ("sensitivity must", lambda bad: GaussianCurve.of(bad, 1.0), (*ANY, math.inf, HUGE)),
    ("sigma must be", lambda bad: GaussianCurve.of(1.0, bad), (*ANY, math.inf, 0.0)),
    ("mu must be", lambda bad: GaussianCurve.of(1.0, bad), (5e-324,)),
    ("delta must be", ONE.epsilon, (*ANY, math.inf, 0.0, 1.0, 1.5)),
    ("delta must be", ONE.guarantee, (*ANY, 0.0, 1.0)),
    ("adjacency must say", lambda bad: ONE.guarantee(1e-6, bad), (metric(2.0),)),
    ("epsilon must be", ONE.delta, (*ANY, b"1", 1j, [True], [1, "2"], HUGE)),
    ("times must be", ONE.repeated, COUNTS),
    ("mu must be", ONE.repeated, (HUGE**2,)),
    ("mu must be", lambda bad: GaussianCurve(bad).compose(GaussianCurve(bad)), (1e300,)),
    ("epsilon must be", lambda bad: gaussian.gaussian_sigma(bad, 1e-5), (*ANY, HUGE, 1e10)),
    ("delta must be", lambda bad: gaussian.gaussian_sigma(1.0, bad), (*ANY, 0.0, 1.0)),
    ("sensitivity must", lambda bad: gaussian.gaussian_sigma(1.0, 0.1, bad), (*ANY, 0.0)),
    ("sensitivity / mu", lambda bad: gaussian.gaussian_sigma(1e-9, 1e-300, bad), (1e308,)),
    # Shuffling.
    ("reports must be", lambda bad: shuffled(reports=bad), ("by user", "mixed")),
    ("needs the unit record", shuffled, (BIT, RATE)),
    ("trust of guarantee", shuffled, (proved(1.0, trust="central"),)),
    ("without delta", shuffled, (proved(1.0, delta=1e-9),)),
    ("epsilon of guarantee", shuffled, (proved(math.inf),)),
    ("between any two records", shuffled, (ORDERED,)),
    ("users must be", lambda bad: shuffled(users=bad), (0, 2.0)),
    ("delta must be", lambda bad: shuffled(delta=bad), (0.0, 1.0)),
    ("clones must be", lambda bad: shuffled(clones=bad), (1.5, 0.54, -0.1, "1", [0.1])),
    ("of two inputs", clone_share, ([[1.0, 2.0]], [1.0, 1.0], [[[1.0]], [[1.0]]], [])),
    ("finite and >= 0", clone_share, ([[2.0, -1.0], [0.0, 1.0]], [[-1.0, 0.0], [-1.0, 0.0]])),
    ("finite and >= 0", clone_share, ([[math.nan, 1.0], [0.5, 0.5]], [[math.inf], [math.inf]])),
    ("rows of one sum > 0", clone_share, ([[1, 9], [5, 4]], [[0.0, 0.0], [0.0, 0.0]])),
    # Ledgers.
    ("budget's epsilon per record", Ledger, ("1.0", True, math.nan, -1.0, 1j, [None], math.inf)),
    ("budget must be a Budget", Ledger, (Guarantee(1.0), [proved(1.0)], GRAPH, ONE)),
    ("each unit once", Ledger, ([Budget(1.0), Budget(2.0)],)),
    ("no budget per", Ledger(1.0).remaining, (RELATIONSHIP,)),
    ("must cost a Guarantee", spend, (1.0, None, "x", Budget(1.0), lambda: proved(0.5))),
    ("no unit", spend, (PipelineGuarantee(()),)),
    ("a curve needs a delta", spend, (ONE,)),
    ("release 'curve': with no", lambda bad: Ledger(releases=bad), (UNSAID,)),
    ("delta must be", lambda bad: spend(ONE, delta=bad), (math.nan, 0.0, "1e-6", True, [1e-6])),
    ("say in words", lambda bad: spend(ONE, delta=1e-6, unit=bad), (metric(1.0),)),
    ("says its own", lambda bad: spend(LOCAL, **bad), ({"delta": 0.1}, {"unit": RECORD})),
    ("says its own", lambda bad: spend(GRAPH, adjacency=bad), ("words",)),
    ("says its own", lambda bad: Release("x", LOCAL, bad, "words"), (RELATIONSHIP,)),
    ("protects must be", lambda bad: spend(LOCAL, protects=bad), ("edges", [3])),
    ("protects", lambda bad: spend(GRAPH, protects=bad), (["edges", "labels"],)),
    ("both protects and", lambda bad: spend(GRAPH, exposes=bad), (["edges"],)),
    ("name must say", lambda bad: Ledger().spend(bad, Guarantee(1.0)), ("", " ", None, 3)),
    # Statements.
    ("must name an answer", lambda bad: Statement.of(bad), ([],)),
    ("times must be", lambda bad: Cost(LOCAL, times=bad), COUNTS),
    ("pair must be", lambda bad: Cost(LOCAL, bad), (LOCAL, proved(1.0, unit=RELATIONSHIP))),
    ("pair must be", lambda bad: Cost(BIT, bad), (LOCAL, BIT)),
    ("delta must be", lambda bad: Cost(LOCAL, curve=bad), (ONE,)),
    (
        "who of a role",
        lambda bad: Account.of(Statement.of(bad), 2),
        (Role((ONCE,), np.ones(3) > 0),),
    ),
]


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("row", range(len(REFUSED)), ids=lambda row: f"{row} {REFUSED[row][0]}")
def test_what_is_out_of_range_is_refused_by_name(row):
    words, call, wrong = REFUSED[row]
    for bad in wrong:
        with pytest.raises((ValueError, KeyError), match=words):
            call(bad)


@pytest.mark.usefixtures("untyped")
def test_what_is_in_range_is_taken():
    assert clone_share([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]) == 0.0
    for budget in (1, np.float32(1.0), Budget(1.0), [Budget(1.0)], Fraction(1)):
        assert Ledger(budget).budgets == (Budget(1.0),)
    assert Ledger(()).budgets == Ledger([]).budgets == Ledger().budgets == ()


@pytest.mark.usefixtures("untyped")
def test_a_budget_is_no_guarantee():
    assert Budget(1.0) != Guarantee(1.0)
    for add in (lambda: Budget(1.0) + Guarantee(1.0), lambda: Guarantee(1.0) + Budget(1.0)):
        with pytest.raises(TypeError):
            add()
