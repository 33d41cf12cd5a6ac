"""The one interface between models and everything else."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import flax.linen as nn

from ldp_jax.core.types import PRNGKey

Variables: TypeAlias = Mapping[str, Any]
"""The parameters of a model under ``params``, and its other state by name; pytrees of arrays."""


@dataclasses.dataclass(frozen=True)
class Bound:
    """A function with its first arguments given; equal to every other of the same function and arguments.

    ``functools.partial`` compares by identity, and each one is another compiled program.
    """

    function: Callable[..., Any]
    given: tuple[Any, ...]

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.function(*self.given, *args, **named)


class Model(NamedTuple):
    """A model as two pure functions; one compiled program serves all equal models.

    The constructors of this package return equal models for equal arguments. Other models compare by their
    functions, so make each once.

    Attributes:
      init: ``init(key, inputs) -> variables``: parameters and batch statistics.
      apply: ``apply(variables, inputs, *, key, train) -> (outputs, variables)``; ``key`` may be None where
        ``train`` is False. ``inputs`` is any pytree.
    """

    init: Callable[[PRNGKey, Any], Variables]
    apply: Callable[..., tuple[Any, Variables]]


def from_linen(module: nn.Module) -> Model:
    """Wrap a linen module whose ``__call__(inputs, train)`` returns its outputs."""
    return Model(Bound(_init, (module,)), Bound(_apply, (module,)))


def _init(module: nn.Module, key: PRNGKey, inputs: Any) -> Variables:
    return module.init({"params": key}, inputs, train=False)


def _apply(
    module: nn.Module, variables: Variables, inputs: Any, *, key: PRNGKey | None, train: bool
) -> tuple[Any, Variables]:
    rngs = {"dropout": key} if train and key is not None else {}
    outputs, changed = module.apply(variables, inputs, train=train, rngs=rngs, mutable=["batch_stats"])
    return outputs, {**variables, **changed}
