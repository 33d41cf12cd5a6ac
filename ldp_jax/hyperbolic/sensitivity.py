r"""PoinDP's hierarchy-aware sensitivities: what they are, local ones.

The paper calibrates noise to how much the radius, or the direction, of a node's Poincaré embedding may differ from
that of another node *of the embedding at hand*. These are local sensitivities: maxima over the data, which change
with the data. Noise in proportion to a local sensitivity has no differential-privacy guarantee, and its size is
itself a function of the private relation (the global sensitivities are the diameter of the ball, which is infinite,
and 1). They are here to be measured and compared, and for the mechanisms that are published without a guarantee.

>>> points = jnp.array([[0.0, 0.1], [0.5, 0.0], [0.0, -0.9]])
>>> round(float(inter_hierarchy(points)), 4), float(intra_hierarchy(points))
(2.7438, 1.0)
>>> [round(float(most), 2) for most in inter_hierarchy_of_nodes(points)]
[2.74, 1.85, 2.74]

Reference: PoinDP definitions 6 and 7.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float

from ldp_jax.core import validate
from ldp_jax.core.types import Array, Record, Scalar
from ldp_jax.hyperbolic import poincare
from ldp_jax.hyperbolic.numerics import length

__all__ = ["inter_hierarchy", "inter_hierarchy_of_nodes", "intra_hierarchy", "intra_hierarchy_of_nodes"]


def __dir__() -> list[str]:
    return __all__


def _rows(points: Any) -> Any:
    rows = jnp.asarray(points)
    if rows.ndim != 2 or len(rows) < 2:
        raise ValueError(f"points must be [n, dim] with n >= 2, got shape {rows.shape}")
    return rows


def inter_hierarchy_of_nodes(points: Record, c: Scalar = 1.0) -> Float[Array, " n"]:
    r"""Of each node, the most that its radius differs from another's: :math:`\max_v |r_u - r_v|`.

    Args:
      points: [n, dim], the embedding.
      c: magnitude of the curvature.

    Raises:
      ValueError: for fewer than two points, or points outside the ball where they are concrete.
    """
    radius = poincare.norm(_rows(points), c)
    return jnp.maximum(radius - radius.min(), radius.max() - radius)


def inter_hierarchy(points: Record, c: Scalar = 1.0) -> Float[Array, ""]:
    r"""The inter-hierarchy local sensitivity :math:`\max_{u, v} |r_u - r_v|`, r the Poincaré norm.

    Neighbouring subsets that differ in one node differ in the radius of one: any of the embedding for any other.

    Raises:
      ValueError: as :func:`inter_hierarchy_of_nodes`.

    Reference: PoinDP eq. 8.
    """
    return inter_hierarchy_of_nodes(points, c).max()


def intra_hierarchy_of_nodes(points: Record, *, chunk: int = 1024) -> Float[Array, " n"]:
    r"""Of each node, the largest :math:`|\langle e_u, e_v \rangle| / (|e_u| |e_v|)` with another node v.

    Time is n^2; memory is ``chunk`` times n.

    Args:
      points: [n, dim], the embedding. At the origin there is no direction: 0.
      chunk: nodes at once.

    Raises:
      ValueError: for fewer than two points, or chunk < 1.
    """
    validate.whole(1, chunk=chunk)
    rows = _rows(points)
    size = length(rows)
    unit = rows / jnp.where(size > 0, size, 1.0)
    n = len(unit)
    chunk = min(chunk, n)
    starts = jnp.arange(-(-n // chunk)) * chunk

    def part(start: Array) -> Array:
        which = jnp.minimum(start + jnp.arange(chunk), n - 1)
        cosine = jnp.abs(unit[which] @ unit.T)
        return jnp.where(which[:, None] == jnp.arange(n), 0.0, cosine).max(1)

    return jnp.minimum(jax.lax.map(part, starts).reshape(-1)[:n], 1.0)


def intra_hierarchy(points: Record, *, chunk: int = 1024) -> Float[Array, ""]:
    r"""The intra-hierarchy local sensitivity :math:`\max_{u \ne v} |\alpha(u, v)|`.

    The paper's "angle" alpha is a cosine (eq. 9). The norm that it writes round it is read as the absolute value;
    read as its own Poincaré norm, 2 artanh, it would grow with this and be infinite where two nodes lie in one
    direction.

    Args:
      points: as :func:`intra_hierarchy_of_nodes`.
      chunk: as :func:`intra_hierarchy_of_nodes`.

    Raises:
      ValueError: as :func:`intra_hierarchy_of_nodes`.

    Reference: PoinDP eq. 9 and 10.
    """
    return intra_hierarchy_of_nodes(points, chunk=chunk).max()
