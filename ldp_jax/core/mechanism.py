"""The protocol of a local mechanism: one user, one key, one report.

A mechanism is a frozen dataclass that is a pytree (:func:`ldp_jax.core.pytree.mechanism`): its
epsilon may be a number, a tracer or a stack.
``jax.vmap(m.privatize)(jax.random.split(key, n), xs)`` is the whole API for n users;
:func:`privatize` is the same, compiled and checked.

One key with two epsilons reveals the record: both reports hold one draw.

>>> from ldp_jax.features import Laplace
>>> once, twice = (
...     Laplace(epsilon).privatize(jax.random.key(0), 0.37)
...     for epsilon in (1.0, 2.0)
... )
>>> round(float(2 * twice - once), 7)
0.3700004

One key gives one report, alone or under ``vmap``, eagerly or compiled: the same whole numbers,
signs and outputs of a table (unless random bits are on a threshold: :class:`Worded`), and float32
numbers up to 2e-5, by fused roundings.
"""

import abc
import dataclasses
import math
from fractions import Fraction
from functools import partial
from types import FunctionType
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import UInt32

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import random, random_words, validate
from ldp_jax.core.blocks import by_blocks
from ldp_jax.core.pytree import mechanism as mechanism
from ldp_jax.core.pytree import static as static
from ldp_jax.core.sharding import by_rows, each_part
from ldp_jax.core.spaces import (
    ByCoordinate,
    Enumerated,
    Finite,
    Interval,
    Mixture,
    Records,
    Reports,
    as_records,
)
from ldp_jax.core.types import (
    AnyArray,
    Array,
    PRNGKey,
    PRNGKeys,
    R,
    Record,
    Report,
    Scalar,
    Values,
    Y,
)

__all__ = [
    "Analytic",
    "HasCoordinates",
    "HasDensity",
    "HasMoments",
    "Mechanism",
    "Numeric",
    "Randomizer",
    "WordRuns",
    "check_derived",
    "check_epsilon",
    "check_single",
    "largest",
    "mechanism",
    "mse",
    "privacy_loss",
    "privatize",
    "static",
    "uniform",
]

__dir__ = lambda: __all__


R_ = TypeVar("R_", bound=Values, contravariant=True)
Y_ = TypeVar("Y_", bound=Values, contravariant=True)


@runtime_checkable
class Randomizer(Protocol[R, Y]):
    """The user's side of a mechanism, without what the server makes of its reports."""

    def privatize(self, key: PRNGKey, x: R) -> Y:
        """The report of one user: all that leaves the device. It never raises on ``x``."""

    @abc.abstractmethod
    def guarantee(self) -> Guarantee:
        """The privacy of a report."""

    def domain(self) -> Records:
        """The records; others are clipped to it, NaN goes to its centre."""

    def codomain(self) -> Reports[Y]:
        """The reports."""


@runtime_checkable
class Mechanism(Randomizer[R, Y], Protocol[R, Y]):
    """A :class:`Randomizer` and its estimate; abilities that some lack have other protocols."""

    @abc.abstractmethod
    def estimate(self, y: Y) -> Array:
        """The server's estimate of the record: post-processing, which costs no privacy."""


@runtime_checkable
class HasDensity(Protocol[R_, Y_]):
    """A density of the report (a mass, where the codomain is finite) in closed form."""

    @abc.abstractmethod
    def log_density(self, y: Y_, x: R_) -> Array:
        """log p(y | x); ``-inf`` off the support."""


@runtime_checkable
class HasMoments(Protocol[R]):
    """Mean and variance of the estimate in closed form."""

    def domain(self) -> Records:
        """The records."""

    @abc.abstractmethod
    def mean(self, x: R) -> Array:
        """E[estimate(privatize(key, x))]."""

    @abc.abstractmethod
    def variance(self, x: R) -> Array:
        """Var[estimate(privatize(key, x))], coordinate by coordinate for vectors."""


@runtime_checkable
class HasCoordinates(Protocol):
    """A law on vectors that reports coordinates independently, given the record.

    All coordinates, or a set that is uniform among those of one size and independent of the record.
    """

    def codomain(self) -> ByCoordinate:
        """The reports."""

    def coordinate(self, j: int) -> "Univariate":
        """The law of coordinate j where it is sent: one object for coordinates of one law."""


