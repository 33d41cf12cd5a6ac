"""Shared parts of all tests: records that they ask, compiled programs, programs of other words.

Records are those that tables hold, and random ones. Rows of any number are asked in blocks of one
shape.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.tree_util import PyTreeDef

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import random, validate
from ldp_jax.core.mechanism import HasDensity, Randomizer, check_budget
from ldp_jax.core.spaces import (
    Ball,
    Box,
    Enumerated,
    Interval,
    NotApplicable,
    Records,
    Reports,
    as_records,
)
from ldp_jax.core.types import AnyArray, Array, PRNGKey, R, Report, Scalar, Values, Y
from ldp_jax.edges.lists import stacked
from ldp_jax.edges.spaces import Lists

SIZE = 8192
"""Rows of a block."""

GROUP = 16
"""Reports of a block that are asked about one record."""

T = TypeVar("T", bound=Any)
"""A tree that keeps its form: records, reports, a mechanism."""


@runtime_checkable
class Exact(Randomizer, HasDensity, Protocol):
    """A mechanism with a density."""


# --- Rows -----------------------------------------------------------------------------------------


def count_of(stacked: Values) -> int:
    return len(jax.tree.leaves(stacked)[0])


def take(stacked: T, place: int | np.integer | slice | np.ndarray | tuple[np.ndarray, ...]) -> T:
    """Some of stacked values, as NumPy arrays."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[place], stacked)


def is_float(leaf: np.ndarray) -> bool:
    """Whether numbers are of any floating type, bfloat16 included."""
    return bool(jnp.issubdtype(leaf.dtype, jnp.floating))


def raw(leaf: np.ndarray) -> np.ndarray:
    """The bits of each number, as unsigned numbers of its own width."""
    return np.ascontiguousarray(leaf).view(f"u{leaf.dtype.itemsize}")


def repeated(x: T, n: int) -> T:
    return jax.tree.map(lambda leaf: np.broadcast_to(leaf, (n, *np.shape(leaf))), x)


def block_of(rows: T, start: int = 0, size: int = SIZE) -> T:
    """The block of stacked rows that begins at ``start``, filled up with its own rows."""
    some = take(rows, slice(start, start + size))
    if count_of(some) == size:
        return some
    return jax.tree.map(lambda leaf: np.resize(leaf, (size, *leaf.shape[1:])), some)


def in_blocks(ask: Callable[[T], Any], rows: T, size: int = SIZE) -> Any:
    """The answers of ``ask`` to stacked rows, as NumPy arrays."""
    rows = jax.tree.map(np.asarray, rows)
    count = count_of(rows)
    starts = range(0, max(count, 1), size)
    found = [jax.tree.map(np.asarray, ask(block_of(rows, start, size))) for start in starts]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:count], *found)


def wide(tree: T) -> T:
    """Parameters, records or reports in float64, with x64 enabled; whole numbers stay."""

    def widened(leaf: Any) -> np.ndarray:
        numbers = np.asarray(leaf)
        return numbers.astype(np.float64) if numbers.dtype.kind == "f" else numbers

    return jax.tree.map(widened, tree)


# --- Mechanisms -----------------------------------------------------------------------------------


class View(NamedTuple):
    """A mechanism on neighbour lists as user ``own`` runs it."""

    mechanism: Any
    own: Scalar

    def privatize(self, key: PRNGKey, x: Values) -> Report:
        return self.mechanism.privatize(key, x, self.own)

    def log_density(self, y: Report, x: Values) -> Array:
        return self.mechanism.log_density(y, x, self.own)

    def guarantee(self) -> Guarantee:
        return self.mechanism.guarantee()

    def domain(self) -> Records:
        return self.mechanism.domain()

    def codomain(self) -> Reports:
        return self.mechanism.codomain(int(self.own))


