"""Programs that a CPU compiles with options of its own; elsewhere as usual."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jaxlib.version

from ldp_jax.core import validate

LEVEL_2: Mapping[str, Any] = {"xla_backend_optimization_level": 2}
"""Above this level LLVM unrolls the generator of random words, for many sizes: three times the time to compile, for
the same bits and speed.
"""

WORDS: Mapping[str, Any] = {
    **LEVEL_2,
    **({"xla_cpu_use_fusion_emitters": False} if jaxlib.version.__version_info__[:2] == (0, 10) else {}),
}
"""Of programs that draw words for every user. XLA's older emitter of kernels compiles them in half the time of the
newer one, to the same bits; it is asked for where it is known to be.
"""


class jit:  # noqa: N801  it is jax.jit's to whoever reads it
    """``jax.jit``, with compiler options where the default backend is a CPU; within another program it has none.

    >>> doubled = jit(lambda x: 2 * x, LEVEL_2)
    >>> int(doubled(3)), int(jax.jit(doubled)(3))
    (6, 6)
    """

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any], **settings: Any) -> None:
        functools.update_wrapper(self, function)
        self._plain: Any = jax.jit(function, **settings)
        self._on_cpu: Any = jax.jit(function, compiler_options=dict(options), **settings)

    def _here(self) -> Any:
        return self._on_cpu if jax.default_backend() == "cpu" else self._plain

    def __call__(self, *args: Any, **words: Any) -> Any:
        """As ``jax.jit``'s."""
        within = not all(validate.concrete(leaf) for leaf in jax.tree.leaves((args, words)))
        return (self._plain if within else self._here())(*args, **words)

    def lower(self, *args: Any, **words: Any) -> Any:
        """As that of ``jax.jit``."""
        return self._here().lower(*args, **words)

    def _cache_size(self) -> int:
        return self._plain._cache_size() + self._on_cpu._cache_size()