class WordRuns(NamedTuple):
    """Runs of the random bits of one number that give one report, whatever the record is.

    Each run holds a ``share`` of all values. The largest loss is among the adjacent ``pairs``.
    """

    first: UInt32[np.ndarray, "words runs"]
    last: UInt32[np.ndarray, "words runs"]
    share: list[Fraction]
    pairs: list[tuple[int, int]]


class Univariate(Mechanism, HasDensity, HasMoments, abc.ABC):
    """A mechanism on one number, abstract; all methods but ``privatize`` are elementwise."""

    def privatize(self, key: PRNGKey, x: Record) -> Report:
        """The report of one record; several would share randomness, and are refused."""
        check_single(self)
        validate.require(
            not jnp.ndim(x), "x must be one number: use jax.vmap, with a key for each", x
        )
        return self.draw(key, x)

    @abc.abstractmethod
    def draw(self, key: PRNGKey, x: Record) -> Report:
        """Independent reports of all of one user's numbers, of any shape, from one key."""

    @abc.abstractmethod
    def domain(self) -> Interval | Finite:
        """The records; others are clipped, NaN goes to the centre."""

    @abc.abstractmethod
    def codomain(self) -> Interval | Finite | Mixture:
        """The reports."""


@mechanism
class Analytic(Univariate):
    """A mechanism on [-1, 1] whose law is a formula in epsilon; abstract.

    The report is an unbiased estimate; a biased one overrides ``mean``.
    """

    epsilon: Scalar

    LARGEST: ClassVar[float] = 100.0
    """The largest budget that the arithmetic of the draw keeps; larger ones are refused."""

    def _check(self) -> None:
        check_epsilon(self.epsilon, self.LARGEST)

    def domain(self) -> Interval:
        """Records are numbers in [-1, 1]; others are clipped, NaN goes to 0."""
        return Interval(-1.0, 1.0)

    def guarantee(self) -> Guarantee:
        """epsilon per record: the largest one of a stack of personal budgets."""
        if _concrete(self):
            self._check()
        reason = self.proof()
        return Guarantee(
            largest(self.epsilon),
            adjacency="any two numbers in [-1, 1]",
            status="proved" if reason else "none",
            reason=reason,
        )

    def estimate(self, y: Report) -> Array:
        """The report itself."""
        return jnp.asarray(y)

    def mean(self, x: Record) -> Array:
        """x, clipped: unbiased."""
        return self.domain().clip(x)

    def proof(self) -> str:
        """One sentence that proves the guarantee; empty where nobody has shown it."""
        return ""


@mechanism
class Numeric(Analytic):
    """An :class:`Analytic` mechanism drawn by its inverse distribution function; abstract.

    The law is symmetric: a report of -x is distributed as minus a report of x.
    """

    @abc.abstractmethod
    def from_uniform(self, u: Record, x: Record) -> Array:
        """The inverse distribution function of the report at ``u`` in (0, 1); elementwise."""

    def draw(self, key: PRNGKey, x: Record) -> Array:
        """Independent reports of all of one user's numbers, or of a stack's, from one key."""
        x = as_records(x)
        return self.from_word32(random_words.words(key, report_shape(self, x), 1)[0], x)

    def from_word32(self, word: AnyArray, x: Record) -> Array:
        """The report under 32 random bits, of which the high 23 are u = (j + 1/2) / 2^23.

        The low 9 bits divide the first and the last of these cells in steps of 2^-32; the last by
        symmetry, where float32 is precise. Elementwise.
        """
        word = jnp.asarray(word, jnp.uint32)
        cell = word >> 9
        low = word & 511
        last = cell == 2**23 - 1
        from_end = jnp.where(last, 511 - low, low)
        fine = (from_end.astype(jnp.float32) + 0.5) * np.float32(2.0**-32)
        coarse = (cell.astype(jnp.float32) + 0.5) * np.float32(2.0**-23)
        u = jnp.where((cell == 0) | last, fine, coarse)
        side = jnp.where(last, np.float32(-1.0), np.float32(1.0))
        return side * self.from_uniform(u, side * as_records(x))


