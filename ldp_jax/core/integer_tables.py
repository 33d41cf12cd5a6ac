"""Finite mechanisms as integer probability mass over 2^32.

NumPy only, shared by the device's client and JAX.

A table has one row an input and one column an output; a row's whole numbers sum to 2^32, and one
uniform 32-bit word picks the output whose cumulative mass it falls in. So a probability *is* an
integer over 2^32, and the privacy loss a ratio of integers: exact, in the arithmetic that is run.
:func:`split` serves NumPy and ``jax.numpy`` (the argument ``xp``): equal words, equal reports.
"""

import dataclasses
import math
import operator
from fractions import Fraction
from functools import cached_property
from types import ModuleType
from typing import Any, Literal, get_args

import numpy as np

from ldp_jax.core.checksum import Header, Public
from ldp_jax.core.rounding import digits_up, exponential, log_up
from ldp_jax.core.validate import concrete, number, one_of, require

WORDS = 2**32
"""How many words there are: the common denominator of every probability."""

MAX_EPSILON = 20.0
"""Beyond, the rarest output of a table would weigh less than one word."""

MAX_INPUTS = 512
MAX_OUTPUTS = 2**16
_STEPS = 23  # a position between two inputs is a whole number of 2^-23 steps

Encoding = Literal["grid", "bins", "category"]
"""How a record becomes a row.

``grid``: [-1, 1] on equally spaced points, rounded up or down at random so that the mean is kept;
``bins``: [0, 1] in equal bins, (t - 1)/k < x <= t/k (HeteroRR); ``category``: 0, 1, ... as it is.
"""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Table(Public):
    r"""A finite mechanism, as it is sampled.

    In bytes (:mod:`ldp_jax.core.checksum`)::

        "ldp-table 2\n" | {"encoding": ..., "masses": [inputs, outputs], "name": ...,
                           "values": [outputs, ...]} "\n" | masses, uint32 | values, float32

    Attributes:
      name: in guarantees.
      masses: uint32 [inputs, outputs]; rows sum to 2^32, every entry is at least 1.
      values: float32 [outputs] or [outputs, size]: the server's estimate from each output.
      encoding: how a record becomes a row.
    """

    name: str
    masses: np.ndarray
    values: np.ndarray
    encoding: Encoding

    KIND, VERSION = "table", 2

    def __post_init__(self) -> None:
        masses = self.masses
        values = self.values
        require(
            masses.dtype == np.uint32 and masses.ndim == 2,
            "masses must be uint32 [inputs, outputs]",
            masses,
        )
        inputs, outputs = masses.shape
        require(
            1 <= inputs <= MAX_INPUTS and 2 <= outputs <= MAX_OUTPUTS,
            f"tables have 1 to {MAX_INPUTS} inputs and 2 to {MAX_OUTPUTS} outputs",
            masses,
        )
        sums = masses.sum(1, dtype=np.uint64)
        require((sums == WORDS).all(), "every row of masses must sum to 2^32", sums)
        require(
            (masses > 0).all(),
            "an output that one input cannot give and another can has no epsilon: drop or lift it",
        )
        listed = values.dtype == np.float32 and values.shape[:1] == (outputs,) and values.ndim <= 2
        require(
            listed and np.isfinite(values).all(),
            f"values must be {outputs} finite float32 numbers or vectors",
            values,
        )
        one_of(get_args(Encoding), encoding=self.encoding)
        require(self.encoding != "grid" or inputs >= 2, "a grid has at least two points")
        # The digest and the loss are computed from arrays that nothing writes to.
        self._keep(masses=frozen(masses), values=frozen(values))

    def __repr__(self) -> str:
        shape = f"{self.inputs} inputs ({self.encoding}), {self.outputs} outputs"
        return f"Table({self.name!r}: {shape}, epsilon {digits_up(self.epsilon)})"

    @property
    def inputs(self) -> int:
        """How many rows."""
        return self.masses.shape[0]

    @property
    def outputs(self) -> int:
        """How many columns."""
        return self.masses.shape[1]

    @cached_property
    def thresholds(self) -> np.ndarray:
        """Cumulative masses below 2^32, padded at the top; uint32 [inputs, 2^b - 1]."""
        cumulative = np.cumsum(self.masses[:, :-1], axis=1, dtype=np.uint64).astype(np.uint32)
        return frozen(padded(cumulative, width(self.outputs)))

    @cached_property
    def loss(self) -> Fraction:
        """The largest ratio of two masses of an output; its logarithm is the privacy loss."""
        most = self.masses.max(0).tolist()
        least = self.masses.min(0).tolist()
        return max(map(Fraction, most, least))

    @property
    def epsilon(self) -> float:
        """log of :attr:`loss`, rounded up to a float."""
        return log_up(self.loss)

    def report(self, x: object, word: object, rounding: object = None) -> np.ndarray:
        """Outputs of records ``x`` under random bits: ``word`` picks, ``rounding`` is for a grid.

        Elementwise.
        """
        require(
            rounding is not None or self.encoding != "grid",
            "rounding must be uniform words: a grid rounds at random",
        )
        with np.errstate(all="ignore"):  # a warning would say what a record holds
            row, part = split(np, x, self.inputs, self.encoding)
        word = np.asarray(word, np.uint32)
        rounding = np.asarray(0 if rounding is None else rounding, np.uint32)
        columns = self.thresholds.shape[1]
        start = (row + rounds_up(rounding, part)) * columns
        place = np.zeros_like(start)
        step = (columns + 1) // 2
        while step:  # bisection: how many thresholds of the row are at or below the word
            probe = np.take(self.thresholds, start + place + (step - 1), mode="clip")
            place = np.where(word >= probe, place + step, place)
            step //= 2
        return np.asarray(np.minimum(place, self.outputs - 1).astype(np.int32))

    def _parts(self) -> tuple[Header, bytes]:
        header: Header = {"name": self.name, "encoding": self.encoding}
        header |= {"masses": self.masses.shape, "values": self.values.shape}
        masses = self.masses.astype("<u4").tobytes()
        values = self.values.astype("<f4").tobytes()
        return header, masses + values

    @classmethod
    def _made(cls, header: Header, body: bytes) -> "Table":
        arrays: list[np.ndarray] = []
        for name, kind in (("masses", np.uint32), ("values", np.float32)):
            shape = header[name]
            listed = isinstance(shape, list) and 1 <= len(shape) <= 2
            require(listed and min(shape) >= 1, f"{name} must have one or two dimensions", shape)
            size = 4 * math.prod(map(operator.index, shape))
            require(len(body) >= size, f"{name} must have {size} bytes, got {len(body)}")
            array = np.frombuffer(body[:size], np.dtype(kind).newbyteorder("<"))
            arrays.append(array.reshape(shape).astype(kind))
            body = body[size:]
        require(not body, f"nothing must follow the arrays, got {len(body)} bytes")
        require(isinstance(header["name"], str), "a name must be text")
        masses, values = arrays
        return cls(header["name"], masses, values, header["encoding"])


