"""The main job in one call: private features and a public graph in, a private embedding out."""

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Bool, Float

from ldp_jax.accounting.guarantee import PipelineGuarantee
from ldp_jax.accounting.statement import Cost, Statement
from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.mechanism import Mechanism
from ldp_jax.core.sharding import each_part, placement
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.spaces import as_records
from ldp_jax.core.types import AnyArray, Array, Graph, PRNGKey, PRNGKeys, Report, Scalar
from ldp_jax.edges import NoisyGraph
from ldp_jax.graph.propagation import Operator as Operator
from ldp_jax.graph.propagation import block_width, operator, ppr, ppr_by_blocks, take_columns
from ldp_jax.servers.parts.records import (
    BLOCK,
    Bounds,
    ColumnSource,
    PublicRecord,
    RowSource,
    UserRecords,
    box,
    check_budgets,
    check_records,
    declared,
    each_user,
    key_for,
    one_report_each,
    perturb,
    stacked_axes,
    to_domain,
)
from ldp_jax.servers.questions.question import Answers, Ask, Asked

# Columns of the true features that are dense at the same time (non-private rows only).
_COLUMNS = 1024

_MEMORY = 8e9  # bytes that an embedding may take by default


@runtime_checkable
class HasColumns(Protocol):
    """A vector mechanism whose estimate can be had a few columns at a time."""

    def estimate_columns(self, y: Report, start: Scalar, width: int) -> Array:
        """The estimate of coordinates [start, start + width)."""


class Embedding(NamedTuple):
    """An embedding and what it spent.

    Attributes:
      z: float32 [n, d], of the device; or of the host, read from the file as it is needed.
      guarantee: per unit of privacy; names what is protected and what is not.
    """

    z: Float[Array | np.memmap, "n d"]
    guarantee: PipelineGuarantee

    __repr__ = by_shapes


def _check_propagation(op: Operator, n: int, alpha: Scalar, r: Scalar, tol: Scalar) -> None:
    validate.in_range(0.0, 1.0, open_lower=True, alpha=alpha, tol=tol)
    validate.in_range(0.0, 1.0, r=r)
    validate.require(op.num_nodes == n, f"x must have a row for each of {op.num_nodes} nodes", n)


