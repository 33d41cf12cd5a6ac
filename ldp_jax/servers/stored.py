"""Rows that real devices sent, as those who answer: of some users, in any order."""

import dataclasses
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Integer

from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import PRNGKey
from ldp_jax.servers.parts.arrived import ReportRows
from ldp_jax.servers.questions.question import Answers, Question


@runtime_checkable
class HasStored(Protocol):
    """A question whose answers devices send as rows."""

    def stored(self, nodes: Integer[np.ndarray, " n"], rows: Sequence[ReportRows]) -> Answers:
        """The answers to this question among rows; ``nodes`` are the users, by node."""


@dataclasses.dataclass(frozen=True, eq=False)
class StoredRows:
    """Users whose devices have sent what they send: the rows that there are answer a question.

    Attributes:
      nodes: the user of each node, distinct whole numbers.
      rows: of each table or question.
    """

    nodes: Integer[np.ndarray, " n"]
    rows: Sequence[ReportRows]

    __repr__ = by_shapes

    @property
    def num_users(self) -> int:
        """How many nodes there are."""
        return len(self.nodes)

    def put(self, question: Question) -> Question:
        """The question as it is."""
        return question

    def answer(self, key: PRNGKey, question: Question) -> Answers:
        """What was sent by users who are asked; others are silent. No key is used."""
        if not isinstance(question, HasStored):
            raise TypeError(f"{type(question).__name__} has no stored(nodes, rows), by which rows are read")
        return question.stored(self.nodes, self.rows)
