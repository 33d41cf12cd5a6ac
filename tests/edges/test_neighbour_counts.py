"""Counts of neighbours by public group: noise in whole numbers, the law of all users at once, who
owns a pair.
"""

import dataclasses
import itertools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import verification
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP
from ldp_jax.core.rounding import exponential, log_up
from ldp_jax.core.whole_noise import law, whole_noise
from ldp_jax.edges import (
    NeighbourCounts,
    Population,
    count_neighbours,
    ownership,
    population,
    privatize_counts,
    whole_counts,
)
from ldp_jax.edges.lists import NeighbourList
from ldp_jax.graph import graphs
from ldp_jax.verification.cases import CASES
from tests.edges.small import owner_of
from tests.marks import untyped
from tests.stats import SIGMAS

RING = graphs.from_edges([[i, (i + 1) % 12] for i in range(12)] + [[0, 6], [1, 5], [2, 8]], 12)
GROUPS = np.array([0, 1, 2, -1] * 3)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 40.0])
def test_noise_is_whole_numbers_and_keeps_epsilon(epsilon):
    """Of all reports of counts that differ by one; the law is the geometric one to 1e-8 of each
    mass.
    """
    noise = whole_noise(epsilon, 6)
    assert sum(noise.masses) == 2**96
    assert min(noise.masses) >= 1
    assert 0.999 * epsilon < noise.loss <= epsilon
    one_side = [2 * noise.masses[0], *noise.masses[1:]]
    worst = Fraction(1)
    for count in range(3):
        for y in range(-noise.margin, 6 + noise.margin + 1):
            a, b = (_mass(one_side, noise, y, c) for c in (count, count + 1))
            worst = max(worst, Fraction(a, b), Fraction(b, a))
    assert worst <= exponential(epsilon) * (1 + Fraction(1, 10**30))
    a = np.exp(-epsilon)
    z = np.arange(-noise.reach, noise.reach + 1)
    exact = (1 - a) / (1 + a) * a ** np.abs(z)
    near = exact > 2.0**-60
    np.testing.assert_allclose(law(noise)[near], exact[near], rtol=1e-8)
    assert np.abs(law(noise) - exact).sum() < 1e-13


def test_the_loss_of_whole_noise_is_that_of_all_reports_of_all_counts():
    """As a fraction, of 40 drawn budgets; counts are so small that reports at the ends decide."""
    rng = np.random.default_rng(0)
    for place in range(40):
        noise = whole_noise(float(rng.uniform(0.5, 8.0)), 1 + place % 4)
        one_side = [2 * noise.masses[0], *noise.masses[1:]]
        reports = range(-noise.margin, noise.most + noise.margin + 1)
        laws = [
            [_mass(one_side, noise, y, count) for y in reports] for count in range(noise.most + 1)
        ]
        assert {sum(law) for law in laws} == {2**97}
        pairs = [pair for two in itertools.pairwise(laws) for pair in zip(*two, strict=True)]
        assert noise.ratio == max(Fraction(max(pair), min(pair)) for pair in pairs)
        assert Fraction(noise.loss) >= Fraction(log_up(noise.ratio))


