"""Records of users in every form that they come in, and their reports."""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jax.typing import ArrayLike
from jaxtyping import Float

from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.mechanism import Mechanism, privatize, require_protocol
from ldp_jax.core.public_bounds import check_step, scaled
from ldp_jax.core.sharding import by_rows, each_part
from ldp_jax.core.spaces import Box, Interval, as_records
from ldp_jax.core.spaces import clip as into
from ldp_jax.core.spaces.space import of_host, real
from ldp_jax.core.types import AnyArray, Array, PRNGKey, Report, Scalar
from ldp_jax.servers.parts.rows import Rows

BLOCK = 4096
"""Users whose records are dense at the same time."""

_WIDEST = 1e37  # beyond, the width between bounds leaves float32

_T = TypeVar("_T")
_Rows = TypeVar("_Rows", Array, np.ndarray)

STRUCTURE_ONLY = np.uint32(0xFFFF5EED)
"""The tag that is folded into the keys of a :class:`PublicRecord`."""


@runtime_checkable
class RowSource(Protocol):
    """Records that become dense a few rows at a time: a ``Dataset``, or a :class:`PublicRecord`.

    Rows are asked for in order and once, so that an iterator may stand behind them. A guarantee
    names ``public_choices`` of theirs, such as which words were counted, as not protected.
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


UserRecords: TypeAlias = Any
"""Records of n users: dense [n, d] of the host or the device, where a ``np.memmap`` is read a few
thousand rows at a time; or a :class:`RowSource`."""

Bounds: TypeAlias = tuple[ArrayLike, ArrayLike] | np.ndarray
"""Lower and upper, each a number or one a column, [d]: of two columns, too, the first pair is
lower.
"""


class PublicRecord(NamedTuple):
    """One public record for every user: what structure-only rows are made of.

    Nothing of it is private.

    Its noise is never that of a private record under the same key: with additive noise the
    difference of two such releases would be the difference of the records. So :func:`perturb` and
    all that is built on it fold :data:`STRUCTURE_ONLY` into the key where x is a public record. (An
    array that happens to be constant is taken for private records: give the structure-only row as a
    public record, or its own key.)

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
        return np.asarray(
            as_records(declared(rows, Box(self.num_features), self.bounds, clip=True))
        )


def check_records(x: UserRecords, mechanism: Mechanism) -> tuple[int, int]:
    """The shape (n, d) of records that the mechanism is for."""
    validate.unnamed(x=x)
    if scipy.sparse.issparse(x):
        raise ValueError(
            "x must be dense or a Dataset, got a sparse matrix, which says no public bounds: "
            "give the Dataset that holds it, or x.toarray() with bounds=(lower, upper)"
        )
    # The type is asked: a column of a table may be named x.
    if hasattr(type(x), "x") and not isinstance(x, RowSource):
        raise ValueError(
            f"x must be dense or a Dataset, got {type(x).__name__}: give its x, with its bounds"
        )
    if isinstance(x, PublicRecord):
        validate.in_range(-1.0, 1.0, value=x.value)
    shape = (x.num_nodes, x.num_features) if isinstance(x, RowSource) else np.shape(x)
    if len(shape) != 2:
        raise ValueError(f"x must be records of shape [n, d], got shape {shape}")
    require_protocol(mechanism)
    domain = mechanism.domain()
    if not isinstance(domain, Box) or domain.dim != shape[1]:
        hint = ""
        if isinstance(domain, Interval):
            hint = ": features.Sampled(mechanism, dim, k) asks for k of the numbers"
        raise ValueError(f"mechanism is for {domain}, records have {shape[1]} features{hint}")
    stacked_axes(mechanism, shape[0])
    return shape


def box(mechanism: Mechanism) -> Box:
    """The domain of a mechanism on vectors."""
    domain = mechanism.domain()
    if not isinstance(domain, Box):
        raise ValueError(f"mechanism must be on vectors, got one on {domain}")
    return domain


