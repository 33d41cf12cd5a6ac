"""Parameters beside the budget: one number each, in every place of a stack of personal budgets."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from ldp_jax.core import validate


def one(**kwargs: Any) -> float:
    """The one number that a parameter is, also where it has been given the shape of a stack.

    Raises:
      ValueError: for a traced one, or several numbers.

    >>> one(clip=2.0), one(clip=np.full(3, 2.0))
    (2.0, 2.0)
    """
    ((name, value),) = kwargs.items()
    if not validate.concrete(value):
        raise ValueError(f"{name} must be concrete here; ask outside jit, vmap and grad")
    array = np.asarray(value)
    if (
        not np.issubdtype(array.dtype, np.number)
        or np.iscomplexobj(array)
        or array.size == 0
        or (array != array.flat[0]).any()
    ):
        raise ValueError(f"{name} must be one number, got {value!r}")
    return float(array.flat[0])


def spread(made: Any, *names: str) -> None:
    """Give parameters of a mechanism that is being made the shape of its stack of budgets: ``vmap`` maps them all.

    An epsilon of no stack leaves them as they are.
    """
    shape = np.shape(made.epsilon)
    for name in names:
        value = getattr(made, name)
        if shape and np.shape(value) != shape:
            object.__setattr__(made, name, jnp.broadcast_to(jnp.asarray(value, jnp.float32), shape))
