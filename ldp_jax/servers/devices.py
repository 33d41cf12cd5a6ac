"""Devices as users: a question goes out as bytes, and the rows that have arrived come back."""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool

from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import PRNGKey
from ldp_jax.servers.parts.arrived import ReportRows
from ldp_jax.servers.questions.question import Answers, Question

AskDevices = Callable[[Any, Bool[np.ndarray, " n"]], ReportRows]
"""Broadcasts a question (:class:`ldp_jax.deployment.Question`) to those who are asked, and returns their rows."""


@runtime_checkable
class Shippable(Protocol):
    """A question that devices get as bytes, and whose rows the server reads."""

    def shipped(self) -> Any:
        """The question as devices get it."""

    def read(self, rows: ReportRows) -> Answers:
        """The answers of users who were asked; ``ValueError`` for rows of another question, or two of a user."""


@dataclasses.dataclass(frozen=True)
class Devices:
    """Users who answer by their devices.

    Attributes:
      ask: see :data:`AskDevices`.
      num_users: n.
    """

    ask: AskDevices
    num_users: int

    __repr__ = by_shapes

    def put(self, question: Question) -> Question:
        """The question as it is: devices add their own noise."""
        return question

    def answer(self, key: PRNGKey, question: Question) -> Answers:
        """What arrived of those who are asked; the key is not used, as devices have their own randomness."""
        if not isinstance(question, Shippable):
            raise TypeError(f"{type(question).__name__} has no shipped() and read(), which devices need")
        return question.read(self.ask(question.shipped(), np.asarray(question.asked)))
