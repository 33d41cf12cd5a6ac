"""Warner's randomised response on every bit of a neighbour list."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import validate
from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.types import Array, PRNGKey, Scalar
from ldp_jax.edges.lists import ListReport
from ldp_jax.edges.neighbour_lists import (
    REPORTINGS,
    ListMechanism,
    Reporting,
    check_bit_epsilon,
    concrete_budgets,
    flip_rate,
    per_bit,
)


@mechanism
class RandomizedResponse(ListMechanism):
    r"""Report each bit as it is with probability :math:`p = e^\epsilon/(e^\epsilon + 1)`, else flipped.

    Law: independent bits; no degree is sent.

    Guarantee: epsilon per bit of a list, attained; 2 epsilon per edge seen through both ends, epsilon where one end
    owns the pair (:meth:`relationship`).

    Utility: a true edge stays with probability p, but (n - 1)(1 - p) others join it: the reported graph is dense,
    (n - 1)(1 - p) edges a user, whatever the true one.

    Numerics: the flip is drawn, not the keep, from 64 bits: its probability is float32's, rounded up to a whole
    number of 2^-64. Budgets end at 40, where it is 78 of them.

    Reference: Warner, JASA 1965; Qin et al., CCS 2017.

    Args:
      epsilon: in (0, 40]; a number, or one a user for whole graphs.
      n: nodes of the graph, for one user's view.
      reporting: who reports a pair: see :func:`ldp_jax.edges.privatize_graph`.

    >>> m = RandomizedResponse(1.0)
    >>> m.guarantee().epsilon, m.relationship().epsilon
    (1.0, 2.0)
    """

    epsilon: Scalar
    n: int | None = static(default=None)
    reporting: Reporting = static(default="full")

    def _check(self) -> None:
        check_bit_epsilon(epsilon=self.epsilon)
        if self.n is not None:
            validate.integer_in(1, n=self.n)
        validate.one_of(REPORTINGS, reporting=self.reporting)

    def of_users(self, choose: Callable[[Scalar], Scalar]) -> "RandomizedResponse":
        """The same with ``choose`` applied to budgets that users have of their own."""
        return dataclasses.replace(self, epsilon=choose(self.epsilon))

    def rates(self, key: PRNGKey, degree: Any, owned: Any) -> tuple[None, Array, Array]:
        """No degree, p and 1 - p."""
        keep, add = self.bit_rates(None, owned)
        shape = jnp.shape(degree)
        return None, jnp.broadcast_to(keep, shape), jnp.broadcast_to(add, shape)

    def bit_rates(self, noisy: Any, owned: Any) -> tuple[Array, Array]:
        """p and 1 - p."""
        flip = flip_rate(self.epsilon)
        return 1 - flip, flip

    def drop_rate(self, noisy: Any, owned: Any) -> Array:
        """1 - p."""
        return flip_rate(self.epsilon)

    def degree_log_density(self, noisy: Any, degree: Any, owned: Any) -> Array:
        """0: no degree is sent."""
        return jnp.float32(0.0)

    def degrees(self, owned: int) -> None:
        """None: no degree is sent."""
        return None  # noqa: RET501 - an answer, not a missing body

    def degree_if_none(self, owned: Any) -> None:
        """None: no degree is sent."""
        return None  # noqa: RET501 - an answer, not a missing body

    def estimate(self, y: Any, own: Any = 0) -> Array:
        r"""The unbiased degree :math:`(\tilde d - (n - 1)(1 - p)) / (2p - 1)`, :math:`\tilde d` bits reported.

        In a half matrix it is that of the owned pairs, with their number in the place of n - 1.
        """
        flip = flip_rate(self.epsilon)
        scale = jnp.tanh(jnp.asarray(self.epsilon, flip.dtype) / 2)  # 2p - 1
        mine, _ = self._pairs(own)
        return (ListReport(*y).neighbours.count - mine.sum() * flip) / scale

    def guarantee(self) -> Guarantee:
        """epsilon per bit; the largest one where users have their own."""
        return per_bit(float(self.sums().max()), "each bit is flipped with probability 1/(e^eps + 1)")

    def sums(self) -> np.ndarray:
        """epsilon."""
        return concrete_budgets(self, self.epsilon)[0]
