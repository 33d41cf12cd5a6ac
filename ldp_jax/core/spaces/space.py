"""Base classes of spaces of records and of reports."""

import abc
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from ldp_jax.core import validate
from ldp_jax.core.types import AnyArray, Array, ArrayLike, R, Scalar, Values, Y

Log = Callable[..., np.ndarray]
"""log p of stacked reports about one record."""
Rule = tuple[Values, np.ndarray]
"""Stacked reports, and weights [n]."""
Cells = tuple[np.ndarray, Callable[..., np.ndarray]]
"""Masses [m], and the cell of each of stacked reports."""
Volume = tuple[np.ndarray, np.ndarray]
"""Volumes [n] of the float32 reports around stacked ones, and which are atoms, of volume 1."""


class NotApplicable(ValueError):
    """A question that a mechanism or its space has no answer to; the message says why."""


_FAR = 1e9  # where numbers of the host are cut before they become float32: beyond every domain


_A = TypeVar("_A", bound=AnyArray)


def as_records(x: object) -> Array:
    """Return records as an array of the device, float32 (float64 in 64-bit mode).

    Numbers of the host are clipped to +-1e9 first (every domain lies far within), and no
    floating-point flag is seen. Arrays of the device and traced ones stay as they are; but float16
    and bfloat16, whose rounding would break a guarantee, become float32. ``TypeError`` for what are
    no real numbers, by their type alone.

    >>> as_records([10**400, -(2**63), 1e300, 0.5]).tolist()
    [1000000000.0, -1000000000.0, 1000000000.0, 0.5]
    """
    if isinstance(x, jax.Array):
        short = jnp.issubdtype(real(x).dtype, jnp.floating) and x.dtype.itemsize < 4
        return x.astype(jnp.float32) if short else x
    if isinstance(x, (bool, int, float)) and not isinstance(x, np.generic):
        return jnp.asarray(_near(x))  # weakly typed, as every Python number
    array = of_host(x)
    with np.errstate(all="ignore"):
        if array.dtype != np.float32:
            array = np.clip(array, -_FAR, _FAR).astype(jnp.result_type(float))
        return jnp.asarray(array)


def of_host(x: object) -> np.ndarray:
    """Return records of the host as float64, or float32 as they are; NaN where absent.

    >>> of_host(np.array([2**60, 1])).tolist(), of_host([10**400, 0.5]).tolist()
    ([1.152921504606847e+18, 1.0], [1.7976931348623157e+308, 0.5])
    """
    array = np.asarray(validate.unmasked(x))
    if array.dtype == object:
        most = float(np.finfo(np.float64).max)  # NumPy's would not compare with a larger integer
        each = [_near(value, most) for value in array.ravel().tolist()]
        return np.array(each, np.float64).reshape(array.shape)
    real(array)
    with np.errstate(all="ignore"):
        return array if array.dtype == np.float32 else array.astype(np.float64)


def real(array: _A) -> _A:
    """Return an array of real numbers as it is, and refuse any other by its type."""
    if array.dtype.kind == "O":
        for value in array.ravel().tolist():
            _near(value)
    elif array.dtype.kind == "m" or not any(  # NumPy takes times for integers
        jnp.issubdtype(array.dtype, kind) for kind in (jnp.floating, jnp.integer, jnp.bool_)
    ):
        # The type of texts alone: NumPy's has the length of the longest in it.
        raise TypeError(f"records must be real numbers, got {array.dtype.type.__name__}")
    return array


def _near(x: Any, far: float = _FAR) -> float:
    """Return a Python number within +-``far``, NaN as it is; ``TypeError`` for anything else."""
    try:
        # float() drops imaginary parts of NumPy's numbers; a sparse matrix has no truth value.
        if not isinstance(x, (complex, np.complexfloating)):
            return float(x) if x != x else float(max(-far, min(far, x)))
    except (TypeError, ValueError):
        pass
    raise TypeError(f"records must be real numbers, got {type(x).__name__}")


def floats(x: Values) -> Array:
    """Return records as floating-point numbers, float32 where they were whole."""
    x = as_records(x)
    return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.float32)


def clip(x: Values, lower: ArrayLike = -1.0, upper: ArrayLike = 1.0) -> Array:
    """Bring any number into [lower, upper], numbers or arrays; NaN goes to the centre.

    >>> clip(jnp.array([3.0, -jnp.inf, jnp.nan])).tolist()
    [1.0, -1.0, 0.0]
    """
    x = floats(x)
    return jnp.where(jnp.isnan(x), (lower + upper) / 2, jnp.clip(x, lower, upper))


def spacings(y: Values) -> np.ndarray:
    """Four float32 spacings of each number, at least those of 1 or of the largest."""
    y = np.asarray(y)
    least = np.float32(min(1.0, float(np.abs(y).max())))
    return 4 * np.spacing(np.maximum(np.abs(y), least)).astype(np.float64)


