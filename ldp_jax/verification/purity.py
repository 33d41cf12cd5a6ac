"""Is a report a function of its arguments, of the whole key, and of all that a record may be?"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import random, validate
from ldp_jax.core.flags import standard_flags
from ldp_jax.core.mechanism import Randomizer, privatize
from ldp_jax.core.spaces import NotApplicable
from ldp_jax.core.types import PRNGKey, Report, Values
from ldp_jax.verification._programs import (
    count_of,
    generator,
    is_float,
    raw,
    repeated,
    report_each,
    report_each_retraced,
    take,
)
from ldp_jax.verification._words import calls_host
from ldp_jax.verification.exact import spaces
from ldp_jax.verification.statistics import OUTSIDE, Fit

FUSED = 2e-5
"""How far an eager report may be from a compiled one, which rounds fused operations once: relative
to it, and to what is usual of reports, and absolute."""


_ASKED = 2**12  # reports of each record: what one in 300 holds is missed once in a million


def _same(a: Report, b: Report, rounding: float = 0.0) -> np.ndarray:
    """Which of stacked reports are equal, floats up to ``rounding``.

    NaN stands for what is not sent.

    None is where a number has another type: its further bits could tell.
    """
    n = count_of(a)
    same = np.ones(n, bool)
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        same &= one.dtype == other.dtype
        if is_float(one):
            sizes = np.abs(np.nan_to_num(np.float64(one), posinf=0.0, neginf=0.0))
            near = rounding * np.maximum(
                1.0, np.median(sizes, 0)
            )  # a small sum of large numbers rounds as they do
            equal = np.isclose(
                *map(np.float64, (one, other)), rtol=rounding, atol=near, equal_nan=True
            )
        else:
            equal = one == other
        same &= equal.reshape(n, -1).all(1)
    return same


def _unusual(reports: Report) -> int:
    """How many numbers of stacked reports are -0, or a NaN of other bits than the first.

    Equal, they could tell.
    """
    found = 0
    for leaf in map(np.asarray, jax.tree.leaves(reports)):
        if is_float(leaf):
            nan = raw(leaf)[np.isnan(leaf)]
            found += int(((leaf == 0) & np.signbit(leaf)).sum()) + int((nan != nan[:1]).sum())
    return found


def _by_hand(leaf: np.ndarray) -> Values:
    """A record as one writes it: Python's number, whole where it is.

    NumPy's 64 bits of a vector.
    """
    if np.ndim(leaf):
        return leaf.astype(np.float64 if is_float(leaf) else np.int64)
    return int(leaf) if np.isfinite(leaf) and leaf == int(leaf) else float(leaf)


@standard_flags()
def is_pure(mechanism: Randomizer, key: PRNGKey, *, calls: int = 4) -> Fit:
    """Whether ``privatize`` gives one report traced and eager, twice each, and shows no more.

    Both extreme records, the typical one, the centre and ``calls`` random ones are reported by a
    compiled program, by plain calls with NumPy and with JAX arrays, with Python's numbers or arrays
    of 64 bits, and by the program of a second trace where that is another one. Types must be the
    same, whole numbers equal, others to 2e-5. In 4 096 more reports of each of the first three, and
    of as many random records, no number may be -0, and all NaN must have the same bits;
    :func:`~ldp_jax.core.mechanism.privatize` must give these reports too, of a mechanism that it
    asks in parts. A program that calls the host, as ``jax.debug.callback`` does, is refused at
    once.

    >>> from ldp_jax.features import Duchi
    >>> is_pure(Duchi(1.0), jax.random.key(0)).fits
    True
    """
    validate.integer_in(1, calls=calls)
    domain = mechanism.domain()
    count = 4 + calls
    if calls_host(mechanism, domain.typical()):
        return Fit(False, "calls of the host", 1.0, 0.0, 0.0, 1)
    record_key, bits_key, key = random.split(key, 3)
    sampled = domain.sample(generator(record_key), _ASKED + calls)
    drawn = take(sampled, slice(calls))
    others = take(sampled, slice(calls, None))
    known = [*domain.extremes(), domain.typical(), domain.centre()]
    many = jax.tree.map(
        lambda leaf, *more: np.concatenate([np.stack(more).astype(leaf.dtype), leaf]), drawn, *known
    )
    data = np.asarray(jax.random.key_data(random.split(key, count)))

    def eager(as_given: Callable[[np.ndarray], Values]) -> Report:
        keys = jax.random.wrap_key_data(
            jnp.asarray(data)
        )  # the same keys, on purpose: nothing is released
        given = lambda place: jax.tree.map(lambda leaf: as_given(np.asarray(leaf[place])), many)
        reports = [mechanism.privatize(one, given(place)) for place, one in enumerate(keys)]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *reports)

    first = report_each(data, mechanism, many)
    again = [
        eager(np.asarray),
        report_each_retraced(data, mechanism, many),
        eager(jnp.asarray),
        eager(_by_hand),
    ]
    different = sum(
        int((~_same(first, other, FUSED)).sum()) for other in again if other is not None
    )
    words = jax.random.key_data(random.split(bits_key, 4 * _ASKED))
    repeats = (repeated(one, _ASKED) for one in known[:3])
    asked = jax.tree.map(lambda *leaves: np.concatenate(leaves), *repeats, others)
    reports = report_each(words, mechanism, asked)
    different += _unusual(reports)
    if hasattr(mechanism, "reads_part"):  # the library's own call draws it in two steps
        parts = privatize(jax.random.clone(bits_key), mechanism, np.asarray(asked))
        different += int((~_same(reports, parts, FUSED)).sum())
    return Fit(
        different == 0, "eager and traced", float(different), 0.0, 1.0 / (4 * count), 4 * count
    )


@standard_flags()
def uses_the_whole_key(mechanism: Randomizer, key: PRNGKey, *, calls: int = 256) -> Fit:
    """Whether each of the 64 bits of a key changes the report, at a record in the middle.

    Each of ``calls`` keys is compared with the same key with one bit changed.

    >>> from ldp_jax.features import Duchi
    >>> uses_the_whole_key(Duchi(1.0), jax.random.key(0)).fits
    True
    """
    validate.integer_in(64, calls=calls)
    data = np.asarray(jax.random.key_data(random.split(key, calls)))
    flips = np.concatenate(
        [np.zeros((1, 2), np.uint32), *(np.eye(2, dtype=np.uint32) << b for b in range(32))]
    )
    flipped = (data[None] ^ flips[:, None]).reshape(-1, 2)
    reports = report_each(flipped, mechanism, repeated(mechanism.domain().centre(), len(flipped)))
    unflipped = take(reports, np.tile(np.arange(calls), len(flips)))
    changed = ~_same(reports, unflipped).reshape(len(flips), calls)[1:]
    varied = ~_same(take(reports, slice(1, calls)), take(reports, slice(0, calls - 1)))
    if varied.mean() < 0.06:
        raise NotApplicable(
            f"reports of one record differ in {varied.mean():.2g} of pairs: ask another epsilon"
        )
    dropped = int((~changed.any(1)).sum())
    return Fit(
        dropped == 0,
        "bits of the key",
        float(dropped),
        0.0,
        1 - math.pow(1e-6 / 64, 1 / calls),
        calls,
    )


@standard_flags()
def is_total(mechanism: Randomizer, key: PRNGKey) -> Fit:
    """Whether values that are not records are reported as the record that ``clip`` takes them for.

    NaN, infinities, 1e30 and numbers just beyond the ends are privatised with the keys of the
    clipped records: reports must be the same and inside the codomain. Each is also privatised by a
    plain call, which must not raise. Real numbers of float16 must be reported as the same numbers
    of float32.

    >>> from ldp_jax.features import Laplace
    >>> is_total(Laplace(1.0), jax.random.key(0)).fits
    True
    """
    domain, codomain = spaces(mechanism)
    bad, good = domain.outside()
    words = jax.random.key_data(random.split(key, count_of(bad)))
    for place, key in enumerate(jax.random.wrap_key_data(words)):
        mechanism.privatize(key, take(bad, place))
    pairs = [(bad, good)]
    if isinstance(bad, np.ndarray) and bad.dtype == np.float32:
        with np.errstate(over="ignore"):
            short = np.stack([*bad[1:], np.asarray(domain.typical())]).astype(np.float16)
        pairs.append((short, short.astype(np.float32)))
    inside = np.zeros(0, bool)
    same = np.zeros(0, bool)
    for asked, meant in pairs:
        reports, others = (report_each(words, mechanism, x) for x in (asked, meant))
        inside = np.append(inside, np.asarray(codomain.contains(reports, rounding=2)))
        same = np.append(same, _same(reports, others))
    n = len(same)
    wrong = int((~inside | ~same).sum())
    test = "reports unlike those of the clipped records" if inside.all() else OUTSIDE
    return Fit(not wrong, test, float(wrong), 0.0, 1 / n, n)
