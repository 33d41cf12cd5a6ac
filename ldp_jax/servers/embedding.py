"""The main job in one call: private features and a public graph in, a private embedding out."""

import math
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jax.typing import ArrayLike
from jaxtyping import Float

from ldp_jax.accounting.guarantee import PipelineGuarantee
from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.mechanism import Mechanism, require_protocol
from ldp_jax.core.public_bounds import End, check_step, scaled
from ldp_jax.core.sharding import by_rows, each_part, placement
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.spaces import Box, as_records
from ldp_jax.core.spaces import clip as into
from ldp_jax.core.spaces.space import of_host, real
from ldp_jax.core.types import Array, Graph, PRNGKey, PRNGKeys, Report, Scalar
from ldp_jax.edges import NoisyGraph
from ldp_jax.graph.propagation import Operator as Operator
from ldp_jax.graph.propagation import block_width, operator, ppr, ppr_by_blocks, ppr_to_file, take_columns

_ROWS = 4096  # users whose records are dense at the same time

_COLUMNS = 1024  # columns of the true features that are dense at the same time (non-private rows only)

_MEMORY = 8e9  # bytes that an embedding may take by default

_WIDEST = 1e37  # beyond, the width between bounds leaves float32

_T = TypeVar("_T")
_Rows = TypeVar("_Rows", Array, np.ndarray)

STRUCTURE_ONLY = np.uint32(0xFFFF5EED)
"""The tag that is folded into the keys of a :class:`PublicRecord`."""


@runtime_checkable
class RowSource(Protocol):
    """Records that become dense a few rows at a time: a ``Dataset``, or a :class:`PublicRecord`.

    Rows are asked for in order and once, so that an iterator may stand behind them. A guarantee names
    ``public_choices`` of theirs, such as which words were counted, as not protected.
    """

    @property
    def num_nodes(self) -> int:
        """How many users."""

    @property
    def num_features(self) -> int:
        """d."""

    def scaled_rows(self, start: int, stop: int) -> Float[np.ndarray, "rows d"]:
        """Records [start, stop), scaled to [-1, 1] with public bounds."""


@runtime_checkable
class ColumnSource(Protocol):
    """Records that become dense a few columns at a time: a ``Dataset``."""

    @property
    def num_features(self) -> int:
        """d."""

    def scaled_columns(self, start: int, stop: int) -> Float[np.ndarray, "n columns"]:
        """Columns [start, stop) of the scaled records."""

    def default_record(self) -> float:
        """The public default record, scaled."""


@runtime_checkable
class HasColumns(Protocol):
    """A vector mechanism whose estimate can be had a few columns at a time."""

    def estimate_columns(self, y: Report, start: Scalar, width: int) -> Array:
        """The estimate of coordinates [start, start + width)."""


UserRecords: TypeAlias = Any
"""Records of n users: dense [n, d] of the host or the device, where a ``np.memmap`` is read a few thousand rows at
a time; or a :class:`RowSource`."""

Bounds: TypeAlias = tuple[ArrayLike, ArrayLike] | np.ndarray
"""Lower and upper, each a number or one a column, [d]: of two columns, too, the first pair is lower."""