def each_vector(values: Values, dim: int, inside: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Which of stacked values are vectors [dim] whose numbers are all ``inside``, bool [n]."""
    y = np.asarray(values)
    if y.shape[-1:] != (dim,):
        return np.zeros(y.shape[:1], bool)
    return np.asarray(inside(y).all(-1))


class Records(abc.ABC, Generic[R]):
    """A set of records.

    ``stacked`` ones are a pytree whose leaves have one more axis, the first.
    """

    @abc.abstractmethod
    def contains(self, values: R, *, rounding: int = 0) -> np.ndarray:
        """Whether stacked values of the host are members, bool [n], up to float32 roundings."""

    @abc.abstractmethod
    def clip(self, x: R) -> R:
        """The member that a value is taken for; stacked and traced values, too. NaN is centred."""

    @abc.abstractmethod
    def extremes(self) -> tuple[R, R]:
        """Two adjacent records, exact in float32, that are as far apart as any."""

    @abc.abstractmethod
    def typical(self) -> R:
        """A record away from the ends and the centre, exact in float32."""

    @abc.abstractmethod
    def sample(self, rng: np.random.Generator, n: int) -> R:
        """Stacked random records, float32, all of whose bits are random."""

    @abc.abstractmethod
    def grid(self, count: int) -> R:
        """At most ``count`` stacked records across the space, or all of a finite one."""

    @property
    def users(self) -> int:
        """The number of users, if a mechanism takes whose record it is; else 0."""
        return 0

    def given(self, x: R) -> R:
        """A caller's record as verification holds it: float32; a list is a vector."""
        return jax.tree.map(
            lambda leaf: np.asarray(leaf, np.float32),
            x,
            is_leaf=lambda leaf: isinstance(leaf, list),
        )

    def critical_records(self) -> R:
        """Stacked records among which a density is largest or smallest."""
        return self.grid(9)

    def centre(self) -> R:
        """The record that NaN is taken for."""
        nothing = jax.tree.map(lambda leaf: np.full_like(leaf, np.nan), self.typical())
        return jax.tree.map(np.asarray, jax.jit(self.clip)(nothing))

    @property
    def all_adjacent(self) -> bool:
        """Whether any two records are adjacent."""
        return type(self).adjacent is Records.adjacent

    def adjacent(self, x: R, other: R) -> np.ndarray:
        """Which pairs of stacked records a guarantee is about, bool [n]: by default all."""
        return np.ones(len(jax.tree.leaves(x)[0]), bool)

    @property
    def adjacency(self) -> str:
        """Which pairs those are, in words; overridden together with :meth:`adjacent`."""
        if self.all_adjacent:
            return "any two records"
        return f"two records that {type(self).__name__}.adjacent says are"

    def neighbours(self, rng: np.random.Generator, n: int) -> tuple[R, R]:
        """Stacked random pairs of adjacent records; overridden together with :meth:`adjacent`."""
        raise NotApplicable(f"{type(self).__name__}.neighbours must draw adjacent pairs")

    def share(self, x: R) -> np.ndarray | None:
        """Where stacked records lie along the space, in [0, 1); None where it has no order."""
        return None

    def outside(self) -> tuple[R, R]:
        """Stacked values that are not records, and the records that they are taken for."""

        def strange(leaf: ArrayLike, end: ArrayLike) -> np.ndarray:
            beyond = np.float32(np.max(end) + 0.5)
            bad = np.array([np.nan, np.inf, -np.inf, 1e30, -7.0, beyond], np.float32)
            return np.stack([np.resize(bad[place:], np.shape(leaf)) for place in range(len(bad))])

        _, last = self.extremes()
        bad = jax.tree.map(strange, self.typical(), last)
        return bad, jax.tree.map(np.asarray, jax.jit(self.clip)(bad))

    def validate(self, x: R, name: str = "x") -> None:
        """Refuse stacked records of the host that are not members; it counts them and shows none.

        It is for loaded data: mechanisms clip whatever they are given.

        >>> from ldp_jax.features import GeneralizedRR
        >>> GeneralizedRR(1.0, 4).domain().validate([0, 3, 7])
        Traceback (most recent call last):
        ValueError: x must lie in Finite(0, 1, 2, 3): 1 of 3 records do not
        """
        inside = np.asarray(self.contains(x))
        outside = int((~inside).sum())
        validate.require(
            not outside, f"{name} must lie in {self}: {outside} of {inside.size} records do not"
        )


class Reports(abc.ABC, Generic[Y]):
    """A set of reports: what a mechanism sends."""

    @property
    def continuous(self) -> bool:
        """Whether reports hold numbers of a continuum, which float32 rounds."""
        return False

    @property
    def branches(self) -> "tuple[Reports, ...]":
        """The intervals and sets that a report of one number may come from; () for others."""
        return ()

    @property
    def atoms(self) -> tuple[Scalar, ...] | None:
        """The numbers that are reported, where they are finitely many."""
        return None

    @abc.abstractmethod
    def contains(self, values: Y, *, rounding: int = 0) -> np.ndarray:
        """Whether stacked reports are possible, bool [n]; see :meth:`Records.contains`."""


class ReportLaw(Reports[Y], Generic[Y, R]):
    """Reports of a new space, which say how verification integrates and counts them."""

    def critical_reports(self, records: R) -> Y:
        """Stacked reports where the loss between stacked records may be largest, float64."""
        raise NotApplicable(f"{type(self).__name__} has no critical reports")

    @abc.abstractmethod
    def quadrature(self, records: R, log_density: Log, *, panels: int = 64, order: int = 8) -> Rule:
        """Stacked reports and weights [n] that integrate the density of any of stacked records.

        The first record's ``log_density`` says how far an infinite space is followed. Between two
        places where a density may jump or bend are ``panels`` of ``order`` Gauss-Legendre points.
        """

    @abc.abstractmethod
    def cells(self, x: R, log_density: Log) -> Cells:
        """Masses [m] of cells of the reports about ``x``, and the cell of stacked reports."""

    def volume(self, y: Y) -> Volume:
        """Volumes [n] of the float32 reports around stacked ones; atoms are of volume 1."""
        n = len(jax.tree.leaves(y)[0])
        return np.ones(n), np.ones(n, bool)


class Enumerated(Records[R], Reports[R]):
    """A space whose members are listed.

    A subclass gives :meth:`members`, and :meth:`adjacent` where not all are.

    Members that are not rising numbers also need :meth:`place` and :meth:`clip`.
    """

    @abc.abstractmethod
    def members(self) -> R:
        """All of them, stacked: whole numbers, or float64 numbers that are exact in float32."""

    def _numbers(self, kind: DTypeLike) -> np.ndarray:
        return np.asarray(self.members(), kind)

    def place(self, values: R) -> np.ndarray:
        """The places of stacked values among the members, int [n], -1 for others."""
        y = np.asarray(values)
        kind = np.float64 if y.dtype.kind in "biu" else y.dtype
        known = self._numbers(kind)
        at = np.clip(np.searchsorted(known, y), 0, len(known) - 1)
        return np.where(known[at] == y, at, -1)

    def clip(self, x: R) -> R:
        """The nearest member; NaN goes to the middle one, the lower of two."""
        number = as_records(x)
        values = jnp.asarray(self.members(), jnp.result_type(float))
        middle = values[(len(self) - 1) // 2]
        number = jnp.where(jnp.isnan(number), middle, number)
        places = jnp.arange(len(self), dtype=values.dtype)
        nearest = jnp.rint(jnp.interp(number, values, places))
        return cast(R, values[nearest.astype(jnp.int32)])

    def __len__(self) -> int:
        return len(jax.tree.leaves(self.members())[0])

    def _pick(self, place: int | np.ndarray, kind: DTypeLike = np.float32) -> R:
        return jax.tree.map(lambda leaf: np.asarray(leaf)[place].astype(kind), self.members())

    def contains(self, values: R, *, rounding: int = 0) -> np.ndarray:
        """By :meth:`place`."""
        return self.place(values) >= 0

    def _pairs(self) -> np.ndarray:
        """The places of all adjacent pairs [m, 2]."""
        first, other = np.triu_indices(len(self), 1)
        near = np.asarray(self.adjacent(self._pick(first), self._pick(other)))
        return np.stack([first[near], other[near]], 1)

    def extremes(self) -> tuple[R, R]:
        """The first and the last, or the first two that are adjacent."""
        if self.all_adjacent:
            return self._pick(0), self._pick(-1)
        first, last = self._pairs()[0].tolist()
        return self._pick(first), self._pick(last)

    def typical(self) -> R:
        """The one that a third of the others come before."""
        return self._pick(len(self) // 3)

    def sample(self, rng: np.random.Generator, n: int) -> R:
        """Members drawn uniformly."""
        return self._pick(rng.integers(0, len(self), n))

    def neighbours(self, rng: np.random.Generator, n: int) -> tuple[R, R]:
        """Adjacent pairs drawn uniformly; float64."""
        pairs = self._pairs()
        drawn = pairs[rng.integers(0, len(pairs), n)]
        first, other = rng.permuted(drawn, axis=1).T
        return self._pick(first, np.float64), self._pick(other, np.float64)

    def grid(self, count: int) -> R:
        """All members."""
        return self.members()


def shown(value: Scalar) -> str:
    """A number in few characters; of a tracer or a stack its kind."""
    if isinstance(value, (bool, int, float, np.number)):
        return f"{value:.6g}"
    if isinstance(value, jax.core.Tracer) or np.ndim(value):
        kind = getattr(value, "dtype", type(value).__name__)
        return f"{kind}{list(np.shape(value))}"
    return f"{float(value):.6g}"


def listed(values: tuple[Scalar, ...]) -> str:
    """Some values in few characters: the first three and the last of many."""
    if len(values) > 6:
        return f"{', '.join(map(shown, values[:3]))}, ..., {shown(values[-1])}"
    return ", ".join(map(shown, values))
