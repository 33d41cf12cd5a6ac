"""A mechanism or a model at a budget, from what users name."""

import inspect
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from ldp_jax import edges, features
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RECORD, Guarantee, Unit, compares_all
from ldp_jax.bench.classes import OfOneHot
from ldp_jax.core.mechanism import Mechanism, require_protocol
from ldp_jax.core.rounding import share
from ldp_jax.core.spaces import Box, Finite, Interval
from ldp_jax.learning.models import Model, as_model

_EACH = 2.5  # of epsilon that is spent on each coordinate, as the papers have it
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def called(make: Callable[..., Any], epsilon: float, **facts: Any) -> Any:
    """Call ``make`` with epsilon and with the facts whose names it takes.

    >>> called(lambda e, dim=1: (e, dim), 2.0, dim=3, facts=None)
    (2.0, 3)
    """
    taken = inspect.signature(make).parameters
    given = wanted(make, facts)
    if "epsilon" in taken:
        return make(epsilon=epsilon, **given)
    needed = [one for one in taken.values() if one.default is one.empty and one.name not in given]
    first = any(one.kind in _POSITIONAL for one in needed)
    return make(epsilon, **given) if first else make(**given)


def wanted(make: Callable[..., Any], facts: dict[str, Any]) -> dict[str, Any]:
    """The facts whose names a call takes, but those that its word says itself.

    >>> wanted(lambda e, dim=1: e, {"dim": 3, "classes": 2})
    {'dim': 3}
    """
    said = make.keywords if isinstance(make, partial) else {}
    taken = inspect.signature(make).parameters.keys() - said.keys()
    return {name: fact for name, fact in facts.items() if name in taken}


def on_vectors(make: Callable[..., Any], epsilon: float, dim: int, **facts: Any) -> Any:
    """A mechanism on vectors in [-1, 1]^dim at a budget, of one on such vectors or on one number.

    A mechanism on one number is put into :class:`~ldp_jax.features.Sampled`, with a coordinate for
    each 2.5 of epsilon. ``facts`` are given to ``make`` where it takes their names. ``ValueError``
    for other records or a guarantee that is not at most epsilon per record, ``TypeError`` for what
    is no mechanism.

    >>> on_vectors(features.Duchi, 5.0, 8) == features.Sampled(
    ...     features.Duchi(2.5), 8, 2
    ... )
    True
    """
    made = called(make, epsilon, dim=dim, **facts)
    require_protocol(made)
    domain = made.domain()
    if domain == Interval(-1.0, 1.0):
        k = max(1, min(dim, int(epsilon / _EACH)))
        made = features.Sampled(called(make, share(epsilon, k), dim=dim, **facts), dim, k)
    elif domain != Box(dim):
        raise ValueError(
            f"a mechanism must be on numbers in [-1, 1] or on vectors of {dim} of them, got "
            f"{domain}: a server of your own may ask for anything else"
        )
    _check_guarantee(made.guarantee(), RECORD, epsilon)
    return made


def on_classes(made: Mechanism, epsilon: float, classes: int) -> OfOneHot | None:
    """A mechanism on the classes 0 to C - 1 as one on vectors of one 1; None for other records.

    ``ValueError`` for a guarantee that is not at most epsilon per record.

    >>> on_classes(features.GeneralizedRR(1.0, 3), 1.0, 3) is not None
    True
    """
    if made.domain() != Finite(tuple(range(classes))):
        return None
    _check_guarantee(made.guarantee(), RECORD, epsilon)
    return OfOneHot(made, classes)


def on_lists(make: Callable[..., Any], epsilon: float, **facts: Any) -> edges.OneUsersView:
    """A mechanism on neighbour lists at a budget per bit of a list, made as :func:`called` says.

    ``ValueError`` for a guarantee that is not at most epsilon, ``TypeError`` for no such mechanism.

    >>> on_lists(edges.RandomizedResponse, 1.0).guarantee().epsilon
    1.0
    """
    made = called(make, epsilon, **facts)
    if not isinstance(made, edges.OneUsersView):
        raise TypeError(
            f"a mechanism on neighbour lists must have privatize, guarantee, relationship, n, "
            f"reporting and reportings (edges.OneUsersView), got {type(made).__name__}"
        )
    _check_guarantee(made.guarantee(), NEIGHBOUR_LIST, epsilon)
    return made


@lru_cache  # models of functions are equal, and share programs, where they are one
def model_of(make: Callable[..., Any], outputs: int, **sizes: int | float) -> Model:
    """The model that a call makes of the sizes whose names it takes, ``outputs`` among them.

    ``TypeError`` where it needs others, or makes no model
    (:func:`~ldp_jax.learning.models.as_model`).

    >>> from ldp_jax.learning import models
    >>> model_of(models.mlp, 3, layers=2, hidden=8, heads=4) == models.mlp(2, 8, 3)
    True
    """
    given = {"outputs": outputs, **sizes}
    try:
        made = make(**wanted(make, given))
    except TypeError as error:
        raise TypeError(f"{error}; a training gives {', '.join(given)}") from error
    return as_model(made)


def _check_guarantee(stated: Guarantee, unit: Unit, epsilon: float) -> None:
    within = stated.unit == unit and not stated.delta and stated.epsilon <= epsilon * (1 + 1e-9)
    if not within or not compares_all(stated.adjacency):
        raise ValueError(
            f"a guarantee must be at most epsilon {epsilon:g} per {unit}, got {stated}; one about "
            "some pairs of inputs alone stands beside no other"
        )
