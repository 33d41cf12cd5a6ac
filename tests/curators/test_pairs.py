"""Mechanisms that need no dendrogram: EdgeRand, LapGraph, BinnedPairs; their laws, and what an edge
can change.
"""

import itertools
from unittest import mock

import jax
import networkx as nx
import numpy as np
import pytest

from ldp_jax.curators import BinnedPairs, EdgeRand, LapGraph, binned_pairs, release
from ldp_jax.graph import graphs
from tests.curators.data import random_split
from tests.stats import assert_g, assert_share


def released(m, split, seed):
    """Codes of the released pairs."""
    pairs = split.pairs()
    found = m.sample_pairs(jax.random.key(seed), split)
    place = np.searchsorted(pairs.nodes, found)
    return pairs.codes(place)


def test_edge_rand_flips_each_pair_with_its_probability():
    """True and false pairs of 400 nodes, exactly (binomial tails): 1 / (e^2 + 1) = 0.119, off by
    0.013 is found.
    """
    split = random_split(400, 1000, 20_000, 0)
    pairs = split.pairs()
    found = released(EdgeRand(2.0), split, 0)
    assert len(np.unique(found)) == len(found)
    assert not np.isin(found, pairs.public).any()
    flip = 1 / (np.exp(2.0) + 1)
    true = int(np.isin(found, pairs.private).sum())
    assert_share(20_000 - true, 20_000, flip)
    assert_share(len(found) - true, pairs.candidates - 20_000, flip)
    assert EdgeRand(2.0).guarantee().epsilon == pytest.approx(np.log((1 - flip) / flip))


def naive_lap_graph(rng, m, true, candidates, count):
    """T and how many private edges are released, by noise on every cell; [count, 2]."""
    total = np.rint(true + rng.laplace(0, 1 / m.epsilon_count, count)).clip(0, candidates)
    cells = rng.laplace(0, 1 / m.epsilon_edges, (count, candidates))
    cells[:, :true] += 1
    rank = np.argsort(np.argsort(-cells, 1), 1)
    return np.stack([total, (rank[:, :true] < total[:, None]).sum(1)], 1)


def test_lap_graph_has_the_law_of_noise_on_every_cell():
    """40 releases and 1 000 by noise on all 530 cells: T and the kept ones of 120 edges, 5 standard
    errors (6).

    With 1.3 times the budget of the edges 13 more are kept.
    """
    split = random_split(35, 65, 120, 1)
    pairs = split.pairs()
    m = LapGraph(0.2, 2.0)
    drawn = [released(m, split, seed) for seed in range(40)]
    for codes in drawn:
        assert len(np.unique(codes)) == len(codes)
        assert not np.isin(codes, pairs.public).any()
    found = np.array([[len(codes), np.isin(codes, pairs.private).sum()] for codes in drawn])
    rng = np.random.default_rng(0)
    for made, alike in ((m, True), (LapGraph(0.2, 2.6), False)):
        naive = naive_lap_graph(rng, made, 120, pairs.candidates, 1000)
        off = np.abs(found.mean(0) - naive.mean(0)) / naive.std(0) * np.sqrt(40)
        assert (off < 5).tolist() == [True, alike]


def bins_of(m, split):
    """The bin of each pair that may be private, by its code."""
    codes, sizes = m.ranked(split)
    pairs = split.pairs()
    n = len(pairs.nodes)
    low, high = np.triu_indices(n, 1)
    place = np.full(n * n, len(sizes) - 1)
    place[codes] = np.repeat(np.arange(len(sizes)), sizes)[: len(codes)]
    free = np.setdiff1d(low * n + high, pairs.public)
    return place, free, sizes


def test_the_count_of_a_lap_graph_gets_a_share_of_the_budget():
    for share, given in ((0.01, ()), (0.25, (0.25,))):
        made = LapGraph.from_epsilon(3.0, *given)
        budgets = made.epsilon_count, made.epsilon_edges
        assert budgets == pytest.approx((3.0 * share, 3.0 * (1 - share)))
        assert made.guarantee().epsilon == pytest.approx(3.0)