def test_each_pair_belongs_to_one_end_by_the_public_rule():
    """Drawn confidences with ties: the smaller one owns a pair, and parity decides of equals."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        n = int(rng.integers(3, 12))
        order = rng.integers(0, 3, n) / 2
        silent = rng.random(n) < 0.3
        silent[rng.integers(n)] = False
        owns = ownership(order, silent).owns(*np.indices((n, n)))
        for i, j in itertools.permutations(range(n), 2):
            of_two = owner_of(min(i, j), max(i, j), order)
            wanted = not silent[i] and (silent[j] or of_two == i)
            assert owns[i, j] == wanted, (i, j)
        assert not owns.diagonal().any()


@pytest.mark.parametrize("block", [1, 2, 5, 64])
def test_counts_by_blocks_of_edges_are_those_of_the_matrix(block, monkeypatch):
    """Of drawn graphs and groups, -1 among them; a block may end within the edges of a user."""
    for module in (whole_counts, population):
        monkeypatch.setattr(module, "_BLOCK", block)
    rng = np.random.default_rng(block)
    for _ in range(5):
        n = 15
        groups = rng.integers(-1, 3, 15)
        matrix = np.triu(rng.random((n, n)) < 0.4, 1)
        users = Population.of(graphs.from_edges(np.argwhere(matrix), n))
        inside = (groups[:, None] == np.arange(3)).astype(int)
        np.testing.assert_array_equal(
            count_neighbours(users, groups, 3), (matrix | matrix.T) @ inside
        )
        np.testing.assert_array_equal(users.degree, (matrix | matrix.T).sum(1))


def test_the_law_of_a_list_is_that_of_its_counts_clipped():
    """Drawn lists and groups, of which some hold more friends than are counted; both noises."""
    rng = np.random.default_rng(0)
    n = 12
    most = 3
    for noise in ("geometric", "laplace"):
        m = NeighbourCounts(0.7, 2, n=n, most=most, noise=noise)
        for _ in range(4):
            groups = rng.integers(-1, 2, n)
            friends = 1 + np.flatnonzero(rng.random(n - 1) < 0.8)
            one = dataclasses.replace(m, groups=groups)
            counts = np.minimum([(groups[friends] == k).sum() for k in range(2)], most)
            y = rng.integers(-5, 9, 2)
            wanted = m.log_likelihood(y, counts).sum()
            assert float(one.log_density(y, NeighbourList.of(friends, n))) == pytest.approx(
                float(wanted), rel=1e-5
            )
        assert counts.max() == most


def _mass(one_side, noise, y, count):
    """P(report = y) over 2^97, by summing what is clipped to an end."""
    if y == -noise.margin or y == noise.most + noise.margin:
        return sum(one_side[abs(y - count) :])
    return one_side[abs(y - count)]


@untyped
def test_what_is_drawn_is_what_the_words_say():
    """Both ends of every run of words, at 0.3 and at 40: the loss of the sampler is that of the
    integers.
    """
    for epsilon in (0.3, 40.0):
        m = NeighbourCounts(epsilon, 1, most=4)
        found = verification.arithmetic(m)
        assert found.epsilon == m.guarantee().epsilon
        assert found.off < 1e-4
    broken = NeighbourCounts(1.0, 1, most=4)
    thresholds = np.asarray(broken.thresholds).copy()
    thresholds[0, 0] += np.uint32(2**31)  # zero is too likely
    object.__setattr__(broken, "thresholds", jnp.asarray(thresholds))
    assert verification.arithmetic(broken).epsilon > 1.2


def test_counts_of_all_users_have_the_law_of_one():
    """Of 4 000 draws of every count: means and variances, to five standard errors; reports are
    independent.
    """
    m = NeighbourCounts(1.0, 3, n=12, groups=GROUPS)
    true = count_neighbours(Population.of(RING), GROUPS, 3)
    drawn = jax.jit(jax.vmap(lambda key: m.add_noise(key, true)))(
        jax.random.split(jax.random.key(0), 4000)
    )
    flat = np.asarray(drawn).reshape(4000, -1) - true.ravel()
    assert np.abs(flat.mean(0)).max() < SIGMAS * np.sqrt(m.noise_variance() / 4000)
    assert np.abs(flat.var(0) / m.noise_variance() - 1).max() < SIGMAS * np.sqrt(6 / 4000)
    apart = np.corrcoef(flat.T) - np.eye(flat.shape[1])
    assert np.abs(apart).max() < SIGMAS / np.sqrt(4000)


def test_owners_report_each_pair_once_and_silent_ones_nothing():
    silent = np.arange(12) % 3 == 0
    public = ownership(np.linspace(0, 1, 12), silent)
    ends = graphs.to_edges(RING)
    both = public.owns(ends[:, 0], ends[:, 1]).astype(int) + public.owns(ends[:, 1], ends[:, 0])
    assert set(both[~(silent[ends[:, 0]] & silent[ends[:, 1]])]) == {1}
    assert both[silent[ends[:, 0]] & silent[ends[:, 1]]].sum() == 0
    m = NeighbourCounts(40.0, 3)
    noisy = privatize_counts(jax.random.key(3), RING, m, np.zeros(12, int), owners=public)
    assert noisy.counts.sum() == both.sum()
    assert (noisy.counts[silent] == 0).all()
    assert noisy.guarantee[RELATIONSHIP].epsilon <= 40.0
    assert (
        privatize_counts(jax.random.key(3), RING, m, np.zeros(12, int))
        .guarantee[RELATIONSHIP]
        .epsilon
        > 79
    )
    tied = ownership(np.zeros(12))
    owned = (
        tied.owns(np.repeat(np.arange(12), 12), np.tile(np.arange(12), 12)).reshape(12, 12).sum(1)
    )
    assert sorted(owned) == [5] * 6 + [6] * 6


def test_noise_by_blocks_of_users_has_the_same_law(monkeypatch):
    """Blocks of five users: no two of them share their noise, and without noise the counts are the
    true ones.

    Bit for bit ``add_noise`` of each block by its own key, seven numbers at a time or in one
    program.
    """
    monkeypatch.setattr(whole_counts, "_DRAWN", 16)
    monkeypatch.setattr(whole_counts, "_TOGETHER", 7)
    true = count_neighbours(Population.of(RING), GROUPS % 3, 3)
    blocks = np.pad(true, ((0, 3), (0, 0))).reshape(3, 5, 3)
    key = jax.random.key(2)
    for noise in ("geometric", "laplace"):
        m = NeighbourCounts(0.3, 3, noise=noise)
        whole = lambda key, m=m: privatize_counts(key, RING, m, GROUPS % 3).counts
        with jax.debug_key_reuse(False):
            drawn = jax.jit(jax.vmap(m.add_noise))(jax.random.split(key, 3), blocks).reshape(15, 3)[
                :12
            ]
            for found in (whole(key), jax.jit(whole)(key)):
                np.testing.assert_array_equal(found, drawn)
        sure = NeighbourCounts(40.0, 3, noise=noise)
        found = privatize_counts(jax.random.key(0), RING, sure, GROUPS % 3).counts
        np.testing.assert_allclose(found, true, atol=0 if noise == "geometric" else 1.5)
        assert found.dtype == (np.int32 if noise == "geometric" else np.float32)
    wide = NeighbourCounts(0.01, 3)  # two blocks have the same noise with probability below 1e-30
    noise = privatize_counts(jax.random.key(1), RING, wide, GROUPS % 3).counts - true
    assert len(np.unique(noise, axis=0)) == 12
    assert not (noise[:5] == noise[5:10]).all(1).any()


@pytest.mark.usefixtures("untyped")
def test_keys_may_be_traced_and_nothing_else(monkeypatch):
    """Draws under jit and vmap are those of a loop over keys, in blocks of five users and from a
    menu too.
    """
    m = NeighbourCounts(0.5, 3)
    menu = lambda key: (
        privatize_counts(
            key, RING, [m, NeighbourCounts(2.0, 3)], GROUPS, levels=[0] * 9 + [1] * 3
        ).counts
    )
    monkeypatch.setattr(whole_counts, "_DRAWN", 15)
    with jax.debug_key_reuse(False):  # the same keys, several times
        keys = jax.random.split(jax.random.key(3), 2)
        np.testing.assert_array_equal(jax.jit(jax.vmap(menu))(keys), [menu(key) for key in keys])
        with pytest.raises(ValueError, match="graph and public must be concrete"):
            jax.jit(lambda graph: privatize_counts(keys[0], graph, m, GROUPS).counts)(RING)
        with pytest.raises(ValueError, match="mechanism for each epsilon"):
            jax.vmap(lambda epsilon: NeighbourCounts(epsilon, 3).add_noise(keys[0], GROUPS))(
                jnp.array([1.0, 2.0])
            )


def test_personal_budgets_of_a_public_menu():
    menu = [NeighbourCounts(epsilon, 3) for epsilon in (0.5, 40.0, 2.0)]
    levels = np.array([0, 1] * 6)
    noisy = privatize_counts(jax.random.key(0), RING, menu, GROUPS, levels=levels)
    true = count_neighbours(Population.of(RING), GROUPS, 3)
    assert (
        noisy.counts[levels == 1] == true[levels == 1]
    ).all()  # P(any noise at 40) is below 1e-15
    assert (
        noisy.counts[levels == 0] != true[levels == 0]
    ).any()  # P(no noise in 18 counts at 0.5) is 1e-11
    # Budgets that nobody takes cost nothing; an edge costs what its two ends lose, or the worse of
    # them.
    one = np.where(np.arange(12) == 3, 2, 0)
    owners = ownership(np.arange(12.0))
    for level, rule, edge in (
        (np.where(levels == 1, 2, 0), None, 4.0),
        (one, None, 2.5),
        (one, owners, 2.0),
    ):
        spent = privatize_counts(
            jax.random.key(0), RING, menu, GROUPS, levels=level, owners=rule
        ).guarantee
        assert spent[NEIGHBOUR_LIST].epsilon == pytest.approx(2.0)
        assert spent[RELATIONSHIP].epsilon == pytest.approx(edge)
        assert "personal budgets" in spent.unprotected


def test_a_node_in_no_group_counts_nowhere_and_counts_end_at_most():
    star = graphs.from_edges([[0, i] for i in range(1, 9)], 9)
    groups = np.array([0] * 5 + [-1] * 4)
    true = count_neighbours(Population.of(star), groups, 2)
    assert true[0].tolist() == [4, 0]
    m = NeighbourCounts(40.0, 2, most=3)
    assert privatize_counts(jax.random.key(4), star, m, groups).counts[0].tolist() == [3, 0]
    one = jax.jit(dataclasses.replace(m, n=9, groups=groups).privatize)
    alone = one(jax.random.key(4), NeighbourList.of(list(range(1, 9)), 9))
    assert alone.tolist() == [3, 0]
    # Numbers of the host beyond 32 bits would wrap in a JAX array.
    counts = np.array([2**40, -(2**40), 3, 2**31 + 1])
    found = NeighbourCounts(40.0, 1, most=7).add_noise(jax.random.key(8), counts)
    assert np.asarray(found).tolist() == [7, 0, 3, 7]


def test_sets_of_graphs_are_counted_within_each():
    made = graphs.GraphSet.from_edges(
        [1, 0, 2, 1, 4, 3], [0, 1, 1, 2, 3, 4], [0, 0, 0, 1, 1], [0, 0]
    )
    noisy = privatize_counts(jax.random.key(5), made, NeighbourCounts(40.0, 1), np.zeros(5, int))
    assert noisy.counts[:, 0].tolist() == [1, 2, 1, 1, 1]


@untyped
def test_the_exact_loss_is_the_claim():
    epsilon = 16.0
    m = CASES["NeighbourCounts"].make(epsilon)
    assert m.guarantee().arithmetic == "exact"
    assert verification.privacy_loss_supremum(m).epsilon == pytest.approx(
        m.guarantee().epsilon, rel=1e-9
    )
    for reporting, times in (("full", 2), ("half", 1)):
        claimed = m.relationship(reporting).epsilon
        assert verification.relationship_supremum(m, reporting).epsilon == pytest.approx(
            claimed, rel=1e-9
        )
        assert claimed == pytest.approx(times * epsilon)


@untyped
@pytest.mark.parametrize("name", ["NeighbourCounts", "NeighbourCounts-laplace"])
def test_draws_of_lists_fit_and_values_that_are_none_are_clipped(name):
    """60 000 draws of user 0 and 10 000 of each other one."""
    m = CASES[name].make(1.0)
    fit = verification.matches_density(m, jax.random.key(6), trials=60_000)
    assert fit.fits, str(fit)
    assert verification.is_total(m, jax.random.key(7)).fits