def stacked_axes(mechanism: Mechanism, n: int) -> list[int | None]:
    """0 for each leaf that is stacked by user, None where it is one for all.

    ``ValueError`` for another stack, and for an array of n numbers that may as well be the
    mechanism's own. A mechanism says which by ``stack_shape()``, the shape of its budgets: () where
    its arrays are its own.
    """
    # Shapes are no data.

    def stacks(node: object) -> bool:
        return hasattr(node, "stack_shape")

    axes: list[int | None] = []
    for node in jax.tree.leaves(mechanism, is_leaf=stacks):
        shape = node.stack_shape() if stacks(node) else jnp.shape(node)
        if shape not in ((), (n,)):
            name = type(mechanism).__name__
            raise ValueError(
                f"{name} holds a stack of shape {shape}: budgets must be one, or one a user, {n}; "
                "a mechanism with an array of its own has a stack_shape() that returns ()"
            )
        axes += [0 if shape else None] * len(jax.tree.leaves(node))
    for made in (mechanism, getattr(mechanism, "inner", None)) if 0 in axes else ():
        if made is not None and not stacks(made) and _draws_as_it_is(made):
            raise ValueError(
                f"{type(made).__name__} holds an array of {n} numbers, as many as there are users: "
                "it may be one number a user, or the mechanism's own. Give it a stack_shape(), "
                f"which returns ({n},) for the former and () for the latter"
            )
    return axes


def _draws_as_it_is(mechanism: Any) -> bool:
    """Whether a mechanism reports one record with all of its arrays; this library's refuse it."""
    try:
        record = mechanism.domain().typical()
        jax.eval_shape(lambda: mechanism.privatize(jax.random.key(0), record))
    except Exception:  # a mechanism of one's own may raise what it likes
        return False
    return True


def each_user(
    function: Callable[..., _T],
    mechanism: Mechanism,
    *stacked: object,
    over: NamedSharding | None = None,
) -> _T:
    """``function(mechanism, ...)`` for every user, each with their own budget of a stack.

    Divided as ``over``.
    """
    leaves, structure = jax.tree.flatten(mechanism)
    axes = stacked_axes(mechanism, jax.tree.leaves(stacked)[0].shape[0])

    def one(leaves: list, *arguments: object) -> _T:
        return function(jax.tree.unflatten(structure, leaves), *arguments)

    mapped = jax.vmap(one, in_axes=(axes, *(0 for _ in stacked)))
    if over is not None:
        users = P(over.spec[0])
        mine = [P() if axis is None else users for axis in axes]
        mapped = each_part(mapped, over, (mine, *(users for _ in stacked)), users)
    return mapped(leaves, *stacked)


def check_budgets(mechanism: Mechanism) -> None:
    """Check concrete budgets, also of mechanisms that ``vmap`` or ``tree.map`` built."""
    if all(map(validate.concrete, jax.tree.leaves(mechanism))):
        mechanism.guarantee()


@implicit_promotion()
def perturb(
    key: PRNGKey, x: UserRecords, mechanism: Mechanism, *, bounds: Bounds | None = None
) -> Report:
    """Every user's report, stacked.

    Total, as devices are: numbers are clipped, NaN goes to the centre.

    Rows of a sparse data set or of a file become dense a few thousand at a time.

    Args:
      key: a typed threefry key; user i draws from ``jax.random.split(key, n)[i]`` (of the key
        folded with :data:`STRUCTURE_ONLY`, where x is a :class:`PublicRecord`).
      x: dense [n, d] in the mechanism's domain, or :class:`RowSource` such as a ``Dataset``, mapped
        from [-1, 1].
      mechanism: on vectors [d]; its budgets may be a public stack [n], one a user, which depends on
        no record.
      bounds: public (lower, upper) of a dense x, each a number or an array [d], which x is mapped
        from; by default x is on the mechanism's own scale.

    Raises:
      ValueError: for a key that is not threefry, an epsilon that is not finite and > 0, or a
        mechanism for another dimension than d or another number of users than n.
    """
    validate.threefry(key)
    n, _ = check_records(x, mechanism)
    check_budgets(mechanism)
    domain = box(mechanism)
    if isinstance(x, np.memmap) or bounds is not None:
        x = declared(x, domain, bounds, clip=True)
    known = all(map(validate.concrete, (key, *jax.tree.leaves(mechanism))))
    key = random.counted(key_for(key, x))
    users = np.arange(n, dtype=np.int32)
    if not isinstance(x, RowSource):
        records = jnp.asarray(as_records(x), jnp.float32)
        over = by_rows(records)
        eager = known and validate.concrete(records)
        reports = reports_of if eager else one_report_each
        return reports(key, users, mechanism, records, over)
    if not known:
        return one_report_each(
            key, users, mechanism, to_domain(as_records(x.scaled_rows(0, n)), domain)
        )
    return _by_blocks(key, users, mechanism, x)


