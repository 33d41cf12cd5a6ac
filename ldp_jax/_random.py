"""Draws from explicit random words, exact where a probability is small.

A float32 uniform has 23 bits: an event of probability 1e-8 never happens, and one of 1e-6 has another probability.
Here an event is a comparison of whole numbers. k uniform 32-bit words are one number W below 2^(32 k), most
significant word first; a float32 probability p becomes the threshold ceil(p 2^(32 k)), and the event is W below it.
So P(event) is p exactly wherever p 2^(32 k) is whole (for two words from p = 2^-41 on), else above p by less than
2^(-32 k): an event that may happen is never lost, and of two words the rarest has probability 2^-64 = 5.4e-20.

Each draw has a form that takes its words, so that arithmetic can be asked without a key: words of all zeros and all
ones, or :func:`threshold` and its neighbours.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax import _validate
from ldp_jax.types import Array, PRNGKey

_WORD = np.float32(2.0**32)


def words(key: PRNGKey, shape: tuple[int, ...] = (), count: int = 2) -> Array:
    """Uniform words; uint32 [count, *shape], the most significant first.

    Raises:
      ValueError: for a key that is not a typed threefry key.
    """
    _validate.threefry(key)
    return jax.random.bits(key, (count, *shape), jnp.uint32)


def threshold(p: Any, count: int = 2) -> Array:
    """ceil(p 2^(32 count)) of a float32 p in [0, 1), in words; uint32 [count, *p.shape].

    At least 1 for p > 0 (p >= 2^-126: a device may take smaller ones for 0), and 0 for p <= 0 and NaN. At p >= 1 it
    would be one word too long, and is 0 too.

    >>> threshold(0.75).tolist(), threshold(2.0**-64).tolist(), threshold(1e-30).tolist(), threshold(0.0).tolist()
    ([3221225472, 0], [0, 1], [0, 1], [0, 0])
    """
    p = jnp.asarray(p, jnp.float32)
    # Times a power of two, floor and the difference to it are exact in float32.
    rest, digits = jnp.where((p > 0) & (p < 1), p, 0.0), []
    for place in range(count):
        scaled = rest * _WORD
        whole = jnp.ceil(scaled) if place == count - 1 else jnp.floor(scaled)
        digits.append(whole.astype(jnp.uint32))
        rest = scaled - whole
    return jnp.stack(digits)


def less(a: Array, b: Array) -> Array:
    """Whether a < b, of numbers in words [count, ...]; elementwise bool."""
    found = a[-1] < b[-1]
    for place in range(len(a) - 2, -1, -1):
        found = (a[place] < b[place]) | ((a[place] == b[place]) & found)
    return found


def bernoulli_from_words(word: Any, p: Any, rest: Any = None) -> Array:
    """Whether an event of probability p happens; elementwise bool.

    Args:
      word: uniform words, uint32 [count, ...], as :func:`words` draws them.
      p: probabilities in float32; <= 0 and NaN never happen, >= 1 always.
      rest: 1 - p, without cancellation, where p may be so near to 1 that it is 1 in float32: where p is above 1/2
        the event is that the rest does not happen. Then neither side is ever lost.

    >>> tiny = jnp.float32(1e-12)
    >>> bernoulli_from_words(jnp.zeros(2, jnp.uint32), tiny).item()
    True
    >>> first = jnp.uint32([0, 0])
    >>> bernoulli_from_words(first, 1 - tiny).item(), bernoulli_from_words(first, 1 - tiny, tiny).item()
    (True, False)
    """
    word, p = jnp.asarray(word, jnp.uint32), jnp.asarray(p, jnp.float32)
    if rest is None:
        return less(word, threshold(p, len(word))) | (p >= 1)
    rest = jnp.asarray(rest, jnp.float32)
    above = p > 0.5
    rare = jnp.where(above, rest, p)
    return less(word, threshold(rare, len(word))) ^ above


def bernoulli(key: PRNGKey, p: Any, rest: Any = None) -> Array:
    """Independent events of probability p, from two words each; bool, of the shape of p.

    See :func:`bernoulli_from_words` for p and rest: P(event) is float32's p, or above it by less than 2^-64.

    Raises:
      ValueError: for a key that is not a typed threefry key.
    """
    return bernoulli_from_words(words(key, jnp.shape(p)), p, rest)
