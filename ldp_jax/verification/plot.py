"""Pictures of mechanisms.

The error of their estimates, the law of their reports, and their privacy loss.

A function draws on ``ax``, or on new axes, and returns the axes. It needs matplotlib, imported on
first use.

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

from ldp_jax.core.mechanism import HasDensity, HasMoments, Mechanism
from ldp_jax.core.spaces import Box, Interval, NotApplicable
from ldp_jax.core.types import Array, Values
from ldp_jax.verification.exact import privacy_loss_supremum

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["density", "privacy_utility", "variance"]

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
    ax = _axes(ax, "epsilon", "worst-case variance")
    for label, make in mechanisms.items():
        ax.plot(epsilons, [_moments(make(float(e)))[1].max() for e in epsilons], label=label)
    ax.set(xscale="log", yscale="log")
    return ax


def privacy_utility(
    mechanisms: Makers, epsilons: Sequence[float] | np.ndarray, *, ax: "Axes | None" = None
) -> "Axes":
    """The largest root mean squared error of an estimate, against the exact loss.

    ``NotApplicable``: see :func:`variance`; and where the density of reports is not known.
    """
    ax = _axes(ax, "largest privacy loss", "worst-case root mean squared error")
    for label, make in mechanisms.items():
        made = [make(float(e)) for e in epsilons]
        errors = [float(np.sqrt(np.add(*_moments(m)).max())) for m in made]
        ax.plot([privacy_loss_supremum(m).epsilon for m in made], errors, label=label, marker=".")
    ax.set(xscale="log", yscale="log")
    return ax


def density(
    mechanism: Mechanism,
    records: Sequence[float] | np.ndarray | None = None,
    *,
    ax: "Axes | None" = None,
) -> "Axes":
    """The law of a report of one number about some records.

    By default both ends of the domain and one between.

    ``NotApplicable`` for a mechanism without a density, or reports that are not numbers.
    """
    space = mechanism.codomain()
    if not isinstance(mechanism, HasDensity):
        raise NotApplicable(
            f"mechanism must have a log_density, and {type(mechanism).__name__} has none"
        )
    if records is None:
        records = [*mechanism.domain().extremes(), mechanism.domain().typical()]
    finite = not isinstance(space, Interval)
    reports = (
        np.asarray(space.members())
        if finite and hasattr(space, "members")
        else _reports(mechanism, space)
    )
    if reports.ndim != 1:
        raise NotApplicable(f"reports must be numbers, and are of {space}")
    ax = _axes(ax, "report", "probability" if finite else "density")
    law: Callable = jax.jit(jax.vmap(mechanism.log_density, (0, None)))
    for record in records:
        at = _with_breaks(reports, space, record) if isinstance(space, Interval) else reports
        mass = np.exp(np.asarray(law(jnp.asarray(at), jnp.asarray(record))))
        ax.plot(at, mass, "o:" if finite else "-", label=f"record {float(record):.3g}")
    return ax


def _reports(mechanism: Mechanism, space: object) -> Float[np.ndarray, " points"]:
    """Where a density is drawn.

    All of a bounded codomain, else eight standard deviations beyond the domain.
    """
    if not isinstance(space, Interval):
        raise NotApplicable(f"reports must be numbers, and are of {space}")
    low = float(space.lower)
    high = float(space.upper)
    if not np.isfinite([low, high]).all():
        ends = np.asarray(mechanism.domain().extremes(), float)
        beyond = 8 * float(np.sqrt(_moments(mechanism)[1].max()))
        low = max(low, ends.min() - beyond)
        high = min(high, ends.max() + beyond)
    return np.linspace(low, high, _RECORDS)


def _with_breaks(
    reports: np.ndarray, space: Interval, record: Values
) -> Float[np.ndarray, " points"]:
    """Points on both sides of the density's jumps about a record, and between them."""
    if space.breaks is None:
        return reports
    breaks = np.asarray(space.breaks(jnp.asarray(record)), np.float32).ravel()
    sides = np.concatenate([np.nextafter(breaks, np.float32(side)) for side in (-np.inf, np.inf)])
    return np.unique(
        np.concatenate([reports, np.clip(sides, reports[0], reports[-1])]).astype(np.float32)
    )


def _moments(mechanism: Mechanism) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    """The squared bias and the variance at records from end to end of the domain."""
    space = mechanism.domain()
    if not isinstance(mechanism, HasMoments) or not isinstance(space, (Interval, Box)):
        raise NotApplicable(
            f"mechanism must have moments, on numbers or vectors, got {type(mechanism).__name__}"
        )
    records = jnp.linspace(space.lower, space.upper, _RECORDS)
    if isinstance(space, Box):
        records = jnp.broadcast_to(records[:, None], (_RECORDS, space.dim))
    both = (
        _both_of if jax.tree_util.all_leaves([mechanism]) else _compiled
    )  # a class that is no pytree
    mean, spread = both(mechanism, records)
    return np.square(np.asarray(mean) - np.asarray(records)), np.asarray(spread)


def _both_of(mechanism: HasMoments, records: Array) -> tuple[Array, Array]:
    return jax.vmap(mechanism.mean)(records), jax.vmap(mechanism.variance)(records)


_compiled = jax.jit(_both_of)  # one program for all budgets of a mechanism


def _axes(ax: "Axes | None", across: str, up: str) -> "Axes":
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots(layout="constrained")[1]
    ax.set(xlabel=across, ylabel=up)
    ax.grid(alpha=0.25)
    return ax
