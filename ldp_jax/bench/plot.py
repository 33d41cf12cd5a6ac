"""A picture of mechanisms: the error of their estimates.

It draws on ``ax``, or on new axes, and returns the axes. It needs matplotlib, imported on first
use.

>>> from ldp_jax import features
>>> ax = variance(
...     {"Laplace": features.Laplace, "Duchi": features.Duchi}, [0.5, 1.0, 2.0]
... )
>>> {
...     line.get_label(): [f"{value:.2f}" for value in line.get_ydata()]
...     for line in ax.lines
... }
{'Laplace': ['32.00', '8.00', '2.00'], 'Duchi': ['16.67', '4.68', '1.72']}
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ldp_jax.core.mechanism import HasMoments, Mechanism
from ldp_jax.core.spaces import Box, Interval, NotApplicable
from ldp_jax.core.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["variance"]

__dir__ = lambda: __all__

Makers = Mapping[str, Callable[[float], Mechanism]]
"""Makers of a mechanism from an epsilon, such as its class, by the label of its curve."""

_RECORDS = 641  # records between the ends of a domain: 64 in each segment of the coarsest grid


def variance(
    mechanisms: Makers, epsilons: Sequence[float] | np.ndarray, *, ax: "Axes | None" = None
) -> "Axes":
    """The largest variance of an estimate over records, a coordinate, against epsilon.

    ``NotApplicable`` for records that are neither numbers nor vectors, or moments without a closed
    form.
    """
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots(layout="constrained")[1]
    for label, make in mechanisms.items():
        ax.plot(epsilons, [_variances(make(float(e))).max() for e in epsilons], label=label)
    ax.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="worst-case variance")
    ax.grid(alpha=0.25)
    return ax


def _variances(mechanism: Mechanism) -> Float[np.ndarray, "..."]:
    """The variance at records from end to end of the domain."""
    space = mechanism.domain()
    if not isinstance(mechanism, HasMoments) or not isinstance(space, (Interval, Box)):
        raise NotApplicable(
            f"mechanism must have moments, on numbers or vectors, got {type(mechanism).__name__}"
        )
    records = jnp.linspace(space.lower, space.upper, _RECORDS)
    if isinstance(space, Box):
        records = jnp.broadcast_to(records[:, None], (_RECORDS, space.dim))
    # A class that is no pytree, and one program for all budgets of a mechanism.
    plain = jax.tree_util.all_leaves([mechanism])
    return np.asarray((_at_each if plain else _compiled)(mechanism, records))


def _at_each(mechanism: HasMoments, records: Array) -> Array:
    return jax.vmap(mechanism.variance)(records)


_compiled = jax.jit(_at_each)
