"""Records mapped from public bounds, in float64 on the host; no JAX.

Near 1e9 the numbers of float32 are 64 apart. So bounds are taken off before anything is rounded to
float32.
"""

import numpy as np
from numpy.typing import DTypeLike

from ldp_jax.core.validate import require

End = float | int | np.ndarray
"""A bound of all columns, or one a column [d]."""

_SHARE = 1e-3  # of the width between bounds: the largest step between numbers that may be read

_EXACT = 2.0**-22  # of the width: a step of float32 that loses nothing of records without an offset

_AT_A_TIME = 2**18  # numbers in float64 at the same time


def step(kind: DTypeLike, at: End) -> np.ndarray:
    """Return how far apart two numbers of a type are near ``at``.

    Integers and objects are read as float64.

    >>> step(np.float32, 9e8).item(), step(np.int64, 9e8).item() < 1e-6
    (64.0, True)
    """
    kind = np.dtype(kind)
    epsilon = 2.0**-52
    if kind.kind in "fV":  # bfloat16 and its kin are of kind V
        epsilon = max(epsilon, float(np.spacing(np.ones((), kind))))
    _, power = np.frexp(np.abs(at))
    return np.asarray(np.ldexp(epsilon, power - 1))


def _size(lower: End, upper: End) -> tuple[np.ndarray, np.ndarray]:
    """Return the width between bounds, and the larger absolute bound."""
    low = np.asarray(lower, np.float64)
    high = np.asarray(upper, np.float64)
    largest = np.maximum(np.abs(low), np.abs(high))
    return np.asarray(high - low), np.asarray(largest)


def check_step(kind: DTypeLike, lower: End, upper: End, name: str = "x") -> None:
    """Refuse records of a type whose numbers are too far apart for their bounds.

    ``ValueError`` where a step at the larger bound is above 1e-3 of the width. float16 and bfloat16
    may have a step of 4 units in the last place of the width, since they were chosen for their
    size. The message names public bounds alone.

    >>> check_step(np.float64, 1e8, 1e8 + 10)
    >>> check_step(np.float32, 1e8, 1e8 + 10)
    Traceback (most recent call last):
    ValueError: x is float32, whose numbers near 1e+08 are 8 apart, and its bounds 10: give ...
    """
    width, most = map(np.ravel, _size(lower, upper))
    if not width.size:
        return
    apart = step(kind, most)
    share = apart / width
    worst = share.argmax()
    relative = step(kind, 1.0)
    host = ""
    if relative > step(np.float64, 1.0):
        host = "give float64 on the host, as NumPy has it before anything is rounded, or "
    require(
        not (share > max(_SHARE, 4 * relative)).any(),
        f"{name} is {np.dtype(kind)}, whose numbers near {most[worst]:g} are {apart[worst]:g} "
        f"apart, and its bounds {width[worst]:g}: {host}subtract a public offset "
        "from records and bounds first",
    )


def has_offset(lower: End, upper: End) -> bool:
    """Return whether bounds are so far from 0 that a cast to float32 moves records between them.

    >>> has_offset(0.0, 1e9), has_offset(1e8, 1e8 + 10)
    (False, True)
    """
    width, most = _size(lower, upper)
    return bool((step(np.float32, most) > _EXACT * width).any())


def scaled(
    values: np.ndarray, lower: End, upper: End, start: float = -1.0, stop: float = 1.0
) -> np.ndarray:
    """Map records [n, d] of the host from [lower, upper] to [start, stop]; float32.

    The bounds, of all columns or one a column, are taken off in float64, a few rows at a time; from
    float32 without an offset in float32. NaN goes to the centre, what is outside is clipped, and no
    result leaves [start, stop]. No floating-point flag is seen.

    >>> ages = np.array([[9e8 + 30], [9e8 + 90], [np.nan]])
    >>> scaled(ages, 9e8, 9e8 + 60, 0.0, 1.0).ravel().tolist()
    [0.5, 1.0, 0.5]
    """
    made = np.empty(values.shape, np.float32)
    rows = max(1, _AT_A_TIME // max(1, made[:1].size))
    narrow = values.dtype == np.float32 and not has_offset(lower, upper)
    kind = np.float32 if narrow else np.float64
    width, _ = _size(lower, upper)
    slope = np.asarray((stop - start) / width, kind)
    low = np.asarray(np.asarray(lower, np.float64), kind)
    with np.errstate(all="ignore"):
        for at in range(0, len(made), rows):
            part = np.array(values[at : at + rows], kind)
            part -= low
            part *= slope
            part += kind(start)
            part[np.isnan(part)] = (start + stop) / 2
            made[at : at + rows] = part
        return np.clip(made, np.float32(start), np.float32(stop), out=made)
