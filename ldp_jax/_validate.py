"""Checks of parameters: a ``ValueError`` on concrete values, silence on tracers.

Each check takes its argument by keyword, so that the message can name it: ``positive(epsilon=-1)`` says
"epsilon must be finite and > 0, got -1.0". Data are never checked here: a mechanism is total on data.
"""

from typing import Any

import jax
import numpy as np


def concrete(value: Any) -> bool:
    """Whether ``value`` is known now, rather than traced."""
    return not isinstance(value, jax.core.Tracer)


def _one(kwargs: dict[str, Any]) -> tuple[str, Any]:
    ((name, value),) = kwargs.items()
    return name, value


def _numbers(name: str, value: Any) -> np.ndarray:
    if isinstance(value, (bool, str, np.bool_)) or value is None:
        raise ValueError(f"{name} must be a number, got {value!r}")
    array = np.asarray(value)
    if not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array):
        raise ValueError(f"{name} must be a real number, got {value!r}")
    return array


def _refuse(name: str, array: np.ndarray, wanted: str) -> None:
    shown = array.item() if array.ndim == 0 else array
    raise ValueError(f"{name} must be {wanted}, got {shown}")


def positive(**kwargs: Any) -> None:
    """Refuse what is not finite and > 0."""
    name, value = _one(kwargs)
    if concrete(value):
        array = _numbers(name, value)
        if not (np.isfinite(array).all() and (array > 0).all()):
            _refuse(name, array, "finite and > 0")


def in_range(lower: float, upper: float, *, open_lower: bool = False, **kwargs: Any) -> None:
    """Refuse what is outside [lower, upper], or (lower, upper] with ``open_lower``."""
    name, value = _one(kwargs)
    if concrete(value):
        array = _numbers(name, value)
        above = array > lower if open_lower else array >= lower
        if not (above.all() and (array <= upper).all()):  # NaN fails both
            _refuse(name, array, f"in {'(' if open_lower else '['}{lower}, {upper}]")


def integer_in(lower: int, upper: int | None = None, **kwargs: Any) -> None:
    """Refuse what is not a whole number in [lower, upper]."""
    name, value = _one(kwargs)
    wanted = f"a whole number in [{lower}, {upper}]" if upper is not None else f"a whole number >= {lower}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"{name} must be {wanted}, got {value!r}")
    if value < lower or (upper is not None and value > upper):
        raise ValueError(f"{name} must be {wanted}, got {value}")


def first_fraction(values: np.ndarray, of: str) -> str:
    """Which of some values is the first that is no whole number, for the end of a message.

    >>> first_fraction(np.array([1.0, 0.5]), "graph")
    ': 0.5 for graph 1'
    """
    if values.ndim != 1 or not np.issubdtype(values.dtype, np.floating):
        return ""
    found = np.flatnonzero(~(values == np.floor(values)))
    return f": {values[found[0]]} for {of} {found[0]}" if len(found) else ""


def one_of(choices: tuple[str, ...], **kwargs: Any) -> None:
    """Refuse a name that is not among ``choices``; the message lists them."""
    name, value = _one(kwargs)
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")


def threefry(key: Any) -> None:
    """Refuse a key that is not a typed ``threefry2x32`` key.

    Under ``vmap`` the ``rbg`` generators draw every user's noise from the first user's key, which would void
    every guarantee of this library.
    """
    dtype = getattr(key, "dtype", None)
    if dtype is None or not jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        raise ValueError(f"key must be a typed key as jax.random.key(seed) makes it, got {type(key).__name__}")
    if str(jax.random.key_impl(key)) != "threefry2x32":
        raise ValueError(f"key must be a threefry2x32 key, got {jax.random.key_impl(key)}")
