"""Counts of neighbours by public group: their noise, the law of all users, who owns a pair."""

import itertools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import verification
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP
from ldp_jax.core.rounding import exponential
from ldp_jax.core.whole_noise import WholeNoise, law, whole_noise
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
from tests.marks import untyped

RING = graphs.from_edges([[i, (i + 1) % 12] for i in range(12)] + [[0, 6], [1, 5], [2, 8]], 12)
GROUPS = np.array([0, 1, 2, -1] * 3)


@pytest.mark.parametrize("block", [1, 2, 5, 64])
def test_counts_by_blocks_of_edges_are_those_of_the_matrix(block, monkeypatch):
    """Of drawn graphs and groups, -1 among them; a block may end within the edges of a user."""
    for module in (whole_counts, population):
        monkeypatch.setattr(module, "_BLOCK", block)
    rng = np.random.default_rng(block)
    for kinds in (3, 1, 4, 6, 2):
        n = 15
        groups = rng.integers(-1, kinds, n)
        matrix = np.triu(rng.random((n, n)) < 0.4, 1)
        users = Population.of(graphs.from_edges(np.argwhere(matrix), n))
        matrix = matrix | matrix.T
        inside = (groups[:, None] == np.arange(kinds)).astype(int)
        np.testing.assert_array_equal(count_neighbours(users, groups, kinds), matrix @ inside)
        later = lambda user, other: user < other
        found = count_neighbours(users, groups, kinds, later)
        np.testing.assert_array_equal(found, np.triu(matrix) @ inside)
        np.testing.assert_array_equal(users.degree, matrix.sum(1))


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


@untyped
def test_draws_of_lists_fit_and_values_that_are_none_are_clipped():
    """60 000 draws of user 0 and 10 000 of each other one."""
    m = CASES["NeighbourCounts"].make(1.0)
    fit = verification.matches_density(m, jax.random.key(6), trials=60_000)
    assert fit.fits, str(fit)
    assert verification.is_total(m, jax.random.key(7)).fits


def laws_of(noise, counts):
    """P(report = y) over 2^97 for each count and report; an end has all that is clipped to it."""
    one_side = [2 * noise.masses[0], *noise.masses[1:]]
    reports = range(-noise.margin, noise.most + noise.margin + 1)
    laws = [[one_side[abs(y - count)] for y in reports] for count in counts]
    for count, each in zip(counts, laws, strict=True):
        for end in (0, -1):
            each[end] = sum(one_side[abs(reports[end] - count) :])
        assert sum(each) == 2**97
    return laws


def largest_ratio(noise, counts, steps=1):
    laws = laws_of(noise, counts)
    near = [
        (laws[place], laws[other])
        for place, other in itertools.combinations(range(len(laws)), 2)
        if other - place <= steps
    ]
    pairs = [pair for two in near for pair in zip(*two, strict=True)]
    return max(Fraction(max(pair), min(pair)) for pair in pairs)


def wholly(*masses):
    """Noise of counts up to 2 whose first mass is all that others leave."""
    return WholeNoise(1.0, 2, len(masses) - 2, (2**96 - sum(masses), *masses))


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize(
    "noise",
    [
        whole_noise(1.0, 3),
        whole_noise(0.3, 1),
        wholly(2**91, 2**90, 1),  # lost where a report is clipped
        wholly(2**94, 2**93, 2**92, 2**92),
        wholly(2**94, 2**80, 2**80, 2**79),  # lost by two reports that are not
    ],
)
def test_the_stated_ratio_is_the_largest_of_all_reports(noise, steps):
    counts = range(noise.most + 1)
    assert noise.ratio_over(steps) == largest_ratio(noise, counts, steps)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 40.0])
def test_noise_is_whole_numbers_and_keeps_epsilon(epsilon):
    """The law is the geometric one to 1e-8 of each mass."""
    noise = whole_noise(epsilon, 6)
    assert min(noise.masses) >= 1
    assert 0.999 * epsilon < noise.loss <= epsilon
    worst = largest_ratio(noise, range(4))
    assert worst <= exponential(epsilon) * (1 + Fraction(1, 10**30))
    a = np.exp(-epsilon)
    z = np.arange(-noise.reach, noise.reach + 1)
    exact = (1 - a) / (1 + a) * a ** np.abs(z)
    near = exact > 2.0**-60
    np.testing.assert_allclose(law(noise)[near], exact[near], rtol=1e-8)
    assert np.abs(law(noise) - exact).sum() < 1e-13


