"""Which users of higher numbers are in your neighbour list?"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int, UInt32

from ldp_jax.accounting.statement import Cost
from ldp_jax.core import random_words
from ldp_jax.core.integer_tables import MAX_EPSILON
from ldp_jax.core.pytree import pytree, static
from ldp_jax.core.types import AnyArray, Array, PRNGKey
from ldp_jax.deployment import Pairs, ownership
from ldp_jax.edges import RandomizedResponse
from ldp_jax.edges.lists import to_bits
from ldp_jax.edges.neighbour_lists import MAX_BIT_EPSILON, flip_rate
from ldp_jax.servers.questions.question import User
from ldp_jax.servers.questions.shipped import SizedOnTheWire

LOWER = "the lower number"
"""The name of the rule by which the user of the lower number reports a pair."""


@pytree
class PairsQuestion(SizedOnTheWire):
    """Send the bits of your owned pairs through randomised response, 32 to a word.

    A user owns the pairs with users of higher numbers. The report has a bit for each user, whatever
    epsilon is; randomised response is dense by its nature.

    Attributes:
      asked: bool [n].
      epsilon: of each bit, in (0, 40]; devices refuse more than 20.
      round: the number of the question on the wire.

    >>> asked = PairsQuestion(np.ones(9, bool), 1.0)
    >>> asked.cost().guarantee.epsilon, asked.cost().pair.epsilon
    (1.0, 1.0)
    """

    asked: Bool[AnyArray, " n"]
    epsilon: float
    round: int = static(default=0)

    def cost(self) -> Cost:
        """Epsilon per bit, and per pair, which has one owner."""
        made = RandomizedResponse(self.epsilon, reporting="half")
        return Cost(made.guarantee(), made.relationship(), owners=LOWER)

    def answer(self, key: PRNGKey, user: User) -> UInt32[Array, " words"]:
        """The noisy bits of one user; those of pairs that others own are 0."""
        n = len(self.asked)
        flip = jnp.full(n, flip_rate(self.epsilon))
        flipped = random_words.bernoulli(key, flip, 1 - flip)
        owned = jnp.arange(n) > user.own
        return packed((to_bits(user.neighbours, n) ^ flipped) & owned)

    def exact(self) -> "PairsQuestion":
        """The question under the largest budget, whose noise changes a bit once in 1e17."""
        return dataclasses.replace(self, epsilon=MAX_BIT_EPSILON)

    def shipped(self) -> Pairs:
        """The question with its owners; ``ValueError`` for an epsilon above 20."""
        n = len(self.asked)
        return Pairs(self.round, n, float(self.epsilon), ownership(np.arange(n)))

    def told(self, asked: Any, numbers: np.ndarray, who: np.ndarray) -> np.ndarray:
        """The same bits as words, uint32 [n, words]."""
        return numbers.view(np.uint32)

    def download_bytes(self) -> int:
        """The question; one that devices refuse is as long as that of their largest epsilon."""
        least = min(self.epsilon, MAX_EPSILON)
        return len(dataclasses.replace(self, epsilon=least).shipped().to_bytes())

    def upload_bytes(self) -> int:
        """32 bytes, and 4 for 32 users."""
        return 32 + 4 * -(-len(self.asked) // 32)


def packed(bits: Array) -> UInt32[Array, " words"]:
    """Bits in words, the first one the lowest."""
    padded = jnp.pad(bits, (0, -len(bits) % 32))
    whole = jnp.packbits(padded, bitorder="little").reshape(-1, 4)
    return jax.lax.bitcast_convert_type(whole, jnp.uint32)


def bits_of(words: UInt32[np.ndarray, "n words"], users: Int[np.ndarray, " some"]) -> np.ndarray:
    """The bits of all rows about some users, 0 or 1, [n, some]."""
    return words[:, users >> 5] >> (users & 31) & 1
