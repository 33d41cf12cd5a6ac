"""Pictures of mechanisms. It needs matplotlib, imported on first use.

>>> from ldp_jax import features
>>> ax = variance({"Laplace": features.Laplace, "Duchi": features.Duchi}, [0.5, 1.0, 2.0])
>>> {line.get_label(): [f"{value:.2f}" for value in line.get_ydata()] for line in ax.lines}
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


def __dir__() -> list[str]:
    return __all__


Makers = Mapping[str, Callable[[float], Mechanism]]
"""Makers of a mechanism from an epsilon, such as its class, by the label of its curve."""

_RECORDS = 641
"""Records between the ends of a domain: 64 in each segment of the coarsest grid."""


def variance(mechanisms: Makers, epsilons: Sequence[float] | np.ndarray, *, ax: "Axes | None" = None) -> "Axes":
    """The largest variance of an estimate over records, a coordinate, against epsilon; on ``ax``, or on new axes.

    Raises:
      NotApplicable: for records that are neither numbers nor vectors, or moments without a closed form.
    """
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots(layout="constrained")[1]
    ax.set(xlabel="epsilon", ylabel="worst-case variance")
    ax.grid(alpha=0.25)
    for label, make in mechanisms.items():
        ax.plot(epsilons, [_variances(make(float(e))).max() for e in epsilons], label=label)
    ax.set(xscale="log", yscale="log")
    return ax


def _variances(mechanism: Mechanism) -> Float[np.ndarray, "..."]:
    """The variance at records from end to end of the domain."""
    space = mechanism.domain()
    if not isinstance(mechanism, HasMoments) or not isinstance(space, (Interval, Box)):
        raise NotApplicable(f"mechanism must have moments, on numbers or vectors, got {type(mechanism).__name__}")
    records = jnp.linspace(space.lower, space.upper, _RECORDS)
    if isinstance(space, Box):
        records = jnp.broadcast_to(records[:, None], (_RECORDS, space.dim))
    law = _variance_at if jax.tree_util.all_leaves([mechanism]) else _compiled  # a class that is no pytree
    return np.asarray(law(mechanism, records))


def _variance_at(mechanism: HasMoments, records: Array) -> Array:
    return jax.vmap(mechanism.variance)(records)


_compiled = jax.jit(_variance_at)  # one program for all budgets of a mechanism
