"""The main job in one call: private features and a public graph in, a private embedding out."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ldp_jax import _validate
from ldp_jax.domains import Box, as_records
from ldp_jax.guarantee import PipelineGuarantee
from ldp_jax.mechanism import _privatize, check_budget
from ldp_jax.propagation import Operator as Operator
from ldp_jax.propagation import block_width, operator, ppr
from ldp_jax.types import Array, PRNGKey, Scalar

__all__ = [
    "STRUCTURE_ONLY",
    "Columns",
    "Embedding",
    "HasColumns",
    "HasPublicChoices",
    "PublicRecord",
    "Rows",
    "embedding_memory",
    "non_private_embedding",
    "perturb",
    "private_embedding",
    "private_embeddings",
    "propagate",
    "standardize",
]


def __dir__() -> list[str]:
    return __all__


_ROWS = 4096
"""Users whose records are dense at the same time."""

_COLUMNS = 1024
"""Columns of the true features that are dense at the same time (non-private rows only)."""

_MEMORY = 8e9
"""Bytes that an embedding may take by default."""

STRUCTURE_ONLY = np.uint32(0xFFFF5EED)
"""The tag that is folded into the keys of a :class:`PublicRecord`."""


@runtime_checkable
class Rows(Protocol):
    """Records that become dense a few rows at a time: a ``Dataset``, or a :class:`PublicRecord`."""

    @property
    def num_nodes(self) -> int:
        """How many users."""
        ...

    @property
    def num_features(self) -> int:
        """d."""
        ...

    def scaled_rows(self, start: int, stop: int) -> Float[np.ndarray, "rows d"]:
        """Records [start, stop), scaled to [-1, 1] with public bounds."""
        ...


@runtime_checkable
class Columns(Protocol):
    """Records that become dense a few columns at a time: a ``Dataset``."""

    @property
    def num_features(self) -> int:
        """d."""
        ...

    def scaled_columns(self, start: int, stop: int) -> Float[np.ndarray, "n columns"]:
        """Columns [start, stop) of the scaled records."""
        ...

    def default_record(self) -> float:
        """The public default record, scaled."""
        ...


@runtime_checkable
class HasPublicChoices(Protocol):
    """Records of which something is taken to be public, such as which words were counted."""

    @property
    def public_choices(self) -> tuple[str, ...]:
        """What a guarantee names as not protected."""
        ...


@runtime_checkable
class HasColumns(Protocol):
    """A vector mechanism whose estimate can be had a few columns at a time."""

    def domain(self) -> Box:
        """[-1, 1]^d."""
        ...

    def estimate_columns(self, y: Any, start: Any, width: int) -> Array:
        """The estimate of coordinates [start, start + width)."""
        ...


class PublicRecord(NamedTuple):
    """One public record for every user: what structure-only rows are made of. Nothing of it is private.

    Its noise is never that of a private record under the same key: with additive noise the difference of two such
    releases would be the difference of the records, without any noise. So :func:`perturb` and all that is built on
    it fold :data:`STRUCTURE_ONLY` into the key where x is a public record. (An array that happens to be constant is
    taken for private records: give the structure-only row as a public record, or its own key.)

    Attributes:
      num_nodes: how many users.
      num_features: d.
      value: every coordinate of the record, in [-1, 1].
    """

    num_nodes: int
    num_features: int
    value: float

    def scaled_rows(self, start: int, stop: int) -> Float[np.ndarray, "rows d"]:
        """The record, for each user."""
        return np.full((stop - start, self.num_features), self.value, np.float32)


class Embedding(NamedTuple):
    """An embedding and what it spent.

    Attributes:
      z: float32 [n, d].
      guarantee: per unit of privacy; names what is protected and what is not.
    """

    z: Array
    guarantee: PipelineGuarantee


def _check_records(x: Any, mechanism: Any) -> tuple[int, int]:
    """The shape (n, d) of the records, where the mechanism is for vectors of d."""
    shape = (x.num_nodes, x.num_features) if isinstance(x, Rows) else np.shape(x)
    if len(shape) != 2:
        raise ValueError(f"x must be records of shape [n, d], got shape {shape}")
    domain = mechanism.domain()
    if not isinstance(domain, Box) or domain.dim != shape[1]:
        raise ValueError(f"mechanism is for {domain}, records have {shape[1]} features")
    return shape


def _check_propagation(op: Operator, n: int, alpha: Scalar, r: Scalar, tol: Scalar) -> None:
    _validate.in_range(0.0, 1.0, open_lower=True, alpha=alpha)
    _validate.in_range(0.0, 1.0, r=r)
    _validate.in_range(0.0, 1.0, open_lower=True, tol=tol)
    if op.num_nodes != n:
        raise ValueError(f"x must have a row for each of {op.num_nodes} nodes, got {n}")


def perturb(key: PRNGKey, x: Any, mechanism: Any) -> Any:
    """Every user's report, stacked; the rows of a sparse data set are made dense a few thousand at a time.

    Args:
      key: a typed threefry key; user i draws from ``jax.random.split(key, n)[i]`` (of the key folded with
        :data:`STRUCTURE_ONLY`, where x is a :class:`PublicRecord`).
      x: dense [n, d] in the mechanism's domain, or :class:`Rows` such as a ``Dataset``, whose rows in [-1, 1] are
        mapped to that domain. Numbers of any size: they are clipped.
      mechanism: on vectors [d].

    Raises:
      ValueError: for a key that is not threefry, an epsilon that is not finite and > 0, or a mechanism for
        another dimension than d.
    """
    _validate.threefry(key)
    check_budget(mechanism)
    lazy = isinstance(x, Rows)
    n, _ = _check_records(x, mechanism)
    domain = mechanism.domain()
    keys = jax.random.split(_key_for(key, x), n)
    if not lazy:
        return _privatize(keys, mechanism, jnp.asarray(as_records(x), jnp.float32), None)
    pieces = []
    rows = min(n, _ROWS)
    for start in range(0, n, rows):
        stop = min(n, start + rows)
        place = np.minimum(np.arange(start, start + rows), n - 1)  # a last block of the same shape
        block = x.scaled_rows(start, stop)
        block = np.pad(block, ((0, rows - len(block)), (0, 0)))
        reports = _privatize(keys[place], mechanism, _to_domain(as_records(block), domain), None)
        pieces.append(jax.tree.map(lambda leaf, count=stop - start: leaf[:count], reports))
    return pieces[0] if len(pieces) == 1 else jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *pieces)


def _key_for(key: PRNGKey, x: Any) -> PRNGKey:
    """The key of private records, or the one of the structure-only twin."""
    return jax.random.fold_in(key, STRUCTURE_ONLY) if isinstance(x, PublicRecord) else key


def _to_domain(rows: Array, domain: Box) -> Array:
    """Rows in [-1, 1] on the mechanism's own scale."""
    if (domain.lower, domain.upper) == (-1.0, 1.0):
        return rows
    return domain.lower + (rows + 1) / 2 * (domain.upper - domain.lower)


