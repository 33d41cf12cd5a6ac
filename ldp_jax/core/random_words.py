"""Draws from explicit random bits, exact where a probability is small.

The bits come in words of 32. A float32 uniform has 23 bits: an event of probability 1e-8 never
happens. Here an event is a comparison of whole numbers. k uniform 32-bit words are one number W
below 2^(32 k), most significant word first. A float32 probability p becomes the threshold ceil(p
2^(32 k)), and the event is W below it. P(event) is p exactly wherever p 2^(32 k) is whole (for two
words from p = 2^-41 on), else above p by less than 2^(-32 k): the rarest event of two words has
probability 5.4e-20. Each draw has a form that takes its words, so that arithmetic can be asked
without a key. Every draw is monotone in W, but for the sign of two-sided noise, the last bit of the
first word.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import random, validate
from ldp_jax.core.types import Array, ArrayLike, PRNGKey, Values

_WORD = np.float32(2.0**32)

NOISE_WORDS = 8
"""Words of two-sided noise: a sign, and 224 bits, so that it reaches 155 scales; its budgets end at
100.
"""

_STEPS = 12  # of Newton's method
_LOG_ROOT_2_PI = np.float32(0.5 * math.log(2 * math.pi))
_LAST = np.float32(5.1665782)  # beyond is a normal tail of mass 2^-23
_TAIL = 0x7461696C  # folded into a key, for the draw of the tail

_MOST = 40
"""The most that a Poisson count of a mean up to 4 can be: P(more) is 1e-26, below every word."""


def words(key: PRNGKey, shape: tuple[int, ...] = (), count: int = 2) -> Array:
    """Draw random bits; uint32 [count, *shape], the most significant word first."""
    return random.bits(key, (count, *shape), jnp.uint32)


def words_at(key: PRNGKey, place: ArrayLike) -> Array:
    """Return the words at places below 2^32 of those that ``jax.random.bits`` draws; uint32.

    >>> key, same = jax.random.key(0), jax.random.key(0)
    >>> bool(
    ...     (
    ...         words_at(key, jnp.arange(3))
    ...         == jax.random.bits(same, (7,), jnp.uint32)[:3]
    ...     ).all()
    ... )
    True
    """
    place = jnp.asarray(place, jnp.uint32)
    high, low = random.threefry(jax.random.key_data(key), jnp.zeros_like(place), place)
    return high ^ low


@partial(jax.jit, static_argnames="num")
def split(key: PRNGKey, num: int = 2) -> tuple[PRNGKey, ...]:
    """``jax.random.split``, as a tuple and one program."""
    return tuple(random.split(key, num))


def threshold(p: ArrayLike, count: int = 2) -> Array:
    """Return ceil(p 2^(32 count)) of a float32 p in [0, 1); uint32 [count, *p.shape].

    At least 1 for p >= 2^-126, and 0 for p <= 0 and NaN; at p >= 1, which would be one word too
    long, 0 too.

    >>> [threshold(p).tolist() for p in (0.75, 2.0**-64, 1e-30, 0.0)]
    [[3221225472, 0], [0, 1], [0, 1], [0, 0]]
    """
    p = jnp.asarray(p, jnp.float32)
    # Times a power of two, floor and the difference to it are exact in float32.
    rest = jnp.where((p > 0) & (p < 1), p, 0.0)
    digits = []
    for place in range(count):
        scaled = rest * _WORD
        whole = jnp.ceil(scaled) if place == count - 1 else jnp.floor(scaled)
        digits.append(whole.astype(jnp.uint32))
        rest = scaled - whole
    return jnp.stack(digits)


def less(a: Array, b: Array) -> Array:
    """Return whether a < b, of numbers in words [count, ...]; elementwise."""
    found = a[-1] < b[-1]
    for place in range(len(a) - 2, -1, -1):
        found = (a[place] < b[place]) | ((a[place] == b[place]) & found)
    return found


def bernoulli_from_words(word: ArrayLike, p: ArrayLike, rest: ArrayLike | None = None) -> Array:
    """Return whether an event of probability p happens under random bits uint32 [count, ...].

    Elementwise. p <= 0 and NaN never happen, p >= 1 always. ``rest`` is 1 - p, without
    cancellation, where p may be 1 in float32: above 1/2 the event is that the rest does not happen,
    so that neither side is ever lost.

    >>> tiny = jnp.float32(1e-12)
    >>> bernoulli_from_words(jnp.zeros(2, jnp.uint32), tiny).item()
    True
    >>> first = jnp.uint32([0, 0])
    >>> bernoulli_from_words(first, 1 - tiny).item()
    True
    >>> bernoulli_from_words(first, 1 - tiny, tiny).item()
    False
    """
    word = jnp.asarray(word, jnp.uint32)
    p = jnp.asarray(p, jnp.float32)
    if rest is None:
        return less(word, threshold(p, len(word))) | (p >= 1)
    rest = jnp.asarray(rest, jnp.float32)
    above = p > 0.5
    rare = jnp.where(above, rest, p)
    return less(word, threshold(rare, len(word))) ^ above


def bernoulli(key: PRNGKey, p: ArrayLike, rest: ArrayLike | None = None) -> Array:
    """Draw independent events of probability p, from two words each; bool."""
    return bernoulli_from_words(words(key, jnp.shape(p)), p, rest)


def below_from_words(high: Array, low: Array, bound: ArrayLike) -> Array:
    """Return (2^32 high + low) mod bound as ``jax.random.randint`` computes it; int32.

    Products are taken mod 2^32, which matters for bounds above 2^16.

    >>> high, low = jnp.uint32([1, 0]), jnp.uint32([5, 7])
    >>> below_from_words(high, low, jnp.int32([10, 4])).tolist()  # 2^32 is 6 mod 10
    [1, 3]
    """
    bound = jnp.asarray(bound).astype(jnp.uint32)
    carry = jax.lax.rem(jnp.full_like(bound, 2**16), bound)
    carry = jax.lax.rem(carry * carry, bound)
    total = _remainder(high, bound) * carry + _remainder(low, bound)
    return _remainder(total, bound).astype(jnp.int32)


def _remainder(word: Array, bound: Array) -> Array:
    """Return word mod bound, of bounds up to 2^31.

    A CPU divides whole numbers one by one, and float32 many at a time. The inverse is 2^-21 too
    small, more than all that is rounded: no quotient is too large. The first leaves less than bound
    + 2^12 of a word, the second less than 2 bound.
    """
    inverse = np.float32(1 - 2.0**-21) / bound.astype(jnp.float32)
    for _ in range(2):
        word = word - (word.astype(jnp.float32) * inverse).astype(jnp.uint32) * bound
    # Mod 2^32 the second is large where it would be below 0.
    return jnp.minimum(word, word - bound)


def fraction(word: ArrayLike) -> Array:
    """Return W 2^(-32 count) of words [count, ...] in float32; small ones keep their precision.

    The smallest is 0, for W = 0: so ``fraction(words) < p`` is possible for each p > 0.
    """
    word = jnp.asarray(word, jnp.uint32)
    total = jnp.zeros(word.shape[1:], jnp.float32)
    for digit in word[::-1]:
        total = (total + digit.astype(jnp.float32)) / _WORD
    return total


def exponential_from_words(word: ArrayLike) -> Array:
    """Return the exponential -log U of U = (W + 1/2) 2^(-32 count), up to 22.18 count + 0.69.

    Float32. Precise in the tail: P(E > t) is e^-t to about 1e-5 of it, until fewer than a few
    thousand W are left.

    >>> exponential_from_words(jnp.zeros(4, jnp.uint32)).item()  # 129 log 2
    89.41598...
    """
    word = jnp.asarray(word, jnp.uint32)
    # The first word that is not 0 (the last, if all are), the one after it, and how many were
    # skipped.
    nothing = jnp.zeros(word.shape[1:], jnp.uint32)
    first = word[0]
    second = word[1] if len(word) > 1 else nothing
    skipped = jnp.zeros(nothing.shape, jnp.float32)
    for place in range(1, len(word)):
        empty = first == 0
        following = word[place + 1] if place + 1 < len(word) else nothing
        second = jnp.where(empty, following, second)
        first = jnp.where(empty, word[place], first)
        skipped = skipped + empty.astype(jnp.float32)
    rest = (second.astype(jnp.float32) + 0.5) / _WORD
    rest = jnp.where(skipped == len(word) - 1, 0.5, rest)
    head = jnp.log((first.astype(jnp.float32) + rest) / _WORD)
    return skipped * np.float32(32 * math.log(2)) - head


def laplace_from_words(word: ArrayLike) -> Array:
    """Draw Laplace noise of scale 1 from words [count, ...]: a sign, and an exponential."""
    word = jnp.asarray(word, jnp.uint32)
    return _signed(word[0], exponential_from_words(word[1:]))


def laplace(key: PRNGKey, shape: tuple[int, ...] = ()) -> Array:
    """Draw independent Laplace noise of scale 1, up to 155 in absolute value; float32."""
    return laplace_from_words(words(key, shape, NOISE_WORDS))


def geometric_from_words(word: ArrayLike, epsilon: ArrayLike) -> Array:
    r"""Draw discrete Laplace noise, :math:`P(z) \propto e^{-\epsilon |z|}`; float32, elementwise.

    With a = e^-epsilon, P(|z| >= k) = 2 a^k / (1 + a) for k >= 1: to about 1e-5 of it down to 1e-60
    of eight words.

    >>> geometric_from_words(jnp.zeros(8, jnp.uint32), 100.0).item()
    1.0
    """
    word = jnp.asarray(word, jnp.uint32)
    epsilon = jnp.asarray(epsilon, jnp.float32)
    lead = -jnp.log1p(jnp.expm1(-epsilon) / 2)  # log(2 / (1 + a))
    size = jnp.floor((exponential_from_words(word[1:]) + lead) / epsilon)
    return _signed(word[0], size)


def geometric(key: PRNGKey, epsilon: ArrayLike, shape: tuple[int, ...] = ()) -> Array:
    """Draw independent discrete Laplace noise of a shape to which epsilon broadcasts; float32."""
    return geometric_from_words(words(key, shape, NOISE_WORDS), epsilon)


def _signed(word: Array, size: Array) -> Array:
    return jnp.where(word & 1 == 0, size, -size)


@partial(jax.jit, inline=True)  # an eager loop is compiled at each call
def beyond(least: ArrayLike, exponential: ArrayLike) -> Array:
    """Return the number whose normal tail is e^-exponential times that beyond ``least`` > 0.

    >>> round(float(beyond(5.0, 0.0)), 4), round(float(beyond(5.0, 100.0)), 2)
    (5.0, 14.93)
    """
    least = jnp.asarray(least, jnp.float32)
    log_tail = jax.scipy.special.log_ndtr
    target = log_tail(-least) - exponential

    def step(_: Array, z: Array) -> Array:  # the tail is concave, and the start beyond the root
        here = log_tail(-z)
        log_density = -0.5 * z**2 - _LOG_ROOT_2_PI
        slope = jnp.exp(log_density - here)
        return jnp.maximum(z + (here - target) / slope, least)

    return jax.lax.fori_loop(0, _STEPS, step, jnp.sqrt(least**2 + 2 * exponential))


def with_tails(body: ArrayLike, exponential: ArrayLike) -> Array:
    """Spread the ends of ``jax.random.normal``, of mass 2^-23 each, over their tails."""
    body = jnp.asarray(body)
    far = (body < -5.27) | (body > 5.14)  # between the last two values of either side
    return jnp.where(far, jnp.sign(body) * beyond(_LAST, exponential), body)


def normal(key: PRNGKey, shape: tuple[int, ...], tails: tuple[int, ...] | None = None) -> Array:
    """Draw ``jax.random.normal``, with its ends at -5.4 and 5.2 moved; float32.

    Numbers reach 18, beyond which is a mass of 1e-75. Some may share their place in the tail beyond
    5.17: ``tails`` is the shape of its draws.
    """
    tail_key = random.fold_in(key, _TAIL)
    word = words(tail_key, shape if tails is None else tails, NOISE_WORDS - 1)
    body = random.normal(key, shape, jnp.float32)
    return with_tails(body, exponential_from_words(word))


def poisson_from_words(word: ArrayLike, mean: ArrayLike) -> Array:
    """Draw Poisson counts of means up to 4 by inverting the survival function; int32.

    P(X > k) is summed from its tail and keeps its relative precision, about 1e-5, however small the
    mean.

    >>> bool(poisson_from_words(jnp.zeros(2, jnp.uint32), 1e-18) > 0)
    True
    """
    u = fraction(word)
    mean = jnp.asarray(mean, jnp.float32)
    mass = [jnp.exp(-mean)]
    for k in range(1, _MOST + 1):
        mass.append(mass[-1] * mean / k)
    count = jnp.zeros(jnp.broadcast_shapes(u.shape, mean.shape), jnp.int32)
    above = jnp.zeros_like(mean)
    for k in range(_MOST, 1, -1):
        above = above + mass[k]
        count = count + (u < above)
    return count + (u < -jnp.expm1(-mean))


def poisson(key: PRNGKey, mean: ArrayLike) -> Array:
    """Draw independent Poisson counts of means up to 4, from two words each; int32."""
    return poisson_from_words(words(key, jnp.shape(mean)), mean)


def order_within(key: PRNGKey, labels: Values) -> np.ndarray:
    """Order users by label [n], those of one label at random, by public randomness; int64."""
    at_random = np.asarray(random.uniform(key, np.shape(labels)))
    return np.lexsort((at_random, np.asarray(labels)))


def places_within(key: PRNGKey, labels: Values) -> np.ndarray:
    """Return the place of each user in :func:`order_within` among users of one label; int64."""
    labels = np.asarray(labels)
    order = order_within(key, labels)
    in_order = labels[order]
    first = np.searchsorted(in_order, in_order)
    place = np.empty(len(labels), np.int64)
    place[order] = np.arange(len(labels)) - first
    return place


def some_of(key: PRNGKey, share: float, among: np.ndarray) -> np.ndarray:
    """Draw ``share`` of the users ``among``, bool [n], rounded; those of a smaller share are in it.

    >>> int(some_of(jax.random.key(0), 0.5, np.arange(9) < 4).sum())
    2
    """
    validate.number(0.0, 1.0, share=share)
    asked = np.flatnonzero(among)
    order = np.asarray(random.permutation(key, len(asked)))
    chosen = np.zeros(len(among), bool)
    chosen[asked[order[: round(share * len(asked))]]] = True
    return chosen
