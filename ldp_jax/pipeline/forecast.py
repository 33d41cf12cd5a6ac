r"""Whether counts of neighbours will help, before anything is collected: from public facts alone.

A user of class c with d neighbours has about :math:`d h` of her own class more than of any other, h the homophily;
of these a share :math:`\rho` is counted in the right group, :math:`\rho` the reliability of the class that is
broadcast. Whole noise of :math:`\epsilon` has a standard deviation of about :math:`\sqrt 2 / \epsilon`. Their ratio
grows with

.. math:: z = \bar d \, h \, \rho \, \epsilon / 2.

After the pilot there is a better answer: the expected accuracy of :class:`~ldp_jax.pipeline.design.Design`.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ldp_jax.core import validate
from ldp_jax.core.types import Array

__all__ = ["LITTLE", "MUCH", "Forecast", "forecast", "homophily", "reliability"]


def __dir__() -> list[str]:
    return __all__


LITTLE, MUCH = 0.7, 1.3
"""Of z, for the verdict: rules of thumb, not bounds."""


class Forecast(NamedTuple):
    """What to expect; prints as a sentence.

    Attributes:
      z: signal over noise of a user's own class in her report.
      worth: ``little``, ``some`` or ``much``.
    """

    z: float
    worth: str

    def __str__(self) -> str:
        advice = {
            "little": "do not collect: features alone are about as good",
            "some": "run the pilot, and let its forecast decide",
            "much": "collect",
        }[self.worth]
        return f"z = {self.z:.2f}: counts will add {self.worth}; {advice}"


def forecast(mean_degree: float, homophily: float, reliability: float, epsilon: float) -> Forecast:
    """z and a verdict, from public facts or stated guesses.

    Args:
      mean_degree: neighbours of a user, > 0.
      homophily: share of neighbours that are of a user's own class, beyond chance, in [0, 1] (:func:`homophily`).
      reliability: how often the class that is broadcast for a neighbour is the right one, in [0, 1]
        (:func:`reliability`).
      epsilon: of a list's bit.

    >>> print(forecast(43.4, 0.19, 0.71, 1.0))
    z = 2.93: counts will add much; collect
    >>> print(forecast(2.7, 0.7, 0.68, 1.0))
    z = 0.64: counts will add little; do not collect: features alone are about as good
    """
    validate.number(0.0, open_lower=True, mean_degree=mean_degree)
    validate.number(0.0, 1.0, homophily=homophily)
    validate.number(0.0, 1.0, reliability=reliability)
    validate.number(0.0, open_lower=True, epsilon=epsilon)
    z = mean_degree * homophily * reliability * epsilon / 2
    return Forecast(z, "little" if z < LITTLE else "some" if z < MUCH else "much")


def reliability(log_q: Float[Array | np.ndarray, "n classes"], labels: Int[np.ndarray, " n"]) -> float:
    """How often the class that is broadcast for a user is right: always of a label, else as often as q expects.

    >>> reliability(np.log([[0.5, 0.5], [0.9, 0.1]]), np.array([0, -1]))
    0.95
    """
    labels = np.asarray(labels)
    sure = np.exp(np.asarray(log_q, np.float64)).max(-1)
    return float(np.where(labels >= 0, 1.0, sure).mean())


def homophily(pairs: Any, labels: Int[np.ndarray, " n"]) -> float:
    r"""How far friends are alike, beyond chance: :math:`(s - s_0) / (1 - s_0)`, at least 0.

    s is the share of pairs whose ends have one label, :math:`s_0` what random pairs of these ends would have.

    Args:
      pairs: int [pairs, 2], friendships that are public, such as those of labelled users who consent. (Of private
        ones the answer would cost what it tells.)
      labels: int [n]; pairs with an end that has none (-1) are left out.

    Raises:
      ValueError: for pairs of another shape (an ``edge_index`` is [2, pairs]: give its transpose), a node outside
        [0, n), or where no pair has labels at both ends.

    >>> homophily([[0, 1], [2, 3], [1, 2]], np.array([0, 0, 1, 1]))
    0.333...
    """
    labels, pairs = np.asarray(labels), np.asarray(pairs)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise ValueError(f"pairs must be integers of shape [pairs, 2], got {pairs.dtype} of shape {pairs.shape}")
    if len(pairs) and (pairs.min() < 0 or pairs.max() >= len(labels)):
        raise ValueError(f"pairs must join nodes in [0, {len(labels)}), got {pairs.min()} to {pairs.max()}")
    ends = labels[pairs]
    ends = ends[(ends >= 0).all(-1)]
    if not len(ends):
        raise ValueError("pairs must hold one of two labelled users, got none: state a guess of the homophily")
    share = np.bincount(ends.ravel()) / ends.size
    chance = float((share**2).sum())
    alike = float((ends[:, 0] == ends[:, 1]).mean())
    return max(0.0, (alike - chance) / (1.0 - chance)) if chance < 1.0 else 0.0
