"""What shuffling saves, against the enumeration of every data set and of every multiset of
reports.
"""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from ldp_jax.accounting import composition, shuffle
from ldp_jax.accounting.gaussian import GaussianCurve
from ldp_jax.accounting.guarantee import LABEL, RECORD, WORDS, Guarantee
from ldp_jax.accounting.shuffle import amplified, clone_share
from tests.accounting.parts import proved


def shuffled(law, records):
    """The law of the multiset of reports of users with these records: probabilities by counts of
    each output.
    """
    found = {(0,) * law.shape[1]: 1.0}
    for x in records:
        new = Counter()
        for counts, mass in found.items():
            for y, p in enumerate(law[x]):
                new[(*counts[:y], counts[y] + 1, *counts[y + 1 :])] += mass * p
        found = new
    return found


def true_delta(law, n, epsilon, first=None):
    """The largest hockey-stick divergence over all sets of n records that differ in the first
    user's.
    """
    worst = 0.0
    for others in itertools.combinations_with_replacement(range(len(law)), n - 1):
        made = [shuffled(law, (x, *others)) for x in first or range(len(law))]
        for p, q in itertools.permutations(made, 2):
            worst = max(
                worst,
                sum(max(0.0, mass - math.exp(epsilon) * q.get(y, 0.0)) for y, mass in p.items()),
            )
    return worst


def rounded_law(epsilon, k):
    law = np.ones((k, k)) + np.diag(np.full(k, math.expm1(epsilon)))
    return law / law.sum(1, keepdims=True)


UNEVEN = np.array([[0.5, 0.3, 0.2], [0.25, 0.15, 0.6], [0.3, 0.4, 0.3]])


@pytest.mark.parametrize("delta", [1e-4, 0.02])
@pytest.mark.parametrize(
    ("law", "users"), [(rounded_law(3.0, 2), 5), (rounded_law(1.5, 3), 4), (UNEVEN, 4)]
)
def test_no_data_set_is_told_apart_by_more(law, users, delta):
    """All of them enumerated; a twin that takes everybody for a clone promises less than the
    truth.
    """
    own = float(np.log((law.max(0) / law.min(0)).max())) * (1 + 1e-12)
    share = clone_share(law)
    assert math.exp(-own) <= share <= 1.0
    any_mechanism = amplified(proved(own), users, delta, reports="anonymous")
    this_one = amplified(proved(own), users, delta, reports="anonymous", clones=share)
    for found in (any_mechanism, this_one):
        assert true_delta(law, users, found.epsilon) <= delta
    assert this_one.epsilon <= any_mechanism.epsilon <= own
    twin = shuffle._epsilon(own, users, 1.0, delta)
    assert true_delta(law, users, twin) > delta or own < 1.2


def test_adjacent_records_alone_need_the_clones_of_all():
    """Others may hold hours that are far from both: taken for clones at e^-1, they promise less
    than the truth.
    """
    away = np.abs(np.arange(12)[:, None] - np.arange(12))
    law = np.exp(-1.0 * np.minimum(away, 12 - away))
    law /= law.sum(1, keepdims=True)
    step = proved(1.0, adjacency="two hours that follow each other")
    # A report of any two records: both together are still about adjacent ones.
    beside = proved(1e-9)
    others = (
        *("any two hours that follow each other", WORDS[LABEL], "any two adjacent hours"),
        *("any two neighboring hours", "any two adjoining hours", "any two successive hours"),
        *("any two hours one step away", "any two hours within 1", "any two hours up to 1 apart"),
        *("any two records with the same class", "any two records that share a class"),
        *("any two records that agree in their class", "any two records of equal age"),
    )
    for least in (
        step,
        composition.sampled(step, 1, 2),
        composition.over_rounds(step, 1, answers="fresh"),
        beside + step,
        step + beside,
        composition.parallel(beside, step),
        *(proved(1.0, adjacency=words) for words in others),
    ):
        with pytest.raises(ValueError, match="between any two records"):
            amplified(least, 4, 0.1, reports="anonymous")
    found = amplified(step, 4, 0.1, reports="anonymous", clones=clone_share(law)).epsilon
    assert true_delta(law, 4, found, first=(0, 1)) <= 0.1
    twin = amplified(proved(1.0), 4, 0.1, reports="anonymous").epsilon
    assert true_delta(law, 4, twin, first=(0, 1)) > 0.15


def exact_delta(own, n, share, epsilon):
    """The bound's divergence as it is defined, by enumeration in fractions."""
    keep = 1 - 1 / (1 + Fraction(math.exp(own)))
    each = Fraction(share)
    odds = Fraction(math.exp(epsilon))
    total = Fraction(0)
    for c in range(n):
        mass = math.comb(n - 1, c) * each**c * (1 - each) ** (n - 1 - c)
        fair = [Fraction(math.comb(c, a), 2**c) for a in range(c + 1)]
        first = [
            keep * one + (1 - keep) * other
            for one, other in zip([0, *fair], [*fair, 0], strict=True)
        ]
        total += mass * sum(
            max(Fraction(0), p - odds * q) for p, q in zip(first, first[::-1], strict=True)
        )
    return float(total)


