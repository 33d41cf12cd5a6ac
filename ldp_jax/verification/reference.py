"""Word by word.

Each report against an independent inverse of the law that the mechanism's name claims.
"""

import functools
from collections.abc import Callable

import jax
import numpy as np

from ldp_jax.core import integer_tables, random, validate
from ldp_jax.core.flags import standard_flags
from ldp_jax.core.mechanism import Randomizer
from ldp_jax.core.spaces import Interval, NotApplicable
from ldp_jax.core.types import PRNGKey
from ldp_jax.features import Duchi, GeneralPiecewise, Laplace, SquareWave, ThreeOutputs
from ldp_jax.verification import _words
from ldp_jax.verification._programs import generator
from ldp_jax.verification.exact import spaces
from ldp_jax.verification.protocols import HasTable
from ldp_jax.verification.statistics import Fit

TRIALS = 1 << 21
_STEP = 2.0**-22  # of a uniform: 23 bits, and half a step

Law = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""P(report <= y | x), elementwise in y and x, float64."""


@standard_flags()
def matches_reference(
    mechanism: Randomizer, key: PRNGKey, *, law: Law | None = None, trials: int = TRIALS
) -> Fit:
    """Whether each report is the one that the claimed law has at the words that were drawn.

    The share of words below the drawn ones must lie between the law's masses below and up to the
    report, to 2^-22 and what float32 misplaces. The laws of :class:`Laplace`, :class:`Duchi`,
    :class:`GeneralPiecewise`, :class:`SquareWave`, :class:`ThreeOutputs` and their subclasses are
    written here a second time; another mechanism's ``law`` is given. Tables are compared report for
    report.

    >>> from ldp_jax.features import Duchi
    >>> matches_reference(Duchi(1.0), jax.random.key(0), trials=10_000).fits
    True
    """
    validate.integer_in(1000, trials=trials)
    record_key, word_key = random.split(key)
    x = spaces(mechanism)[0].sample(generator(record_key), trials)
    if isinstance(x, tuple) or np.ndim(x) != 1:
        raise NotApplicable(
            "mechanism must be one on numbers or categories: ask a vector's inner mechanism"
        )
    draws = _words.draws_of(mechanism, x[0])
    table = mechanism.table() if isinstance(mechanism, HasTable) else None
    if table is None and len(draws) != 1:
        raise NotApplicable(
            f"{type(mechanism).__name__} takes {len(draws)} draws of words: ask its parts"
        )
    rng = generator(word_key)
    words = [
        rng.integers(0, 1 << d.bits, (trials, *d.shape), np.uint64).astype(f"uint{d.bits}")
        for d in draws
    ]
    y = _words.report_words(mechanism, x, words)
    if table is not None:
        wrong = y != _table_report(table, x, words)
    else:
        wrong = _off(
            mechanism, law or _claimed(mechanism), x, np.asarray(y, np.float64), _share(words[0])
        )
    count = int(wrong.sum())
    return Fit(count == 0, "reference", float(count), 0.0, 13.8 / trials, trials)


def _share(words: np.ndarray) -> np.ndarray:
    """Words, most significant first, as a share of all."""
    words = words.reshape(len(words), -1)
    scale = 2.0 ** -(8.0 * words.dtype.itemsize)
    return words.astype(np.float64) @ scale ** np.arange(1.0, words.shape[1] + 1)


def _off(
    mechanism: Randomizer, law: Law, x: np.ndarray, y: np.ndarray, share: np.ndarray
) -> np.ndarray:
    x = x.astype(np.float64)
    codomain = mechanism.codomain()
    if codomain.atoms is not None:
        values = np.array(codomain.atoms)
        place = np.clip(np.searchsorted(values, y), 0, len(values) - 1)
        least = np.where(place > 0, law(values[np.maximum(place - 1, 0)], x), 0.0)
        return (
            (values[place] != y) | (share < least - _STEP) | (share > law(values[place], x) + _STEP)
        )
    if not isinstance(codomain, Interval) or codomain.breaks is None:
        raise NotApplicable(f"reports in {codomain} declare no breaks")
    breaks = np.asarray(jax.vmap(codomain.breaks)(x.astype(np.float32)))
    step = 2.0**-21 * np.maximum(np.abs(y), np.abs(breaks).max(1))
    return ~np.isfinite(y) | (share < law(y - step, x) - _STEP) | (share > law(y + step, x) + _STEP)


def _table_report(
    table: integer_tables.Table, x: np.ndarray, words: list[np.ndarray]
) -> np.ndarray:
    """Rows by the client's rule, outputs by a search of cumulative masses in 64 bits."""
    if len(words) != 1 or words[0].reshape(len(x), -1).shape[1] > 2:
        raise ValueError("a table takes one word a report, and one to round to a grid")
    word = words[0].reshape(len(x), -1)
    row, part = integer_tables.split(np, x, table.inputs, table.encoding)
    row = row + integer_tables.rounds_up(word[:, -1], part)
    cumulative = np.cumsum(table.masses, 1, dtype=np.uint64) + np.arange(
        table.inputs, dtype=np.uint64
    )[:, None] * np.uint64(2**32)
    place = np.searchsorted(
        cumulative.ravel(), word[:, 0] + row.astype(np.uint64) * np.uint64(2**32), "right"
    )
    return place - row * table.outputs


