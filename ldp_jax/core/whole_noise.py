"""Discrete Laplace noise in whole numbers over 2^97, whose loss is a ratio of integers. No JAX.

A magnitude is drawn by comparing a number W below 2^96 with cumulative masses, its sign is a bit:
P(z = k) = P(z = -k) = A_k / 2^97 for k >= 1, and P(z = 0) = A_0 / 2^96. From one magnitude to the
next a mass falls by e^-epsilon and is rounded up, so that no ratio is above e^epsilon; where it
cannot fall it stays, and the last is all beyond.
"""

import bisect
import dataclasses
import functools
import itertools
import math
from fractions import Fraction

import numpy as np

from ldp_jax.core.integer_tables import frozen, width
from ldp_jax.core.rounding import ABOVE, exponential, log_up
from ldp_jax.core.validate import number, require, whole

WORDS = 3
"""Words of a magnitude."""

_TOTAL = 1 << (32 * WORDS)
_SLACK = 1 << 40  # more than all roundings up move a mass

MAX_REACH = 2**20
"""The largest magnitude: a table of 12 MB."""

MIN_EPSILON = 1e-3
MAX_EPSILON = 40.0
"""Budgets: below, noise would reach too far for a table; above, one step is rarer than its
words.
"""


def checked_epsilon(epsilon: object) -> float:
    """A budget as a Python float; ValueError unless it is one concrete number in [0.001, 40]."""
    return number(MIN_EPSILON, MAX_EPSILON, epsilon=epsilon)


def checked_most(most: object) -> int:
    """The largest count; ValueError unless it is a whole number in [1, 2^20]."""
    return whole(1, MAX_REACH, most=most)


@dataclasses.dataclass(frozen=True, eq=False)
class WholeNoise:
    """Discrete Laplace noise z in [-reach, reach], added to a count in [0, most].

    A noisy count is clipped to [-margin, most + margin]. The mass beyond the margin is below
    2^-66; ``masses`` are A_0 to A_reach, which sum to 2^96.
    """

    epsilon: float
    most: int
    margin: int
    masses: tuple[int, ...]

    @property
    def reach(self) -> int:
        """The largest magnitude, ``most + margin``."""
        return self.most + self.margin

    @functools.cached_property
    def cumulative(self) -> list[int]:
        """A_0 + ... + A_k for each k below the last."""
        return list(itertools.accumulate(self.masses[:-1]))

    @functools.cached_property
    def near(self) -> int:
        """Steps of bisection that find a magnitude, unless its first 32 bits are all 1."""
        return bisect.bisect_left(self.cumulative, (2**32 - 1) << 64).bit_length()

    @functools.cached_property
    def thresholds(self) -> np.ndarray:
        """:attr:`cumulative` in words, uint32 [3, 2^b - 1], padded at the top; read-only."""
        short = width(len(self.masses)) - len(self.cumulative)
        totals = [*self.cumulative, *[_TOTAL - 1] * short]
        digits = b"".join(total.to_bytes(4 * WORDS, "big") for total in totals)
        return frozen(np.frombuffer(digits, ">u4").reshape(-1, WORDS).T.astype(np.uint32))

    def report(self, words: np.ndarray, counts: object) -> np.ndarray:
        """Noisy counts, int32 [K], under random bits: those of ``NeighbourCounts.from_words``.

        The bits, uint32 [4, K], are a sign and a number below 2^96, most significant first. Counts
        are clipped to [0, most].

        >>> words = np.uint32([[0, 1, 0], [0, 2**32 - 1, 0], [0, 0, 0], [0, 0, 0]])
        >>> whole_noise(1.0, 10).report(words, [3, 3, 12])
        array([  3, -19,  10], dtype=int32)
        """
        clipped = [min(max(count, 0), self.most) for count in np.asarray(counts).tolist()]
        true = np.array(clipped, int)
        sign, *digits = np.asarray(words, np.uint32).tolist()
        # Counts that share a word would share their noise.
        require(len(sign) == len(true), f"words must be of {len(true)} counts, got {len(sign)}")
        sizes = []
        for high, middle, low in zip(*digits, strict=True):
            drawn = high << 64 | middle << 32 | low
            sizes.append(bisect.bisect_right(self.cumulative, drawn))
        signs = np.where(np.array(sign, int) & 1, -1, 1)
        noise = signs * np.array(sizes, np.int64)
        return (true + noise).clip(-self.margin, self.most + self.margin).astype(np.int32)

    @functools.cached_property
    def ratio(self) -> Fraction:
        """The largest ratio of two probabilities of one report, of counts that differ by 1."""
        return self.ratio_over(1)

    def ratio_over(self, steps: int) -> Fraction:
        """The same of counts that differ by at most ``steps``; masses fall on both sides.

        >>> noise = whole_noise(0.5, 10)
        >>> math.exp(2.0) > noise.ratio_over(4) > noise.ratio_over(3)
        True
        """
        apart = min(steps, self.most)
        mass = self._one_side
        inside = mass[:-1]  # the last is met at an end alone
        found = zip(inside, inside[apart:], strict=False)
        moved = [(max(a, b), min(a, b)) for a, b in found if a != b]
        # A report is clipped at the margin. Tails nearer to 0 never lose more: each is the next one
        # and a mass, both of which fall by no more than the ratio.
        ends = self._beyond
        up = 1
        down = 1
        for above, below in [*moved, *zip(ends, ends[apart:], strict=False)]:
            if above * down > up * below:  # the fractions, without a common divisor of each
                up = above
                down = below
        return Fraction(up, down)

    def possible(self, numbers: np.ndarray) -> np.ndarray:
        """Whether noisy counts [m, K] can be reported; bool [m]."""
        inside = (numbers >= -self.margin) & (numbers <= self.most + self.margin)
        return np.asarray(inside.all(1))

    @functools.cached_property
    def loss(self) -> float:
        """The logarithm of :attr:`ratio`, rounded up: the loss of one bit of a list."""
        return log_up(self.ratio)

    @property
    def _one_side(self) -> list[int]:
        """The masses of one sign, and of 0, over 2^97."""
        return [2 * self.masses[0], *self.masses[1:]]

    @property
    def _beyond(self) -> list[int]:
        """The mass of each magnitude of one sign and of all beyond it, over 2^97."""
        return list(itertools.accumulate(reversed(self._one_side)))[::-1]

    @functools.cached_property
    def log_masses(self) -> tuple[np.ndarray, np.ndarray]:
        """log P(z = k), and log P(z >= k), for k = 0 ... reach; float64."""
        equal = np.array(list(map(log_mass, self._one_side)))
        at_least = np.array(list(map(log_mass, self._beyond)))
        return equal, at_least


