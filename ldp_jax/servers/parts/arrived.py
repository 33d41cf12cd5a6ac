"""Rows that arrived from devices, of some users in any order, as reports by node."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int, Integer
from numpy.typing import ArrayLike

from ldp_jax.core import validate
from ldp_jax.core.spaces import SparseReport
from ldp_jax.deployment import Decoded, Table, vectors
from ldp_jax.deployment.neighbours import NeighbourQuestion
from ldp_jax.features import Discrete, Sampled


@runtime_checkable
class ReportRows(Protocol):
    """Reports about one table or question.

    :meth:`ldp_jax.deployment.store.ReportStore.all` reads them.
    """

    @property
    def user(self) -> np.ndarray:
        """uint64 [m], in any order."""

    @property
    def output(self) -> np.ndarray:
        """int32, places in an alphabet [m], or noisy counts [m, K]."""

    @property
    def digest(self) -> bytes:
        """The digest of the table or question."""


@runtime_checkable
class VectorReports(ReportRows, Protocol):
    """Vectors of users, as :func:`ldp_jax.deployment.vectors` makes them.

    ``output`` is int32 [m, k].
    """

    @property
    def index(self) -> np.ndarray:
        """int32 [m, k], which coordinates ``output`` is of, ascending."""


def places(nodes: np.ndarray, n: int, user: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The node of each user who has one, and who these are, bool [m]."""
    if nodes.dtype.kind in "iu" and nodes.size and nodes.min() >= 0:
        nodes = nodes.astype(np.uint64)  # beside users, in whole numbers: float64 has 53 bits
    if nodes.dtype != np.uint64 or nodes.shape != (n,) or len(np.unique(nodes)) != n:
        raise ValueError(
            f"nodes must be {n} distinct users, whole numbers >= 0, got {nodes.dtype} {nodes.shape}"
        )
    order = np.argsort(nodes)
    place = order[np.minimum(np.searchsorted(nodes, user, sorter=order), n - 1)]
    known = nodes[place] == user
    return place[known], known


def once_each(reported: np.ndarray, node: np.ndarray) -> None:
    """Mark users as those who reported; ``ValueError`` for one of whom there are two rows."""
    if reported[node].any() or len(np.unique(node)) != len(node):
        raise ValueError("reports must be one a user, and are several of some: choose one round")
    reported[node] = True


def reporters(user: ArrayLike) -> Integer[np.ndarray, " m"]:
    """Users of reports as uint64 [m]; a cast alone would make 2^64 - 1 of -1, and 1 of 1.5."""
    validate.ids(user=user)
    return np.asarray(user).astype(np.uint64)


def table_of(mechanism: object) -> Table:
    """The table by which devices report, of each coordinate or of the whole record.

    ``ValueError`` for a mechanism that no table describes.
    """
    inner = mechanism.inner if isinstance(mechanism, Sampled) else mechanism
    if not isinstance(inner, Discrete):
        raise ValueError(
            f"mechanism must be Discrete or Sampled(Discrete.of(table), dim, k), got {mechanism}: "
            "devices report by tables of whole numbers"
        )
    return inner.table()


