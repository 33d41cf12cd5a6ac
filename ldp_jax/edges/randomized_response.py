"""Warner's randomised response on every bit of a neighbour list."""

from typing import ClassVar

import jax.numpy as jnp

from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.types import Array, Scalar
from ldp_jax.edges.lists import ListReport
from ldp_jax.edges.neighbour_lists import (
    MAX_BIT_EPSILON,
    ListMechanism,
    Reporting,
    flip_rate,
    pairs_of,
)


@mechanism
class RandomizedResponse(ListMechanism):
    r"""Report each bit, flipped with probability :math:`1 - p`.

    Law: independent bits, :math:`p = e^\epsilon/(e^\epsilon + 1)`; no degree is sent.
    Guarantee: epsilon per bit of a list, attained; 2 epsilon per edge, epsilon where one end owns
    the pair.
    Utility: a true edge stays with probability p, but (n - 1)(1 - p) others join it: the reported
    graph is dense.
    Numerics: the flip is drawn, not the keep: its float32 probability is rounded up to a whole
    number of 2^-64.
    Reference: Warner, JASA 1965; Qin et al., CCS 2017.

    Epsilon is in (0, 40]; a number, or one a user for whole graphs.

    >>> m = RandomizedResponse(1.0)
    >>> m.guarantee().epsilon, m.relationship().epsilon
    (1.0, 2.0)
    """

    epsilon: Scalar
    n: int | None = static(default=None)
    reporting: Reporting = static(default="full")

    budgets: ClassVar[dict[str, float]] = {"epsilon": MAX_BIT_EPSILON}

    def bit_rates(self, noisy: Scalar | None, owned: Scalar) -> tuple[Array, Array, Array]:
        """p, 1 - p and 1 - p."""
        flip = flip_rate(self.epsilon)
        return 1 - flip, flip, flip

    def estimate(self, y: ListReport, own: Scalar = 0) -> Array:
        r"""The unbiased degree :math:`(y - (n - 1)(1 - p)) / (2p - 1)` from y reported neighbours.

        In a half matrix it is that of the owned pairs, with their number in the place of n - 1.
        """
        flip = flip_rate(self.epsilon)
        scale = jnp.tanh(jnp.asarray(self.epsilon, flip.dtype) / 2)  # 2p - 1
        mine, _ = pairs_of(own, self._size(), self.reporting)
        sent = jnp.asarray(ListReport(*y).neighbours.count, flip.dtype)
        return (sent - mine.sum(dtype=flip.dtype) * flip) / scale

    def _ends(self, reporting: Reporting) -> tuple[float, ...]:
        """The owner's alone but in ``full``: no degree is sent."""
        return super()._ends("full" if reporting == "full" else "half")

    def proof(self) -> str:
        """Randomised response on one bit."""
        return "each bit is flipped with probability 1/(e^eps + 1)"