def test_bins_hold_every_pair_once_and_halve():
    split = random_split(40, 120, 80, 4, np.arange(40) % 4 != 0)
    m = BinnedPairs(1.0, bins=6)
    place, free, sizes = bins_of(m, split)
    np.testing.assert_array_equal(np.bincount(place[free], minlength=len(sizes)), sizes)
    assert sizes.sum() == split.pairs().candidates == len(free)
    assert 2 <= len(sizes) <= 6
    assert BinnedPairs(1.0, bins=1000).ranked(split)[1].min() > 0
    ends = np.cumsum(sizes)
    halved = split.pairs().candidates // 2 ** np.arange(5)
    assert set(ends[:-2]) <= set(halved)


def test_pairs_of_a_bin_are_drawn_alike_and_as_many_as_are_private():
    """60 releases at epsilon 8: numbers within noise, and a G test over the pairs of each bin (off
    by 0.1).
    """
    split = random_split(40, 120, 80, 5)
    m = BinnedPairs(8.0, bins=4)
    pairs = split.pairs()
    place, free, sizes = bins_of(m, split)
    true = np.bincount(place[pairs.private], minlength=len(sizes))
    count = np.zeros(1600, int)
    for seed in range(60):
        codes = released(m, split, seed)
        assert len(np.unique(codes)) == len(codes)
        assert np.isin(codes, free).all()
        assert np.abs(np.bincount(place[codes], minlength=len(sizes)) - true).max() <= 4
        count[codes] += 1
    for bin_ in range(len(sizes)):
        of_bin = count[free[place[free] == bin_]]
        assert abs(of_bin.sum() / 60 - true[bin_]) < 0.3
        assert_g(of_bin, np.full(len(of_bin), 1 / len(of_bin)))


@pytest.mark.parametrize("named", [66, 20, 7])
def test_without_noise_each_bin_has_its_number_of_private_edges(named):
    """All pairs have a score, some, or private edges alone: a rest that is none, or without an
    edge.
    """
    split = random_split(12, 8, 6, 3)
    pairs = split.pairs()
    every = np.stack(np.triu_indices(12, 1), 1)
    codes = pairs.codes(every)
    first = np.argsort(~np.isin(codes, pairs.private), kind="stable")[:named]
    m = BinnedPairs(60.0, score=lambda _: (every[first], -np.arange(named, dtype=float)))
    place, free, sizes = bins_of(m, split)
    assert (sizes.sum(), sizes.min() > 0) == (len(free), True)
    for seed in range(3):
        found = released(m, split, seed)
        assert len(np.unique(found)) == len(found)
        assert np.isin(found, free).all()
        np.testing.assert_array_equal(
            np.bincount(place[found], minlength=len(sizes)),
            np.bincount(place[pairs.private], minlength=len(sizes)),
        )


def test_a_model_of_the_public_graph_may_score():
    """It is given the public graph and nothing else; pairs it does not name are the last bin."""
    split = random_split(40, 120, 80, 7)
    model = mock.Mock(return_value=([[5, 3], [1, 2], [0, 39]], [0.5, 2.0, 1.0]))
    m = BinnedPairs(1.0, score=model)
    codes, sizes = m.ranked(split)
    model.assert_called_once_with(split.public)
    pairs = split.pairs()
    known = np.array([1 * 40 + 2, 0 * 40 + 39, 3 * 40 + 5])
    np.testing.assert_array_equal(codes, known[~np.isin(known, pairs.public)])
    assert sizes[-1] == pairs.candidates - len(codes)
    assert len(release(jax.random.key(0), split, m).graph.senders) > 240


def test_scores_are_the_common_neighbours():
    public = random_split(40, 120, 0, 6).public
    reference = nx.Graph(graphs.to_edges(public).tolist())
    reference.add_nodes_from(range(40))
    pairs, score = binned_pairs.common_neighbours(public)
    shared = {tuple(pair): int(value) for pair, value in zip(pairs.tolist(), score, strict=True)}
    for one, other in itertools.combinations(range(40), 2):
        known = len(list(nx.common_neighbors(reference, one, other)))
        assert shared.get((one, other), 0) == known
