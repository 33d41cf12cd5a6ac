"""Models, their training, metrics, and bounds of what noise leaves to learn.

* :mod:`models <ldp_jax.learning.models>` - MLP, GCN, GAT, GIN and hyperbolic networks; the one folder that imports
  flax;
* :mod:`training <ldp_jax.learning.training>` - nodes and pairs; many seeds at once;
* :mod:`graph_training <ldp_jax.learning.graph_training>` - packed graphs;
* :mod:`label_training <ldp_jax.learning.label_training>` - labels that are reported with noise;
* :mod:`metrics <ldp_jax.learning.metrics>`, :mod:`importance <ldp_jax.learning.importance>`,
  :mod:`bounds <ldp_jax.learning.bounds>`.

Modules are imported on first use.
"""

from ldp_jax.core import lazy

__getattr__, __dir__ = lazy.attach(
    __name__, {}, "bounds graph_training importance label_training metrics models training"
)