def test_the_law_of_a_list_is_that_of_its_counts_clipped():
    """Drawn lists and groups, of which some hold more friends than are counted."""
    rng = np.random.default_rng(0)
    n = 12
    for _ in range(4):
        groups = rng.integers(-1, 2, n)
        friends = 1 + np.flatnonzero(rng.random(n - 1) < 0.8)
        m = NeighbourCounts(0.7, 2, n=n, groups=groups, most=3)
        counts = np.minimum([(groups[friends] == k).sum() for k in range(2)], 3)
        y = rng.integers(-5, 9, 2)
        found = float(m.log_density(y, NeighbourList.of(friends, n)))
        assert found == pytest.approx(float(m.log_likelihood(y, counts).sum()), rel=1e-5)


def test_owners_report_each_pair_once_and_silent_ones_nothing():
    silent = np.arange(12) % 3 == 0
    public = ownership(np.linspace(0, 1, 12), silent)
    ends = graphs.to_edges(RING).T
    both = public.owns(*ends).astype(int) + public.owns(*ends[::-1])
    np.testing.assert_array_equal(both, ~silent[ends].all(0))
    m = NeighbourCounts(40.0, 3)
    noisy = privatize_counts(jax.random.key(3), RING, m, np.zeros(12, int), owners=public)
    assert noisy.counts.sum() == both.sum()
    assert (noisy.counts[silent] == 0).all()
    assert noisy.guarantee[RELATIONSHIP].epsilon <= 40.0


@pytest.fixture
def by_blocks(monkeypatch):
    """Blocks of five users, and seven numbers at a time."""
    monkeypatch.setattr(whole_counts, "_DRAWN", 15)
    monkeypatch.setattr(whole_counts, "_TOGETHER", 7)


@pytest.mark.usefixtures("by_blocks")
def test_noise_by_blocks_of_users_is_that_of_each_block():
    """Bit for bit ``add_noise`` of each block by its own key, in one program or several."""
    true = count_neighbours(Population.of(RING), GROUPS % 3, 3)
    blocks = np.pad(true, ((0, 3), (0, 0))).reshape(3, 5, 3)
    m = NeighbourCounts(0.3, 3)
    whole = lambda key: privatize_counts(key, RING, m, GROUPS % 3).counts
    key = jax.random.key(2)
    with jax.debug_key_reuse(False):
        drawn = jax.jit(jax.vmap(m.add_noise))(jax.random.split(key, 3), blocks)
        for found in (whole(key), jax.jit(whole)(key)):
            np.testing.assert_array_equal(found, drawn.reshape(15, 3)[:12])
            assert found.dtype == drawn.dtype


@pytest.mark.usefixtures("by_blocks")
def test_blocks_of_users_share_no_noise():
    """At 0.01 two blocks have the same noise with probability below 1e-30."""
    m = NeighbourCounts(0.01, 3)
    true = count_neighbours(Population.of(RING), GROUPS, 3)
    noise = privatize_counts(jax.random.key(1), RING, m, GROUPS).counts - true
    assert len(np.unique(noise, axis=0)) == 12


@pytest.mark.usefixtures("untyped", "by_blocks")
def test_keys_may_be_traced():
    """Draws of a menu under jit and vmap are those of a loop over keys."""
    menu = [NeighbourCounts(epsilon, 3) for epsilon in (0.5, 2.0)]
    levels = [0] * 9 + [1] * 3
    draw = lambda key: privatize_counts(key, RING, menu, GROUPS, levels=levels).counts
    keys = jax.random.split(jax.random.key(3), 2)
    with jax.debug_key_reuse(False):
        np.testing.assert_array_equal(jax.jit(jax.vmap(draw))(keys), [draw(key) for key in keys])


def test_personal_budgets_of_a_public_menu():
    """Unused budgets cost nothing; an edge costs what its two ends lose, or its owner."""
    menu = [NeighbourCounts(epsilon, 3) for epsilon in (0.5, 40.0, 2.0)]
    odd = np.arange(12) % 2
    one = np.where(np.arange(12) == 3, 2, 0)
    order = ownership(np.arange(12.0))
    draw = lambda levels, owners=None: privatize_counts(
        jax.random.key(0), RING, menu, GROUPS, levels=levels, owners=owners
    )
    exact = draw(odd).counts == count_neighbours(Population.of(RING), GROUPS, 3)
    assert exact[odd == 1].all()  # P(any noise at 40) is below 1e-15
    assert not exact[odd == 0].all()  # P(no noise in 18 counts at 0.5) is 1e-11
    for levels, owners, edge in ((2 * odd, None, 4.0), (one, None, 2.5), (one, order, 2.0)):
        spent = draw(levels, owners).guarantee
        assert spent[NEIGHBOUR_LIST].epsilon == pytest.approx(2.0)
        assert spent[RELATIONSHIP].epsilon == pytest.approx(edge)
        assert "personal budgets" in spent.unprotected