@mechanism
class Worded(Analytic):
    """An :class:`Analytic` mechanism of few reports, of probabilities over 2^64; abstract.

    Masses are float32 formulas, good to a few 1e-7, then whole numbers: every possible report has
    random bits that give it.
    """

    @abc.abstractmethod
    def from_word64(self, word: AnyArray, x: Record) -> Array:
        """The report under random bits uint32 [2, ...]; it does not fall as they rise."""

    def draw(self, key: PRNGKey, x: Record) -> Array:
        """Independent reports of all of one user's numbers, or of a stack's, from one key."""
        x = as_records(x)
        return self.from_word64(random_words.words(key, report_shape(self, x)), x)


SMALLEST = """\
import jax
import jax.numpy as jnp

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core.mechanism import largest, mechanism
from ldp_jax.core.spaces import Finite
from ldp_jax.core.types import Scalar


@mechanism
class Flip:
    epsilon: Scalar

    def privatize(self, key, x):
        flip = jax.random.bernoulli(key, jax.nn.sigmoid(-self.epsilon))
        return jnp.abs(self.domain().clip(x) - flip)

    def log_density(self, y, x):  # without it the exact loss is not shown
        same = y == self.domain().clip(x)
        return jnp.where(same, jax.nn.log_sigmoid(self.epsilon), jax.nn.log_sigmoid(-self.epsilon))

    def guarantee(self):
        epsilon = largest(self.epsilon)
        return Guarantee(epsilon, adjacency="any two bits", status="proved", reason="two masses")

    def domain(self):
        return Finite((0.0, 1.0))

    def codomain(self):
        return Finite((0.0, 1.0))

    def estimate(self, y):
        return y
"""
"""A mechanism in few lines."""


def require_protocol(candidate: object, *, name: str = "mechanism") -> None:
    """Refuse what is no mechanism, by a ``TypeError`` that helps."""
    if isinstance(candidate, (type, FunctionType)):
        kind = "class" if isinstance(candidate, type) else "function"
        raise TypeError(f"{name} must be an instance, as {candidate.__name__}(...), got the {kind}")
    kind = type(candidate).__name__
    wanted = ("privatize", "guarantee", "domain", "codomain", "estimate")
    missing = [member for member in wanted if not callable(getattr(candidate, member, None))]
    if missing:
        raise TypeError(
            f"{name} must have {', '.join(missing)}, which {kind} lacks. The smallest one "
            f"(docs/mechanism.md has a complete one):\n\n{SMALLEST}"
        )
    if jax.tree_util.all_leaves([candidate]):
        raise TypeError(
            f"{name} must be a pytree: decorate {kind} with ldp_jax.core.mechanism.mechanism"
        )


def report_shape(mechanism: object, x: Record) -> tuple[int, ...]:
    """Return the shape of reports, one for each record and each of a stack of budgets."""
    return jnp.broadcast_shapes(jnp.shape(x), *map(jnp.shape, jax.tree.leaves(mechanism)))


def uniform(key: PRNGKey, shape: tuple[int, ...] = ()) -> Array:
    """Draw float32 numbers (j + 1/2) / 2^23 uniformly: within (0, 1), symmetric around 1/2."""
    return random.uniform(key, shape, jnp.float32) + np.float32(2.0**-24)


def largest(epsilon: Scalar) -> float:
    """Return the largest of one or many concrete epsilons > 0 as a Python float."""
    validate.require(
        validate.concrete(epsilon),
        "guarantee() needs a concrete epsilon; ask for it outside jit, vmap and grad",
    )
    validate.positive(epsilon=epsilon)
    return float(np.max(np.asarray(epsilon)))


MAX_EPSILON = 100.0
"""The largest budget of one number: float32 has no e^epsilon far beyond."""


def check_epsilon(epsilon: Scalar, most: float = MAX_EPSILON) -> None:
    """Refuse a budget that is not a number in (0, most]."""
    validate.positive(epsilon=epsilon)
    validate.in_range(0.0, most, open_lower=True, epsilon=epsilon)