def outputs_by_node(
    tables: dict[bytes, tuple[Table, Bool[np.ndarray, " n"]]],
    nodes: Integer[np.ndarray, " nodes"],
    rows: Sequence[ReportRows],
) -> tuple[Int[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """One output a user, and who reported; ``tables`` says by digest who is asked by which table.

    Rows are left out that no device was asked for: of users who are no node or are not asked by the
    table, and, where rows have a ``field``, of any but 0. ``ValueError`` for rows of another table,
    outputs that a table does not have, or a user with two rows.
    """
    n = len(next(iter(tables.values()))[1])
    places(nodes, n, np.zeros(0, np.uint64))  # nodes are checked where there is no row, too
    values = np.zeros(n, np.int32)
    reported = np.zeros(n, bool)
    for some in rows:
        if some.digest not in tables:
            raise ValueError(
                "reports must be by the tables that were asked for, and some are by another"
            )
        table, asked = tables[some.digest]
        output = np.asarray(some.output)
        validate.in_range(0.0, table.outputs - 1.0, output=output)
        node, known = places(nodes, n, reporters(some.user))
        field = np.broadcast_to(getattr(some, "field", 0), known.shape)[known]
        wanted = asked[node] & (field == 0)  # others would be a second row of a user
        node = node[wanted]
        once_each(reported, node)
        values[node] = output[known][wanted]
    return values, reported


def numbers_by_node(
    question: NeighbourQuestion,
    asked: Bool[np.ndarray, " n"],
    nodes: Integer[np.ndarray, " nodes"],
    rows: Sequence[ReportRows],
) -> tuple[Int[np.ndarray, "n numbers"], Bool[np.ndarray, " n"]]:
    """The numbers that devices sent about their neighbours, by user, and who reported; 0 of others.

    Rows of users who were not asked are left out. ``ValueError`` for users who are not numbered as
    nodes, whom their neighbours' lists name; for rows of another question or of another shape, or
    several of a user.
    """
    n = len(asked)
    if not np.array_equal(nodes, np.arange(n)):
        raise ValueError(
            "users whose neighbours are asked for have the numbers of their nodes: "
            f"nodes must be {n}"
        )
    numbers = np.zeros((n, question.numbers), np.int32)
    reported = np.zeros(n, bool)
    for some in rows:
        if some.digest != question.digest:
            raise ValueError("rows must answer the question that was broadcast, and answer another")
        user = reporters(some.user)
        output = np.asarray(some.output)
        if output.shape != (len(user), question.numbers):
            raise ValueError(
                f"output must be [{len(user)}, {question.numbers}], got {output.shape}"
            )
        known = user < n
        once_each(reported, user[known])
        numbers[user[known]] = output[known]
    reported &= asked
    numbers[~reported] = 0
    return numbers, reported


def vectors_by_node(
    mechanism: Sampled, nodes: Integer[np.ndarray, " nodes"], n: int, reports: ReportRows
) -> tuple[SparseReport, Bool[np.ndarray, " n"], int]:
    """One sparse report a node, who reported, and how many rows were of users who are no node.

    ``ValueError`` for a mechanism without a table, rows of another table, a user with two rows, or
    indices and outputs that the mechanism does not have.
    """
    k, dim = mechanism.k, mechanism.dim
    table = table_of(mechanism)
    if not isinstance(reports, VectorReports):
        raise ValueError(
            f"reports must be deployment.vectors(reports, {k}, {dim}), got {type(reports).__name__}"
        )
    if reports.digest != table.digest:
        raise ValueError(
            "reports are of another table than the mechanism's, whose epsilon is not theirs"
        )
    user = reporters(reports.user)
    index = validate.complete(index=reports.index)
    output = validate.complete(output=reports.output)
    if not all(np.issubdtype(part.dtype, np.integer) for part in (index, output)):
        raise ValueError("index and output must be whole numbers")
    if index.shape != (len(user), k) or output.shape != index.shape:
        raise ValueError(
            f"index and output must be [{len(user)}, {k}], got {index.shape} and {output.shape}"
        )
    validate.in_range(0.0, dim - 1.0, index=index)
    validate.in_range(0.0, table.outputs - 1.0, output=output)
    if (np.diff(index, axis=1) <= 0).any():
        raise ValueError("index must ascend in each row")
    place, known = places(nodes, n, user)
    indices = np.zeros((n, k), np.int32)
    values = np.zeros((n, k), np.int32)
    reported = np.zeros(n, bool)
    once_each(reported, place)
    indices[place] = index[known]
    values[place] = output[known]
    return SparseReport(indices, values), reported, int((~known).sum())


def reports_by_node(
    mechanism: object,
    asked: Bool[np.ndarray, " n"],
    nodes: Integer[np.ndarray, " nodes"],
    rows: Sequence[ReportRows],
) -> tuple[SparseReport | Int[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """The reports of one mechanism by node, and who reported; 0 of others.

    Errors are as of the two above.
    """
    table = table_of(mechanism)
    if not isinstance(mechanism, Sampled):
        return outputs_by_node({table.digest: (table, asked)}, nodes, rows)
    n = len(asked)
    places(nodes, n, np.zeros(0, np.uint64))
    indices = np.zeros((n, mechanism.k), np.int32)
    values = np.zeros((n, mechanism.k), np.int32)
    reported = np.zeros(n, bool)
    for some in rows:
        whole = vectors(some, mechanism.k, mechanism.dim) if isinstance(some, Decoded) else some
        given, who, _ = vectors_by_node(mechanism, nodes, n, whole)
        who = np.flatnonzero(who & asked)
        once_each(reported, who)
        indices[who] = given.indices[who]
        values[who] = given.values[who]
    return SparseReport(indices, values), reported
