"""The largest privacy loss of a mechanism, in float64 over the critical points that it declares.

The densities of this library are piecewise smooth in the report and monotone between the breaks that the codomain
declares, and their extremes over records lie at the ends or the centre of the domain. So the supremum of
log p(y | x) - log p(y | x') is a maximum over finitely many points, up to the two sides of each break; a random
search over records and reports cross-checks that nothing larger was missed.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax import _validate
from ldp_jax.features import Sampled
from ldp_jax.mechanism import Finite, Interval, privacy_loss

_SEARCH = 4096
"""Random pairs of records in the cross-check."""


class Supremum(NamedTuple):
    """The largest privacy loss found, and where.

    Attributes:
      epsilon: the loss; ``inf`` where one record makes possible what another makes impossible.
      x: the record in the numerator.
      x_other: the record in the denominator.
      y: the report.
      searched: the largest loss of the random search alone.
    """

    epsilon: float
    x: float
    x_other: float
    y: float
    searched: float


def privacy_loss_supremum(mechanism: Any) -> Supremum:
    """The supremum of log p(y | x) - log p(y | x') over records x, x' and reports y.

    Reports that are impossible under every record are skipped; one that is possible under some records alone makes
    the supremum infinite. It is the law that is asked, ``log_density``; whether the sampler follows it is another
    question. For :class:`Sampled` the choice of coordinates is independent of the record and the
    values are independent given it, so the supremum is k times the inner one; the witness is the inner mechanism's.

    Args:
      mechanism: with a density, on numbers in [-1, 1], or a :class:`Sampled` of such; epsilon one number.

    Raises:
      ValueError: for a mechanism without a density, or whose epsilon is a stack or traced.

    >>> from ldp_jax.features import HDS, Duchi
    >>> round(privacy_loss_supremum(Duchi(1.0)).epsilon, 12)
    1.0
    >>> round(privacy_loss_supremum(HDS(2.0, dim=100, k=7)).epsilon, 12)
    2.0
    """
    if isinstance(mechanism, Sampled):
        inner = privacy_loss_supremum(mechanism.inner)
        return inner._replace(epsilon=mechanism.k * inner.epsilon, searched=mechanism.k * inner.searched)
    leaves = jax.tree.leaves(mechanism)
    if not all(_validate.concrete(leaf) and np.ndim(leaf) == 0 for leaf in leaves):
        raise ValueError(
            "mechanism must have one concrete number for each parameter: take one of a stack at a time"
        )
    codomain = mechanism.codomain()
    if not isinstance(codomain, (Interval, Finite)):
        raise ValueError(f"mechanism must report a number, got codomain {type(codomain).__name__}")
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: jnp.float64(leaf), mechanism)
        records = jnp.linspace(-1.0, 1.0, 9)
        if isinstance(codomain, Finite):
            reports = jnp.asarray(codomain.values, jnp.float64)
        else:
            reports = _critical_reports(wide, records)
        x, other, y = (axis.ravel() for axis in jnp.meshgrid(records, records, reports, indexing="ij"))
        losses = privacy_loss(wide, y, x, other)
        best = int(jnp.argmax(losses))
        declared = Supremum(float(losses[best]), float(x[best]), float(other[best]), float(y[best]), 0.0)
        searched = _random_search(wide, reports, isinstance(codomain, Finite))
        larger = searched if searched.epsilon > declared.epsilon else declared
        return larger._replace(searched=searched.epsilon)


def _ends(codomain: Any, breaks: Any) -> tuple[Any, Any]:
    """The codomain's ends; a point well beyond the outermost break where there is none."""
    far = 1.0 + 2.0 * jnp.abs(breaks).max()
    lower, upper = jnp.asarray(codomain.lower), jnp.asarray(codomain.upper)
    return jnp.where(jnp.isinf(lower), -far, lower), jnp.where(jnp.isinf(upper), far, upper)


def _critical_reports(mechanism: Any, records: Any) -> Any:
    """Both sides of every break of every record, the ends, and a point between any two neighbours of these."""
    codomain = mechanism.codomain()
    breaks = jnp.concatenate([jnp.ravel(codomain.breaks(x)) for x in records]) if codomain.breaks else records
    lower, upper = _ends(codomain, breaks)
    nudge = 1e-12 * jnp.maximum(1.0, jnp.abs(breaks))
    points = jnp.concatenate([breaks - nudge, breaks, breaks + nudge, lower[None], upper[None]])
    points = jnp.unique(jnp.clip(points, lower, upper))
    return jnp.concatenate([points, (points[1:] + points[:-1]) / 2])


def _random_search(mechanism: Any, reports: Any, finite: bool) -> Supremum:
    """The largest loss over random pairs of records, at uniform reports and at reports drawn from one of them."""
    rng = np.random.default_rng(0)  # no privacy depends on it
    x, other = jnp.asarray(rng.uniform(-1.0, 1.0, (2, _SEARCH)))
    if finite:
        y = jnp.asarray(rng.choice(np.asarray(reports), _SEARCH))
    else:
        anywhere = jnp.asarray(rng.uniform(float(reports.min()), float(reports.max()), _SEARCH))
        drawn = mechanism.from_uniform(jnp.asarray(rng.uniform(0.0, 1.0, _SEARCH)), x)
        y, x, other = jnp.concatenate([anywhere, drawn]), jnp.tile(x, 2), jnp.tile(other, 2)
    losses = privacy_loss(mechanism, y, x, other)
    best = int(jnp.argmax(losses))
    loss = float(losses[best])
    return Supremum(loss, float(x[best]), float(other[best]), float(y[best]), loss)