def _apart(mechanism: Any, own: tuple[AnyArray, ...], n: int) -> tuple[Any, tuple[AnyArray, ...]]:
    """A mechanism without its user, and whose each of n rows is.

    User 0's where lists are nobody's.
    """
    if isinstance(mechanism, View):
        return mechanism.mechanism, (np.full(n, mechanism.own, np.int32),)
    if not own and hasattr(mechanism, "domain") and getattr(mechanism.domain(), "users", 0):
        return mechanism, (np.zeros(n, np.int32),)
    return mechanism, own


def _report_rows(words: Array, mechanism: Randomizer[R, Y], x: R, *own: Array) -> Y:
    return jax.vmap(mechanism.privatize)(jax.random.wrap_key_data(words), x, *own)


_reports = jax.jit(_report_rows)


@jax.jit
def _logs(mechanism: HasDensity, y: Report, *record: Values) -> Array:
    """log p of groups of reports [rows, GROUP], a record each.

    Its part of a density is computed once a group.
    """
    of_group = jax.vmap(mechanism.log_density, (0, *(None for _ in record)))
    return jax.vmap(of_group)(y, *record)


@jax.jit
def _estimates(mechanism: Any, y: Report) -> Array:
    return jax.vmap(mechanism.estimate)(y)


def _given(x: R) -> R:
    return x if isinstance(x, tuple) else cast(R, np.asarray(as_records(x)))


def draws(mechanism: Randomizer[R, Y], key: PRNGKey, x: R, n: int) -> Y:
    return privatize_stacked(key, mechanism, repeated(_given(x), n))


def privatize_stacked(key: PRNGKey, mechanism: Randomizer[R, Y], x: R) -> Y:
    """The reports of stacked records, drawn as :func:`ldp_jax.core.mechanism.privatize` does."""
    validate.threefry(key)
    check_budget(mechanism)
    words = jax.random.key_data(random.split(key, count_of(x)))
    return report_each(words, mechanism, _given(x))


def report_each(
    words: AnyArray, mechanism: Randomizer[R, Y], x: R, *own: AnyArray, size: int = SIZE
) -> Y:
    """The report of each of stacked records, of a user each, by a key each.

    Keys as the words that they hold.
    """
    # One record takes the same program: a sampler, the largest of all, is compiled once.
    mechanism, own = _apart(mechanism, own, len(words))
    return in_blocks(lambda rows: _reports(rows[0], mechanism, *rows[1:]), (words, x, *own), size)


def program_of(words: AnyArray, mechanism: Randomizer[R, Y], x: R) -> core.ClosedJaxpr:
    """The program of a block of :func:`report_each`, as it was traced first."""
    mechanism, own = _apart(mechanism, (), len(words))
    rows = block_of((words, x, *own))
    return _reports.trace(rows[0], mechanism, *rows[1:]).jaxpr


def traced_again(
    words: AnyArray, mechanism: Randomizer[R, Y], x: R, size: int
) -> tuple[core.ClosedJaxpr, Callable[[], Y]]:
    """The same of ``size`` rows, for which the mechanism's code is traced anew, and its reports."""
    mechanism, own = _apart(mechanism, (), len(words))
    fresh = jax.jit(functools.wraps(_report_rows)(lambda *args: _report_rows(*args)))
    every = words, x, *own
    ask = lambda rows: fresh(rows[0], mechanism, *rows[1:])
    rows = block_of(every, size=size)
    program = fresh.trace(rows[0], mechanism, *rows[1:]).jaxpr
    return program, lambda: in_blocks(ask, every, size)


