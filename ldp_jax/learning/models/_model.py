"""The one interface between models and everything else."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import flax.linen as nn

from ldp_jax.core.types import PRNGKey

Variables: TypeAlias = Mapping[str, Any]
"""What a model has learnt under ``params``, and what else it keeps, by name; pytrees of arrays."""


class Model(NamedTuple):
    """A model as two pure functions.

    Attributes:
      init: ``init(key, inputs) -> variables``: parameters and batch statistics.
      apply: ``apply(variables, inputs, *, key, train) -> (outputs, variables)``; ``key`` may be None where
        ``train`` is False.

    ``inputs`` is any pytree. Models are compared by identity, so make each once: the constructors of this
    package are cached.
    """

    init: Callable[[PRNGKey, Any], Variables]
    apply: Callable[..., tuple[Any, Variables]]


def from_linen(module: nn.Module) -> Model:
    """Wrap a linen module whose ``__call__(inputs, train)`` returns its outputs."""

    def init(key: PRNGKey, inputs: Any) -> Variables:
        return module.init({"params": key}, inputs, train=False)

    def apply(variables: Variables, inputs: Any, *, key: PRNGKey | None, train: bool) -> tuple[Any, Variables]:
        rngs = {"dropout": key} if train and key is not None else {}
        outputs, changed = module.apply(variables, inputs, train=train, rngs=rngs, mutable=["batch_stats"])
        return outputs, {**variables, **changed}

    return Model(init, apply)