def check_single(mechanism: object) -> None:
    """Refuse a stack of mechanisms: its reports would share their randomness.

    It sees shapes, and no data.
    """
    knows = lambda node: hasattr(node, "stack_shape")
    for node in jax.tree.leaves(mechanism, is_leaf=knows):
        shape = node.stack_shape() if knows(node) else jnp.shape(node)
        validate.require(
            not shape,
            f"{type(mechanism).__name__} holds a stack of shape {shape}: reports of one key would "
            "share their randomness; use jax.vmap over mechanisms, keys and records. A mechanism "
            "with an array of its own has a stack_shape() that returns ()",
        )


def one_record(x: Record, dim: int, name: str = "x") -> Array:
    """Return one record [dim]; another shape is a ``ValueError`` (shapes are no data)."""
    x = as_records(x)
    validate.require(
        x.shape == (dim,),
        f"{name} must be one record of shape ({dim},): use jax.vmap for several",
        x,
    )
    return x


def _concrete(*trees: object) -> bool:
    return all(map(validate.concrete, jax.tree.leaves(trees)))


def check_budget(mechanism: Any) -> None:
    """Check a mechanism's concrete parameters, where ``vmap`` or ``tree.map`` built it too."""
    check_single(mechanism)
    if _concrete(mechanism):
        mechanism.guarantee()


def check_derived(mechanism: Any, name: str) -> None:
    """Refuse concrete leaves in a field that the constructor does not make of the parameters.

    ``tree.map`` changes both, and the law of both together is not what the budget promises.
    """
    made = dataclasses.replace(mechanism)
    trees = (getattr(one, name) for one in (mechanism, made))
    for found, wanted in zip(*map(jax.tree.leaves, trees), strict=True):
        if not (validate.concrete(found) and validate.concrete(wanted)):
            continue
        validate.require(
            np.allclose(found, wanted, 1e-5, 1e-6),
            f"{name} must be what {type(mechanism).__name__} makes of its parameters: change these "
            "by dataclasses.replace, not the leaves of the tree",
        )


def privacy_loss(mechanism: HasDensity[R_, Y_], y: Y_, x: R_, x_other: R_) -> Array:
    """Return log p(y | x) - log p(y | x_other), and 0 for a report that both records exclude.

    >>> from ldp_jax.features import Duchi
    >>> round(float(privacy_loss(Duchi(1.0), 1.0, 1.0, -1.0)), 4)
    1.0
    """
    one = mechanism.log_density(y, x)
    other = mechanism.log_density(y, x_other)
    neither = jnp.isneginf(one) & jnp.isneginf(other)
    return jnp.where(neither, 0.0, one) - jnp.where(neither, 0.0, other)


def mse(mechanism: HasMoments[R], x: R) -> Array:
    """Return E[(estimate - x)^2] = variance + bias^2, coordinate by coordinate for vectors.

    >>> from ldp_jax.features import Laplace
    >>> float(mse(Laplace(1.0), 0.5))
    8.0
    """
    domain = mechanism.domain()
    validate.require(
        not isinstance(domain, Enumerated),
        "mse is for numbers and vectors, not for a mechanism on categories",
    )
    bias = mechanism.mean(x) - domain.clip(x)
    return mechanism.variance(x) + bias**2


def _keys(key: PRNGKey, start: Scalar, size: int) -> PRNGKeys:
    return jax.vmap(random.fold_in, (None, 0))(key, start + jnp.arange(size))


def _rows(tree: Y, start: Scalar, size: int) -> Y:
    return jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, size), tree)


@partial(jax.jit, static_argnames=("block", "over"))
def _privatize(
    key: PRNGKey,
    mechanism: Mechanism[Array, Y],
    x: Array,
    block: int | None,
    over: NamedSharding | None = None,
) -> Y:
    def reports(key: PRNGKey, mechanism: Mechanism[Array, Y], x: Array) -> Y:
        axes = None if over is None else over.spec[0]
        first = 0 if axes is None else jax.lax.axis_index(axes) * len(x)
        if _reads_part(mechanism, x):
            indices = _chosen(key, mechanism, first, len(x), block)
            values = jnp.take_along_axis(x, indices, 1)
            return _reported(key, mechanism, first, (indices, values), block)

        def some(start: Scalar, size: int) -> Y:
            keys = _keys(key, first + start, size)
            return jax.vmap(mechanism.privatize)(keys, _rows(x, start, size))

        return by_blocks(some, len(x), block)

    if over is not None:
        users = P(over.spec[0])
        reports = each_part(reports, over, (P(), P(), users), users)
    return reports(key, mechanism, x)