@pytest.mark.parametrize(("own", "n"), [(0.3, 1), (0.3, 40), (2.0, 30), (49.0, 3)])
def test_the_bound_is_the_divergence_of_its_two_laws(own, n):
    """Rounded up by a hundred-thousandth at most."""
    for share in (math.exp(-own), 2 / (math.exp(own) + 1)):
        for delta in (1e-7, 1e-3, 0.1):
            found = amplified(proved(own), n, delta, reports="anonymous", clones=share).epsilon
            assert exact_delta(own, n, share, found) <= delta * (1 + 1e-9)
            if found > 0.0:
                assert exact_delta(own, n, share, found - 1e-5) > delta


@pytest.mark.parametrize("intervals", [2, 5, 11])
def test_intervals_of_clones_round_to_the_safe_side(intervals, monkeypatch):
    """Few intervals stand for all numbers of clones: what they promise holds, and is at most
    own.
    """
    rng = np.random.default_rng(intervals)
    for _ in range(12):
        own = rng.uniform(0.2, 3.0)
        n = int(rng.integers(2, 40))
        delta = 10 ** rng.uniform(-6, -1)
        monkeypatch.setattr(shuffle, "_INTERVALS", intervals)
        found = amplified(proved(own), n, delta, reports="anonymous").epsilon
        assert exact_delta(own, n, math.exp(-own), found) <= delta * (1 + 1e-9)
        assert found <= own


@pytest.mark.parametrize("seed", range(40))
def test_an_interval_has_its_own_probability_and_stands_for_its_least_number_of_clones(seed):
    """Never more clones than there are; single numbers where they are few."""
    rng = np.random.default_rng(seed)
    others = int(10 ** rng.uniform(0, 6))
    share = float(rng.choice([1e-6, rng.random(), 1 - 1e-3]))
    counts, masses = shuffle._clones(others, share, 10.0 ** rng.uniform(-12, -1))
    law = stats.binom(others, share)
    assert counts[0] == 0
    np.testing.assert_array_equal(counts, np.unique(counts.round()))
    assert counts[-1] <= others
    above = np.append(law.sf(counts[1:] - 1), 0.0)  # of the numbers from the next interval on
    np.testing.assert_allclose(masses[::-1].cumsum()[::-1][1:], above[:-1], atol=1e-12)
    assert masses.sum() == pytest.approx(1.0, abs=1e-12)
    middle = np.diff(counts)[1:]
    assert not len(middle) or middle.max() <= max(1, 13 * law.std() / 2000 + 1)


def test_more_users_cost_less_and_more_epsilon_costs_more():
    def epsilon(own=1.0, users=10**5, delta=1e-8):
        return amplified(proved(own), users, delta, reports="anonymous").epsilon

    for values in (
        [epsilon(own) for own in (0.0, 1.0, 11.0)],
        [epsilon(users=n) for n in (10**9, 1000, 1)],
        [epsilon(delta=delta) for delta in (1e-3, 1e-12)],
    ):
        assert values == sorted(values)
        assert len(set(values)) == len(values)
    # Of many users: a coin of weight tanh(1 / 2) hidden among n / e fair ones is Gaussian.
    limit = GaussianCurve(2 * math.tanh(0.5) / math.sqrt(10**9 * math.exp(-1.0)))
    assert epsilon(users=10**9) == pytest.approx(limit.guarantee(1e-8).epsilon, rel=0.001)


def test_what_it_says():
    found = amplified(proved(1.0, arithmetic="exact"), 1000, 1e-6, reports="anonymous")
    assert (found.trust, found.unit, found.delta) == ("shuffled", RECORD, 1e-6)
    assert found.arithmetic == "exact"
    assert "1000 records" in found.adjacency
    for own in (0.0, 50.5, 700.0):  # nothing is lost, and next to nobody is a clone
        assert amplified(proved(own), 1000, 1e-6, reports="anonymous").epsilon == own
    assert found.reason == f"clones among shuffled reports; {proved(1.0).reason}"
    assert (found + found).trust == "shuffled"
    assert amplified(Guarantee(1.0), 1000, 1e-6, reports="anonymous").status == "none"


def test_the_share_of_clones_is_the_least_over_pairs_of_rows_and_outputs():
    """Of 400 drawn tables, in fractions; a share that is off by one part in 1e12 is seen."""
    rng = np.random.default_rng(0)
    for _ in range(400):
        inputs = rng.integers(2, 6)
        outputs = rng.integers(1, 6)
        law = rng.multinomial(60, rng.dirichlet(np.full(outputs, 0.6), inputs))
        rows = [[Fraction(int(mass)) for mass in row] for row in law]
        shares = [
            2 * min(row[y] for row in rows) / (one[y] + other[y])
            for one, other in itertools.combinations(rows, 2)
            for y in range(outputs)
            if one[y] + other[y]
        ]
        exact = min(shares)
        found = clone_share(law)
        assert exact * (1 - Fraction(1, 10**12)) <= Fraction(found) <= exact
        assert clone_share(law[::-1]) == clone_share(law[:, ::-1]) == clone_share(7 * law) == found
