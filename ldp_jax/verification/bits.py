"""Whether the last bits of a report follow the record."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from ldp_jax.core import random, validate
from ldp_jax.core.flags import standard_flags
from ldp_jax.core.mechanism import Randomizer
from ldp_jax.core.spaces import ByCoordinate, NotApplicable, Records, Reports
from ldp_jax.core.types import PRNGKey, Report, Values
from ldp_jax.edges.spaces import Lists
from ldp_jax.verification import statistics
from ldp_jax.verification._programs import generator, is_float, raw, report_each
from ldp_jax.verification.exact import spaces
from ldp_jax.verification.statistics import SIGNIFICANCE, Fit

TRIALS = 1 << 18
LAST = 8
"""How many of the last bits of a number are asked, alone and in parity with the one above."""

ROUNDING = 1.0
"""The loss in one bit that float32 rounding may cause, in nats: small differences of numbers end in
zeros.
"""

_NUMBERS = 32  # numbers of a report that are asked
_COORDINATES = 128  # of a record, that their bits are asked about
_CHUNK = 8192
_BOUNDED = 512  # pairs of a bit and a statistic, the most suspicious, whose loss is bounded


@standard_flags()
def record_in_bits(
    mechanism: Randomizer, key: PRNGKey, *, trials: int = TRIALS, significance: float = SIGNIFICANCE
) -> Fit:
    """Whether a bit of a report's floating numbers tells one half of the records from the other.

    Each of the last eight bits of each number, and its parity with the next, is counted by the half
    of the records: of each coordinate, the sum, the length and a parity; of lists by each bit and
    the parity of the degree. At most 32 numbers of a report and 128 coordinates of a record are
    asked, chosen at random. The lower bound of the loss may be the claim and :data:`ROUNDING`.
    ``NotApplicable`` for finite reports, which have no bits to spare.

    >>> from ldp_jax.features import Laplace
    >>> record_in_bits(Laplace(1.0), jax.random.key(0)).fits
    True
    """
    validate.integer_in(1000, trials=trials)
    validate.threefry(key)
    domain, codomain = spaces(mechanism)
    if not has_reals(codomain):
        raise NotApplicable(
            f"the reports of {type(mechanism).__name__} are finite: they have no bits to spare"
        )
    record_key, draw_key = random.split(key)
    rng = generator(record_key)
    x, upper, asked = _records(domain, rng, trials)
    words = jax.random.key_data(random.split(draw_key, len(upper)))
    y = report_each(words, mechanism, x)
    numbers, sent = _numbers(codomain, y, rng)
    ones = np.zeros((2 * (2 * LAST - 1) * numbers.shape[1], 2, upper.shape[1]))
    for start in range(0, len(upper), _CHUNK):
        rows = slice(start, start + _CHUNK)
        groups = np.stack([~upper[rows] & asked[rows], upper[rows] & asked[rows]], 1).astype(
            np.float32
        )
        ones += np.tensordot(_events(numbers[rows], sent[rows]), groups, (0, 0))
    sizes = np.stack([(~upper & asked).sum(0), (upper & asked).sum(0)])
    worst = _largest_loss(ones, sizes, significance)
    limit = mechanism.guarantee().epsilon + ROUNDING
    return Fit(worst <= limit, "last bits", worst, limit, 1 - math.exp(-limit), len(upper))


def asked_of(mechanism: Randomizer) -> str:
    """How much of a report and of a record is asked; empty where all is."""
    domain, codomain = spaces(mechanism)
    record = sum(np.size(leaf) for leaf in jax.tree.leaves(domain.typical()))
    if isinstance(codomain, ByCoordinate):
        report = codomain.dim
    else:
        shape = jax.eval_shape(mechanism.privatize, jax.random.key(0), domain.typical())
        report = sum(
            leaf.size for leaf in jax.tree.leaves(shape) if jnp.issubdtype(leaf.dtype, jnp.floating)
        )
    parts = (
        ("reported numbers", _NUMBERS, report),
        ("coordinates", _COORDINATES, domain.users or record),
    )
    said = [f"{most} of {count} {name}" for name, most, count in parts if count > most]
    return f"asked of {' and '.join(said)}, chosen at random" if said else ""


def has_reals(codomain: Reports) -> bool:
    """Whether reports, or the values of their coordinates, hold numbers of a continuum."""
    return codomain.continuous or getattr(codomain, "inner", codomain).continuous


def _records(
    domain: Records, rng: np.random.Generator, trials: int
) -> tuple[Report, np.ndarray, np.ndarray]:
    """Stacked records, their side of each statistic, and whether it is asked of them.

    Bool [n, s] both.
    """
    if domain.all_adjacent:
        x = domain.sample(rng, trials)
    else:
        pair = domain.neighbours(rng, trials // 2)
        x = jax.tree.map(
            lambda *leaves: np.concatenate(leaves).astype(np.asarray(leaves[0]).dtype), *pair
        )
    flat = domain.bits(x) if isinstance(domain, Lists) else _flat(x, np.float64)
    sides = flat if isinstance(domain, Lists) else flat > np.median(flat, 0)
    found = [
        sides[:, rng.permutation(flat.shape[1])[:_COORDINATES]],
        sides.sum(1, keepdims=True) % 2 == 1,
    ]
    if domain.all_adjacent:
        for size in (flat.sum(1, keepdims=True), np.square(flat).sum(1, keepdims=True)):
            found.append(size > np.median(size))
    upper = np.concatenate(found, 1)
    if domain.all_adjacent:
        return x, upper, np.ones_like(upper)
    # What a pair of adjacent records is told apart by is asked of that pair: the rest of both is
    # the same.
    differ = upper[: trials // 2] != upper[trials // 2 :]
    return x, upper, np.concatenate([differ, differ])


def _flat(stacked: Values, kind: DTypeLike) -> np.ndarray:
    """All leaves of stacked values in one row each."""
    return np.concatenate(
        [np.reshape(leaf, (len(leaf), -1)) for leaf in jax.tree.leaves(stacked)], 1
    ).astype(kind)


def _numbers(
    codomain: Reports, y: Report, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The bits uint64 [n, m] of numbers, of vectors the values of coordinates.

    And which are sent, bool [n, m].
    """
    if isinstance(codomain, ByCoordinate):
        indices, values = codomain.entries(y)
        chosen = rng.permutation(codomain.dim)[:_NUMBERS]
        real = [leaf for leaf in map(np.asarray, jax.tree.leaves(values)) if is_float(leaf)]
        found = np.zeros((len(indices), len(chosen), len(real)), np.uint64)
        sent = np.zeros(found.shape, bool)
        for place, coordinate in enumerate(chosen):
            user, at = np.nonzero(indices == coordinate)
            for part, leaf in enumerate(real):
                found[user, place, part] = raw(leaf)[user, at]
                sent[user, place, part] = ~np.isnan(leaf[user, at])
        return found.reshape(len(indices), -1), sent.reshape(len(indices), -1)
    real = [leaf for leaf in map(np.asarray, jax.tree.leaves(y)) if is_float(leaf)]
    numbers = _flat([raw(leaf) for leaf in real], np.uint64)
    sent = ~_flat([np.isnan(leaf) for leaf in real], bool)
    chosen = rng.permutation(numbers.shape[1])[:_NUMBERS]
    return numbers[:, chosen], sent[:, chosen]


