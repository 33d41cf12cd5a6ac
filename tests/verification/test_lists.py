"""Spaces of neighbour lists answer what verification asks, so that one verdict serves mechanisms on
lists too.
"""

import itertools
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import verification
from ldp_jax.core.mechanism import mechanism
from ldp_jax.core.spaces import Records, Reports
from ldp_jax.edges import ListReport, NeighbourList, RandomizedResponse
from ldp_jax.edges.lists import nodes_of, stacked, to_bits, to_list
from ldp_jax.edges.spaces import Lists
from tests.marks import untyped

N = 6  # as in test_contract.py, with which it shares its programs
ASKED = {
    "total",
    "mass",
    "law",
    "sampler",
    "game",
    "losses",
    "distinct",
    "pure",
    "key",
    "edge",
    "graphs",
}


@untyped
def test_one_verdict_on_lists():
    """Every test that is a matter of lists is asked; laws of degrees have theirs in tests/edges."""
    m = RandomizedResponse(1.0, n=N)
    assert isinstance(m.domain(), Records)
    assert isinstance(m.codomain(), Reports)
    verdict = verification.check(m, jax.random.key(0), trials=2000)
    assert verdict, str(verdict)
    asked = {test.name for test in verdict.tests if test.holds is not None}
    assert asked == ASKED | {"unit", "records"}
    assert re.search("^records +32 +share of records 0[.][0-9]+", str(verdict["records"]))
    assert verdict["law"].found == pytest.approx(verdict["law"].limit, rel=1e-9)
    assert verdict["edge"].found == pytest.approx(verdict["edge"].limit, rel=1e-9)


@mechanism
class Trusting(RandomizedResponse):
    """Says what is no node as if it were the last one."""

    def privatize(self, key: Any, neighbours: Any, own: Any = 0) -> Any:
        ids = jnp.clip(jnp.nan_to_num(neighbours.ids), 0, self.n)
        bits = to_bits(
            NeighbourList(jnp.where(neighbours.ids > self.n, self.n - 1, ids), None), self.n
        )
        return ListReport(jnp.float32(jnp.nan), to_list(bits & (jnp.arange(self.n) != own)))


def test_a_mechanism_that_trusts_its_lists_is_seen():
    assert not verification.is_total(Trusting(1.0, n=N), jax.random.key(0)).fits


@pytest.mark.parametrize("own", [0, 2])
def test_lists_know_themselves(own):
    space = Lists(6, own)
    rng = np.random.default_rng(0)
    x, other = space.neighbours(rng, 500)
    for lists in (
        space.sample(rng, 500),
        x,
        other,
        space.critical_records(),
        stacked(space.extremes()),
    ):
        assert space.contains(lists).all()
    assert space.adjacent(x, other).all()
    assert not space.adjacent(x, x).any()
    assert not space.all_adjacent
    pairs = zip(_each(x), _each(other), strict=True)
    flipped = [set(nodes_of(a)) ^ set(nodes_of(b)) for a, b in pairs]
    assert {node for (node,) in flipped} == set(range(6)) - {own}
    degrees = _each(space.critical_records())
    assert [int(one.count) for one in degrees] == list(range(6))
    pairs = [*itertools.pairwise(degrees), space.extremes()]
    assert all(space.adjacent(stacked([a]), stacked([b])) for a, b in pairs)


def _each(lists: Any) -> list[NeighbourList]:
    return [NeighbourList(*x) for x in zip(*lists, strict=True)]


def test_what_is_no_list():
    space = Lists(4, own=1)
    bad = [
        [0, 1, 4, 4],
        [2, 0, 4, 4],
        [2, 2, 4, 4],
        [0, 2, 9, 9],
        [-1, 2, 4, 4],
        [0, 2, 3, 4],
        [0, 2, 4, 4],
    ]
    lists = NeighbourList(np.array(bad, np.int32), np.full(7, 2, np.int32))
    assert space.contains(lists).tolist() == [False] * 6 + [True]
    with pytest.raises(ValueError, match="6 of 7 records do not"):
        space.validate(lists)
    strange, meant = space.outside()
    assert not space.contains(strange).any()
    assert space.contains(meant).all()
    assert [nodes_of(x) for x in _each(meant)] == [()] * 8 + [(0, 2, 3), (3,)]
    assert nodes_of(space.clip(NeighbourList.of([0, 1, 3], 4))) == (0, 3)