def embedding_memory(mechanism: Any, nodes: int, edges: int, *, dense: bool = False) -> float:
    """Bytes that :func:`private_embedding` takes at most, from public sizes alone.

    The larger of two moments: the reports of the users that are worked on together, and the propagation, which
    holds Z twice (as blocks of columns, and put side by side), the working arrays of one block, the reports, the
    graph and the records where they are dense.

    Args:
      mechanism: on vectors [d].
      nodes: n.
      edges: directed edges of the public graph (an undirected one counts twice).
      dense: whether x is a dense array.

    >>> from ldp_jax.features import HDS
    >>> f"{embedding_memory(HDS(1.0, dim=10_000, k=20), 3_000_000, 10**8) / 1e9:.0f} GB"
    '248 GB'
    """
    dim, width = mechanism.domain().dim, block_width()
    report = jax.eval_shape(mechanism.privatize, jax.random.key(0), jax.ShapeDtypeStruct((dim,), jnp.float32))
    sent = sum(leaf.size for leaf in jax.tree.leaves(report))
    columns = -(-dim // width) * width if dim > width else dim
    together = nodes if dense else min(nodes, _ROWS)
    reporting = nodes * sent + together * (4 * dim + 4 * sent + 32)
    estimates = 0 if isinstance(mechanism, HasColumns) else 2 * columns  # every one at once, and padded
    propagating = nodes * (2 * columns + 6 * min(dim, width) + estimates + sent + 8 + dim * dense) + 3 * edges
    return 4.0 * max(reporting, propagating)


def _check_memory(mechanism: Any, op: Operator, dense: bool, memory: float) -> None:
    _validate.positive(memory=memory)
    edges = op.num_places
    needed = embedding_memory(mechanism, op.num_nodes, edges, dense=dense)
    if needed > memory:
        dim = mechanism.domain().dim
        graph = embedding_memory(mechanism, 0, edges)
        fits = int(op.num_nodes * max(0.0, memory - graph) / (needed - graph))
        raise ValueError(
            f"memory of {memory / 1e9:.3g} GB does not hold an embedding of {op.num_nodes} nodes x {dim} features "
            f"({needed / 1e9:.3g} GB): about {fits} such nodes would fit, or about "
            f"{int(dim * fits / op.num_nodes)} features (Dataset.top_features); or raise memory"
        )


@jax.jit
def _propagate(op: Operator, mechanism: Any, reports: Any, alpha: Array, r: Array, tol: Array) -> Array:
    if not isinstance(mechanism, HasColumns):
        return ppr(op, jax.vmap(mechanism.estimate)(reports), alpha, r, tol)
    dim = mechanism.domain().dim
    width = min(dim, block_width())

    def block(start: Array) -> Array:
        columns = jax.vmap(lambda y: mechanism.estimate_columns(y, start, width))(reports)
        return ppr(op, columns, alpha, r, tol)

    pieces = jax.lax.map(block, jnp.arange(0, dim, width))
    return jnp.moveaxis(pieces, 0, 1).reshape(op.num_nodes, -1)[:, :dim]


def propagate(op: Operator, mechanism: Any, reports: Any, *, alpha: Scalar, r: Scalar, tol: Scalar = 1e-5) -> Array:
    """Personalized PageRank of the estimates, by blocks of columns: the dense estimates never exist at once.

    Args:
      op: of the public graph.
      mechanism: that made the reports.
      reports: stacked, as :func:`perturb` returns them.
      alpha: decay factor in (0, 1].
      r: convolution coefficient in [0, 1].
      tol: see :func:`ldp_jax.propagation.ppr`.

    Returns:
      Z, float32 [n, d].
    """
    _check_propagation(op, jax.tree.leaves(reports)[0].shape[0], alpha, r, tol)
    return _propagate(op, mechanism, reports, *(jnp.asarray(v, jnp.float32) for v in (alpha, r, tol)))


def private_embedding(
    key: PRNGKey,
    graph: Any,
    x: Any,
    mechanism: Any,
    *,
    alpha: Scalar,
    r: Scalar,
    tol: Scalar = 1e-5,
    memory: float = _MEMORY,
) -> Embedding:
    """Perturb every user's features locally, propagate the reports over the public graph.

    Args:
      key: a typed threefry key.
      graph: the public graph, or its :class:`~ldp_jax.propagation.Operator` when it is used often.
      x: private records: dense [n, d] in [-1, 1], or a ``Dataset``, whose sparse rows are scaled with its
        public bounds and made dense a few at a time; or a :class:`PublicRecord`, the structure-only twin, whose
        noise is independent of the private one under the same key.
      mechanism: such as ``HDS(epsilon, dim=d, k=20)``.
      alpha: decay factor in (0, 1].
      r: convolution coefficient in [0, 1].
      tol: relative error of the propagation.
      memory: bytes to allow (see :func:`embedding_memory`), 8 GB by default; compared before anything is spent.

    Returns:
      :class:`Embedding`: z [n, d], and the guarantee of the whole.

    Raises:
      ValueError: for arguments that do not fit each other or are out of range, a graph that is not symmetric, or an
        embedding that ``memory`` does not hold; from public sizes alone, and before the key is used.

    Reference: LDP-GE Algorithm 4.

    >>> from ldp_jax import datasets, features
    >>> debian = datasets.load("debian")
    >>> mechanism = features.HDS(1.0, dim=debian.num_features, k=20)
    >>> result = private_embedding(jax.random.key(0), debian.graph, debian, mechanism, alpha=0.1, r=0.1)
    >>> result.z.shape == debian.x.shape
    True
    >>> print(str(result.guarantee).splitlines()[0])
    protected: features; NOT protected: edges, labels
    """
    choices = x.public_choices if isinstance(x, HasPublicChoices) else ()
    spent = PipelineGuarantee.of(
        [mechanism.guarantee()], protected=["features"], unprotected=["edges", "labels", *choices]
    )
    op = graph if isinstance(graph, Operator) else operator(graph)
    _check_propagation(op, _check_records(x, mechanism)[0], alpha, r, tol)  # before anything is spent
    _check_memory(mechanism, op, not isinstance(x, Rows), memory)
    reports = perturb(key, x, mechanism)
    return Embedding(propagate(op, mechanism, reports, alpha=alpha, r=r, tol=tol), spent)


def private_embeddings(
    keys: Any, op: Operator, x: Any, mechanism: Any, alpha: Any, r: Any, tol: Any = 1e-5
) -> Array:
    """One private embedding a key, stacked, in one compiled program: for repeated experiments.

    The guarantee of :func:`private_embedding` is that of one run. Publishing several runs on the same records
    composes, and runs that share a key (two epsilons, two mechanisms) are not even independent: this is for
    experiments on public data.

    Args:
      keys: [runs] typed threefry keys; run i is ``private_embedding(keys[i], ...)``.
      op: one operator for all runs, or operators of layout ``segment`` stacked along a leading axis of runs
        (link prediction: every split has its own training graph).
      x: dense [n, d] in [-1, 1], or a :class:`PublicRecord`: the structure-only twins of the runs with these keys,
        in the same program, with noise of their own.
      mechanism: on vectors [d]; its leaves are traced, so a sweep over epsilon is one program.
      alpha: decay factor.
      r: convolution coefficient.
      tol: relative error.

    Returns:
      Z, float32 [runs, n, d].
    """
    _validate.threefry(keys)
    check_budget(mechanism)
    shape = _check_records(x, mechanism)
    _check_propagation(op, shape[0], alpha, r, tol)
    if isinstance(x, PublicRecord):
        keys = jax.vmap(lambda key: _key_for(key, x))(keys)
        x = _to_domain(jnp.full(shape, x.value, jnp.float32), mechanism.domain())
    numbers = (jnp.asarray(v, jnp.float32) for v in (alpha, r, tol))
    return _private_embeddings(keys, op, jnp.asarray(as_records(x), jnp.float32), mechanism, *numbers)


@jax.jit
def _private_embeddings(
    keys: Any, op: Operator, x: Array, mechanism: Any, alpha: Array, r: Array, tol: Array
) -> Array:
    def one(key: Any, op: Operator) -> Array:
        users = jax.random.split(key, x.shape[0])
        reports = jax.vmap(lambda user, record: mechanism.privatize(user, record))(users, x)
        return _propagate(op, mechanism, reports, alpha, r, tol)

    if op.degree.ndim == 2:
        return jax.lax.map(lambda pair: one(*pair), (keys, op))
    return jax.lax.map(lambda key: one(key, op), keys)


def non_private_embedding(graph: Any, x: Any, *, alpha: Scalar, r: Scalar, tol: Scalar = 1e-5) -> Array:
    """Personalized PageRank of the true features: the row that every private one is held against.

    Args:
      graph: the public graph, or its operator.
      x: dense [n, d], taken as it is; or a ``Dataset``, of which a thousand columns are made dense at a time
        and taken relative to its public default record, so that 0/1 features stay sparse (for r > 0 the
        PageRank of a constant is the degree profile, which would drown them).
      alpha: decay factor in (0, 1].
      r: convolution coefficient in [0, 1].
      tol: relative error.
    """
    op = graph if isinstance(graph, Operator) else operator(graph)
    if not isinstance(x, Columns):
        return ppr(op, x, alpha, r, tol)
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
    return jnp.where(constant, 0.0, centred / jnp.sqrt(jnp.where(constant, 1.0, variance)))
