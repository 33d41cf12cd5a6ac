"""The protocol of a local mechanism: one user, one key, one report.

A mechanism is a frozen dataclass that is a pytree (:func:`ldp_jax.core.pytree.mechanism`): its
epsilon may be a number, a tracer or a stack.
``jax.vmap(m.privatize)(jax.random.split(key, n), xs)`` is the whole API for n users;
:func:`privatize` is the same, compiled and checked.

One key with two epsilons reveals the record: both reports hold one draw.

>>> from ldp_jax.features import Laplace
>>> once, twice = (Laplace(epsilon).privatize(jax.random.key(0), 0.37) for epsilon in (1.0, 2.0))
>>> round(float(2 * twice - once), 7)
0.3700004

One key gives one report, alone or under ``vmap``, eagerly or compiled: the same whole numbers,
signs and outputs of a table (but for a word on a threshold: :class:`Worded`), and float32 numbers
up to 2e-5, by fused roundings.
"""

import abc
import math
from fractions import Fraction
from functools import partial
from types import FunctionType
from typing import ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Float, UInt32

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import random, random_words, validate
from ldp_jax.core.blocks import by_blocks
from ldp_jax.core.integer_tables import Table
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
    "CriticalPoints",
    "HasCoordinates",
    "HasCriticalPoints",
    "HasDensity",
    "HasMoments",
    "HasTable",
    "HasWordRuns",
    "Mechanism",
    "Numeric",
    "Randomizer",
    "WordRuns",
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
class HasGuarantee(Protocol):
    """A mechanism of any kind: a local one, or a trusted curator's."""

    @abc.abstractmethod
    def guarantee(self) -> Guarantee:
        """The promise of what it sends."""


@runtime_checkable
class Randomizer(HasGuarantee, Protocol[R, Y]):
    """The user's side: a mechanism, without what the server makes of its reports."""

    def privatize(self, key: PRNGKey, x: R) -> Y:
        """The report of one user: all that leaves the device.

        Total on data: never raises on ``x``.
        """

    def domain(self) -> Records:
        """The records; others are clipped to it, NaN goes to its centre."""

    def codomain(self) -> Reports[Y]:
        """The reports."""


@runtime_checkable
class Mechanism(Randomizer[R, Y], Protocol[R, Y]):
    """A :class:`Randomizer` and its estimate.

    Abilities that some mechanisms lack are protocols of their own.
    """

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
class HasInverse(Protocol):
    """A continuous law on numbers, drawn from one uniform.

    See :class:`Numeric` for its 2^23 values.
    """

    @abc.abstractmethod
    def from_uniform(self, u: Record, x: Record) -> Array:
        """The inverse distribution function of the report at ``u`` in (0, 1); elementwise."""


@runtime_checkable
class HasWords(Protocol):
    """A law of finitely many reports, drawn from one 64-bit number.

    Reports do not fall as it rises.
    """

    @abc.abstractmethod
    def from_word64(self, word: AnyArray, x: Record) -> Array:
        """The report under uniform words uint32 [2, ...], the most significant first.

        Elementwise in the rest.
        """


class WordRuns(NamedTuple):
    """Random words of one number, in runs of one report and a ``share`` of all words, whatever the record is.

    The largest loss is among the adjacent records ``pairs``.
    """

    first: UInt32[np.ndarray, "words runs"]
    last: UInt32[np.ndarray, "words runs"]
    share: list[Fraction]
    pairs: list[tuple[int, int]]


@runtime_checkable
class HasWordRuns(Protocol):
    """Noise from a table of more words than can be bisected, in known runs."""

    def word_runs(self) -> WordRuns:
        """The runs."""

    def from_words(self, word: AnyArray, x: Record) -> Array:
        """One number of the report under words uint32 [words, ...]; elementwise."""

    def log_likelihood(self, y: Record, x: Record) -> Array:
        """log P of one number of the report; elementwise."""


@runtime_checkable
class HasTable(Protocol):
    """Reports drawn from a table of whole numbers: the loss is a ratio of two of them."""

    def table(self) -> Table:
        """The table that is sampled."""


@runtime_checkable
class HasCoordinates(Protocol):
    """A law on vectors that reports coordinates independently, given the record.

    All coordinates, or a set that is uniform among those of one size and independent of the record.
    """

    def codomain(self) -> ByCoordinate:
        """The reports."""

    def coordinate(self, j: int) -> "Univariate":
        """The law of coordinate j where it is sent.

        The same object for coordinates that have one law.
        """