def _by_blocks(key: PRNGKey, users: np.ndarray, mechanism: Mechanism, x: RowSource) -> Report:
    """The reports of users whose records become dense a few thousand at a time.

    ``key`` is counted.
    """
    domain = box(mechanism)
    leaves, structure = jax.tree.flatten(mechanism)
    n = len(users)
    axes = stacked_axes(mechanism, n)
    rows = min(n, BLOCK)
    wholes = []
    like = jax.tree.structure(None)
    for start in range(0, n, rows):
        stop = min(n, start + rows)
        # The last block has the same shape, and is cut off.
        place = np.minimum(start + users[:rows], n - 1)
        own = [
            leaf if axis is None else np.asarray(leaf)[place]
            for leaf, axis in zip(leaves, axes, strict=True)
        ]
        block = of_host(x.scaled_rows(start, stop))
        with np.errstate(all="ignore"):  # a warning would tell of a record
            block = block.astype(np.float32, copy=False)
        if block.shape != (stop - start, domain.dim):
            raise ValueError(
                f"scaled_rows({start}, {stop}) of x must give shape {(stop - start, domain.dim)}, "
                f"got {block.shape}"
            )
        missing = rows - len(block)
        block = np.pad(to_domain(block, domain), ((0, missing), (0, 0)))
        made = jax.tree.unflatten(structure, own)
        # jnp.asarray would compile a program for each shape that is brought to the device.
        reports = reports_of(key, jax.device_put(place), made, jax.device_put(block))
        parts, like = jax.tree.flatten(reports)
        # Filled on the host, where another shape of report compiles nothing.
        wholes = wholes or [_aligned((n, *part.shape[1:]), part.dtype) for part in parts]
        for whole, part in zip(wholes, parts, strict=True):
            whole[start:stop] = np.asarray(part)[: stop - start]
    leaves = [jax.device_put(wholes.pop(0)) for _ in range(like.num_leaves)]
    return jax.tree.unflatten(like, leaves)


def _aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An empty array that a CPU's device takes without a copy."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + 64, np.uint8)
    return memory[-memory.ctypes.data % 64 :][:size].view(dtype).reshape(shape)


def one_report_each(
    key: PRNGKey,
    users: AnyArray,
    mechanism: Mechanism,
    x: Array,
    over: NamedSharding | None = None,
) -> Report:
    """The reports of some users, within a program.

    User i has the key that ``random.split`` gives it.
    """
    keys = jax.vmap(random.fold_in, (None, 0))(key, users)
    return each_user(lambda m, key, record: m.privatize(key, record), mechanism, keys, x, over=over)


reports_of = jax.jit(one_report_each, static_argnames="over")


def key_for(key: PRNGKey, x: UserRecords) -> PRNGKey:
    """The key of private records, or the one of the structure-only twin."""
    return random.fold_in(key, STRUCTURE_ONLY) if isinstance(x, PublicRecord) else key


_FEW = 32  # numbers that may all be above 0 by chance


