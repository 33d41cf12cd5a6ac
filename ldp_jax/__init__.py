"""Locally differentially private graph learning in JAX.

Sub-modules are imported on first use, so that ``ldp_jax.guarantee`` and ``ldp_jax.deployment`` never load JAX.
"""

import importlib
from types import ModuleType

__version__ = "0.1.0"

_MODULES = (
    "accounting",
    "aggregation",
    "datasets",
    "deployment",
    "domains",
    "edges",
    "features",
    "graph_training",
    "graphs",
    "guarantee",
    "mechanism",
    "metrics",
    "models",
    "packing",
    "pipeline",
    "propagation",
    "training",
    "types",
    "utility",
    "verification",
)

__all__ = ["__version__", *_MODULES]  # pyrefly: ignore[bad-dunder-all]


def __getattr__(name: str) -> ModuleType:
    if name in _MODULES:
        return importlib.import_module(f"ldp_jax.{name}")
    raise AttributeError(f"module 'ldp_jax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
