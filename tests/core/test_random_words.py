"""Draws from words: exact probabilities at the extremes, at thresholds and one word beside them."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as scipy_stats

from ldp_jax.core import random_words
from tests.stats import assert_share


def split(number, count=2):
    """A whole number below 2^(32 count) as words."""
    return np.frombuffer(number.to_bytes(4 * count, "big"), ">u4").astype(np.uint32)


def join(words):
    return int.from_bytes(np.asarray(words).astype(">u4").tobytes(), "big")


P = [2.0**-64, 1e-19, 2.0**-41, 1 / (1 + math.exp(22.9)), 1e-3, 1 / 3, 0.5, 1 - 2.0**-24]


happened = jax.jit(random_words.bernoulli_from_words)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_threshold_is_the_probability_rounded_up(count):
    """Whole-number arithmetic: ceil(p 2^(32 count)) of the float32, and so the event's exact
    probability.
    """
    for p in np.float32(P):
        numerator, denominator = float(p).as_integer_ratio()
        exact = -(-(numerator << (32 * count)) // denominator)
        assert join(random_words.threshold(p, count)) == exact
        at = np.stack([split(w, count) for w in (0, exact - 1, exact, 2 ** (32 * count) - 1)], 1)
        np.testing.assert_array_equal(happened(at, p), [True, True, False, False])
    for p, happens in ((0.0, False), (-1.0, False), (math.nan, False), (1.0, True), (2.0, True)):
        np.testing.assert_array_equal(happened(at, np.float32(p)), happens)


def test_neither_side_of_an_event_is_lost():
    """P = 1 - e^-40 is 1 in float32: with its rest, word 0 to 78 still say no, in eager and
    compiled form.
    """
    rest = np.float32(math.exp(-40.0))
    p = np.float32(1.0) - rest
    assert p == 1
    last = join(random_words.threshold(rest)) - 1
    assert last == math.ceil(float(rest) * 2**64) - 1
    at = jnp.asarray(np.stack([split(w) for w in (0, last, last + 1, 2**64 - 1)], 1))
    for run in (random_words.bernoulli_from_words, happened):
        np.testing.assert_array_equal(run(at, p, rest), [False, False, True, True])
        np.testing.assert_array_equal(run(at, rest, p), [True, True, False, False])
        np.testing.assert_array_equal(run(at, p), True)


def chances(happens, count, sign=False):
    """P(event) of events that are the small numbers W, exactly: bisection for the first W without,
    all at once.

    ``happens`` takes words [count, ...] to bool [..., events]; event e is asked of its own words
    alone.
    """
    ask = jax.jit(lambda words: jnp.diagonal(happens(words)))
    events = jax.eval_shape(happens, jax.ShapeDtypeStruct((count + sign, 1), jnp.uint32)).shape[-1]
    # The event happens below low, and not from high on; Python's integers hold all words.
    low = np.array([0] * events, object)
    high = low + 2 ** (32 * count)
    for _ in range(32 * count):
        middle = (low + high) // 2
        words = np.stack([split(w, count) for w in middle], 1)
        found = np.asarray(ask(np.pad(words, ((int(sign), 0), (0, 0)))))
        low = np.where(found, middle + 1, low)
        high = np.where(found, high, middle)
    return (low / 2 ** (32 * count)).astype(float)


@pytest.mark.parametrize("word", [0, 1, 2**31, 2**32 - 1])
def test_a_mean_of_0_has_a_count_of_0_whatever_the_words(word):
    words = jnp.full((2, 3), word, jnp.uint32)
    assert random_words.poisson_from_words(words, jnp.zeros(3)).tolist() == [0, 0, 0]


def test_counts_have_the_masses_of_poissons_law():
    """P(X > k), in whole words, to 1e-4 of itself while it has a thousand words; rarer ones are
    never lost.
    """
    means = np.float32([1e-18, 1e-9, 0.7, 4.0])

    def above(words):
        counts = random_words.poisson_from_words(words[..., None], means)
        return (counts[..., None] > jnp.arange(12)).reshape(len(counts), -1)

    for mean, found in zip(means, chances(above, 2).reshape(-1, 12), strict=True):
        law = scipy_stats.poisson.sf(np.arange(12), float(mean))
        often = law > 1000 * 2.0**-64
        np.testing.assert_allclose(found[often], law[often], rtol=1e-4)
        np.testing.assert_allclose(found[~often], law[~often], rtol=0.1, atol=1.01 * 2.0**-64)
        assert found[0] >= law[0] * (1 - 1e-4)


def test_whole_noise_has_the_masses_of_its_law():
    """P(|z| >= k) in whole words of 224 bits, to 1e-4 of itself: noise is there at 17 and at
    100.
    """
    epsilons = np.array([1e-3, 17.0, 100.0])
    k = np.arange(1, 6)

    def beyond(words):
        noise = random_words.geometric_from_words(words[..., None], np.float32(epsilons))
        return (jnp.abs(noise)[..., None] >= k).reshape(len(noise), -1)

    for epsilon, found in zip(epsilons, chances(beyond, 7, sign=True).reshape(-1, 5), strict=True):
        a = np.exp(-epsilon)
        law = 2 * a**k / (1 + a)
        often = law > 1e-60
        assert often[0]
        np.testing.assert_allclose(found[often], law[often], rtol=1e-4)
        assert (found[~often] < 1e-59).all()


def test_laplace_noise_has_the_tail_of_its_law():
    """P(|z| > t) to 1e-4 of itself up to 140 scales; words of zeros and ones give the largest and
    the smallest.
    """
    t = np.array([1e-3, 1.0, 16.0, 44.0, 88.0, 140.0])
    beyond = lambda w: jnp.abs(random_words.laplace_from_words(w))[..., None] > t
    found = chances(beyond, 7, sign=True)
    np.testing.assert_allclose(found, np.exp(-t), rtol=1e-4)
    words = np.zeros((8, 4), np.uint32)
    words[0, 1], words[:, 2], words[-1, 3] = 1, 2**32 - 1, 3  # the last is (3 + 1/2) 2^-224
    most = 225 * math.log(2)
    ends = [most, -most, 0.0, 224 * math.log(2) - math.log(3.5)]
    found = jax.jit(random_words.laplace_from_words)(words)
    np.testing.assert_allclose(found, ends, rtol=1e-6, atol=1e-6)


def test_numbers_below_a_bound_are_those_of_randint():
    """Bit for bit, of bounds that divide 2^32 or not, above 2^16 too: what a release draws of its
    words stays.
    """
    bounds = np.int32([1, 2, 3, 7, 896, 4714, 2**16, 2**16 + 1, 10**6, 2**31 - 1])

    @jax.jit
    def both(key):
        wanted = jax.random.randint(jax.random.clone(key), bounds.shape, 0, bounds, dtype=jnp.int32)
        draw = lambda key: random_words.words(key, bounds.shape, 1)[0]
        high, low = jax.vmap(draw)(jax.random.split(key))
        return random_words.below_from_words(high, low, bounds), wanted

    np.testing.assert_array_equal(*both(jax.random.key(7)))


def test_remainders_are_those_of_whole_numbers():
    """Beside multiples of a bound, where a quotient of float32 may be one off; small, large and odd
    bounds.
    """
    bounds = np.concatenate([np.arange(1, 70), np.geomspace(70, 2**31 - 1, 400)])
    bounds = bounds.astype(np.int64)[:, None]
    quotients = np.concatenate([np.arange(4), np.geomspace(4, 2**32, 300)]).astype(np.int64)
    words = bounds * np.concatenate(
        [quotients % (2**32 // bounds + 1), 2**32 // bounds - np.arange(2)], 1
    )
    words = np.concatenate([words - 1, words, words + 1], 1).clip(0, 2**32 - 1)
    small = words.astype(np.uint32), bounds.astype(np.int32)
    found = jax.jit(random_words.below_from_words)(np.uint32(0), *small)
    np.testing.assert_array_equal(found, words % bounds)


def test_numbers_of_two_words_are_taken_below_every_bound():
    """100 000 drawn pairs of words and bounds up to 2^16, and the largest words."""
    rng = np.random.default_rng(0)
    high, low = rng.integers(0, 2**32, (2, 100_000), np.uint32)
    high[:20_000], low[10_000:30_000] = 2**32 - 1, 2**32 - 1
    bounds = np.exp2(rng.uniform(0, 16, 100_000)).astype(np.int32)
    found = jax.jit(random_words.below_from_words)(high, low, bounds)
    whole = high.astype(np.uint64) << np.uint64(32) | low
    np.testing.assert_array_equal(found, whole % bounds.astype(np.uint64))


@pytest.mark.parametrize(("seed", "end"), [(70, -1), (87, 1)])
def test_normal_tails_are_drawn_and_nothing_else_is_moved(seed, end):
    """Keys whose numbers hold an end; each place in the tail to 1e-3 of its mass, down to
    e^-170.
    """
    key = jax.random.key(seed)
    size = (6000,)
    body = np.asarray(jax.random.normal(key, size))
    found = np.asarray(random_words.normal(jax.random.clone(key), size))
    far = end * body > 5.14
    assert far.sum() == 1
    assert (found[~far] == body[~far]).all()
    assert end * found[far] > 5.166
    assert abs(found[far] - body[far]) > 1e-3
    away = np.float32([0.0, 0.5, 3.0, 50.0, 154.0])
    place = np.asarray(random_words.with_tails(np.full(5, body[far]), away), np.float64)
    tail = scipy_stats.norm.logsf(end * place)
    np.testing.assert_allclose(tail, -23 * math.log(2) - away, atol=1e-3)


def test_places_of_users_count_those_of_their_label_in_a_random_order():
    """Each label's users have the places 0, 1, 2, ...; any of them is first as often."""
    labels = np.array([2, 0, 2, -1, 2, 0, -1, 7, 2, 0])
    keys = jax.random.split(jax.random.key(3), 400)
    places = np.stack([random_words.places_within(key, labels) for key in keys])
    for label in np.unique(labels):
        mine = places[:, labels == label]
        size = mine.shape[1]
        np.testing.assert_array_equal(np.sort(mine, 1), np.tile(np.arange(size), (400, 1)))
        for column in mine.T:
            assert_share((column == 0).sum(), 400, 1 / size)