def embedding_memory(mechanism: Mechanism, nodes: int, edges: int, *, dense: bool = False) -> float:
    """Bytes that :func:`private_embedding` takes at most, from public sizes alone.

    The larger of two moments. One holds the reports of the users that are worked on together. The
    other, the propagation, holds Z twice, the working arrays of a block, the reports, the graph of
    so many directed edges and a dense x.

    >>> from ldp_jax.features import HDS
    >>> mechanism = HDS(1.0, dim=10_000, k=20)
    >>> f"{embedding_memory(mechanism, 3_000_000, 10**8) / 1e9:.0f} GB"
    '246 GB'
    """
    dim = box(mechanism).dim
    width = block_width()
    leaves, structure = jax.tree.flatten(mechanism)
    pairs = zip(leaves, stacked_axes(mechanism, nodes), strict=True)
    of_one = [leaf if axis is None else leaf[0] for leaf, axis in pairs]
    one = jax.tree.unflatten(structure, of_one)
    record = jax.ShapeDtypeStruct((dim,), jnp.float32)
    report = jax.eval_shape(lambda x: one.privatize(jax.random.key(0), x), record)
    sent = sum(leaf.size for leaf in jax.tree.leaves(report))
    columns = -(-dim // width) * width if dim > width else dim
    together = nodes if dense else min(nodes, BLOCK)
    reporting = nodes * sent + together * (2 * dim + 3 * sent + 32)
    # All estimates at once, and padded.
    estimates = 0 if isinstance(mechanism, HasColumns) else 2 * columns
    block = min(dim, width)
    of_nodes = nodes * (2 * columns + 7 * block + estimates + sent + 8 + dim * dense)
    propagating = of_nodes + edges * (3 + block / 8)
    estimate = jax.eval_shape(one.estimate, report)
    bytes_each = max(4.0, estimate.dtype.itemsize)  # in 64-bit mode some take 8
    return bytes_each * max(reporting, propagating)


def _check_memory(
    mechanism: Mechanism, op: Operator, dense: bool, memory: float, runs: int = 1
) -> None:
    validate.positive(memory=memory)
    dim = box(mechanism).dim
    graph = 12.0 * op.num_places
    needed = embedding_memory(mechanism, op.num_nodes, op.num_places, dense=dense)
    needed += 4.0 * (runs - 1) * op.num_nodes * dim
    if needed > memory:
        fits = int(op.num_nodes * max(0.0, memory - graph) / (needed - graph))
        raise ValueError(
            f"memory of {memory / 1e9:.3g} GB does not hold an embedding of {op.num_nodes} nodes x "
            f"{dim} features ({needed / 1e9:.3g} GB): about {fits} such nodes would fit, or about "
            f"{int(dim * fits / op.num_nodes)} features (Dataset.top_features); or raise memory, "
            "or take z some columns at a time from propagate_blocks"
        )


@jax.jit
def _propagate(
    op: Operator, mechanism: Mechanism, reports: Report, reported: Array | None, *numbers: Array
) -> Array:
    if not isinstance(mechanism, HasColumns):
        return ppr(op, _estimates(mechanism, reports, reported), *numbers)
    dim = box(mechanism).dim
    width = min(dim, block_width())

    def block(start: Array) -> Array:
        return ppr(
            op, _estimate_columns(mechanism, reports, reported, start, width=width), *numbers
        )

    pieces = jax.lax.map(block, jnp.arange(0, dim, width))
    return jnp.moveaxis(pieces, 0, 1).reshape(op.num_nodes, -1)[:, :dim]


@partial(jax.jit, static_argnames="over")
def _estimates(
    mechanism: Mechanism,
    reports: Report,
    reported: Array | None = None,
    over: NamedSharding | None = None,
) -> Array:
    return _of_reporters(
        each_user(lambda m, y: m.estimate(y), mechanism, reports, over=over), reported
    )


@partial(jax.jit, static_argnames="width")
def _estimate_columns(
    mechanism: Any, reports: Report, reported: Array | None, start: Array, *, width: int
) -> Array:
    found = each_user(lambda m, y: m.estimate_columns(y, start, width), mechanism, reports)
    return _of_reporters(found, reported)


def _of_reporters(estimates: Array, reported: Array | None) -> Array:
    """Estimates, which are 0 for users who did not report."""
    return estimates if reported is None else jnp.where(reported[:, None], estimates, 0.0)


def _columns(
    mechanism: Mechanism, reports: Report, reported: AnyArray | None
) -> Callable[..., Array]:
    """A function of ``start`` and ``width`` that gives some columns of the estimates."""
    if isinstance(mechanism, HasColumns):
        return partial(_estimate_columns, mechanism, reports, reported)
    return partial(take_columns, _estimates(mechanism, reports, reported))


@implicit_promotion()
def propagate(
    op: Operator,
    mechanism: Mechanism,
    reports: Report,
    *,
    alpha: Scalar,
    r: Scalar,
    tol: Scalar = 1e-5,
    reported: Bool[AnyArray, " n"] | None = None,
) -> Float[Array, "n d"]:
    """Personalized PageRank Z [n, d] of the estimates, by blocks of columns.

    Dense estimates never exist at once.

    It is compiled once for a graph, estimates apart. ``reports`` are stacked, as
    :func:`~ldp_jax.servers.perturb` returns them; the estimates of users who are not ``reported``
    are 0. Other arguments are those of :func:`private_embedding`.
    """
    _check_propagation(op, jax.tree.leaves(reports)[0].shape[0], alpha, r, tol)
    traced = not all(
        map(validate.concrete, jax.tree.leaves((op, mechanism, reports, alpha, r, tol)))
    )
    if traced:
        numbers = (jnp.asarray(v, jnp.float32) for v in (alpha, r, tol))
        return _propagate(op, mechanism, reports, reported, *numbers)
    over = placement(jax.tree.leaves(reports)[0])
    if over is not None:
        return ppr(op, _estimates(mechanism, reports, reported, over), alpha, r, tol)
    dim = box(mechanism).dim
    some = partial(_columns(mechanism, reports, reported), width=min(dim, block_width()))
    return ppr_by_blocks(op, some, dim, alpha, r, tol)


@implicit_promotion()
def propagate_blocks(
    op: Operator,
    mechanism: Mechanism,
    reports: Report,
    *,
    alpha: Scalar,
    r: Scalar,
    tol: Scalar = 1e-5,
    reported: Bool[AnyArray, " n"] | None = None,
    start: int = 0,
) -> Iterator[tuple[int, Float[Array, "n width"]]]:
    """The columns of :func:`propagate` some at a time, each with the first one's number.

    For a Z beyond memory.

    Write them to a file as they come. A process that was killed makes the same reports again, by
    the same key, and goes on from ``start``.

    >>> from ldp_jax.features import Piecewise, Sampled
    >>> from ldp_jax.graph import graphs
    >>> op = operator(graphs.from_edges([[0, 1], [1, 2]], 3))
    >>> mechanism = Sampled(Piecewise(1.0), dim=70, k=1)
    >>> reports = perturb(jax.random.key(0), np.zeros((3, 70)), mechanism)
    >>> [
    ...     z.shape
    ...     for _, z in propagate_blocks(
    ...         op, mechanism, reports, alpha=0.1, r=0.5, start=6
    ...     )
    ... ]
    [(3, 32), (3, 32)]
    """
    _check_propagation(op, jax.tree.leaves(reports)[0].shape[0], alpha, r, tol)
    dim = box(mechanism).dim
    validate.integer_in(0, dim, start=start)
    columns = _columns(mechanism, reports, reported)
    width = block_width()

    def block(first: int) -> tuple[int, Array]:
        some = columns(np.int32(first), width=min(width, dim - first))
        return first, ppr(op, some, alpha, r, tol)

    return map(block, range(start, dim, width))


@dataclasses.dataclass(frozen=True, eq=False)
class EmbeddingServer:
    """Ask each user for a record once, and propagate the estimates (LDP-GE, Algorithm 4).

    Users who do not report have an estimate of 0; their neighbours still reach them. The result is
    z, float32 [n, d].
    Guarantee: that of the mechanism, per record.

    Attributes:
      op: of the public graph.
      mechanism: on vectors, such as ``features.HDS``; its epsilon may be a public stack [n].
      alpha: decay factor in (0, 1].
      r: convolution coefficient in [0, 1].
      tol: relative error of the propagation.
      choices: what else of the records is public, named among what is not protected.

    ``ValueError`` for numbers out of range, or budgets of another number of users.

    >>> from ldp_jax.features import HDS
    >>> from ldp_jax.graph import graphs
    >>> from ldp_jax.servers import Users, simulate
    >>> op = operator(graphs.from_edges([[0, 1], [1, 2]], 3))
    >>> server = EmbeddingServer(op, HDS(2.0, dim=4, k=1), alpha=0.1, r=0.5)
    >>> found = simulate(jax.random.key(0), server, Users(records=np.zeros((3, 4))))
    >>> found.value.shape, found.guarantee.guarantees[0].epsilon
    ((3, 4), 2.0)
    """

    op: Operator
    mechanism: Mechanism
    alpha: Scalar
    r: Scalar
    tol: Scalar = 1e-5
    choices: tuple[str, ...] = ()

    __repr__ = by_shapes

    def __post_init__(self) -> None:
        _check_propagation(self.op, self.op.num_nodes, self.alpha, self.r, self.tol)
        stacked_axes(self.mechanism, self.op.num_nodes)

    def statement(self) -> Statement:
        """One report of each user."""
        cost = Cost(self.mechanism.guarantee())
        exposes = ("edges", "labels", *self.choices)
        if 0 in stacked_axes(self.mechanism, self.op.num_nodes):
            exposes = (*exposes, "personal budgets")
        return Statement.of([cost], exposes=exposes, protects=("features",))

    def init(self, key: PRNGKey) -> Asked:
        """Everybody is asked."""
        return Asked(Ask(self.mechanism, np.ones(self.op.num_nodes, bool)))

    def step(self, state: Asked, answers: Answers) -> Float[Array, "n d"]:
        """The estimates, propagated."""
        reported = None if answers.reported.all() else answers.reported
        return propagate(
            self.op,
            state.question.mechanism,
            answers.values,
            alpha=self.alpha,
            r=self.r,
            tol=self.tol,
            reported=reported,
        )


def _as_operator(graph: Graph | Operator | NoisyGraph) -> Operator:
    """The operator of a graph; of a noisy one, which may be directed, too."""
    if isinstance(graph, NoisyGraph):
        return operator(graph.graph, allow_directed=True)
    return graph if isinstance(graph, Operator) else operator(graph)


@implicit_promotion()
def private_embedding(
    key: PRNGKey,
    graph: Graph | Operator | NoisyGraph,
    x: UserRecords,
    mechanism: Mechanism,
    *,
    alpha: Scalar,
    r: Scalar,
    tol: Scalar = 1e-5,
    bounds: Bounds | None = None,
    clip: bool = False,
    memory: float = _MEMORY,
) -> Embedding:
    """Perturb every user's features, propagate the reports over the graph (LDP-GE, Algorithm 4).

    Guarantee: per record, and of a noisy graph per bit of a neighbour list and per relationship.
    These units do not add: one record and one edge together lose the sum, for an adjacency that
    says so (``joint``).

    Args:
      key: a typed threefry key.
      graph: the public graph, or its :class:`~ldp_jax.graph.propagation.Operator` when it is used
        often; or the :class:`~ldp_jax.edges.NoisyGraph` that :func:`ldp_jax.edges.privatize_graph`
        released, whose guarantee then stands beside that of the features. In a directed one a node
        averages over the list that it reported.
      x: private records: dense [n, d] in the mechanism's domain (most often [-1, 1]), whose users
        may be divided among devices, and then z is; or a ``np.memmap`` of such, or a ``Dataset``,
        both read a few rows at a time; or a :class:`PublicRecord`, the structure-only twin.
      mechanism: such as ``HDS(epsilon, dim=d, k=20)``. Its epsilon may be an array [n], one a user:
        personal budgets, which are public and must not depend on the records; the guarantee is then
        the largest one.
      alpha: decay factor in (0, 1].
      r: convolution coefficient in [0, 1].
      tol: relative error of the propagation.
      bounds: public (lower, upper) of a dense x, each a number or an array [d], which is mapped
        from them to the mechanism's domain; by default x is in that domain. Pairs by column are
        ``np.transpose(pairs)``. They are taken off in float64 where x is of the host and not
        float32: dates in seconds keep their seconds.
      clip: whether a dense x may leave its bounds: it is then clipped, and NaN goes to their
        centre.
      memory: bytes to allow, of all devices together (:func:`embedding_memory`).

    Raises:
      ValueError: before the key is used, for arguments that do not fit each other or are out of
        range, a graph that is not symmetric, an embedding that ``memory`` does not hold, from
        public sizes alone, a dense x that leaves its bounds without ``clip``, and bounds between
        which numbers of the type of x are more than 1e-3 of the width apart.

    >>> from ldp_jax import datasets, features
    >>> debian = datasets.load("debian")
    >>> mechanism = features.HDS(1.0, dim=debian.num_features, k=20)
    >>> key = jax.random.key(0)
    >>> result = private_embedding(
    ...     key, debian.graph, debian, mechanism, alpha=0.1, r=0.1
    ... )
    >>> result.z.shape == debian.x.shape
    True
    >>> print(str(result.guarantee).splitlines()[0])
    protected: features; NOT protected: edges, labels
    """
    given = (mechanism, () if isinstance(graph, Operator) else graph)
    validate.require(
        all(map(validate.concrete, jax.tree.leaves(given))),
        "mechanism and graph must be concrete: where they are traced, use perturb, propagate and "
        "an Operator",
    )
    n, _ = check_records(x, mechanism)
    op = _as_operator(graph)
    _check_propagation(op, n, alpha, r, tol)
    choices = tuple(getattr(x, "public_choices", ()))
    server = EmbeddingServer(op, mechanism, alpha, r, tol, choices)
    spent = server.statement().guarantee()
    if isinstance(graph, NoisyGraph):  # whose guarantee covers the lists
        of_graph = graph.guarantee
        unprotected = [name for name in spent.unprotected if name not in ("edges", "labels")]
        spent = PipelineGuarantee.of(
            [*spent.guarantees, *of_graph.guarantees],
            protected=("features", *of_graph.protected),
            unprotected=("labels", *of_graph.unprotected, *unprotected),
        )
    # With users on several devices all estimates exist at once, and are exchanged for columns.
    dense = not isinstance(x, (RowSource, np.memmap))
    runs = 1 if placement(x) is None else 3
    _check_memory(mechanism, op, dense, memory, runs)
    asked = server.init(key)
    reports = perturb(key, declared(x, box(mechanism), bounds, clip), mechanism)
    return Embedding(server.step(asked, Answers(reports, np.ones(n, bool))), spent)


@implicit_promotion()
def private_embeddings(
    keys: PRNGKeys,
    graph: Graph | Operator | NoisyGraph,
    x: UserRecords,
    mechanism: Mechanism,
    *,
    alpha: Scalar,
    r: Scalar,
    tol: Scalar = 1e-5,
    bounds: Bounds | None = None,
    clip: bool = False,
    memory: float = _MEMORY,
) -> Float[Array, "runs n d"]:
    """One private embedding a key, stacked [runs, n, d], in one compiled program.

    For repeated experiments.

    For experiments on public data: the guarantee of :func:`private_embedding` is that of one run;
    several on the same records compose, and runs that share a key are not even independent.

    Args as those of :func:`private_embedding`, but for these:

      keys: [runs] typed threefry keys; run i is ``private_embedding(keys[i], ...)``. Runs are
      divided as keys are. graph: one graph or operator for all runs, or operators of layout
      ``segment`` stacked along a leading axis of
        runs (link prediction: every split has its own training graph).
      x: dense [n, d], or a :class:`PublicRecord`: the structure-only twins of the runs with these
      keys. mechanism: its leaves are traced, so a sweep over epsilon is one program.
      memory: for a run and the results of all runs.

    Raises:
      ValueError: as :func:`private_embedding`, and for a data set in place of its dense records.
    """
    validate.threefry(keys, axes=1)
    n, d = check_records(x, mechanism)
    check_budgets(mechanism)
    fits = isinstance(x, PublicRecord) or not isinstance(x, RowSource)
    rule = "x must be dense [n, d], or a PublicRecord: a data set goes through private_embedding"
    validate.require(fits, rule)
    op = _as_operator(graph)
    _check_propagation(op, n, alpha, r, tol)
    _check_memory(mechanism, op, True, memory, runs=len(keys))
    x = declared(np.asarray(x) if isinstance(x, np.memmap) else x, box(mechanism), bounds, clip)
    if isinstance(x, PublicRecord):
        keys = jax.vmap(lambda key: key_for(key, x))(keys)
        x = to_domain(jnp.full((n, d), x.value, jnp.float32), box(mechanism))
    numbers = (jnp.asarray(v, jnp.float32) for v in (alpha, r, tol))
    records = jnp.asarray(as_records(x), jnp.float32)
    return _private_embeddings(keys, op, (records, mechanism, *numbers), over=placement(keys))


@partial(jax.jit, static_argnames="over")
def _private_embeddings(
    keys: PRNGKeys, op: Operator, given: tuple, over: NamedSharding | None = None
) -> Array:
    """``given`` is the same of all runs: records, mechanism, alpha, r and tol."""
    if over is not None:
        runs = over.spec
        specs = (runs, runs if op.degree.ndim == 2 else P(), P())
        return each_part(_private_embeddings, over, specs, runs)(keys, op, given)
    x, mechanism, *numbers = given

    def one(key: PRNGKey, op: Operator = op) -> Array:
        reports = one_report_each(random.counted(key), jnp.arange(x.shape[0]), mechanism, x)
        return _propagate(op, mechanism, reports, None, *numbers)

    stacked = (keys, op) if op.degree.ndim == 2 else (keys,)
    return jax.lax.map(lambda run: one(*run), stacked)


@implicit_promotion()
def non_private_embedding(
    graph: Graph | Operator, x: UserRecords, *, alpha: Scalar, r: Scalar, tol: Scalar = 1e-5
) -> Float[Array, "n d"]:
    """Personalized PageRank of the true features: the row that every private one is held against.

    A dense x is taken as it is. A thousand columns of a ``Dataset`` become dense at a time,
    relative to its public default record: for r > 0 the PageRank of a constant would drown 0/1
    features. See :func:`private_embedding`.
    """
    op = _as_operator(graph)
    if not isinstance(x, ColumnSource):
        return ppr(op, validate.in_order(x, "x"), alpha, r, tol)
    blocks = []
    for start in range(0, x.num_features, _COLUMNS):
        block = x.scaled_columns(start, min(x.num_features, start + _COLUMNS)) - x.default_record()
        blocks.append(ppr(op, block, alpha, r, tol))
    return jnp.concatenate(blocks, axis=1)


@jax.jit
def standardize(z: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """Every column to mean 0 and standard deviation 1; a constant column to 0. Post-processing.

    >>> standardize(jnp.array([[1.0, 5.0], [3.0, 5.0]])).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    centred = z - z.mean(0)
    variance = (centred**2).mean(0)
    # Rounding leaves a constant column with a spread of about 1e-7 of its size: that is no signal.
    constant = variance <= (1e-6 * jnp.abs(z).max(0)) ** 2
    spread = jnp.sqrt(jnp.where(constant, 1.0, variance))
    return jnp.where(constant, 0.0, centred / spread)