@partial(jax.jit, static_argnames=("n", "block"))
def _chosen(key: PRNGKey, mechanism: Any, first: Scalar, n: int, block: int | None) -> Array:
    """Return the coordinates that n users' reports are of, from user ``first`` on."""

    def some(start: Scalar, size: int) -> Array:
        return jax.vmap(mechanism.choose)(_keys(key, first + start, size))[1]

    return by_blocks(some, n, block)


@partial(jax.jit, static_argnames="block")
def _reported(key: PRNGKey, mechanism: Any, first: Scalar, read: Any, block: int | None) -> Any:
    """Return the reports of the coordinates that :func:`_chosen` names, and of their values."""

    def some(start: Scalar, size: int) -> Any:
        # The coordinates are not drawn again: a program does not compute what it does not use.
        keys, _ = jax.vmap(mechanism.choose)(_keys(key, first + start, size))
        return jax.vmap(mechanism.report)(keys, *_rows(read, start, size))

    return by_blocks(some, len(read[0]), block)


def _reads_part(mechanism: Any, x: AnyArray) -> bool:
    """Return whether reports read few coordinates of x, chosen without it (``features.Sampled``).

    Such a mechanism has ``reads_part()``, ``choose(key)`` (the report's key, and int32 [k]) and
    ``report(key, indices, values)``, which together make the report of ``privatize``.
    """
    if not hasattr(mechanism, "reads_part") or not mechanism.reads_part():
        return False
    return x.shape[1:] == (mechanism.dim,) and x.dtype.kind in "fiub"


def privatize(
    key: PRNGKey, mechanism: Randomizer[Array, Y], x: Values, *, block: int | None = None
) -> Y:
    """Draw the reports of n users, in one compiled program.

    User i's randomness comes from ``jax.random.fold_in(key, i)``, by JAX's default flags
    ``jax.random.split(key, n)[i]``. So any part of the users, in any order, on any device, draws
    the same reports, up to float32 rounding. The mechanism's epsilon is one number for all. (For
    personal budgets use ``jax.vmap`` over a stack.) ``x`` are records [n] or [n, d], clipped in
    silence: ``mechanism.domain().validate(x)`` checks them first. Reports are divided among devices
    as users are. A ``block`` of users at a time bounds the memory of wide records.

    >>> from ldp_jax.features import HDS
    >>> reports = privatize(
    ...     jax.random.key(0), HDS(1.0, dim=8, k=2), jnp.zeros((5, 8))
    ... )
    >>> reports.indices.shape, reports.values.shape
    ((5, 2), (5, 2))
    """
    validate.threefry(key)
    require_protocol(mechanism)
    check_budget(mechanism)
    key = random.counted(key)
    if isinstance(x, np.ndarray) and _concrete(key, mechanism) and _reads_part(mechanism, x):
        # The numbers that no report reads stay on the host.
        indices = _chosen(key, mechanism, 0, len(x), block)
        at = np.asarray(indices)
        if x.flags.c_contiguous:  # one index a number is faster
            row_start = x.shape[1] * np.arange(len(x))[:, None]
            read = x.reshape(-1).take(at + row_start)
        else:
            read = np.take_along_axis(x, at, 1)
        return _reported(key, mechanism, 0, (indices, as_records(read)), block)
    records = as_records(x)
    validate.require(
        records.ndim, "x must be records [n] or [n, d]: mechanism.privatize(key, x) is of one user"
    )
    return _privatize(key, mechanism, records, block, by_rows(records))


def exp(value: Scalar) -> float | Array:
    """Return e^value: a Python float for a number, an array for a tracer or a stack."""
    return math.exp(value) if isinstance(value, (int, float)) else jnp.exp(jnp.asarray(value))