def test_a_node_in_no_group_counts_nowhere_and_counts_end_at_most():
    star = graphs.from_edges([[0, i] for i in range(1, 9)], 9)
    groups = np.array([0] * 5 + [-1] * 4)
    m = NeighbourCounts(40.0, 2, n=9, groups=groups, most=3)
    noisy = privatize_counts(jax.random.key(4), star, m, groups)
    alone = jax.jit(m.privatize)(jax.random.key(4), NeighbourList.of(range(1, 9), 9))
    assert noisy.counts[0].tolist() == alone.tolist() == [3, 0]
    # Numbers of the host beyond 32 bits would wrap in a JAX array.
    found = m.add_noise(jax.random.key(8), np.array([2**40, -(2**40), 2, 2**31 + 1]))
    assert np.asarray(found).tolist() == [3, 0, 2, 3]


@untyped
def test_the_exact_loss_is_the_claim():
    m = CASES["NeighbourCounts"].make(16.0)
    assert m.guarantee().arithmetic == "exact"
    found = verification.privacy_loss_supremum(m).epsilon
    assert found == pytest.approx(m.guarantee().epsilon, rel=1e-9)
    for reporting, times in (("full", 2), ("half", 1)):
        claimed = m.relationship(reporting).epsilon
        found = verification.relationship_supremum(m, reporting).epsilon
        assert found == pytest.approx(claimed, rel=1e-9)
        assert claimed == pytest.approx(times * 16.0)


@pytest.mark.usefixtures("untyped")
def test_no_two_counts_share_their_noise():
    """Counts of any integer type, and of Python's, are clipped as they are; others are refused."""
    noise = whole_noise(1.0, 1000)
    words = np.zeros((4, 3), np.uint32)
    words[1:, 1:] = 2**31
    sizes = noise.report(words, [0, 0, 0])
    for counts in (np.array([1, 2, 3], np.uint8), np.array([1, 2, 3], np.uint64), [1, 2, 3]):
        np.testing.assert_array_equal(noise.report(words, counts) - sizes, [1, 2, 3])
    assert noise.report(words, [10**30, -(10**30), 0])[:2].tolist() == [1000, *sizes[1:2]]
    for few in (words[:, :1], words[:, :2]):
        with pytest.raises(ValueError, match="words must be of 3 counts"):
            noise.report(few, [1, 2, 3])


@pytest.mark.parametrize("degree", [0, 2, 3])
def test_the_reports_about_a_bit_are_all_that_a_count_may_be(degree):
    """Their masses add up to one, those of the ends of the span among them."""
    m = NeighbourCounts(0.5, 1, 4)
    numbers, sent = m.bit_reports(3)
    assert np.isnan(sent).all()
    mass = np.exp(np.asarray(m.bit_log_density(numbers, sent, degree, 1.0, 3.0), np.float64))
    assert mass.sum() == pytest.approx(1.0, abs=1e-6)
    assert (numbers[0], numbers[-1]) == m.span()
    assert (np.diff(numbers) == 1).all()


def test_a_class_that_overrides_what_one_user_reports_is_refused():
    """Its parent's counts would be drawn in place of its own."""

    class OwnCounts(NeighbourCounts):
        def privatize(self, key, neighbours, groups, own=0):
            return jnp.zeros(self.num_groups)

    class Weighed(NeighbourCounts):
        def true_counts(self, neighbours, own, groups=None):
            return 2 * super().true_counts(neighbours, own, groups)

    graph = graphs.from_edges([[0, 1]], num_nodes=3)
    menu = [NeighbourCounts(1.0, 2), OwnCounts(2.0, 2)]
    for given in (OwnCounts(1.0, num_groups=2), Weighed(1.0, num_groups=2), menu):
        with pytest.raises(ValueError, match="with its own privatize"):
            privatize_counts(jax.random.key(0), graph, given, [0, 0, 1])
