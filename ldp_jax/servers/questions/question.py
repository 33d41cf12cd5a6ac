"""A question: what a server asks of users, in public, and what one answer costs.

A question is a pytree of public arrays. It names whom it asks, what a device computes of one user's
data, and the cost of one answer. The cost's unit says which fields are read: a device is given
these fields alone.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Integer

from ldp_jax.accounting.guarantee import LABEL, WORDS, Guarantee, narrowed
from ldp_jax.accounting.statement import Cost
from ldp_jax.core import validate
from ldp_jax.core.mechanism import Mechanism, check_single
from ldp_jax.core.pytree import digest, pytree, static
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.spaces import as_records
from ldp_jax.core.types import AnyArray, Array, PRNGKey, Record, Report
from ldp_jax.deployment import Table
from ldp_jax.servers.parts.arrived import ReportRows, reports_by_node, table_of


class User(NamedTuple):
    """The private data of one user, as the user's device holds them.

    Attributes:
      record: as a mechanism takes it; None where the question reads no record.
      label: int32, the user's class; None where the question reads no label.
      neighbours: an :class:`ldp_jax.edges.NeighbourList`; None where the question reads no list.
      own: int32, the user's number, which is public.
    """

    record: Any
    label: Any
    neighbours: Any
    own: Array

    __repr__ = by_shapes


class Answers(NamedTuple):
    """The answers to one question.

    Attributes:
      values: as devices report them, stacked by user; 0 for users who did not report.
      reported: bool [n], the users who did.
    """

    values: Report
    reported: Bool[np.ndarray, " n"]

    __repr__ = by_shapes


@runtime_checkable
class Question(Protocol):
    """A public question; a pytree.

    Attributes:
      asked: bool [n], the users who are asked.
    """

    asked: Bool[AnyArray, " n"]

    def cost(self) -> Cost:
        """The cost of one answer; its unit says which fields are read."""

    def answer(self, key: PRNGKey, user: User) -> Report:
        """The report of one user: a pure function that ``jax.vmap`` takes.

        All that leaves the device.
        """


@pytree
class Asked:
    """The state of a server that remembers nothing but the open question."""

    question: Any


@runtime_checkable
class AnswersAll(Protocol):
    """A question with a faster way to answer for everybody at once, of the law of ``answer``."""

    def answer_all(self, key: PRNGKey, users: Any) -> Report:
        """The reports of all users, stacked.

        ``users`` have the fields that the cost names, others are None.
        """


@runtime_checkable
class HasExact(Protocol):
    """A question that can be asked without noise, for the ceiling of a protocol."""

    def exact(self) -> Question:
        """The same question without noise; what reads its law reads that of exact answers."""


@runtime_checkable
class HasSizes(Protocol):
    """A question with a format of its own on the wire.

    Other questions are counted by their arrays.
    """

    def download_bytes(self) -> int:
        """Bytes that each device receives."""

    def upload_bytes(self) -> int:
        """Bytes of one report."""


class ByMechanism:
    """A question whose report is that of a mechanism; devices send it by its table.

    A subclass has the fields ``mechanism``, ``asked`` and ``permanent`` (:class:`Ask`).
    """

    def cost(self: Any) -> Cost:
        """The guarantee of the mechanism, per record.

        An answer for good is one by this mechanism: devices draw anew by another one.
        """
        name = self.permanent
        if name:
            name = f"{name} by {digest(self.mechanism).hex()}"
        return Cost(self.mechanism.guarantee(), permanent=name)

    def exact(self: Any) -> Any:
        """The clipped record itself."""
        return dataclasses.replace(self, mechanism=Noiseless(self.mechanism))

    def forms(self: Any) -> tuple[Table]:
        """The table by which devices report, of a mechanism that has one."""
        return (table_of(self.mechanism),)

    def read(self: Any, nodes: Integer[np.ndarray, " n"], rows: Sequence[ReportRows]) -> Answers:
        """The reports that devices sent by the mechanism's table: numbers, or k of d coordinates.

        Rows are left out of users who are no node or are not asked, and of incomplete vectors.
        ``ValueError`` for a mechanism without a table, rows of another table, or a user with two
        rows.
        """
        return Answers(
            *reports_by_node(self.mechanism, np.asarray(self.asked), np.asarray(nodes), rows)
        )


@pytree
class Ask(ByMechanism):
    """Send the record, or the label, through a mechanism.

    Attributes:
      mechanism: for one user, such as ``features.GeneralizedRR(1.0, 3)``; its epsilon may be a
        public stack [n].
      asked: bool [n].
      of: ``record`` or ``label``.
      permanent: the name of an answer for good, which devices repeat whenever it is asked for by
        this mechanism.

    >>> from ldp_jax.features import GeneralizedRR
    >>> Ask(
    ...     GeneralizedRR(1.0, 3), np.ones(5, bool), of="label"
    ... ).cost().guarantee.unit.name
    'label'
    """

    mechanism: Mechanism
    asked: Bool[AnyArray, " n"]
    of: str = static(default="record")
    permanent: str = static(default="")

    def __post_init__(self) -> None:
        validate.one_of(("record", "label"), of=self.of)

    def cost(self) -> Cost:
        """The guarantee of the mechanism, per record or per label."""
        cost = super().cost()
        if self.of != "label":
            return cost
        words = narrowed(WORDS[LABEL], cost.guarantee.adjacency)
        of_label = dataclasses.replace(cost.guarantee, unit=LABEL, adjacency=words)
        return dataclasses.replace(cost, guarantee=of_label)

    def answer(self, key: PRNGKey, user: User) -> Report:
        """The mechanism's report; ``ValueError`` for a stack, whose reports would all be sent."""
        check_single(self.mechanism)
        return self.mechanism.privatize(key, user.label if self.of == "label" else user.record)

    def answer_all(self, key: PRNGKey, users: Any) -> Report:
        """The reports of all users; records may be dense, sparse, on a file or sharded."""
        return users.through(key, self.mechanism, self.of)


@pytree
class Noiseless:
    """A mechanism that reports the record itself, within the domain of another one: no privacy.

    >>> from ldp_jax.features import Laplace
    >>> exact = Noiseless(Laplace(1.0))
    >>> float(exact.privatize(jax.random.key(0), 2.0)), exact.guarantee().epsilon
    (1.0, inf)
    """

    inner: Mechanism

    def privatize(self, key: PRNGKey, x: Record) -> Array:
        """The record, clipped; of the type of a report where reports have the record's shape."""
        exact = jnp.asarray(self.inner.domain().clip(as_records(x)))
        like = jax.eval_shape(self.inner.privatize, key, x)
        alike = hasattr(like, "dtype") and like.shape == exact.shape
        return exact.astype(like.dtype) if alike else exact

    def log_density(self, y: Report, x: Record) -> Float[Array, ""]:
        """0 for the record itself, else minus infinity."""
        same = (jnp.asarray(y) == self.inner.domain().clip(as_records(x))).all()
        return jnp.where(same, 0.0, -jnp.inf)

    def estimate(self, y: Report) -> Array:
        """The report."""
        return jnp.asarray(y)

    def guarantee(self) -> Guarantee:
        """No privacy."""
        return dataclasses.replace(
            self.inner.guarantee(), epsilon=np.inf, delta=0.0, status="none", reason=""
        )

    def domain(self) -> Any:
        """The records of the other mechanism."""
        return self.inner.domain()

    def codomain(self) -> Any:
        """These records."""
        return self.inner.domain()
