"""What the game about two records chooses and counts, by loops and by SciPy."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from ldp_jax.edges import RandomizedResponse
from ldp_jax.features import HDS, LaplaceVector
from ldp_jax.verification import game
from ldp_jax.verification.game import Views

PAIRS, EACH = 3, 70


def drawn(seed):
    """Views of either record's reports about three pairs, a bit, and what it is not.

    Numbers are of few values, of many, and of one value among many.
    """
    rng = np.random.default_rng(seed)

    def side(shift):
        few = rng.integers(0, 5, PAIRS * EACH) + rng.binomial(1, shift, PAIRS * EACH)
        many = rng.normal(shift, 1.0, PAIRS * EACH)
        atom = np.where(rng.random(PAIRS * EACH) < 0.1 + shift / 2, 0.25, many)
        bit = rng.random(PAIRS * EACH) < 0.2 + shift / 2
        numbers = {"few": few.astype(float), "many": many, "atom": atom}
        return Views(numbers, {"bit": bit, "not": ~bit})

    return side(0.0), side(0.5)


def of_pair(views, pair):
    rows = slice(pair * EACH, (pair + 1) * EACH)
    some = lambda those: {name: column[rows] for name, column in those.items()}
    return Views(some(views.numbers), some(views.bits))


def difference(hits, others, allowed=0.0):
    return hits - 1.5 * others - 100.0 * allowed


@pytest.mark.parametrize("seed", range(4))
def test_the_most_suspicious_event_is_the_best_of_a_loop_and_holds_what_is_counted(seed):
    """Windows of 2^k of the ordered reports, from each multiple of 2^k, and all thresholds."""
    views = drawn(seed)
    (found,) = game.most_suspicious(views, PAIRS, [difference])
    events = {(event.view, event.pair): event for event in found}
    assert {event.view for event in found} == {"few", "many", "atom", "bit", "not"}
    assert len(events) == 5 * PAIRS
    for (name, pair), event in events.items():
        sides = [of_pair(side, pair) for side in views]
        counts = [game.count(event, side) for side in sides]
        ahead, behind = counts if event.forward else counts[::-1]
        assert event.score == difference(ahead, behind), event
        best = -math.inf
        if name in ("bit", "not"):
            ones = [side.bits[name].sum() for side in sides]
            for hits in (ones, [EACH - one for one in ones]):
                best = max(best, difference(*hits), difference(*hits[::-1]))
        else:
            mine, others = (side.numbers[name] for side in sides)
            every = np.append(np.sort(np.append(mine, others)), np.inf)
            windows = [(0, end) for end in range(2 * EACH + 1)]
            windows += [(start, 2 * EACH) for start in range(2 * EACH + 1)]
            for width in (1, 2, 4, 8, 16, 32, 64):
                starts = range(0, 2 * EACH - width + 1, width)
                windows += [(start, start + width) for start in starts]
            for low, high in {(every[start], every[end]) for start, end in windows}:
                hits = [int(((side >= low) & (side < high)).sum()) for side in (mine, others)]
                if sum(hits) >= 12:
                    best = max(best, difference(*hits), difference(*hits[::-1]))
        assert event.score == best, event


def test_events_come_in_the_order_of_their_scores():
    (found,) = game.most_suspicious(drawn(0), PAIRS, [difference])
    scores = [event.score for event in found]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) > 5


def test_so_many_draws_are_made_that_their_numbers_fit_into_memory():
    """2^25 numbers, of a vector's coordinates or of what is sent, whichever are more."""
    most = 2**25
    assert game.affordable(LaplaceVector(1.0, 300), 10**9) == most // 600  # and their places
    assert game.affordable(HDS(1.0, 3000, 2), 10**9) == most // 3000
    assert game.affordable(RandomizedResponse(1.0, 6), 10**9) == most // 8
    assert game.affordable(HDS(1.0, 3000, 2), 2000) == 2000
    assert game.affordable(LaplaceVector(1.0, 100_000), 10**9) == 1000


def test_last_bits_are_allowed_what_float32_may_cause():
    assert game.allowed_in("last bit 3 of 0") == 1.0
    assert game.allowed_in("bit 3 of 0") == game.allowed_in("number 0") == 0.0
    mine, others = drawn(1)
    renamed = lambda bits: {"last bit 0 of 0": bits["bit"], "not": bits["not"]}
    both = [side._replace(bits=renamed(side.bits)) for side in (mine, others)]
    (plain,) = game.most_suspicious((mine, others), PAIRS, [difference])
    (last,) = game.most_suspicious(both, PAIRS, [difference])
    score = {(event.view, event.pair): event.score for event in plain}
    for event in last:
        if event.view == "last bit 0 of 0":
            assert event.score == pytest.approx(score["bit", event.pair] - 100.0)
        else:
            assert event.score == score[event.view, event.pair]


@pytest.mark.parametrize(("claim", "allowed"), [(0.0, 0.0), (0.7, 0.0), (0.7, 1.0), (3.0, 0.0)])
def test_suspicion_is_the_divergence_of_chernoffs_bound(claim, allowed):
    """Reports times KL(share, e^loss / (1 + e^loss)), where the share is above it."""
    hits, others = (np.ravel(part) for part in np.indices((40, 9)))
    found = game._suspicion(hits, others, claim=claim, spare=2.0, allowed=allowed)
    likely = 1 / (1 + math.exp(-claim - allowed))
    for one, other, score in zip(np.maximum(hits - 2.0, 0.0), others, found, strict=True):
        total = one + other
        expected = 0.0
        if total and one / total > likely:
            expected = total * stats.entropy([one, other], [likely, 1 - likely])
        assert score == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("n", [12, 500])
def test_likely_bounds_are_those_of_wilson(n):
    """SciPy's interval of the same confidence."""
    delta, z = 0.01, 2.0
    confidence = 2 * stats.norm.cdf(z) - 1
    for hits, others in itertools.product((n // 4, n // 2, n), (0, 1, n // 3)):
        low = stats.binomtest(hits, n).proportion_ci(confidence, method="wilson").low
        high = stats.binomtest(others, n).proportion_ci(confidence, method="wilson").high
        given = np.array([hits]), np.array([others])
        found = game._likely_bound(*given, n=n, z=z, delta=delta, allowed=0.25)
        np.testing.assert_allclose(found, math.log((low - delta) / high) - 0.25, rtol=1e-6)


@pytest.mark.parametrize("claim", [0.1, 1.0, 4.0])
def test_the_smallest_leak_is_shown_and_half_of_it_is_not(claim):
    """A report that its record alone gives so often: by Clopper and Pearson's bounds."""
    confidence = 1 - 1e-6
    everywhere, somewhere, pairs = game.smallest_leaks(200_000, claim, confidence)
    alpha = (1 - confidence) / 64
    bound = lambda mass: game._bound(round(mass * 100_000), 0, 100_000, alpha, 0.0)
    assert bound(everywhere) > claim
    assert bound(0.95 * everywhere) < claim
    assert everywhere <= somewhere <= 1.0
    assert pairs == game.round_sizes(200_000, claim)[0][0]
    # One that the first round may pass over is seldom above all pairs of honest reports.
    each = game.round_sizes(200_000, claim)[0][1]
    honest = math.exp(-somewhere * each * math.log1p(math.exp(-claim)))
    assert honest <= 1.001 / (pairs * each)
    assert game.smallest_leaks(200_000, 40.0, confidence)[0] == 1.0
