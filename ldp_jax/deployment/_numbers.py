"""Numbers of a record as the device takes them: of any size, and nothing of them is seen in an error. No JAX."""

import math

import numpy as np

_FAR = 1e9  # numbers beyond are as far out as those at it: every domain lies far within


def as_numbers(x: object) -> np.ndarray:
    """Numbers as float32 within [-1e9, 1e9] or NaN; they are clipped in float64, before the cast.

    Raises:
      TypeError: for anything but real numbers.
      ValueError: for sequences of different lengths, as NumPy has them.
    """
    with np.errstate(all="ignore"):
        numbers = np.asarray(x)
        if numbers.dtype == object:  # integers beyond 64 bits, or no numbers
            numbers = np.array([_float(number) for number in numbers.ravel().tolist()]).reshape(numbers.shape)
        if numbers.dtype.kind not in "biuf":
            raise TypeError(f"records must be real numbers, got {numbers.dtype}")
        return np.asarray(np.clip(numbers.astype(np.float64), -_FAR, _FAR), np.float32)


def _float(number: object) -> float:
    if not isinstance(number, (int, float, np.integer, np.floating)):
        raise TypeError(f"records must be real numbers, got {type(number).__name__}")
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
