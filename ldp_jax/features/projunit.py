"""ProjUnit: a public projection to few dimensions, reported under one budget."""

import dataclasses

import jax  # noqa: F401 - the examples below
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import random, validate
from ldp_jax.core.float32 import einsum, matmul
from ldp_jax.core.mechanism import check_single, mechanism, one_record, static
from ldp_jax.core.spaces import Ball, Turned, as_records
from ldp_jax.core.spaces.spheres import polar
from ldp_jax.core.types import AnyArray, Array, PRNGKey, Record, Report, Scalar
from ldp_jax.features.privunit import PrivUnitG


@mechanism
class ProjUnit:
    r"""Project the record to k dimensions by a public matrix, and report by :class:`PrivUnitG`.

    Law: that of ``PrivUnitG(epsilon, k, radius)`` on :math:`P x`, P the ``projection``, shortened
    to ``radius``.
    Guarantee: epsilon per record: the projection is public and the same for all users.
    Utility: the estimate is :math:`P^\top \hat z`, with :math:`\hat z` the estimate of :math:`P x`.
    Its mean is :math:`P^\top P x` where P x is not shortened, and x on average over
    :func:`random_projection`. Its error is that of k dimensions and of the part that P leaves out.
    Numerics: as :class:`PrivUnitG`; P x in float32.
    Reference: Asi et al., NeurIPS 2023 (private mean estimation via random projections; here one
    for all users).

    Epsilon is one number in (0, 44]; ``projection`` [k, d] is public, k >= 2.

    >>> m = ProjUnit(2.0, random_projection(jax.random.key(0), dim=100, k=8))
    >>> m.privatize(jax.random.key(1), jnp.ones(100)).shape, m.guarantee().epsilon
    ((8,), 2.0)
    """

    epsilon: Scalar
    projection: AnyArray
    radius: float = static(default=1.0)
    inner: PyTree = dataclasses.field(init=False, repr=False, default=None)

    def _check(self) -> None:
        shape = np.shape(self.projection)
        validate.require(
            not np.ndim(self.epsilon),
            f"epsilon must be one number, got shape {np.shape(self.epsilon)}",
        )
        validate.require(
            len(shape) == 2 and 2 <= shape[0] <= shape[1],
            f"projection must be [k, d] with 2 <= k <= d, got shape {shape}",
        )
        validate.require(
            not validate.concrete(self.projection) or np.isfinite(self.projection).all(),
            "projection must be finite",
        )
        object.__setattr__(self, "inner", PrivUnitG(self.epsilon, shape[0], self.radius))

    @property
    def dim(self) -> int:
        """d, the length of a record."""
        return self.projection.shape[-1]

    def _projected(self, x: Record) -> Array:
        length, u = polar(x, self.radius)
        return self.radius * length * matmul(jnp.asarray(self.projection, u.dtype), u)

    def privatize(self, key: PRNGKey, x: Record) -> Array:
        """The report [k] of one record [d]."""
        check_single(self)
        return self.inner.privatize(key, self._projected(one_record(x, self.dim)))

    def log_density(self, y: Report, x: Record) -> Array:
        """log p(y | x)."""
        x = as_records(x)
        y = jnp.asarray(y)
        return self.inner.log_density(y, self._projected(x.astype(jnp.result_type(x, y))))

    def domain(self) -> Ball:
        """Vectors of length at most ``radius``.

        Longer ones are shortened, NaN coordinates are 0.
        """
        return Ball(self.dim, self.radius)

    def codomain(self) -> Turned:
        """Vectors of k numbers."""
        return dataclasses.replace(self.inner.codomain(), projection=self.projection)

    def guarantee(self) -> Guarantee:
        """That of the inner mechanism."""
        inner = self.inner.guarantee()
        return dataclasses.replace(inner, reason=f"the projection is public; {inner.reason}")

    def estimate(self, y: Report) -> Array:
        """P^T of the inner estimate."""
        return matmul(jnp.asarray(self.projection).T, self.inner.estimate(y))

    def mean(self, x: Record) -> Array:
        """P^T P x, with P x shortened to the radius."""
        z = self.inner.mean(self._projected(x))
        return matmul(jnp.asarray(self.projection, z.dtype).T, z)

    def variance(self, x: Record) -> Array:
        """Variance of the estimate of each coordinate."""
        projected = self._projected(x)
        p = jnp.asarray(self.projection, projected.dtype)
        return einsum("kd,kl,ld->d", p, self.inner.covariance(projected), p)

    def stack_shape(self) -> tuple[int, ...]:
        """The shape of epsilon: the projection is a matrix, not a stack."""
        return jnp.shape(self.epsilon)


def random_projection(key: PRNGKey, dim: int, k: int) -> Array:
    """A random matrix P [k, dim] to publish, k in [2, dim].

    Orthogonal rows of length sqrt(dim / k), E[P^T P] = I.

    >>> p = random_projection(jax.random.key(0), dim=12, k=3)
    >>> bool(jnp.allclose(p @ p.T, 4 * jnp.eye(3), atol=1e-4))
    True
    """
    validate.threefry(key)
    validate.integer_in(2, dim=dim)
    validate.integer_in(2, dim, k=k)
    rows, _ = jnp.linalg.qr(random.normal(key, (dim, k)))
    return jnp.sqrt(dim / k) * rows.T
