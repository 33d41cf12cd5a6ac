"""The records that a mechanism is asked about: those that tables hold, and random ones."""

import functools
from typing import Any

import jax
import numpy as np

from ldp_jax.core.spaces import Ball, Box, Enumerated, Interval, Records
from ldp_jax.core.types import Values
from ldp_jax.edges.lists import stacked
from ldp_jax.edges.spaces import Lists
from ldp_jax.verification._programs import count_of, take

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
    domain: Records, rng: np.random.Generator, count: int, given: Values | None = None
) -> Any:
    """``count`` stacked records, at most half of them ``given`` and natural ones, others random."""
    known = some_of(_known(domain, rng, given), rng, count // 2)
    return joined(known, domain.sample(rng, count - count_of(known)))


def repeated_records(
    domain: Records, rng: np.random.Generator, count: int, given: Values | None = None
) -> Any:
    """``count`` stacked records, half of them ``given`` and natural ones, again and again."""
    known = some_of(_known(domain, rng, given), rng, count // 2)
    places = np.arange(count // 2) % count_of(known)
    return joined(take(known, places), domain.sample(rng, count - len(places)))


def pairs_of(
    domain: Records, rng: np.random.Generator, count: int, given: Values | None = None
) -> Pairs:
    """``count`` adjacent pairs of records, and whose they are; the first one are the extremes."""
    if isinstance(domain, Lists):
        return _pairs_of_lists(domain, rng, count, given)
    ends = jax.tree.map(lambda *leaves: np.stack(leaves), *domain.extremes())
    if domain.all_adjacent:
        x = joined(ends, repeated_records(domain, rng, count - 2, given))
        partner = rng.integers(0, np.where(rng.random(count) < _AGAINST_ENDS, 2, count))
        partner[:2] = [1, 0]
        return (), x, take(x, partner)
    known = some_of(_known(domain, rng, given), rng, _LISTED)
    size = count_of(known)
    first, second = (np.ravel(place) for place in np.indices((size, size)))
    near = np.asarray(domain.adjacent(take(known, first), take(known, second)))
    chosen = rng.permutation(np.flatnonzero(near))[: count // 2]
    more, others = domain.neighbours(rng, count - len(chosen) - 1)
    x = joined(take(ends, slice(0, 1)), joined(take(known, first[chosen]), more))
    other = joined(take(ends, slice(1, 2)), joined(take(known, second[chosen]), others))
    return (), x, other


def _known(domain: Records, rng: np.random.Generator, given: Values | None) -> Values:
    known = natural(domain, rng)
    return known if given is None else joined(given, known)


def some_of(known: Values, rng: np.random.Generator, most: int) -> Values:
    """The first four of stacked records and a random choice of the others, ``most`` in all."""
    if count_of(known) <= most:
        return known
    others = rng.permutation(np.arange(4, count_of(known)))[: max(0, most - 4)]
    return take(known, np.append(np.arange(min(4, most)), np.sort(others)))


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
    one = np.eye(n, dtype=bool)[others]
    degrees = np.arange(1, n + 1)[:, None] > np.cumsum(others)
    return (
        np.concatenate([np.zeros((1, n), bool), np.ones((1, n), bool), degrees, one, ~one]) & others
    )


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
    join = lambda a, b: np.concatenate([np.asarray(a).astype(np.asarray(b).dtype), b])
    return jax.tree.map(join, first, second)
