"""A sampler as a function of the random words that it draws.

Its program, with other words in their place.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.tree_util import PyTreeDef

from ldp_jax.core.mechanism import Randomizer
from ldp_jax.core.spaces import NotApplicable
from ldp_jax.core.types import AnyArray, Array, PRNGKey, Report, Values
from ldp_jax.verification._programs import in_blocks

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
    return in_blocks(lambda rows: _reports(mechanism, *rows), (x, list(words)))


@jax.jit
def _reports(mechanism: Randomizer, x: Values, words: list[Array]) -> Report:
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
