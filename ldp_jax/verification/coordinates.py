"""Are the coordinates of a report independent given the record? Pairs, and words of several."""

import itertools
import math
from typing import Any

import jax  # noqa: F401 - the examples below
import numpy as np

from ldp_jax.core import random, validate
from ldp_jax.core.flags import standard_flags
from ldp_jax.core.mechanism import HasCoordinates, Randomizer
from ldp_jax.core.spaces import Finite, NotApplicable
from ldp_jax.core.types import PRNGKey
from ldp_jax.verification import _positions
from ldp_jax.verification._programs import draws, generator, privatize_stacked
from ldp_jax.verification.records import repeated_records
from ldp_jax.verification.statistics import SIGNIFICANCE, Fit

TRIALS = 50_000
_SPARE = 64  # reports beyond as many as coordinates, by which their rank is full
_PAIRS = 1024  # coordinates of which all pairs are asked
_WORDS = 2048  # of three to five coordinates
_LENGTHS = (3, 4, 5)
_WHOLE = 64  # words of all coordinates but one
_REPORTS = 16_384  # of which words are formed
_CHUNK = 4_096  # reports whose words are held at once


@standard_flags()
def independent_coordinates(
    mechanism: Randomizer, key: PRNGKey, *, trials: int = TRIALS, significance: float = SIGNIFICANCE
) -> Fit:
    """Whether coordinates are independent: all pairs, words of three to five, parities of any.

    The place u of each value in its law is uniform. Sums of two and of more places, with either
    sign, are uniform modulo one if they are independent, and so is the parity of their halves: the
    mean of exp(2 pi i sum(u)) and that of the product of the sides of 1/2 are near zero, by
    Hoeffding. All words are asked where they are at most 2 048, else as many random ones, and those
    of all coordinates and of all but one. Where all coordinates are sent, the sides as bits also
    have full rank over GF(2).

    >>> from ldp_jax.features import LaplaceVector
    >>> independent_coordinates(
    ...     LaplaceVector(1.0, dim=5), jax.random.key(0), trials=5_000
    ... ).fits
    True
    """
    validate.integer_in(1000, trials=trials)
    domain: Any = mechanism.domain()
    if getattr(domain, "dim", 1) < 2:
        raise NotApplicable(
            f"mechanism must be one on vectors of 2 and more coordinates, got {domain}"
        )
    draw_key, spread_key, word_key = random.split(key, 3)
    rng = generator(word_key)
    chosen = np.sort(rng.permutation(domain.dim)[:_PAIRS])
    place = _places(mechanism, draw_key, spread_key, trials)[:, chosen]
    words = _words(len(chosen), rng)
    means, counts = zip(_pair_means(place), _word_means(place, words), strict=True)
    mean, count = np.concatenate(means), np.concatenate(counts)
    limit = math.log(4 * len(mean) / significance)
    excess = count * mean**2 / 4
    largest = float(excess.max(initial=0.0))
    sides = place > 0.5
    whole = not np.isnan(place).any()
    fits = largest <= limit and not (whole and _dependent(sides))
    return Fit(fits, "coordinates", largest, limit, 2 * math.sqrt(limit / trials), trials)


def _places(
    mechanism: Randomizer, draw_key: PRNGKey, spread_key: PRNGKey, trials: int
) -> np.ndarray:
    """Where each coordinate of each report lies in its law, float32 [trials, dim]; else NaN."""
    domain: Any = mechanism.domain()
    if isinstance(mechanism, HasCoordinates):
        record_key, draw_key = random.split(draw_key)
        x = repeated_records(domain, generator(record_key), trials)
        given = _positions.by_law(mechanism, x, privatize_stacked(draw_key, mechanism, x))
        place = np.full((trials, domain.dim), np.nan, np.float32)
        keys = random.split(spread_key, len(given)) if len(given) > 1 else [spread_key]
        for (numbers, user, coordinate), key in zip(given, keys, strict=True):
            place[user, coordinate] = _positions.positions(numbers, key)[0]
        return place
    if getattr(mechanism.codomain(), "inner", None) == Finite((-1.0, 1.0)):
        # About the centre each sign is fair, and anywhere in its half.
        signs = draws(mechanism, draw_key, domain.centre(), trials)
        spread = generator(spread_key).random(signs.shape, np.float32)
        return (spread + (signs > 0)) / 2
    raise NotApplicable(f"the coordinates of {type(mechanism).__name__} have no law of their own")


