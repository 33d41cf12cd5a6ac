"""From a dendrogram to a release: scales, groups, noisy counts, sampled pairs; and what an edge can
change.
"""

import itertools

import jax
import numpy as np
import pytest

from ldp_jax.curators import EdgeRR, PrivHRG, PublicHRG, connections, hrg
from ldp_jax.curators.noisy_counts import consistent, noisy_counts
from ldp_jax.curators.release import promised
from tests.curators.data import random_split
from tests.stats import assert_g, assert_share

N = 24


@pytest.fixture(scope="module")
def state():
    """A random dendrogram with 60 public and 60 private edges."""
    low, high = np.random.default_rng(0).permutation(np.stack(np.triu_indices(N, 1), 1))[:120].T
    pairs = np.stack([low, high], 1)
    return hrg.init(jax.random.key(0), N, hrg.Edges.of(pairs[:60], pairs[60:]))


def test_an_epsilon_is_claimed_where_chains_agree_and_nowhere_else():
    """6 400 sweeps of eight nodes: with a heavy weight of public edges chains are still where they
    began.
    """
    split = random_split(8, 14, 5, 0)
    keys = jax.random.split(jax.random.key(3), 3)
    with pytest.warns(UserWarning, match="public_weight"):
        slow = EdgeRR(0.5, 0.5, public_weight=30.0, sweeps=6400)
    found = slow.measured(keys[0], split, chains=2)
    assert (found.status, found.epsilon) == ("none", np.inf)
    quick = EdgeRR(0.5, 0.5, sweeps=6400)
    assert quick.measured(keys[1], split, chains=2) == quick.stationary()
    assert quick.stationary().epsilon == 1.0
    assert quick.guarantee().status == quick.measured(keys[2], split, chains=0).status == "none"


def test_a_claim_needs_chains_that_begin_above_the_law_too(monkeypatch):
    """Chains that stay where they begin, but for noise: those of random dendrograms alone agree."""
    begun, made = [], []

    def trace(keys, state, edges, scales, sweeps):
        begun.append(float(hrg.log_likelihood(state).sum()))
        made.append(begun[-1] + 10.0 * jax.random.normal(keys[0], (len(keys), 2)))
        return state, made[-1]

    monkeypatch.setattr(hrg, "trace", trace)
    law = EdgeRR(0.5, 0.5, sweeps=800)
    split = random_split(30, 50, 25, 0)
    assert law.measured(jax.random.key(4), split).status == "none"
    assert min(begun[1::2]) > max(begun[::2])
    assert hrg.r_hat(np.stack(made[::2])[:, :, 0]) < hrg.MIXED


def test_scales_and_counts_are_of_their_shares_of_the_budget():
    """Shares are unlike, and so are weights: each number has one place."""
    wide = hrg.sensitivity(1558)
    for m, due, counts, total in (
        (EdgeRR(2.0, 1.0, public_weight=0.1), [0.1, 1 / wide], 1.0, 3.0),
        (PrivHRG(4.0), [0.0, 1 / wide], 2.0, 4.0),
        (PrivHRG(4.0, 0.25), [0.0, 0.5 / wide], 3.0, 4.0),
        (EdgeRR.as_published(2.0, 1.0), [1.0, 2 / wide], 1.0, np.inf),
        (PublicHRG(1.5, public_weight=0.7, thresholds=(0.3, 0.2)), [0.7, 0.0], 1.5, 1.5),
    ):
        np.testing.assert_allclose(m.scales(1558), due, rtol=1e-6)
        law = m.dendrogram_law(1558)
        np.testing.assert_allclose(law.scales, due, rtol=1e-6)
        assert (law.epsilon, law.thresholds) == (counts, m.thresholds)
        assert law.published == m.published == (total == np.inf)
        assert promised(m).epsilon == total
    assert EdgeRR(2.0, 1.0).scales(2)[1] == 0.0  # one dendrogram


def by_recursion(tree, epsilon, thresholds):
    """Xiao et al.'s rule as Algorithm 3 recurses."""
    children, _, size = map(np.asarray, tree)
    internal = len(children) // 2
    found = np.full(internal, -1)

    def descend(node, group):
        if node >= internal:
            return
        left, right = size[children[2 * node]], size[children[2 * node + 1]]
        n = left + right
        if group < 0 and 1 / (epsilon * left * right) >= thresholds[0] and (
            2 / (epsilon * n * (n - 1)) >= thresholds[1]
        ):  # fmt: skip
            group = node
        found[node] = node if group < 0 else group
        descend(children[2 * node], group)
        descend(children[2 * node + 1], group)

    descend(0, -1)
    return found


ancestors = jax.jit(hrg.lowest_common_ancestors)


