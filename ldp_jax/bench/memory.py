"""The most memory that a call takes, as the system counts it."""

import ctypes
import math
import re
from pathlib import Path

__all__ = ["begin", "risen"]

__dir__ = lambda: __all__

_OWN = Path("/proc/self")


def begin() -> float:
    """Bytes of memory that the process holds from now on, where :func:`risen` counts from.

    Memory that earlier calls have freed is given back first. NaN where the system does not tell:
    Linux alone does.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
        (_OWN / "clear_refs").write_text("5")  # the peak is the present from now on
    except (OSError, AttributeError, TypeError):
        return float("nan")
    return _kept("VmRSS")


def risen(start: float) -> float:
    """Bytes by which the process's memory has risen at most since :func:`begin`.

    Memory of compilers counts; arrays on an accelerator do not.
    """
    return start if math.isnan(start) else max(_kept("VmHWM") - start, 0.0)


def _kept(name: str) -> float:
    found = re.search(rf"{name}:\s+(\d+) kB", (_OWN / "status").read_text())
    return float("nan") if found is None else 1024.0 * int(found[1])
