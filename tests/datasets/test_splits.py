"""Splits: everything once, at random, from the key alone; non-edges are no edges."""

import itertools

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_jax.datasets.splits import link_split, node_split
from tests import stats

N = 40
DRAWN = np.random.default_rng(0).uniform(size=(N, N)) < 0.15
EDGES = np.argwhere(np.triu(DRAWN, 1)).astype(np.int32)


@given(st.integers(4, 500), st.integers(0, 2**31 - 1))
def test_node_split_is_a_partition(n, seed):
    split = node_split(jax.random.key(seed), n)
    assert sorted(np.concatenate(split).tolist()) == list(range(n))
    assert [len(part) for part in split[:2]] == [n // 2, n // 4]
    assert all(part.dtype == np.int32 for part in split)


def test_shares_are_three_of_which_none_is_empty_and_all_are_one():
    key = jax.random.key(0)
    others = [(0.5, 0.5), (0.25, 0.25, 0.25, 0.25), ()]
    for tenths in itertools.product(range(-1, 12, 2), range(11), range(11)):
        shares = tuple(each / 10 for each in tenths)
        if min(tenths) > 0 and sum(tenths) == 10:
            assert sum(map(len, node_split(key, N, shares))) == N
        else:
            others.append(shares)
    for shares in others:
        with pytest.raises(ValueError, match="shares must be three numbers"):
            node_split(key, N, shares)


@pytest.mark.parametrize("n", [10, 11, 13])
def test_half_of_all_pairs_may_be_edges_and_no_more(n):
    """Each edge needs a pair without one beside it: both are then all pairs, each once."""
    pairs = np.stack(np.triu_indices(n, 1), 1).astype(np.int32)
    most = len(pairs) // 2
    split = link_split(jax.random.key(0), pairs[:most], n)
    found = np.concatenate(split)
    assert len(np.unique(found, axis=0)) == 2 * most
    with pytest.raises(ValueError, match="leave too few pairs without an edge"):
        link_split(jax.random.key(0), pairs[: most + 1], n)


def test_a_share_of_whole_percents_is_that_many_of_a_hundred():
    """All shares in percent, of 100 and of 1 000; floats are above or below them by chance."""
    for total in (100, 1000):
        for percent in range(1, 99):
            shares = (percent / 100, (99 - percent) / 100, 0.01)
            sizes = [len(part) for part in node_split(jax.random.key(0), total, shares)]
            assert sizes == [percent * total // 100, (99 - percent) * total // 100, total // 100]


def test_splits_come_from_the_key_alone():
    for split in (lambda key: node_split(key, N), lambda key: link_split(key, EDGES, N)):
        one, same, other = (np.concatenate(split(jax.random.key(seed))) for seed in (1, 1, 2))
        np.testing.assert_array_equal(one, same)
        assert not np.array_equal(one, other)


def pairs_of(part):
    return set(map(tuple, part.tolist()))


def test_link_split_is_a_partition_with_as_many_non_edges():
    edges = EDGES.copy()
    edges[::2] = edges[::2, ::-1]  # either end may stand first
    split = link_split(jax.random.key(4), edges, N)
    m = len(EDGES)
    parts = [pairs_of(part) for part in split]
    assert [len(part) for part in parts[:2]] == [int(0.85 * m), int(0.05 * m)]
    assert [len(part) for part in parts[:3]] == [len(part) for part in parts[3:]]
    assert sum(map(len, parts[:3])) == m
    assert set.union(*parts[:3]) == pairs_of(EDGES)
    non_edges = set.union(*parts[3:])
    assert len(non_edges) == m
    assert not non_edges & pairs_of(EDGES)
    assert {part.dtype for part in split} == {np.dtype(np.int32)}
    assert all(0 <= u < v < N for u, v in non_edges)


def test_every_pair_without_an_edge_is_equally_likely():
    """A path of 9 nodes: 28 pairs without an edge, 8 drawn, 750 times. Detects a total variation of
    0.07.

    Drawn without repeats they vary less than the multinomial of the G test, which is on the safe
    side.
    """
    n = 9
    edges = np.array([(v, v + 1) for v in range(8)], np.int32)
    runs = 750
    counts = np.zeros((n, n), int)
    train = 0
    for key in list(jax.random.split(jax.random.key(5), runs)):
        split = link_split(key, edges, n, (0.5, 0.25, 0.25))
        for part in split[3:]:
            counts[part[:, 0], part[:, 1]] += 1
        train += (0, 2) in pairs_of(split.train_non_edges)
    free = np.triu(np.ones((n, n), bool), 2)
    assert not counts[~free].any()
    stats.assert_g(counts[free], np.full(28, 1 / 28))
    stats.assert_share(
        train, runs, 4 / 28
    )  # and each is as likely to be in train as its share says


def test_a_graph_as_dense_as_can_be():
    """Exactly as many pairs without an edge as edges: all of them are found."""
    n = 8  # 28 pairs
    all_pairs = np.stack(np.triu_indices(n, 1), 1).astype(np.int32)
    split = link_split(jax.random.key(6), all_pairs[:14], n, (0.4, 0.3, 0.3))
    assert set.union(*map(pairs_of, split[3:])) == pairs_of(all_pairs[14:])


def test_codes_of_pairs_do_not_overflow(untyped):
    n = 3_000_000
    edges = np.arange(n - 60, n, dtype=np.int32).reshape(30, 2)
    split = link_split(jax.random.key(7), edges, np.int32(n))
    assert set.union(*map(pairs_of, split[:3])) == pairs_of(edges)
    assert np.concatenate(split[3:]).max() < n