@runtime_checkable
class ReadsPart(Protocol[Y]):
    """A law on vectors [dim] that reads few coordinates of a record, chosen without it."""

    @property
    def dim(self) -> int:
        """The length of a record."""

    def reads_part(self) -> bool:
        """Whether this makes the report of ``privatize``.

        Not where a subclass has one of its own.
        """

    def choose(self, key: PRNGKey) -> tuple[PRNGKey, Array]:
        """The key of the report, and the coordinates that ``privatize`` reads under ``key``.

        Int32 [k].
        """

    def report(self, key: PRNGKey, indices: Array, values: Array) -> Y:
        """The report of a record's values at these coordinates."""


@runtime_checkable
class HasStack(Protocol):
    """A node of a tree that knows whether it holds several mechanisms."""

    def stack_shape(self) -> tuple[int, ...]:
        """The shape of the stack, () for a single mechanism."""


class CriticalPoints(NamedTuple):
    """Stacked records, any two of them adjacent, and reports, among which the largest loss is."""

    records: Float[np.ndarray, "records ..."]
    reports: Float[np.ndarray, "reports ..."]


@runtime_checkable
class HasCriticalPoints(Protocol):
    """A largest loss that is known to be among fewer points than those that the spaces name."""

    def critical_points(self) -> CriticalPoints:
        """The points."""


