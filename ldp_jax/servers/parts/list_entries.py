"""Entries of neighbour lists that some users made public."""

import numpy as np
from jaxtyping import Int

from ldp_jax.core import validate


def public_entries(
    n: int, members: Int[np.ndarray, " m"], **named: object
) -> Int[np.ndarray, "entries 2"]:
    """Check the entries of the public lists of ``members`` among n users; int64 [entries, 2].

    Each entry is a member, and who is in their list. ``ValueError`` for an entry of another user's
    list, which is private, for one that comes twice, and for users in their own list.

    >>> public_entries(3, np.array([0]), friends=[[1, 2]])
    Traceback (most recent call last):
    ValueError: friends must be of the lists of public users alone
    """
    ((name, _),) = named.items()
    entries = validate.pairs(n, "the users", **named)
    of_members = np.isin(entries[:, 0], members).all()
    validate.require(of_members, f"{name} must be of the lists of public users alone")
    once = len(np.unique(entries, axis=0)) == len(entries)
    rule = f"{name} must name each entry once, and nobody as their own friend"
    validate.require(once and (entries[:, 0] != entries[:, 1]).all(), rule)
    return entries
