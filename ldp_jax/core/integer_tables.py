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
from typing import Any, Literal

import numpy as np

from ldp_jax.core.checksum import Header, Public
from ldp_jax.core.rounding import digits_up, exponential, log_up
from ldp_jax.core.validate import concrete, number

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

        "ldp-table 2\n" | {"encoding": ..., "masses": [inputs, outputs], "name": ..., "values": [outputs, ...]} "\n"
                        | masses, uint32 | values, float32

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
        masses, values = self.masses, self.values
        if masses.dtype != np.uint32 or masses.ndim != 2:
            raise ValueError(
                f"masses must be uint32 [inputs, outputs], got {masses.dtype} {masses.shape}"
            )
        inputs, outputs = masses.shape
        if not (1 <= inputs <= MAX_INPUTS and 2 <= outputs <= MAX_OUTPUTS):
            raise ValueError(
                f"tables have 1 to {MAX_INPUTS} inputs, 2 to {MAX_OUTPUTS} outputs, got {masses.shape}"
            )
        if not (masses.sum(1, dtype=np.uint64) == WORDS).all():
            raise ValueError(
                f"every row of masses must sum to 2^32, got {masses.sum(1, dtype=np.uint64)}"
            )
        if not (masses > 0).all():
            raise ValueError(
                "an output that one input cannot give and another can has no epsilon: drop or lift it"
            )
        wrong = values.dtype != np.float32 or values.shape[:1] != (outputs,) or values.ndim > 2
        if wrong or not np.isfinite(values).all():
            raise ValueError(
                f"values must be {outputs} finite float32 numbers or vectors, got {values.shape}"
            )
        if self.encoding not in ("grid", "bins", "category"):
            raise ValueError(f"encoding must be one of grid, bins, category; got {self.encoding!r}")
        if self.encoding == "grid" and inputs < 2:
            raise ValueError("a grid has at least two points")
        for name in (
            "masses",
            "values",
        ):  # what the digest and the loss were computed from stays as it is
            object.__setattr__(self, name, frozen(getattr(self, name)))

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
        """uint32 [inputs, 2^b - 1]: cumulative masses, the last of each row (2^32) left out.

        Padded at the top.
        """
        cumulative = np.cumsum(self.masses[:, :-1], axis=1, dtype=np.uint64).astype(np.uint32)
        return frozen(padded(cumulative, width(self.outputs)))

    @cached_property
    def loss(self) -> Fraction:
        """The largest ratio of two inputs' masses at one output.

        Its logarithm is the privacy loss.
        """
        return max(
            Fraction(int(high), int(low))
            for high, low in zip(self.masses.max(0), self.masses.min(0), strict=True)
        )

    @property
    def epsilon(self) -> float:
        """log of :attr:`loss`, rounded up to a float."""
        return log_up(self.loss)

    def report(self, x: object, word: object, rounding: object = None) -> np.ndarray:
        """Outputs of records ``x`` under uniform words, one to pick and one to round to the grid.

        Elementwise.
        """
        if rounding is None:
            if self.encoding == "grid":
                raise ValueError("rounding must be uniform words: a grid rounds at random")
            rounding = 0
        with np.errstate(
            all="ignore"
        ):  # what a record holds must not be seen in a warning or an error
            row, part = split(np, x, self.inputs, self.encoding)
        word, rounding = np.asarray(word, np.uint32), np.asarray(rounding, np.uint32)
        start = (row + rounds_up(rounding, part)) * self.thresholds.shape[1]
        place = np.zeros_like(start)
        step = (self.thresholds.shape[1] + 1) // 2
        while step:  # bisection: how many thresholds of the row are at or below the word
            probe = np.take(self.thresholds, start + place + (step - 1), mode="clip")
            place = np.where(word >= probe, place + step, place)
            step //= 2
        return np.asarray(np.minimum(place, self.outputs - 1).astype(np.int32))

    def _parts(self) -> tuple[Header, bytes]:
        header = {
            "name": self.name,
            "encoding": self.encoding,
            "masses": self.masses.shape,
            "values": self.values.shape,
        }
        return header, self.masses.astype("<u4").tobytes() + self.values.astype("<f4").tobytes()

    @classmethod
    def _made(cls, header: Header, body: bytes) -> "Table":
        shapes = [header[part] for part in ("masses", "values")]
        if not all(isinstance(shape, list) and len(shape) <= 2 for shape in shapes):
            raise ValueError("masses and values have one or two dimensions")
        shapes = [tuple(map(operator.index, shape)) for shape in shapes]
        sizes = [4 * math.prod(shape) for shape in shapes]
        if min(min(shape) for shape in shapes) < 1 or len(body) != sum(sizes):
            raise ValueError(f"{len(body)} bytes where {sum(sizes)} were announced")
        masses = np.frombuffer(body[: sizes[0]], "<u4").reshape(shapes[0]).astype(np.uint32)
        values = np.frombuffer(body[sizes[0] :], "<f4").reshape(shapes[1]).astype(np.float32)
        if not isinstance(header["name"], str):
            raise ValueError("a name is text")
        return cls(header["name"], masses, values, header["encoding"])


def frozen(array: np.ndarray) -> np.ndarray:
    """A copy over bytes, which nothing can be made to write to."""
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), array.dtype).reshape(array.shape)


def checked_epsilon(epsilon: Any) -> float:
    """A table's budget as a Python float."""
    if not concrete(epsilon) or np.ndim(epsilon):
        raise ValueError(
            "a table needs a concrete epsilon, and epsilon must be one number: personal budgets are a menu of "
            f"levels (ldp_jax.features.menu); got {epsilon}"
        )
    return number(0.0, MAX_EPSILON, open_lower=True, epsilon=epsilon)


