"""The one interface between models and everything else."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, Array, PRNGKey

Variables: TypeAlias = Mapping[str, PyTree]
"""The parameters of a model under ``params``, and its other state by name."""


@dataclasses.dataclass(frozen=True)
class Bound:
    """A function with its first arguments given.

    Equal to every other of the same function and arguments.
    """

    # ``functools.partial`` compares by identity, and each one is another compiled program.

    function: Callable
    given: tuple

    __repr__ = by_shapes

    def __call__(self, *args: PyTree, **named: PyTree) -> PyTree:
        return self.function(*self.given, *args, **named)


class Model(NamedTuple):
    """A model as two pure functions; one compiled program serves all equal models.

    Constructors of this package return equal models for equal arguments; of your own make each
    once.

    Attributes:
      init: ``init(key, inputs) -> variables``: parameters and batch statistics.
      apply: ``apply(variables, inputs, *, key, train) -> (outputs, variables)``; ``key`` may be
        None where ``train`` is False. ``inputs`` is any pytree.
    """

    init: Callable[[PRNGKey, PyTree], Variables]
    apply: Callable[..., tuple[Array, Variables]]

    __repr__ = by_shapes


def check_sizes(dropout: float = 0.0, **sizes: int) -> None:
    """Refuse sizes that are no whole numbers >= 1, and a dropout outside [0, 1)."""
    validate.integer_in(1, **sizes)
    validate.in_range(0.0, 0.999, dropout=dropout)


def from_linen(module: nn.Module) -> Model:
    """Wrap a linen module whose ``__call__(inputs, train)`` returns its outputs."""
    return Model(Bound(_init, (module,)), Bound(_apply, (module,)))


def as_model(made: object) -> Model:
    """A model of a linen module, or of anything that has ``init`` and ``apply`` as a model has.

    ``TypeError`` for what is neither.

    >>> class Linear(nn.Module):
    ...     @nn.compact
    ...     def __call__(self, inputs, train):
    ...         return nn.Dense(3)(inputs)
    >>> made = as_model(Linear())
    >>> made == as_model(Linear()), as_model(made) is made
    (True, True)
    """
    if isinstance(made, Model):
        return made
    if isinstance(made, nn.Module):
        return from_linen(made)
    init = getattr(made, "init", None)
    apply = getattr(made, "apply", None)
    if callable(init) and callable(apply):
        return Model(init, apply)
    raise TypeError(
        "a model must be a linen module with __call__(inputs, train), or have init(key, inputs) "
        f"and apply(variables, inputs, *, key, train), got {type(made).__name__}"
    )


@implicit_promotion()
def _init(module: nn.Module, key: PRNGKey, inputs: PyTree) -> Variables:
    variables = module.init({"params": key}, inputs, train=False)

    def narrow(leaf: AnyArray) -> AnyArray:
        """In 64-bit mode some initializers of flax make float64."""
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            return leaf.astype(jnp.float32)
        return leaf

    return jax.tree.map(narrow, variables)


@implicit_promotion()
def _apply(
    module: nn.Module, variables: Variables, inputs: PyTree, *, key: PRNGKey | None, train: bool
) -> tuple[Array, Variables]:
    rngs = {"dropout": random.unrolled(key)} if train and key is not None else {}
    outputs, changed = module.apply(
        variables, inputs, train=train, rngs=rngs, mutable=["batch_stats"]
    )
    return outputs, {**variables, **changed}
