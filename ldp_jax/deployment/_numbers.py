"""Numbers of a record as the device takes them: of any size, and nothing of them is seen in an error. No JAX."""

import math
from typing import Any

import numpy as np

_FAR = 1e9  # numbers beyond are as far out as those at it: every domain lies far within


def as_numbers(x: Any) -> np.ndarray:
    """Numbers as float32 within [-1e9, 1e9] or NaN; no error and no warning depends on how large they are.

    They are clipped as float64, before the cast: whatever a caller has NumPy do about overflow or underflow
    (``np.seterr``), nothing of a record shows.

    Raises:
      TypeError: for what are no real numbers.
      ValueError: for sequences of different lengths, as NumPy has them.
    """
    with np.errstate(all="ignore"):
        numbers = np.asarray(x)
        if numbers.dtype == object:  # integers beyond 64 bits, or no numbers
            numbers = np.array([_float(number) for number in numbers.ravel().tolist()]).reshape(numbers.shape)
        if numbers.dtype.kind not in "biuf":
            raise TypeError(f"records must be real numbers, got {numbers.dtype}")
        return np.asarray(np.clip(numbers.astype(np.float64), -_FAR, _FAR), np.float32)


def _float(number: Any) -> float:
    if not isinstance(number, (int, float, np.integer, np.floating)):
        raise TypeError(f"records must be real numbers, got {type(number).__name__}")
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
