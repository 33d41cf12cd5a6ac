"""The one interface between models and everything else."""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn


class Model(NamedTuple):
    """A model as two pure functions.

    Attributes:
      init: ``init(key, inputs) -> variables``: parameters and batch statistics.
      apply: ``apply(variables, inputs, *, key, train) -> (outputs, variables)``; ``key`` may be None where
        ``train`` is False.

    ``inputs`` is any pytree. Models are compared by identity, so make each once: the constructors of this
    package are cached.
    """

    init: Callable[..., Any]
    apply: Callable[..., Any]


def from_linen(module: nn.Module) -> Model:
    """Wrap a linen module whose ``__call__(inputs, train)`` returns its outputs."""

    def init(key: Any, inputs: Any) -> Any:
        return module.init({"params": key}, inputs, train=False)

    def apply(variables: Any, inputs: Any, *, key: Any, train: bool) -> Any:
        rngs = {"dropout": key} if train else {}
        outputs, changed = module.apply(variables, inputs, train=train, rngs=rngs, mutable=["batch_stats"])
        return outputs, {**variables, **changed}

    return Model(init, apply)