@functools.lru_cache(maxsize=64)
def whole_noise(epsilon: float, most: int) -> WholeNoise:
    """Return the noise of one count of at most ``most``; it must not reach beyond 2^20.

    >>> noise = whole_noise(1.0, 10)
    >>> noise.loss <= 1.0, sum(noise.masses) == 2**96, noise.margin
    (True, True, 67)
    """
    # Above e^-epsilon by less than any rounding that matters, so that masses never fall too fast.
    ratio = Fraction(exponential(-Fraction(epsilon))) * ABOVE
    up = ratio.numerator
    down = ratio.denominator
    rule = (
        f"epsilon is too small for discrete Laplace noise: {epsilon:g} reaches beyond {MAX_REACH}"
    )

    def magnitudes(first: int) -> list[int]:
        """A_1 to A_reach: masses fall until nothing falls, and the last is all beyond."""
        core = [first]
        fallen = -(-first * up // down)
        while fallen < core[-1]:
            core.append(fallen)
            require(len(core) + most <= MAX_REACH, f"{rule}, with counts up to {most}")
            fallen = -(-fallen * up // down)
        stays = core[-1]
        # The mass beyond the end falls by e^-epsilon too.
        last = max(stays, -(-stays * up // (down - up)))
        return [*core, *[stays] * (most - 1), last]

    def fits(first: int) -> bool:
        """Return whether 0 is no more than e^epsilon times as likely as 1."""
        return 2 * (_TOTAL - sum(magnitudes(first))) * up <= first * down

    # The least A_1 that fits, near to that of the law without rounding.
    low = 2 * _TOTAL * (down - up) * up // (down * (down + up))
    high = low + _SLACK
    low = max(0, low - _SLACK)
    while not fits(high):
        low = high
        high += _SLACK
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle
    found = magnitudes(high)
    return WholeNoise(epsilon, most, len(found) - most, (_TOTAL - sum(found), *found))


def law(noise: WholeNoise) -> np.ndarray:
    """P(z) for z in [-reach, reach], float64."""
    centre = math.ldexp(noise.masses[0], -96)
    side = np.array([math.ldexp(mass, -97) for mass in noise.masses[1:]])
    return np.concatenate([side[::-1], [centre], side])


def log_mass(mass: int) -> float:
    """log of a whole number over 2^97."""
    return math.log(mass) - 97 * math.log(2)