class PublicRecord(NamedTuple):
    """One public record for every user: what structure-only rows are made of. Nothing of it is private.

    Its noise is never that of a private record under the same key: with additive noise the difference of two such
    releases would be the difference of the records. So :func:`perturb` and all that is built on it fold
    :data:`STRUCTURE_ONLY` into the key where x is a public record. (An array that happens to be constant is taken
    for private records: give the structure-only row as a public record, or its own key.)

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


class _FileRows(NamedTuple):
    """Records of a memory-mapped file, in bounds or in [-1, 1]."""

    x: np.memmap
    bounds: Bounds | None

    @property
    def num_nodes(self) -> int:
        return self.x.shape[0]

    @property
    def num_features(self) -> int:
        return self.x.shape[1]

    def scaled_rows(self, start: int, stop: int) -> Float[np.ndarray, "rows d"]:
        rows = np.array(self.x[start:stop])
        return np.asarray(as_records(_declared(rows, Box(self.num_features), self.bounds, clip=True)))


class Embedding(NamedTuple):
    """An embedding and what it spent.

    Attributes:
      z: float32 [n, d], of the device; or of the host, read from the file as it is needed.
      guarantee: per unit of privacy; names what is protected and what is not.
    """

    z: Float[Array | np.memmap, "n d"]
    guarantee: PipelineGuarantee

    __repr__ = by_shapes


def _check_records(x: UserRecords, mechanism: Mechanism) -> tuple[int, int]:
    """The shape (n, d) of records that the mechanism is for."""
    if scipy.sparse.issparse(x):
        raise ValueError(
            "x must be dense or a Dataset, got a sparse matrix, which says no public bounds: give the Dataset that "
            "holds it, or x.toarray() with bounds=(lower, upper)"
        )
    if hasattr(type(x), "x") and not isinstance(x, RowSource):  # of a table a column may have that name
        raise ValueError(f"x must be dense or a Dataset, got {type(x).__name__}: give its x, with its bounds")
    if isinstance(x, PublicRecord):
        validate.in_range(-1.0, 1.0, value=x.value)
    shape = (x.num_nodes, x.num_features) if isinstance(x, RowSource) else np.shape(x)
    if len(shape) != 2:
        raise ValueError(f"x must be records of shape [n, d], got shape {shape}")
    require_protocol(mechanism)
    domain = mechanism.domain()
    if not isinstance(domain, Box) or domain.dim != shape[1]:
        hint = "" if isinstance(domain, Box) else ": features.Sampled(mechanism, dim, k) asks for k of the numbers"
        raise ValueError(f"mechanism is for {domain}, records have {shape[1]} features{hint}")
    _axes(mechanism, shape[0])
    return shape


def _box(mechanism: Mechanism) -> Box:
    domain = mechanism.domain()
    if not isinstance(domain, Box):
        raise ValueError(f"mechanism must be on vectors, got one on {domain}")
    return domain


def _axes(mechanism: Mechanism, n: int) -> list[int | None]:
    """0 for each leaf that is stacked by user, None where it is one for all; ``ValueError`` for another stack."""
    # Shapes are no data.

    def stacks(node: object) -> bool:
        return hasattr(node, "stack_shape")

    axes: list[int | None] = []
    for node in jax.tree.leaves(mechanism, is_leaf=stacks):
        shape = node.stack_shape() if stacks(node) else jnp.shape(node)
        if shape not in ((), (n,)):
            name = type(mechanism).__name__
            raise ValueError(f"{name} holds a stack of shape {shape}: budgets must be one, or one a user, {n}")
        axes += [0 if shape else None] * len(jax.tree.leaves(node))
    return axes


def _each(
    function: Callable[..., _T], mechanism: Mechanism, *stacked: object, over: NamedSharding | None = None
) -> _T:
    """``function(mechanism, ...)`` for every user, each with their own budget of a stack; divided as ``over``."""
    leaves, structure = jax.tree.flatten(mechanism)
    axes = _axes(mechanism, jax.tree.leaves(stacked)[0].shape[0])

    def one(leaves: list, *arguments: object) -> _T:
        return function(jax.tree.unflatten(structure, leaves), *arguments)

    mapped = jax.vmap(one, in_axes=(axes, *(0 for _ in stacked)))
    if over is not None:
        users = P(over.spec[0])
        mine = [P() if axis is None else users for axis in axes]
        mapped = each_part(mapped, over, (mine, *(users for _ in stacked)), users)
    return mapped(leaves, *stacked)


def _check_budgets(mechanism: Mechanism) -> None:
    """Check concrete budgets, also where ``vmap`` or ``tree.map`` built the mechanism, as a stack or not."""
    if all(map(validate.concrete, jax.tree.leaves(mechanism))):
        mechanism.guarantee()


def _check_propagation(op: Operator, n: int, alpha: Scalar, r: Scalar, tol: Scalar) -> None:
    validate.in_range(0.0, 1.0, open_lower=True, alpha=alpha)
    validate.in_range(0.0, 1.0, r=r)
    validate.in_range(0.0, 1.0, open_lower=True, tol=tol)
    if op.num_nodes != n:
        raise ValueError(f"x must have a row for each of {op.num_nodes} nodes, got {n}")


@implicit_promotion()
def perturb(key: PRNGKey, x: UserRecords, mechanism: Mechanism) -> Report:
    """Every user's report, stacked; total, as devices are: numbers are clipped, NaN goes to the centre.

    Rows of a sparse data set or of a file become dense a few thousand at a time.

    Args:
      key: a typed threefry key; user i draws from ``jax.random.split(key, n)[i]`` (of the key folded with
        :data:`STRUCTURE_ONLY`, where x is a :class:`PublicRecord`).
      x: dense [n, d] in the mechanism's domain, or :class:`RowSource` such as a ``Dataset``, mapped from [-1, 1].
      mechanism: on vectors [d]; its budgets may be a public stack [n], one a user, which depends on no record.

    Raises:
      ValueError: for a key that is not threefry, an epsilon that is not finite and > 0, or a mechanism for
        another dimension than d or another number of users than n.
    """
    validate.threefry(key)
    n, _ = _check_records(x, mechanism)
    _check_budgets(mechanism)
    domain = _box(mechanism)
    if isinstance(x, np.memmap):
        x = _declared(x, domain, None, clip=True)
    leaves, structure = jax.tree.flatten(mechanism)
    known = all(map(validate.concrete, (key, *leaves)))
    key, users = random.counted(_key_for(key, x)), np.arange(n, dtype=np.int32)
    if not isinstance(x, RowSource):
        records = jnp.asarray(as_records(x), jnp.float32)
        over = by_rows(records)
        known = known and validate.concrete(records)
        return (_reports if known else _report)(key, users, mechanism, records, over)
    if not known:
        return _report(key, users, mechanism, _to_domain(as_records(x.scaled_rows(0, n)), domain))
    axes, rows = _axes(mechanism, n), min(n, _ROWS)
    wholes, like = [], jax.tree.structure(None)
    for start in range(0, n, rows):
        place = np.minimum(start + users[:rows], n - 1)  # a last block of the same shape, to be cut off
        own = [leaf if axis is None else np.asarray(leaf)[place] for leaf, axis in zip(leaves, axes, strict=True)]
        stop = min(n, start + rows)
        block, wanted = of_host(x.scaled_rows(start, stop)), (stop - start, domain.dim)
        with np.errstate(all="ignore"):  # a warning would tell of a record
            block = block.astype(np.float32, copy=False)
        if block.shape != wanted:
            raise ValueError(f"scaled_rows({start}, {stop}) of x must give shape {wanted}, got {block.shape}")
        block = np.pad(_to_domain(block, domain), ((0, rows - len(block)), (0, 0)))
        made = jax.tree.unflatten(structure, own)
        # jnp.asarray would compile a program for each shape that is brought to the device.
        parts, like = jax.tree.flatten(_reports(key, jax.device_put(place), made, jax.device_put(block)))
        # Filled on the host, where another shape of report compiles nothing.
        wholes = wholes or [_aligned((n, *part.shape[1:]), part.dtype) for part in parts]
        for whole, part in zip(wholes, parts, strict=True):
            whole[start:stop] = np.asarray(part)[: stop - start]
    return jax.tree.unflatten(like, [jax.device_put(wholes.pop(0)) for _ in range(like.num_leaves)])


def _aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An empty array that a CPU's device takes without a copy."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + 64, np.uint8)
    return memory[-memory.ctypes.data % 64 :][:size].view(dtype).reshape(shape)


def _report(
    key: PRNGKey, users: Array | np.ndarray, mechanism: Mechanism, x: Array, over: NamedSharding | None = None
) -> Report:
    keys = jax.vmap(random.fold_in, (None, 0))(key, users)  # those of random.split
    return _each(lambda m, key, record: m.privatize(key, record), mechanism, keys, x, over=over)


_reports = jax.jit(_report, static_argnames="over")


def _key_for(key: PRNGKey, x: UserRecords) -> PRNGKey:
    """The key of private records, or the one of the structure-only twin."""
    return random.fold_in(key, STRUCTURE_ONLY) if isinstance(x, PublicRecord) else key


def _declared(x: UserRecords, domain: Box, bounds: Bounds | None, clip: bool) -> UserRecords:
    """Records on the mechanism's own scale; refused where they leave their bounds and nobody said ``clip``."""
    # The data owner's own check of a simulation: one bit about all records together. A device never raises.
    if isinstance(x, RowSource):
        if bounds is not None:
            raise ValueError("bounds are for dense x: the rows of a data set have public bounds of their own")
        return x
    if isinstance(x, np.memmap):
        if bounds is not None:
            check_step(x.dtype, *_limits(bounds, domain.dim))
        for start in () if clip else range(0, len(x), _ROWS):
            _declared(np.array(x[start : start + _ROWS]), domain, bounds, clip)
        given = None if (domain.lower, domain.upper) == (-1.0, 1.0) else (domain.lower, domain.upper)
        return _FileRows(x, given if bounds is None else bounds)
    x = validate.in_order(x, "x")
    lower, upper = (domain.lower, domain.upper) if bounds is None else _limits(bounds, domain.dim)
    of_device = isinstance(x, jax.Array)
    x = x if of_device else np.asarray(x)
    if bounds is not None:
        whole = of_device and not jnp.issubdtype(x.dtype, jnp.floating)  # becomes float32 there
        check_step(jnp.result_type(float) if whole else x.dtype, lower, upper)
    if validate.concrete(x) and not clip:
        with jax.ensure_compile_time_eval():  # x may be a constant of a program
            values = real(x) if of_device else of_host(x)
            # A record of float32 that is a bound is within it, whatever float32 makes of the bound.
            kind = values.dtype if jnp.issubdtype(values.dtype, jnp.floating) else np.float64
            least, most = (np.asarray(end).astype(kind) for end in (lower, upper))
            inside = bool(((values >= least) & (values <= most)).all())  # NaN is in no interval
        if not inside:
            shown = "the bounds of its columns" if np.ndim(lower) else f"[{lower:.9g}, {upper:.9g}]"
            raise ValueError(
                f"x must lie in {shown}, and some of it does not, or is NaN (records are private: "
                "no more is said). Declare public bounds=(lower, upper) of the data, which are mapped to the "
                "mechanism's domain; or say clip=True, and what is outside is clipped and NaN goes to the centre"
                + _read(lower, upper)
            )
    if bounds is None:
        return x
    if not of_device and x.dtype != np.float32:
        return scaled(of_host(x), lower, upper, domain.lower, domain.upper)
    rest = _taken_off(lower, upper)
    return _mapped(as_records(x), rest, domain.lower, domain.upper)


