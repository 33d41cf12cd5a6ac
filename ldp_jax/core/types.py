"""The names that every signature of the library is written in; ``help()`` prints them."""

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from jax import typing
from jaxtyping import Array, Key, Real, Shaped
from typing_extensions import TypeAliasType

PRNGKey = TypeAliasType("PRNGKey", Key[Array, ""])
"""One typed threefry key, as ``jax.random.key(seed)`` makes it."""

PRNGKeys = TypeAliasType("PRNGKeys", Key[Array, "..."])
"""A stack of keys, as ``jax.random.split(key, n)`` makes it."""

Scalar = TypeAliasType(
    "Scalar", float | int | Shaped[Array, "..."] | Shaped[np.ndarray, "..."] | np.number
)
"""A parameter of a mechanism: a number, a traced scalar, or a stack of them."""

Record = TypeAliasType(
    "Record", float | int | Real[Array, "..."] | Real[np.ndarray, "..."] | np.number
)
"""The data of one user: a number (most often in [-1, 1]), or a vector of them."""

ArrayLike = TypeAliasType("ArrayLike", typing.ArrayLike)
"""An array, or a number."""

Numbers = TypeAliasType("Numbers", npt.ArrayLike | tuple)
"""What NumPy makes an array of: an array, a number, a list or tuple of them, or a table."""

AnyArray: TypeAlias = Array | np.ndarray
"""An array of the device or of the host, also within jaxtyping's ``Float[AnyArray, "n d"]``."""

Values = TypeAliasType("Values", ArrayLike | Sequence[Any])
"""Numbers, records or reports, alone or stacked: an array, what becomes one, or a tuple of
arrays.
"""

R = TypeVar("R", bound=Values)
"""A record of one space, or a stack of them: the same tree with one more axis."""

Y = TypeVar("Y", bound=Values)
"""A report of one mechanism, or a stack of them."""

Report: TypeAlias = Any
"""The data that leave a user's device: an array, or a tuple of arrays."""

Graph: TypeAlias = Any
"""A ``jraph.GraphsTuple`` as :mod:`ldp_jax.graph.graphs` builds it (jraph is imported there
alone).
"""

__all__ = ["Array", "Graph", "PRNGKey", "PRNGKeys", "Record", "Report", "Scalar"]

__dir__ = lambda: __all__
