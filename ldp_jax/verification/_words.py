"""A sampler as a function of the random words that it draws: its program, with other words in their place."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from ldp_jax.core.spaces import NotApplicable
from ldp_jax.core.types import AnyArray, Array, PRNGKey, Report, Values
from ldp_jax.verification._programs import Asked

_CALLS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint")


class Draw(NamedTuple):
    """One request for random words, of so many bits each."""

    shape: tuple[int, ...]
    bits: int


class Sampler(NamedTuple):
    """A mechanism as a function of its words, those of ``draws`` in order; ``report`` may be traced."""

    draws: tuple[Draw, ...]
    report: Callable[[Asked, Values, list[AnyArray]], Report]


def sampler(mechanism: Asked, x: Values) -> Sampler:
    """The sampler of ``mechanism.privatize(key, x)``: the program that runs, not a formula beside it.

    One that draws inside a loop or a branch is refused: how many words it takes is not fixed.
    """
    leaves, structure = jax.tree.flatten((mechanism, x))

    def privatize(key: PRNGKey, *leaves: Array) -> Report:
        made, record = jax.tree.unflatten(structure, leaves)
        return made.privatize(key, record)

    leaves = [jnp.asarray(leaf) for leaf in leaves]
    program, shape = jax.make_jaxpr(privatize, return_shape=True)(jax.random.key(0), *leaves)
    draws = tuple(_draws(program.jaxpr))
    out = jax.tree.structure(shape)

    def report(mechanism: Asked, x: Values, words: list[AnyArray]) -> Report:
        given = jax.tree.leaves((mechanism, x))
        given = [jnp.asarray(leaf, known.dtype) for leaf, known in zip(given, leaves, strict=True)]
        supply = iter(words)
        flat = _run(program.jaxpr, program.consts, [jax.random.key(0), *given], supply)
        return jax.tree.unflatten(out, flat)

    return Sampler(draws, report)


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
            found.append(Draw(tuple(equation.params["shape"]), int(equation.params["bit_width"])))
        elif "random_bits" in str(equation):
            raise NotApplicable(f"the sampler draws inside a {equation.primitive.name}: its words are not fixed")
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