def test_groups_are_those_of_the_recursion():
    tree = hrg.random_dendrogram(jax.random.key(1), N)
    for epsilon, thresholds in itertools.product(
        (0.1, 5.0), ((0.05, 0.01), (0.3, 0.02), (9.0, 9.0), (0.05, 0.05), (0.01, 0.01))
    ):
        found = connections.regions(tree, epsilon, thresholds)
        np.testing.assert_array_equal(found, by_recursion(tree, epsilon, thresholds))


def test_consistent_counts_keep_the_sum_and_are_the_nearest():
    """200 cases of 12 counts: one multiplier for all that are inside, which those at the ends
    respect (to 1e-9).
    """
    rng = np.random.default_rng(0)
    most = rng.integers(1, 9, (200, 12)).astype(float)
    noisy = rng.normal(1.0, 3.0, (200, 12))
    made = consistent(noisy, most)
    assert (made >= 0).all()
    assert (made <= most).all()
    np.testing.assert_allclose(made.sum(1), np.clip(noisy.sum(1), 0, most.sum(1)), atol=1e-9)
    inside = (made > 0) & (made < most)
    cases = inside.any(1)
    assert cases.sum() > 150
    lowered = np.where(inside, noisy - made, 0).sum(1) / np.maximum(inside.sum(1), 1)
    again = np.clip(noisy - lowered[:, None], 0, most)
    np.testing.assert_allclose(made[cases], again[cases], atol=1e-9)


@pytest.mark.parametrize(("noise", "scale"), [("laplace", 2 / 0.49), ("geometric", 3.919)])
def test_counts_have_the_noise_that_they_claim(noise, scale):
    """50 000 draws at 0.7, whose variance is known to 3 %: that tells epsilon from 1.05 epsilon."""
    n = 50_000
    drawn = noisy_counts(jax.random.key(2), np.full(n, 5), 0.7, noise) - 5
    assert abs(drawn.mean()) < 5 * np.sqrt(scale / n)
    assert abs(drawn.var() / scale - 1) < 5 * np.sqrt(5.5 / n)
    assert (drawn == np.round(drawn)).all() == (noise == "geometric")


def test_a_group_has_one_probability_and_published_ones_have_their_own(state):
    region = connections.regions(state.tree, 0.5)
    assert 1 < len(np.unique(region)) < N - 1
    one = connections.probabilities(jax.random.key(4), state, 0.5, region)
    np.testing.assert_array_equal(one, one[region])
    fresh = connections.probabilities(jax.random.key(4), state, 0.5, region, fresh=True)
    assert not np.array_equal(fresh, fresh[region])
    assert 0 <= one.min() <= one.max() <= 1
    wild = connections.probabilities(jax.random.key(4), state, 0.02, region, fresh=True)
    assert (wild.min(), wild.max()) == (0.0, 1.0)


def test_without_noise_a_probability_is_the_share_of_pairs_that_are_private_edges(state):
    """Of the pairs of a region that are no public edge, counted one by one."""
    region = connections.regions(state.tree, 0.5)
    low, high = np.triu_indices(N, 1)
    where = region[np.asarray(ancestors(state.tree, np.stack([low, high])))]
    split = np.random.default_rng(0).permutation(np.stack([low, high], 1))[:120]
    code = low * N + high
    public, private = (np.isin(code, pairs @ [N, 1]) for pairs in (split[:60], split[60:]))
    for own in np.unique(region):
        mine = where == own
        wanted = private[mine].sum() / max((mine & ~public).sum(), 1)
        for fresh in (False, True):
            found = connections.probabilities(
                jax.random.key(4), state, 1e4, region, fresh=fresh, noise="laplace"
            )
            np.testing.assert_allclose(found[region == own], wanted, atol=0.01)


def test_pairs_are_sampled_with_the_probability_of_the_node_that_joins_them(state):
    """40 graphs: the pairs of each internal node, exactly (binomial tails), and those of the root
    alike (G).

    Probabilities from rare to certain, on both sides of where pairs are listed. Of the root's pairs
    a share that is off by 0.02 would be found.
    """
    probability = np.where(np.arange(N - 1) == 0, 0.2, np.resize([0.02, 0.3, 0.7, 1.0, 0.0], N - 1))
    low, high = np.triu_indices(N, 1)
    joined = np.asarray(ancestors(state.tree, np.stack([low, high])))
    count = np.zeros((N, N), int)
    for key in jax.random.split(jax.random.key(5), 40):
        pairs = connections.sample(key, state.tree, probability)
        assert (pairs[:, 0] < pairs[:, 1]).all()
        np.add.at(count, tuple(pairs.T), 1)
    assert count.max() <= 40
    trials = 40 * np.bincount(joined, minlength=N - 1)
    found = np.bincount(joined, count[low, high], N - 1)
    for node in range(N - 1):
        assert_share(found[node], trials[node], probability[node])
    of_root = count[low, high][joined == 0]
    assert_g(of_root, np.full(len(of_root), 1 / len(of_root)))