def declared(
    x: UserRecords, domain: Box, bounds: Bounds | None, clip: bool, *, whole: bool = True
) -> UserRecords:
    """Records on the mechanism's own scale.

    Refused where they leave their bounds and nobody said ``clip``; ``whole`` is False of a part.
    """
    # The data owner's own check of a simulation: one bit about all records together. A device never
    # raises.
    if isinstance(x, RowSource):
        if bounds is not None:
            raise ValueError(
                "bounds are for dense x: the rows of a data set have public bounds of their own"
            )
        return x
    if isinstance(x, np.memmap):
        if bounds is not None:
            check_step(x.dtype, *_limits(bounds, domain.dim))
        for start in () if clip else range(0, len(x), BLOCK):
            declared(np.array(x[start : start + BLOCK]), domain, bounds, clip, whole=False)
        ends = (domain.lower, domain.upper)
        if bounds is None and ends != (-1.0, 1.0):
            bounds = ends
        return _FileRows(x, bounds)
    x = validate.in_order(x, "x")
    lower, upper = (domain.lower, domain.upper) if bounds is None else _limits(bounds, domain.dim)
    of_device = isinstance(x, jax.Array)
    x = x if of_device else np.asarray(x)
    if bounds is not None:
        counts = of_device and not jnp.issubdtype(x.dtype, jnp.floating)  # becomes float32 there
        check_step(jnp.result_type(float) if counts else x.dtype, lower, upper)
    if validate.concrete(x) and not clip:
        with jax.ensure_compile_time_eval():  # x may be a constant of a program
            values = real(x) if of_device else of_host(x)
            # A record of float32 that is a bound is within it, whatever float32 makes of the bound.
            kind = values.dtype if jnp.issubdtype(values.dtype, jnp.floating) else np.float64
            least, most = (np.asarray(end).astype(kind) for end in (lower, upper))
            inside = bool(((values >= least) & (values <= most)).all())  # NaN is in no interval
            # Many numbers of a domain around 0 that are all above it: bounds may be forgotten.
            suspect = whole and bounds is None and -domain.lower == domain.upper
            halved = suspect and values.size >= _FEW and values.min() >= 0 and values.max() > 0
        if halved:
            warnings.warn(
                f"every number of x is in [0, {domain.upper:g}], and the mechanism takes "
                f"[{domain.lower:g}, {domain.upper:g}]: give bounds=(0, {domain.upper:g}), or "
                f"bounds=({domain.lower:g}, {domain.upper:g}) where x is on that scale",
                stacklevel=3,
            )
        if not inside:
            shown = "the bounds of its columns" if np.ndim(lower) else f"[{lower:.9g}, {upper:.9g}]"
            raise ValueError(
                f"x must lie in {shown}, and some of it does not, or is NaN (records are private: "
                "no more is said). Declare public bounds=(lower, upper) of the data, which are "
                "mapped to the mechanism's domain; or say clip=True, and what is outside is "
                "clipped and NaN goes to the centre" + _read(lower, upper)
            )
    if bounds is None:
        return x
    if not of_device and x.dtype != np.float32:
        return scaled(of_host(x), lower, upper, domain.lower, domain.upper)
    # The lower bound as two numbers of float32: one alone would move all records.
    lower = np.asarray(lower, np.float64)
    near = lower.astype(np.float32)
    rest = (lower - near).astype(np.float32)
    width = (np.asarray(upper, np.float64) - lower).astype(np.float32)
    return _mapped(as_records(x), (near, rest, width), domain.lower, domain.upper)


