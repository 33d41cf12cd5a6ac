"""Published mechanisms, and released code, that do not keep the epsilon printed beside them.

They are here to be measured, by ``python -m experiments audit`` and by the tests, never to be used.
"""

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp

from ldp_jax import features, hyperbolic
from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core.mechanism import largest, mechanism, uniform
from ldp_jax.core.spaces import clip


@mechanism
class ReleasedSquareWave(features.SquareWave):
    """PrivGE's released sampler.

    The left branch is written over the record, and the others start from there.

    The record 1 never gives a report above 1. The density is the paper's, which the sampler does
    not draw from.
    """

    def draw(self, key: Any, x: Any) -> Any:
        """Reports as the release draws them: a branch and a place, two uniforms each."""
        x = clip(x)
        b = self.b
        be = self._be
        branch_key, place_key = jax.random.split(key)
        branch = uniform(branch_key, jnp.shape(x))
        place = uniform(place_key, jnp.shape(x))
        left, middle = (1 + x) / (2 * (be + 1)), be / (be + 1)
        x = -1 - b + place * (x + 1)  # meant for the left branch alone
        in_middle = jnp.clip(x - b + 2 * b * place, -1 - b, 1 + b)
        in_right = x + b + place * jnp.maximum(1 - x, 0)
        return jnp.where(branch < left, x, jnp.where(branch < left + middle, in_middle, in_right))


@mechanism
class DuchiVectorWithTies(features.DuchiVector):
    """The hypercube mechanism as first published: the ties s.v = 0 belong to both half-spaces.

    For even d a tie is reported with more than either branch's probability, and the loss is log(1 +
    e^epsilon). Small d only: the law is a table over the 2^d reports.
    """

    def log_density(self, y: Any, x: Any) -> Any:
        """log P(s | x): the definition, summed over all v."""
        corners = jnp.array(list(itertools.product((-1.0, 1.0), repeat=self.dim)))
        to_corner = jnp.prod((1 + corners * clip(x)) / 2, -1)
        dot = corners @ jnp.asarray(y, corners.dtype)
        size = 2 ** (self.dim - 1) + (
            math.comb(self.dim, self.dim // 2) // 2 if self.dim % 2 == 0 else 0
        )
        odds = jnp.exp(jnp.asarray(self.epsilon))
        return jnp.log(to_corner @ ((odds * (dot >= 0) + (dot <= 0)) / (1 + odds) / size))

    def privatize(self, key: Any, x: Any) -> Any:
        """One of the 2^d sign vectors, by its mass."""
        corners = jnp.array(list(itertools.product((-1.0, 1.0), repeat=self.dim)))
        logits = jax.vmap(lambda y: self.log_density(y, x))(corners)
        return corners[jax.random.categorical(key, logits)]


@mechanism
class PrintedHyperbolicGaussian(hyperbolic.PaperHyperbolicGaussian):
    """PoinDP's noise, and the (epsilon, delta) that Theorem 1 prints, which it does not have.

    Noise is shorter than its scale, so that a report tells some records apart for certain.
    """

    def guarantee(self) -> Guarantee:
        """The guarantee as printed."""
        return Guarantee(largest(self.epsilon), float(self.delta), reason="printed; no proof holds")