def frozen(array: np.ndarray) -> np.ndarray:
    """A copy over bytes, which nothing can be made to write to."""
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), array.dtype).reshape(array.shape)


def checked_epsilon(epsilon: Any) -> float:
    """A table's budget as a Python float."""
    require(
        concrete(epsilon) and not np.ndim(epsilon),
        "a table needs a concrete epsilon, and epsilon must be one number: personal budgets are a "
        "menu of levels (ldp_jax.features.menu)",
        epsilon,
    )
    return number(0.0, MAX_EPSILON, open_lower=True, epsilon=epsilon)


def width(outputs: int) -> int:
    """2^b - 1: how many thresholds b steps of bisection need for this many outputs."""
    return 2 ** max(1, math.ceil(math.log2(outputs))) - 1


def padded(thresholds: np.ndarray, size: int) -> np.ndarray:
    """Fill rows up to ``size`` with the largest number, which is at or below itself alone."""
    short = size - thresholds.shape[1]
    return np.pad(thresholds, ((0, 0), (0, short)), constant_values=WORDS - 1)


def split(xp: ModuleType, x: object, inputs: int, encoding: str) -> tuple[Any, Any]:
    """Return the row at or below each record, and how far the next is, as uint32 in [0, 2^23).

    Records are clipped, NaN goes to the centre. Records of a grid are first rounded to multiples of
    2^-22; all else is done in integers. Only a grid has parts other than 0.
    """
    given = xp.asarray(x)
    if given.dtype.kind in "biu":
        given = given.astype(xp.float32)
    x = xp.clip(given, -1e9, 1e9).astype(xp.float32)  # no float64 overflows
    if encoding == "grid":
        x = xp.where(xp.isnan(x), xp.float32(0), xp.clip(x, -1.0, 1.0))
        half = 2 ** (_STEPS - 1)
        steps = (xp.rint(x * xp.float32(half)).astype(xp.int32) + half).astype(xp.uint32)
        at = steps * xp.uint32(inputs - 1)  # at most 2^23 * 511: uint32 holds it
        row = (at >> xp.uint32(_STEPS)).astype(xp.int32)
        return row, at & xp.uint32(2**_STEPS - 1)
    if encoding == "bins":
        row = xp.ceil(xp.clip(x, 0.0, 1.0) * xp.float32(inputs)) - 1
        centre = xp.ceil(xp.float32(0.5) * xp.float32(inputs)) - 1
    else:
        row = xp.rint(xp.clip(x, 0.0, inputs - 1.0))
        centre = xp.float32((inputs - 1) // 2)
    row = xp.where(xp.isnan(x), centre, row)
    row = xp.clip(row, 0, inputs - 1).astype(xp.int32)
    return row, xp.zeros_like(row).astype(xp.uint32)


def rounds_up(word: Any, part: Any) -> Any:
    """Return whether a record goes to the next row: with probability part / 2^23, exactly."""
    return (word >> np.uint32(32 - _STEPS)) < part


def sum_up(table: np.ndarray) -> np.ndarray:
    """Sum over the first axis, never below the exact sum, and at most a rounding a row above it.

    >>> sum_up(np.array([[0.1], [0.9]])).tolist()
    [1.0000000000000002]
    """
    total = np.zeros(table.shape[1:])
    with np.errstate(over="ignore", invalid="ignore"):  # infinity stays infinity
        for row in table.astype(np.float64):
            rounded = total + row
            part = rounded - total
            lost = (total - (rounded - part)) + (row - part)  # Knuth's exact error of a sum
            total = np.where(lost > 0.0, np.nextafter(rounded, np.inf), rounded)
    return total


def integer_masses(probabilities: np.ndarray, epsilon: float) -> np.ndarray:
    """Round a law to whole numbers over 2^32 without losing more than epsilon.

    For each output, the least mass is m = max(1, ceil(2^32 min P)) and the greatest floor(e^epsilon
    m), in exact arithmetic. Entries start at floor(2^32 P), brought into that box; a row's largest
    entries take its rest.

    ``probabilities`` are float64 [inputs, outputs], rows summing to 1 within 1e-6, without columns
    of zeros; epsilon is in [0, 20], 0 only where all rows are equal. ``ValueError`` where no such
    rounding exists: the law loses more than epsilon, or epsilon is so small (about outputs^2 /
    2^32) that the integers are too coarse.

    >>> masses = integer_masses(np.array([[0.75, 0.25], [0.25, 0.75]]), np.log(3.0))
    >>> masses.sum(1).tolist(), (masses.max() / masses.min()).item() <= 3.0
    ([4294967296, 4294967296], True)
    """
    probabilities = np.asarray(probabilities, np.float64)
    possible = np.isfinite(probabilities).all() and (probabilities >= 0).all()
    sums = probabilities.sum(1)
    require(
        0.0 <= epsilon <= MAX_EPSILON, f"epsilon of a table must be in [0, {MAX_EPSILON}]", epsilon
    )
    require(possible, "probabilities must be finite and >= 0")
    require((np.abs(sums - 1.0) <= 1e-6).all(), "rows of probabilities must sum to 1", sums)
    inputs, outputs = probabilities.shape
    if WORDS * np.ptp(probabilities, axis=0).max() < 1:
        # Reports say nothing about the record: one row serves all.
        row = _fill(probabilities.mean(0), [1] * outputs, [WORDS - 1] * outputs)
        return np.repeat(row[None], inputs, 0)

    low = [max(1, math.ceil(WORDS * Fraction(p))) for p in probabilities.min(0).tolist()]
    # e^epsilon has 60 digits and is cut at 58, so that it is never above the truth.
    factor = exponential(float(epsilon)) * (1 - Fraction(1, 10**58))
    high = [min(WORDS, math.floor(factor * mass)) for mass in low]
    masses = np.stack([_fill(row, low, high) for row in probabilities])
    off = np.abs(masses - WORDS * probabilities).max()
    require(
        off <= 2 * outputs + 1e-6 * WORDS,
        f"the law loses more than epsilon {epsilon:g}: integers would be off by {off:.3g} of 2^32",
    )
    return masses


def unbiased(masses: np.ndarray) -> np.ndarray:
    """Return unbiased estimates of an input's indicator by output: a square table's inverse."""
    try:
        return np.linalg.inv(masses.astype(np.float64) / WORDS).astype(np.float32)
    except np.linalg.LinAlgError:
        rule = "whole numbers over 2^32 say nothing then"
        raise ValueError(f"epsilon is too small for {len(masses)} outputs: {rule}") from None


def _fill(row: np.ndarray, low: list[int], high: list[int]) -> np.ndarray:
    entries = []
    for p, least, most in zip(row.tolist(), low, high, strict=True):
        entries.append(min(max(math.floor(WORDS * p), least), most))
    lacking = WORDS - sum(entries)
    for place in np.argsort(-row, kind="stable").tolist():
        change = max(low[place] - entries[place], min(high[place] - entries[place], lacking))
        entries[place] += change
        lacking -= change
        if not lacking:
            return np.array(entries, np.uint64).astype(np.uint32)
    raise ValueError(
        f"no table over 2^32 keeps this law within epsilon: a row is off by {lacking}; epsilon is "
        "too small for so many outputs, or the law loses more than epsilon"
    )
