"""The compiled programs that all tests share, and those of other random words.

Rows of any number are asked in blocks of one shape.
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
from ldp_jax.core.spaces import NotApplicable, Records, Reports, as_records
from ldp_jax.core.types import AnyArray, Array, PRNGKey, R, Report, Scalar, Values, Y

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
    leaves = jax.tree.map(np.asarray, tree)
    return jax.tree.map(
        lambda leaf: leaf.astype(np.float64) if leaf.dtype.kind == "f" else leaf, leaves
    )


def generator(key: PRNGKey) -> np.random.Generator:
    """NumPy's generator, seeded with the words of a key."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


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
    return jax.vmap(jax.vmap(mechanism.log_density, (0, *(None for _ in record))))(y, *record)


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
    return report_each(jax.random.key_data(random.split(key, count_of(x))), mechanism, _given(x))


def report_each(
    words: AnyArray, mechanism: Randomizer[R, Y], x: R, *own: AnyArray, size: int = SIZE
) -> Y:
    """The report of each of stacked records, of a user each, by a key each.

    Keys as the words that they hold.
    """
    # Of one record too: a sampler, the largest of all programs, is compiled once.
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
    place = np.arange(room) % each + each * np.arange(records)[:, None]
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
    rows = np.repeat(np.arange(records), room // GROUP), place.reshape(-1, GROUP)
    ask = lambda at: _logs(mechanism, take(y, at[1]), *take(x, at[0]))
    return in_blocks(ask, rows, SIZE // GROUP).reshape(records, room)


def logs_of(mechanism: HasDensity, y: Report, x: Values) -> np.ndarray:
    return log_grid(mechanism, y, jax.tree.map(lambda leaf: np.asarray(leaf)[None], x))[0]


def lost(mine: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The loss by log densities, elementwise: 0 for a report that neither record can give."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(mine) & np.isneginf(others), 0.0, mine - others)


def estimates(mechanism: Any, y: Report) -> np.ndarray:
    return in_blocks(lambda rows: _estimates(mechanism, rows), y)


# --- A sampler as a function of the random words that it draws ---

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
        program, arguments, out = _program(mechanism, x)
        flat = _run(program.jaxpr, program.consts, [jax.random.key(0), *arguments], iter(words))
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
    """What the program of ``privatize`` does that cannot be followed, by name; empty if nothing.

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
    # State on the device is no equation of its own name.
    return ", ".join(sorted(found or {type(effect).__name__ for effect in program.effects}))


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
