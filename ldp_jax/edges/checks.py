"""The refusals that mechanisms on edges share; each names the argument and what to do."""

import jax

from ldp_jax.core import validate
from ldp_jax.core.types import Scalar


def budget_in(most: float, **kwargs: Scalar) -> None:
    """Refuse budgets outside (0, most]."""
    validate.positive(**kwargs)
    validate.in_range(0.0, most, open_lower=True, **kwargs)


def concrete(remedy: str, **kwargs: object) -> None:
    """Refuse traced arguments, on whose values the shapes or tables depend."""
    for name, value in kwargs.items():
        known = all(map(validate.concrete, jax.tree.leaves(value)))
        validate.require(known, f"{name} must be concrete: {remedy}")


def of_users(n: int, **kwargs: int) -> None:
    """Refuse arguments that are about another number of users."""
    for name, count in kwargs.items():
        validate.require(count == n, f"{name} must be of {n} users, got {count}")


def fits(pairs: float | int, memory: float, remedy: str, bytes_each: float = 16.0) -> None:
    """Refuse more pairs than ``memory`` bytes hold."""
    needed = bytes_each * pairs
    validate.require(
        needed <= memory,
        f"the pairs take {needed / 1e9:.3g} GB (memory allows {memory / 1e9:.3g}): {remedy}, "
        "or raise memory",
    )