def _words(dim: int, rng: np.random.Generator) -> np.ndarray:
    """Signs of the coordinates in each word, float32 [dim, words]; those of the others are 0."""
    all_of_them = sum(math.comb(dim, size) * 2 ** (size - 1) for size in _LENGTHS)
    if all_of_them <= _WORDS:
        signs = {size: list(itertools.product((1, -1), repeat=size - 1)) for size in _LENGTHS}
        chosen = [
            (places, (1, *rest))
            for size in _LENGTHS
            for places in itertools.combinations(range(dim), size)
            for rest in signs[size]
        ]
    else:
        sizes = rng.choice(_LENGTHS, _WORDS)
        chosen = [(rng.permutation(dim)[:size], rng.choice((1, -1), size)) for size in sizes]
    words = np.zeros((dim, len(chosen)), np.float32)
    for place, (coordinates, sign) in enumerate(chosen):
        words[list(coordinates), place] = sign[: len(coordinates)]
    whole = np.ones((dim, 1), np.float32)
    return np.concatenate([words, whole, (whole - np.eye(dim, dtype=np.float32))[:, :_WHOLE]], 1)


def _pair_means(place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sizes of the means of all pairs' characters, and of how many reports each is one."""
    there = ~np.isnan(place)
    turn = np.where(there, np.exp(2j * np.pi * np.nan_to_num(place)), 0).astype(np.complex64)
    side = np.where(there, np.sign(np.nan_to_num(place) - 0.5), 0).astype(np.float32)
    present = there.astype(np.float32)
    first, second = np.triu_indices(place.shape[1], 1)
    count = np.maximum((present.T @ present)[first, second], 1.0)
    sums = [turn.T @ turn, turn.T @ turn.conj(), side.T @ side]
    return np.concatenate([np.abs(each[first, second]) / count for each in sums]), np.tile(count, 3)


def _word_means(place: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same of words, by the first reports."""
    there = ~np.isnan(place[:_REPORTS])
    known = np.nan_to_num(place[:_REPORTS])
    absolute = np.abs(words)
    total = np.zeros((3, words.shape[1]))
    count = np.zeros(words.shape[1])
    for start in range(0, len(known), _CHUNK):
        rows = slice(start, start + _CHUNK)
        sent = there[rows].astype(np.float32) @ absolute == absolute.sum(0)
        turn = np.float32(2 * np.pi) * (known[rows] @ words)
        odd = (known[rows] > 0.5).astype(np.float32) @ absolute % 2
        for row, part in enumerate((np.cos(turn), np.sin(turn), 1 - 2 * odd)):
            total[row] += (part * sent).sum(0)
        count += sent.sum(0)
    turned = np.hypot(total[0], total[1])
    return np.append(turned, np.abs(total[2])) / np.tile(np.maximum(count, 1), 2), np.tile(count, 2)


def _dependent(bits: np.ndarray) -> bool:
    """Whether a product of some signs is always the same: less than full rank over GF(2)."""
    rows = bits[: bits.shape[1] + _SPARE]
    packed = [int("".join("1" if b else "0" for b in row) + "1", 2) for row in rows]
    rank = 0
    width = bits.shape[1] + 1
    for place in range(width):
        pivot = next((row for row in packed if row >> place & 1), None)
        if pivot is not None:
            rank += 1
            packed = [row ^ pivot if row >> place & 1 else row for row in packed]
    return rank < width
