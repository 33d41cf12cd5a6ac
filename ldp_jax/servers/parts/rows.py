"""Public feature rows, dense or sparse, as what logistic regression multiplies."""

import math
import numbers
import warnings
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Float, Int, UInt
from numpy.typing import ArrayLike
from typing_extensions import TypeAliasType

from ldp_jax.core import long_sums, validate
from ldp_jax.core.float32 import matmul
from ldp_jax.core.pytree import pytree, static
from ldp_jax.core.types import AnyArray, Array

Scaling = Literal["rows", "columns", "none"]
"""What is of one size: each user's record, each feature, or neither; see :func:`scaled_rows`."""

Features = TypeAliasType("Features", ArrayLike | scipy.sparse.sparray | scipy.sparse.spmatrix)
"""Features of n users [n, d], dense or any scipy sparse matrix."""

_APART = 100.0  # how many times the sizes of two columns may differ before it is said

# Entries that are added up before a sum goes back to memory: gathers cost a CPU a tenth of what
# scatters do.
_LINE = 8

_FAR = 1e9  # as far out as a device takes a number of a record to be

# The share of entries above which tables, of 16 bytes an entry, take more memory than the dense
# matrix.
_DENSE = 0.25


@pytree
class Rows:
    """A sparse matrix of shape (n, d) by its entries, sorted by row, in 32 bits.

    Made by :func:`feature_rows`.
    """

    row: Int[AnyArray, " entries"]
    column: Int[AnyArray, " entries"]
    value: Float[AnyArray, " entries"]
    shape: tuple[int, int] = static()

    def times(self, weights: Float[Array, "d k"]) -> Float[Array, "n k"]:
        """The product with a dense matrix: O(entries k)."""
        part = weights[self.column] * self.value[:, None]
        return jax.ops.segment_sum(
            part, self.row, num_segments=self.shape[0], indices_are_sorted=True
        )

    def dense(self) -> Float[np.ndarray, "n d"]:
        """All n d numbers; on the host."""
        made = np.zeros(self.shape, np.float32)
        places = (np.asarray(self.row), np.asarray(self.column))
        np.add.at(made, places, np.asarray(self.value))
        return made

    def take(self, nodes: Int[np.ndarray, " some"]) -> "Rows":
        """The rows of ``nodes``, in ascending order; on the host."""
        wanted = np.unique(nodes)
        row = np.asarray(self.row)
        kept = np.flatnonzero(np.isin(row, wanted))
        return Rows(
            np.searchsorted(wanted, row[kept]).astype(np.int32),
            np.asarray(self.column)[kept],
            np.asarray(self.value)[kept],
            shape=(len(wanted), self.shape[1]),
        )


@pytree
class DenseRows:
    """A dense float32 matrix, to be multiplied as :class:`Rows` are."""

    values: Float[AnyArray, "n d"]

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        n, d = self.values.shape
        return n, d

    def times(self, weights: Float[Array, "d k"]) -> Float[Array, "n k"]:
        """The product with a dense matrix."""
        return matmul(jnp.asarray(self.values), weights)

    def transposed(self, cotangent: Float[Array, "n k"]) -> Float[Array, "d k"]:
        """The product of the transpose."""
        return matmul(jnp.asarray(self.values).T, cotangent)

    def take(self, nodes: Int[np.ndarray, " some"]) -> "DenseRows":
        """The rows of ``nodes``, in ascending order; on the host."""
        return DenseRows(np.asarray(self.values)[np.unique(nodes)])


_Lines = tuple[AnyArray, AnyArray, AnyArray]


@pytree
class RowTables:
    """:class:`Rows` laid out for many products, and those of the transpose.

    Made by :func:`laid_out`.

    The entries of a row are in lines of 8, the last one filled with zeros; those of a column as
    well, for the transpose, which would otherwise be a scatter. Lines beyond those in use are
    padding.

    Attributes:
      by_row: columns uint32 [8, lines], values float32 [8, lines], each line's row uint32 [lines],
        non-decreasing.
      by_column: rows, values, and the column of each line.
      lines: uint32 [2], how many lines of each are in use.
      shape: (n, d), static.
    """

    by_row: _Lines
    by_column: _Lines
    lines: UInt[AnyArray, " two"]
    shape: tuple[int, int] = static()

    def times(self, weights: Float[Array, "d k"]) -> Float[Array, "n k"]:
        """The product with a dense matrix: O(entries k)."""
        n, _ = self.shape
        return _sum_lines(self.by_row, self.lines[0], weights, n, part_size(n))

    def transposed(self, cotangent: Float[Array, "n k"]) -> Float[Array, "d k"]:
        """The product of the transpose."""
        n, d = self.shape
        return _sum_lines(self.by_column, self.lines[1], cotangent, d, part_size(n))


