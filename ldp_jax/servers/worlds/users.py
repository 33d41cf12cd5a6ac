"""Simulated users of whom worlds draw what their devices find, not records or lists."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ldp_jax.core import random
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import PRNGKey
from ldp_jax.servers.questions import Answers, BothQuestion, ClassQuestion, CountQuestion, Question
from ldp_jax.servers.users import blanked
from ldp_jax.servers.worlds.friends import Friends, drawn_counts


@dataclasses.dataclass(frozen=True, eq=False)
class DrawnUsers:
    """Simulated users, who answer by the mechanisms of the questions.

    Donors' records would be in-sample for the real classifier, so that worlds draw out-of-fold
    scores in their place.

    Attributes:
      num_users: n.
      scores: float32 [n, C], which devices find of records; None where no record is asked for.
      friends: how many friends each has, and of whom; None where no list is asked for.
      lists: entries of lists, as owners and friends; None where counts alone are asked for.
    """

    num_users: int
    scores: Float[np.ndarray, "n classes"] | None = None
    friends: Friends | None = None
    lists: tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"]] | None = None

    __repr__ = by_shapes

    def put(self, question: Question) -> Question:
        """The question as it is."""
        return question

    def answer(self, key: PRNGKey, question: Question) -> Answers:
        """The answers of those who are asked, by the question's own mechanism."""
        asked = np.asarray(question.asked)
        return Answers(blanked(self._values(key, question), asked), asked)

    def _values(self, key: PRNGKey, question: Question) -> np.ndarray:
        if isinstance(question, CountQuestion) and self.friends is not None:
            count_key, noise_key = random.split(key)
            groups = jnp.asarray(question.groups)
            counts = drawn_counts(count_key, self.friends, groups, num_groups=question.num_groups)
            return np.asarray(question.mechanism.add_noise(noise_key, counts))
        if self.scores is not None:
            if isinstance(question, BothQuestion) and self.lists is not None:
                return question.reports(key, self.scores, *self.lists)
            if isinstance(question, ClassQuestion):
                return question.reports(key, self.scores)
        raise TypeError(f"nothing is drawn that answers a {type(question).__name__}")