def _taken_off(lower: End, upper: End) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The lower bound as two numbers of float32, and the width: one alone would move all records."""
    lower, upper = np.asarray(lower, np.float64), np.asarray(upper, np.float64)
    near = np.asarray(lower, np.float32)
    return near, np.asarray(lower - near, np.float32), np.asarray(upper - lower, np.float32)


@jax.jit
def _mapped(x: Array, bounds: tuple[Array, Array, Array], start: Scalar, stop: Scalar) -> Array:
    """Records of float32, NaN at the centre, mapped to [start, stop] and clipped; :func:`_taken_off` bounds."""
    lower, rest, width = bounds
    share = into((x - lower - rest) / width, 0.0, 1.0)
    return jnp.clip(start + share * (stop - start), start, stop)


def _limits(bounds: Bounds, dim: int) -> tuple[Any, Any]:
    """Lower and upper in float64: numbers, or both [d]."""
    wanted = f"bounds must be (lower, upper), each a number or an array [{dim}], one a column"
    try:
        lower, upper = bounds
        shapes = [np.shape(lower), np.shape(upper)]
    except (TypeError, ValueError):
        raise ValueError(f"{wanted}, got {bounds}: transpose pairs by column") from None
    if any(shape not in ((), (dim,)) for shape in shapes):
        raise ValueError(f"{wanted}, got shapes {shapes[0]} and {shapes[1]}: transpose pairs by column")
    by_hand = isinstance(lower, Sequence) and isinstance(upper, Sequence)  # of arrays it is plain which is which
    if shapes != [(), ()]:
        lower, upper = (np.broadcast_to(np.asarray(each, np.float64), (dim,)) for each in (lower, upper))
    both = np.array([lower, upper])
    validate.in_range(-_WIDEST, _WIDEST, bounds=both)
    if not np.all(np.less(lower, upper)):
        raise ValueError(f"bounds must be (lower, upper) with lower < upper, got {bounds}{_read(lower, upper)}")
    if by_hand and both.shape == (2, 2) and (both[:, 0] < both[:, 1]).all() and both[0, 1] != both[1, 0]:
        raise ValueError(f"bounds must be arrays lower and upper, got {bounds}{_read(lower, upper)}")
    return lower, upper


def _read(lower: Any, upper: Any) -> str:
    """How bounds of two columns are read, which might have been meant otherwise; nothing of others."""
    if np.shape(lower) != (2,):
        return ""
    pairs = [f"[{a:g}, {b:g}]" for a, b in ((lower[0], upper[0]), (lower[1], upper[1]), lower, upper)]
    read, transposed = " and ".join(pairs[:2]), " and ".join(pairs[2:])
    return f". Bounds of two columns are read as {read} by column, or transposed as {transposed}"


def _to_domain(rows: _Rows, domain: Box) -> _Rows:
    if (domain.lower, domain.upper) == (-1.0, 1.0):
        return rows
    return domain.lower + (rows + 1) / 2 * (domain.upper - domain.lower)  # pyrefly: ignore[bad-return]


def embedding_memory(
    mechanism: Mechanism, nodes: int, edges: int, *, dense: bool = False, to_file: bool = False
) -> float:
    """Bytes that :func:`private_embedding` takes at most, from public sizes alone.

    The larger of two moments. One holds the reports of the users that are worked on together. The other, the
    propagation, holds Z twice (one block of a Z that goes to a file), the working arrays of a block, the reports,
    the graph of so many directed edges and a dense x.

    >>> from ldp_jax.features import HDS
    >>> f"{embedding_memory(HDS(1.0, dim=10_000, k=20), 3_000_000, 10**8) / 1e9:.0f} GB"
    '246 GB'
    >>> f"{embedding_memory(HDS(1.0, dim=10_000, k=20), 3_000_000, 10**8, to_file=True) / 1e9:.0f} GB"
    '7 GB'
    """
    dim, width = _box(mechanism).dim, block_width(to_file=to_file)
    leaves, structure = jax.tree.flatten(mechanism)
    pairs = zip(leaves, _axes(mechanism, nodes), strict=True)
    one = jax.tree.unflatten(structure, [leaf if axis is None else leaf[0] for leaf, axis in pairs])
    record = jax.ShapeDtypeStruct((dim,), jnp.float32)
    report = jax.eval_shape(lambda x: one.privatize(jax.random.key(0), x), record)
    sent = sum(leaf.size for leaf in jax.tree.leaves(report))
    columns = -(-dim // width) * width if dim > width else dim
    together = nodes if dense else min(nodes, _ROWS)
    reporting = nodes * sent + together * (2 * dim + 3 * sent + 32)
    estimates = 0 if isinstance(mechanism, HasColumns) else 2 * columns  # every one at once, and padded
    whole = 2 * (min(dim, width) if to_file else columns)
    block = min(dim, width)
    propagating = nodes * (whole + 7 * block + estimates + sent + 8 + dim * dense) + edges * (3 + block / 8)
    bytes_each = max(4.0, jax.eval_shape(one.estimate, report).dtype.itemsize)  # in 64-bit mode some take 8
    return bytes_each * max(reporting, propagating)


def _check_memory(
    mechanism: Mechanism, op: Operator, dense: bool, memory: float, runs: int = 1, *, to_file: bool = False
) -> None:
    validate.positive(memory=memory)
    dim, graph = _box(mechanism).dim, 12.0 * op.num_places
    needed = embedding_memory(mechanism, op.num_nodes, op.num_places, dense=dense, to_file=to_file)
    needed += 4.0 * (runs - 1) * op.num_nodes * dim
    if needed > memory:
        fits = int(op.num_nodes * max(0.0, memory - graph) / (needed - graph))
        raise ValueError(
            f"memory of {memory / 1e9:.3g} GB does not hold an embedding of {op.num_nodes} nodes x {dim} features "
            f"({needed / 1e9:.3g} GB): about {fits} such nodes would fit, or about "
            f"{int(dim * fits / op.num_nodes)} features (Dataset.top_features); or raise memory"
            f"{'' if to_file else ', or give out, a file for z'}"
        )


def _check_file(out: str | Path | None, n: int, dim: int, *given: object) -> None:
    """Refuse a file that could not be written, from public sizes alone."""
    if out is None:
        return
    if not all(validate.concrete(one) and placement(one) is None for one in jax.tree.leaves(given)):
        raise ValueError("out must be None where arguments are traced, or divided among devices")
    folder, size = Path(out).absolute().parent, 4 * n * dim
    if not folder.is_dir() or Path(out).is_dir():
        raise ValueError(f"out must be a file in a folder that is there, got {out}")
    names = [one.filename for one in jax.tree.leaves(given) if isinstance(one, np.memmap)]
    if Path(out).exists() and any(name is not None and Path(out).samefile(name) for name in names):
        raise ValueError(f"out must be another file than the one that an argument is read from, got {out}")
    started = sum(part.stat().st_size for part in folder.glob(f"{Path(out).name}.*.part"))
    if (free := shutil.disk_usage(folder).free + started) < size:
        raise ValueError(f"out takes {size / 1e9:.3g} GB, and its disk has {free / 1e9:.3g} GB free: {out}")


@jax.jit
def _propagate(op: Operator, mechanism: Mechanism, reports: Report, alpha: Array, r: Array, tol: Array) -> Array:
    if not isinstance(mechanism, HasColumns):
        return ppr(op, _estimates(mechanism, reports), alpha, r, tol)
    dim = _box(mechanism).dim
    width = min(dim, block_width())

    def block(start: Array) -> Array:
        return ppr(op, _estimate_columns(mechanism, reports, start, width=width), alpha, r, tol)

    pieces = jax.lax.map(block, jnp.arange(0, dim, width))
    return jnp.moveaxis(pieces, 0, 1).reshape(op.num_nodes, -1)[:, :dim]


@partial(jax.jit, static_argnames="over")
def _estimates(mechanism: Mechanism, reports: Report, over: NamedSharding | None = None) -> Array:
    return _each(lambda m, y: m.estimate(y), mechanism, reports, over=over)


@partial(jax.jit, static_argnames="width")
def _estimate_columns(mechanism: Any, reports: Report, start: Array, *, width: int) -> Array:
    return _each(lambda m, y: m.estimate_columns(y, start, width), mechanism, reports)


@implicit_promotion()
def propagate(
    op: Operator, mechanism: Mechanism, reports: Report, *, alpha: Scalar, r: Scalar, tol: Scalar = 1e-5,
    out: str | Path | None = None,
) -> Float[Array | np.memmap, "n d"]:  # fmt: skip
    """Personalized PageRank Z [n, d] of the estimates, by blocks of columns: dense estimates never exist at once.

    It is compiled once for a graph, estimates apart. ``reports`` are stacked, as :func:`perturb` returns them, and
    other arguments those of :func:`private_embedding`.
    """
    _check_propagation(op, jax.tree.leaves(reports)[0].shape[0], alpha, r, tol)
    _check_file(out, op.num_nodes, _box(mechanism).dim, op, mechanism, reports, alpha, r, tol)
    traced = not all(map(validate.concrete, jax.tree.leaves((op, mechanism, reports, alpha, r, tol))))
    if traced:
        return _propagate(op, mechanism, reports, *(jnp.asarray(v, jnp.float32) for v in (alpha, r, tol)))
    over = placement(jax.tree.leaves(reports)[0])
    if over is not None:
        return ppr(op, _estimates(mechanism, reports, over), alpha, r, tol)
    if isinstance(mechanism, HasColumns):
        columns = partial(_estimate_columns, mechanism, reports)
    else:
        columns = partial(take_columns, _estimates(mechanism, reports))
    return propagate_columns(op, columns, _box(mechanism).dim, alpha, r, tol, out=out)


@implicit_promotion()
def propagate_columns(
    op: Operator, columns: Callable[..., Array], dim: int, *numbers: Scalar, out: str | Path | None
) -> Float[Array | np.memmap, "n d"]:
    """PageRank of ``columns(start, width=...)``, of ``dim`` in all; ``numbers`` are alpha, r and tol."""
    some = partial(columns, width=min(dim, block_width(to_file=out is not None)))
    return (ppr_by_blocks if out is None else partial(ppr_to_file, out))(op, some, dim, *numbers)


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
    out: str | Path | None = None,
) -> Embedding:
    """Perturb every user's features locally, propagate the reports over the graph (LDP-GE, Algorithm 4).

    Guarantee: per record, and of a noisy graph per bit of a neighbour list and per relationship. These units do not
    add: one record and one edge together lose the sum, for an adjacency that says so (``joint``).

    Args:
      key: a typed threefry key.
      graph: the public graph, or its :class:`~ldp_jax.graph.propagation.Operator` when it is used often; or the
        :class:`~ldp_jax.edges.NoisyGraph` that :func:`ldp_jax.edges.privatize_graph` released, whose guarantee then
        stands beside that of the features. In a directed one a node averages over the list that it reported.
      x: private records: dense [n, d] in the mechanism's domain (most often [-1, 1]), whose users may be divided
        among devices, and then z is; or a ``np.memmap`` of such, or a ``Dataset``, both read a few rows at a time;
        or a :class:`PublicRecord`, the structure-only twin.
      mechanism: such as ``HDS(epsilon, dim=d, k=20)``. Its epsilon may be an array [n], one a user: personal
        budgets, which are public and must not depend on the records; the guarantee is then the largest one.
      alpha: decay factor in (0, 1].
      r: convolution coefficient in [0, 1].
      tol: relative error of the propagation.
      bounds: public (lower, upper) of a dense x, each a number or an array [d], which is mapped from them to the
        mechanism's domain; by default x is in that domain. Pairs by column are ``np.transpose(pairs)``. They are
        taken off in float64 where x is of the host and not float32: dates in seconds keep their seconds.
      clip: whether a dense x may leave its bounds: it is then clipped, and NaN goes to their centre.
      memory: bytes to allow, of all devices together (:func:`embedding_memory`).
      out: a .npy file for z, which is then never in memory as a whole. A process that is killed loses a few columns
        alone: the same call, with the same key, makes the same reports and goes on.

    Raises:
      ValueError: before the key is used, for arguments that do not fit each other or are out of range, a graph that
        is not symmetric, an embedding that ``memory`` or the disk does not hold, from public sizes alone, a dense x
        that leaves its bounds without ``clip``, and bounds between which numbers of the type of x are more than
        1e-3 of the width apart.

    >>> from ldp_jax import datasets, features
    >>> debian = datasets.load("debian")
    >>> mechanism = features.HDS(1.0, dim=debian.num_features, k=20)
    >>> result = private_embedding(jax.random.key(0), debian.graph, debian, mechanism, alpha=0.1, r=0.1)
    >>> result.z.shape == debian.x.shape
    True
    >>> print(str(result.guarantee).splitlines()[0])
    protected: features; NOT protected: edges, labels
    """
    given = (mechanism, () if isinstance(graph, Operator) else graph)
    if not all(map(validate.concrete, jax.tree.leaves(given))):
        raise ValueError("mechanism and graph must be concrete: if traced, use perturb, propagate and an Operator")
    shape = _check_records(x, mechanism)
    spent = _spent(graph, x, mechanism)
    op = _as_operator(graph)
    _check_propagation(op, shape[0], alpha, r, tol)  # before anything is spent
    # Of users on several devices all estimates exist at once, and are exchanged for columns.
    dense, runs = not isinstance(x, (RowSource, np.memmap)), 1 if placement(x) is None else 3
    _check_memory(mechanism, op, dense, memory, runs, to_file=out is not None)
    _check_file(out, *shape, key, x, alpha, r, tol)
    reports = perturb(key, _declared(x, _box(mechanism), bounds, clip), mechanism)
    return Embedding(propagate(op, mechanism, reports, alpha=alpha, r=r, tol=tol, out=out), spent)


def _spent(graph: Graph | Operator | NoisyGraph, x: UserRecords, mechanism: Mechanism) -> PipelineGuarantee:
    """The cost of an embedding: the features' guarantee, and a noisy graph's."""
    choices = getattr(x, "public_choices", ())
    users = x.num_nodes if isinstance(x, RowSource) else len(x)
    if 0 in _axes(mechanism, users):
        choices = (*choices, "personal budgets")
    of_graph = graph.guarantee if isinstance(graph, NoisyGraph) else None
    protected, others = ("features",), ("edges", "labels")
    if of_graph is not None:
        protected, others = (*protected, *of_graph.protected), ("labels", *of_graph.unprotected)
    releases = [mechanism.guarantee(), *(of_graph.guarantees if of_graph is not None else ())]
    return PipelineGuarantee.of(releases, protected=protected, unprotected=(*others, *choices))


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
    """One private embedding a key, stacked [runs, n, d], in one compiled program: for repeated experiments.

    For experiments on public data: the guarantee of :func:`private_embedding` is that of one run; several on the
    same records compose, and runs that share a key are not even independent.

    Args as those of :func:`private_embedding`, but for these:

      keys: [runs] typed threefry keys; run i is ``private_embedding(keys[i], ...)``. Runs are divided as keys are.
      graph: one graph or operator for all runs, or operators of layout ``segment`` stacked along a leading axis of
        runs (link prediction: every split has its own training graph).
      x: dense [n, d], or a :class:`PublicRecord`: the structure-only twins of the runs with these keys.
      mechanism: its leaves are traced, so a sweep over epsilon is one program.
      memory: for a run and the results of all runs.

    Raises:
      ValueError: as :func:`private_embedding`, and for a data set in place of its dense records.
    """
    validate.threefry(keys, axes=1)
    n, d = _check_records(x, mechanism)
    _check_budgets(mechanism)
    if isinstance(x, RowSource) and not isinstance(x, PublicRecord):
        raise ValueError("x must be dense [n, d], or a PublicRecord: a data set goes through private_embedding")
    op = _as_operator(graph)
    _check_propagation(op, n, alpha, r, tol)
    _check_memory(mechanism, op, True, memory, runs=len(keys))
    x = _declared(np.asarray(x) if isinstance(x, np.memmap) else x, _box(mechanism), bounds, clip)
    if isinstance(x, PublicRecord):
        keys = jax.vmap(lambda key: _key_for(key, x))(keys)
        x = _to_domain(jnp.full((n, d), x.value, jnp.float32), _box(mechanism))
    numbers = (jnp.asarray(v, jnp.float32) for v in (alpha, r, tol))
    records = jnp.asarray(as_records(x), jnp.float32)
    return _private_embeddings(keys, op, (records, mechanism, *numbers), over=placement(keys))


@partial(jax.jit, static_argnames="over")
def _private_embeddings(keys: PRNGKeys, op: Operator, given: tuple, over: NamedSharding | None = None) -> Array:
    """``given`` is the same of all runs: records, mechanism, alpha, r and tol."""
    if over is not None:
        runs = over.spec
        specs = (runs, runs if op.degree.ndim == 2 else P(), P())
        return each_part(_private_embeddings, over, specs, runs)(keys, op, given)
    x, mechanism, *numbers = given

    def one(key: PRNGKey, op: Operator = op) -> Array:
        reports = _report(random.counted(key), jnp.arange(x.shape[0]), mechanism, x)
        return _propagate(op, mechanism, reports, *numbers)

    return jax.lax.map(lambda run: one(*run), (keys, op) if op.degree.ndim == 2 else (keys,))


@implicit_promotion()
def non_private_embedding(
    graph: Graph | Operator, x: UserRecords, *, alpha: Scalar, r: Scalar, tol: Scalar = 1e-5
) -> Float[Array, "n d"]:
    """Personalized PageRank of the true features: the row that every private one is held against.

    A dense x is taken as it is. A thousand columns of a ``Dataset`` become dense at a time, relative to its public
    default record: for r > 0 the PageRank of a constant would drown 0/1 features. See :func:`private_embedding`.
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
    return jnp.where(constant, 0.0, centred / jnp.sqrt(jnp.where(constant, 1.0, variance)))
