"""Mechanisms on tangent vectors, and parameters beside the budget.

One number each, in every place of a stack.
"""

import abc

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from ldp_jax.core import validate
from ldp_jax.core.mechanism import check_epsilon, check_single, one_record
from ldp_jax.core.pytree import mechanism
from ldp_jax.core.spaces import Ball, Vectors
from ldp_jax.core.types import Array, PRNGKey, Record, Report, Scalar
from ldp_jax.hyperbolic import poincare

_SHORTEST = 1e-30  # clip: noise far below is 0 in float32, and the report the record


def one(**kwargs: Scalar) -> float:
    """The one concrete number that a parameter is, also in the shape of a stack."""
    ((name, value),) = kwargs.items()
    validate.require(
        validate.concrete(value), f"{name} must be concrete here; ask outside jit, vmap and grad"
    )
    array = np.asarray(value)
    one_number = array.dtype.kind in "iuf" and array.size and (array == array.flat[0]).all()
    validate.require(one_number, f"{name} must be one number", value)
    return float(array.flat[0])


def spread(made: PyTree, *names: str) -> None:
    """Give parameters of a new mechanism the shape of its stack of budgets.

    ``vmap`` maps them all.
    """
    shape = np.shape(made.epsilon)
    for name in names:
        value = getattr(made, name)
        if shape and np.shape(value) != shape:
            object.__setattr__(made, name, jnp.broadcast_to(jnp.asarray(value, jnp.float32), shape))


@mechanism
class Tangent(abc.ABC):
    """A mechanism on tangent vectors of length at most ``clip`` at the origin; abstract."""

    epsilon: Scalar

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """The dimension of the vectors."""

    @property
    @abc.abstractmethod
    def clip(self) -> Scalar:
        """C, the largest length."""

    @property
    @abc.abstractmethod
    def c(self) -> Scalar:
        """The magnitude of the curvature."""

    @property
    def _most(self) -> float:
        """C, as records are clipped."""
        return one(clip=self.clip)

    def _check(self) -> None:
        check_epsilon(self.epsilon)
        validate.integer_in(1, dim=self.dim)
        validate.number(_SHORTEST, clip=one(clip=self.clip))
        validate.number(0.0, open_lower=True, c=one(c=self.c))

    @abc.abstractmethod
    def _report(self, key: PRNGKey, x: Array) -> Array:
        """The report of one vector."""

    def privatize(self, key: PRNGKey, x: Record) -> Float[Array, " sent"]:
        """The report of one tangent vector [dim]."""
        validate.threefry(key)
        check_single(self)
        return self._report(key, one_record(x, self.dim))

    def domain(self) -> Ball:
        """Tangent vectors of length at most ``clip``; longer ones are shortened, NaN is 0."""
        return Ball(self.dim, self._most if validate.concrete(self.clip) else self.clip)

    def codomain(self) -> Vectors:
        """Tangent vectors of any length."""
        return Vectors(self.dim)

    def estimate(self, y: Report) -> Float[Array, "*batch dim"]:
        """The point of the ball of a report; post-processing."""
        return poincare.exp_0(jnp.asarray(y), self.c)