def width(outputs: int) -> int:
    """2^b - 1: how many thresholds b steps of bisection need for this many outputs."""
    return 2 ** max(1, math.ceil(math.log2(outputs))) - 1


def padded(thresholds: np.ndarray, size: int) -> np.ndarray:
    """Fill rows up to ``size`` with the largest word, which is at or below no word but itself."""
    short = size - thresholds.shape[1]
    return np.pad(thresholds, ((0, 0), (0, short)), constant_values=WORDS - 1)


def split(xp: ModuleType, x: object, inputs: int, encoding: str) -> tuple[Any, Any]:
    """The row at or below each record, and how far it is to the next, as uint32 in [0, 2^23).

    Total: records are clipped, NaN goes to the centre. Float32 records between -1 and 1 are first
    rounded to
      multiples of 2^-22; all else is done in integers. Only a grid has parts other than 0.
    """
    given = xp.asarray(x)
    given = given.astype(xp.float32) if given.dtype.kind in "biu" else given
    x = xp.clip(given, -1e9, 1e9).astype(xp.float32)  # no float64 overflows
    if encoding == "grid":
        x = xp.where(xp.isnan(x), xp.float32(0), xp.clip(x, -1.0, 1.0))
        half = 2 ** (_STEPS - 1)
        steps = (xp.rint(x * xp.float32(half)).astype(xp.int32) + half).astype(xp.uint32)
        at = steps * xp.uint32(inputs - 1)  # at most 2^23 * 511: no word overflows
        return (at >> xp.uint32(_STEPS)).astype(xp.int32), at & xp.uint32(2**_STEPS - 1)
    if encoding == "bins":
        x = xp.where(xp.isnan(x), xp.float32(0.5), xp.clip(x, 0.0, 1.0))
        row = xp.ceil(x * xp.float32(inputs)) - 1
    else:
        row = xp.where(
            xp.isnan(x), xp.float32((inputs - 1) // 2), xp.rint(xp.clip(x, 0.0, inputs - 1.0))
        )
    row = xp.clip(row, 0, inputs - 1).astype(xp.int32)
    return row, xp.zeros_like(row).astype(xp.uint32)


def rounds_up(word: Any, part: Any) -> Any:
    """Whether a record ``part`` steps above its row goes to the next.

    With probability part / 2^23, exactly.
    """
    return (word >> np.uint32(32 - _STEPS)) < part


def sum_up(table: np.ndarray) -> np.ndarray:
    """The sum over the first axis: not below the exact one, and a rounding a row at most above it.

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


def _floor_exp(epsilon: float, masses: list[int]) -> list[int]:
    """floor(e^epsilon m), never above it: the exponential has 60 digits and is cut at 58."""
    factor = exponential(float(epsilon)) * (1 - Fraction(1, 10**58))
    return [min(WORDS, math.floor(factor * mass)) for mass in masses]


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
    if not 0.0 <= epsilon <= MAX_EPSILON:
        raise ValueError(f"epsilon of a table must be in [0, {MAX_EPSILON}], got {epsilon}")
    if not (np.isfinite(probabilities).all() and (probabilities >= 0).all()):
        raise ValueError("probabilities must be finite and >= 0")
    if not np.allclose(probabilities.sum(1), 1.0, rtol=0, atol=1e-6):
        raise ValueError(f"rows of probabilities must sum to 1, got {probabilities.sum(1)}")
    low = [max(1, math.ceil(WORDS * Fraction(p))) for p in probabilities.min(0).tolist()]
    high = _floor_exp(epsilon, low)
    if (
        WORDS * np.ptp(probabilities, axis=0).max() < 1
    ):  # nothing is said about the record: one row serves all
        low, high = [1] * len(low), [WORDS - 1] * len(low)
        return np.repeat(_fill(probabilities.mean(0), low, high)[None], len(probabilities), 0)
    masses = np.stack([_fill(row, low, high) for row in probabilities])
    off = np.abs(masses - WORDS * probabilities).max()
    if off > 2 * masses.shape[1] + 1e-6 * WORDS:
        raise ValueError(
            f"the law loses more than epsilon {epsilon:g}: integers would be off by {off:.3g} of 2^32"
        )
    return masses


def unbiased(masses: np.ndarray) -> np.ndarray:
    """Unbiased estimates of an input's indicator by output, for a square table.

    Its inverse, float32.
    """
    try:
        return np.linalg.inv(masses.astype(np.float64) / WORDS).astype(np.float32)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"epsilon is too small for {masses.shape[1]} outputs: whole numbers over 2^32 say nothing then"
        ) from None


def _fill(row: np.ndarray, low: list[int], high: list[int]) -> np.ndarray:
    entries = [
        min(max(math.floor(WORDS * p), least), most)
        for p, least, most in zip(row.tolist(), low, high, strict=True)
    ]
    lacking = WORDS - sum(entries)
    for place in np.argsort(-row, kind="stable").tolist():
        change = max(low[place] - entries[place], min(high[place] - entries[place], lacking))
        entries[place] += change
        lacking -= change
        if not lacking:
            return np.array(entries, np.uint64).astype(np.uint32)
    raise ValueError(
        f"no table over 2^32 keeps this law within epsilon: a row is off by {lacking}; epsilon is too small for so "
        "many outputs, or the law loses more than epsilon"
    )