_AT_A_TIME, _MOST_PARTS = 512, 64

# Beyond so many, those of a column are added up in parts: else equal numbers round by 1e-3.
_MANY_LINES = 2**17


def part_size(n: int) -> int:
    """How many of n rows a program works on at a time.

    All of few, at most 64 parts of 512 or a multiple.
    """
    if n <= _AT_A_TIME:
        return n
    return _AT_A_TIME * -(-n // (_AT_A_TIME * _MOST_PARTS))


def power_of_four(least: int | float) -> int:
    """The least power of four that is no smaller: few sizes, so that calls share programs.

    >>> power_of_four(256), power_of_four(256.5)
    (256, 1024)
    """
    return 4 ** math.ceil(math.log(least, 4) - 1e-9)


def parts_of(count: AnyArray | np.uint32, size: int) -> Array:
    """How many parts of ``size`` rows hold ``count``.

    Unsigned, which spares a program every question of signs.
    """
    return (jnp.asarray(count) + (size - 1)) // size


def laid_out(
    rows: Rows | DenseRows, like: RowTables | DenseRows | None = None, *, room: int | None = None
) -> RowTables | DenseRows:
    """Rows as what is multiplied fastest: tables, or the dense matrix of rows that are not sparse.

    On the host.

    They are padded to a layout ``like`` that of more rows, or to a public number ``room``: both
    share programs.

    >>> rows = feature_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    >>> round(float(laid_out(rows).times(jnp.ones((2, 1)))[0, 0]), 4)
    1.4
    """
    n, d = rows.shape
    if like is None:
        wanted = max(n, room or 0)
        part = max(part_size(wanted), 1)
        wanted = -(-wanted // part) * part
        sparse = isinstance(rows, Rows) and len(rows.value) <= _DENSE * n * d
    else:
        wanted = like.shape[0]
        sparse = isinstance(like, RowTables)
    if isinstance(rows, DenseRows) or not sparse:
        values = np.asarray(rows.values if isinstance(rows, DenseRows) else rows.dense())
        return DenseRows(np.pad(values, ((0, wanted - n), (0, 0))))

    row, column, value = map(np.asarray, (rows.row, rows.column, rows.value))
    order = np.argsort(column, kind="stable")
    rooms = (None, None)
    if isinstance(like, RowTables):
        rooms = (like.by_row[2].shape[0], like.by_column[2].shape[0])
    by_row, row_lines = _lines(row, column, value, n, wanted, rooms[0])
    by_column, column_lines = _lines(column[order], row[order], value[order], d, wanted, rooms[1])
    used = np.array([row_lines, column_lines], np.uint32)
    return RowTables(by_row, by_column, used, (wanted, d))


def _lines(
    owner: np.ndarray,
    other: np.ndarray,
    value: np.ndarray,
    owners: int,
    rows: int,
    room: int | None,
) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], int]:
    """Entries sorted by owner in lines, each of one owner, and how many lines.

    Room for ``rows`` times 4^k.
    """
    count = np.bincount(owner, minlength=owners)
    lines = -(-count // _LINE)
    used = int(lines.sum())
    if room is None:
        room = max(rows, 1)
        while room < used:
            room *= 4
    within = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    first_line = np.cumsum(lines) - lines
    place = within % _LINE, first_line[owner] + within // _LINE
    others = np.zeros((_LINE, room), np.uint32)
    values = np.zeros((_LINE, room), np.float32)
    others[place] = other
    values[place] = value
    whose = np.full(room, max(owners - 1, 0), np.uint32)
    whose[:used] = np.repeat(np.arange(owners, dtype=np.uint32), lines)
    return (others, values, whose), used


def _sum_lines(lines: _Lines, used: AnyArray, weights: Array, owners: int, size: int) -> Array:
    """The lines in use summed by owner, ``size`` of them at a time."""
    others, values, owner = lines
    if len(owner) <= _MANY_LINES:
        places = jnp.asarray(owner)
        parts = []
    else:
        places, *parts = long_sums.places(owner.astype(np.int32), owners)

    def add(at: Array, total: Array) -> Array:
        other, value, place = (
            jax.lax.dynamic_slice_in_dim(part, at * size, size, -1)
            for part in (others, values, places)
        )
        each = jnp.zeros((size, weights.shape[1]), weights.dtype)
        for one, scale in zip(other, value, strict=True):
            each = each + weights[one] * scale[:, None]
        return long_sums.add(total, place, each, in_order=not parts)

    start = long_sums.with_room(jnp.zeros((owners, weights.shape[1]), weights.dtype), parts)
    total = jax.lax.fori_loop(jnp.uint32(0), parts_of(used, size), add, start)
    return long_sums.fold(total, owners, parts)


def feature_rows(
    x: Features, *, log: bool = False, public: Int[np.ndarray, " some"] | None = None
) -> Rows:
    """Features with rows of Euclidean length 1, as a classifier takes them; rows of zeros stay.

    Args:
      x: [n, d], dense or any scipy sparse matrix.
      log: log(1 + x) first, for counts; the public schema of the data says which these are.
      public: the rows that are public; all by default. Others are read as devices read them
        (:class:`ldp_jax.deployment.Classifier`), and not refused: NaN is 0, above 1e9 is 1e9,
        counts below 0 are 0.

    ``ValueError`` for another shape, or of public rows numbers that are not finite, or negative
    with ``log``.

    >>> feature_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).times(
    ...     jnp.ones((2, 1))
    ... ).ravel().tolist()
    [1.40000..., 0.0]
    """
    return _of_length_one(*_entries(x, log, public))


def of_length_one(record: Float[Array, " d"]) -> Float[Array, " d"]:
    """One private record as :func:`feature_rows` reads it.

    NaN is 0, above 1e9 is 1e9, and its length is 1.

    >>> of_length_one(jnp.array([3.0, jnp.nan, 4.0])).tolist()
    [0.600..., 0.0, 0.800...]
    """
    record = jnp.nan_to_num(jnp.asarray(record, jnp.float32), nan=0.0, posinf=_FAR, neginf=-_FAR)
    record = jnp.clip(record, -_FAR, _FAR)
    largest = jnp.abs(record).max()
    record = record / jnp.where(largest > 0, largest, 1.0)  # squares stay within float32
    length = jnp.sqrt((record**2).sum())
    return record / jnp.where(length > 0, length, 1.0)


def as_rows(features: Features | Rows) -> Rows:
    """Rows as they are, and features by :func:`feature_rows`."""
    return features if isinstance(features, Rows) else feature_rows(features)


def scaled_rows(x: Features) -> dict[Scaling, Rows]:
    """Scale public features in each way that may help a classifier.

    All ways have one layout and one mean size.

    ``rows`` is :func:`feature_rows`. ``columns`` has columns of one root mean square, less their
    means where more than a quarter of all entries are not 0. ``none`` is the features themselves.
    The latter two are divided by one number, so that the mean squared length of a row is 1, as in
    ``rows``: a ridge means the same of all three. ``ValueError`` as :func:`feature_rows`.

    >>> made = scaled_rows(np.array([[1.0, 500.0], [3.0, 900.0]]))
    >>> [round(float(value), 3) for value in made["columns"].value]
    [-0.707, -0.707, 0.707, 0.707]
    """
    row, column, values, shape = _entries(x)
    n, d = shape
    of_rows = _of_length_one(row, column, values, shape)
    plain = _of_mean_length_one(row, column, values, shape)
    values = _squarable(values, column, d)
    largest = np.zeros(d)
    np.maximum.at(largest, column, np.abs(values))
    if np.count_nonzero(values) > _DENSE * n * d:  # a sparse matrix may store zeros
        full = np.zeros(shape)
        full[row, column] = values
        full -= full.mean(0)
        row = np.repeat(np.arange(n), d)
        column = np.tile(np.arange(d), n)
        values = full.ravel()
    mean_square = np.bincount(column, weights=values**2, minlength=d) / max(n, 1)
    size = np.sqrt(mean_square)
    # A column that is constant is left with rounding errors alone.
    weight = np.divide(1.0, size, out=np.zeros(d), where=size > 1e-9 * largest)
    of_columns = _of_mean_length_one(row, column, values * weight[column], shape)
    return {"rows": of_rows, "columns": of_columns, "none": plain}


def warn_of_columns(x: Features, chosen: Scaling) -> None:
    """Say where the sizes of columns are more than 100 times apart.

    Without a choice the largest hides the others.

    The size of a column is the root mean square of its entries that are not 0.
    """
    _, column, values, (_, d) = _entries(x)
    entries = np.bincount(column[values != 0], minlength=d)
    squares = np.bincount(column, weights=values**2, minlength=d)
    size = np.sqrt(squares / np.maximum(entries, 1))
    used = np.flatnonzero(size > 0)
    if not len(used):
        return
    small = used[size[used].argmin()]
    large = used[size[used].argmax()]
    if size[large] > _APART * size[small]:
        warnings.warn(
            f"features differ in size by {size[large] / size[small]:.3g} times (column {large} "
            f"against column {small}); scaling {chosen!r} did best on held-out labels, and columns "
            "in one unit may do better",
            stacklevel=3,
        )


def _entries(
    x: Any, log: bool = False, public: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[int, int]]:
    """Row, column and float64 value of each entry, sorted by row, and the shape.

    See :func:`feature_rows`.
    """
    if np.iscomplexobj(x):
        raise ValueError(f"features must be real, got {x.dtype}")
    # In float64 before entries that are given twice are added.
    real = x.astype(np.float64) if scipy.sparse.issparse(x) else _dense(x)
    sparse = scipy.sparse.csr_array(real)
    if not sparse.has_canonical_format:
        sparse = sparse.copy()  # the caller's arrays stay as they are
        sparse.sum_duplicates()
    values = sparse.data.astype(np.float64)
    row = np.repeat(np.arange(sparse.shape[0]), np.diff(sparse.indptr))
    shown = np.ones(len(row), bool) if public is None else np.isin(row, public)
    if not np.isfinite(values[shown]).all():
        raise ValueError(
            "features must be finite, and are not: read_records(missing='centre') fills the gaps "
            "of a table"
        )
    hidden = np.clip(np.nan_to_num(values, nan=0.0, posinf=_FAR, neginf=-_FAR), -_FAR, _FAR)
    values = np.where(shown, values, hidden)
    if log:
        if (values[shown] < 0).any():
            raise ValueError(
                "features must be counts >= 0 where log is asked for, and are not everywhere"
            )
        values = np.log1p(np.maximum(values, 0.0))
    n, d = sparse.shape
    return row, sparse.indices, values, (int(n), int(d))


def _made(row: np.ndarray, column: np.ndarray, values: np.ndarray, shape: tuple[int, int]) -> Rows:
    return Rows(
        row.astype(np.int32), column.astype(np.int32), values.astype(np.float32), shape=shape
    )


def _of_length_one(
    row: np.ndarray, column: np.ndarray, values: np.ndarray, shape: tuple[int, int]
) -> Rows:
    values = _squarable(values, row, shape[0])
    length = np.sqrt(np.bincount(row, weights=values**2, minlength=shape[0]))
    return _made(row, column, values / np.where(length > 0, length, 1.0)[row], shape)


def _squarable(values: np.ndarray, group: np.ndarray, size: int) -> np.ndarray:
    """Values, those of a group over the largest of it where its square leaves float64's range."""
    largest = np.zeros(size)
    np.maximum.at(largest, group, np.abs(values))
    inside = (largest == 0.0) | ((largest > 1e-100) & (largest < 1e100))
    return values / np.where(inside, 1.0, largest)[group]


def _of_mean_length_one(
    row: np.ndarray, column: np.ndarray, values: np.ndarray, shape: tuple[int, int]
) -> Rows:
    # Squares of what is divided by the largest stay within float64.
    values = values / (np.abs(values).max(initial=0.0) or 1.0)
    length = np.sqrt((values**2).sum() / max(shape[0], 1))
    return _made(row, column, values / (length or 1.0), shape)


def _dense(x: Features) -> np.ndarray:
    x = np.asarray(validate.in_order(x, "features"))
    if x.dtype.kind in "bf":  # float16 and flags are no sparse matrix
        x = x.astype(np.float64)
    objects = x.dtype == object and x.ndim == 2
    if objects and all(isinstance(value, numbers.Real) for value in x.flat):
        # Whole numbers of more than 64 bits.
        x = np.array([[_as_float(value) for value in row] for row in x])
    if x.ndim != 2 or not np.issubdtype(x.dtype, np.number) or np.iscomplexobj(x):
        hint = ": of a Dataset or Records give the x" if x.dtype == object else ""
        raise ValueError(
            f"features must be real, of shape [n, d], got {x.dtype} of shape {x.shape}{hint}"
        )
    return x


def _as_float(value: float | int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
