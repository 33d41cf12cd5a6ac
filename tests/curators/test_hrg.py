"""The chain over dendrograms: its counts, its law, its reversibility, and what an edge can
change.
"""

import jax
import numpy as np
import pytest

from ldp_jax.curators import all_dendrograms as dendrograms
from ldp_jax.curators import hrg

PUBLIC = np.array([[0, 1], [1, 2], [3, 4]])
PRIVATE = np.array([[0, 2], [2, 3], [1, 4], [0, 4]])
SCALES = np.array([0.3, 0.5], np.float32)


def random_edges(n, m, seed):
    rng = np.random.default_rng(seed)
    code = rng.choice(n * (n - 1) // 2, m, replace=False)
    low, high = np.triu_indices(n, 1)
    pairs = np.stack([low[code], high[code]], 1)
    return hrg.Edges.of(pairs[: m // 2], pairs[m // 2 :])


def check_tree(tree):
    """That slots and children are inverse to each other, and sizes are those of the leaves
    below.
    """
    children, slot, size = map(np.asarray, tree)
    n = (len(slot) + 1) // 2
    np.testing.assert_array_equal(slot[children], np.arange(2 * n - 2))
    np.testing.assert_array_equal(np.sort(children), np.arange(1, 2 * n - 1))
    np.testing.assert_array_equal(size[: n - 1], size[children].reshape(-1, 2).sum(1))
    assert size[0] == n
    assert (size[n - 1 :] == 1).all()


def walk(tree, u, v):
    """The lowest common ancestor by walking to the root."""
    n = (len(tree.slot) + 1) // 2
    paths = []
    for node in (n - 1 + u, n - 1 + v):
        path = [node]
        while path[-1] != 0:
            path.append(int(tree.slot[path[-1]]) >> 1)
        paths.append(path)
    return next(node for node in paths[0][1:] if node in paths[1])


N = 32


@pytest.fixture(scope="module")
def long_chain():
    """One chain of 32 nodes and 160 edges at four moments, about 1 000 moves apart, and its
    edges.
    """
    edges = random_edges(N, 160, 0)
    states = [hrg.init(jax.random.key(0), N, edges)]
    scales = np.array([0.3, 1.0], np.float32)
    for keys in jax.random.split(jax.random.key(1), (3, 2)):
        state, values = hrg.trace(keys, states[-1], edges, scales, 133)
        np.testing.assert_allclose(hrg.log_likelihood(state), values[-1], rtol=1e-6)
        assert (values[0] != values[-1]).any()
        states.append(state)
    return edges, states


def test_counts_are_exactly_those_of_a_recount(long_chain):
    """Integers, every 1 000 moves: any edge that is lost or misplaced once would be found."""
    edges, states = long_chain
    real = np.asarray(edges.kind) < 2
    for state in states:
        check_tree(state.tree)
        again = hrg.state_of(state.tree, edges)
        np.testing.assert_array_equal(again.count, state.count)
        np.testing.assert_array_equal(np.asarray(again.lca)[real], np.asarray(state.lca)[real])
        np.testing.assert_array_equal(hrg.log_likelihood(again), hrg.log_likelihood(state))
        np.testing.assert_array_equal(np.asarray(state.count).sum(1), [80, 80])
    assert len({np.asarray(state.tree.children).tobytes() for state in states}) == len(states)


def test_a_chain_is_its_sweeps_one_by_one(long_chain):
    """A sweep alone starts from terms that are computed anew: those that a chain keeps are the
    same.
    """
    edges, states = long_chain
    scales = np.broadcast_to(np.float32([0.3, 1.0]), (100, 2))
    one = states[-1]
    for key in jax.random.split(jax.random.key(6), 100):
        one = hrg._sweeps(key[None], one, edges, scales[:1])
    chain = hrg.run(jax.random.key(6), states[-1], edges, scales, 100)
    jax.tree.map(np.testing.assert_array_equal, chain, one)
    assert (np.asarray(chain.tree.children) != states[-1].tree.children).any()


def test_the_recount_is_right(long_chain):
    """Ancestors by walking to the root, and the likelihood by its definition in float64, to 1e-5 of
    it.
    """
    edges, states = long_chain
    tree = jax.tree.map(np.asarray, states[-1].tree)
    real = np.flatnonzero(np.asarray(edges.kind) < 2)
    walked = np.array([walk(tree, *pair) for pair in np.asarray(edges.ends)[:, real].T])
    np.testing.assert_array_equal(np.asarray(states[-1].lca)[real], walked)
    size = tree.size[tree.children].reshape(-1, 2).prod(1)
    for kind in (0, 1):
        count = np.bincount(walked[np.asarray(edges.kind)[real] == kind], minlength=N - 1)
        inside = (count > 0) & (count < size)
        p = count[inside] / size[inside]
        exact = (size[inside] * (p * np.log(p) + (1 - p) * np.log1p(-p))).sum()
        assert float(hrg.log_likelihood(states[-1])[kind]) == pytest.approx(exact, rel=1e-5)


def draw(chains):
    """The numbers of 96 dendrograms on five nodes of each chain, 2 sweeps apart."""
    edges = hrg.Edges.of(PUBLIC, PRIVATE)
    edges = hrg.Edges(
        edges.ends[:, :7], edges.kind[:7]
    )  # no padding, which would be most of the work

    def chain(key, edges, scales):
        first, rest = jax.random.split(key)
        state = hrg.init(first, 5, edges)

        def block(state, key):
            state, _ = hrg.trace(key[None], state, edges, scales, 2)
            return state, dendrograms.name_of(state.tree)

        return jax.lax.scan(block, state, jax.random.split(rest, 112))[1]

    run = jax.jit(jax.vmap(chain, (0, None, None)))
    with jax.debug_key_reuse(False):  # which takes keys of a scan under vmap for used ones
        found = run(jax.random.split(jax.random.key(4), chains), edges, SCALES)
    return np.asarray(found)[:, 16:].ravel()  # the first 32 sweeps forget where they began


def total_variation(drawn, scales):
    trees = dendrograms.sides(5)
    public, private = (dendrograms.log_likelihoods(trees, edges) for edges in (PUBLIC, PRIVATE))
    exact = dendrograms.law(scales[0] * public + scales[1] * private)
    return np.abs(dendrograms.counts_of(drawn, 5) / len(drawn) - exact).sum() / 2


def test_the_law_is_that_of_brute_force_and_another_is_told_apart():
    """All 105 dendrograms: 98 304 draws, 96 of each of 1 024 chains, are at 0.026; a scale 20 % off
    at 0.04.
    """
    assert len(dendrograms.sides(5)) == 105
    drawn = draw(1024)
    assert total_variation(drawn, SCALES) < 0.038
    for wrong in ((0.15, 0.5), (0.3, 0.6), (0.5, 0.3)):
        assert total_variation(drawn, wrong) > 0.04


@pytest.mark.parametrize(("n", "known"), [(2, 0.0), (3, 2 * np.log(2)), (4, 2.24934), (5, 2.70337)])
def test_the_sensitivity_is_exact(n, known):
    """Over all dendrograms and all pairs of graphs that differ in one edge."""
    pairs = np.stack(np.triu_indices(n, 1), 1)
    likelihood = dendrograms.over_all_graphs(n, pairs)
    graph = np.arange(len(likelihood))
    largest = max(
        np.abs(likelihood - likelihood[graph ^ (1 << pair)]).max() for pair in range(len(pairs))
    )
    assert hrg.sensitivity(n) == pytest.approx(largest, abs=1e-9)
    assert hrg.sensitivity(n) == pytest.approx(known, abs=1e-5)


def test_r_hat_tells_chains_that_have_not_met():
    rng = np.random.default_rng(0)
    together = rng.normal(size=(4, 500))
    assert hrg.r_hat(together) < 1.02
    assert hrg.r_hat(together + 2.0 * np.arange(4)[:, None]) > 1.5
    assert hrg.r_hat(together + 0.02 * np.arange(500)) > 1.5  # still rising
    assert hrg.r_hat(np.ones((2, 8))) == 1.0
    assert hrg.r_hat(np.repeat([[1.0], [2.0]], 8, 1)) == np.inf  # stuck


@pytest.mark.parametrize("draws", [4, 7, 20])
def test_r_hat_is_that_of_the_textbook_on_drawn_chains(draws):
    """Both variances are over n - 1: of a half's draws, and of the means of the halves."""
    rng = np.random.default_rng(draws)
    chains = rng.normal(size=(3, draws)) + rng.normal(size=(3, 1))
    n = draws // 2
    halves = [half for chain in chains for half in (chain[:n], chain[draws - n :])]
    within = np.mean([sum((half - half.mean()) ** 2) / (n - 1) for half in halves])
    means = np.array([half.mean() for half in halves])
    between = n * sum((means - means.mean()) ** 2) / (len(means) - 1)
    wanted = np.sqrt(((n - 1) / n * within + between / n) / within)
    assert hrg.r_hat(chains) == pytest.approx(wanted, rel=1e-9)
