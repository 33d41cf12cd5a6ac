"""What is refused: each message names the argument, and none tells a private edge."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from ldp_jax import edges, verification
from ldp_jax.edges import (
    DPRR,
    LocalLap,
    NeighbourCounts,
    NeighbourList,
    NoisyDegree,
    Population,
    RandomizedResponse,
    _one_by_one,
    degree_prior,
    ownership,
    posterior_links,
    privatize_counts,
    privatize_graph,
    public_part,
)
from ldp_jax.features import Laplace
from ldp_jax.graph import graphs
from ldp_jax.graph.graphs import GraphSet
from tests.edges.small import EDGES, Coin, N

KEY = jax.random.key(0)
GRAPH = graphs.from_edges(EDGES, N)
LIST = NeighbourList.of([1], N)
COUNTS = NeighbourCounts(1.0, 3)
HALF = NeighbourCounts(1.0, 3, reporting="half")
PRIOR = degree_prior(np.arange(N))
STACK = np.array([0.5, 1.0])
BEYOND = jax.tree.map(lambda leaf: 2 * leaf, RandomizedResponse(30.0))
BOTH_LISTS = NeighbourList(np.array([[4, 6], [5, 6]]), np.ones(2, int))

TURNED = pd.Series([True, *[False] * (N - 1)], index=np.arange(N)[::-1])
"""The last user's, as its index says; the first one's by place."""
IN_PART = pd.Series([0, *[1] * (N - 1)], index=np.arange(N)[::-1])
SOME = pd.Series([2.0, *[0.01] * (N - 1)], index=np.arange(N)[::-1])

MADE = {
    "must be in the order of nodes": [
        lambda: privatize_graph(KEY, GRAPH, NoisyDegree(1.0), public=TURNED),
        lambda: public_part(GRAPH, TURNED),
        lambda: privatize_counts(KEY, GRAPH, COUNTS, IN_PART),
        lambda: privatize_counts(KEY, GRAPH, COUNTS, np.zeros(N, int), reporters=TURNED),
        lambda: privatize_counts(KEY, GRAPH, [COUNTS, COUNTS], np.zeros(N, int), levels=IN_PART),
    ],
    "must be in order, and the index": [
        lambda: privatize_graph(KEY, GRAPH, RandomizedResponse(SOME)),
        lambda: NoisyDegree(SOME),
    ],
    "epsilon_degree": [
        lambda: DPRR(0.0, 1.0),
        lambda: LocalLap(100.1, 1.0),
    ],
    "epsilon_edges": [
        lambda: LocalLap(1.0, -1.0),
        lambda: DPRR(1.0, 40.1),
    ],
    "alpha": [
        lambda: DPRR.as_published(1.0, 40, alpha=0.0),
        lambda: DPRR.as_published(1.0, 40, alpha=1.1),
    ],
    "epsilon": [
        lambda: RandomizedResponse(math.nan),
        lambda: RandomizedResponse(40.1),
        lambda: NeighbourCounts(0.0005, 2),
        lambda: DPRR.from_epsilon(0.64, 20),
        BEYOND.guarantee,
        lambda: jax.jit(lambda e: NoisyDegree(e).guarantee().epsilon)(1.0),
        lambda: jax.vmap(lambda e: NeighbourCounts(e, 3).add_noise(KEY, [1, 2, 3]))(jnp.ones(2)),
        lambda: posterior_links(GRAPH, PRIOR, 41.0),
        lambda: edges.private_links(KEY, GRAPH, 60.0),
    ],
    "graph must have at least 3 nodes": [
        lambda: edges.private_links(KEY, graphs.from_edges([[0, 1]], 2), 1.0),
    ],
    "n ": [
        lambda: RandomizedResponse(1.0, n=0),
        lambda: LocalLap(0.5, 0.5).domain(),
        lambda: NeighbourCounts(1.0, 2, groups=[0, 1]),
    ],
    "noise": [
        lambda: DPRR(1.0, 1.0, noise="normal"),
        lambda: NoisyDegree(0.25, noise="geometric").add_noise([1.0], [1], [5]),
    ],
    "reporting": [
        lambda: NoisyDegree(1.0, reporting="half list"),
        lambda: LocalLap(0.5, 0.5).relationship("full"),
        lambda: privatize_graph(KEY, GRAPH, DPRR(0.5, 0.5), reporting="quarter"),
        lambda: privatize_graph(KEY, GRAPH, Coin(1.0), reporting="half list"),
    ],
    "prior": [
        lambda: DPRR(1.0, 1.0, prior=[-1.0, 2.0]),
        lambda: DPRR(1.0, 1.0, prior=[0.0, 0.0]),
        lambda: DPRR(1.0, 1.0, prior=[1.0, math.inf]),
        lambda: DPRR(1.0, 1.0, prior=[1e37] * 4000),  # of infinite sums, and an empty report
    ],
    "share": [
        lambda: LocalLap.from_epsilon(1.0, 1.0),
        lambda: edges.private_links(KEY, GRAPH, 1.0, degree_share=1.0),
    ],
    "num_groups": [lambda: NeighbourCounts(1.0, 0)],
    "groups": [
        lambda: NeighbourCounts(1.0, 2, n=3, groups=[0.0, 1.0, 1.0]),
        lambda: NeighbourCounts(1.0, 2, n=N).privatize(KEY, LIST, groups=np.arange(N)),
        lambda: NeighbourCounts(1.0, 2, n=N).privatize(KEY, LIST),
        lambda: privatize_counts(KEY, GRAPH, COUNTS, [0, 1]),
    ],
    "mechanism": [
        lambda: privatize_graph(KEY, GRAPH, Laplace(1.0)),
        lambda: privatize_counts(KEY, GRAPH, DPRR(0.1, 0.9), [0] * N),
        lambda: privatize_counts(KEY, GRAPH, [COUNTS, HALF], [0] * N, levels=[0] * N),
        lambda: jax.jit(
            lambda e: privatize_graph(KEY, GRAPH, RandomizedResponse(e)).degree,
        )(1.0),
    ],
    "levels": [
        lambda: privatize_counts(KEY, GRAPH, [COUNTS] * 2, [0] * N),
        lambda: privatize_counts(KEY, GRAPH, [COUNTS] * 2, [0] * N, levels=np.arange(N)),
    ],
    "owners": [
        lambda: privatize_counts(KEY, GRAPH, HALF, [0] * N, owners=ownership(np.ones(N))),
        lambda: privatize_counts(KEY, GRAPH, COUNTS, [0] * N, owners=ownership(np.ones(5))),
        lambda: privatize_counts(
            KEY,
            GRAPH,
            COUNTS,
            [0] * N,
            reporters=np.ones(N, bool),
            owners=ownership(np.ones(N), np.arange(N) < 2),
        ),
    ],
    "confidence": [lambda: ownership([1.0, np.nan])],
    "silent": [lambda: ownership([1.0], silent=[True])],
    "key": [
        lambda: privatize_graph(jax.random.key(0, impl="rbg"), GRAPH, DPRR(0.5, 0.5)),
        lambda: jax.vmap(lambda key: privatize_graph(key, GRAPH, DPRR(0.5, 0.5)).degree)(
            jax.random.split(KEY, 2)
        ),
    ],
    "graph": [
        lambda: privatize_graph(
            KEY, GRAPH._replace(n_node=np.array([3, 3]), n_edge=np.array([10, 0])), DPRR(0.5, 0.5)
        ),
        lambda: jax.jit(lambda graph: privatize_graph(KEY, graph, DPRR(0.5, 0.5)).degree)(GRAPH),
        lambda: jax.jit(lambda graph: privatize_counts(KEY, graph, COUNTS, [0] * N).counts)(GRAPH),
    ],
    "public": [lambda: privatize_graph(KEY, GRAPH, DPRR(0.5, 0.5), public=np.zeros(5, bool))],
    "memory": [
        lambda: privatize_graph(KEY, GRAPH, RandomizedResponse(0.5), memory=10.0),
        lambda: privatize_graph(KEY, GRAPH, LocalLap(100.0, 0.5), memory=100.0),
        lambda: privatize_graph(KEY, GRAPH, Coin(1.0), memory=16.0),
        lambda: edges.private_links(KEY, GRAPH, 1.0, memory=10.0),
    ],
    "budgets": [
        lambda: privatize_graph(KEY, GRAPH, LocalLap(np.full(N, 0.5), 0.5)),
        *(
            lambda m=m: privatize_graph(KEY, GRAPH, m)
            for budget in (np.ones(5), np.ones((N, 1)), np.ones(1))
            for m in (RandomizedResponse(budget), DPRR(0.5, budget))
        ),
    ],
    "stack": [
        lambda: LocalLap(STACK, 0.5, n=N).privatize(KEY, LIST),
        lambda: _one_by_one.sample(KEY, Coin(STACK), Population.of(GRAPH), 1e9),
        lambda: verification.privacy_loss_supremum(RandomizedResponse(STACK, n=N)),
    ],
    "own": [
        lambda own=own: DPRR(0.5, 0.5, n=N).privatize(KEY, LIST, own)
        for own in (-1, N, 10**12, 0.0, True, None, [1], np.arange(2))
    ],
    "neighbours": [
        lambda m=m: m(1.0, n=N).privatize(KEY, BOTH_LISTS)
        for m in (RandomizedResponse, NoisyDegree)
    ],
    "degree": [
        lambda: degree_prior([1.0, 2.0]),
        lambda: degree_prior([[1.0, 2.0, 3.0]]),
        lambda: degree_prior([1.0, np.nan, 2.0]),
        lambda: degree_prior(np.ma.array([1.0, 9.0, 2.0], mask=[0, 1, 0])),
    ],
    "variant": [lambda: posterior_links(GRAPH, PRIOR, 1.0, "firm")],
    "bits": [lambda: posterior_links(graphs.from_edges([], 5), PRIOR, 1.0)],
    "2 to 64 nodes": [lambda: verification.privacy_loss_supremum(DPRR(0.5, 0.5, n=65))],
    "got one twice": [
        lambda: verification.epsilon_lower_bound(DPRR(0.5, 0.5, n=N), KEY, x=LIST, x_other=LIST)
    ],
}


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("name", MADE)
def test_bad_arguments_are_refused_by_name(name):
    for call in MADE[name]:
        with jax.debug_key_reuse(False), pytest.raises(ValueError, match=name):
            call()


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    "m",
    [
        RandomizedResponse(1.0, n=N),
        LocalLap(1.0, 1.0, n=N),
        NeighbourCounts(1.0, 2, n=N, groups=np.arange(N) % 2),
    ],
    ids=repr,
)
def test_bare_ids_are_refused_by_their_type_alone(m):
    """Two were read as one id and a length, and of others the error told how many there are."""
    said = set()
    for ids in ([], [4], [4, 5], (4, 5), np.array([4, 5]), {4, 5}):
        with pytest.raises(TypeError, match="neighbours must be") as caught:
            m.privatize(KEY, ids, 0)
        said.add(str(caught.value).replace(type(ids).__name__, ""))
    assert len(said) == 1


BAD = [
    graphs.directed([0], [1], 3),
    graphs.directed([0, 7], [7, 0], 3),
    graphs.directed([0, 0, 1, 1], [1, 1, 0, 0], 3),
    graphs.directed([0, 0], [0, 0], 3),
    graphs.directed([0, 1], [1], 3),
    GraphSet(*map(np.array, ([2, 3], [3, 2], [0, 0, 0, 1, 1, 1], [0, 1]))),  # two graphs, joined
    GraphSet.from_edges([3], [2], [0, 0, 1, 1], [0, 1]),
]


@pytest.mark.usefixtures("untyped")
def test_a_bad_graph_is_refused_without_its_edges():
    """One sentence for all of them, in the whole chain of exceptions."""
    asked = [lambda graph=graph: privatize_graph(KEY, graph, DPRR(0.5, 0.5)) for graph in BAD]
    messages = set()
    for call in [*asked, lambda: public_part(BAD[0], [True, True, False])]:
        with pytest.raises(ValueError, match="graph must be undirected") as caught:
            call()
        messages.add(str(caught.value))
        assert caught.value.__cause__ is caught.value.__context__ is None
    (said,) = messages
    assert not any(character.isdigit() for character in said)
