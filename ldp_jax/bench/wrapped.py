"""Servers of a mechanism: classes by what it reports, beside what is known without it."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ldp_jax.accounting.statement import Cost, Role, Statement
from ldp_jax.bench.classes import AskClass
from ldp_jax.bench.learners import classified, modelled
from ldp_jax.core.mechanism import Mechanism
from ldp_jax.core.pytree import pytree
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import PRNGKey
from ldp_jax.edges import OneUsersView
from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import Operator, operator, ppr
from ldp_jax.learning.models import Model
from ldp_jax.servers import Answers, Ask, ListServer, propagate, questions
from ldp_jax.servers.parts.device_classifier import DeviceClassifier

_ALPHA = 0.1  # of the PageRank of reports
_NEAR = 0.5  # of that of public features over a noisy graph
_R = 0.5
_PLACES = 4096  # of edges: noisy graphs of about one size share programs


@pytree
class Asked:
    """Everybody but the panel is asked; the key is of the folds in which classifiers are judged."""

    question: Any
    key: PRNGKey


@dataclasses.dataclass(frozen=True, eq=False)
class VectorServer:
    """Propagate reports of vectors over the public graph, and classify beside structure alone.

    The panel's records are public, so that they are propagated as they are. The result is the log
    posterior [n, C].

    Attributes:
      op: of the public graph.
      labels: int [n], of the panel; -1 for private users.
      alone: float32 [n, C], the log posterior of structure alone.
      shown: float32 [n, d], the records of the panel; 0 of private users.
      mechanism: on vectors of d numbers.
      model: of nodes, trained on the public graph and z; None for :func:`classified`.
      classifier: by which devices find a class, of a mechanism on classes; else None.
    """

    op: Operator
    labels: Int[np.ndarray, " n"]
    alone: Float[np.ndarray, "n classes"]
    shown: Float[np.ndarray, "n d"]
    mechanism: Mechanism
    model: Model | None = None
    classifier: DeviceClassifier | None = None

    __repr__ = by_shapes

    def statement(self) -> Statement:
        """One report a private user."""
        role = Role((Cost(self.mechanism.guarantee()),), self.labels < 0)
        exposes = ("edges", "the panel's records", "the panel's labels")
        return Statement.of(role, exposes=exposes, protects=("features of private users",))

    def init(self, key: PRNGKey) -> Asked:
        """Private users are asked for their records."""
        asked = self.labels < 0
        if self.classifier is None:
            return Asked(Ask(self.mechanism, asked), key)
        return Asked(AskClass(self.classifier, self.mechanism, asked), key)

    def step(self, state: Asked, answers: Answers) -> Float[np.ndarray, "n classes"]:
        """Estimates and the panel's records are propagated, and classified."""
        mechanism = state.question.mechanism
        numbers = {"alpha": _ALPHA, "r": _R}
        z = propagate(self.op, mechanism, answers.values, reported=answers.reported, **numbers)
        z = z + ppr(self.op, self.shown, **numbers)
        if self.model is not None:
            return modelled(state.key, self.model, self.op, z, self.labels, self.alone.shape[1])
        return classified(state.key, z, self.labels, self.alone)


@dataclasses.dataclass(frozen=True, eq=False)
class NoisyGraphServer:
    """Propagate public features over the graph of noisy lists, and classify beside features alone.

    Two users are linked where either reports the other. The result is the log posterior [n, C].

    Attributes:
      labels: int [n], public; -1 for users whose class is asked for.
      alone: float32 [n, C], the log posterior of features alone.
      x: float32 [n, d], public.
      mechanism: on neighbour lists.
      model: of nodes, trained on the noisy graph and x; None for :func:`classified`.
    """

    labels: Int[np.ndarray, " n"]
    alone: Float[np.ndarray, "n classes"]
    x: Float[np.ndarray, "n d"]
    mechanism: OneUsersView
    model: Model | None = None

    __repr__ = by_shapes

    @property
    def lists(self) -> ListServer:
        """The server that makes a graph of the lists."""
        return ListServer(self.mechanism, len(self.labels))

    def statement(self) -> Statement:
        """One report of a list."""
        return self.lists.statement()

    def init(self, key: PRNGKey) -> Asked:
        """Everybody is asked for a list."""
        return Asked(self.lists.question, key)

    def step(self, state: Asked, answers: Answers) -> Float[np.ndarray, "n classes"]:
        """Features are propagated over the noisy graph, and classified."""
        noisy = self.lists.step(questions.Asked(state.question), answers).graph
        ends = np.stack([np.asarray(noisy.senders), np.asarray(noisy.receivers)], 1)
        pairs = np.unique(np.sort(ends, axis=1), axis=0)
        graph = graphs.from_edges(pairs, len(self.labels), pairs_in="rows")
        if self.model is not None:
            room = -(-max(2 * len(pairs), 1) // _PLACES) * _PLACES
            op = operator(graph, "segment", places=room)
            return modelled(state.key, self.model, op, self.x, self.labels, self.alone.shape[1])
        z = ppr(operator(graph), self.x, alpha=_NEAR, r=_R)
        return classified(state.key, z, self.labels, self.alone)
