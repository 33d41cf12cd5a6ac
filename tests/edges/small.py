"""A small graph many times over: one call draws as many independent reports of it."""

import itertools

import jax
import numpy as np

from ldp_jax.graph import graphs
from ldp_jax.graph.graphs import GraphSet
from tests import contributing

Coin = contributing.run("coin")["Coin"]
"""A mechanism of one's own: no base class, no sampler of graphs."""

EDGES = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [3, 4]])  # degrees 3, 2, 2, 2, 1, 0 of six nodes
N = 6


def copies(count, edges=EDGES, n=N):
    """A set of ``count`` graphs."""
    graph = graphs.from_edges(
        (edges[None] + n * np.arange(count)[:, None, None]).reshape(-1, 2), n * count
    )
    return GraphSet.from_edges(
        graph.senders, graph.receivers, np.repeat(np.arange(count), n), np.zeros(count, int)
    )


def ring(n=40):
    """A graph of degree 4."""
    nodes = np.arange(n)
    return graphs.from_edges(
        np.concatenate([np.stack([nodes, (nodes + k) % n], 1) for k in (1, 3)]), n
    )


def bits_of(noisy, count, n=N):
    """bool [count, n, n]: who reported whom; no pair twice, none across graphs, no node itself."""
    to = np.asarray(noisy.graph.receivers)
    of = np.asarray(noisy.graph.senders)
    bits = np.zeros((count, n, n), bool)
    bits[to // n, to % n, of % n] = True
    assert (to // n == of // n).all()
    assert bits.sum() == len(to), "a pair was reported twice"
    assert not bits[:, np.arange(n), np.arange(n)].any()
    return bits


def dense(edges=EDGES, n=N):
    """The adjacency matrix, bool [n, n]."""
    matrix = np.zeros((n, n), bool)
    matrix[edges[:, 0], edges[:, 1]] = matrix[edges[:, 1], edges[:, 0]] = True
    return matrix


def owner_of(i, j, budgets=None):
    """The public rule: the smaller budget; of equal ones, i < j goes to i where i + j is even, else
    to j.
    """
    if budgets is not None and budgets[i] != budgets[j]:
        return i if budgets[i] < budgets[j] else j
    return min(i, j) if (i + j) % 2 == 0 else max(i, j)


@jax.jit
def bit_rates(m, noisy, owned):
    return m.bit_rates(noisy, owned)


def assert_bits_have_the_law(bits, degree, each, owner, owned, truth, private):
    """Given the noisy degree of its owner a pair is a Bernoulli: bits less their rates have mean 0,
    and pairs are independent; five standard errors, 0.5 / sqrt(count) each.

    Args:
      bits: bool [count, n, n].
      degree: [count, n].
      each: the mechanism of each user.
      owner: of i and j, who reports the bit [i, j].
      owned: how many pairs each user's degree is about.
      truth: bool [n, n].
      private: whose lists are asked.
    """
    count, n = degree.shape
    rates = [bit_rates(each[i], degree[:, i], owned[i]) for i in range(n)]
    pairs = [(i, j) for i, j in itertools.product(private, range(n)) if i != j]
    off = np.zeros((n, n, count))
    for i, j in pairs:
        keep, _, add = rates[owner(i, j)]
        rate = np.asarray(keep if truth[i, j] else add) + np.zeros(count)
        off[i, j] = bits[:, i, j] - rate
        limit = 5 * np.sqrt((rate * (1 - rate)).mean() / count)
        assert abs(off[i, j].mean()) < limit + 1e-6, (i, j)
    for i, j in pairs:
        k = next((j + step) % n for step in (1, 2) if (j + step) % n != i)
        if owner(i, j) == owner(i, k):
            limit = 5 * off[i, j].std() * off[i, k].std() / np.sqrt(count)
            assert abs((off[i, j] * off[i, k]).mean()) < limit + 1e-6, (i, j, k)
