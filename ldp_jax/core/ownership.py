"""Public rules that name the one user who reports a pair. No JAX: devices ask them too."""

from typing import Any, NamedTuple

import numpy as np

from ldp_jax.core.list_ids import host_ids
from ldp_jax.core.validate import complete, mask, numbers, require, whole


class Ownership(NamedTuple):
    """A public order of users.

    The earlier one of a pair reports it, and nobody does where both are silent.

    ``order`` is float64 [n], where the parity of the ids decides between equals; ``silent`` bool
    [n].
    """

    order: np.ndarray
    silent: np.ndarray

    def owns(self, user: object, other: object) -> np.ndarray:
        """Whether the pair is the user's to report; elementwise, and for one of the two at most."""
        return self.names(complete(user=user), complete(other=other))

    def names(self, user: Any, other: Any) -> Any:
        """The same of arrays of whole numbers, which may be traced as the order is."""
        mine = self.order[user]
        theirs = self.order[other]
        by_parity = (other > user) == ((user + other) % 2 == 0)
        earlier = (mine < theirs) | ((mine == theirs) & by_parity)
        return ~self.silent[user] & (self.silent[other] | earlier) & (user != other)

    def owned(self, user: int, neighbours: object) -> np.ndarray:
        """The neighbours whose pair with ``user`` is the user's to report; int32.

        Anything but an id is dropped. ``ValueError`` for a user outside [0, n).

        >>> public = ownership([0.9, 0.2, 0.5], silent=[True, False, False])
        >>> public.owned(1, [0, 2, 7, -1, None]).tolist()
        [0, 2]
        """
        n = len(self.order)
        user = whole(0, n - 1, user=user)
        ids = host_ids(neighbours, n)
        ids = ids[ids < n]
        return ids[self.owns(user, ids)]

    def __repr__(self) -> str:
        return f"Ownership({len(self.order)} users, {int(self.silent.sum())} of them silent)"


def ownership(confidence: object, silent: object = None) -> Ownership:
    """Name one owner of each pair, so that a relationship costs as much as a bit of a list.

    A user reports all pairs with silent users; of two who report, the one with the smaller
    ``confidence`` does, and of equals the one whom the parity of the two numbers names, so that
    each owns about half. Both are public: a number of each user [n], such as a public model's
    largest probability, and who reports nothing, bool [n]. Counts of owned pairs tell of whatever
    the order depends on.

    >>> public = ownership([0.9, 0.2, 0.5], silent=[True, False, False])
    >>> public.owns([1, 0, 1, 2], [0, 1, 2, 1]).tolist()
    [True, False, True, False]
    """
    order = numbers(confidence=confidence)
    require(
        order.ndim == 1 and np.isfinite(order).all(), "confidence must be finite numbers [n]", order
    )
    quiet = mask(len(order), False, silent=silent)
    require(not len(quiet) or not quiet.all(), "silent must leave somebody who reports")
    return Ownership(order, quiet)
