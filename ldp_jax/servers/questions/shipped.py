"""Questions about neighbours that devices answer, by the same question as bytes."""

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Integer

from ldp_jax.core.types import Report
from ldp_jax.deployment.neighbours import NeighbourQuestion
from ldp_jax.servers.parts.arrived import ReportRows, numbers_by_node
from ldp_jax.servers.questions.question import Answers


class OnTheWire(abc.ABC):
    """A question about neighbours, which devices answer by :meth:`shipped`."""

    @abc.abstractmethod
    def shipped(self) -> NeighbourQuestion:
        """The question for :meth:`ldp_jax.deployment.Session.report_neighbours`.

        ``ValueError`` where devices have no such question.
        """

    def forms(self) -> tuple[NeighbourQuestion]:
        """The question that devices answer."""
        return (self.shipped(),)

    def read(self: Any, nodes: Integer[np.ndarray, " n"], rows: Sequence[ReportRows]) -> Answers:
        """The answers that devices sent, by user; rows of users who were not asked are left out.

        Errors are those of :func:`~ldp_jax.servers.parts.arrived.numbers_by_node`.
        """
        asked = self.shipped()
        numbers, who = numbers_by_node(asked, np.asarray(self.asked), nodes, rows)
        return Answers(self.told(asked, numbers, who), who)

    def told(self, asked: Any, numbers: np.ndarray, who: np.ndarray) -> Report:
        """The answers by the question ``asked``, from the numbers [n, K] that devices sent.

        These themselves by default; ``who`` reported, bool [n].
        """
        return numbers


class SizedOnTheWire(OnTheWire):
    """The same, of which the driver counts the bytes that would be sent."""

    def download_bytes(self) -> int:
        """The whole question, which is the same for everybody."""
        return len(self.shipped().to_bytes())

    def upload_bytes(self) -> int:
        """32 bytes, and 4 a number."""
        return 32 + 4 * self.shipped().numbers
