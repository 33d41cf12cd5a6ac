"""The smallest server: one question to everybody, and the shares of classes."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ldp_jax.accounting.statement import Statement
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.features import Discrete
from ldp_jax.servers.questions import Answers, Ask, Asked


@dataclasses.dataclass(frozen=True)
class Share:
    """The share of users in each class, from one report of a label each.

    Attributes:
      mechanism: such as ``features.GeneralizedRR(epsilon, C)``, whose estimate [C] of a report is
        unbiased.
      num_users: n.
    """

    mechanism: Discrete
    num_users: int

    def statement(self) -> Statement:
        """One report a user."""
        return Statement.of([self._question().cost()])

    def init(self, key: PRNGKey) -> Asked:
        """Everybody is asked."""
        return Asked(self._question())

    def step(self, state: Asked, answers: Answers) -> Float[np.ndarray, " classes"]:
        """The mean estimate of those who reported; NaN where nobody did."""
        estimates: Array = state.question.mechanism.estimate(answers.values)
        counted = jnp.where(jnp.asarray(answers.reported)[:, None], estimates, 0.0)
        return np.asarray(counted.sum(0) / int(answers.reported.sum()))

    def _question(self) -> Ask:
        return Ask(self.mechanism, np.ones(self.num_users, bool), of="label")
