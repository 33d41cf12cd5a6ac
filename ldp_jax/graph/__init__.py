"""Graphs, sums over neighbours, propagation, and batches of many graphs.

Modules are imported on first use.
"""

from ldp_jax.core import lazy

__getattr__, __dir__ = lazy.attach(
    __name__, {}, "aggregation graphs interop merging packing propagation"
)