# --- The laws of the papers -----------------------------------------------------------------------


@functools.singledispatch
def _claimed(mechanism: Randomizer) -> Law:
    raise NotApplicable(f"no law is known of {type(mechanism).__name__}: give ``law``")


@_claimed.register(Laplace)
def _laplace(m: Laplace) -> Law:
    def law(y: np.ndarray, x: np.ndarray) -> np.ndarray:
        tail = np.exp(-np.abs(y - x) * float(m.epsilon) / 2) / 2
        return np.where(y < x, tail, 1 - tail)

    return law


@_claimed.register(Duchi)
def _duchi(m: Duchi) -> Law:
    return lambda y, x: np.where(y >= 1, 1.0, 0.5 - x / 2 * np.tanh(float(m.epsilon) / 2))


def _window(slope: float, half: float, density: float, ratio: float, end: float) -> Law:
    """``density`` within ``half`` of ``slope`` times the record, else a ``ratio`` less."""

    def law(y: np.ndarray, x: np.ndarray) -> np.ndarray:
        y = np.clip(y, -end, end)
        inside = np.clip(y - slope * x, -half, half) + half
        return density / ratio * (y + end - inside) + density * inside

    return law


@_claimed.register(GeneralPiecewise)
def _piecewise(m: GeneralPiecewise) -> Law:
    e = np.exp(float(m.epsilon))
    t = float(m.t)
    g = (e + t) / (t * (e - 1))
    return _window(g * t, g, e / (2 * g * (t + e)), e, g * (t + 1))


@_claimed.register(SquareWave)
def _square_wave(m: SquareWave) -> Law:
    epsilon = float(m.epsilon)
    e = np.exp(epsilon)
    if epsilon > 0.01:
        b = (epsilon * e - e + 1) / (e * (e - epsilon - 1))
    else:  # its series: the fraction is 0/0 at 0
        b = 1 - 2 * epsilon / 3 + 2 * epsilon**2 / 9 - 7 * epsilon**3 / 135 + 4 * epsilon**4 / 405
    return _window(1.0, b, e / (2 * b * e + 2), e, 1 + b)


@_claimed.register(ThreeOutputs)
def _three_outputs(m: ThreeOutputs) -> Law:
    e = np.exp(float(m.epsilon))
    if e <= 2:
        a = 0.0
    else:
        roots = np.roots(
            np.polyadd(
                np.polymul([-2.0, 2 * (2 - e)], [1.0, -2 * e, e * e]),
                [(e + 1) ** 2, (e + 1) ** 2 * e, 0],
            )
        )
        real = roots.real[np.abs(roots.imag) < 1e-6 * (1 + np.abs(roots))]
        inside = real[(real > 0) & (real < e / (e + 2))]
        a = float(inside.min()) if len(inside) else e / (e + 2)
    if float(m.epsilon) >= np.log((3 + np.sqrt(65)) / 2):
        a = e / (e + 2)

    def law(y: np.ndarray, x: np.ndarray) -> np.ndarray:
        size = np.abs(x)
        even, likely = (1 - size) * (1 - a) / 2, size * (e - a) / (e + 1)
        below = even + np.where(x < 0, likely, likely / e)
        above = even + np.where(x < 0, likely / e, likely)
        return np.where(y >= 1, 1.0, np.where(y >= 0, 1 - above, np.where(y >= -1, below, 0.0)))

    return law
