"""Where reports lie in their law.

Distribution functions of many records at once, from the density alone.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import integer_tables, random
from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.mechanism import HasCoordinates
from ldp_jax.core.quadrature import unit_rule
from ldp_jax.core.spaces import NotApplicable, Reports
from ldp_jax.core.types import Array, PRNGKey, Report, Scalar
from ldp_jax.verification._programs import (
    Exact,
    generator,
    in_blocks,
    logs_of,
    privatize_stacked,
    take,
    wide,
)
from ldp_jax.verification.exact import coordinate_laws, spaces
from ldp_jax.verification.protocols import HasTable
from ldp_jax.verification.records import repeated_records

_NODES, _WEIGHTS = unit_rule(8)
_TAIL_NODES, _TAIL_WEIGHTS = unit_rule(48)
_BLOCK = 4096  # reports at once
_ROWS = 1 << 16  # reports of one call

Ends = tuple[tuple[bool, bool], ...]
"""Which ends of each part are infinite."""


class Numbers(NamedTuple):
    """Records and reports of a mechanism on one number."""

    mechanism: Exact
    x: np.ndarray
    y: Report
    beside: tuple[np.ndarray, np.ndarray] | None = None
    """For the numbers of a vector: another coordinate of each, and the rank of the vector's sum in
    [0, 1).
    """


def numbers(mechanism: Exact, key: PRNGKey, trials: int) -> list[Numbers]:
    """Natural and random records, half of each, and reports of them by ``privatize``.

    Vectors are taken apart into coordinates.
    """
    record_key, key = random.split(key)
    x = repeated_records(spaces(mechanism)[0], generator(record_key), trials)
    apart = isinstance(mechanism, HasCoordinates)
    if not apart and isinstance(x, tuple):
        raise NotApplicable(
            f"records must be numbers, categories or vectors, got {mechanism.domain()}"
        )
    if not apart and np.ndim(x) != 1:
        raise NotApplicable(
            f"the coordinates of {type(mechanism).__name__} are not independent given the record"
        )
    y = privatize_stacked(key, mechanism, x)
    if not apart:
        return [Numbers(mechanism, x, y)]
    return [given for given, _, _ in by_law(mechanism, x, y)]


def by_law(
    mechanism: HasCoordinates, x: np.ndarray, y: Report
) -> list[tuple[Numbers, np.ndarray, np.ndarray]]:
    """Records [n, dim] and their reports by the law of a coordinate.

    Whose each is, and of which coordinate.
    """
    indices, values = mechanism.codomain().entries(y)
    found = []
    rank = np.argsort(np.argsort(x.sum(1, dtype=np.float64), kind="stable"), kind="stable") / len(x)
    for law, at in coordinate_laws(mechanism):
        user, place = np.nonzero(np.isin(indices, at))
        coordinate = indices[user, place]
        mine = take(values, (user, place))
        away = 1 + (user * 7919 + coordinate) % max(
            x.shape[1] - 1, 1
        )  # another one, and each pair in turn
        beside = x[user, (coordinate + away) % x.shape[1]], rank[user]
        found.append((Numbers(law, x[user, coordinate], mine, beside), user, coordinate))
    return found


def positions(given: Numbers, key: PRNGKey) -> tuple[np.ndarray, float]:
    """Each report's place in its record's law, in [0, 1), and the mass float32 may misplace."""
    # Atoms are spread over their mass, and other numbers over one float32 spacing to either side,
    # by ``key``.
    mechanism, x, y, _ = given
    spread = generator(key).random(len(x))
    if isinstance(mechanism, HasTable):
        return _of_table(mechanism.table(), x, y, spread), 0.0
    codomain = mechanism.codomain()
    ends = _ends(codomain)
    with float64_on_cpu():
        m = wide(mechanism)
        branch, value = y if isinstance(y, tuple) else (np.zeros(len(x), np.int32), y)
        scale = _tail_scale(m, ends)
        rows = (
            x.astype(np.float64),
            np.asarray(branch, np.int32),
            np.asarray(value, np.float64),
            spread,
        )
        atoms = tuple(
            None if part.atoms is None else np.asarray(part.atoms, np.float64)
            for part in m.codomain().branches
        )
        ask = lambda block: _positions(m, *block, scale, atoms, ends)
        place, misplaced = in_blocks(ask, rows, _ROWS)
    return place, float(np.max(misplaced))


def _of_table(
    table: integer_tables.Table, x: np.ndarray, y: np.ndarray, spread: np.ndarray
) -> np.ndarray:
    row, part = integer_tables.split(np, x, table.inputs, table.encoding)
    above = np.minimum(row + 1, table.inputs - 1)
    share = part / 2.0**23
    below = (
        np.pad(np.cumsum(table.masses.astype(np.float64), 1), ((0, 0), (1, 0)))
        / integer_tables.WORDS
    )
    at = np.clip(y, 0, table.outputs - 1)
    mix = lambda place: (1 - share) * below[row, place] + share * below[above, place]
    return mix(at) + spread * (mix(at + 1) - mix(at))


def _ends(codomain: Reports) -> Ends:
    if not codomain.branches:
        raise NotApplicable("reports must be one number each")
    infinite = lambda part: (math.isinf(float(part.lower)), math.isinf(float(part.upper)))
    return tuple(
        infinite(part) if part.atoms is None else (False, False) for part in codomain.branches
    )


def _log(mechanism: Exact, branch: int | None, value: Array, x: Array) -> Array:
    """log p of values of one branch, None if there are no others; elementwise in ``value``."""
    report = value if branch is None else (jnp.full(value.shape, branch, jnp.int32), value)
    return jax.vmap(mechanism.log_density, (0, None))(report, x)


def _tail_scale(mechanism: Exact, ends: Ends) -> float:
    """How far a density takes to fall by a factor of e, where it has no end."""
    scale = 1.0
    for branch, infinite in enumerate(ends):
        if any(infinite):
            at = lambda v, branch=branch: (
                (np.array([branch]), np.array([v])) if len(ends) > 1 else np.array([v])
            )
            log = lambda v, at=at: float(logs_of(mechanism, at(v), np.float64(0.0))[0])
            while log(scale) > log(0.0) - 1:
                scale *= 2
            while log(scale / 2) < log(0.0) - 1:
                scale /= 2
    return scale


@partial(jax.jit, static_argnames="ends")
def _positions(
    mechanism: Exact,
    x: Array,
    branch: Array,
    value: Array,
    spread: Array,
    scale: Scalar,
    atoms: tuple[Array | None, ...],
    ends: Ends,
) -> tuple[Array, Array]:
    def one(row: tuple[Array, Array, Array, Array]) -> tuple[Scalar, Scalar]:
        x, branch, value, spread = row
        before = 0.0
        found = 0.0
        off = 0.0
        for number, (values, infinite) in enumerate(zip(atoms, ends, strict=True)):
            log = partial(_log, mechanism, number if len(atoms) > 1 else None, x=x)
            if values is not None:
                mass = jnp.exp(log(values))
                here = (
                    jnp.where(values < value, mass, 0.0).sum()
                    + spread * jnp.where(values == value, mass, 0.0).sum()
                )
                total = mass.sum()
                misplaced = 0.0
            else:
                part = mechanism.codomain().branches[number]
                here, total, misplaced = _interval(part, infinite, log, value, x, spread, scale)
            found = jnp.where(branch == number, before + here, found)
            off = jnp.where(branch == number, misplaced, off)
            before = before + total
        return found / before, off

    return jax.lax.map(one, (x, branch, value, spread), batch_size=_BLOCK)


def _interval(
    part: Any,
    infinite: tuple[bool, bool],
    log: Callable[[Array], Array],
    y: Array,
    x: Array,
    spread: Array,
    scale: Scalar,
) -> tuple[Array, Array, Array]:
    """The distribution function near y, the whole, and what float32 may misplace."""
    breaks = jnp.sort(jnp.atleast_1d(part.breaks(x))) if part.breaks is not None else x[None]
    lower = jnp.asarray(part.lower, x.dtype)
    upper = jnp.asarray(part.upper, x.dtype)
    inside = jnp.clip(breaks, lower, upper)
    step = 2.0**-23 * jnp.maximum(jnp.abs(y), jnp.abs(inside).max())
    y = jnp.clip(y + (2 * spread - 1) * step, lower, upper)
    at = jnp.concatenate(
        [
            inside if infinite[0] else jnp.append(lower, inside),
            *([] if infinite[1] else [upper[None]]),
        ]
    )
    cut = jnp.clip(y, at[:-1], at[1:])
    nodes = at[:-1, None] + (cut - at[:-1])[:, None] * _NODES
    whole = at[:-1, None] + (at[1:] - at[:-1])[:, None] * _NODES
    piece = lambda points, width: (
        jnp.exp(log(points.ravel()).reshape(points.shape)) @ _WEIGHTS * width
    ).sum()
    found = piece(nodes, cut - at[:-1])
    total = piece(whole, at[1:] - at[:-1])
    s = _TAIL_NODES
    away, weight = scale * s / (1 - s), _TAIL_WEIGHTS * scale / (1 - s) ** 2
    beyond = lambda start, sign: jnp.exp(log(start + sign * away)) @ weight
    if infinite[0]:
        left = beyond(jnp.minimum(y, at[0]), -1.0)
        found, total = found + left, total + beyond(at[0], -1.0)
    if infinite[1]:
        right = beyond(at[-1], 1.0)
        found = found + right - beyond(jnp.maximum(y, at[-1]), 1.0)
        total = total + right
    densest = jnp.exp(log(jnp.concatenate([inside, (at[1:] + at[:-1]) / 2]))).max()
    return found, total, 4 * step * densest