def logs_each(mechanism: HasDensity, y: Report, x: Values, *own: AnyArray) -> np.ndarray:
    """log p of stacked reports, as many about each of stacked records in turn."""
    records = count_of(x)
    mechanism, own = _apart(mechanism, own, records)
    each = count_of(y) // records
    room = -(-each // GROUP) * GROUP
    first = each * np.arange(records)[:, None]
    place = np.arange(room) % each + first
    found = _in_groups(mechanism, y, (x, *own), place)
    return found[:, :each].ravel()


def log_grid(mechanism: HasDensity, y: Report, x: Values) -> np.ndarray:
    """log p [records, reports] of stacked reports about each of stacked records."""
    records, reports = count_of(x), count_of(y)
    mechanism, own = _apart(mechanism, (), records)
    room = max(GROUP, -(-reports // GROUP) * GROUP)
    place = np.broadcast_to(np.arange(room) % reports, (records, room))
    return _in_groups(mechanism, y, (x, *own), place)[:, :reports]


def _in_groups(
    mechanism: HasDensity, y: Report, x: tuple[Values, ...], place: np.ndarray
) -> np.ndarray:
    """log p of the reports at ``place`` [records, n], n a multiple of a group's size."""
    records, room = place.shape
    record = np.repeat(np.arange(records), room // GROUP)
    groups = place.reshape(-1, GROUP)
    ask = lambda at: _logs(mechanism, take(y, at[1]), *take(x, at[0]))
    return in_blocks(ask, (record, groups), SIZE // GROUP).reshape(records, room)


def logs_of(mechanism: HasDensity, y: Report, x: Values) -> np.ndarray:
    one = jax.tree.map(lambda leaf: np.asarray(leaf)[None], x)
    return log_grid(mechanism, y, one)[0]


def lost(mine: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The loss by log densities, elementwise: 0 for a report that neither record can give."""
    with np.errstate(invalid="ignore"):
        impossible = np.isneginf(mine) & np.isneginf(others)
        return np.where(impossible, 0.0, mine - others)


def estimates(mechanism: Any, y: Report) -> np.ndarray:
    return in_blocks(lambda rows: _estimates(mechanism, rows), y)


# --- A sampler as a function of the random words that it draws ------------------------------------

_CALLS = (
    "jit",
    "pjit",
    "closed_call",
    "core_call",
    "custom_jvp_call",
    "custom_vjp_call",
    "remat",
    "checkpoint",
)

_UNFOLLOWED = ("callback", "debug_print", "custom_vmap", "platform_index", "ffi_call", "feed")
"""Parts of the names of equations that are not what they seem."""


class Draw(NamedTuple):
    """One request for random words, of so many bits each."""

    shape: tuple[int, ...]
    bits: int


def draws_of(mechanism: Randomizer, x: Values) -> tuple[Draw, ...]:
    """The draws of ``mechanism.privatize(key, x)``, in order; refused inside a loop or a branch."""
    return tuple(_draws(_program(mechanism, x)[0].jaxpr))


def report_words(mechanism: Randomizer, x: Values, words: Sequence[AnyArray]) -> Report:
    """The reports of stacked records under stacked words, those of :func:`draws_of` in order."""
    return in_blocks(lambda rows: _worded(mechanism, *rows), (x, list(words)))


@jax.jit
def _worded(mechanism: Randomizer, x: Values, words: list[Array]) -> Report:
    def one(x: Values, words: list[Array]) -> Report:
        program, leaves, out = _program(mechanism, x)
        arguments: list[object] = [jax.random.key(0), *leaves]
        flat = _run(program.jaxpr, program.consts, arguments, iter(words))
        return jax.tree.unflatten(out, flat)

    return jax.vmap(one)(x, words)


def _program(mechanism: Randomizer, x: Values) -> tuple[core.ClosedJaxpr, list[Array], PyTreeDef]:
    """The program of ``privatize``, its arguments after the key, and its report's structure."""
    leaves, structure = jax.tree.flatten((mechanism, x))

    def privatize(key: PRNGKey, *leaves: Array) -> Report:
        made, record = jax.tree.unflatten(structure, leaves)
        return made.privatize(key, record)

    leaves = [jnp.asarray(leaf) for leaf in leaves]
    program, shape = jax.make_jaxpr(privatize, return_shape=True)(jax.random.key(0), *leaves)
    return program, leaves, jax.tree.structure(shape)


def equations(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    """All equations of a program, those of the programs that they hold among them."""
    is_program = lambda value: isinstance(value, (core.Jaxpr, core.ClosedJaxpr))
    for equation in jaxpr.eqns:
        yield equation
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=is_program):
            if is_program(value):
                yield from equations(getattr(value, "jaxpr", value))


def unfollowed(mechanism: Randomizer, x: Values) -> str:
    """Name the parts of the program of ``privatize`` that cannot be followed; empty if all can.

    It may call the host or other code, or be another program for several users or elsewhere. This
    library's own rules for several users are followed: its tests ask them at many sizes.
    """
    program = _program(mechanism, x)[0]
    found = set()
    for equation in equations(program.jaxpr):
        name = equation.primitive.name
        own = getattr(equation.params.get("rule"), "__module__", "").startswith("ldp_jax.")
        if any(part in name for part in _UNFOLLOWED) and not own:
            found.add(name)
    if not found:  # state on the device is no equation of its own name
        found = {type(effect).__name__ for effect in program.effects}
    return ", ".join(sorted(found))


def _inner(equation: core.JaxprEqn) -> core.ClosedJaxpr | None:
    """The program that an equation calls once, or None."""
    if equation.primitive.name not in _CALLS:
        return None
    called = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
    return called if isinstance(called, core.ClosedJaxpr) else core.ClosedJaxpr(called, ())


def _draws(jaxpr: core.Jaxpr) -> list[Draw]:
    found = []
    for equation in jaxpr.eqns:
        inner = _inner(equation)
        if inner is not None:
            found += _draws(inner.jaxpr)
        elif equation.primitive.name == "random_bits":
            drawn = equation.outvars[0].aval  # of several keys at once, each key's
            assert isinstance(drawn, jax.core.ShapedArray)
            found.append(Draw(tuple(drawn.shape), int(equation.params["bit_width"])))
        elif "random_bits" in str(equation):
            raise NotApplicable(
                f"the sampler draws inside a {equation.primitive.name}: its words are not fixed"
            )
    return found


def _run(
    jaxpr: core.Jaxpr, consts: Sequence[object], arguments: list[object], supply: Iterator[AnyArray]
) -> list[object]:
    """Evaluate a program, taking words from ``supply`` where it would draw them."""
    known: dict[core.Var, object] = dict(zip(jaxpr.constvars, consts, strict=True))
    known |= dict(zip(jaxpr.invars, arguments, strict=True))
    read = lambda atom: atom.val if isinstance(atom, core.Literal) else known[atom]
    for equation in jaxpr.eqns:
        values = [read(atom) for atom in equation.invars]
        inner = _inner(equation)
        if inner is not None:
            results = _run(inner.jaxpr, inner.consts, values, supply)
        elif equation.primitive.name == "random_bits":
            results = [jnp.asarray(next(supply), np.dtype(f"uint{equation.params['bit_width']}"))]
        else:
            results = equation.primitive.bind(*values, **equation.params)
            results = results if equation.primitive.multiple_results else [results]
        known |= dict(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


# --- The records that are asked -------------------------------------------------------------------

_STEPS = (0.1, 0.25, 1.0)
"""Steps of the lattices on which tables round their numbers."""

_LONGEST = 128  # numbers of a lattice
_SMALL = (1e-3, 1e-6)  # of an interval's width: nearly nothing
_LISTED = 256  # members of a space that are all natural
_AXES = 16  # coordinates along which vectors are laid
_RANDOM = 64  # vectors of each random kind
_AGAINST_ENDS = 0.25  # of the pairs, those whose other record is an end of the space

Pairs = tuple[tuple[np.ndarray, ...], Any, Any]
"""Whose records they are, () where that makes no difference, and stacked adjacent records."""


@functools.singledispatch
def natural(domain: Any, rng: np.random.Generator) -> Any:
    """Stacked records of the kind that people hold; the first ones are its ends and its centre.

    Another space has the records by which its own methods describe it.

    >>> from ldp_jax.features import GeneralizedRR
    >>> natural(GeneralizedRR(1.0, 3).domain(), np.random.default_rng(0)).tolist()
    [0.0, 1.0, 2.0]
    """
    single = [*domain.extremes(), domain.centre(), domain.typical()]
    grid = jax.tree.map(np.asarray, domain.grid(9))
    few = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *single)
    return joined(few, grid)


@natural.register
def _(domain: Interval, rng: np.random.Generator) -> np.ndarray:
    lower, upper = map(float, domain.extremes())
    return _numbers(lower, upper).astype(np.float32)


@natural.register
def _(domain: Enumerated, rng: np.random.Generator) -> Values:
    members = jax.tree.map(np.asarray, domain.members())
    if len(domain) <= _LISTED:
        return members
    places = np.append([0, len(domain) - 1], rng.integers(0, len(domain), _LISTED))
    return take(members, places)


@natural.register
def _(domain: Box, rng: np.random.Generator) -> np.ndarray:
    vectors = _vectors(domain.dim, float(domain.lower), float(domain.upper), rng)
    return vectors.astype(np.float32)


@natural.register
def _(domain: Ball, rng: np.random.Generator) -> np.ndarray:
    radius = float(domain.radius)
    vectors = _vectors(domain.dim, -radius, radius, rng)
    return np.asarray(domain.clip(vectors.astype(np.float32)))


@natural.register
def _(domain: Lists, rng: np.random.Generator) -> Values:
    return domain.of_bits(_lists(domain.n, domain.own))


def records_of(
    domain: Records,
    rng: np.random.Generator,
    count: int,
    given: Values | None = None,
    *,
    again: bool = False,
) -> Any:
    """``count`` stacked records, at most half of them ``given`` and natural ones, others random.

    With ``again`` a half are ``given`` and natural ones, again and again.
    """
    known = some_of(_known(domain, rng, given), rng, count // 2)
    if again:
        known = take(known, np.arange(count // 2) % count_of(known))
    return joined(known, domain.sample(rng, count - count_of(known)))


def pairs_of(
    domain: Records, rng: np.random.Generator, count: int, given: Values | None = None
) -> Pairs:
    """``count`` adjacent pairs of records, and whose they are; the first one are the extremes."""
    if isinstance(domain, Lists):
        return _pairs_of_lists(domain, rng, count, given)
    ends = jax.tree.map(lambda *leaves: np.stack(leaves), *domain.extremes())
    if domain.all_adjacent:
        x = joined(ends, records_of(domain, rng, count - 2, given, again=True))
        candidates = np.where(rng.random(count) < _AGAINST_ENDS, 2, count)
        partner = rng.integers(0, candidates)
        partner[:2] = [1, 0]
        return (), x, take(x, partner)

    known = some_of(_known(domain, rng, given), rng, _LISTED)
    size = count_of(known)
    first, second = np.indices((size, size)).reshape(2, -1)
    near = np.asarray(domain.adjacent(take(known, first), take(known, second)))
    chosen = rng.permutation(np.flatnonzero(near))[: count // 2]

    more, others = domain.neighbours(rng, count - len(chosen) - 1)
    x = joined(take(known, first[chosen]), more)
    other = joined(take(known, second[chosen]), others)
    return (), joined(take(ends, slice(0, 1)), x), joined(take(ends, slice(1, 2)), other)


def _known(domain: Records, rng: np.random.Generator, given: Values | None) -> Values:
    known = natural(domain, rng)
    return known if given is None else joined(given, known)


def some_of(known: Values, rng: np.random.Generator, most: int) -> Values:
    """The first four of stacked records and a random choice of the others, ``most`` in all."""
    if count_of(known) <= most:
        return known
    first = np.arange(min(4, most))
    others = rng.permutation(np.arange(4, count_of(known)))[: max(0, most - 4)]
    return take(known, np.append(first, np.sort(others)))


def _numbers(lower: float, upper: float) -> np.ndarray:
    """Both ends, the centre, the numbers of the lattices within, and some that are nearly 0."""
    width = upper - lower
    found = [lower, upper, (lower + upper) / 2]
    for step in (*_STEPS, width / 10, width / 8):
        first = np.ceil(lower / step)
        last = np.floor(upper / step)
        if last - first < _LONGEST:
            found.extend(step * np.arange(first, last + 1))
    for small in _SMALL:
        found.extend([small * width, -small * width])
    inside = [number for number in found if lower <= number <= upper]
    _, first = np.unique(np.array(inside, np.float32), return_index=True)
    return np.asarray(inside)[np.sort(first)]


def _vectors(dim: int, lower: float, upper: float, rng: np.random.Generator) -> np.ndarray:
    """Vectors of zeros, of one number, with one entry, of few entries, and of few values."""
    numbers = _numbers(lower, upper)
    constant = np.repeat(numbers[:, None], dim, 1)
    axes = np.eye(dim)[rng.permutation(dim)[:_AXES]]
    one_entry = np.concatenate([size * axes for size in (upper, 1.0, 0.5, lower)])
    shape = (_RANDOM, dim)
    binary = rng.integers(0, 2, shape)
    ends = np.where(binary, upper, lower)
    lattice = rng.choice(numbers, shape)
    sparse = np.where(rng.random(shape) < 0.1, rng.uniform(lower, upper, shape), 0.0)
    repeated = rng.uniform(lower, upper, shape)[:, rng.integers(0, dim, dim)]
    holes = np.where(rng.random(shape) < 0.3, 0.0, rng.uniform(lower, upper, shape))
    centre = np.full((1, dim), (lower + upper) / 2)
    kinds = [
        constant[:2], np.zeros((1, dim)), centre, constant, one_entry,
        binary, ends, lattice, sparse, repeated, holes,
    ]  # fmt: skip
    return np.concatenate(kinds)


def _lists(n: int, own: int) -> np.ndarray:
    """Bits [m, n] of lists: none, all, one friend, all but one, and the first few of the others."""
    others = np.arange(n) != own
    none = np.zeros((1, n), bool)
    one = np.eye(n, dtype=bool)[others]
    degrees = np.arange(1, n + 1)[:, None] > np.cumsum(others)
    return np.concatenate([none, ~none, degrees, one, ~one]) & others


def _pairs_of_lists(domain: Lists, rng: np.random.Generator, count: int, given: Any) -> Pairs:
    """Lists that differ in one bit, of random users but for the first."""
    own = rng.integers(0, domain.n, count).astype(np.int32)
    own[0] = domain.own
    if given is not None:
        own[1 : 1 + min(count_of(given), count // 2)] = domain.own
    x, other = domain.neighbours_of(rng, own)
    bits = domain.bits(x)
    flip = bits != domain.bits(other)
    for place in range(1, count, 2):
        rows = _lists(domain.n, int(own[place]))
        bits[place] = rows[rng.integers(0, len(rows))]
    if given is not None:
        mine = domain.bits(given)[: count // 2]
        bits[1 : 1 + len(mine)] = mine
    first, second = (domain.bits(stacked([end])) for end in domain.extremes())
    bits[:1] = first
    flip[:1] = first != second
    return (own,), domain.of_bits(bits), domain.of_bits(bits ^ flip)


def joined(first: Values, second: Values) -> Values:
    """Stacked records one after the other, of the second's types."""

    def join(a: Any, b: Any) -> np.ndarray:
        converted = np.asarray(a).astype(np.asarray(b).dtype)
        return np.concatenate([converted, b])

    return jax.tree.map(join, first, second)