@jax.jit
def _mapped(x: Array, bounds: tuple[Array, Array, Array], start: Scalar, stop: Scalar) -> Array:
    """Records of float32, NaN at the centre, mapped to [start, stop] and clipped.

    ``bounds`` are the lower one, what float32 leaves of it, and the width.
    """
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
        raise ValueError(
            f"{wanted}, got shapes {shapes[0]} and {shapes[1]}: transpose pairs by column"
        )
    by_hand = isinstance(lower, Sequence) and isinstance(upper, Sequence)
    if shapes != [(), ()]:
        lower, upper = (
            np.broadcast_to(np.asarray(each, np.float64), (dim,)) for each in (lower, upper)
        )
    both = np.array([lower, upper])
    validate.in_range(-_WIDEST, _WIDEST, bounds=both)
    if not np.all(np.less(lower, upper)):
        raise ValueError(
            f"bounds must be (lower, upper) with lower < upper, got {bounds}{_read(lower, upper)}"
        )
    # Each may be meant as the ends of one column; arrays say plainly which is which.
    rise = both.shape == (2, 2) and (both[:, 0] < both[:, 1]).all()
    if by_hand and rise and both[0, 1] != both[1, 0]:
        raise ValueError(
            f"bounds must be arrays lower and upper, got {bounds}{_read(lower, upper)}"
        )
    return lower, upper


def _read(lower: Any, upper: Any) -> str:
    """How bounds of two columns are read, which might have been meant otherwise.

    Nothing of others.
    """
    if np.shape(lower) != (2,):
        return ""
    pairs = [
        f"[{a:g}, {b:g}]" for a, b in ((lower[0], upper[0]), (lower[1], upper[1]), lower, upper)
    ]
    read = " and ".join(pairs[:2])
    transposed = " and ".join(pairs[2:])
    return f". Bounds of two columns are read as {read} by column, or transposed as {transposed}"


def to_domain(rows: _Rows, domain: Box) -> _Rows:
    """Records of [-1, 1] on the mechanism's own scale."""
    if (domain.lower, domain.upper) == (-1.0, 1.0):
        return rows
    width = domain.upper - domain.lower
    return domain.lower + (rows + 1) / 2 * width  # pyrefly: ignore[bad-return]


def count(records: Any) -> int:
    """How many users there are."""
    if isinstance(records, RowSource):
        return records.num_nodes
    return records.shape[0] if hasattr(records, "shape") else len(records)


def rows(records: Any, start: int, stop: int) -> Any:
    """The records of some users, dense."""
    if isinstance(records, RowSource):
        return as_records(records.scaled_rows(start, stop))
    if isinstance(records, Rows):
        row = np.asarray(records.row)
        some = slice(*np.searchsorted(row, (start, stop)))
        shape = (stop - start, records.shape[1])
        column, value = np.asarray(records.column)[some], np.asarray(records.value)[some]
        return as_records(Rows(row[some] - start, column, value, shape=shape).dense())
    return as_records(np.asarray(records)[start:stop])


def perturbed(key: PRNGKey, records: Any, mechanism: Mechanism) -> Report:
    """Every user's record through a mechanism; user i has the i-th key."""
    if isinstance(mechanism.domain(), Box):
        return perturb(key, records, mechanism)
    return privatize(key, mechanism, records)


def public_record(records: Any, value: float) -> Any:
    """One public record for everybody, in the form of the records."""
    if isinstance(records, Rows):
        nothing = np.zeros(0, np.int32)
        return Rows(nothing, nothing, nothing.astype(np.float32), shape=records.shape)
    if isinstance(records, RowSource):
        return PublicRecord(records.num_nodes, records.num_features, value)
    shape = np.shape(records)
    if len(shape) == 2:
        n, dim = shape
        return PublicRecord(n, dim, value)
    return np.full(shape, value, np.float32)


def taken(records: Any, holder: np.ndarray) -> Any:
    """Records of which user i has that of ``holder[i]``."""
    if isinstance(records, Rows):
        row = np.argsort(holder)[np.asarray(records.row)].astype(np.int32)
        order = np.argsort(row, kind="stable")
        arrays = (np.asarray(array)[order] for array in (records.column, records.value))
        return Rows(row[order], *arrays, shape=records.shape)
    if isinstance(records, RowSource):
        return np.concatenate([records.scaled_rows(own, own + 1) for own in holder.tolist()])
    return np.asarray(records)[holder]
