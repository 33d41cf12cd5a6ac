"""Dropout whose masks cost little on a CPU: a block of threefry, in registers, gives four of 16 bits each."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from ldp_jax.core.types import Array

STEPS = 2**16
"""A share that is dropped is a multiple of 1 / STEPS."""

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry(words: Array, first: Array, second: Array) -> tuple[Array, Array]:
    """Threefry-2x32 with 20 rounds, unrolled: ``jax.extend.random.threefry_2x32`` bit for bit.

    ``words`` are uint32 [2] of a key; counters and bits are uint32 arrays of one shape.

    Reference: Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011).

    >>> first, second = threefry(jnp.zeros(2, jnp.uint32), jnp.zeros(1, jnp.uint32), jnp.zeros(1, jnp.uint32))
    >>> f"{int(first[0]):08x} {int(second[0]):08x}"
    '6b200159 99ba4efe'
    """
    schedule = words[0], words[1], words[0] ^ words[1] ^ jnp.uint32(0x1BD11BDA)
    first, second = first + schedule[0], second + schedule[1]
    for group in range(5):
        for turn in _ROTATIONS[group % 2]:
            first = first + second
            second = first ^ ((second << turn) | (second >> (32 - turn)))
        first = first + schedule[(group + 1) % 3]
        second = second + schedule[(group + 2) % 3] + jnp.uint32(group + 1)
    return first, second


class Dropout(nn.Module):
    """Sets a share of values to 0 in training, rounded to 16 bits, and makes the others larger by as much."""

    rate: float

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        dropped = round(self.rate * STEPS)
        if not train or not dropped:
            return x
        words = jax.random.key_data(self.make_rng("dropout"))
        block = (-(-len(x) // 4), *x.shape[1:])
        place = jax.lax.iota(jnp.uint32, math.prod(block)).reshape(block)
        bits = threefry(words, place, jnp.zeros_like(place))
        kept = jnp.concatenate([part >= dropped for both in bits for part in (both & (STEPS - 1), both >> 16)])
        return jnp.where(kept[: len(x)], x * (STEPS / (STEPS - dropped)), 0.0)
