"""What every mechanism on hyperbolic vectors and points must satisfy, at budgets of 1 and 16."""

import dataclasses

import jax
import numpy as np
import pytest

from ldp_jax import hyperbolic, verification
from ldp_jax.core import mechanism as protocol
from ldp_jax.verification import _programs
from ldp_jax.verification.cases import CASES, EPSILONS
from ldp_jax.verification.empirical import fit_of
from ldp_jax.verification.statistics import SIGNIFICANCE
from tests.contract import checks
from tests.marks import untyped

HYPERBOLIC = {name: case for name, case in CASES.items() if case.hyperbolic}
WITHOUT_GUARANTEE = {
    "PaperHyperbolicGaussian"
}  # to be measured: tests/hyperbolic/test_published.py
every_case = pytest.mark.parametrize("name", HYPERBOLIC)


def test_every_public_mechanism_is_in_this_suite():
    public = {n for n in hyperbolic.__all__ if hasattr(getattr(hyperbolic, n), "privatize")}
    assert public - WITHOUT_GUARANTEE == {case.public for case in HYPERBOLIC.values()}


@every_case
def test_protocol(name):
    m = HYPERBOLIC[name].make(1.0)
    assert isinstance(m, protocol.Mechanism)
    assert isinstance(m, protocol.HasDensity)
    checks.assert_documented(m)
    assert 0.999 < m.guarantee().epsilon <= 1.0
    assert 15.99 < HYPERBOLIC[name].make(np.float32(EPSILONS)).guarantee().epsilon <= 16.0
    checks.assert_proved(m.guarantee())
    assert m == HYPERBOLIC[name].make(1.0)
    other = HYPERBOLIC[name].make(2.0)
    assert m != other == dataclasses.replace(m, epsilon=2.0)
    assert type(jax.tree.map(lambda _: None, m)) is type(m)


@untyped
@every_case
def test_every_test_that_applies_holds(name):
    """The tests below ask the law, the sampler and the cheap ones alone."""
    verdict = verification.check(HYPERBOLIC[name].make(1.0), jax.random.key(0), trials=5_000)
    assert verdict, str(verdict)
    asked = {test.name for test in verdict.tests if test.holds}
    assert {"total", "mass", "law", "sampler", "game", "distinct", "pure", "key"} <= asked


@untyped
@every_case
def test_the_law_keeps_the_claim_and_is_drawn(name):
    """The density sums to 1 and loses the claim, which is the budget: delta to 1 %, epsilon to 1e-6
    of itself.
    """
    epsilon = EPSILONS[-1]
    m = HYPERBOLIC[name].make(epsilon)
    claim = m.guarantee()
    assert 0.999 * epsilon < claim.epsilon <= epsilon
    if claim.delta:
        assert verification.hockey_stick(m, claim.epsilon) == pytest.approx(claim.delta, rel=0.01)
    else:
        found = verification.privacy_loss_supremum(m)
        assert epsilon * (1 - 1e-6) < found.epsilon <= epsilon * (1 + 1e-9)
        assert found.searched <= found.epsilon
    x = checks.records(m)
    checks.assert_fits(verification.sums_to_one(m, x[3]))
    checks.assert_fits(verification.matches_density(m, jax.random.key(1), x[4], trials=20_000))


@untyped
def test_a_law_whose_mass_is_near_the_rim_is_followed():
    """At radius 8 half of the area is within 7e-4 of the rim; draws of another budget are seen."""
    other, m = (hyperbolic.HyperbolicExponential(epsilon, radius=8.0) for epsilon in (1.0, 16.0))
    rim = m.domain().extremes()[1]
    assert all(verification.sums_to_one(law, rim).statistic < 1e-9 for law in (other, m))
    key = lambda: jax.random.key(3)
    for x in rim, m.domain().typical():
        for drawn_by, fits in ((m, True), (other, False)):
            y = _programs.draws(drawn_by, key(), x, 20_000)
            assert fit_of(m, key(), x, y, SIGNIFICANCE).fits == fits


@pytest.mark.usefixtures("untyped")
@every_case
def test_numbers_of_the_host_of_any_size_are_records(name):
    """Every flag trapped: an exception would say what a record is."""
    m = HYPERBOLIC[name].make(1.0)
    numbers = ([10**400, -(10**400)], [True, float("nan")], [1e300, -1e-310], [7, -3])
    with np.errstate(all="raise"):
        for x in (*numbers, *map(np.array, numbers[2:])):
            assert np.isfinite(np.asarray(m.privatize(jax.random.key(4), x))).all()
