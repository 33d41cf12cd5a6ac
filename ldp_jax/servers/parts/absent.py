r"""Classes that no public label names: all that is known of them is that they exist.

No model can learn such a class. The server renumbers the classes that labels teach, and asks and
learns as if there were no other. Its results have all C classes again. No report changes the
probability of an absent class. It is the prior, that of half a user among m labels:

.. math:: \pi = \frac{1 / 2}{m + a / 2}

for each of a absent classes and for every user, the panel's class shares as
:func:`~ldp_jax.servers.parts.panel.reported_shares` smooths them. A posterior from elsewhere takes
its place where one is given. The taught classes share the rest.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from ldp_jax.core.shown import by_shapes
from ldp_jax.servers.parts.panel import reported_shares

_NAMED = 8  # absent classes that words list


class Numbering(NamedTuple):
    """The classes that labels teach, among C; made by :meth:`of`.

    Attributes:
      taught: int [T], ascending.
      log_prior: float64 [C], natural logarithms of the shares of all classes.
    """

    taught: Int[np.ndarray, " taught"]
    log_prior: Float[np.ndarray, " classes"]

    __repr__ = by_shapes

    @classmethod
    def of(cls, labels: Int[np.ndarray, " n"], num_classes: int) -> "Numbering":
        """That of public labels in [0, C), -1 for none.

        >>> mine = Numbering.of(np.array([0, 0, 2, -1]), 3)
        >>> mine.absent, np.exp(mine.log_prior).round(3).tolist()
        ((1,), [0.571, 0.143, 0.286])
        """
        known = labels[labels >= 0]
        taught = np.flatnonzero(np.bincount(known, minlength=num_classes))
        return cls(taught, np.log(reported_shares(known, num_classes, 1.0)))

    @property
    def absent(self) -> tuple[int, ...]:
        """The other classes."""
        return tuple(np.setdiff1d(np.arange(len(self.log_prior)), self.taught).tolist())

    def renumbered(self, labels: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Labels as places among the taught classes, int32; -1 for none and for an absent class."""
        place = np.full(len(self.log_prior) + 1, -1, np.int32)  # the last is that of -1
        place[self.taught] = np.arange(len(self.taught))
        return place[labels]

    def spread(self, values: ArrayLike, other: float) -> np.ndarray:
        """Values [..., T] of the taught classes as values [..., C].

        ``other`` of an absent class.
        """
        values = np.asarray(values)
        found = np.full((*values.shape[:-1], len(self.log_prior)), other, values.dtype)
        found[..., self.taught] = values
        return found

    def posterior(self, log_p: ArrayLike, log_prior: ArrayLike | None = None) -> np.ndarray:
        """A log posterior [..., T] of the taught classes as one of all; float32 [..., C].

        Absent classes have what ``log_prior`` [..., C] gives, by default the shares of labels.
        The taught classes have the rest, in the proportions of ``log_p``.

        >>> mine = Numbering.of(np.array([0, 0, 2, -1]), 3)
        >>> np.exp(mine.posterior(np.log([0.25, 0.75])).astype(float)).round(3).tolist()
        [0.214, 0.143, 0.643]
        """
        log_p = np.asarray(log_p, np.float64)
        prior = np.asarray(self.log_prior if log_prior is None else log_prior, np.float64)
        shape = (*log_p.shape[:-1], len(self.log_prior))
        found = np.array(np.broadcast_to(prior, shape))
        rest = logsumexp(prior[..., self.taught], axis=-1, keepdims=True)
        found[..., self.taught] = log_p + rest
        return found.astype(np.float32)

    def evidence(
        self, log_likelihood: ArrayLike, log_q: ArrayLike
    ) -> Float[np.ndarray, "n classes"]:
        """Evidence [n, T] as evidence [n, C] that is neutral of absent classes; float32.

        A report is as likely from an absent class as from the taught ones under their posterior
        ``log_q`` [n, T].
        """
        given = np.asarray(log_likelihood, np.float64)
        marginal = logsumexp(given + np.asarray(log_q), axis=1, keepdims=True)
        found = np.tile(marginal, len(self.log_prior))
        found[:, self.taught] = given
        return found.astype(np.float32)


def absent_words(absent: tuple[int, ...]) -> str:
    """A clause for a ``repr``; empty where no class is absent.

    >>> absent_words((3, 5)), absent_words(())
    ('; no label of class 3, 5, whose posterior is the prior', '')
    """
    if not absent:
        return ""
    more = f" and {len(absent) - _NAMED} more" if len(absent) > _NAMED else ""
    named = ", ".join(map(str, absent[:_NAMED]))
    return f"; no label of class {named}{more}, whose posterior is the prior"
