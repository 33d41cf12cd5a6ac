"""Dropout whose masks cost little on a CPU.

A block of threefry, in registers, gives four of 16 bits each.
"""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from ldp_jax.core import random
from ldp_jax.core.types import Array

STEPS = 2**16
"""A share that is dropped is a multiple of 1 / STEPS."""


class Dropout(nn.Module):
    """Set a share of values, rounded to 16 bits, to 0 in training; scale up the others."""

    rate: float

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        dropped = round(self.rate * STEPS)
        if not train or not dropped:
            return x
        words = jax.random.key_data(self.make_rng("dropout"))
        block = (-(-len(x) // 4), *x.shape[1:])
        place = jax.lax.iota(jnp.uint32, math.prod(block)).reshape(block)
        kept = []
        for both in random.threefry(words, place, jnp.zeros_like(place)):
            kept += [(both & (STEPS - 1)) >= dropped, (both >> 16) >= dropped]
        scaled = x * (STEPS / (STEPS - dropped))
        return jnp.where(jnp.concatenate(kept)[: len(x)], scaled, 0.0)
