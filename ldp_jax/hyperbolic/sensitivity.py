"""PoinDP's hierarchy-aware sensitivities, which are local.

To be measured, and for mechanisms without a guarantee.

The sensitivity of an embedding is the largest of its nodes'. Noise in proportion to it has no
guarantee, and its size is a function of the private relation; the global sensitivities are
infinite, and 1.
Reference: PoinDP definitions 6 and 7.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Float

from ldp_jax.core import validate
from ldp_jax.core.float32 import matmul
from ldp_jax.core.types import Array, Record, Scalar
from ldp_jax.hyperbolic import poincare
from ldp_jax.hyperbolic.numerics import length


def _rows(points: Record) -> Array:
    rows = jnp.asarray(points)
    validate.shaped("n", "dim", points=rows)
    validate.whole(2, **{"the number of points": len(rows)})
    return rows


def inter_hierarchy_of_nodes(points: Record, c: Scalar = 1.0) -> Float[Array, " n"]:
    """For each node, the largest :math:`|r_u - r_v|`, r the Poincaré norm (PoinDP eq. 8)."""
    radius = poincare.norm(_rows(points), c)
    return jnp.maximum(radius - radius.min(), radius.max() - radius)


def intra_hierarchy_of_nodes(points: Record, *, chunk: int = 1024) -> Float[Array, " n"]:
    r"""For each node, the largest size of a cosine with another one (PoinDP eq. 9, 10).

    It is :math:`|\langle e_u, e_v \rangle| / (|e_u| |e_v|)`, the norm round the "angle" read as its
    size; 0 of the origin. Memory is ``chunk`` times n.
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
        cosine = jnp.abs(matmul(unit[which], unit.T))
        itself = which[:, None] == jnp.arange(n)
        return jnp.where(itself, 0.0, cosine).max(1)

    return jnp.minimum(jax.lax.map(part, starts).reshape(-1)[:n], 1.0)
