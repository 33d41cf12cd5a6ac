"""What curators refuse: each message names the argument, and none tells a private edge."""

import re

import jax
import numpy as np
import pytest

from ldp_jax.curators import (
    BinnedPairs,
    CentralMechanism,
    EdgeRand,
    EdgeRR,
    EdgeSplit,
    LapGraph,
    PublicHRG,
    hrg,
    release,
    split_edges,
)
from ldp_jax.edges import privatize_graph
from ldp_jax.graph import graphs
from tests.curators.data import HIDDEN, MECHANISMS, every_mechanism, random_split

KEY = jax.random.key(0)
SPLIT = random_split(10, 10, 10, 8)
STACK = np.array([0.5, 1.0])


class Twice(CentralMechanism):
    """Releases a pair in both directions."""

    def guarantee(self):
        return EdgeRand(1.0).guarantee()

    def sample_pairs(self, key, split, memory=1e9):
        return np.array([[0, 1], [1, 0]])


def scored(pairs, score):
    m = BinnedPairs(1.0, score=lambda public: (pairs, score))
    return lambda: release(KEY, SPLIT, m)


MADE = {
    "public_weight": [
        lambda: EdgeRR(1.0, 1.0, public_weight=-0.1),
        lambda: PublicHRG(1.0, public_weight=np.inf),
    ],
    "sweeps": [lambda: EdgeRR(1.0, 1.0, sweeps=0), lambda: PublicHRG(1.0, sweeps=0)],
    "thresholds": [
        lambda: EdgeRR(1.0, 1.0, thresholds=(0.1, 0.0)),
        lambda: EdgeRR(1.0, 1.0, thresholds=(0.1, 0.1, 0.1)),
        lambda: EdgeRR(1.0, 1.0, thresholds=[0.1, 0.1]),
    ],
    "noise": [lambda: EdgeRR(1.0, 1.0, noise="gauss")],
    "chain": [
        lambda: EdgeRR(1.0, 1.0, chain="c"),
        lambda: EdgeRR(1.0, 1.0, published=True, chain="numba"),
    ],
    "epsilon_count": [lambda: LapGraph(0.0, 1.0), lambda: LapGraph(101.0, 1.0)],
    "epsilon_edges": [lambda: LapGraph(1.0, 0.0), lambda: LapGraph(1.0, 41.0)],
    "share": [lambda: EdgeRR.from_epsilon(1.0, share=1.0)],
    "chains": [lambda: EdgeRR(0.5, 0.5).measured(KEY, SPLIT, chains=1)],
    "bins": [lambda: BinnedPairs(1.0, bins=1)],
    "score": [
        lambda: BinnedPairs(1.0, score="adamic adar"),
        lambda: BinnedPairs(1.0, score=np.ones(45)),
        scored([[0, 1]], [1.0, 2.0]),
        scored([[0.5, 1]], [1.0]),
        scored([[0, 10]], [1.0]),
        scored([[3, 3]], [1.0]),
        scored([[0, 1]], [np.nan]),
        scored([[0, 1], [1, 0]], [1.0, 2.0]),
    ],
    "stack": [
        lambda m=m: release(KEY, SPLIT, m, chains=0)
        for m in (
            LapGraph(STACK, 1.0),
            BinnedPairs(STACK),
            EdgeRand(np.linspace(0.1, 1.0, 10)),  # one a node
            EdgeRR(STACK, 1.0),
            PublicHRG(STACK),
        )
    ],
    "twice": [lambda: privatize_graph(KEY, SPLIT.private, Twice())],
    "split": [lambda: release(KEY, SPLIT.private, BinnedPairs(1.0))],
    "num_nodes": [lambda: hrg.random_dendrogram(KEY, 1), lambda: hrg.sensitivity(0)],
    "threefry": [lambda: hrg.random_dendrogram(jax.random.key(0, impl="rbg"), 3)],
    "values": [lambda: hrg.r_hat(np.ones((2, 3)))],
    "rho": [
        lambda rho=rho: split_edges(KEY, SPLIT.private, rho)
        for rho in (0.0, 1.0, -0.1, 2.0, float("nan"), True)
    ],
}


@pytest.mark.parametrize("name", MADE)
def test_bad_arguments_are_refused_by_name(name, untyped):
    for call in MADE[name]:
        with jax.debug_key_reuse(False), pytest.raises(ValueError, match=name):
            call()


@every_mechanism
def test_what_is_refused_of_any_mechanism(name):
    split = random_split(30, 50, 25, 0, HIDDEN)
    m = MECHANISMS[name](4.0)
    both = graphs.GraphSet.from_edges([1, 0], [0, 1], [0, 0, 1], [0, 1])
    for call, said in (
        (lambda key: release(key, split, m, memory=1.0, chains=0), "memory"),
        (lambda _: release(jax.random.key(0, impl="rbg"), split, m), "threefry"),
        (lambda key: privatize_graph(key, both, m), "one graph"),
        (lambda key: privatize_graph(key, split.private, m, reporting="half"), "reporting"),
        *(
            (lambda _, wrong=wrong: MECHANISMS[name](wrong), r"epsilon\w* must be|must be finite")
            for wrong in (0.0, -1.0, float("nan"), float("inf"), 1e9)
        ),
    ):
        with pytest.raises(ValueError, match=said):
            call(jax.random.key(0))


PUBLIC = graphs.from_edges([[0, 1]], 4)
PRIVATE = graphs.from_edges([[2, 3]], 4)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((PUBLIC, PRIVATE, np.array([True, True, True, False])), "private_nodes"),
        ((PUBLIC, PRIVATE, np.ones(3, bool)), "private_nodes"),
        ((PUBLIC, PRIVATE, np.ones(4)), "private_nodes"),
        ((PRIVATE, PRIVATE), "no edge of public"),
        ((graphs.from_edges([], 5), PRIVATE), "private must be of 5 users"),
        ((PUBLIC, graphs.directed([2], [3], 4)), "private must be undirected"),
        ((PUBLIC, graphs.directed([9, 1], [1, 9], 4)), "private must be undirected"),
    ],
)
def test_a_split_is_refused_without_naming_an_edge(given, said, untyped):
    with pytest.raises(ValueError, match=said) as error:
        EdgeSplit(*given)
    assert not re.search(r"(?<!bool\[)\b[239]\b", str(error.value))
    assert error.value.__cause__ is None


def test_a_heavy_weight_of_public_edges_is_warned_of():
    with pytest.warns(UserWarning, match="public_weight"):
        EdgeRR(1.0, 1.0, public_weight=1.0)
    EdgeRR(1.0, 1.0, public_weight=0.99)
