"""Mechanisms of a trusted curator: what they claim for one private edge, by enumeration and by
draws.
"""

import jax
import numpy as np
import pytest

from ldp_jax import curators, verification
from ldp_jax.accounting.guarantee import EDGE_CENTRAL
from ldp_jax.core.spaces import NotApplicable
from ldp_jax.curators import BinnedPairs, EdgeRand, EdgeRR, LapGraph, promised
from ldp_jax.verification import verdict
from ldp_jax.verification.cases import CASES
from tests import broken
from tests.contract import checks
from tests.marks import untyped

CURATORS = {name: case for name, case in CASES.items() if case.central}
every_curator = pytest.mark.parametrize("name", CURATORS)
NOT_MECHANISMS = {
    "CentralMechanism",
    "DendrogramLaw",
    "HasDendrogram",
    "EdgeSplit",
    "connections",
    "hrg",
}
NOT_MECHANISMS |= {"HasStationaryLaw", "promised", "release", "split_edges"}
ATTAINED = {"EdgeRand", "BinnedPairs", "PublicHRG"}


def test_every_curator_has_a_case():
    assert {case.public for case in CURATORS.values()} == set(curators.__all__) - NOT_MECHANISMS


@every_curator
def test_protocol(name):
    m = CURATORS[name].make(1.0)
    assert isinstance(m, curators.CentralMechanism)
    checks.assert_documented(m)
    spent = promised(m)
    assert (spent.trust, spent.unit) == ("central", EDGE_CENTRAL)


@untyped
@every_curator
@pytest.mark.parametrize("epsilon", [1.0, 16.0])
def test_what_an_edge_costs_is_at_most_the_claim(name, epsilon):
    """All graphs of four nodes and all releases; five nodes where there are dendrograms. Float64,
    to 1e-9.
    """
    m = CURATORS[name].make(epsilon)
    found = verification.private_edge_supremum(m)
    assert promised(m).epsilon == pytest.approx(epsilon, rel=1e-12)
    assert 0.5 * epsilon < found.epsilon <= epsilon * (1 + 1e-9)
    if name in ATTAINED:
        assert found.epsilon == pytest.approx(epsilon, rel=1e-9)
    assert found.edge not in found.graph
    assert not {found.edge, *found.graph} & set(found.public)


@pytest.mark.parametrize("epsilon", [0.1, 16.0])
def test_a_scale_without_its_two_is_seen(epsilon):
    """With counts of every node, more than all of the claim; tests/curators asks the
    dendrogram alone.
    """
    assert (
        verification.private_edge_supremum(EdgeRR.as_published(epsilon / 2, epsilon / 2)).epsilon
        > 1.5 * epsilon
    )


@untyped
def test_draws_follow_the_law_and_another_law_is_seen():
    """1 000 dendrograms of chains of 64 sweeps: total variation of 0.18; of 200 releases 0.41."""
    with jax.debug_key_reuse(False):  # which takes keys of a scan under vmap for used ones
        fit = verification.matches_release(
            CURATORS["EdgeRR"].make(4.0), jax.random.key(0), trials=1000
        )
        assert fit.fits, str(fit)
        twin = broken.HalfNoise(1.0)
        assert verification.private_edge_supremum(twin).epsilon <= 1.0 + 1e-9
        assert not verification.matches_release(twin, jax.random.key(2), trials=200).fits


@untyped
def test_one_verdict(monkeypatch):
    monkeypatch.setattr(verdict, "_RELEASES", 200)
    with jax.debug_key_reuse(False):  # as above
        found = verification.check(LapGraph(0.5, 0.5), jax.random.key(4), trials=1000)
    assert found, str(found)
    assert [test.name for test in found.tests] == ["unit", "law", "sampler", "game"]


@untyped
@pytest.mark.parametrize(
    "twin",
    [broken.AnyGraphs(1.0), broken.EdgesOfANode(1.0), broken.LessThanItsChain(0.5, 0.5, sweeps=8)],
)
def test_another_promise_than_of_one_edge_is_refused(twin):
    """Any two graphs, another unit, and less than the stationary law: each by its words, not by its
    law.
    """
    asked = verdict._of_release(twin, promised(twin), 1000, 1e-6)
    found = [verdict.ask(twin, question, jax.random.key(6)) for question in asked[:2]]
    assert [(test.name, test.holds) for test in found] == [("unit", False), ("law", True)]


@untyped
def test_a_promise_that_is_refused_by_its_words_is_refused_by_the_verdict(monkeypatch):
    def undrawn(*_, **__):
        raise NotApplicable("nothing is drawn here")

    for name in ("matches_release", "private_edge_lower_bound"):
        monkeypatch.setattr(verdict, name, undrawn)
    found = verification.check(broken.AnyGraphs(1.0), jax.random.key(6), trials=1000)
    assert [test.name for test in found.refused] == ["unit"], str(found)
    assert not found


@pytest.mark.slow
@untyped
def test_raw_pairs_of_a_long_chain_are_refused():
    """131 releases of each graph show a loss of 1.35; at 8 000 sweeps no game was played, and none
    was missed.
    """
    with jax.debug_key_reuse(False):  # as above
        found = verification.check(broken.RawPairs(1.0), jax.random.key(7), trials=1000)
    assert [test.name for test in found.refused] == ["game"], str(found)


def test_what_cannot_be_asked_is_said():
    key = jax.random.key(5)
    with pytest.raises(NotApplicable, match="noise must be geometric"):
        verification.private_edge_supremum(BinnedPairs(1.0, noise="laplace"))
    with pytest.raises(NotApplicable, match="has no known law"):
        verification.matches_release(EdgeRR.as_published(1.0, 1.0), key)
    with pytest.raises(NotApplicable, match="sweeps must be at most 262 for 4000 draws, got 8000"):
        verification.private_edge_lower_bound(EdgeRR(1.0, 1.0), key)
    assert np.isfinite(verification.private_edge_supremum(EdgeRand(40.0)).epsilon)