def _events(numbers: np.ndarray, sent: np.ndarray) -> np.ndarray:
    """float32 [n, events]: each bit, and each parity, is 1; and each is 0.

    Of numbers that are sent.
    """
    bits = np.stack([numbers >> np.uint64(place) & np.uint64(1) for place in range(LAST)], 2)
    bits = np.concatenate([bits, bits[..., :-1] ^ bits[..., 1:]], 2).astype(bool)
    both = np.concatenate([bits & sent[..., None], ~bits & sent[..., None]], 2)
    return both.reshape(len(numbers), -1).astype(np.float32)


def _largest_loss(ones: np.ndarray, sizes: np.ndarray, significance: float) -> float:
    """A lower bound of the largest loss of all events [events, 2, s], in groups of sizes [2, s]."""
    alpha = significance / (4 * ones.size)
    share = (ones + 0.5) / (np.maximum(sizes, 1) + 1)
    loss = np.log(share[:, 0] / share[:, 1])
    deviation = np.sqrt((1 / (ones + 0.5)).sum(1))
    found = 0.0
    for order, sign in ((0, 1.0), (1, -1.0)):
        suspicious = np.argsort(-(sign * loss - 5 * deviation), axis=None)[:_BOUNDED]
        event, statistic = np.unravel_index(suspicious, loss.shape)
        low, _ = statistics.clopper_pearson(
            ones[event, order, statistic], sizes[order, statistic], alpha
        )
        _, high = statistics.clopper_pearson(
            ones[event, 1 - order, statistic], sizes[1 - order, statistic], alpha
        )
        with np.errstate(divide="ignore"):
            found = max(found, float(np.log(low / high).max()))
    return found
