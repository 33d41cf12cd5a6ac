"""Names of version 0.2 that moved to :mod:`ldp_jax.curators`; each says what to write.

They go with version 0.4.
"""

import importlib
import warnings

__all__: list[str] = []  # names that moved are given one by one, each with its warning


def __getattr__(name: str) -> object:
    home = importlib.import_module("ldp_jax.curators")
    if name not in home.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"ldp_jax.edges.curator.{name} is ldp_jax.curators.{name} now",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(home, name)