class Univariate(Mechanism, HasDensity, HasMoments, abc.ABC):
    """A mechanism on one number; abstract.

    Methods are elementwise in x and y, but for ``privatize``.
    """

    def privatize(self, key: PRNGKey, x: Record) -> Report:
        """The report of one record.

        ``ValueError`` for several, which would share randomness: use ``vmap``.
        """
        check_single(self)
        if jnp.ndim(x):
            raise ValueError(
                f"x must be one number, got shape {jnp.shape(x)}: use jax.vmap, with a key for each"
            )
        return self.draw(key, x)

    @abc.abstractmethod
    def draw(self, key: PRNGKey, x: Record) -> Report:
        """Independent reports of all of one user's numbers, any shape.

        One block of randomness from one key.
        """

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
        """epsilon per record.

        The largest one where epsilon is a stack of personal budgets, one a user.
        """
        if all(validate.concrete(leaf) for leaf in jax.tree.leaves(self)):
            self._check()
        reason = self.proof()
        status = "proved" if reason else "none"
        return Guarantee(
            largest(self.epsilon),
            adjacency="any two numbers in [-1, 1]",
            status=status,
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
class Numeric(Analytic, HasInverse):
    """An :class:`Analytic` mechanism drawn by ``from_uniform(u, x)``, the inverse distribution function; abstract.

    The law is symmetric: a report of -x is distributed as minus a report of x.
    """

    def draw(self, key: PRNGKey, x: Record) -> Array:
        """Independent reports of all of one user's numbers, or of a stack's.

        A word each, from one key.
        """
        x = as_records(x)
        return self.from_word32(random_words.words(key, report_shape(self, x), 1)[0], x)

    def from_word32(self, word: AnyArray, x: Record) -> Array:
        """The report under a uniform 32-bit word, whose 23 high bits are (j + 1/2) / 2^23.

        Elementwise.

        The low 9 bits cut first and last of these cells to 2^-32; the last by symmetry, where
        float32 is precise.
        """
        word = jnp.asarray(word, jnp.uint32)
        cell, low = word >> 9, word & 511
        last = cell == 2**23 - 1
        fine = (jnp.where(last, 511 - low, low).astype(jnp.float32) + 0.5) * np.float32(2.0**-32)
        u = jnp.where(
            (cell == 0) | last, fine, (cell.astype(jnp.float32) + 0.5) * np.float32(2.0**-23)
        )
        side = jnp.where(last, np.float32(-1.0), np.float32(1.0))
        return side * self.from_uniform(u, side * as_records(x))


@mechanism
class Worded(Analytic, HasWords):
    """An :class:`Analytic` mechanism of few reports, each drawn with a probability over 2^64.

    Abstract.

    Masses are float32 formulas, good to a few 1e-7, then whole numbers: every possible report has a
    word.
    """

    def draw(self, key: PRNGKey, x: Record) -> Array:
        """Independent reports of all of one user's numbers, or of a stack's.

        Two words each, from one key.
        """
        x = as_records(x)
        return self.from_word64(random_words.words(key, report_shape(self, x)), x)


_MEMBERS = {
    "privatize": "privatize(key, x)", "guarantee": "guarantee()", "domain": "domain()", "codomain": "codomain()",
    "estimate": "estimate(y)", "draw": "draw(key, x) of x of any shape",
}  # fmt: skip
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
        return jnp.abs(self.domain().clip(x) - jax.random.bernoulli(key, jax.nn.sigmoid(-self.epsilon)))

    def log_density(self, y, x):  # without it the exact loss is not shown
        same = y == self.domain().clip(x)
        return jnp.where(same, jax.nn.log_sigmoid(self.epsilon), jax.nn.log_sigmoid(-self.epsilon))

    def guarantee(self):
        return Guarantee(largest(self.epsilon), adjacency="any two bits", status="proved", reason="two masses")

    def domain(self):
        return Finite((0.0, 1.0))

    def codomain(self):
        return Finite((0.0, 1.0))

    def estimate(self, y):
        return y
"""
"""A mechanism in few lines."""


def require_protocol(candidate: object, *more: str, name: str = "mechanism") -> None:
    """A ``TypeError`` for what is no mechanism, or lacks ``more`` members.

    It names those, and shows how to.
    """
    if isinstance(candidate, (type, FunctionType)):
        kind = "class" if isinstance(candidate, type) else "function"
        raise TypeError(f"{name} must be an instance, as {candidate.__name__}(...), got the {kind}")
    wanted = ("privatize", "guarantee", "domain", "codomain", "estimate", *more)
    missing = [
        _MEMBERS[member] for member in wanted if not callable(getattr(candidate, member, None))
    ]
    if missing:
        lacks = f"{name} must have {', '.join(missing)}, which {type(candidate).__name__} lacks"
        if missing == [_MEMBERS[member] for member in more]:
            raise TypeError(
                f"{lacks}: subclasses of core.mechanism.Numeric have it by from_uniform(u, x)"
            )
        raise TypeError(
            f"{lacks}. The smallest one (docs/mechanism.md has a complete one):\n\n{SMALLEST}"
        )
    if jax.tree_util.all_leaves([candidate]):
        kind = type(candidate).__name__
        raise TypeError(
            f"{name} must be a pytree: decorate {kind} with ldp_jax.core.mechanism.mechanism"
        )


def report_shape(mechanism: object, x: Record) -> tuple[int, ...]:
    """A report for each record and each of a stack of budgets, so that no two share a word."""
    return jnp.broadcast_shapes(jnp.shape(x), *map(jnp.shape, jax.tree.leaves(mechanism)))


def uniform(key: PRNGKey, shape: tuple[int, ...] = ()) -> Array:
    """Uniform float32 draws (j + 1/2) / 2^23: in the open interval (0, 1), symmetric around 1/2."""
    return random.uniform(key, shape, jnp.float32) + np.float32(2.0**-24)


def largest(epsilon: Scalar) -> float:
    """The largest of one or many concrete epsilons > 0, as a Python float.

    ``ValueError`` for a traced one.
    """
    if not validate.concrete(epsilon):
        raise ValueError(
            "guarantee() needs a concrete epsilon; ask for it outside jit, vmap and grad"
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
    for node in jax.tree.leaves(mechanism, is_leaf=lambda node: isinstance(node, HasStack)):
        shape = node.stack_shape() if isinstance(node, HasStack) else jnp.shape(node)
        if shape:
            raise ValueError(
                f"{type(mechanism).__name__} holds a stack of shape {shape}: reports of one key would "
                "share their randomness; use jax.vmap over mechanisms, keys and records"
            )


def one_record(x: Record, dim: int, name: str = "x") -> Array:
    """One record [dim]; another shape is a ``ValueError`` (shapes are no data)."""
    x = as_records(x)
    if x.shape != (dim,):
        raise ValueError(
            f"{name} must be one record of shape ({dim},), got {x.shape}: use jax.vmap for several"
        )
    return x


def check_budget(mechanism: HasGuarantee) -> None:
    """Check a single mechanism's concrete parameters, where ``vmap`` or ``tree.map`` built it too."""
    check_single(mechanism)
    if all(validate.concrete(leaf) for leaf in jax.tree.leaves(mechanism)):
        mechanism.guarantee()


def privacy_loss(mechanism: HasDensity[R_, Y_], y: Y_, x: R_, x_other: R_) -> Array:
    """log p(y | x) - log p(y | x_other); 0 for an output that is impossible under both records.

    >>> from ldp_jax.features import Duchi
    >>> round(float(privacy_loss(Duchi(1.0), 1.0, 1.0, -1.0)), 4)
    1.0
    """
    a, b = mechanism.log_density(y, x), mechanism.log_density(y, x_other)
    neither = jnp.isneginf(a) & jnp.isneginf(b)
    return jnp.where(neither, 0.0, jnp.where(neither, 0.0, a) - jnp.where(neither, 0.0, b))


def mse(mechanism: HasMoments[R], x: R) -> Array:
    """E[(estimate - x)^2] = variance + bias^2; coordinate by coordinate for vectors.

    >>> from ldp_jax.features import Laplace
    >>> float(mse(Laplace(1.0), 0.5))
    8.0
    """
    domain = mechanism.domain()
    if isinstance(domain, Enumerated):
        raise ValueError(f"mse is for numbers and vectors, got a mechanism on {domain}")
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
        if isinstance(mechanism, ReadsPart) and _in_part(mechanism, x):
            indices = _chosen(key, mechanism, first, len(x), block)
            return _reported(
                key, mechanism, first, (indices, jnp.take_along_axis(x, indices, 1)), block
            )

        def some(start: Scalar, size: int) -> Y:
            return jax.vmap(mechanism.privatize)(
                _keys(key, first + start, size), _rows(x, start, size)
            )

        return by_blocks(some, len(x), block)

    if over is not None:
        users = P(over.spec[0])
        reports = each_part(reports, over, (P(), P(), users), users)
    return reports(key, mechanism, x)


@partial(jax.jit, static_argnames=("n", "block"))
def _chosen(key: PRNGKey, mechanism: ReadsPart, first: Scalar, n: int, block: int | None) -> Array:
    """The coordinates that n users' reports are of, from user ``first`` on."""

    def some(start: Scalar, size: int) -> Array:
        return jax.vmap(mechanism.choose)(_keys(key, first + start, size))[1]

    return by_blocks(some, n, block)


@partial(jax.jit, static_argnames="block")
def _reported(
    key: PRNGKey,
    mechanism: ReadsPart[Y],
    first: Scalar,
    read: tuple[Array, Array],
    block: int | None,
) -> Y:
    """The reports of what :func:`_chosen` names, and of the values there."""

    def some(start: Scalar, size: int) -> Y:
        keys, _ = jax.vmap(mechanism.choose)(
            _keys(key, first + start, size)
        )  # nothing is chosen again
        return jax.vmap(mechanism.report)(keys, *_rows(read, start, size))

    return by_blocks(some, len(read[0]), block)


def _taken(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """x [n, d] at the indices [n, k] of its rows.

    Rows in one piece are read as one, with one index a number.
    """
    if x.flags.c_contiguous:
        return x.reshape(-1).take(indices + x.shape[1] * np.arange(len(x))[:, None])
    return np.take_along_axis(x, indices, 1)


def _in_part(mechanism: ReadsPart, x: AnyArray) -> bool:
    return mechanism.reads_part() and x.shape[1:] == (mechanism.dim,) and x.dtype.kind in "fiub"


def privatize(
    key: PRNGKey, mechanism: Randomizer[Array, Y], x: Values, *, block: int | None = None
) -> Y:
    """The reports of n users, compiled.

    User i's randomness comes from ``jax.random.fold_in(key, i)``.

    By JAX's default flags that is ``jax.random.split(key, n)[i]``, so that any part of the users,
    in any order, on any device, draws the same reports, up to float32 rounding. The mechanism's
    epsilon is one number for all. (Personal budgets: ``jax.vmap`` over a stack.) ``x`` are records
    [n] or [n, d], clipped in silence: ``mechanism.domain().validate(x)`` asks first. Of users who
    are divided among devices, so are the reports. A ``block`` of users at a time bounds the memory
    of wide records.

    >>> from ldp_jax.features import HDS
    >>> reports = privatize(jax.random.key(0), HDS(1.0, dim=8, k=2), jnp.zeros((5, 8)))
    >>> reports.indices.shape, reports.values.shape
    ((5, 2), (5, 2))
    """
    validate.threefry(key)
    require_protocol(mechanism)
    check_budget(mechanism)
    key, known = random.counted(key), all(map(validate.concrete, jax.tree.leaves((key, mechanism))))
    if (
        known
        and isinstance(x, np.ndarray)
        and isinstance(mechanism, ReadsPart)
        and _in_part(mechanism, x)
    ):
        indices = _chosen(
            key, mechanism, 0, len(x), block
        )  # what no report reads stays on the host
        values = as_records(_taken(x, np.asarray(indices)))
        return _reported(key, mechanism, 0, (indices, values), block)
    records = as_records(x)
    if not records.ndim:
        raise ValueError(
            "x must be records [n] or [n, d], got one: mechanism.privatize(key, x) is of one user"
        )
    return _privatize(key, mechanism, records, block, by_rows(records))


def exp(value: Scalar) -> float | Array:
    """e^value: a Python float for a number, an array for a tracer or a stack."""
    return math.exp(value) if isinstance(value, (int, float)) else jnp.exp(jnp.asarray(value))
